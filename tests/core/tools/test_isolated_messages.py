"""What a message may take is known before it is read, and of what is no reply to the call nothing is."""

from __future__ import annotations

import asyncio
import json
import socket
import tracemalloc
from typing import Any

import pytest

from agent_r1_core.contracts.json_text import MOST_DEPTH, longest_json
from agent_r1_core.tools import isolated_messages
from agent_r1_core.tools.isolated_messages import HEADER, ID_BYTES, MOST_MEMORY, check_size, decode, frame
from agent_r1_core.tools.isolated_process import OUT_OF_TURN, Connection

EMOJI = b"\\ud83d\\ude00"
SHAPES = {
    "empty lists": (b"[", b"[],", b"0]"),
    "lists of lists": (b"[", b"[[]],", b"0]"),
    "empty objects": (b"[", b"{},", b"0]"),
    "objects of lists": (b"[", b'{"":[]},', b"0]"),
    "numbers": (b"[", b"1e9,", b"0]"),
    "short texts": (b"[", b'"ab",', b"0]"),
    "short texts in Chinese": (b"[", b'"\\u4e2d",', b"0]"),
    "keys": (b"{", b'"%x":1e9,', b'"":0}'),
    "keys with an emoji": (b"{", b'"' + EMOJI + b'%x":1e9,', b'"":0}'),
    "a long text": (b'"', b"x", b'"'),
    "a long text with an emoji": (b'"' + EMOJI, b"x", b'"'),
    "a text of line breaks": (b'"' + EMOJI, b"\\n", b'"'),
    "texts of brackets": (b"[", b'"[",', b"0]"),
    "texts of quotes": (b"[", b'"\\\\\\"",', b"0]"),
}


def largest(begin: bytes, part: bytes, end: bytes) -> bytes:
    """A message of that shape, and as large as may be to a hundredth."""
    fitting, too_many = 1, longest_json(MOST_MEMORY)
    while too_many - fitting > 1 + fitting // 100:
        parts = (fitting + too_many) // 2
        try:
            check_size(made(begin, part, end, parts), MOST_MEMORY)
            fitting = parts
        except ValueError:
            too_many = parts
    return made(begin, part, end, fitting)


def made(begin: bytes, part: bytes, end: bytes, parts: int) -> bytes:
    numbered = b"".join(part % number for number in range(parts)) if b"%" in part else part * parts
    return begin + numbered + end


@pytest.mark.slow
@pytest.mark.parametrize("shape", list(SHAPES))
def test_no_message_takes_more_memory_than_was_foreseen(shape):
    body = largest(*SHAPES[shape])
    tracemalloc.start()
    try:
        value = decode(body, MOST_MEMORY)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert value is not None
    assert peak <= MOST_MEMORY


def test_the_messages_of_all_episodes_together_are_bounded():
    share = isolated_messages.share_of_memory
    assert all(share(episodes) * episodes <= isolated_messages.ALL_MEMORY for episodes in (1, 127, 128, 129, 5000))
    assert share(1) == share(128) == MOST_MEMORY


@pytest.mark.parametrize("pair", [b"[]", b'{"":}'])
def test_a_message_that_nests_too_deeply_is_refused_before_it_is_read(pair):
    levels = MOST_DEPTH - (b":" in pair)
    opened, closed = pair[:-1], pair[-1:]
    assert decode(opened * levels + b"[]" * (b":" in pair) + closed * levels, MOST_MEMORY) is not None
    with pytest.raises(ValueError, match="nests deeper than 100 levels"):
        check_size(opened * 5000 + closed * 5000, MOST_MEMORY)


@pytest.mark.parametrize("text", ["[" * 10_000, '"{' * 5000, "\\[" * 5000, ",:" * 5000, "é中😀[" * 1000])
def test_what_stands_in_a_text_neither_nests_nor_counts(text):
    body = json.dumps({"set": {text: text}}).encode()
    value: Any = decode(body, len(body) * 6 + 4 * 80)
    assert value == {"set": {text: text}}


@pytest.mark.parametrize(
    "reply",
    [
        lambda call: frame(bytes(ID_BYTES), b"{}"),
        lambda call: frame(call, b"{}") + b"more",
        lambda call: HEADER.pack(call, longest_json(MOST_MEMORY) + 1),
    ],
    ids=["of another call", "and more", "too long"],
)
async def test_what_is_no_reply_to_the_call_breaks_the_connection(reply):
    broken, loop, (here, there) = list[str](), asyncio.get_running_loop(), socket.socketpair()
    connection = Connection(MOST_MEMORY, lambda: broken.append(connection.broken))
    await loop.create_unix_connection(lambda: connection, sock=here)
    with there:
        there.setblocking(False)
        for answer in (lambda call: frame(call, b"[1]"), reply):
            asked = asyncio.ensure_future(connection.exchange(b"{}", 60.0))
            call, length = HEADER.unpack_from(message := await loop.sock_recv(there, 1000))
            assert (message[HEADER.size :], length) == (b"{}", 2)
            await loop.sock_sendall(there, answer(call))
            if answer is not reply:
                assert await asked == b"[1]"
        with pytest.raises(RuntimeError, match=OUT_OF_TURN):
            await asked
    assert broken == [OUT_OF_TURN]
