"""What a screen of the web page asks for first, by its address.

The HTML names it, so that answers and code come beside the page's own script, not behind it. The page asks for exactly
these addresses itself and finds them on their way. What the HTML says of a job is for callers who may read it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import parse_qsl, quote, quote_plus, unquote

from drumbeat.model.metrics import SYSTEM, run_id
from drumbeat.model.states import JobKind
from drumbeat.server.context import current
from drumbeat.server.control import Control

API = "/api/v1"
Words = Sequence[tuple[str, str]]
"""Of a query, in their order."""

LISTED = 100
"""Jobs on a screen of the list."""
GROUPS: Mapping[str, tuple[str, ...]] = {
    "queued": ("queued",),
    "waiting": ("queued",),
    "running": ("provisioning", "staging", "running", "stopping", "finalizing"),
    "failed": ("failed",),
    "completed": ("completed",),
    "canceled": ("canceled",),
}
"""States that a filter of the list chooses; `waiting` is what `queued` was called in addresses that are kept."""
MAX_COMPARED, COMPARED_POINTS = 20, 8000
LOG_BYTES = 64 << 10
CHART_POINTS = 800
MAX_CHARTS = 4
"""Whose curves are asked for at once; those of further metrics come with their charts."""
TABS: Mapping[str, tuple[str, ...]] = {
    "command": ("logs", "metrics", "ranks", "outputs", "resources", "story", "file", "rehearsal"),
    "sweep": ("trials", "curves", "settings", "story", "outputs", "file"),
    "pipeline": ("graph", "story", "outputs", "file"),
}
"""By a job's kind, the one that opens first at the front."""
SCREENS: Mapping[str, str] = {
    "/experiments": "src/screens/experiments.tsx",
    "/compare": "src/screens/compare.tsx",
    "/computes": "src/screens/computes.tsx",
    "/data": "src/screens/catalog.tsx",
    "/ledger": "src/screens/ledger.tsx",
    "/server": "src/screens/server.tsx",
}
"""The module of each screen that isn't in the page's first script."""
TAB_MODULES: Mapping[str, str] = {
    "metrics": "src/screens/job/metrics.tsx",
    "resources": "src/screens/job/metrics.tsx",
    "outputs": "src/screens/job/outputs.tsx",
    "trials": "src/screens/job/sweep.tsx",
    "settings": "src/screens/job/sweep.tsx",
    "curves": "src/screens/job/sweep-curves.tsx",
    "graph": "src/screens/job/pipeline.tsx",
    "rehearsal": "src/screens/job/rehearsal.tsx",
}


@dataclass(frozen=True)
class FirstRequests:
    """What is asked for before a screen is drawn."""

    answers: tuple[str, ...] = ()
    """Addresses of the API."""
    module: str = ""
    """Whose code is loaded; "" = the page's first script has it."""


@dataclass(frozen=True)
class KnownJob:
    """What the first requests of a job's screen depend on."""

    kind: JobKind
    metrics: tuple[str, ...] = ()
    """Names of what its script logged, in the order of the screen."""


def known_job(control: Control, name: str, query: str) -> KnownJob:
    """Returns what is known of a job. Raises NotFoundError."""
    kind = current(control, name).job.kind
    if _tab(kind, _first(_words(query), "tab")) != "metrics" or control.metrics.is_empty:
        return KnownJob(kind)
    names = (one.name for one in control.metrics.store.series(run_id(name)) if not one.name.startswith(SYSTEM))
    return KnownJob(kind, tuple(dict.fromkeys(names)))


def job_in(path: str) -> str:
    """Returns the job whose screen a path names; "" = another screen. path: behind `/ui`, not decoded."""
    parts = path.removesuffix("/").split("/")
    return unquote(parts[2]) if len(parts) == len(("", "jobs", "NAME")) and parts[1] == "jobs" else ""


def first_requests(path: str, query: str, job: KnownJob | None = None) -> FirstRequests:
    """Returns what the screen at an address asks for first. path: behind `/ui`. job: None = nothing is known of it."""
    words = _words(query)
    if path == "/":
        return FirstRequests((_list_of_jobs(words),))
    if path == "/compare":
        return FirstRequests(tuple(_compared([value for key, value in words if key == "job"])), SCREENS[path])
    if name := job_in(path):
        return _of_job(name, words, job)
    return FirstRequests(module=SCREENS.get(path, ""))


def _list_of_jobs(words: Words) -> str:
    parent, text = _first(words, "parent"), _first(words, "text")
    states = GROUPS.get(_first(words, "state"), ())
    chosen = [
        ("limit", str(LISTED)),
        *(("state", state) for state in states),
        ("experiment", _first(words, "experiment")),
        ("person", _first(words, "person")),
        ("archived", "true" if any(key == "archived" for key, _ in words) else "false"),
        ("text", text),
        ("parent", parent),
    ]
    # Without a choice, jobs that are part of none: `parent` is sent empty.
    return address("/jobs" if parent or text else "/jobs?parent=", chosen)


def _compared(jobs: Sequence[str]) -> Iterable[str]:
    if not 1 < len(jobs) <= MAX_COMPARED:
        return
    named = [("job", job) for job in jobs]
    points = int(COMPARED_POINTS / max(len(jobs), 10) + 0.5)
    yield address("/curves", [*named, ("max_points", str(points))])
    yield address("/compare", named)


def _of_job(name: str, words: Words, job: KnownJob | None) -> FirstRequests:
    wanted = _first(words, "tab")
    tab = _tab(job.kind, wanted) if job else wanted or "logs"
    own = f"/jobs/{segment(name)}"
    answers = [address(own)]
    if tab == "logs":
        answers.append(address(f"{own}/logs", [("tail", str(LOG_BYTES))]))
    if tab in ("metrics", "resources"):
        answers.append(address(f"{own}/metrics"))
    if tab == "metrics" and job:
        answers += _charts(own, words, job)
    if tab in ("trials", "curves", "settings"):
        answers.append(address(f"/sweeps/{segment(name)}"))
    if tab == "curves":
        answers.append(address("/curves", [("parent", name), ("max_points", "100"), ("max_total", "20000")]))
    return FirstRequests(tuple(answers), TAB_MODULES.get(tab, ""))


def _charts(own: str, words: Words, job: KnownJob) -> Iterable[str]:
    rank = _first(words, "of")
    for metric in job.metrics[:MAX_CHARTS]:
        yield address(f"{own}/metrics/curves", [("metric", metric), ("max_points", str(CHART_POINTS)), ("rank", rank)])


def _words(query: str) -> Words:
    return parse_qsl(query, keep_blank_values=True)


def _tab(kind: JobKind, wanted: str) -> str:
    tabs = TABS[kind]
    return wanted if wanted in tabs else tabs[0]


def _first(words: Words, name: str) -> str:
    return next((value for key, value in words if key == name), "")


def address(path: str, words: Words = ()) -> str:
    """Returns an address of the API as browsers write it; words without a value are left out."""
    text = "&".join(f"{key}={_escaped(value)}" for key, value in words if value)
    if not text:
        return f"{API}{path}"
    return f"{API}{path}{'&' if '?' in path else '?'}{text}"


def _escaped(value: str) -> str:
    """A value as `URLSearchParams` writes it."""
    return quote_plus(value, safe="*").replace("~", "%7E")


def segment(name: str) -> str:
    """Returns a part of a path as `encodeURIComponent` writes it."""
    return quote(name, safe="!~*'()")
