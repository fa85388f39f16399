"""Imports the libraries of stores when a store of their kind is first used."""

from __future__ import annotations

import importlib
from typing import Any

from drumbeat.model.errors import RefusedError

EXTRAS = {"azure": "Azure storage", "s3": "S3", "sftp": "SFTP", "gcs": "Google Cloud Storage"}


def library(name: str, extra: str) -> Any:
    """Imports a module. Raises RefusedError with the package to install."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        what = f"the library for {EXTRAS[extra]} isn't installed where the server runs ({error.name or name})"
        raise RefusedError(what, fix=f"Run there: pip install 'drumbeat[{extra}]'.") from None
