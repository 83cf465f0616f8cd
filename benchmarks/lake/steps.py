"""What the lake costs besides SSB: requests of small queries, Hive text, upserts, many loads."""

import random
import shutil
import subprocess
import tempfile
import threading
import time
import uuid
from pathlib import Path

from rig import BUCKET, Server

OFF = "enable_scan_datacache = false"


class Cold:
    """A server of its own with an empty cache; its tables' chains are read when it is handed out."""

    def __init__(self, rig, data, *settings, cache=None):
        self.cache = cache or Path(tempfile.mkdtemp(prefix="cache", dir=rig.dir))
        self.server = Server(rig, data, self.cache)
        for setting in settings:
            self.server.rows(f"SET {setting}")
        time.sleep(rig.args.ready)

    def __enter__(self):
        return self.server

    def __exit__(self, *_):
        self.server.stop()
        shutil.rmtree(self.cache, ignore_errors=True)


def asked(rig, server, sql):
    """A statement's seconds, and what the proxy counted."""
    rig.ask("reset")
    began = time.perf_counter()
    server.rows(sql)
    return time.perf_counter() - began, rig.ask("stats", "GET")


def requests(rig, data, query):
    """GETs of objects: LIMIT 1, COUNT(*), and a query's second run in its process and after a restart."""
    lines = ["| | GETs of data | listings | ms |", "|---|---|---|---|"]

    def line(what, found):
        lines.append(f"| {what} | {found[1]['gets']} | {found[1]['lists']} | {found[0] * 1e3:.0f} |")

    for what in ["SELECT * FROM ssb.lineorder LIMIT 1", "SELECT COUNT(*) FROM ssb.lineorder"]:
        with Cold(rig, data) as server:
            line(f"`{what}`, cold", asked(rig, server, what))
    cache = Path(tempfile.mkdtemp(prefix="cache", dir=rig.dir))
    first = Cold(rig, data, "populate_datacache_mode = 'always'", cache=cache)
    first.server.rows("USE ssb")
    line("Q2.1, first run", asked(rig, first.server, query))
    time.sleep(3)
    line("Q2.1, second run", asked(rig, first.server, query))
    first.server.stop()
    with Cold(rig, data, cache=cache) as server:
        server.rows("USE ssb")
        line("Q2.1, first run of another process on that cache", asked(rig, server, query))
    return lines


TEXT = {
    "`SELECT * FROM t ORDER BY 1 LIMIT 1`": "SELECT * FROM lake.text ORDER BY 1 LIMIT 1",
    "`SELECT * FROM t LIMIT 1`": "SELECT * FROM lake.text LIMIT 1",
    "`SELECT COUNT(*) FROM t`": "SELECT COUNT(*) FROM lake.text",
}


def text(rig, local, columns, size):
    """Three queries over Hive text of page views with a partition column: in the bucket without and with the cache, and on
    local disk."""
    bucket, disk = rig.s3_dir / BUCKET / "text", rig.dir / "text"
    if not disk.exists():
        disk.mkdir()
        subprocess.run([rig.args.generator, "hive", "--bytes", str(size), "--out", str(disk / "dt=2024-01-01")], check=True)
    if not bucket.exists():
        rig.put(disk, f"{BUCKET}/text")
    ddl = (
        "CREATE DATABASE IF NOT EXISTS lake; DROP TABLE IF EXISTS lake.text; CREATE EXTERNAL TABLE lake.text ({}) "
        "PARTITIONED BY (dt STRING) ROW FORMAT DELIMITED STORED AS TEXTFILE LOCATION '{}'"
    )
    found = {}
    ways = {
        "S3, cache off": (f"s3://{BUCKET}/text", [OFF], True),
        "S3, cached": (f"s3://{BUCKET}/text", ["populate_datacache_mode = 'always'"], False),
        "local": (f"file://{disk}", [], False),
    }
    for way, (location, settings, cold) in ways.items():
        for name, sql in TEXT.items():
            times, counts = [], None
            cache = Path(tempfile.mkdtemp(prefix="cache", dir=rig.dir))
            flags = ["--s3-endpoint", f"http://127.0.0.1:{rig.port}", "--cache-dir", str(cache), "--allow-dir", str(disk)]
            server = Server(rig, str(local), None, *flags)
            for statement in ddl.format(columns, location).split(";"):
                server.rows(statement)
            for setting in settings:
                server.rows(f"SET {setting}")
            if not cold:
                server.rows(sql)
                time.sleep(3)
            for _ in range(3):
                took, stats = asked(rig, server, sql)
                times.append(took)
                counts = counts or (stats["gets"], stats["bytes_down"])
            server.stop()
            shutil.rmtree(cache, ignore_errors=True)
            found[way, name] = (min(times), *counts)
    heads = [f"Hive text, {size / 1e9:.2f} GB in one partition, least of 3", *ways, "GETs, MB (cache off)"]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for name in TEXT:
        cells = [f"{found[way, name][0] * 1e3:.0f} ms" for way in ways]
        off = found["S3, cache off", name]
        lines.append(f"| {name} | {' | '.join(cells)} | {off[1]}, {off[2] / 1e6:.1f} |")
    return lines


