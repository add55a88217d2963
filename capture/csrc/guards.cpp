// GuardTree: built node by node from Python, then evaluated without Python, and explained where it fails.
#include <unordered_map>

#include "snapshot.h"

using namespace guards;

namespace guards {

PyTypeObject* tree_type;
PyTypeObject* node_type;
PyTypeObject* failure_type;
const char* const test_names[] = {"type_is", "is", "equals", "len", "dict_keys", "no_dict_attr", "no_attr", "no_item",
                                   "has_item", "bool", "no_hooks", "predicate", "tensor", "lookups"};

}  // namespace guards

// ---------------------------------------------------------------------------------------------- evaluation

static bool walk(const Node& node, PyObject* value, const Slots& slots, Fetched& fetched) {
    for (const Check& check : node.checks)
        if (!passes(check, value)) return false;
    if (node.fetch >= 0) fetched.put(node.fetch, value);
    for (const Node* child : node.children)
        if (!guards::walk_child(*child, value, slots, fetched)) return false;
    return true;
}

bool guards::walk_child(const Node& child, PyObject* parent, const Slots& slots, Fetched& fetched) {
    Ref owned;
    PyObject* value = step(child, parent, slots, owned);
    return value && walk(child, value, slots, fetched);
}

static bool bind_symbols(const GuardTree* tree, Fetched& fetched, int64_t* symbols, int64_t* found) {
    for (size_t i = 0; i < tree->bindings->size(); i++) {
        const Binding& binding = (*tree->bindings)[i];
        if (!read_quantity(binding, fetched[binding.node->fetch], found[i])) return false;
        if (found[i] != found[binding.first]) return false;
        symbols[binding.symbol] = found[i];
    }
    return true;
}

bool guards::symbols_hold(const GuardTree* tree, Fetched& fetched) {
    if (tree->bindings->empty() && tree->relations->empty()) return true;
    Buffer<int64_t, 32> symbols(tree->symbols), found(tree->bindings->size());
    if (!bind_symbols(tree, fetched, symbols.data(), found.data())) return false;
    for (const Relation& relation : *tree->relations)
        if (!holds(relation, symbols.data(), fetched)) return false;
    return true;
}

bool guards::pairs_hold(const std::vector<Pair>& pairs, Fetched& fetched) {
    for (const Pair& pair : pairs)
        if ((fetched[pair.left->fetch] == fetched[pair.right->fetch]) != pair.same) return false;
    return true;
}

namespace guards {

bool aliases_hold(const GuardTree* tree, Fetched& fetched) {
    return tree->aliases->empty() || aliases_match(*tree->aliases, tree->alias_groups, *tree->alias_order, fetched);
}

// Only the door knows the order of its slots, so arguments given by name find their positions here.
bool name_slots(GuardTree* tree, PyObject* names) {
    for (Node* node : tree->nodes->front()->children) {
        if (node->access != Access::Arg || !PyUnicode_Check(node->key.get())) continue;
        node->number = PySequence_Index(names, node->key.get());
        if (node->number >= 0) continue;
        PyErr_Format(PyExc_KeyError, "guards name the argument %R, the function's are %R", node->key.get(), names);
        return false;
    }
    return true;
}

Py_ssize_t fetch_count(GuardTree* tree) { return tree->fetches; }
void freeze(GuardTree* tree) { tree->frozen = true; }

static bool evaluate_all(GuardTree* tree, const Slots& slots, Fetched& fetched) {
    return walk(*tree->nodes->front(), Py_None, slots, fetched) && symbols_hold(tree, fetched) &&
           pairs_hold(*tree->pairs, fetched) && aliases_hold(tree, fetched);
}

static void drop_snapshot(GuardTree* tree) { release(std::exchange(tree->snapshot, nullptr)); }

// A snapshot that does not last costs more than it saves: the next one waits longer.
static void take_snapshot(GuardTree* tree, const Slots& slots) {
    if (tree->snapshot) {
        drop_snapshot(tree);
        tree->wait = 1 << std::min(tree->outdated++, 8);
    }
    if (--tree->wait > 0) return;
    Snapshot* fresh = record(tree, slots);
    drop_snapshot(tree);
    tree->snapshot = fresh;
    if (!fresh) tree->wait = 1 << std::min(tree->outdated++, 8);
}

// Whether the snapshot decides; `accepted` is its answer.
static bool decides(GuardTree* tree, const Slots& slots, Fetched& fetched, bool& accepted) {
    Snapshot* snapshot = tree->snapshot;
    snapshot->users++;
    Truth told = poll(tree, snapshot, slots, fetched);
    accepted = told == Truth::Yes && relations_hold(tree, snapshot, fetched);
    release(snapshot);
    if (accepted && ++tree->polled % 64 == 0) tree->outdated = 0;
    return told != Truth::Impure;
}

bool evaluate(GuardTree* tree, const Slots& slots, Fetched& fetched) {
    if (tree->snapshot) {
        bool accepted = false;
        if (decides(tree, slots, fetched, accepted)) return accepted;
        fetched.reset(tree->fetches);
    }
    if (!evaluate_all(tree, slots, fetched)) return false;
    tree->walked++;
    if (tree->frozen) take_snapshot(tree, slots);
    return true;
}

}  // namespace guards

