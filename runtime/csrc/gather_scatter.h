// Moving elements: strided copies, conversions, rows and elements by index, sums at indices, dropout.
#ifndef FB_MOVES_H
#define FB_MOVES_H

#include "softmax_norm.h"

// ---- p: out, x; n: dims, then per dim (size, stride of out, stride of x), strides in elements. The last dim has out
//      stride 1; in the dim before it x may have stride 1, and then squares are turned. A unit is SIDE rows of the last
//      two dims.
enum { SIDE = 64, MOVE_DIMS = 8 };
// n times one element
template <class E> FB_INLINE void repeat_run(E* to, E one, long n) {
    constexpr int W = 64 / sizeof(E);
    typedef E V __attribute__((vector_size(64)));
    V all = one - (V){};
    long j = 0;
    for (; j + W <= n; j += W) __builtin_memcpy(to + j, &all, sizeof all);
    for (; j < n; j++) to[j] = one;
}
// n elements that lie in reverse
template <class E> FB_INLINE void reverse(E* to, const E* from, long n) {
    constexpr int W = 32 / sizeof(E);
    typedef E V __attribute__((vector_size(32)));
    V order;
    for (int l = 0; l < W; l++) order[l] = (E)(W - 1 - l);
    long j = 0;
    for (; j + W <= n; j += W) {
        V x;
        __builtin_memcpy(&x, from - j - W + 1, sizeof x);
#if defined(__clang__)
        V y = x;
        for (int l = 0; l < W; l++) x[l] = y[W - 1 - l];
#else
        x = __builtin_shuffle(x, order);
#endif
        __builtin_memcpy(to + j, &x, sizeof x);
    }
    for (; j < n; j++) to[j] = from[-j];
}
template <class E> void move(const Job& job, long begin, long end) {
    long dims = job.n[0];
    const long* d = job.n + 1;
    const long *last = d + 3 * (dims - 1), *row = d + 3 * (dims - 2);
    long blocks = (row[0] + SIDE - 1) / SIDE;
    bool turned = (row[2] == 1 || row[2] == -1) && last[2] != 1 && last[2] != -1 && (last[2] || last[0] < 16);
    for (long unit = begin; unit < end; unit++) {
        long rest = unit / blocks, r = unit % blocks * SIDE, rows = row[0] - r < SIDE ? row[0] - r : SIDE;
        E* out = (E*)job.p[0] + r * row[1];
        const E* x = (const E*)job.p[1] + r * row[2];
        for (long k = dims - 3; k >= 0; k--) {
            long at = rest % d[3 * k];
            rest /= d[3 * k];
            out += at * d[3 * k + 1];
            x += at * d[3 * k + 2];
        }
        if (turned) {
            bool back = row[2] < 0; // from the last row on
            if (back) x -= rows - 1, out += (rows - 1) * row[1];
            turn_block(out, back ? -row[1] : row[1], x, last[2], rows, last[0]);
        } else {
            for (long i = 0; i < rows; i++) {
                E* to = out + i * row[1];
                const E* from = x + i * row[2];
                if (last[2] == 1) __builtin_memcpy(to, from, last[0] * sizeof(E));
                else if (last[2] == 0) repeat_run(to, *from, last[0]);
                else if (last[2] == -1) reverse(to, from, last[0]);
                else
                    for (long j = 0; j < last[0]; j++) to[j] = from[j * last[2]];
            }
        }
    }
}

// ---- one run. p: out, x; n: stride of x. A unit is one element
template <class E> void move_run(const Job& job, long begin, long end) {
    E* out = (E*)job.p[0];
    const E* x = (const E*)job.p[1];
    long step = job.n[0];
    if (step == 1) __builtin_memcpy(out + begin, x + begin, (end - begin) * sizeof(E));
    else if (step == -1) reverse(out + begin, x - begin, end - begin);
    else
        for (long i = begin; i < end; i++) out[i] = x[i * step];
}

