// Rows of a table looked up by integers, and bags of such rows: embedding, embedding_bag, and the kernels of their records
// (ops/embedding_bag.py). An index out of range, and what else is not taken, is left to the Python path.
#include "small_tensor.h"

#include <string.h>

#include <vector>

#include "casts.h"

namespace {

constexpr npy_intp MANY = 1 << 20;

bool within(const int64_t* at, npy_intp n, npy_intp rows) {
    for (npy_intp k = 0; k < n; k++)
        if ((uint64_t)at[k] >= (uint64_t)rows) return false;
    return true;
}

PyObject* embedding(const Call& c) {
    static const Names<7> names("input", "weight", "padding_idx", "max_norm", "norm_type", "scale_grad_by_freq", "sparse");
    PyObject* a[7];
    bool scaled, sparse;
    if (!parse(c, names, a) || !a[0] || !a[1] || !absent(a[2]) || !absent(a[3]) || !flag_of(a[5], scaled) || !flag_of(a[6], sparse) || sparse)
        return nullptr;
    PyArrayObject *index = dense_array(a[0]), *table = index ? dense_array(a[1]) : nullptr;
    int type = table ? type_of(a[1]) : -1, dims = table ? PyArray_NDIM(index) : 0;
    bool leads = table && c.grad && needs_grad(a[1]);
    if (type < 0 || type_of(a[0]) != INT64 || PyArray_NDIM(table) != 2 || dims + 2 > MAX_DIMS || !PyArray_SIZE(index) || !PyArray_SIZE(table)
        || (leads && scaled))
        return nullptr;
    npy_intp n = PyArray_SIZE(index), rows = PyArray_DIM(table, 0), run = PyArray_NBYTES(table) / rows, sizes[MAX_DIMS];
    const int64_t* at = (const int64_t*)PyArray_DATA(index);
    if (n * run > 1 << 16 || !within(at, n, rows)) return nullptr;
    memcpy(sizes, PyArray_DIMS(index), dims * sizeof(npy_intp));
    sizes[dims] = PyArray_DIM(table, 1);
    PyObject* array = fresh_array(type, dims + 1, sizes, nullptr);
    if (!array) return nullptr;
    for (npy_intp k = 0; k < n; k++) memcpy((char*)data_of(array) + k * run, (const char*)PyArray_DATA(table) + at[k] * run, run);
    static PyObject* none = PyLong_FromLong(-1);
    PyObject* given[] = {a[1], a[0], none};
    Ref out(tensor_around(array, type));
    return out && (!leads || record(c.self->head.op, c.self->needs, given, 3, 1, out.get())) ? out.release() : nullptr;
}

typedef float Eight __attribute__((vector_size(32)));
typedef Eight EightAnywhere __attribute__((aligned(4), may_alias));

// out = the sum of some rows of a table over a divisor, 32 columns at a time, whose sums stay in registers
FB_EACH_MACHINE void sum_rows(
    const float* table, const int64_t* index, npy_intp n, npy_intp skip, npy_intp width, float divisor, float* out
) {
    npy_intp j = 0;
    for (; j + 32 <= width; j += 32) {
        Eight a = {}, b = {}, c = {}, d = {};
        for (npy_intp k = 0; k < n; k++) {
            const float* row = table + index[k] * width + j;
            if (index[k] == skip) continue;
            const EightAnywhere* part = (const EightAnywhere*)row;
            a += part[0], b += part[1], c += part[2], d += part[3];
        }
        EightAnywhere* to = (EightAnywhere*)(out + j);
        to[0] = a, to[1] = b, to[2] = c, to[3] = d;
    }
    for (npy_intp i = j; i < width; i++) out[i] = 0;
    for (npy_intp k = 0; j < width && k < n; k++) {
        const float* row = table + index[k] * width;
        if (index[k] == skip) continue;
        for (npy_intp i = j; i < width; i++) out[i] += row[i];
    }
    for (npy_intp i = 0; divisor != 1 && i < width; i++) out[i] /= divisor;
}
// the same row added to some rows of a table
FB_EACH_MACHINE void spread_row(float* table, const int64_t* index, npy_intp n, npy_intp skip, npy_intp width, const float* share) {
    for (npy_intp k = 0; k < n; k++) {
        float* row = table + index[k] * width;
        if (index[k] == skip) continue;
        for (npy_intp j = 0; j < width; j++) row[j] += share[j];
    }
}

// ---- bags: of the indices from first[k] to first[k + 1]

struct Bags {
    const float* table;
    const int64_t *index, *first;
    npy_intp rows, width, n, count, skip = -1;

