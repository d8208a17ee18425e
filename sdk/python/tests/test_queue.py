import json
import os
import subprocess
import sys
import threading
import time
import unittest

from sluice_client import Client, Queue, QueueClosedError, QueueError, QueueFullError, Retry
from stand_in import StandIn, purchase


def opened(service, **options):
    options.setdefault("sleep", lambda seconds: None)
    return Client(service.url, "test-key", dataset_id="spring", **options)


class TestQueue(unittest.TestCase):
    def test_fills_batches(self):
        service = StandIn(self)
        queue = Queue(opened(service), flush_every=60)
        for _ in range(1234):
            queue.add(purchase())
        report = queue.close()
        self.assertEqual((report.taken, report.accepted, report.waiting, len(service.stored)), (1234, 1234, 0, 1234))
        self.assertEqual(sorted(len(json.loads(r.body)) for r in service.requests), [234, 500, 500])
        with self.assertRaises(QueueClosedError):
            queue.add(purchase())

    def test_does_not_wait_long_for_company(self):
        sent = threading.Event()
        service = StandIn(self, lambda n, handler: sent.set())
        queue = Queue(opened(service), flush_every=0.02)
        self.addCleanup(queue.close)
        queue.offer(purchase())
        self.assertTrue(sent.wait(10))

    def test_flush(self):
        service = StandIn(self)
        queue = Queue(opened(service), flush_every=60)
        self.addCleanup(queue.close)
        for round in (1, 2):
            queue.offer(purchase())
            self.assertTrue(queue.flush(10))
            self.assertEqual(queue.stats().accepted, round)

    def test_memory_is_bounded(self):
        release = threading.Event()
        self.addCleanup(release.set)

        def answer(n, handler):
            if n == 1:
                release.wait(30)
            return n == 1 and handler.fail(503, "UNAVAILABLE")

        service = StandIn(self, answer)
        client = opened(service)
        size = len(client.encode(purchase()))
        queue = Queue(client, max_bytes=3 * size, flush_every=0.001, parallel=1)
        for _ in range(3):
            queue.offer(purchase())
        with self.assertRaises(QueueFullError):
            queue.offer(purchase())
        with self.assertRaises(QueueFullError):
            queue.add(purchase(), timeout=0.01)
        fourth = threading.Thread(target=queue.add, args=(purchase(),))
        fourth.start()
        release.set()
        fourth.join(10)
        self.assertEqual(queue.close().accepted, 4)
        with self.assertRaises(ValueError):
            Queue(client, max_bytes=10).offer(purchase())

    def test_failures_are_handed_over(self):
        service = StandIn(self)
        failures = []
        queue = Queue(opened(service), on_failure=failures.append)
        queue.add(purchase())
        queue.add(purchase(event_type="bad"))
        with self.assertRaises(QueueError) as raised:
            queue.close()
        report = raised.exception.report
        self.assertEqual((report.accepted, report.rejected, report.problems[0].index), (1, 1, 1))
        self.assertEqual(json.loads(failures[0].events[failures[0].error.problems[0].index])["event_type"], "bad")

    def test_what_is_not_confirmed_is_counted(self):
        service = StandIn(self, lambda n, handler: handler.fail(403, "INVALID_API_KEY"))
        queue = Queue(opened(service))
        for _ in range(700):
            queue.add(purchase())
        with self.assertRaises(QueueError) as raised:
            queue.close()
        report = raised.exception.report
        self.assertEqual((report.unsent, report.waiting, report.last_error.code), (700, 0, "INVALID_API_KEY"))

    def test_close_has_an_end(self):
        release = threading.Event()
        self.addCleanup(release.set)
        service = StandIn(self, lambda n, handler: release.wait(30))
        queue = Queue(opened(service, retry=Retry(attempt=0.5, total=0.6)))
        queue.offer(purchase())
        with self.assertRaises(QueueError) as raised:
            queue.close(timeout=0.02)
        self.assertEqual(raised.exception.report.waiting, 1)

    def run_program(self, service, text):
        head = f"import os, sys, time\nfrom sluice_client import Client, Queue\nq = Queue(Client({service.url!r}, 'test-key', dataset_id='spring'), flush_every=60)\ne = {purchase()!r}\n"
        return subprocess.run([sys.executable, "-c", head + text], env=os.environ, stderr=subprocess.PIPE, timeout=60, check=True).stderr.decode()

    def test_a_program_that_ends(self):
        """A program that ends, by itself or by sys.exit, has sent everything before it is gone."""
        for end in ("", "\nsys.exit(0)"):
            service = StandIn(self)
            self.assertEqual(self.run_program(service, "for _ in range(700): q.add(e)" + end), "")
            self.assertEqual(len(service.stored), 700)

    def test_a_program_that_ends_in_vain_says_so(self):
        service = StandIn(self, lambda n, handler: handler.fail(403, "INVALID_API_KEY"))
        said = self.run_program(service, "q.add(e)")
        self.assertIn("of 1 events 0 were accepted, 0 rejected, 1 not confirmed", said)

    @unittest.skipUnless(hasattr(os, "fork"), "no fork on this system")
    def test_fork(self):
        """A forked worker sends its own events, and not its parent's a second time."""
        service = StandIn(self)
        self.run_program(service, """
for i in range(10): q.add(dict(e, source="parent"))
pid = os.fork()
for i in range(10): q.add(dict(e, source="child" if pid == 0 else "parent"))
if pid: os.waitpid(pid, 0)
""")
        self.assertEqual(sorted(e["source"] for e in service.stored), ["child"] * 10 + ["parent"] * 20)


if __name__ == "__main__":
    unittest.main()
