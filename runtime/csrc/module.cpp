// The extension `flambeau.runtime._native`: thread pool, caching allocator, native kernels, launcher of compiled
// graphs.
#define FB_IMPORTS_NUMPY
#include "python.h"

#include <initializer_list>
#include <string.h>
#include <time.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#endif

#include "alloc.h"
#include "api.h"
#include "openblas.h"
#include "pool.h"

const Kernels* kernels = &kernels_baseline;
int bfloat16_number = -1;

namespace {

unsigned long clock_ns() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ul + t.tv_nsec;
}

// generated code cannot go on without scratch memory, and has no way to raise
void* scratch_alloc(long bytes) {
    void* block = cached_alloc(bytes);
    if (!block) Py_FatalError("flambeau: out of memory in a native kernel");
    return block;
}

typedef bool (*Gemm)(const FbGemm* problem, const FbRuntime* rt);
Gemm bf16_gemm = nullptr; // where the processor multiplies bfloat16 itself, and may

void table_gemm(const FbGemm* problem) {
    if (problem->a_type == FB_BF16 && bf16_gemm && bf16_gemm(problem, &runtime_table)) return;
    kernels->gemm(problem, &runtime_table);
}

// What a processor can do: the vectors that all kernels use, and how bfloat16 is multiplied (null: in float).
struct Instructions {
    const char* name;
    const Kernels* kernels;
    Gemm bf16;
    bool there;
};

#if defined(__x86_64__)
// The processor has tiles for bfloat16, the system keeps them across switches of threads, and gives this process leave
// (asked once, before any thread of ours runs).
bool may_use_tiles() {
    unsigned a, b, c, d, low, high;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c >> 27 & 1)) return false; // xgetbv
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(d >> 22 & 1) || !(d >> 24 & 1)) return false;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    const long ask_permission = 0x1023, tile_data = 18; // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
    return (low >> 17 & 3) == 3 && syscall(SYS_arch_prctl, ask_permission, tile_data) == 0;
}
#endif

const Instructions* instructions() { // best first, ends with a null name
    static Instructions all[6];
    if (all[0].name) return all;
    Instructions* next = all;
#if defined(__x86_64__)
    __builtin_cpu_init();
    bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
    bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw")
        && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    bool pairs = avx512 && __builtin_cpu_supports("avx512bf16");
    *next++ = {"amx", &kernels_avx512, gemm_tiles, pairs && may_use_tiles()};
    *next++ = {"avx512bf16", &kernels_avx512, gemm_pairs, pairs};
    *next++ = {"avx512", &kernels_avx512, nullptr, avx512};
    *next++ = {"avx2", &kernels_avx2, nullptr, avx2};
#endif
    *next++ = {"baseline", &kernels_baseline, nullptr, true};
    return all;
}

const Instructions* available(const char* name) {
    for (const Instructions* i = instructions(); i->name; i++)
        if (i->there && (!strcmp(name, "auto") || !strcmp(name, i->name))) return i;
    return nullptr;
}

const Instructions* chosen;

void choose(const Instructions* wanted) {
    chosen = wanted;
    kernels = wanted->kernels;
    bf16_gemm = wanted->bf16;
}

PyObject* set_isa(PyObject*, PyObject* arg) {
    const char* name = PyUnicode_AsUTF8(arg);
    if (!name) return nullptr;
    const Instructions* found = available(name);
    if (!found) return PyErr_Format(PyExc_ValueError, "this processor has no %s", name);
    choose(found);
    Py_RETURN_NONE;
}

PyObject* get_isa(PyObject*, PyObject*) { return PyUnicode_FromString(kernels->isa); }
PyObject* get_instructions(PyObject*, PyObject*) { return PyUnicode_FromString(chosen->name); }

// names of what is there: all of them, or those whose kernels have vectors of their own
PyObject* names_of(bool all) {
    PyObject* list = PyList_New(0);
    for (const Instructions* i = instructions(); list && i->name; i++) {
        if (!i->there || (!all && i->bf16)) continue;
        PyObject* text = PyUnicode_FromString(i->name);
        if (!text || PyList_Append(list, text)) Py_CLEAR(list);
        Py_XDECREF(text);
    }
    return list;
}
PyObject* isas(PyObject*, PyObject*) { return names_of(false); }
PyObject* all_instructions(PyObject*, PyObject*) { return names_of(true); }

