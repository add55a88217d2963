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

template <class S, class T> void forward(const ConvProblem& p, const FbRuntime& rt) {
    if (is_depthwise(p) && DepthwiseForward<S, T>{p, rt, {p}}.run()) return;
    if (ThinForward<S, T>::takes(p)) ThinForward<S, T>{p, rt, {p}}.run();
    else run_on_phases<ConvForward, S, T>(p, rt);
}
template <class S, class T> void weight(const ConvProblem& p, const FbRuntime& rt) {
    if (ThinWeight<S, T>::takes(p)) ThinWeight<S, T>{p, rt, {p}}.run();
    else run_on_phases<ConvWeight, S, T>(p, rt);
}
#define FB_CONV_TYPES(function) \
    switch (p->type) { \
    case FB_FLOAT: return function<float, float>(*p, *rt), true; \
    case FB_DOUBLE: return function<double, double>(*p, *rt), true; \
    case FB_BF16: return function<bf16, float>(*p, *rt), true; \
    case FB_F16: return function<f16, float>(*p, *rt), true; \
    } \
    return false;
bool conv_forward(const ConvProblem* p, const FbRuntime* rt) {
    if (ConvWinograd::takes(*p) && ConvWinograd{*p, *rt, {*p}}.run()) return true;
    FB_CONV_TYPES(forward)
}
bool conv_weight(const ConvProblem* p, const FbRuntime* rt) { FB_CONV_TYPES(weight) }

bool conv_images(const FbConv* c, const FbRuntime* rt) { return conv_pixels(c, rt) || conv_segments(c, rt); }
}
