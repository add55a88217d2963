"""Random numbers on GPUs: one generator serves the host and all GPUs, so that a program draws the same numbers anywhere.

In: seeds and states. Out: the state of the default generator, under the names of torch.cuda.random.
"""

from __future__ import annotations


from ..random import default_generator
from .gpus import device_count, is_available


def manual_seed(seed: int) -> None:
    """Without a GPU there is nothing to seed."""
    if is_available():
        default_generator.manual_seed(int(seed))


manual_seed_all = manual_seed


def seed() -> None:
    if is_available():
        default_generator.seed()


seed_all = seed


def initial_seed() -> int:
    return default_generator.initial_seed()


def get_rng_state(device: object = "cuda"):
    return default_generator.get_state()


def get_rng_state_all() -> list:
    return [get_rng_state(k) for k in range(device_count())]


def set_rng_state(new_state, device="cuda") -> None:
    default_generator.set_state(new_state)


def set_rng_state_all(new_states) -> None:
    for state in new_states:
        set_rng_state(state)
