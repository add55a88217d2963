#if defined(__x86_64__)
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,prefer-vector-width=512")
#define FB_ISA 512
#include "conv.inc.h"
const ConvKernels conv_avx512 = {conv_forward, conv_weight, conv_scatter, conv_images};
#endif
