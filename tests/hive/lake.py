"""Writes Iceberg tables file by file, with deletes of all kinds, and keeps beside them the rows that they must have.

Manifests are written by fastavro, partition values and bounds computed by pyiceberg: nothing here is shared with what
is tested.
"""

import json
import pathlib
import struct
import uuid
import zlib

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pyroaring
from pyiceberg.conversions import to_bytes
from pyiceberg.transforms import parse_transform
from pyiceberg.types import DateType, DoubleType, IntegerType, LongType, StringType, TimestampType

TYPES = {"int": IntegerType(), "long": LongType(), "double": DoubleType(), "string": StringType(), "date": DateType(),
         "timestamp": TimestampType()}
ARROW = {"int": pa.int32(), "long": pa.int64(), "double": pa.float64(), "string": pa.string(), "date": pa.date32(),
         "timestamp": pa.timestamp("us")}
PATH_ID, POSITION_ID = 2147483546, 2147483545
DELETED = object()


def arrow_type(t):
    if isinstance(t, str):
        return ARROW[t]
    return pa.struct([arrow_field(f) for f in t["fields"]])


def arrow_field(field):
    return pa.field(field["name"], arrow_type(field["type"]), metadata={"PARQUET:field_id": str(field["id"])})


def column(id, name, type, **more):
    return {"id": id, "name": name, "required": False, "type": type, **more}


