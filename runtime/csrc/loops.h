// What generated loop nests are written with: vector loops with tails, dead lanes, gathers, scatters, single elements.
#ifndef FB_LOOPS_H
#define FB_LOOPS_H

#include "abi.h"
#include "math.h"

#define FB_BODY __attribute__((always_inline))

// body(i, lanes, k) over [begin, end) in steps of one vector; k counts 0 .. U-1 for U independent accumulators
struct Exact {};             // the range is a multiple of the step
template <int U, class Body> FB_INLINE void each_vector(i64 begin, i64 end, Body body, Exact) {
    for (i64 i = begin; i < end; i += U * FB_W) {
        body(i, Full{}, 0);
        if constexpr (U > 1) body(i + FB_W, Full{}, 1);
        if constexpr (U > 2) {
            body(i + 2 * FB_W, Full{}, 2);
            body(i + 3 * FB_W, Full{}, 3);
        }
    }
}
template <int U, class Body> FB_INLINE void each_vector(i64 begin, i64 end, Body body) {
    i64 i = begin;
    if constexpr (U > 1)
        for (; i + U * FB_W <= end; i += U * FB_W) {
            body(i, Full{}, 0);
            body(i + FB_W, Full{}, 1);
            if constexpr (U > 2) {
                body(i + 2 * FB_W, Full{}, 2);
                body(i + 3 * FB_W, Full{}, 3);
            }
        }
    for (; i + FB_W <= end; i += FB_W) body(i, Full{}, 0);
    if (i < end) body(i, Tail{(int)(end - i)}, 0);
}
constexpr i64 STAGE = 16 * FB_W; // elements that the stages of a long map hand on through the first-level cache
// four registers at a time where there are so many: their numbers, for what is stored together
template <class Body> FB_INLINE void each_four(i64 begin, i64 end, Body body) {
    i64 i = begin;
    for (; i + 4 * FB_W <= end; i += 4 * FB_W) {
        body(i, Part{}, 0);
        body(i + FB_W, Part{}, 1);
        body(i + 2 * FB_W, Part{}, 2);
        body(i + 3 * FB_W, Part{}, 3);
    }
    for (; i + FB_W <= end; i += FB_W) body(i, Full{}, 0);
    if (i < end) body(i, Tail{(int)(end - i)}, 0);
}
// registers of bytes
template <class Body> FB_INLINE void each_bytes(i64 begin, i64 end, Body body) {
    i64 i = begin;
    for (; i + 4 * FB_W <= end; i += 4 * FB_W) body(i, Full{}, 0);
    if (i < end) body(i, Tail{(int)(end - i)}, 0);
}
// the same until a body says that this is enough
template <class Body> FB_INLINE void until_vector(i64 begin, i64 end, Body body) {
    for (i64 i = begin; i < end; i += FB_W)
        if (i + FB_W <= end ? body(i, Full{}, 0) : body(i, Tail{(int)(end - i)}, 0)) return;
}
// the same over [0, N) with N known: no code for parts that do not occur
template <int U, i64 N, class Body> FB_INLINE void each_vector_of(Body body) {
    constexpr i64 unrolled = N / (U * FB_W) * (U * FB_W), full = N / FB_W * FB_W;
    if constexpr (unrolled > 0) each_vector<U>(0, unrolled, body, Exact{});
    if constexpr (full > unrolled) each_vector<1>(unrolled, full, body, Exact{});
    if constexpr (N > full) body(full, Tail{(int)(N - full)}, 0);
}
// body(i, lanes, b) with b the number of the vector in the block
template <class Body> FB_INLINE void each_column(i64 begin, i64 end, Body body) {
    i64 i = begin, b = 0;
    for (; i + FB_W <= end; i += FB_W, b++) body(i, Full{}, b);
    if (i < end) body(i, Tail{(int)(end - i)}, b);
}
// body(row, i, lanes, b): four rows for each vector of the block, so that its accumulators stay in registers meanwhile
template <class Body> FB_INLINE void each_row_of_columns(i64 rows, i64 begin, i64 end, Body body) {
    i64 r = 0;
    for (; r + 4 <= rows; r += 4)
        each_column(begin, end, [&](i64 i, auto lanes, i64 b) FB_BODY {
            body(r, i, lanes, b);
            body(r + 1, i, lanes, b);
            body(r + 2, i, lanes, b);
            body(r + 3, i, lanes, b);
        });
    for (; r < rows; r++) each_column(begin, end, [&](i64 i, auto lanes, i64 b) FB_BODY { body(r, i, lanes, b); });
}

