// Vectors of FB_W lanes without any header: types, loads and stores with masked tails, conversions, selects.
//
// Included by the native kernels and, as text, by every generated translation unit, so it costs next to nothing to
// compile. Every element type has a register form with the same number of lanes: vf (float, and the halves), vi (all
// integers up to 32 bits, and masks of 0 / -1), vd (double) and vl (int64), the last two as pairs of registers.
// FMA appears only through v_fma.
#ifndef FB_VECTOR_H
#define FB_VECTOR_H

#ifndef FB_ISA
#if defined(__AVX512F__)
#define FB_ISA 512
#elif defined(__AVX2__)
#define FB_ISA 256
#else
#define FB_ISA 128
#endif
#endif
#define FB_W (FB_ISA / 32)
#define FB_ALL ((u16) - 1)
#define FB_INLINE static inline __attribute__((always_inline))
#define FB_LANES for (int l = 0; l < FB_W; l++)

typedef long i64;
typedef unsigned long u64;
typedef unsigned int u32;
typedef unsigned short u16;
typedef unsigned char u8;
typedef signed char i8;
struct bf16 {
    u16 bits;
};
struct f16 {
    u16 bits;
};

typedef float vf __attribute__((vector_size(FB_W * 4)));
typedef int vi __attribute__((vector_size(FB_W * 4)));
typedef u32 vu __attribute__((vector_size(FB_W * 4)));
typedef double hd __attribute__((vector_size(FB_W * 4)));    // half of the lanes
typedef i64 hl __attribute__((vector_size(FB_W * 4)));
typedef u64 hul __attribute__((vector_size(FB_W * 4)));
typedef float hf __attribute__((vector_size(FB_W * 2)));
typedef int hi __attribute__((vector_size(FB_W * 2)));
typedef float vf_loose __attribute__((vector_size(FB_W * 4), aligned(4), may_alias));
typedef int vi_loose __attribute__((vector_size(FB_W * 4), aligned(4), may_alias));
typedef hd hd_loose __attribute__((aligned(8), may_alias));
typedef hl hl_loose __attribute__((aligned(8), may_alias));
typedef u16 v16 __attribute__((vector_size(FB_W * 2)));
typedef v16 v16_loose __attribute__((aligned(2), may_alias));
typedef u8 v8 __attribute__((vector_size(FB_W)));
typedef v8 v8_loose __attribute__((aligned(1), may_alias));
struct vd {
    hd lo, hi;
};
struct vl {
    hl lo, hi;
};

// How many lanes are alive: all of them, or the first n (the tail of a loop).
struct Full {};
struct Tail {
    int n;
};

#if FB_W == 16
#define FB_FIRST 0, 1, 2, 3, 4, 5, 6, 7
#define FB_SECOND 8, 9, 10, 11, 12, 13, 14, 15
#elif FB_W == 8
#define FB_FIRST 0, 1, 2, 3
#define FB_SECOND 4, 5, 6, 7
#else
#define FB_FIRST 0, 1
#define FB_SECOND 2, 3
#endif
#if FB_W == 16
#define FB_IOTA 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
#define FB_EVEN 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30
#define FB_ODD 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31
#define FB_ZIP_LOW 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define FB_ZIP_HIGH 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#elif FB_W == 8
#define FB_IOTA 0, 1, 2, 3, 4, 5, 6, 7
#define FB_EVEN 0, 2, 4, 6, 8, 10, 12, 14
#define FB_ODD 1, 3, 5, 7, 9, 11, 13, 15
#define FB_ZIP_LOW 0, 8, 1, 9, 2, 10, 3, 11
#define FB_ZIP_HIGH 4, 12, 5, 13, 6, 14, 7, 15
#else
#define FB_IOTA 0, 1, 2, 3
#define FB_EVEN 0, 2, 4, 6
#define FB_ODD 1, 3, 5, 7
#define FB_ZIP_LOW 0, 4, 1, 5
#define FB_ZIP_HIGH 2, 6, 3, 7
#endif

// ---- splats: `x - 0` keeps -0.0 and folds to one broadcast
FB_INLINE vf splat_f(float x) { return x - (vf){}; }
FB_INLINE vi splat_i(int x) { return x - (vi){}; }
FB_INLINE hd splat_hd(double x) { return x - (hd){}; }
FB_INLINE hl splat_hl(i64 x) { return x - (hl){}; }
FB_INLINE vd splat_d(double x) { return {splat_hd(x), splat_hd(x)}; }
FB_INLINE vl splat_l(i64 x) { return {splat_hl(x), splat_hl(x)}; }
FB_INLINE vi splat_b(bool x) { return splat_i(-(int)x); }
FB_INLINE vi as_i(vf x) { return (vi)x; }
FB_INLINE vf as_f(vi x) { return (vf)x; }
FB_INLINE vi lane_numbers() { return (vi){FB_IOTA}; }
FB_INLINE vi alive(Full) { return splat_i(-1); }
FB_INLINE vi alive(Tail t) { return lane_numbers() < splat_i(t.n); }

// ---- halves of a register and back
FB_INLINE hf first(vf x) { return __builtin_shufflevector(x, x, FB_FIRST); }
FB_INLINE hf second(vf x) { return __builtin_shufflevector(x, x, FB_SECOND); }
FB_INLINE hi first(vi x) { return __builtin_shufflevector(x, x, FB_FIRST); }
FB_INLINE hi second(vi x) { return __builtin_shufflevector(x, x, FB_SECOND); }
FB_INLINE vf both(hf a, hf b) { return __builtin_shufflevector(a, b, FB_IOTA); }
FB_INLINE vi both(hi a, hi b) { return __builtin_shufflevector(a, b, FB_IOTA); }

