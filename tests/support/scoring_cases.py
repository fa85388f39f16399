"""Scoring scripts and requests that Microsoft's inference server and drumbeat's answer alike, or by a named difference.

`python -m tools.scoring_recordings` plays them to Microsoft's server and keeps its answers in
tests/golden/scoring/azure.json.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field

SCRIPTS = {
    "plain": """
import json
def init():
    global factor
    factor = 2
def run(data):
    try:
        return [factor * one for one in json.loads(data)["data"]]
    except (ValueError, KeyError):
        return {"got": data}
""",
    "results": """
import json
def init(): pass
def run(data):
    return {"none": None, "text": "abc", "number": 1.5, "true": True, "list": [1, "a", None], "empty": [], "nan":
            [float("nan"), float("inf")], "unicode": "grün ☃", "nested": {"a": {"b": [1, 2]}}, "zero": 0,
            "tuple": (1, 2), "json": json.dumps({"a": 1}), "set": {1}, "bytes": b"abc", "object": object()}[data]
""",
    "raises": """
import sys
def init(): pass
def run(data):
    if data == "exit": sys.exit(4)
    if data == "timeout": raise TimeoutError("own")
    if data == "assert": assert False
    raise ValueError("no " + data)
""",
    "headers": """
def init(): pass
def run(data, request_headers):
    return {"data": data, "type": request_headers.get("Content-Type"), "own": request_headers.get("X-Own-Header"),
            "is_dict": type(request_headers) is dict}
""",
    "raw": """
from azureml_inference_server_http.api.aml_request import AMLRequest, rawhttp
from azureml_inference_server_http.api.aml_response import AMLResponse
def init(): pass
@rawhttp
def run(request):
    if request.method == "GET":
        return AMLResponse(str.encode(request.full_path), 200)
    if request.method == "POST":
        kind = request.args.get("kind", "bytes")
        body = request.get_data()
        if kind == "json": return AMLResponse({"got": request.json}, 201, json_str=True)
        if kind == "plain": return {"length": len(body)}
        if kind == "headers": return AMLResponse("x", 200, {"X-Many": "a, b", "Content-Type": "text/csv"})
        if kind == "failed": return AMLResponse("broken", 503)
        if kind == "four": return AMLResponse("missing", 404)
        if kind == "none": return AMLResponse(None, 200)
        if kind == "header": return {"own": request.headers["x-own-header"], "type": request.content_type}
        return AMLResponse(body[::-1], 200, {"Content-Type": "application/octet-stream"})
    return AMLResponse("bad request: " + request.method, 500)
""",
    "response": """
from azureml_inference_server_http.api.aml_response import AMLResponse
def init(): pass
def run(data):
    return AMLResponse({"seen": data}, 202, {"X-Own": "yes"}, json_str=True)
""",
    "defaults": """
def init(): pass
def run(data="nothing"):
    return data
""",
    "schema": """
from inference_schema.schema_decorators import input_schema, output_schema
from inference_schema.parameter_types.standard_py_parameter_type import StandardPythonParameterType
def init(): pass
@input_schema("data", StandardPythonParameterType([1, 2]))
@input_schema("scale", StandardPythonParameterType(1.5))
@output_schema(StandardPythonParameterType([1.5]))
def run(data, scale=1.0):
    return [scale * one for one in data]
""",
    "typed": """
from inference_schema.schema_decorators import input_schema
from inference_schema.parameter_types.standard_py_parameter_type import StandardPythonParameterType
def init(): pass
@input_schema(param_name="name", param_type=StandardPythonParameterType("x"))
@input_schema(param_name="count", param_type=StandardPythonParameterType(3))
def run(name, count, request_headers):
    return {"name": name, "count": count, "type": request_headers["Content-Type"]}
""",
    "driver": """
import types
driver_module = types.ModuleType("real_script")
driver_module.__file__ = "real_script.py"
exec("def run(data): return 'real ' + data", driver_module.__dict__)
def init(): pass
def run(data): return "driver " + data
""",
    "slow": """
