// Convolutions with few channels per group (depthwise and its like): no product, a row of results at a time.
//
// The rows of x that a band of result rows meets are copied once, with zeros beyond the edges and the phases of the
// stride apart, so that every tap reads whole vectors. Include after conv.h.
#ifndef FB_CONV_THIN_H
#define FB_CONV_THIN_H

#include "conv_phases.h"
#include "conv_winograd.h"

enum { THIN_MADE = 4, THIN_BYTES = 128 << 10, THIN_SUMS = 8 };

// Where the taps of a band lie in the copied rows.
template <class S, class T> struct ThinBand {
    enum { W = Lanes<T>::W };
    const ConvProblem& p;
    long lo[3], hi[3], width, row, deep, high, plane, band, bands, size;
    void plan() {
        for (int d = 0; d < 3; d++) {
            lo[d] = hi[d] = p.taps ? p.tap[0].at[d] : 0;
            for (long t = 1; t < p.taps; t++) {
                long at = p.tap[t].at[d];
                lo[d] = at < lo[d] ? at : lo[d], hi[d] = at > hi[d] ? at : hi[d];
            }
        }
        long vectors = (p.windows[2] + W - 1) / W * W;
        width = (vectors + (hi[2] - lo[2]) / p.step[2] + W) / W * W; // of one phase
        row = width * p.step[2];
        deep = hi[0] - lo[0] + 1;
        for (band = p.windows[1]; band > 1; band = (band + 1) / 2)
            if (p.channels * deep * ((band - 1) * p.step[1] + hi[1] - lo[1] + 1) * row * (long)sizeof(T) <= THIN_BYTES) break;
        bands = (p.windows[1] + band - 1) / band;
        high = (band - 1) * p.step[1] + hi[1] - lo[1] + 1;
        plane = deep * high * row;
        size = p.channels * plane + CONV_SLACK;
    }
    // the offset of a tap from the band's first row
    long offset(const ConvTap& tap) const {
        long w = tap.at[2] - lo[2];
        return ((tap.at[0] - lo[0]) * high + tap.at[1] - lo[1]) * row + w % p.step[2] * width + w / p.step[2];
    }
    // the rows that result rows [h, h + band) of depth d of image n, group g meet
    void copy(long n, long g, long d, long h, T* to) const {
        for (long c = 0; c < p.channels; c++)
            for (long i = 0; i < deep; i++)
                for (long j = 0; j < high; j++, to += row)
                    copy_row_of(n, g * p.channels + c, d * p.step[0] + lo[0] + i, h * p.step[1] + lo[1] + j, to);
    }
    void copy_row_of(long n, long c, long d, long h, T* to) const {
        if (d < 0 || d >= p.in[0] || h < 0 || h >= p.in[1]) return zero_run(to, row);
        const S* from = (const S*)p.x + n * p.x_n + c * p.x_c + d * p.x_s[0] + h * p.x_s[1];
        for (long phase = 0; phase < p.step[2]; phase++, to += width) {
            long w = lo[2] + phase, step = p.step[2];
            long first = w < 0 ? ceil_div(-w, step) : 0, end = p.in[2] - w > 0 ? ceil_div(p.in[2] - w, step) : 0;
            if (first > width) first = width;
            if (end > width) end = width;
            if (end < first) end = first;
            zero_run(to, first);
            copy_run(from + (w + first * step) * p.x_s[2], step * p.x_s[2], to + first, end - first, (const S*)p.x + p.x_size);
            for (long k = end; k < width && k % W; k++) to[k] = 0;
            for (long k = (end + W - 1) / W * W; k < width; k += W) st_native(to + k, splat_native((T)0));
        }
    }
};

