"""Generators, ordinals and distributions; Philox against its published test vectors."""

import pickle

import numpy as np
import pytest

import flambeau as lib
from flambeau.eager import dtypes as d
from flambeau.eager import random
from flambeau.eager.op.op import OPS
from flambeau.eager.op.prims import philox, philox_words

rand, randn = OPS["rand"], OPS["randn"]


def test_philox_vectors():
    words = [int(w) for w in philox_words(0, 0, 0)]
    assert words == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    ones = 2**64 - 1
    assert [int(w) for w in philox_words(ones, ones, np.uint64(ones))] == [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]
    assert philox(0, 0, np.arange(2), 3).tolist()[0] == 0x9B00DBD8


def draw(op, n=8, dtype=d.float32, generator=None):
    return op((n,), dtype, None, generator)._fl_array.copy()


def test_same_seed_same_numbers_and_one_ordinal_per_call():
    g = random.Generator().manual_seed(7)
    a, b = draw(rand, 4, generator=g), draw(rand, 1000, generator=g)
    assert g.reserve(0) == (7, 2)
    g.manual_seed(7)
    c = draw(rand, 8, generator=g)
    assert (a == c[:4]).all() and (draw(rand, 3, generator=g) == b[:3]).all()


def test_values_are_the_words():
    w = philox_words(3, 0, np.arange(5))
    u = draw(rand, 5, generator=random.Generator().manual_seed(3))
    assert (u == (w[0] >> np.uint64(8)).astype(np.float32) * np.float32(2.0**-24)).all()
    v = draw(rand, 5, d.float64, random.Generator().manual_seed(3))
    assert (v == ((w[0] >> np.uint64(5)).astype(float) * 2**26 + (w[1] >> np.uint64(6)).astype(float)) * 2.0**-53).all()


def test_at_uses_an_ordinal_without_drawing():
    random.manual_seed(5)
    first, second = draw(rand), draw(rand)
    before = random.default_generator.reserve(0)
    with random.at(5, 1):
        assert (draw(rand) == second).all()
    assert random.default_generator.reserve(0) == before and (first != second).any()


def test_state_round_trip_and_fork():
    random.manual_seed(1)
    draw(rand)
    state = random.get_rng_state()
    a = draw(rand)
    random.set_rng_state(state)
    with random.fork_rng():
        assert (draw(rand) == a).all()
    assert (draw(rand) == a).all() and state.dtype is d.uint8
    g = pickle.loads(pickle.dumps(random.default_generator))
    assert (draw(rand, generator=g) == draw(rand)).all()
    with pytest.raises(TypeError, match="RNG state must be a torch.ByteTensor"):  # PyTorch's error for another type
        random.set_rng_state(rand((3,), d.float32, None, None))
    with pytest.raises(RuntimeError, match="RNG state must be a uint8 tensor of"):
        random.set_rng_state(state[:3])


def test_distributions():
    g = random.Generator().manual_seed(0)
    u = draw(rand, 200_000, generator=g)
    assert 0 <= u.min() and u.max() < 1 and abs(u.mean() - 0.5) < 3e-3 and abs(u.var() - 1 / 12) < 2e-3
    for kind in (d.float32, d.float64):
        z = draw(randn, 200_000, kind, g)
        assert z.dtype == kind.numpy and np.isfinite(z).all()
        assert abs(z.mean()) < 0.01 and abs(z.std() - 1) < 0.01 and abs((z**4).mean() - 3) < 0.1


def test_seeds():
    g = random.Generator()
    s = g.seed()
    assert g.initial_seed() == s and random.Generator().manual_seed(-1).initial_seed() == 2**64 - 1
    assert g.device.type == "cpu"


@pytest.mark.parametrize("name", ["uniform_", "normal_", "exponential_", "cauchy_", "geometric_"])
def test_large_draws_in_place_are_those_of_the_records(name):
    """With one thread a handler fills a tensor of any size, with more of them the record's formula does."""
    drawn, threads = [], lib.get_num_threads()
    try:
        for n in (1, 2):
            lib.set_num_threads(n)
            lib.manual_seed(5)
            x = lib.empty(50_001)
            drawn.append(getattr(x, name)(*((0.3,) if name == "geometric_" else ())))
    finally:
        lib.set_num_threads(threads)
    assert lib.equal(*drawn)
