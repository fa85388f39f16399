"""What `SqlMetricStore` promises of searches, experiments and documents."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from drumbeat.model.errors import ConflictError, NotFoundError, SpecError
from drumbeat.model.metrics import InputsLogged, ParamsLogged, RunUpdated, TagsSet, experiment_id, run_id
from drumbeat.server.metrics.metric_records import NEXT_VERSION, Document, Order, RunSearch
from drumbeat.server.metrics.tables import SqlMetricStore
from tests.support.metric_records_contract import RUN, created, logged


def compared(kind: str, key: str, comparator: str, value: Any) -> dict[str, Any]:
    """A comparison as mlflow's parser returns it."""
    return {"type": kind, "key": key, "comparator": comparator, "value": value}


class MetricSearchContract:
    """Searches for runs."""

    @pytest.fixture
    def three(self, store: SqlMetricStore) -> SqlMetricStore:
        """Runs a, b and c, started in this order."""
        for n, job in enumerate(("a", "b", "c")):
            run = run_id(job)
            store.ensure_run(created(job, "digits" if job != "c" else "faces", n), "digits" if job != "c" else "faces")
            dataset = {
                "dataset": {"name": f"set-{job}", "digest": "x"},
                "tags": [{"key": "mlflow.data.context", "value": "train"}],
            }
            store.write(
                [
                    logged(9, n, run=run),
                    ParamsLogged(run, {"lr": f"0.{n}", "Name": f"Run_{job}"}),
                    InputsLogged(run, (dataset,)),
                ]
            )
        store.write(
            [
                logged(1, name="only", run=run_id("b")),
                logged(8, run=run_id("a"), rank=1),
                TagsSet(run_id("a"), {"best": "yes"}),
            ]
        )
        store.write([RunUpdated(run_id("c"), "FINISHED", 99), logged(math.nan, name="odd", run=run_id("c"))])
        return store

    def names(self, store: SqlMetricStore, *comparisons: dict[str, Any], orders: tuple[Order, ...] = ()) -> str:
        """The names of the runs that a search returns, as one word."""
        page = store.search_runs(RunSearch(comparisons=comparisons, orders=orders))
        return "".join(run.name for run in page.runs)

    @pytest.mark.parametrize(
        ("comparison", "names"),
        [
            (compared("metric", "loss", "=", 1.0), "b"),
            (compared("metric", "loss", ">", "0"), "cb"),
            (compared("metric", "loss", "<=", 1), "ba"),
            (compared("metric", "loss", "!=", 1), "ca"),
            (compared("metric", "only", "!=", 7), "b"),
            (compared("metric", "odd", "!=", 7), ""),
            (compared("parameter", "lr", "=", "0.1"), "b"),
            (compared("parameter", "lr", "IN", ("0.0", "0.2")), "ca"),
            (compared("parameter", "lr", "NOT IN", ("0.0", "0.2")), "b"),
            (compared("parameter", "Name", "LIKE", "Run%"), "cba"),
            (compared("parameter", "Name", "LIKE", "run%"), ""),
            (compared("parameter", "Name", "ILIKE", "%_B"), "b"),
            (compared("tag", "best", "=", "yes"), "a"),
            (compared("tag", "best", "!=", "yes"), ""),
            (compared("tag", "best", "IS NULL", None), "cb"),
            (compared("tag", "best", "IS NOT NULL", None), "a"),
            (compared("parameter", "lr", "is null", None), ""),
            (compared("parameter", "lr", "is not null", None), "cba"),
            (compared("attribute", "status", "=", "FINISHED"), "c"),
            (compared("attribute", "status", "!=", "FINISHED"), "ba"),
            (compared("attribute", "run_name", "IN", ["a", "c"]), "ca"),
            (compared("attribute", "run_id", "=", run_id("b")), "b"),
            (compared("attribute", "start_time", ">=", "1"), "cb"),
            (compared("attribute", "end_time", "=", 99), "c"),
            (compared("attribute", "user_id", "=", "ada"), "cba"),
            (compared("attribute", "job", "=", "b"), "b"),
            (compared("dataset", "name", "=", "set-b"), "b"),
            (compared("dataset", "digest", "LIKE", "x%"), "cba"),
            (compared("dataset", "context", "=", "train"), "cba"),
        ],
    )
    def test_a_comparison_chooses_runs(self, three: SqlMetricStore, comparison: dict[str, Any], names: str) -> None:
        assert self.names(three, comparison) == names

    def test_all_comparisons_must_hold(self, three: SqlMetricStore) -> None:
        both = compared("metric", "loss", ">", 0), compared("parameter", "lr", "=", "0.1")
        assert self.names(three, *both) == "b"

    @pytest.mark.parametrize(
        ("order", "names"),
        [
            (("metric", "loss", True), "abc"),
            (("metric", "loss", False), "cba"),
            (("metric", "only", True), "bca"),
            (("metric", "odd", False), "cba"),
            (("parameter", "lr", False), "cba"),
            (("tag", "best", True), "acb"),
            (("attribute", "start_time", True), "abc"),
            (("attribute", "status", True), "cba"),
            (("attribute", "end_time", False), "cba"),
        ],
    )
    def test_an_order_sorts_runs_and_those_without_the_key_come_last(
        self, three: SqlMetricStore, order: Order, names: str
    ) -> None:
        assert self.names(three, orders=(order,)) == names

    def test_a_search_is_limited_to_experiments(self, three: SqlMetricStore) -> None:
        assert [run.name for run in three.search_runs(RunSearch((experiment_id("digits"),))).runs] == ["b", "a"]
        assert three.search_runs(RunSearch(("77",))).runs == ()

    def test_pages_have_each_run_once(self, three: SqlMetricStore) -> None:
        page = three.search_runs(RunSearch(limit=2))
        assert [run.name for run in page.runs] == ["c", "b"]
        last = three.search_runs(RunSearch(limit=2, token=page.token))
        assert ([run.name for run in last.runs], last.token) == (["a"], "")

    def test_a_run_in_a_page_is_whole(self, three: SqlMetricStore) -> None:
        for run in three.search_runs(RunSearch()).runs:
            assert run == three.run(run.id)

    @pytest.mark.parametrize(
        "comparison",
        [
            compared("attribute", "colour", "=", "red"),
            compared("metric", "loss", "~", 1),
            compared("metric", "loss", "IS NULL", None),
            compared("span", "loss", "=", 1),
            compared("dataset", "size", "=", "1"),
        ],
    )
    def test_an_unknown_comparison_is_refused(self, three: SqlMetricStore, comparison: dict[str, Any]) -> None:
        with pytest.raises(SpecError):
            self.names(three, comparison)
        with pytest.raises(SpecError, match="token"):
            three.search_runs(RunSearch(token="x"))


