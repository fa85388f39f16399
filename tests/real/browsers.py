"""Chromium, driven through the web page by `page/tests/drive.mjs`: for tests, and for the pictures of the docs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tools.kept_programs import PAGE_DRIVER, PAGE_PACKAGES

from .house import House
from .started import provide

ROOT = Path(__file__).parents[2]
DRIVER = ROOT / "page" / "tests" / "drive.mjs"
CHROMIUMS = ("chromium", "chromium-browser", "google-chrome")
TIMEOUT_S = 840
"""For a whole walk; a loaded machine needs some 20 s for each screen."""


@dataclass(frozen=True)
class Seen:
    """What one step of the driver has seen."""

    name: str
    reports: list[str]
    """Errors and warnings of the console, exceptions, dialogs, and violations of the page's policy."""
    violations: list[str]
    """Of axe."""
    text: str
    wide: bool = False
    """The page is wider than the window."""
    foreign: int = 0
    """Elements that only markup in names or logs could have made."""
    ready: float = 0
    """Milliseconds until the awaited text was there."""
    url: str = ""
    first: float | None = None
    """Milliseconds until the first paint with content."""
    transferred: int = 0
    """Bytes of scripts, styles and images, as sent; of a measured step also those of the API."""
    tasks: tuple[float, ...] = ()
    """Milliseconds of each task over 50 ms before a measured screen was usable."""
    live: tuple[float, ...] = ()
    """The same while it was watched afterwards."""
    dragged: tuple[float, ...] = ()
    """Milliseconds until the images of each step of a gallery were shown."""
    asked: tuple[str, ...] = ()
    """Addresses of the API, in the order in which they were asked for."""


def find_browser() -> str:
    """Chromium's path. Skips the test where it, or Node, is missing."""
    if shutil.which("node") is None:
        pytest.skip("Node drives the browser: install nodejs and npm")
    found = next(filter(None, map(shutil.which, CHROMIUMS)), None)
    if found is None:
        pytest.skip("the page is looked at in Chromium: apt-get install chromium")
    return found


def find_packages() -> Path:
    """The folder with the driver's packages: that of `page/`, else one that npm fills once."""
    own = ROOT / "page" / "node_modules"
    if all((own / name).is_dir() for name in PAGE_PACKAGES):
        return own
    return provide(PAGE_DRIVER).parents[1]


def run_own_tests(*chosen: str) -> str:
    """Runs the page's own tests in Node and returns what they printed. Skips where Node or a package is missing."""
    runner = ROOT / "page" / "node_modules" / "vitest" / "vitest.mjs"
    if shutil.which("node") is None or not runner.exists():
        pytest.skip("the page's own tests need Node and its packages: cd page && npm ci")
    command = ["node", str(runner), "run", *chosen]
    done = subprocess.run(
        command, cwd=ROOT / "page", capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
        env={**os.environ, "NO_COLOR": "1"},
    )  # fmt: skip
    assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]
    return done.stdout


def drive(house: House, steps: Sequence[dict[str, Any]]) -> dict[str, Seen]:
    """Goes through the steps in one browser, with a session of its own; what each has seen, by its name."""
    return drive_from(house.run("ui", "--print").stdout.strip(), steps)


def drive_from(link: str, steps: Sequence[dict[str, Any]]) -> dict[str, Seen]:
    """The same, with the session of a one-time link."""
    chromium, packages = find_browser(), find_packages()
    errand = {
        "playwright": str(packages / "playwright-core" / "index.mjs"), "axe": str(packages / "axe-core" / "axe.min.js"),
        "chromium": chromium, "link": link, "steps": list(steps), "patience_ms": 60_000,
    }  # fmt: skip
    done = subprocess.run(
        ["node", str(DRIVER)], input=json.dumps(errand), capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return {one["name"]: Seen(**one) for one in json.loads(done.stdout)}