def upsert(rig, rows, keys=20_000):
    """Random keys into a UNIQUE table, by a server that has read nothing of it."""
    data = f"s3://{BUCKET}/upsert"
    if not (rig.s3_dir / BUCKET / "upsert").exists():
        rig.ask("fast")
        with Cold(rig, data) as server:
            server.rows("CREATE DATABASE u")
            server.rows("CREATE TABLE u.t (k BIGINT NOT NULL, a INT, b VARCHAR(32)) UNIQUE KEY (k) "
                        "DISTRIBUTED BY HASH(k) BUCKETS 1")  # fmt: skip
            server.rows(f"INSERT INTO u.t SELECT value, value % 1000, md5(value) FROM generate_series(1, {rows}) s")
            server.settle(rig.args.settle)
        rig.ask("slow")
    chosen = random.Random(7).sample(range(1, rows + 1), keys)
    body = "".join(f"{k}\t{k % 7}\tnew\n" for k in chosen).encode()
    with Cold(rig, data) as server:
        rig.ask("reset")
        began = time.perf_counter()
        server.load("u.t", body)
        took, stats = time.perf_counter() - began, rig.ask("stats", "GET")
        count = server.rows("SELECT COUNT(*) FROM u.t")[0][0]
    if count != rows:
        raise SystemExit(f"the table has {count} rows after the upsert, expected {rows}")
    return [
        f"- {keys:,} random keys into a UNIQUE table of {rows:,} rows, cold: {took:.1f} s, {stats['gets']} GETs of "
        f"{stats['bytes_down'] / 1e6:.1f} MB, {stats['lists']} listings, {stats['puts']} PUTs"
    ]


def loads(rig, seconds=20, rate=20, clients=32):
    """So many loads a second of 100 rows: PUTs a second, latency from when each was due."""
    lines = []
    for way in ["without labels (group commit)", "each with a label of its own"]:
        headers = (lambda: [f"label: {uuid.uuid4()}"]) if "label of" in way else (lambda: [])
        with Cold(rig, f"s3://{BUCKET}/loads-{time.time_ns()}") as server:
            server.rows("CREATE DATABASE u")
            server.rows("CREATE TABLE u.t (k BIGINT NOT NULL, a INT) DUPLICATE KEY (k) DISTRIBUTED BY HASH(k) BUCKETS 1")
            body = "".join(f"{k}\t{k}\n" for k in range(100)).encode()
            server.load("u.t", body, *headers())
            rig.ask("reset")
            began, late, lock, queue = time.perf_counter(), [], threading.Lock(), iter(range(seconds * rate))

            def client():
                while True:
                    with lock:
                        number = next(queue, None)
                    if number is None:
                        return
                    due = began + number / rate
                    time.sleep(max(0, due - time.perf_counter()))
                    server.load("u.t", body, *headers())
                    late.append(time.perf_counter() - due)

            threads = [threading.Thread(target=client) for _ in range(clients)]
            [t.start() for t in threads]
            [t.join() for t in threads]
            took, stats = time.perf_counter() - began, rig.ask("stats", "GET")
            late.sort()
            count = server.rows("SELECT COUNT(*) FROM u.t")[0][0]
            if count != (len(late) + 1) * 100:
                raise SystemExit(f"{count} rows after {len(late)} loads")
            lines.append(
                f"- {rate} loads a second of 100 rows for {seconds} s, {way}: {stats['puts'] / took:.1f} PUTs "
                f"({stats['puts'] / len(late):.2f} a load), {stats['lists'] / took:.1f} listings and {stats['gets'] / took:.1f} GETs a second; p50 "
                f"{late[len(late) // 2] * 1e3:.0f} ms, p99 {late[len(late) * 99 // 100] * 1e3:.0f} ms"
            )
    return lines