// ---------------------------------------------------------------------------------------------- building

static bool may_change(GuardTree* tree) {
    if (tree->frozen) PyErr_SetString(PyExc_RuntimeError, "this guard tree belongs to an entry and is complete");
    return !tree->frozen;
}

static PyObject* wrap_node(GuardTree* tree, Node* node) {
    GuardNode* self = PyObject_GC_New(GuardNode, node_type);
    if (!self) return nullptr;
    Py_INCREF(tree);
    self->tree = tree;
    self->node = node;
    PyObject_GC_Track(self);
    return (PyObject*)self;
}

static int keep_value(GuardTree* tree, Node* node) {
    if (node->fetch < 0) node->fetch = tree->fetches++;
    return node->fetch;
}

static const std::unordered_map<std::string, Access> access_kinds = {
    {"arg", Access::Arg}, {"closure", Access::Closure}, {"cell", Access::Cell}, {"global", Access::Global},
    {"builtin", Access::Builtin}, {"object", Access::Object}, {"attr", Access::Attr}, {"dict_attr", Access::DictAttr},
    {"item", Access::Item}, {"type", Access::Type}, {"type_attr", Access::TypeAttr}, {"slot", Access::Slot}, {"state",
        Access::State}, {"length", Access::Length}};

static const std::unordered_map<std::string, Test> test_kinds = {
    {"type_is", Test::TypeIs}, {"is", Test::Is}, {"equals", Test::Equals}, {"len", Test::Len},
    {"dict_keys", Test::DictKeys}, {"no_dict_attr", Test::NoDictAttr}, {"no_attr", Test::NoAttr},
    {"no_item", Test::NoItem}, {"has_item", Test::HasItem}, {"bool", Test::Bool}, {"no_hooks", Test::NoHooks},
    {"predicate", Test::Predicate}, {"tensor", Test::Tensor},
    {"lookups", Test::Lookups}};

static PyObject* default_name(const Node& parent, const char* kind, PyObject* key) {
    std::string k = kind;
    if (k == "arg" || k == "global" || k == "builtin" || k == "state")
        return PyUnicode_Check(key) ? Ref::borrow(key).release() : PyUnicode_FromFormat("argument %S", key);
    if (k == "object") return PyUnicode_FromFormat("<%s>", Py_TYPE(key)->tp_name);
    if (!parent.name) return PyUnicode_FromFormat("%s %S", kind, key);
    if (k == "item") return PyUnicode_FromFormat("%U[%R]", parent.name.get(), key);
    if (k == "cell") return Ref(parent.name).release();
    if (k == "type") return PyUnicode_FromFormat("type(%U)", parent.name.get());
    if (k == "length") return PyUnicode_FromFormat("len(%U)", parent.name.get());
    return PyUnicode_FromFormat("%U.%S", parent.name.get(), key);
}

static bool resolve_key(Node& node, const char* kind, PyObject* key) {
    bool by_position = node.access == Access::Arg || node.access == Access::Closure;
    bool by_name = node.access == Access::Global || node.access == Access::Builtin || node.access == Access::Attr ||
                   node.access == Access::DictAttr || node.access == Access::TypeAttr || node.access == Access::Slot ||
                       node.access == Access::State;
    if (by_position && !PyLong_Check(key) && !(node.access == Access::Arg && PyUnicode_Check(key))) {
        PyErr_Format(PyExc_TypeError, "guard path %s: the key must be an index, not %R", kind, key);
        return false;
    }
    if (by_name && !PyUnicode_Check(key)) {
        PyErr_Format(PyExc_TypeError, "guard path %s: the key must be a name, not %R", kind, key);
        return false;
    }
    node.weak = node.access == Access::Object && PyType_Check(key) && ((PyTypeObject*)key)->tp_flags & Py_TPFLAGS_HEAPTYPE;
    node.key = node.weak ? Ref(PyWeakref_NewRef(key, nullptr)) : Ref::borrow(key);
    if (!node.key) return false;
    if (by_name && PyUnicode_CheckExact(key)) {
        PyObject* name = node.key.release();
        PyUnicode_InternInPlace(&name);
        node.key = Ref(name);
    }
    if (PyLong_CheckExact(key)) node.number = PyLong_AsSsize_t(key);
    if (PyErr_Occurred()) PyErr_Clear();   // a key too large for an index is still a dictionary key
    if (node.access == Access::Slot) {
        if (!layout.type) {
            PyErr_SetString(PyExc_RuntimeError, "guards on slots need configure(tensor=...)");
            return false;
        }
        node.number = slot_offset(layout.type, PyUnicode_AsUTF8(key));
        if (node.number < 0) return false;
    }
    if (node.access == Access::Object || node.access == Access::Cell || node.access == Access::Type ||
        node.access == Access::Length) return true;
    node.hash = PyObject_Hash(key);
    return node.hash != -1 || !PyErr_Occurred();
}

