"""Files of a run that belong to a step: images, tables, histograms and texts. Their names are those of MLflow's images:
`images/<key>+step+<step>+timestamp+<ms>+<id>.<ending>`, with `~` in place of the slashes of a key.

Of `drumbeat.log` the id is `<rank>-<index>`; of MLflow's clients it is a UUID.
"""

from __future__ import annotations

import re

ENDINGS = {
    "images": ("png", "jpg", "gif", "webp", "captions.json"),
    "tables": ("json",),
    "histograms": ("json",),
    "texts": ("txt",),
}
"""What files each folder has."""
MAX_BYTES = 16 << 20
_KEY = re.compile(r"[A-Za-z0-9_\-./ ]{1,150}")
_NAME = re.compile(
    rf"(?:{'|'.join(ENDINGS)})/[^/+%]{{1,150}}([+%])step\1-?[0-9]{{1,19}}\1timestamp\1[0-9]{{1,15}}\1[0-9A-Za-z.+%\-]{{1,80}}"
)


def step_file(kind: str, key: str, step: int, at_ms: int, id: str, ending: str) -> str:  # noqa: PLR0913 (the parts)
    """Returns the path of a file among the run's artifacts. Raises ValueError for parts that make none."""
    if ending not in ENDINGS.get(kind, ()):
        raise ValueError(f"files of {kind[:40]!r} don't end with {ending[:40]!r}")
    if not _KEY.fullmatch(key) or ".." in key.split("/"):
        raise ValueError(f"a key has 1 to 150 letters, digits, blanks and signs of _-./, not {key[:200]!r}")
    if abs(step) >= 1 << 63 or not 0 <= at_ms < 10**15:
        raise ValueError("a step has 64 bits, and a time is in milliseconds since 1970")
    return f"{kind}/{key.replace('/', '~')}+step+{step}+timestamp+{at_ms}+{id}.{ending}"


def is_step_file(path: str) -> bool:
    """Whether an artifact's path names a file of a step, of `drumbeat.log` or of MLflow's `log_image`."""
    return _NAME.fullmatch(path) is not None
