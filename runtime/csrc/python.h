// CPython and numpy headers with one numpy import for the whole extension, and what its files share.
#ifndef FB_PYTHON_H
#define FB_PYTHON_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>
#define NPY_NO_DEPRECATED_API NPY_1_22_API_VERSION
#define PY_ARRAY_UNIQUE_SYMBOL flambeau_native_array
#ifndef FB_IMPORTS_NUMPY
#define NO_IMPORT_ARRAY
#endif
#include <numpy/arrayobject.h>

#include "kernels.h"

extern const Kernels* kernels;              // of the chosen instruction set
extern const FbRuntime runtime_table;
extern int bfloat16_number;                 // numpy's type number of ml_dtypes' bfloat16, -1 before it is told

inline int kernel_type(PyArrayObject* x) { // FbType of an array; -1: kernels do not take it
    int number = PyArray_ISBYTESWAPPED(x) ? -1 : PyArray_TYPE(x);
    return number == NPY_FLOAT ? FB_FLOAT : number == NPY_DOUBLE ? FB_DOUBLE : number == NPY_HALF ? FB_F16
        : number >= 0 && number == bfloat16_number ? FB_BF16 : -1;
}

// A new array over a cached block; steals the reference to `descr`. Strides in bytes, null: row-major.
PyObject* new_array(PyArray_Descr* descr, int dims, const npy_intp* sizes, const npy_intp* strides, npy_intp bytes,
    PyArrayObject* donor = nullptr);    // takes over the donor's block where that is large enough
bool add_array_type(PyObject* module);      // arrays.cpp
bool add_launcher(PyObject* module);        // launcher.cpp
PyObject* py_matmul(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* py_bind_tensor(PyObject*, PyObject* args);
void set_output_view(PyObject* view);       // api.h
PyObject* py_job(PyObject*, PyObject* const* args, Py_ssize_t n);   // jobs.cpp
PyObject* py_job_list(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* py_jobs(PyObject*, PyObject*);
PyObject* py_has_job(PyObject*, PyObject* const* args, Py_ssize_t n);
const struct JobKernel* job_table();                                // of the chosen instruction set
long column_block();                                                // columns in one unit of its columns kernels
PyObject* py_convolution(PyObject*, PyObject* args);                // conv.cpp
PyObject* py_convolution_weight(PyObject*, PyObject* args);
void run_conv(const FbConv* problem);               // without Python: what generated code calls
void run_job(const FbJobCall* call);
void run_jobs(const FbJobCall* calls, long count);
PyObject* native_seconds(PyObject*, PyObject*);   // launcher.cpp
void count_native(long ns);                       // to what `native_seconds` tells; from any thread
struct Counted { // the time of a scope: doors through which eager code calls the runtime's kernels
    unsigned long start = runtime_table.clock();
    ~Counted() { count_native((long)(runtime_table.clock() - start)); }
};
PyObject* watch_launches(PyObject*, PyObject* asked);

#endif
