"""Sends conversion events to a Sluice service.

    from sluice_client import Client, hash_email

    client = Client(url, key, dataset_id="shop")
    receipt = client.send({
        "timestamp": datetime.now(timezone.utc),
        "event_type": "purchase",
        "value": 49.90,
        "currency_code": "EUR",
        "identifiers": {"email_sha256": hash_email(" Ana@Example.com ")},
    })

Client.send takes one event, Client.send_batch a list of any length, Client.submit a body that is JSON already. Queue sends
in the background. Client.status says what became of a submission, Client.stats how the dataset does.
"""

from ._batch import FILL_BYTES, FILL_EVENTS, MAX_BYTES, MAX_EVENTS
from ._client import Client
from ._errors import (
    BatchError,
    GiveUpError,
    HashError,
    QueueClosedError,
    QueueError,
    QueueFullError,
    ServiceError,
    SluiceError,
)
from ._hash import hash_email, hash_ipv4
from ._queue import Queue
from ._retry import Retry
from ._types import (
    Event,
    EventType,
    EventWarning,
    Identifiers,
    MatchReadiness,
    Privacy,
    Problem,
    QueueFailure,
    QueueReport,
    Receipt,
    Stats,
    StatsCampaign,
    StatsIdentifier,
    StatsKey,
    StatsRejection,
    StatsRequests,
    Submission,
    SubmissionEvent,
    Unsent,
    ValidEvent,
    Verdict,
)
from ._version import __version__

__all__ = [
    "BatchError",
    "Client",
    "Event",
    "EventType",
    "EventWarning",
    "FILL_BYTES",
    "FILL_EVENTS",
    "GiveUpError",
    "HashError",
    "Identifiers",
    "MAX_BYTES",
    "MAX_EVENTS",
    "MatchReadiness",
    "Privacy",
    "Problem",
    "Queue",
    "QueueClosedError",
    "QueueError",
    "QueueFailure",
    "QueueFullError",
    "QueueReport",
    "Receipt",
    "Retry",
    "ServiceError",
    "SluiceError",
    "Stats",
    "StatsCampaign",
    "StatsIdentifier",
    "StatsKey",
    "StatsRejection",
    "StatsRequests",
    "Submission",
    "SubmissionEvent",
    "Unsent",
    "ValidEvent",
    "Verdict",
    "__version__",
    "hash_email",
    "hash_ipv4",
]
