// Small reductions and softmax: [outer, n, inner] of contiguous memory, without numpy's calls.
#include "reduced_dims.h"

#include <string.h>

#include <algorithm>
#include <type_traits>
#include <vector>

#include "../../runtime/csrc/job.h"
#include "casts.h"

namespace {

// The sum of a run as numpy takes it (pairwise above 128 elements, eight partial sums below), so that larger tensors and
// graphs that call the record's kernel give the same bits.
template <class T> T run_total(const T* x, npy_intp n) {
    if (n > 128) {
        npy_intp half = n / 2 - n / 2 % 8;
        return run_total(x, half) + run_total(x + half, n - half);
    }
    T total = (T)-0.0;
    npy_intp k = 0;
    if (n >= 8) {
        T part[8];
        memcpy(part, x, sizeof part);
        for (k = 8; k + 8 <= n; k += 8)
            for (int j = 0; j < 8; j++) part[j] += x[k + j];
        total = ((part[0] + part[1]) + (part[2] + part[3])) + ((part[4] + part[5]) + (part[6] + part[7]));
    }
    for (; k < n; k++) total += x[k];
    return total;
}

template <class T, class Total> Total total_of(const T* x, npy_intp step, npy_intp n) {
    if constexpr (std::is_floating_point_v<T>)
        if (step == 1) return run_total(x, n) + (T)0; // numpy starts with 0: no sum is -0.0
    Total total = 0;
    for (npy_intp k = 0; k < n; k++) total += (Total)x[k * step];
    return total;
}

template <class T, class Total> void sum_into(const Span& s, void* out, Total divisor) {
    each_result<T>(s, [&](const T* x, npy_intp step, npy_intp at) {
        Total total = total_of<T, Total>(x, step, s.n);
        ((Total*)out)[at] = divisor == 1 ? total : total / divisor;
    });
}

// The place of the first greatest or least element; of the first NaN, if there is one.
template <class T, bool greatest> npy_intp extreme_of(const T* x, npy_intp step, npy_intp n) {
    npy_intp best = 0;
    auto top = widen(x[0]);
    for (npy_intp k = 1; k < n && top == top; k++) {
        auto v = widen(x[k * step]);
        if ((greatest ? v > top : v < top) || v != v) best = k, top = v;
    }
    return best;
}

struct Extremes {
    void* values; // null: not wanted
    int64_t* places;
};

template <class T, bool greatest> void extremes_into(const Span& s, const Extremes& out) {
    each_result<T>(s, [&](const T* x, npy_intp step, npy_intp at) {
        npy_intp k = extreme_of<T, greatest>(x, step, s.n);
        if (out.values) ((T*)out.values)[at] = x[k * step];
        if (out.places) out.places[at] = k;
    });
}

template <bool greatest> bool extremes(const Span& s, const Extremes& out) {
    switch (s.type) {
    case FLOAT32: return extremes_into<float, greatest>(s, out), true;
    case FLOAT64: return extremes_into<double, greatest>(s, out), true;
    case INT64: return extremes_into<int64_t, greatest>(s, out), true;
    case INT32: return extremes_into<int32_t, greatest>(s, out), true;
    case INT16: return extremes_into<int16_t, greatest>(s, out), true;
    case INT8: return extremes_into<int8_t, greatest>(s, out), true;
    case FLOAT16: return extremes_into<Half, greatest>(s, out), true;
    case BFLOAT16: return extremes_into<BFloat, greatest>(s, out), true;
    case UINT8: case BOOL: return extremes_into<uint8_t, greatest>(s, out), true;
    }
    return false;
}

// Whole numbers of any count, without places: rows into the greatest (least) of each, or of all.
#define FB_TOP(T, name, op) \
    FB_EACH_MACHINE T name##_run(const T* x, npy_intp n) { \
        T top = x[0]; \
        for (npy_intp k = 1; k < n; k++) top = x[k] op top ? x[k] : top; \
        return top; \
    } \
    FB_EACH_MACHINE void name##_rows(T* out, const T* x, npy_intp n) { \
        for (npy_intp k = 0; k < n; k++) out[k] = x[k] op out[k] ? x[k] : out[k]; \
    }
