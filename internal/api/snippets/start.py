import json, os, random, sys, time, urllib.error, urllib.request, uuid

body = json.dumps({
    "data_set_id": "shop",
    "timestamp": int(time.time()),
    "event_type": "purchase",
    "identifiers": {"email_sha256": "973dfe463ec85785f5f95af5ba3906eedb2d931c24e69824a89ea65dba4e813b"},
    "value": 129.95,
    "currency_code": "USD",
}).encode()
headers = {
    "Authorization": "Bearer " + os.environ["SLUICE_API_KEY"],
    "Content-Type": "application/json",
    "Idempotency-Key": str(uuid.uuid4()),  # the same with every try
}
for attempt in range(6):
    seconds = random.random() * 2**attempt
    try:
        request = urllib.request.Request(os.environ["SLUICE_URL"] + "/v1/events", body, headers)
        with urllib.request.urlopen(request, timeout=30) as answer:
            print(answer.status, answer.read().decode())
            break
    except urllib.error.HTTPError as error:
        if error.code != 429 and error.code < 500:
            sys.exit(f"{error.code} {error.read().decode()}")
        seconds = max(seconds, int(error.headers.get("Retry-After", 0)))
    except OSError:
        pass  # the network
    time.sleep(seconds)
else:
    sys.exit("no receipt after six tries")
