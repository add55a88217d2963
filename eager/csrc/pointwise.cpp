// Pointwise maps: a formula as a program of numpy's inner loops, run block by block over operands of any strides.
//
// `Map` is the call path of one record. A call's operand types select a plan (made once by ufunc_program.py); the plan's
// steps run over blocks that stay in the cache, on the pool when there is enough to do. Values are numpy's, because the
// loops are. The output's strides follow the first operand that orders the dimensions, as meta.py says.
#include "call.h"

#include <string.h>

#include <algorithm>
#include <vector>

#include "casts.h"
#include "numpy_loops.h"
#include "small_tensor.h"

namespace {

constexpr int BLOCK = 1024, MAX_REGISTERS = 40, MAX_STEPS = 40;
constexpr long PARALLEL_FROM = 32768, DROP_GIL_FROM = 1 << 16;

enum StepKind { LOOP, CAST, WHERE };
struct Step {
    StepKind kind;
    PyUFuncGenericFunction loop;
    void* data;
    CastLoop cast;
    int itemsize, count, in[4], out; // registers: arguments, constants, temporaries; the last one is the output
};

struct Program {
    int arguments, constants, registers; // of all registers, the last is the output
    int itemsize[MAX_REGISTERS];
    char constant[MAX_REGISTERS][16];
    int number[MAX_ARGS]; // type in which a number argument is read, or -1
    std::vector<Step> steps;
    int result; // type number
    int divisor; // the argument whose zeros are refused (in Python), or -1
    double weight; // steps, for the decision to go parallel
    int scratch; // bytes of temporaries per element
};

// ---- plans from Python

bool own_step(PyObject* name, Step& step) {
    const char* text = PyUnicode_AsUTF8(name);
    const OwnLoop* own = text ? own_loop(text) : nullptr;
    if (!own && text) PyErr_Format(PyExc_ValueError, "no loop %U", name);
    if (own) step.kind = LOOP, step.loop = (PyUFuncGenericFunction)own->loop, step.data = (void*)own;
    return own;
}

bool read_step(PyObject* item, Step& step) {
    PyObject *what, *in;
    int which;
    if (!PyArg_ParseTuple(item, "OiO!i", &what, &which, &PyTuple_Type, &in, &step.out)) return false;
    step.count = (int)PyTuple_GET_SIZE(in);
    for (int k = 0; k < step.count && k < 4; k++) step.in[k] = (int)PyLong_AsLong(PyTuple_GET_ITEM(in, k));
    if (PyLong_Check(what)) { // cast from type `what` to type `which`; -1: where, of items of `which` bytes
        int from = (int)PyLong_AsLong(what);
        step.kind = from < 0 ? WHERE : CAST;
        step.itemsize = which;
        step.cast = from < 0 ? nullptr : cast_loop(from, which);
        if (step.kind == CAST && !step.cast) PyErr_SetString(PyExc_ValueError, "no cast between these types");
        return !PyErr_Occurred();
    }
    if (PyUnicode_Check(what)) return own_step(what, step);
    PyUFuncObject* ufunc = (PyUFuncObject*)what;
    if (!PyObject_TypeCheck(what, &PyUFunc_Type) || which < 0 || which >= ufunc->ntypes) {
        PyErr_SetString(PyExc_ValueError, "no such loop");
        return false;
    }
    step.kind = LOOP, step.loop = ufunc->functions[which], step.data = ufunc->data ? ufunc->data[which] : nullptr;
    if (!step.loop) PyErr_SetString(PyExc_ValueError, "the loop is empty");
    return step.loop;
}

// (number of arguments, constants as 0-dim arrays, item sizes of all registers, types of number arguments, steps,
// result type, divisor)
Program* read_program(PyObject* plan) {
    PyObject *constants, *sizes, *numbers, *steps;
    Program p = {};
    if (!PyArg_ParseTuple(plan, "iO!O!O!O!ii", &p.arguments, &PyTuple_Type, &constants, &PyTuple_Type, &sizes,
            &PyTuple_Type, &numbers, &PyTuple_Type, &steps, &p.result, &p.divisor))
        return nullptr;
    p.constants = (int)PyTuple_GET_SIZE(constants);
    p.registers = (int)PyTuple_GET_SIZE(sizes);
    if (p.registers > MAX_REGISTERS || p.arguments > MAX_ARGS || PyTuple_GET_SIZE(steps) > MAX_STEPS) {
        PyErr_SetString(PyExc_ValueError, "the program is too long");
        return nullptr;
    }
    for (int k = 0; k < p.registers; k++) p.itemsize[k] = (int)PyLong_AsLong(PyTuple_GET_ITEM(sizes, k));
    for (int k = 0; k < p.arguments; k++) p.number[k] = (int)PyLong_AsLong(PyTuple_GET_ITEM(numbers, k));
    for (int k = 0; k < p.constants; k++) {
        PyArrayObject* value = (PyArrayObject*)PyTuple_GET_ITEM(constants, k);
        memcpy(p.constant[k], PyArray_DATA(value), PyArray_ITEMSIZE(value));
    }
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(steps); k++) {
        Step step = {};
        if (!read_step(PyTuple_GET_ITEM(steps, k), step)) return nullptr;
        p.steps.push_back(step);
    }
    p.weight = (double)p.steps.size();
    for (int k = p.arguments + p.constants; k < p.registers - 1; k++) p.scratch += p.itemsize[k];
    if (p.scratch > 160) PyErr_SetString(PyExc_ValueError, "the program has too many temporaries");
    return PyErr_Occurred() ? nullptr : new Program(std::move(p));
}

