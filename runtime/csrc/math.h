// Mathematical functions over lanes, without any header: one overload a register type, named v_<primitive>.
//
// Floats have own polynomials (fitted by reweighted least squares, stated errors in units in the last place); doubles
// and rare cases go lane by lane to the C library. NaN, infinities and signed zeros come out as the C library gives
// them.
#ifndef FB_MATH_H
#define FB_MATH_H

#include "vector.h"
#include "philox.h"

// ---- lane by lane
#define FB_EACH(T, name, call) \
    FB_INLINE T v_##name(T x) { \
        T r; \
        FB_LANES set_lane(r, l, call(lane(x, l))); \
        return r; \
    }
#define FB_EACH2(T, name, call) \
    FB_INLINE T v_##name(T x, T y) { \
        T r; \
        FB_LANES set_lane(r, l, call(lane(x, l), lane(y, l))); \
        return r; \
    }
#define FB_RARE __attribute__((noinline, cold)) static

FB_INLINE vf poly(vf, vf sum) { return sum; }
template <class... More> FB_INLINE vf poly(vf x, vf sum, float next, More... more) {
    return poly(x, v_fma(sum, x, splat_f(next)), more...);
}
// highest coefficient first
template <class... More> FB_INLINE vf polynomial(vf x, float highest, More... more) {
    return poly(x, splat_f(highest), more...);
}
FB_INLINE hd poly(hd, hd sum) { return sum; }
template <class... More> FB_INLINE hd poly(hd x, hd sum, double next, More... more) {
    return poly(x, v_fma(sum, x, splat_hd(next)), more...);
}

FB_INLINE vf with_sign(vf magnitude, vf sign) {
    vi bit = splat_i((int)0x80000000);
    return as_f((as_i(magnitude) & ~bit) | (as_i(sign) & bit));
}
FB_INLINE vf v_abs(vf x) { return as_f(as_i(x) & splat_i(0x7fffffff)); }
FB_INLINE hd h_abs(hd x) { return (hd)((hl)x & splat_hl(0x7fffffffffffffffl)); }
FB_INLINE vd v_abs(vd x) { return {h_abs(x.lo), h_abs(x.hi)}; }
FB_INLINE vi v_abs(vi x) { return x < 0 ? -x : x; }
FB_INLINE vl v_abs(vl x) { return v_where(x < splat_l(0), -x, x); }

// ---- exponential family. x = n ln 2 + r; e^r - 1 = r + r^2 P(r)
FB_INLINE void split_exp(vf x, vf& n, vf& tail) {
    n = v_round(x * splat_f(1.44269504f));
    vf r = v_fma(n, splat_f(-0.693145752f), x); // ln 2 in two parts; the first has zeros at its end
    r = v_fma(n, splat_f(-1.42860677e-06f), r);
    vf p = polynomial(r, 0.00139517174f, 0.00836959854f, 0.0416661873f, 0.166665122f, 0.5f);
    tail = v_fma(p * r, r, r);
}
#if FB_ISA == 512
// by the last four bits of the lane's number
#if defined(__clang__)
FB_INLINE vf look_up(vf table, vi index) { return __builtin_ia32_permvarsf512(table, index); }
#else
FB_INLINE vf look_up(vf table, vi index) { return __builtin_shuffle(table, index); }
#endif
#endif
// within 1 ulp
#if FB_ISA == 512
// x = (k / 16) ln 2 + r with a table of 2^(j/16): the sum leaves k in the lowest bits, a quotient of 16 takes its floor
FB_INLINE vf v_exp(vf x) {
    const vf whole = splat_f(786432.f); // 1.5 * 2^19: a float there has four bits behind the point
    const vf table = {1.f, 1.04427373f, 1.09050775f, 1.13878858f, 1.18920708f, 1.24185777f, 1.29683959f, 1.35425556f, 1.41421354f,
        1.47682619f, 1.54221082f, 1.61049032f, 1.68179286f, 1.75625217f, 1.8340081f, 1.91520655f};
    x = raw_min(splat_f(89.f), raw_max(splat_f(-104.f), x));
    vf t = v_fma(x, splat_f(1.44269504f), whole), n = t - whole;
    vf r = v_fma(n, splat_f(-0.693145752f), x);
    r = v_fma(n, splat_f(-1.42860677e-06f), r);
    vf power = look_up(table, as_i(t));
    vf tail = v_fma(v_fma(r, splat_f(0.16667026f), splat_f(0.5000162f)) * r, r, r);
    return v_scale(v_fma(power, tail, power), n);
}
#else
FB_INLINE vf v_exp(vf x) {
    vf n, tail;
    split_exp(raw_min(splat_f(89.f), raw_max(splat_f(-104.f), x)), n, tail);
    return v_scale(tail + splat_f(1.f), n);
}
#endif
FB_INLINE vf v_expm1(vf x) {
    vf n, tail;
    split_exp(raw_min(splat_f(89.f), raw_max(splat_f(-30.f), x)), n, tail);
    vf half = v_scale(splat_f(0.5f), n); // 2^(n-1) does not overflow where the result does not
    vf r = v_fma(half, tail, half - splat_f(0.5f));
    return v_where(x == splat_f(0.f), x, r + r);
}
// -expm1(-2|x|) / (2 + expm1(-2|x|)): no cancellation, exactly 1 for large |x|; within 2 ulp
FB_INLINE vf v_tanh(vf x) {
    vf t = v_expm1(v_abs(x) * splat_f(-2.f));
    vf r = with_sign(-t / (t + splat_f(2.f)), x);
    return v_where(v_abs(x) < splat_f(1e-4f), x, r);
}