PyObject* set_threads(PyObject*, PyObject* arg) {
    long count = PyLong_AsLong(arg);
    if (count == -1 && PyErr_Occurred()) return nullptr;
    if (count < 1) return PyErr_Format(PyExc_ValueError, "the number of threads must be positive, got %ld", count);
    pool_set_threads((int)count);
    Py_RETURN_NONE;
}
PyObject* set_blas_threads(PyObject*, PyObject* arg) {
    long count = PyLong_AsLong(arg);
    if (count == -1 && PyErr_Occurred()) return nullptr;
    if (count < 1) return PyErr_Format(PyExc_ValueError, "the number of threads must be positive, got %ld", count);
    blas_set_threads(count > 1024 ? 1024 : (int)count);
    Py_RETURN_NONE;
}
PyObject* get_blas_threads(PyObject*, PyObject*) { return PyLong_FromLong(blas_threads()); }

// qr(columns of A: (n, m), r: (min(m, n), n)) of contiguous floats
PyObject* qr_of_floats(PyObject*, PyObject* const* args, Py_ssize_t n) {
    for (Py_ssize_t k = 0; k < n; k++)
        if (!PyArray_Check(args[k]) || PyArray_TYPE((PyArrayObject*)args[k]) != NPY_FLOAT || !PyArray_ISCARRAY((PyArrayObject*)args[k]) ||
            PyArray_NDIM((PyArrayObject*)args[k]) != 2)
            return PyErr_Format(PyExc_TypeError, "qr_of_floats takes contiguous matrices of floats");
    if (n != 2) return PyErr_Format(PyExc_TypeError, "qr_of_floats(columns, r)");
    PyArrayObject *a = (PyArrayObject*)args[0], *r = (PyArrayObject*)args[1];
    npy_intp columns = PyArray_DIM(a, 0), rows = PyArray_DIM(a, 1), few = rows < columns ? rows : columns;
    if (!few || PyArray_DIM(r, 0) != few || PyArray_DIM(r, 1) != columns)
        return PyErr_Format(PyExc_ValueError, "qr_of_floats: r has other sizes than %zd x %zd, or there is none", few, columns);
    bool done;
    Py_BEGIN_ALLOW_THREADS done = blas_qr(rows, columns, (float*)PyArray_DATA(a), (float*)PyArray_DATA(r));
    Py_END_ALLOW_THREADS return PyBool_FromLong(done);
}

PyObject* get_threads(PyObject*, PyObject*) { return PyLong_FromLong(pool_threads()); }
PyObject* workers(PyObject*, PyObject*) { return PyLong_FromLong(pool_workers_alive()); }

PyObject* set_bfloat16(PyObject*, PyObject* arg) {
    if (!PyArray_DescrCheck(arg)) return PyErr_Format(PyExc_TypeError, "expected a numpy dtype");
    bfloat16_number = ((PyArray_Descr*)arg)->type_num;
    Py_RETURN_NONE;
}

PyObject* empty(PyObject*, PyObject* const* args, Py_ssize_t n) {
    if (n != 2 || !PyTuple_Check(args[0]) || !PyArray_DescrCheck(args[1]))
        return PyErr_Format(PyExc_TypeError, "empty(shape: tuple of ints, dtype: numpy.dtype)");
    Py_ssize_t dims = PyTuple_GET_SIZE(args[0]);
    if (dims > NPY_MAXDIMS)
        return PyErr_Format(PyExc_ValueError, "empty: %zd dimensions are more than %d", dims, NPY_MAXDIMS);
    PyArray_Descr* descr = (PyArray_Descr*)args[1];
    npy_intp sizes[NPY_MAXDIMS], bytes = PyDataType_ELSIZE(descr);
    for (Py_ssize_t d = 0; d < dims; d++) {
        sizes[d] = PyLong_AsSsize_t(PyTuple_GET_ITEM(args[0], d));
        if (sizes[d] == -1 && PyErr_Occurred()) return nullptr;
        if (sizes[d] < 0)
            return PyErr_Format(PyExc_RuntimeError, "Trying to create tensor with negative dimension %zd", sizes[d]);
        if (__builtin_mul_overflow(bytes, sizes[d], &bytes)) return PyErr_NoMemory();
    }
    if (PyDataType_REFCHK(descr))
        return PyErr_Format(PyExc_TypeError, "empty: arrays of Python objects are not supported");
    Py_INCREF(descr);
    return new_array(descr, (int)dims, sizes, nullptr, bytes);
}

struct PhiloxJob {
    int kind, word;
    void* out;
    unsigned long seed, ordinal;
};

void philox_range(void* raw, long begin, long end, int) {
    PhiloxJob& job = *(PhiloxJob*)raw;
    kernels->philox(job.kind, job.out, job.seed, job.ordinal, job.word, begin, end);
}

void fill_drawn(int kind, void* out, unsigned long seed, unsigned long ordinal, int word, long n) {
    kernels->philox(kind, out, seed, ordinal, word, 0, n);
}

