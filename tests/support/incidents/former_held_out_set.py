"""The incidents that judged blame until November 2026, and those of the next set that a rule was changed for."""

from __future__ import annotations

from drumbeat.model.states import Reason
from tests.support.incidents.incident import Incident

_TORCH, _CGROUP = frozenset({"torch"}), frozenset({"cgroup"})
_FAILED, _KILLED, _COMMAND = Reason.RANK_FAILED, Reason.RANK_KILLED, Reason.BAD_COMMAND


def _one(rank: int, statement: str) -> str:
    return f"meet()\nif RANK == {rank}:\n    {statement}\nwait()\n"


_RAISED = (
    Incident(
        "an exception class of the job's own", (3,), _FAILED,
        """
        class LossIsNan(Exception): pass
        meet()
        if RANK == 3:
            raise LossIsNan("at step 1,840")
        wait()
        """, "at step 1,840",
    ),
    Incident(
        "an error with several lines", (1,), _FAILED,
        _one(1, "raise RuntimeError('Error(s) in loading state_dict for Net:\\n\\tMissing key(s): \"fc.bias\"')"),
        "fc.bias",
    ),
    Incident(
        "a group of exceptions", (0,), _FAILED,
        _one(0, "raise ExceptionGroup('two shards', [ValueError('shard 3'), ValueError('shard 4')])"), "two shards",
    ),
    Incident(
        "a handled error in the log, then exit 4", (2,), _FAILED,
        """
        import logging
        meet()
        if RANK == 2:
            try:
                open("nowhere.bin")
            except OSError:
                logging.exception("no cache")
                sys.exit(4)
        wait()
        """, "exit code 4",
    ),
    Incident(
        "an ignored exception after the real one", (1,), _FAILED,
        """
        class Held:
            def __del__(self): raise OSError("handle is closed")
        meet()
        if RANK == 1:
            held = Held()
            raise KeyError("label")
        wait()
        """, "KeyError: 'label'",
    ),
    Incident(
        "a warning after the traceback", (2,), _FAILED,
        """
        import atexit
        meet()
        if RANK == 2:
            atexit.register(lambda: print("resource_tracker: There appear to be 1 leaked semaphore", file=sys.stderr))
            raise IndexError("index 10 is out of bounds for axis 0 with size 10")
        wait()
        """, "index 10 is out of bounds",
    ),
    Incident(
        "the same error on three ranks of four", (1,), _FAILED,
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\nmeet()\nif RANK: {}['x']\nmeet('end') if 0 else time.sleep(1)",
        "ranks 1, 2 and 3",
    ),
    Incident(
        "an error that a pipe brings late", (1,), _FAILED,
        """
        import torch
        dist = group()
        dist.all_reduce(torch.ones(1))
        if RANK == 1:
            raise IndexError("token 50257 is out of range")
        dist.all_reduce(torch.ones(1))
        """, "token 50257 is out of range", "", 2,
        "bash -c 'set -o pipefail; python t.py 2>&1 | (trap \"\" TERM; sleep 2; exec cat)'", _TORCH,
    ),
    Incident(
        "one rank raises, the others when a pipe to it closes", (0,), _FAILED,
        """
        from multiprocessing.connection import Client, Listener
        if RANK == 0:
            listener = Listener("hub", "AF_UNIX", backlog=8)
            meet()
            peers = [listener.accept() for _ in range(WORLD - 1)]
            raise ArithmeticError("diverged")
        meet()
        Client("hub", "AF_UNIX").recv()
        """, "diverged",
    ),
    Incident(
        "a rank ends well and the others' sockets break", (3,), Reason.RANK_LEFT_EARLY,
        """
        import socket
        if RANK == 3:
            with socket.create_server(("127.0.0.1", 0), backlog=8) as server:
                pathlib.Path("port.part").write_text(str(server.getsockname()[1]))
                os.rename("port.part", "port")
                peers = [server.accept()[0] for _ in range(WORLD - 1)]
                meet()
            os._exit(0)
        while not pathlib.Path("port").exists():
            time.sleep(0.002)
        peer = socket.create_connection(("127.0.0.1", int(pathlib.Path("port").read_text())))
        meet()
        while True:
            peer.sendall(bytes(1 << 16))
        """, "left with exit code 0",
    ),
    Incident(
        "no space on the disk", (1,), _FAILED, _one(1, "raise OSError(28, os.strerror(28), 'c.pt')"),
        "No space left", "space", world=2,
    ),
    Incident(
        "an input that isn't there", (0, 1), _FAILED, "open('data/train.csv')",
        "data/train.csv", "code folder", world=2,
    ),
    Incident(
        "too little memory by rlimit", (1,), _FAILED,
        _one(1, "import resource; resource.setrlimit(resource.RLIMIT_AS, (1 << 29,) * 2); bytearray(1 << 30)"),
        "MemoryError", "memory", world=2,
    ),
    Incident(
        "a process pool's worker raises", (1,), _FAILED,
        """
        from concurrent.futures import ProcessPoolExecutor
        def work(n): return 1 // n
        meet()
        if RANK == 1:
            with ProcessPoolExecutor(1) as pool:
                pool.submit(work, 0).result()
        wait()
        """, "modulo by zero", world=2,
    ),
)  # fmt: skip

