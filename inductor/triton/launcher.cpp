// Launches all kernels of a graph in one call, over NVIDIA's driver, which is opened when it is first asked for.
//
// In: kernels (functions of loaded modules), launches in order, a table of addresses. A launch's parameters are pointers into
// that table and to numbers beside it, made once; a call writes the addresses and walks the launches.
typedef unsigned long long u64;
extern "C" {
void* dlopen(const char*, int);
void* dlsym(void*, const char*);

struct Config { // CUlaunchConfig
    unsigned grid[3], block[3], shared;
    void* stream;
    void* attributes;
    unsigned count;
};
struct Attribute { // CUlaunchAttribute
    int id, pad;
    union {
        unsigned dim[3];
        int policy;
        char room[64];
    };
};
struct Launch {
    void* function;
    unsigned grid[3], block, shared, cluster;
    void** parameters;
};

static int (*init)(unsigned);
static int (*device_get)(int*, int);
static int (*retain)(void**, int);
static int (*set_current)(void*);
static int (*module_load)(void**, const void*);
static int (*module_function)(void**, void*, const char*);
static int (*function_set)(void*, int, int);
static int (*launch_kernel)(const Config*, void*, void**, void**);
static int (*error_string)(int, const char**);
static void* context;

static const int MISSING = -1, INCOMPLETE = -2; // no library; one that lacks a function
static const int SHARED_LIMIT = 8;              // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
static const unsigned PLAIN_SHARED = 49152;     // bytes that a kernel may have without asking
static const int CLUSTER = 4, SPREAD = 5;       // CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, ..._SCHEDULING_POLICY_PREFERENCE

#define EXPORT __attribute__((visibility("default")))

EXPORT int fb_cuda_open(const char* path, int device) {
    void* library = dlopen(path, 2);
    if (!library) return MISSING;
    struct {
        void** place;
        const char* name;
    } wanted[] = {{(void**)&init, "cuInit"}, {(void**)&device_get, "cuDeviceGet"},
        {(void**)&retain, "cuDevicePrimaryCtxRetain"}, {(void**)&set_current, "cuCtxSetCurrent"},
        {(void**)&module_load, "cuModuleLoadData"}, {(void**)&module_function, "cuModuleGetFunction"},
        {(void**)&function_set, "cuFuncSetAttribute"}, {(void**)&launch_kernel, "cuLaunchKernelEx"},
        {(void**)&error_string, "cuGetErrorString"}};
    for (auto& w : wanted)
        if (!(*w.place = dlsym(library, w.name))) return INCOMPLETE;
    int chip = 0, error = init(0);
    if (!error) error = device_get(&chip, device);
    if (!error) error = retain(&context, chip); // the context that others in this process use, too
    return error ? error : set_current(context);
}

EXPORT const char* fb_cuda_error(int code) {
    const char* text = 0;
    return error_string && !error_string(code, &text) && text ? text : "unknown error";
}

EXPORT int fb_cuda_load(const void* cubin, const char* name, unsigned shared, void** function) {
    void* module = 0;
    int error = set_current(context);
    if (!error) error = module_load(&module, cubin);
    if (!error) error = module_function(function, module, name);
    if (!error && shared > PLAIN_SHARED) error = function_set(*function, SHARED_LIMIT, (int)shared);
    return error;
}

// The number of launches that were made, in `done`; the driver's error of the next one, or 0.
EXPORT int fb_cuda_run(const Launch* launches, int count, void* stream, int* done) {
    Attribute attributes[2] = {};
    attributes[0].id = CLUSTER;
    attributes[1].id = SPREAD;
    attributes[1].policy = 1;
    for (int k = 0; k < count; k++) {
        const Launch& l = launches[k];
        attributes[0].dim[0] = l.cluster;
        attributes[0].dim[1] = attributes[0].dim[2] = 1;
        Config config = {{l.grid[0] * l.cluster, l.grid[1], l.grid[2]}, {l.block, 1, 1}, l.shared, stream, attributes,
            l.cluster > 1 ? 2u : 0u};
        if (int error = launch_kernel(&config, l.function, l.parameters, 0)) {
            *done = k;
            return error;
        }
    }
    *done = count;
    return 0;
}
}
