// Optimizer steps of many parameters in one parallel run. In: rows of tensors, one row a parameter. Out: True, or False
// with nothing changed where a row is not plain: then the caller steps row by row.
#include <algorithm>
#include <vector>

#include "../../runtime/csrc/job.h"
#include "call.h"

namespace {

constexpr int COLUMNS = 8;

struct Plan { // columns of a row
    std::vector<int> written, read;
    int count; // the tensor that counts the steps, or -1
};

struct Work {
    std::vector<FbJobCall> calls, counts;
    std::vector<void*> pointers, counters;
    std::vector<PyObject*> changed;
    std::vector<std::pair<char*, char*>> spans; // that are written
};

bool columns(PyObject* tuple, std::vector<int>& out) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); i++) {
        out.push_back((int)PyLong_AsLong(PyTuple_GET_ITEM(tuple, i)));
        if (PyErr_Occurred()) return false;
        if (out.back() < 0 || out.back() >= COLUMNS) return PyErr_Format(PyExc_ValueError, "steps: column %d", out.back()), false;
    }
    return true;
}

// The bytes of a tensor whose elements lie one after the other; null where they do not.
PyArrayObject* flat(PyObject* t, bool written) {
    if (!is_plain(t) || !is_cpu(t) || (written && slot(t, world.t.view) != Py_None)) return nullptr;
    PyArrayObject* a = array_of(t);
    return a && PyArray_ISCARRAY_RO(a) && (!written || PyArray_ISWRITEABLE(a)) ? a : nullptr;
}

bool add_row(Work& work, const Plan& plan, PyObject* row, int number) {
    PyObject* first = PyTuple_GET_ITEM(row, plan.written[0]);
    if (!is_plain(first)) return false;
    int type = type_of(first), kind = kernel_type(type);
    PyArrayObject* arrays[COLUMNS] = {};
    npy_intp units = -1;
    auto take = [&](int column, bool written) {
        PyObject* t = PyTuple_GET_ITEM(row, column);
        if (t == Py_None) return true;
        if (!is_plain(t) || type_of(t) != type || !(arrays[column] = flat(t, written))) return false;
        npy_intp n = PyArray_SIZE(arrays[column]);
        if (units < 0) units = n;
        if (written) {
            char* begin = PyArray_BYTES(arrays[column]);
            if (n) work.spans.push_back({begin, begin + PyArray_NBYTES(arrays[column])});
            work.changed.push_back(t);
        }
        return n == units;
    };
    if (kind < 0) return false;
    for (int c : plan.written)
        if (!take(c, true)) return false;
    for (int c : plan.read)
        if (!take(c, false)) return false;
    size_t begin = work.pointers.size();
    auto push = [&](int c) { work.pointers.push_back(arrays[c] ? PyArray_DATA(arrays[c]) : nullptr); };
    for (int twice = 0; twice < 2; twice++)
        for (int c : plan.written) push(c);
    for (int c : plan.read) push(c);
    if (plan.count >= 0) {
        PyObject* t = PyTuple_GET_ITEM(row, plan.count);
        PyArrayObject* a = t != Py_None && is_plain(t) && type_of(t) == FLOAT32 ? flat(t, true) : nullptr;
        if (!a || PyArray_SIZE(a) != 1) return false;
        work.spans.push_back({PyArray_BYTES(a), PyArray_BYTES(a) + 4});
        work.pointers.push_back(PyArray_DATA(a));
        work.counters.insert(work.counters.end(), 2, PyArray_DATA(a));
        work.changed.push_back(t);
    }
    work.calls.push_back({number, units, 1, kind, (int)(work.pointers.size() - begin), 0, 0, nullptr, nullptr, nullptr});
    return true;
}

// Memory that is written lies apart: no order of the rows can matter.
bool apart(std::vector<std::pair<char*, char*>>& spans) {
    std::sort(spans.begin(), spans.end());
    for (size_t k = 1; k < spans.size(); k++)
        if (spans[k].first < spans[k - 1].second) return false;
    return true;
}