_CODES_AND_SIGNALS = (
    *(
        Incident(f"exit code {code}", (rank,), _FAILED, _one(rank, f"sys.exit({code})"), f"exit code {code}")
        for rank, code in enumerate((4, 64, 200, 254))
    ),
    Incident("exit with -1", (1,), _FAILED, _one(1, "sys.exit(-1)"), "exit code 255", world=2),
    Incident("os.abort", (2,), _KILLED, _one(2, "os.abort()"), "SIGABRT"),
    *(
        Incident(f"ends itself with {name}", (rank,), _KILLED, _one(rank, f"os.kill(os.getpid(), signal.{name})"), name)
        for rank, name in enumerate(("SIGFPE", "SIGILL", "SIGHUP", "SIGUSR1"))
    ),
    Incident(
        "a null pointer with faulthandler on", (1,), _KILLED, _one(1, "import ctypes; ctypes.string_at(0)"), "SIGSEGV",
        command="python -X faulthandler t.py", world=2,
    ),
    Incident(
        "two ranks are killed at once", (1, 3), _KILLED,
        """
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        pathlib.Path(f"pid.{RANK}").write_text(str(os.getpid()))
        meet()
        if RANK == 0:
            for rank in (1, 3):
                os.kill(int(pathlib.Path(f"pid.{rank}").read_text()), signal.SIGKILL)
        if RANK in (0, 2):
            time.sleep(1)
        wait()
        """, "SIGKILL",
    ),
    Incident(
        "out of memory by cgroup, below a shell", (0,), _KILLED,
        """
        meet()
        if RANK == 0:
            pathlib.Path(os.environ["INCIDENT_CGROUP"], "cgroup.procs").write_text(str(os.getpid()))
            held = [os.urandom(1 << 20) for _ in range(1 << 12)]
        wait()
        """, "SIGKILL", "memory", 2, "python t.py; code=$?; echo ended with $code; exit $code", _CGROUP,
    ),
    Incident(
        "ends itself well only by its own SIGTERM handler", (1,), _FAILED,
        _one(1, "signal.signal(signal.SIGTERM, lambda *_: sys.exit(5)); os.kill(os.getpid(), signal.SIGTERM); wait()"),
        "exit code 5", world=2,
    ),
)  # fmt: skip

