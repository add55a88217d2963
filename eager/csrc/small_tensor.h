// Public functions that have a path of their own for small, contiguous, real tensors: what a call gives a handler, and
// how handlers read arguments. A handler answers null without an error for what it does not take.
#ifndef FB_EAGER_SMALL_H
#define FB_EAGER_SMALL_H

#include "call.h"

constexpr npy_intp SMALL_REDUCTION = 1024, SMALL_BYTES = 1 << 16;

// How much a handler does by itself: without a bound where no other thread could help.
inline npy_intp alone(npy_intp bound) { return world.api->runtime->num_threads() > 1 ? bound : (npy_intp)1 << 36; }

struct Small;
struct Call {
    Small* self;
    PyObject* const* args;
    Py_ssize_t n; // positional arguments; those of `names` follow
    PyObject* names;
    bool grad;
};
using SmallHandler = PyObject* (*)(const Call& call);

struct Small {
    Attributes head; // `op`: the record behind the function
    SmallHandler handler;
    PyObject* pair; // the named tuple of a result of two
    NeedsTable needs;
    bool takes_out; // makes a new tensor of its arguments and nothing else: `out=` may be seen to behind it
};
struct SmallEntry {
    const char* name;
    SmallHandler handler;
};
extern const SmallEntry small_reductions[], small_builders[], small_lookups[], small_draws[], small_layouts[], small_compounds[], small_pairs[],
    small_resizing[], small_elements[], small_moments[], small_norms[], small_fourier[], small_contractions[], small_scatters[],
    small_ordering[], small_writes[], small_losses[], small_bags[], small_pooling[], small_factors[],
    small_convolutions[]; // end with a null name

// A record that handlers name, with what its calls need; there once Python has given it (`keep`).
struct KeptRecord {
    const char* name;
    PyObject* op;
    NeedsTable needs;
};
KeptRecord* kept_record(const char* name);

// The handlers of sum and mean for halves, and for dims that are not side by side (compound_reductions.cpp).
PyObject* small_sum_over(const Call& c, bool mean);

// Numbers of [0, 1) as the next draw gives them; false where they are drawn elsewhere, or with an error set.
bool small_uniform(float* out, npy_intp n);

// The sum of what is no NaN, and the product, of many floats (reductions.cpp).
PyObject* large_nansum(const Call& c);
PyObject* large_prod(const Call& c);

// The sum of floats side by side, with the bits of the record's kernel (reductions.cpp).
float small_row_sum(const float* x, npy_intp n);
// The same of each row of an array of any size.
void large_row_sums(PyArrayObject* x, npy_intp rows, float* out);

// Distances of all pairs of rows, above the diagonal row by row; the GIL is given up for them.
void small_pair_distances(const float* x, npy_intp rows, npy_intp width, float* out);
// The place of one of the runtime's kernels in its tables, one for all instruction sets.
int small_job(const char* name);

// ---- what factories and writes have in common (small_tensor.cpp)
int small_default_type();
// The keywords of a factory: dtype (its number into `type`), device, requires_grad=False.
bool small_options(const Call& c, int& type, PyObject*& device);
// Sizes as arguments or as one sequence.
bool small_sizes(PyObject* const* args, Py_ssize_t n, npy_intp* sizes, int& dims, npy_intp& total);
// The same keywords one by one: False for an unusual one; the element type, -1 for none of ours.
bool small_factory(PyObject* dtype, PyObject* device, PyObject* requires_grad);
int small_type(PyObject* dtype);
// A target of a write that no record, view or reader could refuse.
PyArrayObject* small_writable(PyObject* x, bool grad);
// Whether a write may be refused because of what the target is a view of.
inline bool small_refusable(PyObject* x, bool grad) {
    PyObject *view = slot(x, world.t.view), *how = view == Py_None ? Py_None : PyTuple_GET_ITEM(view, 3);
    return how != Py_None && (grad || (how != world.no_grad && how != world.multiple));
}
// Whether the stretches of memory in which two arrays lie meet (writes.cpp).
bool small_meets(PyArrayObject* a, PyArrayObject* b);
// A number as an element of the type, where it holds it without a conversion that Python would see.
bool small_element(void* out, int type, PyObject* value);
// copy_ and fill_ of any strides (writes.cpp); null without an error: not for these.
PyObject* small_copy_strided(PyObject* x, PyObject* source, bool grad);
PyObject* small_fill_strided(PyObject* x, PyObject* value, bool grad);

template <int N> struct Names {
    PyObject* names[N];
    template <class... Text> explicit Names(Text... text) : names{PyUnicode_InternFromString(text)...} {}
};
template <class... Text> Names(Text...) -> Names<sizeof...(Text)>;

