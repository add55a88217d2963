// Convolutions whose phases have 2x2 taps (2x2 at step 1, 4x4 at step 2), plain, transposed and the gradient of the weight,
// in segments of three and two results per dim (Winograd's F(3, 2) and F(2, 2)): four products instead of six, three of four.
//
// Lanes are images. x is laid out as (channel, position, image); a tile, one segment per dim, has up to 16 sums V of x
// per channel and phase, the taps 16 sums U, and per number of the 16, U V is a product over channels and phases. The same
// sums of the result's gradient in the place of U, multiplied over images, give the 16 sums of the weight's gradient. A
// segment of two uses three of the four numbers. Numbers whose sums could overflow, infinities and NaNs are left to the
// direct kernels. Include after conv_winograd.h.
#ifndef FB_CONV_SEGMENTS_H
#define FB_CONV_SEGMENTS_H

#include "conv_winograd.h"

enum { IMAGES = 64, POINTS = 4, TERMS = 128, ROW_BLOCK = 48, MOST_TAPS = 1 << 16, MOST_BYTES = 24 << 20 };
static_assert(ROW_BLOCK % MR == 0 && ROW_BLOCK % FB_W == 0 && IMAGES % (NV * FB_W) == 0);

// One dim: the two taps of each phase (of x, or of the result of a transposed convolution), and the segments of its results.
struct TwoTaps {
    long size, made, step, spread; // of x; results; of the convolution; between neighbours in x that one segment meets
    bool transposed;
    long shift[2], tap[2][2]; // by phase

    TwoTaps(const FbConv& c, int d) {
        size = c.in[d], made = c.windows[d], step = c.step[d], transposed = c.form == FB_CONV_TRANSPOSED;
        spread = transposed ? 1 : step;
        for (long f = 0; f < step; f++) {
            long k = (f + c.before[d]) % step, by = (f + c.before[d] - k) / step;
            shift[f] = transposed ? by - 1 : -by;
            tap[f][transposed] = k, tap[f][!transposed] = k + step;
        }
    }
    long phases() const { return transposed ? step : 1; } // of the result
    long results(long phase) const { return transposed ? (made - phase + step - 1) / step : made; }
    long segments(long phase) const { return (results(phase) + 2) / 3; }
    long twos(long phase) const { return 3 * segments(phase) - results(phase); } // segments of two, which come first
    long begin(long phase, long i) const { return i < twos(phase) ? 2 * i : 3 * i - twos(phase); }
    bool three(long phase, long i) const { return i >= twos(phase); }
    long in_x(long phase, long result) const { return transposed ? result + shift[phase] : (result + shift[phase]) * step + phase; }
    long in_result(long phase, long result) const { return transposed ? result * step + phase : result; }
    static bool fits(const FbConv& c, int d) {
        return c.step[d] <= 2 && c.kernel[d] == 2 * c.step[d] && c.spread[d] == 1 && c.windows[d] >= 2 * c.step[d];
    }
};

// ---- the sums of one dim, `step` apart: of x, of taps, of results, of results' gradients, and the gradients of taps
template <int T> FB_INLINE void sums_of_x(const vf* d, vf* v, long step) {
    if constexpr (T == 3) {
        v[0] = d[0] - d[2 * step], v[step] = d[step] + d[2 * step];
        v[2 * step] = d[2 * step] - d[step], v[3 * step] = d[3 * step] - d[step];
    } else {
        v[0] = d[0] - d[step], v[step] = d[step] + d[step], v[2 * step] = d[2 * step] - d[step];
    }
}
FB_INLINE void sums_of_taps(vf a, vf b, vf* u, long step) {
    vf half = splat_f(0.5f);
    u[0] = a, u[step] = (a + b) * half, u[2 * step] = (a - b) * half, u[3 * step] = b;
}
template <int T> FB_INLINE void results_of(const vf* m, vf* y, long from, long to) {
    if constexpr (T == 3) {
        vf both = m[from] + m[2 * from];
        y[0] = m[0] + both, y[to] = m[from] - m[2 * from], y[2 * to] = both + m[3 * from];
    } else {
        y[0] = m[0] + m[from], y[to] = m[from] + m[2 * from];
    }
}
template <int T> FB_INLINE void sums_of_gradients(const vf* g, vf* a, long from, long to) {
    if constexpr (T == 3) {
        vf ends = g[0] + g[2 * from];
        a[0] = g[0], a[to] = ends + g[from], a[2 * to] = ends - g[from], a[3 * to] = g[2 * from];
    } else {
        a[0] = g[0], a[to] = g[0] + g[from], a[2 * to] = g[from];
    }
}
FB_INLINE void taps_of_sums(const vf* u, vf* w, long from, long to) {
    vf half = splat_f(0.5f);
    w[0] = u[0] + (u[from] + u[2 * from]) * half, w[to] = u[3 * from] + (u[from] - u[2 * from]) * half;
}