import time
def init(): pass
def run(data):
    end = time.monotonic() + float(data)
    while time.monotonic() < end: pass
    return "late"
""",
}

BROKEN = {
    "no init": "def run(data): return data\n",
    "no run": "def init(): pass\n",
    "import fails": "import module_that_is_not_there\ndef init(): pass\ndef run(data): return data\n",
    "init fails": "def init(): raise RuntimeError('no model')\ndef run(data): return data\n",
    "syntax": "def init(: pass\n",
    "no argument": "def init(): pass\ndef run(): return 1\n",
    "headers only": "def init(): pass\ndef run(request_headers): return 1\n",
    "varargs": "def init(): pass\ndef run(*data): return 1\n",
    "keywords": "def init(): pass\ndef run(**data): return 1\n",
    "positional": "def init(): pass\ndef run(data, /): return 1\n",
}
"""Scripts that end Microsoft's server with exit code 3, and ours, too."""

JSON = {"Content-Type": "application/json"}
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


@dataclass(frozen=True)
class Case:
    """A request to a script. ours: status and body where drumbeat answers differently, for the reason in differs."""

    script: str
    method: str = "POST"
    path: str = "/score"
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    differs: str = ""
    ours: tuple[int, str] | None = None

    @property
    def name(self) -> str:
        """Its key among the recorded answers."""
        named = " ".join(f"{key}={value[:30]}{len(value)}" for key, value in self.headers.items())
        return f"{self.script}: {self.method} {self.path} {named} {self.body[:40]!r}"


def post(script: str, body: str | bytes, headers: dict[str, str] | None = None, path: str = "/score") -> Case:
    raw = body.encode() if isinstance(body, str) else body
    return Case(script, path=path, headers=JSON if headers is None else headers, body=raw)


