#!/usr/bin/env python3
"""Measures key look-ups: dipper beside its own protocol layer over a hash map, MariaDB in memory, and Redis.

Every server and client is bound to the same cores and speaks over loopback. Runs take turns, each after a warm-up of its
own; figures are medians. The lean client compares every answer with the row that was asked for. Exit code 1 when an
answer is wrong or a bar is not met."""

import argparse
import json
import os
import resource
import signal
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import jmeter  # noqa: E402
import servers  # noqa: E402
from engines import generate, machine  # noqa: E402
from servers import PARTS, lean  # noqa: E402

STEPS = ["sysbench", "row_part", "cold", "open", "idle", "jmeter"]
SYSBENCH_WARM_UP = 15
# Seconds of questions at the peak rate.
WARM_UP_TABLE = 15
NEEDED = {"mariadbd": "mariadb-server", "mariadb": "mariadb-client", "sysbench": "sysbench", "redis-server": "redis-server",
          "redis-benchmark": "redis-tools", "curl": "curl"}  # fmt: skip
SCAN = (
    f"SELECT sum(n) FROM (SELECT p_color, p_container, count(*) AS n, max(p_name), sum(p_size), min(p_type) "
    f"FROM {PARTS}.row_part GROUP BY p_color, p_container) AS scanned"
)
# The whole SQL of one row, for the text of the tables.
BEGIN, END = "<!-- point: begin -->", "<!-- point: end -->"


class Turns:
    """Named measurements, run in turns; keeps every reply."""

    def __init__(self, rounds):
        self.rounds = rounds
        self.replies = {}

    def run(self, measurements):
        for turn in range(self.rounds):
            for name, measure in measurements:
                reply = measure()
                self.replies.setdefault(name, []).append(reply)
                print(f"{' / '.join(map(str, name))}: {reply['qps']:,.0f}/s p99 {reply['p99_us']:,.0f} us"
                      f" ({turn + 1} of {self.rounds})", file=sys.stderr)  # fmt: skip

    def of(self, *name, field="qps"):
        found = [reply[field] for reply in self.replies.get(name, []) if field in reply]
        return statistics.median(found) if found else None

    def cell(self, *name):
        """Rate and p99, as a cell of a table."""
        rate, p99 = self.of(*name), self.of(*name, field="p99_us")
        return "-" if rate is None else f"{thousands(rate)}, {micros(p99)}"

    def spread(self):
        """The widest spread of the runs behind one median, as a share of it."""
        return max(((max(r["qps"] for r in runs) - min(r["qps"] for r in runs)) / statistics.median(r["qps"] for r in runs)
                    for runs in self.replies.values() if len(runs) > 1), default=0.0)  # fmt: skip


def thousands(rate):
    return f"{rate / 1000:.1f}k"


def micros(value):
    return f"{value / 1000:.1f} ms" if value >= 1000 else f"{value:.0f} us"


