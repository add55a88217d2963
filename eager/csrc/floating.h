// What handlers of floating tensors of any width share.
#ifndef FB_EAGER_FLOATING_H
#define FB_EAGER_FLOATING_H

#include "casts.h"
#include "small_tensor.h"

// body(a number of the type)
template <class Body> bool by_floating(int type, Body body) {
    switch (type) {
    case FLOAT32: return body(float{}), true;
    case FLOAT64: return body(double{}), true;
    case FLOAT16: return body(Half{}), true;
    case BFLOAT16: return body(BFloat{}), true;
    default: return false;
    }
}

// A pair of tensors, of this named tuple where there is one. Steals both.
inline PyObject* pair_of(PyObject* first, PyObject* second, PyObject* kind) {
    Ref a(first), b(second);
    kind = kind == Py_None ? nullptr : kind;
    PyTypeObject* type = (PyTypeObject*)kind;
    PyObject* pair = a && b ? (kind ? type->tp_alloc(type, 2) : PyTuple_New(2)) : nullptr;
    if (!pair) return nullptr;
    PyTuple_SET_ITEM(pair, 0, a.release());
    PyTuple_SET_ITEM(pair, 1, b.release());
    return pair;
}

#endif
