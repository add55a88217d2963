// numpy arrays over blocks of the caching allocator, and the matrix product of arrays of any strides.
#include "python.h"

#include <new>

#include "alloc.h"
#include "pool.h"

namespace {

struct BlockObject {
    PyObject_HEAD void* data;
};

void block_dealloc(PyObject* self) {
    cached_release(((BlockObject*)self)->data);
    Py_TYPE(self)->tp_free(self);
}

PyTypeObject BlockType = {PyVarObject_HEAD_INIT(nullptr, 0)};

constexpr npy_intp SMALL = 1024; // below, numpy's own small-block cache is as good and needs no owner object
constexpr double DROP_GIL_FROM = 2e5; // floating-point operations

BlockObject* new_block(npy_intp bytes) {
    BlockObject* block = PyObject_New(BlockObject, &BlockType);
    if (!block) return nullptr;
    block->data = cached_alloc(bytes);
    if (!block->data) Py_CLEAR(block);
    return block;
}

// a new reference to the block that is all of `donor`'s memory, if it has one and it is large enough
BlockObject* block_of(PyArrayObject* donor, npy_intp bytes) {
    PyObject* base = PyArray_BASE(donor);
    if (!base || Py_TYPE(base) != &BlockType) return nullptr;
    BlockObject* block = (BlockObject*)base;
    if (block->data != PyArray_DATA(donor) || cached_size(block->data) < bytes) return nullptr;
    return (BlockObject*)Py_NewRef(base);
}

struct Dim {
    long size, a, b, out;
};

// One array's stride for batch dimension `d` of `dims`, in elements; 0 where it is broadcast. False: sizes do not fit.
bool batch_stride(PyArrayObject* x, int dims, int d, npy_intp size, long& stride) {
    int own = d - (dims - PyArray_NDIM(x));
    stride = 0;
    if (own < 0) return true;
    if (PyArray_DIM(x, own) == size) stride = size == 1 ? 0 : PyArray_STRIDE(x, own) / PyArray_ITEMSIZE(x);
    return PyArray_DIM(x, own) == size || PyArray_DIM(x, own) == 1;
}

bool whole_strides(PyArrayObject* x) {
    for (int d = 0; d < PyArray_NDIM(x); d++)
        if (PyArray_STRIDE(x, d) % PyArray_ITEMSIZE(x)) return false;
    return PyArray_ISALIGNED(x);
}

// neighbours that one stride can walk become one dimension; returns how many are left
int merged(Dim* dims, int count) {
    int left = 0;
    for (int d = 0; d < count; d++) {
        if (dims[d].size == 1) continue;
        Dim* last = left ? &dims[left - 1] : nullptr;
        if (last && last->a == dims[d].a * dims[d].size && last->b == dims[d].b * dims[d].size
            && last->out == dims[d].out * dims[d].size)
            *last = {last->size * dims[d].size, dims[d].a, dims[d].b, dims[d].out};
        else dims[left++] = dims[d];
    }
    return left;
}

void run_batches(FbGemm g, const Dim* dims, int count) {
    if (count > FB_BATCH_DIMS) {
        int a = g.a_type == FB_DOUBLE ? 8
            : g.a_type == FB_FLOAT    ? 4
                                      : 2,
            out = g.out_type == FB_DOUBLE ? 8
            : g.out_type == FB_FLOAT      ? 4
                                          : 2;
        for (long i = 0; i < dims[0].size; i++) {
            FbGemm part = g;
            part.a = (const char*)g.a + i * dims[0].a * a;
            part.b = (const char*)g.b + i * dims[0].b * a;
            part.out = (char*)g.out + i * dims[0].out * out;
            run_batches(part, dims + 1, count - 1);
        }
        return;
    }
    g.batch_dims = count;
    for (int d = 0; d < count; d++)
        g.batch[d] = dims[d].size, g.a_batch[d] = dims[d].a, g.b_batch[d] = dims[d].b, g.out_batch[d] = dims[d].out;
    runtime_table.gemm(&g);
}

}

PyObject* new_array(PyArray_Descr* descr, int dims, const npy_intp* sizes, const npy_intp* strides, npy_intp bytes,
    PyArrayObject* donor) {
    BlockObject* block = donor ? block_of(donor, bytes) : nullptr;
    if (!block && bytes < SMALL && !strides)
        return PyArray_NewFromDescr(&PyArray_Type, descr, dims, (npy_intp*)sizes, nullptr, nullptr, 0, nullptr);
    if (!block) block = new_block(bytes);
    if (!block) {
        Py_DECREF(descr);
        return PyErr_Occurred() ? nullptr : PyErr_NoMemory();
    }
    PyObject* array = PyArray_NewFromDescr(
        &PyArray_Type, descr, dims, (npy_intp*)sizes, (npy_intp*)strides, block->data, NPY_ARRAY_WRITEABLE, nullptr);
    if (!array) {
        Py_DECREF(block);
        return nullptr;
    }
    PyArray_UpdateFlags((PyArrayObject*)array, NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_F_CONTIGUOUS | NPY_ARRAY_ALIGNED);
    PyArray_SetBaseObject((PyArrayObject*)array, (PyObject*)block);
    return array;
}

