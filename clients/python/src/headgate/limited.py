"""A urllib client that keeps to the limits which servers tell.

It spreads its requests when little is left, waits as Retry-After asks, and sends
again what was refused, within a budget. Standard library only; safe for use from
many threads.

    client = LimitedClient()
    with client.open("https://api.example.com/things") as response:
        ...
"""

import collections
import email.utils
import math
import random
import re
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from email.message import Message
from typing import Any, Literal, Protocol

FIRST_BACKOFF, LAST_BACKOFF = 0.1, 10.0  # seconds
SAVED_RETRIES, EARNED_BY_REQUEST = 10.0, 0.1
MAX_ORIGINS = 1000
FARTHEST = 366 * 24 * 3600.0  # seconds: no limit has a longer window
IDEMPOTENT = frozenset({"GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"})


class WaitError(Exception):
    """A request that was not sent: it would have had to wait for too long."""

    def __init__(self, origin: str, seconds: float) -> None:
        super().__init__(f"rate limit of {origin}: the next request may pass in {math.ceil(seconds)} s")
        self.seconds = seconds


@dataclass(frozen=True)
class Level:
    """What one answer says about a limit; reset is in seconds from now."""

    remaining: int
    limit: int | None = None
    reset: float | None = None


def _number(text: str | None) -> float | None:
    if text is None or not re.fullmatch(r"[0-9]{1,15}(\.[0-9]{1,15})?", text.strip()):
        return None
    return float(text)


def _whole(text: str | None) -> int | None:
    n = _number(text)
    return None if n is None else int(n)


def _delta(text: str | None) -> float | None:
    """Seconds from now."""
    seconds = _number(text)
    return None if seconds is None else min(seconds, FARTHEST)


def _date(text: str | None) -> float | None:
    """The instant of an HTTP date, None if it is none."""
    try:
        return None if text is None else email.utils.parsedate_to_datetime(text).timestamp()
    except (TypeError, ValueError, IndexError, OverflowError):
        return None


def _server_time(headers: Message) -> float:
    at = _date(headers.get("Date"))
    return time.time() if at is None else at


def retry_after(headers: Message) -> float | None:
    """Reads Retry-After, in seconds or as a date: seconds from now, or None."""
    text = headers.get("Retry-After")
    seconds = _number(text)
    if seconds is None:
        at = _date(text)
        if at is None:
            return None
        seconds = max(at - _server_time(headers), 0.0)
    return min(seconds, FARTHEST)


def levels(headers: Message) -> list[Level]:
    """Reads the limits that an answer tells, in the newest of its generations."""
    if (_number(headers.get("Age")) or 0) > 0:
        return []  # out of a cache
    text = ", ".join(headers.get_all("RateLimit", []))
    if text:
        if text.lstrip().startswith('"'):
            found = _draft8(text, ", ".join(headers.get_all("RateLimit-Policy", [])))
        else:
            found = _draft7(text)
        if found:
            return found
    for prefix in ("RateLimit", "X-RateLimit"):
        remaining = _whole(headers.get(prefix + "-Remaining"))
        if remaining is None:
            continue
        limit = re.match(r"\s*([0-9]{1,15})", headers.get(prefix + "-Limit", ""))  # also 120;window=60
        reset = _number(headers.get(prefix + "-Reset"))
        # A number is either seconds from now or an instant near now: never both.
        if reset is not None and reset > FARTHEST:
            left = reset - _server_time(headers)
            reset = max(left, 0.0) if abs(left) <= FARTHEST else None
        return [Level(remaining, int(limit[1]) if limit else None, reset)]
    return []


_VALUE = r'(?:"(?:[^"\\]|\\.)*"|[^,;"]*)'
_PARAM = re.compile(rf"; *([a-z*][a-z0-9_.*-]*)(?:=({_VALUE}))?")
_ITEM = re.compile(rf'"((?:[ !#-\[\]-~]|\\["\\])*)"((?:; *[a-z*][a-z0-9_.*-]*(?:={_VALUE})?)*)\s*(?:,\s*|$)')
MAX_MEMBERS = 32


def _list(text: str) -> list[tuple[str, dict[str, str]]]:
    """The members of a list of strings with parameters; [] if it is malformed."""
    found: list[tuple[str, dict[str, str]]] = []
    text, at = text.strip(), 0
    while at < len(text):
        item = _ITEM.match(text, at)
        if item is None or len(found) == MAX_MEMBERS:
            return []
        found.append((item[1], dict(_PARAM.findall(item[2]))))
        at = item.end()
    return found


def _draft8(text: str, policies: str) -> list[Level]:
    quota = dict(_list(policies))
    found: list[Level] = []
    for name, params in _list(text):
        remaining, policy = _whole(params.get("r")), quota.get(name, {})
        # Bytes and concurrency are nothing that a request more or less would change.
        if remaining is not None and policy.get("qu", '"requests"') == '"requests"':
            found.append(Level(remaining, _whole(policy.get("q")), _delta(params.get("t"))))
    return found


def _draft7(text: str) -> list[Level]:
    members = dict(m.strip().split("=", 1) for m in text.split(",") if "=" in m)
    remaining = _whole(members.get("remaining"))
    if remaining is None:
        return []
    return [Level(remaining, _whole(members.get("limit")), _delta(members.get("reset")))]


def _origin_of(url: str) -> str:
    """Scheme, host and port of a URL, in one spelling and without a user, who may have a password."""
    parts = urllib.parse.urlsplit(url)
    host = parts.netloc.rpartition("@")[2].lower()
    return f"{parts.scheme}://{host.removesuffix({'http': ':80', 'https': ':443'}.get(parts.scheme, ''))}"


