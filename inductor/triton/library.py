"""Functions that generated kernels call. This file is read as text: a `kernels.py` gets those that it needs, as they stand.

Whole numbers divide and shift as in Python; extremes let a NaN win; combines are what `tl.reduce` joins parts with.
"""

# pyright: reportAttributeAccessIssue=false
# (where triton is not installed, pyright takes the folder of this file for it)
import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def floordiv(a, b):
    """a // b rounded down."""
    rest = a % b
    return tl.where((rest != 0) & ((rest < 0) != (b < 0)), a // b - 1, a // b)


@triton.jit
def mod(a, b):
    """The rest of `floordiv`, with the sign of b."""
    rest = a % b
    return tl.where((rest != 0) & ((rest < 0) != (b < 0)), rest + b, rest)


@triton.jit
def float_mod(a, b):
    """The rest of a division rounded down, with the sign of b."""
    rest = libdevice.fmod(a, b)
    signed = tl.where((rest != 0) & ((rest < 0) != (b < 0)), rest + b, rest)
    return tl.where((signed == 0) & (b < 0), -tl.abs(signed), tl.where(signed == 0, tl.abs(signed), signed))


@triton.jit
def float_floordiv(a, b):
    """floor(a / b), without the error that rounding a / b makes."""
    rest = libdevice.fmod(a, b)
    count = tl.div_rn(a - rest, b)
    count = tl.where((rest != 0) & ((rest < 0) != (b < 0)), count - 1, count)
    whole = tl.floor(count)
    whole = tl.where(count - whole > 0.5, whole + 1, whole)
    return tl.where(b == 0, tl.div_rn(a, b), whole)


@triton.jit
def double_floordiv(a, b):
    """`float_floordiv` in float64, whose division is exact."""
    rest = libdevice.fmod(a, b)
    count = (a - rest) / b
    count = tl.where((rest != 0) & ((rest < 0) != (b < 0)), count - 1, count)
    whole = tl.floor(count)
    whole = tl.where(count - whole > 0.5, whole + 1, whole)
    return tl.where(b == 0, a / b, whole)


@triton.jit
def whole_pow(base, exponent):
    """base ** exponent of whole numbers, which wraps around; 0 for negative exponents unless the base is 1 or -1."""
    result = tl.full(base.shape, 1, base.dtype)
    square = base
    left = exponent
    for _ in tl.static_range(32):
        result = tl.where((left & 1) != 0, result * square, result)
        square = square * square
        left = left >> 1
    inverse = tl.where(base == 1, result * 0 + 1, tl.where(base == -1, 1 - 2 * (exponent & 1), result * 0))
    return tl.where(exponent < 0, inverse, result)


@triton.jit
def shift_left(a, b, BITS: tl.constexpr):
    return tl.where((b >= 0) & (b < BITS), a << tl.where(b < BITS, b, 0), a * 0)


@triton.jit
def shift_right(a, b, BITS: tl.constexpr):
    return a >> tl.where((b >= 0) & (b < BITS), b, BITS - 1)


@triton.jit
def sign(x):
    """-1, 0 or 1; NaN for NaN."""
    return tl.where(x > 0, x * 0 + 1, tl.where(x < 0, x * 0 - 1, x * 0))


@triton.jit
def float_sign(x):
    """-1, 0 or 1; NaN for NaN."""
    return tl.where(x > 0, 1.0, tl.where(x < 0, -1.0, tl.where(x == 0, 0.0, x)))


@triton.jit
def check(error, failed, number):
    """Leave the number of a check where it failed."""
    tl.store(error + failed.to(tl.int32) * 0, number, mask=failed)


@triton.jit
def philox(seed, ordinal, index, WORD: tl.constexpr):
    """One word of Philox 4x32-10: key = seed, counter = (element index, ordinal), each as (low, high) halves."""
    c0 = (index & 0xFFFFFFFF).to(tl.uint32)
    c1 = ((index >> 32) & 0xFFFFFFFF).to(tl.uint32)
    c2 = c0 * 0 + (ordinal & 0xFFFFFFFF).to(tl.uint32)
    c3 = c0 * 0 + ((ordinal >> 32) & 0xFFFFFFFF).to(tl.uint32)
    k0 = (seed & 0xFFFFFFFF).to(tl.uint32)
    k1 = ((seed >> 32) & 0xFFFFFFFF).to(tl.uint32)
    m0 = tl.full([], 0xD2511F53, tl.uint32)
    m1 = tl.full([], 0xCD9E8D57, tl.uint32)
    w0 = tl.full([], 0x9E3779B9, tl.uint32)
    w1 = tl.full([], 0xBB67AE85, tl.uint32)
    for _ in tl.static_range(10):
        h0 = tl.umulhi(c0, m0 + c0 * 0)
        h1 = tl.umulhi(c2, m1 + c2 * 0)
        l0 = c0 * m0
        l1 = c2 * m1
        c0 = h1 ^ c1 ^ k0
        c1 = l1
        c2 = h0 ^ c3 ^ k1
        c3 = l0
        k0 = k0 + w0
        k1 = k1 + w1
    if WORD == 0:
        word = c0
    elif WORD == 1:
        word = c1
    elif WORD == 2:
        word = c2
    else:
        word = c3
    return word.to(tl.int64)


@triton.jit
def add(a, b):
    return a + b


@triton.jit
def multiply(a, b):
    return a * b


@triton.jit
def either(a, b):
    return a | b


@triton.jit
def both(a, b):
    return a & b


@triton.jit
def maximum(a, b):
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def minimum(a, b):
    return tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def whole_maximum(a, b):
    return tl.maximum(a, b)


@triton.jit
def whole_minimum(a, b):
    return tl.minimum(a, b)


@triton.jit
def larger(key, at, other, other_at):
    """The larger key (a NaN wins) and its position, the least among equals."""
    equal = (key == other) | ((key != key) & (other != other))
    first = ((key > other) | ((key != key) & (other == other))) | (equal & (at < other_at))
    return tl.where(first, key, other), tl.where(first, at, other_at)


@triton.jit
def smaller(key, at, other, other_at):
    """The smaller key (a NaN wins) and its position, the least among equals."""
    equal = (key == other) | ((key != key) & (other != other))
    first = ((key < other) | ((key != key) & (other == other))) | (equal & (at < other_at))
    return tl.where(first, key, other), tl.where(first, at, other_at)


@triton.jit
def join_moments(mean, m2, count, other_mean, other_m2, other_count):
    """Mean, sum of squared differences and number of two parts together."""
    total = count + other_count
    share = tl.where(total == 0, 0.0, other_count / total)
    delta = other_mean - mean
    return mean + delta * share, m2 + other_m2 + delta * delta * count * share, total


@triton.jit
def finite(x):
    """x, or 0 where it is infinite or NaN."""
    return tl.where(tl.abs(x) < float("inf"), x, 0.0)


@triton.jit
def later_larger(key, at, other, other_at):
    """The larger key (a NaN wins) and its position, the last among equals; the other one stands later."""
    later = (other >= key) | (other != other)
    return tl.where(later, other, key), tl.where(later, other_at, at)


@triton.jit
def later_smaller(key, at, other, other_at):
    """The smaller key (a NaN wins) and its position, the last among equals; the other one stands later."""
    later = (other <= key) | (other != other)
    return tl.where(later, other, key), tl.where(later, other_at, at)


@triton.jit
def add_logarithms(a, b):
    """log(exp(a) + exp(b)), where neither overflows."""
    top = tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)
    apart = tl.where(a == b, 0.0, tl.abs(a - b))
    return top + libdevice.log1p(tl.exp(-apart))


