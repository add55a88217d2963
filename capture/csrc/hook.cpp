// The frame evaluation function (PEP 523): a nested frame for which an entry holds goes on with the entry's code.
#include "bind_args.h"
#include "cache.h"
#include "frame.h"
#include "eager_classes.h"

// ---------------------------------------------------------------------------------------------- installation

static int active_threads;            // how many scopes want the hook, over all threads (under the GIL)
static Evaluator earlier;             // whom we found installed
static Evaluator above;               // who was installed over us and still calls us

static PyObject* evaluate(PyThreadState* state, Frame* frame, int throwflag);

static void install_hook() {
    if (active_threads++ > 0) return;
    Evaluator now = frame::installed();
    if (now == evaluate || (above && now == above)) return;
    above = nullptr;
    earlier = now;
    frame::install(evaluate);
}

static void remove_hook() {
    if (--active_threads > 0) return;
    Evaluator now = frame::installed();
    if (now == evaluate) frame::install(earlier);
    else if (now != frame::run) above = now;   // it may hold our address: leave it, we let every frame pass
}

Thread& this_thread() {
    static thread_local Thread thread;
    return thread;
}

void set_mode(Thread& thread, Mode mode) {
    Mode before = std::exchange(thread.mode, mode);
    if (before != Mode::Running && mode == Mode::Running) install_hook();
    if (before == Mode::Running && mode != Mode::Running) remove_hook();
}

static PyObject* pass_on(PyThreadState* state, Frame* frame, int throwflag) {
    return earlier ? earlier(state, frame, throwflag) : frame::run(state, frame, throwflag);
}

// ---------------------------------------------------------------------------------------------- links

// What a code object knows of the caches that met it. Not owning: a cache removes its links when it dies, a code
// object its doors.
struct Links { std::vector<std::pair<Cache*, Door*>> list; };
static Py_ssize_t extra_index = -1;

static void drop_door(Cache* cache, Door* door) {
    auto& frames = *cache->frames;
    auto place = std::find(frames.begin(), frames.end(), door);
    if (place == frames.end()) return;
    frames.erase(place);
    door->code = nullptr;
    Py_DECREF(door);
}

static void code_dies(void* value) {
    std::unique_ptr<Links> links((Links*)value);
    if (!links) return;
    for (auto& link : links->list)
        if (link.second) drop_door(link.first, link.second);
}

namespace hook {

static Links* links_of(PyCodeObject* code) { return (Links*)code_extra::get(code, extra_index); }

static bool known(Cache* cache, PyCodeObject* code, Door*& door) {
    Links* links = links_of(code);
    if (!links) return false;
    for (auto& link : links->list)
        if (link.first == cache) { door = link.second; return true; }
    return false;
}

Door* find_door(Cache* cache, PyCodeObject* code) {
    Door* door = nullptr;
    return known(cache, code, door) ? door : nullptr;
}

bool link(Cache* cache, PyCodeObject* code, Door* door) {
    Links* links = links_of(code);
    if (!links) {
        links = new Links();
        if (!code_extra::set(code, extra_index, links)) { delete links; return false; }
    }
    links->list.emplace_back(cache, door);
    return true;
}

static void unlink(Cache* cache, PyCodeObject* code) {
    Links* links = links_of(code);
    if (!links) return;
    auto& list = links->list;
    list.erase(std::remove_if(list.begin(), list.end(), [&](auto& link) { return link.first == cache; }), list.end());
}

void forget(Cache* cache) {
    for (Door* door : *cache->frames)
        if (door->code) unlink(cache, (PyCodeObject*)door->code);
}

}  // namespace hook

// ---------------------------------------------------------------------------------------------- evaluation

// A cache that meets a code for the first time is asked whether it wants it. Every code gets a door, so that its link
// dies with the cache; an unwanted one has a door that runs plain.
static Door* meet(Thread& thread, Cache* cache, Frame* frame, PyCodeObject* code) {
    static PyObject* name = PyUnicode_InternFromString("frame");
    Door* door = doors::new_frame_door(cache, code);
    if (!door) return nullptr;
    Ref wanted;
    {
        Scope capturing(thread, Mode::Capturing, nullptr, nullptr);
        wanted = Ref(PyObject_CallMethodObjArgs((PyObject*)cache, name, code, frame::globals(frame), nullptr));
    }
    if (!wanted) PyErr_WriteUnraisable((PyObject*)cache);
    if (!wanted || PyObject_IsTrue(wanted.get()) != 1) door->plain = PyUnicode_FromString("not captured");
    Door* raced = hook::find_door(cache, code);   // another thread met it while Python ran
    if (raced || !hook::link(cache, code, door)) {
        Py_DECREF(door);
        return raced;
    }
    cache->frames->push_back(door);
    return door;
}

