"""Cases for a machine with an NVIDIA GPU, which all ranks share; rank 1 is the odd one where nothing else is said.

NCCL refuses two ranks of one host on one GPU. Each has a host name of its own here (NCCL_HOSTID), so that they meet
over a socket, as ranks of two nodes do.
"""

from __future__ import annotations

from dataclasses import replace

from tools.hangs.case import NEEDS_GPU, READY, Case, beside, busy, hang

_GPU = """\
import os, sys, threading, time
import torch
import torch.distributed as dist
rank = int(os.environ["RANK"])
spin = torch.cuda._compile_kernel('extern "C" __global__ void spin(volatile int* p) { while (!*p) { } }', "spin")
flag = torch.zeros(1, dtype=torch.int32, device="cuda")
def hold():
    spin((1, 1, 1), (1, 1, 1), (flag,))
"""
ALONE = _GPU + "torch.cuda.synchronize()\n"
"""How scripts of one rank begin. `hold()` starts a kernel without an end."""

GLOO = (
    _GPU
    + """\
dist.init_process_group("gloo")
ones = torch.ones(77)
dist.all_reduce(ones)
torch.cuda.synchronize()
"""
)

NCCL = (
    _GPU
    + """\
os.environ.update(NCCL_HOSTID=f"host{rank}", NCCL_SOCKET_IFNAME="lo", NCCL_IB_DISABLE="1")
dist.init_process_group("nccl", device_id=torch.device("cuda", 0))
ones = torch.ones(77, device="cuda")
dist.all_reduce(ones)
torch.cuda.synchronize()
"""
)

MATMUL = """\
large = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
def work(times):
    for _ in range(times):
        torch.mm(large, large)
"""
"""`work(30)` takes an H100 about 50 ms."""

_EXCHANGE = "dist.all_reduce(ones)\ntorch.cuda.synchronize()"
_READ = "dist.all_reduce(ones)\nones[0].item()"
_LOADER = """\
from torch.utils.data import DataLoader, Dataset
class Images(Dataset):
    def __len__(self):
        return 100_000
    def __getitem__(self, index):
        if rank == 1 and index >= {}:
            {}
        return torch.ones(4)
for step, batch in enumerate(DataLoader(Images(), batch_size=4, num_workers=2, multiprocessing_context="fork")):
    dist.all_reduce(batch.cuda())
    {}
"""
_DDP = """\
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(99, 9).cuda(), device_ids=[0])
def step():
    loss = model(torch.ones(8, 99, device="cuda")).sum()
    loss.backward()
    return loss.item()
step()
"""

_HANGS: tuple[Case, ...] = (
    hang("kernel without end", READY + "hold()\ntorch.cuda.synchronize()\n", odd=0, ranks=1, begins=ALONE),
    hang("kernel without end, value read", READY + "hold()\nflag.item()\n", odd=0, ranks=1, begins=ALONE),
    hang("kernel without end beside gloo", beside("hold()\ntorch.cuda.synchronize()"), begins=GLOO),
    hang("kernel without end beside gloo, value read", beside("hold()\nflag.item()"), begins=GLOO),
    hang("kernel without end beside NCCL", beside("hold()", _EXCHANGE), odd=None, begins=NCCL),
    hang("event that never comes beside gloo", beside("hold()\nevent = torch.cuda.Event()\nevent.record()\n"
         "event.synchronize()"), begins=GLOO),
    hang("lock beside NCCL", beside("lock = threading.Lock()\nlock.acquire()\nlock.acquire()", _EXCHANGE), begins=NCCL),
    hang("sleep beside NCCL, value read", beside("time.sleep(1000)", _READ), begins=NCCL),
    hang("stopped rank beside NCCL, value read", beside("os.kill(os.getpid(), 19)", _READ), begins=NCCL),
    hang("silent socket beside a barrier of NCCL", beside(
        "import socket\none, other = socket.socketpair()\none.recv(10)", "dist.barrier()"), begins=NCCL),
    hang("loader's worker in a lock beside NCCL", READY + _LOADER.format(
        80, "lock = threading.Lock(); [lock.acquire() for _ in '12']", "torch.cuda.synchronize()"), begins=NCCL),
    hang("loader's worker asleep beside NCCL, value read", READY + _LOADER.format(
        80, "time.sleep(1000)", "batch.cuda().sum().item()"), begins=NCCL),
    hang("different collectives of NCCL", READY + "if rank == 1:\n"
         "    dist.all_gather([ones, ones.clone()], ones)\nelse:\n"
         "    dist.all_reduce(torch.ones(1 << 20, device='cuda'))\ntorch.cuda.synchronize()\n",
         odd=None, begins=NCCL),
    hang("sleep beside the gradient exchange of NCCL", _DDP + beside("time.sleep(1000)", "step()"), begins=NCCL),
    hang("both receive by NCCL", READY + "dist.recv(ones, 1 - rank)\ntorch.cuda.synchronize()\n", odd=None,
         begins=NCCL),
    hang("collective of NCCL that one rank leaves out", READY + "if rank == 0:\n    dist.all_reduce(ones)\n"
         "dist.all_reduce(ones)\ntorch.cuda.synchronize()\ntime.sleep(1000 if rank else 0)\n", begins=NCCL),
)  # fmt: skip

