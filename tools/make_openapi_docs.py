"""Writes docs/openapi.json, the API's description; --check only says whether it is up to date."""

import argparse
import json
import sys
from pathlib import Path
from typing import cast

from drumbeat.control.service import Control
from drumbeat.server.app import make_app
from drumbeat.server.room import Room

PLACE = Path(__file__).parent.parent / "docs" / "openapi.json"


def make_openapi_docs() -> str:
    """The description as text. No control room is needed: nothing is called."""
    app = make_app(Room(cast("Control", None)), token="", hosts=frozenset())
    return json.dumps(app.openapi(), indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def main() -> int:
    """0 = written, or up to date."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    made = make_openapi_docs()
    if parser.parse_args().check:
        if PLACE.exists() and PLACE.read_text() == made:
            return 0
        print(f"{PLACE} isn't what the server offers; run tools/make_openapi_docs.py")
        return 1
    PLACE.write_text(made)
    return 0


if __name__ == "__main__":
    sys.exit(main())
