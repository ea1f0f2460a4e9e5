"""HTTP/1.1 as far as one POST needs it, without I/O: RFC 9112.

Threads and asyncio share it, so that both read the same, and each can bound a call as a
whole by its own means.
"""

import re
from collections.abc import Mapping

MAX_HEAD = 64 << 10
"""Bounds the bytes of the status line and header fields."""
MAX_BODY = 4 << 20
"""Bounds the bytes of a body: those of MAX_CHECKS results with long names of rules."""
_MAX_CHUNK_LINE = 1 << 10

_STATUS = re.compile(rb"HTTP/1\.([01]) ([1-9][0-9]{2})(?: [^\r\n]*)?\Z")
_FIELD = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\r\n\0]*?)[ \t]*\Z")


class Malformed(Exception):
    """An answer that is no HTTP/1.1, or is too long."""


class CutOff(Malformed):
    """An answer whose connection ended too early."""


def post(path: str, host: str, headers: Mapping[str, str], body: bytes) -> bytes:
    """Writes a request."""
    lines = [f"POST {path} HTTP/1.1", f"Host: {host}", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + body


class Answer:
    """Reads one answer from the bytes that it is fed with.

    status, headers (names in lower case; values of one name joined by ", ") and body count
    when feed has said that the answer is whole. keeps says whether the connection can
    carry another one.
    """

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.body = bytearray()
        self.keeps = False
        self._rest = bytearray()
        self._left: int | None = None  # bytes of the body or the chunk; None until the connection ends
        self._step = self._head
        self._whole = False

    def feed(self, data: bytes) -> bool:
        """Takes the next bytes, b"" for the end of the connection. Returns whether the answer
        is whole. Raises Malformed."""
        self._rest += data
        while not self._whole and self._step():
            pass
        if data == b"" and not self._whole:
            if self._step != self._until_end:
                raise CutOff("the connection ended within the answer")
            self._whole = True
        if self._whole and self._rest:
            self.keeps = False  # more than was asked for
        return self._whole

    # Each step takes what it can from the rest, and returns whether to go on.

    def _head(self) -> bool:
        at = self._rest.find(b"\r\n\r\n")
        if at < 0 and len(self._rest) <= MAX_HEAD:
            return False
        if at < 0 or at > MAX_HEAD:
            raise Malformed(f"a header of more than {MAX_HEAD} bytes")
        first, *lines = bytes(self._rest[:at]).split(b"\r\n")
        del self._rest[: at + 4]
        version, self.status = self._status_line(first)
        self.headers = {}
        for line in lines:
            self._field(line)
        if self.status < 200:
            return True  # an interim answer: the one that counts follows
        self._frame(version)
        return True

    def _status_line(self, line: bytes) -> tuple[int, int]:
        found = _STATUS.match(line)
        if found is None:
            raise Malformed("no status line of HTTP/1.1")
        return int(found[1]), int(found[2])

    def _field(self, line: bytes) -> None:
        found = _FIELD.match(line)
        if found is None:
            raise Malformed("a malformed header field")
        name, value = found[1].decode("ascii").lower(), found[2].decode("latin-1")
        self.headers[name] = f"{self.headers[name]}, {value}" if name in self.headers else value

    def _frame(self, version: int) -> None:
        """Finds out how the body ends."""
        words = {word.strip().lower() for word in self.headers.get("connection", "").split(",")}
        self.keeps = version == 1 and "close" not in words
        coding, length = self.headers.get("transfer-encoding"), self.headers.get("content-length")
        if self.status in (204, 304):
            self._whole = True
        elif coding is not None:
            if coding.lower() != "chunked":
                raise Malformed("a transfer coding other than chunked")
            self.keeps = self.keeps and length is None
            self._step = self._chunk_line
        elif length is None:
            self.keeps = False
            self._step = self._until_end
        elif not re.fullmatch("[0-9]{1,15}", length):
            raise Malformed("a malformed Content-Length")
        else:
            self._left = int(length)
            self._bound(self._left)
            self._step = self._counted

    def _bound(self, more: int) -> None:
        if len(self.body) + more > MAX_BODY:
            raise Malformed(f"an answer of more than {MAX_BODY} bytes")

    def _until_end(self) -> bool:
        self._bound(len(self._rest))
        self.body += self._rest
        self._rest.clear()
        return False

    def _take(self) -> bool:
        """Takes what is left of a count, and returns whether that was all."""
        assert self._left is not None
        taken = self._rest[: self._left]
        self.body += taken
        del self._rest[: len(taken)]
        self._left -= len(taken)
        return self._left == 0

    def _counted(self) -> bool:
        self._whole = self._take()
        return False

    def _line(self) -> bytes | None:
        at = self._rest.find(b"\r\n")
        if at > _MAX_CHUNK_LINE or at < 0 and len(self._rest) > _MAX_CHUNK_LINE:
            raise Malformed("a long line between chunks")
        if at < 0:
            return None
        line = bytes(self._rest[:at])
        del self._rest[: at + 2]
        return line

    def _chunk_line(self) -> bool:
        line = self._line()
        if line is None:
            return False
        size = line.partition(b";")[0].strip()
        if not re.fullmatch(rb"[0-9a-fA-F]{1,8}", size):
            raise Malformed("a malformed chunk")
        self._left = int(size, 16)
        self._bound(self._left)
        self._step = self._chunk if self._left > 0 else self._trailer
        return True

    def _chunk(self) -> bool:
        if not self._take():
            return False
        self._step = self._chunk_end
        return True

    def _chunk_end(self) -> bool:
        if len(self._rest) < 2:
            return False
        if self._rest[:2] != b"\r\n":
            raise Malformed("a chunk without an end")
        del self._rest[:2]
        self._step = self._chunk_line
        return True

    def _trailer(self) -> bool:
        line = self._line()
        if line is None:
            return False
        self._whole = line == b""
        return not self._whole