// The arguments of a frame whose compiled code may discard its call: they are gone once the frame has run.
struct SavedCall {
    std::vector<PyObject*> slots;   // owned
    Ref function, code;

    SavedCall(Frame* frame, PyCodeObject* original)
        : function(Ref::borrow((PyObject*)frame::function(frame))), code(Ref::borrow((PyObject*)original)) {
        PyObject** values = frame::locals(frame);
        for (Py_ssize_t i = 0; i < slot_count(original); i++) slots.push_back(Ref::borrow(values[i]).release());
    }
    ~SavedCall() { for (PyObject* slot : slots) Py_DECREF(slot); }
    PyObject* call() const;
};

PyObject* SavedCall::call() const {
    PyCodeObject* co = (PyCodeObject*)code.get();
    Py_ssize_t named = co->co_argcount + co->co_kwonlyargcount;
    bool takes_rest = co->co_flags & CO_VARARGS, takes_keywords = co->co_flags & CO_VARKEYWORDS;
    Ref args(PyTuple_New(co->co_argcount)), keywords(takes_keywords ? PyDict_Copy(slots.back()) : PyDict_New());
    if (!args || !keywords) return nullptr;
    for (Py_ssize_t i = 0; i < co->co_argcount; i++) PyTuple_SET_ITEM(args.get(), i, Ref::borrow(slots[i]).release());
    if (takes_rest) args = Ref(PySequence_Concat(args.get(), slots[named]));
    for (Py_ssize_t i = co->co_argcount; i < named; i++)
        if (PyDict_SetItem(keywords.get(), PyTuple_GET_ITEM(co->co_localsplusnames, i),
                           slots[i]) < 0) return nullptr;
    return args ? PyObject_Call(function.get(), args.get(), keywords.get()) : nullptr;
}

static PyObject* run_swapped(PyThreadState* state, Thread& thread, Frame* frame, Entry* entry, Handed& handed) {
    Scope off(thread, Mode::Off, thread.cache, (PyCodeObject*)entry->code);
    PyObject* result = pass_on(state, frame, 0);
    if (result == doors::tail_call) handed.drop();
    return doors::finish_tail_calls(thread, result);
}

static PyObject* run_entry(PyThreadState* state, Thread& thread, Frame* frame, Entry* entry) {
    PyCodeObject* original = frame::code(frame);
    std::unique_ptr<SavedCall> saved;
    if (entry->fallible) saved = std::make_unique<SavedCall>(frame, original);
    if (!frame::swap(state, frame, (PyCodeObject*)entry->code)) return pass_on(state, frame, 0);
    Handed handed(thread, saved ? &saved->slots : nullptr);
    PyObject* result = run_swapped(state, thread, frame, entry, handed);
    if (result || !saved || handed.gone() || !doors::is_check_failure()) return result;
    PyErr_Clear();
    thread.skip = original;
    return saved->call();
}

// The closure of the frame's function; the frame itself has not copied it yet.
static PyObject* closure_of(Frame* frame) {
    PyFunctionObject* function = frame::function(frame);
    return function && PyFunction_Check(function) ? function->func_closure : nullptr;
}

static PyObject* look_up(PyThreadState* state, Thread& thread, Frame* frame, Door* door) {
    Ref held = Ref::borrow((PyObject*)door);
    Slots slots{frame::locals(frame), slot_count(frame::code(frame)), frame::globals(frame), frame::builtins(frame),
                closure_of(frame)};
    Fetched fetched;
    Ref entry((PyObject*)doors::find(thread, door, slots, fetched));
    fetched.reset(0);   // the frame alone holds what it was given
    if (entry) return run_entry(state, thread, frame, (Entry*)entry.get());
    return pass_on(state, frame, PyErr_Occurred() ? 1 : 0);   // raises inside the frame, which CPython then clears
}

static bool is_tensor(PyObject* value) { return value && layout.is_tensor(value); }

