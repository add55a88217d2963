// The extension `flambeau.eager._call`: the module, what it is told about the library's classes, tensors and nodes made
// by offset.
#define FB_IMPORTS_NUMPY
#include "call.h"

#include <string.h>

#include <unordered_map>

World world;
thread_local bool inference_mode;

// ---- the thread's state

static PyObject* state_dict() {
    static thread_local struct { uint64_t thread = 0; PyObject* dict = nullptr; } cached;
    uint64_t thread = PyThreadState_Get()->id + 1;
    if (cached.thread == thread) return cached.dict;
    Ref dict(PyObject_GetAttrString(world.state, "__dict__"));
    if (!dict.get()) return nullptr;
    cached = {thread, dict.get()};
    return dict.get();
}

PyObject* state_field(PyObject* name) {
    PyObject* dict = state_dict();
    PyObject* own = dict ? PyDict_GetItemWithError(dict, name) : nullptr;
    if (own || !dict || PyErr_Occurred()) return own;
    return _PyType_Lookup(Py_TYPE(world.state), name); // the class holds what a new thread starts with
}

bool set_state_field(PyObject* name, PyObject* value) {
    PyObject* dict = state_dict();
    return dict && PyDict_SetItem(dict, name, value) == 0;
}

bool read_state(Thread& out) {
    static PyObject* quick = PyUnicode_InternFromString("quick");
    static PyObject* grad = PyUnicode_InternFromString("grad");
    PyObject* q = state_field(quick);
    PyObject* g = q ? state_field(grad) : nullptr;
    if (!g) return false;
    out = {q != Py_None, g == Py_True};
    return true;
}

// ---- tensors

PyObject* new_tensor(PyObject* array, PyObject* dtype) {
    return world.t.make(array, dtype, world.cpu, inference_mode ? world.inference_view : Py_None);
}

static bool fill(PyObject* tuple, const npy_intp* values, int count) {
    for (int k = 0; k < count; k++) {
        PyObject* number = PyLong_FromSsize_t(values[k]);
        if (!number) return false;
        PyTuple_SET_ITEM(tuple, k, number);
    }
    return true;
}

PyObject* tuple_of(const npy_intp* values, int count) {
    PyObject* tuple = PyTuple_New(count);
    if (tuple && !fill(tuple, values, count)) Py_CLEAR(tuple);
    return tuple;
}

PyObject* size_of(const npy_intp* values, int count) {
    PyObject* tuple = world.size->tp_alloc(world.size, count);
    if (tuple && !fill(tuple, values, count)) Py_CLEAR(tuple);
    return tuple;
}

PyObject* fresh_array(int type, int dims, const npy_intp* sizes, const npy_intp* strides) {
    npy_intp bytes = world.types[type].itemsize, in_bytes[MAX_DIMS];
    for (int d = 0; d < dims; d++)
        if (__builtin_mul_overflow(bytes, sizes[d], &bytes)) return PyErr_NoMemory();
    if (strides)
        for (int d = 0; d < dims; d++) in_bytes[d] = strides[d] * world.types[type].itemsize;
    Py_INCREF(world.types[type].descr);
    return world.api->new_array(world.types[type].descr, dims, sizes, strides ? in_bytes : nullptr, bytes, nullptr);
}

// Storage over the bytes of an array, as storage.py makes it.
static PyObject* new_storage(PyArrayObject* array, PyObject* device) {
    npy_intp bytes = PyArray_NBYTES(array);
    Py_INCREF(world.byte_descr);
    Ref flat(PyArray_NewFromDescr(&PyArray_Type, (PyArray_Descr*)world.byte_descr, 1, &bytes, nullptr,
        PyArray_DATA(array), PyArray_FLAGS(array) & NPY_ARRAY_WRITEABLE, nullptr));
    if (!flat || PyArray_SetBaseObject((PyArrayObject*)flat.get(), Py_NewRef((PyObject*)array))) return nullptr;
    PyObject* storage = world.storage->tp_alloc(world.storage, 0);
    if (!storage) return nullptr;
    const StorageSlots& s = world.s;
    slot(storage, s.bytes) = flat.release();
    for (int k = 0; k < s.others; k++) put(storage, s.other[k].first, s.other[k].second);
    put(storage, s.device, device);
    return storage;
}

