from datetime import datetime, timezone
from typing import List

from sluice_client import BatchError, Client, Event, Queue, Receipt, Retry, hash_email

client = Client("http://127.0.0.1", "k", dataset_id="shop", retry=Retry(total=1))
event: Event = {
    "timestamp": datetime.now(timezone.utc),
    "event_type": "purchase",
    "value": 1,
    "currency_code": "EUR",
    "identifiers": {"email_sha256": hash_email("ana@example.com")},
    "custom_data": {"items": [{"sku": "a", "gift": None}]},
}


def main() -> int:
    try:
        receipts: List[Receipt] = client.send_batch([event])
    except BatchError as error:
        receipts = error.receipts
        print([p.hint for p in error.problems], [u.stop - u.start for u in error.unsent])
    with Queue(client, on_failure=lambda failure: print(failure.error.rejected)) as queue:
        queue.add(event)
    found = client.status(receipts[0].submission_id, events=True)
    without: Event = {"timestamp": 1, "event_type": "purchase"}  # pyright: ignore[reportAssignmentType]
    client.send(event, key=1)  # pyright: ignore[reportArgumentType]
    numbers = client.stats("7d")
    print([r.first_seen.isoformat() for r in numbers.rejections], numbers.key.ends_at)
    return len(found.events or []) + len(without) + queue.stats().accepted
