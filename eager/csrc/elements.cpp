// Functions per element that are no programs of numpy's loops: kernels of the runtime for special functions, greatest common
// divisors, and formulas of three operands behind public functions.
#include "small.h"

#include <string.h>

#include "../../runtime/csrc/job.h"
#include "casts.h"

namespace {

constexpr npy_intp FEW_ELEMENTS = 4096; // one thread's work: more go to the general kernel

// ---- special(name, general, series, doubles): the kernel of a record of one operand, an array in and an array out

struct Special {
    PyObject_HEAD vectorcallfunc vectorcall;
    PyObject *general, *series, *coefficients; // `series()` -> (coefficients, whole numbers of the kernel), at the first call
    int number;
    bool doubles; // doubles are for the kernel, too
    long numbers[4];
};

bool learn_series(Special* self) {
    if (self->coefficients) return true;
    Ref pair(PyObject_CallNoArgs(self->series));
    PyObject *array, *numbers;
    if (!pair || !PyArg_ParseTuple(pair.get(), "O!O!", &PyArray_Type, &array, &PyTuple_Type, &numbers)) return false;
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(numbers) && k < 4; k++)
        self->numbers[k] = PyLong_AsLong(PyTuple_GET_ITEM(numbers, k));
    return !PyErr_Occurred() && (self->coefficients = Py_NewRef(array));
}

void run_special(const Special* self, void* out, const void* x, bool wide, npy_intp n) {
    Job job = {};
    job.rt = world.api->runtime;
    job.p[0] = out, job.p[1] = (void*)x, job.p[2] = PyArray_DATA((PyArrayObject*)self->coefficients);
    memcpy(job.n, self->numbers, sizeof self->numbers);
    job.f[0] = 1;
    world.api->jobs()[self->number].run[wide](job, 0, n);
}

// Halves by way of doubles, which are rounded once.
void run_halves(const Special* self, int type, const char* x, char* out, npy_intp n) {
    constexpr npy_intp some = 256;
    double from[some], to[some];
    CastLoop widen = cast_loop(type, FLOAT64), narrow = narrow_once(type);
    for (npy_intp at = 0; at < n; at += some) {
        npy_intp count = n - at < some ? n - at : some;
        widen(x + at * 2, 2, (char*)from, sizeof(double), count);
        run_special(self, to, from, true, count);
        narrow((const char*)to, sizeof(double), out + at * 2, 2, count);
    }
}

PyObject* call_special(PyObject* raw, PyObject* const* args, size_t nargsf, PyObject* names) {
    Special* self = (Special*)raw;
    PyArrayObject* x = PyVectorcall_NARGS(nargsf) == 1 && !names ? row_major(args[0]) : nullptr;
    int type = x ? element_type(x) : -1;
    npy_intp n = x ? PyArray_SIZE(x) : 0;
    bool known = type == FLOAT32 || type == FLOAT16 || type == BFLOAT16 || (type == FLOAT64 && self->doubles);
    if (!known || !n || n > FEW_ELEMENTS) return PyObject_Vectorcall(self->general, args, nargsf, names);
    if (!learn_series(self)) return nullptr;
    PyObject* array = fresh_array(type, PyArray_NDIM(x), PyArray_DIMS(x), nullptr);
    if (!array) return nullptr;
    if (type == FLOAT32 || type == FLOAT64) run_special(self, data_of(array), PyArray_DATA(x), type == FLOAT64, n);
    else run_halves(self, type, (const char*)PyArray_DATA(x), (char*)data_of(array), n);
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
    Py_CLEAR(((Special*)raw)->coefficients);
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

PyMethodDef functions[] = {{"special", py_special, METH_VARARGS,
                               "special(name, general, series, doubles): the kernel of a special function of one operand"},
    {nullptr, nullptr, 0, nullptr}};

}

const SmallEntry small_elements[] = {{"addcmul", fused}, {"addcdiv", fused}, {"clamp", clamp}, {"clip", clamp}, {"gcd", gcd},
    {nullptr, nullptr}};

bool add_elements(PyObject* module) { return ready_special() && PyModule_AddFunctions(module, functions) == 0; }
