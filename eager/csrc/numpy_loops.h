// Inner loops, as numpy has them, of functions that numpy computes element by element: remainders, signs, and the greater of
// whole numbers. Their values are numpy's.
#ifndef FB_OWN_H
#define FB_OWN_H

#include <math.h>

#include "../../runtime/csrc/job.h"
#include "casts.h"

// ---- remainders of floats. The quotient of two floats is exact enough in double to be cut to the right whole number below
//      2^28, and what it leaves is exact then; other operands go to the C library.
FB_EACH_MACHINE inline bool remain_run(const float* a, const float* b, npy_intp step, float* out, npy_intp n) {
    int rare = 0;
    for (npy_intp i = 0; i < n; i++) {
        double x = a[i], y = b[i * step], q = __builtin_trunc(x / y);
        out[i] = (float)(x - q * y);
        rare |= !(__builtin_fabs(q) < 268435456.0) | !(__builtin_fabs(y) <= 3.4028234663852886e38);
    }
    return !rare;
}
// C's fmod with the sign of the quotient's side: n elements from memory side by side, or one divisor for all
inline void remain(const float* a, const float* b, npy_intp step, float* out, npy_intp n) {
    if (!remain_run(a, b, step, out, n))
        for (npy_intp i = 0; i < n; i++) out[i] = fmodf(a[i], b[i * step]);
}
FB_EACH_MACHINE inline void floored_run(const float* a, const float* b, npy_intp step, const float* rest, float* out, npy_intp n) {
    for (npy_intp i = 0; i < n; i++) {
        float y = b[i * step], r = rest[i];
        float zero = __builtin_copysignf(0.f, y), turned = (y < 0) != (r < 0) ? r + y : r;
        out[i] = y == 0 ? r : r != 0 ? turned : zero;
    }
}
FB_EACH_MACHINE inline void quotient_run(const float* a, const float* b, npy_intp step, const float* rest, float* out, npy_intp n) {
    for (npy_intp i = 0; i < n; i++) {
        float x = a[i], y = b[i * step], r = rest[i], whole = x / y;
        float d = (x - r) / y;
        d = (r != 0) & ((y < 0) != (r < 0)) ? d - 1.f : d;
        float down = __builtin_floorf(d);
        down = d - down > 0.5f ? down + 1.f : down;
        float zero = __builtin_copysignf(0.f, whole);
        out[i] = y == 0 ? whole : d != 0 ? down : zero;
    }
}

// One block of an array of any step: as it is, or beside each other in `room`.
inline const float* side_by_side(const char* p, npy_intp step, npy_intp n, float* room) {
    if (step == sizeof(float)) return (const float*)p;
    for (npy_intp i = 0; i < n; i++) room[i] = *(const float*)(p + i * step);
    return room;
}

template <bool quotient> void float_division(char** p, const npy_intp* count, const npy_intp* s, void*) {
    constexpr npy_intp some = 512;
    float first[some], second[some], rest[some], made[some];
    for (npy_intp at = 0; at < *count; at += some) {
        npy_intp n = *count - at < some ? *count - at : some, step = s[1] != 0;
        const float *a = side_by_side(p[0] + at * s[0], s[0], n, first),
                    *b = step ? side_by_side(p[1] + at * s[1], s[1], n, second) : (const float*)p[1];
        char* out = p[2] + at * s[2];
        float* to = s[2] == sizeof(float) && out != (char*)a && out != (char*)b ? (float*)out : made;
        remain(a, b, step, rest, n);
        (quotient ? quotient_run : floored_run)(a, b, step, rest, to, n);
        if (to == made)
            for (npy_intp i = 0; i < n; i++) *(float*)(out + i * s[2]) = made[i];
    }
}

