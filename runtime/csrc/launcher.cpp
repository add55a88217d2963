// The callable around one compiled graph: checks inputs, binds symbols, allocates arena and outputs, drops the GIL,
// runs.
//
// Inputs are Tensors (their `_fl_array` slot is read by offset) or numpy arrays; symbols and floats come from sizes,
// strides and number inputs. plan[0] is the arena's size, plan[1] the work in elements; then per output sizes and
// strides (in elements), then symbolic results. A nonzero code from generated code becomes `error(text of the check)`.
#include "python.h"

#include <algorithm>
#include <atomic>
#include <new>
#include <string.h>
#include <vector>

#include "alloc.h"
#include "slots.h"

namespace {

constexpr long DROP_GIL_FROM = 12000; // work below stays serial in generated code, so the pool is not taken

// ---- the Tensor class
TensorLayout tensor;
PyObject* host; // the device of new tensors
thread_local PyObject* output_view; // their `_fl_view`; null: none

// ---- specifications, from Python tuples
struct InputSpec {
    bool is_number, written;
    int type_number;
    std::vector<long> sizes, strides;
};
struct OutputSpec {
    PyArray_Descr* descr;
    PyObject* dtype;
    int dims, home;
}; // home: the donated input whose block it takes over, or -1
struct SymbolSpec {
    int input, what, dim;
};
struct ResultSpec {
    int what, index;
};
struct ExternSpec {
    std::vector<std::pair<PyArray_Descr*, int>> buffers;
    int numbers;
};
enum { SIZE, STRIDE, VALUE };
enum { FROM_OUTPUT, FROM_INPUT, FROM_NUMBER, FROM_NOTHING };

struct Launcher {
    PyObject_HEAD vectorcallfunc vectorcall;
    FbRun run;
    FbPlan plan;
    std::vector<InputSpec>* inputs;
    std::vector<PyObject*>* constants;
    std::vector<SymbolSpec>* symbols;
    std::vector<int>* floats;
    std::vector<OutputSpec>* outputs;
    std::vector<ResultSpec>* results;
    std::vector<ExternSpec>* externs;
    int plan_size, wrap;
    PyObject *checks, *error, *extern_function, *keepalive;
    unsigned long calls, total_ns;
    unsigned long last_ns, untimed;        // what the run took that was timed last, and how many came after it
    std::vector<unsigned long>* kernel_ns; // empty: not measured
};

struct Call {
    Launcher* self;
    PyThreadState* state;
    PyObject *seed, *base;
};

bool longs(PyObject* tuple, std::vector<long>& out) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); i++) {
        out.push_back(PyLong_AsLong(PyTuple_GET_ITEM(tuple, i)));
        if (PyErr_Occurred()) return false;
    }
    return true;
}

bool read_inputs(Launcher* self, PyObject* tuple) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); i++) {
        PyObject* item = PyTuple_GET_ITEM(tuple, i);
        InputSpec spec = {};
        spec.is_number = item == Py_None;
        if (!spec.is_number) {
            PyArray_Descr* descr;
            PyObject *sizes, *strides;
            int written;
            if (!PyArg_ParseTuple(item, "O!O!O!p", &PyArrayDescr_Type, &descr, &PyTuple_Type, &sizes, &PyTuple_Type,
                    &strides, &written))
                return false;
            spec.type_number = descr->type_num;
            spec.written = written;
            if (!longs(sizes, spec.sizes) || !longs(strides, spec.strides)) return false;
            for (long& s : spec.strides)
                if (s >= 0) s *= PyDataType_ELSIZE(descr);
        }
        self->inputs->push_back(spec);
    }
    return true;
}

