// Reductions of several steps: logsumexp, variances and deviations, sums without NaN, and sums of halves; recorded like the
// record's own call.
#include "reduced_dims.h"

#include <math.h>

#include <type_traits>

#include "dense.h"

namespace {

float exp_of(float x) { return expf(x); }
double exp_of(double x) { return exp(x); }
float log_of(float x) { return logf(x); }
double log_of(double x) { return log(x); }

// The node of the record behind the function, if the call is recorded. Steals `out`.
PyObject* recorded(const Call& c, PyObject* x, const Span& s, PyObject* middle, bool keepdim, PyObject* out) {
    Ref result(out);
    if (out && c.grad && needs_grad(x) && !record_span(c.self->head.op, c.self->needs, x, s, middle, keepdim, &out, 1)) return nullptr;
    return result.release();
}

// body(elements of one result, step) -> the result, in the numbers that the type computes with
template <class Body> PyObject* reduced(const Span& s, bool keepdim, Body body) {
    Ref array(result_of(s, s.type, keepdim));
    if (!array || !by_floating(s.type, [&](auto e) {
            typedef decltype(e) T;
            T* out = (T*)data_of(array.get());
            each_result<T>(s, [&](const T* x, npy_intp step, npy_intp at) { out[at] = Narrow<T>::of(body(x, step)); });
        }))
        return nullptr;
    return tensor_around(array.release(), s.type);
}

PyObject* logsumexp(const Call& c) {
    static const Names<3> names("input", "dim", "keepdim");
    PyObject* a[3];
    Span s;
    bool keepdim;
    if (!parse(c, names, a) || !a[0] || absent(a[1]) || !flag_of(a[2], keepdim) || !read_span(a[0], a[1], s)) return nullptr;
    PyObject* out = reduced(s, keepdim, [&](auto x, npy_intp step) {
        typedef decltype(widen(*x)) S;
        S top = widen(x[0]);
        for (npy_intp k = 1; k < s.n && top == top; k++) {
            S v = widen(x[k * step]);
            top = v > top || v != v ? v : top;
        }
        if (top != top || top - top != 0) return top; // NaN, or infinite
        S total = 0;
        for (npy_intp k = 0; k < s.n; k++) total += exp_of(widen(x[k * step]) - top);
        return log_of(total) + top;
    });
    return recorded(c, a[0], s, nullptr, keepdim, out);
}

struct Moments {
    double mean, variance;
};
template <class T> Moments moments_of(const T* x, npy_intp step, npy_intp n, npy_intp correction) {
    double sum = 0, squares = 0;
    for (npy_intp k = 0; k < n; k++) sum += widen(x[k * step]);
    double mean = sum / n;
    for (npy_intp k = 0; k < n; k++) {
        double v = widen(x[k * step]) - mean;
        squares += v * v;
    }
    return {mean, squares / (n - correction)};
}

// (input, dim, keepdim, correction) of the calls that have enough elements for the correction
bool read_spread(const Call& c, PyObject*& x, Span& s, bool& keepdim, npy_intp& correction) {
    static const Names<5> names("input", "dim", "unbiased", "keepdim", "correction");
    PyObject* a[5];
    bool unbiased = true;
    correction = 1;
    if (c.n > 4 || !parse(c, names, a) || !a[0]) return false;
    if (a[1] && PyBool_Check(a[1])) return false;
    if (!absent(a[2]) && !flag_of(a[2], unbiased)) return false;
    if (!absent(a[4]) ? !absent(a[2]) || !small_int(a[4], correction) || correction < 0 : false) return false;
    if (absent(a[4])) correction = unbiased;
    x = a[0];
    return flag_of(a[3], keepdim) && read_span(x, a[1], s, 1 << 14) && s.n > correction && world.types[s.type].category == 2;
}

template <bool root> PyObject* spread(const Call& c) {
    PyObject* x;
    Span s;
    bool keepdim;
    npy_intp correction;
    if (!read_spread(c, x, s, keepdim, correction)) return nullptr;
    PyObject* out = reduced(s, keepdim, [&](auto from, npy_intp step) {
        double v = moments_of(from, step, s.n, correction).variance;
        return root ? sqrt(v) : v;
    });
    Ref middle(PyLong_FromSsize_t(correction));
    return recorded(c, x, s, middle.get(), keepdim, out);
}

// (variance, mean) of calls that are not recorded
template <bool root> PyObject* spread_and_mean(const Call& c) {
    PyObject* x;
    Span s;
    bool keepdim;
    npy_intp correction;
    if (!read_spread(c, x, s, keepdim, correction) || (c.grad && needs_grad(x))) return nullptr;
    Ref means(result_of(s, s.type, keepdim)), pair(PyTuple_New(2));
    if (!means || !pair) return nullptr;
    npy_intp at = 0;
    PyObject* first = reduced(s, keepdim, [&](auto from, npy_intp step) {
        typedef std::decay_t<decltype(*from)> T;
        Moments m = moments_of(from, step, s.n, correction);
        ((T*)data_of(means.get()))[at++] = Narrow<T>::of(m.mean);
        return root ? sqrt(m.variance) : m.variance;
    });
    if (!first) return nullptr;
    PyTuple_SET_ITEM(pair.get(), 0, first);
    PyObject* second = tensor_around(means.release(), s.type);
    if (!second) return nullptr;
    PyTuple_SET_ITEM(pair.get(), 1, second);
    return pair.release();
}

// ---- sums and products

template <class S> S total_of(const float* x, npy_intp n, S) { return (S)small_row_sum(x, n); }
template <class S> S total_of(const double* x, npy_intp n, S total) {
    for (npy_intp k = 0; k < n; k++) total += x[k];
    return total;
}

// Numbers that are NaN count as nothing.
PyObject* nansum(const Call& c) {
    static const Names<3> names("input", "dim", "keepdim");
    PyObject* a[3];
    Span s;
    bool keepdim;
    if (!parse(c, names, a) || !a[0] || !flag_of(a[2], keepdim) || !read_span(a[0], a[1], s) || (c.grad && needs_grad(a[0])))
        return PyErr_Occurred() ? nullptr : large_nansum(c);
    return reduced(s, keepdim, [&](auto x, npy_intp step) {
        typedef decltype(widen(*x)) S;
        S room[SMALL_REDUCTION];
        for (npy_intp k = 0; k < s.n; k++) {
            S v = widen(x[k * step]);
            room[k] = v == v ? v : 0;
        }
        return total_of(room, s.n, (S)0);
    });
}

PyObject* prod(const Call& c) {
    static const Names<3> names("input", "dim", "keepdim");
    PyObject* a[3];
    Span s;
    bool keepdim;
    if (!parse(c, names, a) || !a[0] || !flag_of(a[2], keepdim) || !read_span(a[0], a[1], s))
        return PyErr_Occurred() ? nullptr : large_prod(c);
    PyObject* out = reduced(s, keepdim, [&](auto x, npy_intp step) {
        decltype(widen(*x)) total = 1;
        for (npy_intp k = 0; k < s.n; k++) total *= widen(x[k * step]);
        return total;
    });
    return recorded(c, a[0], s, nullptr, keepdim, out);
}

// Sums or means over any dims of few halves, or over dims that are not side by side: in the numbers that they compute with.
template <bool mean> PyObject* sum_over(const Call& c) {
    static const Names<3> names("input", "dim", "keepdim");
    PyObject* a[3];
    bool keepdim, over[MAX_DIMS] = {};
    if (!parse(c, names, a) || !a[0] || !flag_of(a[2], keepdim)) return nullptr;
    PyArrayObject* x = dense_array(a[0]);
    int dims = x ? PyArray_NDIM(x) : 0, type = x ? type_of(a[0]) : -1, d, count = 0, used = 0;
    npy_intp n = x ? PyArray_SIZE(x) : 0, sizes[MAX_DIMS], steps[MAX_DIMS], taken[MAX_DIMS], results = 1;
    if (type < 0 || world.types[type].category != 2 || !n || n > SMALL_REDUCTION) return nullptr;
    bool many = a[1] && PyTuple_CheckExact(a[1]);
    for (Py_ssize_t k = 0, last = absent(a[1]) ? 0 : many ? PyTuple_GET_SIZE(a[1]) : 1; k < last; k++) {
        if (!small_dim(many ? PyTuple_GET_ITEM(a[1], k) : a[1], dims, d) || over[d]) return nullptr;
        over[d] = true;
    }
    if (absent(a[1]) || (many && !PyTuple_GET_SIZE(a[1])))
        for (d = 0; d < dims; d++) over[d] = true;
    for (d = dims - 1; d >= 0; d--) steps[d] = over[d] ? 0 : results, results *= over[d] ? 1 : PyArray_DIM(x, d);
    for (d = 0; d < dims; d++) {
        if (over[d]) taken[count++] = d;
        if (!over[d] || keepdim) sizes[used++] = over[d] ? 1 : PyArray_DIM(x, d);
    }
    Ref array(fresh_array(type, used, sizes, nullptr)), list(tuple_of(taken, count));
    if (!array || !list || !by_floating(type, [&](auto e) {
            typedef decltype(e) T;
            typedef decltype(widen(e)) S;
            S total[SMALL_REDUCTION] = {};
            npy_intp index[MAX_DIMS] = {}, at = 0;
            const T* from = (const T*)PyArray_DATA(x);
            for (npy_intp k = 0; k < n; k++) {
                total[at] += widen(from[k]);
                int i = dims - 1;
                for (; i >= 0 && ++index[i] == PyArray_DIM(x, i); i--) at -= steps[i] * (index[i] - 1), index[i] = 0;
                if (i >= 0) at += steps[i];
            }
            for (npy_intp k = 0; k < results; k++)
                ((T*)data_of(array.get()))[k] = Narrow<T>::of(mean ? total[k] / (S)(n / results) : total[k]);
        }))
        return nullptr;
    Ref out(tensor_around(array.release(), type));
    if (!out || !c.grad || !needs_grad(a[0])) return out.release();
    PyObject* given[] = {a[0], list.get(), keepdim ? Py_True : Py_False};
    return record(c.self->head.op, c.self->needs, given, 3, 1, out.get()) ? out.release() : nullptr;
}

}

PyObject* small_sum_over(const Call& c, bool mean) { return mean ? sum_over<true>(c) : sum_over<false>(c); }

const SmallEntry small_moments[] = {{"nansum", nansum}, {"prod", prod}, {"logsumexp", logsumexp}, {"var", spread<false>}, {"std", spread<true>},
    {"var_mean", spread_and_mean<false>}, {"std_mean", spread_and_mean<true>}, {nullptr, nullptr}};
