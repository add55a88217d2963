// Connectionist temporal classification, one target after the other. A target of L labels has 2 L + 1 states, a blank before,
// between and after its labels; alpha[t, s] is the log-probability of all ways to be in state s at step t.
#ifndef FB_CTC_H
#define FB_CTC_H

#include "softmax_norm.h"

FB_INLINE float real_exp(float x) { return __builtin_expf(x); }
FB_INLINE double real_exp(double x) { return __builtin_exp(x); }
template <class T> FB_INLINE T log_of_sum(T a, T b, T c) {
    T top = a > b ? a : b;
    top = c > top ? c : top;
    if (!(top - top == 0)) return top; // none, or infinite
    return real_log(real_exp(a - top) + real_exp(b - top) + real_exp(c - top)) + top;
}
struct CtcStates {
    const long* labels;
    long count, blank; // states
    long label(long s) const { return s & 1 ? labels[s / 2] : blank; }
    bool skips(long s) const { return s & 1 && s > 1 && labels[s / 2] != blank && labels[s / 2] != labels[s / 2 - 1]; }
};

// p: loss, alpha (steps, rows, states), x (steps, rows, classes), targets, lengths, counts; n: steps, rows, classes, labels in
// a row of targets, states, blank. A unit is a row
template <class T> void ctc_forward(const Job& job, long begin, long end) {
    long steps = job.n[0], rows = job.n[1], classes = job.n[2], states = job.n[4];
    const T none = -(T)__builtin_inff();
    for (long row = begin; row < end; row++) {
        CtcStates target = {(const long*)job.p[3] + row * job.n[3], 2 * ((const long*)job.p[5])[row] + 1, job.n[5]};
        for (long t = 0; t < steps; t++) {
            const T* x = (const T*)job.p[2] + (t * rows + row) * classes;
            T *alpha = (T*)job.p[1] + (t * rows + row) * states, *before = alpha - rows * states;
            for (long s = 0; s < states; s++) {
                if (s >= target.count) alpha[s] = none;
                else if (t == 0) alpha[s] = s < 2 ? x[target.label(s)] : none;
                else
                    alpha[s] = log_of_sum(before[s], s ? before[s - 1] : none, target.skips(s) ? before[s - 2] : none)
                        + x[target.label(s)];
            }
        }
        long length = ((const long*)job.p[4])[row], last = target.count - 1;
        T loss = last ? (T)__builtin_inff() : 0;
        if (length > 0) {
            const T* alpha = (const T*)job.p[1] + ((length - 1) * rows + row) * states;
            loss = -log_of_sum(alpha[last], last ? alpha[last - 1] : none, none);
        }
        ((T*)job.p[0])[row] = loss;
    }
}
// p: out (steps, rows, classes), g per row, x, targets, alpha, loss, lengths, counts; n as above, then zero_infinity, normalised
template <class T> void ctc_backward(const Job& job, long begin, long end) {
    long steps = job.n[0], rows = job.n[1], classes = job.n[2], states = job.n[4];
    const T none = -(T)__builtin_inff();
    T* room = (T*)job.rt->alloc(2 * (states + 1) * sizeof(T));
    for (long row = begin; row < end; row++) {
        CtcStates target = {(const long*)job.p[3] + row * job.n[3], 2 * ((const long*)job.p[7])[row] + 1, job.n[5]};
        T g = ((const T*)job.p[1])[row], loss = ((const T*)job.p[5])[row];
        long length = ((const long*)job.p[6])[row], at_end = length > 0 ? length - 1 : 0, last = target.count - 1;
        T *beta = room, *after = room + states + 1;
        const T* final = (const T*)job.p[4] + (at_end * rows + row) * states;
        bool impossible = final[last] == none && (!last || final[last - 1] == none);
        if (impossible) loss = (T)__builtin_inff(), g = job.n[6] ? 0 : g;
        for (long t = steps - 1; t >= 0; t--) {
            const T *x = (const T*)job.p[2] + (t * rows + row) * classes, *alpha = (const T*)job.p[4] + (t * rows + row) * states;
            T* out = (T*)job.p[0] + (t * rows + row) * classes;
            if (t >= length || g == 0) {
                for (long c = 0; c < classes; c++) out[c] = 0;
                continue;
            }
            for (long s = 0; s < target.count; s++) {
                if (t == length - 1) beta[s] = s == last || (s == last - 1) ? 0 : none;
                else
                    beta[s] = log_of_sum(after[s], s < last ? after[s + 1] : none,
                        s + 2 <= last && target.skips(s + 2) ? after[s + 2] : none);
            }
            for (long c = 0; c < classes; c++) out[c] = job.n[7] ? real_exp(x[c]) : 0;
            for (long s = 0; s < target.count; s++) out[target.label(s)] -= real_exp(alpha[s] + beta[s] + loss);
            for (long c = 0; c < classes; c++) out[c] *= g;
            for (long s = 0; s < target.count; s++) after[s] = beta[s] + x[target.label(s)];
        }
    }
    job.rt->release(room);
}

#endif
