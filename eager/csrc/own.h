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
        float v = x[i], r = (float)(v > 0) - (float)(v < 0);
        out[i] = v == v ? r : v;
    }
}
inline void float_sign(char** p, const npy_intp* count, const npy_intp* s, void*) {
    if (s[0] == sizeof(float) && s[1] == sizeof(float)) return sign_run((const float*)p[0], (float*)p[1], *count);
    for (npy_intp i = 0; i < *count; i++) sign_run((const float*)(p[0] + i * s[0]), (float*)(p[1] + i * s[1]), 1);
}

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

struct OwnLoop {
    const char* name; // numpy's function, or the primitive, and the types of the operands and of the result
    void (*loop)(char**, const npy_intp*, const npy_intp*, void*); // given the entry
    const char* job; // the map of the runtime that the loop calls
};

// ---- a map of the runtime: on memory side by side, or by way of it
template <class T> void job_loop(char** p, const npy_intp* count, const npy_intp* s, void* entry) {
    const OwnLoop& own = *(const OwnLoop*)entry;
    constexpr npy_intp size = sizeof(T), some = 512;
    const JobKernel* kernel = world.api->jobs();
    while (strcmp(kernel->name, own.job)) kernel++;
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
    {"sign f->f", float_sign}, {"maximum ll->l", greater_long}, {"minimum ll->l", less_long},
    {"maximum ii->i", greater_int}, {"minimum ii->i", less_int}, {"erf f->f", job_loop<float>, "erf"},
    {"erf d->d", job_loop<double>, "erf"}, {nullptr, nullptr}};

#endif
