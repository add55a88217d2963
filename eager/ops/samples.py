"""Sample arguments shared by families of records; `make` comes from the universal op test."""


def unary(make, positive=False):
    """Shapes with rank 0, with no elements, and with transposed memory."""
    new = make.positive if positive else make
    return [(new(3, 4),), (new(),), (new(0, 5),), (new(4, 3).t(),), (new(2, 3, 2),)]


def binary(make, nonzero=False):
    """Broadcasting both ways, rank 0, no elements, numbers on either side, transposed memory."""
    new = make.positive if nonzero else make
    return [
        (make(3, 4), new(3, 4)),
        (make(3, 4), new(4)),
        (make(3, 1), new(4)),
        (make(), new(2)),
        (make(0, 3), new(3)),
        (make(2, 3), 1.5),
        (2.0, new(2, 3)),
        (make(4, 3).t(), new(3, 4)),
    ]


def binary_int(make, nonzero=False):
    return binary(make, nonzero) + [(make.ints(9, 3, 4), make.ints(5, 4) + 1), (make.ints(9, 4) - 4, 3)]
