// The guard tree: what must hold for an entry to serve a call. Paths with a common beginning are walked once.
#pragma once

#include "common.h"

// Values that evaluation hands on (inputs of a direct call, places of symbols): owned references, freed with the object.
class Fetched {
  public:
    Fetched() = default;
    explicit Fetched(Py_ssize_t size) { reset(size); }
    ~Fetched() { clear(); if (values_ != inline_) delete[] values_; }
    Fetched(const Fetched&) = delete;

    void reset(Py_ssize_t size) {
        clear();
        if (size > capacity_) {
            if (values_ != inline_) delete[] values_;
            values_ = new PyObject*[size];
            capacity_ = size;
        }
        std::memset(values_, 0, sizeof(PyObject*) * size);
        size_ = size;
    }
    PyObject* operator[](Py_ssize_t i) const { return values_[i]; }
    void put(Py_ssize_t i, PyObject* value) { Py_INCREF(value); Py_XSETREF(values_[i], value); }

  private:
    void clear() {
        while (size_ > 0) {
            size_--;
            Py_CLEAR(values_[size_]);   // a macro that evaluates its argument twice on 3.11
        }
    }
    static constexpr Py_ssize_t inline_size = 16;
    Py_ssize_t size_ = 0, capacity_ = inline_size;
    PyObject* inline_[inline_size];
    PyObject** values_ = inline_;
};

struct GuardTree;   // the Python object

namespace guards {

extern PyTypeObject* tree_type;
extern PyTypeObject* node_type;

Py_ssize_t fetch_count(GuardTree* tree);
bool evaluate(GuardTree* tree, const Slots& slots, Fetched& fetched);   // never leaves an exception set
PyObject* explain(GuardTree* tree, const Slots& slots);                 // list of GuardFailure
bool name_slots(GuardTree* tree, PyObject* names);                      // tuple of slot names, in order
void freeze(GuardTree* tree);                                           // no node or check may be added any more
Py_ssize_t fetch_slot(GuardTree* tree, PyObject* node);                 // keep this node's value; -1 with an error set

// Slots from Python: a dict name -> value or a sequence in slot order; `names` gives the order for a dict.
bool read_slots(PyObject* values, PyObject* names, std::vector<PyObject*>& out);

}  // namespace guards
