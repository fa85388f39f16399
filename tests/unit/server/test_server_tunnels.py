"""Tunnels: who sends waits for who receives, and an end on either side ends both."""

import asyncio

import pytest

from drumbeat.model.errors import NotFoundError
from drumbeat.server.nodes.node_requests import NodeKey
from drumbeat.server.nodes.tunnels import MAX_HELD, ByteStream, Tunnels

pytestmark = pytest.mark.feature("M7")

KEY = NodeKey("j", 1, 0)


def test_sender_waits_while_the_receiver_has_enough():
    async def play() -> None:
        stream = ByteStream()
        await stream.put(bytes(MAX_HELD))
        waiting = asyncio.create_task(stream.put(b"more"))
        await asyncio.sleep(0)
        assert not waiting.done()
        assert len(await stream.get()) == MAX_HELD
        await waiting
        await stream.end()
        assert [await stream.get(), await stream.get()] == [b"more", b""]
        with pytest.raises(BrokenPipeError):
            await stream.put(b"late")

    asyncio.run(play())


def test_tunnel_that_is_removed_wakes_both_sides_and_is_known_no_more():
    async def play() -> None:
        tunnels = Tunnels()
        tunnel = tunnels.add(KEY, "ada")
        receiving = asyncio.create_task(tunnel.from_node.get())
        await asyncio.sleep(0)
        await tunnels.remove(tunnel)
        assert await receiving == b""
        with pytest.raises(NotFoundError):
            tunnels.of_node(tunnel.id, KEY)

    asyncio.run(play())


def test_tunnel_belongs_to_its_node_and_its_person():
    async def play() -> None:
        tunnels = Tunnels()
        tunnel = tunnels.add(KEY, "ada")
        assert tunnels.of_node(tunnel.id, KEY) is tunnels.of_user(tunnel.id, "j", "ada") is tunnel
        with pytest.raises(NotFoundError):
            tunnels.of_node(tunnel.id, NodeKey("j", 2, 0))
        with pytest.raises(NotFoundError):
            tunnels.of_user(tunnel.id, "j", "eve")

    asyncio.run(play())


def test_tunnels_to_an_attempt_that_is_over_end():
    async def play() -> None:
        tunnels = Tunnels()
        old, new = tunnels.add(KEY, "ada"), tunnels.add(NodeKey("j", 2, 0), "ada")
        await tunnels.keep("j", 2)
        assert (await old.from_node.get(), tunnels.of_user(new.id, "j", "ada")) == (b"", new)
        await tunnels.keep("j", -1)
        assert len(tunnels) == 0

    asyncio.run(play())
