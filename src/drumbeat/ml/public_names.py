"""Which name of Azure's SDK is what here, and which are refused, with the sentence of their family."""

from __future__ import annotations

from drumbeat.jobfile import HOME_OF

_DIALECT = {name: f"drumbeat.jobfile.{home}:{name}" for name, home in HOME_OF.items()}


def _dialect(names: str, **others: str) -> dict[str, str]:
    """The places of names that the dialect has. others: those with another name there."""
    return {name: _DIALECT[name] for name in names.split()} | {name: _DIALECT[own] for name, own in others.items()}


def _here(module: str, names: str) -> dict[str, str]:
    return {name: f"drumbeat.ml.{module}:{name}" for name in names.split()}


PLACES: dict[str, dict[str, str]] = {
    "": {
        **_dialect("Input Output MpiDistribution PyTorchDistribution RayDistribution TensorFlowDistribution"),
        **_here("client", "MLClient"),
        **_here(
            "loading",
            "command load_batch_deployment load_batch_endpoint load_component load_compute load_data load_datastore "
            "load_environment load_job load_model load_online_deployment load_online_endpoint",
        ),
    },
    "dsl": _dialect("pipeline"),
    "parallel": _dialect("RunFunction parallel_run_function"),
    "sweep": {
        **_dialect(
            "BanditPolicy Choice LogNormal LogUniform MedianStoppingPolicy Normal Objective QLogNormal QLogUniform "
            "QNormal QUniform Randint SweepJobLimits TruncationSelectionPolicy Uniform",
            RandomSamplingAlgorithm="RandomSampling",
            GridSamplingAlgorithm="GridSampling",
            BayesianSamplingAlgorithm="BayesianSampling",
        ),
        **_here("objects.jobs", "SweepJob"),
        **_here("objects.plain", "SamplingAlgorithm"),
    },
    "entities": {
        **_dialect(
            "AmlCompute BuildContext Command CommandJobLimits CronTrigger JobResourceConfiguration KubernetesCompute "
            "ParallelTask Pipeline QueueSettings RecurrencePattern RecurrenceTrigger Sweep",
            AmlTokenConfiguration="AmlTokenIdentity",
            ResourceConfiguration="Resources",
            UserIdentityConfiguration="UserIdentity",
        ),
        **_here("objects.assets", "Asset Data Model"),
        **_here(
            "objects.batch",
            "BatchDeployment BatchEndpoint BatchJob BatchRetrySettings ModelBatchDeployment "
            "ModelBatchDeploymentSettings PipelineComponentBatchDeployment",
        ),
        **_here("objects.components", "CommandComponent Component PipelineComponent"),
        **_here("objects.computes", "Compute"),
        **_here(
            "objects.datastores",
            "AccountKeyConfiguration AzureBlobDatastore AzureDataLakeGen2Datastore AzureFileDatastore "
            "CertificateConfiguration Datastore NoneCredentialConfiguration SasTokenConfiguration "
            "ServicePrincipalConfiguration",
        ),
        **_here(
            "objects.endpoints",
            "CodeConfiguration DefaultScaleSettings EndpointAuthKeys EndpointAuthToken KubernetesOnlineDeployment "
            "KubernetesOnlineEndpoint ManagedOnlineDeployment ManagedOnlineEndpoint OnlineDeployment OnlineEndpoint "
            "OnlineRequestSettings OnlineScaleSettings ProbeSettings ResourceRequirementsSettings ResourceSettings "
            "TargetUtilizationScaleSettings",
        ),
        **_here("objects.jobs", "CommandJob Job PipelineJob"),
        **_here("objects.schedules", "JobSchedule Schedule ScheduleState ScheduleTriggerResult"),
        **_here(
            "objects.lenient",
            "Environment JobService JupyterLabJobService ManagedIdentityConfiguration SshJobService "
            "TensorBoardJobService VsCodeJobService",
        ),
        **_here(
            "objects.plain",
            "AmlComputeSshSettings AssignedUserConfiguration IdentityConfiguration NetworkSettings "
            "PipelineJobSettings RetrySettings SystemData ValidationResult Workspace",
        ),
    },
    "constants": {
        **_dialect("AssetTypes InputOutputModes"),
        **_here(
            "constant_values",
            "BatchDeploymentOutputAction DistributionType ImportSourceType InputTypes JobType ListViewType ModelType "
            "Scope",
        ),
        **_here("time_zones", "TimeZone"),
    },
    "operations": {
        **_here("calls.jobs", "JobOperations"),
        **_here("calls.data", "DataOperations ModelOperations"),
        **_here("calls.environments", "EnvironmentOperations"),
        **_here("calls.components", "ComponentOperations"),
        **_here("calls.computes", "ComputeOperations"),
        **_here("calls.datastores", "DatastoreOperations"),
        **_here("calls.schedules", "ScheduleOperations"),
        **_here("calls.batch", "BatchDeploymentOperations BatchEndpointOperations"),
        **_here("calls.endpoints", "OnlineDeploymentOperations OnlineEndpointOperations"),
        **_here("calls.workspaces", "WorkspaceOperations"),
    },
    "exceptions": _here(
        "errors",
        "AssetException AssetPathException ComponentException EmptyDirectoryError JobException MlException "
        "ModelException ScheduleException UnsupportedOperationError UserErrorException ValidationException",
    ),
}
"""By module, "" = `drumbeat.ml` itself, the place of each name: `module:name`."""

