// The loop of the backward engine: dependency counts, gradients on their way, nodes in order of recording (latest
// first).
//
// `Task` is the base of engine.py's Task. Plain nodes run here: saved values are checked, formulas called, results
// passed on. A node with hooks or an `apply` of its own, a leaf with hooks, and runs for given inputs go through the
// Python methods `run_node` and `run_leaf`, which come back to `route`.
#include "gradients.h"
#include "compiled_node.h"

#include <memory>
#include <queue>
#include <unordered_map>
#include <vector>

namespace {

struct Tools { // from engine.py
    PyObject *fitted, *accumulate, *add, *add_inplace;
} tools;

struct Entry {
    Ref target;
    bool is_node, needed = true, delivered = false;
    Ref wanted; // the edge whose gradient is asked for, where a run is for given inputs
    long pending = 0;
    std::vector<PyObject*> grads; // per output; null: none yet

    Entry(PyObject* t, bool is_node) : target(Py_NewRef(t)), is_node(is_node) {}
    ~Entry() {
        for (PyObject* g : grads) Py_XDECREF(g);
    }
};

struct Ready {
    bool leaf;
    unsigned long sequence, order;
    Entry* entry;
    bool operator<(const Ready& other) const { // std::priority_queue: the largest comes first
        if (leaf != other.leaf) return other.leaf;
        if (sequence != other.sequence) return sequence < other.sequence;
        return order > other.order;
    }
};

struct Run {
    std::unordered_map<PyObject*, std::unique_ptr<Entry>> entries;
    std::vector<Entry*> order;
    std::priority_queue<Ready> ready;
    unsigned long pushed = 0;
};

struct Task {
    PyObject_HEAD Run* run;
};

// ---- nodes

bool is_node(PyObject* x) { return PyObject_TypeCheck(x, world.node); }

// Nodes of classes that keep their parts in the slots.
bool is_own(PyObject* node) { return is_plain_node(node) || Py_TYPE(node) == world.attached; }

Ref edges_of(PyObject* node) {
    static PyObject* name = PyUnicode_InternFromString("edges");
    if (is_own(node)) return Ref(Py_XNewRef(slot(node, world.n.edges)));
    return Ref(PyObject_GetAttr(node, name));
}

// Calls `f(edge, k, j)` for every edge of a sequence of edges: the k-th, or the j-th in the k-th, a list.
template <class F> bool each_edge(PyObject* edges, F f) {
    Ref fast(PySequence_Fast(edges, "edges must be a sequence"));
    if (!fast) return false;
    for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(fast.get()); k++) {
        PyObject* edge = PySequence_Fast_GET_ITEM(fast.get(), k);
        if (edge == Py_None) continue;
        if (!PyList_CheckExact(edge)) {
            if (!f(edge, k, -1)) return false;
            continue;
        }
        for (Py_ssize_t j = 0; j < PyList_GET_SIZE(edge); j++)
            if (PyList_GET_ITEM(edge, j) != Py_None && !f(PyList_GET_ITEM(edge, j), k, j)) return false;
    }
    return true;
}

Entry* entry_of(Run& run, PyObject* target, bool* fresh = nullptr) {
    auto found = run.entries.find(target);
    if (fresh) *fresh = found == run.entries.end();
    if (found != run.entries.end()) return found->second.get();
    Entry* made = new Entry(target, is_node(target));
    run.entries.emplace(target, made);
    run.order.push_back(made);
    return made;
}

bool push(Run& run, Entry* entry) {
    unsigned long sequence = 0;
    if (entry->is_node) {
        sequence = PyLong_AsUnsignedLong(slot(entry->target.get(), world.n.sequence));
        if (sequence == (unsigned long)-1 && PyErr_Occurred()) return false;
    }
    run.ready.push({!entry->is_node, sequence, run.pushed++, entry});
    return true;
}

// ---- gradients on their way

bool same_sizes(PyArrayObject* a, PyObject* sizes) {
    if (!PyTuple_Check(sizes) || PyTuple_GET_SIZE(sizes) != PyArray_NDIM(a)) return false;
    for (int d = 0; d < PyArray_NDIM(a); d++) {
        PyObject* n = PyTuple_GET_ITEM(sizes, d);
        if (!PyLong_CheckExact(n) || PyLong_AsSsize_t(n) != PyArray_DIM(a, d)) return PyErr_Clear(), false;
    }
    return true;
}

// True if the gradient certainly has the sizes and type of what it belongs to.
bool fits(PyObject* grad, Entry* entry, Py_ssize_t number) {
    if (!is_tensor(grad)) return false;
    PyArrayObject* a = array_of(grad);
    PyObject* target = entry->target.get();
    if (!a) return false;
    if (!entry->is_node) {
        PyArrayObject* own = array_of(target);
        return own && slot(grad, world.t.dtype) == slot(target, world.t.dtype) && PyArray_SAMESHAPE(a, own);
    }
    if (!is_own(target)) return false;
    PyObject* meta = PyTuple_GET_ITEM(slot(target, world.n.metas), number);
    return slot(grad, world.t.dtype) == PyTuple_GET_ITEM(meta, 1) && same_sizes(a, PyTuple_GET_ITEM(meta, 0));
}

