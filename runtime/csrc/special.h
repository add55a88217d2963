// Special functions over lanes of doubles: the gamma family, Bessel functions of imaginary argument, scaled complement of
// the error function, inverse of the normal distribution. Floats compute in double and are rounded once.
//
// p: out, x, coefficients (double) or null; n: how many coefficients the first and the second series have. Unit: one
// element. What has no closed form here is a Chebyshev series whose coefficients the caller fits (special.py).
#ifndef FB_SPECIAL_H
#define FB_SPECIAL_H

#include "softmax_norm.h"

enum SpecialOf { LGAMMA, DIGAMMA, POLYGAMMA, BESSEL_I0, BESSEL_I0E, BESSEL_I1, BESSEL_I1E, ERFCX, NDTRI, NDTR, LOG_NDTR };

FB_INLINE bool h_any(hl mask) { return any_lane((vi)mask); }
FB_INLINE hd h_splat_inf() { return splat_hd(__builtin_inf()); }
FB_INLINE hd h_fma(hd a, hd b, double c) { return v_fma(a, b, splat_hd(c)); }

// e^x = 2^n e^r; the power in two factors, since n may be beyond the exponents of normal numbers
FB_INLINE hd h_exp(hd x) {
    x = x < -746.0 ? splat_hd(-746.0) : x;
    x = x > 710.0 ? splat_hd(710.0) : x;
    hd whole = splat_hd(6755399441055744.0), t = v_fma(x, splat_hd(1.4426950408889634), whole), n = t - whole;
    hl k = (hl)t - (hl)whole;
    hd r = v_fma(n, splat_hd(-0.693147180369123816490), x);
    r = v_fma(n, splat_hd(-1.90821492927058770002e-10), r);
    hd p = poly(r, splat_hd(1.0 / 6227020800), 1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880, 1.0 / 40320,
        1.0 / 5040, 1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6, 0.5, 1.0, 1.0);
    hl half = k >> 1, rest = k - half;
    return p * (hd)((half + 1023) << 52) * (hd)((rest + 1023) << 52);
}

// The same for a result that becomes a float: within 3e-10, of x at most 0; below -150 it is a float's 0.
FB_INLINE hd h_short_exp(hd x) {
    x = x < -150.0 ? splat_hd(-150.0) : x;
    hd whole = splat_hd(6755399441055744.0), t = v_fma(x, splat_hd(1.4426950408889634), whole);
    hd r = v_fma(t - whole, splat_hd(-0.6931471805599453), x);
    hd p = poly(r, splat_hd(1.0 / 40320), 1.0 / 5040, 1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6, 0.5, 1.0, 1.0);
    return (hd)((hl)p + (((hl)t - (hl)whole) << 52));
}

// ln x = e ln 2 + 2 artanh((m - 1) / (m + 1)) with m in [sqrt 1/2, sqrt 2)
FB_INLINE hd h_log(hd x) {
    hl tiny = x < 2.2250738585072014e-308;
    hd scaled = tiny ? x * 18014398509481984.0 : x;
    hl bits = (hl)scaled, e = (hl)((hul)(bits - 0x3fe6a09e667f3bcdl) >> 52), wide = e << 52;
    e = e > 2047 ? e - 4096 : e; // (a shift that keeps the sign, of twelve bits)
    hd m = (hd)(bits - wide), s = (m - 1.0) / (m + 1.0), z = s * s;
    hd n = __builtin_convertvector(e, hd) - (tiny ? splat_hd(54.0) : splat_hd(0.0));
    hd tail = poly(z, splat_hd(1.0 / 23), 1.0 / 21, 1.0 / 19, 1.0 / 17, 1.0 / 15, 1.0 / 13, 1.0 / 11, 1.0 / 9, 1.0 / 7, 1.0 / 5,
        1.0 / 3);
    hd f = m - 1.0; // ln m = f - s (f - 2 z tail): f is exact, what is taken off is small
    hd y = f - s * (f - (z + z) * tail);
    y = v_fma(n, splat_hd(1.90821492927058770002e-10), y);
    y = v_fma(n, splat_hd(0.693147180369123816490), y);
    y = x == 0.0 ? -h_splat_inf() : y;
    y = x < 0.0 ? splat_hd(__builtin_nan("")) : y;
    return x == x && x < __builtin_inf() ? y : x + (x < 0.0 ? splat_hd(__builtin_nan("")) : splat_hd(0.0));
}

