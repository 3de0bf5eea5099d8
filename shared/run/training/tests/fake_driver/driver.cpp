// A libcuda that runs the kernels of kernels.cu on the processor, for tests without a GPU.
//
// It exports the driver functions that mt-worker calls. A kernel launch runs the very source that
// the embedded PTX was compiled from: one fiber per thread of a block, switched at
// __syncthreads. Every pointer argument must lie inside one live allocation, and a kernel that
// writes past an allocation hits a guard; both end the process with a message.
//
// FAKE_CUDA_SMS: SMs of the device (80), scaled by CUDA_MPS_ACTIVE_THREAD_PERCENTAGE if FAKE_CUDA_MPS=1.
// FAKE_CUDA_LAUNCH_FAILS=N: the N-th launch answers CUDA_ERROR_LAUNCH_FAILED.
// FAKE_CUDA_MEMORY: bytes of device memory (unlimited).

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <setjmp.h>
#include <string>
#include <ucontext.h>
#include <utility>
#include <vector>

struct Dim {
    unsigned x, y, z;
};
static Dim blockIdx, blockDim, gridDim, threadIdx;

#define __global__
#define __device__
#define __shared__ static

static void block_barrier();
static void __syncthreads() { block_barrier(); }
static float atomicAdd(float *at, float v) {
    const float old = *at;
    *at = old + v;
    return old;
}
static float rsqrtf(float v) { return 1.0f / sqrtf(v); }

#include KERNELS

// ---- Blocks of fibers -----------------------------------------------------------------------

// A fiber is entered once by swapcontext and from then on by _longjmp, which makes no system call.
static const unsigned FIBERS = 256;
static ucontext_t entry, fibers[FIBERS];
static jmp_buf scheduler, resume[FIBERS];
static char stacks[FIBERS][32768];
static bool done[FIBERS];
static unsigned current;
static void (*body)(void **);
static void **arguments;

static void block_barrier() {
    const unsigned me = current;
    if (!_setjmp(resume[me])) _longjmp(scheduler, 1);
}

static void fiber() {
    body(arguments);
    done[current] = true;
    _longjmp(scheduler, 1);
}

static void run_block() {
    static unsigned t;
    static bool more, first;
    const unsigned threads = blockDim.x;
    for (t = 0; t < threads; t++) {
        done[t] = false;
        getcontext(&fibers[t]);
        fibers[t].uc_stack.ss_sp = stacks[t];
        fibers[t].uc_stack.ss_size = sizeof stacks[t];
        fibers[t].uc_link = nullptr;
        makecontext(&fibers[t], fiber, 0);
    }
    for (first = more = true; more; first = false) {
        more = false;
        for (t = 0; t < threads; t++) {
            if (done[t]) continue;
            current = t;
            threadIdx = {t, 0, 0};
            if (!_setjmp(scheduler)) {
                if (first) swapcontext(&entry, &fibers[t]);
                else _longjmp(resume[t], 1);
            }
            more = more || !done[t];
        }
    }
}

// Kernels without a barrier need no fibers.
static void run_grid(bool barriers, Dim grid, Dim block) {
    gridDim = grid;
    blockDim = block;
    for (blockIdx.z = 0; blockIdx.z < grid.z; blockIdx.z++)
        for (blockIdx.y = 0; blockIdx.y < grid.y; blockIdx.y++)
            for (blockIdx.x = 0; blockIdx.x < grid.x; blockIdx.x++) {
                if (barriers) {
                    run_block();
                    continue;
                }
                for (unsigned t = 0; t < block.x; t++) {
                    threadIdx = {t, 0, 0};
                    body(arguments);
                }
            }
}

// ---- Calling a kernel with an array of pointers to its arguments ----------------------------

struct Function {
    void (*call)(void **);
    bool barriers;
    std::vector<bool> pointers;
};
static std::map<std::string, Function> functions;

template <class... A, size_t... I>
static void apply(void (*f)(A...), void **args, std::index_sequence<I...>) {
    f(*static_cast<A *>(args[I])...);
}

template <auto F>
struct Wrap;
template <class... A, void (*F)(A...)>
struct Wrap<F> {
    static void call(void **args) { apply(F, args, std::index_sequence_for<A...>()); }
    static std::vector<bool> pointers() { return {std::is_pointer<A>::value...}; }
};

#define ADD(name, barriers) functions[#name] = {Wrap<name>::call, barriers, Wrap<name>::pointers()}

static void fill_functions() {
    ADD(gemm, true), ADD(gemm_split, true), ADD(conv_forward, true), ADD(conv_data, true);
    ADD(conv_weights, true), ADD(group_forward, false), ADD(group_data, false);
    ADD(group_weights, true), ADD(norm_sums, true), ADD(norm_forward, false);
    ADD(norm_parameters, true), ADD(norm_data, false), ADD(bias_forward, false);
    ADD(bias_backward, true), ADD(fill, false), ADD(copy, false), ADD(sum, false);
    ADD(relu_forward, false), ADD(relu_backward, false), ADD(scale, false), ADD(scale_gate, false);
    ADD(channels, false), ADD(shuffle, false), ADD(pool_forward, false), ADD(pool_backward, false);
    ADD(mean_forward, false), ADD(mean_backward, false), ADD(loss, true), ADD(update, false);
}

