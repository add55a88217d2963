// One step of a path and one check of a value. Fast paths read CPython's and numpy's structures directly.
#include "tree.h"

namespace guards {

bool Identity::set(PyObject* object) {
    address = object;
    weak = Ref(PyType_SUPPORTS_WEAKREFS(Py_TYPE(object)) ? PyWeakref_NewRef(object, nullptr) : nullptr);
    if (!weak) {
        PyErr_Clear();
        strong = Ref::borrow(object);
    }
    return true;
}

PyObject* instance_dict(PyObject* value) {
    if (PyType_Check(value)) return ((PyTypeObject*)value)->tp_dict;   // null for builtin types on 3.12+
    PyObject** place = _PyObject_GetDictPtr(value);
    if (!place || !*place) { PyErr_Clear(); return nullptr; }
    return *place;
}

static PyObject* found(PyObject* borrowed) {
    if (!borrowed && PyErr_Occurred()) PyErr_Clear();
    return borrowed;
}

static PyObject* in_dict(PyObject* dict, const Node& node) {
    if (!dict || !PyDict_Check(dict)) return nullptr;
    return found(_PyDict_GetItem_KnownHash(dict, node.key.get(), node.hash));
}

static PyObject* kept(Ref& owned, PyObject* fresh) {
    if (!fresh) PyErr_Clear();
    owned = Ref(fresh);
    return fresh;
}

static PyObject* own_attribute(const Node& node, PyObject* parent, Ref& owned) {
    PyObject* dict = instance_dict(parent);
    if (dict || !PyType_Check(parent)) return in_dict(dict, node);
    Ref proxy(PyObject_GetAttrString(parent, "__dict__"));
    return proxy ? kept(owned, PyObject_GetItem(proxy.get(), node.key.get())) : found(nullptr);
}

// Iterators that tell what they have still to give, without giving it: those of lists, tuples, dicts and sets.
static bool tells_rest(PyObject* value) {
    static std::vector<PyTypeObject*> kinds;
    if (kinds.empty()) {
        Ref made[] = {Ref(PyList_New(0)), Ref(PyTuple_New(0)), Ref(PySet_New(nullptr)), Ref(PyDict_New())};
        for (Ref& one : made) {
            Ref iterator(one ? PyObject_GetIter(one.get()) : nullptr);
            if (iterator) kinds.push_back(Py_TYPE(iterator.get()));
        }
        for (const char* view : {"values", "items"}) {
            Ref members(PyObject_CallMethod(made[3].get(), view, nullptr)), iterator(members ? PyObject_GetIter(members.get()) : nullptr);
            if (iterator) kinds.push_back(Py_TYPE(iterator.get()));
        }
        PyErr_Clear();
    }
    return std::find(kinds.begin(), kinds.end(), Py_TYPE(value)) != kinds.end();
}

// A new reference to the member that the iterator gives after `number` others.
static PyObject* of_rest(PyObject* iterator, Py_ssize_t number) {
    Ref parts(PyObject_CallMethod(iterator, "__reduce__", nullptr));
    if (!parts || !PyTuple_Check(parts.get()) || PyTuple_GET_SIZE(parts.get()) < 2) return nullptr;
    PyObject* given = PyTuple_GET_ITEM(parts.get(), 1);
    if (!PyTuple_Check(given) || PyTuple_GET_SIZE(given) != 1) return nullptr;
    if (PyTuple_GET_SIZE(parts.get()) > 2) number += PyLong_AsSsize_t(PyTuple_GET_ITEM(parts.get(), 2));
    return PySequence_GetItem(PyTuple_GET_ITEM(given, 0), number);
}

static PyObject* item(const Node& node, PyObject* parent, Ref& owned) {
    if (PyDict_Check(parent)) return in_dict(parent, node);
    if (node.number >= 0 && PyList_Check(parent))
        return node.number < PyList_GET_SIZE(parent) ? PyList_GET_ITEM(parent, node.number) : nullptr;
    if (node.number >= 0 && PyTuple_Check(parent))
        return node.number < PyTuple_GET_SIZE(parent) ? PyTuple_GET_ITEM(parent, node.number) : nullptr;
    if (node.number >= 0 && tells_rest(parent)) return kept(owned, of_rest(parent, node.number));
    return kept(owned, PyObject_GetItem(parent, node.key.get()));
}

PyObject* step(const Node& node, PyObject* parent, const Slots& slots, Ref& owned) {
    switch (node.access) {
        case Access::Root: return Py_None;
        case Access::Arg: return node.number >= 0 && node.number < slots.count ? slots.values[node.number] : nullptr;
        case Access::Closure:
            return slots.closure && node.number < PyTuple_GET_SIZE(slots.closure) ? PyTuple_GET_ITEM(slots.closure,
                node.number) : nullptr;
        case Access::Cell: return PyCell_Check(parent) ? PyCell_GET(parent) : nullptr;
        case Access::Global: return in_dict(slots.globals, node);
        case Access::Builtin: return in_dict(slots.builtins, node);
        case Access::Object: return node.weak && key_of(node) == Py_None ? nullptr : key_of(node);
        case Access::Attr: return kept(owned, PyObject_GetAttr(parent, node.key.get()));
        case Access::DictAttr: return own_attribute(node, parent, owned);
        case Access::Item: return item(node, parent, owned);
        case Access::Type: return (PyObject*)Py_TYPE(parent);
        case Access::TypeAttr: return PyType_Check(parent) ? found(_PyType_Lookup((PyTypeObject*)parent,
            node.key.get())) : nullptr;
        case Access::State: return state_field(node.key.get());
        case Access::Length: {
            Py_ssize_t size = PyObject_Size(parent);
            return kept(owned, size < 0 ? nullptr : PyLong_FromSsize_t(size));
        }
        case Access::Slot:
            return layout.is_tensor(parent) ? slot(parent, node.number) : nullptr;
    }
    return nullptr;
}

static bool same_bits(double left, double right) { return std::memcmp(&left, &right, sizeof left) == 0; }

// Equality that keeps 1, 1.0 and True apart, 0.0 and -0.0 too, and finds NaN equal to itself.
bool same_constant(PyObject* left, PyObject* right) {
    if (left == right) return true;
    if (Py_TYPE(left) != Py_TYPE(right)) return false;
    if (layout.is_tensor(left)) return false;   // known by identity
    if (PyFloat_CheckExact(left)) return same_bits(PyFloat_AS_DOUBLE(left), PyFloat_AS_DOUBLE(right));
    if (PyComplex_CheckExact(left)) {
        Py_complex a = ((PyComplexObject*)left)->cval, b = ((PyComplexObject*)right)->cval;
        return same_bits(a.real, b.real) && same_bits(a.imag, b.imag);
    }
    if (PyTuple_Check(left)) {
        if (PyTuple_GET_SIZE(left) != PyTuple_GET_SIZE(right)) return false;
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(left); i++)
            if (!same_constant(PyTuple_GET_ITEM(left, i), PyTuple_GET_ITEM(right, i))) return false;
        return true;
    }
    int equal = PyObject_RichCompareBool(left, right, Py_EQ);
    if (equal < 0) PyErr_Clear();
    return equal > 0;
}