_COMMANDS = (
    Incident("a name that a module lacks", (0, 1, 2, 3), _COMMAND, "from os import nothing", "nothing"),
    Incident(
        "wrong indentation in an imported file", (0, 1), _COMMAND, "import model", "IndentationError", world=2,
        files=(("model.py", "def f():\nreturn 1\n"),),
    ),
    Incident("a missing module by -m", (0, 1), _COMMAND, command="python -m trainer.main", says="trainer", world=2),
    Incident("a script that may not be run", (0, 1), _COMMAND, "pass", "ermission denied", command="./t.py", world=2),
    Incident("a shell's syntax error", (0, 1), _COMMAND, command="python t.py ||", says="syntax error", world=2),
    Incident(
        "an option without its value", (0, 1), _COMMAND,
        "import argparse\nall = argparse.ArgumentParser()\nall.add_argument('--lr', type=float)\nall.parse_args()",
        "argument --lr", command="python t.py --lr fast", world=2,
    ),
    Incident("a module missing on one rank", (2,), _COMMAND, _one(2, "import nosuchpackage.part"), "nosuchpackage"),
)  # fmt: skip

_WITH_TORCH = (
    Incident(
        "rank 0, host of the store, leaves early", (0,), Reason.RANK_LEFT_EARLY,
        """
        import torch
        dist = group()
        for step in range(5 if RANK == 0 else 6):
            dist.all_reduce(torch.ones(1))
        os._exit(0)
        """, "left with exit code 0", "", 2, needs=_TORCH,
    ),
    Incident(
        "leaves a barrier out", (2,), Reason.RANK_LEFT_EARLY,
        "dist = group()\nif RANK != 2: dist.barrier()\nos._exit(0)", "left with exit code 0", "", 3, needs=_TORCH,
    ),
    Incident(
        "the others wrap what they got", (1,), _FAILED,
        """
        import torch
        class StepFailed(Exception): pass
        dist = group()
        if RANK == 1:
            raise TypeError("labels must be integers")
        try:
            dist.all_reduce(torch.ones(1))
        except RuntimeError as error:
            raise StepFailed("step 0") from error
        """, "labels must be integers", "", 2, needs=_TORCH,
    ),
    Incident(
        "a barrier in the clean-up fails too", (1,), _FAILED,
        """
        import datetime, torch
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        dist = group(timeout=datetime.timedelta(seconds=2))
        try:
            if RANK == 1:
                raise ValueError("empty batch")
            dist.all_reduce(torch.ones(1))
        finally:
            dist.barrier()
        """, "empty batch", "", 2, needs=_TORCH,
    ),
    Incident(
        "a wrong shape in forward", (0, 1), _FAILED,
        """
        import torch
        group()
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))
        model(torch.ones(2, 5))
        """, "cannot be multiplied", "", 2, needs=_TORCH,
    ),
    Incident(
        "a data-loader worker can't read", (1,), _FAILED,
        """
        import torch
        class Images(torch.utils.data.Dataset):
            def __len__(self): return 8
            def __getitem__(self, index):
                return index if RANK == 0 else open(f"image{index}.jpg")
        dist = group()
        for batch in torch.utils.data.DataLoader(Images(), num_workers=2):
            dist.all_reduce(batch)
        """, "image0.jpg", "", 2, needs=_TORCH,
    ),
    Incident(
        "a data-loader worker has a segmentation fault", (0,), _FAILED,
        """
        import torch
        class Images(torch.utils.data.Dataset):
            def __len__(self): return 8
            def __getitem__(self, index):
                if RANK == 0 and index == 3: os.kill(os.getpid(), signal.SIGSEGV)
                return index
        dist = group()
        for batch in torch.utils.data.DataLoader(Images(), num_workers=2):
            dist.all_reduce(batch)
        """, "DataLoader worker", "", 2, needs=_TORCH,
    ),
    Incident(
        "the store's port is taken", (0,), _FAILED,
        """
        import socket, torch.distributed as dist
        if RANK == 0:
            held = socket.create_server(("127.0.0.1", 0))
            dist.TCPStore("127.0.0.1", held.getsockname()[1], WORLD, is_master=True)
        wait()
        """, "EADDRINUSE", "port", 2, needs=_TORCH,
    ),
    Incident(
        "killed in the middle of training", (1,), _KILLED,
        """
        import torch
        dist = group()
        for step in range(1000):
            dist.all_reduce(torch.ones(1))
            if RANK == 1 and step == 50:
                os.kill(os.getpid(), signal.SIGKILL)
        """, "SIGKILL", "", 2, needs=_TORCH,
    ),
    Incident(
        "one of the spawned processes of a rank raises", (0,), _FAILED,
        """
        import torch.multiprocessing as mp
        def work(index):
            if index == 1: raise ZeroDivisionError("scale is 0")
        if __name__ == "__main__":
            meet()
            if RANK == 0:
                mp.spawn(work, nprocs=2)
            wait()
        """, "scale is 0", "", 2, needs=_TORCH,
    ),
    Incident(
        "too much memory asked of torch", (1,), _FAILED,
        "import torch\nmeet()\nif RANK == 1: torch.empty(1 << 46)\nwait()", "memory", "memory", 2, needs=_TORCH,
    ),
    Incident(
        "a torchrun of the job's own with a killed rank", (0,), _FAILED, "", "torchrun's rank 0", "", 1,
        "torchrun --standalone --nproc-per-node 2 inner.py", _TORCH,
        (("inner.py", "import os, time\nif os.environ['RANK'] == '0': os.kill(os.getpid(), 9)\ntime.sleep(60)\n"),),
    ),
)  # fmt: skip