    bool read(PyArrayObject* weight, PyArrayObject* places) {
        table = (const float*)PyArray_DATA(weight), rows = PyArray_DIM(weight, 0), width = PyArray_DIM(weight, 1);
        index = (const int64_t*)PyArray_DATA(places), n = PyArray_SIZE(places);
        return rows && width && n && n * width <= alone(MANY) && within(index, n, rows);
    }
    // the bags lie one after the other and hold all indices
    bool starts(const int64_t* begin, npy_intp bags) {
        first = begin, count = bags;
        if (count < 1 || first[0] != 0 || first[count] != n) return false;
        for (npy_intp k = 0; k < count; k++)
            if (first[k + 1] < first[k]) return false;
        return true;
    }
    npy_intp taken(npy_intp bag) const {
        npy_intp found = 0;
        if (skip < 0) return first[bag + 1] - first[bag];
        for (npy_intp k = first[bag]; k < first[bag + 1]; k++) found += index[k] != skip;
        return found;
    }
    void sum(float* out, bool mean) const {
        for (npy_intp b = 0; b < count; b++, out += width) {
            npy_intp some = mean ? taken(b) : 1;
            sum_rows(table, index + first[b], first[b + 1] - first[b], skip, width, some > 1 ? (float)some : 1.f, out);
        }
    }
    // the greatest of each bag and the first row that has it (-1: an empty bag); false: NaN, which has an order of its own
    bool top(float* out, int64_t* winner) const {
        bool odd = false;
        for (npy_intp b = 0; b < count; b++, out += width, winner += width) {
            bool any = false;
            for (npy_intp j = 0; j < width; j++) out[j] = 0, winner[j] = -1;
            for (npy_intp k = first[b]; k < first[b + 1]; k++) {
                if (index[k] == skip) continue;
                const float* row = table + index[k] * width;
                for (npy_intp j = 0; j < width; j++) {
                    odd |= row[j] != row[j];
                    if (!any || row[j] > out[j]) out[j] = row[j], winner[j] = index[k];
                }
                any = true;
            }
        }
        return !odd;
    }
};

enum Mode { SUM, MEAN, MAX };
bool read_mode(PyObject* x, int& mode) {
    static const char* known[] = {"sum", "mean", "max"};
    mode = MEAN;
    if (!x) return true;
    for (mode = 0; mode < 3 && PyUnicode_Check(x); mode++)
        if (PyUnicode_CompareWithASCIIString(x, known[mode]) == 0) return true;
    return false;
}

// Where each bag begins and the last one ends, as a tensor's array; null without an error: not for this path.
PyObject* beginnings(PyArrayObject* index, PyObject* offsets, bool last) {
    npy_intp n = PyArray_SIZE(index), count;
    PyArrayObject* given = nullptr;
    if (PyArray_NDIM(index) == 2) {
        if (!absent(offsets) || last) return nullptr;
        count = PyArray_DIM(index, 0);
    } else {
        given = PyArray_NDIM(index) == 1 && !absent(offsets) ? dense_array(offsets) : nullptr;
        if (!given || type_of(offsets) != INT64 || PyArray_NDIM(given) != 1) return nullptr;
        count = PyArray_SIZE(given) - last;
    }
    if (count < 1) return nullptr;
    npy_intp size = count + 1;
    PyObject* array = fresh_array(INT64, 1, &size, nullptr);
    if (!array) return nullptr;
    int64_t* out = (int64_t*)data_of(array);
    for (npy_intp k = 0; k < count; k++) out[k] = given ? ((const int64_t*)PyArray_DATA(given))[k] : k * PyArray_DIM(index, 1);
    out[count] = n;
    return array;
}

// The call of a record, recorded: `op` is the pair of records, of sums and of greatest elements.
PyObject* recorded_bags(const Call& c, int mode, PyObject* index, PyObject* weight, Ref first, Ref out, Ref winner) {
    static PyObject *flat = PyUnicode_InternFromString("reshape"), *none = PyLong_FromLong(-1);
    Ref places(PyObject_CallMethodOneArg(index, flat, none)), begin(tensor_around(first.release(), INT64)), made(tensor_around(out.release(), FLOAT32));
    if (!places || !begin || !made) return nullptr;
    PyObject* entry = PyTuple_GET_ITEM(c.self->head.op, mode == MAX);
    bool done;
    if (mode == MAX) {
        Ref rows(tensor_around(winner.release(), INT64));
        PyObject* given[] = {weight, places.get(), begin.get(), none};
        Ref outs(rows ? PyTuple_Pack(2, made.get(), rows.get()) : nullptr);
        done = outs && record_outputs(entry, given, outs.get());
    } else {
        PyObject* given[] = {weight, places.get(), begin.get(), Py_None, none, mode == MEAN ? Py_True : Py_False};
        Ref outs(PyTuple_Pack(1, made.get()));
        done = outs && record_outputs(entry, given, outs.get());
    }
    return done ? made.release() : nullptr;
}

PyObject* embedding_bag(const Call& c) {
    static const Names<11> names("input", "weight", "offsets", "max_norm", "norm_type", "scale_grad_by_freq", "mode", "sparse",
        "per_sample_weights", "include_last_offset", "padding_idx");
    PyObject* a[11];
    bool scaled, sparse, last;
    int mode;
    if (!parse(c, names, a) || !a[0] || !a[1] || !absent(a[3]) || !flag_of(a[5], scaled) || scaled || !read_mode(a[6], mode)
        || !flag_of(a[7], sparse) || sparse || !absent(a[8]) || !flag_of(a[9], last) || !absent(a[10]))
        return nullptr;
    PyArrayObject *index = dense_array(a[0]), *table = index ? dense_array(a[1]) : nullptr;
    Bags bags;
    if (!table || type_of(a[0]) != INT64 || type_of(a[1]) != FLOAT32 || PyArray_NDIM(table) != 2 || !bags.read(table, index)) return nullptr;
    Ref first(beginnings(index, a[2], last));
    if (!first || !bags.starts((const int64_t*)data_of(first.get()), PyArray_SIZE((PyArrayObject*)first.get()) - 1)) return nullptr;
    npy_intp sizes[] = {bags.count, bags.width};
    Ref out(fresh_array(FLOAT32, 2, sizes, nullptr)), winner(mode == MAX ? fresh_array(INT64, 2, sizes, nullptr) : nullptr);
    if (!out || (mode == MAX && !winner)) return nullptr;
    if (mode != MAX) bags.sum((float*)data_of(out.get()), mode == MEAN);
    else if (!bags.top((float*)data_of(out.get()), (int64_t*)data_of(winner.get()))) return nullptr;
    if (!c.grad || !needs_grad(a[1])) return tensor_around(out.release(), FLOAT32);
    return recorded_bags(c, mode, a[0], a[1], std::move(first), std::move(out), std::move(winner));
}

// ---- kernels of records

// bag_max(weight, index, first, skip)
PyObject* py_bag_max(PyObject*, PyObject* const* args, Py_ssize_t count) {
    PyArrayObject *weight = count == 4 ? row_major(args[0], FLOAT32, 2) : nullptr, *index = weight ? row_major(args[1], INT64, 1) : nullptr,
                  *first = index ? row_major(args[2], INT64, 1) : nullptr;
    Bags bags;
    if (!first || !small_int(args[3], bags.skip) || !bags.read(weight, index)
        || !bags.starts((const int64_t*)PyArray_DATA(first), PyArray_SIZE(first) - 1))
        return declined();
    npy_intp sizes[] = {bags.count, bags.width};
    Ref out(fresh_array(FLOAT32, 2, sizes, nullptr)), winner(fresh_array(INT64, 2, sizes, nullptr));
    if (!out || !winner) return nullptr;
    return bags.top((float*)data_of(out.get()), (int64_t*)data_of(winner.get())) ? PyTuple_Pack(2, out.get(), winner.get()) : declined();
}

// A table of zeros; null without an error where it would be too large for one thread.
PyObject* zeros(npy_intp rows, npy_intp width) {
    npy_intp sizes[] = {rows, width};
    if (rows < 1 || width < 1 || rows > alone(MANY) || rows * width > alone(4 * MANY)) return nullptr;
    PyObject* array = fresh_array(FLOAT32, 2, sizes, nullptr);
    if (array) memset(data_of(array), 0, rows * width * sizeof(float));
    return array;
}
PyObject* or_declined(PyObject* array) { return array || PyErr_Occurred() ? array : declined(); }

// bag_max_backward(g, winner, rows)
PyObject* py_bag_max_backward(PyObject*, PyObject* const* args, Py_ssize_t count) {
    npy_intp rows;
    PyArrayObject *g = count == 3 ? row_major(args[0], FLOAT32, 2) : nullptr, *winner = g ? row_major(args[1], INT64, 2) : nullptr;
    if (!winner || !small_int(args[2], rows) || PyArray_SIZE(g) != PyArray_SIZE(winner) || PyArray_SIZE(g) > alone(MANY)) return declined();
    npy_intp width = PyArray_DIM(g, 1);
    const int64_t* at = (const int64_t*)PyArray_DATA(winner);
    for (npy_intp k = 0; k < PyArray_SIZE(g); k++)
        if (at[k] >= rows) return declined();
    PyObject* array = zeros(rows, width);
    for (npy_intp k = 0; array && k < PyArray_SIZE(g); k++)
        if (at[k] >= 0) ((float*)data_of(array))[at[k] * width + k % width] += ((const float*)PyArray_DATA(g))[k];
    return or_declined(array);
}

// bag_sum_backward(g, index, first, scale, skip, mean, rows)
PyObject* py_bag_sum_backward(PyObject*, PyObject* const* args, Py_ssize_t count) {
    PyArrayObject *g = count == 7 ? row_major(args[0], FLOAT32, 2) : nullptr, *index = g ? row_major(args[1], INT64, 1) : nullptr,
                  *first = index ? row_major(args[2], INT64, 1) : nullptr;
    npy_intp rows, n = first ? PyArray_SIZE(index) : 0;
    Bags bags;
    if (!n || args[3] != Py_None || !small_int(args[4], bags.skip) || !small_int(args[6], rows)) return declined();
    bags.index = (const int64_t*)PyArray_DATA(index), bags.n = n, bags.width = PyArray_DIM(g, 1);
    if (!bags.starts((const int64_t*)PyArray_DATA(first), PyArray_SIZE(first) - 1) || PyArray_DIM(g, 0) != bags.count
        || n * bags.width > alone(MANY) || !within(bags.index, n, rows))
        return declined();
    PyObject* array = zeros(rows, bags.width);
    const float* slope = (const float*)PyArray_DATA(g);
    std::vector<float> share(bags.width);
    for (npy_intp b = 0; array && b < bags.count; b++, slope += bags.width) {
        npy_intp some = args[5] == Py_True ? bags.taken(b) : 1;
        for (npy_intp j = 0; j < bags.width; j++) share[j] = some > 1 ? slope[j] / (float)some : slope[j];
        spread_row((float*)data_of(array), bags.index + bags.first[b], bags.first[b + 1] - bags.first[b], bags.skip, bags.width, share.data());
    }
    return or_declined(array);
}

PyMethodDef functions[] = {
    {"bag_max", (PyCFunction)(void*)py_bag_max, METH_FASTCALL, "bag_max(weight, index, first, skip): arrays, or NotImplemented"},
    {"bag_max_backward", (PyCFunction)(void*)py_bag_max_backward, METH_FASTCALL, "bag_max_backward(g, winner, rows)"},
    {"bag_sum_backward", (PyCFunction)(void*)py_bag_sum_backward, METH_FASTCALL, "bag_sum_backward(g, index, first, scale, skip, mean, rows)"},
    {nullptr, nullptr, 0, nullptr}};

}

const SmallEntry small_bags[] = {{"embedding", embedding}, {"embedding_bag", embedding_bag}, {nullptr, nullptr}};

bool add_bags(PyObject* module) { return PyModule_AddFunctions(module, functions) == 0; }
