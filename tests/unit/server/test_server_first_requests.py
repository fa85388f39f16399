"""What the web page's HTML names of a screen, letter by letter as the page asks for it itself."""

import re
from pathlib import Path

import pytest

from drumbeat.model.states import JobKind, State
from drumbeat.server.page.first_requests import GROUPS, KnownJob, first_requests, job_in
from drumbeat.server.page.routes import module_files

pytestmark = pytest.mark.feature("M3")

PAGE = Path(__file__).parents[3] / "page"
SWEEP, COMMAND = KnownJob(JobKind.SWEEP), KnownJob(JobKind.COMMAND, metrics=("loss", "top/5 *~"))
FAILED = KnownJob(JobKind.COMMAND, State.FAILED)
PAIRED = KnownJob(JobKind.COMMAND, metrics=("val/loss", "train/loss", "val_acc", "acc", "a/b", "train/lr"))
LISTED = "/api/v1/jobs?parent=&limit=100"


@pytest.mark.parametrize(
    ("query", "asked"),
    [
        ("", f"{LISTED}&archived=false"),
        ("state=queued", f"{LISTED}&state=queued&archived=false"),
        ("state=nothing&archived=", f"{LISTED}&archived=true"),
        ("experiment=a+b&person=%C3%A9", f"{LISTED}&experiment=a+b&person=%C3%A9&archived=false"),
        ("text=%3Cb%3E&text=second", "/api/v1/jobs?limit=100&archived=false&text=%3Cb%3E"),
        ("parent=tuned", "/api/v1/jobs?limit=100&archived=false&parent=tuned"),
    ],
)
def test_list_of_jobs_is_asked_for_as_the_address_chooses(query: str, asked: str) -> None:
    assert first_requests("/", query).answers == (asked,)


@pytest.mark.parametrize(
    ("address", "job", "asked"),
    [
        ("/jobs/one", None, ["jobs/one"]),
        ("/jobs/one/?tab=nothing", COMMAND, ["jobs/one", "jobs/one/overview"]),
        ("/jobs/one?rank=0&at=failure", COMMAND, ["jobs/one", "jobs/one/logs?tail=65536"]),
        ("/jobs/one?tab=overview", FAILED, ["jobs/one", "jobs/one/overview"]),
        ("/jobs/one", FAILED, ["jobs/one", "jobs/one/logs?tail=65536"]),
        ("/jobs/one?tab=metrics", PAIRED, [
            "jobs/one", "jobs/one/metrics",
            "jobs/one/metrics/curves?metric=acc&metric=val_acc&max_points=800",
            "jobs/one/metrics/curves?metric=a%2Fb&max_points=800",
            "jobs/one/metrics/curves?metric=train%2Floss&metric=val%2Floss&max_points=800",
            "jobs/one/metrics/curves?metric=train%2Flr&max_points=800",
        ]),
        ("/jobs/one?tab=metrics&find=loss", PAIRED, ["jobs/one", "jobs/one/metrics"]),
        ("/jobs/one", SWEEP, ["jobs/one", "sweeps/one"]),
        ("/jobs/one?tab=logs", SWEEP, ["jobs/one", "sweeps/one"]),
        ("/jobs/one?tab=curves", None, ["jobs/one", "sweeps/one", "curves?parent=one&max_points=100&max_total=20000"]),
        ("/jobs/one?tab=story", COMMAND, ["jobs/one"]),
        ("/jobs/one?tab=resources", COMMAND, ["jobs/one", "jobs/one/resources"]),
        ("/jobs/a%20b?tab=metrics", None, ["jobs/a%20b", "jobs/a%20b/metrics"]),
        ("/jobs/one?tab=metrics&of=1", COMMAND, [
            "jobs/one", "jobs/one/metrics", "jobs/one/metrics/curves?metric=loss&max_points=800&rank=1",
            "jobs/one/metrics/curves?metric=top%2F5+*%7E&max_points=800&rank=1",
        ]),
        ("/compare?job=a&job=b", None, ["curves?job=a&job=b&max_points=800", "compare?job=a&job=b"]),
        ("/compare?job=a", None, []),
        ("/compare?" + "job=a&" * 201, None, []),
        ("/endpoints", None, ["online-endpoints", "endpoint-requests"]),
        ("/endpoints/a%20b", None, ["online-endpoints/a%20b", "endpoint-requests?endpoint=a+b&curves=true"]),
        ("/endpoints/", None, []),
        ("/runs", None, []),
        ("/experiments/vision%2Fcifar?sort=name", None, []),
        ("/ledger", None, []),
        ("/jobs/", None, []),
        ("/nowhere", None, []),
    ],
)  # fmt: skip
def test_screen_asks_for_its_answers(address: str, job: KnownJob | None, asked: list[str]) -> None:
    path, _, query = address.partition("?")
    assert first_requests(path, query, job).answers == tuple(f"/api/v1/{one}" for one in asked)


def test_filters_of_the_list_are_those_of_the_page() -> None:
    source = (PAGE / "src" / "screens" / "jobs-filter.ts").read_text(encoding="utf-8")
    table = re.search(r"GROUPS: .*? = \{(.*?)\n\};", source, re.DOTALL)
    former = re.search(r"FORMER: .*? = \{(.*?)\};", source)
    assert table
    assert former
    filters = {
        name: tuple(re.findall(r'"(\w+)"', states)) for name, states in re.findall(r"(\w+): \[(.*?)\]", table[1])
    }
    assert filters["queued"] == ("queued",)
    assert {**filters, **{old: filters[new] for old, new in re.findall(r'(\w+): "(\w+)"', former[1])}} == dict(GROUPS)


def test_code_of_a_screen_comes_with_what_it_imports() -> None:
    for path, names in {
        "/compare": ["compare", "chart"],
        "/experiments/cifar?sort=name": ["runs"],
        "/docs/sweeps": ["docs"],
        "/jobs/one?tab=settings": ["sweep", "sweep-requests"],
    }.items():
        place, _, query = path.partition("?")
        files = module_files(first_requests(place, query).module)
        assert all(any(file.startswith(f"assets/{name}-") for file in files) for name in names), files
    assert first_requests("/", "").module == ""


def test_job_is_named_by_its_screen_alone() -> None:
    assert [job_in(path) for path in ("/jobs/a%2Fb", "/jobs/a/b", "/jobs", "/", "/compare")] == ["a/b", "", "", "", ""]
