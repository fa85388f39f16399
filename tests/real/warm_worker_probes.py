"""What scripts can see of how they were started: each is run cold and in a warm worker by the same process.

`python warm_worker_probes.py FOLDER PROBE…` prints how each ended and what it wrote, as JSON; tests compare the two. After
`--light`, an empty package stands in for torch: what the hook changes doesn't depend on what it imports.
"""
# ruff: noqa: E501 - a script may be one line

from __future__ import annotations

import json
import os
import re
import select
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from drumbeat.launchers.warm_start_fit import PER_ROUND
from drumbeat.model.supervisor import ProcessStart, WarmPoolOrder
from drumbeat.node.supervisor import rank_start
from drumbeat.node.supervisor.confinement import Subreaper
from drumbeat.node.supervisor.warm_worker import WarmWorker, write_hook


@dataclass(frozen=True)
class Probe:
    """A script with its command. files: beside it; variables: beside the usual ones; cold: why it must start cold."""

    script: str
    command: str = "python train.py --lr 0.1 two\\ words"
    files: dict[str, str] = field(default_factory=dict[str, str])
    variables: dict[str, str] = field(default_factory=dict[str, str])
    cold: str = ""


STATE = """
import os, resource, signal, sys, threading
print(sys.argv, sys.orig_argv, open("/proc/self/cmdline").read().split("\\0"))
print(__name__, __file__, __spec__, __package__, __builtins__.__name__, sorted(globals()), sys.path, sys.prefix)
print(os.getcwd(), sorted(os.listdir("/proc/self/fd")), os.getsid(0) == os.getpgrp() == os.getpid())
print([(n.name, str(signal.getsignal(n))) for n in sorted(signal.valid_signals()) if hasattr(n, "name")])
print(signal.pthread_sigmask(signal.SIG_BLOCK, ()), [resource.getrlimit(n) for n in range(16)], os.umask(0o22))
print(os.getpriority(os.PRIO_PROCESS, 0), os.sched_getscheduler(0), os.sched_getaffinity(0))
print(sys.flags, sys.warnoptions, sys._xoptions, sys.getrecursionlimit(), sys.getswitchinterval(), sys.dont_write_bytecode)
print(sys.stdin.isatty(), sys.stdout.name, sys.stdout.encoding, sys.stdout.line_buffering, sys.stdout.write_through)
print(sorted((n, v) for n, v in os.environ.items() if n != "DRUMBEAT_KEEPER"))
print([open(f"/proc/self/task/{n}/comm").read() for n in sorted(os.listdir("/proc/self/task"))][0])
print([each.name for each in threading.enumerate()], "sitecustomize" in sys.modules)
import gc, locale, logging, random, warnings
print(gc.isenabled(), gc.get_threshold(), locale.setlocale(locale.LC_ALL), logging.root.handlers, logging.root.level)
import numpy, torch
print(torch.get_num_threads(), torch.get_default_dtype(), torch.is_grad_enabled())
has_own_seed = torch.initial_seed() != 67280421310721  # Some builds of torch draw one in each process.
print(has_own_seed, None if has_own_seed else torch.rand(2), torch.manual_seed(3), torch.rand(2), random.Random(3).random(), numpy.random.RandomState(3).rand())
print(len([each for each in os.listdir("/proc/self/task")]), warnings.filters)
"""
DATA = """
import torch
class Numbers(torch.utils.data.Dataset):
    def __len__(self): return 8
    def __getitem__(self, n): return torch.tensor(n)
if __name__ == "__main__":
    for way in ("fork", "spawn", "forkserver"):
        loader = torch.utils.data.DataLoader(Numbers(), 2, num_workers=2, multiprocessing_context=way)
        print(way, [each.tolist() for each in loader], flush=True)
"""
PROCESSES = """
import multiprocessing, os, pickle, sys
class Point:
    def __init__(self, x): self.x = x
def work(point): return point.x, __name__, sys.argv, sys.path, os.environ.get("PYTHONPATH")
if __name__ == "__main__":
    print(pickle.loads(pickle.dumps(Point(3))).x, pickle.dumps(Point(3)))
    for way in ("fork", "spawn", "forkserver"):
        with multiprocessing.get_context(way).Pool(1) as pool:
            print(way, pool.map(work, [Point(1)]), flush=True)
"""
CHILD = """
import asyncio, os, subprocess, sys
told = "import os, sys; print(sys.path, sorted(n for n in os.environ if n != '_'), 'torch' in sys.modules, sorted(os.listdir('/proc/self/fd')))"
subprocess.run([sys.executable, "-c", told], check=True)
async def main():
    process = await asyncio.create_subprocess_exec("cat", stdout=asyncio.subprocess.PIPE)
    return await process.communicate()
print(asyncio.run(main()), sys.stdin.read() == "")
"""
TRAINING = """
import torch
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
optimizer = torch.optim.AdamW(model.parameters(), 0.01)
for step in range(20):
    optimizer.zero_grad()
    loss = model(torch.randn(32, 8)).square().mean()
    loss.backward()
    optimizer.step()
    print(step, loss.item().hex())
"""
ENDS = {
    "code": "import sys; sys.exit(3)",
    "text": "import sys; sys.exit('no data')",
    "raise": "def f(): raise ValueError('bad ✓')\ntry:\n    f()\nexcept ValueError as e:\n    raise RuntimeError('worse') from e",
    "unsaid": "import os; print('lost'); os._exit(4)",
    "segv": "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)",
    "abort": "import os; os.abort()",
    "term": "import os, signal; os.kill(os.getpid(), signal.SIGTERM)",
    "interrupt": "import os, signal; os.kill(os.getpid(), signal.SIGINT)",
    "syntax": "print('never')\nif True print(1)",
    "atexit": "import atexit, torch\natexit.register(print, 'first')\natexit.register(print, 'last')\nprint('main')",
    "thread": "import threading, time\nthreading.Thread(target=lambda: (time.sleep(0.2), print('later'))).start()\nprint('main')",
    "buffer": "import sys, os\nprint('out')\nprint('error', file=sys.stderr)\nos.write(1, b'raw\\n')",
    "input": "print(input('? '))",
    "fault": "import faulthandler, ctypes; faulthandler.enable(); ctypes.string_at(0)",
    "recursion": "def f(): f()\nf()",
    "usage": "import argparse; argparse.ArgumentParser(description='x').parse_args()",
    "warning": "import warnings; warnings.warn('old', DeprecationWarning); warnings.warn('new')",
}  # fmt: skip
SIMPLE = "import sys; print(sys.flags, sys.argv, __name__, sys.path[0], hash('a') if sys.flags.hash_randomization == 0 else '')"
PROBES = {
    "state": Probe(STATE),
    "state of an argument": Probe("", "python -c " + "'" + STATE.replace("__file__", "1").replace("'", '"') + "'"),
    "state of a module": Probe("", "python -m pack.run one", {"pack/__init__.py": "", "pack/run.py": STATE}),
    "state of a folder": Probe("", "python app one", {"app/__main__.py": STATE}),
    "data": Probe(DATA),
    "processes": Probe(PROCESSES),
    "child": Probe(CHILD),
    "training": Probe(TRAINING),
    **{f"end by {name}": Probe(text) for name, text in ENDS.items()},
    "-O": Probe("assert False\n" + SIMPLE, "python -O train.py"),
    "-W error": Probe(SIMPLE, "python -W error::UserWarning train.py"),
    "-X dev": Probe(SIMPLE, "python -X utf8 -X faulthandler train.py"),
    "-P": Probe(SIMPLE, "python -P train.py"),
    "hash seed": Probe(SIMPLE, variables={"PYTHONHASHSEED": "0"}),
    "buffered": Probe(ENDS["buffer"], variables={"PYTHONUNBUFFERED": "1"}),
    "time zone": Probe("import time, tempfile; print(time.tzname, tempfile.gettempdir())",
                       variables={"TZ": "Asia/Tokyo", "TMPDIR": "/var/tmp"}),
    "threads": Probe("import torch; print(torch.get_num_threads())", variables={"OMP_NUM_THREADS": "1"}),
    "folder": Probe(SIMPLE, 'cd sub && exec python ../train.py "$RANK"', {"sub/x": ""}),
    "own sitecustomize": Probe("import os, sys, sitecustomize; print(os.environ['SEEN'], sys.path, sitecustomize.__file__)",
                               files={"own/sitecustomize.py": "import os; os.environ['SEEN'] = os.environ['MASTER_PORT']"},
                               variables={"PYTHONPATH": "own"}),
    "failing sitecustomize": Probe("print('goes on')", files={"own/sitecustomize.py": "1 / 0"},
                                   variables={"PYTHONPATH": "own"}),
    "profile": Probe("print(__name__)", "python -m cProfile -s name -o /dev/null train.py"),
    "debugger": Probe("print(__name__)", "python -m pdb -c continue train.py"),
    "coverage": Probe("import sys; print(__name__, sys.argv)", "python -m coverage run --data-file=probe.coverage train.py x"),
    "link": Probe("import sys, helper; print(sys.path[0])", "python link.py", {"helper.py": ""}),
    "shadowed": Probe("print(1)", files={"queue.py": ""}, cold="queue.py replaces a module"),
    "shadowed by a package": Probe("print(1)", files={"numpy/__init__.py": ""}, cold="numpy replaces a module"),
    "threads set by script": Probe("import os\nos.environ['OMP_NUM_THREADS'] = '3'\nimport torch", cold="sets OMP_NUM_THREADS"),
    "logs set by a module": Probe("import later", files={"a/later.py": "import os\nos.environ.setdefault('TORCH_LOGS', 'x')"},
                                  cold="sets TORCH_LOGS"),
    "settings updated": Probe("import os\nos.environ.update(MKL_NUM_THREADS='2')", cold="sets MKL_NUM_THREADS"),
    "missing script": Probe("", "python other.py", cold="isn't a file or a folder"),
    "failing torch": Probe("import torch", files={"own/torch.py": "raise OSError('no libcudart')"},
                           variables={"PYTHONPATH": "own"}, cold="OSError: no libcudart"),
    "missing torch": Probe("import torch", files={"own/torch.py": "import absent_module"},
                           variables={"PYTHONPATH": "own"}, cold="absent_module"),
    "chatty torch": Probe("import torch", variables={"PYTHONVERBOSE": "1"}, cold="prints something"),
}  # fmt: skip
LIGHT = "import types\ncuda = types.SimpleNamespace(is_initialized=lambda: False)\n"
SETS = "import os\nos.environ['TORCHINDUCTOR_CACHE_DIR'] = os.environ['HOME'] = '/nowhere'\n"
"""A module of torch that sets variables, as the real one does; a script that doesn't import it mustn't see them."""
LIGHT_PROBES = tuple(name for name, one in PROBES.items() if not one.cold and "torch" not in one.script + one.command)
"""Those that work with `LIGHT` as torch."""
QUICK = ("threads set by script", "logs set by a module", "settings updated", "missing script", "failing torch")
"""Cold ones that need no torch."""


