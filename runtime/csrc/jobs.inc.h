// The jobs of one instruction set; each jobs_*.cpp sets FB_ISA and the compiler's target, then includes this.
#include "job.h"

namespace {
#include "attention.h"
#include "elementwise.h"
#include "batch_norm.h"
#include "ctc.h"
#include "grid_sample.h"
#include "margin_losses.h"
#include "small_factors.h"
#include "gather_scatter.h"
#include "sort.h"
#include "pairwise_distances.h"
#include "roi_ops.h"
#include "recurrent.h"
#include "reduce.h"
#include "softmax_norm.h"
#include "cumulative.h"
#include "special.h"
#include "optimizer_steps.h"
#include "gemm_int.h"
#include "pooling.h"

}

#define FB_ALL_TYPES(f) { f<float>, f<double>, f<bf16>, f<f16> }
#define FB_WHOLE_TYPES(f) { f<float>, f<double>, nullptr, nullptr }
#define FB_ALL_TYPES_OF(f, ...) { f<float, __VA_ARGS__>, f<double, __VA_ARGS__>, f<bf16, __VA_ARGS__>, f<f16, __VA_ARGS__> }
// types that compute in float: the C library is as fast for doubles
#define FB_SINGLE_TYPES_OF(f, ...) { f<float, __VA_ARGS__>, nullptr, f<bf16, __VA_ARGS__>, f<f16, __VA_ARGS__> }
#define FB_FLOATS_OF(f, ...) { f<float, __VA_ARGS__>, nullptr, nullptr, nullptr }
#define FB_HALVES_OF(f, ...) { nullptr, nullptr, f<bf16, __VA_ARGS__>, f<f16, __VA_ARGS__> }
#define FB_SINGLE_TYPES(f) { f<float>, nullptr, f<bf16>, f<f16> }
// `move` and `take_elements` go by the size of an element: 4, 8, 2 and 1 bytes
#define FB_SIZES(f) { f<u32>, f<u64>, f<u16>, f<u8> }

