// Distances of all pairs of rows, row by row of the pairs above the diagonal, and their gradient.
#ifndef FB_PAIR_ROWS_H
#define FB_PAIR_ROWS_H

#include "rows.h"

// where the pairs (i, i + 1), (i, i + 2), ... of so many rows begin
FB_INLINE long pairs_of(long i, long rows) { return i * rows - i * (i + 1) / 2; }

// p: out, x; n: rows, width. A unit is a row with those that follow it
template <class T> void pair_distances(const Job& job, long begin, long end) {
    FB_TYPES(T);
    long rows = job.n[0], width = job.n[1];
    for (long i = begin; i < end; i++) {
        const T* x = (const T*)job.p[1] + i * width;
        T* out = (T*)job.p[0] + pairs_of(i, rows);
        for (long j = i + 1; j < rows; j++) {
            const T* other = (const T*)job.p[1] + j * width;
            double total = sum_row<V>(width, [&](i64 k, auto m) FB_BODY {
                V apart = ld(x + k, m) - ld(other + k, m);
                return apart * apart;
            });
            *out++ = (T)__builtin_sqrt(total);
        }
    }
}
// p: out, g, x, distances; n as above. Each row is pulled by all others that are not equal to it. A unit is a row
template <class T> void pair_distances_back(const Job& job, long begin, long end) {
    long rows = job.n[0], width = job.n[1];
    for (long i = begin; i < end; i++) {
        const T* x = (const T*)job.p[2] + i * width;
        T* out = (T*)job.p[0] + i * width;
        __builtin_memset(out, 0, width * sizeof(T));
        for (long j = 0; j < rows; j++) {
            if (j == i) continue;
            long pair = j < i ? pairs_of(j, rows) + i - j - 1 : pairs_of(i, rows) + j - i - 1;
            T distance = ((const T*)job.p[3])[pair];
            if (distance == 0) continue;
            auto share = Compute<T>::splat(((const T*)job.p[1])[pair] / distance);
            const T* other = (const T*)job.p[2] + j * width;
            each_vector<1>(0, width, [&](i64 k, auto m, int) FB_BODY {
                st(out + k, ld(out + k, m) + (ld(x + k, m) - ld(other + k, m)) * share, m);
            });
        }
    }
}

#endif
