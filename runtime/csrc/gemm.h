// Matrix products from registers up, written once for every vector width: blocks, packing, micro-kernel.
//
// B is packed into panels of NR columns (K x NR, zero padded; of a narrower B no wider than it needs), by vector copies or
// register transposes; A is read in place when its k stride is 1, else packed in strips of MR rows. A micro-kernel keeps MR x NV registers of the
// result. Tiles of the result are handed to an epilogue or written out. Where the processor multiplies bfloat16, two
// neighbours in k are one packed element (Pair) of the same panels and strips. Header-free; include inside an
// anonymous namespace per ISA.
#ifndef FB_GEMM_H
#define FB_GEMM_H

#include "abi.h"
#include "math.h"

template <class T> struct Lanes;
template <> struct Lanes<float> {
    typedef vf V;
    enum { W = FB_W };
};
template <> struct Lanes<double> {
    typedef hd V;
    enum { W = FB_W / 2 };
};
template <class P> struct Packed {
    typedef P Sum;
    enum { STEP = 1, CHAIN = 128 }; // elements along k in one packed element; packed elements that one sum takes
};
FB_INLINE vf splat_native(float x) { return splat_f(x); }
FB_INLINE hd splat_native(double x) { return splat_hd(x); }
FB_INLINE vf ld_native(const float* p) { return ld(p, Full{}); }
FB_INLINE hd ld_native(const double* p) { return *(const hd_loose*)p; }
FB_INLINE void st_native(float* p, vf x) { st(p, x, Full{}); }
FB_INLINE void st_native(double* p, hd x) { *(hd_loose*)p = x; }
FB_INLINE vf multiply_add(vf a, vf b, vf c) { return v_fma(a, b, c); }
FB_INLINE hd multiply_add(hd a, hd b, hd c) { return v_fma(a, b, c); }
#include "gemm_bf16dot.h"
#ifdef FB_TILES
#include "gemm_amx.h"
#endif
FB_INLINE float scalar(float x) { return x; }
FB_INLINE double scalar(double x) { return x; }
FB_INLINE float scalar(bf16 x) { return __builtin_bit_cast(float, (u32)x.bits << 16); }
FB_INLINE float scalar(f16 x) { return half_to_float(x.bits - (v16){})[0]; }

#ifdef FB_TILES
enum { MR = 32, NV = 2 };
#elif defined(FB_DOT_BF16) // two columns of registers: a panel of many pairs fits the first-level cache
enum { MR = 12, NV = 2 };
#else
enum { MR = 6, NV = FB_ISA == 512 ? 4 : 2 };
#endif
enum { MOST_3 = NV < 3 ? NV : 3, MOST_4 = NV < 4 ? NV : 4 };
enum { KC = 512, TILE_M = 96, BLOCK_M = MR == 32 ? 64 : 48, TILE_PANELS = 4, FEW = 4, STREAM_DEPTH = 8, PACK_DEPTH = 128, FEW_ROWS = 8, STRIP_BYTES = 400 << 10, THIN = 256, LARGE = 1 << 20, DOT_RUN = 256 };
static_assert(TILE_M % MR == 0);

// c[rows, NV vectors] (+)= a[rows, K] * b[K, NV vectors]; the last vector stores `columns` lanes only when partial.
// Sums longer than a chain are made of parts that meet in c: rounding errors grow with the part, not with K.
// K counts packed elements, a_m elements of A.
template <class T, int R, int C> __attribute__((noinline)) void micro(long K, const T* a, long a_m, long a_k, const T* b,
    long ldb, typename Packed<T>::Sum* c, long ldc, bool add, int partial) {
    typedef typename Lanes<T>::V V;
    typedef typename Packed<T>::Sum Sum;
    typedef decltype(ld_native(b)) Row;
    enum { W = Lanes<T>::W, ITEM = sizeof(T) / Packed<T>::STEP, CHAIN = Packed<T>::CHAIN };
    do {
        V acc[R][C];
        for (int i = 0; i < R; i++)
            for (int j = 0; j < C; j++) acc[i][j] = (V){};
        long run = K <= CHAIN + CHAIN / 2 ? K : CHAIN;
        K -= run;
#pragma GCC unroll 4
        for (long k = 0; k < run; k++) {
            Row row[C];
#pragma GCC unroll 8
            for (int j = 0; j < C; j++) row[j] = ld_native(b + j * W);
#pragma GCC unroll 16
            for (int i = 0; i < R; i++) {
                Row x = splat_native(*(const T*)((const char*)a + i * a_m * ITEM));
#pragma GCC unroll 8
                for (int j = 0; j < C; j++) acc[i][j] = multiply_add(x, row[j], acc[i][j]);
            }
            a += a_k;
            b += ldb;
        }
#pragma GCC unroll 16
        for (int i = 0; i < R; i++) {
#pragma GCC unroll 8
            for (int j = 0; j < C; j++) {
                Sum* p = c + i * ldc + j * W;
                if (j == C - 1 && partial) {
                    Sum rest[W];
                    st_native(rest, acc[i][j]);
                    for (int l = 0; l < partial; l++) p[l] = add ? p[l] + rest[l] : rest[l];
                } else {
                    st_native(p, add ? ld_native(p) + acc[i][j] : acc[i][j]);
                }
            }
        }
        add = true;
    } while (K > 0);
}

