// Pooling over windows of up to three dims, of planes [depth, height, width] and of images with the channels last; and
// linear maps along one dim that read a few elements per output.
#ifndef FB_WINDOWS_H
#define FB_WINDOWS_H

#include "softmax_norm.h"

// n: channels (last) or 1, then three numbers each: inputs, outputs, kernel, stride, padding, dilation; then 1 if the
// padding counts; f: divisor, 0 for the number of elements
struct Windows {
    long channels;
    const long *in, *out, *kernel, *stride, *padding, *dilation;
    bool padded;
    double divisor;
    Windows(const Job& job)
        : channels(job.n[0]), in(job.n + 1), out(job.n + 4), kernel(job.n + 7), stride(job.n + 10), padding(job.n + 13),
          dilation(job.n + 16), padded(job.n[19]), divisor(job.f[0]) {}
    long inputs() const { return in[0] * in[1] * in[2]; }
    long outputs() const { return out[0] * out[1] * out[2]; }
    long at(int d, long o, long k) const { return o * stride[d] - padding[d] + k * dilation[d]; }
    bool inside(int d, long i) const { return (unsigned long)i < (unsigned long)in[d]; }
    double count(int d, long o) const {
        long start = o * stride[d] - padding[d], stop = start + kernel[d];
        if (padded) return (stop < in[d] + padding[d] ? stop : in[d] + padding[d]) - start;
        return (stop < in[d] ? stop : in[d]) - (start > 0 ? start : 0);
    }
    double share(long od, long oh, long ow) const {
        return 1.0 / (divisor != 0 ? divisor : count(0, od) * count(1, oh) * count(2, ow));
    }
    // a row of the input with its padding, and what the last windows reach beyond it
    long width() const {
        long reach = (out[2] - 1) * stride[2] + (kernel[2] - 1) * dilation[2] + 1;
        return (reach > in[2] + padding[2] ? reach : in[2] + padding[2]) + 2 * FB_W;
    }
};
template <class S> FB_INLINE bool before(S v, int row, S best, int best_row) {
    return (v > best) | ((v == best) & (row < best_row)) | ((v != v) & ((best == best) | (row < best_row)));
}

// every `step`-th of the elements from p on, step 1 or 2; reads up to two vectors beyond the last of them
template <class S> FB_INLINE auto apart(const S* p, long step) {
    auto low = ld(p, Full{});
    return step == 1 ? low : __builtin_shufflevector(low, ld(p + FB_W, Full{}), FB_EVEN);
}
// Maxima along a row whose numbers are maxima over the rows of windows: `rows` has the row of each.
template <class S, class T> inline void max_along(const Windows& w, const S* line, const int* rows, T* out, long* place) {
    if constexpr (sizeof(S) == 4)
        if (w.stride[2] <= 2) {
            each_vector<1>(0, w.out[2], [&](i64 i, auto m, int) FB_BODY {
                long at = i * w.stride[2];
                vf best = apart(line + at, w.stride[2]);
                vi row = apart(rows + at, w.stride[2]), column = splat_i(0);
                for (long k = 1; k < w.kernel[2]; k++) {
                    vf v = apart(line + at + k * w.dilation[2], w.stride[2]);
                    vi own = apart(rows + at + k * w.dilation[2], w.stride[2]);
                    vi sooner = own < row;
                    vi take = (v > best) | ((v == best) & sooner) | ((v != v) & ((best == best) | sooner));
                    best = v_where(take, v, best), row = v_where(take, own, row), column = v_where(take, splat_i((int)k), column);
                }
                st(out + i, best, m);
                row = row * splat_i((int)w.kernel[2]) + column;
                if (place) st(place + i, vl{widen_first(row), widen_second(row)}, m);
            });
            return;
        }
    for (long ow = 0; ow < w.out[2]; ow++) {
        const S* p = line + ow * w.stride[2];
        const int* r = rows + ow * w.stride[2];
        S best = p[0];
        int row = r[0];
        long column = 0;
        for (long k = 1; k < w.kernel[2]; k++) {
            S v = p[k * w.dilation[2]];
            int own = r[k * w.dilation[2]];
            bool take = before(v, own, best, row);
            best = take ? v : best, row = take ? own : row, column = take ? k : column;
        }
        put(out + ow, best);
        if (place) place[ow] = row * w.kernel[2] + column;
    }
}