// ---- -1, 0 or 1; NaN of NaN
FB_EACH_MACHINE inline void sign_run(const float* x, float* out, npy_intp n) {
    for (npy_intp i = 0; i < n; i++) {
        float v = x[i], r = v > 0 ? 1.f : 0.f;
        r = v < 0 ? -1.f : r;
        out[i] = v == v ? r : v;
    }
}
inline void float_sign(char** p, const npy_intp* count, const npy_intp* s, void*) {
    if (s[0] == sizeof(float) && s[1] == sizeof(float)) return sign_run((const float*)p[0], (float*)p[1], *count);
    for (npy_intp i = 0; i < *count; i++) sign_run((const float*)(p[0] + i * s[0]), (float*)(p[1] + i * s[1]), 1);
}

// 0 of NaN
FB_EACH_MACHINE inline void direction_run(const float* x, float* out, npy_intp n) {
    for (npy_intp i = 0; i < n; i++) {
        float v = x[i], r = v > 0 ? 1.f : 0.f;
        out[i] = v < 0 ? -1.f : r;
    }
}
inline void float_direction(char** p, const npy_intp* count, const npy_intp* s, void*) {
    if (s[0] == sizeof(float) && s[1] == sizeof(float)) return direction_run((const float*)p[0], (float*)p[1], *count);
    for (npy_intp i = 0; i < *count; i++) direction_run((const float*)(p[0] + i * s[0]), (float*)(p[1] + i * s[1]), 1);
}

FB_EACH_MACHINE inline void long_sign_run(const int64_t* x, int64_t* out, npy_intp n) {
    for (npy_intp i = 0; i < n; i++) out[i] = (x[i] >> 63) | (int64_t)((0 - (uint64_t)x[i]) >> 63);
}
inline void long_sign(char** p, const npy_intp* count, const npy_intp* s, void*) {
    if (s[0] == 8 && s[1] == 8) return long_sign_run((const int64_t*)p[0], (int64_t*)p[1], *count);
    for (npy_intp i = 0; i < *count; i++) long_sign_run((const int64_t*)(p[0] + i * s[0]), (int64_t*)(p[1] + i * s[1]), 1);
}

// ---- sign bits of halves: cleared or turned, whatever the number is
FB_EACH_MACHINE inline void sign_bits(const uint16_t* x, uint16_t* out, npy_intp n, uint16_t keep, uint16_t turn) {
    for (npy_intp i = 0; i < n; i++) out[i] = (x[i] & keep) ^ turn;
}
template <uint16_t keep, uint16_t turn> void half_sign(char** p, const npy_intp* count, const npy_intp* s, void*) {
    if (s[0] == 2 && s[1] == 2) return sign_bits((const uint16_t*)p[0], (uint16_t*)p[1], *count, keep, turn);
    for (npy_intp i = 0; i < *count; i++) *(uint16_t*)(p[1] + i * s[1]) = (*(const uint16_t*)(p[0] + i * s[0]) & keep) ^ turn;
}

// -1, 0 or 1 of halves whose least NaN follows `infinite`; 0 of NaN
FB_EACH_MACHINE inline void half_direction_run(const uint16_t* x, uint16_t* out, npy_intp n, uint16_t infinite, uint16_t one) {
    for (npy_intp i = 0; i < n; i++) {
        uint16_t size = x[i] & 0x7fff, with_sign = (x[i] & 0x8000) | one;
        out[i] = (size == 0) | (size > infinite) ? 0 : with_sign;
    }
}
template <uint16_t infinite, uint16_t one> void half_direction(char** p, const npy_intp* count, const npy_intp* s, void*) {
    if (s[0] == 2 && s[1] == 2) return half_direction_run((const uint16_t*)p[0], (uint16_t*)p[1], *count, infinite, one);
    for (npy_intp i = 0; i < *count; i++)
        half_direction_run((const uint16_t*)(p[0] + i * s[0]), (uint16_t*)(p[1] + i * s[1]), 1, infinite, one);
}