bool read_outputs(Launcher* self, PyObject* tuple) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); i++) {
        OutputSpec spec;
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(tuple, i), "O!Oii", &PyArrayDescr_Type, &spec.descr, &spec.dtype,
                &spec.dims, &spec.home))
            return false;
        if (spec.home >= (int)self->inputs->size())
            return PyErr_Format(PyExc_ValueError, "output %zd takes over input %d", i, spec.home), false;
        Py_INCREF(spec.descr);
        Py_INCREF(spec.dtype);
        self->outputs->push_back(spec);
    }
    return true;
}

bool read_externs(Launcher* self, PyObject* tuple) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); i++) {
        PyObject* buffers;
        ExternSpec spec;
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(tuple, i), "O!i", &PyTuple_Type, &buffers, &spec.numbers)) return false;
        for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(buffers); k++) {
            PyArray_Descr* descr;
            int dims;
            if (!PyArg_ParseTuple(PyTuple_GET_ITEM(buffers, k), "O!i", &PyArrayDescr_Type, &descr, &dims)) return false;
            Py_INCREF(descr);
            spec.buffers.push_back({descr, dims});
        }
        self->externs->push_back(spec);
    }
    return true;
}

bool read_rest(Launcher* self, PyObject* constants, PyObject* symbols, PyObject* floats, PyObject* results) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(constants); i++) {
        if (!PyArray_Check(PyTuple_GET_ITEM(constants, i)))
            return PyErr_Format(PyExc_TypeError, "constants are numpy arrays"), false;
        self->constants->push_back(Py_NewRef(PyTuple_GET_ITEM(constants, i)));
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(symbols); i++) {
        SymbolSpec s;
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(symbols, i), "iii", &s.input, &s.what, &s.dim)) return false;
        if (s.input < 0 || s.input >= (int)self->inputs->size())
            return PyErr_Format(PyExc_ValueError, "symbol of input %d", s.input), false;
        const InputSpec& input = (*self->inputs)[s.input];
        if (s.what == VALUE ? !input.is_number && !input.sizes.empty()
                            : input.is_number || s.dim < 0 || s.dim >= (int)input.sizes.size())
            return PyErr_Format(PyExc_ValueError, "symbol %zd does not fit input %d", i, s.input), false;
        self->symbols->push_back(s);
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(floats); i++)
        self->floats->push_back((int)PyLong_AsLong(PyTuple_GET_ITEM(floats, i)));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(results); i++) {
        ResultSpec r;
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(results, i), "ii", &r.what, &r.index)) return false;
        self->results->push_back(r);
    }
    return !PyErr_Occurred();
}

// ---- one call
PyArrayObject* array_of(PyObject* x) {
    if (tensor.is_tensor(x)) x = slot(x, tensor.array);
    return x && PyArray_Check(x) ? (PyArrayObject*)x : nullptr;
}

bool fits(const InputSpec& spec, PyArrayObject* x) {
    if (PyArray_TYPE(x) != spec.type_number || PyArray_NDIM(x) != (int)spec.sizes.size() || PyArray_ISBYTESWAPPED(x))
        return false;
    bool empty = false, same = true;
    for (size_t d = 0; d < spec.sizes.size(); d++) {
        npy_intp n = PyArray_DIM(x, d);
        if (spec.sizes[d] >= 0 && spec.sizes[d] != n) return false;
        if (n > 1 && spec.strides[d] >= 0 && spec.strides[d] != PyArray_STRIDE(x, d)) same = false;
        if (n == 0) empty = true;
    }
    return (same || empty) && !(spec.written && !PyArray_ISWRITEABLE(x));
}

