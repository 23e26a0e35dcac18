/* A cache of large blocks, by size class, the longest unused evicted first. */
#define _GNU_SOURCE
#include "runtime/memory.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { STEPS = 4, CLASSES = 64 * STEPS };

static const size_t HUGE_PAGE = (size_t)2 << 20;

/* A cached block's own first bytes hold its place in two lists: its class (a stack, so that the
   block still in the processor's cache goes out first) and all blocks by age. */
typedef struct node {
    struct node *class_newer, *class_older, *newer, *older;
    size_t capacity;
} node;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static node *classes[CLASSES];
static node *newest, *oldest;
static memory_stats stats = {.limit_bytes = (size_t)1 << 30};

/* Classes are 1, 1.25, 1.5 and 1.75 times a power of two: at most a quarter is wasted. */
static int size_class(size_t size, size_t *capacity) {
    int power = 63 - __builtin_clzll((unsigned long long)size);
    size_t step = ((size_t)1 << power) / STEPS;
    size_t steps = (size - ((size_t)1 << power) + step - 1) / step;
    *capacity = ((size_t)1 << power) + steps * step;
    return power * STEPS + (int)steps;
}

static void unlink_node(node *block) {
    size_t capacity;
    int number = size_class(block->capacity, &capacity);
    if (block->class_newer) block->class_newer->class_older = block->class_older;
    else classes[number] = block->class_older;
    if (block->class_older) block->class_older->class_newer = block->class_newer;
    if (block->newer) block->newer->older = block->older;
    else newest = block->older;
    if (block->older) block->older->newer = block->newer;
    else oldest = block->newer;
    stats.cached_bytes -= block->capacity;
    stats.cached_blocks--;
}

static void *fresh_block(size_t capacity) {
    /* two huge pages or more: ask the kernel for huge pages, 512 times fewer page faults */
    int huge = capacity >= 2 * HUGE_PAGE;
    void *block = NULL;
    if (posix_memalign(&block, huge ? HUGE_PAGE : 64, capacity) != 0) return NULL;
#ifdef MADV_HUGEPAGE
    if (huge) (void)madvise(block, capacity, MADV_HUGEPAGE);
#endif
    return block;
}

void *memory_take(size_t size, size_t *capacity) {
    if (size > SIZE_MAX / 2) return NULL;
    int number = size_class(size, capacity);
    pthread_mutex_lock(&lock);
    node *block = classes[number];
    if (block) {
        unlink_node(block);
        stats.hits++;
    } else {
        stats.misses++;
    }
    stats.live_bytes += *capacity;
    stats.live_blocks++;
    pthread_mutex_unlock(&lock);
    if (block) return block;
    void *fresh = fresh_block(*capacity);
    if (!fresh) { /* short of memory: what lies idle here may be what is missing */
        memory_release(0);
        fresh = fresh_block(*capacity);
    }
    if (!fresh) {
        pthread_mutex_lock(&lock);
        stats.live_bytes -= *capacity;
        stats.live_blocks--;
        pthread_mutex_unlock(&lock);
    }
    return fresh;
}

/* Takes blocks out of the cache until `keep_bytes` are left; the caller holds the lock and frees them. */
static node *evict(size_t keep_bytes) {
    node *evicted = NULL;
    while (oldest && stats.cached_bytes > keep_bytes) {
        node *block = oldest;
        unlink_node(block);
        stats.evictions++;
        block->older = evicted;
        evicted = block;
    }
    return evicted;
}

static void free_all(node *blocks) {
    while (blocks) {
        node *rest = blocks->older;
        free(blocks);
        blocks = rest;
    }
}

void memory_give(void *memory, size_t capacity) {
    node *block = memory, *evicted = NULL;
    size_t rounded;
    int number = size_class(capacity, &rounded);
    pthread_mutex_lock(&lock);
    stats.live_bytes -= capacity;
    stats.live_blocks--;
    if (capacity <= stats.limit_bytes) {
        evicted = evict(stats.limit_bytes - capacity);
        *block = (node){.class_older = classes[number], .older = newest, .capacity = capacity};
        if (block->class_older) block->class_older->class_newer = block;
        classes[number] = block;
        if (newest) newest->newer = block;
        else oldest = block;
        newest = block;
        stats.cached_bytes += capacity;
        stats.cached_blocks++;
        block = NULL;
    }
    pthread_mutex_unlock(&lock);
    free(block);
    free_all(evicted);
}

void memory_release(size_t keep_bytes) {
    pthread_mutex_lock(&lock);
    node *evicted = evict(keep_bytes);
    pthread_mutex_unlock(&lock);
    free_all(evicted);
}

void memory_set_limit(size_t limit_bytes) {
    pthread_mutex_lock(&lock);
    stats.limit_bytes = limit_bytes;
    node *evicted = evict(limit_bytes);
    pthread_mutex_unlock(&lock);
    free_all(evicted);
}

memory_stats memory_get_stats(void) {
    pthread_mutex_lock(&lock);
    memory_stats copy = stats;
    pthread_mutex_unlock(&lock);
    return copy;
}

static void before_fork(void) { pthread_mutex_lock(&lock); }
static void after_fork(void) { pthread_mutex_unlock(&lock); }

void memory_setup(void) {
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    if (pages > 0 && page > 0) {
        size_t eighth = (size_t)pages / 8 * (size_t)page;
        if (eighth < stats.limit_bytes) stats.limit_bytes = eighth;
    }
    pthread_atfork(before_fork, after_fork, after_fork);
}