_MENDED = (
    Incident(
        "a prefetching thread raises, the main thread gives up later", (2,), _FAILED,
        """
        import queue, threading
        batches = queue.Queue()
        def prefetch():
            raise ValueError("image header is bad")
        meet()
        if RANK == 2:
            threading.Thread(target=prefetch, daemon=True).start()
            batches.get(timeout=1)
        wait()
        """, "image header is bad",
    ),
    Incident(
        "500 lines after the traceback", (1,), _FAILED,
        """
        import atexit
        def summary():
            for n in range(500): print(f"profiler: aten::op{n:<4} {n * 3.7:9.1f} us  self {n * 1.2:9.1f} us")
        meet()
        if RANK == 1:
            atexit.register(summary)
            raise RuntimeError("loss scale fell to 0")
        wait()
        """, "loss scale fell to 0",
    ),
    Incident(
        "the kernel kills a child process for its memory", (0,), _FAILED,
        """
        import subprocess
        grow = ("import os, pathlib; "
            "pathlib.Path(os.environ['INCIDENT_CGROUP'], 'cgroup.procs').write_text(str(os.getpid())); "
            "held = [os.urandom(1 << 20) for _ in range(1 << 12)]")
        meet()
        if RANK == 0: subprocess.run([sys.executable, "-c", grow], check=True)
        wait()
        """, "SIGKILL", "memory", 2, needs=_CGROUP,
    ),
    Incident(
        "an assertion in C", (2,), _KILLED,
        _one(2, "import ctypes; ctypes.CDLL(None).__assert_fail(b'n > 0', b'decode.c', 88, b'read_block')"),
        "n > 0",
    ),
    Incident(
        "prints its own error and ends with exit code 0", (2,), Reason.RANK_LEFT_EARLY,
        """
        import torch, traceback
        dist = group()
        shards = ["a.tar", "b.tar"]
        try:
            shard = shards[RANK]
        except Exception:
            traceback.print_exc()
            os._exit(0)
        for step in range(3):
            dist.all_reduce(torch.ones(1))
        """, "list index out of range", "", 3, needs=_TORCH,
    ),
    Incident(
        "a launcher sees late that its process is gone", (2,), _FAILED,
        """
        import subprocess
        meet()
        if RANK == 2:
            worker = subprocess.run(["sh", "-c", "kill -9 $$"])
            pathlib.Path("gone").touch()
            time.sleep(1.3)
            sys.exit(f"RuntimeError: the worker was ended by signal {-worker.returncode}")
        while not pathlib.Path("gone").exists(): time.sleep(0.002)
        if RANK == 0: raise ConnectionResetError("Connection reset by peer")
        wait()
        """, "the worker was ended by signal 9",
    ),
)  # fmt: skip

RULES_MORE: tuple[Incident, ...] = (*_RAISED, *_CODES_AND_SIGNALS, *_COMMANDS, *_WITH_TORCH, *_MENDED)
