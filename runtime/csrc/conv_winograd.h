// Convolutions of 3x3 taps at stride 1 in squares of 2x2 results (Winograd's F(2x2, 3x3)): 16 products instead of 36.
//
// A 4x4 square of x becomes 16 sums V, a channel's taps 16 sums U; per number of the 16, U V is a product over channels,
// and each 2x2 square of results is made of its 16 sums. A panel is NR squares side by side, counted through the batch;
// its V is made where it is used, or all V first where panels are few. Sums over channels are made of short parts, so
// that errors are those of a direct sum (of 9 times as many terms). Numbers so large that a sum could overflow, infinities
// and NaNs are left to the direct kernel, since a square's sums would spread them. Include after conv.h.
#ifndef FB_CONV_WINOGRAD_H
#define FB_CONV_WINOGRAD_H

#include "conv.h"

enum { SUMS = 16, SUM_CHAIN = 32, SQUARE_ROWS = 48 };
static_assert(SQUARE_ROWS % MR == 0 && SQUARE_ROWS % FB_W == 0);

// up to W squares of one row of squares
struct Piece {
    int to, count;    // columns of the panel
    int rows;         // bit r: row r of x is there
    u32 lanes[4];     // columns of x that are there: from the first, W further, and both two to the right
    long from;        // offset in x
    long n, y, x;     // image, first row and column of the results
    int wide;         // columns of results
    bool both;        // the second row of results is there
    long at, below;   // places of the first row of results and of the second behind it
};

// The squares of a convolution, and the panels they make.
struct Squares {
    enum { W = FB_W, NR = NV * W };
    const ConvProblem& p;
    long first[2], high, wide, count, panels; // of x: where the first window begins; rows and columns of squares
    int place[9];                             // of a number of the weight among the taps, row by row

    Squares(const ConvProblem& p) : p(p) {
        for (int d = 0; d < 2; d++) {
            first[d] = p.tap[0].at[d + 1];
            for (long t = 1; t < p.taps; t++) first[d] = p.tap[t].at[d + 1] < first[d] ? p.tap[t].at[d + 1] : first[d];
        }
        for (long t = 0; t < p.taps && t < 9; t++)
            place[p.tap[t].weight] = (int)((p.tap[t].at[1] - first[0]) * 3 + p.tap[t].at[2] - first[1]);
        high = (p.windows[1] + 1) / 2, wide = (p.windows[2] + 1) / 2;
        count = p.batch * high * wide, panels = (count + NR - 1) / NR;
    }
    int columns(long panel) const { return count - panel * NR < NR ? (int)(count - panel * NR) : (int)NR; }

    // Columns of x that a vector `shift` beyond a piece's first one may read.
    u32 lanes(long w, long shift) const {
        long begin = -(w + shift), end = p.in[2] - (w + shift);
        if (begin < 0) begin = 0;
        if (end > W) end = W;
        return begin >= end ? 0 : (u32)((1ul << end) - (1ul << begin));
    }
    int pieces(long panel, Piece* out) const {
        long q = panel * NR, y = q / wide % high, x = q % wide, n = q / (wide * high), end = columns(panel), at = 0;
        int found = 0;
        for (int to = 0; to < end;) {
            int take = wide - x < end - to ? (int)(wide - x) : (int)end - to;
            if (take > W) take = W;
            Piece& e = out[found++];
            long h = first[0] + 2 * y, w = first[1] + 2 * x;
            e.to = to, e.count = take, e.n = n, e.y = 2 * y, e.x = 2 * x;
            e.rows = 0;
            for (int r = 0; r < 4; r++) e.rows |= (h + r >= 0 && h + r < p.in[1]) << r;
            e.from = n * p.x_n + h * p.x_s[1] + w;
            for (int v = 0; v < 4; v++) e.lanes[v] = lanes(w, v % 2 * W + v / 2 * 2);
            e.wide = p.windows[2] - 2 * x < 2 * take ? (int)(p.windows[2] - 2 * x) : 2 * take;
            e.both = 2 * y + 1 < p.windows[1];
            to += take, x += take;
            if (x == wide) x = 0, y++;
            if (y == high) y = 0, n++;
        }
        return found;
    }
};

