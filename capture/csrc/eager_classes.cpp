#include "eager_classes.h"

#include <algorithm>

EagerClasses layout;

int64_t itemsize_of(PyObject* tensor) {
    static std::vector<std::pair<PyObject*, int64_t>> known;   // dtypes are few and live for ever
    PyObject* dtype = slot(tensor, layout.dtype);
    for (auto& entry : known)
        if (entry.first == dtype) return entry.second;
    Ref size(dtype ? PyObject_GetAttrString(dtype, "itemsize") : nullptr);
    int64_t bytes = size ? PyLong_AsLongLong(size.get()) : -1;
    if (bytes <= 0) {
        PyErr_Clear();
        return 1;
    }
    Py_INCREF(dtype);
    known.emplace_back(dtype, bytes);
    return bytes;
}

static int64_t whole(PyObject* number) {
    if (!PyLong_CheckExact(number)) return -1;
    int overflow = 0;
    int64_t value = PyLong_AsLongLongAndOverflow(number, &overflow);
    return overflow ? -1 : value;
}

bool FarGeometry::read(PyObject* tensor) {
    if (!layout.is_tensor(tensor)) return false;
    PyObject* kept = slot(tensor, layout.geometry);
    if (layout.holds(tensor, layout.array) || !kept || !PyTuple_Check(kept) || PyTuple_GET_SIZE(kept) != 3) return false;
    sizes = PyTuple_GET_ITEM(kept, 0), strides = PyTuple_GET_ITEM(kept, 1);
    offset = whole(PyTuple_GET_ITEM(kept, 2));
    if (strides == Py_None) strides = nullptr;
    return PyTuple_Check(sizes) &&
           (!strides || (PyTuple_Check(strides) && PyTuple_GET_SIZE(strides) == PyTuple_GET_SIZE(sizes)));
}

int64_t FarGeometry::size(int d) const { return whole(PyTuple_GET_ITEM(sizes, d)); }

int64_t FarGeometry::stride(int d) const {
    if (strides) return whole(PyTuple_GET_ITEM(strides, d));
    int64_t step = 1;                         // a dimension of no element counts as one of one
    for (int e = rank() - 1; e > d; e--) step *= std::max<int64_t>(size(e), 1);
    return step;
}

// A threading.local finds its thread's dictionary anew at each access, 50 ns. The dictionary lives as long as the thread
// state whose serial number is kept with it.
static PyObject* state_dict() {
    static thread_local struct { uint64_t thread = 0; PyObject* state = nullptr; PyObject* dict = nullptr; } cached;
    uint64_t thread = PyThreadState_Get()->id + 1;
    if (cached.thread == thread && cached.state == layout.state) return cached.dict;
    Ref dict(PyObject_GetAttrString(layout.state, "__dict__"));
    if (!dict || !PyDict_CheckExact(dict.get())) {
        PyErr_Clear();
        return nullptr;
    }
    cached = {thread, layout.state, dict.get()};
    return dict.get();
}

PyObject* state_field(PyObject* name) {
    PyObject* dict = layout.state ? state_dict() : nullptr;
    PyObject* own = dict ? PyDict_GetItemWithError(dict, name) : nullptr;
    if (own || !dict) return own;
    PyErr_Clear();
    return _PyType_Lookup(Py_TYPE(layout.state), name);   // the class holds what a new thread starts with
}

bool special_state() {
    static PyObject* special = PyUnicode_InternFromString("special");
    return layout.state && state_field(special) == Py_True;
}

Ref Whole::settle(Ref result) {
    constexpr int most = 1000;                 // interrupts in a row
    if (!layout.put_back) return result;
    PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
    PyErr_Fetch(&type, &value, &trace);
    for (int tries = 0; tries < most; tries++) {
        if (Ref done{PyObject_CallOneArg(layout.put_back, kept_.get())}) break;
        if (type) PyErr_Clear();
        else PyErr_Fetch(&type, &value, &trace);
    }
    if (!type) return result;
    PyErr_Restore(type, value, trace);
    return Ref();
}