// sine and cosine of pi r for r in [-1/2, 1/2]
FB_INLINE void h_wave(hd r, hd& sine, hd& cosine) {
    hd a = r * 3.14159265358979323846, z = a * a;
    sine = a * poly(z, splat_hd(-1.0 / 25852016738884976640000.0), 1.0 / 51090942171709440000.0, -1.0 / 121645100408832000.0,
        1.0 / 355687428096000.0, -1.0 / 1307674368000.0, 1.0 / 6227020800.0, -1.0 / 39916800.0, 1.0 / 362880.0,
        -1.0 / 5040.0, 1.0 / 120.0, -1.0 / 6.0, 1.0);
    cosine = poly(z, splat_hd(1.0 / 620448401733239439360000.0), -1.0 / 1124000727777607680000.0, 1.0 / 2432902008176640000.0,
        -1.0 / 6402373705728000.0, 1.0 / 20922789888000.0, -1.0 / 87178291200.0, 1.0 / 479001600.0, -1.0 / 3628800.0,
        1.0 / 40320.0, -1.0 / 720.0, 1.0 / 24.0, -0.5, 1.0);
}

// y = x + k >= 10, the product of what was passed and its derivative by x
FB_INLINE hd h_shifted(hd y, hd& product, hd& slope) {
    product = splat_hd(1.0), slope = splat_hd(0.0);
    for (int k = 0; k < 10; k++) {
        hl small = y < 10.0;
        if (!h_any(small)) break;
        slope = small ? v_fma(slope, y, product) : slope;
        product = small ? product * y : product;
        y = small ? y + 1.0 : y;
    }
    return y;
}

// Stirling's series above 10, the recurrence below, reflection below 1/2
FB_INLINE hd h_lgamma(hd x) {
    hl mirrored = x < 0.5;
    hd product, slope, y = h_shifted(mirrored ? 1.0 - x : x, product, slope), u = 1.0 / y, z = u * u;
    hd series = u * poly(z, splat_hd(1.0 / 156), -691.0 / 360360, 1.0 / 1188, -1.0 / 1680, 1.0 / 1260, -1.0 / 360, 1.0 / 12);
    hd out = (y - 0.5) * h_log(y) - y + 0.91893853320467274178 + series - h_log(product);
    out = y == __builtin_inf() ? h_splat_inf() : out;
    if (!h_any(mirrored)) return out;
    hd sine, cosine, r = x - h_round(x);
    h_wave(r, sine, cosine);
    hd turned = 1.1447298858494001741 - h_log(h_abs(sine)) - out;
    hl near = h_abs(r) < 1e-290; // where pi r has lost digits
    if (h_any(near)) turned = near ? -h_log(h_abs(r)) - out : turned;
    turned = (r == 0.0) | (x == -__builtin_inf()) ? h_splat_inf() : turned; // (far below, where all numbers are whole, out is infinite)
    return mirrored ? turned : out;
}
FB_INLINE hd h_digamma(hd x) {
    hl mirrored = x < 0.5;
    hd product, slope, y = h_shifted(mirrored ? 1.0 - x : x, product, slope), u = 1.0 / y, z = u * u;
    hd series = z * poly(z, splat_hd(1.0 / 12), -691.0 / 32760, 1.0 / 132, -1.0 / 240, 1.0 / 252, -1.0 / 120, 1.0 / 12);
    hd out = h_log(y) - 0.5 * u - series - slope / product;
    out = y == __builtin_inf() ? h_splat_inf() : out;
    if (!h_any(mirrored)) return out;
    hd sine, cosine, r = x - h_round(x);
    h_wave(r, sine, cosine);
    hd turned = r == 0.0 ? splat_hd(__builtin_nan("")) : out - 3.14159265358979323846 * cosine / sine;
    out = mirrored ? turned : out;
    hd signed_inf = (hd)(((hl)x & splat_hl((i64)0x8000000000000000ul)) ^ (hl)-h_splat_inf());
    return x == 0.0 ? signed_inf : out;
}
FB_INLINE hd h_power(hd x, int n) {
    hd y = splat_hd(1.0);
    for (; n; n >>= 1, x = x * x)
        if (n & 1) y = y * x;
    return y;
}
// sum over k of (q + k)^-s for a small whole s > 1, by Euler and Maclaurin after ten terms from the first positive one; inf where
// a term is; far below zero nothing is counted
FB_INLINE hd h_zeta(int s, hd q) {
    const double bernoulli[8] = {1.0 / 6, -1.0 / 30, 1.0 / 42, -1.0 / 30, 5.0 / 66, -691.0 / 2730, 7.0 / 6, -3617.0 / 510};
    hd total = {};
    hl pole = (q <= 0.0) & (q == h_floor(q)), ends = q == __builtin_inf();
    for (hl below = (q < 0.0) & (q > -1e5); h_any(below); below = below & (q < 0.0)) {
        total = below ? total + 1.0 / h_power(q, s) : total;
        q = below ? q + 1.0 : q;
    }
    for (int k = 0; k < 10; k++) total = total + 1.0 / h_power(q + (double)k, s);
    hd y = q + 10.0, u = 1.0 / y, z = u * u, power = h_power(u, s);
    total = total + power * y / (double)(s - 1) + 0.5 * power;
    power = power * u;
    double rising = s, factorial = 2;
    for (int k = 0; k < 8; k++) {
        total = total + bernoulli[k] / factorial * rising * power;
        rising *= (double)(s + 2 * k + 1) * (s + 2 * k + 2), factorial *= (2 * k + 3.0) * (2 * k + 4);
        power = power * z;
    }
    return pole ? h_splat_inf() : ends ? splat_hd(0.0) : total;
}

