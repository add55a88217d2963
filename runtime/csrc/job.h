// A job: one threaded kernel over arrays, as Python asks for it. Pointers, whole numbers and real numbers mean what the
// kernel's comment says; units [begin, end) are what one call does. Every instruction set fills one table, in one order.
#ifndef FB_JOB_H
#define FB_JOB_H

#include "abi.h"

enum { JOB_POINTERS = 12, JOB_NUMBERS = 32, JOB_REALS = 12, JOB_TYPES = 4,
    JOB_GRAIN = 1 << 14 }; // elements that are worth a thread

struct Job {
    void* p[JOB_POINTERS]; // null where an optional array is missing
    long n[JOB_NUMBERS];
    double f[JOB_REALS];
    const FbRuntime* rt;
};

typedef void (*FbJob)(const Job& job, long begin, long end);

struct JobKernel {
    const char* name;
    FbJob run[JOB_TYPES]; // by FbType; null where there is none
};

// ends with a null name
extern const JobKernel jobs_avx512[], jobs_avx2[], jobs_baseline[];

#endif
