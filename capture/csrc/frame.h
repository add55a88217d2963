// The interpreter's frame, as far as the hook needs it: all knowledge of CPython's private structures is behind this.
#pragma once

#include "common.h"

struct _PyInterpreterFrame;
using Frame = struct _PyInterpreterFrame;
using Evaluator = PyObject* (*)(PyThreadState*, Frame*, int);

namespace frame {

PyCodeObject* code(Frame* frame);                    // borrowed
PyFunctionObject* function(Frame* frame);            // borrowed
PyObject** locals(Frame* frame);                     // arguments first, none of them in a cell yet
PyObject* globals(Frame* frame);                     // borrowed
PyObject* builtins(Frame* frame);                    // borrowed
bool may_swap(Frame* frame);                         // a function call on the thread's own stack that has not begun
extern bool shown;                                   // compiled code runs under tracers and profilers as well: they count it
bool traced(PyThreadState* state);                   // a tracer or profiler watches this thread, and is shown the original code
bool monitored(PyThreadState* state);                // a tool of sys.monitoring watches all code
PyCodeObject* running(PyThreadState* state);         // code of the innermost Python frame, borrowed, or null

// More than half of what C calls may take of this thread's stack is taken. Each frame that passes a frame hook is a C call.
bool deep(PyThreadState* state);

// The line that `f_lineno` of a frame object tells from now on, if the frame does not run any more.
void set_last_line(PyThreadState* state, PyFrameObject* object, int line);

// Make `frame` run `code` instead of its own. False, with the frame unchanged, when it has no room for that code.
bool swap(PyThreadState* state, Frame* frame, PyCodeObject* code);

// Let later frames of `original` have room for `replacement`.
void make_room(PyCodeObject* original, PyCodeObject* replacement);

PyObject* run(PyThreadState* state, Frame* frame, int throwflag);   // CPython's own evaluator
Evaluator installed();
void install(Evaluator evaluator);

}  // namespace frame

// co_extra under one name on all versions.
namespace code_extra {
Py_ssize_t request(void (*release)(void*));
void* get(PyCodeObject* code, Py_ssize_t index);
bool set(PyCodeObject* code, Py_ssize_t index, void* value);
}  // namespace code_extra
