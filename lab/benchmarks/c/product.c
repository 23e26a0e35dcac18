// c = a b, row by row: MR x NV vectors of sums stay in registers, and k is gone through in blocks of KB.
// tune: any shape
// tune flags: -O3, -O2 -funroll-loops
#define MR 4      // tune: 1, 2, 4, 6, 8
#define NV 2      // tune: 1, 2, 4
#define VECTOR 8  // tune: 8, 16
#define KB 256    // tune: 32, 64, 128, 256

typedef float vector __attribute__((vector_size(4 * VECTOR), aligned(4), may_alias));

static void tile(const float *a, const float *b, float *c, long n, long k, long lda, int first)
{
    vector sums[MR][NV];
    for (int i = 0; i < MR; i++)
        for (int j = 0; j < NV; j++)
            sums[i][j] = first ? (vector){0.0f} : *(const vector *)(c + i * n + j * VECTOR);
    for (long p = 0; p < k; p++) {
        vector row[NV];
        for (int j = 0; j < NV; j++)
            row[j] = *(const vector *)(b + p * n + j * VECTOR);
        for (int i = 0; i < MR; i++)
            for (int j = 0; j < NV; j++)
                sums[i][j] += a[i * lda + p] * row[j];
    }
    for (int i = 0; i < MR; i++)
        for (int j = 0; j < NV; j++)
            *(vector *)(c + i * n + j * VECTOR) = sums[i][j];
}

static void rest(const float *a, const float *b, float *c, long rows, long columns, long n, long k, long lda, int first)
{
    for (long i = 0; i < rows; i++) {
        for (long j = 0; first && j < columns; j++)
            c[i * n + j] = 0.0f;
        for (long p = 0; p < k; p++)
            for (long j = 0; j < columns; j++)
                c[i * n + j] += a[i * lda + p] * b[p * n + j];
    }
}

void product(const float *a, const float *b, float *c, long m, long n, long k)
{
    const long width = NV * VECTOR, rows = m - m % MR, columns = n - n % width;
    for (long p = 0; p < k || p == 0; p += KB) {
        const long depth = k - p < KB ? k - p : KB;
        for (long j = 0; j < columns; j += width)
            for (long i = 0; i < rows; i += MR)
                tile(a + i * k + p, b + p * n + j, c + i * n + j, n, depth, k, p == 0);
        rest(a + p, b + p * n + columns, c + columns, rows, n - columns, n, depth, k, p == 0);
        rest(a + rows * k + p, b + p * n, c + rows * n, m - rows, n, n, depth, k, p == 0);
    }
}
