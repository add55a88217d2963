// `__torch_function__`: whether a call has operands of foreign classes, and public functions written in Python behind
// the same question. What the answer is, overrides.py decides; plain operands cost a comparison of types each.
#include "call.h"

namespace {

PyObject *ask, *proceed, *disabled; // overrides.ask; what it answers for ordinary calls; the handler that stands for none
PyObject* complaint; // complaints.complaint
long modes; // function modes that are active in any thread

bool is_foreign(PyObject* x) {
    static PyObject* name = PyUnicode_InternFromString("__torch_function__");
    PyTypeObject* type = Py_TYPE(x);
    if (type == world.t.type || is_plain(x) || type == &PyLong_Type || type == &PyFloat_Type || x == Py_None
        || type == &PyBool_Type || type == &PyUnicode_Type || type == &PySlice_Type)
        return false;
    PyObject* handler = _PyType_Lookup(type, name);
    return handler && handler != disabled;
}

bool holds_foreign(PyObject* x) {
    if (PyTuple_CheckExact(x) || PyList_CheckExact(x)) {
        PyObject** items = PySequence_Fast_ITEMS(x);
        for (Py_ssize_t k = 0, n = PySequence_Fast_GET_SIZE(x); k < n; k++)
            if (is_foreign(items[k])) return true;
        return false;
    }
    return is_foreign(x);
}

struct Public {
    Attributes head;
};

PyObject* call_public(PyObject* raw, PyObject* const* args, size_t nargsf, PyObject* names) {
    Attributes* self = (Attributes*)raw;
    PyObject* answer = ask_operands(self, args, nargsf, names);
    return answer || PyErr_Occurred() ? answer : call_slow(self, args, nargsf, names);
}

void dealloc_public(PyObject* raw) {
    PyObject_GC_UnTrack(raw);
    clear_attributes((Attributes*)raw);
    Py_TYPE(raw)->tp_free(raw);
}

PyTypeObject PublicType = {PyVarObject_HEAD_INIT(nullptr, 0)};

bool is_ours(PyObject* f) { return Py_TYPE(f)->tp_traverse == traverse_attributes; }

// public(function, face=None): the function, or an object in front of it, that asks `__torch_function__` first
PyObject* py_public(PyObject*, PyObject* args) {
    PyObject *function, *face = Py_None;
    if (!PyArg_ParseTuple(args, "O|O", &function, &face)) return nullptr;
    if (is_ours(function)) {
        PyObject* old = ((Attributes*)function)->face;
        ((Attributes*)function)->face = Py_NewRef(face);
        Py_XDECREF(old);
        return Py_NewRef(function);
    }
    Public* self = (Public*)PublicType.tp_alloc(&PublicType, 0);
    if (!self) return nullptr;
    self->head.vectorcall = call_public;
    self->head.op = Py_NewRef(Py_None), self->head.slow = Py_NewRef(function), self->head.face = Py_NewRef(face);
    return (PyObject*)self;
}

PyObject* py_answers(PyObject*, PyObject* args) {
    PyObject *first, *second, *third, *fourth;
    if (!PyArg_ParseTuple(args, "OOOO", &first, &second, &third, &fourth)) return nullptr;
    ask = Py_NewRef(first), proceed = Py_NewRef(second), disabled = Py_NewRef(third), complaint = Py_NewRef(fourth);
    Py_RETURN_NONE;
}

PyObject* py_function_modes(PyObject*, PyObject* change) {
    modes += PyLong_AsLong(change);
    if (PyErr_Occurred()) return nullptr;
    Py_RETURN_NONE;
}

// foreign(args): whether an operand, also inside a tuple or list, has a handler
PyObject* py_foreign(PyObject*, PyObject* args) {
    bool found = false;
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(args) && !found; k++) found = holds_foreign(PyTuple_GET_ITEM(args, k));
    return PyBool_FromLong(found);
}