// ---- the three transforms: columns first, then rows
FB_INLINE void square_sums(const vf* d, vf* v, long step) {
    v[0] = d[0] - d[2 * step], v[step] = d[step] + d[2 * step];
    v[2 * step] = d[2 * step] - d[step], v[3 * step] = d[step] - d[3 * step];
}
FB_INLINE void tap_sums(vf a, vf b, vf c, vf* u, long step) {
    vf half = splat_f(0.5f), ends = (a + c) * half, middle = b * half;
    u[0] = a, u[step] = ends + middle, u[2 * step] = ends - middle, u[3 * step] = c;
}

struct ConvWinograd {
    enum { W = FB_W, NR = NV * W, CHANNELS = 32 };
    const ConvProblem& p;
    const FbRuntime& rt;
    Squares squares;
    long row_blocks, u_size, v_size; // of one of the 16
    float* u;                        // (16, block of rows, channels, rows of a block)
    float* all;                      // V of all panels, or null

    // ---- U
    static void tap_range(void* self, long begin, long end, int) {
        const ConvWinograd& f = *(const ConvWinograd*)self;
        long parts = (f.p.channels + CHANNELS - 1) / CHANNELS;
        for (long i = begin; i < end; i++) {
            long c = i % parts * CHANNELS, past = f.p.channels - c < CHANNELS ? f.p.channels : c + CHANNELS;
            long o = i / parts * SQUARE_ROWS, below = o + f.rows(o);
            for (; c < past; c++)
                for (long r = o; r < below; r += W) f.transform_taps(c, r);
        }
    }
    // lanes are rows; a row's nine taps lie together
    void transform_taps(long c, long o) const {
        int count = p.made - o < W ? (int)(p.made - o) : (int)W;
        const float* from = (const float*)p.w + o * p.w_o + c * p.w_c;
        vf taps[9], across[3 * 4], sums[SUMS];
        for (int t = 0; t < 9; t += W) {
            vf square[W];
            Tail there = {9 - t < W ? 9 - t : (int)W};
            for (int l = 0; l < W; l++) square[l] = l < count ? ld(from + l * p.w_o + t, there) : (vf){};
            transpose(square);
            for (int k = 0; k < there.n; k++) taps[squares.place[t + k]] = square[k];
        }
#pragma GCC unroll 3
        for (int i = 0; i < 3; i++) tap_sums(taps[3 * i], taps[3 * i + 1], taps[3 * i + 2], across + 4 * i, 1);
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++) tap_sums(across[j], across[4 + j], across[8 + j], sums + j, 4);
        float* to = taps_of(0, o, c) + o % SQUARE_ROWS;
#pragma GCC unroll 16
        for (int s = 0; s < SUMS; s++) st(to + s * u_size, sums[s], Full{});
    }
    // U of a block of rows, from channel c on
    float* taps_of(int s, long o, long c) const { return u + s * u_size + (o / SQUARE_ROWS * p.channels + c) * SQUARE_ROWS; }
    // ---- V
    FB_INLINE vf even(vf a, vf b) { return __builtin_shufflevector(a, b, FB_EVEN); }
    FB_INLINE vf odd(vf a, vf b) { return __builtin_shufflevector(a, b, FB_ODD); }
    // channels [begin, end) of the panel's squares
    void transform_squares(const Piece* piece, int pieces, int columns, long begin, long end, float* v) const {
        int last = (columns + W - 1) / W * W;
        for (long c = begin; c < end; c++) {
            const float* x = (const float*)p.x + c * p.x_c;
            float* to = v + c * NR;
            for (int i = 0; i < pieces; i++) transform_piece(piece[i], x + piece[i].from, to + piece[i].to);
            const Piece& e = piece[pieces - 1];
            for (int k = e.to + W; k < last; k++)
                for (int s = 0; s < SUMS; s++) to[s * v_size + k] = 0;
        }
    }
    inline __attribute__((always_inline)) void transform_piece(const Piece& e, const float* x, float* to) const {
        vf across[SUMS], sums[SUMS];
#pragma GCC unroll 4
        for (int r = 0; r < 4; r++) {
            u32 there = e.rows >> r & 1 ? ~0u : 0;
            const float* row = x + r * p.x_s[1];
            vf a = load_lanes<float>(row, e.lanes[0] & there), b = load_lanes<float>(row + W, e.lanes[1] & there);
            vf c = load_lanes<float>(row + 2, e.lanes[2] & there), d = load_lanes<float>(row + W + 2, e.lanes[3] & there);
            vf square[4] = {even(a, b), odd(a, b), even(c, d), odd(c, d)};
            square_sums(square, across + 4 * r, 1);
        }
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++) square_sums(across + j, sums + j, 4);
        Tail tail = {e.to + W <= NR ? (int)W : NR - e.to};
        if (tail.n == W)
