"""Writes docs/openapi.json, the API's description; --check only says whether it is up to date."""

import json
import sys
from pathlib import Path
from typing import cast

from drumbeat.server.app import make_app
from drumbeat.server.context import ServerContext
from drumbeat.server.control import Control
from tools.generated_page import write_or_check

PLACE = Path(__file__).parent.parent / "docs" / "openapi.json"


def make_openapi_docs() -> str:
    """The description as text. No control room is needed: nothing is called."""
    app = make_app(ServerContext(cast("Control", None)), token="", hosts=frozenset())
    return json.dumps(app.openapi(), indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def main() -> int:
    """Writes the description, or checks it."""
    return write_or_check({PLACE: make_openapi_docs()})


if __name__ == "__main__":
    sys.exit(main())
