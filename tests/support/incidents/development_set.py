"""The incidents that the rules of blame were made with."""

from __future__ import annotations

from drumbeat.model.states import Reason
from tests.support.incidents.incident import Incident

_TORCH, _CGROUP = frozenset({"torch"}), frozenset({"cgroup"})
_FAILED, _KILLED, _COMMAND = Reason.RANK_FAILED, Reason.RANK_KILLED, Reason.BAD_COMMAND


def _one(rank: int, statement: str) -> str:
    """All meet, one goes wrong, the others wait."""
    return f"meet()\nif RANK == {rank}:\n    {statement}\nwait()\n"


_RAISED = (
    Incident("raise in the training loop", (1,), _FAILED, _one(1, "raise ValueError('loss is nan')"), "loss is nan"),
    Incident(
        "raise before the ranks have met", (2,), _FAILED, "if RANK == 2: raise OSError('no lock')\nwait()", "no lock"
    ),
    Incident("assertion without a message", (3,), _FAILED, _one(3, "assert RANK < 3"), "assert RANK < 3"),
    Incident(
        "the same error on all ranks at once",
        (0,),
        _FAILED,
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\nmeet()\nint('x')",
        "all 4 ranks",
    ),
    Incident(
        "an error raised from another",
        (1,),
        _FAILED,
        """
        def load():
            try:
                {}["weights"]
            except KeyError as error:
                raise RuntimeError("the model can't be loaded") from error
        meet()
        if RANK == 1:
            load()
        wait()
        """,
        "KeyError: 'weights'",
    ),
    Incident(
        "an error while another was handled",
        (2,),
        _FAILED,
        """
        meet()
        if RANK == 2:
            try:
                raise ValueError("batch 7 is empty")
            finally:
                raise OSError("the log can't be closed")
        wait()
        """,
        "batch 7 is empty",
    ),
    Incident(
        "a progress bar and colours before the error",
        (1,),
        _FAILED,
        _one(
            1,
            "print(*(f'\\r\\x1b[32mepoch 1: {n:3}%\\x1b[0m' for n in range(100)), end='', flush=True); "
            "raise FloatingPointError('overflow')",
        ),
        "FloatingPointError: overflow",
    ),
    Incident(
        "an exception in a thread",
        (2,),
        _FAILED,
        """
        import threading
        def read(): raise LookupError("shard 12")
        meet()
        if RANK == 2:
            thread = threading.Thread(target=read)
            thread.start()
            thread.join()
            os._exit(1)
        wait()
        """,
        "LookupError: shard 12",
    ),
    Incident(
        "a rank ends well and a pipe to it breaks",
        (2,),
        Reason.RANK_LEFT_EARLY,
        """
        from multiprocessing.connection import Client, Listener
        if RANK == 2:
            listener = Listener("hub", "AF_UNIX", backlog=8)
            meet()
            peers = [listener.accept() for _ in range(WORLD - 1)]
            os._exit(0)
        meet()
        Client("hub", "AF_UNIX").recv()
        """,
        "left with exit code 0",
    ),
    Incident(
        "a broken checkpoint",
        (0,),
        _FAILED,
        _one(0, "import pickle; pickle.loads(b'\\x80\\x04\\x95\\x00')"),
        "UnpicklingError",
        "corrupt",
    ),
    Incident(
        "the script's own port is taken",
        (0,),
        _FAILED,
        """
        import socket
        meet()
        if RANK == 0:
            first = socket.create_server(("127.0.0.1", 0))
            second = socket.create_server(("127.0.0.1", first.getsockname()[1]))
        wait()
        """,
        "Address already in use",
        "port",
    ),
)

_CODES = (
    *(
        Incident(f"exit code {code}", (1,), _FAILED, _one(1, f"sys.exit({code})"), f"exit code {code}", world=2)
        for code in (1, 2, 3, 126, 127, 255)
    ),
    Incident("exit with a text", (2,), _FAILED, _one(2, "sys.exit('no data for this rank')"), "no data for this rank"),
    Incident("os._exit", (1,), _FAILED, _one(1, "os._exit(7)"), "exit code 7", world=2),
)