inline int place_of(PyObject* name, PyObject* const* known, int count) {
    for (int k = 0; k < count; k++)
        if (known[k] == name) return k;
    for (int k = 0; k < count; k++)
        if (PyUnicode_Compare(known[k], name) == 0) return k;
    return -1;
}
// Arguments by place; null where one is not given. False: too many, unknown or doubled ones.
template <int N> bool parse(const Call& c, const Names<N>& known, PyObject* (&out)[N]) {
    if (c.n > N) return false;
    for (int k = 0; k < N; k++) out[k] = k < c.n ? c.args[k] : nullptr;
    for (Py_ssize_t k = 0, more = c.names ? PyTuple_GET_SIZE(c.names) : 0; k < more; k++) {
        int at = place_of(PyTuple_GET_ITEM(c.names, k), known.names, N);
        if (at < 0 || out[at]) return false;
        out[at] = c.args[c.n + k];
    }
    return true;
}

inline bool small_int(PyObject* x, npy_intp& out) {
    if (!PyLong_CheckExact(x)) return false;
    out = PyLong_AsSsize_t(x);
    return out != -1 || !PyErr_Occurred() || (PyErr_Clear(), false);
}
inline bool small_dim(PyObject* x, int dims, int& out) {
    npy_intp d;
    if (!small_int(x, d)) return false;
    d += d < 0 ? dims : 0;
    out = (int)d;
    return d >= 0 && d < dims;
}
// A number of Python's, `missing` where none is given.
inline bool small_real(PyObject* x, double missing, double& out) {
    out = missing;
    if (!x) return true;
    if (PyFloat_CheckExact(x)) return out = PyFloat_AS_DOUBLE(x), true;
    int beyond = 0;
    out = PyLong_CheckExact(x) ? (double)PyLong_AsLongLongAndOverflow(x, &beyond) : 0;
    return PyLong_CheckExact(x) && !beyond;
}
inline bool absent(PyObject* x) { return !x || x == Py_None; }
// None, True or False
inline bool flag_of(PyObject* x, bool& out) {
    out = x == Py_True;
    return !x || PyBool_Check(x);
}
// The row-major, aligned bytes of a real tensor, else null.
inline PyArrayObject* dense_array(PyObject* x) {
    PyArrayObject* a = is_plain(x) && is_cpu(x) ? array_of(x) : nullptr;
    return a && PyArray_IS_C_CONTIGUOUS(a) && PyArray_ISALIGNED(a) && PyArray_NDIM(a) < MAX_DIMS ? a : nullptr;
}
inline void* data_of(PyObject* array) { return PyArray_DATA((PyArrayObject*)array); }

// ---- kernels of records: arrays in, an array or NotImplemented out
inline PyObject* declined() { return Py_NewRef(Py_NotImplemented); }
// The number of an array's element type, or -1.
inline int element_type(PyArrayObject* a) {
    for (int k = 0; k < TYPES; k++)
        if ((PyObject*)PyArray_DESCR(a) == (PyObject*)world.types[k].descr) return k;
    return -1;
}
// A row-major array; of this type and so many dims, where they are given.
inline PyArrayObject* row_major(PyObject* x, int type = -1, int dims = -1) {
    if (!PyArray_CheckExact(x)) return nullptr;
    PyArrayObject* a = (PyArrayObject*)x;
    return PyArray_IS_C_CONTIGUOUS(a) && PyArray_ISALIGNED(a) && PyArray_NDIM(a) < MAX_DIMS && (dims < 0 || PyArray_NDIM(a) == dims)
            && (type < 0 || element_type(a) == type)
        ? a
        : nullptr;
}
// A tuple of so many numbers.
inline bool numbers_of(PyObject* x, int count, npy_intp* out) {
    if (!PyTuple_Check(x) || PyTuple_GET_SIZE(x) != count) return false;
    for (int k = 0; k < count; k++)
        if (!small_int(PyTuple_GET_ITEM(x, k), out[k])) return false;
    return true;
}
template <int N> bool numbers_of(PyObject* x, npy_intp (&out)[N]) { return numbers_of(x, N, out); }

// The one result of a call of the record behind a function, recorded where an argument leads on. Steals `out`.
inline PyObject* small_recorded(const Call& c, PyObject* const* args, PyObject* out) {
    if (!out || !c.grad) return out;
    Ref result(out), outs(PyTuple_Pack(1, out));
    return outs && record_outputs(c.self->head.op, args, outs.get()) ? result.release() : nullptr;
}

inline PyObject* tensor_around(PyObject* array, int type) {
    return array ? new_tensor(array, world.types[type].object) : nullptr;
}

#endif
