// Recording and polling of snapshots.
#include "snapshot.h"

namespace guards {

// ---------------------------------------------------------------------------------------------- recording

namespace {

enum class Found { Fails, Still, Bears, Loose };   // Still: can never change while it is the same object

class Recorder {
  public:
    Recorder(Snapshot& out, const Slots& slots) : out_(out), slots_(slots) {}
    Found capture(const Node& node, PyObject* value);
    bool root(const Node& node);

  private:
    Found still(const Node& node, PyObject* value);
    Found tensor(const Node& node, PyObject* value);
    Found container(const Node& node, PyObject* value, Kind kind);
    bool children(const Node& node, PyObject* value, std::vector<Key>& keys);
    bool checks(const Node& node, PyObject* value);
    Found anchor(const Node& node, const Node* through);
    void describe(Fact& fact, Kind kind, PyObject* value);
    void know(PyTypeObject* type);

    Snapshot& out_;
    const Slots& slots_;
};

bool is_identity(const Node& node) {
    for (const Check& check : node.checks)
        if (check.test != Test::Is) return false;
    return node.children.empty();
}

// The one check of a tensor whose other checks are of its identity, and whose children are its slots; or null.
const Check* tensor_check(const Node& node) {
    const Check* found = nullptr;
    for (const Check& check : node.checks) {
        if (check.test == Test::Is) continue;
        if (check.test != Test::Tensor || found) return nullptr;
        found = &check;
    }
    for (const Node* child : node.children)
        if (child->access != Access::Slot) return nullptr;
    return found;
}

void keep_value(Snapshot& snapshot, const Node& node, PyObject* value) {
    if (node.fetch < 0 || snapshot.values[node.fetch] == value) return;
    snapshot.values[node.fetch] = value;
    if (snapshot.related_slots[node.fetch]) snapshot.generation++;
}

// Checks and children of a value that can be told without anybody's code; kept values go to `values`.
Truth pure_walk(const Node& node, PyObject* value, const Slots& slots, Snapshot& snapshot) {
    for (const Check& check : node.checks)
        if (Truth told = pure_check(check, value); told != Truth::Yes) return told;
    keep_value(snapshot, node, value);
    for (const Node* child : node.children) {
        PyObject* next = nullptr;
        if (Truth told = pure_step(*child, value, slots, next); told != Truth::Yes) return told;
        if (Truth told = pure_walk(*child, next, slots, snapshot); told != Truth::Yes) return told;
    }
    return Truth::Yes;
}

PyDictObject* dict_of(PyObject* object, PyObject**& place) {
    place = PyType_Check(object) ? nullptr : _PyObject_GetDictPtr(object);
    PyObject* dict = place ? *place : nullptr;
    return dict && PyDict_CheckExact(dict) && plain_keys(dict) ? (PyDictObject*)dict : nullptr;
}

// A dictionary of which only keys are read that are compared by identity.
bool keyed_by_tensors(const Node& node, PyObject* value) {
    if (!PyDict_Check(value) || node.children.empty()) return false;
    for (const Node* child : node.children)
        if (child->access != Access::Item || !layout.is_tensor(child->key.get())) return false;
    return true;
}

Kind kind_of(const Node& node, PyObject* value) {
    if (PyType_Check(value)) return Kind::Class;
    if (keyed_by_tensors(node, value)) return Kind::Dict;
    if (PyDict_CheckExact(value)) return plain_keys(value) ? Kind::Dict : Kind::Open;
    if (PyList_CheckExact(value) || PyTuple_Check(value) || PyFunction_Check(value)) return Kind::Open;
    PyObject** place;
    return dict_of(value, place) ? Kind::Instance : Kind::Open;
}

Found Recorder::still(const Node& node, PyObject* value) {
    Truth told = pure_walk(node, value, slots_, out_);
    return told == Truth::Yes ? Found::Still : told == Truth::No ? Found::Fails : Found::Loose;
}

void Recorder::know(PyTypeObject* type) {
    if (!(type->tp_flags & Py_TPFLAGS_HEAPTYPE)) return;
    for (auto& known : out_.types)
        if (known.first == type) return;
    Ref weak(PyWeakref_NewRef((PyObject*)type, nullptr));
    if (!weak) PyErr_Clear();
    out_.types.emplace_back(type, std::move(weak));
}

void take_tensor(Snapshot& out, TensorFact& fact, PyObject* value) {
    PyArrayObject* array = layout.array_of(value);
    auto at = [&](Py_ssize_t offset) { return slot(value, offset); };
    int rank = PyArray_NDIM(array), first = fact.tensor && fact.rank == rank ? fact.first_dim : (int)out.dims.size();
    const TensorCheck& check = *fact.check->tensor;
    fact = {fact.check, check.no_hooks, check.no_gradient, fact.first_key, fact.keys, value, Py_TYPE(value), (PyObject*)array, at(layout.dtype), at(layout.device),
            at(layout.requires_grad), at(layout.grad_fn), (char*)PyArray_DATA(array), rank, first};
    if (out.dims.size() < size_t(first + 2 * rank)) out.dims.resize(first + 2 * rank);
    std::copy(PyArray_DIMS(array), PyArray_DIMS(array) + rank, out.dims.begin() + first);
    std::copy(PyArray_STRIDES(array), PyArray_STRIDES(array) + rank, out.dims.begin() + first + rank);
}

Found Recorder::tensor(const Node& node, PyObject* value) {
    const Check* check = tensor_check(node);
    if (!check || check->tensor->memory) return Found::Loose;
    for (const Check& one : node.checks)
        if (Truth told = pure_check(one, value); told != Truth::Yes) return told == Truth::No ? Found::Fails : Found::Loose;
    size_t position = out_.tensors.size();
    TensorFact fact{check};
    take_tensor(out_, fact, value);
    know(fact.type);
    out_.tensors.push_back(fact);
    std::vector<Key> keys;
    if (!children(node, value, keys)) return Found::Fails;
    out_.tensors[position].first_key = (int)out_.keys.size();
    out_.tensors[position].keys = (int)keys.size();
    out_.keys.insert(out_.keys.end(), keys.begin(), keys.end());
    return Found::Bears;
}

bool collect_hooks(const Node& node, PyDictObject* dict, std::vector<PyDictObject*>& hooks) {
    for (const Check& check : node.checks) {
        if (check.test != Test::NoHooks) continue;
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(check.payload.get()); i++) {
            PyObject* found = PyDict_GetItemWithError((PyObject*)dict, PyTuple_GET_ITEM(check.payload.get(), i));
            if (!found || found == Py_None) continue;
            if (!PyDict_Check(found)) return false;
            hooks.push_back((PyDictObject*)found);
        }
    }
    return true;
}

void Recorder::describe(Fact& fact, Kind kind, PyObject* value) {
    fact.kind = kind;
    fact.object = value;
    fact.type = Py_TYPE(value);
    know(fact.type);
    if (kind == Kind::Instance) fact.dict = dict_of(value, fact.place);
    if (kind == Kind::Dict) fact.dict = (PyDictObject*)value;
    if (fact.dict && own_values(fact.dict)) fact.tag = dict_version(fact.dict);
    if (kind == Kind::Class) {
        know((PyTypeObject*)value);
        fact.tag = ((PyTypeObject*)value)->tp_version_tag;
    }
}

// What the facts do not cover is looked at in every call.
bool Recorder::checks(const Node& node, PyObject* value) {
    for (const Check& check : node.checks) {
        Truth told = pure_check(check, value);
        if (told == Truth::No) return false;
        if (told == Truth::Impure) out_.loose.push_back({nullptr, &check, value});
    }
    return true;
}

bool Recorder::children(const Node& node, PyObject* value, std::vector<Key>& keys) {
    for (const Node* child : node.children) {
        PyObject* next = nullptr;
        Truth told = pure_step(*child, value, slots_, next);
        if (told == Truth::No) return false;
        Found found = told == Truth::Impure || child->restless ? Found::Loose : capture(*child, next);
        if (found == Found::Fails) return false;
        if (found == Found::Loose) out_.loose.push_back({child, nullptr, value});
        else keys.push_back({child, next, found == Found::Bears,
                             child->access == Access::Item && PyList_CheckExact(value) ? child->number : -1});
    }
    return true;
}

Found Recorder::container(const Node& node, PyObject* value, Kind kind) {
    size_t position = out_.facts.size();
    out_.facts.push_back(Fact{});
    Fact fact{};
    fact.node = &node;
    describe(fact, kind, value);
    if (!checks(node, value)) return Found::Fails;
    if (fact.dict) {
        std::vector<PyDictObject*> hooks;
        if (!collect_hooks(node, fact.dict, hooks)) return Found::Fails;
        fact.first_hook = (int)out_.hooks.size();
        fact.hooks = (int)hooks.size();
        out_.hooks.insert(out_.hooks.end(), hooks.begin(), hooks.end());
    }
    keep_value(out_, node, value);
    std::vector<Key> keys;
    if (!children(node, value, keys)) return Found::Fails;
    if (kind == Kind::Class) fact.tag = ((PyTypeObject*)value)->tp_version_tag;   // a look-up may have made one
    fact.first_key = (int)out_.keys.size();
    fact.keys = (int)keys.size();
    out_.keys.insert(out_.keys.end(), keys.begin(), keys.end());
    out_.facts[position] = fact;
    return Found::Bears;
}

Found Recorder::capture(const Node& node, PyObject* value) {
    if (is_plain(value)) return still(node, value);
    if (layout.is_tensor(value)) {
        Found found = tensor(node, value);
        if (found == Found::Bears) keep_value(out_, node, value);
        return found;
    }
    if (is_identity(node)) {
        return still(node, value);
    }
    return container(node, value, kind_of(node, value));
}

// A place at the root, or in a cell of the closure: pinned to the recorded object, or walked in every call.
Found Recorder::anchor(const Node& node, const Node* through) {
    PyObject *above = Py_None, *value = nullptr;
    if (through && pure_step(*through, Py_None, slots_, above) != Truth::Yes) return Found::Loose;
    if (pure_step(node, above, slots_, value) != Truth::Yes) return Found::Loose;
    if (is_plain(value) || layout.is_tensor(value) || is_identity(node)) return Found::Loose;
    Found found = capture(node, value);
    if (found == Found::Bears) out_.anchors.push_back({through, &node, value});
    return found;
}

bool is_way_to_cell(const Node& node) {
    return node.access == Access::Closure && node.checks.empty() && node.fetch < 0 && node.children.size() == 1 &&
           node.children[0]->access == Access::Cell;
}

bool Recorder::root(const Node& node) {
    if (!node.checks.empty()) return false;
    for (const Node* child : node.children) {
        Found found = is_way_to_cell(*child) ? anchor(*child->children[0], child) : anchor(*child, nullptr);
        if (found == Found::Fails) return false;
        if (found != Found::Bears) out_.front.push_back(child);
    }
    return true;
}

// ---------------------------------------------------------------------------------------------- relations

bool is_recorded(const Snapshot& snapshot, const Node* node) { return snapshot.values[node->fetch] != nullptr; }

struct Span { int64_t low = 0, high = 0, origin = 0; bool seen = false; };

bool extend(Span& span, const AliasMember& member, PyObject* tensor) {
    PyArrayObject* array = layout.array_of(tensor);
    int64_t low, high;
    if (!array) return false;
    if (!extent(array, itemsize_of(tensor), low, high)) return true;
    int64_t origin = reinterpret_cast<int64_t>(PyArray_DATA(array)) - member.distance;
    if (!span.seen) {
        span = {low, high, origin, true};
        return true;
    }
    span.low = std::min(span.low, low);
    span.high = std::max(span.high, high);
    return span.origin == origin;
}

void relate(const GuardTree* tree, Snapshot& snapshot) {
    snapshot.pairs.clear();
    for (const Pair& pair : *tree->pairs)
        if (!is_recorded(snapshot, pair.left) || !is_recorded(snapshot, pair.right)) snapshot.pairs.push_back(pair);
    std::vector<char> moves(tree->alias_groups);
    for (const AliasMember& member : *tree->aliases)
        if (!is_recorded(snapshot, member.node)) moves[member.group] = 1;
    std::vector<Span> spans(tree->alias_groups);
    snapshot.moving.clear();
    snapshot.intervals.clear();
    for (const AliasMember& member : *tree->aliases) {
        if (moves[member.group]) snapshot.moving.push_back(member);
        else extend(spans[member.group], member, snapshot.values[member.node->fetch]);
    }
    for (const Span& span : spans)
        if (span.seen) snapshot.intervals.emplace_back(span.low, span.high);
    std::sort(snapshot.intervals.begin(), snapshot.intervals.end());
    std::stable_sort(snapshot.moving.begin(), snapshot.moving.end(),
                     [](const AliasMember& a, const AliasMember& b) { return a.group < b.group; });
    snapshot.related = snapshot.generation;
}

// Recorded groups lie apart from one another; the others must lie apart from them and from one another.
bool apart(const Snapshot& snapshot, std::vector<std::pair<int64_t, int64_t>>& spans) {
    std::sort(spans.begin(), spans.end());
    for (size_t i = 0; i < spans.size(); i++) {
        if (i > 0 && spans[i].first < spans[i - 1].second) return false;
        auto next = std::lower_bound(snapshot.intervals.begin(), snapshot.intervals.end(),
                                     std::make_pair(spans[i].first, INT64_MIN));
        if (next != snapshot.intervals.end() && next->first < spans[i].second) return false;
        if (next != snapshot.intervals.begin() && std::prev(next)->second > spans[i].first) return false;
    }
    return true;
}

bool moving_apart(const Snapshot& snapshot, Fetched& fetched) {
    static thread_local std::vector<std::pair<int64_t, int64_t>> spans;
    spans.clear();
    for (size_t i = 0; i < snapshot.moving.size();) {
        Span span;
        int group = snapshot.moving[i].group;
        for (; i < snapshot.moving.size() && snapshot.moving[i].group == group; i++)
            if (!extend(span, snapshot.moving[i], fetched[snapshot.moving[i].node->fetch])) return false;
        if (span.seen) spans.emplace_back(span.low, span.high);
    }
    return apart(snapshot, spans);
}

// ---------------------------------------------------------------------------------------------- polling

bool is_loose(const Snapshot& snapshot, const Check& check, PyObject* value) {
    for (const Loose& loose : snapshot.loose)
        if (loose.check == &check && loose.value == value) return true;
    return false;
}

// A version has moved: whether what was read is still there. Names that nobody read do not matter.
bool refresh(Snapshot& snapshot, Fact& fact, const Slots& slots) {
    for (const Check& check : fact.node->checks)
        if (pure_check(check, fact.object) != Truth::Yes && !is_loose(snapshot, check, fact.object)) return false;
    if (fact.dict) {
        std::vector<PyDictObject*> hooks;
        if ((fact.kind == Kind::Instance && !plain_keys((PyObject*)fact.dict)) || !collect_hooks(*fact.node, fact.dict, hooks) ||
            (int)hooks.size() != fact.hooks) return false;
        std::copy(hooks.begin(), hooks.end(), snapshot.hooks.begin() + fact.first_hook);
    }
    for (int i = fact.first_key; i < fact.first_key + fact.keys; i++) {
        Key& key = snapshot.keys[i];
        if (key.bears && key.item >= 0 && key.item < PyList_GET_SIZE(fact.object) &&
            PyList_GET_ITEM(fact.object, key.item) == key.value) continue;
        PyObject* now = nullptr;
        if (pure_step(*key.node, fact.object, slots, now) != Truth::Yes) return false;
        if (key.bears ? now != key.value : pure_walk(*key.node, now, slots, snapshot) != Truth::Yes) return false;
        key.value = now;
    }
    if (fact.dict && own_values(fact.dict)) fact.tag = dict_version(fact.dict);
    if (fact.kind == Kind::Class) fact.tag = ((PyTypeObject*)fact.object)->tp_version_tag;
    return true;
}

inline bool unchanged(const Fact& fact) {
    switch (fact.kind) {
        case Kind::Instance: case Kind::Dict: return fact.tag && dict_version(fact.dict) == fact.tag;
        case Kind::Class: return fact.tag && ((PyTypeObject*)fact.object)->tp_version_tag == fact.tag;
        case Kind::Open: break;
    }
    return false;
}

bool holds_still(Snapshot& snapshot, Fact& fact, const Slots& slots) {
    if (Py_TYPE(fact.object) != fact.type || (fact.place && *fact.place != (PyObject*)fact.dict)) return false;
    if (!unchanged(fact) && !refresh(snapshot, fact, slots)) return false;
    for (int i = fact.first_hook; i < fact.first_hook + fact.hooks; i++)
        if (snapshot.hooks[i]->ma_used != 0) return false;
    return true;
}

bool same_tensor(const Snapshot& snapshot, const TensorFact& fact) {
    PyObject* tensor = fact.tensor;
    auto at = [&](Py_ssize_t offset) { return slot(tensor, offset); };
    if (Py_TYPE(tensor) != fact.type || at(layout.array) != fact.array || at(layout.dtype) != fact.dtype ||
        at(layout.device) != fact.device || at(layout.requires_grad) != fact.requires_grad ||
        at(layout.grad_fn) != fact.grad_fn || (fact.no_hooks && layout.holds(tensor, layout.hooks)) ||
        (fact.no_gradient && layout.holds(tensor, layout.grad))) return false;
    PyArrayObject* array = (PyArrayObject*)fact.array;
    if (Py_TYPE(array) != layout.ndarray || (char*)PyArray_DATA(array) != fact.data || PyArray_NDIM(array) != fact.rank)
        return false;
    const int64_t* dims = snapshot.dims.data() + fact.first_dim;
    const npy_intp *sizes = PyArray_DIMS(array), *strides = PyArray_STRIDES(array);
    for (int d = 0; d < fact.rank; d++)
        if (sizes[d] != dims[d] || strides[d] != dims[d + fact.rank]) return false;
    return true;
}

bool refresh_tensor(Snapshot& snapshot, TensorFact& fact) {
    if (Py_TYPE(fact.tensor) != fact.type || pure_check(*fact.check, fact.tensor) != Truth::Yes) return false;
    take_tensor(snapshot, fact, fact.tensor);
    snapshot.generation++;
    return true;
}

// Whether a tensor's slots hold what they held. Where one does not, others of this name will change as well, gradients most
// of all: the next snapshot leaves them to be walked.
bool same_slots(Snapshot& snapshot, const TensorFact& fact) {
    for (int i = fact.first_key; i < fact.first_key + fact.keys; i++) {
        const Key& key = snapshot.keys[i];
        if (slot(fact.tensor, key.node->number) == key.value) continue;
        for (const Key& other : snapshot.keys)
            if (other.node->access == Access::Slot && other.node->number == key.node->number) other.node->restless = true;
        return false;
    }
    return true;
}

bool all_alive(const Snapshot& snapshot) {
    for (auto& type : snapshot.types)
        if (!type.second || PyWeakref_GET_OBJECT(type.second.get()) != (PyObject*)type.first) return false;
    return true;
}

bool anchored(const Snapshot& snapshot, const Slots& slots) {
    for (const Anchor& anchor : snapshot.anchors) {
        PyObject *above = Py_None, *now = nullptr;
        if (anchor.through && pure_step(*anchor.through, Py_None, slots, above) != Truth::Yes) return false;
        if (pure_step(*anchor.node, above, slots, now) != Truth::Yes || now != anchor.value) return false;
    }
    return true;
}

bool facts_hold(Snapshot& snapshot, const Slots& slots) {
    if (!anchored(snapshot, slots) || !all_alive(snapshot)) return false;
    for (Fact& fact : snapshot.facts)
        if (!holds_still(snapshot, fact, slots)) return false;
    for (TensorFact& fact : snapshot.tensors)
        if ((!same_tensor(snapshot, fact) && !refresh_tensor(snapshot, fact)) || !same_slots(snapshot, fact)) return false;
    return true;
}

bool loose_hold(const Snapshot& snapshot, const Slots& slots, Fetched& fetched) {
    std::vector<Ref> held;                 // what follows may run the user's code
    for (const Loose& loose : snapshot.loose) held.push_back(Ref::borrow(loose.value));
    for (const Loose& loose : snapshot.loose)
        if (loose.check ? !passes(*loose.check, loose.value) : !walk_child(*loose.node, loose.value, slots, fetched))
            return false;
    return true;
}

}  // namespace

