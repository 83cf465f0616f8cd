#!/usr/bin/env python3
"""A database in a bucket: what it promises when nodes come and go, caches rot, and requests fail.

    tests/faults/s3.py --server BIN [--only PATTERN] [--seed N] [--loads N]

Needs PyMySQL (the virtual environment of tests/clients has it) and versitygw (`make gateway`).
"""

import argparse
import concurrent.futures
import gzip
import hashlib
import http.client
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

import pymysql

import bucket

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from server import Server, free_port  # noqa: E402

OPTIONS = None
TESTS = []


def test(function):
    TESTS.append(function)
    return function


def expect(condition, message):
    if not condition:
        raise AssertionError(message)


class Node(Server):
    """A server process on the bucket."""

    def __init__(self, directory, port, name="node", cache=True, prefix="db", arguments=(), within=()):
        self.cache = directory / f"cache-{name}"
        flags = ["--cache-dir", self.cache] if cache else ["--cache-size", "0"]
        began = time.time()
        super().__init__(OPTIONS.server, directory, *flags, *arguments, data=f"s3://{bucket.BUCKET}/{prefix}", log=f"{name}.log",
                         within=within, env=bucket.environment(port))
        self.seconds_to_ready = time.time() - began

    def sql(self, *statements, database=None):
        connection = self.connect(database=database)
        try:
            with connection.cursor() as cursor:
                for statement in statements:
                    cursor.execute(statement)
                return list(cursor.fetchall())
        finally:
            connection.close()

    def one(self, statement):
        return self.sql(statement)[0][0]

    def io(self):
        """Counters since the start."""
        return {name: int(value) for name, value in self.sql("SELECT name, value FROM information_schema.data_io")}

    def load(self, table, body, label=None, headers=()):
        label = {"label": label} if label else {}
        return self.stream_load("d", table, body, {"column_separator": ",", "Expect": "100-continue", **label, **dict(headers)})


class Stage:
    """A gateway, perhaps a proxy, and nodes; all gone at the end."""

    def __init__(self, faults=None):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="dipper-s3-"))
        self.gateway = bucket.Gateway(self.directory / "gateway")
        self.proxy = bucket.Proxy(self.gateway.port, faults) if faults else None
        self.port = self.proxy.port if self.proxy else self.gateway.port
        self.nodes = []

    def node(self, *args, **kwargs):
        self.nodes.append(Node(self.directory, kwargs.pop("port", self.port), *args, **kwargs))
        return self.nodes[-1]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for node in self.nodes:
            node.kill()
        if self.proxy:
            self.proxy.stop()
        self.gateway.stop()
        shutil.rmtree(self.directory, ignore_errors=True)


def fails(node, statement, words):
    """A statement that is refused with these words."""
    try:
        node.sql(statement)
    except pymysql.err.Error as e:
        expect(words in str(e), f"{statement}: {e}")
    else:
        raise AssertionError(f"{statement} did not fail")


def make(node, name, keys="DUPLICATE KEY(k)", rows=0, properties=""):
    node.sql("CREATE DATABASE IF NOT EXISTS d",
             f"CREATE TABLE d.{name} (k BIGINT, v BIGINT, s VARCHAR(100)) {keys} DISTRIBUTED BY HASH(k) BUCKETS 2 {properties}")
    if rows:
        body = "".join(f"{i},{i * 7 % 1000},text {i * 31 % 977} of row\n" for i in range(rows))
        answer = node.load(name, body.encode())
        expect(answer["Status"] == "Success", answer)


@test
def nodes_come_and_go():
    with Stage() as stage:
        a = stage.node("a")
        make(a, "t", rows=20_000)
        b = stage.node("b")
        expect(b.one("SELECT count(*) FROM d.t") == 20_000, "the second node sees the first one's load")
        answer = b.load("t", b"-1,5,x\n")
        expect(answer["Status"] == "Success", answer)
        expect(a.one("SELECT count(*) FROM d.t") == 20_001, "and the other way round")
        a.kill()
        c = stage.node("c")
        io = c.io()
        print(f"  a new node is ready in {c.seconds_to_ready:.2f} s, after {io['requests']} GETs, {io['lists']} LISTs, "
              f"{io['request_bytes']} bytes")
        expect(io["request_bytes"] < 200_000, "no data is read at the start")
        expect(c.one("SELECT sum(v) FROM d.t") == b.one("SELECT sum(v) FROM d.t"), "nothing is lost")


@test
def every_query_reads_the_newest_state():
    with Stage() as stage:
        a, b = stage.node("a"), stage.node("b")
        make(a, "t")
        query = "SELECT count(*), max(v) FROM d.t"
        b.sql(query)
        for i in range(1, 41):
            writer, reader = (a, b) if i % 2 else (b, a)
            writer.sql(f"INSERT INTO d.t VALUES ({i}, {i}, 'x')")
            expect(reader.sql(query) == [(i, i)], f"what the other node committed is read by the next query ({i})")
            expect(writer.sql(query) == [(i, i)], f"and what this node did ({i})")
        # What the rows look like, and whether they may be read, is the newest, too.
        a.sql("ALTER TABLE d.t ADD COLUMN w INT DEFAULT '3'")
        expect(b.sql("SELECT * FROM d.t WHERE v = 1") == [(1, 1, "x", 3)], "columns are those of the newest definition")
        a.sql("CREATE VIEW d.w AS SELECT max(v) FROM d.t")
        expect(b.one("SELECT * FROM d.w") == 40, "a view that was just made")
        a.sql("INSERT INTO d.t VALUES (41, 41, 'x', 1)")
        expect(b.one("SELECT * FROM d.w") == 41, "tables behind a view")
        a.sql("DROP TABLE d.t", "CREATE TABLE d.t (v BIGINT) DUPLICATE KEY(v) DISTRIBUTED BY HASH(v) BUCKETS 1")
        expect(b.sql(query) == [(0, None)], "another table of that name")
        # Who allows it does not ask.
        before = b.io()["lists"]
        b.sql("SET GLOBAL query_freshness_tolerance_ms = 60000")
        a.sql("INSERT INTO d.t VALUES (1)")
        expect(b.sql(query) == [(0, None)], "a commit of another node may be missed")
        b.sql("INSERT INTO d.t VALUES (2), (3)")
        expect(b.sql(query) == [(3, 3)], "one's own never")
        lists = b.io()["lists"]
        for _ in range(5):
            b.sql(query)
        expect(b.io()["lists"] - lists <= 2, f"{b.io()['lists']} listings, {lists} before, {before} at first")
        a.sql("INSERT INTO d.t VALUES (4)")
        b.sql("SYNC")
        expect(b.sql(query) == [(4, 4)], "SYNC reads what others did")
        # An account that another node has just made may come in.
        for i in range(5):
            b.sql("SELECT count(*) FROM information_schema.tables")
            a.sql(f"CREATE USER new{i} IDENTIFIED BY ''")
            pymysql.connect(host="127.0.0.1", port=b.mysql, user=f"new{i}").close()


