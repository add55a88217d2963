// Where Python's classes keep their __slots__, above all the Tensor: offsets, learned once from the descriptors of their
// members, so that the three extensions read slots like fields. Each extension fills a layout of its own.
#ifndef FB_SLOTS_H
#define FB_SLOTS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

#include <initializer_list>

inline PyObject*& slot(PyObject* object, Py_ssize_t offset) { return *(PyObject**)((char*)object + offset); }
inline void put(PyObject* object, Py_ssize_t offset, PyObject* value) { slot(object, offset) = Py_NewRef(value); }

// The member behind a descriptor that a class has for a slot; null for any other attribute.
inline const PyMemberDef* slot_member(PyObject* descriptor) {
    const PyMemberDef* member = Py_IS_TYPE(descriptor, &PyMemberDescr_Type) ? ((PyMemberDescrObject*)descriptor)->d_member : nullptr;
    return member && (member->type == T_OBJECT_EX || member->type == T_OBJECT) ? member : nullptr;
}

// The offset of a slot in the instances of a class; -1 with a TypeError.
inline Py_ssize_t slot_offset(PyTypeObject* type, const char* name) {
    PyObject* descriptor = PyObject_GetAttrString((PyObject*)type, name);
    const PyMemberDef* member = descriptor ? slot_member(descriptor) : nullptr;
    Py_ssize_t offset = member ? member->offset : -1;
    Py_XDECREF(descriptor);
    if (!member) PyErr_Format(PyExc_TypeError, "%s.%s is not a slot", type->tp_name, name);
    return offset;
}

struct Slot {
    const char* name;
    Py_ssize_t* offset;
};

inline bool learn_slots(PyTypeObject* type, std::initializer_list<Slot> slots) { // false with an error set
    for (const Slot& each : slots)
        if ((*each.offset = slot_offset(type, each.name)) < 0) return false;
    return true;
}

struct TensorLayout {
    PyTypeObject* type = nullptr; // Tensor itself: classes below it have its slots at the same offsets
    Py_ssize_t array, dtype, device, requires_grad, grad_fn, storage, view, geometry, grad, output_nr, hooks;

    bool learn(PyTypeObject* tensor) { // false with an error set
        bool learned = learn_slots(tensor, {{"_fl_array", &array}, {"_fl_dtype", &dtype}, {"_fl_device", &device},
            {"_fl_requires_grad", &requires_grad}, {"_grad_fn", &grad_fn}, {"_fl_storage", &storage}, {"_fl_view", &view},
            {"_fl_geometry", &geometry}, {"_grad", &grad}, {"_fl_output_nr", &output_nr}, {"_fl_hooks", &hooks}});
        if (learned) Py_XSETREF(type, (PyTypeObject*)Py_NewRef((PyObject*)tensor));
        return learned;
    }
    bool is_tensor(PyObject* object) const { return type && PyObject_TypeCheck(object, type); }
    // A new tensor without history or storage; steals `array`.
    PyObject* make(PyObject* array, PyObject* its_dtype, PyObject* its_device, PyObject* its_view) const {
        PyObject* t = type->tp_alloc(type, 0);
        if (!t) {
            Py_DECREF(array);
            return nullptr;
        }
        slot(t, this->array) = array;
        put(t, dtype, its_dtype);
        put(t, device, its_device);
        put(t, requires_grad, Py_False);
        for (Py_ssize_t none : {grad_fn, storage}) put(t, none, Py_None);
        put(t, view, its_view);
        return t;
    }
};

#endif