PyObject* ensure_storage(PyObject* t) {
    PyObject* have = slot(t, world.t.storage);
    if (have != Py_None) return have;
    PyArrayObject* a = array_of(t);
    static PyObject* outs = PyUnicode_InternFromString("_fl_ensure_storage");
    PyObject* node = slot(t, world.t.grad_fn);
    bool told = node != Py_None && (!is_plain_node(node) || slot(node, world.n.outs) != Py_None);
    if (!a || !PyArray_IS_C_CONTIGUOUS(a) || PyArray_NBYTES(a) == 0 || told) {
        Ref made(PyObject_CallMethodNoArgs(t, outs)); // rare layouts, and outputs whose node saved them
        return made ? slot(t, world.t.storage) : nullptr;
    }
    int dims = PyArray_NDIM(a);
    npy_intp strides[NPY_MAXDIMS];
    for (int d = 0; d < dims; d++) strides[d] = PyArray_STRIDE(a, d) / PyArray_ITEMSIZE(a);
    Ref sizes(tuple_of(PyArray_DIMS(a), dims)), steps(tuple_of(strides, dims));
    if (!sizes || !steps) return nullptr;
    PyObject* geometry = PyTuple_New(3);
    if (!geometry) return nullptr;
    PyTuple_SET_ITEM(geometry, 0, sizes.release());
    PyTuple_SET_ITEM(geometry, 1, steps.release());
    PyTuple_SET_ITEM(geometry, 2, PyLong_FromLong(0));
    PyObject* storage = new_storage(a, slot(t, world.t.device));
    if (!storage) {
        Py_DECREF(geometry);
        return nullptr;
    }
    reset(t, world.t.geometry, geometry);
    reset(t, world.t.storage, storage);
    return storage;
}

// The digit of a small positive int that nobody else holds (numbers up to 256 are shared by all); or null.
static digit* own_digit(PyObject* number) {
    if (!PyLong_CheckExact(number) || Py_REFCNT(number) != 1) return nullptr;
    PyLongObject* x = (PyLongObject*)number;
#if PY_VERSION_HEX >= 0x030C0000
    bool one = x->long_value.lv_tag == 1 << _PyLong_NON_SIZE_BITS;
    digit* d = x->long_value.ob_digit;
#else
    bool one = Py_SIZE(x) == 1;
    digit* d = x->ob_digit;
#endif
    return one && *d > 256 && *d < PyLong_MASK ? d : nullptr;
}

// A counter that is nobody else's counts in place, since a call may have hundreds of them.
static bool increment(PyObject* object, Py_ssize_t offset) {
    if (digit* d = own_digit(slot(object, offset))) return ++*d;
    PyObject* next = PyLong_FromLong(PyLong_AsLong(slot(object, offset)) + 1);
    if (next) reset(object, offset, next);
    return next;
}

PyObject* root_view(PyObject* t) {
    PyObject* view = slot(t, world.t.view);
    while (view != Py_None && PyTuple_GET_ITEM(view, 0) != Py_None)
        view = slot(PyTuple_GET_ITEM(view, 0), world.t.view);
    return view;
}

bool bump(PyObject* t) {
    PyObject* storage = ensure_storage(t);
    return storage && increment(storage, world.s.data_version)
        && (root_view(t) == world.data_view || increment(storage, world.s.version));
}

long version_of(PyObject* t) {
    PyObject* storage = slot(t, world.t.storage);
    return storage == Py_None ? 0 : PyLong_AsLong(slot(storage, world.s.version));
}

