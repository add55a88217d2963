// The node that a compiled call hangs on its results, and what the call remembers of its inputs.
//
// The class is Python's (autograd/function.py, AttachedNode); `attached` tells it to the engine, which then calls its
// method `run` instead of going through `run_node`. A `Passage` does both for all calls of one graph without Python in
// between, in the plain case, with the objects that Python would make.
#include "compiled_node.h"

#include <vector>

namespace {

// A new node over the outputs (tensors, or None), whose edges lead to the inputs. None: no input leads anywhere. False: the
// call is for Python.
PyObject* attach_to(PyObject* outs, PyObject* inputs) {
    bool any = false;
    Ref edges = each(inputs, [&](PyObject* t) {
        PyObject* edge = is_tensor(t) ? edge_of(t) : Py_NewRef(Py_None);
        any = any || edge != Py_None;
        return edge;
    });
    if (!edges) return nullptr;
    if (!any) Py_RETURN_NONE;
    static PyObject* nothing = Py_BuildValue("(()OO)", Py_None, Py_None);
    Ref metas = each(outs, [](PyObject* t) { return t == Py_None ? Py_NewRef(nothing) : description_of(t); });
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
    Ref outputs(PySequence_Fast(outs, "outputs"));
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

// attach(outputs, inputs)
PyObject* attach(PyObject*, PyObject* const* args, Py_ssize_t count) {
    if (count != 2 || !world.attached) return PyErr_Format(PyExc_TypeError, "attach(outputs, inputs)");
    return attach_to(args[0], args[1]);
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

// ---- all calls of one compiled graph

typedef std::vector<Py_ssize_t> Numbers;

// Where the objects of Python keep what is put there without it.
struct Places {
    PyTypeObject *call, *saved_list;                                                  // inductor/runtime/runtime_wrapper.py, function.py
    Py_ssize_t graph, inputs, versions, numbers, seed, base, symbols, passage;        // of a call
    Py_ssize_t backward_fn, label, with_saved, saved, final, facts, done;             // of a node
    Py_ssize_t items, saved_versions, is_private;                                     // of what is saved
    Py_ssize_t ref, array, dtype, device, storage, geometry;                          // of a saved output
    PyObject *backward, *name, *empty, *check_failed;
} places;

struct Passage {
    PyObject_HEAD vectorcallfunc vectorcall;
    PyObject *graph, *launcher;         // the launcher is null where nothing is computed
    Numbers* outputs;                   // numbers of what the launcher gives, -2 - that of an input
    bool as_given;                      // the outputs are what the launcher gives
    Py_ssize_t inner;
    Numbers *reached, *requires_grad;
    Numbers* kept;                      // for the backward: numbers behind the inner results, -2 - that of an input
    bool draws;                         // the graph takes random numbers from the default generator
    bool looked;                        // Python has seen which results share memory
    // the backward for gradients of all outputs, once it is known
    PyObject* back;                     // None where it computes nothing
    Numbers *saved, *grads, *found;     // found: per edge a number as among `outputs`, -1: no gradient
    std::vector<Numbers>* strides;      // of the gradients, in elements
    PyObject* views;                    // what is put behind its arguments: (number as among `outputs`, ((operation, arguments)...))
    bool overwrites;
};

bool read_numbers(PyObject* sequence, Numbers& out) { // None counts as -1
    Ref fast(PySequence_Fast(sequence, "numbers must be a sequence"));
    for (Py_ssize_t k = 0; fast && k < PySequence_Fast_GET_SIZE(fast.get()); k++) {
        PyObject* item = PySequence_Fast_GET_ITEM(fast.get(), k);
        out.push_back(item == Py_None ? -1 : PyLong_AsSsize_t(item));
    }
    return fast && !PyErr_Occurred();
}

Ref picked(PyObject* list, const Numbers& numbers) { // null with an error for a number beyond the list
    Ref made(PyList_New(numbers.size()));
    for (size_t k = 0; made && k < numbers.size(); k++) {
        PyObject* item = PyList_GetItem(list, numbers[k]);
        if (!item) return Ref();
        PyList_SET_ITEM(made.get(), k, Py_NewRef(item));
    }
    return made;
}

// What `launcher` gives for these arguments, an empty list where it is none.
Ref launched(PyObject* launcher, PyObject* const* args) {
    return Ref(launcher && launcher != Py_None ? PyObject_Vectorcall(launcher, args, 3, nullptr) : PyList_New(0));
}

// Results by number, of what a launcher gave or of what it was given.
Ref placed(const Numbers& numbers, PyObject* values, PyObject* given) {
    Ref made(PyList_New(numbers.size()));
    for (size_t k = 0; made && k < numbers.size(); k++) {
        Py_ssize_t at = numbers[k];
        PyObject* item = at == -1 ? Py_None : at >= 0 ? PyList_GetItem(values, at) : PyList_GetItem(given, -2 - at);
        if (!item) return Ref();
        PyList_SET_ITEM(made.get(), k, Py_NewRef(item));
    }
    return made;
}

// Behind the arguments of a launch, views of some of them and of what it gave.
bool add_views(PyObject* arguments, PyObject* values, PyObject* views) {
    for (Py_ssize_t k = 0; views && k < PyTuple_GET_SIZE(views); k++) {
        PyObject *view = PyTuple_GET_ITEM(views, k), *steps = PyTuple_GET_ITEM(view, 1);
        Py_ssize_t at = PyLong_AsSsize_t(PyTuple_GET_ITEM(view, 0));
        PyObject* of = at >= 0 ? PyList_GetItem(values, at) : PyList_GetItem(arguments, -2 - at);
        Ref shown(Py_XNewRef(of));
        for (Py_ssize_t j = 0; shown && j < PyTuple_GET_SIZE(steps); j++) {
            PyObject *step = PyTuple_GET_ITEM(steps, j), *rest = PyTuple_GET_ITEM(step, 1);
            std::vector<PyObject*> args{shown.get()};
            for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(rest); i++) args.push_back(PyTuple_GET_ITEM(rest, i));
            shown = Ref(PyObject_Vectorcall(PyTuple_GET_ITEM(step, 0), args.data(), args.size(), nullptr));
        }
        if (!shown || PyList_Append(arguments, shown.get())) return false;
    }
    return true;
}

// Tuples all the way down, as `add_views` takes them.
bool are_views(PyObject* views) {
    bool good = PyTuple_Check(views);
    for (Py_ssize_t k = 0; good && k < PyTuple_GET_SIZE(views); k++) {
        PyObject* view = PyTuple_GET_ITEM(views, k);
        good = PyTuple_Check(view) && PyTuple_GET_SIZE(view) == 2 && PyLong_Check(PyTuple_GET_ITEM(view, 0))
            && PyTuple_Check(PyTuple_GET_ITEM(view, 1));
        for (Py_ssize_t j = 0; good && j < PyTuple_GET_SIZE(PyTuple_GET_ITEM(view, 1)); j++) {
            PyObject* step = PyTuple_GET_ITEM(PyTuple_GET_ITEM(view, 1), j);
            good = PyTuple_Check(step) && PyTuple_GET_SIZE(step) == 2 && PyTuple_Check(PyTuple_GET_ITEM(step, 1));
        }
    }
    return good;
}

// No output that gets the node is an input, or there twice.
bool apart(PyObject* outs, PyObject* inputs) {
    for (Py_ssize_t k = 0; k < PyList_GET_SIZE(outs); k++) {
        PyObject* out = PyList_GET_ITEM(outs, k);
        for (Py_ssize_t j = 0; j < PyList_GET_SIZE(inputs); j++)
            if (PyList_GET_ITEM(inputs, j) == out) return false;
        for (Py_ssize_t j = 0; j < k; j++)
            if (PyList_GET_ITEM(outs, j) == out) return false;
    }
    return true;
}

// An output that its own node keeps: (SavedOutput, its number).
PyObject* own_output(PyObject* t, PyObject* outs) {
    Py_ssize_t number = 0;
    while (number < PyList_GET_SIZE(outs) && PyList_GET_ITEM(outs, number) != t) number++;
    if (number == PyList_GET_SIZE(outs)) return PyErr_Format(PyExc_RuntimeError, "a node keeps an output that it has not");
    PyTypeObject* type = (PyTypeObject*)world.saved_output;
    Ref made, at(PyLong_FromSsize_t(number));
    if (slot(t, world.t.storage) != Py_None) made = Ref(PyObject_CallOneArg(world.saved_output, t));
    else if ((made = Ref(type->tp_alloc(type, 0)))) {
        slot(made.get(), places.ref) = PyWeakref_NewRef(t, nullptr);
        put(made.get(), places.array, slot(t, world.t.array)), put(made.get(), places.dtype, slot(t, world.t.dtype));
        put(made.get(), places.device, slot(t, world.t.device)), put(made.get(), places.storage, Py_None);
        put(made.get(), places.geometry, Py_None);
        if (!slot(made.get(), places.ref)) return nullptr;
    }
    return made && at ? PyTuple_Pack(2, made.get(), at.get()) : nullptr;
}

// What is kept for the backward, as `SavedList` makes it.
Ref saved_list(PyObject* node, PyObject* kept, PyObject* outs) {
    Py_ssize_t n = PyList_GET_SIZE(kept);
    if (!n) return Ref(Py_NewRef(Py_None));
    Ref items(PyList_New(n)), versions(PyList_New(n)), made(places.saved_list->tp_alloc(places.saved_list, 0));
    if (!items || !versions || !made) return Ref();
    for (Py_ssize_t k = 0; k < n; k++) {
        PyObject* t = PyList_GET_ITEM(kept, k);
        if (!is_tensor(t)) return PyErr_SetString(PyExc_TypeError, "a backward keeps tensors"), Ref();
        PyObject* item = slot(t, world.t.grad_fn) == node ? own_output(t, outs) : Py_NewRef(t);
        PyObject* version = item ? version_object(t) : nullptr;
        if (!version) return Py_XDECREF(item), Ref();
        PyList_SET_ITEM(items.get(), k, item), PyList_SET_ITEM(versions.get(), k, version);
    }
    slot(made.get(), places.items) = items.release(), slot(made.get(), places.saved_versions) = versions.release();
    put(made.get(), places.is_private, Py_True);
    return made;
}

// What was saved, if it is as it was; null without an error where Python has to look.
Ref kept_tensor(PyObject* item, PyObject* version) {
    Ref t;
    if (is_tensor(item)) t = Ref(Py_NewRef(item));
    else if (PyTuple_CheckExact(item) && PyTuple_GET_SIZE(item) == 2
        && Py_TYPE(PyTuple_GET_ITEM(item, 0)) == (PyTypeObject*)world.saved_output) {
        PyObject *own = PyTuple_GET_ITEM(item, 0), *ref = slot(own, places.ref);
        PyObject* alive = ref && PyWeakref_Check(ref) ? PyWeakref_GetObject(ref) : nullptr;
        if (alive && alive != Py_None) t = Ref(Py_NewRef(alive));
        else if (slot(own, places.storage) == Py_None && slot(own, places.device) == world.cpu)
            t = Ref(new_tensor(Py_NewRef(slot(own, places.array)), slot(own, places.dtype)));
    }
    Ref now(t ? version_object(t.get()) : nullptr);
    if (!now || PyObject_RichCompareBool(now.get(), version, Py_EQ) != 1) return PyErr_Clear(), Ref();
    return t;
}

// The facts of one call, as `CallContext` keeps them.
Ref call_object(Passage* self, PyObject* const* args, PyObject* keep) {
    PyObject* asked[] = {args[0], keep};
    Ref held(remember(nullptr, asked, 2)), made(held ? places.call->tp_alloc(places.call, 0) : nullptr);
    if (!made) return Ref();
    PyObject* call = made.get();
    put(call, places.graph, self->graph), put(call, places.passage, (PyObject*)self);
    put(call, places.inputs, PyTuple_GET_ITEM(held.get(), 0)), put(call, places.versions, PyTuple_GET_ITEM(held.get(), 1));
    put(call, places.numbers, places.empty), put(call, places.symbols, places.empty);
    put(call, places.seed, args[1]), put(call, places.base, args[2]);
    return made;
}

// Hang a node on the outputs of a call. 1: done; 0: it is for Python, and nothing was done; -1: an error is set.
int record_call(Passage* self, PyObject* const* args, PyObject* values) {
    PyObject* inputs = args[0];
    Ref rest(PyList_GetSlice(values, self->inner, PyList_GET_SIZE(values)));
    Ref kept = rest ? placed(*self->kept, rest.get(), inputs) : Ref();
    if (!kept) return -1;
    static PyObject* name = PyUnicode_InternFromString("keep_inputs");
    static PyObject* training_name = PyUnicode_InternFromString("training");
    Ref outs = picked(values, *self->reached), ends = picked(inputs, *self->requires_grad);
    if (!outs || !ends) return -1;
    if (!apart(outs.get(), inputs)) return 0;
    Ref training(PyObject_GetAttr(self->graph, training_name)), keep(training ? PyObject_GetAttr(training.get(), name) : nullptr);
    Ref node(keep ? attach_to(outs.get(), ends.get()) : nullptr);
    if (!node) return -1;
    if (node.get() == Py_None || node.get() == Py_False) return node.get() == Py_None;
    Ref call = call_object(self, args, keep.get()), saved = saved_list(node.get(), kept.get(), outs.get());
    if (!call || !saved) return -1;
    PyObject* n = node.get();
    put(n, places.label, places.name), put(n, places.with_saved, Py_True), put(n, places.final, Py_False);
    slot(n, places.saved) = saved.release();
    slot(n, places.backward_fn) = PyMethod_New(places.backward, call.get());
    put(n, places.facts, call.get()), put(n, places.done, Py_None);
    return slot(n, places.backward_fn) ? 1 : -1;
}

// The seed and the first ordinal of a call that draws: (seed, ordinal) by the graph's `reserve`.
Ref reserved(Passage* self) {
    static PyObject* method = PyUnicode_InternFromString("reserve");
    Ref key(PyObject_CallMethodNoArgs(self->graph, method));
    if (key && (!PyTuple_CheckExact(key.get()) || PyTuple_GET_SIZE(key.get()) != 2))
        return PyErr_SetString(PyExc_TypeError, "reserve() gives a seed and an ordinal"), Ref();
    return key;
}

// A call that failed a check is made again in eager, which draws the same numbers.
void give_back(Passage* self, PyObject* base) {
    static PyObject* method = PyUnicode_InternFromString("give_back");
    if (!PyErr_ExceptionMatches(places.check_failed)) return;
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    Ref done(PyObject_CallMethodOneArg(self->graph, method, base));
    if (done) return PyErr_Restore(type, value, trace);
    Py_XDECREF(type), Py_XDECREF(value), Py_XDECREF(trace);
}

// passage(inputs, seed, base): the launcher's results, with a node on them where calls are recorded
PyObject* pass(PyObject* raw, PyObject* const* args, size_t flags, PyObject* names) {
    static PyObject* method = PyUnicode_InternFromString("attach");
    Passage* self = (Passage*)raw;
    if (PyVectorcall_NARGS(flags) != 3 || names || !PyList_CheckExact(args[0]))
        return PyErr_Format(PyExc_TypeError, "passage(a list, seed, base)");
    Ref key = self->draws ? reserved(self) : Ref();
    if (self->draws && !key) return nullptr;
    PyObject* own[] = {args[0], key ? PyTuple_GET_ITEM(key.get(), 0) : args[1], key ? PyTuple_GET_ITEM(key.get(), 1) : args[2]};
    Ref values = launched(self->launcher, own);
    if (!values && key) give_back(self, own[2]);
    if (values && !self->as_given) values = placed(*self->outputs, values.get(), args[0]);
    Thread thread;
    if (!values || !read_state(thread)) return nullptr;
    if (thread.grad) {
        int done = self->looked && thread.quick ? record_call(self, own, values.get()) : 0;
        if (done < 0) return nullptr;
        if (!done) {
            PyObject* given[] = {self->graph, args[0], values.get(), own[1], own[2]};
            values = Ref(PyObject_VectorcallMethod(method, given, 5 | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr));
            if (!values) return nullptr;
            self->looked = true;
        }
    }
    Py_ssize_t n = PyList_GET_SIZE(values.get());
    if (n > self->inner && PyList_SetSlice(values.get(), self->inner, n, nullptr)) return nullptr;
    return values.release();
}

// passage.learn(run, saved, grads, strides, found, overwrites, views): how the backward of all outputs is called (inductor/runtime/runtime_wrapper.py, Way)
PyObject* learn(PyObject* raw, PyObject* args) {
    Passage* self = (Passage*)raw;
    PyObject *back, *saved, *grads, *strides, *found, *views;
    int overwrites;
    Numbers s, g, f;
    std::vector<Numbers> steps;
    if (!PyArg_ParseTuple(args, "OOOOOpO", &back, &saved, &grads, &strides, &found, &overwrites, &views)) return nullptr;
    if (!are_views(views)) return PyErr_Format(PyExc_TypeError, "views are (number, ((operation, arguments), ...)), not %R", views);
    Ref fast(PySequence_Fast(strides, "strides must be a sequence"));
    if (!fast || !read_numbers(saved, s) || !read_numbers(grads, g) || !read_numbers(found, f)) return nullptr;
    for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(fast.get()); k++) {
        steps.emplace_back();
        if (!read_numbers(PySequence_Fast_GET_ITEM(fast.get(), k), steps.back())) return nullptr;
    }
    if (steps.size() != g.size()) return PyErr_Format(PyExc_ValueError, "strides for each gradient");
    if (self->back) Py_RETURN_NONE;
    *self->saved = s, *self->grads = g, *self->found = f, *self->strides = steps;
    self->overwrites = overwrites;
    self->views = Py_NewRef(views);
    self->back = Py_NewRef(back);
    Py_RETURN_NONE;
}

bool lies_so(PyObject* t, const Numbers& strides) {
    PyArrayObject* a = is_plain(t) ? array_of(t) : nullptr;
    if (!a || PyArray_NDIM(a) != (int)strides.size()) return false;
    for (int d = 0; d < PyArray_NDIM(a); d++)
        if (PyArray_DIM(a, d) != 1 && PyArray_STRIDE(a, d) != strides[d] * PyArray_ITEMSIZE(a)) return false;
    return true;
}

// The arguments of the backward; null without an error where Python has to make them.
Ref backward_arguments(Passage* self, const std::vector<Ref>& items, const std::vector<PyObject*>& grads) {
    Ref made(PyList_New(self->saved->size() + self->grads->size()));
    if (!made) return Ref();
    Py_ssize_t at = 0;
    for (Py_ssize_t k : *self->saved) {
        if (k < 0 || k >= (Py_ssize_t)items.size()) return Ref();
        PyList_SET_ITEM(made.get(), at++, Py_NewRef(items[k].get()));
    }
    for (size_t k = 0; k < self->grads->size(); k++) {
        size_t number = (*self->grads)[k];
        if (number >= grads.size() || !lies_so(grads[number], (*self->strides)[k])) return Ref();
        PyList_SET_ITEM(made.get(), at++, Py_NewRef(grads[number]));
    }
    return made;
}

// A failed check of a backward is an error of this call: there is none that could be discarded.
void tell_failure() {
    if (!PyErr_ExceptionMatches(places.check_failed)) return;
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    Ref text(PyObject_GetAttrString(value, "check"));
    Py_XDECREF(type), Py_XDECREF(value), Py_XDECREF(trace);
    if (text) PyErr_SetObject(PyExc_RuntimeError, text.get());
}

int passage_traverse(PyObject* raw, visitproc visit, void* arg) {
    Py_VISIT(((Passage*)raw)->graph);
    Py_VISIT(((Passage*)raw)->launcher);
    Py_VISIT(((Passage*)raw)->back);
    Py_VISIT(((Passage*)raw)->views);
    return 0;
}

int passage_clear(PyObject* raw) {
    Py_CLEAR(((Passage*)raw)->graph);
    Py_CLEAR(((Passage*)raw)->launcher);
    Py_CLEAR(((Passage*)raw)->back);
    Py_CLEAR(((Passage*)raw)->views);
    return 0;
}

void passage_dealloc(PyObject* raw) {
    Passage* self = (Passage*)raw;
    PyObject_GC_UnTrack(raw);
    passage_clear(raw);
    delete self->reached, delete self->requires_grad, delete self->saved, delete self->grads, delete self->found;
    delete self->strides, delete self->outputs, delete self->kept;
    Py_TYPE(raw)->tp_free(raw);
}

PyObject* passage_new(PyTypeObject* type, PyObject* args, PyObject*) {
    PyObject *graph, *launcher, *outputs, *reached, *requires_grad, *kept;
    Py_ssize_t inner;
    int draws;
    Numbers o, r, q, k;
    if (!PyArg_ParseTuple(args, "OOOnOOOp", &graph, &launcher, &outputs, &inner, &reached, &requires_grad, &kept, &draws))
        return nullptr;
    if (outputs != Py_None && !read_numbers(outputs, o)) return nullptr;
    if (!places.call) return PyErr_Format(PyExc_RuntimeError, "passages() comes first");
    if (!read_numbers(reached, r) || !read_numbers(requires_grad, q) || !read_numbers(kept, k)) return nullptr;
    Passage* self = (Passage*)type->tp_alloc(type, 0);
    if (!self) return nullptr;
    self->vectorcall = pass;
    self->graph = Py_NewRef(graph), self->launcher = Py_NewRef(launcher), self->inner = inner, self->draws = draws;
    self->outputs = new Numbers(o), self->as_given = outputs == Py_None;
    self->reached = new Numbers(r), self->requires_grad = new Numbers(q), self->kept = new Numbers(k);
    self->saved = new Numbers, self->grads = new Numbers, self->found = new Numbers;
    self->strides = new std::vector<Numbers>;
    return (PyObject*)self;
}

// passages(Call, SavedList, CheckFailed): the classes of what a passage makes and raises
PyObject* passages(PyObject*, PyObject* args) {
    PyTypeObject *call, *saved;
    PyObject* failed;
    if (!PyArg_ParseTuple(args, "O!O!O", &PyType_Type, &call, &PyType_Type, &saved, &failed)) return nullptr;
    Places p = {};
    bool learned = learn_slots(call, {{"graph", &p.graph}, {"inputs", &p.inputs}, {"versions", &p.versions}, {"numbers", &p.numbers},
                       {"seed", &p.seed}, {"base", &p.base}, {"symbols", &p.symbols}, {"passage", &p.passage}})
        && learn_slots(world.attached, {{"backward_fn", &p.backward_fn}, {"label", &p.label}, {"with_saved", &p.with_saved},
               {"saved", &p.saved}, {"final", &p.final}, {"facts", &p.facts}, {"done", &p.done}})
        && learn_slots(saved, {{"items", &p.items}, {"versions", &p.saved_versions}, {"private", &p.is_private}})
        && learn_slots((PyTypeObject*)world.saved_output, {{"ref", &p.ref}, {"array", &p.array}, {"dtype", &p.dtype},
               {"device", &p.device}, {"storage", &p.storage}, {"geometry", &p.geometry}});
    if (!learned) return nullptr;
    p.backward = PyObject_GetAttrString((PyObject*)call, "backward");
    p.name = PyUnicode_InternFromString("CompiledBackward"), p.empty = PyDict_New();
    if (!p.backward || !p.name || !p.empty) return nullptr;
    p.call = (PyTypeObject*)Py_NewRef((PyObject*)call), p.saved_list = (PyTypeObject*)Py_NewRef((PyObject*)saved), p.check_failed = Py_NewRef(failed);
    places = p;
    Py_RETURN_NONE;
}

PyMethodDef passage_methods[] = {
    {"learn", learn, METH_VARARGS, "learn(run, saved, grads, strides, found, overwrites, views): how the backward of all outputs is called"},
    {nullptr, nullptr, 0, nullptr}};
PyTypeObject PassageType = {PyVarObject_HEAD_INIT(nullptr, 0)};

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
    {"passages", passages, METH_VARARGS, "passages(Call, SavedList, CheckFailed): the classes of what passages make and raise"},
    {"repeated", (PyCFunction)(void (*)(void))repeated, METH_FASTCALL,
        "repeated(outputs, numbers, inputs): an output of these numbers is an input or there twice"},
    {nullptr, nullptr, 0, nullptr}};

}

