"""The constants of Azure's SDK whose words drumbeat takes."""

from __future__ import annotations

from enum import StrEnum


class InputTypes:
    """Types of parameters."""

    INTEGER = "integer"
    NUMBER = "number"
    STRING = "string"
    BOOLEAN = "boolean"


class ModelType:
    """Types of models in answers of Azure's services."""

    CUSTOM = "CustomModel"
    MLFLOW = "MLFlowModel"
    TRITON = "TritonModel"


class JobType:
    """Types of jobs; drumbeat runs the first three."""

    COMMAND = "command"
    SWEEP = "sweep"
    PIPELINE = "pipeline"
    AUTOML = "automl"
    COMPONENT = "component"
    BASE = "base"
    PARALLEL = "parallel"
    IMPORT = "import"
    SPARK = "spark"
    DATA_TRANSFER = "data_transfer"
    FINE_TUNING = "finetuning"
    DISTILLATION = "distillation"


class DistributionType:
    """Types of distributions."""

    MPI = "mpi"
    TENSORFLOW = "tensorflow"
    PYTORCH = "pytorch"
    RAY = "ray"


class ListViewType(StrEnum):
    """Which entries a list has."""

    ACTIVE_ONLY = "ActiveOnly"
    ARCHIVED_ONLY = "ArchivedOnly"
    ALL = "All"


class ImportSourceType:
    """Sources of data imports, of which drumbeat has none."""

    AZURESQLDB = "azuresqldb"
    AZURESYNAPSEANALYTICS = "azuresynapseanalytics"
    SNOWFLAKE = "snowflake"
    S3 = "s3"


class BatchDeploymentOutputAction:
    """What a batch deployment does with the results."""

    APPEND_ROW = "append_row"
    SUMMARY_ONLY = "summary_only"


class Scope:
    """Where workspaces are listed."""

    SUBSCRIPTION = "subscription"
    RESOURCE_GROUP = "resource_group"