template <class T>
using Micro = void (*)(long, const T*, long, long, const T*, long, typename Packed<T>::Sum*, long, bool, int);

template <class T> inline Micro<T> micro_kernel(int rows, int vectors) {
#define FB_ROW(R) \
    { micro<T, R, 1>, micro<T, R, 2>, micro<T, R, MOST_3>, micro<T, R, MOST_4> }
#ifdef FB_DOT_BF16
    static const Micro<T> table[MR][4] = {FB_ROW(1), FB_ROW(2), FB_ROW(3), FB_ROW(4), FB_ROW(5), FB_ROW(6), FB_ROW(7),
        FB_ROW(8), FB_ROW(9), FB_ROW(10), FB_ROW(11), FB_ROW(12)};
#else
    static const Micro<T> table[MR][4] = {FB_ROW(1), FB_ROW(2), FB_ROW(3), FB_ROW(4), FB_ROW(5), FB_ROW(6)};
#endif
#undef FB_ROW
    return table[rows - 1][vectors - 1];
}

// ---- packing
template <class S, class T> FB_INLINE void copy_row(const S* from, T* to, long n) {
    for (long j = 0; j < n; j++) to[j] = (T)scalar(from[j]);
}
template <class S> FB_INLINE void copy_row(const S* from, float* to, long n) {
    long j = 0;
    for (; j + FB_W <= n; j += FB_W) st(to + j, ld(from + j, Full{}), Full{});
    for (; j < n; j++) to[j] = scalar(from[j]);
}

// rows of `from` (k contiguous) become columns of `to`, whose rows are `width` apart
template <class S> inline void pack_transposed(const S* from, long row, float* to, long width, long rows, long K) {
    long l = 0;
    for (; l + FB_W <= rows; l += FB_W) {
        long k = 0;
        for (; k + FB_W <= K; k += FB_W) {
            vf square[FB_W];
#pragma GCC unroll 16
            for (int i = 0; i < FB_W; i++) square[i] = ld(from + (l + i) * row + k, Full{});
#pragma GCC unroll 16
            for (int i = 0; i < FB_W; i++) __builtin_prefetch(from + (l + FB_W + i) * row + k, 0, 2);
            transpose(square);
#pragma GCC unroll 16
            for (int i = 0; i < FB_W; i++) st(to + (k + i) * width + l, square[i], Full{});
        }
        for (; k < K; k++)
            for (int i = 0; i < FB_W; i++) to[k * width + l + i] = scalar(from[(l + i) * row + k]);
    }
    for (; l < rows; l++)
        for (long k = 0; k < K; k++) to[k * width + l] = scalar(from[l * row + k]);
}
template <class S> inline void pack_transposed(const S* from, long row, double* to, long width, long rows, long K) {
    for (long k = 0; k < K; k++)
        for (long l = 0; l < rows; l++) to[k * width + l] = scalar(from[l * row + k]);
}

// `count` lines of length K into to[K][width], zeros beyond count; `along` is the stride within a line, `across`
// between lines
template <class S, class T>
inline void pack(const S* from, long along, long across, T* to, long width, long count, long K) {
    if (across == 1 && sizeof(S) == sizeof(T) && count == MR && width == MR)
        for (long k = 0; k < K; k++) __builtin_memcpy(to + k * MR, from + k * along, MR * sizeof(T));
    else if (across == 1)
        for (long k = 0; k < K; k++) copy_row(from + k * along, to + k * width, count);
    else if (along == 1) pack_transposed(from, across, to, width, count, K);
    else
        for (long k = 0; k < K; k++)
            for (long l = 0; l < count; l++) to[k * width + l] = (T)scalar(from[k * along + l * across]);
    if (count < width)
        for (long k = 0; k < K; k++)
            for (long l = count; l < width; l++) to[k * width + l] = 0;
}

