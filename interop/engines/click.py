"""ClickHouse's engine, in the process (chdb), through the catalog."""

import os

import chdb
from chdb import session


class Engine:
    version = chdb.engine_version

    def __init__(self, place):
        os.chdir("/")  # it reads local files below the working directory only
        self.session = session.Session()
        s3 = place.get("s3")
        keys = f", '{s3['key']}', '{s3['secret']}'" if s3 else ""
        more = f", storage_endpoint = 'http://{s3['host']}/{s3['bucket']}'" if s3 else ""
        self.session.query("SET allow_experimental_database_iceberg = 1, allow_database_iceberg = 1")
        self.session.query(
            f"CREATE DATABASE lake ENGINE = DataLakeCatalog('{place['catalog']}/v1'{keys}) "
            f"SETTINGS catalog_type = 'rest', warehouse = 'sluice', vended_credentials = false{more}"
        )

    def ask(self, text):
        import pyarrow

        data = self.session.query(text, "ArrowStream").bytes()
        if not data:
            return []
        return pyarrow.ipc.open_stream(data).read_all().to_pylist()

    def rows(self, table, snapshot=None):
        at = f" SETTINGS iceberg_snapshot_id = {snapshot}" if snapshot else ""
        for row in self.ask(f"SELECT * FROM lake.`sluice.{table}`{at}"):
            if row.get("gpp_sid") == []:  # ClickHouse has no null in the place of a list
                del row["gpp_sid"]
            yield row

    def count(self):
        return self.ask("SELECT count() AS rows, uniqExact(event_id) AS distinct FROM lake.`sluice.events`")[0]

    def find(self, column, value):
        if column == "event_id":  # compared as a UUID it finds nothing
            column = "toString(event_id)"
        return self.ask(f"SELECT count() AS rows, NULL AS touched FROM lake.`sluice.events` WHERE {column} = '{value}'")[0]

    def by_uuid(self, value):
        """Looks for an event by its id, with and without bounds of manifests."""
        text = f"SELECT count() AS rows FROM lake.`sluice.events` WHERE event_id = toUUID('{value}')"
        plain = " SETTINGS use_iceberg_partition_pruning = 0"
        return {"rows": self.ask(text)[0]["rows"], "without": self.ask(text + plain)[0]["rows"]}

    def metadata(self):
        return {}

    def write(self):
        self.session.query("INSERT INTO lake.`sluice.hours` SELECT * FROM lake.`sluice.hours`")

    def describe(self, table):
        return {}

    def run(self, text):
        return [list(r.values()) for r in self.ask(text)]

    def lists(self):
        """How many events have a list that is empty, and how many have none."""
        return self.ask("SELECT countIf(empty(gpp_sid)) AS empty, count() AS rows FROM lake.`sluice.events`")[0]
