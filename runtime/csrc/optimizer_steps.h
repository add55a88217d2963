// Optimizer steps over flat arrays: one pass, everything in registers. A unit is one element. Results may lie where the
// old values are.
#ifndef FB_STEPS_H
#define FB_STEPS_H

#include "softmax_norm.h"

// p: new param, exp_avg, exp_avg_sq, max_exp_avg_sq?; the same four as they are; grad, steps so far (one float)
// f: rate, beta1, beta2, eps, decay; n: decoupled, maximize
template <class T> void adam(const Job& job, long begin, long end) {
    FB_TYPES(T);
    double t = (double)*(const float*)job.p[9] + 1, rate = job.f[0], beta1 = job.f[1], beta2 = job.f[2];
    bool decoupled = job.n[0], decay = job.f[4] != 0 && !decoupled;
    auto all = [](double x) FB_BODY { return Compute<T>::splat((S)x); };
    V step = all(rate / (1.0 - __builtin_pow(beta1, t))), root = all(__builtin_sqrt(1.0 - __builtin_pow(beta2, t)));
    V eps = all(job.f[3]), towards = all(1.0 - beta1), keep2 = all(beta2), add2 = all(1.0 - beta2);
    V factor = all(decoupled ? 1.0 - rate * job.f[4] : 1.0), shrink = all(job.f[4]), sign = all(job.n[1] ? -1 : 1);
    T *param = (T*)job.p[0], *first = (T*)job.p[1], *second = (T*)job.p[2], *biggest = (T*)job.p[3];
    const T *old = (const T*)job.p[4], *first_old = (const T*)job.p[5], *second_old = (const T*)job.p[6];
    const T *biggest_old = (const T*)job.p[7], *grad = (const T*)job.p[8];
    each_vector<1>(begin, end, [&](i64 i, auto m, int) FB_BODY {
        V p = ld(old + i, m), g = ld(grad + i, m) * sign, a = ld(first_old + i, m), b = ld(second_old + i, m);
        if (decay) g = g + p * shrink;
        a = a + (g - a) * towards;
        b = b * keep2 + g * g * add2;
        st(first + i, a, m);
        st(second + i, b, m);
        if (biggest) {
            b = v_maximum(ld(biggest_old + i, m), b);
            st(biggest + i, b, m);
        }
        st(param + i, p * factor - a / (v_sqrt(b) / root + eps) * step, m);
    });
}

// p: new param, buffer?; the same two as they are; grad
// f: rate, momentum, 1 - dampening, decay; n: nesterov, maximize
template <class T> void sgd(const Job& job, long begin, long end) {
    FB_TYPES(T);
    V r[4];
    for (int i = 0; i < 4; i++) r[i] = Compute<T>::splat((S)job.f[i]);
    V sign = Compute<T>::splat((S)(job.n[1] ? -1 : 1));
    T *param = (T*)job.p[0], *buffer = (T*)job.p[1];
    const T *old = (const T*)job.p[2], *buffer_old = (const T*)job.p[3], *grad = (const T*)job.p[4];
    bool decay = job.f[3] != 0, nesterov = job.n[0];
    each_vector<1>(begin, end, [&](i64 i, auto m, int) FB_BODY {
        V p = ld(old + i, m), g = ld(grad + i, m) * sign;
        if (decay) g = g + p * r[3];
        if (buffer) {
            V b = ld(buffer_old + i, m) * r[1] + g * r[2];
            st(buffer + i, b, m);
            g = nesterov ? g + b * r[1] : b;
        }
        st(param + i, p - g * r[0], m);
    });
}

// p: new count, count
template <class T> void count_up(const Job& job, long begin, long end) {
    FB_TYPES(T);
    V one = Compute<T>::splat((S)1);
    T* out = (T*)job.p[0];
    const T* x = (const T*)job.p[1];
    each_vector<1>(begin, end, [&](i64 i, auto m, int) FB_BODY { st(out + i, ld(x + i, m) + one, m); });
}

#endif
