"""Runs before the script in a warm worker: imports what training scripts import, then waits for its round.

The supervisor writes this file, and a `sitecustomize.py` that calls it, to a folder at the front of PYTHONPATH. It runs
in the job's own Python (3.8 or later), so it uses only the standard library of that version. When the round begins, it
applies the state of a normally started rank (variables, log, module path), and returns: Python itself then runs the
job's script.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator
    from typing import Any

MODULES = (
    "numpy", "torch", "torch.distributed", "torch.nn.parallel", "torch.utils.data", "torch.optim", "torch._dynamo",
    "torch.profiler._cupti_monitor", "multiprocessing.popen_fork", "multiprocessing.queues",
    "multiprocessing.synchronize",
)  # fmt: skip
"""Modules that are imported if they exist. Their imports only define things: no computation, no threads, no CUDA
context.
"""
VARIABLE = "DRUMBEAT_STANDBY"
TITLE = "drumbeat:spare"
"""The title of the process until its round begins (`node.host.processes.SPARE`)."""
_FROZEN_BY_IMPORT = r"(?:OMP|GOMP|KMP|MKL|OPENBLAS|BLIS|NUMEXPR|NPY|ATEN|TORCH[A-Z]*|PYTORCH)_[A-Z0-9_]+"
"""Variables that modules read when they are imported: a script that sets one must do so before."""
_MAX_FILES, _MAX_BYTES = 500, 1 << 20
_CONFIG_BYTES, _POINTER_BYTES = 640, 8
"""How many bytes are searched for the script's path: more than `PyConfig` has in any version,
inside a larger struct.
"""
_FRESH: set[str] = set()
"""The first names of the modules that were imported in advance."""
_INSTALLED: set[str] = set()
"""The content of the layer of the job's environment when the modules were imported."""
_PTH = "zz_drumbeat_environment.pth"
"""The file that identifies a layer, `PTH` of `job_layer.py`, which can't be imported here: it runs in drumbeat's own
Python.
"""
_SKIPPED = ("__pycache__", "site-packages", "node_modules")


def main(here: str) -> None:
    """Prepares the interpreter, waits, and turns it into a rank. here: the folder of this file."""
    del sys.modules[__name__]
    _leave_path(here)
    _wait(int(os.environ.pop(VARIABLE)), here)


def _leave_path(here: str) -> None:
    if here in sys.path:
        sys.path.remove(here)
    sys.path_importer_cache.pop(here, None)
    folders = os.environ.pop("PYTHONPATH", "").split(":")
    if here in folders:
        folders.remove(here)
    if folders:
        os.environ["PYTHONPATH"] = ":".join(folders)


def _wait(number: int, here: str) -> None:
    import socket

    supervisor = socket.socket(fileno=number)
    supervisor.set_inheritable(False)
    with open("/proc/self/comm", encoding="utf-8", errors="surrogateescape") as file:
        title = file.read().rstrip("\n")
    _set_titles(TITLE)
    place = os.getcwd()
    try:
        why = _script_trouble(set()) or _prepare(supervisor, place, here)
    except BaseException as error:  # noqa: BLE001 (modules may raise anything when they are imported)
        why = f"the import of torch fails: {type(error).__name__}: {error}"
    supervisor.sendall((why or "ready").encode("utf-8", "replace")[:1000] + b"\n")
    if why:
        os._exit(0)
    while True:
        word, ancillary, _, _ = supervisor.recvmsg(1, socket.CMSG_SPACE(8))
        if not ancillary:
            os._exit(0)  # The supervisor is gone, or doesn't need this warm worker.
        files = list(memoryview(ancillary[0][2]).cast("i"))
        if word != b"m":
            break
        place = _answer_move(supervisor, files[0], place)
    log, order = files
    supervisor.close()
    try:
        _set_titles(title)
        _begin(log, order)
    except BaseException as error:  # noqa: BLE001 (`site` would ignore it, and run the script in the wrong round)
        os.write(log, f"drumbeat: the warm worker fails: {error!r}\n".encode("utf-8", "replace"))
        os._exit(70)


def _answer_move(supervisor: socket.socket, order: int, place: str) -> str:
    """Follows the job to another folder, and returns the working folder there; or answers why it can't, and ends."""
    try:
        given = _read(order)
        before, place = place, _moved(place, given)
        os.chdir(place)
        if sys.argv[0] not in ("-c", "-m") and not os.path.isabs(sys.argv[0]):
            _move_script(os.path.join(before, sys.argv[0]), os.path.join(place, sys.argv[0]))
        for name in ("PWD", "OLDPWD", "_"):
            if name in os.environ:
                os.environ[name] = _moved(os.environ[name], given)
        for path in [path for path in sys.path_importer_cache if _moved(path, given) != path]:
            del sys.path_importer_cache[path]
        sys.path[:] = [_moved(path, given) for path in sys.path]
        why = _module_left(given) or _move_layer(given) or _script_trouble(set(_FRESH))
    except BaseException as error:  # noqa: BLE001 (any error leads to a cold start instead)
        why = f"a warm worker can't follow: {error!r}"
    supervisor.sendall((why or "ready").encode("utf-8", "replace")[:1000] + b"\n")
    if why:
        os._exit(0)
    return place


