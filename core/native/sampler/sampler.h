/* The stack sampler (sampler/sampler.c): what it keeps of the thread that it watches. */
#ifndef GRADLAB_SAMPLER_H
#define GRADLAB_SAMPLER_H

#include "sampler/frame_chain.h"

#ifdef FRAMES_KNOWN
#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>
#include <time.h>

enum { SAMPLES = 512, FRAMES = 96, DEAD = 512, WATCHED = 16 };
#define SECOND 1000000000L

typedef struct {
    long took_ns, starved_ns; /* of its own, and in the queue */
    long long beat;
    _Atomic int depth;
    frame_at frames[FRAMES];
} sample;

/* A ring: `head` is written by who samples, `tail` by who takes. */
typedef struct sampler {
    PyThreadState *thread;
    pid_t process, tid;
    clockid_t clock;  /* the watched thread's processor time */
    int queue, state, status; /* its files of these names in /proc (the first is schedstat), or -1 */
    long first_ns, later_ns;
    long now_ns, ran_ns, starved_ns; /* at the last sample */
    long turns, pauses;              /* likewise: how often it was given a processor, and gave one up by itself */
    long ran_owed_ns, starved_owed_ns, waited_owed_ns; /* the time that no sample bears yet */
    int waits;                                         /* whether the last sample found it waiting */
    int sent;                                          /* whether a signal was, and its sample is not published */
    unsigned random_state;
    _Atomic int asked, ends;
    _Atomic unsigned head, tail;
    _Atomic long long beat;
    long long lost; /* samples that found the chain being changed */
    long long number;
    int over; /* the sampling thread has gone, and so may the watched thread have */
    pthread_t runner;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    PyCodeObject *dead[DEAD]; /* whose references are ours */
    int dead_count;
    sample ring[SAMPLES];
} sampler;

/* All of the process that sample; the handler of the signal finds them here. */
typedef struct {
    _Atomic(sampler *) watched[WATCHED];
    int signal;
} samplers;
extern samplers all_samplers;

/* Chooses the signal, and opens and reads what the system tells of the calling thread; 0 where it does not let a thread be
   sampled so. */
int sampler_prepare(sampler *self);

/* Sends the signal; 0 where it cannot. */
int sampler_request(sampler *self);

/* Publishes the sample that was asked for, once the thread has come to it; 0 where it has not. */
int sampler_answered(sampler *self);

/* The thread that samples begins (0 where it cannot), and ends. It takes no GIL, so that who waits for it may keep it. */
int sampler_start(sampler *self);
void sampler_stop(sampler *self);

/* Closes what was opened. */
void sampler_close(const sampler *self);
#endif

#endif
