// Functions per element that are no programs of numpy's loops: kernels of the runtime for special functions, greatest common
// divisors, and formulas of three operands behind public functions.
#include "small_tensor.h"

#include <string.h>

#include "../../runtime/csrc/job.h"
#include "casts.h"

namespace {

constexpr npy_intp FEW_ELEMENTS = 4096; // one thread's work: more go to the general kernel

// ---- special(name, general, series, doubles): the kernel of a record of one operand, an array in and an array out

struct Special {
    PyObject_HEAD vectorcallfunc vectorcall;
    PyObject *general, *series; // `series(for doubles)` -> (coefficients, whole numbers of the kernel), at the first call
    PyObject* coefficients[2]; // for floats, and for doubles
    int number;
    bool doubles; // doubles are for the kernel, too
    long numbers[2][4];
};

bool learn_series(Special* self, bool wide) {
    if (self->coefficients[wide]) return true;
    Ref pair(PyObject_CallOneArg(self->series, wide ? Py_True : Py_False));
    PyObject *array, *numbers;
    if (!pair || !PyArg_ParseTuple(pair.get(), "O!O!", &PyArray_Type, &array, &PyTuple_Type, &numbers)) return false;
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(numbers) && k < 4; k++)
        self->numbers[wide][k] = PyLong_AsLong(PyTuple_GET_ITEM(numbers, k));
    return !PyErr_Occurred() && (self->coefficients[wide] = Py_NewRef(array));
}

void run_special(const Special* self, void* out, const void* x, int type, npy_intp n) {
    bool wide = type == FLOAT64;
    Job job = {};
    job.rt = world.api->runtime;
    job.p[0] = out, job.p[1] = (void*)x, job.p[2] = PyArray_DATA((PyArrayObject*)self->coefficients[wide]);
    memcpy(job.n, self->numbers[wide], sizeof self->numbers[wide]);
    job.f[0] = 1;
    world.api->jobs()[self->number].run[type == FLOAT32 ? 0 : wide ? 1 : type == BFLOAT16 ? 2 : 3](job, 0, n);
}

PyObject* call_special(PyObject* raw, PyObject* const* args, size_t nargsf, PyObject* names) {
    Special* self = (Special*)raw;
    PyArrayObject* x = PyVectorcall_NARGS(nargsf) == 1 && !names ? row_major(args[0]) : nullptr;
    int type = x ? element_type(x) : -1;
    npy_intp n = x ? PyArray_SIZE(x) : 0;
    bool known = type == FLOAT32 || type == FLOAT16 || type == BFLOAT16 || (type == FLOAT64 && self->doubles);
    if (!known || !n || n > FEW_ELEMENTS) return PyObject_Vectorcall(self->general, args, nargsf, names);
    if (!learn_series(self, type == FLOAT64)) return nullptr;
    PyObject* array = fresh_array(type, PyArray_NDIM(x), PyArray_DIMS(x), nullptr);
    if (!array) return nullptr;
    run_special(self, data_of(array), PyArray_DATA(x), type, n);
    return array;
}

// zeta(s, q): of floats s > 1 and q > 0
PyObject* py_zeta(PyObject*, PyObject* const* args, Py_ssize_t n) {
    static const int number = small_job("zeta");
    PyArrayObject *s = n == 2 ? row_major(args[0], FLOAT32) : nullptr, *q = s ? row_major(args[1], FLOAT32) : nullptr;
    npy_intp count = q ? PyArray_SIZE(s) : 0;
    if (!count || count > FEW_ELEMENTS || !PyArray_SAMESHAPE(s, q)) return declined();
    const float *x = (const float*)PyArray_DATA(s), *y = (const float*)PyArray_DATA(q);
    for (npy_intp k = 0; k < count; k++)
        if (!(x[k] > 1.0001f && x[k] < 1e3f && y[k] > 0 && y[k] < 1e30f)) return declined();
    PyObject* array = fresh_array(FLOAT32, PyArray_NDIM(s), PyArray_DIMS(s), nullptr);
    if (!array) return nullptr;
    Job job = {};
    job.rt = world.api->runtime;
    job.p[0] = data_of(array), job.p[1] = (void*)x, job.p[2] = (void*)y;
    world.api->jobs()[number].run[FB_FLOAT](job, 0, count);
    return array;
}

