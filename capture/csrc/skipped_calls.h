// What the last calls of a function that is left to Python looked like. Its own code is right for every call, so a call that
// looks the same is run without asking the guards. What cannot be seen in the arguments (globals, cells, modes) is asked
// for after AGAIN calls, and after many after an AGAIN-th of them, at most SELDOM.
#pragma once

#include "common.h"

class Look {
  public:
    // Whether this call looks like the one that was kept and the guards need not be asked.
    bool same(PyObject* const* args, Py_ssize_t count, PyObject* kwnames);
    void keep(PyObject* const* args, Py_ssize_t count, PyObject* kwnames);
    void forget();

  private:
    static constexpr unsigned AGAIN = 16, SELDOM = 1024;
    static constexpr int MOST = 8, RANK = 6;

    void clear();

    // Of a tensor its class, dtype (pointers that are compared and never followed) and sizes; another argument is itself, where
    // it can't change.
    struct Mark {
        Ref constant;
        PyTypeObject* type = nullptr;
        PyObject* dtype = nullptr;
        int rank = -1;
        Py_ssize_t sizes[RANK];

        bool set(PyObject* arg);
        bool fits(PyObject* arg) const;
    };

    std::vector<Mark> marks_;
    Ref kwnames_;
    bool known_ = false;
    uint64_t calls_ = 0, next_ = 0;     // calls that looked the same; the one in which the guards are asked
};
