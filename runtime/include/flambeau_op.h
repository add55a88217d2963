// The public header for kernels and devices written in C++: plain structs, no library behind them.
//
// A kernel reads `in`, fills `out` (the caller has made it, with sizes and strides) and returns null, or an error's
// text. It runs without Python's lock; `parallel` spreads work over the threads of flambeau's pool.
//
//     #include "flambeau_op.h"
//     FLAMBEAU_KERNEL(scale) {
//         if (in[0].type != FLAMBEAU_FLOAT32) return "scale: float32 is wanted";
//         const float* x = (const float*)in[0].data;
//         float* y = (float*)out[0].data;
//         flambeau::parallel(runtime, flambeau::elements(in[0]), 4096, [=](long begin, long end) {
//             for (long i = begin; i < end; i++) y[i] = x[i] * (float)numbers[0];
//         });
//         return nullptr;
//     }
#ifndef FLAMBEAU_OP_H
#define FLAMBEAU_OP_H

#define FLAMBEAU_ABI 1

enum flambeau_type {
    FLAMBEAU_BOOL, FLAMBEAU_UINT8, FLAMBEAU_INT8, FLAMBEAU_INT16, FLAMBEAU_INT32, FLAMBEAU_INT64,
    FLAMBEAU_FLOAT16, FLAMBEAU_BFLOAT16, FLAMBEAU_FLOAT32, FLAMBEAU_FLOAT64, FLAMBEAU_COMPLEX64, FLAMBEAU_COMPLEX128
};

// Strides are in elements. Of a device's tensor, `data` is what the device's `alloc` gave, `offset` the elements before
// the first one; of a kernel's operand, `data` is the first element and `offset` 0.
struct flambeau_tensor {
    void* data;
    long offset;
    int type, dims;
    const long* sizes;
    const long* strides;
};

struct flambeau_runtime {
    void (*parallel_for)(void (*range)(void* arg, long begin, long end, int thread), void* arg, long n, long grain);
    int (*num_threads)();
};

typedef const char* (*flambeau_kernel)(
    const flambeau_tensor* out, int outs, const flambeau_tensor* in, int ins, const double* numbers, int count,
    const flambeau_runtime* runtime);

#define FLAMBEAU_EXPORT extern "C" __attribute__((visibility("default")))
#define FLAMBEAU_KERNEL(name)                                                                                        \
    FLAMBEAU_EXPORT const char* name(                                                                                \
        const flambeau_tensor* out, int outs, const flambeau_tensor* in, int ins, const double* numbers, int count,  \
        const flambeau_runtime* runtime)

// A device: memory of its own and the ops that it runs. Memory may be anywhere; only `upload` and `download` are asked
// to move bytes. `run` fills `out` and returns null, FLAMBEAU_NO_KERNEL where it does not do this op for these operands (it
// then runs on the host, counted), or an error's text.
#define FLAMBEAU_NO_KERNEL ((const char*)1)

struct flambeau_device {
    int abi; // FLAMBEAU_ABI
    const char* name; // "toy": tensors are moved with .to("toy")
    int (*count)();
    void* (*alloc)(int index, long bytes); // null: out of memory
    void (*release)(int index, void* block);
    void (*upload)(int index, void* block, long offset, const void* host, long bytes);
    void (*download)(int index, const void* block, long offset, void* host, long bytes);
    const char* (*run)(
        int index, const char* op, const flambeau_tensor* out, int outs, const flambeau_tensor* in, int ins,
        const double* numbers, int count);
};

// A device's library exports one function that gives its table: FLAMBEAU_DEVICE { return &table; }
#define FLAMBEAU_DEVICE FLAMBEAU_EXPORT const flambeau_device* flambeau_device_table()

namespace flambeau {

inline long elements(const flambeau_tensor& t) {
    long n = 1;
    for (int d = 0; d < t.dims; d++) n *= t.sizes[d];
    return n;
}

// Whether elements lie in order without gaps.
inline bool dense(const flambeau_tensor& t) {
    long step = 1;
    if (!elements(t)) return true;
    for (int d = t.dims - 1; d >= 0; d--) {
        if (t.sizes[d] != 1 && t.strides[d] != step) return false;
        step *= t.sizes[d];
    }
    return true;
}

// body(begin, end) over [0, n), in ranges of at least `grain`.
template <class Body>
void parallel(const flambeau_runtime* runtime, long n, long grain, const Body& body) {
    runtime->parallel_for([](void* arg, long begin, long end, int) { (*(const Body*)arg)(begin, end); }, (void*)&body, n, grain);
}

} // namespace flambeau

#endif
