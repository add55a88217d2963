// x[i, j, ...] at index tensors of one shape, or where a mask is on: a copy, recorded as the record `index`. Few elements of
// dense tensors; what is out of range, or of other forms, is left to the Python path.
#include "index.h"

#include <string.h>

#include <vector>

namespace {

constexpr npy_intp FEW = 1 << 12, COPIED_BYTES = 1 << 17;

struct Places {
    std::vector<npy_intp> rows; // where in x, in runs of the dims that are not indexed
    int taken = 0; // dims that are indexed
    int dims; // of the indices
    const npy_intp* sizes;
};

bool by_tensors(PyArrayObject* x, PyObject* const* keys, Py_ssize_t n, Places& p) {
    PyArrayObject* first = nullptr;
    for (Py_ssize_t k = 0; k < n; k++) {
        PyArrayObject* index = dense_array(keys[k]);
        if (!index || type_of(keys[k]) != INT64 || PyArray_NDIM(index) < 1 || (first && !PyArray_SAMESHAPE(index, first))) return false;
        npy_intp count = PyArray_SIZE(index), size = PyArray_DIM(x, (int)k);
        if (!count || count > FEW) return false;
        if (!first) first = index, p.rows.assign(count, 0);
        const int64_t* at = (const int64_t*)PyArray_DATA(index);
        for (npy_intp j = 0; j < count; j++) {
            if (at[j] >= size || at[j] < -size) return false;
            p.rows[j] = p.rows[j] * size + (at[j] < 0 ? at[j] + size : at[j]);
        }
    }
    p.taken = (int)n, p.dims = PyArray_NDIM(first), p.sizes = PyArray_DIMS(first);
    return true;
}

bool by_mask(PyArrayObject* x, PyArrayObject* mask, Places& p, npy_intp& count) {
    int dims = PyArray_NDIM(mask);
    if (dims < 1 || dims > PyArray_NDIM(x) || PyArray_SIZE(mask) > FEW || !PyArray_CompareLists(PyArray_DIMS(mask), PyArray_DIMS(x), dims))
        return false;
    const uint8_t* on = (const uint8_t*)PyArray_DATA(mask);
    for (npy_intp k = 0, n = PyArray_SIZE(mask); k < n; k++)
        if (on[k]) p.rows.push_back(k);
    count = (npy_intp)p.rows.size();
    p.taken = dims, p.dims = 1, p.sizes = &count;
    return true;
}

PyObject* taken(PyArrayObject* x, int type, const Places& p) {
    npy_intp sizes[MAX_DIMS], run = world.types[type].itemsize;
    int dims = p.dims, rest = PyArray_NDIM(x) - p.taken;
    if (dims + rest >= MAX_DIMS) return nullptr;
    memcpy(sizes, p.sizes, dims * sizeof(npy_intp));
    for (int d = 0; d < rest; d++) run *= sizes[dims + d] = PyArray_DIM(x, p.taken + d);
    if ((npy_intp)p.rows.size() * run > COPIED_BYTES) return nullptr;
    PyObject* array = fresh_array(type, dims + rest, sizes, nullptr);
    if (!array) return nullptr;
    char* out = (char*)data_of(array);
    const char* from = (const char*)PyArray_DATA(x);
    if (run == 4)
        for (size_t k = 0; k < p.rows.size(); k++) ((uint32_t*)out)[k] = ((const uint32_t*)from)[p.rows[k]];
    else
        for (npy_intp row : p.rows) memcpy(out, from + row * run, run), out += run;
    return tensor_around(array, type);
}

// The positions along each dim of a mask, as a tuple of tensors.
PyObject* positions(PyArrayObject* x, const Places& p) {
    npy_intp count = (npy_intp)p.rows.size(), below = 1;
    Ref list(PyTuple_New(p.taken));
    for (int d = p.taken - 1; list && d >= 0; below *= PyArray_DIM(x, d), d--) {
        PyObject* array = fresh_array(INT64, 1, &count, nullptr);
        if (!array) return nullptr;
        int64_t* at = (int64_t*)data_of(array);
        for (npy_intp k = 0; k < count; k++) at[k] = p.rows[k] / below % PyArray_DIM(x, d);
        PyObject* t = tensor_around(array, INT64);
        if (!t) return nullptr;
        PyTuple_SET_ITEM(list.get(), d, t);
    }
    return list.release();
}

PyObject* recorded(PyObject* x, PyObject* indices, int count, PyObject* out) {
    static KeptRecord* index = kept_record("index");
    npy_intp dims[MAX_DIMS];
    for (int d = 0; d < count; d++) dims[d] = d;
    Ref list(tuple_of(dims, count));
    PyObject* given[] = {x, indices, list.get()};
    return list && record(index->op, index->needs, given, 3, 1, out) ? out : nullptr;
}

}

PyObject* index_by_tensors(PyObject* x, PyObject* const* keys, Py_ssize_t n, bool grad) {
    PyArrayObject *a = dense_array(x), *mask = n == 1 && a ? dense_array(keys[0]) : nullptr;
    int type = a ? type_of(x) : -1;
    if (type < 0 || n < 1 || n > PyArray_NDIM(a) || !PyArray_SIZE(a)) return nullptr;
    bool masked = mask && type_of(keys[0]) == BOOL;
    Places p;
    npy_intp count;
    if (!(masked ? by_mask(a, mask, p, count) : by_tensors(a, keys, n, p))) return nullptr;
    Ref out(taken(a, type, p));
    if (!out || !grad || !needs_grad(x)) return out.release();
    Ref indices(masked ? positions(a, p) : PyTuple_New(n));
    for (Py_ssize_t k = 0; indices && !masked && k < n; k++) PyTuple_SET_ITEM(indices.get(), k, Py_NewRef(keys[k]));
    return indices && recorded(x, indices.get(), p.taken, out.get()) ? out.release() : nullptr;
}
