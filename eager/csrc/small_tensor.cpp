// The callable in front of public functions with a path for small tensors, and the functions that make or fill memory:
// cat, stack, zeros and its kin, fill_, zero_, copy_.
#include "small_tensor.h"

#include <float.h>
#include <string.h>

#include <cmath>
#include <type_traits>

#include "casts.h"

namespace {

constexpr npy_intp FILLED_BYTES = 1 << 21; // up to which one thread fills memory, or puts parts together
constexpr npy_intp LINE_BYTES = 64;
constexpr npy_intp FEW_RUNS = 1 << 11;     // copies that take less time than the record's call

PyObject *device_scope, *dtype_scope; // the modules' dictionaries, which hold the defaults

// ---- cat and stack

struct Parts {
    PyObject* items[64];
    PyArrayObject* arrays[64];
    int count, type;
    bool leads; // one of them needs a gradient
};

bool read_parts(PyObject* list, Parts& p) {
    if (!list || !(PyTuple_CheckExact(list) || PyList_CheckExact(list))) return false;
    Py_ssize_t n = PySequence_Fast_GET_SIZE(list);
    if (n < 1 || n > 64) return false;
    p.count = (int)n, p.leads = false;
    for (int k = 0; k < p.count; k++) {
        PyObject* x = p.items[k] = PySequence_Fast_GET_ITEM(list, k);
        p.arrays[k] = dense_array(x);
        if (!p.arrays[k] || PyArray_SIZE(p.arrays[k]) == 0) return false;
        int type = type_of(x);
        if (type < 0 || (k && type != p.type)) return false;
        p.type = type, p.leads = p.leads || needs_grad(x);
    }
    return true;
}

bool same_sizes(const Parts& p, int but) {
    for (int k = 1; k < p.count; k++) {
        if (PyArray_NDIM(p.arrays[k]) != PyArray_NDIM(p.arrays[0])) return false;
        for (int d = 0; d < PyArray_NDIM(p.arrays[0]); d++)
            if (d != but && PyArray_DIM(p.arrays[k], d) != PyArray_DIM(p.arrays[0], d)) return false;
    }
    return true;
}

// The record's own call, for what is recorded or large: it knows nothing to check.
PyObject* call_record(const Call& c, const Parts& p, int dim) {
    Ref parts(PyTuple_New(p.count)), d(PyLong_FromLong(dim));
    if (!parts || !d) return nullptr;
    for (int k = 0; k < p.count; k++) PyTuple_SET_ITEM(parts.get(), k, Py_NewRef(p.items[k]));
    PyObject* given[] = {parts.get(), d.get()};
    return PyObject_Vectorcall(c.self->head.op, given, 2, nullptr);
}

// Parts side by side along `dim` of a result of these sizes.
PyObject* joined(const Call& c, const Parts& p, int dim, int dims, const npy_intp* sizes) {
    npy_intp bytes = world.types[p.type].itemsize, outer = 1;
    for (int d = 0; d < dims; d++) bytes *= sizes[d];
    for (int d = 0; d < dim; d++) outer *= sizes[d];
    // (many short runs are worth a copy each in small memory only)
    bool short_runs = bytes / outer < 256 * p.count && outer * p.count > FEW_RUNS;
    if ((p.leads && c.grad) || bytes > FILLED_BYTES || (bytes > SMALL_BYTES && short_runs))
        return call_record(c, p, dim);
    PyObject* array = fresh_array(p.type, dims, sizes, nullptr);
    if (!array) return nullptr;
    char* out = (char*)PyArray_DATA((PyArrayObject*)array);
    for (npy_intp o = 0; o < outer; o++)
        for (int k = 0; k < p.count; k++) {
            npy_intp run = PyArray_NBYTES(p.arrays[k]) / outer;
            memcpy(out, (const char*)PyArray_DATA(p.arrays[k]) + o * run, run);
            out += run;
        }
    return tensor_around(array, p.type);
}

PyObject* cat(const Call& c) {
    static const Names<2> names("tensors", "dim");
    PyObject* a[2];
    Parts p;
    int dim = 0;
    if (!parse(c, names, a) || !read_parts(a[0], p)) return nullptr;
    int dims = PyArray_NDIM(p.arrays[0]);
    if (!dims || (a[1] && !small_dim(a[1], dims, dim)) || !same_sizes(p, dim)) return nullptr;
    npy_intp sizes[MAX_DIMS];
    for (int d = 0; d < dims; d++) sizes[d] = PyArray_DIM(p.arrays[0], d);
    for (int k = 1; k < p.count; k++) sizes[dim] += PyArray_DIM(p.arrays[k], dim);
    return joined(c, p, dim, dims, sizes);
}

PyObject* stack(const Call& c) {
    static const Names<2> names("tensors", "dim");
    PyObject* a[2];
    Parts p;
    int dim = 0;
    if (!parse(c, names, a) || !read_parts(a[0], p)) return nullptr;
    int dims = PyArray_NDIM(p.arrays[0]) + 1;
    if (dims >= MAX_DIMS || (a[1] && !small_dim(a[1], dims, dim)) || !same_sizes(p, -1)) return nullptr;
    npy_intp sizes[MAX_DIMS];
    for (int d = 0; d < dims; d++)
        sizes[d] = d == dim ? p.count : PyArray_DIM(p.arrays[0], d < dim ? d : d - 1);
    return joined(c, p, dim, dims, sizes);
}

// ---- filling

FB_EACH_MACHINE void repeat_words(uint32_t* out, npy_intp n, uint32_t value) {
    for (npy_intp k = 0; k < n; k++) out[k] = value;
}
FB_EACH_MACHINE void repeat_longs(uint64_t* out, npy_intp n, uint64_t value) {
    for (npy_intp k = 0; k < n; k++) out[k] = value;
}
template <class T> void repeat(void* out, npy_intp n, T value) {
    std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t> bits;
    memcpy(&bits, &value, sizeof bits);
    if constexpr (sizeof(T) == 4) repeat_words((uint32_t*)out, n, bits);
    else repeat_longs((uint64_t*)out, n, bits);
}

// A Python number into every element, where the type holds it without a conversion that Python would see.
bool fill(void* out, int type, npy_intp n, PyObject* value) {
    npy_intp whole = 0;
    bool is_whole = small_int(value, whole), truth = value == Py_True || value == Py_False;
    if ((is_whole && whole == 0) || value == Py_False) return memset(out, 0, n * world.types[type].itemsize), true;
    if (type == FLOAT32 || type == FLOAT64) {
        if (!is_whole && !truth && !PyFloat_CheckExact(value)) return false;
        double real = is_whole ? (double)whole : truth ? 1 : PyFloat_AS_DOUBLE(value);
        if (type == FLOAT32 && std::isfinite(real) && std::fabs(real) > FLT_MAX) return false;
        type == FLOAT32 ? repeat<float>(out, n, (float)real) : repeat<double>(out, n, real);
        return true;
    }
    if (type == INT64 && (is_whole || truth)) return repeat<int64_t>(out, n, truth ? 1 : whole), true;
    if (type == BOOL && (is_whole || truth)) return memset(out, 1, n), true;
    if (type == INT32 && is_whole && whole == (int32_t)whole) return repeat<int32_t>(out, n, (int32_t)whole), true;
    if ((type == UINT8 || type == INT8) && is_whole && whole == (whole & 127)) return memset(out, (int)whole, n), true;
    return false;
}

// A target of a write that no record, view or reader could refuse.
PyArrayObject* writable(PyObject* x, bool grad) {
    PyArrayObject* a = dense_array(x);
    if (!a || !PyArray_ISWRITEABLE(a) || (grad && needs_grad(x)) || type_of(x) < 0) return nullptr;
    return small_refusable(x, grad) ? nullptr : a;
}

PyObject* filled(PyObject* x, PyObject* value, bool grad) {
    PyArrayObject* a = writable(x, grad);
    if (!a || PyArray_NBYTES(a) > FILLED_BYTES || !fill(PyArray_DATA(a), type_of(x), PyArray_SIZE(a), value))
        return small_fill_strided(x, value, grad);
    return bump(x) ? Py_NewRef(x) : nullptr;
}

PyObject* fill_in_place(const Call& c) { return c.n == 2 && !c.names ? filled(c.args[0], c.args[1], c.grad) : nullptr; }

PyObject* zero_in_place(const Call& c) {
    static PyObject* zero = PyLong_FromLong(0);
    return c.n == 1 && !c.names ? filled(c.args[0], zero, c.grad) : nullptr;
}

// Memory that does not overlap, by all threads where it is large.
struct Moved {
    char* to;
    const char* from;
    npy_intp bytes;
};
void move_part(void* raw, long begin, long end, int) {
    const Moved& m = *(const Moved*)raw;
    memcpy(m.to + begin * LINE_BYTES, m.from + begin * LINE_BYTES, std::min(m.bytes, end * LINE_BYTES) - begin * LINE_BYTES);
}
void move_bytes(char* to, const char* from, npy_intp bytes) {
    if (bytes <= FILLED_BYTES || to == from) {
        memmove(to, from, bytes);
        return;
    }
    Moved m = {to, from, bytes};
    Py_BEGIN_ALLOW_THREADS
    world.api->runtime->parallel_for(move_part, &m, (bytes + LINE_BYTES - 1) / LINE_BYTES, FILLED_BYTES / LINE_BYTES / 2);
    Py_END_ALLOW_THREADS
}

PyObject* copy_in_place(const Call& c) {
    if (c.n != 2 || c.names || !is_plain(c.args[0])) return nullptr;
    if (!is_tensor(c.args[1])) return filled(c.args[0], c.args[1], c.grad);
    PyArrayObject *a = writable(c.args[0], c.grad), *b = dense_array(c.args[1]);
    if (!a || !b || (c.grad && needs_grad(c.args[1])) || type_of(c.args[0]) != type_of(c.args[1])
        || PyArray_NDIM(a) != PyArray_NDIM(b) || !PyArray_CompareLists(PyArray_DIMS(a), PyArray_DIMS(b), PyArray_NDIM(a)))
        return small_copy_strided(c.args[0], c.args[1], c.grad);
    char *to = (char*)PyArray_DATA(a), *from = (char*)PyArray_DATA(b);
    npy_intp bytes = PyArray_NBYTES(a);
    if (to != from && to < from + bytes && from < to + bytes) return nullptr; // (refused in Python)
    move_bytes(to, from, bytes);
    return bump(c.args[0]) ? Py_NewRef(c.args[0]) : nullptr;
}

// ---- new tensors

int number_of(PyObject* dtype) {
    for (int k = 0; k < TYPES; k++)
        if (world.types[k].object == dtype) return k;
    return -1;
}

// No fakes are made, and the device is this one.
bool here(PyObject* device) {
    static PyObject *fake = PyUnicode_InternFromString("fake"), *name = PyUnicode_InternFromString("_default");
    if (state_field(fake) != Py_False) return false;
    return absent(device) ? PyDict_GetItem(device_scope, name) == world.cpu : device == world.cpu;
}

int default_type() {
    static PyObject* name = PyUnicode_InternFromString("_default");
    return number_of(PyDict_GetItem(dtype_scope, name));
}

}

