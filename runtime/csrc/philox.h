// Philox4x32-10 over lanes: counter = (index lo, index hi, ordinal lo, ordinal hi), key = seed (lo, hi).
#ifndef FB_PHILOX_H
#define FB_PHILOX_H

#include "vector.h"

struct Words {
    vu w[4];
};

// the products of the low words of 64-bit lanes, whatever their high words hold
#if FB_ISA == 512
FB_INLINE hul product32(hul a, hul b) {
    typedef long long q __attribute__((vector_size(64)));
    return (hul)__builtin_ia32_pmuludq512_mask((vi)a, (vi)b, (q){}, (u8)-1);
}
#elif FB_ISA == 256 && !defined(__clang__)
FB_INLINE hul product32(hul a, hul b) { return (hul)__builtin_ia32_pmuludq256((vi)a, (vi)b); }
#elif FB_ISA == 128 && !defined(__clang__) && defined(__SSE2__)
FB_INLINE hul product32(hul a, hul b) { return (hul)__builtin_ia32_pmuludq128((vi)a, (vi)b); }
#else
FB_INLINE hul product32(hul a, hul b) { return (a & 0xffffffffu) * (b & 0xffffffffu); }
#endif

FB_INLINE vu low_words(vl x) { return (vu)narrow(x.lo, x.hi); }
FB_INLINE vu high_words(vl x) { return (vu)narrow((hl)((hul)x.lo >> 32), (hl)((hul)x.hi >> 32)); }

// The keys of all rounds, in the low words of 64-bit lanes.
struct PhiloxKeys {
    hul low[10], high[10];
};
FB_INLINE PhiloxKeys philox_keys(vl seed) {
    PhiloxKeys keys;
    hul low = (hul)low_words(seed), high = (hul)high_words(seed);
#pragma GCC unroll 10
    for (int round = 0; round < 10; round++) {
        keys.low[round] = low, keys.high[round] = high;
        low += 0x9E3779B9u, high += 0xBB67AE85u;
    }
    return keys;
}
FB_INLINE void philox_round(hul (&c)[4], hul low, hul high) {
    hul p = product32(c[0], (hul)splat_hl(0xD2511F53l)), q = product32(c[2], (hul)splat_hl(0xCD9E8D57l));
    c[0] = (q >> 32) ^ c[1] ^ low;
    c[1] = q;
    c[2] = (p >> 32) ^ c[3] ^ high;
    c[3] = p;
}
// Lanes with even numbers and those with odd ones go apart, each in the low words of 64-bit lanes: products need no other
// order, and what high words hold does not matter. Seed and ordinal are one for all lanes.
FB_INLINE Words philox_words(const PhiloxKeys& keys, vl ordinal, hul (&even)[4], hul (&odd)[4]) {
    even[2] = odd[2] = (hul)low_words(ordinal), even[3] = odd[3] = (hul)high_words(ordinal);
#pragma GCC unroll 10
    for (int round = 0; round < 10; round++) {
        philox_round(even, keys.low[round], keys.high[round]);
        philox_round(odd, keys.low[round], keys.high[round]);
    }
    Words words;
#pragma GCC unroll 4
    for (int w = 0; w < 4; w++) words.w[w] = (vu)((even[w] & 0xffffffffu) | (odd[w] << 32));
    return words;
}
FB_INLINE Words philox_words(vl seed, vl ordinal, vl index) {
    hul first = (hul)low_words(index), above = (hul)high_words(index), even[4] = {first, above}, odd[4] = {first >> 32, above >> 32};
    return philox_words(philox_keys(seed), ordinal, even, odd);
}
// the same for the elements from `start` on
FB_INLINE Words philox_words(const PhiloxKeys& keys, vl ordinal, i64 start) {
    hul first = (hul)splat_hl(start);
#pragma GCC unroll 8
    for (int l = 0; l < FB_W / 2; l++) first[l] += 2 * l;
    hul second = first + 1, even[4] = {first, first >> 32}, odd[4] = {second, second >> 32};
    return philox_words(keys, ordinal, even, odd);
}

FB_INLINE vl unsigned_words(vu x) { return {widen_first((vi)x) & 0xffffffffl, widen_second((vi)x) & 0xffffffffl}; }
FB_INLINE vl index_lanes(i64 start) {
    vi n = lane_numbers();
    return vl{widen_first(n), widen_second(n)} + splat_l(start);
}

#endif
