"""The engine beside a Slurm that a test plays."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from drumbeat.core.lifecycle.events import Loss
from drumbeat.engines.agent_archive import agent_archive
from drumbeat.engines.contract import a_gang
from drumbeat.engines.enrolment import enrolment
from drumbeat.engines.slurm import engine as slurm_engine
from drumbeat.engines.slurm import job_lookup
from drumbeat.engines.slurm.client import Ended, Slurm, SlurmJob, SlurmNode
from drumbeat.engines.slurm.engine import SlurmEngine
from drumbeat.engines.slurm.power_saving import Power
from drumbeat.jobfile.compute.slurm import SlurmCompute
from drumbeat.model.errors import EngineError, Problem, UnreachableError
from drumbeat.ports.engines import GangStatus, NoMachinesError

pytestmark = pytest.mark.feature("C4")
NAME = "drumbeat-rack-m4rk-contract.1"


@dataclass
class Played(Slurm):
    """What a test says that Slurm says. is_away: slurmctld doesn't answer. is_hidden: squeue shows none of its jobs."""

    there: list[SlurmJob] = field(default_factory=list[SlurmJob])
    others: set[str] = field(default_factory=set[str])
    """The ids of those that are another user's."""
    ends: dict[tuple[str, str], Ended] = field(default_factory=dict[tuple[str, str], Ended])
    """What accounts have, by ids and names."""
    asked: list[str] = field(default_factory=list[str])
    """What slurmctld and accounts were asked for by its id."""
    searched: list[str] = field(default_factory=list[str])
    """The names that were searched for among all jobs."""
    submitted: list[str] = field(default_factory=list[str])
    told: list[str] = field(default_factory=list[str])
    canceled: list[str] = field(default_factory=list[str])
    settings: Power = field(default_factory=Power)
    to_preempt: dict[str, str] = field(default_factory=dict[str, str])
    """Running jobs whose nodes Slurm is about to take, with the time."""
    is_away: bool = False
    is_unaccounted: bool = False
    """sacct can't reach what it asks."""
    is_mute: bool = False
    """slurmctld doesn't answer scontrol, but squeue."""
    is_deaf: bool = False
    """Its nodes don't end when they are told to."""
    is_hidden: bool = False
    is_stuck: bool = False
    """What is canceled goes on ending."""
    machines: list[str] = field(default_factory=lambda: ["n1"])

    def _answer(self) -> None:
        if self.is_away:
            raise UnreachableError("Slurm doesn't answer now")

    def submit(self, script: str) -> str:
        self._answer()
        self.submitted.append(script)
        self.there.append(SlurmJob("17", "PENDING", NAME, "Priority"))
        return "17"

    def jobs(self, name: str = "") -> list[SlurmJob]:
        self._answer()
        mine = [job for job in self.there if job.id not in self.others]
        return [job for job in mine if name in ("", job.name) and not self.is_hidden]

    def nodes(self, partition: str = "") -> list[SlurmNode]:
        self._answer()
        return [SlurmNode(name, "127.0.0.1", "main*", "idle", 8, 1000, 4, "none") for name in self.machines]

    def names(self, expression: str) -> list[str]:
        return expression.split(",")

    def power(self, partition: str) -> Power:
        self._answer()
        return self.settings

    def preempted(self) -> dict[str, str]:
        self._answer()
        return self.to_preempt

    def controllers(self) -> list[str]:
        return []

    def cancel(self, ids: Sequence[str]) -> None:
        self._answer()
        self.canceled += ids
        if not self.is_stuck:
            self.there = [job for job in self.there if job.id not in ids]

    def tell_to_end(self, ids: Sequence[str]) -> None:
        self._answer()
        self.told += ids
        if not self.is_deaf:
            self.there = [job for job in self.there if job.id not in ids]

    def shown(self, job: str, name: str) -> Ended | None:
        self._answer()
        if self.is_mute:
            raise UnreachableError("Slurm doesn't answer now")
        self.asked.append(f"slurmctld {job}")
        mine = [one for one in self.there if one.id not in self.others]
        return next((Ended(one.word) for one in mine if (one.id, one.name) == (job, name)), None)

    def job_ids(self, name: str) -> list[str]:
        self._answer()
        if self.is_mute:
            raise UnreachableError("Slurm doesn't answer now")
        self.searched.append(name)
        return [one.id for one in self.there if one.id not in self.others and one.name == name]

    def accounted(self, job: str, name: str) -> Ended | None:
        self.asked.append(f"accounts {job}")
        if self.is_unaccounted:
            raise UnreachableError("Slurm doesn't answer now: slurmdbd: connection refused")
        return self.ends.get((job, name))


