// Rows that fit a cache: softmax, layer normalisation, cross entropy and their gradients, for every element type.
//
// "Rows" kernels take contiguous rows of n elements, a unit is a row. "Columns" kernels work along the middle of
// [outer, n, inner]; a unit is one block of COLUMNS columns of one outer index. Halves compute in float and are rounded
// once.
#ifndef FB_ROWS_H
#define FB_ROWS_H

#include "job.h"
#include "loops.h"

template <class T> struct Compute {
    typedef decltype(ld1((const T*)nullptr)) V;
    typedef typename Element<V>::S S;
    static V splat(S x) { return Element<V>::splat(x); }
    enum { stored = sizeof(T) >= 4 }; // results may be kept in the output between two passes
};
#define FB_TYPES(T) \
    typedef typename Compute<T>::V V; \
    typedef typename Compute<T>::S S; \
    (void)sizeof(V); \
    (void)sizeof(S)

template <class V> FB_INLINE V sum_of(V (&a)[4]) { return (a[0] + a[1]) + (a[2] + a[3]); }
FB_INLINE vf fma_of(vf a, vf b, vf c) { return v_fma(a, b, c); }
FB_INLINE vd fma_of(vd a, vd b, vd c) { return {v_fma(a.lo, b.lo, c.lo), v_fma(a.hi, b.hi, c.hi)}; }

// sum of value(i, lanes) over [0, n): 4096 elements at a time in the registers' type, the rest in double
template <class V, class Value> FB_INLINE double sum_row(long n, Value value) {
    double total = 0;
    for (long start = 0; start < n; start += 4096) {
        long stop = n - start < 4096 ? n : start + 4096;
        V part[4] = {};
        each_vector<4>(start, stop, [&](i64 i, auto m, int k) FB_BODY { part[k] = part[k] + keep(m, value(i, m), V{}); });
        total += (double)fold_add(sum_of(part));
    }
    return total;
}
// Greatest or least of many: a NaN is kept aside, so that the chain of comparisons has one instruction a step.
template <class V, bool greatest> struct Extreme {
    V best[4], odd[4];
    FB_BODY Extreme(V start) {
        for (int k = 0; k < 4; k++) best[k] = start, odd[k] = V{};
    }
    FB_BODY void take(V x, int k) {
        best[k] = raw_extreme(x, best[k]);
        odd[k] = v_where(x != x, x, odd[k]);
    }
    static FB_BODY vf raw_extreme(vf a, vf b) { return greatest ? raw_max(a, b) : raw_min(a, b); }
    static FB_BODY vd raw_extreme(vd a, vd b) {
        return greatest ? vd{raw_max(a.lo, b.lo), raw_max(a.hi, b.hi)} : vd{raw_min(a.lo, b.lo), raw_min(a.hi, b.hi)};
    }
    FB_BODY auto result() {
        V x = raw_extreme(raw_extreme(best[0], best[1]), raw_extreme(best[2], best[3]));
        V y = (odd[0] + odd[1]) + (odd[2] + odd[3]);
        x = v_where(y != y, y, x);
        return greatest ? fold_max(x) : fold_min(x);
    }
};
template <class T, bool greatest> FB_INLINE auto extreme_row(const T* x, long n) {
    FB_TYPES(T);
    V start = Compute<T>::splat(greatest ? -(S)__builtin_inff() : (S)__builtin_inff());
    Extreme<V, greatest> extreme(start);
    each_vector<4>(0, n, [&](i64 i, auto m, int k) FB_BODY { extreme.take(keep(m, ld(x + i, m), start), k); });
    return extreme.result();
}
template <class T> FB_INLINE auto max_row(const T* x, long n) { return extreme_row<T, true>(x, n); }
FB_INLINE float real_log(float x) { return __builtin_logf(x); }
FB_INLINE double real_log(double x) { return __builtin_log(x); }
FB_INLINE bool finite(double x) { return x - x == 0; }

