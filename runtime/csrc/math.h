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
FB_INLINE vf look_up(vf low, vf high, vi index) { return __builtin_ia32_vpermi2varps512(low, index, high); }
FB_INLINE hd look_up(hd low, hd high, hl index) { return __builtin_ia32_vpermi2varpd512(low, index, high); }
#else
FB_INLINE vf look_up(vf table, vi index) { return __builtin_shuffle(table, index); }
// by the last five bits, and of doubles by the last four
FB_INLINE vf look_up(vf low, vf high, vi index) { return __builtin_shuffle(low, high, index); }
FB_INLINE hd look_up(hd low, hd high, hl index) { return __builtin_shuffle(low, high, index); }
#endif
// the exponent of the number's highest bit, -inf for 0; and its mantissa in [3/4, 3/2), NaN for negative numbers
FB_INLINE vf exponent_of(vf x) { return __builtin_ia32_getexpps512_mask(x, x, FB_ALL, 4); }
FB_INLINE vf mantissa_of(vf x) { return __builtin_ia32_getmantps512_mask(x, 11, x, FB_ALL, 4); }
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
#if FB_ISA == 512
// a polynomial around each multiple of 1/4 up to 31/4, coefficients taken from registers by the multiple's number; what is
// larger belongs to the last of them, and is 1 from 9.1 on; within 1.6 ulp
FB_INLINE vf v_tanh(vf x) {
    const vf low0 = {0.0f, 0.24491866f, 0.46211717f, 0.63514894f, 0.7615942f, 0.84828365f, 0.90514827f, 0.94137555f,
        0.9640276f, 0.9780261f, 0.9866143f, 0.99185973f, 0.9950548f, 0.99699765f, 0.9981779f, 0.99889445f};
    const vf high0 = {0.9993293f, 0.99959314f, 0.99975324f, 0.99985033f, 0.9999092f, 0.9999449f, 0.9999666f, 0.99997973f,
        0.9999877f, 0.99999255f, 0.99999547f, 0.99999726f, 0.99999833f, 0.999999f, 0.9999994f, 0.99999964f};
    const vf low1 = {1.0f, 0.940015f, 0.7864478f, 0.5965858f, 0.41997433f, 0.28041485f, 0.18070664f, 0.1138121f,
        0.07065082f, 0.043464918f, 0.026592227f, 0.016214287f, 0.009866037f, 0.005995715f, 0.0036408848f, 0.0022098923f};
    const vf high1 = {0.0013409507f, 0.0008135424f, 0.0004935174f, 0.0002993625f, 0.00018158324f, 0.000110139736f,
        6.680457e-05f, 4.0519553e-05f, 2.4576548e-05f, 1.4906502e-05f, 9.041277e-06f, 5.4838215e-06f, 3.3261094e-06f,
        2.0173886e-06f, 1.2236086e-06f, 7.4256076e-07f};
    const vf low2 = {0.0f, -0.23022005f, -0.36342573f, -0.37892073f, -0.31985196f, -0.23787294f, -0.16356705f,
        -0.10714013f, -0.068109326f, -0.04250975f, -0.026236195f, -0.01608224f, -0.009817208f, -0.005977688f,
        -0.0036342347f, -0.0022074392f};
    const vf high2 = {-0.0013400451f, -0.00081320765f, -0.00049339334f, -0.0002993163f, -0.00018156589f, -0.00011013315f,
        -6.680203e-05f, -4.0518542e-05f, -2.4576131e-05f, -1.4906321e-05f, -9.041193e-06f, -5.4837806e-06f,
        -3.3260883e-06f, -2.017377e-06f, -1.2236021e-06f, -7.392546e-07f};
    const vf low3 = {-0.3333277f, -0.25699127f, -0.09422265f, 0.041803624f, 0.10360541f, 0.10831275f, 0.08781747f,
        0.06292208f, 0.042109177f, 0.027087435f, 0.017020982f, 0.010546592f, 0.006479996f, 0.003961178f, 0.0024139895f,
        0.001468371f};
    const vf high3 = {0.0008921647f, 0.0005416971f, 0.00032876641f, 0.00019948439f, 0.00012102191f, 7.341399e-05f,
        4.4531695e-05f, 2.701126e-05f, 1.638368e-05f, 9.937396e-06f, 6.027406e-06f, 3.6558326e-06f, 2.217384e-06f,
        1.344915e-06f, 8.157335e-07f, 4.6780528e-07f};
    const vf low4 = {0.0f, 0.13818443f, 0.16358416f, 0.09972783f, 0.028121246f, -0.012257584f, -0.024809858f,
        -0.023476096f, -0.017894402f, -0.012338246f, -0.008063381f, -0.005111864f, -0.0031836715f, -0.0019619998f,
        -0.0012015115f, -0.0007330043f};
    const vf high4 = {-0.00044615797f, -0.00027118652f, -0.00016469581f, -9.9971425e-05f, -6.0664574e-05f,
        -3.6805533e-05f, -2.232759e-05f, -1.3543805e-05f, -8.215261e-06f, -4.9830023e-06f, -3.022415e-06f,
        -1.8332138e-06f, -1.11191e-06f, -6.7441107e-07f, -4.0905232e-07f, -1.836862e-07f};
    const vf low5 = {0.13216782f, 0.07421875f, -0.025636807f, -0.06338638f, -0.04631893f, -0.01937626f, -0.0027911148f,
        0.0036353923f, 0.0047616544f, 0.0039855125f, 0.0028598234f, 0.001906538f, 0.0012217637f, 0.00076557795f,
        0.0004734843f, 0.00029056903f};
    const vf high5 = {0.00017749032f, 0.00010811489f, 6.574507e-05f, 3.993903e-05f, 2.42473e-05f, 1.4715215e-05f,
        8.928351e-06f, 5.416467e-06f, 3.285676e-06f, 1.9930187e-06f, 1.2088841e-06f, 7.3324634e-07f, 4.4474413e-07f,
        2.697538e-07f, 1.63615e-07f, 3.3491652e-08f};
    // 1.5 * 2^21 has 1/4 for its last bit: the sum's low bits are the number of the nearest quarter
    vf a = raw_min(splat_f(9.1f), v_abs(x)), shifted = raw_min(splat_f(7.75f), a) + splat_f(3145728.f);
    vf t = a - (shifted - splat_f(3145728.f));
    vi k = as_i(shifted);
    vf r = v_fma(look_up(low5, high5, k), t, look_up(low4, high4, k));
    r = v_fma(r, t, look_up(low3, high3, k));
    r = v_fma(r, t, look_up(low2, high2, k));
    r = v_fma(r, t, look_up(low1, high1, k));
    r = v_fma(r, t, look_up(low0, high0, k));
    return with_sign(r, x);
}
#else
// -expm1(-2|x|) / (2 + expm1(-2|x|)): no cancellation, exactly 1 for large |x|; within 2 ulp
FB_INLINE vf v_tanh(vf x) {
    vf t = v_expm1(v_abs(x) * splat_f(-2.f));
    vf r = with_sign(-t / (t + splat_f(2.f)), x);
    return v_where(v_abs(x) < splat_f(1e-4f), x, r);
}
#endif

