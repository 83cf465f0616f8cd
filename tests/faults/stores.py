#!/usr/bin/env python3
"""Stores that are not AWS's, keys of objects that are no paths, and keys of users that end: over an S3 server in memory.

    tests/faults/stores.py --server BIN [--only WORD]

Needs PyMySQL, fastavro and pyarrow (the virtual environment of tests/clients has them).
"""

import argparse
import concurrent.futures
import io
import json
import pathlib
import subprocess
import sys
import tempfile
import time

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

import memory

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from server import Server, clean_environment  # noqa: E402

OPTIONS = None
TESTS = []


def test(function):
    TESTS.append(function)
    return function


def same(found, expected):
    assert found == expected, f"found {found!r}, expected {expected!r}"


def has(text, *words):
    for word in words:
        assert word in text, f"'{word}' is not in: {text}"


def environment(store=None, **more):
    own = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "DIPPER_S3_ENDPOINT": store.url} if store else {}
    return clean_environment(**{**own, **more})


def sql(text, env, data=None, seconds=60):
    """Rows of the last statement, as lists of text; or the error."""
    command = [OPTIONS.server, "sql", "--format", "json", *(["--data", data] if data else []), text]
    ran = subprocess.run([str(c) for c in command], env=env, capture_output=True, text=True, timeout=seconds)
    if ran.returncode != 0:
        return ran.stderr
    return [list(row.values()) for row in json.loads(ran.stdout or "[]")]


MADE = ("CREATE DATABASE d; CREATE TABLE d.t (k INT) DUPLICATE KEY(k) DISTRIBUTED BY HASH(k) BUCKETS 1; "
        "INSERT INTO d.t VALUES (1), (2); SELECT count(*) c FROM d.t")


@test
def objects_are_made_in_the_words_of_the_store():
    for words in memory.WORDS:
        store = memory.Store(words)
        same(sql(MADE, environment(store, DIPPER_S3_CREATE_IF_ABSENT=words), "s3://b/db"), [[2]])
        if words == "s3":
            same(sql("SELECT count(*) c FROM d.t", environment(store), "s3://b/db"), [[2]])
        else:
            # In others' words it is refused at once, and the answer says what to do.
            store.objects.clear()
            store.puts, began = 0, time.time()
            told = sql("CREATE DATABASE d", environment(store), "s3://b/db")
            has(told, "501", "aws.s3.create_if_absent", "If-None-Match".lower())
            assert time.time() - began < 10 and store.puts <= 40, f"{time.time() - began:.1f} s, {store.puts} PUTs"
        store.stop()
    has(sql("CREATE DATABASE d", environment(memory.Store(), DIPPER_S3_CREATE_IF_ABSENT="azure"), "s3://b/db"), "azure", "oss")


@test
def a_probe_outlives_faults():
    for seed in range(3):
        store = memory.Store(faults=0.15, conflicts=0.15, seed=seed)
        same(sql(MADE, environment(store), "s3://b/db", seconds=300), [[2]])
        assert not [key for _, key in store.objects if "probe" in key]
        store.stop()


