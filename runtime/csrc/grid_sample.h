// Values of images at the places of a grid, and the gradients of both; a place is (x, y) or (x, y, z) in [-1, 1].
#ifndef FB_GRID_H
#define FB_GRID_H

#include "grid_sample_lanes.h"

template <class T> struct GridTap {
    long at;
    T weight, slope; // of the weight, by the position
};
template <class T> struct GridAxis {
    GridTap<T> taps[4];
    int count;
    bool odd; // a weight is NaN
    T scale;  // of the position, by the grid's number
};

template <class T> FB_INLINE void add_tap(GridAxis<T>& axis, T at, T weight, T slope, long m) {
    axis.odd |= weight != weight;
    if (at >= 0 && at <= m - 1) axis.taps[axis.count++] = {(long)at, weight, slope};
}
template <class T> FB_INLINE void grid_axis(GridAxis<T>& axis, T g, long m, long mode, long padding, bool align) {
    T x = align ? (g + 1) * ((T)(m - 1) / 2) : ((g + 1) * m - 1) / 2;
    axis.count = 0, axis.odd = false, axis.scale = align ? (T)(m - 1) / 2 : (T)m / 2;
    if (mode == GRID_CUBIC) {
        T low = whole_part(x), t = x - low, u = 1 - t, none = 0;
        const T a = (T)-0.75;
        T far = t + 1, away = u + 1;
        T weights[4] = {((a * far - 5 * a) * far + 8 * a) * far - 4 * a, ((a + 2) * t - (a + 3)) * t * t + 1,
            ((a + 2) * u - (a + 3)) * u * u + 1, ((a * away - 5 * a) * away + 8 * a) * away - 4 * a};
        T slopes[4] = {(3 * a * far - 10 * a) * far + 8 * a, (3 * (a + 2) * t - 2 * (a + 3)) * t,
            -(3 * (a + 2) * u - 2 * (a + 3)) * u, -((3 * a * away - 10 * a) * away + 8 * a)};
        for (int k = 0; k < 4; k++) add_tap(axis, bounded(low + (T)(k - 1), m, padding, align, none), weights[k], slopes[k], m);
        return;
    }
    x = bounded(x, m, padding, align, axis.scale);
    if (mode == GRID_NEAREST) return add_tap(axis, nearest(x), (T)1, (T)0, m);
    T low = whole_part(x), t = x - low;
    add_tap(axis, low, 1 - t, (T)-1, m);
    add_tap(axis, low + 1, t, (T)1, m);
}

// The taps of one point in all dims: offsets into an image, weights, and what they change by along each dim.
template <class T> struct GridPoint {
    int count;
    bool odd;
    long at[16];
    T weight[16], slope[3][16];
    template <bool slopes> FB_BODY void find(const T* g, const Job& job) {
        long dims = job.n[1];
        const long* sizes = job.n + 2; // of an image, outermost first
        GridAxis<T> axes[3];
        for (long d = 0; d < dims; d++)
            grid_axis(axes[d], g[dims - 1 - d], sizes[d], job.n[6], job.n[7], job.n[8]);
        odd = axes[0].odd || axes[1].odd || (dims > 2 && axes[2].odd);
        count = 1, at[0] = 0, weight[0] = 1;
        for (int d = 0; d < 3; d++) slope[d][0] = 1;
        for (long d = 0; d < dims; d++) {
            const GridAxis<T>& axis = axes[d];
            for (int k = axis.count - 1; k >= 0; k--) // the taps that are multiplied are the first ones: they go last
                for (int j = 0; j < count; j++) {
                    int to = k * count + j;
                    if constexpr (slopes)
                        for (long e = 0; e < dims; e++)
                            slope[e][to] = slope[e][j] * (e == d ? axis.taps[k].slope * axis.scale : axis.taps[k].weight);
                    at[to] = at[j] * sizes[d] + axis.taps[k].at;
                    weight[to] = weight[j] * axis.taps[k].weight;
                }
            count *= axis.count;
        }
    }
};

