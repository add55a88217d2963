// Indexing by tensors, for the functions that amount to it.
#ifndef FB_INDICES_H
#define FB_INDICES_H

#include "small_tensor.h"

// x[keys[0], keys[1], ...]; null without an error for what is not taken.
PyObject* index_by_tensors(PyObject* x, PyObject* const* keys, Py_ssize_t n, bool grad);

#endif