_SIGNALS = (
    *(
        Incident(f"ends itself with {name}", (rank,), _KILLED, _one(rank, f"os.kill(os.getpid(), signal.{name})"), name)
        for rank, name in enumerate(("SIGKILL", "SIGSEGV", "SIGABRT", "SIGTERM"))
    ),
    Incident("a bus error", (1,), _KILLED, _one(1, "os.kill(os.getpid(), signal.SIGBUS)"), "SIGBUS", "loader", world=2),
    Incident("Ctrl-C", (1,), _KILLED, _one(1, "os.kill(os.getpid(), signal.SIGINT)"), "SIGINT", world=2),
    Incident(
        "hangs, and is killed by somebody", (3,), _KILLED,
        """
        pathlib.Path(f"pid.{RANK}").write_text(str(os.getpid()))
        meet()
        if RANK == 0:
            os.kill(int(pathlib.Path("pid.3").read_text()), signal.SIGKILL)
        wait()
        """, "SIGKILL",
    ),
    Incident(
        "out of memory by cgroup", (1,), _KILLED,
        """
        meet()
        if RANK == 1:
            pathlib.Path(os.environ["INCIDENT_CGROUP"], "cgroup.procs").write_text(str(os.getpid()))
            held = [bytearray(1 << 20) for _ in range(1 << 12)]
        wait()
        """, "SIGKILL", "memory", world=2, needs=_CGROUP,
    ),
    Incident(
        "C++ aborts while Python shuts down after success", (1,), _KILLED,
        """
        import atexit, ctypes
        meet()
        print("accuracy 0.91", flush=True)
        if RANK == 1:
            atexit.register(ctypes.CDLL("libstdc++.so.6")._ZSt9terminatev)
            sys.exit()
        wait()
        """, "shut", "os._exit(0)", world=2, command="python -E t.py",  # -E: without the mark of a clean end.
    ),
)  # fmt: skip

_COMMANDS = (
    Incident("a missing package", (0, 1, 2, 3), _COMMAND, "import tensorbord", "tensorbord", "Install"),
    Incident("a syntax error", (0, 1), _COMMAND, files=(("t.py", "def train(:\n"),), says="SyntaxError", world=2),
    Incident("a missing script", (0, 1), _COMMAND, command="python trian.py", says="trian.py", world=2),
    Incident("a missing command", (0, 1), _COMMAND, command="pyton t.py", says="pyton: command not found", world=2),
    Incident(
        "an unknown option", (0, 1), _COMMAND,
        "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--epochs')\nparser.parse_args()",
        "unrecognized arguments: --epohcs=3", command="python t.py --epohcs=3", world=2,
    ),
)  # fmt: skip

_WITH_TORCH = (
    Incident(
        "leaves early with exit code 0", (1,), Reason.RANK_LEFT_EARLY,
        """
        import torch
        dist = group()
        for step in range(3 if RANK == 1 else 4):
            dist.all_reduce(torch.ones(1))
        os._exit(0)
        """, "left with exit code 0", "same number of steps", 2, needs=_TORCH,
    ),
    Incident(
        "raises in backward", (1,), _FAILED,
        """
        import torch
        class Broken(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x): return x.clone()
            @staticmethod
            def backward(ctx, grad):
                assert RANK != 1, "gradient is NaN"
                return grad
        group()
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))
        for _ in range(3):
            Broken.apply(model(torch.ones(2, 4))).sum().backward()
        """, "AssertionError: gradient is NaN", "", 2, needs=_TORCH,
    ),
    Incident(
        "an assertion in a data-loader worker", (0,), _FAILED,
        """
        import torch
        class Images(torch.utils.data.Dataset):
            def __len__(self): return 8
            def __getitem__(self, index):
                assert RANK or index < 5, f"image {index} is empty"
                return index
        dist = group()
        for batch in torch.utils.data.DataLoader(Images(), num_workers=1):
            dist.all_reduce(batch)
        """, "image 5 is empty", "", 2, needs=_TORCH,
    ),
    Incident(
        "a data-loader worker is killed", (1,), _FAILED,
        """
        import torch
        class Images(torch.utils.data.Dataset):
            def __len__(self): return 8
            def __getitem__(self, index):
                if RANK and index == 5: os.kill(os.getpid(), signal.SIGKILL)
                return index
        dist = group()
        for batch in torch.utils.data.DataLoader(Images(), num_workers=1):
            dist.all_reduce(batch)
        """, "worker", "num_workers", 2, needs=_TORCH,
    ),
    Incident(
        "shapes differ in a collective", (0, 1), _KILLED,
        "import torch\ndist = group()\ndist.all_reduce(torch.ones(4 if RANK == 0 else 8))",
        "Received data size doesn't match", "same shape", 2, needs=_TORCH,
    ),
    Incident(
        "a torchrun of the job's own fails", (0,), _FAILED, "",
        "torchrun's rank 1", "", 1, "torchrun --standalone --nproc-per-node 2 inner.py", _TORCH,
        (("inner.py", "import os, time\nif os.environ['RANK'] == '1': raise ValueError('bad')\ntime.sleep(60)\n"),),
    ),
)  # fmt: skip

RULES: tuple[Incident, ...] = (*_RAISED, *_CODES, *_SIGNALS, *_COMMANDS, *_WITH_TORCH)