@test
def the_second_run_asks_for_nothing():
    query = "SELECT sum(v), count(DISTINCT s) FROM d.t"
    with Stage() as stage:
        a = stage.node("a")
        make(a, "t", rows=200_000)
        truth = a.sql(query)
        a.stop()
        shutil.rmtree(a.cache)
        a = stage.node("a")
        before = a.io()
        began = time.time()
        expect(a.sql(query) == truth, "same rows")
        cold, took = a.io(), time.time() - began
        print(f"  cold: {cold['requests'] - before['requests']} GETs, {cold['lists'] - before['lists']} LISTs, {took * 1000:.0f} ms")
        time.sleep(0.5)
        a.stop()
        a = stage.node("a")
        before = a.io()
        expect(a.sql(query) == truth, "same rows")
        after = a.io()
        expect(after["disk_hit_bytes"] > before["disk_hit_bytes"], "the cache survives a restart")
        expect(after["miss_bytes"] == before["miss_bytes"], f"nothing is missed: {after}")
        # The cache directory under a running server: damaged, then gone, then a file in its place.
        for harm in ("damage", "delete", "replace"):
            files = [f for f in (a.cache / "v1").rglob("*") if f.is_file() and f.name != "lock"]
            if harm == "damage":
                expect(files, "there is something to damage")
                for f in files:
                    data = bytearray(f.read_bytes())
                    data[random.randrange(len(data))] ^= 8
                    f.write_bytes(data)
            elif harm == "delete":
                shutil.rmtree(a.cache)
            else:
                shutil.rmtree(a.cache, ignore_errors=True)
                a.cache.write_text("x")
            # Another query, since the pages of the first are in memory.
            expect(a.one("SELECT count(*) FROM d.t WHERE s LIKE 'text 9%'") > 0, harm)
            a.sql("SET GLOBAL enable_scan_datacache = true")
            expect(a.sql(query) == truth, harm)


@test
def the_switches_act():
    with Stage() as stage:
        a = stage.node("a")
        make(a, "t", rows=50_000)
        make(a, "u", rows=50_000, properties="PROPERTIES ('datacache.enable' = 'false')")
        a.stop()
        # What is loaded is kept.
        shutil.rmtree(a.cache)
        a = stage.node("a")
        used = lambda: (time.sleep(0.3), a.io()["fill_bytes"])[1]
        zero = used()
        a.sql("SET enable_populate_datacache = false", "SELECT sum(v) FROM d.t")
        expect(used() == zero, "enable_populate_datacache = false fills nothing")
        a.sql("SET populate_datacache_mode = 'never'", "SELECT max(s) FROM d.t")
        expect(used() == zero, "populate_datacache_mode = never fills nothing")
        a.sql("SELECT max(s), sum(v) FROM d.u")
        expect(used() == zero, "datacache.enable = false fills nothing")
        a.stop()
        a = stage.node("a")
        row = a.sql("CACHE SELECT k, v FROM d.t")[0]
        expect(int(row[1]) > 0, f"CACHE SELECT writes: {row}")
        metrics = a.sql("SELECT disk_used_bytes, mem_used_bytes FROM information_schema.be_datacache_metrics")[0]
        expect(metrics[0] > 0, metrics)


@test
def merges_of_two_nodes_leave_nothing_behind():
    """Both compact the same segments; who loses removes what he wrote, and a check of a healthy database is silent."""
    with Stage() as stage:
        nodes = stage.node("a"), stage.node("b")
        nodes[0].sql("CREATE DATABASE d", "CREATE TABLE d.t (k INT, v INT) DUPLICATE KEY(k) DISTRIBUTED BY HASH(k) BUCKETS 1")
        for i in range(48):
            nodes[i % 2].sql(f"INSERT INTO d.t VALUES ({i}, {i})")
        time.sleep(3)
        expect(nodes[1].sql("SELECT count(*), sum(v) FROM d.t") == [(48, sum(range(48)))], "rows")
        checked = subprocess.run([OPTIONS.server, "check", "-q", f"s3://{bucket.BUCKET}/db"], capture_output=True, text=True,
                                 env=bucket.environment(stage.port))
        silent = checked.returncode == 0 and "0 problems" in checked.stdout and "note:" not in checked.stdout
        expect(silent, checked.stdout + checked.stderr)


@test
def a_full_cache_disk_keeps_what_fits():
    """The cache's disk is smaller than what the cache may take, and than the table."""
    with Stage() as stage:
        cache = stage.directory / "cache-a"
        cache.mkdir()
        # A file system that only this server sees.
        within = ["unshare", "--map-root-user", "--mount", "sh", "-c", 'mount -t tmpfs -o size=3m none "$0" && exec "$@"', str(cache)]
        if subprocess.run([*within, "true"], capture_output=True).returncode:
            return print("  not run: this user may not mount file systems")
        a = stage.node("a", within=within, arguments=("--cache-size", "1GiB"))
        make(a, "t")
        body = "".join(f"{i},{i * i % 7919},{hashlib.sha512(str(i).encode()).hexdigest()[:100]}\n" for i in range(100_000))
        expect(a.load("t", body.encode())["Status"] == "Success", "loaded")
        truth = None
        for turn in range(3):
            warnings = a.sql("CACHE SELECT * FROM d.t", "SHOW WARNINGS")
            # Later all of it is in the cache's memory.
            expect(turn > 0 or warnings and "data cache dropped" in warnings[0][2], f"the user is told that not all is kept: {warnings}")
            status, used = a.sql("SELECT status, disk_used_bytes FROM information_schema.be_datacache_metrics")[0]
            expect(status == "Normal" and used > 1 << 20, f"{turn}: {used} bytes are kept, {status}")
            rows = a.sql("SELECT count(*), sum(v), max(s), sum(length(s)) FROM d.t")
            truth = truth or rows
            expect(rows == truth and rows[0][0] == 100_000, "same rows")


