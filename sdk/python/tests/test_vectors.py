"""What every SDK does alike, from sdk/vectors.json."""

import json
import os
import pathlib
import socket
import unittest
from datetime import datetime
from unittest import mock

import sluice_client as sluice
from stand_in import StandIn, purchase

PATH = os.environ.get("SLUICE_VECTORS") or pathlib.Path(__file__).resolve().parents[2] / "vectors.json"
with open(PATH, encoding="utf-8") as file:
    VECTORS = json.load(file)
RETRY = VECTORS["retry"]
HASH = {"email": sluice.hash_email, "ip": sluice.hash_ipv4}


def opened(service, **options):
    options.setdefault("sleep", lambda seconds: None)
    return sluice.Client(service.url, "test-key", dataset_id="spring", **options)


def filled(size):
    """An event of so many bytes."""
    bare = len(sluice.Client("http://127.0.0.1", "k", dataset_id="spring").encode(purchase(source="")))
    return purchase(source="x" * (size - bare))


def caught(call):
    try:
        call()
    except Exception as error:
        return error
    return None


class TestVectors(unittest.TestCase):
    def test_hashes(self):
        for v in VECTORS["hash"]["vectors"]:
            self.assertEqual(HASH[v["kind"]](v["input"]), v["sha256"], v)
        for v in VECTORS["hash"]["rejected"]:
            with self.assertRaises(sluice.HashError, msg=v) as raised:
                HASH[v["kind"]](v["input"])
            self.assertEqual(raised.exception.code, v["error"], v)
        with self.assertRaises(sluice.HashError):
            sluice.hash_email("ana@\ud800")

    def test_limits(self):
        want = VECTORS["limits"]
        got = (sluice.MAX_EVENTS, sluice.MAX_BYTES, sluice.FILL_EVENTS, sluice.FILL_BYTES)
        self.assertEqual(got, (want["max_events"], want["max_bytes"], want["fill_events"], want["fill_bytes"]))
        service = StandIn(self)
        for more, encoding in ((0, None), (1, "gzip")):
            opened(service).send(filled(want["gzip_over"] + more))
            self.assertEqual(len(service.requests[-1].body), want["gzip_over"] + more)
            self.assertEqual(service.requests[-1].headers.get("Content-Encoding"), encoding)

    def test_split(self):
        service = StandIn(self)
        for c in VECTORS["split"]:
            service.requests.clear()
            receipts = opened(service).send_batch([filled(c["size"])] * c["events"])
            self.assertEqual([len(json.loads(r.body)) for r in service.requests], c["requests"], c)
            self.assertEqual([r.accepted for r in receipts], c["requests"])
        with self.assertRaisesRegex(ValueError, "event 0 is 5242879 bytes"):
            opened(service).send_batch([filled(sluice.MAX_BYTES - 1)])

    def test_answers_that_are_tried_again(self):
        for c in RETRY["answers"]:
            def answer(n, handler, c=c):
                if n > 1:
                    return False
                if "body" in c:
                    return handler.reply(c["status"], c["body"].encode())
                return handler.fail(c["status"], c["error_code"])

            service = StandIn(self, answer)
            error = caught(lambda: opened(service).send(purchase()))
            self.assertEqual(error is None, c["again"], c)
            self.assertEqual(len(service.requests), 2 if c["again"] else 1, c)
            if c["again"]:
                first, second = service.requests
                self.assertEqual(first.headers["Idempotency-Key"], second.headers["Idempotency-Key"])
            else:
                self.assertEqual((type(error), error.status, error.code), (sluice.ServiceError, c["status"], c["error_code"]))

    def test_retry_after(self):
        for c in RETRY["retry_after"]:
            waits = []
            service = StandIn(self, lambda n, handler: n == 1 and handler.fail(429, "RATE_LIMITED", {"Retry-After": c["header"]}))
            now = datetime.fromisoformat(c["now"].replace("Z", "+00:00")).timestamp()
            opened(service, now=lambda: now, random=lambda: 0.0, sleep=waits.append).send(purchase())
            self.assertEqual(waits, [c["seconds"]], c)

    def test_waits(self):
        c = RETRY["ceilings"]
        ceilings = [ms / 1000 for ms in c["after_try_ms"]]
        waits = []
        service = StandIn(self, lambda n, handler: n <= len(ceilings) and handler.fail(503, "UNAVAILABLE"))
        retry = sluice.Retry(base=c["base_ms"] / 1000, max=c["max_ms"] / 1000)
        opened(service, retry=retry, random=lambda: 1.0, sleep=waits.append).send(purchase())
        self.assertEqual(waits, ceilings)
        jittered = []
        other = StandIn(self, lambda n, handler: n <= 40 and handler.fail(503, "UNAVAILABLE"))
        opened(other, retry=sluice.Retry(base=1, max=1), sleep=jittered.append).send(purchase())
        self.assertTrue(min(jittered) < 0.333 and max(jittered) > 0.667, "40 waits miss a third of the range")

    def test_defaults(self):
        ms = RETRY["defaults_ms"]
        r = sluice.Retry()
        self.assertEqual([r.base, r.max, r.attempt, r.total], [ms[k] / 1000 for k in ("base", "max", "attempt", "total")])
        self.assertEqual(r.budget, RETRY["budget"])
        service = StandIn(self, lambda n, handler: handler.fail(503, "UNAVAILABLE"))
        waits = []
        timeouts = []

        class Watched(socket.socket):
            def settimeout(self, seconds):
                timeouts.append(seconds or 0.0)
                super().settimeout(seconds)

        with mock.patch.object(socket, "socket", Watched):
            error = caught(lambda: opened(service, random=lambda: 1.0, sleep=waits.append).send(purchase()))
        longest = max(timeouts)
        self.assertTrue(r.attempt - 0.1 < longest <= r.attempt, f"a try may take {longest} s")
        self.assertEqual((waits[0], max(waits)), (r.base, r.max))
        self.assertEqual(error.attempts, r.budget + 1)  # the waits cost no time here, so the budget ends it
        self.assertIn("retry budget", error.reason)
        self.assertEqual(error.__cause__.status, 503)
        asking = StandIn(self, lambda n, handler: handler.fail(503, "UNAVAILABLE", {"Retry-After": str(int(r.total) + 1)}))
        error = caught(lambda: opened(asking).send(purchase()))
        self.assertIn("no time was left", error.reason)
        self.assertEqual(len(asking.requests), 1)

    def test_budget(self):
        rounds = RETRY["budget_rounds"]
        broken = True
        service = StandIn(self, lambda n, handler: broken and handler.fail(500, "INTERNAL_ERROR"))
        client = opened(service, retry=sluice.Retry(budget=rounds["budget"]))
        for r in rounds["rounds"]:
            broken = r["service"] == "broken"
            before = len(service.requests)
            for _ in range(r["requests"]):
                self.assertEqual(caught(lambda: client.send(purchase())) is not None, broken)
            self.assertEqual(len(service.requests) - before, r["tries"], r)


if __name__ == "__main__":
    unittest.main()