static bool leads_there(const Node& child, Access access, PyObject* key) {
    if (child.access != access) return false;
    return access == Access::Object ? key_of(child) == key : same_constant(child.key.get(), key);
}

// Equal keys have equal hashes, so places are found by them; keys without a hash never become nodes.
static size_t place_of(Access access, PyObject* key) {
    Py_hash_t hash = access == Access::Object ? (Py_hash_t)((uintptr_t)key >> 4) : PyObject_Hash(key);
    if (hash == -1) PyErr_Clear();
    return (size_t)hash * 16 + (size_t)access;
}

constexpr size_t few_children = 8;

static void name_child(Node* parent, Node* child) {
    if (parent->children.size() <= few_children) return;
    if (parent->named.empty())
        for (Node* known : parent->children) parent->named.emplace(place_of(known->access, key_of(*known)), known);
    else
        parent->named.emplace(place_of(child->access, key_of(*child)), child);
}

static Node* existing_child(Node* parent, Access access, PyObject* key) {
    if (parent->named.empty()) {
        for (Node* child : parent->children)
            if (leads_there(*child, access, key)) return child;
        return nullptr;
    }
    auto [first, last] = parent->named.equal_range(place_of(access, key));
    for (; first != last; ++first)
        if (leads_there(*first->second, access, key)) return first->second;
    return nullptr;
}

static Node* add_child(GuardTree* tree, Node* parent, const char* kind, PyObject* key, PyObject* name) {
    auto access = access_kinds.find(kind);
    if (access == access_kinds.end()) {
        PyErr_Format(PyExc_ValueError, "unknown guard path %R", Ref(PyUnicode_FromString(kind)).get());
        return nullptr;
    }
    if (Node* known = existing_child(parent, access->second, key)) return known;
    if (!may_change(tree)) return nullptr;
    auto node = std::make_unique<Node>();
    node->access = access->second;
    node->index = (int)tree->nodes->size();
    if (!resolve_key(*node, kind, key)) return nullptr;
    node->name = name != Py_None ? Ref::borrow(name) : Ref(default_name(*parent, kind, key));
    if (!node->name) return nullptr;
    parent->children.push_back(node.get());
    tree->nodes->push_back(std::move(node));
    name_child(parent, parent->children.back());
    return parent->children.back();
}

static PyObject* node_child(GuardNode* self, PyObject* args, PyObject* kwargs) {
    static const char* names[] = {"kind", "key", "name", nullptr};
    const char* kind;
    PyObject *key = Py_None, *name = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "s|OO", (char**)names, &kind, &key, &name)) return nullptr;
    Node* child = add_child(self->tree, self->node, kind, key, name);
    return child ? wrap_node(self->tree, child) : nullptr;
}

static bool read_dims(PyObject* payload, const char* name, int64_t scale, int64_t any, std::vector<int64_t>& out) {
    Ref sequence(PySequence_Tuple(PyDict_GetItemString(payload, name)));
    if (!sequence) return false;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(sequence.get()); i++) {
        PyObject* item = PyTuple_GET_ITEM(sequence.get(), i);
        int64_t value = item == Py_None ? any : PyLong_AsLongLong(item);
        if (value == -1 && PyErr_Occurred()) return false;
        out.push_back(item == Py_None ? any : value * scale);
    }
    return true;
}

static bool read_itemsize(TensorCheck& check) {
    if (!check.dtype) return true;
    Ref size(PyObject_GetAttrString(check.dtype.get(), "itemsize"));
    if (size) check.itemsize = PyLong_AsLongLong(size.get());
    return size && !PyErr_Occurred();
}

static bool read_shape(TensorCheck& check, PyObject* payload) {
    if (!PyDict_GetItemString(payload, "sizes")) return true;
    if (!read_dims(payload, "sizes", 1, any_size, check.sizes)) return false;
    check.rank = (int)check.sizes.size();
    check.strides.assign(check.rank, any_stride);
    if (!PyDict_GetItemString(payload, "strides") || PyDict_GetItemString(payload, "strides") == Py_None) return true;
    check.strides.clear();
    if (!read_dims(payload, "strides", check.itemsize, any_stride, check.strides)) return false;
    if ((int)check.strides.size() != check.rank) {
        PyErr_SetString(PyExc_ValueError, "tensor guard: as many strides as sizes are needed");
        return false;
    }
    bool empty = std::find(check.sizes.begin(), check.sizes.end(), 0) != check.sizes.end();
    for (int d = 0; d < check.rank; d++)   // the stride of a dimension of one element, or of no element, means nothing
        if (empty || check.sizes[d] == 1) check.strides[d] = any_stride;
    return true;
}