bool refuse(Launcher* self, int i, PyObject* given) {
    const InputSpec& spec = (*self->inputs)[i];
    PyArrayObject* x = array_of(given);
    if (!x)
        return PyErr_Format(PyExc_TypeError, "compiled graph: input %d must be a tensor with data, got %R", i,
                   (PyObject*)Py_TYPE(given)),
               false;
    if (spec.written && !PyArray_ISWRITEABLE(x))
        return PyErr_Format(PyExc_ValueError, "compiled graph: input %d is written to, but its memory is read-only", i),
               false;
    PyObject *shape = PyObject_GetAttrString((PyObject*)x, "shape"),
             *strides = PyObject_GetAttrString((PyObject*)x, "strides");
    PyErr_Format(PyExc_ValueError,
        "compiled graph: input %d was compiled for another geometry than %R of shape %R and byte strides %R", i,
        PyArray_DESCR(x), shape, strides);
    Py_XDECREF(shape);
    Py_XDECREF(strides);
    return false;
}

// a number input, or the element of a 0-dim array
PyObject* number_of(PyObject* x) {
    PyArrayObject* array = array_of(x);
    return array ? PyArray_GETITEM(array, (const char*)PyArray_DATA(array)) : Py_NewRef(x);
}

bool bind_numbers(Launcher* self, PyObject* const* given, PyArrayObject** arrays, long* symbols, double* floats) {
    for (const SymbolSpec& s : *self->symbols) {
        if (s.what == SIZE) *symbols++ = PyArray_DIM(arrays[s.input], s.dim);
        else if (s.what == STRIDE)
            *symbols++ = PyArray_STRIDE(arrays[s.input], s.dim) / PyArray_ITEMSIZE(arrays[s.input]);
        else {
            PyObject* number = number_of(given[s.input]);
            *symbols++ = number ? PyLong_AsLong(number) : -1;
            Py_XDECREF(number);
            if (PyErr_Occurred()) return false;
        }
    }
    for (int input : *self->floats) {
        PyObject* number = number_of(given[input]);
        *floats++ = number ? PyFloat_AsDouble(number) : -1;
        Py_XDECREF(number);
        if (PyErr_Occurred()) return false;
    }
    return true;
}

PyObject* make_output(const OutputSpec& spec, const long* plan, PyArrayObject* donor, void** data) {
    npy_intp strides[NPY_MAXDIMS], item = PyDataType_ELSIZE(spec.descr), extent = 1, dense = 1;
    bool row_major = true;
    for (int d = spec.dims - 1; d >= 0; d--) {
        npy_intp n = plan[d], s = plan[spec.dims + d];
        if (n > 1 && s != dense) row_major = false;
        strides[d] = s * item;
        extent = n == 0 || extent == 0 ? 0 : extent + (n - 1) * s;
        dense *= n;
    }
    Py_INCREF(spec.descr);
    PyObject* array =
        new_array(spec.descr, spec.dims, (const npy_intp*)plan, row_major ? nullptr : strides, extent * item, donor);
    if (array) *data = PyArray_DATA((PyArrayObject*)array);
    return array;
}

PyObject* wrapped(Launcher* self, PyObject* array, int k) {
    return self->wrap ? tensor.make(array, (*self->outputs)[k].dtype, host, output_view ? output_view : Py_None) : array;
}

// consumes the references in `made`
PyObject* collect(Launcher* self, PyObject* const* given, PyObject** made, const long* numbers) {
    PyObject* list = PyList_New(self->results->size());
    size_t n = self->outputs->size();
    for (size_t k = 0; k < n; k++) made[k] = wrapped(self, made[k], (int)k);
    for (size_t i = 0; list && i < self->results->size(); i++) {
        ResultSpec r = (*self->results)[i];
        PyObject* item = r.what == FROM_OUTPUT ? Py_XNewRef(made[r.index])
            : r.what == FROM_INPUT             ? Py_NewRef(given[r.index])
            : r.what == FROM_NUMBER            ? PyLong_FromLong(numbers[r.index])
                                               : Py_NewRef(Py_None);
        if (!item) {
            Py_CLEAR(list);
            break;
        }
        PyList_SET_ITEM(list, i, item);
    }
    for (size_t k = 0; k < n; k++) Py_XDECREF(made[k]);
    return list;
}

// In generated code and the runtime's kernels, whoever calls these: what share of a step runs there is told from it.
std::atomic<long> native_ns {0};

