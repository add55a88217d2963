// A job is claimed in chunks from one atomic counter, each half of a thread's share of what is left, so that all threads
// end together. Workers enter through `door` (open bit + number inside), which the caller closes before it returns, so a
// late worker never sees a finished job's memory. After fork the child forgets the pool (its workers do not exist there)
// and starts a new one on first use, also when the parent was inside a job.
#include "pool.h"

#include <atomic>
#include <linux/futex.h>
#include <mutex>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>

namespace {

constexpr unsigned OPEN = 1u << 31;
constexpr int SPINS = 3000, MAX_THREADS = 256, CHUNKS_PER_SHARE = 2, CHUNKS_PER_THREAD = 16;

inline void relax() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

struct Pool {
    alignas(64) std::atomic<int> generation{0}; // futex word: a new job
    std::atomic<int> parked{0};
    alignas(64) std::atomic<unsigned> door{0};
    alignas(64) std::atomic<long> next{0};
    alignas(64) std::atomic<bool> busy{false};
    FbRange fn = nullptr;
    void* arg = nullptr;
    long n = 0, chunk = 1;
    int limit = 1; // threads allowed in this job
    std::atomic<int> workers{0};
};

std::atomic<Pool*> current{nullptr};
std::atomic<int> wanted{1};
thread_local bool inside = false; // this thread runs a range of a job

struct Start {
    Pool* pool;
    int number;
};

void take_chunks(Pool& pool, int thread) {
    inside = true;
    for (long begin = pool.next.load(std::memory_order_relaxed); begin < pool.n;) {
        long share = (pool.n - begin) / (CHUNKS_PER_SHARE * pool.limit), size = share > pool.chunk ? share : pool.chunk;
        long end = pool.n - begin > size ? begin + size : pool.n;
        if (!pool.next.compare_exchange_weak(begin, end, std::memory_order_relaxed)) continue;
        pool.fn(pool.arg, begin, end, thread);
        begin = pool.next.load(std::memory_order_relaxed);
    }
    inside = false;
}

void wait_for_job(Pool& pool, int seen) {
    for (int spin = 0; spin < SPINS; spin++) {
        if (pool.generation.load(std::memory_order_acquire) != seen) return;
        relax();
    }
    pool.parked.fetch_add(1);
    while (pool.generation.load() == seen)
        syscall(SYS_futex, &pool.generation, FUTEX_WAIT_PRIVATE, seen, nullptr, nullptr, 0);
    pool.parked.fetch_sub(1);
}

bool enter(Pool& pool) {
    unsigned door = pool.door.load(std::memory_order_acquire);
    while (door & OPEN)
        if (pool.door.compare_exchange_weak(door, door + 1, std::memory_order_acq_rel)) return true;
    return false;
}

void* work(void* raw) {
    Start start = *(Start*)raw;
    delete (Start*)raw;
    Pool& pool = *start.pool;
    int seen = 0;
    for (;;) {
        wait_for_job(pool, seen);
        seen = pool.generation.load(std::memory_order_acquire);
        if (!enter(pool)) continue;
        if (start.number < pool.limit) take_chunks(pool, start.number);
        pool.door.fetch_sub(1, std::memory_order_release);
    }
    return nullptr;
}

void start_workers(Pool& pool, int count) {
    while (pool.workers.load() < count - 1) {
        pthread_attr_t attributes;
        pthread_attr_init(&attributes);
        pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
        pthread_t thread;
        Start* start = new Start{&pool, pool.workers.load() + 1};
        int failed = pthread_create(&thread, &attributes, work, start);
        pthread_attr_destroy(&attributes);
        if (failed) {
            delete start;
            return;
        } // fewer threads: the job is still done
        pool.workers.fetch_add(1);
    }
}

void child_after_fork() {
    // the old pool may be in any state and its workers are gone: leave it behind
    current.store(nullptr);
    inside = false;
}

Pool& get() {
    Pool* pool = current.load(std::memory_order_acquire);
    if (pool) return *pool;
    static std::once_flag once;
    std::call_once(once, [] { pthread_atfork(nullptr, nullptr, child_after_fork); });
    Pool* fresh = new Pool;
    if (current.compare_exchange_strong(pool, fresh)) return *fresh;
    delete fresh;
    return *pool;
}

void run_job(Pool& pool, FbRange fn, void* arg, long n, long grain, int threads) {
    start_workers(pool, threads);
    pool.fn = fn;
    pool.arg = arg;
    pool.n = n;
    pool.limit = threads;
    long chunk = (n + threads * CHUNKS_PER_THREAD - 1) / (threads * CHUNKS_PER_THREAD);
    pool.chunk = chunk > grain ? chunk : grain;
    pool.next.store(0, std::memory_order_relaxed);
    pool.door.store(OPEN, std::memory_order_release);
    pool.generation.fetch_add(1);
    if (pool.parked.load()) syscall(SYS_futex, &pool.generation, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
    take_chunks(pool, 0);
    pool.door.fetch_and(~OPEN, std::memory_order_acq_rel);
    for (int spin = 0; pool.door.load(std::memory_order_acquire) != 0; spin++)
        if (spin < SPINS) relax();
        else sched_yield();
}

}

int pool_threads() { return inside ? 1 : wanted.load(std::memory_order_relaxed); }
void pool_set_threads(int count) { wanted.store(count < 1 ? 1 : count > MAX_THREADS ? MAX_THREADS : count); }
int pool_workers_alive() {
    Pool* pool = current.load();
    return pool ? pool->workers.load() : 0;
}

void pool_parallel_for(FbRange fn, void* arg, long n, long grain) {
    if (n <= 0) return;
    int threads = pool_threads();
    long most = grain > 0 ? (n + grain - 1) / grain : n;
    if (most < threads) threads = (int)most;
    if (threads <= 1) return fn(arg, 0, n, 0);
    Pool& pool = get();
    if (pool.busy.exchange(true, std::memory_order_acquire)) return fn(arg, 0, n, 0);
    run_job(pool, fn, arg, n, grain, threads);
    pool.busy.store(false, std::memory_order_release);
}
