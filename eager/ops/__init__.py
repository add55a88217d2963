"""All op records, by family. Importing this package registers them in `OPS`."""

from . import (activations, arithmetic, attention, checks, creation, elementary, indexing, losses, normalization, optimizer,
               order,
               products, random, rearrange, recurrent, reduce, tiling, views)
from . import adaptive, batchnorm, padding, pooling, resampling, windows
from . import convolution
from . import complexes, running, special
from . import decompositions, fourier
from . import sampling
from . import bags, ctc, distances, fractional, grids, margins, shrink, shuffles
from . import custom
from . import grouped
