// Writes into memory of any strides: copy_, fill_, zero_; and small tensors of numbers: `tensor(nested lists)`, linspace.
#include "small_tensor.h"

#include <float.h>
#include <string.h>

#include <cmath>

#include "casts.h"

namespace {

constexpr npy_intp STRIDED = 1 << 15; // elements
constexpr npy_intp EVEN = 1 << 20;    // of a walk whose stretches lie side by side, which one thread does

// Dims of a write, merged where both sides go on evenly; the last one runs in a loop.
struct Walk {
    int dims = 0;
    npy_intp sizes[MAX_DIMS], to[MAX_DIMS], from[MAX_DIMS];

    void add(npy_intp n, npy_intp into, npy_intp of) {
        if (n == 1) return;
        if (dims && to[dims - 1] == into * n && from[dims - 1] == of * n) {
            sizes[dims - 1] *= n, to[dims - 1] = into, from[dims - 1] = of;
            return;
        }
        sizes[dims] = n, to[dims] = into, from[dims++] = of;
    }
    // run(target, source, elements) for every stretch along the last dim
    template <class Run> void each(char* target, const char* source, Run run) const {
        if (!dims) return run(target, 0, source, 0, 1);
        npy_intp index[MAX_DIMS] = {};
        int last = dims - 1;
        for (;;) {
            run(target, to[last], source, from[last], sizes[last]);
            int d = last - 1;
            for (; d >= 0 && ++index[d] == sizes[d]; d--) {
                index[d] = 0;
                target -= to[d] * (sizes[d] - 1), source -= from[d] * (sizes[d] - 1);
            }
            if (d < 0) return;
            target += to[d], source += from[d];
        }
    }
    // Whether so many elements are walked over as fast as memory allows: in order, or by few.
    bool is_quick(npy_intp elements, npy_intp into, npy_intp of) const {
        if (elements <= STRIDED || !dims) return true;
        return elements <= alone(EVEN) && to[dims - 1] == into && (from[dims - 1] == of || !from[dims - 1]) && sizes[dims - 1] >= 64;
    }
};

// Memory that may be written in place, of any strides: no record, view or reader could refuse it, and no two elements
// share a place.
PyArrayObject* target_of(PyObject* x, bool grad, npy_intp most) {
    PyArrayObject* a = is_plain(x) && is_cpu(x) && type_of(x) >= 0 ? array_of(x) : nullptr;
    if (!a || !PyArray_ISWRITEABLE(a) || !PyArray_ISALIGNED(a) || PyArray_NDIM(a) >= MAX_DIMS || (grad && needs_grad(x))
        || small_refusable(x, grad))
        return nullptr;
    for (int d = 0; d < PyArray_NDIM(a); d++)
        if (!PyArray_STRIDE(a, d) && PyArray_DIM(a, d) > 1) return nullptr;
    return PyArray_SIZE(a) && PyArray_SIZE(a) <= most ? a : nullptr;
}

// Values that every element type of as wide a kind takes without a choice of how.
bool widens(int from, int to) {
    return world.types[from].category < 3 && world.types[from].category <= world.types[to].category && world.types[to].category < 3;
}

// ---- tensors of nested lists

struct Nested {
    int dims = 0, kind = -1; // 0: truths, 1: whole numbers, 2: real ones
    npy_intp sizes[MAX_DIMS], total = 1;
    PyObject* items[64];
    int count = 0;