static bool has_keys(PyObject* dict, PyObject* keys) {
    if (!PyDict_Check(dict) || PyDict_GET_SIZE(dict) != PyTuple_GET_SIZE(keys)) return false;
    if (!PyDict_CheckExact(dict)) {   // an OrderedDict keeps an order of its own
        Ref now(PySequence_Tuple(dict));
        if (!now) PyErr_Clear();
        return now && same_constant(now.get(), keys);
    }
    Py_ssize_t position = 0, i = 0;
    PyObject *key, *value;
    while (PyDict_Next(dict, &position, &key, &value))
        if (!same_constant(key, PyTuple_GET_ITEM(keys, i++))) return false;
    return true;
}

static int64_t length(PyObject* value) {
    if (PyList_Check(value) || PyTuple_Check(value)) return Py_SIZE(value);
    Py_ssize_t size = tells_rest(value) ? PyObject_LengthHint(value, -1) : PyObject_Size(value);
    if (size < 0) PyErr_Clear();
    return size;
}

static bool no_hooks(PyObject* module, PyObject* names) {
    PyObject* dict = instance_dict(module);
    if (!dict) return false;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); i++) {
        PyObject* hooks = found(PyDict_GetItemWithError(dict, PyTuple_GET_ITEM(names, i)));
        if (hooks && hooks != Py_None && length(hooks) != 0) return false;
    }
    return true;
}

static bool truth(int answer) {
    if (answer < 0) PyErr_Clear();
    return answer > 0;
}

bool has_key(PyObject* container, PyObject* key) {
    return truth(PyDict_Check(container) ? PyDict_Contains(container, key) : PySequence_Contains(container, key));
}

static bool has_own(PyObject* value, PyObject* name) {
    PyObject* dict = instance_dict(value);
    return dict && has_key(dict, name);
}

