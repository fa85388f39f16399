"""The engine over a real Slurm cluster keeps the engine's promises, and what Slurm does to a job is told as it is."""

from __future__ import annotations

import contextlib
import os
import secrets
import shlex
import shutil
import stat
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from drumbeat import Client
from drumbeat.core.lifecycle.events import Loss
from drumbeat.engines.contract import EngineContract, a_gang, stop
from drumbeat.engines.slurm.engine import SlurmEngine
from drumbeat.jobfile.compute.slurm import SlurmCompute
from drumbeat.model.api.computes import Machine
from drumbeat.model.api.jobs import JobView
from drumbeat.model.errors import EngineError, UnreachableError
from drumbeat.node.host.processes import command_lines
from drumbeat.ports.engines import Engine, Gang, NoMachinesError
from tools.slurmlab import SlurmLab, missing, slurm_lab, until

from .guard import guarded
from .house import House, a_house

pytestmark = [pytest.mark.feature("C4")]

PROGRAMS = str(Path(os.sys.executable).parent)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmLab]:
    if why := missing():
        pytest.skip(why)
    folder = tmp_path_factory.mktemp("slurm")
    with guarded(folder), slurm_lab(folder, "slm", 3) as lab, pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLURM_CONF", str(lab.conf))
        yield lab


@pytest.fixture
def lab(made: SlurmLab) -> Iterator[SlurmLab]:
    yield made
    made.mend()


# --- the engine itself ------------------------------------------------------------------------------------------
def engine_over(lab: SlurmLab, mark: str, **keys: str) -> SlurmEngine:
    engine = SlurmEngine(SlurmCompute(name="rack", type="slurm", folder=str(lab.shared), **keys), mark)
    engine.leave_s = 0.1
    return engine


def machines_of(engine: SlurmEngine) -> list[Machine]:
    """Once Slurm has told of them."""

    def told() -> list[Machine]:
        with contextlib.suppress(UnreachableError):  # It was busy when it was asked.
            return engine.machines()
        return []

    until(told, "there are machines")
    return told()


@pytest.fixture
def engine(lab: SlurmLab) -> Iterator[SlurmEngine]:
    engine = engine_over(lab, secrets.token_hex(3))
    machines_of(engine)
    yield engine
    assert engine.sweep(set[str]) == []
    engine.close()


