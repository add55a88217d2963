// Tensors as gradients read them: row-major memory of any real tensor, and the sizes of what a node has kept.
#ifndef FB_DENSE_H
#define FB_DENSE_H

#include "small_tensor.h"

#include <string.h>

#include "casts.h"
#include "floating.h"

// Row-major memory of a tensor: its own, or a copy.
struct Dense {
    Ref hold;
    PyArrayObject* a = nullptr;
    int type = -1;
    explicit Dense(PyObject* t) {
        PyArrayObject* own = is_plain(t) && is_cpu(t) ? array_of(t) : nullptr;
        if (!own || PyArray_NDIM(own) >= MAX_DIMS || (type = type_of(t)) < 0) return;
        bool plain = PyArray_IS_C_CONTIGUOUS(own) && PyArray_ISALIGNED(own);
        hold = Ref(plain ? Py_NewRef((PyObject*)own) : PyArray_NewCopy(own, NPY_CORDER));
        a = (PyArrayObject*)hold.get();
    }
    explicit operator bool() const { return a; }
    // Whether these are the tensor's own bytes: results for memory in another order follow that order, as formulas do.
    bool own(PyObject* t) const { return a == array_of(t); }
    npy_intp size() const { return PyArray_SIZE(a); }
    template <class T = void> const T* data() const { return (const T*)PyArray_DATA(a); }
};

// Sizes of a tensor or of what is kept of one.
inline bool sizes_of(PyObject* x, npy_intp* sizes, int& dims) {
    if (is_tensor(x)) {
        PyArrayObject* a = array_of(x);
        if (!a || PyArray_NDIM(a) >= MAX_DIMS) return false;
        memcpy(sizes, PyArray_DIMS(a), (dims = PyArray_NDIM(a)) * sizeof(npy_intp));
        return true;
    }
    if (Py_TYPE(x) != world.meta) return false;
    PyObject* shape = slot(x, world.m.shape);
    if (!shape || !PyTuple_Check(shape) || PyTuple_GET_SIZE(shape) >= MAX_DIMS) return false;
    dims = (int)PyTuple_GET_SIZE(shape);
    return numbers_of(shape, dims, sizes);
}
inline npy_intp product_of(const npy_intp* sizes, int count) {
    npy_intp n = 1;
    for (int d = 0; d < count; d++) n *= sizes[d];
    return n;
}

#endif
