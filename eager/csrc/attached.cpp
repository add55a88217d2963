// The node that a compiled call hangs on its results, and what the call remembers of its inputs.
//
// The class is Python's (autograd/function.py, AttachedNode); `attached` tells it to the engine, which then calls its
// method `run` instead of going through `run_node`.
#include "call.h"

namespace {

// (sizes, dtype, device), as a node keeps them; null without an error for a fake.
PyObject* meta_tuple(PyObject* t) {
    PyArrayObject* a = array_of(t);
    Ref meta(a ? PyTuple_New(3) : nullptr);
    if (!meta) return nullptr;
    PyObject* sizes = tuple_of(PyArray_DIMS(a), PyArray_NDIM(a));
    if (!sizes) return nullptr;
    PyTuple_SET_ITEM(meta.get(), 0, sizes);
    PyTuple_SET_ITEM(meta.get(), 1, Py_NewRef(slot(t, world.t.dtype)));
    PyTuple_SET_ITEM(meta.get(), 2, Py_NewRef(slot(t, world.t.device)));
    return meta.release();
}

// The tuple of f(item) for a sequence; null where f gives null.
template <class F> Ref each(PyObject* sequence, F f) {
    Ref fast(PySequence_Fast(sequence, "outputs and inputs must be sequences"));
    Ref made(fast ? PyTuple_New(PySequence_Fast_GET_SIZE(fast.get())) : nullptr);
    for (Py_ssize_t k = 0; made && k < PyTuple_GET_SIZE(made.get()); k++) {
        PyObject* item = f(PySequence_Fast_GET_ITEM(fast.get(), k));
        if (!item) return Ref();
        PyTuple_SET_ITEM(made.get(), k, item);
    }
    return made;
}

// attach(outputs, inputs): a new node over the outputs (tensors, or None), whose edges lead to the inputs. None: no
// input leads anywhere. False: the call is for Python.
PyObject* attach(PyObject*, PyObject* const* args, Py_ssize_t count) {
    if (count != 2 || !world.attached) return PyErr_Format(PyExc_TypeError, "attach(outputs, inputs)");
    bool any = false;
    Ref edges = each(args[1], [&](PyObject* t) {
        PyObject* edge = is_tensor(t) ? edge_of(t) : Py_NewRef(Py_None);
        any = any || edge != Py_None;
        return edge;
    });
    if (!edges) return nullptr;
    if (!any) Py_RETURN_NONE;
    static PyObject* nothing = Py_BuildValue("(()OO)", Py_None, Py_None);
    Ref metas = each(args[0], [](PyObject* t) { return t == Py_None ? Py_NewRef(nothing) : meta_tuple(t); });
    if (!metas) {
        if (PyErr_Occurred()) return nullptr;
        Py_RETURN_FALSE;
    }
    Ref sequence(PyLong_FromUnsignedLong(next_sequence())), node(world.attached->tp_alloc(world.attached, 0));
    if (!sequence || !node) return nullptr;
    const NodeSlots& n = world.n;
    for (Py_ssize_t offset : {n.op, n.args, n.versions, n.outs}) put(node.get(), offset, Py_None);
    slot(node.get(), n.edges) = edges.release(), slot(node.get(), n.metas) = metas.release();
    slot(node.get(), n.sequence) = sequence.release();
    Ref outputs(PySequence_Fast(args[0], "outputs"));
    for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(outputs.get()); k++) {
        PyObject* t = PySequence_Fast_GET_ITEM(outputs.get(), k);
        int type = t == Py_None ? -1 : type_of(t);
        if (type < 0 || world.types[type].category < 2) continue;
        reset(t, world.t.grad_fn, Py_NewRef(node.get()));
        reset(t, world.t.output_nr, PyLong_FromSsize_t(k));
        reset(t, world.t.requires_grad, Py_NewRef(Py_False));
    }
    return node.release();
}

PyObject* version_object(PyObject* x) { // as `_version`, which inference tensors refuse
    static PyObject* name = PyUnicode_InternFromString("_version");
    if (slot(x, world.t.view) != Py_None) return PyObject_GetAttr(x, name);
    PyObject* storage = slot(x, world.t.storage);
    return storage == Py_None ? PyLong_FromLong(0) : Py_NewRef(slot(storage, world.s.version));
}

// remember(inputs, strongly): (the inputs, their versions; None for what is no tensor). Leaves that need a gradient are
// held as eager holds them, other tensors by weak references, unless all are to be held.
PyObject* remember(PyObject*, PyObject* const* args, Py_ssize_t count) {
    if (count != 2 || !PyList_CheckExact(args[0])) return PyErr_Format(PyExc_TypeError, "remember(a list, strongly)");
    Py_ssize_t n = PyList_GET_SIZE(args[0]);
    Ref held(PyList_New(n)), versions(PyList_New(n));
    if (!held || !versions) return nullptr;
    for (Py_ssize_t k = 0; k < n; k++) {
        PyObject* x = PyList_GET_ITEM(args[0], k);
        bool tensor = is_tensor(x);
        PyObject* version = tensor ? version_object(x) : Py_NewRef(Py_None);
        if (!version) return nullptr;
        PyList_SET_ITEM(versions.get(), k, version);
        bool leaf = tensor && slot(x, world.t.requires_grad) == Py_True && slot(x, world.t.grad_fn) == Py_None;
        PyObject* kept = !tensor || leaf || args[1] == Py_True ? Py_NewRef(x) : PyWeakref_NewRef(x, nullptr);
        if (!kept) return nullptr;
        PyList_SET_ITEM(held.get(), k, kept);
    }
    return PyTuple_Pack(2, held.get(), versions.get());
}