// Nobody else can see the tensor's memory: it may be written.
bool is_private(PyObject* t) {
    if (Py_REFCNT(t) != 1 || !is_plain(t) || slot(t, world.t.storage) != Py_None || slot(t, world.t.view) != Py_None
        || slot(t, world.t.grad_fn) != Py_None || slot(t, world.t.requires_grad) == Py_True)
        return false;
    PyArrayObject* a = array_of(t);
    if (!a || Py_REFCNT(a) != 1 || !PyArray_ISWRITEABLE(a)) return false;
    PyObject* base = PyArray_BASE(a);
    return !base || (!PyArray_Check(base) && Py_REFCNT(base) == 1);
}

Ref sum(PyObject* have, PyObject* more) {
    Thread thread;
    if (!read_state(thread)) return Ref();
    bool write = thread.quick && !thread.grad && is_private(have) && is_plain(more) && array_of(more)
        && slot(have, world.t.dtype) == slot(more, world.t.dtype)
        && PyArray_SAMESHAPE(array_of(have), array_of(more));
    PyObject* args[] = {have, more};
    return Ref(PyObject_Vectorcall(write ? tools.add_inplace : tools.add, args, 2, nullptr));
}

// Add a gradient (borrowed; None: nothing) to what the target of an edge has received.
bool deliver(Entry* entry, PyObject* edge, PyObject* grad, PyObject* source, Py_ssize_t index) {
    PyObject* target = entry->target.get();
    Py_ssize_t number = PyLong_AsSsize_t(PyTuple_GET_ITEM(edge, 1));
    if (!entry->delivered) {
        Ref metas;
        if (entry->is_node)
            metas = Ref(is_own(target) ? Py_XNewRef(slot(target, world.n.metas)) : PyObject_GetAttrString(target, "metas"));
        if (entry->is_node && !metas) return false;
        entry->grads.assign(entry->is_node ? PyObject_Length(metas.get()) : 1, nullptr);
        entry->delivered = true;
    }
    if (grad == Py_None) return true;
    if (number < 0 || number >= (Py_ssize_t)entry->grads.size()) {
        PyErr_SetString(PyExc_RuntimeError, "an edge leads to an output that its node does not have");
        return false;
    }
    Ref fit;
    if (fits(grad, entry, number)) fit = Ref(Py_NewRef(grad));
    else {
        Ref position(PyLong_FromSsize_t(index));
        fit = Ref(PyObject_CallFunctionObjArgs(
            tools.fitted, grad, target, PyTuple_GET_ITEM(edge, 1), source, position.get(), nullptr));
    }
    if (!fit) return false;
    PyObject*& have = entry->grads[number];
    if (have) fit = sum(have, fit.get());
    if (!fit) return false;
    PyObject* old = have;
    have = fit.release();
    Py_XDECREF(old);
    return true;
}

bool pass_on(Run& run, PyObject* edge, PyObject* grad, PyObject* source, Py_ssize_t index) {
    auto found = run.entries.find(PyTuple_GET_ITEM(edge, 0));
    if (found == run.entries.end()) {
        PyErr_SetString(PyExc_RuntimeError, "the graph has changed while it ran");
        return false;
    }
    Entry* entry = found->second.get();
    if (!entry->needed) return true;
    if (!deliver(entry, edge, grad, source, index)) return false;
    return --entry->pending || push(run, entry);
}

// Results of a node: per edge a gradient, a sequence of them for a list of edges, or None.
bool route(Run& run, PyObject* node, PyObject* edges, PyObject* const* results) {
    return each_edge(edges, [&](PyObject* edge, Py_ssize_t k, Py_ssize_t j) {
        PyObject* grad = results[k];
        if (j < 0 || grad == Py_None) return pass_on(run, edge, grad, node, j < 0 ? k : j);
        Ref each(PySequence_GetItem(grad, j));
        return each && pass_on(run, edge, each.get(), node, j);
    });
}

// ---- plain nodes

struct Source {
    char kind; // 'g' gradient of an output, 'p' argument, 'o' output, 'n' what is needed
    int number;
};
struct Formula {
    Ref object, fn;
    std::vector<Source> sources;
};

const Formula* formula_of(PyObject* object) {
    static auto& known = *new std::unordered_map<PyObject*, std::unique_ptr<Formula>>; // outlives the interpreter
    auto found = known.find(object);
    if (found != known.end()) return found->second.get();
    auto made = std::make_unique<Formula>();
    Ref sources(PyObject_GetAttrString(object, "sources"));
    made->fn = Ref(PyObject_GetAttrString(object, "fn"));
    made->object = Ref(Py_NewRef(object));
    Ref fast(sources ? PySequence_Fast(sources.get(), "sources") : nullptr);
    if (!fast || !made->fn) return nullptr;
    for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(fast.get()); k++) {
        const char* kind;
        int number;
        if (!PyArg_ParseTuple(PySequence_Fast_GET_ITEM(fast.get(), k), "si", &kind, &number)) return nullptr;
        made->sources.push_back({kind[0], number});
    }
    return (known[object] = std::move(made)).get();
}