FB_INLINE vf as_number(const float*, vl x) { return to_f(x); }
FB_INLINE vd as_number(const double*, vl x) { return to_d(x); }
FB_INLINE vf as_number(const float*, vi x) { return to_f(x); }
FB_INLINE vd as_number(const double*, vi x) { return to_d(x); }

// ---- zeros. p: out. A unit is 64 bytes
template <class> void clear(const Job& job, long begin, long end) {
    __builtin_memset((char*)job.p[0] + begin * 64, 0, (end - begin) * 64);
}

// ---- one half counted from each end. p: out; n: elements; f: start, end, step. A unit is one element
// Places that 32 bits hold become floats in one instruction; few machines have one for longer numbers.
struct ShortPlaces {
    static FB_BODY vi same(long at) { return splat_i((int)at); }
    static FB_BODY vi from(long at) { return lane_numbers() + splat_i((int)at); }
};
struct LongPlaces {
    static FB_BODY vl same(long at) { return splat_l(at); }
    static FB_BODY vl from(long at) { return index_lanes(at); }
};
template <class T, class Places> FB_INLINE void evenly_by(const Job& job, long begin, long end) {
    FB_TYPES(T);
    long n = job.n[0], half = (n + 1) / 2;
    V start = Compute<T>::splat((S)job.f[0]), stop = Compute<T>::splat((S)job.f[1]), step = Compute<T>::splat((S)job.f[2]);
    auto number = [](auto at) FB_BODY { return as_number((const S*)nullptr, at); };
    long cut = half < begin ? begin : half < end ? half : end;
    each_vector<1>(begin, cut, [&](i64 i, auto m, int) FB_BODY {
        st((T*)job.p[0] + i, number(Places::from(i)) * step + start, m);
    });
    each_vector<1>(cut, end, [&](i64 i, auto m, int) FB_BODY {
        st((T*)job.p[0] + i, stop - number(Places::same(n - 1) - Places::from(i)) * step, m);
    });
}
template <class T> void evenly(const Job& job, long begin, long end) {
    if (job.n[0] < 1l << 30) evenly_by<T, ShortPlaces>(job, begin, end);
    else evenly_by<T, LongPlaces>(job, begin, end);
}

// ---- p: out, x. A unit is one element
FB_INLINE vf as_lanes(const float*, vf x) { return x; }
FB_INLINE vf as_lanes(const float*, vd x) { return to_f(x); }
FB_INLINE vd as_lanes(const double*, vf x) { return to_d(x); }
FB_INLINE vd as_lanes(const double*, vd x) { return x; }
template <class From, class To> void convert(const Job& job, long begin, long end) {
    typedef typename Compute<To>::S S;
    each_vector<1>(begin, end, [&](i64 i, auto m, int) FB_BODY {
        st((To*)job.p[0] + i, as_lanes((const S*)nullptr, ld((const From*)job.p[1] + i, m)), m);
    });
}

