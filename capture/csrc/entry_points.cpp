// Wrapper and Resume: the two doors that are called. A hit runs the generated code as a function, or, for a whole
// graph, its direct callable; a failed check of compiled code runs the original as if nothing had been tried.
#include "bind_args.h"
#include "cache.h"
#include "frame.h"
#include "eager_classes.h"

namespace doors {

PyTypeObject *wrapper_type, *resume_type;
PyObject* tail_call;

struct Call {
    PyObject* const* args;
    size_t nargsf;
    PyObject* kwnames;
};

// ---------------------------------------------------------------------------------------------- Wrapper

static Py_ssize_t all_given(const Call& with) {
    return PyVectorcall_NARGS(with.nargsf) + (with.kwnames ? PyTuple_GET_SIZE(with.kwnames) : 0);
}

static PyObject* call(PyObject* callable, const Call& with) {
    return PyObject_Vectorcall(callable, with.args, with.nargsf, with.kwnames);
}

// The original, with nested frames looked up.
static PyObject* run_plain(Thread& thread, Door* door, const Call& with) {
    Scope running(thread, door->cache ? Mode::Running : Mode::Off, door->cache, nullptr);
    thread.skip = (PyCodeObject*)door->code;
    return call(door->function, with);
}

// Default values are read at the call, so a function object made earlier must follow its original.
static bool follow_defaults(PyObject* function, PyObject* original) {
    PyObject* defaults = PyFunction_GET_DEFAULTS(original);
    if (PyFunction_GET_DEFAULTS(function) != defaults &&
        PyFunction_SetDefaults(function, defaults ? defaults : Py_None) < 0) return false;
    PyObject* by_name = PyFunction_GET_KW_DEFAULTS(original);
    return PyFunction_GET_KW_DEFAULTS(function) == by_name ||
           PyFunction_SetKwDefaults(function, by_name ? by_name : Py_None) == 0;
}

static PyObject* entry_function(Door* door, Entry* entry) {
    if (!entry->function)
        entry->function = make_function(entry->code, door->globals, PyFunction_GET_CLOSURE(door->function)).release();
    return entry->function && follow_defaults(entry->function, door->function) ? entry->function : nullptr;
}

static PyObject* run_generated(Thread& thread, Door* door, Entry* entry, const Call& with) {
    Ref function = Ref::borrow(entry_function(door, entry));
    return function ? finish_tail_calls(thread, call(function.get(), with)) : nullptr;
}

// The original, as an entry that is left to Python runs it: frames inside of it are not looked up.
static PyObject* run_left(Thread& thread, Door* door, const Call& with) {
    Ref held = Ref::borrow((PyObject*)door), cache = Ref::borrow((PyObject*)door->cache);
    Scope off(thread, Mode::Off, door->cache, nullptr);
    Handed handed(thread, nullptr);
    door->hits++;
    return call(door->function, with);
}

static bool all_left(Door* door) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(door->entries); i++)
        if (!((Entry*)PyTuple_GET_ITEM(door->entries, i))->left) return false;
    return true;
}

static void keep_look(Door* door, const Call& with) {
    if (PyVectorcall_NARGS(with.nargsf) == 0 || !all_left(door)) return;
    if (!door->look) door->look = new Look();
    door->look->keep(with.args, all_given(with), with.kwnames);
}

static PyObject* run_wrapper_hit(Thread& thread, Door* door, Entry* entry, Fetched& fetched, const Call& with) {
    if (!entry->direct) fetched.reset(0);   // the frame alone holds what it was given
    Scope off(thread, Mode::Off, door->cache, PyCode_Check(entry->code) ? (PyCodeObject*)entry->code : nullptr);
    return entry->direct ? run_direct(entry, fetched) : run_generated(thread, door, entry, with);
}

// Ops inside a mode or saved-tensor hooks mean something else than when the entries were made.
static bool told_special(Door* door) {
    static PyObject* name = PyUnicode_InternFromString("special");
    Ref told(PyObject_CallMethodNoArgs((PyObject*)door->cache, name));
    return bool(told);
}