FB_TOP(int64_t, greatest_long, >)
FB_TOP(int64_t, least_long, <)
FB_TOP(int32_t, greatest_int, >)
FB_TOP(int32_t, least_int, <)
FB_TOP(uint8_t, greatest_byte, >)
FB_TOP(uint8_t, least_byte, <)
#undef FB_TOP
// The place of the first of n elements that equals what one of them is.
FB_EACH_MACHINE bool has_long(const int64_t* x, int64_t what) {
    bool found = false;
    for (int k = 0; k < 64; k++) found |= x[k] == what;
    return found;
}
npy_intp place_of_long(const int64_t* x, int64_t what, npy_intp n) {
    npy_intp k = 0;
    while (k + 64 <= n && !has_long(x + k, what)) k += 64;
    while (k < n && x[k] != what) k++;
    return k;
}
// Extremes of long rows with their places.
template <bool greatest> bool long_extremes(const Span& s, const Extremes& out) {
    if (s.type != INT64 || s.inner != 1) return false;
    const int64_t* x = (const int64_t*)PyArray_DATA(s.a);
    for (npy_intp o = 0; o < s.outer; o++, x += s.n) {
        int64_t top = greatest ? greatest_long_run(x, s.n) : least_long_run(x, s.n);
        if (out.values) ((int64_t*)out.values)[o] = top;
        if (out.places) out.places[o] = place_of_long(x, top, s.n);
    }
    return true;
}

template <class T> void whole_tops(const Span& s, void* result, T (*run)(const T*, npy_intp), void (*rows)(T*, const T*, npy_intp)) {
    const T* x = (const T*)PyArray_DATA(s.a);
    T* out = (T*)result;
    for (npy_intp o = 0; o < s.outer; o++, x += s.n * s.inner, out += s.inner) {
        if (s.inner == 1) {
            *out = run(x, s.n);
            continue;
        }
        memcpy(out, x, s.inner * sizeof(T));
        for (npy_intp k = 1; k < s.n; k++) rows(out, x + k * s.inner, s.inner);
    }
}
template <bool greatest> bool large_extremes(const Span& s, void* out) {
    switch (s.type) {
    case INT64:
        whole_tops<int64_t>(s, out, greatest ? greatest_long_run : least_long_run, greatest ? greatest_long_rows : least_long_rows);
        return true;
    case INT32:
        whole_tops<int32_t>(s, out, greatest ? greatest_int_run : least_int_run, greatest ? greatest_int_rows : least_int_rows);
        return true;
    case UINT8: case BOOL:
        whole_tops<uint8_t>(s, out, greatest ? greatest_byte_run : least_byte_run, greatest ? greatest_byte_rows : least_byte_rows);
        return true;
    }
    return false;
}
bool is_whole(PyObject* x) {
    int type = is_tensor(x) ? type_of(x) : -1;
    return type == INT64 || type == INT32 || type == UINT8 || type == BOOL;
}
constexpr npy_intp MANY = 1l << 40;
npy_intp limit_of(PyObject* x) { return is_whole(x) ? 1l << 24 : MANY; }

// ---- handlers

// The node of record(x, *middle, dims, keepdim), if the call is recorded. Steals `out`.
PyObject* recorded(const Call& c, PyObject* x, const Span& s, PyObject* middle, bool keepdim, PyObject* out) {
    if (!out || !c.grad || !needs_grad(x)) return out;
    Ref result(out);
    return record_span(c.self->head.op, c.self->needs, x, s, middle, keepdim, &out, 1) ? result.release() : nullptr;
}

// The place of a kernel in the runtime's tables, one for all instruction sets.
int job_number(const char* name) {
    const JobKernel* first = world.api->jobs();
    for (const JobKernel* k = first; k->name; k++)
        if (!strcmp(k->name, name)) return (int)(k - first);
    return -1;
}

// ---- sums of many elements

