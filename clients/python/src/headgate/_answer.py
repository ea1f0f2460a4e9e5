"""What the middlewares of all frameworks do with a decision."""

import logging
from collections.abc import Iterable

from headgate._call import HeadgateError
from headgate._wire import Body, Decision

_log = logging.getLogger("headgate")
_MAX_WARNINGS = 100
_warned: set[str] = set()


def warn(error: HeadgateError) -> None:
    """Logs once what the server refuses: a fault of what makes the checks, or of the token's rights."""
    text = str(error)
    if text not in _warned and len(_warned) < _MAX_WARNINGS:
        _warned.add(text)
        _log.error("%s", text)


def denial(decision: Decision) -> tuple[list[tuple[str, str]], bytes]:
    """Header fields and body for the client of a denied request."""
    body = decision.body or Body("application/json", b"")
    fields = [*decision.headers.items(), ("content-type", body.media_type), ("cache-control", "no-store"),
              ("content-length", str(len(body.content)))]
    return fields, body.content


def missing(decision: Decision, present: Iterable[str]) -> list[tuple[str, str]]:
    """The header fields of a decision that the answer to an allowed request does not have yet."""
    there = {name.lower() for name in present}
    return [(name, value) for name, value in decision.headers.items() if name not in there]