int extern_call(void* context, long number, void** buffers, const long* numbers);

// ---- watched calls: while somebody asks, each call tells when its kernels and eager calls ran
PyObject* watcher = nullptr; // watcher(extern_function, start, end, ticks, eager calls), in nanoseconds; under the GIL

struct EagerTick {
    long number;
    unsigned long start, end;
};
struct Notes {
    std::vector<unsigned long> ticks, sums; // a kernel's timer asks for the time when it begins and when it ends
    std::vector<EagerTick> eager;
};
thread_local Notes* notes = nullptr; // of the innermost watched call of this thread

unsigned long noted_clock() {
    unsigned long now = runtime_table.clock();
    if (notes) notes->ticks.push_back(now);
    return now;
}

// how many kernels the code of a launcher has: the owner of its eager calls knows; -1: it does not say
Py_ssize_t kernels_of(Launcher* self) {
    PyObject* kernels = PyObject_GetAttrString(self->extern_function, "kernels");
    Py_ssize_t count = kernels ? PyObject_Size(kernels) : -1;
    Py_XDECREF(kernels);
    if (count < 0) PyErr_Clear();
    return count;
}

PyObject* tick_list(const Notes& noted) {
    PyObject* list = PyList_New(0);
    for (unsigned long tick : noted.ticks) {
        PyObject* item = PyLong_FromUnsignedLong(tick);
        if (!list || !item || PyList_Append(list, item)) Py_CLEAR(list);
        Py_XDECREF(item);
        if (!list) return nullptr;
    }
    return list;
}

PyObject* eager_list(const Notes& noted) {
    PyObject* list = PyList_New(0);
    for (const EagerTick& tick : noted.eager) {
        PyObject* item = Py_BuildValue("lkk", tick.number, tick.start, tick.end);
        if (!list || !item || PyList_Append(list, item)) Py_CLEAR(list);
        Py_XDECREF(item);
        if (!list) return nullptr;
    }
    return list;
}

void tell(Launcher* self, const Notes& noted, unsigned long start, unsigned long end) {
    PyObject *asked = Py_XNewRef(watcher), *ticks = tick_list(noted), *eager = eager_list(noted);
    PyObject* told = asked && ticks && eager
        ? PyObject_CallFunction(asked, "OkkOO", self->extern_function, start, end, ticks, eager)
        : nullptr;
    if (!told && PyErr_Occurred()) PyErr_WriteUnraisable(asked);
    Py_XDECREF(told);
    Py_XDECREF(eager);
    Py_XDECREF(ticks);
    Py_XDECREF(asked);
}

// A short run is not worth two looks at the clock each time: after the first ones, one of SAMPLED stands for those before it.
constexpr unsigned long SHORT_NS = 4000, FIRST_RUNS = 16, SAMPLED = 64;

bool worth_timing(const Launcher* self) {
    return self->calls <= FIRST_RUNS || self->last_ns >= SHORT_NS || self->untimed >= SAMPLED - 1 || !self->externs->empty();
}

void count_run(Launcher* self, unsigned long ns) {
    unsigned long usual = std::min(ns, self->last_ns); // of two runs: what held one of them up is not counted for all
    unsigned long total = ns + self->untimed * usual;
    self->total_ns += total;
    self->last_ns = ns;
    self->untimed = 0;
    count_native((long)total);
}

struct Run { // what the code of a launcher is called with
    void** buffers;
    const long* symbols;
    const double* floats;
    char* arena;
    bool drop; // the GIL
};

struct Span { // of one run, in nanoseconds
    unsigned long start, end;
};

// Waiting for the GIL is no part of the span.
inline int run_code(Launcher* self, Call& call, const Run& run, const FbRuntime& rt, Span* span = nullptr) {
    call.state = run.drop ? PyEval_SaveThread() : nullptr;
    if (span) span->start = runtime_table.clock();
    int code = self->run(run.buffers, run.symbols, run.floats, run.arena, &rt);
    if (span) span->end = runtime_table.clock();
    if (run.drop) PyEval_RestoreThread(call.state);
    return code;
}

