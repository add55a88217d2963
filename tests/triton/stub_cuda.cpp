// A driver that records: what was loaded, each launch with the eight bytes of every parameter, graphs and what was replayed.
#include <cstring>
typedef unsigned long long u64;
extern "C" {
struct Config { unsigned grid[3], block[3], shared; u64 stream; const char* attributes; unsigned count; };
struct Seen { u64 function; unsigned grid[3], block, shared, count, cluster; u64 stream, parameters[24]; } seen[64];
int seen_count, counted_parameters, fail_at = -1, fail_code, shared_limit, loaded, silent, capability = 90, current_device;
int recorded, replayed, forgotten, streams, fail_recording;
u64 replayed_stream;
static u64 capturing;
float now = 1, fast = 1, slow = 2;      // a clock that launches move: `fast` milliseconds where the grid is the fast one
int fast_grid = -1, refused_grid = -1, named = 0;
static float at[64];
static u64 events;
int cuDeviceGetName(char* out, int, int) { strcpy(out, named ? "Other" : "Recorder"); return 0; }
int cuEventCreate(u64* e, unsigned) { *e = 0x100 + events++ % 64; return 0; }
int cuEventRecord(u64 e, u64) { at[e - 0x100] = now; return 0; }
int cuEventSynchronize(u64) { return 0; }
int cuEventElapsedTime(float* out, u64 a, u64 b) { *out = at[b - 0x100] - at[a - 0x100]; return 0; }
int cuEventDestroy_v2(u64) { return 0; }
int cuInit(unsigned) { return 0; }
int cuDeviceGet(int* d, int k) { *d = k; return k > 3 ? 101 : 0; }
int cuDeviceGetAttribute(int* out, int what, int) {
    *out = what == 75 ? capability / 10 : what == 76 ? capability % 10 : what == 97 ? 232448 : -1;
    return 0;
}
int cuDevicePrimaryCtxRetain(void** c, int d) { *c = (void*)(u64)(0x1234 + d); return 0; }
int cuCtxSetCurrent(void* c) { current_device = (int)((u64)c - 0x1234); return current_device < 0 || current_device > 3 ? 201 : 0; }
int cuModuleLoadData(void** m, const void* image) { *m = (void*)image; return memcmp(image, "\x7f" "ELF", 4) ? 209 : 0; }
int cuModuleGetFunction(void** f, void*, const char* name) { *f = (void*)(u64)(0x1000 + loaded++); return name[0] ? 0 : 500; }
int cuFuncSetAttribute(void*, int attribute, int bytes) { shared_limit = attribute == 8 ? bytes : -1; return bytes > 232448; }
int cuGetErrorString(int code, const char** text) { *text = code == 2 ? "out of memory" : "an illegal memory access"; return 0; }
int cuStreamCreate(u64* s, unsigned flags) { *s = 0x77 + streams++; return flags != 1; }
int cuStreamSynchronize(u64) { return 0; }
int cuStreamBeginCapture_v2(u64 s, int mode) { capturing = s; return mode != 1 || s == 0 ? 900 : 0; }
int cuStreamEndCapture(u64 s, u64* graph) { *graph = 0x55; capturing = 0; return fail_recording; }
int cuGraphInstantiateWithFlags(u64* exec, u64 graph, u64) { *exec = 0x9000 + recorded++; return graph != 0x55; }
int cuGraphLaunch(u64 exec, u64 stream) { replayed++; replayed_stream = stream; return exec < 0x9000; }
int cuGraphDestroy(u64) { return 0; }
int cuGraphExecDestroy(u64) { forgotten++; return 0; }
int cuLaunchKernelEx(const Config* c, void* function, void** parameters, void**) {
    now += (int)c->grid[0] == fast_grid ? fast : slow;
    if ((int)c->grid[0] == refused_grid) return 701;
    if (silent) return 0;
    if (seen_count == fail_at) return fail_code;
    Seen& s = seen[seen_count++ % 64];
    s.function = (u64)function;
    memcpy(s.grid, c->grid, sizeof s.grid);
    s.block = c->block[0], s.shared = c->shared, s.count = c->count, s.stream = c->stream;
    s.cluster = c->count ? *(const unsigned*)(c->attributes + 8) : 1;
    for (int k = 0; k < counted_parameters; k++) memcpy(&s.parameters[k], parameters[k], 8);
    return 0;
}
}