// ---- softmax of rows. p: out, x, log-sum-exp per row (or null); n: row length
template <class T> void softmax_rows(const Job& job, long begin, long end) {
    FB_TYPES(T);
    long n = job.n[0];
    for (long row = begin; row < end; row++) {
        const T* x = (const T*)job.p[1] + row * n;
        T* out = (T*)job.p[0] + row * n;
        V top = Compute<T>::splat(max_row(x, n));
        double total = sum_row<V>(n, [&](i64 i, auto m) FB_BODY {
            V e = v_exp(ld(x + i, m) - top);
            if constexpr (Compute<T>::stored) st(out + i, e, m);
            return e;
        });
        V scale = Compute<T>::splat((S)(1.0 / total));
        each_vector<1>(0, n, [&](i64 i, auto m, int) FB_BODY {
            if constexpr (Compute<T>::stored) st(out + i, ld(out + i, m) * scale, m);
            else st(out + i, v_exp(ld(x + i, m) - top) * scale, m);
        });
    }
}
template <class T> void log_softmax_rows(const Job& job, long begin, long end) {
    FB_TYPES(T);
    long n = job.n[0];
    for (long row = begin; row < end; row++) {
        const T* x = (const T*)job.p[1] + row * n;
        T* out = (T*)job.p[0] + row * n;
        V top = Compute<T>::splat(max_row(x, n));
        double total = sum_row<V>(n, [&](i64 i, auto m) FB_BODY { return v_exp(ld(x + i, m) - top); });
        V lse = Compute<T>::splat(real_log((S)total));
        each_vector<1>(0, n, [&](i64 i, auto m, int) FB_BODY { st(out + i, (ld(x + i, m) - top) - lse, m); });
    }
}
// p: out, g, y; n: row length. y (g - sum(g y))
template <class T> void softmax_back_rows(const Job& job, long begin, long end) {
    FB_TYPES(T);
    long n = job.n[0];
    for (long row = begin; row < end; row++) {
        const T *g = (const T*)job.p[1] + row * n, *y = (const T*)job.p[2] + row * n;
        T* out = (T*)job.p[0] + row * n;
        V dot = Compute<T>::splat((S)sum_row<V>(n, [&](i64 i, auto m) FB_BODY { return ld(g + i, m) * ld(y + i, m); }));
        each_vector<1>(
            0, n, [&](i64 i, auto m, int) FB_BODY { st(out + i, (ld(g + i, m) - dot) * ld(y + i, m), m); });
    }
}
// g - exp(y) sum(g)
template <class T> void log_softmax_back_rows(const Job& job, long begin, long end) {
    FB_TYPES(T);
    long n = job.n[0];
    for (long row = begin; row < end; row++) {
        const T *g = (const T*)job.p[1] + row * n, *y = (const T*)job.p[2] + row * n;
        T* out = (T*)job.p[0] + row * n;
        V total = Compute<T>::splat((S)sum_row<V>(n, [&](i64 i, auto m) FB_BODY { return ld(g + i, m); }));
        each_vector<1>(0, n,
            [&](i64 i, auto m, int) FB_BODY { st(out + i, ld(g + i, m) - v_exp(ld(y + i, m)) * total, m); });
    }
}

// ---- the same along the middle of [outer, n, inner]. n: n, inner, blocks of columns per outer index
enum { COLUMNS = 4 * FB_W };
template <class Body> FB_INLINE void column_units(const Job& job, long begin, long end, Body body) {
    long n = job.n[0], inner = job.n[1], blocks = job.n[2];
    for (long unit = begin; unit < end; unit++) {
        long c = unit % blocks * COLUMNS, stop = inner - c < COLUMNS ? inner : c + COLUMNS;
        each_vector<1>(c, stop, [&](i64 i, auto m, int) FB_BODY { body(unit / blocks * n * inner + i, m); });
    }
}
template <class T, bool logarithm> void softmax_columns(const Job& job, long begin, long end) {
    FB_TYPES(T);
    long n = job.n[0], inner = job.n[1];
    column_units(job, begin, end, [&](i64 at, auto m) FB_BODY {
        const T* x = (const T*)job.p[1] + at;
        T* out = (T*)job.p[0] + at;
        V top = Compute<T>::splat(-(S)__builtin_inff()), total = {};
        for (long k = 0; k < n; k++) top = v_maximum(top, ld(x + k * inner, m));
        for (long k = 0; k < n; k++) total = total + v_exp(ld(x + k * inner, m) - top);
        V scale = logarithm ? v_log(total) : Compute<T>::splat(1) / total;
        for (long k = 0; k < n; k++) {
            V y = ld(x + k * inner, m) - top;
            st(out + k * inner, logarithm ? y - scale : v_exp(y) * scale, m);
        }
    });
}
template <class T, bool logarithm> void softmax_back_columns(const Job& job, long begin, long end) {
    FB_TYPES(T);
    long n = job.n[0], inner = job.n[1];
    column_units(job, begin, end, [&](i64 at, auto m) FB_BODY {
        const T *g = (const T*)job.p[1] + at, *y = (const T*)job.p[2] + at;
        T* out = (T*)job.p[0] + at;
        V total = {};
        for (long k = 0; k < n; k++) {
            V up = ld(g + k * inner, m);
            total = total + (logarithm ? up : up * ld(y + k * inner, m));
        }
        for (long k = 0; k < n; k++) {
            V up = ld(g + k * inner, m), own = ld(y + k * inner, m);
            st(out + k * inner, logarithm ? up - v_exp(own) * total : (up - total) * own, m);
        }
    });
}

