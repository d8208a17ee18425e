"""Trino, a server of one node that this program starts and ends, through the catalog."""

import base64
import datetime
import json
import os
import pathlib
import subprocess
import time
import urllib.request


class Engine:
    def __init__(self, place):
        t = place["trino"]
        self.version = t["version"]
        home, work = pathlib.Path(t["home"]), pathlib.Path(t["work"])
        (work / "catalog").mkdir(parents=True)
        (work / "data").mkdir()
        self.address = f"http://127.0.0.1:{t['port']}"
        (work / "config.properties").write_text(
            "coordinator=true\nnode-scheduler.include-coordinator=true\n"
            f"http-server.http.port={t['port']}\ndiscovery.uri={self.address}\nhttp-server.log.enabled=false\n"
            f"catalog.config-dir={work}/catalog\nplugin.dir={home}/plugin\n"
            "query.max-memory=300MB\nquery.max-memory-per-node=300MB\nmemory.heap-headroom-per-node=200MB\n"
        )
        (work / "log.properties").write_text("io.trino=WARN\n")
        (work / "catalog" / "sluice.properties").write_text(place["properties"])
        (work / "catalog" / "memory.properties").write_text("connector.name=memory\n")
        self.zone = "UTC"
        self.server = subprocess.Popen(
            [
                t["java"], "-Xmx2g", "-XX:TieredStopAtLevel=1", "--enable-native-access=ALL-UNNAMED", "-Dfile.encoding=UTF-8",
                "--sun-misc-unsafe-memory-access=allow", f"-Dlog.levels-file={work}/log.properties", "-Dnode.environment=engines", "-Dnode.id=one",
                f"-Dnode.data-dir={work}/data", f"-Dconfig={work}/config.properties", "-cp", f"{home}/lib/*", "io.trino.server.TrinoServer",
            ],
            stdin=subprocess.DEVNULL, stdout=open(work / "log", "w"), stderr=subprocess.STDOUT, env=os.environ | {"TZ": "UTC"},
        )
        deadline = time.time() + 400
        while True:
            try:
                self.ask("SELECT 1")
                break
            except Exception:
                if time.time() > deadline or self.server.poll() is not None:
                    raise RuntimeError("Trino does not start: " + (work / "log").read_text()[-3000:])
                time.sleep(0.5)

    def __del__(self):
        self.server.kill()

    def send(self, url, data=None):
        request = urllib.request.Request(url, data=data, headers={
            "X-Trino-User": "test", "X-Trino-Time-Zone": self.zone, "X-Trino-Catalog": "memory", "X-Trino-Schema": "default",
            "X-Trino-Client-Capabilities": "PARAMETRIC_DATETIME",  # else times are rounded to milliseconds
        })
        with urllib.request.urlopen(request, timeout=60) as r:
            return json.load(r)

    def statement(self, text):
        deadline = time.time() + 60
        while True:
            try:
                return self.once(text)
            except RuntimeError as e:  # the node announces itself some time after the server answers
                if "No nodes available" not in str(e) or time.time() > deadline:
                    raise
                time.sleep(0.5)

    def once(self, text):
        page = self.send(self.address + "/v1/statement", text.encode())
        columns, out = None, []
        while True:
            columns = page.get("columns") or columns
            out += page.get("data") or []
            if page.get("error"):
                raise RuntimeError(page["error"]["message"])
            if "nextUri" not in page:
                return columns or [], out, page["stats"]
            page = self.send(page["nextUri"])

    def ask(self, text):
        columns, rows, _ = self.statement(text)
        names = [c["name"] for c in columns]
        types = [c["type"] for c in columns]
        return [dict(zip(names, map(value, types, row))) for row in rows]

    def rows(self, table, snapshot=None):
        at = f" FOR VERSION AS OF {snapshot}" if snapshot else ""
        return self.ask(f"SELECT * FROM sluice.sluice.{table}{at}")

    def count(self):
        return self.ask('SELECT count(*) AS rows, count(DISTINCT event_id) AS "distinct" FROM sluice.sluice.events')[0]

    def find(self, column, value):
        literal = f"UUID '{value}'" if column == "event_id" else f"'{value}'"
        _, rows, stats = self.statement(f"SELECT count(event_type) FROM sluice.sluice.events WHERE {column} = {literal}")
        return {"rows": rows[0][0], "touched": None, "looked": stats["processedRows"]}

    def metadata(self):
        for name in ("history", "manifests", "partitions", "refs", "properties", "metadata_log_entries", "entries"):
            self.ask(f'SELECT * FROM sluice.sluice."events${name}"')
        snapshots = self.ask('SELECT count(*) AS n FROM sluice.sluice."events$snapshots"')[0]["n"]
        files = self.ask('SELECT * FROM sluice.sluice."events$files"')
        return {"snapshots": snapshots, "files": len(files), "records": sum(f["record_count"] for f in files)}

    def write(self):
        self.ask("INSERT INTO sluice.sluice.hours SELECT * FROM sluice.sluice.hours")

    def describe(self, table):
        columns = {r["Column"]: r["Comment"] for r in self.ask(f"DESCRIBE sluice.sluice.{table}") if r["Comment"]}
        comment = self.ask(f"SELECT comment FROM system.metadata.table_comments WHERE catalog_name = 'sluice' AND schema_name = 'sluice' AND table_name = '{table}'")
        return {"comment": comment[0]["comment"] or "", "columns": columns}

    def session(self, zone):
        self.zone = zone
        return {}

    def run(self, text):
        out = []
        for statement in filter(str.strip, text.split(";")):
            out = self.statement(statement)[1]
        return out


def value(kind, v):
    if v is None:
        return None
    if kind == "varbinary":
        return base64.b64decode(v)
    if kind.startswith("timestamp") and kind.endswith("with time zone"):
        return datetime.datetime.fromisoformat(v.removesuffix(" UTC")).replace(tzinfo=datetime.timezone.utc)
    if kind == "double":
        return float(v)
    return v