// 1: the saved arguments are as they were; 0: Python has to look at them.
bool versions_hold(PyObject* args, PyObject* versions) {
    if (versions == Py_None) return true;
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(versions); k++) {
        PyObject* version = PyTuple_GET_ITEM(versions, k);
        if (version == Py_None) continue;
        PyObject* a = PyTuple_GET_ITEM(args, k);
        bool many = PyTuple_CheckExact(version) && PyTuple_CheckExact(a) && PyTuple_GET_SIZE(a) == PyTuple_GET_SIZE(version);
        for (Py_ssize_t j = 0, n = many ? PyTuple_GET_SIZE(a) : 1; j < n; j++) {
            PyObject *t = many ? PyTuple_GET_ITEM(a, j) : a, *kept = many ? PyTuple_GET_ITEM(version, j) : version;
            if (!PyLong_CheckExact(kept) || !is_tensor(t) || version_of(t) != PyLong_AsLong(kept)) return false;
        }
    }
    return true;
}

Ref saved(PyObject* node, Py_ssize_t offset, const char* method) { // through the node's Python method
    return slot(node, offset) == Py_None ? Ref(Py_NewRef(Py_None)) : Ref(PyObject_CallMethod(node, method, nullptr));
}

struct Graph {
    Ref args, outs;
};

bool read_saved(PyObject* node, Graph& g) {
    PyObject* args = slot(node, world.n.args);
    bool plain = args && PyTuple_CheckExact(args) && versions_hold(args, slot(node, world.n.versions));
    g.args = plain ? Ref(Py_NewRef(args)) : Ref(PyObject_CallMethod(node, "saved_args", nullptr));
    if (!g.args) return false;
    g.outs = saved(node, world.n.outs, "saved_outs");
    return (bool)g.outs;
}

Ref call_formula(const Formula& f, PyObject* const* grads, const Graph& g) {
    PyObject* values[16];
    if (f.sources.size() > 16) {
        PyErr_SetString(PyExc_RuntimeError, "a gradient formula of too many arguments");
        return Ref();
    }
    for (size_t k = 0; k < f.sources.size(); k++) {
        Source s = f.sources[k];
        values[k] = s.kind == 'g' ? grads[s.number]
            : s.kind == 'p'       ? PyTuple_GET_ITEM(g.args.get(), s.number)
            : s.kind == 'o'       ? PyList_GET_ITEM(g.outs.get(), s.number)
                                  : Py_None;
    }
    return Ref(PyObject_Vectorcall(f.fn.get(), values, f.sources.size(), nullptr));
}

bool any_complex(PyObject* const* grads, size_t count) {
    for (size_t k = 0; k < count; k++) {
        if (grads[k] == Py_None) continue;
        int type = type_of(grads[k]);
        if (type < 0 || world.types[type].category == 3) return true;
    }
    return false;
}

// (formulas, names of the parameters) of a record, or (null, null) where it has one formula for all.
struct RecordGradients {
    Ref op, formulas, names;
    bool star;
    std::vector<QuickGradient> quick; // per parameter; null where there is none
    QuickGradient all = nullptr; // of all parameters at once
};

const RecordGradients* gradients_of(PyObject* op) {
    static auto& known = *new std::unordered_map<PyObject*, std::unique_ptr<RecordGradients>>;
    static PyObject* star = PyUnicode_InternFromString("*");
    auto found = known.find(op);
    if (found != known.end()) return found->second.get();
    auto made = std::make_unique<RecordGradients>();
    Ref params(PyObject_GetAttrString(op, "params"));
    made->op = Ref(Py_NewRef(op));
    made->formulas = Ref(PyObject_GetAttrString(op, "grads"));
    if (!params || !made->formulas) return nullptr;
    made->names = Ref(PyTuple_New(PyTuple_GET_SIZE(params.get())));
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(params.get()); k++) {
        PyObject* name = PyObject_GetAttrString(PyTuple_GET_ITEM(params.get(), k), "name");
        if (!name) return nullptr;
        PyTuple_SET_ITEM(made->names.get(), k, name);
        made->quick.push_back(quick_gradient(op, name));
    }
    made->star = PyDict_GetItemWithError(made->formulas.get(), star);
    if (made->star) made->all = quick_gradient(op, star);
    return (known[op] = std::move(made)).get();
}

