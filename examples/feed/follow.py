#!/usr/bin/env python3
"""Follows the events of a Sluice server into an SQLite database, each once, without those that were erased.

Rows and cursor are stored in one transaction: the program may be killed at any time, and goes on where it was.
Only the standard library is used.

    SLUICE_TOKEN=... python3 follow.py --url http://127.0.0.1:8081 --db events.db
"""
import argparse
import http.client
import json
import os
import sqlite3
import time
import urllib.error
import urllib.parse
import urllib.request

parser = argparse.ArgumentParser()
parser.add_argument("--url", default="http://127.0.0.1:8081", help="address of the operators' listener")
parser.add_argument("--db", default="events.db")
parser.add_argument("--purpose", default="optimization", choices=["optimization", "measurement"])
parser.add_argument("--begin", default="", help="where to begin with an empty database: a cursor, or earliest; default: from now on")
parser.add_argument("--limit", type=int, default=1000, help="rows of a request")
args = parser.parse_args()


class Stay(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: the token would go along."""

    def redirect_request(self, *_):
        return None


web = urllib.request.build_opener(Stay)
db = sqlite3.connect(args.db)
db.execute("PRAGMA journal_mode=WAL")
db.execute("CREATE TABLE IF NOT EXISTS position (id INTEGER PRIMARY KEY CHECK (id = 1), cursor TEXT NOT NULL)")
# There is no unique key on purpose: nothing but the cursor keeps a row from being stored twice.
db.execute("CREATE TABLE IF NOT EXISTS events (event_id TEXT, data_set_id TEXT, event_type TEXT, value REAL, currency_code TEXT)")


def follow(cursor):
    """Stores the rows of one answer, and the cursor behind them."""
    query = urllib.parse.urlencode({"purpose": args.purpose, "cursor": cursor, "limit": args.limit, "wait": "30s"})
    request = urllib.request.Request(f"{args.url}/feed/v1/events?{query}", headers={"Authorization": "Bearer " + os.environ["SLUICE_TOKEN"]})
    with web.open(request, timeout=60) as answer, db:  # "with db" commits, or rolls back after an error
        for line in answer:
            row = json.loads(line)
            if "cursor" in row:  # the last line
                db.execute("INSERT OR REPLACE INTO position VALUES (1, ?)", (row["cursor"],))
                return row["cursor"]
            if "erased" in row:  # the program may never have read it
                db.execute("DELETE FROM events WHERE event_id = ?", (row["erased"]["event_id"],))
                continue
            db.execute("INSERT INTO events VALUES (:event_id, :data_set_id, :event_type, :value, :currency_code)", row)
        raise EOFError("the answer has no last line")  # nothing of it counts


kept = db.execute("SELECT cursor FROM position").fetchone()
position = kept[0] if kept else args.begin
while True:
    try:
        position = follow(position)
    except urllib.error.HTTPError as err:
        # 410 means that the cursor is older than the stream: the body says which snapshot takes the place of all rows,
        # and the cursor to go on with.
        print(err.code, err.read().decode(), flush=True)
        time.sleep(1)
    except (OSError, EOFError, http.client.HTTPException) as err:
        print(err, flush=True)
        time.sleep(1)
