// Entry: one compiled version of a function, and the direct call of a whole graph.
#include "cache.h"

namespace doors {

PyTypeObject* entry_type;

// Output specifications: k | ("tuple" | "list", [specs]) | ("dict", keys, [specs]) | ("input", j) | ("const", object).
static bool valid_output(PyObject* spec, Py_ssize_t inputs) {
    if (PyLong_Check(spec)) return true;
    if (!PyTuple_Check(spec) || PyTuple_GET_SIZE(spec) < 2 || !PyUnicode_Check(PyTuple_GET_ITEM(spec, 0))) return false;
    const char* kind = PyUnicode_AsUTF8(PyTuple_GET_ITEM(spec, 0));
    std::string name = kind ? kind : "";
    PyObject* last = PyTuple_GET_ITEM(spec, PyTuple_GET_SIZE(spec) - 1);
    if (name == "const") return true;
    if (name == "input") return PyLong_Check(last) && PyLong_AsSsize_t(last) >= 0 && PyLong_AsSsize_t(last) < inputs;
    if (name != "tuple" && name != "list" && name != "dict") return false;
    if (!PyList_Check(last)) return false;
    if (name == "dict" && (PyTuple_GET_SIZE(spec) != 3 || PySequence_Size(PyTuple_GET_ITEM(spec,
        1)) != PyList_GET_SIZE(last)))
        return false;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(last); i++)
        if (!valid_output(PyList_GET_ITEM(last, i), inputs)) return false;
    return true;
}

struct Outcome { PyObject* result; Entry* entry; const Fetched& fetched; };

static PyObject* build(PyObject* spec, const Outcome& outcome);

static PyObject* build_dict(PyObject* keys, PyObject* specs, const Outcome& outcome) {
    Ref dict(PyDict_New());
    for (Py_ssize_t i = 0; dict && i < PyList_GET_SIZE(specs); i++) {
        Ref key(PySequence_GetItem(keys, i)), value(build(PyList_GET_ITEM(specs, i), outcome));
        if (!key || !value || PyDict_SetItem(dict.get(), key.get(), value.get()) < 0) return nullptr;
    }
    return dict.release();
}

static PyObject* build_sequence(bool tuple, PyObject* specs, const Outcome& outcome) {
    Py_ssize_t size = PyList_GET_SIZE(specs);
    Ref out(tuple ? PyTuple_New(size) : PyList_New(size));
    for (Py_ssize_t i = 0; out && i < size; i++) {
        PyObject* value = build(PyList_GET_ITEM(specs, i), outcome);
        if (!value) return nullptr;
        if (tuple) PyTuple_SET_ITEM(out.get(), i, value);
        else PyList_SET_ITEM(out.get(), i, value);
    }
    return out.release();
}

static PyObject* build(PyObject* spec, const Outcome& outcome) {
    if (PyLong_Check(spec)) {
        Py_ssize_t k = PyLong_AsSsize_t(spec);
        if (PyList_CheckExact(outcome.result) && k >= 0 && k < PyList_GET_SIZE(outcome.result))
            return Ref::borrow(PyList_GET_ITEM(outcome.result, k)).release();
        if (PyTuple_Check(outcome.result) && k >= 0 && k < PyTuple_GET_SIZE(outcome.result))
            return Ref::borrow(PyTuple_GET_ITEM(outcome.result, k)).release();
        return PySequence_GetItem(outcome.result, k);
    }
    PyObject* last = PyTuple_GET_ITEM(spec, PyTuple_GET_SIZE(spec) - 1);
    switch (PyUnicode_READ_CHAR(PyTuple_GET_ITEM(spec, 0), 0)) {
        case 'c': return Ref::borrow(last).release();
        case 'i': return Ref::borrow(outcome.fetched[(*outcome.entry->inputs)[PyLong_AsSsize_t(last)]]).release();
        case 'd': return build_dict(PyTuple_GET_ITEM(spec, 1), last, outcome);
        case 't': return build_sequence(true, last, outcome);
        default: return build_sequence(false, last, outcome);
    }
}