// The formulas of a record, one per parameter that leads on. `results` gets new references.
bool apply_formulas(PyObject* node, const RecordGradients& known, PyObject* edges, PyObject* const* grads, size_t count,
    std::vector<Ref>& results) {
    Graph saved;
    Thread thread;
    if (!read_saved(node, saved) || !read_state(thread)) return false;
    PyObject *formulas = known.formulas.get(), *names = known.names.get();
    bool complex = any_complex(grads, count), quick = thread.quick && !thread.grad;
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(edges); k++) {
        PyObject* edge = PyTuple_GET_ITEM(edges, k);
        PyObject* object = edge == Py_None ? nullptr : PyDict_GetItemWithError(formulas, PyTuple_GET_ITEM(names, k));
        if (!object) {
            if (PyErr_Occurred()) return false;
            results.emplace_back(Py_NewRef(Py_None));
            continue;
        }
        const Formula* formula = formula_of(object);
        if (!formula) return false;
        Ref result;
        if (quick && known.quick[k]) {
            result = Ref(known.quick[k]({grads, (int)count, saved.args.get(), saved.outs.get(), 1u << k}));
            if (!result && PyErr_Occurred()) return false;
        }
        if (result) {
        } else if (complex) {
            Ref list(PyTuple_New(count));
            for (size_t j = 0; j < count; j++) PyTuple_SET_ITEM(list.get(), j, Py_NewRef(grads[j]));
            result = Ref(PyObject_CallFunctionObjArgs(
                object, list.get(), saved.args.get(), saved.outs.get(), Py_None, nullptr));
        } else result = call_formula(*formula, grads, saved);
        if (!result) return false;
        results.push_back(std::move(result));
    }
    return true;
}

// The one native step for all parameters of a record. 1: done; 0: not so; -1: an error is set.
int apply_at_once(PyObject* node, QuickGradient all, PyObject* edges, PyObject* const* grads, size_t count, std::vector<Ref>& results) {
    Thread thread;
    Graph saved;
    if (!read_state(thread)) return -1;
    if (!thread.quick || thread.grad) return 0;
    static PyObject* packed = PyUnicode_InternFromString("packed");
    Ref once(PyObject_GetAttr(node, packed)); // what hooks keep may be asked for once, and this step may decline
    if (!once) return -1;
    if (once.get() != Py_False) return 0;
    if (!read_saved(node, saved)) return -1;
    unsigned needed = 0;
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(edges); k++)
        if (PyTuple_GET_ITEM(edges, k) != Py_None) needed |= 1u << k;
    Ref found(all({grads, (int)count, saved.args.get(), saved.outs.get(), needed}));
    if (!found) return PyErr_Occurred() ? -1 : 0;
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(found.get()); k++) results.emplace_back(Py_NewRef(PyTuple_GET_ITEM(found.get(), k)));
    return 1;
}

// The node's own method: apply(grads, needs) -> list of results.
bool apply_method(PyObject* node, PyObject* edges, PyObject* const* grads, size_t count, std::vector<Ref>& results) {
    Ref list(PyList_New(count)), needs(PyList_New(PyTuple_GET_SIZE(edges)));
    for (size_t k = 0; k < count; k++) PyList_SET_ITEM(list.get(), k, Py_NewRef(grads[k]));
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(edges); k++) {
        PyObject *edge = PyTuple_GET_ITEM(edges, k), *need = Py_NewRef(edge == Py_None ? Py_False : Py_True);
        if (PyList_CheckExact(edge)) {
            bool any = false;
            Py_DECREF(need);
            need = PyTuple_New(PyList_GET_SIZE(edge));
            for (Py_ssize_t j = 0; j < PyList_GET_SIZE(edge); j++) {
                bool leads = PyList_GET_ITEM(edge, j) != Py_None;
                any = any || leads;
                PyTuple_SET_ITEM(need, j, PyBool_FromLong(leads));
            }
            if (!any) Py_DECREF(need), need = Py_NewRef(Py_False);
        }
        PyList_SET_ITEM(needs.get(), k, need);
    }
    Ref found(PyObject_CallMethod(node, "apply", "OO", list.get(), needs.get()));
    Ref fast(found ? PySequence_Fast(found.get(), "apply must return a sequence") : nullptr);
    if (!fast) return false;
    for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(fast.get()); k++)
        results.emplace_back(Py_NewRef(PySequence_Fast_GET_ITEM(fast.get(), k)));
    while ((Py_ssize_t)results.size() < PyTuple_GET_SIZE(edges)) results.emplace_back(Py_NewRef(Py_None));
    return true;
}

void release(PyObject* node) { // as Node.release
    if (slot(node, world.n.versions) == Py_None && slot(node, world.n.outs) == Py_None) return;
    reset(node, world.n.args, Py_NewRef(Py_None));
    reset(node, world.n.outs, Py_NewRef(Py_None));
}

struct Grads { // what a target has received, None where nothing; owns
    std::vector<PyObject*> list;
    explicit Grads(Entry* entry) : list(std::move(entry->grads)) {
        entry->grads.clear();
        entry->delivered = false;
        for (PyObject*& g : list)
            if (!g) g = Py_NewRef(Py_None);
    }
    Grads(const Grads&) = delete;
    ~Grads() {
        for (PyObject* g : list) Py_DECREF(g);
    }
};

