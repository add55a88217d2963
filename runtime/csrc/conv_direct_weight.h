// The gradient of the weight where a window has few terms or few channels are made: sums over rows, a lane per window.
//
// Units are slices of the batch's bands of rows and parts of the channels of x, each with sums of its own: as many for any
// number of threads. Include after conv_direct.h.
#ifndef FB_CONV_THIN_WEIGHT_H
#define FB_CONV_THIN_WEIGHT_H

#include "conv_direct.h"

enum { THIN_READ = 12 << 10, THIN_VECTORS = 16, THIN_UNITS = 16, THIN_SUMS = 8 };

// What many products take stays in a register: the compiler would read it for each of them.
template <class V> FB_INLINE V held(V x) {
#if FB_ISA >= 256
    __asm__("" : "+v"(x));
#endif
    return x;
}

template <class S, class T> struct ThinWeight {
    enum { W = Lanes<T>::W, DIRECT = sizeof(S) == sizeof(T) };
    typedef typename Lanes<T>::V Vector;
    const ConvProblem& p;
    const FbRuntime& rt;
    ThinBand<S, T> rows;
    long parts, K, padded, together, items, slices; // of the channels of x; terms of a part; at once; bands in all
    long* offsets;
    T* sums; // (slice, group, part, channel made, term) of vectors

    static inline __attribute__((always_inline)) Vector first(const T* p, long n) {
        if constexpr (sizeof(T) == 4) return ld(p, Tail{(int)n});
        T lanes[W];
        for (int l = 0; l < W; l++) lanes[l] = l < n ? p[l] : (T)0;
        return ld_native(lanes);
    }
    // `lines` rows of O channels of the gradient, `channel` and `line` apart, against N terms. The lanes beyond a row are zeros
    // on both sides: an infinity there must not make a NaN.
    template <int O, int N>
    void terms(const T* x, const T* y, long channel, long line, long lines, const long* at, T* to) const {
        Vector sum[O][N];
#pragma GCC unroll 4
        for (int o = 0; o < O; o++)
#pragma GCC unroll 8
            for (int t = 0; t < N; t++) sum[o][t] = ld_native(to + (o * padded + t) * W);
        long whole = p.windows[2] / W * W, rest = p.windows[2] - whole;
        for (long i = 0; i < lines; i++, x += p.step[1] * rows.row, y += line) {
            for (long w = 0; w < whole; w += W) {
                Vector g[O];
#pragma GCC unroll 4
                for (int o = 0; o < O; o++) g[o] = held(ld_native(y + o * channel + w));
#pragma GCC unroll 8
                for (int t = 0; t < N; t++) {
                    Vector value = ld_native(x + at[t] + w);
#pragma GCC unroll 4
                    for (int o = 0; o < O; o++) sum[o][t] = v_fma(g[o], value, sum[o][t]);
                }
            }
            if (rest) {
                Vector g[O];
#pragma GCC unroll 4
                for (int o = 0; o < O; o++) g[o] = held(first(y + o * channel + whole, rest));
#pragma GCC unroll 8
                for (int t = 0; t < N; t++) {
                    Vector value = first(x + at[t] + whole, rest);
#pragma GCC unroll 4
                    for (int o = 0; o < O; o++) sum[o][t] = v_fma(g[o], value, sum[o][t]);
                }
            }
        }
#pragma GCC unroll 4
        for (int o = 0; o < O; o++)
#pragma GCC unroll 8
            for (int t = 0; t < N; t++) st_native(to + (o * padded + t) * W, sum[o][t]);
    }
    template <int O, int N>
    void all_terms(const T* x, const T* y, long channel, long line, long lines, T* to) const {
        for (long k = 0; k < K; k += N) terms<O, N>(x, y, channel, line, lines, offsets + k, to + k * W);
    }
    // rows of `count` channels of the gradient; true where they can be read as they lie
    bool as_they_lie() const { return DIRECT && p.out_s[2] == 1; }
    long pitch() const { return (p.windows[2] + W - 1) / W * W; }
    void copy_gradient(const S* from, long count, long lines, T* to) const {
        for (long o = 0; o < count; o++)
            for (long i = 0; i < lines; i++, to += pitch())
                for (long w = 0; w < p.windows[2]; w++) to[w] = (T)scalar(from[o * p.out_c + i * p.out_s[1] + w * p.out_s[2]]);
    }
    void band(long n, long g, long d, long h, const T* x, T* copy, T* to) const {
        long lines = p.windows[1] - h < rows.band ? p.windows[1] - h : rows.band, line = p.out_s[1], channel = p.out_c;
        for (long o = 0; o < p.made;) {
            long left = p.made - o, count = left >= 4 ? 4 : left >= 2 ? 2 : 1;
            const S* from = (const S*)p.out + n * p.out_n + (g * p.made + o) * p.out_c + d * p.out_s[0] + h * p.out_s[1];
            const T* y = (const T*)from;
            if (!as_they_lie()) copy_gradient(from, count, lines, copy), y = copy, line = pitch(), channel = lines * line;
            if (count == 1) all_terms<1, THIN_SUMS>(x, y, channel, line, lines, to);
            else if (count == 2) all_terms<2, THIN_SUMS>(x, y, channel, line, lines, to);
            else if (together == 3) all_terms<4, 3>(x, y, channel, line, lines, to);
            else if (together == 4) all_terms<4, 4>(x, y, channel, line, lines, to);
            else all_terms<4, 5>(x, y, channel, line, lines, to);
            o += count, to += count * padded * W;
        }
    }
    static void range(void* self, long begin, long end, int) {
        const ThinWeight& f = *(const ThinWeight*)self;
        long copied = f.as_they_lie() ? 0 : 4 * f.rows.band * f.pitch();
        T* x = (T*)f.rt.alloc((f.rows.size + CONV_SLACK + copied) * (long)sizeof(T) + 64);
        for (long i = begin; i < end; i++) f.unit(i, x, x + f.rows.size + CONV_SLACK);
        f.rt.release(x);
    }
    // the last part may begin within the one before it
    long first_channel(long part) const {
        return part * rows.channels < p.channels - rows.channels ? part * rows.channels : p.channels - rows.channels;
    }
    void unit(long number, T* x, T* copy) const {
        long slice = number % slices, part = number / slices % parts, g = number / (slices * parts);
        T* to = sums + number * p.made * padded * W;
        for (long k = 0; k < p.made * padded; k++) st_native(to + k * W, (Vector){});
        for (long i = slice; i < items; i += slices) {
            long h = i % rows.bands * rows.band, d = i / rows.bands % p.windows[0], n = i / (rows.bands * p.windows[0]);
            rows.copy(n, g * p.channels + first_channel(part), d, h, x);
            band(n, g, d, h, x, copy, to);
        }
    }
    static void finish_range(void* self, long begin, long end, int) {
        const ThinWeight& f = *(const ThinWeight*)self;
        for (long i = begin; i < end; i++) f.finish(i / (f.parts * f.p.made), i / f.p.made % f.parts, i % f.p.made);
    }
    void finish(long g, long part, long o) const {
        const T* from = sums + (g * parts + part) * slices * p.made * padded * W;
        S* to = (S*)p.w + ((g * p.made + o) * p.channels + first_channel(part)) * p.taps;
        for (long k = 0; k < K; k++) {
            Vector sum = {};
            for (long s = 0; s < slices; s++) sum += ld_native(from + ((s * p.made + o) * padded + k) * W);
            T total = 0;
            for (int l = 0; l < W; l++) total += sum[l];
            put1(to + k, total);
        }
    }
    void plan() {
        long per_row = (p.windows[2] + W - 1) / W, lines = (THIN_VECTORS + per_row - 1) / per_row;
        if (lines > p.windows[1]) lines = p.windows[1];
        rows.plan(p.channels, THIN_READ, 1);
        long some = p.channels;
        while (some > 1 && rows.bytes_of(lines) > THIN_READ) some = rows.channels = (some + 1) / 2;
        rows.plan(some, rows.bytes_of(lines) > THIN_READ ? rows.bytes_of(lines) : (long)THIN_READ, 1);
        parts = (p.channels + some - 1) / some;
        K = some * p.taps, padded = K + THIN_SUMS, together = 5;
        for (long n = 4; n >= 3; n--)
            if ((K + n - 1) / n * n < (K + together - 1) / together * together) together = n;
        items = p.batch * p.windows[0] * rows.bands;
        slices = p.groups * parts >= THIN_UNITS ? 1 : THIN_UNITS / (p.groups * parts);
        if (slices > items) slices = items ? items : 1;
    }
    void run() {
        if (!p.groups || !p.made || !p.channels || !p.taps) return;
        plan();
        offsets = (long*)rt.alloc(padded * (long)sizeof(long) + 64);
        for (long k = 0; k < padded; k++)
            offsets[k] = k < K ? k / p.taps * rows.plane + rows.offset(p.tap[k % p.taps]) : 0;
        long units = p.groups * parts * slices;
        sums = (T*)rt.alloc(units * p.made * padded * W * (long)sizeof(T) + 64);
        double work = 2.0 * p.batch * p.groups * p.made * p.channels * p.taps * p.windows[0] * p.windows[1] * p.windows[2];
        if (work < 4e5) range(this, 0, units, 0), finish_range(this, 0, p.groups * parts * p.made, 0);
        else rt.parallel_for(range, this, units, 1), rt.parallel_for(finish_range, this, p.groups * parts * p.made, 4);
        rt.release(sums);
        rt.release(offsets);
    }
    static bool takes(const ConvProblem& p) {
        long width = p.windows[2], lanes = (width + W - 1) / W * W;
        if (p.windows[0] < 1 || p.windows[1] < 1 || width < 4) return false;
        if (p.made <= THIN_MADE && p.channels <= 8 && p.groups > 1) return true;
        return 8 * width >= 5 * lanes && (p.made <= THIN_MADE || p.channels * p.taps <= THIN_TERMS);
    }
};

#endif
