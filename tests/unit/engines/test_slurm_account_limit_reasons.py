"""Slurm's reasons that name a limit of an account or a QOS, in plain sentences."""

from __future__ import annotations

import pytest

from drumbeat.engines.slurm.pending_reasons import sentence_of

pytestmark = pytest.mark.feature("C4")

REASONS = [
    "AssocGrpBB",
    "AssocGrpBBMinutes",
    "AssocGrpBBRunMinutes",
    "AssocGrpBilling",
    "AssocGrpBillingMinutes",
    "AssocGrpBillingRunMinutes",
    "AssocGrpCpuLimit",
    "AssocGrpCPUMinutesLimit",
    "AssocGrpCPURunMinutesLimit",
    "AssocGrpEnergy",
    "AssocGrpGRES",
    "AssocGrpGRESMinutes",
    "AssocGrpGRESRunMinutes",
    "AssocGrpJobsLimit",
    "AssocGrpLicense",
    "AssocGrpMemLimit",
    "AssocGrpMemMinutes",
    "AssocGrpMemRunMinutes",
    "AssocGrpNodeLimit",
    "AssocGrpNodeMinutes",
    "AssocGrpSubmitJobsLimit",
    "AssocGrpUnknown",
    "AssocGrpWallLimit",
    "AssocMaxBBMinutesPerJob",
    "AssocMaxBillingPerJob",
    "AssocMaxCpuMinutesPerJobLimit",
    "AssocMaxCpuPerJobLimit",
    "AssocMaxCpuPerNode",
    "AssocMaxGRESPerJob",
    "AssocMaxGRESPerNode",
    "AssocMaxJobsLimit",
    "AssocMaxLicensePerJob",
    "AssocMaxMemPerJob",
    "AssocMaxNodePerJobLimit",
    "AssocMaxSubmitJobLimit",
    "AssocMaxWallDurationPerJobLimit",
    "MaxCpuPerAccount",
    "MaxGRESPerAccount",
    "MaxJobsPerAccount",
    "MaxMemoryPerAccount",
    "MaxNodePerAccount",
    "MaxSubmitJobsPerAccount",
    "QOSGrpCpuLimit",
    "QOSGrpCPUMinutesLimit",
    "QOSGrpGRES",
    "QOSGrpGRESMinutes",
    "QOSGrpJobsLimit",
    "QOSGrpMemLimit",
    "QOSGrpMemoryMinutes",
    "QOSGrpMemoryRunMinutes",
    "QOSGrpNodeLimit",
    "QOSGrpSubmitJobsLimit",
    "QOSGrpWallLimit",
    "QOSMaxCpuMinutesPerJobLimit",
    "QOSMaxCpuPerJobLimit",
    "QOSMaxCpuPerNode",
    "QOSMaxCpuPerUserLimit",
    "QOSMaxGRESPerJob",
    "QOSMaxGRESPerUser",
    "QOSMaxJobsPerUserLimit",
    "QOSMaxMemoryPerJob",
    "QOSMaxMemoryPerUser",
    "QOSMaxNodePerJobLimit",
    "QOSMaxNodePerUserLimit",
    "QOSMaxSubmitJobPerUserLimit",
    "QOSMaxWallDurationPerJobLimit",
    "QOSMinCpuNotSatisfied",
    "QOSMinGRES",
    "QOSMinMemory",
    "QOSMinNode",
]


FEW = "left for a job of this length; a shorter time limit may fit, or who runs the cluster grants more"


@pytest.mark.parametrize(
    ("reason", "sentence"),
    [
        ("AssocGrpCpuLimit", "with it, the account as a whole would have more CPUs than it may"),
        ("AssocGrpGRESMinutes", f"the account has too few minutes of GPUs (or other GRES) {FEW}"),
        ("QOSGrpMemoryRunMinutes", "with it, the QOS as a whole would have more minutes of memory than it may"),
        ("AssocGrpWallLimit", f"the account has too little time {FEW}"),
        ("AssocMaxJobsLimit", "with it, a user would have more running jobs than the account allows"),
        ("QOSMaxGRESPerUser", "with it, a user would have more GPUs (or other GRES) than the QOS allows"),
        ("MaxNodePerAccount", "with it, an account would have more nodes than the QOS allows"),
        ("QOSMaxWallDurationPerJobLimit", "it asks for more time than the QOS allows a job, and can't start as it is"),
        ("AssocMaxCpuPerNode", "it asks for more CPUs than the account allows a node, and can't start as it is"),
        ("QOSMinCpuNotSatisfied", "the QOS wants a job to ask for more CPUs"),
    ],
)  # fmt: skip
def test_limit_is_told_in_a_sentence(reason: str, sentence: str):
    assert sentence_of(reason) == sentence


@pytest.mark.parametrize("reason", REASONS)
def test_every_limit_of_accounts_and_qos_has_a_sentence(reason: str):
    assert sentence_of(reason)


@pytest.mark.parametrize("reason", ["", "Resources", "Priority", "MaxMemPerLimit", "PartitionTimeLimit", "BeginTime"])
def test_other_reasons_are_left_as_they_are(reason: str):
    assert sentence_of(reason) == ""
