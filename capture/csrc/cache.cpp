// Cache and Door: who owns entries, how they are looked up, and when the compiler is asked.
#include "cache.h"
#include "eager_classes.h"

#include <structmember.h>

#include "frame.h"

namespace doors {

PyTypeObject *cache_type, *door_type, *frame_type;
bool forced_eager;

// ---------------------------------------------------------------------------------------------- lookup

static bool accepts(Entry* entry, const Slots& slots, Fetched& fetched) {
    fetched.reset(guards::fetch_count(entry->guards));
    return guards::evaluate(entry->guards, slots, fetched);
}

Entry* lookup(Door* door, const Slots& slots, Fetched& fetched) {
    Ref held = Ref::borrow(door->entries);   // another thread may swap the tuple meanwhile
    Py_ssize_t count = PyTuple_GET_SIZE(held.get()), hot = door->hot < count ? door->hot : 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        Py_ssize_t position = i == 0 ? hot : (i <= hot ? i - 1 : i);
        Entry* entry = (Entry*)PyTuple_GET_ITEM(held.get(), position);
        if (!accepts(entry, slots, fetched)) continue;
        door->hot = position;
        door->hits++;
        Py_INCREF(entry);
        return entry;
    }
    return nullptr;
}

static Ref slot_names(PyCodeObject* code) {
    Ref names(PyCode_GetVarnames(code));
    return names ? Ref(PyTuple_GetSlice(names.get(), 0, slot_count(code))) : Ref();
}

static Ref slots_dict(PyCodeObject* code, const Slots& slots) {
    Ref dict(PyDict_New()), names = slot_names(code);
    if (!dict || !names) return Ref();
    for (Py_ssize_t i = 0; i < slots.count && i < PyTuple_GET_SIZE(names.get()); i++)
        if (PyDict_SetItem(dict.get(), PyTuple_GET_ITEM(names.get(), i), slots.values[i]) < 0) return Ref();
    return dict;
}

static Ref ask_compiler(Thread& thread, Door* door, const Slots& slots) {
    static PyObject* name = PyUnicode_InternFromString("miss");
    Ref cache = Ref::borrow((PyObject*)door->cache), code = Ref::borrow(door->code);
    Ref dict = slots_dict((PyCodeObject*)door->code, slots);
    if (!dict) return Ref();
    Scope capturing(thread, Mode::Capturing, nullptr, nullptr);
    Whole kept;
    if (!kept) return Ref();
    return kept.settle(Ref(PyObject_CallMethodObjArgs(cache.get(), name, door, code.get(), slots.globals, slots.builtins,
                                                      slots.closure ? slots.closure : Py_None, dict.get(), nullptr)));
}

static Entry* compile(Thread& thread, Door* door, const Slots& slots, Fetched& fetched) {
    Ref made = ask_compiler(thread, door, slots);
    if (!made || made.get() == Py_None) return nullptr;
    if (Py_TYPE(made.get()) != entry_type) {
        PyErr_Format(PyExc_TypeError, "miss() must return an Entry or None, not %R", made.get());
        return nullptr;
    }
    return accepts((Entry*)made.get(), slots, fetched) ? (Entry*)made.release() : nullptr;
}

Entry* find(Thread& thread, Door* door, const Slots& slots, Fetched& fetched) {
    if (forced_eager) return nullptr;
    Mode mode = std::exchange(thread.mode, Mode::Capturing);   // a guard may run the user's properties
    Entry* entry = lookup(door, slots, fetched);
    thread.mode = mode;
    return entry || door->plain || !door->cache ? entry : compile(thread, door, slots, fetched);
}

bool is_check_failure() { return check_failed_type && PyErr_ExceptionMatches(check_failed_type); }

Ref make_function(PyObject* code, PyObject* globals, PyObject* closure) {
    Ref function(PyFunction_New(code, globals));
    if (function && closure && PyTuple_GET_SIZE(closure) > 0 && PyFunction_SetClosure(function.get(),
        closure) < 0) return Ref();
    return function;
}