PyObject* saved_version(PyObject* t) {
    if (root_view(t) != world.inference_view) return PyLong_FromLong(version_of(t));
    PyErr_SetString(PyExc_RuntimeError,
        "Inference tensors cannot be saved for backward. Please do not use Tensors created in inference mode in computation "
        "tracked by autograd. To work around this, you can make a clone to get a normal tensor and use it in autograd, or "
        "use `torch.no_grad()` instead of `torch.inference_mode()`.");
    return nullptr;
}

// ---- recording

static unsigned long sequence;
unsigned long next_sequence() { return sequence++; }
static PyObject* py_next_sequence(PyObject*, PyObject*) { return PyLong_FromUnsignedLong(next_sequence()); }

PyObject* edge_of(PyObject* t) {
    PyObject* node = slot(t, world.t.grad_fn);
    bool leaf = node == Py_None;
    if (leaf && slot(t, world.t.requires_grad) != Py_True) return Py_NewRef(Py_None);
    PyObject* edge = PyTuple_New(2);
    if (!edge) return nullptr;
    PyTuple_SET_ITEM(edge, 0, Py_NewRef(leaf ? t : node));
    PyTuple_SET_ITEM(edge, 1, leaf ? PyLong_FromLong(0) : Py_NewRef(slot(t, world.t.output_nr)));
    return edge;
}

static unsigned bits_of(PyObject* numbers) {
    unsigned bits = 0;
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(numbers); k++) bits |= 1u << PyLong_AsLong(PyTuple_GET_ITEM(numbers, k));
    return bits;
}
static bool has(unsigned bits, Py_ssize_t k) { return k < 32 && bits >> k & 1; }

// Asks dispatch.py once per set of operands: `learn_needs(op, mask of bools)`.
static const Needs* needs_of(PyObject* op, NeedsTable& table, unsigned mask, int count) {
    for (int k = 0; k < table.used; k++)
        if (table.entries[k].mask == mask) return &table.entries[k];
    Ref flags(PyTuple_New(count));
    if (!flags) return nullptr;
    for (int k = 0; k < count; k++) PyTuple_SET_ITEM(flags.get(), k, PyBool_FromLong(mask >> k & 1));
    Ref answer(PyObject_CallFunctionObjArgs(world.learn_needs, op, flags.get(), nullptr));
    if (!answer) return nullptr;
    PyObject* const* told = PySequence_Fast_ITEMS(answer.get());
    Needs needs = {mask, told[0] == Py_True, bits_of(told[3]), bits_of(told[4]), {}, {}};
    for (int k = 0; k < count; k++) {
        needs.codes[k] = (Code)PyLong_AsLong(PyTuple_GET_ITEM(told[1], k));
        needs.keep[k] = (Keep)PyLong_AsLong(PyTuple_GET_ITEM(told[2], k));
    }
    int at = table.used < 8 ? table.used++ : 7;
    table.entries[at] = needs;
    return &table.entries[at];
}

PyObject* meta_of(PyObject* t) {
    PyArrayObject* a = array_of(t);
    PyObject* meta = world.meta->tp_alloc(world.meta, 0);
    if (!meta) return nullptr;
    slot(meta, world.m.shape) = size_of(PyArray_DIMS(a), PyArray_NDIM(a));
    put(meta, world.m.dtype, slot(t, world.t.dtype));
    put(meta, world.m.device, slot(t, world.t.device));
    return meta;
}