__attribute__((noinline)) int run_timed(Launcher* self, Call& call, const Run& run, const FbRuntime& rt) {
    Span span;
    int code = run_code(self, call, run, rt, &span);
    count_run(self, span.end - span.start);
    return code;
}

// While somebody watches: kernels tell when they begin and end.
__attribute__((noinline)) int run_watched(Launcher* self, Call& call, const Run& run, FbRuntime& rt) {
    Py_ssize_t kernels = kernels_of(self);
    Notes noted, *outer = notes;
    if (kernels >= 0) {
        noted.sums.resize(kernels + 1);
        if (!rt.kernel_ns) rt.kernel_ns = noted.sums.data();
        rt.clock = noted_clock;
    }
    notes = kernels >= 0 ? &noted : nullptr;
    Span span;
    int code = run_code(self, call, run, rt, &span);
    notes = outer;
    count_run(self, span.end - span.start);
    if (kernels >= 0 && code == 0) tell(self, noted, span.start, span.end);
    return code;
}

int run_native(Launcher* self, Call& call, const Run& run) {
    FbRuntime rt = runtime_table;
    rt.extern_call = extern_call;
    rt.context = &call;
    rt.kernel_ns = self->kernel_ns->empty() ? nullptr : self->kernel_ns->data();
    self->calls++;
    if (watcher) return run_watched(self, call, run, rt);
    if (worth_timing(self)) return run_timed(self, call, run, rt);
    self->untimed++;
    return run_code(self, call, run, rt);
}

PyObject* failure(Launcher* self, int code) {
    if (PyErr_Occurred()) return nullptr; // an eager call inside of the graph raised
    PyObject* text =
        code >= 1 && code <= PyTuple_GET_SIZE(self->checks) ? PyTuple_GET_ITEM(self->checks, code - 1) : Py_None;
    PyObject* raised = PyObject_CallOneArg(self->error, text);
    if (raised) PyErr_SetObject((PyObject*)Py_TYPE(raised), raised);
    Py_XDECREF(raised);
    return nullptr;
}

PyObject* launch_with(Launcher* self, PyObject* const* given, Py_ssize_t count, PyObject* seed, PyObject* base) {
    size_t n_in = self->inputs->size(), n_const = self->constants->size(), n_out = self->outputs->size();
    if ((size_t)count != n_in)
        return PyErr_Format(PyExc_TypeError, "compiled graph: %zd inputs given, %zu expected", count, n_in);
    PyArrayObject** arrays = (PyArrayObject**)alloca((n_in + 1) * sizeof(void*));
    void** buffers = (void**)alloca((n_in + n_const + n_out + 1) * sizeof(void*));
    PyObject** made = (PyObject**)alloca((n_out + 1) * sizeof(void*));
    long* symbols = (long*)alloca((self->symbols->size() + 2) * sizeof(long));
    double* floats = (double*)alloca((self->floats->size() + 1) * sizeof(double));
    long* plan = (long*)alloca((self->plan_size + 2) * sizeof(long));
    for (size_t i = 0; i < n_in; i++) {
        const InputSpec& spec = (*self->inputs)[i];
        arrays[i] = spec.is_number ? nullptr : array_of(given[i]);
        if (!spec.is_number && (!arrays[i] || !fits(spec, arrays[i]))) return refuse(self, (int)i, given[i]), nullptr;
        buffers[i] = arrays[i] ? PyArray_DATA(arrays[i]) : nullptr;
    }
    for (size_t i = 0; i < n_const; i++) buffers[n_in + i] = PyArray_DATA((PyArrayObject*)(*self->constants)[i]);
    if (!bind_numbers(self, given, arrays, symbols, floats)) return nullptr;
    symbols[self->symbols->size()] = (long)PyLong_AsUnsignedLongLongMask(seed);
    symbols[self->symbols->size() + 1] = (long)PyLong_AsUnsignedLongLongMask(base);
    if (PyErr_Occurred()) return nullptr;
    self->plan(symbols, plan);
    const long* place = plan + 2;
    for (size_t k = 0; k < n_out; k++) {
        const OutputSpec& spec = (*self->outputs)[k];
        made[k] = make_output(spec, place, spec.home < 0 ? nullptr : arrays[spec.home], &buffers[n_in + n_const + k]);
        if (!made[k]) {
            while (k > 0) Py_DECREF(made[--k]);
            return nullptr;
        }
        place += 2 * spec.dims;
    }
    char* arena = plan[0] ? (char*)workspace_alloc(plan[0]) : nullptr;
    int code = -1;
    Call call = {self, nullptr, seed, base};
    if (plan[0] && !arena) PyErr_NoMemory();
    else code = run_native(self, call, {buffers, symbols, floats, arena, plan[1] >= DROP_GIL_FROM});
    workspace_release(arena);
    if (code == 0) return collect(self, given, made, place);
    for (size_t k = 0; k < n_out; k++) Py_DECREF(made[k]);
    return failure(self, code);
}

