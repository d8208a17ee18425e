"""What can go wrong. No error holds a value of an event, nor the key."""

from __future__ import annotations

from typing import List, Sequence

from ._types import Problem, QueueReport, Receipt, Unsent

_SHOWN = 5  # problems that an error's text lists; arbitrary: a screenful

_HASH_MESSAGES = {
    "ALREADY_HASHED": "the value is 64 hex digits, a hash already: hashing it again would match nobody",
    "NOT_EMAIL": "the value is no e-mail address",
    "NOT_IPV4": "the value is no IPv4 address",
}


class SluiceError(Exception):
    """The base of all errors of this package."""


class HashError(SluiceError, ValueError):
    """A value cannot be hashed. code is ALREADY_HASHED, NOT_EMAIL or NOT_IPV4."""

    def __init__(self, code: str) -> None:
        super().__init__(_HASH_MESSAGES[code])
        self.code = code


class ServiceError(SluiceError):
    """The service answered, and it is no success."""

    def __init__(
        self,
        status: int,
        message: str,
        code: str = "",
        request_id: str = "",
        problems: Sequence[Problem] = (),
        truncated: bool = False,
        retry_after: float = 0.0,
    ) -> None:
        text = f"{status} {code}".rstrip() + f": {message}"
        if request_id:
            text += f" (request id {request_id})"
        if len(problems) == 1 and problems[0].message == message:
            text += f" At {problems[0].field}." if problems[0].field else ""
            text += f" {problems[0].hint}" if problems[0].hint else ""
        else:
            text += _listed(problems, truncated)
        super().__init__(text)
        self.status = status
        self.code = code  # empty when the answer was not the service's own, but a proxy's
        self.request_id = request_id  # what to tell the operator
        self.problems = list(problems)
        self.truncated = truncated
        self.retry_after = retry_after  # seconds, as the service asked; 0: it did not

    @property
    def key_rejected(self) -> bool:
        """The service rejected the key, or the key's use for this dataset."""
        return self.status in (401, 403)


class GiveUpError(SluiceError):
    """No final answer came. The events may or may not be stored; __cause__ is the error of the last try.

    key is the Idempotency-Key of every try: the same bytes with this key are stored at most once.
    """

    def __init__(self, key: str, attempts: int, reason: str, cause: Exception) -> None:
        tries = "try" if attempts == 1 else "tries"
        super().__init__(f"gave up after {attempts} {tries}, {reason}: {cause}")
        self.key = key
        self.attempts = attempts
        self.reason = reason
        self.__cause__ = cause


class BatchError(SluiceError):
    """Some events of a batch were not accepted. Indexes are those of the caller's list."""

    def __init__(
        self, receipts: List[Receipt], rejected: int, problems: List[Problem], truncated: bool, unsent: List[Unsent]
    ) -> None:
        parts: List[str] = []
        if rejected:
            parts.append(f"{rejected} {'event' if rejected == 1 else 'events'} rejected")
        parts += [f"events {u.start} to {u.stop - 1} not confirmed: {u.error}" for u in unsent]
        super().__init__("; ".join(parts) + _listed(problems, truncated))
        self.receipts = receipts  # of the requests that succeeded
        self.rejected = rejected
        self.problems = problems  # at most 100 for each request
        self.truncated = truncated
        self.unsent = unsent
        if unsent:
            self.__cause__ = unsent[0].error


class QueueError(SluiceError):
    """A queue was closed, and not every event was accepted."""

    def __init__(self, report: QueueReport) -> None:
        super().__init__(
            f"of {report.taken} events {report.accepted} were accepted, {report.rejected} rejected, "
            f"{report.unsent} not confirmed, {report.waiting} still wait"
        )
        self.report = report
        self.__cause__ = report.last_error


class QueueFullError(SluiceError):
    """The queue has no memory for the event now."""

    def __init__(self) -> None:
        super().__init__("the queue is full")


class QueueClosedError(SluiceError):
    """The queue takes no more events."""

    def __init__(self) -> None:
        super().__init__("the queue is closed")


def _listed(problems: Sequence[Problem], truncated: bool) -> str:
    text = ""
    for p in problems[:_SHOWN]:
        at = f" at {p.field}" if p.field else ""
        hint = f" {p.hint}" if p.hint else ""
        text += f"\n  event {p.index}: {p.code}{at}: {p.message}{hint}"
    if len(problems) > _SHOWN:
        text += f"\n  and {'over ' if truncated else ''}{len(problems) - _SHOWN} more problems"
    return text
