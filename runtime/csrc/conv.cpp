// The door from Python to the convolutions: arrays in any memory order that a stride per dim describes.
#include "python.h"

#include <string.h>

#include "conv_problem.h"

namespace {

const ConvKernels& table() {
#if defined(__x86_64__)
    if (kernels == &kernels_avx512) return conv_avx512;
    if (kernels == &kernels_avx2) return conv_avx2;
#endif
    return conv_baseline;
}

int type_of(PyArrayObject* x) {
    int number = PyArray_TYPE(x);
    if (number == NPY_FLOAT) return FB_FLOAT;
    if (number == NPY_DOUBLE) return FB_DOUBLE;
    if (number == NPY_HALF) return FB_F16;
    return number == bfloat16_number ? (int)FB_BF16 : -1;
}

struct Numbers {
    long step[3] = {1, 1, 1}, before[3] = {0, 0, 0}, spread[3] = {1, 1, 1}, kernel[3] = {1, 1, 1};
};

// a tuple of `dims` ints into the last places of `to`
bool read(PyObject* tuple, int dims, long* to) {
    if (!PyTuple_Check(tuple) || PyTuple_GET_SIZE(tuple) != dims)
        return PyErr_Format(PyExc_TypeError, "convolution: a tuple of %d ints is needed", dims), false;
    for (int d = 0; d < dims; d++) {
        to[3 - dims + d] = PyLong_AsLong(PyTuple_GET_ITEM(tuple, d));
        if (to[3 - dims + d] == -1 && PyErr_Occurred()) return false;
    }
    return true;
}

// sizes and strides (in elements) of the dims behind batch and channel
void spatial(PyArrayObject* x, long* sizes, long* strides) {
    int dims = PyArray_NDIM(x) - 2;
    for (int d = 0; d < 3; d++) {
        int own = d - (3 - dims);
        sizes[d] = own < 0 ? 1 : PyArray_DIM(x, own + 2);
        strides[d] = own < 0 ? 0 : PyArray_STRIDE(x, own + 2) / PyArray_ITEMSIZE(x);
    }
}

long stride(PyArrayObject* x, int d) { return PyArray_STRIDE(x, d) / PyArray_ITEMSIZE(x); }

long reach(PyArrayObject* x) {
    long most = 1;
    for (int d = 0; d < PyArray_NDIM(x); d++) {
        if (PyArray_DIM(x, d) == 0) return 0;
        most += (PyArray_DIM(x, d) - 1) * stride(x, d);
    }
    return most;
}

void read_x(ConvProblem& p, PyArrayObject* x, long groups) {
    p.x = PyArray_DATA(x), p.type = type_of(x);
    p.batch = PyArray_DIM(x, 0), p.groups = groups, p.channels = PyArray_DIM(x, 1) / groups;
    p.x_n = stride(x, 0), p.x_c = stride(x, 1), p.x_size = reach(x);
    spatial(x, p.in, p.x_s);
}

void read_out(ConvProblem& p, PyArrayObject* out) {
    p.out = PyArray_DATA(out), p.made = PyArray_DIM(out, 1) / p.groups;
    p.out_n = stride(out, 0), p.out_c = stride(out, 1);
    spatial(out, p.windows, p.out_s);
}

void plain_taps(ConvProblem& p, const Numbers& m, ConvTap* tap) {
    p.taps = 0;
    for (long d = 0; d < m.kernel[0]; d++)
        for (long h = 0; h < m.kernel[1]; h++)
            for (long w = 0; w < m.kernel[2]; w++, p.taps++)
                tap[p.taps] = {{d * m.spread[0] - m.before[0], h * m.spread[1] - m.before[1],
                    w * m.spread[2] - m.before[2]}, p.taps};
    p.tap = tap;
    memcpy(p.step, m.step, sizeof p.step);
}

long floor_div(long a, long b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }

// The results at positions phase, phase + stride, ...: they meet the taps k with k * spread = phase + before (mod stride),
// at input coordinate w + (phase + before - k * spread) / stride.
void phase_taps(ConvProblem& p, const Numbers& m, const long* phase, ConvTap* tap) {
    p.taps = 0;
    long k[3], at[3];
    auto meets = [&](int d) {
        long distance = phase[d] + m.before[d] - k[d] * m.spread[d];
        at[d] = floor_div(distance, m.step[d]);
        return at[d] * m.step[d] == distance;
    };
    for (k[0] = 0; k[0] < m.kernel[0]; k[0]++)
        for (k[1] = 0; meets(0) && k[1] < m.kernel[1]; k[1]++)
            for (k[2] = 0; meets(1) && k[2] < m.kernel[2]; k[2]++)
                if (meets(2))
                    tap[p.taps++] = {{at[0], at[1], at[2]}, (k[0] * m.kernel[1] + k[1]) * m.kernel[2] + k[2]};
    p.tap = tap;
}

void run_transposed(ConvProblem p, const Numbers& m, PyArrayObject* out, ConvTap* tap) {
    ConvProblem whole = p;
    long size = PyArray_ITEMSIZE(out), phase[3];
    for (phase[0] = 0; phase[0] < m.step[0]; phase[0]++)
        for (phase[1] = 0; phase[1] < m.step[1]; phase[1]++)
            for (phase[2] = 0; phase[2] < m.step[2]; phase[2]++) {
                p = whole;
                for (int d = 0; d < 3; d++) {
                    p.step[d] = 1;
                    p.windows[d] = (whole.windows[d] - phase[d] + m.step[d] - 1) / m.step[d];
                    p.out = (char*)p.out + phase[d] * whole.out_s[d] * size;
                    p.out_s[d] = whole.out_s[d] * m.step[d];
                    if (p.windows[d] < 0) p.windows[d] = 0;
                }
                phase_taps(p, m, phase, tap);
                table().forward(&p, &runtime_table);
            }
}

bool arrays_fit(PyArrayObject** a, int count) {
    for (int i = 0; i < count; i++) {
        if (!a[i]) continue;
        bool whole = PyArray_ISALIGNED(a[i]) && !PyArray_ISBYTESWAPPED(a[i]) && type_of(a[i]) == type_of(a[0]);
        for (int d = 0; whole && d < PyArray_NDIM(a[i]); d++)
            whole = PyArray_STRIDE(a[i], d) >= 0 && PyArray_STRIDE(a[i], d) % PyArray_ITEMSIZE(a[i]) == 0;
        if (!whole) return PyErr_Format(PyExc_TypeError, "convolution: array %d does not fit the kernel", i), false;
    }
    if (type_of(a[0]) < 0) return PyErr_Format(PyExc_TypeError, "convolution: no kernel for %R", PyArray_DESCR(a[0])), false;
    return true;
}

}

