#!/usr/bin/env python3
"""Measures dipper beside DuckDB, Polars and ClickHouse (chdb) on the same files and cores, and writes README.md's table.

Peers answer in a warm process of their own; dipper is a fresh process each time, minus the median of its own `select 1`.
Engines take turns, each query is warmed up once, files are in the page cache, times are medians. All processes are
bound to the same cores. Answers are compared; a query whose answers differ is reported and fails the run."""

import argparse
import csv
import io
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from queries import COLUMNS, QUERIES  # noqa: E402

PEERS = ["duckdb", "polars", "clickhouse"]
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"


def make_data(directory, generator, size, lineorder_scale, hits_rows, needed):
    """Generates what is needed and missing; returns the paths."""
    paths = {
        "hive": directory / f"hive-{size}" / "000000_0",
        "csv": directory / f"views-{size}.csv",
        "csv_quoted": directory / f"views-quoted-{size}.csv",
        "parquet": directory / f"views-{size}.parquet",
        "lineorder": directory / f"lineorder-{lineorder_scale}.csv",
        "hits": directory / f"hits-{hits_rows}.parquet",
    }

    def generate(path, *arguments):
        if not path.exists():
            print(f"generating {path}", file=sys.stderr)
            target = path.parent if path.name == "000000_0" else path
            return subprocess.run([generator, *arguments, "--out", target], check=True, stdout=subprocess.PIPE).stdout

    # The size of the Hive file says how many rows there are.
    views = {"csv": ["csv"], "csv_quoted": ["csv", "--quoted"], "parquet": ["parquet"]}
    if "hive" in needed or any(name in needed and not paths[name].exists() for name in views):
        generate(paths["hive"], "hive", "--bytes", str(size))
    for name, arguments in views.items():
        if name in needed and not paths[name].exists():
            with open(paths["hive"], "rb") as file:
                rows = sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(1 << 24), b""))
            generate(paths[name], *arguments, "--rows", str(rows))
    if "lineorder" in needed:
        generate(paths["lineorder"], "lineorder", "--scale", str(lineorder_scale))
    if "hits" in needed:
        generate(paths["hits"], "narrow-hits", "--rows", str(hits_rows))
    paths = {name: path for name, path in paths.items() if name in needed}
    for path in paths.values():
        with open(path, "rb") as file:
            while file.read(1 << 24):
                pass
    return {name: str(path) for name, path in paths.items()}


