"""The incidents that blame is judged by. No rule is made or changed with these: new kinds go to the others.

They were written, with their labels, by somebody who hadn't read the rules, on 21 November 2026: 40 of them, of which
the first run had 34 right (rank 39, reason 40, sentence 34, advice 39). The rules were mended for five of the six
misses, and these five are in `former_held_out_set` since. The sixth is here, and wrong still: the first to fail is the
last to exit.
"""

from __future__ import annotations

from drumbeat.model.states import Reason
from tests.support.incidents.incident import Incident

_TORCH = frozenset({"torch"})
_FAILED, _KILLED, _COMMAND = Reason.RANK_FAILED, Reason.RANK_KILLED, Reason.BAD_COMMAND
_LEFT = Reason.RANK_LEFT_EARLY


def _one(rank: int, statement: str) -> str:
    return f"meet()\nif RANK == {rank}:\n    {statement}\nwait()\n"


_RAISED = (
    Incident(
        "the loss of one rank is NaN, found three calls deep", (3,), _FAILED,
        """
        def check(loss): assert loss == loss, f"loss is {loss} at step 412"
        def step(): check(float("inf") - float("inf"))
        def train():
            for _ in range(3): step()
        meet()
        if RANK == 3: train()
        wait()
        """, "loss is nan at step 412",
    ),
    Incident(
        "a key that the config lacks", (0, 1), _FAILED,
        "import json\nconfig = json.loads(pathlib.Path('config.json').read_text())\nrate = config['learning_rate']",
        "KeyError: 'learning_rate'", world=2, files=(("config.json", '{"learing_rate": 0.1}'),),
    ),
    Incident(
        "a config that isn't YAML", (0, 1), _FAILED,
        "import yaml\nwith open('config.yml') as file:\n    config = yaml.safe_load(file)",
        "mapping values are not allowed here", world=2, files=(("config.yml", "lr: 0.1\nmodel: name: vit\n"),),
    ),
    Incident(
        "one rank may not read the checkpoint", (1,), _FAILED,
        """
        pathlib.Path(f"last.{RANK}.pt").touch(mode=0)
        meet()
        if RANK == 1:
            if is_root := os.geteuid() == 0: os.seteuid(65534)
            try:
                open("last.1.pt", "rb")
            finally:
                if is_root: os.seteuid(0)
        wait()
        """, "ermission denied", world=2,
    ),
    Incident(
        "too deep a recursion", (0,), _FAILED,
        """
        def walk(node): return walk(node["children"])
        node = {}
        node["children"] = node
        meet()
        if RANK == 0: walk(node)
        wait()
        """, "maximum recursion depth exceeded",
    ),
    Incident(
        "the first to fail is the last to exit", (3,), _FAILED,
        """
        import atexit
        first = pathlib.Path("first.pid")
        def outlast():
            while pathlib.Path("/proc", first.read_text()).exists(): time.sleep(0.01)
            time.sleep(1)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if RANK == 1: first.write_text(str(os.getpid()))
        meet()
        if RANK == 3:
            atexit.register(outlast)
            raise ValueError("label 11 of 10")
        if RANK == 1:
            time.sleep(0.5)
            raise TimeoutError("no gradients from rank 3")
        time.sleep(2)
        wait()
        """, "label 11 of 10",
    ),
    Incident(
        "an error at exit after the real one", (1,), _FAILED,
        """
        import atexit
        def finish(): raise ConnectionError("run 17 could not be uploaded")
        meet()
        if RANK == 1:
            atexit.register(finish)
            raise TypeError("unsupported operand type(s) for +: 'float' and 'NoneType'")
        wait()
        """, "unsupported operand",
    ),
    Incident(
        "a chain of three", (0,), _FAILED,
        """
        def read(): return {}["image_size"]
        def build():
            try:
                return read()
            except KeyError as error:
                raise ValueError("incomplete config") from error
        def main():
            try:
                build()
            except ValueError as error:
                raise RuntimeError("can't start training") from error
        meet()
        if RANK == 0: main()
        wait()
        """, "image_size", world=2,
    ),
    Incident(
        "stderr goes to a file of the job's own", (2,), _FAILED,
        _one(2, "sys.stderr = open('run.log', 'w'); raise ValueError('nobody sees this')"), "exit code 1",
    ),
    Incident(
        "an error in another language", (3,), _FAILED,
        _one(3, "raise ValueError('Größe stimmt nicht: 形状が違います (3, 224) ≠ (3, 256)')"), "形状が違います",
    ),
    Incident(
        "a coloured traceback", (0,), _FAILED,
        r"""
        import traceback
        def show(kind, error, where):
            for line in "".join(traceback.format_exception(kind, error, where)).splitlines():
                name, colon, rest = line.partition(": ")
                print(f"\x1b[1;35m{name}\x1b[0m{colon}\x1b[35m{rest}\x1b[0m", file=sys.stderr)
        sys.excepthook = show
        meet()
        if RANK == 0:
            raise RuntimeError("gradient norm is inf")
        wait()
        """, "RuntimeError: gradient norm is inf",
    ),
    Incident(
        "a traceback in a box", (2,), _FAILED,
        r"""
        def show(kind, error, where):
            print("╭─────────────── Traceback (most recent call last) ────────────────╮", file=sys.stderr)
            print("│ /job/code/t.py:21 in <module>                                     │", file=sys.stderr)
            print("│                                                                   │", file=sys.stderr)
            print("│   20 if RANK == 2:                                                │", file=sys.stderr)
            print("│ ❱ 21     raise ValueError(f'vocabulary of {size}')                │", file=sys.stderr)
            print("╰───────────────────────────────────────────────────────────────────╯", file=sys.stderr)
            print(f"{kind.__name__}: {error}\n", file=sys.stderr)
        sys.excepthook = show
        meet()
        if RANK == 2:
            raise ValueError("vocabulary of 32,000, embedding of 31,999")
        wait()
        """, "ValueError: vocabulary of 32,000, embedding of 31,999",
    ),
    Incident(
        "every rank serves metrics at the same port", (1, 2, 3), _FAILED,
        """
        import http.server
        handler = http.server.BaseHTTPRequestHandler
        http.server.HTTPServer.allow_reuse_address = False
        if RANK == 0:
            server = http.server.HTTPServer(("127.0.0.1", 0), handler)
            pathlib.Path("port").write_text(str(server.server_port))
        meet()
        if RANK:
            server = http.server.HTTPServer(("127.0.0.1", int(pathlib.Path("port").read_text())), handler)
        wait()
        """, "Address already in use", "port",
    ),
    Incident(
        "rank 0 can't download", (0,), _FAILED,
        """
        import socket, urllib.request
        if RANK == 0:
            with socket.create_server(("127.0.0.1", 0)) as server:
                port = server.getsockname()[1]
            urllib.request.urlopen(f"http://127.0.0.1:{port}/train.tar")
        meet()
        """, "Connection refused", world=3,
    ),
    Incident(
        "says why in its log, then exit 3", (1,), _FAILED,
        """
        import logging
        logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level="INFO")
        meet()
        logging.info("resuming")
        if RANK == 1:
            logging.critical("No checkpoint found in runs/7, stopping")
            sys.exit(3)
        wait()
        """, "No checkpoint found in runs/7", world=2,
    ),
    Incident(
        "what is spawned can't be pickled", (1,), _FAILED,
        """
        import multiprocessing
        if __name__ == "__main__":
            meet()
            if RANK == 1:
                multiprocessing.get_context("spawn").Process(target=lambda: None).start()
            wait()
        """, "Can't pickle", world=2,
    ),
    Incident(
        "a child process raises and its rank exits", (3,), _FAILED,
        """
        import multiprocessing
        def decode(): raise ValueError("frame 9 can't be decoded")
        meet()
        if RANK == 3:
            child = multiprocessing.Process(target=decode)
            child.start()
            child.join()
            print("preprocessing failed, giving up", file=sys.stderr)
            sys.exit(1)
        wait()
        """, "frame 9 can't be decoded",
    ),
)  # fmt: skip

