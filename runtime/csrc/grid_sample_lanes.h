// Planes of floats at the places of a grid, a register of points at once: taps of all lanes first, then gathers per channel.
//
// What grid_sample.h says of one point holds for each lane: a tap outside of the image counts for nothing, a weight that is NaN makes
// the value NaN.
#ifndef FB_GRID_LANES_H
#define FB_GRID_LANES_H

#include "grid_sample_axis.h"

// p[at] of lanes whose mask is on, 0 elsewhere
FB_INLINE vf gather_lanes(const float* p, vi at, vi mask) {
#if FB_ISA == 512
    return __builtin_ia32_gathersiv16sf((vf){}, (const void*)p, at, (u16)__builtin_ia32_ptestmd512(mask, mask, FB_ALL), 4);
#elif FB_ISA == 256
    return __builtin_ia32_gathersiv8sf((vf){}, p, at, (vf)mask, 4);
#else
    vf r = {};
    FB_LANES if (mask[l]) r[l] = p[at[l]];
    return r;
#endif
}

// places of points that lie as pairs (x, y), and back
FB_INLINE void read_pairs(const float* p, vf& x, vf& y, int lanes) {
    vf low, high;
    if (lanes == FB_W) low = ld(p, Full{}), high = ld(p + FB_W, Full{});
    else {
        int first = 2 * lanes < FB_W ? 2 * lanes : FB_W;
        low = ld(p, Tail{first}), high = ld(p + FB_W, Tail{2 * lanes - first});
    }
    x = __builtin_shufflevector(low, high, FB_EVEN), y = __builtin_shufflevector(low, high, FB_ODD);
}
FB_INLINE void write_pairs(float* p, vf x, vf y, int lanes) {
    vf low = __builtin_shufflevector(x, y, FB_ZIP_LOW), high = __builtin_shufflevector(x, y, FB_ZIP_HIGH);
    if (lanes == FB_W) {
        st(p, low, Full{}), st(p + FB_W, high, Full{});
        return;
    }
    int first = 2 * lanes < FB_W ? 2 * lanes : FB_W;
    st(p, low, Tail{first}), st(p + FB_W, high, Tail{2 * lanes - first});
}

constexpr int taps_of(int mode) { return mode == GRID_NEAREST ? 1 : mode == GRID_LINEAR ? 2 : 4; }

template <int K> struct LaneAxis {
    vi at[K], fits[K], odd;
    vf weight[K], slope[K];
    FB_BODY void set(int k, vf position, vf w, vf s, long m) {
        fits[k] = (position >= splat_f(0)) & (position <= splat_f((float)(m - 1)));
        at[k] = __builtin_convertvector(v_where(fits[k], position, splat_f(0)), vi);
        weight[k] = w, slope[k] = s;
        odd |= w != w;
    }
};
FB_INLINE vf bounded_lanes(vf x, long m, long padding, bool align, vf& scale) {
    if (padding == GRID_ZEROS) return x;
    if (padding == GRID_REFLECTION) {
        FB_LANES {
            float own = scale[l];
            x[l] = bounded(x[l], m, padding, align, own);
            scale[l] = own;
        }
        return x;
    }
    vf last = splat_f((float)(m - 1)), none = splat_f(0);
    vi inside = (x > none) & (x < last);
    scale = v_where(inside, scale, none);
    return v_where(inside, x, v_where(x >= last, last, none)); // (NaN is at the beginning)
}
template <int mode> FB_INLINE void lane_axis(LaneAxis<taps_of(mode)>& axis, vf g, long m, long padding, bool align) {
    auto c = [](double v) FB_BODY { return splat_f((float)v); };
    vf one = c(1), x = align ? (g + one) * splat_f((float)(m - 1) / 2) : ((g + one) * splat_f((float)m) - one) / c(2);
    vf scale = splat_f(align ? (float)(m - 1) / 2 : (float)m / 2);
    axis.odd = vi{};
    if constexpr (mode == GRID_CUBIC) {
        const double a = -0.75;
        vf low = v_floor(x), t = x - low, u = one - t, far = t + one, away = u + one;
        vf weights[4] = {((c(a) * far - c(5 * a)) * far + c(8 * a)) * far - c(4 * a), ((c(a + 2) * t - c(a + 3)) * t) * t + one,
            ((c(a + 2) * u - c(a + 3)) * u) * u + one, ((c(a) * away - c(5 * a)) * away + c(8 * a)) * away - c(4 * a)};
        vf slopes[4] = {(c(3 * a) * far - c(10 * a)) * far + c(8 * a), (c(3 * (a + 2)) * t - c(2 * (a + 3))) * t,
            -((c(3 * (a + 2)) * u - c(2 * (a + 3))) * u), -((c(3 * a) * away - c(10 * a)) * away + c(8 * a))};
        for (int k = 0; k < 4; k++) {
            vf none = scale;
            axis.set(k, bounded_lanes(low + c(k - 1), m, padding, align, none), weights[k], slopes[k] * scale, m);
        }
    } else {
        x = bounded_lanes(x, m, padding, align, scale);
        if constexpr (mode == GRID_NEAREST) axis.set(0, v_round(x), one, c(0), m);
        else {
            vf low = v_floor(x), t = x - low;
            axis.set(0, low, one - t, -scale, m);
            axis.set(1, low + one, t, scale, m);
        }
    }
}

