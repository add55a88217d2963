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

// elements from x's first to its last
long reach(const FbConv& c) {
    if (!c.batch || !c.channels) return 0;
    long most = 1 + (c.batch - 1) * c.x_n + (c.channels - 1) * c.x_c;
    for (int d = 0; d < 3; d++) {
        if (!c.in[d]) return 0;
        most += (c.in[d] - 1) * c.x_s[d];
    }
    return most;
}

ConvProblem problem_of(const FbConv& c) {
    ConvProblem p = {};
    p.x = c.x, p.w = c.w, p.bias = c.bias, p.out = c.out, p.type = c.type;
    p.batch = c.batch, p.groups = c.groups, p.channels = c.channels / c.groups, p.made = c.made / c.groups;
    p.x_n = c.x_n, p.x_c = c.x_c, p.x_size = reach(c), p.out_n = c.out_n, p.out_c = c.out_c;
    memcpy(p.in, c.in, sizeof p.in), memcpy(p.x_s, c.x_s, sizeof p.x_s), memcpy(p.step, c.step, sizeof p.step);
    memcpy(p.windows, c.windows, sizeof p.windows), memcpy(p.out_s, c.out_s, sizeof p.out_s);
    long taps = c.kernel[0] * c.kernel[1] * c.kernel[2];
    bool transposed = c.form == FB_CONV_TRANSPOSED;
    long rows = transposed ? p.made : p.channels;
    p.epilogue = c.epilogue, p.epilogue_arg = c.epilogue_arg;
    p.w_g = (transposed ? p.channels : p.made) * rows * taps;
    p.w_o = transposed ? taps : rows * taps;
    p.w_c = transposed ? rows * taps : taps;
    return p;
}

void plain_taps(ConvProblem& p, const FbConv& c, ConvTap* tap) {
    p.taps = 0;
    for (long d = 0; d < c.kernel[0]; d++)
        for (long h = 0; h < c.kernel[1]; h++)
            for (long w = 0; w < c.kernel[2]; w++, p.taps++)
                tap[p.taps] = {{d * c.spread[0] - c.before[0], h * c.spread[1] - c.before[1],
                    w * c.spread[2] - c.before[2]}, p.taps, 0};
    p.tap = tap;
}

// The results at positions phase, phase + stride, ...: they meet the taps k with k * spread = phase + before (mod stride),
// at input coordinate w + (phase + before - k * spread) / stride.
void phase_taps(ConvProblem& p, const FbConv& m, const long* phase, ConvTap* tap) {
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
                    tap[p.taps++] = {{at[0], at[1], at[2]}, (k[0] * m.kernel[1] + k[1]) * m.kernel[2] + k[2], 0};
    p.tap = tap;
}

void run_transposed(ConvProblem p, const FbConv& m, ConvTap* tap) {
    ConvProblem whole = p;
    long size = m.type == FB_DOUBLE ? 8 : m.type == FB_FLOAT ? 4 : 2, phase[3];
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
        bool whole = PyArray_ISALIGNED(a[i]) && kernel_type(a[i]) == kernel_type(a[0]);
        for (int d = 0; whole && d < PyArray_NDIM(a[i]); d++)
            whole = PyArray_STRIDE(a[i], d) >= 0 && PyArray_STRIDE(a[i], d) % PyArray_ITEMSIZE(a[i]) == 0;
        if (!whole) return PyErr_Format(PyExc_TypeError, "convolution: array %d does not fit the kernel", i), false;
    }
    if (kernel_type(a[0]) < 0) return PyErr_Format(PyExc_TypeError, "convolution: no kernel for %R", PyArray_DESCR(a[0])), false;
    return true;
}

// the numbers of x (a) and of what has its windows (b)
bool describe(FbConv& c, PyArrayObject* x, PyArrayObject* out, PyArrayObject* kernel, PyObject* step, PyObject* before,
    PyObject* spread) {
    int dims = PyArray_NDIM(x) - 2;
    c.x = PyArray_DATA(x), c.out = PyArray_DATA(out), c.type = kernel_type(x);
    c.batch = PyArray_DIM(x, 0), c.channels = PyArray_DIM(x, 1), c.made = PyArray_DIM(out, 1);
    c.x_n = stride(x, 0), c.x_c = stride(x, 1), c.out_n = stride(out, 0), c.out_c = stride(out, 1);
    spatial(x, c.in, c.x_s);
    spatial(out, c.windows, c.out_s);
    for (int d = 0; d < 3; d++) c.kernel[d] = c.step[d] = c.spread[d] = 1, c.before[d] = 0;
    for (int d = 0; d < dims; d++) c.kernel[3 - dims + d] = PyArray_DIM(kernel, d + 2);
    return read(step, dims, c.step) && read(before, dims, c.before) && read(spread, dims, c.spread);
}

