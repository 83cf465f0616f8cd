#!/usr/bin/env python3
"""Asks dipper, DuckDB and ClickHouse what a scan costs that can leave nothing out: sums, bounds, averages, conditions
and groups over one table of uniform values, which nothing prunes.

Prints, for each query, the medians, the ratios, and the values that dipper reads per second and core; beside them the
values per second at which Polars sums a column of 64-bit integers that is in memory already, which is what reading the
bytes alone takes. Answers are compared with DuckDB's. Exit code 1 if one differs."""

import argparse
import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import compare  # noqa: E402
import engines  # noqa: E402
import suites  # noqa: E402

# Columns by type, as scan/create.sql has them. `n` has one NULL in ten.
TYPES = {"INT": "i", "INT with NULLs": "n", "BIGINT": "b1", "DECIMAL": "d", "DOUBLE": "f", "DATE": "t",
         "short strings": "s", "long strings": "l"}  # fmt: skip
NUMBERS = ["INT", "INT with NULLs", "BIGINT", "DECIMAL", "DOUBLE"]
KEPT = [0.5, 0.1, 0.01, 0.0001]
# Values of the columns with the conditions.
CONDITIONS = 10_000


def queries():
    """(name, columns that are read, SQL)."""
    made = []
    for kind, column in TYPES.items():
        if kind in NUMBERS:
            made.append((f"SUM of {kind}", 1, f"SELECT sum({column}) FROM uniform"))
            made.append((f"AVG of {kind}", 1, f"SELECT avg({column}) FROM uniform"))
        made.append((f"MIN, MAX of {kind}", 1, f"SELECT min({column}), max({column}) FROM uniform"))
    for count in (2, 8):
        sums = ", ".join(f"sum(b{n})" for n in range(1, count + 1))
        averages = ", ".join(f"avg(b{n}), max(b{n})" for n in range(1, count + 1))
        made.append((f"SUM of {count} BIGINT", count, f"SELECT {sums} FROM uniform"))
        made.append((f"AVG, MAX of {count} BIGINT", count, f"SELECT {averages} FROM uniform"))
    for count in range(1, 6):
        for kept in KEPT:
            below = round(CONDITIONS * kept ** (1 / count))
            where = " AND ".join(f"c{n} < {below}" for n in range(1, count + 1))
            name = f"{count} {'condition' if count == 1 else 'conditions'}, {kept * 100:g}% kept"
            made.append((name, count + 1, f"SELECT count(*), sum(b1) FROM uniform WHERE {where}"))
    made.append(("a string is equal", 2, "SELECT count(*), sum(b1) FROM uniform WHERE s = 'abc'"))
    made.append(("LIKE in long strings", 1, "SELECT count(*) FROM uniform WHERE l LIKE '%abc%'"))
    for name, keys, columns in (
        ("100 groups", "g", 3), ("500,000 groups", "h", 3), ("1,000 strings as groups", "s", 3),
        ("two keys", "g, c1", 4), ("groups of dates", "t", 3),
    ):  # fmt: skip
        sql = f"SELECT {keys}, count(*), sum(b1), max(i) FROM uniform GROUP BY {keys} ORDER BY count(*) DESC, {keys} LIMIT 10"
        made.append((name, columns, sql))
    made.append(("COUNT(DISTINCT INT)", 1, "SELECT count(DISTINCT h) FROM uniform"))
    made.append(("COUNT(DISTINCT long string)", 1, "SELECT count(DISTINCT l) FROM uniform"))
    return made


