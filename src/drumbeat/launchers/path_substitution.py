"""Fills a node's paths into the job's command: `${{inputs.x}}`, `${{outputs.x}}`.

Values that are known earlier are filled in earlier: literal inputs and the job's name by `core/planning/plan.py`
(`_resolved`), the values of a trial by `core/sweeps/trial_jobs.py`. `jobfile/reading/expressions.py` reads the
expressions.
"""

from __future__ import annotations

import re
import shlex

from drumbeat.model import folder_layout
from drumbeat.model.plan import Plan, StagedFiles

_FILE_REFERENCE = re.compile(r"\$\{\{\s*(inputs|outputs)\.([A-Za-z_]\w*)\s*\}\}")
_HERE_DOCUMENT = (
    r"(?<!<)<<-?[ \t]*(?P<quote>['\"]?)(?P<word>\w+)(?P=quote)[^\n]*\n(?:[^\n]*\n)*?"
    r"(?:\t*(?P=word)(?![^\n])|(?P<unfinished>[^\n]*\Z))"
)
_COMMENT = r"(?<![^\s;&|()])#[^\n]*"
_NEXT = {
    "": re.compile(rf"\\.|{_HERE_DOCUMENT}|{_COMMENT}|['\"]", re.DOTALL),
    "'": re.compile("'"),
    '"': re.compile(r"\\.|\"", re.DOTALL),
}
"""The next token that matters in shell text, by the open quote (POSIX shell command language, 2.2, 2.3 and 2.7.4)."""


def node_paths(plan: StagedFiles, root: str) -> dict[str, dict[str, str]]:
    """Paths of the job's inputs and outputs on the node whose attempt folder is `root`."""
    return {
        "inputs": {i.name: folder_layout.input_seen(root, i) for i in plan.inputs},
        "outputs": {o.name: folder_layout.output_seen(root, o) for o in plan.outputs},
    }


def fill(plan: Plan, root: str, text: str | None = None) -> str:
    """The command (or another text) with every `${{inputs.x}}` and `${{outputs.x}}` of a file replaced.

    A path that a shell would split is quoted, as the surrounding quotes require. An output that the ranks write
    directly is its variable, so that the signature in it doesn't appear in a list of processes.
    """
    direct = {one.name for one in plan.outputs if one.mode == "direct"}
    paths = node_paths(plan, root)
    command = plan.command if text is None else text

    def replaced(reference: re.Match[str]) -> str:
        inside = _open_quote(command[: reference.start()])
        if reference[2] not in paths[reference[1]]:
            return reference[0]  # A compute's setup command belongs to no job: its shell rejects the text.
        if reference[1] == "outputs" and reference[2] in direct:
            return _variable(f"AZURE_ML_OUTPUT_{reference[2]}", inside)
        return _quoted(paths[reference[1]][reference[2]], inside)

    return _FILE_REFERENCE.sub(replaced, command)


def _variable(name: str, inside: str) -> str:
    """The shell text that expands a variable to one word."""
    return {"": f'"${name}"', '"': f"${{{name}}}"}.get(inside, f"'\"${name}\"'")


def _quoted(path: str, inside: str) -> str:
    if inside == "'":
        return path.replace("'", "'\\''")
    if inside == '"':
        return re.sub(r'([$`"\\])', r"\\\1", path)
    return shlex.quote(path)


def _open_quote(text: str) -> str:
    """The quote character that is still open at the end of this shell text, or "".

    Quotes in comments and here-documents don't count. An unfinished here-document expands variables like double quotes.
    """
    inside, at = "", 0
    while mark := _NEXT[inside].search(text, at):
        at = mark.end()
        if mark[0] in ("'", '"'):
            inside = "" if inside else mark[0]
        elif not inside and mark["unfinished"] is not None:
            return '"'
    return inside
