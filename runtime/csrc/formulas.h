// The formulas of op records that have a native map; made by `python -m flambeau.inductor.tools.formulas`, not by hand.
//
// a, b: the operands (b of a map of two); f: the record's parameters.
#ifndef FB_FORMULAS_H
#define FB_FORMULAS_H

// losses.py: bent_line(x, target, bound, rise, height)
FB_INLINE vf formula_bent_line(vf a, vf b, const vf (&f)[4]) {
    const vf v5 = a - b;
    const vf v6 = v_abs(v5);
    const vi v7 = v6 < f[0];
    const vf v8 = v5 * f[1];
    const vi v9 = v5 == v5;
    const vf v10 = v_sign(v5);
    const vf v11 = v10 * f[2];
    const vf v12 = v_where(v9, v11, v5);
    const vf v13 = v_where(v7, v8, v12);
    return v13;
}
FB_INLINE vd formula_bent_line(vd a, vd b, const vd (&f)[4]) {
    const vd v5 = a - b;
    const vd v6 = v_abs(v5);
    const vi v7 = v6 < f[0];
    const vd v8 = v5 * f[1];
    const vi v9 = v5 == v5;
    const vd v10 = v_sign(v5);
    const vd v11 = v10 * f[2];
    const vd v12 = v_where(v9, v11, v5);
    const vd v13 = v_where(v7, v8, v12);
    return v13;
}
// losses.py: bent_square(x, target, bound, half, width, slope)
FB_INLINE vf formula_bent_square(vf a, vf b, const vf (&f)[4]) {
    const vf v6 = a - b;
    const vf v7 = v_abs(v6);
    const vi v8 = v7 < f[0];
    const vf v9 = v7 * v7;
    const vf v11 = v9 * splat_f(0.5f);
    const vf v12 = v11 / f[2];
    const vf v13 = v7 - f[1];
    const vf v14 = v13 * f[3];
    const vf v15 = v_where(v8, v12, v14);
    return v15;
}
FB_INLINE vd formula_bent_square(vd a, vd b, const vd (&f)[4]) {
    const vd v6 = a - b;
    const vd v7 = v_abs(v6);
    const vi v8 = v7 < f[0];
    const vd v9 = v7 * v7;
    const vd v11 = v9 * splat_d(0.5);
    const vd v12 = v11 / f[2];
    const vd v13 = v7 - f[1];
    const vd v14 = v13 * f[3];
    const vd v15 = v_where(v8, v12, v14);
    return v15;
}
// activations.py: elu(x, alpha, scale, input_scale)
FB_INLINE vf formula_elu(vf a, vf b, const vf (&f)[4]) {
    const vi v5 = a > splat_f(0.0f);
    const vf v6 = a * f[1];
    const vf v7 = v_minimum(a, splat_f(0.0f));
    const vf v8 = v7 * f[2];
    const vf v9 = v_expm1(v8);
    const vf v10 = f[0] * f[1];
    const vf v11 = v9 * v10;
    const vf v12 = v_where(v5, v6, v11);
    return v12;
}
// activations.py: gelu(x)
FB_INLINE vf formula_gelu(vf a, vf b, const vf (&f)[4]) {
    const vf v2 = a * splat_f(0.5f);
    const vf v4 = a * splat_f(0.70710677f);
    const vf v5 = v_erf(v4);
    const vf v7 = splat_f(1.0f) + v5;
    const vf v8 = v2 * v7;
    return v8;
}
// activations.py: gelu_backward(g, x)
FB_INLINE vf formula_gelu_backward(vf a, vf b, const vf (&f)[4]) {
    const vf v3 = b * splat_f(0.70710677f);
    const vf v4 = v_erf(v3);
    const vf v6 = splat_f(1.0f) + v4;
    const vf v8 = splat_f(0.5f) * v6;
    const vf v9 = b * b;
    const vf v11 = v9 * splat_f(-0.5f);
    const vf v12 = v_exp(v11);
    const vf v14 = v12 * splat_f(0.3989423f);
    const vf v15 = b * v14;
    const vf v16 = v8 + v15;
    const vf v17 = a * v16;
    return v17;
}
// activations.py: gelu_tanh(x)
FB_INLINE vf formula_gelu_tanh(vf a, vf b, const vf (&f)[4]) {
    const vf v1 = a * a;
    const vf v2 = v1 * a;
    const vf v4 = v2 * splat_f(0.044715f);
    const vf v5 = a + v4;
    const vf v7 = v5 * splat_f(0.7978846f);
    const vf v9 = a * splat_f(0.5f);
    const vf v10 = v_tanh(v7);
    const vf v12 = splat_f(1.0f) + v10;
    const vf v13 = v9 * v12;
    return v13;
}
// activations.py: gelu_tanh_backward(g, x)
FB_INLINE vf formula_gelu_tanh_backward(vf a, vf b, const vf (&f)[4]) {
    const vf v2 = b * b;
    const vf v3 = b * v2;
    const vf v5 = v3 * splat_f(0.044715f);
    const vf v6 = b + v5;
    const vf v8 = v6 * splat_f(0.7978846f);
    const vf v10 = v2 * splat_f(0.134145f);
    const vf v12 = splat_f(1.0f) + v10;
    const vf v13 = v12 * splat_f(0.7978846f);
    const vf v14 = v_abs(v8);
    const vf v16 = splat_f(-2.0f) * v14;
    const vf v17 = v_exp(v16);
    const vf v18 = splat_f(1.0f) + v17;
    const vf v19 = splat_f(1.0f) / v18;
    const vi v21 = v8 > splat_f(0.0f);
    const vf v22 = v17 * v19;
    const vf v23 = v_where(v21, v19, v22);
    const vf v25 = splat_f(2.0f) * v22;
    const vf v26 = v25 * v19;
    const vf v27 = b * v26;
    const vf v28 = v27 * v13;
    const vf v29 = v23 + v28;
    const vf v30 = a * v29;
    return v30;
}
// shrink.py: hardshrink(x, lambd)
FB_INLINE vf formula_hardshrink(vf a, vf b, const vf (&f)[4]) {
    const vf v2 = v_abs(a);
    const vi v3 = v2 <= f[0];
    const vf v5 = a * splat_f(0.0f);
    const vf v6 = v_where(v3, v5, a);
    return v6;
}
FB_INLINE vd formula_hardshrink(vd a, vd b, const vd (&f)[4]) {
    const vd v2 = v_abs(a);
    const vi v3 = v2 <= f[0];
    const vd v5 = a * splat_d(0.0);
    const vd v6 = v_where(v3, v5, a);
    return v6;
}
// activations.py: hardsigmoid(x)
FB_INLINE vf formula_hardsigmoid(vf a, vf b, const vf (&f)[4]) {
    const vf v2 = a + splat_f(3.0f);
    const vf v4 = v_maximum(v2, splat_f(0.0f));
    const vf v6 = v_minimum(v4, splat_f(6.0f));
    const vf v7 = v6 / splat_f(6.0f);
    return v7;
}
FB_INLINE vd formula_hardsigmoid(vd a, vd b, const vd (&f)[4]) {
    const vd v2 = a + splat_d(3.0);
    const vd v4 = v_maximum(v2, splat_d(0.0));
    const vd v6 = v_minimum(v4, splat_d(6.0));
    const vd v7 = v6 / splat_d(6.0);
    return v7;
}
// activations.py: hardswish(x)
FB_INLINE vf formula_hardswish(vf a, vf b, const vf (&f)[4]) {
    const vf v2 = a + splat_f(3.0f);
    const vf v4 = v_maximum(v2, splat_f(0.0f));
    const vf v6 = v_minimum(v4, splat_f(6.0f));
    const vf v7 = a * v6;
    const vf v8 = v7 / splat_f(6.0f);
    return v8;
}
FB_INLINE vd formula_hardswish(vd a, vd b, const vd (&f)[4]) {
    const vd v2 = a + splat_d(3.0);
    const vd v4 = v_maximum(v2, splat_d(0.0));
    const vd v6 = v_minimum(v4, splat_d(6.0));
    const vd v7 = a * v6;
    const vd v8 = v7 / splat_d(6.0);
    return v8;
}
// activations.py: hardswish_backward(g, x)
FB_INLINE vf formula_hardswish_backward(vf a, vf b, const vf (&f)[4]) {
    const vi v3 = b <= splat_f(-3.0f);
    const vi v5 = b < splat_f(3.0f);
    const vf v6 = b / splat_f(3.0f);
    const vf v8 = v6 + splat_f(0.5f);
    const vf v9 = a * v8;
    const vf v10 = v_where(v5, v9, a);
    const vf v12 = v_where(v3, splat_f(0.0f), v10);
    return v12;
}
FB_INLINE vd formula_hardswish_backward(vd a, vd b, const vd (&f)[4]) {
    const vi v3 = b <= splat_d(-3.0);
    const vi v5 = b < splat_d(3.0);
    const vd v6 = b / splat_d(3.0);
    const vd v8 = v6 + splat_d(0.5);
    const vd v9 = a * v8;
    const vd v10 = v_where(v5, v9, a);
    const vd v12 = v_where(v3, splat_d(0.0), v10);
    return v12;
}
// activations.py: hardtanh(x, low, high)
FB_INLINE vf formula_hardtanh(vf a, vf b, const vf (&f)[4]) {
    const vf v3 = v_maximum(a, f[0]);
    const vf v4 = v_minimum(v3, f[1]);
    return v4;
}
FB_INLINE vd formula_hardtanh(vd a, vd b, const vd (&f)[4]) {
    const vd v3 = v_maximum(a, f[0]);
    const vd v4 = v_minimum(v3, f[1]);
    return v4;
}
// activations.py: leaky_relu(x, slope)
FB_INLINE vf formula_leaky_relu(vf a, vf b, const vf (&f)[4]) {
    const vi v3 = a > splat_f(0.0f);
    const vf v4 = a * f[0];
    const vf v5 = v_where(v3, a, v4);
    return v5;
}
FB_INLINE vd formula_leaky_relu(vd a, vd b, const vd (&f)[4]) {
    const vi v3 = a > splat_d(0.0);
    const vd v4 = a * f[0];
    const vd v5 = v_where(v3, a, v4);
    return v5;
}
// activations.py: log_sigmoid(x)
FB_INLINE vf formula_log_sigmoid(vf a, vf b, const vf (&f)[4]) {
    const vf v2 = v_minimum(a, splat_f(0.0f));
    const vf v3 = v_abs(a);
    const vf v4 = -v3;
    const vf v5 = v_exp(v4);
    const vf v6 = v_log1p(v5);
    const vf v7 = v2 - v6;
    return v7;
}
// activations.py: relu(x)
FB_INLINE vf formula_relu(vf a, vf b, const vf (&f)[4]) {
    const vf v2 = v_maximum(a, splat_f(0.0f));
    return v2;
}
FB_INLINE vd formula_relu(vd a, vd b, const vd (&f)[4]) {
    const vd v2 = v_maximum(a, splat_d(0.0));
    return v2;
}
// elementary.py: sigmoid(x)
FB_INLINE vf formula_sigmoid(vf a, vf b, const vf (&f)[4]) {
    const vf v1 = -a;
    const vf v2 = v_exp(v1);
    const vf v4 = splat_f(1.0f) + v2;
    const vf v5 = splat_f(1.0f) / v4;
    return v5;
}
// activations.py: silu(x)
FB_INLINE vf formula_silu(vf a, vf b, const vf (&f)[4]) {
    const vf v1 = -a;
    const vf v2 = v_exp(v1);
    const vf v4 = splat_f(1.0f) + v2;
    const vf v5 = a / v4;
    return v5;
}
// activations.py: silu_backward(g, x)
FB_INLINE vf formula_silu_backward(vf a, vf b, const vf (&f)[4]) {
    const vf v2 = -b;
    const vf v3 = v_exp(v2);
    const vf v5 = splat_f(1.0f) + v3;
    const vf v6 = splat_f(1.0f) / v5;
    const vf v7 = splat_f(1.0f) - v6;
    const vf v8 = b * v7;
    const vf v9 = splat_f(1.0f) + v8;
    const vf v10 = v6 * v9;
    const vf v11 = a * v10;
    return v11;
}
// activations.py: softplus(x, beta, threshold)
FB_INLINE vf formula_softplus(vf a, vf b, const vf (&f)[4]) {
    const vf v3 = a * f[0];
    const vi v4 = v3 > f[1];
    const vf v5 = v_minimum(v3, f[1]);
    const vf v6 = v_exp(v5);
    const vf v7 = v_log1p(v6);
    const vf v8 = v7 / f[0];
    const vf v9 = v_where(v4, a, v8);
    return v9;
}
// shrink.py: softshrink(x, lambd)
FB_INLINE vf formula_softshrink(vf a, vf b, const vf (&f)[4]) {
    const vi v2 = a > f[0];
    const vf v3 = a - f[0];
    const vf v4 = -a;
    const vi v5 = v4 > f[0];
    const vf v6 = a + f[0];
    const vf v8 = a * splat_f(0.0f);
    const vf v9 = v_where(v5, v6, v8);
    const vf v10 = v_where(v2, v3, v9);
    return v10;
}
FB_INLINE vd formula_softshrink(vd a, vd b, const vd (&f)[4]) {
    const vi v2 = a > f[0];
    const vd v3 = a - f[0];
    const vd v4 = -a;
    const vi v5 = v4 > f[0];
    const vd v6 = a + f[0];
    const vd v8 = a * splat_d(0.0);
    const vd v9 = v_where(v5, v6, v8);
    const vd v10 = v_where(v2, v3, v9);
    return v10;
}
// activations.py: threshold(x, limit, value)
FB_INLINE vf formula_threshold(vf a, vf b, const vf (&f)[4]) {
    const vi v3 = a <= f[0];
    const vf v4 = v_where(v3, f[1], a);
    return v4;
}
FB_INLINE vd formula_threshold(vd a, vd b, const vd (&f)[4]) {
    const vi v3 = a <= f[0];
    const vd v4 = v_where(v3, f[1], a);
    return v4;
}

