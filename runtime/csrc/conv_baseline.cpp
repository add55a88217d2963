#define FB_ISA 128
#include "conv.inc.h"
const ConvKernels conv_baseline = {conv_forward, conv_weight, conv_scatter, conv_images};
