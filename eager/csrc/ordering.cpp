// sort, topk and unique of few elements of dense tensors, by the runtime's kernels on rows; what is recorded goes to Python.
#include "small_tensor.h"

#include <string.h>

#include <algorithm>
#include <vector>

#include "../../runtime/csrc/job.h"

namespace {

constexpr npy_intp FEW = 4096;

// The rows along a dim beside each other, and results put back.
struct Rows {
    PyArrayObject* x;
    int type, dim;
    npy_intp n, inner;
    std::vector<char> turned; // where the dim is not the last one
    const void* data;
    bool read(const Call& c, PyObject* t, PyObject* d) {
        x = dense_array(t);
        if (!x || (c.grad && needs_grad(t)) || !PyArray_NDIM(x) || !PyArray_SIZE(x) || PyArray_SIZE(x) > FEW) return false;
        type = type_of(t), dim = PyArray_NDIM(x) - 1;
        if (d && !small_dim(d, PyArray_NDIM(x), dim)) return false;
        n = PyArray_DIM(x, dim), inner = 1;
        for (int k = dim + 1; k < PyArray_NDIM(x); k++) inner *= PyArray_DIM(x, k);
        data = PyArray_DATA(x);
        if (inner == 1) return true;
        turned.resize(PyArray_NBYTES(x));
        moved(turned.data(), (const char*)data, world.types[type].itemsize, n, true);
        data = turned.data();
        return true;
    }
    npy_intp rows() const { return PyArray_SIZE(x) / n; }
    // [outer, kept, inner] to rows, or back
    void moved(char* to, const char* from, int item, npy_intp kept, bool to_rows) const {
        for (npy_intp o = 0; o < rows() / inner; o++)
            for (npy_intp k = 0; k < kept; k++)
                for (npy_intp i = 0; i < inner; i++) {
                    npy_intp here = (o * kept + k) * inner + i, there = (o * inner + i) * kept + k;
                    memcpy(to + (to_rows ? there : here) * item, from + (to_rows ? here : there) * item, item);
                }
    }
    PyObject* result(int kind, npy_intp kept) const {
        npy_intp sizes[MAX_DIMS];
        memcpy(sizes, PyArray_DIMS(x), PyArray_NDIM(x) * sizeof(npy_intp));
        sizes[dim] = kept;
        return fresh_array(kind, PyArray_NDIM(x), sizes, nullptr);
    }
    // Runs a kernel whose pointers are values, x and places; the pair of results.
    PyObject* run(int job_number, int slot_number, npy_intp kept, std::initializer_list<long> numbers, PyObject* pair) const {
        Ref values(result(type, kept)), places(result(INT64, kept));
        if (!values || !places) return nullptr;
        std::vector<char> v(inner > 1 ? PyArray_NBYTES((PyArrayObject*)values.get()) : 0), p(inner > 1 ? PyArray_NBYTES((PyArrayObject*)places.get()) : 0);
        Job job = {};
        job.rt = world.api->runtime;
        job.p[0] = inner > 1 ? v.data() : data_of(values.get()), job.p[1] = (void*)data, job.p[2] = inner > 1 ? p.data() : data_of(places.get());
        std::copy(numbers.begin(), numbers.end(), job.n);
        FbJob kernel = world.api->jobs()[job_number].run[slot_number];
        if (!kernel) return nullptr;
        kernel(job, 0, rows());
        if (inner > 1) {
            moved((char*)data_of(values.get()), v.data(), world.types[type].itemsize, kept, false);
            moved((char*)data_of(places.get()), p.data(), 8, kept, false);
        }
        if (!pair) return tensor_around(places.release(), INT64);
        PyObject* found = ((PyTypeObject*)pair)->tp_alloc((PyTypeObject*)pair, 2);
        Ref a(tensor_around(values.release(), type)), b(tensor_around(places.release(), INT64));
        if (!found || !a || !b) return nullptr;
        PyTuple_SET_ITEM(found, 0, a.release());
        PyTuple_SET_ITEM(found, 1, b.release());
        return found;
    }
    int floating() const { return type == FLOAT64 ? -1 : kernel_type(type); }
};

// `pair` null: of both, the positions alone
PyObject* sorted_rows(const Call& c, PyObject* pair) {
    static const Names<4> names("input", "dim", "descending", "stable");
    static const int number = small_job("sort_rows"), wide = small_job("sort_wide_rows");
    PyObject* a[4];
    bool descending, stable;
    Rows r;
    if (!parse(c, names, a) || !a[0] || !flag_of(a[2], descending) || !flag_of(a[3], stable) || !r.read(c, a[0], a[1])) return nullptr;
    if (r.type == INT64) return PyArray_SIZE(r.x) < 32 ? nullptr : r.run(wide, 1, r.n, {(long)r.n, descending, 1}, pair);
    return r.floating() < 0 ? nullptr : r.run(number, r.floating(), r.n, {(long)r.n, descending}, pair);
}
PyObject* sort(const Call& c) { return sorted_rows(c, c.self->pair); }
PyObject* argsort(const Call& c) { return sorted_rows(c, nullptr); }

PyObject* topk(const Call& c) {
    static const Names<5> names("input", "k", "dim", "largest", "sorted");
    static const int number = small_job("topk_rows"), wide = small_job("topk_wide_rows");
    PyObject* a[5];
    npy_intp k;
    bool largest, sorted;
    Rows r;
    if (!parse(c, names, a) || !a[0] || !a[1] || !small_int(a[1], k) || !flag_of(a[3], largest) || !flag_of(a[4], sorted) || !r.read(c, a[0], a[2])
        || k < 1 || k > r.n || k > 256 || PyArray_SIZE(r.x) < 48)
        return nullptr;
    largest = largest || !a[3];
    if (r.type == INT64) return r.run(wide, 1, k, {(long)r.n, (long)k, largest, 1}, c.self->pair);
    return r.floating() < 0 ? nullptr : r.run(number, r.floating(), k, {(long)r.n, (long)k, largest}, c.self->pair);
}

// The different ones of whole numbers in ascending order; where each went; how many there are.
PyObject* unique(const Call& c) {
    static const Names<4> names("input", "sorted", "return_inverse", "return_counts");
    PyObject* a[4];
    bool sorted, inverse, counts;
    if (!parse(c, names, a) || !a[0] || !flag_of(a[1], sorted) || !flag_of(a[2], inverse) || !flag_of(a[3], counts)) return nullptr;
    PyArrayObject* x = dense_array(a[0]);
    npy_intp n = x ? PyArray_SIZE(x) : 0, found = 0;
    if (!n || n > FEW || type_of(a[0]) != INT64) return nullptr;
    const int64_t* from = (const int64_t*)PyArray_DATA(x);
    std::vector<std::pair<int64_t, int>> order(n);
    for (npy_intp k = 0; k < n; k++) order[k] = {from[k], (int)k};
    std::sort(order.begin(), order.end());
    for (npy_intp k = 0; k < n; k++) found += !k || order[k].first != order[k - 1].first;
    Ref values(fresh_array(INT64, 1, &found, nullptr)), places(inverse ? fresh_array(INT64, PyArray_NDIM(x), PyArray_DIMS(x), nullptr) : nullptr),
        totals(counts ? fresh_array(INT64, 1, &found, nullptr) : nullptr);
    if (!values || (inverse && !places) || (counts && !totals)) return nullptr;
    int64_t *v = (int64_t*)data_of(values.get()), *p = inverse ? (int64_t*)data_of(places.get()) : nullptr,
            *t = counts ? (int64_t*)data_of(totals.get()) : nullptr;
    npy_intp at = -1;
    for (npy_intp k = 0; k < n; k++) {
        if (!k || order[k].first != order[k - 1].first) {
            v[++at] = order[k].first;
            if (t) t[at] = 0;
        }
        if (p) p[order[k].second] = at;
        if (t) t[at]++;
    }
    Ref first(tensor_around(values.release(), INT64));
    if (!first || (!inverse && !counts)) return first.release();
    Ref list(PyTuple_New(1 + inverse + counts));
    if (!list) return nullptr;
    PyTuple_SET_ITEM(list.get(), 0, first.release());
    int used = 1;
    for (Ref* each : {&places, &totals}) {
        if (!*each) continue;
        PyObject* more = tensor_around(each->release(), INT64);
        if (!more) return nullptr;
        PyTuple_SET_ITEM(list.get(), used++, more);
    }
    return list.release();
}

}

const SmallEntry small_ordering[] = {{"sort", sort}, {"argsort", argsort}, {"topk", topk}, {"unique", unique}, {nullptr, nullptr}};
