// Losses in one call each: of classes (rows and a class each), of pairs of numbers, of rows and their distances; the node is
// hung on where the call is recorded. And the kernels of their gradients. What a handler or kernel does not take is left to
// the formulas of ops/losses.py, ops/margins.py and ops/distances.py.
#include "small_tensor.h"

#include <math.h>
#include <string.h>

#include <algorithm>
#include <vector>

#include "../../runtime/csrc/job.h"
#include "casts.h"

namespace {

constexpr npy_intp FEW = 1 << 14, MANY = 1 << 22, PAIRS = 2048;

enum Reduction { NONE, MEAN, SUM };
bool read_reduction(PyObject* x, int& out) {
    out = MEAN;
    if (!x) return true;
    if (!PyUnicode_Check(x)) return false;
    const char* known[] = {"none", "mean", "sum"};
    for (out = 0; out < 3; out++)
        if (PyUnicode_CompareWithASCIIString(x, known[out]) == 0) return true;
    return false;
}
// The word, as records have it.
PyObject* word_of(int reduction) {
    static PyObject* words[] = {PyUnicode_InternFromString("none"), PyUnicode_InternFromString("mean"), PyUnicode_InternFromString("sum")};
    return words[reduction];
}

bool tracked(const Call& c, PyObject* x) { return c.grad && needs_grad(x); }
bool same_sizes(PyArrayObject* a, PyArrayObject* b) {
    return PyArray_NDIM(a) == PyArray_NDIM(b) && PyArray_CompareLists(PyArray_DIMS(a), PyArray_DIMS(b), PyArray_NDIM(a));
}
PyObject* vector_of(npy_intp n) { return fresh_array(FLOAT32, 1, &n, nullptr); }
PyObject* number_array(float value) {
    PyObject* array = fresh_array(FLOAT32, 0, nullptr, nullptr);
    if (array) *(float*)data_of(array) = value;
    return array;
}

// An array of floats as a tensor of a type in which they are rounded.
PyObject* rounded(PyObject* array, int type) {
    if (!array || type == FLOAT32) return tensor_around(array, FLOAT32);
    Ref wide(array);
    PyArrayObject* a = (PyArrayObject*)array;
    PyObject* out = fresh_array(type, PyArray_NDIM(a), PyArray_DIMS(a), nullptr);
    if (out) cast_loop(FLOAT32, type)((const char*)PyArray_DATA(a), 4, (char*)data_of(out), 2, PyArray_SIZE(a));
    return tensor_around(out, type);
}

// The losses as they are, or their sum over `total`. Steals `losses`.
PyObject* finished(PyObject* losses, npy_intp n, int reduction, float total, int type = FLOAT32) {
    if (!losses || reduction == NONE) return rounded(losses, type);
    float sum = small_row_sum((const float*)data_of(losses), n);
    Py_DECREF(losses);
    return rounded(number_array(reduction == MEAN ? sum / total : sum), type);
}

// The result of a call of the record behind the function, recorded if an argument leads on. Steals `out`; `more`: hidden
// outputs, as arrays of floats, stolen.
PyObject* recorded(const Call& c, PyObject* const* args, PyObject* out, std::initializer_list<PyObject*> more = {}) {
    Ref outs(out ? PyTuple_New(1 + (Py_ssize_t)more.size()) : nullptr);
    bool good = (bool)outs;
    if (outs) PyTuple_SET_ITEM(outs.get(), 0, out);
    Py_ssize_t k = 1;
    for (PyObject* array : more) {
        PyObject* t = good ? tensor_around(array, FLOAT32) : (Py_XDECREF(array), nullptr);
        good = good && t;
        if (outs) PyTuple_SET_ITEM(outs.get(), k++, t);
    }
    return good && record_outputs(c.self->head.op, args, outs.get()) ? Py_NewRef(out) : nullptr;
}

// ---- of classes

struct Rows {
    const float* x;
    int type;
    npy_intp rows, classes;
    std::vector<float> wide; // of halves
    bool read(PyObject* t, bool halves, npy_intp limit) {
        PyArrayObject* a = t ? dense_array(t) : nullptr;
        if (!a || PyArray_NDIM(a) != 2 || !PyArray_SIZE(a) || PyArray_SIZE(a) > limit) return false;
        type = type_of(t), rows = PyArray_DIM(a, 0), classes = PyArray_DIM(a, 1);
        x = (const float*)PyArray_DATA(a);
        if (type == FLOAT32) return true;
        if (!halves || (type != FLOAT16 && type != BFLOAT16) || rows * classes > FEW) return false;
        wide.resize(rows * classes);
        cast_loop(type, FLOAT32)((const char*)PyArray_DATA(a), 2, (char*)wide.data(), 4, rows * classes);
        x = wide.data();
        return true;
    }
};
const int64_t* classes_of(PyObject* t, npy_intp rows) {
    PyArrayObject* a = t ? dense_array(t) : nullptr;
    return a && type_of(t) == INT64 && PyArray_NDIM(a) == 1 && PyArray_DIM(a, 0) == rows ? (const int64_t*)PyArray_DATA(a) : nullptr;
}

PyObject* nll_loss(const Call& c) {
    static const Names<7> names("input", "target", "weight", "size_average", "ignore_index", "reduce", "reduction");
    PyObject* a[7];
    npy_intp ignored = -100, kept = 0;
    int reduction;
    Rows r;
    if (!parse(c, names, a) || !a[0] || !absent(a[2]) || !absent(a[3]) || (a[4] && !small_int(a[4], ignored)) || !absent(a[5])
        || !read_reduction(a[6], reduction) || !r.read(a[0], true, alone(MANY)))
        return nullptr;
    const int64_t* target = classes_of(a[1], r.rows);
    PyObject* losses = target ? vector_of(r.rows) : nullptr;
    if (!losses) return nullptr;
    float* out = (float*)data_of(losses);
    for (npy_intp k = 0; k < r.rows; k++) {
        bool counts = target[k] != ignored;
        if (counts && (uint64_t)target[k] >= (uint64_t)r.classes) {
            Py_DECREF(losses);
            return nullptr;
        }
        out[k] = counts ? -r.x[k * r.classes + target[k]] : 0.f;
        kept += counts;
    }
    PyObject* loss = finished(losses, r.rows, reduction, (float)kept, r.type);
    if (!tracked(c, a[0])) return loss;
    Ref place(PyLong_FromSsize_t(ignored));
    PyObject* given[] = {a[0], a[1], Py_None, word_of(reduction), place.get()};
    return recorded(c, given, loss, {number_array((float)kept)});
}

// Some of each loss goes to the mean over all classes.
void smooth(float* losses, const float* sums, const Rows& r, const int64_t* target, npy_intp ignored, double smoothing) {
    float own = (float)(1.0 - smoothing), share = (float)smoothing;
    for (npy_intp k = 0; k < r.rows; k++) {
        if (target[k] == ignored) continue;
        float total = 0;
        for (npy_intp j = 0; j < r.classes; j++) total += sums[k] - r.x[k * r.classes + j];
        losses[k] = losses[k] * own + total / (float)r.classes * share;
    }
}

PyObject* cross_entropy(const Call& c) {
    static const Names<8> names("input", "target", "weight", "size_average", "ignore_index", "reduce", "reduction", "label_smoothing");
    PyObject* a[8];
    npy_intp ignored = -100;
    int reduction;
    double smoothing;
    Rows r;
    if (!parse(c, names, a) || !a[0] || !absent(a[2]) || !absent(a[3]) || (a[4] && !small_int(a[4], ignored)) || !absent(a[5])
        || !read_reduction(a[6], reduction) || !small_real(a[7], 0, smoothing) || !(smoothing >= 0 && smoothing <= 1)
        || !r.read(a[0], true, FEW))
        return nullptr;
    const int64_t* target = classes_of(a[1], r.rows);
    Ref losses(target ? vector_of(r.rows) : nullptr), sums(target ? vector_of(r.rows) : nullptr);
    if (!losses || !sums) return nullptr;
    static const int number = small_job("cross_entropy_rows");
    long found[2] = {-1, 0};
    Job job = {};
    job.rt = world.api->runtime;
    job.p[0] = data_of(losses.get()), job.p[1] = data_of(sums.get()), job.p[2] = (void*)r.x, job.p[3] = (void*)target, job.p[5] = found;
    job.n[0] = r.classes, job.n[1] = ignored;
    world.api->jobs()[number].run[0](job, 0, r.rows);
    if (found[0] >= 0) return nullptr;
    if (smoothing) smooth((float*)data_of(losses.get()), (const float*)data_of(sums.get()), r, target, ignored, smoothing);
    PyObject* loss = finished(losses.release(), r.rows, reduction, (float)found[1], r.type);
    if (!tracked(c, a[0])) return loss;
    Ref place(PyLong_FromSsize_t(ignored)), part(PyFloat_FromDouble(smoothing));
    PyObject* given[] = {a[0], a[1], Py_None, word_of(reduction), place.get(), part.get()};
    return recorded(c, given, loss, {sums.release(), number_array((float)found[1])});
}

void margin_losses(const float* x, npy_intp rows, npy_intp classes, const int64_t* target, npy_intp power, double margin, float* out) {
    std::vector<float> gaps(classes);
    for (npy_intp k = 0; k < rows; k++, x += classes) {
        float own = (float)margin - x[target[k]];
        for (npy_intp j = 0; j < classes; j++) {
            float gap = own + x[j];
            gap = gap > 0 ? gap : 0;
            gaps[j] = power == 1 ? gap : gap * gap;
        }
        gaps[target[k]] = 0;
        out[k] = small_row_sum(gaps.data(), classes) / (float)classes;
    }
}
bool all_within(const int64_t* target, npy_intp n, npy_intp classes) {
    for (npy_intp k = 0; k < n; k++)
        if ((uint64_t)target[k] >= (uint64_t)classes) return false;
    return true;
}

PyObject* multi_margin_loss(const Call& c) {
    static const Names<8> names("input", "target", "p", "margin", "weight", "size_average", "reduce", "reduction");
    PyObject* a[8];
    npy_intp power = 1;
    double margin;
    int reduction;
    Rows r;
    if (!parse(c, names, a) || !a[0] || (a[2] && !small_int(a[2], power)) || (power != 1 && power != 2)
        || !small_real(a[3], 1, margin) || !(fabs(margin) < 1e30) || !absent(a[4]) || !absent(a[5]) || !absent(a[6])
        || !read_reduction(a[7], reduction) || !r.read(a[0], false, alone(MANY)))
        return nullptr;
    const int64_t* target = classes_of(a[1], r.rows);
    PyObject* losses = target && all_within(target, r.rows, r.classes) ? vector_of(r.rows) : nullptr;
    if (!losses) return nullptr;
    margin_losses(r.x, r.rows, r.classes, target, power, margin, (float*)data_of(losses));
    PyObject* loss = finished(losses, r.rows, reduction, (float)r.rows);
    if (!tracked(c, a[0])) return loss;
    Ref p(PyLong_FromSsize_t(power)), room(PyFloat_FromDouble(margin));
    PyObject* given[] = {a[0], a[1], p.get(), room.get(), word_of(reduction)};
    return recorded(c, given, loss);
}

// Labels of rows that are classes, or none.
const int64_t* labels(PyArrayObject* t, npy_intp rows, npy_intp classes) {
    if (!t || PyArray_NDIM(t) != 2 || PyArray_DIM(t, 0) != rows || PyArray_DIM(t, 1) != classes) return nullptr;
    const int64_t* target = (const int64_t*)PyArray_DATA(t);
    uint64_t wrong = 0;
    for (npy_intp k = 0; k < rows * classes; k++) wrong |= (uint64_t)(target[k] + 1) > (uint64_t)classes;
    return wrong ? nullptr : target;
}

void multilabel_losses(const float* x, npy_intp rows, npy_intp classes, const int64_t* target, float* out) {
    static const int number = small_job("multilabel_margin");
    Job job = {};
    job.rt = world.api->runtime;
    job.p[0] = out, job.p[1] = (void*)x, job.p[2] = (void*)target, job.n[0] = classes;
    world.api->jobs()[number].run[0](job, 0, rows);
}

PyObject* multilabel_margin_loss(const Call& c) {
    static const Names<5> names("input", "target", "size_average", "reduce", "reduction");
    PyObject* a[5];
    int reduction;
    Rows r;
    if (!parse(c, names, a) || !a[0] || !a[1] || !absent(a[2]) || !absent(a[3]) || !read_reduction(a[4], reduction)
        || !r.read(a[0], false, alone(FEW)))
        return nullptr;
    PyArrayObject* t = dense_array(a[1]);
    const int64_t* target = t && type_of(a[1]) == INT64 ? labels(t, r.rows, r.classes) : nullptr;
    PyObject* losses = target ? vector_of(r.rows) : nullptr;
    if (!losses) return nullptr;
    multilabel_losses(r.x, r.rows, r.classes, target, (float*)data_of(losses));
    PyObject* loss = finished(losses, r.rows, reduction, (float)r.rows);
    if (!tracked(c, a[0])) return loss;
    PyObject* given[] = {a[0], a[1], word_of(reduction)};
    return recorded(c, given, loss);
}

// ---- of pairs: a formula of x and y, and its slopes

struct Huber { // a square up to the bound, a line beyond it
    float bound, half, width, slope;
    Huber(double delta) : bound((float)delta), half((float)(0.5 * delta)), width(1), slope((float)delta) {}
    Huber(double beta, int) : bound((float)beta), half((float)(0.5 * beta)), width((float)beta), slope(1) {}
    float value(float x, float y) const {
        float size = fabsf(x - y);
        if (bound == 0 && slope == 1) return size;
        return size < bound ? size * size * 0.5f / width : (size - half) * slope;
    }
    float slope_of(float d, double scale) const {
        float sign = d > 0 ? 1.f : d < 0 ? -1.f : 0.f; // of NaN 0
        if (bound == 0) return sign;
        return fabsf(d) < bound ? d * (float)scale : d == d ? sign * slope : d;
    }
};
float tail_of(float x) { return log1pf(expf(-fabsf(x))) + (-x < 0 ? 0.f : -x); } // softplus(-x)
float logistic(float x) {
    if (x >= 0) return 1.f / (1.f + expf(-x));
    float e = expf(x);
    return x == x ? e / (1.f + e) : x;
}
float cut_log(float yes) { return yes < -100.f ? -100.f : yes; }

enum PairKind { HUBER, SMOOTH, LOGITS, SOFT_MARGIN, ANSWERS };

template <class Body> void each_pair(const float* x, const float* y, float* out, npy_intp n, Body body) {
    for (npy_intp k = 0; k < n; k++) out[k] = body(x[k], y[k]);
}

void pair_losses(int kind, double bound, const float* x, const float* y, float* out, npy_intp n) {
    switch (kind) {
    case HUBER: case SMOOTH: {
        Huber h = kind == HUBER ? Huber(bound) : Huber(bound, 0);
        return each_pair(x, y, out, n, [&](float a, float b) { return h.value(a, b); });
    }
    case LOGITS: return each_pair(x, y, out, n, [](float a, float b) { return (1.f - b) * a + tail_of(a); });
    case SOFT_MARGIN: return each_pair(x, y, out, n, [](float a, float b) { return tail_of(b * a); });
    default:
        each_pair(x, y, out, n, [](float a, float b) { return -(b * cut_log(logf(a)) + (1.f - b) * cut_log(log1pf(-a))); });
    }
}

// with respect to x, or to y
void pair_slopes(int kind, bool of_y, double bound, const float* x, const float* y, float* out, npy_intp n) {
    switch (kind) {
    case HUBER: case SMOOTH: {
        Huber h = kind == HUBER ? Huber(bound) : Huber(bound, 0);
        double scale = kind == HUBER ? 1.0 : 1.0 / bound;
        return each_pair(x, y, out, n, [&](float a, float b) { return h.slope_of(of_y ? b - a : a - b, scale); });
    }
    case LOGITS:
        if (of_y) return each_pair(x, y, out, n, [](float a, float) { return -a; });
        return each_pair(x, y, out, n, [](float a, float b) { return logistic(a) - b; });
    case SOFT_MARGIN: return each_pair(x, y, out, n, [&](float a, float b) { return -(of_y ? a : b) * logistic(-(b * a)); });
    default:
        if (of_y) return each_pair(x, y, out, n, [](float a, float) { return log1pf(-a) - logf(a); });
        each_pair(x, y, out, n, [](float a, float b) {
            float spread = a * (1.f - a);
            return (a - b) / (spread < 1e-12f ? 1e-12f : spread);
        });
    }
}

struct Pairs {
    PyArrayObject *x, *y;
    npy_intp n;
    // two rows of floats of one shape
    bool read(PyArrayObject* first, PyArrayObject* second) {
        x = first, y = second, n = PyArray_SIZE(x);
        return n && n <= PAIRS && same_sizes(x, y);
    }
    const float* a() const { return (const float*)PyArray_DATA(x); }
    const float* b() const { return (const float*)PyArray_DATA(y); }
};

// The loss of a pair of tensors; `given`: the record's arguments, of which the first two are the pair.
PyObject* pair_loss(const Call& c, int kind, double bound, int reduction, PyObject* const* given) {
    PyArrayObject *x = given[0] ? dense_array(given[0]) : nullptr, *y = x && given[1] ? dense_array(given[1]) : nullptr;
    Pairs p;
    if (!y || type_of(given[0]) != FLOAT32 || type_of(given[1]) != FLOAT32 || !p.read(x, y)) return nullptr;
    if (kind == ANSWERS)
        for (npy_intp k = 0; k < p.n; k++)
            if (!(p.a()[k] >= 0 && p.a()[k] <= 1 && p.b()[k] >= 0 && p.b()[k] <= 1)) return nullptr;
    PyObject* losses = fresh_array(FLOAT32, PyArray_NDIM(x), PyArray_DIMS(x), nullptr);
    if (!losses) return nullptr;
    pair_losses(kind, bound, p.a(), p.b(), (float*)data_of(losses), p.n);
    PyObject* loss = finished(losses, p.n, reduction, (float)p.n);
    return tracked(c, given[0]) || tracked(c, given[1]) ? recorded(c, given, loss) : loss;
}

bool read_bound(PyObject* x, double& out) { return small_real(x, 1, out) && out >= 0 && out < 1e30; }

PyObject* huber_loss(const Call& c) {
    static const Names<4> names("input", "target", "reduction", "delta");
    PyObject* a[4];
    int reduction;
    double delta;
    if (!parse(c, names, a) || !read_reduction(a[2], reduction) || !read_bound(a[3], delta) || delta == 0) return nullptr;
    Ref bound(PyFloat_FromDouble(delta));
    PyObject* given[] = {a[0], a[1], word_of(reduction), bound.get()};
    return pair_loss(c, HUBER, delta, reduction, given);
}

PyObject* smooth_l1_loss(const Call& c) {
    static const Names<6> names("input", "target", "size_average", "reduce", "reduction", "beta");
    PyObject* a[6];
    int reduction;
    double beta;
    if (!parse(c, names, a) || !absent(a[2]) || !absent(a[3]) || !read_reduction(a[4], reduction) || !read_bound(a[5], beta)) return nullptr;
    Ref bound(PyFloat_FromDouble(beta));
    PyObject* given[] = {a[0], a[1], word_of(reduction), bound.get()};
    return pair_loss(c, SMOOTH, beta, reduction, given);
}

PyObject* soft_margin_loss(const Call& c) {
    static const Names<5> names("input", "target", "size_average", "reduce", "reduction");
    PyObject* a[5];
    int reduction;
    if (!parse(c, names, a) || !absent(a[2]) || !absent(a[3]) || !read_reduction(a[4], reduction)) return nullptr;
    PyObject* given[] = {a[0], a[1], word_of(reduction)};
    return pair_loss(c, SOFT_MARGIN, 0, reduction, given);
}

PyObject* binary_cross_entropy(const Call& c) {
    static const Names<6> names("input", "target", "weight", "size_average", "reduce", "reduction");
    PyObject* a[6];
    int reduction;
    if (!parse(c, names, a) || !absent(a[2]) || !absent(a[3]) || !absent(a[4]) || !read_reduction(a[5], reduction)) return nullptr;
    PyObject* given[] = {a[0], a[1], Py_None, word_of(reduction)};
    return pair_loss(c, ANSWERS, 0, reduction, given);
}

PyObject* binary_cross_entropy_with_logits(const Call& c) {
    static const Names<7> names("input", "target", "weight", "size_average", "reduce", "reduction", "pos_weight");
    PyObject* a[7];
    int reduction;
    if (!parse(c, names, a) || !absent(a[2]) || !absent(a[3]) || !absent(a[4]) || !read_reduction(a[5], reduction) || !absent(a[6]))
        return nullptr;
    PyObject* given[] = {a[0], a[1], Py_None, Py_None, word_of(reduction)};
    return pair_loss(c, LOGITS, 0, reduction, given);
}

// ---- kernels of gradients: arrays in, an array out

// An array of losses, or of their one sum or mean. Steals `losses`.
PyObject* reduced(PyObject* losses, npy_intp n, int reduction) {
    if (!losses || reduction == NONE) return losses;
    float sum = small_row_sum((const float*)data_of(losses), n);
    Py_DECREF(losses);
    return number_array(reduction == MEAN ? sum / (float)n : sum);
}

// The slope of a loss that was reduced: `step` 0 where there is one for all elements.
struct Slope {
    const float* g;
    npy_intp step;
    float scale;
    bool read(PyObject* slope, PyObject* word, int type, npy_intp n) {
        int reduction;
        PyArrayObject* a = row_major(slope, type);
        if (!a || !read_reduction(word, reduction)) return false;
        g = (const float*)PyArray_DATA(a), step = reduction == NONE;
        scale = reduction == MEAN ? (float)n : 1.f;
        return PyArray_SIZE(a) == (step ? n : 1);
    }
    float at(npy_intp k) const { return scale == 1 ? g[k * step] : g[k * step] / scale; }
};

int kind_of_name(PyObject* name) {
    static const char* known[] = {"huber", "smooth", "logits", "soft_margin", "answers"};
    for (int k = 0; PyUnicode_Check(name) && k < 5; k++)
        if (PyUnicode_CompareWithASCIIString(name, known[k]) == 0) return k;
    return -1;
}

// pair_loss(x, target, reduction, kind, bound)
PyObject* py_pair_loss(PyObject*, PyObject* const* args, Py_ssize_t count) {
    PyArrayObject *x = count == 5 ? row_major(args[0], FLOAT32) : nullptr, *y = x ? row_major(args[1], FLOAT32) : nullptr;
    Pairs p;
    int kind = y ? kind_of_name(args[3]) : -1, reduction;
    double bound;
    if (kind < 0 || !p.read(x, y) || !read_reduction(args[2], reduction) || !read_bound(args[4], bound)) return declined();
    PyObject* losses = fresh_array(FLOAT32, PyArray_NDIM(x), PyArray_DIMS(x), nullptr);
    if (losses) pair_losses(kind, bound, p.a(), p.b(), (float*)data_of(losses), p.n);
    return reduced(losses, p.n, reduction);
}

// loss_slope(g, x, target, reduction, kind, of target, bound)
PyObject* py_loss_slope(PyObject*, PyObject* const* args, Py_ssize_t count) {
    PyArrayObject *x = count == 7 ? row_major(args[1], FLOAT32) : nullptr, *y = x ? row_major(args[2], FLOAT32) : nullptr;
    Pairs p;
    Slope g;
    int kind = y ? kind_of_name(args[4]) : -1;
    double bound;
    if (kind < 0 || !p.read(x, y) || !g.read(args[0], args[3], FLOAT32, p.n) || !read_bound(args[6], bound)) return declined();
    PyObject* array = fresh_array(FLOAT32, PyArray_NDIM(x), PyArray_DIMS(x), nullptr);
    if (!array) return nullptr;
    float* out = (float*)data_of(array);
    pair_slopes(kind, args[5] == Py_True, bound, p.a(), p.b(), out, p.n);
    for (npy_intp k = 0; k < p.n; k++) out[k] *= g.at(k);
    return array;
}

// nll_loss_backward(g, target, weight, total, reduction, ignored, classes, type)
PyObject* py_nll_backward(PyObject*, PyObject* const* args, Py_ssize_t count) {
    npy_intp ignored, classes;
    int reduction;
    PyArrayObject *g = count == 8 ? row_major(args[0]) : nullptr, *t = g ? row_major(args[1], INT64, 1) : nullptr,
                  *total = t ? row_major(args[3], FLOAT32, 0) : nullptr;
    int type = total ? element_type(g) : -1;
    if ((type != FLOAT32 && type != FLOAT16 && type != BFLOAT16) || args[2] != Py_None || !read_reduction(args[4], reduction)
        || !small_int(args[5], ignored) || !small_int(args[6], classes) || args[7] != world.types[type].object)
        return declined();
    npy_intp rows = PyArray_DIM(t, 0), sizes[] = {rows, classes};
    if (rows * classes < 1 || rows * classes > FEW || PyArray_SIZE(g) != (reduction == NONE ? rows : 1)) return declined();
    const int64_t* target = (const int64_t*)PyArray_DATA(t);
    for (npy_intp k = 0; k < rows; k++)
        if (target[k] != ignored && (uint64_t)target[k] >= (uint64_t)classes) return declined();
    PyObject* array = fresh_array(type, 2, sizes, nullptr);
    if (!array) return nullptr;
    int bytes = world.types[type].itemsize;
    char* out = (char*)data_of(array);
    memset(out, 0, rows * classes * bytes);
    CastLoop widen_slope = cast_loop(type, FLOAT32), narrow = cast_loop(FLOAT32, type);
    for (npy_intp k = 0; k < rows; k++) {
        if (target[k] == ignored) continue;
        float slope;
        widen_slope((const char*)PyArray_DATA(g) + (reduction == NONE ? k * bytes : 0), bytes, (char*)&slope, 4, 1);
        slope = -(reduction == MEAN ? slope / *(const float*)PyArray_DATA(total) : slope);
        narrow((const char*)&slope, 4, out + (k * classes + target[k]) * bytes, bytes, 1);
    }
    return array;
}

PyArrayObject* class_rows(PyObject* x, npy_intp most) {
    PyArrayObject* a = row_major(x, FLOAT32, 2);
    return a && PyArray_SIZE(a) && PyArray_SIZE(a) <= most ? a : nullptr;
}

// multi_margin(x, target, p, margin, reduction)
PyObject* py_multi_margin(PyObject*, PyObject* const* args, Py_ssize_t count) {
    PyArrayObject *a = count == 5 ? class_rows(args[0], MANY) : nullptr, *t = a ? row_major(args[1], INT64, 1) : nullptr;
    npy_intp rows = a ? PyArray_DIM(a, 0) : 0, classes = a ? PyArray_DIM(a, 1) : 0, power;
    double margin;
    int reduction;
    if (!t || PyArray_DIM(t, 0) != rows || !small_int(args[2], power) || !small_real(args[3], 1, margin)
        || !read_reduction(args[4], reduction) || !all_within((const int64_t*)PyArray_DATA(t), rows, classes))
        return declined();
    PyObject* losses = vector_of(rows);
    if (losses)
        margin_losses((const float*)PyArray_DATA(a), rows, classes, (const int64_t*)PyArray_DATA(t), power, margin, (float*)data_of(losses));
    return reduced(losses, rows, reduction);
}

// multilabel_margin(x, target, reduction)
PyObject* py_multilabel_margin(PyObject*, PyObject* const* args, Py_ssize_t count) {
    PyArrayObject* a = count == 3 ? class_rows(args[0], alone(FEW)) : nullptr;
    npy_intp rows = a ? PyArray_DIM(a, 0) : 0, classes = a ? PyArray_DIM(a, 1) : 0;
    const int64_t* target = a ? labels(row_major(args[1], INT64, 2), rows, classes) : nullptr;
    int reduction;
    if (!target || !read_reduction(args[2], reduction)) return declined();
    PyObject* losses = vector_of(rows);
    if (losses) multilabel_losses((const float*)PyArray_DATA(a), rows, classes, target, (float*)data_of(losses));
    return reduced(losses, rows, reduction);
}

// multi_margin_backward(g, x, target, p, margin, reduction)
PyObject* py_multi_margin_backward(PyObject*, PyObject* const* args, Py_ssize_t count) {
    PyArrayObject *a = count == 6 ? class_rows(args[1], MANY) : nullptr, *t = a ? row_major(args[2], INT64, 1) : nullptr;
    npy_intp rows = a ? PyArray_DIM(a, 0) : 0, classes = a ? PyArray_DIM(a, 1) : 0, power;
    double margin;
    Slope g;
    if (!t || PyArray_DIM(t, 0) != rows || !small_int(args[3], power) || !small_real(args[4], 1, margin)
        || !g.read(args[0], args[5], FLOAT32, rows))
        return declined();
    const int64_t* target = (const int64_t*)PyArray_DATA(t);
    if (!all_within(target, rows, classes)) return declined();
    PyObject* array = fresh_array(FLOAT32, 2, PyArray_DIMS(a), nullptr);
    if (!array) return nullptr;
    const float* x = (const float*)PyArray_DATA(a);
    float* out = (float*)data_of(array);
    for (npy_intp k = 0; k < rows; k++, x += classes, out += classes) {
        float slope = g.at(k) / (float)classes, room = (float)margin - x[target[k]], total = 0;
        for (npy_intp j = 0; j < classes; j++) {
            float gap = room + x[j], own = !(gap > 0) || j == target[k] ? 0 : power == 1 ? slope : 2 * slope * gap;
            out[j] = own, total += own;
        }
        out[target[k]] = -total;
    }
    return array;
}

// multilabel_margin_backward(g, x, target, reduction)
PyObject* py_multilabel_margin_backward(PyObject*, PyObject* const* args, Py_ssize_t count) {
    static const int number = small_job("multilabel_margin_back");
    PyArrayObject* a = count == 4 ? class_rows(args[1], alone(FEW)) : nullptr;
    npy_intp rows = a ? PyArray_DIM(a, 0) : 0, classes = a ? PyArray_DIM(a, 1) : 0;
    const int64_t* target = a ? labels(row_major(args[2], INT64, 2), rows, classes) : nullptr;
    Slope g;
    if (!target || !g.read(args[0], args[3], FLOAT32, rows)) return declined();
    PyObject* array = fresh_array(FLOAT32, 2, PyArray_DIMS(a), nullptr);
    if (!array) return nullptr;
    float slope = g.at(0);
    Job job = {};
    job.rt = world.api->runtime;
    job.p[0] = data_of(array), job.p[1] = g.step ? (void*)g.g : &slope, job.p[2] = PyArray_DATA(a), job.p[3] = (void*)target;
    job.n[0] = classes, job.n[1] = g.step;
    world.api->jobs()[number].run[0](job, 0, rows);
    return array;
}

PyMethodDef functions[] = {
    {"pair_loss", (PyCFunction)(void*)py_pair_loss, METH_FASTCALL, "pair_loss(x, target, reduction, kind, bound)"},
    {"multi_margin", (PyCFunction)(void*)py_multi_margin, METH_FASTCALL, "multi_margin(x, target, p, margin, reduction)"},
    {"multilabel_margin", (PyCFunction)(void*)py_multilabel_margin, METH_FASTCALL, "multilabel_margin(x, target, reduction)"},
    {"loss_slope", (PyCFunction)(void*)py_loss_slope, METH_FASTCALL, "loss_slope(g, x, target, reduction, kind, of target, bound)"},
    {"nll_loss_backward", (PyCFunction)(void*)py_nll_backward, METH_FASTCALL,
        "nll_loss_backward(g, target, weight, total, reduction, ignored, classes, type)"},
    {"multi_margin_backward", (PyCFunction)(void*)py_multi_margin_backward, METH_FASTCALL,
        "multi_margin_backward(g, x, target, p, margin, reduction)"},
    {"multilabel_margin_backward", (PyCFunction)(void*)py_multilabel_margin_backward, METH_FASTCALL,
        "multilabel_margin_backward(g, x, target, reduction)"},
    {nullptr, nullptr, 0, nullptr}};

}

const SmallEntry small_losses[] = {{"nll_loss", nll_loss}, {"cross_entropy", cross_entropy}, {"multi_margin_loss", multi_margin_loss},
    {"multilabel_margin_loss", multilabel_margin_loss}, {"huber_loss", huber_loss}, {"smooth_l1_loss", smooth_l1_loss},
    {"soft_margin_loss", soft_margin_loss}, {"binary_cross_entropy", binary_cross_entropy},
    {"binary_cross_entropy_with_logits", binary_cross_entropy_with_logits}, {nullptr, nullptr}};

bool add_losses(PyObject* module) { return PyModule_AddFunctions(module, functions) == 0; }
