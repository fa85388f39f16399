"""Reads a rank's number and meeting point from the variables of its launcher.

Pure: a mapping of variables in, a `RankIdentity` out. Launchers are tried in order, the innermost first, because a
launcher passes on the variables of the one that started it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping

from drumbeat.model.errors import RefusedError
from drumbeat.train.rank_identity import ENVIRONMENT, RankIdentity

Variables = Mapping[str, str]

_PORTS = range(15000, 31000)
"""Below the ports that Linux assigns itself, and above most services."""
_BATCH_AI_PORT = 54965
"""The port that Azure's adapters use if AZ_BATCHAI_MPI_MASTER_NODE has only the host."""
_OF_MPI_JOB = ("PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "PMI_PORT", "PMI_JOBID", "SLURM_JOB_ID")
"""Variables that are equal in all ranks of one mpirun, and differ between two."""


def read_identity(variables: Variables) -> RankIdentity:
    """Returns the identity of this process among its ranks; without a launcher it is alone.

    Raises RefusedError if a launcher's variables are incomplete or contradictory.
    """
    for is_launcher, read in _LAUNCHERS:
        if is_launcher(variables):
            return _checked(read(variables))
    return RankIdentity("none")


# --- torch's own names ------------------------------------------------------------------------------------------
def _is_torchrun(variables: Variables) -> bool:
    return "TORCHELASTIC_RUN_ID" in variables and "RANK" in variables


def _has_torch_names(variables: Variables) -> bool:
    return "RANK" in variables and "WORLD_SIZE" in variables


def _is_mpirun_within_drumbeat(variables: Variables) -> bool:
    # drumbeat removes these from a node's variables: if its rank has both, the rank's command started mpirun.
    return "DRUMBEAT_JOB" in variables and "RANK" in variables and (_is_open_mpi(variables) or _is_hydra(variables))


def _within_drumbeat(variables: Variables) -> RankIdentity:
    own = {name: value for name, value in variables.items() if name not in ("MASTER_ADDR", "MASTER_PORT")}
    return _open_mpi(own) if _is_open_mpi(own) else _hydra(own)


def _torch(variables: Variables) -> RankIdentity:
    launcher = "torchrun" if _is_torchrun(variables) else "drumbeat" if "DRUMBEAT_JOB" in variables else "torch"
    rank, size = _number(variables, "RANK"), _number(variables, "WORLD_SIZE")
    addr = variables.get("MASTER_ADDR", "")
    if size > 1 and not (addr and variables.get("MASTER_PORT")):
        what = f"RANK is {rank} of WORLD_SIZE {size}, but MASTER_ADDR or MASTER_PORT isn't set"
        raise _refused(what, "Set both: the host of rank 0, and a free port there.")
    node = _optional(variables, "NODE_RANK")
    return RankIdentity(
        launcher,
        rank,
        size,
        _optional(variables, "LOCAL_RANK") if size > 1 else _optional(variables, "LOCAL_RANK") or 0,
        _optional(variables, "LOCAL_WORLD_SIZE"),
        node if node is not None else _optional(variables, "GROUP_RANK"),
        addr or "127.0.0.1",
        _optional(variables, "MASTER_PORT") or 0,
    )


# --- MPI --------------------------------------------------------------------------------------------------------
def _is_open_mpi(variables: Variables) -> bool:
    return "OMPI_COMM_WORLD_RANK" in variables


def _open_mpi(variables: Variables) -> RankIdentity:
    launcher = "drumbeat" if "DRUMBEAT_JOB" in variables and "RANK" not in variables else "Open MPI"
    return _mpi(variables, launcher, [f"OMPI_COMM_WORLD_{name}" for name in _MPI_NAMES])


_MPI_NAMES = ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE")


def _is_hydra(variables: Variables) -> bool:
    return "PMI_RANK" in variables and "PMI_SIZE" in variables


def _hydra(variables: Variables) -> RankIdentity:
    return _mpi(variables, "hydra", ["PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"])


def _mpi(variables: Variables, launcher: str, names: list[str]) -> RankIdentity:
    rank, size = _number(variables, names[0]), _number(variables, names[1])
    local, each = _optional(variables, names[2]), _optional(variables, names[3])
    # The variables don't show how mpirun assigns ranks to nodes; `init()` asks the ranks for their hosts.
    node = 0 if each == size else None
    addr, port = _mpi_master(variables, is_one_host=each == size)
    return RankIdentity(launcher, rank, size, local, each, node, addr, port)


def _mpi_master(variables: Variables, *, is_one_host: bool) -> tuple[str, int]:
    """Returns host and port of rank 0, host "" = MPI itself must be asked."""
    derived = _job_port(next((variables[name] for name in _OF_MPI_JOB if name in variables), ""))
    if variables.get("MASTER_ADDR"):
        return variables["MASTER_ADDR"], _optional(variables, "MASTER_PORT") or derived
    if is_one_host and "AZ_BATCH_MASTER_NODE" not in variables:
        host = variables.get("AZ_BATCHAI_MPI_MASTER_NODE", "")
        return (host, _BATCH_AI_PORT) if host else ("127.0.0.1", derived)
    host, _, port = variables.get("AZ_BATCH_MASTER_NODE", "").rpartition(":")
    if host:
        return host, int(port) if port.isdecimal() else derived
    host = variables.get("AZ_BATCHAI_MPI_MASTER_NODE", "")
    return (host, _BATCH_AI_PORT) if host and host != "localhost" else ("", derived)


# --- Slurm ------------------------------------------------------------------------------------------------------
def _is_srun(variables: Variables) -> bool:
    # A batch script has SLURM_PROCID and SLURM_NTASKS, too, but only srun's tasks have a step with a size.
    return "SLURM_PROCID" in variables and "SLURM_STEP_NUM_TASKS" in variables


def _slurm(variables: Variables) -> RankIdentity:
    node = _number(variables, "SLURM_NODEID")
    nodes = variables.get("SLURM_STEP_NODELIST") or variables.get("SLURM_JOB_NODELIST", "")
    step = f"{variables.get('SLURM_JOB_ID', '')}.{variables.get('SLURM_STEP_ID', '')}"
    return RankIdentity(
        "Slurm",
        _number(variables, "SLURM_PROCID"),
        _number(variables, "SLURM_STEP_NUM_TASKS"),
        _number(variables, "SLURM_LOCALID"),
        tasks_on(variables.get("SLURM_STEP_TASKS_PER_NODE", ""), node),
        node,
        variables.get("MASTER_ADDR") or first_host(nodes),
        _optional(variables, "MASTER_PORT") or _job_port(step),
    )


# --- TensorFlow -------------------------------------------------------------------------------------------------
def _is_tensorflow(variables: Variables) -> bool:
    return bool(variables.get("TF_CONFIG"))


def _tensorflow(variables: Variables) -> RankIdentity:
    try:
        config = json.loads(variables["TF_CONFIG"])
        cluster, kind, index = config["cluster"], config["task"]["type"], int(config["task"]["index"])
        before = sum(len(cluster.get(one, ())) for one in _COMPUTING[: _COMPUTING.index(kind)])
        hosts = [address for one in _COMPUTING for address in cluster.get(one, ())]
        rank, places = before + index, [address.rpartition(":")[0] for address in hosts]
        port = int(hosts[0].rpartition(":")[2])
        here = places[rank]
    except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        what = f"TF_CONFIG gives this task no rank in torch's world: {error}"
        raise _refused(
            what, "A rank is a chief or a worker; parameter servers and evaluators don't run torch."
        ) from None
    nodes = list(dict.fromkeys(places))
    local = places[:rank].count(here)
    return RankIdentity("TF_CONFIG", rank, len(hosts), local, places.count(here), nodes.index(here), places[0], port)


_COMPUTING = ("chief", "master", "worker")
"""The kinds of tasks that compute, in the order of their ranks."""


# --- Azure Batch AI ---------------------------------------------------------------------------------------------
def _is_batch_ai(variables: Variables) -> bool:
    return "AZ_BATCHAI_TASK_INDEX" in variables


def _batch_ai(variables: Variables) -> RankIdentity:
    rank = _number(variables, "AZ_BATCHAI_TASK_INDEX")
    listed = variables.get("AZ_BATCHAI_WORKER_HOSTS") or variables.get("AZ_BATCH_HOST_LIST", "")
    hosts = [one for one in listed.split(",") if one]
    size = _optional(variables, "WORLD_SIZE") or len(hosts)
    if not size:
        what = f"AZ_BATCHAI_TASK_INDEX is {rank}, and no variable has the number of ranks"
        raise _refused(what, "Set WORLD_SIZE or AZ_BATCH_HOST_LIST.")
    method = variables.get("AZ_BATCHAI_PYTORCH_INIT_METHOD") or ENVIRONMENT
    master = hosts[0] if hosts else variables.get("AZ_BATCHAI_JOB_MASTER_NODE_IP", "")
    if method.startswith("tcp://"):
        master, method = method[len("tcp://") :].split("/")[0], ENVIRONMENT
    host, port = _host_and_port(master)
    each = size // len(hosts) if hosts and size % len(hosts) == 0 else None
    local, node = (rank % each, rank // each) if each else (None, None)
    return RankIdentity("Batch AI", rank, size, local, each, node, host, port or _job_port(listed), method)


_LAUNCHERS: tuple[tuple[Callable[[Variables], bool], Callable[[Variables], RankIdentity]], ...] = (
    (_is_torchrun, _torch),
    (_is_mpirun_within_drumbeat, _within_drumbeat),
    (_has_torch_names, _torch),
    (_is_open_mpi, _open_mpi),
    (_is_hydra, _hydra),
    (_is_srun, _slurm),
    (_is_tensorflow, _tensorflow),
    (_is_batch_ai, _batch_ai),
)


# --- reading ----------------------------------------------------------------------------------------------------
def _number(variables: Variables, name: str) -> int:
    value = variables.get(name, "")
    if not value.isdecimal():
        stated = f"is {value!r}" if value else "isn't set"
        raise _refused(f"{name} {stated}", "It must be an integer, as the launcher sets it.")
    return int(value)


def _optional(variables: Variables, name: str) -> int | None:
    return _number(variables, name) if variables.get(name) else None


def _host_and_port(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return (host, int(port)) if host and port.isdecimal() else (address, 0)


def _job_port(job: str) -> int:
    """Returns a port that is the same in all ranks of a job."""
    return _PORTS[int(hashlib.sha256(job.encode()).hexdigest()[:8], 16) % len(_PORTS)]


def _checked(identity: RankIdentity) -> RankIdentity:
    if not 0 <= identity.rank < identity.world_size:
        what = f"{identity.launcher} says that this is rank {identity.rank} of {identity.world_size}"
        raise _refused(what, "Ranks count from 0. Start all processes of the job with the same launcher.")
    return identity


def _refused(what: str, fix: str) -> RefusedError:
    return RefusedError(what, where="environment variables", fix=fix)


# --- the two compressed lists in Slurm's variables: host names and tasks per node ---

_BRACKETS = re.compile(r"\[([^\]]*)\]")
_REPEATED = re.compile(r"(\d+)(?:\(x(\d+)\))?$")


def first_host(nodes: str) -> str:
    """Returns the first name of a list such as `gpu[03-05,9]-ib,login`; "" if it is empty."""
    depth, end = 0, len(nodes)
    for at, letter in enumerate(nodes):
        depth += (letter == "[") - (letter == "]")
        if letter == "," and depth == 0:
            end = at
            break
    return _BRACKETS.sub(lambda match: re.split("[-,]", match[1])[0], nodes[:end])


def tasks_on(counts: str, node: int) -> int | None:
    """Returns the number of tasks on a node by a list such as `2(x3),1`; None if the list doesn't say it."""
    at = 0
    for part in filter(None, counts.split(",")):
        read = _REPEATED.match(part)
        if read is None:
            return None
        at += int(read[2] or 1)
        if node < at:
            return int(read[1])
    return None
