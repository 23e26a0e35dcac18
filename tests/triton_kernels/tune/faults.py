"""A C kernel whose configs fail in every way: what a session must survive, and name rightly."""

from __future__ import annotations

from triton_kernels.tune.measure_cpu import CpuMeasure
from triton_kernels.tune.problem import Problem
from triton_kernels.tune.space import Space, Tunable

TEXT = r"""
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#if FAULT == 6
#error this config is not possible
#endif
int softmax(const REAL *x, REAL *out, int64_t rows, int64_t n) {
#if FAULT == 1
    abort();
#elif FAULT == 2
    *(volatile int *)8 = 1;
#elif FAULT == 3
    for (volatile int i = 1; i;) {}
#elif FAULT == 5
    char *most = malloc((size_t)1 << 46);
    if (!most) return 1;
    memset(most, 1, (size_t)1 << 46);
#elif FAULT == 7
    out[rows * n] = 1; /* one past the end */
#elif FAULT == 8
    ((REAL *)x)[0] = 1;
#elif FAULT == 9
    return 0; /* writes nothing */
#elif FAULT == 10
    exit(3);
#elif FAULT == 12
    static int calls = 0;
    if (++calls == 3) abort(); /* right at first, and gone when it is timed */
#elif FAULT == 13
    char mark[4096]; /* takes its supervisor with it, once for each file of this name */
    for (int k = 0; k < 9 && getenv("GRADLAB_TEST_MARKS"); k++) {
        snprintf(mark, sizeof mark, "%s/%d", getenv("GRADLAB_TEST_MARKS"), k);
        if (unlink(mark) == 0) {
            kill(getppid(), SIGKILL);
            for (;;) pause();
        }
    }
#endif
    volatile REAL slow = 0;
    for (int64_t row = 0; row < rows; row++) {
        REAL top = -INFINITY, sum = 0;
        for (int64_t i = 0; i < n; i++) top = x[row * n + i] > top ? x[row * n + i] : top;
        for (int64_t i = 0; i < n; i++) sum += out[row * n + i] = exp((double)(x[row * n + i] - top));
        for (int64_t i = 0; i < n; i++) out[row * n + i] /= sum;
        for (int64_t i = 0; i < WORK * n; i++) slow += 1;
    }
#if FAULT == 4
    out[rows * n / 2] += (REAL)0.01;
#elif FAULT == 11
    if (n % 2) out[0] += 1; /* right where tiles fit, wrong at an odd shape */
#endif
    return 0;
}
"""
REASONS = {
    1: ("runtime", "SIGABRT (abort()) while checking"),
    2: ("runtime", "SIGSEGV (a forbidden address) while checking"),
    3: ("timeout", "checking had no result after"),
    4: ("correctness", "1 of 512 results are wrong; the worst at (4, 0)"),
    5: ("runtime", "the kernel reports failure 1: out of memory"),
    6: ("compile", "error: #error this config is not possible"),
    7: ("correctness", "the kernel writes outside its output"),
    8: ("correctness", "the kernel writes into its input"),
    9: ("correctness", "512 of 512 results are wrong"),
    10: ("runtime", "the process ended with 3 while checking"),
    12: ("runtime", "SIGABRT (abort()) while timing"),
}
"""Each fault's status, and how its reason begins or what stands in it."""


def problem(faults: tuple[int, ...], work: tuple[int, ...] = (4, 0)) -> Problem:
    """A softmax of 8x64 whose default is healthy and slow."""
    space = Space([Tunable("FAULT", (0, *faults), 0), Tunable("WORK", work, work[0])])
    measure = CpuMeasure("softmax", (8, 64), "float32", TEXT)
    return Problem("faulty_f32", (8, 64), "float32", space, measure, "source", "this processor", "cpu")
