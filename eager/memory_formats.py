"""Memory formats and layouts: named constants. Every tensor is strided; formats name an order of strides."""


class memory_format:
    """An order of strides: contiguous, channels last (2d, 3d), or the input's own (preserve)."""

    __slots__ = ("name",)
    _known: dict = {}

    def __new__(cls, name):
        self = cls._known.get(name)
        if self is None:
            self = cls._known[name] = object.__new__(cls)
            self.name = name
        return self

    def __repr__(self):
        return f"torch.{self.name}"

    def __reduce__(self):
        return type(self), (self.name,)


class layout(memory_format):
    """How elements are stored: only `strided` tensors exist."""

    __slots__ = ()
    _known: dict = {}


contiguous_format, preserve_format = memory_format("contiguous_format"), memory_format("preserve_format")
legacy_contiguous_format = contiguous_format
channels_last, channels_last_3d = memory_format("channels_last"), memory_format("channels_last_3d")
strided, sparse_coo, sparse_csr = layout("strided"), layout("sparse_coo"), layout("sparse_csr")
jagged, sparse_csc, sparse_bsr = layout("jagged"), layout("sparse_csc"), layout("sparse_bsr")
NAMES = [
    "memory_format",
    "layout",
    "contiguous_format",
    "legacy_contiguous_format",
    "preserve_format",
    "channels_last",
    "channels_last_3d",
    "strided",
    "sparse_coo",
    "sparse_csr",
    "sparse_csc",
    "sparse_bsr",
    "jagged",
]