// ---- layer normalisation. p: out, x, weight?, bias?, mean, rstd (these two in the computation type); n: row length;
//      f: eps
template <class T, bool weight, bool bias, class V> FB_INLINE void scaled_row(const Job& job, const T* x, T* out, V mean, V rstd) {
    each_vector<4>(0, job.n[0], [&](i64 i, auto m, int) FB_BODY {
        V y = (ld(x + i, m) - mean) * rstd;
        if constexpr (weight) y = y * ld((const T*)job.p[2] + i, m);
        if constexpr (bias) y = y + ld((const T*)job.p[3] + i, m);
        st(out + i, y, m);
    });
}
template <class T, class V> FB_INLINE void scaled_row(const Job& job, const T* x, T* out, V mean, V rstd) {
    if (job.p[2] && job.p[3]) scaled_row<T, true, true>(job, x, out, mean, rstd);
    else if (job.p[2]) scaled_row<T, true, false>(job, x, out, mean, rstd);
    else if (job.p[3]) scaled_row<T, false, true>(job, x, out, mean, rstd);
    else scaled_row<T, false, false>(job, x, out, mean, rstd);
}
template <class T> void layer_norm_rows(const Job& job, long begin, long end) {
    FB_TYPES(T);
    long n = job.n[0];
    for (long row = begin; row < end; row++) {
        const T* x = (const T*)job.p[1] + row * n;
        T* out = (T*)job.p[0] + row * n;
        S mean = (S)(sum_row<V>(n, [&](i64 i, auto m) FB_BODY { return ld(x + i, m); }) / n);
        V middle = Compute<T>::splat(mean);
        double square = sum_row<V>(n, [&](i64 i, auto m) FB_BODY {
            V d = ld(x + i, m) - middle;
            return d * d;
        });
        S rstd = (S)(1.0 / __builtin_sqrt(square / n + job.f[0]));
        scaled_row(job, x, out, middle, Compute<T>::splat(rstd));
        ((S*)job.p[4])[row] = mean;
        ((S*)job.p[5])[row] = rstd;
    }
}
template <class T> void rms_norm_rows(const Job& job, long begin, long end) {
    FB_TYPES(T);
    long n = job.n[0];
    for (long row = begin; row < end; row++) {
        const T* x = (const T*)job.p[1] + row * n;
        T* out = (T*)job.p[0] + row * n;
        double square = sum_row<V>(n, [&](i64 i, auto m) FB_BODY { return ld(x + i, m) * ld(x + i, m); });
        S rstd = (S)(1.0 / __builtin_sqrt(square / n + job.f[0]));
        scaled_row(job, x, out, V{}, Compute<T>::splat(rstd));
        ((S*)job.p[5])[row] = rstd;
    }
}
// p: out, x, weight?, g, mean (null: rms), rstd; n: row length
template <class T> void norm_back_rows(const Job& job, long begin, long end) {
    FB_TYPES(T);
    long n = job.n[0];
    const T* weight = (const T*)job.p[2];
    for (long row = begin; row < end; row++) {
        const T *x = (const T*)job.p[1] + row * n, *g = (const T*)job.p[3] + row * n;
        T* out = (T*)job.p[0] + row * n;
        bool centred = job.p[4];
        V mean = Compute<T>::splat(centred ? ((const S*)job.p[4])[row] : 0);
        V rstd = Compute<T>::splat(((const S*)job.p[5])[row]);
        auto h = [&](i64 i, auto m) FB_BODY { return weight ? ld(g + i, m) * ld(weight + i, m) : ld(g + i, m); };
        V plain[4] = {};
        double along = sum_row<V>(n, [&](i64 i, auto m) FB_BODY {
            V own = h(i, m);
            plain[0] = plain[0] + keep(m, own, V{});
            return own * ((ld(x + i, m) - mean) * rstd);
        });
        V a = Compute<T>::splat((S)(along / n)), b = Compute<T>::splat(centred ? (S)((double)fold_add(plain[0]) / n) : 0);
        each_vector<1>(0, n, [&](i64 i, auto m, int) FB_BODY {
            V hat = (ld(x + i, m) - mean) * rstd;
            st(out + i, ((h(i, m) - b) - hat * a) * rstd, m);
        });
    }
}
// Sums over rows of g * hat. p: out (units, row length; computation type), x, g, mean?, rstd; n: row length, rows,
// rows a unit
template <class T> void norm_weight_rows(const Job& job, long begin, long end) {
    FB_TYPES(T);
    long n = job.n[0], rows = job.n[1], step = job.n[2];
    for (long unit = begin; unit < end; unit++) {
        S* out = (S*)job.p[0] + unit * n;
        long stop = rows - unit * step < step ? rows : (unit + 1) * step;
        for (long i = 0; i < n; i++) out[i] = 0;
        for (long row = unit * step; row < stop; row++) {
            const T *x = (const T*)job.p[1] + row * n, *g = (const T*)job.p[2] + row * n;
            V mean = Compute<T>::splat(job.p[3] ? ((const S*)job.p[3])[row] : 0);
            V rstd = Compute<T>::splat(((const S*)job.p[4])[row]);
            each_vector<1>(0, n, [&](i64 i, auto m, int) FB_BODY {
                st(out + i, ld(out + i, m) + ld(g + i, m) * ((ld(x + i, m) - mean) * rstd), m);
            });
        }
    }
}