// p: out, x, grid; n: channels, dims, sizes of an image (up to three), points of an image, mode, padding, corners aligned,
// elements of an image. A unit is one image's run of GRID_RUN points
enum { GRID_RUN = 256 };
template <class T> void grid_sample(const Job& job, long begin, long end) {
    long channels = job.n[0], dims = job.n[1], points = job.n[5], size = job.n[9], runs = (points + GRID_RUN - 1) / GRID_RUN;
    GridPoint<T> point;
    for (long unit = begin; unit < end; unit++) {
        long image = unit / runs, from = unit % runs * GRID_RUN, to = points - from < GRID_RUN ? points : from + GRID_RUN;
        const T *x = (const T*)job.p[1] + image * channels * size, *grid = (const T*)job.p[2] + image * points * dims;
        T* out = (T*)job.p[0] + image * channels * points;
        if constexpr (sizeof(T) == 4)
            if (dims == 2 && size < 1l << 31) {
                if (job.n[6] == GRID_CUBIC) sample_planes<GRID_CUBIC>(job, x, grid, out, from, to);
                else if (job.n[6] == GRID_NEAREST) sample_planes<GRID_NEAREST>(job, x, grid, out, from, to);
                else sample_planes<GRID_LINEAR>(job, x, grid, out, from, to);
                continue;
            }
        for (long p = from; p < to; p++) {
            if (dims == 2 && job.n[6] != GRID_CUBIC) {
                GridAxis<T> down, along;
                grid_axis(down, grid[2 * p + 1], job.n[2], job.n[6], job.n[7], job.n[8]);
                grid_axis(along, grid[2 * p], job.n[3], job.n[6], job.n[7], job.n[8]);
                if (down.count == 1 && along.count == 1 && job.n[6] == GRID_NEAREST) {
                    const T* at = x + down.taps[0].at * job.n[3] + along.taps[0].at;
                    for (long c = 0; c < channels; c++) out[c * points + p] = at[c * size];
                    continue;
                }
                if (down.count == 2 && along.count == 2) {
                    const T *first = x + down.taps[0].at * job.n[3] + along.taps[0].at, *second = first + job.n[3];
                    T v = down.taps[0].weight, w = down.taps[1].weight, a = along.taps[0].weight, b = along.taps[1].weight;
                    T va = v * a, vb = v * b, wa = w * a, wb = w * b;
                    for (long c = 0; c < channels; c++, first += size, second += size)
                        out[c * points + p] = first[0] * va + first[1] * vb + second[0] * wa + second[1] * wb;
                    continue;
                }
            }
            point.template find<false>(grid + p * dims, job);
            for (long c = 0; c < channels; c++) {
                T sum = point.odd ? (T)__builtin_nan("") : 0;
                for (int k = 0; k < point.count; k++) sum += x[c * size + point.at[k]] * point.weight[k];
                out[c * points + p] = sum;
            }
        }
    }
}
// p: gradient of x or null, gradient of the grid or null, g, x, grid; n as above. A unit is one image
template <class T> void grid_sample_back(const Job& job, long begin, long end) {
    long channels = job.n[0], dims = job.n[1], points = job.n[5], size = job.n[9];
    GridPoint<T> point;
    for (long image = begin; image < end; image++) {
        const T *g = (const T*)job.p[2] + image * channels * points, *x = (const T*)job.p[3] + image * channels * size;
        const T* grid = (const T*)job.p[4] + image * points * dims;
        T *to_x = job.p[0] ? (T*)job.p[0] + image * channels * size : nullptr,
          *to_grid = job.p[1] ? (T*)job.p[1] + image * points * dims : nullptr;
        if (to_x) __builtin_memset(to_x, 0, channels * size * sizeof(T));
        if constexpr (sizeof(T) == 4)
            if (dims == 2 && size < 1l << 31) {
                if (job.n[6] == GRID_CUBIC) sample_planes_back<GRID_CUBIC>(job, g, x, grid, to_x, to_grid);
                else if (job.n[6] == GRID_NEAREST) sample_planes_back<GRID_NEAREST>(job, g, x, grid, to_x, to_grid);
                else sample_planes_back<GRID_LINEAR>(job, g, x, grid, to_x, to_grid);
                continue;
            }
        for (long p = 0; p < points; p++) {
            point.template find<true>(grid + p * dims, job);
            T along[16] = {};
            for (long c = 0; c < channels; c++) {
                T own = g[c * points + p];
                for (int k = 0; k < point.count; k++) {
                    if (to_x) to_x[c * size + point.at[k]] += own * point.weight[k];
                    if (to_grid) along[k] += own * x[c * size + point.at[k]];
                }
            }
            for (long d = 0; to_grid && d < dims; d++) {
                T sum = 0;
                for (int k = 0; k < point.count; k++) sum += along[k] * point.slope[d][k];
                to_grid[p * dims + dims - 1 - d] = sum;
            }
        }
    }
}

#endif