// The maxima alone, of windows of one row: of equal elements the first.
template <class S, class T> inline void max_values_along(const Windows& w, const S* line, T* out) {
    if constexpr (sizeof(S) == 4)
        if (w.stride[2] <= 2) {
            each_vector<1>(0, w.out[2], [&](i64 i, auto m, int) FB_BODY {
                const S* p = line + i * w.stride[2];
                vf best = apart(p, w.stride[2]);
                for (long k = 1; k < w.kernel[2]; k++) {
                    vf v = apart(p + k * w.dilation[2], w.stride[2]);
                    best = v_where((v > best) | ((v != v) & (best == best)), v, best);
                }
                st(out + i, best, m);
            });
            return;
        }
    for (long ow = 0; ow < w.out[2]; ow++) {
        const S* p = line + ow * w.stride[2];
        S best = p[0];
        for (long k = 1; k < w.kernel[2]; k++) {
            S v = p[k * w.dilation[2]];
            best = (v > best) | ((v != v) & (best == best)) ? v : best;
        }
        put(out + ow, best);
    }
}
// Planes are rows of memory one after another: `line` has room for one, with its padding around it.
template <class T, class S>
inline void max_rows_alone(const Windows& w, const Job& job, const S* buffer, S* line, long begin, long end) {
    long rows = w.in[0] * w.in[1];
    for (long plane = begin; plane < end; plane++)
        for (long od = 0; od < w.out[0]; od++)
            for (long oh = 0; oh < w.out[1]; oh++) {
                long row = plane * rows + w.at(0, od, 0) * w.in[1] + w.at(1, oh, 0);
                const T* from = (const T*)job.p[2] + row * w.in[2];
                each_vector<1>(0, w.in[2], [&](i64 i, auto m, int) FB_BODY { st(line + i, ld(from + i, m), m); });
                max_values_along(w, buffer, (T*)job.p[0] + plane * w.outputs() + (od * w.out[1] + oh) * w.out[2]);
            }
}

// Maxima of planes: first over the rows of a window, position by position, then along the row. A unit is a plane.
// p: out, place in the window (or null), x
template <class T> void max_planes(const Job& job, long begin, long end) {
    FB_TYPES(T);
    Windows w(job);
    long width = w.width();
    S* buffer = (S*)job.rt->alloc(width * (sizeof(S) + sizeof(int)));
    int* rows = (int*)(buffer + width);
    int beyond = (int)(w.kernel[0] * w.kernel[1]); // of padding, which loses to an equal element
    for (long i = 0; i < width; i++) buffer[i] = -(S)__builtin_inff(), rows[i] = beyond;
    S* line = buffer + w.padding[2];
    int* line_rows = rows + w.padding[2];
    if (!job.p[1] && beyond == 1) { // (such windows have no padding above them)
        max_rows_alone<T>(w, job, buffer, line, begin, end);
        end = begin;
    }
    for (long plane = begin; plane < end; plane++) {
        const T* x = (const T*)job.p[2] + plane * w.inputs();
        T* out = (T*)job.p[0] + plane * w.outputs();
        long* place = job.p[1] ? (long*)job.p[1] + plane * w.outputs() : nullptr;
        for (long od = 0; od < w.out[0]; od++)
            for (long oh = 0; oh < w.out[1]; oh++, out += w.out[2]) {
                bool first = true;
                for (long kd = 0; kd < w.kernel[0]; kd++)
                    for (long kh = 0; kh < w.kernel[1]; kh++) {
                        long d = w.at(0, od, kd), h = w.at(1, oh, kh);
                        if (!w.inside(0, d) || !w.inside(1, h)) continue;
                        const T* from = x + (d * w.in[1] + h) * w.in[2];
                        int row = (int)(kd * w.kernel[1] + kh);
                        if (first)
                            each_vector<1>(0, w.in[2], [&](i64 i, auto m, int) FB_BODY {
                                st(line + i, ld(from + i, m), m);
                                st(line_rows + i, splat_i(row), m);
                            });
                        else
                            each_vector<1>(0, w.in[2], [&](i64 i, auto m, int) FB_BODY {
                                V v = ld(from + i, m), best = ld(line + i, m);
                                vi take = (v > best) | ((v != v) & (best == best));
                                st(line + i, v_where(take, v, best), m);
                                st(line_rows + i, v_where(take, splat_i(row), ld(line_rows + i, m)), m);
                            });
                        first = false;
                    }
                max_along(w, buffer, rows, out, place);
                if (place) place += w.out[2];
            }
    }
    job.rt->release(buffer);
}