// launcher(inputs, seed=0, base=0)
PyObject* launch(PyObject* raw, PyObject* const* args, size_t flags, PyObject* names) {
    Py_ssize_t n = PyVectorcall_NARGS(flags);
    if (n < 1 || n > 3 || names) return PyErr_Format(PyExc_TypeError, "compiled graph: call with (inputs, seed, base)");
    PyObject* sequence = PySequence_Fast(args[0], "compiled graph: the inputs must be a list or tuple");
    if (!sequence) return nullptr;
    PyObject *zero = nullptr, *seed = n > 1 ? args[1] : nullptr, *base = n > 2 ? args[2] : nullptr;
    if (!seed || !base) zero = PyLong_FromLong(0);
    PyObject* result = launch_with((Launcher*)raw, PySequence_Fast_ITEMS(sequence), PySequence_Fast_GET_SIZE(sequence),
        seed ? seed : zero, base ? base : zero);
    Py_XDECREF(zero);
    Py_DECREF(sequence);
    return result;
}

// ---- eager calls from inside of generated code
PyObject* view_of(PyArray_Descr* descr, int dims, void* data, const long*& numbers) {
    npy_intp strides[NPY_MAXDIMS];
    for (int d = 0; d < dims; d++) strides[d] = numbers[dims + d] * PyDataType_ELSIZE(descr);
    Py_INCREF(descr);
    PyObject* array = PyArray_NewFromDescr(
        &PyArray_Type, descr, dims, (npy_intp*)numbers, strides, data, NPY_ARRAY_WRITEABLE, nullptr);
    if (array)
        PyArray_UpdateFlags((PyArrayObject*)array, NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_F_CONTIGUOUS | NPY_ARRAY_ALIGNED);
    numbers += 2 * dims;
    return array;
}

PyObject* call_python(Call& call, long number, void** buffers, const long* numbers) {
    const ExternSpec& spec = (*call.self->externs)[number];
    PyObject* arrays = PyTuple_New(spec.buffers.size());
    PyObject* sizes = PyTuple_New(spec.numbers);
    for (size_t k = 0; arrays && sizes && k < spec.buffers.size(); k++) {
        PyObject* view = view_of(spec.buffers[k].first, spec.buffers[k].second, buffers[k], numbers);
        if (!view) {
            Py_CLEAR(arrays);
            break;
        }
        PyTuple_SET_ITEM(arrays, k, view);
    }
    for (int i = 0; sizes && i < spec.numbers; i++) PyTuple_SET_ITEM(sizes, i, PyLong_FromLong(numbers[i]));
    PyObject* result = arrays && sizes
        ? PyObject_CallFunction(call.self->extern_function, "lOOOO", number, arrays, sizes, call.seed, call.base)
        : nullptr;
    Py_XDECREF(arrays);
    Py_XDECREF(sizes);
    return result;
}