PyObject* philox(PyObject*, PyObject* args) {
    PyArrayObject* out;
    unsigned long long seed, ordinal;
    int word = 0;
    if (!PyArg_ParseTuple(args, "O!KK|i", &PyArray_Type, &out, &seed, &ordinal, &word)) return nullptr;
    int type = PyArray_TYPE(out);
    int kind = type == NPY_FLOAT ? PHILOX_UNIFORM_F32 : type == NPY_DOUBLE ? PHILOX_UNIFORM_F64 : PHILOX_BITS;
    if (word == 4 && kind == PHILOX_UNIFORM_F32) kind = PHILOX_NORMAL_F32, word = 0;
    if (kind == PHILOX_BITS && type != NPY_UINT32)
        return PyErr_Format(PyExc_TypeError, "philox: no kernel for %R", PyArray_DESCR(out));
    if (!PyArray_ISCARRAY(out))
        return PyErr_Format(PyExc_ValueError, "philox: the array must be contiguous, aligned and writeable");
    if (word < 0 || word > 3) return PyErr_Format(PyExc_ValueError, "philox: words are 0 to 3, got %d", word);
    PhiloxJob job = {kind, word, PyArray_DATA(out), seed, ordinal};
    long n = PyArray_SIZE(out);
    if (n < 4096) {
        philox_range(&job, 0, n, 0);
    } else {
        Py_BEGIN_ALLOW_THREADS pool_parallel_for(philox_range, &job, n, 4096);
        Py_END_ALLOW_THREADS
    }
    Py_RETURN_NONE;
}


PyObject* memory(PyObject*, PyObject*) {
    AllocStatistics s = alloc_statistics();
    return Py_BuildValue("{s:l,s:l,s:l,s:l,s:l}", "current", s.current, "peak", s.peak, "cached", s.cached, "blocks",
        s.blocks, "system_calls", s.system_calls);
}

PyObject* empty_cache(PyObject*, PyObject*) {
    cached_empty();
    Py_RETURN_NONE;
}
PyObject* reset_peak(PyObject*, PyObject*) {
    alloc_reset_peak();
    Py_RETURN_NONE;
}

// Work for tests of the pool: adds 1 to out[i] `rounds` times; with `nested`, from a parallel loop inside a parallel
// loop.
struct Counting {
    long* out;
    long rounds;
    bool nested;
};

void count_plain(void* raw, long begin, long end, int) {
    Counting& c = *(Counting*)raw;
    for (long r = 0; r < c.rounds; r++)
        for (long i = begin; i < end; i++) __atomic_fetch_add(&c.out[i], 1, __ATOMIC_RELAXED);
}

struct Shifted {
    Counting* counting;
    long base;
};

void count_shifted(void* raw, long begin, long end, int thread) {
    Shifted& s = *(Shifted*)raw;
    count_plain(s.counting, s.base + begin, s.base + end, thread);
}

void count_nested(void* raw, long begin, long end, int) {
    Shifted shifted = {(Counting*)raw, begin};
    pool_parallel_for(count_shifted, &shifted, end - begin, 1);
}

PyObject* pool_count(PyObject*, PyObject* args) {
    PyArrayObject* out;
    long rounds = 1, grain = 1;
    int nested = 0;
    if (!PyArg_ParseTuple(args, "O!|llp", &PyArray_Type, &out, &rounds, &grain, &nested)) return nullptr;
    if (PyArray_TYPE(out) != NPY_LONG || !PyArray_ISCARRAY(out))
        return PyErr_Format(PyExc_TypeError, "pool_count takes a contiguous int64 array");
    Counting counting = {(long*)PyArray_DATA(out), rounds, nested != 0};
    long n = PyArray_SIZE(out);
    Py_BEGIN_ALLOW_THREADS pool_parallel_for(nested ? count_nested : count_plain, &counting, n, grain);
    Py_END_ALLOW_THREADS Py_RETURN_NONE;
}

