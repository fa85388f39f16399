"""Explains why an environment couldn't be built: the tool's own error, and the line that requested the package."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from drumbeat.model.plan import PythonEnvironment

LONGEST = 400
_PIP = re.compile(r"^\s*(?:ERROR|error): (?!subprocess-exited|metadata-generation|Exception:)(.+)$", re.MULTILINE)
_NO_VERSION = re.compile(r"Could not find a version that satisfies the requirement (.+?) \(from versions: (.*)\)$")
_OF_OURS = re.compile(r"\(from (?:line (\d+) of .+|(?:.*->)?-r .+ \(line (\d+)\))\)")
_BEGUN = re.compile(r"^ *(?:Collecting|Processing) (\S+).*$", re.MULTILINE)
_FAILED_TO_BUILD = re.compile(r"Failed (?:building wheel for|to build) '?([\w.-]+)")
_CONFLICT = re.compile(r"^The conflict is caused by:\n((?: {4}.+\n)+)", re.MULTILINE)
_BUILD = re.compile(
    r"^ *(\w*(?:Error|Exception|Exit)\b.*|error: .+|fatal error: .+|.*: fatal error: .+)$", re.MULTILINE
)
_COMPILER = re.compile(r"^ *(\S+:\d+(?::\d+)?: (?:fatal )?error: .+|\S+: fatal error: .+)$", re.MULTILINE)
_CMAKE = re.compile(r"^( *)CMake Error at (\S+:\d+).*:\n(?: *\n)*((?:\1 +\S.*\n)+)", re.MULTILINE)
_HINTS = {
    "Python.h": "apt-get install python3-dev",
    "mpi.h": "apt-get install libopenmpi-dev",
    "Killed signal": "too little memory: set MAKEFLAGS: -j1 in the build's variables",
}
"""Fixes for frequent errors of compilers."""
_BUILDS = re.compile(r"^ +error: subprocess-exited|^ *× |Failed building wheel for|Failed to build", re.MULTILINE)
_UV = re.compile(r"^\s*(?:error: |× )(.+(?:\n\s+(?:╰─▶|├─▶|│|  ).+)*)", re.MULTILINE)
_UV_CAUSE = re.compile(r"^  (?:cause: |Caused by: |[├╰]─▶ )(.+(?:\n {9}.+)*)", re.MULTILINE)
_UV_NO_LINE = re.compile(
    r"(?:error sending request|HTTP status server error \((?P<status>.+?)\)) for url \((?P<url>\S+)\)"
)
_UV_REFUSED = re.compile(r"An\s+index(?:\s+URL)?\s+\((?P<url>\S+)\)[^()]*?\(?(?P<status>40[13]\s+\w+)")
_UV_NOT_THERE = re.compile(r"Because\s+(\S+)\s+was\s+not\s+found\s+in\s+the\s+package\s+registry")
_CONDA = re.compile(
    r"^(?:error\s+libmamba|critical libmamba|\w+Error:|\S+NotFoundError:)\s*(.+(?:\n\s+.+)*)", re.MULTILINE
)
_NO_LINE = re.compile(
    r"after connection broken by|Could not fetch URL|Max retries exceeded with url|Read timed out|ReadTimeoutError"
    r"|NewConnectionError|NameResolutionError|ConnectTimeoutError|ProxyError|SSLError"
)
"""Messages of pip and urllib3 for an unreachable index; pip continues as if it were empty."""
_WHY_NO_LINE = re.compile(
    r"CERTIFICATE_VERIFY_FAILED|\[Errno -?\d+\] (?P<errno>[^'\"()\[\]]+)|(?P<proxy>Cannot connect to proxy)"
    r"|(?P<said>Read timed out|[Cc]onnect timeout|timed out|Connection reset by peer|Remote end closed connection"
    r"|Tunnel connection failed: [^'\"()]+)"
)
_INDEXES = re.compile(r"^Looking in indexes: (.+)$", re.MULTILINE)
_NAMED_HOST = re.compile(r"\bhost='([^'@]+)'")
_UNTRUSTED = re.compile(
    r"CERTIFICATE_VERIFY_FAILED|certificate verify failed|invalid peer certificate|SSL certificate problem"
    r"|SSL peer certificate"
)
_OTHERS_NO_LINE = re.compile(
    r"error sending request for url|HTTP status server error|tcp connect error|dns error"
    r"|CondaHTTPError|HTTP 000 CONNECTION FAILED"
    r"|Could not resolve host(?:name)?|Couldn't resolve host|Timeout was reached|Failed to connect to"
    r"|Temporary failure in name resolution"
)
"""Messages of uv, conda and micromamba for an unreachable index."""
_DISK = re.compile(r"No space left on device|Disk quota exceeded")
_NAME = re.compile(r"[A-Za-z0-9](?:[\w.-]*[A-Za-z0-9])?")


def explain(wanted: PythonEnvironment, tool: str, output: str, code: int) -> str:
    """One message: `environment mine: pip found no version of nosuchpkg==9 (environment.yml, line 7)`.

    output: the tool's. code: its exit code, or the negative signal number.
    """
    if full := _DISK.search(output):
        return f"environment {wanted.name}: {tool}: {full[0]}"
    what = _words(tool, output) or _end(output, code)
    message = f"environment {wanted.name}: {tool} {_short(what)}"
    asked = blamed(wanted, what) or blamed(wanted, _begun(output))
    return f"{message} ({asked})" if asked else message


def is_transient(tool: str, output: str) -> bool:
    """Whether the cause is a temporarily unreachable host."""
    if tool in ("pip", "venv"):
        return bool(why := _unreached(output)) and not _UNTRUSTED.search(why)
    return bool(_OTHERS_NO_LINE.search(output)) and not _UNTRUSTED.search(output)


def _unreached(output: str) -> str:
    """The line before pip's error that says why it had no index; "" = it had one, or failed for another reason."""
    lines = [line for line in output.splitlines() if _NO_LINE.search(line)]
    errors = _PIP.findall(output)
    is_cause = any(_NO_VERSION.search(one) or _NO_LINE.search(one) for one in errors)
    if not lines or not is_cause:
        return ""
    return next((line for line in lines if _WHY_NO_LINE.search(line)), lines[0])


