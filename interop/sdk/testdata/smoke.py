"""What a program sees of the real service."""

import json
import os
import ssl
import time
from datetime import datetime, timedelta, timezone

from sluice_client import BatchError, Client, ServiceError, SluiceError, hash_email

key = os.environ["SLUICE_API_KEY"]
client = Client(os.environ["SLUICE_URL"], key, dataset_id="shop")


def event(**more):
    return {
        "timestamp": datetime.now(timezone.utc),
        "event_type": "page_view",
        "identifiers": {"email_sha256": hash_email("Ana@Example.com")},
        **more,
    }


def raised(call, kind=SluiceError):
    try:
        call()
    except kind as error:
        return error
    raise AssertionError("it did not fail")


late = client.send(event(timestamp=datetime.now(timezone.utc) - timedelta(days=8)))
assert (late.accepted, late.warnings[0].code) == (1, "LATE_EVENT"), late
found = client.status(late.submission_id, events=True)
assert (found.data_set_id, found.late, len(found.events)) == ("shop", 1, 1), found
assert not found.events[0].optimization_eligible, found

nobody = event(identifiers={"partner_id": "p"})
failed = raised(lambda: client.send_batch([event(), nobody, event()]), BatchError)
assert (failed.receipts[0].accepted, failed.rejected) == (2, 1), failed
assert (failed.problems[0].index, failed.problems[0].code) == (1, "MISSING_IDENTIFIER"), failed
assert failed.problems[0].hint
assert raised(lambda: client.send_batch([nobody]), BatchError).rejected == 1
assert client.send_batch([event(custom_data={"a\ud800": "b\udfff"})])[0].accepted == 1

body = json.dumps(event(data_set_id="shop", timestamp=int(time.time())))
first, again = client.submit(body, key="order-1"), client.submit(body, key="order-1")
assert (first.replayed, again.replayed, again.submission_id) == (False, True, first.submission_id), again
assert raised(lambda: client.send(event(event_type="search"), key="order-1")).code == "IDEMPOTENCY_KEY_REUSED"
assert raised(lambda: client.submit(f"[{body},{{}}]", batch=True, strict=True), ServiceError).status == 400
closed = raised(lambda: Client(os.environ["SLUICE_URL"], "wrong", dataset_id="shop").send(event()), ServiceError)
assert (closed.key_rejected, closed.code) == (True, "INVALID_API_KEY"), closed

# The numbers of the dataset: what was sent above, some seconds later.
end = time.time() + 20
while True:
    stats = client.stats("1h")
    if any(r.error_code == "MISSING_IDENTIFIER" for r in stats.rejections) or time.time() > end:
        break
    time.sleep(0.2)
assert (stats.data_set_id, stats.received) == ("shop", stats.accepted + stats.rejected), stats
assert stats.accepted >= 4 and stats.late >= 1 and stats.key.age_seconds >= 0 and stats.rejections[0].hint, stats

# A certificate that nobody vouches for will not become better: no second try.
waits = []
untrusted = Client(os.environ["UNTRUSTED_URL"], key, dataset_id="shop", sleep=waits.append)
raised(lambda: untrusted.send(event()), ssl.SSLCertVerificationError)
assert not waits
print("ok")
