"""pandas, through PyIceberg's catalog."""

import pandas
import pyice


class Engine(pyice.Engine):
    version = pandas.__version__

    def options(self):
        s3 = self.place.get("s3")
        out = {"type": "rest", "uri": self.place["catalog"]}
        if s3:
            out |= {
                "s3.endpoint": "http://" + s3["host"], "s3.region": s3["region"], "s3.access-key-id": s3["key"], "s3.secret-access-key": s3["secret"],
            }
        return out

    def frame(self, table="events", **more):
        return pandas.read_iceberg(f"sluice.{table}", catalog_properties=self.options(), **more)

    def rows(self, table, snapshot=None):
        return self.frame(table, snapshot_id=snapshot).to_dict("records")

    def count(self):
        ids = self.frame(columns=["event_id"])["event_id"]
        return {"rows": len(ids), "distinct": ids.map(str).nunique()}

    def find(self, column, value):
        return {"rows": len(self.frame(row_filter=f"{column} = '{value}'")), "touched": None}

    def metadata(self):
        return {}

    def write(self):
        self.frame("hours").to_iceberg("sluice.hours", catalog_properties=self.options(), append=True)

    def describe(self, table):
        return {}
