// What other extensions of this package call in this one, handed over as the capsule `_native.api`.
#ifndef FB_API_H
#define FB_API_H

#include <Python.h>
#include <numpy/ndarraytypes.h>

#include "abi.h"

struct FbApi {
    const FbRuntime* runtime;
    // A new array over a cached block; steals the reference to `descr`. Strides in bytes, null: row-major.
    PyObject* (*new_array)(PyArray_Descr* descr, int dims, const npy_intp* sizes, const npy_intp* strides,
        npy_intp bytes,
        PyArrayObject* donor);
    // Fills `out` with draw (seed, ordinal), elements in order; `kind` as in kernels.h.
    void (*philox)(int kind, void* out, unsigned long seed, unsigned long ordinal, int word, long n);
    void (*set_output_view)(PyObject* view); // the `_fl_view` of tensors that compiled code makes in this thread; borrowed
    const struct JobKernel* (*jobs)(); // the kernels by name (job.h), for this machine; ends with a null name
    long (*column_block)(); // columns in one unit of its columns kernels
};

#endif
