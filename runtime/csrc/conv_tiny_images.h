// Convolutions of 3x3 taps over images of one to sixteen pixels: lanes are images, and taps beyond an edge cost nothing.
//
// x is laid out (block of images, channel, pixel, image), so a register holds one pixel of a block of images. Which tap joins
// two pixels is known to the compiler: each number of the weight is read once, from where it lies, and meets the pairs of pixels
// that it joins (16 of 36 products for 2x2 pixels). The gradient of the weight has lanes of channels. Sums are made of short
// parts, as in gemm.h. Include after conv.h.
#ifndef FB_CONV_PIXELS_H
#define FB_CONV_PIXELS_H

#include "conv.h"

#if FB_ISA == 512
FB_INLINE hf multiply_add(hf a, hf b, hf c) { return (hf)__builtin_ia32_vfmaddps256(a, b, c); }
#endif

// An image of IN x IN pixels under windows of 3x3 that start one pixel before it: OUT x OUT windows, STEP apart.
template <int IN, int OUT, int STEP> struct Grid {
    enum { PIXELS = IN * IN, RESULTS = OUT * OUT };
    // the pixel that tap t of a window lies on, or -1
    static constexpr int pixel(int window, int t) {
        int y = window / OUT * STEP + t / 3 - 1, x = window % OUT * STEP + t % 3 - 1;
        return y < 0 || y >= IN || x < 0 || x >= IN ? -1 : y * IN + x;
    }
    // the window whose tap t lies on a pixel, or -1
    static constexpr int window(int pixel, int t) {
        int y = pixel / IN + 1 - t / 3, x = pixel % IN + 1 - t % 3;
        bool meets = y >= 0 && x >= 0 && y % STEP == 0 && x % STEP == 0 && y / STEP < OUT && x / STEP < OUT;
        return meets ? y / STEP * OUT + x / STEP : -1;
    }
};

// Results of some rows for one block of images. BACK: of the transposed convolution, whose results are the grid's pixels.
template <class V, class G, bool BACK> struct PixelSums {
    enum {
        L = sizeof(V) / 4, PLACES = BACK ? G::PIXELS : G::RESULTS, TERMS = BACK ? G::RESULTS : G::PIXELS,
        ROWS = PLACES == 1 ? 8 : PLACES == 4 && FB_ISA == 512 ? 4 : PLACES == 4 ? 2 : 1, CHAIN = 32, AHEAD = 8
    };
    static constexpr int term(int place, int t) { return BACK ? G::window(place, t) : G::pixel(place, t); }

    // y (rows, PLACES, L) (+)= w * x (K, TERMS, L); strides of the weight between rows and between channels of x
    template <int R>
    static __attribute__((noinline)) void run(long K, const float* w, long w_row, long w_k, const float* x, float* y, bool add) {
        do {
            V sum[R][PLACES] = {};
            long count = K <= CHAIN + CHAIN / 2 ? K : (long)CHAIN;
            K -= count;
            for (long k = 0; k < count; k++, w += w_k, x += TERMS * L) {
                if (BACK)
                    for (int line = 0; line < (R * 9 + 15) / 16 + 1; line++) __builtin_prefetch(w + AHEAD * w_k + line * 16);
                step<R>(w, w_row, x, sum);
            }
#pragma GCC unroll 16
            for (int r = 0; r < R; r++)
#pragma GCC unroll 16
                for (int p = 0; p < PLACES; p++) {
                    V* to = (V*)y + r * PLACES + p;
                    *to = add ? *to + sum[r][p] : sum[r][p];
                }
            add = true;
        } while (K > 0);
    }
    template <int R>
    static inline __attribute__((always_inline)) void step(const float* w, long w_row, const float* x, V (&sum)[R][PLACES]) {
#pragma GCC unroll 9
        for (int t = 0; t < 9; t++) {
            V tap[R];
#pragma GCC unroll 16
            for (int r = 0; r < R; r++) tap[r] = w[r * w_row + t] - (V){};
#pragma GCC unroll 16
            for (int p = 0; p < PLACES; p++) {
                int q = term(p, t);
                if (q < 0) continue;
                V there = ((const V*)x)[q];
#pragma GCC unroll 16
                for (int r = 0; r < R; r++) sum[r][p] = multiply_add(tap[r], there, sum[r][p]);
            }
        }
    }
    static void rows(long count, long K, const float* w, long w_row, long w_k, const float* x, float* y, bool add) {
        long r = 0;
        for (; r + ROWS <= count; r += ROWS) run<ROWS>(K, w + r * w_row, w_row, w_k, x, y + r * PLACES * L, add);
        for (; r < count; r++) run<1>(K, w + r * w_row, w_row, w_k, x, y + r * PLACES * L, add);
    }
};

