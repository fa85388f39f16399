"""What the staging benchmark stands on: a web server, and the programs that it is compared with."""

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tools.kept import KEPT

MIB = 1 << 20
TOOLS = KEPT / "bench-tools"
SERVED = """\
daemon off; worker_processes 2; pid {folder}/nginx.pid; error_log {folder}/error.log;
events {{ worker_connections 512; }}
http {{
  log_format sent $body_bytes_sent; access_log {folder}/access.log sent; sendfile on; keepalive_requests 100000;
  client_body_temp_path {folder}/t1; proxy_temp_path {folder}/t2; fastcgi_temp_path {folder}/t3;
  uwsgi_temp_path {folder}/t4; scgi_temp_path {folder}/t5;
  server {{ listen {address}; root {root}; autoindex on; }}
}}
"""


def program(name: str, package: str, place: str) -> str:
    """A program from PATH, else from Debian's package, unpacked below .cache, not installed; "" = it can't be had."""
    if found := shutil.which(name):
        return found
    there = TOOLS / place
    if not there.exists() and shutil.which("apt-get"):
        TOOLS.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(["apt-get", "download", "-qq", package], cwd=TOOLS, check=False, capture_output=True)
        for file in TOOLS.glob(f"{package}_*.deb") if done.returncode == 0 else ():
            subprocess.run(["dpkg-deb", "-x", file, TOOLS], check=True)
    return str(there) if there.exists() else ""


def nginx() -> str:
    """The web server."""
    return program("nginx", "nginx", "usr/sbin/nginx") or sys.exit("nginx is missing: apt-get install nginx-light")


def rclone() -> str:
    """`rclone`, "" = not to be had here."""
    return program("rclone", "rclone", "usr/bin/rclone")


def fsspec_python() -> str:
    """A Python that has fsspec with its HTTP part, "" = not to be had here."""
    python = TOOLS / "fsspec" / "bin" / "python"
    if not python.exists():
        with contextlib.suppress(subprocess.CalledProcessError):
            subprocess.run([sys.executable, "-m", "venv", TOOLS / "fsspec"], check=True)
            subprocess.run([python, "-m", "pip", "install", "-q", "fsspec[http]"], check=True)
    has_it = subprocess.run([python, "-c", "import fsspec, aiohttp"], check=False, capture_output=True)
    return str(python) if has_it.returncode == 0 else ""


@contextlib.contextmanager
def serving(root: Path, address: str, folder: Path) -> Iterator[Path]:
    """The web server over `root`; gives its log, a line of bytes for each answer."""
    folder.mkdir()
    file = folder / "nginx.conf"
    file.write_text(SERVED.format(folder=folder, root=root, address=address))
    server = subprocess.Popen([nginx(), "-p", folder, "-c", file, "-e", folder / "error.log"])
    try:
        while not (folder / "nginx.pid").exists():
            if server.poll() is not None:
                sys.exit((folder / "error.log").read_text())
        yield folder / "access.log"
    finally:
        server.terminate()
        server.wait()


def sent(log: Path) -> int:
    """Bytes of bodies that it has sent so far."""
    return sum(map(int, log.read_text().split()))


def drop(*folders: Path) -> None:
    """Removes folders, read-only ones too."""
    for folder in folders:
        for place, _, _ in os.walk(folder):
            Path(place).chmod(0o700)
        shutil.rmtree(folder, ignore_errors=True)


def set_aside(bin: Path, *folders: Path) -> None:
    """Empties folders without removing many files: after that ext4 makes new ones several times slower for a while."""
    bin.mkdir(exist_ok=True)
    for folder in folders:
        for place, _, names in os.walk(folder):
            Path(place).chmod(0o700)
            for name in names:
                file = Path(place, name)
                if file.lstat().st_size > MIB and not file.is_symlink():
                    file.unlink()
        if folder.exists():
            folder.rename(bin / str(len(list(bin.iterdir()))))
