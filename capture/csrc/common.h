// Shared by all files of flambeau.capture._capture: an owning reference, a small inline buffer, interned names.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

// An owned reference; `Ref::borrow` takes a new one, the plain constructor steals.
class Ref {
  public:
    Ref() = default;
    explicit Ref(PyObject* stolen) : object_(stolen) {}
    static Ref borrow(PyObject* object) { Py_XINCREF(object); return Ref(object); }
    Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
    Ref(const Ref& other) : object_(other.object_) { Py_XINCREF(object_); }
    Ref& operator=(Ref other) noexcept { std::swap(object_, other.object_); return *this; }
    ~Ref() { Py_XDECREF(object_); }
    PyObject* get() const { return object_; }
    PyObject* release() { return std::exchange(object_, nullptr); }
    explicit operator bool() const { return object_ != nullptr; }

  private:
    PyObject* object_ = nullptr;
};

// A zeroed array that lives on the C stack while it is small: a hit should not allocate.
template <class T, Py_ssize_t Inline>
class Buffer {
  public:
    explicit Buffer(Py_ssize_t size) : size_(size), data_(size > Inline ? new T[size]() : inline_) {
        if (data_ == inline_) std::memset(inline_, 0, sizeof(T) * (size > 0 ? size : 0));
    }
    ~Buffer() { if (data_ != inline_) delete[] data_; }
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;
    T* data() { return data_; }
    Py_ssize_t size() const { return size_; }
    T& operator[](Py_ssize_t i) { return data_[i]; }

  private:
    Py_ssize_t size_;
    T inline_[Inline];
    T* data_;
};

// What a door offers to guards: its bound arguments and the surroundings of its function. All borrowed.
struct Slots {
    PyObject* const* values = nullptr;
    Py_ssize_t count = 0;
    PyObject* globals = nullptr;
    PyObject* builtins = nullptr;
    PyObject* closure = nullptr;   // tuple of cells or null
};

// The number of argument slots of a code object: positional, keyword-only, *args, **kwargs, in this order.
inline Py_ssize_t slot_count(const PyCodeObject* code) {
    return code->co_argcount + code->co_kwonlyargcount + ((code->co_flags & CO_VARARGS) ? 1 : 0) +
           ((code->co_flags & CO_VARKEYWORDS) ? 1 : 0);
}

// Raised by compiled calls whose check failed before anything was written; set by `configure`.
extern PyObject* check_failed_type;

int add_guard_types(PyObject* module);
int add_door_types(PyObject* module);
int add_hook_functions(PyObject* module);
