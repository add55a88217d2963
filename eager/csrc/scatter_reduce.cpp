// The greatest or least of what comes to each place, with the gradients that those share; running logsumexp; dropout of whole
// channels. Few elements of dense tensors.
#include "gradients.h"

#include <math.h>

#include <vector>

#include "dense.h"

namespace {

constexpr npy_intp FEW = 4096;

// [outer, size, inner] of what is written into, and where the elements of a source of [outer, count, inner] go.
struct Targets {
    npy_intp outer = 1, size = 0, inner = 1, count = 0;
    std::vector<npy_intp> at;
    bool read(PyArrayObject* x, PyArrayObject* index, PyArrayObject* source, npy_intp d) {
        int dims = PyArray_NDIM(x);
        if (d < 0 || d >= dims || PyArray_NDIM(index) != dims || !PyArray_SAMESHAPE(index, source) || PyArray_SIZE(x) > FEW
            || PyArray_SIZE(index) > FEW || !PyArray_SIZE(index))
            return false;
        for (int k = 0; k < dims; k++) {
            if (k != d && PyArray_DIM(x, k) != PyArray_DIM(index, k)) return false;
            if (k != d) (k < d ? outer : inner) *= PyArray_DIM(x, k);
        }
        size = PyArray_DIM(x, (int)d), count = PyArray_DIM(index, (int)d);
        const int64_t* place = (const int64_t*)PyArray_DATA(index);
        at.reserve(PyArray_SIZE(index));
        for (npy_intp o = 0; o < outer; o++)
            for (npy_intp k = 0; k < count; k++)
                for (npy_intp i = 0; i < inner; i++, place++) {
                    if ((uint64_t)*place >= (uint64_t)size) return false;
                    at.push_back((o * size + *place) * inner + i);
                }
        return true;
    }
};

PyObject* scatter_reduce(const Call& c) {
    static const Names<6> names("input", "dim", "index", "src", "reduce", "include_self");
    static KeptRecord* kept = kept_record("scatter_extreme");
    PyObject* a[6];
    int d;
    if (!parse(c, names, a) || !a[0] || !a[1] || !a[2] || !a[3] || !a[4] || (a[5] && a[5] != Py_True) || !PyUnicode_Check(a[4])) return nullptr;
    bool most = !PyUnicode_CompareWithASCIIString(a[4], "amax");
    if (!most && PyUnicode_CompareWithASCIIString(a[4], "amin")) return nullptr;
    PyArrayObject *x = dense_array(a[0]), *index = x ? dense_array(a[2]) : nullptr, *source = index ? dense_array(a[3]) : nullptr;
    Targets t;
    if (!source || type_of(a[0]) != FLOAT32 || type_of(a[3]) != FLOAT32 || type_of(a[2]) != INT64 || !PyArray_NDIM(x)
        || !small_dim(a[1], PyArray_NDIM(x), d) || !t.read(x, index, source, d))
        return nullptr;
    Ref array(fresh_array(FLOAT32, PyArray_NDIM(x), PyArray_DIMS(x), nullptr));
    if (!array) return nullptr;
    float* out = (float*)data_of(array.get());
    const float* from = (const float*)PyArray_DATA(source);
    memcpy(out, PyArray_DATA(x), PyArray_NBYTES(x));
    for (npy_intp at : t.at) {
        float v = *from++, &to = out[at];
        if ((most ? v > to : v < to) || (v != v && to == to)) to = v;
    }
    Ref made(tensor_around(array.release(), FLOAT32)), dim(PyLong_FromLong(d));
    unsigned mask = c.grad ? needs_grad(a[0]) | needs_grad(a[3]) << 3 : 0;
    PyObject* given[] = {a[0], dim.get(), a[2], a[3], most ? Py_True : Py_False, Py_True};
    return made && dim && (!mask || record(kept->op, kept->needs, given, 6, mask, made.get())) ? made.release() : nullptr;
}

// (x, dim, index, source, largest, include_self), out: what ties shares the gradient evenly
template <bool to_source> PyObject* extreme_back(const Gradients& c) {
    npy_intp d;
    PyObject *x = PyTuple_GET_ITEM(c.args, 0), *source = PyTuple_GET_ITEM(c.args, 3), *out = PyList_Check(c.outs) ? PyList_GET_ITEM(c.outs, 0) : Py_None;
    if (c.grads[0] == Py_None || !is_tensor(x) || !is_tensor(source) || !is_tensor(out) || !small_int(PyTuple_GET_ITEM(c.args, 1), d)
        || PyTuple_GET_ITEM(c.args, 5) != Py_True)
        return nullptr;
    Dense a(x), index(PyTuple_GET_ITEM(c.args, 2)), s(source), y(out), g(c.grads[0]);
    Targets t;
    if (!a || !index || !s || !y || !g || a.type != FLOAT32 || s.type != FLOAT32 || y.type != FLOAT32 || g.type != FLOAT32 || index.type != INT64
        || y.size() != a.size() || g.size() != a.size() || !t.read(a.a, index.a, s.a, d))
        return nullptr;
    const float *own = a.data<float>(), *theirs = s.data<float>(), *best = y.data<float>(), *up = g.data<float>();
    std::vector<npy_intp> winners(a.size());
    for (npy_intp k = 0; k < a.size(); k++) winners[k] = own[k] == best[k];
    for (npy_intp k = 0; k < s.size(); k++) winners[t.at[k]] += theirs[k] == best[t.at[k]];
    PyArrayObject* like = to_source ? s.a : a.a;
    PyObject* array = fresh_array(FLOAT32, PyArray_NDIM(like), PyArray_DIMS(like), nullptr);
    if (!array) return nullptr;
    float* to = (float*)data_of(array);
    for (npy_intp k = 0; k < PyArray_SIZE(like); k++) {
        npy_intp at = to_source ? t.at[k] : k;
        bool here = (to_source ? theirs[k] : own[k]) == best[at];
        to[k] = (float)here * (up[at] / (float)winners[at]);
    }
    return tensor_around(array, FLOAT32);
}

// ---- running logsumexp

PyObject* logcumsumexp(const Call& c) {
    static const Names<2> names("input", "dim");
    PyObject* a[2];
    int d;
    if (!parse(c, names, a) || !a[0] || !a[1]) return nullptr;
    PyArrayObject* x = dense_array(a[0]);
    int type = x ? type_of(a[0]) : -1, dims = x ? PyArray_NDIM(x) : 0;
    if (!dims || (type != FLOAT32 && type != FLOAT64) || !PyArray_SIZE(x) || PyArray_SIZE(x) > FEW || !small_dim(a[1], dims, d)) return nullptr;
    npy_intp n = PyArray_DIM(x, d), inner = 1;
    for (int k = d + 1; k < dims; k++) inner *= PyArray_DIM(x, k);
    Ref array(fresh_array(type, dims, PyArray_DIMS(x), nullptr)), dim(PyLong_FromLong(d));
    if (!array || !dim) return nullptr;
    auto run = [&](auto e) {
        typedef decltype(e) T;
        const T* from = (const T*)PyArray_DATA(x);
        T* to = (T*)data_of(array.get());
        for (npy_intp o = 0; o < PyArray_SIZE(x) / n; o++) {
            npy_intp at = o / inner * n * inner + o % inner;
            T total = to[at] = from[at];
            for (npy_intp k = 1; k < n; k++) {
                T v = from[at += inner], high = total > v ? total : v, low = total > v ? v : total;
                if (total != total || v != v) total = total + v;
                else if (high - high != 0 || low == high) total = high - high != 0 ? high : high + (T)0.69314718055994530942;
                else total = high + (sizeof(T) == 4 ? (T)log1pf(expf((float)(low - high))) : (T)log1p(exp((double)(low - high))));
                to[at] = total;
            }
        }
    };
    type == FLOAT32 ? run(float{}) : run(double{});
    Ref made(tensor_around(array.release(), type));
    PyObject* given[] = {a[0], dim.get()};
    bool tracked = made && c.grad && needs_grad(a[0]);
    return !tracked || record(c.self->head.op, c.self->needs, given, 2, 1, made.get()) ? made.release() : nullptr;
}

// ---- dropout

constexpr double FLOOR = 1.7580993408473766; // minus SELU's limit at minus infinity

// (input, p, training, inplace) of calls that drop something, as [rows, run] with a number drawn for each row
bool read_dropout(const Call& c, int least, int most, bool training, bool whole, PyArrayObject*& x, double& p, npy_intp& rows) {
    static const Names<4> names("input", "p", "training", "inplace");
    PyObject* a[4];
    if (!parse(c, names, a) || !a[0] || (a[3] && a[3] != Py_False) || (a[2] ? a[2] != Py_True : !training) || !small_real(a[1], 0.5, p)
        || !(p > 0 && p < 1))
        return false;
    x = dense_array(a[0]);
    int dims = x ? PyArray_NDIM(x) : 0;
    if (!x || dims < least || dims > most || type_of(a[0]) != FLOAT32 || !PyArray_SIZE(x)) return false;
    rows = whole ? PyArray_SIZE(x) : PyArray_DIM(x, 0) * PyArray_DIM(x, 1);
    return rows <= FEW && PyArray_SIZE(x) <= alone(FEW);
}

// Channels of (N, C, ...) become zero with probability p, the others times 1 / (1 - p): x times a factor per channel.
template <int least, int most> PyObject* channels(const Call& c) {
    static KeptRecord* kept = kept_record("mul");
    PyArrayObject* x;
    double p;
    npy_intp rows, sizes[MAX_DIMS];
    if (c.n < 1 || !read_dropout(c, least, most, true, false, x, p, rows)) return nullptr;
    int dims = PyArray_NDIM(x);
    for (int d = 0; d < dims; d++) sizes[d] = d < 2 ? PyArray_DIM(x, d) : 1;
    Ref noise(fresh_array(FLOAT32, dims, sizes, nullptr)), array(fresh_array(FLOAT32, dims, PyArray_DIMS(x), nullptr));
    if (!noise || !array) return nullptr;
    float *factor = (float*)data_of(noise.get()), *out = (float*)data_of(array.get()), scale = (float)(1.0 / (1.0 - p));
    if (!small_uniform(factor, rows)) return nullptr;
    const float* from = (const float*)PyArray_DATA(x);
    npy_intp run = PyArray_SIZE(x) / rows;
    for (npy_intp r = 0; r < rows; r++, from += run, out += run) {
        factor[r] = factor[r] >= (float)p ? scale : 0.f;
        times_row(factor[r], from, out, run);
    }
    Ref made(tensor_around(array.release(), FLOAT32)), other(tensor_around(noise.release(), FLOAT32));
    PyObject* given[] = {c.args[0], other.get()};
    bool tracked = c.grad && needs_grad(c.args[0]);
    return made && other && (!tracked || record(kept->op, kept->needs, given, 2, 1, made.get())) ? made.release() : nullptr;
}

// The kind that keeps mean and variance; of calls that are not recorded.
template <bool whole> PyObject* alpha(const Call& c) {
    PyArrayObject* x;
    double p;
    npy_intp rows;
    if (c.n < 1 || (c.grad && is_tensor(c.args[0]) && needs_grad(c.args[0])) || !read_dropout(c, whole ? 0 : 2, MAX_DIMS, false, whole, x, p, rows))
        return nullptr;
    double a = 1 / sqrt((FLOOR * FLOOR * p + 1) * (1 - p)), b = FLOOR * a * p;
    Ref array(fresh_array(FLOAT32, PyArray_NDIM(x), PyArray_DIMS(x), nullptr));
    std::vector<float> drawn(rows);
    if (!array || !small_uniform(drawn.data(), rows)) return nullptr;
    float *out = (float*)data_of(array.get()), scale = (float)a, low = (float)(FLOOR * a), shift = (float)b;
    const float* from = (const float*)PyArray_DATA(x);
    npy_intp run = PyArray_SIZE(x) / rows;
    for (npy_intp r = 0; r < rows; r++) {
        float kept = drawn[r] >= (float)p ? 1.f : 0.f;
        for (npy_intp k = 0; k < run; k++) *out++ = *from++ * (kept * scale) + ((kept - 1.f) * low + shift);
    }
    return tensor_around(array.release(), FLOAT32);
}

}

const SmallEntry small_scatters[] = {{"scatter_reduce", scatter_reduce}, {"logcumsumexp", logcumsumexp}, {"dropout1d", channels<3, 3>},
    {"dropout2d", channels<3, MAX_DIMS>}, {"dropout3d", channels<5, MAX_DIMS>}, {"alpha_dropout", alpha<true>},
    {"feature_alpha_dropout", alpha<false>}, {nullptr, nullptr}};

const KnownGradient scatter_gradients[] = {{"scatter_extreme", "x", extreme_back<false>}, {"scatter_extreme", "source", extreme_back<true>},
    {nullptr, nullptr, nullptr}};
