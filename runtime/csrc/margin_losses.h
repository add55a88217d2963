// Margins between the labels of a row and its other classes: losses of rows, and their gradients. A row's labels end at its
// first negative one; what is no class does not count.
#ifndef FB_MARGINS_H
#define FB_MARGINS_H

#include "softmax_norm.h"

FB_INLINE bool is_class(i64 label, long classes) { return (u64)label < (u64)classes; }
FB_INLINE long labels_of(const i64* target, long classes) {
    long n = 0;
    while (n < classes && target[n] >= 0) n++;
    return n;
}
// A row in which labels have gaps to nothing: in one register, or in memory of the thread.
template <class T> FB_INLINE auto other_scores(const T* x, const i64* target, long labels, Tail m) {
    FB_TYPES(T);
    V none = Compute<T>::splat(-(S)__builtin_inff());
    vi chosen = ~alive(m);
    for (long l = 0; l < labels; l++)
        if (is_class(target[l], m.n)) chosen = chosen | (lane_numbers() == splat_i((int)target[l]));
    return v_where(chosen, none, ld(x, m));
}
template <class T> FB_INLINE void other_scores(const T* x, const i64* target, long labels, long classes, T* room) {
    __builtin_memcpy(room, x, classes * sizeof(T));
    for (long l = 0; l < labels; l++)
        if (is_class(target[l], classes)) room[target[l]] = -(T)__builtin_inff();
}
template <class T> struct MarginRoom {
    T own[1024], *p;
    const FbRuntime* rt;
    MarginRoom(const FbRuntime* rt, long n) : p(n > 1024 ? (T*)rt->alloc(n * sizeof(T)) : own), rt(rt) {}
    ~MarginRoom() {
        if (p != own) rt->release(p);
    }
};

template <class T> FB_INLINE T label_margins(const T* x, const i64* target, long labels, Tail m) {
    FB_TYPES(T);
    V others = other_scores(x, target, labels, m), total = {};
    for (long l = 0; l < labels; l++) {
        if (!is_class(target[l], m.n)) continue;
        V gap = Compute<T>::splat(1 - x[target[l]]) + others;
        total = total + v_where(gap > V{}, gap, V{});
    }
    return (T)fold_add(total);
}
template <class T> FB_INLINE T label_margins(const T* x, const i64* target, long labels, long classes, T* room) {
    FB_TYPES(T);
    other_scores(x, target, labels, classes, room);
    double total = 0;
    long taken = 0;
    V part[4] = {};
    for (long l = 0; l < labels; l++) {
        if (!is_class(target[l], classes)) continue;
        V own = Compute<T>::splat(1 - x[target[l]]);
        each_vector<4>(0, classes, [&](i64 j, auto m, int k) FB_BODY {
            V gap = own + ld(room + j, m);
            part[k] = part[k] + keep(m, v_where(gap > V{}, gap, V{}), V{});
        });
        if ((taken += classes) < 4096) continue;
        total += (double)fold_add(sum_of(part)), taken = 0;
        for (int k = 0; k < 4; k++) part[k] = V{};
    }
    return (T)(total + (double)fold_add(sum_of(part)));
}
// p: out, x, target; n: classes. A unit is a row
template <class T> void multilabel_margin(const Job& job, long begin, long end) {
    long classes = job.n[0];
    MarginRoom<T> room(job.rt, classes);
    for (long row = begin; row < end; row++) {
        const T* x = (const T*)job.p[1] + row * classes;
        const i64* target = (const i64*)job.p[2] + row * classes;
        long labels = labels_of(target, classes);
        T total = classes <= FB_W ? label_margins(x, target, labels, Tail{(int)classes})
                                  : label_margins(x, target, labels, classes, room.p);
        ((T*)job.p[0])[row] = total / (T)classes;
    }
}

// How often each score takes part, with the sign of its share.
template <class T> FB_INLINE void count_margins(const T* x, const i64* target, long labels, Tail m, T slope, T* out) {
    FB_TYPES(T);
    V others = other_scores(x, target, labels, m), one = Compute<T>::splat(1), count = {};
    for (long l = 0; l < labels; l++) {
        if (!is_class(target[l], m.n)) continue;
        V own = v_where(Compute<T>::splat(1 - x[target[l]]) + others > V{}, one, V{});
        vi here = lane_numbers() == splat_i((int)target[l]);
        count = count + own - v_where(here, Compute<T>::splat(fold_add(own)), V{});
    }
    st(out, count * Compute<T>::splat(slope), m);
}
template <class T>
FB_INLINE void count_margins(const T* x, const i64* target, long labels, long classes, T slope, T* room, T* out) {
    FB_TYPES(T);
    other_scores(x, target, labels, classes, room);
    __builtin_memset(out, 0, classes * sizeof(T));
    V one = Compute<T>::splat(1);
    for (long l = 0; l < labels; l++) {
        if (!is_class(target[l], classes)) continue;
        V own = Compute<T>::splat(1 - x[target[l]]), part[4] = {};
        each_vector<4>(0, classes, [&](i64 j, auto m, int k) FB_BODY {
            V takes = keep(m, v_where(own + ld(room + j, m) > V{}, one, V{}), V{});
            part[k] = part[k] + takes;
            st(out + j, ld(out + j, m) + takes, m);
        });
        out[target[l]] -= (T)fold_add(sum_of(part));
    }
    each_vector<1>(0, classes, [&](i64 j, auto m, int) FB_BODY { st(out + j, ld(out + j, m) * Compute<T>::splat(slope), m); });
}
// p: out, g, x, target; n: classes, whether each row has a g of its own
template <class T> void multilabel_margin_back(const Job& job, long begin, long end) {
    long classes = job.n[0];
    MarginRoom<T> room(job.rt, classes);
    for (long row = begin; row < end; row++) {
        const T* x = (const T*)job.p[2] + row * classes;
        const i64* target = (const i64*)job.p[3] + row * classes;
        T* out = (T*)job.p[0] + row * classes;
        T slope = ((const T*)job.p[1])[job.n[1] ? row : 0] / (T)classes;
        long labels = labels_of(target, classes);
        if (classes <= FB_W) count_margins(x, target, labels, Tail{(int)classes}, slope, out);
        else count_margins(x, target, labels, classes, slope, room.p, out);
    }
}

#endif
