"""The stores' own libraries, imported when a store of their kind is first used."""

from __future__ import annotations

import importlib
from typing import Any

from drumbeat.model.errors import RefusedError

EXTRAS = {"azure": "Azure storage", "s3": "S3", "sftp": "SFTP", "gcs": "Google Cloud Storage"}


def library(name: str, extra: str) -> Any:
    """A module. Raises RefusedError, which says what to install, where it can't be imported."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        what = f"the library for {EXTRAS[extra]} isn't installed where the server runs ({error.name or name})"
        raise RefusedError(what, fix=f"Run there: pip install 'drumbeat[{extra}]'.") from None
