/* out (M, N) = a (M, K) b (K, N), all row by row: blocks of b and a are packed, then multiplied tile by tile.

   A tile holds MR rows by NV vectors of VECTOR bytes in registers; UNROLL steps of k are written out. A block of b of
   KC rows and NC columns is packed once for all threads, a block of a of MC rows and KC columns by each for itself, so
   that both are read in the order in which they lie. Ragged edges are packed with zeros and stored by way of a buffer.
   Returns 0, or 1 where memory is short.
   Macros: REAL, MR, NV, VECTOR, KC, MC, NC, UNROLL, THREADS.
   Source: Goto and van de Geijn, Anatomy of High-Performance Matrix Multiplication, 2008. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef REAL vec __attribute__((vector_size(VECTOR), aligned(sizeof(REAL)), may_alias));
enum { LANES = VECTOR / sizeof(REAL), NR = NV * LANES };

#define PRAGMA(text) _Pragma(#text)
#define UNROLLED(n) PRAGMA(GCC unroll n)

static ptrdiff_t least(ptrdiff_t a, ptrdiff_t b) { return a < b ? a : b; }

/* c (MR, NR) of row stride ldc += a (depth, MR) b (depth, NR) */
static inline void tile(ptrdiff_t depth, const REAL *restrict a, const REAL *restrict b, REAL *c, ptrdiff_t ldc) {
    vec sum[MR][NV];
    UNROLLED(16) for (int i = 0; i < MR; i++)
        UNROLLED(4) for (int v = 0; v < NV; v++) sum[i][v] = (vec){0};
    UNROLLED(UNROLL) for (ptrdiff_t k = 0; k < depth; k++) {
        vec right[NV];
        UNROLLED(4) for (int v = 0; v < NV; v++) right[v] = *(const vec *)(b + k * NR + v * LANES);
        UNROLLED(16) for (int i = 0; i < MR; i++)
            UNROLLED(4) for (int v = 0; v < NV; v++) sum[i][v] += a[k * MR + i] * right[v];
    }
    UNROLLED(16) for (int i = 0; i < MR; i++)
        UNROLLED(4) for (int v = 0; v < NV; v++) *(vec *)(c + i * ldc + v * LANES) += sum[i][v];
}

/* packed (rows / MR, depth, MR) */
static void pack_a(const REAL *a, ptrdiff_t lda, ptrdiff_t rows, ptrdiff_t depth, REAL *packed) {
    for (ptrdiff_t i = 0; i < rows; i += MR, packed += depth * MR) {
        const ptrdiff_t count = least(MR, rows - i);
        for (ptrdiff_t k = 0; k < depth; k++)
            for (ptrdiff_t r = 0; r < MR; r++) packed[k * MR + r] = r < count ? a[(i + r) * lda + k] : 0;
    }
}

/* one panel of packed (columns / NR, depth, NR) */
static void pack_b(const REAL *b, ptrdiff_t ldb, ptrdiff_t count, ptrdiff_t depth, REAL *packed) {
    for (ptrdiff_t k = 0; k < depth; k++) {
        memcpy(packed + k * NR, b + k * ldb, sizeof(REAL) * (size_t)count);
        for (ptrdiff_t j = count; j < NR; j++) packed[k * NR + j] = 0;
    }
}

/* rows of out from a packed block of each factor */
static void block(ptrdiff_t rows, ptrdiff_t columns, ptrdiff_t depth, const REAL *a, const REAL *b, REAL *out,
                  ptrdiff_t ldo) {
    for (ptrdiff_t j = 0; j < columns; j += NR)
        for (ptrdiff_t i = 0; i < rows; i += MR) {
            const ptrdiff_t high = least(MR, rows - i), wide = least(NR, columns - j);
            if (high == MR && wide == NR) {
                tile(depth, a + i * depth, b + j * depth, out + i * ldo + j, ldo);
                continue;
            }
            REAL edge[MR * NR] = {0};
            tile(depth, a + i * depth, b + j * depth, edge, NR);
            for (ptrdiff_t r = 0; r < high; r++)
                for (ptrdiff_t c = 0; c < wide; c++) out[(i + r) * ldo + j + c] += edge[r * NR + c];
        }
}

int matmul(const REAL *a, const REAL *b, REAL *out, int64_t M, int64_t N, int64_t K) {
    const ptrdiff_t high = (MC + MR - 1) / MR * MR;
    REAL *packed_b = malloc(sizeof(REAL) * (size_t)KC * (size_t)((NC + NR - 1) / NR * NR));
    REAL *packed_a = malloc(sizeof(REAL) * (size_t)KC * (size_t)high * THREADS);
    if (!packed_a || !packed_b) {
        free(packed_a);
        free(packed_b);
        return 1;
    }
    memset(out, 0, sizeof(REAL) * (size_t)(M * N));
    for (ptrdiff_t jc = 0; jc < N; jc += NC)
        for (ptrdiff_t pc = 0; pc < K; pc += KC) {
            const ptrdiff_t columns = least(NC, N - jc), depth = least(KC, K - pc);
#if THREADS > 1
#pragma omp parallel for num_threads(THREADS) schedule(static)
#endif
            for (ptrdiff_t j = 0; j < columns; j += NR)
                pack_b(b + pc * N + jc + j, N, least(NR, columns - j), depth, packed_b + j * depth);
#if THREADS > 1
#pragma omp parallel for num_threads(THREADS) schedule(dynamic, 1)
#endif
            for (ptrdiff_t ic = 0; ic < M; ic += MC) {
                REAL *mine = packed_a;
#if THREADS > 1
                extern int omp_get_thread_num(void);
                mine += omp_get_thread_num() * high * KC;
#endif
                const ptrdiff_t rows = least(MC, M - ic);
                pack_a(a + ic * K + pc, K, rows, depth, mine);
                block(rows, columns, depth, mine, packed_b, out + ic * N + jc, N);
            }
        }
    free(packed_a);
    free(packed_b);
    return 0;
}
