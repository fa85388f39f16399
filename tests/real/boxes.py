"""Podman for tests: a storage of their own, and an image of a few megabytes that is made here."""

from __future__ import annotations

import contextlib
import fcntl
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tools import debian_packages
from tools.kept_folder import KEPT

IMAGE = "localhost/drumbeat-tests:1"
MEMORY = Path("/dev/shm")
STORAGES = "drumbeat-tests-podman-"
ROOM = 4 << 30
"""Bytes that a storage in memory must find free."""
NEEDED = {"podman": "podman", "runc": "runc", "bash-static": "bash-static", "busybox": "busybox-static"}
CONTAINERS = '[engine]\nruntime = "runc"\ncgroup_manager = "cgroupfs"\nevents_logger = "file"\n'
APPLETS = ("sh", "cat", "sleep", "env", "id", "ls", "touch", "setsid", "true", "echo", "rm")


@contextmanager
def a_podman(folder: Path) -> Iterator[dict[str, str]]:
    """The variables with which Podman has a storage of its own, with the image in it."""
    if any(shutil.which(program) is None for program in NEEDED):
        debian_packages.install(*NEEDED.values())
    missing = [package for program, package in NEEDED.items() if shutil.which(program) is None]
    if missing or os.geteuid():
        pytest.skip(f"needs root and Podman: apt-get install {' '.join(missing or NEEDED.values())}")
    (folder / "on-its-way").mkdir()
    (folder / "containers.conf").write_text(f'{CONTAINERS}image_copy_tmp_dir = "{folder}/on-its-way"\n')
    variables = {
        "CONTAINERS_CONF": f"{folder}/containers.conf",
        "CONTAINERS_STORAGE_CONF": f"{folder}/storage.conf",
    }
    make_image(folder / "image.tar")
    with _storage(folder) as place:
        storage = f'[storage]\ndriver = "overlay"\ngraphroot = "{place}/root"\nrunroot = "{place}/run"\n'
        (folder / "storage.conf").write_text(storage)
        done = podman(variables, "import", str(folder / "image.tar"), IMAGE)
        if done.returncode:
            pytest.skip(f"Podman can't import an image here: {done.stderr.strip()[-300:]}")
        yield variables


@contextmanager
def _storage(folder: Path) -> Iterator[Path]:
    """In memory where there is room: an import there takes a twentieth of what it takes on a disk."""
    if not MEMORY.is_dir() or shutil.disk_usage(MEMORY).free < ROOM:
        try:
            yield folder
        finally:
            unmount(folder)
        return
    with (MEMORY / "drumbeat-tests-podman.lock").open("a") as one_at_a_time:
        fcntl.flock(one_at_a_time, fcntl.LOCK_EX)
        for old in MEMORY.glob(f"{STORAGES}*"):
            _remove_if_left(old)
        place = Path(tempfile.mkdtemp(prefix=STORAGES, dir=MEMORY))
        lock = (place / "lock").open("a")
        fcntl.flock(lock, fcntl.LOCK_EX)
    with lock:
        try:
            yield place
        finally:
            unmount(place)
            shutil.rmtree(place, ignore_errors=True)


