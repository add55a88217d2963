// Conversions between element types as loops over strided memory: C's conversions, truth for bool, halves rounded to
// nearest even.
#ifndef FB_CASTS_H
#define FB_CASTS_H

#include <stdint.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

using CastLoop = void (*)(const char* in, npy_intp in_step, char* out, npy_intp out_step, npy_intp n);

struct Bool {
    uint8_t value;
};
struct Half {
    uint16_t bits;
};
struct BFloat {
    uint16_t bits;
};

inline float bits_to_float(uint32_t bits) {
    float value;
    memcpy(&value, &bits, 4);
    return value;
}
inline uint32_t float_to_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, 4);
    return bits;
}

inline float widen(BFloat x) { return bits_to_float((uint32_t)x.bits << 16); }
inline float widen(Half x) {
    uint32_t sign = (uint32_t)(x.bits & 0x8000) << 16, exponent = x.bits >> 10 & 31, fraction = x.bits & 0x3ff;
    if (exponent == 31) return bits_to_float(sign | 0x7f800000 | fraction << 13);
    if (exponent) return bits_to_float(sign | (exponent + 112) << 23 | fraction << 13);
    float small = (float)fraction * 5.9604644775390625e-08f; // 2^-24
    return sign ? -small : small;
}
template <class T> inline T widen(T x) { return x; }
inline int widen(Bool x) { return x.value != 0; }

template <class To> struct Narrow {
    template <class From> static To of(From x) { return (To)x; }
};
template <> struct Narrow<Bool> {
    template <class From> static Bool of(From x) { return {(uint8_t)(x != 0)}; }
};
template <> struct Narrow<BFloat> {
    template <class From> static BFloat of(From x) {
        uint32_t bits = float_to_bits((float)x);
        if ((bits & 0x7fffffff) > 0x7f800000) return {(uint16_t)(bits >> 16 | 0x40)};
        return {(uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
    }
};
template <> struct Narrow<Half> {
    template <class From> static Half of(From x) {
        uint32_t bits = float_to_bits((float)x), sign = bits >> 16 & 0x8000, size = bits & 0x7fffffff;
        if (size > 0x7f800000) return {(uint16_t)(sign | 0x7e00 | (size >> 13 & 0x3ff))};
        if (size >= 0x477ff000) return {(uint16_t)(sign | 0x7c00)}; // rounds to infinity
        if (size < 0x38800000) { // below the smallest normal half: the sum is rounded to a multiple of 2^-24
            uint32_t rounded = float_to_bits(bits_to_float(size) + 0.5f) - 0x3f000000;
            return {(uint16_t)(sign | rounded)};
        }
        size += 0xfff + (size >> 13 & 1);
        return {(uint16_t)(sign | ((size - 0x38000000) >> 13))};
    }
};

// Rows in the widest vectors that the machine has.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define FB_EACH_MACHINE __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default"), optimize("O3", "no-trapping-math")))
#else
#define FB_EACH_MACHINE
#endif
// between floats and bfloat16
FB_EACH_MACHINE inline void widen_run(const uint16_t* in, uint32_t* out, npy_intp n) {
    for (npy_intp i = 0; i < n; i++) out[i] = (uint32_t)in[i] << 16;
}
FB_EACH_MACHINE inline void narrow_run(const uint32_t* in, uint16_t* out, npy_intp n) {
    for (npy_intp i = 0; i < n; i++) {
        uint32_t bits = in[i], rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
        out[i] = (uint16_t)((bits & 0x7fffffff) > 0x7f800000 ? bits >> 16 | 0x40 : rounded);
    }
}
// a number times each of a row
FB_EACH_MACHINE inline void times_row(float x, const float* y, float* out, npy_intp n) {
    for (npy_intp j = 0; j < n; j++) out[j] = x * y[j];
}
FB_EACH_MACHINE inline void times_row(double x, const double* y, double* out, npy_intp n) {
    for (npy_intp j = 0; j < n; j++) out[j] = x * y[j];
}

// Between floats and float16: eight or sixteen side by side where the machine converts them; how many were done.
#if defined(__x86_64__)
__attribute__((target("avx512f"))) inline npy_intp widen_halves(const Half* in, float* out, npy_intp n) {
    npy_intp i = 0;
    for (; i + 16 <= n; i += 16) _mm512_storeu_ps(out + i, _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i*)(in + i))));
    return i;
}
__attribute__((target("avx512f"))) inline npy_intp narrow_halves(const float* in, Half* out, npy_intp n) {
    npy_intp i = 0;
    for (; i + 16 <= n; i += 16) _mm256_storeu_si256((__m256i*)(out + i), _mm512_cvtps_ph(_mm512_loadu_ps(in + i), 8));
    return i;
}
__attribute__((target("avx,f16c"))) inline npy_intp widen_eights(const Half* in, float* out, npy_intp n) {
    npy_intp i = 0;
    for (; i + 8 <= n; i += 8) _mm256_storeu_ps(out + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)(in + i))));
    return i;
}
__attribute__((target("avx,f16c"))) inline npy_intp narrow_eights(const float* in, Half* out, npy_intp n) {
    npy_intp i = 0;
    for (; i + 8 <= n; i += 8) _mm_storeu_si128((__m128i*)(out + i), _mm256_cvtps_ph(_mm256_loadu_ps(in + i), 8));
    return i;
}
inline int halves_at_once() {
    static const int count = __builtin_cpu_supports("avx512f") ? 16 : __builtin_cpu_supports("f16c") ? 8 : 0;
    return count;
}
inline npy_intp widen_many(const Half* in, float* out, npy_intp n) {
    int at_once = halves_at_once();
    return at_once == 16 ? widen_halves(in, out, n) : at_once ? widen_eights(in, out, n) : 0;
}
inline npy_intp narrow_many(const float* in, Half* out, npy_intp n) {
    int at_once = halves_at_once();
    return at_once == 16 ? narrow_halves(in, out, n) : at_once ? narrow_eights(in, out, n) : 0;
}
#else
inline npy_intp widen_many(const Half*, float*, npy_intp) { return 0; }
inline npy_intp narrow_many(const float*, Half*, npy_intp) { return 0; }
#endif