// ---- conversions between widths. GCC takes __builtin_convertvector apart into halves of the register, or into elements.
typedef short s16v __attribute__((vector_size(FB_W * 2)));
typedef i8 s8v __attribute__((vector_size(FB_W)));
#if FB_ISA == 512 && !defined(__clang__)
typedef char c8v __attribute__((vector_size(FB_W)));
typedef long long q8v __attribute__((vector_size(FB_W * 4)));
FB_INLINE hd wide_d(hf x) { return __builtin_ia32_cvtps2pd512_mask(x, (hd){}, (u8)-1, 4); }
FB_INLINE hd wide_d(hi x) { return __builtin_ia32_cvtdq2pd512_mask(x, (hd){}, (u8)-1); }
FB_INLINE hl wide_l(hi x) { return (hl)__builtin_ia32_pmovsxdq512_mask(x, (q8v){}, (u8)-1); }
FB_INLINE hl wide_l(hf x) { return (hl)__builtin_ia32_cvttps2qq512_mask(x, (q8v){}, (u8)-1, 4); }
FB_INLINE hi narrow4(hl x) { return (hi)__builtin_ia32_pmovqd512_mask((q8v)x, (hi){}, (u8)-1); }
FB_INLINE vi wide(v16 x) { return __builtin_ia32_pmovzxwd512_mask((s16v)x, (vi){}, FB_ALL); }
FB_INLINE vi wide(s16v x) { return __builtin_ia32_pmovsxwd512_mask(x, (vi){}, FB_ALL); }
FB_INLINE vi wide(s8v x) { return (vi)__builtin_ia32_pmovsxbd512_mask((c8v)x, (vi){}, FB_ALL); }
FB_INLINE vi wide(v8 x) { return (vi)__builtin_ia32_pmovzxbd512_mask((c8v)x, (vi){}, FB_ALL); }
FB_INLINE v16 narrow16(vi x) { return (v16)__builtin_ia32_pmovdw512_mask(x, (s16v){}, FB_ALL); }
FB_INLINE v8 narrow8(vi x) { return (v8)__builtin_ia32_pmovdb512_mask(x, (c8v){}, FB_ALL); }
#else
#if FB_ISA == 256 && !defined(__clang__)
typedef long long q8v __attribute__((vector_size(FB_W * 4)));
FB_INLINE hd wide_d(hf x) { return __builtin_ia32_cvtps2pd256(x); }
FB_INLINE hd wide_d(hi x) { return __builtin_ia32_cvtdq2pd256(x); }
FB_INLINE hl wide_l(hi x) { return (hl)__builtin_ia32_pmovsxdq256(x); }
FB_INLINE vi wide(v16 x) { return __builtin_ia32_pmovzxwd256((s16v)x); }
FB_INLINE vi wide(s16v x) { return __builtin_ia32_pmovsxwd256(x); }
#else
FB_INLINE hd wide_d(hf x) { return __builtin_convertvector(x, hd); }
FB_INLINE hd wide_d(hi x) { return __builtin_convertvector(x, hd); }
FB_INLINE hl wide_l(hi x) { return __builtin_convertvector(x, hl); }
FB_INLINE vi wide(v16 x) { return __builtin_convertvector(x, vi); }
FB_INLINE vi wide(s16v x) { return __builtin_convertvector(x, vi); }
#endif
FB_INLINE hl wide_l(hf x) { return __builtin_convertvector(x, hl); }
FB_INLINE hi narrow4(hl x) { return __builtin_convertvector(x, hi); }
#if FB_ISA == 256 && !defined(__clang__)
typedef char c16v __attribute__((vector_size(16)));
typedef long long l16v __attribute__((vector_size(16)));
FB_INLINE vi wide(s8v x) { return __builtin_ia32_pmovsxbd256((c16v)(l16v){(long long)x, 0}); }
FB_INLINE vi wide(v8 x) { return __builtin_ia32_pmovzxbd256((c16v)(l16v){(long long)x, 0}); }
FB_INLINE v16 narrow16(vi x) {
    x &= 0xffff;
    return (v16)__builtin_ia32_packusdw128(first(x), second(x));
}
FB_INLINE v8 narrow8(vi x) {
    x &= 0xff;
    s16v words = __builtin_ia32_packusdw128(first(x), second(x));
    return (v8)((l16v)__builtin_ia32_packuswb128(words, words))[0];
}
#else
FB_INLINE vi wide(s8v x) { return __builtin_convertvector(__builtin_convertvector(x, s16v), vi); }
FB_INLINE vi wide(v8 x) { return __builtin_convertvector(__builtin_convertvector(x, v16), vi); }
FB_INLINE v16 narrow16(vi x) { return __builtin_convertvector(x, v16); }
FB_INLINE v8 narrow8(vi x) { return __builtin_convertvector(narrow16(x), v8); }
#endif
#endif
#if FB_ISA == 256
FB_INLINE vi narrow(hl a, hl b) { return __builtin_shufflevector((vi)a, (vi)b, FB_EVEN); }
#else
FB_INLINE vi narrow(hl a, hl b) { return both(narrow4(a), narrow4(b)); }
#endif
FB_INLINE hl widen_first(vi x) { return wide_l(first(x)); }
FB_INLINE hl widen_second(vi x) { return wide_l(second(x)); }

