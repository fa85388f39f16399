"""What sbatch is given."""

from __future__ import annotations

from dataclasses import replace

import pytest

from drumbeat.core.scheduling.resource_needs import Slot
from drumbeat.engines.contract import a_gang
from drumbeat.engines.slurm.render import batch_script
from drumbeat.jobfile.compute.slurm import SlurmCompute
from drumbeat.ports.engines import Gang

pytestmark = pytest.mark.feature("C4")


def spec(**keys: object) -> SlurmCompute:
    return SlurmCompute(**{"name": "rack", "type": "slurm", "folder": "/shared/db", **keys})


def rendered(gang: Gang, **keys: object) -> str:
    return batch_script(spec(**keys), gang, "drumbeat-rack-ab12cd-cifar.1", "agent-0.pyz")


def gang(nodes: int = 2, cpus: int = 1, gpus: int = 0) -> Gang:
    slots = tuple(Slot(node, "", cpus, tuple(map(str, range(gpus)))) for node in range(nodes))
    return replace(a_gang("cifar", nodes), slots=slots)


def test_the_script_of_a_plain_compute():
    assert (
        rendered(gang())
        == """\
#!/bin/sh
#SBATCH --job-name=drumbeat-rack-ab12cd-cifar.1
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=1
#SBATCH --signal=TERM@1
#SBATCH --no-requeue
#SBATCH --chdir=/shared/db/gangs/drumbeat-rack-ab12cd-cifar.1
#SBATCH --output=/shared/db/gangs/drumbeat-rack-ab12cd-cifar.1/slurm-%j.out
# drumbeat: job cifar, attempt 1. One agent on each node; they call their server.
umask 077
exec srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --kill-on-bad-exit=0 --wait=0 \\
  --cpu-bind=none --mpi=none --export=ALL --input=none \\
  python3 -I /shared/db/agents/agent-0.pyz drumbeat.node.host.slurm_step /shared/db/gangs/drumbeat-rack-ab12cd-cifar.1
"""
    )


def test_everything_that_a_compute_can_say():
    script = rendered(
        gang(4, cpus=8, gpus=8), partition="gpu", account="ml", qos="high", constraint="h100&ib", exclude="n[1-3]",
        gres="gpu:h100:8", reservation="week 12", time_limit="1-00:00:00", cpus_per_node=96, folder="/my shared",
        python="/opt/py/bin/python3.12", options=["--mem=0", "--exclusive", "--signal=TERM@120"],
    )  # fmt: skip
    assert [line.removeprefix("#SBATCH ") for line in script.splitlines() if line.startswith("#SBATCH")] == [
        "--job-name=drumbeat-rack-ab12cd-cifar.1",
        "--nodes=4",
        "--ntasks-per-node=1",
        "--cpus-per-task=96",
        "--partition=gpu",
        "--account=ml",
        "--qos=high",
        "--constraint='h100&ib'",
        "--exclude='n[1-3]'",
        "--reservation='week 12'",
        "--gres=gpu:h100:8",
        "--time=1-00:00:00",
        "--signal=TERM@1",
        "--no-requeue",
        "--chdir='/my shared/gangs/drumbeat-rack-ab12cd-cifar.1'",
        "--output='/my shared/gangs/drumbeat-rack-ab12cd-cifar.1/slurm-%j.out'",
        "--mem=0",
        "--exclusive",
        "--signal=TERM@120",
    ]
    assert "\n  /opt/py/bin/python3.12 -I '/my shared/agents/agent-0.pyz' drumbeat.node.host.slurm_step '/my " in script


def test_devices_that_a_job_needs_are_asked_for():
    assert "#SBATCH --gres=gpu:2\n" in rendered(gang(gpus=2))


@pytest.mark.parametrize(("grace_s", "signal"), [(0.2, 1), (65535, 65535), (65535.5, 65535), (1e9, 65535)])
def test_signal_option_is_capped_at_sbatchs_maximum(grace_s: float, signal: int):
    one = gang()
    script = rendered(replace(one, plan=replace(one.plan, grace_s=grace_s)))
    assert f"#SBATCH --signal=TERM@{signal}\n" in script


def test_no_secret_is_in_it():
    secret = replace(gang(), secret="s3cret")
    assert not [word for word in ("s3cret", secret.node_secret(0), secret.peer_secret) if word in rendered(secret)]
