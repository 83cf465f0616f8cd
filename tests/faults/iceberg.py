#!/usr/bin/env python3
"""Iceberg tables with the types, deletes, partitions and places that few writers use, written file by file into a local directory.

    tests/faults/iceberg.py --server BIN [--only WORD]

Bounds and partition values are those of the specification's appendix D, computed here. Needs fastavro and pyarrow (the virtual
environment of tests/clients has them).
"""

import datetime as dt
import decimal
import io
import json
import pathlib
import re
import tempfile
import uuid

import pyarrow as pa
import pyarrow.parquet as pq

import stores
from stores import avro, column, has, same, table

TESTS = []
TIME = re.compile(r"^(\d{4}-\d\d-\d\d)T([\d:.]*)Z?$")
PATH_ID, POSITION_ID = 2147483546, 2147483545


def test(function):
    TESTS.append(function)
    return function


def field(id, name, type, nullable=True):
    return pa.field(name, type, nullable, metadata={"PARQUET:field_id": str(id)})


def parquet(fields, rows):
    """A file of rows, two in each row group."""
    arrays = [pa.array([row[n] for row in rows], f.type) for n, f in enumerate(fields)]
    out = io.BytesIO()
    pq.write_table(pa.Table.from_arrays(arrays, schema=pa.schema(fields)), out, row_group_size=2)
    return out.getvalue()


class File:
    """A file of a table: content 0 for data, 1 for deleted positions, 2 for deleted values; bounds by field id."""

    def __init__(self, path, data, content=0, values=None, sequence=1, lower=None, upper=None, ids=None):
        self.path, self.data, self.content, self.values, self.sequence = path, data, content, values or {}, sequence
        self.lower, self.upper, self.ids = lower or {}, upper or {}, ids


def optional(name, type, id):
    return {"name": name, "type": ["null", type], "default": None, "field-id": id}


def pairs(name, key, type, id):
    entries = {"type": "record", "name": f"k{key}", "fields": [{"name": "key", "type": "int", "field-id": key},
                                                                {"name": "value", "type": type, "field-id": key + 1}]}
    return optional(name, {"type": "array", "logicalType": "map", "items": entries}, id)


def manifest(files, partition, version):
    """Files of one manifest. Of version 1 there are no sequence numbers, and data only."""
    later = [] if version == 1 else [optional("sequence_number", "long", 3), optional("file_sequence_number", "long", 4)]
    kinds = [] if version == 1 else [{"name": "content", "type": "int", "field-id": 134}]
    equality = [] if version == 1 else [optional("equality_ids", {"type": "array", "items": "int", "element-id": 136}, 135)]
    entry = {"type": "record", "name": "manifest_entry", "fields": [
        {"name": "status", "type": "int", "field-id": 0}, optional("snapshot_id", "long", 1), *later,
        {"name": "data_file", "field-id": 2, "type": {"type": "record", "name": "r2", "fields": [
            *kinds, {"name": "file_path", "type": "string", "field-id": 100}, {"name": "file_format", "type": "string", "field-id": 101},
            {"name": "partition", "type": {"type": "record", "name": "r102", "fields": partition}, "field-id": 102},
            {"name": "record_count", "type": "long", "field-id": 103}, {"name": "file_size_in_bytes", "type": "long", "field-id": 104},
            pairs("lower_bounds", 126, "bytes", 125), pairs("upper_bounds", 129, "bytes", 128), *equality]}}]}
    listed = lambda bounds: [{"key": k, "value": v} for k, v in bounds.items()]  # noqa: E731
    rows = [{"status": 0, "snapshot_id": 1, "sequence_number": f.sequence, "file_sequence_number": f.sequence, "data_file": {
        "content": f.content, "file_path": f.path, "file_format": "PARQUET", "partition": f.values,
        "record_count": pq.read_metadata(io.BytesIO(f.data)).num_rows, "file_size_in_bytes": len(f.data),
        "lower_bounds": listed(f.lower), "upper_bounds": listed(f.upper), "equality_ids": f.ids}} for f in files]
    return avro(entry, rows)


