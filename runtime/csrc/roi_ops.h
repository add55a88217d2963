// Boxes over images, as detectors use them: means and maxima over the bins of regions of interest, the suppression of boxes that
// overlap better ones, and the columns of a convolution whose taps are moved. Formulas are torchvision's (its docs, torchvision.ops).
#ifndef FB_ROI_OPS_H
#define FB_ROI_OPS_H

#include "abi.h"
#include "job.h"

// A position along one dim as two places and their weights; a position outside has none.
template <class T> struct LinearTap {
    long low, high;
    T near, far; // the weights of low and high
    bool inside;
};
// Positions up to one pixel outside count as the border.
template <class T> FB_INLINE LinearTap<T> region_tap(T at, long m) {
    if (!(at >= -1 && at <= (T)m)) return {0, 0, 0, 0, false};
    if (at < 0) at = 0;
    long low = (long)at;
    if (low >= m - 1) return {m - 1, m - 1, 1, 0, true};
    T t = at - (T)low;
    return {low, low + 1, 1 - t, t, true};
}

// The samples of a region: `bins` x `samples` positions along each dim.
// n: channels, height, width, bins down, bins across, samples of a bin along a dim (0: as many as it has pixels), aligned,
// sensitive (each bin reads a channel of its own); f: pixels of the image per unit of the boxes
template <class T> struct Region {
    long image, samples[2];
    T count;
    LinearTap<T>* taps[2];
    const Job& job;
    Region(const Job& job) : job(job), taps{nullptr, nullptr} {}
    ~Region() { drop(); }
    void drop() {
        for (auto& each : taps)
            if (each) job.rt->release(each), each = nullptr;
    }
    void find(const T* roi) {
        drop();
        image = (long)roi[0];
        T scale = (T)job.f[0], moved = job.n[6] ? (T)0.5 : 0;
        for (int d = 0; d < 2; d++) { // down, across
            T begin = roi[2 - d] * scale - moved, extent = roi[4 - d] * scale - moved - begin;
            long bins = job.n[3 + d], m = job.n[1 + d];
            if (!job.n[6] && extent < 1) extent = 1;
            T bin = extent / (T)bins;
            long own = job.n[5] > 0 ? job.n[5] : (long)__builtin_ceil(bin);
            samples[d] = own;
            if (own < 0) own = 0;
            taps[d] = (LinearTap<T>*)job.rt->alloc((bins * own + 1) * (long)sizeof(LinearTap<T>));
            for (long b = 0; b < bins; b++)
                for (long s = 0; s < own; s++)
                    taps[d][b * own + s] = region_tap(begin + (T)b * bin + ((T)s + (T)0.5) * bin / (T)own, m);
        }
        count = (T)(samples[0] * samples[1]);
        if (!job.n[7] && count < 1) count = 1;
        for (long& own : samples)
            if (own < 0) own = 0;
    }
    // body(place, weight) for each tap of a bin
    template <class F> FB_BODY void each(long down, long across, F body) const {
        long width = job.n[2];
        for (long s = 0; s < samples[0]; s++) {
            const LinearTap<T>& y = taps[0][down * samples[0] + s];
            if (!y.inside) continue;
            for (long r = 0; r < samples[1]; r++) {
                const LinearTap<T>& x = taps[1][across * samples[1] + r];
                if (!x.inside) continue;
                body(y.low * width + x.low, y.near * x.near), body(y.low * width + x.high, y.near * x.far);
                body(y.high * width + x.low, y.far * x.near), body(y.high * width + x.high, y.far * x.far);
            }
        }
    }
};