    bool number(PyObject* x) {
        int own = PyFloat_CheckExact(x) ? 2 : PyLong_CheckExact(x) ? 1 : PyBool_Check(x) ? 0 : -1;
        if (own < 0 || count == 64 || (kind >= 0 && (own == 0) != (kind == 0))) return false;
        kind = own > kind ? own : kind, items[count++] = x;
        return true;
    }
    bool read(PyObject* x, int depth) {
        if (!PyList_CheckExact(x) && !PyTuple_CheckExact(x)) return depth == dims && number(x);
        npy_intp n = PySequence_Fast_GET_SIZE(x);
        if (depth >= dims || n != sizes[depth]) return false;
        for (npy_intp k = 0; k < n; k++)
            if (!read(PySequence_Fast_GET_ITEM(x, k), depth + 1)) return false;
        return true;
    }
    bool start(PyObject* x) {
        for (PyObject* at = x; PyList_CheckExact(at) || PyTuple_CheckExact(at); at = PySequence_Fast_GET_ITEM(at, 0)) {
            npy_intp n = PySequence_Fast_GET_SIZE(at);
            if (!n || dims == 8 || (total *= n) > 64) return false;
            sizes[dims++] = n;
        }
        return read(x, 0);
    }
};

// A number into an element that holds it, as the type has it.
bool put_number(void* out, int type, PyObject* x) {
    if (type == BOOL) return PyBool_Check(x) && (*(uint8_t*)out = x == Py_True, true);
    npy_intp whole = 0;
    bool truth = PyBool_Check(x);
    if (truth) whole = x == Py_True;
    else if (PyLong_CheckExact(x) && (!small_int(x, whole) || whole > 1L << 53 || whole < -(1L << 53))) return false;
    bool is_whole = truth || PyLong_CheckExact(x);
    if (type == FLOAT32 || type == FLOAT64) {
        double real = is_whole ? (double)whole : PyFloat_AS_DOUBLE(x);
        if (type == FLOAT64) return *(double*)out = real, true;
        if (std::isfinite(real) && std::fabs(real) > FLT_MAX) return false;
        return *(float*)out = (float)real, true;
    }
    if (!is_whole) return false;
    if (type == INT64) return *(int64_t*)out = whole, true;
    if (type == INT32) return *(int32_t*)out = (int32_t)whole, whole == (int32_t)whole;
    if (type == UINT8) return *(uint8_t*)out = (uint8_t)whole, whole == (uint8_t)whole;
    return false;
}

PyObject* of_numbers(PyObject* numbers, int type) {
    Nested data;
    if (!data.start(numbers)) return nullptr;
    if (type < 0) type = data.kind == 2 ? small_default_type() : data.kind == 1 ? INT64 : BOOL;
    if (type != FLOAT32 && type != FLOAT64 && type != INT64 && type != INT32 && type != UINT8 && type != BOOL) return nullptr;
    Ref array(fresh_array(type, data.dims, data.sizes, nullptr));
    if (!array) return nullptr;
    char* out = (char*)data_of(array.get());
    for (int k = 0; k < data.count; k++, out += world.types[type].itemsize)
        if (!put_number(out, type, data.items[k])) return nullptr;
    return tensor_around(array.release(), type);
}

PyObject* tensor(const Call& c) {
    int type = -1;
    PyObject* device;
    return c.n == 1 && small_options(c, type, device) ? of_numbers(c.args[0], type) : nullptr;
}

// as_tensor(data, dtype=None, device=None) of numbers, which no memory is shared with
PyObject* as_tensor(const Call& c) {
    static const Names<3> names("data", "dtype", "device");
    PyObject* a[3];
    if (!parse(c, names, a) || !a[0] || !small_factory(a[1], a[2], nullptr)) return nullptr;
    return of_numbers(a[0], !a[1] || a[1] == Py_None ? -1 : small_type(a[1]));
}

// ---- counted numbers

// From both ends, so that both are exact.
template <class T> void count_from_ends(T* out, npy_intp n, double start, double end) {
    T step = (T)((end - start) / (double)(n > 1 ? n - 1 : 1)), first = (T)start, last = (T)end;
    npy_intp half = (n + 1) / 2;
    for (npy_intp k = 0; k < half; k++) out[k] = (T)k * step + first;
    for (npy_intp k = half; k < n; k++) out[k] = last - (T)(n - 1 - k) * step;
}

PyObject* linspace(const Call& c) {
    static const Names<6> names("start", "end", "steps", "dtype", "device", "requires_grad");
    PyObject* a[6];
    npy_intp n;
    double start, end;
    if (c.n > 3 || !parse(c, names, a) || !a[0] || !a[1] || !a[2] || !small_int(a[2], n) || n < 1 || n > STRIDED
        || !small_real(a[0], 0, start) || !small_real(a[1], 0, end) || !small_factory(a[3], a[4], a[5]))
        return nullptr;
    int type = small_type(a[3]);
    if ((type != FLOAT32 && type != FLOAT64) || !(std::fabs(start) <= FLT_MAX) || !(std::fabs(end) <= FLT_MAX)) return nullptr;
    PyObject* array = fresh_array(type, 1, &n, nullptr);
    if (!array) return nullptr;
    type == FLOAT32 ? count_from_ends((float*)data_of(array), n, start, end) : count_from_ends((double*)data_of(array), n, start, end);
    return tensor_around(array, type);
}

// arange(end), arange(start, end) and with a step, of whole numbers
PyObject* arange(const Call& c) {
    npy_intp ends[] = {0, 0, 1};
    int type = INT64;
    PyObject* device;
    if (c.n < 1 || c.n > 3 || !small_options(c, type, device) || (type != INT64 && type != INT32 && type != FLOAT32)) return nullptr;
    for (Py_ssize_t k = 0; k < c.n; k++)
        if (!small_int(c.args[k], ends[c.n == 1 ? 1 : k]) || ends[c.n == 1 ? 1 : k] > 1 << 20 || ends[c.n == 1 ? 1 : k] < -(1 << 20)) return nullptr;
    npy_intp start = ends[0], step = ends[2], span = ends[1] - start;
    if (!step || (span < 0) != (step < 0) || !span) return nullptr;
    npy_intp n = (span + step + (step > 0 ? -1 : 1)) / step;
    if (n < 1 || n > STRIDED) return nullptr;
    PyObject* array = fresh_array(type, 1, &n, nullptr);
    if (!array) return nullptr;
    void* out = data_of(array);
    for (npy_intp k = 0; k < n; k++) {
        npy_intp at = start + k * step;
        if (type == INT64) ((int64_t*)out)[k] = at;
        else if (type == INT32) ((int32_t*)out)[k] = (int32_t)at;
        else ((float*)out)[k] = (float)at;
    }
    return tensor_around(array, type);
}

}

