/* Which way a call went inside the C code, counted for tests.

   A kernel that takes another way beyond some size (a buffer on the heap, blocks, vectors side by side) gives the same
   numbers on both ways, so a result does not tell a test which of them it has seen. took() is called once for a call of a
   kernel or for a piece of its work, never for an item. `native.module.paths()` returns the counts. */
#ifndef GRADLAB_PATHS_H
#define GRADLAB_PATHS_H

#include <stdint.h>

/* Each is taken on one side of a threshold; tests/core/native/test_paths.py has a call on both sides of all of them. */
#define PATHS(_)                                                                                     \
    _(call_elementwise) /* public functions: served by an elementwise op's fast path, */             \
    _(call_parsed)      /* by a printed parser of their arguments, */                                \
    _(call_in_place)    /* by that of a write, */                                                    \
    _(call_python)      /* or by the Python function */                                              \
    _(op_adapter)       /* a structured op's kernel: a C adapter that the op's row names, */         \
    _(op_row)           /* the row's Python function, */                                             \
    _(op_reference)     /* or the op's own forward on NumPy */                                       \
    _(map_parts)        /* contiguous operands, part after part: streaming stores or masked loads */ \
    _(map_buffered)     /* strided operands, through a buffer */                                     \
    _(map_short_rows)   /* many short rows a call */                                                 \
    _(map_half)         /* half-precision operands, widened block by block */                        \
    _(map_streaming)    /* results written by streaming stores */                                         \
    _(rows_side_by_side) /* softmax, cross-entropy: short rows, one a lane */                        \
    _(rows_streaming)    /* softmax, layer norm: results written by streaming stores */                   \
    _(rows_selected)     /* kthvalue, median: rows too long to be put in order */                     \
    _(softmax_strips)    /* softmax over an axis that is not the last */                             \
    _(copy_pieces)       /* a copy of contiguous items, */                                           \
    _(copy_fill)         /* of a broadcast last axis, */                                             \
    _(copy_rows)         /* row by row, */                                                           \
    _(copy_strips)       /* or of a transposed array */                                              \
    _(copy_streaming)                                                                                \
    _(reduce_blocks)       /* rows cut into blocks, whose results are reduced again */               \
    _(argreduce_tiles)     /* columns cut into tiles */                                              \
    _(moment_pieces)       /* rows cut into pieces */                                                \
    _(moment_columns)      /* over an axis that is not the last */                                   \
    _(moment_shift_heap)   /* more numbers than fit the stack */                                     \
    _(moment_parts_heap)                                                                             \
    _(moment_back_heap)                                                                              \
    _(norm_back_blocks)    /* layer norm's weights: sums of several blocks of rows */                \
    _(norms_pieces)        /* gradients' norm: an array in several pieces */                         \
    _(update_pieces)       /* an optimizer's step: a parameter in several pieces */                  \
    _(batch_norm_pieces)   /* a channel's plane in several pieces */                                 \
    _(batch_norm_streaming) /* results written by streaming stores */                                \
    _(pool_pairs)          /* max pooling: windows of two by two that lie side by side, */           \
    _(pool_short_row)      /* short rows of windows that lie inside, */                              \
    _(pool_stretches)      /* or long rows in several stretches */                                   \
    _(window_spans)        /* sums over windows: a row in several spans */                           \
    _(window_spread_spans)                                                                           \
    _(gather_add_spans)    /* more columns than one thread adds together */                          \
    _(embedding_spans)                                                                               \
    _(attention_row_blocks) /* attention's gradient: more queries than a block has */                \
    _(gemm_deep)           /* sums in several blocks of k */                                         \
    _(gemm_chunks)         /* b packed in several chunks */                                          \
    _(gemm_heap)           /* packed factors that do not fit the stack */                            \
    _(gemm_stack)          /* many products, a whole one a thread */                                 \
    _(conv_direct)         /* groups of one or two outputs */                                        \
    _(conv_flat)           /* depthwise, from planes as they lie */                                  \
    _(conv_planes)         /* planes that are laid out anew */                                       \
    _(conv_depths)         /* sums in several depths */                                              \
    _(conv_few_columns)    /* so few pixels that vectors of terms are quicker */                     \
    _(conv_by_item)        /* columns of many runs, or at the end of the source */                   \
    _(conv_paired)         /* two passes of a transpose whose outputs alternate */                   \
    _(conv_chunks)         /* samples in several chunks */                                           \
    _(conv_weight_chunks)                                                                            \
    _(conv_winograd_2)     /* by tiles of 2 x 2 outputs, */                                          \
    _(conv_winograd_4)     /* or of 4 x 4 */                                                         \
    _(rnn_weight_depths)   /* more rows than are summed at once */                                   \
    _(int8_panels)         /* 8-bit products: so many rows that w is turned into panels */           \
    _(int8_conv_taps)      /* 8-bit convolutions: few channels a group, with VNNI */                 \
    _(int8_conv_joined)    /* 8-bit convolutions: several samples in one product */                  \
    _(int8_conv_few)       /* 8-bit convolutions: so few places that they are the product's rows */  \
    _(int8_conv_direct)    /* 8-bit convolutions: groups of one output */                            \
    _(weights_digits)      /* weights of 8 bits: the digits of many rows, as a product of bytes */   \
    _(weights_packed)      /* weights of 8 or 4 bits: so many rows that they become float32 */       \
    _(stats_sampled)       /* a histogram of some of the items */                                    \
    _(glance_sampled)      /* a mean of evenly spaced lines */                                       \
    _(threads)             /* work divided among several threads */                                  \
    _(norm_behind)         /* a norm's gradient makes that of the activation behind it */

#define PATH_NUMBER(name) PATH_##name,
enum { PATHS(PATH_NUMBER) PATHS_COUNT };
#undef PATH_NUMBER

extern uint64_t path_counts[PATHS_COUNT];

/* Plain loads and stores: two threads at once may lose a count, and cost nothing. */
static inline void took(int path) {
    __atomic_store_n(path_counts + path, __atomic_load_n(path_counts + path, __ATOMIC_RELAXED) + 1, __ATOMIC_RELAXED);
}

#endif