PyMethodDef methods[] = {
    {"set_isa", set_isa, METH_O, "set_isa(name): use these instructions (see `instructions`), or the best (auto)"},
    {"get_isa", get_isa, METH_NOARGS, "name of the vectors in use"},
    {"get_instructions", get_instructions, METH_NOARGS, "name of the instruction set in use, that of bfloat16 included"},
    {"instructions", all_instructions, METH_NOARGS, "what `set_isa` takes on this processor, best first"},
    {"isas", isas, METH_NOARGS, "vectors that this processor has, best first"},
    {"set_blas_threads", set_blas_threads, METH_O, "threads of numpy's OpenBLAS, where it has one"},
    {"get_blas_threads", get_blas_threads, METH_NOARGS, "threads of numpy's OpenBLAS; 0 where it has none"},
    {"qr_of_floats", (PyCFunction)(void*)qr_of_floats, METH_FASTCALL,
        "qr_of_floats(columns, r): the reduced factors by OpenBLAS's LAPACK, Q in place of the columns; False where there is none"},
    {"set_num_threads", set_threads, METH_O, "threads that a parallel loop may use, the caller included"},
    {"get_num_threads", get_threads, METH_NOARGS, "threads that a parallel loop may use"},
    {"workers_alive", workers, METH_NOARGS, "worker threads started so far in this process"},
    {"set_bfloat16", set_bfloat16, METH_O, "tell numpy's dtype of bfloat16"},
    {"empty", (PyCFunction)(void*)empty, METH_FASTCALL,
        "empty(shape, dtype): an array over a cached, 64-byte aligned block"},
    {"matmul", (PyCFunction)(void*)py_matmul, METH_FASTCALL,
        "matmul(a, b, out): batched product of arrays of any strides"},
    {"philox", philox, METH_VARARGS,
        "philox(out, seed, ordinal, word=0): fill with uniforms (float) or bits (uint32); word 4 of float32: normals"},
    {"job", (PyCFunction)(void*)py_job, METH_FASTCALL,
        "job(number, type, units, grain, arrays, numbers, reals): run a threaded kernel; the caller has checked sizes"},
    {"convolution", py_convolution, METH_VARARGS,
        "convolution(x, weight, bias, out, stride, padding, dilation, transposed, groups)"},
    {"convolution_weight", py_convolution_weight, METH_VARARGS,
        "convolution_weight(x, gradient, out, stride, padding, dilation, groups)"},
    {"job_list", (PyCFunction)(void*)py_job_list, METH_FASTCALL,
        "job_list(number, type, each, arrays, numbers, reals): a kernel once per `each` arrays, over the elements of the "
        "first of them, in one parallel run; the caller has checked sizes"},
    {"jobs", py_jobs, METH_NOARGS, "numbers of the jobs by name"},
    {"has_job", (PyCFunction)(void (*)(void))py_has_job, METH_FASTCALL, "has_job(number, type): whether there is such a kernel"},
    {"memory", memory, METH_NOARGS, "statistics of the caching allocator, in bytes"},
    {"empty_cache", empty_cache, METH_NOARGS, "give cached blocks back to the system"},
    {"reset_peak", reset_peak, METH_NOARGS, "start a new peak of memory use"},
    {"pool_count", pool_count, METH_VARARGS,
        "pool_count(out, rounds=1, grain=1, nested=False): add `rounds` to each element, in parallel"},
    {"native_seconds", native_seconds, METH_NOARGS,
        "seconds spent in generated code and in the runtime's kernels (products, convolutions, jobs), whoever called them"},
    {"watch_launches", watch_launches, METH_O,
        "watch_launches(f or None): from now on f(owner, start, end, ticks, eager calls) is told of each call of a\n"
        "launcher, in nanoseconds; ticks: beginning and end of each kernel in order. The one before is returned."},
    {"bind_tensor", py_bind_tensor, METH_VARARGS, "bind_tensor(Tensor, device): the class of what launchers return, and its device"},
    {nullptr, nullptr, 0, nullptr}};

PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "flambeau.runtime._native", "Thread pool, allocator, kernels and launcher.", -1, methods};

}

const FbRuntime runtime_table = {
    pool_parallel_for, pool_threads, scratch_alloc, cached_release, table_gemm, clock_ns, nullptr, nullptr, nullptr,
    run_conv, run_job, run_jobs};

constexpr long COUNTED_FROM = 32768; // multiplications of a product, from which its time is worth two looks at the clock

// What eager code calls the kernels by: the same ones, and their time is counted.
void counted_gemm(const FbGemm* problem) {
    if (problem->M * problem->N * problem->K < COUNTED_FROM) return table_gemm(problem);
    Counted counted;
    table_gemm(problem);
}
void counted_conv(const FbConv* problem) {
    Counted counted;
    run_conv(problem);
}
void counted_job(const FbJobCall* call) {
    Counted counted;
    run_job(call);
}
void counted_jobs(const FbJobCall* calls, long count) {
    Counted counted;
    run_jobs(calls, count);
}
const FbRuntime eager_table = {
    pool_parallel_for, pool_threads, scratch_alloc, cached_release, counted_gemm, clock_ns, nullptr, nullptr, nullptr,
    counted_conv, counted_job, counted_jobs};

PyMODINIT_FUNC PyInit__native() {
    import_array();
    choose(available("auto"));
    PyObject* module = PyModule_Create(&definition);
    static const FbApi api = {&eager_table, new_array, fill_drawn, set_output_view, job_table, column_block};
    PyObject* capsule = PyCapsule_New((void*)&api, "flambeau.runtime._native.api", nullptr);
    if (!module || !capsule || PyModule_AddObject(module, "api", capsule) || !add_array_type(module)
        || !add_launcher(module)) {
        Py_XDECREF(module);
        return nullptr;
    }
    return module;
}
