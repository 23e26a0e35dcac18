// The transpose of a matrix: tiles of BI x BJ, within them squares of SIDE that pass through registers.
// tune: any shape
// tune flags: -O3, -O2, -O3 -funroll-loops, -O3 -fno-tree-vectorize
#define BI 32   // tune: 8, 16, 32, 64, 128
#define BJ 32   // tune: 8, 16, 32, 64
#define SIDE 4  // tune: 1, 4, 8

static long least(long a, long b)
{
    return a < b ? a : b;
}

static void square(const float *__restrict__ x, float *__restrict__ out, long m, long n)
{
    float kept[SIDE][SIDE];
    for (int i = 0; i < SIDE; i++)
        for (int j = 0; j < SIDE; j++)
            kept[j][i] = x[i * n + j];
    for (int j = 0; j < SIDE; j++)
        for (int i = 0; i < SIDE; i++)
            out[j * m + i] = kept[j][i];
}

void transpose(const float *x, float *out, long m, long n)
{
    for (long i0 = 0; i0 < m; i0 += BI)
        for (long j0 = 0; j0 < n; j0 += BJ) {
            const long end_i = least(i0 + BI, m), end_j = least(j0 + BJ, n);
            long i = i0;
            for (; i + SIDE <= end_i; i += SIDE) {
                long j = j0;
                for (; j + SIDE <= end_j; j += SIDE)
                    square(x + i * n + j, out + j * m + i, m, n);
                for (; j < end_j; j++)
                    for (long r = i; r < i + SIDE; r++)
                        out[j * m + r] = x[r * n + j];
            }
            for (; i < end_i; i++)
                for (long j = j0; j < end_j; j++)
                    out[j * m + i] = x[i * n + j];
        }
}
