/* The part of the CUDA driver that finding GPUs needs: the visible cards of the box (see cards.h), or FAKE_GPUS (or
   one) Volta GPUs of 80 SMs and 12 GiB. */
#include <unistd.h>
#include "cards.h"

static int boxed(int *numbers, card_t *cards) {
    return box_cards(cards) ? box_visible(numbers) : -1;
}

static card_t cards[MOST_CARDS];
static int numbers[MOST_CARDS];

int cuInit(unsigned flags) { return flags; }
int cuDriverGetVersion(int *version) { *version = 12060; return 0; }
int cuDeviceGetCount(int *count) {
    const char *gpus = getenv("FAKE_GPUS");
    *count = boxed(numbers, cards);
    if (*count < 0) {
        *count = gpus ? atoi(gpus) : 1;
    }
    return 0;
}
int cuDeviceGet(int *device, int ordinal) {
    *device = boxed(numbers, cards) < 0 ? ordinal : numbers[ordinal];
    return 0;
}
int cuDeviceGetName(char *name, int length, int device) {
    strncpy(name, boxed(numbers, cards) < 0 ? "Fake GPU" : cards[device].name, (size_t)length);
    return 0;
}
int cuDeviceGetUuid(char *uuid, int device) { memset(uuid, 0xab + device, 16); return 0; }
int cuDeviceTotalMem_v2(unsigned long *bytes, int device) {
    *bytes = boxed(numbers, cards) < 0 ? 12UL << 30 : cards[device].bytes;
    return 0;
}
int cuDeviceGetAttribute(int *value, int attribute, int device) {
    if (attribute == 133) {
        /* MPS enabled: there is a daemon at the pipe directory. */
        const char *pipe = getenv("CUDA_MPS_PIPE_DIRECTORY");
        char path[4096];
        snprintf(path, sizeof path, "%s/fake/daemon.pid", pipe ? pipe : "/tmp/nvidia-mps");
        *value = access(path, F_OK) == 0 && !getenv("FAKE_MISSES");
        return 0;
    }
    int sms = boxed(numbers, cards) < 0 ? 80 : (int)cards[device].sms;
    *value = attribute == 16 ? sms : attribute == 75 ? 7 : 0;
    return 0;
}
int cuGetErrorName(int code, const char **name) { *name = "CUDA_ERROR"; return code; }
int cuGetErrorString(int code, const char **text) { *text = "error"; return code; }