#if FB_ISA == 512
// ---- logarithms. x = 2^e m with m in [3/4, 3/2); m / c = 1 + r for one of sixteen c by the mantissa's first bits, which are 1
//      on both sides of 1. The logarithm of a c is a multiple of 2^-16 within 2e-10, so that e and it add without an error.
//      Gives 1 / c.
FB_INLINE vf log_parts(vf x, vf inverse, vf heads, vf& e, vf& head) {
    vf m = mantissa_of(x);
    vi k = as_i(m) >> 19;
    e = exponent_of(x) - exponent_of(m);
    head = look_up(heads, k);
    return look_up(inverse, k);
}
FB_INLINE vf natural_parts(vf x, vf& e, vf& head) {
    const vf inverse = {1.0f, 0.91786164f, 0.86289614f, 0.8212983f, 0.77943087f, 0.74152845f, 0.71087205f, 0.6792614f,
        1.3020586f, 1.2577115f, 1.2099724f, 1.1691363f, 1.1174376f, 1.0800376f, 1.0434434f, 1.0f};
    const vf heads = {0.0f, 0.08570862f, 0.14746094f, 0.1968689f, 0.24919128f, 0.29904175f, 0.34126282f, 0.38674927f,
        -0.26394653f, -0.22929382f, -0.19059753f, -0.15626526f, -0.11103821f, -0.07699585f, -0.042526245f, 0.0f};
    return log_parts(x, inverse, heads, e, head);
}
// log(1 + r) and the rest
FB_INLINE vf log_sum(vf e, vf head, vf r) {
    vf finite = raw_min(splat_f(150.f), raw_max(splat_f(-150.f), e));
    vf tail = v_fma(polynomial(r, 0.1885523f, -0.2500667f, 0.33334446f, -0.5f), r * r, finite * splat_f(-2.12194440e-4f));
    vf high = v_fma(finite, splat_f(0.693359375f), head), sum = high + r;
    return (sum + (tail + (r - (sum - high)))) + (e - finite);
}
FB_INLINE vf v_log(vf x) {
    vf e, head, inverse = natural_parts(x, e, head);
    vf r = v_fma(mantissa_of(x), inverse, splat_f(-1.f));
    return log_sum(e, head, r);
}
FB_INLINE vf v_log2(vf x) {
    const vf inverse = {1.0f, 0.9131231f, 0.86410356f, 0.8210868f, 0.7772629f, 0.74064225f, 0.7099244f, 0.6776938f,
        1.3009197f, 1.2590108f, 1.2124486f, 1.1593636f, 1.1270579f, 1.0779054f, 1.045777f, 1.0f};
    const vf heads = {0.0f, 0.13111877f, 0.21072388f, 0.2843933f, 0.3635254f, 0.43315125f, 0.4942627f, 0.56129456f,
        -0.37953186f, -0.33229065f, -0.27792358f, -0.21333313f, -0.17256165f, -0.10823059f, -0.064575195f, 0.0f};
    vf e, head, part = log_parts(x, inverse, heads, e, head), r = v_fma(mantissa_of(x), part, splat_f(-1.f));
    vf slope = splat_f(1.442695f), first = r * slope, high = e + head, sum = high + first;
    vf tail = v_fma(polynomial(r, 0.2712075f, -0.36077303f, 0.48091865f, -0.7213476f, 1.92596e-08f), r, v_fma(r, slope, -first));
    vf lost = first - (sum - high); // NaN where the sum is infinite
    return sum + v_where(lost == lost, tail + lost, splat_f(0.f));
}
FB_INLINE vf log_of_normal(vf x) { return v_log(x); }
// u = 1 + x rounded; what rounding lost of x joins r
FB_INLINE vf v_log1p(vf x) {
    vf u = splat_f(1.f) + x, lost = x - (u - splat_f(1.f));
    vf e, head, inverse = natural_parts(u, e, head);
    vf part = v_scale(lost * inverse, -e); // NaN where u is 0 or infinite
    vf r = v_fma(mantissa_of(u), inverse, splat_f(-1.f)) + v_where(part == part, part, splat_f(0.f));
    return with_sign(log_sum(e, head, r), x);
}
#else
// ---- logarithms. x = 2^e m with m in [sqrt(1/2), sqrt(2)); log(1 + f) = f - f^2/2 + f^3 Q(f)
FB_INLINE vi split_normal(vi bits, vf& f) {
    vi exponent = (bits - splat_i(0x3f3504f3)) >> 23;
    f = as_f(bits - (exponent << 23)) - splat_f(1.f);
    return exponent;
}
FB_INLINE void split_log(vf x, vf& e, vf& f) {
    vi tiny = x < splat_f(1.17549435e-38f);
    vi exponent = split_normal(as_i(v_where(tiny, x * splat_f(8388608.f), x)), f);
    e = __builtin_convertvector(exponent - (tiny & splat_i(23)), vf);
}
FB_INLINE vf log_tail(vf f) {
    vf q = polynomial(f, -0.0785954595f, 0.128816217f, -0.131287679f, 0.141811967f, -0.166245535f, 0.200022861f,
        -0.250008106f, 0.333333164f);
    return v_fma(q * f, f * f, splat_f(-0.5f) * f * f);
}
// what is no positive finite number: chosen beside the polynomial, not behind it
FB_INLINE vf log_special(vf x, vf r) {
    vf edge = v_where(x == splat_f(0.f), splat_f(-__builtin_inff()), v_where(x < splat_f(0.f), splat_f(__builtin_nanf("")), x));
    return v_where((x > splat_f(0.f)) & (x < splat_f(__builtin_inff())), r, edge);
}
FB_INLINE vf joined_log(vf e, vf f) {
    return v_fma(e, splat_f(0.693359375f), f + v_fma(e, splat_f(-2.12194440e-4f), log_tail(f)));
}
FB_INLINE vf v_log(vf x) {
    vf e, f;
    split_log(x, e, f);
    return log_special(x, joined_log(e, f));
}
// the same for positive normal numbers alone
FB_INLINE vf log_of_normal(vf x) {
    vf f;
    vi exponent = split_normal(as_i(x), f);
    return joined_log(__builtin_convertvector(exponent, vf), f);
}
FB_INLINE vf v_log2(vf x) {
    vf e, f;
    split_log(x, e, f);
    vf tail = log_tail(f), log2e_low = splat_f(0.44269504f); // log2(e) - 1
    vf r = v_fma(tail, log2e_low, f * log2e_low);
    return log_special(x, ((r + tail) + f) + e);
}
// log(u) with u = 1 + x rounded, mended by the part of x that rounding lost; u is no denormal number
FB_INLINE vf v_log1p(vf x) {
    vf f, u = splat_f(1.f) + x, c = (x - (u - splat_f(1.f))) / u; // NaN where u is 0 or infinite
    vi exponent = split_normal(as_i(u), f);
    vf r = joined_log(__builtin_convertvector(exponent, vf), f) + v_where(c == c, c, splat_f(0.f));
    return v_where(v_abs(x) < splat_f(1e-5f), v_fma(x * splat_f(-0.5f), x, x), log_special(u, r));
}
#endif

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
FB_INLINE vf near_cos(vf x) {
    vi quadrant;
    vf s, c;
    sin_cos(x, quadrant, s, c);
    return quarter(quadrant + 1, s, c);
}
FB_INLINE vf v_cos(vf x) { return is_far(x) ? far_cos(x) : near_cos(x); }
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
#if FB_ISA == 512
// 2^w of doubles below 2^47: a table of 2^(j/16) and a polynomial for the rest; within 1.2e-9, or 5e-15 where it is exact
template <bool exact> FB_INLINE hd short_exp2(hd w) {
    const hd low = {1.0, 1.0442737824274138, 1.0905077326652577, 1.1387886347566916, 1.189207115002721, 1.241857812073484,
        1.2968395546510096, 1.3542555469368927};
    const hd high = {1.4142135623730951, 1.4768261459394993, 1.5422108254079407, 1.6104903319492543, 1.681792830507429,
        1.7562521603732995, 1.8340080864093424, 1.9152065613971474};
    const hd whole = splat_hd(422212465065984.0); // 1.5 * 2^48: a double there has four bits behind the point
    hd t = w + whole, n = t - whole, r = w - n, q;
    if constexpr (exact)
        q = poly(r, splat_hd(0.0013335404777899385), 0.009618352588149718, 0.05550410847262469, 0.24022650687846972,
            0.6931471805599859, 1.0);
    else
        q = poly(r, splat_hd(0.05550606184907727), 0.24023589980009477, 0.6931471799241461, 0.999999998853409);
    return v_scale(look_up(low, high, (hl)t) * q, n);
}
// y log2(x) = y (e + log2 c + log2(1 + r)) with x = 2^e m, m in [0.7, 1.4), m / c = 1 + r
FB_INLINE hd short_power(hf m, hf head, hi index, hf y) {
    const hd low = {1.39890569234606, 1.3403194616736702, 1.2864298631770335, 1.2367197010415376, 1.1906922162836242,
        1.1479793411072043, 1.108227747596218, 1.0711320536451703};
    const hd high = {1.0364393833342704, 1.0, 0.9481500231003219, 0.8951079996468653, 0.8476829529727593, 0.8050322754903957,
        0.7664706693566655, 0.7314252559726621};
    hd inverse = look_up(low, high, wide_l(index));
    hd r = v_fma(wide_d(m), inverse, splat_hd(-1.0));
    hd slope = poly(r, splat_hd(-0.24076619715896974), 0.28881066694348123, -0.3606735948828375, 0.48089825749078663,
        -0.7213475204674071, 1.4426950408933272);
    return short_exp2<false>(wide_d(y) * v_fma(r, slope, wide_d(head)));
}
// the lanes of a mask by the C library
FB_RARE vf far_pow(vf r, vf x, vf y, vi far) {
    FB_LANES if (far[l]) r[l] = y[l] == 0.f ? 1.f : __builtin_powf(x[l], y[l]);
    return r;
}
FB_INLINE vf v_pow(vf x, vf y) {
    const vf heads = {-0.4842987f, -0.4225769f, -0.3633728f, -0.30651855f, -0.25180054f, -0.19909668f, -0.1482544f,
        -0.09913635f, -0.051635742f, 0.0f, 0.076812744f, 0.15986633f, 0.23840332f, 0.31288147f, 0.3836975f, 0.45121765f};
    vu past = (vu)as_i(x) - 0x00800000u; // at 0x7f000000 and beyond: no positive normal number
    vi far = (vi)(past >= 0x7f000000u) | ((as_i(y) & splat_i(0x7fffffff)) > splat_i(0x4e800000));
    vi from = as_i(x) - splat_i(0x3f330000), index = from >> 19, whole = from & splat_i((int)0xff800000);
    vf m = as_f(as_i(x) - whole), head = __builtin_convertvector(whole >> 23, vf) + look_up(heads, index);
    hd lo = short_power(first(m), first(head), first(index), first(y));
    hd hi_ = short_power(second(m), second(head), second(index), second(y));
    vf r = both(__builtin_convertvector(lo, hf), __builtin_convertvector(hi_, hf));
    return any_lane(far) ? far_pow(r, x, y, far) : r;
}
// the power of a base of 2; NaN stays, which the bounds leave alone
FB_INLINE vf v_pow_of_2(vf y) {
    y = raw_min(splat_f(129.f), raw_max(splat_f(-152.f), y));
    hd lo = short_exp2<true>(wide_d(first(y))), hi_ = short_exp2<true>(wide_d(second(y)));
    return both(__builtin_convertvector(lo, hf), __builtin_convertvector(hi_, hf));
}
#else
FB_INLINE vf v_pow(vf x, vf y) {
    vi plain = (x >= splat_f(1.17549435e-38f)) & (x <= splat_f(3.40282347e38f)) & (v_abs(y) <= splat_f(3.40282347e38f));
    if (any_lane(~plain)) return far_pow(x, y);
    hd lo = half_pow(wide_d(first(x)), wide_d(first(y)));
    hd hi_ = half_pow(wide_d(second(x)), wide_d(second(y)));
    return both(__builtin_convertvector(lo, hf), __builtin_convertvector(hi_, hf));
}
// The power of a base of 2: of the fraction by a polynomial in doubles, within 1e-12; the whole number goes into the exponent's
// bits of the double, so that the float is rounded once, denormals too. NaN stays, which the bounds leave alone.
FB_INLINE hf half_pow_of_2(hf fraction, hi whole) {
    hd q = poly(wide_d(fraction), splat_hd(1.31789342214402e-06), 1.5309156528492233e-05, 0.00015403825462735783,
        0.0013333454859007013, 0.009618128616115787, 0.05550410935268196, 0.24022650698110698, 0.6931471805482122, 1.0);
    return __builtin_convertvector((hd)((hl)q + (wide_l(whole) << 52)), hf);
}
FB_INLINE vf v_pow_of_2(vf y) {
    y = raw_min(splat_f(129.f), raw_max(splat_f(-152.f), y));
    vf n = v_round(y), fraction = y - n;
    vi whole = __builtin_convertvector(n, vi);
    return both(half_pow_of_2(first(fraction), first(whole)), half_pow_of_2(second(fraction), second(whole)));
}
#endif