#define FB_TOTAL(T, name) \
    FB_EACH_MACHINE uint64_t name##_run(const T* x, npy_intp n) { \
        uint64_t total = 0; \
        for (npy_intp k = 0; k < n; k++) total += (uint64_t)x[k]; \
        return total; \
    } \
    FB_EACH_MACHINE void name##_rows(uint64_t* out, const T* x, npy_intp n) { \
        for (npy_intp k = 0; k < n; k++) out[k] += (uint64_t)x[k]; \
    }
FB_TOTAL(int64_t, long_total)
FB_TOTAL(uint8_t, byte_total)
#undef FB_TOTAL

// Bytes of truth in registers of bytes first: 255 of them do not overflow.
FB_EACH_MACHINE uint64_t truth_total(const uint8_t* x, npy_intp n) {
    uint64_t total = 0;
    npy_intp k = 0;
    for (; k + 64 <= n;) {
        uint8_t some[64] = {};
        for (int turn = 0; turn < 255 && k + 64 <= n; turn++, k += 64)
            for (int j = 0; j < 64; j++) some[j] += x[k + j];
        for (int j = 0; j < 64; j++) total += some[j];
    }
    for (; k < n; k++) total += x[k];
    return total;
}

template <class T>
void whole_totals(const Span& s, uint64_t* out, uint64_t (*run)(const T*, npy_intp),
    void (*rows)(uint64_t*, const T*, npy_intp)) {
    const T* x = (const T*)PyArray_DATA(s.a);
    if (s.inner > 1) memset(out, 0, s.outer * s.inner * sizeof *out);
    for (npy_intp o = 0; o < s.outer; o++, x += s.n * s.inner, out += s.inner) {
        if (s.inner == 1) *out = run(x, s.n);
        else
            for (npy_intp k = 0; k < s.n; k++) rows(out, x + k * s.inner, s.inner);
    }
}

// Rows of floats by the runtime's kernel, as the record takes them (runtime/reductions.py): in chunks where all is one row.
constexpr npy_intp ROWS_FROM = 4096, CHUNK = 1 << 15;

struct RowJob {
    Job job;
    FbJob run;
};
void run_row_job(void* raw, long begin, long end, int) {
    RowJob& r = *(RowJob*)raw;
    r.run(r.job, begin, end);
}
int job_type(int type) { return type == FLOAT32 ? 0 : type == FLOAT64 ? 1 : type == BFLOAT16 ? 2 : 3; }

// `units` of `work` elements each; numbers: what the kernel is told of the memory
void run_units(int number, int type, const void* x, void* out, const long (&numbers)[6], npy_intp units, npy_intp work,
    double divisor) {
    RowJob r = {};
    r.job.rt = world.api->runtime, r.job.p[0] = out, r.job.p[1] = (void*)x;
    memcpy(r.job.n, numbers, sizeof numbers);
    r.job.f[0] = divisor;
    r.run = world.api->jobs()[number].run[job_type(type)];
    long grain = std::max<long>(1, JOB_GRAIN / work);
    if (units <= grain / 4 || units * work < ROWS_FROM * 4) return r.run(r.job, 0, units);
    Py_BEGIN_ALLOW_THREADS world.api->runtime->parallel_for(run_row_job, &r, units, grain);
    Py_END_ALLOW_THREADS
}
void reduce_rows(int number, int type, const void* x, void* out, npy_intp n, npy_intp units, npy_intp total, double divisor) {
    run_units(number, type, x, out, {n, units, 0, 1, 0, total}, units, n, divisor);
}

enum Joining { ADDED, MULTIPLIED, GREATEST, LEAST }; // how results of chunks become one

// As numpy joins them: the first NaN wins (if it is the first of all, as the usual NaN), and of equals, which zeros of either
// sign are, the last.
template <class T> void join_extremes(const void* parts, npy_intp n, bool greatest, void* out) {
    const T* x = (const T*)parts;
    T top = x[0] == x[0] ? x[0] : (T)__builtin_nan("");
    for (npy_intp k = 1; k < n && top == top; k++) top = (greatest ? x[k] < top : x[k] > top) ? top : x[k];
    *(T*)out = top;
}