enum FormulaOf { FORMULA_BENT_LINE, FORMULA_BENT_SQUARE, FORMULA_ELU, FORMULA_GELU, FORMULA_GELU_BACKWARD, FORMULA_GELU_TANH, FORMULA_GELU_TANH_BACKWARD, FORMULA_HARDSHRINK, FORMULA_HARDSIGMOID, FORMULA_HARDSWISH, FORMULA_HARDSWISH_BACKWARD, FORMULA_HARDTANH, FORMULA_LEAKY_RELU, FORMULA_LOG_SIGMOID, FORMULA_RELU, FORMULA_SIGMOID, FORMULA_SILU, FORMULA_SILU_BACKWARD, FORMULA_SOFTPLUS, FORMULA_SOFTSHRINK, FORMULA_THRESHOLD };
FB_INLINE constexpr bool formula_of_two(int kind) {
    return kind == FORMULA_BENT_LINE || kind == FORMULA_BENT_SQUARE || kind == FORMULA_GELU_BACKWARD || kind == FORMULA_GELU_TANH_BACKWARD || kind == FORMULA_HARDSWISH_BACKWARD || kind == FORMULA_SILU_BACKWARD;
}
template <int kind, class V> FB_INLINE V formula(V a, V b, const V (&f)[4]) {
    if constexpr (kind == FORMULA_BENT_LINE) return formula_bent_line(a, b, f);
    if constexpr (kind == FORMULA_BENT_SQUARE) return formula_bent_square(a, b, f);
    if constexpr (kind == FORMULA_ELU) return formula_elu(a, b, f);
    if constexpr (kind == FORMULA_GELU) return formula_gelu(a, b, f);
    if constexpr (kind == FORMULA_GELU_BACKWARD) return formula_gelu_backward(a, b, f);
    if constexpr (kind == FORMULA_GELU_TANH) return formula_gelu_tanh(a, b, f);
    if constexpr (kind == FORMULA_GELU_TANH_BACKWARD) return formula_gelu_tanh_backward(a, b, f);
    if constexpr (kind == FORMULA_HARDSHRINK) return formula_hardshrink(a, b, f);
    if constexpr (kind == FORMULA_HARDSIGMOID) return formula_hardsigmoid(a, b, f);
    if constexpr (kind == FORMULA_HARDSWISH) return formula_hardswish(a, b, f);
    if constexpr (kind == FORMULA_HARDSWISH_BACKWARD) return formula_hardswish_backward(a, b, f);
    if constexpr (kind == FORMULA_HARDTANH) return formula_hardtanh(a, b, f);
    if constexpr (kind == FORMULA_LEAKY_RELU) return formula_leaky_relu(a, b, f);
    if constexpr (kind == FORMULA_LOG_SIGMOID) return formula_log_sigmoid(a, b, f);
    if constexpr (kind == FORMULA_RELU) return formula_relu(a, b, f);
    if constexpr (kind == FORMULA_SIGMOID) return formula_sigmoid(a, b, f);
    if constexpr (kind == FORMULA_SILU) return formula_silu(a, b, f);
    if constexpr (kind == FORMULA_SILU_BACKWARD) return formula_silu_backward(a, b, f);
    if constexpr (kind == FORMULA_SOFTPLUS) return formula_softplus(a, b, f);
    if constexpr (kind == FORMULA_SOFTSHRINK) return formula_softshrink(a, b, f);
    if constexpr (kind == FORMULA_THRESHOLD) return formula_threshold(a, b, f);
}

