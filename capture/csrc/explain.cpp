// Why a guard tree does not hold: every failed check with what was expected, what is there, and the user's line.
#include "tree.h"

using namespace guards;

// One GuardFailure: kind, name of the place, description, what was expected, what is there, user's line, dimension.
static bool report(PyObject* list, const char* kind, const Ref& name, const Ref& describe, PyObject* old_value,
                   PyObject* new_value, const Ref& line, int dim = -1) {
    Ref failure(PyStructSequence_New(failure_type));
    if (!failure) return false;
    auto text = [](const Ref& ref) { return ref ? Ref(ref).release() : PyUnicode_FromString(""); };
    PyObject* fields[] = {PyUnicode_FromString(kind), text(name), text(describe), Ref::borrow(old_value ? old_value
        : Py_None).release(),
                          Ref::borrow(new_value ? new_value : Py_None).release(), text(line),
                          dim < 0 ? Ref::borrow(Py_None).release() : PyLong_FromLong(dim)};
    for (int i = 0; i < 7; i++) PyStructSequence_SetItem(failure.get(), i, fields[i]);
    return PyList_Append(list, failure.get()) == 0;
}

struct Place { PyObject* list; const Node& node; const Check& check; };

static bool differs(const Place& at, const char* kind, Ref old_value, Ref new_value, int dim = -1) {
    if (PyErr_Occurred()) PyErr_Clear();   // asking for a length of something without one
    return report(at.list, kind, at.node.name, at.check.describe, old_value.get(), new_value.get(), at.check.line, dim);
}

static Ref integer(int64_t value) { return Ref(PyLong_FromLongLong(value)); }
static Ref boolean(bool value) { return Ref(PyBool_FromLong(value)); }

static bool explain_geometry(const Place& at, const TensorCheck& check, PyArrayObject* array, int64_t itemsize) {
    if (PyArray_NDIM(array) != check.rank)
        return differs(at, "rank", integer(check.rank), integer(PyArray_NDIM(array)));
    for (int d = 0; d < check.rank; d++) {
        if (check.sizes[d] != any_size && check.sizes[d] != PyArray_DIM(array, d) &&
            !differs(at, "size", integer(check.sizes[d]), integer(PyArray_DIM(array, d)), d)) return false;
        int64_t expected = check.strides[d] / check.itemsize, now = PyArray_STRIDE(array, d) / itemsize;
        if (check.strides[d] != any_stride && expected != now && !differs(at, "stride", integer(expected), integer(now),
            d)) return false;
    }
    return true;
}

static bool explain_far_geometry(const Place& at, const TensorCheck& check, PyObject* tensor) {
    FarGeometry far;
    if (!far.read(tensor)) return differs(at, "tensor without bytes", Ref(), Ref());
    if (far.offset != check.offset && !differs(at, "offset", integer(check.offset), integer(far.offset))) return false;
    if (check.rank >= 0 && far.rank() != check.rank) return differs(at, "rank", integer(check.rank), integer(far.rank()));
    for (int d = 0; d < check.rank; d++) {
        if (check.sizes[d] != any_size && check.sizes[d] != far.size(d) &&
            !differs(at, "size", integer(check.sizes[d]), integer(far.size(d)), d)) return false;
        int64_t expected = check.strides[d] / check.itemsize;
        if (check.strides[d] != any_stride && expected != far.stride(d) &&
            !differs(at, "stride", integer(expected), integer(far.stride(d)), d)) return false;
    }
    return true;
}

static bool explain_tensor(const Place& at, PyObject* value) {
    const TensorCheck& check = *at.check.tensor;
    if (!check.type.matches((PyObject*)Py_TYPE(value)))
        return differs(at, "type", Ref::borrow(check.type.now()), Ref::borrow((PyObject*)Py_TYPE(value)));
    PyArrayObject* array = layout.array_of(value);
    if (check.memory ? !lies_in(check, value) : !array) return differs(at, "tensor without bytes", Ref(), Ref());
    if (check.dtype && slot(value, layout.dtype) != check.dtype.get() &&
        !differs(at, "dtype", check.dtype, Ref::borrow(slot(value, layout.dtype)))) return false;
    PyObject* device = slot(value, layout.device);
    if (check.device && device != check.device.get() && !same_constant(device ? device : Py_None, check.device.get()) &&
        !differs(at, "device", check.device, Ref::borrow(device))) return false;
    bool gradient = layout.requires_gradient(value);
    if (check.requires_grad >= 0 && gradient != (check.requires_grad != 0) &&
        !differs(at, "requires_grad", boolean(check.requires_grad), boolean(gradient))) return false;
    bool leaf = layout.is_leaf(value);
    if (check.leaf >= 0 && leaf != (check.leaf != 0) && !differs(at, "is_leaf", boolean(check.leaf),
                                                                 boolean(leaf))) return false;
    if (check.no_hooks && layout.holds(value, layout.hooks) &&
        !differs(at, "has hooks", boolean(false), boolean(true))) return false;
    if (check.no_gradient && layout.holds(value, layout.grad) &&
        !differs(at, "has a gradient", boolean(false), boolean(true))) return false;
    if (check.memory) return explain_far_geometry(at, check, value);
    return check.rank < 0 || explain_geometry(at, check, array, itemsize_of(value));
}

