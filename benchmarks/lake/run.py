#!/usr/bin/env python3
"""Measures the Star Schema Benchmark over object storage: cold and cached, serial and parallel, and on local disk.

A real S3 server (versitygw) stands behind `lake-proxy`, which lets each answer wait for its first byte and limits each
connection and the link. Cold runs are a new server process with an empty cache directory each. Requests and bytes are the
proxy's counts. Beside them stands the least that a query can fetch: the chunks of its columns in row groups whose
`lo_orderdate` its filter on dates leaves. Answers of all columns, and of the peer, are compared."""

import argparse
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import pymysql

HERE = Path(__file__).resolve().parent
SSB = HERE.parent / "ssb"
TABLES = ["dates", "customer", "supplier", "part", "lineorder"]
KEYS = {"AWS_ACCESS_KEY_ID": "lake", "AWS_SECRET_ACCESS_KEY": "lakelake", "AWS_REGION": "us-east-1"}
BUCKET = "lake"
# Of each query: columns by table, and the order dates that its filters leave.
ALL_YEARS = (0, 99999999)
NEEDS = {
    "Q1.1": ({"lineorder": "orderdate discount quantity extendedprice", "dates": "datekey year"}, (19930101, 19931231)),
    "Q1.2": ({"lineorder": "orderdate discount quantity extendedprice", "dates": "datekey yearmonthnum"}, (19940101, 19940131)),
    "Q1.3": ({"lineorder": "orderdate discount quantity extendedprice", "dates": "datekey year weeknuminyear"}, (19940201, 19940228)),
}  # fmt: skip
for name in ["Q2.1", "Q2.2", "Q2.3"]:
    part = "partkey brand category" if name == "Q2.1" else "partkey brand"
    NEEDS[name] = ({"lineorder": "orderdate partkey suppkey revenue", "part": part, "supplier": "suppkey region", "dates": "datekey year"}, ALL_YEARS)  # fmt: skip
for name, place in [("Q3.1", "nation region"), ("Q3.2", "city nation"), ("Q3.3", "city"), ("Q3.4", "city")]:
    dates, years = ("datekey year yearmonth", (19971201, 19971231)) if name == "Q3.4" else ("datekey year", (19920101, 19971231))
    NEEDS[name] = ({"lineorder": "orderdate custkey suppkey revenue", "customer": "custkey " + place, "supplier": "suppkey " + place, "dates": dates}, years)  # fmt: skip
for name, customer, supplier, part in [("Q4.1", "region nation", "region", "mfgr"), ("Q4.2", "region", "region nation", "mfgr category"), ("Q4.3", "", "nation city", "category brand")]:
    years = ALL_YEARS if name == "Q4.1" else (19970101, 19981231)
    NEEDS[name] = ({"lineorder": "orderdate custkey suppkey partkey revenue supplycost", "customer": "custkey " + customer, "supplier": "suppkey " + supplier, "part": "partkey " + part, "dates": "datekey year"}, years)  # fmt: skip
PREFIX = {"lineorder": "lo_", "customer": "c_", "supplier": "s_", "part": "p_", "dates": "d_"}


def queries():
    """Names and texts."""
    found = []
    for block in (SSB / "queries.sql").read_text().split("-- Q")[1:]:
        name, text = block.split("\n", 1)
        found.append(("Q" + name.strip(), text.strip().rstrip(";")))
    return found


def wait_for(port, seconds=60):
    end = time.time() + seconds
    while time.time() < end:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.02)
    raise SystemExit(f"nothing listens on port {port} after {seconds} s")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Rig:
    def __init__(self, args):
        self.args = args
        self.dir = Path(args.dir).resolve()
        self.s3_dir = self.dir / "s3"
        (self.s3_dir / BUCKET).mkdir(parents=True, exist_ok=True)
        self.environment = dict(os.environ, **KEYS)
        self.gateway_port, self.port, self.control = free_port(), free_port(), free_port()
        gateway = [args.versitygw, "--access", KEYS["AWS_ACCESS_KEY_ID"], "--secret", KEYS["AWS_SECRET_ACCESS_KEY"],
                   "--port", f"127.0.0.1:{self.gateway_port}", "--quiet", "posix", str(self.s3_dir)]  # fmt: skip
        self.processes = [subprocess.Popen(gateway, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)]
        wait_for(self.gateway_port)
        proxy = [args.proxy, "--listen", f"127.0.0.1:{self.port}", "--control", f"127.0.0.1:{self.control}",
                 "--to", f"127.0.0.1:{self.gateway_port}"]  # fmt: skip
        self.processes.append(subprocess.Popen(proxy, stdout=subprocess.DEVNULL))
        wait_for(self.port)

    def ask(self, path, method="POST"):
        request = urllib.request.Request(f"http://127.0.0.1:{self.control}/{path}", method=method)
        return json.load(urllib.request.urlopen(request))

    def stop(self):
        for process in self.processes:
            process.terminate()
            process.wait()