@test
def faults_that_pass_are_one_error():
    """Whatever was asked of the store: 1030, and the advice to repeat. What stays is an error of its own."""
    of = "files('path' = 's3://b/{}', 'format' = 'csv', 'header' = 'false')"
    listed, read = lambda method, path: "list-type" in path, lambda method, path: method == "GET" and "list-type" not in path
    written = lambda method, path: method in ("PUT", "POST")
    cases = [("SELECT count(*) FROM " + of.format("in/"), listed), ("SELECT sum(c1) FROM " + of.format("in/a.csv"), read),
             ("SELECT sum(k) FROM files('path' = 's3://b/in/p.parquet')", read),
             ("COPY (SELECT 1 a) TO 's3://b/out.csv'", written), ("COPY (SELECT 1 a) TO 's3://b/out.parquet'", written)]

    def made(away=None):
        store = memory.Store()
        store.put("b", "in/a.csv", b"1\n2\n")
        store.put("b", "in/p.parquet", parquet([1], k=[1, 2]))
        if away:
            store.away = away
        return store

    def away(case):
        statement, refused, data, *_ = *case, None
        store = made()
        if data:
            same(sql(MADE, environment(store), data), [[2]])
        store.away = refused
        asked = len(store.requests)
        told = sql(statement, environment(store), data, seconds=400)
        attempts = sum(refused(method, path) for method, path in store.requests[asked:])
        store.stop()
        return told, attempts

    # A table whose listing is refused and nothing else, and versions that cannot be put.
    own = [("SELECT count(*) c FROM d.t", lambda method, path: listed(method, path) and "t%2F" in path, "s3://b/db"),
           ("INSERT INTO d.t VALUES (3)", lambda method, path: method == "PUT" and "/t/" in path and "/v/" in path, "s3://b/db")]
    # Each is tried again for a minute, and by one layer only: the client makes 31 attempts. A read may be asked for twice at once.
    with concurrent.futures.ThreadPoolExecutor(len(cases + own)) as pool:
        for (statement, *_), (told, attempts) in zip(cases + own, pool.map(away, cases + own)):
            assert isinstance(told, str), f"{statement}: {told}"
            has(told, *(["1180"] if "INSERT" in statement else ["1030", "repeat the statement later"]), "503 Service Unavailable")
            print(f"  {attempts} attempts: {statement}")
            assert attempts <= (62 if "parquet'" in statement else 31), f"{statement}: {attempts} attempts"
    store = made()
    env = environment(store)
    has(sql("SELECT count(*) FROM " + of.format("none.csv"), env), "ERROR 29 ")
    refused = sql("SELECT count(*) FROM " + of.format("in/"), {**env, "AWS_SECRET_ACCESS_KEY": "other"})
    has(refused, "ERROR 29 ", "SignatureDoesNotMatch")
    assert "later" not in refused, refused
    store.stop()
    with concurrent.futures.ThreadPoolExecutor(len(cases)) as pool:
        for told in pool.map(lambda case: sql(case[0], env, seconds=400), cases):
            has(told, "1030", "cannot be reached", "repeat the statement later")


@test
def every_key_of_a_bucket_is_listed():
    store = memory.Store()
    for number, key in enumerate(["in/a.csv", "in//b.csv", "in/c\x01d.csv", "in/\u00e4 &<.csv", "in/x/e.csv"]):
        store.put("b", key, f"{number}\n".encode())
    # What consoles and Hadoop make of directories.
    for marker in ("in/", "in/x/", "in/y_$folder$", "in//"):
        store.put("b", marker, b"")
    of = lambda path: f"files('path' = '{path}', 'format' = 'csv', 'header' = 'false')"
    env = environment(store)
    same(sql(f"SELECT count(*) c, sum(c1) s FROM {of('s3://b/in/')}", env), [[5, 10]])
    same(sql(f"SELECT sum(c1) s FROM {of('s3://b/in/*.csv')}", env), [[0 + 2 + 3]])
    same(sql(f"SELECT sum(c1) s FROM {of('s3://b/in//b.csv')}", env), [[1]])
    same(sql(f"SELECT sum(c1) s FROM {of('s3://b/in//')}", env), [[10]])
    # Hadoop's file systems take // for /.
    same(sql(f"SELECT sum(c1) s FROM {of('s3://b/in//x//e.csv')}", env), [[4]])
    same(sql(f"SELECT sum(c1) s FROM {of('s3://b//in/x//*.csv')}", env), [[4]])
    store.put("b", "up/../u.csv", b"7\n")
    store.put("b", "up/v.csv", b"8\n")
    same(sql(f"SELECT sum(c1) s FROM {of('s3://b/up/v*')}", env), [[8]])
    has(sql(f"SELECT sum(c1) s FROM {of('s3://b/up/')}", env), "up/../u.csv")
    store.stop()


@test
def another_region_is_named():
    store = memory.Store(region="eu-west-1")
    store.put("b", "a.csv", b"1\n")
    question = "SELECT c1 FROM files('path' = 's3://b/a.csv', 'format' = 'csv', 'header' = 'false')"
    has(sql(question, environment(store)), "'aws.s3.region' = 'eu-west-1'", "us-east-1")
    same(sql(question, environment(store, AWS_REGION="eu-west-1")), [[1]])
    has(sql("SELECT * FROM files('path' = 'abfss://c/x', 'format' = 'csv')", environment(store)), "Azure")
    store.stop()