// ---- running

// The space of a call after neighbouring dimensions are merged: sizes, and byte strides per argument and of the output.
struct Space {
    int dims;
    npy_intp sizes[MAX_DIMS], total;
    npy_intp strides[MAX_ARGS + 1][MAX_DIMS]; // the last row is the output's
    char* data[MAX_ARGS + 1];
    int itemsize[MAX_ARGS]; // of array arguments
};

struct Job {
    const Program* program;
    Space* space;
    bool aside; // results go to scratch memory first: some of numpy's loops misread strided memory that they write
};

template <class T> void choose(char** p, npy_intp n, const npy_intp* s) {
    for (npy_intp i = 0; i < n; i++)
        *(T*)(p[3] + i * s[3]) = *(p[0] + i * s[0]) ? *(T*)(p[1] + i * s[1]) : *(T*)(p[2] + i * s[2]);
}

struct Sixteen {
    long a, b;
};

// The same for conditions and results side by side, and choices that are side by side or one for all: without a branch.
#define FB_CHOOSE(T, name) \
    FB_EACH_MACHINE void name(const uint8_t* c, const T* a, const T* b, T* out, npy_intp n, bool one_a, bool one_b) { \
        constexpr T all = (T)-1; \
        if (one_a || one_b) { \
            const T *many = one_a ? b : a, one = one_a ? *a : *b; \
            const bool flip = one_a; \
            if (one_a && one_b) { \
                T other = *b; \
                for (npy_intp i = 0; i < n; i++) out[i] = other ^ ((one ^ other) & (T)(c[i] != 0 ? all : 0)); \
                return; \
            } \
            for (npy_intp i = 0; i < n; i++) out[i] = one ^ ((one ^ many[i]) & (T)((c[i] != 0) ^ flip ? all : 0)); \
            return; \
        } \
        for (npy_intp i = 0; i < n; i++) out[i] = b[i] ^ ((a[i] ^ b[i]) & (T)(c[i] != 0 ? all : 0)); \
    }
FB_CHOOSE(uint32_t, choose_4)
FB_CHOOSE(uint64_t, choose_8)
FB_CHOOSE(uint16_t, choose_2)
FB_CHOOSE(uint8_t, choose_1)
#undef FB_CHOOSE

template <class T> bool choose_run(void (*run)(const uint8_t*, const T*, const T*, T*, npy_intp, bool, bool), char** p,
    npy_intp n, const npy_intp* s) {
    const npy_intp size = sizeof(T);
    if (s[0] != 1 || s[3] != size || (s[1] && s[1] != size) || (s[2] && s[2] != size)) return false;
    run((const uint8_t*)p[0], (const T*)p[1], (const T*)p[2], (T*)p[3], n, !s[1], !s[2]);
    return true;
}

template <class T> void take_one(const char* from, npy_intp step, char* to, npy_intp to_step, npy_intp n) {
    if (step == sizeof(T) && to_step == step) memmove(to, from, n * step);
    else
        for (npy_intp i = 0; i < n; i++) *(T*)(to + i * to_step) = *(const T*)(from + i * step);
}

void where_loop(int itemsize, char** p, npy_intp n, const npy_intp* s) {
    if (!s[0] && n > 1) { // one condition for all
        int k = *p[0] ? 1 : 2;
        if (itemsize == 4) return take_one<int>(p[k], s[k], p[3], s[3], n);
        if (itemsize == 8) return take_one<long>(p[k], s[k], p[3], s[3], n);
        if (itemsize == 2) return take_one<short>(p[k], s[k], p[3], s[3], n);
    }
    if (itemsize == 4 && choose_run<uint32_t>(choose_4, p, n, s)) return;
    if (itemsize == 8 && choose_run<uint64_t>(choose_8, p, n, s)) return;
    if (itemsize == 2 && choose_run<uint16_t>(choose_2, p, n, s)) return;
    if (itemsize == 1 && choose_run<uint8_t>(choose_1, p, n, s)) return;
    if (itemsize == 4) choose<int>(p, n, s);
    else if (itemsize == 8) choose<long>(p, n, s);
    else if (itemsize == 2) choose<short>(p, n, s);
    else if (itemsize == 1) choose<char>(p, n, s);
    else choose<Sixteen>(p, n, s);
}

