// The convolutions of one instruction set; each conv_*.cpp sets FB_ISA and the compiler's target, then includes this.
#include "conv_problem.h"

namespace {
#include "gemm.h"
#include "conv.h"
#include "conv_space_to_depth.h"
#include "conv_col2im.h"
#include "conv_direct.h"
#include "conv_direct_weight.h"
#include "conv_depthwise.h"
#include "conv_winograd.h"
#include "conv_winograd_2x2.h"
#include "conv_tiny_images.h"

#define FB_CONV_TYPE(form, S, T) \
    if (Thin##form<S, T>::takes(*p)) Thin##form<S, T>{*p, *rt, {*p}}.run(); \
    else run_on_phases<Conv##form, S, T>(*p, *rt); \
    return true;
#define FB_CONV_TYPES(form) \
    switch (p->type) { \
    case FB_FLOAT: FB_CONV_TYPE(form, float, float) \
    case FB_DOUBLE: FB_CONV_TYPE(form, double, double) \
    case FB_BF16: FB_CONV_TYPE(form, bf16, float) \
    case FB_F16: FB_CONV_TYPE(form, f16, float) \
    } \
    return false;
bool conv_depthwise(const ConvProblem* p, const FbRuntime* rt) {
    if (!is_depthwise(*p)) return false;
    switch (p->type) {
    case FB_FLOAT: return DepthwiseForward<float, float>{*p, *rt, {*p}}.run();
    case FB_DOUBLE: return DepthwiseForward<double, double>{*p, *rt, {*p}}.run();
    case FB_BF16: return DepthwiseForward<bf16, float>{*p, *rt, {*p}}.run();
    case FB_F16: return DepthwiseForward<f16, float>{*p, *rt, {*p}}.run();
    }
    return false;
}
bool conv_forward(const ConvProblem* p, const FbRuntime* rt) {
    if (ConvWinograd::takes(*p) && ConvWinograd{*p, *rt, {*p}}.run()) return true;
    if (conv_depthwise(p, rt)) return true;
    FB_CONV_TYPES(Forward)
}
bool conv_weight(const ConvProblem* p, const FbRuntime* rt) { FB_CONV_TYPES(Weight) }

bool conv_images(const FbConv* c, const FbRuntime* rt) { return conv_pixels(c, rt) || conv_segments(c, rt); }
}