// Whether the stretches of memory in which two arrays lie meet.
bool small_meets(PyArrayObject* a, PyArrayObject* b) {
    char* ends[2];
    PyArrayObject* both[2] = {a, b};
    for (int k = 0; k < 2; k++) {
        ends[k] = (char*)PyArray_DATA(both[k]) + PyArray_ITEMSIZE(both[k]);
        for (int d = 0; d < PyArray_NDIM(both[k]); d++) ends[k] += (PyArray_DIM(both[k], d) - 1) * PyArray_STRIDE(both[k], d);
    }
    return (char*)PyArray_DATA(a) < ends[1] && (char*)PyArray_DATA(b) < ends[0];
}

// A source of as narrow a kind, broadcast to the target, whose memory it does not share.
PyObject* small_copy_strided(PyObject* x, PyObject* source, bool grad) {
    PyArrayObject *a = target_of(x, grad, alone(EVEN)), *b = a && is_plain(source) && is_cpu(source) ? array_of(source) : nullptr;
    int from = b ? type_of(source) : -1, to = a ? type_of(x) : -1;
    if (from < 0 || (grad && needs_grad(source)) || !PyArray_ISALIGNED(b) || PyArray_NDIM(b) > PyArray_NDIM(a) || x == source) return nullptr;
    PyObject* storage = slot(x, world.t.storage);
    if (storage != Py_None && storage == slot(source, world.t.storage)) return nullptr;
    CastLoop loop = from == to ? move_loop(to) : widens(from, to) ? cast_loop(from, to) : nullptr;
    if (!loop || !PyArray_SIZE(b) || small_meets(a, b)) return nullptr;
    Walk walk;
    for (int d = 0, skip = PyArray_NDIM(a) - PyArray_NDIM(b); d < PyArray_NDIM(a); d++) {
        npy_intp n = PyArray_DIM(a, d), m = d < skip ? 1 : PyArray_DIM(b, d - skip);
        if (m != n && m != 1) return nullptr;
        walk.add(n, PyArray_STRIDE(a, d), m == 1 ? 0 : PyArray_STRIDE(b, d - skip));
    }
    if (!walk.is_quick(PyArray_SIZE(a), world.types[to].itemsize, world.types[from].itemsize)) return nullptr;
    walk.each((char*)PyArray_DATA(a), (const char*)PyArray_DATA(b),
        [&](char* out, npy_intp step, const char* in, npy_intp stride, npy_intp n) { loop(in, stride, out, step, n); });
    return bump(x) ? Py_NewRef(x) : nullptr;
}

PyObject* small_fill_strided(PyObject* x, PyObject* value, bool grad) {
    PyArrayObject* a = target_of(x, grad, STRIDED);
    char element[16];
    int type = a ? type_of(x) : -1;
    CastLoop loop = a ? move_loop(type) : nullptr;
    if (!loop || !small_element(element, type, value)) return nullptr;
    Walk walk;
    for (int d = 0; d < PyArray_NDIM(a); d++) walk.add(PyArray_DIM(a, d), PyArray_STRIDE(a, d), 0);
    walk.each((char*)PyArray_DATA(a), element,
        [&](char* out, npy_intp step, const char* in, npy_intp stride, npy_intp n) { loop(in, stride, out, step, n); });
    return bump(x) ? Py_NewRef(x) : nullptr;
}

const SmallEntry small_writes[] = {{"tensor", tensor}, {"as_tensor", as_tensor}, {"linspace", linspace}, {"arange", arange}, {nullptr, nullptr}};
