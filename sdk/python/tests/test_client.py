import json
import socket
import threading
import time
import unittest
from datetime import datetime, timezone
from decimal import Decimal

from sluice_client import BatchError, Client, GiveUpError, Retry, ServiceError, hash_email, hash_ipv4
from stand_in import StandIn, purchase


def opened(url, **options):
    options.setdefault("sleep", lambda seconds: None)
    return Client(url, options.pop("key", "test-key"), dataset_id="spring", **options)


class Proxy:
    """A TCP proxy before a stand-in; serve(n, client, upstream) gets every connection."""

    def __init__(self, test, port, serve):
        self.count, self.serve, self.port = 0, serve, port
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self._run, daemon=True).start()
        test.addCleanup(self.listener.close)

    def _run(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            self.count += 1
            upstream = socket.create_connection(("127.0.0.1", self.port))
            threading.Thread(target=self.serve, args=(self.count, client, upstream), daemon=True).start()


def copy(source, target):
    try:
        while data := source.recv(65536):
            target.sendall(data)
    except OSError:
        pass


class TestClient(unittest.TestCase):
    def test_addresses_and_keys(self):
        for url in ("events.example.com", "ftp://events.example.com", "http://events.example.com", "https://u:p@events.example.com", "https://events.example.com/?a", "https://events.example.com/#a", "https://events.example.com:x", ""):
            with self.assertRaises(ValueError, msg=url):
                opened(url)
        for url in ("https://events.example.com/", "http://127.0.0.1:8080", "http://localhost", "http://[::1]:80"):
            opened(url)
        opened("http://events.example.com", plain_http=True)
        for key in ("", "a b", "a\n", "é"):
            with self.assertRaises(ValueError):
                opened("https://events.example.com", key=key)

    def test_none_and_nothing(self):
        service = StandIn(self)
        client = opened(service.url)
        self.assertEqual(client.send_batch([]), [])
        self.assertEqual(len(service.requests), 0)
        for wrong, said in (
            (lambda: opened(None), "the address of the service is None"),
            (lambda: opened(service.url, key=None), "the key is None"),
            (lambda: client.send(None), "an event is None"),
            (lambda: client.send_batch(None), "the list of events is None"),
            (lambda: client.send_batch([purchase(), None]), "event 1 .* an event is None"),
            (lambda: hash_email(None), "the address to hash is None"),
            (lambda: hash_ipv4(None), "the address to hash is None"),
        ):
            with self.assertRaisesRegex(TypeError, said):
                wrong()

    def test_validate(self):
        answer = {
            "valid": False, "accepted": 1, "rejected": 1,
            "errors": [{"index": 1, "error_code": "MISSING_FIELD", "field": "/timestamp", "message": "No.", "hint": "Send it."}],
            "warnings": [{"index": 1, "code": "UNKNOWN_FIELD", "field": "/x", "message": "Dropped."}],
            "events": [{"index": 0, "event": {"event_type": "purchase"}, "privacy": "unrestricted", "privacy_reasons": [], "gpp": None}],
        }
        service = StandIn(self, lambda n, handler: handler.reply(200, json.dumps(answer if n == 1 else {}).encode()))
        client = opened(service.url)
        verdict = client.validate([purchase(), purchase()])
        self.assertEqual((verdict.valid, verdict.accepted, verdict.problems[0].code, verdict.warnings[0].field, verdict.events[0].privacy), (False, 1, "MISSING_FIELD", "/x", "unrestricted"))
        self.assertEqual(service.requests[0].path, "/v1/events/validate")
        self.assertEqual(len(json.loads(service.requests[0].body)), 2)
        with self.assertRaisesRegex(GiveUpError, "no verdict"):
            client.validate(purchase())

    def test_key_does_not_print(self):
        service = StandIn(self, lambda n, handler: handler.fail(403, "INVALID_API_KEY"))
        client = opened(service.url, key="secret-key")
        with self.assertRaises(ServiceError) as raised:
            client.send(purchase())
        self.assertTrue(raised.exception.key_rejected)
        self.assertNotIn("secret-key", repr(client) + str(vars(client)) + repr(raised.exception) + str(vars(raised.exception)))

    def test_event_on_the_wire(self):
        service = StandIn(self)
        client = opened(service.url, headers=lambda: {"traceparent": "00-abc"}, user_agent="shop/2")
        when = datetime.fromtimestamp(1_794_699_600.9, timezone.utc)
        receipt = client.send(purchase(timestamp=when, value=Decimal("49.90"), custom_data={"a\ud800b": "x\\ud800\udfff𐐀"}))
        (request,) = service.requests
        want = purchase(data_set_id="spring", value=49.9, custom_data={"a\ufffdb": "x\\ud800\ufffd𐐀"})
        self.assertEqual(json.loads(request.body), want)
        self.assertEqual((request.headers["Authorization"], request.headers["traceparent"]), ("Bearer test-key", "00-abc"))
        self.assertRegex(request.headers["User-Agent"], r"^shop/2 sluice-client-python/\d")
        self.assertEqual((receipt.accepted, receipt.rejected, receipt.replayed, receipt.key), (1, 0, False, request.headers["Idempotency-Key"]))
        client.send(purchase(data_set_id="other"))
        self.assertEqual(json.loads(service.requests[1].body)["data_set_id"], "other")

    def test_events_that_cannot_be_written(self):
        client = opened("http://127.0.0.1:1")
        for bad, kind in (
            (purchase(value=float("nan")), ValueError),
            (purchase(custom_data={"a": [float("inf")]}), ValueError),
            (purchase(value=Decimal("NaN")), ValueError),
            (purchase(timestamp=datetime(2026, 1, 1)), ValueError),
            (purchase(custom_data={"a": b"secret"}), TypeError),
            (None, TypeError),
            ([], TypeError),
        ):
            with self.assertRaises(kind) as raised:
                client.send(bad)
            self.assertNotIn("secret", str(raised.exception))
            with self.assertRaisesRegex(kind, "^event 1 cannot be written as JSON: "):
                client.send_batch([purchase(), bad])

    def test_problems_have_the_index_of_the_list(self):
        service = StandIn(self)
        events = [purchase(event_type="bad") if i % 700 == 5 else purchase() for i in range(2300)]
        with self.assertRaises(BatchError) as raised:
            opened(service.url).send_batch(events)
        e = raised.exception
        self.assertEqual([p.index for p in e.problems], [5, 705, 1405, 2105])
        self.assertEqual([(r.first, r.accepted, r.rejected) for r in e.receipts], [(0, 998, 2), (1000, 999, 1), (2000, 299, 1)])
        self.assertEqual((e.rejected, e.unsent, len(service.stored)), (4, [], 2296))
        self.assertTrue(str(e).startswith("4 events rejected\n  event 5: INVALID_EVENT_TYPE at /event_type: Not a known type. Use purchase.\n"), e)

    def test_batch_of_which_nothing_is_valid(self):
        service = StandIn(self)
        with self.assertRaises(BatchError) as raised:
            opened(service.url).send_batch([purchase(event_type="bad")] * 1000 + [purchase()])
        e = raised.exception
        self.assertEqual((e.rejected, len(e.receipts), e.receipts[0].first), (1000, 1, 1000))

    def test_foreign_rejection(self):
        """A 400 of what is between says nothing about the events."""
        service = StandIn(self, lambda n, handler: handler.fail(400))
        with self.assertRaises(BatchError) as raised:
            opened(service.url).send_batch([purchase()] * 1500)
        e = raised.exception
        self.assertEqual((e.rejected, [(u.start, u.stop) for u in e.unsent]), (0, [(0, 1500)]))

    def test_what_was_not_sent(self):
        service = StandIn(self, lambda n, handler: n == 2 and handler.fail(403, "INVALID_API_KEY"))
        with self.assertRaises(BatchError) as raised:
            opened(service.url).send_batch([purchase()] * 3000)
        self.assertEqual([(u.start, u.stop, u.error.code) for u in raised.exception.unsent], [(1000, 3000, "INVALID_API_KEY")])
        self.assertEqual(len(service.requests), 2)

    def test_lost_answer(self):
        """An answer that is lost after the service stored the event must not store it twice."""
        service = StandIn(self)

        def serve(n, client, upstream):
            threading.Thread(target=copy, args=(client, upstream), daemon=True).start()
            if n <= 2:
                upstream.recv(1)
                client.shutdown(socket.SHUT_RDWR)
            else:
                copy(upstream, client)

        proxy = Proxy(self, service.port, serve)
        receipt = opened(proxy.url).send(purchase())
        self.assertEqual((receipt.replayed, len(service.stored), len(service.requests)), (True, 1, 3))

    def test_stall(self):
        release = threading.Event()
        self.addCleanup(release.set)
        service = StandIn(self, lambda n, handler: n == 1 and release.wait(30))
        begin = time.monotonic()
        opened(service.url, retry=Retry(attempt=0.2)).send(purchase())
        self.assertGreaterEqual(time.monotonic() - begin, 0.2)
        self.assertEqual(len(service.requests), 2)

    def test_answer_that_comes_drop_by_drop(self):
        for where in ("header", "body"):
            def answer(n, handler, where=where):
                if n > 1:
                    return False
                handler.connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n" + (b"\r\n" if where == "body" else b"X-A: "))
                try:
                    for _ in range(500):
                        handler.connection.sendall(b" ")
                        time.sleep(0.01)
                except OSError:
                    pass
                handler.close_connection = True
                return True

            service = StandIn(self, answer)
            begin = time.monotonic()
            opened(service.url, retry=Retry(attempt=0.2)).send(purchase())
            self.assertLess(time.monotonic() - begin, 3, where)
            self.assertEqual(len(service.requests), 2)

    def test_half_an_answer(self):
        def answer(n, handler):
            if n == 1:
                handler.wfile.write(b'HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{"submission_id":"a"}')
                handler.close_connection = True
            return n == 1

        service = StandIn(self, answer)
        opened(service.url).send(purchase())
        self.assertEqual(len(service.requests), 2)

    def test_total_time(self):
        service = StandIn(self, lambda n, handler: handler.fail(503, "UNAVAILABLE"))
        client = opened(service.url, retry=Retry(total=1, base=0.02, max=0.02, budget=-1), sleep=time.sleep)
        with self.assertRaises(GiveUpError) as raised:
            client.send(purchase())
        e = raised.exception
        self.assertIn(e.attempts - len(service.requests), (0, 1))  # the end may come before the last try arrives
        self.assertEqual({r.headers["Idempotency-Key"] for r in service.requests}, {e.key})
        self.assertGreater(e.attempts, 1)

    def test_idle_connection_that_was_closed(self):
        """A connection that the server closed while it was idle costs no retry."""
        service = StandIn(self)
        answered = threading.Semaphore(0)

        def serve(n, client, upstream):
            threading.Thread(target=copy, args=(client, upstream), daemon=True).start()
            client.sendall(upstream.recv(65536))
            client.shutdown(socket.SHUT_RDWR)
            answered.release()

        proxy = Proxy(self, service.port, serve)
        client = opened(proxy.url, sleep=lambda seconds: self.fail("it waited"))
        for _ in range(2):
            client.send(purchase())
            answered.acquire()
        self.assertEqual((len(service.stored), proxy.count), (2, 2))

    def test_status(self):
        found = {"submission_id": "batch.1", "data_set_id": "spring", "received_at": "2026-11-14T23:40:05Z", "status": "PROCESSED", "accepted": 1, "rejected": 0, "late": 0, "restricted": 0, "suppressed": 0}
        events = [{"index": 0, "event_id": "e", "event_type": "purchase", "late": False, "privacy": "unrestricted", "optimization_eligible": True}]

        def answer(n, handler):
            value = dict(found, events=events) if handler.path.endswith("?include=events") else found
            return handler.reply(200, json.dumps(value).encode())

        service = StandIn(self, answer)
        client = opened(service.url)
        self.assertEqual(client.status("batch.1").received_at, datetime(2026, 11, 14, 23, 40, 5, tzinfo=timezone.utc))
        self.assertTrue(client.status("a/b", events=True).events[0].optimization_eligible)
        self.assertEqual([r.path for r in service.requests], ["/v1/submissions/batch.1", "/v1/submissions/a%2Fb?include=events"])

    def test_stats(self):
        numbers = { "data_set_id": "spring", "window": "7d", "from": "2026-11-08T00:00:00Z", "to": "2026-11-15T00:00:00Z", "complete": True, "received": 12, "accepted": 10, "rejected": 2, "late": 1,
            "requests": { "accepted": 5, "rejected": 3, "by_code": { "MALFORMED_JSON": 3 } },
            "outcomes": { "unrestricted": 8, "measurement_only": 1, "suppressed": 1 }, "event_types": [{ "event_type": "purchase", "accepted": 10 }],
            "rejections": [{ "error_code": "INVALID_IDENTIFIER", "field": "/identifiers/ip", "events": 2, "problems": 3, "first_seen": "2026-11-08T01:00:00Z", "last_seen": "2026-11-14T23:00:00Z", "hint": "Hash it.", "example": "e" }],
            "identifiers": [{ "field": "email_sha256", "events": 9, "share": 0.9 }], "match_readiness": { "points": 90, "formula": "f", "terms": { "with_email_or_ifa": 9, "with_ip_only": 0, "accepted": 10 } },
            "freshness": { "counted_at": "2026-11-14T23:40:00Z", "delay_seconds": 2, "last_accepted_hour": "2026-11-14T23:00:00Z" }, "key": { "key_id": "k", "created_at": "2026-11-01T00:00:00Z", "age_seconds": 9 } }
        by_campaign = { "campaigns": [{ "cp_id": "spring", "cp_name": "Spring", "events": { "add_to_cart": 2 }, "value": { "EUR": 5 }, "refunds": {} }], "as_reported": True, "note": "n" }
        service = StandIn(self, lambda n, handler: handler.reply(200, b"{}" if n > 3 else json.dumps({**numbers, **(by_campaign if n == 3 else {})}).encode()))
        client = opened(service.url)
        stats = client.stats()
        self.assertEqual((stats.data_set_id, stats.received, stats.outcomes["measurement_only"], stats.event_types, stats.match_readiness.with_email_or_ifa), ("spring", 12, 1, {"purchase": 10}, 9))
        self.assertEqual((stats.key.key_id, stats.key.ends_at, stats.counted_at), ("k", None, datetime(2026, 11, 14, 23, 40, tzinfo=timezone.utc)))
        self.assertEqual((stats.requests.accepted, stats.requests.rejected, stats.requests.by_code), (5, 3, {"MALFORMED_JSON": 3}))
        (reason,) = stats.rejections
        self.assertEqual((reason.error_code, reason.events, reason.first_seen), ("INVALID_IDENTIFIER", 2, datetime(2026, 11, 8, 1, tzinfo=timezone.utc)))
        client.stats("7d")
        self.assertIsNone(stats.campaigns)
        (campaign,) = client.stats("7d", by="campaign").campaigns
        self.assertEqual((campaign.cp_id, campaign.events, campaign.value), ("spring", {"add_to_cart": 2}, {"EUR": 5}))
        self.assertEqual([r.path for r in service.requests], ["/v1/stats", "/v1/stats?window=7d", "/v1/stats?by=campaign&window=7d"])
        with self.assertRaises(GiveUpError):
            client.stats()


if __name__ == "__main__":
    unittest.main()