// One run of `n` elements: `data` and `strides` of the arguments and of the output.
void run_block(const Program& p, char* const* data, const npy_intp* strides, npy_intp n, char* scratch,
    bool aside) {
    char* at[MAX_REGISTERS];
    npy_intp step[MAX_REGISTERS];
    int last = p.registers - 1;
    for (int k = 0; k < p.arguments; k++) at[k] = data[k], step[k] = strides[k];
    at[last] = data[MAX_ARGS], step[last] = strides[MAX_ARGS];
    for (int k = 0; k < p.constants; k++) at[p.arguments + k] = (char*)p.constant[k], step[p.arguments + k] = 0;
    for (int k = p.arguments + p.constants; k < last; k++) {
        at[k] = scratch, step[k] = p.itemsize[k];
        scratch += BLOCK * p.itemsize[k];
    }
    if (aside) at[last] = scratch, step[last] = p.itemsize[last];
    for (const Step& s : p.steps) {
        char* pointers[5];
        npy_intp steps[5];
        bool one = s.out != last; // of operands that are one for all, so is the result
        for (int k = 0; k < s.count; k++) pointers[k] = at[s.in[k]], steps[k] = step[s.in[k]], one = one && !steps[k];
        npy_intp count = one ? 1 : n;
        char kept[4][16]; // what is one for all lies where the result goes
        for (int k = 0; k < s.count && !one; k++)
            if (s.in[k] == s.out && !steps[k]) pointers[k] = (char*)memcpy(kept[k], pointers[k], p.itemsize[s.out]);
        if (s.out != last) step[s.out] = one ? 0 : p.itemsize[s.out];
        pointers[s.count] = at[s.out], steps[s.count] = one ? p.itemsize[s.out] : step[s.out];
        if (s.kind == LOOP) s.loop(pointers, &count, steps, s.data);
        else if (s.kind == CAST) s.cast(pointers[0], steps[0], pointers[1], steps[1], count);
        else where_loop(s.itemsize, pointers, count, steps);
    }
    if (aside) move_loop(p.result)(at[last], step[last], data[MAX_ARGS], strides[MAX_ARGS], n);
}

// ---- rows shorter than a block: several at once, operands that are no single run are laid side by side for it

#define FB_LAY(T, name) \
    FB_EACH_MACHINE void name(T* to, const char* from, npy_intp row, npy_intp step, npy_intp rows, npy_intp width) { \
        for (npy_intp r = 0; r < rows; r++, to += width, from += row) { \
            if (step == 0) { \
                T one = *(const T*)from; \
                for (npy_intp k = 0; k < width; k++) to[k] = one; \
            } else if (step == sizeof(T)) { \
                for (npy_intp k = 0; k < width; k++) to[k] = ((const T*)from)[k]; \
            } else \
                for (npy_intp k = 0; k < width; k++) to[k] = *(const T*)(from + k * step); \
        } \
    }
FB_LAY(uint8_t, lay_1)
FB_LAY(uint16_t, lay_2)
FB_LAY(uint32_t, lay_4)
FB_LAY(uint64_t, lay_8)
#undef FB_LAY

void lay(char* to, const char* from, npy_intp row, npy_intp step, npy_intp rows, npy_intp width, int itemsize) {
    if (itemsize == 4) lay_4((uint32_t*)to, from, row, step, rows, width);
    else if (itemsize == 8) lay_8((uint64_t*)to, from, row, step, rows, width);
    else if (itemsize == 2) lay_2((uint16_t*)to, from, row, step, rows, width);
    else lay_1((uint8_t*)to, from, row, step, rows, width);
}

// Whether rows of this space go several at a time: the output's lie side by side, and all operands can be laid so.
bool many_rows(const Program& p, const Space& space, bool aside) {
    int inner = space.dims - 1;
    if (aside || inner < 1 || space.sizes[inner] > BLOCK / 4) return false;
    const npy_intp* out = space.strides[MAX_ARGS];
    if (out[inner] != p.itemsize[p.registers - 1] || out[inner - 1] != out[inner] * space.sizes[inner]) return false;
    for (int k = 0; k < p.arguments; k++)
        if (space.itemsize[k] > 8) return false;
    return true;
}

// `rows` rows from where `data` points to; `room` holds a block of each operand.
void run_rows(const Program& p, const Space& space, char* const* data, npy_intp rows, char* scratch, char* room) {
    int inner = space.dims - 1;
    npy_intp width = space.sizes[inner], steps[MAX_ARGS + 1];
    char* at[MAX_ARGS + 1];
    for (int k = 0; k < p.arguments; k++) {
        npy_intp row = space.strides[k][inner - 1], step = space.strides[k][inner];
        if (row == step * width) {
            at[k] = data[k], steps[k] = step;
            continue;
        }
        lay(room, data[k], row, step, rows, width, space.itemsize[k]);
        at[k] = room, steps[k] = space.itemsize[k];
        room += BLOCK * space.itemsize[k];
    }
    at[MAX_ARGS] = data[MAX_ARGS], steps[MAX_ARGS] = space.strides[MAX_ARGS][inner];
    run_block(p, at, steps, rows * width, scratch, false);
}

