// A seven-point stencil in three dimensions: tiles of BY x BX through all planes, ROWS rows at a time.
// tune: any shape
// tune flags: -O3, -O2, -O3 -funroll-loops, -O3 -mprefer-vector-width=512
#define BY 16   // tune: 4, 8, 16, 32, 64
#define BX 256  // tune: 32, 64, 128, 256
#define ROWS 1  // tune: 1, 2, 4

static long least(long a, long b)
{
    return a < b ? a : b;
}

void stencil(const float *u, float *out, long nz, long ny, long nx, float middle, float beside)
{
    const long plane = ny * nx;
    for (long z = 0; z < nz; z++)
        for (long y = 0; y < ny; y++) { // the border stays
            const long step = z == 0 || z == nz - 1 || y == 0 || y == ny - 1 || nx == 1 ? 1 : nx - 1;
            for (long x = 0; x < nx; x += step)
                out[z * plane + y * nx + x] = u[z * plane + y * nx + x];
        }
    for (long y0 = 1; y0 < ny - 1; y0 += BY)
        for (long x0 = 1; x0 < nx - 1; x0 += BX) {
            const long end_y = least(y0 + BY, ny - 1), end_x = least(x0 + BX, nx - 1);
            for (long z = 1; z < nz - 1; z++) {
                long y = y0;
                for (; y + ROWS <= end_y; y += ROWS) {
                    const float *__restrict__ from = u + z * plane + y * nx;
                    float *__restrict__ to = out + z * plane + y * nx;
                    for (long x = x0; x < end_x; x++)
                        for (int r = 0; r < ROWS; r++) {
                            const float *at = from + r * nx + x;
                            to[r * nx + x] = middle * at[0] + beside * (at[-1] + at[1] + at[-nx] + at[nx] + at[-plane]
                                                                        + at[plane]);
                        }
                }
                for (; y < end_y; y++)
                    for (long x = x0; x < end_x; x++) {
                        const float *at = u + z * plane + y * nx + x;
                        out[z * plane + y * nx + x] = middle * at[0] + beside * (at[-1] + at[1] + at[-nx] + at[nx]
                                                                                 + at[-plane] + at[plane]);
                    }
            }
        }
}
