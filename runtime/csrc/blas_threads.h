#ifndef FB_BLAS_THREADS_H
#define FB_BLAS_THREADS_H

void blas_set_threads(int count); // of every OpenBLAS in this process: numpy's products and factorizations
int blas_threads();               // 0 where no OpenBLAS is loaded

#endif
