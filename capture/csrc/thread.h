// What this thread is doing with compiled objects.
//   Off        compiled code or nothing of ours runs: the hook lets every frame pass
//   Running    the hook looks up every frame for `cache`: a break's instruction, or a frame that runs plain
//   Capturing  the compiler runs: nothing is looked up, compiled objects run plain
#pragma once

#include "common.h"

struct Cache;
struct Handed;

enum class Mode : int { Off, Running, Capturing };

struct Thread {
    Mode mode = Mode::Off;
    Cache* cache = nullptr;              // owned by whoever holds the Scope
    PyCodeObject* running = nullptr;     // generated code that the innermost runner runs
    PyCodeObject* skip = nullptr;        // the next frame of this code is a plain run and not looked up
    PyObject* tail_door = nullptr;       // owned: a resume call in tail position, to be run by the runner
    std::vector<PyObject*> tail_args;    // owned
    Handed* handed = nullptr;            // what the caller of the code that begins now holds
};

Thread& this_thread();

// Set the mode; entering Running installs the frame hook, leaving it takes it away (counted over all threads).
void set_mode(Thread& thread, Mode mode);

// The references to its arguments that the caller of generated code holds besides the frame. The code says (`taken`) from
// when on a failed check of its graph can't ask for the same call again: they go then, so that, as in a plain call, a value
// dies with the frame's last use of it.
struct Handed {
    Handed(Thread& thread, std::vector<PyObject*>* args)
        : thread_(thread), before_(std::exchange(thread.handed, this)), args_(args) {}
    ~Handed() { thread_.handed = before_; }
    Handed(const Handed&) = delete;
    bool gone() const { return gone_; }
    void drop() {
        gone_ = true;
        if (!args_) return;
        std::vector<PyObject*> args;
        args.swap(*args_);
        for (PyObject* arg : args) Py_DECREF(arg);
    }

  private:
    Thread& thread_;
    Handed* before_;
    std::vector<PyObject*>* args_;
    bool gone_ = false;
};

// Saves the thread's state and restores it, whatever happened in between.
class Scope {
  public:
    Scope(Thread& thread, Mode mode, Cache* cache, PyCodeObject* running)
        : thread_(thread), mode_(thread.mode), cache_(thread.cache), running_(thread.running), skip_(thread.skip) {
        thread.cache = cache;
        thread.running = running;
        thread.skip = nullptr;
        if (mode != mode_) set_mode(thread, mode);
    }
    ~Scope() {
        thread_.cache = cache_;
        thread_.running = running_;
        thread_.skip = skip_;
        if (thread_.mode != mode_) set_mode(thread_, mode_);
    }
    Scope(const Scope&) = delete;

  private:
    Thread& thread_;
    Mode mode_;
    Cache* cache_;
    PyCodeObject *running_, *skip_;
};
