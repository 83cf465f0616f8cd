#!/usr/bin/env python3
"""Asks dipper, DuckDB and ClickHouse the queries of SSB, TPC-H or ClickBench over the same data; compares dipper's answers with
DuckDB's, prints times beside each other and the three worst queries.

What counts as equal: rows at positions with the same ORDER BY key may stand in any order. Where LIMIT or OFFSET cuts
through such a group, any of its rows may be there, so each of ours must occur in DuckDB's answer without LIMIT. Floats
may differ in the last digits, decimals by one in their last digit: AVG cuts off, as in Doris. Exit code 1 if an answer differs."""

import argparse
import datetime
import decimal
import re
import statistics
import sys
from itertools import groupby
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import engines  # noqa: E402
import suites  # noqa: E402

TOLERANCE = 1e-9
HIDDEN = "sort_key_"


def top_level(sql, word):
    """Position of a keyword outside of parentheses and quotes, -1 if there is none."""
    depth = 0
    for match in re.finditer(rf"'[^']*'|[()]|\b{word}\b", sql, flags=re.I):
        if match.group() == "(":
            depth += 1
        elif match.group() == ")":
            depth -= 1
        elif depth == 0 and match.group()[0] != "'":
            return match.start()
    return -1


def split_commas(text):
    parts, depth = [""], 0
    for piece in re.findall(r"'[^']*'|.", text, flags=re.S):
        depth += (piece == "(") - (piece == ")")
        if piece == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += piece
    return [part.strip() for part in parts]


class Shape:
    """A query taken apart: what it is without ORDER BY and LIMIT, and with its sort keys as further columns."""

    def __init__(self, sql):
        tail = re.search(r"\s+LIMIT\s+(\d+)(?:\s+OFFSET\s+(\d+))?\s*$", sql, flags=re.I)
        self.limit = int(tail.group(1)) if tail else None
        self.offset = int(tail.group(2) or 0) if tail else 0
        body = sql[: tail.start()] if tail else sql
        order = top_level(body, r"ORDER\s+BY")
        self.keys = []
        if order >= 0:
            keys = re.sub(r"^ORDER\s+BY\s+", "", body[order:], flags=re.I)
            self.keys = [re.sub(r"\s+(ASC|DESC)$", "", key, flags=re.I) for key in split_commas(keys)]
        source = top_level(body, "FROM")
        columns = "".join(f", {key} AS {HIDDEN}{i}" for i, key in enumerate(self.keys))
        select = f"{body[:source].rstrip()}{columns} {body[source:]}"
        self.keyed = select + (sql[tail.start() :] if tail else "")
        self.whole = select[: top_level(select, r"ORDER\s+BY")] if order >= 0 else select


