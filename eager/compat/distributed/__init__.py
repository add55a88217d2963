"""torch.distributed for one process: a group of world size 1, whose collectives are identities; more processes raise.

`is_available()` is False, as in a PyTorch built without distribution: packages then leave out what shards over processes
(device meshes, DTensor, FSDP). A program that makes the group of one process all the same is served.
"""

import enum

from .. import missing

_ADVICE = "flambeau runs in one process; start without a launcher or with WORLD_SIZE=1"


class ReduceOp(enum.Enum):
    SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR, PREMUL_SUM = range(9)


for _name in ("RedOpType",):  # the class's older name
    setattr(ReduceOp, _name, ReduceOp)


class ProcessGroup:
    """The group of this one process."""

    def size(self):
        return 1

    def rank(self):
        return 0


class Work:
    """A collective that is done."""

    def wait(self, timeout=None):
        return True

    def is_completed(self):
        return True


class group:
    """`group.WORLD`: None until the group exists."""

    WORLD: ProcessGroup | None = None


GroupMember = group


def is_available():
    return False


def is_initialized():
    return group.WORLD is not None


def is_nccl_available():
    return False


is_mpi_available = is_ucc_available = is_torchelastic_launched = is_gloo_available = is_nccl_available


def init_process_group(
    backend=None,
    init_method=None,
    timeout=None,
    world_size=-1,
    rank=-1,
    store=None,
    group_name="",
    pg_options=None,
    device_id=None,
):
    """Makes the group of one process. A world size above 1, given or in WORLD_SIZE, raises."""
    import os

    size = world_size if world_size > 0 else int(os.environ.get("WORLD_SIZE", "1"))
    if size != 1:
        raise missing.error(f"torch.distributed.init_process_group(world_size={size})", _ADVICE)
    if group.WORLD is not None:
        raise ValueError("trying to initialize the default process group twice!")
    group.WORLD = ProcessGroup()


def destroy_process_group(group_=None):
    group.WORLD = None


def _check(name):
    if group.WORLD is None:
        raise ValueError(
            f"torch.distributed.{name}: Default process group has not been initialized, "
            "please make sure to call init_process_group."
        )


def get_rank(group=None):
    _check("get_rank")
    return 0


def get_world_size(group=None):
    _check("get_world_size")
    return 1


def get_backend(group=None):
    _check("get_backend")
    return "gloo"


def new_group(ranks=None, timeout=None, backend=None, **others):
    _check("new_group")
    return ProcessGroup()


def _done(async_op):
    return Work() if async_op else None


def barrier(group=None, async_op=False, device_ids=None):
    _check("barrier")
    return _done(async_op)


def all_reduce(tensor, op=ReduceOp.SUM, group=None, async_op=False):
    """The reduction over one process is the tensor itself."""
    _check("all_reduce")
    return _done(async_op)


def reduce(tensor, dst=0, op=ReduceOp.SUM, group=None, async_op=False):
    _check("reduce")
    return _done(async_op)


def broadcast(tensor, src=0, group=None, async_op=False):
    _check("broadcast")
    return _done(async_op)


def all_gather(tensor_list, tensor, group=None, async_op=False):
    _check("all_gather")
    tensor_list[0].copy_(tensor)
    return _done(async_op)


def all_gather_into_tensor(output_tensor, input_tensor, group=None, async_op=False):
    _check("all_gather_into_tensor")
    output_tensor.copy_(input_tensor.reshape(output_tensor.shape))
    return _done(async_op)


def reduce_scatter_tensor(output, input, op=ReduceOp.SUM, group=None, async_op=False):
    _check("reduce_scatter_tensor")
    output.copy_(input.reshape(output.shape))
    return _done(async_op)


def all_gather_object(object_list, obj, group=None):
    _check("all_gather_object")
    object_list[0] = obj


def broadcast_object_list(object_list, src=0, group=None, device=None):
    _check("broadcast_object_list")


def all_to_all_single(output, input, output_split_sizes=None, input_split_sizes=None, group=None, async_op=False):
    _check("all_to_all_single")
    output.copy_(input)
    return _done(async_op)


globals().update(
    missing.functions(
        "torch.distributed",
        """send recv isend irecv scatter gather all_to_all
batch_isend_irecv monitored_barrier""",
        _ADVICE,
    )
)
