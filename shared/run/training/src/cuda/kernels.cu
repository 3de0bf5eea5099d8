// Kernels of a training step, fp32, activations as [batch][row][column][channel].
// compile_ptx.py turns this file into kernels.ptx, which is what the program embeds.
// Every kernel is extern "C"; sizes are unsigned; `add` says whether a result is added to what
// is there (a value with several consumers) or replaces it.

typedef unsigned int u32;

#define KERNEL extern "C" __global__ void
#define INDEX (blockIdx.x * blockDim.x + threadIdx.x)

static __device__ inline void put(float *at, float value, u32 add) {
    *at = add ? *at + value : value;
}

// ---- Matrix products ------------------------------------------------------------------------
// C(m, n) = sum over k in [k0, k1) of A(m, k) B(k, n): 64 x 64 outputs per block of 256 threads,
// 4 x 4 per thread, 16 of k at a time in shared memory. A, B and the result are functors, so
// that convolutions gather their operands here and no unfolded copy is ever written.

#define TILE 64
#define DEPTH 16

template <class A, class B, class C>
static __device__ inline void product(u32 m_end, u32 n_end, u32 k0, u32 k1, A a, B b, C c) {
    __shared__ float as[DEPTH][TILE + 1];
    __shared__ float bs[DEPTH][TILE];
    const u32 thread = threadIdx.x;
    const u32 m0 = blockIdx.x * TILE, n0 = blockIdx.y * TILE;
    const u32 row = thread / 16 * 4, column = thread % 16 * 4;
    float sums[4][4] = {};
    for (u32 k = k0; k < k1; k += DEPTH) {
        for (u32 i = 0; i < 4; i++) {
            const u32 e = thread + 256 * i;
            const u32 ka = e % DEPTH, m = e / DEPTH;
            as[ka][m] = m0 + m < m_end && k + ka < k1 ? a(m0 + m, k + ka) : 0.0f;
            const u32 n = e % TILE, kb = e / TILE;
            bs[kb][n] = n0 + n < n_end && k + kb < k1 ? b(k + kb, n0 + n) : 0.0f;
        }
        __syncthreads();
        for (u32 kk = 0; kk < DEPTH; kk++) {
            for (u32 i = 0; i < 4; i++) {
                for (u32 j = 0; j < 4; j++) {
                    sums[i][j] += as[kk][row + i] * bs[kk][column + j];
                }
            }
        }
        __syncthreads();
    }
    for (u32 i = 0; i < 4; i++) {
        for (u32 j = 0; j < 4; j++) {
            const u32 m = m0 + row + i, n = n0 + column + j;
            if (m < m_end && n < n_end) c(m, n, sums[i][j]);
        }
    }
}

// The part of [0, k) that this block of a split-k product sums.
static __device__ inline u32 split(u32 k, u32 part) {
    const u32 each = (k + gridDim.z - 1) / gridDim.z;
    const u32 at = each * part;
    return at < k ? at : k;
}

struct Strided {
    const float *p;
    u32 rows, columns;
    __device__ float operator()(u32 i, u32 j) const { return p[(size_t)i * rows + (size_t)j * columns]; }
};

struct Store {
    float *p;
    u32 columns, add;
    __device__ void operator()(u32 m, u32 n, float v) const { put(&p[(size_t)m * columns + n], v, add); }
};

struct Accumulate {
    float *p;
    u32 columns;
    __device__ void operator()(u32 m, u32 n, float v) const { atomicAdd(&p[(size_t)m * columns + n], v); }
};

// C[m][n] = A B with the strides of A and B given, so that either may be transposed.
KERNEL gemm(const float *a, const float *b, float *c, u32 m, u32 n, u32 k, u32 a_m, u32 a_k,
            u32 b_k, u32 b_n, u32 add) {
    product(m, n, 0, k, Strided{a, a_m, a_k}, Strided{b, b_k, b_n}, Store{c, n, add});
}