// A slice's gradient goes straight into what its tensor has received so far, where nobody else sees that memory:
// zeros of the whole size for each piece would cost more than the pieces. 1: done; 0: not so; -1: an error is set.
int add_piece(Run& run, PyObject* node, PyObject* grad, bool retain) {
    PyObject* edge = grad == Py_None ? Py_None : PyTuple_GET_ITEM(slot(node, world.n.edges), 0);
    PyObject* args = slot(node, world.n.args);
    if (edge == Py_None || !PyTuple_CheckExact(edge) || !args || !PyTuple_CheckExact(args) || !is_plain(grad)) return 0;
    auto found = run.entries.find(PyTuple_GET_ITEM(edge, 0));
    if (found == run.entries.end() || !found->second->delivered || !found->second->needed) return 0;
    Py_ssize_t number = PyLong_AsSsize_t(PyTuple_GET_ITEM(edge, 1));
    PyObject* have = number < (Py_ssize_t)found->second->grads.size() ? found->second->grads[number] : nullptr;
    Thread thread;
    if (!have || !read_state(thread)) return PyErr_Occurred() ? -1 : 0;
    if (thread.grad || !thread.quick || !is_private(have) || !array_of(grad)
        || slot(have, world.t.dtype) != slot(grad, world.t.dtype))
        return 0;
    Ref piece(piece_of(slot(node, world.n.op), have, &PyTuple_GET_ITEM(args, 1)));
    if (!piece) return PyErr_Occurred() ? -1 : 0;
    if (!PyArray_SAMESHAPE(array_of(piece.get()), array_of(grad))) return 0;
    PyObject* operands[] = {piece.get(), grad};
    Ref done(PyObject_Vectorcall(tools.add_inplace, operands, 2, nullptr));
    if (!done) return -1;
    if (!retain) release(node);
    Entry* entry = found->second.get();
    return --entry->pending || push(run, entry) ? 1 : -1;
}

bool run_plain(Run& run, PyObject* node, Grads& grads, bool retain) {
    if (is_piece(slot(node, world.n.op))) {
        int done = add_piece(run, node, grads.list[0], retain);
        if (done) return done > 0;
    }
    Ref edges(Py_NewRef(slot(node, world.n.edges)));
    std::vector<Ref> results;
    bool any = false;
    for (PyObject* g : grads.list) any = any || g != Py_None;
    if (any) {
        const RecordGradients* known = gradients_of(slot(node, world.n.op));
        if (!known) return false;
        int at_once = known->all
            ? apply_at_once(node, known->all, edges.get(), grads.list.data(), grads.list.size(), results)
            : 0;
        if (at_once < 0) return false;
        bool done = at_once ? true
            : known->star
            ? apply_method(node, edges.get(), grads.list.data(), grads.list.size(), results)
            : apply_formulas(node, *known, edges.get(), grads.list.data(), grads.list.size(), results);
        if (!done) return false;
    }
    if (!retain) release(node);
    // a gradient passed through may become the only one
    for (PyObject*& g : grads.list) Py_SETREF(g, Py_NewRef(Py_None));
    Py_ssize_t count = PyTuple_GET_SIZE(edges.get());
    std::vector<PyObject*> borrowed(count, Py_None);
    for (Py_ssize_t k = 0; k < count && k < (Py_ssize_t)results.size(); k++) borrowed[k] = results[k].get();
    return each_edge(edges.get(), [&](PyObject* edge, Py_ssize_t k, Py_ssize_t j) {
        PyObject* grad = borrowed[k];
        if (j < 0 || grad == Py_None) return pass_on(run, edge, grad, node, j < 0 ? k : j);
        Ref each(PySequence_GetItem(grad, j));
        return each && pass_on(run, edge, each.get(), node, j);
    });
}

// ---- leaves

bool same_layout(PyArrayObject* a, PyArrayObject* b) {
    if (PyArray_NDIM(a) != PyArray_NDIM(b)) return false;
    for (int d = 0; d < PyArray_NDIM(a); d++)
        if (PyArray_STRIDE(a, d) != PyArray_STRIDE(b, d)) return false;
    return true;
}

// The gradient of a leaf without hooks is added to its `.grad`.
bool accumulate(PyObject* leaf, Grads& grads) {
    PyObject* grad = grads.list[0];
    if (grad == Py_None) return true;
    PyObject* have = slot(leaf, world.t.grad);
    Thread thread;
    if (!read_state(thread)) return false;
    PyArrayObject* own = array_of(leaf);
    if ((!have || have == Py_None) && !thread.grad && own && is_private(grad) && same_layout(array_of(grad), own)) {
        reset(leaf, world.t.grad, Py_NewRef(grad));
        return true;
    }
    if (have && have != Py_None && !thread.grad) {
        PyObject* args[] = {have, grad};
        Ref done(PyObject_Vectorcall(tools.add_inplace, args, 2, nullptr));
        return (bool)done;
    }
    Ref held(PyList_New(1));
    if (!held) return false;
    PyList_SET_ITEM(held.get(), 0, grad);
    grads.list[0] = Py_NewRef(Py_None);
    Ref done(PyObject_CallFunctionObjArgs(tools.accumulate, leaf, held.get(), nullptr));
    return (bool)done;
}

// ---- the type

PyObject* task_new(PyTypeObject* type, PyObject*, PyObject*) {
    Task* self = (Task*)type->tp_alloc(type, 0);
    if (self) self->run = new Run;
    return (PyObject*)self;
}

