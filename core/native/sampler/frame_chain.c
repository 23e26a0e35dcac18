/* The frames of a Python thread, read without the GIL.
 *
 * A sample may come while the interpreter enters or leaves a function. Then its innermost pointers may be those of frames
 * that were, or nothing's at all. So what they say is read by a call of the system's, which fails where a pointer leads
 * nowhere.
 *
 * 3.11 and 3.12 hang up a new evaluation loop before they say which frame it runs: the innermost loop is believed only where
 * every frame has a code object and the last one leads to the frame that the loop around was called from. What lies further
 * out cannot change while the thread is further in. 3.13 and 3.14 have one chain for all loops, in which a frame is hung up
 * once it is whole: it is believed where every frame has a code object. */
#define _GNU_SOURCE
#define PY_SSIZE_T_CLEAN
#define Py_BUILD_CORE_MODULE 1
#include "sampler/frame_chain.h"

#ifdef FRAMES_KNOWN
#if PY_VERSION_HEX < 0x030E0000
#include <internal/pycore_frame.h>
#else
#include <internal/pycore_interpframe_structs.h>
#endif
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

typedef struct _PyInterpreterFrame frame;

/* What is read of a frame: all but its values. */
#define FRAME_BYTES offsetof(frame, localsplus)

#if PY_VERSION_HEX < 0x030C0000
static int leaves_loop(const frame *f) { return f->is_entry; }        /* it runs code, and is the loop's outermost */
static int runs_code(const frame *f) { return f->f_code != NULL; }
static PyCodeObject *code_of(const frame *f) { return f->f_code; }
static const void *instruction_of(const frame *f) { return f->prev_instr; }
#elif PY_VERSION_HEX < 0x030D0000
static int leaves_loop(const frame *f) { return f->owner == FRAME_OWNED_BY_CSTACK; } /* it stands for the loop itself */
static int runs_code(const frame *f) { return f->owner != FRAME_OWNED_BY_CSTACK; }
static PyCodeObject *code_of(const frame *f) { return f->f_code; }
static const void *instruction_of(const frame *f) { return f->prev_instr; }
#else
static int runs_code(const frame *f) { return (unsigned char)f->owner <= FRAME_OWNED_BY_FRAME_OBJECT; }
static PyCodeObject *code_of(const frame *f) {
#if PY_VERSION_HEX < 0x030E0000
    return (PyCodeObject *)f->f_executable;
#else
    return (PyCodeObject *)(f->f_executable.bits & ~(uintptr_t)3); /* the rest says who counts the reference */
#endif
}
static const void *instruction_of(const frame *f) { return f->instr_ptr; }
#endif

static int peek(const void *from, void *to, size_t size) {
    struct iovec here = {to, size}, there = {(void *)from, size};
    if ((uintptr_t)from % sizeof(void *)) return 0;
    return syscall(SYS_process_vm_readv, getpid(), &here, 1L, &there, 1L, 0L) == (long)size;
}

/* A page of another thread's stack of frames: a call of the system's for each frame would take twenty times as long. */
enum { PAGE = 4096 };
typedef struct {
    uintptr_t at;
    _Alignas(16) char bytes[PAGE];
} page;

static int peek_frame(page *known, const frame *from, frame *to) {
    const uintptr_t within = (uintptr_t)from % PAGE, at = (uintptr_t)from - within;
    if (within + FRAME_BYTES > PAGE || (uintptr_t)from % sizeof(void *)) return peek(from, to, FRAME_BYTES);
    if (known->at != at) {
        known->at = 0;
        if (!peek((const void *)at, known->bytes, PAGE)) return 0;
        known->at = at;
    }
    memcpy(to, known->bytes + within, FRAME_BYTES);
    return 1;
}

static void note(frame_at *to, const frame *f) {
    to->code = code_of(f);
    to->lasti = (int)((const char *)instruction_of(f) - (const char *)to->code->co_code_adaptive); /* no memory is read */
}

#if PY_VERSION_HEX < 0x030D0000
static int is_code(const PyCodeObject *code) {
    PyObject head;
    return peek(code, &head, sizeof head) && head.ob_type == &PyCode_Type;
}

int frame_chain(PyThreadState *thread, int within, frame_at *frames, int most) {
    _PyCFrame *loop = thread->cframe, inner, outer;
    if (loop == &thread->root_cframe) return 0;
    if (within) inner = *loop; /* it stands on the stack of the very thread: what it says may be nothing yet */
    else if (!peek(loop, &inner, sizeof inner)) return -1;
    /* loops lie on the stack of C, the first one in the thread's state */
    if (inner.previous != &thread->root_cframe && (uintptr_t)inner.previous <= (uintptr_t)loop) return -1;
    if (!peek(inner.previous, &outer, sizeof outer)) return -1; /* within too: it may be what the stack held before */
    int count = 0;
    frame *at = inner.current_frame, f;
    for (int last = 0; !last; at = f.previous) {
        if (!at || !peek(at, &f, FRAME_BYTES)) return -1;
        last = leaves_loop(&f);
        if (!runs_code(&f)) continue;
        if (!is_code(code_of(&f))) return -1;
        note(&frames[count++], &f);
        if (count == most) return count;
    }
    if (at != outer.current_frame) return -1;
    page known;
    known.at = 0; /* its bytes are left as they are: a handler has no time for them */
    for (; at && count < most; at = f.previous) {
        if (within) memcpy(&f, at, FRAME_BYTES);
        else if (!peek_frame(&known, at, &f)) return -1;
        if (runs_code(&f)) note(&frames[count++], &f);
    }
    return count;
}

PyCodeObject *frame_chain_first(PyThreadState *thread) {
    frame *at = thread->cframe ? thread->cframe->current_frame : NULL;
    return at && runs_code(at) ? code_of(at) : NULL;
}
#else
/* Whether a frame has begun: -1 where it has no code. One that has not may be the interpreter's own, around an `__init__`,
   whose code object lacks most. */
static int has_begun(const frame *f) {
    PyCodeObject code;
    const size_t bytes = offsetof(PyCodeObject, co_code_adaptive);
    if (!peek(code_of(f), &code, bytes) || code.ob_base.ob_base.ob_type != &PyCode_Type) return -1;
    const ptrdiff_t at = (const char *)instruction_of(f) - ((const char *)code_of(f) + bytes);
    return f->owner == FRAME_OWNED_BY_GENERATOR || at >= (ptrdiff_t)(code._co_firsttraceable * sizeof(_Py_CODEUNIT));
}

int frame_chain(PyThreadState *thread, int within, frame_at *frames, int most) {
    (void)within;
    frame *at = thread->current_frame, f;
    int count = 0;
    page known;
    known.at = 0; /* its bytes are left as they are: a handler has no time for them */
    for (int seen = 0; at && count < most; at = f.previous) {
        if (++seen > 3 * most || !peek_frame(&known, at, &f)) return -1;
        if (!runs_code(&f)) continue;
        const int begun = has_begun(&f);
        if (begun < 0) return -1;
        if (begun) note(&frames[count++], &f);
    }
    return count;
}

PyCodeObject *frame_chain_first(PyThreadState *thread) {
    const frame *at = thread->current_frame;
    return at && runs_code(at) ? code_of(at) : NULL;
}
#endif

int frame_chain_works(void) {
    const long put = 0x67726164;
    long got = 0;
    return peek(&put, &got, sizeof got) && got == put && !peek((void *)sizeof(void *), &got, sizeof got);
}
#endif
