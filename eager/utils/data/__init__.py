"""Datasets, samplers and the DataLoader."""

from .collate import default_collate, default_convert
from .dataloader import DataLoader
from .datapipes._decorator import functional_datapipe
from .datapipes.datapipe import DFIterDataPipe, IterDataPipe, MapDataPipe
from .dataset import ChainDataset, ConcatDataset, Dataset, IterableDataset, StackDataset, Subset, TensorDataset, random_split
from .distributed import DistributedSampler
from .sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler, SubsetRandomSampler, WeightedRandomSampler
from .workers import get_worker_info
