// A snapshot of what a guard tree found below places that are bound to names: modules, their tables, classes,
// functions, parameters. While versions of dictionaries and classes, and the fields of tensors, are as they were, the
// checks behind them hold without being made again. Pointers are borrowed: each is followed only after a comparison
// has shown that its owner, which was shown to live before, still holds it.
#pragma once

#include "tree.h"

namespace guards {

enum class Truth : uint8_t { No, Yes, Impure };   // Impure: only code that may run the user's can tell

enum class Kind : uint8_t { Instance, Dict, Class, Open };   // Open: nothing tells of changes, looked at in every call

// bears: facts of its own follow; item: its place in a list, or -1
struct Key { const Node* node; PyObject* value; bool bears; Py_ssize_t item = -1; };

struct Fact {
    Kind kind;
    const Node* node;
    PyObject* object;
    PyTypeObject* type;
    PyObject** place;         // Instance: where its dictionary stands
    PyDictObject* dict;       // Instance and Dict
    uint64_t tag;             // version of the dictionary or class; 0: unknown, looked at in every call
    int first_key, keys;
    int first_hook, hooks;    // dictionaries of hooks, which are empty
};

struct TensorFact {
    const Check* check;
    bool no_hooks, no_gradient;
    int first_key, keys;      // slots of the tensor
    PyObject* tensor;
    PyTypeObject* type;
    PyObject *array, *dtype, *device, *requires_grad, *grad_fn;
    char* data;
    int rank, first_dim;      // sizes, then strides, in `dims`
};

struct Loose { const Node* node; const Check* check; PyObject* value; };   // a child or a check, as without a snapshot

struct Anchor { const Node* through; const Node* node; PyObject* value; };   // `through`: the cell's place, or null

struct Snapshot {
    int users = 1;
    std::vector<const Node*> front;          // children of the root that are walked as before
    std::vector<Anchor> anchors;             // places that must hold the recorded objects
    std::vector<Fact> facts;                 // parents before children
    std::vector<Key> keys;
    std::vector<PyDictObject*> hooks;
    std::vector<TensorFact> tensors;
    std::vector<int64_t> dims;
    std::vector<std::pair<PyTypeObject*, Ref>> types;   // weak references
    std::vector<Loose> loose;
    std::vector<PyObject*> values;           // by fetch slot; null: found by walking
    std::vector<char> related_slots;         // by fetch slot: its value takes part in `pairs` or aliasing
    std::vector<Pair> pairs;                 // those of which one side is found by walking
    std::vector<std::pair<int64_t, int64_t>> intervals;   // bytes of groups whose members are all recorded, in order
    std::vector<AliasMember> moving;         // members of the other groups, group by group
    unsigned generation = 0;                 // moves when recorded values or tensors do
    unsigned related = 0;                    // the generation for which `pairs` and `intervals` were made
};

Snapshot* record(GuardTree* tree, const Slots& slots);   // null: something does not hold, or nothing is worth it
Truth poll(GuardTree* tree, Snapshot* snapshot, const Slots& slots, Fetched& fetched);   // Impure: cannot tell
bool relations_hold(GuardTree* tree, Snapshot* snapshot, Fetched& fetched);              // after a poll said yes
void release(Snapshot* snapshot);

// Steps and checks that run no code of the user's and return borrowed values only.
Truth pure_step(const Node& node, PyObject* parent, const Slots& slots, PyObject*& value);
Truth pure_check(const Check& check, PyObject* value);

bool walk_child(const Node& child, PyObject* parent, const Slots& slots, Fetched& fetched);   // the ordinary way

bool is_scalar(PyObject* value);            // of the interpreter's own constants
bool is_plain(PyObject* value);             // such a one, or a tuple of them
bool plain_keys(PyObject* dict);           // all keys are exact strings: comparing them runs nobody's code
bool own_values(PyDictObject* dict);       // its version tells of every change
uint64_t dict_version(PyDictObject* dict);

}  // namespace guards