struct ConvSegments {
    enum { W = FB_W, NR = NV * W };
    const FbConv& c;
    const FbRuntime& rt;
    TwoTaps down, along;
    long chunks, plane, made_plane, terms, tiles; // terms: channels and phases of x; tiles of one chunk of images
    int wild;
    float *x, *u, *out; // (chunk, channel, position, image); (phase of the result, 16, block of rows, term, row); like x
    long rows_padded;

    // ---- one tile: a segment per dim, of one phase of the result
    struct Tile {
        long phase[2], y, x; // first results
        bool high, wide;     // three of them
    };
    Tile tile(long i) const {
        for (long f = 0;; f++) {
            long a = f / along.phases(), b = f % along.phases(), n = along.segments(b), count = down.segments(a) * n;
            if (i < count)
                return {{a, b}, down.begin(a, i / n), along.begin(b, i % n), down.three(a, i / n), along.three(b, i % n)};
            i -= count;
        }
    }
    long images(long chunk) const { return c.batch - chunk * IMAGES < IMAGES ? c.batch - chunk * IMAGES : (long)IMAGES; }
    int lanes(long chunk) const { return (int)((images(chunk) + W - 1) / W * W); }
    long phases_of_x() const { return down.transposed ? 1 : down.step * along.step; }
    // the number among 16 of product i of a tile
    static int number(const Tile& t, int i) {
        int wide = 3 + t.wide, a = i / wide, b = i % wide;
        return (!t.high && a == 2 ? 3 : a) * POINTS + (!t.wide && b == 2 ? 3 : b);
    }
    static int products(const Tile& t) { return (3 + t.high) * (3 + t.wide); }
    static long apart(long size) { return size + IMAGES; } // of the 16: never a multiple of the cache's period

    void judge(const float* from, long n) {
        typedef ConvWinograd::Numbers Numbers;
        if (Numbers::beyond(Numbers::largest((vi){}, from, n))) __atomic_store_n(&wild, 1, __ATOMIC_RELAXED);
    }

