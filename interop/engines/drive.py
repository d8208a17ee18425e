"""Lets one engine read the tables of Sluice.

  drive.py ENGINE     reads a line of JSON that says where the tables are, then a line for each request

Each request is answered by lines of JSON: {"row": {...}} for each row, then {"done": {...}} or {"error": "..."}. Values are
written so that nothing is lost: bytes as {"hex"}, times as {"micros"} since 1970, null left out. Requests:

  {"do": "rows", "table": T, "snapshot": ID or null}     every row, every column
  {"do": "count"}                                        events: {"rows": n, "distinct": event ids}
  {"do": "find", "column": C, "value": V}                events: {"rows": n, "touched": files or rows looked at, or null}
  {"do": "metadata"}                                     events: {"snapshots": n, "files": n, "records": n}; absent: it has none
  {"do": "write"}                                        tries to write: {"message": "..."} that the engine rejects it with
  {"do": "describe", "table": T}                         {"comment": "...", "columns": {name: comment}}; {} where it shows none
  {"do": "run", "text": "..."}                           a text of the documentation in the engine's own language
  {"do": "select", "text": "..."}                        a query: its rows, by the names of columns
  {"do": "session", "zone": "..."}                       from here on queries run in this time zone
"""

import datetime
import importlib
import json
import math
import sys
import traceback
import uuid

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)


def micros(t):
    if hasattr(t, "value") and hasattr(t, "tz_convert"):  # pandas
        return t.value // 1000
    if t.tzinfo is None:
        t = t.replace(tzinfo=datetime.timezone.utc)
    return (t - EPOCH) // datetime.timedelta(microseconds=1)


def null(v):
    if v is None:
        return True
    if isinstance(v, float) and math.isnan(v):  # pandas; no event has such a value
        return True
    return type(v).__name__ in ("NaTType", "NAType")


def plain(v):
    if isinstance(v, (bool, int, float, str)):
        return v
    if isinstance(v, uuid.UUID):
        return str(v)
    if isinstance(v, (bytes, bytearray, memoryview)):
        return {"hex": bytes(v).hex()}
    if isinstance(v, datetime.datetime):
        return {"micros": micros(v)}
    if isinstance(v, datetime.date):
        return v.isoformat()
    if hasattr(v, "tolist"):  # numpy
        return plain(v.tolist())
    if isinstance(v, (list, tuple)):
        return [plain(x) for x in v]
    if isinstance(v, dict):
        return {k: plain(x) for k, x in v.items()}
    return str(v)


def say(what):
    sys.stdout.write(json.dumps(what) + "\n")


def answer(engine, request):
    do = request.pop("do")
    if do == "rows":
        for row in engine.rows(**request):
            say({"row": {k: plain(v) for k, v in row.items() if not null(v)}})
        return {}
    if do == "select":
        for row in engine.ask(**request):
            say({"row": {k: plain(v) for k, v in row.items() if not null(v)}})
        return {}
    if do == "run":
        for row in engine.run(**request) or []:
            say({"row": {str(i): plain(v) for i, v in enumerate(row) if not null(v)}})
        return {}
    if do == "write":
        try:
            engine.write()
        except Exception as e:  # what it says is what is asked for
            return {"message": f"{type(e).__name__}: {e}"}
        return {"message": ""}
    return getattr(engine, do)(**request)


def main():
    name = sys.argv[1]
    place = json.loads(sys.stdin.readline())
    out, sys.stdout = sys.stdout, sys.stderr  # what engines print is not an answer
    engine = importlib.import_module(name).Engine(place)
    sys.stdout = out
    say({"done": {"version": engine.version}})
    out.flush()
    for line in sys.stdin:
        try:
            say({"done": answer(engine, json.loads(line))})
        except Exception as e:
            traceback.print_exc(file=sys.stderr)
            say({"error": f"{type(e).__name__}: {e}"[:2000]})
        out.flush()


main()
