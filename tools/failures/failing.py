"""Each launcher with each of its failures, on two nodes of two ranks. `job/` has the scripts."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from tools import curated_environments, deepspeed_environment, ray_environment
from tools.failures.failure import FAULTS, LAST, NODES, RANKS_PER_NODE, Failure
from tools.matrix.rows import tensorflow as tensorflow_rows
from tools.matrix.rows.digits import without_mpirun
from tools.matrix.rows.horovod import horovodrun

Keys = dict[str, Any]
RAISES, KILLED, MISSING, COUNT, PORT = FAULTS
RAISED, KILL, TAKEN = (
    "ValueError: no such column: price",
    "SIGKILL",
    "EADDRINUSE|[Aa]ddress already in use|The port is in use",
)
FEWER = "the job has WORLD_SIZE ranks"
NOWHERE = "export PATH=/usr/bin:/bin"
"""Where none of the launchers is."""


# --- ranks that drumbeat starts ---------------------------------------------------------------------------------
def ranks(kind: str, command: str, **variables: str) -> Keys:
    """Two on each node."""
    distribution = {"type": kind, "process_count_per_instance": RANKS_PER_NODE}
    return {"command": command, "distribution": distribution, "environment_variables": variables}


def by_torch(kind: str) -> tuple[Failure, ...]:
    """The ranks of `pytorch` and `mpi`, which meet by torch."""
    missing = without_mpirun if kind == "mpi" else lambda: ""
    without = ranks(kind, "python meets.py none", PATH="/nowhere") if kind == "mpi" else ranks(kind, "pythonn meets.py")
    says = "no mpirun on its PATH" if kind == "mpi" else "pythonn: command not found"
    return (
        Failure(kind, RAISES, lambda: ranks(kind, "python meets.py raises"), (LAST,), RAISED, missing),
        Failure(kind, KILLED, lambda: ranks(kind, "python meets.py killed"), (LAST,), KILL, missing),
        Failure(kind, MISSING, lambda: without, (), says, missing),
        Failure(
            kind,
            COUNT,
            lambda: ranks(kind, "python meets.py count"),
            (),
            "the job has WORLD_SIZE ranks",
            missing,
        ),
        Failure(kind, PORT, lambda: ranks(kind, "python take.py python meets.py none"), (0,), TAKEN, missing),
    )


def by_deepspeed(kind: str) -> tuple[Failure, ...]:
    """DeepSpeed's engine in ranks of `pytorch` and `mpi`."""
    name = f"deepspeed by {kind}"

    def job(command: str) -> Keys:
        return ranks(kind, f"{deepspeed_environment.shell()}; {command}", **deepspeed_environment.variables())

    def missing() -> str:
        return deepspeed_environment.missing() or (without_mpirun() if kind == "mpi" else "")

    unequal = "train_batch_size is not equal to micro_batch_per_gpu"
    return (
        Failure(name, RAISES, lambda: job("python on_deepspeed.py raises"), (LAST,), RAISED, missing),
        Failure(name, KILLED, lambda: job("python on_deepspeed.py killed"), (LAST,), KILL, missing),
        Failure(name, MISSING, lambda: ranks(kind, "python on_deepspeed.py none"), (), "No module named 'deepspeed'"),
        Failure(name, COUNT, lambda: job("python on_deepspeed.py count"), (), unequal, missing),
        Failure(name, PORT, lambda: job("python take.py python on_deepspeed.py none"), (0,), TAKEN, missing),
    )


def by_lightning() -> tuple[Failure, ...]:
    """Lightning's Trainer in drumbeat's ranks."""

    def job(fault: str, before: str = "") -> Keys:
        command = f"{before} python on_lightning.py {fault} {NODES} {RANKS_PER_NODE}"
        return ranks("pytorch", f"{deepspeed_environment.shell()}; {command}", **deepspeed_environment.variables())

    bare = f"python on_lightning.py none {NODES} {RANKS_PER_NODE}"
    return (
        Failure("lightning", RAISES, lambda: job("raises"), (LAST,), RAISED, deepspeed_environment.missing),
        Failure("lightning", KILLED, lambda: job("killed"), (LAST,), KILL, deepspeed_environment.missing),
        Failure("lightning", MISSING, lambda: ranks("pytorch", bare), (), "No module named 'lightning'"),
        Failure("lightning", COUNT, lambda: job("count"), (), FEWER, deepspeed_environment.missing),
        Failure("lightning", PORT, lambda: job("none", "python take.py"), (0,), TAKEN, deepspeed_environment.missing),
    )


