// What generated code and the runtime know of each other: plain structs, no header, also embedded in generated text.
#ifndef FB_ABI_H
#define FB_ABI_H

typedef void (*FbRange)(void* arg, long begin, long end, int thread);
// Called on each finished tile of a product: `tile` holds rows [m, m + rows) and columns [n, n + columns) of batch
// `batch`.
typedef void (*FbEpilogue)(
    void* arg, const void* tile, long stride, long batch, long m, long n, long rows, long columns);

enum FbType { FB_FLOAT, FB_DOUBLE, FB_BF16, FB_F16 };
enum { FB_BATCH_DIMS = 4 };

// out[b.., m, n] = sum over k of a[b.., m, k] * b[b.., k, n]; strides in elements. Computed in double when a is
// double, else in float. With an epilogue nothing is written to `out`.
struct FbGemm {
    const void *a, *b;
    void* out;
    int a_type, b_type, out_type;
    int batch_dims;
    long batch[FB_BATCH_DIMS], a_batch[FB_BATCH_DIMS], b_batch[FB_BATCH_DIMS], out_batch[FB_BATCH_DIMS];
    long M, N, K;
    long a_m, a_k, b_k, b_n, out_m, out_n;
    FbEpilogue epilogue;
    void* epilogue_arg;
};

struct FbRuntime {
    void (*parallel_for)(FbRange fn, void* arg, long n, long grain); // runs fn over [0, n) in ranges of at least grain
    int (*num_threads)();
    void* (*alloc)(long bytes); // 64-byte aligned scratch
    void (*release)(void* block);
    void (*gemm)(const FbGemm* problem);
    unsigned long (*clock)(); // nanoseconds
    // runs op `number` of the graph eagerly over these buffers; `numbers`: sizes and strides of each, then symbolic
    // arguments
    int (*extern_call)(void* context, long number, void** buffers, const long* numbers);
    void* context; // of this call
    unsigned long* kernel_ns; // one counter a kernel, or null
};

typedef int (*FbRun)(void** buffers, const long* symbols, const double* floats, char* arena, const FbRuntime* rt);
typedef void (*FbPlan)(const long* symbols, long* plan);

#endif
