// Doors lead calls to entries: a wrapper around a function, a resume point in generated code, a hooked nested frame.
#pragma once

#include "guards.h"
#include "skipped_calls.h"
#include "thread.h"

// One compiled version: the guards under which it holds, the code to run, or a direct callable for a whole graph.
struct Entry {
    PyObject_HEAD
    GuardTree* guards;
    PyObject* code;          // code object or None
    PyObject* direct;        // callable or null
    PyObject* launcher;      // callable (list of inputs, seed, base) -> list that does all that `direct` would, or null
    PyObject* output;        // how to build the result from what `direct` returns; null: as it is
    PyObject* keepalive;
    PyObject* function;      // `code` as a function, made at the first hit; an entry belongs to one door
    std::vector<Py_ssize_t>* inputs;
    bool fallible;           // may raise CheckFailed: a frame door then keeps the arguments
    bool breaks;             // ends at a graph break
    bool left;               // `code` is the original, and compiled code could be no faster
};

enum class DoorKind : int { Wrapper, Resume, Frame };

struct Door {
    PyObject_HEAD
    Cache* cache;            // strong in a wrapper; elsewhere cleared by the cache when it dies
    PyObject* code;          // the original code; not owned by a frame door
    PyObject* function;      // wrapper: the original function
    PyObject* globals;       // null in a frame door, which must not keep alive what holds its code
    PyObject* builtins;
    PyObject* entries;       // tuple, swapped as a whole
    PyObject* plain;         // null, or why this door does not look up
    PyObject* attributes;    // __dict__
    PyObject* weak;
    vectorcallfunc call;
    Py_ssize_t hits;
    Py_ssize_t hot;          // position of the entry that served last
    Look* look;              // wrapper: the last call that an entry left to Python, or null
    DoorKind kind;
    bool watches;            // plain only for calls that show no tensor: one that does is asked about again
};

// What a compiled object owns. Python subclasses it and gives `miss(door, code, globals, builtins, closure, slots)`
// and `frame(code, globals)`.
struct Cache {
    PyObject_HEAD
    std::vector<Door*>* frames;      // strong: doors of nested code
    std::vector<Door*>* attached;    // weak: frame and resume doors that point here
    PyObject* resumes;               // dict: key -> Resume
    PyObject* attributes;
    PyObject* weak;
};

namespace doors {

extern PyTypeObject *cache_type, *entry_type, *door_type, *wrapper_type, *resume_type, *frame_type;

// The entry whose guards hold: a new reference, or null without an exception. Its fetched values are in `fetched`.
Entry* lookup(Door* door, const Slots& slots, Fetched& fetched);

// Lookup, then the compiler. Null without an exception: run plain.
Entry* find(Thread& thread, Door* door, const Slots& slots, Fetched& fetched);

// Runs resume doors that generated code called in tail position, until there is a value.
PyObject* finish_tail_calls(Thread& thread, PyObject* result);

Ref make_function(PyObject* code, PyObject* globals, PyObject* closure);
PyObject* run_direct(Entry* entry, const Fetched& fetched);
Door* new_door(PyTypeObject* type, DoorKind kind, Cache* cache, PyObject* code, PyObject* globals, PyObject* builtins);
Door* new_frame_door(Cache* cache, PyCodeObject* code);
bool is_check_failure();             // the current exception discards a compiled call

extern bool forced_eager;            // the user's stance: nothing compiled runs
extern PyObject* tail_call;          // returned instead of a value by a resume door in tail position

int add_cache_types(PyObject* module);
int add_entry_type(PyObject* module);
int add_callable_types(PyObject* module);

}  // namespace doors

namespace hook {

Door* find_door(Cache* cache, PyCodeObject* code);   // borrowed, or null
void forget(Cache* cache);                           // remove the links that code objects have to this cache
bool link(Cache* cache, PyCodeObject* code, Door* door);

}  // namespace hook