// ---- Memory with guards ---------------------------------------------------------------------

static const size_t GUARD = 64;
static std::map<uint64_t, size_t> allocations;

static void check_guards() {
    for (auto &[at, size] : allocations) {
        const char *p = (const char *)at;
        for (size_t i = 0; i < GUARD; i++) {
            if (p[size + i] != 0x5a || p[-1 - (long)i] != 0x5a) {
                fprintf(stderr, "fake driver: a kernel wrote outside an allocation\n");
                abort();
            }
        }
    }
}

static bool inside(uint64_t p) {
    auto next = allocations.upper_bound(p);
    if (next == allocations.begin()) return false;
    --next;
    return p >= next->first && p < next->first + next->second;
}

static long number(const char *name, long otherwise) {
    const char *text = getenv(name);
    return text ? atol(text) : otherwise;
}

enum { OK = 0, INVALID = 1, OUT_OF_MEMORY = 2, NOT_FOUND = 500, LAUNCH_FAILED = 719 };

extern "C" {
int cuInit(unsigned) { return OK; }
int cuDeviceGet(int *device, int ordinal) {
    *device = 0;
    return ordinal == 0 ? OK : INVALID;
}
int cuDeviceGetAttribute(int *value, int attribute, int) {
    const bool mps = number("FAKE_CUDA_MPS", 0);
    switch (attribute) {
    case 16: {
        const long sms = number("FAKE_CUDA_SMS", 80);
        const char *share = getenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE");
        *value = mps && share ? (int)ceil(sms * atof(share) / 100.0) : (int)sms;
        return OK;
    }
    case 133: *value = mps; return OK;
    case 115: *value = 0; return OK;  // no memory pools
    default: *value = 0; return OK;
    }
}
int cuDevicePrimaryCtxRetain(void **context, int) {
    fill_functions();
    *context = (void *)1;
    return OK;
}
int cuDevicePrimaryCtxRelease_v2(int) { return OK; }
static void *bound;
int cuCtxGetCurrent(void **context) {
    *context = bound;
    return OK;
}
int cuCtxSetCurrent(void *context) {
    bound = context;
    return OK;
}
int cuModuleLoadData(void **module, const void *image) {
    *module = (void *)2;
    return strncmp((const char *)image, "// kernels.cu", 13) == 0 ? OK : INVALID;
}
int cuModuleUnload(void *) { return OK; }
int cuModuleGetFunction(void **function, void *, const char *name) {
    auto found = functions.find(name);
    if (found == functions.end()) return NOT_FOUND;
    *function = &found->second;
    return OK;
}
int cuMemAlloc_v2(uint64_t *at, size_t size) {
    size_t used = size;
    for (auto &a : allocations) used += a.second;
    if (used > (size_t)number("FAKE_CUDA_MEMORY", 1L << 40)) return OUT_OF_MEMORY;
    char *p = (char *)malloc(size + 2 * GUARD);
    memset(p, 0x5a, GUARD);
    memset(p + GUARD, 0xff, size);  // NaN: what nobody writes shows
    memset(p + GUARD + size, 0x5a, GUARD);
    *at = (uint64_t)(p + GUARD);
    allocations[*at] = size;
    return OK;
}
int cuMemAllocAsync(uint64_t *at, size_t size, void *) { return cuMemAlloc_v2(at, size); }
int cuMemFree_v2(uint64_t at) {
    check_guards();
    allocations.erase(at);
    free((char *)at - GUARD);
    return OK;
}
int cuMemFreeAsync(uint64_t at, void *) { return cuMemFree_v2(at); }
int cuMemsetD8Async(uint64_t at, unsigned char value, size_t size, void *) {
    memset((void *)at, value, size);
    return OK;
}
int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t size, void *) {
    memcpy((void *)to, from, size);
    return OK;
}
int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t size, void *) {
    check_guards();
    memcpy(to, (void *)from, size);
    return OK;
}
int cuLaunchKernel(Function *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned, void *, void **args, void **) {
    static long launches = 0;
    if (++launches == number("FAKE_CUDA_LAUNCH_FAILS", -1)) return LAUNCH_FAILED;
    if (!gx || !gy || !gz || gy > 65535 || gz > 65535 || bx > FIBERS || by * bz != 1) return INVALID;
    for (size_t i = 0; i < f->pointers.size(); i++) {
        if (f->pointers[i] && !inside(*(uint64_t *)args[i])) {
            fprintf(stderr, "fake driver: argument %zu points to no allocation\n", i);
            abort();
        }
    }
    body = f->call;
    arguments = args;
    run_grid(f->barriers, {gx, gy, gz}, {bx, by, bz});
    return OK;
}
int cuStreamSynchronize(void *) { return OK; }
int cuGetErrorName(int code, const char **name) {
    *name = code == OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY"
            : code == LAUNCH_FAILED ? "CUDA_ERROR_LAUNCH_FAILED"
                                    : "CUDA_ERROR_UNKNOWN";
    return OK;
}
int cuGetErrorString(int code, const char **text) { return cuGetErrorName(code, text); }
}
