// flambeau.capture._capture: frame hook, guard trees and doors.
#include "cache.h"
#include "eager_classes.h"

PyObject* check_failed_type;

// configure(tensor, ndarray, check_failed=None, state=None, hook_names=(), keep=None, put_back=None): what eager's classes look
// like, and how this thread's state is kept over a compilation.
static PyObject* configure(PyObject*, PyObject* args, PyObject* kwargs) {
    static const char* names[] = {"tensor", "ndarray", "check_failed", "state", "hook_names", "keep", "put_back", nullptr};
    PyTypeObject *tensor, *ndarray;
    PyObject *check_failed = Py_None, *state = Py_None, *hook_names = Py_None;
    PyObject *keeper = Py_None, *put_back = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!O!|OOOOO", (char**)names, &PyType_Type, &tensor, &PyType_Type,
                                     &ndarray, &check_failed, &state, &hook_names, &keeper, &put_back) || !layout.learn(tensor))
        return nullptr;
    Py_XSETREF(layout.ndarray, (PyTypeObject*)Py_NewRef((PyObject*)ndarray));
    auto keep = [](PyObject*& field, PyObject* value) { if (value != Py_None) { Py_INCREF(value); Py_XSETREF(field,
        value); } };
    keep(check_failed_type, check_failed);
    keep(layout.state, state);
    keep(layout.hook_names, hook_names);
    keep(layout.keep, keeper);
    keep(layout.put_back, put_back);
    Py_RETURN_NONE;
}

static PyObject* whole(PyObject*, PyObject* args) {
    if (PyTuple_GET_SIZE(args) < 1) {
        PyErr_SetString(PyExc_TypeError, "whole(function, *args)");
        return nullptr;
    }
    Ref given(PyTuple_GetSlice(args, 1, PyTuple_GET_SIZE(args)));
    Whole kept;
    if (!given || !kept) return nullptr;
    return kept.settle(Ref(PyObject_CallObject(PyTuple_GET_ITEM(args, 0), given.get()))).release();
}

static PyMethodDef functions[] = {
    {"configure", (PyCFunction)(void (*)(void))configure, METH_VARARGS | METH_KEYWORDS,
     "configure(tensor, ndarray, check_failed=None, state=None, hook_names=(), keep=None, put_back=None): what eager's classes "
     "look like, and how this thread's state is kept over a compilation"},
    {"whole", whole, METH_VARARGS, "whole(function, *args): call it; this thread's state is then as before, whatever ended it"},
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