// the derivative of digamma: zeta(2), below 1/2 by reflection
FB_INLINE hd h_trigamma(hd x) {
    hl mirrored = x < 0.5;
    hd tail = h_zeta(2, mirrored ? 1.0 - x : x);
    if (!h_any(mirrored)) return tail;
    hd sine, cosine;
    h_wave(x - h_round(x), sine, cosine);
    hd wave = 3.14159265358979323846 / sine;
    return mirrored ? wave * wave - tail : tail;
}

// the sum of above for numbers s > 1, to single precision
FB_INLINE hd h_zeta(hd s, hd q) {
    const double bernoulli[8] = {1.0 / 6, -1.0 / 30, 1.0 / 42, -1.0 / 30, 5.0 / 66, -691.0 / 2730, 7.0 / 6, -3617.0 / 510};
    hd total = {};
    for (int k = 0; k < 10; k++) total = total + h_exp(-s * h_log(q + (double)k));
    hd y = q + 10.0, u = 1.0 / y, z = u * u, power = h_exp(-s * h_log(y));
    total = total + power * y / (s - 1.0) + 0.5 * power;
    power = power * u;
    hd rising = s;
    double factorial = 2;
    for (int k = 0; k < 8; k++) {
        total = total + bernoulli[k] / factorial * rising * power;
        rising = rising * (s + (2 * k + 1.0)) * (s + (2 * k + 2.0)), factorial *= (2 * k + 3.0) * (2 * k + 4);
        power = power * z;
    }
    return total;
}
// p: out, s, q
template <class T> void zeta(const Job& job, long begin, long end) {
    each_vector<1>(begin, end, [&](i64 i, auto m, int) FB_BODY {
        vf s = ld((const T*)job.p[1] + i, m), q = ld((const T*)job.p[2] + i, m);
        hd lo = h_zeta(wide_d(first(s)), wide_d(first(q))), hi = lo;
        if (count(m) > FB_W / 2) hi = h_zeta(wide_d(second(s)), wide_d(second(q)));
        st((T*)job.p[0] + i, both(__builtin_convertvector(lo, hf), __builtin_convertvector(hi, hf)), m);
    });
}

// the sum of c[k] times Chebyshev's polynomial k at t
FB_INLINE hd h_chebyshev(const double* c, long count, hd t) {
    hd twice = t + t, above = {}, second = {};
    for (long k = count - 1; k > 0; k--) {
        hd next = v_fma(twice, above, splat_hd(c[k]) - second);
        second = above, above = next;
    }
    return v_fma(t, above, splat_hd(c[0]) - second);
}
// the sum of c[k] times the k-th power of t, in two chains
FB_INLINE hd h_powers(const double* c, long count, hd t) {
    long top = count & ~1l;
    hd square = t * t, even = splat_hd(count > top ? c[top] : 0.0), odd = {};
    for (long k = top - 2; k >= 0; k -= 2) {
        even = v_fma(square, even, splat_hd(c[k]));
        odd = v_fma(square, odd, splat_hd(c[k + 1]));
    }
    return v_fma(t, odd, even);
}
// exp(-|x|) I(x), or I(x): one series below 8, one in 8/x from there on
template <int kind> FB_INLINE hd h_bessel(const Job& job, hd x) {
    constexpr bool odd = kind == BESSEL_I1 || kind == BESSEL_I1E;
    const double* c = (const double*)job.p[2];
    hd size = h_abs(x), near = size < 8.0 ? size : splat_hd(8.0), far = size < 8.0 ? splat_hd(8.0) : size;
    hd out = h_chebyshev(c, job.n[0], near * 0.25 - 1.0);
    if (odd) out = out * near;
    if (h_any(~(size < 8.0))) out = size < 8.0 ? out : h_chebyshev(c + job.n[0], job.n[1], 16.0 / far - 1.0) / h_sqrt(far);
    if (kind == BESSEL_I0 || kind == BESSEL_I1) out = out * h_exp(size);
    if (odd) out = (hd)((hl)out ^ ((hl)x & splat_hl((i64)0x8000000000000000ul)));
    return x == x ? out : x;
}
FB_INLINE hd h_erfcx(const Job& job, hd x) {
    hd size = h_abs(x), near = size > 1e100 ? splat_hd(1e100) : size;
    hd out = h_chebyshev((const double*)job.p[2], job.n[0], (near - 3.75) / (near + 3.75)) * 0.5 / (0.5 + size);
    if (h_any(x < 0.0)) out = x < 0.0 ? 2.0 * h_exp(x * x) - out : out;
    return x == x ? out : x;
}
// Halley's method on the logarithm of the tail, whose derivative is -h, from a rational approximation, and a series around
// 1/2; n[1]: its steps
FB_INLINE hd h_ndtri(const Job& job, hd p) {
    hd other = 1.0 - p, tail = p < other ? p : other, wanted = h_log(tail), t = h_sqrt(-2.0 * wanted);
    hd x = t - (2.515517 + t * (0.802853 + t * 0.010328)) / (1.0 + t * (1.432788 + t * (0.189269 + t * 0.001308)));
    for (long k = 0; k < job.n[1]; k++) {
        hd scaled = h_erfcx(job, x * 0.70710678118654752440), h = 0.79788456080286535588 / scaled;
        hd off = h_log(0.5 * scaled) - 0.5 * x * x - wanted;
        x = x + (off + off) / (h + h + off * (h - x));
    }
    hd d = 0.5 - tail, z = d * d * 6.28318530717958647693;
    x = d < 1e-3 ? d * 2.50662827463100050242 * (1.0 + z * (1.0 / 6 + z * (7.0 / 120))) : x;
    x = tail == 0.0 ? h_splat_inf() : x;
    return p < 0.5 ? -x : x;
}

