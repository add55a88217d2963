// Scaled dot product attention, forward and backward, a block of queries at a time: the scores of a block stay in a
// core's cache, both products run on the product template.
//
// A unit of the forward pass is a block of queries of one head, of the backward pass one head. A row with nothing to
// attend to gives zeros.
#ifndef FB_ATTENTION_H
#define FB_ATTENTION_H

#include "softmax_norm.h"

FB_INLINE int gemm_type(const float*) { return FB_FLOAT; }
FB_INLINE int gemm_type(const double*) { return FB_DOUBLE; }
FB_INLINE int gemm_type(const bf16*) { return FB_BF16; }
FB_INLINE int gemm_type(const f16*) { return FB_F16; }

// out[M, N] = a[M, K] b[K, N] with row-major out
template <class T, class O>
FB_INLINE void product(const FbRuntime* rt, long M, long N, long K, const T* a, long a_m, long a_k, const T* b, long b_k,
    long b_n, O* out, long out_m) {
    FbGemm g = {};
    g.a = a, g.b = b, g.out = out;
    g.a_type = g.b_type = gemm_type(a);
    g.out_type = gemm_type(out);
    g.M = M, g.N = N, g.K = K;
    g.a_m = a_m, g.a_k = a_k, g.b_k = b_k, g.b_n = b_n, g.out_m = out_m, g.out_n = 1;
    rt->gemm(&g);
}

// numbers of an attention job, in this order
struct AttentionSizes {
    long heads, length, width, depth, value_depth, causal, block, group; // `group` heads share a key head
    long q[3], k[3], v[3], g[3];        // strides: batch, head, row (within a row: 1)
    long mask[4], mask_kind;            // strides with the column's; 0 none, 1 boolean, 2 added
};
enum MaskKind { NO_MASK, BOOL_MASK, ADDED_MASK };
static_assert(sizeof(AttentionSizes) <= sizeof(long) * JOB_NUMBERS);

template <class T> struct AttentionMask {
    const void* data;
    const AttentionSizes& z;
    long at;
    FB_BODY auto operator()(decltype(ld1((const T*)nullptr)) x, long row, i64 j, auto m) const {
        typedef decltype(x) V;
        long stride = z.mask[3], place = at + row * z.mask[2] + j * stride;
        if (z.mask_kind == BOOL_MASK) {
            const bool* p = (const bool*)data + place;
            vi allowed = stride == 1 ? ld(p, m) : gather(p, [=](int l) { return l * stride; }, m);
            return v_where(allowed, x, Element<V>::splat(-__builtin_inff()));
        }
        const T* p = (const T*)data + place;
        return x + (stride == 1 ? ld(p, m) : gather(p, [=](int l) { return l * stride; }, m));
    }
};

// One head's block of queries: rows [from, from + rows), columns [0, columns)
template <class T> struct AttentionBlock {
    typedef typename Compute<T>::S S;
    typedef typename Compute<T>::V V;
    const Job& job;
    const AttentionSizes& z;
    long batch, head, from, rows, columns;
    AttentionMask<T> mask;

    AttentionBlock(const Job& job, const void* mask, long item, long block)
        : job(job), z(*(const AttentionSizes*)job.n), batch(item / z.heads), head(item % z.heads),
          from(block * z.block), rows(z.length - from < z.block ? z.length - from : z.block),
          columns(z.causal && from + rows < z.width ? from + rows : z.width),
          mask{mask, z, batch * z.mask[0] + head * z.mask[1]} {}
    const T* at(const void* base, const long (&stride)[3], long group) const {
        return (const T*)base + batch * stride[0] + head / group * stride[1];
    }
    void scores(const T* q, const T* k, S* out) const {
        product(job.rt, rows, columns, z.depth, q + from * z.q[2], z.q[2], 1l, k, 1l, z.k[2], out, columns);
    }
    long visible(long row) const { return z.causal && from + row + 1 < z.width ? from + row + 1 : z.width; }
    // masked and scaled scores of a row in place; returns the greatest
    S prepare(S* s, long row) const {
        long n = visible(row);
        V scale = Compute<T>::splat((S)job.f[0]);
        for (long j = n; j < columns; j++) s[j] = -(S)__builtin_inff();
        each_vector<1>(0, n, [&](i64 j, auto m, int) FB_BODY {
            V x = ld(s + j, m) * scale;
            st(s + j, z.mask_kind ? mask(x, from + row, j, m) : x, m);
        });
        return max_row(s, n);
    }
    // what a row's scores are lowered by: its log-sum-exp, or nothing where it sees nothing
    V shift_of(S lse) const { return Compute<T>::splat(finite(lse) || lse != lse || lse > 0 ? lse : (S)0); }
    const bool* keep(const void* base, long row) const {
        return (const bool*)base + ((batch * z.heads + head) * z.length + from + row) * z.width;
    }
    void drop(S* s, const bool* keep) const {
        V scale = Compute<T>::splat((S)job.f[1]);
        each_vector<1>(0, columns, [&](i64 j, auto m, int) FB_BODY {
            V x = ld(s + j, m);
            st(s + j, v_where(ld(keep + j, m), x * scale, x * V{}), m);
        });
    }
};

