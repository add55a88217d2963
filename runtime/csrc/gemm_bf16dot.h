// Products of bfloat16 where the processor has an instruction for them: two neighbours in k are one packed element.
//
// A panel of B holds, for each pair of k, the pairs of NR columns side by side, zero beyond B's edges; A is read in
// place, a pair at a time. FB_DOT_BF16: the instruction is there; otherwise it is spelled in floats, so that all of this can
// be tried anywhere. Included by gemm.h.
#ifndef FB_PAIRS_H
#define FB_PAIRS_H

// Two bfloat16 that follow each other in k; a register holds one for each of W columns, their sums are floats.
struct Pair {
    bf16 first, second;
};
template <> struct Lanes<Pair> {
    typedef vf V;
    enum { W = FB_W };
};
template <> struct Packed<Pair> {
    typedef float Sum;
    enum { STEP = 2, CHAIN = 512 };
};
FB_INLINE vi splat_native(Pair x) { return splat_i(__builtin_bit_cast(int, x)); }
FB_INLINE vi ld_native(const Pair* p) { return ld((const int*)p, Full{}); }
FB_INLINE vf multiply_add(vi a, vi b, vf c) {
#ifdef FB_DOT_BF16
    __asm__("vdpbf16ps %2, %1, %0" : "+v"(c) : "v"(a), "v"(b));
    return c;
#else
    vi high = splat_i((int)0xffff0000);
    return v_fma((vf)(a << 16), (vf)(b << 16), v_fma((vf)(a & high), (vf)(b & high), c));
#endif
}

template <class O, class M> FB_INLINE void put_sums(O* to, vf x, M m) { st(to, x, m); }
#ifdef FB_DOT_BF16
// sums of these products are no denormals, which this instruction would lose
template <class M> FB_INLINE void put_sums(bf16* to, vf x, M m) {
    v16 r;
    __asm__("vcvtneps2bf16 %1, %0" : "=v"(r) : "v"(x));
    store16(to, r, m);
}
#endif

#if FB_W == 16
#define FB_ZIP 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#elif FB_W == 8
#define FB_ZIP 0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15
#else
#define FB_ZIP 0, 4, 1, 5, 2, 6, 3, 7
#endif
// a row of pairs from two neighbouring rows in k
FB_INLINE void zip_rows(const bf16* first, const bf16* second, Pair* to, long n) {
    typedef u16 wide __attribute__((vector_size(FB_W * 4)));
    typedef wide wide_loose __attribute__((aligned(2), may_alias));
    long j = 0;
    for (; j + FB_W <= n; j += FB_W)
        *(wide_loose*)(to + j) = __builtin_shufflevector(load16(first + j, Full{}), load16(second + j, Full{}), FB_ZIP);
    for (; j < n; j++) to[j] = {first[j], second[j]};
}
// The same for pairs, zeros beyond K: rows that are contiguous in k are turned over as 32-bit elements.
inline void pack(const bf16* from, long along, long across, Pair* to, long width, long count, long K) {
    long steps = K / 2;
    if (across == 1)
        for (long k = 0; k < steps; k++) zip_rows(from + 2 * k * along, from + (2 * k + 1) * along, to + k * width, count);
    else if (along == 1) {
        long l = 0;
        for (; l + FB_W <= count; l += FB_W) {
            long k = 0;
            for (; k + FB_W <= steps; k += FB_W) {
                vf square[FB_W];
#pragma GCC unroll 16
                for (int i = 0; i < FB_W; i++) square[i] = ld((const float*)(from + (l + i) * across + 2 * k), Full{});
#pragma GCC unroll 16
                for (int i = 0; i < FB_W; i++) __builtin_prefetch(from + (l + FB_W + i) * across + 2 * k, 0, 2);
                transpose(square);
#pragma GCC unroll 16
                for (int i = 0; i < FB_W; i++) st((float*)(to + (k + i) * width + l), square[i], Full{});
            }
            for (; k < steps; k++)
                for (int i = 0; i < FB_W; i++) to[k * width + l + i] = *(const Pair*)(from + (l + i) * across + 2 * k);
        }
        for (; l < count; l++)
            for (long k = 0; k < steps; k++) to[k * width + l] = *(const Pair*)(from + l * across + 2 * k);
    } else
        for (long k = 0; k < steps; k++)
            for (long l = 0; l < count; l++) {
                const bf16* p = from + 2 * k * along + l * across;
                to[k * width + l] = {p[0], p[along]};
            }
    if (K % 2)
        for (long l = 0; l < count; l++) to[steps * width + l] = {from[(K - 1) * along + l * across], {0}};
    for (long k = 0; k < (K + 1) / 2; k++)
        for (long l = count; l < width; l++) to[k * width + l] = {};
}

#endif
