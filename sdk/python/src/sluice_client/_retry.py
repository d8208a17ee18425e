"""When a request is tried again, and after how long."""

import http.client
import ssl
import threading
from dataclasses import dataclass
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import Optional

from ._errors import ServiceError


@dataclass(frozen=True)
class Retry:
    """Bounds of the tries of one request, in seconds."""

    base: float = 0.25  # upper end of the first wait; it doubles with every try
    max: float = 20.0  # largest upper end
    attempt: float = 30.0  # longest single try
    total: float = 120.0  # from the first try to the last answer, waits included
    # Retries that all requests of a Client may have in hand. A retry takes one, a success gives back a tenth. When it is
    # used up, a request is tried once and no more. Negative: no such bound.
    budget: int = 50

    def __post_init__(self) -> None:
        if min(self.base, self.max, self.attempt, self.total) <= 0:
            raise ValueError("base, max, attempt and total of Retry are positive numbers of seconds")

    def ceiling(self, n: int) -> float:
        """The longest wait after try n, beside what the service asked for."""
        return min(self.max, self.base * 2 ** min(n - 1, 64))


class Budget:
    """The bucket of retries that all requests of a Client share, counted in tenths."""

    def __init__(self, n: int) -> None:
        self._lock = threading.Lock()
        self._max = n * 10
        self._tenths = self._max

    def take(self) -> bool:
        with self._lock:
            if self._max < 0:
                return True
            if self._tenths < 10:
                return False
            self._tenths -= 10
            return True

    def succeed(self) -> None:
        with self._lock:
            self._tenths = min(self._tenths + 1, self._max)


def retryable(error: Exception) -> bool:
    """Whether trying again may end better. Network errors may; a certificate that does not fit will not."""
    if isinstance(error, ServiceError):
        if error.status == 409:
            return error.code == "IDEMPOTENCY_IN_PROGRESS"
        # 200: a page of a proxy, or half an answer. The outcome is not known.
        return error.status in (200, 408, 429) or error.status >= 500
    if isinstance(error, ssl.SSLCertVerificationError):
        return False
    return isinstance(error, (OSError, http.client.HTTPException))  # anything else is a mistake in a program


def retry_after(header: Optional[str], now: float) -> float:
    """Reads the header in both its forms, seconds or a date."""
    text = (header or "").strip()
    if text.isascii() and text.isdigit() and len(text) < 10:
        return float(text)
    try:
        at = parsedate_to_datetime(text)
    except (TypeError, ValueError, IndexError):
        return 0.0
    if at.tzinfo is None:
        at = at.replace(tzinfo=timezone.utc)
    return max(0.0, (at - datetime.fromtimestamp(now, timezone.utc)).total_seconds())
