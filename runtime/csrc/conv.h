// Convolutions from registers up: windows gathered straight into the panels of the product's micro-kernel.
//
// Columns of a panel are window positions, counted through the whole batch; rows are (channel, tap). A row of a panel is
// made of runs: stretches of x along its last dim, or zeros beyond its edges. The runs of each tap are found once per
// panel and serve all channels. Include after gemm.h inside an anonymous namespace per ISA.
#ifndef FB_CONV_H
#define FB_CONV_H

#include "conv_problem.h"
#include "gemm.h"

enum { CONV_KC = 512, CONV_PANELS = 4, CONV_SLACK = 64 };

// ---- vectors of T read from S
template <class T, class S> FB_INLINE typename Lanes<T>::V load_as(const S* p) {
    if constexpr (sizeof(T) == 8) return ld_native(p);
    else return ld(p, Full{});
}
FB_INLINE void put(double* p, hd x) { st_native(p, x); }
template <class S> FB_INLINE void put(S* p, vf x) { st(p, x, Full{}); }
FB_INLINE void put1(double* p, double x) { *p = x; }
FB_INLINE void put1(float* p, float x) { *p = x; }
FB_INLINE void put1(bf16* p, float x) { *p = bf16{float_to_bf16(splat_f(x))[0]}; }
FB_INLINE void put1(f16* p, float x) { *p = f16{float_to_half(splat_f(x))[0]}; }

// ---- runs: where the columns of a panel come from
enum RunKind { RUN_ZEROS, RUN_WHOLE, RUN_MASKED };
struct Run {
    int to, count, kind, masks; // masks: number of the first word of bits, for a masked run
    long from; // offset in x; of a masked run also where x does not reach
};

// positions of one row of windows: `count` from `w` on, at columns `to` of the panel
struct Stretch {
    int to, count;
    long n, at[3];
};

template <int NR> struct Stretches {
    Stretch s[NR];
    int count;
    // windows [q, q + columns) counted through the batch
    Stretches(const ConvProblem& p, long q, int columns) : count(0) {
        long w = p.windows[2], per = p.windows[0] * p.windows[1] * w;
        long n = q / per, r = q % per, d = r / (p.windows[1] * w), h = r / w % p.windows[1], x = r % w;
        for (int to = 0; to < columns;) {
            int take = w - x < columns - to ? (int)(w - x) : columns - to;
            s[count++] = {to, take, n, {d, h, x}};
            to += take, x = 0;
            if (++h == p.windows[1]) h = 0, d++;
            if (d == p.windows[0]) d = 0, n++;
        }
    }
};

// Runs of one tap. `bits` holds one bit a column, each run's from a word of its own on.
struct RunList {
    Run* r;
    u64* bits;
    int count, words;
    void clear() { count = words = 0; }
    // columns [first, end) of a stretch of n are there, the others are zeros
    void add(int to, int n, long first, long end, long from, long along) {
        Run* last = count ? &r[count - 1] : 0;
        if (along != 1) {
            plain(to, (int)first, RUN_ZEROS, 0, along);
            plain(to + (int)first, (int)(end - first), RUN_WHOLE, from + first * along, along);
            plain(to + (int)end, n - (int)end, RUN_ZEROS, 0, along);
            return;
        }
        if (!last || from != last->from + last->count) {
            last = &r[count++];
            *last = {to, 0, RUN_WHOLE, words, from};
        }
        int base = last->count;
        for (int k = base; k < base + n; k += 64 - k % 64)
            if (k % 64 == 0) bits[words++] = 0;
        mark(last->masks, base + (int)first, base + (int)end);
        last->count += n;
        if (first > 0 || end < n) last->kind = RUN_MASKED;
    }
    void mark(int word, int begin, int end) {
        while (begin < end) {
            int k = begin % 64, n = end - begin < 64 - k ? end - begin : 64 - k;
            bits[word + begin / 64] |= (n == 64 ? ~0ul : (1ul << n) - 1) << k;
            begin += n;
        }
    }
    void plain(int to, int n, int kind, long from, long along) {
        if (n <= 0) return;
        Run* last = count ? &r[count - 1] : 0;
        if (last && last->kind == kind && (kind == RUN_ZEROS || from == last->from + last->count * along)) last->count += n;
        else r[count++] = {to, n, kind, 0, from};
    }
};

