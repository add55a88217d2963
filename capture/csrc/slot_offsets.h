// Where a Tensor keeps its parts: offsets of its __slots__, learned once, so that guards read them like C fields.
#pragma once

#include "common.h"

#define NPY_NO_DEPRECATED_API NPY_1_7_API_VERSION
#include <numpy/ndarraytypes.h>

struct TensorLayout {
    PyTypeObject* tensor = nullptr;    // the Tensor class; every layout below it starts the same
    PyTypeObject* ndarray = nullptr;
    Py_ssize_t array = 0, dtype = 0, device = 0, requires_grad = 0, grad_fn = 0, hooks = 0, grad = 0, storage = 0, geometry = 0;
    PyObject* state = nullptr;         // eager's thread-local state: `state.grad`
    PyObject* keep = nullptr;          // () -> this thread's state (surroundings.py)
    PyObject* put_back = nullptr;      // (this thread's state): as it was; twice is as good as once
    PyObject* hook_names = nullptr;    // names of a Module's hook dictionaries

    static PyObject* at(PyObject* object, Py_ssize_t offset) {
        return *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(object) + offset);
    }
    // The numpy array of a tensor, or null for anything else and for tensors without bytes.
    PyArrayObject* array_of(PyObject* object) const {
        if (!tensor || !PyType_IsSubtype(Py_TYPE(object), tensor)) return nullptr;
        PyObject* found = at(object, array);
        return found && Py_TYPE(found) == ndarray ? reinterpret_cast<PyArrayObject*>(found) : nullptr;
    }
    bool is_leaf(PyObject* object) const {
        PyObject* node = at(object, grad_fn);
        return !node || node == Py_None;
    }
    static bool holds(PyObject* object, Py_ssize_t offset) {
        PyObject* found = at(object, offset);
        return found && found != Py_None;
    }
    bool requires_gradient(PyObject* object) const { return at(object, requires_grad) == Py_True || !is_leaf(object); }
};

// The geometry of a tensor that has no numpy array, as eager keeps it: sizes, strides in elements (null: row-major), offset.
struct FarGeometry {
    PyObject *sizes = nullptr, *strides = nullptr;
    int64_t offset = 0;

    bool read(PyObject* tensor);              // false, without an exception, for a tensor with an array and for other forms
    int rank() const { return (int)PyTuple_GET_SIZE(sizes); }
    int64_t size(int d) const;                // -1: no number
    int64_t stride(int d) const;
};

// Bytes per element, from the tensor's own dtype object: numpy's descriptor has another layout in each major version.
int64_t itemsize_of(PyObject* tensor);

extern TensorLayout layout;
// A field of eager's state of this thread: borrowed, or null. `name` is an interned str.
PyObject* state_field(PyObject* name);
bool special_state();   // a mode, saved-tensor hooks or anomaly mode are active

Py_ssize_t slot_offset(PyObject* type, PyObject* name);             // -1 with an error set
PyObject* configure_layout(PyObject* tensor, PyObject* ndarray);   // None, or null with an error set

// This thread's state, kept while Python code runs that may be cut off between any two instructions.
class Whole {
  public:
    Whole() : kept_(layout.keep ? PyObject_CallNoArgs(layout.keep) : Ref::borrow(Py_None).release()) {}
    Whole(const Whole&) = delete;
    explicit operator bool() const { return bool(kept_); }
    // Puts the state back; what comes in between is the error of the whole, unless there is one.
    Ref settle(Ref result);

  private:
    Ref kept_;
};