bool small_factory(PyObject* dtype, PyObject* device, PyObject* requires_grad) {
    return (!requires_grad || requires_grad == Py_False) && (absent(dtype) || number_of(dtype) >= 0) && here(device);
}
int small_type(PyObject* dtype) { return absent(dtype) ? default_type() : number_of(dtype); }
bool small_element(void* out, int type, PyObject* value) {
    // (whole types take the whole part)
    if (PyFloat_CheckExact(value) && world.types[type].category == 1 && PyFloat_AS_DOUBLE(value) >= 0 && PyFloat_AS_DOUBLE(value) < 128) {
        Ref whole(PyLong_FromDouble(PyFloat_AS_DOUBLE(value)));
        return whole && fill(out, type, 1, whole.get());
    }
    return fill(out, type, 1, value);
}

namespace {

// The keywords of a factory: dtype, device, requires_grad=False.
bool read_options(const Call& c, int& type, PyObject*& device) {
    static const Names<3> names("dtype", "device", "requires_grad");
    Call keywords = {c.self, c.args + c.n, 0, c.names, c.grad};
    PyObject* a[3];
    if (!parse(keywords, names, a) || !small_factory(a[0], a[1], a[2])) return false;
    if (!absent(a[0])) type = number_of(a[0]);
    device = a[1];
    return true;
}

struct Sizes {
    npy_intp n[MAX_DIMS], total;
    int count;
};

bool read_sizes(PyObject* const* args, Py_ssize_t n, Sizes& s) {
    if (n == 1 && (PyTuple_Check(args[0]) || PyList_CheckExact(args[0]))) {
        PyObject* list = args[0];
        n = PySequence_Fast_GET_SIZE(list), args = PySequence_Fast_ITEMS(list);
    } else if (!n) return false;
    if (n >= MAX_DIMS) return false;
    s.count = (int)n, s.total = 1;
    for (int k = 0; k < s.count; k++) {
        if (!small_int(args[k], s.n[k]) || s.n[k] < 0 || s.n[k] > SMALL_BYTES) return false;
        s.total *= s.n[k];
        if (s.total > SMALL_BYTES) return false;
    }
    return true;
}

// `value` null: as the memory is
PyObject* made(const Sizes& s, int type, PyObject* value) {
    if (type < 0 || s.total * world.types[type].itemsize > SMALL_BYTES) return nullptr;
    Ref array(fresh_array(type, s.count, s.n, nullptr));
    if (!array || (value && !fill(PyArray_DATA((PyArrayObject*)array.get()), type, s.total, value))) return nullptr;
    return tensor_around(array.release(), type);
}

PyObject* clone(const Call& c) {
    PyArrayObject* a = c.n == 1 && !c.names ? dense_array(c.args[0]) : nullptr;
    int type = a ? type_of(c.args[0]) : -1;
    if (type < 0 || (c.grad && needs_grad(c.args[0]))) return nullptr;
    PyObject* array = fresh_array(type, PyArray_NDIM(a), PyArray_DIMS(a), nullptr);
    if (!array) return nullptr;
    move_bytes((char*)data_of(array), (const char*)PyArray_DATA(a), PyArray_NBYTES(a));
    return tensor_around(array, type);
}

PyObject* constant(int value) {
    static PyObject *zero = PyLong_FromLong(0), *one = PyLong_FromLong(1);
    return value < 0 ? nullptr : value ? one : zero;
}

template <int value> PyObject* from_sizes(const Call& c) {
    Sizes s;
    int type = default_type();
    PyObject* device;
    return read_options(c, type, device) && read_sizes(c.args, c.n, s) ? made(s, type, constant(value)) : nullptr;
}

PyObject* full(const Call& c) {
    if (c.n != 2 || PyLong_Check(c.args[0])) return nullptr;
    PyObject *value = c.args[1], *device;
    Sizes s;
    int type = PyFloat_CheckExact(value) ? default_type() : PyLong_CheckExact(value) ? INT64 : BOOL;
    return read_options(c, type, device) && read_sizes(c.args, 1, s) ? made(s, type, value) : nullptr;
}

// In the sizes of the first argument (`like`), or of its type.
template <int value, bool like> PyObject* from_tensor(const Call& c) {
    PyArrayObject* a = c.n >= 1 ? dense_array(c.args[0]) : nullptr;
    Sizes s;
    int type = a ? type_of(c.args[0]) : -1;
    PyObject* device;
    if (type < 0 || !read_options(c, type, device) || (like ? c.n != 1 : !read_sizes(c.args + 1, c.n - 1, s)))
        return nullptr;
    if (like) {
        s.count = PyArray_NDIM(a), s.total = PyArray_SIZE(a);
        memcpy(s.n, PyArray_DIMS(a), s.count * sizeof(npy_intp));
    }
    return made(s, type, constant(value));
}

}