template <class From, class To> inline bool cast_run(const From*, To*, npy_intp) { return false; }
inline bool cast_run(const Half* in, float* out, npy_intp n) {
    for (npy_intp i = widen_many(in, out, n); i < n; i++) out[i] = widen(in[i]);
    return true;
}
inline bool cast_run(const float* in, Half* out, npy_intp n) {
    for (npy_intp i = narrow_many(in, out, n); i < n; i++) out[i] = Narrow<Half>::of(in[i]);
    return true;
}
inline bool cast_run(const BFloat* in, float* out, npy_intp n) {
    return widen_run((const uint16_t*)in, (uint32_t*)out, n), true;
}
inline bool cast_run(const float* in, BFloat* out, npy_intp n) {
    return narrow_run((const uint32_t*)in, (uint16_t*)out, n), true;
}

template <class T> constexpr bool is_half = false;
template <> inline constexpr bool is_half<Half> = true;
template <> inline constexpr bool is_half<BFloat> = true;

// Halves from and to other types: by floats, some at a time.
template <class From, class To> void cast_through_floats(const From* in, To* out, npy_intp n) {
    constexpr npy_intp some = 512;
    float between[some];
    for (npy_intp i = 0; i < n; i += some) {
        npy_intp count = n - i < some ? n - i : some;
        if constexpr (is_half<From>) {
            cast_run(in + i, between, count);
            for (npy_intp k = 0; k < count; k++) out[i + k] = Narrow<To>::of(between[k]);
        } else {
            for (npy_intp k = 0; k < count; k++) between[k] = (float)widen(in[i + k]);
            cast_run(between, out + i, count);
        }
    }
}

