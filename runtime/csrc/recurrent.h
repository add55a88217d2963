// The steps of LSTM, GRU and plain recurrent layers over a whole sequence, forward and backward, in float.
//
// A job has one unit: all steps. The recurrent weights are packed once per sequence; within a step the hidden units are
// shared among threads, each of which multiplies its columns and applies the gates to them while they are in registers.
// Backward, the product of one step and the gates of the step before it are one pass over the columns.
#ifndef FB_RECURRENT_H
#define FB_RECURRENT_H

#include "gemm.h"
#include "job.h"

enum Cell { CELL_LSTM, CELL_GRU, CELL_TANH, CELL_RELU };
constexpr int gates_of(int cell) { return cell == CELL_LSTM ? 4 : cell == CELL_GRU ? 3 : 1; }
constexpr int kept_of(int cell) { return cell == CELL_LSTM || cell == CELL_GRU ? 4 : 0; }   // gates kept per unit
constexpr int rows_of(int vectors) { return FB_ISA == 512 ? 6 : vectors == 4 ? 3 : vectors == 3 ? 4 : 6; }
enum { BACK_VECTORS = 4, BACK_COLUMNS = BACK_VECTORS * FB_W, STEP_WORK = 1 << 15 };

FB_INLINE vf v_logistic(vf x) { return splat_f(1.f) / (splat_f(1.f) + v_exp(-x)); }

// acc[R][G] += a[R, K] * panel[K][G vectors]
template <int R, int G> FB_INLINE void multiply(long K, const float* a, long lda, const float* panel, vf (&acc)[R][G]) {
#pragma GCC unroll 4
    for (long k = 0; k < K; k++) {
        vf row[G];
#pragma GCC unroll 8
        for (int j = 0; j < G; j++) row[j] = ld(panel + j * FB_W, Full{});
#pragma GCC unroll 8
        for (int i = 0; i < R; i++) {
            vf x = splat_f(a[i * lda + k]);
#pragma GCC unroll 8
            for (int j = 0; j < G; j++) acc[i][j] = v_fma(x, row[j], acc[i][j]);
        }
        panel += G * FB_W;
    }
}

// what both directions know; T steps of N rows with H units
struct Steps {
    const Job& job;
    long T, N, H, reverse;
    const bool* valid;          // (T, N) or null
    float* packed;

    Steps(const Job& job, int at) : job(job), T(job.n[0]), N(job.n[1]), H(job.n[2]), reverse(job.n[3]),
        valid((const bool*)job.p[at]), packed(nullptr) {}
    float* array(int k) const { return (float*)job.p[k]; }
    long time(long step) const { return reverse ? T - 1 - step : step; }
    bool has(long t, long n) const { return !valid || valid[t * N + n]; }
    long grain(long units, long work) const { return work * units < STEP_WORK ? units : 1 + STEP_WORK / (2 * work); }
    float* scratch(long count) const { return (float*)job.rt->alloc(count * sizeof(float)); }
};

// ---- forward

