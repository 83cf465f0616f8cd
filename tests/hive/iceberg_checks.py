"""What must hold of Iceberg tables: random ones against the rows they were made of, and pyiceberg's own against its scan."""

import datetime
import math
import operator
import pathlib
import random
import re
import sys
import threading
import time
import zoneinfo

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, DayTransform, TruncateTransform
from pyiceberg.types import (DoubleType, IntegerType, ListType, LongType, NestedField, StringType, TimestampType,
                             TimestamptzType)

sys.path.append(str(pathlib.Path(__file__).parent.parent / "faults"))

import bucket
import lake
import services
from checks import has, same
from lake import column

DAY = datetime.date(2024, 1, 1)


def sql(world):
    """A session with the catalog `ice` over the warehouse directory."""
    if not getattr(world, "has_iceberg", False):
        (world.files / "warehouse").mkdir(exist_ok=True)
        world.sql(f"CREATE CATALOG ice PROPERTIES ('type'='iceberg', 'iceberg.catalog.type'='hadoop', 'warehouse'='{world.files}/warehouse')")
        world.has_iceberg = True
    return world.sql


def at(world, name):
    sql(world)
    return world.files / "warehouse" / "db" / name


def order(rows):
    return sorted(rows, key=lambda row: [(v is not None, str(type(v)), v if v == v else math.inf) for v in row])




COLUMNS = [column(1, "k", "int"), column(2, "s", "string"), column(3, "d", "date"), column(4, "f", "double"),
           column(5, "t", "timestamp")]
SPECS = {
    "none": [],
    "identity": [{"source-id": 2, "field-id": 1000, "name": "s", "transform": "identity"}],
    "bucket": [{"source-id": 1, "field-id": 1001, "name": "kb", "transform": "bucket[4]"}],
    "truncate": [{"source-id": 1, "field-id": 1002, "name": "kt", "transform": "truncate[5]"},
                 {"source-id": 2, "field-id": 1003, "name": "st", "transform": "truncate[1]"}],
    "day": [{"source-id": 5, "field-id": 1004, "name": "td", "transform": "day"}],
    "month": [{"source-id": 3, "field-id": 1005, "name": "dm", "transform": "month"}],
    "hour": [{"source-id": 5, "field-id": 1006, "name": "th", "transform": "hour"}],
    "year": [{"source-id": 3, "field-id": 1007, "name": "dy", "transform": "year"}],
}


def random_row(rng):
    maybe = lambda value: None if rng.random() < 0.1 else value
    return {1: maybe(rng.randint(-20, 20)), 2: maybe(rng.choice(["a", "b", "bb", "ä", "zz", ""])),
            3: maybe(DAY + datetime.timedelta(days=rng.randint(-20000, 400))),
            4: maybe(rng.choice([0.5, -1.25, 3.0, 1e10])),
            5: maybe(datetime.datetime(2024, 1, 1) + datetime.timedelta(hours=rng.randint(-600000, 100), microseconds=rng.randint(0, 9)))}


def random_filter(rng, names):
    """A condition in SQL and as a function of a row by field id; NULL is not true."""
    field = rng.choice([i for i in names])
    name = names[field]
    sample = random_row(rng)[field if field in (1, 2, 3, 4, 5) else 1]
    if field == 5 and sample is not None:
        sample = sample.replace(minute=0, second=0, microsecond=0)
    if sample is None or rng.random() < 0.1:
        if rng.random() < 0.5:
            return f"`{name}` IS NULL", lambda v: v(field) is None
        return f"`{name}` IS NOT NULL", lambda v: v(field) is not None
    literal = f"'{sample}'" if isinstance(sample, (str, datetime.date)) else repr(sample)
    op, test = rng.choice([
        ("=", lambda a: a == sample), ("<", lambda a: a < sample), ("<=", lambda a: a <= sample),
        (">", lambda a: a > sample), (">=", lambda a: a >= sample), ("<>", lambda a: a != sample)])
    return f"`{name}` {op} {literal}", lambda v: v(field) is not None and test(v(field))


