#!/usr/bin/env python3
"""Measures loading: dipper by Stream Load through HTTP with curl, ClickHouse (MergeTree) and DuckDB from the same files.

Steps: `views` (Hive text of 16 columns), `hits` (105 columns), `allocations` (of both loads), `upsert` (UNIQUE KEY, the same rows in random order), `width`
(time per cell at 105 and at 10 columns), `small` (many small loads at a fixed rate). Engines take turns, the first round
warms up, figures are medians. Engines and curl are bound to the same cores."""

import argparse
import base64
import http.client
import itertools
import json
import random
import statistics
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import engines  # noqa: E402
import suites  # noqa: E402
from compare import median, seconds, times  # noqa: E402

STEPS = ["views", "hits", "allocations", "upsert", "width", "small"]
# Ten columns of hits with its mix of types, and, as it has on average, seven bytes a cell.
NARROW = ["CounterID", "EventDate", "UserID", "EventTime", "WatchID", "JavaEnable", "RegionID", "ResolutionWidth",
          "UserAgentMinor", "SearchPhrase"]  # fmt: skip


def rounds(variants, runs):
    """{label: [reply of each round but the first]}; a variant that fails, or that loads another
    number of rows than the first, is left out and said."""
    replies = {label: [] for label, _ in variants}
    failed = {}
    rows = None
    for turn in range(runs + 1):
        for label, load in variants:
            if label in failed:
                continue
            try:
                reply = load()
                rows = reply["rows"] if rows is None else rows
                if reply["rows"] != rows:
                    raise RuntimeError(f"{reply['rows']} rows loaded, others loaded {rows}")
            except Exception as error:  # the engines' own exceptions have no common base
                failed[label] = str(error)
                print(f"failed: {label}: {error}", file=sys.stderr)
                continue
            print(f"{label}: {seconds(reply['seconds'])}{' (warm-up)' if turn == 0 else ''}", file=sys.stderr)
            if turn > 0:
                replies[label].append(reply)
    replies = {label: found for label, found in replies.items() if label not in failed}
    return replies, not failed


def of(replies, label, field="seconds"):
    return median([reply[field] for reply in replies.get(label, []) if field in reply])


def table(title, replies, text_bytes):
    lines = [title, "", "| | time | MB/s | size | of the text | CPU | client CPU | page faults / MB | peak memory | rows |",
             "|---|---|---|---|---|---|---|---|---|---|"]  # fmt: skip
    for label in replies:
        get = lambda field: of(replies, label, field)
        client = get("client_cpu")
        lines.append(
            f"| {label} | {seconds(get('seconds'))} | {text_bytes / 1e6 / get('seconds'):.0f} | {get('size') / 1e6:.0f} MB | "
            f"{get('size') / text_bytes:.2f} | {seconds(get('cpu'))} | {'' if client is None else seconds(client)} | "
            f"{(get('minflt') + get('majflt')) / (text_bytes / 1e6):.0f} | {get('peak_kib') / 1024:.0f} MiB | {get('rows'):.0f} |"
        )
    return lines


def bars(replies, wanted, peak_mib=None):
    """Lines for (field, left, right, most): left / right of a field may be at most so much, and dipper's peak memory;
    whether all are met."""
    lines, met = ["", "| bar | found | met |", "|---|---|---|"], []
    peak = of(replies, "dipper", "peak_kib")
    if peak_mib and peak:
        met.append(peak <= peak_mib * 1024)
        lines.append(f"| peak memory of dipper <= {peak_mib} MiB | {peak / 1024:.0f} MiB | {'yes' if met[-1] else '**no**'} |")
    for field, left, right, most in wanted:
        a, b = of(replies, left, field), of(replies, right, field)
        if a is None or b is None:
            continue
        met.append(a <= most * b)
        lines.append(f"| {field} of {left} <= {most}x {right} | {times(a / b)} | {'yes' if met[-1] else '**no**'} |")
    return (lines if met else []), all(met)