// p: x, h0, c0, weight (G*H, H), bias of the new gate (GRU), valid, out, hn, cn, gates, cells; n: T, N, H, reverse,
// strides of x by step and by row
template <int cell> struct Forward : Steps {
    enum { G = gates_of(cell), R = rows_of(G) };
    const float *x, *h0, *c0, *bias;
    float *out, *gates, *cells, *state[2];
    long x_t, x_n, now;

    Forward(const Job& job) : Steps(job, 5), x(array(0)), h0(array(1)), c0(array(2)), bias(array(4)), out(array(6)),
        gates(array(9)), cells(array(10)), x_t(job.n[4]), x_n(job.n[5]), now(0) {}

    long blocks() const { return (H + FB_W - 1) / FB_W; }

    // panel of units [b * W, ...): for each k the weights of all gates
    void pack_panels(long begin, long end) {
        const float* weight = array(3);
        for (long b = begin; b < end; b++) {
            float* to = packed + b * H * G * FB_W;
            long width = H - b * FB_W < FB_W ? H - b * FB_W : FB_W;
            if (width < FB_W) __builtin_memset(to, 0, H * G * FB_W * sizeof(float));
            for (long g = 0; g < G; g++)
                pack_transposed(weight + (g * H + b * FB_W) * H, H, to + g * FB_W, G * FB_W, width, H);
        }
    }

    static void pack_range(void* self, long begin, long end, int) { ((Forward*)self)->pack_panels(begin, end); }

    void pack() {
        packed = scratch(blocks() * H * G * FB_W);
        job.rt->parallel_for(pack_range, this, blocks(), grain(blocks(), H * G * FB_W));
    }

    template <class M> void finish(long t, long n, long j, vf (&a)[G], M m) {
        const float* in = x + t * x_t + n * x_n + j;
        float* kept = kept_of(cell) ? gates + ((t * N + n) * kept_of(cell)) * H + j : nullptr;
        const float* h_before = (now ? state[(now - 1) & 1] : h0) + n * H + j;
        long before = time(now - 1);
        const float* c_before = cell == CELL_LSTM ? (now ? cells + before * N * H : c0) + n * H + j : nullptr;
        vf h, keep[4], c = {};
        if constexpr (cell == CELL_LSTM) {
            keep[0] = v_logistic(a[0] + ld(in, m)), keep[1] = v_logistic(a[1] + ld(in + H, m));
            keep[2] = v_tanh(a[2] + ld(in + 2 * H, m)), keep[3] = v_logistic(a[3] + ld(in + 3 * H, m));
            c = keep[1] * ld(c_before, m) + keep[0] * keep[2];
            h = keep[3] * v_tanh(c);
        } else if constexpr (cell == CELL_GRU) {
            keep[0] = v_logistic(a[0] + ld(in, m)), keep[1] = v_logistic(a[1] + ld(in + H, m));
            keep[3] = bias ? a[2] + ld(bias + j, m) : a[2];
            keep[2] = v_tanh(ld(in + 2 * H, m) + keep[0] * keep[3]);
            h = (splat_f(1.f) - keep[1]) * keep[2] + keep[1] * ld(h_before, m);
        } else {
            h = a[0] + ld(in, m);
            h = cell == CELL_TANH ? v_tanh(h) : v_where(h > splat_f(0.f), h, splat_f(0.f));
        }
        bool there = has(t, n);
        st(out + (t * N + n) * H + j, there ? h : vf{}, m);
        st(state[now & 1] + n * H + j, there ? h : ld(h_before, m), m);
        for (int g = 0; g < kept_of(cell); g++) st(kept + g * H, there ? keep[g] : vf{}, m);
        if constexpr (cell == CELL_LSTM) st(cells + (t * N + n) * H + j, there ? c : ld(c_before, m), m);
    }

    template <int rows> void rows_at(long t, long n, long b) {
        vf acc[rows][G] = {};
        const float* h = now ? state[(now - 1) & 1] : h0;
        multiply<rows, G>(H, h + n * H, H, packed + b * H * G * FB_W, acc);
        long j = b * FB_W, width = H - j;
        for (int i = 0; i < rows; i++)
            if (width >= FB_W) finish(t, n + i, j, acc[i], Full{});
            else finish(t, n + i, j, acc[i], Tail{(int)width});
    }

    void columns(long begin, long end) {
        long t = time(now);
        for (long b = begin; b < end; b++) {
            long n = 0;
            for (; n + R <= N; n += R) rows_at<R>(t, n, b);
            for (; n + 2 <= N; n += 2) rows_at<2>(t, n, b);
            for (; n < N; n++) rows_at<1>(t, n, b);
        }
    }

    static void range(void* self, long begin, long end, int) { ((Forward*)self)->columns(begin, end); }

    void run() {
        pack();
        float* states = scratch(2 * N * H);
        state[0] = states, state[1] = states + N * H;
        for (now = 0; now < T; now++)
            job.rt->parallel_for(range, this, blocks(), grain(blocks(), N * H * G));
        __builtin_memcpy(array(7), state[(T - 1) & 1], N * H * sizeof(float));
        if (cell == CELL_LSTM) __builtin_memcpy(array(8), cells + time(T - 1) * N * H, N * H * sizeof(float));
        job.rt->release(states);
        job.rt->release(packed);
    }
};

