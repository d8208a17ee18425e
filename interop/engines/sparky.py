"""Spark with Iceberg's runtime, through the catalog."""

import os

import pyspark
from pyspark.sql import SparkSession


class Engine:
    version = pyspark.__version__

    def __init__(self, place):
        settings = {
            "spark.jars": place["jars"], "spark.ui.enabled": "false", "spark.driver.memory": "2g", "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1", "spark.sql.shuffle.partitions": "2", "spark.sql.session.timeZone": "UTC",
            "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
            "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog", "spark.sql.catalog.lake.type": "rest",
            "spark.sql.catalog.lake.uri": place["catalog"], "spark.sql.catalog.lake.cache-enabled": "false",
        }
        if os.environ.get("SIZE") == "small":  # compiling takes most of the time of a query on few rows
            settings |= {
                "spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN", "spark.sql.adaptive.enabled": "false",
                "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
            }
        s3 = place.get("s3")
        if s3:
            settings |= {
                "spark.sql.catalog.lake.s3.endpoint": "http://" + s3["host"], "spark.sql.catalog.lake.s3.path-style-access": "true",
                "spark.sql.catalog.lake.s3.access-key-id": s3["key"], "spark.sql.catalog.lake.s3.secret-access-key": s3["secret"],
                "spark.sql.catalog.lake.client.region": s3["region"],
            }
        builder = SparkSession.builder.master("local[2]")
        for name, value in settings.items():
            builder = builder.config(name, value)
        self.spark = builder.getOrCreate()
        self.spark.sparkContext.setLogLevel("ERROR")

    def ask(self, text):
        return [r.asDict() for r in self.spark.sql(text).collect()]

    def rows(self, table, snapshot=None):
        at = f" VERSION AS OF {snapshot}" if snapshot else ""
        return self.ask(f"SELECT * FROM lake.sluice.{table}{at}")

    def count(self):
        return self.ask("SELECT count(*) AS rows, count(DISTINCT event_id) AS distinct FROM lake.sluice.events")[0]

    def find(self, column, value):
        return self.ask(f"SELECT count(*) AS rows, NULL AS touched FROM lake.sluice.events WHERE {column} = '{value}'")[0]

    def metadata(self):
        for name in ("history", "manifests", "partitions", "refs", "metadata_log_entries", "all_manifests"):
            self.ask(f"SELECT * FROM lake.sluice.events.{name}")
        snapshots = self.ask("SELECT count(*) AS n FROM lake.sluice.events.snapshots")[0]["n"]
        files = self.ask("SELECT file_path, record_count, file_size_in_bytes FROM lake.sluice.events.files")
        self.ask("SELECT status, snapshot_id, data_file.file_path FROM lake.sluice.events.entries")
        return {"snapshots": snapshots, "files": len(files), "records": sum(f["record_count"] for f in files)}

    def write(self):
        self.ask("INSERT INTO lake.sluice.hours SELECT * FROM lake.sluice.hours")

    def describe(self, table):
        found = {r["col_name"]: r["comment"] for r in self.ask(f"DESCRIBE TABLE lake.sluice.{table}") if not r["col_name"].startswith("#")}
        comment = [r["data_type"] for r in self.ask(f"DESCRIBE TABLE EXTENDED lake.sluice.{table}") if r["col_name"] == "Comment"]
        return {"comment": "".join(comment), "columns": {k: v for k, v in found.items() if v}}

    def session(self, zone):
        self.spark.conf.set("spark.sql.session.timeZone", zone)
        return {}

    def run(self, text):
        out = []
        for statement in filter(str.strip, text.split(";")):
            out = [list(r.values()) for r in self.ask(statement)]
        return out

    def stream(self, checkpoint, since=None):
        """Follows the table from a time on, to its end, and says which events came; with a checkpoint of an earlier call it goes on."""
        source = self.spark.readStream.format("iceberg")
        if since is not None:
            source = source.option("stream-from-timestamp", str(since))
        source = source.load("lake.sluice.events")
        seen = []
        query = (
            source.select("event_id").writeStream.option("checkpointLocation", checkpoint).trigger(availableNow=True)
            .foreachBatch(lambda some, _: seen.extend(r["event_id"] for r in some.collect())).start()
        )
        query.awaitTermination()
        return {"rows": len(seen), "distinct": len(set(seen))}

    def everything(self, name):
        """Every column of a metadata table."""
        return {"rows": len(self.ask(f"SELECT * FROM lake.sluice.events.{name}"))}