class Warehouse(stores.Warehouse):
    def sql(self, text):
        """Rows, with times as SQL spells them."""
        found = super().sql(text)
        spelled = lambda v: TIME.sub(r"\1 \2", v) if isinstance(v, str) else v  # noqa: E731
        return [[spelled(v) for v in row] for row in found] if isinstance(found, list) else found

    def put(self, name, columns, files, spec=(), partition=(), version=2, written=None, at=None):
        """A table of one snapshot. `partition` are the fields of partition values in Avro; `written` is the version of its manifests,
        `at` the location as the metadata spells it."""
        written, at, root = written or version, at or f"{self.root}/db/{name}", self.root / "db" / name
        (root / "metadata").mkdir(parents=True)
        (root / "data").mkdir()
        lists = []
        for number, group in enumerate(([f for f in files if f.content == 0], [f for f in files if f.content > 0])):
            for f in group:
                (root / "data" / pathlib.PurePath(f.path).name).write_bytes(f.data)
            if group:
                (root / f"metadata/m{number}.avro").write_bytes(manifest(group, list(partition), written))
                lists.append({"manifest_path": f"{at}/metadata/m{number}.avro", "manifest_length": 1, "partition_spec_id": 0,
                              "content": number, "sequence_number": max(f.sequence for f in group), "min_sequence_number": 0,
                              "added_snapshot_id": 1})
        later = [] if written == 1 else [{"name": "content", "type": "int", "field-id": 517}, {"name": "sequence_number", "type": "long", "field-id": 515},
                                         {"name": "min_sequence_number", "type": "long", "field-id": 516}]
        schema = {"type": "record", "name": "manifest_file", "fields": [
            {"name": "manifest_path", "type": "string", "field-id": 500}, {"name": "manifest_length", "type": "long", "field-id": 501},
            {"name": "partition_spec_id", "type": "int", "field-id": 502}, *later, optional("added_snapshot_id", "long", 503)]}
        (root / "metadata/l.avro").write_bytes(avro(schema, lists))
        more = {"current-snapshot-id": 1, "last-sequence-number": 9, "refs": {"main": {"snapshot-id": 1, "type": "branch"}},
                "snapshots": [{"snapshot-id": 1, "timestamp-ms": 1_700_000_000_000, "manifest-list": f"{at}/metadata/l.avro", "schema-id": 0,
                               "sequence-number": 9, "summary": {}}]}
        (root / "metadata/v1.metadata.json").write_text(json.dumps(table(columns, spec, version, at, more)))

    def path(self, name, file):
        return f"{self.root}/db/{name}/data/{file}.parquet"


def warehouse(directory):
    return Warehouse(directory)


UUIDS = [uuid.UUID(text) for text in ("00112233-4455-6677-8899-aabbccddeeff", "7fffffff-0000-4000-8000-000000000002",
                                      "80000000-0000-4000-8000-000000000003", "ffffffff-0000-4000-8000-000000000001")]
NAMES = [str(u) for u in UUIDS]
FIXED = {"type": "fixed", "name": "uuid_fixed", "size": 16}


def little(number):
    return number.to_bytes(8, "little", signed=True)


@test
def uuids():
    """Bounds in the order of the bytes, and in that of signed numbers, which older writers had."""
    fields = [field(1, "k", pa.int64()), field(2, "u", pa.binary(16))]
    columns = [column(1, "k", "long"), column(2, "u", "uuid")]
    with tempfile.TemporaryDirectory() as directory:
        w = warehouse(directory)
        for way in ("unsigned", "signed", "none"):
            halves = []
            for number, places in enumerate(((0, 2), (1, 3))):
                rows = [(n, UUIDS[n].bytes) for n in places] + [(9, None)]
                low, high = {"unsigned": places, "signed": places[::-1], "none": (None, None)}[way]
                bounds = dict(lower={2: UUIDS[low].bytes}, upper={2: UUIDS[high].bytes}) if low is not None else {}
                halves.append(File(w.path(way, number), parquet(fields, rows), **bounds))
            w.put(way, columns, halves)
            t = f"ice.db.{way}"
            for n, name in enumerate(NAMES):
                same(w.sql(f"SELECT k FROM {t} WHERE u = '{name}'"), [[n]])
                same(w.sql(f"SELECT count(*) c FROM {t} WHERE u < '{name}'"), [[n]])
                same(w.sql(f"SELECT count(*) c FROM {t} WHERE u <> '{name}'"), [[3]])
            same(w.sql(f"SELECT k FROM {t} WHERE u IN ('{NAMES[0]}', '{NAMES[3]}', 'x') ORDER BY k"), [[0], [3]])
            same(w.sql(f"SELECT min(u) a, max(u) b, count(u) c, count(DISTINCT u) d FROM {t}"), [[NAMES[0], NAMES[3], 4, 4]])
            same(w.sql(f"SELECT CAST(u AS CHAR) c, concat(u, '!') d, length(u) l FROM {t} WHERE k = 1"), [[NAMES[1], NAMES[1] + "!", 36]])
            same(w.sql(f"SELECT count(*) c FROM {t} WHERE u LIKE '%-4000-8000-%'"), [[3]])
            same(w.sql(f"SELECT count(*) c FROM {t} a JOIN {t} b ON a.u = b.u"), [[4]])
            same(w.sql(f"SELECT count(*) c FROM {t} WHERE u IS NULL"), [[2]])
            same(w.sql(f"SELECT u FROM {t} ORDER BY u DESC LIMIT 2"), [[NAMES[3]], [NAMES[2]]])