FB_INLINE long ceil_div(long a, long b) { return a >= 0 ? (a + b - 1) / b : -(-a / b); }

// at most three runs a stretch
template <int NR> inline void runs_of_tap(const ConvProblem& p, const ConvTap& tap, const Stretches<NR>& all, RunList& out) {
    out.clear();
    long step = p.step[2], along = step * p.x_s[2];
    for (int k = 0; k < all.count; k++) {
        const Stretch& s = all.s[k];
        long d = s.at[0] * p.step[0] + tap.at[0], h = s.at[1] * p.step[1] + tap.at[1], w = s.at[2] * step + tap.at[2];
        long first = w < 0 ? ceil_div(-w, step) : 0, end = p.in[2] - w > 0 ? ceil_div(p.in[2] - w, step) : 0;
        if (d < 0 || d >= p.in[0] || h < 0 || h >= p.in[1]) first = end = s.count;
        if (first > s.count) first = s.count;
        if (end > s.count) end = s.count;
        if (end < first) end = first;
        out.add(s.to, s.count, first, end, s.n * p.x_n + d * p.x_s[0] + h * p.x_s[1] + w * p.x_s[2] + tap.from, along);
    }
}

// Whole vectors are written: up to a vector beyond `n` is overwritten, which a later run, row or slack takes.
template <class S, class T> FB_INLINE void copy_run(const S* from, long along, T* to, long n, const S* end) {
    enum { W = Lanes<T>::W };
    if (along == 1 && from + n + W <= end) {
        for (long j = 0; j < n; j += W) st_native(to + j, load_as<T>(from + j));
        return;
    }
    if constexpr (sizeof(T) == 4)
        if (along == 2 && from + 2 * (n + W) <= end) {
            for (long j = 0; j < n; j += W)
                st_native(to + j, __builtin_shufflevector(load_as<T>(from + 2 * j), load_as<T>(from + 2 * j + W), FB_EVEN));
            return;
        }
    for (long j = 0; j < n; j++) to[j] = (T)scalar(from[j * along]);
}
// The lanes of `mask`; no other byte is read.
template <class T, class S> FB_INLINE typename Lanes<T>::V load_lanes(const S* p, u32 mask) {
    enum { W = Lanes<T>::W };
#if FB_ISA == 512
    if constexpr (sizeof(S) == 4) return __builtin_ia32_loadups512_mask(p, (vf){}, (u16)mask);
#elif FB_ISA == 256
    if constexpr (sizeof(S) == 4)
        return __builtin_ia32_maskloadps256((const vf*)p, (splat_i((int)mask) >> lane_numbers() & splat_i(1)) != 0);
#endif
    T lanes[W];
    for (int l = 0; l < W; l++) lanes[l] = mask >> l & 1 ? (T)scalar(p[l]) : (T)0;
    return ld_native(lanes);
}
template <class S, class T>
FB_INLINE void masked_run(const S* from, const u64* bits, T* to, long n) {
    enum { W = Lanes<T>::W };
    const u32 all = (u32)((1ul << W) - 1);
    for (long j = 0; j < n; j += W) {
        u32 mask = (u32)(bits[j / 64] >> (j % 64)) & all;
        if (mask == all) st_native(to + j, load_as<T>(from + j));
        else st_native(to + j, load_lanes<T>(from + j, mask));
    }
}
template <class T> FB_INLINE void zero_run(T* to, long n) {
    typedef typename Lanes<T>::V V;
    for (long j = 0; j < n; j += Lanes<T>::W) st_native(to + j, (V){});
}

