#if defined(__x86_64__)
#pragma GCC target("avx2,fma,f16c")
#define FB_ISA 256
#include "conv.inc.h"
const ConvKernels conv_avx2 = {conv_forward, conv_weight, conv_scatter, conv_images};
#endif
