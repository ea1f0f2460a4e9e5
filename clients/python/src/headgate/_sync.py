"""The client for threads."""

import collections
import os
import select
import socket
import ssl
import time
from collections.abc import Callable, Sequence
from typing import Literal, Protocol, TypeVar

from headgate import _http
from headgate._call import DEFAULT_TIMEOUT, Asking, Call, Failure, HeadgateError, Reason, Unavailable, is_lost, unanswered
from headgate._wire import Check, Commit, Decision, Reserve, Settled

MAX_IDLE = 64
"""Bounds the connections that are kept."""
MAX_IDLE_TIME = 30.0
"""How long one is kept unused, in seconds: less than load balancers take before they forget it."""
_PART = 64 << 10  # bytes read at one time

T = TypeVar("T")
K = TypeVar("K", bound="Kept")


def _left(deadline: float) -> float:
    """The seconds until a deadline. Raises TimeoutError when it is over."""
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


class _Connection:
    """A connection to the server, in use by one thread at a time."""

    def __init__(self, host: str, port: int, context: ssl.SSLContext | None, deadline: float) -> None:
        self.used = 0.0  # when it was put back
        self._socket = _connect(host, port, deadline)
        if context is not None:
            try:
                self._socket.settimeout(_left(deadline))
                self._socket = context.wrap_socket(self._socket, server_hostname=host)
            except BaseException:
                self.close()
                raise

    def close(self) -> None:
        self._socket.close()

    def is_stale(self, now: float) -> bool:
        """Whether it is too old, or the server has closed it."""
        return now - self.used > MAX_IDLE_TIME or has_news(self._socket.fileno())

    def exchange(self, request: bytes, deadline: float) -> _http.Answer:
        answer = _http.Answer()
        self._socket.settimeout(_left(deadline))
        self._socket.sendall(request)
        while True:
            self._socket.settimeout(_left(deadline))
            if answer.feed(self._socket.recv(_PART)):
                return answer


def has_news(descriptor: int) -> bool:
    """Whether a socket on which nothing is due has been closed, or has something to say."""
    try:
        if hasattr(select, "poll"):
            polled = select.poll()
            polled.register(descriptor, select.POLLIN)
            return bool(polled.poll(0))
        return bool(select.select([descriptor], [], [], 0)[0])
    except (OSError, ValueError):
        return True


class Kept(Protocol):
    """A connection that is kept."""

    used: float

    def close(self) -> None: ...


def close_old(idle: collections.deque[K], now: float) -> None:
    """Closes connections that nobody has used for MAX_IDLE_TIME. The one used last is at the end,
    and taken first, so that nobody else would come to those at the beginning."""
    try:
        while now - idle[0].used > MAX_IDLE_TIME:
            idle.popleft().close()
    except IndexError:
        pass  # another thread has taken the last one


def _connect(host: str, port: int, deadline: float) -> socket.socket:
    """Connects to the first address of a host that lets it."""
    failed: OSError = OSError("the host has no address")
    for family, kind, protocol, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        connection = socket.socket(family, kind, protocol)
        try:
            connection.settimeout(_left(deadline))
            connection.connect(address)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return connection
        except TimeoutError:
            connection.close()
            raise
        except OSError as error:
            connection.close()
            failed = error
        except BaseException:
            connection.close()
            raise
    raise failed