// ---------------------------------------------------------------------------------------------- Door

static void detach(Door* door) {
    if (!door->cache || door->kind == DoorKind::Wrapper) return;
    auto& attached = *door->cache->attached;
    attached.erase(std::remove(attached.begin(), attached.end(), door), attached.end());
    door->cache = nullptr;
}

Door* new_door(PyTypeObject* type, DoorKind kind, Cache* cache, PyObject* code, PyObject* globals, PyObject* builtins) {
    Ref self(type->tp_alloc(type, 0));
    if (!self) return nullptr;
    Door* door = (Door*)self.get();
    door->kind = kind;
    door->entries = PyTuple_New(0);
    door->attributes = PyDict_New();
    door->code = kind == DoorKind::Frame ? code : Ref::borrow(code).release();
    door->globals = Ref::borrow(globals).release();
    door->builtins = Ref::borrow(builtins).release();
    door->cache = cache;
    if (kind == DoorKind::Wrapper) Py_INCREF(cache);
    else cache->attached->push_back(door);
    return door->entries && door->attributes ? (Door*)self.release() : nullptr;
}

Door* new_frame_door(Cache* cache, PyCodeObject* code) {
    return new_door(frame_type, DoorKind::Frame, cache, (PyObject*)code, nullptr, nullptr);
}

static bool same_signature(PyCodeObject* original, PyCodeObject* replacement) {
    const int flags = CO_VARARGS | CO_VARKEYWORDS | CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR | CO_OPTIMIZED | CO_NEWLOCALS;
    return original->co_argcount == replacement->co_argcount &&
        original->co_kwonlyargcount == replacement->co_kwonlyargcount &&
           original->co_posonlyargcount == replacement->co_posonlyargcount &&
           (original->co_flags & flags) == (replacement->co_flags & flags);
}

static bool same_free_variables(PyCodeObject* original, PyCodeObject* replacement) {
    Ref left(PyCode_GetFreevars(original)), right(PyCode_GetFreevars(replacement));
    return left && right && PyObject_RichCompareBool(left.get(), right.get(), Py_EQ) == 1;
}

static bool fits(Door* door, Entry* entry) {
    if (!PyCode_Check(entry->code)) {
        if (door->kind != DoorKind::Frame) return true;
        PyErr_SetString(PyExc_TypeError, "the entry of a nested frame needs a code object");
        return false;
    }
    PyCodeObject *original = (PyCodeObject*)door->code, *replacement = (PyCodeObject*)entry->code;
    if (same_signature(original, replacement) && same_free_variables(original, replacement)) return true;
    if (!PyErr_Occurred())
        PyErr_Format(PyExc_ValueError, "generated code for %U differs in arguments, flags or free variables",
                     original->co_qualname);
    return false;
}

static PyObject* door_add(Door* door, PyObject* entry) {
    if (Py_TYPE(entry) != entry_type) {
        PyErr_SetString(PyExc_TypeError, "an Entry is needed");
        return nullptr;
    }
    if (!door->code) {
        PyErr_SetString(PyExc_RuntimeError, "the code of this door is gone");
        return nullptr;
    }
    Ref names = slot_names((PyCodeObject*)door->code);
    if (!names || !fits(door, (Entry*)entry) || !guards::name_slots(((Entry*)entry)->guards,
                                                                    names.get())) return nullptr;
    guards::freeze(((Entry*)entry)->guards);
    if (door->kind == DoorKind::Frame) frame::make_room((PyCodeObject*)door->code,
                                                        (PyCodeObject*)((Entry*)entry)->code);
    Py_ssize_t count = PyTuple_GET_SIZE(door->entries);
    PyObject* grown = PyTuple_New(count + 1);
    if (!grown) return nullptr;
    for (Py_ssize_t i = 0; i < count; i++) PyTuple_SET_ITEM(grown, i, Ref::borrow(PyTuple_GET_ITEM(door->entries,
        i)).release());
    PyTuple_SET_ITEM(grown, count, Ref::borrow(entry).release());
    if (door->look) door->look->forget();
    Py_SETREF(door->entries, grown);
    Py_RETURN_NONE;
}