@test
def instants_of_nanoseconds():
    """They go down to microseconds, before 1970, too; dates beyond theirs are compared with them."""
    stamps = [-1, 0, 1_704_067_200_000_000_999, -9_223_372_036_854_775_808, 9_223_372_036_854_775_807, None]
    shown = ["1969-12-31 23:59:59.999999", "1970-01-01 00:00:00.000000", "2024-01-01 00:00:00.000000", "1677-09-21 00:12:43.145224",
             "2262-04-11 23:47:16.854775", None]
    with tempfile.TemporaryDirectory() as directory:
        w = warehouse(directory)
        for name, zone in (("timestamp_ns", None), ("timestamptz_ns", "UTC")):
            fields = [field(1, "k", pa.int64()), field(2, "t", pa.timestamp("ns", zone))]
            files = []
            for n, stamp in enumerate(stamps):
                bound = {} if stamp is None else {2: little(stamp)}
                files.append(File(w.path(name, n), parquet(fields, [(n, stamp)]), lower=bound, upper=bound))
            w.put(name, [column(1, "k", "long"), column(2, "t", name)], files, version=3)
            t = f"ice.db.{name}"
            digits = lambda rows: [[v if v is None or "." in v else v + ".000000" for v in row] for row in rows]  # noqa: E731
            same(digits(w.sql(f"SELECT t FROM {t} ORDER BY k")), [[v] for v in shown])
            for n, text in enumerate(shown):
                if text is not None:
                    same(w.sql(f"SELECT k FROM {t} WHERE t = '{text}'"), [[n]])
                    below = sum(v is not None and v < text for v in shown)
                    same(w.sql(f"SELECT count(*) c FROM {t} WHERE t < '{text}'"), [[below]])
                    same(w.sql(f"SELECT count(*) c FROM {t} WHERE t >= '{text}'"), [[5 - below]])
            same(digits(w.sql(f"SELECT min(t) a, max(t) b FROM {t}")), [[shown[3], shown[4]]])
            same(w.sql(f"SELECT count(*) c FROM {t} WHERE t < '9999-12-31 23:59:59' AND t > '0001-01-01'"), [[5]])
            same(w.sql(f"SELECT count(*) c FROM {t} WHERE t <> '9999-12-31'"), [[5]])
            same(w.sql(f"SELECT CAST(t AS DATE) d FROM {t} WHERE k IN (0, 2) ORDER BY k"), [["1969-12-31"], ["2024-01-01"]])
            same(w.sql(f"SELECT COALESCE(t, CAST('9999-12-31' AS DATETIME)) > '9999-01-01' c FROM {t} ORDER BY k"), [[0]] * 5 + [[1]])


@test
def far_instants():
    """The whole range of DATETIME in microseconds, with bounds that cut."""
    times = [dt.datetime(1, 1, 1), dt.datetime(1582, 10, 10, 1), dt.datetime(1969, 12, 31, 23, 59, 59, 999999), dt.datetime(9999, 12, 31, 23, 59, 59, 999999)]
    micros = lambda t: (t - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1)  # noqa: E731
    with tempfile.TemporaryDirectory() as directory:
        w = warehouse(directory)
        for name, zone in (("timestamp", None), ("timestamptz", "UTC")):
            fields = [field(1, "k", pa.int64()), field(2, "t", pa.timestamp("us", zone))]
            files = [File(w.path(name, n), parquet(fields, [(n, micros(t))]), lower={2: little(micros(t))}, upper={2: little(micros(t))})
                     for n, t in enumerate(times)]
            w.put(name, [column(1, "k", "long"), column(2, "t", name)], files)
            for n, t in enumerate(times):
                same(w.sql(f"SELECT k FROM ice.db.{name} WHERE t = '{t.isoformat(' ')}'"), [[n]])
                same(w.sql(f"SELECT count(*) c FROM ice.db.{name} WHERE t > '{t.isoformat(' ')}'"), [[3 - n]])
            same(w.sql(f"SELECT year(min(t)) a, year(max(t)) b FROM ice.db.{name}"), [[1, 9999]])


