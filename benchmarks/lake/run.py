#!/usr/bin/env python3
"""Measures the Star Schema Benchmark over object storage: cold and cached, serial and parallel, and on local disk.

A real S3 server (versitygw) stands behind `lake-proxy`, which lets each answer wait for its first byte and limits each
connection and the link. Cold runs are a new server process with an empty cache directory each, which gets `--ready` seconds
to read its tables' chains, as servers do when they start. Requests and bytes are the proxy's counts. Beside them stands the
least that a query can fetch: the chunks of its columns in row groups whose `lo_orderdate` its filter on dates leaves. Answers
of all columns are compared. What was measured is kept in the directory: columns can be measured one by one."""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import steps
from rig import BUCKET, KEYS, Rig, Server, busy, pinned

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from engines import machine  # noqa: E402
from queries import COLUMNS  # noqa: E402
SSB = HERE.parent / "ssb"
TABLES = ["dates", "customer", "supplier", "part", "lineorder"]
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
WAYS = [f"{where} {how}" for where in ("cold", "cached", "local") for how in ("serial", "parallel")]
PEER = "ClickHouse s3()"
MORE = ["requests", "text", "upsert", "loads"]
# The share of its CPUs that others may take before a column is measured, and of a time that its threads may wait for a CPU
# before it is marked.
BUSY, WAITED = 0.1, 0.1
PREFIX = {"lineorder": "lo_", "customer": "c_", "supplier": "s_", "part": "p_", "dates": "d_"}


def queries():
    """Names and texts."""
    found = []
    for block in (SSB / "queries.sql").read_text().split("-- Q")[1:]:
        name, text = block.split("\n", 1)
        found.append(("Q" + name.strip(), text.strip().rstrip(";")))
    return found


def load(rig, data):
    """Creates and fills the tables, unless they are there, and waits for merges."""
    server = Server(rig, data, rig.dir / "cache-load")
    try:
        if not server.rows("SHOW DATABASES LIKE 'ssb'"):
            fill(rig, server, data)
        # Merging goes on behind loads, and where a server before was stopped; measured is what it leaves.
        took = server.settle(rig.args.settle)
        print(f"{data}: idle after {took:.0f} s", file=sys.stderr)
    finally:
        server.stop()


def fill(rig, server, data):
    """Creates the article's tables and loads dbgen's."""
    server.rows("CREATE DATABASE ssb")
    server.rows("USE ssb")
    ddl = (SSB / "create.sql").read_text().replace("BUCKETS 5", f"BUCKETS {rig.args.buckets}")
    # The session switches the cache off where a column wants that.
    ddl = ddl.replace('"datacache.enable" = "false"', '"datacache.enable" = "true"')
    for statement in ddl.split(";"):
        if statement.strip():
            server.rows(statement)
    for table in TABLES:
        # dbgen's lines end with a separator: the last field is nobody's column.
        names = [row[0] for row in server.rows(f"DESC {table}")]
        columns = "columns:" + ",".join(names + ["nothing"])
        answer = server.load(f"ssb.{table}", rig.dir / "raw" / f"{table}.tbl", "column_separator:|", columns)
        print(f"{data}: {table}: {answer['NumberLoadedRows']} rows", file=sys.stderr)


def least(rig, data):
    """Bytes that each query must fetch at least, by footers of the objects. Merged objects lie beside what they replace for
    an hour: then it is their bytes in proportion to the rows that count."""
    import pyarrow.parquet as pq

    server = Server(rig, data, rig.dir / "cache-load")
    live = {table: server.rows(f"SELECT COUNT(*) FROM ssb.{table}")[0][0] for table in TABLES}
    server.stop()
    chunks, rows = {}, dict.fromkeys(TABLES, 0)
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
            rows[table] += group.num_rows
    found = {}
    for name, (needs, years) in NEEDS.items():
        total, files = 0, set()
        for table, columns in needs.items():
            for bounds, sizes, path in chunks.get(table, []):
                if bounds and (bounds[1] < years[0] or bounds[0] > years[1]):
                    continue
                files.add(path)
                total += sum(sizes[PREFIX[table] + c] for c in columns.split()) * live[table] / rows[table]
        found[name] = (total, len(files))
    return found


