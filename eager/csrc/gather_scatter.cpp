// Elements and rows by index, and running sums: gather, take, index_select, scatter, scatter_add, index_add, index_copy,
// masked_select, cumsum, cumprod of dense tensors, in one call each. An index out of range, or anything else that is refused, is left
// to the Python path, which knows the words.
#include "index.h"

#include <math.h>
#include <string.h>

#include "casts.h"

namespace {

constexpr npy_intp FEW = 1 << 14; // elements up to which the kernels on threads are not worth their call
constexpr npy_intp MANY = 1l << 40;

// ---- operands

struct Along { // dim of [outer, size, inner]
    PyArrayObject* a;
    int type, dim;
    npy_intp outer, size, inner;
};

bool read_along(PyObject* x, PyObject* dim, Along& s) {
    s.a = x ? dense_array(x) : nullptr;
    if (!s.a || (s.type = type_of(x)) < 0 || !dim || !PyArray_NDIM(s.a) || !small_dim(dim, PyArray_NDIM(s.a), s.dim))
        return false;
    s.outer = s.inner = 1;
    s.size = PyArray_DIM(s.a, s.dim);
    for (int d = 0; d < PyArray_NDIM(s.a); d++)
        if (d != s.dim) (d < s.dim ? s.outer : s.inner) *= PyArray_DIM(s.a, d);
    return true;
}

PyArrayObject* index_array(PyObject* x) {
    PyArrayObject* a = x ? dense_array(x) : nullptr;
    return a && type_of(x) == INT64 ? a : nullptr;
}

bool within(const int64_t* index, npy_intp n, npy_intp size) {
    uint64_t worst = 0;
    for (npy_intp k = 0; k < n; k++) worst |= (uint64_t)((uint64_t)index[k] >= (uint64_t)size);
    return !worst;
}

bool same_but(PyArrayObject* a, PyArrayObject* b, int dim) {
    if (PyArray_NDIM(a) != PyArray_NDIM(b)) return false;
    for (int d = 0; d < PyArray_NDIM(a); d++)
        if (d != dim && PyArray_DIM(a, d) != PyArray_DIM(b, d)) return false;
    return true;
}

// Types that the threads' kernels do not add; other types have few elements here.
npy_intp limit_of(int type) { return type == FLOAT32 || type == FLOAT64 ? FEW : MANY; }

// body(an element of the type's size)
template <class Body> bool by_size(int type, Body body) {
    switch (world.types[type].itemsize) {
    case 1: return body(uint8_t{}), true;
    case 2: return body(uint16_t{}), true;
    case 4: return body(uint32_t{}), true;
    case 8: return body(uint64_t{}), true;
    default: return false;
    }
}

template <class T> T sum_of(T a, T b) { return (T)(a + b); }
Half sum_of(Half a, Half b) { return Narrow<Half>::of(widen(a) + widen(b)); }
BFloat sum_of(BFloat a, BFloat b) { return Narrow<BFloat>::of(widen(a) + widen(b)); }

// body(an element that can be added)
template <class Body> bool by_type(int type, Body body) {
    switch (type) {
    case FLOAT32: return body(float{}), true;
    case FLOAT64: return body(double{}), true;
    case INT64: return body(uint64_t{}), true;
    case INT32: return body(uint32_t{}), true;
    case INT16: return body(uint16_t{}), true;
    case INT8: case UINT8: return body(uint8_t{}), true;
    case FLOAT16: return body(Half{}), true;
    case BFLOAT16: return body(BFloat{}), true;
    default: return false;
    }
}

// The node of the record's call, if the call is recorded: `leads` has a bit for each operand that may need a gradient.
PyObject* recorded(const Call& c, PyObject* const* given, int count, unsigned leads, PyObject* out) {
    if (!out || !c.grad) return out;
    unsigned mask = 0;
    for (int k = 0; k < count; k++)
        if (leads >> k & 1 && needs_grad(given[k])) mask |= 1u << k;
    if (!mask) return out;
    Ref result(out);
    return record(c.self->head.op, c.self->needs, given, count, mask, out) ? result.release() : nullptr;
}


// ---- reading

// out[o, k, j] = x[o, index[o, k, j], j]
template <class E> void gather_into(const Along& s, const int64_t* index, npy_intp count, E* out) {
    const E* x = (const E*)PyArray_DATA(s.a);
    for (npy_intp o = 0; o < s.outer; o++, x += s.size * s.inner)
        for (npy_intp k = 0; k < count; k++)
            for (npy_intp j = 0; j < s.inner; j++) *out++ = x[*index++ * s.inner + j];
}

PyObject* gathered(const Call& c, PyObject* x, PyObject* dim, PyObject* places) {
    Along s;
    PyArrayObject* index = index_array(places);
    if (!index || !read_along(x, dim, s) || !same_but(s.a, index, s.dim)) return nullptr;
    npy_intp n = PyArray_SIZE(index);
    const int64_t* at = (const int64_t*)PyArray_DATA(index);
    if (!n || n > FEW || !within(at, n, s.size)) return nullptr;
    Ref array(fresh_array(s.type, PyArray_NDIM(index), PyArray_DIMS(index), nullptr));
    if (!array) return nullptr;
    bool known = by_size(s.type, [&](auto e) {
        gather_into(s, at, PyArray_DIM(index, s.dim), (decltype(e)*)data_of(array.get()));
    });
    Ref d(PyLong_FromLong(s.dim));
    if (!known || !d) return nullptr;
    PyObject* given[] = {x, d.get(), places};
    return recorded(c, given, 3, 1, tensor_around(array.release(), s.type));
}

PyObject* gather(const Call& c) {
    static const Names<3> names("input", "dim", "index");
    PyObject* a[3];
    return parse(c, names, a) && a[0] && a[2] ? gathered(c, a[0], a[1], a[2]) : nullptr;
}

PyObject* take_along_dim(const Call& c) {
    static const Names<3> names("input", "indices", "dim");
    PyObject* a[3];
    return parse(c, names, a) && a[0] && a[1] ? gathered(c, a[0], a[2], a[1]) : nullptr;
}

// Of the flat tensor; what is recorded goes by the views of the Python path where there is more than one dim.
PyObject* take(const Call& c) {
    static const Names<2> names("input", "index");
    PyObject* a[2];
    if (!parse(c, names, a) || !a[0] || !a[1]) return nullptr;
    PyArrayObject *x = dense_array(a[0]), *index = x ? index_array(a[1]) : nullptr;
    if (c.grad && needs_grad(a[0])) return index && PyArray_NDIM(x) == 1 ? index_by_tensors(a[0], &a[1], 1, true) : nullptr;
    int type = x ? type_of(a[0]) : -1;
    npy_intp n = index ? PyArray_SIZE(index) : 0, size = x ? PyArray_SIZE(x) : 0;
    if (type < 0 || !n || n > FEW || !within((const int64_t*)PyArray_DATA(index), n, size)) return nullptr;
    Along s = {x, type, 0, 1, size, 1};
    Ref array(fresh_array(type, PyArray_NDIM(index), PyArray_DIMS(index), nullptr));
    if (!array || !by_size(type, [&](auto e) {
            gather_into(s, (const int64_t*)PyArray_DATA(index), n, (decltype(e)*)data_of(array.get()));
        }))
        return nullptr;
    return tensor_around(array.release(), type);
}

PyObject* index_select(const Call& c) {
    static const Names<3> names("input", "dim", "index");
    PyObject* a[3];
    Along s;
    if (!parse(c, names, a) || !a[0] || !a[2] || !read_along(a[0], a[1], s)) return nullptr;
    PyArrayObject* index = index_array(a[2]);
    if (!index || PyArray_NDIM(index) != 1) return nullptr;
    npy_intp n = PyArray_SIZE(index), run = s.inner * world.types[s.type].itemsize, sizes[MAX_DIMS];
    const int64_t* at = (const int64_t*)PyArray_DATA(index);
    // one element at a time is slower for numpy than here, whatever their number; rows are, where no other thread could help
    if (!n || !s.outer || !run || (s.outer * n * s.inner > alone(FEW) && s.inner > 8) || !within(at, n, s.size)) return nullptr;
    memcpy(sizes, PyArray_DIMS(s.a), PyArray_NDIM(s.a) * sizeof(npy_intp));
    sizes[s.dim] = n;
    Ref array(fresh_array(s.type, PyArray_NDIM(s.a), sizes, nullptr)), d(PyLong_FromLong(s.dim));
    if (!array || !d) return nullptr;
    const char* x = (const char*)PyArray_DATA(s.a);
    char* out = (char*)data_of(array.get());
    auto rows = [&] {
        for (npy_intp o = 0; o < s.outer; o++, x += s.size * run)
            for (npy_intp k = 0; k < n; k++, out += run) memcpy(out, x + at[k] * run, run);
    };
    if (s.inner != 1 && n * s.outer * s.inner > FEW) {
        Py_BEGIN_ALLOW_THREADS rows();
        Py_END_ALLOW_THREADS
    } else if (s.inner != 1) rows();
    else if (!by_size(s.type, [&](auto e) {
            typedef decltype(e) E;
            const E* from = (const E*)x;
            E* to = (E*)out;
            for (npy_intp o = 0; o < s.outer; o++, from += s.size, to += n)
                for (npy_intp k = 0; k < n; k++) to[k] = from[at[k]];
        }))
        rows();
    PyObject* given[] = {a[0], d.get(), a[2]};
    return recorded(c, given, 3, 1, tensor_around(array.release(), s.type));
}

// The elements where a mask of the same sizes is on.
PyObject* masked_select(const Call& c) {
    static const Names<2> names("input", "mask");
    PyObject* a[2];
    if (!parse(c, names, a) || !a[0] || !a[1]) return nullptr;
    PyArrayObject *x = dense_array(a[0]), *mask = x ? dense_array(a[1]) : nullptr;
    if (c.grad && needs_grad(a[0]))
        return mask && type_of(a[1]) == BOOL && same_but(x, mask, -1) ? index_by_tensors(a[0], &a[1], 1, true) : nullptr;
    int type = x ? type_of(a[0]) : -1;
    if (type < 0 || !mask || type_of(a[1]) != BOOL || !same_but(x, mask, -1) || PyArray_SIZE(x) > FEW) return nullptr;
    const uint8_t* on = (const uint8_t*)PyArray_DATA(mask);
    npy_intp n = PyArray_SIZE(x), count = 0;
    for (npy_intp k = 0; k < n; k++) count += on[k] != 0;
    Ref array(fresh_array(type, 1, &count, nullptr));
    if (!array || !by_size(type, [&](auto e) {
            typedef decltype(e) E;
            const E* from = (const E*)PyArray_DATA(x);
            E* to = (E*)data_of(array.get());
            for (npy_intp k = 0; k < n; k++)
                if (on[k]) *to++ = from[k];
        }))
        return nullptr;
    return tensor_around(array.release(), type);
}

// Elements moved along dims; those that leave come in again.
struct Roll {
    int last = 0;                                             // the last dim that moves: what is behind it moves with it
    npy_intp sizes[MAX_DIMS], run[MAX_DIMS], shift[MAX_DIMS]; // run: bytes from one to the next

