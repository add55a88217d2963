// Determinants and Cholesky factors of many small matrices, computed in doubles. A unit is a matrix.
#ifndef FB_SMALL_FACTORS_H
#define FB_SMALL_FACTORS_H

#include "softmax_norm.h"

constexpr long MOST_ROWS = 32;

template <class T> FB_INLINE void read_matrix(const T* x, long n, double* a) {
    for (long k = 0; k < n * n; k++) a[k] = (double)x[k];
}

// p: out, x; n: rows. By elimination with the largest pivot of each column.
template <class T> void small_determinants(const Job& job, long begin, long end) {
    long n = job.n[0];
    double a[MOST_ROWS * MOST_ROWS];
    for (long matrix = begin; matrix < end; matrix++) {
        read_matrix((const T*)job.p[1] + matrix * n * n, n, a);
        double product = 1;
        for (long i = 0; i < n; i++) {
            long top = i;
            for (long r = i + 1; r < n; r++)
                if (__builtin_fabs(a[r * n + i]) > __builtin_fabs(a[top * n + i])) top = r;
            double pivot = a[top * n + i];
            product *= top == i ? pivot : -pivot;
            if (top != i)
                for (long j = i; j < n; j++) {
                    double kept = a[i * n + j];
                    a[i * n + j] = a[top * n + j], a[top * n + j] = kept;
                }
            double inverse = pivot == 0 ? 0 : 1 / pivot; // (then the column is zero)
            for (long r = i + 1; r < n; r++) {
                double factor = a[r * n + i] * inverse;
                for (long j = i + 1; j < n; j++) a[r * n + j] -= factor * a[i * n + j];
            }
        }
        ((T*)job.p[0])[matrix] = (T)product;
    }
}

// p: out, x, a byte per matrix: whether it is positive-definite; n: rows. Of x only the lower triangle is read.
template <class T> void small_cholesky(const Job& job, long begin, long end) {
    long n = job.n[0];
    double a[MOST_ROWS * MOST_ROWS];
    for (long matrix = begin; matrix < end; matrix++) {
        read_matrix((const T*)job.p[1] + matrix * n * n, n, a);
        T* out = (T*)job.p[0] + matrix * n * n;
        bool positive = true;
        for (long i = 0; i < n && positive; i++) { // row by row: what stands left of the diagonal is done
            for (long j = 0; j < i; j++) {
                double rest = a[i * n + j];
                for (long k = 0; k < j; k++) rest -= a[i * n + k] * a[j * n + k];
                a[i * n + j] = rest * a[j * n + j]; // the diagonal keeps its inverse
                out[i * n + j] = (T)a[i * n + j];
            }
            double rest = a[i * n + i];
            for (long k = 0; k < i; k++) rest -= a[i * n + k] * a[i * n + k];
            positive = rest > 0 && rest < __builtin_inf();
            double root = __builtin_sqrt(rest);
            a[i * n + i] = 1 / root, out[i * n + i] = (T)root;
            for (long j = i + 1; j < n; j++) out[i * n + j] = 0;
        }
        ((bool*)job.p[2])[matrix] = positive;
    }
}

#endif