@pytest.fixture
def played() -> Played:
    return Played()


@pytest.fixture
def engine(played: Played, tmp_path: Path) -> Iterator[SlurmEngine]:
    """It looks when a test says so."""
    made = an_engine(played, tmp_path)
    yield made
    made.close()


def an_engine(played: Played, folder: Path, **keys: str) -> SlurmEngine:
    spec = SlurmCompute.model_validate({"name": "rack", "type": "slurm", "folder": str(folder), **keys})
    made = SlurmEngine(spec, "m4rk", played)
    made.poller.has_begun, made.poller.first_look_s = True, 0.0
    made.leave_s = made.clear_s = 0.0
    return made


@pytest.fixture
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """What slurmctld said of a gang is old at once."""
    monkeypatch.setattr(job_lookup, "MAX_STATUS_AGE_S", 0.0)


def a_folder(home: Path, name: str, number: int) -> Path:
    """As a gang leaves it whose job has run."""
    folder = home / "gangs" / name
    folder.mkdir(parents=True)
    (folder / f"slurm-{number}.out").touch()
    return folder


def test_a_gang_waits_runs_and_is_gone_as_slurm_says(engine: SlurmEngine, played: Played):
    gang = a_gang()
    assert engine.start(gang) == "submitted as Slurm job 17"
    assert engine.observe(gang).waits, "nobody has asked since"
    engine._look()
    seen = engine.observe(gang)
    assert (seen.word, seen.waits, seen.gone) == ("PENDING (Priority), Slurm job 17", True, {})
    played.there = [SlurmJob("17", "RUNNING", NAME, nodes="n1")]
    engine._look()
    assert (engine.observe(gang).word, engine.observe(gang).waits) == ("RUNNING, Slurm job 17", False)
    played.there = [SlurmJob("17", "NEW_WORD", NAME)]
    engine._look()
    assert engine.observe(gang).gone == {}, "a word that nobody knows moves nothing"
    played.there = [SlurmJob("17", "PREEMPTED", NAME)]
    engine._look()
    seen = engine.observe(gang)
    assert (seen.word, seen.cause, sorted(seen.gone)) == ("PREEMPTED", Loss.PREEMPTED, [0, 1])


@pytest.mark.parametrize("is_deaf", [False, True])
def test_nodes_that_stay_are_told_to_clear_their_disks_before_they_are_killed(
    engine: SlurmEngine, played: Played, *, is_deaf: bool
):
    gang = a_gang()
    engine.start(gang)
    played.there, played.is_deaf = [SlurmJob("17", "RUNNING", NAME, nodes="n1")], is_deaf
    engine.stop(gang.name)
    assert played.told == ["17"]
    assert played.canceled == (["17"] if is_deaf else [])


@pytest.mark.usefixtures("unhurried")
def test_a_gang_that_squeue_doesn_t_show_is_there_while_slurmctld_knows_it_to_live(engine: SlurmEngine, played: Played):
    gang, played.is_hidden = a_gang(), True
    engine.start(gang)
    engine._look()
    seen = engine.observe(gang)
    assert (seen.word, seen.waits, seen.gone) == ("PENDING, Slurm job 17", True, {})
    for word in ("RUNNING", "COMPLETING", "NEW_WORD"):
        played.there = [SlurmJob("17", word, NAME)]
        seen = engine.observe(gang)
        assert (seen.word, seen.waits, seen.gone) == (f"{word}, Slurm job 17", False, {})
    played.there, played.ends = [], {("17", NAME): Ended("TIMEOUT", 0, 61, 60)}
    seen = engine.observe(gang)
    assert (seen.word, seen.cause, sorted(seen.gone)) == ("TIMEOUT", Loss.TIMED_OUT, [0, 1])