@test
def keys_that_end_are_renewed():
    store = memory.Store(keys={"first": ("one", None)})
    store.put("b", "a.csv", b"1\n")
    question = "SELECT c1 FROM files('path' = 's3://b/a.csv', 'format' = 'csv', 'header' = 'false')"
    place = {"DIPPER_S3_ENDPOINT": store.url, "AWS_ENDPOINT_URL_STS": store.url}
    with tempfile.TemporaryDirectory() as home:
        aws = pathlib.Path(home, ".aws")
        aws.mkdir()
        write = lambda key, secret: (aws / "credentials").write_text(
            f"[default]\naws_access_key_id = {key}\naws_secret_access_key = {secret}\n")
        write("first", "one")
        (aws / "config").write_text(
            f"[profile role]\nrole_arn = arn:aws:iam::1:role/r\nsource_profile = default\nexternal_id = x\n"
            f"[profile program]\ncredential_process = cat {aws}/printed\n"
            f"[profile closed]\nrole_arn = arn:aws:iam::1:role/closed\nsource_profile = default\n")
        (aws / "printed").write_text(json.dumps({"Version": 1, "AccessKeyId": "first", "SecretAccessKey": "one"}))
        as_ = lambda profile: environment(HOME=home, AWS_PROFILE=profile, **place)
        for profile in ("default", "role", "program"):
            same(sql(question, as_(profile)), [[1]])
        same([(key, asked["RoleArn"], asked.get("ExternalId")) for key, asked in store.assumed],
             [("first", "arn:aws:iam::1:role/r", "x")])
        has(sql(question, as_("closed")), "AssumeRole arn:aws:iam::1:role/closed", "not authorized")
        # Roles of properties, as catalogs have them, taken on by the keys of the process or of the properties.
        store.assumed.clear()
        for own, env in [("", as_("default")),
                         (", 'aws.s3.access_key' = 'first', 'aws.s3.secret_key' = 'one'", environment(**place))]:
            for name in ("aws.s3.iam_role_arn", "s3.role_arn"):
                role = f", '{name}' = 'arn:aws:iam::2:role/q', 'aws.s3.external_id' = 'y'{own})"
                same(sql(question.replace(")", role), env), [[1]])
        same(len(store.assumed), 4)
        has(sql(question.replace(")", ", 'aws.s3.iam_role_arn' = 'arn:x')"), environment(**place)), "arn:x", "keys")
        # One process, whose keys are renewed under it.
        for profile in ("default", "role"):
            store.keys, store.role_seconds, store.assumed = {"first": ("one", None)}, 4, []
            write("first", "one")
            server = Server(OPTIONS.server, home, data=f"{home}/data-{profile}", env=as_(profile))
            try:
                for number in (1, 2, 3):
                    # Another object each time: what was read of one may be kept.
                    store.put("b", f"{number}.csv", b"%d\n" % number)
                    same(server.rows(question.replace("a.csv", f"{number}.csv")), [(number,)])
                    if profile == "default":
                        store.keys = {f"key {number}": (f"secret {number}", None)}
                        write(f"key {number}", f"secret {number}")
                    else:
                        time.sleep(4.5)
                        store.keys.pop(f"session{number}")
            finally:
                server.stop()
    store.stop()


def table(columns, spec=(), version=2, location="/t", more=None):
    return {"format-version": version, "table-uuid": "00000000-0000-0000-0000-000000000001", "location": location,
            "last-sequence-number": 1, "last-updated-ms": 1_700_000_000_000, "last-column-id": 100,
            "schemas": [{"type": "struct", "schema-id": 0, "fields": columns}], "current-schema-id": 0,
            "partition-specs": [{"spec-id": 0, "fields": list(spec)}], "default-spec-id": 0, "last-partition-id": 1100,
            "sort-orders": [{"order-id": 0, "fields": []}], "default-sort-order-id": 0, "properties": {},
            "current-snapshot-id": -1, "snapshots": [], "snapshot-log": [], "refs": {}, "next-row-id": 0, **(more or {})}