template <class S> FB_INLINE void zero(S* s, long from, long to) { __builtin_memset(s + from, 0, (to - from) * sizeof(S)); }

// the weights in the operands' type: themselves, or rounded into `room`
template <class T, class S> FB_INLINE const T* rounded(const S* from, T* room, long n) {
    if constexpr (sizeof(T) == sizeof(S)) return (const T*)from;
    else {
        each_vector<1>(0, n, [&](i64 i, auto m, int) FB_BODY { st(room + i, ld(from + i, m), m); });
        return room;
    }
}

// p: out, lse, q, k, v, mask?, keep?; f: scale, scale of kept weights
template <class T> void attention_forward(const Job& job, long begin, long end) {
    typedef typename Compute<T>::S S;
    const AttentionSizes& z = *(const AttentionSizes*)job.n;
    long blocks = (z.length + z.block - 1) / z.block, tile = z.block * z.width;
    S* scores = (S*)job.rt->alloc(tile * (sizeof(S) + (sizeof(T) < 4 ? sizeof(T) : 0)) + z.block * sizeof(S));
    S* scales = scores + tile;
    T* room = (T*)(scales + z.block);
    for (long unit = begin; unit < end; unit++) {
        AttentionBlock<T> b(job, job.p[5], unit / blocks, unit % blocks);
        typedef typename Compute<T>::V V;
        b.scores(b.at(job.p[2], z.q, 1), b.at(job.p[3], z.k, z.group), scores);
        // weights that only pass on to the product are rounded into its operand at once
        bool straight = sizeof(T) < sizeof(S) && !job.p[6], plain = !z.mask_kind && job.f[0] >= 0;
        constexpr bool late = sizeof(T) == sizeof(S); // then the rows of the result are scaled
        V factor = Compute<T>::splat(plain ? (S)job.f[0] : (S)1);
        for (long row = 0; row < b.rows; row++) {
            S* s = scores + row * b.columns;
            long n = b.visible(row);
            S top = plain ? max_row(s, n) * (S)job.f[0] : b.prepare(s, row);
            V shift = Compute<T>::splat(top == -(S)__builtin_inff() ? (S)0 : top);
            double total = sum_row<V>(n, [&](i64 j, auto m) FB_BODY {
                V e = v_exp(ld(s + j, m) * factor - shift);
                st(s + j, e, m);
                return e;
            });
            V scale = Compute<T>::splat(total == 0 ? (S)0 : (S)(1.0 / total));
            T* w = room + row * b.columns;
            if (straight) each_vector<2>(0, n, [&](i64 j, auto m, int) FB_BODY { st(w + j, ld(s + j, m) * scale, m); });
            else if (!late) each_vector<2>(0, n, [&](i64 j, auto m, int) FB_BODY { st(s + j, ld(s + j, m) * scale, m); });
            if (late) scales[row] = total == 0 ? (S)0 : (S)(1.0 / total);
            if (straight) zero(w, n, b.columns);
            else zero(s, n, b.columns);
            if (job.p[6]) b.drop(s, b.keep(job.p[6], row));
            ((S*)job.p[1])[unit / blocks * z.length + b.from + row]
                = total == 0 ? -(S)__builtin_inff() : real_log((S)total) + top;
        }
        T* out = (T*)job.p[0] + (unit / blocks * z.length + b.from) * z.value_depth;
        product(job.rt, b.rows, z.value_depth, b.columns,
            straight ? room : rounded(scores, room, b.rows * b.columns), b.columns, 1l,
            b.at(job.p[4], z.v, z.group), z.v[2], 1l, out, z.value_depth);
        for (long row = 0; late && row < b.rows; row++, out += z.value_depth) {
            V scale = Compute<T>::splat(scales[row]);
            each_vector<2>(0, z.value_depth, [&](i64 j, auto m, int) FB_BODY { st(out + j, ld(out + j, m) * scale, m); });
        }
    }
    job.rt->release(scores);
}

