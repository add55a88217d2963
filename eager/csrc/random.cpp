// Random numbers into small tensors: rand, randn, randint, uniform_, normal_, exponential_, random_, bernoulli, poisson. The bits are
// those of the records' formulas: one ordinal a call, elements in row-major order.
#include "small_tensor.h"

#include "../../runtime/csrc/job.h"

#include <math.h>
#include <string.h>

#include <algorithm>
#include <vector>

#include "casts.h"
#include "numpy_loops.h"

namespace {

PyObject* draw_function; // (generator or None) -> (seed, ordinal)
bool in_order; // PyTorch's numbers are asked for: everything here declines

constexpr npy_intp FEW = 1 << 14;

bool next_draw(PyObject* generator, uint64_t& seed, uint64_t& ordinal) {
    if (in_order) return false;
    Ref key(PyObject_CallOneArg(draw_function, generator ? generator : Py_None));
    if (!key || !PyTuple_Check(key.get())) return false;
    seed = PyLong_AsUnsignedLongMask(PyTuple_GET_ITEM(key.get(), 0)), ordinal = PyLong_AsUnsignedLongMask(PyTuple_GET_ITEM(key.get(), 1));
    return !PyErr_Occurred();
}

bool drawn(PyObject* generator, int kind, void* out, npy_intp n) {
    uint64_t seed, ordinal;
    if (!next_draw(generator, seed, ordinal)) return false;
    world.api->philox(kind, out, seed, ordinal, 0, n);
    return true;
}

enum { UNIFORM = 0, DOUBLES = 1, BITS = 2, NORMAL = 3 }; // as the runtime counts them

// ---- new tensors

// The keywords of a draw that has none but a type (float32, or one that is its default) and this device.
bool plain_options(const Call& c, int wanted) {
    int type = wanted;
    PyObject* device;
    return small_options(c, type, device) && type == wanted;
}

template <int kind> PyObject* floats(const Call& c) {
    npy_intp sizes[MAX_DIMS], total;
    int dims;
    if (small_default_type() != FLOAT32 || !plain_options(c, FLOAT32) || !small_sizes(c.args, c.n, sizes, dims, total)
        || total > FEW)
        return nullptr;
    Ref array(fresh_array(FLOAT32, dims, sizes, nullptr));
    if (!array || !drawn(nullptr, kind, PyArray_DATA((PyArrayObject*)array.get()), total)) return nullptr;
    return tensor_around(array.release(), FLOAT32);
}

// low + the high word of bits times the range, as doubles or whole numbers hold it exactly
template <class T> void ranged(T* out, const uint32_t* bits, npy_intp n, int64_t low, uint64_t span) {
    for (npy_intp k = 0; k < n; k++) out[k] = (T)((int64_t)(bits[k] * span >> 32) + low);
}

bool read_range(PyObject* low, PyObject* high, npy_intp& least, uint64_t& span) {
    npy_intp most;
    least = 0;
    if ((low && !small_int(low, least)) || !high || !small_int(high, most)) return false;
    if (most <= least || least < -(1l << 30) || most > 1l << 30) return false;
    span = (uint64_t)(most - least);
    return true;
}

PyObject* randint(const Call& c) {
    npy_intp sizes[MAX_DIMS], total, low;
    uint64_t span;
    int dims;
    if ((c.n != 2 && c.n != 3) || !plain_options(c, INT64)
        || !read_range(c.n == 3 ? c.args[0] : nullptr, c.args[c.n - 2], low, span)
        || !(PyTuple_Check(c.args[c.n - 1]) || PyList_CheckExact(c.args[c.n - 1]))
        || !small_sizes(c.args + c.n - 1, 1, sizes, dims, total) || total > FEW)
        return nullptr;
    Ref array(fresh_array(INT64, dims, sizes, nullptr));
    uint32_t bits[total + 1];
    if (!array || !drawn(nullptr, BITS, bits, total)) return nullptr;
    ranged((int64_t*)PyArray_DATA((PyArrayObject*)array.get()), bits, total, low, span);
    return tensor_around(array.release(), INT64);
}

// ---- in place: body(values, count) makes of what was drawn what is kept


// A generator that is given by keyword, or None.
bool plain_generator(PyObject* x) { return absent(x); }

template <class Body> PyObject* drawn_into(const Call& c, PyObject* x, int kind, Body body) {
    PyArrayObject* a = small_writable(x, c.grad);
    int type = a ? type_of(x) : -1;
    npy_intp n = a ? PyArray_SIZE(a) : 0;
    bool half = type == FLOAT16 || type == BFLOAT16; // these compute in floats
    if ((type != FLOAT32 && !half) || n > (half ? FEW : alone(FEW))) return nullptr;
    float room[half ? n + 1 : 1], *values = half ? room : (float*)PyArray_DATA(a);
    if (!drawn(nullptr, kind, values, n)) return nullptr;
    body(values, n);
    if (half) cast_loop(FLOAT32, type)((const char*)values, sizeof(float), (char*)PyArray_DATA(a), 2, n);
    return bump(x) ? Py_NewRef(x) : nullptr;
}

PyObject* uniform_in_place(const Call& c) {
    static const Names<4> names("self", "a", "b", "generator");
    PyObject* a[4];
    double low, high;
    if (c.n > 3 || !parse(c, names, a) || !a[0] || !small_real(a[1], 0, low) || !small_real(a[2], 1, high)
        || !plain_generator(a[3]) || !(std::fabs(low) < 1e4 && std::fabs(high) < 1e4)) // (what may not fit is checked in Python)
        return nullptr;
    return drawn_into(c, a[0], UNIFORM, [=](float* x, npy_intp n) {
        float span = (float)(high - low), start = (float)low;
        for (npy_intp k = 0; k < n; k++) x[k] = x[k] * span + start;
    });
}

PyObject* normal_in_place(const Call& c) {
    static const Names<4> names("self", "mean", "std", "generator");
    PyObject* a[4];
    double mean, std;
    if (c.n > 3 || !parse(c, names, a) || !a[0] || !small_real(a[1], 0, mean) || !small_real(a[2], 1, std) || !(std >= 0)
        || !plain_generator(a[3]))
        return nullptr;
    return drawn_into(c, a[0], NORMAL, [=](float* x, npy_intp n) {
        float scale = (float)std, middle = (float)mean;
        for (npy_intp k = 0; k < n; k++) x[k] = x[k] * scale + middle;
    });
}

void apply(const OwnLoop* own, float* x, npy_intp n) {
    char* pointers[2] = {(char*)x, (char*)x};
    npy_intp steps[2] = {4, 4};
    own->loop(pointers, &n, steps, (void*)own);
}

PyObject* exponential_in_place(const Call& c) {
    static const Names<3> names("self", "lambd", "generator");
    static const OwnLoop* log1p = own_loop("log1p f->f"); // as in the plans of the records: the same bits
    PyObject* a[3];
    double rate;
    if (c.n > 2 || !parse(c, names, a) || !a[0] || !small_real(a[1], 1, rate) || !(rate > 0)
        || !plain_generator(a[2]))
        return nullptr;
    return drawn_into(c, a[0], UNIFORM, [=](float* x, npy_intp n) {
        float scale = (float)(-1.0 / rate);
        for (npy_intp k = 0; k < n; k++) x[k] = -x[k];
        apply(log1p, x, n);
        for (npy_intp k = 0; k < n; k++) x[k] *= scale;
    });
}

// Uniform numbers above zero: what the two below make theirs of.
bool read_above_zero(const Call& c) { return c.n >= 1 && is_plain(c.args[0]) && type_of(c.args[0]) == FLOAT32; }
void above_zero(float* x, npy_intp n) {
    for (npy_intp k = 0; k < n; k++) x[k] = x[k] < 1.17549435e-38f ? 1.17549435e-38f : x[k];
}

PyObject* cauchy_in_place(const Call& c) {
    static const Names<4> names("self", "median", "sigma", "generator");
    static const OwnLoop* tangent = own_loop("tan f->f"); // as in the plans of the records: the same bits
    PyObject* a[4];
    double median, sigma;
    if (c.n > 3 || !parse(c, names, a) || !read_above_zero(c) || !small_real(a[1], 0, median)
        || !small_real(a[2], 1, sigma) || !(sigma > 0 && sigma < 1e30) || !(std::fabs(median) < 1e30) || !plain_generator(a[3]))
        return nullptr;
    return drawn_into(c, a[0], UNIFORM, [=](float* x, npy_intp n) {
        above_zero(x, n);
        for (npy_intp k = 0; k < n; k++) x[k] = (x[k] - 0.5f) * (float)M_PI;
        apply(tangent, x, n);
        for (npy_intp k = 0; k < n; k++) x[k] = x[k] * (float)sigma + (float)median;
    });
}

PyObject* geometric_in_place(const Call& c) {
    static const Names<3> names("self", "p", "generator");
    static const OwnLoop* logarithm = own_loop("log f->f"); // as in the plans of the records: the same bits
    PyObject* a[3];
    double p;
    if (c.n > 2 || !parse(c, names, a) || !read_above_zero(c) || !a[1] || !PyFloat_CheckExact(a[1])
        || !small_real(a[1], 0, p) || !(p > 1e-6 && p < 1) || !plain_generator(a[2]))
        return nullptr;
    return drawn_into(c, a[0], UNIFORM, [=](float* x, npy_intp n) {
        float rest = (float)log1p(-p);
        above_zero(x, n);
        apply(logarithm, x, n);
        for (npy_intp k = 0; k < n; k++) {
            float v = __builtin_ceilf(x[k] / rest);
            x[k] = v < 1 ? 1 : v;
        }
    });
}

PyObject* random_in_place(const Call& c) {
    npy_intp low;
    uint64_t span;
    if ((c.n != 2 && c.n != 3) || c.names || !read_range(c.n == 3 ? c.args[1] : nullptr, c.args[c.n - 1], low, span))
        return nullptr;
    PyArrayObject* a = small_writable(c.args[0], c.grad);
    int type = a ? type_of(c.args[0]) : -1;
    npy_intp n = a ? PyArray_SIZE(a) : 0;
    if ((type != FLOAT32 && type != INT64) || n > FEW) return nullptr;
    uint32_t bits[n + 1];
    if (!drawn(nullptr, BITS, bits, n)) return nullptr;
    if (type == INT64) ranged((int64_t*)PyArray_DATA(a), bits, n, low, span);
    else ranged((float*)PyArray_DATA(a), bits, n, low, span);
    return bump(c.args[0]) ? Py_NewRef(c.args[0]) : nullptr;
}

PyObject* bernoulli_in_place(const Call& c) {
    static const Names<3> names("self", "p", "generator");
    PyObject* a[3];
    double p;
    if (c.n > 2 || !parse(c, names, a) || !a[0] || (a[1] && !PyFloat_CheckExact(a[1])) || !small_real(a[1], 0.5, p) || !(p >= 0 && p <= 1)
        || !plain_generator(a[2]))
        return nullptr;
    return drawn_into(c, a[0], UNIFORM, [=](float* x, npy_intp n) {
        for (npy_intp k = 0; k < n; k++) x[k] = x[k] < (float)p;
    });
}

// 1 with the probability of its element
PyObject* bernoulli(const Call& c) {
    if (c.n != 1 || c.names || (c.grad && is_tensor(c.args[0]) && needs_grad(c.args[0]))) return nullptr;
    PyArrayObject* p = dense_array(c.args[0]);
    npy_intp n = p ? PyArray_SIZE(p) : 0;
    if (!p || type_of(c.args[0]) != FLOAT32 || n > FEW) return nullptr;
    const float* chance = (const float*)PyArray_DATA(p);
    for (npy_intp k = 0; k < n; k++)
        if (!(chance[k] >= 0 && chance[k] <= 1)) return nullptr;
    Ref array(fresh_array(FLOAT32, PyArray_NDIM(p), PyArray_DIMS(p), nullptr));
    float* out = array ? (float*)PyArray_DATA((PyArrayObject*)array.get()) : nullptr;
    if (!out || !drawn(nullptr, UNIFORM, out, n)) return nullptr;
    for (npy_intp k = 0; k < n; k++) out[k] = out[k] < chance[k];
    return tensor_around(array.release(), FLOAT32);
}

// A mean and a deviation per element
PyObject* normal(const Call& c) {
    if (c.n != 2 || c.names) return nullptr;
    PyArrayObject *mean = dense_array(c.args[0]), *std = mean ? dense_array(c.args[1]) : nullptr;
    if (!std || type_of(c.args[0]) != FLOAT32 || type_of(c.args[1]) != FLOAT32 || PyArray_NDIM(mean) != PyArray_NDIM(std)
        || !PyArray_CompareLists(PyArray_DIMS(mean), PyArray_DIMS(std), PyArray_NDIM(mean))
        || (c.grad && (needs_grad(c.args[0]) || needs_grad(c.args[1]))))
        return nullptr;
    npy_intp n = PyArray_SIZE(mean);
    const float *m = (const float*)PyArray_DATA(mean), *s = (const float*)PyArray_DATA(std);
    if (n > FEW) return nullptr;
    for (npy_intp k = 0; k < n; k++)
        if (!(s[k] >= 0)) return nullptr;
    Ref array(fresh_array(FLOAT32, PyArray_NDIM(mean), PyArray_DIMS(mean), nullptr));
    float* out = array ? (float*)PyArray_DATA((PyArrayObject*)array.get()) : nullptr;
    if (!out || !drawn(nullptr, NORMAL, out, n)) return nullptr;
    for (npy_intp k = 0; k < n; k++) out[k] = out[k] * s[k] + m[k];
    return tensor_around(array.release(), FLOAT32);
}

// ---- orders and choices

// Scratch of the runtime's allocator.
struct Scratch {
    void* at;
    explicit Scratch(npy_intp bytes) : at(world.api->runtime->alloc(bytes)) {}
    Scratch(const Scratch&) = delete;
    ~Scratch() { if (at) world.api->runtime->release(at); }
};

// A key for each of n random doubles of [0, 1): its highest bits, then its place in `width` bits.
struct PlaceKeys {
    const double* numbers;
    npy_intp n;
    int width, dropped; // bits of the 53 that have no room
    uint64_t places;
    PlaceKeys(const double* numbers, npy_intp n) : numbers(numbers), n(n), width(n > 1 ? 64 - __builtin_clzl((uint64_t)n - 1) : 1) {
        places = ((uint64_t)1 << width) - 1, dropped = width > 11 ? width - 11 : 0;
    }
    uint64_t of(npy_intp k) const {
        return (uint64_t)(int64_t)(numbers[k] * 9007199254740992.0) >> dropped << (dropped ? width : 11) | (uint64_t)k;
    }
    bool behind(uint64_t a, uint64_t b) const {
        if (!dropped || (a | places) != (b | places)) return a > b;
        double x = numbers[a & places], y = numbers[b & places];
        return x > y || (x == y && a > b);
    }
};

// The keys in order by `digits` digits of `bits` each from the highest bit down, the lowest of these first; in `x` if the count
// of digits is even, else in `room`.
template <int bits, int digits> void by_digits(const PlaceKeys& keys, uint64_t* x, uint64_t* room) {
    constexpr uint64_t mask = (1 << bits) - 1;
    npy_intp n = keys.n;
    uint32_t first[digits][1 << bits] = {};
    for (npy_intp k = 0; k < n; k++) {
        uint64_t key = x[k] = keys.of(k);
        for (int d = 0; d < digits; d++) first[d][key >> (64 - bits * (digits - d)) & mask]++;
    }
    for (int d = 0; d < digits; d++) {
        uint32_t at = 0;
        for (uint32_t& f : first[d]) at += std::exchange(f, at);
        for (npy_intp k = 0; k < n; k++) room[first[d][x[k] >> (64 - bits * (digits - d)) & mask]++] = x[k];
        std::swap(x, room);
    }
}

// The places of n random doubles in ascending order, equal ones as they come: the first digits bring nearly all to where they
// belong, and what is left moves a few places.
void sorted_places(const double* numbers, npy_intp n, int64_t* out, uint64_t* x, uint64_t* room) {
    PlaceKeys keys(numbers, n);
    if (n >= 1 << 20) by_digits<11, 3>(keys, x, room), std::swap(x, room);
    else if (n >= 4096) by_digits<11, 2>(keys, x, room);
    else if (n >= 64) by_digits<7, 2>(keys, x, room);
    else
        for (npy_intp k = 0; k < n; k++) x[k] = keys.of(k);
    uint64_t before = 0;
    for (npy_intp k = 0; k < n; k++) {
        uint64_t own = x[k];
        npy_intp j = k;
        if (before > (own & ~keys.places)) // (else it is ahead, whatever the bits that were dropped)
            for (; j > 0 && keys.behind(x[j - 1], own); j--) x[j] = x[j - 1], out[j] = out[j - 1];
        if (j < k) x[j] = own;
        out[j] = (int64_t)(own & keys.places), before = x[k];
    }
}

// The order of n random doubles.
PyObject* randperm(const Call& c) {
    npy_intp n;
    if (c.n != 1 || !small_int(c.args[0], n) || n < 0 || n > std::min(alone(1 << 20), (npy_intp)1 << 30) || !plain_options(c, INT64)) return nullptr;
    Ref array(fresh_array(INT64, 1, &n, nullptr));
    Scratch scratch(3 * (n + 8) * 8);
    if (!array || !scratch.at) return nullptr;
    double* numbers = (double*)scratch.at;
    uint64_t *keys = (uint64_t*)numbers + n + 8, *room = keys + n + 8;
    if (!drawn(nullptr, DOUBLES, numbers, n)) return nullptr;
    int64_t* out = (int64_t*)PyArray_DATA((PyArrayObject*)array.get());
    Py_BEGIN_ALLOW_THREADS
    sorted_places(numbers, n, out, keys, room);
    Py_END_ALLOW_THREADS
    return tensor_around(array.release(), INT64);
}

// ---- numbers of events

// Philox4x64-10 as numpy's generator has it: four words for each counter, and doubles of their 53 highest bits.
class Words {
    uint64_t key, counter, words[4];
    int at = 4;
    void fill() {
        uint64_t c[4] = {++counter, 0, 0, 0}, a = key, b = 0;
        for (int round = 0; round < 10; round++, a += 0x9E3779B97F4A7C15, b += 0xBB67AE8584CAA73B) {
            unsigned __int128 p = (unsigned __int128)c[0] * 0xD2E7470EE14C6C93, q = (unsigned __int128)c[2] * 0xCA5A826395121157;
            uint64_t next[4] = {(uint64_t)(q >> 64) ^ c[1] ^ a, (uint64_t)q, (uint64_t)(p >> 64) ^ c[3] ^ b, (uint64_t)p};
            memcpy(c, next, sizeof c);
        }
        memcpy(words, c, sizeof words), at = 0;
    }
public:
    Words(uint64_t seed, uint64_t ordinal) : key(seed), counter(ordinal) {}
    double real() {
        if (at == 4) fill();
        return (double)(words[at++] >> 11) * (1 / 9007199254740992.0);
    }
};

// The logarithm of (n - 1)! for a whole n: Stirling's series from 7 on, and what is below by division.
double log_factorial_before(double n) {
    static const double series[] = {8.333333333333333e-02, -2.777777777777778e-03, 7.936507936507937e-04, -5.952380952380952e-04,
        8.417508417508418e-04, -1.917526917526918e-03, 6.410256410256410e-03, -2.955065359477124e-02, 1.796443723688307e-01, -1.39243221690590e+00};
    if (n == 1 || n == 2) return 0;
    int more = n < 7 ? (int)(7 - n) : 0;
    double x = n + more, inverse = (1 / x) * (1 / x), sum = series[9];
    for (int k = 8; k >= 0; k--) sum = sum * inverse + series[k];
    double found = sum / x + 0.5 * 1.8378770664093453 + (x - 0.5) * log(x) - x;
    for (; more > 0; more--, x -= 1) found -= log(x - 1);
    return found;
}

// How many numbers of [0, 1) are multiplied before the product falls to exp(-rate): rates below 10.
double few_events(double rate, Words& words) {
    double count = 0;
    for (double least = exp(-rate), left = words.real(); left > least; left *= words.real()) count++;
    return count;
}

// Hoermann's transformed rejection with a squeeze, of 1993: rates from 10 on.
double many_events(double rate, Words& words) {
    double root = sqrt(rate), logarithm = log(rate), b = 0.931 + 2.53 * root, a = -0.059 + 0.02483 * b;
    double inverse = 1.1239 + 1.1328 / (b - 3.4), most = 0.9277 - 3.6224 / (b - 2);
    for (;;) {
        double u = words.real() - 0.5, v = words.real(), room = 0.5 - fabs(u), k = floor((2 * a / room + b) * u + rate + 0.43);
        if (room >= 0.07 && v <= most) return k;
        if (k < 0 || (room < 0.013 && v > room)) continue;
        if (log(v) + log(inverse) - log(a / (room * room) + b) <= -rate + k * logarithm - log_factorial_before(k + 1)) return k;
    }
}

// Draws with a rate per element, as numpy's generator makes them.
PyObject* poisson(const Call& c) {
    if (c.n != 1 || c.names || (c.grad && is_tensor(c.args[0]) && needs_grad(c.args[0]))) return nullptr;
    PyArrayObject* x = dense_array(c.args[0]);
    npy_intp n = x ? PyArray_SIZE(x) : 0;
    if (!n || type_of(c.args[0]) != FLOAT32) return nullptr;
    const float* rate = (const float*)PyArray_DATA(x);
    for (npy_intp k = 0; k < n; k++)
        if (!(rate[k] >= 0 && rate[k] < 1e6)) return nullptr;
    Ref array(fresh_array(FLOAT32, PyArray_NDIM(x), PyArray_DIMS(x), nullptr));
    uint64_t seed, ordinal;
    if (!array || !next_draw(nullptr, seed, ordinal)) return nullptr;
    float* out = (float*)PyArray_DATA((PyArrayObject*)array.get());
    Words words(seed, ordinal);
    Py_BEGIN_ALLOW_THREADS
    for (npy_intp k = 0; k < n; k++)
        out[k] = (float)(rate[k] == 0 ? 0 : rate[k] < 10 ? few_events(rate[k], words) : many_events(rate[k], words));
    Py_END_ALLOW_THREADS
    return tensor_around(array.release(), FLOAT32);
}

// Whether all weights are numbers that are not below zero, and finite.
FB_EACH_MACHINE bool are_weights(const float* w, npy_intp n) {
    int wrong = 0;
    for (npy_intp k = 0; k < n; k++) wrong |= !(w[k] >= 0) | !(w[k] <= 3.4028235e38f);
    return !wrong;
}
// How many of n ascending edges, each (still to be) divided by `total`, u has reached: without a branch on what is found
template <bool divided> npy_intp edges_reached(const float* edges, npy_intp n, float total, float u) {
    npy_intp at = 0;
    for (npy_intp rest = n; rest > 0;) {
        npy_intp half = rest / 2 + 1;
        bool on = (divided ? edges[at + half - 1] : edges[at + half - 1] / total) <= u;
        at = on ? at + half : at, rest = on ? rest - half : half - 1;
    }
    return at;
}

// Places drawn along the last dim in proportion to weights, each time anew: by the inverse of the running sum.
PyObject* multinomial(const Call& c) {
    static const Names<4> names("input", "num_samples", "replacement", "generator");
    PyObject* a[4];
    npy_intp count;
    if (c.n > 3 || !parse(c, names, a) || !a[0] || !a[1] || a[2] != Py_True || !plain_generator(a[3]) || !small_int(a[1], count))
        return nullptr;
    PyArrayObject* x = dense_array(a[0]);
    int dims = x ? PyArray_NDIM(x) : 0;
    npy_intp size = x ? PyArray_SIZE(x) : 0;
    if ((dims != 1 && dims != 2) || type_of(a[0]) != FLOAT32 || !size || size > alone(1 << 17) || count < 1 || count > 1 << 20) return nullptr;
    npy_intp n = PyArray_DIM(x, dims - 1), rows = size / n, sizes[2] = {rows, count}, drawn_count = rows * count;
    if (drawn_count > alone(FEW)) return nullptr;
    const float* w = (const float*)PyArray_DATA(x);
    if (!are_weights(w, size)) return nullptr;
    auto last_of = [&](npy_intp r) {
        npy_intp k = n - 1;
        while (k >= 0 && !(w[r * n + k] > 0)) k--;
        return k;
    };
    for (npy_intp r = 0; r < rows; r++)
        if (last_of(r) < 0) return nullptr;
    Ref array(fresh_array(INT64, dims, sizes + 2 - dims, nullptr));
    Scratch scratch((drawn_count + rows + n + 48) * sizeof(float));
    if (!array || !scratch.at) return nullptr;
    float *u = (float*)scratch.at, *totals = u + drawn_count + 16, *edges = totals + rows + 16;
    large_row_sums(x, rows, totals);
    if (!drawn(nullptr, UNIFORM, u, drawn_count)) return nullptr;
    int64_t* out = (int64_t*)PyArray_DATA((PyArrayObject*)array.get());
    bool divided = count * 32 > n; // else few of the edges are looked at
    Py_BEGIN_ALLOW_THREADS
    for (npy_intp r = 0; r < rows; r++) {
        float sum = 0, total = totals[r];
        for (npy_intp k = 0; k < n; k++) edges[k] = sum += w[r * n + k];
        for (npy_intp k = 0; divided && k < n; k++) edges[k] /= total;
        npy_intp last = last_of(r);
        auto reached = divided ? edges_reached<true> : edges_reached<false>;
        for (npy_intp k = 0; k < count; k++) *out++ = std::min(reached(edges, n, total, *u++), last);
    }
    Py_END_ALLOW_THREADS
    return tensor_around(array.release(), INT64);
}

PyObject* py_draws(PyObject*, PyObject* function) {
    draw_function = Py_NewRef(function);
    Py_RETURN_NONE;
}

PyObject* py_draw_in_order(PyObject*, PyObject* on) {
    in_order = on == Py_True;
    Py_RETURN_NONE;
}

PyMethodDef functions[] = {{"draws", py_draws, METH_O, "draws(function): (generator or None) -> (seed, ordinal)"},
    {"draw_in_order", py_draw_in_order, METH_O, "draw_in_order(on): whether nothing is drawn here, for PyTorch's numbers are wanted"},
    {nullptr, nullptr, 0, nullptr}};

}

// False without an error: the caller declines, as everything does whose draw is not made.
bool small_uniform(float* out, npy_intp n) { return drawn(nullptr, UNIFORM, out, n); }

const SmallEntry small_draws[] = {{"rand", floats<UNIFORM>}, {"randn", floats<NORMAL>}, {"randint", randint},
    {"uniform_", uniform_in_place}, {"normal_", normal_in_place}, {"exponential_", exponential_in_place}, {"cauchy_", cauchy_in_place},
    {"geometric_", geometric_in_place},
    {"random_", random_in_place}, {"bernoulli", bernoulli}, {"normal", normal},
    {"bernoulli_", bernoulli_in_place}, {"poisson", poisson}, {"randperm", randperm}, {"multinomial", multinomial}, {nullptr, nullptr}};

bool add_draws(PyObject* module) { return PyModule_AddFunctions(module, functions) == 0; }
