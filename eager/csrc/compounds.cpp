// Functions of several steps in one call each, for dense tensors whose call is not recorded:
// normalisation of groups and batches, small products of matrices, medians and modes.
#include "gradients.h"

#include <math.h>
#include <string.h>

#include <algorithm>
#include <initializer_list>
#include <vector>

#include "../../runtime/csrc/job.h"
#include "dense.h"

namespace {

constexpr npy_intp FEW = 1 << 14, MANY = 1 << 22;


// A dense tensor that asks for no gradient in this call.
PyArrayObject* operand(const Call& c, PyObject* x) {
    PyArrayObject* a = x ? dense_array(x) : nullptr;
    return a && !(c.grad && needs_grad(x)) ? a : nullptr;
}
PyArrayObject* operand(const Call& c, PyObject* x, int type, int dims) {
    PyArrayObject* a = operand(c, x);
    return a && type_of(x) == type && PyArray_NDIM(a) == dims ? a : nullptr;
}
// The same where the tensor may be missing.
bool optional_vector(const Call& c, PyObject* x, npy_intp n, const float*& out, bool tracked = false) {
    out = nullptr;
    if (absent(x)) return true;
    PyArrayObject* a = tracked ? dense_array(x) : operand(c, x);
    if (!a || type_of(x) != FLOAT32 || PyArray_NDIM(a) != 1 || PyArray_DIM(a, 0) != n) return false;
    out = (const float*)PyArray_DATA(a);
    return true;
}
bool is_one(PyObject* x) {
    double v;
    return small_real(x, 1, v) && v == 1;
}


// ---- normalisation

// The sum of x, and of the squares of x - centre, in lanes of floats that are added up in doubles now and then.
FB_EACH_MACHINE void sums_of(const float* x, npy_intp n, float centre, double* sum, double* squares) {
    constexpr int lanes = 32;
    double first = 0, second = 0;
    for (npy_intp k = 0; k < n;) {
        npy_intp stop = n - k > 4096 ? k + 4096 : n;
        float a[lanes] = {}, b[lanes] = {};
        for (; k + lanes <= stop; k += lanes)
            for (int j = 0; j < lanes; j++) {
                float v = x[k + j] - centre;
                a[j] += v, b[j] += v * v;
            }
        for (; k < stop; k++) {
            float v = x[k] - centre;
            a[0] += v, b[0] += v * v;
        }
        for (int j = 0; j < lanes; j++) first += a[j], second += b[j];
    }
    *sum += first, *squares += second;
}
FB_EACH_MACHINE void line_of(const float* x, float* out, npy_intp n, float centre, float scale, float shift) {
    for (npy_intp k = 0; k < n; k++) out[k] = (x[k] - centre) * scale + shift;
}

// (x - mean) * scale + bias for a plane. The mean is taken into the offset but where it is beyond one deviation, where the
// offset would be large and lose more.
void normalise(const float* x, float* out, npy_intp n, double mean, double rstd, double weight, double bias) {
    double near = fabs(mean) * rstd > 1 ? 0 : mean, scale = rstd * weight;
    line_of(x, out, n, (float)(mean - near), (float)scale, (float)(bias - near * scale));
}

// What a normalisation's node keeps beside its result: the moments.
struct KeptMoments {
    Ref mean, var;
    bool wanted = false;
    bool make(const Call& c, std::initializer_list<PyObject*> operands, int dims, const npy_intp* sizes) {
        for (PyObject* t : operands) wanted = wanted || (c.grad && t && t != Py_None && needs_grad(t));
        if (!wanted) return true;
        mean = Ref(fresh_array(FLOAT32, dims, sizes, nullptr)), var = Ref(fresh_array(FLOAT32, dims, sizes, nullptr));
        return mean && var;
    }
    void put(npy_intp k, double m, double v) {
        if (wanted) ((float*)data_of(mean.get()))[k] = (float)m, ((float*)data_of(var.get()))[k] = (float)v;
    }
    // The node of a record whose outputs are the result, the mean and the variance. Steals `array`.
    PyObject* recorded(const char* name, PyObject* const* given, int count, PyObject* array) {
        Ref out(tensor_around(array, FLOAT32));
        if (!out || !wanted) return out.release();
        Ref m(tensor_around(mean.release(), FLOAT32)), v(tensor_around(var.release(), FLOAT32));
        PyObject* outs[] = {out.get(), m.get(), v.get()};
        KeptRecord* known = kept_record(name);
        return m && v && record(known->op, known->needs, given, count, leading(given, count), outs, 3) ? out.release() : nullptr;
    }
    static unsigned leading(PyObject* const* given, int count) {
        unsigned mask = 0;
        for (int k = 0; k < count; k++)
            if (is_tensor(given[k]) && needs_grad(given[k])) mask |= 1u << k;
        return mask;
    }
};
PyObject* or_none(PyObject* x) { return x ? x : Py_None; }

PyObject* group_norm(const Call& c) {
    static const Names<5> names("input", "num_groups", "weight", "bias", "eps");
    PyObject* a[5];
    npy_intp groups;
    double eps;
    const float *weight, *bias;
    if (!parse(c, names, a) || !a[0] || !a[1] || !small_int(a[1], groups) || groups < 1 || !small_real(a[4], 1e-5, eps)) return nullptr;
    PyArrayObject* x = dense_array(a[0]);
    int dims = x ? PyArray_NDIM(x) : 0;
    if (dims < 2 || type_of(a[0]) != FLOAT32 || !PyArray_SIZE(x) || PyArray_SIZE(x) > 1 << 18) return nullptr;
    npy_intp batch = PyArray_DIM(x, 0), channels = PyArray_DIM(x, 1), plane = PyArray_SIZE(x) / (batch * channels), each = channels / groups;
    if (channels % groups || batch * each * plane == 1 || !optional_vector(c, a[2], channels, weight, true)
        || !optional_vector(c, a[3], channels, bias, true))
        return nullptr;
    KeptMoments kept;
    npy_intp pair[] = {batch, groups};
    if (!kept.make(c, {a[0], a[2], a[3]}, 2, pair)) return nullptr;
    PyObject* array = fresh_array(FLOAT32, dims, PyArray_DIMS(x), nullptr);
    if (!array) return nullptr;
    const float* from = (const float*)PyArray_DATA(x);
    float* out = (float*)data_of(array);
    npy_intp n = each * plane;
    for (npy_intp b = 0; b < batch * groups; b++, from += n, out += n) {
        double sum = 0, squares = 0, rest = 0;
        sums_of(from, n, 0, &sum, &squares);
        double mean = sum / n;
        squares = 0;
        sums_of(from, n, (float)mean, &rest, &squares);
        double rstd = 1 / sqrt(squares / n + eps);
        kept.put(b, mean, squares / n);
        for (npy_intp k = 0; k < each; k++) {
            npy_intp channel = b % groups * each + k;
            normalise(from + k * plane, out + k * plane, plane, mean, rstd, weight ? weight[channel] : 1, bias ? bias[channel] : 0);
        }
    }
    Ref factor(PyFloat_FromDouble(eps));
    PyObject* given[] = {a[0], a[1], or_none(a[2]), or_none(a[3]), factor.get()};
    return kept.recorded("group_norm", given, 5, array);
}

// running becomes running * (1 - momentum) + batch * share
void blend(PyObject* t, const std::vector<float>& batch, double momentum, double share) {
    float* running = (float*)PyArray_DATA(array_of(t));
    float kept = (float)(1 - momentum), taken = (float)(momentum * share);
    for (size_t k = 0; k < batch.size(); k++) running[k] = running[k] * kept + batch[k] * taken;
}

// In training: with the moments of the batch, which move the running ones.
PyObject* trained(const Call& c, PyObject* const* a, PyArrayObject* x, npy_intp batch, npy_intp channels, npy_intp plane, double eps,
    const float* weight, const float* bias) {
    double momentum;
    npy_intp count = batch * plane;
    if (!small_real(a[6], 0.1, momentum) || count < 2 || !small_writable(a[1], c.grad) || !small_writable(a[2], c.grad) || a[1] == a[2])
        return nullptr;
    KeptMoments kept;
    if (!kept.make(c, {a[0], a[3], a[4]}, 1, &channels)) return nullptr;
    PyObject* array = fresh_array(FLOAT32, PyArray_NDIM(x), PyArray_DIMS(x), nullptr);
    if (!array) return nullptr;
    const float* from = (const float*)PyArray_DATA(x);
    float* out = (float*)data_of(array);
    std::vector<float> means(channels), vars(channels);
    for (npy_intp k = 0; k < channels; k++) {
        double sum = 0, squares = 0, rest = 0;
        for (npy_intp b = 0; b < batch; b++) sums_of(from + (b * channels + k) * plane, plane, 0, &sum, &squares);
        double mean = sum / count;
        squares = 0;
        for (npy_intp b = 0; b < batch; b++) sums_of(from + (b * channels + k) * plane, plane, (float)mean, &rest, &squares);
        kept.put(k, mean, squares / count);
        means[k] = (float)mean, vars[k] = (float)(squares / count);
        double rstd = 1 / sqrt(squares / count + eps);
        for (npy_intp b = 0; b < batch; b++)
            normalise(from + (b * channels + k) * plane, out + (b * channels + k) * plane, plane, mean, rstd, weight ? weight[k] : 1,
                bias ? bias[k] : 0);
    }
    blend(a[1], means, momentum, 1), blend(a[2], vars, momentum, (double)count / (double)(count - 1));
    Ref factor(PyFloat_FromDouble(eps));
    PyObject* given[] = {a[0], or_none(a[3]), or_none(a[4]), factor.get()};
    Ref made(kept.recorded("batch_norm", given, 4, array));
    return made && bump(a[1]) && bump(a[2]) ? made.release() : nullptr;
}

PyObject* batch_norm(const Call& c) {
    static const Names<8> names("input", "running_mean", "running_var", "weight", "bias", "training", "momentum", "eps");
    PyObject* a[8];
    bool training;
    double eps;
    const float *mean, *var, *weight, *bias;
    if (!parse(c, names, a) || !a[0] || absent(a[1]) || absent(a[2]) || !flag_of(a[5], training) || !small_real(a[7], 1e-5, eps))
        return nullptr;
    PyArrayObject* x = dense_array(a[0]);
    int dims = x ? PyArray_NDIM(x) : 0;
    if (dims < 2 || type_of(a[0]) != FLOAT32 || !PyArray_SIZE(x) || PyArray_SIZE(x) > 1 << 17) return nullptr;
    npy_intp batch = PyArray_DIM(x, 0), channels = PyArray_DIM(x, 1), plane = PyArray_SIZE(x) / (batch * channels);
    if (!optional_vector(c, a[1], channels, mean) || !optional_vector(c, a[2], channels, var) || !optional_vector(c, a[3], channels, weight, true)
        || !optional_vector(c, a[4], channels, bias, true))
        return nullptr;
    if (training) return PyArray_SIZE(x) > FEW ? nullptr : trained(c, a, x, batch, channels, plane, eps, weight, bias);
    PyObject* array = fresh_array(FLOAT32, dims, PyArray_DIMS(x), nullptr);
    if (!array) return nullptr;
    const float* from = (const float*)PyArray_DATA(x);
    float* out = (float*)data_of(array);
    for (npy_intp b = 0; b < batch; b++)
        for (npy_intp k = 0; k < channels; k++, from += plane, out += plane)
            normalise(from, out, plane, mean[k], 1 / sqrt((double)var[k] + eps), weight ? weight[k] : 1, bias ? bias[k] : 0);
    Ref made(tensor_around(array, FLOAT32)), factor(PyFloat_FromDouble(eps));
    PyObject* given[] = {a[0], a[1], a[2], or_none(a[3]), or_none(a[4]), factor.get()};
    unsigned leads = c.grad ? KeptMoments::leading(given, 6) : 0;
    static KeptRecord* record_of = kept_record("batch_norm_eval");
    return made && (!leads || record(record_of->op, record_of->needs, given, 6, leads, made.get())) ? made.release() : nullptr;
}

// ---- products

// out[b] = x[b] y[b], of floats by the runtime's template, of whole numbers by a loop
bool multiply(int type, const void* x, const void* y, void* out, npy_intp batch, npy_intp m, npy_intp k, npy_intp n) {
    if (type == INT64) {
        memset(out, 0, batch * m * n * 8);
        const uint64_t *a = (const uint64_t*)x, *b = (const uint64_t*)y;
        uint64_t* to = (uint64_t*)out;
        for (npy_intp s = 0; s < batch; s++, b += k * n)
            for (npy_intp i = 0; i < m; i++, a += k, to += n)
                for (npy_intp l = 0; l < k; l++)
                    for (npy_intp j = 0; j < n; j++) to[j] += a[l] * b[l * n + j];
        return true;
    }
    if (kernel_type(type) < 0) return false;
    FbGemm g = {};
    g.a = x, g.b = y, g.out = out;
    g.a_type = g.b_type = g.out_type = kernel_type(type);
    g.batch_dims = 1, g.batch[0] = batch;
    g.a_batch[0] = m * k, g.b_batch[0] = k * n, g.out_batch[0] = m * n;
    g.M = m, g.N = n, g.K = k;
    g.a_m = k, g.a_k = 1, g.b_k = n, g.b_n = 1, g.out_m = n, g.out_n = 1;
    world.api->runtime->gemm(&g);
    return true;
}

struct Product {
    PyArrayObject *x, *y;
    Ref copies[2]; // of operands that are not dense
    int type;
    PyArrayObject* dense(const Call& c, PyObject* t, Ref& copy) {
        if (PyArrayObject* have = operand(c, t)) return have;
        PyArrayObject* a = t && is_plain(t) && is_cpu(t) && !(c.grad && needs_grad(t)) ? array_of(t) : nullptr;
        if (!a || !PyArray_ISALIGNED(a) || PyArray_SIZE(a) > FEW) return nullptr;
        copy = Ref(PyArray_NewCopy(a, NPY_CORDER));
        return (PyArrayObject*)copy.get();
    }
    npy_intp sizes[3], k;
    bool read(const Call& c, PyObject* first, PyObject* second, int dims, bool halves = false) {
        x = dense(c, first, copies[0]), y = x ? dense(c, second, copies[1]) : nullptr;
        if (!y || PyArray_NDIM(x) != dims || PyArray_NDIM(y) != dims || (type = type_of(first)) != type_of(second)) return false;
        npy_intp batch = dims == 3 ? PyArray_DIM(x, 0) : 1;
        sizes[0] = batch, sizes[1] = PyArray_DIM(x, dims - 2), sizes[2] = PyArray_DIM(y, dims - 1), k = PyArray_DIM(x, dims - 1);
        if ((dims == 3 && PyArray_DIM(y, 0) != batch) || PyArray_DIM(y, dims - 2) != k) return false;
        npy_intp work = batch * sizes[1] * sizes[2];
        return work && k && work <= FEW && k <= FEW && work * k <= 1 << 18
            && (type == FLOAT32 || type == FLOAT64 || type == INT64 || (halves && (type == FLOAT16 || type == BFLOAT16)));
    }
    PyObject* run(int dims) const {
        PyObject* array = fresh_array(type, dims, sizes + 3 - dims, nullptr);
        if (array) multiply(type, PyArray_DATA(x), PyArray_DATA(y), data_of(array), sizes[0], sizes[1], k, sizes[2]);
        return array;
    }
};

PyObject* bmm(const Call& c) {
    static const Names<2> names("input", "mat2");
    PyObject* a[2];
    Product p;
    return parse(c, names, a) && p.read(c, a[0], a[1], 3, true) ? tensor_around(p.run(3), p.type) : nullptr;
}

// input + product, both factors 1
template <int dims> PyObject* add_product(const Call& c) {
    static const Names<5> names("input", dims == 3 ? "batch1" : "mat1", dims == 3 ? "batch2" : "mat2", "beta", "alpha");
    PyObject* a[5];
    Product p;
    if (c.n > 3 || !parse(c, names, a) || !is_one(a[3]) || !is_one(a[4]) || !p.read(c, a[1], a[2], dims) || p.type == INT64) return nullptr;
    PyArrayObject* z = operand(c, a[0]);
    if (!z || type_of(a[0]) != p.type) return nullptr;
    int own = PyArray_NDIM(z);
    bool row = own == 1 && PyArray_DIM(z, 0) == p.sizes[2];
    if (!row && (own != dims || !PyArray_CompareLists(PyArray_DIMS(z), p.sizes + 3 - dims, dims))) return nullptr;
    PyObject* array = p.run(dims);
    if (!array) return nullptr;
    npy_intp n = p.sizes[0] * p.sizes[1], m = p.sizes[2];
    auto add = [&](auto e) {
        typedef decltype(e) T;
        T* out = (T*)data_of(array);
        const T* more = (const T*)PyArray_DATA(z);
        for (npy_intp i = 0; i < n; i++)
            for (npy_intp j = 0; j < m; j++) out[i * m + j] += more[row ? j : i * m + j];
    };
    p.type == FLOAT32 ? add(float{}) : add(double{});
    return tensor_around(array, p.type);
}

template <class Body> bool by_number(int type, Body body) {
    switch (type) {
    case FLOAT32: return body(float{}), true;
    case FLOAT64: return body(double{}), true;
    case INT64: return body(uint64_t{}), true;
    default: return false;
    }
}

// The node of a record whose first two operands may need gradients. Steals `out`.
PyObject* pair_recorded(const Call& c, KeptRecord* kept, PyObject* const* given, int count, PyObject* out) {
    Ref made(out);
    unsigned mask = c.grad && out ? needs_grad(given[0]) | needs_grad(given[1]) << 1 : 0;
    return !mask || record(kept->op, kept->needs, given, count, mask, out) ? made.release() : nullptr;
}

PyObject* cross(const Call& c) {
    static const Names<3> names("input", "other", "dim");
    PyObject* a[3];
    if (!parse(c, names, a)) return nullptr;
    PyArrayObject *x = a[0] ? dense_array(a[0]) : nullptr, *y = x && a[1] ? dense_array(a[1]) : nullptr;
    int dims = y ? PyArray_NDIM(x) : 0, type = y ? type_of(a[0]) : -1, d = 0;
    if (!dims || type_of(a[1]) != type || PyArray_NDIM(y) != dims || !PyArray_CompareLists(PyArray_DIMS(x), PyArray_DIMS(y), dims)
        || !PyArray_SIZE(x) || PyArray_SIZE(x) > alone(MANY))
        return nullptr;
    if (absent(a[2]))
        while (d < dims && PyArray_DIM(x, d) != 3) d++;
    else if (!small_dim(a[2], dims, d)) return nullptr;
    if (d == dims || PyArray_DIM(x, d) != 3) return nullptr;
    npy_intp inner = 1;
    for (int k = d + 1; k < dims; k++) inner *= PyArray_DIM(x, k);
    Ref array(fresh_array(type, dims, PyArray_DIMS(x), nullptr));
    if (!array || !by_number(type, [&](auto e) {
            typedef decltype(e) T;
            const T *p = (const T*)PyArray_DATA(x), *q = (const T*)PyArray_DATA(y);
            T* out = (T*)data_of(array.get());
            for (npy_intp o = PyArray_SIZE(x) / (3 * inner); o > 0; o--, p += 3 * inner, q += 3 * inner, out += 3 * inner)
                for (npy_intp i = 0; i < inner; i++) {
                    T x0 = p[i], x1 = p[inner + i], x2 = p[2 * inner + i], y0 = q[i], y1 = q[inner + i], y2 = q[2 * inner + i];
                    out[i] = x1 * y2 - x2 * y1, out[inner + i] = x2 * y0 - x0 * y2, out[2 * inner + i] = x0 * y1 - x1 * y0;
                }
        }))
        return nullptr;
    Ref made(tensor_around(array.release(), type)), number(PyLong_FromLong(d));
    PyObject* given[] = {a[0], a[1], number.get()};
    return pair_recorded(c, kept_record("cross"), given, 3, made.release());
}

PyObject* kron(const Call& c) {
    PyArrayObject *x = c.n == 2 && !c.names ? dense_array(c.args[0]) : nullptr, *y = x ? dense_array(c.args[1]) : nullptr;
    int type = y ? type_of(c.args[0]) : -1;
    if (!y || PyArray_NDIM(x) != 2 || PyArray_NDIM(y) != 2 || type_of(c.args[1]) != type || !PyArray_SIZE(x) || !PyArray_SIZE(y)
        || PyArray_SIZE(x) > FEW / PyArray_SIZE(y))
        return nullptr;
    npy_intp m = PyArray_DIM(x, 0), n = PyArray_DIM(x, 1), k = PyArray_DIM(y, 0), l = PyArray_DIM(y, 1), sizes[] = {m * k, n * l};
    Ref array(fresh_array(type, 2, sizes, nullptr));
    if (!array || !by_number(type, [&](auto e) {
            typedef decltype(e) T;
            const T *p = (const T*)PyArray_DATA(x), *q = (const T*)PyArray_DATA(y);
            T* out = (T*)data_of(array.get());
            for (npy_intp i = 0; i < m; i++)
                for (npy_intp r = 0; r < k; r++)
                    for (npy_intp j = 0; j < n; j++)
                        for (npy_intp s = 0; s < l; s++) *out++ = p[i * n + j] * q[r * l + s];
        }))
        return nullptr;
    return pair_recorded(c, kept_record("kron"), c.args, 2, tensor_around(array.release(), type));
}

// ---- functions of elements: dense floats, in one loop

bool floats_of(const Call& c, PyObject* t, PyArrayObject*& x) {
    x = operand(c, t);
    return x && type_of(t) == FLOAT32 && PyArray_SIZE(x) && PyArray_SIZE(x) <= alone(1 << 19);
}
bool pair_of_floats(const Call& c, PyObject* s, PyObject* t, PyArrayObject*& x, PyArrayObject*& y) {
    return floats_of(c, s, x) && floats_of(c, t, y) && PyArray_NDIM(x) == PyArray_NDIM(y)
        && PyArray_CompareLists(PyArray_DIMS(x), PyArray_DIMS(y), PyArray_NDIM(x));
}
template <class Body> PyObject* float_map(PyArrayObject* x, Body body) {
    PyObject* array = fresh_array(FLOAT32, PyArray_NDIM(x), PyArray_DIMS(x), nullptr);
    if (array) body((float*)data_of(array), (const float*)PyArray_DATA(x), PyArray_SIZE(x));
    return tensor_around(array, FLOAT32);
}

FB_EACH_MACHINE void between_run(float* out, const float* x, const float* y, npy_intp n, float weight, bool near) {
    float rest = 1.f - weight;
    if (near)
        for (npy_intp k = 0; k < n; k++) out[k] = x[k] + (y[k] - x[k]) * weight;
    else
        for (npy_intp k = 0; k < n; k++) out[k] = y[k] - (y[k] - x[k]) * rest;
}
PyObject* lerp(const Call& c) {
    static const Names<3> names("input", "end", "weight");
    PyObject *a[3];
    PyArrayObject *x, *y;
    double weight;
    if (!parse(c, names, a) || !a[2] || !PyFloat_CheckExact(a[2]) || !small_real(a[2], 0, weight) || !(fabs(weight) < 1e30)
        || !pair_of_floats(c, a[0], a[1], x, y))
        return nullptr;
    return float_map(x, [&](float* out, const float* from, npy_intp n) {
        between_run(out, from, (const float*)PyArray_DATA(y), n, (float)weight, fabsf((float)weight) < 0.5f);
    });
}

FB_EACH_MACHINE void sign_from_run(uint32_t* out, const uint32_t* x, const uint32_t* y, npy_intp n) {
    for (npy_intp k = 0; k < n; k++) out[k] = (x[k] & 0x7fffffffu) | (y[k] & 0x80000000u);
}
// (the sign of NaN is the Python path's affair)
FB_EACH_MACHINE bool no_nan(const float* x, npy_intp n) {
    uint32_t odd = 0;
    for (npy_intp k = 0; k < n; k++) odd |= (uint32_t)(x[k] != x[k]);
    return !odd;
}
PyObject* copysign(const Call& c) {
    PyArrayObject *x, *y;
    if (c.n != 2 || c.names || !pair_of_floats(c, c.args[0], c.args[1], x, y) || !no_nan((const float*)PyArray_DATA(y), PyArray_SIZE(y)))
        return nullptr;
    return float_map(x, [&](float* out, const float* from, npy_intp n) {
        sign_from_run((uint32_t*)out, (const uint32_t*)from, (const uint32_t*)PyArray_DATA(y), n);
    });
}

FB_EACH_MACHINE void next_run(float* out, const float* x, const float* y, npy_intp n) {
    for (npy_intp k = 0; k < n; k++) {
        float a = x[k], b = y[k];
        uint32_t bits, least, target;
        __builtin_memcpy(&bits, &a, 4), __builtin_memcpy(&target, &b, 4);
        least = (target & 0x80000000u) | 1u;
        uint32_t step = (a < b) == (a > 0) ? bits + 1 : bits - 1;
        uint32_t moved = a == 0 ? least : step;
        moved = a == b ? target : moved;
        float made, odd = a + b;
        __builtin_memcpy(&made, &moved, 4);
        out[k] = (a != a) | (b != b) ? odd : made;
    }
}
PyObject* nextafter(const Call& c) {
    PyArrayObject *x, *y;
    if (c.n != 2 || c.names || !pair_of_floats(c, c.args[0], c.args[1], x, y)) return nullptr;
    return float_map(x, [&](float* out, const float* from, npy_intp n) { next_run(out, from, (const float*)PyArray_DATA(y), n); });
}

FB_EACH_MACHINE void plain_numbers(float* out, const float* x, npy_intp n) {
    for (npy_intp k = 0; k < n; k++) {
        float v = x[k] == x[k] ? x[k] : 0.f;
        v = v > 3.4028234663852886e38f ? 3.4028234663852886e38f : v;
        out[k] = v < -3.4028234663852886e38f ? -3.4028234663852886e38f : v;
    }
}
// The same of halves: all ones in the exponent are NaN, with a fraction, or infinite.
FB_EACH_MACHINE void plain_halves(uint16_t* out, const uint16_t* x, npy_intp n, uint16_t top) {
    for (npy_intp k = 0; k < n; k++) {
        uint16_t size = x[k] & 0x7fff, sign = x[k] & 0x8000, most = (uint16_t)(sign | (top - 1));
        out[k] = size < top ? x[k] : size == top ? most : (uint16_t)0;
    }
}
PyObject* nan_to_num(const Call& c) {
    PyArrayObject* x = c.n == 1 && !c.names ? operand(c, c.args[0]) : nullptr;
    int type = x ? type_of(c.args[0]) : -1;
    if (type == FLOAT32 && floats_of(c, c.args[0], x)) return float_map(x, plain_numbers);
    if ((type != FLOAT16 && type != BFLOAT16) || !PyArray_SIZE(x) || PyArray_SIZE(x) > alone(1 << 19)) return nullptr;
    PyObject* array = fresh_array(type, PyArray_NDIM(x), PyArray_DIMS(x), nullptr);
    if (array)
        plain_halves((uint16_t*)data_of(array), (const uint16_t*)PyArray_DATA(x), PyArray_SIZE(x), type == FLOAT16 ? 0x7c00 : 0x7f80);
    return tensor_around(array, type);
}

// ---- images at the places of a grid

PyObject* grid_sample(const Call& c) {
    static const Names<5> names("input", "grid", "mode", "padding_mode", "align_corners");
    static const char *modes[] = {"bilinear", "nearest", "bicubic"}, *paddings[] = {"zeros", "border", "reflection"};
    PyObject* a[5];
    bool align;
    if (!parse(c, names, a) || !a[0] || !a[1] || !a[4] || !flag_of(a[4], align)) return nullptr;
    PyArrayObject *x = operand(c, a[0]), *grid = x ? operand(c, a[1]) : nullptr;
    int type = grid ? type_of(a[0]) : -1, dims = grid ? PyArray_NDIM(x) : 0, mode = 0, padding = 0, n = dims - 2;
    auto among = [](PyObject* word, const char** known, int& out) {
        if (!word) return true;
        for (out = 0; out < 3; out++)
            if (PyUnicode_Check(word) && PyUnicode_CompareWithASCIIString(word, known[out]) == 0) return true;
        return false;
    };
    if ((type != FLOAT32 && type != FLOAT64) || type_of(a[1]) != type || (dims != 4 && dims != 5) || PyArray_NDIM(grid) != dims
        || PyArray_DIM(grid, 0) != PyArray_DIM(x, 0) || PyArray_DIM(grid, dims - 1) != n || !PyArray_SIZE(x) || !PyArray_SIZE(grid)
        || !among(a[2], modes, mode) || !among(a[3], paddings, padding) || (mode == 2 && dims != 4))
        return nullptr;
    npy_intp sizes[MAX_DIMS] = {PyArray_DIM(x, 0), PyArray_DIM(x, 1)}, points = 1, area = 1;
    for (int d = 1; d <= n; d++) points *= sizes[d + 1] = PyArray_DIM(grid, d), area *= PyArray_DIM(x, d + 1);
    if (sizes[0] * sizes[1] * points > FEW) return nullptr;
    PyObject* array = fresh_array(type, dims, sizes, nullptr);
    if (!array) return nullptr;
    static const int number = small_job("grid_sample");
    Job job = {};
    job.rt = world.api->runtime;
    job.p[0] = data_of(array), job.p[1] = PyArray_DATA(x), job.p[2] = PyArray_DATA(grid);
    long numbers[] = {sizes[1], n, PyArray_DIM(x, 2), PyArray_DIM(x, 3), dims == 5 ? PyArray_DIM(x, 4) : 1, points, mode, padding, align, area};
    memcpy(job.n, numbers, sizeof numbers);
    world.api->jobs()[number].run[type == FLOAT64](job, 0, sizes[0] * ((points + 255) / 256));
    return tensor_around(array, type);
}

// ---- attention without a mask

// Queries of a block, as runtime/attention.py has them.
npy_intp block_of(npy_intp length, npy_intp width, npy_intp most) {
    npy_intp rows = (1 << 16) / width;
    rows = rows < most ? rows : most, rows = rows > 12 ? rows : 12;
    npy_intp parts = (length + rows - 1) / rows, each = (length + parts - 1) / parts;
    return (each + 11) / 12 * 12;
}
// The numbers of a run over dense arrays of four dims; the last is the gradient, or stands for one that is not there.
void attention_numbers(Job& job, PyArrayObject* const (&x)[4], bool causal, npy_intp block) {
    long first[] = {PyArray_DIM(x[0], 1), PyArray_DIM(x[0], 2), PyArray_DIM(x[1], 2), PyArray_DIM(x[0], 3), PyArray_DIM(x[2], 3), causal, block, 1};
    memcpy(job.n, first, sizeof first);
    for (int k = 0; k < 4; k++)
        for (int d = 0; d < 3; d++) {
            npy_intp step = 1;
            for (int e = d + 1; e < 4; e++) step *= PyArray_DIM(x[k], e);
            job.n[8 + 3 * k + d] = step;
        }
}

// The node of the record `attention` behind the result, which keeps the sums of the rows.
PyObject* recorded_attention(PyObject* const* a, bool causal, double scale, unsigned mask, PyObject* out, PyObject* lse) {
    static KeptRecord* kept = kept_record("attention");
    npy_intp none = 0;
    Ref result(out), sums(lse), keep(tensor_around(fresh_array(BOOL, 1, &none, nullptr), BOOL)), p(PyFloat_FromDouble(0)), factor(PyFloat_FromDouble(scale));
    if (!result || !sums || !keep || !p || !factor) return nullptr;
    PyObject *given[] = {a[0], a[1], a[2], Py_None, p.get(), causal ? Py_True : Py_False, factor.get()}, *outs[] = {out, lse, keep.get()};
    return record(kept->op, kept->needs, given, 7, mask, outs, 3) ? result.release() : nullptr;
}

PyObject* attention(const Call& c) {
    static const Names<8> names("query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa");
    PyObject* a[8];
    double dropped;
    bool causal, groups;
    if (!parse(c, names, a) || !a[0] || !a[1] || !a[2] || !absent(a[3]) || !small_real(a[4], 0, dropped) || dropped != 0
        || !flag_of(a[5], causal) || !absent(a[6]) || !flag_of(a[7], groups) || groups)
        return nullptr;
    PyArrayObject* x[4];
    unsigned mask = 0;
    for (int k = 0; k < 3; k++) {
        x[k] = a[k] ? dense_array(a[k]) : nullptr;
        if (!x[k] || type_of(a[k]) != FLOAT32 || PyArray_NDIM(x[k]) != 4 || !PyArray_SIZE(x[k])) return nullptr;
        mask |= (unsigned)(c.grad && needs_grad(a[k])) << k;
    }
    npy_intp batch = PyArray_DIM(x[0], 0), heads = PyArray_DIM(x[0], 1), length = PyArray_DIM(x[0], 2), depth = PyArray_DIM(x[0], 3),
             width = PyArray_DIM(x[1], 2), deep = PyArray_DIM(x[2], 3);
    for (int k = 1; k < 3; k++)
        if (PyArray_DIM(x[k], 0) != batch || PyArray_DIM(x[k], 1) != heads || PyArray_DIM(x[k], 2) != width) return nullptr;
    if (PyArray_DIM(x[1], 3) != depth || batch * heads * length * width > FEW * 2) return nullptr;
    npy_intp block = block_of(length, width, causal ? 48 : 96), sizes[] = {batch, heads, length, deep}, sums[] = {batch, heads, length, 1};
    Ref out(fresh_array(FLOAT32, 4, sizes, nullptr)), lse(fresh_array(FLOAT32, 4, sums, nullptr));
    if (!out || !lse) return nullptr;
    static const int number = small_job("attention_forward");
    Job job = {};
    job.rt = world.api->runtime;
    job.p[0] = data_of(out.get()), job.p[1] = data_of(lse.get());
    for (int k = 0; k < 3; k++) job.p[2 + k] = PyArray_DATA(x[k]);
    x[3] = x[0];
    attention_numbers(job, x, causal, block);
    job.f[0] = 1.0 / sqrt((double)depth), job.f[1] = 1.0;
    world.api->jobs()[number].run[0](job, 0, batch * heads * ((length + block - 1) / block));
    PyObject *made = tensor_around(out.release(), FLOAT32), *rows = mask ? tensor_around(lse.release(), FLOAT32) : nullptr;
    return mask ? recorded_attention(a, causal, job.f[0], mask, made, rows) : made;
}

PyObject* attention_back(const Gradients& c) { // (q, k, v, mask, p, causal, scale), outs (out, lse, keep)
    double dropped, scale;
    PyObject *lse = PyList_Check(c.outs) && PyList_GET_SIZE(c.outs) == 3 ? PyList_GET_ITEM(c.outs, 1) : Py_None, *way = PyTuple_GET_ITEM(c.args, 5);
    if (c.grads[0] == Py_None || !is_tensor(lse) || PyTuple_GET_ITEM(c.args, 3) != Py_None || !small_real(PyTuple_GET_ITEM(c.args, 4), 0, dropped)
        || dropped != 0 || !PyBool_Check(way) || !small_real(PyTuple_GET_ITEM(c.args, 6), 1, scale))
        return nullptr;
    PyArrayObject *x[4], *sums = dense_array(lse);
    for (int k = 0; k < 4; k++) {
        PyObject* t = k < 3 ? PyTuple_GET_ITEM(c.args, k) : c.grads[0];
        x[k] = is_tensor(t) ? dense_array(t) : nullptr;
        if (!x[k] || type_of(t) != FLOAT32 || PyArray_NDIM(x[k]) != 4) return nullptr;
    }
    npy_intp batch = PyArray_DIM(x[0], 0), heads = PyArray_DIM(x[0], 1), length = PyArray_DIM(x[0], 2), width = PyArray_DIM(x[1], 2);
    if (!sums || type_of(lse) != FLOAT32 || PyArray_SIZE(sums) != batch * heads * length || batch * heads * length * width > FEW * 2) return nullptr;
    static const int number = small_job("attention_backward");
    Job job = {};
    job.rt = world.api->runtime;
    Ref outs[3];
    for (int k = 0; k < 3; k++) {
        outs[k] = Ref(fresh_array(FLOAT32, 4, PyArray_DIMS(x[k]), nullptr));
        if (!outs[k]) return nullptr;
        job.p[k] = data_of(outs[k].get()), job.p[3 + k] = PyArray_DATA(x[k]);
    }
    job.p[8] = PyArray_DATA(x[3]), job.p[9] = PyArray_DATA(sums);
    attention_numbers(job, x, way == Py_True, block_of(length, width, way == Py_True ? 96 : 256));
    job.f[0] = scale, job.f[1] = 1.0;
    world.api->jobs()[number].run[0](job, 0, batch * heads);
    Ref all(PyTuple_New(7));
    for (int k = 0; all && k < 7; k++) {
        PyObject* one = k < 3 && c.needed >> k & 1 ? tensor_around(outs[k].release(), FLOAT32) : Py_NewRef(Py_None);
        if (!one) return nullptr;
        PyTuple_SET_ITEM(all.get(), k, one);
    }
    return all.release();
}

// ---- places in the order of rows

template <class Body> bool by_ordered(int type, Body body) {
    switch (type) {
    case FLOAT32: return body(float{}), true;
    case FLOAT64: return body(double{}), true;
    case INT64: return body(int64_t{}), true;
    case INT32: return body(int32_t{}), true;
    default: return false;
    }
}
template <class T> bool any_odd(const T* x, npy_intp n) {
    uint32_t odd = 0;
    for (npy_intp k = 0; k < n; k++) odd |= (uint32_t)(x[k] != x[k]);
    return odd;
}

template <class T> npy_intp count_less(const T* x, npy_intp n, T what) {
    npy_intp count = 0;
    for (npy_intp k = 0; k < n; k++) count += x[k] < what;
    return count;
}

// Rows along the last dim; NaN has an order of its own, which is left to the Python path.
struct Lines {
    PyArrayObject* x;
    int type;
    npy_intp rows, n;
    bool read(const Call& c, PyObject* t, PyObject* dim, npy_intp limit) {
        x = operand(c, t);
        int d = 0, dims = x ? PyArray_NDIM(x) : 0;
        if (!dims || !PyArray_SIZE(x) || PyArray_SIZE(x) > limit || (dim && !small_dim(dim, dims, d)) || (dim && d != dims - 1)) return false;
        type = type_of(t), n = PyArray_DIM(x, dims - 1), rows = PyArray_SIZE(x) / n;
        bool odd = false;
        return by_ordered(type, [&](auto e) { odd = any_odd((const decltype(e)*)PyArray_DATA(x), PyArray_SIZE(x)); }) && !odd;
    }
    // body(row, its value, its place), into a pair of tensors without the last dim
    template <class Body> PyObject* pairs(const Call& c, Body body) const {
        int dims = PyArray_NDIM(x) - 1;
        Ref values(fresh_array(type, dims, PyArray_DIMS(x), nullptr)), places(fresh_array(INT64, dims, PyArray_DIMS(x), nullptr));
        if (!values || !places) return nullptr;
        by_ordered(type, [&](auto e) {
            typedef decltype(e) T;
            const T* from = (const T*)PyArray_DATA(x);
            for (npy_intp r = 0; r < rows; r++, from += n) body(from, (T*)data_of(values.get()) + r, (int64_t*)data_of(places.get()) + r);
        });
        return pair_of(tensor_around(values.release(), type), tensor_around(places.release(), INT64), c.self->pair);
    }
    // the element with `k` before it, and of equals the one that stands at its turn
    PyObject* picked(const Call& c, npy_intp k) const {
        return pairs(c, [&](const auto* row, auto* value, int64_t* place) {
            std::vector<std::decay_t<decltype(*row)>> all(row, row + n);
            std::nth_element(all.begin(), all.begin() + k, all.end());
            auto found = all[k];
            npy_intp before = count_less(row, n, found), at = 0;
            while (row[at] != found || before++ != k) at++;
            *place = at, *value = row[at];
        });
    }
};

PyObject* kthvalue(const Call& c) {
    static const Names<3> names("input", "k", "dim");
    PyObject* a[3];
    npy_intp k;
    Lines l;
    return parse(c, names, a) && a[1] && small_int(a[1], k) && l.read(c, a[0], a[2], alone(MANY))
            && (a[2] || PyArray_NDIM(l.x) == 1) && k >= 1 && k <= l.n
        ? l.picked(c, k - 1)
        : nullptr;
}

// The element of an array with `k` before it, into an array of one: numpy's selection, which is vectorised where the machine allows.
bool partitioned(PyArrayObject* x, npy_intp k, PyObject* one) {
    Ref all(PyArray_Flatten(x, NPY_CORDER)), at(PyArray_SimpleNewFromData(0, nullptr, NPY_INTP, &k));
    if (!all || !at || PyArray_Partition((PyArrayObject*)all.get(), (PyArrayObject*)at.get(), 0, NPY_INTROSELECT) < 0) return false;
    int item = (int)PyArray_ITEMSIZE(x);
    memcpy(data_of(one), (const char*)data_of(all.get()) + k * item, item);
    return true;
}

PyObject* median(const Call& c) {
    static const Names<2> names("input", "dim");
    PyObject* a[2];
    Lines l;
    if (!parse(c, names, a) || (a[1] && a[1] == Py_None)) return nullptr;
    if (a[1]) return l.read(c, a[0], a[1], alone(MANY)) ? l.picked(c, (l.n + 1) / 2 - 1) : nullptr;
    if (!l.read(c, a[0], nullptr, 1l << 40)) return nullptr;
    npy_intp n = l.rows * l.n, middle = (n - 1) / 2;
    Ref array(fresh_array(l.type, 0, nullptr, nullptr));
    if (!array) return nullptr;
    if (n > FEW) return partitioned(l.x, middle, array.get()) ? tensor_around(array.release(), l.type) : nullptr;
    by_ordered(l.type, [&](auto e) {
        typedef decltype(e) T;
        const T* from = (const T*)PyArray_DATA(l.x);
        std::vector<T> all(from, from + n);
        std::nth_element(all.begin(), all.begin() + middle, all.end());
        *(T*)data_of(array.get()) = all[middle];
    });
    return tensor_around(array.release(), l.type);
}

// The most frequent value, of several the smallest, and the last place where it stands.
PyObject* mode(const Call& c) {
    static const Names<2> names("input", "dim");
    PyObject* a[2];
    Lines l;
    if (!parse(c, names, a) || !l.read(c, a[0], a[1], FEW) || (!a[1] && PyArray_NDIM(l.x) != 1)) return nullptr;
    return l.pairs(c, [&](const auto* row, auto* value, int64_t* place) {
        std::vector<std::decay_t<decltype(*row)>> sorted(row, row + l.n);
        std::sort(sorted.begin(), sorted.end());
        npy_intp most = 0, length = 0;
        auto best = sorted[0];
        for (npy_intp k = 0; k < l.n; k++) {
            length = k && sorted[k] == sorted[k - 1] ? length + 1 : 1;
            if (length > most) most = length, best = sorted[k];
        }
        npy_intp at = l.n - 1;
        while (row[at] != best) at--;
        *place = at, *value = row[at];
    });
}

}

const KnownGradient compound_gradients[] = {{"attention", "*", attention_back}, {nullptr, nullptr, nullptr}};

const SmallEntry small_compounds[] = {{"group_norm", group_norm}, {"batch_norm", batch_norm}, {"bmm", bmm},
    {"addmm", add_product<2>}, {"baddbmm", add_product<3>}, {"cross", cross}, {"kron", kron}, {"kthvalue", kthvalue},
    {"median", median}, {"mode", mode}, {"lerp", lerp}, {"copysign", copysign}, {"nextafter", nextafter},
    {"nan_to_num", nan_to_num}, {"grid_sample", grid_sample}, {"scaled_dot_product_attention", attention}, {nullptr, nullptr}};
