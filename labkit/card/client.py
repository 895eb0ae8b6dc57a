"""Asking a card from Python, without TensorFlow: one question, one answer."""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
from typing import Any

from labkit.card import protocol
from labkit.card.protocol import Malformed, Op, Refused, Reply, Request

_ids = itertools.count(1)


class Client:
    """A connection to a card.

    Parameters
    ----------
    path : path
        Of its socket.
    timeout_s : float
        For each step of a question.

    Raises
    ------
    OSError
        If nobody listens there.
    """

    def __init__(self, path: str | os.PathLike[str], timeout_s: float = 20) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(timeout_s)
        try:
            self._socket.connect(os.fspath(path))
        except BaseException:
            self._socket.close()
            raise

    def __enter__(self) -> Client:
        """Return the client."""
        return self

    def __exit__(self, *_: Any) -> None:
        """Close the connection."""
        self.close()

    def close(self) -> None:
        """Leave."""
        with contextlib.suppress(OSError):
            self._socket.close()

    def ask(self, op: Op, name: str = "", offset: int = 0, count: int = 0) -> Reply:
        """Return the reply to one question.

        Raises
        ------
        Refused
            With the code and the sentence of the card.
        Malformed, OSError
            If what comes is no reply to this question, or nothing comes.
        """
        ident = next(_ids)
        self._socket.sendall(protocol.pack_request(Request(op, ident, name, offset, count)))
        head = self._receive(protocol.REPLY.size)
        *_, answered, length = protocol.reply_head(head)
        reply = protocol.check_reply(head, self._receive(length))
        if answered != ident:
            raise Malformed(f"the reply is to question {answered}, not {ident}")
        if reply.code != protocol.Code.OK:
            try:
                raise Refused(protocol.Code(reply.code), reply.payload.decode("utf-8", "replace"))
            except ValueError:
                raise Malformed(f"the reply has the code {reply.code}, which no card sends") from None
        return reply

    def read(self, name: str, offset: int = 0, count: int = 1 << 20) -> bytes:
        """Return bytes of a file or the pixels of an image; see `ask`. Records come as they are in a reply."""
        return self.ask(Op.READ, name, offset, count).payload[protocol.PLACE.size :]

    def _receive(self, count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            piece = self._socket.recv(min(count - len(data), 1 << 20))
            if not piece:
                raise Malformed(f"the card left after {len(data):,} of {count:,} bytes")
            data += piece
        return bytes(data)