def _module_left(given: dict[str, str]) -> str:
    """Returns why modules can't follow: they were imported from the old folder. "" = none was."""
    for name, module in list(sys.modules.items()):
        path = vars(module).get("__file__") if name.partition(".")[0] in _FRESH else None
        if isinstance(path, str) and _moved(path, given) != path:
            return f"{name} was imported from the folder of the earlier job"
    return ""


def _move_layer(given: dict[str, str]) -> str:
    """Switches to the layer of the other job's environment; returns why it can't, "" = it did, or there is no layer."""
    prefix = _moved(sys.prefix, given)
    if prefix == sys.prefix:
        return ""
    sys.prefix, sys.exec_prefix = prefix, _moved(sys.exec_prefix, given)
    sys.executable = _moved(sys.executable, given)
    if "multiprocessing.spawn" in sys.modules:  # It stores the interpreter's path when it is imported.
        sys.modules["multiprocessing.spawn"].set_executable(sys.executable)
    _INSTALLED.update(_installed())
    return f"a job has installed {', '.join(sorted(_INSTALLED)[:3])} into its layer" if _INSTALLED else ""


def _installed() -> set[str]:
    """Returns the packages that the job has installed into the layer of its environment (`job_layer.py`)."""
    folders = [path for path in sys.path if path.startswith(sys.prefix + "/") and path.endswith("/site-packages")]
    names = {name for folder in folders if os.path.isdir(folder) for name in os.listdir(folder)}
    return names - {_PTH} if _PTH in names else set()


def _move_script(before: str, now: str) -> None:
    """Makes Python open the script in its current folder: Python made the path absolute at its start, in `PyConfig`.

    There is no function for it, so the member is found by its value. Raises OSError if it isn't found.
    """
    import ctypes

    api = ctypes.pythonapi
    api.PyInterpreterState_Get.restype = api.PyMem_RawMalloc.restype = ctypes.c_void_p
    get = api._PyInterpreterState_GetConfig  # noqa: SLF001 (CPython's own main reads it there)
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
    start, wanted, given = get(api.PyInterpreterState_Get()), _wide(before), _wide(now)
    with open("/proc/self/mem", "rb", buffering=0) as memory:
        for at in range(start, start + _CONFIG_BYTES, _POINTER_BYTES):
            pointer = int.from_bytes(os.pread(memory.fileno(), _POINTER_BYTES, at), sys.byteorder)
            if _is_at(memory.fileno(), pointer, wanted):
                room = api.PyMem_RawMalloc(ctypes.c_size_t(len(given)))
                ctypes.memmove(room, given, len(given))
                ctypes.c_void_p.from_address(at).value = room
                return
    raise OSError(2, "the script's path can't be found in this Python's memory")


def _is_at(memory: int, address: int, wanted: bytes) -> bool:
    try:
        return address > _POINTER_BYTES and os.pread(memory, len(wanted), address) == wanted
    except (OSError, OverflowError):  # Not an address, or unmapped memory.
        return False


def _wide(path: str) -> bytes:
    """Returns a path as `wchar_t *`."""
    return (path + "\0").encode("utf-32-le" if sys.byteorder == "little" else "utf-32-be", "surrogatepass")


def _moved(path: str, given: dict[str, str]) -> str:
    old, new = given["old"], given["new"]
    return new + path[len(old) :] if path == old or path.startswith(old + "/") else path


def _read(order: int) -> dict[str, Any]:
    import json

    with open(order, "rb") as file:
        file.seek(0)
        return json.loads(file.read().decode())


def _script_trouble(fresh: set[str]) -> str:
    """Returns why the script conflicts with the imported modules, "" = it doesn't. fresh: their names."""
    first = _first_folder()
    if first is None:
        return "the script isn't a file or a folder"
    if first and (name := _variable_set(first)):
        return f"a script sets {name}, which torch reads when it is imported"
    if first and (shadow := _shadow(first, fresh)):
        return f"{shadow} replaces a module that is imported in advance"
    return ""