class Bench:
    def __init__(self, args):
        self.args = args
        self.peers = {name: engines.Peer(name, args, args.data / f"load-{name}") for name in args.peers.split(",") if name}
        self.dipper = engines.Dipper(args, args.data / "load-dipper") if args.dipper else None

    def close(self):
        for engine in [*self.peers.values(), self.dipper]:
            if engine:
                engine.close()

    def variants(self, suite, name, path, form, fsync):
        """Loads of one file by each engine and codec."""
        found = []
        if self.dipper:
            found.append(("dipper", lambda: self.load(suite, name, path, form)))
            found.append(("dipper LZ4", lambda: self.load(suite, name, path, form, codec="lz4")))
        if "clickhouse" in self.peers:
            peer = self.peers["clickhouse"]
            for codec, synced in itertools.product(("LZ4", "ZSTD(1)"), (False, True) if fsync else (False,)):
                label = f"ClickHouse {codec}{' fsync' if synced else ''}"
                options = {"codec": f"CODEC({codec})", "fsync": synced}
                found.append((label, lambda options=options: peer.load(suite, name, path, form, **options)))
        if "duckdb" in self.peers:
            found.append(("DuckDB", lambda: self.peers["duckdb"].load(suite, name, path, form)))
        return found

    def load(self, suite, name, path, form, codec=None, only=None, unique=False):
        """A Stream Load into a new table, which is dropped before the next one's turn."""
        definition = engines.table_of(suite, name, only)
        ddl = definition.ddl(self.args.buckets, unique=unique)
        if codec:
            ddl = ddl.replace("PROPERTIES (", f'PROPERTIES ("compression" = "{codec}", ')
        self.dipper.drop(name)
        self.dipper.sql(ddl)
        return self.dipper.stream_load(definition, name, path, form)

    def views(self):
        path = engines.views_file(self.args, self.args.bytes)
        replies, complete = rounds(self.variants("views", "views", path, suites.HIVE, True), self.args.runs)
        lines = table("Hive text, 16 columns (the array as its text), sorted by key:", replies, path.stat().st_size)
        found, met = bars(replies, [
            ("seconds", "dipper", "ClickHouse ZSTD(1)", 1.0),
            ("seconds", "dipper", "ClickHouse ZSTD(1) fsync", 0.9),
            ("seconds", "dipper LZ4", "ClickHouse LZ4", 1.0),
            ("seconds", "dipper LZ4", "ClickHouse LZ4 fsync", 0.9),
            ("size", "dipper", "ClickHouse ZSTD(1)", 1.0),
        ], peak_mib=1024)  # fmt: skip
        return lines + found, met and complete

    def hits(self):
        path = engines.hits_file(self.args, self.args.bytes)
        replies, complete = rounds(self.variants("clickbench", "hits", path, suites.TSV, False), self.args.runs)
        lines = table("hits TSV, 105 columns:", replies, path.stat().st_size)
        found, met = bars(replies, [
            ("seconds", "dipper", "ClickHouse ZSTD(1)", 0.8),
            ("seconds", "dipper LZ4", "ClickHouse LZ4", 0.8),
            ("seconds", "dipper", "DuckDB", 0.5),
        ])  # fmt: skip
        return lines + found, met and complete

    def allocations(self):
        """Calls of dipper's allocator per MB of text; the second load of each, so that what is kept for reuse is there."""
        if not self.dipper:
            return ["allocations: needs --dipper"], True
        lines = ["Allocations of dipper:", "", "| | malloc / MB | zeroed / MB | realloc / MB |", "|---|---|---|---|"]
        for suite, name, path, form in (
            ("views", "views", engines.views_file(self.args, self.args.bytes), suites.HIVE),
            ("clickbench", "hits", engines.hits_file(self.args, self.args.bytes), suites.TSV),
        ):  # fmt: skip
            self.load(suite, name, path, form)
            counter = engines.Allocations(self.args.dipper, self.dipper.process.pid)
            try:
                self.load(suite, name, path, form)
            finally:
                calls = counter.stop()
            each = [calls.get(symbol, 0) / (path.stat().st_size / 1e6) for symbol in engines.Allocations.SYMBOLS]
            lines.append(f"| {name} | {' | '.join(f'{count:.0f}' for count in each)} |")
        return lines, True

    def upsert(self):
        if not self.dipper:
            return ["upsert: needs --dipper"], True
        path = engines.views_file(self.args, self.args.bytes)
        mixed = self.args.data / f"hive-{self.args.bytes}.shuffled"
        if not mixed.exists():
            with open(path, "rb") as file:
                rows = file.readlines()
            random.Random(1).shuffle(rows)
            mixed.write_bytes(b"".join(rows))

        def again():
            self.load("views", "views", path, suites.HIVE, unique=True)
            reply = self.dipper.stream_load(engines.table_of("views", "views"), "views", mixed, suites.HIVE)
            rows = self.dipper.sql("SELECT count(*), count(DISTINCT id) FROM views")[0]
            if rows[0] != reply["rows"] or rows[1] != rows[0]:
                raise RuntimeError(f"{reply['rows']} rows loaded twice give {rows[0]} rows, {rows[1]} keys")
            return reply

        replies, complete = rounds([
            ("DUPLICATE, random order", lambda: self.load("views", "views", mixed, suites.HIVE)),
            ("UNIQUE, the same rows again in random order", again),
        ], self.args.runs)  # fmt: skip
        lines = table("Merge-on-write:", replies, mixed.stat().st_size)
        found, met = bars(replies, [("seconds", "UNIQUE, the same rows again in random order", "DUPLICATE, random order", 1.6)])
        return lines + found, met and complete

    def width(self):
        wide = engines.hits_file(self.args, self.args.bytes)
        narrow = wide.with_suffix(".narrow.tsv")
        if not narrow.exists():
            names = [c.name for c in engines.table_of("clickbench", "hits").file_columns]
            at = [i for i, name in enumerate(names) if name in NARROW]
            with open(wide, "rb") as source, open(narrow, "wb") as target:
                for line in source:
                    cells = line.rstrip(b"\n").split(b"\t")
                    target.write(b"\t".join([cells[i] for i in at]) + b"\n")
        variants = []
        for label, path, only in (("105 columns", wide, None), ("10 columns", narrow, NARROW)):
            if self.dipper:
                variants.append((f"dipper, {label}",
                                 lambda path=path, only=only: self.load("clickbench", "hits", path, suites.TSV, only=only)))  # fmt: skip
            for name, peer in self.peers.items():
                variants.append((f"{name}, {label}",
                                 lambda path=path, only=only, peer=peer: peer.load("clickbench", "hits", path, suites.TSV, only=only)))  # fmt: skip
        replies, complete = rounds(variants, self.args.runs)
        lines = ["Time per cell:", "", "| | 105 columns | 10 columns | ratio |", "|---|---|---|---|"]
        met = True
        for name in (["dipper"] if self.dipper else []) + list(self.peers):
            cell = {}
            for columns in (105, 10):
                label = f"{name}, {columns} columns"
                if replies.get(label):
                    cell[columns] = of(replies, label) / of(replies, label, "rows") / columns * 1e9
            if len(cell) == 2:
                ratio = cell[105] / cell[10]
                bar = f" (bar 1.2x: {'met' if ratio <= 1.2 else '**not met**'})" if name == "dipper" else ""
                met = met and (name != "dipper" or ratio <= 1.2)
                lines.append(f"| {name} | {cell[105]:.0f} ns | {cell[10]:.0f} ns | {ratio:.2f}x{bar} |")
        return lines, met and complete

    def small(self):
        if not self.dipper:
            return ["small: needs --dipper"], True
        return Small(self.args, self.dipper).run()