def states(lab: SlurmLab) -> list[str]:
    """Of every job that Slurm remembers and that isn't over, by name."""
    over = ("COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "PREEMPTED", "NODE_FAIL")
    told = [line.split("|") for line in lab.slurm("squeue", "-h", "--states=all", "-o", "%j|%T").splitlines()]
    return [state for _, state in told if state not in over]


class TestSlurm(EngineContract):
    @pytest.fixture
    def engine(self, engine: SlurmEngine) -> Iterator[SlurmEngine]:
        yield engine
        for name in ("contract.1", "contract.2"):
            stop(engine, name)

    @pytest.fixture
    def lose(self, lab: SlurmLab) -> Callable[[Gang, int], None]:
        def lose(gang: Gang, node: int) -> None:
            scratch = lab.folder / "scratch"

            def has_agent(name: str) -> bool:
                """One that lives: of those before it files may be left."""
                there = [" ".join(words) for _, words in command_lines()]
                return any("drumbeat.node.agent " in words and f"{scratch}/{name}/" in words for words in there)

            until(lambda: all(map(has_agent, lab.names)), "all agents run")
            lab.lab.switch_off(lab.names[node])

        return lose

    @pytest.mark.thorough
    def test_stop_of_one_attempt_leaves_the_other(self, engine: Engine) -> None:
        super().test_stop_of_one_attempt_leaves_the_other(engine)

    @pytest.mark.thorough
    def test_vanished_node_is_reported_with_a_message(
        self, engine: SlurmEngine, lose: Callable[[Gang, int], None]
    ) -> None:
        """Slurm ends a job that has lost a node: all of its nodes are gone."""
        gang = a_gang(nodes=3)
        engine.start(gang)
        lose(gang, 1)
        until(lambda: engine.observe(gang).gone, "it is noticed", 120)
        sighting = engine.observe(gang)
        assert (sighting.word, sighting.cause, set(sighting.gone)) == ("NODE_FAIL", Loss.LOST, {0, 1, 2}), sighting
        assert sighting.gone[1].endswith("lost a node (NODE_FAIL)")
        stop(engine, gang.name)


def test_a_second_server_of_the_same_home_finds_the_gang_and_submits_nothing(engine: SlurmEngine, lab: SlurmLab):
    gang = a_gang()
    first = engine.start(gang)
    with closing(engine_over(lab, engine._prefix.split("-")[2])) as again, closing(engine_over(lab, "other")) as other:
        assert again.start(gang) == first
        assert len(states(lab)) == 1
        assert again.sweep(lambda: {gang.name}) == []
        assert other.sweep(set[str]) == [], "another server's gangs are none of its business"
        assert again.sweep(set[str]) == [gang.name]
    assert states(lab) == []
    assert not list((lab.shared / "gangs").iterdir())


def test_of_two_jobs_with_a_gang_s_name_one_stays(engine: SlurmEngine, lab: SlurmLab):
    gang = a_gang()
    engine.start(gang)
    number = engine._slurm.submit(engine.rendered(gang))
    until(lambda: number not in lab.slurm("squeue", "-h", "-o", "%i").split(), "the double is cancelled")
    engine._slurm.tell_to_end([number])
    assert engine.observe(gang).gone == {}
    assert len(states(lab)) == 1
    stop(engine, gang.name)


AS_NOBODY = ["setpriv", "--reuid=65534", "--inh-caps=+dac_override", "--ambient-caps=+dac_override"]


@pytest.fixture
def hidden(lab: SlurmLab, tmp_path: Path) -> Iterator[None]:
    """The partition is; not from root, so that squeue asks as somebody else, who may read root's files."""
    try:
        subprocess.run([*AS_NOBODY, "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"setpriv (Debian: util-linux) can't give another user a capability here: {error}")
    squeue = tmp_path / "squeue"
    squeue.write_text(f'#!/bin/sh\nexec {shlex.join(AS_NOBODY)} {shutil.which("squeue")} "$@"\n')
    squeue.chmod(0o755)
    lab.slurm("scontrol", "update", "partitionname=main", "hidden=yes")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(tmp_path), prepend=":")
        yield
    lab.slurm("scontrol", "update", "partitionname=main", "hidden=no")


@pytest.fixture
def misnamed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment has another user's name."""
    monkeypatch.setenv("LOGNAME", "nobody")


@pytest.mark.parametrize("how", ["hidden", "misnamed"])
def test_a_gang_that_squeue_would_not_show_is_there_until_it_is_stopped(
    engine: SlurmEngine, lab: SlurmLab, request: pytest.FixtureRequest, how: str
):
    request.getfixturevalue(how)
    gang = a_gang()
    told = engine.start(gang)
    for file in (lab.shared / "gangs").glob("*/number"):
        file.unlink()  # As if the server had died before it wrote the id down.
    with closing(engine_over(lab, engine._prefix.split("-")[2])) as again:
        assert again.start(gang) == told
    until(lambda: engine.observe(gang).word.startswith("RUNNING, Slurm job"), "it is seen to run")
    assert engine.observe(gang).gone == {}
    stop(engine, gang.name)
    assert states(lab) == []


def test_machines_are_the_partition_s_with_slurm_s_words_for_them(engine: SlurmEngine, lab: SlurmLab):
    lab.slurm("scontrol", "update", f"nodename={lab.names[1]}", "state=drain", "reason=bad fan")
    try:
        with closing(engine_over(lab, "drained")) as drained:
            machines = machines_of(drained)
    finally:
        lab.slurm("scontrol", "update", f"nodename={lab.names[1]}", "state=resume")
    assert [(one.name, one.cpus, one.gpus, one.memory_mib) for one in machines] == [
        (name, 4, (), 4000) for name in lab.names
    ]
    assert [one.unusable for one in machines] == ["", "it is drained (bad fan)", ""]
    with closing(engine_over(lab, "without", exclude=f"{lab.names[0]},{lab.names[2]}")) as without:
        assert len(machines_of(without)) == 1


def test_node_whose_task_has_ended_is_told_while_the_others_run(lab: SlurmLab):
    python = lab.shared / "python-but-on-node-1"
    python.write_text(
        f'#!/bin/sh\n[ "$SLURM_PROCID" != 1 ] || {{ echo no room; exit 7; }}\nexec {os.sys.executable} "$@"\n'
    )
    python.chmod(0o755)
    engine = engine_over(lab, secrets.token_hex(3), python=str(python))
    with closing(engine):
        machines_of(engine)
        gang = a_gang(nodes=3)
        engine.start(gang)
        said = "ended with exit code 7; its last output: no room"
        try:
            until(lambda: engine.observe(gang).gone.get(1, "").endswith(said), "it is noticed", 60)
            sighting = engine.observe(gang)
            assert sighting.word.startswith("RUNNING,")
            assert (sighting.cause, set(sighting.gone)) == (Loss.FAILED, {1})
        finally:
            stop(engine, gang.name)


def test_partition_that_is_mistyped_is_named(lab: SlurmLab):
    engine = engine_over(lab, secrets.token_hex(3), partition="gpsu")
    with closing(engine):
        until(lambda: raises_no_machines(engine), "Slurm has shown none")


def raises_no_machines(engine: SlurmEngine) -> bool:
    try:
        return bool(engine.machines())
    except NoMachinesError as error:
        return error.what == "Slurm shows no machine in partition `gpsu`"
    except UnreachableError:  # It was busy when it was asked.
        return False


def test_the_server_is_found_on_the_way_to_the_nodes(engine: SlurmEngine, lab: SlurmLab):
    assert engine.server_addresses() == [lab.lab.gateway]


@pytest.mark.parametrize(
    ("keys", "what"),
    [
        ({"partition": "nope"}, "(?i)invalid partition"),
        ({"constraint": "a100"}, "(?i)invalid feature"),
        ({"options": ["--nonsense=1"]}, "sbatch refused: .*nonsense"),
        ({"folder": "/proc/nowhere"}, "No such file"),
    ],
)
def test_what_slurm_refuses_is_told(lab: SlurmLab, keys: dict[str, str], what: str):
    spec = SlurmCompute(**{"name": "rack", "type": "slurm", "folder": str(lab.shared), **keys})
    with closing(SlurmEngine(spec, "bad")) as engine:
        with pytest.raises(EngineError, match=what):
            engine.start(a_gang())
        stop(engine, "contract.1")


# --- jobs -------------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def home(made: SlurmLab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with a_house(tmp_path_factory.mktemp("house")) as there:
        for name, keys in {"rack": {}, **{name: {"partition": name} for name in ("low", "slow", "spot")}}.items():
            create(there.client, made, name, **keys)
        yield there


@pytest.fixture
def house(home: House, lab: SlurmLab) -> Iterator[House]:
    yield home
    for job in home.client.list():
        if not job.has_ended:
            home.client.cancel(job.name, discard=True)
    until(lambda: states(lab) == [], "nothing is left in Slurm", 90)
    until(lambda: not list((lab.shared / "gangs").glob("*")), "no gang's folder is left")


def create(client: Client, lab: SlurmLab, name: str, **keys: object) -> None:
    client.create_compute({"name": name, "type": "slurm", "folder": str(lab.shared), "programs": PROGRAMS, **keys})
    until(lambda: client.compute(name).machines, "its machines are seen")


def submitted(house: House, command: str, nodes: int = 2, compute: str = "rack", **drumbeat: object) -> str:
    told = ", ".join(f"{key}: {value}" for key, value in {"environment": "current", "grace_s": 5, **drumbeat}.items())
    file = house.job_file(
        "job", command=f"'{command}'", compute=compute, resources=f"{{instance_count: {nodes}}}", drumbeat=f"{{{told}}}"
    )
    return house.client.submit(file).name


def reach(house: House, job: str, state: str) -> JobView:
    def is_there() -> bool:
        now = house.client.get(job)
        assert not now.has_ended or now.state == state, f"{now.state}: {now.sentence}"
        return now.state == state

    until(is_there, f"job {job} is {state}", 90)
    return house.client.get(job)


def until_go(go: Path, before: str = "true") -> str:
    return f"{before}; until test -e {go}; do sleep 0.05; done"


def slurm_job(lab: SlurmLab, state: str = "R") -> str:
    """The id of the one job that runs."""
    until(lambda: lab.slurm("squeue", "-h", "-t", state, "-o", "%i").split(), f"a Slurm job is {state}")
    (number,) = lab.slurm("squeue", "-h", "-t", state, "-o", "%i").split()
    return number


ALL_REDUCE = """
import os, socket, torch, torch.distributed as dist
dist.init_process_group("gloo")
number = torch.tensor([dist.get_rank() + 1.0])
dist.all_reduce(number)
open(os.environ["DRUMBEAT_CHECKPOINT_DIR"] + f"/{dist.get_rank()}", "w").write(str(number.item()))
print("sum", number.item(), socket.gethostname(), os.environ.get("SLURM_JOB_ID", "clean"), flush=True)
dist.destroy_process_group()
"""


@pytest.mark.feature("C3", "C4")
def test_a_job_reduces_over_three_nodes(house: House, lab: SlurmLab):
    house.script(ALL_REDUCE, "reduce")
    file = house.job_file(
        "reduce", command="python t.py", code=".", compute="rack", resources="{instance_count: 3}",
        drumbeat="{environment: current}",
    )  # fmt: skip
    done = house.run("run", file)
    assert done.returncode == 0, done.stdout + done.stderr
    (job,) = [one for one in house.client.list() if one.display_name == "reduce" or one.name.startswith("reduce")]
    said = "".join(house.logs(job.name).values())
    assert sorted(line.split() for line in said.splitlines()) == [["sum", "6.0", name, "clean"] for name in lab.names]
    (kept,) = (lab.shared / "jobs").glob(f"drumbeat-rack-*-{job.name}/checkpoints")
    assert sorted(one.name for one in kept.iterdir()) == ["0", "1", "2"]


@pytest.mark.feature("C4", "X8")
def test_the_secret_is_in_no_script_argument_or_environment(house: House, lab: SlurmLab, tmp_path: Path):
    job = submitted(house, until_go(tmp_path / "go"))
    reach(house, job, "running")
    (folder,) = (lab.shared / "gangs").iterdir()
    files = {one: one.read_bytes() for one in folder.rglob("*") if one.is_file()}
    enrolments = [one for one in files if one.name == "enrolment.json"]
    assert len(enrolments) == 2
    assert {stat.S_IMODE(one.stat().st_mode) for one in enrolments} == {0o600}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    secret = secret_in(enrolments[0])
    assert not [one for one, content in files.items() if one not in enrolments and secret.encode() in content]
    assert secret not in lab.slurm("scontrol", "show", "job", slurm_job(lab))
    assert secret not in lab.slurm("scontrol", "write", "batch_script", slurm_job(lab), "-")
    shown = [words for one in psutil.process_iter() for words in words_of(one)]
    assert any("drumbeat.node.host.slurm_step" in words for words in shown)
    assert not [words for words in shown if secret in words]
    (tmp_path / "go").touch()
    reach(house, job, "completed")


def secret_in(file: Path) -> str:
    import json

    return json.loads(file.read_text())["secret"]


def words_of(process: psutil.Process) -> list[str]:
    with contextlib.suppress(psutil.Error):
        return [" ".join(process.cmdline()), " ".join(process.environ().values())]
    return []


@pytest.mark.feature("C3")
@pytest.mark.thorough
def test_a_job_that_waits_says_for_what(house: House, lab: SlurmLab, tmp_path: Path):
    other = lab.slurm("sbatch", "--parsable", "-N3", "-o/dev/null", "--wrap", "srun sleep 600").strip()
    until(lambda: lab.slurm("squeue", "-h", "-t", "R"), "the nodes are busy")
    job = submitted(house, "true")
    until(lambda: "(Resources)" in house.client.get(job).sentence, "it says what it waits for")
    seen = house.client.get(job)
    assert (seen.state, seen.reason) == ("provisioning", "in_queue")
    number = slurm_job(lab, "PD")
    assert seen.sentence == f"waits in the queue of rack: PENDING (Resources), Slurm job {number}"
    assert seen.observed is not None
    assert seen.observed.word == f"PENDING (Resources), Slurm job {number}"
    assert "PENDING (Resources)" in house.run("show", job).stdout
    lab.slurm("scancel", other)
    done = reach(house, job, "completed")
    assert (done.attempt, done.failures) == (1, ())


def test_a_job_that_can_never_fit_ends_with_a_sentence(house: House):
    job = submitted(house, "true", nodes=4)
    seen = house.client.wait(job, 60)
    assert seen is not None
    assert (seen.state, seen.reason) == ("failed", "too_big")
    assert seen.sentence == "the job needs 1 CPU slot on each of 4 nodes; rack has 3 machines with that much"


def test_a_job_that_is_canceled_leaves_nothing(house: House, lab: SlurmLab, tmp_path: Path):
    job = submitted(house, until_go(tmp_path / "go"), nodes=3)
    reach(house, job, "running")
    house.client.cancel(job)
    reach(house, job, "canceled")
    until(lambda: states(lab) == [], "Slurm has nothing left")

    def left() -> list[object]:
        places = (lab.folder / "scratch").glob(f"*/drumbeat-*/*{job}*")
        processes = psutil.process_iter()
        return [*places, *(one for one in processes if any(str(lab.shared) in words for words in words_of(one)))]

    def nothing_is_left() -> bool:
        with contextlib.suppress(OSError):  # It goes while it is looked at.
            return not left()
        return False

    until(nothing_is_left, "nothing is left on the nodes")


# --- what Slurm does --------------------------------------------------------------------------------------------
@pytest.mark.feature("C4")
@pytest.mark.thorough
def test_what_is_canceled_in_slurm_ends_with_a_sentence(house: House, lab: SlurmLab, tmp_path: Path):
    job = submitted(house, until_go(tmp_path / "go", "trap : TERM"))
    reach(house, job, "running")
    number = slurm_job(lab)
    lab.slurm("scancel", number)
    seen = reach(house, job, "canceled")
    assert (seen.reason, seen.exit_code) == ("canceled_outside", 130)
    assert seen.sentence == f"Slurm job {number} was canceled in Slurm (scancel), not by drumbeat"


def test_what_is_canceled_while_it_waits_ends_too(house: House, lab: SlurmLab):
    other = lab.slurm("sbatch", "--parsable", "-N3", "-o/dev/null", "--wrap", "srun sleep 600").strip()
    until(lambda: lab.slurm("squeue", "-h", "-t", "R"), "the nodes are busy")
    job = submitted(house, "true")
    lab.slurm("scancel", slurm_job(lab, "PD"))
    assert reach(house, job, "canceled").reason == "canceled_outside"
    lab.slurm("scancel", other)


@pytest.mark.feature("C6")
@pytest.mark.parametrize(
    "partition", ["low", *(pytest.param(name, marks=pytest.mark.thorough) for name in ("slow", "spot"))]
)
def test_preemption_is_told_as_such_and_the_job_goes_on(house: House, lab: SlurmLab, tmp_path: Path, partition: str):
    """`low` requeues at once, `slow` cancels and `spot` requeues after a while of grace, in which ranks save."""
    go, saved = tmp_path / "go", "$DRUMBEAT_CHECKPOINT_DIR/step.$RANK"
    last = f"echo 7 > {saved}; sleep 5; : > {tmp_path}/told.$RANK; exit 0"
    command = until_go(go, f'cat {saved} || true; trap "{last}" TERM; : > {tmp_path}/ready.$RANK')
    job = submitted(house, command, nodes=3, compute=partition, max_retries=0, grace_s=20)
    reach(house, job, "running")
    until(lambda: len(list(tmp_path.glob("ready.*"))) == 3, "every rank would hear that it is to end")
    number = slurm_job(lab)
    urgent = lab.slurm("sbatch", "--parsable", "-N2", "-o/dev/null", "--wrap", "srun sleep 600").strip()
    until(lambda: house.client.get(job).attempt == 2, "a second attempt begins")
    (failure,) = house.client.get(job).failures
    assert failure.verdict.reason == "preempted"
    assert failure.verdict.sentence == f"Slurm job {number} was preempted by Slurm"
    has_grace = partition != "low"  # Without a grace time of the cluster's, srun ends its tasks as soon as it is told.
    if has_grace:
        until(lambda: len(list(tmp_path.glob("told.*"))) == 3, "ranks have time to end well", 30)
        grace_s = {"slow": 30, "spot": 15}[partition]
        notice = f"Slurm will take the nodes away for another job after a grace time of {grace_s} s (Slurm job {number}"
        assert any(notice in line.sentence for line in house.client.get(job).story), "it is told before it happens"
    assert any(
        "new set of nodes; this doesn't count as a retry" in line.sentence for line in house.client.get(job).story
    )
    until(lambda: house.client.get(job).reason == "in_queue", "it waits")
    lab.slurm("scancel", urgent)
    reach(house, job, "running")
    go.touch()
    assert reach(house, job, "completed").attempt == 2
    if has_grace:
        assert [text.split()[-1:] for text in house.logs(job).values()] == [["7"]] * 3, "it goes on from what was saved"


@pytest.mark.feature("C4")
@pytest.mark.thorough  # Slurm's shortest limit is a minute.
def test_slurm_s_time_limit_ends_a_job_as_timed_out_and_names_it(house: House, lab: SlurmLab, tmp_path: Path):
    create(house.client, lab, "short", time_limit="1")
    job = submitted(house, until_go(tmp_path / "go"), nodes=1, compute="short", grace_s=1)
    reach(house, job, "running")
    number = slurm_job(lab)
    until(lambda: house.client.get(job).has_ended, "the limit is reached", 150)
    seen = house.client.get(job)
    assert (seen.state, seen.reason, seen.attempt) == ("failed", "timed_out", 1)
    assert seen.sentence.startswith(f"Slurm job {number} reached Slurm's time limit of 00:01:00.")


@pytest.mark.feature("C4")
@pytest.mark.parametrize("how", ["off", "cut"])
@pytest.mark.thorough
def test_a_node_that_is_lost_costs_an_attempt_and_no_retry(house: House, lab: SlurmLab, tmp_path: Path, how: str):
    go = tmp_path / "go"
    job = submitted(house, until_go(go), max_retries=0)
    before = reach(house, job, "running")
    victim = before.nodes[1].host
    if how == "off":
        lab.lab.switch_off(victim)
    else:
        lab.lab.set_link(victim, is_up=False)
    until(lambda: house.client.get(job).attempt == 2, "a second attempt begins", 120)
    seen = reach(house, job, "running")
    assert [one.verdict.reason for one in seen.failures] == ["node_lost"]
    assert "lost a node (NODE_FAIL)" in seen.failures[0].verdict.sentence
    assert victim not in [node.host for node in seen.nodes]
    go.touch()
    assert reach(house, job, "completed").attempt == 2


@pytest.mark.feature("C4")
@pytest.mark.thorough
def test_a_job_doesn_t_notice_that_slurmctld_is_away(house: House, lab: SlurmLab, tmp_path: Path):
    job = submitted(house, until_go(tmp_path / "go"), nodes=3)
    reach(house, job, "running")
    lab.kill_slurmctld()
    observed = lambda: house.client.get(job).observed  # noqa: E731
    until(lambda: "Slurm doesn't answer now" in observed().word, "it is known that slurmctld is away")
    assert house.client.get(job).state == "running"
    lab.start_slurmctld()
    until(lambda: observed().word.startswith("RUNNING, Slurm job"), "slurmctld is asked again", 120)
    (tmp_path / "go").touch()
    seen = reach(house, job, "completed")
    assert (seen.attempt, seen.round, seen.failures) == (1, 1, ())


@pytest.mark.thorough
def test_a_job_submitted_while_slurmctld_is_away_starts_when_it_is_back(house: House, lab: SlurmLab):
    lab.kill_slurmctld()
    job = submitted(house, "true")
    until(lambda: "Slurm doesn't answer now" in house.client.get(job).sentence, "it says what it waits for")
    lab.start_slurmctld()
    assert reach(house, job, "completed").attempt == 1


@pytest.fixture
def fault(own_house: House, lab: SlurmLab) -> Path:
    """Names the point at which its server dies, when there is one."""
    file = own_house.folder / "fault"
    for name, value in {"DRUMBEAT_FAULT": f"@{file}", "SLURM_CONF": str(lab.conf)}.items():
        own_house.environment[name] = value
    assert own_house.run("server", "start").returncode == 0
    create(own_house.client, lab, "rack")
    return file


@pytest.mark.feature("C4")
def test_a_server_killed_after_sbatch_submits_once(own_house: House, lab: SlurmLab, fault: Path):
    fault.write_text("engine.submitted")
    job = submitted(own_house, "true", nodes=3)
    until(lambda: not fault.exists(), "the server has died")
    seen = reach(own_house, job, "completed")
    assert (seen.attempt, seen.failures) == (1, ())
    mine = [line for line in lab.slurm("squeue", "-h", "--states=all", "-o", "%j").splitlines() if job in line]
    assert len(mine) == 1
    until(lambda: not list((lab.shared / "gangs").glob("*")), "the gang's folder is gone")


@pytest.mark.feature("C4", "F5")
@pytest.mark.thorough
def test_a_server_killed_when_a_gang_was_canceled_is_followed_by_one_that_clears_it(
    own_house: House, lab: SlurmLab, fault: Path
):
    job = submitted(own_house, until_go(own_house.folder / "go"), nodes=3)
    reach(own_house, job, "running")
    fault.write_text("engine.cancelled")
    own_house.client.cancel(job)
    until(lambda: not fault.exists(), "the server has died")
    assert list((lab.shared / "gangs").glob("*"))
    reach(own_house, job, "canceled")
    until(lambda: not list((lab.shared / "gangs").glob("*")), "the gang's folder is gone")
    until(lambda: not states(lab), "Slurm has no job")


def test_nodes_that_have_no_such_python_are_told(house: House, lab: SlurmLab):
    create(house.client, lab, "bare", python="python9.9")
    job = submitted(house, "true", compute="bare", max_retries=0)
    seen = reach(house, job, "failed")
    assert seen.reason == "nodes_failed"
    assert "python9.9" in seen.sentence
    assert "`python` (3.11 or newer)" in seen.verdict.advice