void run_range(void* raw, long begin, long end, int) {
    const Job& job = *(Job*)raw;
    const Program& p = *job.program;
    const Space& space = *job.space;
    bool blocked = job.aside || p.registers - 1 > p.arguments + p.constants;
    alignas(64) char scratch[blocked ? BLOCK * (p.scratch + 16) : 64];
    bool many = many_rows(p, space, job.aside);
    alignas(64) char room[many ? BLOCK * 8 * p.arguments : 64];
    npy_intp index[MAX_DIMS] = {}, strides[MAX_ARGS + 1];
    char* data[MAX_ARGS + 1];
    int inner = space.dims - 1;
    npy_intp rest = begin, width = space.sizes[inner];
    for (int d = inner; d >= 0; d--) index[d] = rest % space.sizes[d], rest /= space.sizes[d];
    for (int k = 0; k <= MAX_ARGS; k++) {
        if (k >= p.arguments && k != MAX_ARGS) continue;
        data[k] = space.data[k], strides[k] = space.strides[k][inner];
        for (int d = 0; d <= inner; d++) data[k] += index[d] * space.strides[k][d];
    }
    for (npy_intp left = end - begin; left > 0;) {
        npy_intp n = width - index[inner] < left ? width - index[inner] : left, rows = 0;
        if (many && !index[inner]) rows = std::min({BLOCK / width, left / width, space.sizes[inner - 1] - index[inner - 1]});
        if (rows > 1) {
            n = rows * width;
            run_rows(p, space, data, rows, scratch, room);
        } else {
            if (blocked && n > BLOCK) n = BLOCK;
            run_block(p, data, strides, n, scratch, job.aside);
        }
        left -= n;
        if (left <= 0) break;
        int d = inner;
        if (rows > 1) index[--d] += rows;
        else index[inner] += n;
        for (; d > 0 && index[d] == space.sizes[d]; d--) index[d] = 0, index[d - 1]++;
        for (int k = 0; k <= MAX_ARGS; k++) {
            if (k >= p.arguments && k != MAX_ARGS) continue;
            if (d == inner) data[k] += n * strides[k];
            else {
                data[k] = space.data[k];
                for (int e = 0; e <= inner; e++) data[k] += index[e] * space.strides[k][e];
            }
        }
    }
}

void run(const Program& program, Space& space, bool aside) {
    Job job = {&program, &space, aside};
    long grain = (long)(PARALLEL_FROM / (2 + program.weight));
    if (space.total <= 0) return;
    if (space.total * program.weight < DROP_GIL_FROM) return run_range(&job, 0, space.total, 0);
    Py_BEGIN_ALLOW_THREADS world.api->runtime->parallel_for(run_range, &job, space.total, grain < 1024 ? 1024 : grain);
    Py_END_ALLOW_THREADS
}

// ---- shapes

struct Shape {
    int dims;
    npy_intp sizes[MAX_DIMS];
};

bool broadcast(PyArrayObject* a, Shape& out) {
    int n = PyArray_NDIM(a);
    if (n > MAX_DIMS) return false;
    const npy_intp* sizes = PyArray_DIMS(a);
    if (n > out.dims) {
        int more = n - out.dims;
        memmove(out.sizes + more, out.sizes, sizeof(npy_intp) * out.dims);
        for (int d = 0; d < more; d++) out.sizes[d] = 1;
        out.dims = n;
    }
    for (int d = 0, skip = out.dims - n; d < n; d++) {
        npy_intp& have = out.sizes[skip + d];
        if (sizes[d] == have || sizes[d] == 1) continue;
        if (have != 1) return false;
        have = sizes[d];
    }
    return true;
}

npy_intp aligned_stride(PyArrayObject* a, const Shape& shape, int d) { // in bytes; 0 where broadcast
    int own = d - (shape.dims - PyArray_NDIM(a));
    return own < 0 || PyArray_DIM(a, own) == 1 ? 0 : PyArray_STRIDE(a, own);
}

