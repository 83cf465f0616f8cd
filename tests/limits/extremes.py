#!/usr/bin/env python3
"""Every function that SHOW FUNCTIONS names, called with what lies at the end of each type.

    extremes.py BINARY [--only PART_OF_A_NAME] [--list]

Arguments are NULL, the empty, the least and the greatest value of each type, huge and negative counts, NaN and infinities, text of
4-byte characters, text that is no number, date or JSON. A function is called with the types that it takes, found by trying;
each argument is each of its extremes while the others are ordinary, and some calls have several at once. Each call is made

- of constants, which the planner works out,
- of the same values in a table's columns, beside rows of other values,
- of those columns in a WHERE that compares it with the call of constants.

All three must agree, in their value or in their error. An error must say what is wrong in words of SQL: those of DataFusion and
Arrow (WORDS) are marked, as are lost connections and answers that take more than LIMIT seconds. Any marked line makes the
exit status 1. Takes about a minute on two cores.
"""

import argparse
import itertools
import pathlib
import random
import re
import sys
import tempfile
import time

from run import Limited, Refused

LIMIT = 5
# Calls in one statement; where it fails they are made one by one.
TOGETHER = 30
# Calls with several extremes, for each list of types.
MIXED = 12

# An ordinary value of each type, and its extremes.
TYPES = {
    "BOOLEAN": ["true", "false"],
    "TINYINT": ["3", "-128", "127"],
    "INT": ["2", "-2147483648", "2147483647", "0"],
    "BIGINT": ["5", "-9223372036854775808", "9223372036854775807", "0", "-1"],
    "LARGEINT": ["7", "-170141183460469231731687303715884105728", "170141183460469231731687303715884105727"],
    "DECIMAL(38,10)": ["1.5", "9999999999999999999999999999.9999999999", "-9999999999999999999999999999.9999999999", "0"],
    "FLOAT": ["0.5", "3.4e38", "'nan'"],
    "DOUBLE": ["2.5", "1.7e308", "-1.7e308", "5e-324", "-0e0", "'nan'", "'inf'", "'-inf'"],
    "DATE": ["'2024-02-29'", "'0000-01-01'", "'9999-12-31'", "'1970-01-01'"],
    "DATETIME(6)": ["'2024-02-29 12:34:56.789012'", "'0000-01-01 00:00:00'", "'9999-12-31 23:59:59.999999'", "'1969-12-31 23:59:59.999999'"],
    "STRING": ["'ab'", "''", "' '", "'\U0001f600e\u0301\U0001f468\u200d\U0001f469'", "'%_'", "'\\\\'", "'\\0'", "'2024-02-30'",
               "'99999999999999999999999999999999999999999'", "'-1e999'", "'(['", "repeat('\u00df', 300)"],
    "JSON": ["'{\"a\": [1, \"x\"]}'", "'{}'", "'[]'", "'null'", "'1e999'", "'\"\\\\ud83d\\\\ude00\"'"],
    "VARBINARY": ["unhex('00ff')", "unhex('')", "unhex('f09f98')"],
    "ARRAY<INT>": ["array(1, 2)", "array()", "array(null)", "array(2147483647, -2147483648, null)"],
    "ARRAY<DOUBLE>": ["array(1.5e0)", "array(1.7e308, -1.7e308)", "array(cast('nan' as double), -0e0)"],
    "ARRAY<STRING>": ["array('a', 'b')", "array('')", "array(null, '\U0001f600')"],
    "MAP<STRING,INT>": ["map('a', 1)", "map('', null)"],
    "STRUCT<a:INT,b:STRING>": ["named_struct('a', 1, 'b', 'x')", "named_struct('a', cast(null as int), 'b', '')"],
}  # fmt: skip
# What no column of the table is: made of a type of them by a call.
MADE = {"BITMAP": ("BIGINT", "to_bitmap({})"), "HLL": ("STRING", "hll_hash({})")}
# Constants that are no columns: names of units, formats and paths, which many functions want to know while planning.
WRITTEN = ["'day'", "'%Y'", "'$.a'", "2"]
# In this order types are tried.
FIRSTS = ["STRING", "BIGINT", "DOUBLE", "DATETIME(6)", "ARRAY<INT>", "JSON", "DECIMAL(38,10)", "MAP<STRING,INT>", "VARBINARY",
          "LARGEINT", "DATE", "ARRAY<STRING>", "STRUCT<a:INT,b:STRING>", "BOOLEAN", "FLOAT", "ARRAY<DOUBLE>", "BITMAP", "HLL", *WRITTEN]  # fmt: skip
OTHERS = ["BIGINT", "STRING", "DOUBLE", "DATETIME(6)", "ARRAY<INT>", "VARBINARY", "BITMAP", *WRITTEN]
THIRDS = ["BIGINT", "STRING", "DATETIME(6)", "ARRAY<INT>"]
SIGNATURES = {1: 8, 2: 6, 3: 3, 4: 2}

