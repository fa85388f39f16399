"""`note` and `tag`: the notes of jobs and experiments, and the display names and tags of jobs."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from drumbeat.cli.terminal.connect import connect
from drumbeat.cli.terminal.help import Job
from drumbeat.cli.terminal.job_names import find_job
from drumbeat.cli.terminal.untrusted_text import safe_lines
from drumbeat.model.api.requests import Labels
from drumbeat.model.errors import RefusedError, SpecError, StorageError
from drumbeat.model.metrics import NOTE_TAG

if TYPE_CHECKING:
    from collections.abc import Callable


def note(
    job: Annotated[Job | None, typer.Argument(metavar="[JOB]", help="A job; with --experiment, leave it out.")] = None,
    text: Annotated[str | None, typer.Argument(metavar="[TEXT]", help="Markdown. Printed when absent.")] = None,
    file: Annotated[Path | None, typer.Option("--file", help="A file with the text; - reads standard input.")] = None,
    edit: Annotated[bool, typer.Option("--edit", help="Change the note in $EDITOR.")] = False,
    clear: Annotated[bool, typer.Option("--clear", help="Remove the note.")] = False,
    title: Annotated[str | None, typer.Option("--title", help="Give the job this display name, instead.")] = None,
    experiment: Annotated[str | None, typer.Option("--experiment", help="The note of this experiment.")] = None,
) -> None:
    """Print or write the note of a job or an experiment, or give a job another display name.

    The note of a job is its `description`, and MLflow's note of its run. With --edit, nothing is overwritten that
    another user has written meanwhile.
    """
    if experiment is not None:
        job, text = None, text if text is not None else job
    given = sum((text is not None, file is not None, edit, clear, title is not None))
    if given > 1:
        raise RefusedError("name one of TEXT, --file, --edit, --clear and --title")
    if (job is None) == (experiment is None) or (experiment is not None and title is not None):
        raise RefusedError("name either a job or --experiment", fix="drumbeat note @last 'the best so far'")
    client = connect()
    write: Callable[[str, str | None], object]
    if experiment is not None:
        name = experiment
        now = client.experiment(name).tags.get(NOTE_TAG, "")
        write = lambda new, seen: client.write_experiment_note(name, new, seen=seen)  # noqa: E731 - one line each
    else:
        one = find_job(client, job or "")
        name, now = one.name, one.description
        if title is not None:
            print(f"{name}: called {client.change_job(name, display_name=title).display_name or name}")
            return
        write = lambda new, seen: client.change_job(  # noqa: E731
            name, description=new, seen=None if seen is None else Labels(description=seen)
        )
    if not given:
        print(*safe_lines(now), sep="\n")
        return
    seen = now if edit else None
    new = "" if clear else _edited(now) if edit else _read(file) if file is not None else text or ""
    if edit and new == now:
        print(f"{name}: the note stays as it is")
        return
    write(new, seen)
    print(f"{name}: {'note written' if new else 'note removed'}")


def tag(
    words: Annotated[
        list[str],
        typer.Argument(metavar="JOB… KEY=VALUE…", help="Names of jobs, their beginnings, or @last; then the tags."),
    ],
    remove: Annotated[list[str] | None, typer.Option("--remove", metavar="KEY", help="Remove a tag.")] = None,
) -> None:
    """Set and remove tags of jobs, which are the tags of their MLflow runs. Other tags stay."""
    jobs = [word for word in words if "=" not in word]
    pairs = [word.partition("=") for word in words if "=" in word]
    changes: dict[str, str | None] = {key: value for key, _, value in pairs}
    if twice := [key for key in remove or () if key in changes]:
        raise SpecError(f"tag {twice[0]} is both set and removed", where="--remove")
    changes |= dict.fromkeys(remove or ())
    if not jobs or not changes:
        what = "no job is named" if not jobs else "no tag is named"
        raise RefusedError(what, fix="drumbeat tag @last team=vision --remove draft")
    client = connect()
    names = list(dict.fromkeys(find_job(client, job).name for job in jobs))
    for name in names:
        tags = client.change_job(name, tags=changes).tags
        print(*safe_lines(f"{name}: {', '.join(f'{key}={value}' for key, value in tags.items()) or 'no tags'}"))


def _edited(text: str) -> str:
    """Returns the text as the user leaves it in their editor. Raises RefusedError if the editor fails."""
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "note.md")
        file.write_text(text, encoding="utf-8")
        try:
            subprocess.run([*shlex.split(editor), str(file)], check=True)
        except (OSError, ValueError, subprocess.CalledProcessError) as error:
            what = f"the editor failed, and nothing is changed: {error}"
            raise RefusedError(
                what, where=editor, fix="Name another one in EDITOR, or write the text with --file."
            ) from error
        return _read(file)


def _read(file: Path) -> str:
    if str(file) == "-":
        return sys.stdin.read().rstrip("\n")
    try:
        return file.read_text(encoding="utf-8").rstrip("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise StorageError(f"the note can't be read: {error}", where=str(file)) from error
