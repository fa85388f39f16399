"""What the staging benchmark stands on: a web server, and the programs that it is compared with; their command
lines are in `staging_stores.py`.
"""

import contextlib
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from bench.serving import MIB
from tools.kept_folder import KEPT

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
    return shutil.which(name) or _unpacked(package, place)


def _unpacked(package: str, place: str) -> str:
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
    """A Python that has fsspec with its parts for the web, S3 and Azure, "" = not to be had here."""
    return _environment("fsspec", "python", "fsspec[http]", "s3fs", "adlfs")


def aws() -> str:
    """Amazon's own command, "" = not to be had here."""
    return shutil.which("aws") or _environment("aws", "aws", "awscli")


def _environment(name: str, program: str, *packages: str) -> str:
    """A program of an environment of its own."""
    folder = TOOLS / f"{name}-{len(packages)}"
    if not (folder / "whole").exists():
        with contextlib.suppress(subprocess.CalledProcessError):
            subprocess.run([sys.executable, "-m", "venv", folder], check=True)
            subprocess.run([folder / "bin/python", "-m", "pip", "install", "-q", *packages], check=True)
            (folder / "whole").touch()
    return str(folder / "bin" / program) if (folder / "whole").exists() else ""


def azcopy() -> list[str]:
    """Azure's own command, [] = not to be had here."""
    if found := shutil.which("azcopy"):
        return [found]
    npm, folder = shutil.which("npm"), TOOLS / "azcopy"
    if npm and not folder.exists():
        install = [npm, "install", "--prefix", folder, "--no-fund", "--no-audit", "@azure-tools/azcopy-linux@10"]
        subprocess.run(install, check=False, capture_output=True)
    there = next(folder.rglob("azcopy_linux_amd64"), None)
    if there is None:
        return []
    there.chmod(0o755)
    library = _unpacked("libsecret-1-0", f"usr/lib/{platform.machine()}-linux-gnu/libsecret-1.so.0")
    return ["env", f"LD_LIBRARY_PATH={Path(library).parent}", str(there)] if library else [str(there)]


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
