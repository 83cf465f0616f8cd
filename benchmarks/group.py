#!/usr/bin/env python3
"""Measures GROUP BY over ClickBench's table with dipper's own operator and with DataFusion's, in turns over the same
data (`SET enable_radix_aggregation`): CPU time of the server and wall time, the least of several runs, with one worker
and with two. Answers must be equal; `--most` is the bar of the geometric mean of the CPU times' ratio.

The statements of ClickBench that group by more than a few values, and some over keys of other types and mixes. They are
whole, with scan and ORDER BY; `EXPLAIN ANALYZE` says what the operator takes of it."""

import argparse
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import compare  # noqa: E402
import engines  # noqa: E402
import suites  # noqa: E402

CLICKBENCH = [4, 5, 8, 9, 10, 11, 12, 13, 14, 15, 16, 18, 27, 28, 30, 31, 32, 33, 34, 35]
OTHERS = [
    ("region", "SELECT RegionID, COUNT(*), SUM(UserID % 1000), MAX(EventTime) FROM hits GROUP BY RegionID"),
    ("two small", "SELECT RegionID, ResolutionWidth, COUNT(*) AS c FROM hits GROUP BY RegionID, ResolutionWidth ORDER BY c DESC LIMIT 10"),
    ("date, region", "SELECT EventDate, RegionID, COUNT(*) AS c, AVG(UserID) FROM hits GROUP BY EventDate, RegionID ORDER BY c DESC LIMIT 10"),
    ("decimal", "SELECT CAST(UserID % 100000 AS DECIMAL(20, 2)) AS d, COUNT(*) AS c FROM hits GROUP BY d ORDER BY c DESC, d LIMIT 10"),
    ("double", "SELECT CAST(ClientIP AS DOUBLE) AS d, COUNT(*) AS c FROM hits GROUP BY d ORDER BY c DESC, d LIMIT 10"),
    ("all apart", "SELECT WatchID, COUNT(*) AS c FROM hits GROUP BY WatchID ORDER BY c DESC, WatchID LIMIT 10"),
]  # fmt: skip


def cpu(pid):
    """CPU seconds of a process, to the nanosecond."""
    return time.clock_gettime((~pid << 3) | 2)


SETTINGS = ("false", "true")


def measure(dipper, sql, runs):
    """The least (CPU, wall) of the runs with each setting."""
    best = {}
    for _ in range(runs + 1):
        for setting in SETTINGS:
            dipper.sql(f"SET enable_radix_aggregation = {setting}")
            before, start = cpu(dipper.process.pid), time.perf_counter()
            dipper.sql(sql)
            took = cpu(dipper.process.pid) - before, time.perf_counter() - start
            best[setting] = tuple(map(min, best.get(setting, took), took))
    return [best[setting] for setting in SETTINGS]


def differ(dipper, sql):
    """Whether the answers with the two settings differ. Rows of equal sort keys may be others where LIMIT cuts through
    them, so of statements with LIMIT the sort keys are compared."""
    shape, answers = compare.Shape(sql), []
    for setting in SETTINGS:
        dipper.sql(f"SET enable_radix_aggregation = {setting}")
        rows = [list(map(compare.plain, row)) for row in dipper.sql(shape.keyed)]
        answers.append([row[-len(shape.keys):] for row in rows] if shape.limit else rows)
    return len(answers[0]) != len(answers[1]) or compare.same_rows(*answers) is not None


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    engines.add_arguments(parser)
    parser.add_argument("--size", type=int, default=1_070_000_000, help="bytes of hits")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--workers", default="1,2", help="workers of a query")
    parser.add_argument("--only", help="names of queries, divided by commas")
    parser.add_argument("--most", type=float, default=0.8, help="bar for the CPU of own / DataFusion's")
    args = parser.parse_args()
    engines.enter_venv(args.venv)
    path = engines.hits_file(args, args.size)
    _, queries = suites.suite("clickbench")
    queries = [(name, sql) for name, sql in queries if int(name[1:]) in CLICKBENCH] + OTHERS
    if args.only:
        queries = [(name, sql) for name, sql in queries if name in args.only.split(",")]
    dipper = engines.Dipper(args, args.data / "dipper-group")
    met = True
    try:
        dipper.load("clickbench", "hits", path, suites.TSV, args.buckets)
        print(f"GROUP BY, {engines.machine(args)}: CPU (wall) in ms, DataFusion's operator -> own\n")
        for workers in args.workers.split(","):
            dipper.sql(f"SET parallel_pipeline_task_num = {workers}")
            print(f"| query, {workers} workers | CPU | wall | CPU ratio |\n|---|---|---|---|")
            ratios = []
            for name, sql in queries:
                if differ(dipper, sql):
                    met = False
                    print(f"{name}: answers differ", file=sys.stderr)
                (theirs, theirs_wall), (own, own_wall) = measure(dipper, sql, args.runs)
                ratios.append(own / theirs)
                print(f"| {name} | {theirs * 1e3:.1f} -> {own * 1e3:.1f} | {theirs_wall * 1e3:.1f} -> {own_wall * 1e3:.1f} "
                      f"| {ratios[-1]:.2f} |", flush=True)  # fmt: skip
            mean = statistics.geometric_mean(ratios)
            met &= mean <= args.most
            print(f"\ngeometric mean {mean:.2f} (bar {args.most})\n")
    finally:
        dipper.close()
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
