"""What PyTorch refuses for what the data is, in its words: losses, draws, weights that do not fit the classes."""

import pytest

F = lambda lib: lib.nn.functional
CLASSES = "weight tensor should be defined either for all 3 classes or no classes but got weight tensor of shape: "
CASES = {
    "nll_loss": (lambda t: F(t).nll_loss(t.ones(2, 3), t.tensor([0, 3])), IndexError, "Target 3 is out of bounds."),
    "nll_loss with weights": (
        lambda t: F(t).nll_loss(t.ones(2, 3), t.tensor([0, 1]), weight=t.ones(2)),
        RuntimeError,
        CLASSES + r"\[2\]",
    ),
    "nll_loss with weights of two dims": (
        lambda t: F(t).nll_loss(t.ones(2, 3), t.tensor([0, 1]), weight=t.ones(3, 1)),
        RuntimeError,
        CLASSES + r"\[3, 1\]",
    ),
    "nll_loss of one sample": (
        lambda t: F(t).nll_loss(t.ones(3), t.tensor(1), weight=t.ones(4)),
        RuntimeError,
        CLASSES + r"\[4\]",
    ),
    "nll_loss over an image": (
        lambda t: F(t).nll_loss(t.ones(2, 3, 2), t.ones(2, 2).long(), weight=t.ones(2)),
        RuntimeError,
        "weight tensor should be defined either for all or no classes",
    ),
    "cross_entropy with weights": (
        lambda t: F(t).cross_entropy(t.ones(2, 3), t.tensor([0, 1]), weight=t.ones(2)),
        RuntimeError,
        "^" + CLASSES + r"\[2\]",
    ),
    "cross_entropy of probabilities": (
        lambda t: F(t).cross_entropy(t.ones(2, 3), t.ones(2, 3), weight=t.ones(1)),
        RuntimeError,
        "cross_entropy: " + CLASSES + r"\[1\]",
    ),
    "multi_margin_loss with weights": (
        lambda t: F(t).multi_margin_loss(t.ones(2, 3), t.tensor([0, 1]), weight=t.ones(4)),
        RuntimeError,
        r"inconsistent weight size, expected 3 but got \[4\]",
    ),
    "multi_margin_loss": (lambda t: F(t).multi_margin_loss(t.ones(2, 3), t.tensor([0, 3])), RuntimeError, "target out of range"),
    "multilabel_margin_loss": (
        lambda t: F(t).multilabel_margin_loss(t.ones(1, 3), t.tensor([[0, -2, 1]])),
        RuntimeError,
        "argument #2 'target' is out of range",
    ),
    "binary_cross_entropy": (
        lambda t: F(t).binary_cross_entropy(t.tensor([float("nan")]), t.ones(1)),
        RuntimeError,
        "all elements of input should be between 0 and 1",
    ),
    "binary_cross_entropy's target": (
        lambda t: F(t).binary_cross_entropy(t.ones(1), t.tensor([1.5])),
        RuntimeError,
        "all elements of target should be between 0 and 1",
    ),
    "gaussian_nll_loss": (
        lambda t: F(t).gaussian_nll_loss(t.ones(1), t.ones(1), t.tensor([-1.0])),
        ValueError,
        "var has negative entry/entries",
    ),
    "bernoulli": (lambda t: t.bernoulli(t.tensor([0.5, 1.5])), RuntimeError, "Expected p_in >= 0 && p_in <= 1 to be true"),
    "bernoulli_ of a tensor": (
        lambda t: t.ones(2).bernoulli_(t.tensor([0.5, 1.5])),
        RuntimeError,
        "Expected p_in >= 0 && p_in <= 1",
    ),
    "bernoulli_ of a number": (
        lambda t: t.ones(2).bernoulli_(2.0),
        RuntimeError,
        r"bernoulli_ expects p to be in \[0, 1\], but got p=2",
    ),
    "bernoulli of a number": (
        lambda t: t.bernoulli(t.ones(2), -1.0),
        RuntimeError,
        r"bernoulli_ expects p to be in \[0, 1\], but got p=-1",
    ),
    "normal": (lambda t: t.normal(t.zeros(1), t.tensor([-1.0])), RuntimeError, "normal expects all elements of std >= 0.0"),
    "normal of NaN": (
        lambda t: t.normal(t.zeros(1), t.tensor([float("nan")])),
        RuntimeError,
        "normal expects all elements of std >= 0.0",
    ),
    "one_hot": (lambda t: F(t).one_hot(t.tensor([5]), 3), RuntimeError, "Class values must be smaller than num_classes."),
    "one_hot of a negative class": (lambda t: F(t).one_hot(t.tensor([-1])), RuntimeError, "Class values must be non-negative."),
    "a position in an empty slice": (
        lambda t: t.ones(3, 4).__setitem__((t.tensor(9), slice(4, None)), 1.0),
        IndexError,
        "index 9 is out of bounds for dimension 0 with size 3",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_refused_data(name, lib):
    call, error, words = CASES[name]
    with pytest.raises(error, match=words):
        call(lib)


def test_taken_data(lib):
    """What looks like it and is fine: weights by their number over images, NaN as a variance, nothing at all."""
    nan = float("nan")
    image = F(lib).nll_loss(lib.ones(2, 3, 2), lib.ones(2, 2).long(), weight=lib.ones(3, 1))
    assert image.item() == -1.0
    assert F(lib).gaussian_nll_loss(lib.ones(1), lib.ones(1), lib.tensor([nan])).isnan()
    assert lib.bernoulli(lib.ones(0)).shape == (0,) and lib.normal(lib.ones(0), -lib.ones(0)).shape == (0,)
    assert F(lib).one_hot(lib.ones(0).long(), 3).shape == (0, 3)
    assert F(lib).multilabel_margin_loss(lib.ones(1, 3), lib.tensor([[1, -1, 2]])).item() == pytest.approx(2 / 3)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_one_infinite_pixel(lib, mode):
    """An antialiased filter gives it to what it reaches, 0 times infinity where it touches it with weight 0, and to nothing else."""
    x = lib.zeros(1, 1, 12, 12)
    x[0, 0, 4, 4] = float("inf")
    small = F(lib).interpolate(x, (4, 4), mode=mode, antialias=True)[0, 0]
    assert lib.isfinite(small[3]).all() and lib.isfinite(small[:, 3]).all() and not lib.isfinite(small[1, 1])
