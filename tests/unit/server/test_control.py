"""The control room with a fake engine and agents that the test plays itself."""

from __future__ import annotations

import threading

import pytest

from drumbeat.core.lifecycle.events import StallObserved
from drumbeat.model.agent import AgentStatus, Order, Phase, RankExit
from drumbeat.model.errors import ConflictError, NotFoundError, SpecError, StaleError, UnauthorizedError  # fmt: skip
from drumbeat.model.roster import Member
from drumbeat.model.states import Reason, State
from drumbeat.server.jobs.job_filter import JobFilter
from drumbeat.server.loop.bus import Topic, job_topic

from .house import House, until


def test_a_job_goes_from_submit_to_its_end(house: House):
    name = house.submit("j", nodes=2)
    assert house.say(name, 0, Phase.READY).order is Order.PREPARE
    told = house.say(name, 1, Phase.READY)
    assert told.order is Order.RUN
    assert told.roster is not None
    assert told.roster.port == 2000
    house.run_to_end(name, nodes=2)
    assert house.state(name) is State.COMPLETED
    until(lambda: set(house.engine.stopped) == {"j.1"} and not house.control.has_unfinished_work())
    assert house.store.reservations("local") == []
    assert [f.path for f in house.control.artifacts.files(name)] == ["plan.json", "story.jsonl"]


def test_gangs_that_take_long_to_end_hold_up_no_start(house: House, monkeypatch: pytest.MonkeyPatch):
    may_end, stop = threading.Event(), house.engine.stop
    monkeypatch.setattr(house.engine, "stop", lambda name: may_end.wait(60) and stop(name))
    house.engine.cpus = 100
    house.control.engines.look()
    names = [house.submit(f"j{n}") for n in range(20)]
    for name in names:
        house.run_to_end(name)
    house.gang(house.submit("next"))
    assert house.engine.stopped == []
    may_end.set()
    # Twice is no harm: what has ended is swept up, too.
    until(lambda: set(house.engine.stopped) == {f"{name}.1" for name in names})


@pytest.mark.feature("C3")
def test_queued_jobs_have_the_reason_of_their_wait(house: House):
    names = [house.submit(f"j{n}", distribution={"type": "pytorch", "process_count_per_instance": 3}) for n in range(3)]
    until(lambda: house.store.load("j2").job.reason is Reason.WAITING_FOR_TURN)
    assert house.store.load("j1").job.sentence == (
        "needs 3 CPU slots of local, where 1 of 4 CPU slots is free; the others are held by j0; "
        "it is next and starts when j0 ends"
    )
    for name in names:
        house.run_to_end(name)
        until(lambda name=name: f"{name}.1" in house.engine.stopped)
    assert house.engine.started == ["j0.1", "j1.1", "j2.1"]


@pytest.mark.feature("C3")
def test_job_that_waits_for_its_store_is_named_to_the_jobs_behind_it(house: House):
    many = {"type": "pytorch", "process_count_per_instance": 3}
    names = [house.submit(f"j{n}", distribution=many) for n in range(3)]
    until(lambda: house.store.load("j2").job.reason is Reason.WAITING_FOR_TURN)
    house.say("j0", 0, Phase.STAGING, detail="input train: 0 B of 1.0 GB; waits: store.invalid doesn't answer")
    culprit = "held by j0 (input train waits; see drumbeat show j0)"
    until(lambda: all(culprit in house.store.load(name).job.sentence for name in names[1:]))
    house.say("j0", 0, Phase.STAGING, detail="input train: 10.0 MB of 1.0 GB")
    house.say("j0", 0, Phase.STAGING, detail="input train: 10.0 MB of 1.0 GB; waits: nothing came for 30 s")
    story = [line.sentence for line in house.store.events("j1") if culprit in line.sentence]
    assert len(story) == 1, "a store that comes and goes fills no story"


@pytest.mark.feature("C3")
def test_job_that_hangs_is_named_as_such_to_the_jobs_behind_it_and_where_its_slots_are_shown(house: House):
    holder, waiting = house.submit("holder", nodes=4), house.submit("waiting", nodes=4)
    for node in range(4):
        house.say(holder, node, Phase.READY)
    for node in range(4):
        house.say(holder, node, Phase.RUNNING)
    hang = StallObserved(1, 1, "the job hangs: rank 1 on node 0 is stopped", is_hang=True, is_certain=True)
    house.control.loop.call(lambda: house.control.loop.apply(holder, hang))
    until(lambda: "held by holder (hangs; see drumbeat show holder)" in house.store.load(waiting).job.sentence)
    assert [one.job.name for one in house.store.jobs(JobFilter(reason=Reason.HANGING))] == [holder]
    held = [one for compute in house.control.computes.list() for one in compute.held]
    assert held
    assert all(one.is_hanging for one in held)


def test_repeated_key_gives_one_job(house: House):
    assert house.submit("a", key="k") == house.submit("a", key="k") == "a"
    with pytest.raises(ConflictError, match="job a was submitted with this key from another document"):
        house.submit("b", key="k")
    with pytest.raises(ConflictError, match="job a exists already"):
        house.submit("a", key="other")


@pytest.mark.feature("F5")
def test_restarted_server_resumes_its_jobs(house: House):
    running, queued = house.submit("r", nodes=4), house.submit("q", nodes=4)
    for node in range(4):
        house.say(running, node, Phase.READY)
    house.reopen()
    assert house.say(running, 0, Phase.RUNNING).order is Order.RUN
    house.run_to_end(running, nodes=4)
    house.run_to_end(queued, nodes=4)
    assert (house.state(running), house.state(queued)) == (State.COMPLETED, State.COMPLETED)
    assert house.engine.started == ["r.1", "q.1"]


