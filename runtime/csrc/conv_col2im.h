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
    // The sums have the phases of the stride apart, and room for what falls beyond the result: a tap shifts whole rows.
    struct Shift {
        long low[3], size[3], phases, channel;
    };
    const ConvProblem& p;
    const FbConv& c;
    const FbRuntime& rt;
    long taps, rows, plane, pitch;
    Shift shift;
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

    // the products of image n, group g: `to` is (rows, pitch)
    void products(long n, long g, T* windows, T* to) const {
        const S *x = (const S*)p.x + n * p.x_n + g * p.channels * p.x_c, *end = (const S*)p.x + p.x_size;
        for (long q = 0; q < plane; q += NR) {
            int left = plane - q < NR ? (int)(plane - q) : (int)NR;
            for (long k = 0; k < p.channels; k++) copy_run(x + k * p.x_c + q, 1, windows + k * NR, left, end);
            for (long s = 0; s < strips(); s++) {
                int count = rows - s * MR < MR ? (int)(rows - s * MR) : (int)MR;
                micro_kernel<T>(count, (left + W - 1) / W)(p.channels, a + (g * strips() + s) * p.channels * MR, 1, MR, windows, NR,
                    to + s * MR * pitch + q, pitch, false, 0);
            }
        }
    }
    static Shift shifts_of(const FbConv& c) {
        Shift f;
        f.phases = c.step[0] * c.step[1] * c.step[2];
        for (int d = 0; d < 3; d++) {
            f.low[d] = floor_div(-c.before[d], c.step[d]);
            f.size[d] = c.in[d] + floor_div((c.kernel[d] - 1) * c.spread[d] - c.before[d], c.step[d]) - f.low[d];
            long results = (c.windows[d] + c.step[d] - 1) / c.step[d] - f.low[d]; // (an output padding may add some)
            if (f.size[d] < results) f.size[d] = results;
        }
        f.channel = f.phases * f.size[0] * f.size[1] * f.size[2];
        return f;
    }
    // where results at `at` lie in a channel's sums
    long place(const long* at) const {
        long phase = 0, offset = 0;
        for (int d = 0; d < 3; d++) {
            long own = floor_div(at[d], c.step[d]);
            phase = phase * c.step[d] + at[d] - own * c.step[d], offset = offset * shift.size[d] + own - shift.low[d];
        }
        return phase * (shift.channel / shift.phases) + offset;
    }
    static void add_row(const T* from, T* to, long n) {
        long w = 0;
        for (; w + W <= n; w += W) st_native(to + w, ld_native(to + w) + ld_native(from + w));
        if constexpr (sizeof(T) == 4) {
            if (w < n) st(to + w, ld(to + w, Tail{(int)(n - w)}) + ld(from + w, Tail{(int)(n - w)}), Tail{(int)(n - w)});
        }
        else
            for (; w < n; w++) to[w] += from[w];
    }
    void add(const T* products, T* sums) const {
        long k[3], at[3];
        for (long o = 0; o < p.made; o++, sums += shift.channel)
            for (k[0] = 0; k[0] < c.kernel[0]; k[0]++)
                for (k[1] = 0; k[1] < c.kernel[1]; k[1]++)
                    for (k[2] = 0; k[2] < c.kernel[2]; k[2]++, products += pitch) {
                        for (int d = 0; d < 3; d++) at[d] = k[d] * c.spread[d] - c.before[d];
                        T* to = sums + place(at);
                        const T* from = products;
                        for (long d = 0; d < p.in[0]; d++)
                            for (long h = 0; h < p.in[1]; h++, from += p.in[2])
                                add_row(from, to + (d * shift.size[1] + h) * shift.size[2], p.in[2]);
                    }
    }
    void write(long n, long g, const T* sums) const {
        for (long o = 0; o < p.made; o++, sums += shift.channel) {
            long channel = g * p.made + o, at[3];
            T bias = p.bias ? (T)scalar(((const S*)p.bias)[channel]) : (T)0;
            S* out = (S*)p.out + n * p.out_n + channel * p.out_c;
            for (at[0] = 0; at[0] < p.windows[0]; at[0]++)
                for (at[1] = 0; at[1] < p.windows[1]; at[1]++)
                    for (at[2] = 0; at[2] < c.step[2]; at[2]++) {
                        long count = (p.windows[2] - at[2] + c.step[2] - 1) / c.step[2];
                        if (count > 0)
                            store_run(sums + place(at), bias, out + at[0] * p.out_s[0] + at[1] * p.out_s[1] + at[2] * p.out_s[2],
                                c.step[2] * p.out_s[2], count);
                    }
        }
    }
    static void range(void* self, long begin, long end, int) {
        const ConvScatter& f = *(const ConvScatter*)self;
        long windows = f.p.channels * NR + CONV_SLACK, sums = f.p.made * f.shift.channel + CONV_SLACK;
        T* scratch = (T*)f.rt.alloc((windows + sums + f.rows * f.pitch) * (long)sizeof(T) + 64);
        for (long i = begin; i < end; i++) {
            long n = i / f.p.groups, g = i % f.p.groups;
            f.products(n, g, scratch, scratch + windows + sums);
            zero_run(scratch + windows, f.p.made * f.shift.channel);
            f.add(scratch + windows + sums, scratch + windows);
            f.write(n, g, scratch + windows);
        }
        f.rt.release(scratch);
    }
    void run() {
        taps = c.kernel[0] * c.kernel[1] * c.kernel[2], rows = p.made * taps;
        plane = p.in[0] * p.in[1] * p.in[2], pitch = (plane + W - 1) / W * W, shift = shifts_of(c);
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
