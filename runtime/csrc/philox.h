// Philox4x32-10 over lanes: counter = (index lo, index hi, ordinal lo, ordinal hi), key = seed (lo, hi).
#ifndef FB_PHILOX_H
#define FB_PHILOX_H

#include "vector.h"

struct Words {
    vu w[4];
};

#if FB_ISA == 512
FB_INLINE hul product32(hul a, hul b) {
    typedef long long q __attribute__((vector_size(64)));
    return (hul)__builtin_ia32_pmuludq512_mask((vi)a, (vi)b, (q){}, (u8)-1);
}
#else
FB_INLINE hul product32(hul a, hul b) { return (a & 0xffffffffu) * (b & 0xffffffffu); }
#endif

// the 64-bit products of all lanes with a constant, as high and low words
FB_INLINE void high_low(vu x, u32 factor, vu& high, vu& low) {
    hul f = (hul)splat_hl(factor), even = product32((hul)x, f), odd = product32((hul)x >> 32, f);
    low = (vu)((even & 0xffffffffu) | (odd << 32));
    high = (vu)((even >> 32) | (odd & ~0xfffffffful));
}

FB_INLINE vu low_words(vl x) { return (vu)narrow(x.lo, x.hi); }
FB_INLINE vu high_words(vl x) { return (vu)narrow((hl)((hul)x.lo >> 32), (hl)((hul)x.hi >> 32)); }

FB_INLINE Words philox_words(vl seed, vl ordinal, vl index) {
    vu c0 = low_words(index), c1 = high_words(index), c2 = low_words(ordinal), c3 = high_words(ordinal);
    vu k0 = low_words(seed), k1 = high_words(seed);
    for (int round = 0; round < 10; round++) {
        vu h0, l0, h1, l1;
        high_low(c0, 0xD2511F53u, h0, l0);
        high_low(c2, 0xCD9E8D57u, h1, l1);
        c0 = h1 ^ c1 ^ k0;
        c1 = l1;
        c2 = h0 ^ c3 ^ k1;
        c3 = l0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return {{c0, c1, c2, c3}};
}

FB_INLINE vl unsigned_words(vu x) { return {widen_first((vi)x) & 0xffffffffl, widen_second((vi)x) & 0xffffffffl}; }
FB_INLINE vl index_lanes(i64 start) {
    vi n = lane_numbers();
    return vl{widen_first(n), widen_second(n)} + splat_l(start);
}

#endif