# Those whose values differ from call to call, or that wait.
LEFT_OUT = {"rand", "random", "random_bytes", "uuid", "uuid_numeric", "uuid_short", "sleep", "now", "current_timestamp", "localtime",
            "localtimestamp", "sysdate", "unix_timestamp", "get_lock", "release_lock", "release_all_locks", "connection_id",
            "current_time", "curtime", "utc_timestamp", "utc_time", "row_count", "found_rows", "benchmark", "any_value",
            "is_free_lock", "is_used_lock", "last_query_id"}  # fmt: skip
# Columns are not taken where an argument has to be a constant.
CONSTANT = re.compile("constant|literal")
WORDS = re.compile(
    r"Internal error|Assertion|ArrowError|Arrow error|Invalid argument error|panick|DataFusion|Execution error|Error during planning"
    r"|Compute error|Cast error|Parser error|External error|likely caused by a bug|not yet implemented|Schema error|attempt to "
    r"|Utf8|\bU?Int(8|16|32|64)\b|Float(32|64)|Decimal(128|256)|Timestamp\(|\bList\(|BinaryView|Date32|ScalarValue|PhysicalExpr|RowConverter"
)


class Argument:
    """A value: as a constant, and as a column."""

    def __init__(self, constant, column):
        self.constant, self.column = constant, column


