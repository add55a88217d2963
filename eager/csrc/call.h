// What the files of the eager call path share: where tensors, nodes and storages keep their parts, and how they are
// made.
//
// The classes are Python's (tensor.py, autograd_node.py, storage.py); `bind` learns the offsets of their slots once.
// Everything here handles the plain case (real tensors of plain classes, no mode) and leaves all else to the Python
// path: a fast function answers null without an exception set when a call is not for it.
#ifndef FB_EAGER_CALL_H
#define FB_EAGER_CALL_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#define NPY_NO_DEPRECATED_API NPY_1_22_API_VERSION
#define PY_ARRAY_UNIQUE_SYMBOL flambeau_eager_array
#define PY_UFUNC_UNIQUE_SYMBOL flambeau_eager_ufunc
#ifndef FB_IMPORTS_NUMPY
#define NO_IMPORT_ARRAY
#define NO_IMPORT_UFUNC
#endif
#include <numpy/arrayobject.h>
#include <numpy/ufuncobject.h>

#include <utility>

#include "../../runtime/csrc/abi.h"
#include "../../runtime/csrc/api.h"
#include "../../runtime/csrc/slots.h"

constexpr int TYPES = 17, MAX_DIMS = 16, MAX_ARGS = 6;

enum TypeNumber { BOOL, UINT8, INT8, INT16, INT32, INT64, UINT16, UINT32, UINT64, FLOAT8_E4M3, FLOAT8_E5M2, FLOAT16,
    BFLOAT16, FLOAT32, FLOAT64, COMPLEX64, COMPLEX128 };

// One element type: the library's object, numpy's descriptor, bytes, kind (0 bool, 1 integer, 2 floating, 3 complex).
struct Type {
    PyObject* object;
    PyArray_Descr* descr;
    int itemsize, category;
};

inline int kernel_type(int type) { // FbType of csrc/abi.h; -1: the runtime's kernels do not take it
    return type == FLOAT32 ? FB_FLOAT : type == FLOAT64 ? FB_DOUBLE : type == BFLOAT16 ? FB_BF16 : type == FLOAT16 ? FB_F16 : -1;
}

struct NodeSlots {
    Py_ssize_t op, args, versions, edges, metas, outs, sequence;
};
struct StorageSlots {
    Py_ssize_t bytes, version, data_version, views, pruned, device;
    int others;
    std::pair<Py_ssize_t, PyObject*> other[16]; // slots that a new storage takes from the prototype
};
struct MetaSlots {
    Py_ssize_t shape, dtype, device;
};

// Everything that `bind` is told.
struct World {
    PyTypeObject *node, *storage, *size, *view, *meta, *attached;
    PyTypeObject* plain[4]; // Tensor and the subclasses whose results are plain tensors
    TensorLayout t;
    NodeSlots n;
    StorageSlots s;
    MetaSlots m;
    Type types[TYPES];
    PyObject *state, *cpu, *saved_output, *learn_needs, *data_view, *inference_view, *byte_descr;
    PyObject *no_grad, *multiple, *inference; // `View.how`
    const FbApi* api;
};
extern World world;

// A strong reference that ends with its scope.
struct Ref {
    PyObject* p;
    explicit Ref(PyObject* p = nullptr) : p(p) {}
    Ref(Ref&& other) noexcept : p(std::exchange(other.p, nullptr)) {}
    Ref(const Ref&) = delete;
    Ref& operator=(Ref&& other) noexcept {
        PyObject* old = p;
        p = std::exchange(other.p, nullptr);
        Py_XDECREF(old);
        return *this;
    }
    ~Ref() { Py_XDECREF(p); }
    PyObject* get() const { return p; }
    PyObject* release() { return std::exchange(p, nullptr); }
    explicit operator bool() const { return p; }
};

inline void reset(PyObject* object, Py_ssize_t offset, PyObject* stolen) {
    PyObject* old = slot(object, offset);
    slot(object, offset) = stolen;
    Py_XDECREF(old);
}

// -- the thread's state (state.py): a dictionary that lives as long as the thread
struct Thread {
    bool quick, grad; // `quick`: no mode, autocast, hooks or anomaly; `grad`: calls are recorded
};
bool read_state(Thread& out); // false with an error set
PyObject* state_field(PyObject* name); // borrowed
bool set_state_field(PyObject* name, PyObject* value);

// -- tensors
inline bool is_plain(PyObject* x) {
    PyTypeObject* type = Py_TYPE(x);
    return type == world.plain[0] || type == world.plain[1] || type == world.plain[2] || type == world.plain[3];
}
inline bool is_tensor(PyObject* x) { return is_plain(x) || PyType_IsSubtype(Py_TYPE(x), world.t.type); }

inline PyArrayObject* array_of(PyObject* t) { // null for a fake, or for anything but a plain ndarray
    PyObject* a = slot(t, world.t.array);
    return a && PyArray_CheckExact(a) ? (PyArrayObject*)a : nullptr;
}
inline int type_of(PyObject* t) {
    PyObject* d = slot(t, world.t.dtype);
    if (d == world.types[FLOAT32].object) return FLOAT32;
    for (int k = 0; k < TYPES; k++)
        if (world.types[k].object == d) return k;
    return -1;
}
// A node of an op: of Node itself, or of a subclass that is a name alone, as programs that look at `grad_fn` get it.
inline bool is_plain_node(PyObject* node) {
    PyTypeObject* type = Py_TYPE(node);
    return type == world.node || (type->tp_base == world.node && Py_TYPE(type) != &PyType_Type);
}
inline bool needs_grad(PyObject* t) {
    return slot(t, world.t.grad_fn) != Py_None || slot(t, world.t.requires_grad) == Py_True;
}
inline bool is_cpu(PyObject* t) { return slot(t, world.t.device) == world.cpu; }

