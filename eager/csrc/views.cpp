// Views: the stride rules of the common view records in C++, and the spellings that amount to a few of them (indexing
// by ints and slices, chunk, split, transpose, ...). Records without a rule here have theirs called in Python.
#include "index.h"

#include <string.h>

namespace {

enum Rule { CALLED, SELECT, SLICE, TRANSPOSE, PERMUTE, UNSQUEEZE, SQUEEZE, RESIZE, EXPAND, SAME, RULES };

struct ViewCall {
    Attributes head;
    PyObject* function; // the stride rule
    int arguments, rule;
    bool remembered; // the output is a view for autograd (not detach)
    NeedsTable needs;
};

ViewCall* records[RULES]; // by rule, for the spellings
ViewCall* detach_record;

struct Geometry {
    int dims;
    npy_intp sizes[MAX_DIMS], strides[MAX_DIMS], offset; // in elements
};

// False: not for this path (an error may be set).
bool as_int(PyObject* x, npy_intp& out) {
    if (!PyLong_CheckExact(x)) return false;
    out = PyLong_AsSsize_t(x);
    return out != -1 || !PyErr_Occurred() || (PyErr_Clear(), false);
}

bool as_ints(PyObject* x, npy_intp* out, int& count) {
    if (!PyTuple_Check(x) || PyTuple_GET_SIZE(x) > MAX_DIMS) return false;
    count = (int)PyTuple_GET_SIZE(x);
    for (int k = 0; k < count; k++)
        if (!as_int(PyTuple_GET_ITEM(x, k), out[k])) return false;
    return true;
}

void drop_dim(Geometry& g, int d) {
    for (int k = d; k + 1 < g.dims; k++) g.sizes[k] = g.sizes[k + 1], g.strides[k] = g.strides[k + 1];
    g.dims--;
}

npy_intp count_of(const npy_intp* sizes, int dims) {
    npy_intp n = 1;
    for (int d = 0; d < dims; d++) n *= sizes[d];
    return n;
}

void row_major(Geometry& g) {
    npy_intp step = 1;
    for (int d = g.dims - 1; d >= 0; d--) {
        g.strides[d] = step;
        if (g.sizes[d] > 1) step *= g.sizes[d];
    }
}

bool is_row_major(const Geometry& g) {
    npy_intp step = 1;
    for (int d = g.dims - 1; d >= 0; d--) {
        if (g.strides[d] != step) return false;
        if (g.sizes[d] > 1) step *= g.sizes[d];
    }
    return true;
}

// Strides that show the memory under new sizes; false where only a copy could, or the sizes do not fit.
bool resize(Geometry& g, const npy_intp* size, int count) {
    npy_intp total = count_of(g.sizes, g.dims);
    for (int d = 0; d < count; d++)
        if (size[d] < 0) return false;
    if (count_of(size, count) != total || !total) return false;
    Geometry out = g;
    out.dims = count;
    memcpy(out.sizes, size, sizeof(npy_intp) * count);
    if (is_row_major(g)) {
        row_major(out);
    } else {
        int at = count - 1;
        npy_intp step = g.dims ? g.strides[g.dims - 1] : 1, have = 1, wanted = 1;
        for (int d = g.dims - 1; d >= 0; d--) {
            wanted *= g.sizes[d];
            if (d > 0 && (g.sizes[d - 1] == 1 || g.strides[d - 1] == wanted * step)) continue;
            while (at >= 0 && (have < wanted || size[at] == 1)) {
                out.strides[at] = have * step;
                have *= size[at--];
            }
            if (have != wanted) return false;
            step = d ? g.strides[d - 1] : 1, have = wanted = 1;
        }
        if (at >= 0) return false;
    }
    g = out;
    return true;
}

bool transpose(Geometry& g, npy_intp a, npy_intp b) {
    if (a < 0 || b < 0 || a >= g.dims || b >= g.dims) return false;
    std::swap(g.sizes[a], g.sizes[b]);
    std::swap(g.strides[a], g.strides[b]);
    return true;
}

bool expand(Geometry& g, const npy_intp* size, int count) {
    int lead = count - g.dims;
    if (lead < 0) return false;
    Geometry out = g;
    out.dims = count;
    for (int d = 0; d < count; d++) {
        out.sizes[d] = size[d];
        out.strides[d] = d < lead || (g.sizes[d - lead] == 1 && size[d] != 1) ? 0 : g.strides[d - lead];
        if (size[d] < 0 || (d >= lead && g.sizes[d - lead] != size[d] && g.sizes[d - lead] != 1)) return false;
    }
    g = out;
    return true;
}

// The rule of a record on canonical arguments. False: Python's rule decides (or complains).
bool apply_rule(int rule, Geometry& g, PyObject* const* args) {
    npy_intp a = 0, b = 0, c = 0, d = 0, list[MAX_DIMS];
    int count = 0;
    switch (rule) {
    case SELECT:
        if (!as_int(args[0], a) || !as_int(args[1], b) || a < 0 || a >= g.dims || b < 0
            || b >= g.sizes[a]) return false;
        g.offset += g.strides[a] * b;
        drop_dim(g, (int)a);
        return true;
    case SLICE: // dim, start, step, length
        if (!as_int(args[0], a) || !as_int(args[1], b) || !as_int(args[2], c) || !as_int(args[3], d)) return false;
        if (a < 0 || a >= g.dims || b < 0 || c < 1 || d < 1 || b + (d - 1) * c >= g.sizes[a]) return false;
        g.offset += g.strides[a] * b;
        g.sizes[a] = d, g.strides[a] *= c;
        return true;
    case TRANSPOSE: return as_int(args[0], a) && as_int(args[1], b) && transpose(g, a, b);
    case PERMUTE: {
        if (!as_ints(args[0], list, count) || count != g.dims) return false;
        Geometry out = g;
        unsigned seen = 0;
        for (int k = 0; k < count; k++) {
            if (list[k] < 0 || list[k] >= count || seen >> list[k] & 1) return false;
            seen |= 1u << list[k];
            out.sizes[k] = g.sizes[list[k]], out.strides[k] = g.strides[list[k]];
        }
        g = out;
        return true;
    }
    case UNSQUEEZE:
        if (!as_int(args[0], a) || a < 0 || a > g.dims || g.dims + 1 >= MAX_DIMS) return false;
        b = a < g.dims ? g.sizes[a] * g.strides[a] : 1;
        for (int k = g.dims; k > a; k--) g.sizes[k] = g.sizes[k - 1], g.strides[k] = g.strides[k - 1];
        g.sizes[a] = 1, g.strides[a] = b, g.dims++;
        return true;
    case SQUEEZE:
        if (!as_ints(args[0], list, count)) return false;
        for (int k = g.dims - 1; k >= 0; k--)
            for (int j = 0; j < count; j++)
                if (list[j] == k) {
                    drop_dim(g, k);
                    break;
                }
        return true;
    case RESIZE: return as_ints(args[0], list, count) && resize(g, list, count);
    case EXPAND: return as_ints(args[0], list, count) && expand(g, list, count);
    case SAME: return true;
    default: return false;
    }
}

// The geometry of a tensor with storage (in elements).
void geometry_of(PyObject* x, PyArrayObject* a, Geometry& g) {
    g.dims = PyArray_NDIM(a);
    int step = (int)PyArray_ITEMSIZE(a);
    for (int d = 0; d < g.dims; d++) g.sizes[d] = PyArray_DIM(a, d), g.strides[d] = PyArray_STRIDE(a, d) / step;
    g.offset = 0;
}

// The rule called in Python: rule(sizes, strides, *arguments) -> (sizes, strides, offset). False with or without an
// error.
bool call_rule(ViewCall* v, Geometry& g, PyObject* const* args) {
    Ref sizes(tuple_of(g.sizes, g.dims)), strides(tuple_of(g.strides, g.dims));
    if (!sizes || !strides) return false;
    PyObject* given[MAX_ARGS + 2] = {sizes.get(), strides.get()};
    for (int k = 0; k + 1 < v->arguments; k++) given[k + 2] = args[k];
    Ref answer(PyObject_Vectorcall(v->function, given, v->arguments + 1, nullptr));
    npy_intp list[MAX_DIMS], more;
    int count, steps;
    if (!answer || !PyTuple_Check(answer.get()) || PyTuple_GET_SIZE(answer.get()) != 3
        || !as_ints(PyTuple_GET_ITEM(answer.get(), 0), list, count)
        || !as_int(PyTuple_GET_ITEM(answer.get(), 2), more))
        return false;
    memcpy(g.sizes, list, sizeof list);
    g.offset += more, g.dims = count;
    return as_ints(PyTuple_GET_ITEM(answer.get(), 1), g.strides, steps) && steps == count;
}

bool remember(PyObject* storage, PyObject* out) { // Storage.add_view
    PyObject* views = slot(storage, world.s.views);
    PyObject* pruned = slot(storage, world.s.pruned);
    if (views == Py_None || !pruned || PyList_GET_SIZE(views) > PyLong_AsSsize_t(pruned)) {
        static PyObject* name = PyUnicode_InternFromString("add_view");
        Ref done(PyObject_CallMethodOneArg(storage, name, out));
        return (bool)done;
    }
    Ref reference(PyWeakref_NewRef(out, nullptr));
    return reference && PyList_Append(views, reference.get()) == 0;
}

// `how` a view came about, where that forbids recorded writes through it: views of such views inherit it.
PyObject* how_made(PyObject* parent, bool grad) {
    PyObject* above = slot(parent, world.t.view);
    if (above != Py_None && PyTuple_GET_ITEM(above, 3) != Py_None) return PyTuple_GET_ITEM(above, 3);
    return grad ? Py_None : inference_mode ? world.inference : world.no_grad;
}

PyObject* view_of(PyObject* parent, PyObject* op, PyObject* const* args, int count, bool grad) {
    PyObject* view = world.view->tp_alloc(world.view, 4);
    PyObject* rest = PyTuple_New(count);
    if (!view || !rest) return nullptr;
    for (int k = 0; k < count; k++) PyTuple_SET_ITEM(rest, k, Py_NewRef(args[k]));
    PyTuple_SET_ITEM(view, 0, Py_NewRef(parent));
    PyTuple_SET_ITEM(view, 1, Py_NewRef(op));
    PyTuple_SET_ITEM(view, 2, rest);
    PyTuple_SET_ITEM(view, 3, Py_NewRef(how_made(parent, grad)));
    return view;
}

// A tensor with this geometry (offset relative to the parent's first element) over the parent's bytes.
PyObject* over(PyObject* x, PyArrayObject* a, PyObject* storage, Geometry& g) {
    int item = (int)PyArray_ITEMSIZE(a);
    npy_intp bytes[MAX_DIMS];
    for (int d = 0; d < g.dims; d++) bytes[d] = g.strides[d] * item;
    Py_INCREF(PyArray_DESCR(a));
    PyObject* array = PyArray_NewFromDescr(&PyArray_Type, PyArray_DESCR(a), g.dims, g.sizes, bytes,
        (char*)PyArray_DATA(a) + g.offset * item, PyArray_FLAGS(a) & NPY_ARRAY_WRITEABLE, nullptr);
    if (!array) return nullptr;
    if (PyArray_SetBaseObject((PyArrayObject*)array, Py_NewRef(slot(storage, world.s.bytes)))) {
        Py_DECREF(array);
        return nullptr;
    }
    Ref out(new_tensor(array, slot(x, world.t.dtype)));
    Ref sizes(tuple_of(g.sizes, g.dims)), strides(tuple_of(g.strides, g.dims)), geometry(PyTuple_New(3));
    if (!out || !sizes || !strides || !geometry) return nullptr;
    npy_intp start = PyLong_AsSsize_t(PyTuple_GET_ITEM(slot(x, world.t.geometry), 2));
    PyTuple_SET_ITEM(geometry.get(), 0, sizes.release());
    PyTuple_SET_ITEM(geometry.get(), 1, strides.release());
    PyTuple_SET_ITEM(geometry.get(), 2, PyLong_FromSsize_t(start + g.offset));
    slot(out.get(), world.t.geometry) = geometry.release();
    reset(out.get(), world.t.storage, Py_NewRef(storage));
    return out.release();
}

PyArrayObject* plain_array(PyObject* x) { // of a tensor for this path, else null
    PyArrayObject* a = is_plain(x) && is_cpu(x) ? array_of(x) : nullptr;
    return a && PyArray_NBYTES(a) && PyArray_NDIM(a) < MAX_DIMS && type_of(x) >= 0 ? a : nullptr;
}

// record(x, *args). Null without an error: not for this path.
PyObject* make_view(ViewCall* v, PyObject* x, PyObject* const* args, bool grad) {
    PyArrayObject* a = plain_array(x);
    if (!v || !a) return nullptr;
    Geometry g;
    geometry_of(x, a, g);
    if (v->rule == CALLED ? !call_rule(v, g, args) : !apply_rule(v->rule, g, args)) {
        PyErr_Clear(); // Python's path raises it
        return nullptr;
    }
    if (!count_of(g.sizes, g.dims)) return nullptr;
    PyObject* storage = ensure_storage(x);
    Ref out(storage ? over(x, a, storage, g) : nullptr);
    if (!out) return nullptr;
    if (grad && v->remembered && needs_grad(x)) {
        PyObject* all[MAX_ARGS] = {x};
        for (int k = 0; k + 1 < v->arguments; k++) all[k + 1] = args[k];
        if (!record(v->head.op, v->needs, all, v->arguments, 1, out.get())) return nullptr;
    }
    if (v->remembered) {
        PyObject* view = view_of(x, v->head.op, args, v->arguments - 1, grad);
        if (!view) return nullptr;
        reset(out.get(), world.t.view, view);
        if (grad && !remember(storage, out.get())) return nullptr;
    } else if (slot(x, world.t.view) != Py_None || inference_mode) {
        PyObject* own = root_view(x) == world.inference_view ? world.inference_view : Py_None;
        reset(out.get(), world.t.view, Py_NewRef(own));
    }
    return out.release();
}

PyObject* call_view(PyObject* raw, PyObject* const* args, size_t nargsf, PyObject* names) {
    ViewCall* v = (ViewCall*)raw;
    Thread thread;
    PyObject* out = nullptr;
    if (PyVectorcall_NARGS(nargsf) == v->arguments && !names && read_state(thread) && thread.quick)
        out = make_view(v, args[0], args + 1, thread.grad);
    return out ? out : fall_back(&v->head, args, nargsf, names);
}

void dealloc_view(PyObject* raw) {
    PyObject_GC_UnTrack(raw);
    clear_attributes(&((ViewCall*)raw)->head);
    Py_CLEAR(((ViewCall*)raw)->function);
    Py_TYPE(raw)->tp_free(raw);
}

PyTypeObject ViewType = {PyVarObject_HEAD_INIT(nullptr, 0)};

// view(op, slow, rule function, arguments, rule name, remembered)
PyObject* py_view(PyObject*, PyObject* args) {
    static const char* const names[RULES]
        = {"", "select", "slice", "transpose", "permute", "unsqueeze", "squeeze", "view", "expand", "alias"};
    PyObject *op, *slow, *function;
    const char* name;
    int count, remembered;
    if (!PyArg_ParseTuple(args, "OOOisp", &op, &slow, &function, &count, &name, &remembered)) return nullptr;
    if (count < 1 || count > MAX_ARGS) return PyErr_Format(PyExc_ValueError, "a view of %d arguments", count);
    ViewCall* self = (ViewCall*)ViewType.tp_alloc(&ViewType, 0);
    if (!self) return nullptr;
    self->head.vectorcall = call_view;
    self->head.op = Py_NewRef(op), self->head.slow = Py_NewRef(slow), self->function = Py_NewRef(function);
    self->arguments = count, self->remembered = remembered, self->needs.used = 0;
    for (int k = 1; k < RULES; k++)
        if (!strcmp(name, names[k])) self->rule = k, records[k] = (ViewCall*)Py_NewRef((PyObject*)self);
    if (!strcmp(name, "detach")) self->rule = SAME, detach_record = (ViewCall*)Py_NewRef((PyObject*)self);
    return (PyObject*)self;
}

// ---- spellings: each answers null without an error for what it does not take

struct Spelling;
using Handler = PyObject* (*)(PyObject* const* args, Py_ssize_t n, bool grad);

struct Spelling {
    Attributes head;
    Handler handler;
    PyObject* keyword; // the one keyword that is taken, as the last positional argument; or null
    Py_ssize_t keyword_at;
};

PyObject* select(PyObject* x, npy_intp dim, npy_intp index, bool grad) {
    Ref d(PyLong_FromSsize_t(dim)), i(PyLong_FromSsize_t(index));
    PyObject* args[] = {d.get(), i.get()};
    return d && i ? make_view(records[SELECT], x, args, grad) : nullptr;
}

PyObject* slice(PyObject* x, npy_intp dim, npy_intp start, npy_intp step, npy_intp length, bool grad) {
    Ref a(PyLong_FromSsize_t(dim)), b(PyLong_FromSsize_t(start)), c(PyLong_FromSsize_t(step)),
        d(PyLong_FromSsize_t(length));
    PyObject* args[] = {a.get(), b.get(), c.get(), d.get()};
    return make_view(records[SLICE], x, args, grad);
}

PyObject* one_int(int rule, PyObject* x, npy_intp value, bool grad) {
    Ref number(PyLong_FromSsize_t(value));
    PyObject* args[] = {number.get()};
    return make_view(records[rule], x, args, grad);
}

PyObject* with_tuple(int rule, PyObject* x, const npy_intp* values, int count, bool grad) {
    Ref list(tuple_of(values, count));
    PyObject* args[] = {list.get()};
    return make_view(records[rule], x, args, grad);
}

bool slice_bounds(PyObject* key, npy_intp n, npy_intp& start, npy_intp& step, npy_intp& length) {
    PySliceObject* s = (PySliceObject*)key;
    npy_intp stop = n;
    start = 0, step = 1;
    if (s->step != Py_None && (!as_int(s->step, step) || step < 1)) return false;
    if (s->start != Py_None && !as_int(s->start, start)) return false;
    if (s->stop != Py_None && !as_int(s->stop, stop)) return false;
    start = start < 0 ? (start + n < 0 ? 0 : start + n) : start > n ? n : start;
    stop = stop < 0 ? (stop + n < 0 ? 0 : stop + n) : stop > n ? n : stop;
    length = stop > start ? (stop - start + step - 1) / step : 0;
    return length > 0;
}

bool is_full(PyObject* key) {
    PySliceObject* s = (PySliceObject*)key;
    return s->start == Py_None && s->stop == Py_None && s->step == Py_None;
}

// x[index] for few rows at an int64 tensor, outside of autograd: a copy.
PyObject* rows_at(PyObject* x, PyArrayObject* a, PyObject* key, bool grad) {
    PyArrayObject* index = is_plain(key) && is_cpu(key) ? array_of(key) : nullptr;
    int dims = PyArray_NDIM(a);
    if (!index || type_of(key) != INT64 || PyArray_NDIM(index) < 1 || dims < 1 || (grad && needs_grad(x))
        || PyArray_NDIM(index) + dims > MAX_DIMS || !PyArray_IS_C_CONTIGUOUS(index) || !PyArray_IS_C_CONTIGUOUS(a))
        return nullptr;
    npy_intp rows = PyArray_DIM(a, 0), run = PyArray_NBYTES(a) / rows, count = PyArray_SIZE(index), sizes[MAX_DIMS];
    if (count * run > 1 << 14) return nullptr;
    int used = 0;
    for (int d = 0; d < PyArray_NDIM(index); d++) sizes[used++] = PyArray_DIM(index, d);
    for (int d = 1; d < dims; d++) sizes[used++] = PyArray_DIM(a, d);
    const int64_t* at = (const int64_t*)PyArray_DATA(index);
    for (npy_intp k = 0; k < count; k++)
        if (at[k] >= rows || at[k] < -rows) return nullptr; // Python's path raises it
    int type = type_of(x);
    PyObject* array = fresh_array(type, used, sizes, nullptr);
    if (!array) return nullptr;
    char* out = (char*)PyArray_DATA((PyArrayObject*)array);
    for (npy_intp k = 0; k < count; k++)
        memcpy(out + k * run, (const char*)PyArray_DATA(a) + (at[k] < 0 ? at[k] + rows : at[k]) * run, run);
    return new_tensor(array, world.types[type].object);
}

// x[key] for a key of ints, slices, None and one Ellipsis, or one index tensor
PyObject* getitem(PyObject* const* args, Py_ssize_t n, bool grad) {
    PyArrayObject* a = n == 2 ? plain_array(args[0]) : nullptr;
    if (!a) return nullptr;
    PyObject *key = args[1], *const* parts = &key;
    Py_ssize_t count = 1;
    if (is_tensor(key)) {
        PyObject* rows = rows_at(args[0], a, key, grad);
        return rows || PyErr_Occurred() ? rows : index_by_tensors(args[0], &key, 1, grad);
    }
    if (PyTuple_CheckExact(key)) parts = &PyTuple_GET_ITEM(key, 0), count = PyTuple_GET_SIZE(key);
    if (count && is_tensor(parts[0])) return index_by_tensors(args[0], parts, count, grad);
    int taken = 0, ellipses = 0;
    for (Py_ssize_t k = 0; k < count; k++) {
        PyObject* part = parts[k];
        if (part == Py_Ellipsis) ellipses++;
        else if (PyLong_CheckExact(part) || PySlice_Check(part)) taken++;
        else if (part != Py_None) return nullptr;
    }
    int room = PyArray_NDIM(a) - taken;
    if (room < 0 || ellipses > 1) return nullptr;
    Ref x(Py_NewRef(args[0]));
    npy_intp d = 0;
    for (Py_ssize_t k = 0; k < count; k++) {
        PyObject *part = parts[k], *next = nullptr;
        PyArrayObject* own = array_of(x.get());
        if (part == Py_Ellipsis) {
            d += room;
            continue;
        }
        if (part == Py_None) next = one_int(UNSQUEEZE, x.get(), d++, grad);
        else if (PySlice_Check(part)) {
            npy_intp start, step, length;
            if (is_full(part)) {
                d++;
                continue;
            }
            if (!slice_bounds(part, PyArray_DIM(own, (int)d), start, step, length)) return nullptr;
            next = slice(x.get(), d++, start, step, length, grad);
        } else {
            npy_intp index, size = PyArray_DIM(own, (int)d);
            if (!as_int(part, index) || index >= size || index < -size) return nullptr;
            next = select(x.get(), d, index < 0 ? index + size : index, grad);
        }
        if (!next) return nullptr;
        x = Ref(next);
    }
    if (x.get() != args[0]) return x.release();
    return make_view(records[SAME], args[0], nullptr, grad);
}

// One of several views that a call gives.
void mark_multiple(PyObject* piece) {
    PyObject* view = slot(piece, world.t.view);
    if (view == Py_None || PyTuple_GET_ITEM(view, 3) != Py_None) return;
    PyTuple_SET_ITEM(view, 3, Py_NewRef(world.multiple));
    Py_DECREF(Py_None);
}

// pieces of one dim
PyObject* pieces(PyObject* x, npy_intp dim, npy_intp each, bool grad) {
    PyArrayObject* a = plain_array(x);
    npy_intp dims = a ? PyArray_NDIM(a) : 0;
    if (dim < 0) dim += dims;
    if (!a || !dims || dim < 0 || dim >= dims || each < 1) return nullptr;
    npy_intp total = PyArray_DIM(a, (int)dim), count = (total + each - 1) / each;
    Ref out(PyTuple_New(count));
    for (npy_intp k = 0; out && k < count; k++) {
        npy_intp start = k * each;
        PyObject* piece = slice(x, dim, start, 1, total - start < each ? total - start : each, grad);
        if (!piece) return nullptr;
        mark_multiple(piece);
        PyTuple_SET_ITEM(out.get(), k, piece);
    }
    return out.release();
}

bool optional_int(PyObject* const* args, Py_ssize_t n, Py_ssize_t k, npy_intp& value) {
    return n <= k || as_int(args[k], value);
}

PyObject* chunk(PyObject* const* args, Py_ssize_t n, bool grad) {
    npy_intp chunks, dim = 0;
    PyArrayObject* a = n == 2 || n == 3 ? plain_array(args[0]) : nullptr;
    if (!a || !as_int(args[1], chunks) || chunks < 1 || !optional_int(args, n, 2, dim)) return nullptr;
    npy_intp d = dim < 0 ? dim + PyArray_NDIM(a) : dim;
    if (d < 0 || d >= PyArray_NDIM(a)) return nullptr;
    return pieces(args[0], d, (PyArray_DIM(a, (int)d) + chunks - 1) / chunks, grad);
}

PyObject* split(PyObject* const* args, Py_ssize_t n, bool grad) {
    npy_intp each, dim = 0;
    if (n < 2 || n > 3 || !as_int(args[1], each) || !optional_int(args, n, 2, dim)) return nullptr;
    return pieces(args[0], dim, each, grad);
}

PyObject* unbind(PyObject* const* args, Py_ssize_t n, bool grad) {
    npy_intp dim = 0;
    PyArrayObject* a = n == 1 || n == 2 ? plain_array(args[0]) : nullptr;
    if (!a || !optional_int(args, n, 1, dim)) return nullptr;
    if (dim < 0) dim += PyArray_NDIM(a);
    if (dim < 0 || dim >= PyArray_NDIM(a)) return nullptr;
    Ref out(PyTuple_New(PyArray_DIM(a, (int)dim)));
    for (npy_intp k = 0; out && k < PyArray_DIM(a, (int)dim); k++) {
        PyObject* piece = select(args[0], dim, k, grad);
        if (!piece) return nullptr;
        mark_multiple(piece);
        PyTuple_SET_ITEM(out.get(), k, piece);
    }
    return out.release();
}

// (x, 1, 2, 3) or (x, (1, 2, 3)), one of the sizes -1
bool size_arguments(PyObject* const* args, Py_ssize_t n, npy_intp* out, int& count) {
    if (n == 2 && (PyTuple_Check(args[1]) || PyList_CheckExact(args[1]))) {
        if (PyTuple_Check(args[1])) return as_ints(args[1], out, count);
        Ref list(PyList_AsTuple(args[1]));
        return list && as_ints(list.get(), out, count);
    }
    if (n < 2 || n - 1 > MAX_DIMS) return false;
    count = (int)n - 1;
    for (int k = 0; k < count; k++)
        if (!as_int(args[k + 1], out[k])) return false;
    return true;
}

PyObject* reshape(PyObject* const* args, Py_ssize_t n, bool grad) {
    npy_intp size[MAX_DIMS], known = 1;
    int count, unknown = -1;
    PyArrayObject* a = n > 1 ? plain_array(args[0]) : nullptr;
    if (!a || !size_arguments(args, n, size, count)) return nullptr;
    for (int k = 0; k < count; k++) {
        if (size[k] >= 0) known *= size[k];
        else if (size[k] == -1 && unknown < 0) unknown = k;
        else return nullptr;
    }
    if (unknown >= 0) {
        if (known <= 0 || PyArray_SIZE(a) % known) return nullptr;
        size[unknown] = PyArray_SIZE(a) / known;
    }
    return with_tuple(RESIZE, args[0], size, count, grad);
}

bool dim_of(PyArrayObject* a, PyObject* given, npy_intp& d, int more = 0) {
    npy_intp dims = PyArray_NDIM(a) + more;
    if (!as_int(given, d)) return false;
    if (d < 0) d += dims;
    return d >= 0 && d < dims;
}

PyObject* flatten(PyObject* const* args, Py_ssize_t n, bool grad) {
    PyArrayObject* a = n >= 1 && n <= 3 ? plain_array(args[0]) : nullptr;
    npy_intp first = 0, last = a ? PyArray_NDIM(a) - 1 : 0;
    if (!a || last < 1 || (n > 1 && !dim_of(a, args[1], first)) || (n > 2 && !dim_of(a, args[2], last))
        || first >= last)
        return nullptr;
    npy_intp size[MAX_DIMS];
    int count = 0;
    for (int d = 0; d < PyArray_NDIM(a); d++)
        if (d > first && d <= last) size[count - 1] *= PyArray_DIM(a, d);
        else size[count++] = PyArray_DIM(a, d);
    return with_tuple(RESIZE, args[0], size, count, grad);
}

PyObject* transpose_dims(PyObject* const* args, Py_ssize_t n, bool grad) {
    PyArrayObject* a = n == 3 ? plain_array(args[0]) : nullptr;
    npy_intp first, second;
    if (!a || !dim_of(a, args[1], first) || !dim_of(a, args[2], second)) return nullptr;
    Ref x(PyLong_FromSsize_t(first)), y(PyLong_FromSsize_t(second));
    PyObject* given[] = {x.get(), y.get()};
    return make_view(records[TRANSPOSE], args[0], given, grad);
}

PyObject* t(PyObject* const* args, Py_ssize_t n, bool grad) {
    PyArrayObject* a = n == 1 ? plain_array(args[0]) : nullptr;
    if (!a || PyArray_NDIM(a) != 2) return nullptr;
    Ref x(PyLong_FromLong(0)), y(PyLong_FromLong(1));
    PyObject* given[] = {x.get(), y.get()};
    return make_view(records[TRANSPOSE], args[0], given, grad);
}

PyObject* permute_dims(PyObject* const* args, Py_ssize_t n, bool grad) {
    npy_intp dims[MAX_DIMS];
    int count;
    PyArrayObject* a = n > 1 ? plain_array(args[0]) : nullptr;
    if (!a || !size_arguments(args, n, dims, count) || count != PyArray_NDIM(a)) return nullptr;
    for (int k = 0; k < count; k++)
        if (dims[k] < 0) dims[k] += count;
    return with_tuple(PERMUTE, args[0], dims, count, grad);
}

PyObject* unsqueeze_dim(PyObject* const* args, Py_ssize_t n, bool grad) {
    PyArrayObject* a = n == 2 ? plain_array(args[0]) : nullptr;
    npy_intp d;
    return a && dim_of(a, args[1], d, 1) ? one_int(UNSQUEEZE, args[0], d, grad) : nullptr;
}

PyObject* squeeze_dim(PyObject* const* args, Py_ssize_t n, bool grad) {
    PyArrayObject* a = n == 1 || n == 2 ? plain_array(args[0]) : nullptr;
    npy_intp dims[MAX_DIMS], d;
    int count = 0;
    if (!a || (n == 2 && !dim_of(a, args[1], d))) return nullptr;
    for (int k = 0; k < PyArray_NDIM(a); k++)
        if (PyArray_DIM(a, k) == 1 && (n == 1 || d == k)) dims[count++] = k;
    return with_tuple(SQUEEZE, args[0], dims, count, grad);
}

PyObject* expand_dims(PyObject* const* args, Py_ssize_t n, bool grad) {
    npy_intp size[MAX_DIMS];
    int count;
    PyArrayObject* a = n > 1 ? plain_array(args[0]) : nullptr;
    if (!a || !size_arguments(args, n, size, count) || count < PyArray_NDIM(a)) return nullptr;
    for (int k = 0, lead = count - PyArray_NDIM(a); k < count; k++)
        if (size[k] == -1 && k >= lead) size[k] = PyArray_DIM(a, k - lead);
    return with_tuple(EXPAND, args[0], size, count, grad);
}

PyObject* select_dim(PyObject* const* args, Py_ssize_t n, bool grad) {
    PyArrayObject* a = n == 3 ? plain_array(args[0]) : nullptr;
    npy_intp d, index;
    if (!a || !dim_of(a, args[1], d) || !as_int(args[2], index)) return nullptr;
    npy_intp size = PyArray_DIM(a, (int)d);
    return index < size && index >= -size ? select(args[0], d, index < 0 ? index + size : index, grad) : nullptr;
}

PyObject* narrow(PyObject* const* args, Py_ssize_t n, bool grad) {
    PyArrayObject* a = n == 4 ? plain_array(args[0]) : nullptr;
    npy_intp d, start, length;
    if (!a || !dim_of(a, args[1], d) || !as_int(args[2], start) || !as_int(args[3], length) || start < 0 || length < 1
        || start + length > PyArray_DIM(a, (int)d))
        return nullptr;
    return slice(args[0], d, start, 1, length, grad);
}

PyObject* detach(PyObject* const* args, Py_ssize_t n, bool grad) {
    return n == 1 ? make_view(detach_record, args[0], nullptr, grad) : nullptr;
}

struct {
    const char *name, *keyword;
    Py_ssize_t at;
    Handler handler;
} const spellings[] = {{"getitem", nullptr, 0, getitem}, {"chunk", "dim", 2, chunk}, {"split", "dim", 2, split},
    {"unbind", "dim", 1, unbind}, {"view", nullptr, 0, reshape}, {"reshape", nullptr, 0, reshape},
    {"flatten", "start_dim", 1, flatten}, {"transpose", nullptr, 0, transpose_dims}, {"t", nullptr, 0, t},
    {"permute", nullptr, 0, permute_dims}, {"unsqueeze", "dim", 1, unsqueeze_dim}, {"squeeze", "dim", 1, squeeze_dim},
    {"expand", nullptr, 0, expand_dims}, {"select", nullptr, 0, select_dim}, {"narrow", nullptr, 0, narrow},
    {"detach", nullptr, 0, detach}};

PyObject* call_spelling(PyObject* raw, PyObject* const* args, size_t nargsf, PyObject* names) {
    Spelling* self = (Spelling*)raw;
    Py_ssize_t n = PyVectorcall_NARGS(nargsf);
    bool known = !names || !PyTuple_GET_SIZE(names);
    if (!known && self->keyword && PyTuple_GET_SIZE(names) == 1 && n == self->keyword_at) {
        PyObject* name = PyTuple_GET_ITEM(names, 0);
        known = name == self->keyword || PyUnicode_Compare(name, self->keyword) == 0;
        n += known; // the value stands where the positional argument would
    }
    Thread thread;
    PyObject* out = known && n && read_state(thread) && thread.quick ? self->handler(args, n, thread.grad) : nullptr;
    return out ? out : fall_back(&self->head, args, nargsf, names);
}

void dealloc_spelling(PyObject* raw) {
    PyObject_GC_UnTrack(raw);
    clear_attributes(&((Spelling*)raw)->head);
    Py_TYPE(raw)->tp_free(raw);
}

PyTypeObject SpellingType = {PyVarObject_HEAD_INIT(nullptr, 0)};

// spelling(name, slow): a public function of views, with `slow` for what it does not take
PyObject* py_spelling(PyObject*, PyObject* args) {
    const char* name;
    PyObject* slow;
    if (!PyArg_ParseTuple(args, "sO", &name, &slow)) return nullptr;
    for (const auto& each : spellings) {
        if (strcmp(each.name, name)) continue;
        Spelling* self = (Spelling*)SpellingType.tp_alloc(&SpellingType, 0);
        if (!self) return nullptr;
        self->head.vectorcall = call_spelling;
        self->head.op = Py_NewRef(Py_None), self->head.slow = Py_NewRef(slow);
        self->handler = each.handler, self->keyword_at = each.at;
        self->keyword = each.keyword ? PyUnicode_InternFromString(each.keyword) : nullptr;
        return (PyObject*)self;
    }
    return PyErr_Format(PyExc_ValueError, "no spelling %s", name);
}

// ---- sizes as properties and methods

// Of a tensor of another copy of the package, whose slots lie elsewhere.
PyObject* shape_by_names(PyObject* t) {
    Ref array(PyObject_GetAttrString(t, "_fl_array"));
    if (!array) return nullptr;
    Ref geometry(array.get() == Py_None ? PyObject_GetAttrString(t, "_fl_geometry") : nullptr);
    Ref sizes(geometry ? PySequence_GetItem(geometry.get(), 0) : PyErr_Occurred() ? nullptr : PyObject_GetAttrString(array.get(), "shape"));
    return sizes ? PyObject_CallOneArg((PyObject*)world.size, sizes.get()) : nullptr;
}

// The getter of `Tensor.shape`; the sizes of a fake are in its geometry.
PyObject* py_shape(PyObject*, PyObject* t) {
    if (!is_tensor(t)) return shape_by_names(t);
    if (PyArrayObject* a = array_of(t)) return size_of(PyArray_DIMS(a), PyArray_NDIM(a));
    PyObject *array = slot(t, world.t.array), *geometry = slot(t, world.t.geometry);
    if (!array && !geometry) return PyErr_Format(PyExc_AttributeError, "a tensor without memory");
    Ref sizes(array && array != Py_None ? PyObject_GetAttrString(array, "shape") : Py_NewRef(PyTuple_GET_ITEM(geometry, 0)));
    return sizes ? PyObject_CallOneArg((PyObject*)world.size, sizes.get()) : nullptr;
}

PyMethodDef functions[] = {
    {"view", py_view, METH_VARARGS,
        "view(op, slow, rule, arguments, name, remembered): the call path of a view record"},
    {"spelling", py_spelling, METH_VARARGS, "spelling(name, slow): a public function that amounts to views"},
    {"shape", py_shape, METH_O, "shape(tensor): its Size"}, {nullptr, nullptr, 0, nullptr}};

}

