// Convolutions and transposed ones of dense tensors: what their functions check, one call of the runtime, and the record's node.
#include "small_tensor.h"

namespace {

constexpr long DROP_GIL_FROM = 1 << 16; // multiplications

// One number per spatial dim, of a number or of so many; a missing one is `missing`.
bool read_numbers(PyObject* x, int n, npy_intp missing, npy_intp least, npy_intp* out) {
    bool many = x && (PyTuple_CheckExact(x) || PyList_CheckExact(x));
    if (many && PySequence_Fast_GET_SIZE(x) != n) return false;
    for (int d = 0; d < n; d++) {
        out[d] = missing;
        if (x && !small_int(many ? PySequence_Fast_GET_ITEM(x, d) : x, out[d])) return false;
        if (out[d] < least || out[d] > 1 << 24) return false;
    }
    return true;
}

// Whether images (N, C, H, W) lie in the order N, H, W, C; what fits both orders does not (as ops/conv_kernels.py has it).
bool channels_last(PyArrayObject* a) {
    npy_intp least = 0;
    if (PyArray_NDIM(a) != 4 || PyArray_DIM(a, 1) != 1) return false;
    for (int d : {1, 3, 2, 0}) {
        npy_intp n = PyArray_DIM(a, d), s = PyArray_STRIDE(a, d) / PyArray_ITEMSIZE(a);
        if (s < least || !s || (d == 0 && least == PyArray_STRIDE(a, 1) / PyArray_ITEMSIZE(a))) return false;
        least = n > 1 ? s * n : s;
    }
    return true;
}

struct Windows {
    int n, type;
    bool transposed;
    PyArrayObject *x, *w, *bias = nullptr;
    npy_intp stride[3], padding[3], dilation[3], extra[3], groups, sizes[MAX_DIMS];

