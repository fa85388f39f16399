"""The variables of a rank that don't depend on its launcher: set, defaulted, removed."""

from __future__ import annotations

from drumbeat.launchers import network_variables, path_substitution
from drumbeat.model import folder_layout, mesh
from drumbeat.model.plan import Plan, Rank, RankRuntime
from drumbeat.model.roster import Member, Roster

SCRUBBED = (
    # Schedulers and launchers under which the agent may itself run: Open MPI, Lightning and torch would trust them.
    "SLURM_*", "SLURMD_*", "SBATCH_*", "SRUN_*", "PBS_*", "LSB_*", "COBALT_*",
    "OMPI_*", "OPAL_*", "ORTE_*", "PRTE_*", "PMI_*", "PMI2_*", "PMIX_*", "MPI_LOCAL*", "HYDRA_*", "HYDI_*",
    "MV2_COMM_*",
    "HOROVOD_*", "TORCHELASTIC_*", "PET_*", "ACCELERATE_*", "DLTS_HOSTFILE", "RAY_*", "TF_CONFIG",
    # A rank's place in some other job.
    "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "NODE_RANK", "CROSS_RANK", "CROSS_SIZE", "LOCAL_SIZE",
    "GROUP_RANK", "GROUP_WORLD_SIZE", "ROLE_*", "MASTER_ADDR", "MASTER_PORT", "TASK_INDEX", "WORKER_HOSTS", "PS_HOSTS",
    # Another job's identity, and drumbeat's own settings and secrets.
    "AZUREML_*", "AZURE_ML_*", "AZ_BATCH*", "MLFLOW_RUN_ID", "MLFLOW_TRACKING_*",
    "MLFLOW_EXPERIMENT_*", "DRUMBEAT_*",
    # Shell state of the session that started the server.
    "OLDPWD", "PWD", "SHLVL", "_", "VIRTUAL_ENV_PROMPT", "PYTHONHOME", "PYTHONSTARTUP", "BASH_ENV", "ENV",
    "LINES", "COLUMNS",
)  # fmt: skip
"""Variables that ranks don't inherit from the node. A trailing `*` matches any ending."""

OF_OTHER_PYTHONS = ("PYTHONPATH", "CONDA_PREFIX", "CONDA_DEFAULT_ENV", "CONDA_PROMPT_MODIFIER", "CONDA_SHLVL")
"""Variables that are removed, too, if the node has an environment for the job: they point to
packages of other Pythons.
"""


def scrubbed(plan: RankRuntime) -> tuple[str, ...]:
    """The variables to remove; for a job with its own Python, also those that point to packages of other Pythons."""
    return SCRUBBED if plan.python is None else (*SCRUBBED, *OF_OTHER_PYTHONS)


def job_variables(plan: Plan, roster: Roster, rank: Rank) -> dict[str, str]:
    """The variables of every rank: the job's own, drumbeat's, and Azure ML's job variables."""
    return {
        **node_variables(plan, roster.member(rank.node), roster.attempt),
        **({"AZ_BATCH_HOST_LIST": ",".join(m.address for m in roster.members)} if roster.is_whole else {}),
        "AZ_BATCHAI_JOB_MASTER_NODE_IP": roster.master.address,
        "DRUMBEAT_ROUND": str(roster.round),
        **({UNIQUE_JOB: roster.unique_job} if roster.unique_job else {}),
        **mesh.variables(plan.mesh, rank.rank),
        **({} if rank.computes else {"CUDA_VISIBLE_DEVICES": ""}),
    }


def node_variables(plan: Plan, member: Member, attempt: int) -> dict[str, str]:
    """The variables that don't depend on the round: the same for every process on a node."""
    return {
        **plan.variables,
        **_dialect(plan, member),
        "DRUMBEAT_JOB": plan.job,
        "DRUMBEAT_ATTEMPT": str(attempt),
        "DRUMBEAT_OUTPUT_DIR": folder_layout.output_path(member.root, folder_layout.working_output(plan.outputs)),
        "DRUMBEAT_CHECKPOINT_DIR": member.checkpoints,
        "CUDA_VISIBLE_DEVICES": ",".join(member.gpus),
    }


def defaults(plan: Plan, roster: Roster, rank: Rank) -> dict[str, str]:
    """Defaults of a rank's variables, which the job and the node may override.

    OMP_NUM_THREADS is 1 with several ranks on a node, as with torchrun: otherwise each rank would use every core.
    CUDA_DEVICE_ORDER makes a GPU's number mean the same to every job and to nvidia-smi: CUDA puts the fastest first.
    PYTHONUNBUFFERED makes a line visible when it is printed.
    """
    member = roster.member(rank.node)
    threads = {"OMP_NUM_THREADS": "1"} if plan.processes_per_node > 1 else {}
    return {**threads, **defaults_of_node(member), **network_variables.variables(plan, member)}


def defaults_of_node(member: Member) -> dict[str, str]:
    """Defaults of the variables of every process on a node."""
    order = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"} if member.gpus else {}
    return {**order, "PYTHONUNBUFFERED": "1"}


def _dialect(plan: Plan, member: Member) -> dict[str, str]:
    files = path_substitution.node_paths(plan, member.root)
    return {
        "AZUREML_RUN_ID": plan.job,
        "AZUREML_ARM_PROJECT_NAME": plan.experiment,
        "AZUREML_NODE_COUNT": str(plan.nodes),
        "AZUREML_CR_NODE_RANK": str(member.node),
        **{f"AZUREML_PARAMETER_{name}": value for name, value in plan.literals.items()},
        **{f"AZURE_ML_INPUT_{name}": path for name, path in files["inputs"].items()},
        **{f"AZURE_ML_OUTPUT_{name}": path for name, path in files["outputs"].items()},
    }


CHECKPOINT_KEEP = "DRUMBEAT_CHECKPOINT_KEEP"
"""The variable that says how many checkpoints `drumbeat.train.Checkpoints` keeps; a job may set it."""

GANG_SECRET = "DRUMBEAT_GANG_SECRET"  # noqa: S105 - the name of a variable
"""The variable with a secret that the ranks of an attempt share, by which they can authenticate each other."""

UNIQUE_JOB = "DRUMBEAT_UNIQUE_JOB"
"""The variable with the job's unique name if a deleted job had its name; `drumbeat.train.Checkpoints` needs it to keep
their checkpoints apart.
"""

RESERVED = (
    "AZUREML_RUN_ID", "AZUREML_NODE_COUNT", "AZUREML_CR_NODE_RANK", "AZ_BATCH_HOST_LIST",
    "AZ_BATCHAI_JOB_MASTER_NODE_IP",
    "DRUMBEAT_JOB", "DRUMBEAT_ATTEMPT", "DRUMBEAT_ROUND", "DRUMBEAT_OUTPUT_DIR", "DRUMBEAT_CHECKPOINT_DIR",
    UNIQUE_JOB, GANG_SECRET, "DRUMBEAT_METRICS", mesh.VARIABLE, "AZUREML_EXPERIMENT_ID", "CUDA_VISIBLE_DEVICES",
)  # fmt: skip
"""Variables that drumbeat sets under every launcher: a job that sets one is refused."""
