#if defined(__x86_64__)
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,prefer-vector-width=512")
#define FB_ISA 512
#include "kernels.inc.h"
const Kernels kernels_avx512 = {"avx512", run_gemm, run_philox};
#endif