class _Origin:
    """What is known about one origin. Its owner holds the lock."""

    def __init__(self) -> None:
        self.blocked_until = 0.0
        self.remaining = 0
        self.limit: int | None = None
        self.until = 0.0  # when the limit resets
        self.next = 0.0  # when the next request is due while they are spread
        self.retries = SAVED_RETRIES

    def reserve(self, now: float, pace_below: float) -> tuple[float, bool]:
        """The seconds to wait, and whether to go earlier would be in vain."""
        if now < self.blocked_until:
            return self.blocked_until - now, True
        if now >= self.until:
            return 0.0, False
        if self.remaining <= 0:
            return self.until - now, True
        self.remaining -= 1
        if self.remaining >= (10 if self.limit is None else self.limit * pace_below):
            return 0.0, False
        start = min(max(now, self.next), self.until)
        self.next = start + (self.until - start) / (self.remaining + 1)
        return start - now, False

    def learn(self, told: list[Level], now: float) -> None:
        tightest = min((level for level in told if level.reset is not None), key=lambda level: level.remaining, default=None)
        if tightest is None or tightest.reset is None:
            return
        self.remaining, self.limit, self.until = tightest.remaining, tightest.limit, now + tightest.reset
        self.next = min(self.next, now + tightest.reset / (self.remaining + 1))


class Opener(Protocol):
    """What sends a request, as urllib.request.OpenerDirector does."""

    def open(self, fullurl: urllib.request.Request, /, *, timeout: float) -> Any:
        """Raises urllib.error.HTTPError for a status from 400 on."""


class LimitedClient:
    """Opens requests as urllib does, and keeps to the limits of their servers.

    max_wait bounds each wait in seconds; what is farther away raises WaitError, or
    leaves the refusal as it is. Refusals are raised as urllib.error.HTTPError once
    they are final.
    """

    def __init__(
        self, *, opener: Opener | None = None, max_wait: float = 30.0, max_retries: int = 3,
        pace_below: float = 0.2, now: Callable[[], float] = time.monotonic, sleep: Callable[[float], object] = time.sleep,
        rand: Callable[[], float] = random.random,
        observe: Callable[[Literal["waited", "retried"], float], object] = lambda kind, seconds: None,
    ) -> None:
        self._opener: Opener = opener or urllib.request.build_opener()
        self._max_wait, self._max_retries, self._pace_below = max_wait, max_retries, pace_below
        self._now, self._sleep, self._random = now, sleep, rand
        self._observe = observe
        self._lock = threading.Lock()
        self._origins: collections.OrderedDict[str, _Origin] = collections.OrderedDict()  # the one used last at the end

    def _origin_locked(self, name: str) -> _Origin:
        origin = self._origins.pop(name, None) or _Origin()
        self._origins[name] = origin
        if len(self._origins) > MAX_ORIGINS:
            self._origins.popitem(last=False)
        return origin

    def _hold(self, name: str) -> None:
        """Waits until a request may go out."""
        with self._lock:
            seconds, must = self._origin_locked(name).reserve(self._now(), self._pace_below)
        if must and seconds > self._max_wait:
            raise WaitError(name, seconds)
        if seconds > 0:
            self._observe("waited", seconds)
            self._sleep(min(seconds, self._max_wait))

    def _learn(self, name: str, status: int, headers: Message) -> float:
        """Takes in an answer; of a refusal it returns when to come back, or 0."""
        told, known = retry_after(headers), levels(headers)
        with self._lock:
            origin, now = self._origin_locked(name), self._now()
            origin.learn(known, now)
            if status not in (429, 503):
                return 0.0
            if told is not None:
                origin.blocked_until = max(origin.blocked_until, now + told)
        return told or max((level.reset or 0.0 for level in known if level.remaining == 0), default=0.0)

    def _retry_wait(self, name: str, attempt: int, told: float) -> float | None:
        """The seconds until the next attempt, None if there is none."""
        if attempt >= self._max_retries or told > self._max_wait:
            return None
        with self._lock:
            origin = self._origin_locked(name)
            if origin.retries < 1:
                return None
            origin.retries -= 1
        if told > 0:
            return told + self._random() * min(told / 10, 1.0)
        return min(FIRST_BACKOFF * 2.0**attempt, LAST_BACKOFF) * (0.5 + self._random() / 2)

    def open(self, request: str | urllib.request.Request, timeout: float = 30.0) -> Any:
        """Like urllib.request.urlopen; timeout in seconds, of each attempt."""
        if isinstance(request, str):
            request = urllib.request.Request(request)
        name = _origin_of(request.full_url)
        # A body that is read while it is sent cannot be sent again.
        may_repeat = (request.data is None or isinstance(request.data, bytes)) and (
            request.get_method() in IDEMPOTENT or request.has_header("Idempotency-key"))
        with self._lock:
            origin = self._origin_locked(name)
            origin.retries = min(origin.retries + EARNED_BY_REQUEST, SAVED_RETRIES)
        attempt = 0
        while True:
            self._hold(name)
            try:
                response = self._opener.open(request, timeout=timeout)
            except urllib.error.HTTPError as refusal:
                told = self._learn(name, refusal.code, refusal.headers)
                if refusal.code not in (429, 503) or not may_repeat:
                    raise
                seconds = self._retry_wait(name, attempt, told)
                if seconds is None:
                    raise
                refusal.close()  # unread: urllib keeps no connections, and a body may be slow or cut off
            else:
                self._learn(name, response.status, response.headers)
                return response
            attempt += 1
            self._observe("retried", seconds)
            self._sleep(seconds)