bool is_piece(PyObject* op) {
    return (records[SELECT] && op == records[SELECT]->head.op) || (records[SLICE] && op == records[SLICE]->head.op);
}

PyObject* piece_of(PyObject* op, PyObject* t, PyObject* const* args) {
    PyArrayObject* a = plain_array(t);
    Geometry g;
    if (!a) return nullptr;
    geometry_of(t, a, g);
    bool select = records[SELECT] && op == records[SELECT]->head.op;
    if (!apply_rule(select ? SELECT : SLICE, g, args)) return nullptr;
    int item = (int)PyArray_ITEMSIZE(a);
    npy_intp bytes[MAX_DIMS];
    for (int d = 0; d < g.dims; d++) bytes[d] = g.strides[d] * item;
    Py_INCREF(PyArray_DESCR(a));
    PyObject* array = PyArray_NewFromDescr(&PyArray_Type, PyArray_DESCR(a), g.dims, g.sizes, bytes,
        (char*)PyArray_DATA(a) + g.offset * item, NPY_ARRAY_WRITEABLE, nullptr);
    if (!array || PyArray_SetBaseObject((PyArrayObject*)array, Py_NewRef((PyObject*)a))) {
        Py_XDECREF(array);
        return nullptr;
    }
    return new_tensor(array, slot(t, world.t.dtype));
}

bool add_views(PyObject* module) {
    return ready_callable(ViewType, "flambeau.eager._call.View", sizeof(ViewCall), dealloc_view)
        && ready_callable(SpellingType, "flambeau.eager._call.Spelling", sizeof(Spelling), dealloc_spelling)
        && PyModule_AddFunctions(module, functions) == 0;
}