static bool has_attribute(PyObject* value, PyObject* name) {
    Ref attribute(PyObject_GetAttr(value, name));
    if (!attribute) PyErr_Clear();
    return bool(attribute);
}

static bool is_true(PyObject* value, bool& failed) {
    int answer = PyObject_IsTrue(value);
    failed = answer < 0;
    if (failed) PyErr_Clear();
    return answer > 0;
}

static bool satisfies(PyObject* predicate, PyObject* value) {
    Ref answer(PyObject_CallOneArg(predicate, value));
    if (!answer) { PyErr_Clear(); return false; }
    return truth(PyObject_IsTrue(answer.get()));
}

// What a lookup expects stands there as it is or behind a weak reference, None when it is dead.
PyObject* referent(PyObject* expected) {
    return PyWeakref_CheckRefExact(expected) ? PyWeakref_GET_OBJECT(expected) : expected;
}

static bool wraps(PyObject* method, PyObject* function) {
    static PyObject* name = PyUnicode_InternFromString("__func__");
    Ref inside(PyObject_GetAttr(method, name));
    if (!inside) PyErr_Clear();
    return inside.get() == function;
}

bool lookup_holds(PyObject* cls, PyObject* expected) {
    PyObject* name = PyTuple_GET_ITEM(expected, 0);
    PyObject* now = found(_PyType_Lookup((PyTypeObject*)cls, name));
    Py_ssize_t size = PyTuple_GET_SIZE(expected);
    if (size == 1) return !now;
    if (size == 2) return now && now == referent(PyTuple_GET_ITEM(expected, 1));
    PyObject* owner = referent(PyTuple_GET_ITEM(expected, 2));
    if (owner == (PyObject*)&PyStaticMethod_Type || owner == (PyObject*)&PyClassMethod_Type)
        return now && (PyObject*)Py_TYPE(now) == owner && wraps(now, referent(PyTuple_GET_ITEM(expected, 1)));
    PyObject* home = PyType_Check(owner) ? ((PyTypeObject*)owner)->tp_dict : nullptr;
    return now && home && !Py_TYPE(now)->tp_descr_get && !Py_TYPE(now)->tp_descr_set &&
           now == found(PyDict_GetItemWithError(home, name));
}

static bool lookups_hold(PyObject* cls, PyObject* expected) {
    if (!PyType_Check(cls)) return false;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(expected); i++)
        if (!lookup_holds(cls, PyTuple_GET_ITEM(expected, i))) return false;
    return true;
}

bool passes(const Check& check, PyObject* value) {
    bool failed = false;
    switch (check.test) {
        case Test::TypeIs: return check.identity.matches((PyObject*)Py_TYPE(value));
        case Test::Is: return check.identity.matches(value);
        case Test::Equals: return same_constant(value, check.payload.get());
        case Test::Len: return length(value) == check.number;
        case Test::DictKeys: return has_keys(value, check.payload.get());
        case Test::NoDictAttr: return !has_own(value, check.payload.get());
        case Test::NoAttr: return !has_attribute(value, check.payload.get());
        case Test::NoItem: return !has_key(value, check.payload.get());
        case Test::HasItem: return has_key(value, check.payload.get());
        case Test::Bool: { bool now = is_true(value, failed); return !failed && now == (check.number != 0); }
        case Test::NoHooks: return no_hooks(value, check.payload.get());
        case Test::Predicate: return satisfies(check.payload.get(), value);
        case Test::Tensor: return passes_tensor(*check.tensor, value);
        case Test::Lookups: return lookups_hold(value, check.payload.get());
    }
    return false;
}

static bool same_or_equal(PyObject* now, PyObject* expected) {
    return now == expected || (now && truth(PyObject_RichCompareBool(now, expected, Py_EQ)));
}

static bool same_geometry(const TensorCheck& check, PyArrayObject* array) {
    if (PyArray_NDIM(array) != check.rank) return false;
    const npy_intp *sizes = PyArray_DIMS(array), *strides = PyArray_STRIDES(array);
    for (int d = 0; d < check.rank; d++) {
        if (check.sizes[d] != any_size && check.sizes[d] != sizes[d]) return false;
        if (check.strides[d] != any_stride && check.strides[d] != strides[d]) return false;
    }
    return true;
}

static bool same_far_geometry(const TensorCheck& check, PyObject* tensor) {
    FarGeometry far;
    if (!far.read(tensor) || far.offset != check.offset) return false;
    if (check.rank >= 0 && far.rank() != check.rank) return false;
    for (int d = 0; d < check.rank; d++) {
        if (check.sizes[d] != any_size && check.sizes[d] != far.size(d)) return false;
        if (check.strides[d] != any_stride && check.strides[d] != far.stride(d) * check.itemsize) return false;
    }
    return true;
}

