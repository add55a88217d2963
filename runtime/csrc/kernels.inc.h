// The native kernels of one ISA; each kernels_*.cpp sets FB_ISA and the compiler's target, then includes this.
#include "kernels.h"

namespace {
#include "gemm.h"
#include "philox.h"
#include "math.h"

bool run_gemm(const FbGemm* problem, const FbRuntime* rt) { return gemm(*problem, *rt); }

// bits >> 8 fits a float exactly, so both steps are exact
vf uniform(vu bits) { return __builtin_convertvector((vi)(bits >> 8), vf) * splat_f(0x1p-24f); }

// 53 bits: the upper 27 of word 0 and the upper 26 of word 1
vd uniform(vu a, vu b) {
    return (to_d((vi)(a >> 5)) * splat_d(67108864.0) + to_d((vi)(b >> 6))) * splat_d(0x1p-53);
}

// of two words, by Box and Muller: the bits that generated code computes, without a look at numbers that do not occur
vf normal(vu a, vu b) {
    vf radius = v_sqrt(log_of_normal(uniform(a) + splat_f(0x1p-24f)) * splat_f(-2.f));
    return radius * near_cos(uniform(b) * splat_f(6.2831855f));
}

template <int kind, class M> void philox_block(void* out, const Words& words, int word, long i, M m) {
    if constexpr (kind == PHILOX_UNIFORM_F32) st((float*)out + i, uniform(words.w[0]), m);
    else if constexpr (kind == PHILOX_NORMAL_F32) st((float*)out + i, normal(words.w[0], words.w[1]), m);
    else if constexpr (kind == PHILOX_UNIFORM_F64) st((double*)out + i, uniform(words.w[0], words.w[1]), m);
    else st((int*)out + i, (vi)words.w[word], m);
}
template <int kind> void philox_range(void* out, unsigned long seed, unsigned long ordinal, int word, long i, long end) {
    PhiloxKeys keys = philox_keys(splat_l((i64)seed));
    vl o = splat_l((i64)ordinal);
    for (; i + FB_W <= end; i += FB_W) philox_block<kind>(out, philox_words(keys, o, i), word, i, Full{});
    if (i < end) philox_block<kind>(out, philox_words(keys, o, i), word, i, Tail{(int)(end - i)});
}
void run_philox(int kind, void* out, unsigned long seed, unsigned long ordinal, int word, long begin, long end) {
    switch (kind) {
    case PHILOX_UNIFORM_F32: return philox_range<PHILOX_UNIFORM_F32>(out, seed, ordinal, word, begin, end);
    case PHILOX_NORMAL_F32: return philox_range<PHILOX_NORMAL_F32>(out, seed, ordinal, word, begin, end);
    case PHILOX_UNIFORM_F64: return philox_range<PHILOX_UNIFORM_F64>(out, seed, ordinal, word, begin, end);
    default: return philox_range<PHILOX_BITS>(out, seed, ordinal, word, begin, end);
    }
}
}
