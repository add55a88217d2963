// The door from Python to the jobs: arrays in, pointers on; the pool runs the units.
#include "python.h"

#include <string.h>

#include <algorithm>
#include <vector>

#include "job.h"
#include "pool.h"

const JobKernel* job_table() {
#if defined(__x86_64__)
    if (kernels == &kernels_avx512) return jobs_avx512;
    if (kernels == &kernels_avx2) return jobs_avx2;
#endif
    return jobs_baseline;
}
long column_block() { // four registers of floats
#if defined(__x86_64__)
    if (kernels == &kernels_avx512) return 64;
    if (kernels == &kernels_avx2) return 32;
#endif
    return 16;
}

namespace {

struct Running {
    FbJob run;
    Job job;
};

void run_units(void* raw, long begin, long end, int) {
    Running& r = *(Running*)raw;
    r.run(r.job, begin, end);
}

// Jobs side by side: `first[k]` is the element at which job k begins, and the last one is where all end.
struct Listed {
    std::vector<Running> runs;
    std::vector<long> first, work;
    void add(const Running& r, long units, long each) {
        if (first.empty()) first.push_back(0);
        runs.push_back(r), work.push_back(each > 1 ? each : 1);
        first.push_back(first.back() + units * work.back());
    }
};

// The units that begin within elements [begin, end).
void run_listed(void* raw, long begin, long end, int) {
    const Listed& l = *(Listed*)raw;
    size_t k = std::upper_bound(l.first.begin(), l.first.end(), begin) - l.first.begin() - 1;
    for (; k < l.runs.size() && l.first[k] < end; k++) {
        long from = begin > l.first[k] ? begin - l.first[k] : 0, to = std::min(end, l.first[k + 1]) - l.first[k], each = l.work[k];
        from = (from + each - 1) / each, to = (to + each - 1) / each;
        if (from < to) l.runs[k].run(l.runs[k].job, from, to);
    }
}

bool read_pointers(PyObject* arrays, Job& job, Py_ssize_t begin = 0, Py_ssize_t count = -1) {
    if (count < 0) count = PyTuple_GET_SIZE(arrays);
    if (count > JOB_POINTERS) return PyErr_Format(PyExc_ValueError, "job: at most %d arrays", JOB_POINTERS), false;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject* a = PyTuple_GET_ITEM(arrays, begin + i);
        job.p[i] = nullptr;
        if (a == Py_None) continue;
        if (!PyArray_Check(a)) return PyErr_Format(PyExc_TypeError, "job: array %zd is no numpy array", i), false;
        job.p[i] = PyArray_DATA((PyArrayObject*)a);
    }
    return true;
}

bool read_numbers(PyObject* numbers, Job& job) {
    Py_ssize_t count = PyTuple_GET_SIZE(numbers);
    if (count > JOB_NUMBERS) return PyErr_Format(PyExc_ValueError, "job: at most %d numbers", JOB_NUMBERS), false;
    for (Py_ssize_t i = 0; i < count; i++) {
        job.n[i] = (long)PyLong_AsUnsignedLongMask(PyTuple_GET_ITEM(numbers, i));
        if (job.n[i] == -1 && PyErr_Occurred()) return false;
    }
    return true;
}

bool read_reals(PyObject* reals, Job& job) {
    Py_ssize_t count = PyTuple_GET_SIZE(reals);
    if (count > JOB_REALS) return PyErr_Format(PyExc_ValueError, "job: at most %d reals", JOB_REALS), false;
    for (Py_ssize_t i = 0; i < count; i++) {
        job.f[i] = PyFloat_AsDouble(PyTuple_GET_ITEM(reals, i));
        if (job.f[i] == -1 && PyErr_Occurred()) return false;
    }
    return true;
}

}

static Running running(const FbJobCall* call) {
    Running r = {};
    r.run = job_table()[call->number].run[call->type];
    r.job.rt = &runtime_table;
    memcpy(r.job.p, call->p, call->pointers * sizeof(void*));
    memcpy(r.job.n, call->n, call->numbers * sizeof(long));
    memcpy(r.job.f, call->f, call->reals * sizeof(double));
    return r;
}

void run_jobs(const FbJobCall* calls, long count) {
    Listed l;
    for (long k = 0; k < count; k++) l.add(running(calls + k), calls[k].units, calls[k].work);
    if (count) pool_parallel_for(run_listed, &l, l.first.back(), JOB_GRAIN);
}

