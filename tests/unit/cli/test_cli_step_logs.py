"""The logs of a pipeline's steps as they come: over failed streams, and of trials that begin late."""

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from drumbeat.cli.follow.log_lines import LogLook
from drumbeat.cli.follow.step_logs import StepLogs
from drumbeat.cli.terminal.connect import MAKER
from drumbeat.model.api.jobs import End, Event, LogPiece
from drumbeat.model.api.pipelines import PipelineView, StepView
from drumbeat.model.api.sweeps import SweepView, TrialView
from drumbeat.model.errors import AwayError, DrumbeatError, NotFoundError, UnreachableError
from drumbeat.model.states import JobKind, State
from tests.unit.cli.fake_server import FakeServer, Type, in_memory, typing_in
from tests.unit.cli.samples import NOON, a_job, piece, sample

pytestmark = pytest.mark.feature("P1", "M1")

END = End(State.COMPLETED, 0)
PIPELINE = a_job(name="pipe", type=JobKind.PIPELINE)
AWAY = UnreachableError("no server answers")

Script = Iterable[Event | Exception | Callable[[], object]]


@dataclass
class StepServer(FakeServer):
    """A server with one pipeline. scripts: what the streams of a job tell, by job, each stream once.

    What a script has of functions the stream calls. gone: the jobs of steps that don't exist.
    """

    steps: list[StepView] = field(default_factory=list)
    trials: list[TrialView] = field(default_factory=list)
    scripts: dict[str, list[Script]] = field(default_factory=lambda: defaultdict(list))
    gone: set[str] = field(default_factory=set[str])
    away: list[DrumbeatError] = field(default_factory=list[DrumbeatError])
    """What asking for the pipeline raises, each once."""

    def _called(self, *call: object) -> None:
        super()._called(*call)
        if call[1:] and call[1] in self.gone:
            raise NotFoundError(f"no job {call[1]}")

    def pipeline(self, name: str) -> PipelineView:
        self._called("pipeline", name)
        if self.away:
            raise self.away.pop()
        return sample(PipelineView, name=name, steps=tuple(self.steps))

    def sweep(self, name: str) -> SweepView:
        self._called("sweep", name)
        return sample(SweepView, name=name, trials=tuple(self.trials))

    def stream(self, name: str, *, away: threading.Event) -> Iterator[Event]:
        del away
        self._called("stream", name)
        for one in self.scripts[name].pop(0):
            if isinstance(one, Exception):
                raise one
            if callable(one):
                one()
            else:
                yield one

    def logs(self, name: str) -> Iterator[LogPiece]:
        self._called("logs", name)
        return (one for script in self.scripts[name] for one in script if isinstance(one, LogPiece))

    def count(self, name: str) -> int:
        return self.calls.count(("stream", name))


def step(name: str, kind: JobKind = JobKind.COMMAND) -> StepView:
    return sample(StepView, name=name, job=f"pipe_{name}", type=kind, state=State.RUNNING)


def at(position: int, text: str) -> LogPiece:
    return replace(piece(text), position=position)


def followed(server: StepServer, **options: float) -> tuple[list[str], Exception | None]:
    """The lines that were printed, and the failure that came last."""
    lines: list[str] = []
    try:
        for text in StepLogs(server, "pipe", LogLook(), **options).follow(lambda _: True, lambda _title, _job: None):
            lines += text.splitlines()
    except (UnreachableError, NotFoundError) as error:
        return lines, error
    return lines, None


def test_lost_stream_of_a_pipeline_is_raised_once_its_steps_have_ended():
    server = StepServer(steps=[step("one")])
    server.scripts["pipe"] = [[PIPELINE, AWAY]]
    server.scripts["pipe_one"] = [[at(1, "a\n"), at(2, "b\n"), END]]
    lines, error = followed(server)
    assert [line[-1] for line in lines] == ["a", "b"]
    assert error is AWAY