def random_tables(world, seeds=range(24)):
    session = sql(world)
    compared = 0
    for seed in seeds:
        rng = random.Random(seed)
        version = rng.choice([2, 2, 3])
        kinds = list(SPECS)
        first = rng.choice(kinds)
        t = lake.Table(at(world, f"r{seed}"), [dict(c) for c in COLUMNS], version=version)
        if first != "none":
            t.respec(SPECS[first])
        dropped = set()
        for step in range(rng.randint(3, 9)):
            what = rng.random()
            live = [(p, i) for p, rows in t.files.items() for i, r in enumerate(rows) if r is not lake.DELETED]
            if what < 0.4 or not live:
                rows = [random_row(rng) for _ in range(rng.randint(1, 25))]
                extra = [c["id"] for c in t.columns if c["id"] > 5]
                for r in rows:
                    for i in dropped:
                        r.pop(i, None)
                    for i in extra:
                        r[i] = rng.choice([None, 7, 8])
                t.append(rows)
            elif what < 0.65:
                chosen = rng.sample(live, rng.randint(1, max(1, len(live) // 3)))
                t.delete_positions(chosen, vectors=version == 3)
            elif what < 0.8:
                ids = rng.choice([(1,), (2,), (1, 2), (5,)])
                if not dropped & set(ids):
                    rows = [t.files[p][i] for p, i in rng.sample(live, min(3, len(live)))]
                    t.delete_values(ids, list({tuple(r.get(i) for i in ids) for r in rows}))
            elif what < 0.9:
                columns = [dict(c) for c in t.columns]
                change = rng.choice(["rename", "reorder", "promote", "add", "drop"])
                if change == "rename":
                    c = rng.choice(columns)
                    c["name"] = f"{c['name']}_{step}"
                elif change == "reorder":
                    rng.shuffle(columns)
                elif change == "promote":
                    for c in columns:
                        if c["id"] == 1:
                            c["type"] = "long"
                elif change == "add":
                    new = column(20 + step, f"x{step}", "int")
                    if version == 3:
                        new["initial-default"] = new["write-default"] = 42
                    columns.append(new)
                elif change == "drop" and len(columns) > 4 and 4 not in dropped:
                    # 4 is no source of a partition; its name comes back as another column.
                    dropped.add(4)
                    columns = [c for c in columns if c["id"] != 4] + [column(40 + step, "f", "int")]
                t.evolve(columns)
            else:
                t.respec(SPECS[rng.choice(kinds)])
        table = f"ice.db.r{seed}"
        names = {c["id"]: c["name"] for c in t.columns}
        listed = ", ".join(f"`{c['name']}`" for c in t.columns)
        same(order(session(f"SELECT {listed} FROM {table}")), order(t.expected()))
        same(session(f"SELECT count(*) FROM {table}"), [(len(t.rows),)])
        ids = [c["id"] for c in t.columns]
        for _ in range(12):
            condition, test = random_filter(rng, {i: names[i] for i in ids if i <= 5})
            kept = [row for row in t.expected() if test(lambda i: row[ids.index(i)])]
            found = session(f"SELECT {listed} FROM {table} WHERE {condition}")
            assert order(found) == order(kept), f"seed {seed}: {condition}: found {order(found)}, expected {order(kept)}"
            same(session(f"SELECT count(*) FROM {table} WHERE {condition}"), [(len(kept),)])
            compared += 1
    return f"{len(list(seeds))} tables, {compared} filters"


def nested_columns_evolve(world):
    session = sql(world)
    inner = lambda *fields: {"type": "struct", "fields": list(fields)}
    t = lake.Table(at(world, "nested"), [column(1, "k", "int"), column(2, "s", inner(column(3, "x", "int"), column(4, "y", "string")))])
    t.append([{1: 1, 2: {3: 10, 4: "a"}}, {1: 2, 2: None}])
    t.evolve([column(1, "k", "int"), column(2, "renamed", inner(column(4, "z", "string"), column(3, "x", "long"), column(5, "new", "int")))])
    t.append([{1: 3, 2: {3: 30, 4: "c", 5: 5}}])
    same(session("SELECT k, renamed.x, renamed.z, renamed.new FROM ice.db.nested ORDER BY k"),
         [(1, 10, "a", None), (2, None, None, None), (3, 30, "c", 5)])
    same(session("SELECT k FROM ice.db.nested WHERE renamed.x > 5 ORDER BY k"), [(1,), (3,)])
    same(session("SELECT k FROM ice.db.nested WHERE renamed.z = 'a'"), [(1,)])
    same(session("SELECT k FROM ice.db.nested WHERE renamed.new IS NULL ORDER BY k"), [(1,), (2,)])
    same(session("SELECT k FROM ice.db.nested WHERE renamed IS NULL"), [(2,)])
    # Rows from before a field was added have its default, but not where the struct is NULL.
    t = lake.Table(at(world, "nested_default"), [column(1, "k", "int"), column(2, "s", inner(column(3, "x", "int")))], version=3)
    t.append([{1: 1, 2: {3: 10}}, {1: 2, 2: None}])
    t.evolve([column(1, "k", "int"), column(2, "s", inner(column(3, "x", "int"), column(4, "new", "int", **{"initial-default": 42})))])
    t.append([{1: 3, 2: {3: 30, 4: None}}])
    same(session("SELECT k, s.x, s.new FROM ice.db.nested_default ORDER BY k"), [(1, 10, 42), (2, None, None), (3, 30, None)])
    same(session("SELECT k FROM ice.db.nested_default WHERE s.new = 42"), [(1,)])


def what_is_deleted_stays_deleted(world):
    """A column that an equality delete compares is dropped; files without ids are read by name."""
    session = sql(world)
    t = lake.Table(at(world, "dropped"), [column(1, "k", "int"), column(2, "s", "string")])
    t.append([{1: 1, 2: "a"}, {1: 2, 2: "b"}, {1: 3, 2: None}])
    t.delete_values((2,), [("a",), (None,)])
    t.evolve([column(1, "k", "int")])
    same(session("SELECT k FROM ice.db.dropped"), [(2,)])
    same(session("SELECT count(*) FROM ice.db.dropped"), [(1,)])
    t.evolve([column(1, "k", "int"), column(3, "s", "string")])
    same(session("SELECT * FROM ice.db.dropped"), [(2, None)])
    mapping = '[{"field-id": 1, "names": ["k", "old"]}, {"field-id": 2, "names": ["s"]}]'
    t = lake.Table(at(world, "mapped"), [column(1, "old", "int"), column(2, "s", "string")],
                   properties={"schema.name-mapping.default": mapping})
    t.append([{1: 1, 2: "a"}], with_ids=False)
    t.evolve([column(2, "text", "string"), column(1, "k", "int")])
    same(session("SELECT text, k FROM ice.db.mapped WHERE k = 1"), [("a", 1)])
    t = lake.Table(at(world, "unmapped"), [column(1, "k", "int")])
    t.append([{1: 1}], with_ids=False)
    has(session.error("SELECT * FROM ice.db.unmapped"), "field ids", "name-mapping")
    # Files that do not have their partition's column, as those of a migrated Hive table.
    t = lake.Table(at(world, "migrated"), [column(1, "k", "int"), column(2, "s", "string")])
    t.respec([{"source-id": 2, "field-id": 1000, "name": "s", "transform": "identity"}])
    t.append([{1: 1, 2: "a"}, {1: 2, 2: "b"}, {1: 3, 2: None}], omit=(2,))
    same(session("SELECT k, s FROM ice.db.migrated ORDER BY k"), [(1, "a"), (2, "b"), (3, None)])
    same(session("SELECT k FROM ice.db.migrated WHERE s = 'b'"), [(2,)])
    same(session("SELECT k FROM ice.db.migrated WHERE s IS NULL"), [(3,)])


def older_states_are_read(world):
    session = sql(world)
    t = lake.Table(at(world, "old"), [column(1, "k", "int")])
    t.append([{1: 1}, {1: 2}])
    t.evolve([column(1, "renamed", "long"), column(2, "s", "string")])
    t.append([{1: 3, 2: "x"}])
    t.delete_positions([(next(iter(t.files)), 0)])
    t.refs = {"first": {"snapshot-id": 1, "type": "tag"}, "branch": {"snapshot-id": 2, "type": "branch"}}
    t.write_metadata()
    same(order(session("SELECT * FROM ice.db.old")), order([(2, None), (3, "x")]))
    same(order(session("SELECT * FROM ice.db.old FOR VERSION AS OF 1")), [(1,), (2,)])
    same(order(session("SELECT old.k FROM ice.db.old FOR VERSION AS OF 'first' WHERE k > 1")), [(2,)])
    same(session("SELECT count(*), max(s) FROM ice.db.old FOR VERSION AS OF 'branch'"), [(3, "x")])
    session("SET time_zone = '+00:00'")
    # Snapshot n was made n seconds after 1,700,000,000, which was 22:13:20.
    same(session("SELECT count(*) FROM ice.db.old FOR TIMESTAMP AS OF '2023-11-14 22:13:22.5'"), [(3,)])
    same(session("SELECT count(*) FROM ice.db.old FOR TIMESTAMP AS OF '2023-11-14 22:13:21'"), [(2,)])
    same(session("SELECT snapshot_id, committed_at FROM ice.db.`old$snapshots` ORDER BY 1 LIMIT 1"),
         [(1, datetime.datetime(2023, 11, 14, 22, 13, 21))])
    same(session("SELECT count(*) FROM ice.db.`old$history`"), [(3,)])
    same(session("SELECT name, type FROM iceberg_meta('table' = 'ice.db.old', 'query_type' = 'refs') WHERE name <> 'main' ORDER BY 1"),
         [("branch", "BRANCH"), ("first", "TAG")])
    same(session("SELECT count(*) FROM ice.db.old FOR TIMESTAMP AS OF now()"), [(2,)])
    has(session.error("SELECT * FROM ice.db.`old$files`"), "doesn't exist")
    session("SET time_zone = '+08:00'")
    same(session("SELECT count(*) FROM ice.db.old FOR TIMESTAMP AS OF '2023-11-15 06:13:21'"), [(2,)])
    same(session("SELECT count(*) FROM ice.db.old n JOIN ice.db.old FOR VERSION AS OF 1 o ON n.renamed = o.k"), [(1,)])
    has(session.error("SELECT * FROM ice.db.old FOR VERSION AS OF 77"), "77", "first")
    has(session.error("SELECT * FROM ice.db.old FOR TIMESTAMP AS OF '2020-01-01'"), "2019-12-31 16:00:00")
    has(session.error("SELECT * FROM ice.db.old FOR TIMESTAMP AS OF 'soon'"), "soon")
    has(session.error("SELECT * FROM information_schema.tables FOR VERSION AS OF 1"), "Iceberg")
    session("SET time_zone = 'UTC'")


def tables_in_hdfs(world):
    session = sql(world)
    local = world.root / "for-hdfs/db/t"
    t = lake.Table(local, [column(1, "k", "int"), column(2, "s", "string")], version=3, base=f"{world.hdfs.url}/warehouse/db/t")
    t.respec([{"source-id": 1, "field-id": 1000, "name": "kb", "transform": "bucket[2]"}])
    t.append([{1: i, 2: f"row {i}"} for i in range(100)])
    t.delete_positions([(next(iter(t.files)), 3)], vectors=True)
    world.hdfs.put(world.root / "for-hdfs", "/warehouse")
    session(f"CREATE CATALOG far PROPERTIES ('type'='iceberg', 'warehouse'='{world.hdfs.url}/warehouse', 'dfs.client.use.datanode.hostname'='false')")
    same(session("SHOW TABLES FROM far.db"), [("t",)])
    same(order(session("SELECT * FROM far.db.t")), order(t.expected()))
    same(session("SELECT count(*) FROM far.db.t WHERE k < 10"), [(sum(r[0] < 10 for r in t.expected()),)])
    has(session.error("SELECT * FROM far.db.none"), "far.db.none")
    world.hdfs.stop()
    has(session.error("SELECT * FROM far.db.t"), "hdfs://")
    session("DROP CATALOG far")


def tables_in_buckets(world):
    session = sql(world)
    port = world.s3.port
    below = world.root / "s3/root/lake/warehouse/db/t"
    t = lake.Table(below, [column(1, "k", "int"), column(2, "s", "string")], version=3, base="s3a://lake/warehouse/db/t")
    t.append([{1: i, 2: f"row {i}"} for i in range(100)])
    t.delete_positions([(next(iter(t.files)), 3)], vectors=True)
    keys = {
        "StarRocks": ("aws.s3.endpoint", "aws.s3.access_key", "aws.s3.secret_key"),
        "Doris": ("s3.endpoint", "s3.access_key", "s3.secret_key"),
        "Iceberg": ("s3.endpoint", "s3.access-key-id", "s3.secret-access-key"),
    }
    for names in keys.values():
        values = (f"http://127.0.0.1:{port}", services.S3_KEY, services.S3_SECRET)
        own = ", ".join(f"'{name}' = '{value}'" for name, value in zip(names, values))
        session(f"CREATE CATALOG bucket PROPERTIES ('type' = 'iceberg', 'warehouse' = 's3://lake/warehouse', {own})")
        same(session("SHOW TABLES FROM bucket.db"), [("t",)])
        same(order(session("SELECT * FROM bucket.db.t")), order(t.expected()))
        same(session("SELECT count(*) FROM bucket.db.t WHERE k < 10"), [(sum(r[0] < 10 for r in t.expected()),)])
        has(str(session("EXPLAIN ANALYZE SELECT * FROM bucket.db.t")), "object storage", "cache_hits=")
        shown = [line.strip() for (line, *_) in session("EXPLAIN SELECT k FROM bucket.db.t WHERE s LIKE '%7'")]
        assert not any(line.startswith("ProjectionExec") for line in shown), shown
        # What is told of its objects is told in its own information_schema.
        told = "bucket.information_schema"
        same(session(f"SELECT table_catalog, table_schema, table_name, engine FROM {told}.tables WHERE table_schema = 'db'"),
             [("bucket", "db", "t", "FILES")])
        same(session(f"SELECT column_name, ordinal_position FROM {told}.columns WHERE table_name = 't' ORDER BY 2"),
             [("k", 1), ("s", 2)])
        has(str(session(f"SELECT schema_name FROM {told}.schemata")), "'db'", "information_schema")
        has(str(session(f"SELECT * FROM {told}.engines")), "OLAP")
        assert "'bucket'" not in str(session("SELECT DISTINCT table_catalog FROM information_schema.tables"))
        # What fails in a filter is no damage of a file.
        failed = session.error("SELECT * FROM bucket.db.t WHERE k * 9223372036854775807 > 5")
        assert "cannot be read" not in failed, failed
        session("SET catalog = 'bucket'")
        same(session("SELECT @@catalog, count(*) FROM information_schema.tables WHERE table_schema = 'db'"), [("bucket", 1)])
        same(session("SELECT count(*) FROM db.t"), [(len(t.expected()),)])
        session("SET catalog = internal")
        has(session.error("SET catalog = 'buckt'"), "buckt")
        same(session("SELECT @@catalog"), [("internal",)])
        session(f"ALTER CATALOG bucket SET PROPERTIES ('{names[2]}' = 'wrong')")
        has(session.error("SELECT * FROM bucket.db.t"), "403")
        session("DROP CATALOG bucket")


def in_bucket(name, port):
    """CREATE CATALOG of a warehouse of this name, behind this port."""
    return (f"CREATE CATALOG {name} PROPERTIES ('type' = 'iceberg', 'warehouse' = 's3://lake/{name}', "
            f"'s3.endpoint' = 'http://127.0.0.1:{port}', 's3.access_key' = '{services.S3_KEY}', "
            f"'s3.secret_key' = '{services.S3_SECRET}')")


def files_in_buckets_are_read_anew_once_they_are_repaired(world):
    session = sql(world)
    session(in_bucket("mended", world.s3.port))
    damages = {
        "pages": lambda good: good[:8] + bytes([good[8] ^ 255] * 60) + good[68:],
        "footer": lambda good: good[:(begin := len(good) - 8 - int.from_bytes(good[-8:-4], "little"))] + b"\xff" * 16 + good[begin + 16:],
        "length": lambda good: good[:-8] + b"\xff\xff\xff\x7f" + good[-4:],
    }
    for name, damage in damages.items():
        root = world.root / "s3/root/lake/mended/db" / name
        t = lake.Table(root, [column(1, "k", "int"), column(2, "s", "string")], base=f"s3://lake/mended/db/{name}")
        t.append([{1: i, 2: f"row {i}"} for i in range(100)])
        data = next((root / "data").glob("*.parquet"))
        good = data.read_bytes()
        data.write_bytes(damage(good))
        for _ in range(2):
            has(session.error(f"SELECT sum(k), max(s) FROM mended.db.{name}"), data.name, "cannot be read as Parquet")
        data.write_bytes(good)
        same(session(f"SELECT sum(k), max(s) FROM mended.db.{name}"), [(4950, "row 99")])
    session("DROP CATALOG mended")


def metadata_that_comes_damaged_is_asked_for_once_more(world):
    session = sql(world)
    faults = bucket.Faults(7)
    proxy = bucket.Proxy(world.s3.port, faults)
    session(in_bucket("wrong", proxy.port))
    for name in (".metadata.json", ".avro", "-deletes.parquet"):
        faults.damages_of = name
        # Another table each time: what was read of one is kept.
        for answer in range(2):
            table = f"t{answer}_{name.strip('-.').replace('.', '_')}"
            t = lake.Table(world.root / "s3/root/lake/wrong/db" / table, [column(1, "k", "int"), column(2, "s", "string")],
                           base=f"s3://lake/wrong/db/{table}")
            t.append([{1: i, 2: f"row {i}"} for i in range(100)])
            t.delete_positions([(next(iter(t.files)), at) for at in (0, 50)])
            t.delete_values([1], [(7,)])
            question = f"SELECT count(*), sum(k) FROM wrong.db.{table}"
            # All answers are wrong, then one is.
            faults.damages_left = 0 if answer else 1_000_000
            if not answer:
                session.error(question)
            faults.damages_left = answer
            same(session(question), [(97, 4950 - 57)])
            same([faults.damages_left], [0])
    session("DROP CATALOG wrong")
    proxy.stop()


def scans_of_buckets_outlive_faults(world):
    """Requests of a scan that fail, and a bucket that is down in the middle of one."""
    session = sql(world)
    faults = bucket.Faults(7)
    proxy = bucket.Proxy(world.s3.port, faults)
    session(in_bucket("faulty", proxy.port))
    for name in ("failing", "down"):
        t = lake.Table(world.root / "s3/root/lake/faulty/db" / name, [column(1, "k", "int"), column(2, "s", "string")],
                       base=f"s3://lake/faulty/db/{name}")
        for i in range(12):
            t.append([{1: i * 50 + j, 2: f"row {i * 50 + j:04}"} for j in range(50)])
        t.delete_positions([(path, at) for path in t.files for at in (0, 7, 49)])
        keys = [row[1] for row in t.rows]
        expected = [(len(keys), sum(keys), f"row {max(keys):04}")]
        question = f"SELECT count(*), sum(k), max(s) FROM faulty.db.{name}"
        session("SET enable_scan_datacache = false")
        if name == "failing":
            faults.shares = {"error_500": 0.1, "slow_down": 0.1, "reset_before": 0.05, "short_body": 0.1}
            for _ in range(3):
                same(session(question), expected)
            assert sum(faults.injected.values()) > 5, faults.injected
            faults.shares = {}
            continue
        # Metadata, manifests and some footers are read by then, data is not.
        before = faults.requests["GET"]

        def outage():
            until = time.time() + 30
            while faults.requests["GET"] < before + 22 and time.time() < until:
                time.sleep(0.001)
            faults.shares = {"slow_down": 1.0}
            time.sleep(4)
            faults.shares = {}

        away = threading.Thread(target=outage)
        away.start()
        began = time.time()
        same(session(question), expected)
        assert 3 < time.time() - began < 40, f"it took {time.time() - began:.1f} s"
        away.join()
    session("SET enable_scan_datacache = true")
    session("DROP CATALOG faulty")
    proxy.stop()


def damage_is_named(world):
    session = sql(world)
    t = lake.Table(at(world, "damaged"), [column(1, "k", "int")], version=3)
    t.append([{1: 1}, {1: 2}])
    t.delete_positions([(next(iter(t.files)), 0)], vectors=True)
    same(session("SELECT * FROM ice.db.damaged"), [(2,)])
    puffin = next((t.root / "data").glob("*.puffin"))
    good = puffin.read_bytes()
    # Byte 20 is within the bitmap.
    puffin.write_bytes(good[:20] + bytes([good[20] ^ 1]) + good[21:])
    has(session.error("SELECT * FROM ice.db.damaged"), puffin.name, "checksum")
    puffin.write_bytes(good)
    puffin.rename(f"{puffin}.gone")
    has(session.error("SELECT * FROM ice.db.damaged"), puffin.name)
    has(session.error("SELECT * FROM ice.db.damagd"), "damaged")
    has(session.error("SELECT * FROM ice.d.damaged"), "ice.d")
    has(session.error("INSERT INTO ice.db.damaged VALUES (1)"), "only be read")
    has(session.error("CREATE CATALOG outside PROPERTIES ('type'='iceberg')"), "warehouse")
    session("CREATE CATALOG outside PROPERTIES ('type'='iceberg', 'warehouse'='/etc')")
    has(session.error("SHOW DATABASES FROM outside"), "denied")
    session("DROP CATALOG outside")


def tables_of_pyiceberg(world):
    session = sql(world)
    catalog = SqlCatalog("c", uri=f"sqlite:///{world.root}/pyiceberg.db", warehouse=f"file://{world.files}/warehouse")
    catalog.create_namespace("db")
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "name", StringType()),
                    NestedField(3, "at", TimestampType()), NestedField(4, "v", DoubleType()))
    spec = PartitionSpec(PartitionField(1, 1000, BucketTransform(8), "idb"), PartitionField(3, 1001, DayTransform(), "day"))
    t = catalog.create_table("db.py", schema, location=f"file://{at(world, 'py')}", partition_spec=spec)
    rng = random.Random(5)
    def batch(n):
        start = datetime.datetime(2024, 3, 1)
        return pa.table({"id": pa.array([rng.randint(0, 1000) for _ in range(n)], pa.int64()),
                         "name": [rng.choice(["x", "y", None]) for _ in range(n)],
                         "at": pa.array([start + datetime.timedelta(hours=rng.randint(0, 100)) for _ in range(n)], pa.timestamp("us")),
                         "v": [rng.random() for _ in range(n)]})
    t.append(batch(500))
    t.append(batch(300))
    t.delete("id < 200")
    with t.update_schema() as update:
        update.rename_column("name", "label")
        update.add_column("extra", IntegerType())
    with t.update_spec() as update:
        update.add_field("label", TruncateTransform(1), "lt")
    t.append(batch(50).rename_columns(["id", "label", "at", "v"]).append_column("extra", pa.array(range(50), pa.int32())))
    t.overwrite(batch(20).rename_columns(["id", "label", "at", "v"]).append_column("extra", pa.array(range(20), pa.int32())), "id >= 900")
    compared = 0
    for where in ["id > 500", "label = 'x'", "label IS NULL", "at >= '2024-03-03T00:00:00'", "v < 0.1", "extra = 3",
                  "id = 777 or label = 'y'", "id in (250, 251, 252, 253)", "at < '2024-03-01T05:00:00' and v > 0.5"]:
        expected = [tuple(r.values()) for r in t.scan(row_filter=where).to_arrow().to_pylist()]
        found = session(f"SELECT id, label, at, v, extra FROM ice.db.py WHERE {where.replace('T00', ' 00').replace('T05', ' 05')}")
        same(order(found), order(expected))
        compared += len(found)
    same(session("SELECT count(*) FROM ice.db.py"), [(t.scan().to_arrow().num_rows,)])
    same([r[0] for r in session("DESC ice.db.py")], ["id", "label", "at", "v", "extra"])
    has(session("SHOW CREATE TABLE ice.db.py")[0][1], "ENGINE=ICEBERG", "bucket(8, `id`)", "day(`at`)", "truncate(1, `label`)")
    has(str(session("SHOW TABLES FROM ice.db")), "py")
    parts = session("SHOW PARTITIONS FROM ice.db.py")
    assert all(re.fullmatch(r"idb=[0-7]/day=2024-03-0\d(/lt=(x|y|null))?", name) for name, *_ in parts), parts[:5]
    same(sum(files for *_, files in parts), t.inspect.files().filter(pc.field("content") == 0).num_rows)
    same([r[0] for r in session("SHOW DATABASES FROM ice")], ["db", "information_schema", "mysql"])
    # The same table by a metastore that says where its metadata is.
    world.table("ice", [("id", "bigint")], f"file://{at(world, 'py')}", properties={
        "table_type": "ICEBERG", "metadata_location": t.metadata_location})
    same(session("SELECT count(*), max(extra) FROM hive.shop.ice"), session("SELECT count(*), max(extra) FROM ice.db.py"))
    return f"{compared} rows"


def instants_and_lists_of_pyiceberg(world):
    """pyiceberg writes lists as large ones. Instants are shown by the session's clock, also around the hour that comes twice."""
    session = sql(world)
    catalog = SqlCatalog("instants", uri=f"sqlite:///{world.root}/instants.db", warehouse=f"file://{world.files}/warehouse")
    catalog.create_namespace("db")
    schema = Schema(NestedField(1, "k", LongType()), NestedField(2, "at", TimestamptzType()),
                    NestedField(3, "l", ListType(4, LongType(), element_required=False)))
    spec = PartitionSpec(PartitionField(2, 1000, DayTransform(), "day"))
    t = catalog.create_table("db.instants", schema, location=f"file://{at(world, 'instants')}", partition_spec=spec)
    start = datetime.datetime(2024, 10, 25, 12, tzinfo=datetime.timezone.utc)
    rows = [(k, start + datetime.timedelta(minutes=30 * k), [k] * (k % 3)) for k in range(200)] + [(200, None, None)]
    t.append(pa.table({"k": pa.array([r[0] for r in rows], pa.int64()), "at": pa.array([r[1] for r in rows], pa.timestamp("us", "UTC")),
                       "l": pa.array([r[2] for r in rows], pa.list_(pa.int64()))}))
    same(session("SELECT k, l[1], l[2] FROM ice.db.instants ORDER BY k"),
         [(k, k if k % 3 > 0 and k < 200 else None, k if k % 3 > 1 and k < 200 else None) for k in range(201)])
    compared = 0
    for zone in ["UTC", "Europe/Berlin", "America/New_York", "+08:00"]:
        session(f"SET time_zone = '{zone}'")
        clock = datetime.timezone(datetime.timedelta(hours=8)) if zone[0] == "+" else zoneinfo.ZoneInfo(zone)
        shown = [(k, i and i.astimezone(clock).replace(tzinfo=None)) for k, i, _ in rows]
        same(session("SELECT k, at FROM ice.db.instants ORDER BY k"), shown)
        for op, meets in [("=", operator.eq), ("<", operator.lt), ("<=", operator.le), (">", operator.gt), (">=", operator.ge)]:
            for hour in ["2024-10-25 20:00:00", "2024-10-27 02:30:00", "2024-10-27 03:00:00", "2024-10-29 10:30:00"]:
                expected = [(k,) for k, i in shown if i and meets(i, datetime.datetime.fromisoformat(hour))]
                same(session(f"SELECT k FROM ice.db.instants WHERE at {op} '{hour}' ORDER BY k"), expected)
                compared += len(expected)
    session("SET time_zone = 'UTC'")
    return f"{compared} rows"


ALL = [random_tables, nested_columns_evolve, older_states_are_read, tables_in_hdfs, tables_in_buckets,
       files_in_buckets_are_read_anew_once_they_are_repaired,
       metadata_that_comes_damaged_is_asked_for_once_more, scans_of_buckets_outlive_faults,
       what_is_deleted_stays_deleted, damage_is_named, tables_of_pyiceberg, instants_and_lists_of_pyiceberg]