// the same for a few rows, all of them for each vector
template <int R, class Body> FB_INLINE void each_few_rows(i64 begin, i64 end, Body body) {
    each_column(begin, end, [&](i64 i, auto lanes, i64 b) FB_BODY {
#pragma GCC unroll 4
        for (int r = 0; r < R; r++) body(r, i, lanes, b);
    });
}

template <class Body> FB_INLINE void one_vector(i64 i, Body body) { body(i, Full{}, 0); }

// W x W elements whose columns are contiguous in memory, as W registers that are rows; and back
template <class T, class V> FB_INLINE void load_square(const T* p, i64 stride, V (&rows)[FB_W]) {
#pragma GCC unroll 16
    for (int l = 0; l < FB_W; l++) rows[l] = ld(p + l * stride, Full{});
    transpose(rows);
}
template <class T, class V> FB_INLINE void store_square(T* p, i64 stride, V (&rows)[FB_W]) {
    transpose(rows);
#pragma GCC unroll 16
    for (int l = 0; l < FB_W; l++) st(p + l * stride, rows[l], Full{});
}

// ---- out[i * out_row + j] = x[j * x_column + i] for i < rows, j < columns: whole lines at a time, in tiles
template <class E> FB_INLINE void turn_few(E* out, i64 out_row, const E* x, i64 x_column, i64 rows, i64 columns) {
    for (i64 j = 0; j < columns; j++)
        for (i64 i = 0; i < rows; i++) out[i * out_row + j] = x[j * x_column + i];
}
template <class E> FB_INLINE void turn_square(E* out, i64 out_row, const E* x, i64 x_column) {
    if constexpr (sizeof(E) == 4) {
        vf square[FB_W];
#pragma GCC unroll 16
        for (int l = 0; l < FB_W; l++) square[l] = ld((const float*)(x + l * x_column), Full{});
        transpose(square);
#pragma GCC unroll 16
        for (int l = 0; l < FB_W; l++) st((float*)(out + l * out_row), square[l], Full{});
    } else {
        hd square[FB_W / 2];
#pragma GCC unroll 8
        for (int l = 0; l < FB_W / 2; l++) square[l] = *(const hd_loose*)(x + l * x_column);
        transpose(square);
#pragma GCC unroll 8
        for (int l = 0; l < FB_W / 2; l++) *(hd_loose*)(out + l * out_row) = square[l];
    }
}
template <class E> FB_INLINE void turn_tile(E* out, i64 out_row, const E* x, i64 x_column, i64 rows, i64 columns) {
    constexpr i64 side = sizeof(E) == 4 ? FB_W : FB_W / 2;
    if constexpr (sizeof(E) < 4) return turn_few(out, out_row, x, x_column, rows, columns);
    else {
        i64 whole = columns / side * side, i = 0;
        for (; i + side <= rows; i += side)
            for (i64 j = 0; j < whole; j += side) turn_square(out + i * out_row + j, out_row, x + j * x_column + i, x_column);
        turn_few(out + i * out_row, out_row, x + i, x_column, rows - i, whole);
        turn_few(out + whole, out_row, x + whole * x_column, x_column, rows, columns - whole);
    }
}
template <class E> static inline void turn_block(E* out, i64 out_row, const E* x, i64 x_column, i64 rows, i64 columns) {
    constexpr i64 tile = sizeof(E) < 4 ? 16 : 32;
    for (i64 j = 0; j < columns; j += tile)
        for (i64 i = 0; i < rows; i += tile)
            turn_tile(out + i * out_row + j, out_row, x + j * x_column + i, x_column, rows - i < tile ? rows - i : tile,
                columns - j < tile ? columns - j : tile);
}

