"""A job's own layer on a node: a virtual environment of the attempt in front of the environment that jobs share.

Packages that a job installs go into the layer, are visible to all its processes on the node, and vanish with the
attempt. The shared environment stays unchanged, even where the job runs as root, whom no file mode stops: pip and uv
write to the prefix of the Python that runs them, and that prefix is the layer. The layer's package folder is empty at
first, and a `.pth` file appends the shared folders to the module path. Programs that look for files in their prefix
find links.
"""

from __future__ import annotations

import os
import shlex
import shutil
from collections import deque

from drumbeat.model import folder_layout
from drumbeat.model.errors import StorageError
from drumbeat.node.environments.installed_packages import site_folders

PTH = "zz_drumbeat_environment.pth"
"""The name sorts last, the order in which `site` reads such files, so that the job's own packages take precedence."""
MAX_LINKS = 2000
"""The maximum number of links to files. With more files in the environment's prefix, as conda has them, links point to
the deepest folders instead.
"""
_MAX_SHEBANG = 127
"""The maximum length of a shebang line: Linux before 5.1 truncates longer ones (execve(2))."""
_SCRIPTS = ("activate", "Activate")


def provide(environment: str, root: str) -> str:
    """Creates the layer of the attempt in `root`, once; returns its folder. Raises StorageError."""
    layer = folder_layout.layer_folder(root)
    if not os.path.exists(layer):
        part = f"{layer}.part"
        shutil.rmtree(part, ignore_errors=True)
        try:
            _make(environment, part, layer)
            os.rename(part, layer)
        except OSError as error:
            what = f"the job's layer of its environment can't be written: {error.strerror}"
            fix = "Free space on that disk, or grant write permission."
            raise StorageError(what, where=str(error.filename or layer), fix=fix) from error
    return layer


def _make(environment: str, part: str, layer: str) -> None:
    sites = site_folders(environment)
    for site in sites:
        own = f"{part}/lib/{os.path.basename(os.path.dirname(site))}/site-packages"
        os.makedirs(own, exist_ok=True)
        _write(f"{own}/{PTH}", "".join(f"import site; site.addsitedir({each!r})\n" for each in sites).encode())
    os.symlink("lib", f"{part}/lib64")  # As venv does: some builds of Python look there.
    _write(f"{part}/pyvenv.cfg", _configuration(environment))
    os.mkdir(f"{part}/bin")
    with os.scandir(f"{environment}/bin") as entries:
        for entry in entries:
            if not entry.is_dir():
                _add_program(entry, environment, part, layer)
    _link_rest(environment, part)


def _configuration(environment: str) -> bytes:
    """The pyvenv.cfg of the layer. For a prefix that is no virtual environment, like conda's, it is that of any
    installed Python.
    """
    try:
        with open(f"{environment}/pyvenv.cfg", "rb") as file:
            return file.read()
    except FileNotFoundError:
        return f"home = {environment}/bin\ninclude-system-site-packages = false\n".encode()


def _add_program(entry: os.DirEntry[str], environment: str, part: str, layer: str) -> None:
    """Adds a program of the environment; a script that names the environment's folder is copied with the layer's
    instead.
    """
    own = f"{part}/bin/{entry.name}"
    target = os.readlink(entry.path) if entry.is_symlink() else ""
    if target and (os.path.isabs(target) or os.path.isfile(f"{environment}/pyvenv.cfg")):
        os.symlink(target, own)  # To the environment's base Python, or to another name of it there.
    elif (text := _script(entry)) and environment.encode() in text:
        _write(own, _moved(text, environment, layer), entry.stat().st_mode & 0o777)
    else:
        os.symlink(entry.path, own)


def _script(entry: os.DirEntry[str]) -> bytes:
    with open(entry.path, "rb", buffering=0) as file:
        beginning = file.read(2)
        return beginning + file.read() if beginning == b"#!" or entry.name.startswith(_SCRIPTS) else b""


def _moved(text: bytes, environment: str, layer: str) -> bytes:
    """Returns the script with the layer in place of the environment; with a long path, it
    begins as pip's scripts do.
    """
    text = text.replace(environment.encode(), layer.encode())
    line, _, rest = text.partition(b"\n")
    if line.startswith(f"#!{layer}/".encode()) and (len(line) > _MAX_SHEBANG or " " in layer):
        program = line[2:].decode()
        return f"#!/bin/sh\n'''exec' {shlex.quote(program)} \"$0\" \"$@\"\n' '''\n".encode() + rest
    return text


def _link_rest(environment: str, part: str) -> None:
    """Links the other files in folders of the layer, so that later installs there change none of the originals."""
    left, folders = MAX_LINKS, deque([""])
    while folders:
        folder = folders.popleft()
        with os.scandir(f"{environment}/{folder}") as entries:
            rest = [entry for entry in entries if not _is_own(folder, entry)]
        if folder and len(rest) > left:
            os.symlink(f"{environment}/{folder}", f"{part}/{folder}")
            continue
        left -= len(rest)
        os.makedirs(f"{part}/{folder}", exist_ok=True)
        for entry in rest:
            if entry.is_dir(follow_symlinks=False):
                folders.append(f"{folder}/{entry.name}".lstrip("/"))
            else:
                os.symlink(entry.path, f"{part}/{folder}/{entry.name}")


def _is_own(folder: str, entry: os.DirEntry[str]) -> bool:
    """Whether the layer has its own file here; so does uv's lock file beside folders."""
    if not folder:
        return entry.name == "bin" or not entry.is_dir(follow_symlinks=False)
    return folder == "lib" and entry.name.startswith("python3")


def _write(path: str, content: bytes, mode: int = 0o644) -> None:
    with open(path, "wb", opener=lambda name, how: os.open(name, how, mode)) as file:
        file.write(content)