#define FB_JOB_TABLE \
    {"softmax_rows", FB_ALL_TYPES(softmax_rows)}, \
    {"log_softmax_rows", FB_ALL_TYPES(log_softmax_rows)}, \
    {"softmax_back_rows", FB_ALL_TYPES(softmax_back_rows)}, \
    {"log_softmax_back_rows", FB_ALL_TYPES(log_softmax_back_rows)}, \
    {"softmax_columns", FB_ALL_TYPES_OF(softmax_columns, false)}, \
    {"log_softmax_columns", FB_ALL_TYPES_OF(softmax_columns, true)}, \
    {"softmax_back_columns", FB_ALL_TYPES_OF(softmax_back_columns, false)}, \
    {"log_softmax_back_columns", FB_ALL_TYPES_OF(softmax_back_columns, true)}, \
    {"layer_norm_rows", FB_ALL_TYPES(layer_norm_rows)}, \
    {"rms_norm_rows", FB_ALL_TYPES(rms_norm_rows)}, \
    {"norm_back_rows", FB_ALL_TYPES(norm_back_rows)}, \
    {"norm_weight_rows", FB_ALL_TYPES(norm_weight_rows)}, \
    {"cross_entropy_rows", FB_ALL_TYPES(cross_entropy_rows)}, \
    {"cross_entropy_back_rows", FB_ALL_TYPES(cross_entropy_back_rows)}, \
    {"sum_rows", FB_ALL_TYPES_OF(reduce_rows, SUM)}, \
    {"squares_rows", FB_ALL_TYPES_OF(reduce_rows, SQUARES)}, \
    {"absolutes_rows", FB_ALL_TYPES_OF(reduce_rows, ABSOLUTES)}, \
    {"numbers_rows", FB_ALL_TYPES_OF(reduce_rows, NUMBERS)}, \
    {"numbers_columns", FB_ALL_TYPES_OF(reduce_columns, NUMBERS)}, \
    {"max_rows", FB_ALL_TYPES_OF(reduce_rows, MAX)}, \
    {"min_rows", FB_ALL_TYPES_OF(reduce_rows, MIN)}, \
    {"variance_rows", FB_ALL_TYPES(variance_rows)}, \
    {"logsumexp_rows", FB_ALL_TYPES(logsumexp_rows)}, \
    {"argmax_rows", FB_ALL_TYPES_OF(extreme_rows, true)}, \
    {"argmin_rows", FB_ALL_TYPES_OF(extreme_rows, false)}, \
    {"sum_columns", FB_ALL_TYPES_OF(reduce_columns, SUM)}, \
    {"squares_columns", FB_ALL_TYPES_OF(reduce_columns, SQUARES)}, \
    {"absolutes_columns", FB_ALL_TYPES_OF(reduce_columns, ABSOLUTES)}, \
    {"max_columns", FB_ALL_TYPES_OF(reduce_columns, MAX)}, \
    {"min_columns", FB_ALL_TYPES_OF(reduce_columns, MIN)}, \
    {"variance_columns", FB_ALL_TYPES(variance_columns)}, \
    {"logsumexp_columns", FB_ALL_TYPES(logsumexp_columns)}, \
    {"argmax_columns", FB_ALL_TYPES_OF(extreme_columns, true)}, \
    {"argmin_columns", FB_ALL_TYPES_OF(extreme_columns, false)}, \
    FB_FORMULA_JOBS \
    {"erf", FB_ALL_TYPES_OF(map, ERF)}, \
    {"erfinv", FB_ALL_TYPES_OF(map, ERFINV)}, \
    {"exp", FB_SINGLE_TYPES_OF(map, EXP)}, \
    {"exp2", FB_SINGLE_TYPES_OF(map, EXP2)}, \
    {"expm1", FB_FLOATS_OF(map, EXPM1)}, \
    {"sin", FB_HALVES_OF(map, SIN)}, \
    {"sqrt", FB_HALVES_OF(map, SQRT)}, \
    {"rsqrt", FB_HALVES_OF(map, RSQRT)}, \
    {"floor", FB_HALVES_OF(map, FLOOR)}, \
    {"ceil", FB_HALVES_OF(map, CEIL)}, \
    {"trunc", FB_HALVES_OF(map, TRUNC)}, \
    {"round", FB_HALVES_OF(map, ROUND)}, \
    {"cos", FB_HALVES_OF(map, COS)}, \
    {"log", FB_FLOATS_OF(map, LOG)}, \
    {"log2", FB_FLOATS_OF(map, LOG2)}, \
    {"log1p", FB_FLOATS_OF(map, LOG1P)}, \
    {"tan", FB_FLOATS_OF(map, TAN)}, \
    {"tanh", FB_FLOATS_OF(map, TANH)}, \
    {"asin", FB_ALL_TYPES_OF(map, ASIN)}, \
    {"acos", FB_ALL_TYPES_OF(map, ACOS)}, \
    {"atan", FB_ALL_TYPES_OF(map, ATAN)}, \
    {"atan2", FB_ALL_TYPES_OF(map, ATAN2)}, \
    {"lgamma", FB_ALL_TYPES_OF(special, LGAMMA)}, \
    {"digamma", FB_ALL_TYPES_OF(special, DIGAMMA)}, \
    {"polygamma", FB_ALL_TYPES_OF(special, POLYGAMMA)}, \
    {"i0", FB_ALL_TYPES_OF(special, BESSEL_I0)}, \
    {"i0e", FB_ALL_TYPES_OF(special, BESSEL_I0E)}, \
    {"i1", FB_ALL_TYPES_OF(special, BESSEL_I1)}, \
    {"i1e", FB_ALL_TYPES_OF(special, BESSEL_I1E)}, \
    {"erfcx", FB_ALL_TYPES_OF(special, ERFCX)}, \
    {"ndtri", FB_ALL_TYPES_OF(special, NDTRI)}, \
    {"ndtr", FB_ALL_TYPES_OF(special, NDTR)}, \
    {"zeta", {zeta<float>, nullptr, nullptr, nullptr}}, \
    {"log_ndtr", FB_ALL_TYPES_OF(special, LOG_NDTR)}, \
    {"add_row", FB_ALL_TYPES(add_row)}, \
    {"running_sum_rows", FB_ALL_TYPES(running_sum_rows)}, \
    {"running_sum_columns", FB_ALL_TYPES(running_sum_columns)}, \
    {"grid_sample", FB_WHOLE_TYPES(grid_sample)}, \
    {"grid_sample_back", FB_WHOLE_TYPES(grid_sample_back)}, \
    {"roi_align", FB_WHOLE_TYPES(roi_align)}, \
    {"roi_align_back", FB_WHOLE_TYPES(roi_align_back)}, \
    {"roi_pool", FB_WHOLE_TYPES(roi_pool)}, \
    {"roi_pool_back", FB_WHOLE_TYPES(roi_pool_back)}, \
    {"ps_roi_pool", FB_WHOLE_TYPES(ps_roi_pool)}, \
    {"ps_roi_pool_back", FB_WHOLE_TYPES(ps_roi_pool_back)}, \
    {"suppress_boxes", FB_WHOLE_TYPES(suppress_boxes)}, \
    {"moved_columns", FB_WHOLE_TYPES(moved_columns)}, \
    {"moved_columns_back", FB_WHOLE_TYPES(moved_columns_back)}, \
    {"moved_columns_back_places", FB_WHOLE_TYPES(moved_columns_back_places)}, \
    {"ctc_forward", FB_WHOLE_TYPES(ctc_forward)}, \
    {"ctc_backward", FB_WHOLE_TYPES(ctc_backward)}, \
    {"small_determinants", FB_WHOLE_TYPES(small_determinants)}, \
    {"small_cholesky", FB_WHOLE_TYPES(small_cholesky)}, \
    {"multilabel_margin", FB_WHOLE_TYPES(multilabel_margin)}, \
    {"multilabel_margin_back", FB_WHOLE_TYPES(multilabel_margin_back)}, \
    {"max_elements", {gather_elements<float, 0>, gather_elements<double, 0>, nullptr, nullptr}}, \
    {"min_elements", {gather_elements<float, 1>, gather_elements<double, 1>, nullptr, nullptr}}, \
    {"product_elements", {gather_elements<float, 2>, gather_elements<double, 2>, nullptr, nullptr}}, \
    {"set_elements", {gather_elements<u32, 3>, gather_elements<u64, 3>, gather_elements<u16, 3>, gather_elements<u8, 3>}}, \
    {"bag_rows", FB_ALL_TYPES(bag_rows)}, \
    {"bag_winners", FB_ALL_TYPES(bag_winners)}, \
    {"adaptive_max", FB_ALL_TYPES(adaptive_max)}, \
    {"fold_windows", FB_WHOLE_TYPES(fold_windows)}, \
    {"pair_distances", FB_WHOLE_TYPES(pair_distances)}, \
    {"pair_distances_back", FB_WHOLE_TYPES(pair_distances_back)}, \
    {"running_product_rows", FB_ALL_TYPES(running_product_rows)}, \
    {"running_product_columns", FB_ALL_TYPES(running_product_columns)}, \
    {"running_max", FB_ALL_TYPES_OF(running_extreme, true)}, \
    {"running_min", FB_ALL_TYPES_OF(running_extreme, false)}, \
    {"recurrence", FB_WHOLE_TYPES(recurrence)}, \
    {"product_rows", FB_ALL_TYPES_OF(reduce_rows, PRODUCT)}, \
    {"whole_product", FB_SIZES(whole_product)}, \
    {"running_max_whole", {running_extreme<int, true>, running_extreme<i64, true>, running_extreme<short, true>, \
        running_extreme<i8, true>}}, \
    {"running_min_whole", {running_extreme<int, false>, running_extreme<i64, false>, running_extreme<short, false>, \
        running_extreme<i8, false>}}, \
    {"topk_wide_rows", FB_SIZES(topk_wide_rows)}, \
    {"sort_wide_rows", FB_SIZES(sort_wide_rows)}, \
    {"sort_rows", FB_SINGLE_TYPES(sort_rows)}, \
    {"topk_rows", FB_SINGLE_TYPES(topk_rows)}, \
    {"move", FB_SIZES(move)}, \
    {"move_run", FB_SIZES(move_run)}, \
    {"to_float32", FB_ALL_TYPES_OF(convert, float)}, \
    {"to_float64", FB_ALL_TYPES_OF(convert, double)}, \
    {"to_bfloat16", FB_ALL_TYPES_OF(convert, bf16)}, \
    {"to_float16", FB_ALL_TYPES_OF(convert, f16)}, \
    {"take_rows", {take_rows<float>, nullptr, nullptr, nullptr}}, \
    {"check_indices", {check_indices<float>, nullptr, nullptr, nullptr}}, \
    {"add_rows", FB_ALL_TYPES(add_rows)}, \
    {"take_elements", FB_SIZES(take_elements)}, \
    {"add_elements", FB_ALL_TYPES(add_elements)}, \
    {"add_whole_elements", {add_elements<int>, add_elements<i64>, add_elements<short>, add_elements<i8>}}, \
    {"edges_below", FB_WHOLE_TYPES(edges_below)}, \
    {"clear", {clear<float>, nullptr, nullptr, nullptr}}, \
    {"evenly", FB_WHOLE_TYPES(evenly)}, \
    {"dot_rows", FB_ALL_TYPES(dot_rows)}, \
    {"dropout", FB_ALL_TYPES(dropout)}, \
    {"masked_scale", FB_ALL_TYPES(masked_scale)}, \
    {"attention_forward", FB_ALL_TYPES(attention_forward)}, \
    {"attention_backward", FB_WHOLE_TYPES(attention_backward)}, \
    {"moments_planes", FB_ALL_TYPES(moments_planes)}, \
    {"moments_last", FB_ALL_TYPES(moments_last)}, \
    {"sums_planes", FB_ALL_TYPES(sums_planes)}, \
    {"sums_last", FB_ALL_TYPES(sums_last)}, \
    {"affine_planes", FB_ALL_TYPES(affine_planes)}, \
    {"affine_last", FB_ALL_TYPES(affine_last)}, \
    {"max_planes", FB_ALL_TYPES(max_planes)}, \
    {"max_last", FB_ALL_TYPES(max_last)}, \
    {"max_back_planes", FB_ALL_TYPES(max_back_planes)}, \
    {"max_back_last", FB_ALL_TYPES(max_back_last)}, \
    {"avg_planes", FB_ALL_TYPES(avg_planes)}, \
    {"avg_last", FB_ALL_TYPES(avg_last)}, \
    {"avg_back_planes", FB_WHOLE_TYPES(avg_back_planes)}, \
    {"avg_back_last", FB_WHOLE_TYPES(avg_back_last)}, \
    {"taps_inner", FB_ALL_TYPES(taps_inner)}, \
    {"taps_single", FB_ALL_TYPES(taps_single)}, \
    FB_RECURRENT("lstm", CELL_LSTM), FB_RECURRENT("gru", CELL_GRU), FB_RECURRENT("rnn_tanh", CELL_TANH), \
    FB_RECURRENT("rnn_relu", CELL_RELU), \
    {"adam", FB_ALL_TYPES(adam)}, \
    {"sgd", FB_ALL_TYPES(sgd)}, \
    {"count_up", FB_ALL_TYPES(count_up)}, \
    {nullptr, {}}