// ---- two operands and a half: as floats, side by side in registers, rounded once. An operand is halves, or one float
//      (`one_a`, `one_b`) that is the same for all
#if defined(__x86_64__)
#define FB_HALF_PAIR(name, value) \
    __attribute__((target("avx512f"))) inline npy_intp name##_sixteens(const Half* a, const Half* b, Half* out, npy_intp n, \
        const float* one_a, const float* one_b) { \
        npy_intp i = 0; \
        __m512 x = _mm512_set1_ps(one_a ? *one_a : 0), y = _mm512_set1_ps(one_b ? *one_b : 0); \
        for (; i + 16 <= n; i += 16) { \
            if (!one_a) x = _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i*)(a + i))); \
            if (!one_b) y = _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i*)(b + i))); \
            _mm256_storeu_si256((__m256i*)(out + i), _mm512_cvtps_ph(value, 8)); \
        } \
        return i; \
    } \
    __attribute__((target("avx,f16c"))) inline npy_intp name##_eights(const Half* a, const Half* b, Half* out, npy_intp n, \
        const float* one_a, const float* one_b) { \
        npy_intp i = 0; \
        __m256 x = _mm256_set1_ps(one_a ? *one_a : 0), y = _mm256_set1_ps(one_b ? *one_b : 0); \
        for (; i + 8 <= n; i += 8) { \
            if (!one_a) x = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)(a + i))); \
            if (!one_b) y = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)(b + i))); \
            _mm_storeu_si128((__m128i*)(out + i), _mm256_cvtps_ph(value, 8)); \
        } \
        return i; \
    } \
    inline npy_intp name##_many(const Half* a, const Half* b, Half* out, npy_intp n, const float* one_a, const float* one_b) { \
        int at_once = n >= 8 ? halves_at_once() : 0; \
        return at_once == 16 ? name##_sixteens(a, b, out, n, one_a, one_b) : at_once ? name##_eights(a, b, out, n, one_a, one_b) : 0; \
    }
#else
#define FB_HALF_PAIR(name, value) \
    inline npy_intp name##_many(const Half*, const Half*, Half*, npy_intp, const float*, const float*) { return 0; }
#endif
// One block of an operand: halves side by side, or one float.
struct HalfRun {
    Half room[256];
    float one;
    bool single;
    const Half* at;
    template <class From> void read(const char* p, npy_intp step, npy_intp n) {
        if ((single = !step)) one = widen(*(const From*)p);
        at = (const Half*)p;
        if (single || step == 2) return;
        for (npy_intp i = 0; i < n; i++) room[i] = Narrow<Half>::of(widen(*(const From*)(p + i * step)));
        at = room;
    }
    const float* same() const { return single ? &one : nullptr; }
    float operator[](npy_intp i) const { return single ? one : widen(at[i]); }
};
// (Floats come as one for all only: ufunc_program.py.)
#define FB_HALF_LOOP(name, value) \
    FB_HALF_PAIR(name, value) \
    template <class A, class B> void name(char** p, const npy_intp* count, const npy_intp* s, void*) { \
        HalfRun a, b; \
        Half made[256]; \
        bool beside = s[2] == 2 && (s[0] == 2 || !s[0]) && (s[1] == 2 || !s[1]); \
        for (npy_intp i = 0, n; i < *count; i += n) { \
            n = beside || *count - i < 256 ? *count - i : 256; \
            a.read<A>(p[0] + i * s[0], s[0], n), b.read<B>(p[1] + i * s[1], s[1], n); \
            Half* out = beside ? (Half*)(p[2] + i * s[2]) : made; \
            for (npy_intp k = name##_many(a.at, b.at, out, n, a.same(), b.same()); k < n; k++) { \
                float x = a[k], y = b[k]; \
                out[k] = Narrow<Half>::of(value); \
            } \
            for (npy_intp k = 0; k < n && !beside; k++) *(Half*)(p[2] + (i + k) * s[2]) = made[k]; \
        } \
    }
FB_HALF_LOOP(half_sum, x + y)
FB_HALF_LOOP(half_difference, x - y)
FB_HALF_LOOP(half_product, x * y)
FB_HALF_LOOP(half_quotient, x / y)
FB_HALF_LOOP(half_greater, ((x > y) | (x != x)) ? x : y)
FB_HALF_LOOP(half_less, ((x < y) | (x != x)) ? x : y)
#undef FB_HALF_LOOP
#undef FB_HALF_PAIR