// ---- arithmetic of the paired types
#define FB_PAIR(T, op) \
    FB_INLINE T operator op(T a, T b) { return {a.lo op b.lo, a.hi op b.hi}; }
FB_PAIR(vd, +)
FB_PAIR(vd, -) FB_PAIR(vd, *) FB_PAIR(vd, /) FB_PAIR(vl, &) FB_PAIR(vl, |) FB_PAIR(vl, ^)
#undef FB_PAIR
// 64-bit integers wrap: signed overflow of a vector is undefined to the compiler, unsigned is not
#define FB_WRAP(op) \
    FB_INLINE vl operator op(vl a, vl b) { return {(hl)((hul)a.lo op(hul) b.lo), (hl)((hul)a.hi op(hul) b.hi)}; }
    FB_WRAP(+) FB_WRAP(-) FB_WRAP(*)
#undef FB_WRAP
        FB_INLINE vd operator-(vd a) {
    return {-a.lo, -a.hi};
}
FB_INLINE vl operator-(vl a) { return splat_l(0) - a; }
FB_INLINE vl operator~(vl a) { return {~a.lo, ~a.hi}; }
#define FB_COMPARE(T, op) \
    FB_INLINE vi operator op(T a, T b) { return narrow((hl)(a.lo op b.lo), (hl)(a.hi op b.hi)); }
FB_COMPARE(vd, <)
FB_COMPARE(vd, <=) FB_COMPARE(vd, >) FB_COMPARE(vd, >=) FB_COMPARE(vd, ==) FB_COMPARE(vd, !=) FB_COMPARE(vl, <)
    FB_COMPARE(vl, <=) FB_COMPARE(vl, >) FB_COMPARE(vl, >=) FB_COMPARE(vl, ==) FB_COMPARE(vl, !=)
#undef FB_COMPARE

        FB_INLINE vf v_where(vi m, vf a, vf b) {
    return m ? a : b;
}
FB_INLINE vi v_where(vi m, vi a, vi b) { return m ? a : b; }
FB_INLINE vd v_where(vi m, vd a, vd b) { return {widen_first(m) ? a.lo : b.lo, widen_second(m) ? a.hi : b.hi}; }
FB_INLINE vl v_where(vi m, vl a, vl b) { return {widen_first(m) ? a.lo : b.lo, widen_second(m) ? a.hi : b.hi}; }

// ---- lanes by number (slow paths and single elements)
FB_INLINE float lane(vf x, int l) { return x[l]; }
FB_INLINE int lane(vi x, int l) { return x[l]; }
FB_INLINE double lane(vd x, int l) { return l < FB_W / 2 ? x.lo[l] : x.hi[l - FB_W / 2]; }
FB_INLINE i64 lane(vl x, int l) { return l < FB_W / 2 ? x.lo[l] : x.hi[l - FB_W / 2]; }
FB_INLINE void set_lane(vf& x, int l, float v) { x[l] = v; }
FB_INLINE void set_lane(vi& x, int l, int v) { x[l] = v; }
FB_INLINE void set_lane(vd& x, int l, double v) {
    if (l < FB_W / 2) x.lo[l] = v;
    else x.hi[l - FB_W / 2] = v;
}
FB_INLINE void set_lane(vl& x, int l, i64 v) {
    if (l < FB_W / 2) x.lo[l] = v;
    else x.hi[l - FB_W / 2] = v;
}