// ---- one problem: elements SA and SB, packed as P
template <class SA, class SB, class P> struct Product {
    typedef typename Packed<P>::Sum T;
    enum { W = Lanes<P>::W, NR = NV * W, STEP = Packed<P>::STEP };
    const FbGemm& g;
    const FbRuntime& rt;
    bool turned; // the roles are exchanged, but the epilogue takes tiles as if they were not
    P* packed; // all of B, or null: read in place
    bool shared_b; // one B for all batches
    bool dots; // few rows of a against rows of b^T: no packing, one sum a result
    bool slim; // few rows and columns over a long K
    bool own_b; // each batch is one tile, which packs its own B
    long batches, width /* of a panel */, panels, tile_m, tiles_m, tile_panels, tiles_n;
    long steps, depth; // packed elements along k: all, and of one pass

    long offset(const long* strides, long batch) const {
        long r = 0;
        for (int d = g.batch_dims - 1; d >= 0; d--) r += batch % g.batch[d] * strides[d], batch /= g.batch[d];
        return r;
    }
    const SA* a(long batch) const { return (const SA*)g.a + offset(g.a_batch, batch); }
    const SB* b(long batch) const { return (const SB*)g.b + offset(g.b_batch, batch); }
    P* panel(long batch, long p) const { return packed + ((shared_b || own_b ? 0 : batch) * panels + p) * steps * width; }

    void pack_panel(long batch, long p) const {
        long n = p * NR, count = g.N - n < NR ? g.N - n : NR;
        pack(b(batch) + n * g.b_n, g.b_k, g.b_n, panel(batch, p), width, count, g.K);
        for (long k = (g.K + STEP - 1) / STEP; k < steps; k++) __builtin_memset(panel(batch, p) + k * width, 0, width * sizeof(P));
    }
    static void pack_range(void* self, long begin, long end, int) {
        const Product& s = *(const Product*)self;
        for (long i = begin; i < end; i++) s.pack_panel(i / s.panels, i % s.panels);
    }
    static void tile_range(void* self, long begin, long end, int) {
        Product s = *(const Product*)self;
        if (s.own_b) s.packed = s.panel_memory(1);
        bool copy_a = s.must_pack_a(),
             to_scratch = s.tiled() || s.g.epilogue || s.g.bias || s.g.out_n != 1 || s.g.out_type != (sizeof(T) == 8 ? FB_DOUBLE : FB_FLOAT);
        long strip_bytes = copy_a ? (long)sizeof(P) * (s.tile_m + MR) * s.kept_depth() : 0;
        long held = -1; // the row block whose strips are packed
        long tile_bytes = !to_scratch ? 0 : (long)sizeof(T) * (STEP == 2 && !s.dots ? (long)BLOCK_M : s.tile_m) * s.tile_panels * NR;
#ifdef FB_TILES
        if (s.tiled()) shape_tiles(MR);
#endif
        long over_bytes = s.turned ? tile_bytes : 0, all = tile_bytes + over_bytes + strip_bytes;
        char* scratch = all ? (char*)s.rt.alloc(all + 64) : 0;
        P* strips = (P*)(scratch + tile_bytes + over_bytes);
        for (long i = begin; i < end; i++) {
            bool fresh = i / s.tiles_n != held || s.kept_depth() < s.steps;
            for (long p = 0; s.own_b && p < s.panels; p++) s.pack_panel(i, p);
            s.tile(i / (s.tiles_m * s.tiles_n), i / s.tiles_n % s.tiles_m, i % s.tiles_n, copy_a ? strips : 0, fresh,
                to_scratch ? (T*)scratch : 0);
            held = i / s.tiles_n;
        }
        if (scratch) s.rt.release(scratch);
        if (s.own_b) s.rt.release(s.packed);
#ifdef FB_TILES
        if (s.tiled()) tile_release();
#endif
    }
    bool tiled() const { return STEP == 2 && MR == 32 && !dots; }
    // how much of K the packed strips of a row block hold: all of it where that fits the second-level cache
    long kept_depth() const { return STEP == 2 || steps < depth || steps * tile_m * (long)sizeof(P) <= STRIP_BYTES ? steps : depth; }
    bool must_pack_a() const { return !dots && (sizeof(SA) * STEP != sizeof(P) || g.a_k != 1 || g.K != steps * STEP); }

    void tile(long batch, long tm, long tn, P* strips, bool fresh, T* scratch) const {
        long wide = tile_panels * NR, m = tm * tile_m, n = tn * wide;
        long rows = g.M - m < tile_m ? g.M - m : tile_m, columns = g.N - n < wide ? g.N - n : wide;
        if constexpr (STEP == 2)
            if (!dots) return pairs(batch, m, rows, n, columns, strips, fresh, scratch);
        T* c = scratch ? scratch : (T*)g.out + offset(g.out_batch, batch) + m * g.out_m + n;
        long ldc = scratch ? wide : g.out_m;
        if (dots) dot_tile(a(batch) + m * g.a_m, rows, b(batch) + n * g.b_n, columns, c, ldc);
        else
            for (long k = 0; k == 0 || k < steps; k += depth)
                multiply(batch, m, rows, n, columns, k, c, ldc, strips, fresh);
        if (g.epilogue) finish(c, ldc, batch, m, n, rows, columns);
        else if (scratch) write_out(c, ldc, batch, m, n, rows, columns);
    }
    // Hands a tile in scratch memory to the epilogue; that of an exchanged product is turned over into the memory behind it.
    void finish(T* c, long ldc, long batch, long m, long n, long rows, long columns) const {
        if (!turned) return g.epilogue(g.epilogue_arg, c, ldc, batch, m, n, rows, columns);
        long high = STEP == 2 && !dots ? (long)BLOCK_M : tile_m;
        T* over = c + high * tile_panels * NR;
        turn(c, ldc, over, high, rows, columns);
        g.epilogue(g.epilogue_arg, over, high, batch, n, m, columns, rows);
    }
    static void turn(const double* c, long ldc, double* to, long width, long rows, long columns) {
        for (long i = 0; i < rows; i++)
            for (long j = 0; j < columns; j++) to[j * width + i] = c[i * ldc + j];
    }
    static void turn(const float* c, long ldc, float* to, long width, long rows, long columns) {
        for (long i = 0; i < rows; i += FB_W)
            for (long j = 0; j < columns; j += FB_W) {
                int high = rows - i < FB_W ? (int)(rows - i) : FB_W, wide = columns - j < FB_W ? (int)(columns - j) : FB_W;
                vf square[FB_W] = {};
                for (int r = 0; r < high; r++) square[r] = ld(c + (i + r) * ldc + j, Tail{wide});
                transpose(square);
                for (int l = 0; l < wide; l++) st(to + i + (j + l) * width, square[l], Tail{high});
            }
    }
    // A tile of pairs: blocks of some rows, small enough for the first-level cache, are finished one after the other.
    void pairs(long batch, long m, long rows, long n, long columns, P* strips, bool fresh, T* scratch) const {
        const SA* source = a(batch) + m * g.a_m;
        if (strips && fresh) keep_strips(source, rows, strips);
        long ldc = scratch ? tile_panels * NR : g.out_m, out = offset(g.out_batch, batch) + m * g.out_m + n * g.out_n;
        for (long top = 0; top < rows; top += BLOCK_M) {
            long high = rows - top < BLOCK_M ? rows - top : (long)BLOCK_M;
            T* c = scratch ? scratch : (T*)g.out + out + top * g.out_m;
            for (long j = 0; j < columns; j += NR) {
                const P* right = panel(batch, (n + j) / NR);
                if (!g.epilogue && g.out_n == 1) expect(out + top * g.out_m + j, high);
                for (long k = 0; k == 0 || k < steps; k += depth)
                    for (long i = 0; i < high; i += MR) {
                        int r = high - i < MR ? high - i : MR;
                        long run = steps - k < depth ? steps - k : depth;
                        const P* in_place = (const P*)(source + (top + i) * g.a_m + k * STEP);
#ifdef FB_TILES
                        micro_tiles(r, run, strips ? strips + (top + i) * steps + k : in_place,
                            strips ? steps * (long)sizeof(P) : g.a_m * (long)sizeof(SA), right + k * NR,
                            c + i * ldc + j, ldc, k > 0);
#else
                        long left = columns - j < NR ? columns - j : NR;
                        micro_kernel<P>(r, (left + W - 1) / W)(run,
                            strips ? strips + (top + i) * steps + k * MR : in_place, strips ? (long)STEP : g.a_m,
                            strips ? MR : 1, right + k * NR, NR, c + i * ldc + j, ldc, k > 0, left % W);
#endif
                    }
            }
            if (g.epilogue) finish(c, ldc, batch, m + top, n, high, columns);
            else if (scratch) write_out(c, ldc, batch, m + top, n, high, columns);
        }
    }
    void keep_strips(const SA* source, long rows, P* strips) const {
#ifdef FB_TILES
        pack_rows(source, g.a_k, g.a_m, strips, rows, steps, g.K);
#else
        pack_strips(source, rows, steps, g.K, strips);
#endif
    }
    // lines of the result, a panel wide, come while its sums are made
    void expect(long at, long rows) const {
        long item = g.out_type == FB_DOUBLE ? 8 : g.out_type == FB_FLOAT ? 4 : 2;
        for (long r = 0; r < rows; r++) __builtin_prefetch((const char*)g.out + (at + r * g.out_m) * item, 1);
    }
    void multiply(
        long batch, long m, long rows, long n, long columns, long k, T* c, long ldc, P* strips, bool fresh) const {
        long depth = steps - k < this->depth ? steps - k : this->depth;
        const SA* source = a(batch) + m * g.a_m + k * STEP * g.a_k;
        if (strips && kept_depth() >= steps) strips += (rows + MR - 1) / MR * MR * k;
        if (strips && fresh) pack_strips(source, rows, depth, g.K - k * STEP, strips);
        for (long j = 0; j < columns; j += NR) {
            long left = columns - j < NR ? columns - j : NR;
            const P* right = packed ? panel(batch, (n + j) / NR) + k * width : (const P*)(b(batch) + k * g.b_k + n + j);
            for (long i = 0; i < rows; i += MR) {
                int r = rows - i < MR ? rows - i : MR;
                micro_kernel<P>(r, (left + W - 1) / W)(depth,
                    strips ? strips + i * depth : (const P*)(source + i * g.a_m), strips ? (long)STEP : g.a_m,
                    strips ? MR : 1, right, packed ? width : g.b_k, c + i * ldc + j, ldc, k > 0, left % W);
            }
        }
    }
    // `depth` packed elements of some rows, of which K elements are there
    void pack_strips(const SA* source, long rows, long depth, long K, P* strips) const {
        // strips share the cache lines of k when a's rows are its columns: few k at a time, since these are often pages apart
        long at_once = g.a_m == 1 && g.a_k != 1 ? FEW_ROWS : PACK_DEPTH;
        for (long k = 0; k < depth; k += at_once)
            for (long i = 0; i < rows; i += MR) {
                long count = depth - k < at_once ? depth - k : at_once, there = K - k * STEP;
                pack(source + i * g.a_m + k * STEP * g.a_k, g.a_k, g.a_m, strips + i * depth + k * MR, MR,
                    rows - i < MR ? rows - i : MR, there < count * STEP ? there : count * STEP);
            }
    }
    // Results of one batch of a slim product: runs of K, turned over so that they lie along k, are multiplied lane by lane.
    void slim_batch(long batch) const {
        if constexpr (STEP == 1) {
            typedef typename Lanes<P>::V V;
            P rows[FEW][DOT_RUN], columns[FEW][DOT_RUN];
            double total[FEW][FEW] = {};
            for (long k = 0; k < g.K; k += DOT_RUN) {
                long run = g.K - k < DOT_RUN ? g.K - k : (long)DOT_RUN, lanes = (run + W - 1) / W * W;
                turn_run(a(batch) + k * g.a_k, g.a_m, g.a_k, g.M, run, lanes, rows);
                turn_run(b(batch) + k * g.b_k, g.b_n, g.b_k, g.N, run, lanes, columns);
                for (long i = 0; i < g.M; i++)
                    for (long j = 0; j < g.N; j++) {
                        V sum[2] = {};
                        for (long l = 0; l < lanes; l += W)
                            sum[l / W % 2] = multiply_add(ld_native(rows[i] + l), ld_native(columns[j] + l), sum[l / W % 2]);
                        total[i][j] += lane_sum(sum[0] + sum[1]);
                    }
            }
            T c[FEW][FEW];
            for (long i = 0; i < g.M; i++)
                for (long j = 0; j < g.N; j++) c[i][j] = (T)total[i][j];
            write_out(c[0], FEW, batch, 0, 0, g.M, g.N);
        }
    }
    template <class S> static void turn_run(const S* from, long line, long step, long count, long run, long lanes, P (*to)[DOT_RUN]) {
        for (long i = 0; i < count; i++) {
            for (long k = 0; k < run; k++) to[i][k] = (P)scalar(from[i * line + k * step]);
            for (long k = run; k < lanes; k++) to[i][k] = 0;
        }
    }
    static double lane_sum(vf x) { return fold_add(x); }
    static double lane_sum(hd x) {
        double sum = 0;
        for (int l = 0; l < FB_W / 2; l++) sum += x[l];
        return sum;
    }
    static void slim_range(void* self, long begin, long end, int) {
        for (long batch = begin; batch < end; batch++) ((const Product*)self)->slim_batch(batch);
    }
    // c[i, j] = sum over k of a[i, k] * b[j, k], both contiguous in k, four columns at a time
    void dot_tile(const SA* a, long rows, const SB* b, long columns, T* c, long ldc) const {
        if constexpr (sizeof(T) == 4)
            for (long j = 0; j < columns; j += 4) {
                int wide = columns - j < 4 ? (int)(columns - j) : 4;
                for (long i = 0; i < rows; i++) {
                    if (wide == 4) dot<4>(a + i * g.a_m, b + j * g.b_n, c + i * ldc + j);
                    else
                        for (int l = 0; l < wide; l++) dot<1>(a + i * g.a_m, b + (j + l) * g.b_n, c + i * ldc + j + l);
                }
            }
    }
    template <int C> void dot(const SA* a, const SB* b, T* c) const {
        enum { RUN = FB_W * STEP };
        vf sum[C] = {};
        long k = 0;
        for (; k + RUN <= g.K; k += RUN) {
            auto x = run_of(a + k);
#pragma GCC unroll 4
            for (int l = 0; l < C; l++) sum[l] = multiply_add(x, run_of(b + l * g.b_n + k), sum[l]);
        }
        for (int l = 0; l < C; l++) {
            float total = fold_add(sum[l]);
            for (long r = k; r < g.K; r++) total += (float)scalar(a[r]) * (float)scalar(b[l * g.b_n + r]);
            c[l] = total;
        }
    }
    template <class S> FB_INLINE auto run_of(const S* p) {
        if constexpr (STEP == 2) return ld_native((const Pair*)p);
        else return ld(p, Full{});
    }
    // rounded once into the type of `out`, after the bias is added
    void write_out(const T* c, long ldc, long batch, long m, long n, long rows, long columns) const {
        long at = offset(g.out_batch, batch) + m * g.out_m + n * g.out_n;
        if (g.out_type == FB_DOUBLE) put_tile(c, ldc, (double*)g.out + at, (const double*)g.bias, m, n, rows, columns);
        else if (g.out_type == FB_FLOAT) put_tile(c, ldc, (float*)g.out + at, (const float*)g.bias, m, n, rows, columns);
        else if (g.out_type == FB_BF16) put_tile(c, ldc, (bf16*)g.out + at, (const bf16*)g.bias, m, n, rows, columns);
        else put_tile(c, ldc, (f16*)g.out + at, (const f16*)g.bias, m, n, rows, columns);
    }
    template <class O>
    void put_tile(const T* c, long ldc, O* out, const O* bias, long m, long n, long rows, long columns) const {
        if (bias) bias += m * g.bias_m + n * g.bias_n;
        if constexpr (sizeof(T) == 4 && sizeof(O) <= 4) {
            if (g.out_n == 1 && (!bias || g.bias_n <= 1)) return put_rows(c, ldc, out, bias, rows, columns);
            if (g.out_m == 1 && (!bias || g.bias_m <= 1)) return put_columns(c, ldc, out, bias, rows, columns);
        }
        for (long i = 0; i < rows; i++)
            for (long j = 0; j < columns; j++) {
                T x = c[i * ldc + j];
                if (bias) x += (T)scalar(bias[i * g.bias_m + j * g.bias_n]);
                put_one(out + i * g.out_m + j * g.out_n, x);
            }
    }
    template <class O> void put_rows(const float* c, long ldc, O* out, const O* bias, long rows, long columns) const {
        for (long i = 0; i < rows; i++) {
            const float* from = c + i * ldc;
            const O* row = bias ? bias + i * g.bias_m : 0;
            O* to = out + i * g.out_m;
            long j = 0;
            for (; j + FB_W <= columns; j += FB_W) put_lanes(from + j, row, g.bias_n, j, to + j, Full{});
            if (j < columns) put_lanes(from + j, row, g.bias_n, j, to + j, Tail{(int)(columns - j)});
        }
    }
    template <class O, class M>
    FB_INLINE void put_lanes(const float* from, const O* bias, long bias_step, long j, O* to, M m) {
        vf x = ld(from, m);
        if (bias) x = x + (bias_step ? ld(bias + j, m) : ld1(bias));
        put_sums(to, x, m);
    }
    // a result that lies transposed: squares are turned over
    template <class O> void put_columns(const float* c, long ldc, O* out, const O* bias, long rows, long columns) const {
        for (long i = 0; i < rows; i += FB_W)
            for (long j = 0; j < columns; j += FB_W) {
                int high = rows - i < FB_W ? (int)(rows - i) : FB_W, wide = columns - j < FB_W ? (int)(columns - j) : FB_W;
                vf square[FB_W] = {};
                for (int r = 0; r < high; r++) square[r] = ld(c + (i + r) * ldc + j, Tail{wide});
                transpose(square);
                for (int l = 0; l < wide; l++) {
                    vf x = square[l];
                    const O* b = bias ? bias + i * g.bias_m + (j + l) * g.bias_n : 0;
                    if (b) x = x + (g.bias_m ? ld(b, Tail{high}) : ld1(b));
                    st(out + i + (j + l) * g.out_n, x, Tail{high});
                }
            }
    }
    FB_INLINE void put_one(double* p, T x) { *p = x; }
    FB_INLINE void put_one(float* p, T x) { *p = x; }
    FB_INLINE void put_one(bf16* p, T x) { *p = bf16{float_to_bf16(splat_f(x))[0]}; }
    FB_INLINE void put_one(f16* p, T x) { *p = f16{float_to_half(splat_f(x))[0]}; }
    // in place only whole vectors of a row may be read: the last lanes of B's last row could lie outside of the array
    bool read_b_in_place() const {
        return sizeof(SB) == sizeof(P) && g.b_n == 1 && g.N % W == 0
            && (g.M <= 8 * MR || g.K * g.N * (long)sizeof(T) <= 65536);
    }
    void run() {
        batches = 1;
        shared_b = true;
        for (int d = 0; d < g.batch_dims; d++) {
            batches *= g.batch[d];
            shared_b = shared_b && (g.b_batch[d] == 0 || g.batch[d] == 1);
        }
        if (batches == 0 || g.M == 0 || g.N == 0) return;
        double work = 2.0 * batches * g.M * g.N * g.K;
        long threads = work < 4e5 ? 1 : rt.num_threads();
        panels = (g.N + NR - 1) / NR;
        width = STEP == 2 || g.N >= NR ? (long)NR : (g.N + W - 1) / W * W;
        dots = sizeof(T) == 4 && g.M <= FEW && g.b_k == 1 && g.a_k == 1 && g.K > 0;
        slim = STEP == 1 && !dots && !g.epilogue && g.M <= FEW && g.N <= FEW && g.K >= DOT_RUN;
        if (slim) return spread(slim_range, batches, threads);
        steps = (g.K + STEP - 1) / STEP;
        if (tiled()) steps = (steps + 15) / 16 * 16; // whole tiles, filled up with zeros
        bool in_place = dots || read_b_in_place();
        // a few rows against a large b: memory's speed counts, so b is walked in long rows, a few at a time
        bool stream = in_place && g.M <= MR && g.N >= 4 * NR;
        depth = stream && !dots ? STREAM_DEPTH : KC;
        tile_panels = stream ? (panels + 4 * threads - 1) / (4 * threads) : TILE_PANELS;
        tiles_n = (panels + tile_panels - 1) / tile_panels;
        choose_tile_m(threads);
        packed = 0;
        own_b = !in_place && !shared_b && tiles_m * tiles_n == 1;
        long packs = (shared_b ? 1 : batches) * panels;
        if (!in_place && !own_b) {
            packed = panel_memory(packs / panels);
            spread(pack_range, packs, threads);
        }
        spread(tile_range, batches * tiles_m * tiles_n, threads);
        if (packed) rt.release(packed);
    }
    P* panel_memory(long count) const { return (P*)rt.alloc(count * panels * steps * width * (long)sizeof(P) + 64); }
    // Rows of a tile: as many as fit the second-level cache beside a panel, since each reads all of B again.
    long tallest() const {
        if (STEP == 1 || dots) return TILE_M;
        long most = STRIP_BYTES / (sizeof(P) * (steps < depth ? steps : depth) + 1), count = (g.M + most - 1) / most;
        if (most < TILE_M) return TILE_M;
        return ((g.M + count - 1) / count + MR - 1) / MR * MR;
    }
    // few tiles: lower ones, so that every thread gets work
    void choose_tile_m(long threads) {
        tile_m = tallest();
        long strips = (g.M + MR - 1) / MR, others = batches * tiles_n;
        if (threads > 1 && others * ((g.M + tile_m - 1) / tile_m) < 4 * threads) {
            long wanted = (2 * threads + others - 1) / others;
            long per = (strips + wanted - 1) / wanted;
            if (per * MR < tile_m) tile_m = (per < 1 ? 1 : per) * MR;
        }
        if (threads > 1) share_out(threads, strips, others);
        tiles_m = (g.M + tile_m - 1) / tile_m;
    }
    // few tiles a thread: of lower ones, the tallest that leave the least to the thread that gets most (but for 6%)
    void share_out(long threads, long strips, long others) {
        long count = (g.M + tile_m - 1) / tile_m, least = 0;
        if (others * count >= 8 * threads) return;
        for (long tiles = count; tiles <= 2 * count + threads && tiles <= strips; tiles++) {
            long per = (strips + tiles - 1) / tiles, most = (others * ((strips + per - 1) / per) + threads - 1) / threads * per;
            if (!least || 16 * most < 15 * least) least = most, tile_m = per * MR;
        }
    }
    void spread(FbRange fn, long n, long threads) {
        if (threads == 1 || n == 1) fn(this, 0, n, 0);
        else rt.parallel_for(fn, this, n, 1);
    }
};