// ---- logarithms. x = 2^e m with m in [sqrt(1/2), sqrt(2)); log(1 + f) = f - f^2/2 + f^3 Q(f)
FB_INLINE void split_log(vf x, vf& e, vf& f) {
    vi tiny = x < splat_f(1.17549435e-38f);
    vi bits = as_i(v_where(tiny, x * splat_f(8388608.f), x));
    vi exponent = (bits - splat_i(0x3f3504f3)) >> 23;
    f = as_f(bits - (exponent << 23)) - splat_f(1.f);
    e = __builtin_convertvector(exponent - (tiny & splat_i(23)), vf);
}
FB_INLINE vf log_tail(vf f) {
    vf q = polynomial(f, -0.0785954595f, 0.128816217f, -0.131287679f, 0.141811967f, -0.166245535f, 0.200022861f,
        -0.250008106f, 0.333333164f);
    return v_fma(q * f, f * f, splat_f(-0.5f) * f * f);
}
FB_INLINE vf log_special(vf x, vf r) {
    r = v_where(x == splat_f(0.f), splat_f(-__builtin_inff()), r);
    r = v_where(x < splat_f(0.f), splat_f(__builtin_nanf("")), r);
    return v_where((x == splat_f(__builtin_inff())) | (x != x), x, r);
}
FB_INLINE vf v_log(vf x) {
    vf e, f;
    split_log(x, e, f);
    vf low = v_fma(e, splat_f(-2.12194440e-4f), log_tail(f));
    return log_special(x, v_fma(e, splat_f(0.693359375f), f + low));
}
FB_INLINE vf v_log2(vf x) {
    vf e, f;
    split_log(x, e, f);
    vf tail = log_tail(f), log2e_low = splat_f(0.44269504f); // log2(e) - 1
    vf r = v_fma(tail, log2e_low, f * log2e_low);
    return log_special(x, ((r + tail) + f) + e);
}
// log(u) with u = 1 + x rounded, mended by the part of x that rounding lost
FB_INLINE vf v_log1p(vf x) {
    vf u = splat_f(1.f) + x, lost = u - splat_f(1.f), c = (x - lost) / u;
    vf r = v_log(u) + c;
    r = v_where(v_abs(x) < splat_f(1e-5f), v_fma(x * splat_f(-0.5f), x, x), r);
    return v_where((x == splat_f(__builtin_inff())) | (u == splat_f(0.f)), v_log(u), r);
}

