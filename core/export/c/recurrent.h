/* Recurrences over time: the inputs' share of all steps is a product made before (`sums`), the state's one a step.

   Row b at time t is row b * of_batch + t * of_time. `gates` has a step's sums. */
#ifndef GRADLAB_RECURRENT_H
#define GRADLAB_RECURRENT_H

#include "simd_math.h"
#include "tile.h"

/* The state of zeros, or a given one. */
INLINE void begin(float *h, const float *start, int64_t count) {
    if (start) memcpy(h, start, (size_t)count * sizeof(float));
    else memset(h, 0, (size_t)count * sizeof(float));
}

KERNEL void lstm(int64_t batch, int64_t time, int64_t hidden, int64_t of_time, int64_t of_batch, int reverse,
                 const float *sums, const float *packed, const float *h0, const float *c0, float *y, float *restrict h,
                 float *restrict c, float *restrict gates) {
    begin(h, h0, batch * hidden);
    begin(c, c0, batch * hidden);
    for (int64_t k = 0; k < time; k++) {
        const int64_t t = reverse ? time - 1 - k : k;
        product(batch, 4 * hidden, hidden, h, hidden, 1, packed, NULL, gates, 4 * hidden);
        for (int64_t b = 0; b < batch; b++) {
            const int64_t row = b * of_batch + t * of_time;
            const float *restrict z = sums + row * 4 * hidden, *restrict g = gates + b * 4 * hidden;
            float *restrict cell = c + b * hidden, *restrict out = h + b * hidden;
            for (int64_t j = 0; j < hidden; j++) {
                const float in = sm_sigmoid_f32(z[j] + g[j]), forget = sm_sigmoid_f32(z[hidden + j] + g[hidden + j]);
                const float fresh = sm_tanh_f32(z[2 * hidden + j] + g[2 * hidden + j]);
                const float open = sm_sigmoid_f32(z[3 * hidden + j] + g[3 * hidden + j]);
                cell[j] = forget * cell[j] + in * fresh;
                out[j] = open * sm_tanh_f32(cell[j]);
            }
            memcpy(y + row * hidden, out, (size_t)hidden * sizeof(float));
        }
    }
}

KERNEL void gru(int64_t batch, int64_t time, int64_t hidden, int64_t of_time, int64_t of_batch, int reverse,
                const float *sums, const float *packed, const float *bias, const float *h0, float *y, float *restrict h,
                float *restrict gates) {
    begin(h, h0, batch * hidden);
    for (int64_t k = 0; k < time; k++) {
        const int64_t t = reverse ? time - 1 - k : k;
        product(batch, 3 * hidden, hidden, h, hidden, 1, packed, bias, gates, 3 * hidden);
        for (int64_t b = 0; b < batch; b++) {
            const int64_t row = b * of_batch + t * of_time;
            const float *restrict z = sums + row * 3 * hidden, *restrict g = gates + b * 3 * hidden;
            float *restrict out = h + b * hidden;
            for (int64_t j = 0; j < hidden; j++) {
                const float reset = sm_sigmoid_f32(z[j] + g[j]), keep = sm_sigmoid_f32(z[hidden + j] + g[hidden + j]);
                const float fresh = sm_tanh_f32(z[2 * hidden + j] + reset * g[2 * hidden + j]);
                out[j] = fresh + keep * (out[j] - fresh);
            }
            memcpy(y + row * hidden, out, (size_t)hidden * sizeof(float));
        }
    }
}

KERNEL void rnn(int64_t batch, int64_t time, int64_t hidden, int64_t of_time, int64_t of_batch, int reverse,
                const float *sums, const float *packed, const float *h0, int is_tanh, float *y, float *restrict h,
                float *restrict gates) {
    begin(h, h0, batch * hidden);
    for (int64_t k = 0; k < time; k++) {
        const int64_t t = reverse ? time - 1 - k : k;
        product(batch, hidden, hidden, h, hidden, 1, packed, NULL, gates, hidden);
        for (int64_t b = 0; b < batch; b++) {
            const int64_t row = b * of_batch + t * of_time;
            const float *restrict z = sums + row * hidden, *restrict g = gates + b * hidden;
            float *restrict out = h + b * hidden;
            if (is_tanh)
                for (int64_t j = 0; j < hidden; j++) out[j] = sm_tanh_f32(z[j] + g[j]);
            else
                for (int64_t j = 0; j < hidden; j++) out[j] = sm_maximum_f32(z[j] + g[j], 0);
            memcpy(y + row * hidden, out, (size_t)hidden * sizeof(float));
        }
    }
}

#endif
