// Arguments of a call, placed as the function itself would place them.
#pragma once

#include "common.h"

// Slots in the order of co_varnames: positional, keyword-only, *args, **kwargs. `bind` answers false where Python would
// raise, or where it is simpler to let Python decide; the caller then calls the original function.
class Bound {
  public:
    explicit Bound(PyObject* function);
    ~Bound() { Py_XDECREF(rest_); Py_XDECREF(keywords_); }
    bool bind(PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames);
    PyObject* const* values() { return view_ ? view_ : slots_.data(); }
    Py_ssize_t count() const { return count_; }

  private:
    bool place_positional(PyObject* const* args, Py_ssize_t nargs);
    bool place_keywords(PyObject* const* values, PyObject* kwnames);
    bool place_defaults();
    Py_ssize_t parameter(PyObject* name) const;

    PyObject* function_;
    PyCodeObject* code_;
    Py_ssize_t positional_, named_, count_;   // named: positional and keyword-only
    Buffer<PyObject*, 16> slots_;
    PyObject* const* view_ = nullptr;         // the caller's own array, when nothing has to be moved
    PyObject* rest_ = nullptr;                // owned *args tuple
    PyObject* keywords_ = nullptr;            // owned **kwargs dict
};