#if FB_ISA == 512
// ---- the error function: sixteen polynomials around multiples of 1/4, coefficients taken from registers by the lane's
//      number; within 2.2 ulp, and exactly 1 from 3.875 on
FB_INLINE vf v_erf(vf x) {
    const vf e0 = {0.0f, 0.2763264f, 0.5204999f, 0.71115565f, 0.8427008f, 0.92290014f, 0.96610516f, 0.9866717f,
        0.9953223f, 0.9985373f, 0.999593f, 0.9998994f, 0.9999779f, 0.9999957f, 0.9999993f, 0.9999999f};
    const vf e1 = {1.1283792f, 1.0600141f, 0.8787826f, 0.64293104f, 0.4151075f, 0.23652112f, 0.11893029f,
        0.052774996f, 0.020666985f, 0.007142319f, 0.0021782843f, 0.0005862772f, 0.00013925305f, 2.9189025e-05f,
        5.3994268e-06f, 8.814322e-07f};
    const vf e2 = {-1.4614882e-05f, -0.2649988f, -0.4393884f, -0.4822045f, -0.41510126f, -0.29565978f, -0.178406f,
        -0.09236483f, -0.041345138f, -0.016079228f, -0.005431023f, -0.0016167299f, -0.0004061761f, -0.00010049331f,
        -3.290636e-05f, -5.4292457e-07f};
    const vf e3 = {-0.37554997f, -0.30916777f, -0.14646322f, 0.026790561f, 0.13836887f, 0.1675349f, 0.13875283f,
        0.090158045f, 0.048223477f, 0.021724666f, 0.0083500035f, 0.0027603125f, 0.0007890526f, 0.00019578889f,
        4.228834e-05f, 7.9676065e-06f};
    const vf e4 = {-0.007259884f, 0.12607765f, 0.18212561f, 0.15066214f, 0.06885779f, -0.005293243f, -0.04362308f,
        -0.047413874f, -0.03372516f, -0.018553894f, -0.009602896f, -0.0029991397f, -0.0017947559f, 6.8305075e-05f,
        0.0008245186f, -0.00019033607f};
    const vf e5 = {0.14108297f, 0.07961096f, 0.007406231f, -0.052965935f, -0.068893604f, -0.04707686f, -0.014986619f,
        0.006482729f, 0.013005681f, 0.010640545f, 0.006130821f, 0.002770859f, 0.0010257204f, 0.00031779532f,
        8.348831e-05f, 1.8755398e-05f};
    // 1.5 * 2^21 has 1/4 for its last bit: the sum's low bits are the number of the nearest quarter
    vf a = v_abs(x), shifted = a + splat_f(3145728.f), t = a - (shifted - splat_f(3145728.f));
    vi k = as_i(shifted);
    vf r = v_fma(look_up(e5, k), t, look_up(e4, k));
    r = v_fma(r, t, look_up(e3, k));
    r = v_fma(r, t, look_up(e2, k));
    r = v_fma(r, t, look_up(e1, k));
    r = v_fma(r, t, look_up(e0, k));
    return with_sign(v_where(a >= splat_f(3.875f), splat_f(1.f), r), x);
}
#else
// ---- the error function: x P(x^2) near 0, 1 - e^(q(|x|)) further out; within 3 ulp
FB_INLINE vf v_erf(vf x) {
    vf a = v_abs(x), z = x * x;
    vf near =
        x * polynomial(z, -0.000609035778f, 0.00501196226f, -0.0267789084f, 0.112821408f, -0.376125246f, 1.12837911f);
    vf y = raw_min(splat_f(4.f), a);
    vf q = polynomial(y, 0.000197182628f, -0.00305561558f, 0.0222771168f, -0.104037419f, -0.637059689f, -1.12774956f,
        -0.000177487251f);
    vf n, tail;
    split_exp(q, n, tail);
    vf far = splat_f(1.f) - v_scale(tail + splat_f(1.f), n);
    return v_where(a < splat_f(0.9f), near, with_sign(far, x));
}
#endif

// ---- trigonometry. x = n pi/2 + r by three constants whose products with n are exact up to 8192; beyond, the C
//      library
FB_RARE vf far_sin(vf x) {
    FB_LANES x[l] = __builtin_sinf(x[l]);
    return x;
}
FB_RARE vf far_cos(vf x) {
    FB_LANES x[l] = __builtin_cosf(x[l]);
    return x;
}
FB_RARE vf far_tan(vf x) {
    FB_LANES x[l] = __builtin_tanf(x[l]);
    return x;
}
FB_INLINE bool is_far(vf x) { return any_lane(~(v_abs(x) <= splat_f(8192.f))); }
FB_INLINE void sin_cos(vf x, vi& quadrant, vf& s, vf& c) {
    vf n = v_round(x * splat_f(0.636619772f));
    vf r = v_fma(n, splat_f(-1.5703125f), x);
    r = v_fma(n, splat_f(-4.83751297e-4f), r);
    r = v_fma(n, splat_f(-7.54978996e-8f), r);
    quadrant = to_i_nearest(n);
    vf z = r * r;
    s = v_fma(polynomial(z, 2.71793897e-06f, -0.000198392954f, 0.00833332911f, -0.166666672f) * z, r, r);
    c = v_fma(polynomial(z, -2.7206778e-07f, 2.47994776e-05f, -0.00138888834f, 0.0416666679f), z * z,
        v_fma(z, splat_f(-0.5f), splat_f(1.f)));
}
FB_INLINE vf quarter(vi quadrant, vf even, vf odd) {
    vf r = v_where((quadrant & 1) != 0, odd, even);
    return as_f(as_i(r) ^ ((quadrant & 2) << 30));
}
FB_INLINE vf v_sin(vf x) {
    if (is_far(x)) return far_sin(x);
    vi quadrant;
    vf s, c;
    sin_cos(x, quadrant, s, c);
    return v_where(x == splat_f(0.f), x, quarter(quadrant, s, c));
}
FB_INLINE vf v_cos(vf x) {
    if (is_far(x)) return far_cos(x);
    vi quadrant;
    vf s, c;
    sin_cos(x, quadrant, s, c);
    return quarter(quadrant + 1, s, c);
}
FB_INLINE vf v_tan(vf x) {
    if (is_far(x)) return far_tan(x);
    vi quadrant;
    vf s, c;
    sin_cos(x, quadrant, s, c);
    vi odd = (quadrant & 1) != 0;
    return v_where(x == splat_f(0.f), x, v_where(odd, -c, s) / v_where(odd, s, c));
}