int traverse_special(PyObject* raw, visitproc visit, void* arg) {
    Py_VISIT(((Special*)raw)->general);
    Py_VISIT(((Special*)raw)->series);
    return 0;
}
int clear_special(PyObject* raw) {
    Py_CLEAR(((Special*)raw)->general);
    Py_CLEAR(((Special*)raw)->series);
    for (PyObject*& each : ((Special*)raw)->coefficients) Py_CLEAR(each);
    return 0;
}
void dealloc_special(PyObject* raw) {
    PyObject_GC_UnTrack(raw);
    clear_special(raw);
    Py_TYPE(raw)->tp_free(raw);
}

PyTypeObject SpecialType = {PyVarObject_HEAD_INIT(nullptr, 0)};

PyObject* py_special(PyObject*, PyObject* args) {
    const char* name;
    PyObject *general, *series;
    int doubles;
    if (!PyArg_ParseTuple(args, "sOOp", &name, &general, &series, &doubles)) return nullptr;
    int number = small_job(name);
    if (number < 0) return PyErr_Format(PyExc_ValueError, "no kernel %s", name);
    Special* self = (Special*)SpecialType.tp_alloc(&SpecialType, 0);
    if (!self) return nullptr;
    self->vectorcall = call_special, self->number = number, self->doubles = doubles;
    self->general = Py_NewRef(general), self->series = Py_NewRef(series);
    return (PyObject*)self;
}

bool ready_special() {
    SpecialType.tp_name = "flambeau.eager._call.Special", SpecialType.tp_basicsize = sizeof(Special);
    SpecialType.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL;
    SpecialType.tp_vectorcall_offset = offsetof(Special, vectorcall), SpecialType.tp_call = PyVectorcall_Call;
    SpecialType.tp_traverse = traverse_special, SpecialType.tp_clear = clear_special, SpecialType.tp_dealloc = dealloc_special;
    return PyType_Ready(&SpecialType) == 0;
}

// ---- formulas of several operands: the record's own call path, without a look at numbers that any type holds

// A number that every floating type, or every type of whole numbers, holds as it is.
bool any_holds(PyObject* x, int category) {
    double v;
    if (!small_real(x, 0, v)) return false;
    return category == 2 ? v >= -60000 && v <= 60000 : PyLong_CheckExact(x) && v >= 0 && v <= 127;
}
int category_of(PyObject* x) {
    int type = is_plain(x) ? type_of(x) : -1;
    return type < 0 ? -1 : world.types[type].category;
}

// input + value * (tensor1 op tensor2), of one floating type
PyObject* fused(const Call& c) {
    static const Names<4> names("input", "tensor1", "tensor2", "value");
    static PyObject* one = PyLong_FromLong(1);
    PyObject* a[4];
    if (c.n > 3 || !parse(c, names, a) || !a[0] || !a[1] || !a[2] || category_of(a[0]) != 2 || (a[3] && !any_holds(a[3], 2)))
        return nullptr;
    for (int k = 1; k < 3; k++)
        if (!is_plain(a[k]) || slot(a[k], world.t.dtype) != slot(a[0], world.t.dtype)) return nullptr;
    PyObject* given[] = {a[0], a[1], a[2], a[3] ? a[3] : one};
    return PyObject_Vectorcall(c.self->head.op, given, 4, nullptr);
}

PyObject* clamp(const Call& c) {
    static const Names<3> names("input", "min", "max");
    PyObject* a[3];
    if (!parse(c, names, a) || !a[0] || (absent(a[1]) && absent(a[2]))) return nullptr;
    int category = category_of(a[0]);
    if (category < 1 || category > 2) return nullptr;
    for (int k = 1; k < 3; k++) {
        npy_intp whole;
        bool held = absent(a[k]) || any_holds(a[k], category) || (type_of(a[0]) == INT64 && small_int(a[k], whole));
        if (!held) return nullptr;
    }
    PyObject* given[] = {a[0], a[1] ? a[1] : Py_None, a[2] ? a[2] : Py_None};
    return PyObject_Vectorcall(c.self->head.op, given, 3, nullptr);
}

// ---- greatest common divisors