def _explain_missing_index(output: str) -> str:
    """`could not reach the index pypi.org (Connection refused), and so found no version of tiny`; "" = it was
    reachable.
    """
    line = _unreached(output)
    if not line:
        return ""
    match = _WHY_NO_LINE.search(line)
    why = next((one for one in match.groups() if one), "its certificate isn't trusted on this node") if match else ""
    asked = next((missing[1] for one in _PIP.findall(output) if (missing := _NO_VERSION.search(one))), "")
    return _without_index("could not reach", _host(line) or _hosts(output), why, asked.partition(" (from ")[0])


def _host(line: str) -> str:
    """The host that a warning names; older versions of pip print only the path."""
    match = _NAMED_HOST.search(line)
    return match[1] if match else ""


def _hosts(output: str) -> str:
    """The hosts of pip's indexes."""
    match = _INDEXES.search(output)
    urls = match[1].split(", ") if match else ["https://pypi.org/simple"]
    return " or ".join(dict.fromkeys(host for url in urls if (host := _url_host(url)))) or "pypi.org"


def _url_host(url: str) -> str:
    """The host of a URL, without user and password."""
    return urlsplit(url).netloc.rpartition("@")[2]


def blamed(wanted: PythonEnvironment, what: str) -> str:
    """The requirement that an error names: `environment.yml, line 7`; "" if it is unclear."""
    index = _index(wanted.requirements, what)
    if index is None or not wanted.source:
        return "" if index is None else f"required by {wanted.requirements[index]}"
    number = wanted.lines[index] if index < len(wanted.lines) else 0
    return f"{wanted.source}, line {number}" if number > 0 else wanted.source


def _index(requirements: tuple[str, ...], what: str) -> int | None:
    """The requirement whose line pip prints, else the quoted one, else the one that is named first."""
    if match := _OF_OURS.search(what):
        number = int(match[1] or match[2])
        if number <= len(requirements):
            return number - 1
    places: list[tuple[int, int, int]] = []
    for index, text in enumerate(requirements):
        name = project_name(text)
        if name and (at := _find(name, what)) is not None:
            is_quoted = text != name and _squeezed(text) in _squeezed(what)
            places.append((0 if is_quoted else 1, at, index))
    return min(places)[2] if places else None


def project_name(requirement: str) -> str:
    """The project that a line requests; "" for an option."""
    match = _NAME.match(requirement)
    return match[0] if match else ""


def _find(name: str, what: str) -> int | None:
    spelt = re.sub(r"[-_.]+", "[-_.]+", re.escape(name).replace(r"\-", "-").replace(r"\.", "."))
    match = re.search(rf"(?<![\w.-]){spelt}(?![\w-]|\.\w)", what, re.IGNORECASE)
    return match.start() if match else None


def _words(tool: str, output: str) -> str:
    """The tool's own error; "" if it can't be recognized."""
    if tool in ("pip", "venv"):
        return _explain_pip(output)
    if tool == "uv":
        return _explain_uv(output)
    match = _CONDA.search(output)
    return f"says: {_joined(match[1])}" if match else ""