class MetricCatalogContract:
    """Experiments and documents."""

    def test_an_experiment_is_created_once(self, store: SqlMetricStore) -> None:
        made = store.create_experiment("digits", {"team": "vision"}, 5)
        assert made.id == experiment_id("digits")
        assert (
            store.experiment_named("digits")
            == store.experiment(made.id)
            == store.ensure_experiment("digits", 9)
            == made
        )
        with pytest.raises(ConflictError, match="digits"):
            store.create_experiment("digits", {}, 6)
        for missing in (lambda: store.experiment("9"), lambda: store.experiment_named("faces")):
            with pytest.raises(NotFoundError):
                missing()

    def test_experiment_0_is_the_one_called_default(self, store: SqlMetricStore) -> None:
        store.ensure_experiment("Default", 1)
        assert store.experiment("0").name == "Default"

    def test_experiments_are_listed_by_view_the_latest_first(self, store: SqlMetricStore) -> None:
        for n, name in enumerate(("a", "b", "c")):
            store.ensure_experiment(name, n)
        store.archive_experiment(experiment_id("b"), 9)
        views = [[one.name for one in store.experiments(view)] for view in ("active", "deleted", "all")]
        assert views == [["c", "a"], ["b"], ["c", "b", "a"]]

    def test_a_renamed_experiment_keeps_its_id_and_answers_to_both_names(self, store: SqlMetricStore) -> None:
        store.ensure_run(created(), "digits")
        renamed = store.rename_experiment(experiment_id("digits"), "numbers", 7)
        assert (renamed.id, renamed.name, renamed.updated_ms) == (experiment_id("digits"), "numbers", 7)
        assert store.ensure_experiment("digits", 8) == store.ensure_experiment("numbers", 8) == renamed
        assert store.experiment(experiment_id("numbers")) == renamed
        store.write([replace(created("b"), experiment=experiment_id("numbers"))])
        assert len(store.search_runs(RunSearch((experiment_id("numbers"),))).runs) == 2
        with pytest.raises(NotFoundError):
            store.experiment_named("digits")
        for taken in ("digits", "numbers"):
            with pytest.raises(ConflictError, match=taken):
                store.create_experiment(taken, {}, 9)
        assert store.rename_experiment(renamed.id, "digits", 9).name == "digits"

    def test_an_experiment_cannot_take_the_name_of_another(self, store: SqlMetricStore) -> None:
        store.ensure_experiment("a", 1)
        store.ensure_experiment("b", 1)
        with pytest.raises(ConflictError, match="'b'"):
            store.rename_experiment(experiment_id("a"), "b", 2)
        with pytest.raises(NotFoundError):
            store.rename_experiment("77", "c", 2)

    def test_an_archived_experiment_hides_its_runs(self, store: SqlMetricStore) -> None:
        store.ensure_run(created(), "digits")
        own = experiment_id("digits")
        assert store.archive_experiment(own, 5).is_archived
        assert [len(store.search_runs(RunSearch(view=view)).runs) for view in ("active", "deleted")] == [0, 1]
        assert not store.archive_experiment(own, 6, is_archived=False).is_archived
        assert len(store.search_runs(RunSearch()).runs) == 1

    def test_tags_of_an_experiment_are_set_and_removed(self, store: SqlMetricStore) -> None:
        own = store.create_experiment("a", {"x": "1"}, 1).id
        assert store.tag_experiment(own, "y", "2", 2).tags == {"x": "1", "y": "2"}
        assert store.tag_experiment(own, "x", None, 3).tags == {"y": "2"}

    def test_an_experiment_is_removed_when_it_has_no_runs(self, store: SqlMetricStore) -> None:
        store.ensure_run(created(), "digits")
        with pytest.raises(ConflictError, match="has runs"):
            store.remove_experiment(experiment_id("digits"))
        store.remove_run(RUN)
        store.remove_experiment(experiment_id("digits"))
        assert store.experiments("all") == []
        assert store.create_experiment("digits", {}, 1).name == "digits"

    def test_documents_are_added_changed_and_removed(self, store: SqlMetricStore) -> None:
        document = Document("model", "net", 0, {"odd": "\0 ü", "list": [1, 2.5, None]})
        assert store.add_document(document) == document
        with pytest.raises(ConflictError, match="net"):
            store.add_document(document)
        changed = store.change_document("model", "net", 0, lambda body: body | {"more": True})
        assert changed.body == document.body | {"more": True}
        assert store.document("model", "net") == changed
        assert store.remove_documents("model", "net") == 1
        assert store.remove_documents("model", "net") == 0
        with pytest.raises(NotFoundError, match="net"):
            store.document("model", "net")
        with pytest.raises(NotFoundError):
            store.change_document("model", "net", 0, dict)

    def test_documents_of_several_kinds_are_renamed_at_once_or_not_at_all(self, store: SqlMetricStore) -> None:
        given = [("model", "net", 0), ("version", "net", 1), ("version", "net", 2), ("other", "net", 0)]
        for which in (*given, ("version", "taken", 1)):
            store.add_document(Document(*which, {"of": str(which)}))
        with pytest.raises(ConflictError, match="taken"):
            store.rename_documents(("model", "version"), "net", "taken")
        assert store.document("model", "net").body == {"of": str(given[0])}
        store.rename_documents(("model", "version"), "net", "new")
        assert store.document("model", "new").body == {"of": str(given[0])}
        assert [one.name for one in store.documents("version")] == ["new", "new", "taken"]
        assert store.document("other", "net").body == {"of": str(given[3])}

    def test_versions_are_counted_and_a_removed_number_is_not_given_again(self, store: SqlMetricStore) -> None:
        def add(name: str) -> int:
            return store.add_document(Document("version", name, NEXT_VERSION, {})).version

        assert [add("net"), add("net"), add("other")] == [1, 2, 1]
        assert store.remove_documents("version", "net", 2) == 1
        assert add("net") == 3
        assert [(one.name, one.version) for one in store.documents("version")] == [("net", 1), ("net", 3), ("other", 1)]
        assert [one.version for one in store.documents("version", "net")] == [1, 3]
        assert store.documents("model") == []
