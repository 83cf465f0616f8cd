#!/usr/bin/env python3
"""Does any function cost more than its work? Every function that SHOW FUNCTIONS names, at n, 2n and 4n.

    growth.py BINARY [--only PART_OF_A_NAME] [--form rows|values|plain|groups|kept|frames|running] [--all] [--list]

A function is called with whatever arguments it takes of a table's columns, found by trying. Scalar functions run over n rows of
small values, and over one row whose values have n members or characters; aggregates over n rows, by group, over frames of a
quarter of n rows that move, and over all rows so far, and with nested values by as many groups as rows; window functions over n
rows. Each line has the seconds at n, 2n and 4n and the exponent between
n and 4n. A line is marked where 4n takes more than 0.25 s and

- the exponent is above 1.35, and above that of the result's own size by 0.3, or
- (plain, groups) it takes more than 10 times as long as COUNT(DISTINCT k) over the same rows, by the same groups, or
- (rows) it takes more than 100 times as long, with the text of its results, or
- it takes more than 30 s.

KNOWN says of some why that is so. Any other marked line makes the exit status 1. --all prints every line, --list the calls. Takes
some ten minutes on two cores.
"""

import argparse
import itertools
import math
import pathlib
import sys
import tempfile
import time

from run import Limited, Refused

SLOW = 0.25
EXPONENT = 1.35
TIMES, TIMES_ROWS = 10, 100
LIMIT = 30
ROWS, VALUES, FRAMES = 30_000, 20_000, 2_000

# Words of a call, and what they are of a row with the number `number`.
COLUMNS = {
    "k": "number",
    "v": "number * 7919 % 100003",
    "d": "number * 7919 % 100003 / 8",
    "s": "concat('name number ', number * 31 % 99991)",
    "b": "number % 3 = 0",
    "day": "date_add('2020-01-01', interval number % 3000 day)",
    "at": "date_add('2020-01-01', interval number second)",
    "li": "array(number % 7, number % 11, 3, 4)",
    "ls": "array('a', concat('b', number % 7), 'c')",
    "mp": "map(1, number, 2, 2)",
    "js": "concat('{\"a\":[1,', number, '],\"b\":\"x\"}')",
}
# The same of one row whose values have n members or characters.
LONG = {
    "k": "3",
    "v": "2",
    "d": "2.5",
    "s": "(select group_concat(concat('w', number * 31 % 9973), ',' order by number) from numbers('number'='{n}'))",
    "b": "true",
    "day": "date '2020-01-01'",
    "at": "cast('2020-01-01 01:02:03' as datetime)",
    "li": "(select array_agg(number * 7919 % {n} order by number) from numbers('number'='{n}'))",
    "ls": "(select array_agg(concat('w', number * 31 % 9973) order by number) from numbers('number'='{n}'))",
    "mp": "(select concat('{', group_concat(concat(number, ':', number * 2), ','), '}') from numbers('number'='{n}'))",
    "js": "(select concat('[', group_concat(number, ','), ']') from numbers('number'='{n}'))",
}
SIZED = {"s", "li", "ls", "mp", "js"}
DERIVED = ["to_bitmap(k)", "hll_hash(s)"]
# Nested values, of which an aggregate may keep one for each group.
NESTED = ["named_struct('a', k, 'b', s)", "array(s, s)", "map(k, s)"]
CONSTANTS = ["2", "'a'", "0.5", "'$.a'"]
SINGLES = [*COLUMNS, *DERIVED]
FIRSTS = ["s", "li", "k", "ls", "d", "at", "mp", "js", "b", "to_bitmap(k)"]
SECONDS = ["'a'", "2", "s", "li", "0.5", "ls", "k", "at", "'$.a'", "mp", "to_bitmap(k)", "b"]
THIRDS = ["s", "2", "'a'", "at", "li", "0.5"]
# Those that do what is not measured, or that take nothing of a row.
LEFT_OUT = {"sleep", "version", "random_bytes"}
# What is marked and stays so, by name and form.
KNOWN = {}