// A tensor among the arguments, or in a tuple of them.
static bool shows_tensor(Frame* frame, PyCodeObject* code) {
    PyObject** values = frame::locals(frame);
    for (Py_ssize_t i = 0; i < slot_count(code); i++) {
        if (is_tensor(values[i])) return true;
        if (!values[i] || !PyTuple_CheckExact(values[i])) continue;
        for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(values[i]); k++)
            if (is_tensor(PyTuple_GET_ITEM(values[i], k))) return true;
    }
    return false;
}

// Whether a frame of this door is none of the compiler's business.
static bool passes(Door* door, Frame* frame, PyCodeObject* code) {
    if (!door->plain || PyTuple_GET_SIZE(door->entries) > 0) return false;
    if (!door->watches || !shows_tensor(frame, code)) return true;
    Py_CLEAR(door->plain);
    door->watches = false;
    return false;
}

// Without the hook Python's calls do not nest in C: from here down everything runs plain, however deep it goes.
static PyObject* run_below(PyThreadState* state, Thread& thread, Frame* frame, int throwflag) {
    Scope off(thread, Mode::Off, nullptr, nullptr);
    return pass_on(state, frame, throwflag);
}

static PyObject* evaluate(PyThreadState* state, Frame* frame, int throwflag) {
    Thread& thread = this_thread();
    if (thread.mode == Mode::Running && frame::deep(state)) return run_below(state, thread, frame, throwflag);
    if (thread.mode != Mode::Running || throwflag || !frame::may_swap(frame)) return pass_on(state, frame, throwflag);
    PyCodeObject* code = frame::code(frame);
    if (thread.skip == code) {
        thread.skip = nullptr;
        return pass_on(state, frame, 0);
    }
    if (frame::traced(state) || special_state()) return pass_on(state, frame, 0);
    Ref cache = Ref::borrow((PyObject*)thread.cache);
    Door* door = hook::find_door(thread.cache, code);
    if (!door) door = meet(thread, thread.cache, frame, code);
    return door && !passes(door, frame, code) ? look_up(state, thread, frame, door) : pass_on(state, frame, 0);
}

// ---------------------------------------------------------------------------------------------- Python face

static bool read_mode(const char* name, Mode& mode) {
    std::string text = name;
    if (text == "off") mode = Mode::Off;
    else if (text == "running") mode = Mode::Running;
    else if (text == "capturing") mode = Mode::Capturing;
    else return PyErr_Format(PyExc_ValueError, "unknown mode %s", name), false;
    return true;
}

static PyObject* current_mode(PyObject*, PyObject*) {
    static const char* names[] = {"off", "running", "capturing"};
    return PyUnicode_FromString(names[(int)this_thread().mode]);
}

// call(mode, cache, function, args, kwargs): the function under a mode of this thread.
static PyObject* call_under(PyObject*, PyObject* args) {
    const char* name;
    PyObject *cache, *function, *positional, *keywords = nullptr;
    Mode mode;
    if (!PyArg_ParseTuple(args, "sOOO!|O!", &name, &cache, &function, &PyTuple_Type, &positional, &PyDict_Type,
                          &keywords)) return nullptr;
    if (!read_mode(name, mode)) return nullptr;
    if (mode == Mode::Running && !PyObject_TypeCheck(cache, doors::cache_type)) {
        PyErr_SetString(PyExc_TypeError, "mode running needs a Cache");
        return nullptr;
    }
    Scope scope(this_thread(), mode, mode == Mode::Running ? (Cache*)cache : nullptr, nullptr);
    return PyObject_Call(function, positional, keywords);
}

// Generated code calls these around the instruction of a break. Outside of generated code they change nothing.
static PyObject* hook_on(PyObject*, PyObject*) {
    Thread& thread = this_thread();
    if (thread.mode == Mode::Off && thread.cache && thread.running) set_mode(thread, Mode::Running);
    Py_RETURN_NONE;
}

static PyObject* hook_off(PyObject*, PyObject*) {
    Thread& thread = this_thread();
    if (thread.mode == Mode::Running && thread.running) set_mode(thread, Mode::Off);
    Py_RETURN_NONE;
}

// Generated code says that it has its arguments, and that its call can't be made again.
static PyObject* taken(PyObject*, PyObject*) {
    Handed* handed = std::exchange(this_thread().handed, nullptr);
    if (handed) handed->drop();
    Py_RETURN_NONE;
}