// repeated(outputs, numbers, inputs): whether an output of these numbers is an input, or another output of these.
PyObject* repeated(PyObject*, PyObject* const* args, Py_ssize_t count) {
    if (count != 3 || !PyList_CheckExact(args[0]) || !PyList_CheckExact(args[1]) || !PyList_CheckExact(args[2]))
        return PyErr_Format(PyExc_TypeError, "repeated(outputs, numbers, inputs): lists");
    for (Py_ssize_t k = 0; k < PyList_GET_SIZE(args[1]); k++) {
        Py_ssize_t number = PyLong_AsSsize_t(PyList_GET_ITEM(args[1], k));
        if (number < 0 || number >= PyList_GET_SIZE(args[0]))
            return PyErr_Format(PyExc_IndexError, "there is no output %zd", number);
        PyObject* out = PyList_GET_ITEM(args[0], number);
        for (Py_ssize_t j = 0; j < PyList_GET_SIZE(args[2]); j++)
            if (PyList_GET_ITEM(args[2], j) == out) Py_RETURN_TRUE;
        for (Py_ssize_t j = 0; j < k; j++)
            if (PyList_GET_ITEM(args[0], PyLong_AsSsize_t(PyList_GET_ITEM(args[1], j))) == out) Py_RETURN_TRUE;
    }
    Py_RETURN_FALSE;
}

// versions(tensors, node): what is saved for a node, and its versions; False where one is an output of the node or no tensor.
PyObject* versions(PyObject*, PyObject* const* args, Py_ssize_t count) {
    if (count != 2 || !PyList_CheckExact(args[0])) return PyErr_Format(PyExc_TypeError, "versions(a list, node)");
    Py_ssize_t n = PyList_GET_SIZE(args[0]);
    Ref found(PyList_New(n));
    if (!found) return nullptr;
    for (Py_ssize_t k = 0; k < n; k++) {
        PyObject* t = PyList_GET_ITEM(args[0], k);
        if (!is_tensor(t) || slot(t, world.t.grad_fn) == args[1]) Py_RETURN_FALSE;
        PyObject* version = version_object(t);
        if (!version) return nullptr;
        PyList_SET_ITEM(found.get(), k, version);
    }
    return found.release();
}

// unchanged(tensors, versions): the tensors as a tuple; False where one is no tensor or has another version.
PyObject* unchanged(PyObject*, PyObject* const* args, Py_ssize_t count) {
    if (count != 2 || !PyList_CheckExact(args[0]) || !PyList_CheckExact(args[1]))
        return PyErr_Format(PyExc_TypeError, "unchanged(tensors, versions): lists");
    Py_ssize_t n = PyList_GET_SIZE(args[0]);
    if (PyList_GET_SIZE(args[1]) != n) return PyErr_Format(PyExc_ValueError, "a version for each tensor");
    for (Py_ssize_t k = 0; k < n; k++) {
        PyObject* t = PyList_GET_ITEM(args[0], k);
        if (!is_tensor(t)) Py_RETURN_FALSE;
        Ref version(version_object(t));
        if (!version) return nullptr;
        int same = PyObject_RichCompareBool(version.get(), PyList_GET_ITEM(args[1], k), Py_EQ);
        if (same < 0) return nullptr;
        if (!same) Py_RETURN_FALSE;
    }
    return PyList_AsTuple(args[0]);
}

PyObject* attached(PyObject*, PyObject* type) {
    if (!PyType_Check(type) || !PyType_IsSubtype((PyTypeObject*)type, world.node))
        return PyErr_Format(PyExc_TypeError, "attached(class of nodes)");
    world.attached = (PyTypeObject*)Py_NewRef(type);
    Py_RETURN_NONE;
}

PyMethodDef functions[] = {
    {"attached", attached, METH_O, "attached(class): the class of the nodes that `attach` makes"},
    {"attach", (PyCFunction)(void (*)(void))attach, METH_FASTCALL,
        "attach(outputs, inputs): a node over the outputs; None: nothing is recorded; False: not for real tensors only"},
    {"remember", (PyCFunction)(void (*)(void))remember, METH_FASTCALL,
        "remember(inputs, strongly): (inputs, held weakly unless leaves; their versions)"},
    {"versions", (PyCFunction)(void (*)(void))versions, METH_FASTCALL,
        "versions(tensors, node): their versions; False where one is an output of the node, or no tensor"},
    {"unchanged", (PyCFunction)(void (*)(void))unchanged, METH_FASTCALL,
        "unchanged(tensors, versions): the tensors as a tuple; False where one has another version, or is no tensor"},
    {"repeated", (PyCFunction)(void (*)(void))repeated, METH_FASTCALL,
        "repeated(outputs, numbers, inputs): an output of these numbers is an input or there twice"},
    {nullptr, nullptr, 0, nullptr}};

}

bool add_attached(PyObject* module) { return PyModule_AddFunctions(module, functions) == 0; }