def by_horovod(kind: str) -> tuple[Failure, ...]:
    """Horovod's ranks by its MPI controller and by Gloo's. The one has no port; drumbeat itself holds the other's."""
    name = "horovod by mpi" if kind == "mpi" else "horovod by gloo"
    controller = {} if kind == "mpi" else {"HOROVOD_CONTROLLER": "gloo"}

    def job(fault: str) -> Keys:
        there = curated_environments.folder("horovod")
        variables = {"PATH": f"{there}/bin:/usr/local/bin:/usr/bin:/bin", **controller}
        return ranks(kind, f"{there}/bin/python on_horovod.py {fault}", **variables)

    missing = curated_environments.without_compiler
    return (
        Failure(name, RAISES, partial(job, "raises"), (LAST,), RAISED, missing),
        Failure(name, KILLED, partial(job, "killed"), (LAST,), KILL, missing),
        Failure(name, MISSING, lambda: ranks(kind, "python on_horovod.py none"), (), "No module named 'horovod'"),
        Failure(name, COUNT, partial(job, "count"), (), "invalid rank: 7", missing),
    )


# --- launchers that the command runs once on each node -----------------------------------------------------------
def per_node(command: str, **variables: str) -> Keys:
    """A command of one rank on each node."""
    return ranks("pytorch", command, **variables) | {"distribution": {"type": "pytorch"}}


def by_launcher(name: str, command: str, wrong: str) -> tuple[Failure, ...]:
    """One of torchrun or accelerate on each node. wrong: the command with a node too many."""

    def job(fault: str, line: str = command, before: str = "") -> Keys:
        return per_node(
            f"{deepspeed_environment.shell()}; {before} {line} meets.py {fault}", **deepspeed_environment.variables()
        )

    said = rf"{name} was asked for 3 nodes, and the job has 2"
    return (
        Failure(name, RAISES, partial(job, "raises"), (1,), RAISED, deepspeed_environment.missing),
        Failure(name, KILLED, partial(job, "killed"), (1,), KILL, deepspeed_environment.missing),
        Failure(name, MISSING, lambda: per_node(f"{NOWHERE}; {command} meets.py none"), (),
                rf"{name}: command not found"),
        Failure(name, COUNT, partial(job, "none", wrong), (), said, deepspeed_environment.missing),
        Failure(name, PORT, partial(job, "none", before="python take.py"), (0,), TAKEN, deepspeed_environment.missing),
    )  # fmt: skip


def by_deepspeeds_own() -> tuple[Failure, ...]:
    """The one on node 0, which starts the ranks of all."""
    name = "deepspeed by itself"
    options = f"--num_gpus {RANKS_PER_NODE} --master_addr $MASTER_ADDR --master_port $MASTER_PORT"

    def line(fault: str, options: str = options, before: str = "") -> str:
        started = f"{before} deepspeed --hostfile $DLTS_HOSTFILE {options} on_deepspeed.py {fault}"
        return f"[ $NODE_RANK != 0 ] || {started}"

    def job(fault: str, **more: str) -> Keys:
        return per_node(f"{deepspeed_environment.shell()}; {line(fault, **more)}", **deepspeed_environment.variables())

    too_many = "--include $(head -n 1 $DLTS_HOSTFILE | cut -d ' ' -f 1):7"
    return (
        Failure(name, RAISES, partial(job, "raises"), (0,), RAISED, deepspeed_environment.missing),
        Failure(name, KILLED, partial(job, "killed"), (0,), KILL, deepspeed_environment.missing),
        Failure(name, MISSING, lambda: per_node(f"{NOWHERE}; {line('none')}"), (0,), "deepspeed: command not found"),
        Failure(
            name,
            COUNT,
            partial(job, "none", options=too_many),
            (0,),
            "No slot '7' specified",
            deepspeed_environment.missing,
        ),
        Failure(name, PORT, partial(job, "none", before="python take.py"), (0,), TAKEN, deepspeed_environment.missing),
    )


def by_horovodrun() -> tuple[Failure, ...]:
    """The one on node 0, which starts the ranks of all by ssh."""

    def line(fault: str, count: int = NODES * RANKS_PER_NODE) -> str:
        return f"{horovodrun(count)} python on_horovod.py {fault}"

    def job(fault: str, count: int = NODES * RANKS_PER_NODE) -> Keys:
        there = curated_environments.folder("horovod")
        variables = {"PATH": f"{there}/bin:/usr/local/bin:/usr/bin:/bin"}
        return per_node(f"export PATH={there}/bin:$PATH; {line(fault, count)}", **variables)

    missing = curated_environments.without_compiler
    return (
        Failure("horovodrun", RAISES, partial(job, "raises"), (0,), RAISED, missing),
        Failure("horovodrun", KILLED, partial(job, "killed"), (0,), KILL, missing),
        Failure("horovodrun", MISSING, lambda: per_node(f"{NOWHERE}; {line('none')}"), (0,),
                "horovodrun: command not found"),
        Failure("horovodrun", COUNT, partial(job, "none", 5), (0,), "more processes", missing),
    )  # fmt: skip