static PyObject* door_clear_entries(Door* door, PyObject*) {
    PyObject* empty = PyTuple_New(0);
    if (!empty) return nullptr;
    Py_CLEAR(door->plain);
    door->watches = false;
    if (door->look) door->look->forget();
    Py_SETREF(door->entries, empty);
    Py_RETURN_NONE;
}

static PyObject* door_closure(Door* door) {
    return door->function ? PyFunction_GET_CLOSURE(door->function) : nullptr;
}

static PyObject* door_lookup(Door* door, PyObject* args) {
    PyObject *values, *globals = door->globals, *builtins = door->builtins, *closure = Py_None;
    if (!PyArg_ParseTuple(args, "O|OOO", &values, &globals, &builtins, &closure)) return nullptr;
    Ref names = door->code ? slot_names((PyCodeObject*)door->code) : Ref(PyTuple_New(0));
    std::vector<PyObject*> read;
    if (!names || !guards::read_slots(values, names.get(), read)) return nullptr;
    Slots slots{read.data(), (Py_ssize_t)read.size(), globals, builtins, PyTuple_Check(closure) ? closure
                : door_closure(door)};
    Fetched fetched;
    Entry* entry = lookup(door, slots, fetched);
    return entry ? (PyObject*)entry : Ref::borrow(Py_None).release();
}

static int door_traverse(Door* self, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(self));
    if (self->kind == DoorKind::Wrapper) Py_VISIT(self->cache);
    Py_VISIT(self->function);
    Py_VISIT(self->globals);
    Py_VISIT(self->builtins);
    Py_VISIT(self->entries);
    Py_VISIT(self->plain);
    Py_VISIT(self->attributes);
    return 0;
}

// Code, globals and the tuple of entries stay in place: a door that is being torn down can still be called.
static int door_clear(Door* self) {
    PyObject* empty = PyTuple_New(0);
    if (!empty) PyErr_Clear();
    else Py_XSETREF(self->entries, empty);
    Py_CLEAR(self->attributes);
    Py_CLEAR(self->plain);
    if (self->kind == DoorKind::Wrapper) Py_CLEAR(self->cache);
    return 0;
}

