// Products of whole numbers, which wrap around: signed and unsigned ones are the same for each size.
#ifndef FB_WHOLE_H
#define FB_WHOLE_H

#include "softmax_norm.h"

// p: out, a, b; n: M, N, K, strides a_m, a_k, b_k, b_n, panels, then strides of a batch of out, a and b. out is contiguous
// in its rows. A unit is a panel of WIDE columns of one matrix: its columns of b are copied side by side once.
template <class E> void whole_product(const Job& job, long begin, long end) {
    constexpr int WIDE = 2 * FB_W * 4 / sizeof(E) < 16 ? 16 : 2 * FB_W * 4 / sizeof(E);
    typedef E V __attribute__((vector_size(WIDE * sizeof(E) / 2)));
    const long *s = job.n, M = s[0], N = s[1], K = s[2];
    E* panel = (E*)job.rt->alloc((K + 1) * WIDE * sizeof(E));
    for (long unit = begin; unit < end; unit++) {
        long batch = unit / s[7], from = unit % s[7] * WIDE, count = N - from < WIDE ? N - from : WIDE;
        const E *a = (const E*)job.p[1] + batch * s[9], *b = (const E*)job.p[2] + batch * s[10] + from * s[6];
        E* out = (E*)job.p[0] + batch * s[8] + from;
        for (long k = 0; k < K; k++)
            for (long j = 0; j < WIDE; j++) panel[k * WIDE + j] = j < count ? b[k * s[5] + j * s[6]] : 0;
        for (long i = 0; i < M; i += 4) {
            long rows = M - i < 4 ? M - i : 4;
            V sum[4][2] = {};
            const E *r0 = a + i * s[3], *r1 = rows > 1 ? r0 + s[3] : r0, *r2 = rows > 2 ? r1 + s[3] : r0, *r3 = rows > 3 ? r2 + s[3] : r0;
            for (long k = 0; k < K; k++) {
                V low, high;
                __builtin_memcpy(&low, panel + k * WIDE, sizeof low);
                __builtin_memcpy(&high, panel + k * WIDE + WIDE / 2, sizeof high);
                sum[0][0] += low * r0[k * s[4]], sum[0][1] += high * r0[k * s[4]];
                sum[1][0] += low * r1[k * s[4]], sum[1][1] += high * r1[k * s[4]];
                sum[2][0] += low * r2[k * s[4]], sum[2][1] += high * r2[k * s[4]];
                sum[3][0] += low * r3[k * s[4]], sum[3][1] += high * r3[k * s[4]];
            }
            for (long r = 0; r < rows; r++) {
                E row[WIDE];
                __builtin_memcpy(row, &sum[r][0], sizeof(V));
                __builtin_memcpy(row + WIDE / 2, &sum[r][1], sizeof(V));
                __builtin_memcpy(out + (i + r) * N, row, count * sizeof(E));
            }
        }
    }
    job.rt->release(panel);
}

#endif