bool rows_of_floats(const Span& s, int number, void* out, double divisor, Joining joining = ADDED) {
    npy_intp total = s.outer * s.n;
    bool product = joining == MULTIPLIED;
    if (s.inner != 1 || total < ROWS_FROM || s.n == 1 || (product && s.type == FLOAT64)) return false;
    bool wide = s.type == FLOAT32 || s.type == FLOAT64;
    if (!wide && s.type != FLOAT16 && s.type != BFLOAT16) return false;
    if (!wide || s.outer > 1 || s.n <= 2 * CHUNK) {
        reduce_rows(number, s.type, PyArray_DATA(s.a), out, s.n, s.outer, total, divisor);
        return true;
    }
    npy_intp units = (s.n + CHUNK - 1) / CHUNK;
    std::vector<double> parts(units), sums(units);
    reduce_rows(number, s.type, PyArray_DATA(s.a), parts.data(), CHUNK, units, s.n, 1);
    if (joining == GREATEST || joining == LEAST) {
        (s.type == FLOAT32 ? join_extremes<float> : join_extremes<double>)(parts.data(), units, joining == GREATEST, out);
        return true;
    }
    for (npy_intp k = 0; k < units; k++) sums[k] = s.type == FLOAT32 ? ((float*)parts.data())[k] : parts[k];
    double sum = product ? 1 : run_total(sums.data(), units) / divisor;
    for (npy_intp k = 0; product && k < units; k++) sum *= sums[k];
    if (s.type == FLOAT32) *(float*)out = (float)sum;
    else *(double*)out = sum;
    return true;
}

// Columns of floats by the runtime's kernel; few blocks of columns, whose rows the record divides, are left to it.
bool columns_of_floats(const Span& s, int number, void* out, double divisor) {
    if (s.inner == 1 || s.n == 1 || s.outer * s.n * s.inner < ROWS_FROM) return false;
    if (s.type != FLOAT32 && s.type != FLOAT64 && s.type != FLOAT16 && s.type != BFLOAT16) return false;
    npy_intp block = world.api->column_block(), blocks = (s.inner + block - 1) / block, units = s.outer * blocks;
    if (units <= 2) return false;
    run_units(number, s.type, PyArray_DATA(s.a), out, {s.n, s.inner, blocks}, units, s.n * std::min(s.inner, block), divisor);
    return true;
}

template <bool greatest> bool float_extremes(const Span& s, void* out) {
    static const int rows = job_number(greatest ? "max_rows" : "min_rows"),
                     columns = job_number(greatest ? "max_columns" : "min_columns");
    return rows_of_floats(s, rows, out, 1, greatest ? GREATEST : LEAST) || columns_of_floats(s, columns, out, 1);
}

// The sum, mean, or sum of what is no NaN, of more elements than the handlers below take; null where the record has to do it.
PyObject* large_sum(const Call& c, PyObject* x, const Span& s, int kernel, bool plain, double divisor, bool keepdim) {
    static const int columns = job_number("sum_columns");
    bool whole = plain && divisor == 0 && (s.type == INT64 || s.type == BOOL);
    bool taken = (plain || s.inner == 1) && s.outer * s.n * s.inner >= ROWS_FROM && world.types[s.type].category == 2;
    if (!whole && !taken) return nullptr;
    int type = whole ? INT64 : s.type;
    Ref array(result_of(s, type, keepdim));
    if (!array) return nullptr;
    void* out = PyArray_DATA((PyArrayObject*)array.get());
    if (s.type == INT64 && whole) whole_totals<int64_t>(s, (uint64_t*)out, long_total_run, long_total_rows);
    else if (whole) whole_totals<uint8_t>(s, (uint64_t*)out, truth_total, byte_total_rows);
    else if (!rows_of_floats(s, kernel, out, divisor ? divisor : 1) && !columns_of_floats(s, columns, out, divisor ? divisor : 1))
        return nullptr;
    return recorded(c, x, s, nullptr, keepdim, tensor_around(array.release(), type));
}