Truth poll(GuardTree* tree, Snapshot* snapshot, const Slots& slots, Fetched& fetched) {
    for (const Node* node : snapshot->front)
        if (!walk_child(*node, Py_None, slots, fetched)) return Truth::No;
    if (!facts_hold(*snapshot, slots)) return Truth::Impure;
    for (size_t i = 0; i < snapshot->values.size(); i++)
        if (snapshot->values[i]) fetched.put(i, snapshot->values[i]);
    if (snapshot->loose.empty()) return Truth::Yes;
    unsigned generation = snapshot->generation;
    if (!loose_hold(*snapshot, slots, fetched)) return Truth::No;
    return generation == snapshot->generation ? Truth::Yes : Truth::Impure;   // another thread saw something else
}

bool relations_hold(GuardTree* tree, Snapshot* snapshot, Fetched& fetched) {
    if (!symbols_hold(tree, fetched)) return false;
    if (snapshot->related != snapshot->generation) {
        if (!pairs_hold(*tree->pairs, fetched) || !aliases_hold(tree, fetched)) return false;
        relate(tree, *snapshot);
        return true;
    }
    return pairs_hold(snapshot->pairs, fetched) && (snapshot->moving.empty() || moving_apart(*snapshot, fetched));
}

Snapshot* record(GuardTree* tree, const Slots& slots) {
    auto snapshot = std::make_unique<Snapshot>();
    snapshot->values.assign(tree->fetches, nullptr);
    snapshot->related_slots.assign(tree->fetches, 0);
    auto related = [&](const Node* node) { snapshot->related_slots[node->fetch] = 1; };
    for (const Pair& pair : *tree->pairs) { related(pair.left); related(pair.right); }
    for (const AliasMember& member : *tree->aliases) related(member.node);
    if (!Recorder(*snapshot, slots).root(*tree->nodes->front())) return nullptr;
    if (snapshot->facts.size() + snapshot->tensors.size() < 2) return nullptr;
    relate(tree, *snapshot);
    return snapshot.release();
}

void release(Snapshot* snapshot) {
    if (snapshot && --snapshot->users == 0) delete snapshot;
}

}  // namespace guards

