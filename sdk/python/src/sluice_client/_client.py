"""The client of one dataset."""

from __future__ import annotations

import dataclasses
import gzip as gziplib
import ipaddress
import random as randomlib
import ssl
import time
import uuid
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, TypeVar, Union
from urllib.parse import SplitResult, quote, urlsplit

from . import _answer, _fork
from ._batch import MAX_BYTES, MAX_EVENTS, cut, encode, join
from ._errors import BatchError, GiveUpError, ServiceError
from ._http import Answer, Connections
from ._retry import Budget, Retry, retryable
from ._types import Event, Problem, Receipt, Stats, Submission, Unsent, Verdict
from ._version import __version__

_GZIP_OVER = 1024  # bytes from which compression is worth its header

T = TypeVar("T")


class Client:
    """Sends the events of one dataset. It may be used by many threads at once.

    url is the address of the service, for example https://events.example.com; key the dataset's API key. dataset_id is
    put into every event that names no dataset. context verifies the service's certificate; the default is Python's.
    plain_http allows an http:// address that is not this machine's own: the key then travels readable. headers is called
    for every try and adds headers, such as those of a trace. Tests replace now, sleep and random.
    """

    def __init__(
        self,
        url: str,
        key: str,
        *,
        dataset_id: str = "",
        user_agent: str = "",
        gzip: bool = True,
        plain_http: bool = False,
        context: Optional[ssl.SSLContext] = None,
        headers: Optional[Callable[[], Mapping[str, str]]] = None,
        retry: Retry = Retry(),
        now: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
        random: Callable[[], float] = randomlib.random,
    ) -> None:
        _check_key(key)
        # The key is kept in a closure: vars() and repr() print attributes, but not what a function holds.
        self._authorization = lambda: "Bearer " + key
        self._connections = Connections(_check_url(url, plain_http), context)
        self._dataset_id = dataset_id
        self._user_agent = f"{user_agent} sluice-client-python/{__version__}".strip()
        self._gzip = gzip
        self._headers = headers
        self._retry = retry
        self._now = now
        self._sleep = sleep
        self._random = random
        self._after_fork()
        _fork.track(self)

    def _after_fork(self) -> None:
        self._budget = Budget(self._retry.budget)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes idle connections."""
        self._connections.close()

    def encode(self, event: Union[Event, Mapping[str, Any]]) -> bytes:
        """The JSON of an event, with the client's dataset where the event names none."""
        return encode(event, self._dataset_id)

    def send(self, event: Union[Event, Mapping[str, Any]], *, key: Optional[str] = None) -> Receipt:
        """Sends one event. It returns once the event is on stable storage."""
        return self.submit(self.encode(event), key=key)

    def send_batch(self, events: Sequence[Union[Event, Mapping[str, Any]]]) -> List[Receipt]:
        """Sends events in as few requests as their number and size allow, one after the other.

        Unless every event was accepted, it raises BatchError, whose indexes are those of events. An empty list makes no
        request.
        """
        _check_given(events, "the list of events")
        bodies: List[bytes] = []
        for i, event in enumerate(events):
            try:
                body = self.encode(event)
            except (TypeError, ValueError) as error:
                raise type(error)(f"event {i} cannot be written as JSON: {error}") from None
            if len(body) + 2 > MAX_BYTES:
                raise ValueError(f"event {i} is {len(body)} bytes, over the limit of a request")
            bodies.append(body)
        return self._send_encoded(bodies, MAX_EVENTS, MAX_BYTES)

    def _send_encoded(self, bodies: List[bytes], max_events: int, max_bytes: int) -> List[Receipt]:
        receipts: List[Receipt] = []
        rejected, truncated = 0, False
        problems: List[Problem] = []
        unsent: List[Unsent] = []
        start = 0
        while start < len(bodies):
            stop = cut(bodies, start, max_events, max_bytes)
            try:
                receipt = self.submit(join(bodies[start:stop]), batch=True, events=stop - start)
                receipt = _shifted(receipt, start)
                receipts.append(receipt)
                rejected += receipt.rejected
                problems += receipt.problems
                truncated |= receipt.truncated
            except Exception as error:
                if isinstance(error, ServiceError) and error.status == 400 and error.code not in ("", "MALFORMED_JSON"):
                    rejected += stop - start
                    problems += _shift(error.problems, start)
                    truncated |= error.truncated
                else:
                    unsent.append(Unsent(start, len(bodies), error))
                    break  # the rest would meet the same
            start = stop
        if rejected or unsent:
            raise BatchError(receipts, rejected, problems, truncated, unsent)
        return receipts

    def submit(
        self,
        body: Union[bytes, str],
        *,
        batch: bool = False,
        events: int = 1,
        key: Optional[str] = None,
        strict: bool = False,
    ) -> Receipt:
        """Sends one body that is JSON already, and tries until an answer is final.

        In a batch some events may be rejected: only the receipt says so. events is how many the body holds. strict makes one
        invalid event reject the whole batch.
        """
        data = body.encode("utf-8") if isinstance(body, str) else body
        if len(data) > MAX_BYTES:
            raise ValueError(f"the body is {len(data)} bytes, over the limit of {MAX_BYTES}")
        idempotency_key = key or str(uuid.uuid4())
        headers = {"Content-Type": "application/json", "Idempotency-Key": idempotency_key}
        if self._gzip and len(data) > _GZIP_OVER:
            data = gziplib.compress(data, 1)
            headers["Content-Encoding"] = "gzip"
        if strict:
            headers["Prefer"] = "handling=strict"
        path = "/v1/events/batch" if batch else "/v1/events"

        def attempt(timeout: float) -> Receipt:
            return _answer.receipt(self._exchange("POST", path, headers, data, timeout), events, idempotency_key)

        return self._repeat(idempotency_key, attempt)

    def validate(self, events: Union[Event, Mapping[str, Any], Sequence[Union[Event, Mapping[str, Any]]]]) -> Verdict:
        """Tries one event, or a list of them, under the rules of the service. Nothing is stored or counted."""
        if isinstance(events, Sequence):
            body = join([self.encode(event) for event in events])
        else:
            body = self.encode(events)
        if len(body) > MAX_BYTES:
            raise ValueError(f"the body is {len(body)} bytes, over the limit of {MAX_BYTES}")
        headers = {"Content-Type": "application/json"}

        def attempt(timeout: float) -> Verdict:
            return _answer.verdict(self._exchange("POST", "/v1/events/validate", headers, body, timeout))

        return self._repeat("", attempt)

    def status(self, submission_id: str, *, events: bool = False) -> Submission:
        """Looks up a submission of the key's own dataset; with its accepted events if events is set."""
        path = "/v1/submissions/" + quote(submission_id, safe="") + ("?include=events" if events else "")
        return self._repeat("", lambda timeout: _answer.submission(self._exchange("GET", path, {}, None, timeout)))

    def stats(self, window: str = "", by: str = "") -> Stats:
        """Reads the numbers of the key's own dataset. window is 1h, 24h, 7d or 30d; without it 24h.

        by="campaign" adds the campaigns as they were reported: a conversion that was sent twice counts twice.

        An event is counted some seconds after its receipt.
        """
        query = "&".join(name + "=" + quote(value, safe="") for name, value in (("by", by), ("window", window)) if value)
        path = "/v1/stats" + ("?" + query if query else "")
        return self._repeat("", lambda timeout: _answer.stats(self._exchange("GET", path, {}, None, timeout)))

    def _exchange(self, method: str, path: str, headers: Dict[str, str], body: Optional[bytes], timeout: float) -> Answer:
        wire = dict(self._headers()) if self._headers else {}
        wire.update(headers)
        wire["Accept"] = "application/json"
        wire["Authorization"] = self._authorization()
        wire["User-Agent"] = self._user_agent
        return _answer.check(self._connections.exchange(method, path, wire, body, timeout), self._now())

    def _repeat(self, key: str, attempt: Callable[[float], T]) -> T:
        """Calls attempt until it succeeds, fails for good, or a bound is met."""
        retry = self._retry
        deadline = time.monotonic() + retry.total
        n = 0
        while True:
            n += 1
            try:
                result = attempt(min(retry.attempt, deadline - time.monotonic()))
                self._budget.succeed()
                return result
            except Exception as error:
                if not retryable(error):
                    raise
                failure = error
            if time.monotonic() >= deadline:
                raise GiveUpError(key, n, "the time for it was up", failure)
            if not self._budget.take():
                raise GiveUpError(key, n, "the retry budget is used up", failure)
            # Full jitter on top of what the service asked for: callers that got the same Retry-After must not come back in
            # the same instant.
            wait = getattr(failure, "retry_after", 0.0) + self._random() * retry.ceiling(n)
            if time.monotonic() + wait > deadline:
                raise GiveUpError(key, n, "no time was left for another", failure)
            self._sleep(wait)


