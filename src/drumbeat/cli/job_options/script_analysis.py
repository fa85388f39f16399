"""Analyzes a script for `init`: finds it, reads its imports, and infers how its processes start."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from drumbeat.jobfile.reading.error_messages import nearest, words
from drumbeat.model.errors import SpecError

USUAL_NAMES = ("train.py", "main.py")
MAX_BYTES = 1 << 20
RANKS = 2
"""Processes on each node in a drafted file: the smallest number that needs a rendezvous."""


@dataclass(frozen=True)
class Framework:
    """A way to train in several processes."""

    modules: tuple[str, ...]
    """Modules that a script imports."""
    distribution: dict[str, Any]
    about: str
    """The explanation in the drafted file, after the module or class."""
    classes: tuple[str, ...] = ()
    """Classes that a script names, whatever module they come from."""


PYTORCH = {"type": "pytorch", "process_count_per_instance": RANKS}
MPI = {"type": "mpi", "process_count_per_instance": RANKS}
FRAMEWORKS = (
    Framework(("ray",), {"type": "ray"}, "the command runs once, beside the head of a Ray cluster on the job's nodes."),
    Framework(("horovod",), MPI, "its ranks are started by one mpirun."),
    Framework(("mpi4py",), MPI, "its ranks are started by one mpirun."),
    Framework(
        ("deepspeed",), PYTORCH, "each rank is started with the variables that deepspeed.init_distributed reads."
    ),
    Framework(
        ("lightning", "pytorch_lightning"),
        PYTORCH,
        "Trainer(devices=…, num_nodes=…) must say the same numbers as this file.",
    ),
    Framework(
        ("tensorflow.distribute",),
        {"type": "tensorflow"},
        "each node is a worker with TF_CONFIG.",
        ("MultiWorkerMirroredStrategy", "ParameterServerStrategy"),
    ),
    Framework(
        ("torch.distributed", "accelerate"),
        PYTORCH,
        "each rank is started with the variables that init_process_group reads, as by torchrun.",
        ("DistributedDataParallel",),
    ),
)
"""The first one that a script uses is taken."""


@dataclass(frozen=True)
class Script:
    """The dotted names that a script imports, and the attributes and names that it uses."""

    imports: frozenset[str] = field(default=frozenset())
    names: frozenset[str] = field(default=frozenset())
    is_readable: bool = True

    def imports_module(self, module: str) -> bool:
        """Whether the script imports this module, one below it, or something of it."""
        return any(one == module or one.startswith(f"{module}.") for one in self.imports)

    def names_class(self, name: str) -> bool:
        """Whether the script uses a class of this name, or imports one."""
        return name in self.names or any(one.rpartition(".")[2] == name for one in self.imports)


def find_script(script: Path | None, folder: Path) -> Path:
    """Returns the script. Raises SpecError where there is none, or several and none is named."""
    if script is not None:
        return _given(script)
    scripts = sorted(one.name for one in folder.glob("*.py"))
    usual = [name for name in USUAL_NAMES if name in scripts]
    if usual or len(scripts) == 1:
        return Path((usual or scripts)[0])
    what = (
        f"there are {len(scripts)} scripts here: {words(scripts[:6])}" if scripts else "there is no Python script here"
    )
    raise SpecError(what, where=str(folder), fix="Name the one to run: drumbeat init SCRIPT")


def _given(script: Path) -> Path:
    if script.is_dir():
        raise SpecError(
            "this is a folder", where=str(script), fix="Name the script in it: drumbeat init FOLDER/train.py"
        )
    if not script.is_file():
        names = [one.name for one in script.parent.iterdir()] if script.parent.is_dir() else []
        raise SpecError(
            "there is no such script", where=str(script), fix=nearest(script.name, names) or "Check the path."
        )
    if script.suffix in (".yml", ".yaml"):
        raise SpecError("this is a YAML file, not a script", where=str(script), fix=f"To run it: drumbeat run {script}")
    if script.suffix == ".ipynb":
        fix = f"Export it first: jupyter nbconvert --to script {script}"
        raise SpecError("this is a notebook, not a script", where=str(script), fix=fix)
    return script


def read_script(path: Path) -> Script:
    """Returns what a Python script imports and uses; nothing for one that can't be parsed."""
    with path.open("rb") as file:
        content = file.read(MAX_BYTES)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            tree = ast.parse(content)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return Script(is_readable=False)
    return Script(frozenset(_imports(tree)), frozenset(_names(tree)))


def _imports(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            yield from (f"{node.module}.{one.name}" for one in node.names)


def _names(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.Name):
            yield node.id


def find_framework(script: Script) -> tuple[Framework, str] | None:
    """Returns the framework by which the processes find each other, and its mark; None for a single process."""
    for framework in FRAMEWORKS:
        marks = [
            *(one for one in framework.modules if script.imports_module(one)),
            *(one for one in framework.classes if script.names_class(one)),
        ]
        if marks:
            return framework, marks[0]
    return None
