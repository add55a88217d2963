// How a grid's positions are meant: modes, paddings, and the position whose value one outside of the image takes.
#ifndef FB_GRID_AXIS_H
#define FB_GRID_AXIS_H

#include "softmax_norm.h"

enum GridMode { GRID_LINEAR, GRID_NEAREST, GRID_CUBIC };
enum GridPadding { GRID_ZEROS, GRID_BORDER, GRID_REFLECTION };

FB_INLINE float whole_part(float x) { return __builtin_floorf(x); }
FB_INLINE double whole_part(double x) { return __builtin_floor(x); }
FB_INLINE float nearest(float x) { return __builtin_rintf(x); }
FB_INLINE double nearest(double x) { return __builtin_rint(x); }
FB_INLINE float rest_of(float x, float span) { return __builtin_fmodf(x, span); }
FB_INLINE double rest_of(double x, double span) { return __builtin_fmod(x, span); }

// a position outside as the one whose value it takes; `scale` takes the factor of its gradient
template <class T> FB_INLINE T bounded(T x, long m, long padding, bool align, T& scale) {
    if (padding == GRID_ZEROS) return x;
    if (padding == GRID_REFLECTION) {
        T low = align ? (T)0 : (T)-0.5, span = (T)(align ? m - 1 : m);
        if (span == 0) scale = 0, x = x * 0;
        else {
            x = x - low;
            if (x < 0) x = -x, scale = -scale;
            T rest = rest_of(x, span), turns = whole_part(x / span);
            bool odd = rest_of(turns, (T)2) == 1;
            if (odd) rest = span - rest, scale = -scale;
            x = rest + low;
        }
    }
    if (x > 0 && x < m - 1) return x;
    scale = 0;
    return x >= m - 1 ? (T)(m - 1) : 0; // (NaN is at the beginning)
}

#endif