// ---- rows by index. p: out, table, index (int64), bad; n: bytes of a row, rows of the table. A unit is one index
template <class> void take_rows(const Job& job, long begin, long end) {
    long bytes = job.n[0];
    for (long unit = begin; unit < end; unit++) {
        long at = ((const long*)job.p[2])[unit];
        if ((unsigned long)at >= (unsigned long)job.n[1]) __atomic_store_n((long*)job.p[3], unit, __ATOMIC_RELAXED);
        else __builtin_memcpy((char*)job.p[0] + unit * bytes, (const char*)job.p[1] + at * bytes, bytes);
    }
}
// ---- sums at indices: out[o, index[k], j] += x[o, k, j], in the order of k. p: out, x, index (int64), bad;
//      n: width, indices, rows of out, blocks of columns, index that adds nothing, block. A unit is a block of columns of
//      one o
template <class T> void add_rows(const Job& job, long begin, long end) {
    long width = job.n[0], count = job.n[1], rows = job.n[2], blocks = job.n[3], block = job.n[5];
    const long* index = (const long*)job.p[2];
    if (width == 1) { // elements: without vectors
        for (long outer = begin; outer < end; outer++) {
            T* out = (T*)job.p[0] + outer * rows;
            const T* x = (const T*)job.p[1] + outer * count;
            for (long k = 0; k < count; k++) {
                long at = index[k];
                if ((unsigned long)at < (unsigned long)rows && at != job.n[4]) put(out + at, element(out + at) + element(x + k));
                else if (at != job.n[4]) __atomic_store_n((long*)job.p[3], k, __ATOMIC_RELAXED);
            }
        }
        return;
    }
    for (long unit = begin; unit < end; unit++) {
        long outer = unit / blocks, c = unit % blocks * block, stop = width - c < block ? width : c + block;
        T* out = (T*)job.p[0] + outer * rows * width;
        const T* x = (const T*)job.p[1] + outer * count * width;
        for (long k = 0; k < count; k++) {
            long at = index[k];
            if (at == job.n[4]) continue;
            if ((unsigned long)at >= (unsigned long)rows) {
                __atomic_store_n((long*)job.p[3], k, __ATOMIC_RELAXED);
                continue;
            }
            each_vector<1>(
                c, stop, [&](i64 j, auto m, int) FB_BODY { add_to(out + at * width + j, ld(x + k * width + j, m), m); });
        }
    }
}
// ---- whether all of index[from .. to) lie in [0, size)
FB_INLINE bool all_within(const long* index, long from, long to, long size) {
    hl low = splat_hl(0), high = low, last = splat_hl(size - 1);
    constexpr int W = FB_W / 2;
    long i = from;
    for (; i + 2 * W <= to; i += 2 * W) {
        hl a = *(const hl_loose*)(index + i), b = *(const hl_loose*)(index + i + W);
        low |= a | b, high |= (hl)(((hul)last - (hul)a) | ((hul)last - (hul)b));
    }
    bool fine = !any_lane((vi)((low | high) < 0));
    for (; i < to; i++) fine &= (unsigned long)index[i] < (unsigned long)size;
    return fine;
}
// out[i] = x[index[i]]
template <class E> FB_INLINE void take_run(E* out, const E* x, const long* index, long from, long to) {
    long i = from;
    for (; i + 8 <= to; i += 8) {
#pragma GCC unroll 8
        for (int k = 0; k < 8; k++) out[i + k] = x[index[i + k]];
    }
    for (; i < to; i++) out[i] = x[index[i]];
}
// ---- elements by index along the middle: out[o, k, j] = x[o, index[o, k, j], j]. p: out, x, index, bad;
//      n: rows of x, inner, indices per outer. A unit is one (o, k)
template <class E> void take_elements(const Job& job, long begin, long end) {
    long rows = job.n[0], inner = job.n[1], count = job.n[2], outer = begin / count, stop = (outer + 1) * count;
    bool wrong = false;
    for (long unit = begin; unit < end; outer++, stop += count) {
        const E* x = (const E*)job.p[1] + outer * rows * inner;
        const long* index = (const long*)job.p[2];
        E* out = (E*)job.p[0];
        long from = unit * inner, to = (stop < end ? stop : end) * inner;
        if (inner == 1) {
            wrong |= !all_within(index, from, to, rows);
            if (!wrong) take_run(out, x, index, from, to);
        } else for (long e = from, j = 0; e < to; e++) {
            bool fits = (unsigned long)index[e] < (unsigned long)rows;
            wrong |= !fits;
            out[e] = x[(fits ? index[e] : 0) * inner + j];
            j = j + 1 == inner ? 0 : j + 1;
        }
        if (wrong)
            for (long e = from; e < to; e++)
                if ((unsigned long)index[e] >= (unsigned long)rows)
                    return __atomic_store_n((long*)job.p[3], e, __ATOMIC_RELAXED);
        unit = stop;
    }
}
// p: index, bad; n: size. A unit is one index
template <class> void check_indices(const Job& job, long begin, long end) {
    const u64* index = (const u64*)job.p[0];
    u64 size = (u64)job.n[0];
    if (all_within((const long*)index, begin, end, job.n[0])) return;
    for (long i = begin; i < end; i++)
        if (index[i] >= size) return __atomic_store_n((long*)job.p[1], i, __ATOMIC_RELAXED);
}
// out[o, index[o, k, j], j] += x[o, k, j]. p: out, x, index (all within range); n as above. A unit is one o
template <class T> void add_elements(const Job& job, long begin, long end) {
    long rows = job.n[0], inner = job.n[1], count = job.n[2];
    for (long unit = begin; unit < end; unit++) {
        T* out = (T*)job.p[0] + unit * rows * inner;
        const T* x = (const T*)job.p[1] + unit * count * inner;
        const long* index = (const long*)job.p[2] + unit * count * inner;
        if (inner == 1) {
            for (long e = 0; e < count; e++) {
                T* to = out + index[e];
                put(to, element(to) + element(x + e));
            }
            continue;
        }
        for (long e = 0, j = 0; e < count * inner; e++) {
            T* to = out + index[e] * inner + j;
            put(to, element(to) + element(x + e));
            j = j + 1 == inner ? 0 : j + 1;
        }
    }
}

