// Gradients of records in one native step each, for the engine: where nothing is recorded, of real tensors in memory of any
// strides. What a handler does not take (it answers null without an error) goes to the record's formula.
#ifndef FB_EAGER_GRADIENTS_H
#define FB_EAGER_GRADIENTS_H

#include "call.h"

struct Gradients {
    PyObject* const* grads; // of the outputs; None where there is none
    int count;
    PyObject *args, *outs; // as the node has saved them: a tuple; a list or None
    unsigned needed; // bit k: the k-th parameter leads on
};
using QuickGradient = PyObject* (*)(const Gradients& call);

// Of a record for a parameter, or null. Of one with a formula for all parameters ("*") it gives a tuple, one per parameter,
// None where `needed` has no bit.
QuickGradient quick_gradient(PyObject* op, PyObject* parameter);

struct KnownGradient {
    const char *record, *parameter;
    QuickGradient gradient;
};
extern const KnownGradient norm_gradients[], fourier_gradients[], product_gradients[], scatter_gradients[],
    pooling_gradients[], compound_gradients[]; // end with null

#endif
