/* The frames of a Python thread, read without the GIL, in a signal handler too (sampler/frame_chain.c). */
#ifndef GRADLAB_FRAME_CHAIN_H
#define GRADLAB_FRAME_CHAIN_H

#include <Python.h>

/* The interpreter's frames are private and differ from version to version: known here are those of 3.11 to 3.14. */
#if defined(__linux__) && defined(__GLIBC__) && PY_VERSION_HEX >= 0x030B0000 && PY_VERSION_HEX < 0x030F0000 && \
    !defined(Py_TRACE_REFS) && !defined(Py_GIL_DISABLED) && !defined(PYPY_VERSION)
#if __has_include(<internal/pycore_frame.h>)
#define FRAMES_KNOWN 1
#endif
#endif

typedef struct {
    PyCodeObject *code; /* nobody holds it for this */
    int lasti;          /* as f_lasti */
} frame_at;

/* The innermost `most` frames of a thread, innermost first; how many, or -1 where the chain is just being changed.
   `within`: the thread itself is asking, from a signal handler; else it must be asleep, or what is found is worth
   nothing. Nothing that is read here can fault. */
int frame_chain(PyThreadState *thread, int within, frame_at *frames, int most);

/* The code of the innermost frame, for who holds the GIL; NULL where none runs. */
PyCodeObject *frame_chain_first(PyThreadState *thread);

/* Whether the system lets this process read itself so. */
int frame_chain_works(void);

#endif