static bool read_tensor(Check& check, PyObject* payload) {
    if (!PyDict_Check(payload) || !PyDict_GetItemString(payload, "type")) {
        PyErr_SetString(PyExc_TypeError,
                        "tensor guard: the payload is a dict with type, dtype, device, requires_grad, sizes, strides");
        return false;
    }
    check.tensor = std::make_unique<TensorCheck>();
    TensorCheck& tensor = *check.tensor;
    tensor.type.set(PyDict_GetItemString(payload, "type"));
    tensor.dtype = Ref::borrow(PyDict_GetItemString(payload, "dtype"));
    tensor.device = Ref::borrow(PyDict_GetItemString(payload, "device"));
    tensor.memory = Ref::borrow(PyDict_GetItemString(payload, "memory"));
    PyObject* offset = PyDict_GetItemString(payload, "offset");
    if (offset) tensor.offset = PyLong_AsLongLong(offset);
    if (PyErr_Occurred()) return false;
    PyObject* gradient = PyDict_GetItemString(payload, "requires_grad");
    if (gradient && gradient != Py_None) tensor.requires_grad = PyObject_IsTrue(gradient);
    PyObject* leaf = PyDict_GetItemString(payload, "leaf");
    if (leaf && leaf != Py_None) tensor.leaf = PyObject_IsTrue(leaf);
    auto flag = [&](const char* name) {
        PyObject* found = PyDict_GetItemString(payload, name);
        return found && PyObject_IsTrue(found) == 1;
    };
    tensor.no_hooks = flag("no_hooks"), tensor.no_gradient = flag("no_gradient");
    return read_itemsize(tensor) && read_shape(tensor, payload);
}

// (name,): not there; (name, raw): this very object; (name, raw, home): what stands in `home`, no descriptor; (name, function,
// staticmethod or classmethod): such a method of this function. Any of these objects may stand behind a weak reference.
static bool valid_lookups(PyObject* payload) {
    bool valid = PyTuple_Check(payload);
    for (Py_ssize_t i = 0; valid && i < PyTuple_GET_SIZE(payload); i++) {
        PyObject* one = PyTuple_GET_ITEM(payload, i);
        Py_ssize_t size = PyTuple_Check(one) ? PyTuple_GET_SIZE(one) : 0;
        valid = size >= 1 && size <= 3 && PyUnicode_CheckExact(PyTuple_GET_ITEM(one, 0)) &&
                (size < 3 || PyType_Check(referent(PyTuple_GET_ITEM(one, 2))));
    }
    if (!valid) PyErr_SetString(PyExc_TypeError, "lookups: tuples (name[, raw[, home]]) are needed");
    return valid;
}

static bool read_payload(Check& check, PyObject* payload) {
    switch (check.test) {
        case Test::TypeIs: case Test::Is: return check.identity.set(payload);
        case Test::Len: check.number = PyLong_AsLongLong(payload); return !PyErr_Occurred();
        case Test::Bool: check.number = PyObject_IsTrue(payload); return !PyErr_Occurred();
        case Test::Tensor: return read_tensor(check, payload);
        case Test::DictKeys: check.payload = Ref(PySequence_Tuple(payload)); return bool(check.payload);
        case Test::Lookups: check.payload = Ref::borrow(payload); return valid_lookups(payload);
        case Test::NoHooks:
            check.payload = Ref::borrow(payload != Py_None ? payload : layout.hook_names);
            if (!check.payload || !PyTuple_Check(check.payload.get())) {
                PyErr_SetString(PyExc_TypeError, "no_hooks: a tuple of names of hook dictionaries is needed");
                return false;
            }
            return true;
        default: check.payload = Ref::borrow(payload); return true;
    }
}

static bool same_check(const Check& a, const Check& b) {
    if (a.test != b.test || a.test == Test::Tensor || a.number != b.number ||
        a.identity.address != b.identity.address) return false;
    if (a.test == Test::TypeIs || a.test == Test::Is) return true;
    return a.payload.get() == b.payload.get() || (a.payload && b.payload && same_constant(a.payload.get(),
        b.payload.get()));
}

static bool add_check(GuardTree* tree, Node* node, Test test, PyObject* payload, PyObject* describe, PyObject* line) {
    Check check{test};
    if (!read_payload(check, payload)) return false;
    for (const Check& known : node->checks)
        if (same_check(known, check)) return true;
    if (!may_change(tree)) return false;
    check.describe = Ref::borrow(describe != Py_None ? describe : node->name.get());
    check.line = Ref::borrow(line);
    node->checks.push_back(std::move(check));
    return true;
}

