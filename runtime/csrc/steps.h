// Optimizer steps over flat arrays: one pass, everything in registers. A unit is one element.
#ifndef FB_STEPS_H
#define FB_STEPS_H

#include "rows.h"

// p: param, grad, exp_avg, exp_avg_sq, max_exp_avg_sq?
// f: rate, root of the second correction, eps, 1 - beta1, beta2, 1 - beta2, factor on param, decay added to grad, sign
template <class T> void adam_step(const Job& job, long begin, long end) {
    FB_TYPES(T);
    V r[9];
    for (int i = 0; i < 9; i++) r[i] = Compute<T>::splat((S)job.f[i]);
    T *param = (T*)job.p[0], *first = (T*)job.p[2], *second = (T*)job.p[3], *biggest = (T*)job.p[4];
    const T* grad = (const T*)job.p[1];
    bool decay = job.f[7] != 0;
    each_vector<1>(begin, end, [&](i64 i, auto m, int) FB_BODY {
        V p = ld(param + i, m), g = ld(grad + i, m) * r[8], a = ld(first + i, m), b = ld(second + i, m);
        if (decay) g = g + p * r[7];
        a = a + (g - a) * r[3];
        b = b * r[4] + g * g * r[5];
        st(first + i, a, m);
        st(second + i, b, m);
        if (biggest) {
            b = v_maximum(ld(biggest + i, m), b);
            st(biggest + i, b, m);
        }
        st(param + i, p * r[6] - a / (v_sqrt(b) / r[1] + r[2]) * r[0], m);
    });
}

// p: param, grad, buffer?; f: rate, momentum, 1 - dampening, decay, sign; n: nesterov
template <class T> void sgd_step(const Job& job, long begin, long end) {
    FB_TYPES(T);
    V r[5];
    for (int i = 0; i < 5; i++) r[i] = Compute<T>::splat((S)job.f[i]);
    T *param = (T*)job.p[0], *buffer = (T*)job.p[2];
    const T* grad = (const T*)job.p[1];
    bool decay = job.f[3] != 0, nesterov = job.n[0];
    each_vector<1>(begin, end, [&](i64 i, auto m, int) FB_BODY {
        V p = ld(param + i, m), g = ld(grad + i, m) * r[4];
        if (decay) g = g + p * r[3];
        if (buffer) {
            V b = ld(buffer + i, m) * r[1] + g * r[2];
            st(buffer + i, b, m);
            g = nesterov ? g + b * r[1] : b;
        }
        st(param + i, p - g * r[0], m);
    });
}

#endif
