// Draws from a Mersenne Twister as PyTorch's CPU generator makes them: the same words, in the same order, by the same arithmetic.
//
// In: the 5056 bytes of a generator's state, as torch.get_rng_state() lays them out, a kind of draw, and an array that is filled in
// order. Which words a kind takes is what aten/src/ATen/core/DistributionsHelper.h, TransformationHelper.h and
// native/cpu/DistributionTemplates.h say; the twister is Matsumoto and Nishimura's mt19937 of 1998.
#include "call.h"

#include <math.h>
#include <string.h>

#include <cmath>
#include <utility>

namespace {

constexpr int WORDS = 624, AHEAD = 397;

// What the bytes of a state are.
struct Layout {
    uint64_t seed;
    int32_t left, seeded;
    uint64_t next, words[WORDS];
    uint64_t ordinal; // a number that PyTorch does not read
    double normal, unused;
    int32_t has_normal;
    float single;
    int32_t has_single;
    int32_t padding;
};
static_assert(sizeof(Layout) == 5056, "as PyTorch lays it out");

class Twister {
    Layout* kept;
    uint32_t words[WORDS];
    uint32_t left, next;

    void turn() {
        auto mixed = [](uint32_t high, uint32_t low) {
            uint32_t y = (high & 0x80000000u) | (low & 0x7fffffffu);
            return (y >> 1) ^ (y & 1 ? 0x9908b0dfu : 0u);
        };
        for (int k = 0; k < WORDS; k++) words[k] = words[(k + AHEAD) % WORDS] ^ mixed(words[k], words[(k + 1) % WORDS]);
        left = WORDS, next = 0;
    }

public:
    double* normal() { return kept->has_normal ? &kept->normal : nullptr; }
    void keep(double x) { kept->normal = x, kept->has_normal = 1; }
    void forget() { kept->normal = 0, kept->has_normal = 0; }

    explicit Twister(Layout* state) : kept(state), left((uint32_t)state->left), next((uint32_t)state->next) {
        for (int k = 0; k < WORDS; k++) words[k] = (uint32_t)state->words[k];
    }
    ~Twister() {
        for (int k = 0; k < WORDS; k++) kept->words[k] = words[k];
        kept->left = (int32_t)left, kept->next = next;
    }

    uint32_t word() {
        if (--left == 0) turn();
        uint32_t y = words[next++];
        y ^= y >> 11;
        y ^= (y << 7) & 0x9d2c5680u;
        y ^= (y << 15) & 0xefc60000u;
        return y ^ (y >> 18);
    }
    uint64_t pair() {
        uint64_t high = word();
        return high << 32 | word();
    }
    float single() { return (float)(word() & 0xffffff) * 0x1p-24f; }
    double real() { return (double)(pair() & ((1ul << 53) - 1)) * 0x1p-53; }

