#define FB_ISA 128
#include "kernels.inc.h"
const Kernels kernels_baseline = {"baseline", run_gemm, run_philox};
