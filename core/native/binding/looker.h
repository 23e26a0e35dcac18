/* Who looks at where a thread's Python code is (binding/types/looker.c), and what it keeps. */
#ifndef GRADLAB_LOOKER_H
#define GRADLAB_LOOKER_H

#include "binding/frame_chain.h"

#ifdef FRAMES_KNOWN
#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>
#include <time.h>

enum { LOOKS = 512, FRAMES = 96, DEAD = 512, WATCHED = 16 };
#define SECOND 1000000000L

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

/* All of the process that look; the handler of the signal finds them here. */
typedef struct {
    _Atomic(looks *) watched[WATCHED];
    int signal;
} lookers;
extern lookers all_lookers;

/* Chooses the signal, and opens and reads what the system tells of the calling thread; 0 where it does not let a thread be
   looked at so. */
int looker_prepare(looks *self);

/* Sends the signal; 0 where it cannot. */
int looker_ask(looks *self);

/* Publishes the look that was asked for, once the thread has come to it; 0 where it has not. */
int looker_answered(looks *self);

/* The thread that looks begins (0 where it cannot), and ends. It takes no GIL, so that who waits for it may keep it. */
int looker_begin(looks *self);
void looker_end(looks *self);

/* Closes what was opened. */
void looker_close(const looks *self);
#endif

#endif
