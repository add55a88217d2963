// Reductions: along contiguous runs ("rows") and along the middle of [outer, n, inner] ("columns").
//
// A unit of a rows kernel is one result: it takes `repeats` runs of n elements. Sums go in blocks, so that the rounding
// error does not grow with the number of elements. NaN wins an extreme; of equal elements the first is the position.
#ifndef FB_REDUCE_H
#define FB_REDUCE_H

#include "softmax_norm.h"

enum Reduction { SUM, SQUARES, ABSOLUTES, MAX, MIN, PRODUCT, NUMBERS }; // NUMBERS: the sum of what is no NaN

template <int kind, class V> FB_INLINE V reduction_start(V one) {
    typedef typename Element<V>::S S;
    return kind == MAX ? Element<V>::splat(-(S)__builtin_inff())
        : kind == MIN  ? Element<V>::splat((S)__builtin_inff())
        : kind == PRODUCT ? one
                          : V{};
}
template <int kind, class V> FB_INLINE V value_of(V x, V centre) {
    if constexpr (kind == SQUARES) return (x - centre) * (x - centre);
    else if constexpr (kind == ABSOLUTES) return v_abs(x);
    else if constexpr (kind == NUMBERS) return v_where(x == x, x, V{});
    else return x;
}
template <int kind, class V> FB_INLINE V combined(V a, V b) {
    if constexpr (kind == MAX) return v_maximum(a, b);
    else if constexpr (kind == MIN) return v_minimum(a, b);
    else if constexpr (kind == PRODUCT) return a * b;
    else return a + b;
}
template <int kind, class V> FB_INLINE auto folded_lanes(V x) {
    if constexpr (kind == MAX) return fold_max(x);
    else if constexpr (kind == MIN) return fold_min(x);
    else if constexpr (kind == PRODUCT) return fold_mul(x);
    else return fold_add(x);
}

// one run, into a double that goes on from run to run
template <class T, int kind> FB_INLINE void reduce_run(const T* x, long n, double& total, double centre) {
    FB_TYPES(T);
    if constexpr (kind == MAX || kind == MIN) {
        double block = extreme_row<T, kind == MAX>(x, n);
        bool better = kind == MAX ? total > block : total < block;
        total = better || total != total ? total : block;
        return;
    }
    V c = Compute<T>::splat((S)centre), start = reduction_start<kind>(Compute<T>::splat(1));
    if (n <= 4 * FB_W) { // one accumulator
        V some = start;
        each_vector<1>(0, n, [&](i64 i, auto m, int) FB_BODY {
            some = combined<kind>(some, keep(m, value_of<kind>(ld(x + i, m), c), start));
        });
        double block = (double)folded_lanes<kind>(some);
        if (kind == PRODUCT) total *= block;
        else total += block;
        return;
    }
    for (long from = 0; from < n; from += 4096) {
        long to = n - from < 4096 ? n : from + 4096;
        V part[4] = {start, start, start, start};
        each_vector<4>(from, to, [&](i64 i, auto m, int k) FB_BODY {
            part[k] = combined<kind>(part[k], keep(m, value_of<kind>(ld(x + i, m), c), start));
        });
        double block = (double)folded_lanes<kind>(combined<kind>(combined<kind>(part[0], part[1]), combined<kind>(part[2], part[3])));
        if (kind == PRODUCT) total *= block;
        else total += block;
    }
}
template <int kind> FB_INLINE double reduction_start_real() {
    return kind == MAX ? -__builtin_inf() : kind == MIN ? __builtin_inf() : kind == PRODUCT ? 1 : 0;
}

// The runs of unit u start at u / middle * outer_step + u % middle * n, `repeats` of them `repeat_step` apart; no run
// goes beyond `limit`. n: n, middle, outer_step, repeats, repeat_step, limit
struct Runs {
    long n, middle, outer_step, repeats, repeat_step, limit;
    Runs(const Job& job)
        : n(job.n[0]), middle(job.n[1]), outer_step(job.n[2]), repeats(job.n[3]), repeat_step(job.n[4]),
          limit(job.n[5]) {}
    long start(long unit) const { return unit / middle * outer_step + unit % middle * n; }
    long length(long at) const { return limit - at < n ? limit - at : n; }
    long count(long unit) const { return repeats * length(start(unit)); }
    template <class Body> FB_BODY void each(long unit, Body body) const {
        long at = start(unit);
        for (long r = 0; r < repeats; r++, at += repeat_step) body(at, length(at));
    }
};