INTERNAL = json.dumps({"message": "An unexpected error occurred in scoring script. Check the logs for more info."})
CASES = [
    post("plain", '{"data": [1, 2]}'),
    post("plain", "not json"),
    post("plain", ""),
    post("plain", "grün"),
    post("plain", b"\xff\xfe"),
    post("plain", '{"data": [3]}', {"Content-Type": "text/plain"}),
    post("plain", '{"data": [3]}', {}),
    Case("plain", headers=FORM, body=b"a=1", differs="a form's body reaches run as it is; Microsoft's server gives ''",
         ours=(200, '{"got": "a=1"}')),
    Case("plain", "GET", "/score?a=1&b=x&b=2&c=[1,2]&d=null"),
    Case("plain", "GET", "/score"),
    Case("plain", "GET", "/score?data=[1,2]"),
    Case("plain", "GET", "/score?a=%20x%2By&e="),
    Case("plain", "OPTIONS"),
    Case("plain", "PUT", body=b"x"),
    Case("plain", "DELETE"),
    Case("plain", "GET", "/"),
    Case("plain", "POST", "/", body=b"x"),
    Case("plain", "GET", "/nothing"),
    Case("plain", "GET", "/score/"),
    Case("plain", "POST", "/swagger.json"),
    Case("plain", "GET", "/swagger.json?version=9"),
    post("plain", "[1]", {**JSON, "x-request-id": "r1"}),
    post("plain", "[1]", {**JSON, "x-ms-request-id": "m1"}),
    post("plain", "[1]", {**JSON, "x-ms-client-request-id": "c1"}),
    post("plain", "[1]", {**JSON, "x-request-id": "r1", "x-ms-request-id": "m1", "x-ms-client-request-id": "c1"}),
    post("plain", "[1]", {**JSON, "x-request-id": "r" * 101}),
    post("plain", "[1]", {**JSON, "x-ms-client-request-id": "c" * 101}),
    post("plain", "[1]", {**JSON, "x-ms-request-id": "m" * 101}),
    post("plain", "[1]", {**JSON, "x-request-id": "r" * 100}),
    post("plain", "[1]", {**JSON, "TraceId": "t1"}),
    *[post("results", kind) for kind in ("none", "text", "number", "true", "list", "empty", "nan", "unicode", "nested",
                                         "zero", "tuple", "json", "set", "bytes", "object")],
    post("raises", "value"),
    post("raises", "assert"),
    Case("raises", headers=JSON, body=b"timeout", differs="a TimeoutError of the script's own is an error like others",
         ours=(500, INTERNAL)),
    Case("raises", headers=JSON, body=b"exit", differs="sys.exit in run is an error like others", ours=(500, INTERNAL)),
    post("headers", "x", {**JSON, "X-Own-Header": "mine"}),
    post("headers", "x", {"Content-Type": "text/plain; charset=utf-8"}),
    Case("headers", "GET", "/score?a=1"),
    Case("raw", "GET", "/score?a=1&b=2"),
    post("raw", b"\x00\xff\x01", {"Content-Type": "application/octet-stream"}),
    post("raw", '{"a": 1}', JSON, "/score?kind=json"),
    post("raw", "nothing", JSON, "/score?kind=json"),
    post("raw", "12345", JSON, "/score?kind=plain"),
    post("raw", "x", JSON, "/score?kind=headers"),
    post("raw", "x", JSON, "/score?kind=failed"),
    post("raw", "x", JSON, "/score?kind=four"),
    post("raw", "x", JSON, "/score?kind=none"),
    post("raw", "x", {"Content-Type": "text/x", "x-own-header": "mine"}, "/score?kind=header"),
    Case("raw", "OPTIONS"),
    Case("raw", "PUT", body=b"x"),
    post("response", "x"),
    Case("defaults", "GET"),
    post("schema", '{"data": [1, 2]}'),
    post("schema", '{"data": [1, 2], "scale": 2.0}'),
    post("schema", '{"data": [1, 2], "scale": 2.0, "more": 1}'),
    post("schema", '{"scale": 2.0}'),
    post("schema", '[1, 2]'),
    post("schema", "not json"),
    post("schema", ""),
    post("schema", '{"data": [1]}', {"Content-Type": "text/plain"}),
    post("schema", '{"data": [1]}', {"Content-Type": "application/json; charset=utf-8"}),
    post("schema", '{"data": [1]}', {"Content-Type": "application/vnd.own+json"}),
    Case("schema", "GET", "/score?data=[1,2]&scale=3.0"),
    Case("schema", "GET", "/score?scale=3.0"),
    Case("schema", "OPTIONS"),
    post("schema", '{"data": "wrong"}'),
    post("typed", '{"name": "n", "count": 3}'),
    post("typed", '{"name": "n"}'),
    post("typed", '{"name": 5, "count": "x"}'),
    post("driver", "x"),
    post("slow", "0.0"),
    post("slow", "5.0"),
]  # fmt: skip
SCORING_TIMEOUT_MS = 700
"""Of both servers while the cases are played; `slow` is over it."""

COMPARED = ("content-type", "x-ms-run-function-failed", "x-ms-run-fn-exec-ms", "x-request-id", "x-ms-request-id",
            "x-ms-client-request-id", "x-ms-server-version", "traceid", "x-many", "x-own", "allow")  # fmt: skip
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def normalized(status: int, headers: list[tuple[str, str]], body: bytes) -> dict[str, object]:
    """An answer as it is compared: without what differs from call to call."""
    kept: list[list[str]] = []
    for name, value in headers:
        low = name.lower()
        if low not in COMPARED:
            continue
        if low == "x-ms-run-fn-exec-ms":
            value = re.sub(r"\d+", "0", value)  # noqa: PLW2901 - the number of digits after the point stays
        elif low == "x-ms-server-version":
            value = value.partition("/")[1] and "a name and a version"  # noqa: PLW2901
        elif low == "allow":
            value = ", ".join(sorted(value.split(", ")))  # noqa: PLW2901
        kept.append([low, _UUID.sub("a uuid", re.sub(r"^0+\.0+$", "0.000", value))])
    return {"status": status, "headers": sorted(kept), "body": body.decode("latin-1")}