FAMILIES = {
    "automl": "drumbeat has no automated machine learning. Write the training as a command, and sweep its parameters",
    "connections": "drumbeat keeps no connections to other services. Give a job what it needs by environment_variables",
    "data_transfer": "drumbeat has no data transfer jobs. Copy in a command, or with `drumbeat data upload`",
    "features": "drumbeat has no feature stores. Keep features as data: client.data.create_or_update(Data(...))",
    "finetuning": "drumbeat has no fine-tuning jobs. Write the training as a command",
    "hubs": "drumbeat has one workspace for each server, without hubs, registries or networks to manage",
    "identity": "jobs have no identity of Azure's. Credentials of stores belong to datastores",
    "instances": "drumbeat makes no machines in Azure. Name one of your own: drumbeat alias set compute NAME local",
    "internal": "it is only used inside of Azure's own SDK",
    "monitors": "drumbeat doesn't monitor models in Azure. Log what you watch with mlflow.log_metric",
    "packages": "drumbeat doesn't package models. Give the model to a command as an input",
    "parallel": "make parallel steps by drumbeat.ml.parallel.parallel_run_function, or load_component(FILE)",
    "scoring": "endpoints are ManagedOnlineEndpoint and BatchEndpoint, and requests aren't collected: log what you "
    "watch in the scoring script",
    "serverless": "drumbeat sells no models. Register one of your own: client.models.create_or_update(Model(...))",
    "spark": "drumbeat runs no Spark. Write the step as a command, or take RayDistribution",
    "storage": "drumbeat reaches no such store. Take AzureBlobDatastore, or `drumbeat datastore create -f FILE`",
}
"""What a name of each family says when it is imported, behind `drumbeat.ml has no NAME: `."""