static Node* state_node(GuardTree* tree, const char* field) {
    if (!layout.state) {
        PyErr_SetString(PyExc_RuntimeError, "guards on the thread's state need configure(state=...)");
        return nullptr;
    }
    Ref name(PyUnicode_FromString(field));
    return add_child(tree, tree->nodes->front().get(), "state", name.get(), name.get());
}

static PyObject* node_check(GuardNode* self, PyObject* args, PyObject* kwargs) {
    static const char* names[] = {"kind", "payload", "describe", "line", nullptr};
    const char* kind;
    PyObject *payload = Py_None, *describe = Py_None, *line = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "s|OOO", (char**)names, &kind, &payload, &describe,
                                     &line)) return nullptr;
    std::string name = kind;
    Node* node = self->node;
    if (name == "grad_mode" || name == "casting") {
        node = state_node(self->tree, name == "casting" ? "casting" : "grad");
        name = payload == Py_None || PyBool_Check(payload) ? "is" : "equals";
    }
    auto test = test_kinds.find(name);
    if (test == test_kinds.end()) PyErr_Format(PyExc_ValueError, "unknown guard check %s", kind);
    if (!node || test == test_kinds.end() || !add_check(self->tree, node, test->second, payload, describe,
                                                        line)) return nullptr;
    Py_RETURN_NONE;
}

static PyObject* relate(GuardNode* self, PyObject* other, bool same) {
    if (Py_TYPE(other) != node_type || ((GuardNode*)other)->tree != self->tree) {
        PyErr_SetString(PyExc_TypeError, "a node of the same guard tree is needed");
        return nullptr;
    }
    if (!may_change(self->tree)) return nullptr;
    Node *left = self->node, *right = ((GuardNode*)other)->node;
    keep_value(self->tree, left);
    keep_value(self->tree, right);
    self->tree->pairs->push_back({left, right, same});
    Py_RETURN_NONE;
}

static PyObject* node_same_as(GuardNode* self, PyObject* other) { return relate(self, other, true); }
static PyObject* node_not_same(GuardNode* self, PyObject* other) { return relate(self, other, false); }

static PyObject* node_bind(GuardNode* self, PyObject* args, PyObject* kwargs) {
    static const char* names[] = {"symbol", "quantity", "dim", nullptr};
    static const std::unordered_map<std::string, Quantity> quantities = {
        {"size", Quantity::Size}, {"stride", Quantity::Stride}, {"int", Quantity::Int}};
    int symbol, dim = 0;
    const char* quantity;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "is|i", (char**)names, &symbol, &quantity, &dim)) return nullptr;
    auto kind = quantities.find(quantity);
    if (kind == quantities.end() || symbol < 0 || dim < 0) {
        PyErr_Format(PyExc_ValueError, "cannot bind symbol %d to %s %d", symbol, quantity, dim);
        return nullptr;
    }
    GuardTree* tree = self->tree;
    if (!may_change(tree)) return nullptr;
    int position = (int)tree->bindings->size(), first = position;
    for (int i = position - 1; i >= 0; i--)
        if ((*tree->bindings)[i].symbol == symbol) first = (*tree->bindings)[i].first;
    keep_value(tree, self->node);
    tree->bindings->push_back({symbol, self->node, kind->second, dim, first});
    tree->symbols = std::max(tree->symbols, symbol + 1);
    Py_RETURN_NONE;
}

static PyObject* node_name(GuardNode* self, void*) { return Ref(self->node->name ? self->node->name
                                                                : Ref(PyUnicode_FromString("root"))).release(); }

static bool all_bound(GuardTree* tree, const std::vector<int64_t>& code) {
    for (size_t i = 0; i < code.size(); i++) {
        if (code[i] > 1) continue;
        bool symbol = code[i++] == 1, bound = false;
        for (const Binding& binding : *tree->bindings) bound |= binding.symbol == code[i];
        if (symbol && !bound) return false;
    }
    return true;
}

