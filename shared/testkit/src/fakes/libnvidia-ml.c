/* The few functions of NVML that are called here. They report the cards of the box, see cards.h. Without cards, each GPU
 * runs the processes whose numbers are in the file FAKE_COMPUTING, one a line; where that is no file, all fakes of
 * workers. Each holds 1 GiB of the 20 GiB in use. A GPU is used to 75 and 100 % in turn, its SMs hold warps in 60 % of the time and 25 % of
 * those that they could; with FAKE_NO_GPM it has no such counters. */
#include <sys/time.h>
#include <unistd.h>
#include "cards.h"

typedef struct {
    unsigned pid;
    unsigned long long memory;
    unsigned gpu_instance, compute_instance;
} process_t;

enum { SUCCESS = 0, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7, GPU_IS_LOST = 15 };

int nvmlInit_v2(void) { return SUCCESS; }
int nvmlShutdown(void) { return SUCCESS; }

int nvmlSystemGetDriverVersion(char *text, unsigned length) {
    snprintf(text, length, "550.54.14");
    return SUCCESS;
}

static card_t cards[MOST_CARDS];

/* A card of the box by its handle; -1 without a box. */
static int card_of(void *device) {
    card_t *card = device;
    return card >= cards && card < cards + MOST_CARDS ? (int)(card - cards) : -1;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, void **device) {
    int count = box_cards(cards);
    *device = (void *)"a GPU without a box";
    if (count == 0) {
        return SUCCESS;
    }
    int card = box_named(cards, count, uuid, strlen(uuid));
    *device = card < 0 ? NULL : &cards[card];
    return card < 0 ? NOT_FOUND : box_lost(card) ? GPU_IS_LOST : SUCCESS;
}

int nvmlDeviceGetCount_v2(unsigned *count) {
    *count = (unsigned)box_cards(cards);
    return SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned number, void **device) {
    *device = &cards[number];
    return box_lost((int)number) ? GPU_IS_LOST : SUCCESS;
}

int nvmlDeviceGetUUID(void *device, char *text, unsigned length) {
    snprintf(text, length, "%s", ((card_t *)device)->uuid);
    return SUCCESS;
}

int nvmlDeviceGetMigMode(void *device, unsigned *now, unsigned *pending) { return NOT_SUPPORTED; }

int nvmlDeviceGetComputeMode(void *device, int *mode) {
    *mode = 0;
    return SUCCESS;
}

static unsigned found, room;

static void holding(process_t *all, unsigned pid, unsigned long long bytes) {
    if (all && found < room) {
        memset(&all[found], 0, sizeof *all);
        all[found].pid = pid;
        all[found].memory = bytes;
    }
    found++;
}

static void computing(process_t *all, unsigned pid) { holding(all, pid, 1ULL << 30); }

static held_t held[1024];

static int is_worker(const char *pid) {
    char path[64], text[64] = "";
    snprintf(path, sizeof path, "/proc/%.20s/comm", pid);
    FILE *file = fopen(path, "r");
    if (file) {
        fgets(text, sizeof text, file);
        fclose(file);
    }
    /* Its subshells have its name. */
    return strcmp(text, "fake-worker\n") == 0 && getpgid(atoi(pid)) == atoi(pid);
}

int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, process_t *all) {
    const char *name = getenv("FAKE_COMPUTING");
    FILE *file = name ? fopen(name, "r") : NULL;
    unsigned pid;
    found = 0, room = *count;
    int card = card_of(device);
    if (card >= 0) {
        int all_held = box_held(held, 1024);
        for (int i = 0; i < all_held; i++) {
            if (held[i].card == card) {
                holding(all, (unsigned)held[i].pid, held[i].bytes);
            }
        }
        *count = found;
        return box_lost(card) ? GPU_IS_LOST : found > room ? INSUFFICIENT_SIZE : SUCCESS;
    }
    while (file && fscanf(file, "%u", &pid) == 1) {
        computing(all, pid);
    }
    if (file) {
        fclose(file);
    } else {
        DIR *processes = opendir("/proc");
        for (struct dirent *entry; processes && (entry = readdir(processes));) {
            if (is_worker(entry->d_name)) {
                computing(all, (unsigned)atoi(entry->d_name));
            }
        }
        if (processes) {
            closedir(processes);
        }
    }
    *count = found;
    return found > room ? INSUFFICIENT_SIZE : SUCCESS;
}

typedef struct {
    unsigned version;
    unsigned long long total, reserved, free, used;
} memory_t;

int nvmlDeviceGetMemoryInfo_v2(void *device, memory_t *memory) {
    memory->total = 24ULL << 30;
    memory->used = 20ULL << 30;
    int card = card_of(device);
    if (card >= 0) {
        int all_held = box_held(held, 1024);
        memory->total = cards[card].bytes;
        memory->used = 0;
        for (int i = 0; i < all_held; i++) {
            memory->used += held[i].card == card ? held[i].bytes : 0;
        }
        if (box_lost(card)) {
            return GPU_IS_LOST;
        }
    }
    memory->free = memory->total - memory->used;
    memory->reserved = 0;
    return SUCCESS;
}

typedef struct {
    unsigned gpu, memory;
} rates_t;

int nvmlDeviceGetUtilizationRates(void *device, rates_t *rates) {
    rates->gpu = 40;
    rates->memory = 20;
    return SUCCESS;
}

typedef struct {
    unsigned long long at;
    union {
        unsigned value;
        unsigned long long all;
    };
} sample_t;

/* One sample every 50 ms since the time given. */
int nvmlDeviceGetSamples(void *device, int what, unsigned long long since, int *type, unsigned *count,
                         sample_t *all) {
    struct timeval now;
    gettimeofday(&now, NULL);
    unsigned long long at = now.tv_sec * 1000000ULL + now.tv_usec;
    unsigned long long there = since < at ? (at - since) / 50000 : 0;
    if (there == 0) {
        return NOT_FOUND;
    }
    there = there > 100 ? 100 : there;
    unsigned most = all && *count < there ? *count : (unsigned)there;
    for (unsigned i = 0; all && i < most; i++) {
        all[i].at = at;
        all[i].value = i % 2 ? 100 : 75;
    }
    *type = 1;
    *count = most;
    return SUCCESS;
}

typedef struct {
    unsigned version, supported;
} support_t;

int nvmlGpmQueryDeviceSupport(void *device, support_t *support) {
    support->supported = getenv("FAKE_NO_GPM") == NULL;
    return SUCCESS;
}

int nvmlGpmSampleAlloc(void **sample) {
    *sample = malloc(1);
    return SUCCESS;
}

int nvmlGpmSampleFree(void *sample) {
    free(sample);
    return SUCCESS;
}

int nvmlGpmSampleGet(void *device, void *sample) { return SUCCESS; }

typedef struct {
    unsigned version, count;
    void *before, *after;
    struct {
        unsigned id;
        int result;
        double value;
        const char *names[3];
    } metrics[];
} metrics_t;

/* Metric 2 is the time in which SMs had warps, 3 their occupancy. */
int nvmlGpmMetricsGet(metrics_t *asked) {
    for (unsigned i = 0; i < asked->count; i++) {
        asked->metrics[i].result = SUCCESS;
        asked->metrics[i].value = asked->metrics[i].id == 2 ? 60 : asked->metrics[i].id == 3 ? 25 : -1;
    }
    return SUCCESS;
}