// The gradient of the nine taps of one channel of x for NV_SUMS vectors of channels of the result.
template <class G> struct PixelTaps {
    enum { W = FB_W, NV_SUMS = FB_ISA == 512 ? 2 : 1, IMAGES = 32 };
    // sums (9, NV_SUMS vectors); g: (window, image, `across` channels), x: (pixel, image)
    static __attribute__((noinline)) void run(long batch, const float* g, long across, const float* x, float* sums) {
        for (long first = 0; first < batch; first += IMAGES) {
            vf sum[9][NV_SUMS] = {};
            for (long n = first; n < batch && n < first + IMAGES; n++) {
#pragma GCC unroll 16
                for (int p = 0; p < G::RESULTS; p++) {
                    vf there[NV_SUMS];
#pragma GCC unroll 2
                    for (int v = 0; v < NV_SUMS; v++) there[v] = ld_native(g + (p * batch + n) * across + v * W);
#pragma GCC unroll 9
                    for (int t = 0; t < 9; t++) {
                        int q = G::pixel(p, t);
                        if (q < 0) continue;
                        vf pixel = splat_f(x[q * batch + n]);
#pragma GCC unroll 2
                        for (int v = 0; v < NV_SUMS; v++) sum[t][v] = multiply_add(pixel, there[v], sum[t][v]);
                    }
                }
            }
#pragma GCC unroll 9
            for (int t = 0; t < 9; t++)
#pragma GCC unroll 2
                for (int v = 0; v < NV_SUMS; v++) {
                    float* to = sums + (t * NV_SUMS + v) * W;
                    st_native(to, first ? ld_native(to) + sum[t][v] : sum[t][v]);
                }
        }
    }
};