class Server:
    """A dipper server of its own."""

    def __init__(self, rig, data, cache_dir):
        self.mysql, self.http = free_port(), free_port()
        command = [rig.args.dipper, "server", "--data", data, "--mysql-port", str(self.mysql), "--http-port", str(self.http)]
        if data.startswith("s3://"):
            command += ["--s3-endpoint", f"http://127.0.0.1:{rig.port}", "--cache-dir", str(cache_dir)]
        self.log = open(rig.dir / "dipper.log", "ab")
        self.process = subprocess.Popen(command, env=rig.environment, stdout=self.log, stderr=self.log)
        wait_for(self.mysql)
        self.connection = pymysql.connect(host="127.0.0.1", port=self.mysql, user="root", autocommit=True)

    def rows(self, sql):
        with self.connection.cursor() as cursor:
            cursor.execute(sql)
            return cursor.fetchall()

    def stop(self):
        self.connection.close()
        self.process.terminate()
        self.process.wait()
        self.log.close()


def load(rig, data):
    """Creates and fills the tables, unless they are there."""
    server = Server(rig, data, rig.dir / "cache-load")
    try:
        if server.rows("SHOW DATABASES LIKE 'ssb'"):
            return
        server.rows("CREATE DATABASE ssb")
        server.rows("USE ssb")
        ddl = (SSB / "create.sql").read_text().replace("BUCKETS 5", f"BUCKETS {rig.args.buckets}")
        for statement in ddl.split(";"):
            if statement.strip():
                server.rows(statement)
        for table in TABLES:
            # dbgen's lines end with a separator: the last field is nobody's column.
            names = [row[0] for row in server.rows(f"DESC {table}")]
            command = ["curl", "-sS", "--location-trusted", "-u", "root:", "-H", "column_separator:|", "-H", "Expect:",
                       "-H", "columns:" + ",".join(names + ["nothing"]), "-T", str(rig.dir / "raw" / f"{table}.tbl"),
                       f"http://127.0.0.1:{server.http}/api/ssb/{table}/_stream_load"]  # fmt: skip
            answer = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
            if answer["Status"] != "Success":
                raise SystemExit(f"{table}: {answer}")
            print(f"{data}: {table}: {answer['NumberLoadedRows']} rows", file=sys.stderr)
        # Merging goes on behind loads; measured is what it leaves.
        time.sleep(rig.args.settle)
    finally:
        server.stop()


def least(rig):
    """Bytes that each query must fetch at least, by footers of the objects."""
    import pyarrow.parquet as pq

    chunks = {}
    for path in (rig.s3_dir / BUCKET / "ssb" / "t").glob("*/d/*.parquet"):
        meta = pq.ParquetFile(path).metadata
        for g in range(meta.num_row_groups):
            group = meta.row_group(g)
            columns = {group.column(i).path_in_schema: group.column(i) for i in range(group.num_columns)}
            prefix = next(iter(columns)).split("_")[0] + "_"
            table = next(t for t, p in PREFIX.items() if p == prefix)
            dates = columns.get("lo_orderdate")
            bounds = (dates.statistics.min, dates.statistics.max) if dates else None
            sizes = {name: c.total_compressed_size for name, c in columns.items()}
            chunks.setdefault(table, []).append((bounds, sizes, path))
    found = {}
    for name, (needs, years) in NEEDS.items():
        total, files = 0, set()
        for table, columns in needs.items():
            for bounds, sizes, path in chunks.get(table, []):
                if bounds and (bounds[1] < years[0] or bounds[0] > years[1]):
                    continue
                files.add(path)
                total += sum(sizes[PREFIX[table] + c] for c in columns.split())
        found[name] = (total, len(files))
    return found


