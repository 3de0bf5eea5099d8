/* The part of the CUDA driver that finding GPUs needs: FAKE_GPUS (or one) Volta GPUs of
   80 SMs and 12 GiB. */
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
int cuInit(unsigned flags) { return flags; }
int cuDriverGetVersion(int *version) { *version = 12060; return 0; }
int cuDeviceGetCount(int *count) {
    const char *gpus = getenv("FAKE_GPUS");
    *count = gpus ? atoi(gpus) : 1;
    return 0;
}
int cuDeviceGet(int *device, int ordinal) { *device = ordinal; return 0; }
int cuDeviceGetName(char *name, int length, int device) { strncpy(name, "Fake GPU", length); return 0; }
int cuDeviceGetUuid(char *uuid, int device) { memset(uuid, 0xab + device, 16); return 0; }
int cuDeviceTotalMem_v2(unsigned long *bytes, int device) { *bytes = 12UL << 30; return 0; }
int cuDeviceGetAttribute(int *value, int attribute, int device) {
    if (attribute == 133) {
        /* MPS enabled: there is a daemon at the pipe directory. */
        const char *pipe = getenv("CUDA_MPS_PIPE_DIRECTORY");
        char path[4096];
        snprintf(path, sizeof path, "%s/fake/daemon.pid", pipe ? pipe : "/tmp/nvidia-mps");
        *value = access(path, F_OK) == 0 && !getenv("FAKE_MISSES");
        return 0;
    }
    *value = attribute == 16 ? 80 : attribute == 75 ? 7 : 0;
    return 0;
}
int cuGetErrorName(int code, const char **name) { *name = "CUDA_ERROR"; return code; }
int cuGetErrorString(int code, const char **text) { *text = "error"; return code; }
