/* The one owner of the C kernels' threads: a pool that spins briefly, then sleeps.

   NumPy's OpenBLAS keeps threads of its own. Measured on two cores of a Zen 5, float32, matmul and then
   tanh of its result, both on two threads; microseconds, the best of seven:

       square of                                    128     256     512    1024
       OpenBLAS and this pool                        42     194    1167    8802
       OpenBLAS and OpenMP (libgomp)               8448    8293    8101   17103
       matmul alone, tanh alone on this pool      22+6  148+19 1163+75 8415+285
       cblas_sgemm by rows on this pool, and tanh    42     316    1596    9633

   libgomp's threads and OpenBLAS's each spin where the other wants to run. A pool that goes to sleep
   soon leaves OpenBLAS as fast as alone, so that BLAS is not called through it. */
#define _GNU_SOURCE
#include "runtime/parallel.h"
#include "runtime/paths.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#if defined(__x86_64__) || defined(__i386__)
#define PAUSE() __builtin_ia32_pause()
#elif defined(__aarch64__)
#define PAUSE() __asm__ volatile("yield")
#else
#define PAUSE() ((void)0)
#endif

enum { MAX_THREADS = 256 };

/* How long an idle worker watches for the next job before it sleeps. */
static const int64_t SPIN_NS = 50000;

/* A share (kernel_choice) is one or two microseconds' work, if nothing else is chosen. With a worker that watches, two
   shares are worth dividing; to wake a sleeping one costs 10 to 30 microseconds, so that takes more: one large job, or
   small ones in quick succession, none longer after the last than SPIN_NS. */
enum { SHARES_TO_DIVIDE = 2, SHARES_TO_WAKE = 24 };

/* `ticket` holds the job's number in its upper half and the next chunk in its lower half. A thread
   reads the ticket, then the job, then claims a chunk by compare-and-swap: when the swap succeeds
   the job it read is the current one, and stays so until that chunk is counted in `done`. So nobody
   waits for a worker that woke too late to help. */
static struct {
    pthread_mutex_t owner; /* held by the caller whose job runs */
    pthread_mutex_t sleep_lock;
    pthread_cond_t wake;
    _Atomic uint64_t ticket;
    _Atomic uint32_t chunks;
    _Atomic uint32_t done;
    _Atomic ptrdiff_t n;
    _Atomic(parallel_body) body;
    _Atomic(void *) context;
    _Atomic int sleepers;
    _Atomic int wanted;  /* threads, the caller included */
    _Atomic int workers; /* threads started */
    _Atomic int missed;  /* shares that sleeping workers could have taken, in quick succession */
    _Atomic int64_t missed_at;
    pthread_t threads[MAX_THREADS];
    int kept_off; /* the processor that the workers leave to the caller; -1 for none */
} pool = {
    .owner = PTHREAD_MUTEX_INITIALIZER,
    .sleep_lock = PTHREAD_MUTEX_INITIALIZER,
    .wake = PTHREAD_COND_INITIALIZER,
    .wanted = 1,
};

static int64_t now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static ptrdiff_t chunk_edge(ptrdiff_t n, uint32_t chunk, uint32_t chunks) {
    ptrdiff_t base = n / chunks, rest = n % chunks;
    return base * chunk + (chunk < rest ? chunk : rest);
}

/* Works on the current job until no chunk is left; returns the number of that job. */
static uint32_t help(void) {
    for (;;) {
        uint64_t ticket = atomic_load(&pool.ticket);
        uint32_t chunk = (uint32_t)ticket, chunks = atomic_load(&pool.chunks);
        if (chunk >= chunks) return (uint32_t)(ticket >> 32);
        ptrdiff_t n = atomic_load(&pool.n);
        parallel_body body = atomic_load(&pool.body);
        void *context = atomic_load(&pool.context);
        if (!atomic_compare_exchange_weak(&pool.ticket, &ticket, ticket + 1)) continue;
        body(context, chunk_edge(n, chunk, chunks), chunk_edge(n, chunk + 1, chunks));
        atomic_fetch_add(&pool.done, 1);
    }
}

static void *work(void *number_ptr) {
    int number = (int)(intptr_t)number_ptr;
    uint32_t seen = 0;
    for (;;) {
        int64_t limit = now_ns() + SPIN_NS;
        int turn = 0;
        while ((uint32_t)(atomic_load(&pool.ticket) >> 32) == seen) {
            PAUSE();
            if ((++turn & 63) != 0) continue;
            const int64_t now = now_ns();
            if (atomic_load(&pool.done) < atomic_load(&pool.chunks)) {
                limit = now + SPIN_NS; /* it came too late for this job: it is there for the next */
            } else if (now > limit) {
                pthread_mutex_lock(&pool.sleep_lock);
                atomic_fetch_add(&pool.sleepers, 1);
                while ((uint32_t)(atomic_load(&pool.ticket) >> 32) == seen)
                    pthread_cond_wait(&pool.wake, &pool.sleep_lock);
                atomic_fetch_sub(&pool.sleepers, 1);
                pthread_mutex_unlock(&pool.sleep_lock);
                break;
            }
        }
        /* a worker beyond the wanted number only notes that it has seen the job */
        if (number < atomic_load(&pool.wanted)) seen = help();
        else seen = (uint32_t)(atomic_load(&pool.ticket) >> 32);
    }
    return NULL;
}