// The launcher of a graph without draws or autograd, called past the Python object around it.
static PyObject* run_launcher(Entry* entry, const Fetched& fetched) {
    static PyObject* zero = PyLong_FromLong(0);
    Py_ssize_t count = entry->inputs->size();
    Ref inputs(PyList_New(count));
    if (!inputs) return nullptr;
    for (Py_ssize_t i = 0; i < count; i++)
        PyList_SET_ITEM(inputs.get(), i, Ref::borrow(fetched[(*entry->inputs)[i]]).release());
    PyObject* arguments[] = {nullptr, inputs.get(), zero, zero};
    Ref result(PyObject_Vectorcall(entry->launcher, arguments + 1, 3 | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr));
    if (!result) return nullptr;
    return entry->output ? build(entry->output, {result.get(), entry, fetched}) : PySequence_Tuple(result.get());
}

PyObject* run_direct(Entry* entry, const Fetched& fetched) {
    if (entry->launcher) return run_launcher(entry, fetched);
    Py_ssize_t count = entry->inputs->size();
    Buffer<PyObject*, 64> arguments(count + 1);   // one place before them, as PY_VECTORCALL_ARGUMENTS_OFFSET allows
    for (Py_ssize_t i = 0; i < count; i++) arguments[i + 1] = fetched[(*entry->inputs)[i]];
    Ref result(PyObject_Vectorcall(entry->direct, arguments.data() + 1, count | PY_VECTORCALL_ARGUMENTS_OFFSET,
                                   nullptr));
    if (!result || !entry->output) return result.release();
    return build(entry->output, {result.get(), entry, fetched});
}

static bool read_inputs(Entry* self, PyObject* inputs) {
    Ref sequence(PySequence_Tuple(inputs));
    if (!sequence) return false;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(sequence.get()); i++) {
        Py_ssize_t slot = guards::fetch_slot(self->guards, PyTuple_GET_ITEM(sequence.get(), i));
        if (slot < 0) return false;
        self->inputs->push_back(slot);
    }
    return true;
}

static PyObject* given(PyObject* object) { return object == Py_None ? nullptr : Ref::borrow(object).release(); }

// A callable may offer its launcher as the attribute `native_call`; None where a call is more than launching.
static PyObject* launcher_of(PyObject* direct) {
    if (direct == Py_None) return nullptr;
    Ref found(PyObject_GetAttrString(direct, "native_call"));
    if (!found) PyErr_Clear();
    return found && found.get() != Py_None ? found.release() : nullptr;
}

static PyObject* entry_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
    static const char* names[] = {"guards", "code", "keepalive", "direct", "inputs", "output", "breaks", "fallible", "left",
                                  nullptr};
    PyObject *tree, *code = Py_None, *keepalive = Py_None, *direct = Py_None, *inputs = nullptr, *output = Py_None;
    int breaks = 0, fallible = 1, left = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!|OOOOOppp", (char**)names, guards::tree_type, &tree, &code,
                                     &keepalive,
                                     &direct, &inputs, &output, &breaks, &fallible, &left)) return nullptr;
    if (!PyCode_Check(code) && direct == Py_None) {
        PyErr_SetString(PyExc_TypeError, "an entry needs a code object or a direct callable");
        return nullptr;
    }
    Ref self(type->tp_alloc(type, 0));
    if (!self) return nullptr;
    Entry* entry = (Entry*)self.get();
    entry->guards = (GuardTree*)Ref::borrow(tree).release();
    entry->code = Ref::borrow(code).release();
    entry->keepalive = given(keepalive);
    entry->direct = given(direct);
    entry->launcher = launcher_of(direct);
    entry->output = given(output);
    entry->inputs = new std::vector<Py_ssize_t>();
    entry->fallible = fallible;
    entry->breaks = breaks;
    entry->left = left;
    if (inputs && inputs != Py_None && !read_inputs(entry, inputs)) return nullptr;
    if (entry->output && !valid_output(output, entry->inputs->size())) {
        PyErr_Format(PyExc_ValueError, "entry: %R does not describe an output", output);
        return nullptr;
    }
    return self.release();
}

