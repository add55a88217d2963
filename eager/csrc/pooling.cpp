// Pooling of small dense tensors in one call each, recorded too, and the kernels of the gradients (ops/pooling.py).
#include "gradients.h"

#include <vector>

#include "dense.h"

namespace {

constexpr npy_intp FEW = 1 << 14;

// ---- windows over the last dims of planes

struct Pool {
    PyArrayObject* x;
    int type, dims; // dims: pooled ones
    npy_intp planes, in[3], out[3], sizes[MAX_DIMS];
    // of each dim and output: first input, inputs, step between them; where an average counts the padding: its length
    std::vector<npy_intp> first[3], count[3], length[3];
    npy_intp gap[3];
    std::vector<npy_intp> skip[3];    // elements of a window before its first one inside
    npy_intp kernel[3] = {1, 1, 1}, stride[3] = {1, 1, 1}, padding[3] = {};
    bool leads = false;

    bool start(const Call& c, PyObject* t, int n) {
        x = t ? dense_array(t) : nullptr;
        leads = x && c.grad && needs_grad(t);
        if (!x || !PyArray_SIZE(x) || PyArray_SIZE(x) > FEW) return false;
        type = type_of(t), dims = n;
        int rank = PyArray_NDIM(x);
        if (rank != n + 1 && rank != n + 2) return false;
        planes = 1;
        for (int d = 0; d < rank - n; d++) planes *= sizes[d] = PyArray_DIM(x, d);
        for (int d = 0; d < 3; d++) {
            in[d] = d < 3 - n ? 1 : PyArray_DIM(x, rank - 3 + d), out[d] = gap[d] = 1;
            if (d < 3 - n) first[d] = skip[d] = {0}, count[d] = length[d] = {1};
        }
        return true;
    }
    void put(int d, npy_intp m) {
        out[d] = m;
        if (x) sizes[PyArray_NDIM(x) - 3 + d] = m;
        first[d].resize(m), count[d].resize(m), length[d].resize(m), skip[d].resize(m);
    }
    // the space of a gradient: `inputs` is what was pooled, outermost first
    void start_back(npy_intp all, int n, const npy_intp* inputs) {
        x = nullptr, dims = n, planes = all;
        for (int d = 0; d < 3; d++) {
            in[d] = d < 3 - n ? 1 : inputs[d - (3 - n)], out[d] = gap[d] = 1;
            if (d < 3 - n) first[d] = skip[d] = {0}, count[d] = length[d] = {1};
        }
    }
    // a dim's windows; false: refused, or none
    bool windows(int d, npy_intp k, npy_intp step, npy_intp pad, npy_intp dilation, bool ceil, bool padded) {
        if (k < 1 || step < 1 || dilation < 1 || pad < 0 || pad > (dilation * (k - 1) + 1) / 2 || k > FEW || dilation > FEW) return false;
        npy_intp room = in[d] + 2 * pad - dilation * (k - 1) - 1, m;
        if (room < 0 && !(ceil && room + step > 0)) return false;
        m = (ceil ? room + step - 1 : room) / step + 1;
        if (ceil && (m - 1) * step >= in[d] + pad) m--;
        if (m < 1) return false;
        put(d, m);
        gap[d] = dilation, kernel[d] = k, stride[d] = step, padding[d] = pad;
        for (npy_intp o = 0; o < m; o++) {
            npy_intp at = o * step - pad, before = at < 0 ? (-at + dilation - 1) / dilation : 0;
            npy_intp reach = in[d] - 1 - at, last = reach < 0 ? 0 : reach / dilation + 1, end = at + k;
            last = last < k ? last : k;
            first[d][o] = at + before * dilation, count[d][o] = last > before ? last - before : 0, skip[d][o] = before;
            length[d][o] = padded ? (end < in[d] + pad ? end : in[d] + pad) - at : count[d][o];
            if (!count[d][o]) first[d][o] = at < 0 ? 0 : at < in[d] ? at : in[d] - 1;
        }
        return true;
    }
    bool adaptive(int d, npy_intp m) {
        if (m < 1 || m > FEW) return false;
        put(d, m);
        kernel[d] = stride[d] = in[d] / m;
        for (npy_intp o = 0; o < m; o++) {
            first[d][o] = o * in[d] / m, skip[d][o] = 0;
            length[d][o] = count[d][o] = ((o + 1) * in[d] + m - 1) / m - first[d][o];
        }
        return true;
    }
    // equally long windows beside each other; a mean of everything is recorded as one
    bool even(bool greatest) const {
        bool all = !greatest;
        for (int d = 3 - dims; d < 3; d++) {
            if (in[d] % out[d]) return false;
            all = all && out[d] == 1;
        }
        return !all;
    }
    npy_intp outputs() const { return planes * out[0] * out[1] * out[2]; }
    PyObject* made(int kind) const { return fresh_array(kind, PyArray_NDIM(x), sizes, nullptr); }
    // body(plane, first element of the window, its place in the plane, outputs' places)
    template <class Body> void each(Body body) const {
        for (npy_intp p = 0, at = 0; p < planes; p++)
            for (npy_intp a = 0; a < out[0]; a++)
                for (npy_intp b = 0; b < out[1]; b++)
                    for (npy_intp c = 0; c < out[2]; c++) body(p * in[0] * in[1] * in[2], a, b, c, at++);
    }
    // `numbers`: the position of each maximum in its window. False: a window of nothing but -inf has no maximum to name.
    template <class T> bool maxima(T* values, int64_t* places, int64_t* numbers) const {
        bool good = true;
        const T* data = (const T*)PyArray_DATA(x);
        typedef decltype(widen(T{})) S;
        each([&](npy_intp plane, npy_intp a, npy_intp b, npy_intp c, npy_intp at) {
            const T* p = data + plane;
            // (a window of nothing but -inf names its first element inside)
            npy_intp place = (first[0][a] * in[1] + first[1][b]) * in[2] + first[2][c], number = 0;
            S best = -(S)__builtin_inf();
            for (npy_intp i = 0; i < count[0][a]; i++)
                for (npy_intp j = 0; j < count[1][b]; j++) {
                    npy_intp row = ((first[0][a] + i * gap[0]) * in[1] + first[1][b] + j * gap[1]) * in[2] + first[2][c];
                    for (npy_intp k = 0; k < count[2][c]; k++) {
                        S v = widen(p[row + k * gap[2]]);
                        if (v > best || (v != v && best == best)) {
                            best = v, place = row + k * gap[2];
                            number = ((skip[0][a] + i) * kernel[1] + skip[1][b] + j) * kernel[2] + skip[2][c] + k;
                        }
                    }
                }
            values[at] = Narrow<T>::of(best);
            if (places) places[at] = place;
            if (numbers) numbers[at] = number, good = good && best != -(S)__builtin_inf();
        });
        return good;
    }
    template <class T> void means(T* values, double divisor) const {
        const T* data = (const T*)PyArray_DATA(x);
        typedef decltype(widen(T{})) S;
        each([&](npy_intp plane, npy_intp a, npy_intp b, npy_intp c, npy_intp at) {
            const T* p = data + plane;
            S total = 0;
            for (npy_intp i = 0; i < count[0][a]; i++)
                for (npy_intp j = 0; j < count[1][b]; j++) {
                    const T* row = p + ((first[0][a] + i) * in[1] + first[1][b] + j) * in[2] + first[2][c];
                    for (npy_intp k = 0; k < count[2][c]; k++) total += widen(row[k]);
                }
            values[at] = Narrow<T>::of(total / (S)(divisor != 0 ? divisor : (double)(length[0][a] * length[1][b] * length[2][c])));
        });
    }
    PyObject* max_result(const Call& c, bool with_places, bool ceil) const {
        Ref values(made(type)), places(with_places ? made(INT64) : nullptr), numbers(leads ? made(INT64) : nullptr);
        if (!values || (with_places && !places) || (leads && !numbers)) return nullptr;
        int64_t *at = with_places ? (int64_t*)data_of(places.get()) : nullptr, *number = leads ? (int64_t*)data_of(numbers.get()) : nullptr;
        bool good = false;
        if (!by_floating(type, [&](auto e) { good = maxima((decltype(e)*)data_of(values.get()), at, number); }) || !good) return nullptr;
        Ref first(tensor_around(values.release(), type));
        if (leads) {
            Ref own(tensor_around(numbers.release(), INT64)), outs(first && own ? PyTuple_Pack(2, first.get(), own.get()) : nullptr);
            Ref k(numbers_from(kernel)), s(numbers_from(stride)), p(numbers_from(padding)), d(numbers_from(gap));
            PyObject* given[] = {c.args[0], k.get(), s.get(), p.get(), d.get(), ceil ? Py_True : Py_False};
            if (!outs || !k || !s || !p || !d || !record_outputs(c.self->head.op, given, outs.get())) return nullptr;
        }
        return with_places && first ? pair_of(first.release(), tensor_around(places.release(), INT64), Py_None) : first.release();
    }
    // (in the records' order: a number per pooled dim)
    PyObject* numbers_from(const npy_intp* all) const { return tuple_of(all + 3 - dims, dims); }
    PyObject* mean_result(const Call& c, double divisor, bool ceil, bool padded) const {
        Ref values(made(type));
        if (!values || !by_floating(type, [&](auto e) { means((decltype(e)*)data_of(values.get()), divisor); })) return nullptr;
        Ref out(tensor_around(values.release(), type));
        if (!leads || !out) return out.release();
        Ref k(numbers_from(kernel)), s(numbers_from(stride)), p(numbers_from(padding)), outs(PyTuple_Pack(1, out.get()));
        PyObject* given[] = {c.args[0], k.get(), s.get(), p.get(), ceil ? Py_True : Py_False, padded ? Py_True : Py_False, Py_None};
        return k && s && p && outs && record_outputs(c.self->head.op, given, outs.get()) ? out.release() : nullptr;
    }
};

// `n` numbers of a number or a tuple of so many; those that are missing are `other`
bool read_window(PyObject* x, int n, const npy_intp* other, npy_intp fill, npy_intp (&out)[3]) {
    for (int d = 0; d < 3; d++) out[d] = other ? other[d] : fill;
    if (absent(x)) return x != Py_None || other;
    bool many = PyTuple_CheckExact(x) || PyList_CheckExact(x);
    if (many && PySequence_Fast_GET_SIZE(x) != n) return false;
    for (int d = 0; d < n; d++)
        if (!small_int(many ? PySequence_Fast_GET_ITEM(x, d) : x, out[3 - n + d])) return false;
    return true;
}

template <int n> PyObject* max_pool(const Call& c) {
    static const Names<7> names("input", "kernel_size", "stride", "padding", "dilation", "ceil_mode", "return_indices");
    PyObject* a[7];
    npy_intp kernel[3], stride[3], padding[3], dilation[3];
    bool ceil, places;
    Pool p;
    if (!parse(c, names, a) || !a[0] || !a[1] || !flag_of(a[5], ceil) || !flag_of(a[6], places)
        || !read_window(a[1], n, nullptr, 1, kernel) || !read_window(a[2], n, kernel, 0, stride)
        || !read_window(a[3], n, nullptr, 0, padding) || !read_window(a[4], n, nullptr, 1, dilation) || !p.start(c, a[0], n))
        return nullptr;
    for (int d = 3 - n; d < 3; d++)
        if (!p.windows(d, kernel[d], stride[d], padding[d], dilation[d], ceil, false)) return nullptr;
    return p.leads && !c.n ? nullptr : p.max_result(c, places, ceil);
}

template <int n> PyObject* avg_pool(const Call& c) {
    static const Names<6> names("input", "kernel_size", "stride", "padding", "ceil_mode", "count_include_pad");
    PyObject* a[6];
    npy_intp kernel[3], stride[3], padding[3];
    bool ceil, padded;
    Pool p;
    if (!parse(c, names, a) || !a[0] || !a[1] || !flag_of(a[4], ceil) || !flag_of(a[5], padded)
        || !read_window(a[1], n, nullptr, 1, kernel) || !read_window(a[2], n, kernel, 0, stride)
        || !read_window(a[3], n, nullptr, 0, padding) || !p.start(c, a[0], n))
        return nullptr;
    for (int d = 3 - n; d < 3; d++)
        if (!p.windows(d, kernel[d], stride[d], padding[d], 1, ceil, padded || !a[5])) return nullptr;
    return p.leads && !c.n ? nullptr : p.mean_result(c, 0, ceil, padded || !a[5]);
}

template <int n, bool greatest> PyObject* adaptive_pool(const Call& c) {
    static const Names<3> names("input", "output_size", "return_indices");
    PyObject* a[3];
    npy_intp sizes[3];
    bool places;
    Pool p;
    if (!parse(c, names, a) || !a[0] || absent(a[1]) || !flag_of(a[2], places) || (!greatest && a[2])
        || !read_window(a[1], n, nullptr, 1, sizes) || !p.start(c, a[0], n))
        return nullptr;
    for (int d = 3 - n; d < 3; d++)
        if (!p.adaptive(d, sizes[d])) return nullptr;
    if (p.leads && (!c.n || !p.even(greatest))) return nullptr; // other records
    return greatest ? p.max_result(c, places, false) : p.mean_result(c, 0, false, true);
}

// ---- kernels of gradients

struct Back {
    PyArrayObject* g;
    int type, n;
    Pool p;
    npy_intp sizes[MAX_DIMS], kernel[3], stride[3], padding[3];
    // g, and tuples of the pooled sizes and of the window
    bool read(PyObject* slope, PyObject* inputs, PyObject* const* window) {
        g = row_major(slope), n = PyTuple_Check(inputs) ? (int)PyTuple_GET_SIZE(inputs) : 0;
        type = g ? element_type(g) : -1;
        int rank = g ? PyArray_NDIM(g) : 0;
        npy_intp own[3];
        if (n < 1 || n > 3 || rank < n || !PyArray_SIZE(g) || !numbers_of(inputs, n, own) || !numbers_of(window[0], n, kernel)
            || !numbers_of(window[1], n, stride) || !numbers_of(window[2], n, padding))
            return false;
        npy_intp planes = 1, total = 1;
        for (int d = 0; d < rank - n; d++) planes *= sizes[d] = PyArray_DIM(g, d);
        for (int d = 0; d < n; d++) {
            if (own[d] < 1 || own[d] > FEW) return false;
            total *= sizes[rank - n + d] = own[d];
        }
        if (planes * total > FEW || PyArray_SIZE(g) > FEW) return false;
        p.start_back(planes, n, own);
        return true;
    }
    bool windows(const npy_intp* dilation, bool ceil, bool padded) {
        for (int d = 0; d < n; d++) {
            int at = 3 - n + d;
            if (!p.windows(at, kernel[d], stride[d], padding[d], dilation ? dilation[d] : 1, ceil, padded)) return false;
            if (p.out[at] != PyArray_DIM(g, PyArray_NDIM(g) - n + d)) return false;
        }
        return true;
    }
    // body(the gradients, an array of zeros of floats or doubles), rounded once
    template <class Body> PyObject* made(Body body) const {
        PyObject* array = fresh_array(type, PyArray_NDIM(g), sizes, nullptr);
        if (!array) return nullptr;
        bool known = by_floating(type, [&](auto e) {
            typedef decltype(e) T;
            typedef decltype(widen(T{})) S;
            T* out = (T*)data_of(array);
            std::vector<S> total(PyArray_SIZE((PyArrayObject*)array));
            body((const T*)PyArray_DATA(g), total.data());
            for (size_t k = 0; k < total.size(); k++) out[k] = Narrow<T>::of(total[k]);
        });
        if (known) return array;
        Py_DECREF(array);
        return declined();
    }
};

// max_pool_backward(g, place, sizes, kernel, stride, padding, dilation)
PyObject* py_max_pool_backward(PyObject*, PyObject* const* args, Py_ssize_t count) {
    PyArrayObject* place = count == 7 ? row_major(args[1], INT64) : nullptr;
    Back b;
    npy_intp dilation[3], most = 1;
    if (!place || !b.read(args[0], args[2], args + 3) || !numbers_of(args[6], b.n, dilation) || PyArray_NDIM(place) != PyArray_NDIM(b.g)
        || !PyArray_CompareLists(PyArray_DIMS(place), PyArray_DIMS(b.g), PyArray_NDIM(b.g)))
        return declined();
    for (int d = 0; d < b.n; d++) {
        if (b.kernel[d] < 1 || b.kernel[d] > FEW || b.stride[d] < 1 || dilation[d] < 1) return declined();
        most *= b.kernel[d];
        b.p.out[3 - b.n + d] = PyArray_DIM(b.g, PyArray_NDIM(b.g) - b.n + d);
    }
    const int64_t* number = (const int64_t*)PyArray_DATA(place);
    for (npy_intp k = 0; k < PyArray_SIZE(place); k++)
        if (number[k] < 0 || number[k] >= most) return declined();
    int skip = 3 - b.n;
    return b.made([&](const auto* g, auto* out) {
        b.p.each([&](npy_intp plane, npy_intp i, npy_intp j, npy_intp k, npy_intp at) {
            npy_intp o[] = {i, j, k}, rest = number[at], flat = 0, step = 1;
            for (int d = 2; d >= skip; d--) {
                npy_intp own = rest % b.kernel[d - skip];
                npy_intp in = o[d] * b.stride[d - skip] - b.padding[d - skip] + own * dilation[d - skip];
                if (in < 0) in = (in % dilation[d - skip] + dilation[d - skip]) % dilation[d - skip];
                if (in >= b.p.in[d]) return;
                rest /= b.kernel[d - skip], flat += in * step, step *= b.p.in[d];
            }
            out[plane + flat] += widen(g[at]);
        });
    });
}

// avg_pool_backward(g, sizes, kernel, stride, padding, ceil, with padding, divisor)
PyObject* py_avg_pool_backward(PyObject*, PyObject* const* args, Py_ssize_t count) {
    Back b;
    if (count != 8 || args[7] != Py_None || !b.read(args[0], args[1], args + 2) || !b.windows(nullptr, args[5] == Py_True, args[6] == Py_True))
        return declined();
    const Pool& p = b.p;
    return b.made([&](const auto* g, auto* out) {
        p.each([&](npy_intp plane, npy_intp i, npy_intp j, npy_intp k, npy_intp at) {
            auto share = widen(g[at]);
            share /= (decltype(share))(p.length[0][i] * p.length[1][j] * p.length[2][k]);
            for (npy_intp x = 0; x < p.count[0][i]; x++)
                for (npy_intp y = 0; y < p.count[1][j]; y++) {
                    auto* row = out + plane + ((p.first[0][i] + x) * p.in[1] + p.first[1][j] + y) * p.in[2] + p.first[2][k];
                    for (npy_intp z = 0; z < p.count[2][k]; z++) row[z] += share;
                }
        });
    });
}

// Zeros in the sizes of what was pooled over its last n dims, with each gradient added where `place` says: (place as the record
// gives it, number of the output in its plane), or -1.
template <class Place> PyObject* put_back(const Gradients& c, int n, Place place) {
    npy_intp sizes[MAX_DIMS];
    int dims;
    PyObject* places = PyList_Check(c.outs) && PyList_GET_SIZE(c.outs) == 2 ? PyList_GET_ITEM(c.outs, 1) : Py_None;
    if (c.grads[0] == Py_None || !is_tensor(places) || !sizes_of(PyTuple_GET_ITEM(c.args, 0), sizes, dims) || dims < n) return nullptr;
    Dense g(c.grads[0]), at(places);
    if (!g || !at) return nullptr;
    npy_intp lead = product_of(sizes, dims - n), area = product_of(sizes + dims - n, n), count = lead ? g.size() / lead : 0;
    if (!g.own(c.grads[0]) || at.type != INT64 || g.size() != at.size() || !count || (g.type != FLOAT32 && g.type != FLOAT64)
        || PyArray_NDIM(g.a) != dims || lead * area > alone(1 << 20))
        return nullptr;
    Ref array(fresh_array(g.type, dims, sizes, nullptr));
    if (!array) return nullptr;
    memset(data_of(array.get()), 0, PyArray_NBYTES((PyArrayObject*)array.get()));
    auto run = [&](auto e) {
        typedef decltype(e) T;
        T* out = (T*)data_of(array.get());
        const T* up = g.data<T>();
        const int64_t* number = at.data<int64_t>();
        for (npy_intp p = 0; p < lead; p++, out += area)
            for (npy_intp k = 0; k < count; k++) {
                npy_intp to = place(*number++, k);
                if ((uint64_t)to >= (uint64_t)area) return false;
                out[to] += *up++;
            }
        return true;
    };
    return (g.type == FLOAT32 ? run(float{}) : run(double{})) ? tensor_around(array.release(), g.type) : nullptr;
}

PyObject* fractional_back(const Gradients& c) { // (x: Meta, samples, kernel_size, sizes), outs (values, flat places)
    PyObject* kernel = PyTuple_GET_ITEM(c.args, 2);
    return PyTuple_Check(kernel) ? put_back(c, (int)PyTuple_GET_SIZE(kernel), [](int64_t at, npy_intp) { return (npy_intp)at; }) : nullptr;
}

PyObject* adaptive_max_back(const Gradients& c) { // (x: Meta, output_size), outs (values, positions in windows)
    PyObject* wanted = PyTuple_GET_ITEM(c.args, 1);
    npy_intp sizes[MAX_DIMS], outs[3], spans[3];
    int dims, n = PyTuple_Check(wanted) ? (int)PyTuple_GET_SIZE(wanted) : 0;
    if (n < 1 || n > 3 || !sizes_of(PyTuple_GET_ITEM(c.args, 0), sizes, dims) || dims < n || !numbers_of(wanted, n, outs)) return nullptr;
    for (int d = 0; d < n; d++) {
        if (outs[d] < 1) return nullptr;
        spans[d] = (sizes[dims - n + d] + outs[d] - 1) / outs[d] + 1;
    }
    const npy_intp* in = sizes + dims - n;
    return put_back(c, n, [&](int64_t position, npy_intp output) {
        npy_intp flat = 0, step = 1, rest = (npy_intp)position;
        for (int d = n - 1; d >= 0; d--) {
            npy_intp o = output % outs[d], own = d ? rest % spans[d] : rest, at = o * in[d] / outs[d] + own;
            if (own < 0 || at >= in[d]) return (npy_intp)-1;
            output /= outs[d], rest /= spans[d], flat += at * step, step *= in[d];
        }
        return flat;
    });
}

PyMethodDef functions[] = {
    {"max_pool_backward", (PyCFunction)(void*)py_max_pool_backward, METH_FASTCALL,
        "max_pool_backward(g, place, sizes, kernel, stride, padding, dilation): an array, or NotImplemented"},
    {"avg_pool_backward", (PyCFunction)(void*)py_avg_pool_backward, METH_FASTCALL,
        "avg_pool_backward(g, sizes, kernel, stride, padding, ceil, with padding, divisor): an array, or NotImplemented"},
    {nullptr, nullptr, 0, nullptr}};

}

const SmallEntry small_pooling[] = {{"max_pool1d", max_pool<1>}, {"max_pool2d", max_pool<2>}, {"max_pool3d", max_pool<3>},
    {"avg_pool1d", avg_pool<1>}, {"avg_pool2d", avg_pool<2>}, {"avg_pool3d", avg_pool<3>},
    {"adaptive_avg_pool1d", adaptive_pool<1, false>}, {"adaptive_avg_pool2d", adaptive_pool<2, false>},
    {"adaptive_avg_pool3d", adaptive_pool<3, false>}, {"adaptive_max_pool1d", adaptive_pool<1, true>},
    {"adaptive_max_pool2d", adaptive_pool<2, true>}, {"adaptive_max_pool3d", adaptive_pool<3, true>}, {nullptr, nullptr}};

const KnownGradient pooling_gradients[] = {{"fractional_max", "x", fractional_back}, {"adaptive_max_pool", "x", adaptive_max_back},
    {nullptr, nullptr, nullptr}};

bool add_pooling(PyObject* module) { return PyModule_AddFunctions(module, functions) == 0; }
