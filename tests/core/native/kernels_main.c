/* Runs kernels on what it is given, on a machine without Python: tests/core/native/test_machines.py.
 *
 * Standard input is a row of calls: a head, then whole numbers, the sizes in bytes of the inputs and of the outputs, and the
 * inputs. The outputs go to standard output. A call's name is one of CALLS or that of an elementwise kernel. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/gemm.h"
#include "kernels/half.h"
#include "kernels/int8.h"
#include "kernels/kernels.h"
#include "kernels/map.h"
#include "kernels/order.h"
#include "kernels/philox.h"
#include "kernels/running.h"
#include "kernels/winograd.h"
#include "runtime/memory.h"
#include "runtime/parallel.h"

enum { MOST = 24 };
typedef void run(const int64_t *n, void *const *in, void *const *out);

static void need(int there) {
    if (!there) exit(3);
}

#define EACH(S, T)                                                                                                   \
    static void product_##S##_call(const int64_t *n, void *const *in, void *const *out) {                            \
        const product_##S p = {.a = in[0], .b = in[1], .bias = in[2], .c = out[0], .m = n[0], .n = n[1], .k = n[2],  \
                               .a_row = n[2], .a_step = 1, .b_step = n[1], .b_column = 1};                           \
        need(gemm_##S(&p, 1));                                                                                       \
    }                                                                                                                \
    static void reduce_##S##_call(const int64_t *n, void *const *in, void *const *out) {                             \
        need(reduce_##S((int)n[0], in[0], out[0], n[1], n[2], n[3]));                                                \
    }                                                                                                                \
    static void softmax_##S##_call(const int64_t *n, void *const *in, void *const *out) {                            \
        softmax_forward_##S(in[0], out[0], n[0], n[1], n[2]);                                                        \
        log_softmax_backward_##S(in[0], in[1], out[1], n[0], n[1], n[2]);                                            \
    }                                                                                                                \
    static void layer_norm_##S##_call(const int64_t *n, void *const *in, void *const *out) {                         \
        layer_norm_forward_##S(in[0], in[1], in[2], out[0], out[1], out[2], n[0], n[1], 1e-5);                       \
    }                                                                                                                \
    static void conv_##S##_call(const int64_t *n, void *const *in, void *const *out) {                               \
        conv_shape s = {.batch = n[1], .channels = n[2], .groups = 1, .rows = n[3]};                                 \
        for (int k = 0; k < 3; k++) {                                                                                \
            s.size[k] = n[4 + k], s.out[k] = n[7 + k], s.kernel[k] = n[10 + k];                                      \
            s.padding[k] = n[13 + k], s.stride[k] = s.dilation[k] = 1;                                               \
        }                                                                                                            \
        s.x_stride[4] = 1;                                                                                           \
        for (int k = 3; k > 0; k--) s.x_stride[k] = s.x_stride[k + 1] * n[3 + k];                                    \
        s.x_stride[0] = s.x_stride[1] * n[2];                                                                        \
        convolution_set_method((int)n[0]);                                                                           \
        need(conv_forward_##S(&s, in[0], in[1], in[2], out[0]));                                                     \
        need(conv_weight_##S(&s, in[0], out[0], out[1]));                                                            \
    }                                                                                                                \
    static void attention_##S##_call(const int64_t *n, void *const *in, void *const *out) {                          \
        const attention_shape s = {.outer = 1, .heads = n[0], .l = n[1], .s = n[2], .d = n[3], .dv = n[3],           \
                                   .scale = 0.5, .causal = (int)n[4]};                                               \
        attention_arrays a = {{0}};                                                                                  \
        const attention_array rows = {in[0], {n[0] * n[1] * n[3], n[1] * n[3], n[3], 1}};                            \
        const attention_array keys = {in[1], {n[0] * n[2] * n[3], n[2] * n[3], n[3], 1}};                            \
        a.q = rows, a.k = a.v = keys, a.y = rows;                                                                    \
        a.v.data = in[2], a.y.data = out[0];                                                                         \
        a.logs = (attention_array){out[1], {n[0] * n[1], n[1], 1, 0}};                                               \
        need(attention_forward_##S(&s, &a));                                                                         \
    }                                                                                                                \
    static void running_##S##_call(const int64_t *n, void *const *in, void *const *out) {                            \
        running_##S(RUN_SUM, in[0], out[0], n[0], n[1], n[2], (int)n[3]);                                            \
    }                                                                                                                \
    static void sorted_##S##_call(const int64_t *n, void *const *in, void *const *out) {                             \
        order_rows_##S(ORDER_SORTED, 0, n[1], in[0], out[0], out[1], n[0], n[1], 1);                                 \
    }
EACH(f32, float)
EACH(f64, double)
#undef EACH

static void narrow_call(const int64_t *n, void *const *in, void *const *out) {
    half_narrow(in[0], out[0], n[0], (int)n[1]);
    half_widen(out[0], out[1], n[0], (int)n[1]);
}
static void random_call(const int64_t *n, void *const *in, void *const *out) {
    philox_uniform((uint64_t)n[0], (uint64_t)n[1], n[2], out[0]);
    philox_normal((uint64_t)n[0], (uint64_t)n[1], n[2], out[1]);
}
static void int8_call(const int64_t *n, void *const *in, void *const *out) {
    need(int8_linear(in[0], in[1], in[2], n[1], in[3], NULL, 0, (int)n[3], out[0], n[0], n[1], n[2]));
}

#define BOTH(NAME) {#NAME "_f32", NAME##_f32_call}, {#NAME "_f64", NAME##_f64_call}
static const struct {
    const char *name;
    run *run;
} CALLS[] = {BOTH(product), BOTH(reduce),  BOTH(softmax), BOTH(layer_norm),      BOTH(conv),           BOTH(attention),
             BOTH(running), BOTH(sorted), {"narrow", narrow_call}, {"random", random_call}, {"int8", int8_call}};

/* The inputs of an elementwise kernel, then its parameters. */
static int elementwise(const char *name, const int64_t *n, void *const *in, void *const *out) {
    for (const map_kernel *k = map_table; k->name; k++) {
        if (strcmp(k->name, name)) continue;
        char *ptr[MAP_MAX_IN + 1];
        for (int i = 0; i < k->n_in; i++) ptr[i] = in[i];
        ptr[k->n_in] = out[0];
        k->fn(ptr, n[0], in[k->n_in]);
        return 1;
    }
    return 0;
}