#define FB_FORMULA_JOBS \
    {"bent_line", FB_ALL_TYPES_OF(map_formula, FORMULA_BENT_LINE)}, \
    {"bent_square", FB_ALL_TYPES_OF(map_formula, FORMULA_BENT_SQUARE)}, \
    {"elu", FB_SINGLE_TYPES_OF(map_formula, FORMULA_ELU)}, \
    {"gelu", FB_SINGLE_TYPES_OF(map_formula, FORMULA_GELU)}, \
    {"gelu_backward", FB_SINGLE_TYPES_OF(map_formula, FORMULA_GELU_BACKWARD)}, \
    {"gelu_tanh", FB_SINGLE_TYPES_OF(map_formula, FORMULA_GELU_TANH)}, \
    {"gelu_tanh_backward", FB_SINGLE_TYPES_OF(map_formula, FORMULA_GELU_TANH_BACKWARD)}, \
    {"hardshrink", FB_ALL_TYPES_OF(map_formula, FORMULA_HARDSHRINK)}, \
    {"hardsigmoid", FB_ALL_TYPES_OF(map_formula, FORMULA_HARDSIGMOID)}, \
    {"hardswish", FB_ALL_TYPES_OF(map_formula, FORMULA_HARDSWISH)}, \
    {"hardswish_backward", FB_ALL_TYPES_OF(map_formula, FORMULA_HARDSWISH_BACKWARD)}, \
    {"hardtanh", FB_ALL_TYPES_OF(map_formula, FORMULA_HARDTANH)}, \
    {"leaky_relu", FB_ALL_TYPES_OF(map_formula, FORMULA_LEAKY_RELU)}, \
    {"log_sigmoid", FB_SINGLE_TYPES_OF(map_formula, FORMULA_LOG_SIGMOID)}, \
    {"relu", FB_ALL_TYPES_OF(map_formula, FORMULA_RELU)}, \
    {"sigmoid", FB_SINGLE_TYPES_OF(map_formula, FORMULA_SIGMOID)}, \
    {"silu", FB_SINGLE_TYPES_OF(map_formula, FORMULA_SILU)}, \
    {"silu_backward", FB_SINGLE_TYPES_OF(map_formula, FORMULA_SILU_BACKWARD)}, \
    {"softplus", FB_SINGLE_TYPES_OF(map_formula, FORMULA_SOFTPLUS)}, \
    {"softshrink", FB_ALL_TYPES_OF(map_formula, FORMULA_SOFTSHRINK)}, \
    {"threshold", FB_ALL_TYPES_OF(map_formula, FORMULA_THRESHOLD)},

#endif
