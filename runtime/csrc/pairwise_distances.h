// Distances of all pairs of rows, row by row of the pairs above the diagonal, and their gradient.
#ifndef FB_PAIR_ROWS_H
#define FB_PAIR_ROWS_H

#include "softmax_norm.h"

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

// Row i of U registers from column c on, the last of them with lanes m: what rows [first, last) pull, and it pulls on those
// before `end` as well.
template <int U, class T, class M>
FB_INLINE void pull_row(const T* x, T* out, const T* share, long i, long first, long last, long end, long width, M m) {
    FB_TYPES(T);
    V own[U], sum[U];
    auto each_register = [&](auto body) FB_BODY {
#pragma GCC unroll 4
        for (int u = 0; u < U - 1; u++) body(u, Full{});
        body(U - 1, m);
    };
    each_register([&](int u, auto lanes) FB_BODY {
        own[u] = ld(x + i * width + u * FB_W, lanes), sum[u] = ld(out + i * width + u * FB_W, lanes);
    });
    for (long j = first; j < last; j++, share++) {
        if (*share == 0) continue;
        V each = Compute<T>::splat(*share);
        const T* other = x + j * width;
        T* away = out + j * width;
        each_register([&](int u, auto lanes) FB_BODY {
            V apart = own[u] - ld(other + u * FB_W, lanes);
            sum[u] = fma_of(apart, each, sum[u]);
            if (j < end) st(away + u * FB_W, fma_of(-apart, each, ld(away + u * FB_W, lanes)), lanes);
        });
    }
    each_register([&](int u, auto lanes) FB_BODY { st(out + i * width + u * FB_W, sum[u], lanes); });
}
// p: out, g, x, distances; n as above. Each row is pulled by all others that are not equal to it, in their order: a pair within
// the range is looked at once. A unit is a row
template <class T> void pair_distances_back(const Job& job, long begin, long end) {
    FB_TYPES(T);
    enum { BLOCK = 48 }; // rows whose columns of four registers stay in the first-level cache
    long rows = job.n[0], width = job.n[1];
    T *out = (T*)job.p[0], share[BLOCK];
    const T *g = (const T*)job.p[1], *x = (const T*)job.p[2], *d = (const T*)job.p[3];
    __builtin_memset(out + begin * width, 0, (end - begin) * width * sizeof(T));
    for (long j = 0; j < begin; j++)
        for (long i = begin; i < end; i++) {
            long pair = pairs_of(j, rows) + i - j - 1;
            if (d[pair] == 0) continue;
            V each = Compute<T>::splat(g[pair] / d[pair]);
            each_vector<1>(0, width, [&](i64 k, auto m, int) FB_BODY {
                V apart = ld(x + i * width + k, m) - ld(x + j * width + k, m);
                st(out + i * width + k, fma_of(apart, each, ld(out + i * width + k, m)), m);
            });
        }
    for (long block = begin; block < rows; block += BLOCK)
        for (long c = 0; c < width; c += 4 * FB_W) {
            long last = rows - block < BLOCK ? rows : block + BLOCK, left = width - c;
            for (long i = begin; i < (last < end ? last : end); i++) {
                long first = i < block ? block : i + 1, pair = pairs_of(i, rows) + first - i - 1;
                each_vector<1>(0, last - first, [&](i64 k, auto m, int) FB_BODY {
                    V length = ld(d + pair + k, m);
                    st(share + k, v_where(length == V{}, V{}, ld(g + pair + k, m) / length), m);
                });
                if (left >= 4 * FB_W) pull_row<4>(x + c, out + c, share, i, first, last, end, width, Full{});
                else if (left > 3 * FB_W) pull_row<4>(x + c, out + c, share, i, first, last, end, width, Tail{(int)left - 3 * FB_W});
                else if (left > 2 * FB_W) pull_row<3>(x + c, out + c, share, i, first, last, end, width, Tail{(int)left - 2 * FB_W});
                else if (left > FB_W) pull_row<2>(x + c, out + c, share, i, first, last, end, width, Tail{(int)left - FB_W});
                else pull_row<1>(x + c, out + c, share, i, first, last, end, width, Tail{(int)left});
            }
        }
}

#endif