// ---- how many of the ascending edges of a row each number of it has reached. p: out (int64), edges, numbers; n: edges of a row,
//      numbers of a row. A unit is a row
template <class T> void edges_below(const Job& job, long begin, long end) {
    long edges = job.n[0], count = job.n[1];
    for (long row = begin; row < end; row++) {
        const T *e = (const T*)job.p[1] + row * edges, *x = (const T*)job.p[2] + row * count;
        long* out = (long*)job.p[0] + row * count;
        for (long k = 0; k < count; k++) {
            T own = x[k];
            long at = 0, rest = edges;
            while (rest > 0) { // without a branch on what is found
                long half = rest / 2 + 1;
                bool on = e[at + half - 1] <= own;
                at = on ? at + half : at;
                rest = on ? rest - half : half - 1;
            }
            out[k] = at;
        }
    }
}

// ---- dropout: products with a scale or 0, so that NaN and infinity do not vanish. p: out, keep (bool), x; n: seed, ordinal; f: probability of zero, scale. A unit is one element
template <class T> void dropout(const Job& job, long begin, long end) {
    FB_TYPES(T);
    PhiloxKeys keys = philox_keys(splat_l(job.n[0]));
    vl ordinal = splat_l(job.n[1]);
    V scale = Compute<T>::splat((S)job.f[1]);
    vf least = splat_f((float)job.f[0]);
    each_vector<1>(begin, end, [&](i64 i, auto m, int) FB_BODY {
        vu bits = philox_words(keys, ordinal, i).w[0];
        vi keep = __builtin_convertvector((vi)(bits >> 8), vf) * splat_f(0x1p-24f) >= least;
        st((bool*)job.p[1] + i, keep, m);
        V x = ld((const T*)job.p[2] + i, m);
        st((T*)job.p[0] + i, v_where(keep, x * scale, x * V{}), m);
    });
}
// p: out, keep, x; f: scale
template <class T> void masked_scale(const Job& job, long begin, long end) {
    FB_TYPES(T);
    V scale = Compute<T>::splat((S)job.f[0]);
    each_vector<1>(begin, end, [&](i64 i, auto m, int) FB_BODY {
        vi keep = ld((const bool*)job.p[1] + i, m);
        V x = ld((const T*)job.p[2] + i, m);
        st((T*)job.p[0] + i, v_where(keep, x * scale, x * V{}), m);
    });
}