template <class From, class To>
void cast_range(const char* in, npy_intp in_step, char* out, npy_intp out_step, npy_intp n) {
    if (in_step == sizeof(From) && out_step == sizeof(To)) {
        const From* x = (const From*)in;
        To* y = (To*)out;
        if (cast_run(x, y, n)) return;
        if constexpr (is_half<From> != is_half<To>) return cast_through_floats(x, y, n);
        for (npy_intp i = 0; i < n; i++) y[i] = Narrow<To>::of(widen(x[i]));
        return;
    }
    for (npy_intp i = 0; i < n; i++, in += in_step, out += out_step)
        *(To*)out = Narrow<To>::of(widen(*(const From*)in));
}

template <class From> CastLoop cast_from(int to) {
    switch (to) {
    case BOOL: return cast_range<From, Bool>;
    case UINT8: return cast_range<From, uint8_t>;
    case INT8: return cast_range<From, int8_t>;
    case INT16: return cast_range<From, int16_t>;
    case INT32: return cast_range<From, int32_t>;
    case INT64: return cast_range<From, int64_t>;
    case FLOAT16: return cast_range<From, Half>;
    case BFLOAT16: return cast_range<From, BFloat>;
    case FLOAT32: return cast_range<From, float>;
    case FLOAT64: return cast_range<From, double>;
    default: return nullptr;
    }
}

template <class T> void move_range(const char* in, npy_intp in_step, char* out, npy_intp out_step, npy_intp n) {
    if (in_step == sizeof(T) && out_step == sizeof(T)) {
        memmove(out, in, n * sizeof(T));
        return;
    }
    for (npy_intp i = 0; i < n; i++, in += in_step, out += out_step) *(T*)out = *(const T*)in;
}

struct Wide {
    double a, b;
};

inline CastLoop move_loop(int type) {
    switch (type) {
    case BOOL: case UINT8: case INT8: case FLOAT8_E4M3: case FLOAT8_E5M2: return move_range<uint8_t>;
    case INT16: case UINT16: case FLOAT16: case BFLOAT16: return move_range<uint16_t>;
    case INT32: case UINT32: case FLOAT32: return move_range<uint32_t>;
    case INT64: case UINT64: case FLOAT64: case COMPLEX64: return move_range<uint64_t>;
    case COMPLEX128: return move_range<Wide>;
    default: return nullptr;
    }
}

// Doubles as halves, rounded once: the float in between keeps in its last bit that something was cut off.
inline float to_odd(double x) {
    float f = (float)x;
    if ((double)f == x || x != x) return f;
    uint32_t bits = float_to_bits(f);
    if ((bits & 0x7fffffff) > 0x7f7fffff) return f;
    if ((f < 0 ? -(double)f : (double)f) > (x < 0 ? -x : x)) bits--;
    return bits_to_float(bits | 1);
}
template <class To> void narrow_doubles(const char* in, npy_intp in_step, char* out, npy_intp out_step, npy_intp n) {
    for (npy_intp i = 0; i < n; i++, in += in_step, out += out_step) *(To*)out = Narrow<To>::of(to_odd(*(const double*)in));
}
inline CastLoop narrow_once(int type) { return type == FLOAT16 ? narrow_doubles<Half> : narrow_doubles<BFloat>; }

inline CastLoop cast_loop(int from, int to) {
    if (from == to) return move_loop(from);
    switch (from) {
    case BOOL: return cast_from<Bool>(to);
    case UINT8: return cast_from<uint8_t>(to);
    case INT8: return cast_from<int8_t>(to);
    case INT16: return cast_from<int16_t>(to);
    case INT32: return cast_from<int32_t>(to);
    case INT64: return cast_from<int64_t>(to);
    case FLOAT16: return cast_from<Half>(to);
    case BFLOAT16: return cast_from<BFloat>(to);
    case FLOAT32: return cast_from<float>(to);
    case FLOAT64: return to == FLOAT16 || to == BFLOAT16 ? nullptr : cast_from<double>(to); // numpy rounds these once
    default: return nullptr;
    }
}

#endif