@test
def files_in_a_bucket_are_tables():
    with Stage() as stage:
        port = stage.gateway.port
        csv = "id,name\n" + "".join(f"{i},name {i}\n" for i in range(100_000))
        bucket.put(port, "in/a.csv", csv.encode())
        bucket.put(port, "in/b.csv", b"id,name\n100000,last\n")
        bucket.put(port, "in/_hidden.csv", b"id,name\n7,no\n")
        bucket.put(port, "gz/a.csv.gz", gzip.compress(csv.encode()))
        for day, rows in (("2024-01-01", 3), ("2024-01-02", 5)):
            bucket.put(port, f"hive/dt={day}/part-0", "".join(f"{i}\x01x{i}\n" for i in range(rows)).encode())
        a = stage.node("a")
        expect(a.one("SELECT count(*) FROM 's3://faults/in/*.csv'") == 100_001, "glob")
        expect(a.one("SELECT sum(id) FROM 's3://faults/in/a.csv'") == sum(range(100_000)), "one file")
        expect(a.one("SELECT count(*) FROM 's3://faults/gz/a.csv.gz' WHERE name LIKE '%9'") == 10_000, "compressed")
        own = f"'aws.s3.endpoint' = 'http://127.0.0.1:{port}', 'aws.s3.access_key' = '{bucket.KEY}', 'aws.s3.secret_key' = '{bucket.SECRET}'"
        expect(a.one(f"SELECT count(*) FROM files('path' = 's3://faults/in/', 'format' = 'csv', 'header' = 'true', {own})") == 100_001, "files()")
        doris = f"'s3.endpoint' = 'http://127.0.0.1:{port}', 's3.access_key' = '{bucket.KEY}', 's3.secret_key' = '{bucket.SECRET}'"
        expect(a.one(f"SELECT count(*) FROM s3('uri' = 's3://faults/in/b.csv', 'format' = 'csv_with_names', {doris})") == 1, "s3()")
        of_http = f"'uri' = 'http://127.0.0.1:{port}/faults/in/b.csv', 'format' = 'csv_with_names'"
        expect(a.one(f"SELECT count(*) FROM s3({of_http}, {doris}, 'use_path_style' = 'true')") == 1, "Doris' URL of an object")
        expect(a.sql("SELECT path, size FROM files('path' = 's3://faults/in/b.csv', 'list_files_only' = 'true')")
               == [("s3://faults/in/b.csv", 20)], "a listing")
        a.sql("CREATE DATABASE IF NOT EXISTS d",
              "CREATE EXTERNAL TABLE d.h (id INT, name STRING) PARTITIONED BY (dt STRING) STORED AS TEXTFILE "
              f"LOCATION 's3://faults/hive' TBLPROPERTIES ({own})")
        expect(a.sql("SELECT dt, count(*), max(id) FROM d.h GROUP BY dt ORDER BY dt") ==
               [("2024-01-01", 3, 2), ("2024-01-02", 5, 4)], "Hive partitions")
        expect(a.one("SELECT count(*) FROM d.h WHERE dt = '2024-01-02'") == 5, "pruned")
        shown = str(a.sql("SHOW CREATE TABLE d.h"))
        expect(bucket.SECRET not in shown and "******" in shown, shown)
        # Each partition is read where it is.
        (stage.gateway.directory / "other").mkdir()
        a.sql("CREATE EXTERNAL TABLE d.p (id INT, name STRING) PARTITIONED BY (dt STRING) STORED AS PARQUET "
              f"LOCATION 's3://faults/parquet' TBLPROPERTIES ({own})",
              "ALTER TABLE d.p ADD PARTITION (dt = 'b') LOCATION 's3://other/elsewhere'",
              "INSERT INTO d.p VALUES (1, 'x', 'a'), (2, 'y', 'b'), (3, 'z', 'b')")
        expect(len(list((stage.gateway.directory / "other" / "elsewhere").iterdir())) == 1, "a partition in another bucket")
        expect(a.sql("SELECT dt, sum(id) FROM d.p GROUP BY dt ORDER BY dt") == [("a", 1), ("b", 5)], "Parquet in two buckets")
        def partitions():
            return [name for name, *_ in a.sql("SHOW PARTITIONS FROM d.p")]

        expect(partitions() == ["dt=a", "dt=b"], f"{partitions()}")
        a.sql("ALTER TABLE d.p ADD PARTITION (dt = 'c')", "ALTER TABLE d.p ADD IF NOT EXISTS PARTITION (dt = 'c')")
        expect(partitions() == ["dt=a", "dt=b", "dt=c"], f"an empty one: {partitions()}")
        a.sql("MSCK REPAIR TABLE d.p SYNC PARTITIONS")
        expect(partitions() == ["dt=a", "dt=b"], f"it has no directory: {partitions()}")
        a.sql("ALTER TABLE d.p ADD PARTITION (dt = 'c')", "ALTER TABLE d.p DROP PARTITION (dt = 'c')",
              "ALTER TABLE d.p ADD PARTITION (dt = 'c')", "INSERT INTO d.p VALUES (4, 'w', 'c')")
        expect(a.sql("SELECT id FROM d.p WHERE dt = 'c'") == [(4,)], "it has a row now")
        for statement in ("ADD PARTITION (dt = 'a')", "DROP PARTITION (dt = 'a')", "DROP PARTITION (dt = 'c')"):
            try:
                a.sql(f"ALTER TABLE d.p {statement}")
            except pymysql.err.Error as e:
                expect("s3://faults/parquet/dt=" in str(e), f"{statement}: {e}")
            else:
                raise AssertionError(f"{statement} did not fail")
        # Other writers spell names of columns as they like.
        bucket.put(port, "spelled/Dt=x%20y/f", b"7\x01s\n")
        a.sql(f"CREATE EXTERNAL TABLE d.w (id INT, name STRING) PARTITIONED BY (dt STRING) LOCATION 's3://faults/spelled' TBLPROPERTIES ({own})",
              "ALTER TABLE d.w ADD IF NOT EXISTS PARTITION (dt = 'x y')", "ALTER TABLE d.w ADD PARTITION (dt = 'z')")
        bucket.put(port, "spelled/DT=z/f", b"8\x01s\n")
        expect(a.sql("SELECT dt, id FROM d.w ORDER BY id") == [("x y", 7), ("z", 8)], "spelled by others")
        a.sql("ALTER TABLE d.p DROP PARTITION (dt = 'b')")
        expect(a.sql("SELECT sum(id) FROM d.p") == [(5,)], "files stay where they are")
        # A change is seen by the next statement: the tag is another.
        bucket.put(port, "in/b.csv", b"id,name\n100000,last\n100001,more\n")
        expect(a.one("SELECT count(*) FROM 's3://faults/in/*.csv'") == 100_002, "fresh")
        # Put again with the same bytes, a file is the same: what is cached of it counts, and the rest is read.
        bucket.put(port, "again/a.csv", csv.encode())
        a.sql("SELECT * FROM 's3://faults/again/a.csv' LIMIT 1")
        time.sleep(1.1)
        bucket.put(port, "again/a.csv", csv.encode())
        expect(a.one("SELECT count(*) FROM 's3://faults/again/a.csv'") == 100_000, "put again")
        before = a.io()
        a.one("SELECT sum(id) FROM 's3://faults/in/a.csv'")
        after = a.io()
        expect(after["request_bytes"] - before["request_bytes"] < 10_000, "external files are cached")
        a.sql("SELECT * FROM 's3://faults/in/a.csv' LIMIT 1")
        # Queries begin on the listing that is known, and answer by the one that is.
        partition, count = stage.gateway.directory / bucket.BUCKET / "hive" / "dt=2024-01-03", {}
        for i in range(24):
            name = f"part-{i % 4}"
            if i % 5 == 4 and name in count:
                (partition / name).unlink()
                del count[name]
            else:
                count[name] = 1 + i
                bucket.put(port, f"hive/dt=2024-01-03/{name}", "".join(f"{j}\x01y\n" for j in range(1 + i)).encode())
            found = a.sql("SELECT count(*), max(id) FROM d.h WHERE dt = '2024-01-03'")
            expect(found == [(sum(count.values()), max(count.values()) - 1)], f"{found} of {count}")
            if i % 3 == 0:
                expect(a.one("SELECT count(*) FROM d.h") == 8 + sum(count.values()), f"{i}")
        a.sql("SET GLOBAL query_freshness_tolerance_ms = 60000")
        before = a.io()["lists"]
        for _ in range(5):
            expect(a.one("SELECT count(*) FROM d.h") == 8 + sum(count.values()), "as listed")
        expect(a.io()["lists"] - before <= 2, "who allows it does not list")
        for i, statement in enumerate(("REFRESH TABLE d.h", "REFRESH CATALOG internal", "SYNC")):
            bucket.put(port, f"hive/dt=2024-02-0{1 + i}/part-0", b"1\x01y\n")
            a.sql(statement)
            expect(a.one("SELECT count(*) FROM d.h WHERE dt >= '2024-02-01'") == 1 + i, f"{statement} lists anew")
        a.sql("SET GLOBAL query_freshness_tolerance_ms = -1")
        # What EXPLAIN ANALYZE says of requests are all, also those of the plan.
        bucket.put(port, "cold/x.csv", csv.encode())
        began = a.io()
        shown = "\n".join(line for (line,) in a.sql(
            "EXPLAIN ANALYZE SELECT sum(id) FROM files('path' = 's3://faults/cold/x.csv', 'format' = 'csv', 'header' = 'true')"))
        asked = a.io()["requests"] - began["requests"]
        expect(asked > 0 and f"by {asked} requests" in shown, f"{asked} requests: {shown}")
        # Each scan says what the store and the cache did for it.
        bucket.put(port, "cold/y.csv", csv.split("\n", 1)[1].encode())
        shown = "\n".join(line for (line,) in a.sql(
            "EXPLAIN ANALYZE SELECT count(*) FROM 's3://faults/cold/x.csv' x JOIN files('path' = 's3://faults/cold/y.csv', "
            "'format' = 'csv', 'csv_schema' = 'id:int;name:string') y ON x.id = y.id"))
        scans = [dict(re.findall(r"(\w+)=(\d+)", line)) for line in shown.splitlines() if "TextScanExec:" in line]
        expect(sorted(int(scan["store_requests"]) > 0 for scan in scans) == [False, True], shown)
        expect(all(int(scan["cache_hits"]) > 0 for scan in scans if scan["store_requests"] == "0"), shown)
        # Keys of one's own, and the place of AWS's variables.
        environment = {k: v for k, v in bucket.environment(port).items() if k not in ("DIPPER_S3_ENDPOINT", "AWS_ACCESS_KEY_ID",
                                                                                     "AWS_SECRET_ACCESS_KEY")}
        environment["AWS_ENDPOINT_URL"] = f"http://127.0.0.1:{port}"
        ran = subprocess.run(
            [OPTIONS.server, "sql", "SELECT count(*) AS n FROM files('path' = 's3://faults/in/b.csv', 'format' = 'csv', "
             f"'aws.s3.access_key' = '{bucket.KEY}', 'aws.s3.secret_key' = '{bucket.SECRET}')"],
            capture_output=True, text=True, env=environment, timeout=60)
        expect(ran.returncode == 0 and ran.stdout.split()[0] == "n", ran.stdout + ran.stderr)
        for statement, words in [
            ("SELECT * FROM 's3://faults/none/x.csv'", "s3://faults/none/x.csv"),
            ("SELECT * FROM 's3://no-such-bucket/x.csv'", "no-such-bucket"),
            ("SELECT * FROM files('path' = 's3://b/x', 'aws.s3.endpoint' = 'http://169.254.169.254')", "link-local"),
            (f"SELECT * FROM files('path' = 's3://faults/in/a.csv', 'aws.s3.endpoint' = 'http://127.0.0.1:{port}', "
             f"'aws.s3.access_key' = '{bucket.KEY}', 'aws.s3.secret_key' = 'wrong')", "refuses"),
            ("SELECT * FROM files('path' = 's3://faults/in/a.csv', 'aws.s3.region' = 'elsewhere-1')", "AuthorizationHeaderMalformed"),
        ]:
            fails(a, statement, words)
        # A footer that is longer than its file is one error, which names the file.
        bucket.put(port, "in/odd.parquet", b"PAR1 nonsense PAR1")
        fails(a, "SELECT * FROM 's3://faults/in/odd.parquet'", "'s3://faults/in/odd.parquet' cannot be read as Parquet")
        # A table may keep its files out of the cache.
        bucket.put(port, "plain/part-0", b"".join(b"%d\x01y\n" % i for i in range(1000)))
        a.sql("CREATE EXTERNAL TABLE d.plain (id INT, s STRING) STORED AS TEXTFILE LOCATION 's3://faults/plain' "
              "TBLPROPERTIES ('datacache.enable' = 'false')")
        before = a.io()
        for _ in range(2):
            expect(a.one("SELECT sum(id) FROM d.plain") == 499_500, "read")
        after = a.io()
        expect(after["fill_bytes"] == before["fill_bytes"], f"{before} {after}")
        expect(after["request_bytes"] - before["request_bytes"] >= 2 * 5_890, f"{before} {after}")
        warned = a.sql("CACHE SELECT * FROM d.plain", "SHOW WARNINGS")
        expect(len(warned) == 1 and "nothing went through the data cache" in warned[0][2], warned)
        fails(a, "CREATE EXTERNAL TABLE d.odd (id INT) STORED AS TEXTFILE LOCATION 's3://faults/plain' "
                 "TBLPROPERTIES ('datacache.enable' = 'perhaps')", "expected true or false")
        # Keys of AWS's shared files.
        home = stage.directory / "home"
        (home / ".aws").mkdir(parents=True)
        keys = f"aws_access_key_id = {bucket.KEY}\naws_secret_access_key = {bucket.SECRET}"
        (home / ".aws/credentials").write_text(f"[lake]\n{keys}\n")
        environment |= {"HOME": str(home), "XDG_CACHE_HOME": str(home)}
        for profile, words in (("lake", "100000"), ("nobody", "profile 'nobody' of '")):
            ran = subprocess.run(
                [OPTIONS.server, "sql", "SELECT max(id) AS n FROM 's3://faults/in/b.csv' WHERE id < 100001"],
                capture_output=True, text=True, env={**environment, "AWS_PROFILE": profile}, timeout=60)
            expect(words in (ran.stdout if profile == "lake" else ran.stderr), ran.stdout + ran.stderr)
            expect((ran.returncode == 0) == (profile == "lake"), ran.stdout + ran.stderr)
        # Who has keys of his own needs no profile.
        ran = subprocess.run(
            [OPTIONS.server, "sql", "SELECT count(*) AS n FROM files('path' = 's3://faults/in/b.csv', 'format' = 'csv', "
             f"'aws.s3.access_key' = '{bucket.KEY}', 'aws.s3.secret_key' = '{bucket.SECRET}')"],
            capture_output=True, text=True, env={**environment, "AWS_PROFILE": "nobody"}, timeout=60)
        expect(ran.returncode == 0 and ran.stdout.split()[0] == "n", ran.stdout + ran.stderr)