template <class G> struct ConvPixels {
    enum { W = FB_W, ROW_BLOCK = 32, TERM_BLOCK = 64, STREAMED = 2 << 20, CHANNELS = 16, COLUMNS = PixelTaps<G>::NV_SUMS * W };
    const FbConv& c;
    const FbRuntime& rt;
    long blocks, across; // of images; channels of the result, padded
    float *x, *g;        // laid out as said above; the gradient of the result as (window, image, channel)

    float* floats(long count) const { return (float*)rt.alloc(count * (long)sizeof(float) + 64); }

    // ---- results
    template <class V, bool BACK> struct Run {
        typedef PixelSums<V, G, BACK> Sums;
        enum { L = Sums::L, PLACES = Sums::PLACES, TERMS = Sums::TERMS };
        static void lay_range(void* self, long begin, long end, int) {
            const ConvPixels& f = *(const ConvPixels*)self;
            for (long i = begin; i < end; i++) {
                long first = i / f.c.channels * L, there = f.c.batch - first < L ? f.c.batch - first : (long)L;
                const float* from = (const float*)f.c.x + first * f.c.x_n + i % f.c.channels * f.c.x_c;
                float* to = f.x + i * TERMS * L;
                for (long q = 0; q < TERMS; q++, to += L) {
                    const float* at = from + q / f.c.in[2] * f.c.x_s[1] + q % f.c.in[2] * f.c.x_s[2];
                    for (long l = 0; l < there; l++) to[l] = at[l * f.c.x_n];
                    for (long l = there; l < L; l++) to[l] = 0;
                }
            }
        }
        static long row_blocks(const ConvPixels& f) { return (f.c.made + ROW_BLOCK - 1) / ROW_BLOCK; }
        static void row_range(void* self, long begin, long end, int) {
            const ConvPixels& f = *(const ConvPixels*)self;
            float *y = f.floats(ROW_BLOCK * PLACES * (L + 1)), *tile = y + ROW_BLOCK * PLACES * L;
            long w_row = BACK ? 9 : f.c.channels * 9, w_k = BACK ? f.c.made * 9 : 9, some = BACK || PLACES > 4 ? (long)TERM_BLOCK : f.c.channels;
            for (long i = begin; i < end; i++) {
                long b = i % f.blocks, o = i / f.blocks * ROW_BLOCK, rows = f.c.made - o < ROW_BLOCK ? f.c.made - o : (long)ROW_BLOCK;
                for (long k = 0; k < f.c.channels; k += some)
                    Sums::rows(rows, f.c.channels - k < some ? f.c.channels - k : some, (const float*)f.c.w + o * w_row + k * w_k,
                        w_row, w_k, f.x + (b * f.c.channels + k) * TERMS * L, y, k > 0);
                for (long n = b * L; n < f.c.batch && n < (b + 1) * L; n++) f.finish(n, o, rows, PLACES, y + n % L, L, tile);
            }
            f.rt.release(y);
        }
        static void all(ConvPixels& f) {
            f.blocks = (f.c.batch + L - 1) / L;
            f.x = f.floats(f.blocks * f.c.channels * TERMS * L);
            f.rt.parallel_for(lay_range, &f, f.blocks * f.c.channels, 16);
            f.rt.parallel_for(row_range, &f, f.blocks * row_blocks(f), 1);
            f.rt.release(f.x);
        }
    };
    // rows [o, o + rows) of image n; `from` is (row, place), `step` apart
    void finish(long n, long o, long rows, long places, const float* from, long step, float* tile) const {
        const float* bias = (const float*)c.bias;
        for (long i = 0; i < rows; i++) {
            float first = bias ? bias[o + i] : 0.f;
            float* to = c.epilogue ? tile + i * places : (float*)c.out + n * c.out_n + (o + i) * c.out_c;
            long down = c.epilogue ? c.windows[2] : c.out_s[1], along = c.epilogue ? 1 : c.out_s[2];
            for (long y = 0; y < c.windows[1]; y++)
                for (long x = 0; x < c.windows[2]; x++, from += step) to[y * down + x * along] = *from + first;
        }
        if (c.epilogue) c.epilogue(c.epilogue_arg, tile, places, n, o, 0, rows, places);
    }
    template <bool BACK> void results() {
#if FB_ISA == 512
        if (c.batch <= 8) return Run<hf, BACK>::all(*this);
#endif
        Run<vf, BACK>::all(*this);
    }

    // ---- the gradient of the weight
    static void lay_pixels(void* self, long begin, long end, int) {
        const ConvPixels& f = *(const ConvPixels*)self;
        for (long i = begin; i < end; i++)
            for (long q = 0; q < G::PIXELS; q++)
                for (long n = 0; n < f.c.batch; n++)
                    f.x[(i * G::PIXELS + q) * f.c.batch + n] = ((const float*)f.c.x)[n * f.c.x_n + i * f.c.x_c
                        + q / f.c.in[2] * f.c.x_s[1] + q % f.c.in[2] * f.c.x_s[2]];
    }
    static void lay_gradient(void* self, long begin, long end, int) {
        const ConvPixels& f = *(const ConvPixels*)self;
        for (long i = begin; i < end; i++) {
            long p = i / f.c.batch, n = i % f.c.batch;
            const float* from = (const float*)f.c.out + n * f.c.out_n + p / f.c.windows[2] * f.c.out_s[1] + p % f.c.windows[2] * f.c.out_s[2];
            float* to = f.g + i * f.across;
            for (long o = 0; o < f.across; o++) to[o] = o < f.c.made ? from[o * f.c.out_c] : 0;
        }
    }
    static void tap_range(void* self, long begin, long end, int) {
        const ConvPixels& f = *(const ConvPixels*)self;
        float* sums = f.floats(CHANNELS * 9 * COLUMNS);
        Drain drain;
        long parts = (f.c.channels + CHANNELS - 1) / CHANNELS;
        for (long i = begin; i < end; i++) {
            long first = i % parts * CHANNELS, o = i / parts * COLUMNS;
            long count = f.c.channels - first < CHANNELS ? f.c.channels - first : (long)CHANNELS;
            for (long k = 0; k < count; k++)
                PixelTaps<G>::run(f.c.batch, f.g + o, f.across, f.x + (first + k) * G::PIXELS * f.c.batch, sums + k * 9 * COLUMNS);
            f.write(sums, count * 9, o, (float*)f.c.w + first * 9);
        }
        f.rt.release(sums);
    }
    // sums (count, COLUMNS) turned over into rows of the result
    void write(const float* sums, long count, long o, float* to) const {
        long row = c.channels * 9;
        bool stores_stream = c.made * row * 4 >= STREAMED;
        for (long j = o; j < o + COLUMNS && j < c.made; j += W) {
            long rows = c.made - j < W ? c.made - j : (long)W;
            for (long k = 0; k < count; k += W) {
                long wide = count - k < W ? count - k : (long)W;
                vf square[W] = {};
                for (long l = 0; l < wide; l++) square[l] = ld_native(sums + (k + l) * COLUMNS + j - o);
                transpose(square);
                if (wide == W && stores_stream)
                    for (long l = 0; l < rows; l++) stream(to + (j + l) * row + k, square[l], Full{});
                else
                    for (long l = 0; l < rows; l++) st(to + (j + l) * row + k, square[l], Tail{(int)wide});
            }
        }
    }
    void weight() {
        across = (c.made + COLUMNS - 1) / COLUMNS * COLUMNS;
        x = floats(c.channels * G::PIXELS * c.batch), g = floats(G::RESULTS * c.batch * across);
        rt.parallel_for(lay_pixels, this, c.channels, 16);
        rt.parallel_for(lay_gradient, this, G::RESULTS * c.batch, 1);
        rt.parallel_for(tap_range, this, (c.channels + CHANNELS - 1) / CHANNELS * (across / COLUMNS), 1);
        rt.release(g);
        rt.release(x);
    }
    static bool run(const FbConv& c, const FbRuntime& rt) {
        ConvPixels f = {c, rt};
        if (c.form == FB_CONV_WEIGHT) f.weight();
        else if (c.form == FB_CONV_TRANSPOSED) f.template results<true>();
        else f.template results<false>();
        return true;
    }
};