def test_a_gang_that_squeue_doesn_t_show_is_submitted_once(engine: SlurmEngine, played: Played):
    played.is_hidden = True
    assert engine.start(a_gang()) == engine.start(a_gang())
    assert len(played.submitted) == 1


@pytest.mark.parametrize("word", ["PENDING", "RUNNING"])
def test_a_gang_that_squeue_doesn_t_show_is_ended_before_its_folder_goes(
    engine: SlurmEngine, played: Played, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, word: str
):
    monkeypatch.setattr(slurm_engine, "END_S", 0.0)
    gang = a_gang()
    engine.start(gang)
    played.there, played.is_hidden, played.is_deaf, played.is_stuck = [SlurmJob("17", word, NAME)], True, True, True
    with pytest.raises(UnreachableError, match="Slurm job 17 is still ending on its nodes"):
        engine.stop(gang.name)
    assert (tmp_path / "gangs" / NAME).exists()
    played.is_stuck = False
    engine.stop(gang.name)
    assert played.there == []
    assert not (tmp_path / "gangs" / NAME).exists()


def test_job_missing_in_squeue_is_swept_by_the_id_of_its_output(engine: SlurmEngine, played: Played, tmp_path: Path):
    other = NAME.replace("contract", "other")
    played.there, played.is_hidden = [SlurmJob("9", "RUNNING", NAME), SlurmJob("10", "RUNNING", other)], True
    for name, number in {NAME: 9, other: 10}.items():
        a_folder(tmp_path, name, number)
    assert engine.sweep(lambda: {"other.1"}) == ["contract.1"]
    assert [job.id for job in played.there] == ["10"]
    assert [path.name for path in (tmp_path / "gangs").iterdir()] == [other]


ANOTHERS = {
    "of another name": (SlurmJob("7", "RUNNING", "theirs"), set[str]()),
    "another user's": (SlurmJob("7", "RUNNING", NAME), {"7"}),
}


@pytest.mark.parametrize(("job", "others"), ANOTHERS.values(), ids=ANOTHERS)
def test_a_job_that_has_a_gang_s_number_but_isn_t_its_own_is_left_alone(
    engine: SlurmEngine, played: Played, tmp_path: Path, job: SlurmJob, others: set[str]
):
    """Ids begin anew with slurmctld's memory, and are others in another cluster."""
    a_folder(tmp_path, NAME, 7)
    played.there, played.others, played.is_hidden = [job], others, True
    engine.observe(a_gang())
    engine._look()
    seen = engine.observe(a_gang())
    assert (seen.cause, sorted(seen.gone)) == (Loss.LOST, [0, 1])
    assert seen.gone[0] == "Slurm job 7 is no longer known to Slurm"
    engine.stop("contract.1")
    a_folder(tmp_path, NAME, 7)
    assert engine.sweep(set[str]) == []
    assert played.there == [job]
    a_folder(tmp_path, NAME, 7)
    assert engine.start(a_gang()) == "submitted as Slurm job 17"


def test_how_a_job_of_another_name_ended_isn_t_how_a_gang_did(engine: SlurmEngine, played: Played, tmp_path: Path):
    a_folder(tmp_path, NAME, 7)
    played.there, played.is_hidden = [SlurmJob("7", "OUT_OF_MEMORY", "theirs")], True
    played.ends = {("7", "theirs"): Ended("OUT_OF_MEMORY"), ("7", NAME): Ended("TIMEOUT", 0, 61, 60)}
    engine.observe(a_gang())
    engine._look()
    assert engine.observe(a_gang()).cause is Loss.TIMED_OUT


def test_accounts_that_can_t_be_reached_keep_nothing_from_being_ended_or_started(
    engine: SlurmEngine, played: Played, tmp_path: Path
):
    """Whether a job lives is slurmctld's word alone."""
    played.is_unaccounted = True
    folder = a_folder(tmp_path, NAME, 9)
    engine.observe(a_gang())
    engine._look()
    seen = engine.observe(a_gang())
    assert (seen.gone, seen.word) == ({}, "gone; Slurm doesn't answer now: slurmdbd: connection refused")
    engine.stop("contract.1")
    assert not folder.exists()
    folder = a_folder(tmp_path, NAME, 9)
    assert engine.sweep(set[str]) == []
    assert not folder.exists()
    a_folder(tmp_path, NAME, 9)
    assert engine.start(a_gang()) == "submitted as Slurm job 17"
    assert [who for who in played.asked if who.startswith("accounts")] == ["accounts 9"], "for a sighting"