def _prepare(supervisor: socket.socket, place: str, here: str) -> str:
    """Returns why the interpreter can't replace a fresh one, "" = it can.

    place: the working folder. Once the supervisor knows that the interpreter has begun, the job may end, and its folder
    may vanish before all is imported: checks of that folder are repeated in the folder of the next job. here: the
    supervisor's folder, which stays: some libraries end the process when they are loaded without a working folder.
    """
    import contextlib
    import gc

    first = _first_folder()
    _INSTALLED.update(_installed())
    os.chdir(here)
    supervisor.sendall(b"begun\n")
    before, written = set(sys.modules), _written()
    was_enabled = gc.isenabled()
    gc.disable()
    _import(place)
    with contextlib.suppress(FileNotFoundError):  # The job has ended: the worker waits where it is.
        os.chdir(place)
    if was_enabled:
        gc.enable()
    _INSTALLED.update(_installed())
    _FRESH.update(name.partition(".")[0] for name in set(sys.modules) - before)
    if first and os.path.isdir(first) and (shadow := _shadow(first, _FRESH)):
        return f"{shadow} replaces a module that is imported in advance"
    if _written() != written:
        return "the import of torch prints something"
    if sys.modules["torch"].cuda.is_initialized():
        return "the import of torch opens a GPU"
    gc.collect()
    gc.freeze()
    return ""


def _import(place: str) -> None:
    """Imports all modules. place: the working folder that they see meanwhile."""
    ask, is_over = os.getcwd, False

    def getcwd() -> str:
        return ask() if is_over else place  # A module may keep this function.

    os.getcwd = getcwd
    try:
        _import_all()
    finally:
        os.getcwd, is_over = ask, True


def _import_all() -> None:
    """Imports all modules, and undoes what modules other than torch itself do to variables and warning filters."""
    import importlib
    import warnings

    importlib.import_module("torch")
    variables = dict(os.environ)
    with warnings.catch_warnings():
        for name in MODULES:
            try:
                importlib.import_module(name)
            except ModuleNotFoundError as error:
                # This version of torch doesn't have it.
                if not name.startswith(error.name or " "):
                    raise
    for name in set(os.environ) - set(variables):
        del os.environ[name]
    os.environ.update(variables)


def _first_folder() -> str | None:
    """Returns the folder that Python will put first on the module path, "" = none, None = not a folder."""
    if getattr(sys.flags, "safe_path", False):
        return ""
    if sys.argv[0] in ("-c", "-m"):
        return os.getcwd()
    if os.path.isdir(sys.argv[0]):
        return os.path.abspath(sys.argv[0])
    if not os.path.isfile(sys.argv[0]) or not sys.argv[0].endswith(".py"):
        return None
    return os.path.dirname(os.path.realpath(sys.argv[0]))


def _shadow(folder: str, names: set[str]) -> str:
    """Returns the file in a folder that would be imported under one of these names."""
    for entry in sorted(os.listdir(folder)):
        stem, _, ending = entry.partition(".")
        path = os.path.join(folder, entry)
        if stem in names and (ending in ("py", "pyc") or ending.endswith("so")):
            return path
        if entry in names and os.path.isfile(os.path.join(path, "__init__.py")):
            return path
    return ""


def _variable_set(folder: str) -> str:
    """Returns the first of torch's variables that a script sets; a command after `-c` isn't searched further."""
    import re

    quoted = rf"""["']({_FROZEN_BY_IMPORT})["']"""
    sets = re.compile(rf"(?:environ\s*\[\s*{quoted}\s*\]\s*=(?!=)|(?:environ\.setdefault|putenv)\(\s*{quoted})")
    named = re.compile(rf"""["']?\b({_FROZEN_BY_IMPORT})["']?\s*[=:]""")
    for text in _sources(folder):
        if "environ" not in text and "putenv" not in text:
            continue
        match = sets.search(text)
        if not match and re.search(r"environ\s*(?:\.update\(|\|=)", text):
            match = named.search(text)
        if match:
            return next(filter(None, match.groups()))
    return ""


def _sources(folder: str) -> Iterator[str]:
    if sys.argv[0] == "-c":
        yield " ".join(getattr(sys, "orig_argv", ()))
    count = 0
    for place, folders, names in os.walk(folder):
        folders[:] = [each for each in folders if not each.startswith(".") and each not in _SKIPPED]
        for name in names:
            if not name.endswith(".py"):
                continue
            count += 1
            if count > _MAX_FILES:
                return
            try:
                with open(os.path.join(place, name), encoding="utf-8", errors="replace") as file:
                    yield file.read(_MAX_BYTES)
            except OSError:
                pass


def _set_titles(title: str) -> None:
    for task in os.listdir("/proc/self/task"):
        try:
            with open("/proc/self/task/" + task + "/comm", "w", encoding="utf-8", errors="surrogateescape") as file:
                file.write(title)
        except OSError:
            pass  # A thread that has ended.


def _written() -> int:
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    return os.fstat(1).st_size


def _begin(log: int, order: int) -> None:
    """Applies the round's state of the rank: variables, log, and module path."""
    import contextlib

    given = _read(order)
    for name in given["unset"]:
        os.environ.pop(name, None)
    os.environ.update(given["set"])
    if given["priority"] is not None:
        for task in os.listdir("/proc/self/task"):
            with contextlib.suppress(OSError):  # A thread that has ended.
                os.setpriority(os.PRIO_PROCESS, int(task), int(given["priority"]))
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)
