"""What every place for files promises of the outputs of jobs."""

from __future__ import annotations

import pytest

from drumbeat.model.errors import StaleError
from drumbeat.server.home_folder import FolderArtifacts
from tests.support.artifacts_access import ArtifactsAccess, Open, contents, described, give


class OutputContract(ArtifactsAccess):
    """Outputs: sent in parts, shown at once, by the lowest node of the newest attempt."""

    def test_nodes_may_give_their_outputs_to_two_servers(self, open_artifacts: Open) -> None:
        servers = [open_artifacts(), open_artifacts()]
        for server in servers:
            assert contents(server, "a") == {}
        for node in range(4):
            give(servers[node % 2], 1, node, {"same": b"node %d" % node, f"own {node}": b"x"})
        shown = {"outputs/same": b"node 0", **{f"outputs/own {node}": b"x" for node in range(4)}}
        for server in (*servers, open_artifacts()):
            assert contents(server, "a") == shown
        give(servers[0], 2, 0, {"new": b"2"})
        with pytest.raises(StaleError):
            servers[1].append_output("a", 1, 0, "late", 0, b"1")
        assert contents(servers[1], "a") == {"outputs/new": b"2"}

    def test_outputs_are_shown_when_all_of_them_are_right(
        self, artifacts: FolderArtifacts, open_artifacts: Open
    ) -> None:
        files = {"default/model.pt": b"weights", "default/deep/er.txt": b"text", "empty": b""}
        for path, data in files.items():
            if data:
                assert artifacts.append_output("a", 1, 0, path, 0, data[:3]) == min(3, len(data))
        assert artifacts.commit_outputs("a", 1, 0, described(files)) == ["default/model.pt", "default/deep/er.txt"]
        assert artifacts.files("a") == []
        again = open_artifacts()
        for path, data in files.items():
            assert again.append_output("a", 1, 0, path, 0, data) == len(data)
        assert again.files("a") == []
        for _ in range(2):
            assert again.commit_outputs("a", 1, 0, described(files)) == []
        for one in (again, open_artifacts()):
            assert contents(one, "a") == {f"outputs/{path}": data for path, data in files.items()}

    def test_a_file_that_came_out_wrong_begins_anew(self, artifacts: FolderArtifacts) -> None:
        artifacts.append_output("a", 1, 0, "m", 0, b"wrong")
        artifacts.append_output("a", 1, 0, "good", 0, b"good")
        files = described({"m": b"right", "good": b"good"})
        assert artifacts.commit_outputs("a", 1, 0, files) == ["m"]
        assert artifacts.append_output("a", 1, 0, "m", 0, b"right") == 5
        assert artifacts.commit_outputs("a", 1, 0, files) == []
        assert contents(artifacts, "a") == {"outputs/m": b"right", "outputs/good": b"good"}

    @pytest.mark.parametrize("order", [(0, 1), (1, 0)])
    def test_the_lower_node_s_file_is_kept(self, artifacts: FolderArtifacts, order: tuple[int, int]) -> None:
        for node in order:
            give(artifacts, 1, node, {"same": b"node %d" % node, f"own {node}": b"", "x" if node else "x/y": b"z"})
        give(artifacts, 1, 1, {"same": b"node 1", "own 1": b"", "x": b"z"}, is_sent=False)
        shown = {"outputs/same": b"node 0", "outputs/own 0": b"", "outputs/own 1": b"", "outputs/x/y": b"z"}
        assert contents(artifacts, "a") == shown

    def test_a_newer_attempt_takes_the_older_one_s_place(self, artifacts: FolderArtifacts) -> None:
        give(artifacts, 1, 0, {"old": b"1", "both": b"1", "deep/file": b"1"})
        give(artifacts, 1, 1, {"old too": b"1"})
        give(artifacts, 2, 0, {"both": b"2", "deep": b"2"})
        assert contents(artifacts, "a") == {"outputs/both": b"2", "outputs/deep": b"2"}
        with pytest.raises(StaleError):
            artifacts.append_output("a", 1, 0, "late", 0, b"1")
        with pytest.raises(StaleError):
            artifacts.commit_outputs("a", 1, 0, described({}))
        assert contents(artifacts, "a") == {"outputs/both": b"2", "outputs/deep": b"2"}

    def test_a_node_may_replace_and_withdraw_what_it_gave(self, artifacts: FolderArtifacts) -> None:
        give(artifacts, 1, 0, {"a": b"1", "b": b"1", "c": b"1", "a line\nbreak ": b""})
        artifacts.append_output("a", 1, 0, "b", 0, b"22")
        assert artifacts.commit_outputs("a", 1, 0, described({"a": b"1", "b": b"22"})) == []
        assert contents(artifacts, "a") == {"outputs/a": b"1", "outputs/b": b"22"}

    def test_what_was_sent_and_never_shown_goes_with_its_attempt(
        self, artifacts: FolderArtifacts, open_artifacts: Open
    ) -> None:
        give(artifacts, 1, 0, {"shown": b"1"})
        for node in (0, 1):
            artifacts.append_output("a", 1, node, "half", 0, b"1")
        artifacts.append_output("a", 2, 0, "next", 0, b"2")
        for one in (artifacts, open_artifacts()):
            one.drop_parts("a", 1)
        artifacts.drop_parts("nobody", 1)
        assert contents(artifacts, "a") == {"outputs/shown": b"1"}
        for node in (0, 1):
            assert artifacts.append_output("a", 1, node, "half", 5, b"") == 0
        assert artifacts.append_output("a", 2, 0, "next", 5, b"") == 1
        assert artifacts.commit_outputs("a", 1, 0, described({"shown": b"1", "half": b"1"})) == ["half"]
        give(artifacts, 2, 0, {"next": b"2"}, is_sent=False)
        assert contents(artifacts, "a") == {"outputs/next": b"2"}
