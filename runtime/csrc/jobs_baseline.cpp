#define FB_ISA 128
#include "jobs.inc.h"
const JobKernel jobs_baseline[] = {FB_JOB_TABLE};