// The runs of all taps for one block of columns.
template <int NR> struct Gather {
    const ConvProblem& p;
    RunList* lists;
    void open(const FbRuntime& rt) {
        enum { WORDS = NR + NR / 64 };
        lists = (RunList*)rt.alloc(p.taps * (long)(sizeof(RunList) + 3 * NR * sizeof(Run) + WORDS * sizeof(u64)) + 64);
        Run* runs = (Run*)(lists + p.taps);
        u64* bits = (u64*)(runs + p.taps * 3 * NR);
        for (long t = 0; t < p.taps; t++) lists[t].r = runs + t * 3 * NR, lists[t].bits = bits + t * WORDS;
    }
    void close(const FbRuntime& rt) { rt.release(lists); }
    void aim(long q, int columns) {
        Stretches<NR> s(p, q, columns);
        for (long t = 0; t < p.taps; t++) runs_of_tap(p, p.tap[t], s, lists[t]);
    }
    // rows [k, k + depth) of group `g`, `width` apart
    template <class S, class T> void rows(long g, long k, long depth, T* to, long width) const {
        if (!depth) return;
        const S *x = (const S*)p.x + g * p.channels * p.x_c, *end = (const S*)p.x + p.x_size;
        long c = k / p.taps, t = k % p.taps, along = p.step[2] * p.x_s[2];
        for (long i = 0; i < depth; i++, to += width) {
            const RunList& list = lists[t];
            for (const Run *r = list.r, *last = r + list.count; r < last; r++)
                if (r->kind == RUN_ZEROS) zero_run(to + r->to, r->count);
                else if (r->kind == RUN_MASKED)
                    masked_run(x + c * p.x_c + r->from, list.bits + r->masks, to + r->to, r->count);
                else copy_run(x + c * p.x_c + r->from, along, to + r->to, r->count, end);
            if (++t == p.taps) t = 0, c++;
        }
    }
};

template <class S, class T> FB_INLINE void store_run(const T* from, T bias, S* to, long along, long n) {
    enum { W = Lanes<T>::W };
    long j = 0;
    if (along == 1)
        for (; j + W <= n; j += W) put(to + j, ld_native(from + j) + splat_native(bias));
    for (; j < n; j++) put1(to + j * along, from[j] + bias);
}

// MR runs of `taps` floats that follow each other, into `taps` groups of MR: two shuffles for sixteen of them.
struct Turn {
#if FB_ISA == 512
    enum { MOST = 64 };
    vi from[4];
    explicit Turn(long taps) {
        for (long e = 0; e < MOST; e++) from[e / 16][e % 16] = (int)(e % MR * taps + e / MR);
    }
    // reads and writes MOST floats
    inline __attribute__((always_inline)) void operator()(const float* at, float* to) const {
        vf a = ld_native(at), b = ld_native(at + 16), c = ld_native(at + 32), d = ld_native(at + 48);
        for (int j = 0; j < 4; j++)
            st_native(to + 16 * j, from[j] < 32 ? __builtin_shuffle(a, b, from[j]) : __builtin_shuffle(c, d, from[j]));
    }
#else
    enum { MOST = 0 };
    explicit Turn(long) {}
    void operator()(const float*, float*) const {}
#endif
};