@test
def a_file_that_is_gone_is_listed_again():
    with Stage() as stage:
        a = stage.node("a", cache=False)
        directory = stage.gateway.directory / bucket.BUCKET / "swap"
        directory.mkdir()
        # Long enough that they are read by several requests; always one file, whose name and content change together.
        text = lambda n: f"{n},x\n" * 200_000  # noqa: E731
        (directory / "0.csv").write_text(text(0))
        stop, swaps = threading.Event(), 0

        def swap():
            nonlocal swaps
            while not stop.is_set():
                new = directory / f".{swaps + 1}"
                new.write_text(text(swaps + 1))
                (directory / f"{swaps}.csv").unlink()
                new.rename(directory / f"{swaps + 1}.csv")
                swaps += 1
                time.sleep(0.15)

        swapping = threading.Thread(target=swap)
        swapping.start()
        answered = failed = 0
        try:
            end = time.time() + 8
            while time.time() < end:
                try:
                    rows = a.sql("SELECT min(c1), max(c1), count(*) FROM files('path' = 's3://faults/swap/*.csv', "
                                 "'format' = 'csv', 'header' = 'false')")
                    answered += 1
                except pymysql.err.Error as e:
                    # Between the names, or gone twice in one statement.
                    expect("no files match" in str(e) or "was deleted" in str(e) or "changed while" in str(e), e)
                    failed += 1
                    continue
                expect(rows[0][0] == rows[0][1] and rows[0][2] == 200_000, f"one state of the files: {rows}")
        finally:
            stop.set()
            swapping.join()
        print(f"  {answered} answers, {failed} errors, {swaps} swaps")
        expect(answered > failed, "most statements find the file where it is now")