def _remove_if_left(place: Path) -> None:
    """A storage whose test was killed: nobody has its lock."""
    with contextlib.suppress(OSError), (place / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        unmount(place)
        shutil.rmtree(place, ignore_errors=True)


def podman(variables: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    """What it says to these words."""
    command = ["podman", *words]
    return subprocess.run(command, env={**os.environ, **variables}, capture_output=True, text=True, check=False)


def unmount(folder: Path) -> None:
    """What Podman has mounted below a folder of the test's own. `podman system reset` would empty /var/tmp as well."""
    mounts = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
    for place in sorted((one for one in mounts if one.startswith(f"{folder}/")), reverse=True):
        subprocess.run(["umount", "--lazy", place], check=False)


def make_image(place: Path, more: dict[str, bytes] | None = None) -> None:
    """Bash and busybox; and other files, by their paths."""
    with tarfile.open(place, "w") as tar:
        for name in ("bin", "tmp", "etc", "proc", "sys", "dev"):
            folder = tarfile.TarInfo(name)
            folder.type, folder.mode = tarfile.DIRTYPE, 0o777 if name == "tmp" else 0o755
            tar.addfile(folder)
        tar.add(shutil.which("bash-static") or "", "bin/bash")
        tar.add(os.path.realpath(shutil.which("busybox") or ""), "bin/busybox")
        for applet in APPLETS:
            link = tarfile.TarInfo(f"bin/{applet}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(link)
        for name, content in (more or {}).items():
            _add(tar, name, content)


def _add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(content), 0o755
    tar.addfile(info, io.BytesIO(content))


# --- with this Python, without packages ------------------------------------------------------------------------------
PYTHON_IMAGE = "localhost/drumbeat-tests-python:1"
_LEFT_OUT = {"site-packages", "test", "idlelib", "tkinter", "ensurepip", "__pycache__", "lib2to3"}


def image_with_python(variables: dict[str, str], folder: Path) -> None:
    """Has the image `PYTHON_IMAGE`: as `IMAGE`, with the interpreter of the tests and the libraries that it loads."""
    tar_file = folder / "python.tar"
    make_image(tar_file)
    binary = os.path.realpath(sys.executable)
    library = str(Path(os.__file__).parent)
    loaded = [binary, *map(str, Path(library, "lib-dynload").glob("*.so"))]
    listed = subprocess.run(["ldd", *loaded], capture_output=True, text=True, check=True).stdout
    needed = sorted({word for word in listed.replace(":", " ").split() if word.startswith("/")} - set(loaded))
    with tarfile.open(tar_file, "a") as tar:
        tar.add(library, library[1:], filter=lambda one: None if _is_left_out(one.name) else one)
        for path in (binary, *needed):
            tar.add(os.path.realpath(path), path[1:])
        link = tarfile.TarInfo("bin/python")
        link.type, link.linkname = tarfile.SYMTYPE, binary
        tar.addfile(link)
    done = podman(variables, "import", str(tar_file), PYTHON_IMAGE)
    assert done.returncode == 0, done.stderr


def _is_left_out(name: str) -> bool:
    last = name.rpartition("/")[2]
    return last in _LEFT_OUT or last.startswith("config-")


# --- a Debian with an MPI -------------------------------------------------------------------------------------------
IMAGES = KEPT / "images"
DEBIAN = "bookworm"
IN_DEBIAN = ("python3-minimal", "python3-mpi4py", "openmpi-bin")
MPI_IMAGE = "localhost/drumbeat-tests-mpi:1"


def debian_with_mpi(variables: dict[str, str]) -> None:
    """Has the image `MPI_IMAGE`. What it is made of is kept; skips the test, saying what is missing."""
    tar = IMAGES / "mpi.tar"
    IMAGES.mkdir(parents=True, exist_ok=True)
    with (IMAGES / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not tar.exists():
            _debootstrap(tar)
    done = podman(variables, "import", str(tar), MPI_IMAGE)
    assert done.returncode == 0, done.stderr


def _debootstrap(tar: Path) -> None:
    if shutil.which("debootstrap") is None:
        debian_packages.install("debootstrap")
    if shutil.which("debootstrap") is None:
        pytest.skip("needs debootstrap: apt-get install debootstrap")
    folder = IMAGES / "mpi"
    shutil.rmtree(folder, ignore_errors=True)
    command = ["debootstrap", "--variant=minbase", f"--include={','.join(IN_DEBIAN)}", DEBIAN, str(folder)]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    if made.returncode:
        pytest.skip(f"debootstrap can't make a Debian here: {made.stdout.strip()[-300:]}")
    left_out = (
        "./proc/*",
        "./sys/*",
        "./dev/*",
        "./var/cache",
        "./var/lib/apt",
        "./usr/share/doc",
        "./usr/share/locale",
    )
    words = [f"--exclude={one}" for one in left_out]
    subprocess.run(["tar", *words, "-C", str(folder), "-cf", f"{tar}.part", "."], check=True)
    Path(f"{tar}.part").rename(tar)
    shutil.rmtree(folder)