def test_listed_jobs_are_canceled_before_missing_ones_are_searched(engine: SlurmEngine, played: Played, tmp_path: Path):
    old = NAME.replace("contract", "old")
    a_folder(tmp_path, NAME, 17)
    folder = a_folder(tmp_path, old, 9)
    played.there, played.is_mute = [SlurmJob("17", "RUNNING", NAME, nodes="n1")], True
    with pytest.raises(EngineError, match="Slurm doesn't answer now"):
        engine.sweep(set[str])
    assert played.canceled == ["17"]
    assert folder.exists(), "while nobody can tell whether its job is over"
    played.is_mute = False
    engine._look()
    assert list((tmp_path / "gangs").iterdir()) == []


def test_slurm_is_asked_once_for_a_job_that_is_over_or_forgotten(engine: SlurmEngine, played: Played, tmp_path: Path):
    a_folder(tmp_path, NAME, 9)
    for _ in range(3):
        engine.observe(a_gang())
        engine._look()
        engine._jobs("contract.1", is_fresh=True)
    assert played.asked == ["slurmctld 9", "accounts 9"]
    old = NAME.replace("contract", "old")
    a_folder(tmp_path, old, 10)
    played.there, played.is_hidden = [SlurmJob("10", "FAILED", old)], True
    for _ in range(3):
        assert engine._jobs("old.1") == []
    assert played.asked[2:] == ["slurmctld 10"]


def test_slurm_is_asked_now_and_then_for_a_job_that_lives(
    engine: SlurmEngine, played: Played, monkeypatch: pytest.MonkeyPatch
):
    gang, played.is_hidden = a_gang(), True
    engine.start(gang)
    monkeypatch.setattr(job_lookup, "MAX_STATUS_AGE_S", 60.0)
    engine._look()
    for _ in range(3):
        assert engine.observe(gang).word == "PENDING, Slurm job 17"
    assert played.asked == ["slurmctld 17"]
    monkeypatch.setattr(job_lookup, "MAX_STATUS_AGE_S", 0.0)
    engine.observe(gang)
    assert played.asked == ["slurmctld 17"] * 2
    monkeypatch.setattr(job_lookup, "MAX_STATUS_AGE_S", 60.0)
    played.there = [SlurmJob("17", "RUNNING", NAME)]
    engine.stop(gang.name)
    assert played.told == ["17"], "what is to be ended is looked at anew"


@pytest.mark.feature("F5")
def test_a_gang_that_squeue_doesn_t_show_and_that_waits_is_known_to_the_next_server(
    engine: SlurmEngine, played: Played, tmp_path: Path
):
    """It has no output yet."""
    gang, played.is_hidden = a_gang(), True
    first = engine.start(gang)
    number = tmp_path / "gangs" / NAME / "number"
    assert number.read_text() == "17"
    assert an_engine(played, tmp_path).start(gang) == first
    assert len(played.submitted) == 1
    following = an_engine(played, tmp_path)
    following.observe(gang)
    following._look()
    assert (following.observe(gang).word, following.observe(gang).gone) == ("PENDING, Slurm job 17", {})
    assert an_engine(played, tmp_path).sweep(set[str]) == ["contract.1"]
    assert played.there == []


@pytest.mark.parametrize("written", ["", "\0\0", "none"])
def test_a_number_that_was_lost_with_the_power_is_read_off_the_output(
    engine: SlurmEngine, tmp_path: Path, written: str
):
    (a_folder(tmp_path, NAME, 9) / "number").write_text(written)
    assert engine._lookup.written_id("contract.1") == "9"


def test_a_gang_whose_number_can_t_be_written_down_is_submitted_nevertheless(engine: SlurmEngine, tmp_path: Path):
    (tmp_path / "gangs" / NAME / "number").mkdir(parents=True)
    assert engine.start(a_gang()) == "submitted as Slurm job 17"