// As gemm, the depth split over blocks, added to C.
KERNEL gemm_split(const float *a, const float *b, float *c, u32 m, u32 n, u32 k, u32 a_m, u32 a_k,
                  u32 b_k, u32 b_n) {
    product(m, n, split(k, blockIdx.z), split(k, blockIdx.z + 1), Strided{a, a_m, a_k},
            Strided{b, b_k, b_n}, Accumulate{c, n});
}

// Geometry of a convolution: square maps, weights as [window row][window column][in][out].
struct Conv {
    u32 side, in, result, out, window, stride, padding;
};

struct Image {
    const float *x;
    Conv g;
    __device__ float at(u32 pixel, u32 row, u32 column, u32 channel) const {
        const u32 ox = pixel % g.result, oy = pixel / g.result % g.result;
        const u32 image = pixel / (g.result * g.result);
        const u32 y = oy * g.stride + row - g.padding, x_ = ox * g.stride + column - g.padding;
        if (y >= g.side || x_ >= g.side) return 0.0f;
        return x[(((size_t)image * g.side + y) * g.side + x_) * g.in + channel];
    }
    // Output pixel by weight row.
    __device__ float operator()(u32 pixel, u32 k) const {
        return at(pixel, k / g.in / g.window, k / g.in % g.window, k % g.in);
    }
};

// The same, transposed: weight row by output pixel.
struct ImageRows {
    Image image;
    __device__ float operator()(u32 m, u32 k) const { return image(k, m); }
};

// Gradient of the result that reaches an input pixel through tap and output channel k.
struct Gradient {
    const float *dy;
    Conv g;
    __device__ float operator()(u32 pixel, u32 k) const {
        const u32 x = pixel % g.side, y = pixel / g.side % g.side;
        const u32 image = pixel / (g.side * g.side);
        const u32 channel = k % g.out, tap = k / g.out;
        const u32 down = y + g.padding - tap / g.window, right = x + g.padding - tap % g.window;
        if (down % g.stride || right % g.stride) return 0.0f;
        const u32 oy = down / g.stride, ox = right / g.stride;
        if (oy >= g.result || ox >= g.result) return 0.0f;
        return dy[(((size_t)image * g.result + oy) * g.result + ox) * g.out + channel];
    }
};

struct WeightsTurned {
    const float *w;
    Conv g;
    __device__ float operator()(u32 k, u32 n) const {
        return w[((size_t)(k / g.out) * g.in + n) * g.out + k % g.out];
    }
};

#define CONV_ARGS u32 batch, u32 side, u32 in, u32 result, u32 out, u32 window, u32 stride, u32 padding
#define CONV \
    Conv { side, in, result, out, window, stride, padding }

KERNEL conv_forward(const float *x, const float *w, float *y, CONV_ARGS) {
    const u32 k = window * window * in;
    product(batch * result * result, out, 0, k, Image{x, CONV}, Strided{w, out, 1}, Store{y, out, 0});
}

KERNEL conv_data(const float *dy, const float *w, float *dx, CONV_ARGS, u32 add) {
    const u32 k = window * window * out;
    product(batch * side * side, in, 0, k, Gradient{dy, CONV}, WeightsTurned{w, CONV}, Store{dx, in, add});
}

KERNEL conv_weights(const float *x, const float *dy, float *dw, CONV_ARGS) {
    const u32 k = batch * result * result;
    product(window * window * in, out, split(k, blockIdx.z), split(k, blockIdx.z + 1),
            ImageRows{Image{x, CONV}}, Strided{dy, out, 1}, Accumulate{dw, out});
}

// ---- Grouped convolution, one thread per result; weights [row][column][in / groups][out] ----

KERNEL group_forward(const float *x, const float *w, float *y, CONV_ARGS, u32 groups) {
    const u32 i = INDEX;
    if (i >= batch * result * result * out) return;
    const u32 co = i % out, pixel = i / out, each = in / groups;
    const u32 first = co / (out / groups) * each;
    const Image image{x, CONV};
    float sum = 0.0f;
    for (u32 tap = 0; tap < window * window; tap++) {
        for (u32 c = 0; c < each; c++) {
            sum += image.at(pixel, tap / window, tap % window, first + c) * w[(tap * each + c) * out + co];
        }
    }
    y[i] = sum;
}

