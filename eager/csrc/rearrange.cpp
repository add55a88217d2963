// Elements put elsewhere: one_hot, triangles, flips, diagonals, shuffles of pixels and channels, padding, windows as columns.
// Handlers of public functions for dense tensors, and kernels on arrays for records (`native`), which answer NotImplemented to
// what they do not take.
#include "small_tensor.h"

#include <string.h>

#include <vector>

#include "../../runtime/csrc/job.h"
#include "casts.h"

namespace {

constexpr npy_intp LARGE = 1l << 24; // bytes that one thread moves


template <class Body> bool by_size(int bytes, Body body) {
    switch (bytes) {
    case 1: return body(uint8_t{}), true;
    case 2: return body(uint16_t{}), true;
    case 4: return body(uint32_t{}), true;
    case 8: return body(uint64_t{}), true;
    default: return false;
    }
}

// The node of the record's call on `given`, of which the first may need a gradient. Steals `out`.
PyObject* recorded(const Call& c, PyObject* const* given, int count, PyObject* out) {
    if (!out || !c.grad || !needs_grad(given[0])) return out;
    Ref result(out);
    return record(c.self->head.op, c.self->needs, given, count, 1, out) ? result.release() : nullptr;
}

bool untracked(const Call& c, PyObject* x) { return !(c.grad && needs_grad(x)); }

// ---- one_hot

PyObject* one_hot(const Call& c) {
    static const Names<2> names("tensor", "num_classes");
    PyObject* a[2];
    npy_intp classes, sizes[MAX_DIMS];
    if (!parse(c, names, a) || !a[0] || !a[1] || !small_int(a[1], classes) || classes < 1) return nullptr;
    PyArrayObject* x = dense_array(a[0]);
    npy_intp n = x ? PyArray_SIZE(x) : 0;
    int dims = x ? PyArray_NDIM(x) : 0;
    if (!n || type_of(a[0]) != INT64 || dims + 1 >= MAX_DIMS || classes > LARGE / 8 || n > LARGE / 8 / classes) return nullptr;
    const int64_t* at = (const int64_t*)PyArray_DATA(x);
    uint64_t wrong = 0;
    for (npy_intp k = 0; k < n; k++) wrong |= (uint64_t)((uint64_t)at[k] >= (uint64_t)classes);
    if (wrong) return nullptr;
    memcpy(sizes, PyArray_DIMS(x), dims * sizeof(npy_intp));
    sizes[dims] = classes;
    PyObject* array = fresh_array(INT64, dims + 1, sizes, nullptr);
    if (!array) return nullptr;
    int64_t* out = (int64_t*)data_of(array);
    memset(out, 0, n * classes * sizeof(int64_t));
    for (npy_intp k = 0; k < n; k++) out[k * classes + at[k]] = 1;
    return tensor_around(array, INT64);
}

// ---- triangles of matrices

template <bool lower> PyObject* triangle(const Call& c) {
    static const Names<2> names("input", "diagonal");
    PyObject* a[2];
    npy_intp diagonal = 0;
    if (!parse(c, names, a) || !a[0] || (a[1] && !small_int(a[1], diagonal))) return nullptr;
    PyArrayObject* x = dense_array(a[0]);
    int dims = x ? PyArray_NDIM(x) : 0, type = x ? type_of(a[0]) : -1;
    if (dims < 2 || type < 0 || !PyArray_NBYTES(x) || PyArray_NBYTES(x) > alone(LARGE) || diagonal > LARGE
        || diagonal < -LARGE)
        return nullptr;
    npy_intp bytes = world.types[type].itemsize, columns = PyArray_DIM(x, dims - 1), rows = PyArray_DIM(x, dims - 2);
    PyObject* array = fresh_array(type, dims, PyArray_DIMS(x), nullptr);
    if (!array) return nullptr;
    const char* from = (const char*)PyArray_DATA(x);
    char* out = (char*)data_of(array);
    for (npy_intp all = PyArray_SIZE(x) / columns, r = 0, i = 0; r < all; r++, from += columns * bytes, out += columns * bytes) {
        npy_intp cut = i + diagonal + (lower ? 1 : 0); // of columns before it the lower part
        cut = cut < 0 ? 0 : cut > columns ? columns : cut;
        memcpy(out + (lower ? 0 : cut * bytes), from + (lower ? 0 : cut * bytes), (lower ? cut : columns - cut) * bytes);
        memset(out + (lower ? cut * bytes : 0), 0, (lower ? columns - cut : cut) * bytes);
        if (++i == rows) i = 0;
    }
    Ref number(PyLong_FromSsize_t(diagonal));
    PyObject* given[] = {a[0], number.get()};
    return recorded(c, given, 2, tensor_around(array, type));
}

// ---- flips

FB_EACH_MACHINE void turn_words(const uint32_t* x, uint32_t* out, npy_intp n) {
    for (npy_intp k = 0; k < n; k++) out[k] = x[n - 1 - k];
}
FB_EACH_MACHINE void turn_longs(const uint64_t* x, uint64_t* out, npy_intp n) {
    for (npy_intp k = 0; k < n; k++) out[k] = x[n - 1 - k];
}
FB_EACH_MACHINE void turn_shorts(const uint16_t* x, uint16_t* out, npy_intp n) {
    for (npy_intp k = 0; k < n; k++) out[k] = x[n - 1 - k];
}
FB_EACH_MACHINE void turn_bytes(const uint8_t* x, uint8_t* out, npy_intp n) {
    for (npy_intp k = 0; k < n; k++) out[k] = x[n - 1 - k];
}
void turn(int bytes, const char* x, char* out, npy_intp n) {
    if (bytes == 4) turn_words((const uint32_t*)x, (uint32_t*)out, n);
    else if (bytes == 8) turn_longs((const uint64_t*)x, (uint64_t*)out, n);
    else if (bytes == 2) turn_shorts((const uint16_t*)x, (uint16_t*)out, n);
    else turn_bytes((const uint8_t*)x, (uint8_t*)out, n);
}

struct Flip {
    int bytes, dims; // dims up to the last one that is turned
    bool turned[MAX_DIMS];
    npy_intp sizes[MAX_DIMS], run[MAX_DIMS]; // bytes of one step of each dim
    void go(int d, const char* x, char* out) const {
        if (d == dims - 1 && run[d] == bytes) return turn(bytes, x, out, sizes[d]);
        for (npy_intp k = 0; k < sizes[d]; k++) {
            const char* from = x + (turned[d] ? sizes[d] - 1 - k : k) * run[d];
            if (d == dims - 1) memcpy(out + k * run[d], from, run[d]);
            else go(d + 1, from, out + k * run[d]);
        }
    }
};

// A quarter turn in the plane of two dims, without history: flipped along one of them, seen with both exchanged.
PyObject* rot90(const Call& c) {
    static const Names<3> names("input", "k", "dims");
    PyObject* given[3];
    npy_intp turns = 1, sizes[MAX_DIMS], strides[MAX_DIMS];
    if (!parse(c, names, given) || !given[0] || (given[1] && !small_int(given[1], turns)) || !(turns & 1)) return nullptr;
    PyArrayObject* x = dense_array(given[0]);
    int dims = x ? PyArray_NDIM(x) : 0, type = x ? type_of(given[0]) : -1, plane[2] = {0, 1};
    if (dims < 2 || type < 0 || !PyArray_NBYTES(x) || PyArray_NBYTES(x) > alone(LARGE) || world.types[type].itemsize > 8
        || !untracked(c, given[0]))
        return nullptr;
    if (PyObject* list = given[2]) {
        if (!(PyTuple_CheckExact(list) || PyList_CheckExact(list)) || PySequence_Fast_GET_SIZE(list) != 2) return nullptr;
        for (int k = 0; k < 2; k++)
            if (!small_dim(PySequence_Fast_GET_ITEM(list, k), dims, plane[k])) return nullptr;
    }
    int a = plane[0], b = plane[1], d = (turns & 3) == 1 ? b : a;
    if (a == b) return nullptr;
    Flip f = {world.types[type].itemsize, d + 1, {}, {}, {}};
    f.turned[d] = true;
    npy_intp step = 1;
    for (int k = dims - 1; k >= 0; k--) {
        f.sizes[k] = sizes[k] = PyArray_DIM(x, k), f.run[k] = step * f.bytes, strides[k] = step;
        step *= sizes[k];
    }
    std::swap(sizes[a], sizes[b]), std::swap(strides[a], strides[b]);
    PyObject* array = fresh_array(type, dims, sizes, strides);
    if (!array) return nullptr;
    f.go(0, (const char*)PyArray_DATA(x), (char*)data_of(array));
    return tensor_around(array, type);
}

PyObject* flip(const Call& c) {
    PyObject* given = c.n == 2 && !c.names ? c.args[1] : nullptr;
    PyArrayObject* x = given ? dense_array(c.args[0]) : nullptr;
    int dims = x ? PyArray_NDIM(x) : 0, type = x ? type_of(c.args[0]) : -1;
    if (!dims || type < 0 || !PyArray_NBYTES(x) || PyArray_NBYTES(x) > alone(LARGE) || world.types[type].itemsize > 8) return nullptr;
    Flip f = {world.types[type].itemsize, 0, {}, {}, {}};
    bool many = PyTuple_CheckExact(given) || PyList_CheckExact(given);
    Py_ssize_t count = many ? PySequence_Fast_GET_SIZE(given) : 1;
    for (Py_ssize_t k = 0; k < count; k++) {
        int d;
        if (!small_dim(many ? PySequence_Fast_GET_ITEM(given, k) : given, dims, d) || f.turned[d]) return nullptr;
        f.turned[d] = true, f.dims = d + 1 > f.dims ? d + 1 : f.dims;
    }
    if (!count) return nullptr;
    for (int d = 0; d < dims; d++) f.sizes[d] = PyArray_DIM(x, d), f.run[d] = PyArray_STRIDE(x, d);
    npy_intp step = f.bytes; // (numpy's strides of dims of one element may be anything)
    for (int d = dims - 1; d >= 0; d--) f.run[d] = step, step *= f.sizes[d];
    PyObject* array = fresh_array(type, dims, PyArray_DIMS(x), nullptr);
    if (!array) return nullptr;
    f.go(0, (const char*)PyArray_DATA(x), (char*)data_of(array));
    npy_intp turned[MAX_DIMS];
    int n = 0;
    for (int d = 0; d < dims; d++)
        if (f.turned[d]) turned[n++] = d;
    Ref list(tuple_of(turned, n));
    PyObject* told[] = {c.args[0], list.get()};
    return list ? recorded(c, told, 2, tensor_around(array, type)) : nullptr;
}

// ---- rows on the diagonals of matrices of zeros; without history

PyObject* diagonals(const Call& c, PyObject* t) {
    PyArrayObject* x = dense_array(t);
    int dims = x ? PyArray_NDIM(x) : 0, type = x ? type_of(t) : -1;
    if (!dims || dims + 1 >= MAX_DIMS || type < 0 || !untracked(c, t)) return nullptr;
    npy_intp n = PyArray_DIM(x, dims - 1), all = PyArray_SIZE(x), sizes[MAX_DIMS], bytes = world.types[type].itemsize;
    if (!all || n > LARGE / 16 || all * n > alone(LARGE) / bytes) return nullptr;
    memcpy(sizes, PyArray_DIMS(x), dims * sizeof(npy_intp));
    sizes[dims] = n;
    Ref array(fresh_array(type, dims + 1, sizes, nullptr));
    if (!array) return nullptr;
    memset(data_of(array.get()), 0, all * n * bytes);
    bool known = by_size((int)bytes, [&](auto e) {
        typedef decltype(e) E;
        const E* from = (const E*)PyArray_DATA(x);
        E* out = (E*)data_of(array.get());
        for (npy_intp k = 0, i = 0; k < all; k++, out += n) {
            out[i] = from[k];
            if (++i == n) i = 0;
        }
    });
    return known ? tensor_around(array.release(), type) : nullptr;
}

PyObject* diag_embed(const Call& c) { return c.n == 1 && !c.names ? diagonals(c, c.args[0]) : nullptr; }

PyObject* diag(const Call& c) {
    if (c.n != 1 || c.names || !is_plain(c.args[0])) return nullptr;
    PyArrayObject* x = array_of(c.args[0]);
    return x && PyArray_NDIM(x) == 1 ? diagonals(c, c.args[0]) : nullptr;
}

// ---- shuffles

// out[a, b, c, d, :] = x[a, c, b, d, :] ... as loops over five sizes with the steps of x
struct Shuffle {
    npy_intp sizes[5], steps[5];
};

template <class E> void shuffle_elements(const Shuffle& s, const E* x, E* out) {
    for (npy_intp a = 0; a < s.sizes[0]; a++)
        for (npy_intp b = 0; b < s.sizes[1]; b++)
            for (npy_intp c = 0; c < s.sizes[2]; c++)
                for (npy_intp d = 0; d < s.sizes[3]; d++) {
                    const E* from = x + a * s.steps[0] + b * s.steps[1] + c * s.steps[2] + d * s.steps[3];
                    for (npy_intp e = 0; e < s.sizes[4]; e++) *out++ = from[e * s.steps[4]];
                }
}

// (tensor, factor) of a shuffle: at least three dims, some elements, a factor of 2 or more
PyArrayObject* shuffled(const Call& c, npy_intp& factor, int& type) {
    if (c.n != 2 || c.names || !small_int(c.args[1], factor) || factor < 2) return nullptr;
    PyArrayObject* x = dense_array(c.args[0]);
    if (!x || PyArray_NDIM(x) < 3 || !PyArray_NBYTES(x) || PyArray_NBYTES(x) > LARGE || (type = type_of(c.args[0])) < 0)
        return nullptr;
    return x;
}

PyObject* finish_shuffle(const Call& c, const Shuffle& s, PyArrayObject* x, int type, const npy_intp* sizes) {
    Ref array(fresh_array(type, PyArray_NDIM(x), sizes, nullptr));
    if (!array || !by_size(world.types[type].itemsize, [&](auto e) {
            shuffle_elements(s, (const decltype(e)*)PyArray_DATA(x), (decltype(e)*)data_of(array.get()));
        }))
        return nullptr;
    return recorded(c, c.args, 2, tensor_around(array.release(), type));
}

template <bool up> PyObject* pixel_shuffle(const Call& c) {
    npy_intp r, sizes[MAX_DIMS], lead = 1;
    int type;
    PyArrayObject* x = shuffled(c, r, type);
    if (!x) return nullptr;
    int n = PyArray_NDIM(x);
    memcpy(sizes, PyArray_DIMS(x), n * sizeof(npy_intp));
    npy_intp ch = sizes[n - 3], h = sizes[n - 2], w = sizes[n - 1];
    for (int d = 0; d < n - 3; d++) lead *= sizes[d];
    if (up ? ch % (r * r) || h * w == 1 : h % r || w % r || h * w == r * r) return nullptr;
    if (up) {
        sizes[n - 3] = ch / (r * r), sizes[n - 2] = h * r, sizes[n - 1] = w * r;
        return finish_shuffle(c, {{lead * (ch / (r * r)), h, r, w, r}, {r * r * h * w, w, r * h * w, 1, h * w}}, x, type, sizes);
    }
    sizes[n - 3] = ch * r * r, sizes[n - 2] = h / r, sizes[n - 1] = w / r;
    return finish_shuffle(c, {{lead * ch, r, r, h / r, w / r}, {h * w, w, 1, r * w, r}}, x, type, sizes);
}

PyObject* channel_shuffle(const Call& c) {
    npy_intp groups;
    int type;
    PyArrayObject* x = shuffled(c, groups, type);
    npy_intp channels = x ? PyArray_DIM(x, 1) : 0;
    if (!x || channels % groups || channels == groups) return nullptr;
    npy_intp batch = PyArray_DIM(x, 0), run = PyArray_NBYTES(x) / (batch * channels), each = channels / groups;
    PyObject* array = fresh_array(type, PyArray_NDIM(x), PyArray_DIMS(x), nullptr);
    if (!array) return nullptr;
    const char* from = (const char*)PyArray_DATA(x);
    char* out = (char*)data_of(array);
    for (npy_intp b = 0; b < batch; b++, from += channels * run)
        for (npy_intp k = 0; k < each; k++)
            for (npy_intp g = 0; g < groups; g++, out += run) memcpy(out, from + (g * each + k) * run, run);
    return recorded(c, c.args, 2, tensor_around(array, type));
}

// ---- padding

enum Edge { CONSTANT, REFLECT, REPLICATE, CIRCULAR };

int edge_of_name(PyObject* name) {
    const char* known[] = {"constant", "reflect", "replicate", "circular"};
    if (!PyUnicode_Check(name)) return -1;
    for (int k = 0; k < 4; k++)
        if (PyUnicode_CompareWithASCIIString(name, known[k]) == 0) return k;
    return -1;
}

// Where each place of a padded array lies: per dim its places in x, -1 where there is a constant.
struct Padding {
    int dims = 0, kept = 0; // dims up to the last one that is padded
    npy_intp small[MAX_DIMS], large[MAX_DIMS], before[MAX_DIMS], row[MAX_DIMS], wide[MAX_DIMS];
    std::vector<npy_intp> from[MAX_DIMS];