// ---- the few instructions that have no portable spelling
#if FB_ISA == 512
FB_INLINE vf v_fma(vf a, vf b, vf c) { return (vf)__builtin_ia32_vfmaddps512_mask(a, b, c, FB_ALL, 4); }
FB_INLINE hd v_fma(hd a, hd b, hd c) { return (hd)__builtin_ia32_vfmaddpd512_mask(a, b, c, (u8)-1, 4); }
// like the instruction: the second operand when either is NaN
FB_INLINE vf raw_max(vf a, vf b) { return __builtin_ia32_maxps512_mask(a, b, a, FB_ALL, 4); }
FB_INLINE vf raw_min(vf a, vf b) { return __builtin_ia32_minps512_mask(a, b, a, FB_ALL, 4); }
FB_INLINE hd raw_max(hd a, hd b) { return __builtin_ia32_maxpd512_mask(a, b, a, (u8)-1, 4); }
FB_INLINE hd raw_min(hd a, hd b) { return __builtin_ia32_minpd512_mask(a, b, a, (u8)-1, 4); }
FB_INLINE vf v_round(vf a) { return __builtin_ia32_rndscaleps_mask(a, 8, a, FB_ALL, 4); }
FB_INLINE vf v_floor(vf a) { return __builtin_ia32_rndscaleps_mask(a, 9, a, FB_ALL, 4); }
FB_INLINE vf v_ceil(vf a) { return __builtin_ia32_rndscaleps_mask(a, 10, a, FB_ALL, 4); }
FB_INLINE vf v_trunc(vf a) { return __builtin_ia32_rndscaleps_mask(a, 11, a, FB_ALL, 4); }
FB_INLINE hd h_round(hd a) { return __builtin_ia32_rndscalepd_mask(a, 8, a, (u8)-1, 4); }
FB_INLINE hd h_floor(hd a) { return __builtin_ia32_rndscalepd_mask(a, 9, a, (u8)-1, 4); }
FB_INLINE hd h_ceil(hd a) { return __builtin_ia32_rndscalepd_mask(a, 10, a, (u8)-1, 4); }
FB_INLINE hd h_trunc(hd a) { return __builtin_ia32_rndscalepd_mask(a, 11, a, (u8)-1, 4); }
FB_INLINE vf v_sqrt(vf a) { return __builtin_ia32_sqrtps512_mask(a, a, FB_ALL, 4); }
FB_INLINE hd h_sqrt(hd a) { return __builtin_ia32_sqrtpd512_mask(a, a, (u8)-1, 4); }
FB_INLINE vf v_scale(vf a, vf n) { return __builtin_ia32_scalefps512_mask(a, n, a, FB_ALL, 4); }
FB_INLINE hd v_scale(hd a, hd n) { return __builtin_ia32_scalefpd512_mask(a, n, a, (u8)-1, 4); }
FB_INLINE vi to_i_nearest(vf a) { return __builtin_ia32_cvtps2dq512_mask(a, (vi){}, FB_ALL, 4); }
FB_INLINE bool any_lane(vi m) { return __builtin_ia32_ptestmd512(m, m, FB_ALL) != 0; }
FB_INLINE vf half_to_float(v16 x) {
    typedef short s __attribute__((vector_size(32)));
    return __builtin_ia32_vcvtph2ps512_mask((s)x, (vf){}, FB_ALL, 4);
}
FB_INLINE v16 float_to_half(vf x) {
    typedef short s __attribute__((vector_size(32)));
    return (v16)__builtin_ia32_vcvtps2ph512_mask(x, 8, (s){}, FB_ALL);
}
FB_INLINE u16 tail_mask(Tail t) { return (u16)((1u << t.n) - 1); }
FB_INLINE vf ld(const float* p, Tail t) { return __builtin_ia32_loadups512_mask((float*)p, (vf){}, tail_mask(t)); }
FB_INLINE vi ld(const int* p, Tail t) { return __builtin_ia32_loaddqusi512_mask((int*)p, (vi){}, tail_mask(t)); }
FB_INLINE void st(float* p, vf x, Tail t) { __builtin_ia32_storeups512_mask(p, x, tail_mask(t)); }
FB_INLINE void st(int* p, vi x, Tail t) { __builtin_ia32_storedqusi512_mask(p, x, tail_mask(t)); }
FB_INLINE vd ld(const double* p, Tail t) {
    return {__builtin_ia32_loadupd512_mask((double*)p, (hd){}, (u8)tail_mask(t)),
        __builtin_ia32_loadupd512_mask((double*)p + 8, (hd){}, (u8)(tail_mask(t) >> 8))};
}
FB_INLINE void st(double* p, vd x, Tail t) {
    __builtin_ia32_storeupd512_mask(p, x.lo, (u8)tail_mask(t));
    __builtin_ia32_storeupd512_mask(p + 8, x.hi, (u8)(tail_mask(t) >> 8));
}
#elif FB_ISA == 256
FB_INLINE vf v_fma(vf a, vf b, vf c) { return __builtin_ia32_vfmaddps256(a, b, c); }
FB_INLINE hd v_fma(hd a, hd b, hd c) { return __builtin_ia32_vfmaddpd256(a, b, c); }
FB_INLINE vf raw_max(vf a, vf b) { return __builtin_ia32_maxps256(a, b); }
FB_INLINE vf raw_min(vf a, vf b) { return __builtin_ia32_minps256(a, b); }
FB_INLINE hd raw_max(hd a, hd b) { return __builtin_ia32_maxpd256(a, b); }
FB_INLINE hd raw_min(hd a, hd b) { return __builtin_ia32_minpd256(a, b); }
FB_INLINE vf v_round(vf a) { return __builtin_ia32_roundps256(a, 8); }
FB_INLINE vf v_floor(vf a) { return __builtin_ia32_roundps256(a, 9); }
FB_INLINE vf v_ceil(vf a) { return __builtin_ia32_roundps256(a, 10); }
FB_INLINE vf v_trunc(vf a) { return __builtin_ia32_roundps256(a, 11); }
FB_INLINE hd h_round(hd a) { return __builtin_ia32_roundpd256(a, 8); }
FB_INLINE hd h_floor(hd a) { return __builtin_ia32_roundpd256(a, 9); }
FB_INLINE hd h_ceil(hd a) { return __builtin_ia32_roundpd256(a, 10); }
FB_INLINE hd h_trunc(hd a) { return __builtin_ia32_roundpd256(a, 11); }
FB_INLINE vf v_sqrt(vf a) { return __builtin_ia32_sqrtps256(a); }
FB_INLINE hd h_sqrt(hd a) { return __builtin_ia32_sqrtpd256(a); }
FB_INLINE vi to_i_nearest(vf a) { return __builtin_ia32_cvtps2dq256(a); }
FB_INLINE bool any_lane(vi m) { return __builtin_ia32_movmskps256((vf)m) != 0; }
FB_INLINE vf half_to_float(v16 x) {
    typedef short s __attribute__((vector_size(16)));
    return __builtin_ia32_vcvtph2ps256((s)x);
}
FB_INLINE v16 float_to_half(vf x) { return (v16)__builtin_ia32_vcvtps2ph256(x, 8); }
FB_INLINE vf ld(const float* p, Tail t) { return __builtin_ia32_maskloadps256((const vf*)p, alive(t)); }
FB_INLINE vi ld(const int* p, Tail t) { return (vi)__builtin_ia32_maskloadps256((const vf*)p, alive(t)); }
#else
FB_INLINE vf v_fma(vf a, vf b, vf c) { return a * b + c; }
FB_INLINE hd v_fma(hd a, hd b, hd c) { return a * b + c; }
#if defined(__SSE2__) && defined(__GNUC__) && !defined(__clang__)
FB_INLINE vf raw_max(vf a, vf b) { return __builtin_ia32_maxps(a, b); }
FB_INLINE vf raw_min(vf a, vf b) { return __builtin_ia32_minps(a, b); }
FB_INLINE hd raw_max(hd a, hd b) { return __builtin_ia32_maxpd(a, b); }
FB_INLINE hd raw_min(hd a, hd b) { return __builtin_ia32_minpd(a, b); }
FB_INLINE vf v_sqrt(vf a) { return __builtin_ia32_sqrtps(a); }
FB_INLINE hd h_sqrt(hd a) { return __builtin_ia32_sqrtpd(a); }
FB_INLINE bool any_lane(vi m) { return __builtin_ia32_movmskps((vf)m) != 0; }
#else
FB_INLINE vf raw_max(vf a, vf b) { return a > b ? a : b; }
FB_INLINE vf raw_min(vf a, vf b) { return a < b ? a : b; }
FB_INLINE hd raw_max(hd a, hd b) { return a > b ? a : b; }
FB_INLINE hd raw_min(hd a, hd b) { return a < b ? a : b; }
FB_INLINE vf v_sqrt(vf a) {
    FB_LANES a[l] = __builtin_sqrtf(a[l]);
    return a;
}
FB_INLINE hd h_sqrt(hd a) {
    for (int l = 0; l < FB_W / 2; l++) a[l] = __builtin_sqrt(a[l]);
    return a;
}
FB_INLINE bool any_lane(vi m) {
    int r = 0;
    FB_LANES r |= m[l];
    return r != 0;
}
#endif
#define FB_ROUNDING(name) \
    FB_INLINE vf v_##name(vf a) { \
        FB_LANES a[l] = __builtin_##name##f(a[l]); \
        return a; \
    } \
    FB_INLINE hd h_##name(hd a) { \
        for (int l = 0; l < FB_W / 2; l++) a[l] = __builtin_##name(a[l]); \
        return a; \
    }
