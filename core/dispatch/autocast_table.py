"""What autocast does with each function, by device: PyTorch 2.13's lists, read off its dispatcher op by op.

- LOWER: floating tensors are cast to autocast's dtype (bfloat16, float16).
- FLOAT32: bfloat16 and float16 tensors are cast to float32.
- FLOAT32_RESULT: computed and given in float32, by the function's own `dtype`, unless the caller names one.
- WIDEST: all floating tensors are cast to the widest type among them.
- PLAIN: what the function calls casts nothing either. PyTorch's is one kernel where ours calls functions named here.
- REFUSED: an error, since the result would be wrong too often.

float64 tensors are never cast, nor those on another device. A function that is not named runs in the type that its
operands have. Names are the public ones, without the namespace; ``pad`` is meant where its mode is one of those named.
"""

from __future__ import annotations

LOWER, FLOAT32, FLOAT32_RESULT, WIDEST = "lower", "float32", "float32 result", "widest"
PLAIN, REFUSED = "plain", "refused"

_CPU = {
    LOWER: """
        addbmm addmm baddbmm bmm einsum linear matmul mm vecdot
        conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d
        prelu scaled_dot_product_attention
    """,
    FLOAT32: """
        binary_cross_entropy binary_cross_entropy_with_logits cosine_embedding_loss cross_entropy ctc_loss
        hinge_embedding_loss huber_loss kl_div l1_loss margin_ranking_loss mse_loss multi_margin_loss
        multilabel_margin_loss nll_loss poisson_nll_loss smooth_l1_loss soft_margin_loss triplet_margin_loss
        avg_pool3d adaptive_avg_pool3d adaptive_max_pool3d adaptive_max_pool3d_with_indices fractional_max_pool2d
        fractional_max_pool2d_with_indices fractional_max_pool3d fractional_max_pool3d_with_indices max_pool3d
        max_unpool2d max_unpool3d pad grid_sample
        cdist local_response_norm nanquantile polar prod quantile stft trace view_as_complex
        cholesky cholesky_ex cholesky_inverse cholesky_solve cond eig eigh eigvals eigvalsh geqrf householder_product
        inv inv_ex inverse lstsq lu lu_solve matrix_rank orgqr ormqr pinverse qr solve svd svdvals tensorinv tensorsolve
        triangular_solve
        fft fft2 fftn hfft ifft ifft2 ifftn ihfft irfft irfft2 irfftn rfft rfft2 rfftn
    """,
    PLAIN: "bilinear",
    WIDEST: "cat concat concatenate stack index_copy",
}

_CUDA = {
    LOWER: """
        addbmm addmm addmv addr baddbmm bmm chain_matmul einsum linear matmul mm multi_dot mv vecdot
        conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d
        prelu scaled_dot_product_attention gru_cell lstm_cell rnn_relu_cell rnn_tanh_cell
    """,
    FLOAT32: """
        acos asin cosh erfinv exp expm1 log log10 log1p log2 pow reciprocal rsqrt sinh square tan softplus
        group_norm layer_norm rms_norm logsumexp renorm cdist dist pdist cosine_similarity
        binary_cross_entropy_with_logits cosine_embedding_loss cross_entropy hinge_embedding_loss huber_loss kl_div
        l1_loss margin_ranking_loss mse_loss multi_margin_loss multilabel_margin_loss nll_loss poisson_nll_loss
        smooth_l1_loss soft_margin_loss triplet_margin_loss
        interpolate upsample upsample_bilinear upsample_nearest
    """,
    FLOAT32_RESULT: "cumprod cumsum log_softmax matrix_norm norm prod softmax sum vector_norm",
    WIDEST: "addcdiv addcmul atan2 bilinear cross dot grid_sample index_put scatter_add tensordot vdot",
    PLAIN: "batch_norm instance_norm nansum trace",
    REFUSED: "binary_cross_entropy",
}

PAD_MODES = {"reflect": (1, 2), "replicate": (1, 2, 3)}  # and how many dimensions they pad


def _by_name(table: dict[str, str]) -> dict[str, str]:
    return {name: rule for rule, names in table.items() for name in names.split()}


cpu, cuda = _by_name(_CPU), _by_name(_CUDA)
names = cpu.keys() | cuda.keys()