// The saved arguments, and their versions where a tensor is saved: as save_args (autograd_node.py).
static bool save(const Needs* needs, PyObject* const* args, int count, Ref& saved, Ref& versions) {
    saved = Ref(PyTuple_New(count));
    if (!saved) return false;
    for (int k = 0; k < count; k++) {
        PyObject *a = args[k], *kept;
        bool many = needs->codes[k] == TENSORS && a != Py_None, tensors = many || (needs->codes[k] == TENSOR && is_tensor(a));
        Keep how = needs->keep[k];
        if (!tensors || how == SAVE) kept = Py_NewRef(a);
        else kept = many ? each(a, meta_of).release() : how == META ? meta_of(a) : Py_NewRef(Py_None);
        if (!kept) return false;
        PyTuple_SET_ITEM(saved.get(), k, kept);
        if (!tensors || how != SAVE) continue;
        if (!versions) {
            versions = Ref(PyTuple_New(count));
            if (!versions) return false;
            for (int j = 0; j < count; j++) PyTuple_SET_ITEM(versions.get(), j, Py_NewRef(Py_None));
        }
        PyObject* version = many ? each(a, saved_version).release() : saved_version(a);
        if (!version) return false;
        Py_DECREF(PyTuple_GET_ITEM(versions.get(), k));
        PyTuple_SET_ITEM(versions.get(), k, version);
    }
    return true;
}

PyObject* description_of(PyObject* t) {
    PyArrayObject* a = array_of(t);
    PyObject *made = a ? PyTuple_New(3) : nullptr, *sizes = made ? tuple_of(PyArray_DIMS(a), PyArray_NDIM(a)) : nullptr;
    if (!sizes) return Py_XDECREF(made), nullptr;
    PyTuple_SET_ITEM(made, 0, sizes);
    PyTuple_SET_ITEM(made, 1, Py_NewRef(slot(t, world.t.dtype)));
    PyTuple_SET_ITEM(made, 2, Py_NewRef(slot(t, world.t.device)));
    return made;
}

// Outputs of which some are saved: ([SavedOutput(out) or its Meta, ...], [version, ...]).
static bool save_outputs(PyObject* node, PyObject* const* outs, Py_ssize_t n, unsigned saved) {
    Ref kept(PyList_New(n)), versions(PyList_New(n));
    for (Py_ssize_t k = 0; kept && versions && k < n; k++) {
        PyObject* one = has(saved, k) ? PyObject_CallOneArg(world.saved_output, outs[k]) : meta_of(outs[k]);
        PyObject* version = PyLong_FromLong(version_of(outs[k]));
        if (!one || !version) return Py_XDECREF(one), Py_XDECREF(version), false;
        PyList_SET_ITEM(kept.get(), k, one);
        PyList_SET_ITEM(versions.get(), k, version);
    }
    PyObject* pair = kept && versions ? PyTuple_Pack(2, kept.get(), versions.get()) : nullptr;
    if (pair) reset(node, world.n.outs, pair);
    return pair;
}

PyObject* new_node(PyObject* op, PyObject* args, PyObject* versions, PyObject* edges, PyObject* metas) {
    PyObject *sequence = PyLong_FromUnsignedLong(next_sequence()), *node = world.node->tp_alloc(world.node, 0);
    if (!node || !sequence) {
        for (PyObject* each : {args, versions, edges, metas, sequence, node}) Py_XDECREF(each);
        return nullptr;
    }
    const NodeSlots& n = world.n;
    put(node, n.op, op);
    slot(node, n.args) = args, slot(node, n.versions) = versions, slot(node, n.edges) = edges;
    slot(node, n.metas) = metas, slot(node, n.sequence) = sequence;
    put(node, n.outs, Py_None);
    return node;
}

static PyObject* edge_for(const Needs* needs, PyObject* a, int k) { // one edge, or a list of them for tensors
    if (needs->codes[k] != TENSORS || a == Py_None) return needs->mask >> k & 1 ? edge_of(a) : Py_NewRef(Py_None);
    Ref edges = each(a, edge_of);
    return edges ? PySequence_List(edges.get()) : nullptr;
}

static bool differentiable(const Needs* needs, PyObject* out, Py_ssize_t k) {
    int type = has(needs->constant, k) ? -1 : type_of(out);
    return type >= 0 && world.types[type].category >= 2;
}