PyObject* numbers_of_many(const Call& c) {
    static const Names<3> names("input", "dim", "keepdim");
    PyObject* a[3];
    Span s;
    bool keepdim;
    if (!parse(c, names, a) || !a[0] || !flag_of(a[2], keepdim) || !read_span(a[0], a[1], s, MANY)) return nullptr;
    static const int kernel = job_number("numbers_rows");
    return large_sum(c, a[0], s, kernel, false, 0, keepdim);
}

PyObject* product_of_many(const Call& c) {
    static const Names<3> names("input", "dim", "keepdim");
    static const int kernel = job_number("product_rows");
    PyObject* a[3];
    Span s;
    bool keepdim;
    if (!parse(c, names, a) || !a[0] || a[1] == Py_None || !flag_of(a[2], keepdim) || !read_span(a[0], a[1], s, MANY)
        || world.types[s.type].category != 2 || s.inner != 1 || s.outer * s.n < ROWS_FROM)
        return nullptr;
    Ref array(result_of(s, s.type, keepdim));
    if (!array || !rows_of_floats(s, kernel, data_of(array.get()), 1, MULTIPLIED)) return nullptr;
    return recorded(c, a[0], s, nullptr, keepdim, tensor_around(array.release(), s.type));
}

template <bool mean> PyObject* sum(const Call& c) {
    static const Names<3> names("input", "dim", "keepdim");
    PyObject* a[3];
    Span s;
    bool keepdim;
    if (!parse(c, names, a) || !a[0] || !flag_of(a[2], keepdim)) return nullptr;
    if (!read_span(a[0], a[1], s, MANY)) return a[1] && PyTuple_CheckExact(a[1]) ? small_sum_over(c, mean) : nullptr;
    static const int kernel = job_number("sum_rows");
    if (PyArray_SIZE(s.a) > SMALL_REDUCTION) return large_sum(c, a[0], s, kernel, true, mean ? (double)s.n : 0, keepdim);
    bool real = s.type == FLOAT32 || s.type == FLOAT64;
    if (s.type == FLOAT16 || s.type == BFLOAT16) return small_sum_over(c, mean);
    if (s.inner > 1 && s.n > 128) return nullptr; // the record's kernel takes such columns in blocks
    if (!real && (mean || (s.type != INT64 && s.type != BOOL))) return nullptr;
    PyObject* array = result_of(s, real ? s.type : INT64, keepdim);
    if (!array) return nullptr;
    void* out = PyArray_DATA((PyArrayObject*)array);
    npy_intp divisor = mean ? s.n : 1;
    if (s.type == FLOAT32) sum_into<float, float>(s, out, (float)divisor);
    else if (s.type == FLOAT64) sum_into<double, double>(s, out, (double)divisor);
    else if (s.type == INT64) sum_into<uint64_t, uint64_t>(s, out, 1);
    else sum_into<uint8_t, uint64_t>(s, out, 1);
    return recorded(c, a[0], s, nullptr, keepdim, tensor_around(array, real ? s.type : INT64));
}

template <bool greatest> PyObject* whole_extreme(const Call& c, PyObject* x, const Span& s, bool keepdim) {
    PyObject* array = result_of(s, s.type, keepdim);
    if (!array) return nullptr;
    void* out = PyArray_DATA((PyArrayObject*)array);
    bool few = PyArray_SIZE(s.a) <= SMALL_REDUCTION;
    if (!large_extremes<greatest>(s, out) && !(few ? extremes<greatest>(s, {out, nullptr}) : float_extremes<greatest>(s, out))) {
        Py_DECREF(array);
        return nullptr;
    }
    return recorded(c, x, s, nullptr, keepdim, tensor_around(array, s.type));
}

// amax(input, dim=(), keepdim=False)
template <bool greatest> PyObject* amax(const Call& c) {
    static const Names<3> names("input", "dim", "keepdim");
    PyObject* a[3];
    Span s;
    bool keepdim;
    if (!parse(c, names, a) || !a[0] || a[1] == Py_None || !flag_of(a[2], keepdim)
        || !read_span(a[0], a[1], s, limit_of(a[0])))
        return nullptr;
    return whole_extreme<greatest>(c, a[0], s, keepdim);
}

