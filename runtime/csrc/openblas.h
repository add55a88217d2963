#ifndef FB_OPENBLAS_H
#define FB_OPENBLAS_H

void blas_set_threads(int count); // of every OpenBLAS in this process: numpy's products and factorizations
int blas_threads();               // 0 where no OpenBLAS is loaded
// The reduced QR factors of floats: `a` holds the m x n matrix column by column, and Q's columns afterwards; `r`: min(m, n) x n, row by
// row. False, with `a` spoilt, where no OpenBLAS with 64-bit whole numbers is loaded.
bool blas_qr(long m, long n, float* a, float* r);

#endif