int extern_call(void* context, long number, void** buffers, const long* numbers) {
    Call& call = *(Call*)context;
    if (call.state) PyEval_RestoreThread(call.state);
    Notes* noted = notes;
    unsigned long start = runtime_table.clock();
    PyObject* result = call_python(call, number, buffers, numbers);
    unsigned long end = runtime_table.clock();
    count_native((long)(start - end)); // but for the kernels that eager calls, which have counted themselves
    if (noted) noted->eager.push_back({number, start, end});
    Py_XDECREF(result);
    if (call.state) call.state = PyEval_SaveThread();
    return result ? 0 : -1;
}

// ---- the type
template <class T> void give_back(std::vector<T>*& v) {
    delete v;
    v = nullptr;
}

int launcher_traverse(PyObject* raw, visitproc visit, void* arg) {
    Launcher* self = (Launcher*)raw;
    Py_VISIT(Py_TYPE(raw));
    Py_VISIT(self->checks);
    Py_VISIT(self->error);
    Py_VISIT(self->extern_function);
    Py_VISIT(self->keepalive);
    return 0;
}

int launcher_clear(PyObject* raw) {
    Launcher* self = (Launcher*)raw;
    Py_CLEAR(self->checks);
    Py_CLEAR(self->error);
    Py_CLEAR(self->extern_function);
    Py_CLEAR(self->keepalive);
    return 0;
}

void launcher_dealloc(PyObject* raw) {
    Launcher* self = (Launcher*)raw;
    PyTypeObject* type = Py_TYPE(raw);
    PyObject_GC_UnTrack(raw);
    launcher_clear(raw);
    if (self->constants)
        for (PyObject* x : *self->constants) Py_DECREF(x);
    if (self->outputs)
        for (OutputSpec& s : *self->outputs) {
            Py_DECREF(s.descr);
            Py_DECREF(s.dtype);
        }
    if (self->externs)
        for (ExternSpec& e : *self->externs)
            for (auto& b : e.buffers) Py_DECREF(b.first);
    give_back(self->inputs), give_back(self->constants), give_back(self->symbols), give_back(self->floats);
    give_back(self->outputs), give_back(self->results), give_back(self->externs), give_back(self->kernel_ns);
    type->tp_free(raw);
    Py_DECREF(type);
}

PyObject* launcher_new(PyTypeObject* type, PyObject* args, PyObject* names) {
    static const char* keywords[] = {"run", "plan", "inputs", "constants", "symbols", "floats", "outputs", "results",
        "plan_size", "checks", "error", "externs", "extern_function", "kernels", "wrap", "keepalive", nullptr};
    unsigned long long run, plan;
    PyObject *inputs, *constants, *symbols, *floats, *outputs, *results, *checks, *error, *externs, *extern_function,
        *keepalive;
    int plan_size, kernel_count, wrap;
    if (!PyArg_ParseTupleAndKeywords(args, names, "KKO!O!O!O!O!O!iO!OO!OipO", (char**)keywords, &run, &plan,
            &PyTuple_Type, &inputs, &PyTuple_Type, &constants, &PyTuple_Type, &symbols, &PyTuple_Type, &floats,
            &PyTuple_Type, &outputs, &PyTuple_Type, &results, &plan_size, &PyTuple_Type, &checks, &error, &PyTuple_Type,
            &externs, &extern_function, &kernel_count, &wrap, &keepalive))
        return nullptr;
    if (wrap && !tensor.type)
        return PyErr_Format(
            PyExc_RuntimeError, "bind_tensor must be called before a launcher that returns tensors is made");
    Launcher* self = (Launcher*)type->tp_alloc(type, 0);
    if (!self) return nullptr;
    self->vectorcall = launch;
    self->run = (FbRun)run, self->plan = (FbPlan)plan, self->plan_size = plan_size, self->wrap = wrap;
    self->inputs = new std::vector<InputSpec>, self->constants = new std::vector<PyObject*>,
    self->symbols = new std::vector<SymbolSpec>;
    self->floats = new std::vector<int>, self->outputs = new std::vector<OutputSpec>,
    self->results = new std::vector<ResultSpec>;
    self->externs = new std::vector<ExternSpec>, self->kernel_ns = new std::vector<unsigned long>(kernel_count);
    self->checks = Py_NewRef(checks), self->error = Py_NewRef(error);
    self->extern_function = Py_NewRef(extern_function), self->keepalive = Py_NewRef(keepalive);
    if (!read_inputs(self, inputs) || !read_outputs(self, outputs) || !read_externs(self, externs)
        || !read_rest(self, constants, symbols, floats, results)) {
        Py_DECREF(self);
        return nullptr;
    }
    return (PyObject*)self;
}