@test
def rows_go_out_to_a_bucket():
    def lying(stage, prefix):
        return sorted(str(f.relative_to(stage.gateway.directory / bucket.BUCKET)) for f in
                      (stage.gateway.directory / bucket.BUCKET / prefix).rglob("*") if f.is_file())

    with Stage() as stage:
        port = stage.gateway.port
        a = stage.node("a")
        make(a, "t", rows=300_000)
        truth = a.sql("SELECT count(*), sum(k), sum(v) FROM d.t")
        own = f"'aws.s3.endpoint' = 'http://127.0.0.1:{port}', 'aws.s3.access_key' = '{bucket.KEY}', 'aws.s3.secret_key' = '{bucket.SECRET}'"
        # One put for a short object, several parts for a long one.
        a.sql("COPY (SELECT * FROM d.t LIMIT 10) TO 's3://faults/out/short.csv'")
        expect(a.one("SELECT count(*) FROM 's3://faults/out/short.csv'") == 10, "short")
        a.sql("COPY (SELECT t.k, t.v, repeat(t.s, 4) AS s FROM d.t) TO 's3://faults/out/long.csv'")
        expect((stage.gateway.directory / bucket.BUCKET / "out/long.csv").stat().st_size > 20 << 20, "more than a part")
        expect(a.sql("SELECT count(*), sum(k), sum(v) FROM 's3://faults/out/long.csv'") == truth, "long")
        a.sql("COPY (SELECT * FROM d.t) TO 's3://faults/out/long.csv'")
        expect(a.sql("SELECT count(*), sum(k), sum(v) FROM 's3://faults/out/long.csv'") == truth, "replaced")
        a.sql(f"INSERT INTO FILES('path' = 's3://faults/files/', 'format' = 'parquet', {own}) SELECT * FROM d.t")
        expect(a.sql("SELECT count(*), sum(k), sum(v) FROM 's3://faults/files/*.parquet'") == truth, "FILES")
        row = a.sql(f"SELECT * FROM d.t INTO OUTFILE 's3://faults/files2/x_' FORMAT AS parquet PROPERTIES ({own})")[0]
        expect(row[1] == 300_000 and str(row[3]).startswith("s3://faults/files2/x_"), row)
        a.sql("SELECT k, v FROM d.t LIMIT 3 INTO OUTFILE 's3://faults/files2/mysql.txt'")
        try:
            a.sql("SELECT k FROM d.t LIMIT 3 INTO OUTFILE 's3://faults/files2/mysql.txt'")
            raise AssertionError("an existing file was written over")
        except pymysql.err.Error as e:
            expect(e.args[0] == 1086, e)
        # Hive tables, with partitions that the rows say.
        a.sql("CREATE EXTERNAL TABLE d.h (k BIGINT, v BIGINT, s STRING) PARTITIONED BY (dt STRING) STORED AS TEXTFILE "
              f"LOCATION 's3://faults/out-hive' TBLPROPERTIES ({own})")
        a.sql("INSERT INTO d.h SELECT k, v, s, if(k % 3 = 0, 'a b', 'c') FROM d.t")
        expect(a.sql("SELECT count(*), sum(k), sum(v) FROM d.h") == truth, "inserted")
        a.sql("INSERT OVERWRITE TABLE d.h PARTITION (dt = 'c') SELECT k, v, s FROM d.t WHERE k < 7")
        expect(a.sql("SELECT dt, count(*) FROM d.h GROUP BY dt ORDER BY dt") == [("a b", 100_000), ("c", 7)], "overwritten")
        a.sql("INSERT INTO d.h SELECT * FROM d.h WHERE dt = 'c'")
        expect(a.one("SELECT count(*) FROM d.h WHERE dt = 'c'") == 14, "its own rows are not seen")
        before = lying(stage, "out-hive")
        expect(not any("/." in f for f in before), before)
        # What fails leaves nothing.
        bad = "9223372036854775806 + if(k = 299999, 5, 1)"
        for statement in [f"INSERT INTO d.h SELECT k, {bad}, repeat(s, 4), 'd' FROM d.t",
                          f"COPY (SELECT {bad}, repeat(s, 8) FROM d.t) TO 's3://faults/out-hive/no.csv'"]:
            try:
                a.sql(statement)
                raise AssertionError(f"{statement} did not fail")
            except pymysql.err.Error:
                pass
        expect(lying(stage, "out-hive") == before, f"{lying(stage, 'out-hive')}, before {before}")