# --- clusters ----------------------------------------------------------------------------------------------------
def by_tensorflow() -> tuple[Failure, ...]:
    """Workers in step, and a chief with workers and a parameter server."""
    missing = tensorflow_rows.missing

    def job(script: str, fault: str, servers: int, python: Callable[[], str]) -> Keys:
        tasks = {"type": "tensorflow", "worker_count": 2, "parameter_server_count": servers}
        return {"command": f"{python()} {script} {fault}", "distribution": tasks}

    def there() -> str:
        return f"{curated_environments.folder(tensorflow_rows.ENVIRONMENT)}/bin/python"

    def step(fault: str, python: Callable[[], str] = there) -> Keys:
        return job("on_tensorflow.py", fault, 0, python)

    def serve(fault: str, python: Callable[[], str] = there) -> Keys:
        return job("on_servers.py", fault, 1, python)

    steps, serves = "tensorflow MultiWorkerMirrored", "tensorflow ParameterServer"
    no_module, bare = "No module named 'tensorflow'", lambda: "python"
    return (
        Failure(steps, RAISES, partial(step, "raises"), (1,), RAISED, missing),
        Failure(steps, KILLED, partial(step, "killed"), (1,), KILL, missing),
        Failure(steps, MISSING, partial(step, "none", bare), (), no_module),
        Failure(steps, COUNT, partial(step, "count"), (0,), "task.?(?:id|index)", missing),
        Failure(steps, PORT, partial(step, "taken"), (1,), TAKEN, missing),
        Failure(serves, RAISES, partial(serve, "raises"), (0,), RAISED, missing),
        Failure(serves, KILLED, partial(serve, "killed"), (3,), KILL, missing),
        Failure(serves, MISSING, partial(serve, "none", bare), (), no_module),
        Failure(serves, COUNT, partial(serve, "count"), (), "ps", missing),
        Failure(serves, PORT, partial(serve, "taken"), (3,), TAKEN, missing),
    )


def by_ray() -> tuple[Failure, ...]:
    """The driver on node 0 and its actors. A port of Ray's own is refused before anything starts (`test_ray.py`)."""

    def job(fault: str, path: str = "") -> Keys:
        there = ray_environment.provide()
        if isinstance(there, str):
            raise LookupError(there)  # noqa: TRY004 (it is a sentence, not a wrong type)
        command = f"{there.python} on_ray.py {fault} {RANKS_PER_NODE}"
        variables = {"PATH": path or there.path}
        return {"command": command, "distribution": {"type": "ray"}, "environment_variables": variables}

    return (
        Failure("ray", RAISES, partial(job, "raises"), (0,), RAISED, ray_environment.missing),
        Failure("ray", KILLED, partial(job, "killed"), (0,), "ActorDiedError", ray_environment.missing),
        Failure("ray", MISSING, partial(job, "none", "/usr/bin:/bin"), (), "this node has no `ray` on the job's PATH",
                ray_environment.missing),
        Failure("ray", COUNT, partial(job, "count"), (0,), "GetTimeoutError", ray_environment.missing),
    )  # fmt: skip


_MEETING = "--master_addr $MASTER_ADDR --master_port $MASTER_PORT"
_TORCHRUN = f"torchrun --nnodes {{}} --node_rank $NODE_RANK --nproc_per_node {RANKS_PER_NODE} {_MEETING}"
_ACCELERATE = (
    "accelerate launch --multi_gpu --num_machines {} --machine_rank $NODE_RANK --num_processes {} --main_process_ip "
    "$MASTER_ADDR --main_process_port $MASTER_PORT --mixed_precision no --dynamo_backend no"
)
_WAITS = "--rdzv-conf join_timeout=20,timeout=20"

FAILURES: dict[str, Failure] = {
    failure.name: failure
    for failure in (
        *by_torch("pytorch"),
        *by_torch("mpi"),
        *by_launcher("torchrun", _TORCHRUN.format(2), f"{_TORCHRUN.format(3)} {_WAITS}"),
        *by_launcher("accelerate", _ACCELERATE.format(2, 4), f"{_ACCELERATE.format(3, 6)} --rdzv_conf timeout=20"),
        *by_lightning(),
        *by_deepspeed("pytorch"),
        *by_deepspeed("mpi"),
        *by_deepspeeds_own(),
        *by_horovod("mpi"),
        *by_horovod("pytorch"),
        *by_horovodrun(),
        *by_tensorflow(),
        *by_ray(),
    )
}