class Sweep:
    def __init__(self, client, options):
        self.client, self.options = client, options
        self.marked, self.known, self.measured, self.not_called = [], [], 0, []
        self.counted = {}

    def prepare(self):
        q = self.client.query
        q("create database growth")
        q("use growth")
        q(f"set query_timeout = {LIMIT}")
        types = {"k": "bigint", "v": "bigint", "d": "double", "s": "string", "b": "boolean", "day": "date", "at": "datetime",
                 "li": "array<bigint>", "ls": "array<string>", "mp": "map<bigint, bigint>", "js": "string"}  # fmt: skip
        declared = ", ".join(f"{name} {types[name]}" for name in COLUMNS)
        values = ", ".join(COLUMNS.values())
        for name, rows in [("probe", 5), *((f"rows{m}", ROWS * m) for m in (1, 2, 4)), *((f"frames{m}", FRAMES * m) for m in (1, 2, 4))]:
            q(f"create table {name} ({declared}) duplicate key(k) distributed by hash(k) buckets 2")
            q(f"insert into {name} select {values} from numbers('number'='{rows}')")
        for m in (1, 2, 4):
            long = {name: value.replace("{n}", str(VALUES * m)) for name, value in LONG.items()}
            q(f"create table values{m} ({declared}) duplicate key(k) distributed by hash(k) buckets 1")
            q(f"insert into values{m} select {', '.join(long.values())}")

    def takes(self, call):
        """2 if the call gives values, 1 if it gives NULL, 0 if it is refused."""
        try:
            rows = self.client.query(f"select {call} from probe limit 3")
        except Refused:
            return 0
        return 2 if any(row[0] is not None for row in rows) else 1

    def calls(self, name, kind):
        """Calls of a function that are answered: for each number of arguments those with two different first ones."""
        behind = " over (order by k)" if kind == "window" else ""
        found, of_nulls = [], []

        def try_all(arguments, most):
            firsts = set()
            for given in arguments:
                if len(firsts) == most:
                    return
                if given[:1] in firsts or not (takes := self.takes(call := f"{name}({', '.join(given)}){behind}")):
                    continue
                (found if takes == 2 else of_nulls).append((given, call))
                if takes == 2:
                    firsts.add(given[:1])

        try_all([()], 1)
        try_all([(a,) for a in SINGLES], 2)
        try_all(list(itertools.product(FIRSTS, SECONDS)), 2)
        if not any(given for given, _ in found):
            try_all(itertools.product(["s", "li", "at", "k", "d"], *[THIRDS] * 2), 1)
        return found or of_nulls[:1]

    def calls_of_nested(self, name):
        """Calls of an aggregate with nested values, also in an order."""
        forms = [f"{name}({{}})", f"{name}({{}}, k)", f"{name}(k, {{}})", f"{name}({{}} order by k)", f"{name}(distinct {{}})", f"{name}(distinct {{}}, k)"]
        return [call for form in forms for nested in NESTED if self.takes(call := form.format(nested)) == 2]

    def timed(self, text):
        """Seconds, and the size of the result."""
        best, size = math.inf, 0
        for _ in range(2):
            begun = time.monotonic()
            rows = self.client.query(text)
            best = min(best, time.monotonic() - begun)
            size = float(rows[0][0] or 0) if rows and rows[0] else 0
            if best > 1:
                break
        return best, size

    def measure(self, name, form, call, statement, factor):
        if self.options.form and form != self.options.form:
            return
        label = f"{form:7} {call}"
        times, sizes = [], []
        try:
            for m in (1, 2, 4):
                seconds, size = self.timed(statement(m))
                times.append(seconds)
                sizes.append(size)
        except Refused as error:
            late = "query_timeout" in error.message or "timeout" in error.message.lower()
            if late:
                self.mark(name, form, f"{label:60} more than {LIMIT} s")
            elif self.options.all:
                print(f"{label:60} refused: {str(error)[:90]}", flush=True)
            return
        self.measured += 1
        exponent = math.log(times[2] / times[0]) / math.log(4)
        grown = math.log(max(sizes[2], 1) / max(sizes[0], 1)) / math.log(4)
        line = f"{label:60} {times[0]:7.3f} {times[1]:7.3f} {times[2]:7.3f} s  n^{exponent:.2f}, result n^{grown:.2f}"
        # The work of a frame is at least that of its result, whose members are counted here for all rows.
        if times[2] > SLOW and exponent > max(EXPONENT, grown + 0.3):
            self.mark(name, form, line)
        elif factor and times[2] > max(SLOW, (TIMES_ROWS if form == "rows" else TIMES) * factor):
            self.mark(name, form, f"{line}, {times[2] / factor:.0f} times COUNT(DISTINCT)")
        elif self.options.all:
            print(line, flush=True)

    def mark(self, name, form, line):
        reason = KNOWN.get((name, form))
        (self.known if reason else self.marked).append(line)
        print(f"{line}  {'(' + reason + ')' if reason else '<--'}", flush=True)

    def run(self):
        kinds = {}
        for row in self.client.query("show full builtin functions"):
            kinds.setdefault(row[0].decode(), row[1].decode())
        size = "sum(length(cast(x as string)))"
        counted = min(self.timed("select count(distinct k) from rows4")[0] for _ in range(3))
        by_group = min(self.timed(f"select {size} from (select count(distinct k) x from rows4 group by v % 1000) q")[0] for _ in range(3))
        print(f"COUNT(DISTINCT k) of {4 * ROWS} rows: {counted:.3f} s, by group {by_group:.3f} s", flush=True)
        for name, kind in sorted(kinds.items()):
            if self.options.only not in name or name in LEFT_OUT or not name.isidentifier():
                continue
            calls = self.calls(name, kind)
            if not calls:
                self.not_called.append(name)
            if self.options.list:
                print(f"{kind:9} {name}: {', '.join(call for _, call in calls) or 'no call is answered'}", flush=True)
                continue
            if kind == "aggregate":
                for call in self.calls_of_nested(name):
                    self.measure(name, "kept", call, lambda m, c=call: f"select count(x) from (select v, {c} x from rows{m} group by v) q", None)
                    self.measure(name, "running", call, lambda m, c=call: f"select {size} from (select {c} over (order by k) x from frames{m}) q", None)
            for given, call in calls:
                if kind == "scalar":
                    self.measure(name, "rows", call, lambda m, c=call: f"select {size} from (select {c} x from rows{m}) q", counted)
                    if SIZED & set(given):
                        self.measure(name, "values", call, lambda m, c=call: f"select {size} from (select {c} x from values{m}) q", None)
                elif kind == "aggregate":
                    self.measure(name, "plain", call, lambda m, c=call: f"select {size} from (select {c} x from rows{m}) q", counted)
                    self.measure(name, "groups", call, lambda m, c=call: f"select {size} from (select {c} x from rows{m} group by v % 1000) q", by_group)
                    frame = "over (order by k rows between {} preceding and current row)"
                    self.measure(name, "frames", call, lambda m, c=call: f"select {size} from (select {c} {frame.format(FRAMES * m // 4)} x from frames{m}) q", None)
                    running = f"select {size} from (select {call} over (order by k) x from frames{{m}}) q"
                    self.measure(name, "running", call, lambda m, c=running: c.replace("{m}", str(m)), None)
                else:
                    for over in ("order by v, k", "partition by v % 10 order by k"):
                        windowed = call.replace("order by k", over)
                        self.measure(name, "plain", windowed, lambda m, c=windowed: f"select {size} from (select {c} x from rows{m}) q", counted)
        print(f"{self.measured} measured, {len(self.marked)} marked, {len(self.known)} known; no call found of: {' '.join(self.not_called)}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binary")
    parser.add_argument("--only", default="")
    parser.add_argument("--form", default="")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="dipper-growth-") as directory:
        server = Limited(options.binary, pathlib.Path(directory))
        try:
            sweep = Sweep(server.client(), options)
            sweep.prepare()
            sweep.run()
        finally:
            server.stop()
    sys.exit(1 if sweep.marked else 0)


if __name__ == "__main__":
    main()