def column(id, name, type):
    return {"id": id, "name": name, "required": False, "type": type}


def avro(schema, rows, **metadata):
    out = io.BytesIO()
    fastavro.writer(out, fastavro.parse_schema(schema), rows, metadata=metadata)
    return out.getvalue()


def snapshot(at, files, spec=(), partition_fields=(), v1=False, wrong_sizes=False, status=1):
    """Manifest list and manifest of data files, given as (path, Parquet bytes, partition values)."""
    partition = {"type": "record", "name": "r102", "fields": list(partition_fields)}
    numbers = [] if v1 else [{"name": "sequence_number", "type": ["null", "long"], "field-id": 3}]
    content = [] if v1 else [{"name": "content", "type": "int", "field-id": 134}]
    entry = {"type": "record", "name": "manifest_entry", "fields": [
        {"name": "status", "type": "int", "field-id": 0}, {"name": "snapshot_id", "type": ["null", "long"], "field-id": 1}, *numbers,
        {"name": "data_file", "field-id": 2, "type": {"type": "record", "name": "r2", "fields": [
            *content, {"name": "file_path", "type": "string", "field-id": 100}, {"name": "file_format", "type": "string", "field-id": 101},
            {"name": "partition", "type": partition, "field-id": 102}, {"name": "record_count", "type": "long", "field-id": 103},
            {"name": "file_size_in_bytes", "type": "long", "field-id": 104}]}}]}
    rows = [{"status": status, "snapshot_id": 1, "sequence_number": None, "data_file": {
        "content": 0, "file_path": path, "file_format": "PARQUET", "partition": values,
        "record_count": pq.read_metadata(io.BytesIO(data)).num_rows,
        "file_size_in_bytes": wrong_sizes[i] if wrong_sizes else len(data)}} for i, (path, data, values) in enumerate(files)]
    fields = [("manifest_path", "string", 500), ("manifest_length", "long", 501), ("partition_spec_id", "int", 502)]
    listed = {"type": "record", "name": "manifest_file", "fields": [
        *({"name": n, "type": t, "field-id": i} for n, t, i in fields),
        {"name": "added_snapshot_id", "type": ["null", "long"], "field-id": 503}]}
    return {"m.avro": avro(entry, rows), "l.avro": avro(listed, [{"manifest_path": f"{at}/metadata/m.avro", "manifest_length": 1,
                                                                  "partition_spec_id": 0, "added_snapshot_id": 1}])}


def parquet(ids, **columns):
    arrays = {name: values if isinstance(values, pa.Array) else pa.array(values) for name, values in columns.items()}
    schema = pa.schema([pa.field(n, a.type, metadata={"PARQUET:field_id": str(i)}) for i, (n, a) in zip(ids, arrays.items())])
    out = io.BytesIO()
    pq.write_table(pa.table(list(arrays.values()), schema=schema), out)
    return out.getvalue()


class Warehouse:
    """Tables of Iceberg in a local directory, written file by file."""

    def __init__(self, directory):
        self.root = pathlib.Path(directory)

    def write(self, name, metadata, files=(), at=None, **how):
        at = at or f"{self.root}/db/{name}"
        (self.root / "db" / name / "metadata").mkdir(parents=True)
        for path, data, _ in files:
            place = pathlib.Path(path.replace(at, f"{self.root}/db/{name}"))
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(data)
        if files:
            for file, data in snapshot(at, files, **how).items():
                (self.root / "db" / name / "metadata" / file).write_bytes(data)
            metadata |= {"current-snapshot-id": 1, "snapshots": [{
                "snapshot-id": 1, "timestamp-ms": 1_700_000_000_000, "manifest-list": f"{at}/metadata/l.avro", "schema-id": 0,
                "sequence-number": 1, "summary": {}}], "snapshot-log": [{"timestamp-ms": 1_700_000_000_000, "snapshot-id": 1}],
                "refs": {"main": {"snapshot-id": 1, "type": "branch"}, "kept": {"snapshot-id": 1, "type": "tag"}}}
        (self.root / "db" / name / "metadata/v1.metadata.json").write_text(json.dumps(metadata))

    def sql(self, text):
        catalog = f"CREATE CATALOG ice PROPERTIES ('type' = 'iceberg', 'warehouse' = '{self.root}'); SET time_zone = 'UTC'; "
        return sql(catalog + text, environment())


