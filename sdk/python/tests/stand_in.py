"""A small stand-in for the service, on loopback.

It speaks the shapes of the API and keeps Idempotency-Keys, but knows no rule of an event, except that one whose event_type
is "bad" is rejected.
"""

import gzip
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

HASH = "8e43ca37701228e74983efdbd0cff5c16b3b1e5d4e29a7c05626d4d25a018e11"


def purchase(**more):
    return {"timestamp": 1_794_699_600, "event_type": "purchase", "identifiers": {"email_sha256": HASH}, **more}


class Request:
    def __init__(self, path, headers, body):
        self.path, self.headers, self.body = path, headers, body


class StandIn:
    """answer(n, handler) may answer request n in its place; then it returns True."""

    def __init__(self, test, answer=lambda n, handler: False):
        self.requests, self.stored, self.answer = [], [], answer
        self.receipts = {}
        self.lock = threading.Lock()
        server = _Server(("127.0.0.1", 0), _Handler)
        server.stand_in = self
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        test.addCleanup(thread.join)
        test.addCleanup(server.server_close)
        test.addCleanup(server.shutdown)
        self.port = server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"

    def accept(self, path, body):
        events = body if path == "/v1/events/batch" else [body]
        errors = []
        for i, event in enumerate(events):
            if event["event_type"] == "bad":
                errors.append({"index": i, "error_code": "INVALID_EVENT_TYPE", "field": "/event_type", "message": "Not a known type.", "hint": "Use purchase."})
            else:
                self.stored.append(event)
        if len(errors) == len(events):
            return 400, {"status": "error", "error_code": "INVALID_EVENT_TYPE", "message": "Not a known type.", "request_id": "r1", "errors": errors}
        receipt = {"submission_id": "batch.01980f3e", "received_at": "2026-11-14T23:40:05Z", "status": "RECEIVED"}
        if errors:
            receipt.update(accepted=len(events) - len(errors), rejected=len(errors), errors=errors)
        return 200, receipt


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False  # a test may leave an answer open


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # an answer leaves in one piece
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def handle(self):
        try:
            super().handle()
        except ConnectionError:
            pass  # the client left

    def do_GET(self):
        self.do_POST()

    def do_POST(self):
        s = self.server.stand_in
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        with s.lock:
            s.requests.append(Request(self.path, self.headers, body))
            n = len(s.requests)
        if s.answer(n, self):
            return
        with s.lock:
            key = self.headers["Idempotency-Key"]
            replayed = key in s.receipts
            status, value = s.receipts[key] if replayed else s.accept(self.path, json.loads(body))
            if status == 200:
                s.receipts[key] = status, value
        self.reply(status, json.dumps(value).encode(), {"Idempotency-Replayed": "true"} if replayed else {})

    def reply(self, status, body=b"", headers=None):
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        return True

    def fail(self, status, code="", headers=None):
        value = {"status": "error", "error_code": code, "message": "No.", "request_id": "r1", "errors": []}
        return self.reply(status, json.dumps(value).encode() if code else b"", headers)