template <class S, class T> struct ThinForward {
    enum { W = Lanes<T>::W };
    const ConvProblem& p;
    const FbRuntime& rt;
    ThinBand<S, T> rows;
    long K;
    long* offsets; // per (channel, tap)
    T* weights;    // (group, channel, tap, made)

    template <int O, int V> void vectors(const T* x, const T* weight, T* out) const {
        typedef typename Lanes<T>::V Vector;
        Vector sum[O][V];
        for (int o = 0; o < O; o++)
            for (int v = 0; v < V; v++) sum[o][v] = (Vector){};
        for (long k = 0; k < K; k++, weight += O) {
            const T* from = x + offsets[k];
#pragma GCC unroll 4
            for (int v = 0; v < V; v++) {
                Vector value = ld_native(from + v * W);
#pragma GCC unroll 4
                for (int o = 0; o < O; o++) sum[o][v] = v_fma(value, splat_native(weight[o]), sum[o][v]);
            }
        }
#pragma GCC unroll 4
        for (int o = 0; o < O; o++)
#pragma GCC unroll 4
            for (int v = 0; v < V; v++) st_native(out + (o * V + v) * W, sum[o][v]);
    }
    template <int O> void band(long n, long g, long d, long h, const T* x) const {
        const T* weight = weights + g * K * O;
        T out[O * 4 * W];
        long end = h + rows.band < p.windows[1] ? h + rows.band : p.windows[1], width = p.windows[2];
        for (long i = h; i < end; i++, x += p.step[1] * rows.row)
            for (long w = 0; w < width;) {
                int v = width - w > 2 * W ? 4 : width - w > W ? 2 : 1;
                if (v == 4) vectors<O, 4>(x + w, weight, out);
                else if (v == 2) vectors<O, 2>(x + w, weight, out);
                else vectors<O, 1>(x + w, weight, out);
                long count = width - w < v * W ? width - w : v * W;
                for (int o = 0; o < O; o++) {
                    long channel = g * O + o;
                    T bias = p.bias ? (T)scalar(((const S*)p.bias)[channel]) : (T)0;
                    store_run(out + o * v * W, bias,
                        (S*)p.out + n * p.out_n + channel * p.out_c + d * p.out_s[0] + i * p.out_s[1] + w * p.out_s[2],
                        p.out_s[2], count);
                }
                w += count;
            }
    }
    static void range(void* self, long begin, long end, int) {
        const ThinForward& f = *(const ThinForward*)self;
        T* x = (T*)f.rt.alloc(f.rows.size * (long)sizeof(T) + 64);
        for (long i = begin; i < end; i++) {
            long h = i % f.rows.bands * f.rows.band, d = i / f.rows.bands % f.p.windows[0];
            long g = i / (f.rows.bands * f.p.windows[0]) % f.p.groups, n = i / (f.rows.bands * f.p.windows[0] * f.p.groups);
            f.rows.copy(n, g, d, h, x);
            if (f.p.made == 1) f.band<1>(n, g, d, h, x);
            else if (f.p.made == 2) f.band<2>(n, g, d, h, x);
            else if (f.p.made == 3) f.band<3>(n, g, d, h, x);
            else f.band<4>(n, g, d, h, x);
        }
        f.rt.release(x);
    }
    void run() {
        K = p.channels * p.taps;
        rows.plan();
        offsets = (long*)rt.alloc(K * (long)(sizeof(long)) + 64);
        weights = (T*)rt.alloc(p.groups * K * p.made * (long)sizeof(T) + 64);
        for (long k = 0; k < K; k++) offsets[k] = k / p.taps * rows.plane + rows.offset(p.tap[k % p.taps]);
        T* to = weights;
        for (long g = 0; g < p.groups; g++)
            for (long k = 0; k < K; k++)
                for (long o = 0; o < p.made; o++)
                    *to++ = (T)scalar(
                        ((const S*)p.w)[g * p.w_g + o * p.w_o + k / p.taps * p.w_c + p.tap[k % p.taps].weight]);
        long units = p.batch * p.groups * p.windows[0] * rows.bands;
        double work = 2.0 * p.batch * p.groups * p.made * K * p.windows[0] * p.windows[1] * p.windows[2];
        if (work < 4e5) range(this, 0, units, 0);
        else rt.parallel_for(range, this, units, 1);
        rt.release(weights);
        rt.release(offsets);
    }
    static bool takes(const ConvProblem& p) {
        return !p.epilogue && p.made <= THIN_MADE && p.windows[0] > 0 && p.windows[1] > 0 && p.windows[2] >= 4
            && (p.made <= 2 || p.groups > 1 || p.channels * p.taps <= 1024);
    }
};