// a value in living lanes, the identity of a reduction in dead ones
template <class V> FB_INLINE V keep(Full, V x, V) { return x; }
template <class V> FB_INLINE V keep(Tail t, V x, V identity) { return v_where(alive(t), x, identity); }
FB_INLINE bool living(Full, int) { return true; }
FB_INLINE bool living(Tail t, int l) { return l < t.n; }
FB_INLINE int count(Full) { return FB_W; }
FB_INLINE int count(Tail t) { return t.n; }

// ---- gathers: one place a lane; dead lanes and lanes whose mask is off are not touched
template <class V> struct Element;
template <> struct Element<vf> {
    typedef float S;
    static vf splat(float x) { return splat_f(x); }
};
template <> struct Element<vd> {
    typedef double S;
    static vd splat(double x) { return splat_d(x); }
};
template <> struct Element<vi> {
    typedef int S;
    static vi splat(int x) { return splat_i(x); }
};
template <> struct Element<vl> {
    typedef i64 S;
    static vl splat(i64 x) { return splat_l(x); }
};
FB_INLINE float element(const float* p) { return *p; }
FB_INLINE double element(const double* p) { return *p; }
FB_INLINE i64 element(const i64* p) { return *p; }
FB_INLINE i64 element(const u32* p) { return *p; }
FB_INLINE int element(const int* p) { return *p; }
FB_INLINE int element(const short* p) { return *p; }
FB_INLINE int element(const u16* p) { return *p; }
FB_INLINE int element(const i8* p) { return *p; }
FB_INLINE int element(const u8* p) { return *p; }
FB_INLINE int element(const bool* p) { return -(int)*p; }
FB_INLINE float element(const bf16* p) { return __builtin_bit_cast(float, (u32)p->bits << 16); }
FB_INLINE float element(const f16* p) { return half_to_float(p->bits - (v16){})[0]; }
template <int... L> struct LaneNumbers {};
#if FB_W == 16
typedef LaneNumbers<0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15> AllLanes;
#elif FB_W == 8
typedef LaneNumbers<0, 1, 2, 3, 4, 5, 6, 7> AllLanes;
#else
typedef LaneNumbers<0, 1, 2, 3> AllLanes;
#endif
template <class V, class T, class At, int... L> FB_INLINE V gathered(const T* p, At at, LaneNumbers<L...>) { return V{element(p + at(L))...}; }
template <class T, class At, class M> FB_INLINE auto gather(const T* p, At at, M m) {
    typedef decltype(ld1(p)) V;
    if constexpr (__is_empty(M) && sizeof(V) == sizeof(vf) && sizeof(element(p)) == 4) return gathered<V>(p, at, AllLanes());
    V r = {};
    if constexpr (!__is_empty(M)) { // lanes that a condition leaves out go through memory
        typename Element<V>::S found[FB_W] __attribute__((aligned(64))) = {};
        for (int l = 0; l < count(m); l++) found[l] = element(p + at(l));
        __builtin_memcpy(&r, found, sizeof r);
        return r;
    }
#pragma GCC unroll 16
    for (int l = 0; l < count(m); l++) set_lane(r, l, element(p + at(l)));
    return r;
}
// the number of a lane, from memory
struct Places {
    i64 from[FB_W] __attribute__((aligned(64)));
    __attribute__((always_inline)) i64 operator()(int l) const { return from[l]; }
};
FB_INLINE Places places(vl at) {
    Places made;
    __builtin_memcpy(made.from, &at, sizeof made.from);
    return made;
}
// places as registers: they and the elements go through memory, where a lane has an address
template <class T, class M> FB_INLINE auto gather(const T* p, vl at, M m) {
    typedef decltype(ld1(p)) V;
    typename Element<V>::S found[FB_W] __attribute__((aligned(64))) = {};
    Places from = places(at);
    for (int l = 0; l < count(m); l++) found[l] = element(p + from(l));
    V r;
    __builtin_memcpy(&r, found, sizeof r);
    return r;
}
template <class T, class At, class M>
FB_INLINE auto gather_where(const T* p, At at, vi mask, decltype(ld1(p)) other, M m) {
    for (int l = 0; l < count(m); l++)
        if (mask[l]) set_lane(other, l, element(p + at(l)));
    return other;
}
#if FB_ISA == 512
FB_INLINE u16 lane_mask(vi mask, Full) { return __builtin_ia32_ptestmd512(mask, mask, FB_ALL); }
FB_INLINE u16 lane_mask(vi mask, Tail t) { return __builtin_ia32_ptestmd512(mask, mask, tail_mask(t)); }
// (a load of no lane at an address without memory costs a trip into microcode, so it isn't made)
template <class M> FB_INLINE vf ld_where(const float* p, vi mask, vf other, M m) {
    u16 lanes = lane_mask(mask, m);
    return lanes ? __builtin_ia32_loadups512_mask((float*)p, other, lanes) : other;
}
template <class M> FB_INLINE vi ld_where(const int* p, vi mask, vi other, M m) {
    u16 lanes = lane_mask(mask, m);
    return lanes ? __builtin_ia32_loaddqusi512_mask((int*)p, other, lanes) : other;
}
#elif FB_ISA == 256 && !defined(__clang__)
template <class M> FB_INLINE vf ld_where(const float* p, vi mask, vf other, M m) {
    mask &= alive(m);
    return any_lane(mask) ? mask ? __builtin_ia32_maskloadps256((const vf*)p, mask) : other : other;
}
template <class M> FB_INLINE vi ld_where(const int* p, vi mask, vi other, M m) {
    mask &= alive(m);
    return any_lane(mask) ? mask ? (vi)__builtin_ia32_maskloadps256((const vf*)p, mask) : other : other;
}
#endif
template <class T, class M> FB_INLINE auto ld_where(const T* p, vi mask, decltype(ld1(p)) other, M m) {
    return gather_where(p, [](int l) { return l; }, mask, other, m);
}
// behind a condition that is the same in all lanes
template <class T, class V, class M> FB_INLINE V ld_if(bool on, const T* p, V other, M m) { return on ? ld(p, m) : other; }
// the same number in all lanes, behind a condition that is the same in all lanes
template <class T> FB_INLINE auto ld1_where(const T* p, i64 at, vi mask, decltype(ld1(p)) other) {
    return mask[0] ? ld1(p + at) : other;
}