// the normal distribution function, of floats alone: the tail by the scaled complement (both of whose quotients come of one
// division), what is left of 1 beyond it. `powers`: the series is one in powers
template <bool powers> FB_INLINE hd h_ndtr(const Job& job, hd x) {
    hd size = h_abs(x), root = size * 0.70710678118654752440, near = root > 1e30 ? splat_hd(1e30) : root;
    hd up = near + 3.75, low = near + 0.5, inverse = 0.5 / (up * low);
    hd t = (near - 3.75) * (low + low) * inverse, series;
    if constexpr (powers) series = h_powers((const double*)job.p[2], job.n[0], t);
    else series = h_chebyshev((const double*)job.p[2], job.n[0], t);
    hd tail = 0.5 * series * up * inverse * h_short_exp(-0.5 * size * size);
    return x > 0.0 ? 1.0 - tail : tail;
}
FB_INLINE hd h_log_ndtr(const Job& job, hd x) {
    hd other = h_ndtr<false>(job, -x), near = h_log(1.0 - other);
    near = other < 1e-5 ? -other * (1.0 + other * (0.5 + other * (1.0 / 3))) : near;
    hl low = x < -1.0;
    return h_any(low) ? low ? h_log(0.5 * h_erfcx(job, x * -0.70710678118654752440)) - 0.5 * x * x : near : near;
}

template <int kind> FB_INLINE hd special_of(const Job& job, hd x) {
    if constexpr (kind == LGAMMA) return h_lgamma(x);
    else if constexpr (kind == DIGAMMA) return h_digamma(x);
    else if constexpr (kind == POLYGAMMA) return job.n[0] == 2 ? h_trigamma(x) : job.f[0] * h_zeta((int)job.n[0], x); // the factor; s
    else if constexpr (kind == ERFCX) return h_erfcx(job, x);
    else if constexpr (kind == NDTR) return h_ndtr<true>(job, x);
    else if constexpr (kind == LOG_NDTR) return h_log_ndtr(job, x);
    else if constexpr (kind == NDTRI) return h_ndtri(job, x);
    else return h_bessel<kind>(job, x);
}
template <class T, int kind> void special(const Job& job, long begin, long end) {
    each_vector<1>(begin, end, [&](i64 i, auto m, int) FB_BODY {
        if constexpr (sizeof(T) == 8) {
            vd x = ld((const T*)job.p[1] + i, m);
            hd lo = special_of<kind>(job, x.lo);
            st((T*)job.p[0] + i, vd{lo, count(m) > FB_W / 2 ? special_of<kind>(job, x.hi) : lo}, m);
        } else {
            vf x = ld((const T*)job.p[1] + i, m);
            hd lo = special_of<kind>(job, wide_d(first(x))), hi = lo;
            if (count(m) > FB_W / 2) hi = special_of<kind>(job, wide_d(second(x)));
            st((T*)job.p[0] + i, both(__builtin_convertvector(lo, hf), __builtin_convertvector(hi, hf)), m);
        }
    });
}

#endif