class Runs:
    """Runs of one probe in a folder."""

    def __init__(self, folder: Path, probe: Probe, *, is_light: bool) -> None:
        self.folder, self.probe = folder, probe
        self.last_on_path = [f"{folder}.light"] if is_light else []
        for name in self.last_on_path:
            (Path(name) / "torch").mkdir(parents=True)
            (Path(name) / "torch" / "__init__.py").write_text(LIGHT, encoding="utf-8")
            (Path(name) / "torch" / "_dynamo.py").write_text(SETS, encoding="utf-8")
        for name, text in {"train.py": probe.script, **probe.files}.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        (folder / "link.py").symlink_to("train.py")
        self.confinement = Subreaper(str(folder), "probe#1")

    def rank(self, number: int) -> ProcessStart:
        """The rank in a round, started by the server's own Python."""
        path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
        env = {"PATH": path, "LANG": "C.UTF-8", "RANK": "0", "MASTER_PORT": "2222", **self.probe.variables}
        own = [str(self.folder / env["PYTHONPATH"])] if "PYTHONPATH" in env else []
        if own or self.last_on_path:
            env["PYTHONPATH"] = ":".join([*own, *self.last_on_path])
        return ProcessStart(
            ("/bin/bash", "-c", self.probe.command), str(self.folder), str(self.folder / f"log{number}"), env, rank=0
        )

    def end(self, pid: int, number: int) -> dict[str, Any]:
        """Waits for the rank; returns how it ended and what it wrote."""
        _, status = os.waitpid(pid, 0)
        text = Path(self.rank(number).log).read_text(encoding="utf-8", errors="replace")
        text = re.sub(r"0x[0-9a-f]+|\d+\.\d+ seconds|\bpid \d+|Current thread \w+", "…", text)
        text = re.sub(r"\n\nExtension modules: .*", "", text)  # Those that were imported beforehand, too.
        return {"status": status, "log": re.sub(r"tmp\w{8}", "tmp", text)}

    def cold(self) -> dict[str, Any]:
        """As the first round starts it."""
        return self.end(rank_start.start(self.rank(1), self.confinement), 1)

    def warm(self) -> dict[str, Any]:
        """In an interpreter that was prepared for another round."""
        hook = f"{self.folder}.standby"
        write_hook(hook)
        before = self.rank(2)
        before.env["MASTER_PORT"] = "1111"
        worker = WarmWorker(before, self.confinement, hook)
        begun = time.monotonic()
        while worker.read():
            assert time.monotonic() < begun + 300, "the interpreter isn't ready"
            select.select([worker], [], [], 10)
        if worker.refusal:
            worker.end()
            os.waitpid(worker.pid, 0)
            return {"cold": worker.refusal}
        order = WarmPoolOrder(per_round=PER_ROUND)
        assert not (why := worker.difference(self.rank(2), order, worker.root)), why
        return self.end(worker.go(self.rank(2)), 2)


def main() -> None:
    """Runs probes, both ways where they can be warm."""
    results: dict[str, Any] = {}
    is_light, names = sys.argv[2] == "--light", sys.argv[2:]
    for number, name in enumerate(names[is_light:]):
        folder = Path(sys.argv[1]) / f"probe{number}"
        folder.mkdir()
        runs = Runs(folder, PROBES[name], is_light=is_light)
        results[name] = [runs.warm()] if PROBES[name].cold else [runs.warm(), runs.cold()]
    sys.stdout.write(json.dumps(results))


if __name__ == "__main__":
    main()
