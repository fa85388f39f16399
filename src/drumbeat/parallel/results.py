"""The results of a step as one file, in the order of the input, which appears whole."""

from __future__ import annotations

import os

from drumbeat.parallel.journal import MiniBatchJournal
from drumbeat.parallel.settings import ParallelSettings


def results_file(settings: ParallelSettings) -> str:
    """The file that gets the results; "" = none does."""
    if not settings.append_to:
        return ""
    path = os.path.abspath(settings.append_to)
    return os.path.join(path, settings.file_name) if os.path.isdir(path) else path


def write(settings: ParallelSettings, journal: MiniBatchJournal) -> None:
    """Writes the results of all mini-batches. Raises OSError."""
    path = results_file(settings)
    if not path or not settings.is_appending:
        return
    os.makedirs(os.path.dirname(path), exist_ok=True)
    partial = os.path.join(os.path.dirname(path), f".{os.path.basename(path)}.partial")
    with open(partial, "w", encoding="utf-8", errors="surrogatepass") as file:
        file.writelines(journal.text(number) for number in sorted(journal.done))
        file.flush()
        os.fsync(file.fileno())
    os.replace(partial, path)
