/* Where a thread's Python code is, looked at from beside it: no GIL is taken and nothing is allocated.
 *
 * A thread of C wakes after a random half to one and a half periods, so that no loop can keep step with it. Where the
 * watched thread has a processor, it is sent a signal, whose handler notes its frames; where it sleeps or stands in the
 * queue for a processor, its frames are read as they lie there, and it is left to sleep: a signal would cut short what a
 * library waits for.
 *
 * Between two looks the clocks of the system tell how long the thread ran, how long it stood in the queue for a processor
 * (that is other programs' time) and how long it waited. A look that finds it awake bears the first two since the last such
 * look, one that finds it waiting the time for which it waited: on a busy machine the looks themselves come late where it
 * runs and at once where it sleeps, and by this no line gains from it. Running and the queue are one: whoever looks has
 * often taken the thread's place.
 *
 * A look is a row of code objects that nobody holds. `take` gives them to Python, with references; one that would be freed
 * before is kept until then, by a deallocator put before that of code objects while anybody is watched. */
#define _GNU_SOURCE
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

#include "binding/frame_chain.h"

#ifdef FRAMES_KNOWN
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { LOOKS = 512, FRAMES = 96, DEAD = 512, WATCHED = 16 };
static const long SECOND = 1000000000L;

typedef struct {
    long took_ns, starved_ns; /* of its own, and in the queue */
    long long beat;
    _Atomic int depth;
    frame_at frames[FRAMES];
} look;

/* A ring: `head` is written by who looks, `tail` by who takes. */
typedef struct looks {
    PyThreadState *thread;
    pid_t process, tid;
    clockid_t clock;  /* the watched thread's processor time */
    int queue, state, status; /* its files of these names in /proc (the first is schedstat), or -1 */
    long first_ns, later_ns;
    long now_ns, ran_ns, starved_ns; /* at the last look */
    long turns, pauses;              /* likewise: how often it was given a processor, and gave one up by itself */
    long ran_owed_ns, starved_owed_ns, waited_owed_ns; /* the time that no look bears yet */
    int waits;                                         /* whether the last look found it waiting */
    int sent;                                          /* whether a signal was, and its look is not published */
    unsigned dice;
    _Atomic int asked, ends;
    _Atomic unsigned head, tail;
    _Atomic long long beat;
    long long lost; /* looks that found the chain being changed */
    long long number;
    int over; /* the looker has gone, and so may the watched thread have */
    pthread_t looker;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    PyCodeObject *dead[DEAD]; /* whose references are ours */
    int dead_count;
    look ring[LOOKS];
} looks;

static struct {
    _Atomic(looks *) watched[WATCHED];
    int count, signal;
    long long numbers;
    destructor dealloc; /* of code objects, which ours calls */
} all;

static long read_clock(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * SECOND + t.tv_nsec;
}

/* -- looking ------------------------------------------------------------------------------------------------------- */

/* Notes the frames in the ring's next place, where they are not yet to be taken; 0 where there is nothing to note. */
static int note(looks *self, int within) {
    look *next = &self->ring[atomic_load(&self->head) % LOOKS];
    const int depth = frame_chain(self->thread, within, next->frames, FRAMES);
    next->beat = atomic_load(&self->beat);
    atomic_store(&next->depth, depth > 0 ? depth : 0);
    return depth > 0;
}

/* Gives the ring's next place, once its frames are noted, the time that it bears, and lets it be taken. */
static void publish(looks *self, int waits) {
    look *next = &self->ring[atomic_load(&self->head) % LOOKS];
    long *owed = waits ? &self->waited_owed_ns : &self->ran_owed_ns;
    next->took_ns = *owed > 0 ? *owed : 0;
    if (*owed > 0) *owed = 0; /* less than nothing: what stood as a wait has turned out to be the queue */
    next->starved_ns = waits ? 0 : self->starved_owed_ns;
    self->starved_owed_ns -= next->starved_ns;
    atomic_fetch_add(&self->head, 1);
}

/* Publishes the look that the handler was asked for, once it has come to it; 0 where it has not. */
static int answered(looks *self) {
    if (atomic_load(&self->asked)) return 0;
    if (!self->sent) return 1;
    self->sent = 0;
    if (atomic_load(&self->ring[atomic_load(&self->head) % LOOKS].depth)) publish(self, 0);
    else self->lost++;
    return 1;
}