FB_ROUNDING(floor)
FB_ROUNDING(ceil) FB_ROUNDING(trunc)
    // adding and taking away 1.5 * 2^23 rounds to even below 2^22; larger values are rounded by hand
    FB_INLINE vf v_round(vf a) {
    vi sign = (vi)a & splat_i((int)0x80000000), magnitude = (vi)a & splat_i(0x7fffffff);
    vf big = splat_f(8388608.f), r = ((vf)magnitude + big) - big;
    return ((vf)magnitude < big) ? (vf)((vi)r | sign) : a;
}
FB_INLINE hd h_round(hd a) {
    for (int l = 0; l < FB_W / 2; l++) a[l] = __builtin_rint(a[l]);
    return a;
}
FB_INLINE vi to_i_nearest(vf a) { return __builtin_convertvector(v_round(a), vi); }
FB_INLINE vf half_to_float(v16 x) {
    vi bits = __builtin_convertvector(x, vi), sign = (bits & splat_i(0x8000)) << 16, magnitude = bits & splat_i(0x7fff);
    vf shifted = (vf)(magnitude << 13) * splat_f(5.192296858534828e33f); // 2^112 mends the exponent, denormals too
    vi special = magnitude >= splat_i(0x7c00);
    return (vf)((special ? ((magnitude << 13) | splat_i(0x7f800000)) : (vi)shifted) | sign);
}
FB_INLINE v16 float_to_half(vf x) {
    vi bits = (vi)x, sign = (bits >> 16) & splat_i(0x8000), magnitude = bits & splat_i(0x7fffffff);
    vi odd = (magnitude >> 13) & splat_i(1);
    vi normal = (magnitude - splat_i(112 << 23) + splat_i(0xfff) + odd) >> 13;
    vi tiny = (vi)((vf)magnitude + splat_f(0.5f)) - (vi)splat_f(0.5f); // the addition rounds to the half's last bit
    vi r = magnitude < splat_i(113 << 23) ? tiny : normal;
    r = r > splat_i(0x7c00) ? splat_i(0x7c00) : r;
    r = magnitude > splat_i(0x7f800000) ? splat_i(0x7e00) : r;
    r = magnitude >= splat_i(0x47800000) && magnitude <= splat_i(0x7f800000) ? splat_i(0x7c00) : r;
    return __builtin_convertvector((vu)(r | sign), v16);
}
FB_INLINE vf ld(const float* p, Tail t) {
    vf r = {};
    for (int l = 0; l < t.n; l++) r[l] = p[l];
    return r;
}
FB_INLINE vi ld(const int* p, Tail t) {
    vi r = {};
    for (int l = 0; l < t.n; l++) r[l] = p[l];
    return r;
}
#endif
#if FB_ISA != 512
// 2^n by exponent bits, in two steps so that results may be denormal or overflow
FB_INLINE vf v_scale(vf a, vf n) {
    vi k = __builtin_convertvector(n, vi), h = k >> 1;
    return a * (vf)((h + splat_i(127)) << 23) * (vf)((k - h + splat_i(127)) << 23);
}
// masked stores are slow on some processors, a store per lane is not
FB_INLINE void st(float* p, vf x, Tail t) {
    for (int l = 0; l < t.n; l++) p[l] = x[l];
}
FB_INLINE void st(int* p, vi x, Tail t) {
    for (int l = 0; l < t.n; l++) p[l] = x[l];
}
FB_INLINE vd ld(const double* p, Tail t) {
    vd r = {};
    for (int l = 0; l < t.n; l++) set_lane(r, l, p[l]);
    return r;
}
FB_INLINE void st(double* p, vd x, Tail t) {
    for (int l = 0; l < t.n; l++) p[l] = lane(x, l);
}
#endif

