/* The four functions of cuBLAS that mt-worker calls, column-major as the real ones. */
int cublasCreate_v2(void **handle) { *handle = (void *)1; return 0; }
int cublasDestroy_v2(void *handle) { return handle ? 0 : 1; }
int cublasSetStream_v2(void *handle, void *stream) { (void)stream; return handle ? 0 : 1; }
int cublasSgemm_v2(void *handle, int turn_a, int turn_b, int m, int n, int k, const float *alpha,
                   const float *a, int lda, const float *b, int ldb, const float *beta, float *c, int ldc) {
    /* What the real one refuses: leading dimensions below the stored rows. */
    if (!handle || lda < (turn_a ? k : m) || ldb < (turn_b ? n : k) || ldc < m) return 7;
    for (int j = 0; j < n; j++)
        for (int i = 0; i < m; i++) {
            float sum = 0;
            for (int l = 0; l < k; l++)
                sum += (turn_a ? a[l + (long)i * lda] : a[i + (long)l * lda]) *
                       (turn_b ? b[j + (long)l * ldb] : b[l + (long)j * ldb]);
            float *at = &c[i + (long)j * ldc];
            *at = *alpha * sum + (*beta != 0 ? *beta * *at : 0);
        }
    return 0;
}