static PyObject* tree_relation(GuardTree* self, PyObject* args, PyObject* kwargs) {
    static const char* names[] = {"code", "describe", "line", "table", "there", nullptr};
    PyObject *code, *describe = Py_None, *line = Py_None, *table = nullptr;
    int there = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|OOO!p", (char**)names, &code, &describe, &line, node_type, &table,
                                     &there)) return nullptr;
    if (table && ((GuardNode*)table)->tree != self) {
        PyErr_SetString(PyExc_ValueError, "relation: the table is a node of this tree");
        return nullptr;
    }
    Ref sequence(PySequence_Tuple(code));
    if (!sequence || !may_change(self)) return nullptr;
    Relation relation;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(sequence.get()); i++) {
        relation.code.push_back(PyLong_AsLongLong(PyTuple_GET_ITEM(sequence.get(), i)));
        if (PyErr_Occurred()) return nullptr;
    }
    const char* problem = invalid_code(relation.code, self->symbols);
    if (!problem && !all_bound(self, relation.code)) problem = "symbol without a binding";
    if (problem) {
        PyErr_Format(PyExc_ValueError, "relation %R: %s", sequence.get(), problem);
        return nullptr;
    }
    relation.describe = describe != Py_None ? Ref::borrow(describe)
        : Ref(PyUnicode_FromString("a relation between sizes"));
    relation.line = Ref::borrow(line);
    if (table) {
        relation.table = ((GuardNode*)table)->node;
        relation.there = there;
        keep_value(self, relation.table);
    }
    self->relations->push_back(std::move(relation));
    Py_RETURN_NONE;
}

static PyObject* tree_alias(GuardTree* self, PyObject* arg) {
    Ref members(PySequence_Tuple(arg));
    if (!members || !may_change(self)) return nullptr;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(members.get()); i++) {
        PyObject* node;
        int group;
        long long distance = 0;
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(members.get(), i), "O!i|L", node_type, &node, &group,
                              &distance)) return nullptr;
        if (((GuardNode*)node)->tree != self || group < 0) {
            PyErr_SetString(PyExc_ValueError, "alias: nodes of this tree and groups from 0 are needed");
            return nullptr;
        }
        keep_value(self, ((GuardNode*)node)->node);
        self->aliases->push_back({((GuardNode*)node)->node, group, distance});
        self->alias_groups = std::max(self->alias_groups, group + 1);
    }
    self->alias_order->clear();
    for (int g = 0; g < self->alias_groups; g++) self->alias_order->push_back(g);
    Py_RETURN_NONE;
}

// ---------------------------------------------------------------------------------------------- the Python face

namespace guards {

Py_ssize_t fetch_slot(GuardTree* tree, PyObject* node) {
    if (Py_TYPE(node) != node_type || ((GuardNode*)node)->tree != tree) {
        PyErr_SetString(PyExc_TypeError, "inputs must be nodes of the entry's guard tree");
        return -1;
    }
    return keep_value(tree, ((GuardNode*)node)->node);
}

bool read_slots(PyObject* values, PyObject* names, std::vector<PyObject*>& out) {
    if (!PyDict_Check(values)) {
        Ref sequence(PySequence_Fast(values, "slots must be a dict or a sequence"));
        if (!sequence) return false;
        for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(sequence.get()); i++)
            out.push_back(PySequence_Fast_GET_ITEM(sequence.get(), i));
        return true;   // borrowed from `values`, which the caller holds
    }
    PyObject *key, *value;
    Py_ssize_t position = 0;
    if (!names) {
        while (PyDict_Next(values, &position, &key, &value)) out.push_back(value);
        return true;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); i++) {
        value = PyDict_GetItemWithError(values, PyTuple_GET_ITEM(names, i));
        if (!value) {
            if (!PyErr_Occurred()) PyErr_SetObject(PyExc_KeyError, PyTuple_GET_ITEM(names, i));
            return false;
        }
        out.push_back(value);
    }
    return true;
}

}  // namespace guards

static bool all_named(GuardTree* tree) {
    for (Node* node : tree->nodes->front()->children)
        if (node->access == Access::Arg && node->number < 0) return false;
    return true;
}

static bool parse_slots(GuardTree* self, PyObject* args, PyObject* kwargs, std::vector<PyObject*>& values,
                        Slots& slots) {
    static const char* names[] = {"slots", "globals", "builtins", "closure", nullptr};
    PyObject *given, *globals = Py_None, *builtins = Py_None, *closure = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|OOO", (char**)names, &given, &globals, &builtins,
                                     &closure)) return false;
    if (PyDict_Check(given)) {
        Ref order(PySequence_Tuple(given));
        if (!order || !name_slots(self, order.get())) return false;
    } else if (!all_named(self)) {
        PyErr_SetString(PyExc_TypeError, "arguments were given to this tree by name: pass the slots as a dict");
        return false;
    }
    if (!read_slots(given, nullptr, values)) return false;
    slots = {values.data(), (Py_ssize_t)values.size(), globals != Py_None ? globals : nullptr,
             builtins != Py_None ? builtins : nullptr, PyTuple_Check(closure) ? closure : nullptr};
    return true;
}

static PyObject* tree_evaluate(GuardTree* self, PyObject* args, PyObject* kwargs) {
    std::vector<PyObject*> values;
    Slots slots;
    if (!parse_slots(self, args, kwargs, values, slots)) return nullptr;
    Fetched fetched(self->fetches);
    return PyBool_FromLong(evaluate(self, slots, fetched));
}