// ---- loads and stores of every element type; the type of the pointer decides
FB_INLINE vf ld(const float* p, Full) { return *(const vf_loose*)p; }
FB_INLINE vi ld(const int* p, Full) { return *(const vi_loose*)p; }
FB_INLINE vd ld(const double* p, Full) { return {*(const hd_loose*)p, *(const hd_loose*)(p + FB_W / 2)}; }
FB_INLINE vl ld(const i64* p, Full) { return {*(const hl_loose*)p, *(const hl_loose*)(p + FB_W / 2)}; }
FB_INLINE void st(float* p, vf x, Full) { *(vf_loose*)p = x; }
FB_INLINE void st(int* p, vi x, Full) { *(vi_loose*)p = x; }
FB_INLINE void st(double* p, vd x, Full) {
    *(hd_loose*)p = x.lo;
    *(hd_loose*)(p + FB_W / 2) = x.hi;
}
FB_INLINE void st(i64* p, vl x, Full) {
    *(hl_loose*)p = x.lo;
    *(hl_loose*)(p + FB_W / 2) = x.hi;
}
FB_INLINE vl ld(const i64* p, Tail t) {
    vd r = ld((const double*)p, t);
    return {(hl)r.lo, (hl)r.hi};
}
FB_INLINE void st(i64* p, vl x, Tail t) { st((double*)p, vd{(hd)x.lo, (hd)x.hi}, t); }

FB_INLINE v16 load16(const void* p, Full) { return *(const v16_loose*)p; }
FB_INLINE v8 load8(const void* p, Full) { return *(const v8_loose*)p; }
FB_INLINE void store16(void* p, v16 x, Full) { *(v16_loose*)p = x; }
FB_INLINE void store8(void* p, v8 x, Full) { *(v8_loose*)p = x; }
#if FB_ISA == 512 && !defined(__clang__)
FB_INLINE v16 load16(const void* p, Tail t) {
    return (v16)__builtin_ia32_loaddquhi256_mask((const short*)p, (s16v){}, tail_mask(t));
}
FB_INLINE v8 load8(const void* p, Tail t) { return (v8)__builtin_ia32_loaddquqi128_mask((const char*)p, (c8v){}, tail_mask(t)); }
FB_INLINE void store16(void* p, v16 x, Tail t) { __builtin_ia32_storedquhi256_mask((short*)p, (s16v)x, tail_mask(t)); }
FB_INLINE void store8(void* p, v8 x, Tail t) { __builtin_ia32_storedquqi128_mask((char*)p, (c8v)x, tail_mask(t)); }
#else
FB_INLINE v16 load16(const void* p, Tail t) {
    v16 r = {};
    for (int l = 0; l < t.n; l++) r[l] = ((const u16*)p)[l];
    return r;
}
FB_INLINE v8 load8(const void* p, Tail t) {
    v8 r = {};
    for (int l = 0; l < t.n; l++) r[l] = ((const u8*)p)[l];
    return r;
}
FB_INLINE void store16(void* p, v16 x, Tail t) {
    for (int l = 0; l < t.n; l++) ((u16*)p)[l] = x[l];
}
FB_INLINE void store8(void* p, v8 x, Tail t) {
    for (int l = 0; l < t.n; l++) ((u8*)p)[l] = x[l];
}
#endif

FB_INLINE vf bf16_to_float(v16 x) { return (vf)((vu)wide(x) << 16); }
FB_INLINE v16 float_to_bf16(vf x) {
    vu bits = (vu)x, rounded = bits + (((bits >> 16) & 1u) + 0x7fffu);
    vu quiet = (bits >> 16) | 0x40u;
    return narrow16((vi)((x != x) ? quiet : rounded >> 16));
}
FB_INLINE vf round_bf16(vf x) { return bf16_to_float(float_to_bf16(x)); }
FB_INLINE vf round_f16(vf x) { return half_to_float(float_to_half(x)); }

template <class M> FB_INLINE vf ld(const bf16* p, M m) { return bf16_to_float(load16(p, m)); }
template <class M> FB_INLINE vf ld(const f16* p, M m) { return half_to_float(load16(p, m)); }
template <class M> FB_INLINE vi ld(const short* p, M m) { return wide((s16v)load16(p, m)); }
template <class M> FB_INLINE vi ld(const u16* p, M m) { return wide(load16(p, m)); }
template <class M> FB_INLINE vi ld(const i8* p, M m) { return wide((s8v)load8(p, m)); }
template <class M> FB_INLINE vi ld(const u8* p, M m) { return wide(load8(p, m)); }
template <class M> FB_INLINE vi ld(const bool* p, M m) { return wide(load8(p, m)) != 0; }
template <class M> FB_INLINE vl ld(const u32* p, M m) {
    vi x = ld((const int*)p, m);
    return {widen_first(x) & 0xffffffffl, widen_second(x) & 0xffffffffl};
}
template <class M> FB_INLINE void st(bf16* p, vf x, M m) { store16(p, float_to_bf16(x), m); }
template <class M> FB_INLINE void st(f16* p, vf x, M m) { store16(p, float_to_half(x), m); }
template <class M> FB_INLINE void st(short* p, vi x, M m) { store16(p, narrow16(x), m); }
template <class M> FB_INLINE void st(u16* p, vi x, M m) { store16(p, narrow16(x), m); }
template <class M> FB_INLINE void st(i8* p, vi x, M m) { store8(p, narrow8(x), m); }
template <class M> FB_INLINE void st(u8* p, vi x, M m) { store8(p, narrow8(x), m); }
template <class M> FB_INLINE void st(bool* p, vi x, M m) { store8(p, narrow8(x & 1), m); }