// Short runs of a unit add up in one register before its lanes do, some thousands of elements at a time.
template <class T, int kind> FB_INLINE double short_runs(const Runs& runs, const T* x, long unit, double centre) {
    FB_TYPES(T);
    V c = Compute<T>::splat((S)centre), some = {};
    double total = 0;
    long held = 0;
    runs.each(unit, [&](long at, long n) FB_BODY {
        each_vector<1>(0, n, [&](i64 i, auto m, int) FB_BODY { some = some + keep(m, value_of<kind>(ld(x + at + i, m), c), V{}); });
        if ((held += n) < 4096) return;
        total += (double)fold_add(some);
        some = V{}, held = 0;
    });
    return total + (double)fold_add(some);
}

// p: out, x; f: divisor (results are divided by it), centre of SQUARES
template <class T, int kind> void reduce_rows(const Job& job, long begin, long end) {
    Runs runs(job);
    if ((kind == SUM || kind == PRODUCT) && runs.n <= 4 && runs.repeats == 1) { // element by element
        for (long unit = begin; unit < end; unit++) {
            long at = runs.start(unit), n = runs.length(at);
            double total = reduction_start_real<kind>();
            for (long k = 0; k < n; k++) {
                if (kind == SUM) total += element((const T*)job.p[1] + at + k);
                else total *= element((const T*)job.p[1] + at + k);
            }
            put((T*)job.p[0] + unit, (typename Compute<T>::S)(total / job.f[0]));
        }
        return;
    }
    constexpr bool sum = kind == SUM || kind == SQUARES || kind == ABSOLUTES || kind == NUMBERS;
    if constexpr (sum)
        if (runs.repeats > 1 && runs.n <= 4 * FB_W) {
            for (long unit = begin; unit < end; unit++)
                put((T*)job.p[0] + unit,
                    (typename Compute<T>::S)(short_runs<T, kind>(runs, (const T*)job.p[1], unit, job.f[1]) / job.f[0]));
            return;
        }
    for (long unit = begin; unit < end; unit++) {
        double total = reduction_start_real<kind>();
        runs.each(unit, [&](long at, long n) FB_BODY { reduce_run<T, kind>((const T*)job.p[1] + at, n, total, job.f[1]); });
        put((T*)job.p[0] + unit, (typename Compute<T>::S)(total / job.f[0]));
    }
}
// p: out (computation type), x, y; n: n. Sums of products of rows, rounded once. A unit is a row
template <class T> void dot_rows(const Job& job, long begin, long end) {
    FB_TYPES(T);
    long n = job.n[0];
    for (long unit = begin; unit < end; unit++) {
        const T *x = (const T*)job.p[1] + unit * n, *y = (const T*)job.p[2] + unit * n;
        ((S*)job.p[0])[unit] = (S)sum_row<V>(n, [&](i64 i, auto m) FB_BODY { return ld(x + i, m) * ld(y + i, m); });
    }
}
// p: variance, x, mean?; f: divisor
template <class T> void variance_rows(const Job& job, long begin, long end) {
    typedef typename Compute<T>::S S;
    Runs runs(job);
    for (long unit = begin; unit < end; unit++) {
        const T* x = (const T*)job.p[1];
        double total = 0, square = 0;
        runs.each(unit, [&](long at, long n) FB_BODY { reduce_run<T, SUM>(x + at, n, total, 0); });
        double mean = total / runs.count(unit);
        runs.each(unit, [&](long at, long n) FB_BODY { reduce_run<T, SQUARES>(x + at, n, square, mean); });
        put((T*)job.p[0] + unit, (S)(square / job.f[0]));
        if (job.p[2]) put((T*)job.p[2] + unit, (S)mean);
    }
}
// p: out, x. log(sum(exp(x)))
template <class T> void logsumexp_rows(const Job& job, long begin, long end) {
    FB_TYPES(T);
    Runs runs(job);
    for (long unit = begin; unit < end; unit++) {
        double top = -__builtin_inf(), total = 0;
        const T* x = (const T*)job.p[1];
        runs.each(unit, [&](long at, long n) FB_BODY { reduce_run<T, MAX>(x + at, n, top, 0); });
        double shift = finite(top) ? top : 0;
        V s = Compute<T>::splat((S)shift);
        runs.each(unit, [&](long at, long n) FB_BODY {
            total += sum_row<V>(n, [&](i64 i, auto m) FB_BODY { return v_exp(ld(x + at + i, m) - s); });
        });
        put((T*)job.p[0] + unit, (S)(__builtin_log(total) + shift));
    }
}
// p: value, x, position (int64); whole runs only (repeats = 1)
template <class T, bool greatest> void extreme_rows(const Job& job, long begin, long end) {
    FB_TYPES(T);
    Runs runs(job);
    for (long unit = begin; unit < end; unit++) {
        long at = runs.start(unit), n = runs.length(at), place = 0;
        const T* x = (const T*)job.p[1] + at;
        double best = reduction_start_real<greatest ? MAX : MIN>();
        reduce_run<T, greatest ? MAX : MIN>(x, n, best, 0);
        V b = Compute<T>::splat((S)best);
        for (; place < n; place += FB_W) {
            int width = n - place < FB_W ? (int)(n - place) : FB_W;
            V y = width == FB_W ? ld(x + place, Full{}) : ld(x + place, Tail{width});
            vi hit = best == best ? y == b : y != y;
            if (width < FB_W) hit &= alive(Tail{width});
            if (!any_lane(hit)) continue;
            for (int l = 0; l < width; l++)
                if (hit[l]) {
                    place += l;
                    break;
                }
            break;
        }
        put((T*)job.p[0] + unit, (S)best);
        ((long*)job.p[2])[unit] = place;
    }
}

