"""The first requests of each screen of the web page.

The HTML preloads them, so that responses and code arrive in parallel with the page's script. The page then requests
exactly the same URLs. HTML with preloads of a job is only for callers who may read the job.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from urllib.parse import parse_qsl, quote, quote_plus, unquote

from drumbeat.model.metrics import SYSTEM, run_id
from drumbeat.model.states import JobKind, State
from drumbeat.server.context import current
from drumbeat.server.control import Control

API = "/api/v1"
Words = Sequence[tuple[str, str]]
"""The parameters of a query, in order."""

REASONS: Mapping[str, str] = {"hanging": "hanging"}
"""The reasons of filters that have one beside their state."""
LISTED = 100
"""Jobs on one page of the list."""
GROUPS: Mapping[str, tuple[str, ...]] = {
    "queued": ("queued",),
    "waiting": ("queued",),
    "running": ("provisioning", "staging", "running", "stopping", "finalizing"),
    "hanging": ("running",),
    "failed": ("failed",),
    "completed": ("completed",),
    "canceled": ("canceled",),
}
"""The states of each filter of the list; `waiting` is the former name of `queued` in bookmarked URLs."""
MAX_COMPARED, COMPARED_POINTS = 200, 8000
LOG_BYTES = 64 << 10
CHART_POINTS = 800
MAX_CHARTS = 4
"""Number of charts whose curves are preloaded; others are requested with their charts."""
TABS: Mapping[str, tuple[str, ...]] = {
    "command": ("overview", "logs", "metrics", "ranks", "outputs", "resources", "story", "file", "rehearsal"),
    "sweep": ("trials", "curves", "settings", "story", "outputs", "file"),
    "pipeline": ("graph", "story", "outputs", "file"),
    "deployment": ("story",),
}
"""The tabs of each kind of job, the default one first."""
LOG_WORDS = ("rank", "node", "search", "at", "level")
"""Words that choose lines of a log."""
AT_WORK = frozenset({State.RUNNING, State.STOPPING, State.FINALIZING, State.COMPLETED, State.CANCELED})
"""The states in which a job is opened with its overview; otherwise with its logs."""
SCREENS: Mapping[str, str] = {
    "/experiments": "src/screens/experiments.tsx",
    "/compare": "src/screens/compare.tsx",
    "/computes": "src/screens/computes.tsx",
    "/data": "src/screens/catalog.tsx",
    "/endpoints": "src/screens/endpoints/endpoints.tsx",
    "/schedules": "src/screens/schedules.tsx",
    "/docs": "src/screens/docs.tsx",
    "/ledger": "src/screens/ledger.tsx",
    "/server": "src/screens/server.tsx",
}
"""The modules of screens that aren't in the page's main script."""
ANSWERS: Mapping[str, tuple[str, ...]] = {
    "/endpoints": (f"{API}/online-endpoints", f"{API}/endpoint-requests"),
}
"""The first requests of screens that are the same for every query."""
RUNS = "src/screens/runs/runs.tsx"
"""The module of tables of runs."""
TAB_MODULES: Mapping[str, str] = {
    "overview": "src/screens/job/overview.tsx",
    "metrics": "src/screens/job/metrics.tsx",
    "ranks": "src/screens/job/ranks.tsx",
    "resources": "src/screens/job/resources.tsx",
    "outputs": "src/screens/job/outputs.tsx",
    "trials": "src/screens/job/sweep.tsx",
    "settings": "src/screens/job/sweep.tsx",
    "curves": "src/screens/job/sweep-curves.tsx",
    "graph": "src/screens/job/pipeline.tsx",
    "rehearsal": "src/screens/job/rehearsal.tsx",
}


_SPLITS = ("", "train", "training", "val", "valid", "validation", "eval", "evaluation", "dev", "test")
_SPLIT_BEFORE = re.compile(rf"({'|'.join(_SPLITS[1:])})[/_.-](.+)$", re.IGNORECASE)
_SPLIT_BEHIND = re.compile(rf"(.+)[/_.-]({'|'.join(_SPLITS[1:])})$", re.IGNORECASE)


@dataclass(frozen=True)
class FirstRequests:
    """The preloads of a screen."""

    answers: tuple[str, ...] = ()
    """URLs of the API."""
    module: str = ""
    """The module to preload; "" = the main script contains it."""


@dataclass(frozen=True)
class KnownJob:
    """The properties of a job on which the first requests of its screen depend."""

    kind: JobKind
    state: State = State.COMPLETED
    metrics: tuple[str, ...] = ()
    """The metrics that its script logged, in the order of the screen."""


def known_job(control: Control, name: str, query: str) -> KnownJob:
    """Returns the properties of a job. Raises NotFoundError."""
    job = current(control, name).job
    screen = KnownJob(job.kind, job.state)
    if _tab(screen, _words(query)) != "metrics" or control.metrics.is_empty:
        return screen
    names = (one.name for one in control.metrics.store.series(run_id(name)) if not one.name.startswith(SYSTEM))
    return replace(screen, metrics=tuple(dict.fromkeys(names)))


def job_in(path: str) -> str:
    """Returns the job of a path's screen; "" = another screen. path: after `/ui`, still encoded."""
    parts = path.removesuffix("/").split("/")
    return unquote(parts[2]) if len(parts) == len(("", "jobs", "NAME")) and parts[1] == "jobs" else ""