// All taps of a register of points: places in a plane, whether they are there, weights, and what these change by.
template <int mode> struct LanePoints {
    static constexpr int K = taps_of(mode), taps = K * K;
    vi at[taps], fits[taps], odd;
    vf weight[taps], down[taps], along[taps];
    template <bool slopes> FB_BODY void find(const float* grid, int lanes, const Job& job) {
        vf x, y;
        read_pairs(grid, x, y, lanes);
        LaneAxis<K> first, second;
        lane_axis<mode>(first, y, job.n[2], job.n[7], job.n[8]);
        lane_axis<mode>(second, x, job.n[3], job.n[7], job.n[8]);
        odd = first.odd | second.odd;
        vi there = alive(Tail{lanes});
        vf none = splat_f(0);
        for (int i = 0; i < K; i++)
            for (int j = 0; j < K; j++) {
                int k = i * K + j;
                fits[k] = first.fits[i] & second.fits[j] & there;
                at[k] = first.at[i] * splat_i((int)job.n[3]) + second.at[j];
                weight[k] = v_where(fits[k], first.weight[i] * second.weight[j], none);
                if constexpr (slopes) {
                    down[k] = v_where(fits[k], first.slope[i] * second.weight[j], none);
                    along[k] = v_where(fits[k], first.weight[i] * second.slope[j], none);
                }
            }
    }
};

// points [from, to) of one image
template <int mode> void sample_planes(const Job& job, const float* x, const float* grid, float* out, long from, long to) {
    long channels = job.n[0], points = job.n[5], size = job.n[9];
    LanePoints<mode> p;
    for (long i = from; i < to; i += FB_W) {
        int lanes = to - i < FB_W ? (int)(to - i) : FB_W;
        p.template find<false>(grid + 2 * i, lanes, job);
        for (long c = 0; c < channels; c++) {
            vf sum = v_where(p.odd, splat_f(__builtin_nanf("")), splat_f(0));
            for (int k = 0; k < p.taps; k++) sum = sum + gather_lanes(x + c * size, p.at[k], p.fits[k]) * p.weight[k];
            if (lanes == FB_W) st(out + c * points + i, sum, Full{});
            else st(out + c * points + i, sum, Tail{lanes});
        }
    }
}
// the gradients of one image and its grid, either of which may be null
template <int mode> void sample_planes_back(const Job& job, const float* g, const float* x, const float* grid, float* to_x,
    float* to_grid) {
    long channels = job.n[0], points = job.n[5], size = job.n[9];
    LanePoints<mode> p;
    constexpr int taps = LanePoints<mode>::taps;
    for (long i = 0; i < points; i += FB_W) {
        int lanes = points - i < FB_W ? (int)(points - i) : FB_W;
        p.template find<true>(grid + 2 * i, lanes, job);
        vf own_slope[taps] = {};
        for (long c = 0; c < channels; c++) {
            vf own = lanes == FB_W ? ld(g + c * points + i, Full{}) : ld(g + c * points + i, Tail{lanes});
            for (int k = 0; k < taps; k++) {
                if (to_x) {
                    float* plane = to_x + c * size;
                    vf part = own * p.weight[k];
                    for (int l = 0; l < lanes; l++)
                        if (p.fits[k][l]) plane[p.at[k][l]] += part[l];
                }
                if (to_grid && mode != GRID_NEAREST) own_slope[k] = own_slope[k] + own * gather_lanes(x + c * size, p.at[k], p.fits[k]);
            }
        }
        if (!to_grid) continue;
        vf along = {}, down = {};
        for (int k = 0; k < taps; k++) along = along + own_slope[k] * p.along[k], down = down + own_slope[k] * p.down[k];
        write_pairs(to_grid + 2 * i, along, down, lanes);
    }
}

#endif