int small_default_type() { return default_type(); }
bool small_options(const Call& c, int& type, PyObject*& device) { return read_options(c, type, device); }
bool small_sizes(PyObject* const* args, Py_ssize_t n, npy_intp* sizes, int& dims, npy_intp& total) {
    Sizes s;
    if (!read_sizes(args, n, s)) return false;
    memcpy(sizes, s.n, s.count * sizeof(npy_intp));
    dims = s.count, total = s.total;
    return true;
}
PyArrayObject* small_writable(PyObject* x, bool grad) { return writable(x, grad); }

static KeptRecord kept_records[] = {{"max_dim"}, {"min_dim"}, {"index"}, {"var_mean"}, {"group_norm"}, {"batch_norm"},
    {"batch_norm_eval"}, {"layer_norm"}, {"fft_c2c"}, {"fft_r2c"}, {"contract"}, {"cross"},
    {"kron"}, {"mul"}, {"scatter_extreme"}, {"logcumsumexp"}, {"attention"}, {nullptr}};

KeptRecord* kept_record(const char* name) {
    KeptRecord* k = kept_records;
    while (k->name && strcmp(k->name, name)) k++;
    return k;
}

namespace {

// keep({name: record}): all records that handlers name
PyObject* py_keep(PyObject*, PyObject* records) {
    if (!PyDict_Check(records)) return PyErr_Format(PyExc_TypeError, "keep() takes a dictionary");
    for (KeptRecord* k = kept_records; k->name; k++) {
        PyObject* op = PyDict_GetItemString(records, k->name);
        if (!op) return PyErr_Format(PyExc_ValueError, "no record %s", k->name);
        k->op = Py_NewRef(op);
    }
    Py_RETURN_NONE;
}

// ---- the callable

// `out=` of a tensor in the result's sizes and type: the result without it, copied into it. All else is Python's.
PyObject* call_with_out(const Call& c) {
    static PyObject* name = PyUnicode_InternFromString("out");
    constexpr Py_ssize_t MANY = 16;
    Py_ssize_t count = PyTuple_GET_SIZE(c.names), at = 0;
    while (at < count && PyTuple_GET_ITEM(c.names, at) != name) at++;
    if (at == count || c.n + count > MANY) return nullptr;
    PyObject *out = c.args[c.n + at], *given[MANY];
    PyArrayObject* a = writable(out, c.grad);
    if (!a) return nullptr;
    Ref others(count > 1 ? PyTuple_New(count - 1) : nullptr);
    if (count > 1 && !others) return nullptr;
    std::copy(c.args, c.args + c.n, given);
    for (Py_ssize_t k = 0, to = 0; k < count; k++) {
        if (k == at) continue;
        given[c.n + to] = c.args[c.n + k];
        PyTuple_SET_ITEM(others.get(), to++, Py_NewRef(PyTuple_GET_ITEM(c.names, k)));
    }
    Ref result(c.self->handler({c.self, given, c.n, others.get(), c.grad}));
    PyArrayObject* b = result && is_tensor(result.get()) ? dense_array(result.get()) : nullptr;
    if (!b || (c.grad && needs_grad(result.get())) || type_of(out) != type_of(result.get()) || PyArray_NDIM(a) != PyArray_NDIM(b)
        || !PyArray_CompareLists(PyArray_DIMS(a), PyArray_DIMS(b), PyArray_NDIM(a)))
        return nullptr;
    PyObject* pair[] = {out, result.get()};
    return copy_in_place({c.self, pair, 2, nullptr, c.grad});
}

PyObject* call_small(PyObject* raw, PyObject* const* args, size_t nargsf, PyObject* names) {
    Small* self = (Small*)raw;
    Thread thread;
    PyObject* out = nullptr;
    if (read_state(thread) && thread.quick) {
        Call call = {self, args, PyVectorcall_NARGS(nargsf), names, thread.grad};
        out = self->handler(call);
        if (!out && names && self->takes_out) out = call_with_out(call);
    }
    return out ? out : fall_back(&self->head, args, nargsf, names);
}

void dealloc_small(PyObject* raw) {
    PyObject_GC_UnTrack(raw);
    clear_attributes(&((Small*)raw)->head);
    Py_CLEAR(((Small*)raw)->pair);
    Py_TYPE(raw)->tp_free(raw);
}

PyTypeObject SmallType = {PyVarObject_HEAD_INIT(nullptr, 0)};

// `of_tensors`: whether the handler computes from tensors alone, so that a call that is declined behind it may be made again.
SmallHandler handler_of(const char* name, bool& of_tensors) {
    for (const SmallEntry* table : {small_reductions, small_builders, small_lookups, small_draws, small_layouts, small_compounds,
             small_pairs, small_resizing, small_elements, small_moments, small_fourier,
             small_contractions, small_scatters, small_ordering, small_writes, small_losses, small_bags, small_pooling, small_factors, small_convolutions})
        for (const SmallEntry* entry = table; entry->name; entry++)
            if (!strcmp(entry->name, name)) {
                of_tensors = table != small_draws && table != small_builders && table != small_writes;
                return entry->handler;
            }
    return nullptr;
}

// small(name, slow, record or None, named tuple or None, whether it may be given `out=`)
PyObject* py_small(PyObject*, PyObject* args) {
    const char* name;
    PyObject *slow, *op, *pair;
    int takes_out;
    if (!PyArg_ParseTuple(args, "sOOOp", &name, &slow, &op, &pair, &takes_out)) return nullptr;
    bool of_tensors = false;
    SmallHandler handler = handler_of(name, of_tensors);
    if (!handler) return PyErr_Format(PyExc_ValueError, "no function %s", name);
    Small* self = (Small*)SmallType.tp_alloc(&SmallType, 0);
    if (!self) return nullptr;
    self->head.vectorcall = call_small;
    self->head.op = Py_NewRef(op), self->head.slow = Py_NewRef(slow);
    self->handler = handler, self->pair = Py_NewRef(pair);
    self->takes_out = takes_out && of_tensors;
    return (PyObject*)self;
}

PyObject* py_defaults(PyObject*, PyObject* args) {
    PyObject *device, *dtype;
    if (!PyArg_ParseTuple(args, "O!O!", &PyDict_Type, &device, &PyDict_Type, &dtype)) return nullptr;
    device_scope = Py_NewRef(device), dtype_scope = Py_NewRef(dtype);
    Py_RETURN_NONE;
}

PyMethodDef functions[] = {
    {"small", py_small, METH_VARARGS, "small(name, slow, record, pair, takes_out): a public function with a path for small tensors"},
    {"keep", py_keep, METH_O, "keep({name: record}): the records that native functions name"},
    {"defaults", py_defaults, METH_VARARGS, "defaults(device, dtype): the scopes in which `_default` is looked up"},
    {nullptr, nullptr, 0, nullptr}};

}

const SmallEntry small_builders[] = {{"cat", cat}, {"stack", stack}, {"fill_", fill_in_place}, {"zero_", zero_in_place},
    {"copy_", copy_in_place}, {"clone", clone}, {"zeros", from_sizes<0>}, {"ones", from_sizes<1>}, {"empty", from_sizes<-1>},
    {"full", full}, {"zeros_like", from_tensor<0, true>}, {"ones_like", from_tensor<1, true>},
    {"empty_like", from_tensor<-1, true>}, {"new_zeros", from_tensor<0, false>}, {"new_ones", from_tensor<1, false>},
    {"new_empty", from_tensor<-1, false>}, {nullptr, nullptr}};

bool add_small(PyObject* module) {
    return ready_callable(SmallType, "flambeau.eager._call.Small", sizeof(Small), dealloc_small)
        && PyModule_AddFunctions(module, functions) == 0;
}