PyObject* launcher_statistics(PyObject* raw, PyObject*) {
    Launcher* self = (Launcher*)raw;
    PyObject* list = PyList_New(0);
    for (unsigned long ns : *self->kernel_ns) {
        PyObject* item = PyLong_FromUnsignedLong(ns);
        if (!list || !item || PyList_Append(list, item)) {
            Py_XDECREF(item);
            Py_XDECREF(list);
            return nullptr;
        }
        Py_DECREF(item);
    }
    return Py_BuildValue("{s:k,s:k,s:N}", "calls", self->calls, "ns", self->total_ns, "kernel_ns", list);
}

PyMethodDef launcher_methods[] = {{"statistics", launcher_statistics, METH_NOARGS,
                                      "calls, nanoseconds in native code, and per kernel when that is measured"},
    {nullptr, nullptr, 0, nullptr}};

PyMemberDef launcher_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Launcher, vectorcall), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};

PyType_Slot launcher_slots[] = {{Py_tp_new, (void*)launcher_new}, {Py_tp_dealloc, (void*)launcher_dealloc},
    {Py_tp_traverse, (void*)launcher_traverse}, {Py_tp_clear, (void*)launcher_clear},
    {Py_tp_call, (void*)PyVectorcall_Call}, {Py_tp_methods, launcher_methods}, {Py_tp_members, launcher_members},
    {Py_tp_doc, (void*)"launcher(inputs, seed=0, base=0) -> list of outputs of one compiled graph"}, {0, nullptr}};

PyType_Spec launcher_spec = {"flambeau.runtime._native.Launcher", sizeof(Launcher), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL, launcher_slots};

}

void set_output_view(PyObject* view) { output_view = view; }

PyObject* py_bind_tensor(PyObject*, PyObject* args) {
    PyTypeObject* type;
    PyObject* device;
    if (!PyArg_ParseTuple(args, "O!O", &PyType_Type, &type, &device) || !tensor.learn(type)) return nullptr;
    Py_XSETREF(host, Py_NewRef(device));
    Py_RETURN_NONE;
}

void count_native(long ns) { native_ns.fetch_add(ns, std::memory_order_relaxed); }
PyObject* native_seconds(PyObject*, PyObject*) { return PyFloat_FromDouble(native_ns.load() * 1e-9); }

PyObject* watch_launches(PyObject*, PyObject* asked) {
    PyObject* before = watcher ? watcher : Py_NewRef(Py_None);
    watcher = asked == Py_None ? nullptr : Py_NewRef(asked);
    return before;
}

bool add_launcher(PyObject* module) {
    PyObject* type = PyType_FromSpec(&launcher_spec);
    return type && PyModule_AddObject(module, "Launcher", type) == 0;
}