void task_dealloc(PyObject* raw) {
    PyTypeObject* type = Py_TYPE(raw);
    delete ((Task*)raw)->run;
    type->tp_free(raw);
}

// Dependency counts of everything from these targets, which are noted in the order in which they were found.
bool reach(Run& run, PyObject* const* targets, Py_ssize_t count) {
    std::vector<Entry*> stack;
    for (Py_ssize_t k = 0; k < count; k++) {
        bool fresh;
        Entry* entry = entry_of(run, targets[k], &fresh);
        if (fresh) stack.push_back(entry);
    }
    while (!stack.empty()) {
        Entry* entry = stack.back();
        stack.pop_back();
        if (!entry->is_node) continue;
        Ref edges = edges_of(entry->target.get());
        if (!edges) return false;
        bool done = each_edge(edges.get(), [&](PyObject* edge, Py_ssize_t, Py_ssize_t) {
            bool fresh;
            Entry* child = entry_of(run, PyTuple_GET_ITEM(edge, 0), &fresh);
            child->pending++;
            if (fresh) stack.push_back(child);
            return true;
        });
        if (!done) return false;
    }
    return true;
}

PyObject* task_reach(PyObject* raw, PyObject* targets) {
    Ref fast(PySequence_Fast(targets, "targets must be a sequence"));
    if (!fast) return nullptr;
    if (!reach(*((Task*)raw)->run, PySequence_Fast_ITEMS(fast.get()), PySequence_Fast_GET_SIZE(fast.get())))
        return nullptr;
    Py_RETURN_NONE;
}

PyObject* task_order(PyObject* raw, PyObject*) {
    Run& run = *((Task*)raw)->run;
    Ref list(PyList_New(0));
    for (Entry* entry : run.order)
        if (!list || PyList_Append(list.get(), entry->target.get())) return nullptr;
    return list.release();
}

PyObject* task_only(PyObject* raw, PyObject* needed) {
    for (Entry* entry : ((Task*)raw)->run->order) {
        int found = PySequence_Contains(needed, entry->target.get());
        if (found < 0) return nullptr;
        entry->needed = found;
    }
    Py_RETURN_NONE;
}

PyObject* task_wants(PyObject* raw, PyObject* edges) {
    Run& run = *((Task*)raw)->run;
    bool done = each_edge(edges, [&](PyObject* edge, Py_ssize_t, Py_ssize_t) {
        auto found = run.entries.find(PyTuple_GET_ITEM(edge, 0));
        if (found != run.entries.end()) found->second->wanted = Ref(Py_NewRef(edge));
        return true;
    });
    return done ? Py_NewRef(Py_None) : nullptr;
}

PyObject* task_reached(PyObject* raw, PyObject* target) {
    Run& run = *((Task*)raw)->run;
    auto found = run.entries.find(target);
    return PyBool_FromLong(found != run.entries.end() && found->second->needed);
}

PyObject* task_deliver(PyObject* raw, PyObject* args) {
    Run& run = *((Task*)raw)->run;
    PyObject *edge, *grad, *source;
    Py_ssize_t index;
    if (!PyArg_ParseTuple(args, "O!OOn", &PyTuple_Type, &edge, &grad, &source, &index)) return nullptr;
    Entry* entry = entry_of(run, PyTuple_GET_ITEM(edge, 0));
    if (!entry->needed) Py_RETURN_NONE;
    if (!deliver(entry, edge, grad, source, index)) return nullptr;
    Py_RETURN_NONE;
}

PyObject* task_route(PyObject* raw, PyObject* args) {
    PyObject *node, *results;
    if (!PyArg_ParseTuple(args, "OO", &node, &results)) return nullptr;
    Ref edges = edges_of(node), fast(PySequence_Fast(results, "results must be a sequence"));
    if (!edges || !fast) return nullptr;
    Ref list(PySequence_Fast(edges.get(), "edges must be a sequence"));
    if (!list) return nullptr;
    Py_ssize_t count = PySequence_Fast_GET_SIZE(list.get());
    std::vector<PyObject*> borrowed(count, Py_None);
    for (Py_ssize_t k = 0; k < count && k < PySequence_Fast_GET_SIZE(fast.get()); k++)
        borrowed[k] = PySequence_Fast_GET_ITEM(fast.get(), k);
    if (!route(*((Task*)raw)->run, node, list.get(), borrowed.data())) return nullptr;
    Py_RETURN_NONE;
}

bool has_hooks(PyObject* node) {
    static PyObject* name = PyUnicode_InternFromString("hooks");
    Ref hooks(PyObject_GetAttr(node, name));
    return !hooks || hooks.get() != Py_None;
}

// The list of what a node has received; `grads` holds None instead.
Ref listed(Grads& grads) {
    Ref list(PyList_New(grads.list.size()));
    for (size_t k = 0; list && k < grads.list.size(); k++) {
        PyList_SET_ITEM(list.get(), k, grads.list[k]);
        grads.list[k] = Py_NewRef(Py_None);
    }
    return list;
}