// A code object takes no part in garbage collection, but its constants hold resume doors that hold further entries.
// While nobody else holds the code, its constants are as good as ours and can be visited.
static PyObject* own_constants(Entry* self) {
    if (!self->code || !PyCode_Check(self->code)) return nullptr;
    if (self->function && Py_REFCNT(self->function) != 1) return nullptr;
    return Py_REFCNT(self->code) == (self->function ? 2 : 1) ? ((PyCodeObject*)self->code)->co_consts : nullptr;
}

static int entry_traverse(Entry* self, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self->guards);
    Py_VISIT(self->direct);
    Py_VISIT(self->launcher);
    Py_VISIT(self->output);
    Py_VISIT(self->keepalive);
    Py_VISIT(self->function);
    Py_VISIT(own_constants(self));
    return 0;
}

// The guards stay: someone may still hold this entry, and a door must be able to ask them.
static int entry_clear(Entry* self) {
    Py_CLEAR(self->direct);
    Py_CLEAR(self->launcher);
    Py_CLEAR(self->output);
    Py_CLEAR(self->keepalive);
    Py_CLEAR(self->function);
    Py_INCREF(Py_None);
    Py_XSETREF(self->code, Py_None);
    return 0;
}

static void entry_dealloc(Entry* self) {
    PyTypeObject* type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    entry_clear(self);
    Py_CLEAR(self->code);
    Py_CLEAR(self->guards);
    delete self->inputs;
    type->tp_free(self);
    Py_DECREF(type);
}

static PyObject* member(PyObject* object) { return Ref::borrow(object ? object : Py_None).release(); }
static PyObject* entry_guards(Entry* self, void*) { return member((PyObject*)self->guards); }
static PyObject* entry_code(Entry* self, void*) { return member(self->code); }
static PyObject* entry_direct(Entry* self, void*) { return member(self->direct); }
static PyObject* entry_output(Entry* self, void*) { return member(self->output); }
static PyObject* entry_keepalive(Entry* self, void*) { return member(self->keepalive); }

static PyObject* entry_breaks(Entry* self, void*) { return PyBool_FromLong(self->breaks); }
static PyObject* entry_left(Entry* self, void*) { return PyBool_FromLong(self->left); }

static PyGetSetDef entry_getset[] = {
    {"guards", (getter)entry_guards, nullptr, "the GuardTree"},
    {"code", (getter)entry_code, nullptr, "the generated code, or None"},
    {"direct", (getter)entry_direct, nullptr, "the callable of a whole graph, or None"},
    {"output", (getter)entry_output, nullptr, "how the result is built from what `direct` returns"},
    {"breaks", (getter)entry_breaks, nullptr, "the code ends at a graph break"},
    {"left", (getter)entry_left, nullptr, "the code is the original: the backend could make nothing faster"},
    {"keepalive", (getter)entry_keepalive, nullptr, "what the entry holds"},
    {nullptr}};
static PyType_Slot slots[] = {
    {Py_tp_new, (void*)entry_new}, {Py_tp_dealloc, (void*)entry_dealloc}, {Py_tp_traverse, (void*)entry_traverse},
    {Py_tp_clear, (void*)entry_clear}, {Py_tp_getset, entry_getset},
    {Py_tp_doc,
     (void*)"Entry(guards, code, keepalive=None, direct=None, inputs=(), output=None, breaks=False, fallible=True, left=False)"},
    {0, nullptr}};
static PyType_Spec spec = {"flambeau.capture._capture.Entry", sizeof(Entry), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
                           slots};

int add_entry_type(PyObject* module) {
    entry_type = (PyTypeObject*)PyType_FromSpec(&spec);
    return entry_type ? PyModule_AddObjectRef(module, "Entry", (PyObject*)entry_type) : -1;
}

}  // namespace doors