_WORKING: tuple[Case, ...] = (
    busy("matrix products", MATMUL + READY + "step = 0\nwhile True:\n    work(30)\n    torch.cuda.synchronize()\n"
         "    step += 1\n", ranks=1, begins=ALONE),
    busy("matrix products, values read", MATMUL + READY + "step = 0\nwhile True:\n    work(30)\n"
         "    large[0, 0].item()\n    step += 1\n", ranks=1, begins=ALONE),
    busy("matrix products without a pause", MATMUL + READY + "while True:\n    work(1)\n", ranks=1, begins=ALONE),
    busy("graph that is replayed", MATMUL + "graph = torch.cuda.CUDAGraph()\nwork(3)\nwith torch.cuda.graph(graph):\n"
         "    work(100)\n" + READY + "for step in range(10**9):\n    graph.replay()\n    torch.cuda.synchronize()\n",
         ranks=1, begins=ALONE),
    busy("small steps, values read", "model = torch.nn.Linear(64, 10).cuda()\n"
         "optimizer = torch.optim.SGD(model.parameters(), 0.01)\n" + READY + "while True:\n"
         "    loss = model(torch.randn(8, 64, device='cuda')).square().mean()\n    optimizer.zero_grad()\n"
         "    loss.backward()\n    optimizer.step()\n    loss.item()\n", ranks=1, begins=ALONE),
    busy("validation on the GPU beside gloo", MATMUL + beside(
        "for batch in range(10**9):\n    work(30)\n    large[0, 0].item()"), begins=GLOO),
    busy("validation on the GPU beside NCCL", MATMUL + beside(
        "for batch in range(10**9):\n    work(30)\n    large[0, 0].item()", _EXCHANGE), begins=NCCL),
    busy("validation on the GPU beside a barrier of NCCL", MATMUL + beside(
        "for batch in range(10**9):\n    work(30)\n    torch.cuda.synchronize()", "dist.barrier()"), begins=NCCL),
    busy("steps of two ranks by NCCL", MATMUL + READY + "for step in range(10**9):\n    work(50)\n    "
         + _READ.replace("\n", "\n    ") + "\n", begins=NCCL),
    busy("steps of two ranks by NCCL that print no value", MATMUL + READY + "for step in range(10**9):\n"
         "    work(20)\n    dist.all_reduce(ones)\n", begins=NCCL),
    busy("gradient exchange of NCCL", _DDP + MATMUL + READY + "for number in range(10**9):\n    work(30)\n    step()\n",
         begins=NCCL),
    busy("loader that is slow on one rank beside NCCL", READY + _LOADER.format(
        0, "sum(range(10**7))", "torch.cuda.synchronize()"), begins=NCCL),
    busy("save of one rank beside a barrier of NCCL", MATMUL + beside(
        "import tempfile\nwith tempfile.TemporaryFile() as file:\n    while True:\n"
        "        torch.save(large, file); file.seek(0)", "dist.barrier()"), begins=NCCL),
)  # fmt: skip
HANGS = tuple(replace(one, needs=NEEDS_GPU) for one in _HANGS)
"""Nothing will go on by itself."""
WORKING = tuple(replace(one, needs=NEEDS_GPU) for one in _WORKING)
"""It goes on by itself, and prints nothing."""


def steps(slow: str = "", work: str = "work(20)", ends: str = "ones[0].item()", begins: str = NCCL) -> Case:
    """Returns a training that goes on, for samples. slow: what rank 1 does in each step before the exchange."""
    own = f"    if rank == 1:\n        {slow}\n" if slow else ""
    loop = f"for step in range(10**9):\n{own}    {work}\n    dist.all_reduce(ones)\n    {ends}\n"
    return Case(slow or "equal", MATMUL + READY + loop, is_hang=False, begins=begins, needs=NEEDS_GPU)


_SLOW_LOADER = """\
from torch.utils.data import DataLoader, Dataset
class Images(Dataset):
    def __len__(self):
        return 10**9
    def __getitem__(self, index):
        if rank == 1:
            time.sleep(0.01)
        return torch.ones(4)
for batch in DataLoader(Images(), batch_size=8):
    work(10)
    dist.all_reduce(ones)
    {}
"""

TRAININGS: dict[str, Case] = {
    "equal, by NCCL": steps(),
    "equal, by NCCL, no value read": steps(ends="pass"),
    "one computes for longer, by NCCL": steps("work(60)"),
    "one reads a value in each step, by NCCL": steps(ends="ones[0].item() if rank == 0 else None"),
    "one computes for longer, barrier of NCCL": steps("work(60)", ends="dist.barrier()"),
    "one loads for longer, by NCCL": Case(
        "loads", MATMUL + READY + _SLOW_LOADER.format("ones[0].item()"), is_hang=False, begins=NCCL, needs=NEEDS_GPU),
    "one loads for longer, barrier of NCCL": Case(
        "loads", MATMUL + READY + _SLOW_LOADER.format("dist.barrier()"), is_hang=False, begins=NCCL, needs=NEEDS_GPU),
    "one computes on the CPU for longer, by NCCL": steps("sum(range(2_000_000))"),
    "one computes on the CPU for longer, barrier of NCCL": steps("sum(range(2_000_000))", ends="dist.barrier()"),
    "one computes on the GPU for longer, by gloo": steps(
        "(work(60), large[0, 0].item())", work="(work(20), large[0, 0].item())", ends="pass", begins=GLOO),
}  # fmt: skip
"""Trainings that go on, by what is slow in them: of which samples are taken."""
