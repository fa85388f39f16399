"""Which files of a job are TensorBoard's, and what their metrics are called."""

from __future__ import annotations

from drumbeat.control.metrics.event_files import is_event_file, names_of_folders

ONE = "outputs/default/runs/a/events.out.tfevents.1.host"
OTHER = "outputs/default/runs/b/c/events.out.tfevents.2.host"
ABOVE = "outputs/default/runs/events.out.tfevents.3.host"


def test_only_event_files_among_the_outputs_are_read():
    assert is_event_file(ONE)
    assert not is_event_file("logs/1.1/0/events.out.tfevents.1")
    assert not is_event_file("outputs/default/model.pt")


def test_files_of_one_folder_are_named_by_their_tags_alone():
    assert names_of_folders([ONE, ONE + ".v2"]) == ["", ""]


def test_files_of_several_folders_are_told_apart_by_what_differs():
    assert names_of_folders([ONE, OTHER, ABOVE]) == ["a/", "b/c/", ""]
