// Depthwise convolutions: one channel of x makes one channel of the result, so there is nothing to multiply as matrices.
//
// A plane of x is copied with zeros around it and the phases of the stride apart, one row behind the other. Every tap is
// then one distance in memory for all windows of the plane: the plane is made as one long row, whose lanes between two rows
// of windows are thrown away. So narrow planes fill registers as well as wide ones. Zeros are written once, for all planes.
// Include after conv.h.
#ifndef FB_CONV_DEPTHWISE_H
#define FB_CONV_DEPTHWISE_H

#include "conv.h"

enum { PLANE_BYTES = 24 << 10, PLANE_MOST = 256 << 10 };

// Where the windows of a band of rows find x in the copied plane; h and w: the dims of an image.
template <class S, class T> struct Plane {
    enum { W = Lanes<T>::W };
    struct Columns { // of one horizontal phase: the first that x reaches, how many, and where in a row of x
        long first, count, from;
    };
    const ConvProblem& p;
    long low_h, low_w, span_h, span_w, pitch, lines, band, bands, size; // `lines` of one phase
    bool plan() {
        low_h = low_w = 0, span_h = span_w = 0;
        for (long t = 0; t < p.taps; t++) {
            long h = p.tap[t].at[1], w = p.tap[t].at[2];
            if (!t) low_h = h, low_w = w;
            if (h < low_h) span_h += low_h - h, low_h = h;
            if (w < low_w) span_w += low_w - w, low_w = w;
            if (h - low_h > span_h) span_h = h - low_h;
            if (w - low_w > span_w) span_w = w - low_w;
        }
        pitch = p.windows[2] + span_w / p.step[2];
        for (band = p.windows[1]; band > 1 && bytes_of(band) > PLANE_BYTES;) band = (band + 1) / 2;
        bands = (p.windows[1] + band - 1) / band;
        lines = band + span_h / p.step[1];
        size = lines * pitch * p.step[1] * p.step[2];
        return bytes_of(band) <= PLANE_MOST;
    }
    long bytes_of(long rows) const {
        return (rows + span_h / p.step[1]) * pitch * p.step[1] * p.step[2] * (long)sizeof(T);
    }
    long phase(long h, long w) const { return (h % p.step[1] * p.step[2] + w % p.step[2]) * lines * pitch; }
    long offset(const ConvTap& tap) const {
        long h = tap.at[1] - low_h, w = tap.at[2] - low_w;
        return phase(h, w) + h / p.step[1] * pitch + w / p.step[2];
    }
    void columns(Columns* to) const {
        for (long f = 0; f < p.step[2]; f++) {
            long w = low_w + f, step = p.step[2];
            long first = w < 0 ? ceil_div(-w, step) : 0, end = p.in[2] - w > 0 ? ceil_div(p.in[2] - w, step) : 0;
            if (end > pitch) end = pitch;
            to[f] = {first, end > first ? end - first : 0, (w + first * step) * p.x_s[2]};
        }
    }
    // the rows of plane (n, c) that windows of rows [h, h + band) meet, into a plane whose other elements are zeros
    void copy(long n, long c, long h, const Columns* columns, T* to) const {
        long top = h * p.step[1] + low_h, rows = p.windows[1] - h < band ? p.windows[1] - h : band;
        long begin = top < 0 ? -top : 0, end = (rows - 1) * p.step[1] + span_h + 1;
        if (end > p.in[1] - top) end = p.in[1] - top;
        const S *x = (const S*)p.x + n * p.x_n + c * p.x_c + top * p.x_s[1], *last = (const S*)p.x + p.x_size;
        long along = p.step[2] * p.x_s[2], down = p.step[1] * p.x_s[1];
        for (long v = 0; v < p.step[1]; v++)
            for (long f = 0; f < p.step[2]; f++, to += lines * pitch) {
                long line = v < begin ? (begin - v + p.step[1] - 1) / p.step[1] : 0;
                const S* from = x + (v + line * p.step[1]) * p.x_s[1] + columns[f].from;
                T* row = to + line * pitch + columns[f].first;
                for (long r = v + line * p.step[1]; r < end; r += p.step[1], from += down, row += pitch)
                    copy_exactly(from, along, row, columns[f].count, last);
            }
    }
    // n elements, and no element beyond them
    static inline __attribute__((always_inline)) void copy_exactly(const S* from, long along, T* to, long n, const S* last) {
        long j = 0;
        if (along == 1)
            for (; j + W <= n; j += W) st_native(to + j, load_as<T>(from + j));
        if constexpr (sizeof(T) == 4) {
            if (along == 1) {
                if (j < n) st(to + j, ld(from + j, Tail{(int)(n - j)}), Tail{(int)(n - j)});
                return;
            }
            if (along == 2)
                for (; j < n && from + 2 * (j + W) <= last; j += W) {
                    vf even = __builtin_shufflevector(load_as<T>(from + 2 * j), load_as<T>(from + 2 * j + W), FB_EVEN);
                    if (j + W <= n) st(to + j, even, Full{});
                    else st(to + j, even, Tail{(int)(n - j)});
                }
        }
        for (; j < n; j++) to[j] = (T)scalar(from[j * along]);
    }
};