// ---- single stores and scatters, in the order of the lanes
FB_INLINE void put(float* p, float x) { *p = x; }
FB_INLINE void put(double* p, double x) { *p = x; }
FB_INLINE void put(i64* p, i64 x) { *p = x; }
FB_INLINE void put(u32* p, i64 x) { *p = (u32)x; }
FB_INLINE void put(int* p, int x) { *p = x; }
FB_INLINE void put(short* p, int x) { *p = (short)x; }
FB_INLINE void put(u16* p, int x) { *p = (u16)x; }
FB_INLINE void put(i8* p, int x) { *p = (i8)x; }
FB_INLINE void put(u8* p, int x) { *p = (u8)x; }
FB_INLINE void put(bool* p, int x) { *p = x != 0; }
FB_INLINE void put(bf16* p, float x) { p->bits = float_to_bf16(splat_f(x))[0]; }
FB_INLINE void put(f16* p, float x) { p->bits = float_to_half(splat_f(x))[0]; }
template <class T, class V> FB_INLINE void st1(T* p, V x) { put(p, lane(x, 0)); }
template <class T, class V, class At, class M> FB_INLINE void scatter(T* p, At at, V x, M m) {
    for (int l = 0; l < count(m); l++) put(p + at(l), lane(x, l));
}

// ---- every S-th element, S known: the S vectors that hold them, with the others left alone
template <int S, class T, class M> FB_INLINE auto gather_by(const T* p, M m) {
    return gather(p, [](int l) -> i64 { return (i64)l * S; }, m);
}
template <int S, class T, class V, class M> FB_INLINE void scatter_by(T* p, V x, M m) {
    scatter(p, [](int l) -> i64 { return (i64)l * S; }, x, m);
}
#if FB_ISA == 512
template <int S> FB_INLINE u16 places_of(int k, int lanes) {
    u16 places = 0;
    for (int at = 0; at < FB_W; at++) places |= (k * FB_W + at) % S == 0 ? 1 << at : 0;
    int left = lanes * S - k * FB_W;
    return left >= FB_W ? places : left <= 0 ? 0 : places & ((1 << left) - 1);
}
template <int S, class M> FB_INLINE vf gather_by(const float* p, M m) {
    vf r = {};
#pragma GCC unroll 4
    for (int k = 0; k < S; k++) {
        vi from;
        u16 lanes = 0, places = places_of<S>(k, count(m));
        for (int l = 0; l < FB_W; l++) from[l] = l * S % FB_W, lanes |= l * S / FB_W == k ? 1 << l : 0;
        vf part = places ? __builtin_ia32_loadups512_mask((float*)p + k * FB_W, r, places) : r;
        r = __builtin_ia32_permvarsf512_mask(part, from, r, lanes);
    }
    return r;
}
template <int S, class M> FB_INLINE void scatter_by(float* p, vf x, M m) {
#pragma GCC unroll 4
    for (int k = 0; k < S; k++) {
        vi from;
        u16 places = places_of<S>(k, count(m));
        for (int at = 0; at < FB_W; at++) from[at] = (k * FB_W + at) / S;
        if (places) __builtin_ia32_storeups512_mask(p + k * FB_W, __builtin_ia32_permvarsf512_mask(x, from, x, FB_ALL), places);
    }
}
template <int S, class M> FB_INLINE vi gather_by(const int* p, M m) { return (vi)gather_by<S>((const float*)p, m); }
template <int S, class M> FB_INLINE void scatter_by(int* p, vi x, M m) { scatter_by<S>((float*)p, (vf)x, m); }
#endif
template <class S> FB_INLINE S plus(S a, S b) { return a + b; }
FB_INLINE int plus(int a, int b) { return (int)((u32)a + (u32)b); }
FB_INLINE i64 plus(i64 a, i64 b) { return (i64)((u64)a + (u64)b); }
template <class T, class V, class At, class M> FB_INLINE void scatter_add(T* p, At at, V x, M m) {
    for (int l = 0; l < count(m); l++) put(p + at(l), plus(element(p + at(l)), lane(x, l)));
}
FB_INLINE vf plus(vf a, vf b) { return a + b; }
FB_INLINE vd plus(vd a, vd b) { return a + b; }
FB_INLINE vl plus(vl a, vl b) { return a + b; }
FB_INLINE vi plus(vi a, vi b) { return add_i(a, b); }
template <class T, class V, class M> FB_INLINE void add_to(T* p, V x, M m) { st(p, plus(ld(p, m), x), m); }
template <class T, class V> FB_INLINE void add_to1(T* p, V x) { put(p, plus(element(p), lane(x, 0))); }
// truth values add up to "any of them"
template <class At, class M> FB_INLINE void scatter_add(bool* p, At at, vi x, M m) {
    for (int l = 0; l < count(m); l++) put(p + at(l), element(p + at(l)) | lane(x, l));
}
template <class M> FB_INLINE void add_to(bool* p, vi x, M m) { st(p, ld(p, m) | x, m); }
FB_INLINE void add_to1(bool* p, vi x) { put(p, element(p) | lane(x, 0)); }