// (values, places) along one dim; or the one extreme of all elements
template <bool greatest> PyObject* max(const Call& c) {
    static const Names<3> names("input", "dim", "keepdim");
    PyObject* a[3];
    Span s;
    bool keepdim;
    if (!parse(c, names, a) || !a[0] || !flag_of(a[2], keepdim)) return nullptr;
    if (!a[1]) return !a[2] && read_span(a[0], nullptr, s, limit_of(a[0])) ? whole_extreme<greatest>(c, a[0], s, false) : nullptr;
    static KeptRecord* along = kept_record(greatest ? "max_dim" : "min_dim");
    if (!PyLong_CheckExact(a[1]) || !read_span(a[0], a[1], s, MANY)) return nullptr;
    bool rows = s.type == INT64 && s.inner == 1 && s.n >= 64;
    if (!rows && PyArray_SIZE(s.a) > SMALL_REDUCTION) return nullptr;
    Ref values(result_of(s, s.type, keepdim)), places(result_of(s, INT64, keepdim));
    if (!values || !places) return nullptr;
    Extremes found = {PyArray_DATA((PyArrayObject*)values.get()), (int64_t*)PyArray_DATA((PyArrayObject*)places.get())};
    if (!(rows && long_extremes<greatest>(s, found)) && !extremes<greatest>(s, found)) return nullptr;
    PyTypeObject* type = (PyTypeObject*)c.self->pair;
    Ref first(tensor_around(values.release(), s.type)), second(tensor_around(places.release(), INT64));
    if (!first || !second) return nullptr;
    PyObject* outs[] = {first.get(), second.get()};
    if (c.grad && needs_grad(a[0]) && !record_span(along->op, along->needs, a[0], s, nullptr, keepdim, outs, 2)) return nullptr;
    PyObject* pair = type->tp_alloc(type, 2);
    if (!pair) return nullptr;
    PyTuple_SET_ITEM(pair, 0, first.release());
    PyTuple_SET_ITEM(pair, 1, second.release());
    return pair;
}

// Elements that are not zero, of a whole tensor.
#define FB_COUNT(T, name) \
    FB_EACH_MACHINE npy_intp name(const T* x, npy_intp n) { \
        npy_intp count = 0; \
        for (npy_intp k = 0; k < n;) { \
            uint32_t some = 0; \
            npy_intp stop = n - k < 4096 ? n : k + 4096; \
            for (; k < stop; k++) some += x[k] != 0; \
            count += some; \
        } \
        return count; \
    }
FB_COUNT(uint8_t, count_bytes)
FB_COUNT(int64_t, count_longs)
FB_COUNT(int32_t, count_ints)
FB_COUNT(float, count_floats)
FB_COUNT(double, count_doubles)
#undef FB_COUNT

PyObject* count_nonzero(const Call& c) {
    if (c.n != 1 || c.names) return nullptr;
    PyArrayObject* a = dense_array(c.args[0]);
    if (!a || PyArray_SIZE(a) > 1 << 24) return nullptr;
    npy_intp n = PyArray_SIZE(a), count;
    const void* x = PyArray_DATA(a);
    switch (type_of(c.args[0])) {
    case BOOL: case UINT8: case INT8: count = count_bytes((const uint8_t*)x, n); break;
    case INT64: count = count_longs((const int64_t*)x, n); break;
    case INT32: count = count_ints((const int32_t*)x, n); break;
    case FLOAT32: count = count_floats((const float*)x, n); break;
    case FLOAT64: count = count_doubles((const double*)x, n); break;
    default: return nullptr;
    }
    PyObject* array = fresh_array(INT64, 0, nullptr, nullptr);
    if (array) *(int64_t*)PyArray_DATA((PyArrayObject*)array) = count;
    return tensor_around(array, INT64);
}

