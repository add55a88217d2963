// What this thread is doing with compiled objects.
//   Off        compiled code or nothing of ours runs: the hook lets every frame pass
//   Running    the hook looks up every frame for `cache`: a break's instruction, or a frame that runs plain
//   Capturing  the compiler runs: nothing is looked up, compiled objects run plain
#pragma once

#include "common.h"

struct Cache;
struct Resume;

enum class Mode : int { Off, Running, Capturing };

struct Thread {
    Mode mode = Mode::Off;
    Cache* cache = nullptr;              // owned by whoever holds the Scope
    PyCodeObject* running = nullptr;     // generated code that the innermost runner runs
    PyCodeObject* skip = nullptr;        // the next frame of this code is a plain run and not looked up
    PyObject* tail_door = nullptr;       // owned: a resume call in tail position, to be run by the runner
    std::vector<PyObject*> tail_args;    // owned
};

Thread& this_thread();

// Set the mode; entering Running installs the frame hook, leaving it takes it away (counted over all threads).
void set_mode(Thread& thread, Mode mode);

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