@pytest.mark.usefixtures("unhurried")
def test_hidden_job_whose_id_was_not_written_down_is_found_by_its_name(
    engine: SlurmEngine, played: Played, tmp_path: Path
):
    gang, played.is_hidden = a_gang(), True
    engine.start(gang)
    (tmp_path / "gangs" / NAME / "number").unlink()
    again = an_engine(played, tmp_path)
    assert again.start(gang) == "submitted as Slurm job 17"
    assert len(played.submitted) == 1
    other = an_engine(played, tmp_path)
    other.observe(gang)
    other._look()
    assert other.observe(gang).word == "PENDING, Slurm job 17"
    other._look()
    assert other.observe(gang).gone == {}
    other.stop(gang.name)
    assert played.canceled == ["17"]
    for one in (again, other):
        one.close()


def test_hidden_job_of_another_user_with_a_gang_s_name_is_left_alone(
    engine: SlurmEngine, played: Played, tmp_path: Path
):
    played.is_hidden, played.there, played.others = True, [SlurmJob("5", "RUNNING", NAME)], {"5"}
    (tmp_path / "gangs" / NAME).mkdir(parents=True)
    assert engine.start(a_gang()) == "submitted as Slurm job 17"
    engine.stop("contract.1")
    assert played.canceled == ["17"]


def test_gang_is_not_submitted_while_slurmctld_cannot_be_searched(engine: SlurmEngine, played: Played, tmp_path: Path):
    (tmp_path / "gangs" / NAME).mkdir(parents=True)
    played.is_mute = True
    with pytest.raises(UnreachableError):
        engine.start(a_gang())
    assert played.submitted == []


def test_jobs_are_searched_for_by_name_only_where_a_server_may_have_submitted_one(engine: SlurmEngine, played: Played):
    gang = a_gang()
    engine.start(gang)
    engine._look()
    engine.observe(gang)
    engine.stop(gang.name)
    assert played.searched == []


def test_a_gang_that_waits_is_canceled_at_once(engine: SlurmEngine, played: Played):
    gang = a_gang()
    engine.start(gang)
    engine.stop(gang.name)
    assert (played.told, played.canceled) == ([], ["17"])


def test_gang_without_an_answer_of_slurm_is_not_gone(engine: SlurmEngine, played: Played):
    gang = a_gang()
    engine.start(gang)
    engine._look()
    played.is_away = True
    with pytest.raises(UnreachableError):
        engine._look()
    engine.poller.problem = Problem("Slurm doesn't answer now")
    assert engine.observe(gang).gone == {}
    assert engine.observe(gang).word == "PENDING (Priority), Slurm job 17; Slurm doesn't answer now"
    with pytest.raises(UnreachableError):
        engine.stop(gang.name)


def test_a_gang_that_can_t_be_asked_for_yet_isn_t_missed(engine: SlurmEngine, played: Played):
    gang = a_gang()
    engine._look()
    played.is_away = True
    with pytest.raises(UnreachableError):
        engine.start(gang)
    assert engine.observe(gang).gone == {}
    assert engine.observe(gang).waits


def test_a_slurm_that_was_away_at_the_sweep_is_swept_when_it_answers(
    engine: SlurmEngine, played: Played, tmp_path: Path
):
    kept = NAME.replace("contract", "kept")
    played.there = [SlurmJob("17", "RUNNING", NAME, nodes="n1"), SlurmJob("18", "RUNNING", kept, nodes="n1")]
    for name in (NAME, kept):
        (tmp_path / "gangs" / name).mkdir(parents=True)
    played.is_away = True
    wanted = {"kept.1", "contract.1"}
    with pytest.raises(EngineError, match="Slurm doesn't answer now"):
        engine.sweep(lambda: wanted)
    wanted.remove("contract.1")  # Its job ended meanwhile.
    with pytest.raises(UnreachableError):
        engine._look()
    played.is_away = False
    engine._look()
    assert (tmp_path / "gangs" / NAME).exists(), "until Slurm has ended it"
    engine._look()
    assert [job.id for job in played.there] == ["18"]
    assert [path.name for path in (tmp_path / "gangs").iterdir()] == [kept]


