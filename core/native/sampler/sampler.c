/* A stack sampler: a thread of C notes where another thread's Python code is, without the GIL and without allocating.
 *
 * It wakes at random, about once in a period, so that no loop can keep step with it. Where the watched thread has a
 * processor, it is sent a signal, whose handler notes its frames; where it sleeps or stands in the queue for a processor,
 * its frames are read as they lie there, and it is left to sleep: a signal would cut short what a library waits for.
 *
 * Between two samples the clocks of the system tell how long the thread ran, how long it stood in the queue for a
 * processor (that is other programs' time) and how long it waited. A sample that finds it awake bears the first two since
 * the last such sample, one that finds it waiting the time for which it waited: on a busy machine the samples themselves
 * come late where it runs and at once where it sleeps, and by this no line gains from it. Running and the queue are one:
 * the sampling thread has often taken the watched one's place. */
#define _GNU_SOURCE
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "sampler/sampler.h"

#ifdef FRAMES_KNOWN
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

samplers all_samplers;

enum { MOMENT = 50000 }; /* ns: to ask why such a time is missing takes longer */

static long read_clock(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * SECOND + t.tv_nsec;
}

/* Notes the frames in the ring's next place, where they are not yet to be taken; 0 where there is nothing to note. */
static int note(sampler *self, int within) {
    sample *next = &self->ring[atomic_load(&self->head) % SAMPLES];
    const int depth = frame_chain(self->thread, within, next->frames, FRAMES);
    next->beat = atomic_load(&self->beat);
    atomic_store(&next->depth, depth > 0 ? depth : 0);
    return depth > 0;
}

/* Gives the ring's next place, once its frames are noted, the time that it bears, and lets it be taken. */
static void publish(sampler *self, int waits) {
    sample *next = &self->ring[atomic_load(&self->head) % SAMPLES];
    long *owed = waits ? &self->waited_owed_ns : &self->ran_owed_ns;
    next->took_ns = *owed > 0 ? *owed : 0;
    if (*owed > 0) *owed = 0; /* less than nothing: what stood as a wait has turned out to be the queue */
    next->starved_ns = waits ? 0 : self->starved_owed_ns;
    self->starved_owed_ns -= next->starved_ns;
    atomic_fetch_add(&self->head, 1);
}

int sampler_answered(sampler *self) {
    if (atomic_load(&self->asked)) return 0;
    if (!self->sent) return 1;
    self->sent = 0;
    if (atomic_load(&self->ring[atomic_load(&self->head) % SAMPLES].depth)) publish(self, 0);
    else self->lost++;
    return 1;
}

static void handle(int number, siginfo_t *told, void *context) {
    const int saved = errno;
    sampler *self = NULL;
    (void)number, (void)context;
    for (int k = 0; k < WATCHED && !self; k++) {
        sampler *one = atomic_load(&all_samplers.watched[k]);
        if (one && one == told->si_value.sival_ptr) self = one;
    }
    if (self && told->si_code == SI_QUEUE && atomic_load(&self->asked) && syscall(SYS_gettid) == self->tid) {
        note(self, 1);
        atomic_store(&self->asked, 0);
    }
    errno = saved;
}

/* The whole numbers at the beginning of a text, behind blanks. */
static long number_at(const char **at) {
    long value = 0;
    while (**at == ' ' || **at == '\t') ++*at;
    for (; **at >= '0' && **at <= '9'; ++*at) value = 10 * value + (**at - '0');
    return value;
}

/* How long the thread has stood in the queue for a processor, in all, and how often it was given one; what was known
   before where nobody tells. */
static long starved(const sampler *self, long *turns) {
    char text[80];
    const ssize_t size = self->queue < 0 ? 0 : pread(self->queue, text, sizeof text - 1, 0);
    if (size <= 0) return self->starved_ns;
    text[size] = 0;
    const char *at = text;
    number_at(&at);
    const long waited = number_at(&at);
    *turns = number_at(&at);
    return waited;
}