static void handle(int number, siginfo_t *told, void *context) {
    const int saved = errno;
    looks *self = NULL;
    (void)number, (void)context;
    for (int k = 0; k < WATCHED && !self; k++) {
        looks *one = atomic_load(&all.watched[k]);
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
static long starved(const looks *self, long *turns) {
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
static long pauses(const looks *self) {
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
static int sleeps(const looks *self) {
    char text[128];
    const ssize_t size = self->state < 0 ? 0 : pread(self->state, text, sizeof text - 1, 0);
    text[size > 0 ? size : 0] = 0;
    const char *at = strrchr(text, ')'); /* its name, which may hold anything, is short */
    return !at || !at[1] || at[2] != 'R';
}

static int send(looks *self) {
    siginfo_t told = {.si_signo = all.signal, .si_code = SI_QUEUE};
    told.si_pid = self->process;
    told.si_uid = getuid();
    told.si_value.sival_ptr = self;
    self->sent = 1;
    atomic_store(&self->asked, 1);
    if (!syscall(SYS_rt_tgsigqueueinfo, self->process, self->tid, all.signal, &told)) return 1;
    self->sent = 0;
    atomic_store(&self->asked, 0);
    return 0;
}

/* Adds the time since the last look to what is owed; `now` and `ran` are of the one that is being made, which found the
   thread waiting or awake. */
static void account(looks *self, long now, long ran, int waits) {
    long turns = self->turns;
    const long queued = starved(self, &turns);
    const long paused = turns == self->turns && self->queue >= 0 ? self->pauses : pauses(self);
    const long running = ran - self->ran_ns, queueing = queued - self->starved_ns;
    /* What is left is a wait, of a thread that gave up its processor; else the queue in which it still stands, which is told
       when that ends, or the machine below this one ran something else. */
    const int waited = waits || self->waits || paused != self->pauses;
    *(waited ? &self->waited_owed_ns : &self->starved_owed_ns) += now - self->now_ns - running - queueing;
    self->ran_owed_ns += running;
    self->starved_owed_ns += queueing;
    self->now_ns = now, self->ran_ns = ran, self->starved_ns = queued;
    self->turns = turns, self->pauses = paused, self->waits = waits;
}

/* One look. The thread is looked at first and the files of the system are read then: they take so long that it would be
   on another line. */
static void look_once(looks *self) {
    if (!answered(self)) return; /* the thread has not come to it: its time is the next look's */
    if (atomic_load(&self->head) - atomic_load(&self->tail) == LOOKS) return;
    const long now = read_clock(CLOCK_MONOTONIC), ran = read_clock(self->clock);
    int waits = 0;
    if (read_clock(self->clock) != ran) {
        send(self);
    } else {
        waits = sleeps(self); /* before the frames are read, while which it may be woken */
        if (note(self, 0) && read_clock(self->clock) == ran) { /* it did not run in between: so it stands there */
            account(self, now, ran, waits);
            publish(self, waits);
            return;
        }
        atomic_store(&self->ring[atomic_load(&self->head) % LOOKS].depth, 0); /* it woke up */
        waits = 0;
        send(self);
    }
    account(self, now, ran, waits);
    answered(self);
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
    looks *self = given;
    const long begin = self->now_ns;
    come_at_once();
    prctl(PR_SET_TIMERSLACK, 1L, 0L, 0L, 0L); /* else the kernel wakes it together with others, the watched thread among them */
    pthread_mutex_lock(&self->lock);
    while (!atomic_load(&self->ends)) {
        unsigned dice = self->dice;
        dice ^= dice << 13, dice ^= dice >> 17, dice ^= dice << 5;
        self->dice = dice;
        long period = self->now_ns - begin < SECOND ? self->first_ns : self->later_ns;
        /* where nobody takes them, as while one call keeps the GIL for seconds, they come more and more rarely */
        period <<= (atomic_load(&self->head) - atomic_load(&self->tail)) * 8 / LOOKS;
        const long now = read_clock(CLOCK_MONOTONIC), at = now + (long)(-log(((double)dice + 1) / 4294967297.0) * period);
        const struct timespec until = {at / SECOND, at % SECOND};
        if (pthread_cond_timedwait(&self->wake, &self->lock, &until) == ETIMEDOUT) look_once(self);
    }
    pthread_mutex_unlock(&self->lock);
    return NULL;
}

/* -- code objects that go before they are taken ---------------------------------------------------------------------- */

static int noted_by(looks *self, PyCodeObject *code) {
    const unsigned end = atomic_load(&self->head);
    for (unsigned k = atomic_load(&self->tail); k != end + 1; k++) { /* with the one that is being written */
        const look *one = &self->ring[k % LOOKS];
        const int depth = atomic_load(&one->depth);
        for (int d = 0; d < depth; d++)
            if (one->frames[d].code == code) return 1;
    }
    return !self->over && frame_chain_first(self->thread) == code; /* its frame is being left, and could still be noted */
}

static void code_dealloc(PyObject *object) {
    PyCodeObject *code = (PyCodeObject *)object;
    for (int k = 0; k < WATCHED; k++) {
        looks *self = atomic_load(&all.watched[k]);
        if (!self || !noted_by(self, code)) continue;
        if (self->dead_count < DEAD) {
            Py_SET_REFCNT(object, 1);
            self->dead[self->dead_count++] = code;
            return;
        }
        atomic_store(&self->tail, atomic_load(&self->head)); /* what was seen is let go: there is no room to keep it */
    }
    all.dealloc(object);
}

/* Lets go of those that died; who is still noted comes back. */
static void bury(looks *self) {
    PyCodeObject *dead[DEAD];
    const int count = self->dead_count;
    memcpy(dead, self->dead, (size_t)count * sizeof *dead);
    self->dead_count = 0;
    for (int k = 0; k < count; k++) Py_DECREF(dead[k]);
}

/* -- beginning and end ----------------------------------------------------------------------------------------------- */

/* What the system tells of the thread, kept open. */
static int open_told(const looks *self, const char *what) {
    char name[64];
    snprintf(name, sizeof name, "/proc/self/task/%d/%s", (int)self->tid, what);
    return open(name, O_RDONLY | O_CLOEXEC);
}

static void close_told(const looks *self) {
    if (self->queue >= 0) close(self->queue);
    if (self->state >= 0) close(self->state);
    if (self->status >= 0) close(self->status);
}

/* The looker ends: it takes no GIL, so that who waits for it may keep it. */
static void end_looker(looks *self) {
    if (self->over) return;
    self->over = 1;
    pthread_mutex_lock(&self->lock);
    atomic_store(&self->ends, 1);
    pthread_cond_signal(&self->wake);
    pthread_mutex_unlock(&self->lock);
    pthread_join(self->looker, NULL);
    close_told(self);
}

/* What a watched thread's dict holds, so that its end is heard of: its state is freed thereafter. */
static void thread_ends(PyObject *capsule) {
    const long long number = (long long)(intptr_t)PyCapsule_GetPointer(capsule, "gradlab.looks");
    for (int k = 0; k < WATCHED; k++) {
        looks *self = atomic_load(&all.watched[k]);
        if (self && self->number == number && self->process == getpid()) end_looker(self);
    }
}

static int hear_of_end(looks *self) {
    char name[48];
    snprintf(name, sizeof name, "gradlab.looks %lld", self->number);
    PyObject *dict = PyThreadState_GetDict(); /* borrowed */
    PyObject *capsule = dict ? PyCapsule_New((void *)(intptr_t)self->number, "gradlab.looks", thread_ends) : NULL;
    const int done = capsule && PyDict_SetItemString(dict, name, capsule) == 0;
    Py_XDECREF(capsule);
    PyErr_Clear();
    return done;
}

/* Of the watched thread's dict alone: another thread's has it to its end, when nobody is watched by that number. */
static void forget_end(looks *self) {
    char name[48];
    snprintf(name, sizeof name, "gradlab.looks %lld", self->number);
    PyObject *dict = PyThreadState_Get() == self->thread ? PyThreadState_GetDict() : NULL;
    if (dict && PyDict_DelItemString(dict, name) < 0) PyErr_Clear();
}

/* A child has none of the threads: nothing is watched there. */
static void forked(void) {
    for (int k = 0; k < WATCHED; k++) atomic_store(&all.watched[k], NULL);
    all.count = 0;
    if (all.dealloc && PyCode_Type.tp_dealloc == code_dealloc) PyCode_Type.tp_dealloc = all.dealloc;
}

/* A signal that nobody uses, with our handler; it stays, since the default for one that comes late ends the process. */
static int choose_signal(void) {
    struct sigaction act = {.sa_flags = SA_RESTART | SA_SIGINFO}, there;
    if (all.signal && !sigaction(all.signal, NULL, &there) && there.sa_sigaction == handle) return 1;
    act.sa_sigaction = handle;
    sigfillset(&act.sa_mask);
    for (int number = SIGRTMAX - 3; number > SIGRTMIN + 2; number--) {
        if (sigaction(number, NULL, &there) || there.sa_handler != SIG_DFL) continue;
        if (sigaction(number, &act, NULL)) continue;
        all.signal = number;
        return 1;
    }
    return 0;
}

static int watched_place(looks *whose) {
    for (int k = 0; k < WATCHED; k++)
        if (atomic_load(&all.watched[k]) == whose) return k;
    return -1;
}

static void unwatch(looks *self) {
    const int place = watched_place(self);
    if (place < 0) return;
    atomic_store(&all.watched[place], NULL);
    if (!--all.count && PyCode_Type.tp_dealloc == code_dealloc) PyCode_Type.tp_dealloc = all.dealloc;
}

/* Begins to watch the thread that calls; 0 where the system does not let it be. */
static int begin(looks *self) {
    static int listens; /* to forks */
    const int place = watched_place(NULL);
    if (place < 0 || !frame_chain_works() || !choose_signal()) return 0;
    if (pthread_getcpuclockid(pthread_self(), &self->clock)) return 0;
    if (!listens && pthread_atfork(NULL, NULL, forked)) return 0;
    listens = 1;
    self->queue = open_told(self, "schedstat");
    self->state = open_told(self, "stat");
    self->status = open_told(self, "status");
    self->now_ns = read_clock(CLOCK_MONOTONIC);
    self->ran_ns = read_clock(self->clock);
    self->starved_ns = starved(self, &self->turns);
    self->pauses = pauses(self);
    pthread_condattr_t by;
    pthread_condattr_init(&by);
    pthread_condattr_setclock(&by, CLOCK_MONOTONIC);
    pthread_mutex_init(&self->lock, NULL);
    pthread_cond_init(&self->wake, &by);
    pthread_condattr_destroy(&by);
    if (!all.count++) {
        all.dealloc = PyCode_Type.tp_dealloc;
        PyCode_Type.tp_dealloc = code_dealloc;
    }
    atomic_store(&all.watched[place], self);
    send(self); /* a first look, which comes at once where signals come at all */
    int works = answered(self) && atomic_load(&self->head) == 1 && hear_of_end(self);
    if (works) {
        sigset_t every, was;
        sigfillset(&every);
        pthread_sigmask(SIG_SETMASK, &every, &was); /* signals are for the threads of Python */
        works = !pthread_create(&self->looker, NULL, watch, self);
        pthread_sigmask(SIG_SETMASK, &was, NULL);
    }
    if (works) return 1;
    self->over = 1; /* there is no looker to be ended */
    close_told(self);
    return 0;
}

/* Whether all that could still write here has ended. */
static int end(looks *self) {
    if (self->process != getpid()) return 0; /* a child's: there is no such thread, nor is its lock to be trusted */
    end_looker(self);
    const struct timespec moment = {0, SECOND / 1000};
    for (int k = 0; k < 50 && atomic_load(&self->asked); k++) nanosleep(&moment, NULL);
    return answered(self);
}

/* -- for Python ------------------------------------------------------------------------------------------------------ */

typedef struct {
    PyObject_HEAD
    looks *of; /* NULL once it has ended */
} Looks;

static PyTypeObject Looks_Type;

static PyObject *looks_new(PyTypeObject *type, PyObject *args, PyObject *named) {
    double first, later;
    if (named && PyDict_GET_SIZE(named)) return PyErr_Format(PyExc_TypeError, "Looks takes no keywords");
    if (!PyArg_ParseTuple(args, "dd:Looks", &first, &later)) return NULL;
    if (!(first >= 1e-4 && first < 1 && later >= 1e-4 && later < 1)) {
        return PyErr_Format(PyExc_ValueError, "Looks: seconds between looks are from 0.0001 to 1");
    }
    Looks *made = (Looks *)type->tp_alloc(type, 0);
    if (!made) return NULL;
    looks *self = made->of = PyMem_RawCalloc(1, sizeof(looks));
    if (!self) {
        Py_DECREF(made);
        return PyErr_NoMemory();
    }
    self->thread = PyThreadState_Get();
    self->number = ++all.numbers;
    self->process = getpid();
    self->tid = (pid_t)syscall(SYS_gettid);
    self->first_ns = (long)(first * (double)SECOND);
    self->later_ns = (long)(later * (double)SECOND);
    self->dice = 2463534242u ^ (unsigned)read_clock(CLOCK_MONOTONIC);
    if (!self->dice) self->dice = 1;
    if (!begin(self)) {
        Py_DECREF(made);
        return PyErr_Format(PyExc_OSError, "Looks: this system does not let a thread be looked at");
    }
    return (PyObject *)made;
}

static PyObject *row_of(const look *one) {
    const int depth = atomic_load(&one->depth);
    PyObject *row = PyTuple_New(3 + 2 * depth);
    if (!row) return NULL;
    const long long figures[3] = {one->took_ns, one->starved_ns, one->beat};
    for (int k = 0; k < 3 + 2 * depth; k++) {
        PyObject *part;
        if (k < 3) part = PyLong_FromLongLong(figures[k]);
        else if (k % 2) part = Py_NewRef(one->frames[(k - 3) / 2].code);
        else part = PyLong_FromLong(one->frames[(k - 4) / 2].lasti);
        if (!part) {
            Py_DECREF(row);
            return NULL;
        }
        PyTuple_SET_ITEM(row, k, part);
    }
    return row;
}

static PyObject *looks_take(PyObject *object, PyObject *none) {
    looks *self = ((Looks *)object)->of;
    (void)none;
    PyObject *rows = PyList_New(0);
    if (!rows || !self || self->process != getpid()) return rows;
    const unsigned last = atomic_load(&self->head);
    for (unsigned k = atomic_load(&self->tail); k != last; k++) {
        PyObject *row = row_of(&self->ring[k % LOOKS]);
        if (!row || PyList_Append(rows, row) < 0) {
            Py_XDECREF(row);
            Py_CLEAR(rows);
            break;
        }
        Py_DECREF(row);
    }
    if (rows) {
        atomic_store(&self->tail, last);
        bury(self);
    }
    return rows;
}

static PyObject *looks_stop(PyObject *object, PyObject *none) {
    looks *self = ((Looks *)object)->of;
    (void)none;
    if (!self) return PyList_New(0);
    int over;
    Py_BEGIN_ALLOW_THREADS
    over = end(self);
    Py_END_ALLOW_THREADS
    PyObject *rows = looks_take(object, NULL);
    forget_end(self);
    unwatch(self);
    bury(self);
    ((Looks *)object)->of = NULL;
    if (over) PyMem_RawFree(self); /* else a late signal may still come to it */
    return rows;
}

static void looks_dealloc(PyObject *object) {
    PyObject *type = NULL, *value = NULL, *traceback = NULL;
    PyErr_Fetch(&type, &value, &traceback);
    PyObject *rows = looks_stop(object, NULL);
    if (!rows) PyErr_Clear();
    Py_XDECREF(rows);
    PyErr_Restore(type, value, traceback);
    Py_TYPE(object)->tp_free(object);
}

static PyObject *looks_beat(PyObject *object, void *closure) {
    looks *self = ((Looks *)object)->of;
    (void)closure;
    return PyLong_FromLongLong(self ? atomic_load(&self->beat) : 0);
}

static int looks_set_beat(PyObject *object, PyObject *value, void *closure) {
    looks *self = ((Looks *)object)->of;
    (void)closure;
    const long long beat = value ? PyLong_AsLongLong(value) : 0;
    if (beat == -1 && PyErr_Occurred()) return -1;
    if (self) atomic_store(&self->beat, beat);
    return 0;
}

static PyObject *looks_lost(PyObject *object, void *closure) {
    looks *self = ((Looks *)object)->of;
    (void)closure;
    return PyLong_FromLongLong(self ? self->lost : 0);
}

static PyObject *looks_owed(PyObject *object, void *closure) {
    looks *self = ((Looks *)object)->of;
    (void)closure;
    if (!self) return Py_BuildValue("ll", 0L, 0L);
    return Py_BuildValue("ll", self->ran_owed_ns + self->waited_owed_ns, self->starved_owed_ns);
}

static PyMethodDef looks_methods[] = {
    {"take", looks_take, METH_NOARGS, "take(): the looks since the last time, [(ns, ns in the queue, beat, code, instruction, ...)].\n"
     "The first is time of its own, running or waiting, the second that of other programs."},
    {"stop", looks_stop, METH_NOARGS, "stop(): end the looking and take what is left."},
    {0},
};

static PyGetSetDef looks_fields[] = {
    {"beat", looks_beat, looks_set_beat, "A number that the looks bear which come after it was set.", NULL},
    {"owed", looks_owed, NULL, "Both times, in ns, that no look bears yet.", NULL},
    {"lost", looks_lost, NULL, "How many looks found the frames being changed; their time is the next one's.", NULL},
    {0},
};

static PyTypeObject Looks_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "core.native._native.Looks",
    .tp_basicsize = sizeof(Looks),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "Looks(first, later): looks at where the thread that makes it is, every so many seconds: in its first\n"
              "second, then.",
    .tp_new = looks_new,
    .tp_dealloc = looks_dealloc,
    .tp_methods = looks_methods,
    .tp_getset = looks_fields,
};

int looks_setup(PyObject *module) { return PyModule_AddType(module, &Looks_Type); }
#else
int looks_setup(PyObject *module) {
    (void)module;
    return 0;
}
#endif