@test
def iceberg_of_strangers_is_read():
    with tempfile.TemporaryDirectory() as directory:
        w = Warehouse(directory)
        uuids = ["00112233-4455-6677-8899-aabbccddeeff", "ffffffff-0000-4000-8000-000000000001"]
        raw = [bytes.fromhex(u.replace("-", "")) for u in uuids]
        fixed = {"type": "fixed", "name": "uuid_fixed", "size": 16}
        files = [(f"{w.root}/db/byid/data/{i}.parquet", parquet([1, 2], k=[i], u=pa.array([raw[i]], pa.binary(16))),
                  {"日期": raw[i]}) for i in (0, 1)]
        files.append((f"{w.root}/db/byid/data/2.parquet", parquet([1, 2], k=[2], u=pa.array([None], pa.binary(16))), {"日期": None}))
        spec = [{"source-id": 2, "field-id": 1000, "name": "日期", "transform": "identity"}]
        w.write("byid", table([column(1, "k", "long"), column(2, "u", "uuid")], spec), files,
                partition_fields=[{"name": "日期", "type": ["null", fixed], "field-id": 1000}])
        same(w.sql("SELECT k FROM ice.db.byid ORDER BY k"), [[0], [1], [2]])
        same(w.sql(f"SELECT k FROM ice.db.byid WHERE u = '{uuids[1]}'"), [[1]])
        same(w.sql("SELECT k, u FROM ice.db.byid ORDER BY k"), [[0, uuids[0]], [1, uuids[1]], [2, None]])
        same(w.sql(f"SELECT k FROM ice.db.byid WHERE u <> '{uuids[0]}'"), [[1]])
        same(w.sql("SELECT k, CAST(u AS CHAR) c FROM ice.db.byid WHERE u IS NOT NULL ORDER BY k"), [[0, uuids[0]], [1, uuids[1]]])
        # A v1 manifest under a v2 table, its entries older than it.
        data = parquet([1], k=[1, 2])
        for version in (2, 3):
            name = f"upgraded{version}"
            w.write(name, table([column(1, "k", "long")], version=version), [(f"{w.root}/db/{name}/data/a.parquet", data, {})], v1=True, status=0)
            same(w.sql(f"SELECT sum(k) s FROM ice.db.{name}"), [[3]])
        # Sizes that are none, too small and too large.
        paths = [(f"{w.root}/db/sizes/data/{i}.parquet", data, {}) for i in range(4)]
        w.write("sizes", table([column(1, "k", "long")]), paths, wrong_sizes=[0, len(data) - 5, len(data) + 100, -1])
        same(w.sql("SELECT count(*) c, sum(k) s FROM ice.db.sizes"), [[8, 12]])
        same(w.sql("SELECT count(*) c FROM ice.db.sizes@tag(kept) JOIN ice.db.sizes VERSION AS OF 1 o USING (k)"), [[32]])
        same(w.sql("SELECT sum(k) s FROM ice.db.sizes@branch(main) x WHERE x.k > 1"), [[8]])
        same(w.sql("SELECT sum(k) s FROM ice.db.sizes FOR TIMESTAMP AS OF date_sub(now(), INTERVAL 1 DAY)"), [[12]])
        same(w.sql("SELECT sum(k) s FROM ice.db.sizes TIMESTAMP AS OF '2024-01-01 00:00:00' AS y"), [[12]])
        has(w.sql("SELECT * FROM ice.db.sizes@branch(kept)"), "no branch 'kept'")
        has(w.sql("SELECT * FROM ice.db.sizes TIMESTAMP AS OF 1 + 1"), "gives no time")
        # A table with columns of types that are not read, and beside it tables that cannot be.
        columns = [column(1, "k", "long"), column(2, "v", "variant"), column(3, "g", "geometry(srid:4326)"), column(4, "n", "unknown"),
                   column(5, "l", {"type": "list", "element-id": 6, "element": "variant", "element-required": False})]
        w.write("odd", table(columns, version=3), [(f"{w.root}/db/odd/data/a.parquet", parquet([1, 2], k=[5], v=[{"metadata": b"m"}]), {})])
        same(w.sql("SELECT k, count(*) c FROM ice.db.odd GROUP BY k"), [[5, 1]])
        same([row[1] for row in w.sql("DESC ice.db.odd")], ["bigint"] + ["unsupported"] * 4)
        for name, written in [("v", "variant"), ("g", "geometry(srid:4326)"), ("n", "unknown")]:
            has(w.sql(f"SELECT k, {name} FROM ice.db.odd"), f"'{name}'", written)
            has(w.sql(f"SELECT count(*) c FROM ice.db.odd WHERE {name} IS NULL"), f"'{name}'", written)
        has(w.sql("SELECT * FROM ice.db.odd"), "'v'", "EXCEPT")
        same(w.sql("SELECT * EXCEPT(v, g, n, l) FROM ice.db.odd"), [[5]])
        w.write("twice", table([column(1, "k", "long")]))
        (w.root / "db/twice/metadata/00001-00000000-0000-0000-0000-000000000002.metadata.json").write_text("{}")
        w.write("damaged", {"format-version": 2})
        names = ["byid", "damaged", "odd", "sizes", "twice", "upgraded2", "upgraded3"]
        same([row[0] for row in w.sql("SHOW TABLES FROM ice.db")], names)
        same([row[0] for row in w.sql("SELECT table_name FROM ice.information_schema.tables WHERE table_schema = 'db' ORDER BY 1")], names)
        same(w.sql("SELECT count(*) c FROM ice.information_schema.columns WHERE table_schema = 'db'"), [[2 + 5 + 1 + 1 + 1]])
        has(w.sql("SELECT * FROM ice.db.twice"), "two states of number 1")
        has(w.sql("SELECT * FROM ice.db.damaged"), "damaged")
        # A catalog is selected, and the table that is made is dipper's own.
        made = "CREATE DATABASE own; SET CATALOG ice; CREATE TABLE internal.own.c AS SELECT k FROM db.sizes; "
        same(w.sql(made + "SELECT sum(k) s FROM internal.own.c"), [[12]])
        failed = "CREATE DATABASE own; SET CATALOG ice; CREATE TABLE internal.own.c AS SELECT k DIV 0, v FROM db.odd"
        has(w.sql(failed), "'v'")