@triton.jit
def follow(factor, start, other_factor, other_start):
    """Two maps y -> factor * y + start as one, the other behind the first."""
    return factor * other_factor, other_factor * start + other_start


@triton.jit
def different(a, b):
    return a ^ b


@triton.jit
def float_key(x, BITS: tl.constexpr):
    """A whole number of each float, in their order: both zeros are equal, so are all NaN, the largest."""
    x = tl.where(x == 0, 0.0, x)
    if BITS == 64:
        bits = x.to(tl.int64, bitcast=True)
        key = bits ^ ((bits >> 63) & 0x7FFFFFFFFFFFFFFF)
        return tl.where(x != x, 0x7FFFFFFFFFFFFFFF, key)
    else:
        bits = x.to(tl.int32, bitcast=True)
        key = bits ^ ((bits >> 31) & 0x7FFFFFFF)
        return tl.where(x != x, 0x7FFFFFFF, key)


@triton.jit
def partners(x, ROWS: tl.constexpr, N: tl.constexpr, DISTANCE: tl.constexpr):
    """Of each element of rows, the one whose position differs in the bit DISTANCE."""
    pairs = tl.reshape(x, (ROWS * N // (2 * DISTANCE), 2, DISTANCE))
    return tl.reshape(pairs ^ tl.reduce(pairs, 1, different)[:, None, :], (ROWS, N))


@triton.jit
def sorted_keys(key, ROWS: tl.constexpr, N: tl.constexpr, LOG: tl.constexpr):
    """Rows of whole numbers, ascending."""
    index = tl.arange(0, N)[None, :]
    for k in tl.static_range(1, LOG + 1):
        for j in tl.static_range(1, k + 1):
            other = partners(key, ROWS, N, 2 ** (k - j))
            least = ((index & 2 ** (k - j)) == 0) == ((index & 2**k) == 0)
            key = tl.where((key < other) == least, key, other)
    return key


@triton.jit
def sorted_pairs(key, at, ROWS: tl.constexpr, N: tl.constexpr, LOG: tl.constexpr):
    """The positions `at` of rows of whole numbers, in ascending order of (number, position)."""
    index = tl.arange(0, N)[None, :]
    for k in tl.static_range(1, LOG + 1):
        for j in tl.static_range(1, k + 1):
            other, other_at = partners(key, ROWS, N, 2 ** (k - j)), partners(at, ROWS, N, 2 ** (k - j))
            least = ((index & 2 ** (k - j)) == 0) == ((index & 2**k) == 0)
            keep = ((key < other) | ((key == other) & (at < other_at))) == least
            key = tl.where(keep, key, other)
            at = tl.where(keep, at, other_at)
    return at


@triton.jit
def from_float8_e5m2(byte):
    """The upper byte of a float16."""
    return (byte.to(tl.int16) << 8).to(tl.float16, bitcast=True).to(tl.float32)


@triton.jit
def from_float8_e4m3fn(byte):
    """Four bits of exponent, biased by 7; all ones are NaN, and there is no infinity."""
    size = (byte & 0x7F).to(tl.int32)
    value = tl.where(size < 8, size.to(tl.float32) * 0.001953125, ((size << 20) + 0x3C000000).to(tl.float32, bitcast=True))
    value = tl.where(size == 0x7F, float("nan"), value)
    return tl.where((byte & 0x80) != 0, -value, value)


@triton.jit
def to_float8(
    x,
    FRACTION: tl.constexpr,
    BIAS: tl.constexpr,
    TINY: tl.constexpr,
    LEAST: tl.constexpr,
    MOST: tl.constexpr,
    OVER: tl.constexpr,
    NAN: tl.constexpr,
):
    """The nearest, ties to even. TINY: its last bit is the least float8; LEAST: the least normal one."""
    bits = x.to(tl.int32, bitcast=True)
    size = bits & 0x7FFFFFFF
    normal = size + ((size >> (23 - FRACTION)) & 1) + ((1 << (22 - FRACTION)) - 1)
    normal = (normal >> (23 - FRACTION)) - (BIAS << FRACTION)
    whole = (tl.abs(x) + TINY).to(tl.int32, bitcast=True) & 0x7F
    found = tl.where(tl.abs(x) < LEAST, whole, tl.where(normal > MOST, OVER, normal))
    found = tl.where(x != x, NAN, found)
    return (found | ((bits >> 24) & 0x80)).to(tl.uint8)


@triton.jit
def to_float8_e5m2(x):
    return to_float8(x, 2, 112, 128.0, 0.00006103515625, 0x7B, 0x7C, 0x7E)


@triton.jit
def to_float8_e4m3fn(x):
    return to_float8(x, 3, 120, 16384.0, 0.015625, 0x7E, 0x7F, 0x7F)