// input offset (in positions) of a place in the window of an output, -1 outside
FB_INLINE long position(const Windows& w, long od, long oh, long ow, long place) {
    long kw = place % w.kernel[2], rest = place / w.kernel[2], kh = rest % w.kernel[1], kd = rest / w.kernel[1];
    long d = w.at(0, od, kd), h = w.at(1, oh, kh), x = w.at(2, ow, kw);
    return w.inside(0, d) && w.inside(1, h) && w.inside(2, x) ? (d * w.in[1] + h) * w.in[2] + x : -1;
}
// that of the first element in the window of an output
FB_INLINE long first_position(const Windows& w, long od, long oh, long ow) {
    long o[3] = {od, oh, ow}, at[3];
    for (int d = 0; d < 3; d++) {
        long start = w.at(d, o[d], 0), gap = w.dilation[d];
        at[d] = start < 0 ? start + (-start + gap - 1) / gap * gap : start;
        if (!w.inside(d, at[d])) return -1;
    }
    return (at[0] * w.in[1] + at[1]) * w.in[2] + at[2];
}
// Where the inputs of one output lie, by place in the window: positions, -1 outside.
struct Table {
    const Windows& w;
    const FbRuntime* rt;
    long taps;
    long *at, *shift;
    Table(const Windows& windows, const FbRuntime* runtime) : w(windows), rt(runtime) {
        taps = w.kernel[0] * w.kernel[1] * w.kernel[2];
        at = (long*)rt->alloc(2 * taps * sizeof(long));
        shift = at + taps;
        for (long k = 0; k < taps; k++) {
            long kw = k % w.kernel[2], rest = k / w.kernel[2], kh = rest % w.kernel[1], kd = rest / w.kernel[1];
            shift[k] = (kd * w.dilation[0] * w.in[1] + kh * w.dilation[1]) * w.in[2] + kw * w.dilation[2];
        }
    }
    ~Table() { rt->release(at); }
    bool whole(int d, long o) const { return w.inside(d, w.at(d, o, 0)) && w.inside(d, w.at(d, o, w.kernel[d] - 1)); }
    void set(long od, long oh, long ow) {
        if (whole(0, od) && whole(1, oh) && whole(2, ow)) {
            long start = (w.at(0, od, 0) * w.in[1] + w.at(1, oh, 0)) * w.in[2] + w.at(2, ow, 0);
            for (long k = 0; k < taps; k++) at[k] = start + shift[k];
        } else {
            for (long k = 0; k < taps; k++) at[k] = position(w, od, oh, ow, k);
        }
    }
    long one(long od, long oh, long ow, bool inner, long place) const {
        if (!inner) return position(w, od, oh, ow, place);
        return (w.at(0, od, 0) * w.in[1] + w.at(1, oh, 0)) * w.in[2] + w.at(2, ow, 0) + shift[place];
    }
};
// Gradients go where the maxima were. A unit is a plane. p: out, place, g
template <class T> void max_back_planes(const Job& job, long begin, long end) {
    Windows w(job);
    Table table(w, job.rt);
    for (long plane = begin; plane < end; plane++) {
        T* out = (T*)job.p[0] + plane * w.inputs();
        const long* place = (const long*)job.p[1] + plane * w.outputs();
        const T* g = (const T*)job.p[2] + plane * w.outputs();
        __builtin_memset(out, 0, w.inputs() * sizeof(T));
        for (long od = 0, i = 0; od < w.out[0]; od++)
            for (long oh = 0; oh < w.out[1]; oh++) {
                bool inner = table.whole(0, od) && table.whole(1, oh);
                for (long ow = 0; ow < w.out[2]; ow++, i++) {
                    long at = table.one(od, oh, ow, inner && table.whole(2, ow), place[i]);
                    if (at < 0) at = first_position(w, od, oh, ow); // of a window of nothing but -inf
                    if (at >= 0) put(out + at, element(out + at) + element(g + i));
                }
            }
    }
}