def plain_read(cores):
    """Values per second and core of a sum in memory, by a process of its own, because of the number of threads."""
    program = (
        "import polars, sys, time\n"
        "rows = 20_000_000\n"
        "column = polars.arange(0, rows, eager=True)\n"
        "best = 1e9\n"
        "for _ in range(7):\n"
        "    start = time.perf_counter(); column.sum(); best = min(best, time.perf_counter() - start)\n"
        "print(rows / best)\n"
    )
    environment = dict(os.environ, POLARS_MAX_THREADS="1")
    out = subprocess.run([sys.executable, "-c", program], env=environment, check=True, capture_output=True, text=True,
                         preexec_fn=lambda: os.sched_setaffinity(0, {min(cores)}))  # fmt: skip
    return float(out.stdout)


def report(made, results, verdict, names, rows, cores, plain):
    lines = ["| query | equal | " + " | ".join(names) + " | dipper / DuckDB | dipper / ClickHouse | values/s and core |",
             "|---|---|" + "---|" * len(names) + "---|---|---|"]  # fmt: skip
    ratios = {"duckdb": [], "clickhouse": []}
    for name, columns, _ in made:
        result = results[name]
        middle = {engine: compare.median(result[engine]["seconds"]) for engine in names}
        mine = middle.get("dipper")
        cells = []
        for peer, of_peer in ratios.items():
            ratio = mine / middle[peer] if mine and middle.get(peer) else None
            of_peer += [(ratio, name)] if ratio else []
            cells.append(compare.times(ratio))
        rate = f"{rows * columns / mine / cores / 1e6:,.0f} million" if mine else "-"
        equal = "" if name not in verdict else "yes" if verdict[name] is None else "**no**"
        walls = " | ".join(compare.seconds(middle[engine]) for engine in names)
        lines.append(f"| {name} | {equal} | {walls} | {' | '.join(cells)} | {rate} |")
    for peer, of_peer in ratios.items():
        if of_peer:
            worst = ", ".join(f"{name} ({ratio:.2f}x)" for ratio, name in sorted(of_peer, reverse=True)[:5])
            mean = compare.geometric_mean([ratio for ratio, _ in of_peer])
            lines += ["", f"dipper / {peer}: geometric mean {mean:.2f}x; worst: {worst}."]
    lines += ["", f"A sum of 64-bit integers in memory: {plain / 1e6:,.0f} million values/s and core."]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    engines.add_arguments(parser)
    parser.add_argument("--rows", type=int, default=3_000_000, help="rows of the table")
    parser.add_argument("--runs", type=int, default=5, help="runs of a query")
    parser.add_argument("--only", default="", help="queries whose names contain this")
    args = parser.parse_args()
    engines.enter_venv(args.venv)
    args.data.mkdir(parents=True, exist_ok=True)
    names = [name for name in args.peers.split(",") if name]
    if "duckdb" not in names:
        raise SystemExit("answers are compared with DuckDB's: --peers must name it")
    made = [query for query in queries() if args.only in query[0]]
    pairs = [(name, sql) for name, _, sql in made]
    asked = [engines.Peer(name, args, args.data / f"scan-{name}") for name in names]
    if args.dipper:
        asked.insert(0, engines.Dipper(args, args.data / "scan-dipper"))
    try:
        files = {"uniform": (engines.uniform_file(args, args.rows), suites.TBL)}
        compare.load_files(asked, args, "scan", files)
        results = compare.measure(asked, pairs, args.runs)
        duckdb = next(engine for engine in asked if engine.name == "duckdb")
        ask = lambda sql: duckdb.query(sql)["rows"]
        verdict = compare.verdicts(pairs, results, ask) if args.dipper else {}
        cores = engines.cores_of(args)
        print(f"scan, {args.rows:,} rows: {engines.machine(args)}, medians of {args.runs} runs after one more, in turns.\n")
        print(report(made, results, verdict, [engine.name for engine in asked], args.rows, len(cores), plain_read(cores)))
        wrong = {name: what for name, what in verdict.items() if what}
        for name, what in wrong.items():
            print(f"wrong: {name}: {what}", file=sys.stderr)
        sys.exit(1 if wrong else 0)
    finally:
        for engine in asked:
            engine.close()


if __name__ == "__main__":
    main()