// ---- the gradient of the weight: per output channel, THIN_SUMS taps at a time
template <class S, class T> struct ThinWeight {
    enum { W = Lanes<T>::W, SLICES = 8 };
    typedef typename Lanes<T>::V Vector;
    const ConvProblem& p;
    const FbRuntime& rt;
    ThinBand<S, T> rows;
    long K, slices;
    long* offsets;
    T* sums; // (slice, group, made, K) of vectors

    static inline __attribute__((always_inline)) Vector some(const T* p, long n) {
        if (n >= W) return ld_native(p);
        T lanes[W];
        for (int l = 0; l < W; l++) lanes[l] = l < n ? p[l] : (T)0;
        return ld_native(lanes);
    }
    // the gradient's rows [h, end) of one channel against taps [k, k + THIN_SUMS)
    void taps(const T* x, const T* y, long lines, const long* at, T* to) const {
        Vector sum[THIN_SUMS];
        for (int t = 0; t < THIN_SUMS; t++) sum[t] = ld_native(to + t * W);
        long whole = p.windows[2] / W * W, rest = p.windows[2] - whole, pitch = rows_pitch();
        for (long i = 0; i < lines; i++, x += p.step[1] * rows.row, y += pitch) {
            for (long w = 0; w < whole; w += W) {
                Vector g = ld_native(y + w);
#pragma GCC unroll 8
                for (int t = 0; t < THIN_SUMS; t++) sum[t] = v_fma(g, ld_native(x + at[t] + w), sum[t]);
            }
            if (rest) {
                Vector g = ld_native(y + whole);
#pragma GCC unroll 8
                for (int t = 0; t < THIN_SUMS; t++) sum[t] = v_fma(g, first(x + at[t] + whole, rest), sum[t]);
            }
        }
        for (int t = 0; t < THIN_SUMS; t++) st_native(to + t * W, sum[t]);
    }
    // lanes beyond the row meet a zero of the gradient; an infinity there must not make a NaN of it
    static inline __attribute__((always_inline)) Vector first(const T* p, long n) {
        if constexpr (sizeof(T) == 4) return ld(p, Tail{(int)n});
        else return some(p, n);
    }
    long rows_pitch() const { return (p.windows[2] + W - 1) / W * W; }
    void copy_gradient(long n, long channel, long d, long h, long lines, T* to) const {
        long width = p.windows[2], pitch = rows_pitch();
        const S* from = (const S*)p.out + n * p.out_n + channel * p.out_c + d * p.out_s[0] + h * p.out_s[1];
        for (long i = 0; i < lines; i++, from += p.out_s[1], to += pitch) {
            for (long w = 0; w < width; w++) to[w] = (T)scalar(from[w * p.out_s[2]]);
            for (long w = width; w < pitch; w++) to[w] = 0;
        }
    }
    static void range(void* self, long begin, long end, int) {
        const ThinWeight& f = *(const ThinWeight*)self;
        long lines = f.rows.band * f.rows_pitch();
        T* x = (T*)f.rt.alloc((f.rows.size + lines) * (long)sizeof(T) + 64);
        for (long i = begin; i < end; i++) f.unit(i % f.slices, i / f.slices, x + lines, x);
        f.rt.release(x);
    }
    void unit(long slice, long g, T* x, T* y) const {
        long padded = (K + THIN_SUMS - 1) / THIN_SUMS * THIN_SUMS;
        T* to = sums + (slice * p.groups + g) * p.made * padded * W;
        for (long k = 0; k < p.made * padded * W; k++) to[k] = 0;
        for (long n = slice; n < p.batch; n += slices)
            for (long d = 0; d < p.windows[0]; d++)
                for (long h = 0; h < p.windows[1]; h += rows.band) {
                    long lines = p.windows[1] - h < rows.band ? p.windows[1] - h : rows.band;
                    rows.copy(n, g, d, h, x);
                    for (long o = 0; o < p.made; o++) {
                        copy_gradient(n, g * p.made + o, d, h, lines, y);
                        for (long k = 0; k < padded; k += THIN_SUMS)
                            taps(x, y, lines, offsets + k, to + (o * padded + k) * W);
                    }
                }
    }
    void run() {
        K = p.channels * p.taps;
        rows.plan();
        long padded = (K + THIN_SUMS - 1) / THIN_SUMS * THIN_SUMS;
        slices = p.batch < SLICES ? p.batch : (long)SLICES;
        if (slices < 1) slices = 1;
        offsets = (long*)rt.alloc(padded * (long)sizeof(long) + 64);
        for (long k = 0; k < padded; k++)
            offsets[k] = k < K ? k / p.taps * rows.plane + rows.offset(p.tap[k % p.taps]) : 0;
        sums = (T*)rt.alloc(slices * p.groups * p.made * padded * W * (long)sizeof(T) + 64);
        double work = 2.0 * p.batch * p.groups * p.made * K * p.windows[0] * p.windows[1] * p.windows[2];
        if (work < 4e5) range(this, 0, slices * p.groups, 0);
        else rt.parallel_for(range, this, slices * p.groups, 1);
        for (long c = 0; c < p.groups * p.made; c++)
            for (long k = 0; k < K; k++) {
                T total = 0;
                for (long s = 0; s < slices; s++)
                    for (int l = 0; l < W; l++) total += sums[((s * p.groups * p.made + c) * padded + k) * W + l];
                put1((S*)p.w + c * K + k, total);
            }
        rt.release(sums);
        rt.release(offsets);
    }
    static bool takes(const ConvProblem& p) {
        return p.made <= THIN_MADE && p.channels <= 8 && p.groups > 1 && p.windows[0] > 0 && p.windows[1] > 0
            && p.windows[2] >= 4;
    }
};

#define FB_CONV_TYPE(form, S, T) \
    if (Thin##form<S, T>::takes(*p)) Thin##form<S, T>{*p, *rt, {*p}}.run(); \
    else run_on_phases<Conv##form, S, T>(*p, *rt); \
    return true;
#define FB_CONV_TYPES(form) \
    switch (p->type) { \
    case FB_FLOAT: FB_CONV_TYPE(form, float, float) \
    case FB_DOUBLE: FB_CONV_TYPE(form, double, double) \
    case FB_BF16: FB_CONV_TYPE(form, bf16, float) \
    case FB_F16: FB_CONV_TYPE(form, f16, float) \
    } \
    return false;
bool conv_forward(const ConvProblem* p, const FbRuntime* rt) {
    if (ConvWinograd::takes(*p) && ConvWinograd{*p, *rt, {*p}}.run()) return true;
    FB_CONV_TYPES(Forward)
}
bool conv_weight(const ConvProblem* p, const FbRuntime* rt) { FB_CONV_TYPES(Weight) }

#endif
