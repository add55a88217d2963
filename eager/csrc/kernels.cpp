// Records with kernels of their own: arrays in, arrays out, tensors and the node made here. Kernels are Python
// functions on numpy arrays; a call of fakes, under a mode, or that no kernel takes goes to the Python path.
#include "call.h"

#include <vector>

namespace {

constexpr int MAX_PARAMS = 24, MAX_OUTPUTS = 8;
enum Code : char { PLAIN, TENSOR, TENSORS };

struct Saved { // what the gradients need of a call, for one set of operands that lead on
    std::vector<bool> mask;
    bool any;
    std::vector<char> keep; // per parameter: DROP, SAVE, META
    std::vector<bool> outs;
    bool any_out;
};

struct KernelCall {
    Attributes head;
    int arguments, outputs;
    bool composite, differentiable; // has gradient formulas
    char codes[MAX_PARAMS];
    bool grads_to[MAX_OUTPUTS];
    PyObject *native, *numpy, *wrap; // kernels (null: none); wrap_outputs(op, args, found)
    std::vector<Saved>* saved;
};

// ---- operands

struct Operands {
    Ref arrays[MAX_PARAMS];
    bool leads[MAX_PARAMS], any = false;
};

bool plain_tensor(PyObject* x) { return is_plain(x) && is_cpu(x) && array_of(x); }

bool read_tuple(PyObject* a, Operands& o, int k) {
    if (!PyTuple_CheckExact(a)) return false;
    Py_ssize_t n = PyTuple_GET_SIZE(a);
    o.arrays[k] = Ref(PyTuple_New(n));
    for (Py_ssize_t j = 0; j < n; j++) {
        PyObject* x = PyTuple_GET_ITEM(a, j);
        if (!plain_tensor(x)) return false;
        if (needs_grad(x)) o.leads[k] = true;
        PyTuple_SET_ITEM(o.arrays[k].get(), j, Py_NewRef(slot(x, world.t.array)));
    }
    return true;
}

bool read_operands(const KernelCall* self, PyObject* const* args, Operands& o) {
    for (int k = 0; k < self->arguments; k++) {
        PyObject* a = args[k];
        o.leads[k] = false;
        if (self->codes[k] == TENSORS && a != Py_None) {
            if (!read_tuple(a, o, k)) return false;
        } else if (is_tensor(a)) {
            if (!plain_tensor(a)) return false;
            o.leads[k] = self->codes[k] == TENSOR && needs_grad(a);
            o.arrays[k] = Ref(Py_NewRef(slot(a, world.t.array)));
        } else {
            bool number = PyFloat_CheckExact(a) || PyLong_CheckExact(a) || PyBool_Check(a);
            if (self->codes[k] == TENSOR && a != Py_None && !number) return false;
            if (Py_TYPE(a) == Py_TYPE(world.cpu) ? a != world.cpu : PyArray_IsScalar(a, Generic)) return false;
            o.arrays[k] = Ref(Py_NewRef(a));
        }
        o.any = o.any || o.leads[k];
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

// ---- recording

const Saved* saved_of(KernelCall* self, const Operands& o) {
    for (const Saved& each : *self->saved) {
        bool same = true;
        for (int k = 0; k < self->arguments && same; k++) same = each.mask[k] == o.leads[k];
        if (same) return &each;
    }
    Ref flags(PyTuple_New(self->arguments));
    for (int k = 0; k < self->arguments; k++) PyTuple_SET_ITEM(flags.get(), k, PyBool_FromLong(o.leads[k]));
    Ref answer(PyObject_CallFunctionObjArgs(world.learn_needs, self->head.op, flags.get(), nullptr));
    if (!answer) return nullptr;
    Saved made;
    made.any = PyTuple_GET_ITEM(answer.get(), 0) == Py_True;
    PyObject *codes = PyTuple_GET_ITEM(answer.get(), 2), *outs = PyTuple_GET_ITEM(answer.get(), 3);
    made.any_out = PyTuple_GET_SIZE(outs) > 0;
    made.outs.assign(MAX_OUTPUTS + 1, false);
    for (int k = 0; k < self->arguments; k++) {
        made.mask.push_back(o.leads[k]);
        made.keep.push_back((char)PyLong_AsLong(PyTuple_GET_ITEM(codes, k)));
    }
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(outs); k++) {
        long number = PyLong_AsLong(PyTuple_GET_ITEM(outs, k));
        if (number >= 0 && number <= MAX_OUTPUTS) made.outs[number] = true;
    }
    self->saved->push_back(std::move(made));
    return &self->saved->back();
}

PyObject* edge_list(PyObject* tensors) {
    PyObject* list = PyList_New(PyTuple_GET_SIZE(tensors));
    for (Py_ssize_t j = 0; list && j < PyTuple_GET_SIZE(tensors); j++) {
        PyObject* edge = edge_of(PyTuple_GET_ITEM(tensors, j));
        if (!edge) {
            Py_DECREF(list);
            return nullptr;
        }
        PyList_SET_ITEM(list, j, edge);
    }
    return list;
}

// (what is kept of an argument, its version) as record.save_args has them
bool keep_argument(char code, char how, PyObject* a, Ref& kept, Ref& version) {
    version = Ref(Py_NewRef(Py_None));
    bool tensors = code == TENSORS && a != Py_None;
    if (!tensors && !(code == TENSOR && is_tensor(a))) {
        kept = Ref(Py_NewRef(a));
        return true;
    }
    if (how == SAVE) {
        kept = Ref(Py_NewRef(a));
        if (!tensors) version = Ref(saved_version(a));
        else {
            version = Ref(PyTuple_New(PyTuple_GET_SIZE(a)));
            for (Py_ssize_t j = 0; j < PyTuple_GET_SIZE(a); j++)
            {
                PyObject* number = saved_version(PyTuple_GET_ITEM(a, j));
                if (!number) return false;
                PyTuple_SET_ITEM(version.get(), j, number);
            }
        }
        return (bool)version;
    }
    if (!tensors) {
        kept = Ref(how == META ? meta_of(a) : Py_NewRef(Py_None));
        return (bool)kept;
    }
    kept = Ref(PyTuple_New(PyTuple_GET_SIZE(a)));
    for (Py_ssize_t j = 0; kept && j < PyTuple_GET_SIZE(a); j++) {
        PyObject* meta = meta_of(PyTuple_GET_ITEM(a, j));
        if (!meta) return false;
        PyTuple_SET_ITEM(kept.get(), j, meta);
    }
    return (bool)kept;
}

bool differentiable(const KernelCall* self, PyObject* out, Py_ssize_t k) {
    int type = type_of(out);
    return (k >= self->outputs || self->grads_to[k]) && type >= 0 && world.types[type].category >= 2;
}

bool save_outputs(PyObject* node, PyObject* outs, const Saved* needs) {
    Py_ssize_t n = PyTuple_GET_SIZE(outs);
    Ref saved(PyList_New(n)), versions(PyList_New(n));
    if (!saved || !versions) return false;
    for (Py_ssize_t k = 0; k < n; k++) {
        PyObject* out = PyTuple_GET_ITEM(outs, k);
        PyObject* kept = needs->outs[k] ? PyObject_CallOneArg(world.saved_output, out) : meta_of(out);
        PyObject* version = PyLong_FromLong(version_of(out));
        if (!kept || !version) return false;
        PyList_SET_ITEM(saved.get(), k, kept);
        PyList_SET_ITEM(versions.get(), k, version);
    }
    PyObject* pair = PyTuple_Pack(2, saved.get(), versions.get());
    if (pair) reset(node, world.n.outs, pair);
    return pair;
}

bool record_call(KernelCall* self, PyObject* const* args, PyObject* outs, const Operands& o) {
    const Saved* needs = saved_of(self, o);
    if (!needs) return false;
    bool any = false;
    Py_ssize_t n = PyTuple_GET_SIZE(outs);
    for (Py_ssize_t k = 0; k < n; k++) any = any || differentiable(self, PyTuple_GET_ITEM(outs, k), k);
    if (!needs->any || !any) return true;
    int count = self->arguments;
    Ref edges(PyTuple_New(count)), saved(PyTuple_New(count)), versions(PyTuple_New(count)), metas(PyTuple_New(n));
    if (!edges || !saved || !versions || !metas) return false;
    bool versioned = false;
    for (int k = 0; k < count; k++) {
        PyObject* a = args[k];
        bool tensors = self->codes[k] == TENSORS && a != Py_None;
        PyObject* edge = tensors ? edge_list(a) : o.leads[k] ? edge_of(a) : Py_NewRef(Py_None);
        Ref kept, version;
        if (!edge || !keep_argument(self->codes[k], needs->keep[k], a, kept, version)) return false;
        versioned = versioned || version.get() != Py_None;
        PyTuple_SET_ITEM(edges.get(), k, edge);
        PyTuple_SET_ITEM(saved.get(), k, kept.release());
        PyTuple_SET_ITEM(versions.get(), k, version.release());
    }
    for (Py_ssize_t k = 0; k < n; k++) {
        Ref one(metas_of(PyTuple_GET_ITEM(outs, k)));
        if (!one) return false;
        PyTuple_SET_ITEM(metas.get(), k, Py_NewRef(PyTuple_GET_ITEM(one.get(), 0)));
    }
    Ref node(new_node(self->head.op, saved.release(), versioned ? versions.release() : Py_NewRef(Py_None),
        edges.release(), metas.release()));
    if (!node) return false;
    for (Py_ssize_t k = 0; k < n; k++) {
        PyObject* out = PyTuple_GET_ITEM(outs, k);
        if (!differentiable(self, out, k)) continue;
        reset(out, world.t.grad_fn, Py_NewRef(node.get()));
        reset(out, world.t.output_nr, PyLong_FromSsize_t(k));
    }
    return !needs->any_out || save_outputs(node.get(), outs, needs);
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
        || (self->composite && o.any && thread.grad && !self->differentiable))
        return fall_back(&self->head, args, nargsf, names);
    Ref quick(Py_NewRef(state_field(quick_name)));
    Ref found(run_kernels(self, quick.get(), o));
    if (!found) return nullptr;
    if (found.get() == Py_NotImplemented) return fall_back(&self->head, args, nargsf, names);
    Ref outs = wrap_all(self, args, found.get(), o);
    if (!outs) return nullptr;
    if (o.any && thread.grad && self->differentiable && !record_call(self, args, outs.get(), o)) return nullptr;
    return PyTuple_GET_SIZE(outs.get()) == 1 ? Py_NewRef(PyTuple_GET_ITEM(outs.get(), 0)) : outs.release();
}

void dealloc_kernel(PyObject* raw) {
    KernelCall* self = (KernelCall*)raw;
    PyObject_GC_UnTrack(raw);
    clear_attributes(&self->head);
    Py_CLEAR(self->native);
    Py_CLEAR(self->numpy);
    Py_CLEAR(self->wrap);
    delete self->saved;
    Py_TYPE(raw)->tp_free(raw);
}

PyTypeObject KernelType = {PyVarObject_HEAD_INIT(nullptr, 0)};

void read_leads(const KernelCall* self, PyObject* const* args, Operands& o) {
    for (int k = 0; k < self->arguments; k++) {
        PyObject* a = args[k];
        o.leads[k] = self->codes[k] == TENSOR && is_tensor(a) && needs_grad(a);
        for (Py_ssize_t j = 0; self->codes[k] == TENSORS && a != Py_None && j < PyTuple_GET_SIZE(a); j++)
            o.leads[k] = o.leads[k] || needs_grad(PyTuple_GET_ITEM(a, j));
        o.any = o.any || o.leads[k];
    }
}

PyObject* or_null(PyObject* x) { return x == Py_None ? nullptr : Py_NewRef(x); }

// kernel(op, slow, codes, which outputs have gradients, native, numpy, wrap, composite, differentiable)
PyObject* py_kernel(PyObject*, PyObject* args) {
    PyObject *op, *slow, *codes, *outputs, *native, *numpy, *wrap;
    int composite, differentiable;
    if (!PyArg_ParseTuple(args, "OOO!O!OOOpp", &op, &slow, &PyTuple_Type, &codes, &PyTuple_Type, &outputs, &native,
            &numpy, &wrap, &composite, &differentiable))
        return nullptr;
    Py_ssize_t count = PyTuple_GET_SIZE(codes), outs = PyTuple_GET_SIZE(outputs);
    if (count > MAX_PARAMS || outs > MAX_OUTPUTS)
        return PyErr_Format(PyExc_ValueError, "a record of %zd arguments and %zd outputs", count, outs);
    KernelCall* self = (KernelCall*)KernelType.tp_alloc(&KernelType, 0);
    if (!self) return nullptr;
    self->head.vectorcall = call_kernel;
    self->head.op = Py_NewRef(op), self->head.slow = Py_NewRef(slow);
    self->arguments = (int)count, self->outputs = (int)outs;
    for (int k = 0; k < count; k++) self->codes[k] = (char)PyLong_AsLong(PyTuple_GET_ITEM(codes, k));
    for (int k = 0; k < outs; k++) self->grads_to[k] = PyTuple_GET_ITEM(outputs, k) == Py_True;
    self->native = or_null(native), self->numpy = or_null(numpy), self->wrap = Py_NewRef(wrap);
    self->composite = composite, self->differentiable = differentiable;
    self->saved = new std::vector<Saved>;
    return (PyObject*)self;
}

PyMethodDef functions[]
    = {{"kernel", py_kernel, METH_VARARGS, "kernel(op, slow, codes, outputs, native, numpy, wrap, composite, "
                                           "differentiable): the call path of a record with kernels"},
        {nullptr, nullptr, 0, nullptr}};

}

bool record_outputs(PyObject* entry, PyObject* const* args, PyObject* outs) {
    if (Py_TYPE(entry) != &KernelType) {
        PyErr_SetString(PyExc_SystemError, "a call is recorded for a record without kernels");
        return false;
    }
    KernelCall* self = (KernelCall*)entry;
    Operands o;
    read_leads(self, args, o);
    return !o.any || !self->differentiable || record_call(self, args, outs, o);
}

bool add_kernels(PyObject* module) {
    return ready_callable(KernelType, "flambeau.eager._call.Kernel", sizeof(KernelCall), dealloc_kernel)
        && PyModule_AddFunctions(module, functions) == 0;
}
