// The one thread pool of a process: spin, then park. Tasks never touch Python; the caller must not hold the GIL while
// it waits. Nested calls, and calls while another thread uses the pool, run serially in the calling thread.
#ifndef FB_POOL_H
#define FB_POOL_H

#include "abi.h"

void pool_parallel_for(FbRange fn, void* arg, long n, long grain);
int pool_threads(); // threads that a call made now would use at most
void pool_set_threads(int count); // takes effect with the next call; 1 = never start a worker
int pool_workers_alive(); // workers started so far in this process

#endif