/* How often the thread has given up its processor by itself: it waited for something. */
static long pauses(const sampler *self) {
    static const char name[] = "\nvoluntary_ctxt_switches:";
    char text[2048];
    const ssize_t size = self->status < 0 ? 0 : pread(self->status, text, sizeof text - 1, 0);
    text[size > 0 ? size : 0] = 0;
    const char *at = strstr(text, name);
    if (!at) return self->pauses + 1; /* nobody tells: perhaps it did */
    at += sizeof name - 1;
    return number_at(&at);
}

/* Whether a thread that has no processor waits for something else than one. */
static int sleeps(const sampler *self) {
    char text[128];
    const ssize_t size = self->state < 0 ? 0 : pread(self->state, text, sizeof text - 1, 0);
    text[size > 0 ? size : 0] = 0;
    const char *at = strrchr(text, ')'); /* its name, which may hold anything, is short */
    return !at || !at[1] || at[2] != 'R';
}

int sampler_request(sampler *self) {
    siginfo_t told = {.si_signo = all_samplers.signal, .si_code = SI_QUEUE};
    told.si_pid = self->process;
    told.si_uid = getuid();
    told.si_value.sival_ptr = self;
    self->sent = 1;
    atomic_store(&self->asked, 1);
    if (!syscall(SYS_rt_tgsigqueueinfo, self->process, self->tid, all_samplers.signal, &told)) return 1;
    self->sent = 0;
    atomic_store(&self->asked, 0);
    return 0;
}

/* Adds the time since the last sample to what is owed; `now` and `ran` are of the one that is being made, which found the
   thread waiting or awake. */
static void account(sampler *self, long now, long ran, int waits) {
    long turns = self->turns;
    const long queued = starved(self, &turns);
    const long running = ran - self->ran_ns, queueing = queued - self->starved_ns;
    const long rest = now - self->now_ns - running - queueing;
    /* What is left is a wait, of a thread that gave up its processor; else the queue in which it still stands, which is told
       when that ends, or the machine below this one ran something else. */
    const int doubtful = rest > MOMENT && turns != self->turns && !waits && !self->waits;
    const long paused = doubtful ? pauses(self) : self->pauses;
    const int waited = waits || self->waits || paused != self->pauses;
    *(waited ? &self->waited_owed_ns : &self->starved_owed_ns) += rest;
    self->ran_owed_ns += running;
    self->starved_owed_ns += queueing;
    self->now_ns = now, self->ran_ns = ran, self->starved_ns = queued;
    self->turns = turns, self->pauses = paused, self->waits = waits;
}

/* One sample. The thread is sampled first and the files of the system are read then: they take so long that it would be
   on another line. */
static void sample_once(sampler *self) {
    if (!sampler_answered(self)) return; /* the thread has not come to it: its time is the next sample's */
    if (atomic_load(&self->head) - atomic_load(&self->tail) == SAMPLES) return;
    const long now = read_clock(CLOCK_MONOTONIC), ran = read_clock(self->clock);
    int waits = 0;
    if (read_clock(self->clock) != ran) {
        sampler_request(self);
    } else {
        waits = sleeps(self); /* before the frames are read, while which it may be woken */
        if (note(self, 0) && read_clock(self->clock) == ran) { /* it did not run in between: so it stands there */
            account(self, now, ran, waits);
            publish(self, waits);
            return;
        }
        atomic_store(&self->ring[atomic_load(&self->head) % SAMPLES].depth, 0); /* it woke up */
        waits = 0;
        sampler_request(self);
    }
    account(self, now, ran, waits);
    sampler_answered(self);
}

/* Asks for short turns: a thread that wakes takes the place of one that runs where its turns are the shorter ones (Linux
   6.12); else it would come when that one pauses, and find it pausing. */
static void come_at_once(void) {
    struct {
        uint32_t size, policy;
        uint64_t flags;
        int32_t nice;
        uint32_t priority;
        uint64_t runtime, deadline, period;
    } turns = {.size = 48, .runtime = 100000};
    turns.nice = getpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid));
#ifdef SYS_sched_setattr
    (void)syscall(SYS_sched_setattr, 0, &turns, 0);
#endif
}