@test
def bytes_and_times():
    fields = [field(1, "k", pa.int64()), field(2, "f", pa.binary(4)), field(3, "b", pa.binary()), field(4, "t", pa.time64("us"))]
    rows = [(0, b"\0\1\2\3", b"", dt.time(0, 0)), (1, b"\x7f\xff\0\0", b"abc", dt.time(10, 20, 30, 500000)),
            (2, b"\xff\xfe\xfd\xfc", b"\xff\0", dt.time(23, 59, 59, 999999)), (3, None, None, None)]
    micros = lambda t: ((t.hour * 60 + t.minute) * 60 + t.second) * 10**6 + t.microsecond  # noqa: E731
    with tempfile.TemporaryDirectory() as directory:
        w = warehouse(directory)
        files = []
        for row in rows:
            bounds = {} if row[1] is None else {2: row[1], 3: row[2], 4: little(micros(row[3]))}
            files.append(File(w.path("odd", row[0]), parquet(fields, [row]), lower=bounds, upper=bounds))
        w.put("odd", [column(1, "k", "long"), column(2, "f", "fixed[4]"), column(3, "b", "binary"), column(4, "t", "time")], files)
        t = "ice.db.odd"
        same(w.sql(f"SELECT k, hex(f) h, hex(b) i FROM {t} ORDER BY k"),
             [[0, "00010203", ""], [1, "7FFF0000", "616263"], [2, "FFFEFDFC", "FF00"], [3, None, None]])
        same(w.sql(f"SELECT k FROM {t} WHERE f = X'FFFEFDFC'"), [[2]])
        same(w.sql(f"SELECT k FROM {t} WHERE f = unhex('7FFF0000')"), [[1]])
        same(w.sql(f"SELECT k FROM {t} WHERE f > X'7FFF0000'"), [[2]])
        same(w.sql(f"SELECT k FROM {t} WHERE b = 'abc'"), [[1]])
        same(w.sql(f"SELECT hex(min(f)) a, hex(max(f)) b, hex(min(b)) c, hex(max(b)) d FROM {t}"), [["00010203", "FFFEFDFC", "", "FF00"]])
        for text, found in (("10:20:30.5", 1), ("00:00:00", 0), ("23:59:59.999999", 2)):
            same(w.sql(f"SELECT k FROM {t} WHERE t = '{text}'"), [[found]])
        same(w.sql(f"SELECT count(*) c FROM {t} WHERE t > '10:00:00'"), [[2]])
        same(w.sql(f"SELECT hour(t) h, minute(t) m FROM {t} WHERE k = 1"), [[10, 20]])
        [[low, high]] = w.sql(f"SELECT CAST(min(t) AS CHAR) a, CAST(max(t) AS CHAR) b FROM {t}")
        same((low.rstrip("0").rstrip("."), high), ("00:00:00".rstrip("0").rstrip("."), "23:59:59.999999"))