// ---- power: positive normal bases by logarithm and exponential in double; all else in the C library
FB_INLINE hd half_exp2(hd t) {
    t = raw_min(splat_hd(1100.0), raw_max(splat_hd(-1100.0), t));
    hd n = h_round(t), r = (t - n) * splat_hd(0.6931471805599453);
    hd q =
        poly(r, splat_hd(2.7557319223985893e-07), 2.7557319223985893e-06, 2.48015873015873e-05, 1.984126984126984e-04,
            1.3888888888888889e-03, 8.333333333333333e-03, 4.1666666666666664e-02, 0.16666666666666666, 0.5, 1.0, 1.0);
    hl k = __builtin_convertvector(n, hl), h = k >> 1;
    return q * (hd)((h + splat_hl(1023)) << 52) * (hd)((k - h + splat_hl(1023)) << 52);
}
FB_INLINE hd half_pow(hd x, hd y) {
    hl bits = (hl)x, exponent = (hl)((hul)(bits - splat_hl(0x3fe6a09e667f3bcdl)) >> 52);
    exponent = (exponent ^ splat_hl(0x800)) - splat_hl(0x800); // sign of the 12 bits
    hd m = (hd)(bits - (exponent << 52));
    hd s = (m - splat_hd(1.0)) / (m + splat_hd(1.0)), z = s * s;
    hd p = poly(z, splat_hd(0.19235933878519513), 0.2219530832136867, 0.26230818925253886, 0.3205988979753252,
        0.4121985831111324, 0.5770780163555854, 0.9617966939259757, 2.8853900817779268);
    hd e = __builtin_convertvector(exponent, hd);
    return half_exp2(y * v_fma(s, p, e));
}
FB_RARE vf far_pow(vf x, vf y) {
    FB_LANES x[l] = __builtin_powf(x[l], y[l]);
    return x;
}
FB_INLINE vf v_pow(vf x, vf y) {
    vi plain = (x >= splat_f(1.17549435e-38f)) & (x <= splat_f(3.40282347e38f)) & (v_abs(y) <= splat_f(3.40282347e38f));
    if (any_lane(~plain)) return far_pow(x, y);
    hd lo = half_pow(__builtin_convertvector(first(x), hd), __builtin_convertvector(first(y), hd));
    hd hi_ = half_pow(__builtin_convertvector(second(x), hd), __builtin_convertvector(second(y), hd));
    return both(__builtin_convertvector(lo, hf), __builtin_convertvector(hi_, hf));
}
// the power of a base of 2, whose logarithm is 1
FB_INLINE vf v_pow_of_2(vf y) {
    if (any_lane(~(v_abs(y) <= splat_f(3.40282347e38f)))) return far_pow(splat_f(2.f), y);
    hd lo = half_exp2(__builtin_convertvector(first(y), hd)), hi_ = half_exp2(__builtin_convertvector(second(y), hd));
    return both(__builtin_convertvector(lo, hf), __builtin_convertvector(hi_, hf));
}

FB_EACH(vd, exp, __builtin_exp)
FB_EACH(vd, expm1, __builtin_expm1) FB_EACH(vd, log, __builtin_log) FB_EACH(vd, log2, __builtin_log2)
    FB_EACH(vd, log1p, __builtin_log1p) FB_EACH(vd, tanh, __builtin_tanh) FB_EACH(vd, erf, __builtin_erf)
        FB_EACH(vd, sin, __builtin_sin) FB_EACH(vd, cos, __builtin_cos) FB_EACH(vd, tan, __builtin_tan)
            FB_EACH2(vd, pow, __builtin_pow)

    // ---- roots and roundings of doubles and integers
    FB_INLINE vd v_sqrt(vd x) {
    return {h_sqrt(x.lo), h_sqrt(x.hi)};
}
FB_INLINE vf v_rsqrt(vf x) { return splat_f(1.f) / v_sqrt(x); }
FB_INLINE vd v_rsqrt(vd x) { return splat_d(1.0) / v_sqrt(x); }
FB_INLINE vd v_floor(vd x) { return {h_floor(x.lo), h_floor(x.hi)}; }
FB_INLINE vd v_ceil(vd x) { return {h_ceil(x.lo), h_ceil(x.hi)}; }
FB_INLINE vd v_round(vd x) { return {h_round(x.lo), h_round(x.hi)}; }
FB_INLINE vd v_trunc(vd x) { return {h_trunc(x.lo), h_trunc(x.hi)}; }

