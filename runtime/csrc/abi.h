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
// double, else in float. With an epilogue nothing is written to `out`. A bias of out's type (null: none) is added before
// the one rounding.
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
    const void* bias;
    long bias_m, bias_n;
};

enum FbConvForm { FB_CONV_PLAIN, FB_CONV_TRANSPOSED, FB_CONV_WEIGHT };

// A convolution over up to three dims (those that are not there are leading ones of size 1); strides in elements.
// Plain and transposed: out = weight * windows of x, plus bias (null: none), with a row-major weight. Weight: `w` is the
// result, row-major, and `out` is read. With an epilogue (plain ones) nothing is written to `out`: tiles have
// channels for rows and windows of one image, flat, for columns; the image is the batch.
struct FbConv {
    const void *x, *bias;
    void *w, *out;
    int type, form;
    long batch, groups, channels, made; // channels of x and of out, of all groups
    long in[3], x_n, x_c, x_s[3];
    long windows[3], out_n, out_c, out_s[3];
    long kernel[3], step[3], before[3], spread[3];
    FbEpilogue epilogue;
    void* epilogue_arg;
};

// One of the runtime's threaded kernels (job.h) by its number in the table: units [0, units), each worth `work` elements.
struct FbJobCall {
    long number, units, work;
    int type, pointers, numbers, reals;
    void* const* p;
    const long* n;
    const double* f;
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
    void (*conv)(const FbConv* problem);
    void (*job)(const FbJobCall* call);
    void (*jobs)(const FbJobCall* calls, long count); // that do not touch each other's results, in one parallel run
};

typedef int (*FbRun)(void** buffers, const long* symbols, const double* floats, char* arena, const FbRuntime* rt);
typedef void (*FbPlan)(const long* symbols, long* plan);

#endif