// Images with the channels last. A unit is a row of outputs; p: out, place or null, x
template <class T> void max_last(const Job& job, long begin, long end) {
    FB_TYPES(T);
    Windows w(job);
    Table table(w, job.rt);
    long c = w.channels;
    for (long unit = begin; unit < end; unit++) {
        long oh = unit % w.out[1], od = unit / w.out[1] % w.out[0], batch = unit / w.out[1] / w.out[0];
        const T* x = (const T*)job.p[2] + batch * w.inputs() * c;
        for (long ow = 0; ow < w.out[2]; ow++) {
            table.set(od, oh, ow);
            T* out = (T*)job.p[0] + (unit * w.out[2] + ow) * c;
            long* place = job.p[1] ? (long*)job.p[1] + (unit * w.out[2] + ow) * c : nullptr;
            int first = 0;
            while (first < table.taps - 1 && table.at[first] < 0) first++;
            each_vector<1>(0, c, [&](i64 i, auto m, int) FB_BODY {
                V best = Compute<T>::splat(-(S)__builtin_inff());
                vi where = splat_i(first);
                for (long k = 0; k < table.taps; k++) {
                    if (table.at[k] < 0) continue;
                    V v = ld(x + table.at[k] * c + i, m);
                    vi take = (v > best) | ((v != v) & (best == best));
                    best = v_where(take, v, best);
                    where = v_where(take, splat_i((int)k), where);
                }
                st(out + i, best, m);
                if (place) st(place + i, vl{widen_first(where), widen_second(where)}, m);
            });
        }
    }
}
// A unit is a block of 64 channels of one image; p: out (zeros), place, g
template <class T> void max_back_last(const Job& job, long begin, long end) {
    Windows w(job);
    Table table(w, job.rt);
    long c = w.channels, blocks = (c + 63) / 64;
    for (long unit = begin; unit < end; unit++) {
        long batch = unit / blocks, first = unit % blocks * 64, stop = c - first < 64 ? c : first + 64;
        T* out = (T*)job.p[0] + batch * w.inputs() * c;
        for (long od = 0, o = batch * w.outputs(); od < w.out[0]; od++)
            for (long oh = 0; oh < w.out[1]; oh++)
                for (long ow = 0; ow < w.out[2]; ow++, o++) {
                    const long* place = (const long*)job.p[1] + o * c;
                    const T* g = (const T*)job.p[2] + o * c;
                    table.set(od, oh, ow);
                    for (long i = first; i < stop; i++) {
                        long at = table.at[place[i]];
                        if (at < 0) at = first_position(w, od, oh, ow);
                        if (at >= 0) put(out + at * c + i, element(out + at * c + i) + element(g + i));
                    }
                }
    }
}

