// Distances and norms of rows, windows whose starts are drawn, and where maxima came from: handlers of public functions and
// kernels on arrays for records (`native`), which answer NotImplemented to what they do not take.
#include "small_tensor.h"

#include <math.h>
#include <string.h>

#include <vector>

#include "../../runtime/csrc/job.h"
#include "casts.h"

namespace {

constexpr npy_intp FEW = 1 << 14, LARGE = 1 << 22;

// ---- the gradient of distances of all pairs of rows

// pair_distances_backward(g, x, d)
PyObject* py_pair_distances_backward(PyObject*, PyObject* const* args, Py_ssize_t n) {
    PyArrayObject* x = n == 3 ? row_major(args[1], -1, 2) : nullptr;
    int type = x ? element_type(x) : -1;
    PyArrayObject *g = type == FLOAT32 || type == FLOAT64 ? row_major(args[0], type, 1) : nullptr, *d = g ? row_major(args[2], type, 1) : nullptr;
    if (!d || !PyArray_SIZE(x)) return declined();
    npy_intp rows = PyArray_DIM(x, 0), width = PyArray_DIM(x, 1), pairs = rows * (rows - 1) / 2;
    if (PyArray_SIZE(g) != pairs || PyArray_SIZE(d) != pairs) return declined();
    PyObject* out = fresh_array(type, 2, PyArray_DIMS(x), nullptr);
    if (!out) return nullptr;
    static const int number = small_job("pair_distances_back");
    Job job = {};
    job.rt = world.api->runtime;
    job.p[0] = data_of(out), job.p[1] = PyArray_DATA(g), job.p[2] = PyArray_DATA(x), job.p[3] = PyArray_DATA(d);
    job.n[0] = rows, job.n[1] = width;
    FbJob run = world.api->jobs()[number].run[type == FLOAT64];
    Py_BEGIN_ALLOW_THREADS run(job, 0, rows);
    Py_END_ALLOW_THREADS
    return out;
}

// pair_distances(x)
PyObject* py_pair_distances(PyObject*, PyObject* x) {
    PyArrayObject* a = row_major(x, FLOAT32, 2);
    if (!a || PyArray_DIM(a, 0) < 2 || !PyArray_DIM(a, 1) || PyArray_SIZE(a) > 1 << 20) return declined();
    npy_intp rows = PyArray_DIM(a, 0), pairs = rows * (rows - 1) / 2;
    PyObject* out = fresh_array(FLOAT32, 1, &pairs, nullptr);
    if (out) small_pair_distances((const float*)PyArray_DATA(a), rows, PyArray_DIM(a, 1), (float*)data_of(out));
    return out;
}

// ---- zeros with a new dim, and x at its index along it

// spread(x, index, dim, size)
PyObject* py_spread(PyObject*, PyObject* const* args, Py_ssize_t n) {
    if (n != 4 || !PyArray_CheckExact(args[0])) return declined();
    PyArrayObject *x = (PyArrayObject*)args[0], *index = row_major(args[1], INT64, PyArray_NDIM(x));
    npy_intp dim, size, sizes[MAX_DIMS], outer = 1, inner = 1;
    int dims = PyArray_NDIM(x), type = element_type(x);
    if (!index || dims + 2 > MAX_DIMS || type < 0 || world.types[type].itemsize > 8 || !PyArray_ISALIGNED(x)
        || !small_int(args[2], dim) || !small_int(args[3], size) || dim < 0 || dim > dims || size < 1)
        return declined();
    bool one = true; // one number for all, expanded
    for (int d = 0; d < dims; d++) {
        if (PyArray_DIM(x, d) != PyArray_DIM(index, d)) return declined();
        one = one && (PyArray_STRIDE(x, d) == 0 || PyArray_DIM(x, d) == 1);
        (d < dim ? outer : inner) *= PyArray_DIM(x, d);
        sizes[d < dim ? d : d + 1] = PyArray_DIM(x, d);
    }
    if ((!one && !PyArray_IS_C_CONTIGUOUS(x)) || outer * inner * size > LARGE || !PyArray_SIZE(x)) return declined();
    sizes[dim] = size;
    const int64_t* at = (const int64_t*)PyArray_DATA(index);
    for (npy_intp k = 0; k < outer * inner; k++)
        if ((uint64_t)at[k] >= (uint64_t)size) return declined();
    PyObject* out = fresh_array(type, dims + 1, sizes, nullptr);
    if (!out) return nullptr;
    memset(data_of(out), 0, PyArray_NBYTES((PyArrayObject*)out));
    auto put = [&](auto e) {
        typedef decltype(e) E;
        const E* from = (const E*)PyArray_DATA(x);
        E* to = (E*)data_of(out);
        npy_intp step = one ? 0 : 1;
        for (npy_intp o = 0; o < outer; o++, to += size * inner)
            for (npy_intp i = 0; i < inner; i++, from += step) to[*at++ * inner + i] = *from;
    };
    switch (world.types[type].itemsize) {
    case 1: put(uint8_t{}); break;
    case 2: put(uint16_t{}); break;
    case 4: put(uint32_t{}); break;
    default: put(uint64_t{});
    }
    return out;
}

// ---- flat indices into the pooled dims, from positions in windows

// max_indices(place, sizes, kernel, stride, padding, dilation)
PyObject* py_max_indices(PyObject*, PyObject* const* args, Py_ssize_t n) {
    int dims = n == 6 && PyTuple_Check(args[2]) ? (int)PyTuple_GET_SIZE(args[2]) : 0;
    PyArrayObject* place = dims >= 1 && dims <= 3 && PyArray_CheckExact(args[0]) ? row_major(args[0], INT64, PyArray_NDIM((PyArrayObject*)args[0])) : nullptr;
    npy_intp sizes[3], kernel[3], stride[3], padding[3], dilation[3];
    int rank = place ? PyArray_NDIM(place) : 0;
    if (rank < dims || !numbers_of(args[1], dims, sizes) || !numbers_of(args[2], dims, kernel) || !numbers_of(args[3], dims, stride)
        || !numbers_of(args[4], dims, padding) || !numbers_of(args[5], dims, dilation) || !place)
        return declined();
    for (int d = 0; d < dims; d++)
        if (kernel[d] < 1 || sizes[d] < 1 || dilation[d] < 1) return declined();
    PyObject* out = fresh_array(INT64, rank, PyArray_DIMS(place), nullptr);
    if (!out) return nullptr;
    const int64_t* from = (const int64_t*)PyArray_DATA(place);
    int64_t* to = (int64_t*)data_of(out);
    npy_intp outputs[3], o[3] = {0, 0, 0};
    for (int d = 0; d < dims; d++) outputs[d] = PyArray_DIM(place, rank - dims + d);
    for (npy_intp k = 0, all = PyArray_SIZE(place); k < all; k++) {
        npy_intp rest = from[k], flat = 0, step = 1;
        for (int d = dims - 1; d >= 0; d--) {
            npy_intp position = d ? rest % kernel[d] : rest, at;
            rest /= kernel[d];
            at = position * dilation[d] + o[d] * stride[d] - padding[d];
            if (at < 0) at = (at % dilation[d] + dilation[d]) % dilation[d]; // a window of nothing but -inf: its first element
            at = at > sizes[d] - 1 ? sizes[d] - 1 : at;
            flat += at * step, step *= sizes[d];
        }
        to[k] = flat;
        for (int d = dims - 1; d >= 0 && ++o[d] == outputs[d]; d--) o[d] = 0;
    }
    return out;
}

// ---- maxima of windows that start where samples say

template <class T> bool starts_of(T sample, npy_intp n, npy_intp m, npy_intp k, npy_intp* out) {
    T alpha = m == 1 ? 0 : (T)((double)(n - k) / (double)(m - 1));
    npy_intp first = (npy_intp)(sample * alpha);
    for (npy_intp j = 0; j < m; j++) {
        out[j] = j == m - 1 ? n - k : (npy_intp)(((T)j + sample) * alpha) - first;
        if (out[j] < 0 || out[j] > n - k) return false;
    }
    return true;
}

template <class T> bool fractional(PyArrayObject* x, PyArrayObject* samples, int n, const npy_intp* kernel, const npy_intp* sizes, T* values,
    int64_t* places) {
    npy_intp planes = PyArray_DIM(x, 0) * PyArray_DIM(x, 1), in[3] = {1, 1, 1}, k[3] = {1, 1, 1}, m[3] = {1, 1, 1};
    for (int d = 0; d < n; d++) in[3 - n + d] = PyArray_DIM(x, 2 + d), k[3 - n + d] = kernel[d], m[3 - n + d] = sizes[d];
    std::vector<npy_intp> starts[3] = {std::vector<npy_intp>(m[0]), std::vector<npy_intp>(m[1]), std::vector<npy_intp>(m[2])};
    const T *from = (const T*)PyArray_DATA(x), *sample = (const T*)PyArray_DATA(samples);
    for (npy_intp p = 0; p < planes; p++, from += in[0] * in[1] * in[2], sample += n) {
        for (int d = 0; d < n; d++)     // (samples of an image come as width and height)
            if (!starts_of(sample[n == 2 ? 1 - d : d], in[3 - n + d], m[3 - n + d], k[3 - n + d], starts[3 - n + d].data())) return false;
        for (npy_intp a = 0; a < m[0]; a++)
            for (npy_intp b = 0; b < m[1]; b++)
                for (npy_intp c = 0; c < m[2]; c++) {
                    npy_intp at = (starts[0][a] * in[1] + starts[1][b]) * in[2] + starts[2][c], place = at;
                    T best = from[at];
                    for (npy_intp i = 0; i < k[0]; i++)
                        for (npy_intp j = 0; j < k[1]; j++)
                            for (npy_intp l = 0; l < k[2]; l++) {
                                npy_intp here = at + (i * in[1] + j) * in[2] + l;
                                T v = from[here];
                                if (v > best || (v != v && best == best)) best = v, place = here;
                            }
                    *values++ = best, *places++ = place;
                }
    }
    return true;
}

// fractional_max(x, samples, kernel, sizes): (values, flat places in the pooled dims)
PyObject* py_fractional_max(PyObject*, PyObject* const* args, Py_ssize_t count) {
    int n = count == 4 && PyTuple_Check(args[2]) ? (int)PyTuple_GET_SIZE(args[2]) : 0;
    PyArrayObject* x = n == 2 || n == 3 ? row_major(args[0], -1, n + 2) : nullptr;
    int type = x ? element_type(x) : -1;
    PyArrayObject* samples = type == FLOAT32 || type == FLOAT64 ? row_major(args[1], type, 3) : nullptr;
    npy_intp kernel[3], sizes[5];
    if (!samples || !PyArray_SIZE(x) || !numbers_of(args[2], n, kernel) || !numbers_of(args[3], n, sizes + 2)) return declined();
    for (int d = 0; d < 2; d++) {
        sizes[d] = PyArray_DIM(x, d);
        if (PyArray_DIM(samples, d) != sizes[d]) return declined();
    }
    if (PyArray_DIM(samples, 2) != n) return declined();
    for (int d = 0; d < n; d++)
        if (kernel[d] < 1 || sizes[2 + d] < 1 || kernel[d] > PyArray_DIM(x, 2 + d)) return declined();
    Ref values(fresh_array(type, n + 2, sizes, nullptr)), places(fresh_array(INT64, n + 2, sizes, nullptr));
    if (!values || !places) return nullptr;
    int64_t* at = (int64_t*)data_of(places.get());
    bool good = type == FLOAT32 ? fractional(x, samples, n, kernel, sizes + 2, (float*)data_of(values.get()), at)
                                : fractional(x, samples, n, kernel, sizes + 2, (double*)data_of(values.get()), at);
    return good ? PyTuple_Pack(2, values.get(), places.get()) : declined();
}

// ---- handlers: distances of rows, without history

PyArrayObject* floats_of(const Call& c, PyObject* t) {
    PyArrayObject* a = t ? dense_array(t) : nullptr;
    return a && !(c.grad && needs_grad(t)) && type_of(t) == FLOAT32 && PyArray_SIZE(a) && PyArray_SIZE(a) <= alone(1 << 17) ? a : nullptr;
}
bool same_sizes(PyArrayObject* a, PyArrayObject* b) {
    return PyArray_NDIM(a) == PyArray_NDIM(b) && PyArray_CompareLists(PyArray_DIMS(a), PyArray_DIMS(b), PyArray_NDIM(a));
}
const float* floats(PyArrayObject* a) { return (const float*)PyArray_DATA(a); }

// the length of x - y + eps, in floats of many lanes
FB_EACH_MACHINE float apart_of(const float* x, const float* y, npy_intp n, float eps) {
    float lanes[16] = {}, total = 0;
    npy_intp k = 0;
    for (; k + 16 <= n; k += 16)
        for (int j = 0; j < 16; j++) {
            float v = x[k + j] - y[k + j] + eps;
            lanes[j] += v * v;
        }
    for (; k < n; k++) {
        float v = x[k] - y[k] + eps;
        total += v * v;
    }
    for (int j = 0; j < 16; j++) total += lanes[j];
    return __builtin_sqrtf(total);
}

// the same without a look at what leads to gradients
PyArrayObject* small_floats(PyObject* t) {
    PyArrayObject* a = t ? dense_array(t) : nullptr;
    return a && type_of(t) == FLOAT32 && PyArray_SIZE(a) && PyArray_SIZE(a) <= alone(1 << 17) ? a : nullptr;
}
bool same_rows(PyArrayObject* x, PyArrayObject* y) { return PyArray_NDIM(x) && same_sizes(x, y); }

PyObject* distances(PyArrayObject* x, PyArrayObject* y, double eps) {
    int dims = PyArray_NDIM(x);
    npy_intp n = PyArray_DIM(x, dims - 1);
    PyObject* array = fresh_array(FLOAT32, dims - 1, PyArray_DIMS(x), nullptr);
    for (npy_intp r = 0; array && r < PyArray_SIZE(x) / n; r++)
        ((float*)data_of(array))[r] = apart_of(floats(x) + r * n, floats(y) + r * n, n, (float)eps);
    return array;
}

PyObject* pairwise_distance(const Call& c) {
    static const Names<4> names("x1", "x2", "p", "eps");
    PyObject* a[4];
    double p, eps;
    if (!parse(c, names, a) || !small_real(a[2], 2, p) || p != 2 || !small_real(a[3], 1e-6, eps)) return nullptr;
    PyArrayObject *x = small_floats(a[0]), *y = x ? small_floats(a[1]) : nullptr;
    if (!y || !same_rows(x, y) || PyArray_DIM(x, PyArray_NDIM(x) - 1) == 1) return nullptr;
    Ref room(PyFloat_FromDouble(eps));
    PyObject* given[] = {a[0], a[1], room.get()};
    return small_recorded(c, given, tensor_around(distances(x, y, eps), FLOAT32));
}

// ---- kernels of records: of rows of floats of one shape

PyArrayObject* plain_rows(PyObject* x, int dims = -1) {
    PyArrayObject* a = row_major(x, FLOAT32, dims);
    return a && PyArray_SIZE(a) && PyArray_SIZE(a) <= 1 << 17 ? a : nullptr;
}

// row_distance(x, y, eps)
PyObject* py_row_distance(PyObject*, PyObject* const* args, Py_ssize_t count) {
    PyArrayObject *x = count == 3 ? plain_rows(args[0]) : nullptr, *y = x ? plain_rows(args[1]) : nullptr;
    double eps;
    return y && same_rows(x, y) && small_real(args[2], 0, eps) ? distances(x, y, eps) : declined();
}

// row_distance_backward(g, x, y, eps, distances): with respect to x
PyObject* py_row_distance_backward(PyObject*, PyObject* const* args, Py_ssize_t count) {
    PyArrayObject *x = count == 5 ? plain_rows(args[1]) : nullptr, *y = x ? plain_rows(args[2]) : nullptr, *g = y ? plain_rows(args[0]) : nullptr,
                  *d = g ? plain_rows(args[4]) : nullptr;
    double eps;
    if (!d || !same_rows(x, y) || !small_real(args[3], 0, eps)) return declined();
    npy_intp n = PyArray_DIM(x, PyArray_NDIM(x) - 1), rows = PyArray_SIZE(x) / n;
    if (PyArray_SIZE(g) != rows || PyArray_SIZE(d) != rows) return declined();
    PyObject* array = fresh_array(FLOAT32, PyArray_NDIM(x), PyArray_DIMS(x), nullptr);
    if (!array) return nullptr;
    float* out = (float*)data_of(array);
    for (npy_intp r = 0; r < rows; r++) {
        float share = floats(d)[r] == 0 ? 0 : floats(g)[r] / floats(d)[r];
        for (npy_intp k = r * n; k < (r + 1) * n; k++) out[k] = (floats(x)[k] - floats(y)[k] + (float)eps) * share;
    }
    return array;
}

PyObject* cdist(const Call& c) {
    static const Names<2> names("x1", "x2");
    PyObject* a[2];
    if (!parse(c, names, a)) return nullptr;
    PyArrayObject *x = floats_of(c, a[0]), *y = x ? floats_of(c, a[1]) : nullptr;
    if (!y || PyArray_NDIM(x) != 2 || PyArray_NDIM(y) != 2 || PyArray_DIM(x, 1) != PyArray_DIM(y, 1)) return nullptr;
    npy_intp sizes[] = {PyArray_DIM(x, 0), PyArray_DIM(y, 0)}, n = PyArray_DIM(x, 1);
    if (sizes[0] > 25 || sizes[1] > 25) return nullptr; // (others go by a product)
    PyObject* array = fresh_array(FLOAT32, 2, sizes, nullptr);
    if (!array) return nullptr;
    float* out = (float*)data_of(array);
    for (npy_intp i = 0; i < sizes[0]; i++)
        for (npy_intp j = 0; j < sizes[1]; j++) *out++ = apart_of(floats(x) + i * n, floats(y) + j * n, n, 0);
    return tensor_around(array, FLOAT32);
}

FB_EACH_MACHINE void products_of(const float* x, const float* y, npy_intp n, float* out) {
    float a[16] = {}, b[16] = {}, d[16] = {};
    npy_intp k = 0;
    for (; k + 16 <= n; k += 16)
        for (int j = 0; j < 16; j++) a[j] += x[k + j] * x[k + j], b[j] += y[k + j] * y[k + j], d[j] += x[k + j] * y[k + j];
    for (; k < n; k++) a[0] += x[k] * x[k], b[0] += y[k] * y[k], d[0] += x[k] * y[k];
    out[0] = out[1] = out[2] = 0;
    for (int j = 0; j < 16; j++) out[0] += a[j], out[1] += b[j], out[2] += d[j];
}

// Of two rows: their lengths, and the cosine of their angle; lengths count as at least `least`. False: squares that lose.
struct Angle {
    float first, second, cosine;
    bool read(const float* x, const float* y, npy_intp n, float least) {
        float found[3];
        products_of(x, y, n, found);
        if (!(found[0] > 1e-30f && found[0] < 1e30f && found[1] > 1e-30f && found[1] < 1e30f)) return false;
        first = __builtin_sqrtf(found[0]), second = __builtin_sqrtf(found[1]);
        cosine = found[2] / (first < least ? least : first) / (second < least ? least : second);
        return true;
    }
};

// An array, or null without an error.
PyObject* cosines(PyArrayObject* x, PyArrayObject* y, double eps) {
    int dims = PyArray_NDIM(x);
    npy_intp n = PyArray_DIM(x, dims - 1);
    Ref array(fresh_array(FLOAT32, dims - 1, PyArray_DIMS(x), nullptr));
    for (npy_intp r = 0; array && r < PyArray_SIZE(x) / n; r++) {
        Angle a;
        if (!a.read(floats(x) + r * n, floats(y) + r * n, n, (float)eps)) return nullptr;
        ((float*)data_of(array.get()))[r] = a.cosine;
    }
    return array.release();
}

PyObject* cosine_similarity(const Call& c) {
    static const Names<4> names("x1", "x2", "dim", "eps");
    PyObject* a[4];
    double eps;
    int d = 1;
    if (!parse(c, names, a) || !small_real(a[3], 1e-8, eps) || !(eps > 1e-30 && eps < 1e30)) return nullptr;
    PyArrayObject *x = small_floats(a[0]), *y = x ? small_floats(a[1]) : nullptr;
    int dims = y ? PyArray_NDIM(x) : 0;
    if (!dims || !same_sizes(x, y) || (a[2] && !small_dim(a[2], dims, d)) || d != dims - 1) return nullptr;
    Ref dim(PyLong_FromLong(d)), least(PyFloat_FromDouble(eps));
    PyObject* given[] = {a[0], a[1], dim.get(), least.get()};
    return small_recorded(c, given, tensor_around(cosines(x, y, eps), FLOAT32));
}

bool cosine_operands(PyObject* first, PyObject* second, PyObject* dim, PyObject* least, PyArrayObject*& x, PyArrayObject*& y, double& eps) {
    npy_intp d;
    x = plain_rows(first), y = x ? plain_rows(second) : nullptr;
    return y && same_rows(x, y) && small_int(dim, d) && d == PyArray_NDIM(x) - 1 && small_real(least, 0, eps) && eps > 1e-30 && eps < 1e30;
}

// cosine_similarity(x, y, dim, eps)
PyObject* py_cosine_similarity(PyObject*, PyObject* const* args, Py_ssize_t count) {
    PyArrayObject *x, *y;
    double eps;
    PyObject* found = count == 4 && cosine_operands(args[0], args[1], args[2], args[3], x, y, eps) ? cosines(x, y, eps) : nullptr;
    return found || PyErr_Occurred() ? found : declined();
}

// cosine_similarity_backward(g, x, y, dim, eps): with respect to x
PyObject* py_cosine_similarity_backward(PyObject*, PyObject* const* args, Py_ssize_t count) {
    PyArrayObject *x, *y, *g = count == 5 ? plain_rows(args[0]) : nullptr;
    double eps;
    if (!g || !cosine_operands(args[1], args[2], args[3], args[4], x, y, eps)) return declined();
    npy_intp n = PyArray_DIM(x, PyArray_NDIM(x) - 1), rows = PyArray_SIZE(x) / n;
    if (PyArray_SIZE(g) != rows) return declined();
    Ref array(fresh_array(FLOAT32, PyArray_NDIM(x), PyArray_DIMS(x), nullptr));
    if (!array) return nullptr;
    float *out = (float*)data_of(array.get()), least = (float)eps;
    for (npy_intp r = 0; r < rows; r++) {
        const float *a = floats(x) + r * n, *b = floats(y) + r * n;
        Angle angle;
        if (!angle.read(a, b, n, least)) return declined();
        float slope = floats(g)[r] / (angle.first < least ? least : angle.first), back = angle.cosine / angle.first,
              length = angle.second < least ? least : angle.second;
        for (npy_intp k = 0; k < n; k++) out[r * n + k] = slope * (b[k] / length - a[k] * back);
    }
    return array.release();
}

PyObject* triplet_margin_loss(const Call& c) {
    static const Names<10> names("anchor", "positive", "negative", "margin", "p", "eps", "swap", "size_average", "reduce", "reduction");
    PyObject* a[10];
    double margin, p, eps;
    bool swap, mean;
    if (!parse(c, names, a) || !small_real(a[3], 1, margin) || !(margin > 0 && margin < 1e30) || !small_real(a[4], 2, p) || p != 2
        || !small_real(a[5], 1e-6, eps) || !flag_of(a[6], swap) || !absent(a[7]) || !absent(a[8]) || (a[9] && !PyUnicode_Check(a[9])))
        return nullptr;
    mean = !a[9] || PyUnicode_CompareWithASCIIString(a[9], "mean") == 0;
    if (!mean && PyUnicode_CompareWithASCIIString(a[9], "sum") != 0) return nullptr;
    PyArrayObject* x[3];
    for (int k = 0; k < 3; k++)
        if (!(x[k] = floats_of(c, a[k])) || !same_sizes(x[0], x[k])) return nullptr;
    int dims = PyArray_NDIM(x[0]);
    if (dims < 2) return nullptr;
    npy_intp n = PyArray_DIM(x[0], dims - 1), rows = PyArray_SIZE(x[0]) / n;
    std::vector<float> losses(rows);
    for (npy_intp r = 0; r < rows; r++) {
        const float *anchor = floats(x[0]) + r * n, *positive = floats(x[1]) + r * n, *negative = floats(x[2]) + r * n;
        float near = apart_of(anchor, positive, n, (float)eps), far = apart_of(anchor, negative, n, (float)eps);
        if (swap) {
            float other = apart_of(positive, negative, n, (float)eps);
            far = other < far || other != other ? other : far;
        }
        float loss = (float)margin + near - far;
        losses[r] = loss < 0 ? 0 : loss;
    }
    PyObject* array = fresh_array(FLOAT32, 0, nullptr, nullptr);
    if (!array) return nullptr;
    float sum = small_row_sum(losses.data(), rows);
    *(float*)data_of(array) = mean ? sum / (float)rows : sum;
    return tensor_around(array, FLOAT32);
}

// ---- norms of all elements, or along one dim

template <class T> double norm_of(const T* x, npy_intp step, npy_intp n, double p) {
    double total = 0;
    if (p == 2)
        for (npy_intp k = 0; k < n; k++) total += (double)widen(x[k * step]) * widen(x[k * step]);
    else if (p == 1)
        for (npy_intp k = 0; k < n; k++) total += fabs((double)widen(x[k * step]));
    else if (p == 3)
        for (npy_intp k = 0; k < n; k++) {
            double v = fabs((double)widen(x[k * step]));
            total += v * v * v;
        }
    else
        for (npy_intp k = 0; k < n; k++) total += pow(fabs((double)widen(x[k * step])), p);
    return p == 2 ? sqrt(total) : p == 1 ? total : p == 3 ? cbrt(total) : pow(total, 1 / p);
}

PyObject* norm_along(const Call& c, PyObject* t, PyObject* power, PyObject* dim, PyObject* keep) {
    double p;
    bool keepdim;
    if (!flag_of(keep, keepdim)) return nullptr;
    int d = 0, count = 0;
    PyArrayObject* x = dense_array(t);
    if (!x || !small_real(power, 2, p) || !(p > 0.5 && p < 10) || !PyArray_SIZE(x) || PyArray_SIZE(x) > 2048) return nullptr;
    int dims = PyArray_NDIM(x), type = type_of(t);
    if ((!absent(dim) && !small_dim(dim, dims, d)) || (type != FLOAT32 && type != FLOAT16 && type != BFLOAT16)) return nullptr;
    npy_intp n = PyArray_SIZE(x), inner = 1, sizes[MAX_DIMS];
    if (!absent(dim)) {
        n = PyArray_DIM(x, d);
        for (int k = 0; k < dims; k++)
            if (k != d || keepdim) sizes[count++] = k == d ? 1 : PyArray_DIM(x, k);
        for (int k = d + 1; k < dims; k++) inner *= PyArray_DIM(x, k);
    } else if (keepdim)
        while (count < dims) sizes[count++] = 1;
    if (n < 2) return nullptr;
    Ref array(fresh_array(type, count, sizes, nullptr));
    if (!array) return nullptr;
    bool odd = false; // squares beyond single precision are its own affair
    auto run = [&](auto e) {
        typedef decltype(e) T;
        const T* from = (const T*)PyArray_DATA(x);
        T* out = (T*)data_of(array.get());
        for (npy_intp o = 0, all = PyArray_SIZE(x) / (n * inner); o < all; o++, from += n * inner)
            for (npy_intp i = 0; i < inner; i++) {
                double v = norm_of(from + i, inner, n, p);
                odd |= !(v == 0 || (v > 1e-3 && v < 1e4));
                *out++ = Narrow<T>::of((float)v);
            }
    };
    type == FLOAT32 ? run(float{}) : type == FLOAT16 ? run(Half{}) : run(BFloat{});
    if (odd) return nullptr;
    Ref made(tensor_around(array.release(), type));
    if (!made || !c.grad || !needs_grad(t)) return made.release();
    npy_intp over[MAX_DIMS];
    for (int k = 0; k < dims; k++) over[k] = absent(dim) ? k : d;
    Ref number(PyFloat_FromDouble(p)), list(tuple_of(over, absent(dim) ? dims : 1));
    PyObject* given[] = {t, number.get(), list.get(), keepdim ? Py_True : Py_False};
    return number && list && record(c.self->head.op, c.self->needs, given, 4, 1, made.get()) ? made.release() : nullptr;
}

PyObject* vector_norm(const Call& c) {
    static const Names<4> names("x", "ord", "dim", "keepdim");
    PyObject* a[4];
    return parse(c, names, a) && a[0] ? norm_along(c, a[0], a[1], a[2], a[3]) : nullptr;
}

PyObject* norm(const Call& c) {
    static const Names<4> names("input", "p", "dim", "keepdim");
    PyObject* a[4];
    return parse(c, names, a) && a[0] ? norm_along(c, a[0], a[1], a[2], a[3]) : nullptr;
}

PyMethodDef functions[] = {
    {"row_distance", (PyCFunction)(void*)py_row_distance, METH_FASTCALL, "row_distance(x, y, eps): an array, or NotImplemented"},
    {"row_distance_backward", (PyCFunction)(void*)py_row_distance_backward, METH_FASTCALL, "row_distance_backward(g, x, y, eps, distances)"},
    {"cosine_similarity", (PyCFunction)(void*)py_cosine_similarity, METH_FASTCALL, "cosine_similarity(x, y, dim, eps)"},
    {"cosine_similarity_backward", (PyCFunction)(void*)py_cosine_similarity_backward, METH_FASTCALL,
        "cosine_similarity_backward(g, x, y, dim, eps)"},
    {"pair_distances", py_pair_distances, METH_O, "pair_distances(x): an array, or NotImplemented"},
    {"pair_distances_backward", (PyCFunction)(void*)py_pair_distances_backward, METH_FASTCALL, "pair_distances_backward(g, x, d)"},
    {"spread", (PyCFunction)(void*)py_spread, METH_FASTCALL, "spread(x, index, dim, size): an array, or NotImplemented"},
    {"max_indices", (PyCFunction)(void*)py_max_indices, METH_FASTCALL, "max_indices(place, sizes, kernel, stride, padding, dilation)"},
    {"fractional_max", (PyCFunction)(void*)py_fractional_max, METH_FASTCALL, "fractional_max(x, samples, kernel, sizes)"},
    {nullptr, nullptr, 0, nullptr}};

}

const SmallEntry small_pairs[] = {{"pairwise_distance", pairwise_distance}, {"cdist", cdist}, {"cosine_similarity", cosine_similarity},
    {"triplet_margin_loss", triplet_margin_loss}, {"norm", norm}, {"vector_norm", vector_norm}, {nullptr, nullptr}};

bool add_pairs(PyObject* module) { return PyModule_AddFunctions(module, functions) == 0; }