    // ---- x with images side by side
    static void lay_range(void* self, long begin, long end, int) {
        ConvSegments& f = *(ConvSegments*)self;
        for (long i = begin; i < end; i++) {
            long chunk = i / f.c.channels, n = f.images(chunk);
            const float* from = (const float*)f.c.x + chunk * IMAGES * f.c.x_n + i % f.c.channels * f.c.x_c;
            float* to = f.x + i * f.plane * IMAGES;
            if (f.lanes(chunk) != n) __builtin_memset(to, 0, f.plane * IMAGES * sizeof(float));
            long rows = f.c.x_s[1] == f.c.in[2] ? 1 : f.c.in[1], count = f.plane / rows;
            for (long h = 0; h < rows; h++)
                pack_transposed(from + h * f.c.x_s[1], f.c.x_n, to + h * count * IMAGES, IMAGES, n, count);
            f.judge(to, f.plane * IMAGES);
        }
    }
    // ---- V of some terms of a tile
    template <int H, int T> static void transform(const float* const (&at)[16], int lanes, float* v, long v_size) {
        for (int l = 0; l < lanes; l += W) {
            vf d[16], across[16], sums[16];
#pragma GCC unroll 4
            for (int i = 0; i <= H; i++)
#pragma GCC unroll 4
                for (int j = 0; j <= T; j++) d[4 * i + j] = ld_native(at[4 * i + j] + l);
#pragma GCC unroll 4
            for (int i = 0; i <= H; i++) sums_of_x<T>(d + 4 * i, across + 4 * i, 1);
#pragma GCC unroll 4
            for (int j = 0; j <= T; j++) sums_of_x<H>(across + j, sums + j, 4);
#pragma GCC unroll 4
            for (int i = 0; i <= H; i++)
#pragma GCC unroll 4
                for (int j = 0; j <= T; j++) st_native(v + (i * (T + 1) + j) * v_size + l, sums[4 * i + j]);
        }
    }
    void sums(long chunk, const Tile& t, long begin, long end, float* v, long v_size) const {
        static const float zeros[IMAGES] = {};
        long phases = phases_of_x();
        int count = lanes(chunk);
        for (long phase = 0; phase < phases; phase++) {
            long a = down.transposed ? t.phase[0] : phase / along.step, b = down.transposed ? t.phase[1] : phase % along.step, place[16];
            for (int i = 0; i < 16; i++) {
                long h = down.in_x(a, t.y) + i / 4 * down.spread, w = along.in_x(b, t.x) + i % 4 * along.spread;
                place[i] = h < 0 || h >= c.in[1] || w < 0 || w >= c.in[2] ? -1 : (h * c.in[2] + w) * IMAGES;
            }
            for (long term = begin + phase; term < end; term += phases) {
                const float *from = x + (chunk * c.channels + term / phases) * plane * IMAGES, *at[16];
                for (int i = 0; i < 16; i++) at[i] = place[i] < 0 ? zeros : from + place[i];
                float* to = v + (term - begin) * IMAGES;
                if (t.high) t.wide ? transform<3, 3>(at, count, to, v_size) : transform<3, 2>(at, count, to, v_size);
                else t.wide ? transform<2, 3>(at, count, to, v_size) : transform<2, 2>(at, count, to, v_size);
            }
        }
    }
    // ---- U
    long u_size() const { return apart(rows_padded * terms); }
    long tap_at(long o, long channel) const { // of the weight
        long taps = c.kernel[1] * c.kernel[2];
        return (down.transposed ? channel * c.made + o : o * c.channels + channel) * taps;
    }
    static void tap_range(void* self, long begin, long end, int) {
        const ConvSegments& f = *(const ConvSegments*)self;
        long phases = f.down.step * f.along.step;
        for (long i = begin; i < end; i++)
            for (long phase = 0; phase < phases; phase++)
                for (long o = 0; o < f.c.made; o += W) f.transform_taps(i, phase, o);
    }
    void transform_taps(long channel, long phase, long o) const {
        long a = phase / along.step, b = phase % along.step, count = c.made - o < W ? c.made - o : (long)W;
        long term = down.transposed ? channel : channel * phases_of_x() + phase;
        vf taps[4] = {}, across[8], sums[16];
        for (long l = 0; l < count; l++) {
            const float* from = (const float*)c.w + tap_at(o + l, channel);
            for (int k = 0; k < 4; k++) taps[k][l] = from[down.tap[a][k / 2] * c.kernel[2] + along.tap[b][k % 2]];
        }
        for (int i = 0; i < 2; i++) sums_of_taps(taps[2 * i], taps[2 * i + 1], across + 4 * i, 1);
        for (int j = 0; j < 4; j++) sums_of_taps(across[j], across[4 + j], sums + j, 4);
        for (int s = 0; s < 16; s++)
            st_native(taps_of(down.transposed ? phase : 0, s, o, term) + o % ROW_BLOCK, sums[s]);
    }
    float* taps_of(long phase, int s, long o, long term) const {
        return u + (phase * 16 + s) * u_size() + (o / ROW_BLOCK * terms + term) * ROW_BLOCK;
    }
    // ---- tiles of the result
    static void tile_range(void* self, long begin, long end, int) {
        const ConvSegments& f = *(const ConvSegments*)self;
        long depth = f.depth(), v_size = apart(depth * IMAGES), m_size = apart(f.c.made * IMAGES);
        float *v = (float*)f.rt.alloc(16 * (v_size + m_size) * (long)sizeof(float) + 64), *m = v + 16 * v_size;
        for (long i = begin; i < end; i++) {
            long chunk = i / f.tiles;
            Tile t = f.tile(i % f.tiles);
            for (long k = 0; k < f.terms; k += depth) {
                long past = f.terms - k < depth ? f.terms : k + depth;
                f.sums(chunk, t, k, past, v, v_size);
                for (int p = 0; p < products(t); p++) f.multiply(chunk, t, p, k, past - k, v + p * v_size, m + p * m_size);
            }
            f.finish(chunk, t, m, m_size);
        }
        f.rt.release(v);
    }
    long depth() const { return TERMS / phases_of_x() * phases_of_x(); }
    void multiply(long chunk, const Tile& t, int product, long k, long depth, const float* v, float* m) const {
        int s = number(t, product), vectors = lanes(chunk) / W;
        for (long part = 0; part < depth; part += SUM_CHAIN)
            for (long n = 0; n < vectors; n += NV)
                for (long o = 0; o < c.made; o += MR)
                    micro_kernel<float>(c.made - o < MR ? (int)(c.made - o) : (int)MR, vectors - n < NV ? (int)(vectors - n) : (int)NV)(
                        depth - part < SUM_CHAIN ? depth - part : (long)SUM_CHAIN,
                        taps_of(t.phase[0] * along.phases() + t.phase[1], s, o, k + part) + o % ROW_BLOCK, 1, ROW_BLOCK,
                        v + part * IMAGES + n * W, IMAGES, m + o * IMAGES + n * W, IMAGES, k + part > 0, 0);
    }
    template <int H, int T> void finish_rows(long chunk, const Tile& t, const float* m, long m_size) const {
        long at[9];
        for (int i = 0; i < H * T; i++)
            at[i] = (down.in_result(t.phase[0], t.y + i / T) * c.windows[2] + along.in_result(t.phase[1], t.x + i % T)) * IMAGES;
        int count = lanes(chunk);
        for (long o = 0; o < c.made; o++, m += IMAGES) {
            float* to = out + (chunk * c.made + o) * made_plane * IMAGES;
            for (int l = 0; l < count; l += W) {
                vf all[16], across[16], y[9];
#pragma GCC unroll 16
                for (int i = 0; i < (H + 1) * (T + 1); i++) all[i] = ld_native(m + i * m_size + l);
#pragma GCC unroll 4
                for (int i = 0; i <= H; i++) results_of<T>(all + i * (T + 1), across + i * T, 1, 1);
#pragma GCC unroll 4
                for (int j = 0; j < T; j++) results_of<H>(across + j, y + j, T, T);
#pragma GCC unroll 9
                for (int i = 0; i < H * T; i++) st_native(to + at[i] + l, y[i]);
            }
        }
    }
    void finish(long chunk, const Tile& t, const float* m, long m_size) const {
        if (t.high) t.wide ? finish_rows<3, 3>(chunk, t, m, m_size) : finish_rows<3, 2>(chunk, t, m, m_size);
        else t.wide ? finish_rows<2, 3>(chunk, t, m, m_size) : finish_rows<2, 2>(chunk, t, m, m_size);
    }
    // ---- results back in the order of the images
    static void write_range(void* self, long begin, long end, int) {
        const ConvSegments& f = *(const ConvSegments*)self;
        for (long i = begin; i < end; i++) {
            long chunk = i / f.c.made, o = i % f.c.made, n = f.images(chunk);
            float *from = f.out + i * f.made_plane * IMAGES, *to = (float*)f.c.out + chunk * IMAGES * f.c.out_n + o * f.c.out_c;
            if (f.c.bias) {
                vf bias = splat_f(((const float*)f.c.bias)[o]);
                for (long k = 0; k < f.made_plane * IMAGES; k += W) st_native(from + k, ld_native(from + k) + bias);
            }
            pack_transposed(from, IMAGES, to, f.c.out_n, f.made_plane, n);
        }
    }
    static void hand_range(void* self, long begin, long end, int) {
        const ConvSegments& f = *(const ConvSegments*)self;
        long size = f.c.made * f.made_plane;
        float* y = (float*)f.rt.alloc(W * size * (long)sizeof(float) + 64);
        for (long i = begin; i < end; i++) {
            long first = i * W, chunk = first / IMAGES, n = f.c.batch - first < W ? f.c.batch - first : (long)W;
            for (long o = 0; o < f.c.made; o++)
                pack_transposed(f.out + (chunk * f.c.made + o) * f.made_plane * IMAGES + first % IMAGES, IMAGES,
                    y + o * f.made_plane, size, f.made_plane, n);
            for (long k = 0; k < n; k++)
                f.c.epilogue(f.c.epilogue_arg, y + k * size, f.made_plane, first + k, 0, 0, f.c.made, f.made_plane);
        }
        f.rt.release(y);
    }
    // ---- the gradient of the weight
    float *g, *sums_of_g, *sums_of_w; // (chunk, position, image, row); (chunk, tile, 16, image, row); (16, term, row)
    long block;                       // channels of a unit of work

