#!/usr/bin/env python3
"""Random tables and queries; dipper's answers are checked against

- the same rows stored in another way: other partitions, buckets, codecs and loads, so other segments and plans;
- logic: rows where p, where NOT p and where p is NULL are all rows; a query is the same as a derived table;
- the rows that were loaded;
- look-ups by key planned as other queries are (look_ups.py);
- DuckDB, where the Python that runs this has it.

    tests/differential/run.py BIN [--seeds 1-12] [--queries 40] [--seconds 60]

A seed is a test case: what is printed with a difference brings it back. Needs PyMySQL.
"""

import argparse
import base64
import collections
import datetime
import json
import math
import pathlib
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from decimal import Decimal

import pymysql

import look_ups
from queries import TYPES, Queries, Table, literal

try:
    import duckdb
except ImportError:
    duckdb = None


class Server:
    """A dipper server on a new directory."""

    def __init__(self, binary):
        self.directory = tempfile.TemporaryDirectory(prefix="dipper-differential-")
        self.mysql, self.http = (self.free_port() for _ in range(2))
        log = open(pathlib.Path(self.directory.name) / "log", "w")
        self.process = subprocess.Popen(
            [binary, "server", "--data", f"{self.directory.name}/data", "--mysql-port", str(self.mysql), "--http-port", str(self.http)],
            stdout=log, stderr=log,
        )
        end = time.monotonic() + 60
        while True:
            try:
                self.connection = self.connect()
                return
            except pymysql.Error:
                if time.monotonic() > end or self.process.poll() is not None:
                    raise
                time.sleep(0.1)

    @staticmethod
    def free_port():
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            return s.getsockname()[1]

    def connect(self):
        return pymysql.connect(host="127.0.0.1", port=self.mysql, user="root", charset="utf8mb4", read_timeout=60)

    def rows(self, statement):
        if not self.connection.open:
            self.connection = self.connect()
        with self.connection.cursor() as cursor:
            cursor.execute(statement)
            return list(cursor.fetchall())

    def load(self, database, table, columns, rows):
        """Stream Load of JSON lines."""
        plain = lambda v: v if v is None or isinstance(v, (bool, float, str)) else str(v)
        body = "\n".join(json.dumps({c: plain(v) for (c, _), v in zip(columns, row)}) for row in rows).encode()
        headers = {"Authorization": "Basic " + base64.b64encode(b"root:").decode(), "format": "json", "read_json_by_line": "true"}
        url = f"http://127.0.0.1:{self.http}/api/{database}/{table}/_stream_load"
        request = urllib.request.Request(url, data=body, method="PUT", headers=headers)
        answer = json.load(urllib.request.urlopen(request, timeout=60))
        if answer["Status"] != "Success":
            raise AssertionError(f"load of {table}: {answer['Message']}")

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(30)
        self.directory.cleanup()


def plain(v):
    """A value in a form in which drivers agree."""
    if isinstance(v, bool):
        return int(v)
    if isinstance(v, datetime.datetime):
        return v.isoformat(" ").removesuffix(" 00:00:00")
    if isinstance(v, datetime.date):
        return v.isoformat()
    if isinstance(v, Decimal) and v == v.to_integral_value():
        return int(v)
    # LARGEINT comes as text.
    if isinstance(v, str) and len(v) < 41 and v.removeprefix("-").isascii() and v.removeprefix("-").isdigit():
        return int(v)
    return v.removesuffix(" 00:00:00") if isinstance(v, str) else v


def by_value(row):
    number = lambda v: float(f"{float(v):.6g}")
    return [(0, 0, "") if v is None else (1, number(v), "") if isinstance(v, (int, float, Decimal)) else (2, 0, v) for v in row]


def equal(a, b):
    if isinstance(a, float) or isinstance(b, float):
        return a is not None and b is not None and math.isclose(float(a), float(b), rel_tol=1e-9, abs_tol=1e-12)
    return a == b


def difference(found, expected, ordered=False):
    """What is different in a sentence; None where nothing is."""
    found, expected = ([tuple(map(plain, row)) for row in rows] for rows in (found, expected))
    if len(found) != len(expected):
        return f"{len(found)} rows, expected {len(expected)}"
    if not ordered:
        if collections.Counter(map(repr, found)) == collections.Counter(map(repr, expected)):
            return None
        found.sort(key=by_value)
        expected.sort(key=by_value)
    for a, b in zip(found, expected):
        if not all(map(equal, a, b)):
            return f"{a}, expected {b}"
    return None


