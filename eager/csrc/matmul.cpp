// Products of matrices as kernels on arrays: `linear` (rows times the transposed weight, plus bias) and `product`. Tiny
// ones are loops here, the others the runtime's template.
#include "small_tensor.h"

#include <string.h>

namespace {

constexpr double TINY = 4096, DROP_GIL_FROM = 2e5, SHARE_FROM = 1 << 16;

struct Matrix { // strides in elements
    const char* data;
    npy_intp rows, columns, row, column;
};

template <class T> void tiny(const Matrix& a, const Matrix& b, T* out, const T* bias) {
    const T *x = (const T*)a.data, *y = (const T*)b.data;
    for (npy_intp m = 0; m < a.rows; m++)
        for (npy_intp n = 0; n < b.columns; n++) {
            T sum = 0;
            for (npy_intp k = 0; k < a.columns; k++) sum += x[m * a.row + k * a.column] * y[k * b.row + n * b.column];
            out[m * b.columns + n] = bias ? sum + bias[n] : sum;
        }
}

// An element type of these kernels: halves are summed in float and rounded once, the bias included.
struct Element {
    int type, gemm, number; // of this library, of the template, of numpy
};

struct Bias {
    void* out;
    const void* bias;
    npy_intp columns;
    bool wide;
};

template <class T> void add_bias(const Bias& job, long begin, long end) {
    T* out = (T*)job.out + begin * job.columns;
    for (long m = begin; m < end; m++, out += job.columns)
        for (npy_intp n = 0; n < job.columns; n++) out[n] += ((const T*)job.bias)[n];
}

void bias_range(void* raw, long begin, long end, int) {
    const Bias& job = *(Bias*)raw;
    job.wide ? add_bias<double>(job, begin, end) : add_bias<float>(job, begin, end);
}

void multiply(const Matrix& a, const Matrix& b, void* out, const void* bias, const Element& element) {
    double work = 2.0 * a.rows * b.columns * a.columns;
    bool wide = element.type == FLOAT64, half = element.type != FLOAT32 && !wide;
    if (work <= 2 * TINY && !half) {
        wide ? tiny(a, b, (double*)out, (const double*)bias) : tiny(a, b, (float*)out, (const float*)bias);
        return;
    }
    FbGemm g = {};
    g.a = a.data, g.b = b.data, g.out = out;
    g.a_type = g.b_type = g.out_type = element.gemm;
    g.M = a.rows, g.N = b.columns, g.K = a.columns;
    g.a_m = a.row, g.a_k = a.column, g.b_k = b.row, g.b_n = b.column, g.out_m = b.columns, g.out_n = 1;
    if (half && bias) g.bias = bias, g.bias_n = 1;
    Bias job = {out, bias, b.columns, wide};
    const FbRuntime* runtime = world.api->runtime;
    auto all = [&] {
        runtime->gemm(&g);
        if (!bias || half) return;
        if (a.rows * b.columns < SHARE_FROM) bias_range(&job, 0, a.rows, 0);
        else runtime->parallel_for(bias_range, &job, a.rows, 1 + (long)SHARE_FROM / (4 * b.columns));
    };
    if (work < DROP_GIL_FROM) return all();
    Py_BEGIN_ALLOW_THREADS all();
    Py_END_ALLOW_THREADS
}

bool usable(PyObject* x, int type) {
    if (!PyArray_CheckExact(x)) return false;
    PyArrayObject* a = (PyArrayObject*)x;
    if (PyArray_TYPE(a) != type || !PyArray_ISALIGNED(a) || PyArray_ISBYTESWAPPED(a)) return false;
    for (int d = 0; d < PyArray_NDIM(a); d++)
        if (PyArray_STRIDE(a, d) % PyArray_ITEMSIZE(a)) return false;
    return true;
}

// The last dim as columns and all others as rows, where one stride walks them.
bool as_rows(PyArrayObject* x, Matrix& out) {
    int dims = PyArray_NDIM(x), item = (int)PyArray_ITEMSIZE(x);
    if (dims < 1 || dims > MAX_DIMS || (dims != 2 && !PyArray_IS_C_CONTIGUOUS(x))) return false;
    npy_intp columns = PyArray_DIM(x, dims - 1), rows = 1;
    for (int d = 0; d < dims - 1; d++) rows *= PyArray_DIM(x, d);
    npy_intp row = dims == 2 ? PyArray_STRIDE(x, 0) / item : columns;
    out = {(const char*)PyArray_DATA(x), rows, columns, row, PyArray_STRIDE(x, dims - 1) / item};
    return true;
}

PyObject* result(PyArrayObject* x, npy_intp columns, const Element& element) {
    npy_intp sizes[MAX_DIMS];
    int dims = PyArray_NDIM(x);
    for (int d = 0; d < dims - 1; d++) sizes[d] = PyArray_DIM(x, d);
    sizes[dims - 1] = columns;
    return fresh_array(element.type, dims, sizes, nullptr);
}

bool element_of(PyObject* x, Element& out) {
    if (!PyArray_CheckExact(x)) return false;
    const int types[] = {FLOAT32, FLOAT64, BFLOAT16, FLOAT16}; // in the order of FbType
    int number = PyArray_TYPE((PyArrayObject*)x);
    for (int k = 0; k < 4; k++)
        if (number == world.types[types[k]].descr->type_num) return out = {types[k], k, number}, true;
    return false;
}

// linear(x, weight, bias or None): NotImplemented for other types, layouts and sizes that do not fit
PyObject* py_linear(PyObject*, PyObject* const* args, Py_ssize_t n) {
    Element e;
    if (n != 3 || !element_of(args[0], e) || !usable(args[0], e.number) || !usable(args[1], e.number)) return declined();
    PyArrayObject *x = (PyArrayObject*)args[0], *w = (PyArrayObject*)args[1];
    Matrix a, b;
    if (PyArray_NDIM(w) != 2 || !as_rows(x, a) || !as_rows(w, b) || a.columns != b.columns || !a.columns || !b.rows)
        return declined();
    b = {b.data, b.columns, b.rows, b.column, b.row}; // transposed
    const void* bias = nullptr;
    if (args[2] != Py_None) {
        PyArrayObject* c = (PyArrayObject*)args[2];
        if (!usable(args[2], e.number) || PyArray_NDIM(c) != 1 || PyArray_DIM(c, 0) != b.columns
            || !PyArray_IS_C_CONTIGUOUS(c))
            return declined();
        bias = PyArray_DATA(c);
    }
    PyObject* out = result(x, b.columns, e);
    if (out) multiply(a, b, PyArray_DATA((PyArrayObject*)out), bias, e);
    return out;
}

// Halves of which one is a vector: a row on the left, a column on the right.
PyObject* with_vectors(PyArrayObject* x, PyArrayObject* y, const Element& e) {
    int dims = PyArray_NDIM(x), more = PyArray_NDIM(y);
    Matrix a, b;
    if (dims < 1 || dims > 2 || more < 1 || more > 2 || !as_rows(x, a) || !as_rows(y, b)) return declined();
    if (more == 1) b = {b.data, b.columns, 1, b.column, 1};
    if (a.columns != b.rows || !a.columns || !b.columns || !a.rows) return declined();
    npy_intp sizes[2];
    int used = 0;
    if (dims == 2) sizes[used++] = a.rows;
    if (more == 2) sizes[used++] = b.columns;
    PyObject* out = fresh_array(e.type, used, sizes, nullptr);
    if (out) multiply(a, b, PyArray_DATA((PyArrayObject*)out), nullptr, e);
    return out;
}

// Few whole numbers.
PyObject* whole_product(PyArrayObject* x, PyArrayObject* y) {
    npy_intp sizes[] = {PyArray_DIM(x, 0), PyArray_DIM(y, 1)}, depth = PyArray_DIM(x, 1);
    if (PyArray_DIM(y, 0) != depth || sizes[0] * sizes[1] * depth > 1 << 14) return declined();
    PyObject* out = fresh_array(INT64, 2, sizes, nullptr);
    if (!out) return nullptr;
    const uint64_t *a = (const uint64_t*)PyArray_DATA(x), *b = (const uint64_t*)PyArray_DATA(y);
    uint64_t* to = (uint64_t*)PyArray_DATA((PyArrayObject*)out);
    memset(to, 0, sizes[0] * sizes[1] * sizeof(uint64_t));
    for (npy_intp i = 0; i < sizes[0]; i++, to += sizes[1])
        for (npy_intp k = 0; k < depth; k++)
            for (npy_intp j = 0; j < sizes[1]; j++) to[j] += a[i * depth + k] * b[k * sizes[1] + j];
    return out;
}

// product(a, b) of (..., M, K) and a matrix (K, N)
PyObject* py_product(PyObject*, PyObject* const* args, Py_ssize_t n) {
    Element e;
    if (n == 2 && row_major(args[0], INT64, 2) && row_major(args[1], INT64, 2))
        return whole_product((PyArrayObject*)args[0], (PyArrayObject*)args[1]);
    if (n != 2 || !element_of(args[0], e) || !usable(args[0], e.number) || !usable(args[1], e.number)) return declined();
    PyArrayObject *x = (PyArrayObject*)args[0], *y = (PyArrayObject*)args[1];
    if ((e.type == FLOAT16 || e.type == BFLOAT16) && (PyArray_NDIM(x) == 1 || PyArray_NDIM(y) == 1)) return with_vectors(x, y, e);
    Matrix a, b;
    if (PyArray_NDIM(x) < 2 || PyArray_NDIM(y) != 2 || !as_rows(x, a) || !as_rows(y, b) || a.columns != b.rows
        || !a.columns || !b.columns)
        return declined();
    bool half = e.type == FLOAT16 || e.type == BFLOAT16; // (thin ones: numpy's, once they are floats)
    if (half && (a.columns == 1 || b.columns == 1 || a.rows == 1) && a.rows * a.columns + b.rows * b.columns > 4096) return declined();
    PyObject* out = result(x, b.columns, e);
    if (out) multiply(a, b, PyArray_DATA((PyArrayObject*)out), nullptr, e);
    return out;
}

PyMethodDef functions[] = {
    {"linear", (PyCFunction)(void*)py_linear, METH_FASTCALL, "linear(x, weight, bias): an array, or NotImplemented"},
    {"product", (PyCFunction)(void*)py_product, METH_FASTCALL, "product(a, b): an array, or NotImplemented"},
    {nullptr, nullptr, 0, nullptr}};

}

bool add_matrix(PyObject* module) { return PyModule_AddFunctions(module, functions) == 0; }
