// Binding of a call's arguments to a function's slots.
#include "bind_args.h"

Bound::Bound(PyObject* function)
    : function_(function), code_((PyCodeObject*)PyFunction_GET_CODE(function)), positional_(code_->co_argcount),
      named_(code_->co_argcount + code_->co_kwonlyargcount), count_(slot_count(code_)), slots_(count_) {}

// Slots of arguments come first in localsplus, so their names do too.
Py_ssize_t Bound::parameter(PyObject* name) const {
    PyObject* names = code_->co_localsplusnames;
    for (Py_ssize_t i = code_->co_posonlyargcount; i < named_; i++)
        if (PyTuple_GET_ITEM(names, i) == name) return i;
    for (Py_ssize_t i = code_->co_posonlyargcount; i < named_; i++)
        if (PyUnicode_Compare(PyTuple_GET_ITEM(names, i), name) == 0) return i;
    return -1;
}

bool Bound::place_positional(PyObject* const* args, Py_ssize_t nargs) {
    Py_ssize_t direct = std::min(nargs, positional_);
    for (Py_ssize_t i = 0; i < direct; i++) slots_[i] = args[i];
    if (!(code_->co_flags & CO_VARARGS)) return nargs <= positional_;
    rest_ = PyTuple_New(nargs - direct);
    if (!rest_) return false;
    for (Py_ssize_t i = direct; i < nargs; i++) {
        Py_INCREF(args[i]);
        PyTuple_SET_ITEM(rest_, i - direct, args[i]);
    }
    slots_[named_] = rest_;
    return true;
}

bool Bound::place_keywords(PyObject* const* values, PyObject* kwnames) {
    bool takes_any = code_->co_flags & CO_VARKEYWORDS;
    if (takes_any) {
        keywords_ = PyDict_New();
        if (!keywords_) return false;
        slots_[count_ - 1] = keywords_;
    }
    for (Py_ssize_t k = 0; kwnames && k < PyTuple_GET_SIZE(kwnames); k++) {
        PyObject* name = PyTuple_GET_ITEM(kwnames, k);
        if (!PyUnicode_Check(name)) return false;
        Py_ssize_t i = parameter(name);
        if (i >= 0) {
            if (slots_[i]) return false;
            slots_[i] = values[k];
        } else if (!takes_any || PyDict_SetItem(keywords_, name, values[k]) < 0) {
            return false;
        }
    }
    return true;
}

bool Bound::place_defaults() {
    PyObject* defaults = PyFunction_GET_DEFAULTS(function_);
    Py_ssize_t given = defaults ? PyTuple_GET_SIZE(defaults) : 0;
    for (Py_ssize_t i = 0; i < positional_; i++) {
        if (slots_[i]) continue;
        if (i < positional_ - given) return false;
        slots_[i] = PyTuple_GET_ITEM(defaults, i - (positional_ - given));
    }
    PyObject* by_name = PyFunction_GET_KW_DEFAULTS(function_);
    for (Py_ssize_t i = positional_; i < named_; i++) {
        if (slots_[i]) continue;
        slots_[i] = by_name ? PyDict_GetItemWithError(by_name, PyTuple_GET_ITEM(code_->co_localsplusnames, i))
            : nullptr;
        if (!slots_[i]) return false;
    }
    return true;
}

bool Bound::bind(PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
    if (!kwnames && nargs == count_ && count_ == positional_) {
        view_ = args;
        return true;
    }
    if (place_positional(args, nargs) && place_keywords(args + nargs, kwnames) && place_defaults()) return true;
    PyErr_Clear();
    return false;
}
