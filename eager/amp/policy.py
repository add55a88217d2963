"""Which records autocast runs in which type: products in the low type, losses and decompositions in float32.

In: record names. Out: the `autocast` field of the records ("lower", "float32"), which the call path looks at. What is
in neither list runs in the types that it is given.
"""

from ..op.op import OPS

LOWER = ("gemm matmul linear convolution convolution_input convolution_weight attention lstm_sequence rnn_sequence prelu").split()
FLOAT32 = (
    "mse_loss l1_loss huber_loss smooth_l1_loss binary_cross_entropy binary_cross_entropy_with_logits kl_div "
    "nll_loss cross_entropy cross_entropy_probabilities ctc_loss prod cdist reflect_pad replicate_pad det "
    "slogdet inv solve cholesky eigh svd qr lu_factor lstsq matrix_exp fft_c2c fft_r2c fft_c2r view_as_complex "
    "grid_sample"
).split()

# what only GPUs compute in float32
FLOAT32_ON_CUDA = (
    "acos asin cosh erfinv exp expm1 log log10 log1p log2 pow reciprocal rsqrt sinh tan cumprod cumsum softmax "
    "log_softmax layer_norm group_norm softplus sum norm"
).split()


def install():
    """Mark the records (those of the lists that exist; their in-place forms stay unmarked)."""
    for names, policy in ((LOWER, "lower"), (FLOAT32, "float32"), (FLOAT32_ON_CUDA, "float32 on cuda")):
        for name in names:
            if name in OPS:
                object.__setattr__(OPS[name], "autocast", policy)
