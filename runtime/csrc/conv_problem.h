// A convolution as the native kernels see it: windows over up to three dims, and the taps of one window.
//
// Position w of a window grid meets input coordinate w * step + tap.at. A plain convolution is one such problem; a
// transposed one is a problem for each phase of its stride. Strides count elements; unused leading dims have size 1.
#ifndef FB_CONV_PROBLEM_H
#define FB_CONV_PROBLEM_H

#include "abi.h"

static inline long floor_div(long a, long b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }

struct ConvTap {
    long at[3];
    long weight; // offset of this tap in the weight
    long from;   // offset in x that this tap adds
};

struct ConvProblem {
    const void *x, *w, *bias; // bias: one number per output channel, or null
    void* out;
    int type; // FbType of all four
    long batch, groups, channels, made; // channels of x and of the result, per group
    long in[3], x_n, x_c, x_s[3]; // sizes and strides of x
    long x_size; // elements that may be read from x on
    long windows[3], out_n, out_c, out_s[3];
    long step[3];
    long taps;
    const ConvTap* tap;
    long w_g, w_o, w_c; // strides of the weight: group, channel of the result, channel of x
    FbEpilogue epilogue; // takes finished tiles instead of `out`, or null
    void* epilogue_arg;
};

struct ConvKernels {
    // out = sum over channels and taps of weight * x, plus bias
    bool (*forward)(const ConvProblem* problem, const FbRuntime* rt);
    // w (here the result, row-major (groups * made, channels, taps)) = sum over batch and windows of out * x
    bool (*weight)(const ConvProblem* problem, const FbRuntime* rt);
    // the whole of a transposed convolution; false where another way is better: then nothing was written
    bool (*scatter)(const ConvProblem* problem, const FbConv* transposed, const FbRuntime* rt);
    // the whole of a convolution of any form, many images in the lanes of a register; false as above
    bool (*images)(const FbConv* problem, const FbRuntime* rt);
};

extern const ConvKernels conv_avx512, conv_avx2, conv_baseline;

#endif