def _shift(problems: List[Problem], by: int) -> List[Problem]:
    return [dataclasses.replace(p, index=p.index + by) for p in problems]


def _shifted(receipt: Receipt, by: int) -> Receipt:
    warnings = [dataclasses.replace(w, index=w.index + by) for w in receipt.warnings]
    return dataclasses.replace(receipt, problems=_shift(receipt.problems, by), warnings=warnings, first=by)


def _check_given(value: object, name: str) -> None:
    if value is None:
        raise TypeError(f"{name} is None: is the variable with it set?")


def _check_url(text: str, plain_http: bool) -> SplitResult:
    _check_given(text, "the address of the service")
    try:
        url = urlsplit(text.rstrip("/"))
        url.port  # raises ValueError
    except ValueError:
        raise ValueError("the address of the service is not an http or https URL") from None
    if url.scheme not in ("http", "https") or not url.hostname:
        raise ValueError("the address of the service is not an http or https URL")
    if url.username is not None or url.query or url.fragment:
        raise ValueError("the address of the service has a user, a query or a fragment")
    if url.scheme == "http" and not plain_http and not _loopback(url.hostname):
        raise ValueError("plain http would show the key to the network; use https")
    return url


def _loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _check_key(key: str) -> None:
    _check_given(key, "the key")
    if not key:
        raise ValueError("the key is empty")
    if not all("!" <= c <= "~" for c in key):
        raise ValueError("the key has a space, a line break or a character outside ASCII")