@test
def locations_with_empty_parts_are_found():
    # As S3FileIO writes them, and as Hadoop's file systems do.
    for there in ("w//db/t/", "w/db/t/"):
        store = memory.Store()
        at = "s3://b/w//db/t"
        data = parquet([1], k=[1, 2])
        metadata = table([column(1, "k", "long")], location=at, more={
            "current-snapshot-id": 1, "snapshots": [{"snapshot-id": 1, "timestamp-ms": 1, "manifest-list": f"{at}/metadata/l.avro",
                                                     "sequence-number": 1, "schema-id": 0, "summary": {}}]})
        for file, content in {**snapshot(at, [(f"{at}/data/a.parquet", data, {})])}.items():
            store.put("b", f"{there}metadata/{file}", content)
        store.put("b", f"{there}data/a.parquet", data)
        store.put("b", "c/db/t/metadata/v1.metadata.json", json.dumps(metadata).encode())
        store.put("b", "c/db/", b"")
        catalog = "CREATE CATALOG ice PROPERTIES ('type' = 'iceberg', 'warehouse' = 's3://b//c/'); "
        same(sql(catalog + "SELECT sum(k) s FROM ice.db.t", environment(store)), [[3]])
        same(sql(catalog + "SHOW TABLES FROM ice.db", environment(store)), [["t"]])
        store.stop()


def main():
    global OPTIONS
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--server", type=pathlib.Path, required=True)
    parser.add_argument("--only", default="")
    OPTIONS = parser.parse_args()
    failed = 0
    for one in TESTS:
        if OPTIONS.only not in one.__name__:
            continue
        began = time.time()
        try:
            one()
            print(f"ok    {one.__name__} ({time.time() - began:.1f} s)", flush=True)
        except Exception as e:  # one that fails does not hide the others
            failed += 1
            print(f"FAIL  {one.__name__}: {type(e).__name__}: {e}", flush=True)
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