def test_logs_of_a_pipeline_whose_server_stays_away_exit_as_of_a_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    server = StepServer(steps=[], jobs={"pipe": PIPELINE})
    server.scripts["pipe"] = [[PIPELINE, AWAY]]
    with in_memory(server):
        done = typing_in(tmp_path, monkeypatch)("logs", "-f", "pipe")
    assert done.exit_code == 4
    assert done.stderr == "error: no server answers\n"


def test_lost_stream_of_a_step_resumes_with_the_next_event():
    lost, again = threading.Event(), threading.Event()
    server = StepServer(steps=[step("one")])
    server.scripts["pipe_one"] = [
        [at(1, "a\n"), at(2, "b"), lost.set, AWAY],
        [again.set, at(1, "a\n"), at(2, "b"), at(3, "c\n"), END],
    ]

    def events_until_it_is_read_again() -> Iterator[Event]:
        assert lost.wait(20)
        for _ in range(1000):
            yield PIPELINE
            if again.wait(0.02):
                break
        yield END

    server.scripts["pipe"] = [events_until_it_is_read_again()]
    lines, error = followed(server)
    assert [line.partition("│ ")[2] for line in lines] == ["a", "bc"]
    assert (error, server.count("pipe_one")) == (None, 2)


@pytest.mark.parametrize("error", [AWAY, AwayError("the database can't be reached")])
def test_a_pipeline_is_followed_while_its_server_or_database_is_away(error: DrumbeatError):
    looked, read = threading.Event(), threading.Event()
    server = StepServer(steps=[step("one")], away=[error])
    server.scripts["pipe"] = [[looked.set, PIPELINE, lambda: read.wait(20), END]]
    server.scripts["pipe_one"] = [[at(1, "a\n"), error], [at(1, "a\n"), at(2, "b\n"), read.set, END]]
    lines, failure = followed(server, look_s=0.05)
    assert [line[-1] for line in lines] == ["a", "b"]
    assert failure is None


def test_step_with_an_unreadable_log_is_named_at_the_end():
    gone = NotFoundError("no job named pipe_one")
    server = StepServer(steps=[step("one"), step("two")])
    server.scripts["pipe"] = [[PIPELINE, PIPELINE, END]]
    server.scripts["pipe_one"] = [[gone]]
    server.scripts["pipe_two"] = [[at(1, "b\n"), END]]
    lines, error = followed(server)
    assert [line[-1] for line in lines] == ["b"]
    assert error is gone


def test_a_trial_that_begins_after_the_last_event_is_followed():
    followed_too, first_ended = threading.Event(), threading.Event()
    trials = [sample(TrialView, number=n, job=f"pipe_tune_{n}", state=State.RUNNING) for n in range(2)]
    server = StepServer(steps=[step("tune", JobKind.SWEEP)], trials=trials[:1])

    def begin_another() -> None:
        assert first_ended.wait(20)
        server.trials = trials

    server.scripts["pipe"] = [[begin_another, lambda: followed_too.wait(10), END]]
    server.scripts["pipe_tune_0"] = [[at(1, "a\n"), first_ended.set, END]]
    server.scripts["pipe_tune_1"] = [[followed_too.set, at(1, "b\n"), END]]
    lines, error = followed(server, look_s=0.1)
    assert lines == ["tune_0 0:0 │ a", "tune_1 0:0 │ b"]
    assert (error, followed_too.is_set()) == (None, True)


# --- what is typed ----------------------------------------------------------------------------------------------
@pytest.fixture
def server() -> Iterator[StepServer]:
    """A pipeline of which one step has 4 ranks on 2 nodes, the other one rank; both have ended."""
    ended = {"state": State.COMPLETED, "ended_at": NOON}
    small = a_job(name="pipe_small", world_size=1, node_count=1, processes_per_node=1, **ended)
    jobs = {"pipe": replace(PIPELINE, **ended), "pipe_large": a_job(name="pipe_large", **ended), "pipe_small": small}
    server = StepServer(steps=[step("large"), step("small")], jobs=jobs)
    server.scripts |= {
        "pipe": [[END]],
        "pipe_large": [[at(1, "a\n"), replace(piece("b\n", 3), position=2), END]],
        "pipe_small": [[at(1, "c\n"), END]],
    }
    with in_memory(server):
        yield server


