// Reductions of several steps: logsumexp, variances and deviations, sums without NaN, and sums of halves; recorded like the
// record's own call.
#include "spans.h"

#include <math.h>

#include <type_traits>

#include "casts.h"

namespace {

template <class Body> bool by_floating(int type, Body body) {
    switch (type) {
    case FLOAT32: return body(float{}), true;
    case FLOAT64: return body(double{}), true;
    case FLOAT16: return body(Half{}), true;
    case BFLOAT16: return body(BFloat{}), true;
    default: return false;
    }
}

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

}

const SmallEntry small_moments[] = {{"logsumexp", logsumexp}, {"var", spread<false>}, {"std", spread<true>},
    {"var_mean", spread_and_mean<false>}, {"std_mean", spread_and_mean<true>}, {nullptr, nullptr}};