bool add_array_type(PyObject* module) {
    BlockType.tp_name = "flambeau.runtime._native.Block";
    BlockType.tp_basicsize = sizeof(BlockObject);
    BlockType.tp_dealloc = block_dealloc;
    BlockType.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION;
    BlockType.tp_doc = "Owner of one block of the caching allocator; the base of arrays made by this module.";
    return PyType_Ready(&BlockType) == 0;
}

PyObject* py_matmul(PyObject*, PyObject* const* args, Py_ssize_t n) {
    if (n != 3 || !PyArray_Check(args[0]) || !PyArray_Check(args[1]) || !PyArray_Check(args[2]))
        return PyErr_Format(PyExc_TypeError, "matmul(a, b, out) takes three numpy arrays");
    PyArrayObject *a = (PyArrayObject*)args[0], *b = (PyArrayObject*)args[1], *out = (PyArrayObject*)args[2];
    int dims = PyArray_NDIM(out);
    if (PyArray_NDIM(a) < 2 || PyArray_NDIM(b) < 2 || dims < 2 || PyArray_NDIM(a) > dims || PyArray_NDIM(b) > dims)
        return PyErr_Format(PyExc_ValueError, "matmul: operands of %d and %d dimensions into %d; each needs 2 or more",
            PyArray_NDIM(a), PyArray_NDIM(b), dims);
    FbGemm g = {};
    g.a_type = kernel_type(a), g.b_type = kernel_type(b), g.out_type = kernel_type(out);
    if (g.a_type < 0 || g.a_type != g.b_type || g.out_type < 0)
        return PyErr_Format(PyExc_TypeError, "matmul: no native kernel for %R @ %R into %R", PyArray_DESCR(a),
            PyArray_DESCR(b), PyArray_DESCR(out));
    if (!whole_strides(a) || !whole_strides(b) || !whole_strides(out))
        return PyErr_Format(PyExc_ValueError, "matmul: an operand is misaligned; copy it first");
    if (!PyArray_ISWRITEABLE(out)) return PyErr_Format(PyExc_ValueError, "matmul: the output array is read-only");
    int ad = PyArray_NDIM(a), bd = PyArray_NDIM(b);
    g.M = PyArray_DIM(a, ad - 2), g.K = PyArray_DIM(a, ad - 1), g.N = PyArray_DIM(b, bd - 1);
    if (PyArray_DIM(b, bd - 2) != g.K || PyArray_DIM(out, dims - 2) != g.M || PyArray_DIM(out, dims - 1) != g.N)
        return PyErr_Format(PyExc_ValueError, "matmul: sizes %zdx%zd @ %zdx%zd do not give %zdx%zd", g.M, g.K,
            PyArray_DIM(b, bd - 2), g.N, PyArray_DIM(out, dims - 2), PyArray_DIM(out, dims - 1));
    auto stride = [](PyArrayObject* x, int d) { return (long)(PyArray_STRIDE(x, d) / PyArray_ITEMSIZE(x)); };
    g.a = PyArray_DATA(a), g.b = PyArray_DATA(b), g.out = PyArray_DATA(out);
    g.a_m = stride(a, ad - 2), g.a_k = stride(a, ad - 1), g.b_k = stride(b, bd - 2), g.b_n = stride(b, bd - 1);
    g.out_m = stride(out, dims - 2), g.out_n = stride(out, dims - 1);
    Dim batch[NPY_MAXDIMS];
    double work = 2.0 * g.M * g.N * g.K;
    for (int d = 0; d < dims - 2; d++) {
        batch[d].size = PyArray_DIM(out, d);
        batch[d].out = stride(out, d);
        work *= batch[d].size;
        if (!batch_stride(a, dims, d, batch[d].size, batch[d].a)
            || !batch_stride(b, dims, d, batch[d].size, batch[d].b))
            return PyErr_Format(
                PyExc_ValueError, "matmul: batch dimension %d of size %ld does not fit the operands", d, batch[d].size);
    }
    int count = merged(batch, dims - 2);
    if (work < DROP_GIL_FROM) {
        run_batches(g, batch, count);
    } else {
        Counted counted;
        Py_BEGIN_ALLOW_THREADS run_batches(g, batch, count);
        Py_END_ALLOW_THREADS
    }
    Py_RETURN_NONE;
}