_SIGNALS = (
    Incident(
        "C++ throws what nobody catches", (1,), _KILLED,
        """
        meet()
        if RANK == 1:
            print("terminate called after throwing an instance of 'c10::Error'", file=sys.stderr)
            print("  what():  CUDA error: device-side assert triggered", file=sys.stderr)
            print("CUDA kernel errors might be asynchronously reported at some other API call.", file=sys.stderr)
            print("Exception raised from c10_cuda_check_implementation (most recent call first):", file=sys.stderr)
            print("frame #0: c10::Error::Error(c10::SourceLocation) + 0x98 (0x7f1b2c libc10.so)", file=sys.stderr)
            print("frame #1: <unknown function> + 0x1d40 (0x7f1b2d libtorch_cuda.so)", file=sys.stderr)
            sys.stderr.flush()
            os.abort()
        wait()
        """, "device-side assert triggered", world=2,
    ),
    Incident(
        "a mapped file is cut short", (2,), _KILLED,
        """
        import mmap
        meet()
        if RANK == 2:
            with open("cache.bin", "w+b") as file:
                file.truncate(1 << 16)
                mapped = mmap.mmap(file.fileno(), 1 << 16)
                file.truncate(0)
            mapped[1 << 15]
        wait()
        """, "SIGBUS",
    ),
    Incident(
        "C divides by zero", (3,), _KILLED, _one(3, "import ctypes; ctypes.CDLL(None).div(1, 0)"), "SIGFPE",
    ),
    Incident(
        "too large a file", (1,), _KILLED,
        """
        import resource
        meet()
        if RANK == 1:
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
            resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
            with open("epoch1.pt", "wb") as file:
                file.write(bytes(1 << 20))
        wait()
        """, "SIGXFSZ", world=2,
    ),
    Incident(
        "Ctrl-C while an epoch runs, with a last save", (2,), _KILLED,
        """
        def epoch():
            try:
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(5)
            finally:
                print("saved last.pt", flush=True)
        meet()
        if RANK == 2: epoch()
        wait()
        """, "SIGINT",
    ),
    Incident(
        "a segmentation fault below a wrapper with set -e", (1,), _KILLED,
        _one(1, "import ctypes; ctypes.string_at(8)"), "SIGSEGV", world=2, command="bash run.sh",
        files=(("run.sh", "#!/bin/bash\nset -e\nexport OMP_NUM_THREADS=1\npython t.py\necho all done\n"),),
    ),
)  # fmt: skip

