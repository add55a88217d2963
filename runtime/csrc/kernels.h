// The table of native kernels; one filled table per instruction set, chosen once at load time.
#ifndef FB_KERNELS_H
#define FB_KERNELS_H

#include "abi.h"

enum PhiloxKind { PHILOX_UNIFORM_F32, PHILOX_UNIFORM_F64, PHILOX_BITS, PHILOX_NORMAL_F32 };

struct Kernels {
    const char* isa;
    bool (*gemm)(const FbGemm* problem, const FbRuntime* rt);       // false: no kernel for these types
    // out[i] for i in [begin, end): element i of draw `ordinal`
    void (*philox)(int kind, void* out, unsigned long seed, unsigned long ordinal, int word, long begin, long end);
};

// products of bfloat16 by the processor's own instructions; false: not for these types
bool gemm_pairs(const FbGemm* problem, const FbRuntime* rt);
bool gemm_tiles(const FbGemm* problem, const FbRuntime* rt);

extern const Kernels kernels_avx512, kernels_avx2, kernels_baseline;

#endif