bool is_trivial(const FbConv& c, int d) { return c.in[d] == 1 && c.windows[d] == 1 && c.kernel[d] == 1 && c.before[d] == 0; }

// Images of width 1 under kernels of width 1 are rows: the kernels run along the last dim, so trailing dims without extent
// become leading ones.
FbConv with_rows_last(FbConv c) {
    for (int k = 0; k < 2 && is_trivial(c, 2) && !(is_trivial(c, 1) && is_trivial(c, 0)); k++) {
        long* const all[] = {c.in, c.windows, c.kernel, c.step, c.before, c.spread, c.x_s, c.out_s};
        for (long* a : all) a[2] = a[1], a[1] = a[0];
        c.in[0] = c.windows[0] = c.kernel[0] = c.step[0] = c.spread[0] = 1;
        c.before[0] = c.x_s[0] = c.out_s[0] = 0;
    }
    return c;
}

}

void run_conv(const FbConv* given) {
    const FbConv moved = with_rows_last(*given), *c = &moved;
    if (table().images(c, &runtime_table)) return;
    ConvProblem p = problem_of(*c);
    ConvTap* tap = (ConvTap*)runtime_table.alloc((c->kernel[0] * c->kernel[1] * c->kernel[2] + 1) * sizeof(ConvTap));
    if (c->form == FB_CONV_TRANSPOSED) {
        if (!table().scatter(&p, c, &runtime_table)) run_transposed(p, *c, tap);
    }
    else {
        plain_taps(p, *c, tap);
        (c->form == FB_CONV_WEIGHT ? table().weight : table().forward)(&p, &runtime_table);
    }
    runtime_table.release(tap);
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
    if (dims < 1 || dims > 3 || PyArray_NDIM(w) != dims + 2 || PyArray_NDIM(out) != dims + 2 || groups < 1
        || !PyArray_IS_C_CONTIGUOUS(w) || (all[3] && (!PyArray_Check(bias) || !PyArray_IS_C_CONTIGUOUS(all[3]))))
        return PyErr_Format(PyExc_ValueError, "convolution: dims or memory order of the arrays");
    FbConv c = {};
    c.form = transposed ? FB_CONV_TRANSPOSED : FB_CONV_PLAIN, c.groups = groups;
    if (!arrays_fit(all, 4) || !describe(c, x, out, w, step, before, spread)) return nullptr;
    c.w = PyArray_DATA(w), c.bias = all[3] ? PyArray_DATA(all[3]) : nullptr;
    long outer = PyArray_DIM(w, 0), inner = PyArray_DIM(w, 1) * groups;
    if (c.channels != (transposed ? outer : inner) || c.made != (transposed ? inner : outer) || c.channels % groups
        || c.made % groups || PyArray_DIM(out, 0) != c.batch)
        return PyErr_Format(PyExc_ValueError, "convolution: sizes do not fit");
    Counted counted;
    Py_BEGIN_ALLOW_THREADS run_conv(&c);
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
    if (dims < 1 || dims > 3 || PyArray_NDIM(y) != dims + 2 || PyArray_NDIM(out) != dims + 2 || groups < 1
        || !PyArray_IS_C_CONTIGUOUS(y) || !PyArray_IS_C_CONTIGUOUS(out))
        return PyErr_Format(PyExc_ValueError, "convolution_weight: dims or memory order of the arrays");
    FbConv c = {};
    c.form = FB_CONV_WEIGHT, c.groups = groups;
    if (!arrays_fit(all, 3) || !describe(c, x, y, out, step, before, spread)) return nullptr;
    c.w = PyArray_DATA(out);
    if (PyArray_DIM(out, 0) != c.made || PyArray_DIM(out, 1) * groups != c.channels || c.made % groups
        || PyArray_DIM(y, 0) != c.batch)
        return PyErr_Format(PyExc_ValueError, "convolution_weight: sizes do not fit");
    Counted counted;
    Py_BEGIN_ALLOW_THREADS run_conv(&c);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}