// A compiled call's node does the whole of its backward in one method: run(gradients, last).
bool run_attached(Run& run, PyObject* node, Grads& grads, bool retain) {
    static PyObject* name = PyUnicode_InternFromString("run");
    Ref edges(Py_NewRef(slot(node, world.n.edges)));
    bool any = false;
    for (PyObject* g : grads.list) any = any || g != Py_None;
    if (!any) { // no gradient reached it
        std::vector<PyObject*> nothing(PyTuple_GET_SIZE(edges.get()), Py_None);
        Ref done(retain ? Py_NewRef(Py_None) : PyObject_CallMethod(node, "release", nullptr));
        return done && route(run, node, edges.get(), nothing.data());
    }
    Ref results(attached_gradients(node, grads.list, !retain));
    if (!results && !PyErr_Occurred()) {
        Ref list = listed(grads);
        if (!list) return false;
        PyObject* args[] = {node, list.get(), retain ? Py_False : Py_True};
        results = Ref(PyObject_VectorcallMethod(name, args, 3 | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr));
    }
    if (!results) return false;
    for (PyObject*& g : grads.list) Py_SETREF(g, Py_NewRef(Py_None));
    if (!PyList_CheckExact(results.get()) || PyList_GET_SIZE(results.get()) != PyTuple_GET_SIZE(edges.get())) {
        PyErr_SetString(PyExc_RuntimeError, "a compiled backward gave another number of gradients than it has inputs");
        return false;
    }
    return route(run, node, edges.get(), PySequence_Fast_ITEMS(results.get()));
}

// How a run goes: `plain`: no inputs are asked for and nothing watches, so that plain nodes and leaves need no Python method;
// `captured`: the dictionary for the gradients of what is asked for, where nothing watches either, else null.
struct How {
    bool plain, retain;
    PyObject* captured;
};

// In a run for given inputs: a node that is none of them, all of whose edges lead to one.
bool is_between(Run& run, Entry* entry) {
    PyObject* target = entry->target.get();
    return !entry->wanted && is_own(target)
        && each_edge(slot(target, world.n.edges), [&](PyObject* edge, Py_ssize_t, Py_ssize_t) {
               auto found = run.entries.find(PyTuple_GET_ITEM(edge, 0));
               return found != run.entries.end() && found->second->needed;
           });
}

bool step(PyObject* self, Run& run, Entry* entry, const How& how) {
    PyObject* target = entry->target.get();
    Grads grads(entry);
    if (entry->is_node) {
        if ((how.plain || (how.captured && is_between(run, entry))) && is_own(target) && !has_hooks(target))
            return is_plain_node(target) ? run_plain(run, target, grads, how.retain)
                                         : run_attached(run, target, grads, how.retain);
        if (PyErr_Occurred()) return false;
        Ref list = listed(grads);
        if (!list) return false;
        Ref done(PyObject_CallMethod(self, "run_node", "OO", target, list.get()));
        return (bool)done;
    }
    if (is_plain(target) && !slot(target, world.t.hooks)) {
        if (how.plain) return accumulate(target, grads);
        if (how.captured)
            return !entry->wanted || grads.list[0] == Py_None
                || !PyDict_SetItem(how.captured, entry->wanted.get(), grads.list[0]);
    }
    Ref done(PyObject_CallMethod(self, "run_leaf", "OO", target, grads.list[0]));
    return (bool)done;
}

bool run_ready(PyObject* self, Run& run, const How& how) {
    while (!run.ready.empty()) {
        Entry* entry = run.ready.top().entry;
        run.ready.pop();
        if (!step(self, run, entry, how)) return false;
    }
    return true;
}

// loop(targets, plain, retain, captured): run what is ready from these on, until nothing is. `captured` is a dictionary or None.
PyObject* task_loop(PyObject* raw, PyObject* args) {
    Run& run = *((Task*)raw)->run;
    PyObject *targets, *captured;
    int plain, retain;
    if (!PyArg_ParseTuple(args, "OppO", &targets, &plain, &retain, &captured)) return nullptr;
    Ref fast(PySequence_Fast(targets, "targets must be a sequence"));
    if (!fast) return nullptr;
    for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(fast.get()); k++) {
        Entry* entry = entry_of(run, PySequence_Fast_GET_ITEM(fast.get(), k));
        if (!entry->pending && entry->delivered && !push(run, entry)) return nullptr;
    }
    if (!run_ready(raw, run, {plain != 0, retain != 0, PyDict_CheckExact(captured) ? captured : nullptr})) return nullptr;
    Py_RETURN_NONE;
}

// ---- `loss.backward()` as a whole

// 1 for a scalar of float32 or float64; null without an error for anything else.
PyObject* one_like(PyObject* t) {
    PyArrayObject* a = array_of(t);
    int type = type_of(t);
    if (PyArray_SIZE(a) != 1 || (type != FLOAT32 && type != FLOAT64)) return nullptr;
    PyObject* made = fresh_array(type, PyArray_NDIM(a), PyArray_DIMS(a), nullptr);
    if (!made) return nullptr;
    void* data = PyArray_DATA((PyArrayObject*)made);
    if (type == FLOAT32) *(float*)data = 1;
    else *(double*)data = 1;
    return new_tensor(made, slot(t, world.t.dtype));
}

