// interpolate of dense tensors without history: nearest elements, and linear ones one dim after the other, with the places and
// weights of the records (ops/resampling.py).
#include "small_tensor.h"

#include <math.h>
#include <string.h>

#include <vector>

#include "../../runtime/csrc/job.h"
#include "casts.h"

namespace {

constexpr npy_intp LARGE = 1 << 21; // elements that one thread makes


struct Resized { // one dim
    npy_intp n, size;
    bool named;   // by a factor
    double scale; // its inverse
    bool same() const { return n == size && (!named || scale == 1.0); }
    float ratio(bool align) const {
        if (align) return size == 1 ? 0.f : (float)(n - 1) / (float)(size - 1);
        return named ? (float)scale : (float)n / (float)size;
    }
    npy_intp nearest(npy_intp o, bool exact) const {
        if (!named || scale == (double)n / (double)size) { // one of the sizes is a multiple of the other
            if (size % n == 0) return o / (size / n);
            if (n % size == 0) return o * (n / size) + (exact ? n / size / 2 : 0);
        }
        npy_intp at = (npy_intp)floorf(((float)o + (exact ? 0.5f : 0.f)) * ratio(false));
        return at < n - 1 ? at : n - 1;
    }
};

struct Reads { // of each output two neighbours and their weights
    std::vector<npy_intp> low, high;
    std::vector<float> first, second;
    Reads(const Resized& r, bool align) : low(r.size), high(r.size), first(r.size), second(r.size) {
        float ratio = r.ratio(align);
        for (npy_intp o = 0; o < r.size; o++) {
            float place = align ? (float)o * ratio : ((float)o + 0.5f) * ratio - 0.5f;
            place = place > 0 ? place : 0;
            float whole = floorf(place);
            npy_intp at = (npy_intp)whole;
            low[o] = at < r.n - 1 ? at : r.n - 1, high[o] = at + 1 < r.n - 1 ? at + 1 : r.n - 1;
            second[o] = place - whole, first[o] = 1.f - second[o];
        }
    }
};

FB_EACH_MACHINE void mix_rows(const float* a, const float* b, float first, float second, float* out, npy_intp n) {
    for (npy_intp k = 0; k < n; k++) out[k] = a[k] * first + b[k] * second;
}
FB_EACH_MACHINE void mix_elements(const float* x, const npy_intp* low, const npy_intp* high, const float* first, const float* second,
    float* out, npy_intp n) {
    for (npy_intp k = 0; k < n; k++) out[k] = x[low[k]] * first[k] + x[high[k]] * second[k];
}

void linear(const float* x, float* out, npy_intp outer, npy_intp inner, const Resized& r, bool align) {
    Reads reads(r, align);
    for (npy_intp o = 0; o < outer; o++, x += r.n * inner, out += r.size * inner) {
        if (inner == 1) {
            mix_elements(x, reads.low.data(), reads.high.data(), reads.first.data(), reads.second.data(), out, r.size);
            continue;
        }
        for (npy_intp k = 0; k < r.size; k++)
            mix_rows(x + reads.low[k] * inner, x + reads.high[k] * inner, reads.first[k], reads.second[k], out + k * inner, inner);
    }
}

struct Image {
    PyArrayObject* x;
    int type, dims; // dims: resized ones
    npy_intp planes, sizes[MAX_DIMS];
    Resized r[3];
};

bool read_sizes(PyObject* size, PyObject* factor, Image& m) {
    PyObject* given = absent(size) ? factor : size;
    bool named = absent(size), many = PyTuple_Check(given) || PyList_CheckExact(given);
    if (many && PySequence_Fast_GET_SIZE(given) != m.dims) return false;
    for (int d = 0; d < m.dims; d++) {
        PyObject* one = many ? PySequence_Fast_GET_ITEM(given, d) : given;
        Resized& r = m.r[d];
        r.n = PyArray_DIM(m.x, d + 2), r.named = named, r.scale = 1;
        if (named) {
            if (!PyFloat_CheckExact(one) && !PyLong_CheckExact(one)) return false;
            double f = PyFloat_AsDouble(one);
            if (PyErr_Occurred()) return PyErr_Clear(), false;
            if (!(f > 1e-6 && f < 1e6)) return false;
            r.size = (npy_intp)floor((double)r.n * f), r.scale = 1.0 / f;
        } else if (!small_int(one, r.size)) return false;
        if (r.size < 1 || r.size > LARGE) return false;
        m.sizes[d + 2] = r.size;
    }
    return true;
}

template <class E> void pick(const Image& m, bool exact, E* out) {
    std::vector<npy_intp> at[3];
    npy_intp n[3] = {1, 1, 1}, from[3] = {1, 1, 1};
    for (int d = 0; d < 3; d++) {
        int k = d - (3 - m.dims);
        if (k >= 0) n[d] = m.r[k].size, from[d] = m.r[k].n;
        at[d].resize(n[d]);
        for (npy_intp o = 0; o < n[d]; o++) at[d][o] = k < 0 ? 0 : m.r[k].same() ? o : m.r[k].nearest(o, exact);
    }
    bool doubled = true; // each column twice
    for (npy_intp c = 0; c < n[2]; c++) doubled = doubled && at[2][c] == c / 2;
    const E* x = (const E*)PyArray_DATA(m.x);
    for (npy_intp p = 0; p < m.planes; p++, x += from[0] * from[1] * from[2])
        for (npy_intp a = 0; a < n[0]; a++)
            for (npy_intp b = 0; b < n[1]; b++, out += n[2]) {
                if (b && at[1][b] == at[1][b - 1]) {
                    memcpy(out, out - n[2], n[2] * sizeof(E));
                    continue;
                }
                const E* row = x + (at[0][a] * from[1] + at[1][b]) * from[2];
                const npy_intp* column = at[2].data();
                if (n[2] == 2 * from[2] && doubled)
                    for (npy_intp c = 0; c < from[2]; c++) out[2 * c] = out[2 * c + 1] = row[c];
                else
                    for (npy_intp c = 0; c < n[2]; c++) out[c] = row[column[c]];
            }
}

PyObject* picked(const Image& m, bool exact) {
    PyObject* array = fresh_array(m.type, m.dims + 2, m.sizes, nullptr);
    if (!array) return nullptr;
    switch (world.types[m.type].itemsize) {
    case 1: pick(m, exact, (uint8_t*)data_of(array)); break;
    case 2: pick(m, exact, (uint16_t*)data_of(array)); break;
    case 4: pick(m, exact, (uint32_t*)data_of(array)); break;
    default: pick(m, exact, (uint64_t*)data_of(array));
    }
    return tensor_around(array, m.type);
}

PyObject* mixed(const Image& m, bool align) {
    PyObject* array = fresh_array(FLOAT32, m.dims + 2, m.sizes, nullptr);
    if (!array) return nullptr;
    std::vector<float> before, after;
    const float* x = (const float*)PyArray_DATA(m.x);
    npy_intp outer = m.planes;
    int last = -1;
    for (int d = 0; d < m.dims; d++)
        if (!m.r[d].same()) last = d;
    for (int d = 0; d < m.dims; outer *= m.r[d++].size) {
        if (m.r[d].same()) continue;
        npy_intp inner = 1;
        for (int k = d + 1; k < m.dims; k++) inner *= m.r[k].n;
        if (d != last) after.resize(outer * m.r[d].size * inner);
        float* out = d == last ? (float*)data_of(array) : after.data();
        linear(x, out, outer, inner, m.r[d], align);
        std::swap(before, after);
        x = before.data();
    }
    if (last < 0) memcpy(data_of(array), x, PyArray_NBYTES(m.x));
    return tensor_around(array, FLOAT32);
}

// ---- linear maps along one dim that read a few elements per output (ops/taps.py), of small row-major arrays

// `n` numbers of a vector of this type, row-major
const void* vector_data(PyObject* x, int type, npy_intp& n) {
    PyArrayObject* a = row_major(x, type, 1);
    return a ? (n = PyArray_DIM(a, 0), PyArray_DATA(a)) : nullptr;
}

// An array with the channels innermost in memory, whose results have them so, too (images.py).
bool channels_last(PyArrayObject* a) {
    int dims = PyArray_NDIM(a);
    if (dims != 4 && dims != 5) return false;
    npy_intp step = PyArray_ITEMSIZE(a);
    for (int k = dims - 1; k >= 0; k--) { // N, spatial dims, C
        int d = k == dims - 1 ? 1 : k ? k + 1 : 0;
        if (PyArray_DIM(a, d) > 1 && PyArray_STRIDE(a, d) != step) return false;
        step *= PyArray_DIM(a, d);
    }
    return true;
}

// A row-major array of a small one; null without an error where there is none.
PyArrayObject* small_rows(PyObject* x, Ref& copy) {
    if (PyArrayObject* have = row_major(x)) return have;
    if (!PyArray_CheckExact(x)) return nullptr;
    PyArrayObject* a = (PyArrayObject*)x;
    if (PyArray_SIZE(a) > 1 << 14 || PyArray_NDIM(a) >= MAX_DIMS || !PyArray_ISALIGNED(a) || channels_last(a)) return nullptr;
    copy = Ref(PyArray_NewCopy(a, NPY_CORDER));
    if (!copy) PyErr_Clear();
    return (PyArrayObject*)copy.get();
}

// apply_taps(x, dim, ends, index, weight)
PyObject* py_apply_taps(PyObject*, PyObject* const* args, Py_ssize_t count) {
    npy_intp dim, outputs, taps, weights;
    Ref copy;
    PyArrayObject* x = count == 5 ? small_rows(args[0], copy) : nullptr;
    int type = x ? element_type(x) : -1, dims = x ? PyArray_NDIM(x) : 0;
    if ((type != FLOAT32 && type != FLOAT64) || !small_int(args[1], dim) || dim < 0 || dim >= dims || !PyArray_SIZE(x)) return declined();
    const void *ends = vector_data(args[2], INT64, outputs), *index = ends ? vector_data(args[3], INT64, taps) : nullptr;
    const double* weight = index ? (const double*)vector_data(args[4], FLOAT64, weights) : nullptr;
    const void* given = !index ? nullptr : weight ? weight : vector_data(args[4], FLOAT32, weights);
    if (!given || !outputs || taps != weights || (!weight && type == FLOAT64)) return declined();
    npy_intp sizes[MAX_DIMS], outer = 1, inner = 1, n = PyArray_DIM(x, dim);
    for (int d = 0; d < dims; d++) {
        sizes[d] = PyArray_DIM(x, d);
        if (d != dim) (d < dim ? outer : inner) *= sizes[d];
    }
    sizes[dim] = outputs;
    if (outer * inner * (taps + outputs) > 1 << 16) return declined();
    std::vector<float> narrow;
    if (weight && type == FLOAT32) {
        for (npy_intp k = 0; k < taps; k++) narrow.push_back((float)weight[k]);
        given = narrow.data();
    }
    PyObject* out = fresh_array(type, dims, sizes, nullptr);
    if (!out) return nullptr;
    static const int single = small_job("taps_single"), several = small_job("taps_inner");
    Job job = {};
    job.rt = world.api->runtime;
    job.p[0] = data_of(out), job.p[1] = PyArray_DATA(x), job.p[2] = (void*)ends, job.p[3] = (void*)index, job.p[4] = (void*)given;
    job.n[0] = n, job.n[1] = outputs, job.n[2] = inner;
    world.api->jobs()[inner == 1 ? single : several].run[type == FLOAT64](job, 0, inner == 1 ? outer : outer * outputs);
    return out;
}

PyMethodDef functions[] = {
    {"apply_taps", (PyCFunction)(void*)py_apply_taps, METH_FASTCALL, "apply_taps(x, dim, ends, index, weight): an array, or NotImplemented"},
    {nullptr, nullptr, 0, nullptr}};

PyObject* interpolate(const Call& c) {
    static const Names<7> names("input", "size", "scale_factor", "mode", "align_corners", "recompute_scale_factor", "antialias");
    static const char* modes[] = {"nearest", "nearest-exact", "linear", "bilinear", "trilinear"};
    PyObject* a[7];
    Image m;
    bool antialias;
    int mode = 0;
    if (!parse(c, names, a) || !a[0] || absent(a[1]) == absent(a[2]) || !(absent(a[5]) || a[5] == Py_False) || !flag_of(a[6], antialias)
        || antialias || (a[3] && !PyUnicode_Check(a[3])))
        return nullptr;
    if (a[3])
        while (mode < 5 && PyUnicode_CompareWithASCIIString(a[3], modes[mode])) mode++;
    m.x = dense_array(a[0]);
    if (mode == 5 || !m.x || (c.grad && needs_grad(a[0]))) return nullptr;
    int rank = PyArray_NDIM(m.x);
    m.type = type_of(a[0]), m.dims = rank - 2;
    bool known = m.type == FLOAT32 || (mode < 2 && (m.type == FLOAT64 || m.type == FLOAT16 || m.type == BFLOAT16 || m.type == UINT8));
    if (!known || rank < 3 || rank > 5 || !PyArray_SIZE(m.x) || (mode >= 2 && mode != rank - 1)
        || !(absent(a[4]) || (mode >= 2 && PyBool_Check(a[4]))))
        return nullptr;
    m.sizes[0] = PyArray_DIM(m.x, 0), m.sizes[1] = PyArray_DIM(m.x, 1), m.planes = m.sizes[0] * m.sizes[1];
    if (!read_sizes(a[1], a[2], m)) return nullptr;
    double total = (double)m.planes;
    for (int d = 0; d < m.dims; d++) total *= (double)(m.r[d].size > m.r[d].n ? m.r[d].size : m.r[d].n);
    if (total > alone(LARGE)) return nullptr;
    // (a factor says nothing about places where corners are aligned)
    bool align = a[4] == Py_True;
    for (int d = 0; d < m.dims; d++)
        if (align) m.r[d].named = false;
    return mode < 2 ? picked(m, mode == 1) : mixed(m, align);
}

}

const SmallEntry small_resizing[] = {{"interpolate", interpolate}, {nullptr, nullptr}};

bool add_resizing(PyObject* module) { return PyModule_AddFunctions(module, functions) == 0; }
