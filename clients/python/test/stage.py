"""What the tests share: the Headgate that they ask, and servers of their own."""

import itertools
import os
import socket
import threading
import time

URL = os.environ["HEADGATE_URL"]  # of a Headgate by ../rules.yaml
FORGETFUL_URL = os.environ["HEADGATE_FORGETFUL_URL"]  # whose answers are lost, every other one from the first on
TLS_URL = os.environ["HEADGATE_TLS_URL"]  # of the first one, behind a certificate for localhost alone
CA = os.environ["HEADGATE_CA"]  # the file of its authority
TOKEN = os.environ["HEADGATE_TOKEN"]  # may name limits
TRANSCRIPTS = os.environ["HEADGATE_TRANSCRIPTS"]  # the folder of recorded answers
ANSWERS = os.environ["HEADGATE_ANSWERS"]  # what is to be read in them
README = os.environ["HEADGATE_README"]  # whose examples are run
TIMEOUT = 30.0  # seconds: more than any test waits for an answer that comes

_numbers = itertools.count()


def user():
    """A user whom no other test has."""
    return f'py "quoted" {os.getpid()} {time.time_ns()} {next(_numbers)}'


def reply(status, body, length=None):
    return f"HTTP/1.1 {status} X\r\nContent-Length: {len(body) if length is None else length}\r\n\r\n{body}".encode()


class Listener:
    """A server that answers each part of a request that it reads with the same bytes, or those
    that a function has for the number of its connection, or closes the connection for None."""

    def __init__(self, answer):
        self.answer, self.heard, self.connections, self._open = answer, b"", 0, []
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self._thread = threading.Thread(target=self._run)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join()
        self.hang_up()
        for connection, thread in self._open:
            thread.join()
            connection.close()

    def say(self, data):
        """Sends on every connection what nobody has asked for."""
        for connection, _ in list(self._open):
            connection.sendall(data)

    def hang_up(self):
        """Ends every connection."""
        for connection, _ in list(self._open):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # ended before

    def _run(self):
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self.connections += 1
            thread = threading.Thread(target=self._serve, args=(connection, self.connections))
            self._open.append((connection, thread))
            thread.start()

    def _serve(self, connection, number):
        try:
            while heard := connection.recv(64 << 10):
                self.heard = heard
                answer = self.answer(number) if callable(self.answer) else self.answer
                if answer is None:
                    break
                connection.sendall(answer)
            connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # the other side has gone