def plain(value):
    """A value in the one form that both sides are compared in: None, int, float, Decimal or text."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, decimal.Decimal) and value == value.to_integral_value() and value.as_tuple().exponent >= 0:
        return int(value)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, datetime.datetime):
        return value.isoformat(sep=" ")
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, str):
        # Wide integers come as text over MySQL; a date with midnight or an empty fraction is the same date.
        if re.fullmatch(r"-?(0|[1-9]\d{0,37})", value):
            return int(value)
        return re.sub(r"^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\.0+$", r"\1", value)
    return value


def near(left, right):
    """Whether two plain values are equal."""
    numbers = (int, float, decimal.Decimal)
    if isinstance(left, numbers) and isinstance(right, numbers):
        if isinstance(left, int) and isinstance(right, int):
            return left == right
        allowed = TOLERANCE * max(abs(float(left)), abs(float(right)))
        for value in (left, right):
            if isinstance(value, decimal.Decimal):
                allowed = max(allowed, 1.0000001 * 10.0 ** value.as_tuple().exponent)
        return left == right or abs(float(left) - float(right)) <= allowed
    return type(left) is type(right) and left == right


def inexact(value):
    return isinstance(value, (float, decimal.Decimal))


def sort_key(row, loose):
    """Exact columns first, so that rows of two answers pair up although floats differ a little."""
    exact = [(value is not None, str(value)) for i, value in enumerate(row) if i not in loose]
    return exact, [float(row[i]) if row[i] is not None else 0.0 for i in sorted(loose)]


def same_rows(left, right):
    """Whether two lists hold the same rows, in any order; the first pair that differs, or None."""
    loose = {i for row in left + right for i, value in enumerate(row) if inexact(value)}
    pairs = zip(sorted(left, key=lambda r: sort_key(r, loose)), sorted(right, key=lambda r: sort_key(r, loose)))
    return next((pair for pair in pairs if not all(map(near, *pair))), None)


def compare(shape, ours, reference, lacking):
    """None if the answer is right, else what is wrong.

    `ours`: rows; `reference`: rows of `shape.keyed`, sort keys behind the columns; `lacking(rows, loose)`: of full rows
    (with sort keys), those that do not occur often enough in the answer without LIMIT, columns `loose` left out."""
    width = len(shape.keys)
    ours = [[plain(value) for value in row] for row in ours]
    reference = [[plain(value) for value in row] for row in reference]
    if len(ours) != len(reference):
        return f"{len(ours)} rows, not {len(reference)}"
    if not ours:
        return None
    columns = len(reference[0]) - width
    if len(ours[0]) != columns:
        return f"{len(ours[0])} columns, not {columns}"
    loose = {i for row in reference for i, value in enumerate(row) if inexact(value)}
    start = 0
    for key, group in groupby(reference, key=lambda row: row[columns:]):
        group = list(group)
        mine = ours[start : start + len(group)]
        first, last = start == 0, start + len(group) == len(ours)
        cut = (first and shape.offset > 0) or (last and shape.limit == len(ours))
        if cut:
            missing = lacking([row + key for row in mine], loose)
            if missing:
                return f"no such row in the whole answer: {missing[0][:columns]} with sort key {key}"
        else:
            pair = same_rows(mine, [row[:columns] for row in group])
            if pair:
                return f"{shown(pair[0])}, not {shown(pair[1])}"
        start += len(group)
    return None


def shown(row):
    text = str(row)
    return text if len(text) < 300 else text[:300] + "..."


def look_up(ask, shape):
    """`lacking` of `compare` by DuckDB: counts each row in the whole answer, by the columns that are compared exactly."""

    def lacking(rows, loose):
        exact = [i for i in range(len(rows[0])) if i not in loose]
        if not exact:
            return rows[ask(f"SELECT count(*) FROM ({shape.whole})")[0][0] :]
        texts = [tuple(None if row[i] is None else str(row[i]) for i in exact) for row in rows]
        literal = lambda text: "NULL::VARCHAR" if text is None else "'" + text.replace("'", "''") + "'"
        values = ", ".join(f"({', '.join(map(literal, text))})" for text in set(texts))
        names = lambda letter, numbers: ", ".join(f"{letter}{i}" for i in numbers)
        found = ask(
            f"WITH f({names('c', range(len(rows[0])))}) AS ({shape.whole}), v({names('v', exact)}) AS (VALUES {values}) "
            f"SELECT {names('v', exact)}, count(*) FROM f JOIN v ON "
            f"{' AND '.join(f'c{i}::VARCHAR IS NOT DISTINCT FROM v{i}' for i in exact)} GROUP BY ALL"
        )
        counts = {tuple(row[:-1]): row[-1] for row in found}
        return [row for text, row in zip(texts, rows) if texts.count(text) > counts.get(text, 0)]

    return lacking


def median(runs):
    return statistics.median(runs) if runs else None


def geometric_mean(values):
    return statistics.geometric_mean(values) if values else None


def seconds(value):
    if value is None:
        return "-"
    return f"{value * 1000:.1f} ms" if value < 0.1 else f"{value:.2f} s"


def times(value):
    return "-" if value is None else f"{value:.2f}x"


def measure(asked, queries, runs):
    """{query: {engine: {"seconds": [..], "rows": .., "error": ..}}}; engines take turns, each query warmed up once."""
    results = {}
    for name, sql in queries:
        result = results[name] = {engine.name: {"seconds": []} for engine in asked}
        for run in range(runs + 1):
            for engine in asked:
                one = result[engine.name]
                if "error" in one:
                    continue
                try:
                    reply = engine.query(suites.duckdb_query(sql) if engine.name == "duckdb" else sql)
                except Exception as error:  # PyMySQL's errors and the peers' have no common base
                    one["error"] = str(error)
                    continue
                if run == 0:
                    one["rows"] = reply["rows"]
                else:
                    one["seconds"].append(reply["seconds"])
        print(name, {e: seconds(median(r["seconds"])) for e, r in result.items()}, file=sys.stderr)
    return results


def verdicts(queries, results, ask, name="dipper"):
    """{query: None if equal, else what is wrong} of an engine's answers against DuckDB's."""
    found = {}
    for query, sql in queries:
        one = results[query][name]
        if "error" in one:
            found[query] = one["error"]
            continue
        shape = Shape(suites.duckdb_query(sql))
        found[query] = compare(shape, one["rows"], ask(shape.keyed), look_up(ask, shape))
    return found


def report(title, queries, results, verdict, names):
    lines = [title, "", "| query | rows | equal | " + " | ".join(names) + " | dipper / DuckDB | dipper / ClickHouse |",
             "|---|---|---|" + "---|" * len(names) + "---|---|"]  # fmt: skip
    ratios = {"duckdb": {}, "clickhouse": {}}
    for name, _ in queries:
        result = results[name]
        mine = median(result.get("dipper", {}).get("seconds"))
        for peer, of_peer in ratios.items():
            theirs = median(result.get(peer, {}).get("seconds"))
            if mine and theirs:
                of_peer[name] = mine / theirs
        equal = "" if name not in verdict else "yes" if verdict[name] is None else "**no**"
        cells = [seconds(median(result[engine]["seconds"])) for engine in names]
        rows = len(result["duckdb"].get("rows", [])) if "duckdb" in result else ""
        lines.append(f"| {name} | {rows} | {equal} | {' | '.join(cells)} | "
                     f"{times(ratios['duckdb'].get(name))} | {times(ratios['clickhouse'].get(name))} |")  # fmt: skip
    means = [seconds(geometric_mean([m for n, _ in queries if (m := median(results[n][e]["seconds"]))])) for e in names]
    lines.append(f"| geometric mean | | | {' | '.join(means)} | "
                 f"{times(geometric_mean(list(ratios['duckdb'].values())))} | "
                 f"{times(geometric_mean(list(ratios['clickhouse'].values())))} |")  # fmt: skip
    best = {name: max(ratios[peer].get(name, 0) for peer in ratios) for name, _ in queries}
    worst = sorted((name for name in best if best[name]), key=best.get, reverse=True)[:3]
    if worst:
        lines += ["", "Worst against the faster peer: " + ", ".join(f"{name} ({times(best[name])})" for name in worst) + "."]
    return "\n".join(lines), worst


def load_all(asked, args, suite):
    tables, _ = suites.suite(suite)
    if suite == "clickbench":
        files = {"hits": (engines.hits_file(args, args.bytes, args.spread), suites.TSV)}
    else:
        make = {"ssb": lambda: engines.ssb_files(args, args.scale, args.spread),
                "tpch": lambda: engines.tpch_files(args, args.scale)}  # fmt: skip
        directory = make[suite]()
        files = {name: (directory / f"{name}.tbl", suites.TBL) for name in tables}
    load_files(asked, args, suite, files, args.spread)


def load_files(asked, args, suite, files, spread=False):
    """Loads tables from {name: (path, form)}; DuckDB gets the rows in the order of the key that the others sort by."""
    own = {"dipper": {"buckets": args.buckets}, "duckdb": {"ordered": True}}
    for name, (path, form) in files.items():
        rows = set()
        for engine in asked:
            reply = engine.load(suite, name, path, form, spread=spread, **own.get(engine.name, {}))
            print(f"{engine.name}: {name}: {reply['rows']} rows in {seconds(reply['seconds'])}", file=sys.stderr)
            rows.add(reply["rows"])
        if len(rows) > 1:
            raise SystemExit(f"{name}: the engines loaded different numbers of rows: {rows}")


def profile(dipper, sql):
    """What dipper says about a run of the query."""
    return "\n".join(str(row[-1]) for row in dipper.sql(f"EXPLAIN ANALYZE {sql}"))


def run_suite(args, suite):
    _, queries = suites.suite(suite)
    queries = [(name, sql) for name, sql in queries if not args.only or name in args.only.split(",")]
    names = [name for name in args.peers.split(",") if name]
    if "duckdb" not in names:
        raise SystemExit("answers are compared with DuckDB's: --peers must name it")
    asked = [engines.Peer(name, args, args.data / f"{suite}-{name}") for name in names]
    if args.dipper:
        asked.insert(0, engines.Dipper(args, args.data / f"{suite}-dipper"))
    try:
        load_all(asked, args, suite)
        results = measure(asked, queries, args.runs)
        duckdb = next(engine for engine in asked if engine.name == "duckdb")
        ask = lambda sql: duckdb.query(sql)["rows"]
        verdict = {}
        problems = []
        # Each other engine is checked, so that a wrong reference or comparison shows too.
        for engine in asked:
            if engine.name != "duckdb":
                of_engine = verdicts(queries, results, ask, engine.name)
                problems += [f"{suite} {query}: {engine.name}: {what}" for query, what in of_engine.items() if what]
                verdict = of_engine if engine.name == "dipper" else verdict
        size = f"{args.bytes / 1e9:.2f} GB of TSV" if suite == "clickbench" else f"scale {args.scale:g}"
        size += ", spread" if args.spread else ""
        title = f"{suite}, {size}: {engines.machine(args)}, medians of {args.runs} runs after one more, in turns."
        text, worst = report(title, queries, results, verdict, [engine.name for engine in asked])
        print(text, end="\n\n")
        if args.dipper and args.profiles:
            for name in worst:
                print(f"{name}:\n{profile(asked[0], dict(queries)[name])}\n")
        for problem in problems:
            print(f"wrong: {problem}", file=sys.stderr)
        return not [problem for problem in problems if ": dipper: " in problem]
    finally:
        for engine in asked:
            engine.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    engines.add_arguments(parser)
    parser.add_argument("--suite", default="ssb,tpch,clickbench", help="which queries")
    parser.add_argument("--only", default="", help="queries by name, as Q1.1,Q2.3")
    parser.add_argument("--scale", type=float, default=1.0, help="scale factor of SSB and TPC-H")
    parser.add_argument("--bytes", type=int, default=1 << 30, help="size of hits.tsv")
    parser.add_argument("--runs", type=int, default=5, help="runs of a query")
    parser.add_argument("--spread", action="store_true",
                        help="other data of which conditions leave nothing out: uniform values, no partitions, another key")  # fmt: skip
    parser.add_argument("--profiles", action="store_true", help="EXPLAIN ANALYZE of the three worst queries")
    args = parser.parse_args()
    engines.enter_venv(args.venv)
    args.data.mkdir(parents=True, exist_ok=True)
    right = [run_suite(args, suite) for suite in args.suite.split(",")]
    sys.exit(0 if all(right) else 1)


if __name__ == "__main__":
    main()