// The least and the greatest of all; NaN where one is. Many lanes beside each other, so that the loop needs no order.
FB_EACH_MACHINE void float_range(const float* x, npy_intp n, float* out) {
    constexpr int many = 64;
    float low[many], high[many], odd[many];
    for (int j = 0; j < many; j++) low[j] = high[j] = x[0], odd[j] = 0;
    npy_intp k = 0;
    for (; k + many <= n; k += many)
        for (int j = 0; j < many; j++) {
            float v = x[k + j];
            low[j] = v < low[j] ? v : low[j], high[j] = v > high[j] ? v : high[j], odd[j] += v - v;
        }
    for (; k < n; k++) low[0] = x[k] < low[0] ? x[k] : low[0], high[0] = x[k] > high[0] ? x[k] : high[0], odd[0] += x[k] - x[k];
    bool doubtful = false; // infinities, or NaN
    for (int j = 0; j < many; j++) {
        low[0] = low[j] < low[0] ? low[j] : low[0], high[0] = high[j] > high[0] ? high[j] : high[0];
        doubtful |= odd[j] != 0;
    }
    out[0] = low[0], out[1] = high[0];
    if (doubtful)
        for (k = 0; k < n; k++)
            if (x[k] != x[k]) out[0] = out[1] = x[k];
}

// Both along some dims, outside of autograd.
PyObject* ranges(const Call& c, PyObject* x, PyObject* dim, bool keepdim) {
    Span s;
    if (!read_span(x, dim, s)) return nullptr;
    Ref pair(((PyTypeObject*)c.self->pair)->tp_alloc((PyTypeObject*)c.self->pair, 2));
    for (int k = 0; pair && k < 2; k++) {
        Ref array(result_of(s, s.type, keepdim));
        if (!array) return nullptr;
        Extremes out = {data_of(array.get()), nullptr};
        if (!(k ? extremes<true>(s, out) : extremes<false>(s, out))) return nullptr;
        PyObject* t = tensor_around(array.release(), s.type);
        if (!t) return nullptr;
        PyTuple_SET_ITEM(pair.get(), k, t);
    }
    return pair.release();
}

// aminmax(input, *, dim=None, keepdim=False)
PyObject* aminmax(const Call& c) {
    static const Names<3> names("input", "dim", "keepdim");
    PyObject* given[3];
    bool keepdim;
    if (c.n != 1 || !parse(c, names, given) || !is_tensor(given[0]) || (c.grad && needs_grad(given[0])) || !flag_of(given[2], keepdim))
        return nullptr;
    if (!absent(given[1])) return PyLong_CheckExact(given[1]) ? ranges(c, given[0], given[1], keepdim) : nullptr;
    if (given[2]) return nullptr;
    PyArrayObject* a = dense_array(c.args[0]);
    npy_intp n = a ? PyArray_SIZE(a) : 0;
    if (!n || n > 1 << 20 || type_of(c.args[0]) != FLOAT32) return nullptr;
    float range[2];
    float_range((const float*)PyArray_DATA(a), n, range);
    Ref pair(((PyTypeObject*)c.self->pair)->tp_alloc((PyTypeObject*)c.self->pair, 2));
    for (int k = 0; pair && k < 2; k++) {
        PyObject* array = fresh_array(FLOAT32, 0, nullptr, nullptr);
        if (array) *(float*)PyArray_DATA((PyArrayObject*)array) = range[k];
        PyObject* t = tensor_around(array, FLOAT32);
        if (!t) return nullptr;
        PyTuple_SET_ITEM(pair.get(), k, t);
    }
    return pair.release();
}

template <bool greatest> PyObject* argmax(const Call& c) {
    static const Names<3> names("input", "dim", "keepdim");
    PyObject* a[3];
    Span s;
    bool keepdim;
    if (!parse(c, names, a) || !a[0] || (!absent(a[1]) && !PyLong_CheckExact(a[1])) || !flag_of(a[2], keepdim)
        || !read_span(a[0], a[1], s) || s.type == BOOL)
        return nullptr;
    Ref array(result_of(s, INT64, keepdim));
    if (!array || !extremes<greatest>(s, {nullptr, (int64_t*)PyArray_DATA((PyArrayObject*)array.get())}))
        return nullptr;
    return tensor_around(array.release(), INT64);
}