// Dimensions, outermost first: insertion by the first operand with two nonzero strides that differ. False: row-major.
bool ordered(PyArrayObject* const* arrays, int count, const Shape& shape, int* order) {
    bool plain = shape.dims < 2;
    if (!plain) {
        plain = true;
        for (int k = 0; k < count; k++) plain = plain && (!arrays[k] || PyArray_IS_C_CONTIGUOUS(arrays[k]));
    }
    if (plain) return false;
    int used = 0;
    bool changed = false;
    for (int d = shape.dims - 1; d >= 0; d--) { // `order` is innermost first while it is built
        int at = used;
        for (int k = used - 1; k >= 0; k--) {
            int verdict = 0;
            for (int j = 0; j < count && !verdict; j++) {
                if (!arrays[j] || !PyArray_NDIM(arrays[j])) continue;
                npy_intp a = aligned_stride(arrays[j], shape, order[k]), b = aligned_stride(arrays[j], shape, d);
                if (a && b && a != b) verdict = a > b ? 1 : -1;
            }
            if (verdict > 0) at = k;
            else if (verdict < 0) break;
        }
        memmove(order + at + 1, order + at, sizeof(int) * (used - at));
        order[at] = d;
        used++;
    }
    for (int k = 0; k < used / 2; k++) std::swap(order[k], order[used - 1 - k]);
    for (int k = 0; k < used; k++) changed = changed || order[k] != k;
    return changed;
}

// The loop's space: dimensions in the order of the output's memory, merged where every operand allows it.
void plan_space(const Program& p, PyArrayObject* const* arrays, PyArrayObject* out, const Shape& shape,
    const int* order,
    Space& space) {
    space.total = 1;
    space.dims = 0;
    for (int k = 0; k < shape.dims; k++) {
        int d = order ? order[k] : k;
        npy_intp n = shape.sizes[d];
        space.total *= n;
        if (n == 1) continue;
        npy_intp steps[MAX_ARGS + 1];
        for (int j = 0; j < p.arguments; j++) steps[j] = arrays[j] ? aligned_stride(arrays[j], shape, d) : 0;
        steps[MAX_ARGS] = PyArray_STRIDE(out, d);
        bool merge = space.dims > 0;
        for (int j = 0; j <= MAX_ARGS && merge; j++)
            if (j < p.arguments || j == MAX_ARGS) merge = space.strides[j][space.dims - 1] == steps[j] * n;
        int at = merge ? space.dims - 1 : space.dims++;
        space.sizes[at] = merge ? space.sizes[at] * n : n;
        for (int j = 0; j <= MAX_ARGS; j++)
            if (j < p.arguments || j == MAX_ARGS) space.strides[j][at] = steps[j];
    }
    if (!space.dims) {
        space.dims = 1, space.sizes[0] = 1;
        for (int j = 0; j <= MAX_ARGS; j++) space.strides[j][0] = 0;
    }
    space.data[MAX_ARGS] = (char*)PyArray_DATA(out);
}

// ---- the callable

struct Plan {
    unsigned long key;
    Program* program; // null: these operand types take the Python path
};

struct Map {
    Attributes head;
    int arguments;
    bool swapped, inplace;
    long native_from; // from so many floats on a native kernel of the record is called; 0: there is none
    PyObject* native; // arrays and numbers -> an array, or NotImplemented
    int native_halves; // the kernel is for halves alone
    std::vector<Plan>* plans;
    NeedsTable needs;
};

enum NumberCode { FLOAT_CODE = 20, INT_CODE, NONE_CODE };

struct Operands {
    PyObject* args[MAX_ARGS];
    PyArrayObject* arrays[MAX_ARGS];
    char numbers[MAX_ARGS][8];
    unsigned long key;
    unsigned mask; // operands that need a gradient
};

// False: an operand is not for this path.
bool read_operands(const Map* self, PyObject* const* args, Operands& o) {
    o.key = 1, o.mask = 0;
    for (int k = 0; k < self->arguments; k++) {
        PyObject* a = o.args[k] = args[self->swapped ? self->arguments - 1 - k : k];
        unsigned code;
        o.arrays[k] = nullptr;
        if (is_plain(a)) {
            PyArrayObject* array = o.arrays[k] = array_of(a);
            int type = array ? type_of(a) : -1;
            if (type < 0 || !is_cpu(a) || !PyArray_ISALIGNED(array) || PyArray_NDIM(array) > MAX_DIMS) return false;
            if (needs_grad(a)) o.mask |= 1u << k;
            code = type | (PyArray_NDIM(array) ? 0 : 32);
        } else if (PyFloat_CheckExact(a)) code = FLOAT_CODE;
        else if (PyLong_CheckExact(a)) code = INT_CODE;
        else if (a == Py_None) code = NONE_CODE;
        else return false;
        o.key = o.key << 6 | code;
    }
    return true;
}

template <class T> bool fits(long value, char* at) {
    T narrow = (T)value;
    memcpy(at, &narrow, sizeof narrow);
    return (long)narrow == value && (value >= 0 || (T)-1 < 0);
}