static void *watch(void *given) {
    sampler *self = given;
    const long begin = self->now_ns;
    come_at_once();
    prctl(PR_SET_TIMERSLACK, 1L, 0L, 0L, 0L); /* else the kernel wakes it together with others, the watched thread among them */
    pthread_mutex_lock(&self->lock);
    while (!atomic_load(&self->ends)) {
        unsigned random_state = self->random_state;
        random_state ^= random_state << 13, random_state ^= random_state >> 17, random_state ^= random_state << 5;
        self->random_state = random_state;
        long period = self->now_ns - begin < SECOND ? self->first_ns : self->later_ns;
        /* where nobody takes them, as while one call keeps the GIL for seconds, they come more and more rarely */
        period <<= (atomic_load(&self->head) - atomic_load(&self->tail)) * 8 / SAMPLES;
        const long now = read_clock(CLOCK_MONOTONIC), at = now + (long)(-log(((double)random_state + 1) / 4294967297.0) * period);
        const struct timespec until = {at / SECOND, at % SECOND};
        if (pthread_cond_timedwait(&self->wake, &self->lock, &until) == ETIMEDOUT) sample_once(self);
    }
    pthread_mutex_unlock(&self->lock);
    return NULL;
}

/* What the system tells of the thread, kept open. */
static int open_told(const sampler *self, const char *what) {
    char name[64];
    snprintf(name, sizeof name, "/proc/self/task/%d/%s", (int)self->tid, what);
    return open(name, O_RDONLY | O_CLOEXEC);
}

void sampler_close(const sampler *self) {
    if (self->queue >= 0) close(self->queue);
    if (self->state >= 0) close(self->state);
    if (self->status >= 0) close(self->status);
}

/* A signal that nobody uses, with our handler; it stays, since the default for one that comes late ends the process. */
static int choose_signal(void) {
    struct sigaction act = {.sa_flags = SA_RESTART | SA_SIGINFO}, there;
    if (all_samplers.signal && !sigaction(all_samplers.signal, NULL, &there) && there.sa_sigaction == handle) return 1;
    act.sa_sigaction = handle;
    sigfillset(&act.sa_mask);
    for (int number = SIGRTMAX - 3; number > SIGRTMIN + 2; number--) {
        if (sigaction(number, NULL, &there) || there.sa_handler != SIG_DFL) continue;
        if (sigaction(number, &act, NULL)) continue;
        all_samplers.signal = number;
        return 1;
    }
    return 0;
}

int sampler_prepare(sampler *self) {
    if (!choose_signal() || pthread_getcpuclockid(pthread_self(), &self->clock)) return 0;
    self->queue = open_told(self, "schedstat");
    self->state = open_told(self, "stat");
    self->status = open_told(self, "status");
    self->now_ns = read_clock(CLOCK_MONOTONIC);
    self->random_state = (unsigned)self->now_ns | 1u; /* not 0, from which nothing would follow */
    self->ran_ns = read_clock(self->clock);
    self->starved_ns = starved(self, &self->turns);
    self->pauses = pauses(self);
    pthread_condattr_t by;
    pthread_condattr_init(&by);
    pthread_condattr_setclock(&by, CLOCK_MONOTONIC);
    pthread_mutex_init(&self->lock, NULL);
    pthread_cond_init(&self->wake, &by);
    pthread_condattr_destroy(&by);
    return 1;
}

int sampler_start(sampler *self) {
    sigset_t every, was;
    sigfillset(&every);
    pthread_sigmask(SIG_SETMASK, &every, &was); /* signals are for the threads of Python */
    const int failed = pthread_create(&self->runner, NULL, watch, self);
    pthread_sigmask(SIG_SETMASK, &was, NULL);
    return !failed;
}

void sampler_stop(sampler *self) {
    if (self->over) return;
    self->over = 1;
    pthread_mutex_lock(&self->lock);
    atomic_store(&self->ends, 1);
    pthread_cond_signal(&self->wake);
    pthread_mutex_unlock(&self->lock);
    pthread_join(self->runner, NULL);
    sampler_close(self);
}
#endif