PyObject* new_tensor(PyObject* array, PyObject* dtype); // steals `array`; no history
PyObject* tuple_of(const npy_intp* values, int count);
PyObject* size_of(const npy_intp* values, int count); // as a Size
PyObject* ensure_storage(PyObject* t); // borrowed; null with an error set
bool bump(PyObject* t); // a write went into the tensor's bytes
long version_of(PyObject* t);
PyObject* saved_version(PyObject* t); // a new reference; null with an error set for an inference tensor
PyObject* root_view(PyObject* t); // borrowed: None, or the `_fl_view` that stands at the end of a chain of views
extern thread_local bool inference_mode; // new tensors are inference tensors
PyObject* fresh_array(int type, int dims, const npy_intp* sizes, const npy_intp* strides_in_elements);

// The tuple of f(item) for a sequence; null where f gives null.
template <class F> Ref each(PyObject* sequence, F f) {
    Ref fast(PySequence_Fast(sequence, "a sequence is needed"));
    Ref made(fast ? PyTuple_New(PySequence_Fast_GET_SIZE(fast.get())) : nullptr);
    for (Py_ssize_t k = 0; made && k < PyTuple_GET_SIZE(made.get()); k++) {
        PyObject* item = f(PySequence_Fast_GET_ITEM(fast.get(), k));
        if (!item) return Ref();
        PyTuple_SET_ITEM(made.get(), k, item);
    }
    return made;
}

// -- recording. What a record's gradients need of a call, per set of operands that lead to a gradient: planned in Python,
// once (`learn_needs`).
constexpr int MAX_PARAMS = 24;
enum Code : char { PLAIN, TENSOR, TENSORS }; // what a parameter takes: Op.codes
enum Keep : char { DROP, SAVE, META };
struct Needs {
    unsigned mask;
    bool any; // some formula runs
    unsigned outs, constant; // bit k: the k-th output is saved; has no gradient
    Code codes[MAX_PARAMS];
    Keep keep[MAX_PARAMS];
};
struct NeedsTable {
    int used = 0;
    Needs entries[8];
};
PyObject* edge_of(PyObject* t); // new reference: (node, output number), (leaf, 0) or None
// Hang a node on the outputs: `args` as given to the record; bit k of `mask`: args[k] is or holds a tensor that needs a gradient.
bool record(PyObject* op, NeedsTable& table, PyObject* const* args, int count, unsigned mask, PyObject* const* outs, Py_ssize_t n);
inline bool record(PyObject* op, NeedsTable& table, PyObject* const* args, int count, unsigned mask, PyObject* out) {
    return record(op, table, args, count, mask, &out, 1);
}

// The node of a complete call of a record with kernels (`entry`: its callable), hung on the outputs, a tuple, where an
// argument leads on.
bool record_outputs(PyObject* entry, PyObject* const* args, PyObject* outs);

PyObject* meta_of(PyObject* t); // its Meta
PyObject* description_of(PyObject* t); // (sizes, dtype, device), as a node keeps them; null without an error for a fake
// steals all but `op`
PyObject* new_node(PyObject* op, PyObject* args, PyObject* versions, PyObject* edges, PyObject* metas);

unsigned long next_sequence();

// -- views
bool is_piece(PyObject* op); // the record of x[i] along one dim, or of x[i:j:k]
// Such a piece of a tensor's memory, outside of autograd and without a storage of its own; null without an error where
// there is none.
PyObject* piece_of(PyObject* op, PyObject* t, PyObject* const* args);

// -- callables
struct Attributes { // what every callable of this module carries
    PyObject_HEAD vectorcallfunc vectorcall;
    PyObject *op, *slow, *dict;
    PyObject* face; // what `__torch_function__` is given as the function: None for this object, null where it is not asked
};
// The call where the fast path does not take it: to `__torch_function__` if an operand has one, else to `slow`.
// The Python function behind a callable; what it raises is put into the words of the library (error_messages.py).
PyObject* call_slow(Attributes* self, PyObject* const* args, size_t nargsf, PyObject* names);
PyObject* complain(Attributes* self, PyObject* const* args, size_t nargsf, PyObject* names);
PyObject* fall_back(Attributes* self, PyObject* const* args, size_t nargsf, PyObject* names);
// As functions do, they pickle and copy by name.
PyObject* reduce_callable(PyObject* self, PyObject*);
#define REDUCE_METHOD {"__reduce__", reduce_callable, METH_NOARGS, "the name, as for functions"}
int traverse_attributes(PyObject* self, visitproc visit, void* arg);
void clear_attributes(Attributes* self);
bool ready_callable(PyTypeObject& type, const char* name, Py_ssize_t size, destructor dealloc);

// The face of a callable, asked on behalf of operands of foreign classes. Null without an error: the call goes on.
PyObject* ask_operands(Attributes* self, PyObject* const* args, size_t nargsf, PyObject* names);

bool add_maps(PyObject* module);
bool add_overrides(PyObject* module);
bool add_views(PyObject* module);
bool add_kernels(PyObject* module);
bool add_matrix(PyObject* module);
bool add_small(PyObject* module);
bool add_elements(PyObject* module);
bool add_contractions(PyObject* module);
bool add_draws(PyObject* module);
bool add_mersenne(PyObject* module);
bool add_layouts(PyObject* module);
bool add_pairs(PyObject* module);
bool add_fourier(PyObject* module);
bool add_resizing(PyObject* module);
bool add_losses(PyObject* module);
bool add_bags(PyObject* module);
bool add_pooling(PyObject* module);
bool add_steps(PyObject* module);
bool add_engine(PyObject* module);
bool add_attached(PyObject* module);

#endif