// ---- cross entropy with class numbers. p: loss, lse (computation type), x, target (int64), weight?, found (int64:
//      a row whose target is no class, where there is one, and the number of rows that count); n: classes, ignored target
template <class T> void cross_entropy_rows(const Job& job, long begin, long end) {
    FB_TYPES(T);
    long n = job.n[0], kept = 0;
    for (long row = begin; row < end; row++) {
        const T* x = (const T*)job.p[2] + row * n;
        long target = ((const long*)job.p[3])[row];
        S top = max_row(x, n);
        V shift = Compute<T>::splat(finite(top) ? top : 0);
        double total = sum_row<V>(n, [&](i64 i, auto m) FB_BODY { return v_exp(ld(x + i, m) - shift); });
        S lse = real_log((S)total) + lane(shift, 0), loss = 0;
        if (top > 0 && !finite(top)) lse = top - top; // an infinite score: all of its row is NaN
        ((S*)job.p[1])[row] = lse;
        if (target != job.n[1]) {
            if ((unsigned long)target >= (unsigned long)n) __atomic_store_n((long*)job.p[5], row, __ATOMIC_RELAXED);
            else loss = (lse - element(x + target)) * (job.p[4] ? (S)element((const T*)job.p[4] + target) : (S)1);
            kept++;
        }
        ((S*)job.p[0])[row] = loss;
    }
    __atomic_fetch_add((long*)job.p[5] + 1, kept, __ATOMIC_RELAXED);
}
// p: out, scale per row (computation type) or null, x, target, lse; n: classes, ignored target; f: scale of all rows that
// count, where there is none per row. (exp(x - lse) - onehot) * scale, which is a difference of two infinities at the target
// where the scale is infinite
template <class T> void cross_entropy_back_rows(const Job& job, long begin, long end) {
    FB_TYPES(T);
    long n = job.n[0];
    for (long row = begin; row < end; row++) {
        const T* x = (const T*)job.p[2] + row * n;
        T* out = (T*)job.p[0] + row * n;
        long target = ((const long*)job.p[3])[row];
        V lse = Compute<T>::splat(((const S*)job.p[4])[row]);
        V scale = Compute<T>::splat(job.p[1] ? ((const S*)job.p[1])[row] : target == job.n[1] ? (S)0 : (S)job.f[0]);
        each_vector<1>(
            0, n, [&](i64 i, auto m, int) FB_BODY { st(out + i, v_exp(ld(x + i, m) - lse) * scale, m); });
        if ((unsigned long)target < (unsigned long)n) {
            V own = (v_exp(ld1(x + target) - lse) - Compute<T>::splat(1)) * scale + (scale - scale);
            st1(out + target, own);
        }
    }
}

#endif