// Images that fill most of the registers' lanes, and enough channels to pay for laying them out.
inline bool conv_pixels(const FbConv* p, const FbRuntime* rt) {
    const FbConv& c = *p;
    bool back = c.form == FB_CONV_TRANSPOSED;
    const long *in = back ? c.windows : c.in, *out = back ? c.in : c.windows;
    if (c.type != FB_FLOAT || c.groups != 1 || in[0] != 1 || out[0] != 1 || c.kernel[0] != 1 || c.before[0] != 0) return false;
    for (int d = 1; d < 3; d++)
        if (c.kernel[d] != 3 || c.before[d] != 1 || c.spread[d] != 1 || in[d] != in[1] || out[d] != out[1] || c.step[d] != c.step[1]) return false;
    long lanes = FB_ISA == 512 && c.batch <= 8 ? FB_W / 2 : FB_W, blocks = (c.batch + lanes - 1) / lanes;
    if (c.channels < 16 || c.made < 16 || c.channels * c.made < 4096 || 8 * c.batch < 5 * blocks * lanes) return false;
    if (in[1] == 1 && out[1] == 1) return ConvPixels<Grid<1, 1, 1>>::run(c, *rt);
    if (in[1] == 2 && out[1] == 2 && c.step[1] == 1) return ConvPixels<Grid<2, 2, 1>>::run(c, *rt);
    if (in[1] == 2 && out[1] == 1 && c.step[1] == 2) return ConvPixels<Grid<2, 1, 2>>::run(c, *rt);
    if (FB_ISA != 512 || in[1] != 4) return false; // sixteen sums need more registers
    if (out[1] == 2 && c.step[1] == 2) return ConvPixels<Grid<4, 2, 2>>::run(c, *rt);
    if (out[1] == 4 && c.step[1] == 1) return ConvPixels<Grid<4, 4, 1>>::run(c, *rt);
    return false;
}

#endif