// ---- out = weight * windows + bias
template <class S, class T> struct ConvForward {
    enum { W = Lanes<T>::W, NR = NV * W };
    const ConvProblem& p;
    const FbRuntime& rt;
    long K, columns, panels, strips, group_panels, group_rows, tiles_n, tiles_m, panel_size;
    T* a;       // strips of the weight, or null: read in place, or packed by the tile that alone needs them
    bool in_place;
    T* packed;  // all of the windows, or null: gathered tile by tile

    long depth_of(long k) const { return K - k < CONV_KC ? K - k : (long)CONV_KC; }
    T* strip(long g, long s) const { return a + (g * strips + s) * K * MR; }

    // strips [begin, end) of all groups
    static void pack_weight(void* self, long begin, long end, int) {
        const ConvForward& f = *(const ConvForward*)self;
        for (long i = begin; i < end;) {
            long g = i / f.strips, s = i % f.strips, count = f.strips - s < end - i ? f.strips - s : end - i;
            f.pack_rows(g, s, count, f.strip(g, s));
            i += count;
        }
    }
    // `count` strips of group g from strip s on: a channel of x after the other, so that the weight is read in long stretches
    void pack_rows(long g, long s, long count, T* to) const {
        Turn turn(p.taps);
        bool whole = sizeof(S) == 4 && sizeof(T) == 4 && turns();
        const S* from = (const S*)p.w + g * p.w_g + s * MR * p.w_o;
        for (long c = 0; c < p.channels; c++, from += p.w_c, to += p.taps * MR)
            for (long i = 0; i < count; i++) {
                const S* at = from + i * MR * p.w_o;
                long rows = p.made - (s + i) * MR < MR ? p.made - (s + i) * MR : (long)MR;
                for (int line = 0; line < 4; line++) __builtin_prefetch((const char*)(at + 8 * p.w_c) + line * 64);
                if (whole && rows == MR && c < p.channels - 1) turn((const float*)at, (float*)(to + i * K * MR));
                else pack_taps(at, rows, to + i * K * MR);
            }
    }
    void pack_taps(const S* from, long rows, T* to) const {
        for (long t = 0; t < p.taps; t++, to += MR) {
            const S* at = from + p.tap[t].weight;
            if (rows == MR)
#pragma GCC unroll 6
                for (int r = 0; r < MR; r++) to[r] = (T)scalar(at[r * p.w_o]);
            else
                for (long r = 0; r < rows; r++) to[r] = (T)scalar(at[r * p.w_o]);
        }
    }
    bool taps_in_order() const {
        for (long t = 0; t < p.taps; t++)
            if (p.tap[t].weight != t) return false;
        return true;
    }
    // (what Turn writes beyond a channel's group is less than the next group: the last channel's is written after it)
    bool turns() const {
        long group = p.taps * MR;
        return p.w_o == p.taps && p.w_c >= Turn::MOST && group <= Turn::MOST && 2 * group > Turn::MOST && taps_in_order();
    }
    bool weight_in_place() const { return sizeof(S) == sizeof(T) && p.w_c == p.taps && taps_in_order(); }

    // a block of the result: rows [o, o + rows) of group g, the panels [first, first + count)
    void block(long g, long o, long rows, long first, long count, const T* strips, T* windows, T* c, Gather<NR>& gather) const {
        long ldc = group_panels * NR;
        for (long k = 0; k < K || k == 0; k += CONV_KC) {
            long depth = depth_of(k);
            for (long j = 0; j < count; j++) {
                long q = (first + j) * NR, left = columns - q < NR ? columns - q : (long)NR;
                T* b = packed ? packed + (g * panels + first + j) * panel_size + k * NR : windows;
                if (!packed) {
                    if (k == 0 || count > 1) gather.aim(q, (int)left);
                    gather.template rows<S>(g, k, depth, b, NR);
                }
                for (long i = 0; i < rows; i += MR) {
                    int r = rows - i < MR ? (int)(rows - i) : (int)MR;
                    const T* left_side = in_place ? (const T*)p.w + g * p.w_g + (o + i) * p.w_o + k : strips + i * K + k * MR;
                    micro_kernel<T>(r, (int)((left + W - 1) / W))(depth, left_side, in_place ? p.w_o : 1, in_place ? 1 : MR, b, NR,
                        c + i * ldc + j * NR, ldc, k > 0, 0);
                }
            }
        }
        for (long j = 0; j < count; j++)
            if (p.epilogue) hand_out(g, o, rows, first + j, c + j * NR, ldc);
            else write(g, o, rows, first + j, c + j * NR, ldc);
    }
    // the columns of one image at a time
    void hand_out(long g, long o, long rows, long panel, const T* c, long ldc) const {
        long q = panel * NR, end = columns - q < NR ? columns : q + NR, per = columns / p.batch;
        while (q < end) {
            long n = q / per, w = q % per, take = per - w < end - q ? per - w : end - q;
            p.epilogue(p.epilogue_arg, c, ldc, n, g * p.made + o, w, rows, take);
            c += take, q += take;
        }
    }
    void write(long g, long o, long rows, long panel, const T* c, long ldc) const {
        long q = panel * NR, left = columns - q < NR ? columns - q : (long)NR;
        Stretches<NR> s(p, q, (int)left);
        Run runs[NR];
        RunList list = {runs, 0, 0, 0};
        for (int k = 0; k < s.count; k++) {
            const Stretch& e = s.s[k];
            list.plain(e.to, e.count, RUN_WHOLE,
                e.n * p.out_n + e.at[0] * p.out_s[0] + e.at[1] * p.out_s[1] + e.at[2] * p.out_s[2], p.out_s[2]);
        }
        for (long i = 0; i < rows; i++) {
            long channel = g * p.made + o + i;
            T bias = p.bias ? (T)scalar(((const S*)p.bias)[channel]) : (T)0;
            for (int k = 0; k < list.count; k++)
                store_run(c + i * ldc + runs[k].to, bias, (S*)p.out + channel * p.out_c + runs[k].from, p.out_s[2], runs[k].count);
        }
    }

    static void gather_range(void* self, long begin, long end, int) {
        const ConvForward& f = *(const ConvForward*)self;
        Gather<NR> gather = {f.p};
        gather.open(f.rt);
        for (long i = begin; i < end; i++) {
            long q = i % f.panels * NR;
            gather.aim(q, (int)(f.columns - q < NR ? f.columns - q : (long)NR));
            gather.template rows<S>(i / f.panels, 0, f.K, f.packed + i * f.panel_size, NR);
        }
        gather.close(f.rt);
    }
    static void tile_range(void* self, long begin, long end, int) {
        const ConvForward& f = *(const ConvForward*)self;
        long windows = f.packed ? 0 : CONV_KC * NR + CONV_SLACK, tile = f.group_rows * f.group_panels * NR;
        long own = f.in_place || f.a ? 0 : f.group_rows * f.K;
        T *scratch = (T*)f.rt.alloc((windows + tile + own) * (long)sizeof(T) + 64), *strips = scratch + windows + tile;
        Gather<NR> gather = {f.p};
        gather.open(f.rt);
        for (long i = begin; i < end; i++) {
            long n = i % f.tiles_n * f.group_panels, m = i / f.tiles_n % f.tiles_m * f.group_rows;
            long rows = f.p.made - m < f.group_rows ? f.p.made - m : f.group_rows;
            long count = f.panels - n < f.group_panels ? f.panels - n : f.group_panels;
            long g = i / (f.tiles_n * f.tiles_m);
            if (own) f.pack_rows(g, m / MR, (rows + MR - 1) / MR, strips);
            f.block(g, m, rows, n, count, f.a ? f.strip(g, m / MR) : strips, scratch + tile, scratch, gather);
        }
        gather.close(f.rt);
        f.rt.release(scratch);
    }

    void spread(FbRange fn, long n, long threads) {
        if (threads == 1 || n == 1) fn(this, 0, n, 0);
        else rt.parallel_for(fn, this, n, 1);
    }
    void run() {
        K = p.channels * p.taps;
        columns = p.batch * p.windows[0] * p.windows[1] * p.windows[2];
        if (!columns || !p.made || !p.groups) return;
        panels = (columns + NR - 1) / NR;
        strips = (p.made + MR - 1) / MR;
        panel_size = K * NR + CONV_SLACK;
        double work = 2.0 * p.groups * p.made * columns * K;
        long threads = work < 4e5 ? 1 : rt.num_threads();
        a = 0, packed = 0, in_place = weight_in_place();
        choose_tiles(threads);
        if (!in_place && tiles_n > 1) {
            a = (T*)rt.alloc(p.groups * strips * K * MR * (long)sizeof(T) + 64);
            spread(pack_weight, p.groups * strips, threads);
        }
        if (tiles_m > 1) {
            packed = (T*)rt.alloc(p.groups * panels * panel_size * (long)sizeof(T) + 64);
            spread(gather_range, p.groups * panels, threads);
        }
        spread(tile_range, p.groups * tiles_m * tiles_n, threads);
        if (packed) rt.release(packed);
        if (a) rt.release(a);
    }
    // many panels: each gathered where it is used, for all rows; few: gathered first, then shared by tiles of rows
    void choose_tiles(long threads) {
        group_panels = K <= CONV_KC ? 1 : p.made > 128 ? 2 : (long)CONV_PANELS;
        tiles_n = (panels + group_panels - 1) / group_panels;
        while (group_panels > 1 && p.groups * tiles_n < 8 * threads) {
            group_panels /= 2;
            tiles_n = (panels + group_panels - 1) / group_panels;
        }
        group_rows = strips * MR, tiles_m = 1;
        if (threads == 1 && tiles_n == 1 && !in_place) return cut_rows(8); // strips that the cache holds once they are packed
        if (threads == 1 || p.groups * tiles_n >= 4 * threads || strips == 1) return;
        long wanted = (8 * threads + p.groups * tiles_n - 1) / (p.groups * tiles_n);
        cut_rows((strips + wanted - 1) / wanted);
    }
    void cut_rows(long per) {
        group_rows = per * MR;
        tiles_m = (p.made + group_rows - 1) / group_rows;
    }
};