// products and extremes of what comes to one place, in the order of the lanes; a NaN stays
template <class S> FB_INLINE S times(S a, S b) { return a * b; }
FB_INLINE int times(int a, int b) { return (int)((u32)a * (u32)b); }
FB_INLINE i64 times(i64 a, i64 b) { return (i64)((u64)a * (u64)b); }
template <class S> FB_INLINE S larger(S a, S b) { return a != a || a > b ? a : b; }
template <class S> FB_INLINE S smaller(S a, S b) { return a != a || a < b ? a : b; }
template <class T, class V, class At, class M> FB_INLINE void scatter_mul(T* p, At at, V x, M m) {
    for (int l = 0; l < count(m); l++) put(p + at(l), times(element(p + at(l)), lane(x, l)));
}
template <class T, class V, class At, class M> FB_INLINE void scatter_max(T* p, At at, V x, M m) {
    for (int l = 0; l < count(m); l++) put(p + at(l), larger(element(p + at(l)), lane(x, l)));
}
template <class T, class V, class At, class M> FB_INLINE void scatter_min(T* p, At at, V x, M m) {
    for (int l = 0; l < count(m); l++) put(p + at(l), smaller(element(p + at(l)), lane(x, l)));
}
template <class T, class V> FB_INLINE void mul_to1(T* p, V x) { put(p, times(element(p), lane(x, 0))); }
template <class T, class V> FB_INLINE void max_to1(T* p, V x) { put(p, larger(element(p), lane(x, 0))); }
template <class T, class V> FB_INLINE void min_to1(T* p, V x) { put(p, smaller(element(p), lane(x, 0))); }
// where the lanes are neighbours
struct Neighbours { __attribute__((always_inline)) i64 operator()(int l) const { return l; } };
template <class T, class V, class M> FB_INLINE void mul_to(T* p, V x, M m) { scatter_mul(p, Neighbours(), x, m); }
template <class T, class V, class M> FB_INLINE void max_to(T* p, V x, M m) { scatter_max(p, Neighbours(), x, m); }
template <class T, class V, class M> FB_INLINE void min_to(T* p, V x, M m) { scatter_min(p, Neighbours(), x, m); }

