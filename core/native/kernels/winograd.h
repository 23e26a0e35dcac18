/* 3 x 3 convolutions of stride 1 by Winograd's minimal filtering, for conv.c and conv_weight.c. */
#ifndef GRADLAB_WINOGRAD_H
#define GRADLAB_WINOGRAD_H

#include "kernels/kernel.h"
#include "kernels/kernels.h"

enum { WINOGRAD_DECLINED = -1, WINOGRAD_NO_MEMORY, WINOGRAD_DONE };

/* How such convolutions are made: as shape and numbers suggest, or as somebody has set. */
enum { CONVOLUTION_CHOSEN, CONVOLUTION_DIRECT, CONVOLUTION_F2, CONVOLUTION_F4, CONVOLUTION_METHODS };
int convolution_get_method(void);
void convolution_set_method(int method);

/* y of x as conv_forward has it, and gw of x and g as conv_weight has it. Declined: other kernels, few channels, numbers that
   are not finite or so large or small that a transform could overflow, or `convolution_set_method` says so. */
int winograd_forward(const conv_shape *s, const float *x, const float *weights, const float *bias, float *y);
int winograd_weight(const conv_shape *s, const float *x, const float *g, float *gw);

#endif
