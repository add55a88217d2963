// Private structures of CPython 3.11, 3.12 and 3.13. Nothing of CPython is copied: a frame is changed in place, before
// its first instruction, and CPython itself runs, clears and pops it.
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#if PY_VERSION_HEX < 0x030B0000 || PY_VERSION_HEX >= 0x030E0000
#error "the frame hook knows CPython 3.11, 3.12 and 3.13"
#endif
#if PY_VERSION_HEX >= 0x030C0000
#undef _PyGC_FINALIZED   // defined again by the internal headers
#endif
#define Py_BUILD_CORE
#include <internal/pycore_frame.h>
#include <internal/pycore_code.h>
#undef Py_BUILD_CORE

#include <pthread.h>

#include "frame.h"

namespace frame {

#if PY_VERSION_HEX >= 0x030D0000

PyCodeObject* code(Frame* frame) {
    return PyCode_Check(frame->f_executable) ? (PyCodeObject*)frame->f_executable : nullptr;
}
PyFunctionObject* function(Frame* frame) { return (PyFunctionObject*)frame->f_funcobj; }
static bool at_start(Frame* frame) { return frame->instr_ptr == _PyCode_CODE(code(frame)); }
static void set_code(Frame* frame, PyCodeObject* code) {
    frame->f_executable = (PyObject*)code;
    frame->instr_ptr = _PyCode_CODE(code);
}
static Frame* current(PyThreadState* state) { return state->current_frame; }

#else

PyCodeObject* code(Frame* frame) { return frame->f_code; }
#if PY_VERSION_HEX >= 0x030C0000
PyFunctionObject* function(Frame* frame) { return (PyFunctionObject*)frame->f_funcobj; }
#else
PyFunctionObject* function(Frame* frame) { return frame->f_func; }
#endif
static bool at_start(Frame* frame) { return frame->prev_instr == _PyCode_CODE(frame->f_code) - 1; }
static void set_code(Frame* frame, PyCodeObject* code) {
    frame->f_code = code;
    frame->prev_instr = _PyCode_CODE(code) - 1;
}
static Frame* current(PyThreadState* state) { return state->cframe->current_frame; }

#endif

// 3.12 began to keep a code object's frame size; FRAME_SPECIALS_SIZE is the part before the locals.
static Py_ssize_t frame_size(PyCodeObject* code) {
    return code->co_nlocalsplus + code->co_stacksize + FRAME_SPECIALS_SIZE;
}

PyObject** locals(Frame* frame) { return frame->localsplus; }
PyObject* globals(Frame* frame) { return frame->f_globals; }
PyObject* builtins(Frame* frame) { return frame->f_builtins; }

bool may_swap(Frame* frame) {
    PyCodeObject* co = code(frame);
    const int function_flags = CO_OPTIMIZED | CO_NEWLOCALS;
    const int suspended_flags = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR | CO_ITERABLE_COROUTINE;
    return co && frame->owner == FRAME_OWNED_BY_THREAD && (co->co_flags & function_flags) == function_flags &&
           !(co->co_flags & suspended_flags) && at_start(frame);
}

bool shown;

bool traced(PyThreadState* state) {
    return !shown && (state->c_tracefunc || state->c_profilefunc || monitored(state));
}

PyCodeObject* running(PyThreadState* state) {
    Frame* top = current(state);
    while (top && !code(top)) top = top->previous;   // 3.13 puts frames without code between C and Python
    return top ? code(top) : nullptr;
}

// The room is what the thread's data stack has above the frame, never what the code says: another thread may have
// enlarged the code after this frame was pushed.
static bool ensure_room(PyThreadState* state, Frame* frame, Py_ssize_t need) {
    PyObject** base = (PyObject**)frame;
    if (state->datastack_top - base >= need) return true;
    if (base < state->datastack_top && base + need < state->datastack_limit) {
        state->datastack_top = base + need;   // popping the frame sets the top back to `base`
        return true;
    }
    return false;
}

bool swap(PyThreadState* state, Frame* frame, PyCodeObject* replacement) {
    if (!ensure_room(state, frame, frame_size(replacement))) return false;
    PyCodeObject* original = code(frame);
    for (int i = original->co_nlocalsplus; i < replacement->co_nlocalsplus; i++) frame->localsplus[i] = nullptr;
    frame->stacktop = replacement->co_nlocalsplus;
    Py_INCREF(replacement);
    set_code(frame, replacement);
    Py_DECREF(original);
    return true;
}

// The address at which half of the thread's stack is used; null where nobody knows.
static char* half_of_stack() {
#ifdef __linux__
    pthread_attr_t attributes;
    void* low = nullptr;
    size_t size = 0;
    if (pthread_getattr_np(pthread_self(), &attributes) != 0) return nullptr;
    if (pthread_attr_getstack(&attributes, &low, &size) != 0) size = 0;
    pthread_attr_destroy(&attributes);
    return size ? (char*)low + size / 2 : nullptr;
#else
    return nullptr;
#endif
}

bool deep(PyThreadState* state) {
    static thread_local char* half = half_of_stack();
    char here;
#if PY_VERSION_HEX >= 0x030D0000
    if (state->c_recursion_remaining < Py_C_RECURSION_LIMIT / 2) return true;
#elif PY_VERSION_HEX >= 0x030C0000
    if (state->c_recursion_remaining < C_RECURSION_LIMIT / 2) return true;
#endif
    return &here < half;
}

// A frame that has ended may still lie on the thread's stack, until the call that entered it through the hook returns.
static bool runs(PyThreadState* state, Frame* frame) {
    if (frame->owner == FRAME_OWNED_BY_FRAME_OBJECT) return false;
    Frame* active = current(state);
    while (active && active != frame) active = active->previous;
    return active;
}

void set_last_line(PyThreadState* state, PyFrameObject* object, int line) {
    if (!runs(state, object->f_frame)) object->f_lineno = line;
}

void make_room(PyCodeObject* original, PyCodeObject* replacement) {
    Py_ssize_t missing = frame_size(replacement) - frame_size(original);
    if (missing <= 0) return;
    original->co_stacksize += (int)missing;
#if PY_VERSION_HEX >= 0x030C0000
    original->co_framesize += (int)missing;
#endif
}

PyObject* run(PyThreadState* state, Frame* frame, int throwflag) {
    return _PyEval_EvalFrameDefault(state, frame, throwflag);
}
Evaluator installed() { return _PyInterpreterState_GetEvalFrameFunc(PyInterpreterState_Get()); }
void install(Evaluator evaluator) { _PyInterpreterState_SetEvalFrameFunc(PyInterpreterState_Get(), evaluator); }

}  // namespace frame

namespace code_extra {

#if PY_VERSION_HEX >= 0x030C0000
Py_ssize_t request(void (*release)(void*)) { return PyUnstable_Eval_RequestCodeExtraIndex(release); }
void* get(PyCodeObject* code, Py_ssize_t index) {
    void* value = nullptr;
    PyUnstable_Code_GetExtra((PyObject*)code, index, &value);
    return value;
}
bool set(PyCodeObject* code, Py_ssize_t index, void* value) {
    return PyUnstable_Code_SetExtra((PyObject*)code, index, value) == 0;
}
#else
Py_ssize_t request(void (*release)(void*)) { return _PyEval_RequestCodeExtraIndex(release); }
void* get(PyCodeObject* code, Py_ssize_t index) {
    void* value = nullptr;
    _PyCode_GetExtra((PyObject*)code, index, &value);
    return value;
}
bool set(PyCodeObject* code, Py_ssize_t index, void* value) {
    return _PyCode_SetExtra((PyObject*)code, index, value) == 0;
}
#endif

}  // namespace code_extra