#pragma GCC unroll 16
            for (int s = 0; s < SUMS; s++) st(to + s * v_size, sums[s], Full{});
        else
            for (int s = 0; s < SUMS; s++) st(to + s * v_size, sums[s], tail);
    }
    // ---- results
    // rows [o, o + rows) of one panel: products, then squares of results to the epilogue (by way of `y`) or to `out`
    void block(Piece* piece, int pieces, int columns, long o, long rows, const float* v, float* m, float* y) const {
        long m_size = (SQUARE_ROWS + 1) * NR, ldy = place(piece, pieces);
        int vectors = (columns + W - 1) / W;
        for (int s = 0; s < SUMS; s++)
            for (long c = 0; c < p.channels; c += SUM_CHAIN) {
                long depth = p.channels - c < SUM_CHAIN ? p.channels - c : (long)SUM_CHAIN;
                for (long i = 0; i < rows; i += MR)
                    micro_kernel<float>(rows - i < MR ? (int)(rows - i) : (int)MR, vectors)(depth,
                        taps_of(s, o, c) + i, 1, SQUARE_ROWS, v + s * v_size + c * NR, NR,
                        m + s * m_size + i * NR, NR, c > 0, 0);
            }
        for (long i = 0; i < rows; i++) {
            float* to = p.epilogue ? y + i * ldy : (float*)p.out + (o + i) * p.out_c;
            vf bias = splat_f(p.bias ? ((const float*)p.bias)[o + i] : 0.f);
            for (int k = 0; k < pieces; k++) finish_piece(piece[k], m + i * NR + piece[k].to, m_size, bias, to + piece[k].at);
        }
        if (p.epilogue) hand_out(piece, pieces, o, rows, y, ldy);
    }
    FB_INLINE void put_row(float* to, vf left, vf right, int wide) {
        vf low = __builtin_shufflevector(left, right, FB_ZIP_LOW), high = __builtin_shufflevector(left, right, FB_ZIP_HIGH);
        if (wide >= W) st(to, low, Full{});
        else st(to, low, Tail{wide});
        if (wide == 2 * W) st(to + W, high, Full{});
        else if (wide > W) st(to + W, high, Tail{wide - W});
    }
    FB_INLINE void finish_piece(const Piece& e, const float* m, long m_size, vf bias, float* to) {
        vf upper[4], lower[4];
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++) {
            vf a = ld_native(m + j * m_size), b = ld_native(m + (4 + j) * m_size), c = ld_native(m + (8 + j) * m_size),
               d = ld_native(m + (12 + j) * m_size);
            upper[j] = a + b + c, lower[j] = b - c - d;
        }
        put_row(to, upper[0] + upper[1] + upper[2] + bias, upper[1] - upper[2] - upper[3] + bias, e.wide);
        if (e.both)
            put_row(to + e.below, lower[0] + lower[1] + lower[2] + bias, lower[1] - lower[2] - lower[3] + bias, e.wide);
    }
    // Where each piece's results go: into `out`, or behind each other, a stretch's first row and then its second.
    long place(Piece* piece, int pieces) const {
        long at = 0;
        for (int i = 0; i < pieces;) {
            int end = i + 1;
            long width = piece[i].wide;
            for (; end < pieces && piece[end].n == piece[i].n && piece[end].y == piece[i].y; end++) width += piece[end].wide;
            for (long start = at; i < end; at += piece[i++].wide) {
                Piece& e = piece[i];
                e.at = p.epilogue ? at : e.n * p.out_n + e.y * p.out_s[1] + e.x;
                e.below = p.epilogue ? width : p.out_s[1];
            }
            if (piece[end - 1].both) at += width;
        }
        return (at + W - 1) / W * W;
    }
    // rows of results that follow each other in one image go together
    void hand_out(const Piece* piece, int pieces, long o, long rows, const float* y, long ldy) const {
        long flat = -1, begin = 0, count = 0, n = 0;
        auto give = [&](long image, long window, long at, long width) {
            if (count && image == n && window == flat + count) return (void)(count += width);
            if (count) p.epilogue(p.epilogue_arg, y + begin, ldy, n, o, flat, rows, count);
            n = image, flat = window, begin = at, count = width;
        };
        for (int i = 0; i < pieces;) {
            const Piece& e = piece[i];
            long width = 0, window = e.y * p.windows[2] + e.x;
            for (; i < pieces && piece[i].n == e.n && piece[i].y == e.y; i++) width += piece[i].wide;
            give(e.n, window, e.at, width);
            if (e.both) give(e.n, window + p.windows[2], e.at + e.below, width);
        }
        give(-1, 0, 0, 0);
    }

    // ---- units of work
    float* panel(long i) const { return all + i * SUMS * v_size; }
    static void square_range(void* self, long begin, long end, int) {
        const ConvWinograd& f = *(const ConvWinograd*)self;
        Piece piece[NR];
        long parts = (f.p.channels + CHANNELS - 1) / CHANNELS;
        for (long i = begin; i < end; i++) {
            long c = i % parts * CHANNELS, past = f.p.channels - c < CHANNELS ? f.p.channels : c + CHANNELS;
            int pieces = f.squares.pieces(i / parts, piece);
            f.transform_squares(piece, pieces, f.squares.columns(i / parts), c, past, f.panel(i / parts));
        }
    }
    long scratch_size() const { return (SQUARE_ROWS + 1) * SUMS * NR + SQUARE_ROWS * (4 * NR + W); }
    // panels with V of their own, all rows each
    static void panel_range(void* self, long begin, long end, int) {
        const ConvWinograd& f = *(const ConvWinograd*)self;
        Piece piece[NR];
        float* m = (float*)f.rt.alloc((f.scratch_size() + SUMS * f.v_size) * (long)sizeof(float) + 64);
        float *y = m + (SQUARE_ROWS + 1) * SUMS * NR, *v = m + f.scratch_size();
        for (long i = begin; i < end; i++) {
            int pieces = f.squares.pieces(i, piece), columns = f.squares.columns(i);
            f.transform_squares(piece, pieces, columns, 0, f.p.channels, v);
            for (long o = 0; o < f.p.made; o += SQUARE_ROWS)
                f.block(piece, pieces, columns, o, f.rows(o), v, m, y);
        }
        f.rt.release(m);
    }
    // blocks of rows of panels whose V is there
    static void block_range(void* self, long begin, long end, int) {
        const ConvWinograd& f = *(const ConvWinograd*)self;
        Piece piece[NR];
        float* m = (float*)f.rt.alloc(f.scratch_size() * (long)sizeof(float) + 64);
        for (long i = begin; i < end; i++) {
            long q = i / f.row_blocks, o = i % f.row_blocks * SQUARE_ROWS;
            int pieces = f.squares.pieces(q, piece);
            f.block(piece, pieces, f.squares.columns(q), o, f.rows(o), f.panel(q), m, m + (SQUARE_ROWS + 1) * SUMS * NR);
        }
        f.rt.release(m);
    }
    long rows(long o) const { return p.made - o < SQUARE_ROWS ? p.made - o : (long)SQUARE_ROWS; }

    void spread(FbRange fn, long n) {
        if (n == 1) fn(this, 0, n, 0);
        else rt.parallel_for(fn, this, n, 1);
    }
    void multiply() {
        row_blocks = (p.made + SQUARE_ROWS - 1) / SQUARE_ROWS;
        u_size = row_blocks * SQUARE_ROWS * p.channels + 2 * W, v_size = p.channels * NR + NR; // never a multiple of the cache's period
        u = (float*)rt.alloc(SUMS * u_size * (long)sizeof(float) + 64);
        spread(tap_range, (p.channels + CHANNELS - 1) / CHANNELS * row_blocks);
        all = 0;
        if (squares.panels >= 8 * rt.num_threads()) spread(panel_range, squares.panels);
        else {
            all = (float*)rt.alloc(squares.panels * SUMS * v_size * (long)sizeof(float) + 64);
            spread(square_range, squares.panels * ((p.channels + CHANNELS - 1) / CHANNELS));
            spread(block_range, squares.panels * row_blocks);
            rt.release(all);
        }
        rt.release(u);
    }
    static bool takes(const ConvProblem& p) {
        if (p.groups != 1 || p.taps != 9 || p.type != FB_FLOAT || p.in[0] != 1 || p.windows[0] != 1 || p.x_s[2] != 1) return false;
        if (p.step[1] != 1 || p.step[2] != 1 || p.channels < 32 || p.made < 32 || (!p.epilogue && p.out_s[2] != 1)) return false;
        long low[2] = {p.tap[0].at[1], p.tap[0].at[2]}, seen = 0;
        for (long t = 1; t < 9; t++)
            for (int d = 0; d < 2; d++) low[d] = p.tap[t].at[d + 1] < low[d] ? p.tap[t].at[d + 1] : low[d];
        for (long t = 0; t < 9; t++) {
            long h = p.tap[t].at[1] - low[0], w = p.tap[t].at[2] - low[1];
            if (h > 2 || w > 2 || p.tap[t].at[0]) return false;
            seen |= 1 << (h * 3 + w);
        }
        return seen == 511 && pays(p);
    }
    // The direct kernel's products against these, with what the transforms take.
    static bool pays(const ConvProblem& p) {
        Squares s(p);
        double direct = 9.0 * p.batch * p.windows[1] * p.windows[2], squares = (s.count + W - 1) / W * W;
        return direct > 20 * squares + 1200; // measured: U of wide layers does not fit the caches
    }
    // ---- numbers that may be added up in any order: none so large that a sum could overflow, no infinity, no NaN
    struct Numbers {
        const ConvProblem& p;
        int wild;
        static void range(void* self, long begin, long end, int) {
            Numbers& f = *(Numbers*)self;
            const ConvProblem& p = f.p;
            bool whole = p.x_s[1] == p.in[2];
            long rows = whole ? 1 : p.in[1], count = whole ? p.in[1] * p.in[2] : p.in[2];
            vi most = {};
            for (long i = begin; i < end; i++)
                for (long h = 0; h < rows; h++)
                    most = largest(most, (const float*)p.x + i / p.channels * p.x_n + i % p.channels * p.x_c + h * p.x_s[1], count);
            f.judge(most);
        }
        // bits of magnitudes, which have the order of the magnitudes
        static vi largest(vi most, const float* x, long n) {
            long i = 0;
            for (; i + W <= n; i += W) most = larger(most, (vi)ld(x + i, Full{}) & splat_i(0x7fffffff));
            if (i < n) most = larger(most, (vi)ld(x + i, Tail{(int)(n - i)}) & splat_i(0x7fffffff));
            return most;
        }
        FB_INLINE vi larger(vi a, vi b) { return a > b ? a : b; }
        static bool beyond(vi most) {
            for (int l = 0; l < W; l++)
                if (most[l] > 0x5d000000) return true; // 2^59
            return false;
        }
        void judge(vi most) {
            if (beyond(most)) __atomic_store_n(&wild, 1, __ATOMIC_RELAXED);
        }
        bool tame(const FbRuntime& rt) {
            judge(largest((vi){}, (const float*)p.w, p.made * p.channels * 9));
            rt.parallel_for(range, this, p.batch * p.channels, 1);
            return !wild;
        }
    };
    // false: these numbers are for the direct kernel
    bool run() {
        if (!Numbers{p}.tame(rt)) return false;
        multiply();
        return true;
    }
};

#endif