// Averages of planes: rows are added position by position, then along the row. A unit is a plane. p: out, x
template <class T> void avg_planes(const Job& job, long begin, long end) {
    FB_TYPES(T);
    Windows w(job);
    S* buffer = (S*)job.rt->alloc(w.width() * sizeof(S));
    for (long i = 0; i < w.width(); i++) buffer[i] = 0;
    S* line = buffer + w.padding[2];
    for (long plane = begin; plane < end; plane++) {
        const T* x = (const T*)job.p[1] + plane * w.inputs();
        T* out = (T*)job.p[0] + plane * w.outputs();
        for (long od = 0; od < w.out[0]; od++)
            for (long oh = 0; oh < w.out[1]; oh++, out += w.out[2]) {
                each_vector<1>(0, w.in[2], [&](i64 i, auto m, int) FB_BODY { st(line + i, V{}, m); });
                for (long kd = 0; kd < w.kernel[0]; kd++)
                    for (long kh = 0; kh < w.kernel[1]; kh++) {
                        long d = w.at(0, od, kd), h = w.at(1, oh, kh);
                        if (!w.inside(0, d) || !w.inside(1, h)) continue;
                        const T* from = x + (d * w.in[1] + h) * w.in[2];
                        each_vector<1>(0, w.in[2], [&](i64 i, auto m, int) FB_BODY {
                            st(line + i, ld(line + i, m) + ld(from + i, m), m);
                        });
                    }
                for (long ow = 0; ow < w.out[2]; ow++) {
                    const S* p = buffer + ow * w.stride[2];
                    S total = p[0];
                    for (long k = 1; k < w.kernel[2]; k++) total += p[k];
                    put(out + ow, (S)(total * (S)w.share(od, oh, ow)));
                }
            }
    }
    job.rt->release(buffer);
}
// p: out, g
template <class T> void avg_back_planes(const Job& job, long begin, long end) {
    FB_TYPES(T);
    Windows w(job);
    S* buffer = (S*)job.rt->alloc(w.width() * sizeof(S));
    S* line = buffer + w.padding[2];
    for (long plane = begin; plane < end; plane++) {
        T* out = (T*)job.p[0] + plane * w.inputs();
        const T* g = (const T*)job.p[1] + plane * w.outputs();
        __builtin_memset(out, 0, w.inputs() * sizeof(T));
        for (long od = 0; od < w.out[0]; od++)
            for (long oh = 0; oh < w.out[1]; oh++, g += w.out[2]) {
                for (long i = 0; i < w.width(); i++) buffer[i] = 0;
                for (long ow = 0; ow < w.out[2]; ow++) {
                    S share = (S)element(g + ow) * (S)w.share(od, oh, ow);
                    S* p = buffer + ow * w.stride[2];
                    for (long k = 0; k < w.kernel[2]; k++) p[k] += share;
                }
                for (long kd = 0; kd < w.kernel[0]; kd++)
                    for (long kh = 0; kh < w.kernel[1]; kh++) {
                        long d = w.at(0, od, kd), h = w.at(1, oh, kh);
                        if (!w.inside(0, d) || !w.inside(1, h)) continue;
                        T* to = out + (d * w.in[1] + h) * w.in[2];
                        each_vector<1>(0, w.in[2], [&](i64 i, auto m, int) FB_BODY {
                            st(to + i, ld(to + i, m) + ld(line + i, m), m);
                        });
                    }
            }
    }
    job.rt->release(buffer);
}
// A unit is a row of outputs; p: out, x
template <class T> void avg_last(const Job& job, long begin, long end) {
    FB_TYPES(T);
    Windows w(job);
    Table table(w, job.rt);
    long c = w.channels;
    for (long unit = begin; unit < end; unit++) {
        long oh = unit % w.out[1], od = unit / w.out[1] % w.out[0], batch = unit / w.out[1] / w.out[0];
        const T* x = (const T*)job.p[1] + batch * w.inputs() * c;
        for (long ow = 0; ow < w.out[2]; ow++) {
            table.set(od, oh, ow);
            V share = Compute<T>::splat((S)w.share(od, oh, ow));
            each_vector<1>(0, c, [&](i64 i, auto m, int) FB_BODY {
                V total = {};
                for (long k = 0; k < table.taps; k++)
                    if (table.at[k] >= 0) total = total + ld(x + table.at[k] * c + i, m);
                st((T*)job.p[0] + (unit * w.out[2] + ow) * c + i, total * share, m);
            });
        }
    }
}
// A unit is an image; p: out (zeros), g
template <class T> void avg_back_last(const Job& job, long begin, long end) {
    FB_TYPES(T);
    Windows w(job);
    Table table(w, job.rt);
    long c = w.channels;
    for (long batch = begin; batch < end; batch++) {
        T* out = (T*)job.p[0] + batch * w.inputs() * c;
        for (long od = 0, o = batch * w.outputs(); od < w.out[0]; od++)
            for (long oh = 0; oh < w.out[1]; oh++)
                for (long ow = 0; ow < w.out[2]; ow++, o++) {
                    V share = Compute<T>::splat((S)w.share(od, oh, ow));
                    const T* g = (const T*)job.p[1] + o * c;
                    table.set(od, oh, ow);
                    for (long k = 0; k < table.taps; k++) {
                        if (table.at[k] < 0) continue;
                        T* to = out + table.at[k] * c;
                        each_vector<1>(0, c, [&](i64 i, auto m, int) FB_BODY {
                            st(to + i, ld(to + i, m) + ld(g + i, m) * share, m);
                        });
                    }
                }
    }
}

