"""`Image`, `Table`, `Histogram`, `Text`: what `drumbeat.log` takes beside numbers.

Their constructors never raise: an object that can't be kept carries its reason, which `drumbeat.log` prints. Arrays,
tensors, pictures and data frames are recognized by their methods; none of their packages is imported.
"""

from __future__ import annotations

import io
import json
import math
import os
import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, ClassVar, NamedTuple, cast

from drumbeat.rank import histogram_bins

MAX_BYTES = 16 << 20
"""The maximum size of one image, table or text as it is kept."""
MAX_PIXEL_BYTES = 64 << 20
"""The maximum size of the pixels of an array."""
MAX_IMAGES = 64
"""The maximum number of images of one name and step of a rank."""
MAX_CAPTION = 500
"""The maximum characters of an image's caption."""
MAX_KEY = 150
"""The longest name in characters: it is part of a file's name."""
_KEY = re.compile(r"[A-Za-z0-9_\-./ ]+")
_MAGICS = ((b"\x89PNG\r\n\x1a\n", "png"), (b"\xff\xd8\xff", "jpg"), (b"GIF8", "gif"))
_CHANNELS = {1: 0, 3: 2, 4: 6}
"""PNG's colour type by the number of channels."""


class Media:
    """What is logged at a step as a file."""

    kind: ClassVar[str] = ""
    """The folder of its files among the run's artifacts."""
    ending = "json"

    def __init__(self) -> None:
        self.fault = ""
        """Why it can't be kept, "" = it can."""
        self.size = 0
        """How many bytes it holds until it is sent."""

    def content(self) -> bytes:
        """Returns the content of its file, which takes a while for an array."""
        raise NotImplementedError


class LoggedImage(Media):
    """An image: the bytes of a PNG, JPEG, GIF or WebP file, a path to one, a picture of Pillow, an array, a tensor, a
    figure of matplotlib.

    Arrays have the shape height × width, with 1, 3 or 4 channels after it or, as those of tensors are, before it. They
    have integers from 0 to 255 or floats from 0 to 1, beyond which values are cut off.
    """

    kind = "images"

    def __init__(self, data: Any, caption: str = "") -> None:
        super().__init__()
        self.caption = str(caption)[:MAX_CAPTION]
        self.ending = "png"
        self._content, self._pixels, self._shape = b"", b"", (0, 0, 0)
        try:
            self._read(data)
        except Exception as error:  # noqa: BLE001 (of a foreign object; a picture never ends a training)
            self.fault = f"the image can't be read: {type(error).__name__}: {error}"
        self.size = len(self._content) + len(self._pixels)

    def _read(self, data: Any) -> None:
        if isinstance(data, bytes | bytearray | memoryview):
            view = memoryview(cast("bytes", data))
            self._take(view, view.nbytes)
        elif isinstance(data, str) or hasattr(data, "__fspath__"):
            size = os.stat(data).st_size  # noqa: PTH116 (pathlib would be imported for this alone)
            if size > MAX_BYTES:
                self.fault = _too_large("an image", size)
                return
            with open(data, "rb") as file:  # noqa: PTH123
                self._take(file.read(), size)
        elif hasattr(data, "savefig"):
            self._render(partial(data.savefig, format="png"))
        elif hasattr(data, "mode") and hasattr(data, "save"):
            picture = data if data.mode in ("1", "L", "LA", "P", "RGB", "RGBA", "I;16") else data.convert("RGB")
            self._render(partial(picture.save, format="PNG"))
        elif hasattr(data, "shape"):
            self._take_array(data)
        else:
            self.fault = f"an image can't be made of {type(data).__name__}"

    def _render(self, save: Callable[[io.BytesIO], object]) -> None:
        file = io.BytesIO()
        save(file)
        self._take(file.getvalue(), file.tell())

    def _take(self, content: bytes | memoryview, size: int) -> None:
        if size > MAX_BYTES:
            self.fault = _too_large("an image", size)
            return
        self._content = bytes(content)
        is_webp = self._content[:4] == b"RIFF" and self._content[8:12] == b"WEBP"
        by_magic = next((one for magic, one in _MAGICS if self._content.startswith(magic)), "")
        self.ending = "webp" if is_webp else by_magic
        if not self.ending:
            self._content, self.fault = b"", "its bytes are no PNG, JPEG, GIF or WebP file"

    def _take_array(self, array: Any) -> None:
        # Imported before the thread packs the pixels: a fork during an import would leave the child with half a module.
        for name in ("struct", "zlib"):
            __import__(name)
        shape = tuple(int(one) for one in array.shape)
        if math.prod(shape) == 0 or math.prod(shape) > MAX_PIXEL_BYTES:
            self.fault = f"an array has 1 to {MAX_PIXEL_BYTES:,} values, and this one has shape {list(shape)}"
            return
        is_tensor = hasattr(array, "detach")
        if is_tensor:  # NumPy doesn't know its half precisions.
            array = array.detach().cpu()
            array = array.float().numpy() if array.is_floating_point() else array.numpy()
        if len(shape) == 3 and shape[0] in _CHANNELS and (is_tensor or shape[2] not in _CHANNELS):
            array = array.transpose(1, 2, 0)
        elif len(shape) == 2:
            array = array.reshape(*shape, 1)
        if len(array.shape) != 3 or array.shape[2] not in _CHANNELS:
            fix = ": log a batch as a list of images" if len(shape) == 4 else ""
            self.fault = f"an array is height × width × 1, 3 or 4 values, and this one has shape {list(shape)}{fix}"
            return
        kind = array.dtype.kind
        if kind == "f":
            array = array.clip(0, 1) * 255 + 0.5
            array[array != array] = 0  # noqa: PLR0124 (NaN is no colour)
        elif kind == "b":
            array = array * 255
        elif kind in "iu":
            array = array.clip(0, 255)
        else:
            self.fault = f"an array has numbers, and this one has {array.dtype}"
            return
        self._pixels, self._shape = array.astype("uint8").tobytes(), tuple(array.shape)

    def content(self) -> bytes:
        """Returns the content of its file."""
        return self._content or png(self._pixels, *self._shape)


