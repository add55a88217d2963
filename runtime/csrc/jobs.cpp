// The door from Python to the jobs: arrays in, pointers on; the pool runs the units.
#include "python.h"

#include <string.h>

#include "job.h"
#include "pool.h"

const JobKernel* job_table() {
#if defined(__x86_64__)
    if (kernels == &kernels_avx512) return jobs_avx512;
    if (kernels == &kernels_avx2) return jobs_avx2;
#endif
    return jobs_baseline;
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

bool read_pointers(PyObject* arrays, Job& job) {
    Py_ssize_t count = PyTuple_GET_SIZE(arrays);
    if (count > JOB_POINTERS) return PyErr_Format(PyExc_ValueError, "job: at most %d arrays", JOB_POINTERS), false;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject* a = PyTuple_GET_ITEM(arrays, i);
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

void run_job(const FbJobCall* call) {
    Running r = {};
    r.run = job_table()[call->number].run[call->type];
    r.job.rt = &runtime_table;
    memcpy(r.job.p, call->p, call->pointers * sizeof(void*));
    memcpy(r.job.n, call->n, call->numbers * sizeof(long));
    memcpy(r.job.f, call->f, call->reals * sizeof(double));
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
        Py_BEGIN_ALLOW_THREADS pool_parallel_for(run_units, &r, units, grain);
        Py_END_ALLOW_THREADS
    }
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