static void door_dealloc(Door* self) {
    PyTypeObject* type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    if (self->weak) PyObject_ClearWeakRefs((PyObject*)self);
    detach(self);
    delete std::exchange(self->look, nullptr);
    if (self->kind == DoorKind::Wrapper) Py_CLEAR(self->cache);
    if (self->kind != DoorKind::Frame) Py_CLEAR(self->code);
    Py_CLEAR(self->function);
    Py_CLEAR(self->globals);
    Py_CLEAR(self->builtins);
    Py_CLEAR(self->entries);
    Py_CLEAR(self->plain);
    Py_CLEAR(self->attributes);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyObject* shown(PyObject* object) { return Ref::borrow(object ? object : Py_None).release(); }
static PyObject* get_cache(Door* self, void*) { return shown((PyObject*)self->cache); }
static PyObject* get_code(Door* self, void*) { return shown(self->code); }
static PyObject* get_function(Door* self, void*) { return shown(self->function); }
static PyObject* get_entries(Door* self, void*) { return shown(self->entries); }
static PyObject* get_plain(Door* self, void*) { return shown(self->plain); }
static PyObject* get_hits(Door* self, void*) { return PyLong_FromSsize_t(self->hits); }
static PyObject* get_kind(Door* self, void*) {
    static const char* names[] = {"wrapper", "resume", "frame"};
    return PyUnicode_FromString(names[(int)self->kind]);
}
static int set_plain(Door* self, PyObject* reason, void*) {
    Py_XSETREF(self->plain, !reason || reason == Py_None ? nullptr : Ref::borrow(reason).release());
    return 0;
}

static PyObject* get_watches(Door* self, void*) { return PyBool_FromLong(self->watches); }
static int set_watches(Door* self, PyObject* wanted, void*) {
    int answer = wanted ? PyObject_IsTrue(wanted) : 0;
    if (answer < 0) return -1;
    self->watches = answer;
    return 0;
}

static PyMethodDef door_methods[] = {
    {"add", (PyCFunction)door_add, METH_O, "add(entry): later calls may be served by it"},
    {"clear", (PyCFunction)door_clear_entries, METH_NOARGS, "drop all entries"},
    {"lookup", (PyCFunction)door_lookup, METH_VARARGS,
     "lookup(slots, globals, builtins, closure) -> Entry or None; a frame door keeps no globals of its own"},
    {nullptr}};
static PyGetSetDef door_getset[] = {
    {"cache", (getter)get_cache, nullptr, "the Cache that owns the entries, or None when it is gone"},
    {"code", (getter)get_code, nullptr, "the original code"},
    {"function", (getter)get_function, nullptr, "a wrapper's original function"},
    {"entries", (getter)get_entries, nullptr, "tuple of entries"},
    {"plain", (getter)get_plain, (setter)set_plain, "None, or why this door runs the original"},
    {"watches", (getter)get_watches, (setter)set_watches, "whether a plain frame with a tensor among its arguments is asked about again"},
    {"hits", (getter)get_hits, nullptr, "calls served by an entry"},
    {"kind", (getter)get_kind, nullptr, "wrapper, resume or frame"},
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict},
    {nullptr}};
static PyMemberDef door_members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(Door, weak), READONLY},
    {"__dictoffset__", T_PYSSIZET, offsetof(Door, attributes), READONLY},
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Door, call), READONLY},
    {nullptr}};
static PyType_Slot door_slots[] = {
    {Py_tp_dealloc, (void*)door_dealloc}, {Py_tp_traverse, (void*)door_traverse}, {Py_tp_clear, (void*)door_clear},
    {Py_tp_methods, door_methods}, {Py_tp_getset, door_getset}, {Py_tp_members, door_members},
    {Py_tp_doc, (void*)"A place where calls are led to entries."}, {0, nullptr}};
static const unsigned door_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE;
static PyType_Spec door_spec = {"flambeau.capture._capture.Door", sizeof(Door), 0,
                                door_flags | Py_TPFLAGS_DISALLOW_INSTANTIATION, door_slots};
static PyType_Slot frame_slots[] = {{Py_tp_doc, (void*)"The door of a nested frame, found by the hook."}, {0, nullptr}};
static PyType_Spec frame_spec = {"flambeau.capture._capture.FrameDoor", sizeof(Door), 0,
                                 Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, frame_slots};

// ---------------------------------------------------------------------------------------------- Cache

static PyObject* cache_new(PyTypeObject* type, PyObject*, PyObject*) {
    Cache* self = (Cache*)type->tp_alloc(type, 0);
    if (!self) return nullptr;
    self->frames = new std::vector<Door*>();
    self->attached = new std::vector<Door*>();
    self->resumes = PyDict_New();
    return (PyObject*)self;
}

// resume(key, make): the door made for this key before, else make().
static PyObject* cache_resume(Cache* self, PyObject* args) {
    PyObject *key, *make;
    if (!PyArg_ParseTuple(args, "OO", &key, &make)) return nullptr;
    PyObject* known = PyDict_GetItemWithError(self->resumes, key);
    if (known || PyErr_Occurred()) return Ref::borrow(known).release();
    Ref made(PyObject_CallNoArgs(make));
    if (!made) return nullptr;
    return Ref::borrow(PyDict_SetDefault(self->resumes, key, made.get())).release();   // another thread's comes first
}