@test
def tables_are_in_their_volumes():
    with Stage() as stage:
        port = stage.gateway.port
        a = stage.node("a")
        a.sql("CREATE STORAGE VOLUME cold TYPE = S3 LOCATIONS = ('s3://faults/cold') COMMENT 'far away' PROPERTIES "
              f"('aws.s3.endpoint' = 'http://127.0.0.1:{port}', 'aws.s3.access_key' = '{bucket.KEY}', "
              f"'aws.s3.secret_key' = '{bucket.SECRET}')")
        expect([r[0] for r in a.sql("SHOW STORAGE VOLUMES")] == ["builtin_storage_volume", "cold"], "listed")
        described = str(a.sql("DESC STORAGE VOLUME cold"))
        expect(bucket.SECRET not in described and bucket.KEY not in described and "s3://faults/cold" in described, described)
        make(a, "t", rows=1000, properties="PROPERTIES ('storage_volume' = 'cold')")
        make(a, "here", rows=10)
        there = list((stage.gateway.directory / bucket.BUCKET / "cold").glob("*/t/*/d/*.parquet"))
        expect(len(there) >= 1, "the data is in the volume, in a directory that no other database's volume has")
        b = stage.node("b")
        expect(b.one("SELECT count(*) FROM d.t") == 1000 and b.one("SELECT count(*) FROM d.here") == 10, "another node")
        a.sql("SET cold AS DEFAULT STORAGE VOLUME")
        make(b, "u", rows=5)
        expect(a.one("SELECT count(*) FROM d.u") == 5, "made in the default volume")
        for statement, words in [
            ("DROP STORAGE VOLUME cold", "default"),
            ("CREATE TABLE d.x (k INT) DUPLICATE KEY(k) DISTRIBUTED BY HASH(k) BUCKETS 1 PROPERTIES ('storage_volume' = 'cool')", "cool"),
            ("ALTER TABLE d.t SET ('storage_volume' = 'builtin_storage_volume')", "storage_volume"),
            ("DROP STORAGE VOLUME builtin_storage_volume", "neither altered nor dropped"),
            ("ALTER STORAGE VOLUME builtin_storage_volume SET ('aws.s3.region' = 'r')", "neither altered nor dropped"),
            ("CREATE STORAGE VOLUME odd TYPE = S3 LOCATIONS = ('s3://faults/odd') PROPERTIES ('aws.s3.endpoint' = "
             "'http://127.0.0.1:99999')", "no URL"),
            ("ALTER STORAGE VOLUME cold SET ('aws.s3.endpoint' = 'http://127.0.0.1:99999')", "no URL"),
        ]:
            fails(a, statement, words)
        a.sql("CREATE DATABASE far PROPERTIES ('storage_volume' = 'cold')", "SET builtin_storage_volume AS DEFAULT STORAGE VOLUME")
        a.sql("DROP TABLE d.u", "DROP TABLE d.t")
        fails(a, "DROP STORAGE VOLUME cold", "ALTER DATABASE far")
        a.sql("DROP DATABASE far")
        a.sql("DROP STORAGE VOLUME cold")
        checked = subprocess.run([OPTIONS.server, "check", "-q", f"s3://{bucket.BUCKET}/db"], capture_output=True, text=True,
                                 env=bucket.environment(port))
        expect(checked.returncode == 0, checked.stdout + checked.stderr)
        checked = subprocess.run([OPTIONS.server, "check", "-q", f"s3://{bucket.BUCKET}/typo"], capture_output=True, text=True,
                                 env=bucket.environment(port))
        expect(checked.returncode == 1 and "there is no database here" in checked.stdout, checked.stdout + checked.stderr)


