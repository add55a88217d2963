// The convolutions of one instruction set; each conv_*.cpp sets FB_ISA and the compiler's target, then includes this.
#include "conv_problem.h"

namespace {
#include "gemm.h"
#include "conv.h"
#include "conv_phases.h"
#include "conv_scatter.h"
#include "conv_thin.h"
#include "conv_segments.h"
#include "conv_pixels.h"

bool conv_images(const FbConv* c, const FbRuntime* rt) { return conv_pixels(c, rt) || conv_segments(c, rt); }
}
