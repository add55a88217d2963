// Running sums, products, extremes and linear recurrences along the middle of [outer, n, inner].
//
// "Rows" kernels have inner = 1 and a unit is a row; a unit of a "columns" kernel is a block of columns, or, where said, one
// outer index.
#ifndef FB_RUNNING_H
#define FB_RUNNING_H

#include "softmax_norm.h"

// ---- running sums. p: out, x; n: n, inner, blocks of columns
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

// ---- running products. p: out, x; n: n, inner. A unit is one outer index
template <class T> void running_product(const Job& job, long begin, long end) {
    typedef typename Compute<T>::S S;
    long n = job.n[0], inner = job.n[1];
    for (long unit = begin; unit < end; unit++) {
        const T* x = (const T*)job.p[1] + unit * n * inner;
        T* out = (T*)job.p[0] + unit * n * inner;
        for (long j = 0; j < inner; j++) {
            S total = 1;
            for (long k = 0; k < n; k++) put(out + k * inner + j, total *= element(x + k * inner + j));
        }
    }
}

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