@test
def nested_columns():
    """Structs, lists and maps of the same types, which files have in another shape than the table."""
    ids = {"type": "struct", "fields": [column(3, "u", "uuid"), column(4, "ns", "timestamp_ns"), column(5, "n", "long")]}
    listed = {"type": "list", "element-id": 7, "element": "uuid", "element-required": False}
    mapped = {"type": "map", "key-id": 9, "key": "string", "value-id": 10, "value": "timestamp_ns", "value-required": False}
    columns = [column(1, "k", "long"), column(2, "s", ids), column(6, "l", listed), column(8, "m", mapped)]
    old = [field(1, "k", pa.int64()), field(2, "s", pa.struct([field(5, "old_name", pa.int32()), field(3, "u", pa.binary(16))]))]
    new = [field(1, "k", pa.int64()),
           field(2, "s", pa.struct([field(3, "u", pa.binary(16)), field(4, "ns", pa.timestamp("ns")), field(5, "n", pa.int64())])),
           field(6, "l", pa.list_(field(7, "element", pa.binary(16)))),
           field(8, "m", pa.map_(field(9, "key", pa.string(), False), field(10, "value", pa.timestamp("ns"))))]
    with tempfile.TemporaryDirectory() as directory:
        w = warehouse(directory)
        rows = [(1, {"u": UUIDS[2].bytes, "ns": -1, "n": 2**40}, [UUIDS[0].bytes, None], [("a", -1), ("b", None)]), (2, None, [], None)]
        w.put("nested", columns, [File(w.path("nested", 0), parquet(old, [(0, {"old_name": 7, "u": UUIDS[3].bytes})])),
                                  File(w.path("nested", 1), parquet(new, rows))], version=3)
        t = "ice.db.nested"
        before = "1969-12-31 23:59:59.999999"
        same(w.sql(f"SELECT k, s.u, s.n, s.ns FROM {t} ORDER BY k"), [[0, NAMES[3], 7, None], [1, NAMES[2], 2**40, before], [2, None, None, None]])
        same(w.sql(f"SELECT k FROM {t} WHERE s.u = '{NAMES[3]}'"), [[0]])
        same(w.sql(f"SELECT k FROM {t} WHERE s.ns < '1970-01-01'"), [[1]])
        same(w.sql(f"SELECT min(s.u) a, max(s.u) b FROM {t}"), [[NAMES[2], NAMES[3]]])
        same(w.sql(f"SELECT k, size(l) n, l[1] a, m['a'] b FROM {t} WHERE l IS NOT NULL ORDER BY k"), [[1, 2, NAMES[0], before], [2, 0, None, None]])
        same(w.sql(f"SELECT k FROM {t} WHERE array_contains(l, '{NAMES[0]}')"), [[1]])
        same(w.sql(f"SELECT k, size(m) n FROM {t} WHERE m['a'] = '{before}'"), [[1, 2]])
        same(w.sql(f"SELECT count(*) c FROM {t} WHERE s IS NULL"), [[1]])


@test
def deletes():
    """By position and by value, of every odd type; a row is deleted by files that are newer than its own."""
    types = [("u", "uuid", pa.binary(16), [UUIDS[n].bytes for n in range(3)]), ("ns", "timestamp_ns", pa.timestamp("ns"), [-1, 999, 1000]),
             ("f", "fixed[2]", pa.binary(2), [b"\0\0", b"\x80\0", b"\xff\xff"]), ("t", "time", pa.time64("us"), [dt.time(0), dt.time(12), dt.time(23, 59)]),
             ("d", "decimal(20, 2)", pa.decimal128(20, 2), [decimal.Decimal(v) for v in ("-1.50", "0.00", "9.99")]),
             ("z", "timestamptz", pa.timestamp("us", "UTC"), [-1, 0, 253402300799999999]), ("s", "string", pa.string(), ["", "é", "日"])]
    with tempfile.TemporaryDirectory() as directory:
        w = warehouse(directory)
        for name, type, arrow, values in types:
            fields = [field(1, "k", pa.int64()), field(2, "v", arrow)]
            columns = [column(1, "k", "long"), column(2, "v", type)]
            rows = [(n, v) for n, v in enumerate([*values, None])]
            data = parquet(fields, rows)
            positions = lambda of, places: parquet([field(PATH_ID, "file_path", pa.string(), False), field(POSITION_ID, "pos", pa.int64(), False)],  # noqa: E731
                                                   [(of, place) for place in places])
            first, second = w.path(name, "first"), w.path(name, "second")
            w.put(name, columns, [
                File(first, data), File(second, data, sequence=3),
                # Of both files, and of the first only.
                File(w.path(name, "eq"), parquet(fields[1:], [(values[1],)]), 2, sequence=2, ids=[2]),
                File(w.path(name, "null"), parquet(fields[1:], [(None,)]), 2, sequence=4, ids=[2]),
                File(w.path(name, "pos"), positions(second, [0]), 1, sequence=3)], version=3 if type == "timestamp_ns" else 2)
            # The first file loses 1 and NULL, the second 0 and NULL.
            same(w.sql(f"SELECT k FROM ice.db.{name} ORDER BY k"), [[0], [1], [2], [2]])
            same(w.sql(f"SELECT count(*) c, count(v) d FROM ice.db.{name}"), [[4, 4]])
            same(w.sql(f"SELECT k, count(*) c FROM ice.db.{name} WHERE v IS NOT NULL GROUP BY k ORDER BY k"), [[0, 1], [1, 1], [2, 2]])