bool record(PyObject* op, NeedsTable& table, PyObject* const* args, int count, unsigned mask, PyObject* const* outs, Py_ssize_t n) {
    const Needs* needs = needs_of(op, table, mask, count);
    if (!needs) return false;
    bool any = false;
    for (Py_ssize_t k = 0; k < n && !any; k++) any = differentiable(needs, outs[k], k);
    if (!needs->any || !any) return true;
    Ref edges(PyTuple_New(count)), metas(PyTuple_New(n)), saved, versions;
    if (!edges || !metas || !save(needs, args, count, saved, versions)) return false;
    for (int k = 0; k < count; k++) {
        PyObject* edge = edge_for(needs, args[k], k);
        if (!edge) return false;
        PyTuple_SET_ITEM(edges.get(), k, edge);
    }
    for (Py_ssize_t k = 0; k < n; k++) {
        PyObject* described = description_of(outs[k]);
        if (!described) return false;
        PyTuple_SET_ITEM(metas.get(), k, described);
    }
    Ref node(new_node(op, saved.release(), versions ? versions.release() : Py_NewRef(Py_None), edges.release(), metas.release()));
    if (!node || (needs->outs && !save_outputs(node.get(), outs, n, needs->outs))) return false;
    for (Py_ssize_t k = 0; k < n; k++) {
        if (!differentiable(needs, outs[k], k)) continue;
        reset(outs[k], world.t.grad_fn, Py_NewRef(node.get()));
        reset(outs[k], world.t.output_nr, PyLong_FromSsize_t(k));
    }
    return true;
}

// ---- callables

PyObject* fall_back(Attributes* self, PyObject* const* args, size_t nargsf, PyObject* names) {
    if (PyErr_Occurred()) return complain(self, args, nargsf, names);
    if (self->face) {
        PyObject* answer = ask_operands(self, args, nargsf, names);
        if (answer || PyErr_Occurred()) return answer;
    }
    return call_slow(self, args, nargsf, names);
}

int traverse_attributes(PyObject* raw, visitproc visit, void* arg) {
    Attributes* self = (Attributes*)raw;
    Py_VISIT(self->op);
    Py_VISIT(self->slow);
    Py_VISIT(self->dict);
    Py_VISIT(self->face);
    return 0;
}

void clear_attributes(Attributes* self) {
    Py_CLEAR(self->op);
    Py_CLEAR(self->slow);
    Py_CLEAR(self->dict);
    Py_CLEAR(self->face);
}

static PyObject* bind_method(PyObject* self, PyObject* object, PyObject*) {
    return object && object != Py_None ? PyMethod_New(self, object) : Py_NewRef(self);
}

static PyObject* show(PyObject* self) {
    Ref name(PyObject_GetAttrString(self, "__name__"));
    if (!name) PyErr_Clear();
    return name ? PyUnicode_FromFormat("<function %S>", name.get()) : PyUnicode_FromString("<function>");
}

PyObject* reduce_callable(PyObject* self, PyObject*) { return PyObject_GetAttrString(self, "__qualname__"); }