// ---- truth of floats: NaN is true
#define FB_TRUTH(T, name, op) \
    FB_EACH_MACHINE inline void name##_run(const T* a, const T* b, npy_intp step, uint8_t* out, npy_intp n) { \
        for (npy_intp i = 0; i < n; i++) out[i] = (a[i] != 0) op (b[i * step] != 0); \
    } \
    inline void name(char** p, const npy_intp* count, const npy_intp* s, void*) { \
        const npy_intp size = sizeof(T); \
        if (s[2] == 1 && s[0] == size && s[1] == size) return name##_run((T*)p[0], (T*)p[1], 1, (uint8_t*)p[2], *count); \
        if (s[2] == 1 && s[0] == size && s[1] == 0) return name##_run((T*)p[0], (T*)p[1], 0, (uint8_t*)p[2], *count); \
        for (npy_intp i = 0; i < *count; i++) \
            *(uint8_t*)(p[2] + i * s[2]) = (*(T*)(p[0] + i * s[0]) != 0) op (*(T*)(p[1] + i * s[1]) != 0); \
    }
FB_TRUTH(float, both_float, &)
FB_TRUTH(float, any_float, |)
FB_TRUTH(int64_t, both_long, &)
FB_TRUTH(int64_t, any_long, |)
#undef FB_TRUTH

// ---- the greater or the less of whole numbers
#define FB_EXTREME(T, name, op) \
    FB_EACH_MACHINE inline void name##_many(const T* a, const T* b, T* out, npy_intp n) { \
        for (npy_intp i = 0; i < n; i++) out[i] = a[i] op b[i] ? a[i] : b[i]; \
    } \
    FB_EACH_MACHINE inline void name##_one(const T* a, T b, T* out, npy_intp n) { \
        for (npy_intp i = 0; i < n; i++) out[i] = a[i] op b ? a[i] : b; \
    } \
    inline void name(char** p, const npy_intp* count, const npy_intp* s, void*) { \
        npy_intp n = *count, size = sizeof(T); \
        if (s[2] == size && s[0] == size && s[1] == size) return name##_many((T*)p[0], (T*)p[1], (T*)p[2], n); \
        if (s[2] == size && s[0] == size && s[1] == 0) return name##_one((T*)p[0], *(T*)p[1], (T*)p[2], n); \
        if (s[2] == size && s[1] == size && s[0] == 0) return name##_one((T*)p[1], *(T*)p[0], (T*)p[2], n); \
        for (npy_intp i = 0; i < n; i++) { \
            T a = *(T*)(p[0] + i * s[0]), b = *(T*)(p[1] + i * s[1]); \
            *(T*)(p[2] + i * s[2]) = a op b ? a : b; \
        } \
    }
FB_EXTREME(int64_t, greater_long, >)
FB_EXTREME(int64_t, less_long, <)
FB_EXTREME(int32_t, greater_int, >)
FB_EXTREME(int32_t, less_int, <)
#undef FB_EXTREME

// The greater or the less of floats: NaN wins, of equals the second.
#define FB_FLOAT_EXTREME(T, name, op) \
    FB_EACH_MACHINE inline void name##_many(const T* a, const T* b, T* out, npy_intp n) { \
        for (npy_intp i = 0; i < n; i++) out[i] = (a[i] op b[i]) | (a[i] != a[i]) ? a[i] : b[i]; \
    } \
    FB_EACH_MACHINE inline void name##_second(const T* a, T b, T* out, npy_intp n) { \
        for (npy_intp i = 0; i < n; i++) out[i] = (a[i] op b) | (a[i] != a[i]) ? a[i] : b; \
    } \
    FB_EACH_MACHINE inline void name##_first(T a, const T* b, T* out, npy_intp n) { \
        for (npy_intp i = 0; i < n; i++) out[i] = (a op b[i]) | (a != a) ? a : b[i]; \
    } \
    inline void name(char** p, const npy_intp* count, const npy_intp* s, void*) { \
        npy_intp n = *count, size = sizeof(T); \
        if (s[2] == size && s[0] == size && s[1] == size) return name##_many((T*)p[0], (T*)p[1], (T*)p[2], n); \
        if (s[2] == size && s[0] == size && s[1] == 0) return name##_second((T*)p[0], *(T*)p[1], (T*)p[2], n); \
        if (s[2] == size && s[1] == size && s[0] == 0) return name##_first(*(T*)p[0], (T*)p[1], (T*)p[2], n); \
        for (npy_intp i = 0; i < n; i++) name##_many((T*)(p[0] + i * s[0]), (T*)(p[1] + i * s[1]), (T*)(p[2] + i * s[2]), 1); \
    }
