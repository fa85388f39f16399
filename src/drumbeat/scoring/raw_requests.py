"""The request object of scripts with `@rawhttp`: Flask's where the environment has Flask, else a stand-in."""

from __future__ import annotations

import importlib
import io
from typing import Any

from drumbeat.scoring.messages import ScoringRequest
from drumbeat.scoring.stand_ins import AMLRequest


def raw_request(request: ScoringRequest) -> Any:
    """Returns what `run` gets."""
    try:
        flask: Any = importlib.import_module("flask")
    except ImportError:
        return AMLRequest(request)
    return flask.Request(_environ(request))


def _environ(request: ScoringRequest) -> dict[str, Any]:
    """The request as PEP 3333 has it."""
    host, _, port = request.header("host", "localhost").partition(":")
    environ: dict[str, Any] = {
        "REQUEST_METHOD": request.method, "SCRIPT_NAME": "", "PATH_INFO": request.path.encode().decode("latin-1"),
        "QUERY_STRING": request.query, "RAW_URI": request.target, "SERVER_NAME": host, "SERVER_PORT": port or "80",
        "SERVER_PROTOCOL": "HTTP/1.1", "CONTENT_LENGTH": str(len(request.body)), "wsgi.version": (1, 0),
        "wsgi.url_scheme": "http", "wsgi.input": io.BytesIO(request.body), "wsgi.errors": io.StringIO(),
        "wsgi.multithread": True, "wsgi.multiprocess": False, "wsgi.run_once": False,
    }  # fmt: skip
    for name, value in request.headers.items():
        key = name.upper().replace("-", "_")
        environ[key if key in {"CONTENT_TYPE", "CONTENT_LENGTH"} else f"HTTP_{key}"] = value
    environ["CONTENT_LENGTH"] = str(len(request.body))
    return environ