class Small:
    """Loads of 100 rows at a fixed rate: each has a time at which it is due, and its latency counts from then."""

    rows = 100

    def __init__(self, args, dipper):
        self.args, self.dipper = args, dipper
        self.file = open(engines.views_file(args, args.bytes), "rb")
        self.lock = threading.Lock()
        self.next = 0
        self.total = args.small_rate * args.small_seconds
        self.latencies, self.problems = [], []
        self.sent = self.acknowledged = 0

    def take(self):
        """Number and body of the next load; None at the end."""
        with self.lock:
            if self.next >= self.total:
                return None
            number, self.next = self.next, self.next + 1
            body = b"".join(itertools.islice(self.file, self.rows))
            if body.count(b"\n") < self.rows:
                self.file.seek(0)
                body = b"".join(itertools.islice(self.file, self.rows))
            self.sent += 1
            return number, body

    def client(self, begin):
        definition = engines.table_of("views", "views")
        headers = {**suites.stream_load_headers(definition, suites.HIVE),
                   "Authorization": "Basic " + base64.b64encode(b"root:").decode()}  # fmt: skip
        if self.args.group_commit:
            headers["group_commit"] = self.args.group_commit
        connection = http.client.HTTPConnection("127.0.0.1", self.dipper.http_port, timeout=60)
        while (item := self.take()) is not None:
            number, body = item
            due = begin + number / self.args.small_rate
            time.sleep(max(0.0, due - time.perf_counter()))
            label = {} if self.args.group_commit else {"label": f"small-{int(begin)}-{number}"}
            try:
                connection.request("PUT", "/api/bench/small/_stream_load", body, {**headers, **label})
                response = connection.getresponse()
                answer = json.loads(response.read())
                problem = None if answer.get("Status") == "Success" else str(answer)
            except (OSError, http.client.HTTPException, ValueError) as error:
                problem = f"{type(error).__name__}: {error}"
                connection.close()
            late = time.perf_counter() - due
            with self.lock:
                if problem is None:
                    self.acknowledged += 1
                    self.latencies.append(late)
                else:
                    self.problems.append(problem)

    def reader(self, stop):
        """Counts rows all the time: whole loads only, never fewer than were acknowledged before, never fewer than last time."""
        connection, last = self.dipper.connect(), 0
        while not stop.is_set():
            with self.lock:
                least = self.acknowledged
            with connection.cursor() as cursor:
                cursor.execute("SELECT count(*) FROM small")
                count = cursor.fetchone()[0]
            with self.lock:
                most = self.sent
            if count % self.rows or not max(least * self.rows, last) <= count <= most * self.rows:
                self.problems.append(f"read {count} rows; {least} loads acknowledged, {most} sent, last read {last}")
            last = count
            time.sleep(0.2)

    def scan(self, name, runs=7):
        sql = f"SELECT count(*), sum(price), sum(length(url)), max(ts), count(DISTINCT country) FROM {name}"
        self.dipper.query(sql)
        return statistics.median(self.dipper.query(sql)["seconds"] for _ in range(runs))

    def segments(self):
        """Segments of each tablet, as SHOW TABLETS says; None if it does not."""
        try:
            rows = self.dipper.columns("SHOW TABLETS FROM small")
        except Exception as error:  # the latencies are worth their line all the same
            self.problems.append(f"SHOW TABLETS: {error}")
            return None
        return [int(row["VersionCount"]) for row in rows]

    def run(self):
        definition = engines.table_of("views", "views")
        for name in ("small", "small_copy"):
            self.dipper.drop(name)
            self.dipper.sql(definition.ddl(10, name=name))
        usage = engines.Usage(self.dipper.process.pid)
        begin, stop = time.perf_counter() + 0.2, threading.Event()
        threads = [threading.Thread(target=self.client, args=(begin,)) for _ in range(self.args.small_clients)]
        reader = threading.Thread(target=self.reader, args=(stop,))
        for thread in [*threads, reader]:
            thread.start()
        for thread in threads:
            thread.join()
        took = time.perf_counter() - begin
        stop.set()
        reader.join()
        used = usage.stop()
        segments = self.segments()
        many = self.scan("small")
        count = self.dipper.sql("SELECT count(*) FROM small")[0][0]
        if count != self.acknowledged * self.rows and not self.problems:
            self.problems.append(f"{count} rows at the end, {self.acknowledged} loads acknowledged")
        self.dipper.sql("INSERT INTO small_copy SELECT * FROM small")
        one = self.scan("small_copy")
        ordered = sorted(self.latencies)
        at = lambda share: ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")
        worst = max(segments) if segments else None
        verdicts = [
            ("nothing rejected, reads consistent", f"{len(self.problems)} problems", not self.problems),
            ("p99 <= 250 ms", seconds(at(0.99)), at(0.99) <= 0.25),
            ("<= 20 segments a tablet", "not shown" if worst is None else f"{worst} at most", worst is not None and worst <= 20),
            ("a scan <= 1.5x of the compacted copy", times(many / one), many <= 1.5 * one),
        ]
        for problem in self.problems[:5]:
            print(f"problem: {problem}", file=sys.stderr)
        lines = [
            f"{self.args.small_rate} loads a second of {self.rows} rows, 10 buckets, {self.args.small_clients} clients, "
            f"{self.args.small_seconds} s: {self.acknowledged} loads in {took:.1f} s; from due to answered p50 "
            f"{seconds(at(0.5))}, p95 {seconds(at(0.95))}, p99 {seconds(at(0.99))}, most {seconds(at(1.0))}; server CPU "
            f"{used['cpu'] / took:.2f} cores, peak {used['peak_kib'] / 1024:.0f} MiB.",
            "", "| bar | found | met |", "|---|---|---|",
            *(f"| {bar} | {found} | {'yes' if met else '**no**'} |" for bar, found, met in verdicts),
        ]  # fmt: skip
        return lines, all(met for _, _, met in verdicts)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    engines.add_arguments(parser)
    parser.add_argument("--steps", default=",".join(STEPS), help="which steps")
    parser.add_argument("--bytes", type=int, default=1 << 30, help="size of the files")
    parser.add_argument("--runs", type=int, default=5, help="rounds after the one that warms up")
    parser.add_argument("--small-rate", type=int, default=200, help="small loads a second")
    parser.add_argument("--small-seconds", type=int, default=60, help="for how long")
    parser.add_argument("--small-clients", type=int, default=16, help="connections that send them")
    parser.add_argument("--group-commit", default="", help="header group_commit of the small loads, as sync_mode")
    args = parser.parse_args()
    engines.enter_venv(args.venv)
    args.data.mkdir(parents=True, exist_ok=True)
    bench = Bench(args)
    all_met = True
    try:
        print(f"{engines.machine(args)}, page cache warm, medians of {args.runs} rounds.\n")
        for step in args.steps.split(","):
            lines, met = getattr(bench, step)()
            all_met = all_met and met
            print("\n".join(lines), end="\n\n", flush=True)
    finally:
        bench.close()
    sys.exit(0 if all_met else 1)


if __name__ == "__main__":
    main()
