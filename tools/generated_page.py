"""What every generator of pages does: writes them, or says which are old."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path


def write_or_check(pages: Mapping[Path, str]) -> int:
    """A generator's command line over the text of each page; its exit code: 1 = `--check` found one that is old."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", action="store_true", help="change nothing, fail when a page is old")
    if not parser.parse_args().check:
        for page, text in pages.items():
            page.write_text(text, encoding="utf-8")
        return 0
    old = [page for page, text in pages.items() if not page.exists() or page.read_text(encoding="utf-8") != text]
    for page in old:
        print(f"docs/{page.name} is old: run `make docs`", file=sys.stderr)
    return int(bool(old))