    // Normal numbers come in pairs; the second of one waits for the next call.
    double gauss() {
        if (double* waiting = normal()) {
            double x = *waiting;
            forget();
            return x;
        }
        double angle = real(), height = real();
        double radius = ::sqrt(-2.0 * ::log1p(-height)), theta = 2.0 * M_PI * angle;
        keep(radius * ::sin(theta));
        return radius * ::cos(theta);
    }
};

// ---- blocks of sixteen normal numbers

// The single-precision functions of Moshier's Cephes library, in the order of operations in which vector code has them: polynomials
// by Horner's rule, a product that is added to in one rounding.
float cephes_log(float x) {
    int exponent;
    x = frexpf(x, &exponent);
    float e = (float)exponent;
    if (x < 0.707106781186547524f) e -= 1, x = (x - 1) + x;
    else x -= 1;
    static const float terms[] = {-1.1514610310e-1f, 1.1676998740e-1f, -1.2420140846e-1f, 1.4249322787e-1f, -1.6668057665e-1f, 2.0000714765e-1f,
        -2.4999993993e-1f, 3.3333331174e-1f};
    float square = x * x, y = 7.0376836292e-2f;
    for (float term : terms) y = fmaf(y, x, term);
    y = fmaf(y * x, square, e * -2.12194440e-4f);
    y = fmaf(-square, 0.5f, y);
    return fmaf(e, 0.693359375f, x + y);
}

void cephes_sin_cos(float x, float& sine, float& cosine) { // of x >= 0
    int octant = ((int)(x * 1.27323954473516f) + 1) & ~1;
    float y = (float)octant;
    x = fmaf(y, -0.78515625f, x);
    x = fmaf(y, -2.4187564849853515625e-4f, x);
    x = fmaf(y, -3.77489497744594108e-8f, x);
    float square = x * x;
    float c = fmaf(fmaf(2.443315711809948e-5f, square, -1.388731625493765e-3f), square, 4.166664568298827e-2f);
    c = fmaf(c * square, square, -0.5f * square) + 1;
    float s = fmaf(fmaf(-1.9515295891e-4f, square, 8.3321608736e-3f), square, -1.6666654611e-1f);
    s = fmaf(s * square, x, x);
    bool swapped = octant & 2;
    sine = swapped ? c : s, cosine = swapped ? s : c;
    if (octant & 4) sine = -sine;
    if (!((octant - 2) & 4)) cosine = -cosine;
}

void block(float* x, float mean, float deviation) {
    for (int k = 0; k < 8; k++) {
        float radius = sqrtf(-2.f * cephes_log(1.f - x[k])), sine, cosine;
        cephes_sin_cos((float)(2.0 * M_PI) * x[k + 8], sine, cosine);
        x[k] = fmaf(radius * cosine, deviation, mean), x[k + 8] = fmaf(radius * sine, deviation, mean);
    }
}
void block(double* x, double mean, double deviation) {
    for (int k = 0; k < 8; k++) {
        double radius = ::sqrt(-2.0 * ::log(1.0 - x[k])), theta = 2.0 * M_PI * x[k + 8];
        x[k] = std::fma(radius * ::cos(theta), deviation, mean), x[k + 8] = std::fma(radius * ::sin(theta), deviation, mean);
    }
}
void uniform(Twister& t, float* out, npy_intp n) { for (npy_intp k = 0; k < n; k++) out[k] = t.single(); }
void uniform(Twister& t, double* out, npy_intp n) { for (npy_intp k = 0; k < n; k++) out[k] = t.real(); }

// At least sixteen numbers at once: what is left over behind whole blocks is drawn anew, as the last sixteen.
template <class T> void normal_fill(Twister& t, T* out, npy_intp n, T mean, T deviation) {
    uniform(t, out, n);
    for (npy_intp k = 0; k + 16 <= n; k += 16) block(out + k, mean, deviation);
    if (n % 16) uniform(t, out + n - 16, 16), block(out + n - 16, mean, deviation);
}
// The same of halves, which are drawn block by block.
void half_fill(Twister& t, float* out, npy_intp n, float mean, float deviation) {
    for (npy_intp k = 0; k + 16 <= n; k += 16) uniform(t, out + k, 16), block(out + k, mean, deviation);
    if (n % 16) uniform(t, out + n - 16, 16), block(out + n - 16, mean, deviation);
}

// ---- kinds

template <class T> void uniform_between(Twister& t, T* out, npy_intp n, T low, T high) {
    uniform(t, out, n);
    for (npy_intp k = 0; k < n; k++) {
        out[k] = std::fma(out[k], high - low, low);
        if (out[k] == high) out[k] = low;
    }
}

// How many events at this rate: products of uniform numbers below 10, else Hoermann's transformed rejection of 1993.
double events(Twister& t, double rate) {
    if (rate == 0) return 0;
    if (rate < 10) {
        double count = 0, least = ::exp(-rate);
        for (double left = t.real(); left > least; left *= t.real()) count++;
        return count;
    }
    double root = ::sqrt(rate), logarithm = ::log(rate), b = 0.931 + 2.53 * root, a = -0.059 + 0.02483 * b;
    double inverse = 1.1239 + 1.1328 / (b - 3.4), most = 0.9277 - 3.6224 / (b - 2);
    for (;;) {
        double u = t.real() - 0.5, v = t.real(), room = 0.5 - ::fabs(u), k = ::floor((2 * a / room + b) * u + rate + 0.43);
        if (room >= 0.07 && v <= most) return k;
        if (k < 0 || (room < 0.013 && v > room)) continue;
        if (::log(v) + ::log(inverse) - ::log(a / (room * room) + b) <= -rate + k * logarithm - ::lgamma(k + 1)) return k;
    }
}

// Marsaglia and Tsang's method of 2000; shapes below 1 by a power of a uniform number. Of a shape T is the type of the arithmetic.
template <class T> double gamma(Twister& t, T shape) {
    double scale = 1;
    if (shape < 1) {
        if (shape == 0) return 0;
        scale = ::pow(1 - t.real(), (double)(1 / shape)), shape += 1;
    }
    double d = shape - 1.f / 3, c = 1 / ::sqrt(9 * d);
    for (;;) {
        double x, y;
        do x = t.gauss(), y = 1 + c * x;
        while (y <= 0);
        double v = y * y * y, u = 1 - t.real(), square = x * x;
        if (u < 1 - (double)0.0331f * square * square || ::log(u) < 0.5 * square + d * (1 - v + ::log(v))) return scale * d * v;
    }
}

enum Kind { UNIFORM, NORMAL_FILL, HALF_FILL, NORMAL, EXPONENTIAL, CAUCHY, GEOMETRIC, LOG_NORMAL, INTEGERS, WORDS_, PAIRS, PERMUTATION, POISSON, GAMMA, KINDS };
const char* const names[] = {"uniform", "normal_fill", "half_fill", "normal", "exponential", "cauchy", "geometric", "log_normal", "integers", "words",
    "pairs", "permutation", "poisson", "gamma"};
const char* const takes[] = {"fd", "fd", "f", "d", "d", "d", "d", "d", "l", "l", "l", "l", "d", "d"}; // types of the array

void fill(Twister& t, Kind kind, bool single, void* raw, npy_intp n, double a, double b, uint64_t range, int64_t low) {
    float* f = (float*)raw;
    double* d = (double*)raw;
    int64_t* l = (int64_t*)raw;
    switch (kind) {
    case UNIFORM: return single ? uniform_between(t, f, n, (float)a, (float)b) : uniform_between(t, d, n, a, b);
    case NORMAL_FILL: return single ? normal_fill(t, f, n, (float)a, (float)b) : normal_fill(t, d, n, a, b);
    case HALF_FILL: return half_fill(t, f, n, (float)a, (float)b);
    case NORMAL:
        for (npy_intp k = 0; k < n; k++) d[k] = std::fma(t.gauss(), b, a);
        return;
    case EXPONENTIAL:
        for (npy_intp k = 0; k < n; k++) d[k] = -1.0 / a * ::log1p(-t.real());
        return;
    case CAUCHY:
        for (npy_intp k = 0; k < n; k++) d[k] = std::fma(b, ::tan(M_PI * (t.real() - 0.5)), a);
        return;
    case GEOMETRIC:
        for (npy_intp k = 0; k < n; k++) d[k] = ::ceil(::log(t.real()) / ::log1p(-a));
        return;
    case LOG_NORMAL:
        for (npy_intp k = 0; k < n; k++) d[k] = ::exp(std::fma(t.gauss(), b, a));
        return;
    case INTEGERS: // from 2**28 on, the words of 32 bits would fall too unevenly
        if (range >= 1ul << 28)
            for (npy_intp k = 0; k < n; k++) l[k] = (int64_t)(t.pair() % range + (uint64_t)low);
        else
            for (npy_intp k = 0; k < n; k++) l[k] = (int64_t)(t.word() % (uint32_t)range) + low;
        return;
    case WORDS_:
        for (npy_intp k = 0; k < n; k++) l[k] = t.word();
        return;
    case PAIRS:
        for (npy_intp k = 0; k < n; k++) l[k] = (int64_t)t.pair();
        return;
    case PERMUTATION:
        for (npy_intp k = 0; k < n; k++) l[k] = k;
        for (npy_intp k = 0; k + 1 < n; k++) std::swap(l[k], l[k + t.word() % (uint64_t)(n - k)]);
        return;
    case POISSON: // the array holds the rates
        for (npy_intp k = 0; k < n; k++) d[k] = events(t, d[k]);
        return;
    case GAMMA: // the array holds the shapes, with a > 0 in single precision
        for (npy_intp k = 0; k < n; k++) d[k] = a > 0 ? gamma(t, (float)d[k]) : gamma(t, d[k]);
        return;
    case KINDS: return;
    }
}

Layout* state_of(PyObject* raw) {
    PyArrayObject* a = (PyArrayObject*)raw;
    if (PyArray_Check(raw) && PyArray_TYPE(a) == NPY_UINT8 && PyArray_SIZE(a) == sizeof(Layout) && PyArray_ISCARRAY(a)) return (Layout*)PyArray_DATA(a);
    PyErr_SetString(PyExc_TypeError, "a state is an array of 5056 bytes");
    return nullptr;
}

// mersenne(state, kind, out, a=0.0, b=1.0, range=1, low=0)
PyObject* py_mersenne(PyObject*, PyObject* args) {
    PyObject *raw, *made;
    const char* name;
    double a = 0, b = 1;
    unsigned long long range = 1;
    long long low = 0;
    if (!PyArg_ParseTuple(args, "OsO|ddKL", &raw, &name, &made, &a, &b, &range, &low)) return nullptr;
    Layout* state = state_of(raw);
    if (!state) return nullptr;
    int kind = 0;
    while (kind < KINDS && strcmp(names[kind], name)) kind++;
    if (kind == KINDS) return PyErr_Format(PyExc_ValueError, "no kind of draw %s", name);
    PyArrayObject* out = PyArray_Check(made) ? (PyArrayObject*)made : nullptr;
    if (!out || !PyArray_ISCARRAY(out) || !strchr(takes[kind], PyArray_DESCR(out)->type))
        return PyErr_Format(PyExc_TypeError, "%s fills an array of type %s without gaps, not %R", name, takes[kind], made);
    npy_intp n = PyArray_SIZE(out);
    if ((kind == NORMAL_FILL || kind == HALF_FILL) && n < 16) return PyErr_Format(PyExc_ValueError, "%s fills at least 16 elements", name);
    if (kind == INTEGERS && !range) return PyErr_Format(PyExc_ValueError, "integers of no range");
    bool single = PyArray_TYPE(out) == NPY_FLOAT;
    void* to = PyArray_DATA(out);
    Py_BEGIN_ALLOW_THREADS
    Twister twister(state);
    fill(twister, (Kind)kind, single, to, n, a, b, range, low);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

// mersenne_seed(state, seed): the state that a seed gives; of it the low 32 bits count
PyObject* py_mersenne_seed(PyObject*, PyObject* args) {
    PyObject* raw;
    unsigned long long seed;
    if (!PyArg_ParseTuple(args, "OK", &raw, &seed)) return nullptr;
    Layout* state = state_of(raw);
    if (!state) return nullptr;
    memset(state, 0, sizeof *state);
    state->seed = seed, state->left = 1, state->seeded = 1;
    uint32_t word = (uint32_t)seed;
    state->words[0] = word;
    for (uint32_t k = 1; k < WORDS; k++) state->words[k] = word = 1812433253u * (word ^ (word >> 30)) + k;
    Py_RETURN_NONE;
}

PyMethodDef functions[] = {
    {"mersenne", py_mersenne, METH_VARARGS, "mersenne(state, kind, out, a=0.0, b=1.0, range=1, low=0): fill an array with what a generator draws next"},
    {"mersenne_seed", py_mersenne_seed, METH_VARARGS, "mersenne_seed(state, seed): write the state that a seed gives"},
    {nullptr, nullptr, 0, nullptr}};

}

bool add_mersenne(PyObject* module) { return PyModule_AddFunctions(module, functions) == 0; }
