// Tools of sys.monitoring (3.12 on): profilers, debuggers and coverage that are told of events in every code object.
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <cstring>

#if PY_VERSION_HEX >= 0x030C0000
#undef HAVE_STD_ATOMIC   // C's atomics are not C++'s; the compiler's own have the same layout
#undef _PyGC_FINALIZED   // defined again by the internal headers
#define Py_BUILD_CORE
#include <internal/pycore_interp.h>
#undef Py_BUILD_CORE
#endif

#include "frame.h"

namespace frame {

#if PY_VERSION_HEX >= 0x030C0000

// One byte of bits per event, one bit per tool; the two highest tools are sys.setprofile's and sys.settrace's, of any thread.
bool monitored(PyThreadState* state) {
    const uint8_t* tools = state->interp->monitors.tools;
    static_assert(sizeof(state->interp->monitors.tools) == 15, "events of sys.monitoring");
    uint64_t first, last;
    std::memcpy(&first, tools, 8);
    std::memcpy(&last, tools + 7, 8);
    return (first | last) & 0x3f3f3f3f3f3f3f3full;
}

#else

bool monitored(PyThreadState*) { return false; }

#endif

}  // namespace frame