// full_cell(cell, name): generated code asks before it reads a cell of its function, which is a free variable there.
static PyObject* full_cell(PyObject*, PyObject* args) {
    PyObject *cell, *name;
    if (!PyArg_ParseTuple(args, "O!U", &PyCell_Type, &cell, &name)) return nullptr;
    if (PyCell_GET(cell)) Py_RETURN_NONE;
    PyErr_Format(PyExc_UnboundLocalError, "cannot access local variable '%U' where it is not associated with a value", name);
    return nullptr;
}

static bool same_function(PyCodeObject* left, PyCodeObject* right) {
    return left->co_firstlineno == right->co_firstlineno && PyUnicode_Compare(left->co_name, right->co_name) == 0 &&
           PyUnicode_Compare(left->co_filename, right->co_filename) == 0;
}

// ended_at(exception, line): a resume function that was entered by this exception is about to leave by it. The frame that
// raised it is the same call to the program, and ends at this line.
static PyObject* ended_at(PyObject*, PyObject* args) {
    PyObject* exception;
    int line;
    if (!PyArg_ParseTuple(args, "Oi", &exception, &line)) return nullptr;
    if (!PyExceptionInstance_Check(exception)) Py_RETURN_NONE;
    Ref first(PyException_GetTraceback(exception));
    PyCodeObject* running = frame::running(PyThreadState_Get());
    if (!first || !PyTraceBack_Check(first.get()) || !running) Py_RETURN_NONE;
    PyFrameObject* raised = ((PyTracebackObject*)first.get())->tb_frame;
    Ref code((PyObject*)PyFrame_GetCode(raised));
    if (same_function((PyCodeObject*)code.get(), running)) frame::set_last_line(PyThreadState_Get(), raised, line);
    Py_RETURN_NONE;
}

static PyObject* hooked_threads(PyObject*, PyObject*) { return PyLong_FromLong(active_threads); }
static PyObject* hook_installed(PyObject*, PyObject*) { return PyBool_FromLong(frame::installed() == evaluate); }
static PyObject* install(PyObject*, PyObject*) { install_hook(); Py_RETURN_NONE; }
static PyObject* uninstall(PyObject*, PyObject*) {
    if (active_threads == 0) {
        PyErr_SetString(PyExc_RuntimeError, "uninstall() without install()");
        return nullptr;
    }
    remove_hook();
    Py_RETURN_NONE;
}

static PyObject* force_eager(PyObject*, PyObject* wanted) {
    int answer = PyObject_IsTrue(wanted);
    if (answer < 0) return nullptr;
    doors::forced_eager = answer;
    Py_RETURN_NONE;
}

static PyObject* show_compiled(PyObject*, PyObject* wanted) {
    int answer = PyObject_IsTrue(wanted);
    if (answer < 0) return nullptr;
    frame::shown = answer;
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"show_compiled", show_compiled, METH_O, "show_compiled(bool): compiled code runs under tracers and profilers, too"},
    {"force_eager", force_eager, METH_O, "force_eager(bool): compiled objects run their originals, in all threads"},
    {"mode", current_mode, METH_NOARGS, "what this thread does: off, running or capturing"},
    {"call", call_under, METH_VARARGS,
     "call(mode, cache, function, args, kwargs): the function under a mode of this thread"},
    {"hook_on", hook_on, METH_NOARGS, "nested frames are looked up from here; called by generated code"},
    {"taken", taken, METH_NOARGS, "whoever called this code lets go of the arguments; called by generated code"},
    {"full_cell", full_cell, METH_VARARGS, "full_cell(cell, name): UnboundLocalError if the cell is empty"},
    {"ended_at", ended_at, METH_VARARGS, "ended_at(exception, line): f_lineno of the frame that raised it; called by generated code"},
    {"hook_off", hook_off, METH_NOARGS, "nested frames pass from here; called by generated code"},
    {"hooked", hooked_threads, METH_NOARGS, "how many scopes want the frame hook"},
    {"installed", hook_installed, METH_NOARGS, "is our evaluation function CPython's"},
    {"install", install, METH_NOARGS, "count one more who wants the frame hook"},
    {"uninstall", uninstall, METH_NOARGS, "count one less"},
    {nullptr}};

int add_hook_functions(PyObject* module) {
    extra_index = code_extra::request(code_dies);
    if (extra_index < 0) {
        PyErr_SetString(PyExc_RuntimeError, "no room for extra data on code objects");
        return -1;
    }
    return PyModule_AddFunctions(module, functions);
}
