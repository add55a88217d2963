// flambeau.capture._capture: frame hook, guard trees and doors.
#include "doors.h"
#include "layout.h"

PyObject* check_failed_type;

// configure(tensor, ndarray, check_failed=None, state=None, hook_names=()): what eager's classes look like.
static PyObject* configure(PyObject*, PyObject* args, PyObject* kwargs) {
    static const char* names[] = {"tensor", "ndarray", "check_failed", "state", "hook_names", nullptr};
    PyObject *tensor, *ndarray, *check_failed = Py_None, *state = Py_None, *hook_names = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO|OOO", (char**)names, &tensor, &ndarray, &check_failed, &state,
                                     &hook_names))
        return nullptr;
    Ref done(configure_layout(tensor, ndarray));
    if (!done) return nullptr;
    auto keep = [](PyObject*& field, PyObject* value) { if (value != Py_None) { Py_INCREF(value); Py_XSETREF(field,
        value); } };
    keep(check_failed_type, check_failed);
    keep(layout.state, state);
    keep(layout.hook_names, hook_names);
    return done.release();
}

static PyMethodDef functions[] = {
    {"configure", (PyCFunction)(void (*)(void))configure, METH_VARARGS | METH_KEYWORDS,
     "configure(tensor, ndarray, check_failed=None, state=None, hook_names=()): what eager's classes look like"},
    {nullptr}};
static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "flambeau.capture._capture", "Frame hook, guard trees, doors.",
                                 -1, functions};

// An import that failed further up may be tried again; the types must stay the same objects.
PyMODINIT_FUNC PyInit__capture() {
    static PyObject* made = nullptr;
    if (made) return Ref::borrow(made).release();
    Ref module(PyModule_Create(&definition));
    if (!module || add_guard_types(module.get()) < 0 || add_door_types(module.get()) < 0 ||
        add_hook_functions(module.get()) < 0)
        return nullptr;
    made = Ref(module).release();
    return module.release();
}