// out[a, o, :] = sum over k in [ends[o - 1], ends[o]) of weight[k] * x[a, index[k], :].
// p: out, x, ends, index, weight (computation type); n: inputs, outputs, inner. A unit is an output row (a, o), or for
// inner = 1 an outer index a.
template <class T> void taps_inner(const Job& job, long begin, long end) {
    FB_TYPES(T);
    long inputs = job.n[0], outputs = job.n[1], inner = job.n[2];
    const long *ends = (const long*)job.p[2], *index = (const long*)job.p[3];
    const S* weight = (const S*)job.p[4];
    for (long unit = begin; unit < end; unit++) {
        long a = unit / outputs, o = unit % outputs, first = o ? ends[o - 1] : 0, stop = ends[o];
        const T* x = (const T*)job.p[1] + a * inputs * inner;
        T* out = (T*)job.p[0] + unit * inner;
        each_vector<1>(0, inner, [&](i64 i, auto m, int) FB_BODY {
            V total = {};
            for (long k = first; k < stop; k++)
                total = total + ld(x + index[k] * inner + i, m) * Compute<T>::splat(weight[k]);
            st(out + i, total, m);
        });
    }
}
// As many rows as a register has lanes, side by side: `columns` has room for their elements.
template <class T> void taps_of_rows(const Job& job, long a, typename Compute<T>::S* columns) {
    FB_TYPES(T);
    long inputs = job.n[0], outputs = job.n[1];
    const long *ends = (const long*)job.p[2], *index = (const long*)job.p[3];
    const S* weight = (const S*)job.p[4];
    const T* x = (const T*)job.p[1] + a * inputs;
    T* out = (T*)job.p[0] + a * outputs;
    V square[FB_W];
    long i = 0;
    for (; i + FB_W <= inputs; i += FB_W) {
        load_square(x + i, inputs, square);
        for (int l = 0; l < FB_W; l++) st(columns + (i + l) * FB_W, square[l], Full{});
    }
    for (; i < inputs; i++)
        for (int l = 0; l < FB_W; l++) columns[i * FB_W + l] = (S)element(x + l * inputs + i);
    for (long o = 0, k = 0; o < outputs; o += FB_W) {
        long count = outputs - o < FB_W ? outputs - o : FB_W;
        for (long j = 0; j < count; j++) {
            V total = {};
            for (; k < ends[o + j]; k++) total = total + ld(columns + index[k] * FB_W, Full{}) * Compute<T>::splat(weight[k]);
            square[j] = total;
        }
        if (count == FB_W) store_square(out + o, outputs, square);
        else
            for (long j = 0; j < count; j++)
                for (int l = 0; l < FB_W; l++) put(out + l * outputs + o + j, (S)lane(square[j], l));
    }
}
template <class T> void taps_single(const Job& job, long begin, long end) {
    FB_TYPES(T);
    long inputs = job.n[0], outputs = job.n[1], a = begin;
    const long *ends = (const long*)job.p[2], *index = (const long*)job.p[3];
    const S* weight = (const S*)job.p[4];
    if constexpr (sizeof(S) == 4)
        if (end - begin >= FB_W && inputs <= 1 << 18) {
            S* columns = (S*)job.rt->alloc(inputs * FB_W * sizeof(S) + 64);
            for (; columns && a + FB_W <= end; a += FB_W) taps_of_rows<T>(job, a, columns);
            if (columns) job.rt->release(columns);
        }
    for (; a < end; a++) {
        const T* x = (const T*)job.p[1] + a * inputs;
        T* out = (T*)job.p[0] + a * outputs;
        for (long o = 0, k = 0; o < outputs; o++) {
            S total = 0;
            for (; k < ends[o]; k++) total += (S)element(x + index[k]) * weight[k];
            put(out + o, total);
        }
    }
}

