"""A rank in a container: the same process, with the image's files around it.

Each rank has its own container. All of them share the node's network, PID and IPC namespaces, so ranks find each other,
their shared memory and their ports as usual; only the files are the image's. Mounts keep their paths.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from drumbeat.model import folder_layout
from drumbeat.model.plan import ImageBuild, Plan, RankRuntime
from drumbeat.model.process import ProcessSpec
from drumbeat.model.roster import Member

CONTAINER_ENGINES = ("podman", "docker")
"""The programs that run containers, in order of preference."""

LABEL = "drumbeat.root"
"""The label with the folder of a container's attempt."""

RANK_LABEL = "drumbeat.rank"
"""The label with the number of the rank in a container; containers of services and of the preparation don't have it."""

GIVEN = "--env=@mpi"
"""Placeholder in the command line of a rank that joins mpirun: mpirun's variables are known only when it starts."""

MAX_PROCESSES = 32768
"""The maximum of a container's process limit, which is otherwise its starter's: the kernel
refuses some higher values.
"""


_VISIBLE = "CUDA_VISIBLE_DEVICES"
_MORE_GPUS = re.compile(r"--privileged(?:=true)?$|--gpus\b|.*(?:nvidia\.com/gpu|/dev/nvidia)")
_OF_MPI = ("OMPI_", "OPAL_", "ORTE_", "PMIX_", "PMI_", "PRTE_", "UCX_", "FI_", "HCOLL_")
"""Prefixes of the variables by which mpirun talks to its ranks; other variables are the node's own."""


@dataclass(frozen=True)
class ContainerEngine:
    """A program that runs containers on a node."""

    program: str
    """The program's path."""
    kind: str
    """`podman` or `docker`."""
    user: str
    """`uid:gid` of the ranks."""
    is_rootless: bool = False
    """Whether it runs without root privileges."""
    files: int = 1024
    """The limit of open files in a container."""
    processes: int = MAX_PROCESSES
    """The limit of processes in a container."""


def contained(
    spec: ProcessSpec, plan: Plan, member: Member, engine: ContainerEngine, shown: Sequence[str] = ()
) -> ProcessSpec:
    """The process that runs `spec` in the plan's container. shown: further folders that it may read."""
    if plan.container is None:
        return spec
    words = _new_container(spec, member, engine)
    words += ["--workdir", spec.cwd]
    words += ["--network", "host", "--pid", "host", "--ipc", "host", "--entrypoint", ""]
    words += _access(spec, plan, member, engine, shown)
    words += [GIVEN] if spec.joins else []
    words += [*_devices(member, engine), *plan.container.args, plan.container.image]
    words += [*_with_modules(spec.modules_last), *spec.argv]
    visible = _visible(spec, plan, member)
    return replace(spec, argv=tuple(words), path_first=(), modules_last=(), set={**spec.set, **visible})


@dataclass(frozen=True)
class ImageServer:
    """A server in the plan's container, in front of which the rank stands."""

    port: int
    """Where it listens in its container."""
    published: int
    """The port of the node's loopback that leads there."""
    command: tuple[str, ...] = ()
    """Starts it in the job's code folder; empty = the image's own entry point and command, in its own folder."""


def server_command(
    spec: ProcessSpec, plan: Plan, member: Member, engine: ContainerEngine, server: ImageServer
) -> ProcessSpec:
    """The process that runs a server of the plan's image, with the variables and mounts of the rank `spec`.

    The container has network and processes of its own, so that servers of several replicas can have the same port.
    """
    if plan.container is None:
        return spec
    words = _new_container(spec, member, engine)
    words += ["--ipc", "host", "--publish", f"127.0.0.1:{server.published}:{server.port}"]
    words += ["--workdir", spec.cwd, "--entrypoint", ""] if server.command else []
    words += _access(spec, plan, member, engine, ())
    words += [*_devices(member, engine), *plan.container.args, plan.container.image, *server.command]
    return replace(spec, argv=tuple(words), path_first=(), modules_last=(), set=_visible(spec, plan, member))


def _new_container(spec: ProcessSpec, member: Member, engine: ContainerEngine) -> list[str]:
    """The begin of the command line, with the labels by which a round's containers are found."""
    words = [engine.program, "run", "--rm", "--label", f"{LABEL}={member.root}"]
    return words + (["--label", f"{RANK_LABEL}={spec.rank}"] if spec.rank >= 0 else [])


def _access(spec: ProcessSpec, plan: Plan, member: Member, engine: ContainerEngine, shown: Sequence[str]) -> list[str]:
    """The limits, the user, the mounts and the variables of a container."""
    words = ["--ulimit", f"nofile={engine.files}:{engine.files}"]
    words += ["--ulimit", f"nproc={engine.processes}:{engine.processes}"]
    words += ["--userns", "keep-id"] if engine.is_rootless else ["--user", engine.user]
    words += ["--security-opt", "label=disable"] if engine.kind == "podman" else []
    words += [word for mount in _mounts(plan, member, shown) for word in mount.words()]
    return words + [word for name in _passed_on(spec) for word in ("--env", name)]


def _with_modules(folders: Sequence[str]) -> list[str]:
    """The command prefix that appends to PYTHONPATH, which may be the image's own."""
    script = 'PYTHONPATH="${PYTHONPATH:+$PYTHONPATH:}$0" exec "$@"'
    return ["/bin/bash", "-c", script, ":".join(folders)] if folders else []


