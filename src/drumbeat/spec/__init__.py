"""What a person wrote: the job file as frozen models, with every refusal at its line.

Names are looked up on first use, so that importing the package costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from drumbeat.spec.builder import Command, command, load_job
    from drumbeat.spec.component import CommandComponent
    from drumbeat.spec.composing import Pipeline, load_component, pipeline
    from drumbeat.spec.compute import (
        AmlTokenIdentity,
        CommandJobLimits,
        JobResourceConfiguration,
        JupyterLabService,
        ManagedIdentity,
        QueueSettings,
        Resources,
        Service,
        SshService,
        TensorBoardService,
        UserIdentity,
        VsCodeService,
    )
    from drumbeat.spec.computes import NetlabCompute, SlurmCompute, SshCompute, SshHost, compute_from, load_compute
    from drumbeat.spec.data import Input, Output
    from drumbeat.spec.distribution import MpiDistribution, PyTorchDistribution, RayDistribution, TensorFlowDistribution
    from drumbeat.spec.environment import BuildContext, Environment, environment_from, load_environment
    from drumbeat.spec.estimator import Estimator
    from drumbeat.spec.expressions import Reference, references, render
    from drumbeat.spec.extensions import Checkpoints, Extensions
    from drumbeat.spec.job import CommandJob
    from drumbeat.spec.loader import Job, Loaded, from_dict, load, load_file, loads
    from drumbeat.spec.pipeline_job import PipelineComponent, PipelineJob
    from drumbeat.spec.search import (
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
    from drumbeat.spec.sweep import (
        BanditPolicy,
        BayesianSampling,
        GridSampling,
        MedianStoppingPolicy,
        Objective,
        RandomSampling,
        SweepJob,
        SweepJobLimits,
        TruncationSelectionPolicy,
    )
    from drumbeat.spec.trials import Sweep
    from drumbeat.spec.writer import dumps, to_dict

HOMES = {
    "builder": ["Command", "command", "load_job"],
    "composing": ["Pipeline", "load_component", "pipeline"],
    "compute": [
        "AmlTokenIdentity",
        "CommandJobLimits",
        "JobResourceConfiguration",
        "JupyterLabService",
        "ManagedIdentity",
        "QueueSettings",
        "Resources",
        "Service",
        "SshService",
        "TensorBoardService",
        "UserIdentity",
        "VsCodeService",
    ],
    "computes": ["NetlabCompute", "SlurmCompute", "SshCompute", "SshHost", "compute_from", "load_compute"],
    "data": ["Input", "Output"],
    "distribution": ["MpiDistribution", "PyTorchDistribution", "RayDistribution", "TensorFlowDistribution"],
    "environment": ["BuildContext", "Environment", "environment_from", "load_environment"],
    "estimator": ["Estimator"],
    "expressions": ["Reference", "references", "render"],
    "extensions": ["Checkpoints", "Extensions"],
    "job": ["CommandJob"],
    "loader": ["Job", "Loaded", "from_dict", "load", "load_file", "loads"],
    "component": ["CommandComponent"],
    "pipeline_job": ["PipelineComponent", "PipelineJob"],
    "search": [
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
    "sweep": [
        "BanditPolicy",
        "BayesianSampling",
        "GridSampling",
        "MedianStoppingPolicy",
        "Objective",
        "RandomSampling",
        "SweepJob",
        "SweepJobLimits",
        "TruncationSelectionPolicy",
    ],
    "trials": ["Sweep"],
    "writer": ["dumps", "to_dict"],
}
HOME_OF = {name: home for home, names in HOMES.items() for name in names}

__all__ = [
    "AmlTokenIdentity",
    "BanditPolicy",
    "BayesianSampling",
    "BuildContext",
    "Checkpoints",
    "Choice",
    "Command",
    "CommandComponent",
    "CommandJob",
    "CommandJobLimits",
    "Environment",
    "Estimator",
    "Extensions",
    "GridSampling",
    "Input",
    "Job",
    "JobResourceConfiguration",
    "JupyterLabService",
    "Loaded",
    "LogNormal",
    "LogUniform",
    "ManagedIdentity",
    "MedianStoppingPolicy",
    "MpiDistribution",
    "NetlabCompute",
    "Normal",
    "Objective",
    "Output",
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
    "RayDistribution",
    "Reference",
    "Resources",
    "Service",
    "SlurmCompute",
    "SshCompute",
    "SshHost",
    "SshService",
    "Sweep",
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
    "load_environment",
    "load_file",
    "load_job",
    "loads",
    "pipeline",
    "references",
    "render",
    "to_dict",
]


def __getattr__(name: str) -> object:
    if name not in HOME_OF:
        raise AttributeError(f"drumbeat.spec has no {name!r}")
    return getattr(import_module(f"drumbeat.spec.{HOME_OF[name]}"), name)
