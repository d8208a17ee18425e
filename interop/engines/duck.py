"""DuckDB, through the catalog."""

import duckdb


def connect(place):
    db = duckdb.connect(config={"extension_directory": place["extensions"]})
    db.execute("SET TimeZone = 'UTC'")
    for name in ("avro", "httpfs", "iceberg"):
        db.execute(f"LOAD {name}")
    s3 = place.get("s3")
    if s3:
        db.execute(
            f"CREATE SECRET bucket (TYPE s3, KEY_ID '{s3['key']}', SECRET '{s3['secret']}', REGION '{s3['region']}', "
            f"ENDPOINT '{s3['host']}', URL_STYLE 'path', USE_SSL false)"
        )
    return db


class Engine:
    version = duckdb.__version__

    def __init__(self, place):
        self.db = connect(place)
        self.db.execute(
            f"ATTACH 'sluice' AS lake (TYPE iceberg, ENDPOINT '{place['catalog']}', AUTHORIZATION_TYPE 'none', ACCESS_DELEGATION_MODE 'none')"
        )
        self.base = place["location"]

    def name(self, table):
        return f"lake.sluice.{table}"

    def ask(self, text):
        return self.db.cursor().execute(text).fetchall()

    def rows(self, table, snapshot=None):
        at = f" AT (VERSION => {snapshot})" if snapshot else ""
        cursor = self.db.cursor().execute(f"SELECT * FROM {self.name(table)}{at}")
        names = [c[0] for c in cursor.description]
        for row in cursor.fetchall():
            yield dict(zip(names, row))

    def count(self):
        rows, distinct = self.ask(f"SELECT count(*), count(DISTINCT event_id) FROM {self.name('events')}")[0]
        return {"rows": rows, "distinct": distinct}

    def find(self, column, value):
        return {"rows": self.ask(f"SELECT count(*) FROM {self.name('events')} WHERE {column} = '{value}'")[0][0], "touched": None}

    def metadata(self):
        snapshots = self.ask(f"SELECT count(*) FROM iceberg_snapshots({self.name('events')})")[0][0]
        files, records = self.ask(
            f"SELECT count(*), sum(record_count) FROM iceberg_metadata({self.name('events')}) WHERE status <> 'DELETED'"
        )[0]
        return {"snapshots": snapshots, "files": files, "records": int(records)}

    def write(self):
        self.ask("CREATE TABLE lake.sluice.other (a INTEGER)")

    def describe(self, table):
        found = self.ask(
            f"SELECT column_name, comment FROM duckdb_columns() WHERE database_name = 'lake' AND table_name = '{table}' AND comment IS NOT NULL"
        )
        return {"columns": dict(found)} if found else {}

    def run(self, text):
        return self.db.execute(text).fetchall()