    static void lay_gradient_range(void* self, long begin, long end, int) {
        ConvSegments& f = *(ConvSegments*)self;
        long width = IMAGES * f.rows_padded;
        for (long n = begin; n < end; n++) {
            const float* from = (const float*)f.c.out + n * f.c.out_n;
            float* to = f.g + n / IMAGES * f.made_plane * width + n % IMAGES * f.rows_padded;
            pack_transposed(from, f.c.out_c, to, width, f.c.made, f.made_plane);
            for (long o = f.c.made; o < f.rows_padded; o++)
                for (long k = 0; k < f.made_plane; k++) to[k * width + o] = 0;
            for (long o = 0; o < f.c.made; o++) f.judge(from + o * f.c.out_c, f.made_plane);
        }
    }
    long g_size() const { return apart(IMAGES * rows_padded); }
    template <int H, int T> void gradient_rows(long chunk, const Tile& t, float* to) const {
        const float* from = g + chunk * made_plane * IMAGES * rows_padded;
        long at[9], count = images(chunk) * rows_padded;
        for (int i = 0; i < H * T; i++) at[i] = ((t.y + i / T) * c.windows[2] + t.x + i % T) * IMAGES * rows_padded;
        for (long l = 0; l < count; l += W) {
            vf d[9], across[12], a[16];
#pragma GCC unroll 9
            for (int i = 0; i < H * T; i++) d[i] = ld_native(from + at[i] + l);
#pragma GCC unroll 4
            for (int i = 0; i < H; i++) sums_of_gradients<T>(d + i * T, across + i * (T + 1), 1, 1);
#pragma GCC unroll 4
            for (int j = 0; j <= T; j++) sums_of_gradients<H>(across + j, a + j, T + 1, T + 1);
#pragma GCC unroll 16
            for (int i = 0; i < (H + 1) * (T + 1); i++) st_native(to + i * g_size() + l, a[i]);
        }
    }
    static void gradient_range(void* self, long begin, long end, int) {
        const ConvSegments& f = *(const ConvSegments*)self;
        for (long i = begin; i < end; i++) {
            Tile t = f.tile(i % f.tiles);
            float* to = f.sums_of_g + i * 16 * f.g_size();
            if (t.high) t.wide ? f.gradient_rows<3, 3>(i / f.tiles, t, to) : f.gradient_rows<3, 2>(i / f.tiles, t, to);
            else t.wide ? f.gradient_rows<2, 3>(i / f.tiles, t, to) : f.gradient_rows<2, 2>(i / f.tiles, t, to);
        }
    }
    long w_size() const { return apart(terms * rows_padded); }
    static void weight_range(void* self, long begin, long end, int) {
        const ConvSegments& f = *(const ConvSegments*)self;
        long phases = f.phases_of_x(), v_size = apart(f.block * phases * IMAGES);
        float* v = (float*)f.rt.alloc(16 * v_size * (long)sizeof(float) + 64);
        for (long i = begin; i < end; i++) {
            long first = i * f.block * phases, past = (i + 1) * f.block < f.c.channels ? first + f.block * phases : f.terms;
            for (int s = 0; s < 16; s++)
                __builtin_memset(f.sums_of_w + s * f.w_size() + first * f.rows_padded, 0, (past - first) * f.rows_padded * sizeof(float));
            for (long j = 0; j < f.chunks * f.tiles; j++) {
                Tile t = f.tile(j % f.tiles);
                f.sums(j / f.tiles, t, first, past, v, v_size);
                for (int p = 0; p < products(t); p++) f.add_product(j, number(t, p), p, first, past - first, v + p * v_size);
            }
            for (long channel = i * f.block; channel < past / phases; channel++) f.write_taps(channel);
        }
        f.rt.release(v);
    }
    void add_product(long j, int s, int p, long first, long count, const float* v) const {
        const float* right = sums_of_g + (j * 16 + p) * g_size();
        float* to = sums_of_w + s * w_size() + first * rows_padded;
        for (long o = 0; o < c.made; o += NR) {
            int vectors = (int)((c.made - o < NR ? c.made - o + W - 1 : (long)NR) / W);
            for (long k = 0; k < count; k += MR)
                micro_kernel<float>(count - k < MR ? (int)(count - k) : (int)MR, vectors)(images(j / tiles), v + k * IMAGES, IMAGES, 1,
                    right + o, rows_padded, to + k * rows_padded + o, rows_padded, true, 0);
        }
    }
    void write_taps(long channel) const {
        long phases = phases_of_x(), taps = c.kernel[1] * c.kernel[2];
        for (long o = 0; o < c.made; o += W)
            for (long phase = 0; phase < phases; phase++) {
                const float* from = sums_of_w + (channel * phases + phase) * rows_padded + o;
                vf sums[16], across[8], w[4];
                for (int s = 0; s < 16; s++) sums[s] = ld_native(from + s * w_size());
                for (int i = 0; i < 4; i++) taps_of_sums(sums + 4 * i, across + 2 * i, 1, 1);
                for (int j = 0; j < 2; j++) taps_of_sums(across + j, w + j, 2, 2);
                for (int k = 0; k < 4; k++) {
                    long tap = down.tap[phase / along.step][k / 2] * c.kernel[2] + along.tap[phase % along.step][k % 2];
                    for (long l = 0; l < W && o + l < c.made; l++)
                        ((float*)c.w)[((o + l) * c.channels + channel) * taps + tap] = w[k][l];
                }
            }
    }

