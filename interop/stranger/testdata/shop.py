"""Sends orders with the Python SDK and prints the submission ids, one a line: python3 shop.py ORDER…"""

import os
import sys
import time

from sluice_client import Client, hash_email

client = Client(os.environ["SLUICE_URL"], os.environ["SLUICE_API_KEY"])
for order in sys.argv[1:]:
    receipt = client.send(
        {
            "data_set_id": "shop",
            "timestamp": int(time.time()),
            "event_type": "purchase",
            "value": 9.99,
            "currency_code": "EUR",
            "identifiers": {"email_sha256": hash_email("jane@example.com")},
            "custom_data": {"order": order},
        }
    )
    print(receipt.submission_id)
