// Convolutions that make few channels per group, or whose windows have few terms (an image's first layer): no product is
// packed, registers hold rows of results.
//
// The rows of x that a band of result rows meets are copied once, with zeros beyond the edges and the phases of the
// stride apart, so that every tap reads whole vectors. Include after conv.h.
#ifndef FB_CONV_THIN_H
#define FB_CONV_THIN_H

#include "conv.h"

enum { THIN_MADE = 4, THIN_BYTES = 128 << 10, THIN_TILE = 1024, THIN_TERMS = 64, THIN_CHANNELS = 16 };

// Where the taps of a band lie in the copied rows.
template <class S, class T> struct ThinBand {
    enum { W = Lanes<T>::W };
    const ConvProblem& p;
    long lo[3], hi[3], width, row, deep, high, plane, channels, band, bands, size;
    // Bands of all or some channels of a group that fill no more than `bytes`, and so short that there are `units` of them.
    void plan(long some, long bytes, long units) {
        channels = some;
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
        long others = p.batch * p.groups * p.windows[0];
        for (band = p.windows[1]; band > 1; band = (band + 1) / 2) {
            if (bytes_of(band) <= bytes && (band <= 8 || others * ceil_div(p.windows[1], band) >= units)) break;
        }
        bands = (p.windows[1] + band - 1) / band;
        high = (band - 1) * p.step[1] + hi[1] - lo[1] + 1;
        plane = deep * high * row;
        size = channels * plane + CONV_SLACK;
    }
    long bytes_of(long lines) const {
        return channels * deep * ((lines - 1) * p.step[1] + hi[1] - lo[1] + 1) * row * (long)sizeof(T);
    }
    // the offset of a tap from the band's first row
    long offset(const ConvTap& tap) const {
        long w = tap.at[2] - lo[2];
        return ((tap.at[0] - lo[0]) * high + tap.at[1] - lo[1]) * row + w % p.step[2] * width + w / p.step[2];
    }
    // the rows that result rows [h, h + band) of depth d of image n meet, of channels from c on
    void copy(long n, long c, long d, long h, T* to) const {
        for (long last = c + channels; c < last; c++)
            for (long i = 0; i < deep; i++)
                for (long j = 0; j < high; j++, to += row)
                    copy_row_of(n, c, d * p.step[0] + lo[0] + i, h * p.step[1] + lo[1] + j, to);
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
    long K, per_row, high, pitch; // vectors of a row of windows; rows of a tile; elements of a tile's channel
    long* offsets; // per (channel, tap)
    T* weights;    // (group, block of channels, channel of x, tap, channel of the block)

    // O channels at V vectors of windows, which may lie in several rows
    template <int O, int V> void vectors(const T* x, long first, const T* weight, T* tile) const {
        typedef typename Lanes<T>::V Vector;
        Vector sum[O][V];
        const T* from[V];
        long to[V];
        for (int v = 0; v < V; v++) {
            long i = (first + v) / per_row, w = (first + v) % per_row * W;
            from[v] = x + i * p.step[1] * rows.row + w, to[v] = i * p.windows[2] + w;
        }
        for (int o = 0; o < O; o++)
            for (int v = 0; v < V; v++) sum[o][v] = (Vector){};
        for (long k = 0; k < K; k++, weight += O) {
            long at = offsets[k];
#pragma GCC unroll 8
            for (int v = 0; v < V; v++) {
                Vector value = ld_native(from[v] + at);
#pragma GCC unroll 4
                for (int o = 0; o < O; o++) sum[o][v] = v_fma(value, splat_native(weight[o]), sum[o][v]);
            }
        }
        // in ascending order: what a vector writes beyond its row the next one overwrites
#pragma GCC unroll 4
        for (int o = 0; o < O; o++)
#pragma GCC unroll 8
            for (int v = 0; v < V; v++) st_native(tile + o * pitch + to[v], sum[o][v]);
    }
    template <int O> void tile_of(const T* x, long count, const T* weight, T* tile) const {
        enum { MOST = O <= 2 ? 8 : 4 };
        long v = 0;
        for (; v + MOST <= count; v += MOST) vectors<O, MOST>(x, v, weight, tile);
        if (MOST == 8 && count - v >= 4) vectors<O, 4>(x, v, weight, tile), v += 4;
        if (count - v >= 2) vectors<O, 2>(x, v, weight, tile), v += 2;
        if (count > v) vectors<O, 1>(x, v, weight, tile);
    }
    // windows of the result rows [h, h + lines) of channels [o, o + count)
    void hand_out(long n, long channel, long d, long h, long lines, long count, const T* tile) const {
        long width = p.windows[2];
        if (p.epilogue)
            return p.epilogue(p.epilogue_arg, tile, pitch, n, channel, (d * p.windows[1] + h) * width, count, lines * width);
        S* out = (S*)p.out + n * p.out_n + d * p.out_s[0] + h * p.out_s[1];
        bool dense = p.out_s[2] == 1 && p.out_s[1] == width;
        for (long o = channel; o < channel + count; o++, tile += pitch) {
            T bias = p.bias ? (T)scalar(((const S*)p.bias)[o]) : (T)0;
            if (dense) store_run(tile, bias, out + o * p.out_c, 1, lines * width);
            else
                for (long i = 0; i < lines; i++)
                    store_run(tile + i * width, bias, out + o * p.out_c + i * p.out_s[1], p.out_s[2], width);
        }
    }
    void band(long n, long g, long d, long h, const T* x, T* tile) const {
        long end = h + rows.band < p.windows[1] ? h + rows.band : p.windows[1];
        for (; h < end; h += high, x += high * p.step[1] * rows.row) {
            long lines = end - h < high ? end - h : high, vectors = lines * per_row;
            const T* weight = weights + g * p.made * K;
            for (long o = 0; o < p.made; o += THIN_MADE, weight += THIN_MADE * K) {
                long count = p.made - o < THIN_MADE ? p.made - o : (long)THIN_MADE;
                if (count == 1) tile_of<1>(x, vectors, weight, tile);
                else if (count == 2) tile_of<2>(x, vectors, weight, tile);
                else if (count == 3) tile_of<3>(x, vectors, weight, tile);
                else tile_of<4>(x, vectors, weight, tile);
                hand_out(n, g * p.made + o, d, h, lines, count, tile);
            }
        }
    }
    static void range(void* self, long begin, long end, int) {
        const ThinForward& f = *(const ThinForward*)self;
        T* x = (T*)f.rt.alloc((f.rows.size + CONV_SLACK + THIN_MADE * f.pitch) * (long)sizeof(T) + 64);
        for (long i = begin; i < end; i++) {
            long h = i % f.rows.bands * f.rows.band, d = i / f.rows.bands % f.p.windows[0];
            long g = i / (f.rows.bands * f.p.windows[0]) % f.p.groups, n = i / (f.rows.bands * f.p.windows[0] * f.p.groups);
            f.rows.copy(n, g * f.p.channels, d, h, x);
            f.band(n, g, d, h, x, x + f.rows.size + CONV_SLACK);
        }
        f.rt.release(x);
    }
    void pack() {
        T* to = weights;
        for (long g = 0; g < p.groups; g++)
            for (long o = 0; o < p.made; o += THIN_MADE)
                for (long k = 0; k < K; k++)
                    for (long j = o; j < p.made && j < o + THIN_MADE; j++)
                        *to++ = (T)scalar(((const S*)p.w)[g * p.w_g + j * p.w_o + k / p.taps * p.w_c + p.tap[k % p.taps].weight]);
    }
    void run() {
        K = p.channels * p.taps;
        double work = 2.0 * p.batch * p.groups * p.made * K * p.windows[0] * p.windows[1] * p.windows[2];
        bool alone = work < 4e5;
        rows.plan(p.channels, THIN_BYTES, alone ? 1 : 4 * rt.num_threads());
        per_row = (p.windows[2] + W - 1) / W;
        high = THIN_TILE / p.windows[2];
        if (high > rows.band) high = rows.band;
        if (high < 1) high = 1;
        pitch = high * p.windows[2] + CONV_SLACK;
        offsets = (long*)rt.alloc(K * (long)(sizeof(long)) + 64);
        weights = (T*)rt.alloc(p.groups * K * p.made * (long)sizeof(T) + 64);
        for (long k = 0; k < K; k++) offsets[k] = k / p.taps * rows.plane + rows.offset(p.tap[k % p.taps]);
        pack();
        long units = p.batch * p.groups * p.windows[0] * rows.bands;
        if (alone) range(this, 0, units, 0);
        else rt.parallel_for(range, this, units, 1);
        rt.release(weights);
        rt.release(offsets);
    }
    // (the lanes of a vector are windows of one row: narrow rows leave too many empty)
    static bool takes(const ConvProblem& p) {
        long width = p.windows[2], lanes = (width + W - 1) / W * W, terms = p.channels * p.taps;
        if (p.windows[0] < 1 || p.windows[1] < 1 || width < 4) return false;
        if (p.made <= THIN_MADE) return p.made <= 2 || p.groups > 1 || terms <= 1024;
        if (p.taps == 1 && p.channels > THIN_CHANNELS) return false; // (a product's panel is read once for more channels made)
        return terms <= THIN_TERMS && 8 * width >= 5 * lanes && (p.epilogue || p.out_s[2] == 1);
    }
};

#endif
