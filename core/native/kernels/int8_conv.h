/* What the files of convolutions of 8-bit numbers share. */
#ifndef GRADLAB_INT8_CONV_H
#define GRADLAB_INT8_CONV_H

#include "kernels/int8.h"

/* The way of int8_conv_taps.c, and whether it is one for this convolution and this processor. */
int int8_conv_has_taps(const int8_conv_shape *s);
int int8_conv_taps(const int8_conv_call *given); /* 0 without memory */

#endif