PyMethodDef functions[] = {{"public", py_public, METH_VARARGS,
                               "public(function, face=None): the function with `__torch_function__` asked first; handlers "
                               "are given `face`, or the result itself"},
    {"answers", py_answers, METH_VARARGS, "answers(ask, proceed, disabled): ask(function, args, kwargs) decides foreign calls"},
    {"function_modes", py_function_modes, METH_O, "function_modes(change): so many more function modes are active"},
    {"foreign", py_foreign, METH_O, "foreign(args): whether one of a tuple of operands has a handler"},
    {nullptr, nullptr, 0, nullptr}};

}

static bool gather_arguments(PyObject* const* args, Py_ssize_t n, PyObject* names, Ref& positional, Ref& keywords) {
    positional = Ref(PyTuple_New(n)), keywords = Ref(PyDict_New());
    if (!positional || !keywords) return false;
    for (Py_ssize_t k = 0; k < n; k++) PyTuple_SET_ITEM(positional.get(), k, Py_NewRef(args[k]));
    for (Py_ssize_t k = 0; names && k < PyTuple_GET_SIZE(names); k++)
        if (PyDict_SetItem(keywords.get(), PyTuple_GET_ITEM(names, k), args[n + k])) return false;
    return true;
}

PyObject* call_slow(Attributes* self, PyObject* const* args, size_t nargsf, PyObject* names) {
    PyObject* out = PyObject_Vectorcall(self->slow, args, nargsf, names);
    return out ? out : complain(self, args, nargsf, names);
}

// Null, with the present error put into the library's words where they are somebody else's.
PyObject* complain(Attributes* self, PyObject* const* args, size_t nargsf, PyObject* names) {
    if (!complaint
        || !(PyErr_ExceptionMatches(PyExc_AttributeError) || PyErr_ExceptionMatches(PyExc_ValueError)
             || PyErr_ExceptionMatches(PyExc_TypeError) || PyErr_ExceptionMatches(PyExc_LookupError)
             || PyErr_ExceptionMatches(PyExc_MemoryError) || PyErr_ExceptionMatches(PyExc_OverflowError)
             || PyErr_ExceptionMatches(PyExc_RuntimeError)))
        return nullptr;
    PyObject *type, *error, *trace;
    PyErr_Fetch(&type, &error, &trace);
    PyErr_NormalizeException(&type, &error, &trace);
    if (trace) PyException_SetTraceback(error, trace);
    Ref positional, keywords, better;
    if (gather_arguments(args, PyVectorcall_NARGS(nargsf), names, positional, keywords))
        better = Ref(PyObject_CallFunctionObjArgs(
            complaint, (PyObject*)self, positional.get(), keywords.get(), error, nullptr));
    if (better && better.get() != Py_None) {
        PyErr_SetObject((PyObject*)Py_TYPE(better.get()), better.get());
        Py_XDECREF(type), Py_XDECREF(error), Py_XDECREF(trace);
        return nullptr;
    }
    PyErr_Clear();
    PyErr_Restore(type, error, trace);
    return nullptr;
}

PyObject* ask_operands(Attributes* self, PyObject* const* args, size_t nargsf, PyObject* names) {
    Py_ssize_t n = PyVectorcall_NARGS(nargsf), all = n + (names ? PyTuple_GET_SIZE(names) : 0);
    bool found = modes > 0;
    for (Py_ssize_t k = 0; k < all && !found; k++) found = holds_foreign(args[k]);
    if (!found || !ask) return nullptr;
    Ref positional, keywords;
    if (!gather_arguments(args, n, names, positional, keywords)) return nullptr;
    PyObject* face = self->face == Py_None ? (PyObject*)self : self->face;
    PyObject* answer = PyObject_CallFunctionObjArgs(ask, face, positional.get(), keywords.get(), nullptr);
    if (answer == proceed) Py_CLEAR(answer);
    return answer;
}

bool add_overrides(PyObject* module) {
    return ready_callable(PublicType, "flambeau.eager._call.Public", sizeof(Public), dealloc_public)
        && PyModule_AddFunctions(module, functions) == 0;
}