KERNEL group_data(const float *dy, const float *w, float *dx, CONV_ARGS, u32 groups, u32 add) {
    const u32 i = INDEX;
    if (i >= batch * side * side * in) return;
    const u32 ci = i % in, pixel = i / in, each = in / groups, outs = out / groups;
    const Gradient gradient{dy, CONV};
    float sum = 0.0f;
    for (u32 tap = 0; tap < window * window; tap++) {
        for (u32 c = 0; c < outs; c++) {
            const u32 co = ci / each * outs + c;
            sum += gradient(pixel, tap * out + co) * w[(tap * each + ci % each) * out + co];
        }
    }
    put(&dx[i], sum, add);
}

// Sum over the 256 threads of a block; every thread gets it.
static __device__ inline float block_sum(float value) {
    __shared__ float parts[256];
    __syncthreads();
    parts[threadIdx.x] = value;
    __syncthreads();
    for (u32 half = 128; half > 0; half /= 2) {
        if (threadIdx.x < half) parts[threadIdx.x] += parts[threadIdx.x + half];
        __syncthreads();
    }
    return parts[0];
}

// One block per weight.
KERNEL group_weights(const float *x, const float *dy, float *dw, CONV_ARGS, u32 groups) {
    const u32 co = blockIdx.x % out, row = blockIdx.x / out, each = in / groups;
    const u32 tap = row / each, ci = co / (out / groups) * each + row % each;
    const Image image{x, CONV};
    float sum = 0.0f;
    for (u32 pixel = threadIdx.x; pixel < batch * result * result; pixel += 256) {
        sum += image.at(pixel, tap / window, tap % window, ci) * dy[(size_t)pixel * out + co];
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) dw[blockIdx.x] = sum;
}

// ---- Sums over rows, one column per channel: 32 columns by 8 rows of threads in a block -------

template <class F>
static __device__ inline void column_sums(u32 rows, u32 channels, float *first, float *second, F f) {
    __shared__ float parts[2][8][32];
    const u32 x = threadIdx.x % 32, y = threadIdx.x / 32;
    const u32 c = blockIdx.x * 32 + x;
    float one = 0.0f, two = 0.0f;
    if (c < channels) {
        for (u32 r = blockIdx.y * 8 + y; r < rows; r += gridDim.y * 8) f(r, c, one, two);
    }
    parts[0][y][x] = one;
    parts[1][y][x] = two;
    __syncthreads();
    if (y == 0 && c < channels) {
        for (u32 i = 1; i < 8; i++) {
            one += parts[0][i][x];
            two += parts[1][i][x];
        }
        atomicAdd(&first[c], one);
        if (second) atomicAdd(&second[c], two);
    }
}

struct Moments {
    const float *x;
    u32 channels;
    __device__ void operator()(u32 r, u32 c, float &one, float &two) const {
        const float v = x[(size_t)r * channels + c];
        one += v;
        two += v * v;
    }
};

#define EPSILON 1e-5f

// Mean and inverse deviation of a channel from its sums.
static __device__ inline void moments(const float *sums, u32 rows, u32 channels, u32 c, float &mean, float &scale) {
    mean = sums[c] / rows;
    const float variance = sums[channels + c] / rows - mean * mean;
    scale = rsqrtf((variance > 0.0f ? variance : 0.0f) + EPSILON);
}

struct NormSums {
    const float *x, *dy, *sums;
    u32 rows, channels;
    __device__ void operator()(u32 r, u32 c, float &one, float &two) const {
        float mean, scale;
        moments(sums, rows, channels, c, mean, scale);
        const size_t i = (size_t)r * channels + c;
        one += dy[i] * (x[i] - mean) * scale;
        two += dy[i];
    }
};

KERNEL norm_sums(const float *x, float *sums, u32 rows, u32 channels) {
    column_sums(rows, channels, sums, sums + channels, Moments{x, channels});
}

