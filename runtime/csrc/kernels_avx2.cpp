#if defined(__x86_64__)
#pragma GCC target("avx2,fma,f16c")
#define FB_ISA 256
#include "kernels.inc.h"
const Kernels kernels_avx2 = {"avx2", run_gemm, run_philox};
#endif
