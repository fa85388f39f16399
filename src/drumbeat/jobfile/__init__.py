"""What a user wrote: the job file as checked models, with every refusal at its line.

Names are looked up on first use, so that importing the package costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from drumbeat.jobfile.builders.command import Command, command, load_job
    from drumbeat.jobfile.builders.component import ComponentFunction, load_component
    from drumbeat.jobfile.builders.estimator import Estimator
    from drumbeat.jobfile.builders.parallel import RunFunction, parallel_run_function
    from drumbeat.jobfile.builders.pipeline import Pipeline, pipeline
    from drumbeat.jobfile.builders.sweep import Sweep
    from drumbeat.jobfile.compute.amlcompute import AmlCompute
    from drumbeat.jobfile.compute.computes import compute_from, load_compute
    from drumbeat.jobfile.compute.kubernetes import KubernetesCompute, KubernetesVolume
    from drumbeat.jobfile.compute.netlab import NetlabCompute
    from drumbeat.jobfile.compute.ray import RayCompute
    from drumbeat.jobfile.compute.slurm import SlurmCompute
    from drumbeat.jobfile.compute.ssh import SshCompute, SshHost
    from drumbeat.jobfile.data.assets import AssetTypes, DataAsset, InputOutputModes, ModelAsset, load_data
    from drumbeat.jobfile.data.inputs_outputs import Input, Output
    from drumbeat.jobfile.environments.environment_keys import (
        BuildContext,
        Environment,
        environment_from,
        load_environment,
    )
    from drumbeat.jobfile.job.conditions import ConditionSettings
    from drumbeat.jobfile.job.distribution import (
        MpiDistribution,
        PyTorchDistribution,
        RayDistribution,
        TensorFlowDistribution,
    )
    from drumbeat.jobfile.job.extensions import CheckpointSettings, Extensions
    from drumbeat.jobfile.job.identity import AmlTokenIdentity, ManagedIdentity, UserIdentity
    from drumbeat.jobfile.job.job import CommandJob
    from drumbeat.jobfile.job.resources_and_limits import (
        CommandJobLimits,
        JobResourceConfiguration,
        QueueSettings,
        Resources,
    )
    from drumbeat.jobfile.job.services import JupyterLabService, Service, SshService, TensorBoardService, VsCodeService
    from drumbeat.jobfile.job_file import Job, Loaded, from_dict, load, load_file, loads
    from drumbeat.jobfile.pipelines.component import CommandComponent
    from drumbeat.jobfile.pipelines.parallel import ParallelComponent, ParallelTask
    from drumbeat.jobfile.pipelines.pipeline_job import PipelineComponent, PipelineJob
    from drumbeat.jobfile.reading.expressions import Reference, references, render
    from drumbeat.jobfile.reading.writer import dumps, to_dict
    from drumbeat.jobfile.schedules.schedule import JobSchedule, ScheduleSettings, load_schedule, schedule_from
    from drumbeat.jobfile.schedules.triggers import CronTrigger, RecurrencePattern, RecurrenceTrigger
    from drumbeat.jobfile.sweeping.early_termination import (
        Asha,
        BanditPolicy,
        MedianStoppingPolicy,
        SweepExtensions,
        TruncationSelectionPolicy,
    )
    from drumbeat.jobfile.sweeping.search_space import (
        Choice,
        LogNormal,
        LogUniform,
        Normal,
        QLogNormal,
        QLogUniform,
        QNormal,
        QUniform,
        RandInt,
        Randint,
        Uniform,
    )
    from drumbeat.jobfile.sweeping.sweep import (
        BayesianSampling,
        GridSampling,
        Objective,
        RandomSampling,
        SweepJob,
        SweepJobLimits,
    )

HOMES = {
    "builders.command": ["Command", "command", "load_job"],
    "builders.component": ["ComponentFunction", "load_component"],
    "builders.parallel": ["RunFunction", "parallel_run_function"],
    "builders.pipeline": ["Pipeline", "pipeline"],
    "job.identity": ["AmlTokenIdentity", "ManagedIdentity", "UserIdentity"],
    "job.resources_and_limits": ["CommandJobLimits", "JobResourceConfiguration", "QueueSettings", "Resources"],
    "job.services": ["JupyterLabService", "Service", "SshService", "TensorBoardService", "VsCodeService"],
    "compute.amlcompute": ["AmlCompute"],
    "compute.kubernetes": ["KubernetesCompute", "KubernetesVolume"],
    "compute.ray": ["RayCompute"],
    "compute.netlab": ["NetlabCompute"],
    "compute.slurm": ["SlurmCompute"],
    "compute.ssh": ["SshCompute", "SshHost"],
    "compute.computes": ["compute_from", "load_compute"],
    "data.assets": ["AssetTypes", "DataAsset", "InputOutputModes", "ModelAsset", "load_data"],
    "data.inputs_outputs": ["Input", "Output"],
    "job.conditions": ["ConditionSettings"],
    "job.distribution": ["MpiDistribution", "PyTorchDistribution", "RayDistribution", "TensorFlowDistribution"],
    "environments.environment_keys": ["BuildContext", "Environment", "environment_from", "load_environment"],
    "builders.estimator": ["Estimator"],
    "reading.expressions": ["Reference", "references", "render"],
    "job.extensions": ["CheckpointSettings", "Extensions"],
    "job.job": ["CommandJob"],
    "job_file": ["Job", "Loaded", "from_dict", "load", "load_file", "loads"],
    "pipelines.component": ["CommandComponent"],
    "pipelines.parallel": ["ParallelComponent", "ParallelTask"],
    "pipelines.pipeline_job": ["PipelineComponent", "PipelineJob"],
    "schedules.schedule": ["JobSchedule", "ScheduleSettings", "load_schedule", "schedule_from"],
    "schedules.triggers": ["CronTrigger", "RecurrencePattern", "RecurrenceTrigger"],
    "sweeping.search_space": [
        "Choice",
        "LogNormal",
        "LogUniform",
        "Normal",
        "QLogNormal",
        "QLogUniform",
        "QNormal",
        "QUniform",
        "RandInt",
        "Randint",
        "Uniform",
    ],
    "sweeping.early_termination": [
        "Asha",
        "BanditPolicy",
        "MedianStoppingPolicy",
        "SweepExtensions",
        "TruncationSelectionPolicy",
    ],
    "sweeping.sweep": [
        "BayesianSampling",
        "GridSampling",
        "Objective",
        "RandomSampling",
        "SweepJob",
        "SweepJobLimits",
    ],
    "builders.sweep": ["Sweep"],
    "reading.writer": ["dumps", "to_dict"],
}
HOME_OF = {name: home for home, names in HOMES.items() for name in names}

__all__ = [
    "AmlCompute",
    "AmlTokenIdentity",
    "Asha",
    "AssetTypes",
    "BanditPolicy",
    "BayesianSampling",
    "BuildContext",
    "CheckpointSettings",
    "Choice",
    "Command",
    "CommandComponent",
    "CommandJob",
    "CommandJobLimits",
    "ComponentFunction",
    "ConditionSettings",
    "CronTrigger",
    "DataAsset",
    "Environment",
    "Estimator",
    "Extensions",
    "GridSampling",
    "Input",
    "InputOutputModes",
    "Job",
    "JobResourceConfiguration",
    "JobSchedule",
    "JupyterLabService",
    "KubernetesCompute",
    "KubernetesVolume",
    "Loaded",
    "LogNormal",
    "LogUniform",
    "ManagedIdentity",
    "MedianStoppingPolicy",
    "ModelAsset",
    "MpiDistribution",
    "NetlabCompute",
    "Normal",
    "Objective",
    "Output",
    "ParallelComponent",
    "ParallelTask",
    "Pipeline",
    "PipelineComponent",
    "PipelineJob",
    "PyTorchDistribution",
    "QLogNormal",
    "QLogUniform",
    "QNormal",
    "QUniform",
    "QueueSettings",
    "RandInt",
    "Randint",
    "RandomSampling",
    "RayCompute",
    "RayDistribution",
    "RecurrencePattern",
    "RecurrenceTrigger",
    "Reference",
    "Resources",
    "RunFunction",
    "ScheduleSettings",
    "Service",
    "SlurmCompute",
    "SshCompute",
    "SshHost",
    "SshService",
    "Sweep",
    "SweepExtensions",
    "SweepJob",
    "SweepJobLimits",
    "TensorBoardService",
    "TensorFlowDistribution",
    "TruncationSelectionPolicy",
    "Uniform",
    "UserIdentity",
    "VsCodeService",
    "command",
    "compute_from",
    "dumps",
    "environment_from",
    "from_dict",
    "load",
    "load_component",
    "load_compute",
    "load_data",
    "load_environment",
    "load_file",
    "load_job",
    "load_schedule",
    "loads",
    "parallel_run_function",
    "pipeline",
    "references",
    "render",
    "schedule_from",
    "to_dict",
]


def __getattr__(name: str) -> object:
    if name not in HOME_OF:
        raise AttributeError(f"drumbeat.jobfile has no {name!r}")
    return getattr(import_module(f"drumbeat.jobfile.{HOME_OF[name]}"), name)
