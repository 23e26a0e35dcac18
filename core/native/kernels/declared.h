/* The kernels that declarations name (core/declare/kernel.py), for what is printed from them. */
#ifndef GRADLAB_DECLARED_H
#define GRADLAB_DECLARED_H

#include "kernels/axes.h"
#include "kernels/border.h"
#include "kernels/classes.h"
#include "kernels/convert.h"
#include "kernels/copy.h"
#include "kernels/ctc.h"
#include "kernels/dense.h"
#include "kernels/einsum.h"
#include "kernels/fft.h"
#include "kernels/fold.h"
#include "kernels/gather.h"
#include "kernels/gemm_stack.h"
#include "kernels/grid.h"
#include "kernels/int8.h"
#include "kernels/kernels.h"
#include "kernels/order.h"
#include "kernels/philox.h"
#include "kernels/pick.h"
#include "kernels/running.h"
#include "kernels/search.h"
#include "kernels/special.h"
#include "kernels/strided.h"
#include "kernels/window_plan.h"

#endif
