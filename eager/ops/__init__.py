"""All op records, by family. Importing this package registers them in `OPS`."""

from . import (
    activations,
    arithmetic,
    attention,
    checks,
    creation,
    elementary,
    indexing,
    losses,
    normalization,
    optimizer,
    sorting,
    products,
    random,
    rearrange,
    recurrent,
    reduce,
    repeat,
    views,
)
from . import adaptive, batch_norm, padding, pooling, resampling, im2col
from . import convolution
from . import complex_numbers, cumulative, special
from . import factorizations, fourier
from . import sampling
from . import embedding_bag, ctc, distances, fractional_max_pool, grid_sample, margins, roi_ops, shrink, pixel_shuffle
from . import custom
from . import grouped_mm
