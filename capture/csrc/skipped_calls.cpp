#include "skipped_calls.h"

#include "eager_classes.h"

static bool is_constant(PyObject* object) {
    return object == Py_None || PyBool_Check(object) || PyLong_CheckExact(object) || PyFloat_CheckExact(object) ||
           PyUnicode_CheckExact(object);
}

bool Look::Mark::set(PyObject* arg) {
    if (is_constant(arg)) {
        constant = Ref::borrow(arg);
        return true;
    }
    PyArrayObject* array = layout.array_of(arg);
    if (!array || PyArray_NDIM(array) > RANK) return false;
    type = Py_TYPE(arg);
    dtype = slot(arg, layout.dtype);
    rank = PyArray_NDIM(array);
    std::copy_n(PyArray_DIMS(array), rank, sizes);
    return true;
}

bool Look::Mark::fits(PyObject* arg) const {
    if (rank < 0) return arg == constant.get();
    if (Py_TYPE(arg) != type || slot(arg, layout.dtype) != dtype) return false;
    PyArrayObject* array = layout.array_of(arg);
    return array && PyArray_NDIM(array) == rank && std::equal(sizes, sizes + rank, PyArray_DIMS(array));
}

bool Look::same(PyObject* const* args, Py_ssize_t count, PyObject* kwnames) {
    if (!known_ || count != (Py_ssize_t)marks_.size() || kwnames != kwnames_.get() || ++calls_ >= next_) return false;
    for (Py_ssize_t i = 0; i < count; i++)
        if (!marks_[i].fits(args[i])) return false;
    return true;
}

void Look::forget() {
    clear();
    calls_ = 0;
}

void Look::clear() {
    known_ = false;
    std::vector<Mark> marks;
    marks.swap(marks_);
    kwnames_ = Ref();
}

void Look::keep(PyObject* const* args, Py_ssize_t count, PyObject* kwnames) {
    clear();
    if (count > MOST) return;
    std::vector<Mark> marks(count);
    for (Py_ssize_t i = 0; i < count; i++)
        if (!marks[i].set(args[i])) return;
    marks_ = std::move(marks);
    kwnames_ = kwnames ? Ref::borrow(kwnames) : Ref();
    next_ = calls_ + std::clamp<uint64_t>(calls_ / AGAIN, AGAIN, SELDOM);
    known_ = true;
}