FB_FLOAT_EXTREME(float, greater_float, >)
FB_FLOAT_EXTREME(float, less_float, <)
FB_FLOAT_EXTREME(double, greater_double, >)
FB_FLOAT_EXTREME(double, less_double, <)
#undef FB_FLOAT_EXTREME

// ---- floats whose function is exact, or rounded once, in the widest vectors (numpy's loops know narrower ones only)
#define FB_EXACT(name, value) \
    FB_EACH_MACHINE inline void name##_run(const float* x, float* out, npy_intp n) { \
        for (npy_intp i = 0; i < n; i++) { \
            float v = x[i]; \
            out[i] = value; \
        } \
    } \
    inline void name(char** p, const npy_intp* count, const npy_intp* s, void*) { \
        if (s[0] == sizeof(float) && s[1] == sizeof(float)) return name##_run((const float*)p[0], (float*)p[1], *count); \
        for (npy_intp i = 0; i < *count; i++) name##_run((const float*)(p[0] + i * s[0]), (float*)(p[1] + i * s[1]), 1); \
    }
FB_EXACT(float_root, __builtin_sqrtf(v))
FB_EXACT(float_inverse, 1.f / v)
FB_EXACT(float_inverse_root, 1.f / __builtin_sqrtf(v))
FB_EXACT(float_floor, __builtin_floorf(v))
FB_EXACT(float_ceil, __builtin_ceilf(v))
FB_EXACT(float_trunc, __builtin_truncf(v))
FB_EXACT(float_rint, __builtin_rintf(v))
#undef FB_EXACT

FB_EACH_MACHINE inline void quotients(const float* a, const float* b, float* out, npy_intp n) {
    for (npy_intp i = 0; i < n; i++) out[i] = a[i] / b[i];
}
FB_EACH_MACHINE inline void quotients_by_one(const float* a, float b, float* out, npy_intp n) {
    for (npy_intp i = 0; i < n; i++) out[i] = a[i] / b;
}
FB_EACH_MACHINE inline void quotients_of_one(float a, const float* b, float* out, npy_intp n) {
    for (npy_intp i = 0; i < n; i++) out[i] = a / b[i];
}
inline void float_quotient(char** p, const npy_intp* count, const npy_intp* s, void*) {
    npy_intp n = *count, size = sizeof(float);
    if (s[2] == size && s[0] == size && s[1] == size) return quotients((float*)p[0], (float*)p[1], (float*)p[2], n);
    if (s[2] == size && s[0] == size && s[1] == 0) return quotients_by_one((float*)p[0], *(float*)p[1], (float*)p[2], n);
    if (s[2] == size && s[0] == 0 && s[1] == size) return quotients_of_one(*(float*)p[0], (float*)p[1], (float*)p[2], n);
    for (npy_intp i = 0; i < n; i++) *(float*)(p[2] + i * s[2]) = *(float*)(p[0] + i * s[0]) / *(float*)(p[1] + i * s[1]);
}

struct OwnLoop {
    const char* name; // numpy's function, or the primitive, and the types of the operands and of the result
    void (*loop)(char**, const npy_intp*, const npy_intp*, void*); // given the entry
    const char* job; // the map of the runtime that the loop calls
    mutable int number; // its place among the jobs, which `own_loop` finds
};