template <int cell> void recurrent_forward(const Job& job, long, long) { Forward<cell>(job).run(); }

// ---- backward

// p: gradients of out, hn, cn (or null); gates, cells, out, first state (GRU: h0, LSTM: c0), weight, valid; gradients
// of x, h0, and c0 (LSTM) or of the recurrent products (GRU); n: T, N, H, reverse, strides of the gradient of out
template <int cell> struct Backward : Steps {
    enum { G = gates_of(cell), C = BACK_VECTORS, R = rows_of(C) };
    const float *g_out, *gates, *cells, *out, *first;
    float *g_x, *products, *dh, *dc, *direct;
    long out_t, out_n, now;

    Backward(const Job& job) : Steps(job, 8), g_out(array(0)), gates(array(3)), cells(array(4)), out(array(5)),
        first(array(6)), g_x(array(9)), products(cell == CELL_GRU ? array(11) : array(9)), dh(array(10)),
        dc(cell == CELL_LSTM ? array(11) : nullptr), out_t(job.n[4]), out_n(job.n[5]), now(0) {}

    long panels() const { return (H + BACK_COLUMNS - 1) / BACK_COLUMNS; }

    void pack_panels(long begin, long end) {
        const float* weight = array(7);
        for (long b = begin; b < end; b++) {
            float* to = packed + b * G * H * BACK_COLUMNS;
            long j = b * BACK_COLUMNS, width = H - j < BACK_COLUMNS ? H - j : BACK_COLUMNS;
            for (long k = 0; k < G * H; k++, to += BACK_COLUMNS) {
                __builtin_memcpy(to, weight + k * H + j, width * sizeof(float));
                __builtin_memset(to + width, 0, (BACK_COLUMNS - width) * sizeof(float));
            }
        }
    }

    static void pack_range(void* self, long begin, long end, int) { ((Backward*)self)->pack_panels(begin, end); }

    void pack() {
        packed = scratch(panels() * G * H * BACK_COLUMNS);
        job.rt->parallel_for(pack_range, this, panels(), grain(panels(), G * H * BACK_COLUMNS));
    }

    long later(long step) const { return time(T - 1 - step); }      // the step that is `step`-th to be undone

    template <class M> void gate_row(long t, long n, long j, M m) {
        long row = t * N + n, before = reverse ? t + 1 : t - 1;
        bool started = before >= 0 && before < T;
        float* d = g_x + row * G * H + j;
        const float* kept = kept_of(cell) ? gates + row * kept_of(cell) * H + j : nullptr;
        vf step = ld(dh + n * H + j, m), one = splat_f(1.f), rest = {}, grads[4] = {}, q = {};
        if (!has(t, n)) {
            rest = step;
        } else {
            if (g_out) step = step + ld(g_out + t * out_t + n * out_n + j, m);
            if constexpr (cell == CELL_LSTM) {
                vf i = ld(kept, m), f = ld(kept + H, m), g = ld(kept + 2 * H, m), o = ld(kept + 3 * H, m);
                vf bent = v_tanh(ld(cells + row * H + j, m));
                vf c = ld((started ? cells + before * N * H : first) + n * H + j, m);
                vf slope = ld(dc + n * H + j, m) + step * o * (one - bent * bent);
                grads[0] = slope * g * i * (one - i), grads[1] = slope * c * f * (one - f);
                grads[2] = slope * i * (one - g * g), grads[3] = step * bent * o * (one - o);
                st(dc + n * H + j, slope * f, m);
            } else if constexpr (cell == CELL_GRU) {
                vf r = ld(kept, m), z = ld(kept + H, m), fresh = ld(kept + 2 * H, m), part = ld(kept + 3 * H, m);
                started = started && has(before, n);
                vf h = ld((started ? out + before * N * H : first) + n * H + j, m);
                grads[2] = step * (one - z) * (one - fresh * fresh);
                grads[0] = grads[2] * part * r * (one - r), grads[1] = step * (h - fresh) * z * (one - z);
                q = grads[2] * r, rest = step * z;
            } else {
                vf h = ld(out + row * H + j, m);
                grads[0] = cell == CELL_TANH ? step * (one - h * h) : v_where(h > splat_f(0.f), step, splat_f(0.f));
            }
        }
        st(direct + n * H + j, rest, m);
        for (int g = 0; g < G; g++) st(d + g * H, grads[g], m);
        if constexpr (cell == CELL_GRU) {
            float* p = products + row * G * H + j;
            st(p, grads[0], m), st(p + H, grads[1], m), st(p + 2 * H, q, m);
        }
    }

    // the gradient of the state before the step undone last: what passed it by, and the product
    template <int rows> void product_rows(long n, long b) {
        vf acc[rows][C] = {};
        const float* d = products + (later(now - 1) * N + n) * G * H;
        multiply<rows, C>(G * H, d, G * H, packed + b * G * H * BACK_COLUMNS, acc);
        for (int i = 0; i < rows; i++)
            for (int c = 0; c < C; c++) {
                long at = b * BACK_COLUMNS + c * FB_W, width = H - at;
                if (width <= 0) break;
                float *to = dh + (n + i) * H + at, *from = direct + (n + i) * H + at;
                if (width >= FB_W) st(to, ld(from, Full{}) + acc[i][c], Full{});
                else st(to, ld(from, Tail{(int)width}) + acc[i][c], Tail{(int)width});
            }
    }

    void gate_columns(long b) {
        long t = later(now), end = (b + 1) * BACK_COLUMNS < H ? (b + 1) * BACK_COLUMNS : H;
        for (long n = 0; n < N; n++) {
            long j = b * BACK_COLUMNS;
            for (; j + FB_W <= end; j += FB_W) gate_row(t, n, j, Full{});
            if (j < end) gate_row(t, n, j, Tail{(int)(end - j)});
        }
    }

    void columns(long begin, long end) {
        for (long b = begin; b < end; b++) {
            long n = now ? 0 : N;
            for (; n + R <= N; n += R) product_rows<R>(n, b);
            for (; n + 2 <= N; n += 2) product_rows<2>(n, b);
            for (; n < N; n++) product_rows<1>(n, b);
            if (now < T) gate_columns(b);
        }
    }

    static void range(void* self, long begin, long end, int) { ((Backward*)self)->columns(begin, end); }

    void start(float* to, const float* from) const {
        if (from) __builtin_memcpy(to, from, N * H * sizeof(float));
        else __builtin_memset(to, 0, N * H * sizeof(float));
    }

    void run() {
        pack();
        direct = scratch(N * H);
        start(dh, array(1));
        if (cell == CELL_LSTM) start(dc, array(2));
        for (now = 0; now <= T; now++)
            job.rt->parallel_for(range, this, panels(), grain(panels(), N * H * BACK_COLUMNS * G));
        job.rt->release(direct);
        job.rt->release(packed);
    }
};

template <int cell> void recurrent_backward(const Job& job, long, long) { Backward<cell>(job).run(); }

#define FB_RECURRENT(name, cell) \
    {name "_forward", {recurrent_forward<cell>, nullptr, nullptr, nullptr}}, \
    {name "_backward", {recurrent_backward<cell>, nullptr, nullptr, nullptr}}

#endif
