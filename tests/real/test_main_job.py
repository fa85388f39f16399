"""The main job, end to end, with real processes: what each rank sees, and how it ends."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from drumbeat.launchers.environment_variables import SCRUBBED
from drumbeat.model.metrics import experiment_id, run_id
from drumbeat.model.process import is_scrubbed

from .house import House, until

PRINTS_ENVIRONMENT = """
import json, os, sys
print(json.dumps({"env": dict(os.environ), "cwd": os.getcwd(), "argv": sys.argv, "python": sys.executable}))
"""

ALL_REDUCE = """
import os, torch, torch.distributed as dist
dist.init_process_group("gloo", init_method="env://")
t = torch.tensor([float(os.environ["RANK"]) + 1])
dist.all_reduce(t)
print(f"sum {t.item()} of {dist.get_world_size()}")  # One write: torchrun gives two ranks one file.
dist.destroy_process_group()
"""


def distribution(per_node: int) -> str:
    return f"{{type: pytorch, process_count_per_instance: {per_node}}}"


def nodes(count: int) -> str:
    return f"{{instance_count: {count}}}"


@pytest.mark.feature("L1", "J5", "L11")
@pytest.mark.parametrize(
    ("node_count", "per_node"),
    [*(pytest.param(1, m, marks=pytest.mark.thorough) for m in (1, 4)), (2, 2), (3, 4)],
)
def test_every_rank_has_exactly_the_environment_that_the_plan_says(house: House, node_count: int, per_node: int):
    data = house.folder / "data"
    data.mkdir(exist_ok=True)
    house.script(PRINTS_ENVIRONMENT)
    path = house.job_file(
        code=".",
        command="python t.py --data ${{inputs.data}} --epochs ${{inputs.epochs}} --out ${{outputs.model}}",
        inputs=f"{{data: {{type: uri_folder, path: {data}}}, epochs: 3}}",
        outputs="{model: {type: uri_folder}}",
        environment_variables="{MY_OWN: '7'}",
        distribution=distribution(per_node),
        resources=nodes(node_count),
    )
    job = house.client.submit(path)
    ended = house.client.wait(job.name, 120)
    assert ended is not None
    assert ended.state == "completed", ended.sentence
    ranks = {rank: json.loads(text) for rank, text in house.logs(job.name).items()}
    assert sorted(ranks) == list(range(node_count * per_node))
    ports = {said["env"]["MASTER_PORT"] for said in ranks.values()}
    assert len(ports) == 1
    for rank, said in ranks.items():
        check_rank(house, job.name, rank, said, (node_count, per_node), data)


@pytest.mark.feature("J7")
def test_command_without_a_file_runs_as_the_written_file_does(house: House):
    house.script("import os, sys; print(os.environ['RANK'], sys.argv[1:], os.listdir(sys.argv[1])[0])", "free")
    folder = house.folder / "free"
    (folder / "my data").mkdir()
    (folder / "my data" / "a.txt").write_text("1")
    words = ["--nodes", "2", "--procs", "2", "--input", "data=./my data", "--", "python", "t.py", "${{inputs.data}}"]
    words += ["it's $HOME", ""]
    typed = house.run("run", "--quiet", *words, cwd=folder)
    assert typed.returncode == 0, typed.stderr
    written = house.run("run", "--write", "jobs.yml", *words, cwd=folder)
    assert written.stdout == "wrote jobs.yml; run it: drumbeat run jobs.yml\n"
    from_file = house.run("run", "jobs.yml", "--quiet", cwd=folder)
    assert from_file.returncode == 0, from_file.stderr
    arguments = [str(folder / "my data"), "it's $HOME", ""]
    expected = {rank: f"{rank} {arguments} a.txt\n" for rank in range(4)}
    for name in (typed.stdout.split()[0], from_file.stdout.split()[0]):
        assert house.logs(name) == expected


def check_rank(house: House, job: str, rank: int, said: dict[str, object], shape: tuple[int, int], data: Path) -> None:
    node_count, per_node = shape
    node, local = divmod(rank, per_node)
    root = house.home / "nodes" / f"{job}.1" / str(node) / "root"
    env = dict(said["env"])
    expected = {
        "RANK": rank, "LOCAL_RANK": local, "WORLD_SIZE": node_count * per_node, "LOCAL_WORLD_SIZE": per_node,
        "NODE_RANK": node, "GROUP_RANK": node, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": env["MASTER_PORT"],
        "DRUMBEAT_JOB": job, "DRUMBEAT_ATTEMPT": 1, "DRUMBEAT_ROUND": 1,
        "DRUMBEAT_OUTPUT_DIR": root / "outputs" / "default",
        "DRUMBEAT_CHECKPOINT_DIR": house.home / "jobs" / job / "checkpoints",
        "AZUREML_RUN_ID": job, "AZUREML_ARM_PROJECT_NAME": "job", "AZUREML_NODE_COUNT": node_count,
        "AZUREML_CR_NODE_RANK": node, "AZ_BATCH_HOST_LIST": ",".join(["127.0.0.1"] * node_count),
        "AZ_BATCHAI_JOB_MASTER_NODE_IP": "127.0.0.1", "AZUREML_PARAMETER_epochs": 3,
        "AZURE_ML_INPUT_data": data, "AZURE_ML_OUTPUT_model": root / "outputs" / "model",
        "AZURE_ML_OUTPUT_default": root / "outputs" / "default", "DLTS_HOSTFILE": root / "hostfile",
        "CUDA_VISIBLE_DEVICES": "", "MY_OWN": 7, "PYTHONUNBUFFERED": 1,
        "AZUREML_EXPERIMENT_ID": experiment_id("job"), "MLFLOW_EXPERIMENT_ID": experiment_id("job"),
        "MLFLOW_EXPERIMENT_NAME": "job", "MLFLOW_RUN_ID": run_id(job),
        "MLFLOW_TRACKING_URI": env["DRUMBEAT_METRICS"], "DRUMBEAT_METRICS": env["DRUMBEAT_METRICS"],
        "MLFLOW_TRACKING_TOKEN": env["DRUMBEAT_METRICS"].split("/")[-2],
        "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true", "DRUMBEAT_GANG_SECRET": env["DRUMBEAT_GANG_SECRET"],
        **({"OMP_NUM_THREADS": 1} if per_node > 1 else {}),
    }  # fmt: skip
    assert env["DRUMBEAT_METRICS"].endswith(f"/{rank}")
    assert re.fullmatch("[0-9a-f]{64}", env["DRUMBEAT_GANG_SECRET"])
    assert {name: env.get(name) for name in expected} == {name: str(value) for name, value in expected.items()}
    # Everything else is what this machine passes on, and none of it is of another launcher or of drumbeat's own.
    rest = {name for name in env if name not in expected and is_scrubbed(name, SCRUBBED)}
    assert rest <= {"PWD", "SHLVL", "_", "OLDPWD", "DRUMBEAT_KEEPER", *(n for n in rest if n in ("LINES", "COLUMNS"))}
    assert said["cwd"] == str(root / "code")
    assert said["argv"] == ["t.py", "--data", str(data), "--epochs", "3", "--out", str(root / "outputs" / "model")]


@pytest.mark.feature("L1")
@pytest.mark.parametrize(
    ("node_count", "per_node"),
    [*(pytest.param(n, m, marks=pytest.mark.thorough) for n, m in ((1, 1), (1, 4), (2, 4), (3, 4))), (2, 2)],
)
def test_the_ranks_meet_and_reduce(house: House, node_count: int, per_node: int):
    house.script(ALL_REDUCE)
    path = house.job_file(
        code=".", command="python t.py", distribution=distribution(per_node), resources=nodes(node_count)
    )
    job = house.client.submit(path)
    ended = house.client.wait(job.name, 240)
    assert ended is not None
    assert ended.state == "completed", (ended.sentence, ended.verdict)
    world = node_count * per_node
    assert house.logs(job.name) == dict.fromkeys(range(world), f"sum {world * (world + 1) / 2} of {world}\n")


@pytest.mark.feature("L2")
def test_a_launcher_of_the_users_own_runs_once_per_node(house: House):
    # torchrun's agents meet over the job's address; each tells its ranks which they are.
    house.script("import os; os.write(1, f\"rank {os.environ['RANK']} of {os.environ['WORLD_SIZE']}\\n\".encode())")
    launcher = (
        "torchrun --nnodes $AZUREML_NODE_COUNT --node_rank $NODE_RANK --nproc_per_node 2 "
        "--master_addr $MASTER_ADDR --master_port $MASTER_PORT t.py"
    )
    path = house.job_file(code=".", command=launcher, distribution=distribution(1), resources=nodes(2))
    job = house.client.submit(path)
    ended = house.client.wait(job.name, 240)
    assert ended is not None
    assert ended.state == "completed", (ended.sentence, ended.verdict)
    lines = [line for text in house.logs(job.name).values() for line in text.splitlines() if line.startswith("rank ")]
    assert sorted(lines) == [f"rank {rank} of 4" for rank in range(4)]


@pytest.mark.feature("D3")
def test_what_the_ranks_wrote_is_kept_and_downloaded(house: House, tmp_path: Path):
    house.script(
        "import os, pathlib\n"
        "rank = os.environ['RANK']\n"
        "pathlib.Path(os.environ['AZURE_ML_OUTPUT_model'], f'part{rank}.bin').write_bytes(rank.encode() * 3_000_000)\n"
        "pathlib.Path('outputs', f'note{rank}.txt').write_text('by rank ' + rank)\n"
        "pathlib.Path(os.environ['DRUMBEAT_CHECKPOINT_DIR'], 'c').touch()\n"
    )
    path = house.job_file(
        code=".", command="python t.py", outputs="{model: {}}", distribution=distribution(2), resources=nodes(2)
    )
    result = house.run("run", path, "--name", "keeps-results", "--quiet")
    assert result.returncode == 0, result.stdout + result.stderr
    house.run("download", "keeps-results", "--to", tmp_path / "got")
    got = tmp_path / "got" / "outputs"
    assert [(got / "model" / f"part{r}.bin").read_bytes() for r in range(4)] == [
        str(r).encode() * 3_000_000 for r in range(4)
    ]
    assert [(got / "default" / f"note{r}.txt").read_text() for r in range(4)] == [f"by rank {r}" for r in range(4)]
    until(lambda: not (house.home / "nodes" / "keeps-results.1").exists(), what="cleaning up")


@pytest.mark.feature("F1")
def test_the_rank_that_was_the_cause_is_named_with_its_error_and_what_to_do(house: House):
    house.script(
        "import os, torch, torch.distributed as dist\n"
        "dist.init_process_group('gloo')\n"
        "if os.environ['RANK'] == '1': raise ValueError('loss is nan')\n"
        "t = torch.ones(1)\n"
        "dist.all_reduce(t)\n"
    )
    path = house.job_file(
        code=".", command="python t.py", distribution=distribution(1), resources=nodes(2), drumbeat="{max_retries: 3}"
    )
    result = house.run("run", path, "--name", "fails", timeout=240)
    assert result.returncode == 1, result.stdout + result.stderr
    job = house.client.get("fails")
    assert job.state == "failed"
    assert job.verdict is not None
    assert (job.verdict.rank, job.verdict.node, job.verdict.reason) == (1, 1, "rank_failed")
    assert "ValueError: loss is nan" in job.verdict.tail
    shown = result.stdout + result.stderr
    assert "rank 1 on node 1 stopped with exit code 1: ValueError: loss is nan" in shown
    assert "the same error at the same place twice" in shown
    assert "drumbeat logs fails --rank 1" in shown


@pytest.mark.feature("F2", "F3")
def test_a_rank_that_is_killed_once_is_started_again_in_place(house: House):
    house.script(
        "import os, signal, sys\n"
        "if os.environ['DRUMBEAT_ROUND'] == '1' and os.environ['RANK'] == '1': os.kill(os.getpid(), signal.SIGKILL)\n"
        "print('round', os.environ['DRUMBEAT_ROUND'])\n"
    )
    path = house.job_file(code=".", command="python t.py", distribution=distribution(2), resources=nodes(1))
    job = house.client.submit(path)
    ended = house.client.wait(job.name, 60)
    assert ended is not None
    assert (ended.state, ended.round) == ("completed", 2)
    assert ended.failures[0].verdict.reason == "rank_killed"


@pytest.mark.feature("F7", "F6")
def test_cancel_sends_sigterm_waits_the_grace_time_and_leaves_nothing(own_house: House):
    house = own_house
    house.script(
        "import os, signal, subprocess, sys, time\n"
        "def stop(*_):\n"
        "    print('saving', flush=True); time.sleep(0.5); print('saved', flush=True); sys.exit(0)\n"
        "if os.environ['RANK'] == '0': signal.signal(signal.SIGTERM, stop)\n"
        "else: signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "subprocess.Popen(['sleep', '1000'], start_new_session=True)\n"
        "print('up', flush=True)\n"
        "time.sleep(1000)\n"
    )
    path = house.job_file(
        code=".", command="python t.py", distribution=distribution(2), drumbeat="{grace_s: 8}", resources=nodes(1)
    )
    job = house.client.submit(path).name
    until(lambda: sum(text.count("up") for text in house.logs(job).values()) == 2)
    result = house.run("cancel", job, "--wait")
    ended = house.client.get(job)
    assert (ended.state, ended.exit_code) == ("canceled", 130), result.stdout
    assert "saved" in house.logs(job)[0]
    until(lambda: {p.pid for p in house.processes()} == {house.server().pid}, what="the end of every process")


@pytest.mark.feature("F7")
def test_a_time_limit_ends_the_job(house: House):
    path = house.job_file(command="sleep 100", limits="{timeout: 1}", drumbeat="{grace_s: 1}")
    result = house.run("run", path, "--name", "too-slow")
    assert result.returncode == 124
    assert "time limit" in result.stdout + result.stderr


@pytest.mark.feature("C3")
@pytest.mark.thorough
def test_twenty_jobs_at_once_all_run_in_order_and_never_overlap_their_slots(house: House):
    slots = len(os.sched_getaffinity(0))
    house.script("import time\nprint(time.time(), flush=True)\ntime.sleep(0.05)\nprint(time.time(), flush=True)\n")
    path = house.job_file(code=".", command="python -S t.py")
    names = [house.client.submit(path, name=f"many-{n:02}").name for n in range(20)]
    for name in names:
        ended = house.client.wait(name, 120)
        assert ended is not None
        assert ended.state == "completed", ended.sentence
    spans = [tuple(map(float, house.logs(name)[0].split())) for name in names]
    for begin, _ in spans:
        assert sum(b <= begin < e for b, e in spans) <= slots
    granted = [next(s.at for s in house.client.story(name) if s.state == "provisioning") for name in names]
    assert granted == sorted(granted)


@pytest.mark.feature("F5")
def test_the_server_can_be_killed_and_the_job_never_notices(own_house: House):
    house = own_house
    house.script("import time\nfor n in range(40):\n    print('line', n, flush=True)\n    time.sleep(0.1)\n")
    path = house.job_file(code=".", command="python -S t.py")
    job = house.client.submit(path).name
    until(lambda: "line 3" in house.logs(job).get(0, ""))
    house.server().kill()
    ended = house.client.wait(job, 60)
    assert ended is not None
    assert (ended.state, ended.round) == ("completed", 1)
    assert house.logs(job)[0] == "".join(f"line {n}\n" for n in range(40))