class Bench:
    def __init__(self, args):
        self.args = args
        self.file = generate(args, args.data / f"row_part-{args.rows}.tbl", "row-part", "--rows", args.rows,
                             "--out", args.data / f"row_part-{args.rows}.tbl")  # fmt: skip
        self.keys = args.data / f"row_part-{args.rows}.keys.csv"
        self.running = []
        self.bars = []
        self.wrong = 0
        self.turns = Turns(args.runs)
        self._dipper = self._bare = self._mariadb = self._redis = None

    # Servers, each started when it is first needed.

    def keep(self, server):
        self.running.append(server)
        return server

    @property
    def dipper(self):
        if self._dipper is None:
            # Memory, if there is enough: what is measured does not touch the disk, and preparing does.
            self._dipper = self.keep(servers.Dipper(self.args, self.args.data / "point-dipper"))
            self._dipper.load_parts(self.file)
            keys = self._dipper.sql(f"SELECT p_partkey, p_name FROM {PARTS}.row_part LIMIT 3000")
            self.keys.write_text("".join(f"{key},{name}\n" for key, name in keys))
            self._dipper.sql("CREATE DATABASE sbtest")
        return self._dipper

    @property
    def bare(self):
        if self._bare is None:
            self._bare = self.keep(servers.Bare(self.args, self.file, self.args.sbtest))
        return self._bare

    @property
    def mariadb(self):
        if self._mariadb is None:
            self._mariadb = self.keep(servers.MariaDB(self.args, self.args.data / "point-mariadb", self.args.buffer_gib))
            self._mariadb.load_parts(self.file)
            self._mariadb.sql("CREATE DATABASE sbtest")
        return self._mariadb

    @property
    def redis(self):
        if self._redis is None:
            self._redis = self.keep(servers.Redis(self.args, self.args.data / "point-redis", self.args.rows))
        return self._redis

    def close(self):
        for server in self.running:
            server.close()

    # Bars.

    def bar(self, text, found, met, detail=""):
        if found is not None:
            self.bars.append(f"| {text} | {detail or f'{found:.2f}x'} | {'yes' if met else '**no**'} |")
            self.failed = getattr(self, "failed", False) or not met

    def at_least(self, text, left, right, factor):
        if left and right:
            self.bar(text, left / right, left >= factor * right)

    def at_most(self, text, left, right, factor):
        if left and right:
            self.bar(text, left / right, left <= factor * right)

    def lean(self, server, **options):
        args = self.args
        options = {"seconds": args.seconds, "warm_up": args.warm_up, "threads": args.client_threads, **options}
        reply = lean(args, server, self.file, **options)
        self.wrong += reply["wrong"]
        return reply

    # Steps.

    def sysbench(self):
        args, script, table = self.args, "oltp_point_select", ["--tables=1", f"--table-size={self.args.sbtest}"]
        for server in (self.dipper, self.mariadb):
            start = time.time()
            servers.sysbench(args, server, script, 1, 0, *table, "prepare", check=False)
            print(f"{server.name}: prepare took {time.time() - start:.1f} s", file=sys.stderr)
        # MariaDB has the rows in its buffer pool, which it has just filled; dipper's row cache fills as it reads.
        for server in (self.dipper, self.bare, self.mariadb):
            servers.sysbench(args, server, script, 64, SYSBENCH_WARM_UP, *table, "run")
        measured = []
        for threads in args.threads:
            for server in (self.dipper, self.bare, self.mariadb):
                for mode in ("auto", "disable") if server is not self.bare else ("auto",):
                    if mode == "disable" and threads != 64:
                        continue
                    run = lambda server=server, threads=threads, mode=mode: servers.sysbench(
                        args, server, script, threads, args.seconds, *table, f"--db-ps-mode={mode}", "run")  # fmt: skip
                    measured.append((("sysbench", server.name if mode == "auto" else f"{server.name} text", threads), run))
            measured.append((("sysbench", "Redis", threads),
                             lambda threads=threads: self.redis.get(threads, args.seconds, args.rows)))  # fmt: skip
        self.turns.run(measured)
        of, cell = self.turns.of, self.turns.cell
        lines = [f"sysbench `oltp_point_select`, {args.sbtest:,} rows (Redis: GET by redis-benchmark):", "",
                 "| threads | dipper | bare server | MariaDB | Redis | dipper / MariaDB | dipper / bare |", "|---|---|---|---|---|---|---|"]  # fmt: skip
        for threads in args.threads:
            name = lambda server: ("sysbench", server, threads)
            ratio = lambda other: f"{of(*name('dipper')) / of(*name(other)):.2f}x"
            lines.append(f"| {threads} | {' | '.join(cell(*name(s)) for s in ('dipper', 'bare', 'MariaDB', 'Redis'))} "
                         f"| {ratio('MariaDB')} | {ratio('bare')} |")  # fmt: skip
            if threads == 64:
                lines.append(
                    f"| 64, text | {cell('sysbench', 'dipper text', 64)} | | {cell('sysbench', 'MariaDB text', 64)} | | | |"
                )
            if threads < 16:
                continue
            self.at_least(f"sysbench, {threads} threads: >= 1.4x MariaDB", of(*name("dipper")), of(*name("MariaDB")), 1.4)
            if of(*name("bare")) >= 1.5 * of(*name("MariaDB")):
                self.at_least(
                    f"sysbench, {threads} threads: >= 0.85x the bare server", of(*name("dipper")), of(*name("bare")), 0.85
                )
            self.at_most(f"sysbench, {threads} threads: p99 below MariaDB's", of(*name("dipper"), field="p99_us"),
                         of(*name("MariaDB"), field="p99_us"), 1.0)  # fmt: skip
        servers.sysbench(args, self.dipper, script, 1, 0, *table, "cleanup", check=False)
        return lines

    def row_part(self):
        args = self.args
        if not self.dipper_short_circuit():
            print("the look-up takes no short path: EXPLAIN has no SHORT-CIRCUIT", file=sys.stderr)
        measured = []
        keys = {"3,000 keys": {"key_file": self.keys}, "all keys": {"keys": args.keys_max}}
        for which, choice in keys.items() if self.keys_file() else ():
            for mode in ("prepared", "text"):
                for server in (self.dipper, self.bare, self.mariadb):
                    run = lambda server=server, mode=mode, choice=choice: self.lean(
                        server, connections=args.connections, mode=mode, **choice)  # fmt: skip
                    measured.append((("row_part", which, mode, server.name), run))
        for server in (self.dipper, self.mariadb):
            run = lambda server=server: servers.sysbench(
                args, server, HERE / "row_part.lua", args.connections, args.seconds, f"--keys-file={self.keys}", "run", database=PARTS)  # fmt: skip
            measured.append((("row_part", "sysbench", server.name), run))
        measured.append((("row_part", "Redis"), lambda: self.redis.get(args.connections, args.seconds, args.rows)))
        self.turns.run(measured)
        of, cell = self.turns.of, self.turns.cell
        lines = [f"`row_part`, {args.rows:,} rows, all 9 columns, {args.connections} connections, lean client "
                 f"(Redis GET of 90 bytes: {cell('row_part', 'Redis')}):", "",
                 "| keys | | dipper | bare server | MariaDB | dipper / MariaDB | dipper / bare |", "|---|---|---|---|---|---|---|"]  # fmt: skip
        for which in keys:
            for mode in ("prepared", "text"):
                name = lambda server: ("row_part", which, mode, server)
                ratio = lambda other: f"{of(*name('dipper')) / of(*name(other)):.2f}x"
                lines.append(f"| {which} | {mode} | {' | '.join(cell(*name(s)) for s in ('dipper', 'bare', 'MariaDB'))} "
                             f"| {ratio('MariaDB')} | {ratio('bare')} |")  # fmt: skip
            found = lambda server, mode="prepared": of("row_part", which, mode, server)
            self.at_least(f"row_part, {which}: >= 2x MariaDB, lean client", found("dipper"), found("MariaDB"), 2.0)
            self.at_least(f"row_part, {which}: text >= 0.6x prepared", found("dipper", "text"), found("dipper"), 0.6)
        mine, other = of("row_part", "sysbench", "dipper"), of("row_part", "sysbench", "MariaDB")
        lines.append(f"| 3,000 keys | sysbench | {cell('row_part', 'sysbench', 'dipper')} | | {cell('row_part', 'sysbench', 'MariaDB')} "
                     f"| {mine / other:.2f}x | |")  # fmt: skip
        self.at_least("row_part, sysbench: >= 1.5x MariaDB", mine, other, 1.5)
        return lines

    def keys_file(self):
        return self.dipper and self.keys.exists()

    def dipper_short_circuit(self):
        plan = self.dipper.sql(f"EXPLAIN SELECT * FROM {PARTS}.row_part WHERE p_partkey = 5 AND p_name = 'blush chiffon'")
        return any("SHORT-CIRCUIT" in field for row in plan for field in row)

    def cold(self):
        """Without row cache, and without row store."""
        args = self.args
        self.dipper.load_parts(self.file, "row_part_columns", row_store=False)
        cold = self.keep(servers.Dipper(args, args.data / "point-dipper-cold", more=["--disable-storage-row-cache"]))
        cold.load_parts(self.file)
        connections = args.connections
        self.turns.run([
            (("cold", "row cache"), lambda: self.lean(self.dipper, connections=connections, keys=args.keys_max)),
            (("cold", "no row cache"), lambda: self.lean(cold, connections=connections, keys=args.keys_max)),
            (("cold", "no row store"), lambda: self.lean(self.dipper, connections=connections, keys=args.keys_max, table="row_part_columns")),
        ])  # fmt: skip
        # Latency of one look-up, not of a queue of a hundred.
        alone = self.lean(self.dipper, connections=1, keys=args.keys_max, table="row_part_columns")
        of, cell = self.turns.of, self.turns.cell
        cold.close()
        self.at_least("cold: >= 0.5x warm", of("cold", "no row cache"), of("cold", "row cache"), 0.5)
        p99 = alone["p99_us"]
        self.bar("no row store: p99 <= 5 ms, one connection", p99, p99 <= 5000, micros(p99))
        return [
            f"All keys, prepared, {connections} connections:", "", "| | dipper |", "|---|---|",
            *(f"| {name} | {cell('cold', name)} |" for name in ("row cache", "no row cache", "no row store")),
            f"| no row store, 1 connection | {thousands(alone['qps'])}, {micros(p99)} |",
        ]  # fmt: skip

    def open(self):
        """At half of the peak rate: alone, beside upserts, beside a scan. Latency counts from when a question was due."""
        args = self.args
        peak = self.turns.of("row_part", "all keys", "prepared", "dipper")
        if peak is None:
            peak = self.lean(self.dipper, connections=args.connections, keys=args.keys_max)["qps"]
        rate = args.rate or round(peak / 2, -2)
        seconds = args.seconds * 2
        options = {"connections": args.connections, "keys": args.keys_max, "rate": rate, "seconds": seconds}
        scans = {"alone": self.scans(lambda: time.sleep(args.seconds))[0], "beside": []}

        def beside_scan():
            found, reply = self.scans(lambda: self.lean(self.dipper, **options))
            scans["beside"] += found
            return reply

        self.warm("row_part")
        # The writing runs last: it changes rows, and the others expect them as they were loaded.
        self.turns.run([
            (("open", "alone"), lambda: self.lean(self.dipper, **options)),
            (("open", "scan"), beside_scan),
        ])  # fmt: skip
        for turn in range(args.runs):
            # Each run begins with the rows as they are in the file.
            self.dipper.load_parts(self.file, "row_part_upserts")
            self.warm("row_part_upserts")
            once = Turns(1)
            once.run([(("open", "upserts"), lambda: self.lean(
                self.dipper, mixed=True, http=f"127.0.0.1:{self.dipper.http}", write_rate=args.write_rate, batch=args.batch,
                table="row_part_upserts", **options))])  # fmt: skip
            self.turns.replies.setdefault(("open", "upserts"), []).extend(once.replies["open", "upserts"])
        writes = [reply["writes"] for reply in self.turns.replies["open", "upserts"]]
        p = lambda name, field="p99_us": self.turns.of("open", name, field=field)
        alone, beside = (statistics.median(scans[name]) for name in ("alone", "beside"))
        lines = [f"Open loop, {rate:,.0f} look-ups a second (half of the peak), latency from when each was due:", "",
                 "| | p50 | p99 | p99.9 | p99 / alone | |", "|---|---|---|---|---|---|"]  # fmt: skip
        notes = {
            "alone": "",
            "upserts": f"{statistics.median(w['rows_per_second'] for w in writes):,.0f} rows/s in loads of {args.batch}, "
                       f"p99 of a load {micros(statistics.median(w['p99_us'] for w in writes))}; 0 stale or torn of "
                       f"{sum(r['answers'] for r in self.turns.replies['open', 'upserts']):,}",
            "scan": f"a scan takes {alone * 1000:.0f} ms alone, {beside * 1000:.0f} ms here",
        }  # fmt: skip
        for name, note in notes.items():
            lines.append(f"| {name} | {micros(p(name, 'p50_us'))} | {micros(p(name))} | {micros(p(name, 'p999_us'))} "
                         f"| {p(name) / p('alone'):.1f}x | {note} |")  # fmt: skip
        wrong = sum(reply["wrong"] for reply in self.turns.replies["open", "upserts"])
        self.at_most("open loop: p99 with upserts <= 3x", p("upserts"), p("alone"), 3.0)
        self.at_most("open loop: p99 with a scan <= 3x", p("scan"), p("alone"), 3.0)
        self.at_most("the scan <= 4x its time alone", beside, alone, 4.0)
        self.bar("never a stale or torn row", wrong, wrong == 0, f"{wrong} of them")
        return lines

    def warm(self, table):
        """Asks for rows of a table for so long that most of a million are in the row cache: tables that are compared are equally warm."""
        self.lean(self.dipper, connections=self.args.connections, keys=self.args.keys_max, table=table,
                  warm_up=WARM_UP_TABLE, seconds=1)  # fmt: skip

    def scans(self, work):
        """Scans in a loop while `work` runs: their seconds, and what it gave."""
        found, stop = [], threading.Event()
        command = ["mariadb", "-h127.0.0.1", f"-P{self.dipper.port}", "-uroot", "--skip-ssl", "-N", "-B", "-n"]

        def loop():
            client = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
            while not stop.is_set():
                start = time.perf_counter()
                client.stdin.write(f"{SCAN};\n")
                client.stdin.flush()
                rows = client.stdout.readline().strip()
                if rows != str(self.args.rows):
                    raise RuntimeError(f"a scan counted {rows!r} rows, not {self.args.rows}")
                found.append(time.perf_counter() - start)
            client.stdin.close()
            client.wait()

        scanning = threading.Thread(target=loop)
        scanning.start()
        try:
            reply = work()
        finally:
            stop.set()
            scanning.join()
        if not found:
            raise RuntimeError("no scan ended")
        return found, reply

    def idle(self):
        """Memory of connections that do nothing."""
        server = self.dipper
        lines = ["| connections | memory each | |", "|---|---|---|"]
        for what, more in (("idle", []), ("with the look-up prepared", ["--prepare", "row_part"])):
            before = server.rss_kib()
            client = subprocess.Popen(
                [self.args.point, "idle", "--address", f"127.0.0.1:{server.port}", "--database", PARTS,
                 "--connections", str(self.args.idle), *more],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            )  # fmt: skip
            open_now = json.loads(client.stdout.readline())["connections"]
            time.sleep(1)
            each = (server.rss_kib() - before) / open_now
            lines.append(f"| {open_now:,} {what} | {each:.1f} KiB | server {server.rss_kib() / 1024:.0f} MiB |")
            if not more:
                self.bar("an idle connection <= 20 KB", each, each * 1.024 <= 20, f"{each:.1f} KiB")
            client.stdin.close()
            client.wait()
            time.sleep(1)
        return lines

    def jmeter(self):
        self.keys_file()
        host = f"127.0.0.1:{self.dipper.port}"
        return jmeter.table(host, self.keys, self.args.jmeter_seconds, self.dipper.cores)