bool is_bare(const TensorCheck& check, PyObject* tensor) {
    return !(check.no_hooks && layout.holds(tensor, layout.hooks)) &&
           !(check.no_gradient && layout.holds(tensor, layout.grad));
}

bool lies_in(const TensorCheck& check, PyObject* tensor) {
    if (!layout.is_tensor(tensor)) return false;
    PyObject* storage = slot(tensor, layout.storage);
    return !layout.holds(tensor, layout.array) && storage && (PyObject*)Py_TYPE(storage) == check.memory.get();
}

bool passes_tensor(const TensorCheck& check, PyObject* value) {
    if (!check.type.matches((PyObject*)Py_TYPE(value))) return false;
    PyArrayObject* array = check.memory ? nullptr : layout.array_of(value);
    if (check.memory ? !lies_in(check, value) : !array) return false;
    if (check.dtype && slot(value, layout.dtype) != check.dtype.get()) return false;
    if (check.device && !same_or_equal(slot(value, layout.device), check.device.get())) return false;
    if (check.requires_grad >= 0 && layout.requires_gradient(value) != (check.requires_grad != 0)) return false;
    if (check.leaf >= 0 && layout.is_leaf(value) != (check.leaf != 0)) return false;
    if (!is_bare(check, value)) return false;
    return check.memory ? same_far_geometry(check, value) : check.rank < 0 || same_geometry(check, array);
}

bool read_quantity(const Binding& binding, PyObject* value, int64_t& out) {
    if (binding.quantity == Quantity::Int) {
        if (!PyLong_CheckExact(value)) return false;
        int overflow = 0;
        out = PyLong_AsLongLongAndOverflow(value, &overflow);
        return !overflow;
    }
    PyArrayObject* array = layout.array_of(value);
    FarGeometry far;
    if (!array && far.read(value) && binding.dim < far.rank()) {
        out = binding.quantity == Quantity::Size ? far.size(binding.dim) : far.stride(binding.dim);
        return out >= 0;
    }
    if (!array || binding.dim >= PyArray_NDIM(array)) return false;
    if (binding.quantity == Quantity::Size) out = PyArray_DIM(array, binding.dim);
    else out = PyArray_STRIDE(array, binding.dim) / itemsize_of(value);
    return true;
}

bool extent(PyArrayObject* array, int64_t itemsize, int64_t& low, int64_t& high) {
    low = high = reinterpret_cast<int64_t>(PyArray_DATA(array));
    for (int d = 0; d < PyArray_NDIM(array); d++) {
        int64_t count = PyArray_DIM(array, d), stride = PyArray_STRIDE(array, d);
        if (count == 0) return false;
        (stride < 0 ? low : high) += (count - 1) * stride;
    }
    high += itemsize;
    return true;
}

// Keeps `order` sorted by `low`. It starts from the last call's order, so it is O(n) while nothing has moved.
static void sort_nearly_sorted(std::vector<int>& order, const int64_t* low) {
    for (size_t i = 1; i < order.size(); i++) {
        int current = order[i];
        size_t j = i;
        for (; j > 0 && low[order[j - 1]] > low[current]; j--) order[j] = order[j - 1];
        order[j] = current;
    }
}

// Groups are compared as byte intervals, so that two storages over the same foreign bytes count as what they are.
bool aliases_match(const std::vector<AliasMember>& members, int groups, std::vector<int>& order, Fetched& fetched) {
    Buffer<int64_t, 64> low(groups), high(groups), origin(groups);
    Buffer<char, 64> seen(groups);
    for (const AliasMember& member : members) {
        PyObject* tensor = fetched[member.node->fetch];
        PyArrayObject* array = layout.array_of(tensor);
        int64_t from, to;
        if (!array) return false;
        if (!extent(array, itemsize_of(tensor), from, to)) continue;
        int64_t start = reinterpret_cast<int64_t>(PyArray_DATA(array)) - member.distance;
        int g = member.group;
        if (!seen[g]) {
            seen[g] = 1; origin[g] = start; low[g] = from; high[g] = to;
        } else {
            if (origin[g] != start) return false;
            low[g] = std::min(low[g], from);
            high[g] = std::max(high[g], to);
        }
    }
    sort_nearly_sorted(order, low.data());
    int64_t end = INT64_MIN;
    for (int g : order) {
        if (!seen[g]) continue;
        if (low[g] < end) return false;
        end = high[g];
    }
    return true;
}

}  // namespace guards
