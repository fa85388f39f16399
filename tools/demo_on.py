"""`python -m tools.demo_on ENGINE NODES COMMAND…`: runs a command with a compute of that engine to run jobs on.

What the engine needs is made on this machine, as root, in network namespaces of its own, and taken away afterwards. The
command finds the compute's name in DEMO_COMPUTE and the number of nodes in DEMO_NODES.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator
from pathlib import Path

from tools import elastic_slurmlab, slurmlab, sshlab
from tools.kept_folder import KEPT
from tools.kubelab import binaries, real_lab
from tools.kubelab.lab import USER, kube_lab
from tools.raylab import environment
from tools.raylab.lab import ray_lab

BIN = Path(sys.executable).parent
DRUMBEAT = str(BIN / "drumbeat")


@contextlib.contextmanager
def netlab(nodes: int, folder: Path) -> Generator[Path]:
    """The file of a lab."""
    file = folder / "compute.yml"
    file.write_text(f"name: demo-netlab\ntype: netlab\nnodes: {nodes}\ncpus: 4\n")
    yield file


@contextlib.contextmanager
def ssh(nodes: int, folder: Path) -> Generator[Path]:
    """The file of hosts with real ssh servers, which have Python, and nothing of drumbeat."""
    if why := sshlab.missing():
        sys.exit(f"demo: {why}")
    with sshlab.ssh_lab(folder, "host", nodes) as lab:
        hosts = "".join(f"  - {{address: {lab.address(name)}, name: {name}, cpus: 4}}\n" for name in lab.names)
        file = folder / "compute.yml"
        file.write_text(
            f"name: demo-ssh\ntype: ssh\nuser: root\nidentity_file: key\nhosts:\n{hosts}"
            f"options: [UserKnownHostsFile={folder}/known_hosts]\npython: {sys.executable}\nprograms: {BIN}\n"
        )
        yield file


@contextlib.contextmanager
def slurm(nodes: int, folder: Path) -> Generator[Path]:
    """The file of a real Slurm cluster, which has Python and a folder that its nodes share."""
    if why := slurmlab.missing():
        sys.exit(f"demo: {why}")
    with slurmlab.slurm_lab(folder / "slurm", "n", nodes) as lab:
        yield slurm_file(lab, "demo-slurm", folder)


@contextlib.contextmanager
def slurm_cloud(nodes: int, folder: Path) -> Generator[Path]:
    """The same of a cluster whose machines are switched off until a job needs them."""
    if why := slurmlab.missing():
        sys.exit(f"demo: {why}")
    with elastic_slurmlab.elastic_lab(folder / "slurm", "n", nodes) as lab:
        yield slurm_file(lab, "demo-slurm-cloud", folder)


def slurm_file(lab: slurmlab.SlurmLab, name: str, folder: Path) -> Path:
    """The file of a cluster."""
    file = folder / "compute.yml"
    file.write_text(
        f"name: {name}\ntype: slurm\nfolder: {lab.shared}\nconf: {lab.conf}\n"
        f"python: {sys.executable}\nprograms: {BIN}\n"
    )
    return file


def built_kubernetes() -> Path:
    """Builds Kubernetes' programs the first time, which takes minutes. Exits where that fails."""
    if binaries.missing():
        print("demo: building Kubernetes from Debian's source, once on this machine: 7 CPU minutes", flush=True)
    programs = binaries.built()
    if isinstance(programs, str):
        sys.exit(f"demo: {programs}")
    return programs


@contextlib.contextmanager
def kubernetes(nodes: int, folder: Path) -> Generator[Path]:
    """The file of a real Kubernetes, whose virtual nodes run pods as processes of this machine."""
    programs = built_kubernetes()
    with kube_lab(folder / "kubernetes", "n", nodes, programs) as lab:
        file = folder / "compute.yml"
        file.write_text(
            f"name: demo-kubernetes\ntype: kubernetes\nkubeconfig: {lab.kubeconfig(USER)}\nimage: none\n"
            f"server_address: 127.0.0.1\npython: {sys.executable}\nprograms: {BIN}\n"
        )
        yield file


@contextlib.contextmanager
def kubernetes_real(nodes: int, folder: Path) -> Generator[Path]:
    """The file of a real Kubernetes with real kubelets; pods have own addresses, and this machine's programs."""
    if why := real_lab.missing():
        sys.exit(f"demo: {why}")
    programs = built_kubernetes()
    with real_lab.real_kube_lab(folder / "kubernetes", "n", nodes, programs) as lab:
        file = folder / "compute.yml"
        file.write_text(
            f"name: demo-kubernetes-real\ntype: kubernetes\nkubeconfig: {lab.kubeconfig(USER)}\n"
            f"image: {real_lab.IMAGE}\npython: {sys.executable}\nprograms: {BIN}\n"
            f"volumes: {json.dumps(lab.volumes(str(KEPT)))}\n"
        )
        yield file


@contextlib.contextmanager
def ray(nodes: int, folder: Path) -> Generator[Path]:
    """The file of a real Ray cluster, whose head runs no nodes."""
    if why := environment.made():
        sys.exit(f"demo: {why}")
    with ray_lab(folder / "ray", "n", nodes + 1, environment.PYTHON, head_cpus=0) as lab:
        file = folder / "compute.yml"
        file.write_text(
            f"name: demo-ray\ntype: ray\naddress: {lab.dashboard}\ntoken_file: {lab.token_file}\n"
            f"folder: {lab.folder}/drumbeat\npython: {sys.executable}\nprograms: {BIN}\n"
        )
        yield file


ENGINES: dict[str, Callable[[int, Path], contextlib.AbstractContextManager[Path]]] = {
    "netlab": netlab, "ssh": ssh, "slurm": slurm, "kubernetes": kubernetes, "ray": ray, "slurm-cloud": slurm_cloud,
    "kubernetes-real": kubernetes_real,
}  # fmt: skip


def main() -> int:
    """The command's exit code."""
    engine, nodes, *command = sys.argv[1:]
    if engine not in ENGINES:
        sys.exit(f"demo: there is no engine {engine!r} to show; ENGINE is local, {', '.join(ENGINES)}")
    name = f"demo-{engine}"
    with (
        tempfile.TemporaryDirectory(prefix="drumbeat-demo-") as folder,
        ENGINES[engine](int(nodes), Path(folder)) as file,
    ):
        subprocess.run([DRUMBEAT, "compute", "create", "-f", str(file)], check=True)
        try:
            return subprocess.run(
                command, env={**os.environ, "DEMO_COMPUTE": name, "DEMO_NODES": nodes}, check=False
            ).returncode
        finally:
            subprocess.run([DRUMBEAT, "compute", "delete", name], check=False)


if __name__ == "__main__":
    sys.exit(main())