bool read_number(PyObject* a, int type, char* at) {
    if (type == FLOAT32 || type == FLOAT64) {
        double value = PyFloat_CheckExact(a) ? PyFloat_AS_DOUBLE(a) : PyLong_AsDouble(a);
        if (value == -1 && PyErr_Occurred()) return PyErr_Clear(), false;
        float narrow = (float)value;
        type == FLOAT32 ? memcpy(at, &narrow, 4) : memcpy(at, &value, 8);
        // a finite number beyond float32 and an integer beyond exact doubles are numpy's business
        return PyFloat_CheckExact(a) ? (type == FLOAT64 || __builtin_isinf(value) || !__builtin_isinf(narrow))
                                     : value < 9e15 && value > -9e15;
    }
    int overflow;
    long value = PyLong_CheckExact(a) ? PyLong_AsLongAndOverflow(a, &overflow) : (overflow = 1);
    if (overflow) return false;
    switch (type) {
    case INT64: return fits<int64_t>(value, at);
    case INT32: return fits<int32_t>(value, at);
    case INT16: return fits<int16_t>(value, at);
    case INT8: return fits<int8_t>(value, at);
    case UINT8: return fits<uint8_t>(value, at);
    default: return false;
    }
}

const Program* find_plan(Map* self, unsigned long key) {
    for (const Plan& plan : *self->plans)
        if (plan.key == key) return plan.program;
    return nullptr;
}

FB_EACH_MACHINE bool zero_among(const int64_t* x, npy_intp n) {
    int64_t found = 0;
    for (npy_intp i = 0; i < n; i++) found |= -(int64_t)(x[i] == 0);
    return found;
}

// Whether a whole number is zero somewhere, or an array of them is none that is looked through here.
bool has_zero(const Map* self, const Program& p, const Operands& o) {
    int k = p.divisor;
    PyArrayObject* a = o.arrays[k];
    if (!a) return !PyLong_CheckExact(o.args[k]) || !PyObject_IsTrue(o.args[k]);
    if (PyArray_NDIM(a) > 1 && !PyArray_IS_C_CONTIGUOUS(a)) return true;
    npy_intp size = PyArray_ITEMSIZE(a), step = PyArray_NDIM(a) == 1 ? PyArray_STRIDE(a, 0) : size;
    const char* x = (const char*)PyArray_DATA(a);
    if (size == 8 && step == 8) return zero_among((const int64_t*)x, PyArray_SIZE(a));
    for (npy_intp i = 0, n = PyArray_SIZE(a); i < n; i++, x += step) {
        static const char zeros[8] = {};
        if (size == 8 ? !*(const int64_t*)x : !memcmp(x, zeros, size)) return true;
    }
    return false;
}

// What the record's own kernel makes of row-major arrays; null as below.
PyObject* by_native(const Map* self, const Program& p, const Operands& o, const Shape& shape) {
    PyObject* given[MAX_ARGS];
    for (int k = 0; k < self->arguments; k++) given[k] = o.arrays[k] ? (PyObject*)o.arrays[k] : o.args[k];
    Ref found(PyObject_Vectorcall(self->native, given, self->arguments, nullptr));
    if (!found || !PyArray_CheckExact(found.get())) return nullptr;
    PyArrayObject* a = (PyArrayObject*)found.get();
    PyObject* base = PyArray_BASE(a);
    bool fits = (PyObject*)PyArray_DESCR(a) == (PyObject*)world.types[p.result].descr && PyArray_IS_C_CONTIGUOUS(a)
        && PyArray_NDIM(a) == shape.dims && PyArray_CompareLists(PyArray_DIMS(a), shape.sizes, shape.dims)
        && !(base && PyArray_Check(base));
    for (int k = 0; k < self->arguments && fits; k++) fits = o.arrays[k] != a;
    return fits ? found.release() : nullptr;
}

// The result's array for a call, or null (with an error set, or to take the Python path).
PyObject* compute(const Map* self, const Program& p, Operands& o, PyArrayObject* into) {
    Shape shape = {};
    Space space;
    for (int& size : space.itemsize) size = 1;
    for (int k = 0; k < self->arguments; k++) {
        if (o.arrays[k]) {
            if (!broadcast(o.arrays[k], shape)) return nullptr;
            space.data[k] = (char*)PyArray_DATA(o.arrays[k]);
            space.itemsize[k] = (int)PyArray_ITEMSIZE(o.arrays[k]);
        } else if (o.args[k] != Py_None) {
            if (!read_number(o.args[k], p.number[k], o.numbers[k])) return nullptr;
            space.data[k] = o.numbers[k];
        } else space.data[k] = o.numbers[k];
    }
    if (p.divisor >= 0 && has_zero(self, p, o)) return nullptr;
    int order[MAX_DIMS];
    bool permuted = ordered(into ? &into : o.arrays, into ? 1 : self->arguments, shape, order);
    npy_intp total = 1;
    for (int d = 0; d < shape.dims; d++) total *= shape.sizes[d];
    bool narrow = world.types[p.result].itemsize == 2;
    if (self->native && total >= self->native_from && world.types[p.result].category == 2 && (narrow || !self->native_halves))
        return into || permuted ? nullptr : by_native(self, p, o, shape);
    Ref out;
    if (into) {
        if (shape.dims != PyArray_NDIM(into)) return nullptr;
        for (int d = 0; d < shape.dims; d++)
            if (shape.sizes[d] != PyArray_DIM(into, d) || (!PyArray_STRIDE(into, d)
                && shape.sizes[d] > 1)) return nullptr;
        out = Ref(Py_NewRef((PyObject*)into));
    } else if (permuted) {
        npy_intp strides[MAX_DIMS], step = 1;
        for (int k = shape.dims - 1; k >= 0; k--) {
            strides[order[k]] = step;
            if (shape.sizes[order[k]] > 1) step *= shape.sizes[order[k]];
        }
        out = Ref(fresh_array(p.result, shape.dims, shape.sizes, strides));
    } else out = Ref(fresh_array(p.result, shape.dims, shape.sizes, nullptr));
    if (!out) return nullptr;
    plan_space(p, o.arrays, (PyArrayObject*)out.get(), shape, permuted ? order : nullptr, space);
    run(p, space, into && space.strides[MAX_ARGS][space.dims - 1] != p.itemsize[p.registers - 1]);
    return out.release();
}

