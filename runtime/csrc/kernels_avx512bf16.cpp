// Products of bfloat16 by the processor's own instruction; everything else of this set is that of avx512.
#if defined(__x86_64__)
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma,f16c,prefer-vector-width=512")
#define FB_ISA 512
#define FB_DOT_BF16
#include "kernels.h"

namespace {
#include "gemm.h"
}

bool gemm_pairs(const FbGemm* problem, const FbRuntime* rt) {
    return gemm(*problem, *rt);
}
#endif
