"""The client for asyncio."""

import asyncio
import collections
import ssl
import time
from collections.abc import Callable, Sequence
from typing import Literal, TypeVar

from headgate import _http
from headgate._call import DEFAULT_TIMEOUT, Asking, Call, Failure, HeadgateError, Reason, Unavailable, is_lost, unanswered
from headgate._sync import MAX_IDLE, MAX_IDLE_TIME, close_old, has_news
from headgate._wire import Check, Commit, Decision, Reserve, Settled

_PART = 64 << 10  # bytes read at one time

T = TypeVar("T")


class _Reader(asyncio.StreamReader):
    """A reader that knows how many bytes wait to be read."""

    waiting = 0

    def feed_data(self, data: bytes) -> None:  # type: ignore[override]
        self.waiting += len(data)
        super().feed_data(data)

    async def read(self, n: int = -1) -> bytes:
        data = await super().read(n)
        self.waiting -= len(data)
        return data


class _Connection:
    """A connection to the server, in use by one task at a time."""

    def __init__(self, reader: _Reader, writer: asyncio.StreamWriter) -> None:
        self.used = 0.0  # when it was put back
        self._reader, self._writer = reader, writer

    def close(self) -> None:
        self._writer.transport.abort()

    def is_stale(self, now: float) -> bool:
        """Whether it is too old, or the server has closed it or said something unasked, which
        would be read as the next answer."""
        if now - self.used > MAX_IDLE_TIME or self._reader.waiting or self._reader.at_eof() or self._writer.is_closing():
            return True
        # The event loop may not have heard of it yet.
        return has_news(self._writer.get_extra_info("socket").fileno())

    async def exchange(self, request: bytes) -> _http.Answer:
        answer = _http.Answer()
        self._writer.write(request)
        await self._writer.drain()
        while not answer.feed(await self._reader.read(_PART)):
            pass
        return answer


class AsyncHeadgate:
    """Asks a Headgate over HTTP from asyncio. It is Headgate, whose options and methods it has,
    with await; the look-up of the host is within the timeout too. One may be used from several
    event loops: each has connections of its own.
    """

    def __init__(
        self, url: str, *, token: str | Callable[[], str] | None = None, timeout: float = DEFAULT_TIMEOUT,
        failure: Failure = "open", retries: Literal[0, 1] = 0, ssl_context: ssl.SSLContext | None = None,
        on_degraded: Callable[[Reason, Exception], None] | None = None, now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._asking = Asking(
            url, token=token, timeout=timeout, failure=failure, retries=retries,
            ssl_context=ssl_context, on_degraded=on_degraded, now=now)
        self._idle: dict[asyncio.AbstractEventLoop, collections.deque[_Connection]] = {}

    async def check(self, check: Check) -> Decision:
        """Decides whether a request may pass. When the server does not answer in time the
        failure mode decides, and degraded says why. Raises HeadgateError when the server
        refuses the check."""
        return await self._make(self._asking.check("check", check, self._asking.retries))

    async def check_all(self, checks: Sequence[Check]) -> list[Decision]:
        """Decides 1 to 1,000 checks in their order and in one call; one decision for each."""
        return await self._make(self._asking.check_all(checks)) if checks else []

    async def renew(self, check: Check) -> Decision:
        """Says that a request which holds a slot goes on. The check again, with the id of its hold."""
        return await self._make(self._asking.check("renew", check, 0))

    async def release(self, check: Check) -> Decision:
        """Frees the slot of a request that has ended. The check again, with the id of its hold."""
        return await self._make(self._asking.check("release", check, 0))

    async def reserve(self, reserve: Reserve) -> Decision:
        """Reserves a cost that is known only afterwards. When it is allowed the decision has a
        reservation, except where the failure mode let it pass: then there is nothing to settle."""
        return await self._make(self._asking.check("reserve", reserve, self._asking.retries))

    async def commit(self, commit: Commit) -> Settled:
        """Settles a reservation by what was used."""
        return await self._make(self._asking.settle("commit", commit))

    async def cancel(self, reservation: str) -> Settled:
        """Settles a reservation of which nothing was used."""
        return await self._make(self._asking.settle("cancel", {"reservation": reservation}))

    def undecided(self, reason: Reason) -> Decision:
        """The decision of the failure mode, for a check that was not decided."""
        return self._asking.undecided(reason)

    async def aclose(self) -> None:
        """Closes the connections that this event loop keeps. Calls after it open new ones."""
        for connection in self._idle.pop(asyncio.get_running_loop(), ()):
            connection.close()

    async def __aenter__(self) -> "AsyncHeadgate":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def _make(self, call: Call[T]) -> T:
        """Makes one call, unless the breaker is open."""
        asking = self._asking
        if not asking.breaker.allow(asking.now()):
            return asking.degraded(call, asking.left_alone(call))
        try:
            result = asking.result(call, await self._ask(call))
        except Unavailable as error:
            asking.breaker.done(asking.now(), False)
            return asking.degraded(call, error)
        except HeadgateError:
            asking.breaker.done(asking.now(), True)
            raise
        except BaseException:
            asking.breaker.forget()
            raise
        asking.breaker.done(asking.now(), True)
        return result

    async def _ask(self, call: Call[T]) -> _http.Answer:
        """Sends a call, and again when its answer is lost; each try has an even share of the
        time that is left."""
        request = self._asking.request(call)
        end = time.monotonic() + self._asking.timeout
        for tries in range(call.retries, -1, -1):
            share = (end - time.monotonic()) / (tries + 1)
            try:
                return await self._exchange(call, request, share)
            except Unavailable as error:
                if tries == 0 or not is_lost(error):
                    raise
        raise AssertionError("unreachable")

    async def _exchange(self, call: Call[T], request: bytes, timeout: float) -> _http.Answer:
        connection = None
        try:
            async with asyncio.timeout(timeout):
                connection = self._take() or await self._connect()
                answer = await connection.exchange(request)
        except BaseException as error:
            if connection is not None:
                connection.close()
            if isinstance(error, (OSError, UnicodeError, _http.Malformed)):
                raise unanswered(call.operation, error) from error
            raise
        self._put_back(connection, answer.keeps)
        return answer

    async def _connect(self) -> _Connection:
        """What asyncio.open_connection does, with a reader of our own."""
        asking, loop = self._asking, asyncio.get_running_loop()
        reader = _Reader(loop=loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
        transport, _ = await loop.create_connection(
            lambda: protocol, asking.host, asking.port, ssl=asking.ssl, server_hostname=asking.host if asking.ssl else None)
        return _Connection(reader, asyncio.StreamWriter(transport, protocol, reader, loop))

    def _kept(self) -> collections.deque[_Connection]:
        """The connections that this event loop keeps, the one used last at the end."""
        loop = asyncio.get_running_loop()
        idle = self._idle.get(loop)
        if idle is None:
            # A connection refers to its event loop, so nothing but this forgets loops that have ended.
            for other in [each for each in list(self._idle) if each.is_closed()]:
                self._idle.pop(other, None)
            idle = self._idle.setdefault(loop, collections.deque())
        return idle

    def _take(self) -> _Connection | None:
        """A connection that this event loop keeps, if there is one."""
        idle = self._kept()
        while idle:
            connection = idle.pop()
            if not connection.is_stale(time.monotonic()):
                return connection
            connection.close()
        return None

    def _put_back(self, connection: _Connection, keeps: bool) -> None:
        idle = self._kept()
        if not keeps or len(idle) >= MAX_IDLE:
            connection.close()
            return
        connection.used = time.monotonic()
        idle.append(connection)
        close_old(idle, connection.used)