_COMMANDS = (
    Incident(
        "a package missing deep in an import", (0, 1), _COMMAND, "from nets import build", "einopz", "Install", 2,
        files=(
            ("nets/__init__.py", "from nets.zoo import build\n"), ("nets/zoo.py", "import nets.layers\nbuild = None\n"),
            ("nets/layers.py", "from einopz.layers import Rearrange\n"),
        ),
    ),
    Incident(
        "a choice that the command doesn't have", (0, 1), _COMMAND,
        """
        import argparse
        parser = argparse.ArgumentParser()
        parser.add_argument("--optimizer", choices=["sgd", "adam"])
        parser.parse_args()
        """, "invalid choice: 'adamm'", "", 2, "python t.py --optimizer adamm",
    ),
    Incident(
        "a package that can't be run by -m", (0, 1), _COMMAND, "", "trainer", "", 2, "python -m trainer",
        files=(("trainer/__init__.py", ""), ("trainer/mian.py", "print('training')\n")),
    ),
)  # fmt: skip

_WITH_TORCH = (
    Incident(
        "rank 0 evaluates alone and divides by zero", (0,), _FAILED,
        """
        import torch
        dist = group()
        for step in range(3):
            dist.all_reduce(torch.ones(1))
        if RANK == 0:
            correct = seen = 0
            print("accuracy", correct / seen)
        dist.barrier()
        """, "ZeroDivisionError: division by zero", "", 3, needs=_TORCH,
    ),
    Incident(
        "a sample of another shape on one rank", (2,), _FAILED,
        """
        import numpy
        batch = numpy.zeros((4, 3, 256))
        meet()
        if RANK == 2:
            batch[0] = numpy.zeros((3, 224))
        wait()
        """, "from shape (3,224) into shape (3,256)", "", 4, needs=_TORCH,
    ),
    Incident(
        "an error below a pipe to tee", (1,), _FAILED,
        """
        import torch
        dist = group()
        dist.all_reduce(torch.ones(1))
        if RANK == 1:
            raise IndexError("token 50257 is out of range")
        dist.all_reduce(torch.ones(1))
        """, "token 50257 is out of range", "", 2,
        "bash -c 'set -o pipefail; python t.py 2>&1 | (trap \"\" TERM; exec tee log.$RANK)'", _TORCH,
    ),
    Incident(
        "rank 0 is busy for longer than a collective waits", (0, 1), _FAILED,
        """
        import datetime, torch
        dist = group(timeout=datetime.timedelta(seconds=2))
        dist.all_reduce(torch.ones(1))
        if RANK == 0:
            time.sleep(20)
        dist.all_reduce(torch.ones(1))
        """, "Timed out waiting 2000ms", "", 2, needs=_TORCH,
    ),
    Incident(
        "one rank broadcasts while the other reduces", (0, 1), _FAILED,
        """
        import datetime, torch
        dist = group(timeout=datetime.timedelta(seconds=3))
        if RANK == 0:
            dist.all_reduce(torch.ones(4))
            dist.barrier()
        else:
            dist.broadcast(torch.ones(4), src=0)
            dist.broadcast(torch.ones(4), src=0)
        """, "RuntimeError", "", 2, needs=_TORCH,
    ),
    Incident(
        "samples of different sizes in a data-loader worker", (1,), _FAILED,
        """
        import torch
        class Texts(torch.utils.data.Dataset):
            def __len__(self): return 8
            def __getitem__(self, index): return torch.ones(5 if RANK == 1 and index == 6 else 4)
        dist = group()
        for batch in torch.utils.data.DataLoader(Texts(), batch_size=2, num_workers=2):
            dist.all_reduce(batch)
        """, "Trying to resize storage", "", 2, needs=_TORCH,
    ),
    Incident(
        "a checkpoint cut short", (0, 1), _FAILED,
        """
        import torch
        if RANK == 0:
            torch.save({"weights": torch.ones(1000)}, "part.pt")
            pathlib.Path("last.pt").write_bytes(pathlib.Path("part.pt").read_bytes()[:2000])
        meet()
        torch.load("last.pt")
        """, "central directory", "", 2, needs=_TORCH,
    ),
    Incident(
        "parameters without a gradient", (0, 1), _FAILED,
        """
        import torch
        group()
        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.used, self.unused = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
            def forward(self, x): return self.used(x)
        model = torch.nn.parallel.DistributedDataParallel(Net())
        for _ in range(2):
            model(torch.ones(2, 4)).sum().backward()
        """, "Expected to have finished reduction in the prior iteration", "", 2, needs=_TORCH,
    ),
    Incident(
        "leaves before the group is made", (1,), _LEFT,
        """
        import datetime
        if RANK == 1:
            print("this rank only checks its arguments")
            sys.exit(0)
        group(timeout=datetime.timedelta(seconds=4))
        """, "left with exit code 0", "", 2, needs=_TORCH,
    ),
)  # fmt: skip

JUDGE: tuple[Incident, ...] = (*_RAISED, *_SIGNALS, *_COMMANDS, *_WITH_TORCH)