// ---- inverse trigonometry; pi / 2 in two parts, of which the second is -4.37e-8
FB_INLINE vf atan_to_1(vf t) { // t in [0, 1]
    vf z = t * t;
    vf p = polynomial(z, -0.00179359387f, 0.0109144812f, -0.0311776139f, 0.0579573587f, -0.0840343684f, 0.109521814f,
        -0.142642409f, 0.199985489f, -0.333332986f);
    return v_fma(p * z, t, t);
}
FB_INLINE vf quarter_less(vf angle) { return splat_f(1.57079637f) - (angle + splat_f(4.37113883e-8f)); }
FB_INLINE vf half_less(vf angle) { return splat_f(3.14159274f) - (angle + splat_f(8.74227766e-8f)); }
// within 2 ulp
FB_INLINE vf v_atan(vf x) {
    vf a = v_abs(x), one = splat_f(1.f);
    vi steep = a > one;
    vf y = atan_to_1(v_where(steep, one / a, a));
    return with_sign(v_where(steep, quarter_less(y), y), x);
}
// the angle of the point (x, y); within 2 ulp
FB_INLINE vf v_atan2(vf y, vf x) {
    vf rise = v_abs(y), run = v_abs(x), zero = splat_f(0.f);
    vi steep = rise > run, negative = as_i(x) < 0;
    vf low = v_where(steep, run, rise), high = v_where(steep, rise, run);
    vf t = v_where(low == high, v_where(high == zero, zero, splat_f(1.f)), low / high); // 0 / 0 is 0, inf / inf is 1
    vf r = atan_to_1(t); // past a quarter turn it is added to that, which is exact at -0.0
    r = v_where(steep, quarter_less(v_where(negative, -r, r)), v_where(negative, half_less(r), r));
    return with_sign(r, y);
}
// x + x z P(z) with z = x^2 up to 1/2; beyond, asin a = pi/2 - 2 asin sqrt((1 - a) / 2), of which this is asin sqrt(..)
FB_INLINE vf asin_part(vf a, vi& large) {
    large = a > splat_f(0.5f);
    vf z = v_where(large, (splat_f(1.f) - a) * splat_f(0.5f), a * a), s = v_where(large, v_sqrt(z), a);
    vf p = polynomial(z, 0.0422185473f, 0.0241476111f, 0.045477096f, 0.0749524161f, 0.166667536f);
    return v_fma(p * z, s, s);
}
// within 2.4 ulp
FB_INLINE vf v_asin(vf x) {
    vi large;
    vf part = asin_part(v_abs(x), large);
    return with_sign(v_where(large, quarter_less(part + part), part), x);
}
FB_INLINE vf v_acos(vf x) {
    vi large, negative = as_i(x) < 0;
    vf part = asin_part(v_abs(x), large), twice = part + part;
    return v_where(large, v_where(negative, half_less(twice), twice), quarter_less(with_sign(part, x)));
}