class LoggedTable(Media):
    """A table: names of columns and rows, or a data frame of pandas or polars."""

    kind = "tables"

    def __init__(self, columns: Iterable[object] | None = None, data: Any = None, *, dataframe: Any = None) -> None:
        super().__init__()
        self.columns: list[str] = []
        self.rows: list[list[Any]] = []
        frame = dataframe if dataframe is not None else data if hasattr(data, "columns") else None
        try:
            if frame is not None:
                columns, data = list(frame.columns), frame.rows() if hasattr(frame, "rows") else frame.values.tolist()
            self.rows = [[_cell(cell) for cell in row] for row in (() if data is None else data)]
            widest = max((len(row) for row in self.rows), default=0)
            self.columns = [str(one) for one in columns] if columns is not None else [str(n) for n in range(widest)]
        except Exception as error:  # noqa: BLE001 (of a foreign object)
            self.fault = f"the table can't be read: {type(error).__name__}: {error}"

    def add_data(self, *cells: object) -> None:
        """Adds a row."""
        self.rows.append([_cell(cell) for cell in cells])

    def content(self) -> bytes:
        """Returns the content of its file, in the form of MLflow's `log_table`."""
        return json.dumps({"columns": self.columns, "data": self.rows}).encode()

    def check(self) -> str:
        """Returns why it can't be kept as it is now, "" = it can."""
        width = len(self.columns)
        odd = next((n for n, row in enumerate(self.rows) if len(row) != width), None)
        if odd is None:
            return ""
        return f"a row of the table has a cell for each of its {width} columns, and row {odd} has {len(self.rows[odd])}"