def test_a_submission_that_slurm_takes_after_its_end_is_cancelled(engine: SlurmEngine, played: Played, tmp_path: Path):
    gang, wanted = a_gang(), {"contract.1", "other.1"}
    engine._look()
    assert engine.sweep(lambda: wanted) == []
    played.is_away = True  # sbatch was given up; slurmctld has it nevertheless.
    with pytest.raises(UnreachableError):
        engine.start(gang)
    played.is_away = False
    engine.stop(gang.name)
    played.there = [SlurmJob("17", "PENDING", NAME), SlurmJob("18", "RUNNING", NAME.replace("contract", "other"))]
    engine._look()
    assert [job.id for job in played.there] == ["17", "18"], "while its slots aren't given back"
    wanted.remove(gang.name)
    engine._look()
    assert [job.id for job in played.there] == ["18"]
    engine._look()
    assert not engine._must_sweep
    assert list((tmp_path / "gangs").glob("*")) == []


def test_forgotten_job_is_looked_up_by_the_id_of_its_output(engine: SlurmEngine, played: Played, tmp_path: Path):
    """Another server submitted it; squeue shows no job that ended a while ago."""
    a_folder(tmp_path, NAME, 9)
    played.ends = {("9", NAME): Ended("TIMEOUT", 0, 61, 60)}
    engine.observe(a_gang())
    engine._look()
    seen = engine.observe(a_gang())
    assert (seen.word, seen.cause) == ("TIMEOUT", Loss.TIMED_OUT)
    assert seen.gone[0].startswith("Slurm job 9 reached Slurm's time limit of 00:01:00")


@pytest.mark.feature("F5")
@pytest.mark.parametrize("is_away", [False, True])
def test_a_look_from_before_another_server_submitted_a_gang_says_nothing_of_it(
    engine: SlurmEngine, played: Played, tmp_path: Path, is_away: bool
):
    gang = a_gang()
    engine._look()
    an_engine(played, tmp_path).start(gang)
    played.is_away, engine.poller.problem = is_away, Problem("Slurm doesn't answer now") if is_away else None
    seen = engine.observe(gang)
    assert (seen.word, seen.gone) == ("", {}), "neither lost, nor waiting, nor begun: the story stays as it is"
    assert engine.poller.is_nudged
    played.is_away, engine.poller.problem = False, None
    engine._look()
    assert engine.observe(gang).word == "PENDING (Priority), Slurm job 17"


def test_gang_is_submitted_once_and_canceled_as_a_whole(engine: SlurmEngine, played: Played, tmp_path: Path):
    gang = a_gang()
    assert engine.start(gang) == engine.start(gang)
    assert len(played.submitted) == 1
    assert (tmp_path / "gangs" / NAME / "1" / "enrolment.json").exists()
    engine.stop(gang.name)
    assert played.there == []
    assert not (tmp_path / "gangs" / NAME).exists()


def test_checkpoints_are_apart_from_those_of_a_deleted_job_of_the_name(engine: SlurmEngine, tmp_path: Path):
    gang = replace(a_gang(nodes=1), first_version=3)
    engine._lay_out(gang, engine._gang_folder(gang.name))
    (file,) = tmp_path.rglob("enrolment.json")
    assert json.loads(file.read_text())["checkpoints"] == f"{tmp_path}/jobs/drumbeat-rack-m4rk-contract~3/checkpoints"
    assert "contract~3.1" in engine.rendered(gang)


def test_old_partial_agent_files_are_removed(engine: SlurmEngine, tmp_path: Path):
    agents = tmp_path / "agents"
    agents.mkdir()
    names = ["agent-1.pyz", "agent-1.pyz.7", "agent-2.pyz.8"]
    for name in names:
        (agents / name).touch()
    for name in names[:2]:
        os.utime(agents / name, (0, 0))
    engine.start(a_gang())
    assert sorted(path.name for path in agents.iterdir()) == sorted(
        ["agent-1.pyz", "agent-2.pyz.8", agent_archive().name]
    )


def test_truncated_agent_file_is_copied_again(engine: SlurmEngine, tmp_path: Path):
    """A server's machine lost its power before what it wrote had reached the disk."""
    agent = tmp_path / "agents" / agent_archive().name
    agent.parent.mkdir()
    agent.touch()
    engine.start(a_gang())
    assert agent.read_bytes() == agent_archive().content
    whole = agent.stat()
    engine.start(a_gang("another"))
    assert os.path.samestat(agent.stat(), whole), "what is whole is left alone"


