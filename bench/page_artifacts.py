"""The artifacts that the page is measured with: a gallery of images by step, and a table."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

from drumbeat.model.metrics import run_id
from drumbeat.rank.media import png
from drumbeat.server.home_folder.artifacts import FolderArtifacts

DRAWN = "drawn"
"""The job that has them."""
STEPS, IMAGES, SIDE = 100, 8, 64
ROWS = 100_000
TABLE = "table/rows.csv"


def fill_artifacts(home: Path) -> None:
    """Writes the files as a node sends them, and shows them."""
    artifacts, files = FolderArtifacts(home), {}
    for path, content in (*images(), (TABLE, table())):
        artifacts.append_output(DRAWN, 1, 0, path, 0, content)
        files[path] = len(content), hashlib.sha256(content).hexdigest()
    if unfit := artifacts.commit_outputs(DRAWN, 1, 0, files):
        raise SystemExit(f"these outputs aren't shown: {unfit[:3]}")


def images() -> Iterator[tuple[str, bytes]]:
    """Yields the images of each step, as `drumbeat.log` names them. No two are equal."""
    for step in range(STEPS):
        for n in range(IMAGES):
            pixels = bytes((x * y + 2 * step + 31 * n) % 256 for y in range(SIDE) for x in range(SIDE))
            name = f"val~samples+step+{step}+timestamp+{1_795_877_508_045 + step}+0-{n}.png"
            yield f"mlflow-artifacts/{run_id(DRAWN)}/images/{name}", png(pixels, SIDE, SIDE, 1)


def table() -> bytes:
    """Returns a table of some columns."""
    rows = (f"{n},image-{n:06},{n * 7919 % 1009 / 1009:.6f},{n % 10}" for n in range(ROWS))
    return "\n".join(["number,name,loss,class", *rows, ""]).encode()
