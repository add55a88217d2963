// A device in one file: memory that the host never touches (every byte is stored inverted), and kernels for a few ops.
// What a driver would do lies behind `alloc`, `upload`, `download` and `run`; all else is flambeau's.
#include "flambeau_op.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

namespace {

const unsigned char key = 0x5a; // host code that reads this memory by mistake sees nonsense

void* alloc(int, long bytes) { return malloc(bytes); }
void release(int, void* block) { free(block); }
int count() { return 2; }

void upload(int, void* block, long offset, const void* host, long bytes) {
    unsigned char* to = (unsigned char*)block + offset;
    for (long i = 0; i < bytes; i++) to[i] = ((const unsigned char*)host)[i] ^ key;
}

void download(int, const void* block, long offset, void* host, long bytes) {
    const unsigned char* from = (const unsigned char*)block + offset;
    for (long i = 0; i < bytes; i++) ((unsigned char*)host)[i] = from[i] ^ key;
}

// "Registers": one float of device memory.
float load(const flambeau_tensor& t, long at) {
    float value;
    download(0, t.data, (t.offset + at) * 4, &value, 4);
    return value;
}

void store(const flambeau_tensor& t, long at, float value) { upload(0, t.data, (t.offset + at) * 4, &value, 4); }

// Where element `i` of `out`, counted row by row, lies in an operand that is broadcast to it.
long place(const flambeau_tensor& t, const flambeau_tensor& out, long i) {
    long at = 0;
    for (int d = out.dims - 1, own = t.dims - 1; d >= 0; d--, own--) {
        if (own >= 0 && t.sizes[own] != 1) at += i % out.sizes[d] * t.strides[own];
        i /= out.sizes[d];
    }
    return at;
}

float add(float a, float b) { return a + b; }
float sub(float a, float b) { return a - b; }
float mul(float a, float b) { return a * b; }
float second(float, float b) { return b; }
float relu(float a, float) { return a > 0 ? a : 0 * a; }
float hyperbolic(float a, float) { return tanhf(a); }

const struct { const char* name; int ins; float (*apply)(float, float); } maps[] = {
    {"add", 2, add}, {"sub", 2, sub}, {"mul", 2, mul}, {"copy", 2, second}, {"relu", 1, relu}, {"tanh", 1, hyperbolic}};

const char* matmul(const flambeau_tensor& out, const flambeau_tensor& a, const flambeau_tensor& b) {
    if (a.dims != 2 || b.dims != 2) return FLAMBEAU_NO_KERNEL;
    for (long m = 0; m < out.sizes[0]; m++)
        for (long n = 0; n < out.sizes[1]; n++) {
            double sum = 0;
            for (long k = 0; k < a.sizes[1]; k++)
                sum += load(a, m * a.strides[0] + k * a.strides[1]) * load(b, k * b.strides[0] + n * b.strides[1]);
            store(out, m * out.strides[0] + n * out.strides[1], sum);
        }
    return nullptr;
}

const char* run(int, const char* op, const flambeau_tensor* out, int outs, const flambeau_tensor* in, int ins,
                const double*, int numbers) {
    if (outs != 1 || numbers || out->type != FLAMBEAU_FLOAT32) return FLAMBEAU_NO_KERNEL;
    for (int k = 0; k < ins; k++)
        if (in[k].type != FLAMBEAU_FLOAT32) return FLAMBEAU_NO_KERNEL;
    if (!strcmp(op, "matmul")) return matmul(*out, in[0], in[1]);
    for (auto& map : maps)
        if (!strcmp(op, map.name) && ins == map.ins) {
            for (long i = 0; i < flambeau::elements(*out); i++)
                store(*out, place(*out, *out, i),
                      map.apply(load(in[0], place(in[0], *out, i)), ins > 1 ? load(in[1], place(in[1], *out, i)) : 0));
            return nullptr;
        }
    return FLAMBEAU_NO_KERNEL;
}

const flambeau_device table = {FLAMBEAU_ABI, "toy", count, alloc, release, upload, download, run};

} // namespace

FLAMBEAU_DEVICE { return &table; }
