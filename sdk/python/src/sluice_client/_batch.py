"""Events as JSON, and how many go into a request."""

import json
from datetime import datetime
from decimal import Decimal
from typing import Any, List, Mapping, Sequence

# The limits of one request. The first two are the service's, the others its advice.
MAX_EVENTS = 1000  # events in a batch
MAX_BYTES = 5 * 1024 * 1024  # bytes of a body, before compression
FILL_EVENTS = 500  # events a Queue puts into one batch
FILL_BYTES = 1_000_000  # bytes after which a Queue closes a batch


def encode(event: Mapping[str, Any], dataset_id: str) -> bytes:
    """The JSON of an event, with the client's dataset where the event names none."""
    if not isinstance(event, Mapping):
        raise TypeError("an event is None" if event is None else "an event is not a mapping")
    wire = dict(event)
    if dataset_id and wire.get("data_set_id") in (None, ""):
        wire["data_set_id"] = dataset_id
    when = wire.get("timestamp")
    if isinstance(when, datetime):
        if when.tzinfo is None:
            raise ValueError("the timestamp is a datetime without a time zone")
        wire["timestamp"] = int(when.timestamp() // 1)
    try:
        text = json.dumps(wire, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_plain)
    except ValueError:  # its text repeats the value
        raise ValueError("an event has a number that is not finite, or holds itself") from None
    except TypeError:
        raise TypeError("an event has a value that JSON cannot hold") from None
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        # Halves of surrogate pairs become U+FFFD: the service would reject the whole batch.
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode("utf-8")


def _plain(value: Any) -> float:
    if isinstance(value, Decimal):  # what programs keep money in
        return float(value)
    raise TypeError


def cut(bodies: Sequence[bytes], start: int, max_events: int, max_bytes: int) -> int:
    """The end of the batch that begins at start: never empty, within both limits."""
    size = 2  # the brackets
    for stop in range(start, len(bodies)):
        size += len(bodies[stop])
        if stop > start:
            size += 1  # the comma
            if stop - start == max_events or size > max_bytes:
                return stop
    return len(bodies)


def join(bodies: List[bytes]) -> bytes:
    """The array of the events."""
    return b"[" + b",".join(bodies) + b"]"
