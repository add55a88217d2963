// Layer norm, and the gradients of layer, group and batch norm: x minus the mean of its group, over the group's deviation, times a factor per
// channel (or per place in a row), plus an offset. Few elements of one floating type.
#include "gradients.h"

#include <math.h>

#include <vector>

#include "dense.h"

namespace {

constexpr npy_intp FEW = 4096;

// Groups of `n` elements: where the k-th lies, and which factor is its own.
struct Groups {
    npy_intp count, n, channels;
    int kind; // 0: rows, a factor per place; 1: rows of whole channels of `plane`; 2: a channel over the batch
    npy_intp plane, each; // each: channels of a group
    npy_intp place(npy_intp group, npy_intp k) const {
        return kind < 2 ? group * n + k : (k / plane * channels + group) * plane + k % plane;
    }
    npy_intp channel(npy_intp group, npy_intp k) const {
        return kind == 0 ? k : kind == 1 ? group % (channels / each) * each + k / plane : group;
    }
};

struct Wanted {
    Ref x, weight, bias;
};

// `spread`: 1 / deviation, or the variance, to which eps is added.
template <class T, class S>
void gradients_of(const Groups& s, const T* x, const T* g, const S* mean, const S* spread, bool deviation, double eps, const T* weight, T* dx,
    std::vector<double>& dweight, std::vector<double>& dbias) {
    for (npy_intp group = 0; group < s.count; group++) {
        double rstd = deviation ? (double)spread[group] : 1 / sqrt((double)spread[group] + eps), total = 0, along = 0, centre = mean[group];
        for (npy_intp k = 0; k < s.n; k++) {
            npy_intp at = s.place(group, k), c = s.channel(group, k);
            double hat = ((double)widen(x[at]) - centre) * rstd, up = widen(g[at]), h = weight ? up * widen(weight[c]) : up;
            total += h, along += h * hat;
            dweight[c] += up * hat, dbias[c] += up;
        }
        total /= s.n, along /= s.n;
        for (npy_intp k = 0; k < s.n && dx; k++) {
            npy_intp at = s.place(group, k), c = s.channel(group, k);
            double hat = ((double)widen(x[at]) - centre) * rstd, h = weight ? (double)widen(g[at]) * widen(weight[c]) : (double)widen(g[at]);
            dx[at] = Narrow<T>::of((S)(rstd * (h - total - hat * along)));
        }
    }
}

PyObject* vector_of(int type, const npy_intp* sizes, int dims, const std::vector<double>& from) {
    PyObject* array = fresh_array(type, dims, sizes, nullptr);
    if (!array) return nullptr;
    by_floating(type, [&](auto e) {
        typedef decltype(e) T;
        typedef decltype(widen(e)) S;
        for (size_t k = 0; k < from.size(); k++) ((T*)data_of(array))[k] = Narrow<T>::of((S)from[k]);
    });
    return tensor_around(array, type);
}

// The three of them where `wanted` has a bit (1: x, 2: weight, 4: bias). False: not for this path, or an error is set.
bool all_of(const Groups& s, PyObject* x, PyObject* grad, PyObject* mean, PyObject* spread, bool deviation, double eps, PyObject* weight,
    const npy_intp* vector, int vector_dims, unsigned wanted, Wanted& out) {
    Dense a(x), g(grad), m(mean), d(spread);
    if (!a || !g || !m || !d || g.type != a.type || g.size() != a.size() || m.size() != s.count || d.size() != s.count) return false;
    Dense w(weight == Py_None || !is_tensor(weight) ? x : weight);
    bool weighted = is_tensor(weight);
    if (!w || w.type != a.type || (weighted && w.size() != s.channels)) return false;
    int inner = a.type == FLOAT64 ? FLOAT64 : FLOAT32;
    if (m.type != inner || d.type != inner) return false;
    Ref array(wanted & 1 ? fresh_array(a.type, PyArray_NDIM(a.a), PyArray_DIMS(a.a), nullptr) : nullptr);
    if (wanted & 1 && !array) return false;
    std::vector<double> dweight(s.channels), dbias(s.channels);
    bool known = by_floating(a.type, [&](auto e) {
        typedef decltype(e) T;
        typedef decltype(widen(e)) S;
        gradients_of<T, S>(s, a.data<T>(), g.data<T>(), m.data<S>(), d.data<S>(), deviation, eps, weighted ? w.data<T>() : nullptr,
            array ? (T*)data_of(array.get()) : nullptr, dweight, dbias);
    });
    if (!known) return false;
    if (wanted & 1) out.x = Ref(tensor_around(array.release(), a.type));
    if (wanted & 2) out.weight = Ref(vector_of(a.type, vector, vector_dims, dweight));
    if (wanted & 4) out.bias = Ref(vector_of(a.type, vector, vector_dims, dbias));
    return true;
}

PyObject* saved(const Gradients& c, Py_ssize_t k) { return PyList_Check(c.outs) && PyList_GET_SIZE(c.outs) > k ? PyList_GET_ITEM(c.outs, k) : Py_None; }

// ---- layer norm: (x, normalized, weight, bias, eps), outs (out, mean, rstd)

template <unsigned wanted> PyObject* layer_norm_back(const Gradients& c) {
    npy_intp sizes[MAX_DIMS], normalized;
    int dims;
    PyObject *x = PyTuple_GET_ITEM(c.args, 0), *mean = saved(c, 1), *rstd = saved(c, 2);
    if (!is_tensor(x) || !is_tensor(mean) || !is_tensor(rstd) || c.grads[0] == Py_None || !sizes_of(x, sizes, dims)
        || !small_int(PyTuple_GET_ITEM(c.args, 1), normalized) || normalized < 1 || normalized > dims)
        return nullptr;
    npy_intp *own = sizes + dims - normalized, width = product_of(own, (int)normalized), all = product_of(sizes, dims);
    if (!all || all > FEW) return nullptr;
    Groups s = {all / width, width, width, 0, 1, 1};
    Wanted out;
    PyObject* weight = wanted == 1 ? PyTuple_GET_ITEM(c.args, 2) : Py_None;
    if (!all_of(s, x, c.grads[0], mean, rstd, true, 0, weight, own, (int)normalized, wanted, out)) return nullptr;
    return (wanted == 1 ? out.x : out.weight).release();
}

PyObject* layer_norm_bias(const Gradients& c) { // (bias: Meta)
    npy_intp sizes[MAX_DIMS];
    int dims;
    if (c.grads[0] == Py_None || !sizes_of(PyTuple_GET_ITEM(c.args, 3), sizes, dims)) return nullptr;
    Dense g(c.grads[0]);
    npy_intp width = product_of(sizes, dims);
    if (!g || !width || g.size() > FEW || g.size() % width) return nullptr;
    PyObject* like = PyTuple_GET_ITEM(c.args, 3);
    if ((is_tensor(like) ? slot(like, world.t.dtype) : slot(like, world.m.dtype)) != world.types[g.type].object) return nullptr;
    std::vector<double> total(width);
    if (!by_floating(g.type, [&](auto e) {
            for (npy_intp k = 0; k < g.size(); k++) total[k % width] += widen(g.data<decltype(e)>()[k]);
        }))
        return nullptr;
    return vector_of(g.type, sizes, dims, total);
}

// ---- batch and group norm, all at once

// (x, weight, bias, eps) with `shift` more numbers before the weight; outs (out, mean, var)
template <bool grouped> PyObject* norm_back(const Gradients& c) {
    constexpr int at = grouped ? 2 : 1;
    npy_intp sizes[MAX_DIMS], groups = 1;
    int dims;
    double eps;
    PyObject *x = PyTuple_GET_ITEM(c.args, 0), *mean = saved(c, 1), *var = saved(c, 2), *weight = PyTuple_GET_ITEM(c.args, at);
    if (!is_tensor(x) || !is_tensor(mean) || !is_tensor(var) || c.grads[0] == Py_None || !sizes_of(x, sizes, dims) || dims < 2
        || !small_real(PyTuple_GET_ITEM(c.args, at + 2), 0, eps) || (grouped && !small_int(PyTuple_GET_ITEM(c.args, 1), groups)) || groups < 1)
        return nullptr;
    npy_intp all = product_of(sizes, dims), batch = sizes[0], channels = sizes[1];
    if (!all || all > FEW || channels % groups) return nullptr;
    npy_intp plane = all / (batch * channels), each = channels / groups;
    Groups s = {grouped ? batch * groups : channels, grouped ? each * plane : batch * plane, channels, grouped ? 1 : 2, plane, each};
    unsigned wanted = (c.needed & 1) | (c.needed >> at & 1) << 1 | (c.needed >> (at + 1) & 1) << 2;
    Wanted out;
    if (!all_of(s, x, c.grads[0], mean, var, false, eps, weight, &channels, 1, wanted, out)) return nullptr;
    Ref list(PyTuple_New(at + 3));
    PyObject* found[5] = {out.x.release()};
    found[at] = out.weight.release(), found[at + 1] = out.bias.release();
    for (int k = 0; list && k < at + 3; k++) PyTuple_SET_ITEM(list.get(), k, found[k] ? found[k] : Py_NewRef(Py_None));
    return list.release();
}

// (x, mean, var, weight, bias, eps): moments that are given, and need no gradient
PyObject* eval_back(const Gradients& c) {
    npy_intp sizes[MAX_DIMS];
    int dims;
    double eps;
    PyObject *x = PyTuple_GET_ITEM(c.args, 0), *weight = PyTuple_GET_ITEM(c.args, 3);
    if (c.needed & 6 || c.grads[0] == Py_None || !is_tensor(x) || !sizes_of(x, sizes, dims) || dims < 2 || !small_real(PyTuple_GET_ITEM(c.args, 5), 0, eps))
        return nullptr;
    Dense a(x), g(c.grads[0]), m(PyTuple_GET_ITEM(c.args, 1)), v(PyTuple_GET_ITEM(c.args, 2)), w(is_tensor(weight) ? weight : x);
    npy_intp all = product_of(sizes, dims), channels = sizes[1];
    if (!all || all > FEW || !a || !g || !m || !v || !w || a.type != FLOAT32 || g.type != FLOAT32 || m.type != FLOAT32 || v.type != FLOAT32
        || w.type != FLOAT32 || g.size() != all || m.size() != channels || v.size() != channels)
        return nullptr;
    npy_intp plane = all / (sizes[0] * channels);
    Ref array(c.needed & 1 ? fresh_array(FLOAT32, dims, sizes, nullptr) : nullptr);
    if (c.needed & 1 && !array) return nullptr;
    std::vector<double> dweight(channels), dbias(channels);
    for (npy_intp k = 0; k < all; k++) {
        npy_intp ch = k / plane % channels;
        double rstd = 1 / sqrt((double)v.data<float>()[ch] + eps), up = g.data<float>()[k];
        if (array) ((float*)data_of(array.get()))[k] = (float)(up * (is_tensor(weight) ? rstd * w.data<float>()[ch] : rstd));
        dweight[ch] += up * ((double)a.data<float>()[k] - m.data<float>()[ch]) * rstd, dbias[ch] += up;
    }
    Ref list(PyTuple_New(6));
    PyObject* found[6] = {array ? tensor_around(array.release(), FLOAT32) : nullptr};
    if (c.needed & 8) found[3] = vector_of(FLOAT32, &channels, 1, dweight);
    if (c.needed & 16) found[4] = vector_of(FLOAT32, &channels, 1, dbias);
    for (int k = 0; list && k < 6; k++) PyTuple_SET_ITEM(list.get(), k, found[k] ? found[k] : Py_NewRef(Py_None));
    return list.release();
}

// ---- layer norm

template <class T, class S>
void rows_of(const T* x, const T* weight, const T* bias, double eps, npy_intp rows, npy_intp n, T* out, S* mean, S* rstd) {
    for (npy_intp r = 0; r < rows; r++, x += n, out += n) {
        double total = 0, squares = 0;
        for (npy_intp k = 0; k < n; k++) total += widen(x[k]);
        double centre = total / n;
        for (npy_intp k = 0; k < n; k++) {
            double v = widen(x[k]) - centre;
            squares += v * v;
        }
        double scale = 1 / sqrt(squares / n + eps);
        mean[r] = (S)centre, rstd[r] = (S)scale;
        for (npy_intp k = 0; k < n; k++) {
            double v = (widen(x[k]) - centre) * scale;
            v = weight ? v * widen(weight[k]) : v;
            out[k] = Narrow<T>::of((S)(bias ? v + widen(bias[k]) : v));
        }
    }
}

PyObject* layer_norm(const Call& c) {
    static const Names<5> names("input", "normalized_shape", "weight", "bias", "eps");
    static KeptRecord* kept = kept_record("layer_norm");
    PyObject* a[5];
    double eps;
    if (!parse(c, names, a) || !a[0] || !a[1] || !small_real(a[4], 1e-5, eps) || !(PyTuple_Check(a[1]) || PyList_CheckExact(a[1]))) return nullptr;
    PyArrayObject* x = dense_array(a[0]);
    npy_intp count = PySequence_Fast_GET_SIZE(a[1]), width = 1, n, all = x ? PyArray_SIZE(x) : 0;
    int dims = x ? PyArray_NDIM(x) : 0, type = x ? type_of(a[0]) : -1;
    if (!all || all > FEW || count < 1 || count > dims || world.types[type].category != 2) return nullptr;
    for (npy_intp k = 0; k < count; k++) {
        if (!small_int(PySequence_Fast_GET_ITEM(a[1], k), n) || n != PyArray_DIM(x, dims - count + k)) return nullptr;
        width *= n;
    }
    const void* vectors[2] = {};
    for (int k = 0; k < 2; k++) {
        if (absent(a[2 + k])) continue;
        PyArrayObject* v = dense_array(a[2 + k]);
        if (!v || type_of(a[2 + k]) != type || PyArray_NDIM(v) != count || !PyArray_CompareLists(PyArray_DIMS(v), PyArray_DIMS(x) + dims - count, (int)count))
            return nullptr;
        vectors[k] = PyArray_DATA(v);
    }
    npy_intp rows[MAX_DIMS];
    for (int d = 0; d < dims; d++) rows[d] = d < dims - count ? PyArray_DIM(x, d) : 1;
    int inner = type == FLOAT64 ? FLOAT64 : FLOAT32;
    Ref out(fresh_array(type, dims, PyArray_DIMS(x), nullptr)), mean(fresh_array(inner, dims, rows, nullptr)), rstd(fresh_array(inner, dims, rows, nullptr));
    if (!out || !mean || !rstd || !by_floating(type, [&](auto e) {
            typedef decltype(e) T;
            typedef decltype(widen(e)) S;
            rows_of<T, S>((const T*)PyArray_DATA(x), (const T*)vectors[0], (const T*)vectors[1], eps, all / width, width, (T*)data_of(out.get()),
                (S*)data_of(mean.get()), (S*)data_of(rstd.get()));
        }))
        return nullptr;
    Ref made(tensor_around(out.release(), type)), number(PyLong_FromSsize_t(count)), factor(PyFloat_FromDouble(eps));
    PyObject* given[] = {a[0], number.get(), a[2] ? a[2] : Py_None, a[3] ? a[3] : Py_None, factor.get()};
    unsigned leads = 0;
    for (int k = 0; k < 4 && c.grad; k++)
        if (is_tensor(given[k]) && needs_grad(given[k])) leads |= 1u << k;
    if (!made || !leads) return made.release();
    Ref m(tensor_around(mean.release(), inner)), r(tensor_around(rstd.release(), inner));
    PyObject* outs[] = {made.get(), m.get(), r.get()};
    return m && r && record_first(kept->op, kept->needs, given, 5, leads, outs, 3) ? made.release() : nullptr;
}

}

const SmallEntry small_norms[] = {{"layer_norm", layer_norm}, {nullptr, nullptr}};

const KnownGradient norm_gradients[] = {{"layer_norm", "x", layer_norm_back<1>}, {"layer_norm", "weight", layer_norm_back<2>},
    {"layer_norm", "bias", layer_norm_bias}, {"batch_norm", "*", norm_back<false>}, {"group_norm", "*", norm_back<true>},
    {"batch_norm_eval", "*", eval_back}, {nullptr, nullptr, nullptr}};