// ---- a map of the runtime: on memory side by side, or by way of it
template <class T> void job_loop(char** p, const npy_intp* count, const npy_intp* s, void* entry) {
    const OwnLoop& own = *(const OwnLoop*)entry;
    constexpr npy_intp size = sizeof(T), some = 512;
    const JobKernel* kernel = world.api->jobs() + own.number;
    Job job = {};
    job.rt = world.api->runtime;
    auto run = [&](const void* x, void* out, npy_intp n) {
        job.p[0] = out, job.p[1] = (void*)x;
        kernel->run[size == 8](job, 0, n);
    };
    if (s[0] == size && s[1] == size) return run(p[0], p[1], *count);
    T room[some];
    for (npy_intp at = 0; at < *count; at += some) {
        npy_intp n = *count - at < some ? *count - at : some;
        for (npy_intp i = 0; i < n; i++) room[i] = *(T*)(p[0] + (at + i) * s[0]);
        run(room, room, n);
        for (npy_intp i = 0; i < n; i++) *(T*)(p[1] + (at + i) * s[1]) = room[i];
    }
}
inline const OwnLoop own_loops[] = {{"remainder ff->f", float_division<false>}, {"floor_divide ff->f", float_division<true>},
    {"sqrt f->f", float_root}, {"reciprocal f->f", float_inverse}, {"rsqrt f->f", float_inverse_root}, {"floor f->f", float_floor},
    {"ceil f->f", float_ceil}, {"trunc f->f", float_trunc}, {"rint f->f", float_rint}, {"divide ff->f", float_quotient},
    {"sign f->f", float_sign}, {"direction f->f", float_direction}, {"maximum ll->l", greater_long}, {"minimum ll->l", less_long},
    {"maximum ii->i", greater_int}, {"minimum ii->i", less_int}, {"sign l->l", long_sign},
    {"maximum ff->f", greater_float}, {"minimum ff->f", less_float}, {"maximum dd->d", greater_double},
    {"minimum dd->d", less_double},
    {"logical_and ff->?", both_float}, {"logical_or ff->?", any_float}, {"logical_and ll->?", both_long},
    {"logical_or ll->?", any_long}, {"absolute e->e", half_sign<0x7fff, 0>}, {"negative e->e", half_sign<0xffff, 0x8000>},
    {"sign e->e", half_direction<0x7c00, 0x3c00>}, {"sign E->E", half_direction<0x7f80, 0x3f80>},
#define FB_HALF_LOOPS(function, name) \
    {function " ee->e", name<Half, Half>}, {function " ef->e", name<Half, float>}, {function " fe->e", name<float, Half>}
    FB_HALF_LOOPS("add", half_sum), FB_HALF_LOOPS("subtract", half_difference), FB_HALF_LOOPS("multiply", half_product),
    FB_HALF_LOOPS("divide", half_quotient), FB_HALF_LOOPS("maximum", half_greater), FB_HALF_LOOPS("minimum", half_less),
#undef FB_HALF_LOOPS
    {"exp f->f", job_loop<float>, "exp"}, {"erf f->f", job_loop<float>, "erf"}, {"exp2 f->f", job_loop<float>, "exp2"}, {"expm1 f->f", job_loop<float>, "expm1"},
    {"log f->f", job_loop<float>, "log"}, {"log2 f->f", job_loop<float>, "log2"}, {"log1p f->f", job_loop<float>, "log1p"},
    {"tan f->f", job_loop<float>, "tan"}, {"tanh f->f", job_loop<float>, "tanh"},
    {"erf d->d", job_loop<double>, "erf"}, {}};

// The loop of that name, or null. It is asked for when a plan is made, under the GIL.
inline const OwnLoop* own_loop(const char* name) {
    const OwnLoop* own = own_loops;
    while (own->name && strcmp(own->name, name)) own++;
    if (!own->name) return nullptr;
    int number = 0; // (stored once: other threads may run the loop)
    while (own->job && strcmp(world.api->jobs()[number].name, own->job)) number++;
    own->number = number;
    return own;
}

#endif
