"""Why a part of PyTorch does not exist here, and what to do instead: by the start of its name, the longest counts."""

REASONS = {
    "torch.distributed": "flambeau runs in one process; start without a launcher or with WORLD_SIZE=1",
    "torch.distributed.fsdp": "flambeau runs in one process, which has the whole model; leave out the sharding",
    "torch.distributed.tensor": "tensors lie on one device of one process",
    "torch.distributed.checkpoint": "one process writes whole files; torch.save and torch.load keep weights",
    "torch.distributed.elastic": "flambeau runs in one process; start the program with python",
    "torch.distributed.run": "flambeau runs in one process; start the program with python",
    "torch.ao": "there are no quantized tensors; float16 and bfloat16 take less memory",
    "torch.quantization": "there are no quantized tensors; float16 and bfloat16 take less memory",
    "torch.nn.quantized": "there are no quantized tensors; float16 and bfloat16 take less memory",
    "torch.nn.qat": "there are no quantized tensors; float16 and bfloat16 take less memory",
    "torch.nn.intrinsic": "there are no quantized tensors; float16 and bfloat16 take less memory",
    "torch.nn.quantizable": "there are no quantized tensors; float16 and bfloat16 take less memory",
    "torch.onnx": "programs are not exported; torch.compile compiles them in place, torch.save keeps their weights",
    "torch.export": "programs are not exported; torch.compile compiles them in place, torch.save keeps their weights",
    "torch._export": "programs are not exported; torch.compile compiles them in place, torch.save keeps their weights",
    "torch.jit": "there is no TorchScript; torch.compile compiles functions and modules in place",
    "torch.package": "files with code in them are neither written nor run; torch.save and torch.load keep weights",
    "torch.sparse": "there are no sparse tensors of this kind; to_dense() values take every operation",
    "torch.masked": "there are no masked tensors; torch.where, masked_fill and masked_select take a mask",
    "torch.nested": "there are no nested tensors; nn.utils.rnn.pad_sequence makes one tensor of rows of unlike length",
    "torch.cuda": "torch.cuda.is_available() is False here; ask it first",
    "torch.xpu": "torch.xpu.is_available() is False here; ask it first",
    "torch.mps": "torch.mps.is_available() is False here; ask it first",
    "torch.mtia": "torch.mtia.is_available() is False here; ask it first",
    "torch._inductor": "this compiler has its own stages; docs/ARCHITECTURE.md names them, flambeau.extend reaches them",
    "torch._dynamo": "this compiler has its own stages; docs/ARCHITECTURE.md names them, torch.compiler reaches them",
    "torch._functorch": "this compiler has its own stages; torch.func has the transformations",
    "torch._C": "it is a part of PyTorch's C++ core",
}
OTHERWISE = "docs/api.md lists what exists"


def reason(symbol):
    while symbol:
        if symbol in REASONS:
            return REASONS[symbol]
        symbol = symbol.rpartition(".")[0]
    return OTHERWISE