// `f.__code__ = other` makes everything compiled for f worthless.
static bool follow_code(Door* door) {
    PyObject* code = PyFunction_GET_CODE(door->function);
    if (code == door->code) return true;
    PyObject* empty = PyTuple_New(0);
    if (!empty) return false;
    Py_SETREF(door->entries, empty);
    Py_SETREF(door->code, Ref::borrow(code).release());
    return true;
}

static PyObject* wrapper_call(PyObject* self, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
    Door* door = (Door*)self;
    Call with{args, nargsf, kwnames};
    Thread& thread = this_thread();
    if (thread.mode == Mode::Capturing || !door->cache || forced_eager ||
        frame::traced(PyThreadState_Get())) return call(door->function, with);
    if (door->look && PyFunction_GET_CODE(door->function) == door->code && door->look->same(args, all_given(with), kwnames))
        return run_left(thread, door, with);           // right in any state
    if (special_state()) return told_special(door) ? call(door->function, with) : nullptr;
    if (!follow_code(door)) return nullptr;
    Bound bound(door->function);
    if (!bound.bind(args, PyVectorcall_NARGS(nargsf), kwnames)) return call(door->function, with);
    Ref held = Ref::borrow(self), cache = Ref::borrow((PyObject*)door->cache);
    Slots slots{bound.values(), bound.count(), door->globals, door->builtins, PyFunction_GET_CLOSURE(door->function)};
    Fetched fetched;
    Ref entry((PyObject*)find(thread, door, slots, fetched));
    if (!entry) return PyErr_Occurred() ? nullptr : run_plain(thread, door, with);
    if (((Entry*)entry.get())->left) keep_look(door, with);
    Handed handed(thread, nullptr);
    PyObject* result = run_wrapper_hit(thread, door, (Entry*)entry.get(), fetched, with);
    if (result || handed.gone() || !is_check_failure()) return result;
    PyErr_Clear();
    return run_plain(thread, door, with);
}

static PyObject* wrapper_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
    static const char* names[] = {"cache", "function", nullptr};
    PyObject *cache, *function;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!O!", (char**)names, cache_type, &cache, &PyFunction_Type,
                                     &function)) return nullptr;
    PyFunctionObject* fn = (PyFunctionObject*)function;
    Door* door = new_door(type, DoorKind::Wrapper, (Cache*)cache, fn->func_code, fn->func_globals, fn->func_builtins);
    if (!door) return nullptr;
    door->function = Ref::borrow(function).release();
    door->call = wrapper_call;
    return (PyObject*)door;
}

static PyObject* wrapper_bind(PyObject* self, PyObject* object, PyObject*) {
    return object && object != Py_None ? PyMethod_New(self, object) : Ref::borrow(self).release();
}

// ---------------------------------------------------------------------------------------------- Resume

static Py_ssize_t free_variables(PyObject* code) { return ((PyCodeObject*)code)->co_nfreevars; }
static Py_ssize_t arguments(PyObject* code) { return ((PyCodeObject*)code)->co_argcount; }

struct ResumeCall {
    Door* door;
    PyObject* const* args;      // arguments, then cells
    Ref closure;
    Py_ssize_t count() const { return arguments(door->code); }
};

static PyObject* call_code(PyObject* code, const ResumeCall& with) {
    Ref function = make_function(code, with.door->globals, with.closure.get());
    return function ? PyObject_Vectorcall(function.get(), with.args, with.count(), nullptr) : nullptr;
}

static PyObject* resume_plain(Thread& thread, const ResumeCall& with) {
    Cache* cache = with.door->cache;
    Scope running(thread, cache ? Mode::Running : Mode::Off, cache, nullptr);
    thread.skip = (PyCodeObject*)with.door->code;
    return call_code(with.door->code, with);
}

static PyObject* resume_hit(Entry* entry, const Fetched& fetched, const ResumeCall& with) {
    if (entry->direct) return run_direct(entry, fetched);
    if (with.closure) return call_code(entry->code, with);
    if (!entry->function) entry->function = make_function(entry->code, with.door->globals, nullptr).release();
    Ref function = Ref::borrow(entry->function);
    return function ? PyObject_Vectorcall(function.get(), with.args, with.count(), nullptr) : nullptr;
}

