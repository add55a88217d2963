// Steps and checks of guards that are known to run no code of the user's, nor to free anything: between them, borrowed
// pointers stay good.
#include "snapshot.h"

namespace guards {

// How the keys of a dictionary begin on 3.11 to 3.13 with the GIL; the internal header is not C++ on 3.12.
struct KeysHead { Py_ssize_t references; uint8_t log2_size, log2_index_bytes, kind; };
constexpr uint8_t general_keys = 0;

bool plain_keys(PyObject* dict) {
    return PyDict_Check(dict) && ((KeysHead*)((PyDictObject*)dict)->ma_keys)->kind != general_keys;
}

// From 3.13 on, attributes that live inside an object are changed behind the back of its dictionary.
bool own_values(PyDictObject* dict) {
#if PY_VERSION_HEX >= 0x030D0000
    return dict->ma_values == nullptr;
#else
    return true;
#endif
}

uint64_t dict_version(PyDictObject* dict) { return dict->ma_version_tag; }

static Truth in_plain(PyObject* dict, const Node& node, PyObject*& value) {
    if (!dict || !plain_keys(dict) || !PyUnicode_CheckExact(node.key.get())) return Truth::Impure;
    value = _PyDict_GetItem_KnownHash(dict, node.key.get(), node.hash);
    return value ? Truth::Yes : Truth::No;
}

static Truth field(PyObject* found, PyObject*& value) {
    value = found ? found : Py_None;
    return Truth::Yes;
}

// Attributes that are fields of the interpreter's own objects.
static Truth attribute(const Node& node, PyObject* parent, PyObject*& value) {
    const char* name = PyUnicode_AsUTF8(node.key.get());
    if (!name) { PyErr_Clear(); return Truth::Impure; }
    if (PyFunction_Check(parent)) {
        if (!std::strcmp(name, "__code__")) return field(PyFunction_GET_CODE(parent), value);
        if (!std::strcmp(name, "__defaults__")) return field(PyFunction_GET_DEFAULTS(parent), value);
        if (!std::strcmp(name, "__kwdefaults__")) return field(PyFunction_GET_KW_DEFAULTS(parent), value);
        if (!std::strcmp(name, "__closure__")) return field(PyFunction_GET_CLOSURE(parent), value);
    }
    if (PyMethod_Check(parent)) {
        if (!std::strcmp(name, "__self__")) return field(PyMethod_GET_SELF(parent), value);
        if (!std::strcmp(name, "__func__")) return field(PyMethod_GET_FUNCTION(parent), value);
    }
    return Truth::Impure;
}

// The value of a key that is compared by identity, in a dictionary of any keys; null where it is not there. Keys are mostly
// asked for in the dictionary's order, so the search goes on where the last one ended.
static PyObject* by_identity(PyObject* dict, PyObject* wanted) {
    static thread_local Py_ssize_t last = 0;
    PyObject *key, *value;
    Py_ssize_t begin = last, at = begin;
    while (PyDict_Next(dict, &at, &key, &value))
        if (key == wanted) return last = at, value;
    at = 0;
    while (at < begin && PyDict_Next(dict, &at, &key, &value))
        if (key == wanted) return last = at, value;
    return nullptr;
}

static Truth item(const Node& node, PyObject* parent, PyObject*& value) {
    bool list = PyList_CheckExact(parent);
    if (PyDict_Check(parent) && layout.is_tensor(node.key.get())) {
        value = by_identity(parent, node.key.get());
        return value ? Truth::Yes : Truth::Impure;
    }
    if (PyDict_CheckExact(parent)) return in_plain(parent, node, value);
    if (!list && !PyTuple_Check(parent)) return Truth::Impure;
    if (node.number < 0 || !PyLong_CheckExact(node.key.get())) return Truth::Impure;
    if (node.number >= Py_SIZE(parent)) return Truth::No;
    value = list ? PyList_GET_ITEM(parent, node.number) : PyTuple_GET_ITEM(parent, node.number);
    return Truth::Yes;
}

Truth pure_step(const Node& node, PyObject* parent, const Slots& slots, PyObject*& value) {
    switch (node.access) {
        case Access::Global: return in_plain(slots.globals, node, value);
        case Access::Builtin: return in_plain(slots.builtins, node, value);
        case Access::DictAttr: return in_plain(instance_dict(parent), node, value);
        case Access::Attr: return attribute(node, parent, value);
        case Access::Item: return item(node, parent, value);
        case Access::Length: return Truth::Impure;
        default: break;
    }
    Ref owned;
    value = step(node, parent, slots, owned);   // none of these makes anything
    return value ? Truth::Yes : Truth::No;
}

bool is_scalar(PyObject* value) {
    return value == Py_None || value == Py_Ellipsis || PyBool_Check(value) || PyLong_CheckExact(value) ||
           PyFloat_CheckExact(value) || PyComplex_CheckExact(value) || PyUnicode_CheckExact(value) || PyBytes_CheckExact(value);
}

bool is_plain(PyObject* value) {
    if (!PyTuple_CheckExact(value)) return is_scalar(value);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value); i++)
        if (!is_plain(PyTuple_GET_ITEM(value, i))) return false;
    return true;
}