uint64_t divisor_of(uint64_t a, uint64_t b) {
    if (!a || !b) return a | b;
    int twos = __builtin_ctzll(a | b);
    a >>= __builtin_ctzll(a);
    while (b) {
        b >>= __builtin_ctzll(b);
        uint64_t low = a < b ? a : b;
        b = a < b ? b - a : a - b, a = low;
    }
    return a << twos;
}

PyObject* gcd(const Call& c) {
    PyArrayObject *x = c.n == 2 && !c.names ? dense_array(c.args[0]) : nullptr, *y = x ? dense_array(c.args[1]) : nullptr;
    if (!y || type_of(c.args[0]) != INT64 || type_of(c.args[1]) != INT64 || !PyArray_SAMESHAPE(x, y)) return nullptr;
    PyObject* array = fresh_array(INT64, PyArray_NDIM(x), PyArray_DIMS(x), nullptr);
    if (!array) return nullptr;
    const int64_t *p = (const int64_t*)PyArray_DATA(x), *q = (const int64_t*)PyArray_DATA(y);
    int64_t* out = (int64_t*)data_of(array);
    for (npy_intp k = 0, n = PyArray_SIZE(x); k < n; k++)
        out[k] = (int64_t)divisor_of(p[k] < 0 ? -(uint64_t)p[k] : p[k], q[k] < 0 ? -(uint64_t)q[k] : q[k]);
    return tensor_around(array, INT64);
}

// ---- differences of neighbours

template <class T> T difference(T a, T b) { return a - b; }
Half difference(Half a, Half b) { return Narrow<Half>::of(widen(a) - widen(b)); }
BFloat difference(BFloat a, BFloat b) { return Narrow<BFloat>::of(widen(a) - widen(b)); }

PyObject* diff(const Call& c) {
    static const Names<3> names("input", "n", "dim");
    PyObject* a[3];
    npy_intp order = 1;
    if (!parse(c, names, a) || !a[0] || (a[1] && !small_int(a[1], order)) || order != 1 || (c.grad && is_tensor(a[0]) && needs_grad(a[0])))
        return nullptr;
    PyArrayObject* x = dense_array(a[0]);
    int type = x ? type_of(a[0]) : -1, dims = x ? PyArray_NDIM(x) : 0, d = dims - 1;
    if (!dims || PyArray_SIZE(x) > FEW_ELEMENTS || (a[2] && !small_dim(a[2], dims, d)) || PyArray_DIM(x, d) < 2) return nullptr;
    npy_intp sizes[MAX_DIMS], inner = 1, n = PyArray_DIM(x, d);
    for (int k = 0; k < dims; k++) sizes[k] = PyArray_DIM(x, k) - (k == d), inner *= k > d ? PyArray_DIM(x, k) : 1;
    Ref array(fresh_array(type, dims, sizes, nullptr));
    if (!array) return nullptr;
    auto run = [&](auto e) {
        typedef decltype(e) T;
        const T* from = (const T*)PyArray_DATA(x);
        T* to = (T*)data_of(array.get());
        for (npy_intp o = PyArray_SIZE(x) / (n * inner); o > 0; o--, from += inner)
            for (npy_intp k = 0; k < (n - 1) * inner; k++, from++) *to++ = difference(from[inner], *from);
    };
    switch (PyArray_SIZE(x) ? type : -1) {
    case FLOAT32: run(float{}); break;
    case FLOAT64: run(double{}); break;
    case INT64: run(uint64_t{}); break;
    case INT32: run(uint32_t{}); break;
    case FLOAT16: run(Half{}); break;
    case BFLOAT16: run(BFloat{}); break;
    default: return nullptr;
    }
    return tensor_around(array.release(), type);
}

PyMethodDef functions[] = {{"special", py_special, METH_VARARGS,
                               "special(name, general, series, doubles): the kernel of a special function of one operand"},
    {"zeta", (PyCFunction)(void*)py_zeta, METH_FASTCALL, "zeta(s, q): an array, or NotImplemented"},
    {nullptr, nullptr, 0, nullptr}};

}

const SmallEntry small_elements[] = {{"addcmul", fused}, {"addcdiv", fused}, {"clamp", clamp}, {"clip", clamp}, {"gcd", gcd}, {"diff", diff},
    {nullptr, nullptr}};

bool add_elements(PyObject* module) { return ready_special() && PyModule_AddFunctions(module, functions) == 0; }
