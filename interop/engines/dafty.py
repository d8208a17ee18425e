"""Daft, through PyIceberg's catalog."""

import daft
import pyice
from daft.io import IOConfig, S3Config


class Engine(pyice.Engine):
    version = daft.__version__

    def frame(self, table="events", snapshot=None):
        s3 = self.place.get("s3")
        config = None
        if s3:
            config = IOConfig(s3=S3Config(endpoint_url="http://" + s3["host"], region_name=s3["region"], key_id=s3["key"], access_key=s3["secret"], use_ssl=False))
        return daft.read_iceberg(self.table(table), snapshot_id=snapshot, io_config=config)

    def rows(self, table, snapshot=None):
        return self.frame(table, snapshot).to_arrow().to_pylist()

    def count(self):
        ids = self.frame().select("event_id").to_arrow()["event_id"].to_pylist()
        return {"rows": len(ids), "distinct": len(set(map(str, ids)))}

    def find(self, column, value):
        if column == "event_id":  # it compares no UUIDs
            ids = self.frame().select("event_id").to_arrow()["event_id"].to_pylist()
            return {"rows": sum(str(i) == value for i in ids), "touched": None}
        return {"rows": self.frame().where(daft.col(column) == value).count_rows(), "touched": None}

    def metadata(self):
        return {}

    def write(self):
        self.frame("hours").write_iceberg(self.table("hours"), mode="append")

    def describe(self, table):
        return {}
