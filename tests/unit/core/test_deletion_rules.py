"""What may be deleted, and why the rest is kept."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumbeat.core.deletion_rules import (
    AssetNeeds,
    JobNeeds,
    decide,
    expired,
    needed_snapshots,
    needs_of_asset,
    needs_of_job,
)
from drumbeat.model.plan import Resumption
from drumbeat.model.states import State
from tests.support.messages import Messages
from tests.support.sample_jobs import full_job

pytestmark = pytest.mark.feature("M9")

NOW = datetime(2026, 11, 25, tzinfo=UTC)


def job(name, state=State.COMPLETED, age=timedelta(days=1), **more):
    return JobNeeds(name, state, NOW - age if state.is_terminal else None, **more)


def output_of(name):
    return f"azureml://jobs/{name}/outputs/model/paths/"


def test_ended_job_that_nothing_needs_is_deleted():
    made = decide(["a", "a", "unknown"], [job("a"), job("b")], [])
    assert (made.jobs, made.reasons) == (("a",), {})


@pytest.mark.parametrize("state", [state for state in State if not state.is_terminal])
def test_unfinished_job_stays_and_the_command_to_cancel_it_is_named(state, messages: Messages):
    kept = decide(["a"], [job("a", state)], []).reasons["a"]
    messages.check(kept.what, kept.why, kept.fix)


def test_job_whose_outputs_are_being_published_stays(messages: Messages):
    kept = decide(["a"], [job("a", unplaced=("model",))], []).reasons["a"]
    messages.check(kept.why)
    assert kept.fix.endswith("drumbeat cancel a --discard")


def test_job_with_a_registered_version_in_its_folder_stays(messages: Messages):
    version = needs_of_asset("data", "digits", "3", {"uri": f"{output_of('a')}x", "type": "uri_folder"})
    kept = decide(["a"], [job("a")], [version]).reasons["a"]
    messages.check(kept.why)
    messages.check(kept.fix)
    assert decide(["b"], [job("a"), job("b")], [version]).jobs == ("b",)


def test_job_stays_until_the_one_that_continues_it_has_its_checkpoints(messages: Messages):
    waiting = job("b", State.QUEUED, continues="a")
    kept = decide(["a"], [job("a"), waiting], []).reasons["a"]
    messages.check(f"{kept.why} | {kept.fix}")
    assert decide(["a"], [job("a"), job("b", State.RUNNING)], []).jobs == ("a",)


def test_job_needs_the_checkpoints_until_its_ranks_have_started():
    begins = Resumption("first", ("/kept",), 3)
    plain = full_job("second")
    new = replace(plain, plan=replace(plain.plan, resumption=begins), state=State.STAGING, started_at=None)
    assert needs_of_job(new).continues == "first"
    assert needs_of_job(replace(new, started_at=NOW)).continues == ""
    assert needs_of_job(replace(new, state=State.CANCELED)).continues == ""


def test_job_whose_output_another_job_names_stays(messages: Messages):
    reader = job("b", inputs=(("weights", output_of("a")),))
    kept = decide(["a"], [job("a"), reader], []).reasons["a"]
    messages.check(kept.why)
    messages.check(kept.fix)


def test_job_whose_published_output_another_job_names_stays(messages: Messages):
    place = "azureml://datastores/blob/paths/models/a"
    reader = job("b", inputs=(("weights", f"{place}/best"),))
    other = job("c", inputs=(("weights", f"{place}-old/best"),))
    maker = job("a", places=(("model", f"{place}/"),))
    messages.check(decide(["a"], [maker, reader], []).reasons["a"].why)
    assert decide(["a"], [maker, other], []).jobs == ("a",)


def test_jobs_that_name_each_other_go_together_readers_first():
    jobs = [job("a"), job("b", inputs=(("x", output_of("a")),)), job("c", inputs=(("x", output_of("b")),))]
    assert decide(["a", "b", "c"], jobs, []).jobs == ("c", "b", "a")


def test_chain_stays_whole_behind_a_job_that_stays():
    jobs = [
        job("a"),
        job("b", inputs=(("x", output_of("a")),)),
        job("c", State.RUNNING, inputs=(("x", output_of("b")),)),
    ]
    assert decide(["a", "b"], jobs, []).reasons.keys() == {"a", "b"}


def test_expired_jobs_are_those_that_ended_long_enough_ago():
    jobs = [job("old", age=timedelta(days=30)), job("new", age=timedelta(days=29)), job("runs", State.RUNNING)]
    assert expired(jobs, NOW, timedelta(days=30)) == ["old"]


def test_snapshots_are_needed_by_jobs_and_registered_versions():
    asset = needs_of_asset("environment", "img", "1", {"context": "c" * 64})
    jobs = [job("a", snapshots=frozenset({"d" * 64})), job("b", snapshots=frozenset({"c" * 64, "d" * 64}))]
    assert needed_snapshots(jobs, [asset]) == {
        "c" * 64: ["job b", "environment img:1"],
        "d" * 64: ["job a", "job b"],
    }


def test_needs_of_a_job_come_from_its_plan():
    whole = full_job("a")
    needs = needs_of_job(whole)
    assert (needs.name, needs.state) == ("a", whole.state)
    assert whole.plan.code in needs.snapshots


NAMES = st.sampled_from("abcdef")


@st.composite
def worlds(draw):
    jobs = [
        job(
            name,
            draw(st.sampled_from([State.COMPLETED, State.FAILED, State.RUNNING])),
            inputs=tuple((f"x{n}", output_of(one)) for n, one in enumerate(draw(st.sets(NAMES, max_size=2)))),
            snapshots=frozenset(draw(st.sets(st.sampled_from("12"), max_size=1))),
        )
        for name in "abcdef"
    ]
    assets = [AssetNeeds(f"data d:{n}", output_of(name)) for n, name in enumerate(draw(st.sets(NAMES, max_size=2)))]
    return jobs, assets, draw(st.sets(NAMES))


@given(worlds())
def test_no_kept_job_needs_a_deleted_one(world):
    jobs, assets, asked = world
    made = decide(asked, jobs, assets)
    gone, needs = set(made.jobs), {one.name: one for one in jobs}
    assert gone | made.reasons.keys() == asked
    assert not gone & made.reasons.keys()
    assert all(needs[name].state.is_terminal for name in gone)
    assert not any(asset.uri == output_of(name) for asset in assets for name in gone)
    staying = [one for one in jobs if one.name not in gone]
    assert not any(uri == output_of(name) for one in staying for _, uri in one.inputs for name in gone)


# --- sweeps and pipelines -----------------------------------------------------------------------------------------
def family(**states: State) -> list[JobNeeds]:
    return [
        JobNeeds("sweep", states.get("sweep", State.COMPLETED)),
        JobNeeds("sweep_0", states.get("first", State.COMPLETED), parent="sweep"),
        JobNeeds("sweep_1", State.COMPLETED, parent="sweep"),
    ]


def test_parent_is_deleted_with_its_children_and_after_them():
    assert decide(["sweep"], family(), []).jobs == ("sweep_0", "sweep_1", "sweep")


def test_child_of_an_ended_parent_is_deleted_alone():
    assert decide(["sweep_1"], family(), []).jobs == ("sweep_1",)


def test_child_of_a_running_parent_is_kept(messages: Messages):
    plan = decide(["sweep_1"], family(sweep=State.RUNNING), [])
    assert plan.jobs == ()
    messages.check(plan.reasons["sweep_1"].why)


def test_parent_is_kept_with_a_child_that_is_kept(messages: Messages):
    asset = AssetNeeds("model best:1", "azureml://jobs/sweep_0/outputs/model")
    plan = decide(["sweep"], family(), [asset])
    assert plan.jobs == ("sweep_1",)
    messages.check(plan.reasons["sweep"].why)


def test_child_with_outputs_to_keep_stays_with_its_parents():
    nested = [job("p"), job("p_s", parent="p"), job("p_s_0", parent="p_s"), job("p_s_1", parent="p_s")]
    plan = decide(["p", "p_s", "p_s_0", "p_s_1"], nested, [], {"p_s_0"})
    assert plan.jobs == ("p_s_1",)
    assert {name: kept.why for name, kept in plan.reasons.items()} == {
        "p_s": "p_s_0, which is a part of it, is kept with its outputs",
        "p": "p_s, which is a part of it, is kept",
    }


def test_job_stays_whose_output_is_read_by_one_with_outputs_to_keep():
    jobs = [job("a"), job("b", inputs=(("x", output_of("a")),))]
    plan = decide(["a", "b"], jobs, [], {"b"})
    assert (plan.jobs, [*plan.reasons]) == ((), ["a"])


def test_parent_within_a_parent_goes_before_it():
    nested = [JobNeeds("p", State.COMPLETED), JobNeeds("p_s", State.COMPLETED, parent="p")]
    nested.append(JobNeeds("p_s_0", State.COMPLETED, parent="p_s"))
    assert decide(["p"], nested, []).jobs == ("p_s_0", "p_s", "p")


def test_best_trial_of_a_sweep_stays_until_the_whole_sweep_goes(messages: Messages):
    sweep = [job("s", best="s_1"), job("s_0", parent="s"), job("s_1", parent="s")]
    made = decide(["s_0", "s_1"], sweep, [])
    assert made.jobs == ("s_0",)
    kept = made.reasons["s_1"]
    messages.check(kept.why)
    messages.check(kept.fix)
    assert decide(["s"], sweep, []).jobs == ("s_0", "s_1", "s")