def write_readme(lines):
    readme = HERE.parent / "README.md"
    text = readme.read_text()
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    if not rest:
        raise SystemExit(f"{readme} has no {BEGIN}")
    readme.write_text(before + BEGIN + "\n" + "\n".join(lines) + "\n" + END + after)


def main():
    root = HERE.parent.parent
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dipper", required=True, help="the dipper binary")
    parser.add_argument("--gen", required=True, help="the dipper-gen binary")
    parser.add_argument("--point", help="the dipper-point binary; beside dipper-gen if not given")
    parser.add_argument("--data", type=Path, default=root / "target" / "bench", help="where files and tables are kept")
    parser.add_argument("--steps", default=",".join(STEPS), help="which steps")
    parser.add_argument("--cores", default="0,1", help="cores that servers and clients are bound to")
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of row_part; 32000000 as in the article")
    parser.add_argument("--keys-max", type=int, default=1_000_000, help="of all keys so many are asked for, evenly spread")
    parser.add_argument("--sbtest", type=int, default=1_000_000, help="rows of sysbench's table")
    parser.add_argument("--threads", type=lambda text: [int(n) for n in text.split(",")], default=[1, 16, 64], help="of sysbench")
    parser.add_argument("--connections", type=int, default=100, help="connections that look rows of row_part up")
    parser.add_argument("--client-threads", type=int, default=1, help="threads of the lean client")
    parser.add_argument("--runs", type=int, default=3, help="rounds; figures are medians")
    parser.add_argument("--seconds", type=int, default=10, help="of each run")
    parser.add_argument("--warm-up", type=float, default=2.0, help="seconds before each run of the lean client")
    parser.add_argument("--rate", type=float, help="look-ups a second of the open loop; half of the peak if not given")
    parser.add_argument("--write-rate", type=float, default=20_000, help="rows upserted a second beside the open loop")
    parser.add_argument("--batch", type=int, default=1000, help="rows of one load")
    parser.add_argument("--idle", type=int, default=10_000, help="idle connections")
    parser.add_argument("--jmeter-seconds", type=int, default=60, help="for each line of JMeter's table")
    parser.add_argument("--buffer-gib", type=int, default=2, help="MariaDB's buffer pool; 10 for 32 million rows")
    parser.add_argument("--server-args", default="", help="more arguments for dipper's server, divided by blanks")
    parser.add_argument("--readme", action="store_true", help="write the result into benchmarks/README.md")
    args = parser.parse_args()
    args.point = args.point or str(Path(args.gen).parent / "dipper-point")
    servers.apt(NEEDED)
    # 10,000 connections and their files.
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    os.environ["PATH"] = servers.path()
    args.data = args.data.resolve()
    args.data.mkdir(parents=True, exist_ok=True)
    # Ended by make or timeout: the servers end too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    bench = Bench(args)
    lines = [f"{machine(args)}, load average before {Path('/proc/loadavg').read_text().split()[0]}; rate and p99, medians of "
             f"{args.runs} runs of {args.seconds} s in turns, loopback, everything on the same cores."]  # fmt: skip
    try:
        for step in args.steps.split(","):
            lines += ["", *getattr(bench, step)()]
    finally:
        bench.close()
    lines += ["", f"Widest spread of the runs behind a median: {bench.turns.spread() * 100:.0f}%."]
    if bench.bars:
        lines += ["", "| bar | found | met |", "|---|---|---|", *bench.bars]
    print("\n".join(lines))
    if args.readme:
        write_readme(lines)
    if bench.wrong:
        print(f"{bench.wrong} wrong answers", file=sys.stderr)
    sys.exit(1 if bench.wrong or getattr(bench, "failed", False) else 0)


if __name__ == "__main__":
    main()
