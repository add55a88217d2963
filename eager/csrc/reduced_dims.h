// Dense tensors as [outer, n, inner] around the dims that a reduction goes over, as its public function is given them.
#ifndef FB_SPANS_H
#define FB_SPANS_H

#include "small_tensor.h"

struct Span { // of the reduced dims [first, last) of an array
    PyArrayObject* a;
    int type, first, last;
    npy_intp outer, n, inner;
};

inline bool read_dims(PyObject* dim, int dims, Span& s) {
    s.first = 0, s.last = dims;
    if (absent(dim)) return true;
    if (!PyTuple_CheckExact(dim)) {
        if (!small_dim(dim, dims, s.first)) return false;
        s.last = s.first + 1;
        return true;
    }
    Py_ssize_t count = PyTuple_GET_SIZE(dim);
    if (!count || !small_dim(PyTuple_GET_ITEM(dim, 0), dims, s.first)) return false;
    for (Py_ssize_t k = 1; k < count; k++) {
        int d;
        if (!small_dim(PyTuple_GET_ITEM(dim, k), dims, d) || d != s.first + k) return false; // side by side
    }
    s.last = s.first + (int)count;
    return true;
}

// `x` [outer, n, inner] of contiguous memory with elements, of which there are few.
inline bool read_span(PyObject* x, PyObject* dim, Span& s, npy_intp limit = SMALL_REDUCTION) {
    s.a = dense_array(x);
    if (!s.a || (s.type = type_of(x)) < 0 || PyArray_SIZE(s.a) == 0 || PyArray_SIZE(s.a) > limit
        || !read_dims(dim, PyArray_NDIM(s.a), s))
        return false;
    s.outer = s.n = s.inner = 1;
    for (int d = 0; d < PyArray_NDIM(s.a); d++)
        (d < s.first ? s.outer : d < s.last ? s.n : s.inner) *= PyArray_DIM(s.a, d);
    return true;
}

inline PyObject* result_of(const Span& s, int type, bool keepdim) {
    npy_intp sizes[MAX_DIMS];
    int count = 0;
    for (int d = 0; d < PyArray_NDIM(s.a); d++) {
        bool kept = d < s.first || d >= s.last;
        if (kept || keepdim) sizes[count++] = kept ? PyArray_DIM(s.a, d) : 1;
    }
    return fresh_array(type, count, sizes, nullptr);
}

// body(first element, step, place of the result) for every result
template <class T, class Body> void each_result(const Span& s, Body body) {
    const T* x = (const T*)PyArray_DATA(s.a);
    for (npy_intp o = 0; o < s.outer; o++)
        for (npy_intp i = 0; i < s.inner; i++) body(x + o * s.n * s.inner + i, s.inner, o * s.inner + i);
}

// The record of a reduction and what its calls need: (x, *middle, dims, keepdim).
inline bool record_span(PyObject* op, NeedsTable& needs, PyObject* x, const Span& s, PyObject* middle, bool keepdim, PyObject* const* outs,
    int n) {
    npy_intp dims[MAX_DIMS];
    for (int d = s.first; d < s.last; d++) dims[d - s.first] = d;
    Ref list(tuple_of(dims, s.last - s.first));
    if (!list) return false;
    PyObject* given[4] = {x};
    int count = 1;
    if (middle) given[count++] = middle;
    given[count++] = list.get(), given[count++] = keepdim ? Py_True : Py_False;
    return record(op, needs, given, count, 1, outs, n);
}

#endif
