/* A training on the cards of a fake box (see cards.h) that trains nothing and takes its time:
 *
 *   fake-trainer [--memory 3G] [--ramp S] [--start S] [--seconds S] [--steps N] [--demand D] [--contention A]
 *                [--fault S] [--card N]
 *
 * --start     seconds before it uses a card, as for imports (0)
 * --memory    what it holds on each of its cards in the end, with K, M or G (1G)
 * --ramp      seconds from a tenth of that to all of it (0)
 * --seconds   how long it trains alone on a card of speed 1 (10); --steps: how many steps that is (100)
 * --demand    the part of a card that it uses alone (0.2); --contention: see below (0.09)
 * --fault     seconds of training until an illegal access brings the MPS server down, and all of its clients with it
 * --card      the card of a process outside of MPS, such as a stranger; otherwise CUDA_VISIBLE_DEVICES says it
 *
 * A client with the percentage p (1 is all) and the demand d trains at
 *   speed of the card * min(1, p / d) * min(1, 1 / sum of min(p, d)) / (1 + A * max(0, sum of p - 1)),
 * sums over all on the card: nobody trains faster than under its cap, the card does no more than it can, and clients
 * that may all use the same SMs disturb each other. With the defaults, eight at 100, 60 and 30 % reach 3.1, 3.7 and
 * 4.4 times one alone, near what eight unlike trainings reached on an H200 (3.1, 3.6, 4.5).
 *
 * Memory that does not suffice ends it with PyTorch's words. Progress is a line for each step; with MT_TASK in the
 * environment, lines of the worker protocol. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "cards.h"

static card_t cards[MOST_CARDS];
static int own[MOST_CARDS], count_own, count_cards;
static double percentage = 100, demand = 0.2, contention = 0.09;
static held_t held[1024];
static int is_worker;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void wait_for(double seconds) {
    struct timespec t = {(time_t)seconds, (long)(1e9 * (seconds - (double)(time_t)seconds))};
    nanosleep(&t, NULL);
}

static int end(const char *words) {
    char path[4096];
    snprintf(path, sizeof path, BOX "/held/%d", getpid());
    unlink(path);
    if (words) {
        fprintf(stderr, "Traceback (most recent call last):\n  File \"train.py\", line 1, in <module>\n%s\n", words);
    }
    exit(words ? 1 : 0);
}

static double gib(unsigned long long bytes) { return (double)bytes / (double)(1ULL << 30); }

/* What the variable of MPS allows on a card, by its place among the visible ones. */
static unsigned long long limit(int place) {
    const char *limits = getenv("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT");
    while (limits && *limits) {
        int number;
        unsigned long long mebibytes;
        if (sscanf(limits, "%d=%lluM", &number, &mebibytes) == 2 && number == place) {
            return mebibytes << 20;
        }
        limits = strchr(limits, ',');
        limits += limits != NULL;
    }
    return ~0ULL;
}

/* Holds this much of each card, or ends for lack of memory. One process at a time. */
static void hold(unsigned long long bytes) {
    static unsigned long long before;
    char path[4096], part[4200];
    if (bytes <= before) {
        return;
    }
    int lock = open(BOX "/lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    flock(lock, LOCK_EX);
    int all = box_held(held, 1024);
    for (int i = 0; i < count_own; i++) {
        unsigned long long most = cards[own[i]].bytes, used = 0;
        for (int j = 0; j < all; j++) {
            used += held[j].card == own[i] && held[j].pid != getpid() ? held[j].bytes : 0;
        }
        unsigned long long room = most > used ? most - used : 0;
        unsigned long long capped = limit(i);
        if (bytes > (room < capped ? room : capped)) {
            char words[512];
            snprintf(words, sizeof words,
                     "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate %.2f GiB. GPU %d has a total "
                     "capacity of %.2f GiB of which %.2f GiB is free.",
                     gib(bytes - before), i, gib(most), gib(room > before ? room - before : 0));
            flock(lock, LOCK_UN);
            end(words);
        }
    }
    snprintf(path, sizeof path, BOX "/held/%d", getpid());
    snprintf(part, sizeof part, "%s.new", path);
    FILE *file = fopen(part, "w");
    if (!file) {
        perror(part);
        exit(2);
    }
    fprintf(file, "%llu\n", started(getpid()));
    for (int i = 0; i < count_own; i++) {
        fprintf(file, "%d %llu %g %g\n", own[i], bytes, percentage, demand);
    }
    fclose(file);
    rename(part, path);
    before = bytes;
    close(lock);
}

/* Becomes a client of the daemon that the environment names, as the driver does; without one it runs outside of MPS. */
static void connect_mps(void) {
    char command[4096];
    if (!getenv("CUDA_MPS_PIPE_DIRECTORY")) {
        return;
    }
    snprintf(command, sizeof command, "'" BOX "/../nvidia-cuda-mps-control' --connect %d", getpid());
    FILE *answer = popen(command, "r");
    double said = 100;
    int known = answer && fscanf(answer, "%lf", &said) == 1;
    int status = answer ? pclose(answer) : -1;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 2) {
        end("RuntimeError: CUDA error: CUDA_ERROR_MPS_MAX_CLIENTS_REACHED");
    }
    if (status == 0 && known) {
        percentage = said;
    }
    if (is_worker) {
        printf("{\"mt\":\"ready\",\"mps\":%s,\"sms\":%d}\n", status == 0 ? "true" : "false",
               (int)(cards[own[0]].sms * percentage / 100 + 0.99));
    }
}

