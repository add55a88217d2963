#if defined(__x86_64__)
#pragma GCC target("avx2,fma,f16c")
#define FB_ISA 256
#include "jobs.inc.h"
const JobKernel jobs_avx2[] = {FB_JOB_TABLE};
#endif