// p: out (K, channels out, bins), x, rois (K, 5). A unit is one region
template <class T> void roi_align(const Job& job, long begin, long end) {
    long channels = job.n[0], area = job.n[1] * job.n[2], down = job.n[3], across = job.n[4], bins = down * across;
    long made = job.n[7] ? channels / bins : channels;
    Region<T> region(job);
    for (long k = begin; k < end; k++) {
        region.find((const T*)job.p[2] + k * 5);
        const T* x = (const T*)job.p[1] + region.image * channels * area;
        T* out = (T*)job.p[0] + k * made * bins;
        for (long c = 0; c < made; c++)
            for (long b = 0; b < bins; b++) {
                const T* plane = x + (job.n[7] ? c * bins + b : c) * area;
                T sum = 0;
                region.each(b / across, b % across, [&](long at, T weight) FB_BODY { sum += plane[at] * weight; });
                *out++ = sum / region.count;
            }
    }
}
// p: gradient of x, g, rois; n[8]: regions. A unit is one channel of one image
template <class T> void roi_align_back(const Job& job, long begin, long end) {
    long channels = job.n[0], area = job.n[1] * job.n[2], across = job.n[4], bins = job.n[3] * across;
    long made = job.n[7] ? channels / bins : channels;
    Region<T> region(job);
    for (long unit = begin; unit < end; unit++) {
        long image = unit / channels, channel = unit % channels;
        T* plane = (T*)job.p[0] + unit * area;
        __builtin_memset(plane, 0, area * sizeof(T));
        for (long k = 0; k < job.n[8]; k++) {
            const T* roi = (const T*)job.p[2] + k * 5;
            if ((long)roi[0] != image) continue;
            region.find(roi);
            const T* g = (const T*)job.p[1] + (k * made + (job.n[7] ? channel / bins : channel)) * bins;
            long first = job.n[7] ? channel % bins : 0, last = job.n[7] ? first + 1 : bins;
            for (long b = first; b < last; b++) {
                T own = g[b] / region.count;
                region.each(b / across, b % across, [&](long at, T weight) FB_BODY { plane[at] += own * weight; });
            }
        }
    }
}

// The pixels of one bin: [begin, end) of each dim. n and f as above, without samples; sensitive regions end before their last
// pixel, and bins stay before the image's last one.
template <class T> struct RegionBins {
    long image, start[2];
    T bin[2];
    const Job& job;
    RegionBins(const Job& job, const T* roi) : image((long)roi[0]), job(job) {
        T scale = (T)job.f[0];
        for (int d = 0; d < 2; d++) {
            long first = (long)__builtin_round(roi[2 - d] * scale), last = (long)__builtin_round(roi[4 - d] * scale);
            long extent = job.n[7] ? last - first : last - first + 1;
            start[d] = first, bin[d] = (T)(extent < 1 ? 1 : extent) / (T)job.n[3 + d];
        }
    }
    FB_BODY void span(int d, long b, long& begin, long& end) const {
        long most = job.n[1 + d] - (job.n[7] ? 1 : 0);
        begin = (long)__builtin_floor((T)b * bin[d]) + start[d], end = (long)__builtin_ceil((T)(b + 1) * bin[d]) + start[d];
        begin = begin < 0 ? 0 : begin > most ? most : begin, end = end < 0 ? 0 : end > most ? most : end;
    }
    // body(place) for each pixel of a bin; how many there are
    template <class F> FB_BODY long each(long b, F body) const {
        long y0, y1, x0, x1;
        span(0, b / job.n[4], y0, y1), span(1, b % job.n[4], x0, x1);
        for (long y = y0; y < y1; y++)
            for (long x = x0; x < x1; x++) body(y * job.n[2] + x);
        return y1 > y0 && x1 > x0 ? (y1 - y0) * (x1 - x0) : 0;
    }
};