static void put_status(const char *status) {
    char path[4096], part[4200];
    snprintf(path, sizeof path, "%s/fake/status", getenv("CUDA_MPS_PIPE_DIRECTORY"));
    snprintf(part, sizeof part, "%s.%d", path, getpid());
    FILE *file = fopen(part, "w");
    if (file) {
        fprintf(file, "%s\n", status);
        fclose(file);
        rename(part, path);
    }
}

static int server_faulted(void) {
    char path[4096], text[32] = "";
    const char *pipe = getenv("CUDA_MPS_PIPE_DIRECTORY");
    snprintf(path, sizeof path, "%s/fake/status", pipe ? pipe : "");
    FILE *file = pipe ? fopen(path, "r") : NULL;
    if (file) {
        fscanf(file, "%31s", text);
        fclose(file);
    }
    return strcmp(text, "FAULT") == 0;
}

/* Training per second relative to alone on a card of speed 1; the slowest of its cards decides. */
static double rate(void) {
    int all = box_held(held, 1024);
    double slowest = 1e9;
    for (int i = 0; i < count_own; i++) {
        double shares = 0, wanted = 0;
        for (int j = 0; j < all; j++) {
            if (held[j].card == own[i]) {
                double share = held[j].percentage / 100;
                shares += share;
                wanted += share < held[j].demand ? share : held[j].demand;
            }
        }
        double capped = percentage / 100 < demand ? percentage / 100 / demand : 1;
        double full = wanted > 1 ? 1 / wanted : 1;
        double disturbed = shares > 1 ? 1 + contention * (shares - 1) : 1;
        double here = cards[own[i]].speed * capped * full / disturbed;
        slowest = here < slowest ? here : slowest;
    }
    return slowest;
}

static unsigned long long bytes_of(const char *text) {
    char *unit;
    double number = strtod(text, &unit);
    int shift = *unit == 'G' ? 30 : *unit == 'M' ? 20 : *unit == 'K' ? 10 : 0;
    return (unsigned long long)(number * (double)(1ULL << shift));
}

int main(int argc, char **argv) {
    unsigned long long memory = 1ULL << 30;
    double ramp = 0, start = 0, seconds = 10, steps = 100, fault = -1;
    int card = -1;
    for (int i = 1; i + 1 < argc; i += 2) {
        const char *option = argv[i], *value = argv[i + 1];
        double number = atof(value);
        if (!strcmp(option, "--memory")) memory = bytes_of(value);
        else if (!strcmp(option, "--ramp")) ramp = number;
        else if (!strcmp(option, "--start")) start = number;
        else if (!strcmp(option, "--seconds")) seconds = number;
        else if (!strcmp(option, "--steps")) steps = number;
        else if (!strcmp(option, "--demand")) demand = number;
        else if (!strcmp(option, "--contention")) contention = number;
        else if (!strcmp(option, "--fault")) fault = number;
        else if (!strcmp(option, "--card")) card = atoi(value);
        else return fprintf(stderr, "fake-trainer: no option %s\n", option), 2;
    }
    is_worker = getenv("MT_TASK") != NULL;
    count_cards = box_cards(cards);
    if (count_cards == 0 || card >= count_cards) {
        return fprintf(stderr, "fake-trainer: the box has no such card\n"), 2;
    }
    wait_for(start);
    if (card >= 0) {
        own[0] = card, count_own = 1;
    } else {
        count_own = box_visible(own);
        /* A script uses the first card that it sees, one that was given several uses all. */
        count_own = getenv("CUDA_VISIBLE_DEVICES") ? count_own : count_own > 0;
    }
    if (count_own == 0) {
        end("RuntimeError: No CUDA GPUs are available");
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (card < 0) {
        connect_mps();
    }
    hold(ramp > 0 ? memory / 10 : memory);
    const char *batch = getenv("MT_BATCH_SIZE");
    double begun = now(), last = begun, done = 0;
    for (int step = 0; step < (int)steps;) {
        wait_for(0.02);
        double at = now();
        double grown = ramp > 0 ? 0.1 + 0.9 * (at - begun) / ramp : 1;
        hold(grown < 1 ? (unsigned long long)(grown * (double)memory) : memory);
        if (fault >= 0 && at - begun >= fault) {
            put_status("FAULT");
            end("RuntimeError: CUDA error: an illegal memory access was encountered");
        }
        if (server_faulted()) {
            /* What NVIDIA documents: all clients get the error, without who caused it. */
            end("RuntimeError: CUDA error: unspecified launch failure");
        }
        for (int i = 0; i < count_own; i++) {
            if (box_lost(own[i])) {
                end("RuntimeError: CUDA error: unknown error");
            }
        }
        done += rate() * (at - last);
        last = at;
        for (; step < (int)steps && done >= (step + 1) * seconds / steps;) {
            step++;
            if (is_worker) {
                printf("{\"mt\":\"step\",\"samples\":%s,\"loss\":1.5}\n", batch ? batch : "1");
            } else {
                printf("step %d/%d\n", step, (int)steps);
            }
        }
    }
    return end(NULL);
}