KERNEL norm_forward(const float *x, const float *sums, const float *gamma, const float *beta, float *y,
                    u32 rows, u32 channels) {
    const u32 i = INDEX;
    if (i >= rows * channels) return;
    const u32 c = i % channels;
    float mean, scale;
    moments(sums, rows, channels, c, mean, scale);
    y[i] = (x[i] - mean) * scale * gamma[c] + beta[c];
}

KERNEL norm_parameters(const float *x, const float *dy, const float *sums, float *dgamma, float *dbeta,
                       u32 rows, u32 channels) {
    column_sums(rows, channels, dgamma, dbeta, NormSums{x, dy, sums, rows, channels});
}

KERNEL norm_data(const float *x, const float *dy, const float *sums, const float *gamma,
                 const float *dgamma, const float *dbeta, float *dx, u32 rows, u32 channels, u32 add) {
    const u32 i = INDEX;
    if (i >= rows * channels) return;
    const u32 c = i % channels;
    float mean, scale;
    moments(sums, rows, channels, c, mean, scale);
    const float normal = (x[i] - mean) * scale;
    put(&dx[i], gamma[c] * scale * (dy[i] - (dbeta[c] + normal * dgamma[c]) / rows), add);
}

struct Column {
    const float *x;
    u32 channels;
    __device__ void operator()(u32 r, u32 c, float &one, float &) const { one += x[(size_t)r * channels + c]; }
};

KERNEL bias_forward(float *y, const float *bias, u32 n, u32 channels) {
    const u32 i = INDEX;
    if (i < n) y[i] += bias[i % channels];
}

KERNEL bias_backward(const float *dy, float *dbias, u32 rows, u32 channels) {
    column_sums(rows, channels, dbias, (float *)0, Column{dy, channels});
}

// ---- Element-wise ---------------------------------------------------------------------------

KERNEL fill(float *p, u32 n, float value) {
    const u32 i = INDEX;
    if (i < n) p[i] = value;
}

KERNEL copy(const float *x, float *y, u32 n, u32 add) {
    const u32 i = INDEX;
    if (i < n) put(&y[i], x[i], add);
}

KERNEL sum(const float *a, const float *b, float *y, u32 n) {
    const u32 i = INDEX;
    if (i < n) y[i] = a[i] + b[i];
}

KERNEL relu_forward(const float *x, float *y, u32 n) {
    const u32 i = INDEX;
    if (i < n) y[i] = x[i] > 0.0f ? x[i] : 0.0f;
}

KERNEL relu_backward(const float *x, const float *dy, float *dx, u32 n, u32 add) {
    const u32 i = INDEX;
    if (i < n) put(&dx[i], x[i] > 0.0f ? dy[i] : 0.0f, add);
}

// y = x times a gate per image and channel; `image` is the elements of one image. The same
// kernel takes dy to dx.
KERNEL scale(const float *x, const float *gate, float *y, u32 n, u32 channels, u32 image, u32 add) {
    const u32 i = INDEX;
    if (i < n) put(&y[i], x[i] * gate[i / image * channels + i % channels], add);
}

KERNEL scale_gate(const float *x, const float *dy, float *dgate, u32 n, u32 channels, u32 pixels, u32 add) {
    const u32 i = INDEX;
    if (i >= n) return;
    const size_t first = (size_t)(i / channels) * pixels * channels + i % channels;
    float sum = 0.0f;
    for (u32 p = 0; p < pixels; p++) sum += x[first + (size_t)p * channels] * dy[first + (size_t)p * channels];
    put(&dgate[i], sum, add);
}

// Copies `part` channels from channel `from_at` of rows of `from` to `to_at` of rows of `to`.
KERNEL channels(const float *x, float *y, u32 n, u32 part, u32 from, u32 from_at, u32 to, u32 to_at, u32 add) {
    const u32 i = INDEX;
    if (i >= n) return;
    const size_t row = i / part;
    const u32 c = i % part;
    put(&y[row * to + to_at + c], x[row * from + from_at + c], add);
}

