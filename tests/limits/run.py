#!/usr/bin/env python3
"""Input and clients that should hurt: each gives a clear error, or its answer, and the server goes on.

    run.py BINARY [PATTERN]

Starts servers of its own on loopback with data in a temporary directory; ends them afterwards. Takes about 20 s.
"""

import contextlib
import gzip
import itertools
import os
import pathlib
import re
import resource
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from server import Server  # noqa: E402

CAPABILITIES = 0x00000001 | 0x00000200 | 0x00008000 | 0x00080000  # long password, 4.1, secure connection, plugin auth
HALF_OPEN = 10_000
FILE_BYTES_MAX = 1 << 20
FEW_DESCRIPTORS = 200


class Refused(Exception):
    """An error packet."""

    def __init__(self, code, message):
        super().__init__(f"{code}: {message}")
        self.code, self.message = code, message


class Client:
    """Just enough of the protocol: logs in as root, sends text, reads rows of text."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=100)
        self.checked(self.packet())
        answer = struct.pack("<IIB23x", CAPABILITIES, 1 << 24, 45) + b"root\0" + b"\0" + b"caching_sha2_password\0"
        self.send(1, answer)
        self.checked(self.packet())

    def send(self, sequence, payload):
        while True:
            part, payload = payload[: 0xFFFFFF], payload[0xFFFFFF:]
            self.socket.sendall(struct.pack("<I", len(part))[:3] + bytes([sequence & 255]) + part)
            sequence += 1
            if len(part) < 0xFFFFFF:
                return

    def exactly(self, n):
        data = b""
        while len(data) < n:
            piece = self.socket.recv(n - len(data))
            if not piece:
                raise ConnectionError("closed by the server")
            data += piece
        return data

    def packet(self):
        head = self.exactly(4)
        return self.exactly(head[0] | head[1] << 8 | head[2] << 16)

    @staticmethod
    def checked(packet):
        if packet[0] == 0xFF:
            text = packet[3:].decode("utf-8", "replace")
            raise Refused(packet[1] | packet[2] << 8, text[6:] if text.startswith("#") else text)
        return packet

    def query(self, text):
        """Rows as lists of bytes or None."""
        self.send(0, b"\x03" + text.encode())
        first = self.checked(self.packet())
        if first[0] == 0:
            return []
        columns = first[0] if first[0] < 0xFB else int.from_bytes(first[1:3], "little")
        for _ in range(columns + 1):
            self.packet()
        rows = []
        while True:
            packet = self.checked(self.packet())
            if packet[0] == 0xFE and len(packet) < 9:
                return rows
            row, at = [], 0
            while at < len(packet):
                n, at = packet[at], at + 1
                if n == 0xFB:
                    row.append(None)
                    continue
                if n in (0xFC, 0xFD):
                    width = n - 0xFA
                    n, at = int.from_bytes(packet[at : at + width], "little"), at + width
                row.append(packet[at : at + n])
                at += n
            rows.append(row)

    def in_new_database(self, name):
        self.query(f"create database {name}")
        self.query(f"use {name}")

    def refused(self, text, *words):
        """The statement is refused in these words, and the connection goes on."""
        try:
            rows = self.query(text)
        except Refused as error:
            for word in words:
                assert word in error.message, f"expected {word!r} in: {error}"
            assert self.query("select 1") == [[b"1"]]
            return error
        raise AssertionError(f"answered: {str(rows)[:200]}")


class Limited(Server):
    """A server that may read and write files of its directory."""

    def __init__(self, binary, directory, *arguments, **options):
        super().__init__(binary, directory, "--allow-dir", directory, *arguments, **options)

    def client(self):
        return Client(self.mysql)


def one_plus_one(server):
    """100,000 terms are refused before anything recurses over them; 300 are added up."""
    client = server.client()
    client.refused("select " + "+".join(["1"] * 100_000), "nested")
    client.refused("select " + "(" * 100_000 + "1" + ")" * 100_000, "nested")
    assert client.query("select " + "+".join(["1"] * 300)) == [[b"300"]]


def nested_operands(server):
    """What is written once and needed twice, in one another: planned in no time, or refused; also what is as deep as it may be."""
    client = server.client()
    client.query("set query_timeout = 20")
    shapes = [
        ("nvl(", ",1)"), ("coalesce(", ",1)"), ("coalesce(abs(", "),1)"), ("nullif(", ",7)"), ("nullif(7,", ")"),
        ("if(", ",1,2)"), ("abs(if(1,", ",1))"), ("mid(", ",1,2)"), ("ceiling(", ")"),
        ("(", " between 0 and 9)"), ("(", " not between 2 and 9)"), ("(1 between ", " and 9)"),
        ("case ", " when 1 then 2 when 2 then 3 else 4 end"), ("case when ", " then id = 1 else id = 2 end"),
        ("case when ", " + 1 + 1 = 2 then null else 3 end"), ("case when 1 = 2 then false when ", " then false else true end"),
        ("((", ",2) = (1,2))"), ("((", ",2) in ((1,2),(3,4)))"),
    ]
    subqueries = [("((select ", ") between 0 and 9)"), ("((", ",2) in (select 1,2))"), ("((1,2) in (select 2,", "))")]
    for depth in [3, 8, 24, 45, 90]:
        statements = [before * depth + "id" + behind * depth for before, behind in shapes]
        statements += [before * depth + "1" + behind * depth for before, behind in subqueries]
        for expression in statements:
            begun = time.monotonic()
            try:
                rows = client.query(f"select {expression} from (select 1 id union all select 2) t order by id limit 1")
                assert len(rows) == 1, rows
            except Refused as error:
                assert error.code == 1436 and "nested" in error.message, f"{error}: {expression[:100]}"
                assert depth > 3, f"{error}: {expression}"
            took = time.monotonic() - begun
            assert took < 5, f"{took:.1f} s: {expression[:100]}"


def grows(server, client, statements, size):
    """The work for `statements(n)` grows with n: of twice the size it takes less than three times as much CPU.

    Both sizes run in turns, and the least counts: what else the machine does makes a run longer, never shorter. A statement
    that grows too fast stays too slow in every round, so that only such a statement uses all of them."""
    for name, statement in statements.items():
        texts = {n: statement(n) for n in (size, 2 * size)}
        for sql in texts.values():
            client.query(sql)
        spent = dict.fromkeys(texts, float("inf"))
        for turn in range(12):
            for n, sql in texts.items():
                before = server.cpu_seconds()
                client.query(sql)
                spent[n] = min(spent[n], server.cpu_seconds() - before)
            # The clock has ticks of 10 ms.
            grown = spent[2 * size] >= 3 * spent[size] + 0.05
            if turn and not grown:
                break
        assert not grown, f"{name}: {spent}"


def flat_statements(server):
    """What programs write: thousands of members of one operator. Planned in time that grows with their number."""
    client = server.client()
    client.in_new_database("f")
    client.query("create table t (k int, v int, d double, e decimal(20, 4), s varchar(9)) duplicate key (k) "
                 "distributed by hash (k) buckets 1")
    client.query("insert into t values (1, 2, 1.5, 0.25, 'a'), (7, 7, 0.1, 2, 'b'), (null, 3, 1e17, 9.5, 'c')")

    def answers(sql, *rows):
        begun = time.monotonic()
        got = client.query(sql)
        assert got == [list(row) for row in rows], f"{str(got)[:100]}: {sql[:60]}"
        took = time.monotonic() - begun
        assert took < 20, f"{took:.1f} s: {sql[:60]}"

    def groups(n, term, operator):
        """20 conditions in parentheses of n terms each."""
        return ["(" + operator.join(term.format(x=at * n + i) for i in range(n)) + ")" for at in range(20)]

    def nested(conditions):
        """Each in parentheses with all before it, by AND and OR in turns."""
        whole = "(v = 1)"
        for at, condition in enumerate(conditions):
            whole = f"({condition} {'or' if at % 2 else 'and'} {whole})"
        return whole

    statements = {
        "or": lambda n: "select count(*) from t where " + " or ".join(f"k = {i}" for i in range(n)),
        "or of and": lambda n: "select count(*) from t where " + " or ".join(f"k = {i} and v > {i}" for i in range(n)),
        "and": lambda n: "select count(*) from t where " + " and ".join(f"k <> {i + 2}" for i in range(n)),
        "between": lambda n: "select count(*) from t where " + " and ".join(f"k between {-i} and 8 + {i}" for i in range(n)),
        "pipes": lambda n: "select count(*) from t where " + " || ".join(f"k = {i} && v > {i}" for i in range(n)),
        "sum": lambda n: "select " + " + ".join(f"k + {i}" for i in range(n // 2)) + " from t where v = 7",
        "difference": lambda n: "select e" + " - e" * n + " from t where v = 7",
        "product": lambda n: "select v" + " * 1" * n + " from t where v = 7",
        "parentheses": lambda n: f"select {'(' * (n // 20)}k{' * 1)' * (n // 20)} from t where v = 7",
        "parentheses behind": lambda n: f"select {'1 + (' * (n // 20)}k{')' * (n // 20)} from t where v = 7",
        "signs": lambda n: f"select {'- ' * (n // 20)}k from t where v = 7",
        "union all": lambda n: "select count(*), sum(n) from (" + " union all ".join(f"select {i} n" for i in range(n // 5)) + ") u",
        "and of or": lambda n: "select count(*) from t where " + " and ".join(groups(n // 20, "k = {x} or v > {x}", " or ")),
        "or of differences": lambda n: "select count(*) from t where " + " or ".join(groups(n // 20, "k <> {x}", " and ")),
        "one in another": lambda n: "select count(*) from t where " + nested(groups(n // 20, "k = {x}", " or ")),
        "not in": lambda n: "select count(*) from t where s not in (" + ", ".join(f"'q{i}'" for i in range(4 * n)) + ")",
        "tables": lambda n: "select count(*), sum(n) from ("
        + " union all ".join(f"select v n from t where k = {i}" for i in range(n // 5)) + ") u",
    }
    grows(server, client, statements, 1_500)
    answers(statements["or"](10_000), [b"2"])
    answers(statements["or of and"](10_000), [b"1"])
    answers(statements["pipes"](10_000), [b"1"])
    answers(statements["and"](10_000), [b"1"])
    answers(statements["between"](10_000), [b"2"])
    answers(statements["and of or"](20_000), [b"0"])
    answers(statements["or of differences"](20_000), [b"2"])
    answers(statements["one in another"](20_000), [b"0"])
    # One search in a set for each row, and no 40,000 comparisons.
    answers(statements["not in"](10_000), [b"3"])
    answers(statements["union all"](10_000), [b"2000", b"1999000"])
    answers(statements["tables"](10_000), [b"2", b"9"])
    answers("select count(*) from (" + " union ".join(f"select {n % 10} n" for n in range(500)) + ") u", [b"10"])
    mixed = " union all ".join("select 1 n" for _ in range(300)) + " union select 1 union all select 1"
    answers(f"select count(*) from ({mixed}) u", [b"2"])
    # From left to right, whatever the type.
    answers("select " + " + ".join(f"k * {i}" for i in range(5_000)) + " from t where v = 7",
            [str(7 * sum(range(5_000))).encode()])
    answers(statements["product"](5_000), [b"7"])
    answers("select k" + " + v - v" * 2_500 + ", d" + " - d" * 5_000 + ", e" + " + e" * 5_000 + " from t where v = 2",
            [b"1", b"-7498.5", b"1250.2500"])
    answers("select date '2024-01-01'" + " + interval 1 day" * 5_000 + " from t where v = 7", [b"2037-09-09"])
    answers("select date '2024-01-01'" + " + interval k day" * 5_000 + " from t where v = 2", [b"2037-09-09"])
    tenth = 0.1
    for _ in range(5_000):
        tenth += 0.1
    answers("select d" + " + 0.1e0" * 5_000 + " from t where v = 7", [repr(tenth).encode()])
    answers("select d" + " + 1 - 1" * 2_500 + " from t where v = 3", [b"1e+17"])
    client.refused("select 9223372036854775807" + " + v - v" * 2_500 + " from t", "out of range")
    client.refused("select " + "(1 + " * 500 + "1" + ")" * 500, "nested")
    client.query("set sql_mode = 'PIPES_AS_CONCAT'")
    answers("select length(" + " || ".join(["k"] * 5_000) + ") from t where v = 7", [b"5000"])


def much_of_little(server):
    """A few bytes of arguments that stand for gigabytes: an error or NULL, in no time and in the memory that there is."""
    client = server.client()
    client.in_new_database("m")
    client.query("create table t (id int) duplicate key (id) distributed by hash (id) buckets 1")
    client.query("insert into t values (1), (2), (3), (3)")
    for sql in ["select id from t group by id order by id limit 1000000000",
                "select distinct id from t order by id desc limit 1000000000",
                "select max(id) m from t group by id order by m limit 1000000000"]:
        assert len(client.query(sql)) == 3, sql
    client.query("set query_timeout = 5")
    rows = "from numbers('number' = '10000')"
    # A constant, 2 GB for 8,192 rows.
    large = "array_range(0, 30000)"
    for expression in [
        "size(array_range(5000000000))", "size(sequence(0, 5000000000))", "size(array_repeat(1, 5000000000))",
        "size(array_with_constant(5000000000, 7))",
    ]:
        client.refused(f"select {expression}", "1000000")
    for sql in [
        f"select sum(length(repeat('a', 10000000 + number))) {rows}", f"select max(lpad('x', 10000000 + number, 'y')) {rows}",
        f"select sum(length(space(10000000 + number))) {rows}", f"select sum(size(array_range(900000 + number % 7))) {rows}",
        f"select sum(size(array_repeat(number, 900000))) {rows}", f"select sum(size(array_range(number, number + 900000))) {rows}",
        f"select sum(size(array_append(array_range(0, 900000), number))) {rows}",
        f"select sum(size(array_pushfront(array_range(0, 900000), number))) {rows}",
        f"select sum(size(array_flatten(array(array_range(0, 900000), array(number))))) {rows}",
        f"select sum(size(array_union(array_range(0, 900000), array(number)))) {rows}",
        f"select sum(length(concat(repeat('a', 10000000), number))) {rows}",
        "select levenshtein(repeat('ab', 1000000), repeat('cd', 1000000))",
        f"select sum(length(concat_ws(repeat('-', 1000000), number, number, number, number))) {rows}",
        "select length(replace(repeat('a', 10000000), 'a', repeat('b', 10000000)))",
        "select length(regexp_replace(repeat('a', 10000000), 'a', repeat('b', 10000000)))",
        "select length(array_join(array_range(0, 900000), repeat('-', 1000000)))",
        f"select sum(size(split_by_string(repeat('a,', 5000000 + number), ','))) {rows}",
        f"select sum(size(if(number > 1, {large}, array(number)))) {rows}",
        f"select sum(size(case when number > 1 then {large} when number > 0 then array(number) end)) {rows}",
        f"select sum(size(case number when 1 then {large} when 2 then array(number) else {large} end)) {rows}",
        f"select sum(size(nullif({large}, array(number)))) {rows}",
        f"select sum(size(a)) from (select {large} a, number {rows} union all select array(number), number {rows}) u",
        f"select max(size(a) + number) from (select {large} a, number {rows}) u",
        f"select count(named_struct('a', {large}, 'b', number)), count(struct({large}, number)) {rows}",
        f"select count(map('a', {large}, 'b', array(number))) {rows}",
        f"select sum(size(a[1])) from (select array_map(x -> {large}, array(number, number)) a {rows}) u",
        f"select size(max({large})), size(array_agg({large})) {rows}",
        f"select count(*) from (select {large} a, number {rows}) u group by a, number",
    ]:
        begun = time.monotonic()
        try:
            client.query(sql)
        except Refused as error:
            assert error.code in (1041, 3024), f"{error}: {sql}"
        took = time.monotonic() - begun
        assert took < 25, f"{took:.1f} s: {sql}"
        assert server.process.poll() is None, sql
        peak = server.resident_mib()
        assert peak < 1024 * 1.15 + 128, f"{peak} MiB: {sql}"
    assert client.query("select repeat('a', 5000000000), space(5000000000)") == [[None, None]]


def long_texts(server):
    """Reading a text of megabytes is a part of its statement: `query_timeout` and KILL end it."""
    client = server.client()
    client.in_new_database("l")
    client.query("create table t (k int) duplicate key (k) distributed by hash (k) buckets 1")
    client.query("set query_timeout = 1")
    text = "select " + ",".join(f"k+{n}" for n in range(1_000_000)) + " from t"
    begun = time.monotonic()
    client.refused(text, "query_timeout")
    took = time.monotonic() - begun
    assert took < 5, f"the statement ended after {took:.1f} s"
    client.query("set query_timeout = 60")
    victim = server.client()
    victim.query("use l")
    id = int(victim.query("select connection_id()")[0][0])
    ended_at = []

    def run():
        ended(victim, text)
        ended_at.append(time.monotonic())

    running = threading.Thread(target=run)
    running.start()
    deadline = time.monotonic() + 20
    while not any(int(row[0]) == id and b"reads a text" in (row[-1] or b"") for row in client.query("show full processlist")):
        assert time.monotonic() < deadline, "the text is not read"
        time.sleep(0.01)
    killed_at = time.monotonic()
    client.query(f"kill query {id}")
    running.join()
    late = ended_at[0] - killed_at
    assert late < 0.5, f"KILL QUERY ended the statement after {late:.2f} s"
    assert victim.query("select 1") == [[b"1"]]
    # What nobody waits for is not read to its end.
    deadline = time.monotonic() + 20
    while True:
        before = server.cpu_seconds()
        time.sleep(0.5)
        if server.cpu_seconds() - before < 0.2:
            break
        assert time.monotonic() < deadline, "the server goes on reading"


def wide_tables(server):
    """Plans over thousands of columns take no thread from others, and end for whoever does not wait for them any more."""
    client = server.client()
    client.in_new_database("w")

    def columns(width, form):
        return ", ".join(form.replace("N", str(n)) for n in range(width))

    for width in (1_500, 3_000):
        for name in ("t", "x"):
            client.query(f"create table {name}{width} ({columns(width, 'cN int')}) duplicate key (c0) distributed by hash (c0) buckets 1")
        client.query(f"insert into t{width} values (" + ", ".join(["7"] * width) + ")")
        client.query(f"create view v{width} as select * from t{width}")
    statements = {
        "all": lambda n: f"select * from t{n}",
        "names": lambda n: "select " + ", ".join(f"c{i}" for i in reversed(range(n))) + f" from t{n} where c5 = 7 order by c3 limit 1",
        "derived": lambda n: f"select c1 from (select * from t{n}) x where c2 = 7",
        "derived, all": lambda n: f"select * from (select * from t{n}) x",
        "with": lambda n: f"with x as (select * from t{n}) select * from x a, x b",
        "view": lambda n: f"select * from v{n}",
        "expressions": lambda n: f"select {columns(n, 'cN + 1')} from t{n}",
        "aliases": lambda n: f"select {columns(n, 'cN * 2 as dN')} from t{n} order by d3",
        "derived expressions": lambda n: f"select d7 from (select {columns(n, 'cN * 2 as dN')} from t{n}) x where d8 = 14",
        "union": lambda n: f"select * from t{n} union all select * from t{n}",
        "join": lambda n: f"select * from t{n} a join t{n} b on a.c1 = b.c2",
        "insert": lambda n: f"insert into x{n} select * from t{n}",
        "distinct": lambda n: f"select distinct * from t{n}",
        "groups": lambda n: f"select {columns(n, 'cN')} from t{n} group by {columns(n, 'cN')}",
        "keys": lambda n: f"select count(*) from t{n} group by {columns(n, 'cN')}",
        "sums": lambda n: f"select {columns(n, 'sum(cN + 1)')} from t{n}",
        "sums of groups": lambda n: f"select c0, {columns(n, 'sum(cN) as sN')} from t{n} group by c0 having sum(c1) > 1 order by s3",
        "derived sums": lambda n: f"select s7 from (select c0, {columns(n, 'sum(cN) as sN')} from t{n} group by c0) x where s8 = 7",
        "and": lambda n: f"select c1 from t{n} where " + columns(n, "cN = 7").replace(", ", " and "),
        "or": lambda n: f"select c1 from t{n} where " + columns(n, "cN = 7").replace(", ", " or "),
        "one window": lambda n: f"select *, row_number() over (order by c0) as rn from t{n}",
        "windows": lambda n: f"select {columns(40, 'row_number() over (order by cN)')} from t{n}",
        "using": lambda n: f"select * from t{n} a left join t{n} b using (c0)",
        "no table": lambda n: f"select {columns(n, 'N as xN')}",
        "constants": lambda n: f"select {columns(n, 'N as xN')} from t1500",
    }
    grows(server, client, statements, 1_500)
    before = server.cpu_seconds()
    assert client.query("select count(*) from t1500 a natural join t1500 b") == [[b"1"]]
    spent = server.cpu_seconds() - before
    assert spent < 20, f"NATURAL JOIN of 1,500 columns took {spent:.1f} s of CPU"
    assert client.query(statements["aliases"](3_000)) == [[b"14"] * 3_000]
    assert client.query(statements["derived expressions"](3_000)) == [[b"14"]]
    for name, row in {
        "distinct": [b"7"] * 3_000,
        "groups": [b"7"] * 3_000,
        "keys": [b"1"],
        "sums": [b"8"] * 3_000,
        "sums of groups": [b"7"] * 3_001,
        "derived sums": [b"7"],
        "and": [b"7"],
        "or": [b"7"],
        "one window": [b"7"] * 3_000 + [b"1"],
        "windows": [b"1"] * 40,
        "using": [b"7"] * 5_999,
        "no table": [b"%d" % n for n in range(3_000)],
        "constants": [b"%d" % n for n in range(3_000)],
    }.items():
        assert client.query(statements[name](3_000)) == [row], name
    for over in ("partition by c0", "order by c0", ""):
        windows = columns(1_500, f"sum(cN) over ({over}) as wN")
        assert client.query(f"select {windows} from t1500") == [[b"7"] * 1_500], over
    width = 10_000
    path = server.directory / "wide.csv"
    # The first 64 KiB, by which the file's form is guessed, have both of its lines.
    names = itertools.islice(itertools.product("abcdefghijklmnopqrstuvwxyz", repeat=3), width)
    path.write_text(",".join(map("".join, names)) + "\n" + ",".join(["7"] * width) + "\n", encoding="ascii")
    everything = f"select * from '{path}'"
    client.query(everything)
    spent = []
    for _ in range(3):
        before = server.cpu_seconds()
        assert client.query(everything) == [[b"7"] * width]
        spent.append(server.cpu_seconds() - before)
    assert min(spent) < 1, f"{min(spent):.2f} s of CPU for {width} columns"
    # The type of each key is found by its name.
    slow = "select count(*) from t3000 a join t3000 b on " + columns(3_000, "a.cN = b.cN").replace(", ", " and ")
    # And a text that takes long to read.
    long = "select " + " + ".join(f"c1 * {n}" for n in range(20_000)) + " from t3000"
    clients = [server.client() for _ in range(4)]
    for other in clients:
        other.query("use w")
        other.query("set query_timeout = 2")
    took = []
    threads = [threading.Thread(target=lambda c=c, n=n: took.append(ended(c, [slow, slow, slow, long][n])))
               for n, c in enumerate(clients)]
    for thread in threads:
        thread.start()
    waits = []
    while any(thread.is_alive() for thread in threads):
        begun = time.monotonic()
        assert client.query("select 1") == [[b"1"]]
        waits.append(time.monotonic() - begun)
        time.sleep(0.01)
    waits.sort()
    # On a machine that others use, too, one in a hundred may wait for them.
    assert waits[len(waits) * 99 // 100] < 0.1, f"SELECT 1 waited {waits[-5:]}"
    assert waits[-1] < 0.5, f"SELECT 1 waited {waits[-1]:.2f} s"
    assert max(took) < 2.5, took
    # KILL, and a client that goes away.
    victim, gone = server.client(), server.client()
    ended_at = []

    def run():
        ended(victim, slow)
        ended_at.append(time.monotonic())

    for other in (victim, gone):
        other.query("use w")
    id = int(victim.query("select connection_id()")[0][0])
    running = threading.Thread(target=run)
    running.start()
    gone.send(0, b"\x03" + slow.encode())
    time.sleep(0.3)
    killed_at = time.monotonic()
    gone.socket.close()
    client.query(f"kill query {id}")
    running.join()
    late = ended_at[0] - killed_at
    assert late < 0.5, f"KILL QUERY ended the statement after {late:.2f} s"
    # The planner stops at its next rule, or when it next asks a function for its type: of many keys of a join after some seconds.
    deadline = time.monotonic() + 60
    while True:
        before = server.cpu_seconds()
        time.sleep(1)
        spent = server.cpu_seconds() - before
        if spent < 0.5:
            break
        assert time.monotonic() < deadline, f"{spent:.2f} s of CPU in a second for nobody"


def ended(client, sql):
    """How long a statement takes, however it ends."""
    begun = time.monotonic()
    with contextlib.suppress(Refused):
        client.query(sql)
    return time.monotonic() - begun


def joins_in_little_memory(server):
    """Eight large joins at once, in memory for one: each ends, with its rows or without memory, and leaves nothing behind."""
    client = server.client()
    client.in_new_database("j")
    client.query("create table big (k bigint not null, v bigint, t varchar(100)) duplicate key (k) distributed by hash (k) buckets 4")
    client.query("insert into big select number, number * 7919 % 1000003, repeat('z', number % 60) "
                 "from numbers('number' = '1000000')")
    joins = [
        "select count(b.k), sum(length(a.t)) from big a left join big b on a.k = b.v and b.k > a.k",
        "select count(*) from big a join big b on a.k = b.v join big c on b.k = c.v where a.t <> c.t",
        "select a.v, count(*) c from big a join big b on a.k = b.k group by a.v order by c desc limit 3",
        "select count(*) from (select k from big where v % 7 = 1 intersect select v from big) q",
        "select max(r) from (select row_number() over (partition by v % 1000 order by t, k) r from big) q",
        "select count(*) from big a left join (select k from big where k % 50000 = 3) b on a.k < b.k and a.v > b.k",
    ]
    for round in range(6):
        clients = [server.client() for _ in range(8)]
        for other in clients:
            other.query("use j")
            other.query("set query_timeout = 60")
        took = []
        threads = [threading.Thread(target=lambda c=c, n=n: took.append(ended(c, joins[(round + n % 2) % len(joins)])))
                   for n, c in enumerate(clients)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert max(took) < 55, f"round {round}: {took}"
        for other in clients:
            other.socket.close()
    before = server.cpu_seconds()
    time.sleep(0.5)
    spent = server.cpu_seconds() - before
    assert spent < 0.25, f"{spent:.2f} s of CPU in half a second after all have ended"


def half_open_connections(server):
    """10,000 clients that never say a word: a login beside them works, and the server ends them."""
    silent = []
    begun = time.monotonic()
    try:
        for _ in range(HALF_OPEN):
            silent.append(socket.create_connection(("127.0.0.1", server.mysql), timeout=20))
        opened = time.monotonic()
        client = server.client()
        assert client.query("select 1 + 1") == [[b"2"]]
        assert time.monotonic() - opened < 5, "a login beside them waits"
        resident = server.resident_mib()
        assert resident < 600, f"{resident} MiB for connections that said nothing"
        deadline = begun + 40
        for s in silent:
            s.settimeout(max(deadline - time.monotonic(), 0.01))
            while s.recv(4096):
                pass
    finally:
        for s in silent:
            s.close()
    assert server.client().query("select 1") == [[b"1"]]


def a_bomb_of_zeros(server):
    """5 MB of gzip that are 1.1 GiB of zeros: one record without an end."""
    bomb = server.directory / "bomb.csv.gz"
    with gzip.open(bomb, "wb", compresslevel=1) as out:
        for _ in range(1100):
            out.write(bytes(1 << 20))
    client = server.client()
    client.refused(f"select count(*) from files('path'='{bomb}', 'columns'='a:string', 'header'='false', "
                   "'format'='csv', 'column_separator'=',')", "bomb.csv.gz", "512 MiB")
    bomb.unlink()


def a_line_of_600_mb(server):
    """A record that is longer than the limit is named; nothing of its size stays in memory."""
    long = server.directory / "long.csv"
    with open(long, "wb") as out:
        out.write(b"a,b\n1,2\n")
        # A hole in the file: zeros that take no room on disk.
        out.truncate(600 << 20)
    client = server.client()
    error = client.refused(f"select max(b) from files('path'='{long}', 'format'='csv', 'columns'='a:string,b:string', "
                           "'column_separator'=',', 'header'='true')", "long.csv", "512 MiB")
    assert "line end" in error.message, error.message
    long.unlink()


def a_long_line_in_little_memory(server):
    """A record counts as memory: where there is none for it an error says so, long before the limit of its length."""
    long = server.directory / "long.csv"
    with open(long, "wb") as out:
        out.write(b"a,b\n1,2\n")
        out.truncate(400 << 20)
    client = server.client()
    files = (f"files('path'='{long}', 'format'='csv', 'columns'='a:string,b:string', 'column_separator'=',', "
             "'header'='true')")
    for _ in range(3):
        client.refused(f"select max(b) from {files}", "long.csv", "no memory for a record")
    assert server.resident_mib() < 700, server.resident_mib()
    assert client.query("select 1") == [[b"1"]]
    long.unlink()


def keys_of_an_insert_ignore(server):
    """The keys that it has seen count as memory."""
    client = server.client()
    client.in_new_database("seen")
    client.query("create table t (k varchar(300)) unique key (k) distributed by hash (k) buckets 1")
    insert = "insert ignore into t select concat(number, repeat('x', 250)) from numbers('number' = '{}')"
    client.refused(insert.format(400_000), "keys of an INSERT IGNORE")
    client.query(insert.format(1_000))
    assert client.query("select count(*) from t") == [[b"1000"]]


def nul_bytes(server):
    """NUL is a character like others."""
    file = server.directory / "nul.csv"
    file.write_bytes(b"a,b\nx\0y,\0\n\0\0\0,2\n")
    client = server.client()
    options = "'format'='csv', 'columns'='a:string,b:string', 'header'='true', 'column_separator'=','"
    rows = client.query(f"select a, b, length(a) from files('path'='{file}', {options})")
    assert rows == [[b"x\0y", b"\0", b"3"], [b"\0\0\0", b"2", b"3"]], rows
    assert client.query(f"select count(*) from '{file}'") == [[b"2"]]


def full_disk_when_spilling(server):
    """What does not fit in memory does not fit on disk either: an error that says so, and room again afterwards."""
    client = server.client()
    file = server.directory / "sort.csv"
    with open(file, "w", encoding="ascii") as out:
        out.write("a,b\n")
        for i in range(400_000):
            out.write(f"{i * 7919 % 400_009},{'x' * 80}{i}\n")
    files = f"files('path'='{file}', 'format'='csv', 'columns'='a:int,b:string', 'header'='true', 'column_separator'=',')"
    sort = f"select count(*) from (select row_number() over (order by b desc, a) r from {files}) t where r % 2 = 0"
    error = client.refused(sort, "no room on disk", "--spill-dir")
    assert error.code == 1041, error.code
    assert client.query(f"select count(*) from {files}") == [[b"400000"]]
    spill = server.directory / "spill"
    deadline = time.monotonic() + 10
    while left := [p for p in spill.rglob("*") if p.is_file()]:
        assert time.monotonic() < deadline, f"files of the statement stay: {left}"
        time.sleep(0.1)


def joins_without_a_match(server):
    """Conditions that no pair of rows meets: the time limit ends them, and their threads."""
    file = server.directory / "numbers.csv"
    file.write_text("v\n" + "".join(f"{i}\n" for i in range(300_000)), encoding="ascii")
    client = server.client()
    client.in_new_database("d")
    client.query(f"create view numbers as select v from '{file}'")
    client.query("create table copy (v int) duplicate key (v) distributed by hash (v) buckets 2")
    client.query("set query_timeout = 1")
    for sql in [
        "select count(*) from numbers a cross join numbers b where a.v + b.v = -3",
        "select count(*) from numbers a join numbers b on a.v % 1 = b.v % 1 and a.v + b.v = -3",
        "select count(*) from numbers a where exists (select 1 from numbers b where a.v + b.v < -3)",
        "insert into copy select a.v from numbers a cross join numbers b where a.v + b.v = -3",
        "select a.v from numbers a left join numbers b on a.v + b.v = -3 order by 1 limit 1",
    ]:
        error = client.refused(sql, "query_timeout")
        assert error.code == 3024, error
        before = server.cpu_seconds()
        time.sleep(0.5)
        spent = server.cpu_seconds() - before
        assert spent < 0.25, f"{spent:.2f} s of CPU in half a second after it has ended: {sql}"


def hints_of_a_statement_that_is_stopped(server):
    """SET_VAR is for one statement, also for one that writes and runs out of time."""
    client = server.client()
    client.in_new_database("h")
    client.query("create table t (v bigint) duplicate key (v) distributed by hash (v) buckets 1")
    hints = "/*+ SET_VAR(query_timeout = 1, time_zone = '+03:00') */"
    rows = "select sum(a.number % 7 + b.number % 5) from numbers('number' = '3000000') a, numbers('number' = '3000000') b"
    assert client.refused(f"insert {hints} into t {rows}", "query_timeout").code == 3024
    shown = client.query("select @@query_timeout > 1, @@time_zone = '+03:00'")
    assert shown == [[b"1", b"0"]], shown


def short_statements_beside_long_ones(server):
    """Joins that no pair of rows meets hold every query thread; what is over soon does not wait for them."""
    file = server.directory / "many.csv"
    file.write_text("v\n" + "".join(f"{i}\n" for i in range(200_000)), encoding="ascii")
    client = server.client()
    client.in_new_database("s")
    client.query(f"create view many as select v from '{file}'")
    client.query("create table t (k int, v int) unique key (k) distributed by hash (k) buckets 4")
    client.query("insert into t select number, 1 from numbers('number' = '100000')")
    joins = [server.client() for _ in range(6)]
    for join in joins:
        join.query("use s")
        join.query("set query_timeout = 60")
        join.send(0, b"\x03select count(*) from many a cross join many b where a.v + b.v = -3")
    time.sleep(1)
    for sql in [
        "insert into t values (-1, 2)",
        "update t set v = 3 where k = -1",
        "select v from t where k = -1",
        "delete from t where k = -1",
        "select count(*), sum(v) from t",
        "select 1",
    ]:
        begun = time.monotonic()
        client.query(sql)
        took = time.monotonic() - begun
        assert took < 3, f"{took:.1f} s: {sql}"
    # One that is not short gets its share, too.
    begun = time.monotonic()
    client.query("select count(*) from numbers('number' = '3000000') where number % 7 = 1")
    assert time.monotonic() - begun < 20
    listed = [row for row in client.query("show processlist") if any(cell and b"cross join" in cell for cell in row)]
    assert len(listed) == len(joins), listed
    for join in joins:
        join.socket.close()


def busy_neighbours(server):
    """Other processes that keep every core busy make nothing stand still while look-ups are asked for: what computes gives way to
    look-ups, and still has its share."""
    client = server.client()
    client.in_new_database("n")
    client.query("create table t (k int, v int) unique key (k) distributed by hash (k) buckets 4")
    client.query("insert into t select number, 1 from numbers('number' = '100000')")
    over, answers = threading.Event(), []

    def look_up():
        other = server.client()
        other.query("use n")
        while not over.is_set():
            answers.append(other.query("select v from t where k = 7"))
            time.sleep(0.01)
        other.socket.close()

    asking = threading.Thread(target=look_up)
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count())]
    try:
        asking.start()
        time.sleep(1)
        # Some 50 ms of work each on quiet cores. Each took 10 s and more, up to 67, when waiting was not counted.
        times = []
        for i in range(5):
            begun = time.monotonic()
            client.query(f"insert into t select number + 200000, {i} from numbers('number' = '20000')")
            client.query("select sum(v), count(distinct k % 777) from t where k % 3 = 1")
            times.append(time.monotonic() - begun)
        assert sorted(times)[2] < 6, times
    finally:
        over.set()
        for loop in loops:
            loop.kill()
            loop.wait()
        asking.join()
    assert len(answers) > 10 and all(answer == [[b"1"]] for answer in answers), answers[-3:]


def held_by_a_session(server):
    """Prepared statements and user variables of a session are bounded in bytes, those of all sessions in number."""
    client = server.client()
    # The tree of a list of numbers takes 400 times as much as its text. It is not kept where that is too much.
    before = server.resident_mib()
    for i in range(12):
        client.query(f"prepare s{i} from 'select 1 in ({','.join(['1'] * 100_000)})'")
    assert server.resident_mib() - before < 500, server.resident_mib() - before
    assert client.query("execute s11") == [[b"1"]]
    text = "x" * 900_000
    for i in range(70):
        client.query(f"prepare s{i} from 'select \\'{text}\\''")
    client.query("set @a = repeat('y', 500000)")
    error = client.refused("set @b = repeat('y', 5000000)", "64 MiB", "DEALLOCATE PREPARE")
    assert error.code != 1461, error
    for i in range(70, 80):
        try:
            client.query(f"prepare s{i} from 'select \\'{text}\\''")
        except Refused as error:
            assert "64 MiB" in error.message, error
            break
    else:
        raise AssertionError("80 texts of 900 KB are held")
    for i in range(70):
        client.query(f"deallocate prepare s{i}")
    client.query("set @b = repeat('y', 5000000)")
    for i in range(70, 80):
        with contextlib.suppress(Refused):
            client.query(f"deallocate prepare s{i}")
    client.query("set global max_prepared_stmt_count = 3")
    other = server.client()
    other.query("prepare a from 'select 1'")
    with contextlib.suppress(Refused):
        for name in "bcd":
            other.query(f"prepare {name} from 'select 1'")
    assert client.refused("prepare one_more from 'select 1'", "max_prepared_stmt_count").code == 1461
    other.socket.close()
    deadline = time.monotonic() + 10
    while True:
        try:
            client.query("prepare one_more from 'select 1'")
            break
        except Refused:
            assert time.monotonic() < deadline
            time.sleep(0.05)


def named_pipes(server):
    """Opening one would wait for a writer that may never come: refused at once."""
    client = server.client()
    client.in_new_database("pipes")
    client.query("create table t (k int) duplicate key (k) distributed by hash (k) buckets 1")
    for extension in ["csv", "json", "parquet"]:
        pipe = server.directory / f"pipe.{extension}"
        os.mkfifo(pipe)
        client.refused(f"select count(*) from '{pipe}'", "no regular file")
        client.refused(f"load data infile '{pipe}' into table t", "no regular file")


# Name of each case and the arguments of its server.
def more_clients_than_descriptors(server):
    """Clients are refused while there are descriptors left for tables: those who are in are answered."""
    first = server.client()
    first.in_new_database("descriptors")
    first.query("create table t (k int, v int) unique key(k) distributed by hash(k) buckets 4")
    first.query("insert into t values (1, 2), (3, 4)")
    clients, refused = [first], 0
    for _ in range(FEW_DESCRIPTORS + 100):
        try:
            clients.append(server.client())
        except Refused as error:
            assert error.code == 1040 and "ulimit -n" in error.message, str(error)
            refused += 1
    assert 20 < len(clients) and refused > 100, f"{len(clients)} clients, {refused} refused"
    for n, client in enumerate(clients):
        client.query(f"insert into descriptors.t values ({n + 10}, 0)")
        assert client.query("select v from descriptors.t where k = 3") == [[b"4"]]
        assert client.query("select sum(v) from descriptors.t") == [[b"6"]]
    while clients:
        clients.pop().socket.close()
    deadline = time.monotonic() + 10
    while True:
        try:
            assert server.client().query("select sum(v) from descriptors.t") == [[b"6"]]
            return
        except Refused:
            assert time.monotonic() < deadline, "the places of clients that have gone are not free"
            time.sleep(0.05)


CASES = {
    one_plus_one: [],
    nested_operands: [],
    half_open_connections: [],
    more_clients_than_descriptors: ["--threads", "2"],
    a_bomb_of_zeros: [],
    a_line_of_600_mb: [],
    a_long_line_in_little_memory: ["--memory", "256MiB"],
    keys_of_an_insert_ignore: ["--memory", "72MiB"],
    nul_bytes: [],
    joins_without_a_match: [],
    hints_of_a_statement_that_is_stopped: [],
    named_pipes: [],
    held_by_a_session: [],
    busy_neighbours: [],
    short_statements_beside_long_ones: ["--threads", "2"],
    flat_statements: [],
    much_of_little: ["--memory", "1GiB"],
    long_texts: ["--threads", "2"],
    wide_tables: ["--threads", "2"],
    joins_in_little_memory: ["--memory", "128MiB", "--threads", "2"],
    full_disk_when_spilling: ["--memory", "72MiB", "--threads", "1"],
}


def limited():
    """For the server that spills: no file may be larger, as on a disk that is full."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_BYTES_MAX, FILE_BYTES_MAX))


