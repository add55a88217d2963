// Normalisation per channel: moments, sums and affine maps of [batch, channels, positions] ("planes") and of rows whose
// columns are the channels ("last"). Values per channel are in the computation type.
#ifndef FB_CHANNELS_H
#define FB_CHANNELS_H

#include "softmax_norm.h"

// Mean and sum of squared deviations of what was seen so far, merged block by block.
struct Moments {
    double n = 0, mean = 0, squares = 0;
    void add(double count, double other_mean, double other_squares) {
        double all = n + count, gap = other_mean - mean;
        mean += gap * count / all;
        squares += other_squares + gap * gap * n * count / all;
        n = all;
    }
};
template <class T> FB_INLINE void add_run(Moments& moments, const T* x, long n) {
    FB_TYPES(T);
    for (long at = 0; at < n; at += 4096) {
        long count = n - at < 4096 ? n - at : 4096;
        double mean = sum_row<V>(count, [&](i64 i, auto m) FB_BODY { return ld(x + at + i, m); }) / count;
        V centre = Compute<T>::splat((S)mean);
        double first = 0, squares = 0;
        V part[2] = {}, plain[2] = {};
        each_vector<2>(0, count, [&](i64 i, auto m, int k) FB_BODY {
            V d = keep(m, ld(x + at + i, m) - centre, V{});
            plain[k] = plain[k] + d;
            part[k] = part[k] + d * d;
        });
        first = (double)fold_add(plain[0] + plain[1]), squares = (double)fold_add(part[0] + part[1]);
        mean = (double)(S)mean + first / count;                // what rounding the mean left over
        moments.add(count, mean, squares - first * first / count);
    }
}
// A unit is a channel. p: mean, variance, x; n: batch, channels, positions
template <class T> void moments_planes(const Job& job, long begin, long end) {
    FB_TYPES(T);
    long batch = job.n[0], channels = job.n[1], size = job.n[2];
    for (long c = begin; c < end; c++) {
        Moments moments;
        for (long b = 0; b < batch; b++) add_run(moments, (const T*)job.p[2] + (b * channels + c) * size, size);
        ((S*)job.p[0])[c] = (S)moments.mean;
        ((S*)job.p[1])[c] = (S)(moments.squares / moments.n);
    }
}
// A unit is a chunk of rows. p: mean and squared deviations per (chunk, channel), x; n: rows, channels, rows in a chunk
template <class T> void moments_last(const Job& job, long begin, long end) {
    FB_TYPES(T);
    long rows = job.n[0], channels = job.n[1], step = job.n[2];
    for (long chunk = begin; chunk < end; chunk++) {
        long from = chunk * step, count = rows - from < step ? rows - from : step;
        const T* x = (const T*)job.p[2] + from * channels;
        each_vector<1>(0, channels, [&](i64 c, auto m, int) FB_BODY {
            V total = {}, squares = {};
            for (long r = 0; r < count; r++) total = total + ld(x + r * channels + c, m);
            V mean = total / Compute<T>::splat((S)count);
            for (long r = 0; r < count; r++) {
                V d = ld(x + r * channels + c, m) - mean;
                squares = squares + d * d;
            }
            st((S*)job.p[0] + chunk * channels + c, mean, m);
            st((S*)job.p[1] + chunk * channels + c, squares, m);
        });
    }
}

