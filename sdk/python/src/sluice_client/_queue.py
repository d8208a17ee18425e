"""A queue that sends in the background."""

from __future__ import annotations

import atexit
import dataclasses
import sys
import threading
import time
import weakref
from collections import deque
from typing import Any, Callable, Deque, List, Mapping, Optional, Union

from . import _fork
from ._batch import FILL_BYTES, FILL_EVENTS, MAX_BYTES, cut
from ._client import Client
from ._errors import BatchError, QueueClosedError, QueueError, QueueFullError
from ._types import Event, QueueFailure, QueueReport, Receipt, Unsent

_KEPT_PROBLEMS = 100  # arbitrary: what one answer would list

_open: "weakref.WeakSet[Queue]" = weakref.WeakSet()


class Queue:
    """Collects events and sends them in the background, from threads that start with the first event.

    It holds at most max_bytes of events, those under way included. Every event that it took is accepted by the service, or
    counted in the report and handed to on_failure. flush_every is the longest that an event waits for its batch to fill, in
    seconds; parallel how many batches are under way at once. on_failure is called, from several threads, for every batch
    that was not wholly accepted.

    When the interpreter exits, open queues are closed, for at most exit_timeout seconds.
    """

    def __init__(
        self,
        client: Client,
        *,
        max_bytes: int = 32 * 1024 * 1024,
        flush_every: float = 1.0,
        parallel: int = 2,
        on_failure: Optional[Callable[[QueueFailure], None]] = None,
        exit_timeout: float = 30.0,
    ) -> None:
        self._client = client
        self._max_bytes = max_bytes
        self._flush_every = flush_every
        self._parallel = parallel
        self._on_failure = on_failure
        self._exit_timeout = exit_timeout
        self._closing = False
        self._after_fork()
        _fork.track(self)

    def _after_fork(self) -> None:
        # What waits in the parent is the parent's to send.
        self._changed = threading.Condition()
        self._waiting: Deque[bytes] = deque()  # encoded events that are in no batch yet, oldest first
        self._bytes = 0  # their size
        self._held = 0  # size of everything taken and not settled
        self._since = 0.0  # when the oldest of waiting came
        self._flushing = False
        self._threads: List[threading.Thread] = []
        self._report = QueueReport()

    def __enter__(self) -> Queue:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def add(self, event: Union[Event, Mapping[str, Any]], timeout: Optional[float] = None) -> None:
        """Takes an event. It waits while the queue is full; after timeout seconds it raises QueueFullError."""
        body = self._encode(event)
        with self._changed:
            if not self._changed.wait_for(lambda: self._closing or self._held + len(body) <= self._max_bytes, timeout):
                raise QueueFullError
            if self._closing:
                raise QueueClosedError
            if not self._waiting:
                self._since = time.monotonic()
            self._waiting.append(body)
            self._bytes += len(body)
            self._held += len(body)
            self._report.taken += 1
            self._start()
            if len(self._waiting) == 1 or self._full():
                self._changed.notify_all()

    def offer(self, event: Union[Event, Mapping[str, Any]]) -> None:
        """Takes an event, or raises QueueFullError."""
        self.add(event, timeout=0)

    def stats(self) -> QueueReport:
        """The report so far."""
        with self._changed:
            r = self._report
            return dataclasses.replace(r, problems=list(r.problems), waiting=self._unsettled())

    def flush(self, timeout: Optional[float] = None) -> bool:
        """Sends everything that waits, and returns True once it is settled, False after timeout seconds."""
        with self._changed:
            self._flushing = True
            self._changed.notify_all()
            return self._changed.wait_for(lambda: self._unsettled() == 0, timeout)

    def close(self, timeout: Optional[float] = None) -> QueueReport:
        """Takes no more events, sends what is left, and returns when all is settled, or after timeout seconds.

        It raises QueueError unless the service accepted every event that the queue took.
        """
        with self._changed:
            self._closing = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._unsettled() == 0, timeout)
        _open.discard(self)
        report = self.stats()
        if report.accepted != report.taken:
            raise QueueError(report)
        return report

    def _encode(self, event: Union[Event, Mapping[str, Any]]) -> bytes:
        body = self._client.encode(event)
        if len(body) > min(self._max_bytes, MAX_BYTES - 2):
            raise ValueError(f"the event is {len(body)} bytes, more than the queue or a request can hold")
        return body

    def _unsettled(self) -> int:
        r = self._report
        return r.taken - r.accepted - r.rejected - r.unsent

    def _full(self) -> bool:
        return len(self._waiting) >= FILL_EVENTS or self._bytes >= FILL_BYTES

    def _start(self) -> None:
        if self._threads:
            return
        _open.add(self)
        for _ in range(self._parallel):
            thread = threading.Thread(target=self._work, name="sluice-queue", daemon=True)
            thread.start()
            self._threads.append(thread)

    def _work(self) -> None:
        while True:
            batch = self._next()
            if not batch:
                return
            receipts: List[Receipt] = []
            failure: Optional[BatchError] = None
            try:
                receipts = self._client._send_encoded(batch, FILL_EVENTS, MAX_BYTES)
            except BatchError as error:
                receipts, failure = error.receipts, error
            except BaseException as error:  # the report must stay complete
                unsent = Unsent(0, len(batch), error if isinstance(error, Exception) else RuntimeError("the thread was ended"))
                failure = BatchError([], 0, [], False, [unsent])
            self._settle(batch, receipts, failure)

    def _next(self) -> List[bytes]:
        """Waits for a batch: a full one, one whose oldest event is old enough, or what is left at the end. [] is the end."""
        with self._changed:
            while True:
                age = time.monotonic() - self._since
                now = self._closing or self._flushing or self._full() or age >= self._flush_every
                if self._waiting and now:
                    stop = cut(self._waiting, 0, FILL_EVENTS, FILL_BYTES)
                    batch = [self._waiting.popleft() for _ in range(stop)]
                    self._bytes -= sum(map(len, batch))
                    self._since = time.monotonic()
                    return batch
                if not self._waiting:
                    self._flushing = False
                    if self._closing:
                        return []
                self._changed.wait(self._flush_every - age if self._waiting else None)

    def _settle(self, batch: List[bytes], receipts: List[Receipt], failure: Optional[BatchError]) -> None:
        if failure is not None and self._on_failure is not None:
            try:
                self._on_failure(QueueFailure(batch, failure))
            except Exception as error:
                print(f"sluice_client: on_failure raised {type(error).__name__}", file=sys.stderr)
        with self._changed:
            r = self._report
            for receipt in receipts:
                r.accepted += receipt.accepted
                r.warnings += len(receipt.warnings)
            if failure is not None:
                r.rejected += failure.rejected
                r.problems += failure.problems[: _KEPT_PROBLEMS - len(r.problems)]
                for u in failure.unsent:
                    r.unsent += u.stop - u.start
                    r.last_error = u.error
            self._held -= sum(map(len, batch))
            self._changed.notify_all()


@atexit.register
def _close_all() -> None:
    for queue in list(_open):
        try:
            queue.close(queue._exit_timeout)
        except QueueError as error:
            print(f"sluice_client: at exit, {error}", file=sys.stderr)