_ENTITIES = {
    "connections": (
        "APIKeyConnection AadCredentialConfiguration AccessKeyConfiguration ApiKeyConfiguration AzureAISearchConfig "
        "AzureAISearchConnection AzureAIServicesConnection AzureBlobStoreConnection AzureContentSafetyConnection "
        "AzureOpenAIConnection AzureOpenAIDeployment AzureSpeechServicesConnection ContainerRegistryCredential "
        "EndpointConnection GitSource Index IndexDataSource IndexModelConfiguration LocalSource "
        "MicrosoftOneLakeConnection ModelConfiguration OneLakeConnectionArtifact OpenAIConnection "
        "PatTokenConfiguration SerpConnection ServerlessConnection UsernamePasswordConfiguration WorkspaceConnection"
    ),
    "data_transfer": "DataImport ImportDataSchedule",
    "features": (
        "AcceleratorMap DataAvailabilityStatus DataColumn DataColumnType Feature FeatureSet FeatureSetBackfillMetadata "
        "FeatureSetBackfillRequest FeatureSetMaterializationMetadata FeatureSetSpecification FeatureStore "
        "FeatureStoreEntity FeatureStoreSettings FeatureWindow MaterializationComputeResource MaterializationSettings "
        "MaterializationStore MaterializationType"
    ),
    "finetuning": "CustomModelFineTuningJob",
    "hubs": (
        "CapabilityHost CapabilityHostKind CustomerManagedKey DiagnoseRequestProperties DiagnoseResponseResult "
        "DiagnoseResponseResultValue DiagnoseResult DiagnoseWorkspaceParameters FqdnDestination Hub IPRule "
        "IntellectualProperty IsolationMode ManagedNetwork ManagedNetworkProvisionStatus NetworkAcls "
        "NotebookAccessKeys OutboundRule PrivateEndpoint PrivateEndpointDestination Project Registry "
        "RegistryRegionDetails ServerlessComputeSettings ServiceTagDestination SystemCreatedAcrAccount "
        "SystemCreatedStorageAccount WorkspaceKeys WorkspaceModelReference"
    ),
    "instances": (
        "AmlComputeNodeInfo ComputeConfiguration ComputeInstance ComputeInstanceSshSettings ComputePowerAction "
        "ComputeRuntime ComputeSchedules ComputeStartStopSchedule CustomApplications EndpointsSettings ImageMetadata "
        "ImageSettings ScriptReference SetupScripts Usage UsageName UsageUnit VirtualMachineCompute "
        "VirtualMachineSshSettings VmSize VolumeSettings"
    ),
    "internal": (
        "CreatedByType DataAsset DefaultActionType InputPort JobResources ParameterizedCommand Resource "
        "Route ServiceInstance UnsupportedCompute"
    ),
    "monitors": (
        "AlertNotification BaselineDataRange CategoricalDriftMetrics CustomMonitoringMetricThreshold "
        "CustomMonitoringSignal DataDriftMetricThreshold DataDriftSignal DataQualityMetricThreshold "
        "DataQualityMetricsCategorical DataQualityMetricsNumerical DataQualitySignal DataSegment FADProductionData "
        "FeatureAttributionDriftMetricThreshold FeatureAttributionDriftSignal FixedInputData "
        "GenerationSafetyQualityMonitoringMetricThreshold GenerationSafetyQualitySignal "
        "GenerationTokenStatisticsMonitorMetricThreshold GenerationTokenStatisticsSignal LlmData "
        "ModelPerformanceClassificationThresholds ModelPerformanceMetricThreshold "
        "ModelPerformanceRegressionThresholds ModelPerformanceSignal MonitorDefinition MonitorFeatureFilter "
        "MonitorInputData MonitorSchedule MonitoringTarget Notification NumericalDriftMetrics "
        "PredictionDriftMetricThreshold PredictionDriftSignal ProductionData ReferenceData StaticInputData "
        "TrailingInputData"
    ),
    "packages": (
        "AzureMLBatchInferencingServer AzureMLOnlineInferencingServer BaseEnvironment CustomInferencingServer "
        "ModelPackage ModelPackageInput PackageInputPathId PackageInputPathUrl PackageInputPathVersion "
        "TritonInferencingServer"
    ),
    "parallel": "Parallel ParallelComponent",
    "scoring": (
        "DataCollector Deployment DeploymentCollection DeploymentTemplate DeploymentTemplateReference Endpoint "
        "EndpointAadToken RequestLogging"
    ),
    "serverless": "MarketplacePlan MarketplaceSubscription ServerlessEndpoint",
    "spark": (
        "AutoPauseSettings AutoScaleSettings ServerlessSparkCompute Spark SparkComponent SparkJob SparkJobEntry "
        "SparkJobEntryType SparkResourceConfiguration SynapseSparkCompute"
    ),
    "storage": "AzureDataLakeGen1Datastore OneLakeArtifact OneLakeDatastore",
}
_OTHERS: dict[str, dict[str, str]] = {
    "": {
        "connections": "load_connection load_index load_workspace_connection",
        "features": "load_feature_set load_feature_store load_feature_store_entity",
        "hubs": "load_capability_host load_registry load_workspace",
        "packages": "load_model_package",
        "scoring": "load_deployment_template",
        "serverless": "load_marketplace_subscription load_serverless_endpoint",
        "spark": "spark",
    },
    "constants": {
        "automl": (
            "ImageClassificationModelNames ImageInstanceSegmentationModelNames ImageObjectDetectionModelNames "
            "NlpLearningRateScheduler NlpModels TabularTrainingMode"
        ),
        "finetuning": "DataGenerationTaskType DataGenerationType",
        "hubs": "AcrAccountSku IPProtectionLevel ManagedServiceIdentityType StorageAccountType WorkspaceKind",
        "monitors": (
            "MonitorDatasetContext MonitorFeatureType MonitorMetricName MonitorModelType MonitorSignalType "
            "MonitorTargetTasks"
        ),
        "parallel": "ParallelTaskType",
    },
    "entities": _ENTITIES,
    "exceptions": {
        "internal": (
            "AzureError CannotSetAttributeError CloudArtifactsNotSupportedError DockerEngineNotAvailableError "
            "ErrorCategory ErrorTarget InvalidLocalEndpointError InvalidVSCodeRequestError JobParsingError "
            "KeywordError LocalDeploymentGPUNotAvailable LocalEndpointImageBuildError LocalEndpointInFailedStateError "
            "LocalEndpointNotFoundError MissingPositionalArgsError MultipleLocalDeploymentsFoundError "
            "MultipleValueError ParamValueNotExistsError PipelineChildJobError RequiredLocalArtifactsNotFoundError "
            "TooManyPositionalArgsError UnexpectedAttributeError UnexpectedKeywordError "
            "UnsupportedParameterKindError VSCodeCommandNotFound ValidationErrorType"
        ),
        "scoring": "DeploymentException",
    },
    "parallel": {"parallel": "ParallelJob"},
    "operations": {
        "connections": "WorkspaceConnectionsOperations IndexOperations AzureOpenAIDeploymentOperations",
        "features": "FeatureSetOperations FeatureStoreEntityOperations FeatureStoreOperations",
        "hubs": "CapabilityHostsOperations RegistryOperations WorkspaceOutboundRuleOperations",
        "internal": "EvaluatorOperations",
        "scoring": "DeploymentTemplateOperations",
        "serverless": "MarketplaceSubscriptionOperations ServerlessEndpointOperations",
    },
}
REFUSED: dict[str, dict[str, str]] = {
    module: {name: family for family, names in families.items() for name in names.split()}
    for module, families in _OTHERS.items()
}
"""By module, the family of each name that drumbeat doesn't have."""

WHOLE = ("automl", "data_transfer", "finetuning", "identity")
"""Modules of which drumbeat has nothing: each is a family of its own."""

OPERATIONS_REFUSED = {
    "azure_openai_deployments": "connections",
    "connections": "connections",
    "deployment_templates": "scoring",
    "feature_sets": "features",
    "feature_store_entities": "features",
    "feature_stores": "features",
    "indexes": "connections",
    "marketplace_subscriptions": "serverless",
    "registries": "hubs",
    "serverless_endpoints": "serverless",
    "workspace_outbound_rules": "hubs",
}
"""Attributes of a client that drumbeat doesn't have."""
