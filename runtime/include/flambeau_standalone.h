// What exported kernels need in place of flambeau's runtime: one thread, malloc, a plain product of float matrices.
// Include it behind the kernels (inductor/tools/export_cpp.py), which bring FbRuntime and FbGemm.
#ifndef FLAMBEAU_STANDALONE_H
#define FLAMBEAU_STANDALONE_H

#include <stdlib.h>

namespace standalone {

inline void for_all(FbRange fn, void* arg, long n, long) {
    if (n > 0) fn(arg, 0, n, 0);
}
inline int one() { return 1; }
inline void* alloc(long bytes) { return aligned_alloc(64, (bytes + 127) / 64 * 64); }
inline void release(void* block) { free(block); }
inline unsigned long clock() { return 0; }

// One row of results at a time, summed in double; what follows the product gets the row as a tile.
inline void gemm(const FbGemm* p) {
    if (p->a_type != FB_FLOAT || p->b_type != FB_FLOAT || p->out_type != FB_FLOAT) abort();
    float* row = (float*)alloc(p->N * sizeof(float));
    long batches = 1;
    for (int d = 0; d < p->batch_dims; d++) batches *= p->batch[d];
    for (long batch = 0; batch < batches; batch++) {
        const float *a = (const float*)p->a, *b = (const float*)p->b;
        float* out = (float*)p->out;
        long rest = batch;
        for (int d = p->batch_dims - 1; d >= 0; d--) {
            const long at = rest % p->batch[d];
            rest /= p->batch[d];
            a += at * p->a_batch[d], b += at * p->b_batch[d];
            if (!p->epilogue) out += at * p->out_batch[d];
        }
        for (long m = 0; m < p->M; m++) {
            for (long n = 0; n < p->N; n++) {
                double sum = p->bias ? ((const float*)p->bias)[m * p->bias_m + n * p->bias_n] : 0;
                for (long k = 0; k < p->K; k++) sum += (double)a[m * p->a_m + k * p->a_k] * b[k * p->b_k + n * p->b_n];
                row[n] = sum;
                if (!p->epilogue) out[m * p->out_m + n * p->out_n] = sum;
            }
            if (p->epilogue) p->epilogue(p->epilogue_arg, row, p->N, batch, m, 0, 1, p->N);
        }
    }
    release(row);
}

inline FbRuntime runtime() {
    FbRuntime rt = {};
    rt.parallel_for = for_all, rt.num_threads = one, rt.alloc = alloc, rt.release = release, rt.gemm = gemm, rt.clock = clock;
    return rt;
}

} // namespace standalone

#endif