static PyObject* cache_doors(Cache* self, void*) {
    Ref list(PyList_New(0));
    for (Door* door : *self->attached)
        if (!list || PyList_Append(list.get(), (PyObject*)door) < 0) return nullptr;
    return list.release();
}

static void drop_frames(Cache* self) {
    hook::forget(self);
    std::vector<Door*> frames;
    frames.swap(*self->frames);
    for (Door* door : frames) Py_DECREF(door);
}

// Forget everything that was compiled for nested frames and resume points.
static PyObject* cache_reset(Cache* self, PyObject*) {
    drop_frames(self);
    PyDict_Clear(self->resumes);
    Py_RETURN_NONE;
}

static int cache_traverse(Cache* self, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(self));
    for (Door* door : *self->frames) Py_VISIT(door);
    Py_VISIT(self->resumes);
    Py_VISIT(self->attributes);
    return 0;
}

static int cache_clear(Cache* self) {
    drop_frames(self);
    Py_CLEAR(self->attributes);
    if (self->resumes) PyDict_Clear(self->resumes);
    return 0;
}

static void cache_dealloc(Cache* self) {
    PyTypeObject* type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    if (self->weak) PyObject_ClearWeakRefs((PyObject*)self);
    for (Door* door : *self->attached) door->cache = nullptr;
    self->attached->clear();
    cache_clear(self);
    Py_CLEAR(self->resumes);
    delete self->frames;
    delete self->attached;
    type->tp_free(self);
    Py_DECREF(type);
}

static PyMethodDef cache_methods[] = {
    {"resume", (PyCFunction)cache_resume, METH_VARARGS, "resume(key, make): one resume door per key"},
    {"reset", (PyCFunction)cache_reset, METH_NOARGS, "forget nested frames and resume points"},
    {nullptr}};
static PyGetSetDef cache_getset[] = {
    {"doors", (getter)cache_doors, nullptr, "living frame and resume doors"},
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict},
    {nullptr}};
static PyMemberDef cache_members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(Cache, weak), READONLY},
    {"__dictoffset__", T_PYSSIZET, offsetof(Cache, attributes), READONLY},
    {nullptr}};
static PyType_Slot cache_slots[] = {
    {Py_tp_new, (void*)cache_new}, {Py_tp_dealloc, (void*)cache_dealloc}, {Py_tp_traverse, (void*)cache_traverse},
    {Py_tp_clear, (void*)cache_clear}, {Py_tp_methods, cache_methods}, {Py_tp_getset, cache_getset},
    {Py_tp_members, cache_members},
    {Py_tp_doc, (void*)"What a compiled object owns; a subclass gives miss(...) and frame(code, globals)."}, {0,
        nullptr}};
static PyType_Spec cache_spec = {"flambeau.capture._capture.Cache", sizeof(Cache), 0,
                                 Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE, cache_slots};

int add_cache_types(PyObject* module) {
    cache_type = (PyTypeObject*)PyType_FromSpec(&cache_spec);
    door_type = (PyTypeObject*)PyType_FromSpec(&door_spec);
    if (!cache_type || !door_type) return -1;
    frame_type = (PyTypeObject*)PyType_FromSpecWithBases(&frame_spec, (PyObject*)door_type);
    if (!frame_type || PyModule_AddObjectRef(module, "Cache", (PyObject*)cache_type) < 0) return -1;
    if (PyModule_AddObjectRef(module, "Door", (PyObject*)door_type) < 0) return -1;
    return PyModule_AddObjectRef(module, "FrameDoor", (PyObject*)frame_type);
}

}  // namespace doors

int add_door_types(PyObject* module) {
    if (doors::add_entry_type(module) < 0 || doors::add_cache_types(module) < 0) return -1;
    return doors::add_callable_types(module);
}
