// Launches all kernels of a graph in one call, over NVIDIA's driver, which is opened when it is first asked for.
//
// In: kernels (functions of loaded modules), launches in order, a table of addresses. A launch's parameters are pointers into
// that table and to numbers beside it, made once; a call writes the addresses and walks the launches. What was launched can be
// recorded as a CUDA graph, which launches all of it again at once, with the addresses and numbers that it was recorded with.
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
static int (*attribute_of)(int*, int, int);
static int (*stream_create)(void**, unsigned);
static int (*begin_capture)(void*, int);
static int (*end_capture)(void*, void**);
static int (*instantiate)(void**, void*, u64);
static int (*graph_launch)(void*, void*);
static int (*graph_destroy)(void*);
static int (*exec_destroy)(void*);
static int (*synchronize)(void*);
static int (*device_name)(char*, int, int);
static int (*event_create)(void**, unsigned);
static int (*event_record)(void*, void*);
static int (*event_wait)(void*);
static int (*event_time)(float*, void*, void*);
static int (*event_destroy)(void*);
static const int DEVICES = 64;
static void* contexts[DEVICES]; // each device's primary one, which others in this process use, too

static const int MISSING = -1, INCOMPLETE = -2; // no library; one that lacks a function
static const int SHARED_LIMIT = 8;              // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
static const unsigned PLAIN_SHARED = 49152;     // bytes that a kernel may have without asking
static const int MAJOR = 75, MINOR = 76, MOST_SHARED = 97;   // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_..., ..._BLOCK_OPTIN
static const unsigned APART = 1;                // CU_STREAM_NON_BLOCKING
static const int THIS_THREAD = 1;               // CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
static const int CLUSTER = 4, SPREAD = 5;       // CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, ..._SCHEDULING_POLICY_PREFERENCE

#define EXPORT __attribute__((visibility("default")))

// facts: compute capability (major, minor), and the shared memory that a block may ask for.
EXPORT int fb_cuda_open(const char* path, int device, int* facts) {
    void* library = dlopen(path, 2);
    if (!library) return MISSING;
    struct {
        void** place;
        const char* name;
    } wanted[] = {{(void**)&init, "cuInit"}, {(void**)&device_get, "cuDeviceGet"},
        {(void**)&retain, "cuDevicePrimaryCtxRetain"}, {(void**)&set_current, "cuCtxSetCurrent"},
        {(void**)&module_load, "cuModuleLoadData"}, {(void**)&module_function, "cuModuleGetFunction"},
        {(void**)&function_set, "cuFuncSetAttribute"}, {(void**)&launch_kernel, "cuLaunchKernelEx"},
        {(void**)&error_string, "cuGetErrorString"}, {(void**)&attribute_of, "cuDeviceGetAttribute"},
        {(void**)&stream_create, "cuStreamCreate"}, {(void**)&begin_capture, "cuStreamBeginCapture_v2"},
        {(void**)&end_capture, "cuStreamEndCapture"}, {(void**)&instantiate, "cuGraphInstantiateWithFlags"},
        {(void**)&graph_launch, "cuGraphLaunch"}, {(void**)&graph_destroy, "cuGraphDestroy"},
        {(void**)&exec_destroy, "cuGraphExecDestroy"}, {(void**)&synchronize, "cuStreamSynchronize"},
        {(void**)&device_name, "cuDeviceGetName"}, {(void**)&event_create, "cuEventCreate"},
        {(void**)&event_record, "cuEventRecord"}, {(void**)&event_wait, "cuEventSynchronize"},
        {(void**)&event_time, "cuEventElapsedTime"}, {(void**)&event_destroy, "cuEventDestroy_v2"}};
    for (auto& w : wanted)
        if (!(*w.place = dlsym(library, w.name))) return INCOMPLETE;
    if (device < 0 || device >= DEVICES) return 101; // CUDA_ERROR_INVALID_DEVICE
    int chip = 0, error = init(0);
    if (!error) error = device_get(&chip, device);
    if (!error) error = attribute_of(&facts[0], MAJOR, chip);
    if (!error) error = attribute_of(&facts[1], MINOR, chip);
    if (!error) error = attribute_of(&facts[2], MOST_SHARED, chip);
    if (!error) error = retain(&contexts[device], chip);
    return error ? error : set_current(contexts[device]);
}

EXPORT const char* fb_cuda_error(int code) {
    const char* text = 0;
    return error_string && !error_string(code, &text) && text ? text : "unknown error";
}

EXPORT int fb_cuda_load(int device, const void* cubin, const char* name, unsigned shared, void** function) {
    void* module = 0;
    int error = set_current(contexts[device]);
    if (!error) error = module_load(&module, cubin);
    if (!error) error = module_function(function, module, name);
    if (!error && shared > PLAIN_SHARED) error = function_set(*function, SHARED_LIMIT, (int)shared);
    return error;
}

static int walk(const Launch* launches, int count, void* stream, int* done) {
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

// The number of launches that were made, in `done`; the driver's error of the next one, or 0.
EXPORT int fb_cuda_run(int device, const Launch* launches, int count, void* stream, int* done) {
    int error = set_current(contexts[device]);
    return error ? error : walk(launches, count, stream, done);
}

// The launches as one graph, in `made`. They are not run, but recorded from a stream of the launcher's own.
EXPORT int fb_cuda_record(int device, const Launch* launches, int count, void** made, int* done) {
    static void* own[DEVICES];
    void* graph = 0;
    *done = 0;
    int error = set_current(contexts[device]);
    if (!error && !own[device]) error = stream_create(&own[device], APART);
    if (!error) error = begin_capture(own[device], THIS_THREAD);
    if (error) return error;
    error = walk(launches, count, own[device], done);
    int ended = end_capture(own[device], &graph);
    if (!error) error = ended;
    if (!error) error = instantiate(made, graph, 0);
    if (graph) graph_destroy(graph);
    return error;
}

EXPORT int fb_cuda_replay(int device, void* recorded, void* stream) {
    int error = set_current(contexts[device]);
    return error ? error : graph_launch(recorded, stream);
}

EXPORT int fb_cuda_forget(int device, void* recorded) {
    int error = set_current(contexts[device]);
    return error ? error : exec_destroy(recorded);
}

EXPORT int fb_cuda_name(int device, char* name, int size) {
    int chip = 0, error = device_get(&chip, device);
    return error ? error : device_name(name, size, chip);
}

// The milliseconds between two events around `repeats` rounds of launches.
EXPORT int fb_cuda_time(int device, const Launch* launches, int count, void* stream, int repeats, float* milliseconds) {
    void* events[2] = {};
    int done, error = set_current(contexts[device]);
    for (void*& event : events)
        if (!error) error = event_create(&event, 0);
    if (!error) error = event_record(events[0], stream);
    for (int k = 0; k < repeats && !error; k++) error = walk(launches, count, stream, &done);
    if (!error) error = event_record(events[1], stream);
    if (!error) error = event_wait(events[1]);
    if (!error) error = event_time(milliseconds, events[0], events[1]);
    for (void* event : events)
        if (event) event_destroy(event);
    return error;
}

EXPORT int fb_cuda_wait(int device, void* stream) {
    int error = set_current(contexts[device]);
    return error ? error : synchronize(stream);
}
}