static void get(void *to, size_t bytes) { need(!bytes || fread(to, bytes, 1, stdin) == 1); }

int main(void) {
    struct {
        char name[64];
        int64_t numbers, inputs, outputs;
    } head;
    parallel_setup();
    memory_setup();
    while (fread(&head, sizeof head, 1, stdin) == 1) {
        int64_t n[MOST], bytes[MOST];
        void *arrays[MOST];
        need(head.numbers <= MOST && head.inputs + head.outputs <= MOST);
        get(n, (size_t)head.numbers * sizeof *n);
        get(bytes, (size_t)(head.inputs + head.outputs) * sizeof *bytes);
        for (int64_t k = 0; k < head.inputs + head.outputs; k++) {
            need((arrays[k] = bytes[k] ? malloc((size_t)bytes[k]) : NULL) || !bytes[k]);
            if (k < head.inputs) get(arrays[k], (size_t)bytes[k]);
        }
        void *const *out = arrays + head.inputs;
        size_t k = 0;
        while (k < sizeof CALLS / sizeof *CALLS && strcmp(CALLS[k].name, head.name)) k++;
        if (k < sizeof CALLS / sizeof *CALLS) CALLS[k].run(n, arrays, out);
        else need(elementwise(head.name, n, arrays, out));
        for (int64_t o = 0; o < head.outputs; o++) need(fwrite(out[o], (size_t)bytes[head.inputs + o], 1, stdout) == 1);
        for (int64_t a = 0; a < head.inputs + head.outputs; a++) free(arrays[a]);
    }
    return 0;
}