    void add(int d, npy_intp by) { shift[d] = ((shift[d] + by % sizes[d]) % sizes[d] + sizes[d]) % sizes[d]; }

    void go(int d, const char* x, char* out) const {
        npy_intp all = sizes[d] * run[d], moved = shift[d] * run[d];
        if (d == last) {
            memcpy(out + moved, x, all - moved);
            memcpy(out, x + all - moved, moved);
            return;
        }
        for (npy_intp at = 0; at < all; at += run[d]) go(d + 1, x + at, out + (at + moved < all ? at + moved : at + moved - all));
    }
};

// The same along one dim, along several, or along all of them as one. Without history.
PyObject* roll(const Call& c) {
    static const Names<3> names("input", "shifts", "dims");
    PyObject* a[3];
    if (!parse(c, names, a) || !a[0] || !a[1]) return nullptr;
    PyArrayObject* x = dense_array(a[0]);
    int dims = x ? PyArray_NDIM(x) : 0, type = x ? type_of(a[0]) : -1;
    npy_intp bytes = x ? PyArray_NBYTES(x) : 0;
    if (type < 0 || !bytes || bytes > 1 << 21 || (c.grad && needs_grad(a[0]))) return nullptr;
    npy_intp shift, step = world.types[type].itemsize;
    Roll r;
    if (!a[2]) {
        if (!small_int(a[1], shift)) return nullptr;
        r.sizes[0] = PyArray_SIZE(x), r.run[0] = step, r.shift[0] = 0;
        r.add(0, shift);
    } else {
        bool many = PyTuple_CheckExact(a[2]) && PyTuple_CheckExact(a[1]);
        if (!dims || (!many && !PyLong_CheckExact(a[2]))) return nullptr;
        Py_ssize_t count = many ? PyTuple_GET_SIZE(a[2]) : 1;
        if (!count || (many && PyTuple_GET_SIZE(a[1]) != count)) return nullptr;
        for (int d = dims - 1; d >= 0; d--) r.sizes[d] = PyArray_DIM(x, d), r.run[d] = step, r.shift[d] = 0, step *= r.sizes[d];
        for (Py_ssize_t k = 0; k < count; k++) {
            int d;
            if (!small_int(many ? PyTuple_GET_ITEM(a[1], k) : a[1], shift)
                || !small_dim(many ? PyTuple_GET_ITEM(a[2], k) : a[2], dims, d))
                return nullptr;
            r.add(d, shift);
        }
        for (int d = 0; d < dims; d++)
            if (r.shift[d]) r.last = d;
    }
    PyObject* array = fresh_array(type, dims, PyArray_DIMS(x), nullptr);
    if (!array) return nullptr;
    r.go(0, (const char*)PyArray_DATA(x), (char*)data_of(array));
    return tensor_around(array, type);
}

// ---- writing into a copy

Ref copy_of(PyArrayObject* a, int type) {
    Ref array(fresh_array(type, PyArray_NDIM(a), PyArray_DIMS(a), nullptr));
    if (array) memcpy(data_of(array.get()), PyArray_DATA(a), PyArray_NBYTES(a));
    return array;
}

// out[o, index[o, k, j], j] = put(out, x[o, k, j])
template <class E, class Put> void scatter_into(const Along& s, E* out, const E* x, const int64_t* index, npy_intp count, Put put) {
    for (npy_intp o = 0; o < s.outer; o++, out += s.size * s.inner)
        for (npy_intp k = 0; k < count; k++)
            for (npy_intp j = 0; j < s.inner; j++) {
                E& to = out[*index++ * s.inner + j];
                to = put(to, *x++);
            }
}

template <bool adds> PyObject* scatter(const Call& c) {
    static const Names<4> names("input", "dim", "index", "src");
    PyObject* a[4];
    Along s;
    if (!parse(c, names, a) || !a[0] || !a[2] || !a[3] || !is_tensor(a[3]) || !read_along(a[0], a[1], s)) return nullptr;
    PyArrayObject *index = index_array(a[2]), *x = index ? dense_array(a[3]) : nullptr;
    npy_intp n = index ? PyArray_SIZE(index) : 0;
    if (!x || type_of(a[3]) != s.type || !same_but(s.a, index, s.dim) || !same_but(index, x, -1) || !n
        || n > (adds ? limit_of(s.type) : FEW))
        return nullptr;
    const int64_t* at = (const int64_t*)PyArray_DATA(index);
    if (!within(at, n, s.size)) return nullptr;
    Ref out(copy_of(s.a, s.type)), d(PyLong_FromLong(s.dim));
    if (!out || !d) return nullptr;
    npy_intp count = PyArray_DIM(index, s.dim);
    auto run = [&](auto e, auto put) {
        typedef decltype(e) E;
        scatter_into<E>(s, (E*)data_of(out.get()), (const E*)PyArray_DATA(x), at, count, put);
    };
    bool known = adds ? by_type(s.type, [&](auto e) { run(e, [](auto a, auto b) { return sum_of(a, b); }); })
                      : by_size(s.type, [&](auto e) { run(e, [](auto, auto b) { return b; }); });
    if (!known) return nullptr;
    PyObject* given[] = {a[0], d.get(), a[2], a[3]};
    return recorded(c, given, 4, 9, tensor_around(out.release(), s.type));
}

// Rows of x go to, or are added to, rows of a copy.
template <bool adds> PyObject* index_write(const Call& c) {
    static const Names<4> names("input", "dim", "index", "source");
    PyObject* a[4];
    Along s;
    if (!parse(c, names, a) || !a[0] || !a[2] || !a[3] || !is_tensor(a[3]) || !read_along(a[0], a[1], s)) return nullptr;
    PyArrayObject *index = index_array(a[2]), *x = index ? dense_array(a[3]) : nullptr;
    if (!x || type_of(a[3]) != s.type || PyArray_NDIM(index) != 1 || !same_but(s.a, x, s.dim)) return nullptr;
    npy_intp n = PyArray_SIZE(index), all = PyArray_SIZE(x);
    const int64_t* at = (const int64_t*)PyArray_DATA(index);
    if (!all || PyArray_DIM(x, s.dim) != n || all > (adds ? limit_of(s.type) : FEW) || !within(at, n, s.size)) return nullptr;
    Ref out(copy_of(s.a, s.type)), d(PyLong_FromLong(s.dim));
    if (!out || !d) return nullptr;
    auto run = [&](auto e, auto put) {
        typedef decltype(e) E;
        E* to = (E*)data_of(out.get());
        const E* from = (const E*)PyArray_DATA(x);
        for (npy_intp o = 0; o < s.outer; o++, to += s.size * s.inner)
            for (npy_intp k = 0; k < n; k++, from += s.inner) {
                E* row = to + at[k] * s.inner;
                for (npy_intp j = 0; j < s.inner; j++) row[j] = put(row[j], from[j]);
            }
    };
    bool known = adds ? by_type(s.type, [&](auto e) { run(e, [](auto a, auto b) { return sum_of(a, b); }); })
                      : by_size(s.type, [&](auto e) { run(e, [](auto, auto b) { return b; }); });
    if (!known) return nullptr;
    PyObject* given[] = {a[0], d.get(), a[2], a[3]};
    return recorded(c, given, 4, 9, tensor_around(out.release(), s.type));
}

// ---- writing in place

bool apart(PyArrayObject* a, PyArrayObject* b) {
    const char *p = (const char*)PyArray_DATA(a), *q = (const char*)PyArray_DATA(b);
    return p + PyArray_NBYTES(a) <= q || q + PyArray_NBYTES(b) <= p;
}

// index_put_(self, (index,), values, accumulate): rows or elements where one index along the first dim says
PyObject* index_put_in_place(const Call& c) {
    static const Names<4> names("self", "indices", "values", "accumulate");
    PyObject* a[4];
    bool adds;
    if (!parse(c, names, a) || !a[0] || !a[1] || !a[2] || !flag_of(a[3], adds) || !(PyTuple_CheckExact(a[1]) || PyList_CheckExact(a[1]))
        || PySequence_Fast_GET_SIZE(a[1]) != 1)
        return nullptr;
    PyArrayObject *x = small_writable(a[0], c.grad), *index = x ? index_array(PySequence_Fast_GET_ITEM(a[1], 0)) : nullptr,
                  *from = index ? dense_array(a[2]) : nullptr;
    int type = from ? type_of(a[0]) : -1;
    if (!from || PyArray_NDIM(x) < 1 || PyArray_NDIM(index) != 1 || type_of(a[2]) != type || (c.grad && needs_grad(a[2]))
        || PyArray_NDIM(from) != PyArray_NDIM(x) || PyArray_DIM(from, 0) != PyArray_DIM(index, 0) || !same_but(x, from, 0)
        || !apart(x, from) || !apart(x, index))
        return nullptr;
    npy_intp n = PyArray_DIM(index, 0), rows = PyArray_DIM(x, 0), run = rows ? PyArray_SIZE(x) / rows : 0;
    const int64_t* at = (const int64_t*)PyArray_DATA(index);
    if (!n || !run || n * run > 1 << 20) return nullptr;
    for (npy_intp k = 0; k < n; k++)
        if (at[k] >= rows || at[k] < -rows) return nullptr;
    auto put = [&](auto e, auto combine) {
        typedef decltype(e) E;
        E* out = (E*)PyArray_DATA(x);
        const E* in = (const E*)PyArray_DATA(from);
        for (npy_intp k = 0; k < n; k++, in += run) {
            E* to = out + (at[k] < 0 ? at[k] + rows : at[k]) * run;
            for (npy_intp j = 0; j < run; j++) to[j] = combine(to[j], in[j]);
        }
    };
    bool known = adds ? by_type(type, [&](auto e) { put(e, [](auto p, auto q) { return sum_of(p, q); }); })
                      : by_size(type, [&](auto e) { put(e, [](auto, auto q) { return q; }); });
    return known && bump(a[0]) ? Py_NewRef(a[0]) : nullptr;
}

PyObject* masked_scatter_in_place(const Call& c) {
    static const Names<3> names("self", "mask", "source");
    PyObject* a[3];
    if (!parse(c, names, a) || !a[0] || !a[1] || !a[2]) return nullptr;
    PyArrayObject *x = small_writable(a[0], c.grad), *mask = x ? dense_array(a[1]) : nullptr, *from = mask ? dense_array(a[2]) : nullptr;
    int type = from ? type_of(a[0]) : -1;
    if (!from || type_of(a[1]) != BOOL || type_of(a[2]) != type || (c.grad && needs_grad(a[2])) || !same_but(x, mask, -1)
        || !apart(x, from) || !apart(x, mask) || PyArray_SIZE(x) > 1 << 20)
        return nullptr;
    const uint8_t* on = (const uint8_t*)PyArray_DATA(mask);
    npy_intp n = PyArray_SIZE(x), count = 0;
    for (npy_intp k = 0; k < n; k++) count += on[k] != 0;
    if (count > PyArray_SIZE(from)) return nullptr;
    bool known = by_size(type, [&](auto e) {
        typedef decltype(e) E;
        E* out = (E*)PyArray_DATA(x);
        const E* in = (const E*)PyArray_DATA(from);
        for (npy_intp k = 0; k < n; k++)
            if (on[k]) out[k] = *in++;
    });
    return known && bump(a[0]) ? Py_NewRef(a[0]) : nullptr;
}

// A copy with a number in the rows of an index; without history.
PyObject* index_fill(const Call& c) {
    static const Names<4> names("input", "dim", "index", "value");
    PyObject* a[4];
    Along s;
    npy_intp whole = 0;
    if (!parse(c, names, a) || !a[0] || !a[2] || !a[3] || !read_along(a[0], a[1], s) || (c.grad && needs_grad(a[0]))) return nullptr;
    PyArrayObject* index = index_array(a[2]);
    bool is_whole = small_int(a[3], whole) && whole < 1 << 24 && whole > -(1 << 24);
    if (!index || PyArray_NDIM(index) != 1 || (s.type != FLOAT32 && s.type != INT64) || (!is_whole && s.type == INT64)
        || (!is_whole && !(PyFloat_CheckExact(a[3]) && fabs(PyFloat_AS_DOUBLE(a[3])) < 1e38)))
        return nullptr;
    npy_intp n = PyArray_SIZE(index);
    const int64_t* at = (const int64_t*)PyArray_DATA(index);
    if (PyArray_SIZE(s.a) > FEW || !PyArray_SIZE(s.a)) return nullptr;
    for (npy_intp k = 0; k < n; k++)
        if (at[k] >= s.size || at[k] < -s.size) return nullptr;
    Ref out(copy_of(s.a, s.type));
    if (!out) return nullptr;
    auto put = [&](auto value) {
        auto* to = (decltype(value)*)data_of(out.get());
        for (npy_intp o = 0; o < s.outer; o++, to += s.size * s.inner)
            for (npy_intp k = 0; k < n; k++)
                for (npy_intp j = 0, first = (at[k] < 0 ? at[k] + s.size : at[k]) * s.inner; j < s.inner; j++) to[first + j] = value;
    };
    s.type == INT64 ? put((int64_t)whole) : put((float)(is_whole ? (double)whole : PyFloat_AS_DOUBLE(a[3])));
    return tensor_around(out.release(), s.type);
}

// ---- distances of all pairs of rows, above the diagonal row by row

// Columns of a transposed copy lie side by side, so that a row meets many rows at once.
FB_EACH_MACHINE void pair_distances(const float* columns, npy_intp rows, npy_intp width, float* out) {
    constexpr npy_intp some = 64;
    for (npy_intp i = 0; i < rows; i++)
        for (npy_intp j = i + 1; j < rows; j += some) {
            npy_intp n = rows - j < some ? rows - j : some;
            float total[some] = {};
            for (npy_intp k = 0; k < width; k++) {
                const float own = columns[k * rows + i], *other = columns + k * rows + j;
                if (n == some)
                    for (npy_intp l = 0; l < some; l++) total[l] += (own - other[l]) * (own - other[l]);
                else
                    for (npy_intp l = 0; l < n; l++) total[l] += (own - other[l]) * (own - other[l]);
            }
            for (npy_intp l = 0; l < n; l++) *out++ = __builtin_sqrtf(total[l]);
        }
}

PyObject* pdist(const Call& c) {
    static const Names<2> names("input", "p");
    PyObject* a[2];
    if (!parse(c, names, a) || !a[0] || (c.grad && is_tensor(a[0]) && needs_grad(a[0]))) return nullptr;
    PyArrayObject* x = dense_array(a[0]);
    if (!x || type_of(a[0]) != FLOAT32 || PyArray_NDIM(x) != 2
        || (a[1] && !(PyFloat_CheckExact(a[1]) && PyFloat_AS_DOUBLE(a[1]) == 2)))
        return nullptr;
    npy_intp rows = PyArray_DIM(x, 0), width = PyArray_DIM(x, 1), pairs = rows * (rows - 1) / 2;
    if (rows < 2 || !width || rows * width > 1 << 20) return nullptr;
    PyObject* array = fresh_array(FLOAT32, 1, &pairs, nullptr);
    if (array) small_pair_distances((const float*)PyArray_DATA(x), rows, width, (float*)data_of(array));
    return tensor_around(array, FLOAT32);
}

// ---- running sums and products: one after the other, in the type in which the records keep them

template <class T, class Total, bool products> void accumulate(const Along& s, void* result) {
    const T* x = (const T*)PyArray_DATA(s.a);
    typedef std::conditional_t<std::is_integral_v<T>, int64_t, T> Out;
    Out* out = (Out*)result;
    for (npy_intp o = 0; o < s.outer; o++, x += s.size * s.inner, out += s.size * s.inner)
        for (npy_intp j = 0; j < s.inner; j++) {
            Total total = products;
            for (npy_intp k = 0; k < s.size; k++) {
                Total own = (Total)widen(x[k * s.inner + j]);
                total = products ? total * own : total + own;
                out[k * s.inner + j] = Narrow<Out>::of(total);
            }
        }
}

template <bool products> PyObject* running(const Call& c) {
    static const Names<2> names("input", "dim");
    PyObject* a[2];
    Along s;
    if (!parse(c, names, a) || !a[0] || !read_along(a[0], a[1], s) || !PyArray_SIZE(s.a)) return nullptr;
    bool whole = s.type == INT64 || s.type == INT32 || s.type == UINT8;
    if (PyArray_SIZE(s.a) > (whole ? MANY : FEW) || (whole && s.inner > 1 && PyArray_SIZE(s.a) > FEW)) return nullptr;
    Ref array(fresh_array(whole ? INT64 : s.type, PyArray_NDIM(s.a), PyArray_DIMS(s.a), nullptr)), d(PyLong_FromLong(s.dim));
    if (!array || !d) return nullptr;
    void* out = data_of(array.get());
    switch (s.type) {
    case FLOAT32: accumulate<float, double, products>(s, out); break;
    case FLOAT64: accumulate<double, double, products>(s, out); break;
    case FLOAT16: accumulate<Half, float, products>(s, out); break;
    case BFLOAT16: accumulate<BFloat, float, products>(s, out); break;
    case INT64: accumulate<int64_t, uint64_t, products>(s, out); break;
    case INT32: accumulate<int32_t, uint64_t, products>(s, out); break;
    case UINT8: accumulate<uint8_t, uint64_t, products>(s, out); break;
    default: return nullptr;
    }
    PyObject* given[] = {a[0], d.get()};
    return recorded(c, given, 2, 1, tensor_around(array.release(), whole ? INT64 : s.type));
}

}

const SmallEntry small_lookups[] = {{"gather", gather}, {"take_along_dim", take_along_dim}, {"take", take},
    {"index_select", index_select}, {"masked_select", masked_select}, {"scatter", scatter<false>},
    {"scatter_add", scatter<true>}, {"index_add", index_write<true>}, {"index_copy", index_write<false>},
    {"cumsum", running<false>}, {"cumprod", running<true>}, {"index_put_", index_put_in_place},
    {"masked_scatter_", masked_scatter_in_place}, {"index_fill", index_fill}, {"pdist", pdist}, {"roll", roll}, {nullptr, nullptr}};

void small_pair_distances(const float* x, npy_intp rows, npy_intp width, float* out) {
    float* columns = new float[rows * width];
    for (npy_intp i = 0; i < rows; i++)
        for (npy_intp k = 0; k < width; k++) columns[k * rows + i] = x[i * width + k];
    Py_BEGIN_ALLOW_THREADS pair_distances(columns, rows, width, out);
    Py_END_ALLOW_THREADS
    delete[] columns;
}