static bool collect_cells(ResumeCall& with, Py_ssize_t nargs) {
    Py_ssize_t first = with.count(), cells = free_variables(with.door->code);
    if (nargs != first + cells) {
        PyErr_Format(PyExc_TypeError, "resume point of %U takes %zd arguments and %zd cells, %zd were given",
                     ((PyCodeObject*)with.door->code)->co_qualname, first, cells, nargs);
        return false;
    }
    if (cells == 0) return true;
    with.closure = Ref(PyTuple_New(cells));
    for (Py_ssize_t i = 0; with.closure && i < cells; i++) {
        if (!PyCell_Check(with.args[first + i])) {
            PyErr_SetString(PyExc_TypeError, "resume point: free variables are handed over as cells");
            return false;
        }
        PyTuple_SET_ITEM(with.closure.get(), i, Ref::borrow(with.args[first + i]).release());
    }
    return bool(with.closure);
}

// One resume call: its result may again be a tail call. The thread's scope is the runner's.
static PyObject* resume_step(Thread& thread, Door* door, PyObject* const* args, Py_ssize_t nargs, Handed& handed) {
    ResumeCall with{door, args, Ref()};
    if (!collect_cells(with, nargs)) return nullptr;
    if (thread.mode == Mode::Capturing || !door->cache || forced_eager ||
        frame::traced(PyThreadState_Get())) return call_code(door->code, with);
    if (special_state()) return told_special(door) ? call_code(door->code, with) : nullptr;
    set_mode(thread, Mode::Off);
    Slots slots{args, with.count(), door->globals, door->builtins, with.closure.get()};
    Fetched fetched;
    Ref entry((PyObject*)find(thread, door, slots, fetched));
    if (!entry) return PyErr_Occurred() ? nullptr : resume_plain(thread, with);
    PyObject* code = ((Entry*)entry.get())->code;
    thread.running = PyCode_Check(code) ? (PyCodeObject*)code : nullptr;
    if (!((Entry*)entry.get())->direct) fetched.reset(0);
    PyObject* result = resume_hit((Entry*)entry.get(), fetched, with);
    if (result || handed.gone() || !is_check_failure()) return result;
    PyErr_Clear();
    return resume_plain(thread, with);
}

static PyObject* run_pending(Thread& thread) {
    Ref door(std::exchange(thread.tail_door, nullptr));
    std::vector<PyObject*> args;
    args.swap(thread.tail_args);
    Handed handed(thread, &args);
    PyObject* result = resume_step(thread, (Door*)door.get(), args.data(), args.size(), handed);
    handed.drop();
    return result;
}

PyObject* finish_tail_calls(Thread& thread, PyObject* result) {
    while (result == tail_call && thread.tail_door) {
        Py_DECREF(result);
        result = run_pending(thread);
    }
    return result;
}

// Generated code ends with `return door(...)`. Its runner makes that call once the frame is gone, so that a loop with
// a break in every iteration does not nest.
static bool in_tail_position(Thread& thread) {
    return thread.running && thread.mode != Mode::Capturing && !thread.tail_door &&
           frame::running(PyThreadState_Get()) == thread.running;
}

static PyObject* resume_call(PyObject* self, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
    if (kwnames && PyTuple_GET_SIZE(kwnames)) {
        PyErr_SetString(PyExc_TypeError, "a resume point takes no keywords");
        return nullptr;
    }
    Door* door = (Door*)self;
    Thread& thread = this_thread();
    Py_ssize_t nargs = PyVectorcall_NARGS(nargsf);
    if (in_tail_position(thread)) {
        thread.tail_door = Ref::borrow(self).release();
        for (Py_ssize_t i = 0; i < nargs; i++) thread.tail_args.push_back(Ref::borrow(args[i]).release());
        return Ref::borrow(tail_call).release();
    }
    Ref held = Ref::borrow(self), cache = Ref::borrow((PyObject*)door->cache);
    Scope scope(thread, thread.mode == Mode::Capturing ? Mode::Capturing : Mode::Off, door->cache, nullptr);
    Handed handed(thread, nullptr);
    return finish_tail_calls(thread, resume_step(thread, door, args, nargs, handed));
}