// p: out, the places of the maxima (int, -1: none), x, rois. A unit is one region
template <class T> void roi_pool(const Job& job, long begin, long end) {
    long channels = job.n[0], area = job.n[1] * job.n[2], bins = job.n[3] * job.n[4];
    for (long k = begin; k < end; k++) {
        RegionBins<T> region(job, (const T*)job.p[3] + k * 5);
        T* out = (T*)job.p[0] + k * channels * bins;
        int* places = (int*)job.p[1] + k * channels * bins;
        for (long c = 0; c < channels; c++) {
            const T* plane = (const T*)job.p[2] + (region.image * channels + c) * area;
            for (long b = 0; b < bins; b++) {
                T most = sizeof(T) == 4 ? (T)-__FLT_MAX__ : (T)-__DBL_MAX__;
                int place = -1;
                long count = region.each(b, [&](long at) FB_BODY {
                    if (plane[at] > most) most = plane[at], place = (int)at;
                });
                *out++ = count ? most : 0, *places++ = place;
            }
        }
    }
}
// p: gradient of x, g, places, rois; n[8]: regions. A unit is one channel of one image
template <class T> void roi_pool_back(const Job& job, long begin, long end) {
    long channels = job.n[0], area = job.n[1] * job.n[2], bins = job.n[3] * job.n[4];
    for (long unit = begin; unit < end; unit++) {
        T* plane = (T*)job.p[0] + unit * area;
        __builtin_memset(plane, 0, area * sizeof(T));
        for (long k = 0; k < job.n[8]; k++) {
            if ((long)((const T*)job.p[3])[k * 5] != unit / channels) continue;
            long from = (k * channels + unit % channels) * bins;
            const int* places = (const int*)job.p[2] + from;
            const T* g = (const T*)job.p[1] + from;
            for (long b = 0; b < bins; b++)
                if (places[b] >= 0 && places[b] < area) plane[places[b]] += g[b];
        }
    }
}
// p: out, x, rois; each bin is the mean of a channel of its own. A unit is one region
template <class T> void ps_roi_pool(const Job& job, long begin, long end) {
    long channels = job.n[0], area = job.n[1] * job.n[2], bins = job.n[3] * job.n[4];
    for (long k = begin; k < end; k++) {
        RegionBins<T> region(job, (const T*)job.p[2] + k * 5);
        T* out = (T*)job.p[0] + k * channels;
        const T* plane = (const T*)job.p[1] + region.image * channels * area;
        for (long c = 0; c < channels; c++, plane += area) {
            T sum = 0;
            long count = region.each(c % bins, [&](long at) FB_BODY { sum += plane[at]; });
            out[c] = count ? sum / (T)count : 0;
        }
    }
}
// p: gradient of x, g, rois; n[8]: regions. A unit is one channel of one image
template <class T> void ps_roi_pool_back(const Job& job, long begin, long end) {
    long channels = job.n[0], area = job.n[1] * job.n[2], bins = job.n[3] * job.n[4];
    for (long unit = begin; unit < end; unit++) {
        T* plane = (T*)job.p[0] + unit * area;
        __builtin_memset(plane, 0, area * sizeof(T));
        for (long k = 0; k < job.n[8]; k++) {
            const T* roi = (const T*)job.p[2] + k * 5;
            if ((long)roi[0] != unit / channels) continue;
            RegionBins<T> region(job, roi);
            long b = unit % channels % bins, count = region.each(b, [](long) FB_BODY {});
            T own = ((const T*)job.p[1])[k * channels + unit % channels] / (T)count;
            region.each(b, [&](long at) FB_BODY { plane[at] += own; });
        }
    }
}

// p: flags (a number of T's size each: whether the box is suppressed), boxes best first as five rows (x1, y1, x2, y2, area);
// n: boxes; f: the overlap above which a box goes. One unit
template <class T> struct FlagOf { typedef int type; };
template <> struct FlagOf<double> { typedef long type; };
template <class T> void suppress_boxes(const Job& job, long, long) {
    typedef typename FlagOf<T>::type Flag;
    long n = job.n[0];
    Flag* __restrict flags = (Flag*)job.p[0];
    const T *left = (const T*)job.p[1], *top = left + n, *right = top + n, *bottom = right + n, *area = bottom + n;
    T most = (T)job.f[0];
    if ((double)most > job.f[0]) most = (T)__builtin_nextafterf((float)most, -__FLT_MAX__); // as overlap > threshold in doubles
    for (long i = 0; i < n; i++) flags[i] = 0;
    for (long i = 0; i < n; i++) {
        if (flags[i]) continue;
        T x1 = left[i], y1 = top[i], x2 = right[i], y2 = bottom[i], own = area[i];
        for (long j = i + 1; j < n; j++) {
            T w = (right[j] < x2 ? right[j] : x2) - (left[j] > x1 ? left[j] : x1);
            T h = (bottom[j] < y2 ? bottom[j] : y2) - (top[j] > y1 ? top[j] : y1);
            T both = (w > 0 ? w : 0) * (h > 0 ? h : 0);
            flags[j] |= (Flag)(both / (own + area[j] - both) > most);
        }
    }
}

// -- columns of a convolution whose taps are moved: value (n, c, k, p) is channel c at the place of tap k of point p. Offsets
// are (N, groups, taps, 2, points), down and across.
// n: channels, height, width, kernel height, kernel width, stride, stride, padding, padding, dilation, dilation, points down,
// points across, groups