// ---- greatest or least of elements that meet at an index (NaN wins), their product, or the last. p: out, x, index; n: size of out's dim,
//      inner, size of the index's dim. A unit is one outer index
template <class T, int kind> void gather_elements(const Job& job, long begin, long end) {
    long size = job.n[0], inner = job.n[1], count = job.n[2];
    for (long unit = begin; unit < end; unit++) {
        T* out = (T*)job.p[0] + unit * size * inner;
        const T* x = (const T*)job.p[1] + unit * count * inner;
        const long* index = (const long*)job.p[2] + unit * count * inner;
        if (kind == 3 && inner == 1) {
            for (long k = 0; k < count; k++) out[index[k]] = x[k];
            continue;
        }
        for (long k = 0; k < count; k++)
            for (long j = 0; j < inner; j++) {
                T &to = out[index[k * inner + j] * inner + j], own = x[k * inner + j];
                if (kind == 2) to *= own;
                else if (kind == 3) to = own;
                else if ((kind ? own < to : own > to) || own != own) to = own;
            }
    }
}

// ---- bags of rows, summed (a mean is divided by how many took part). p: out, table, index, first places of the bags (one more
//      than bags), weights or null; n: width, row that is left out, mean. A unit is a bag
template <class T> void bag_rows(const Job& job, long begin, long end) {
    FB_TYPES(T);
    long width = job.n[0];
    const long *index = (const long*)job.p[2], *first = (const long*)job.p[3];
    for (long bag = begin; bag < end; bag++) {
        long taken = first[bag + 1] - first[bag];
        if (job.n[2] && job.n[1] >= 0)
            for (long k = first[bag]; k < first[bag + 1]; k++) taken -= index[k] == job.n[1];
        V divisor = Compute<T>::splat(taken ? (S)taken : (S)1);
        auto row = [&](long k, i64 i, auto m) FB_BODY {
            V x = ld((const T*)job.p[1] + index[k] * width + i, m);
            return job.p[4] ? x * Compute<T>::splat(element((const T*)job.p[4] + k)) : x;
        };
        auto give = [&](i64 i, V sum, auto m) FB_BODY { st((T*)job.p[0] + bag * width + i, job.n[2] ? sum / divisor : sum, m); };
        i64 i = 0;
        for (; i + 4 * FB_W <= width; i += 4 * FB_W) { // an index is looked at once for four vectors
            V sum[4] = {};
            for (long k = first[bag]; k < first[bag + 1]; k++) {
                if (index[k] == job.n[1]) continue;
#pragma GCC unroll 4
                for (int u = 0; u < 4; u++) sum[u] = sum[u] + row(k, i + u * FB_W, Full{});
            }
#pragma GCC unroll 4
            for (int u = 0; u < 4; u++) give(i + u * FB_W, sum[u], Full{});
        }
        each_vector<1>(i, width, [&](i64 i, auto m, int) FB_BODY {
            V sum = {};
            for (long k = first[bag]; k < first[bag + 1]; k++)
                if (index[k] != job.n[1]) sum = sum + row(k, i, m);
            give(i, sum, m);
        });
    }
}

// ---- which row is the greatest of its bag, element by element: of equals the first, a NaN where it is the first of all, and -1
//      in bags without rows. p: out (int64), table, index, first places of the bags (one more than bags); n: width, row that is
//      left out. Row numbers fit 31 bits. A unit is a bag
template <class T> void bag_winners(const Job& job, long begin, long end) {
    FB_TYPES(T);
    long width = job.n[0];
    const long *index = (const long*)job.p[2], *first = (const long*)job.p[3];
    for (long bag = begin; bag < end; bag++)
        each_vector<1>(0, width, [&](i64 i, auto m, int) FB_BODY {
            V best = {};
            vi place = splat_i(-1);
            for (long k = first[bag]; k < first[bag + 1]; k++) {
                if (index[k] == job.n[1]) continue;
                V row = ld((const T*)job.p[1] + index[k] * width + i, m);
                vi take = (place < 0) | (row > best);
                best = v_where(take, row, best);
                place = v_where(take, splat_i((int)index[k]), place);
            }
            st((long*)job.p[0] + bag * width + i, to_l(place), m);
        });
}

#endif