template <class S, class T> struct DepthwiseForward {
    enum { W = Lanes<T>::W };
    const ConvProblem& p;
    const FbRuntime& rt;
    Plane<S, T> plane;
    long block, blocks; // planes that are handed out together
    long* offsets;
    T* weights; // (channel, tap)

    template <int V> inline __attribute__((always_inline)) void vectors(const T* x, const T* weight, T* to) const {
        typedef typename Lanes<T>::V Vector;
        Vector sum[V];
        for (int v = 0; v < V; v++) sum[v] = (Vector){};
        for (long t = 0; t < p.taps; t++) {
            const T* from = x + offsets[t];
            Vector factor = splat_native(weight[t]);
#pragma GCC unroll 8
            for (int v = 0; v < V; v++) sum[v] = v_fma(ld_native(from + v * W), factor, sum[v]);
        }
#pragma GCC unroll 8
        for (int v = 0; v < V; v++) st_native(to + v * W, sum[v]);
    }
    // `rows` rows of windows as one long row
    void make(const T* x, const T* weight, long rows, T* to) const {
        long v = 0, count = ((rows - 1) * plane.pitch + p.windows[2] + W - 1) / W;
        for (; v + 8 <= count; v += 8) vectors<8>(x + v * W, weight, to + v * W);
        if (count - v >= 4) vectors<4>(x + v * W, weight, to + v * W), v += 4;
        if (count - v == 3) vectors<3>(x + v * W, weight, to + v * W);
        else if (count - v == 2) vectors<2>(x + v * W, weight, to + v * W);
        else if (count - v == 1) vectors<1>(x + v * W, weight, to + v * W);
    }
    // without the lanes between rows; whole vectors are written: what is beyond a row the next one overwrites
    void close_up(const T* from, long rows, T* to) const {
        for (; rows; rows--, from += plane.pitch, to += p.windows[2])
            for (long w = 0; w < p.windows[2]; w += W) st_native(to + w, ld_native(from + w));
    }
    void write(const T* from, long rows, T bias, S* to) const {
        for (; rows; rows--, from += plane.pitch, to += p.out_s[1]) {
            long w = 0, n = p.windows[2];
            if constexpr (sizeof(T) == 4) {
                if (p.out_s[2] == 1) {
                    for (; w + W <= n; w += W) st(to + w, ld(from + w, Full{}) + splat_native(bias), Full{});
                    if (w < n) st(to + w, ld(from + w, Full{}) + splat_native(bias), Tail{(int)(n - w)});
                    continue;
                }
            }
            store_run(from, bias, to, p.out_s[2], n);
        }
    }
    // Each step for all planes of the block before the next: a load that spans several stores waits until they have left.
    void some(long n, long c, long count, long h, T* x, T* made, T* tile, const typename Plane<S, T>::Columns* columns) const {
        long rows = p.windows[1] - h < plane.band ? p.windows[1] - h : plane.band, size = plane.band * p.windows[2];
        for (long i = 0; i < count; i++) plane.copy(n, c + i, h, columns, x + i * plane.size);
        for (long i = 0; i < count; i++) make(x + i * plane.size, weights + (c + i) * p.taps, rows, made + i * made_size());
        if (p.epilogue) {
            for (long i = 0; i < count; i++) close_up(made + i * made_size(), rows, tile + i * size);
            p.epilogue(p.epilogue_arg, tile, size, n, c, h * p.windows[2], count, rows * p.windows[2]);
            return;
        }
        for (long i = 0; i < count; i++) {
            T bias = p.bias ? (T)scalar(((const S*)p.bias)[c + i]) : (T)0;
            write(made + i * made_size(), rows, bias, (S*)p.out + n * p.out_n + (c + i) * p.out_c + h * p.out_s[1]);
        }
    }
    long made_size() const { return (plane.band * plane.pitch + W - 1) / W * W; }
    // units: (band, image, block of channels)
    static void range(void* self, long begin, long end, int) {
        const DepthwiseForward& f = *(const DepthwiseForward*)self;
        const ConvProblem& p = f.p;
        typedef typename Plane<S, T>::Columns Columns;
        long room = f.block * f.plane.size + W, made = f.block * f.made_size() + W; // (a vector is read beyond what is needed)
        long tile = p.epilogue ? f.block * f.plane.band * p.windows[2] + W : 0, band = -1;
        T* x = (T*)f.rt.alloc((room + made + tile) * (long)sizeof(T) + p.step[2] * (long)sizeof(Columns) + 128);
        Columns* columns = (Columns*)(((unsigned long)(x + room + made + tile) + 63) & ~63ul);
        f.plane.columns(columns);
        for (long i = begin; i < end; i++) {
            long h = i / (p.batch * f.blocks), n = i / f.blocks % p.batch, c = i % f.blocks * f.block;
            if (h != band) zero_run(x, room - W), band = h;
            long count = p.groups - c < f.block ? p.groups - c : f.block;
            f.some(n, c, count, h * f.plane.band, x, x + room, x + room + made, columns);
        }
        f.rt.release(x);
    }
    bool run() {
        if (!plane.plan()) return false;
        if (!p.batch || !p.groups) return true;
        long windows = p.windows[1] * p.windows[2], units = p.batch * plane.bands;
        bool alone = 2.0 * p.batch * p.groups * p.taps * windows < 4e5;
        block = PLANE_BYTES / (plane.size * (long)sizeof(T));
        block = block < 1 ? 1 : block > p.groups ? p.groups : block;
        while (!alone && block > 1 && units * ceil_div(p.groups, block) < 8 * rt.num_threads()) block = (block + 1) / 2;
        blocks = ceil_div(p.groups, block);
        offsets = (long*)rt.alloc(p.taps * (long)sizeof(long) + 64);
        weights = (T*)rt.alloc(p.groups * p.taps * (long)sizeof(T) + 64);
        for (long t = 0; t < p.taps; t++) offsets[t] = plane.offset(p.tap[t]);
        for (long g = 0; g < p.groups; g++)
            for (long t = 0; t < p.taps; t++) weights[g * p.taps + t] = (T)scalar(((const S*)p.w)[g * p.w_g + p.tap[t].weight]);
        if (alone) range(this, 0, units * blocks, 0);
        else rt.parallel_for(range, this, units * blocks, 1);
        rt.release(weights);
        rt.release(offsets);
        return true;
    }
};

// (a tap that lies in front of or behind an only image meets nothing, which a plane does not know)
inline bool is_depthwise(const ConvProblem& p) {
    for (long t = 0; t < p.taps; t++)
        if (p.tap[t].at[0]) return false;
    return p.channels == 1 && p.made == 1 && p.groups > 1 && p.in[0] == 1 && p.windows[0] == 1 && p.windows[1] > 0
        && p.windows[2] > 0 && p.taps > 0;
}

#endif
