/* The cards of a fake box, shared by the fakes of the driver, NVML and a training. A box is the folder BOX, which is
 * given when this is compiled:
 *   cards     a line for each card: bytes of memory, SMs, speed relative to the first, name
 *   held/PID  what a process holds: its start time, then for each of its cards number, bytes, percentage and demand
 *   lost      numbers of the cards that fell off the bus
 * Files are written beside their place and moved there, so that no half of one is read. */
/* Without a box there are no cards of its own, and no memory is counted. */
#ifndef BOX
#define BOX "/nonexistent"
#endif

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { MOST_CARDS = 64 };

typedef struct {
    unsigned long long bytes;
    unsigned sms;
    double speed;
    char name[64], uuid[48];
} card_t;

typedef struct {
    int pid, card;
    unsigned long long bytes;
    double percentage, demand;
} held_t;

static FILE *box_open(const char *name) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", BOX, name);
    return fopen(path, "r");
}

/* The cards of the box; 0 without one. */
static int box_cards(card_t *all) {
    FILE *file = box_open("cards");
    int count = 0;
    while (file && count < MOST_CARDS &&
           fscanf(file, "%llu %u %lf %63[^\n]", &all[count].bytes, &all[count].sms, &all[count].speed,
                  all[count].name) == 4) {
        unsigned b = 0xab + (unsigned)count;
        snprintf(all[count].uuid, sizeof all[count].uuid,
                 "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b, b, b, b, b, b, b, b,
                 b, b, b, b, b, b, b, b);
        count++;
    }
    if (file) {
        fclose(file);
    }
    return count;
}

static int box_lost(int card) {
    FILE *file = box_open("lost");
    int number, found = 0;
    while (file && fscanf(file, "%d", &number) == 1) {
        found |= number == card;
    }
    if (file) {
        fclose(file);
    }
    return found;
}

/* Start time of a process that has not ended; 0 of others. It tells two processes with one number apart. */
static unsigned long long started(int pid) {
    char path[64], text[1024] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "r");
    if (!file) {
        return 0;
    }
    size_t length = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[length] = 0;
    char state = 'Z';
    unsigned long long start = 0;
    char *rest = strrchr(text, ')');
    if (rest) {
        sscanf(rest + 1, " %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu", &state,
               &start);
    }
    return state == 'Z' || state == 'X' ? 0 : start;
}

/* What live processes hold, at most `room`. */
static int box_held(held_t *all, int room) {
    DIR *folder = opendir(BOX "/held");
    int count = 0;
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        int pid = atoi(entry->d_name);
        char name[512];
        snprintf(name, sizeof name, "held/%s", entry->d_name);
        FILE *file = pid > 0 && !strchr(entry->d_name, '.') ? box_open(name) : NULL;
        if (!file) {
            continue;
        }
        unsigned long long start = 0;
        if (fscanf(file, "%llu", &start) == 1 && start == started(pid)) {
            held_t *one = &all[count];
            while (count < room && fscanf(file, "%d %llu %lf %lf", &one->card, &one->bytes, &one->percentage,
                                          &one->demand) == 4) {
                one->pid = pid;
                one = &all[++count];
            }
        }
        fclose(file);
    }
    if (folder) {
        closedir(folder);
    }
    return count;
}

/* The number of a card that CUDA_VISIBLE_DEVICES names: a number, or the beginning of a UUID; -1 if there is none. */
static int box_named(const card_t *cards, int count, const char *name, size_t length) {
    for (int i = 0; i < count; i++) {
        if (length > 4 && strncasecmp(cards[i].uuid, name, length) == 0) {
            return i;
        }
    }
    int digits = length > 0 && strspn(name, "0123456789") >= length;
    return digits && atoi(name) < count ? atoi(name) : -1;
}

/* The cards that a process sees, in their order; lost ones are not among them. */
static int box_visible(int *numbers) {
    static card_t cards[MOST_CARDS];
    int all = box_cards(cards), count = 0;
    const char *choice = getenv("CUDA_VISIBLE_DEVICES");
    if (!choice) {
        for (int i = 0; i < all; i++) {
            if (!box_lost(i)) {
                numbers[count++] = i;
            }
        }
        return count;
    }
    while (*choice && count < MOST_CARDS) {
        size_t length = strcspn(choice, ",");
        int number = box_named(cards, all, choice, length);
        /* As CUDA does: the list ends at the first name of nothing. */
        if (number < 0) {
            break;
        }
        if (!box_lost(number)) {
            numbers[count++] = number;
        }
        choice += length + (choice[length] == ',');
    }
    return count;
}