static PyObject* tree_explain(GuardTree* self, PyObject* args, PyObject* kwargs) {
    std::vector<PyObject*> values;
    Slots slots;
    return parse_slots(self, args, kwargs, values, slots) ? explain(self, slots) : nullptr;
}

static PyObject* tree_root(GuardTree* self, void*) { return wrap_node(self, self->nodes->front().get()); }

static PyObject* tree_child(GuardTree* self, PyObject* args, PyObject* kwargs) {
    Ref root(tree_root(self, nullptr));
    return root ? node_child((GuardNode*)root.get(), args, kwargs) : nullptr;
}

// One line of text per check, for the `guards` log and dump.
static PyObject* tree_lines(GuardTree* self, PyObject*) {
    Ref list(PyList_New(0));
    auto add = [&](PyObject* text) { Ref line(text); return line && PyList_Append(list.get(), line.get()) == 0; };
    for (auto& node : *self->nodes)
        for (const Check& check : node->checks) {
            bool placed = check.line && PyUnicode_Check(check.line.get()) && PyUnicode_GetLength(check.line.get()) > 0;
            if (!add(placed ? PyUnicode_FromFormat("%S   # %S", check.describe.get(), check.line.get())
                            : PyObject_Str(check.describe.get())))
                return nullptr;
        }
    for (const Relation& relation : *self->relations)
        if (!add(PyUnicode_FromFormat("relation: %S", relation.describe.get()))) return nullptr;
    if (!self->aliases->empty() && !add(PyUnicode_FromFormat("memory: %d groups of %zd tensors", self->alias_groups,
                                                             (Py_ssize_t)self->aliases->size()))) return nullptr;
    return list.release();
}

static PyObject* tree_freeze(GuardTree* self, PyObject*) {
    freeze(self);
    Py_RETURN_NONE;
}

static PyObject* tree_counts(GuardTree* self, PyObject*) {
    const Snapshot* s = self->snapshot;
    return Py_BuildValue("{s:n,s:n,s:n,s:n,s:n,s:n}", "polled", self->polled, "walked", self->walked, "facts",
                         (Py_ssize_t)(s ? s->facts.size() : 0), "tensors", (Py_ssize_t)(s ? s->tensors.size() : 0), "loose",
                         (Py_ssize_t)(s ? s->loose.size() : 0), "front", (Py_ssize_t)(s ? s->front.size() : 0));
}

static PyObject* tree_new(PyTypeObject* type, PyObject*, PyObject*) {
    GuardTree* self = (GuardTree*)type->tp_alloc(type, 0);
    if (!self) return nullptr;
    self->nodes = new std::vector<std::unique_ptr<Node>>();
    self->nodes->push_back(std::make_unique<Node>());
    self->bindings = new std::vector<Binding>();
    self->relations = new std::vector<Relation>();
    self->pairs = new std::vector<Pair>();
    self->aliases = new std::vector<AliasMember>();
    self->alias_order = new std::vector<int>();
    return (PyObject*)self;
}

static int visit_check(const Check& check, visitproc visit, void* arg) {
    Py_VISIT(check.payload.get());
    Py_VISIT(check.identity.strong.get());
    if (check.tensor) {
        Py_VISIT(check.tensor->type.strong.get());
        Py_VISIT(check.tensor->dtype.get());
        Py_VISIT(check.tensor->device.get());
    }
    return 0;
}

static int tree_traverse(GuardTree* self, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(self));
    for (auto& node : *self->nodes) {
        Py_VISIT(node->key.get());
        for (const Check& check : node->checks)
            if (int stop = visit_check(check, visit, arg)) return stop;
    }
    return 0;
}

// Node objects may outlive this, so the nodes stay; a cleared tree accepts nothing, for no value has a length of -2.
static int tree_clear(GuardTree* self) {
    release(std::exchange(self->snapshot, nullptr));
    std::vector<Ref> dying_keys;
    std::vector<Check> dying_checks;
    for (auto& node : *self->nodes) {
        dying_keys.push_back(std::move(node->key));
        for (Check& check : node->checks) dying_checks.push_back(std::move(check));
        node->checks.clear();
        node->children.clear();
        node->named.clear();
    }
    Check never{Test::Len};
    never.number = -2;
    self->nodes->front()->checks.push_back(std::move(never));
    return 0;
}

static void tree_dealloc(GuardTree* self) {
    PyTypeObject* type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    release(self->snapshot);
    delete self->bindings; delete self->relations; delete self->pairs; delete self->aliases; delete self->alias_order;
    delete self->nodes;
    type->tp_free(self);
    Py_DECREF(type);
}

static int node_traverse(GuardNode* self, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self->tree);
    return 0;
}