template <class M> FB_INLINE void st(u32* p, vl x, M m) { st((int*)p, narrow(x.lo, x.hi), m); }

// ---- registers of bytes: four times the lanes, numbers below 256 that wrap; truth values are 0 / 255
typedef u8 vy __attribute__((vector_size(FB_W * 4)));
typedef i8 vz __attribute__((vector_size(FB_W * 4)));
typedef vy vy_loose __attribute__((aligned(1), may_alias));
FB_INLINE vy splat_y(int x) { return (u8)x - (vy){}; }
FB_INLINE vy ld_y(const void* p, Full) { return *(const vy_loose*)p; }
FB_INLINE vy ld_y(const void* p, Tail t) {
    vy r = {};
    __builtin_memmove(&r, p, t.n);
    return r;
}
FB_INLINE void st_y(void* p, vy x, Full) { *(vy_loose*)p = x; }
FB_INLINE void st_y(void* p, vy x, Tail t) { __builtin_memmove(p, &x, t.n); }
FB_INLINE vy truth_y(vy x) { return (vy)(x != 0); }
FB_INLINE vy v_where_y(vy m, vy a, vy b) { return (m & a) | (~m & b); }

// ---- four registers as so many bytes: truth values of 0 / -1 as 0 / 1, numbers by their lowest byte
#if FB_ISA == 256 && !defined(__clang__)
typedef short s32v __attribute__((vector_size(32)));
FB_INLINE s32v pack_words(vi a, vi b) { return __builtin_ia32_packssdw256(a, b); }
FB_INLINE vi pack_signed(s32v a, s32v b) { return (vi)__builtin_ia32_packsswb256(a, b); }
FB_INLINE vi pack_bytes(s32v a, s32v b) { return (vi)__builtin_ia32_packuswb256(a, b); }
FB_INLINE vy in_order(vi x) { return (vy)__builtin_shufflevector(x, x, 0, 4, 1, 5, 2, 6, 3, 7); }
#define FB_PACKS 1
#endif
struct Part : Full {}; // one of four neighbouring registers whose bytes are stored together
template <class T, class V, class M> FB_INLINE void st_part(T* p, V x, M m, int, V (&)[4]) { st(p, x, m); }
#ifdef FB_PACKS
FB_INLINE void st_part(bool* p, vi x, Part, int part, vi (&all)[4]) {
    all[part] = x;
    if (part == 3)
        st_y(p - 3 * FB_W, in_order(pack_signed(pack_words(all[0], all[1]), pack_words(all[2], all[3]))) & 1, Full{});
}
FB_INLINE void st_part(u8* p, vi x, Part, int part, vi (&all)[4]) {
    all[part] = x & 255;
    if (part == 3)
        st_y(p - 3 * FB_W, in_order(pack_bytes(pack_words(all[0], all[1]), pack_words(all[2], all[3]))), Full{});
}
FB_INLINE void st_part(i8* p, vi x, Part m, int part, vi (&all)[4]) { st_part((u8*)p, x, m, part, all); }
#endif

// ---- stores past the caches, of whole lines that nobody reads soon. Other threads may look after a Drain went out of scope.
#if defined(__clang__)
FB_INLINE void stream_line(void* p, vf x) { __builtin_nontemporal_store(x, (vf*)p); }
#elif FB_ISA == 512
FB_INLINE void stream_line(void* p, vf x) { __builtin_ia32_movntps512((float*)p, x); }
#elif FB_ISA == 256
FB_INLINE void stream_line(void* p, vf x) { __builtin_ia32_movntps256((float*)p, x); }
#elif defined(__SSE2__)
FB_INLINE void stream_line(void* p, vf x) { __builtin_ia32_movntps((float*)p, x); }
#else
FB_INLINE void stream_line(void* p, vf x) { *(vf*)p = x; }
#endif
struct Drain {
    ~Drain() {
#if defined(__SSE2__)
        __builtin_ia32_sfence();
#endif
    }
};
FB_INLINE bool on_line(const void* p) { return ((u64)p & (FB_W * 4 - 1)) == 0; }
template <class T, class V, class M> FB_INLINE void stream(T* p, V x, M m) { st(p, x, m); }
FB_INLINE void stream(float* p, vf x, Full) {
    if (on_line(p)) stream_line(p, x);
    else st(p, x, Full{});
}
FB_INLINE void stream(int* p, vi x, Full) { stream((float*)p, as_f(x), Full{}); }
FB_INLINE void stream(double* p, vd x, Full) {
    if (!on_line(p)) return st(p, x, Full{});
    stream_line(p, (vf)x.lo);
    stream_line(p + FB_W / 2, (vf)x.hi);
}
FB_INLINE void stream(i64* p, vl x, Full) { stream((double*)p, vd{(hd)x.lo, (hd)x.hi}, Full{}); }
template <class T, class V, class M> FB_INLINE void stream_if(bool far, T* p, V x, M m) {
    if (far) stream(p, x, m);
    else st(p, x, m);
}

