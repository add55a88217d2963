// The parts of a guard tree. Nodes are places reachable from a call's slots; checks are what must hold there.
#pragma once

#include "guards.h"
#include "eager_classes.h"

namespace guards {

enum class Access : uint8_t {
    Root, Arg, Closure, Cell, Global, Builtin, Object, Attr, DictAttr, Item, Type, TypeAttr, Slot, State, Length
};

enum class Test : uint8_t {
    TypeIs, Is, Equals, Len, DictKeys, NoDictAttr, NoAttr, NoItem, HasItem, Bool, NoHooks, Predicate, Tensor, Lookups
};

// An object compared by identity. Held weakly where possible: a guard must not keep the user's objects alive, and a
// dead weak reference tells a new object at the old address from the old one.
struct Identity {
    PyObject* address = nullptr;
    Ref weak, strong;

    bool set(PyObject* object);
    bool matches(PyObject* object) const {
        return object == address && (strong || PyWeakref_GET_OBJECT(weak.get()) == object);
    }
    PyObject* now() const { return strong ? strong.get() : PyWeakref_GET_OBJECT(weak.get()); }   // None when dead
};

constexpr int64_t any_size = -1;
constexpr int64_t any_stride = INT64_MIN;

struct TensorCheck {
    Identity type;
    Ref dtype, device;
    Ref memory;                        // the type of the storage of a tensor without an array (on a GPU); null: it has one
    int64_t offset = 0;                // of such a tensor, in elements
    int64_t itemsize = 1;
    int requires_grad = -1;            // -1: not compared
    int leaf = -1;                     // has no grad_fn; -1: not compared
    bool no_hooks = false, no_gradient = false;   // hooks of the tensor, and `.grad`, must be absent
    int rank = -1;                     // -1: neither rank nor sizes are compared
    std::vector<int64_t> sizes;        // any_size: symbolic
    std::vector<int64_t> strides;      // bytes; any_stride: symbolic
};

struct Check {
    Test test;
    Identity identity;
    Ref payload;
    int64_t number = 0;
    std::unique_ptr<TensorCheck> tensor;
    Ref describe, line;
};

struct Node {
    Access access = Access::Root;
    int index = 0;                     // position in the tree
    Ref key;                           // str, constant or pinned object
    bool weak = false;                 // `key` is a weak reference to the pinned object, a class of the program
    Py_hash_t hash = -1;
    Py_ssize_t number = -1;            // int key
    int fetch = -1;                    // where to keep the value
    mutable bool restless = false;     // a slot of a tensor whose value was seen to change: no snapshot relies on it
    std::vector<Check> checks;
    std::vector<Node*> children;
    std::unordered_multimap<size_t, Node*> named;   // children by access and hash of the key; empty while they are few
    Ref name;                          // str for people and for options.symbolic
};

// The key that a node was made with; None when it is gone.
inline PyObject* key_of(const Node& node) { return node.weak ? PyWeakref_GET_OBJECT(node.key.get()) : node.key.get(); }

enum class Quantity : uint8_t { Size, Stride, Int };

struct Binding {
    int symbol; Node* node; Quantity quantity; int dim; int first;   // first: index of the symbol's first binding
};
// With a `table`, the number that the code leaves is a key that must (not) be in the container found there.
struct Relation { std::vector<int64_t> code; Ref describe, line; Node* table = nullptr; bool there = false; };
struct Pair { Node* left; Node* right; bool same; };
struct AliasMember { Node* node; int group; int64_t distance; };   // bytes from the group's origin

// The value a node's path leads to from its parent's value. `owned` receives it where it is a new reference. Null
// (never with an exception set) where the path leads nowhere.
PyObject* step(const Node& node, PyObject* parent, const Slots& slots, Ref& owned);
bool passes(const Check& check, PyObject* value);
bool passes_tensor(const TensorCheck& check, PyObject* value);
bool lies_in(const TensorCheck& check, PyObject* tensor);   // in memory of the kind that a tensor without an array must have
bool is_bare(const TensorCheck& check, PyObject* tensor);   // without the hooks and the gradient that it must not have
PyObject* instance_dict(PyObject* value);   // borrowed or null
bool same_constant(PyObject* left, PyObject* right);
PyObject* referent(PyObject* expected);   // behind a weak reference, or itself; borrowed
bool lookup_holds(PyObject* cls, PyObject* expected);   // one member of a Lookups check

// Reads a bound quantity; false when the value has none (wrong type, no such dimension, not a 64-bit int).
bool read_quantity(const Binding& binding, PyObject* value, int64_t& out);

// Runs stack code over int64 symbols. A false, overflowing or undefined relation does not hold.
bool holds(const Relation& relation, const int64_t* symbols, Fetched& fetched);
bool has_key(PyObject* container, PyObject* key);
const char* invalid_code(const std::vector<int64_t>& code, int symbols);   // why code cannot be run, or null

// Bytes covered by an array; false when it covers none.
bool extent(PyArrayObject* array, int64_t itemsize, int64_t& low, int64_t& high);
bool aliases_match(const std::vector<AliasMember>& members, int groups, std::vector<int>& order, Fetched& fetched);

struct Snapshot;

}  // namespace guards

// The Python objects.
struct GuardTree {
    PyObject_HEAD
    std::vector<std::unique_ptr<guards::Node>>* nodes;
    std::vector<guards::Binding>* bindings;
    std::vector<guards::Relation>* relations;
    std::vector<guards::Pair>* pairs;
    std::vector<guards::AliasMember>* aliases;
    std::vector<int>* alias_order;     // groups by address, as seen in the last call
    int alias_groups;
    int symbols;
    int fetches;
    bool frozen;
    guards::Snapshot* snapshot;        // owned, or null
    int wait;                          // acceptances until the next snapshot is taken
    int outdated;                      // snapshots that did not last
    Py_ssize_t polled, walked;         // acceptances by either way
};

struct GuardNode {
    PyObject_HEAD
    GuardTree* tree;                   // strong
    guards::Node* node;
};

namespace guards {

extern PyTypeObject* failure_type;                // GuardFailure
extern const char* const test_names[];            // by Test
bool symbols_hold(const GuardTree* tree, Fetched& fetched);
bool pairs_hold(const std::vector<Pair>& pairs, Fetched& fetched);
bool aliases_hold(const GuardTree* tree, Fetched& fetched);

}  // namespace guards
