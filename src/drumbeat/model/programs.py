"""The modules of drumbeat that run as programs of their own (`python -m NAME`).

A name in a string escapes type checkers and rename tools, so each stands here once, and a test imports all of them.
"""

from __future__ import annotations

SERVER = "drumbeat.server"
ROUTER = "drumbeat.router"
SCORING = "drumbeat.scoring"
OPTUNA = "drumbeat.server.sweeps.samplers.optuna_program"
EVENT_FILES = "drumbeat.server.metrics.event_files.program"
HOST = "drumbeat.node.host"
SLURM_STEP = "drumbeat.node.host.slurm_step"
POD_START = "drumbeat.node.host.pod_start"
RAY_NODE = "drumbeat.node.host.ray_node"
NETLAB_HOLDER = "drumbeat.engines.netlab.lab_holder"

AGENT = "drumbeat.node.agent"
EARLIER_AGENT = "drumbeat.agent"
"""What 0.2 called it: its agents may run on under a server of this version."""
CLEANUP = "drumbeat.node.agent.cleanup"
SUPERVISOR = "drumbeat.node.supervisor.supervisor"
NODE_TASK = "drumbeat.node.supervisor.node_task_process"
MOUNT_HOLDER = "drumbeat.node.inputs.mounting.mount_holder"
METRICS_ENDPOINT = "drumbeat.node.metrics.endpoint_process"
GPU_READER = "drumbeat.node.platform.gpu_reader_process"
SESSION = "drumbeat.node.sidecars.session_process"

MPI_CHILD = "drumbeat.node.launchers.mpi.mpirun_child"
MPI_RANK = "drumbeat.node.launchers.mpi.rank"
HOROVOD_RENDEZVOUS = "drumbeat.node.launchers.horovod.rendezvous"
COMMAND_SERVER = "drumbeat.node.launchers.remote.command_server"
SHELL = "drumbeat.node.launchers.remote.ssh_stand_in"
PDSH = "drumbeat.node.launchers.remote.pdsh_stand_in"

PROGRAMS = (
    SERVER,
    ROUTER,
    SCORING,
    OPTUNA,
    EVENT_FILES,
    HOST,
    SLURM_STEP,
    POD_START,
    RAY_NODE,
    NETLAB_HOLDER,
    AGENT,
    CLEANUP,
    SUPERVISOR,
    NODE_TASK,
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