PyObject* call_map(PyObject* raw, PyObject* const* args, size_t nargsf, PyObject* names) {
    Map* self = (Map*)raw;
    Thread thread;
    Operands o;
    if (PyVectorcall_NARGS(nargsf) != self->arguments || names || !read_state(thread) || !thread.quick
        || !read_operands(self, args, o))
        return fall_back(&self->head, args, nargsf, names);
    const Program* p = find_plan(self, o.key);
    PyObject* array = p ? compute(self, *p, o, nullptr) : nullptr;
    if (!array) return fall_back(&self->head, args, nargsf, names);
    Ref t(new_tensor(array, world.types[p->result].object));
    if (t && o.mask && thread.grad
        && !record(self->head.op, self->needs, o.args, self->arguments, o.mask, t.get()))
        return nullptr;
    return t.release();
}

// In-place: the first operand is written. Calls that are recorded, that widen the type, or whose operands overlap it go
// to Python.
PyObject* call_inplace(PyObject* raw, PyObject* const* args, size_t nargsf, PyObject* names) {
    Map* self = (Map*)raw;
    Thread thread;
    Operands o;
    if (PyVectorcall_NARGS(nargsf) != self->arguments || names || !read_state(thread) || !thread.quick
        || !read_operands(self, args, o) || !o.arrays[0] || (o.mask && thread.grad))
        return fall_back(&self->head, args, nargsf, names);
    const Program* p = find_plan(self, o.key);
    PyObject* target = o.args[0];
    PyObject* storage = slot(target, world.t.storage);
    if (small_refusable(target, thread.grad)) return fall_back(&self->head, args, nargsf, names);
    bool mine = p && world.types[p->result].object == slot(target, world.t.dtype) && PyArray_ISWRITEABLE(o.arrays[0]);
    for (int k = 1; k < self->arguments && mine; k++)
        mine = !o.arrays[k] || o.args[k] == target || storage == Py_None || slot(o.args[k], world.t.storage) != storage
            || !small_meets(o.arrays[k], o.arrays[0]);
    PyObject* array = mine ? compute(self, *p, o, o.arrays[0]) : nullptr;
    if (!array) return fall_back(&self->head, args, nargsf, names);
    Py_DECREF(array);
    return bump(target) ? Py_NewRef(target) : nullptr;
}

void dealloc_map(PyObject* raw) {
    Map* self = (Map*)raw;
    PyObject_GC_UnTrack(raw);
    clear_attributes(&self->head);
    Py_CLEAR(self->native);
    for (Plan& plan : *self->plans) delete plan.program;
    delete self->plans;
    Py_TYPE(raw)->tp_free(raw);
}

PyTypeObject MapType = {PyVarObject_HEAD_INIT(nullptr, 0)};

// map(op, slow, arguments, swapped, inplace)
PyObject* py_map(PyObject*, PyObject* args) {
    PyObject *op, *slow;
    int count, swapped, inplace;
    if (!PyArg_ParseTuple(args, "OOipp", &op, &slow, &count, &swapped, &inplace)) return nullptr;
    if (count < 1 || count > MAX_ARGS) return PyErr_Format(PyExc_ValueError, "a map of %d operands", count);
    Map* self = (Map*)MapType.tp_alloc(&MapType, 0);
    if (!self) return nullptr;
    self->head.vectorcall = inplace ? call_inplace : call_map;
    self->head.op = Py_NewRef(op), self->head.slow = Py_NewRef(slow);
    self->arguments = count, self->swapped = swapped, self->inplace = inplace;
    self->plans = new std::vector<Plan>;
    self->needs.used = 0;
    return (PyObject*)self;
}