template <bool all> PyObject* truth(const Call& c) {
    static const Names<3> names("input", "dim", "keepdim");
    PyObject* a[3];
    Span s;
    bool keepdim;
    if (!parse(c, names, a) || !a[0] || !flag_of(a[2], keepdim) || !read_span(a[0], a[1], s) || s.type != BOOL)
        return nullptr;
    PyObject* array = result_of(s, BOOL, keepdim);
    if (!array) return nullptr;
    uint8_t* out = (uint8_t*)PyArray_DATA((PyArrayObject*)array);
    each_result<uint8_t>(s, [&](const uint8_t* x, npy_intp step, npy_intp at) {
        npy_intp k = 0;
        while (k < s.n && !x[k * step] == !all) k++;
        out[at] = (k < s.n) != all;
    });
    return tensor_around(array, BOOL);
}

// The runtime's own kernel on rows: the bits are those of larger tensors. The table is asked in every call, since the
// instruction set may be another than at the first one.
template <bool logarithm> PyObject* softmax(const Call& c) {
    static const Names<3> names("input", "dim", "dtype");
    PyObject* a[3];
    Span s;
    if (!parse(c, names, a) || !a[0] || !a[1] || !PyLong_CheckExact(a[1]) || !absent(a[2])
        || !read_span(a[0], a[1], s) || kernel_type(s.type) < 0 || s.inner > 16) // (one block of columns in every instruction set)
        return nullptr;
    static const int rows = job_number(logarithm ? "log_softmax_rows" : "softmax_rows"),
                     columns = job_number(logarithm ? "log_softmax_columns" : "softmax_columns");
    Ref array(fresh_array(s.type, PyArray_NDIM(s.a), PyArray_DIMS(s.a), nullptr));
    if (!array) return nullptr;
    Job job = {};
    job.rt = world.api->runtime;
    job.p[0] = PyArray_DATA((PyArrayObject*)array.get()), job.p[1] = PyArray_DATA(s.a);
    job.n[0] = s.n, job.n[1] = s.inner, job.n[2] = 1;
    FbJob kernel = world.api->jobs()[s.inner == 1 ? rows : columns].run[kernel_type(s.type)];
    if (!kernel) return nullptr;
    kernel(job, 0, s.outer);
    Ref out(tensor_around(array.release(), s.type));
    if (!out || !c.grad || !needs_grad(a[0])) return out.release();
    Ref dim(PyLong_FromLong(s.first));
    PyObject* given[] = {a[0], dim.get()};
    return dim && record(c.self->head.op, c.self->needs, given, 2, 1, out.get()) ? out.release() : nullptr;
}

}

int small_job(const char* name) { return job_number(name); }
PyObject* large_nansum(const Call& c) { return numbers_of_many(c); }
PyObject* large_prod(const Call& c) { return product_of_many(c); }
float small_row_sum(const float* x, npy_intp n) { return total_of<float, float>(x, 1, n); }
void large_row_sums(PyArrayObject* x, npy_intp rows, float* out) {
    static const int kernel = job_number("sum_rows");
    npy_intp n = PyArray_SIZE(x) / rows;
    Span s = {};
    s.a = x, s.type = FLOAT32, s.outer = rows, s.n = n, s.inner = 1;
    if (rows_of_floats(s, kernel, out, 1)) return;
    for (npy_intp r = 0; r < rows; r++) out[r] = small_row_sum((const float*)PyArray_DATA(x) + r * n, n);
}

const SmallEntry small_reductions[] = {{"sum", sum<false>}, {"mean", sum<true>}, {"amax", amax<true>},
    {"amin", amax<false>}, {"max", max<true>}, {"min", max<false>}, {"argmax", argmax<true>}, {"count_nonzero", count_nonzero},
    {"aminmax", aminmax},
    {"argmin", argmax<false>}, {"any", truth<false>}, {"all", truth<true>}, {"softmax", softmax<false>},
    {"log_softmax", softmax<true>}, {nullptr, nullptr}};