class Headgate:
    """Asks a Headgate over HTTP. It is safe for use from many threads, and after a fork.

    - url: its address, such as http://headgate:8080; paths go below it.
    - token: one of the server's callers, or what returns the one in force. It is sent as
      Authorization: Bearer, and stands in no error.
    - timeout: seconds for a call as a whole, connecting and a retry included. Looking the
      host up is bounded by the system alone.
    - failure: "open" lets pass what the server does not decide, "closed" denies it by 503.
    - retries: how often a call whose answer was lost is sent again within the timeout, 0 or
      1. Each check then has an id, by which the server charges it once; that costs the
      server two more trips to its store.
    - ssl_context: for https; the default trusts the authorities of the system.
    - on_degraded: told each time that the failure mode decides. It must not raise.
    - now: seconds of a clock that never steps back, for the pauses after failures.

    Options that cannot be used raise ValueError. It does not ask the server yet.
    """

    def __init__(
        self, url: str, *, token: str | Callable[[], str] | None = None, timeout: float = DEFAULT_TIMEOUT,
        failure: Failure = "open", retries: Literal[0, 1] = 0, ssl_context: ssl.SSLContext | None = None,
        on_degraded: Callable[[Reason, Exception], None] | None = None, now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._asking = Asking(
            url, token=token, timeout=timeout, failure=failure, retries=retries,
            ssl_context=ssl_context, on_degraded=on_degraded, now=now)
        self._idle: collections.deque[_Connection] = collections.deque()  # the one used last at the end
        self._process = os.getpid()

    def check(self, check: Check) -> Decision:
        """Decides whether a request may pass. When the server does not answer in time the
        failure mode decides, and degraded says why. Raises HeadgateError when the server
        refuses the check."""
        return self._make(self._asking.check("check", check, self._asking.retries))

    def check_all(self, checks: Sequence[Check]) -> list[Decision]:
        """Decides 1 to 1,000 checks in their order and in one call; one decision for each."""
        return self._make(self._asking.check_all(checks)) if checks else []

    def renew(self, check: Check) -> Decision:
        """Says that a request which holds a slot goes on. The check again, with the id of its hold."""
        return self._make(self._asking.check("renew", check, 0))

    def release(self, check: Check) -> Decision:
        """Frees the slot of a request that has ended. The check again, with the id of its hold."""
        return self._make(self._asking.check("release", check, 0))

    def reserve(self, reserve: Reserve) -> Decision:
        """Reserves a cost that is known only afterwards. When it is allowed the decision has a
        reservation, except where the failure mode let it pass: then there is nothing to settle."""
        return self._make(self._asking.check("reserve", reserve, self._asking.retries))

    def commit(self, commit: Commit) -> Settled:
        """Settles a reservation by what was used."""
        return self._make(self._asking.settle("commit", commit))

    def cancel(self, reservation: str) -> Settled:
        """Settles a reservation of which nothing was used."""
        return self._make(self._asking.settle("cancel", {"reservation": reservation}))

    def undecided(self, reason: Reason) -> Decision:
        """The decision of the failure mode, for a check that was not decided."""
        return self._asking.undecided(reason)

    def close(self) -> None:
        """Closes the connections that are kept. Calls after it open new ones."""
        while self._idle:
            self._idle.pop().close()

    def __enter__(self) -> "Headgate":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _make(self, call: Call[T]) -> T:
        """Makes one call, unless the breaker is open."""
        asking = self._asking
        if not asking.breaker.allow(asking.now()):
            return asking.degraded(call, asking.left_alone(call))
        try:
            result = asking.result(call, self._ask(call))
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

    def _ask(self, call: Call[T]) -> _http.Answer:
        """Sends a call, and again when its answer is lost; each try has an even share of the
        time that is left."""
        request = self._asking.request(call)
        end = time.monotonic() + self._asking.timeout
        for tries in range(call.retries, -1, -1):
            now = time.monotonic()
            try:
                return self._exchange(call, request, now + (end - now) / (tries + 1))
            except Unavailable as error:
                if tries == 0 or not is_lost(error):
                    raise
        raise AssertionError("unreachable")

    def _exchange(self, call: Call[T], request: bytes, deadline: float) -> _http.Answer:
        connection = None
        try:
            connection = self._take() or _Connection(self._asking.host, self._asking.port, self._asking.ssl, deadline)
            answer = connection.exchange(request, deadline)
        except BaseException as error:
            if connection is not None:
                connection.close()
            if isinstance(error, (OSError, UnicodeError, _http.Malformed)):
                raise unanswered(call.operation, error) from error
            raise
        self._put_back(connection, answer.keeps)
        return answer

    def _take(self) -> _Connection | None:
        """A connection that is kept, if there is one."""
        if self._process != os.getpid():  # after a fork connections are those of the parent
            self.close()
            self._process = os.getpid()
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                return None
            if not connection.is_stale(time.monotonic()):
                return connection
            connection.close()

    def _put_back(self, connection: _Connection, keeps: bool) -> None:
        if not keeps or len(self._idle) >= MAX_IDLE:
            connection.close()
            return
        connection.used = time.monotonic()
        self._idle.append(connection)
        close_old(self._idle, connection.used)