static Truth answer(bool yes) { return yes ? Truth::Yes : Truth::No; }

static Truth equals(PyObject* value, PyObject* expected) {
    if (value == expected) return Truth::Yes;
    if (Py_TYPE(value) != Py_TYPE(expected)) return Truth::No;
    return is_plain(expected) && is_plain(value) ? answer(same_constant(value, expected)) : Truth::Impure;
}

static bool is_container(PyObject* value) {
    return PyList_CheckExact(value) || PyTuple_CheckExact(value) || PyDict_CheckExact(value);
}

static Truth named(const Check& check, PyObject* dict) {
    if (!dict || !plain_keys(dict) || !PyUnicode_CheckExact(check.payload.get())) return Truth::Impure;
    return answer(passes(check, dict));
}

static Truth has_item(const Check& check, PyObject* value) {
    if (PyDict_Check(value) && layout.is_tensor(check.payload.get()))
        return by_identity(value, check.payload.get()) ? answer(check.test == Test::HasItem)
            : check.test == Test::HasItem ? Truth::No : Truth::Impure;
    return PyDict_CheckExact(value) ? named(check, value) : Truth::Impure;
}

static Truth no_own(const Check& check, PyObject* value) {
    PyObject* dict = instance_dict(value);
    if (dict && (!plain_keys(dict) || !PyUnicode_CheckExact(check.payload.get()))) return Truth::Impure;
    return answer(passes(check, value));
}

static Truth tensor(const TensorCheck& check, PyObject* value) {
    if (!layout.is_tensor(value)) return Truth::No;
    if (check.device && slot(value, layout.device) != check.device.get()) return Truth::Impure;
    return answer(passes_tensor(check, value));
}

static bool is_plain_dict(PyObject* value) { return PyDict_CheckExact(value) && plain_keys(value); }

static bool plain_own(PyObject* value) {
    PyObject* dict = instance_dict(value);
    return dict && plain_keys(dict);
}

Truth pure_check(const Check& check, PyObject* value) {
    switch (check.test) {
        case Test::TypeIs: case Test::Is: case Test::Lookups: return answer(passes(check, value));
        case Test::Equals: return equals(value, check.payload.get());
        case Test::Len: return is_container(value) ? answer(passes(check, value)) : Truth::Impure;
        case Test::Bool: return is_container(value) || is_scalar(value) ? answer(passes(check, value)) : Truth::Impure;
        case Test::DictKeys:
            return is_plain_dict(value) && is_plain(check.payload.get()) ? answer(passes(check, value)) : Truth::Impure;
        case Test::NoItem: case Test::HasItem: return has_item(check, value);
        case Test::NoDictAttr: return no_own(check, value);
        case Test::NoHooks: return plain_own(value) ? answer(passes(check, value)) : Truth::Impure;
        case Test::Tensor: return tensor(*check.tensor, value);
        case Test::NoAttr: case Test::Predicate: return Truth::Impure;
    }
    return Truth::Impure;
}

}  // namespace guards