class Peer:
    def __init__(self, name, python, data, threads, cores):
        self.name = name
        environment = dict(os.environ, POLARS_MAX_THREADS=str(threads), OMP_NUM_THREADS=str(threads))
        self.process = subprocess.Popen(
            [python, str(HERE / "peers.py"), name, json.dumps(data), str(threads)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment,
            preexec_fn=lambda: os.sched_setaffinity(0, cores),
        )  # fmt: skip

    def run(self, query):
        self.process.stdin.write(json.dumps({"query": query["name"]}) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        return json.loads(line) if line else {"error": "the process ended"}

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Dipper:
    name = "dipper"

    def __init__(self, binary, data, catalog, cores):
        self.binary, self.cores, self.data = binary, cores, data
        self.catalog = catalog
        self.tables = {name: f"'{path}'" for name, path in data.items()}
        if "hive" in data:
            columns = ", ".join(f"{c[0]} {c[1]}" for c in COLUMNS)
            reply = self.sql(
                "CREATE DATABASE IF NOT EXISTS bench; DROP TABLE IF EXISTS bench.hive; "
                f"CREATE EXTERNAL TABLE bench.hive ({columns}) ROW FORMAT DELIMITED STORED AS TEXTFILE "
                f"LOCATION 'file://{Path(data['hive']).parent}'"
            )
            if "error" in reply:
                raise SystemExit(f"dipper: {reply['error']}")
            self.tables["hive"] = "bench.hive"

    def sql(self, text):
        command = [self.binary, "sql", "--data", self.catalog, "--format", "csv", text]
        start = time.perf_counter()
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
            preexec_fn=lambda: os.sched_setaffinity(0, self.cores),
        )  # fmt: skip
        out = process.stdout.read()
        errors = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            return {"error": (errors.decode(errors="replace").strip() or f"exit {process.returncode}")[:500]}
        return {"seconds": seconds, "out": out.decode(), "peak_kib": usage.ru_maxrss}

    def run(self, query):
        reply = self.sql(query["dipper"].format(table=self.tables[query["data"]]))
        if "out" in reply:
            rows = list(csv.reader(io.StringIO(reply.pop("out"))))
            reply["answer"] = [[plain(value) for value in row] for row in rows[1:]]
        return reply

    def close(self):
        pass


def plain(text):
    """A CSV value as peers.plain writes values."""
    if text in ("", "NULL", "\\N"):
        return None
    if text.replace(".", "", 1).lstrip("-").isdigit() and "." in text:
        return repr(round(float(text), 6))
    return text.removesuffix(".000000")


def same(query, left, right):
    if query.get("compare") is False:
        return True
    if query.get("compare_first"):
        left, right = [row[:1] for row in left], [row[:1] for row in right]
    normal = lambda rows: [[normal_value(v) for v in row] for row in rows]
    return normal(left) == normal(right)


def normal_value(value):
    """Booleans are 1 in MySQL's world, sums differ in the last digits by the order of addition."""
    if value is None:
        return None
    if value in ("true", "false"):
        return "1" if value == "true" else "0"
    if value.endswith(".000000"):
        value = value[:-7]
    try:
        number = float(value)
        return f"{number:.9g}" if "." in value or "e" in value else value
    except ValueError:
        return value


def measure(engines, queries, runs_short, runs_long):
    """Seconds of every run, peak memory and first answer by query and engine; those of `select 1` under its name.

    dipper's `select 1` takes its turn too, so that what is subtracted was measured under the same load."""
    results = {}
    startups = []
    for query in queries:
        able = [engine for engine in engines if query.get(engine.name) is not None]
        result = {engine.name: {"seconds": []} for engine in able}
        for engine in able:
            reply = engine.run(query)
            result[engine.name].update({k: reply[k] for k in ("answer", "error") if k in reply})
        able = [engine for engine in able if "error" not in result[engine.name]]
        for _ in range(runs_short if query.get("short") else runs_long):
            for engine in able:
                reply = engine.run(query)
                if "error" in reply:
                    result[engine.name]["error"] = reply["error"]
                    continue
                result[engine.name]["seconds"].append(reply["seconds"])
                if engine.name == "dipper":
                    result["dipper"].setdefault("startup", []).append(engine.sql("select 1")["seconds"])
                result[engine.name]["peak_kib"] = max(reply["peak_kib"], result[engine.name].get("peak_kib", 0))
        if result.get("dipper", {}).get("startup"):
            startup = statistics.median(result["dipper"]["startup"])
            startups += result["dipper"]["startup"]
            result["dipper"]["seconds"] = [max(whole - startup, 0.0) for whole in result["dipper"]["seconds"]]
        results[query["name"]] = result
        shown = {name: f"{statistics.median(r['seconds']):.4f}" if r["seconds"] else r.get("error") for name, r in result.items()}
        print(query["name"], shown, file=sys.stderr)
    return results, statistics.median(startups) if startups else None


def peak_alone(make, query):
    """Peak memory in MiB of one query in a process of its own."""
    engine = make()
    reply = engine.run(query)
    engine.close()
    return None if "error" in reply else reply["peak_kib"] / 1024


def large_file(args, cores):
    """Seconds and peak MiB of the full scan of a Hive file of four times the size, which is removed afterwards."""
    size = 4 * args.bytes
    data = make_data(args.data, args.gen, size, args.scale, args.hits, {"hive"})
    query = next(query for query in QUERIES if query.get("memory"))
    try:
        dipper = Dipper(args.dipper, data, str(args.data / "catalog"), cores)
        replies = [dipper.run(query) for _ in range(3)]
        dipper.sql("DROP TABLE bench.hive")
    finally:
        os.unlink(data["hive"])
        os.rmdir(os.path.dirname(data["hive"]))
    if any("error" in reply for reply in replies):
        raise SystemExit(f"dipper: {replies}")
    name = f"`{query['name']}` over {size / 1e9:.2f} GB"
    return name, statistics.median(r["seconds"] for r in replies), max(r["peak_kib"] for r in replies) / 1024


def bytes_of_limit(dipper, query):
    """Bytes that a scan with LIMIT read, as EXPLAIN ANALYZE tells."""
    reply = dipper.sql("explain analyze " + query["dipper"].format(table=dipper.tables[query["data"]]))
    found = re.search(r"bytes_scanned=([0-9.]+)( [KMG])?", reply.get("out", ""))
    if not found:
        raise SystemExit(f"dipper: no bytes_scanned in {reply}")
    return float(found[1]) * {None: 1, " K": 1e3, " M": 1e6, " G": 1e9}[found[2]]


def kernels(args, data, core):
    """The table of the `kernels` program, which stands beside the generator."""
    program = Path(args.gen).parent / "kernels"
    flags = {"hive": "--hive", "lineorder": "--lineorder", "csv": "--csv", "csv_quoted": "--quoted"}
    files = [word for name, flag in flags.items() if name in data for word in (flag, data[name])]
    if not files or not program.exists():
        return ""
    done = subprocess.run(
        [program, "--runs", str(args.runs), *files], stdout=subprocess.PIPE, text=True, check=True,
        preexec_fn=lambda: os.sched_setaffinity(0, {core}),
    )  # fmt: skip
    return done.stdout


def median(result, name):
    runs = result.get(name, {}).get("seconds")
    return statistics.median(runs) if runs else None


def seconds(value):
    if value is None:
        return "-"
    return f"{value * 1000:.1f} ms" if value < 0.1 else f"{value:.2f} s"


def verdict(query, results):
    """The bar in words, and whether it is met (None: none, or not measured)."""
    result = results[query["name"]]
    dipper = median(result, "dipper")
    peers = {name: median(result, name) for name in PEERS if median(result, name) is not None}
    if "bar_seconds" in query:
        bar = query["bar_seconds"]
        return f"<= {seconds(bar)}", None if dipper is None else dipper <= bar
    if "bar" in query:
        times, who = query["bar"]
        reference = min(peers.values(), default=None) if who == "best" else peers.get(who)
        met = None if dipper is None or reference is None else dipper <= times * reference
        return f"<= {times}x {who}", met
    for key, words in (("bar_query", "<= {}x unquoted"), ("at_least", ">= {}x the one above")):
        if key in query:
            times, other = query[key]
            reference = median(results.get(other, {}), "dipper")
            met = None if dipper is None or reference is None else (
                dipper <= times * reference if key == "bar_query" else dipper >= times * reference
            )  # fmt: skip
            return words.format(times), met
    return "", None


def report(args, data, results, startup, peaks, more):
    sizes = ", ".join(f"{name} {os.path.getsize(path) / 1e9:.2f} GB" for name, path in data.items())
    model = next((l.split(":")[1].strip() for l in open("/proc/cpuinfo") if l.startswith("model name")), platform.machine())
    commit = subprocess.run(["git", "-C", str(HERE), "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    lines = [
        f"{args.cores.count(',') + 1} cores ({model}), page cache warm, commit {commit.stdout.strip()}, "
        f"{time.strftime('%Y-%m-%d', time.gmtime())}. Files: {sizes}.",
        "",
        "| query | dipper | DuckDB | Polars | ClickHouse | dipper / best peer | bar | met |",
        "|---|---|---|---|---|---|---|---|",
    ]
    if startup is not None:
        met = "yes" if startup <= 0.020 else "**no**"
        lines.append(f"| `select 1` (whole process) | {seconds(startup)} | | | | | <= 20 ms | {met} |")
    for query in QUERIES:
        result = results.get(query["name"])
        if result is None:
            continue
        dipper = median(result, "dipper")
        best = min((median(result, n) for n in PEERS if median(result, n) is not None), default=None)
        ratio = f"{dipper / best:.2f}x" if dipper is not None and best else "-"
        bar, met = verdict(query, results)
        cells = [seconds(dipper)] + [seconds(median(result, name)) for name in PEERS]
        name = query["name"].replace("|", "\\|")
        lines.append(f"| `{name}` | {' | '.join(cells)} | {ratio} | {bar} | {'' if met is None else 'yes' if met else '**no**'} |")
    if peaks:
        lines += ["", "Peak memory of one query in its own process (Python and its modules included for the peers):", "",
                  "| query | dipper | DuckDB | Polars | ClickHouse |", "|---|---|---|---|---|"]  # fmt: skip
        for name, row in peaks.items():
            cells = [f"{row[e]:.0f} MiB" if row.get(e) else "-" for e in ["dipper", *PEERS]]
            lines.append(f"| `{name}` | {' | '.join(cells)} |")
    lines += more
    return "\n".join(lines)


def wrong_answers(results):
    """Answers that differ from most others."""
    problems = []
    for query in QUERIES:
        result = results.get(query["name"], {})
        for name, one in result.items():
            if "error" in one:
                problems.append(f"{query['name']}: {name}: {one['error']}")
        answers = {name: one["answer"] for name, one in result.items() if "answer" in one}
        reference = answers.get("duckdb") or next(iter(answers.values()), None)
        for name, answer in answers.items():
            if not same(query, answer, reference):
                problems.append(f"{query['name']}: {name} says {str(answer)[:300]}, duckdb {str(reference)[:300]}")
    return problems


def write_readme(text):
    readme = HERE / "README.md"
    old = readme.read_text()
    head, _, rest = old.partition(BEGIN)
    _, _, tail = rest.partition(END)
    readme.write_text(f"{head}{BEGIN}\n{text}\n{END}{tail}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dipper", help="the dipper binary; without it only the peers are measured")
    parser.add_argument("--gen", required=True, help="the dipper-gen binary")
    parser.add_argument("--data", type=Path, default=HERE.parent / "target" / "bench", help="where the files are kept")
    parser.add_argument("--venv", type=Path, default=HERE.parent / "target" / "bench" / "venv",
                        help="Python environment with the peers; made from requirements.txt where it is missing")  # fmt: skip
    parser.add_argument("--bytes", type=int, default=1 << 30, help="size of the Hive text file")
    parser.add_argument("--scale", type=float, default=1.0, help="scale of lineorder")
    parser.add_argument("--hits", type=int, default=5_000_000, help="rows of hits")
    parser.add_argument("--cores", default="0,1", help="cores that every engine is bound to")
    parser.add_argument("--runs", type=int, default=7, help="runs of a query")
    parser.add_argument("--runs-short", type=int, default=21, help="runs of a short query")
    parser.add_argument("--only", default="", help="queries whose name contains this")
    parser.add_argument("--peers", default=",".join(PEERS), help="peers to measure")
    parser.add_argument("--no-memory", action="store_true", help="leave peak memory out")
    parser.add_argument("--no-readme", action="store_true", help="print the table, leave README.md alone")
    parser.add_argument("--json", type=Path, help="write all numbers here too")
    args = parser.parse_args()

    cores = {int(core) for core in args.cores.split(",")}
    python = args.venv / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", args.venv], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", "-r", HERE / "requirements.txt"], check=True)
    args.data.mkdir(parents=True, exist_ok=True)
    queries = [query for query in QUERIES if args.only in query["name"]]
    needed = {query["data"] for query in queries}
    data = make_data(args.data, args.gen, args.bytes, args.scale, args.hits, needed)

    def peer(name):
        return lambda: Peer(name, python, data, len(cores), cores)

    makers = {name: peer(name) for name in args.peers.split(",") if name}
    if args.dipper:
        makers = {"dipper": lambda: Dipper(args.dipper, data, str(args.data / "catalog"), cores), **makers}
    engines = [make() for make in makers.values()]
    results, startup = measure(engines, queries, args.runs_short, args.runs)
    for engine in engines:
        engine.close()

    peaks = {}
    if not args.no_memory:
        for query in (query for query in queries if query.get("memory")):
            peaks[query["name"]] = {name: peak_alone(make, query) for name, make in makers.items()}

    more = []
    if args.dipper:
        dipper = Dipper(args.dipper, data, str(args.data / "catalog"), cores)
        for query in (query for query in queries if query.get("bar_bytes")):
            read, bar = bytes_of_limit(dipper, query), query["bar_bytes"]
            more += ["", f"`{query['name']}` reads {read / 1024:.0f} KiB of the file (bar {bar >> 10} KiB: "
                     f"{'met' if read <= bar else '**missed**'})."]  # fmt: skip
        if not args.no_memory and any(query.get("memory") for query in queries):
            name, took, peak = large_file(args, cores)
            met = "met" if peak <= 256 else "**missed**"
            more += ["", f"{name}: {seconds(took)} (whole process), peak {peak:.0f} MiB (bar 256 MiB: {met})."]
    if table := kernels(args, data, min(cores)) if not args.only else "":
        more += ["", "The text reader alone on one core, beside a plain read(2) of the same bytes in the same run, best of "
                 f"{args.runs}:", "", "```", *table.rstrip().splitlines(), "```"]  # fmt: skip
    text = report(args, data, results, startup, peaks, more)
    print(text)
    if not args.no_readme:
        write_readme(text)
    if args.json:
        args.json.write_text(json.dumps({"results": results, "startup": startup, "peaks": peaks}, indent=1))
    problems = wrong_answers(results)
    for problem in problems:
        print(f"wrong: {problem}", file=sys.stderr)
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