class Case:
    """One seed: tables A of one shape and B of another with the same rows, and queries over them."""

    def __init__(self, server, seed):
        self.server, self.seed, self.r, self.failures = server, seed, random.Random(seed), []
        self.ways = [f"a{seed}", f"b{seed}"]
        self.tables = [Table(self.r, f"t{i}") for i in range(self.r.randint(1, 2))]
        self.duck = duckdb and duckdb.connect()
        if self.duck:
            self.duck.execute("SET default_null_order = 'nulls_first_on_asc_last_on_desc'")
        self.ddl = []
        for way in self.ways:
            server.rows(f"CREATE DATABASE {way}")
        for table in self.tables:
            self.fill(table)

    def fail(self, what, query):
        shapes = "".join(f"  {d};\n" for d in self.ddl)
        self.failures.append(f"seed {self.seed}: {what}\n{shapes}  {query}\n")

    def fill(self, table):
        r = self.r
        self.ddl += (shapes := [table.ddl(r, f"{way}.{table.name}") for way in self.ways])
        for shape in shapes:
            self.server.rows(shape)
        value = lambda v, t: literal(v, TYPES[t][0]).dipper if v is None or TYPES[t][0] in ("text", "bool") else f"'{v}'"
        for _ in range(r.randint(1, 5)):
            rows = table.more_rows(r, r.choice([1, 20, 150]))
            for way in self.ways:
                if r.random() < 0.5:
                    self.server.load(way, table.name, table.columns, rows)
                    continue
                values = ", ".join("(" + ", ".join(value(v, t) for v, (_, t) in zip(row, table.columns)) + ")" for row in rows)
                self.server.rows(f"INSERT INTO {way}.{table.name} VALUES {values}")
        condition = Queries(r, [table]).condition(table.scope(""), 1)
        for way in self.ways:
            before = self.server.rows(f"SELECT * FROM {way}.{table.name}")
            if what := difference(before, table.rows):
                self.fail(f"rows of {way}.{table.name}: {what}", "SELECT *")
            # Rows for which the condition is FALSE or NULL stay.
            kept = self.server.rows(f"SELECT * FROM {way}.{table.name} WHERE ({condition.dipper}) IS NOT TRUE")
            self.server.rows(f"DELETE FROM {way}.{table.name} WHERE {condition.dipper}")
            if what := difference(self.server.rows(f"SELECT * FROM {way}.{table.name}"), kept):
                self.fail(f"rows of {way}.{table.name} after DELETE: {what}", condition.dipper)
        if self.duck:
            self.duck.execute(f"CREATE TABLE {table.name} ({', '.join(f'{n} {TYPES[t][1]}' for n, t in table.columns)})")
            places = ", ".join("?" for _ in table.columns)
            if table.rows:
                self.duck.executemany(f"INSERT INTO {table.name} VALUES ({places})", table.rows)
            self.duck.execute(f"DELETE FROM {table.name} WHERE {condition.duck}")

    def answer(self, way, query):
        self.server.rows(f"USE {way}")
        return self.server.rows(query)

    def check(self):
        """One query, in all the ways."""
        queries = Queries(self.r, self.tables)
        text, ordered = queries.query()
        try:
            if self.duck:
                try:
                    # What DuckDB has no type for is left to the other checks.
                    expected = self.duck.execute(text.duck).fetchall()
                except duckdb.Error:
                    expected = None
            first = self.answer(self.ways[0], text.dipper)
            if self.duck and expected is not None and (what := difference(first, expected, ordered)):
                self.fail(f"unlike DuckDB: {what}", text.dipper)
            if what := difference(self.answer(self.ways[1], text.dipper), first, ordered):
                self.fail(f"unlike the same rows in another table: {what}", text.dipper)
            if what := difference(self.answer(self.ways[1], f"SELECT * FROM ({text.dipper}) derived"), first, ordered and len(first) < 2):
                self.fail(f"as a derived table: {what}", text.dipper)
            self.check_logic(queries)
        except pymysql.Error as e:
            self.fail(f"error: {e}", text.dipper)

    def check_logic(self, queries):
        source, scope = queries.source()
        condition = queries.condition(scope, 2, True).dipper
        columns = ", ".join(f"{c.name} AS c{i}" for i, c in enumerate(scope))
        select = f"SELECT {columns} FROM {source.dipper}"
        parts = [f"{select} WHERE {p.format(condition)}" for p in ("{}", "NOT ({})", "({}) IS NULL")]
        whole = self.answer(self.ways[0], select)
        rows = [row for part in parts for row in self.server.rows(part)]
        if what := difference(rows, whole):
            self.fail(f"p, NOT p and p IS NULL are not all rows: {what}", f"{select} WHERE {condition}")

    def drop(self):
        for way in self.ways:
            self.server.rows(f"DROP DATABASE {way} FORCE")


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("binary")
    arguments.add_argument("--seeds", default="1-12", help="first and last")
    arguments.add_argument("--queries", type=int, default=40, help="per seed")
    arguments.add_argument("--seconds", type=float, default=60, help="no seed begins later than this")
    options = arguments.parse_args()
    first, last = map(int, options.seeds.split("-"))
    server = Server(options.binary)
    failures, checked, begin = [], 0, time.monotonic()
    try:
        for seed in range(first, last + 1):
            if time.monotonic() - begin > options.seconds:
                break
            case = Case(server, seed)
            for _ in range(options.queries):
                case.check()
                checked += 1
            failures += case.failures
            case.drop()
        different = look_ups.check(server, first)
    finally:
        server.stop()
    print("".join(failures), end="")
    beside = "DuckDB, " if duckdb else ""
    print(f"differential: {checked} queries against {beside}other tables and logic, {len(failures)} differences")
    sys.exit(bool(failures or different))


if __name__ == "__main__":
    main()
