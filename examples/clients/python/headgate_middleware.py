"""A WSGI middleware that asks Headgate before a request is served.

    application = HeadgateMiddleware(application, url="http://headgate:8080", domain="shop",
                                     entries=lambda environ: [("remote_address", environ["REMOTE_ADDR"])])

It sends POST /v1/check. When Headgate does not answer in time the request passes
(fail open), or is answered by 503 (fail closed). Standard library only; each thread
keeps one connection.
"""

import http.client
import json
import secrets
import threading
import time
import urllib.parse

# Header fields of the check's answer that the client gets too.
PASSED = frozenset({
    "ratelimit", "ratelimit-policy", "ratelimit-limit", "ratelimit-remaining", "ratelimit-reset",
    "x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset", "retry-after",
})
MAX_ANSWER = 64 << 10  # bytes
PART = 4 << 10  # bytes read at one time


class HeadgateMiddleware:
    """timeout is in seconds, for all of a check. entries(environ) returns the pairs
    of key and value that the request is limited on. observe(error) is told when
    Headgate did not decide."""

    def __init__(self, application, *, url, domain, entries, timeout=0.02, fail_closed=False, observe=None):
        self._application, self._domain, self._entries = application, domain, entries
        self._timeout, self._fail_closed = timeout, fail_closed
        self._observe = observe or (lambda error: None)
        self._target = urllib.parse.urlsplit(url)
        self._local = threading.local()

    def __call__(self, environ, start_response):
        try:
            status, fields, body, allowed = self._check(self._entries(environ))
        except (OSError, http.client.HTTPException, ValueError) as error:
            self._observe(error)
            if not self._fail_closed:
                return self._application(environ, start_response)
            start_response("503 Service Unavailable", [
                ("Content-Type", "application/json"), ("Retry-After", "1"), ("Cache-Control", "no-store")])
            return [b'{"error":"service_unavailable"}\n']
        told = [(name, value) for name, value in fields if name.lower() in PASSED]
        if allowed:
            def start(line, headers, exc_info=None):
                return start_response(line, headers + told, exc_info)
            return self._application(environ, start)
        media = dict((name.lower(), value) for name, value in fields).get("content-type", "application/json")
        reason = http.client.responses.get(status, "Too Many Requests")
        start_response(f"{status} {reason}", told + [("Content-Type", media), ("Cache-Control", "no-store")])
        return [body]

    def close(self):
        """Closes the connection of this thread."""
        connection = getattr(self._local, "connection", None)
        if connection is not None:
            connection.close()

    def _check(self, entries):
        # By the id Headgate decides and counts the check once, however often it arrives.
        body = json.dumps({"id": secrets.token_urlsafe(16), "domain": self._domain,
                           "descriptors": [{"entries": [{"key": k, "value": v} for k, v in entries]}]}).encode()
        deadline = time.monotonic() + self._timeout
        connection = self._connection()
        try:
            try:
                response = self._post(connection, body, deadline)
            except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
                # A connection that was kept may have been closed in the meantime, or the
                # answer was lost: once more over a new one.
                connection.close()
                response = self._post(connection, body, deadline)
            body = self._read(connection, response, deadline)
        except Exception:
            connection.close()
            raise
        answer = json.loads(body)
        allowed = answer.get("allowed") if isinstance(answer, dict) else None
        # Anything but a decision, a page of a proxy for instance, is a failure.
        if not isinstance(allowed, bool):
            raise ValueError(f"Headgate answered {response.status} without a decision: {body[:200]!r}")
        return response.status, response.getheaders(), body, allowed

    def _connection(self):
        connection = getattr(self._local, "connection", None)
        if connection is None:
            kind = http.client.HTTPSConnection if self._target.scheme == "https" else http.client.HTTPConnection
            connection = self._local.connection = kind(self._target.hostname, self._target.port, timeout=self._timeout)
        return connection

    def _post(self, connection, body, deadline):
        connection.timeout = _left(deadline)
        if connection.sock is not None:
            connection.sock.settimeout(_left(deadline))
        connection.request("POST", self._target.path.rstrip("/") + "/v1/check", body, {"Content-Type": "application/json"})
        connection.sock.settimeout(_left(deadline))
        return connection.getresponse()

    def _read(self, connection, response, deadline):
        """Reads the body in parts: each read has only what is left of the time."""
        parts, size = [], 0
        while True:
            if connection.sock is not None:
                connection.sock.settimeout(_left(deadline))
            part = response.read1(PART)
            if not part:
                response.close()  # makes way for the next one on the connection
                return b"".join(parts)
            parts.append(part)
            size += len(part)
            if size > MAX_ANSWER:
                raise ValueError("the answer of Headgate is too long")


def _left(deadline):
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError("Headgate did not answer in time")
    return left