FB_INLINE vi v_isnan(vf x) { return x != x; }
FB_INLINE vi v_isnan(vd x) { return x != x; }
FB_INLINE vi v_isinf(vf x) { return v_abs(x) == splat_f(__builtin_inff()); }
FB_INLINE vi v_isinf(vd x) { return v_abs(x) == splat_d(__builtin_inf()); }

// NaN is a NaN's sign: sign(NaN) = NaN, sign(-0) = 0
FB_INLINE vf v_sign(vf x) {
    vf r = v_where(x > splat_f(0.f), splat_f(1.f), v_where(x < splat_f(0.f), splat_f(-1.f), splat_f(0.f)));
    return v_where(x != x, x, r);
}
FB_INLINE vd v_sign(vd x) {
    vd r = v_where(x > splat_d(0), splat_d(1), v_where(x < splat_d(0), splat_d(-1), splat_d(0)));
    return v_where(x != x, x, r);
}
FB_INLINE vi v_sign(vi x) { return (x < 0) - (x > 0); }
FB_INLINE vl v_sign(vl x) {
    return v_where(x > splat_l(0), splat_l(1), v_where(x < splat_l(0), splat_l(-1), splat_l(0)));
}

// ---- extremes: NaN wins
#if FB_ISA == 512 && !defined(__clang__)
// the instruction gives the second operand when either is NaN; lanes where the first is NaN keep it
FB_INLINE u16 ordered(vf a) { return __builtin_ia32_cmpps512_mask(a, a, 7, FB_ALL, 4); }
FB_INLINE vf v_maximum(vf a, vf b) { return __builtin_ia32_maxps512_mask(a, b, a, ordered(a), 4); }
FB_INLINE vf v_minimum(vf a, vf b) { return __builtin_ia32_minps512_mask(a, b, a, ordered(a), 4); }
#else
FB_INLINE vf v_maximum(vf a, vf b) { return v_where(a != a, a, raw_max(a, b)); }
FB_INLINE vf v_minimum(vf a, vf b) { return v_where(a != a, a, raw_min(a, b)); }
#endif
FB_INLINE vd v_maximum(vd a, vd b) { return v_where(a != a, a, vd{raw_max(a.lo, b.lo), raw_max(a.hi, b.hi)}); }
FB_INLINE vd v_minimum(vd a, vd b) { return v_where(a != a, a, vd{raw_min(a.lo, b.lo), raw_min(a.hi, b.hi)}); }
FB_INLINE vi v_maximum(vi a, vi b) { return a > b ? a : b; }
FB_INLINE vi v_minimum(vi a, vi b) { return a < b ? a : b; }
FB_INLINE vl v_maximum(vl a, vl b) { return v_where(a > b, a, b); }
FB_INLINE vl v_minimum(vl a, vl b) { return v_where(a < b, a, b); }