// The gradients per edge, by the graph's own backward; null without an error where the call is for Python.
PyObject* attached_gradients(PyObject* node, const std::vector<PyObject*>& grads, bool last) {
    static PyObject* released = PyUnicode_InternFromString("released");
    PyObject* method = places.call ? slot(node, places.backward_fn) : nullptr;
    if (!method || !PyMethod_Check(method) || PyMethod_GET_FUNCTION(method) != places.backward) return nullptr;
    Ref call(Py_NewRef(PyMethod_GET_SELF(method)));
    PyObject *known = slot(call.get(), places.passage), *saved = slot(node, places.saved);
    if (slot(node, places.done) != Py_None) return nullptr; // (steps of some outputs have run)
    if (!known || known == Py_None || !((Passage*)known)->back) return nullptr;
    Ref held(Py_NewRef(known));
    Passage* self = (Passage*)known;
    Thread thread;
    if (!read_state(thread) || thread.grad || !thread.quick || (self->overwrites && !last)) return nullptr;
    std::vector<Ref> items;
    if (saved != Py_None) {
        if (Py_TYPE(saved) != places.saved_list || slot(saved, places.is_private) != Py_True) return nullptr;
        PyObject *list = slot(saved, places.items), *versions = slot(saved, places.saved_versions);
        for (Py_ssize_t k = 0; k < PyList_GET_SIZE(list); k++) {
            items.push_back(kept_tensor(PyList_GET_ITEM(list, k), PyList_GET_ITEM(versions, k)));
            if (!items.back()) return nullptr;
        }
    }
    Ref arguments = backward_arguments(self, items, grads);
    items.clear();
    if (!arguments) return nullptr;
    if (last && saved != Py_None) { // as AttachedNode.release: what is saved may be overwritten, even by a run that fails
        if (PyObject_SetAttr(node, released, Py_True)) return nullptr;
        reset(node, places.saved, Py_NewRef(Py_None));
    }
    PyObject* given[] = {arguments.get(), slot(call.get(), places.seed), slot(call.get(), places.base)};
    Ref values = launched(self->back, given);
    if (!values) return tell_failure(), nullptr;
    if (!add_views(arguments.get(), values.get(), self->views)) return nullptr;
    return placed(*self->found, values.get(), arguments.get()).release();
}

bool add_attached(PyObject* module) {
    PassageType.tp_name = "flambeau.eager._call.Passage";
    PassageType.tp_doc = "Passage(graph, launcher, outputs, results, reached, requires, kept, draws): calls of a compiled graph, recorded without Python";
    PassageType.tp_basicsize = sizeof(Passage);
    PassageType.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL;
    PassageType.tp_new = passage_new, PassageType.tp_dealloc = passage_dealloc;
    PassageType.tp_traverse = passage_traverse, PassageType.tp_clear = passage_clear;
    PassageType.tp_call = PyVectorcall_Call, PassageType.tp_vectorcall_offset = offsetof(Passage, vectorcall);
    PassageType.tp_methods = passage_methods;
    if (PyType_Ready(&PassageType) || PyModule_AddFunctions(module, functions)) return false;
    return PyModule_AddObject(module, "Passage", Py_NewRef((PyObject*)&PassageType)) == 0;
}