FB_EACH(vd, exp, __builtin_exp)
FB_EACH(vd, expm1, __builtin_expm1) FB_EACH(vd, log, __builtin_log) FB_EACH(vd, log2, __builtin_log2)
    FB_EACH(vd, log1p, __builtin_log1p) FB_EACH(vd, tanh, __builtin_tanh) FB_EACH(vd, erf, __builtin_erf)
        FB_EACH(vd, sin, __builtin_sin) FB_EACH(vd, cos, __builtin_cos) FB_EACH(vd, tan, __builtin_tan)
            FB_EACH2(vd, pow, __builtin_pow) FB_EACH(vd, atan, __builtin_atan) FB_EACH(vd, asin, __builtin_asin)
                FB_EACH(vd, acos, __builtin_acos) FB_EACH2(vd, atan2, __builtin_atan2)

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
FB_INLINE vd to_d(vf x) { return {wide_d(first(x)), wide_d(second(x))}; }
FB_INLINE vd to_d(vi x) { return {wide_d(first(x)), wide_d(second(x))}; }
FB_INLINE vd to_d(vl x) { return {__builtin_convertvector(x.lo, hd), __builtin_convertvector(x.hi, hd)}; }
FB_INLINE vl to_l(vl x) { return x; }
FB_INLINE vl to_l(vi x) { return {widen_first(x), widen_second(x)}; }
FB_INLINE vl to_l(vf x) { return {wide_l(first(x)), wide_l(second(x))}; }
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