def timed(server, text):
    began = time.perf_counter()
    rows = server.rows(text)
    return time.perf_counter() - began, sorted(map(str, rows))


def column(rig, data, settings, cold, runs):
    """Each query's time, with requests and bytes of its first run."""
    found, server = {}, None
    for name, text in queries():
        if name not in rig.args.only:
            continue
        times, answer, counts = [], None, None
        for run in range(1 if cold and rig.args.quick else runs):
            if cold or server is None:
                if server:
                    server.stop()
                cache = Path(tempfile.mkdtemp(prefix="cache", dir=rig.dir))
                server = Server(rig, data, cache)
                server.rows("USE ssb")
                for setting in settings:
                    server.rows(f"SET {setting}")
            if not cold and run == 0:
                timed(server, text)
                time.sleep(1)  # Filling the cache goes on behind the query.
            rig.ask("reset")
            seconds, rows = timed(server, text)
            after = rig.ask("stats", "GET")
            times.append(seconds)
            counts = counts or (after["gets"], after["bytes_down"])
            if answer not in (None, rows):
                raise SystemExit(f"{name}: answers differ between runs")
            answer = rows
            if cold:
                server.stop()
                server = None
                shutil.rmtree(cache, ignore_errors=True)
        found[name] = (min(times), *counts, answer)
        print(f"  {name}: {min(times) * 1e3:.0f} ms, {counts[0]} GETs, {counts[1] / 1e6:.1f} MB", file=sys.stderr)
    if server:
        server.stop()
    return found


