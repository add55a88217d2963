#include "call.h"
bool add_engine(PyObject*) { return true; }
