"""Rosters: whole, brief, and packed by content."""

from __future__ import annotations

import pytest

from drumbeat.model.packed_roster import packed, unpacked
from drumbeat.model.roster import Member, Roster

pytestmark = pytest.mark.feature("C13")


def a_member(node: int, address: str) -> Member:
    return Member(node, f"h{node}", address, f"/nodes/{node}", "/keep")


def a_roster(*addresses: str) -> Roster:
    members = tuple(a_member(node, address) for node, address in enumerate(addresses))
    ports = tuple(2000 + node for node in range(len(members)))
    return Roster(1, 1, members, 2000, ports, tuple((port + 1000,) for port in ports))


def test_brief_roster_has_node_0_and_the_first_at_another_address():
    brief = a_roster("10.0.0.1", "10.0.0.1", "10.0.0.2", "10.0.0.3").brief("abc")
    assert [one.node for one in brief.members] == [0, 2]
    assert brief.held(2) == (2002, 3002)
    assert not brief.is_whole


def test_brief_roster_lacks_the_other_nodes():
    brief = a_roster("10.0.0.1", "10.0.0.2", "10.0.0.3").brief("abc")
    with pytest.raises(IndexError, match="no node 2"):
        brief.member(2)


def test_node_completes_a_brief_roster_with_its_own_entry():
    brief = a_roster("10.0.0.1", "10.0.0.2", "10.0.0.3").brief("abc")
    own = brief.with_member(a_member(2, "10.0.0.3"), (5, 6))
    assert (own.member(2).host, own.held(2), own.held(0)) == ("h2", (5, 6), (2000, 3000))
    assert own.with_member(a_member(0, "10.9.9.9"), (7,)) is own


def test_whole_roster_is_left_as_it_is():
    whole = a_roster("10.0.0.1", "10.0.0.2")
    assert whole.with_member(a_member(1, "10.9.9.9"), (7,)) is whole


def test_brief_of_a_roster_without_known_ports_has_none():
    brief = Roster(1, 1, a_roster("10.0.0.1", "10.0.0.2").members, 2000).brief("abc")
    assert brief.held(1) == ()


def test_packed_roster_comes_back_by_its_digest_alone():
    roster = a_roster("10.0.0.1", "10.0.0.2")
    file = packed(roster)
    assert unpacked(file.digest, file.data) == roster
    with pytest.raises(ValueError, match="another roster"):
        unpacked("0" * 64, file.data)
    with pytest.raises(ValueError, match="can't be unpacked"):
        unpacked(file.digest, b"no zlib")