def test_a_gang_that_waits_will_call_the_servers_that_there_are_when_it_starts(
    engine: SlurmEngine, played: Played, tmp_path: Path
):
    gang = a_gang()
    engine.start(gang)
    engine._look()
    known = replace(gang, servers=("https://10.0.0.1:1", "https://10.0.0.1:2"))
    engine.observe(known)

    def told() -> list[list[str]]:
        return [json.loads(file.read_text())["servers"] for file in sorted(tmp_path.rglob("enrolment.json"))]

    assert told() == [list(known.servers)] * 2
    played.there = [SlurmJob("17", "RUNNING", NAME, nodes="n1")]
    engine._look()
    engine.observe(gang)
    assert told() == [list(known.servers)] * 2, "its agents are told by the servers themselves"


@pytest.mark.feature("C13")
@pytest.mark.parametrize("has_ranks", [False, True])
def test_waiting_gang_keeps_the_form_of_plan_that_its_agents_can_read(
    engine: SlurmEngine, played: Played, tmp_path: Path, *, has_ranks: bool
):
    gang = a_gang(nodes=65)
    engine.start(gang)
    first = tmp_path / "gangs" / NAME / "0" / "enrolment.json"
    if has_ranks:  # An earlier version has submitted it.
        first.write_text(enrolment(gang, 0, root="", checkpoints="/c", has_ranks=True))
    engine._look()
    engine.observe(replace(gang, servers=("https://10.0.0.1:1",)))
    written = json.loads(first.read_text())
    assert written["servers"] == ["https://10.0.0.1:1"]
    assert bool(written["plan"]["ranks"]) is has_ranks


def test_of_two_living_jobs_of_a_name_the_older_stays(engine: SlurmEngine, played: Played):
    played.there = [SlurmJob("9", "RUNNING", NAME), SlurmJob("10", "PENDING", NAME), SlurmJob("11", "RUNNING", "mine")]
    engine._look()
    assert [job.id for job in played.there] == ["9", "11"]


def test_sweep_cancels_only_this_servers_other_gangs(engine: SlurmEngine, played: Played):
    played.there = [SlurmJob("1", "RUNNING", NAME), SlurmJob("2", "RUNNING", NAME.replace("m4rk", "other"))]
    assert engine.sweep(lambda: {"contract.1"}) == []
    assert engine.sweep(set[str]) == ["contract.1"]
    assert [job.id for job in played.there] == ["2"]
    played.is_away = True
    with pytest.raises(EngineError, match="doesn't answer"):
        engine.sweep(set[str])


def test_machines_keep_slurms_state(engine: SlurmEngine, played: Played):
    engine._look()
    (machine,) = engine.machines()
    assert (machine.name, machine.cpus, machine.gpus, machine.word) == ("n1", 8, ("0", "1", "2", "3"), "idle")
    played.is_away = True
    assert engine.machines() == [machine]


@pytest.mark.parametrize(
    ("keys", "place"),
    [
        ({}, "the default partition"),
        ({"partition": "gpsu"}, "partition `gpsu`"),
        ({"partition": "gpus", "exclude": "n1"}, "partition `gpus` beside those that `exclude` names"),
    ],
)
def test_partition_without_machines_is_named(played: Played, tmp_path: Path, keys: dict[str, str], place: str):
    engine = an_engine(played, tmp_path, **keys)
    assert engine.machines() == [], "nobody has looked yet"
    played.machines = ["n1"] if "exclude" in keys else []
    engine._look()
    with pytest.raises(NoMachinesError) as caught:
        engine.machines()
    assert caught.value.what == f"Slurm shows no machine in {place}"
    played.machines = ["n1", "n2"]
    engine._look()
    assert engine.machines()


def running(engine: SlurmEngine, played: Played, output: Path, said: str) -> GangStatus:
    """A gang whose Slurm job runs, and whose output has this."""
    played.there = [SlurmJob("17", "RUNNING", NAME, nodes="n[1-2]")]
    output.write_text(said)
    engine._look()
    return engine.observe(a_gang())


