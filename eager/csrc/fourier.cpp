// Discrete Fourier transforms of rows of single complex or real numbers, of lengths whose prime factors are small.
//
// Stockham's form: a pass of radix p takes x[q + s (k + m j)], j < p, to y[q + s (p k + j)], so that results come out in
// order and the inner loop over q runs along memory. Rows are transformed side by side: q counts them first. Real and
// imaginary parts lie apart. The inverse swaps both parts; two real rows are one complex row.
#include "gradients.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <map>
#include <memory>
#include <vector>

#include "dense.h"

namespace {

constexpr long LARGEST = 127, SIDE_BY_SIDE = 16, LONG_ROW = 4096;

struct Pass {
    int radix;
    long m; // how many k
    std::vector<float> cosines, sines; // of 2 pi j k / n, [j][k] for j = 1 .. radix - 1
    std::vector<float> cosine, sine; // of 2 pi j / radix
};

struct Plan {
    long n;
    std::vector<Pass> passes;
};

// Factors with the wide ones first: the first pass has the shortest inner loops.
std::vector<int> factors_of(long n) {
    std::vector<int> found;
    for (int p : {8, 4, 2})
        while (n % p == 0 && (p != 2 || n % 4)) found.push_back(p), n /= p;
    for (int p = 3; n > 1 && p <= LARGEST; p += 2)
        while (n % p == 0) found.push_back(p), n /= p;
    if (n > 1) found.clear();
    return found;
}

std::shared_ptr<const Plan> plan_of(long n) { // null: another algorithm is needed. The GIL is held.
    static auto* known = new std::map<long, std::shared_ptr<const Plan>>;
    auto at = known->find(n);
    if (at != known->end()) return at->second;
    auto plan = std::make_shared<Plan>();
    plan->n = n;
    std::vector<int> factors = factors_of(n);
    if (factors.empty()) return nullptr;
    long left = n;
    for (int p : factors) {
        Pass pass = {p, left / p, {}, {}, {}, {}};
        for (int j = 0; j < p; j++)
            pass.cosine.push_back((float)cos(2 * M_PI * j / p)), pass.sine.push_back((float)sin(2 * M_PI * j / p));
        for (int j = 1; j < p; j++)
            for (long k = 0; k < pass.m; k++) {
                double angle = 2 * M_PI * (double)(j * k % left) / (double)left;
                pass.cosines.push_back((float)cos(angle)), pass.sines.push_back((float)sin(angle));
            }
        plan->passes.push_back(std::move(pass));
        left /= p;
    }
    if (known->size() >= 64) known->clear();
    return (*known)[n] = plan;
}

#define FB_ALWAYS __attribute__((always_inline)) inline

struct Parts {
    float *re, *im;
};

// Sixteen numbers side by side, or eight.
#if defined(__GNUC__) && !defined(__clang__)
#define FB_SQUARES 1
typedef float V16 __attribute__((vector_size(64)));
typedef int I16 __attribute__((vector_size(64)));
typedef int I8 __attribute__((vector_size(32)));
typedef float V8 __attribute__((vector_size(32)));
template <class V> FB_ALWAYS V loaded(const float* p) {
    V x;
    memcpy(&x, p, sizeof x);
    return x;
}
template <class V> FB_ALWAYS void stored(float* p, const V& x) { memcpy(p, &x, sizeof x); }
// Whether sixteen numbers are one register; where they are two, half of them leave room for a whole butterfly.
inline bool are_wide() {
#if defined(__x86_64__)
    static const bool wide = __builtin_cpu_supports("avx512f");
    return wide;
#else
    return false;
#endif
}
#else
#define FB_SQUARES 0
struct V16;
struct V8;
inline bool are_wide() { return true; }
#endif

// Butterflies on p complex numbers, forward.
template <class T> FB_ALWAYS void butterfly(T (&r)[2], T (&i)[2]) {
    T a = r[0], b = i[0];
    r[0] = a + r[1], i[0] = b + i[1], r[1] = a - r[1], i[1] = b - i[1];
}
template <class T> FB_ALWAYS void butterfly(T (&r)[3], T (&i)[3]) {
    const float h = 0.86602540378443864676f;
    T tr = r[1] + r[2], ti = i[1] + i[2], dr = (r[1] - r[2]) * h, di = (i[1] - i[2]) * h;
    T ar = r[0] - 0.5f * tr, ai = i[0] - 0.5f * ti;
    r[0] += tr, i[0] += ti;
    r[1] = ar + di, i[1] = ai - dr, r[2] = ar - di, i[2] = ai + dr;
}
template <class T> FB_ALWAYS void butterfly(T (&r)[4], T (&i)[4]) {
    T ar = r[0] + r[2], ai = i[0] + i[2], br = r[0] - r[2], bi = i[0] - i[2];
    T cr = r[1] + r[3], ci = i[1] + i[3], dr = r[1] - r[3], di = i[1] - i[3];
    r[0] = ar + cr, i[0] = ai + ci, r[2] = ar - cr, i[2] = ai - ci;
    r[1] = br + di, i[1] = bi - dr, r[3] = br - di, i[3] = bi + dr;
}
template <class T> FB_ALWAYS void butterfly(T (&r)[5], T (&i)[5]) {
    const float c1 = 0.30901699437494742410f, c2 = -0.80901699437494742410f, s1 = 0.95105651629515357212f,
                s2 = 0.58778525229247312917f;
    T t1r = r[1] + r[4], t1i = i[1] + i[4], t2r = r[2] + r[3], t2i = i[2] + i[3];
    T d1r = r[1] - r[4], d1i = i[1] - i[4], d2r = r[2] - r[3], d2i = i[2] - i[3];
    T ar = r[0] + c1 * t1r + c2 * t2r, ai = i[0] + c1 * t1i + c2 * t2i;
    T br = r[0] + c2 * t1r + c1 * t2r, bi = i[0] + c2 * t1i + c1 * t2i;
    T ur = s1 * d1r + s2 * d2r, ui = s1 * d1i + s2 * d2i, vr = s2 * d1r - s1 * d2r, vi = s2 * d1i - s1 * d2i;
    r[0] += t1r + t2r, i[0] += t1i + t2i;
    r[1] = ar + ui, i[1] = ai - ur, r[4] = ar - ui, i[4] = ai + ur;
    r[2] = br + vi, i[2] = bi - vr, r[3] = br - vi, i[3] = bi + vr;
}
template <class T> FB_ALWAYS void butterfly(T (&r)[8], T (&i)[8]) {
    const float h = 0.70710678118654752440f;
    T er[4] = {r[0], r[2], r[4], r[6]}, ei[4] = {i[0], i[2], i[4], i[6]};
    T odd_r[4] = {r[1], r[3], r[5], r[7]}, odd_i[4] = {i[1], i[3], i[5], i[7]};
    butterfly(er, ei);
    butterfly(odd_r, odd_i);
    T tr[4] = {odd_r[0], (odd_r[1] + odd_i[1]) * h, odd_i[2], (odd_i[3] - odd_r[3]) * h};
    T ti[4] = {odd_i[0], (odd_i[1] - odd_r[1]) * h, -odd_r[2], -(odd_r[3] + odd_i[3]) * h};
    for (int j = 0; j < 4; j++)
        r[j] = er[j] + tr[j], i[j] = ei[j] + ti[j], r[j + 4] = er[j] - tr[j], i[j + 4] = ei[j] - ti[j];
}

// One pass: the inner loop over q, or over k where there is one q.
template <int p, class V> FB_ALWAYS void pass_of(const Pass& pass, const Parts& x, const Parts& y, long s) {
    const float *c = pass.cosines.data(), *w = pass.sines.data();
    const float *__restrict xr = x.re, *__restrict xi = x.im;
    float *__restrict yr = y.re, *__restrict yi = y.im;
    long m = pass.m;
    if (s == 1) {
        for (long k = 0; k < m; k++) {
            float r[p], i[p];
            for (int j = 0; j < p; j++) r[j] = xr[k + m * j], i[j] = xi[k + m * j];
            butterfly(r, i);
            yr[p * k] = r[0], yi[p * k] = i[0];
            for (int j = 1; j < p; j++) {
                float cj = c[(j - 1) * m + k], wj = w[(j - 1) * m + k];
                yr[p * k + j] = r[j] * cj + i[j] * wj, yi[p * k + j] = i[j] * cj - r[j] * wj;
            }
        }
        return;
    }
    for (long k = 0; k < m; k++) {
        float cj[p], wj[p];
        for (int j = 1; j < p; j++) cj[j] = c[(j - 1) * m + k], wj[j] = w[(j - 1) * m + k];
        const float *ar = xr + s * k, *ai = xi + s * k;
        float *br = yr + s * p * k, *bi = yi + s * p * k;
        long q = 0;
#if FB_SQUARES
        constexpr long lanes = sizeof(V) / sizeof(float);
        for (; q + lanes <= s; q += lanes) {
            V r[p], i[p];
            for (int j = 0; j < p; j++) r[j] = loaded<V>(ar + q + s * m * j), i[j] = loaded<V>(ai + q + s * m * j);
            butterfly(r, i);
            stored(br + q, r[0]), stored(bi + q, i[0]);
            for (int j = 1; j < p; j++) {
                stored<V>(br + q + s * j, r[j] * cj[j] + i[j] * wj[j]);
                stored<V>(bi + q + s * j, i[j] * cj[j] - r[j] * wj[j]);
            }
        }
#endif
        for (; q < s; q++) {
            float r[p], i[p];
            for (int j = 0; j < p; j++) r[j] = ar[q + s * m * j], i[j] = ai[q + s * m * j];
            butterfly(r, i);
            br[q] = r[0], bi[q] = i[0];
            for (int j = 1; j < p; j++)
                br[q + s * j] = r[j] * cj[j] + i[j] * wj[j], bi[q + s * j] = i[j] * cj[j] - r[j] * wj[j];
        }
    }
}
#define FB_PASS(p) \
    FB_EACH_MACHINE void wide_pass##p(const Pass& pass, const Parts& x, const Parts& y, long s) { pass_of<p, V16>(pass, x, y, s); } \
    FB_EACH_MACHINE void narrow_pass##p(const Pass& pass, const Parts& x, const Parts& y, long s) { pass_of<p, V8>(pass, x, y, s); } \
    void pass##p(const Pass& pass, const Parts& x, const Parts& y, long s) { (are_wide() ? wide_pass##p : narrow_pass##p)(pass, x, y, s); }
FB_PASS(2)
FB_PASS(3)
FB_PASS(4)
FB_PASS(5)
FB_PASS(8)
#undef FB_PASS

// Any odd radix: of j and p - j together, sums go with cosines and differences with sines. `some` q at a time.
FB_EACH_MACHINE void pass_odd(const Pass& pass, const Parts& x, const Parts& y, long s) {
    constexpr int some = 32;
    const int p = pass.radix, h = (p - 1) / 2;
    const long m = pass.m;
    const float *cosine = pass.cosine.data(), *sine = pass.sine.data();
    alignas(64) float sr[LARGEST / 2 + 1][some], si[LARGEST / 2 + 1][some], dr[LARGEST / 2 + 1][some], di[LARGEST / 2 + 1][some];
    for (long k = 0; k < m; k++)
        for (long q = 0; q < s; q += some) {
            const long count = s - q < some ? s - q : some;
            const float *ar = x.re + s * k + q, *ai = x.im + s * k + q;
            float *br = y.re + s * p * k + q, *bi = y.im + s * p * k + q;
            alignas(64) float zr[some] = {}, zi[some] = {}, fr[some] = {}, fi[some] = {};
            for (long l = 0; l < count; l++) fr[l] = zr[l] = ar[l], fi[l] = zi[l] = ai[l];
            for (int j = 1; j <= h; j++) {
                const float *ur = ar + s * m * j, *ui = ai + s * m * j, *vr = ar + s * m * (p - j), *vi = ai + s * m * (p - j);
                for (long l = 0; l < count; l++) {
                    sr[j][l] = ur[l] + vr[l], si[j][l] = ui[l] + vi[l], dr[j][l] = ur[l] - vr[l], di[j][l] = ui[l] - vi[l];
                    zr[l] += sr[j][l], zi[l] += si[j][l];
                }
                for (long l = count; l < some; l++) sr[j][l] = si[j][l] = dr[j][l] = di[j][l] = 0;
            }
            for (long l = 0; l < count; l++) br[l] = zr[l], bi[l] = zi[l];
            for (int r = 1; r <= h; r++) {
                alignas(64) float er[some], ei[some], or_[some] = {}, oi[some] = {};
                for (int l = 0; l < some; l++) er[l] = fr[l], ei[l] = fi[l];
                for (int j = 1, t = r; j <= h; j++, t = t + r < p ? t + r : t + r - p) {
                    const float c = cosine[t], w = sine[t];
                    for (int l = 0; l < some; l++) {
                        er[l] += c * sr[j][l], ei[l] += c * si[j][l];
                        or_[l] += w * dr[j][l], oi[l] += w * di[j][l];
                    }
                }
                for (int side = 0; side < 2; side++) { // X[r] = even - i odd, X[p - r] = even + i odd
                    const int at = side ? p - r : r;
                    const float sign = side ? -1.f : 1.f, c = pass.cosines[(at - 1) * m + k], w = pass.sines[(at - 1) * m + k];
                    for (long l = 0; l < count; l++) {
                        float u = er[l] + sign * oi[l], v = ei[l] - sign * or_[l];
                        br[s * at + l] = u * c + v * w, bi[s * at + l] = v * c - u * w;
                    }
                }
            }
        }
}

// Rows side by side at `x`, through `y`; where the result lies.
Parts transformed(const Plan& plan, Parts x, Parts y, long rows) {
    long s = rows;
    for (const Pass& pass : plan.passes) {
        switch (pass.radix) {
        case 2: pass2(pass, x, y, s); break;
        case 3: pass3(pass, x, y, s); break;
        case 4: pass4(pass, x, y, s); break;
        case 5: pass5(pass, x, y, s); break;
        case 8: pass8(pass, x, y, s); break;
        default: pass_odd(pass, x, y, s);
        }
        std::swap(x, y);
        s *= pass.radix;
    }
    return x;
}

struct Job {
    const Plan* plan;
    const float* x; // complex rows, or real ones
    float* out; // complex rows of `kept` numbers
    long rows, kept;
    bool real, inverse;
    float scale;
    long group() const { return (plan->n > LONG_ROW ? 1 : SIDE_BY_SIDE) * (real ? 2 : 1); } // rows at a time
};

// ---- sixteen rows and lanes: squares of 16 x 16 numbers are turned in registers

#if FB_SQUARES
struct WideSquare {
    V16 row[16];
    FB_ALWAYS void load(int l, const float* p) { row[l] = loaded<V16>(p); }
    FB_ALWAYS void load(int l, const float* p, float scale) { row[l] = loaded<V16>(p) * scale; }
    FB_ALWAYS void turn() {
        const I16 low = {0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23}, high = low + 8;
        for (int turn = 0; turn < 4; turn++) {
            V16 y[16];
            for (int i = 0; i < 8; i++)
                y[2 * i] = __builtin_shuffle(row[i], row[i + 8], low), y[2 * i + 1] = __builtin_shuffle(row[i], row[i + 8], high);
            for (int i = 0; i < 16; i++) row[i] = y[i];
        }
    }
};
// The same of eights: four squares of 8 x 8.
struct NarrowSquare {
    V8 row[16][2];
    FB_ALWAYS void load(int l, const float* p) { row[l][0] = loaded<V8>(p), row[l][1] = loaded<V8>(p + 8); }
    FB_ALWAYS void load(int l, const float* p, float scale) { row[l][0] = loaded<V8>(p) * scale, row[l][1] = loaded<V8>(p + 8) * scale; }
    FB_ALWAYS void eight(int down, int right) {
        const I8 low = {0, 8, 1, 9, 4, 12, 5, 13}, high = low + 2, first = {0, 1, 8, 9, 4, 5, 12, 13}, second = first + 2,
                 lower = {0, 1, 2, 3, 8, 9, 10, 11}, upper = lower + 4;
        V8 x[8], y[8];
        for (int l = 0; l < 8; l++) x[l] = row[8 * down + l][right];
        for (int l = 0; l < 8; l += 2) y[l] = __builtin_shuffle(x[l], x[l + 1], low), y[l + 1] = __builtin_shuffle(x[l], x[l + 1], high);
        for (int l = 0; l < 8; l += 4)
            for (int k = 0; k < 2; k++) {
                x[l + 2 * k] = __builtin_shuffle(y[l + k], y[l + k + 2], first);
                x[l + 2 * k + 1] = __builtin_shuffle(y[l + k], y[l + k + 2], second);
            }
        for (int l = 0; l < 4; l++) {
            row[8 * down + l][right] = __builtin_shuffle(x[l], x[l + 4], lower);
            row[8 * down + l + 4][right] = __builtin_shuffle(x[l], x[l + 4], upper);
        }
    }
    FB_ALWAYS void turn() {
        for (int down = 0; down < 2; down++)
            for (int right = 0; right < 2; right++) eight(down, right);
        for (int l = 0; l < 8; l++) std::swap(row[l][1], row[8 + l][0]);
    }
};
// Complex rows of `step` floats: how many of their n numbers were read.
template <class Square> FB_ALWAYS long read_complex(const float* x, long step, long n, float* re, float* im) {
    long k = 0;
    for (; k + 8 <= n; k += 8) {
        Square square;
        for (int l = 0; l < 16; l++) square.load(l, x + l * step + 2 * k);
        square.turn();
        for (int j = 0; j < 8; j++) {
            memcpy(re + (k + j) * 16, &square.row[2 * j], 64);
            memcpy(im + (k + j) * 16, &square.row[2 * j + 1], 64);
        }
    }
    return k;
}
// Real rows in pairs.
template <class Square> FB_ALWAYS long read_real(const float* x, long n, float* re, float* im, long lanes) {
    long k = 0;
    for (; k + 16 <= n; k += 16) {
        Square square;
        for (int l = 0; l < 16; l++) square.load(l, x + (l < 8 ? 2 * l : 2 * l - 15) * n + k);
        square.turn();
        for (int j = 0; j < 16; j++)
            memcpy(re + (k + j) * lanes, &square.row[j], 32), memcpy(im + (k + j) * lanes, (const float*)&square.row[j] + 8, 32);
    }
    return k;
}
template <class Square> FB_ALWAYS long write_complex(const float* re, const float* im, long n, float scale, float* out, long step) {
    long k = 0;
    for (; k + 8 <= n; k += 8) {
        Square square;
        for (int j = 0; j < 8; j++) {
            square.load(2 * j, re + (k + j) * 16, scale);
            square.load(2 * j + 1, im + (k + j) * 16, scale);
        }
        square.turn();
        for (int l = 0; l < 16; l++) memcpy(out + l * step + 2 * k, &square.row[l], 64);
    }
    return k;
}
template <class Square> FB_ALWAYS long write_real(const float* re, const float* im, long n, long kept, float h, float turn, float* out,
    long lanes) {
    long k = 0;
    for (; k + 8 <= kept; k += 8) {
        Square square;
        for (int j = 0; j < 8; j++) {
            long at = (k + j) * lanes, back = (k + j ? n - k - j : 0) * lanes;
            V8 zr, zi, cr, ci, parts[4];
            memcpy(&zr, re + at, 32), memcpy(&zi, im + at, 32), memcpy(&cr, re + back, 32), memcpy(&ci, im + back, 32);
            parts[0] = (zr + cr) * h, parts[1] = (zi + ci) * h, parts[2] = turn * (zi - ci) * h, parts[3] = turn * (cr - zr) * h;
            memcpy(&square.row[2 * j], parts, 64), memcpy(&square.row[2 * j + 1], parts + 2, 64);
        }
        square.turn();
        for (int l = 0; l < 16; l++) memcpy(out + (l < 8 ? 2 * l : 2 * l - 15) * kept * 2 + 2 * k, &square.row[l], 64);
    }
    return k;
}
#define FB_SQUARE(name, types, names) \
    FB_EACH_MACHINE long wide_##name types { return name<WideSquare> names; } \
    FB_EACH_MACHINE long narrow_##name types { return name<NarrowSquare> names; } \
    long name##_squares types { return (are_wide() ? wide_##name : narrow_##name)names; }
FB_SQUARE(read_complex, (const float* x, long step, long n, float* re, float* im), (x, step, n, re, im))
FB_SQUARE(read_real, (const float* x, long n, float* re, float* im, long lanes), (x, n, re, im, lanes))
FB_SQUARE(write_complex, (const float* re, const float* im, long n, float scale, float* out, long step), (re, im, n, scale, out, step))
FB_SQUARE(write_real, (const float* re, const float* im, long n, long kept, float h, float turn, float* out, long lanes),
    (re, im, n, kept, h, turn, out, lanes))
#undef FB_SQUARE
#else
inline long read_complex_squares(const float*, long, long, float*, float*) { return 0; }
inline long read_real_squares(const float*, long, float*, float*, long) { return 0; }
inline long write_complex_squares(const float*, const float*, long, float, float*, long) { return 0; }
inline long write_real_squares(const float*, const float*, long, long, float, float, float*, long) { return 0; }
#endif

void read_rows(const Job& job, long first, long rows, const Parts& to) {
    long n = job.plan->n, from = 0;
    bool squares = FB_SQUARES && (job.real ? rows % 16 == 0 : rows == SIDE_BY_SIDE);
    if (job.real) {
        long half = (rows + 1) / 2;
        for (long b = 0; squares && b < half; b += 8)
            from = read_real_squares(job.x + (first + 2 * b) * n, n, to.re + b, to.im + b, half);
        for (long b = 0; b < half; b++) {
            const float *u = job.x + (first + 2 * b) * n, *v = 2 * b + 1 < rows ? u + n : nullptr;
            for (long k = from; k < n; k++) to.re[k * half + b] = u[k], to.im[k * half + b] = v ? v[k] : 0.f;
        }
        return;
    }
    float *re = job.inverse ? to.im : to.re, *im = job.inverse ? to.re : to.im;
    if (squares) from = read_complex_squares(job.x + first * n * 2, 2 * n, n, re, im);
    for (long b = 0; b < rows; b++) {
        const float* x = job.x + (first + b) * n * 2;
        for (long k = from; k < n; k++) re[k * rows + b] = x[2 * k], im[k * rows + b] = x[2 * k + 1];
    }
}

void write_rows(const Job& job, long first, long rows, const Parts& from) {
    long n = job.plan->n, done = 0;
    bool squares = FB_SQUARES && (job.real ? rows % 16 == 0 : rows == SIDE_BY_SIDE);
    const float scale = job.scale;
    if (job.real) { // of u + i v: U = (Z[k] + conj Z[-k]) / 2, V = (Z[k] - conj Z[-k]) / 2i
        long half = (rows + 1) / 2;
        const float h = 0.5f * scale, turn = job.inverse ? -1.f : 1.f;
        for (long b = 0; squares && b < half; b += 8) {
            float* out = job.out + (first + 2 * b) * job.kept * 2;
            done = write_real_squares(from.re + b, from.im + b, n, job.kept, h, turn, out, half);
        }
        for (long b = 0; b < half; b++) {
            float *u = job.out + (first + 2 * b) * job.kept * 2, *v = 2 * b + 1 < rows ? u + job.kept * 2 : nullptr;
            for (long k = done; k < job.kept; k++) {
                long at = k * half + b, back = (k ? n - k : 0) * half + b;
                float zr = from.re[at], zi = from.im[at], cr = from.re[back], ci = from.im[back];
                u[2 * k] = (zr + cr) * h, u[2 * k + 1] = turn * (zi - ci) * h;
                if (v) v[2 * k] = (zi + ci) * h, v[2 * k + 1] = turn * (cr - zr) * h;
            }
        }
        return;
    }
    const float *re = job.inverse ? from.im : from.re, *im = job.inverse ? from.re : from.im;
    if (squares) done = write_complex_squares(re, im, n, scale, job.out + first * n * 2, 2 * n);
    for (long b = 0; b < rows; b++) {
        float* out = job.out + (first + b) * n * 2;
        for (long k = done; k < n; k++) out[2 * k] = re[k * rows + b] * scale, out[2 * k + 1] = im[k * rows + b] * scale;
    }
}

void run_groups(void* raw, long begin, long end, int) {
    const Job& job = *(Job*)raw;
    long group = job.group(), n = job.plan->n, lanes = job.real ? (group + 1) / 2 : group, size = n * lanes;
    float* memory = (float*)world.api->runtime->alloc(4 * size * sizeof(float));
    Parts x = {memory, memory + size}, y = {memory + 2 * size, memory + 3 * size};
    for (long g = begin; g < end; g++) {
        long first = g * group, rows = job.rows - first < group ? job.rows - first : group;
        read_rows(job, first, rows, x);
        write_rows(job, first, rows, transformed(*job.plan, x, y, job.real ? (rows + 1) / 2 : rows));
    }
    world.api->runtime->release(memory);
}

// fourier(x, inverse, scale): along the last dim of a row-major array, complex64, or float32 whose spectra are cut behind the
// middle; None for lengths with large prime factors.
PyObject* py_fourier(PyObject*, PyObject* args) {
    PyArrayObject* x;
    int inverse;
    double scale;
    if (!PyArg_ParseTuple(args, "O!pd", &PyArray_Type, &x, &inverse, &scale)) return nullptr;
    int dims = PyArray_NDIM(x);
    bool real = PyArray_TYPE(x) == NPY_FLOAT;
    if ((!real && PyArray_TYPE(x) != NPY_CFLOAT) || !dims || dims > MAX_DIMS || !PyArray_ISCARRAY_RO(x) || !PyArray_SIZE(x))
        Py_RETURN_NONE;
    long n = PyArray_DIM(x, dims - 1);
    std::shared_ptr<const Plan> plan = n > 1 ? plan_of(n) : nullptr;
    if (!plan) Py_RETURN_NONE;
    npy_intp sizes[MAX_DIMS];
    memcpy(sizes, PyArray_DIMS(x), dims * sizeof(npy_intp));
    sizes[dims - 1] = real ? n / 2 + 1 : n;
    PyObject* out = fresh_array(COMPLEX64, dims, sizes, nullptr);
    if (!out) return nullptr;
    Job job = {plan.get(), (const float*)PyArray_DATA(x), (float*)PyArray_DATA((PyArrayObject*)out), PyArray_SIZE(x) / n,
        sizes[dims - 1], real, (bool)inverse, (float)scale};
    long groups = (job.rows + job.group() - 1) / job.group(), grain = 1 + 16384 / (n * job.group());
    Py_BEGIN_ALLOW_THREADS world.api->runtime->parallel_for(run_groups, &job, groups, grain);
    Py_END_ALLOW_THREADS
    return out;
}

// ---- few numbers, over several dims

constexpr npy_intp FEW = 1 << 13;

struct Space { // complex numbers in row-major memory
    npy_intp sizes[MAX_DIMS], total = 1;
    int dims;
    void read(int count, const npy_intp* from) {
        dims = count, total = 1;
        for (int d = 0; d < count; d++) total *= sizes[d] = from[d];
    }
};

// Along one dim, in place. False: the length has a large prime factor.
bool along(float* x, const Space& s, int dim, bool inverse, float scale) {
    npy_intp n = s.sizes[dim], inner = 1;
    for (int d = dim + 1; d < s.dims; d++) inner *= s.sizes[d];
    std::shared_ptr<const Plan> plan = n > 1 ? plan_of(n) : nullptr;
    if (!plan) return false;
    std::vector<float> from(x, x + 2 * s.total), to(inner > 1 ? 2 * s.total : 0);
    // the place of a number whose dim comes last
    auto turned = [&](float* a, const float* b, bool back) {
        for (npy_intp o = 0; o < s.total / (n * inner); o++)
            for (npy_intp k = 0; k < n; k++)
                for (npy_intp i = 0; i < inner; i++) {
                    npy_intp here = (o * n + k) * inner + i, there = (o * inner + i) * n + k;
                    memcpy(a + 2 * (back ? here : there), b + 2 * (back ? there : here), 2 * sizeof(float));
                }
    };
    if (inner > 1) turned(from.data(), x, false);
    Job job = {plan.get(), from.data(), inner > 1 ? to.data() : x, s.total / n, n, false, inverse, scale};
    run_groups(&job, 0, (job.rows + job.group() - 1) / job.group(), 0);
    if (inner > 1) turned(x, to.data(), true);
    return true;
}

// Complex numbers over several dims, in place.
bool along_all(float* x, const Space& s, const npy_intp* dims, npy_intp count, bool inverse, double scale) {
    for (npy_intp k = count - 1; k >= 0; k--) {
        if (!along(x, s, (int)dims[k], inverse, (float)scale)) return false;
        scale = 1;
    }
    return true;
}

void complex_of(PyArrayObject* x, float* out) {
    npy_intp n = PyArray_SIZE(x);
    const float* from = (const float*)PyArray_DATA(x);
    if (PyArray_TYPE(x) == NPY_CFLOAT) memcpy(out, from, 2 * n * sizeof(float));
    else
        for (npy_intp k = 0; k < n; k++) out[2 * k] = from[k], out[2 * k + 1] = 0;
}

// The public functions without sizes or a norm. `several`: over the last two dims (2), or all of them (-1), if none are given.
bool read_transform(const Call& c, int several, Space& s, PyArrayObject*& x, npy_intp* dims, npy_intp& count) {
    static const Names<4> one("input", "n", "dim", "norm"), many("input", "s", "dim", "norm");
    PyObject* a[4];
    if (!parse(c, several == 1 ? one : many, a) || !a[0] || !absent(a[1]) || !absent(a[3])) return false;
    x = dense_array(a[0]);
    int type = x ? type_of(a[0]) : -1, rank = x ? PyArray_NDIM(x) : 0, d;
    if (!rank || rank < several || (type != FLOAT32 && type != COMPLEX64) || !PyArray_SIZE(x) || PyArray_SIZE(x) > FEW) return false;
    s.read(rank, PyArray_DIMS(x));
    count = several < 0 ? rank : several;
    for (npy_intp k = 0; k < count; k++) dims[k] = rank - count + k;
    if (absent(a[2])) return several < 0 || !a[2];
    bool tuple = PyTuple_CheckExact(a[2]);
    if (several == 1 && tuple) return false;
    count = tuple ? PyTuple_GET_SIZE(a[2]) : 1;
    bool used[MAX_DIMS] = {};
    for (npy_intp k = 0; k < count; k++) {
        if (!small_dim(tuple ? PyTuple_GET_ITEM(a[2], k) : a[2], rank, d) || used[d]) return false;
        used[d] = true, dims[k] = d;
    }
    return count > 0;
}

PyObject* recorded(const Call& c, KeptRecord* kept, const npy_intp* dims, npy_intp count, bool forward, double scale, PyObject* out) {
    if (!out || !c.grad || !needs_grad(c.args[0])) return out;
    Ref made(out), list(tuple_of(dims, (int)count)), factor(PyFloat_FromDouble(scale));
    PyObject* given[] = {c.args[0], list.get(), forward ? Py_True : Py_False, factor.get()};
    return list && factor && record(kept->op, kept->needs, given, 4, 1, out) ? made.release() : nullptr;
}

template <int several, bool forward> PyObject* to_complex(const Call& c) {
    static KeptRecord* kept = kept_record("fft_c2c");
    Space s;
    PyArrayObject* x;
    npy_intp dims[MAX_DIMS], count;
    double scale = 1;
    if (c.n < 1 || !read_transform(c, several, s, x, dims, count)) return nullptr;
    for (npy_intp k = 0; k < count && !forward; k++) scale /= (double)s.sizes[dims[k]];
    Ref array(fresh_array(COMPLEX64, s.dims, s.sizes, nullptr));
    if (!array) return nullptr;
    float* out = (float*)data_of(array.get());
    complex_of(x, out);
    if (!along_all(out, s, dims, count, !forward, scale)) return nullptr;
    return recorded(c, kept, dims, count, forward, scale, tensor_around(array.release(), COMPLEX64));
}

template <int several> PyObject* from_real(const Call& c) {
    static KeptRecord* kept = kept_record("fft_r2c");
    Space s;
    PyArrayObject* x;
    npy_intp dims[MAX_DIMS], count, last;
    if (c.n < 1 || !read_transform(c, several, s, x, dims, count) || PyArray_TYPE(x) != NPY_FLOAT) return nullptr;
    last = dims[count - 1];
    if (last != s.dims - 1) return nullptr;
    npy_intp n = s.sizes[last];
    std::shared_ptr<const Plan> plan = n > 1 ? plan_of(n) : nullptr;
    if (!plan) return nullptr;
    s.sizes[last] = n / 2 + 1, s.total = s.total / n * s.sizes[last];
    Ref array(fresh_array(COMPLEX64, s.dims, s.sizes, nullptr));
    if (!array) return nullptr;
    float* out = (float*)data_of(array.get());
    Job job = {plan.get(), (const float*)PyArray_DATA(x), out, PyArray_SIZE(x) / n, s.sizes[last], true, false, 1.f};
    run_groups(&job, 0, (job.rows + job.group() - 1) / job.group(), 0);
    if (!along_all(out, s, dims, count - 1, false, 1)) return nullptr;
    return recorded(c, kept, dims, count, true, 1, tensor_around(array.release(), COMPLEX64));
}

// ---- their gradients: the same transforms turned around

bool read_saved_transform(const Gradients& c, Space& s, npy_intp* dims, npy_intp& count, bool& forward, double& scale, Ref& g) {
    PyObject *list = PyTuple_GET_ITEM(c.args, 1), *way = PyTuple_GET_ITEM(c.args, 2);
    if (c.grads[0] == Py_None || !is_plain(c.grads[0]) || type_of(c.grads[0]) != COMPLEX64 || !array_of(c.grads[0]) || !PyTuple_Check(list)
        || !PyBool_Check(way) || !small_real(PyTuple_GET_ITEM(c.args, 3), 1, scale))
        return false;
    forward = way == Py_True, count = PyTuple_GET_SIZE(list);
    PyArrayObject* a = array_of(c.grads[0]);
    if (PyArray_NDIM(a) >= MAX_DIMS || !PyArray_SIZE(a) || PyArray_SIZE(a) > FEW || count >= MAX_DIMS || !numbers_of(list, (int)count, dims)) return false;
    g = Ref(PyArray_NewCopy(a, NPY_CORDER));
    s.read(PyArray_NDIM(a), PyArray_DIMS(a));
    return (bool)g;
}

PyObject* complex_back(const Gradients& c) { // (dims, forward, scale)
    Space s;
    npy_intp dims[MAX_DIMS], count;
    bool forward;
    double scale;
    Ref g;
    if (!read_saved_transform(c, s, dims, count, forward, scale, g)) return nullptr;
    Ref array(fresh_array(COMPLEX64, s.dims, s.sizes, nullptr));
    if (!array) return nullptr;
    float* out = (float*)data_of(array.get());
    memcpy(out, data_of(g.get()), 2 * s.total * sizeof(float));
    return along_all(out, s, dims, count, forward, scale) ? tensor_around(array.release(), COMPLEX64) : nullptr;
}

PyObject* py_transforms(PyObject*, PyObject* length) {
    long n = PyLong_AsLong(length);
    if (n == -1 && PyErr_Occurred()) return nullptr;
    return PyBool_FromLong(n > 1 && plan_of(n));
}

PyMethodDef functions[] = {{"transforms", py_transforms, METH_O, "transforms(n): whether `fourier` takes rows of n numbers"},
    {"fourier", py_fourier, METH_VARARGS,
                               "fourier(x, inverse, scale): along the last dim; None where the length has a large factor"},
    {nullptr, nullptr, 0, nullptr}};

}

const SmallEntry small_fourier[] = {{"fft", to_complex<1, true>}, {"ifft", to_complex<1, false>}, {"fft2", to_complex<2, true>},
    {"ifft2", to_complex<2, false>}, {"fftn", to_complex<-1, true>}, {"ifftn", to_complex<-1, false>}, {"rfft", from_real<1>},
    {"rfft2", from_real<2>}, {"rfftn", from_real<-1>}, {nullptr, nullptr}};
const KnownGradient fourier_gradients[] = {{"fft_c2c", "x", complex_back}, {nullptr, nullptr, nullptr}};

bool add_fourier(PyObject* module) { return PyModule_AddFunctions(module, functions) == 0; }