// Channel shuffle of `groups`; its inverse is the shuffle of channels / groups.
KERNEL shuffle(const float *x, float *y, u32 n, u32 channels, u32 groups, u32 add) {
    const u32 i = INDEX;
    if (i >= n) return;
    const u32 c = i % channels;
    put(&y[i], x[i - c + c % groups * (channels / groups) + c / groups], add);
}

#define POOL_ARGS u32 n, u32 side, u32 channels, u32 result, u32 window, u32 stride, u32 padding

KERNEL pool_forward(const float *x, float *y, POOL_ARGS) {
    const u32 i = INDEX;
    if (i >= n) return;
    const Image image{x, Conv{side, channels, result, channels, window, stride, padding}};
    const u32 pixel = i / channels;
    const u32 oy = pixel / result % result, ox = pixel % result;
    float best = -3.4e38f;
    for (u32 tap = 0; tap < window * window; tap++) {
        const u32 row = oy * stride + tap / window - padding, column = ox * stride + tap % window - padding;
        if (row >= side || column >= side) continue;
        const float v = image.at(pixel, tap / window, tap % window, i % channels);
        best = v > best ? v : best;
    }
    y[i] = best;
}

// One thread per input; a maximum that occurs twice in a window passes its gradient to both.
KERNEL pool_backward(const float *x, const float *y, const float *dy, float *dx, POOL_ARGS, u32 add) {
    const u32 i = INDEX;
    if (i >= n) return;
    const Conv g{side, channels, result, channels, window, stride, padding};
    const Gradient values{y, g}, gradients{dy, g};
    const u32 pixel = i / channels, c = i % channels;
    float sum = 0.0f;
    for (u32 tap = 0; tap < window * window; tap++) {
        const float gradient = gradients(pixel, tap * channels + c);
        if (gradient != 0.0f && values(pixel, tap * channels + c) == x[i]) sum += gradient;
    }
    put(&dx[i], sum, add);
}

KERNEL mean_forward(const float *x, float *y, u32 n, u32 channels, u32 pixels) {
    const u32 i = INDEX;
    if (i >= n) return;
    const size_t first = (size_t)(i / channels) * pixels * channels + i % channels;
    float sum = 0.0f;
    for (u32 p = 0; p < pixels; p++) sum += x[first + (size_t)p * channels];
    y[i] = sum / pixels;
}

KERNEL mean_backward(const float *dy, float *dx, u32 n, u32 channels, u32 pixels, u32 add) {
    const u32 i = INDEX;
    if (i >= n) return;
    put(&dx[i], dy[i / (channels * pixels) * channels + i % channels] / pixels, add);
}

// ---- Loss and update ------------------------------------------------------------------------

// Softmax and cross-entropy of one image per block: adds the mean loss, writes its gradient.
KERNEL loss(const float *x, const u32 *labels, float *total, float *dx, u32 batch, u32 classes) {
    const float *row = x + (size_t)blockIdx.x * classes;
    __shared__ float best;
    if (threadIdx.x == 0) {
        best = row[0];
        for (u32 c = 1; c < classes; c++) best = row[c] > best ? row[c] : best;
    }
    __syncthreads();
    float part = 0.0f;
    for (u32 c = threadIdx.x; c < classes; c += 256) part += expf(row[c] - best);
    const float sum = block_sum(part);
    const u32 label = labels[blockIdx.x];
    for (u32 c = threadIdx.x; c < classes; c += 256) {
        const float p = expf(row[c] - best) / sum;
        dx[(size_t)blockIdx.x * classes + c] = (p - (c == label ? 1.0f : 0.0f)) / batch;
    }
    if (threadIdx.x == 0) atomicAdd(total, (logf(sum) + best - row[label]) / batch);
}

// Stochastic gradient descent with momentum.
KERNEL update(float *w, float *velocity, const float *dw, u32 n, float rate, float momentum) {
    const u32 i = INDEX;
    if (i >= n) return;
    velocity[i] = momentum * velocity[i] + dw[i];
    w[i] -= rate * velocity[i];
}