void run(Work& work, int count, std::vector<long>& numbers, std::vector<double>& reals) {
    void** p = work.pointers.data();
    for (FbJobCall& call : work.calls) {
        call.p = p, p += call.pointers;
        call.n = numbers.data(), call.numbers = (int)numbers.size();
        call.f = reals.data(), call.reals = (int)reals.size();
    }
    for (size_t k = 0; k < work.counters.size(); k += 2)
        work.counts.push_back({count, 1, 1, FB_FLOAT, 2, 0, 0, &work.counters[k], nullptr, nullptr});
    const FbRuntime* rt = world.api->runtime;
    Py_BEGIN_ALLOW_THREADS rt->jobs(work.calls.data(), (long)work.calls.size());
    rt->jobs(work.counts.data(), (long)work.counts.size());
    Py_END_ALLOW_THREADS
}

// steps(kernel, counter, written, read, count, rows, numbers, reals)
PyObject* py_steps(PyObject*, PyObject* args) {
    int number, counter;
    PyObject *written, *read, *rows, *whole, *real;
    Plan plan;
    if (!PyArg_ParseTuple(args, "iiO!O!iO!O!O!", &number, &counter, &PyTuple_Type, &written, &PyTuple_Type, &read, &plan.count,
            &PyList_Type, &rows, &PyTuple_Type, &whole, &PyTuple_Type, &real)
        || !columns(written, plan.written) || !columns(read, plan.read))
        return nullptr;
    std::vector<long> numbers;
    std::vector<double> reals;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(whole); i++) numbers.push_back(PyLong_AsLong(PyTuple_GET_ITEM(whole, i)));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(real); i++) reals.push_back(PyFloat_AsDouble(PyTuple_GET_ITEM(real, i)));
    if (PyErr_Occurred()) return nullptr;
    Work work;
    for (Py_ssize_t k = 0; k < PyList_GET_SIZE(rows); k++) {
        PyObject* row = PyList_GET_ITEM(rows, k);
        if (!PyTuple_Check(row) || PyTuple_GET_SIZE(row) > COLUMNS) return PyErr_Format(PyExc_TypeError, "steps: a row is a tuple");
        if (!add_row(work, plan, row, number)) Py_RETURN_FALSE;
    }
    if (!apart(work.spans)) Py_RETURN_FALSE;
    run(work, counter, numbers, reals);
    for (PyObject* t : work.changed)
        if (!bump(t)) return nullptr;
    Py_RETURN_TRUE;
}

// written(targets, values, pairs): for each pair (k, n) of 64-bit numbers in these bytes where values[n] is targets[k] itself,
// a write into its bytes is noted; the numbers of the other pairs.
PyObject* py_written(PyObject*, PyObject* args) {
    PyObject *targets, *values, *pairs;
    if (!PyArg_ParseTuple(args, "O!O!S", &PyList_Type, &targets, &PyList_Type, &values, &pairs)) return nullptr;
    Ref rest(PyList_New(0));
    const int64_t* pair = (const int64_t*)PyBytes_AS_STRING(pairs);
    Py_ssize_t count = PyBytes_GET_SIZE(pairs) / (2 * sizeof(int64_t));
    for (Py_ssize_t i = 0; rest && i < count; i++) {
        int64_t k = pair[2 * i], n = pair[2 * i + 1];
        if (k < 0 || n < 0 || k >= PyList_GET_SIZE(targets) || n >= PyList_GET_SIZE(values))
            return PyErr_Format(PyExc_IndexError, "written: pair %zd", i);
        PyObject* target = PyList_GET_ITEM(targets, k);
        if (PyList_GET_ITEM(values, n) == target) {
            if (!bump(target)) return nullptr;
            continue;
        }
        Ref number(PyLong_FromSsize_t(i));
        if (!number || PyList_Append(rest.get(), number.get())) return nullptr;
    }
    return rest.release();
}

PyMethodDef methods[] = {{"steps", py_steps, METH_VARARGS,
                             "steps(kernel, counter, written, read, count, rows, numbers, reals): an optimizer's kernel over "
                             "rows of tensors; whether it took them"},
    {"written", py_written, METH_VARARGS,
        "written(targets, values, pairs): note writes into tensors that a compiled call has changed where they lie; the "
        "numbers of the pairs whose value lies elsewhere"},
    {nullptr, nullptr, 0, nullptr}};

}

bool add_steps(PyObject* module) { return PyModule_AddFunctions(module, methods) == 0; }