template <class SA, class SB, class P> inline void run_product(const FbGemm& g, const FbRuntime& rt, bool turned = false) {
    Product<SA, SB, P> product{g, rt, turned};
    product.run();
}

// the same product with the roles of a and b exchanged: out^T = b^T a^T
inline FbGemm exchanged(const FbGemm& g) {
    FbGemm r = g;
    r.a = g.b;
    r.b = g.a;
    r.a_type = g.b_type;
    r.b_type = g.a_type;
    for (int d = 0; d < g.batch_dims; d++) r.a_batch[d] = g.b_batch[d], r.b_batch[d] = g.a_batch[d];
    r.M = g.N;
    r.N = g.M;
    r.a_m = g.b_n;
    r.a_k = g.b_k;
    r.b_k = g.a_k;
    r.b_n = g.a_m;
    r.out_m = g.out_n;
    r.out_n = g.out_m;
    r.bias_m = g.bias_n;
    r.bias_n = g.bias_m;
    return r;
}

// a batch dimension over which b does not change is more rows of a
inline FbGemm folded(const FbGemm& g) {
    FbGemm r = g;
    while (!r.epilogue && !r.bias_m && r.batch_dims > 0) {
        int d = r.batch_dims - 1;
        bool same_b = r.b_batch[d] == 0, rows = r.a_batch[d] == r.M * r.a_m && r.out_batch[d] == r.M * r.out_m;
        if (r.batch[d] != 1 && !(same_b && rows)) break;
        r.M *= r.batch[d];
        r.batch_dims--;
    }
    return r;
}

