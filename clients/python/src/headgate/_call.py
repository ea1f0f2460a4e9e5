"""What calls have in common, whoever carries them: options, decisions of the failure
mode, and what to make of an answer."""

import json
import re
import secrets
import ssl
import urllib.parse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Literal, TypeAlias, TypeVar

from headgate import _http
from headgate._breaker import Breaker
from headgate._wire import (
    MAX_CHECKS, Body, Check, Commit, Decision, Reserve, Settled, decode_batch, decode_decision, decode_settled, encode, passed_on,
)

Failure: TypeAlias = Literal["open", "closed"]
"""Which way requests go when Headgate does not answer: open lets them pass, closed denies them by 503."""

Reason: TypeAlias = Literal["store_timeout", "store_unavailable", "store_breaker", "store_misconfigured"]
"""Why Headgate did not decide: no answer in time; no connection, a broken one, or a status from 500 on
without a decision, as of a proxy; it failed three times in a row and is not asked for a moment; it, or
something in its place, answered what is no decision, or does not know the token."""

DEFAULT_TIMEOUT = 0.1
"""Seconds for a call as a whole."""
_LONGEST_TIMEOUT = (2**31 - 1) / 1000  # seconds: sockets count milliseconds in 32 bits


class HeadgateError(Exception):
    """A call that the server refused, such as a check that is malformed (400) or that takes a
    right which the token has not (403). Nothing was decided or charged."""

    def __init__(self, operation: str, status: int, title: str, detail: str, hint: str = "") -> None:
        super().__init__(f"headgate {operation}: {title}: {detail}" + (f"; hint: {hint}" if hint else ""))
        self.status, self.title, self.detail, self.hint = status, title, detail, hint


