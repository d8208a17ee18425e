"""DuckDB, by the version hint in the table itself."""

import duck


class Engine(duck.Engine):
    def __init__(self, place):
        self.db = duck.connect(place)
        self.base = place["location"].removeprefix("file://")

    def name(self, table):
        return f"iceberg_scan('{self.base}/{table}')"

    def rows(self, table, snapshot=None):
        at = f", snapshot_from_id = {snapshot}" if snapshot else ""
        cursor = self.db.cursor().execute(f"SELECT * FROM iceberg_scan('{self.base}/{table}'{at})")
        names = [c[0] for c in cursor.description]
        for row in cursor.fetchall():
            yield dict(zip(names, row))

    def metadata(self):
        at = f"'{self.base}/events'"
        snapshots = self.ask(f"SELECT count(*) FROM iceberg_snapshots({at})")[0][0]
        files, records = self.ask(f"SELECT count(*), sum(record_count) FROM iceberg_metadata({at}) WHERE status <> 'DELETED'")[0]
        return {"snapshots": snapshots, "files": files, "records": int(records)}

    def write(self):
        self.ask(f"INSERT INTO {self.name('hours')} SELECT * FROM {self.name('hours')}")

    def describe(self, table):
        return {}