static void start_workers(int wanted) {
    while (atomic_load(&pool.workers) < wanted - 1) {
        const int number = atomic_load(&pool.workers);
        if (pthread_create(&pool.threads[number], NULL, work, (void *)(intptr_t)(number + 1)) != 0) return;
        pthread_detach(pool.threads[number]);
        pool.kept_off = -1;
        atomic_fetch_add(&pool.workers, 1);
    }
}

/* Keeps the workers off the caller's processor. Linux wakes a thread near the one that woke it: on two processors one
   time in three on the very same, where it waits until the scheduler next balances, many milliseconds later; a GELU of
   786,432 items then took 181 microseconds on two threads, and 91 elsewhere. A system call a worker, and only when the
   caller has moved. */
static void keep_off_caller(void) {
#ifdef __linux__
    const int here = sched_getcpu();
    cpu_set_t others;
    if (here == pool.kept_off || sched_getaffinity(0, sizeof others, &others) != 0) return;
    pool.kept_off = here;
    CPU_CLR(here, &others);
    if (CPU_COUNT(&others) == 0) return;
    for (int i = 0; i < atomic_load(&pool.workers); i++)
        pthread_setaffinity_np(pool.threads[i], sizeof others, &others);
#endif
}

/* Whether sleeping workers are woken for a job, or would have been wanted for those before as well. */
static int worth_waking(double shares) {
    if (shares >= SHARES_TO_WAKE) return 1;
    if (shares < SHARES_TO_DIVIDE) return 0;
    const int64_t now = now_ns();
    const int before = now - atomic_load(&pool.missed_at) < SPIN_NS ? atomic_load(&pool.missed) : 0;
    const int missed = before + (int)shares, enough = missed >= SHARES_TO_WAKE;
    atomic_store(&pool.missed_at, now);
    atomic_store(&pool.missed, enough ? 0 : missed);
    return enough;
}

void parallel_for(ptrdiff_t n, double work, parallel_body body, void *context) {
    parallel_for_as(&choice_default, n, work, body, context);
}

void parallel_for_as(const kernel_choice *as, ptrdiff_t n, double work, parallel_body body, void *context) {
    if (n <= 0) return;
    const int wanted = atomic_load(&pool.wanted), fewer = as->threads && as->threads < wanted;
    const int threads = fewer ? as->threads : wanted, asleep = atomic_load(&pool.sleepers) >= atomic_load(&pool.workers);
    const double shares = work / as->share;
    /* a second Python thread does not wait for the pool: it does its own work */
    if (threads < 2 || n < 2 || !(asleep ? worth_waking(shares) : shares >= SHARES_TO_DIVIDE) ||
        pthread_mutex_trylock(&pool.owner) != 0) {
        body(context, 0, n);
        return;
    }
    took(PATH_threads);
    start_workers(threads);
    keep_off_caller();
    /* any worker takes a chunk: fewer threads than there are means as few chunks */
    ptrdiff_t chunks = (ptrdiff_t)threads * (fewer ? 1 : as->chunks);
    if (chunks > shares) chunks = (ptrdiff_t)shares;
    if (chunks > n) chunks = n;
    atomic_store(&pool.n, n);
    atomic_store(&pool.body, body);
    atomic_store(&pool.context, context);
    atomic_store(&pool.done, 0);
    uint32_t job = (uint32_t)(atomic_load(&pool.ticket) >> 32);
    /* the old ticket's chunk number must not become claimable before the new ticket stands */
    atomic_store(&pool.ticket, (uint64_t)job << 32 | UINT32_MAX);
    atomic_store(&pool.chunks, (uint32_t)chunks);
    atomic_store(&pool.ticket, (uint64_t)(job + 1) << 32);
    if (atomic_load(&pool.sleepers) > 0) {
        pthread_mutex_lock(&pool.sleep_lock);
        pthread_cond_broadcast(&pool.wake);
        pthread_mutex_unlock(&pool.sleep_lock);
    }
    help();
    for (int turn = 0; atomic_load(&pool.done) != (uint32_t)chunks; turn++) {
        if (turn < 2000) PAUSE();
        else sched_yield();
    }
    pthread_mutex_unlock(&pool.owner);
}

static int processors(void) {
#ifdef __linux__
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
#endif
    return (int)sysconf(_SC_NPROCESSORS_ONLN);
}

int parallel_get_threads(void) { return atomic_load(&pool.wanted); }

void parallel_set_threads(int count) {
    if (count < 1) count = processors();
    atomic_store(&pool.wanted, count > MAX_THREADS ? MAX_THREADS : count);
}

/* A child of fork() has none of the workers, and may find the locks held by threads it lacks. */
static void forget_workers(void) {
    pthread_mutex_init(&pool.owner, NULL);
    pthread_mutex_init(&pool.sleep_lock, NULL);
    pthread_cond_init(&pool.wake, NULL);
    atomic_store(&pool.ticket, 0);
    atomic_store(&pool.chunks, 0);
    atomic_store(&pool.sleepers, 0);
    atomic_store(&pool.workers, 0);
}

void parallel_setup(void) {
    const char *names[] = {"GRADLAB_NUM_THREADS", "OMP_NUM_THREADS"};
    int count = 0;
    for (int i = 0; i < 2 && count < 1; i++) {
        const char *text = getenv(names[i]);
        if (text) count = atoi(text);
    }
    parallel_set_threads(count);
    pthread_atfork(NULL, NULL, forget_workers);
}
