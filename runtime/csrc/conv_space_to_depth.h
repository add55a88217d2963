// Windows that step over x, or x with a stride along its last dim: x is copied once, its phases apart.
//
// A step of s meets x at s phases; in a copy that has each phase for itself every tap is a shift, windows of neighbouring rows
// follow each other, and the panels are gathered in long runs. Include after conv.h.
#ifndef FB_CONV_PHASES_H
#define FB_CONV_PHASES_H

#include "conv.h"

template <class S> struct Phases {
    enum { W = Lanes<float>::W };
    const ConvProblem& p;
    const FbRuntime& rt;
    ConvProblem split; // what is to be computed with the copy
    long in[3], row, plane, channel, count; // of the copy: sizes, elements of a row, a phase and a channel; phases that taps meet
    long* phase;       // three numbers each
    ConvTap* tap;
    S* x;

    static bool takes(const ConvProblem& p) {
        return p.step[2] * p.x_s[2] != 1 && p.windows[2] > 1 && p.made * p.taps >= 8 * p.step[0] * p.step[1] * p.step[2];
    }
    long phase_of(const long* at) {
        long found[3];
        for (int d = 0; d < 3; d++) found[d] = at[d] - floor_div(at[d], p.step[d]) * p.step[d];
        for (long k = 0; k < count; k++)
            if (phase[3 * k] == found[0] && phase[3 * k + 1] == found[1] && phase[3 * k + 2] == found[2]) return k;
        for (int d = 0; d < 3; d++) phase[3 * count + d] = found[d];
        return count++;
    }

    void open() {
        phase = (long*)rt.alloc(p.taps * (long)(3 * sizeof(long) + sizeof(ConvTap)) + 64);
        tap = (ConvTap*)(phase + 3 * p.taps);
        for (int d = 0; d < 3; d++) in[d] = (p.in[d] + p.step[d] - 1) / p.step[d];
        row = in[2], plane = in[0] * in[1] * row, count = 0;
        for (long t = 0; t < p.taps; t++) {
            tap[t].weight = p.tap[t].weight;
            tap[t].from = phase_of(p.tap[t].at) * plane;
            for (int d = 0; d < 3; d++) tap[t].at[d] = floor_div(p.tap[t].at[d], p.step[d]);
        }
        channel = count * plane + 2 * W; // whole vectors are written: what is beyond a channel is its own
        long channels = p.groups * p.channels, size = p.batch * channels * channel;
        x = (S*)rt.alloc(size * (long)sizeof(S) + 64);
        if (size < 65536) copy_range(this, 0, p.batch * channels, 0);
        else rt.parallel_for(copy_range, this, p.batch * channels, 16);
        split = p;
        split.x = x, split.x_n = channels * channel, split.x_c = channel, split.x_size = size, split.tap = tap;
        long strides[3] = {in[1] * row, row, 1};
        for (int d = 0; d < 3; d++) split.in[d] = in[d], split.x_s[d] = strides[d], split.step[d] = 1;
    }
    void close() {
        rt.release(x);
        rt.release(phase);
    }
    static void copy_range(void* self, long begin, long end, int) {
        const Phases& f = *(const Phases*)self;
        long channels = f.p.groups * f.p.channels;
        for (long i = begin; i < end; i++)
            f.copy((const S*)f.p.x + i / channels * f.p.x_n + i % channels * f.p.x_c, f.x + i * f.channel);
    }
    void copy(const S* from, S* to) const {
        for (long k = 0; k < count; k++)
            for (long d = 0; d < in[0]; d++)
                for (long h = 0; h < in[1]; h++, to += row) copy_row(from, phase + 3 * k, d, h, to);
        for (int j = 0; j < 2 * W; j++) put_zero(to + j);
    }
    // positions of a phase beyond x are zeros: a copy has as many rows and columns of each phase
    void copy_row(const S* from, const long* at, long d, long h, S* to) const {
        d = d * p.step[0] + at[0], h = h * p.step[1] + at[1];
        long n = d < p.in[0] && h < p.in[1] && at[2] < p.in[2] ? (p.in[2] - at[2] + p.step[2] - 1) / p.step[2] : 0;
        if (n) copy_some(from + d * p.x_s[0] + h * p.x_s[1] + at[2] * p.x_s[2], p.step[2] * p.x_s[2], to, n);
        for (; n < row; n++) put_zero(to + n);
    }
    void copy_some(const S* from, long along, S* to, long n) const {
        if constexpr (sizeof(S) == 4) return copy_run(from, along, to, n, (const S*)p.x + p.x_size);
        for (long j = 0; j < n; j++) to[j] = from[j * along];
    }
    static void put_zero(S* to) { *to = S{}; }
};

// A kernel on x as it is, or on a copy with its phases apart.
template <template <class, class> class Kernel, class S, class T> inline void run_on_phases(const ConvProblem& p, const FbRuntime& rt) {
    if (!Phases<S>::takes(p)) return Kernel<S, T>{p, rt}.run();
    Phases<S> phases = {p, rt};
    phases.open();
    Kernel<S, T>{phases.split, rt}.run();
    phases.close();
}

#endif