// p: gq, gk, gv (contiguous, a key head for each head), q, k, v, mask?, keep?, g, lse; f as above
template <class T> void attention_backward(const Job& job, long begin, long end) {
    typedef typename Compute<T>::S S;
    typedef typename Compute<T>::V V;
    const AttentionSizes& z = *(const AttentionSizes*)job.n;
    long blocks = (z.length + z.block - 1) / z.block, tile = z.block * z.width;
    long deep = z.depth > z.value_depth ? z.depth : z.value_depth;
    S* weights = (S*)job.rt->alloc((3 * tile + z.width * deep) * sizeof(S));
    S *slope = weights + tile, *used = slope + tile, *more = used + tile;
    for (long item = begin; item < end; item++) {
        T *gk = (T*)job.p[1] + item * z.width * z.depth, *gv = (T*)job.p[2] + item * z.width * z.value_depth;
        for (long block = 0; block < blocks; block++) {
            AttentionBlock<T> b(job, job.p[6], item, block);
            const T *q = b.at(job.p[3], z.q, 1), *k = b.at(job.p[4], z.k, z.group), *v = b.at(job.p[5], z.v, z.group);
            const T* g = b.at(job.p[8], z.g, 1) + b.from * z.g[2];
            const S* lse = (const S*)job.p[9] + item * z.length + b.from;
            b.scores(q, k, weights);
            product(job.rt, b.rows, b.columns, z.value_depth, g, z.g[2], 1l, v, 1l, z.v[2], slope, b.columns);
            for (long row = 0; row < b.rows; row++) {
                S *w = weights + row * b.columns, *d = slope + row * b.columns, *u = used + row * b.columns;
                long n = b.visible(row);
                V scale = Compute<T>::splat((S)job.f[0]), before = scale, shift = b.shift_of(lse[row]);
                if (z.mask_kind) b.prepare(w, row), before = Compute<T>::splat((S)1);
                if (job.p[7]) b.drop(d, b.keep(job.p[7], row));
                V dot = Compute<T>::splat((S)sum_row<V>(n, [&](i64 j, auto m) FB_BODY {
                    V e = v_exp(ld(w + j, m) * before - shift);
                    st(w + j, e, m);
                    return e * ld(d + j, m);
                }));
                each_vector<2>(0, n, [&](i64 j, auto m, int) FB_BODY {
                    st(d + j, ld(w + j, m) * (ld(d + j, m) - dot) * scale, m);
                });
                zero(w, n, b.columns), zero(d, n, b.columns);
                if (job.p[7]) {
                    __builtin_memcpy(u, w, b.columns * sizeof(S));
                    b.drop(u, b.keep(job.p[7], row));
                }
            }
            const S* kept = job.p[7] ? used : weights;
            auto into = [&](const S* left, const T* right, long stride, long n, T* total) {
                S* out = block ? more : (S*)total;
                product(job.rt, b.columns, n, b.rows, (const T*)left, 1l, b.columns, right, stride, 1l, (T*)out, n);
                if (block)
                    each_vector<1>(0, b.columns * n,
                        [&](i64 i, auto m, int) FB_BODY { st(total + i, ld(total + i, m) + ld(more + i, m), m); });
                else __builtin_memset(total + b.columns * n, 0, (z.width - b.columns) * n * sizeof(T));
            };
            into(kept, g, z.g[2], z.value_depth, gv);
            into(slope, q + b.from * z.q[2], z.q[2], z.depth, gk);
            product(job.rt, b.rows, z.depth, b.columns, (const T*)slope, b.columns, 1l, k, z.k[2], 1l,
                (T*)job.p[0] + (item * z.length + b.from) * z.depth, z.depth);
        }
    }
    job.rt->release(weights);
}

#endif
