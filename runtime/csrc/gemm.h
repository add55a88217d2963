// Matrix products from registers up, written once for every vector width: blocks, packing, micro-kernel.
//
// B is packed into panels of NR columns (K x NR, zero padded), by vector copies or register transposes; A is read in
// place when its k stride is 1, else packed in strips of MR rows. A micro-kernel keeps MR x NV registers of the
// result. Tiles of the result are handed to an epilogue or written out. Header-free; include inside an anonymous
// namespace per ISA.
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
FB_INLINE vf splat_native(float x) { return splat_f(x); }
FB_INLINE hd splat_native(double x) { return splat_hd(x); }
FB_INLINE vf ld_native(const float* p) { return ld(p, Full{}); }
FB_INLINE hd ld_native(const double* p) { return *(const hd_loose*)p; }
FB_INLINE void st_native(float* p, vf x) { st(p, x, Full{}); }
FB_INLINE void st_native(double* p, hd x) { *(hd_loose*)p = x; }
FB_INLINE float scalar(float x) { return x; }
FB_INLINE double scalar(double x) { return x; }
FB_INLINE float scalar(bf16 x) { return __builtin_bit_cast(float, (u32)x.bits << 16); }
FB_INLINE float scalar(f16 x) { return half_to_float(x.bits - (v16){})[0]; }

enum { MR = 6, NV = FB_ISA == 512 ? 4 : 2, MOST_3 = NV < 3 ? NV : 3, MOST_4 = NV < 4 ? NV : 4 };
enum { KC = 512, CHAIN = 128, TILE_M = 96, TILE_PANELS = 4, FEW = 4, STREAM_DEPTH = 8, PACK_DEPTH = 128, STRIP_BYTES = 400 << 10, THIN = 48 };
static_assert(TILE_M % MR == 0);

