// Factors of a matrix of few numbers, computed in doubles.
#include "small_tensor.h"

#include <math.h>

#include <vector>

#include "floating.h"

namespace {

constexpr npy_intp FEW = 32; // rows and columns

// Reflections that leave R above the diagonal of `a` (m rows, n columns) and their vectors below it, as LAPACK scales them;
// `factors`: of each reflection 1 - factor * v * v', where v begins with a one.
void reflect(double* a, npy_intp m, npy_intp n, double* factors) {
    for (npy_intp i = 0; i < m && i < n; i++) {
        double below = 0, top = a[i * n + i];
        for (npy_intp r = i + 1; r < m; r++) below += a[r * n + i] * a[r * n + i];
        factors[i] = 0;
        if (below == 0) continue;
        double length = -copysign(sqrt(top * top + below), top), factor = (length - top) / length;
        for (npy_intp r = i + 1; r < m; r++) a[r * n + i] /= top - length;
        a[i * n + i] = length, factors[i] = factor;
        for (npy_intp j = i + 1; j < n; j++) {
            double along = a[i * n + j];
            for (npy_intp r = i + 1; r < m; r++) along += a[r * n + i] * a[r * n + j];
            a[i * n + j] -= factor * along;
            for (npy_intp r = i + 1; r < m; r++) a[r * n + j] -= factor * along * a[r * n + i];
        }
    }
}

// The first k columns of the product of the reflections, row by row.
void product_of_reflections(const double* a, npy_intp m, npy_intp n, npy_intp k, const double* factors, double* q) {
    for (npy_intp r = 0; r < m; r++)
        for (npy_intp j = 0; j < k; j++) q[r * k + j] = r == j;
    for (npy_intp i = k - 1; i >= 0; i--)
        for (npy_intp j = 0; factors[i] != 0 && j < k; j++) {
            double along = q[i * k + j];
            for (npy_intp r = i + 1; r < m; r++) along += a[r * n + i] * q[r * k + j];
            q[i * k + j] -= factors[i] * along;
            for (npy_intp r = i + 1; r < m; r++) q[r * k + j] -= factors[i] * along * a[r * n + i];
        }
}

// qr(A): of floats, which a product of doubles neither leaves nor loses
PyObject* qr(const Call& c) {
    PyArrayObject* x = c.n == 1 && !c.names ? dense_array(c.args[0]) : nullptr;
    if (!x || type_of(c.args[0]) != FLOAT32 || PyArray_NDIM(x) != 2 || (c.grad && needs_grad(c.args[0]))) return nullptr;
    npy_intp m = PyArray_DIM(x, 0), n = PyArray_DIM(x, 1), k = m < n ? m : n, left[] = {m, k}, right[] = {k, n};
    if (!k || m > FEW || n > FEW) return nullptr;
    double a[FEW * FEW], q[FEW * FEW], factors[FEW];
    const float* from = (const float*)PyArray_DATA(x);
    for (npy_intp j = 0; j < m * n; j++) {
        if (!isfinite(from[j])) return nullptr;
        a[j] = from[j];
    }
    Ref first(fresh_array(FLOAT32, 2, left, nullptr)), second(fresh_array(FLOAT32, 2, right, nullptr));
    if (!first || !second) return nullptr;
    reflect(a, m, n, factors);
    product_of_reflections(a, m, n, k, factors, q);
    float *to = (float*)data_of(first.get()), *upper = (float*)data_of(second.get());
    for (npy_intp j = 0; j < m * k; j++) to[j] = (float)q[j];
    for (npy_intp r = 0; r < k; r++)
        for (npy_intp j = 0; j < n; j++) upper[r * n + j] = j < r ? 0.f : (float)a[r * n + j];
    return pair_of(tensor_around(first.release(), FLOAT32), tensor_around(second.release(), FLOAT32), c.self->pair);
}

}

const SmallEntry small_factors[] = {{"linalg_qr", qr}, {nullptr, nullptr}};