SAID = "ended with exit code {}; its last output: {}"
BINDING = "srun: cluster configuration lacks support for cpu binding\n"
ENDED = {
    "a program that is missing": (
        "slurmstepd: error: execve(): /py: No such file\nsrun: error: n2: task 1: Exited with exit code 2\n",
        {1: "n2 " + SAID.format(2, "slurmstepd: error: execve(): /py: No such file")},
    ),
    "a node that says why": (
        "drumbeat: node 0: it ends\ndrumbeat: node 1: x\nsrun: error: n1: task 0: Exited with exit code 1\n",
        {0: "n1 " + SAID.format(1, "drumbeat: node 0: it ends")},
    ),
    "several at once": (
        "needs Python 3.11\nsrun: error: n[1-2]: tasks 0-1: Exited with exit code 1\n",
        dict.fromkeys((0, 1), "n[1-2] " + SAID.format(1, "needs Python 3.11")),
    ),
    "words that come late": (
        f"{BINDING}srun: error: n2: task 1: Exited with exit code 7\nno room\n",
        {1: "n2 " + SAID.format(7, "no room")},
    ),
    "no words at all": (
        f"{BINDING}srun: error: n2: task 1: Exited with exit code 7\n",
        {1: "n2 ended with exit code 7"},
    ),
    "a node that was told to stop": ("srun: error: n2: task 1: Exited with exit code 143\n", {}),
    "a rank's line": ("I saw srun: error: n2: task 1: Exited with exit code 1\n", {}),
}


@pytest.mark.parametrize(("said", "gone"), ENDED.values(), ids=ENDED)
def test_node_whose_task_has_ended_is_gone_while_the_others_run(
    engine: SlurmEngine, played: Played, tmp_path: Path, said: str, gone: dict[int, str]
):
    engine.start(a_gang())
    seen = running(engine, played, tmp_path / "gangs" / NAME / "slurm-17.out", said)
    assert seen.gone == {node: f"its Slurm task on {why}" for node, why in gone.items()}
    assert seen.word == "RUNNING, Slurm job 17"
    assert seen.cause is (Loss.FAILED if gone else Loss.LOST)


def test_output_of_a_running_job_is_read_when_it_has_grown(engine: SlurmEngine, played: Played, tmp_path: Path):
    engine.start(a_gang())
    output = tmp_path / "gangs" / NAME / "slurm-17.out"
    said = "srun: error: n2: task 1: Exited with exit code 1\n"
    assert sorted(running(engine, played, output, said).gone) == [1]
    assert sorted(running(engine, played, output, "x" * len(said)).gone) == [1], "it is as long as before"
    longer = "x" * 200_000 + "\n" + said.replace("task 1", "task 0")
    assert sorted(running(engine, played, output, longer).gone) == [0]


def test_missing_route_to_the_cluster_is_reported(engine: SlurmEngine):
    engine._look()
    with pytest.raises(UnreachableError, match="no route") as caught:
        engine.server_addresses()
    assert "server_address" in caught.value.fix


@pytest.mark.feature("C6")
def test_a_job_that_slurm_is_about_to_preempt_says_so_while_it_runs(played: Played, engine: SlurmEngine):
    played.settings = Power("main", can_preempt=True)
    gang = a_gang()
    engine.start(gang)
    played.there = [SlurmJob("17", "RUNNING", NAME, nodes="n1")]
    engine._look()
    assert engine.observe(gang).notice == ""
    played.to_preempt = {"17": "2026-11-26T05:41:09"}
    engine._look()
    assert "PreemptTime 05:41:09" in engine.observe(gang).notice


@pytest.mark.feature("C1")
def test_how_long_starts_take_is_known_after_the_first(
    played: Played, engine: SlurmEngine, monkeypatch: pytest.MonkeyPatch
):
    now = [1000.0]
    monkeypatch.setattr(slurm_engine.time, "monotonic", lambda: now[0])
    played.settings = Power("main", 60.0, 300.0)
    for word in ("CONFIGURING", "CONFIGURING", "RUNNING"):
        played.there = [SlurmJob("17", word, NAME, nodes="n1")]
        engine._look()
        now[0] += 15
    scale = engine.scale()
    assert scale is not None
    assert (scale.usual_start_s, scale.idle_time_s, scale.max_instances) == (30, 60, 1)