def timed(server, text):
    """Seconds, the rows, and the seconds that a query thread waited for a CPU meanwhile."""
    waited, began = server.waited(), time.perf_counter()
    rows = server.rows(text)
    took = time.perf_counter() - began
    return took, sorted(map(str, rows)), server.waited() - waited


def quiet(args):
    """Passes on a machine that others leave alone: query threads run at a low priority, and what else runs is in their times."""
    taken = busy(args.cpus)
    if taken > BUSY and not args.loaded:
        raise SystemExit(f"others keep {taken:.0%} of CPUs {args.cpus or 'of this machine'} busy, more than {BUSY:.0%}: "
                         "end them, name other --cpus, or say --loaded, and times that waited are marked")


def connected(rig, data, settings):
    """A server on its own empty cache, and the session's settings."""
    cache = Path(tempfile.mkdtemp(prefix="cache", dir=rig.dir))
    server = Server(rig, data, cache)
    server.rows("USE ssb")
    for setting in settings:
        server.rows(f"SET {setting}")
    time.sleep(rig.args.ready)
    return server, cache


def measured_once(rig, server, text):
    """Seconds, the rows, the seconds that a query thread waited; GETs and bytes."""
    rig.ask("reset")
    took = timed(server, text)
    after = rig.ask("stats", "GET")
    return took, (after["gets"], after["bytes_down"])


def finish(keep, name, title, found):
    """Keeps the least of a query's times, with the requests and bytes of its first run."""
    answers = {json.dumps(rows) for (_, rows, _), _ in found}
    if len(answers) > 1:
        raise SystemExit(f"{name}: answers differ between runs")
    (_, rows, _), counts = found[0]
    seconds, waited = min((seconds, waited) for (seconds, _, waited), _ in found)
    keep(title, name, (seconds, *counts, rows, waited))
    print(f"  {name}, {title}: {seconds * 1e3:.0f} ms, of which threads waited {waited * 1e3:.0f} for a CPU, "
          f"{counts[0]} GETs, {counts[1] / 1e6:.1f} MB", file=sys.stderr)


def cold(rig, keep, title, data, settings, runs):
    """Each query in new servers on empty caches."""
    for name, text in queries():
        if name not in rig.args.only:
            continue
        found = []
        for _ in range(runs):
            server, cache = connected(rig, data, settings)
            found.append(measured_once(rig, server, text))
            server.stop()
            shutil.rmtree(cache, ignore_errors=True)
        finish(keep, name, title, found)


def warm(rig, keep, columns, runs):
    """Each query in one server a column, which take turns: their times are compared."""
    servers = {}
    try:
        for title, (data, settings) in columns.items():
            servers[title] = connected(rig, data, settings)
        for name, text in queries():
            if name not in rig.args.only:
                continue
            for server, _ in servers.values():
                server.rows(text)
            time.sleep(1)  # Filling the cache goes on behind the query.
            found = {title: [] for title in servers}
            for _ in range(runs):
                for title, (server, _) in servers.items():
                    found[title].append(measured_once(rig, server, text))
            for title in servers:
                finish(keep, name, title, found[title])
    finally:
        for server, cache in servers.values():
            server.stop()
            shutil.rmtree(cache, ignore_errors=True)


