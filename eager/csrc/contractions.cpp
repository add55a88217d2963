// einsum and tensordot of two dense operands as one product of matrices, recorded as the record `contract`; and the gradients
// of it, of vector products and of products of Kronecker. Few elements, or many small products.
#include "gradients.h"

#include <algorithm>

#include "dense.h"

namespace {

constexpr npy_intp FEW = 1 << 16, MANY = 1 << 22; // multiplications: of one product, and of many small ones
constexpr npy_intp SMALL = 64; // rows, columns and summed elements of a small product

// Letters of an operand and where its dims lie in memory.
struct Term {
    Py_UCS1 letters[MAX_DIMS];
    int count = 0;
    npy_intp sizes[MAX_DIMS];
    int at(Py_UCS1 c) const {
        int k = 0;
        while (k < count && letters[k] != c) k++;
        return k < count ? k : -1;
    }
    npy_intp size(Py_UCS1 c) const { return sizes[at(c)]; }
    npy_intp stride(Py_UCS1 c) const { // in elements, of row-major memory
        npy_intp step = 1;
        for (int k = at(c) + 1; k < count; k++) step *= sizes[k];
        return step;
    }
    bool add(Py_UCS1 c) {
        if (count >= 8 || at(c) >= 0) return false; // (a letter twice is a diagonal)
        letters[count++] = c;
        return true;
    }
    bool read(PyObject* text) {
        if (!PyUnicode_Check(text) || !PyUnicode_IS_COMPACT_ASCII(text)) return false;
        const Py_UCS1* c = PyUnicode_1BYTE_DATA(text);
        for (Py_ssize_t k = 0, n = PyUnicode_GET_LENGTH(text); k < n; k++)
            if (!add(c[k])) return false;
        return true;
    }
    bool measure(PyArrayObject* a) {
        if (PyArray_NDIM(a) != count) return false;
        for (int k = 0; k < count; k++) sizes[k] = PyArray_DIM(a, k);
        return true;
    }
    PyObject* text() const { return PyUnicode_FromStringAndSize((const char*)letters, count); }
};

// At most one letter for each part: batch (in all three), rows, columns, summed. 0: none.
struct Parts {
    Py_UCS1 batch = 0, row = 0, column = 0, summed = 0;
    bool read(const Term& left, const Term& right, Term& out) {
        auto put = [](Py_UCS1& place, Py_UCS1 c) { return !place && (place = c); };
        for (int k = 0; k < left.count; k++) {
            Py_UCS1 c = left.letters[k];
            bool other = right.at(c) >= 0, kept = out.at(c) >= 0;
            if (other && left.size(c) != right.size(c)) return false;
            if (!(other ? put(kept ? batch : summed, c) : kept && put(row, c))) return false;
        }
        for (int k = 0; k < right.count; k++)
            if (left.at(right.letters[k]) < 0 && !(out.at(right.letters[k]) >= 0 && put(column, right.letters[k]))) return false;
        if (out.count != (batch != 0) + (row != 0) + (column != 0)) return false;
        for (int k = 0; k < out.count; k++) {
            Py_UCS1 c = out.letters[k];
            out.sizes[k] = left.at(c) >= 0 ? left.size(c) : right.size(c);
        }
        return true;
    }
    // as the Python path lays its results out
    bool in_order(const Term& out) const {
        int k = 0;
        return (!batch || out.letters[k++] == batch) && (!row || out.letters[k++] == row) && (!column || out.letters[k] == column);
    }
};

template <class T> void outer(const T* x, const T* y, T* out, npy_intp batch, npy_intp m, npy_intp n, const npy_intp (&step)[8]) {
    for (npy_intp b = 0; b < batch; b++)
        for (npy_intp i = 0; i < m; i++)
            if (step[4] == 1 && step[5] == 1)
                times_row(x[b * step[0] + i * step[1]], y + b * step[3], out + b * step[6] + i * step[2], n);
            else for (npy_intp j = 0; j < n; j++)
                out[b * step[6] + i * step[2] + j * step[5]] = x[b * step[0] + i * step[1]] * y[b * step[3] + j * step[4]];
}

// The product with the dims of `out`, in memory in the order of `memory` (the letters of `out`); null without an error where it
// is not one of few numbers.
PyObject* product(int type, const void* x, const void* y, const Term& left, const Term& right, Term& out, const Term* memory = nullptr) {
    Parts p;
    if ((type != FLOAT32 && type != FLOAT64) || !p.read(left, right, out)) return nullptr;
    auto size = [](const Term& t, Py_UCS1 c) { return c ? t.size(c) : 1; };
    auto stride = [](const Term& t, Py_UCS1 c) { return c && t.at(c) >= 0 ? t.stride(c) : 0; };
    npy_intp batch = size(left, p.batch), m = size(left, p.row), n = size(right, p.column), k = size(left, p.summed);
    npy_intp most = !p.summed ? alone(FEW) : m <= SMALL && n <= SMALL && k <= SMALL ? MANY : FEW;
    if (!(batch * m * n * k) || m * n > most || k > FEW || batch > most || batch * m * n * k > most) return nullptr;
    Term lies = memory ? *memory : out;
    for (int j = 0; j < lies.count; j++) lies.sizes[j] = out.size(lies.letters[j]);
    npy_intp steps[MAX_DIMS];
    for (int j = 0; j < out.count; j++) steps[j] = lies.stride(out.letters[j]);
    Ref array(fresh_array(type, out.count, out.sizes, memory ? steps : nullptr));
    if (!array) return nullptr;
    void* to = data_of(array.get());
    if (!p.summed) {
        npy_intp step[8] = {stride(left, p.batch), stride(left, p.row), stride(lies, p.row), stride(right, p.batch), stride(right, p.column),
            stride(lies, p.column), stride(lies, p.batch)};
        type == FLOAT32 ? outer((const float*)x, (const float*)y, (float*)to, batch, m, n, step)
                        : outer((const double*)x, (const double*)y, (double*)to, batch, m, n, step);
        return array.release();
    }
    FbGemm g = {};
    g.a = x, g.b = y, g.out = to;
    g.a_type = g.b_type = g.out_type = type == FLOAT64 ? FB_DOUBLE : FB_FLOAT;
    g.batch_dims = 1, g.batch[0] = batch;
    g.a_batch[0] = stride(left, p.batch), g.b_batch[0] = stride(right, p.batch), g.out_batch[0] = stride(lies, p.batch);
    g.M = m, g.N = n, g.K = k;
    g.a_m = stride(left, p.row), g.a_k = stride(left, p.summed), g.b_k = stride(right, p.summed), g.b_n = stride(right, p.column);
    g.out_m = stride(lies, p.row), g.out_n = stride(lies, p.column);
    world.api->runtime->gemm(&g);
    return array.release();
}

// ---- einsum("...,...->...", x, y) and tensordot(x, y, dims)

PyObject* contracted(const Call& c, PyObject* x, PyObject* y, Term& left, Term& right, Term& out) {
    static KeptRecord* kept = kept_record("contract");
    PyArrayObject *a = dense_array(x), *b = a ? dense_array(y) : nullptr;
    Parts p;
    if (!b || type_of(x) != type_of(y) || !left.measure(a) || !right.measure(b) || !p.read(left, right, out) || !p.in_order(out)) return nullptr;
    Ref made(tensor_around(product(type_of(x), PyArray_DATA(a), PyArray_DATA(b), left, right, out), type_of(x)));
    if (!made || !c.grad || !(needs_grad(x) || needs_grad(y))) return made.release();
    Ref l(left.text()), r(right.text()), o(out.text());
    PyObject* given[] = {x, y, l.get(), r.get(), o.get()};
    unsigned mask = needs_grad(x) | needs_grad(y) << 1;
    return l && r && o && record(kept->op, kept->needs, given, 5, mask, made.get()) ? made.release() : nullptr;
}

PyObject* einsum(const Call& c) {
    if (c.n != 3 || c.names || !PyUnicode_CheckExact(c.args[0]) || !PyUnicode_IS_COMPACT_ASCII(c.args[0])) return nullptr;
    const Py_UCS1* text = PyUnicode_1BYTE_DATA(c.args[0]);
    Py_ssize_t n = PyUnicode_GET_LENGTH(c.args[0]);
    Term terms[3];
    int at = 0;
    for (Py_ssize_t k = 0; k < n; k++) {
        Py_UCS1 ch = text[k];
        if (ch == ' ') continue;
        if (ch == ',' && at == 0) at = 1;
        else if (ch == '-' && at == 1 && k + 1 < n && text[k + 1] == '>') at = 2, k++;
        else if (!((ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z')) || !terms[at].add(ch)) return nullptr;
    }
    return at == 2 ? contracted(c, c.args[1], c.args[2], terms[0], terms[1], terms[2]) : nullptr;
}

PyObject* tensordot(const Call& c) {
    static const Names<3> names("a", "b", "dims");
    PyObject* a[3];
    npy_intp over = 2;
    if (!parse(c, names, a) || !a[0] || !a[1] || (a[2] && !small_int(a[2], over)) || over != 1) return nullptr;
    PyArrayObject *x = dense_array(a[0]), *y = x ? dense_array(a[1]) : nullptr;
    if (!y || PyArray_NDIM(x) != 2 || PyArray_NDIM(y) != 2) return nullptr;
    Term left, right, out;
    for (char ch : {'i', 'k'}) left.add(ch);
    for (char ch : {'k', 'j'}) right.add(ch);
    for (char ch : {'i', 'j'}) out.add(ch);
    return contracted(c, a[0], a[1], left, right, out);
}

// contract(x, y, left, right, out): the record's kernel
PyObject* py_contract(PyObject*, PyObject* const* args, Py_ssize_t n) {
    PyArrayObject *x = n == 5 ? row_major(args[0]) : nullptr, *y = x ? row_major(args[1], element_type(x)) : nullptr;
    Term left, right, out;
    if (!y || !left.read(args[2]) || !right.read(args[3]) || !out.read(args[4]) || !left.measure(x) || !right.measure(y)) return declined();
    Parts p;
    if (!p.read(left, right, out) || !p.in_order(out)) return declined();
    PyObject* array = product(element_type(x), PyArray_DATA(x), PyArray_DATA(y), left, right, out);
    return array || PyErr_Occurred() ? array : declined();
}

// ---- gradients

template <bool first> PyObject* contract_back(const Gradients& c) { // (x, y, left, right, out)
    Term left, right, out;
    PyObject* other = PyTuple_GET_ITEM(c.args, first ? 1 : 0);
    if (c.grads[0] == Py_None || !is_tensor(other) || !left.read(PyTuple_GET_ITEM(c.args, 2)) || !right.read(PyTuple_GET_ITEM(c.args, 3))
        || !out.read(PyTuple_GET_ITEM(c.args, 4)))
        return nullptr;
    Dense g(c.grads[0]), o(other);
    if (!g || !o || g.type != o.type || !out.measure(g.a) || !(first ? right : left).measure(o.a)) return nullptr;
    // in memory as the operand was for the product: batch, rows and summed, or batch, summed and columns
    Term &own = first ? left : right, memory;
    const Term& with = first ? right : left;
    for (int part = 0; part < 3; part++)
        for (int k = 0; k < own.count; k++) {
            bool shared = with.at(own.letters[k]) >= 0, kept = out.at(own.letters[k]) >= 0;
            int place = shared && kept ? 0 : shared == first ? 2 : 1;
            if (place == part) memory.add(own.letters[k]);
        }
    PyObject* array = first ? product(g.type, g.data(), o.data(), out, right, left, &memory)
                            : product(g.type, o.data(), g.data(), left, out, right, &memory);
    return tensor_around(array, g.type);
}

// (x, y, dim): y x g for x, g x x for y
template <bool first> PyObject* cross_back(const Gradients& c) {
    npy_intp d, inner = 1;
    PyObject* other = PyTuple_GET_ITEM(c.args, first ? 1 : 0);
    if (c.grads[0] == Py_None || !is_tensor(other) || !small_int(PyTuple_GET_ITEM(c.args, 2), d)) return nullptr;
    Dense g(c.grads[0]), o(other);
    if (!g || !o || g.type != o.type || !PyArray_SAMESHAPE(g.a, o.a) || d < 0 || d >= PyArray_NDIM(g.a) || PyArray_DIM(g.a, (int)d) != 3) return nullptr;
    for (int k = (int)d + 1; k < PyArray_NDIM(g.a); k++) inner *= PyArray_DIM(g.a, k);
    Ref array(fresh_array(g.type, PyArray_NDIM(g.a), PyArray_DIMS(g.a), nullptr));
    if (!array || !by_floating(g.type, [&](auto e) {
            typedef decltype(e) T;
            const T *p = first ? o.data<T>() : g.data<T>(), *q = first ? g.data<T>() : o.data<T>();
            T* to = (T*)data_of(array.get());
            for (npy_intp n = g.size() / (3 * inner); n > 0; n--, p += 3 * inner, q += 3 * inner, to += 3 * inner)
                for (npy_intp i = 0; i < inner; i++)
                    for (int k = 0; k < 3; k++) {
                        int u = (k + 1) % 3, v = (k + 2) % 3;
                        to[k * inner + i] = Narrow<T>::of(
                            widen(p[u * inner + i]) * widen(q[v * inner + i]) - widen(p[v * inner + i]) * widen(q[u * inner + i]));
                    }
        }))
        return nullptr;
    return tensor_around(array.release(), g.type);
}

// (x, y), both matrices: what the elements of one add up to with those of the other
template <bool first> PyObject* kron_back(const Gradients& c) {
    npy_intp xs[MAX_DIMS], ys[MAX_DIMS];
    int dims, more;
    PyObject* other = PyTuple_GET_ITEM(c.args, first ? 1 : 0);
    if (c.grads[0] == Py_None || !is_tensor(other) || !sizes_of(PyTuple_GET_ITEM(c.args, 0), xs, dims) || dims != 2
        || !sizes_of(PyTuple_GET_ITEM(c.args, 1), ys, more) || more != 2)
        return nullptr;
    Dense g(c.grads[0]), o(other);
    npy_intp m = xs[0], n = xs[1], k = ys[0], l = ys[1];
    if (!g || !o || g.type != o.type || (g.type != FLOAT32 && g.type != FLOAT64) || g.size() != m * n * k * l || !g.size()) return nullptr;
    Ref array(fresh_array(g.type, 2, first ? xs : ys, nullptr));
    if (!array) return nullptr;
    auto run = [&](auto e) {
        typedef decltype(e) T;
        const T *up = g.data<T>(), *with = o.data<T>();
        T* to = (T*)data_of(array.get());
        std::fill(to, to + (first ? m * n : k * l), (T)0);
        for (npy_intp i = 0; i < m; i++)
            for (npy_intp r = 0; r < k; r++)
                for (npy_intp j = 0; j < n; j++) {
                    const T* row = with + r * l;
                    T total = 0;
                    if (first)
                        for (npy_intp s = 0; s < l; s++) total += *up++ * row[s];
                    else
                        for (npy_intp s = 0; s < l; s++) to[r * l + s] += *up++ * with[i * n + j];
                    if (first) to[i * n + j] += total;
                }
    };
    g.type == FLOAT32 ? run(float{}) : run(double{});
    return tensor_around(array.release(), g.type);
}

PyMethodDef functions[] = {{"contract", (PyCFunction)(void*)py_contract, METH_FASTCALL,
                               "contract(x, y, left, right, out): an array, or NotImplemented"},
    {nullptr, nullptr, 0, nullptr}};

}

const SmallEntry small_contractions[] = {{"einsum", einsum}, {"tensordot", tensordot}, {nullptr, nullptr}};

const KnownGradient product_gradients[] = {{"contract", "x", contract_back<true>}, {"contract", "y", contract_back<false>},
    {"cross", "x", cross_back<true>}, {"cross", "y", cross_back<false>}, {"kron", "x", kron_back<true>}, {"kron", "y", kron_back<false>},
    {nullptr, nullptr, nullptr}};

bool add_contractions(PyObject* module) { return PyModule_AddFunctions(module, functions) == 0; }
