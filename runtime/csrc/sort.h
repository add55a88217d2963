// Sorting rows and their greatest elements. Keys are the bits of floats, turned so that unsigned integers order like
// them (NaN last, -0 equal to 0), with the position in the lower half: equal elements keep their order.
#ifndef FB_ORDER_H
#define FB_ORDER_H

#include "softmax_norm.h"

FB_INLINE u64 sort_key(float x, long position, bool descending) {
    u32 bits = __builtin_bit_cast(u32, x + 0.f);
    bits = bits >> 31 ? ~bits : bits | 0x80000000u;
    if (x != x) bits = 0xffffffffu;
    return (u64)(descending ? ~bits : bits) << 32 | (u32)position;
}

// by digits of 8 bits, least significant first; a digit that all keys share is skipped. The result is in `keys`
inline void sort_keys(u64* keys, u64* room, long n) {
    long counts[4][256] = {};
    for (long i = 0; i < n; i++)
        for (int d = 0; d < 4; d++) counts[d][keys[i] >> (32 + 8 * d) & 255]++;
    u64 *from = keys, *to = room;
    for (int d = 0; d < 4; d++) {
        long *count = counts[d], start = 0;
        if (count[from[0] >> (32 + 8 * d) & 255] == n) continue;
        for (int b = 0; b < 256; b++) {
            long own = count[b];
            count[b] = start;
            start += own;
        }
        for (long i = 0; i < n; i++) to[count[from[i] >> (32 + 8 * d) & 255]++] = from[i];
        u64* swap = from;
        from = to;
        to = swap;
    }
    if (from != keys) __builtin_memcpy(keys, from, n * sizeof(u64));
}
inline void sort_few(u64* keys, long n) {
    for (long i = 1; i < n; i++) {
        u64 own = keys[i];
        long j = i;
        for (; j > 0 && keys[j - 1] > own; j--) keys[j] = keys[j - 1];
        keys[j] = own;
    }
}

