"""From indices to a batch: the same code in the loader's process and in its workers."""

import itertools

END = object()


class MapFetcher:
    """Rows of a map-style dataset."""

    def __init__(self, dataset, batched, collate, drop_last):
        self.dataset, self.batched, self.collate = dataset, batched, collate
        self.many = getattr(dataset, "__getitems__", None)

    def __call__(self, indices):
        if not self.batched:
            return self.collate(self.dataset[indices])
        return self.collate(self.many(indices) if self.many else [self.dataset[i] for i in indices])


class IterableFetcher:
    """The next rows of an iterable dataset; END when there are none."""

    def __init__(self, dataset, batched, collate, drop_last):
        self.rows, self.batched, self.collate, self.drop_last = iter(dataset), batched, collate, drop_last

    def __call__(self, indices):
        if not self.batched:
            row = next(self.rows, END)
            return END if row is END else self.collate(row)
        batch = list(itertools.islice(self.rows, len(indices)))
        return END if not batch or (self.drop_last and len(batch) < len(indices)) else self.collate(batch)
