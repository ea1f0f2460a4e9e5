import unittest

from headgate._breaker import Breaker


class BreakerTest(unittest.TestCase):
    def fail(self, breaker, now, times=3):
        for _ in range(times):
            self.assertTrue(breaker.allow(now))
            breaker.done(now, False)

    def test_failures_count_in_a_row(self):
        breaker = Breaker()
        for _ in range(3):
            self.fail(breaker, 0.0, 2)
            breaker.done(0.0, True)
        self.fail(breaker, 0.0, 2)
        self.assertTrue(breaker.allow(0.0))

    def test_success_closes_it(self):
        """After that three more failures open it, for the first pause."""
        breaker = Breaker()
        self.fail(breaker, 0.0)
        self.fail(breaker, 1.0, 1)  # the pause is 2 s now
        self.assertTrue(breaker.allow(3.0))
        breaker.done(3.0, True)
        self.assertTrue(breaker.allow(3.0) and breaker.allow(3.0), "calls wait for none under way")
        self.fail(breaker, 3.0)
        self.assertFalse(breaker.allow(3.9))
        self.assertTrue(breaker.allow(4.0))

    def test_one_probe_at_a_time(self):
        breaker = Breaker()
        self.fail(breaker, 0.0)
        self.assertTrue(breaker.allow(1.0))
        self.assertFalse(breaker.allow(1.0))
        breaker.forget()  # its caller gave it up
        self.assertTrue(breaker.allow(1.0))

    def test_pauses_are_bounded(self):
        breaker, now = Breaker(), 0.0
        self.fail(breaker, now)
        for pause in (1.0, 2.0, 4.0, 4.0):
            self.assertFalse(breaker.allow(now + pause - 0.1), pause)
            now += pause
            self.fail(breaker, now, 1)

    def test_late_failures_do_not_lengthen_the_pause(self):
        breaker = Breaker()
        self.fail(breaker, 0.0)
        breaker.done(0.9, False)  # was under way when it opened
        self.assertTrue(breaker.allow(1.0))


if __name__ == "__main__":
    unittest.main()
