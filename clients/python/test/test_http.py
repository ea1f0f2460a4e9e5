import random
import unittest

from headgate._http import MAX_BODY, MAX_HEAD, Answer, CutOff, Malformed, post

ANSWERS = [
    (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nX-A: 1\r\nx-a:  2 \r\n\r\nabc", 200, b"abc", True),
    (b"HTTP/1.1 200\r\nContent-Length: 0\r\nConnection: keep-alive, close\r\n\r\n", 200, b"", False),
    (b"HTTP/1.0 429 Too Many Requests\r\nContent-Length: 1\r\n\r\nx", 429, b"x", False),
    (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;a=b\r\nab\r\n0a\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n", 200, b"ab0123456789", True),
    (b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n", 204, b"", True),
    (b"HTTP/1.1 200 OK\r\n\r\nuntil the end", 200, b"until the end", False),
    (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nab", 200, b"a", False),
]
MALFORMED = [
    b"HTTP/2 200 OK\r\n\r\n", b"ICY 200 OK\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 1, 1\r\n\r\na", b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n", b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n", b"HTTP/1.1 200 OK\r\n folded: x\r\n\r\n",
    b"x" * (MAX_HEAD + 1),
    b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (MAX_BODY + 1), b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * (MAX_BODY + 1),
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffff\r\n", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"0" * 2000,
]
CUT_OFF = [b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc", b"", b"HTTP/1.1 200 OK\r\n"]


def read(parts):
    """Feeds an answer in parts, and the end of the connection where it is not whole."""
    answer = Answer()
    for part in parts:
        if part and answer.feed(part):
            return answer
    answer.feed(b"")
    return answer


class HTTPTest(unittest.TestCase):
    def test_answers_in_parts(self):
        for data, status, body, keeps in ANSWERS:
            whole = read([data])
            self.assertEqual((whole.status, bytes(whole.body), whole.keeps), (status, body, keeps), data)
            for at in range(1, len(data)):
                answer = read([data[:at], data[at:]])
                self.assertEqual((answer.status, answer.headers, answer.body), (status, whole.headers, body), (data, at))
            single = read([bytes([each]) for each in data])
            self.assertEqual((single.status, single.headers, single.body), (status, whole.headers, body), data)
        self.assertEqual(read([ANSWERS[0][0]]).headers["x-a"], "1, 2")

    def test_what_is_no_answer(self):
        for data in MALFORMED:
            with self.assertRaises(Malformed, msg=data[:80]) as found:
                read([data])
            self.assertNotIsInstance(found.exception, CutOff, data[:80])
        for data in CUT_OFF:
            with self.assertRaises(CutOff, msg=data):
                read([data])

    def test_anything_ends(self):
        draw = random.Random(1)
        for _ in range(5000):
            data = bytearray(draw.choice(ANSWERS)[0])
            for _ in range(draw.randint(1, 4)):
                at = draw.randrange(len(data) + 1)
                data[at:at + draw.randint(0, 3)] = draw.choice([b"", b"\r\n", b"\r", b":", b"0", b"\xff", b"f" * 9, bytes([draw.randrange(256)])])
            at = draw.randrange(len(data) + 1)
            try:
                answer = read([bytes(data[:at]), bytes(data[at:])])
            except Malformed:
                continue
            self.assertTrue(200 <= answer.status <= 999)

    def test_post(self):
        self.assertEqual(
            post("/v1/check", "h:1", {"A": "b"}, b"{}"),
            b"POST /v1/check HTTP/1.1\r\nHost: h:1\r\nContent-Length: 2\r\nA: b\r\n\r\n{}")