class Table:
    """An Iceberg table below `root`, and in `rows` what it must hold: dictionaries by field id."""

    def __init__(self, root, columns, spec=(), version=2, properties=None, base=None):
        self.root, self.version = pathlib.Path(root), version
        # Where readers find what is written below `root`.
        self.base = base or str(root)
        (self.root / "metadata").mkdir(parents=True)
        (self.root / "data").mkdir()
        self.schemas = [{"type": "struct", "schema-id": 0, "fields": columns}]
        self.specs = [{"spec-id": 0, "fields": list(spec)}]
        self.properties = properties or {}
        self.snapshots, self.log, self.refs = [], [], {}
        self.sequence = self.number = 0
        # Live entries of data and deletes: (status is made when a list is written).
        self.data, self.deletes = [], []
        self.files = {}  # path -> list of rows, by field id; DELETED where a row was deleted
        self.write_metadata()

    def public(self, path):
        return str(path).replace(str(self.root), self.base)

    # What the table must hold.

    @property
    def columns(self):
        return self.schemas[-1]["fields"]

    @property
    def rows(self):
        return [r for rows in self.files.values() for r in rows if r is not DELETED]

    def expected(self):
        """Rows as tuples in the order of the columns now; columns added later have their default."""
        def value(row, c):
            if c["id"] in row:
                return row[c["id"]]
            return c.get("initial-default")
        return [tuple(value(r, c) for c in self.columns) for r in self.rows]

    # Changes.

    def evolve(self, columns):
        self.schemas.append({"type": "struct", "schema-id": len(self.schemas), "fields": columns})
        self.write_metadata()

    def respec(self, fields):
        self.specs.append({"spec-id": len(self.specs), "fields": list(fields)})
        self.write_metadata()

    def partition(self, row):
        """Partition values of a row under the spec now: pyiceberg's transforms."""
        values = []
        for f in self.specs[-1]["fields"]:
            source = next(c for c in self.columns if c["id"] == f["source-id"])
            t = parse_transform(f["transform"])
            value = row.get(f["source-id"])
            if value is not None and source["type"] == "date":
                value = value.toordinal() - 719163
            if value is not None and source["type"] == "timestamp":
                value = int((value - EPOCH).total_seconds()) * 10**6 + value.microsecond
            values.append(t.transform(TYPES[source["type"]])(value))
        return tuple(values)

    def append(self, rows, with_ids=True, omit=()):
        """New files of rows (by field id), one for each partition."""
        self.sequence += 1
        groups = {}
        for row in rows:
            groups.setdefault(self.partition(row), []).append(row)
        for values, group in groups.items():
            path = f"{self.root}/data/{uuid.uuid4()}.parquet"
            columns = [c for c in self.columns if c["id"] not in omit]
            schema = pa.schema([arrow_field(c) if with_ids else pa.field(c["name"], arrow_type(c["type"])) for c in columns])
            arrays = [pa.array([named(r.get(c["id"]), c) for r in group], schema.field(i).type) for i, c in enumerate(columns)]
            # Row groups of three rows: deletes and filters must agree on where rows are.
            pq.write_table(pa.Table.from_arrays(arrays, schema=schema), path, row_group_size=3)
            self.data.append(self.entry(path, 0, values, len(group), columns, group))
            self.files[path] = [dict(r) for r in group]
        self.snapshot()

    def delete_positions(self, chosen, vectors=False):
        """Deletes rows given as (path, position): a file of positions for each partition, or a vector for each file."""
        self.sequence += 1
        by_partition = {}
        for path, at in chosen:
            data = next(d for d in self.data if d["data_file"]["file_path"] == self.public(path))
            by_partition.setdefault((data["spec"], data["values"]), []).append((path, at))
            self.files[path][at] = DELETED
        for (spec, values), places in by_partition.items():
            places.sort()
            if vectors:
                self.vectors(spec, values, places)
                continue
            path = f"{self.root}/data/{uuid.uuid4()}-deletes.parquet"
            schema = pa.schema([pa.field("file_path", pa.string(), False, {"PARQUET:field_id": str(PATH_ID)}),
                                pa.field("pos", pa.int64(), False, {"PARQUET:field_id": str(POSITION_ID)})])
            pq.write_table(pa.table([[self.public(p) for p, _ in places], [at for _, at in places]], schema=schema), path)
            self.deletes.append(self.entry(path, 1, values, len(places), [], [], spec=spec))
        self.snapshot()

    def vectors(self, spec, values, places):
        path = f"{self.root}/data/{uuid.uuid4()}.puffin"
        content, described = b"PFA1", []
        for data in sorted({p for p, _ in places}):
            # A vector replaces those before it: all deleted positions of the file.
            positions = [i for i, r in enumerate(self.files[data]) if r is DELETED]
            self.deletes = [d for d in self.deletes if d["data_file"].get("referenced_data_file") != self.public(data)]
            bitmap = pyroaring.BitMap64(positions)
            body = bytes([0xD1, 0xD3, 0x39, 0x64]) + bitmap.serialize()
            blob = struct.pack(">I", len(body)) + body + struct.pack(">I", zlib.crc32(body))
            entry = self.entry(path, 1, values, len(positions), [], [], spec=spec, format="PUFFIN")
            entry["data_file"].update(referenced_data_file=self.public(data), content_offset=len(content), content_size_in_bytes=len(blob))
            self.deletes.append(entry)
            described.append({"type": "deletion-vector-v1", "fields": [POSITION_ID], "snapshot-id": -1, "sequence-number": -1,
                              "offset": len(content), "length": len(blob), "properties": {
                                  "referenced-data-file": self.public(data), "cardinality": str(len(positions))}})
            content += blob
        footer = json.dumps({"blobs": described}).encode()
        content += b"PFA1" + footer + struct.pack("<i", len(footer)) + bytes(4) + b"PFA1"
        pathlib.Path(path).write_bytes(content)

    def delete_values(self, ids, values, everywhere=True, columns=None):
        """Deletes rows written before whose columns `ids` have one of `values` (tuples; NULL equals NULL)."""
        self.sequence += 1
        columns = columns or [next(c for c in self.columns if c["id"] == i) for i in ids]
        path = f"{self.root}/data/{uuid.uuid4()}-eq.parquet"
        schema = pa.schema([arrow_field(c) for c in columns])
        arrays = [pa.array([v[i] for v in values], schema.field(i).type) for i in range(len(ids))]
        pq.write_table(pa.Table.from_arrays(arrays, schema=schema), path)
        rows = [dict(zip(ids, v)) for v in values]
        spec = next((i for i, s in enumerate(self.specs) if not s["fields"]), None)
        assert everywhere and spec is not None, "equality deletes here are of the spec without fields"
        self.deletes.append(self.entry(path, 2, (), len(values), columns, rows, spec=spec, equality_ids=list(ids)))
        wanted = set(values)
        for data in self.data:
            if data["sequence_number"] < self.sequence:
                rows = self.files[data["data_file"]["file_path"].replace(self.base, str(self.root))]
                for i, r in enumerate(rows):
                    if r is not DELETED and tuple(r.get(c) for c in ids) in wanted:
                        rows[i] = DELETED
        self.snapshot()

    # Files.

    def entry(self, path, content, values, count, columns, rows, spec=None, format="PARQUET", equality_ids=None):
        spec = len(self.specs) - 1 if spec is None else spec
        lower, upper, nulls, nans, counts = {}, {}, {}, {}, {}
        for c in columns:
            if not isinstance(c["type"], str):
                continue
            present = [r.get(c["id"]) for r in rows if r.get(c["id"]) is not None]
            nulls[c["id"]], counts[c["id"]] = len(rows) - len(present), len(rows)
            if c["type"] == "double":
                nans[c["id"]] = sum(v != v for v in present)
                present = [v for v in present if v == v]
            if present:
                lower[c["id"]] = to_bytes(TYPES[c["type"]], raw(min(present), c["type"]))
                upper[c["id"]] = to_bytes(TYPES[c["type"]], raw(max(present), c["type"]))
        as_list = lambda m: [{"key": k, "value": v} for k, v in m.items()]
        return {"sequence_number": self.sequence, "spec": spec, "values": values, "data_file": {
            "content": content, "file_path": self.public(path), "file_format": format, "record_count": count,
            "file_size_in_bytes": pathlib.Path(path).stat().st_size if pathlib.Path(path).exists() else 0,
            "value_counts": as_list(counts), "null_value_counts": as_list(nulls), "nan_value_counts": as_list(nans),
            "lower_bounds": as_list(lower), "upper_bounds": as_list(upper), "equality_ids": equality_ids}}

    def partition_types(self, spec):
        types = []
        for f in self.specs[spec]["fields"]:
            source = next(c for s in reversed(self.schemas) for c in s["fields"] if c["id"] == f["source-id"])
            if f["transform"] == "identity" or f["transform"].startswith("truncate"):
                types.append({"int": "int", "long": "long", "double": "double", "string": "string",
                              "date": {"type": "int", "logicalType": "date"},
                              "timestamp": {"type": "long", "logicalType": "timestamp-micros"}}[source["type"]])
            elif f["transform"] == "day":
                types.append({"type": "int", "logicalType": "date"})
            else:
                types.append("int")
        return types

    def manifest(self, entries, spec, deletes):
        fields = self.specs[spec]["fields"]
        types = self.partition_types(spec)
        optional = lambda name, t, id: {"name": name, "type": ["null", t], "default": None, "field-id": id}
        pairs = lambda name, key, t, id: optional(name, {"type": "array", "logicalType": "map", "items": {
            "type": "record", "name": f"k{key}", "fields": [{"name": "key", "type": "int", "field-id": key},
                                                             {"name": "value", "type": t, "field-id": key + 1}]}}, id)
        partition = {"type": "record", "name": "r102", "fields": [
            optional(f["name"], t, f["field-id"]) for f, t in zip(fields, types)]}
        schema = {"type": "record", "name": "manifest_entry", "fields": [
            {"name": "status", "type": "int", "field-id": 0}, optional("snapshot_id", "long", 1),
            optional("sequence_number", "long", 3), optional("file_sequence_number", "long", 4),
            {"name": "data_file", "field-id": 2, "type": {"type": "record", "name": "r2", "fields": [
                {"name": "content", "type": "int", "field-id": 134}, {"name": "file_path", "type": "string", "field-id": 100},
                {"name": "file_format", "type": "string", "field-id": 101},
                {"name": "partition", "type": partition, "field-id": 102},
                {"name": "record_count", "type": "long", "field-id": 103},
                {"name": "file_size_in_bytes", "type": "long", "field-id": 104},
                pairs("value_counts", 119, "long", 109), pairs("null_value_counts", 121, "long", 110),
                pairs("nan_value_counts", 138, "long", 137), pairs("lower_bounds", 126, "bytes", 125),
                pairs("upper_bounds", 129, "bytes", 128),
                optional("equality_ids", {"type": "array", "items": "int", "element-id": 136}, 135),
                optional("referenced_data_file", "string", 143), optional("content_offset", "long", 144),
                optional("content_size_in_bytes", "long", 145)]}}]}
        rows = []
        for e in entries:
            new = e["sequence_number"] == self.sequence
            values = {f["name"]: v for f, v in zip(fields, e["values"])}
            # New entries inherit the number of their manifest.
            sequence = None if new else e["sequence_number"]
            rows.append({"status": 1 if new else 0, "snapshot_id": self.sequence, "sequence_number": sequence,
                         "file_sequence_number": sequence, "data_file": {**e["data_file"], "partition": values}})
        path = f"{self.root}/metadata/{uuid.uuid4()}-m.avro"
        with open(path, "wb") as out:
            fastavro.writer(out, schema, rows, codec="deflate", metadata={
                "schema": json.dumps(self.schemas[-1]), "partition-spec": json.dumps(fields), "partition-spec-id": str(spec),
                "format-version": str(self.version), "content": "deletes" if deletes else "data"})
        summaries = []
        for i, t in enumerate(types):
            present = [e["values"][i] for e in entries if e["values"][i] is not None]
            name = t if isinstance(t, str) else {"date": "date", "timestamp-micros": "timestamp"}[t["logicalType"]]
            numbers = [p for p in present if p == p]
            encode = lambda v: to_bytes(TYPES[name], raw(v, name))
            summaries.append({"contains_null": len(present) < len(entries), "contains_nan": len(numbers) < len(present),
                              "lower_bound": encode(min(numbers)) if numbers else None,
                              "upper_bound": encode(max(numbers)) if numbers else None})
        added = sum(r["status"] == 1 for r in rows)
        return {"manifest_path": self.public(path), "manifest_length": pathlib.Path(path).stat().st_size, "partition_spec_id": spec,
                "content": int(deletes), "sequence_number": self.sequence, "min_sequence_number": 0,
                "added_snapshot_id": self.sequence, "added_files_count": added, "existing_files_count": len(rows) - added,
                "deleted_files_count": 0, "added_rows_count": 0, "existing_rows_count": 0, "deleted_rows_count": 0,
                "partitions": summaries}

    def snapshot(self):
        manifests = []
        for entries, deletes in ((self.data, False), (self.deletes, True)):
            for spec in sorted({e["spec"] for e in entries}):
                of_spec = [e for e in entries if e["spec"] == spec]
                # Old and new apart, so that partition summaries can rule manifests out.
                for group in ([e for e in of_spec if e["sequence_number"] < self.sequence],
                              [e for e in of_spec if e["sequence_number"] == self.sequence]):
                    if group:
                        manifests.append(self.manifest(group, spec, deletes))
        field = lambda name, t, id: {"name": name, "type": t, "field-id": id}
        summary = {"type": "record", "name": "r508", "fields": [
            field("contains_null", "boolean", 509), field("contains_nan", ["null", "boolean"], 518),
            field("lower_bound", ["null", "bytes"], 510), field("upper_bound", ["null", "bytes"], 511)]}
        schema = {"type": "record", "name": "manifest_file", "fields": [
            field("manifest_path", "string", 500), field("manifest_length", "long", 501),
            field("partition_spec_id", "int", 502), field("content", "int", 517), field("sequence_number", "long", 515),
            field("min_sequence_number", "long", 516), field("added_snapshot_id", "long", 503),
            field("added_files_count", "int", 504), field("existing_files_count", "int", 505),
            field("deleted_files_count", "int", 506), field("added_rows_count", "long", 512),
            field("existing_rows_count", "long", 513), field("deleted_rows_count", "long", 514),
            field("partitions", ["null", {"type": "array", "items": summary, "element-id": 508}], 507)]}
        path = f"{self.root}/metadata/snap-{self.sequence}.avro"
        with open(path, "wb") as out:
            fastavro.writer(out, schema, manifests, codec="deflate", metadata={
                "format-version": str(self.version), "snapshot-id": str(self.sequence)})
        at = 1_700_000_000_000 + self.sequence * 1000
        self.snapshots.append({"snapshot-id": self.sequence, "sequence-number": self.sequence, "timestamp-ms": at,
                               "manifest-list": self.public(path), "schema-id": self.schemas[-1]["schema-id"],
                               "summary": {"operation": "append"}, "first-row-id": 0, "added-rows": 0})
        self.log.append({"timestamp-ms": at, "snapshot-id": self.sequence})
        self.write_metadata()

    def write_metadata(self):
        self.number += 1
        ids = [i for s in self.schemas for i in field_ids(s["fields"])]
        metadata = {
            "format-version": self.version, "table-uuid": str(uuid.UUID(int=1)), "location": self.base,
            "last-sequence-number": self.sequence, "last-updated-ms": 1_700_000_000_000 + self.sequence * 1000,
            "last-column-id": max(ids), "schemas": self.schemas, "current-schema-id": self.schemas[-1]["schema-id"],
            "partition-specs": self.specs, "default-spec-id": self.specs[-1]["spec-id"], "last-partition-id": 1100,
            "sort-orders": [{"order-id": 0, "fields": []}], "default-sort-order-id": 0, "properties": self.properties,
            "current-snapshot-id": self.snapshots[-1]["snapshot-id"] if self.snapshots else -1,
            "snapshots": self.snapshots, "snapshot-log": self.log, "metadata-log": [], "refs": self.refs,
            "next-row-id": 0}
        (self.root / f"metadata/v{self.number}.metadata.json").write_text(json.dumps(metadata))


def named(value, column):
    """Structs are dictionaries by field id in rows, by name in files."""
    if isinstance(value, dict):
        return {f["name"]: value.get(f["id"]) for f in column["type"]["fields"]}
    return value


def field_ids(fields):
    for f in fields:
        yield f["id"]
        if isinstance(f["type"], dict):
            yield from field_ids(f["type"]["fields"])


def raw(value, type):
    """A value as pyiceberg's conversions take it."""
    if type == "date" and not isinstance(value, int):
        return value.toordinal() - 719163
    if type == "timestamp" and not isinstance(value, int):
        return int((value - EPOCH).total_seconds()) * 10**6 + value.microsecond
    return value


import datetime  # noqa: E402

EPOCH = datetime.datetime(1970, 1, 1)