// c[rows, NV vectors] (+)= a[rows, K] * b[K, NV vectors]; the last vector stores `columns` lanes only when partial.
// Sums longer than CHAIN are made of parts that meet in c: rounding errors grow with the part, not with K.
template <class T, int R, int C> __attribute__((noinline)) void micro(
    long K, const T* a, long a_m, long a_k, const T* b, long ldb, T* c, long ldc, bool add, int partial) {
    typedef typename Lanes<T>::V V;
    enum { W = Lanes<T>::W };
    do {
        V acc[R][C];
        for (int i = 0; i < R; i++)
            for (int j = 0; j < C; j++) acc[i][j] = (V){};
        long run = K < CHAIN + CHAIN / 2 ? K : CHAIN;
        K -= run;
#pragma GCC unroll 4
        for (long k = 0; k < run; k++) {
            V row[C];
#pragma GCC unroll 8
            for (int j = 0; j < C; j++) row[j] = ld_native(b + j * W);
#pragma GCC unroll 16
            for (int i = 0; i < R; i++) {
                V x = splat_native(a[i * a_m]);
#pragma GCC unroll 8
                for (int j = 0; j < C; j++) acc[i][j] = v_fma(x, row[j], acc[i][j]);
            }
            a += a_k;
            b += ldb;
        }
#pragma GCC unroll 16
        for (int i = 0; i < R; i++) {
#pragma GCC unroll 8
            for (int j = 0; j < C; j++) {
                T* p = c + i * ldc + j * W;
                if (j == C - 1 && partial) {
                    T rest[W];
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

template <class T> using Micro = void (*)(long, const T*, long, long, const T*, long, T*, long, bool, int);

template <class T> inline Micro<T> micro_kernel(int rows, int vectors) {
#define FB_ROW(R) \
    { micro<T, R, 1>, micro<T, R, 2>, micro<T, R, MOST_3>, micro<T, R, MOST_4> }
    static const Micro<T> table[MR][4] = {FB_ROW(1), FB_ROW(2), FB_ROW(3), FB_ROW(4), FB_ROW(5), FB_ROW(6)};
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

// ---- one problem
template <class SA, class SB, class T> struct Product {
    enum { W = Lanes<T>::W, NR = NV * W };
    const FbGemm& g;
    const FbRuntime& rt;
    T* packed; // all of B, or null: read in place
    bool shared_b; // one B for all batches
    bool dots; // few rows of a against rows of b^T: no packing, one sum a result
    long batches, panels, tile_m, tiles_m, tile_panels, tiles_n, depth;

    long offset(const long* strides, long batch) const {
        long r = 0;
        for (int d = g.batch_dims - 1; d >= 0; d--) r += batch % g.batch[d] * strides[d], batch /= g.batch[d];
        return r;
    }
    const SA* a(long batch) const { return (const SA*)g.a + offset(g.a_batch, batch); }
    const SB* b(long batch) const { return (const SB*)g.b + offset(g.b_batch, batch); }
    T* panel(long batch, long p) const { return packed + ((shared_b ? 0 : batch) * panels + p) * g.K * NR; }

    void pack_panel(long batch, long p) const {
        long n = p * NR, count = g.N - n < NR ? g.N - n : NR;
        pack(b(batch) + n * g.b_n, g.b_k, g.b_n, panel(batch, p), NR, count, g.K);
    }
    static void pack_range(void* self, long begin, long end, int) {
        const Product& s = *(const Product*)self;
        for (long i = begin; i < end; i++) s.pack_panel(i / s.panels, i % s.panels);
    }
    static void tile_range(void* self, long begin, long end, int) {
        const Product& s = *(const Product*)self;
        bool copy_a = s.must_pack_a(),
             to_scratch = s.g.epilogue || s.g.out_n != 1 || s.g.out_type != (sizeof(T) == 8 ? FB_DOUBLE : FB_FLOAT);
        long strip_bytes = copy_a ? (long)sizeof(T) * (s.tile_m + MR) * s.kept_depth() : 0;
        long held = -1; // the row block whose strips are packed
        long tile_bytes = to_scratch ? (long)sizeof(T) * s.tile_m * s.tile_panels * NR : 0;
        char* scratch = strip_bytes + tile_bytes ? (char*)s.rt.alloc(strip_bytes + tile_bytes + 64) : 0;
        T* strips = (T*)(scratch + tile_bytes);
        for (long i = begin; i < end; i++) {
            bool fresh = i / s.tiles_n != held || s.kept_depth() < s.g.K;
            s.tile(i / (s.tiles_m * s.tiles_n), i / s.tiles_n % s.tiles_m, i % s.tiles_n, copy_a ? strips : 0, fresh,
                to_scratch ? (T*)scratch : 0);
            held = i / s.tiles_n;
        }
        if (scratch) s.rt.release(scratch);
    }
    // how much of K the packed strips of a row block hold: all of it where that fits the second-level cache
    long kept_depth() const { return g.K < depth || g.K * tile_m * (long)sizeof(T) <= STRIP_BYTES ? g.K : depth; }
    bool must_pack_a() const { return !dots && (sizeof(SA) != sizeof(T) || g.a_k != 1); }

    void tile(long batch, long tm, long tn, T* strips, bool fresh, T* scratch) const {
        long wide = tile_panels * NR, m = tm * tile_m, n = tn * wide;
        long rows = g.M - m < tile_m ? g.M - m : tile_m, columns = g.N - n < wide ? g.N - n : wide;
        long out_batch = offset(g.out_batch, batch);
        T* c = scratch ? scratch : (T*)g.out + out_batch + m * g.out_m + n;
        long ldc = scratch ? wide : g.out_m;
        if (dots) dot_tile(a(batch) + m * g.a_m, rows, b(batch) + n * g.b_n, columns, c, ldc);
        else
            for (long k = 0; k == 0 || k < g.K; k += depth)
                multiply(batch, m, rows, n, columns, k, c, ldc, strips, fresh);
        if (g.epilogue) g.epilogue(g.epilogue_arg, c, ldc, batch, m, n, rows, columns);
        else if (scratch) write_out(c, ldc, out_batch + m * g.out_m + n * g.out_n, rows, columns);
    }
    void multiply(
        long batch, long m, long rows, long n, long columns, long k, T* c, long ldc, T* strips, bool fresh) const {
        long depth = g.K - k < this->depth ? g.K - k : this->depth;
        const SA* source = a(batch) + m * g.a_m + k * g.a_k;
        if (strips && kept_depth() >= g.K) strips += (rows + MR - 1) / MR * MR * k;
        if (strips && fresh)
            for (long k = 0; k < depth; k += PACK_DEPTH) // strips share cache lines when a's rows are its columns
                for (long i = 0; i < rows; i += MR)
                    pack(source + i * g.a_m + k * g.a_k, g.a_k, g.a_m, strips + i * depth + k * MR, MR,
                        rows - i < MR ? rows - i : MR, depth - k < PACK_DEPTH ? depth - k : PACK_DEPTH);
        for (long j = 0; j < columns; j += NR) {
            long left = columns - j < NR ? columns - j : NR;
            const T* right = packed ? panel(batch, (n + j) / NR) + k * NR : (const T*)(b(batch) + k * g.b_k + n + j);
            for (long i = 0; i < rows; i += MR) {
                int r = rows - i < MR ? rows - i : MR;
                micro_kernel<T>(r, (left + W - 1) / W)(depth,
                    strips ? strips + i * depth : (const T*)(source + i * g.a_m), strips ? 1 : g.a_m, strips ? MR : 1,
                    right, packed ? NR : g.b_k, c + i * ldc + j, ldc, k > 0, left % W);
            }
        }
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
        vf sum[C] = {};
        long k = 0;
        for (; k + FB_W <= g.K; k += FB_W) {
            vf x = ld(a + k, Full{});
#pragma GCC unroll 4
            for (int l = 0; l < C; l++) sum[l] = v_fma(x, ld(b + l * g.b_n + k, Full{}), sum[l]);
        }
        for (int l = 0; l < C; l++) {
            float total = fold_add(sum[l]);
            for (long r = k; r < g.K; r++) total += (float)scalar(a[r]) * (float)scalar(b[l * g.b_n + r]);
            c[l] = total;
        }
    }
    void write_out(const T* c, long ldc, long at, long rows, long columns) const {
        for (long i = 0; i < rows; i++)
            for (long j = 0; j < columns; j++) {
                long p = at + i * g.out_m + j * g.out_n;
                T x = c[i * ldc + j];
                if (g.out_type == FB_DOUBLE) ((double*)g.out)[p] = x;
                else if (g.out_type == FB_FLOAT) ((float*)g.out)[p] = x;
                else if (g.out_type == FB_BF16) ((bf16*)g.out)[p] = bf16{float_to_bf16(splat_f(x))[0]};
                else ((f16*)g.out)[p] = f16{float_to_half(splat_f(x))[0]};
            }
    }
    // in place only whole vectors of a row may be read: the last lanes of B's last row could lie outside of the array
    bool read_b_in_place() const {
        return sizeof(SB) == sizeof(T) && g.b_n == 1 && g.N % W == 0
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
        dots = sizeof(T) == 4 && g.M <= FEW && g.b_k == 1 && g.a_k == 1 && g.K > 0;
        bool in_place = dots || read_b_in_place();
        // a few rows against a large b: memory's speed counts, so b is walked in long rows, a few at a time
        bool stream = in_place && g.M <= MR && g.N >= 4 * NR;
        depth = stream && !dots ? STREAM_DEPTH : KC;
        tile_panels = stream ? (panels + 4 * threads - 1) / (4 * threads) : TILE_PANELS;
        tiles_n = (panels + tile_panels - 1) / tile_panels;
        choose_tile_m(threads);
        packed = 0;
        long packs = (shared_b ? 1 : batches) * panels;
        if (!in_place) {
            packed = (T*)rt.alloc(packs * g.K * NR * (long)sizeof(T) + 64);
            spread(pack_range, packs, threads);
        }
        spread(tile_range, batches * tiles_m * tiles_n, threads);
        if (packed) rt.release(packed);
    }
    // few tiles: lower ones, so that every thread gets work
    void choose_tile_m(long threads) {
        tile_m = TILE_M;
        long strips = (g.M + MR - 1) / MR, others = batches * tiles_n;
        if (threads > 1 && others * ((g.M + TILE_M - 1) / TILE_M) < 4 * threads) {
            long wanted = (2 * threads + others - 1) / others;
            long per = (strips + wanted - 1) / wanted;
            tile_m = per * MR < TILE_M ? (per < 1 ? 1 : per) * MR : TILE_M;
        }
        tiles_m = (g.M + tile_m - 1) / tile_m;
    }
    void spread(FbRange fn, long n, long threads) {
        if (threads == 1 || n == 1) fn(this, 0, n, 0);
        else rt.parallel_for(fn, this, n, 1);
    }
};

template <class SA, class SB, class T> inline void run_product(const FbGemm& g, const FbRuntime& rt) {
    Product<SA, SB, T> product{g, rt};
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
    return r;
}

// a batch dimension over which b does not change is more rows of a
inline FbGemm folded(const FbGemm& g) {
    FbGemm r = g;
    while (!r.epilogue && r.batch_dims > 0) {
        int d = r.batch_dims - 1;
        bool same_b = r.b_batch[d] == 0, rows = r.a_batch[d] == r.M * r.a_m && r.out_batch[d] == r.M * r.out_m;
        if (r.batch[d] != 1 && !(same_b && rows)) break;
        r.M *= r.batch[d];
        r.batch_dims--;
    }
    return r;
}

inline bool gemm(const FbGemm& problem, const FbRuntime& rt) {
    FbGemm g = folded(problem);
    bool vector = g.N == 1 && g.M > 1 && g.a_k == 1 && g.b_k == 1;
    // few rows against many: the large operand is read where it lies instead of being packed
    bool thin = g.M > FEW && g.M <= THIN && g.N >= 4 * g.M && g.a_k == 1 && g.b_k == 1 && g.b_n != 1;
    if (!g.epilogue && (vector || thin || (g.out_n != 1 && g.out_m == 1))) g = exchanged(g);
#define FB_CASE(A, B, SA, SB, T) \
    if (g.a_type == A && g.b_type == B) return run_product<SA, SB, T>(g, rt), true;
    FB_CASE(FB_FLOAT, FB_FLOAT, float, float, float)
    FB_CASE(FB_DOUBLE, FB_DOUBLE, double, double, double)
    FB_CASE(FB_BF16, FB_BF16, bf16, bf16, float)
    FB_CASE(FB_F16, FB_F16, f16, f16, float)
#undef FB_CASE
    return false;
}

#endif