def peer(rig):
    """The same queries by ClickHouse's s3() over Parquet files of the same rows, a new process each."""
    parquet = rig.s3_dir / BUCKET / "parquet"
    if not parquet.exists():
        import duckdb

        parquet.mkdir()
        ddl = (SSB / "create.sql").read_text()
        for table in TABLES:
            body = ddl.split(f"`{table}` (", 1)[1].split("\n)", 1)[0]
            names = [line.split("`")[1] for line in body.splitlines() if "`" in line]
            types = {n: "VARCHAR" if "varchar" in line else "BIGINT" if "bigint" in line else "INTEGER"
                     for n, line in zip(names, [x for x in body.splitlines() if "`" in x])}  # fmt: skip
            duckdb.execute(
                f"COPY (SELECT * EXCLUDE nothing FROM read_csv('{rig.dir}/raw/{table}.tbl', delim='|', header=false, "
                f"columns={dict(types, nothing='VARCHAR')})) TO '{parquet}/{table}.parquet' (FORMAT parquet, COMPRESSION zstd)"
            )
    found = {}
    for name, text in queries():
        if name not in rig.args.only:
            continue
        times = []
        for _ in range(1 if rig.args.quick else 3):
            views = {
                t: f"CREATE VIEW {t} AS SELECT * FROM s3('http://127.0.0.1:{rig.port}/{BUCKET}/parquet/{t}.parquet', "
                f"'{KEYS['AWS_ACCESS_KEY_ID']}', '{KEYS['AWS_SECRET_ACCESS_KEY']}', 'Parquet')"
                for t in TABLES
            }
            script = (
                "import json, sys, time, chdb.session\n"
                "views, text = json.loads(sys.argv[1])\n"
                "s = chdb.session.Session()\n"
                "s.query('CREATE DATABASE d ENGINE = Atomic'); s.query('USE d')\n"
                "[s.query(v) for v in views]\n"
                "s.query('SELECT 1')\n"
                "t = time.perf_counter(); r = s.query(text, 'TSV').bytes(); t = time.perf_counter() - t\n"
                "print(json.dumps([t, r.decode()]))\n"
            )
            rig.ask("reset")
            arguments = [sys.executable, "-c", script, json.dumps([[views[t] for t in TABLES], text])]
            done = subprocess.run(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            if done.returncode:
                print(f"  {name}: {done.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
                break
            times.append(json.loads(done.stdout.strip().splitlines()[-1])[0])
        if times:
            counts = rig.ask("stats", "GET")
            found[name] = (min(times), counts["gets"], counts["bytes_down"])
            print(f"  {name}: {min(times) * 1e3:.0f} ms, {counts['gets']} GETs", file=sys.stderr)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dipper", required=True, help="the binary")
    parser.add_argument("--proxy", required=True, help="lake-proxy")
    parser.add_argument("--generator", required=True, help="dipper-gen")
    parser.add_argument("--versitygw", default=str(Path.home() / ".cache/dipper/bin/versitygw"))
    parser.add_argument("--dir", required=True, help="where data is kept between runs")
    parser.add_argument("--scale", type=float, default=4.0, help="0.59 GB of lineorder each")
    parser.add_argument("--buckets", type=int, default=1)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--cold-runs", type=int, default=3)
    parser.add_argument("--settle", type=float, default=60)
    parser.add_argument("--only", nargs="*", default=[name for name, _ in queries()])
    parser.add_argument("--quick", action="store_true", help="one cold run")
    parser.add_argument("--no-peer", action="store_true")
    args = parser.parse_args()
    raw = Path(args.dir) / "raw"
    if not raw.exists():
        raw.mkdir(parents=True)
        subprocess.run([args.generator, "ssb", "--scale", str(args.scale), "--out", str(raw)], check=True)
    rig = Rig(args)
    try:
        remote, local = f"s3://{BUCKET}/ssb", str(rig.dir / "local")
        rig.ask("fast")
        load(rig, remote)
        load(rig, local)
        rig.ask("slow")
        off = ["enable_scan_datacache = false"]
        serial = ["enable_lake_tablet_internal_parallel = false", "enable_tablet_internal_parallel = false"]
        parallel = ["tablet_internal_parallel_mode = 'force_split'"]
        columns = {
            "cold serial": (remote, off + serial, True, args.cold_runs),
            "cold parallel": (remote, off + parallel, True, args.cold_runs),
            "cached serial": (remote, serial, False, args.runs),
            "cached parallel": (remote, parallel, False, args.runs),
            "local serial": (local, serial, False, args.runs),
            "local parallel": (local, parallel, False, args.runs),
        }
        measured = {}
        for title, settings in columns.items():
            print(title, file=sys.stderr)
            measured[title] = column(rig, *settings)
        theirs = {}
        if not args.no_peer:
            print("ClickHouse s3() over Parquet", file=sys.stderr)
            theirs = peer(rig)
        report(args, measured, theirs, least(rig), rig.ask("stats", "GET")["cpu_seconds"])
    finally:
        rig.stop()


def report(args, measured, theirs, floor, proxy_cpu):
    titles = list(measured)
    for name in args.only:
        answers = {title: measured[title][name][3] for title in titles}
        if len({json.dumps(a) for a in answers.values()}) > 1:
            raise SystemExit(f"{name}: answers differ: {answers}")
    print("| query | " + " | ".join(titles) + " | ClickHouse | GETs | MB | least MB | bytes / least |")
    print("|---" * (len(titles) + 6) + "|")
    sums = dict.fromkeys(titles, 0.0)
    bound, peer_sum = 0.0, 0.0
    for name in args.only:
        _, gets, down, _ = measured["cold parallel"][name]
        least_bytes, files = floor[name]
        bound += measured["local parallel"][name][0] + least_bytes / 300e6 + 4 * 0.065
        cells = [f"{measured[t][name][0] * 1e3:.0f}" for t in titles]
        for t in titles:
            sums[t] += measured[t][name][0]
        other = theirs.get(name)
        peer_sum += other[0] if other else float("nan")
        share = max(down - (files * 64 << 10), 0) / max(least_bytes, 1)
        print(f"| {name} | {' | '.join(cells)} | {other[0] * 1e3 if other else float('nan'):.0f} | {gets} | {down / 1e6:.1f} | {least_bytes / 1e6:.1f} | {share:.2f} |")
    print(f"| sum | {' | '.join(f'{sums[t] * 1e3:.0f}' for t in titles)} | {peer_sum * 1e3:.0f} | | | | |")
    print(f"cold parallel / (local + least bytes / link + 4 first bytes): {sums['cold parallel'] / bound:.2f} (bar 1.25)")
    print(f"cold serial / cold parallel: {sums['cold serial'] / sums['cold parallel']:.1f} (bar 5)")
    print(f"cached parallel / local parallel: {sums['cached parallel'] / sums['local parallel']:.2f} (bar 1.10)")
    if theirs:
        print(f"cold parallel / ClickHouse: {sums['cold parallel'] / peer_sum:.2f} (bar 1)")
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores; the proxy took {proxy_cpu:.1f} CPU s in all; times in ms")


if __name__ == "__main__":
    main()