def _explain_uv(output: str) -> str:
    """The error in uv's output: its first versions draw a tree of causes, later ones a list."""
    if at := _UV_NO_LINE.search(output):
        last = (_UV_CAUSE.findall(output, at.end()) or [""])[-1]
        why = at["status"] or re.sub(r"^.*information: | \(os error \d+\)$", "", last)
        project = at["url"].rstrip("/").rpartition("/")[2] if at["url"].endswith("/") else ""
        return _without_index("could not reach", _url_host(at["url"]), why, project)
    if refused := _UV_REFUSED.search(output):
        project = next(iter(_UV_NOT_THERE.findall(output)), "")
        return _without_index("was refused by", _url_host(refused["url"]), refused["status"], project)
    match = _UV.search(output)
    if not match:
        return ""
    joined = _joined(match[1])
    inner = _BUILD.findall(output, match.end())[-1:] if "build" in joined else []
    return f"says: {': '.join([joined, *(inner or map(_joined, _UV_CAUSE.findall(output, match.end())))])}"


def _without_index(how: str, host: str, why: str, asked: str) -> str:
    message = f"{how} the index {host}" + (f" ({' '.join(why.split())})" if why else "")
    return f"{message}, and so found no version of {asked}" if asked else message


def _joined(lines: str) -> str:
    """The text as one line, without the lines of a tree."""
    return " ".join(re.sub(r"[\u2500-\u257f▶×]+", " ", lines).split())


def _explain_pip(output: str) -> str:
    if unreached := _explain_missing_index(output):
        return unreached
    errors = _PIP.findall(output)
    for line in errors:
        if match := _NO_VERSION.search(line):
            asked, versions = match[1], match[2]
            of = asked.partition(" (from ")
            through = f" (which {of[2].rstrip(')')} requires)" if of[1] and not of[2].startswith("-r") else ""
            has = f"; available: {_last(versions)}" if versions not in ("", "none") else ""
            return f"found no version of {of[0]}{through}{has}"
    if conflict := _CONFLICT.search(output):
        parts = "; ".join(line.strip() for line in conflict[1].splitlines())
        return f"can't fulfil all requirements at once: {parts}"
    if _BUILDS.search(output) and (compiler := _compiler_error(output)):
        return f"could not build {_package(output)}: {compiler}"
    if _BUILDS.search(output) and (builds := _BUILD.findall(output)):
        inner = [line for line in builds if not line.startswith(("ERROR", "error: subprocess", "error: metadata"))]
        return f"could not build {_package(output)}: {(inner or builds)[-1]}"
    return f"says: {errors[0]}" if errors else ""


def _compiler_error(output: str) -> str:
    """The first error of a compiler, or of CMake before it: later ones are its consequences."""
    if compiler := _COMPILER.search(output):
        hint = next((hint for words, hint in _HINTS.items() if words in compiler[1]), "")
        return f"{compiler[1]} ({hint})" if hint else compiler[1]
    cmake = _CMAKE.search(output)
    return f"{cmake[2]}: {' '.join(cmake[3].split())}" if cmake else ""


def _package(output: str) -> str:
    """The package that pip was building: it prints a name only once it builds the wheel."""
    if match := _FAILED_TO_BUILD.search(output):
        return match[1]
    begun = _BEGUN.match(_begun(output))
    return re.sub(r"-\d.*", "", begun[1].rpartition("/")[2]) if begun else "a package"


def _begun(output: str) -> str:
    """The line with which pip began the failed build; "" = no build failed."""
    failed = _BUILDS.search(output)
    if failed is None:
        return ""
    named = _FAILED_TO_BUILD.search(output)
    begun = [match[0] for match in _BEGUN.finditer(output, 0, failed.start())]
    return next((one for one in reversed(begun) if named is None or _find(named[1], one) is not None), "")


def _last(versions: str) -> str:
    """The last few versions of a list."""
    parts = versions.split(", ")
    return ", ".join(parts) if len(parts) <= 5 else f"… {', '.join(parts[-5:])}"


def _end(output: str, code: int) -> str:
    how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
    last = next((line.strip() for line in reversed(output.splitlines()) if line.strip()), "")
    return f"{how}: {last}" if last else how


def _short(text: str) -> str:
    joined = " ".join(text.split()).rstrip(".")
    return joined if len(joined) <= LONGEST else f"{joined[: LONGEST - 1]}…"


def _squeezed(text: str) -> str:
    return re.sub(r"\s+", "", text).lower()