// one element, as all lanes
FB_INLINE vf ld1(const float* p) { return splat_f(*p); }
FB_INLINE vd ld1(const double* p) { return splat_d(*p); }
FB_INLINE vl ld1(const i64* p) { return splat_l(*p); }
FB_INLINE vl ld1(const u32* p) { return splat_l(*p); }
FB_INLINE vi ld1(const int* p) { return splat_i(*p); }
FB_INLINE vi ld1(const short* p) { return splat_i(*p); }
FB_INLINE vi ld1(const u16* p) { return splat_i(*p); }
FB_INLINE vi ld1(const i8* p) { return splat_i(*p); }
FB_INLINE vi ld1(const u8* p) { return splat_i(*p); }
FB_INLINE vi ld1(const bool* p) { return splat_b(*p); }
FB_INLINE vf ld1(const bf16* p) { return splat_f(__builtin_bit_cast(float, (u32)p->bits << 16)); }
FB_INLINE vf ld1(const f16* p) { return half_to_float(p->bits - (v16){}); }

// ---- a square of registers turned over its diagonal, by log2(W) rounds of interleaving
#if FB_W == 16
#define FB_LOW 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define FB_HIGH 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#define FB_HALF_LOW 0, 8, 1, 9, 2, 10, 3, 11
#define FB_HALF_HIGH 4, 12, 5, 13, 6, 14, 7, 15
#elif FB_W == 4
#define FB_LOW 0, 4, 1, 5
#define FB_HIGH 2, 6, 3, 7
#define FB_HALF_LOW 0, 2
#define FB_HALF_HIGH 1, 3
#endif
#if FB_W == 8 // within the halves of a register first, each shuffle one instruction: half as many as by whole interleavings
FB_INLINE void transpose(vf (&r)[FB_W]) {
    vf t[8], u[8];
#pragma GCC unroll 4
    for (int i = 0; i < 8; i += 2) {
        t[i] = __builtin_shufflevector(r[i], r[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
        t[i + 1] = __builtin_shufflevector(r[i], r[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 8; i += 4) {
        u[i] = __builtin_shufflevector(t[i], t[i + 2], 0, 1, 8, 9, 4, 5, 12, 13);
        u[i + 1] = __builtin_shufflevector(t[i], t[i + 2], 2, 3, 10, 11, 6, 7, 14, 15);
        u[i + 2] = __builtin_shufflevector(t[i + 1], t[i + 3], 0, 1, 8, 9, 4, 5, 12, 13);
        u[i + 3] = __builtin_shufflevector(t[i + 1], t[i + 3], 2, 3, 10, 11, 6, 7, 14, 15);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        r[i] = __builtin_shufflevector(u[i], u[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
        r[i + 4] = __builtin_shufflevector(u[i], u[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    }
}
FB_INLINE void transpose(hd (&r)[4]) {
    hd a = __builtin_shufflevector(r[0], r[1], 0, 4, 2, 6), b = __builtin_shufflevector(r[0], r[1], 1, 5, 3, 7);
    hd c = __builtin_shufflevector(r[2], r[3], 0, 4, 2, 6), d = __builtin_shufflevector(r[2], r[3], 1, 5, 3, 7);
    r[0] = __builtin_shufflevector(a, c, 0, 1, 4, 5), r[1] = __builtin_shufflevector(b, d, 0, 1, 4, 5);
    r[2] = __builtin_shufflevector(a, c, 2, 3, 6, 7), r[3] = __builtin_shufflevector(b, d, 2, 3, 6, 7);
}
#else
FB_INLINE void transpose(vf (&r)[FB_W]) {
#pragma GCC unroll 4
    for (int round = 1; round < FB_W; round *= 2) {
        vf t[FB_W];
#pragma GCC unroll 8
        for (int i = 0; i < FB_W / 2; i++) {
            t[2 * i] = __builtin_shufflevector(r[i], r[i + FB_W / 2], FB_LOW);
            t[2 * i + 1] = __builtin_shufflevector(r[i], r[i + FB_W / 2], FB_HIGH);
        }
#pragma GCC unroll 16
        for (int i = 0; i < FB_W; i++) r[i] = t[i];
    }
}
FB_INLINE void transpose(hd (&r)[FB_W / 2]) {
#pragma GCC unroll 4
    for (int round = 1; round < FB_W / 2; round *= 2) {
        hd t[FB_W / 2];
#pragma GCC unroll 4
        for (int i = 0; i < FB_W / 4; i++) {
            t[2 * i] = __builtin_shufflevector(r[i], r[i + FB_W / 4], FB_HALF_LOW);
            t[2 * i + 1] = __builtin_shufflevector(r[i], r[i + FB_W / 4], FB_HALF_HIGH);
        }
#pragma GCC unroll 8
        for (int i = 0; i < FB_W / 2; i++) r[i] = t[i];
    }
}
#endif
FB_INLINE void transpose(vi (&r)[FB_W]) {
    vf t[FB_W];
    FB_LANES t[l] = as_f(r[l]);
    transpose(t);
    FB_LANES r[l] = as_i(t[l]);
}

#endif