def first_requests(path: str, query: str, job: KnownJob | None = None) -> FirstRequests:
    """Returns the first requests of a screen. path: after `/ui`. job: None = unknown."""
    words = _words(query)
    if path == "/":
        return FirstRequests((_list_of_jobs(words),))
    if path == "/compare":
        return FirstRequests(tuple(_compared([value for key, value in words if key == "job"])), SCREENS[path])
    if name := job_in(path):
        return _of_job(name, words, job)
    if path == "/runs" or (path.startswith("/experiments/") and path != "/experiments/"):
        return FirstRequests(module=RUNS)
    if path.startswith("/docs/"):
        return FirstRequests(module=SCREENS["/docs"])
    if path.startswith("/endpoints/") and (name := unquote(path.split("/")[2])):
        own = address("/endpoint-requests", [("endpoint", name), ("curves", "true")])
        return FirstRequests((address(f"/online-endpoints/{segment(name)}"), own), SCREENS["/endpoints"])
    return FirstRequests(ANSWERS.get(path, ()), SCREENS.get(path, ""))


def _list_of_jobs(words: Words) -> str:
    parent, text = _first(words, "parent"), _first(words, "text")
    group = _first(words, "state")
    states, reason = GROUPS.get(group, ()), REASONS.get(group)
    chosen = [
        ("limit", str(LISTED)),
        *(("state", state) for state in states),
        *((("reason", reason),) if reason else ()),
        ("experiment", _first(words, "experiment")),
        ("person", _first(words, "person")),
        ("archived", "true" if any(key == "archived" for key, _ in words) else "false"),
        ("text", text),
        ("parent", parent),
    ]
    # Without a filter, only jobs without a parent: `parent` is sent empty.
    return address("/jobs" if parent or text else "/jobs?parent=", chosen)


def _compared(jobs: Sequence[str]) -> Iterable[str]:
    if not 1 < len(jobs) <= MAX_COMPARED:
        return
    named = [("job", job) for job in jobs]
    points = int(COMPARED_POINTS / max(len(jobs), 10) + 0.5)
    yield address("/curves", [*named, ("max_points", str(points))])
    yield address("/compare", named)


def _of_job(name: str, words: Words, job: KnownJob | None) -> FirstRequests:
    tab = _tab(job, words) if job else _first(words, "tab")
    own = f"/jobs/{segment(name)}"
    answers = [address(own)]
    if tab == "logs":
        answers.append(address(f"{own}/logs", [("tail", str(LOG_BYTES))]))
    if tab == "overview":
        answers.append(address(f"{own}/overview"))
    if tab in ("metrics", "resources"):
        answers.append(address(f"{own}/{tab}"))
    if tab == "metrics" and job:
        answers += _charts(own, words, job)
    if tab in ("trials", "curves", "settings"):
        answers.append(address(f"/sweeps/{segment(name)}"))
    if tab == "curves":
        answers.append(address("/curves", [("parent", name), ("max_points", "100"), ("max_total", "20000")]))
    return FirstRequests(tuple(answers), TAB_MODULES.get(tab, ""))


def _charts(own: str, words: Words, job: KnownJob) -> Iterable[str]:
    rank = _first(words, "of")
    if _first(words, "find"):
        return
    for card in _cards(job.metrics)[:MAX_CHARTS]:
        named = [("metric", metric) for metric in card]
        yield address(f"{own}/metrics/curves", [*named, ("max_points", str(CHART_POINTS)), ("rank", rank)])


def _cards(metrics: Sequence[str]) -> list[list[str]]:
    """Returns the metrics of each chart in the order of the screen, as `metric-groups.ts` groups them."""
    cards: dict[str, list[str]] = {}
    for metric in metrics:
        cards.setdefault(_base_and_split(metric)[0], []).append(metric)
    sections: dict[str, list[list[str]]] = {}
    for card in cards.values():
        ordered = sorted(card, key=lambda metric: _SPLITS.index(_base_and_split(metric)[1]))
        prefix, slash, _ = ordered[0].partition("/")
        sections.setdefault(prefix if slash else "", []).append(ordered)
    return [card for section in sorted(sections.values(), key=len) for card in section]


def _base_and_split(metric: str) -> tuple[str, str]:
    if match := _SPLIT_BEFORE.match(metric):
        return match[2], match[1].lower()
    match = _SPLIT_BEHIND.match(metric)
    return (match[1], match[2].lower()) if match else (metric, "")


def _words(query: str) -> Words:
    return parse_qsl(query, keep_blank_values=True)


def _tab(job: KnownJob, words: Words) -> str:
    """Returns the chosen tab. One who has chosen lines of a log sees the log."""
    wanted, tabs = _first(words, "tab"), TABS[job.kind]
    if wanted in tabs:
        return wanted
    is_of_log = job.state not in AT_WORK or any(key in LOG_WORDS for key, _ in words)
    return "logs" if tabs[0] == "overview" and is_of_log else tabs[0]


def _first(words: Words, name: str) -> str:
    return next((value for key, value in words if key == name), "")


def address(path: str, words: Words = ()) -> str:
    """Returns a URL of the API in a browser's encoding. Empty parameters are left out."""
    text = "&".join(f"{key}={_escaped(value)}" for key, value in words if value)
    if not text:
        return f"{API}{path}"
    return f"{API}{path}{'&' if '?' in path else '?'}{text}"


def _escaped(value: str) -> str:
    """Encodes a value like `URLSearchParams`."""
    return quote_plus(value, safe="*").replace("~", "%7E")


def segment(name: str) -> str:
    """Encodes a part of a path like `encodeURIComponent`."""
    return quote(name, safe="!~*'()")