class LoggedHistogram(Media):
    """A histogram of values, or of counts and edges as NumPy's `histogram` gives them: one edge more than counts."""

    kind = "histograms"

    def __init__(self, values: Any = None, *, np_histogram: Any = None, num_bins: int = 64) -> None:
        super().__init__()
        self.counts: list[float] = []
        self.edges: list[float] = []
        try:
            made = (
                histogram_bins.given(np_histogram) if np_histogram is not None else histogram_bins.of(values, num_bins)
            )
            self.counts, self.edges = made
        except Exception as error:  # noqa: BLE001 (of a foreign object)
            self.fault = f"the histogram can't be made: {error}"

    def content(self) -> bytes:
        """Returns the content of its file."""
        return json.dumps({"counts": self.counts, "edges": self.edges}).encode()


class LoggedText(Media):
    """A text, such as what a model has written."""

    kind, ending = "texts", "txt"

    def __init__(self, text: object) -> None:
        super().__init__()
        self.text = str(text)
        self.size = len(self.text)
        if self.size > MAX_BYTES:
            self.fault, self.text = _too_large("a text", self.size), ""

    def content(self) -> bytes:
        """Returns the content of its file."""
        return self.text.encode("utf-8", "replace")


class MediaFile(NamedTuple):
    """One file of a call, as it was at the call."""

    kind: str
    ending: str
    size: int
    """How many bytes it holds until it is sent."""
    content: Callable[[], bytes]
    caption: str = ""


def entry_of(media: Media) -> MediaFile:
    """Returns what is kept of an object now: a table may get further rows, and an image never changes."""
    if isinstance(media, LoggedImage):
        return MediaFile(media.kind, media.ending, media.size, media.content, media.caption)
    content = media.content()
    return MediaFile(media.kind, media.ending, len(content), lambda: content)


# The names by which scripts make them, as `wandb`'s are.
Image = LoggedImage
Table = LoggedTable
Histogram = LoggedHistogram
Text = LoggedText


def media_of(value: object) -> tuple[Media, ...]:
    """Returns what a value of `drumbeat.log` has to show; () = the value isn't of this kind."""
    if isinstance(value, Media):
        return (value,)
    if isinstance(value, list | tuple):
        parts = tuple(cast("Sequence[object]", value))
        images = tuple(one for one in parts if isinstance(one, LoggedImage))
        return images if len(images) == len(parts) else ()
    return ()


def fault_of(name: str, media: Sequence[Media]) -> str:
    """Returns why these can't be kept by this name, "" = they can."""
    if not _KEY.fullmatch(name) or len(name) > MAX_KEY or ".." in name.split("/"):
        return f"its name must have 1 to {MAX_KEY} letters, digits, blanks and signs of _-./ as it is no number"
    if len(media) > MAX_IMAGES:
        return f"a step has at most {MAX_IMAGES} images of a name, and these are {len(media)}"
    return next(
        (fault for one in media if (fault := one.fault or (one.check() if isinstance(one, LoggedTable) else ""))), ""
    )


def png(pixels: bytes, height: int, width: int, channels: int) -> bytes:
    """Returns pixels of 8 bits a channel as a PNG file."""
    import struct
    import zlib

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    row = width * channels
    # Filter 0 at the beginning of each row.
    lines = b"".join(b"\0" + pixels[n * row : (n + 1) * row] for n in range(height))
    head = struct.pack(">IIBBBBB", width, height, 8, _CHANNELS[channels], 0, 0, 0)
    return _MAGICS[0][0] + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(lines, 6)) + chunk(b"IEND", b"")


def _cell(value: Any) -> Any:
    """Returns a cell as JSON has it: a number that isn't finite, and what isn't known, as text."""
    if hasattr(value, "item") and not getattr(value, "shape", ()):
        value = value.item()
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if value is None or isinstance(value, bool | int | str):
        return value
    return str(value)[:MAX_CAPTION]


def _too_large(what: str, size: int) -> str:
    return f"{what} has at most {MAX_BYTES >> 20} MiB, and this one has {size / (1 << 20):,.1f}"