// ---- index values
FB_INLINE vl lanes_from(i64 start, i64 stride) { return index_lanes(0) * splat_l(stride) + splat_l(start); }
template <class At> FB_INLINE vl lanes_of(At at) {
    vl r;
#pragma GCC unroll 16
    FB_LANES set_lane(r, l, at(l));
    return r;
}

// an index out of [0, size) sets the error code and becomes 0
FB_INLINE i64 checked(i64 x, i64 size, int check, int* error) {
    if ((u64)x < (u64)size) return x;
    __atomic_store_n(error, check, __ATOMIC_RELAXED);
    return 0;
}
#if FB_ISA == 512
FB_INLINE bool any_negative(hl x) { return __builtin_ia32_ptestmd512((vi)x, (vi)splat_hl((i64)(1ul << 63)), FB_ALL) != 0; }
#else
FB_INLINE bool any_negative(hl x) { return any_lane((vi)(x < 0)); }
#endif
FB_INLINE bool any_outside(vl x, i64 size, Full) {
    hl last = splat_hl(size - 1);
    return any_negative(x.lo | x.hi | (hl)((hul)last - (hul)x.lo) | (hl)((hul)last - (hul)x.hi));
}
FB_INLINE bool any_outside(vl x, i64 size, Tail m) { return any_lane(((x < splat_l(0)) | (x >= splat_l(size))) & alive(m)); }
template <class M> FB_INLINE vl checked(vl x, i64 size, int check, int* error, M m) {
    if (__is_empty(M) && !any_outside(x, size, m)) return x;
    vi bad = (x < splat_l(0)) | (x >= splat_l(size));
    bad &= alive(m);
    if (any_lane(bad)) __atomic_store_n(error, check, __ATOMIC_RELAXED);
    return v_where(bad | ~alive(m), splat_l(0), x);
}
// where the indices x stand, or zeros instead if one of them is out of [0, size)
alignas(64) constexpr i64 no_places[FB_W] = {};
template <class M> FB_INLINE const i64* within(const i64* p, vl x, i64 size, int check, int* error, M m) {
    if (!any_outside(x, size, m)) return p;
    __atomic_store_n(error, check, __ATOMIC_RELAXED);
    return no_places;
}

// a truth value that must be false in all living lanes, as an index into one element
template <class M> FB_INLINE vl refused(vi bad, int check, int* error, M m) {
    if (any_lane(bad & alive(m))) __atomic_store_n(error, check, __ATOMIC_RELAXED);
    return splat_l(0);
}