@pytest.fixture
def drumbeat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Type:
    return typing_in(tmp_path, monkeypatch)


@pytest.mark.parametrize("follow", [(), ("-f",)])
@pytest.mark.parametrize(
    ("options", "what", "advice"),
    [
        (("--rank", 4), "rank 4", "pipe_large has the most ranks. It has ranks 0 to 3."),
        (("--node", 2), "node 2", "pipe_large has the most nodes. It has nodes 0 to 1."),
        (("--round", "1.9"), "round 1.9", "pipe_large has the most rounds. Its last is 1.1; it has ended."),
        (("--rank", 9, "--node", 1), "rank 9 and node 1", "pipe_large has the most ranks. It has ranks 0 to 3."),
    ],
)
@pytest.mark.usefixtures("server")
def test_filter_that_no_step_matches_is_refused(
    drumbeat: Type, options: tuple[object, ...], what: str, advice: str, follow: tuple[str, ...]
):
    shown = drumbeat("logs", "pipe", *options, *follow)
    assert shown.stderr == f"error: no step has {what}\n  at pipe\n  → {advice}\n"
    assert (shown.stdout, shown.exit_code) == ("", 1)


@pytest.mark.parametrize("follow", [(), ("-f",)])
@pytest.mark.usefixtures("server")
def test_rank_of_a_single_step_is_shown(drumbeat: Type, follow: tuple[str, ...]):
    shown = drumbeat("logs", "pipe", "--rank", 3, *follow)
    assert (shown.output, shown.exit_code) == ("large 1:3 │ b\n", 0)


def test_missing_rank_is_reported_only_after_all_steps_have_run(drumbeat: Type, server: StepServer):
    server.jobs["pipe"] = PIPELINE
    shown = drumbeat("logs", "pipe", "--rank", 4, "-f")
    assert shown.stderr.startswith("error: no step has rank 4\n")
    assert server.count("pipe_large") == 1


@pytest.mark.parametrize("follow", [(), ("-f",)])
def test_reason_for_delayed_logs_of_a_step_is_printed(drumbeat: Type, server: StepServer, follow: tuple[str, ...]):
    held_up = replace(server.jobs["pipe_small"], notice="the disk is full")
    server.jobs["pipe_small"] = held_up
    server.scripts["pipe_small"] = [[held_up, held_up, at(1, "c\n"), END]]
    shown = drumbeat("logs", "pipe", *follow)
    assert shown.stderr == "── small: the disk is full ──\n"
    assert sorted(shown.stdout.splitlines()) == ["large 0:0 │ a", "large 1:3 │ b", "small 0:0 │ c"]


@pytest.mark.parametrize("follow", [(), ("-f",)])
def test_deleted_step_is_named_and_logs_of_the_others_are_printed(
    drumbeat: Type, server: StepServer, follow: tuple[str, ...]
):
    server.steps = [step("gone"), step("tune", JobKind.SWEEP), *server.steps]
    server.gone = {"pipe_gone", "pipe_tune"}
    shown = drumbeat("logs", "pipe", *follow)
    assert sorted(shown.stdout.splitlines()) == ["large 0:0 │ a", "large 1:3 │ b", "small 0:0 │ c"]
    assert (shown.stderr, shown.exit_code) == ("error: no job pipe_gone\n", 1)
    assert drumbeat("logs", "pipe", "--rank", 4).stderr.startswith("error: no step has rank 4\n")


def test_following_a_pipeline_does_not_restart_a_stopped_server(drumbeat: Type, server: StepServer):
    starting = FakeServer(jobs=server.jobs)  # The connection that starts a server is for the first look.
    token = MAKER.set(lambda wish: starting if wish.autostart else server)
    shown = drumbeat("logs", "pipe", "-f")
    MAKER.reset(token)
    assert (shown.exit_code, server.count("pipe")) == (0, 1)
    assert ("stream", "pipe") not in starting.calls