@test
def partitions_by_odd_fields():
    """Names that Avro does not have, values of types that few are partitioned by, and tables that were of version 1."""
    date, us = {"type": "int", "logicalType": "date"}, {"type": "long", "logicalType": "timestamp-micros"}
    ways = {
        "uuid": ("uuid", pa.binary(16), "日期", "identity", FIXED, [UUIDS[0].bytes, UUIDS[3].bytes], [UUIDS[0].bytes, UUIDS[3].bytes], NAMES[::3]),
        "text": ("string", pa.string(), "größe", "identity", "string", ["a b", "é/%"], ["a b", "é/%"], ["a b", "é/%"]),
        "stamp": ("timestamp", pa.timestamp("us"), "1-x.y", "identity", us, [-1, 253402300799000000], [-1, 253402300799000000],
                  ["1969-12-31 23:59:59.999999", "9999-12-31 23:59:59"]),
        "day": ("timestamp", pa.timestamp("us"), "v_day", "day", date, [-1, 86_400_000_000], [-1, 1], ["1969-12-31 23:59:59.999999", "1970-01-02"]),
        "hour": ("timestamptz", pa.timestamp("us", "UTC"), "v hour", "hour", "int", [-1, 3_600_000_000], [-1, 1], ["1969-12-31 23:59:59.999999", "1970-01-01 01:00:00"]),
        "cut": ("string", pa.string(), "наполовину", "truncate[2]", "string", ["日本語", "éab"], ["日本", "éa"], ["日本語", "éab"]),
    }
    with tempfile.TemporaryDirectory() as directory:
        w = warehouse(directory)
        for way, (type, arrow, name, transform, avro_type, values, parts, texts) in ways.items():
            fields = [field(1, "k", pa.int64()), field(2, "v", arrow)]
            spec = [{"source-id": 2, "field-id": 1000, "name": name, "transform": transform}]
            # Avro's names are letters of ASCII; Iceberg's library spells others so.
            spelled = "".join(c if c.isascii() and (c.isalnum() or c == "_") else f"_x{ord(c):X}" for c in name)
            spelled = f"_{spelled}" if spelled[0].isdigit() else spelled
            for version, written, kind in ((2, 2, "plain"), (2, 1, "upgraded"), (1, 1, "old"), (3, 1, "twice")):
                t = f"{way}_{kind}"
                files = [File(w.path(t, n), parquet(fields, [(n, values[n])]), values={spelled: parts[n]}) for n in (0, 1)]
                files.append(File(w.path(t, 2), parquet(fields, [(2, None)]), values={spelled: None}))
                w.put(t, [column(1, "k", "long"), column(2, "v", type)], files, spec, [optional(spelled, avro_type, 1000)], version, written)
                for n in (0, 1):
                    same(w.sql(f"SELECT k FROM ice.db.{t} WHERE v = '{texts[n]}'"), [[n]])
                same(w.sql(f"SELECT k FROM ice.db.{t} WHERE v IS NULL"), [[2]])
                same(w.sql(f"SELECT count(*) c, count(v) d FROM ice.db.{t}"), [[3, 2]])
                same(w.sql(f"SELECT count(*) c FROM ice.db.{t} WHERE v <> '{texts[0]}'"), [[1]])


@test
def locations_are_spelled_in_many_ways():
    data = parquet([field(1, "k", pa.int64())], [(1,), (2,)])
    with tempfile.TemporaryDirectory() as directory:
        w = warehouse(directory)
        root = w.root
        for name, at in (("plain", f"{root}/db/plain"), ("file", f"file:{root}/db/file"), ("three", f"file://{root}/db/three"), ("twice", f"{root}//db//twice"),
                         ("last", f"file://{root}/db/last/"), ("space", f"{root}/db/space")):
            w.put(name, [column(1, "k", "long")], [File(f"{at}/data/a b%20é.parquet" if name == "space" else f"{at}/data/a.parquet", data)], at=at)
            same(w.sql(f"SELECT sum(k) s FROM ice.db.{name}"), [[3]])
        w.put("gone", [column(1, "k", "long")], [File(f"{root}/db/gone/data/a.parquet", data)])
        (root / "db/gone/data/a.parquet").unlink()
        has(w.sql("SELECT sum(k) s FROM ice.db.gone"), "a.parquet")


if __name__ == "__main__":
    stores.TESTS[:] = TESTS
    raise SystemExit(stores.main())