// ---- columns. n: n, inner, blocks of columns per outer index; out is [outer, inner]
template <class T, class Body> FB_INLINE void columns(const Job& job, long begin, long end, Body body) {
    long n = job.n[0], inner = job.n[1], blocks = job.n[2];
    for (long unit = begin; unit < end; unit++) {
        long outer = unit / blocks, c = unit % blocks * COLUMNS, stop = inner - c < COLUMNS ? inner : c + COLUMNS;
        const T* x = (const T*)job.p[1] + outer * n * inner;
        if (stop - c == COLUMNS) {
            typename Compute<T>::V lanes[4];
            (void)lanes;
            body(x + c, outer * inner + c, Full{}, Full{});
        } else {
            for (; c + FB_W <= stop; c += FB_W) body(x + c, outer * inner + c, Full{}, Tail{1});
            if (c < stop) body(x + c, outer * inner + c, Tail{(int)(stop - c)}, Tail{1});
        }
    }
}
// registers of a whole block, or one
FB_INLINE constexpr int width_of(Full) { return 4; }
FB_INLINE constexpr int width_of(Tail) { return 1; }
template <class W> struct Registers {
    enum { count = 1 };
};
template <> struct Registers<Full> {
    enum { count = 4 };
};

enum { BLOCK_ROWS = 128, SPAN_ROWS = 32 * BLOCK_ROWS };
// value of n rows, column by column, in blocks of rows and spans of blocks: sums of like size lose few digits
template <class T, int kind, int C, class V, class M>
FB_INLINE void reduce_columns_of(const T* x, long n, long inner, M m, const V (&centre)[C], V (&total)[C]) {
    V start = reduction_start<kind>(Compute<T>::splat(1));
    for (int c = 0; c < C; c++) total[c] = start;
    V span[C];
    for (int c = 0; c < C; c++) span[c] = start;
    for (long from = 0; from < n; from += BLOCK_ROWS) {
        long to = n - from < BLOCK_ROWS ? n : from + BLOCK_ROWS;
        V part[C];
        for (int c = 0; c < C; c++) part[c] = start;
        for (long k = from; k < to; k++) {
#pragma GCC unroll 4
            for (int c = 0; c < C; c++)
                part[c] = combined<kind>(part[c], value_of<kind>(ld(x + k * inner + c * FB_W, m), centre[c]));
        }
        for (int c = 0; c < C; c++) span[c] = combined<kind>(span[c], part[c]);
        if (to % SPAN_ROWS && to != n) continue;
        for (int c = 0; c < C; c++) {
            total[c] = combined<kind>(total[c], span[c]);
            span[c] = start;
        }
    }
}
// p: out, x; f: divisor, centre
template <class T, int kind> void reduce_columns(const Job& job, long begin, long end) {
    FB_TYPES(T);
    columns<T>(job, begin, end, [&](const T* x, long at, auto m, auto wide) FB_BODY {
        constexpr int C = Registers<decltype(wide)>::count;
        V total[C], centre[C];
        for (int c = 0; c < C; c++) centre[c] = Compute<T>::splat((S)job.f[1]);
        reduce_columns_of<T, kind, C>(x, job.n[0], job.n[1], m, centre, total);
        V divisor = Compute<T>::splat((S)job.f[0]);
        for (int c = 0; c < C; c++)
            st((T*)job.p[0] + at + c * FB_W, kind == SUM || kind == NUMBERS ? total[c] / divisor : total[c], m);
    });
}
// p: variance, x, mean?; f: divisor
template <class T> void variance_columns(const Job& job, long begin, long end) {
    FB_TYPES(T);
    columns<T>(job, begin, end, [&](const T* x, long at, auto m, auto wide) FB_BODY {
        constexpr int C = Registers<decltype(wide)>::count;
        V mean[C] = {}, square[C];
        V none[C] = {};
        reduce_columns_of<T, SUM, C>(x, job.n[0], job.n[1], m, none, mean);
        V count = Compute<T>::splat((S)job.n[0]), divisor = Compute<T>::splat((S)job.f[0]);
        for (int c = 0; c < C; c++) mean[c] = mean[c] / count;
        reduce_columns_of<T, SQUARES, C>(x, job.n[0], job.n[1], m, mean, square);
        for (int c = 0; c < C; c++) {
            st((T*)job.p[0] + at + c * FB_W, square[c] / divisor, m);
            if (job.p[2]) st((T*)job.p[2] + at + c * FB_W, mean[c], m);
        }
    });
}
// p: out, x
template <class T> void logsumexp_columns(const Job& job, long begin, long end) {
    FB_TYPES(T);
    columns<T>(job, begin, end, [&](const T* x, long at, auto m, auto wide) FB_BODY {
        constexpr int C = Registers<decltype(wide)>::count;
        V top[C], none[C] = {};
        reduce_columns_of<T, MAX, C>(x, job.n[0], job.n[1], m, none, top);
        for (int c = 0; c < C; c++) {
            V shift = v_where(top[c] - top[c] == V{}, top[c], V{}), total = {};
            for (long k = 0; k < job.n[0]; k++)
                total = total + v_exp(ld(x + k * job.n[1] + c * FB_W, m) - shift);
            st((T*)job.p[0] + at + c * FB_W, v_log(total) + shift, m);
        }
    });
}
// p: value, x, position (int64)
template <class T, bool greatest> void extreme_columns(const Job& job, long begin, long end) {
    FB_TYPES(T);
    columns<T>(job, begin, end, [&](const T* x, long at, auto m, auto wide) FB_BODY {
        constexpr int C = Registers<decltype(wide)>::count;
        for (int c = 0; c < C; c++) {
            V best = ld(x + c * FB_W, m);
            vi place = {};
            for (long k = 1; k < job.n[0]; k++) {
                V y = ld(x + k * job.n[1] + c * FB_W, m);
                vi take = (greatest ? y > best : y < best) | ((y != y) & (best == best));
                best = v_where(take, y, best);
                place = v_where(take, splat_i((int)k), place);
            }
            st((T*)job.p[0] + at + c * FB_W, best, m);
            st((long*)job.p[2] + at + c * FB_W, to_l(place), m);
        }
    });
}

#endif