class Unavailable(Exception):
    """No answer, or none that can be used."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason: Reason = reason


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """One call, its answer not known yet."""

    operation: str
    body: bytes
    retries: int
    read: Callable[[_http.Answer, Any], T | None]
    """Of the answer and its JSON; None if it has no decision."""
    fallback: Callable[[Reason], T]
    """What the failure mode says."""


_MAX_CALL = 1 << 20  # bytes of one call, as the server has it
_BAD_URL = "hint: http://headgate:8080, and a token beside it"
# The statuses of decisions, and of what became of a reservation.
_DECIDED = frozenset({200, 429, 503})
# The statuses by which the server refuses a call. 401 is for operators: no caller can mend it.
_REFUSALS = frozenset({400, 403, 409, 410, 413, 415, 501})


class Asking:
    """The options of a client, and what it knows of its server."""

    def __init__(
        self, url: str, *, token: str | Callable[[], str] | None, timeout: float, failure: Failure, retries: Literal[0, 1],
        ssl_context: ssl.SSLContext | None, on_degraded: Callable[[Reason, Exception], None] | None, now: Callable[[], float],
    ) -> None:
        target, port = _split(url)
        if target is None:
            raise ValueError(f"headgate: the url cannot be read; {_BAD_URL}")
        if target.scheme not in ("http", "https") or not target.hostname or not re.fullmatch("[!-~]+", url):
            raise ValueError(f"headgate: the url is not of http or https, or has a sign that cannot be sent; {_BAD_URL}")
        if "@" in target.netloc or target.query or target.fragment:
            raise ValueError(f"headgate: the url has a user, a query or a fragment; {_BAD_URL}")
        if target.path.rstrip("/").endswith("/v1/check"):
            raise ValueError("headgate: the url ends with /v1/check; hint: leave that out, it is added")
        if token is not None and not callable(token):
            _bearer(token)
        if not 0 < timeout <= _LONGEST_TIMEOUT:
            raise ValueError(f"headgate: timeout {timeout}; hint: seconds, above 0")
        if failure not in ("open", "closed"):
            raise ValueError(f"headgate: failure {failure!r}; hint: open or closed")
        if retries not in (0, 1):
            raise ValueError(f"headgate: {retries} retries; hint: 0 or 1")
        secure = target.scheme == "https"
        if ssl_context is not None and not secure:
            raise ValueError("headgate: an ssl_context for a url of http; hint: https")
        self.host, self.port = target.hostname, port or (443 if secure else 80)
        self.ssl = (ssl_context or ssl.create_default_context()) if secure else None
        self.timeout, self.failure, self.retries, self.now = timeout, failure, retries, now
        self._authority, self._path = target.netloc, target.path.rstrip("/")
        self._token, self._on_degraded = token, on_degraded
        self.breaker = Breaker()

    # The calls.

    def check(self, operation: str, check: Check | Reserve, retries: int) -> Call[Decision]:
        def read(answer: _http.Answer, value: Any) -> Decision | None:
            decision = decode_decision(value)
            if decision is None:
                return None
            decision = replace(decision, headers=passed_on(answer.headers))
            if decision.allowed:
                return replace(decision, status=200)
            body = Body(answer.headers.get("content-type", "application/json"), bytes(answer.body))
            # A denial is never passed on as a success, whatever the answer says.
            return replace(decision, status=429 if answer.status == 200 else answer.status, body=body)

        return self._call(operation, encode(check, _draw(retries)), retries, read, self.undecided)

    def check_all(self, checks: Sequence[Check]) -> Call[list[Decision]]:
        if len(checks) > MAX_CHECKS:
            raise HeadgateError("check", 0, "Too many checks", f"{len(checks)} checks", f"up to {MAX_CHECKS} in one call")
        body = {"checks": [encode(each, _draw(self.retries)) for each in checks]}
        return self._call(
            "check", body, self.retries, lambda _, value: decode_batch(value, len(checks)),
            lambda reason: [self.undecided(reason) for _ in checks])

    def settle(self, operation: str, commit: Commit | Mapping[str, str]) -> Call[Settled]:
        return self._call(
            operation, encode(commit), self.retries, lambda _, value: decode_settled(value),
            lambda reason: Settled(settled=False, outcome="undecided", degraded=reason))

    def _call(
        self, operation: str, body: Any, retries: int, read: Callable[[_http.Answer, Any], T | None], fallback: Callable[[Reason], T],
    ) -> Call[T]:
        text = json.dumps(body, separators=(",", ":")).encode()
        # The server hangs up while one that is longer is sent, which would pass for an outage.
        if len(text) > _MAX_CALL:
            raise HeadgateError(operation, 0, "Too long", f"{len(text)} bytes", f"up to {_MAX_CALL} in one call; send several, hash long values")
        return Call(operation, text, retries, read, fallback)

    # What is sent, and what comes of it.

    def request(self, call: Call[T]) -> bytes:
        """The bytes of a request."""
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if self._token is not None:
            header = _shown(self._token)
            if header is None:
                raise Unavailable("store_misconfigured", f"headgate {call.operation}: there is no token that can be sent")
            headers["Authorization"] = header
        return _http.post(f"{self._path}/v1/{call.operation}", self._authority, headers, call.body)

    def result(self, call: Call[T], answer: _http.Answer) -> T:
        """What an answer says. Raises HeadgateError and Unavailable."""
        try:
            value = json.loads(bytes(answer.body))
        except (ValueError, RecursionError):
            value = None
        result = call.read(answer, value) if answer.status in _DECIDED else None
        if result is not None:
            return result
        if answer.status in _REFUSALS and isinstance(value, dict) and isinstance(value.get("title"), str):
            detail, hint = (text if isinstance(text := value.get(name), str) else "" for name in ("detail", "hint"))
            raise HeadgateError(call.operation, answer.status, value["title"], detail, hint)
        what = "the server does not know the token" if answer.status == 401 else f"an answer with status {answer.status} and no decision"
        # What a proxy says for a server that is away.
        reason: Reason = "store_unavailable" if answer.status >= 500 else "store_misconfigured"
        raise Unavailable(reason, f"headgate {call.operation}: {what}")

    def left_alone(self, call: Call[T]) -> Unavailable:
        return Unavailable("store_breaker", f"headgate {call.operation}: not asked, because it has failed of late")

    def degraded(self, call: Call[T], error: Unavailable) -> T:
        """What the failure mode says in place of the server."""
        if self._on_degraded is not None:
            self._on_degraded(error.reason, error)
        return call.fallback(error.reason)

    def undecided(self, reason: Reason) -> Decision:
        """The decision of the failure mode, for a check that was not decided."""
        if self.failure == "open":
            return Decision(allowed=True, degraded=reason)
        return Decision(allowed=False, degraded=reason, status=503, retry_after_s=1, headers={"retry-after": "1"}, body=_UNAVAILABLE)


_UNAVAILABLE = Body("application/problem+json", json.dumps({
    "type": "about:blank", "title": "Service Unavailable", "status": 503,
    "detail": "The limit could not be checked. Retry in 1 second.",
}).encode())


def unanswered(operation: str, error: BaseException) -> Unavailable:
    """What the way to the server says of a call that failed."""
    if isinstance(error, TimeoutError):
        return Unavailable("store_timeout", f"headgate {operation}: no answer in time")
    if isinstance(error, _http.Malformed) and not isinstance(error, _http.CutOff):
        return Unavailable("store_misconfigured", f"headgate {operation}: {error}")
    return Unavailable("store_unavailable", f"headgate {operation}: no answer: {error}")


def is_lost(error: Unavailable) -> bool:
    """Whether a call may be sent again: there was no answer."""
    return error.reason in ("store_timeout", "store_unavailable")


def _bearer(token: str) -> str:
    """The header field of a token. What is wrong with one is said without it."""
    if not isinstance(token, str) or not re.fullmatch("[!-~]+", token):
        raise ValueError("headgate: the token is empty or has a space, a line break or another sign that cannot be sent")
    return f"Bearer {token}"


def _shown(token: str | Callable[[], str]) -> str | None:
    """The header field of a token, None if there is none that can be sent. Whatever a function
    raised is dropped here, because the token may stand in it."""
    try:
        return _bearer(token() if callable(token) else token)
    except Exception:
        return None


def _split(url: str) -> tuple[urllib.parse.SplitResult | None, int | None]:
    """A url in parts and its port; what is wrong with one may have a secret in it, and is dropped."""
    try:
        target = urllib.parse.urlsplit(url)
        return target, target.port
    except ValueError:
        return None, None


def _draw(retries: int) -> str | None:
    return secrets.token_urlsafe(16) if retries > 0 else None