static void node_dealloc(GuardNode* self) {
    PyTypeObject* type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    Py_DECREF(self->tree);
    PyObject_GC_Del(self);
    Py_DECREF(type);
}

#define METHOD(name, function, flags, doc) {name, (PyCFunction)(void (*)(void))function, flags, doc}

static PyMethodDef tree_methods[] = {
    METHOD("child", tree_child, METH_VARARGS | METH_KEYWORDS, "child(kind, key=None, name=None) of the root"),
    METHOD("relation", tree_relation, METH_VARARGS | METH_KEYWORDS,
           "relation(code, describe='', line='', table=node, there=False): stack code over bound symbols; with a table, of a key"),
    METHOD("alias", tree_alias, METH_O,
           "alias([(node, group, byte distance), ...]): one group shares memory, groups do not overlap"),
    METHOD("evaluate", tree_evaluate, METH_VARARGS | METH_KEYWORDS,
           "evaluate(slots, globals, builtins, closure) -> bool"),
    METHOD("explain", tree_explain, METH_VARARGS | METH_KEYWORDS,
           "explain(slots, globals, builtins, closure) -> list of GuardFailure"),
    METHOD("freeze", tree_freeze, METH_NOARGS, "the tree is complete; from now on it may keep snapshots of what it found"),
    METHOD("counts", tree_counts, METH_NOARGS,
           "acceptances by the snapshot and by walking; what the present snapshot covers"),
    METHOD("lines", tree_lines, METH_NOARGS, "the checks as lines of text"),
    {nullptr}};
static PyGetSetDef tree_getset[] = {{"root", (getter)tree_root, nullptr, "the node without a value", nullptr},
                                    {nullptr}};
static PyType_Slot tree_slots[] = {
    {Py_tp_new, (void*)tree_new}, {Py_tp_dealloc, (void*)tree_dealloc}, {Py_tp_traverse, (void*)tree_traverse},
    {Py_tp_clear, (void*)tree_clear}, {Py_tp_methods, tree_methods}, {Py_tp_getset, tree_getset},
    {Py_tp_doc, (void*)"What must hold for an entry to serve a call."}, {0, nullptr}};
static PyType_Spec tree_spec = {"flambeau.capture._capture.GuardTree", sizeof(GuardTree), 0,
                                Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, tree_slots};

static PyMethodDef node_methods[] = {
    METHOD("child", node_child, METH_VARARGS | METH_KEYWORDS,
           "child(kind, key=None, name=None): a place reached from this one"),
    METHOD("check", node_check, METH_VARARGS | METH_KEYWORDS, "check(kind, payload=None, describe='', line='')"),
    METHOD("same_as", node_same_as, METH_O, "both places hold one object"),
    METHOD("not_same", node_not_same, METH_O, "the places hold two objects"),
    METHOD("bind", node_bind, METH_VARARGS | METH_KEYWORDS, "bind(symbol, 'size'|'stride'|'int', dim=0)"),
    {nullptr}};
static PyGetSetDef node_getset[] = {{"name", (getter)node_name, nullptr, "the place, as the user would write it",
                                     nullptr}, {nullptr}};
static PyType_Slot node_slots[] = {
    {Py_tp_dealloc, (void*)node_dealloc}, {Py_tp_traverse, (void*)node_traverse}, {Py_tp_methods, node_methods},
    {Py_tp_getset, node_getset}, {Py_tp_doc, (void*)"A place in a guard tree."}, {0, nullptr}};
static PyType_Spec node_spec = {"flambeau.capture._capture.GuardNode", sizeof(GuardNode), 0,
                                Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                    node_slots};

static PyStructSequence_Field failure_fields[] = {
    {"kind", "what was compared: size, stride, int, dtype, type, missing, ..."}, {"name", "the place"},
    {"describe", "the guard in words"}, {"old", "what the entry was made for"}, {"new", "what is there now"},
    {"line", "the user's line that needs it"}, {"dim", "dimension of a size or stride"}, {nullptr}};
static PyStructSequence_Desc failure_desc = {"flambeau.capture._capture.GuardFailure", "One guard that does not hold.",
                                             failure_fields, 7};

int add_guard_types(PyObject* module) {
    tree_type = (PyTypeObject*)PyType_FromSpec(&tree_spec);
    node_type = (PyTypeObject*)PyType_FromSpec(&node_spec);
    failure_type = PyStructSequence_NewType(&failure_desc);
    if (!tree_type || !node_type || !failure_type) return -1;
    if (PyModule_AddObjectRef(module, "GuardTree", (PyObject*)tree_type) < 0) return -1;
    if (PyModule_AddObjectRef(module, "GuardNode", (PyObject*)node_type) < 0) return -1;
    return PyModule_AddObjectRef(module, "GuardFailure", (PyObject*)failure_type);
}
