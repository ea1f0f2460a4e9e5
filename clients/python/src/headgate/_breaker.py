"""Keeps callers from asking what has failed of late. Time is an argument, in seconds of a
clock that never steps back."""

import threading

_FAILURES = 3  # in a row open it
_FIRST_PAUSE, _LAST_PAUSE = 1.0, 4.0  # seconds; each probe that fails doubles the pause


class Breaker:
    """After three calls that failed in a row none is made for a second; then one is, as a
    probe. When it fails too, the pause doubles, up to four seconds."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._failed = 0
        self._pause = _FIRST_PAUSE
        self._until = 0.0
        self._probing = False

    def allow(self, now: float) -> bool:
        """Whether a call may be made now. One that may must be followed by done or forget."""
        with self._lock:
            if self._failed < _FAILURES:
                return True
            if self._probing or now < self._until:
                return False
            self._probing = True
            return True

    def done(self, now: float, succeeded: bool) -> None:
        """How a call ended."""
        with self._lock:
            if succeeded:
                self._failed, self._pause, self._probing = 0, _FIRST_PAUSE, False
            elif self._failed < _FAILURES:
                self._failed += 1
                self._until = now + self._pause
            elif self._probing:
                self._probing = False
                self._pause = min(2 * self._pause, _LAST_PAUSE)
                self._until = now + self._pause

    def forget(self) -> None:
        """A call that says nothing about the server, because the caller gave it up."""
        with self._lock:
            self._probing = False
