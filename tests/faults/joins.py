#!/usr/bin/env python3
"""Joins of eight clients at once that do not all fit in memory: each ends, with its answer or an error, and none is left waiting.

    joins.py --server BINARY [--rounds 20] [--rows 200000] [--memory 48] [--seconds 0] [--seed 1]

Each round is one statement of KINDS, or different ones, from all clients. A statement that takes longer than LIMIT seconds is a
failure; whether it computes or waits is told by the CPU seconds of the server. Such a statement is killed, and that must end it.
Answers that come must be those that come where there is enough memory. At the end the server must have given back what it took.
With --rows 4000000 --memory 512 it is what `big` of four million rows was first seen to wait with.
"""

import argparse
import pathlib
import random
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "limits"))
from run import Limited, Refused  # noqa: E402

CLIENTS = 8
LIMIT = 120
KINDS = [
    "SELECT count(b.k), sum(length(a.t)) FROM big a LEFT JOIN big b ON a.k = b.v AND b.k > a.k",
    "SELECT count(*), sum(length(b.t)) FROM big a JOIN big b ON a.k = b.v WHERE a.t <> b.t",
    "SELECT count(a.k), sum(length(b.s)) FROM big a RIGHT JOIN big b ON a.v = b.k AND a.s <> b.s",
    "SELECT count(a.k), count(b.k), sum(length(a.s)) FROM big a FULL JOIN big b ON a.k = b.v AND a.t < b.t",
    "SELECT count(*), sum(length(s)) FROM big WHERE k IN (SELECT v FROM big WHERE s > 'name number 3')",
    "SELECT count(*), sum(length(s)) FROM big WHERE k NOT IN (SELECT v FROM big WHERE v IS NOT NULL)",
    "SELECT count(*) FROM big a WHERE EXISTS (SELECT 1 FROM big b WHERE b.v = a.k AND b.t <> a.t) OR a.k % 7 = 0",
    "SELECT count(*) FROM big a WHERE NOT EXISTS (SELECT 1 FROM big b WHERE b.v = a.k AND b.k > a.k)",
    "SELECT count(*), max(n) FROM big a JOIN (SELECT v, s, count(*) n FROM big GROUP BY v, s) b ON a.k = b.v AND a.s <= b.s",
    "SELECT count(*), sum(r) FROM (SELECT a.k, row_number() OVER (PARTITION BY b.v ORDER BY a.s, a.k) r FROM big a JOIN big b ON a.v = b.k) q",
    "SELECT count(*) FROM (SELECT DISTINCT a.s, b.t, b.k FROM big a LEFT JOIN big b ON a.k = b.v) q",
    "SELECT a.k, b.s FROM big a JOIN big b ON a.k = b.v ORDER BY b.s, a.k LIMIT 3",
    "SELECT count(*) FROM (SELECT a.k x FROM big a JOIN big b ON a.k = b.v UNION ALL SELECT b.k FROM big a RIGHT JOIN big b ON a.v = b.k) q",
    "SELECT count(*) FROM big a JOIN big b ON a.k = b.v JOIN big c ON b.k = c.v AND c.t >= a.t",
    "SELECT count(*) FROM big a LEFT JOIN (SELECT * FROM big WHERE k % 5000 = 1) b ON a.v < b.v AND a.k > b.k * 2",
    "SELECT count(*) FROM (SELECT s, t FROM big WHERE k % 3 = 0 INTERSECT SELECT s, t FROM big WHERE k % 2 = 0) q",
    "SELECT count(*), max(length(g)) FROM (SELECT b.v % 1000 x, group_concat(b.t ORDER BY b.k) g FROM big a JOIN big b ON a.k = b.v GROUP BY 1) q",
]


def prepare(directory, options):
    server = Limited(options.server, directory, "--memory", "2GiB")
    try:
        client = server.client()
        client.in_new_database("m")
        client.query("CREATE TABLE big (k BIGINT NOT NULL, v BIGINT, s VARCHAR(64), t VARCHAR(100)) DUPLICATE KEY(k) DISTRIBUTED BY HASH(k) BUCKETS 4")
        client.query(
            f"INSERT INTO big SELECT number, number * 7919 % {options.rows // 4 + 3}, concat('name number ', number * 31 % 99991), "
            f"repeat('z', number % 60) FROM numbers('number'='{options.rows}')"
        )
        return [client.query(kind) for kind in KINDS] if options.rows <= 1_000_000 else None
    finally:
        server.stop()


