// What guards read of eager's objects: slots of a Tensor, the geometry of one without an array, the thread's state.
#pragma once

#include "common.h"

#define NPY_NO_DEPRECATED_API NPY_1_7_API_VERSION
#include <numpy/ndarraytypes.h>

#include "../../runtime/csrc/slots.h"

struct EagerClasses : TensorLayout {
    PyTypeObject* ndarray = nullptr;
    PyObject* state = nullptr;         // eager's thread-local state: `state.grad`
    PyObject* keep = nullptr;          // () -> this thread's state (thread_local_state.py)
    PyObject* put_back = nullptr;      // (this thread's state): as it was; twice is as good as once
    PyObject* hook_names = nullptr;    // names of a Module's hook dictionaries

    // The numpy array of a tensor, or null for anything else and for tensors without bytes.
    PyArrayObject* array_of(PyObject* object) const {
        PyObject* found = is_tensor(object) ? slot(object, array) : nullptr;
        return found && Py_TYPE(found) == ndarray ? reinterpret_cast<PyArrayObject*>(found) : nullptr;
    }
    static bool holds(PyObject* object, Py_ssize_t offset) {
        PyObject* found = slot(object, offset);
        return found && found != Py_None;
    }
    bool is_leaf(PyObject* object) const { return !holds(object, grad_fn); }
    bool requires_gradient(PyObject* object) const { return slot(object, requires_grad) == Py_True || !is_leaf(object); }
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

extern EagerClasses layout;
// A field of eager's state of this thread: borrowed, or null. `name` is an interned str.
PyObject* state_field(PyObject* name);
bool special_state();   // a mode, saved-tensor hooks or anomaly mode are active

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