// ---- the gradient of the weight: (channel, tap) rows of windows times the gradient's transpose
template <class S, class T> struct ConvWeight {
    enum { W = Lanes<T>::W, NR = NV * W, DEPTH = 256, SUMS = 64 << 10 };
    const ConvProblem& p;
    const FbRuntime& rt;
    long K, per, columns, panels, depths, slices, tiles_m, tile_m, gather_m, sums_size;
    T* packed; // the gradient by blocks of DEPTH windows: (group, block, panel of channels, window, NR)
    T* sums;   // (slice, group, K, panels * NR)

    T* panel(long g, long block, long j) const { return packed + ((g * depths + block) * panels + j) * DEPTH * NR; }
    long depth_of(long block) const { return columns - block * DEPTH < DEPTH ? columns - block * DEPTH : (long)DEPTH; }

    static void pack_range(void* self, long begin, long end, int) {
        const ConvWeight& f = *(const ConvWeight*)self;
        for (long i = begin; i < end; i++) f.pack_panel(i / (f.depths * f.panels), i / f.panels % f.depths, i % f.panels);
    }
    void pack_panel(long g, long block, long j) const {
        long o = j * NR, count = p.made - o < NR ? p.made - o : (long)NR;
        const S* from = (const S*)p.out + (g * p.made + o) * p.out_c;
        T* to = panel(g, block, j);
        for (long q = block * DEPTH, end = q + depth_of(block); q < end;) {
            long n = q / per, r = q % per, take = per - r < end - q ? per - r : end - q;
            pack(from + n * p.out_n + r, 1, p.out_c, to, NR, count, take);
            to += take * NR, q += take;
        }
    }
    static void tile_range(void* self, long begin, long end, int) {
        const ConvWeight& f = *(const ConvWeight*)self;
        long windows = f.gather_m * DEPTH + CONV_SLACK, width = f.panels * NR;
        T* rows = (T*)f.rt.alloc((windows + (f.slices == 1 ? f.tile_m * width : 0)) * (long)sizeof(T) + 64);
        Gather<DEPTH> gather = {f.p};
        gather.open(f.rt);
        for (long i = begin; i < end; i++) {
            long g = i / (f.tiles_m * f.slices), slice = i / f.tiles_m % f.slices, m = i % f.tiles_m * f.tile_m;
            long count = f.K - m < f.tile_m ? f.K - m : f.tile_m;
            T* c = f.slices == 1 ? rows + windows : f.sums + slice * f.sums_size + (g * f.K + m) * width;
            f.tile(g, slice, m, count, rows, c, gather);
            if (f.slices == 1) f.write(g, m, count, c, 0, 1);
        }
        gather.close(f.rt);
        f.rt.release(rows);
    }
    void tile(long g, long slice, long m, long count, T* rows, T* c, Gather<DEPTH>& gather) const {
        long width = panels * NR;
        bool add = false;
        for (long block = slice; block < depths || !add; block += slices, add = true) {
            long depth = block < depths ? depth_of(block) : 0;
            if (depth) gather.aim(block * DEPTH, (int)depth);
            for (long k = 0; k < count; k += gather_m) {
                long some = count - k < gather_m ? count - k : gather_m;
                if (depth) gather.template rows<S>(g, m + k, some, rows, DEPTH);
                products(g, block, depth, some, rows, c + k * width, add);
            }
        }
    }
    void products(long g, long block, long depth, long count, const T* rows, T* c, bool add) const {
        long width = panels * NR;
        for (long j = 0; j < panels; j++) {
            long left = p.made - j * NR < NR ? p.made - j * NR : (long)NR;
            for (long i = 0; i < count; i += MR)
                micro_kernel<T>(count - i < MR ? (int)(count - i) : (int)MR, (int)((left + W - 1) / W))(depth,
                    rows + i * DEPTH, DEPTH, 1, panel(g, block, j), NR, c + i * width + j * NR, width, add, 0);
        }
    }
    // rows [m, m + count) of the sums (`parts` of them, to be added up) into columns of the result
    void write(long g, long m, long count, const T* c, long part, int parts) const {
        long width = panels * NR, o = 0;
        S* to = (S*)p.w + g * p.made * K + m;
        if constexpr (sizeof(T) == 4)
            for (; o + W <= p.made; o += W) {
                long k = 0;
                for (; k + W <= count; k += W) {
                    vf square[W];
                    for (int i = 0; i < W; i++) square[i] = ld_native(c + (k + i) * width + o);
                    for (int s = 1; s < parts; s++)
                        for (int i = 0; i < W; i++) square[i] += ld_native(c + s * part + (k + i) * width + o);
                    transpose(square);
#pragma GCC unroll 16
                    for (int i = 0; i < W; i++) put(to + (o + i) * K + k, square[i]);
                }
                for (; k < count; k++)
                    for (int i = 0; i < W; i++) put1(to + (o + i) * K + k, total(c + k * width + o + i, part, parts));
            }
        for (; o < p.made; o++)
            for (long k = 0; k < count; k++) put1(to + o * K + k, total(c + k * width + o, part, parts));
    }
    static inline T total(const T* from, long part, int parts) {
        T sum = from[0];
        for (int s = 1; s < parts; s++) sum += from[s * part];
        return sum;
    }
    static void finish_range(void* self, long begin, long end, int) {
        const ConvWeight& f = *(const ConvWeight*)self;
        for (long i = begin; i < end; i++) {
            long g = i / f.tiles_m, m = i % f.tiles_m * f.tile_m, count = f.K - m < f.tile_m ? f.K - m : f.tile_m;
            f.write(g, m, count, f.sums + (g * f.K + m) * f.panels * NR, f.sums_size, (int)f.slices);
        }
    }
    void spread(FbRange fn, long n, long grain, long threads) {
        if (threads == 1 || n == 1) fn(this, 0, n, 0);
        else rt.parallel_for(fn, this, n, grain);
    }
    void run() {
        K = p.channels * p.taps;
        per = p.windows[0] * p.windows[1] * p.windows[2];
        columns = p.batch * per;
        panels = (p.made + NR - 1) / NR;
        depths = (columns + DEPTH - 1) / DEPTH;
        if (!K || !p.made || !p.groups) return;
        long threads = 2.0 * p.groups * p.made * columns * K < 4e5 ? 1 : rt.num_threads();
        long strips = (K + MR - 1) / MR;
        tile_m = strips < TILE_M / MR ? strips * MR : (long)TILE_M;
        while (tile_m > 4 * MR && p.groups * ((K + tile_m - 1) / tile_m) < 16) tile_m = (tile_m / MR + 1) / 2 * MR;
        gather_m = tile_m;
        // small sums: all rows in one tile, so that a block's runs are found once and not by each tile
        if (K * panels * NR <= (long)SUMS && depths >= 8) tile_m = K, gather_m = K < TILE_M ? K : (long)TILE_M;
        tiles_m = (K + tile_m - 1) / tile_m;
        // few tiles: the batch is cut too, each slice with sums of its own (a number that no thread count changes)
        slices = p.groups * tiles_m >= 16 ? 1 : 16 / (p.groups * tiles_m);
        if (slices > depths) slices = depths ? depths : 1;
        sums_size = p.groups * K * panels * NR;
        packed = (T*)rt.alloc(p.groups * depths * panels * DEPTH * NR * (long)sizeof(T) + 64);
        sums = slices > 1 ? (T*)rt.alloc(slices * sums_size * (long)sizeof(T) + 64) : 0;
        spread(pack_range, p.groups * depths * panels, 1, threads);
        spread(tile_range, p.groups * slices * tiles_m, 1, threads);
        if (slices > 1) {
            spread(finish_range, p.groups * tiles_m, 1, threads);
            rt.release(sums);
        }
        rt.release(packed);
    }
};

#endif