// p: values, x, positions (int64); n: n, descending. A unit is a row
template <class T> void sort_rows(const Job& job, long begin, long end) {
    long n = job.n[0];
    u64* keys = (u64*)job.rt->alloc(2 * n * sizeof(u64));
    for (long row = begin; row < end; row++) {
        const T* x = (const T*)job.p[1] + row * n;
        for (long i = 0; i < n; i++) keys[i] = sort_key(element(x + i), i, job.n[1]);
        if (n <= 48) sort_few(keys, n);
        else sort_keys(keys, keys + n, n);
        for (long i = 0; i < n; i++) {
            long at = (u32)keys[i];
            ((T*)job.p[0])[row * n + i] = x[at];
            ((long*)job.p[2])[row * n + i] = at;
        }
    }
    job.rt->release(keys);
}
// ---- keys of 64 bits with their positions beside them: doubles and whole numbers of any size
struct Placed {
    u64 key;
    long at;
};
enum KeyKind { UNSIGNED_KEYS, SIGNED_KEYS, REAL_KEYS };
template <class E> FB_INLINE u64 wide_key(E raw, long kind, bool descending) {
    constexpr u64 top = (u64)1 << (sizeof(E) * 8 - 1);
    u64 bits = raw;
    if (kind == SIGNED_KEYS) bits ^= top;
    if constexpr (sizeof(E) == 8) {
        if (kind == REAL_KEYS) {
            double x = __builtin_bit_cast(double, bits);
            bits = __builtin_bit_cast(u64, x + 0.);
            bits = bits >> 63 ? ~bits : bits | top;
            if (x != x) bits = ~(u64)0;
        }
    }
    return descending ? ~bits : bits;
}
inline void sort_few(Placed* x, long n) {
    for (long i = 1; i < n; i++) {
        Placed own = x[i];
        long j = i;
        for (; j > 0 && x[j - 1].key > own.key; j--) x[j] = x[j - 1];
        x[j] = own;
    }
}
// Stable, from the highest digit on, as many bits at once as there are keys for. `bits` are the lowest ones that differ; the
// result is in `x`, or in `room` if `over`.
inline void sort_wide(Placed* x, Placed* room, long n, int bits, bool over) {
    if (n <= 24 || !bits) {
        if (bits) sort_few(x, n);
        if (over) __builtin_memcpy(room, x, n * sizeof(Placed));
        return;
    }
    int digit = 3, most = n > 1 << 18 ? 11 : 14; // (so many places to write to as a cache has lines for)
    while (digit < most && digit < bits && n >> (digit + 3)) digit++;
    if (digit > bits) digit = bits;
    int shift = bits - digit;
    u64 mask = ((u64)1 << digit) - 1;
    u32 start[(1 << digit) + 1];
    __builtin_memset(start, 0, sizeof(u32) * ((1 << digit) + 1));
    for (long i = 0; i < n; i++) start[(x[i].key >> shift & mask) + 1]++;
    for (long b = 0; b < 1 << digit; b++) start[b + 1] += start[b];
    for (long i = 0; i < n; i++) room[start[x[i].key >> shift & mask]++] = x[i];
    for (long b = 0, from = 0; b < 1 << digit; b++) {
        if (start[b] > from) sort_wide(room + from, x + from, start[b] - from, shift, !over);
        from = start[b];
    }
}
// n <= 24 different numbers in order, into the same place or another one
inline void few_in_order(u64* to, const u64* from, long n) {
#if FB_ISA == 512
    // each goes behind those that are less: no branch depends on what they are
    typedef long long keys __attribute__((vector_size(64)));
    u64 own[24];
    keys all[3], full = ~(keys){};
    __builtin_memcpy(own, &full, 64), __builtin_memcpy(own + 8, &full, 64), __builtin_memcpy(own + 16, &full, 64);
    for (long i = 0; i < n; i++) own[i] = from[i];
    __builtin_memcpy(all, own, sizeof all);
    if (n <= 8)
        for (long i = 0; i < n; i++)
            to[__builtin_popcount((u8)__builtin_ia32_ucmpq512_mask(all[0], (long long)own[i] - (keys){}, 1, (u8)-1))] = own[i];
    else
        for (long i = 0; i < n; i++) {
            keys x = (long long)own[i] - (keys){};
            u32 less = (u8)__builtin_ia32_ucmpq512_mask(all[0], x, 1, (u8)-1)
                | (u32)(u8)__builtin_ia32_ucmpq512_mask(all[1], x, 1, (u8)-1) << 8
                | (u32)(u8)__builtin_ia32_ucmpq512_mask(all[2], x, 1, (u8)-1) << 16;
            to[__builtin_popcount(less)] = own[i];
        }
#else
    if (to != from) __builtin_memcpy(to, from, n * sizeof(u64));
    sort_few(to, n);
#endif
}
// The same for numbers that hold their position below the key: `bits` of the key from bit `low` on are not in order yet.
inline void sort_packed(u64* x, u64* room, long n, int low, int bits, bool over) {
    if (n <= 24 && bits) return few_in_order(over ? room : x, x, n);
    if (!bits) {
        if (over) __builtin_memcpy(room, x, n * sizeof(u64));
        return;
    }
    int digit = 3, most = n > 1 << 18 ? 11 : 14;
    while (digit < most && digit < bits && n >> (digit + 3)) digit++;
    if (digit > bits) digit = bits;
    int shift = low + bits - digit;
    u64 mask = ((u64)1 << digit) - 1;
    u32 start[(1 << digit) + 1];
    __builtin_memset(start, 0, sizeof(u32) * ((1 << digit) + 1));
    for (long i = 0; i < n; i++) start[(x[i] >> shift & mask) + 1]++;
    for (long b = 0; b < 1 << digit; b++) start[b + 1] += start[b];
    for (long i = 0; i < n; i++) room[start[x[i] >> shift & mask]++] = x[i];
    for (long b = 0, from = 0; b < 1 << digit; b++) {
        long count = start[b] - from;
        if (count <= 24) few_in_order((over ? room : x) + from, room + from, count);
        else sort_packed(room + from, x + from, count, low, bits - digit, !over);
        from = start[b];
    }
}
// Keys above `least` in 64 bits with their positions: the lowest `dropped` bits of a key are left out, and looked at where all
// others agree. False where many do.
template <class E>
bool sort_row_packed(const E* x, E* values, long* places, u64* room, long n, long kind, bool descending, u64 least, int bits,
    int positions) {
    int dropped = bits + positions > 64 ? bits + positions - 64 : 0;
    u64 at = ((u64)1 << positions) - 1;
    for (long i = 0; i < n; i++)
        room[i] = (wide_key(x[i], kind, descending) - least) >> dropped << positions | (u64)i;
    sort_packed(room, room + n, n, positions, bits - dropped, false);
    for (long i = 1, alike = 0; dropped && i < n; i++) {
        alike = (room[i - 1] | at) == (room[i] | at) ? alike + 1 : 0;
        if (alike > 16) return false;
    }
    for (long i = 1; dropped && i < n; i++) // (few agree)
        for (long j = i; j > 0 && (room[j - 1] | at) == (room[j] | at); j--) {
            u64 a = wide_key(x[room[j - 1] & at], kind, descending), b = wide_key(x[room[j] & at], kind, descending);
            if (a <= b) break;
            u64 other = room[j];
            room[j] = room[j - 1], room[j - 1] = other;
        }
    for (long i = 0; i < n; i++) {
        places[i] = room[i] & at;
        values[i] = x[places[i]];
    }
    return true;
}
// p: values, x, positions (int64); n: n, descending, kind of keys. A unit is a row
template <class E> void sort_wide_rows(const Job& job, long begin, long end) {
    long n = job.n[0];
    Placed* keys = (Placed*)job.rt->alloc(2 * n * sizeof(Placed));
    for (long row = begin; row < end; row++) {
        const E* x = (const E*)job.p[1] + row * n;
        u64 least = ~(u64)0, most = 0;
        for (long i = 0; i < n; i++) {
            u64 key = wide_key(x[i], job.n[2], job.n[1]);
            least = key < least ? key : least, most = key > most ? key : most;
        }
        u64 range = most - least;
        int bits = range ? 64 - __builtin_clzl(range) : 0, positions = n > 1 ? 64 - __builtin_clzl((u64)n - 1) : 1;
        // (of random keys hardly two agree in all but eight bits)
        bool packed = bits + positions <= (n < 1024 ? 64 : 72) && positions <= 40;
        if (packed
            && sort_row_packed(x, (E*)job.p[0] + row * n, (long*)job.p[2] + row * n, (u64*)keys, n, job.n[2], job.n[1], least, bits,
                positions))
            continue;
        for (long i = 0; i < n; i++) keys[i] = {wide_key(x[i], job.n[2], job.n[1]) - least, i};
        sort_wide(keys, keys + n, n, bits, false);
        for (long i = 0; i < n; i++) {
            ((E*)job.p[0])[row * n + i] = x[keys[i].at];
            ((long*)job.p[2])[row * n + i] = keys[i].at;
        }
    }
    job.rt->release(keys);
}
// p: values, x, positions; n: n, k, largest, kind of keys. The k first of the sorted row
template <class E> void topk_wide_rows(const Job& job, long begin, long end) {
    long n = job.n[0], k = job.n[1];
    Placed* best = (Placed*)job.rt->alloc(k * sizeof(Placed));
    for (long row = begin; row < end; row++) {
        const E* x = (const E*)job.p[1] + row * n;
        long held = 0;
        for (long i = 0; i < n; i++) {
            Placed own = {wide_key(x[i], job.n[3], job.n[2]), i};
            if (held == k && own.key >= best[k - 1].key) continue;
            long j = held < k ? held++ : k - 1;
            for (; j > 0 && best[j - 1].key > own.key; j--) best[j] = best[j - 1];
            best[j] = own;
        }
        for (long i = 0; i < k; i++) {
            ((E*)job.p[0])[row * k + i] = x[best[i].at];
            ((long*)job.p[2])[row * k + i] = best[i].at;
        }
    }
    job.rt->release(best);
}
// p: values, x, positions; n: n, k, largest. The k first of the sorted row
template <class T> void topk_rows(const Job& job, long begin, long end) {
    long n = job.n[0], k = job.n[1];
    u64* best = (u64*)job.rt->alloc(k * sizeof(u64));
    for (long row = begin; row < end; row++) {
        const T* x = (const T*)job.p[1] + row * n;
        long held = 0;
        for (long i = 0; i < n; i++) {
            u64 own = sort_key(element(x + i), i, job.n[2]);
            if (held == k && own >= best[k - 1]) continue;
            long j = held < k ? held++ : k - 1;
            for (; j > 0 && best[j - 1] > own; j--) best[j] = best[j - 1];
            best[j] = own;
        }
        for (long i = 0; i < k; i++) {
            long at = (u32)best[i];
            ((T*)job.p[0])[row * k + i] = x[at];
            ((long*)job.p[2])[row * k + i] = at;
        }
    }
    job.rt->release(best);
}

#endif
