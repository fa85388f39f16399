"""Verifies an exported model, without a server or a network."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from drumbeat.model.errors import NotFoundError, SpecError

SIGNATURE = "model.sig"
PLAN = "plan.json"


def read_signature(place: Path) -> dict[str, Any]:
    """Returns the bundle in a file. Raises NotFoundError, SpecError."""
    try:
        return dict(json.loads(place.read_text(encoding="utf-8")))
    except OSError:
        fix = "Export the model, or name its signature: --signature FILE"
        raise NotFoundError("there is no signature", where=str(place), fix=fix) from None
    except (ValueError, TypeError):
        raise SpecError("this isn't a model's signature", where=str(place), fix="Export the model again.") from None


def digests(folder: Path) -> dict[str, str]:
    """Returns the SHA-256 of each file below a folder, by path."""
    if not folder.is_dir():
        raise NotFoundError("there is no such folder", where=str(folder), fix="Name an exported model's folder.")
    files = (one for one in folder.rglob("*") if one.is_file())
    return {one.relative_to(folder).as_posix(): digest(one) for one in files}


def digest(file: Path) -> str:
    """Returns the SHA-256 of a file."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