PyObject* py_convolution(PyObject*, PyObject* args) {
    PyArrayObject *x, *w, *out;
    PyObject *bias, *step, *before, *spread;
    int transposed;
    long groups;
    if (!PyArg_ParseTuple(args, "O!O!OO!OOOpl", &PyArray_Type, &x, &PyArray_Type, &w, &bias, &PyArray_Type, &out, &step,
            &before, &spread, &transposed, &groups))
        return nullptr;
    PyArrayObject* all[] = {x, w, out, bias == Py_None ? nullptr : (PyArrayObject*)bias};
    int dims = PyArray_NDIM(x) - 2;
    Numbers m;
    if (dims < 1 || dims > 3 || PyArray_NDIM(w) != dims + 2 || PyArray_NDIM(out) != dims + 2 || groups < 1
        || !PyArray_IS_C_CONTIGUOUS(w) || (all[3] && (!PyArray_Check(bias) || !PyArray_IS_C_CONTIGUOUS(all[3]))))
        return PyErr_Format(PyExc_ValueError, "convolution: dims or memory order of the arrays");
    if (!arrays_fit(all, 4) || !read(step, dims, m.step) || !read(before, dims, m.before) || !read(spread, dims, m.spread))
        return nullptr;
    for (int d = 0; d < dims; d++) m.kernel[3 - dims + d] = PyArray_DIM(w, d + 2);
    long taps = m.kernel[0] * m.kernel[1] * m.kernel[2];
    ConvProblem p = {};
    read_x(p, x, groups);
    read_out(p, out);
    p.w = PyArray_DATA(w), p.bias = all[3] ? PyArray_DATA(all[3]) : nullptr;
    long rows = PyArray_DIM(w, 1);
    p.w_g = PyArray_DIM(w, 0) / groups * rows * taps;
    p.w_o = transposed ? taps : rows * taps;
    p.w_c = transposed ? rows * taps : taps;
    if (PyArray_DIM(x, 1) != groups * p.channels || (transposed ? PyArray_DIM(w, 0) : rows * groups) != PyArray_DIM(x, 1)
        || (transposed ? rows * groups : PyArray_DIM(w, 0)) != PyArray_DIM(out, 1) || PyArray_DIM(out, 0) != p.batch)
        return PyErr_Format(PyExc_ValueError, "convolution: sizes do not fit");
    ConvTap* tap = (ConvTap*)PyMem_RawMalloc((taps + 1) * sizeof(ConvTap));
    if (!tap) return PyErr_NoMemory();
    Py_BEGIN_ALLOW_THREADS
    if (transposed) run_transposed(p, m, out, tap);
    else {
        plain_taps(p, m, tap);
        table().forward(&p, &runtime_table);
    }
    PyMem_RawFree(tap);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

PyObject* py_convolution_weight(PyObject*, PyObject* args) {
    PyArrayObject *x, *y, *out;
    PyObject *step, *before, *spread;
    long groups;
    if (!PyArg_ParseTuple(args, "O!O!O!OOOl", &PyArray_Type, &x, &PyArray_Type, &y, &PyArray_Type, &out, &step, &before,
            &spread, &groups))
        return nullptr;
    PyArrayObject* all[] = {x, y, out};
    int dims = PyArray_NDIM(x) - 2;
    Numbers m;
    if (dims < 1 || dims > 3 || PyArray_NDIM(y) != dims + 2 || PyArray_NDIM(out) != dims + 2 || groups < 1
        || !PyArray_IS_C_CONTIGUOUS(y) || !PyArray_IS_C_CONTIGUOUS(out))
        return PyErr_Format(PyExc_ValueError, "convolution_weight: dims or memory order of the arrays");
    if (!arrays_fit(all, 3) || !read(step, dims, m.step) || !read(before, dims, m.before) || !read(spread, dims, m.spread))
        return nullptr;
    for (int d = 0; d < dims; d++) m.kernel[3 - dims + d] = PyArray_DIM(out, d + 2);
    ConvProblem p = {};
    read_x(p, x, groups);
    read_out(p, y);
    p.w = PyArray_DATA(out);
    if (PyArray_DIM(out, 0) != p.made * groups || PyArray_DIM(out, 1) != p.channels || PyArray_DIM(y, 0) != p.batch
        || PyArray_DIM(x, 1) != p.channels * groups || PyArray_DIM(y, 1) != p.made * groups)
        return PyErr_Format(PyExc_ValueError, "convolution_weight: sizes do not fit");
    long taps = m.kernel[0] * m.kernel[1] * m.kernel[2];
    ConvTap* tap = (ConvTap*)PyMem_RawMalloc((taps + 1) * sizeof(ConvTap));
    if (!tap) return PyErr_NoMemory();
    Py_BEGIN_ALLOW_THREADS
    plain_taps(p, m, tap);
    table().weight(&p, &runtime_table);
    PyMem_RawFree(tap);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}