// ---- Python's division: quotients round down, remainders have the divisor's sign
template <class T> FB_INLINE T float_mod(T a, T b) {
    T r = sizeof(T) == 4 ? (T)__builtin_fmodf((float)a, (float)b) : (T)__builtin_fmod((double)a, (double)b);
    if (r == 0) return (T)__builtin_copysign((double)0, (double)b);
    return (r < 0) != (b < 0) ? r + b : r;
}
template <class T> FB_INLINE T float_floordiv(T a, T b) {
    if (b == 0) return a / b;
    T r = sizeof(T) == 4 ? (T)__builtin_fmodf((float)a, (float)b) : (T)__builtin_fmod((double)a, (double)b);
    T q = (a - r) / b;
    if (r != 0 && (r < 0) != (b < 0)) q -= 1;
    if (q == 0) return (T)__builtin_copysign((double)0, (double)(a / b));
    T whole = (T)__builtin_floor((double)q);
    return q - whole > (T)0.5 ? whole + 1 : whole;
}
template <class T> FB_INLINE T int_floordiv(T a, T b) {
    if (b == 0) return 0;
    if (b == -1) return (T)(0 - (u64)a);
    T q = a / b;
    return q * b != a && (a < 0) != (b < 0) ? q - 1 : q;
}
template <class T> FB_INLINE T int_mod(T a, T b) {
    if (b == 0 || b == -1) return 0;
    T r = a % b;
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
template <class T> FB_INLINE T int_pow(T a, T b) {
    if (b < 0) return a == 1 ? 1 : a == -1 ? (b & 1 ? -1 : 1) : 0;
    u64 r = 1, square = (u64)a;
    for (; b; b >>= 1, square *= square)
        if (b & 1) r *= square;
    return (T)r;
}
FB_EACH2(vd, mod, float_mod<double>)
    FB_EACH2(vd, floordiv, float_floordiv<double>) FB_EACH2(vi, pow, int_pow<int>) FB_EACH2(vl, pow, int_pow<i64>)
// shifts by as many bits as there are, by more or by less than none: 0, or the sign
FB_INLINE hl half_shl(hl a, hl b) {
    return ((hul)b < (hul)splat_hl(64)) ? (hl)((hul)a << ((hul)b & (hul)splat_hl(63))) : splat_hl(0);
}
FB_INLINE hl half_shr(hl a, hl b) { return a >> (((hul)b < (hul)splat_hl(64)) ? b : splat_hl(63)); }
FB_INLINE vl v_shl(vl a, vl b) { return {half_shl(a.lo, b.lo), half_shl(a.hi, b.hi)}; }
FB_INLINE vl v_shr(vl a, vl b) { return {half_shr(a.lo, b.lo), half_shr(a.hi, b.hi)}; }
FB_INLINE vi v_shl(vi a, vi b) { return ((vu)b < (vu)splat_i(32)) ? (vi)((vu)a << ((vu)b & 31)) : splat_i(0); }
FB_INLINE vi v_shr(vi a, vi b) { return a >> (((vu)b < (vu)splat_i(32)) ? b : splat_i(31)); }
FB_INLINE i64 fb_floordiv(i64 a, i64 b) {
    return int_floordiv(a, b);
}
FB_INLINE i64 fb_mod(i64 a, i64 b) { return int_mod(a, b); }
FB_INLINE i64 fb_max(i64 a, i64 b) { return a > b ? a : b; }
FB_INLINE i64 fb_min(i64 a, i64 b) { return a < b ? a : b; }

// ---- conversions between register types: to_f, to_d, to_i, to_l, to_b
FB_INLINE vf to_f(vf x) { return x; }
FB_INLINE vf to_f(vi x) { return __builtin_convertvector(x, vf); }
FB_INLINE vf to_f(vd x) { return both(__builtin_convertvector(x.lo, hf), __builtin_convertvector(x.hi, hf)); }
#if FB_ISA == 512
FB_INLINE vf to_f(vl x) { return both(__builtin_convertvector(x.lo, hf), __builtin_convertvector(x.hi, hf)); }
#else
FB_INLINE vf to_f(vl x) {
    vf r;
    FB_LANES r[l] = (float)lane(x, l);
    return r;
}
#endif
FB_INLINE vd to_d(vd x) { return x; }
FB_INLINE vd to_d(vf x) { return {__builtin_convertvector(first(x), hd), __builtin_convertvector(second(x), hd)}; }
FB_INLINE vd to_d(vi x) { return {__builtin_convertvector(first(x), hd), __builtin_convertvector(second(x), hd)}; }
FB_INLINE vd to_d(vl x) { return {__builtin_convertvector(x.lo, hd), __builtin_convertvector(x.hi, hd)}; }
FB_INLINE vl to_l(vl x) { return x; }
FB_INLINE vl to_l(vi x) { return {widen_first(x), widen_second(x)}; }
FB_INLINE vl to_l(vf x) { return {__builtin_convertvector(first(x), hl), __builtin_convertvector(second(x), hl)}; }
FB_INLINE vl to_l(vd x) { return {__builtin_convertvector(x.lo, hl), __builtin_convertvector(x.hi, hl)}; }
FB_INLINE vi to_i(vi x) { return x; }
FB_INLINE vi to_i(vl x) { return narrow(x.lo, x.hi); }
FB_INLINE vi to_i(vf x) { return __builtin_convertvector(x, vi); }
FB_INLINE vi to_i(vd x) { return both(__builtin_convertvector(x.lo, hi), __builtin_convertvector(x.hi, hi)); }
FB_INLINE vi to_b(vf x) { return x != splat_f(0.f); }
FB_INLINE vi to_b(vd x) { return x != splat_d(0); }
FB_INLINE vi to_b(vi x) { return x != 0; }
FB_INLINE vi to_b(vl x) { return x != splat_l(0); }

// ---- Python's division of integers. Below 2^51 they are doubles exactly, and so is what a division leaves; the quotient of two
//      such doubles, rounded down, is that of the integers. Other operands, and divisors below 1, go lane by lane.
FB_INLINE hd small_to_d(hl x) { return (hd)(x + splat_hl(0x4338000000000000l)) - splat_hd(6755399441055744.0); }
FB_INLINE hl small_to_l(hd x) { return (hl)(x + splat_hd(6755399441055744.0)) - splat_hl(0x4338000000000000l); }
FB_INLINE vd small_to_d(vl x) { return {small_to_d(x.lo), small_to_d(x.hi)}; }
FB_INLINE vl small_to_l(vd x) { return {small_to_l(x.lo), small_to_l(x.hi)}; }
FB_INLINE vd v_floor_of(vd x) { return {h_floor(x.lo), h_floor(x.hi)}; }
#define FB_FAR(T, name, fn) \
    FB_RARE T name(T a, T b) { \
        FB_LANES set_lane(a, l, fn(lane(a, l), lane(b, l))); \
        return a; \
    }
FB_FAR(vi, far_floordiv, int_floordiv<int>)
FB_FAR(vl, far_floordiv, int_floordiv<i64>)
FB_FAR(vi, far_mod, int_mod<int>)
FB_FAR(vl, far_mod, int_mod<i64>)
#undef FB_FAR
FB_INLINE vi near_zero(vl x) {
    vl from = x + splat_l(1l << 51);
    return (from >= splat_l(0)) & (from < splat_l(1l << 52));
}
FB_INLINE bool divides(vl a, vl b) { return !any_lane(~(near_zero(a) & near_zero(b) & (b > splat_l(0)))); }
FB_INLINE bool divides(vi, vi b) { return !any_lane(b <= 0); }
FB_INLINE vl v_floordiv(vl a, vl b) {
    return divides(a, b) ? small_to_l(v_floor_of(small_to_d(a) / small_to_d(b))) : far_floordiv(a, b);
}
FB_INLINE vl v_mod(vl a, vl b) {
    if (!divides(a, b)) return far_mod(a, b);
    vd x = small_to_d(a), y = small_to_d(b);
    return small_to_l(x - v_floor_of(x / y) * y);
}
FB_INLINE vi v_floordiv(vi a, vi b) {
    return divides(a, b) ? to_i(v_floor_of(to_d(a) / to_d(b))) : far_floordiv(a, b);
}
FB_INLINE vi v_mod(vi a, vi b) {
    if (!divides(a, b)) return far_mod(a, b);
    vd x = to_d(a), y = to_d(b);
    return to_i(x - v_floor_of(x / y) * y);
}
// numbers below 2^50 by a known number: the half keeps the product with its reciprocal on the right side of whole numbers
FB_INLINE vl v_floor_by(vl a, i64 d) {
    if (d == 1) return a;
    vd inverse = splat_d(1.0 / (double)d), half = splat_d(0.5);
    return small_to_l(v_floor_of((small_to_d(a) + half) * inverse));
}
FB_INLINE vl v_rest_by(vl a, i64 d) {
    if ((d & (d - 1)) == 0) return a & splat_l(d - 1);
    vd x = small_to_d(a), inverse = splat_d(1.0 / (double)d), half = splat_d(0.5);
    return small_to_l(x - v_floor_of((x + half) * inverse) * splat_d((double)d));
}

// ---- Python's division of floats. The quotient of two floats is exact enough in double to be cut to the right whole number
//      below 2^28, and what it leaves is exact then; other operands go to the C library.
FB_RARE vf far_rest(vf a, vf b) {
    FB_LANES a[l] = __builtin_fmodf(a[l], b[l]);
    return a;
}
FB_INLINE vf rest_of(vf a, vf b) {
    vd x = to_d(a), y = to_d(b), q = v_trunc(x / y);
    vi plain = (v_abs(q) < splat_d(268435456.0)) & (v_abs(b) <= splat_f(3.40282347e38f));
    return any_lane(~plain) ? far_rest(a, b) : to_f(x - q * y);
}
FB_INLINE vf v_mod(vf a, vf b) {
    vf r = rest_of(a, b), zero = with_sign(splat_f(0.f), b);
    vf turned = v_where((r < splat_f(0.f)) != (b < splat_f(0.f)), r + b, r);
    return v_where(r == splat_f(0.f), zero, turned);
}
FB_INLINE vf v_floordiv(vf a, vf b) {
    vf none = splat_f(0.f), one = splat_f(1.f), r = rest_of(a, b), whole = a / b, q = (a - r) / b;
    q = v_where((r != none) & ((r < none) != (b < none)), q - one, q);
    vf down = v_floor(q);
    down = v_where(q - down > splat_f(0.5f), down + one, down);
    return v_where(b == none, whole, v_where(q == none, with_sign(none, whole), down));
}
// masks count as -1: a truth value is 0 or 1
FB_INLINE vf truth_f(vi m) { return as_f(m & as_i(splat_f(1.f))); }
FB_INLINE vd truth_d(vi m) { return to_d(m & 1); }
FB_INLINE vl truth_l(vi m) { return to_l(m & 1); }
FB_INLINE vi truth_i(vi m) { return m & 1; }

FB_INLINE vi wrap_i8(vi x) { return (x << 24) >> 24; }
FB_INLINE vi wrap_u8(vi x) { return x & 255; }
FB_INLINE vi wrap_i16(vi x) { return (x << 16) >> 16; }
FB_INLINE vi wrap_u16(vi x) { return x & 65535; }
FB_INLINE vl wrap_u32(vl x) { return x & splat_l(0xffffffffl); }
// 32-bit integers wrap like the 64-bit ones
FB_INLINE vi add_i(vi a, vi b) { return (vi)((vu)a + (vu)b); }
FB_INLINE vi sub_i(vi a, vi b) { return (vi)((vu)a - (vu)b); }
FB_INLINE vi mul_i(vi a, vi b) { return (vi)((vu)a * (vu)b); }

// ---- all lanes into one
#define FB_FOLD(T, S, name, expr) \
    FB_INLINE S name(T x) { \
        S a = lane(x, 0); \
        for (int l = 1; l < FB_W; l++) { \
            S b = lane(x, l); \
            a = expr; \
        } \
        return a; \
    }
FB_FOLD(vd, double, fold_add, a + b)
FB_FOLD(vi, int, fold_add, (int)((u32)a + (u32)b)) FB_FOLD(vl, i64, fold_add, (i64)((u64)a + (u64)b))
    FB_FOLD(vf, float, fold_mul, a* b) FB_FOLD(vd, double, fold_mul, a* b)
        FB_FOLD(vi, int, fold_mul, (int)((u32)a * (u32)b)) FB_FOLD(vl, i64, fold_mul, (i64)((u64)a * (u64)b))
                FB_FOLD(vd, double, fold_max, (a > b || a != a) ? a : b) FB_FOLD(vi, int, fold_max, a > b ? a : b)
                    FB_FOLD(vl, i64, fold_max, a > b ? a : b)
                        FB_FOLD(vd, double, fold_min, (a < b || a != a) ? a : b)
                            FB_FOLD(vi, int, fold_min, a < b ? a : b) FB_FOLD(vl, i64, fold_min, a < b ? a : b)
                                FB_FOLD(vi, int, fold_or, a | b) FB_FOLD(vi, int, fold_and, a& b)
#undef FB_FOLD
typedef float quad __attribute__((vector_size(16)));
union Quads {
    vf v;
    quad q[FB_W / 4];
};
FB_INLINE float fold_add(vf x) {
    Quads u = {x};
    quad s = u.q[0];
    for (int i = 1; i < FB_W / 4; i++) s += u.q[i];
    return (s[0] + s[1]) + (s[2] + s[3]);
}
// the greatest or least lane; a NaN where there is one
#define FB_FOLD(name, better) \
    FB_INLINE quad name(quad a, quad b) { return ((a better b) | (a != a)) ? a : b; } \
    FB_INLINE float name(vf x) { \
        Quads u = {x}; \
        quad r = u.q[0]; \
        for (int i = 1; i < FB_W / 4; i++) r = name(r, u.q[i]); \
        r = name(r, __builtin_shufflevector(r, r, 2, 3, 2, 3)); \
        return name(r, __builtin_shufflevector(r, r, 1, 1, 1, 1))[0]; \
    }
FB_FOLD(fold_max, >)
FB_FOLD(fold_min, <)
#undef FB_FOLD

// shifts by a constant within the width
FB_INLINE vi shl_by(vi x, int n) { return (vi)((vu)x << n); }
FB_INLINE vi shr_by(vi x, int n) { return x >> n; }
FB_INLINE vl shl_by(vl x, int n) { return {(hl)((hul)x.lo << n), (hl)((hul)x.hi << n)}; }
FB_INLINE vl shr_by(vl x, int n) { return {x.lo >> n, x.hi >> n}; }

#endif