bool run_whole(PyObject* task, PyObject* edge, Ref grad) {
    static PyObject* name = PyUnicode_InternFromString("callbacks");
    Run& run = *((Task*)task)->run;
    PyObject* target = PyTuple_GET_ITEM(edge, 0);
    if (!reach(run, &target, 1)) return false;
    Entry* entry = entry_of(run, target);
    if (!deliver(entry, edge, grad.get(), Py_None, 0)) return false;
    grad = Ref();
    if (!entry->pending && !push(run, entry)) return false;
    if (!run_ready(task, run, {true, false, nullptr})) return false;
    Ref callbacks(PyObject_GetAttr(task, name));
    int any = callbacks ? PyObject_IsTrue(callbacks.get()) : -1;
    if (any <= 0) return any == 0;
    return (bool)Ref(PyObject_CallMethod(task, "finish", nullptr));
}

// backward(tensor, Task): what `tensor.backward()` does where no mode, hook of saved tensors or anomaly mode is active.
// False: nothing was done, the call is for Python.
PyObject* py_backward(PyObject*, PyObject* const* args, Py_ssize_t count) {
    static PyObject* names[] = {PyUnicode_InternFromString("grad"), PyUnicode_InternFromString("task"),
        PyUnicode_InternFromString("inference")};
    static PyObject* empty = PyTuple_New(0);
    if (count != 2) return PyErr_Format(PyExc_TypeError, "backward(tensor, Task)");
    PyObject* t = args[0];
    Thread thread;
    if (!is_plain(t) || !array_of(t) || !is_cpu(t) || !needs_grad(t)) Py_RETURN_FALSE;
    if (!read_state(thread)) return nullptr;
    if (!thread.quick || state_field(names[2]) != Py_False) Py_RETURN_FALSE;
    Ref edge(edge_of(t)), grad(one_like(t));
    if (!edge || !grad) {
        if (PyErr_Occurred()) return nullptr;
        Py_RETURN_FALSE;
    }
    Ref task(((PyTypeObject*)args[1])->tp_new((PyTypeObject*)args[1], empty, nullptr));
    Ref above(Py_XNewRef(state_field(names[1])));
    if (!task || !above || !set_state_field(names[0], Py_False) || !set_state_field(names[1], task.get())) return nullptr;
    bool done = run_whole(task.get(), edge.get(), std::move(grad));
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    bool reset = set_state_field(names[0], thread.grad ? Py_True : Py_False) && set_state_field(names[1], above.get());
    if (!done) return PyErr_Restore(type, value, trace), nullptr;
    if (!reset) return nullptr;
    Py_RETURN_TRUE;
}

PyObject* py_engine(PyObject*, PyObject* args) {
    if (!PyArg_ParseTuple(args, "OOOO", &tools.fitted, &tools.accumulate, &tools.add,
            &tools.add_inplace))
        return nullptr;
    for (PyObject* each : {tools.fitted, tools.accumulate, tools.add, tools.add_inplace}) Py_INCREF(each);
    Py_RETURN_NONE;
}

PyMethodDef task_methods[] = {
    {"reach", task_reach, METH_O, "reach(targets): count the dependencies of everything from these"},
    {"order", task_order, METH_NOARGS, "order(): everything reached"},
    {"only", task_only, METH_O, "only(needed): gradients of other targets are not computed"},
    {"wants", task_wants, METH_O, "wants(edges): these lead to what is asked for"},
    {"reaches", task_reached, METH_O, "reaches(target): whether this run computes (or has computed) a gradient there"},
    {"deliver", task_deliver, METH_VARARGS,
        "deliver(edge, grad, source, index): add to what the edge's target received"},
    {"route", task_route, METH_VARARGS, "route(node, results): pass a node's results on along its edges"},
    {"loop", task_loop, METH_VARARGS, "loop(targets, plain, retain, captured): run until nothing is ready"},
    {nullptr, nullptr, 0, nullptr}};

PyTypeObject TaskType = {PyVarObject_HEAD_INIT(nullptr, 0)};
PyMethodDef functions[]
    = {{"engine", py_engine, METH_VARARGS,
        "engine(fitted, accumulate, add, add in place): learn the engine's functions"},
        {"backward", (PyCFunction)(void (*)(void))py_backward, METH_FASTCALL,
            "backward(tensor, Task): `tensor.backward()` in the plain case; False: it is none, and nothing was done"},
        {nullptr, nullptr, 0, nullptr}};

}

bool add_engine(PyObject* module) {
    TaskType.tp_name = "flambeau.eager._call.Task";
    TaskType.tp_basicsize = sizeof(Task);
    TaskType.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE;
    TaskType.tp_new = task_new;
    TaskType.tp_dealloc = task_dealloc;
    TaskType.tp_methods = task_methods;
    if (PyType_Ready(&TaskType) || PyModule_AddFunctions(module, functions)) return false;
    return PyModule_AddObject(module, "Task", Py_NewRef((PyObject*)&TaskType)) == 0;
}