static bool explain_lookups(const Place& at, PyObject* cls) {
    PyObject* expected = at.check.payload.get();
    for (Py_ssize_t i = 0; PyType_Check(cls) && i < PyTuple_GET_SIZE(expected); i++) {
        PyObject *one = PyTuple_GET_ITEM(expected, i), *name = PyTuple_GET_ITEM(one, 0);
        if (lookup_holds(cls, one)) continue;
        PyObject* old_value = PyTuple_GET_SIZE(one) > 1 ? referent(PyTuple_GET_ITEM(one, 1)) : nullptr;
        PyObject* new_value = _PyType_Lookup((PyTypeObject*)cls, name);
        Ref place(PyUnicode_FromFormat("%U.%U", at.node.name.get(), name));
        if (!place || !report(at.list, "class attribute", place, at.check.describe, old_value, new_value,
                              at.check.line)) return false;
    }
    return true;
}

static bool is_plain_int(PyObject* value) { return value && PyLong_CheckExact(value); }

static bool explain_check(PyObject* list, const Node& node, const Check& check, PyObject* value) {
    Place at{list, node, check};
    Ref expected = check.payload;
    Ref now = Ref::borrow(value);
    switch (check.test) {
        case Test::Tensor: return explain_tensor(at, value);
        case Test::Lookups: return explain_lookups(at, value);
        case Test::TypeIs: expected = Ref::borrow(check.identity.now()); now = Ref::borrow((PyObject*)Py_TYPE(value)); break;
        case Test::Is: expected = Ref::borrow(check.identity.now()); break;
        case Test::Len: expected = integer(check.number); now = integer(PyObject_LengthHint(value, -1)); break;
        case Test::Bool: expected = boolean(check.number); now = boolean(!check.number); break;
        case Test::DictKeys: now = Ref(PySequence_Tuple(value)); break;
        case Test::Equals:
            if (is_plain_int(value) && is_plain_int(check.payload.get())) return differs(at, "int", expected, now);
            if (PyFloat_CheckExact(value) && PyFloat_CheckExact(check.payload.get())) return differs(at, "float",
                expected, now);
            break;
        default: break;
    }
    return differs(at, test_names[(int)check.test], expected, now);
}

static bool explain_walk(PyObject* list, const Node& node, PyObject* value, const Slots& slots, Fetched& fetched) {
    for (const Check& check : node.checks) {
        if (passes(check, value)) continue;
        if (!explain_check(list, node, check, value)) return false;
        if (check.test == Test::TypeIs) return true; // the rest is about another type: its keys, asked of an iterator, would be taken from it
    }
    if (node.fetch >= 0) fetched.put(node.fetch, value);
    for (const Node* child : node.children) {
        Ref owned;
        PyObject* next = step(*child, value, slots, owned);
        if (!next) {
            if (!report(list, "missing", child->name, child->name, nullptr, nullptr, Ref())) return false;
        } else if (!explain_walk(list, *child, next, slots, fetched)) {
            return false;
        }
    }
    return true;
}

static bool explain_symbols(PyObject* list, GuardTree* tree, Fetched& fetched) {
    Buffer<int64_t, 32> symbols(tree->symbols), found(tree->bindings->size());
    for (size_t i = 0; i < tree->bindings->size(); i++) {
        const Binding& binding = (*tree->bindings)[i];
        static const char* kinds[] = {"size", "stride", "int"};
        const char* kind = kinds[(int)binding.quantity];
        int dim = binding.quantity == Quantity::Int ? -1 : binding.dim;
        if (!read_quantity(binding, fetched[binding.node->fetch], found[i]))
            return report(list, "symbol", binding.node->name, binding.node->name, nullptr, nullptr, Ref(), dim);
        if (found[i] != found[binding.first] &&
            !report(list, kind, binding.node->name, (*tree->bindings)[binding.first].node->name,
                    integer(found[binding.first]).get(),
                    integer(found[i]).get(), Ref(), dim)) return false;
        symbols[binding.symbol] = found[binding.first];
    }
    for (const Relation& relation : *tree->relations) {
        if (holds(relation, symbols.data(), fetched)) continue;
        Ref values(PyTuple_New(tree->symbols));
        for (int k = 0; values && k < tree->symbols; k++) PyTuple_SET_ITEM(values.get(), k,
            PyLong_FromLongLong(symbols[k]));
        if (!values || !report(list, "relation", relation.describe, relation.describe, nullptr, values.get(),
                               relation.line)) return false;
    }
    return true;
}

static bool explain_pairs(PyObject* list, GuardTree* tree, Fetched& fetched) {
    for (const Pair& pair : *tree->pairs) {
        bool same = fetched[pair.left->fetch] == fetched[pair.right->fetch];
        if (same != pair.same && !report(list, pair.same ? "same_object" : "not_same", pair.left->name,
                                         pair.right->name,
                                         boolean(pair.same).get(), boolean(same).get(), Ref())) return false;
    }
    return true;
}

namespace guards {

PyObject* explain(GuardTree* tree, const Slots& slots) {
    Ref list(PyList_New(0));
    Fetched fetched(tree->fetches);
    if (!list || !explain_walk(list.get(), *tree->nodes->front(), Py_None, slots, fetched)) return nullptr;
    if (PyList_GET_SIZE(list.get()) > 0) return list.release();   // the rest needs every place to be there
    if (!explain_symbols(list.get(), tree, fetched) || !explain_pairs(list.get(), tree, fetched)) return nullptr;
    if (!aliases_hold(tree, fetched)) {
        Ref text(PyUnicode_FromString("which tensor arguments share memory"));
        if (!report(list.get(), "alias", text, text, nullptr, nullptr, Ref())) return nullptr;
    }
    return list.release();
}

}  // namespace guards
