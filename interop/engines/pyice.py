"""PyIceberg, and what is built on it reads through the catalog that it opens."""

import importlib.metadata

from pyiceberg.catalog import load_catalog


def open_catalog(place):
    settings = {"type": "rest", "uri": place["catalog"]}
    s3 = place.get("s3")
    if s3:
        settings |= {
            "s3.endpoint": "http://" + s3["host"], "s3.region": s3["region"], "s3.access-key-id": s3["key"], "s3.secret-access-key": s3["secret"],
        }
    return load_catalog("sluice", **settings)


class Engine:
    version = importlib.metadata.version("pyiceberg")

    def __init__(self, place):
        self.place = place
        self.catalog = open_catalog(place)

    def table(self, name="events"):
        return self.catalog.load_table(f"sluice.{name}")

    def rows(self, table, snapshot=None):
        return self.table(table).scan(snapshot_id=snapshot).to_arrow().to_pylist()

    def count(self):
        ids = self.table().scan(selected_fields=("event_id",)).to_arrow()["event_id"].to_pylist()
        return {"rows": len(ids), "distinct": len(set(map(str, ids)))}

    def find(self, column, value):
        scan = self.table().scan(row_filter=f"{column} = '{value}'")
        return {"rows": len(scan.to_arrow()), "touched": len(list(scan.plan_files()))}

    def metadata(self):
        inspect = self.table().inspect
        for ask in ("history", "manifests", "partitions", "refs", "metadata_log_entries"):
            getattr(inspect, ask)()
        files = [task.file for task in self.table().scan().plan_files()]
        return {"snapshots": len(inspect.snapshots()), "files": len(files), "records": sum(f.record_count for f in files)}

    def write(self):
        hours = self.table("hours")
        hours.append(hours.scan().to_arrow())

    def describe(self, table):
        t = self.table(table)
        return {"comment": t.properties.get("comment", ""), "columns": {f.name: f.doc for f in t.schema().fields}}

    def run(self, text):
        scope = {}
        exec(text, scope)
        return scope.get("result")

    def everything(self, name):
        """Every column of a metadata table."""
        return {"rows": len(getattr(self.table().inspect, name)())}

    def hold(self):
        self.held = self.table()
        return {}

    def again(self, refresh):
        """Reads the table that hold has loaded."""
        if refresh:
            self.held.refresh()
        return {"rows": len(self.held.scan(selected_fields=("event_id",)).to_arrow())}