static PyObject* resume_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
    static const char* names[] = {"cache", "code", "globals", "name", nullptr};
    PyObject *cache, *code, *globals, *name = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!O!O!|O", (char**)names, cache_type, &cache, &PyCode_Type, &code,
                                     &PyDict_Type, &globals, &name)) return nullptr;
    if (slot_count((PyCodeObject*)code) != arguments(code)) {
        PyErr_SetString(PyExc_ValueError, "resume code takes positional arguments only");
        return nullptr;
    }
    Ref function = make_function(code, globals, nullptr);   // finds the builtins as a function of these globals would
    if (!function) return nullptr;
    Door* door = new_door(type, DoorKind::Resume, (Cache*)cache, code, globals,
                          ((PyFunctionObject*)function.get())->func_builtins);
    if (!door) return nullptr;
    door->call = resume_call;
    if (name != Py_None && PyDict_SetItemString(door->attributes, "__name__", name) < 0) return nullptr;
    return (PyObject*)door;
}

static PyObject* self_copy(PyObject* self, PyObject*) { return Ref::borrow(self).release(); }
static PyMethodDef copy_methods[] = {
    {"__copy__", self_copy, METH_NOARGS, "itself, as for functions"},
    {"__deepcopy__", self_copy, METH_O, "itself, as for functions"},
    {nullptr}};

// What `inspect` asks first: it does not look through wrappers everywhere (`getfullargspec`).
static PyObject* get_signature(PyObject* self, void*) {
    PyObject* attributes = ((Door*)self)->attributes;
    PyObject* own = attributes ? PyDict_GetItemString(attributes, "__signature__") : nullptr;
    if (own) return Ref::borrow(own).release();
    Ref inspect(PyImport_ImportModule("inspect"));
    return inspect ? PyObject_CallMethod(inspect.get(), "signature", "O", ((Door*)self)->function) : nullptr;
}
static int set_signature(PyObject* self, PyObject* value, void*) {
    Ref attributes(PyObject_GenericGetDict(self, nullptr));
    if (!attributes) return -1;
    return value ? PyDict_SetItemString(attributes.get(), "__signature__", value)
                 : PyDict_DelItemString(attributes.get(), "__signature__");
}
static PyGetSetDef wrapper_getset[] = {
    {"__signature__", get_signature, set_signature, "the function's signature"},
    {nullptr}};
static PyType_Slot wrapper_slots[] = {
    {Py_tp_getset, wrapper_getset},
    {Py_tp_new, (void*)wrapper_new}, {Py_tp_call, (void*)PyVectorcall_Call}, {Py_tp_descr_get, (void*)wrapper_bind},
    {Py_tp_methods, copy_methods}, {Py_tp_doc,
                                    (void*)"Wrapper(cache, function): calls the function through its entries."}, {0,
                                        nullptr}};
static PyType_Spec wrapper_spec = {
    "flambeau.capture._capture.Wrapper", sizeof(Door), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR,
        wrapper_slots};
static PyType_Slot resume_slots[] = {
    {Py_tp_new, (void*)resume_new}, {Py_tp_call, (void*)PyVectorcall_Call},
    {Py_tp_doc,
     (void*)"Resume(cache, code, globals, name=''): goes on after a break; called with arguments, then cells."}, {0,
         nullptr}};
static PyType_Spec resume_spec = {"flambeau.capture._capture.Resume", sizeof(Door), 0,
                                  Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL, resume_slots};

int add_callable_types(PyObject* module) {
    tail_call = PyObject_CallNoArgs((PyObject*)&PyBaseObject_Type);
    wrapper_type = (PyTypeObject*)PyType_FromSpecWithBases(&wrapper_spec, (PyObject*)door_type);
    resume_type = (PyTypeObject*)PyType_FromSpecWithBases(&resume_spec, (PyObject*)door_type);
    if (!tail_call || !wrapper_type || !resume_type) return -1;
    if (PyModule_AddObjectRef(module, "Wrapper", (PyObject*)wrapper_type) < 0) return -1;
    return PyModule_AddObjectRef(module, "Resume", (PyObject*)resume_type);
}

}  // namespace doors