@test
def volumes_that_change_are_followed():
    with Stage() as stage:
        def own(port, secret=bucket.SECRET):
            return (f"('aws.s3.endpoint' = 'http://127.0.0.1:{port}', 'aws.s3.access_key' = '{bucket.KEY}', "
                    f"'aws.s3.secret_key' = '{secret}')")

        other = bucket.Proxy(stage.gateway.port, bucket.Faults())
        a, b = stage.node("a"), stage.node("b")
        a.sql(f"CREATE STORAGE VOLUME cold TYPE = S3 LOCATIONS = ('s3://faults/cold') PROPERTIES {own(other.port)}")
        make(a, "t", rows=10, properties="PROPERTIES ('storage_volume' = 'cold')")
        make(a, "here", rows=3)
        expect(b.one("SELECT count(*) FROM d.t") == 10, "another node")
        # Another endpoint, while the old one goes away.
        a.sql(f"ALTER STORAGE VOLUME cold SET {own(stage.gateway.port)}")
        other.stop()
        for i, node in enumerate((a, b)):
            began = time.time()
            node.sql(f"INSERT INTO d.t VALUES ({1000 + i}, 1, 'x')")
            expect(node.one("SELECT count(*) FROM d.t") == 11 + i, "written and read at the new place")
            expect(time.time() - began < 10, f"{time.time() - began:.1f} s at the new place")
        # Keys that do not fit are refused: at once where they were set; another node's queries may begin on what it knew.
        a.sql("ALTER STORAGE VOLUME cold SET ('aws.s3.secret_key' = 'revoked')")
        for node, tries in ((a, 1), (b, 5)):
            for left in reversed(range(tries)):
                try:
                    node.sql("SELECT * FROM d.t")
                    expect(left > 0, "read by a key that was taken back")
                    time.sleep(0.2)
                except pymysql.err.Error as e:
                    expect("403" in str(e), e)
                    break
        # Others are told of, and what cannot be reached says why.
        told = a.sql("SELECT table_name, table_rows, table_comment FROM information_schema.tables WHERE table_schema = 'd'"
                     " ORDER BY table_name")
        status = a.sql("SHOW TABLE STATUS FROM d")
        expect([row[:2] for row in told] == [("here", 3), ("t", None)] and "storage volume 'cold'" in told[1][2], told)
        expect([(row[0], row[4]) for row in status] == [row[:2] for row in told] and "storage volume 'cold'" in status[1][17], status)
        expect(a.one("SELECT count(*) FROM information_schema.columns WHERE table_schema = 'd'") == 3, "columns of the other")
        for table in ("statistics", "partitions", "key_column_usage"):
            a.sql(f"SELECT * FROM information_schema.{table} WHERE table_schema = 'd'")
        try:
            a.sql("SELECT * FROM d.t")
            raise AssertionError("read by a key that was taken back")
        except pymysql.err.Error as e:
            expect("storage volume 'cold'" in str(e), e)
        a.sql("DROP TABLE d.here")
        # A table is dropped whether or not its rows can be reached.
        connection = pymysql.connect(host="127.0.0.1", port=b.mysql, user="root", autocommit=True)
        with connection.cursor() as cursor:
            cursor.execute("DROP TABLE d.t")
            cursor.execute("SHOW WARNINGS")
            warned = cursor.fetchall()
        connection.close()
        expect(len(warned) == 1 and "its rows remain in storage volume 'cold'" in warned[0][2], warned)
        expect(a.sql("SHOW TABLES FROM d") == [], "dropped")


@test
def a_wrong_endpoint_is_told_soon():
    # Resolvers take their time to say that there is no such name.
    nobody, none = f"http://127.0.0.1:{free_port()}", "http://127.0.0.1:99999"
    for endpoint, most in ((nobody, 10), (none, 10), ("http://nowhere.invalid:9000", 40)):
        environment = {**bucket.environment(1), "DIPPER_S3_ENDPOINT": endpoint}
        data = f"s3://{bucket.BUCKET}/db"
        ports = ["--mysql-port", str(free_port()), "--http-port", str(free_port())]
        for command in (["server", "--data", data, *ports], ["check", data]):
            began = time.time()
            ended = subprocess.run([OPTIONS.server, *command], capture_output=True, text=True, env=environment, timeout=60)
            expect(ended.returncode != 0 and endpoint in ended.stderr, ended.stdout + ended.stderr)
            expect(time.time() - began < most, f"{command[0]}: {time.time() - began:.1f} s")


@test
def outages_are_waited_for():
    faults = bucket.Faults(OPTIONS.seed)
    with Stage(faults) as stage:
        a = stage.node("a")
        make(a, "t", rows=10)
        faults.shares = {"slow_down": 1.0}
        threading.Timer(8, lambda: setattr(faults, "shares", {})).start()
        began = time.time()
        answer = a.load("t", b"1,1,x\n2,2,y\n")
        expect(answer["Status"] == "Success", answer)
        expect(7 < time.time() - began < 60, f"it took {time.time() - began:.1f} s")
        expect(a.one("SELECT count(*) FROM d.t") == 12, "loaded")
        # A bucket that is gone is waited for, for 20 seconds in all, and then no more while it is gone.
        stage.proxy.stop()
        for least, most in ((15, 50), (0, 5)):
            began = time.time()
            fails(a, "SELECT count(*) FROM d.t", "Error performing")
            expect(least < time.time() - began < most, f"it took {time.time() - began:.1f} s")
        stage.proxy = bucket.Proxy(stage.gateway.port, faults, port=stage.port)
        expect(a.one("SELECT count(*) FROM d.t") == 12, "there again")


