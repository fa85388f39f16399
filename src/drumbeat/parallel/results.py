"""The results of a step as one file, in the order of the input, which appears whole."""

from __future__ import annotations

import os

from drumbeat.parallel.journal import MiniBatchJournal
from drumbeat.parallel.settings import ParallelSettings


def results_file(settings: ParallelSettings) -> str:
    """The file that gets the results; "" = none does."""
    if settings.append_to and os.path.isdir(settings.append_to):
        return os.path.join(settings.append_to, settings.file_name)
    return settings.append_to


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
