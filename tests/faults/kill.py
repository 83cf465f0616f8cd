#!/usr/bin/env python3
"""Kills a dipper server (kill -9) at random moments of loads, updates, compactions, schema changes and vacuum, starts it
again, and checks what it promised:

- every acknowledged load is there, once;
- no unacknowledged load is there in part;
- keys of UNIQUE tables are unique, and hold the newest acknowledged value;
- AGGREGATE sums count every load once;
- of a transaction (BEGIN ... COMMIT, or several loads of one) all statements are there or none, for readers at any time:
  money that moves between accounts is neither made nor lost.

    tests/faults/kill.py --server BIN [--cycles 300] [--seed N] [--keep DIR] [--data s3 [--faults]]

With `--data s3` the database is in a bucket (see bucket.py), with `--faults` behind a proxy that loses and refuses requests.

Needs PyMySQL (the virtual environment of tests/clients has it).
"""

import argparse
import http.client
import pathlib
import random
import shutil
import sys
import tempfile
import threading
import time
import urllib.parse

import pymysql

import bucket

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from server import Server  # noqa: E402

ROWS = 50
BUCKETS = 4
ACCOUNTS = 20
MONEY = 100
# The transaction lost against another one.
REPEAT = 1213
TABLES = {
    "dup": "CREATE TABLE IF NOT EXISTS dup (load_id BIGINT, n INT, pad VARCHAR(64)) DUPLICATE KEY(load_id, n) "
    "DISTRIBUTED BY HASH(n) BUCKETS %d" % BUCKETS,
    "uniq": "CREATE TABLE IF NOT EXISTS uniq (k INT, load_id BIGINT, pad VARCHAR(64)) UNIQUE KEY(k) "
    "DISTRIBUTED BY HASH(k) BUCKETS %d" % BUCKETS,
    "agg": "CREATE TABLE IF NOT EXISTS agg (k INT, loads BIGINT SUM, last BIGINT MAX) AGGREGATE KEY(k) "
    "DISTRIBUTED BY HASH(k) BUCKETS %d" % BUCKETS,
    "bank": "CREATE TABLE IF NOT EXISTS bank (k INT, money BIGINT) UNIQUE KEY(k) DISTRIBUTED BY HASH(k) BUCKETS %d" % BUCKETS,
}


class Node(Server):
    """A server with the tables of this test."""

    def __init__(self, binary, data, directory, environment=None):
        super().__init__(binary, directory, "--cache-dir", directory / "cache", "--cache-size", "1GiB", data=data, start=False,
                         env=environment)
        # Whether the database of the tables is there.
        self.created = False

    def connect(self):
        return super().connect(database="faults" if self.created else None, read_timeout=60)

    def load(self, table, label, body, headers=()):
        """The answer to a Stream Load."""
        return self.labelled("PUT", f"/api/faults/{table}/_stream_load", label, body, headers)

    def labelled(self, method, path, label, body=b"", headers=()):
        """The answer to a request about a load."""
        label = {"label": label} if label else {}
        return self.answer(method, path, body, {"column_separator": ",", "Expect": "100-continue", **label, **dict(headers)})


def labelled(table, n):
    """Half of the loads have none. What sums hold is only known by labels."""
    return table == "agg" or n % 2 == 0


