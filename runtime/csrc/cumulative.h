// Running sums, products, extremes and linear recurrences along the middle of [outer, n, inner].
//
// "Rows" kernels have inner = 1 and a unit is a row; a unit of a "columns" kernel is a block of columns, or, where said, one
// outer index.
#ifndef FB_RUNNING_H
#define FB_RUNNING_H

#include "softmax_norm.h"

// What running sums and products of T are kept in: doubles for single precision, as PyTorch has it on this device (products
// that are denormal floats would also take many times as long), single precision for halves; as one number and as a register.
template <class T> struct Running {
    typedef double S;
    typedef vd V;
    static V wide(V x) { return x; }
    static V wide(vf x) { return to_d(x); }
};
template <> struct Running<bf16> {
    typedef float S;
    typedef vf V;
    static V wide(V x) { return x; }
};
template <> struct Running<f16> : Running<bf16> {};
FB_INLINE void put_running(float* p, vd x, Full m) { st(p, to_f(x), m); }
FB_INLINE void put_running(float* p, vd x, Tail m) { st(p, to_f(x), m); }
template <class T, class V, class M> FB_INLINE void put_running(T* p, V x, M m) { st(p, x, m); }

// ---- running sums and products. p: out, x; n: n, inner, blocks of columns
template <class T, bool products, int rows> FB_INLINE void running_few(const T* x, T* out, long n) {
    typename Running<T>::S total[rows];
    for (int r = 0; r < rows; r++) total[r] = products;
    for (long i = 0; i < n; i++)
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++) {
            total[r] = products ? total[r] * element(x + r * n + i) : total[r] + element(x + r * n + i);
            put(out + r * n + i, (typename Compute<T>::S)total[r]);
        }
}
template <class T, bool products> void running_rows(const Job& job, long begin, long end) {
    long n = job.n[0], row = begin;
    T* out = (T*)job.p[0];
    const T* x = (const T*)job.p[1];
    for (; row + 4 <= end; row += 4) running_few<T, products, 4>(x + row * n, out + row * n, n);
    for (; row < end; row++) running_few<T, products, 1>(x + row * n, out + row * n, n);
}
template <class T, bool products> void running_columns(const Job& job, long begin, long end) {
    typedef typename Running<T>::V V;
    long n = job.n[0], inner = job.n[1];
    column_units(job, begin, end, [&](i64 at, auto m) FB_BODY {
        V total = Element<V>::splat(products);
        for (long k = 0; k < n; k++) {
            V own = Running<T>::wide(ld((const T*)job.p[1] + at + k * inner, m));
            total = products ? total * own : total + own;
            put_running((T*)job.p[0] + at + k * inner, total, m);
        }
    });
}
template <class T> void running_sum_rows(const Job& job, long begin, long end) { running_rows<T, false>(job, begin, end); }
template <class T> void running_sum_columns(const Job& job, long begin, long end) { running_columns<T, false>(job, begin, end); }
template <class T> void running_product_rows(const Job& job, long begin, long end) { running_rows<T, true>(job, begin, end); }
template <class T> void running_product_columns(const Job& job, long begin, long end) { running_columns<T, true>(job, begin, end); }

// ---- running extremes and where they stand: of equals the last, a NaN stays. p: values, x, positions (int64); n: n, inner.
//      A unit is one outer index
template <class T, bool greatest> void running_extreme(const Job& job, long begin, long end) {
    long n = job.n[0], inner = job.n[1];
    for (long unit = begin; unit < end; unit++) {
        long start = unit * n * inner;
        for (long j = 0; j < inner; j++) {
            const T* x = (const T*)job.p[1] + start + j;
            T* out = (T*)job.p[0] + start + j;
            long *at = (long*)job.p[2] + start + j, place = 0;
            auto best = element(x);
            for (long k = 0; k < n; k++) {
                auto own = element(x + k * inner);
                bool better = (greatest ? own >= best : own <= best) || own != own;
                best = better ? own : best, place = better ? k : place;
                out[k * inner] = x[place * inner];
                at[k * inner] = place;
            }
        }
    }
}

// ---- y[t] = b[t] + a[t] y[t - 1] (t + 1 in reverse). p: y, a, b; n: n, inner, reverse. A unit is one outer index
template <class T> void recurrence(const Job& job, long begin, long end) {
    long n = job.n[0], inner = job.n[1];
    for (long unit = begin; unit < end; unit++) {
        const T *a = (const T*)job.p[1] + unit * n * inner, *b = (const T*)job.p[2] + unit * n * inner;
        T* out = (T*)job.p[0] + unit * n * inner;
        for (long j = 0; j < inner; j++) {
            T before = 0;
            for (long k = 0; k < n; k++) {
                long at = (job.n[2] ? n - 1 - k : k) * inner + j;
                T rest = k ? a[at] * before : (T)0;
                out[at] = before = k ? b[at] + rest : b[at];
            }
        }
    }
}

#endif