def few_descriptors():
    """For the server that may open few files."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (FEW_DESCRIPTORS, FEW_DESCRIPTORS))


def main():
    binary, pattern = sys.argv[1], re.compile(sys.argv[2] if len(sys.argv) > 2 else "")
    wanted = HALF_OPEN + 500
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < wanted:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, wanted))
    else:
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    failed = 0
    for case, arguments in CASES.items():
        if not pattern.search(case.__name__):
            continue
        begun = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="dipper-limits-") as directory:
            directory = pathlib.Path(directory)
            options = {}
            if case is full_disk_when_spilling:
                arguments = [*arguments, "--spill-dir", str(directory / "spill")]
                # Python ignores the signal of a file that is too large; the server shall, too, so that it sees an error.
                options = {"preexec_fn": limited, "restore_signals": False}
            elif case is more_clients_than_descriptors:
                options = {"preexec_fn": few_descriptors}
            server = Limited(binary, directory, *arguments, **options)
            try:
                case(server)
                assert server.process.poll() is None, "the server has ended"
                print(f"ok {case.__name__} ({time.monotonic() - begun:.1f} s)", flush=True)
            except Exception as error:  # whatever a case runs into is its failure
                failed += 1
                print(f"FAIL {case.__name__}: {type(error).__name__}: {str(error)[:1000]}", flush=True)
            finally:
                server.stop()
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