    // Enough images to fill registers, enough of them and of channels to pay for the sums, and no more memory than a cache has.
    static bool takes(const FbConv& c) {
        bool flat = c.type == FB_FLOAT && c.groups == 1 && c.in[0] == 1 && c.windows[0] == 1 && c.kernel[0] == 1 && c.before[0] == 0;
        if (!flat || !TwoTaps::fits(c, 1) || !TwoTaps::fits(c, 2) || c.before[1] < 0 || c.before[2] < 0) return false;
        bool rows = c.x_s[2] == 1 && (c.epilogue || (c.out_s[2] == 1 && c.out_s[1] == c.windows[2]));
        long phases = c.step[1] * c.step[2], rest = c.batch % IMAGES, made = c.batch * c.windows[1] * c.windows[2];
        bool full = rest == 0 || rest >= IMAGES * 3 / 4 || c.batch >= 4 * IMAGES;
        double bytes = 4.0 * (c.channels * (double)c.batch * c.in[1] * c.in[2] + (double)c.made * made) * (c.form == FB_CONV_WEIGHT ? 2 : 1);
        return rows && full && c.batch >= IMAGES * 3 / 4 && c.channels >= 16 && c.made >= 16 && c.made <= 256
            && c.channels * phases * c.made <= MOST_TAPS && made >= 1024 * (c.form == FB_CONV_TRANSPOSED ? phases : 1) && bytes <= MOST_BYTES;
    }
    float* floats(long count) { return (float*)rt.alloc(count * (long)sizeof(float) + 64); }
    void open() {
        chunks = (c.batch + IMAGES - 1) / IMAGES, wild = 0;
        plane = c.in[1] * c.in[2], made_plane = c.windows[1] * c.windows[2];
        terms = c.channels * phases_of_x(), tiles = 0;
        for (long f = 0; f < down.phases() * along.phases(); f++)
            tiles += down.segments(f / along.phases()) * along.segments(f % along.phases());
        x = floats(chunks * c.channels * plane * IMAGES);
        rt.parallel_for(lay_range, this, chunks * c.channels, 1);
    }
    // false: these numbers are for the direct kernels
    bool run() {
        open();
        if (c.form == FB_CONV_WEIGHT) weight();
        else results();
        rt.release(x);
        return !wild;
    }
    void results() {
        rows_padded = (c.made + ROW_BLOCK - 1) / ROW_BLOCK * ROW_BLOCK;
        judge((const float*)c.w, c.made * c.channels * c.kernel[1] * c.kernel[2]);
        if (wild) return;
        u = floats(down.phases() * along.phases() * 16 * u_size());
        out = floats(chunks * c.made * made_plane * IMAGES);
        rt.parallel_for(tap_range, this, c.channels, 1);
        rt.parallel_for(tile_range, this, chunks * tiles, 1);
        if (c.epilogue) rt.parallel_for(hand_range, this, (c.batch + W - 1) / W, 1);
        else rt.parallel_for(write_range, this, chunks * c.made, 1);
        rt.release(out);
        rt.release(u);
    }
    void weight() {
        rows_padded = (c.made + W - 1) / W * W;
        g = floats(chunks * made_plane * IMAGES * rows_padded);
        rt.parallel_for(lay_gradient_range, this, c.batch, 1);
        if (!wild) {
            long threads = rt.num_threads(), most = 64 / phases_of_x();
            block = (c.channels + threads - 1) / threads;
            if (block > most) block = most;
            sums_of_g = floats(chunks * tiles * 16 * g_size()), sums_of_w = floats(16 * w_size());
            rt.parallel_for(gradient_range, this, chunks * tiles, 1);
            rt.parallel_for(weight_range, this, (c.channels + block - 1) / block, 1);
            rt.release(sums_of_w);
            rt.release(sums_of_g);
        }
        rt.release(g);
    }
};

inline bool conv_segments(const FbConv* c, const FbRuntime* rt) {
    return ConvSegments::takes(*c) && ConvSegments{*c, *rt, {*c, 1}, {*c, 2}}.run();
}

#endif