def with_given(argv: Sequence[str], names: Iterable[str]) -> list[str]:
    """The command line of a rank, completed with mpirun's variables."""
    ours = sorted(name for name in names if name.startswith(_OF_MPI))
    passed = [word for name in ours for word in ("--env", name)]
    line = list(argv)
    if GIVEN in line:
        at = line.index(GIVEN)
        line[at : at + 1] = passed
    return line


def run_once(engine: ContainerEngine, image: str, argv: Sequence[str]) -> list[str]:
    """The command line that runs a command in a new container, which gets only the node's network."""
    limits = [f"nofile={engine.files}:{engine.files}", f"nproc={engine.processes}:{engine.processes}"]
    words = ["run", "--rm", "--network", "host", "--entrypoint", "", "--workdir", "/"]
    return [*words, *(word for limit in limits for word in ("--ulimit", limit)), image, *argv]


@dataclass(frozen=True)
class _Mount:
    """A mount of a node's folder or file in the container."""

    source: str
    target: str
    is_read_only: bool = False

    def words(self) -> list[str]:
        """The engine's options for the mount. `--volume` can't express a path with a colon."""
        if ":" not in self.source + self.target:
            return ["--volume", f"{self.source}:{self.target}{':ro' if self.is_read_only else ''}"]
        # One line of CSV.
        fields = [f"source={self.source}", f"target={self.target}", *(["readonly"] if self.is_read_only else [])]
        return ["--mount", ",".join(["type=bind", *map(_quoted, fields)])]


def _quoted(field: str) -> str:
    return '"{}"'.format(field.replace('"', '""')) if re.search(r'[,"\r\n]', field) else field


def _mounts(plan: Plan, member: Member, shown: Sequence[str]) -> list[_Mount]:
    """The mounts: shares of the job's compute, the job's own folders (writable), and its inputs (read-only)."""
    own = dict.fromkeys((member.root, member.checkpoints))
    # Engines refuse a second mount at a path, so the job's own mounts replace a share.
    taken = {*own, *(one.appears for one in (*plan.inputs, *plan.outputs))}
    args = plan.container.args if plan.container else ()
    shares = {
        path: _Mount(path, path, is_read_only=not one.writable)
        for one in plan.shares
        if (path := one.path.rstrip("/")) not in taken and not _is_mounted(path, args)
    }
    inputs = [folder_layout.input_path(member.root, one) for one in plan.inputs]
    read = [
        path
        for path in dict.fromkeys((*inputs, *shown))
        if path.startswith("/") and not path.startswith(f"{member.root}/") and path.rstrip("/") not in shares
    ]
    plain = [*shares.values(), *map(_Mount, own, own), *(_Mount(path, path, is_read_only=True) for path in read)]
    seen = [
        _Mount(folder_layout.input_path(member.root, one), one.appears, is_read_only=True)
        for one in plan.inputs
        if one.appears
    ]
    written = [
        _Mount(folder_layout.output_path(member.root, one.name), one.appears) for one in plan.outputs if one.appears
    ]
    return [*plain, *seen, *written]


def _is_mounted(path: str, args: Sequence[str]) -> bool:
    """Whether the job's own engine options mount something at the path."""
    target = re.compile(rf"(?::|(?:target|destination|dst)=){re.escape(path)}/?(?:[:,]|$)")
    return any(target.search(word) for word in args)


def _passed_on(spec: ProcessSpec) -> list[str]:
    """The names of the variables to pass on; their values must not appear in a list of processes."""
    return sorted({*spec.defaulted, *spec.set, "DRUMBEAT_KEEPER"})


def _visible(spec: ProcessSpec, plan: RankRuntime, member: Member) -> dict[str, str]:
    """The rank's GPUs by CUDA's numbers in the container, which count those that the container got. Names stay.

    If the job's own options give it more of the node's GPUs, the numbers are the node's.
    """
    if plan.container and any(_MORE_GPUS.match(word) for word in plan.container.args):
        return {}
    inside = {gpu: str(at) for at, gpu in enumerate(sorted((gpu for gpu in member.gpus if gpu.isdecimal()), key=int))}
    seen = [gpu for gpu in spec.set.get(_VISIBLE, "").split(",") if gpu]
    return {_VISIBLE: ",".join(inside.get(gpu, gpu) for gpu in seen)} if _VISIBLE in spec.set else {}


def _devices(member: Member, engine: ContainerEngine) -> list[str]:
    """The options that give the job's GPUs to the container: by the container device interface, or Docker's own."""
    if not member.gpus:
        return []
    if engine.kind == "docker":
        return ["--gpus", f'"device={",".join(member.gpus)}"']
    return [word for gpu in member.gpus for word in ("--device", f"nvidia.com/gpu={gpu}")]


# --- the command that builds an image for a job's `build:` (dockerfile_reader.py reads its Dockerfile) ---


def build_line(engine: ContainerEngine, image: str, context: str, build: ImageBuild) -> list[str]:
    """The command that builds an image from a folder on the node. Its base images are there already."""
    words = [engine.program, "build", "--tag", image, "--file", f"{context}/{build.dockerfile}", "--network", "host"]
    if engine.kind == "podman":
        words += ["--layers", "--pull=missing", "--ulimit", f"nofile={engine.files}:{engine.files}"]
        words += ["--ulimit", f"nproc={engine.processes}:{engine.processes}"]
    return [*words, context]
