"""Wheels of a few hundred bytes, in a folder that pip can install them from without a network."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from pathlib import Path

PROJECT = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'


def wheel(folder: Path, name: str, version: str, *requires: str, files: dict[str, str] | None = None) -> None:
    """A package with one module, which knows its version."""
    folder.mkdir(parents=True, exist_ok=True)
    info = f"{name}-{version}.dist-info"
    needs = "".join(f"Requires-Dist: {one}\n" for one in requires)
    inside = {
        f"{name}.py": f"version = {version!r}\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        **(files or {}),
    }
    record = [f"{path},sha256={_hash(text)},{len(text.encode())}\n" for path, text in inside.items()]
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as archive:
        for path, text in {**inside, f"{info}/RECORD": "".join([*record, f"{info}/RECORD,,\n"])}.items():
            archive.writestr(path, text)


def broken_source(folder: Path, name: str, version: str, code: str) -> None:
    """A source package whose build runs this code, and needs no other package for it."""
    source(folder, name, version, f"{code}\ndef build_wheel(*_, **__): ...\n")


def source(folder: Path, name: str, version: str, backend: str) -> None:
    """A source package with this build backend, which needs no other package."""
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(folder / f"{name}-{version}.zip", "w") as archive:
        archive.writestr(f"{name}-{version}/backend.py", backend)
        archive.writestr(f"{name}-{version}/pyproject.toml", PROJECT)
        archive.writestr(f"{name}-{version}/PKG-INFO", f"Metadata-Version: 1.0\nName: {name}\nVersion: {version}\n")


def _hash(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
