// The gradients: positions and index tensors into zeros, reductions over neighbouring dims.
#include "gradients.h"

#include <math.h>
#include <string.h>

#include <vector>

#include "dense.h"

namespace {

constexpr npy_intp FEW = 4096; // elements up to which a loop here is faster than the kernels on threads

PyObject* zeros_of(int type, int dims, const npy_intp* sizes) {
    PyObject* array = fresh_array(type, dims, sizes, nullptr);
    if (array) memset(data_of(array), 0, PyArray_NBYTES((PyArrayObject*)array));
    return array;
}

template <class Body> bool by_size(int type, Body body) {
    switch (world.types[type].itemsize) {
    case 2: return body(uint16_t{}), true;
    case 4: return body(uint32_t{}), true;
    case 8: return body(uint64_t{}), true;
    default: return false;
    }
}
// [outer, n, inner] of a tensor that is reduced over neighbouring dims; few elements.
struct Reduced {
    npy_intp sizes[MAX_DIMS], outer, n, inner;
    int dims;
    bool read(PyObject* x, PyObject* dim) {
        npy_intp first, next;
        if (!sizes_of(x, sizes, dims) || !PyTuple_Check(dim) || !PyTuple_GET_SIZE(dim) || !small_int(PyTuple_GET_ITEM(dim, 0), first)) return false;
        int count = (int)PyTuple_GET_SIZE(dim);
        for (int k = 1; k < count; k++)
            if (!small_int(PyTuple_GET_ITEM(dim, k), next) || next != first + k) return false;
        if (first < 0 || first + count > dims) return false;
        outer = product_of(sizes, (int)first), n = product_of(sizes + first, count);
        inner = product_of(sizes + first + count, dims - (int)first - count);
        return outer * n * inner > 0 && outer * n * inner <= FEW;
    }
    // body(first element, step, place of the result)
    template <class Body> void each(Body body) const {
        for (npy_intp o = 0; o < outer; o++)
            for (npy_intp i = 0; i < inner; i++) body(o * n * inner + i, o * inner + i);
    }
};

// ---- one element per row, by position

PyObject* by_position(const Gradients& c) { // (x: Meta, dim, keepdim), outs (values, indices)
    npy_intp sizes[MAX_DIMS], d;
    int dims;
    PyObject *dim = PyTuple_GET_ITEM(c.args, 1), *places = PyList_Check(c.outs) && PyList_GET_SIZE(c.outs) == 2 ? PyList_GET_ITEM(c.outs, 1) : nullptr;
    if (!places || c.grads[0] == Py_None || !sizes_of(PyTuple_GET_ITEM(c.args, 0), sizes, dims) || !PyTuple_Check(dim)
        || PyTuple_GET_SIZE(dim) != 1 || !small_int(PyTuple_GET_ITEM(dim, 0), d) || d < 0 || d >= dims)
        return nullptr;
    Dense g(c.grads[0]), index(places);
    npy_intp outer = product_of(sizes, (int)d), n = sizes[d], inner = product_of(sizes + d + 1, dims - (int)d - 1);
    if (!g || !index || index.type != INT64 || g.size() != outer * inner || index.size() != g.size() || outer * n * inner > FEW) return nullptr;
    const int64_t* at = index.data<int64_t>();
    for (npy_intp k = 0; k < outer * inner; k++)
        if ((uint64_t)at[k] >= (uint64_t)n) return nullptr;
    Ref array(zeros_of(g.type, dims, sizes));
    if (!array || !by_size(g.type, [&](auto e) {
            typedef decltype(e) E;
            const E* from = g.data<E>();
            E* to = (E*)data_of(array.get());
            for (npy_intp o = 0; o < outer; o++)
                for (npy_intp i = 0; i < inner; i++) to[(o * n + at[o * inner + i]) * inner + i] = from[o * inner + i];
        }))
        return nullptr;
    return tensor_around(array.release(), g.type);
}

// ---- by index tensors

template <class T> T sum_of(T a, T b) { return a + b; }
Half sum_of(Half a, Half b) { return Narrow<Half>::of(widen(a) + widen(b)); }
BFloat sum_of(BFloat a, BFloat b) { return Narrow<BFloat>::of(widen(a) + widen(b)); }

// Where the rows of x[i, j, ...] lie, for index tensors of one shape at the first dims. False: not so, or out of range.
bool places_of(PyObject* indices, PyObject* dims, const npy_intp* sizes, int rank, std::vector<npy_intp>& out) {
    npy_intp count = PyTuple_Check(indices) && PyTuple_Check(dims) ? PyTuple_GET_SIZE(indices) : 0, d;
    if (!count || count > rank || PyTuple_GET_SIZE(dims) != count) return false;
    PyArrayObject* first = nullptr;
    for (npy_intp k = 0; k < count; k++) {
        Dense index(PyTuple_GET_ITEM(indices, k));
        if (!index || index.type != INT64 || !small_int(PyTuple_GET_ITEM(dims, k), d) || d != k) return false;
        if (!first) first = index.a, out.assign(index.size(), 0);
        PyArrayObject* own = array_of(PyTuple_GET_ITEM(indices, k));
        if (k && !PyArray_SAMESHAPE(own, array_of(PyTuple_GET_ITEM(indices, 0)))) return false;
        const int64_t* at = index.data<int64_t>();
        for (size_t j = 0; j < out.size(); j++) {
            npy_intp place = at[j] < 0 ? at[j] + sizes[k] : at[j];
            if ((uint64_t)place >= (uint64_t)sizes[k]) return false;
            out[j] = out[j] * sizes[k] + place;
        }
    }
    return true;
}

PyObject* index_back(const Gradients& c) { // (x: Meta, indices, dims)
    npy_intp sizes[MAX_DIMS];
    int dims;
    std::vector<npy_intp> at;
    PyObject* indices = PyTuple_GET_ITEM(c.args, 1);
    if (!sizes_of(PyTuple_GET_ITEM(c.args, 0), sizes, dims) || product_of(sizes, dims) > FEW) return nullptr;
    Dense g(c.grads[0]);
    if (!g || g.size() > FEW || !places_of(indices, PyTuple_GET_ITEM(c.args, 2), sizes, dims, at)) return nullptr;
    int count = (int)PyTuple_GET_SIZE(indices);
    npy_intp run = product_of(sizes + count, dims - count);
    if ((npy_intp)at.size() * run != g.size()) return nullptr;
    Ref array(zeros_of(g.type, dims, sizes));
    if (!array || !by_floating(g.type, [&](auto e) {
            typedef decltype(e) E;
            const E* from = g.data<E>();
            E* to = (E*)data_of(array.get());
            for (npy_intp row : at)
                for (npy_intp i = 0; i < run; i++, from++) to[row * run + i] = sum_of(to[row * run + i], *from);
        }))
        return nullptr;
    return tensor_around(array.release(), g.type);
}

// ---- reductions: x, results and their gradient, in the numbers that they compute with

// body(x, out, g, to, r): single precision or double; `at` of x and of the result
template <class Body> PyObject* over_reduced(PyObject* x, PyObject* dim, PyObject* out, PyObject* grad, Body body) {
    Reduced r;
    if (grad == Py_None || !is_tensor(x) || !is_tensor(out) || !r.read(x, dim)) return nullptr;
    Dense a(x), y(out), g(grad);
    if (!a || !y || !g || !a.own(x) || a.type != g.type || y.type != a.type || g.size() != r.outer * r.inner || y.size() != g.size()) return nullptr;
    Ref array(fresh_array(a.type, r.dims, r.sizes, nullptr));
    if (!array || !by_floating(a.type, [&](auto e) {
            typedef decltype(e) E;
            body(a.data<E>(), y.data<E>(), g.data<E>(), (E*)data_of(array.get()), r);
        }))
        return nullptr;
    return tensor_around(array.release(), a.type);
}
PyObject* output(const Gradients& c) { return PyList_Check(c.outs) && PyList_GET_SIZE(c.outs) ? PyList_GET_ITEM(c.outs, 0) : Py_None; }

float exp_of(float x) { return expf(x); }
double exp_of(double x) { return exp(x); }
float power_of(float x, double p) { return powf(x, (float)p); }
double power_of(double x, double p) { return pow(x, p); }

PyObject* logsumexp_back(const Gradients& c) { // (x, dim, keepdim), out
    return over_reduced(PyTuple_GET_ITEM(c.args, 0), PyTuple_GET_ITEM(c.args, 1), output(c), c.grads[0],
        [](auto x, auto y, auto g, auto to, const Reduced& r) {
            typedef std::decay_t<decltype(*to)> E;
            r.each([&](npy_intp at, npy_intp k) {
                auto out = widen(y[k]), up = widen(g[k]);
                for (npy_intp j = 0; j < r.n; j++, at += r.inner) to[at] = Narrow<E>::of(up * exp_of(widen(x[at]) - out));
            });
        });
}

PyObject* norm_back(const Gradients& c) { // (x, p, dim, keepdim), out
    double p;
    if (!small_real(PyTuple_GET_ITEM(c.args, 1), 0, p) || p == 0 || !isfinite(p)) return nullptr;
    return over_reduced(PyTuple_GET_ITEM(c.args, 0), PyTuple_GET_ITEM(c.args, 2), output(c), c.grads[0],
        [p](auto x, auto y, auto g, auto to, const Reduced& r) {
            typedef std::decay_t<decltype(*to)> E;
            typedef decltype(widen(E{})) S;
            bool alone = r.n == 1 || p == 1;
            r.each([&](npy_intp at, npy_intp k) {
                S out = widen(y[k]), up = widen(g[k]), steep = p == 2 || alone ? out : power_of(out, p - 1);
                S share = steep == 0 ? (S)0 : up / steep;
                for (npy_intp j = 0; j < r.n; j++, at += r.inner) {
                    S v = widen(x[at]), sign = v != v && p != 1 ? v : (S)((v > 0) - (v < 0));
                    S slope = alone ? up * sign : p == 2 ? (out == 0 ? (S)0 : up * (v / out))
                        : (v == 0 ? (S)0 : sign * power_of(v < 0 ? -v : v, p - 1)) * share;
                    to[at] = Narrow<E>::of(slope);
                }
            });
        });
}

// 2 (x - mean) / (n - correction) times g, or times what the root leaves of it
template <bool root> PyObject* variance_back(const Gradients& c) { // (x, correction, dim, keepdim), out of the root
    double correction;
    PyObject* x = PyTuple_GET_ITEM(c.args, 0);
    if (!small_real(PyTuple_GET_ITEM(c.args, 1), 1, correction)) return nullptr;
    return over_reduced(x, PyTuple_GET_ITEM(c.args, 2), root ? output(c) : c.grads[0], c.grads[0],
        [correction](auto x, auto y, auto g, auto to, const Reduced& r) {
            typedef std::decay_t<decltype(*to)> E;
            typedef decltype(widen(E{})) S;
            r.each([&](npy_intp at, npy_intp k) {
                S out = widen(y[k]), up = widen(g[k]);
                if (root) up = out == 0 ? (S)0 : up / (out * 2);
                double total = 0;
                for (npy_intp j = 0; j < r.n; j++) total += widen(x[at + j * r.inner]);
                S mean = (S)(total / r.n), factor = (S)(r.n == correction ? INFINITY : 2.0 / (r.n - correction));
                for (npy_intp j = 0; j < r.n; j++, at += r.inner) to[at] = Narrow<E>::of(up * ((widen(x[at]) - mean) * factor));
            });
        });
}

typedef KnownGradient Known;
const Known known[] = {{"max_dim", "x", by_position}, {"min_dim", "x", by_position}, {"index", "x", index_back},
    {"logsumexp", "x", logsumexp_back}, {"norm", "x", norm_back}, {"var", "x", variance_back<false>},
    {"std", "x", variance_back<true>}, {nullptr, nullptr, nullptr}};
const Known* const tables[] = {known, norm_gradients, fourier_gradients, product_gradients, scatter_gradients, pooling_gradients,
    compound_gradients};

}

QuickGradient quick_gradient(PyObject* op, PyObject* parameter) {
    Ref name(PyObject_GetAttrString(op, "name"));
    if (!name) return PyErr_Clear(), nullptr;
    for (const Known* table : tables)
        for (const Known* k = table; k->record; k++)
            if (PyUnicode_Check(name.get()) && !PyUnicode_CompareWithASCIIString(name.get(), k->record)
                && !PyUnicode_CompareWithASCIIString(parameter, k->parameter))
                return k->gradient;
    return nullptr;
}
