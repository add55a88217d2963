// A caching allocator: 64-byte aligned blocks in size classes (four per power of two), huge pages from 2 MB on.
#ifndef FB_ALLOC_H
#define FB_ALLOC_H

struct AllocStatistics {
    long current, peak, cached, blocks, system_calls;
};

void* cached_alloc(long bytes);          // nullptr when the system has no memory left
void cached_release(void* block);
long cached_size(void* block);           // bytes that it holds
// Memory of one running call: the smallest idle workspace that is large enough, or a new one in the place of an idle
// one.
void* workspace_alloc(long bytes);
void workspace_release(void* block);
void cached_empty(); // gives all cached blocks back to the system
AllocStatistics alloc_statistics();
void alloc_reset_peak();

#endif
