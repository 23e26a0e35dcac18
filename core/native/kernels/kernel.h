/* What every kernel file needs: the attribute that compiles a loop for several processors. */
#ifndef GRADLAB_KERNEL_H
#define GRADLAB_KERNEL_H

#include <stddef.h>
#include <stdint.h>

/* CPU_AT_MOST: the level of x86-64 beyond which nothing is compiled for and no processor is asked. CFLAGS=-DCPU_AT_MOST=3
   makes the library that a processor with AVX2 sees, -DCPU_AT_MOST=1 that of one without: so both are tested on any. */
#ifndef CPU_AT_MOST
#define CPU_AT_MOST 4
#endif
#define CPU_HAS(level, feature) (CPU_AT_MOST >= (level) && __builtin_cpu_supports(feature))

/* VECTOR: compiled for AVX-512, AVX2 and the baseline, chosen when the library is loaded. Needs
   ifunc, so glibc and not musl; a sanitizer is not yet running when the choice is made. */
#if defined(__x86_64__) && defined(__linux__) && defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && \
    ((defined(__clang__) && __clang_major__ >= 18) || (!defined(__clang__) && defined(__GNUC__) && __GNUC__ >= 12)) && \
    CPU_AT_MOST >= 3
#if CPU_AT_MOST >= 4
#define VECTOR __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define VECTOR __attribute__((target_clones("arch=x86-64-v3", "default")))
#endif
#else
#define VECTOR
#endif

/* INDEPENDENT: the loop's turns do not depend on one another. Unlike `restrict` it allows an output
   that is exactly an input. */
#if defined(__clang__)
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define INDEPENDENT _Pragma("GCC ivdep")
#else
#define INDEPENDENT
#endif

/* PRODUCTS_APART: each product is rounded before it is added, though the processor could do both in one. */
#if defined(__GNUC__) && !defined(__clang__)
#define PRODUCTS_APART __attribute__((optimize("fp-contract=off")))
#else
#define PRODUCTS_APART
#endif

#define INLINE static inline __attribute__((always_inline, unused))

#endif