    bool set(int edge, int d, npy_intp n, npy_intp low, npy_intp high) {
        if (low < 0 || high < 0 || low > LARGE || high > LARGE) return false;
        if ((low || high) && edge != CONSTANT) {
            npy_intp most = edge == REFLECT ? n - 1 : edge == CIRCULAR ? n : LARGE;
            if (n < 1 || low > most || high > most) return false;
        }
        small[d] = n, large[d] = n + low + high, before[d] = low;
        if (low || high) kept = d + 1;
        from[d].resize(large[d]);
        for (npy_intp k = 0; k < large[d]; k++) {
            npy_intp at = k - low;
            if (at < 0 || at >= n)
                at = edge == CONSTANT ? -1 : edge == REPLICATE ? (at < 0 ? 0 : n - 1)
                    : edge == REFLECT ? (at < 0 ? -at : 2 * n - 2 - at) : (at < 0 ? at + n : at - n);
            from[d][k] = at;
        }
        return true;
    }
    void finish(int count) {
        dims = count;
        npy_intp a = 1, b = 1;
        for (int d = dims - 1; d >= 0; d--) row[d] = a, wide[d] = b, a *= small[d], b *= large[d];
    }
    // out = x, padded
    template <class E> void fill(int d, const E* x, E* out, E constant) const {
        if (d == kept) return (void)memcpy(out, x, row[d - 1] * sizeof(E));
        const npy_intp* at = from[d].data();
        if (wide[d] == 1) {
            for (npy_intp k = 0; k < before[d]; k++) out[k] = at[k] < 0 ? constant : x[at[k]];
            memcpy(out + before[d], x, small[d] * sizeof(E));
            for (npy_intp k = before[d] + small[d]; k < large[d]; k++) out[k] = at[k] < 0 ? constant : x[at[k]];
            return;
        }
        for (npy_intp k = 0; k < large[d]; k++, out += wide[d]) {
            if (at[k] >= 0) fill(d + 1, x + at[k] * row[d], out, constant);
            else
                for (npy_intp j = 0; j < wide[d]; j++) out[j] = constant;
        }
    }
    // x += g, folded back
    template <class E> void add(int d, E* x, const E* g) const {
        if (d == dims) return (void)(*x += *g);
        const npy_intp* at = from[d].data();
        if (d == dims - 1) {
            for (npy_intp k = 0; k < before[d]; k++) x[at[k]] += g[k];
            const E* middle = g + before[d];
            for (npy_intp k = 0; k < small[d]; k++) x[k] += middle[k];
            for (npy_intp k = before[d] + small[d]; k < large[d]; k++) x[at[k]] += g[k];
            return;
        }
        for (npy_intp k = 0; k < large[d]; k++, g += wide[d]) add(d + 1, x + at[k] * row[d], g);
    }
};

// `constant`: the bytes of what is put around, null for zeros
PyObject* padded(PyArrayObject* x, int type, const Padding& p, const char* constant = nullptr) {
    if (!p.kept || !PyArray_SIZE(x) || p.wide[0] * p.large[0] > LARGE) return nullptr;
    Ref array(fresh_array(type, p.dims, p.large, nullptr));
    if (!array || !by_size(world.types[type].itemsize, [&](auto e) {
            typedef decltype(e) E;
            E around(0);
            if (constant) memcpy(&around, constant, sizeof around);
            p.fill<E>(0, (const E*)PyArray_DATA(x), (E*)data_of(array.get()), around);
        }))
        return nullptr;
    return array.release();
}

PyObject* pad(const Call& c) {
    static const Names<4> names("input", "pad", "mode", "value");
    PyObject* a[4];
    if (!parse(c, names, a) || !a[0] || !a[1] || !(PyTuple_Check(a[1]) || PyList_CheckExact(a[1]))) return nullptr;
    PyArrayObject* x = dense_array(a[0]);
    int dims = x ? PyArray_NDIM(x) : 0, type = x ? type_of(a[0]) : -1, edge = a[2] ? edge_of_name(a[2]) : CONSTANT;
    Py_ssize_t count = PySequence_Fast_GET_SIZE(a[1]);
    if (type < 0 || edge < 0 || !count || count % 2 || count / 2 > dims || !untracked(c, a[0])) return nullptr;
    char around[16] = {};
    if (!absent(a[3]) && (edge != CONSTANT || !small_element(around, type, a[3]))) return nullptr;
    if (edge != CONSTANT && (count > 6 || (dims != count / 2 + 1 && dims != count / 2 + 2))) return nullptr;
    Padding p;
    for (int d = 0; d < dims; d++) {
        npy_intp low = 0, high = 0;
        Py_ssize_t at = 2 * (dims - 1 - d);
        if (at < count && (!small_int(PySequence_Fast_GET_ITEM(a[1], at), low) || !small_int(PySequence_Fast_GET_ITEM(a[1], at + 1), high)))
            return nullptr;
        if (!p.set(edge, d, PyArray_DIM(x, d), low, high)) return nullptr;
    }
    p.finish(dims);
    PyObject* array = padded(x, type, p, around);
    return array ? tensor_around(array, type) : nullptr;
}

// ---- kernels of records: arrays and numbers in, an array out

bool read_padding(PyObject* pairs, PyObject* mode, int dims, const npy_intp* sizes, Padding& p) {
    int edge = edge_of_name(mode);
    if (edge <= CONSTANT || !PyTuple_Check(pairs) || PyTuple_GET_SIZE(pairs) != dims) return false;
    for (int d = 0; d < dims; d++) {
        npy_intp pair[2];
        if (!numbers_of(PyTuple_GET_ITEM(pairs, d), pair) || !p.set(edge, d, sizes[d], pair[0], pair[1])) return false;
    }
    p.finish(dims);
    return true;
}

// pad_edges(x, padding, mode)
PyObject* py_pad_edges(PyObject*, PyObject* const* args, Py_ssize_t n) {
    PyArrayObject* x = n == 3 ? row_major(args[0]) : nullptr;
    int type = x ? element_type(x) : -1;
    Padding p;
    if (type < 0 || !read_padding(args[1], args[2], PyArray_NDIM(x), PyArray_DIMS(x), p)) return declined();
    PyObject* out = padded(x, type, p);
    return out || PyErr_Occurred() ? out : declined();
}

// pad_edges_backward(sizes, slope, padding, mode)
PyObject* py_pad_edges_backward(PyObject*, PyObject* const* args, Py_ssize_t n) {
    PyArrayObject* g = n == 4 ? row_major(args[1]) : nullptr;
    int type = g ? element_type(g) : -1, dims = g ? PyArray_NDIM(g) : 0;
    npy_intp sizes[MAX_DIMS];
    Padding p;
    if ((type != FLOAT32 && type != FLOAT64) || !PyTuple_Check(args[0]) || PyTuple_GET_SIZE(args[0]) != dims || !dims
        || PyArray_SIZE(g) > LARGE)
        return declined();
    for (int d = 0; d < dims; d++)
        if (!small_int(PyTuple_GET_ITEM(args[0], d), sizes[d])) return declined();
    if (!read_padding(args[2], args[3], dims, sizes, p)) return declined();
    for (int d = 0; d < dims; d++)
        if (p.large[d] != PyArray_DIM(g, d)) return declined();
    PyObject* out = fresh_array(type, dims, sizes, nullptr);
    if (!out) return nullptr;
    memset(data_of(out), 0, PyArray_NBYTES((PyArrayObject*)out));
    if (type == FLOAT32) p.add<float>(0, (float*)data_of(out), (const float*)PyArray_DATA(g));
    else p.add<double>(0, (double*)data_of(out), (const double*)PyArray_DATA(g));
    return out;
}

// Windows of images as columns.
struct Columns {
    npy_intp kernel[2], stride[2], padding[2], dilation[2], sizes[2], counts[2];
    bool read(PyObject* const* args) { // kernel, stride, padding, dilation; `sizes` are there
        if (!numbers_of(args[0], kernel) || !numbers_of(args[1], stride) || !numbers_of(args[2], padding) || !numbers_of(args[3], dilation))
            return false;
        for (int d = 0; d < 2; d++) {
            if (kernel[d] < 1 || stride[d] < 1 || dilation[d] < 1 || padding[d] < 0) return false;
            npy_intp room = sizes[d] + 2 * padding[d] - dilation[d] * (kernel[d] - 1) - 1;
            if (room < 0) return false;
            counts[d] = room / stride[d] + 1;
        }
        return true;
    }
    npy_intp windows() const { return counts[0] * counts[1]; }
    npy_intp area() const { return kernel[0] * kernel[1]; }
    // body(row of a plane, row of a column, first window, windows, first pixel): what a tap has along each row of windows
    template <class Body> void each_run(Body body) const {
        for (npy_intp tap = 0; tap < area(); tap++) {
            npy_intp up = tap / kernel[1] * dilation[0] - padding[0], left = tap % kernel[1] * dilation[1] - padding[1];
            npy_intp low = left < 0 ? (-left + stride[1] - 1) / stride[1] : 0, high = sizes[1] - 1 - left;
            high = high < 0 ? 0 : high / stride[1] + 1;
            high = high > counts[1] ? counts[1] : high, low = low > high ? high : low;
            for (npy_intp r = 0; r < counts[0]; r++) {
                npy_intp y = r * stride[0] + up;
                bool inside = y >= 0 && y < sizes[0];
                body(inside ? y : -1, tap * windows() + r * counts[1], low, high, low * stride[1] + left);
            }
        }
    }
};

template <class E> void unfold_plane(const Columns& w, const E* x, E* out) {
    w.each_run([&](npy_intp y, npy_intp at, npy_intp low, npy_intp high, npy_intp first) {
        E* to = out + at;
        if (y < 0 || low == high) return (void)memset(to, 0, w.counts[1] * sizeof(E));
        const E* from = x + y * w.sizes[1] + first;
        for (npy_intp k = 0; k < low; k++) to[k] = 0;
        if (w.stride[1] == 1) memcpy(to + low, from, (high - low) * sizeof(E));
        else
            for (npy_intp k = low; k < high; k++) to[k] = from[(k - low) * w.stride[1]];
        for (npy_intp k = high; k < w.counts[1]; k++) to[k] = 0;
    });
}

// unfold_windows(x, kernel, stride, padding, dilation)
PyObject* py_unfold_windows(PyObject*, PyObject* const* args, Py_ssize_t n) {
    PyArrayObject* x = n == 5 ? row_major(args[0]) : nullptr;
    int type = x ? element_type(x) : -1;
    Columns w;
    if (type < 0 || PyArray_NDIM(x) != 4 || !PyArray_SIZE(x) || PyArray_NBYTES(x) > LARGE) return declined();
    w.sizes[0] = PyArray_DIM(x, 2), w.sizes[1] = PyArray_DIM(x, 3);
    if (!w.read(args + 1)) return declined();
    npy_intp sizes[] = {PyArray_DIM(x, 0), PyArray_DIM(x, 1) * w.area(), w.windows()};
    Ref out(fresh_array(type, 3, sizes, nullptr));
    if (!out) return nullptr;
    bool known = by_size(world.types[type].itemsize, [&](auto e) {
        typedef decltype(e) E;
        const E* from = (const E*)PyArray_DATA(x);
        E* to = (E*)data_of(out.get());
        for (npy_intp k = 0; k < PyArray_DIM(x, 0) * PyArray_DIM(x, 1); k++)
            unfold_plane(w, from + k * w.sizes[0] * w.sizes[1], to + k * w.area() * w.windows());
    });
    return known ? out.release() : declined();
}

// fold_windows(x, sizes, kernel, stride, padding, dilation)
PyObject* py_fold_windows(PyObject*, PyObject* const* args, Py_ssize_t n) {
    PyArrayObject* x = n == 6 ? row_major(args[0]) : nullptr;
    int type = x ? element_type(x) : -1;
    Columns w;
    if ((type != FLOAT32 && type != FLOAT64) || PyArray_NDIM(x) != 3 || !PyArray_SIZE(x) || PyArray_NBYTES(x) > LARGE
        || !numbers_of(args[1], w.sizes) || w.sizes[0] < 1 || w.sizes[1] < 1 || !w.read(args + 2) || PyArray_DIM(x, 1) % w.area()
        || PyArray_DIM(x, 2) != w.windows())
        return declined();
    npy_intp planes = PyArray_DIM(x, 1) / w.area(), sizes[] = {PyArray_DIM(x, 0), planes, w.sizes[0], w.sizes[1]};
    PyObject* out = fresh_array(type, 4, sizes, nullptr);
    if (!out) return nullptr;
    static const int number = small_job("fold_windows");
    Job job = {};
    job.rt = world.api->runtime;
    job.p[0] = data_of(out), job.p[1] = PyArray_DATA(x);
    for (int d = 0; d < 2; d++)
        job.n[d] = w.sizes[d], job.n[2 + d] = w.counts[d], job.n[4 + d] = w.kernel[d], job.n[6 + d] = w.stride[d], job.n[8 + d] = w.padding[d],
        job.n[10 + d] = w.dilation[d];
    world.api->jobs()[number].run[type == FLOAT64](job, 0, sizes[0] * planes);
    return out;
}

// unfold_backward(sizes, x, dim, size, step): windows along a dim, their elements last, added back onto zeros; the elements of
// a place in the order in which they stand in their windows
PyObject* py_unfold_backward(PyObject*, PyObject* const* args, Py_ssize_t n) {
    PyArrayObject* x = n == 5 ? row_major(args[1]) : nullptr;
    int type = x ? element_type(x) : -1, dims = x ? PyArray_NDIM(x) - 1 : 0;
    npy_intp sizes[MAX_DIMS], d, width, step, lead = 1, tail = 1;
    if ((type != FLOAT32 && type != FLOAT64) || dims < 1 || !PyArray_SIZE(x) || !numbers_of(args[0], dims, sizes) || !small_int(args[2], d)
        || !small_int(args[3], width) || !small_int(args[4], step) || d < 0 || d >= dims || step < 1 || PyArray_DIM(x, dims) != width)
        return declined();
    npy_intp count = PyArray_DIM(x, (int)d);
    for (int k = 0; k < dims; k++) {
        if (sizes[k] < 1 || (k != d && sizes[k] != PyArray_DIM(x, k))) return declined();
        if (k != d) (k < d ? lead : tail) *= sizes[k];
    }
    if ((count - 1) * step + width > sizes[d] || lead * sizes[d] * tail > alone(LARGE) / 8) return declined();
    PyObject* out = fresh_array(type, dims, sizes, nullptr);
    if (!out) return nullptr;
    memset(data_of(out), 0, PyArray_NBYTES((PyArrayObject*)out));
    auto run = [&](auto e) {
        typedef decltype(e) E;
        const E* from = (const E*)PyArray_DATA(x);
        E* to = (E*)data_of(out);
        for (npy_intp o = 0; o < lead; o++, from += count * tail * width, to += sizes[d] * tail)
            for (npy_intp w = count - 1; w >= 0; w--)
                for (npy_intp t = 0; t < tail; t++) {
                    const E* window = from + (w * tail + t) * width;
                    E* place = to + w * step * tail + t;
                    if (tail == 1)
                        for (npy_intp j = 0; j < width; j++) place[j] += window[j];
                    else
                        for (npy_intp j = 0; j < width; j++) place[j * tail] += window[j];
                }
    };
    Py_BEGIN_ALLOW_THREADS
    type == FLOAT32 ? run(float{}) : run(double{});
    Py_END_ALLOW_THREADS
    return out;
}

// ---- what data are looked at for

template <class T, class Number> bool within_run(const T* x, npy_intp n, Number low, Number high, bool but, Number other) {
    for (npy_intp k = 0; k < n; k++) {
        auto v = widen(x[k]);
        if (!((v >= low && v <= high) || (but && v == other))) return false;
    }
    return true;
}
FB_EACH_MACHINE bool floats_within(const float* x, npy_intp n, float low, float high) {
    uint32_t wrong = 0;
    for (npy_intp k = 0; k < n; k++) wrong |= (uint32_t)!((x[k] >= low) & (x[k] <= high));
    return !wrong;
}
FB_EACH_MACHINE bool longs_within(const int64_t* x, npy_intp n, int64_t low, int64_t high) {
    uint64_t wrong = 0;
    for (npy_intp k = 0; k < n; k++) wrong |= (uint64_t)((x[k] < low) | (x[k] > high));
    return !wrong;
}

// within(x, low, high, but): whether a real tensor outside of all modes has elements in [low, high] (None: no such end), or equal
// to `but`, alone. False also of what this does not look at.
PyObject* py_within(PyObject*, PyObject* const* args, Py_ssize_t n) {
    Thread thread;
    npy_intp low = -(1l << 53), high = 1l << 53, but = 0; // whole numbers that every type here compares exactly
    if (n != 4 || !read_state(thread)) return nullptr;
    bool other = args[3] != Py_None;
    PyArrayObject* x = thread.quick ? dense_array(args[0]) : nullptr;
    if (!x || (args[1] != Py_None && !small_int(args[1], low)) || (args[2] != Py_None && !small_int(args[2], high))
        || (other && !small_int(args[3], but)))
        Py_RETURN_FALSE;
    for (npy_intp v : {low, high, but})
        if (v > 1l << 53 || v < -(1l << 53)) Py_RETURN_FALSE;
    bool good = false;
    npy_intp count = PyArray_SIZE(x);
    const void* p = PyArray_DATA(x);
    double least = args[1] == Py_None ? -__builtin_inf() : (double)low, most = args[2] == Py_None ? __builtin_inf() : (double)high;
    bool exact = low > -(1 << 24) && high < 1 << 24;
    switch (type_of(args[0])) {
    case FLOAT32:
        if (other || (!exact && least > -1e30 && most < 1e30)) Py_RETURN_FALSE;
        good = floats_within((const float*)p, count, (float)least, (float)most);
        break;
    case FLOAT64: good = within_run((const double*)p, count, least, most, other, (double)but); break;
    case FLOAT16: good = within_run((const Half*)p, count, (float)least, (float)most, other, (float)but); break;
    case BFLOAT16: good = within_run((const BFloat*)p, count, (float)least, (float)most, other, (float)but); break;
    case INT64:
        if (args[1] == Py_None) low = INT64_MIN;
        if (args[2] == Py_None) high = INT64_MAX;
        good = other ? within_run((const int64_t*)p, count, low, high, other, but) : longs_within((const int64_t*)p, count, low, high);
        break;
    case INT32: good = within_run((const int32_t*)p, count, low, high, other, but); break;
    case UINT8: case BOOL: good = within_run((const uint8_t*)p, count, low, high, other, but); break;
    }
    return PyBool_FromLong(good);
}

PyMethodDef functions[] = {
    {"pad_edges", (PyCFunction)(void*)py_pad_edges, METH_FASTCALL, "pad_edges(x, padding, mode): an array, or NotImplemented"},
    {"pad_edges_backward", (PyCFunction)(void*)py_pad_edges_backward, METH_FASTCALL, "pad_edges_backward(sizes, slope, padding, mode)"},
    {"unfold_windows", (PyCFunction)(void*)py_unfold_windows, METH_FASTCALL, "unfold_windows(x, kernel, stride, padding, dilation)"},
    {"unfold_backward", (PyCFunction)(void*)py_unfold_backward, METH_FASTCALL, "unfold_backward(sizes, x, dim, size, step)"},
    {"fold_windows", (PyCFunction)(void*)py_fold_windows, METH_FASTCALL, "fold_windows(x, sizes, kernel, stride, padding, dilation)"},
    {"within", (PyCFunction)(void*)py_within, METH_FASTCALL, "within(x, low, high, but): whether a look shows all elements in range"},
    {nullptr, nullptr, 0, nullptr}};

}

const SmallEntry small_layouts[] = {{"one_hot", one_hot}, {"tril", triangle<true>}, {"triu", triangle<false>}, {"flip", flip}, {"rot90", rot90},
    {"diag_embed", diag_embed}, {"diag", diag}, {"pixel_shuffle", pixel_shuffle<true>}, {"pixel_unshuffle", pixel_shuffle<false>},
    {"channel_shuffle", channel_shuffle}, {"pad", pad}, {nullptr, nullptr}};

bool add_layouts(PyObject* module) { return PyModule_AddFunctions(module, functions) == 0; }