// Sums of g and of g * (x - mean). A unit is a channel. p: two sums, g, x, mean; n: batch, channels, positions
template <class T> void sums_planes(const Job& job, long begin, long end) {
    FB_TYPES(T);
    long batch = job.n[0], channels = job.n[1], size = job.n[2];
    for (long c = begin; c < end; c++) {
        V centre = Compute<T>::splat(((const S*)job.p[4])[c]);
        double total = 0, along = 0;
        for (long b = 0; b < batch; b++) {
            const T *g = (const T*)job.p[2] + (b * channels + c) * size, *x = (const T*)job.p[3] + (b * channels + c) * size;
            for (long at = 0; at < size; at += 4096) {
                V plain[2] = {}, part[2] = {};
                each_vector<2>(at, size - at < 4096 ? size : at + 4096, [&](i64 i, auto m, int k) FB_BODY {
                    V slope = keep(m, ld(g + i, m), V{});
                    plain[k] = plain[k] + slope;
                    part[k] = part[k] + slope * keep(m, ld(x + i, m) - centre, V{});
                });
                total += (double)fold_add(plain[0] + plain[1]), along += (double)fold_add(part[0] + part[1]);
            }
        }
        ((S*)job.p[0])[c] = (S)total;
        ((S*)job.p[1])[c] = (S)along;
    }
}
// A unit is a chunk of rows. p: two sums per (chunk, channel), g, x, mean; n: rows, channels, rows in a chunk
template <class T> void sums_last(const Job& job, long begin, long end) {
    FB_TYPES(T);
    long rows = job.n[0], channels = job.n[1], step = job.n[2];
    for (long chunk = begin; chunk < end; chunk++) {
        long from = chunk * step, count = rows - from < step ? rows - from : step;
        const T *g = (const T*)job.p[2] + from * channels, *x = (const T*)job.p[3] + from * channels;
        each_vector<1>(0, channels, [&](i64 c, auto m, int) FB_BODY {
            V total = {}, along = {}, centre = ld((const S*)job.p[4] + c, m);
            for (long r = 0; r < count; r++) {
                V slope = ld(g + r * channels + c, m);
                total = total + slope;
                along = along + slope * (ld(x + r * channels + c, m) - centre);
            }
            st((S*)job.p[0] + chunk * channels + c, total, m);
            st((S*)job.p[1] + chunk * channels + c, along, m);
        });
    }
}

// out = (x - mean) * scale + shift, or with g: g * scale + (x - mean) * slope + shift.
// p: out, x, mean, scale, shift?, g?, slope?
template <class T> struct Affine {
    typedef typename Compute<T>::V V;
    typedef typename Compute<T>::S S;
    T* out;
    const T *x, *g;
    const S *mean, *scale, *shift, *slope;
    Affine(const Job& job)
        : out((T*)job.p[0]), x((const T*)job.p[1]), g((const T*)job.p[5]), mean((const S*)job.p[2]),
          scale((const S*)job.p[3]), shift((const S*)job.p[4]), slope((const S*)job.p[6]) {}
    template <class M> FB_BODY void forward(i64 i, V centre, V factor, V offset, M m) const {
        st(out + i, fma_of(ld(x + i, m) - centre, factor, offset), m);
    }
    template <class M> FB_BODY void backward(i64 i, V centre, V factor, V offset, V along, M m) const {
        st(out + i, fma_of(ld(g + i, m), factor, fma_of(ld(x + i, m) - centre, along, offset)), m);
    }
};
// A unit is a plane. n: positions, channels
template <class T> void affine_planes(const Job& job, long begin, long end) {
    FB_TYPES(T);
    Affine<T> a(job);
    long size = job.n[0], channels = job.n[1];
    for (long plane = begin; plane < end; plane++) {
        long c = plane % channels, at = plane * size;
        V centre = Compute<T>::splat(a.mean[c]), factor = Compute<T>::splat(a.scale[c]),
          offset = a.shift ? Compute<T>::splat(a.shift[c]) : V{};
        if (a.g) {
            V along = Compute<T>::splat(a.slope[c]);
            each_vector<2>(0, size, [&](i64 i, auto m, int) FB_BODY { a.backward(at + i, centre, factor, offset, along, m); });
        } else {
            each_vector<2>(0, size, [&](i64 i, auto m, int) FB_BODY { a.forward(at + i, centre, factor, offset, m); });
        }
    }
}
// A unit is a row. n: channels
template <class T> void affine_last(const Job& job, long begin, long end) {
    FB_TYPES(T);
    Affine<T> a(job);
    long channels = job.n[0];
    for (long from = begin; from < end; from += 32) {         // rows that stay in the cache for all columns
        long stop = end - from < 32 ? end : from + 32;
        each_vector<1>(0, channels, [&](i64 c, auto m, int) FB_BODY {
            V centre = ld(a.mean + c, m), factor = ld(a.scale + c, m), offset = a.shift ? ld(a.shift + c, m) : V{};
            if (a.g) {
                V along = ld(a.slope + c, m);
                for (long row = from; row < stop; row++) a.backward(row * channels + c, centre, factor, offset, along, m);
            } else {
                for (long row = from; row < stop; row++) a.forward(row * channels + c, centre, factor, offset, m);
            }
        });
    }
}

#endif
