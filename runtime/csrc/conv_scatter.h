// Transposed convolutions that make few channels: products over the channels of x, then their sums where windows overlap.
//
// Each image's (channel of the result, tap) x (position of x) product reads x as it lies; its rows are added to the result
// shifted by their taps. Include after conv.h.
#ifndef FB_CONV_SCATTER_H
#define FB_CONV_SCATTER_H

#include "conv.h"

enum { SCATTER_ROWS = 64, SCATTER_BYTES = 256 << 10 };

template <class S, class T> struct ConvScatter {
    enum { W = Lanes<T>::W, NR = NV * W };
    const ConvProblem& p;
    const FbConv& c;
    const FbRuntime& rt;
    long taps, rows, plane, made_plane;
    T* a; // (group, strip of rows, channel, MR)

    static bool takes(const ConvProblem& p, const FbConv& c) {
        long taps = c.kernel[0] * c.kernel[1] * c.kernel[2], plane = p.in[0] * p.in[1] * p.in[2];
        long made = p.windows[0] * p.windows[1] * p.windows[2];
        bool dense = p.x_s[2] == 1 && p.x_s[1] == p.in[2] && (p.in[0] == 1 || p.x_s[0] == p.in[1] * p.in[2]);
        return !p.epilogue && dense && p.made * taps <= SCATTER_ROWS && p.channels >= 8 && p.batch * p.groups >= 4 && plane >= 16
            && (p.made * taps * plane + p.made * made) * (long)sizeof(T) <= SCATTER_BYTES;
    }
    void pack(long g) {
        for (long s = 0; s < strips(); s++)
            for (long k = 0; k < p.channels; k++)
                for (long r = 0; r < MR; r++)
                    a[((g * strips() + s) * p.channels + k) * MR + r] = s * MR + r < rows
                        ? (T)scalar(((const S*)p.w)[g * p.w_g + k * p.w_c + s * MR + r]) : (T)0;
    }
    long strips() const { return (rows + MR - 1) / MR; }

    // the products of image n, group g: `to` is (rows, plane)
    void products(long n, long g, T* windows, T* to) const {
        const S *x = (const S*)p.x + n * p.x_n + g * p.channels * p.x_c, *end = (const S*)p.x + p.x_size;
        T tile[MR * NR];
        for (long q = 0; q < plane; q += NR) {
            int left = plane - q < NR ? (int)(plane - q) : (int)NR;
            for (long k = 0; k < p.channels; k++) copy_run(x + k * p.x_c + q, 1, windows + k * NR, left, end);
            for (long s = 0; s < strips(); s++) {
                int count = rows - s * MR < MR ? (int)(rows - s * MR) : (int)MR;
                micro_kernel<T>(count, (left + W - 1) / W)(p.channels, a + (g * strips() + s) * p.channels * MR, 1, MR, windows, NR,
                    tile, NR, false, 0);
                for (int r = 0; r < count; r++)
                    for (int j = 0; j < left; j++) to[(s * MR + r) * plane + q + j] = tile[r * NR + j];
            }
        }
    }
    // a row of products into the row of the result that its tap shifts it to
    void add_row(const T* from, long tap_w, T* to) const {
        long shift = tap_w * c.spread[2] - c.before[2], step = c.step[2];
        long first = shift < 0 ? ceil_div(-shift, step) : 0, end = ceil_div(p.windows[2] - shift, step);
        if (end > p.in[2]) end = p.in[2];
        for (long w = first; w < end; w++) to[w * step + shift] += from[w];
    }
    void add(const T* from, T* sums) const {
        long k[3], at[3];
        for (long o = 0; o < p.made; o++, sums += made_plane)
            for (k[0] = 0; k[0] < c.kernel[0]; k[0]++)
                for (k[1] = 0; k[1] < c.kernel[1]; k[1]++)
                    for (k[2] = 0; k[2] < c.kernel[2]; k[2]++)
                        for (long d = 0; d < p.in[0]; d++)
                            for (long h = 0; h < p.in[1]; h++, from += p.in[2]) {
                                at[0] = d * c.step[0] + k[0] * c.spread[0] - c.before[0];
                                at[1] = h * c.step[1] + k[1] * c.spread[1] - c.before[1];
                                if (at[0] >= 0 && at[0] < p.windows[0] && at[1] >= 0 && at[1] < p.windows[1])
                                    add_row(from, k[2], sums + (at[0] * p.windows[1] + at[1]) * p.windows[2]);
                            }
    }
    void write(long n, long g, const T* sums) const {
        for (long o = 0; o < p.made; o++) {
            long channel = g * p.made + o;
            T bias = p.bias ? (T)scalar(((const S*)p.bias)[channel]) : (T)0;
            for (long d = 0; d < p.windows[0]; d++)
                for (long h = 0; h < p.windows[1]; h++, sums += p.windows[2])
                    store_run(sums, bias, (S*)p.out + n * p.out_n + channel * p.out_c + d * p.out_s[0] + h * p.out_s[1],
                        p.out_s[2], p.windows[2]);
        }
    }
    static void range(void* self, long begin, long end, int) {
        const ConvScatter& f = *(const ConvScatter*)self;
        long windows = f.p.channels * NR + CONV_SLACK, sums = f.p.made * f.made_plane + CONV_SLACK;
        T* scratch = (T*)f.rt.alloc((windows + sums + f.rows * f.plane) * (long)sizeof(T) + 64);
        for (long i = begin; i < end; i++) {
            long n = i / f.p.groups, g = i % f.p.groups;
            f.products(n, g, scratch, scratch + windows + sums);
            for (long j = 0; j < f.p.made * f.made_plane; j++) scratch[windows + j] = 0;
            f.add(scratch + windows + sums, scratch + windows);
            f.write(n, g, scratch + windows);
        }
        f.rt.release(scratch);
    }
    void run() {
        taps = c.kernel[0] * c.kernel[1] * c.kernel[2], rows = p.made * taps;
        plane = p.in[0] * p.in[1] * p.in[2], made_plane = p.windows[0] * p.windows[1] * p.windows[2];
        a = (T*)rt.alloc(p.groups * strips() * p.channels * MR * (long)sizeof(T) + 64);
        for (long g = 0; g < p.groups; g++) pack(g);
        if (2.0 * p.batch * p.groups * rows * p.channels * plane < 4e5) range(this, 0, p.batch * p.groups, 0);
        else rt.parallel_for(range, this, p.batch * p.groups, 1);
        rt.release(a);
    }
};

template <class S, class T> inline bool run_scatter(const ConvProblem* p, const FbConv* c, const FbRuntime* rt) {
    if (!ConvScatter<S, T>::takes(*p, *c)) return false;
    ConvScatter<S, T>{*p, *c, *rt}.run();
    return true;
}
inline bool conv_scatter(const ConvProblem* p, const FbConv* c, const FbRuntime* rt) {
    switch (p->type) {
    case FB_FLOAT: return run_scatter<float, float>(p, c, rt);
    case FB_DOUBLE: return run_scatter<double, double>(p, c, rt);
    case FB_BF16: return run_scatter<bf16, float>(p, c, rt);
    case FB_F16: return run_scatter<f16, float>(p, c, rt);
    }
    return false;
}

#endif
