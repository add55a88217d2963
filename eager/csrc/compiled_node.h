// What the engine asks of the node over a compiled call.
#ifndef FB_EAGER_ATTACHED_H
#define FB_EAGER_ATTACHED_H

#include "call.h"

#include <vector>

// The gradients per edge (a list), given those of all outputs. Null without an error: nothing was done, the call is for the
// node's method `run`. `last`: what was saved is given up.
PyObject* attached_gradients(PyObject* node, const std::vector<PyObject*>& grads, bool last);

#endif