@test
def faults_cost_time_only():
    shares = dict.fromkeys(["error_500", "slow_down", "reset_before", "lost_answer", "short_body"], 0.02)
    faults = bucket.Faults(OPTIONS.seed, conflict=0.05, slow_body=0.01, hang=0.002, **shares)
    with Stage(faults) as stage:
        a = stage.node("a")
        make(a, "t")
        make(a, "u", keys="UNIQUE KEY(k)")
        loaded = 0
        for i in range(OPTIONS.loads):
            answer = a.load("t", "".join(f"{i * 100 + j},{i},x\n" for j in range(100)).encode(), label=f"t-{i}")
            expect(answer["Status"] in ("Success", "Publish Timeout", "Unknown", "Fail"), answer)
            if answer["Status"] != "Success":
                print("  ", answer["Status"], answer["Message"])
                again = a.load("t", "".join(f"{i * 100 + j},{i},x\n" for j in range(100)).encode(), label=f"t-{i}")
                expect(again["Status"] in ("Success", "Label Already Exists"), again)
            loaded += 1
            if i % 5 == 0:
                answer = a.load("u", "".join(f"{j},{i},y\n" for j in range(50)).encode())
                expect(answer["Status"] in ("Success", "Unknown", "Fail"), answer)
            if i % 10 == 9:
                rows = a.sql("SELECT count(*), count(DISTINCT k), sum(v) FROM d.t")[0]
                expect(rows[0] == rows[1] == loaded * 100, f"after {loaded} loads: {rows}")
                expect(a.sql("SELECT count(*), count(DISTINCT k) FROM d.u") == [(50, 50)], "UNIQUE")
        # Loads at once share commits, and the store fails where one of their labels is taken: each is loaded once all the same.
        make(a, "w")

        def labelled(i):
            body = "".join(f"{i * 10 + j},{i},z\n" for j in range(10)).encode()
            return [a.load("w", body, label=f"w-{i}") for _ in range(3)]

        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            answers = list(pool.map(labelled, range(160)))
        expect(all(one[-1]["Status"] in ("Success", "Label Already Exists") for one in answers), answers)
        expect(a.sql("SELECT count(*), count(DISTINCT k) FROM d.w") == [(1600, 1600)], "labels at once")
        shared = len({one["TxnId"] for three in answers for one in three if one["Status"] == "Success"})
        print(f"  {loaded} loads, 160 at once in {shared} commits; requests {faults.requests}; injected {faults.injected}")
        checked = subprocess.run([OPTIONS.server, "check", "-q", f"s3://{bucket.BUCKET}/db"], capture_output=True, text=True,
                                 env=bucket.environment(stage.gateway.port))
        expect(checked.returncode == 0, checked.stdout + checked.stderr)


@test
def what_comes_damaged_is_asked_for_once_more_and_never_kept():
    faults = bucket.Faults(OPTIONS.seed)
    with Stage(faults) as stage:
        a = stage.node("a")
        make(a, "t", rows=200_000)
        own = f"'aws.s3.access_key' = '{bucket.KEY}', 'aws.s3.secret_key' = '{bucket.SECRET}'"
        a.sql(f"INSERT INTO FILES('path' = 's3://faults/files/', 'format' = 'parquet', {own}) SELECT * FROM d.t")
        query = "SELECT count(*), sum(k), sum(v), count(DISTINCT s) FROM {}"
        truth = a.sql(query.format("d.t"))
        a.stop()
        for source in ("d.t", "'s3://faults/files/*.parquet'"):
            # One wrong answer is no error, whatever it was for; the first may be for a footer, later ones are for pages.
            for answer in range(3):
                shutil.rmtree(a.cache)
                b = stage.node("a")
                if answer:
                    b.sql(f"SELECT max(k) FROM {source} WHERE k < 10")
                faults.damages_left = 1
                expect(b.sql(query.format(source)) == truth, f"{source}: {answer}")
                expect(faults.damages_left == 0, f"{source}: an answer was damaged")
                asked = b.io()["requests"]
                expect(b.sql(query.format(source)) == truth, f"{source}: and then")
                print(f"  {source}: {b.io()['requests'] - asked} GETs the next time")
                b.stop()
            # Damage that stays is an error which names the object, and is gone with the damage.
            shutil.rmtree(a.cache)
            b = stage.node("a")
            faults.damages_left = 1_000_000
            fails(b, query.format(source), ".parquet")
            faults.damages_left = 0
            expect(b.sql(query.format(source)) == truth, f"{source}: repaired")
            b.stop()
            b = stage.node("a")
            expect(b.sql(query.format(source)) == truth, f"{source}: also after a start")
            b.stop()


@test
def racing_writers_lose_nothing():
    """Two nodes publish into one table; one of them sleeps while the other makes checkpoints and frees versions."""
    with Stage() as stage:
        a, b = stage.node("a"), stage.node("b")
        make(a, "t")
        acknowledged, unclear, lock = set(), set(), threading.Lock()

        def writer(node, base):
            for i in range(OPTIONS.races):
                n = base + i
                try:
                    answer = node.load("t", f"{n},1,r\n".encode(), label=f"race-{n}")
                    status = answer["Status"]
                except (OSError, http.client.HTTPException, ValueError):
                    status = "Unknown"
                with lock:
                    (acknowledged if status == "Success" else unclear).add(n)

        threads = [threading.Thread(target=writer, args=(node, base))
                   for node, base in ((a, 0), (b, 100_000), (a, 200_000), (b, 300_000))]
        for t in threads:
            t.start()
        time.sleep(1)
        b.process.send_signal(signal.SIGSTOP)
        # Long enough for 64 versions, a checkpoint, and the end of what it replaces.
        end = time.time() + OPTIONS.sleep
        while time.time() < end and any(t.is_alive() for t in threads[::2]):
            time.sleep(0.2)
        b.process.send_signal(signal.SIGCONT)
        for t in threads:
            t.join()
        for node in (a, b):
            rows = [r[0] for r in node.sql("SELECT k FROM d.t")]
            expect(len(rows) == len(set(rows)), "no row is there twice")
            missing = acknowledged - set(rows)
            expect(not missing, f"acknowledged and lost: {sorted(missing)[:10]}")
            extra = set(rows) - acknowledged - unclear
            expect(not extra, f"rows that nobody loaded: {sorted(extra)[:10]}")
        print(f"  {len(acknowledged)} acknowledged, {len(unclear)} unclear")


def main():
    global OPTIONS
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", required=True)
    parser.add_argument("--only", default="", help="tests whose name holds this")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--loads", type=int, default=60, help="loads of the test with faults")
    parser.add_argument("--races", type=int, default=100, help="publishes of each of four writers")
    parser.add_argument("--sleep", type=float, default=20, help="seconds that a writer is stopped at most")
    OPTIONS = parser.parse_args()
    OPTIONS.server = os.path.abspath(OPTIONS.server)
    print(f"seed {OPTIONS.seed}")
    failed = 0
    for function in TESTS:
        if OPTIONS.only in function.__name__:
            began = time.time()
            try:
                function()
                print(f"ok      {function.__name__} ({time.time() - began:.1f} s)", flush=True)
            except (AssertionError, pymysql.err.Error) as e:
                failed += 1
                print(f"FAILED  {function.__name__}: {e!r}", flush=True)
    raise SystemExit(failed > 0)


if __name__ == "__main__":
    main()