class Writers:
    """Clients that load until the server dies; they remember what was acknowledged and what is open."""

    def __init__(self, server, rng, first):
        self.server = server
        self.stop = threading.Event()
        self.lock = threading.Lock()
        self.next = first
        self.acknowledged = {"dup": set(), "uniq": {}, "agg": set()}
        self.open = {"dup": set(), "uniq": {}, "agg": set()}
        self.seeds = [rng.random() for _ in range(14)]
        self.wrong = []

    def number(self):
        with self.lock:
            self.next += 1
            return self.next

    def loader(self, table, seed, base):
        """Writers of `uniq` have keys of their own, so that the newest acknowledged value is known."""
        rng = random.Random(seed)
        while not self.stop.is_set():
            n = self.number()
            keys = []
            if table == "dup":
                body = "".join(f"{n},{i},{'x' * rng.randrange(40)}\n" for i in range(ROWS))
            elif table == "uniq":
                keys = rng.sample(range(base, base + 500), ROWS)
                body = "".join(f"{k},{n},{'y' * rng.randrange(40)}\n" for k in keys)
            else:
                body = "".join(f"{i},1,{n}\n" for i in range(ROWS))
            with self.lock:
                if table == "uniq":
                    self.open[table][n] = keys
                else:
                    self.open[table].add(n)
            try:
                label = f"{table}-{n}" if labelled(table, n) else None
                answer = self.server.load(table, label, body.encode())
            except (OSError, http.client.HTTPException, ValueError):
                if self.server.process.poll() is None and not self.stop.is_set():
                    time.sleep(0.01)
                    continue
                return
            with self.lock:
                if answer["Status"] == "Success":
                    if answer["NumberLoadedRows"] != ROWS:
                        raise SystemExit(f"load {n}: {answer}")
                    if table == "uniq":
                        for k in keys:
                            self.acknowledged[table][k] = n
                        del self.open[table][n]
                    else:
                        self.acknowledged[table].add(n)
                        self.open[table].discard(n)
                elif answer["Status"] == "Fail":
                    if table == "uniq":
                        del self.open[table][n]
                    else:
                        self.open[table].discard(n)

    def note(self, error):
        """Notes a client's error, unless it is that its server was killed."""
        # Connections end a moment before their server has.
        end = time.time() + 2
        while time.time() < end:
            if self.server.process.poll() is not None or self.stop.is_set():
                return
            time.sleep(0.05)
        self.wrong.append(repr(error))

    def transactor(self, seed):
        """Loads into `dup` in two halves, by BEGIN and COMMIT or by several loads of one transaction."""
        rng = random.Random(seed)
        try:
            connection = self.server.connect()
            with connection.cursor() as cursor:
                while not self.stop.is_set():
                    n = self.number()
                    rows = [(n, i, "t" * rng.randrange(40)) for i in range(ROWS)]
                    halves = rows[: ROWS // 2], rows[ROWS // 2 :]
                    commits = rng.random() < 0.8
                    if commits:
                        with self.lock:
                            self.open["dup"].add(n)
                    if labelled("dup", n):
                        done = self.several_loads(f"dup-{n}", halves, commits, rng)
                    else:
                        cursor.execute("BEGIN")
                        for half in halves:
                            cursor.execute("INSERT INTO dup (load_id, n, pad) VALUES " + ",".join(map(str, half)))
                        cursor.execute("COMMIT" if commits else "ROLLBACK")
                        done = commits
                    if done:
                        with self.lock:
                            self.acknowledged["dup"].add(n)
                            self.open["dup"].discard(n)
        except (pymysql.err.Error, OSError, http.client.HTTPException, ValueError) as e:
            self.note(e)

    def several_loads(self, label, halves, commits, rng):
        table = {"db": "faults", "table": "dup", "columns": "load_id,n,pad"}
        steps = [("POST", "begin", b"")]
        steps += [("PUT", "load", "".join(f"{n},{i},{pad}\n" for n, i, pad in half).encode()) for half in halves]
        if commits:
            steps += [("POST", "prepare", b"")] if rng.random() < 0.7 else []
            steps += [("POST", "commit", b"")]
        else:
            steps += [("POST", "rollback", b"")]
        for method, step, body in steps:
            answer = self.server.labelled(method, f"/api/transaction/{step}", label, body, table)
            if answer.get("Status") != "OK":
                self.wrong.append(f"{step} of {label}: {answer}")
                return False
        return commits

    def payer(self, seed):
        """Moves money between two accounts, by two UPDATEs of one transaction."""
        rng = random.Random(seed)
        try:
            connection = self.server.connect()
            with connection.cursor() as cursor:
                while not self.stop.is_set():
                    one, other = rng.sample(range(ACCOUNTS), 2)
                    try:
                        cursor.execute("BEGIN")
                        cursor.execute(f"UPDATE bank SET money = money - 1 WHERE k = {one}")
                        cursor.execute(f"UPDATE bank SET money = money + 1 WHERE k = {other}")
                        cursor.execute("COMMIT" if rng.random() < 0.9 else "ROLLBACK")
                    except pymysql.err.OperationalError as e:
                        if e.args[0] != REPEAT:
                            raise
        except (pymysql.err.Error, OSError) as e:
            self.note(e)

    def auditor(self, seed):
        """Reads all accounts while money moves."""
        rng = random.Random(seed)
        try:
            connection = self.server.connect()
            with connection.cursor() as cursor:
                while not self.stop.is_set():
                    cursor.execute("SELECT count(*), sum(money) FROM bank")
                    found = tuple(map(int, cursor.fetchone()))
                    if found != (ACCOUNTS, ACCOUNTS * MONEY):
                        self.wrong.append(f"bank: {found[0]} accounts with {found[1]}")
                    time.sleep(rng.random() * 0.02)
        except (pymysql.err.Error, OSError) as e:
            self.note(e)

    def disturber(self, seed):
        """Schema changes, compactions, deletes of what nobody checks."""
        rng = random.Random(seed)
        column = 0
        try:
            connection = self.server.connect()
            with connection.cursor() as cursor:
                while not self.stop.is_set():
                    column += 1
                    name = f"c{int(seed * 1e6)}_{column}"
                    statements = [
                        f"ALTER TABLE dup ADD COLUMN {name} INT DEFAULT '7'",
                        f"ALTER TABLE dup DROP COLUMN {name}",
                        "ALTER TABLE uniq COMPACT",
                        "ALTER TABLE dup COMPACT",
                        "ALTER TABLE agg COMPACT",
                        "DELETE FROM uniq WHERE k < 0",
                    ]
                    for statement in statements:
                        cursor.execute(statement)
                        time.sleep(rng.random() * 0.02)
        except (pymysql.err.Error, OSError) as e:
            if self.server.process.poll() is None and not self.stop.is_set() and "Lost connection" not in str(e):
                print("disturber:", e, file=sys.stderr)

    def run(self):
        jobs = [("dup", 0), ("dup", 1), ("dup", 2), ("uniq", 3), ("uniq", 4), ("uniq", 5), ("uniq", 6), ("agg", 7)]
        self.threads = [threading.Thread(target=self.loader, args=(t, self.seeds[i], 1000 * i)) for t, i in jobs]
        others = [self.disturber, self.transactor, self.transactor, self.payer, self.payer, self.auditor]
        self.threads += [threading.Thread(target=run, args=(seed,)) for run, seed in zip(others, self.seeds[8:])]
        for t in self.threads:
            t.start()

    def join(self):
        self.stop.set()
        for t in self.threads:
            t.join()


class Truth:
    """What was acknowledged in all cycles, and what may or may not have happened."""

    def __init__(self):
        self.sure = {"dup": set(), "agg": set()}
        self.maybe = {"dup": set(), "agg": set()}
        self.keys = {}
        self.key_maybe = {}

    def add(self, writers):
        for table in ("dup", "agg"):
            self.sure[table] |= writers.acknowledged[table]
            self.maybe[table] |= writers.open[table]
        for k, n in writers.acknowledged["uniq"].items():
            self.keys[k] = n
        for n, keys in writers.open["uniq"].items():
            for k in keys:
                self.key_maybe.setdefault(k, set()).add(n)

    def check(self, server):
        with server.connect() as connection, connection.cursor() as cursor:
            cursor.execute("SELECT load_id, count(*), count(DISTINCT n) FROM dup GROUP BY load_id")
            there = {}
            for n, rows, distinct in cursor.fetchall():
                expect(rows == ROWS and distinct == ROWS, f"dup: load {n} has {rows} rows, {distinct} distinct")
                there[n] = rows
            self.settle("dup", set(there))
            cursor.execute("SELECT count(*), sum(money) FROM bank")
            accounts, money = map(int, cursor.fetchone())
            expect((accounts, money) == (ACCOUNTS, ACCOUNTS * MONEY), f"bank: {accounts} accounts with {money}")
            cursor.execute("SELECT count(*), count(DISTINCT k) FROM uniq")
            rows, distinct = cursor.fetchone()
            expect(rows == distinct, f"uniq: {rows} rows, {distinct} keys")
            cursor.execute("SELECT k, load_id FROM uniq")
            seen = dict(cursor.fetchall())
            for k, n in self.keys.items():
                allowed = {n} | {m for m in self.key_maybe.get(k, ()) if m > n}
                expect(seen.get(k) in allowed, f"uniq: key {k} is {seen.get(k)}, expected one of {sorted(allowed)}")
            for k, n in seen.items():
                expect(k in self.keys or n in self.key_maybe.get(k, ()), f"uniq: key {k} = {n} was never loaded")
                self.keys[k] = n
            self.key_maybe.clear()
            cursor.execute("SELECT min(loads), max(loads), count(*) FROM agg")
            low, high, keys = cursor.fetchone()
            if keys:
                expect(keys == ROWS and low == high, f"agg: {keys} keys, between {low} and {high} loads")
            count = int(low or 0)
            sure, maybe = len(self.sure["agg"]), len(self.maybe["agg"])
            expect(sure <= count <= sure + maybe, f"agg: {count} loads, expected {sure} to {sure + maybe}")
            # Labels tell which of the open loads took place.
            for n in sorted(self.maybe["agg"]):
                if label_state(server, f"agg-{n}") == "VISIBLE":
                    self.sure["agg"].add(n)
            self.maybe["agg"].clear()
            expect(len(self.sure["agg"]) == count, f"agg: labels say {len(self.sure['agg'])} loads, the sums {count}")

    def settle(self, table, there):
        missing = self.sure[table] - there
        expect(not missing, f"{table}: acknowledged loads are missing: {sorted(missing)[:10]}")
        extra = there - self.sure[table] - self.maybe[table]
        expect(not extra, f"{table}: loads that nobody made: {sorted(extra)[:10]}")
        for n in sorted(self.maybe[table])[:5]:
            visible = n in there
            said = label_state_of(n, table) if labelled(table, n) else None
            if said is not None:
                expect(visible == said, f"{table}: load {n} visible={visible}, its label says {said}")
        self.sure[table] |= there
        self.maybe[table].clear()


SERVER = None


def label_state(server, label):
    answer = server.answer("GET", "/api/faults/get_load_state?label=" + urllib.parse.quote(label))
    return answer.get("data") or answer.get("state")


def label_state_of(n, table):
    state = label_state(SERVER, f"{table}-{n}")
    return {"VISIBLE": True, "COMMITTED": True, "ABORTED": False, "UNKNOWN": False}.get(state)


def expect(condition, message):
    if not condition:
        raise SystemExit("FAILED: " + message)


def main():
    global SERVER
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", required=True, type=pathlib.Path)
    parser.add_argument("--cycles", type=int, default=300)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--keep", type=pathlib.Path, help="directory for the data, kept")
    parser.add_argument("--data", choices=["local", "s3"], default="local", help="where the database is")
    parser.add_argument("--faults", action="store_true", help="requests to the bucket fail now and then")
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    rng = random.Random(options.seed)
    directory = options.keep or pathlib.Path(tempfile.mkdtemp(prefix="dipper-faults-"))
    directory.mkdir(parents=True, exist_ok=True)
    gateway = proxy = None
    if options.data == "s3":
        gateway = bucket.Gateway(directory / "gateway")
        port = gateway.port
        if options.faults:
            shares = dict.fromkeys(["error_500", "slow_down", "reset_before", "lost_answer", "short_body"], 0.01)
            proxy = bucket.Proxy(port, bucket.Faults(options.seed, conflict=0.02, slow_body=0.01, **shares))
            port = proxy.port
        server = Node(options.server, f"s3://{bucket.BUCKET}/db", directory, bucket.environment(port))
    else:
        server = Node(options.server, directory / "data", directory)
    SERVER = server
    truth, loads, begun = Truth(), 0, time.time()
    try:
        server.start()
        with server.connect() as connection, connection.cursor() as cursor:
            cursor.execute("CREATE DATABASE IF NOT EXISTS faults")
            cursor.execute("USE faults")
            for ddl in TABLES.values():
                cursor.execute(ddl)
            cursor.execute("INSERT INTO bank VALUES " + ",".join(f"({k}, {MONEY})" for k in range(ACCOUNTS)))
        server.created = True
        first = int(time.time()) * 1000
        for cycle in range(options.cycles):
            writers = Writers(server, rng, first)
            writers.run()
            time.sleep(0.05 + rng.random() * 1.2)
            server.kill()
            writers.join()
            expect(not writers.wrong, f"{writers.wrong[:3]}")
            first = writers.next
            truth.add(writers)
            if cycle % 10 == 9:
                wrong = server.check()
                expect(wrong is None, f"dipper check: {wrong}")
            server.start()
            truth.check(server)
            loads = len(truth.sure["dup"]) + len(truth.sure["agg"])
            if cycle % 20 == 19 or cycle + 1 == options.cycles:
                print(f"{cycle + 1} cycles, {loads} loads into dup and agg, {len(truth.keys)} keys, "
                      f"{time.time() - begun:.0f} s", flush=True)
        print("every acknowledged load is there once, none in part, keys are unique, no money was made or lost")
    finally:
        server.stop()
        if proxy:
            print(f"requests {proxy.faults.requests}, injected {proxy.faults.injected}")
            proxy.stop()
        if gateway:
            gateway.stop()
        if not options.keep:
            shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main()
