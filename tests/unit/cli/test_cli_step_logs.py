"""The logs of a pipeline's steps as they come: over failed streams, and of trials that begin late."""

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from drumbeat.cli.follow.log_lines import LogLook
from drumbeat.cli.follow.step_logs import StepLogs
from drumbeat.protocol.api.jobs import End, Event, LogPiece
from drumbeat.protocol.api.pipelines import PipelineView, StepView
from drumbeat.protocol.api.sweeps import SweepView, TrialView
from drumbeat.protocol.errors import NotFoundError, UnreachableError
from drumbeat.protocol.states import JobKind, State
from tests.unit.cli.fake_server import FakeServer, in_memory, typing_in
from tests.unit.cli.samples import a_job, piece, sample

pytestmark = pytest.mark.feature("E4")

END = End(State.COMPLETED, 0)
PIPELINE = a_job(name="pipe", type=JobKind.PIPELINE)
AWAY = UnreachableError("no server answers")

Script = Iterable[Event | Exception | Callable[[], object]]


@dataclass
class StepServer(FakeServer):
    """A server with one pipeline. scripts: what the streams of a job tell, by job, each stream once.

    What a script has of functions the stream calls.
    """

    steps: list[StepView] = field(default_factory=list)
    trials: list[TrialView] = field(default_factory=list)
    scripts: dict[str, list[Script]] = field(default_factory=lambda: defaultdict(list))

    def pipeline(self, name: str) -> PipelineView:
        return sample(PipelineView, name=name, steps=tuple(self.steps))

    def sweep(self, name: str) -> SweepView:
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
        for text in StepLogs(server, "pipe", LogLook(), **options).follow(lambda _: True):
            lines += text.splitlines()
    except (UnreachableError, NotFoundError) as error:
        return lines, error
    return lines, None


def test_a_lost_stream_of_the_pipeline_is_raised_after_the_steps_ended():
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


def test_a_lost_stream_of_a_step_goes_on_where_it_was_with_the_next_event():
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


def test_a_step_whose_log_cannot_be_read_is_told_at_the_end():
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