@pytest.mark.feature("F5")
def test_job_submitted_without_an_engine_starts_after_a_restart(house: House):
    house.engine.start, start = (lambda _gang: (_ for _ in ()).throw(OSError("away"))), house.engine.start
    name = house.submit("j")
    until(lambda: any(effect.tries for effect in house.store.outbox()))
    house.engine.start = start
    house.reopen()
    house.run_to_end(name)
    assert house.engine.started == ["j.1"]


@pytest.mark.feature("F7")
def test_cancel_reaches_the_agents_as_a_directive(house: House):
    name = house.submit("j")
    house.say(name, 0, Phase.READY)
    house.say(name, 0, Phase.RUNNING)
    house.control.jobs.cancel(name, "ada")
    wanted = house.control.agents.directive(name, 1)
    assert (wanted.order, wanted.is_canceled, wanted.key) == (Order.STOP, True, "stop:1:1:canceled")
    house.control.jobs.cancel(name, "ada")
    house.run_to_end(name, code=143)
    assert house.state(name) is State.CANCELED
    house.control.jobs.cancel(name, "ada")


@pytest.mark.feature("F7")
def test_cancel_twice_is_the_same_as_once_while_the_results_are_kept(house: House):
    name = house.submit("j")
    house.say(name, 0, Phase.READY)
    house.control.jobs.cancel(name, "ada")
    house.say(name, 0, Phase.ENDED, exits=(RankExit(0, 143, None, 1.0, 0, is_stopped=True),))
    assert house.state(name) is State.FINALIZING
    assert house.control.jobs.cancel(name, "ada").job.state is State.FINALIZING
    house.say(name, 0, Phase.UPLOADED, exits=(RankExit(0, 143, None, 1.0, 0, is_stopped=True),))
    assert house.state(name) is State.CANCELED


def test_finalizing_job_has_the_reason_of_its_wait(house: House):
    name = house.submit("j")
    for phase in (Phase.READY, Phase.ENDED):
        house.say(name, 0, phase, exits=(RankExit(0, 0, None, 1.0, 0),) if phase is Phase.ENDED else ())
    house.say(name, 0, Phase.UPLOADING, detail="sending outputs waits: the disk is full")
    house.control.artifacts.append_output(name, 1, 0, "model.pt", 0, b"half")
    with pytest.raises(ConflictError) as refused:
        house.control.jobs.cancel(name, "ada")
    assert refused.value.what == "job j is done and keeps its results: sending outputs waits: the disk is full"
    assert "drumbeat cancel j --discard" in refused.value.fix
    assert house.control.jobs.cancel(name, "ada", discard=True).job.state is State.CANCELED
    assert house.control.store.load(name).job.sentence == "canceled by ada; results that weren't kept yet are discarded"
    until(lambda: not (house.folder / "jobs" / name / ".parts").exists())


def test_a_job_that_has_ended_cant_be_canceled(house: House):
    name = house.submit("j")
    house.run_to_end(name)
    with pytest.raises(ConflictError, match="has ended already"):
        house.control.jobs.cancel(name, "ada")
    with pytest.raises(NotFoundError):
        house.control.jobs.cancel("nobody", "ada")


@pytest.mark.feature("F5")
def test_agents_without_the_right_secret_or_attempt_are_refused(house: House):
    name = house.submit("j")
    secret = house.gang(name).node_secret(0)
    status = AgentStatus(Phase.READY, 1, Member(0, "h", "a", "/r", "/c"))
    with pytest.raises(UnauthorizedError):
        house.control.agents.report(name, 1, 0, "guess", status)
    with pytest.raises(UnauthorizedError):
        house.control.agents.report(name, 2, 0, secret, status)
    with pytest.raises(SpecError):
        house.control.agents.report(name, 1, 7, house.gang(name).node_secret(7), status)
    with pytest.raises(UnauthorizedError):
        house.control.agents.report(name, 1, 1, secret, status)
    house.engine.gone["j.1"] = {0: "no power"}
    house.gang(name, attempt=2)
    with pytest.raises(StaleError):
        house.control.agents.report(name, 1, 0, secret, status)


def test_every_listener_gets_changes(house: House):
    heard, lock = list[Topic](), threading.Lock()

    def hear(topic: Topic) -> None:
        with lock:
            heard.append(topic)

    forget = house.control.bus.subscribe(hear)
    house.gang(house.submit("j"))
    until(lambda: job_topic("j") in heard)
    forget()
    count = len(heard)
    house.control.bus.publish(job_topic("j"))
    assert len(heard) == count


def test_twenty_jobs_at_once_all_run_once_and_never_overlap(house: House):
    names = [
        house.submit(f"j{n:02}", distribution={"type": "pytorch", "process_count_per_instance": 2}) for n in range(20)
    ]
    order = []
    for name in names:
        house.gang(name)
        held = house.store.reservations("local")
        assert sum(one.slot.cpus for one in held) <= house.engine.cpus
        house.run_to_end(name)
        order.append(name)
    until(lambda: not house.control.has_unfinished_work())
    # Two that fit at once are handed out at once, and either may be there first.
    assert sorted(house.engine.started) == [f"{name}.1" for name in order]
