"""`version`: prints the version of drumbeat."""

from __future__ import annotations

from drumbeat._version import __version__


def version() -> None:
    """Print the version."""
    print(f"drumbeat {__version__}")