    bool tensors(PyObject* input, PyObject* weight, PyObject* offset) {
        x = input ? dense_array(input) : nullptr, w = x && weight ? dense_array(weight) : nullptr, type = x ? type_of(input) : -1;
        if (!w || type_of(weight) != type || (type != FLOAT32 && type != FLOAT64 && type != FLOAT16 && type != BFLOAT16)
            || PyArray_NDIM(x) != n + 2 || PyArray_NDIM(w) != n + 2 || !PyArray_SIZE(x) || !PyArray_SIZE(w) || channels_last(x)
            || channels_last(w))
            return false;
        bias = absent(offset) ? nullptr : dense_array(offset);
        return absent(offset) || (bias && type_of(offset) == type && PyArray_NDIM(bias) == 1);
    }
    // the sizes of the result, where all of them fit
    bool measure() {
        npy_intp outer = PyArray_DIM(w, 0), inner = PyArray_DIM(w, 1) * groups, made = transposed ? inner : outer;
        if (outer % groups || PyArray_DIM(x, 1) != (transposed ? outer : inner) || (bias && PyArray_DIM(bias, 0) != made)) return false;
        sizes[0] = PyArray_DIM(x, 0), sizes[1] = made;
        for (int d = 0; d < n; d++) {
            npy_intp m = PyArray_DIM(x, d + 2), span = dilation[d] * (PyArray_DIM(w, d + 2) - 1) + 1, room = m + 2 * padding[d] - span;
            if (transposed && extra[d] >= stride[d] && extra[d] >= dilation[d]) return false;
            sizes[d + 2] = transposed ? (m - 1) * stride[d] - 2 * padding[d] + span + extra[d] : room < 0 ? 0 : room / stride[d] + 1;
            if (sizes[d + 2] < 1) return false;
        }
        return true;
    }
    void run(PyArrayObject* out) const {
        FbConv c = {};
        c.x = PyArray_DATA(x), c.w = PyArray_DATA(w), c.out = PyArray_DATA(out), c.bias = bias ? PyArray_DATA(bias) : nullptr;
        c.type = kernel_type(type);
        c.form = transposed ? FB_CONV_TRANSPOSED : FB_CONV_PLAIN;
        c.batch = sizes[0], c.groups = groups, c.channels = PyArray_DIM(x, 1), c.made = sizes[1];
        npy_intp area = 1, made = 1;
        for (int d = 0; d < 3; d++) c.in[d] = c.windows[d] = c.kernel[d] = c.step[d] = c.spread[d] = 1;
        for (int d = n - 1, at = 2; d >= 0; d--, at--) {
            c.in[at] = PyArray_DIM(x, d + 2), c.windows[at] = sizes[d + 2], c.kernel[at] = PyArray_DIM(w, d + 2);
            c.step[at] = stride[d], c.before[at] = padding[d], c.spread[at] = dilation[d];
            c.x_s[at] = area, c.out_s[at] = made, area *= c.in[at], made *= c.windows[at];
        }
        c.x_c = area, c.x_n = area * c.channels, c.out_c = made, c.out_n = made * c.made;
        double work = (double)PyArray_SIZE(out) * PyArray_SIZE(w) / PyArray_DIM(w, transposed ? 1 : 0);
        if (work < DROP_GIL_FROM) return world.api->runtime->conv(&c);
        Py_BEGIN_ALLOW_THREADS world.api->runtime->conv(&c);
        Py_END_ALLOW_THREADS
    }
};

template <int n, bool transposed> PyObject* convolve(const Call& c) {
    static const Names<7> plain("input", "weight", "bias", "stride", "padding", "dilation", "groups");
    static const Names<8> turned("input", "weight", "bias", "stride", "padding", "output_padding", "groups", "dilation");
    PyObject *first[7], *a[8];
    if (transposed) {
        if (!parse(c, turned, a)) return nullptr;
    } else {
        if (!parse(c, plain, first)) return nullptr;
        PyObject* same[] = {first[0], first[1], first[2], first[3], first[4], nullptr, first[6], first[5]};
        for (int k = 0; k < 8; k++) a[k] = same[k];
    }
    Windows s = {n, -1, transposed};
    s.groups = 1;
    if (!s.tensors(a[0], a[1], a[2]) || !read_numbers(a[3], n, 1, 1, s.stride) || !read_numbers(a[4], n, 0, 0, s.padding)
        || !read_numbers(a[5], n, 0, 0, s.extra) || !read_numbers(a[7], n, 1, 1, s.dilation) || (a[6] && !small_int(a[6], s.groups))
        || s.groups < 1 || !s.measure())
        return nullptr;
    Ref array(fresh_array(s.type, n + 2, s.sizes, nullptr));
    if (!array) return nullptr;
    s.run((PyArrayObject*)array.get());
    PyObject* out = tensor_around(array.release(), s.type);
    if (!out || !c.grad || !(needs_grad(a[0]) || needs_grad(a[1]) || (!absent(a[2]) && needs_grad(a[2])))) return out;
    Ref made(out), stride(tuple_of(s.stride, n)), padding(tuple_of(s.padding, n)), dilation(tuple_of(s.dilation, n)), extra(tuple_of(s.extra, n)),
        groups(PyLong_FromSsize_t(s.groups));
    if (!stride || !padding || !dilation || !extra || !groups) return nullptr;
    PyObject* given[] = {a[0], a[1], absent(a[2]) ? Py_None : a[2], stride.get(), padding.get(), dilation.get(), transposed ? Py_True : Py_False,
        extra.get(), groups.get()};
    return small_recorded(c, given, made.release());
}

}

const SmallEntry small_convolutions[] = {{"conv1d", convolve<1, false>}, {"conv2d", convolve<2, false>}, {"conv3d", convolve<3, false>},
    {"conv_transpose1d", convolve<1, true>}, {"conv_transpose2d", convolve<2, true>}, {"conv_transpose3d", convolve<3, true>},
    {nullptr, nullptr}};
