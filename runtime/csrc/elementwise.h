// Maps of one or two operands that numpy has no single loop for: functions of math.h, and the formulas of op records
// (formulas.h). A unit is one element.
//
// p: out, x, second operand or null.
#ifndef FB_MAPS_H
#define FB_MAPS_H

#include "softmax_norm.h"
#include "formulas.h"

enum MapOf {
    ERF,
    ERFINV,
    EXP,
    EXP2,
    EXPM1,
    LOG,
    LOG2,
    LOG1P,
    SQRT,
    RSQRT,
    FLOOR,
    CEIL,
    TRUNC,
    ROUND,
    SIN,
    COS,
    TAN,
    TANH,
    ASIN,
    ACOS,
    ATAN,
    ATAN2               // of y and x
};

// ---- the inverse of the error function: x times a polynomial of w = -log(1 - x^2), fitted by reweighted least squares to
//      1e-7; floats are within 4 ulp, doubles take one step of Halley's method more
FB_INLINE vf v_erfinv(vf x) {
    vf a = v_abs(x), one = splat_f(1.f);
    vf w = splat_f(0.f) - v_log((one - a) * (one + a));
    vf t = w - splat_f(2.5f), r = v_sqrt(w) - splat_f(3.f);
    vf near = polynomial(t, 2.853493031e-08f, 3.43727253e-07f, -3.528861237e-06f, -4.396783354e-06f, 0.0002186022002f,
        -0.001253707509f, -0.004177707752f, 0.2466407261f, 1.501409422f);
    vf far = polynomial(r, -0.0001318618515f, 6.080951248e-05f, 0.001253333672f, -0.003633733506f, 0.005784031234f,
        -0.007632649636f, 0.009432024362f, 1.001674617f, 2.832977082f);
    vf y = x * v_where(w < splat_f(5.f), near, far);
    return v_where(a == one, with_sign(splat_f(__builtin_inff()), x), y); // (beyond 1 the logarithm is NaN)
}
inline double horner(double, double sum) { return sum; }
template <class... More> inline double horner(double t, double sum, double next, More... more) {
    return horner(t, sum * t + next, more...);
}
inline double inverse_erf(double x) {
    double a = __builtin_fabs(x), rest = 1 - a;
    if (!(rest > 0)) return rest == 0 ? __builtin_copysign(__builtin_inf(), x) : __builtin_nan("");
    double w = -__builtin_log(rest * (1 + a)), y;
    if (w < 5) {
        double t = w - 2.5;
        y = horner(t, 2.853493031e-08, 3.43727253e-07, -3.528861237e-06, -4.396783354e-06, 0.0002186022002, -0.001253707509,
            -0.004177707752, 0.2466407261, 1.501409422);
    } else {
        double t = __builtin_sqrt(w) - 3;
        y = horner(t, -1.385701479e-06, 3.206016618e-05, -0.000275382062, 0.001226585589, -0.003250316337, 0.005696075191,
            -0.007771282183, 0.009460175173, 1.001689399, 2.83297627);
    }
    y *= a;
    double off = a < 0.5 ? __builtin_erf(y) - a : rest - __builtin_erfc(y);
    double step = off * 0.88622692545275801 * __builtin_exp(y * y);
    return __builtin_copysign(y - step / (1 + y * step), x);
}
FB_EACH(vd, erfinv, inverse_erf)

template <int kind, class V> FB_INLINE V mapped(V x, V y) {
    if constexpr (kind == ERF) return v_erf(x);
    else if constexpr (kind == ERFINV) return v_erfinv(x);
    else if constexpr (kind == EXP) return v_exp(x);
    else if constexpr (kind == SQRT) return v_sqrt(x);
    else if constexpr (kind == RSQRT) return v_rsqrt(x);
    else if constexpr (kind == FLOOR) return v_floor(x);
    else if constexpr (kind == CEIL) return v_ceil(x);
    else if constexpr (kind == TRUNC) return v_trunc(x);
    else if constexpr (kind == ROUND) return v_round(x);
    else if constexpr (kind == EXP2) return v_pow_of_2(x);
    else if constexpr (kind == EXPM1) return v_expm1(x);
    else if constexpr (kind == LOG) return v_log(x);
    else if constexpr (kind == LOG2) return v_log2(x);
    else if constexpr (kind == LOG1P) return v_log1p(x);
    else if constexpr (kind == SIN) return v_sin(x);
    else if constexpr (kind == COS) return v_cos(x);
    else if constexpr (kind == TAN) return v_tan(x);
    else if constexpr (kind == TANH) return v_tanh(x);
    else if constexpr (kind == ASIN) return v_asin(x);
    else if constexpr (kind == ACOS) return v_acos(x);
    else if constexpr (kind == ATAN) return v_atan(x);
    else return v_atan2(x, y);
}

template <class T, int kind> void map(const Job& job, long begin, long end) {
    const T *x = (const T*)job.p[1], *y = (const T*)job.p[2];
    each_vector<1>(begin, end, [&](i64 i, auto m, int) FB_BODY {
        auto a = ld(x + i, m);
        if constexpr (kind == ATAN2) st((T*)job.p[0] + i, mapped<kind>(a, ld(y + i, m)), m);
        else st((T*)job.p[0] + i, mapped<kind>(a, a), m);
    });
}

// ---- a formula of one or two operands. p: out, the operands; f: its parameters
template <class T, int kind> void map_formula(const Job& job, long begin, long end) {
    FB_TYPES(T);
    V f[4];
    for (int i = 0; i < 4; i++) f[i] = Compute<T>::splat((S)job.f[i]);
    const T *x = (const T*)job.p[1], *y = (const T*)job.p[2];
    each_vector<1>(begin, end, [&](i64 i, auto m, int) FB_BODY {
        V a = ld(x + i, m), b = a;
        if constexpr (formula_of_two(kind)) b = ld(y + i, m);
        st((T*)job.p[0] + i, formula<kind>(a, b, f), m);
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

#endif