// ---- greatest or least key with its position: the first of equals, NaN before all
template <class S> FB_INLINE bool nan(S x) { return x != x; }
// whether some lane may have to take the key: mostly none has
template <class V> FB_INLINE bool may_take_max(V key, V best) { return any_lane(~(key < best)); }
template <class V> FB_INLINE bool may_take_min(V key, V best) { return any_lane(~(key > best)); }
template <class V> FB_INLINE void take_max(vi& take, V key, V best, vl at, vl best_at) {
    take = (key > best) | ((key == best) & (at < best_at)) | ((key != key) & ((best == best) | (at < best_at)));
}
template <class V> FB_INLINE void take_min(vi& take, V key, V best, vl at, vl best_at) {
    take = (key < best) | ((key == best) & (at < best_at)) | ((key != key) & ((best == best) | (at < best_at)));
}
// whether some lane may hold the best key: all hold none mostly, and NaN is looked at again
template <class V> FB_INLINE bool may_be_max(V key, V best) { return any_lane(~(key < best)); }
template <class V> FB_INLINE bool may_be_min(V key, V best) { return any_lane(~(key > best)); }
#if FB_ISA == 512
FB_INLINE bool may_be_max(vf key, vf best) { return __builtin_ia32_cmpps512_mask(key, best, 5, FB_ALL, 4) != 0; }
FB_INLINE bool may_be_min(vf key, vf best) { return __builtin_ia32_cmpps512_mask(key, best, 10, FB_ALL, 4) != 0; }
#endif
template <class V> FB_INLINE vi is_best(V key, V best) { return (key == best) | ((key != key) & (best != best)); }
template <class V> FB_INLINE void fold_arg(V& best, vl& at, bool greatest) {
    auto b = lane(best, 0);
    i64 p = lane(at, 0);
    for (int l = 1; l < FB_W; l++) {
        auto x = lane(best, l);
        i64 q = lane(at, l);
        bool better = greatest ? x > b : x < b;
        if (better ? !nan(b) : (nan(x) && !nan(b)) || ((x == b || (nan(x) && nan(b))) && q < p)) b = x, p = q;
    }
    best = Element<V>::splat(b);
    at = splat_l(p);
}

// ---- one kernel over the pool; functions of entry points need not be inlined
struct Args {
    void* const* p;           // its buffers
    const i64* n;             // its symbols and scalars
    const double* f;
    const FbRuntime* rt;
    int* error;
    i64 block;                // columns in one block of an "outer" kernel, elements in one of a flat one
};
static inline void run_kernel(FbRange fn, const Args& args, i64 points, i64 work_per_point) {
    if (points <= 0) return;
    i64 grain = 8192 / (work_per_point > 0 ? work_per_point : 1) + 1;
    if (points < 2 * grain) fn((void*)&args, 0, points, 0);
    else args.rt->parallel_for(fn, (void*)&args, points, grain);
}

// elements of the last axis that one point of a map takes
static inline i64 map_block(i64 n) { return n > 16384 ? 8192 : n > 0 ? n : 1; }
// columns in one block: whole vectors, at most `most`, and enough blocks for all threads
static inline i64 column_block(i64 n, i64 most, const FbRuntime* rt) {
    i64 share = 2 * rt->num_threads(), each = (n + share - 1) / share;
    each = (each + FB_W - 1) / FB_W * FB_W;
    return each < FB_W ? FB_W : each > most ? most : each;
}
static inline i64 column_block(i64 n, i64) { return n > 0 ? n : 1; }      // for estimates of work
// adds the time of its scope to the kernel's counter, when kernels are timed
struct Timer {
    const FbRuntime* rt;
    int kernel;
    u64 start;
    Timer(const FbRuntime* rt, int kernel) : rt(rt), kernel(kernel), start(rt->kernel_ns ? rt->clock() : 0) {}
    ~Timer() {
        if (rt->kernel_ns) rt->kernel_ns[kernel] += rt->clock() - start;
    }
};

#endif
