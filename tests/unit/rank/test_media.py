"""What `drumbeat.log` takes beside numbers: how it is read, what is refused and how."""

import io
import json
import struct
import zlib
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image as Pillow

from drumbeat.rank.media import MAX_BYTES, Histogram, Image, Media, Table, Text, entry_of, fault_of, media_of
from drumbeat.rank.metric_log import MAX_HELD_BYTES

pytestmark = pytest.mark.feature("M16")

RED = np.zeros((2, 3, 3), np.uint8)
RED[:, :, 0] = 255


def pixels(image: Image) -> np.ndarray[Any, Any]:
    assert not image.fault
    return np.asarray(Pillow.open(io.BytesIO(image.content())))


@pytest.mark.parametrize(
    "array",
    [RED, RED / 255.0, RED.astype(np.int64), torch.tensor(RED).permute(2, 0, 1), torch.tensor(RED / 255.0).half()],
    ids=["uint8", "floats", "int64", "tensor-first", "half"],
)
def test_arrays_of_any_layout_become_the_same_image(array: Any):
    assert pixels(Image(array)).tolist() == RED.tolist()


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_an_array_is_read_back_with_its_channels(channels: int):
    array = np.arange(5 * 7 * channels, dtype=np.uint8).reshape(5, 7, channels)
    assert pixels(Image(array)).reshape(5, 7, channels).tolist() == array.tolist()


def test_values_beyond_the_range_are_cut_off_and_nan_is_black():
    assert pixels(Image(np.array([[-1.0, 0.5, 7.0, np.nan]]))).tolist() == [[0, 128, 255, 0]]
    assert pixels(Image(np.array([[True, False]]))).tolist() == [[255, 0]]


def test_an_array_that_changes_after_the_call_is_kept_as_it_was():
    array = RED.copy()
    image = Image(array)
    array[:] = 0
    assert pixels(image).tolist() == RED.tolist()


def test_pictures_files_and_figures_are_taken(tmp_path: Any):
    path = tmp_path / "red.png"
    Pillow.fromarray(RED).save(path)
    assert pixels(Image(path)).tolist() == pixels(Image(str(path))).tolist() == RED.tolist()
    assert pixels(Image(Pillow.fromarray(RED).convert("CMYK"))).shape == (2, 3, 3)
    assert Image(b"\xff\xd8\xff\xe0").ending == "jpg"
    assert Image(b"RIFF\0\0\0\0WEBPVP8 ").ending == "webp"

    class Figure:
        def savefig(self, file: io.BytesIO, format: str) -> None:
            Pillow.fromarray(RED).save(file, format)

    assert pixels(Image(Figure())).tolist() == RED.tolist()


FAULTS = [
    (Image(bytes(MAX_BYTES + 1)), "an image has at most 16 MiB, and this one has 16.0"),
    (Image(b"<svg onload=alert(1)>"), "its bytes are no PNG, JPEG, GIF or WebP file"),
    (Image(np.zeros((2, 3, 4, 5))), "shape [2, 3, 4, 5]: log a batch as a list of images"),
    (Image(np.zeros((0, 3))), "an array has 1 to 67,108,864 values, and this one has shape [0, 3]"),
    (Image(np.array([["a"]])), "an array has numbers, and this one has <U1"),
    (Image(object()), "an image can't be made of object"),
    (Image("/nowhere/a.png"), "the image can't be read: FileNotFoundError"),
    (Table(["a", "b"], [[1, 2], [3]]), "a row of the table has a cell for each of its 2 columns, and row 1 has 1"),
    (Table(["a"], [3]), "the table can't be read: TypeError"),
    (Histogram([]), "the histogram can't be made: there is no finite value"),
    (Histogram([1.0], num_bins=0), "num_bins is from 1 to 512, and not 0"),
    (Histogram(np_histogram=([1, 2], [0, 1])), "one edge more, not 2 and 2"),
    (Histogram(np_histogram=([1], [1, 0])), "its edges finite and ascending"),
    (Text("x" * (MAX_BYTES + 1)), "a text has at most 16 MiB"),
]


@pytest.mark.parametrize(("media", "fault"), FAULTS, ids=[fault for _, fault in FAULTS])
def test_what_cannot_be_kept_says_why_and_raises_nothing(media: Media, fault: str):
    assert fault in fault_of("name", [media])


def test_an_image_of_a_gigabyte_is_refused_without_a_copy():
    class Large:
        shape = (1 << 15, 1 << 15)

    assert "an array has 1 to 67,108,864 values" in fault_of("large", [Image(Large())])


@pytest.mark.parametrize("name", ["a+b", "ä", "../x", "a" * 151, "a:b"])
def test_a_name_that_makes_no_file_is_refused(name: str):
    assert "its name must have 1 to 150 letters" in fault_of(name, [Text("x")])


def test_many_images_of_a_step_are_refused():
    assert fault_of("x", [Image(RED)] * 65) == "a step has at most 64 images of a name, and these are 65"


def test_lists_are_images_only_if_all_of_them_are():
    images = [Image(RED), Image(RED)]
    assert media_of(images) == tuple(images)
    assert media_of([]) == media_of([images[0], 1]) == media_of([1.0]) == media_of(1.0) == ()


def test_tables_have_the_form_of_mlflow_and_cells_that_json_knows():
    table = Table(["n", "x"], [[np.int64(3), float("nan")], [None, "é"]])
    table.add_data(True, Text("t"))
    entry = entry_of(table)
    table.add_data(1, 2)
    assert json.loads(entry.content())["data"][:2] == [[3, "nan"], [None, "é"]]
    assert len(json.loads(entry.content())["data"]) == 3, "as it was at the call"


def test_data_frames_are_tables():
    class Pandas:
        columns = ("a",)
        values = np.array([[1], [2]])

    class Polars:
        columns = ("a",)

        def rows(self) -> list[tuple[int]]:
            return [(1,), (2,)]

    for frame in (Pandas(), Polars()):
        assert json.loads(Table(dataframe=frame).content()) == {"columns": ["a"], "data": [[1], [2]]}
        assert Table(data=frame).rows == [[1], [2]]


@pytest.mark.parametrize(
    "values", [[0, 1, 1, 3, float("inf")], np.array([0, 1, 1, 3, np.nan]), torch.tensor([0, 1, 1, 3.0])]
)
def test_histograms_count_finite_values_alike(values: Any):
    histogram = Histogram(values, num_bins=3)
    assert (histogram.counts, histogram.edges) == ([1, 2, 1], [0, 1, 2, 3])


def test_equal_values_are_one_bin_among_others():
    for values in ([2.0, 2.0], np.full(2, 2.0), torch.full((2,), 2.0)):
        assert sum(Histogram(values).counts) == 2


def test_ready_histograms_are_kept():
    histogram = Histogram(np_histogram=np.histogram([1, 2, 2], bins=2))
    assert (histogram.counts, histogram.edges) == ([1, 2], [1, 1.5, 2])


def test_a_png_has_right_sums():
    content = Image(RED).content()
    place = 8
    while place < len(content):
        (length,) = struct.unpack(">I", content[place : place + 4])
        data = content[place + 4 : place + 8 + length]
        assert struct.unpack(">I", content[place + 8 + length : place + 12 + length]) == (zlib.crc32(data),)
        place += 12 + length


def test_what_waits_is_less_than_a_machine_has():
    assert MAX_HELD_BYTES == 256 << 20