void run_job(const FbJobCall* call) {
    Running r = running(call);
    long grain = JOB_GRAIN / (call->work > 1 ? call->work : 1);
    if (grain < 1) grain = 1;
    if (call->units <= grain / 4) r.run(r.job, 0, call->units);
    else pool_parallel_for(run_units, &r, call->units, grain);
}

PyObject* py_job(PyObject*, PyObject* const* args, Py_ssize_t count) {
    if (count != 7 || !PyTuple_Check(args[4]) || !PyTuple_Check(args[5]) || !PyTuple_Check(args[6]))
        return PyErr_Format(PyExc_TypeError, "job(number, type, units, grain, arrays, numbers, reals)");
    long number = PyLong_AsLong(args[0]), type = PyLong_AsLong(args[1]), units = PyLong_AsLong(args[2]),
         grain = PyLong_AsLong(args[3]);
    if (PyErr_Occurred()) return nullptr;
    Running r = {};
    r.run = type >= 0 && type < JOB_TYPES ? job_table()[number].run[type] : nullptr;
    if (!r.run) return PyErr_Format(PyExc_TypeError, "job: %s has no kernel of type %ld", job_table()[number].name, type);
    r.job.rt = &runtime_table;
    if (!read_pointers(args[4], r.job) || !read_numbers(args[5], r.job) || !read_reals(args[6], r.job)) return nullptr;
    if (units <= grain / 4) {
        r.run(r.job, 0, units);
    } else {
        Counted counted;
        Py_BEGIN_ALLOW_THREADS pool_parallel_for(run_units, &r, units, grain);
        Py_END_ALLOW_THREADS
    }
    Py_RETURN_NONE;
}

PyObject* py_job_list(PyObject*, PyObject* const* args, Py_ssize_t count) {
    if (count != 6 || !PyTuple_Check(args[3]) || !PyTuple_Check(args[4]) || !PyTuple_Check(args[5]))
        return PyErr_Format(PyExc_TypeError, "job_list(number, type, each, arrays, numbers, reals)");
    long number = PyLong_AsLong(args[0]), type = PyLong_AsLong(args[1]), each = PyLong_AsLong(args[2]);
    if (PyErr_Occurred()) return nullptr;
    Running r = {};
    r.run = type >= 0 && type < JOB_TYPES ? job_table()[number].run[type] : nullptr;
    Py_ssize_t arrays = PyTuple_GET_SIZE(args[3]);
    if (!r.run || each < 1 || arrays % each) return PyErr_Format(PyExc_TypeError, "job_list: kernel, type or arrays do not fit");
    r.job.rt = &runtime_table;
    if (!read_numbers(args[4], r.job) || !read_reals(args[5], r.job)) return nullptr;
    Listed l;
    for (Py_ssize_t at = 0; at < arrays; at += each) {
        if (!read_pointers(args[3], r.job, at, each)) return nullptr;
        PyObject* first = PyTuple_GET_ITEM(args[3], at);
        l.add(r, first == Py_None ? 0 : (long)PyArray_SIZE((PyArrayObject*)first), 1);
    }
    if (!arrays) Py_RETURN_NONE;
    Counted counted;
    Py_BEGIN_ALLOW_THREADS pool_parallel_for(run_listed, &l, l.first.back(), JOB_GRAIN);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

PyObject* py_jobs(PyObject*, PyObject*) {
    PyObject* found = PyDict_New();
    for (long i = 0; found && jobs_baseline[i].name; i++) {
        PyObject* number = PyLong_FromLong(i);
        if (!number || PyDict_SetItemString(found, jobs_baseline[i].name, number)) Py_CLEAR(found);
        Py_XDECREF(number);
    }
    return found;
}

PyObject* py_has_job(PyObject*, PyObject* const* args, Py_ssize_t count) {
    if (count != 2) return PyErr_Format(PyExc_TypeError, "has_job(number, type)");
    long number = PyLong_AsLong(args[0]), type = PyLong_AsLong(args[1]);
    if (PyErr_Occurred()) return nullptr;
    return PyBool_FromLong(type >= 0 && type < JOB_TYPES && job_table()[number].run[type] != nullptr);
}
