"""Sends events one by one, in batches and by a queue, all at once, and prints how many were accepted."""

import json
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone

from sluice_client import Client, Queue, Retry

client = Client(
    os.environ["SLUICE_URL"],
    os.environ["SLUICE_API_KEY"],
    dataset_id="shop",
    retry=Retry(base=0.02, max=0.2, attempt=1, total=60, budget=-1),
)
lock = threading.Lock()
orders = accepted = replayed = 0


def event():
    global orders
    with lock:
        order = orders
        orders += 1
    return {
        "timestamp": datetime.now(timezone.utc),
        "event_type": "purchase",
        "value": 49.9,
        "currency_code": "EUR",
        "identifiers": {"ifa": "8a7f4c2e-1b3d-4e5f-9a6b-7c8d9e0f1a2b"},
        "custom_data": {"order": f"python-{order}"},
    }


def count(receipts):
    global accepted, replayed
    with lock:
        accepted += sum(r.accepted for r in receipts)
        replayed += sum(r.replayed for r in receipts)


def singles():
    for _ in range(40):
        count([client.send(event())])


def batches():
    for _ in range(40):
        count(client.send_batch([event() for _ in range(20)]))


def queued():
    global accepted
    with Queue(client, flush_every=0.05, max_bytes=200_000) as queue:
        for _ in range(5000):
            queue.add(event())
    with lock:
        accepted += queue.stats().accepted


with ThreadPoolExecutor() as pool:
    for done in [pool.submit(work) for work in (singles, singles, batches, queued)]:
        done.result()
if accepted != orders:
    raise SystemExit(f"{accepted} of {orders} events were accepted")
print(json.dumps({"accepted": accepted, "replayed": replayed}))