template <class T> struct MovedTap {
    long at[4];
    T weight[4];  // 0 outside of the image
    T down[4], across[4]; // how the weights change with the place
};
template <class T> struct MovedTaps {
    const Job& job;
    long height, width, taps, points, across_points, groups;
    MovedTaps(const Job& job) : job(job), height(job.n[1]), width(job.n[2]), taps(job.n[3] * job.n[4]),
        points(job.n[11] * job.n[12]), across_points(job.n[12]), groups(job.n[13]) {}
    // `row`: (image * groups + group) * taps + tap
    FB_BODY void find(MovedTap<T>& found, const T* offsets, long row, long p) const {
        long k = row % taps;
        const T* own = offsets + row * 2 * points + p;
        T y = (T)(p / across_points * job.n[5] - job.n[7] + k / job.n[4] * job.n[9]) + own[0];
        T x = (T)(p % across_points * job.n[6] - job.n[8] + k % job.n[4] * job.n[10]) + own[points];
        bool inside = y > -1 && y < (T)height && x > -1 && x < (T)width;
        if (!(y > -2 && y < (T)height + 1 && x > -2 && x < (T)width + 1)) y = x = -3; // NaN, and what no place is near to
        T y0 = __builtin_floor(y), x0 = __builtin_floor(x), t = y - y0, u = x - x0;
        for (int corner = 0; corner < 4; corner++) {
            long v = (long)y0 + corner / 2, w = (long)x0 + corner % 2;
            bool there = v >= 0 && v < height && w >= 0 && w < width;
            T along = corner / 2 ? t : 1 - t, beside = corner % 2 ? u : 1 - u;
            found.at[corner] = there ? v * width + w : 0;
            found.weight[corner] = there && inside ? along * beside : 0;
            found.down[corner] = there ? (corner / 2 ? beside : -beside) : 0;
            found.across[corner] = there ? (corner % 2 ? along : -along) : 0;
        }
    }
};

// p: out, x, offsets. A unit is one tap of one group of one image
template <class T> void moved_columns(const Job& job, long begin, long end) {
    MovedTaps<T> taps(job);
    long share = job.n[0] / taps.groups, area = taps.height * taps.width;
    for (long row = begin; row < end; row++) {
        const T* x = (const T*)job.p[1] + row / taps.taps * share * area;
        T* out = (T*)job.p[0] + (row / taps.taps * share * taps.taps + row % taps.taps) * taps.points;
        MovedTap<T> tap;
        for (long p = 0; p < taps.points; p++) {
            taps.find(tap, (const T*)job.p[2], row, p);
            for (long c = 0; c < share; c++) {
                const T* plane = x + c * area;
                T sum = 0;
                for (int corner = 0; corner < 4; corner++)
                    if (tap.weight[corner] != 0) sum += plane[tap.at[corner]] * tap.weight[corner];
                out[c * taps.taps * taps.points + p] = sum;
            }
        }
    }
}
// p: gradient of x, g, offsets. A unit is one channel of one image
template <class T> void moved_columns_back(const Job& job, long begin, long end) {
    MovedTaps<T> taps(job);
    long channels = job.n[0], share = channels / taps.groups, area = taps.height * taps.width;
    for (long unit = begin; unit < end; unit++) {
        T* plane = (T*)job.p[0] + unit * area;
        __builtin_memset(plane, 0, area * sizeof(T));
        MovedTap<T> tap;
        for (long k = 0; k < taps.taps; k++) {
            long row = (unit / channels * taps.groups + unit % channels / share) * taps.taps + k;
            const T* g = (const T*)job.p[1] + (unit * taps.taps + k) * taps.points;
            for (long p = 0; p < taps.points; p++) {
                taps.find(tap, (const T*)job.p[2], row, p);
                for (int corner = 0; corner < 4; corner++)
                    if (tap.weight[corner] != 0) plane[tap.at[corner]] += g[p] * tap.weight[corner];
            }
        }
    }
}
// p: gradient of the offsets, g, x, offsets. A unit is one tap of one group of one image
template <class T> void moved_columns_back_places(const Job& job, long begin, long end) {
    MovedTaps<T> taps(job);
    long share = job.n[0] / taps.groups, area = taps.height * taps.width;
    for (long row = begin; row < end; row++) {
        const T* x = (const T*)job.p[2] + row / taps.taps * share * area;
        const T* g = (const T*)job.p[1] + (row / taps.taps * share * taps.taps + row % taps.taps) * taps.points;
        T* to_offset = (T*)job.p[0] + row * 2 * taps.points;
        MovedTap<T> tap;
        for (long p = 0; p < taps.points; p++) {
            taps.find(tap, (const T*)job.p[3], row, p);
            T down = 0, across = 0;
            for (long c = 0; c < share; c++) {
                T own = g[c * taps.taps * taps.points + p];
                const T* plane = x + c * area;
                for (int corner = 0; corner < 4; corner++) {
                    T here = own * plane[tap.at[corner]];
                    if (tap.down[corner] != 0) down += here * tap.down[corner];
                    if (tap.across[corner] != 0) across += here * tap.across[corner];
                }
            }
            to_offset[p] = down, to_offset[taps.points + p] = across;
        }
    }
}

#endif
