// How often each byte occurs: COPIES tables of counters, since a counter that has just been written is slow to read;
// READ bytes are read at once, UNROLL reads are written out, and counters of 16 BITS are added up in time.
#include <stdint.h>
#include <string.h>
// tune: any shape
// tune flags: -O3, -O2, -O3 -funroll-loops
#define COPIES 1  // tune: 1, 2, 4, 8
#define UNROLL 1  // tune: 1, 2, 4, 8, 16
#define READ 1    // tune: 1, 8
#define BITS 32   // tune: 16, 32

#if BITS == 16
typedef uint16_t counter;
#define PART 65528
#else
typedef uint32_t counter;
#define PART (1L << 30)
#endif

static void count(const uint8_t *x, long n, counter counts[COPIES][256])
{
    long i = 0;
    for (; i + UNROLL * READ <= n; i += UNROLL * READ)
        for (int u = 0; u < UNROLL; u++) {
#if READ == 8
            uint64_t word;
            memcpy(&word, x + i + 8 * u, 8);
            for (int b = 0; b < 8; b++)
                counts[b % COPIES][(word >> (8 * b)) & 255]++;
#else
            counts[u % COPIES][x[i + u]]++;
#endif
        }
    for (; i < n; i++)
        counts[0][x[i]]++;
}

void histogram(const uint8_t *x, int32_t *out, long n)
{
    memset(out, 0, 256 * sizeof *out);
    for (long i = 0; i < n; i += PART) {
        counter counts[COPIES][256];
        memset(counts, 0, sizeof counts);
        count(x + i, n - i < PART ? n - i : PART, counts);
        for (int c = 0; c < COPIES; c++)
            for (int v = 0; v < 256; v++)
                out[v] += counts[c][v];
    }
}