class Sweep:
    def __init__(self, server, options):
        self.server, self.options = server, options
        self.client = server.client()
        self.marked, self.called, self.not_called = [], 0, []
        self.values = {}

    def prepare(self):
        q = self.client.query
        q("create database extremes")
        self.use()
        columns, first = [], []
        for name, values in TYPES.items():
            self.values[name] = []
            for value in [*values, "null"]:
                constant = f"cast({value} as {name})"
                self.values[name].append(Argument(constant, f"v{len(columns)}"))
                columns.append(f"v{len(columns)} {name}")
                first.append(constant)
        for name, (of, call) in MADE.items():
            self.values[name] = [Argument(call.format(a.constant), call.format(a.column)) for a in self.values[of]]
        for value in WRITTEN:
            self.values[value] = [Argument(value, value)]
        q(f"create table one (id int, {', '.join(columns)}) duplicate key (id) distributed by hash (id) buckets 1")
        usual = ", ".join(f"cast({values[0]} as {name})" for name, values in TYPES.items() for _ in [*values, "null"])
        q(f"insert into one select 1, {', '.join(first)} union all select 2, {usual} union all select 3, {', '.join(first)}")

    def use(self):
        self.client.query("use extremes")
        self.client.query(f"set query_timeout = {LIMIT}")

    def answer(self, text):
        """Rows or the error, and the seconds; a lost connection is an error, too."""
        begun = time.monotonic()
        try:
            found = self.client.query(text)
        except Refused as error:
            found = error
        except (OSError, ConnectionError) as error:
            found = Refused(0, f"the connection was lost: {error}")
            self.client = self.server.client()
            self.use()
        return found, time.monotonic() - begun

    def takes(self, call):
        found, _ = self.answer(f"select {call}")
        if isinstance(found, Refused):
            return None, found.message
        return found[0][0] is not None, ""

    def signatures(self, name):
        """Types of arguments that are answered, those with a value before those of NULL."""
        found = []
        for count in range(5):
            some = {0: [()], 1: [(a,) for a in FIRSTS], 2: list(itertools.product(FIRSTS, OTHERS))}.get(count)
            some = some or itertools.product(["STRING", "BIGINT", "DATETIME(6)", "ARRAY<INT>", "'day'"], *[THIRDS] * (count - 1))
            with_value, of_nulls, tried = [], [], 0
            for types in some:
                call = f"{name}({', '.join(self.values[t][0].constant for t in types)})"
                value, message = self.takes(call)
                tried += 1
                if re.search(r"takes .*argument.*, found \d|expects? .* arguments?, (got|found)|does not go without", message):
                    break
                if value:
                    with_value.append(types)
                elif value is not None:
                    of_nulls.append(types)
                if len(with_value) >= SIGNATURES.get(count, 1) or tried > 150:
                    break
            found += with_value or of_nulls[:1]
        return found

    def calls(self, name, types):
        choice = random.Random(f"{name}{types}")
        ordinary = [self.values[t][0] for t in types]
        lists = [ordinary]
        for at, t in enumerate(types):
            lists += [[*ordinary[:at], value, *ordinary[at + 1 :]] for value in self.values[t][1:]]
        if len(types) > 1:
            lists += [[choice.choice(self.values[t]) for t in types] for _ in range(MIXED)]
        seen, calls = set(), []
        for arguments in lists:
            made = [f"{name}({', '.join(texts)})" for texts in ([a.constant for a in arguments], [a.column for a in arguments])]
            if made[0] not in seen:
                seen.add(made[0])
                calls.append(made)
        return calls

    def mark(self, call, what):
        self.marked.append(call)
        print(f"{call[:300]}\n    {what[:500]}", flush=True)

    def judge(self, call, found, seconds):
        """False if an answer is marked already."""
        if seconds > LIMIT:
            self.mark(call, f"took {seconds:.1f} s")
            return False
        if isinstance(found, Refused) and (found.code in (0, 1815) or WORDS.search(found.message) or len(found.message) < 15):
            self.mark(call, str(found))
            return False
        return True

    def check(self, kind, calls):
        """The calls together; where something is wrong with one of them, each by itself."""
        self.called += len(calls)
        over = " over ()" if kind == "window" else ""
        constants, columns = [c + over for c, _ in calls], [c + over for _, c in calls]
        found, seconds = self.answer(f"select {', '.join(constants)}")
        whole = kind != "scalar"
        where = " where id = 1" if whole else " order by id"
        rows, more = self.answer(f"select {', '.join(columns)} from one{where}")
        fails = isinstance(found, Refused) or isinstance(rows, Refused) or max(seconds, more) > LIMIT
        if fails or any(row != found[0] for row in (rows if whole else rows[::2])):
            if len(calls) > 1:
                for call in calls:
                    self.check(kind, [call])
                self.called -= len(calls)
                return
            constant, column = constants[0], columns[0]
            if not (self.judge(constant, found, seconds) & self.judge(f"{column} of columns: {constant}", rows, more)):
                return
            if isinstance(found, Refused) or isinstance(rows, Refused):
                if isinstance(rows, Refused) and CONSTANT.search(rows.message):
                    return
                if not (isinstance(found, Refused) and isinstance(rows, Refused) and found.code == rows.code):
                    self.mark(constant, f"constants: {found}\n    columns: {rows}")
                    return
            else:
                self.mark(constant, f"constants: {found}\n    columns: {rows}")
                return
        if kind != "scalar":
            return
        # A condition that a scan is given, and that the rows of constants fulfil.
        same = " and ".join(f"({column} <=> {constant})" for constant, column in calls)
        counted, seconds = self.answer(f"select count(*) from one where id = 1 and {same}")
        if isinstance(counted, Refused) and len(calls) == 1 and not isinstance(rows, Refused):
            # MAP and the like are not compared.
            condition = f"{columns[0]} is {'null' if rows[0][0] is None else 'not null'}"
            counted, seconds = self.answer(f"select count(*) from one where id = 1 and {condition}")
        if counted == [[b"1"]] and seconds <= LIMIT:
            return
        if len(calls) > 1:
            for call in calls:
                self.check(kind, [call])
            self.called -= len(calls)
            return
        if not self.judge(f"where {columns[0]}: {constants[0]}", counted, seconds):
            return
        if isinstance(rows, Refused) and isinstance(counted, Refused) and (rows.code, rows.message) == (counted.code, counted.message):
            return
        self.mark(constants[0], f"columns: {rows}\n    where: {counted}")

    def run(self):
        kinds = {}
        for row in self.client.query("show full builtin functions"):
            kinds.setdefault(row[0].decode(), row[1].decode())
        for name, kind in sorted(kinds.items()):
            if self.options.only not in name or name in LEFT_OUT or not name.isidentifier():
                continue
            begun = time.monotonic()
            signatures = self.signatures(name) if kind != "window" else [types for types in self.windows(name)]
            if not signatures:
                self.not_called.append(name)
            if self.options.list:
                print(f"{kind} {name}: {'; '.join(', '.join(types) for types in signatures)}", flush=True)
                continue
            for types in signatures:
                calls = self.calls(name, types)
                for at in range(0, len(calls), TOGETHER):
                    self.check(kind, calls[at : at + TOGETHER])
            if self.options.times:
                print(f"{name}: {time.monotonic() - begun:.2f} s", flush=True)
        print(f"{len(kinds)} functions, {self.called} calls, {len(self.marked)} marked; no call found of: {' '.join(self.not_called)}")

    def windows(self, name):
        """Types of a window function: those of the ordinary ones."""
        for types in [(), ("BIGINT",), ("STRING",), ("DOUBLE", "BIGINT"), ("DATETIME(6)", "BIGINT", "DATETIME(6)")]:
            call = f"{name}({', '.join(self.values[t][0].constant for t in types)}) over ()"
            if self.takes(call)[0] is not None:
                yield types


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binary")
    parser.add_argument("--only", default="")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--times", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="dipper-extremes-") as directory:
        server = Limited(options.binary, pathlib.Path(directory))
        try:
            sweep = Sweep(server, options)
            sweep.prepare()
            sweep.run()
        finally:
            server.stop()
    sys.exit(1 if sweep.marked else 0)


if __name__ == "__main__":
    main()