// ---- maxima of windows from floor(o n / m) to ceil((o + 1) n / m), in three dims; the first of equals, NaN wins. p: values,
//      places in their windows (int64), x; n: three sizes, three sizes of the result, three strides of a place. A unit is a plane
template <class T> void adaptive_max(const Job& job, long begin, long end) {
    const long *n = job.n, *m = job.n + 3, *step = job.n + 6;
    long inputs = n[0] * n[1] * n[2], outputs = m[0] * m[1] * m[2];
    auto start = [&](int d, long o) FB_BODY { return o * n[d] / m[d]; };
    auto stop = [&](int d, long o) FB_BODY { return ((o + 1) * n[d] + m[d] - 1) / m[d]; };
    for (long plane = begin; plane < end; plane++) {
        const T* x = (const T*)job.p[2] + plane * inputs;
        long o = plane * outputs;
        for (long a = 0; a < m[0]; a++)
            for (long b = 0; b < m[1]; b++)
                for (long c = 0; c < m[2]; c++, o++) {
                    long from[3] = {start(0, a), start(1, b), start(2, c)}, to[3] = {stop(0, a), stop(1, b), stop(2, c)};
                    long place = 0, at = (from[0] * n[1] + from[1]) * n[2] + from[2];
                    auto best = element(x + at);
                    for (long i = from[0]; i < to[0]; i++)
                        for (long j = from[1]; j < to[1]; j++) {
                            const T* row = x + (i * n[1] + j) * n[2];
                            for (long k = from[2]; k < to[2]; k++) {
                                auto own = element(row + k);
                                if (own > best || (own != own && best == best))
                                    best = own, at = row + k - x,
                                    place = (i - from[0]) * step[0] + (j - from[1]) * step[1] + (k - from[2]) * step[2];
                            }
                        }
                    ((T*)job.p[0])[o] = x[at];
                    ((long*)job.p[1])[o] = place;
                }
    }
}

// ---- columns of windows added up to planes, in the order of the window's elements. p: planes, columns (elements of the window,
//      windows); n: two numbers each of sizes, windows, kernel, stride, padding, dilation. A unit is a plane
template <class T> void fold_windows(const Job& job, long begin, long end) {
    const long *size = job.n, *count = job.n + 2, *kernel = job.n + 4, *stride = job.n + 6, *padding = job.n + 8,
               *dilation = job.n + 10;
    long step = stride[1], pixels = size[0] * size[1], windows = count[0] * count[1];
    for (long plane = begin; plane < end; plane++) {
        T* out = (T*)job.p[0] + plane * pixels;
        const T* x = (const T*)job.p[1] + plane * kernel[0] * kernel[1] * windows;
        __builtin_memset(out, 0, pixels * sizeof(T));
        for (long i = 0; i < kernel[0]; i++)
            for (long j = 0; j < kernel[1]; j++, x += windows) {
                long left = j * dilation[1] - padding[1]; // windows `first` to `past` have this element inside of the row
                long first = left < 0 ? (-left + step - 1) / step : 0, room = size[1] - left;
                long past = room <= 0 ? 0 : (room + step - 1) / step;
                if (past > count[1]) past = count[1];
                for (long row = 0; row < count[0]; row++) {
                    long at = row * stride[0] + i * dilation[0] - padding[0];
                    if (at < 0 || at >= size[0]) continue;
                    T* to = out + at * size[1] + left;
                    const T* from = x + row * count[1];
                    if (step == 1)
                        each_vector<1>(first, past, [&](i64 k, auto m, int) FB_BODY { st(to + k, ld(to + k, m) + ld(from + k, m), m); });
                    else
                        for (long k = first; k < past; k++) to[k * step] += from[k];
                }
            }
    }
}

#endif
