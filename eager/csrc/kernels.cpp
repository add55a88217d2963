// Records with kernels of their own: arrays in, arrays out, tensors and the node made here. Kernels are Python
// functions on numpy arrays; a call of fakes, under a mode, or that no kernel takes goes to the Python path.
#include "call.h"

namespace {

struct KernelCall {
    Attributes head;
    int arguments;
    bool composite, differentiable; // has gradient formulas
    char codes[MAX_PARAMS];
    PyObject *native, *numpy, *wrap; // kernels (null: none); wrap_outputs(op, args, found)
    NeedsTable needs;
};

// ---- operands

struct Operands {
    Ref arrays[MAX_PARAMS];
    unsigned leads = 0; // bit k: the k-th is or holds a tensor that needs a gradient
};

bool plain_tensor(PyObject* x) { return is_plain(x) && is_cpu(x) && array_of(x); }

bool read_tuple(PyObject* a, Operands& o, int k) {
    if (!PyTuple_CheckExact(a)) return false;
    Py_ssize_t n = PyTuple_GET_SIZE(a);
    o.arrays[k] = Ref(PyTuple_New(n));
    for (Py_ssize_t j = 0; j < n; j++) {
        PyObject* x = PyTuple_GET_ITEM(a, j);
        if (!plain_tensor(x)) return false;
        if (needs_grad(x)) o.leads |= 1u << k;
        PyTuple_SET_ITEM(o.arrays[k].get(), j, Py_NewRef(slot(x, world.t.array)));
    }
    return true;
}

bool read_operands(const KernelCall* self, PyObject* const* args, Operands& o) {
    for (int k = 0; k < self->arguments; k++) {
        PyObject* a = args[k];
        if (self->codes[k] == TENSORS && a != Py_None) {
            if (!read_tuple(a, o, k)) return false;
        } else if (is_tensor(a)) {
            if (!plain_tensor(a)) return false;
            if (self->codes[k] == TENSOR && needs_grad(a)) o.leads |= 1u << k;
            o.arrays[k] = Ref(Py_NewRef(slot(a, world.t.array)));
        } else {
            bool number = PyFloat_CheckExact(a) || PyLong_CheckExact(a) || PyBool_Check(a);
            if (self->codes[k] == TENSOR && a != Py_None && !number) return false;
            if (Py_TYPE(a) == Py_TYPE(world.cpu) ? a != world.cpu : PyArray_IsScalar(a, Generic)) return false;
            o.arrays[k] = Ref(Py_NewRef(a));
        }
    }
    return true;
}

// ---- results

bool is_operand(PyObject* array, const Operands& o, int count) {
    for (int k = 0; k < count; k++) {
        PyObject* have = o.arrays[k].get();
        if (have == array) return true;
        if (PyTuple_CheckExact(have))
            for (Py_ssize_t j = 0; j < PyTuple_GET_SIZE(have); j++)
                if (PyTuple_GET_ITEM(have, j) == array) return true;
    }
    return false;
}

PyObject* dtype_of(PyArrayObject* a) { // borrowed; null if it is none of ours by identity
    PyObject* descr = (PyObject*)PyArray_DESCR(a);
    if (descr == (PyObject*)world.types[FLOAT32].descr) return world.types[FLOAT32].object;
    for (int k = 0; k < TYPES; k++)
        if (descr == (PyObject*)world.types[k].descr) return world.types[k].object;
    return nullptr;
}

// A tensor around a kernel's array that is fresh, contiguous memory; null without an error otherwise.
PyObject* wrapped(PyObject* found, const Operands& o, int count) {
    Ref array(PyArray_IsScalar(found, Generic) ? PyArray_FromScalar(found, nullptr) : Py_NewRef(found));
    if (!array) return nullptr;
    if (!PyArray_CheckExact(array.get())) return nullptr;
    PyArrayObject* a = (PyArrayObject*)array.get();
    PyObject *base = PyArray_BASE(a), *dtype = dtype_of(a);
    if (!dtype || !PyArray_IS_C_CONTIGUOUS(a) || (base && PyArray_Check(base)) || is_operand(found, o, count))
        return nullptr;
    return new_tensor(array.release(), dtype);
}

// The outputs as a tuple of tensors.
Ref wrap_all(const KernelCall* self, PyObject* const* args, PyObject* found, const Operands& o) {
    bool many = PyTuple_Check(found);
    Py_ssize_t n = many ? PyTuple_GET_SIZE(found) : 1;
    Ref outs(PyTuple_New(n));
    for (Py_ssize_t k = 0; outs && k < n; k++) {
        PyObject* t = wrapped(many ? PyTuple_GET_ITEM(found, k) : found, o, self->arguments);
        if (!t) {
            if (PyErr_Occurred()) return Ref();
            Ref given(PyTuple_New(self->arguments)); // views, other layouts and types
            for (int j = 0; j < self->arguments; j++) PyTuple_SET_ITEM(given.get(), j, Py_NewRef(args[j]));
            return Ref(PyObject_CallFunctionObjArgs(self->wrap, self->head.op, given.get(), found, nullptr));
        }
        PyTuple_SET_ITEM(outs.get(), k, t);
    }
    return outs;
}

bool record_call(KernelCall* self, PyObject* const* args, PyObject* outs, unsigned leads) {
    PyObject* const* items = PySequence_Fast_ITEMS(outs);
    return !leads || !self->differentiable
        || record(self->head.op, self->needs, args, self->arguments, leads, items, PyTuple_GET_SIZE(outs));
}

// ---- the call

// What the kernels make of the arrays: a result, NotImplemented, or null with an error set.
PyObject* run_kernels(const KernelCall* self, PyObject* quick, const Operands& o) {
    PyObject* given[MAX_PARAMS + 1];
    for (int k = 0; k < self->arguments; k++) given[k + 1] = o.arrays[k].get();
    if (self->native) {
        PyObject* found = PyObject_Vectorcall(self->native, given + 1, self->arguments, nullptr);
        if (found != Py_NotImplemented) return found;
        Py_DECREF(found);
    }
    if (!self->numpy) return Py_NewRef(Py_NotImplemented);
    given[0] = self->numpy; // through `state.run`: without floating-point warnings
    return PyObject_Vectorcall(quick, given, self->arguments + 1, nullptr);
}

PyObject* call_kernel(PyObject* raw, PyObject* const* args, size_t nargsf, PyObject* names) {
    KernelCall* self = (KernelCall*)raw;
    static PyObject* quick_name = PyUnicode_InternFromString("quick");
    static PyObject* fake_name = PyUnicode_InternFromString("fake");
    Thread thread;
    Operands o;
    if (PyVectorcall_NARGS(nargsf) != self->arguments || names || !read_state(thread) || !thread.quick
        || state_field(fake_name) != Py_False || !read_operands(self, args, o)
        || (self->composite && o.leads && thread.grad && !self->differentiable))
        return fall_back(&self->head, args, nargsf, names);
    Ref quick(Py_NewRef(state_field(quick_name)));
    Ref found(run_kernels(self, quick.get(), o));
    if (!found) return nullptr;
    if (found.get() == Py_NotImplemented) return fall_back(&self->head, args, nargsf, names);
    Ref outs = wrap_all(self, args, found.get(), o);
    if (!outs) return nullptr;
    if (thread.grad && !record_call(self, args, outs.get(), o.leads)) return nullptr;
    return PyTuple_GET_SIZE(outs.get()) == 1 ? Py_NewRef(PyTuple_GET_ITEM(outs.get(), 0)) : outs.release();
}

void dealloc_kernel(PyObject* raw) {
    KernelCall* self = (KernelCall*)raw;
    PyObject_GC_UnTrack(raw);
    clear_attributes(&self->head);
    Py_CLEAR(self->native);
    Py_CLEAR(self->numpy);
    Py_CLEAR(self->wrap);
    Py_TYPE(raw)->tp_free(raw);
}

PyTypeObject KernelType = {PyVarObject_HEAD_INIT(nullptr, 0)};

unsigned leads_of(const KernelCall* self, PyObject* const* args) {
    unsigned leads = 0;
    for (int k = 0; k < self->arguments; k++) {
        PyObject* a = args[k];
        bool any = self->codes[k] == TENSOR && is_tensor(a) && needs_grad(a);
        for (Py_ssize_t j = 0; self->codes[k] == TENSORS && a != Py_None && j < PyTuple_GET_SIZE(a); j++)
            any = any || needs_grad(PyTuple_GET_ITEM(a, j));
        leads |= (unsigned)any << k;
    }
    return leads;
}

PyObject* or_null(PyObject* x) { return x == Py_None ? nullptr : Py_NewRef(x); }

// kernel(op, slow, codes, native, numpy, wrap, composite, differentiable)
PyObject* py_kernel(PyObject*, PyObject* args) {
    PyObject *op, *slow, *codes, *native, *numpy, *wrap;
    int composite, differentiable;
    if (!PyArg_ParseTuple(args, "OOO!OOOpp", &op, &slow, &PyTuple_Type, &codes, &native, &numpy, &wrap, &composite, &differentiable))
        return nullptr;
    Py_ssize_t count = PyTuple_GET_SIZE(codes);
    if (count > MAX_PARAMS) return PyErr_Format(PyExc_ValueError, "a record of %zd arguments", count);
    KernelCall* self = (KernelCall*)KernelType.tp_alloc(&KernelType, 0);
    if (!self) return nullptr;
    self->head.vectorcall = call_kernel;
    self->head.op = Py_NewRef(op), self->head.slow = Py_NewRef(slow);
    self->arguments = (int)count;
    for (int k = 0; k < count; k++) self->codes[k] = (char)PyLong_AsLong(PyTuple_GET_ITEM(codes, k));
    self->native = or_null(native), self->numpy = or_null(numpy), self->wrap = Py_NewRef(wrap);
    self->composite = composite, self->differentiable = differentiable;
    return (PyObject*)self;
}

PyMethodDef functions[]
    = {{"kernel", py_kernel, METH_VARARGS, "kernel(op, slow, codes, native, numpy, wrap, composite, "
                                           "differentiable): the call path of a record with kernels"},
        {nullptr, nullptr, 0, nullptr}};

}

bool record_outputs(PyObject* entry, PyObject* const* args, PyObject* outs) {
    if (Py_TYPE(entry) != &KernelType) {
        PyErr_SetString(PyExc_SystemError, "a call is recorded for a record without kernels");
        return false;
    }
    KernelCall* self = (KernelCall*)entry;
    return record_call(self, args, outs, leads_of(self, args));
}

bool add_kernels(PyObject* module) {
    return ready_callable(KernelType, "flambeau.eager._call.Kernel", sizeof(KernelCall), dealloc_kernel)
        && PyModule_AddFunctions(module, functions) == 0;
}