def peer(rig, keep):
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
    for name, text in queries():
        if name not in rig.args.only:
            continue
        times = []
        for _ in range(rig.args.cold_runs):
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
            arguments = [*pinned(rig.args.cpus, [sys.executable]), "-c", script, json.dumps([[views[t] for t in TABLES], text])]
            done = subprocess.run(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            if done.returncode:
                print(f"  {name}: {done.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
                break
            times.append(json.loads(done.stdout.strip().splitlines()[-1])[0])
        if times:
            counts = rig.ask("stats", "GET")
            keep(name, (min(times), counts["gets"], counts["bytes_down"]))
            print(f"  {name}: {min(times) * 1e3:.0f} ms, {counts['gets']} GETs", file=sys.stderr)


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
    parser.add_argument("--settle", type=float, default=15, help="seconds without work after which merges are over")
    parser.add_argument("--only", nargs="*", default=[name for name, _ in queries()])
    parser.add_argument("--ready", type=float, default=2, help="seconds between a server's start and its first query")
    parser.add_argument("--more", nargs="*", default=MORE, help="of these, what is measured now")
    parser.add_argument("--text-bytes", type=int, default=1 << 30)
    parser.add_argument("--upsert-rows", type=int, default=10_000_000)
    parser.add_argument("--readme", action="store_true", help="put the tables into benchmarks/README.md")
    parser.add_argument("--ways", nargs="*", default=[*WAYS, PEER], help="of these columns, what is measured now")
    parser.add_argument("--loaded", action="store_true", help="measure also while others keep the CPUs busy")
    enough = len(os.sched_getaffinity(0)) >= 4
    parser.add_argument("--cpus", default="2,3" if enough else "", help="of dipper and the peer; '' for any")
    parser.add_argument("--rig-cpus", default="0,1" if enough else "", help="of the S3 server and the proxy")
    args = parser.parse_args()
    args.cores = args.cpus or ",".join(map(str, sorted(os.sched_getaffinity(0))))
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
            "cold serial": (remote, off + serial),
            "cold parallel": (remote, off + parallel),
            "cached serial": (remote, serial),
            "cached parallel": (remote, parallel),
            "local serial": (local, serial),
            "local parallel": (local, parallel),
        }
        # Kept, so that the columns can be measured some at a time, when the machine is quiet.
        kept = rig.dir / "measured.json"
        measured = json.loads(kept.read_text()) if kept.exists() else {}

        turns = {title: columns[title] for title in args.ways if title in columns and not title.startswith("cold")}
        began = 0.0

        def proxy_cpu():
            return rig.ask("stats", "GET")["cpu_seconds"]

        def keep(title, name, found):
            column = measured.setdefault(title, {})
            column[name] = found
            column["proxy_cpu"] = (proxy_cpu() - began) / (len(turns) if title in turns else 1)
            column["load"] = os.getloadavg()[0]
            kept.write_text(json.dumps(measured))

        for title in args.ways:
            if title == PEER or title.startswith("cold"):
                quiet(args)
                print(title, file=sys.stderr)
                began = proxy_cpu()
                if title == PEER:
                    peer(rig, lambda name, found: keep(PEER, name, found))
                else:
                    cold(rig, keep, title, *columns[title], 1 if title == "cold serial" else args.cold_runs)
        if turns:
            quiet(args)
            print(", ".join(turns), file=sys.stderr)
            began = proxy_cpu()
            warm(rig, keep, turns, args.runs)
        for name in args.more:
            print(name, file=sys.stderr)
            measured[name] = more(rig, name, remote, local)
            kept.write_text(json.dumps(measured))
        lines = report(args, measured, least(rig, remote))
        print("\n".join(lines))
        if args.readme:
            write(lines)
    finally:
        rig.stop()


def more(rig, name, remote, local):
    """What is not SSB's thirteen queries."""
    columns = ", ".join(f"{name} {kind}" for name, kind, *_ in COLUMNS)
    return {
        "requests": lambda: steps.requests(rig, remote, dict(queries())["Q2.1"]),
        "text": lambda: steps.text(rig, local, columns, rig.args.text_bytes),
        "upsert": lambda: steps.upsert(rig, rig.args.upsert_rows),
        "loads": lambda: steps.loads(rig),
    }[name]()


def write(lines):
    """Puts the tables into README.md."""
    readme = HERE.parent / "README.md"
    head, rest = readme.read_text().split("<!-- lake: begin -->")
    tail = rest.split("<!-- lake: end -->")[1]
    text = "\n".join(lines)
    readme.write_text(f"{head}<!-- lake: begin -->\n{text}\n<!-- lake: end -->{tail}")


def disturbed(found):
    """Whether threads waited for a CPU in a measurement; of older ones and of the peer it is not known."""
    return len(found) > 4 and found[4] > WAITED * found[0]


def cell(found):
    return f"{found[0] * 1e3:.0f}" + ("*" if disturbed(found) else "")


def report(args, measured, floor):
    """The tables of what has been measured, in this run or before."""
    titles = [way for way in WAYS if way in measured]
    text = sum(file.stat().st_size for file in (Path(args.dir) / "raw").iterdir()) / 1e9
    rig = "others" if args.rig_cpus else "them, too"
    lines = [
        f"Scale {args.scale:g} ({text:.2f} GB of text), {args.buckets} bucket a partition; {machine(args)}; the S3 server and the "
        f"proxy on {rig}."
    ]
    if "cold parallel" in titles and "local parallel" in titles:
        for name in args.only:
            answers = {title: measured[title][name][3] for title in titles if name in measured[title]}
            if len({json.dumps(a) for a in answers.values()}) > 1:
                raise SystemExit(f"{name}: answers differ: {answers}")
        theirs = measured.get(PEER, {})
        shown = [*titles, PEER] if theirs else titles
        lines += ["", "| query | " + " | ".join(shown) + " | GETs | MB | least MB | bytes / least |", "|---" * (len(shown) + 5) + "|"]
        bound = 0.0
        for name in args.only:
            if any(name not in measured[title] for title in shown):
                lines.append(f"| {name} | not measured in all ways |")
                continue
            gets, down = measured["cold parallel"][name][1:3]
            least_bytes, files = floor[name]
            bound += measured["local parallel"][name][0] + least_bytes / 300e6 + 4 * 0.065
            cells = " | ".join(cell(measured[t][name]) for t in shown)
            share = max(down - (files * 64 << 10), 0) / max(least_bytes, 1)
            lines.append(f"| {name} | {cells} | {gets} | {down / 1e6:.1f} | {least_bytes / 1e6:.1f} | {share:.2f} |")
        whole = [name for name in args.only if all(name in measured[t] for t in shown)]
        sums = {t: sum(measured[t][name][0] for name in whole) for t in shown}
        lines.append(f"| sum | {' | '.join(f'{sums[t] * 1e3:.0f}' for t in shown)} | | | | |")
        runs = f"the least of {args.runs} runs ({args.cold_runs} of cold ones and of the peer, 1 of cold serial)"
        marked = sum(disturbed(measured[t][name]) for t in shown for name in whole)
        if marked:
            runs += f"; in the {marked} with a * threads waited for a CPU for more than {WAITED:.0%} of the time"
        lines += ["", f"Times in ms, {runs}. What these sums say:", ""]
        least_cold = sums["cold parallel"]
        lines.append(f"- cold parallel / (local + least bytes / link + 4 first bytes a query): {least_cold / bound:.2f} (bar 1.25)")
        if "cold serial" in sums:
            lines.append(f"- cold serial / cold parallel: {sums['cold serial'] / least_cold:.1f} (bar 5)")
        if "cached parallel" in sums:
            lines.append(f"- cached parallel / local parallel: {sums['cached parallel'] / sums['local parallel']:.2f} (bar 1.10)")
        if theirs:
            lines.append(f"- cold parallel / {PEER} over Parquet through the same proxy: {least_cold / sums[PEER]:.2f} (bar 1)")
        loads = ", ".join(f"{measured[t]['load']:.1f}" for t in shown)
        taken = sum(measured[t]["proxy_cpu"] for t in shown)
        lines.append(f"- load averages on {os.cpu_count()} cores, by column: {loads}; the proxy took {taken:.1f} CPU s in all")
    for name in MORE:
        lines += ["", *measured[name]] if name in measured else []
    return lines


if __name__ == "__main__":
    main()
