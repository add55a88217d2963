// Small reductions and softmax: [outer, n, inner] of contiguous memory, without numpy's calls.
#include "small.h"

#include <string.h>

#include <type_traits>

#include "../../runtime/csrc/job.h"

namespace {

struct Span { // of the reduced dims [first, last) of an array
    PyArrayObject* a;
    int type, first, last;
    npy_intp outer, n, inner;
};

bool read_dims(PyObject* dim, int dims, Span& s) {
    s.first = 0, s.last = dims;
    if (absent(dim)) return true;
    if (!PyTuple_CheckExact(dim)) {
        if (!small_dim(dim, dims, s.first)) return false;
        s.last = s.first + 1;
        return true;
    }
    Py_ssize_t count = PyTuple_GET_SIZE(dim);
    if (!count || !small_dim(PyTuple_GET_ITEM(dim, 0), dims, s.first)) return false;
    for (Py_ssize_t k = 1; k < count; k++) {
        int d;
        if (!small_dim(PyTuple_GET_ITEM(dim, k), dims, d) || d != s.first + k) return false; // side by side
    }
    s.last = s.first + (int)count;
    return true;
}

bool read_span(PyObject* x, PyObject* dim, Span& s) {
    s.a = dense_array(x);
    if (!s.a || (s.type = type_of(x)) < 0 || PyArray_SIZE(s.a) == 0 || PyArray_SIZE(s.a) > SMALL_REDUCTION
        || !read_dims(dim, PyArray_NDIM(s.a), s))
        return false;
    s.outer = s.n = s.inner = 1;
    for (int d = 0; d < PyArray_NDIM(s.a); d++)
        (d < s.first ? s.outer : d < s.last ? s.n : s.inner) *= PyArray_DIM(s.a, d);
    return true;
}

PyObject* result_of(const Span& s, int type, bool keepdim) {
    npy_intp sizes[MAX_DIMS];
    int count = 0;
    for (int d = 0; d < PyArray_NDIM(s.a); d++) {
        bool kept = d < s.first || d >= s.last;
        if (kept || keepdim) sizes[count++] = kept ? PyArray_DIM(s.a, d) : 1;
    }
    return fresh_array(type, count, sizes, nullptr);
}

// body(first element, step, place of the result) for every result
template <class T, class Body> void each_result(const Span& s, Body body) {
    const T* x = (const T*)PyArray_DATA(s.a);
    for (npy_intp o = 0; o < s.outer; o++)
        for (npy_intp i = 0; i < s.inner; i++) body(x + o * s.n * s.inner + i, s.inner, o * s.inner + i);
}

// The sum of a run as numpy takes it (pairwise above 128 elements, eight partial sums below), so that larger tensors and
// graphs that call the record's kernel give the same bits.
template <class T> T run_total(const T* x, npy_intp n) {
    if (n > 128) {
        npy_intp half = n / 2 - n / 2 % 8;
        return run_total(x, half) + run_total(x + half, n - half);
    }
    T total = (T)-0.0;
    npy_intp k = 0;
    if (n >= 8) {
        T part[8];
        memcpy(part, x, sizeof part);
        for (k = 8; k + 8 <= n; k += 8)
            for (int j = 0; j < 8; j++) part[j] += x[k + j];
        total = ((part[0] + part[1]) + (part[2] + part[3])) + ((part[4] + part[5]) + (part[6] + part[7]));
    }
    for (; k < n; k++) total += x[k];
    return total;
}

template <class T, class Total> Total total_of(const T* x, npy_intp step, npy_intp n) {
    if constexpr (std::is_floating_point_v<T>)
        if (step == 1) return run_total(x, n) + (T)0; // numpy starts with 0: no sum is -0.0
    Total total = 0;
    for (npy_intp k = 0; k < n; k++) total += (Total)x[k * step];
    return total;
}

template <class T, class Total> void sum_into(const Span& s, void* out, Total divisor) {
    each_result<T>(s, [&](const T* x, npy_intp step, npy_intp at) {
        Total total = total_of<T, Total>(x, step, s.n);
        ((Total*)out)[at] = divisor == 1 ? total : total / divisor;
    });
}

// The place of the first greatest or least element; of the first NaN, if there is one.
template <class T, bool greatest> npy_intp extreme_of(const T* x, npy_intp step, npy_intp n) {
    npy_intp best = 0;
    for (npy_intp k = 1; k < n && x[best * step] == x[best * step]; k++) {
        T v = x[k * step], top = x[best * step];
        if ((greatest ? v > top : v < top) || v != v) best = k;
    }
    return best;
}

struct Extremes {
    void* values; // null: not wanted
    int64_t* places;
};

template <class T, bool greatest> void extremes_into(const Span& s, const Extremes& out) {
    each_result<T>(s, [&](const T* x, npy_intp step, npy_intp at) {
        npy_intp k = extreme_of<T, greatest>(x, step, s.n);
        if (out.values) ((T*)out.values)[at] = x[k * step];
        if (out.places) out.places[at] = k;
    });
}

template <bool greatest> bool extremes(const Span& s, const Extremes& out) {
    switch (s.type) {
    case FLOAT32: return extremes_into<float, greatest>(s, out), true;
    case FLOAT64: return extremes_into<double, greatest>(s, out), true;
    case INT64: return extremes_into<int64_t, greatest>(s, out), true;
    case INT32: return extremes_into<int32_t, greatest>(s, out), true;
    case UINT8: case BOOL: return extremes_into<uint8_t, greatest>(s, out), true;
    }
    return false;
}

// ---- handlers

// The node of record(x, *middle, dims, keepdim), if the call is recorded. Steals `out`.
PyObject* recorded(const Call& c, PyObject* x, const Span& s, PyObject* middle, bool keepdim, PyObject* out) {
    if (!out || !c.grad || !needs_grad(x)) return out;
    npy_intp dims[MAX_DIMS];
    for (int d = s.first; d < s.last; d++) dims[d - s.first] = d;
    Ref result(out), list(tuple_of(dims, s.last - s.first));
    if (!list) return nullptr;
    PyObject* given[4] = {x};
    int count = 1;
    if (middle) given[count++] = middle;
    given[count++] = list.get(), given[count++] = keepdim ? Py_True : Py_False;
    return record(c.self->head.op, c.self->needs, given, count, 1, out) ? result.release() : nullptr;
}

template <bool mean> PyObject* sum(const Call& c) {
    static const Names<3> names("input", "dim", "keepdim");
    PyObject* a[3];
    Span s;
    bool keepdim;
    if (!parse(c, names, a) || !a[0] || !flag_of(a[2], keepdim) || !read_span(a[0], a[1], s)) return nullptr;
    bool real = s.type == FLOAT32 || s.type == FLOAT64;
    if (s.inner > 1 && s.n > 128) return nullptr; // the record's kernel takes such columns in blocks
    if (!real && (mean || (s.type != INT64 && s.type != BOOL))) return nullptr;
    PyObject* array = result_of(s, real ? s.type : INT64, keepdim);
    if (!array) return nullptr;
    void* out = PyArray_DATA((PyArrayObject*)array);
    npy_intp divisor = mean ? s.n : 1;
    if (s.type == FLOAT32) sum_into<float, float>(s, out, (float)divisor);
    else if (s.type == FLOAT64) sum_into<double, double>(s, out, (double)divisor);
    else if (s.type == INT64) sum_into<uint64_t, uint64_t>(s, out, 1);
    else sum_into<uint8_t, uint64_t>(s, out, 1);
    return recorded(c, a[0], s, nullptr, keepdim, tensor_around(array, real ? s.type : INT64));
}

template <bool greatest> PyObject* whole_extreme(const Call& c, PyObject* x, const Span& s, bool keepdim) {
    PyObject* array = result_of(s, s.type, keepdim);
    if (!array) return nullptr;
    if (!extremes<greatest>(s, {PyArray_DATA((PyArrayObject*)array), nullptr})) {
        Py_DECREF(array);
        return nullptr;
    }
    return recorded(c, x, s, nullptr, keepdim, tensor_around(array, s.type));
}

// amax(input, dim=(), keepdim=False)
template <bool greatest> PyObject* amax(const Call& c) {
    static const Names<3> names("input", "dim", "keepdim");
    PyObject* a[3];
    Span s;
    bool keepdim;
    if (!parse(c, names, a) || !a[0] || a[1] == Py_None || !flag_of(a[2], keepdim) || !read_span(a[0], a[1], s))
        return nullptr;
    return whole_extreme<greatest>(c, a[0], s, keepdim);
}

// (values, places) along one dim, outside of autograd; or the one extreme of all elements
template <bool greatest> PyObject* max(const Call& c) {
    static const Names<3> names("input", "dim", "keepdim");
    PyObject* a[3];
    Span s;
    bool keepdim;
    if (!parse(c, names, a) || !a[0] || !flag_of(a[2], keepdim)) return nullptr;
    if (!a[1]) return !a[2] && read_span(a[0], nullptr, s) ? whole_extreme<greatest>(c, a[0], s, false) : nullptr;
    if (!PyLong_CheckExact(a[1]) || (c.grad && needs_grad(a[0])) || !read_span(a[0], a[1], s)) return nullptr;
    Ref values(result_of(s, s.type, keepdim)), places(result_of(s, INT64, keepdim));
    if (!values || !places) return nullptr;
    if (!extremes<greatest>(s, {PyArray_DATA((PyArrayObject*)values.get()),
                                   (int64_t*)PyArray_DATA((PyArrayObject*)places.get())}))
        return nullptr;
    PyTypeObject* type = (PyTypeObject*)c.self->pair;
    Ref first(tensor_around(values.release(), s.type)), second(tensor_around(places.release(), INT64));
    PyObject* pair = first && second ? type->tp_alloc(type, 2) : nullptr;
    if (!pair) return nullptr;
    PyTuple_SET_ITEM(pair, 0, first.release());
    PyTuple_SET_ITEM(pair, 1, second.release());
    return pair;
}

template <bool greatest> PyObject* argmax(const Call& c) {
    static const Names<3> names("input", "dim", "keepdim");
    PyObject* a[3];
    Span s;
    bool keepdim;
    if (!parse(c, names, a) || !a[0] || (!absent(a[1]) && !PyLong_CheckExact(a[1])) || !flag_of(a[2], keepdim)
        || !read_span(a[0], a[1], s) || s.type == BOOL)
        return nullptr;
    Ref array(result_of(s, INT64, keepdim));
    if (!array || !extremes<greatest>(s, {nullptr, (int64_t*)PyArray_DATA((PyArrayObject*)array.get())}))
        return nullptr;
    return tensor_around(array.release(), INT64);
}

template <bool all> PyObject* truth(const Call& c) {
    static const Names<3> names("input", "dim", "keepdim");
    PyObject* a[3];
    Span s;
    bool keepdim;
    if (!parse(c, names, a) || !a[0] || !flag_of(a[2], keepdim) || !read_span(a[0], a[1], s) || s.type != BOOL)
        return nullptr;
    PyObject* array = result_of(s, BOOL, keepdim);
    if (!array) return nullptr;
    uint8_t* out = (uint8_t*)PyArray_DATA((PyArrayObject*)array);
    each_result<uint8_t>(s, [&](const uint8_t* x, npy_intp step, npy_intp at) {
        npy_intp k = 0;
        while (k < s.n && !x[k * step] == !all) k++;
        out[at] = (k < s.n) != all;
    });
    return tensor_around(array, BOOL);
}

// The place of a kernel in the runtime's tables, one for all instruction sets.
int job_number(const char* name) {
    const JobKernel* first = world.api->jobs();
    for (const JobKernel* k = first; k->name; k++)
        if (!strcmp(k->name, name)) return (int)(k - first);
    return -1;
}

// The runtime's own kernel on rows: the bits are those of larger tensors. The table is asked in every call, since the
// instruction set may be another than at the first one.
template <bool logarithm> PyObject* softmax(const Call& c) {
    static const Names<3> names("input", "dim", "dtype");
    PyObject* a[3];
    Span s;
    if (!parse(c, names, a) || !a[0] || !a[1] || !PyLong_CheckExact(a[1]) || !absent(a[2])
        || !read_span(a[0], a[1], s) || s.inner != 1 || (s.type != FLOAT32 && s.type != FLOAT64))
        return nullptr;
    static const int number = job_number(logarithm ? "log_softmax_rows" : "softmax_rows");
    Ref array(fresh_array(s.type, PyArray_NDIM(s.a), PyArray_DIMS(s.a), nullptr));
    if (!array) return nullptr;
    Job job = {};
    job.rt = world.api->runtime;
    job.p[0] = PyArray_DATA((PyArrayObject*)array.get()), job.p[1] = PyArray_DATA(s.a);
    job.n[0] = s.n;
    world.api->jobs()[number].run[s.type == FLOAT64](job, 0, s.outer);
    Ref out(tensor_around(array.release(), s.type));
    if (!out || !c.grad || !needs_grad(a[0])) return out.release();
    Ref dim(PyLong_FromLong(s.first));
    PyObject* given[] = {a[0], dim.get()};
    return dim && record(c.self->head.op, c.self->needs, given, 2, 1, out.get()) ? out.release() : nullptr;
}

}

const SmallEntry small_reductions[] = {{"sum", sum<false>}, {"mean", sum<true>}, {"amax", amax<true>},
    {"amin", amax<false>}, {"max", max<true>}, {"min", max<false>}, {"argmax", argmax<true>},
    {"argmin", argmax<false>}, {"any", truth<false>}, {"all", truth<true>}, {"softmax", softmax<false>},
    {"log_softmax", softmax<true>}, {nullptr, nullptr}};
