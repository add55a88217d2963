// Maps of one or two operands that numpy has no single loop for. A unit is one element.
//
// p: out, x, second operand (the gradient that comes back) or null; f: the map's parameters.
#ifndef FB_MAPS_H
#define FB_MAPS_H

#include "rows.h"

enum MapOf {
    SIGMOID,
    SILU,
    SILU_BACK,
    GELU_ERF,
    GELU_ERF_BACK,
    GELU_TANH,
    GELU_TANH_BACK,
    SOFTPLUS,           // beta, threshold
    LOG_SIGMOID,
    RELU,
    CLAMP,              // least, greatest
    LEAKY_RELU,         // slope
    ELU,                // alpha, scale, input scale
    HARDSIGMOID,
    HARDSWISH
};

template <int kind, class V> FB_INLINE V mapped(V x, V g, const V (&f)[3]) {
    auto c = [](double v) FB_BODY { return Element<V>::splat((typename Element<V>::S)v); };
    V one = c(1), zero = c(0);
    if constexpr (kind == SIGMOID) return one / (one + v_exp(-x));
    else if constexpr (kind == SILU) return x / (one + v_exp(-x));
    else if constexpr (kind == SILU_BACK) {
        V y = one / (one + v_exp(-x));
        return g * (y * (one + x * (one - y)));
    } else if constexpr (kind == GELU_ERF) return x * (c(0.5) * (one + v_erf(x * c(0.70710678118654752))));
    else if constexpr (kind == GELU_ERF_BACK) {
        V below = c(0.5) * (one + v_erf(x * c(0.70710678118654752)));
        return g * (below + x * (v_exp(x * x * c(-0.5)) * c(0.39894228040143268)));
    } else if constexpr (kind == GELU_TANH || kind == GELU_TANH_BACK) {
        V square = x * x, t = v_tanh((x + x * square * c(0.044715)) * c(0.79788456080286536));
        if constexpr (kind == GELU_TANH) return x * c(0.5) * (one + t);
        V slope = (one + square * c(3 * 0.044715)) * c(0.79788456080286536);
        return g * (c(0.5) * (one + t) + x * c(0.5) * (one - t * t) * slope);
    } else if constexpr (kind == SOFTPLUS) {
        V steep = x * f[0];
        return v_where(steep > f[1], x, v_log1p(v_exp(v_minimum(steep, f[1]))) / f[0]);
    } else if constexpr (kind == LOG_SIGMOID) return v_minimum(x, zero) - v_log1p(v_exp(-v_abs(x)));
    else if constexpr (kind == RELU) return v_maximum(x, zero);
    else if constexpr (kind == CLAMP) return v_minimum(v_maximum(x, f[0]), f[1]);
    else if constexpr (kind == LEAKY_RELU) return v_where(x > zero, x, x * f[0]);
    else if constexpr (kind == ELU)
        return v_where(x > zero, x * f[1], v_expm1(v_minimum(x, zero) * f[2]) * (f[0] * f[1]));
    else {
        V gate = v_minimum(v_maximum(x + c(3), zero), c(6)) / c(6);
        return kind == HARDSWISH ? x * gate : gate;
    }
}

template <class T, int kind> void map(const Job& job, long begin, long end) {
    FB_TYPES(T);
    V f[3];
    for (int i = 0; i < 3; i++) f[i] = Compute<T>::splat((S)job.f[i]);
    const T *x = (const T*)job.p[1], *g = (const T*)job.p[2];
    each_vector<1>(begin, end, [&](i64 i, auto m, int) FB_BODY {
        constexpr bool back = kind == SILU_BACK || kind == GELU_ERF_BACK || kind == GELU_TANH_BACK;
        V up = {};
        if constexpr (back) up = ld(g + i, m);
        st((T*)job.p[0] + i, mapped<kind>(ld(x + i, m), up, f), m);
    });
}

// ---- out += row, for each row of out. p: out, row; n: row length. A unit is a row
template <class T> void add_row(const Job& job, long begin, long end) {
    long n = job.n[0];
    const T* row = (const T*)job.p[1];
    for (long unit = begin; unit < end; unit++) {
        T* out = (T*)job.p[0] + unit * n;
        each_vector<4>(0, n, [&](i64 i, auto m, int) FB_BODY { st(out + i, ld(out + i, m) + ld(row + i, m), m); });
    }
}

// ---- running sums along the middle of [outer, n, inner]. p: out, x; n: n, inner, blocks of columns. A unit is a row
//      (inner = 1) or a block of columns
template <class T> void running_sum_rows(const Job& job, long begin, long end) {
    typedef typename Compute<T>::S S;
    long n = job.n[0];
    for (long row = begin; row < end; row++) {
        const T* x = (const T*)job.p[1] + row * n;
        T* out = (T*)job.p[0] + row * n;
        S total = 0;
        for (long i = 0; i < n; i++) put(out + i, total += element(x + i));
    }
}
template <class T> void running_sum_columns(const Job& job, long begin, long end) {
    FB_TYPES(T);
    long n = job.n[0], inner = job.n[1];
    column_units(job, begin, end, [&](i64 at, auto m) FB_BODY {
        V total = {};
        for (long k = 0; k < n; k++) {
            total = total + ld((const T*)job.p[1] + at + k * inner, m);
            st((T*)job.p[0] + at + k * inner, total, m);
        }
    });
}

#endif