// Few rows against many: the large operand is read where it lies instead of being packed, but rows are then filled up to
// whole registers instead of MR. Packing a number takes as long as this many rows of products with it. Results have to be
// turned over then, for nothing where both are as many; on AVX2 that is more work than packing where K is small beside M.
inline bool pays_exchanged(const FbGemm& g) {
    if (FB_ISA == 512 ? g.N == g.M : g.K * (g.N - g.M) < 4 * g.M * g.N) return false;
    double packing = g.K * g.N > LARGE ? 28 : 12;
    long wide = (g.M + FB_W - 1) / FB_W * FB_W, high = (g.M + MR - 1) / MR * MR;
    return wide + packing * g.M / g.N < high + packing;
}

inline bool gemm(const FbGemm& problem, const FbRuntime& rt) {
    FbGemm g = folded(problem);
    bool vector = g.N == 1 && g.M > 1 && g.a_k == 1 && g.b_k == 1;
    bool thin = g.M > FEW && g.M <= THIN && g.N >= g.M && g.a_k == 1 && g.b_k == 1 && g.b_n != 1 && pays_exchanged(g);
    bool exchange = vector || thin, turned = g.epilogue && exchange;
    if (exchange || (!g.epilogue && g.out_n != 1 && g.out_m == 1)) g = exchanged(g);
#define FB_CASE(A, B, SA, SB, T) \
    if (g.a_type == A && g.b_type == B) return run_product<SA, SB, T>(g, rt, turned), true;
#ifdef FB_DOT_BF16
    FB_CASE(FB_BF16, FB_BF16, bf16, bf16, Pair)
#else
    FB_CASE(FB_FLOAT, FB_FLOAT, float, float, float)
    FB_CASE(FB_DOUBLE, FB_DOUBLE, double, double, double)
    FB_CASE(FB_BF16, FB_BF16, bf16, bf16, float)
    FB_CASE(FB_F16, FB_F16, f16, f16, float)
#endif
#undef FB_CASE
    return false;
}

#endif