def executing(control):
    """Statements of others that SHOW PROCESSLIST has, as (id, text)."""
    own = control.query("SELECT connection_id()")[0][0]
    rows = control.query("SHOW PROCESSLIST")
    return [(row[0].decode(), (row[7] or b"").decode()) for row in rows if row[0] != own and row[4] == b"Query"]


class Round:
    """The statements of all clients, by number of KINDS."""

    def __init__(self, server, chosen, expected):
        self.server, self.chosen, self.expected = server, chosen, expected
        self.ends, self.wrong = [], []

    def one(self, kind):
        try:
            client = self.server.client()
            client.query("USE m")
            rows = client.query(KINDS[kind])
            self.ends.append("rows")
            if self.expected and rows != self.expected[kind]:
                self.wrong.append(f"wrong: {KINDS[kind]}\n  found {rows}\n  wanted {self.expected[kind]}")
        except Refused as error:
            self.ends.append(str(error.code))
            if error.code not in (1041, 1317):
                self.wrong.append(f"{error}: {KINDS[kind]}")
        except OSError as error:
            self.wrong.append(f"{error}: {KINDS[kind]}")

    def run(self):
        threads = [threading.Thread(target=self.one, args=(kind,), daemon=True) for kind in self.chosen]
        [t.start() for t in threads]
        end = time.monotonic() + LIMIT
        [t.join(max(0.1, end - time.monotonic())) for t in threads]
        if any(t.is_alive() for t in threads):
            self.tell_waiting()
            [t.join(10) for t in threads]
            if any(t.is_alive() for t in threads):
                self.wrong.append("and KILL did not end it")

    def tell_waiting(self):
        control, begun = self.server.client(), self.server.cpu_seconds()
        time.sleep(3)
        spent = self.server.cpu_seconds() - begun
        for number, text in executing(control):
            self.wrong.append(f"after {LIMIT} s ({spent:.1f} CPU seconds in 3 s): {text}")
            control.query(f"KILL {number}")


def ends_on_time(server):
    """query_timeout and KILL end a join that would take for ever."""
    client, control = server.client(), server.client()
    endless = "SELECT count(*) FROM m.big a JOIN m.big b ON a.s <> concat(b.s, a.t) JOIN m.big c ON c.s <> concat(b.s, a.t)"
    client.query("SET query_timeout = 1")
    begun = time.monotonic()
    try:
        client.query(endless)
        return "an endless join was answered"
    except Refused:
        pass
    client.query("SET query_timeout = 300")
    number = client.query("SELECT connection_id()")[0][0].decode()
    threading.Timer(1, lambda: control.query(f"KILL QUERY {number}")).start()
    try:
        client.query(endless)
        return "an endless join was answered"
    except Refused:
        took = time.monotonic() - begun
        return None if took < 12 else f"query_timeout and KILL took {took:.0f} s"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--server", required=True)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--memory", type=int, default=48, help="MiB")
    parser.add_argument("--seconds", type=float, default=0, help="no round begins after so many")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    dice, ends, wrong, rounds = random.Random(options.seed), {}, [], 0
    with tempfile.TemporaryDirectory(prefix="dipper-joins-") as directory:
        directory = pathlib.Path(directory)
        expected = prepare(directory, options)
        server = Limited(options.server, directory, "--memory", f"{options.memory}MiB")
        try:
            begun = time.monotonic()
            if late := ends_on_time(server):
                wrong.append(late)
            while rounds < options.rounds and not (options.seconds and time.monotonic() > begun + options.seconds):
                kinds = range(len(KINDS))
                chosen = [dice.choice(kinds)] * CLIENTS if rounds % 2 else [dice.choice(kinds) for _ in range(CLIENTS)]
                one = Round(server, chosen, expected)
                one.run()
                rounds += 1
                for end in one.ends:
                    ends[end] = ends.get(end, 0) + 1
                for text in one.wrong:
                    print(f"round {rounds}: {text}", flush=True)
                wrong += one.wrong
                if server.process.poll() is not None:
                    wrong.append("the server has ended")
                    break
                if left := executing(server.client()):
                    wrong.append(f"round {rounds}: left executing: {left}")
            took = time.monotonic() - begun
        finally:
            server.stop()
    told = ", ".join(f"{count} {end}" for end, count in sorted(ends.items()))
    print(f"{rounds} rounds of {CLIENTS} statements in {took:.0f} s: {told}; {len(wrong)} wrong")
    for text in wrong:
        print(f"FAIL {text}")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
