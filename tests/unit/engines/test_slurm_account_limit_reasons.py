"""Slurm's reasons that name a limit of an account or a QOS, in plain sentences."""

from __future__ import annotations

import pytest

from drumbeat.engines.slurm.pending_reasons import describe_limit

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


FEW = "left for a job of this length; a shorter time limit may fit, or the cluster's administrator may grant more"


@pytest.mark.parametrize(
    ("reason", "sentence"),
    [
        ("AssocGrpCpuLimit", "with it, the account as a whole would exceed its limit of CPUs"),
        ("AssocGrpGRESMinutes", f"the account has too few minutes of GPUs (or other GRES) {FEW}"),
        ("QOSGrpMemoryRunMinutes", "with it, the QOS as a whole would exceed its limit of minutes of memory"),
        ("AssocGrpWallLimit", f"the account has too little time {FEW}"),
        ("AssocMaxJobsLimit", "with it, a user would have more running jobs than the account allows"),
        ("QOSMaxGRESPerUser", "with it, a user would have more GPUs (or other GRES) than the QOS allows"),
        ("MaxNodePerAccount", "with it, an account would have more nodes than the QOS allows"),
        (
            "QOSMaxWallDurationPerJobLimit",
            "it requests more time than the QOS allows per job, and can't start as it is",
        ),
        ("AssocMaxCpuPerNode", "it requests more CPUs than the account allows per node, and can't start as it is"),
        ("QOSMinCpuNotSatisfied", "the QOS requires a job to request more CPUs"),
    ],
)  # fmt: skip
def test_limit_is_explained(reason: str, sentence: str):
    assert describe_limit(reason) == sentence


@pytest.mark.parametrize("reason", REASONS)
def test_every_limit_of_accounts_and_qos_has_a_sentence(reason: str):
    assert describe_limit(reason)


@pytest.mark.parametrize("reason", ["", "Resources", "Priority", "MaxMemPerLimit", "PartitionTimeLimit", "BeginTime"])
def test_other_reasons_are_left_as_they_are(reason: str):
    assert describe_limit(reason) == ""