// The key of the types of operands, given in the record's order, or None for operands that always take the Python path.
PyObject* py_map_key(PyObject* raw, PyObject* args) {
    Map* self = (Map*)raw;
    Operands o;
    if (!PyTuple_Check(args) || PyTuple_GET_SIZE(args) != self->arguments) Py_RETURN_NONE;
    PyObject* given[MAX_ARGS];
    for (int k = 0; k < self->arguments; k++)
        given[self->swapped ? self->arguments - 1 - k : k] = PyTuple_GET_ITEM(args, k);
    if (!read_operands(self, given, o)) Py_RETURN_NONE;
    for (const Plan& plan : *self->plans)
        if (plan.key == o.key) Py_RETURN_NONE;
    return PyLong_FromUnsignedLong(o.key);
}

// learn(key, plan or None): what calls with these operand types do from now on.
PyObject* py_map_learn(PyObject* raw, PyObject* args) {
    Map* self = (Map*)raw;
    unsigned long key;
    PyObject* plan;
    if (!PyArg_ParseTuple(args, "kO", &key, &plan)) return nullptr;
    Program* program = plan == Py_None ? nullptr : read_program(plan);
    if (plan != Py_None && !program) return nullptr;
    self->plans->push_back({key, program});
    Py_RETURN_NONE;
}

PyObject* py_map_forget(PyObject* raw, PyObject*) {
    Map* self = (Map*)raw;
    for (Plan& plan : *self->plans) delete plan.program;
    self->plans->clear();
    self->needs.used = 0;
    Py_RETURN_NONE;
}

PyObject* py_map_native(PyObject* raw, PyObject* args) {
    Map* self = (Map*)raw;
    PyObject* native;
    if (!PyArg_ParseTuple(args, "lOp", &self->native_from, &native, &self->native_halves)) return nullptr;
    Py_XSETREF(self->native, Py_NewRef(native));
    Py_RETURN_NONE;
}

PyMethodDef map_methods[] = {REDUCE_METHOD, {"key", py_map_key, METH_O,
    "key(args): of operand types that have no plan yet, or None"},
    {"learn", py_map_learn, METH_VARARGS, "learn(key, plan or None)"},
    {"forget", py_map_forget, METH_NOARGS, "forget(): drop all plans"},
    {"native_from", py_map_native, METH_VARARGS,
        "native_from(count, kernel, halves): calls of so many elements (with `halves`: of float16 and bfloat16 alone) go to the kernel"},
    {nullptr, nullptr, 0, nullptr}};

// The loops of numpy_loops.h: name -> the map of the runtime that it calls, or None.
PyObject* py_own_loops(PyObject*, PyObject*) {
    PyObject* loops = PyDict_New();
    for (const OwnLoop* own = own_loops; loops && own->name; own++) {
        Ref job(own->job ? PyUnicode_FromString(own->job) : Py_NewRef(Py_None));
        if (!job || PyDict_SetItemString(loops, own->name, job.get())) Py_CLEAR(loops);
    }
    return loops;
}

// A row-major array in another type, by the loops of casts.h; None where there is none, or the memory is not plain.
PyObject* py_converted(PyObject*, PyObject* args) {
    PyArrayObject* x;
    int from, to;
    if (!PyArg_ParseTuple(args, "O!ii", &PyArray_Type, &x, &from, &to)) return nullptr;
    CastLoop loop = from < 0 || to < 0 || from >= TYPES || to >= TYPES ? nullptr : cast_loop(from, to);
    if (!loop || !PyArray_ISCARRAY_RO(x) || PyArray_NDIM(x) > MAX_DIMS) Py_RETURN_NONE;
    PyObject* out = fresh_array(to, PyArray_NDIM(x), PyArray_DIMS(x), nullptr);
    if (!out) return nullptr;
    const char* in = (const char*)PyArray_DATA(x);
    char* made = (char*)PyArray_DATA((PyArrayObject*)out);
    npy_intp n = PyArray_SIZE(x);
    Py_BEGIN_ALLOW_THREADS loop(in, world.types[from].itemsize, made, world.types[to].itemsize, n);
    Py_END_ALLOW_THREADS
    return out;
}

PyMethodDef functions[] = {
    {"map", py_map, METH_VARARGS, "map(op, slow, arguments, swapped, inplace): the call path of a pointwise record"},
    {"own_loops", py_own_loops, METH_NOARGS, "the loops that are not numpy's: name -> map of the runtime, or None"},
    {"converted", py_converted, METH_VARARGS, "converted(array, from, to): in another type, by numbers of types; or None"},
    {nullptr, nullptr, 0, nullptr}};

}

bool add_maps(PyObject* module) {
    MapType.tp_methods = map_methods;
    return ready_callable(MapType, "flambeau.eager._call.Map", sizeof(Map), dealloc_map)
        && PyModule_AddFunctions(module, functions) == 0;
}