static PyMethodDef reduce_only[] = {REDUCE_METHOD, {nullptr, nullptr, 0, nullptr}};
static PyGetSetDef dict_field[] = {{"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
    {}};

static bool ready_form(PyTypeObject& type, const char* name, Py_ssize_t size, destructor dealloc, bool binds) {
    type.tp_name = name;
    type.tp_basicsize = size;
    type.tp_dealloc = dealloc;
    type.tp_call = PyVectorcall_Call;
    type.tp_vectorcall_offset = offsetof(Attributes, vectorcall);
    type.tp_dictoffset = offsetof(Attributes, dict);
    type.tp_getattro = PyObject_GenericGetAttr;
    type.tp_setattro = PyObject_GenericSetAttr;
    type.tp_getset = dict_field;
    if (!type.tp_methods) type.tp_methods = reduce_only;
    if (binds) type.tp_descr_get = bind_method;
    type.tp_repr = show;
    type.tp_traverse = traverse_attributes;
    type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION
        | (binds ? Py_TPFLAGS_METHOD_DESCRIPTOR : 0);
    return PyType_Ready(&type) == 0;
}

// Callables come in two types of one layout: of methods, which bind like functions of Python, and of functions, which do not
// bind where they are attributes of a class, as functions of C never do.
static std::unordered_map<PyTypeObject*, PyTypeObject*> functions_of_methods;

bool ready_callable(PyTypeObject& type, const char* name, Py_ssize_t size, destructor dealloc) {
    if (functions_of_methods.count(&type)) return true; // (the extension is imported under a second name)
    PyTypeObject* function = functions_of_methods[&type] = new PyTypeObject(type);
    return ready_form(*function, name, size, dealloc, false) && ready_form(type, name, size, dealloc, true);
}

// function(callable): itself, which no longer binds
static PyObject* py_function(PyObject*, PyObject* callable) {
    auto found = functions_of_methods.find(Py_TYPE(callable));
    if (found != functions_of_methods.end()) Py_SET_TYPE(callable, found->second);
    return Py_NewRef(callable);
}

// ---- bind

static bool learn_types(PyObject* dtypes) {
    if (PySequence_Size(dtypes) != TYPES) {
        PyErr_SetString(PyExc_ValueError, "bind: the list of element types has changed");
        return false;
    }
    for (int k = 0; k < TYPES; k++) {
        Ref type(PySequence_GetItem(dtypes, k));
        Ref descr(PyObject_GetAttrString(type.get(), "numpy")), size(PyObject_GetAttrString(type.get(), "itemsize"));
        Ref category(PyObject_GetAttrString(type.get(), "category"));
        if (!descr || !size || !category) return false;
        world.types[k] = {type.release(), (PyArray_Descr*)descr.release(), (int)PyLong_AsLong(size.get()),
            (int)PyLong_AsLong(category.get())};
    }
    return true;
}

// `storage` is an empty one: what a new one holds besides its bytes and device.
static bool learn_prototype(PyObject* storage) {
    StorageSlots& s = world.s;
    PyObject *dict = Py_TYPE(storage)->tp_dict, *name, *value;
    Py_ssize_t at = 0;
    while (PyDict_Next(dict, &at, &name, &value)) {
        const PyMemberDef* member = slot_member(value);
        bool copied = member && member->offset != s.bytes && member->offset != s.device;
        PyObject* held = copied ? slot(storage, member->offset) : nullptr;
        if (held && s.others < 16) s.other[s.others++] = {member->offset, Py_NewRef(held)};
    }
    return true;
}

static PyObject* py_bind(PyObject*, PyObject* args) {
    PyObject *tensor, *node, *storage, *size, *view, *meta, *dtypes, *state, *cpu, *saved, *needs, *data, *inference, *api;
    if (!PyArg_ParseTuple(args, "OOOOOOOOOOOOOO", &tensor, &node, &storage, &size, &view, &meta, &dtypes, &state, &cpu,
            &saved, &needs, &data, &inference, &api))
        return nullptr;
    world.plain[0] = world.plain[1] = world.plain[2] = world.plain[3] = (PyTypeObject*)Py_NewRef(tensor);
    world.node = (PyTypeObject*)Py_NewRef(node), world.storage = (PyTypeObject*)Py_NewRef(Py_TYPE(storage));
    world.size = (PyTypeObject*)Py_NewRef(size), world.view = (PyTypeObject*)Py_NewRef(view);
    world.meta = (PyTypeObject*)Py_NewRef(meta);
    world.state = Py_NewRef(state), world.cpu = Py_NewRef(cpu), world.saved_output = Py_NewRef(saved);
    world.learn_needs = Py_NewRef(needs), world.data_view = Py_NewRef(data);
    world.inference_view = Py_NewRef(inference), world.no_grad = PyUnicode_InternFromString("no_grad");
    world.multiple = PyUnicode_InternFromString("multiple"), world.inference = PyUnicode_InternFromString("inference");
    world.byte_descr = (PyObject*)PyArray_DescrFromType(NPY_UBYTE);
    world.api = (const FbApi*)PyCapsule_GetPointer(api, "flambeau.runtime._native.api");
    NodeSlots& n = world.n;
    StorageSlots& s = world.s;
    MetaSlots& m = world.m;
    bool learned = world.api && learn_types(dtypes)
        && world.t.learn(world.plain[0])
        && learn_slots(world.node, {{"op", &n.op}, {"args", &n.args}, {"versions", &n.versions}, {"edges", &n.edges},
               {"metas", &n.metas}, {"outs", &n.outs}, {"sequence", &n.sequence}})
        && learn_slots(world.storage, {{"bytes", &s.bytes}, {"_version", &s.version}, {"data_version", &s.data_version},
               {"views", &s.views}, {"pruned", &s.pruned}, {"device", &s.device}})
        && learn_prototype(storage)
        && learn_slots(world.meta, {{"shape", &m.shape}, {"dtype", &m.dtype}, {"device", &m.device}});
    if (!learned) return nullptr;
    Py_RETURN_NONE;
}

static PyObject* py_plain(PyObject*, PyObject* args) {
    PyObject *first, *second = nullptr;
    if (!PyArg_ParseTuple(args, "O!|O!", &PyType_Type, &first, &PyType_Type, &second)) return nullptr;
    world.plain[1] = (PyTypeObject*)Py_NewRef(first);
    if (second) world.plain[2] = (PyTypeObject*)Py_NewRef(second);
    Py_RETURN_NONE;
}

static PyObject* py_ensure_storage(PyObject*, PyObject* t) { return Py_XNewRef(ensure_storage(t)); }

static PyObject* py_inference(PyObject*, PyObject* mode) {
    inference_mode = mode == Py_True;
    world.api->set_output_view(inference_mode ? world.inference_view : nullptr);
    Py_RETURN_NONE;
}

static PyObject* py_fresh_view(PyObject*, PyObject*) {
    return Py_NewRef(inference_mode ? world.inference_view : Py_None);
}

static PyMethodDef methods[] = {
    {"inference", py_inference, METH_O, "inference(mode): whether this thread's new tensors are inference tensors"},
    {"function", py_function, METH_O, "function(callable): itself, which no longer binds as an attribute of a class"},
    {"fresh_view", py_fresh_view, METH_NOARGS, "fresh_view(): the `_fl_view` of a new tensor"},
    {"bind", py_bind, METH_VARARGS,
        "bind(Tensor, Node, an empty storage, Size, View, Meta, dtypes, state, cpu, SavedOutput, "
                                    "learn_needs, DATA, INFERENCE, api): learn the library's classes"},
    {"plain", py_plain, METH_VARARGS, "plain(Parameter, Buffer): subclasses whose results are plain tensors"},
    {"next_sequence", py_next_sequence, METH_NOARGS,
        "next_sequence(): the number of the next node, by time of recording"},
    {nullptr, nullptr, 0, nullptr}};

static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "flambeau.eager._call",
    "The eager call path: maps, views, recording and the engine's loop.", -1, methods};

PyMODINIT_FUNC PyInit__call() {
    import_array();
    import_umath();
    PyObject* module = PyModule_Create(&definition);
    if (!module || !add_maps(module) || !add_views(module) || !add_kernels(module) || !add_matrix(module)
        || !add_small(module) || !add_elements(module) || !add_contractions(module) || !add_draws(module) || !add_mersenne(module) || !add_layouts(module)
        || !add_pairs(module) || !add_resizing(module) || !add_losses(module) || !add_bags(module) || !add_pooling(module)
        || !add_fourier(module)
        || !add_steps(module) || !add_engine(module) || !add_attached(module) || !add_overrides(module)) {
        Py_XDECREF(module);
        return nullptr;
    }
    return module;
}
