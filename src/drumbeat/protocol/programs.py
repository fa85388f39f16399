"""The modules of drumbeat that run as programs of their own (`python -m NAME`).

A name in a string escapes type checkers and rename tools, so each stands here once, and a test imports all of them.
"""

from __future__ import annotations

SERVER = "drumbeat.server"
OPTUNA = "drumbeat.samplers.optuna_program"
EVENT_FILES = "drumbeat.stores.event_files.program"
HOST = "drumbeat.host"
SLURM_STEP = "drumbeat.host.slurm_step"
POD_START = "drumbeat.host.pod_start"
RAY_NODE = "drumbeat.host.ray_node"
NETLAB_HOLDER = "drumbeat.engines.netlab.lab_holder"

AGENT = "drumbeat.agent"
CLEANUP = "drumbeat.agent.cleanup"
KEEPER = "drumbeat.agent.keeper.keeper"
ERRAND = "drumbeat.agent.keeper.errand_process"
MOUNT_HOLDER = "drumbeat.agent.inputs.mounting.mount_holder"
METRICS_ENDPOINT = "drumbeat.agent.metrics.endpoint_process"
GPU_READER = "drumbeat.agent.ground.gpu_reader_process"
SESSION = "drumbeat.agent.companions.session_process"

MPI_CHILD = "drumbeat.agent.launchers.mpi.mpirun_child"
MPI_RANK = "drumbeat.agent.launchers.mpi.rank"
HOROVOD_RENDEZVOUS = "drumbeat.agent.launchers.horovod.rendezvous"
COMMAND_SERVER = "drumbeat.agent.launchers.remote.command_server"
SHELL = "drumbeat.agent.launchers.remote.ssh_stand_in"
PDSH = "drumbeat.agent.launchers.remote.pdsh_stand_in"

PROGRAMS = (
    SERVER,
    OPTUNA,
    EVENT_FILES,
    HOST,
    SLURM_STEP,
    POD_START,
    RAY_NODE,
    NETLAB_HOLDER,
    AGENT,
    CLEANUP,
    KEEPER,
    ERRAND,
    MOUNT_HOLDER,
    METRICS_ENDPOINT,
    GPU_READER,
    SESSION,
    MPI_CHILD,
    MPI_RANK,
    HOROVOD_RENDEZVOUS,
    COMMAND_SERVER,
    SHELL,
    PDSH,
)  # fmt: skip
