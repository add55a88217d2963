// Each block carries its class in a 64-byte header before the data. Free blocks of a class form a stack under one
// mutex, which fork handlers hold over a fork, so the child finds it whole.
#include "alloc.h"

#include <mutex>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>

namespace {

constexpr long HEADER = 64, HUGE_PAGE = 2 << 20, KEEP_AT_LEAST = 256l << 20;
// Data of large blocks begins 1 KB into a page: arrays of numpy begin at 16 bytes, and a load that overlaps a store in the
// last 12 bits of the address waits for it (2.6 ms instead of 0.8 for 3 arrays of 16 MB, with stores past the caches).
constexpr long INTO_PAGE = 1024;
constexpr int CLASSES = 4 * 48;

struct Block {
    long bytes;
    void* memory; // as the system gave it
    int cls;
    Block* next;
};
static_assert(sizeof(Block) <= HEADER);

pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
Block* stacks[CLASSES];
Block* idle; // workspaces that no call uses
AllocStatistics statistics;

struct Lock {
    Lock() { pthread_mutex_lock(&mutex); }
    ~Lock() { pthread_mutex_unlock(&mutex); }
};

void before_fork() { pthread_mutex_lock(&mutex); }
void after_fork() { pthread_mutex_unlock(&mutex); }
void fresh_mutex() { mutex = PTHREAD_MUTEX_INITIALIZER; }
int registered = pthread_atfork(before_fork, after_fork, fresh_mutex);

// smallest class that holds `bytes`: sizes (4 + q) * 2^(e - 2)
int class_of(long bytes, long& rounded) {
    if (bytes < 64) bytes = 64;
    int e = 63 - __builtin_clzl((unsigned long)bytes);
    long quarter = 1l << (e - 2);
    long q = (bytes + quarter - 1) / quarter; // 4..8
    rounded = q * quarter;
    return q == 8 ? 4 * (e + 1) : 4 * e + (int)(q - 4);
}

Block* from_system(long rounded, int cls) {
    long shift = rounded + HEADER >= HUGE_PAGE ? INTO_PAGE - HEADER : 0, total = rounded + HEADER + shift;
    void* memory = nullptr;
    if (posix_memalign(&memory, total >= HUGE_PAGE ? HUGE_PAGE : 64, total)) return nullptr;
    if (total >= HUGE_PAGE) madvise(memory, total, MADV_HUGEPAGE);
    Block* block = (Block*)((char*)memory + shift);
    block->memory = memory;
    block->bytes = rounded;
    block->cls = cls;
    return block;
}

void give_back(Block* block) {
    if (block) free(block->memory);
}

void empty_locked() {
    for (Block*& stack : stacks)
        while (stack) {
            Block* block = stack;
            stack = block->next;
            give_back(block);
        }
    while (idle) {
        Block* block = idle;
        idle = block->next;
        give_back(block);
    }
    statistics.cached = 0;
}

void* handed_out(Block* block) {
    statistics.blocks++;
    statistics.current += block->bytes;
    if (statistics.current > statistics.peak) statistics.peak = statistics.current;
    return (char*)block + HEADER;
}

bool worth_keeping(long bytes) {
    long limit = statistics.peak / 2 > KEEP_AT_LEAST ? statistics.peak / 2 : KEEP_AT_LEAST;
    return statistics.cached + bytes <= limit;
}

// what is kept goes back to the system before a request fails
Block* made(long rounded, int cls) {
    statistics.system_calls++;
    Block* block = from_system(rounded, cls);
    if (block) return block;
    empty_locked();
    return from_system(rounded, cls);
}

// onto the stack of its kind, or back to the system
void taken_back(Block* block, Block*& kept) {
    statistics.blocks--;
    statistics.current -= block->bytes;
    if (!worth_keeping(block->bytes)) return give_back(block);
    statistics.cached += block->bytes;
    block->next = kept;
    kept = block;
}

Block* block_of(void* data) { return (Block*)((char*)data - HEADER); }

}

void* cached_alloc(long bytes) {
    if (bytes < 0 || bytes > (1l << 46)) return nullptr;
    long rounded;
    int cls = class_of(bytes, rounded);
    Lock lock;
    Block* block = stacks[cls];
    if (block) {
        stacks[cls] = block->next;
        statistics.cached -= rounded;
    } else {
        block = made(rounded, cls);
        if (!block) return nullptr;
    }
    return handed_out(block);
}

void cached_release(void* data) {
    if (!data) return;
    Block* block = block_of(data);
    Lock lock;
    taken_back(block, stacks[block->cls]);
}

long cached_size(void* data) { return block_of(data)->bytes; }

namespace {

// takes the idle workspace that fits best, else the largest of those that are too small
Block* take_idle(long bytes) {
    Block** best = nullptr;
    for (Block** at = &idle; *at; at = &(*at)->next) {
        if (!best) {
            best = at;
            continue;
        }
        bool fits = (*at)->bytes >= bytes, smaller = (*at)->bytes < (*best)->bytes;
        if ((*best)->bytes >= bytes ? fits && smaller : fits || !smaller) best = at;
    }
    if (!best) return nullptr;
    Block* block = *best;
    *best = block->next;
    statistics.cached -= block->bytes;
    return block;
}

}

void* workspace_alloc(long bytes) {
    if (bytes < 0 || bytes > (1l << 46)) return nullptr;
    Lock lock;
    Block* block = take_idle(bytes);
    if (!block || block->bytes < bytes) {
        give_back(block);
        long rounded = (bytes + HEADER + 4095) / 4096 * 4096 - HEADER;
        block = made(rounded, 0);
        if (!block) return nullptr;
    }
    return handed_out(block);
}

void workspace_release(void* data) {
    if (!data) return;
    Lock lock;
    taken_back(block_of(data), idle);
}

void cached_empty() {
    Lock lock;
    empty_locked();
}
AllocStatistics alloc_statistics() {
    Lock lock;
    return statistics;
}
void alloc_reset_peak() {
    Lock lock;
    statistics.peak = statistics.current;
}
