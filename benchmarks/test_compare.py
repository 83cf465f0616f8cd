#!/usr/bin/env python3
"""Tests of compare.py and suites.py: that right answers pass, and that each kind of wrong one is found."""

import argparse
import datetime
import re
import sys
from decimal import Decimal
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import engines  # noqa: E402
import suites  # noqa: E402
import scan  # noqa: E402
from compare import Shape, compare, look_up, near, plain, same_rows, split_commas, top_level  # noqa: E402


def values():
    assert near(1, 1) and not near(1, 2) and not near(10**18, 10**18 + 1)
    assert near(0.1 + 0.2, 0.3) and not near(0.3, 0.3001)
    assert near(Decimal("2.3333"), 7 / 3) and not near(Decimal("2.3335"), 7 / 3)
    assert near(None, None) and not near(None, 0) and not near("", None) and not near("1a", 1)
    assert plain("123456789012345678901234") == 123456789012345678901234 and plain("007") == "007"
    assert plain(datetime.date(2013, 7, 2)) == "2013-07-02" and plain(b"x") == "x" and plain(True) == 1
    assert plain(datetime.datetime(2013, 7, 2, 1, 2, 3)) == plain("2013-07-02 01:02:03.000000")
    assert plain(Decimal("5")) == 5 and isinstance(plain(Decimal("5.0")), Decimal)


def rows():
    assert same_rows([[1, "a"], [2, "b"]], [[2, "b"], [1, "a"]]) is None
    assert same_rows([[1, "a"], [1, "a"]], [[1, "a"], [2, "b"]])
    assert same_rows([["a", 0.3], ["a", 0.1]], [["a", 0.1], ["a", 0.1 + 0.2]]) is None
    assert same_rows([["a", 0.3], ["a", 0.2]], [["a", 0.1], ["a", 0.3]])
    assert same_rows([[None], ["x"]], [["x"], [None]]) is None and same_rows([[None]], [[""]])


def shapes():
    assert split_commas("f(a, b), 'x,y', c") == ["f(a, b)", "'x,y'", "c"]
    assert top_level("select extract(minute FROM t), 'from' FROM hits", "FROM") == 38
    shape = Shape("SELECT a, count(*) AS c FROM t GROUP BY a ORDER BY c DESC, lower(a) LIMIT 10 OFFSET 5")
    assert (shape.limit, shape.offset, shape.keys) == (10, 5, ["c", "lower(a)"])
    assert shape.whole.strip() == "SELECT a, count(*) AS c, c AS sort_key_0, lower(a) AS sort_key_1 FROM t GROUP BY a"
    assert shape.keyed.endswith("ORDER BY c DESC, lower(a) LIMIT 10 OFFSET 5")
    plain_shape = Shape("SELECT a FROM t")
    assert plain_shape.whole == plain_shape.keyed == "SELECT a FROM t" and plain_shape.limit is None


def answers():
    """Against DuckDB: one row a name, ties in n, NULLs, floats."""
    import duckdb

    connection = duckdb.connect()
    connection.execute("CREATE TABLE t (a VARCHAR, n INT, x DOUBLE, d TIMESTAMP)")
    connection.execute("INSERT INTO t SELECT 'n' || i, i // 3, i / 7, '2013-07-02'::TIMESTAMP + to_seconds(i) FROM range(20) r(i)")
    connection.execute("INSERT INTO t VALUES (NULL, 6, NULL, NULL)")

    def ask(sql):
        return [[engines.plain(value) for value in row] for row in connection.execute(sql).fetchall()]

    def verdict(sql, change=lambda rows: rows):
        shape = Shape(sql)
        ours = change([list(row) for row in connection.execute(sql).fetchall()])
        return compare(shape, ours, ask(shape.keyed), look_up(ask, shape))

    whole = "SELECT a, n, x, d FROM t"
    assert verdict(whole) is None
    assert verdict(whole, lambda rows: rows[::-1]) is None, "no order is asked for"
    assert verdict(whole, lambda rows: rows[1:])
    assert verdict(whole, lambda rows: [row[1:] for row in rows])
    assert verdict(whole, lambda rows: rows[:-1] + [rows[0]])
    assert verdict(whole, lambda rows: [[*rows[0][:2], 1.0, rows[0][3]], *rows[1:]])
    assert verdict(whole, lambda rows: [["", *row[1:]] if row[0] is None else row for row in rows]), "NULL is not empty"

    ordered = "SELECT a, n FROM t ORDER BY n"
    assert verdict(ordered, lambda rows: [rows[2], rows[1], rows[0], *rows[3:]]) is None, "ties may swap"
    assert verdict(ordered, lambda rows: [rows[3], *rows[1:3], rows[0], *rows[4:]]), "order matters"

    limited = "SELECT a, n FROM t ORDER BY n LIMIT 4"
    assert verdict(limited, lambda rows: [*rows[:3], ["n5", 1]]) is None, "any row of the cut group"
    assert verdict(limited, lambda rows: [*rows[:3], ["n6", 2]]), "not of the cut group"
    assert verdict(limited, lambda rows: [*rows[:3], ["n99", 1]]), "no such row"
    assert verdict(limited, lambda rows: [rows[0], rows[0], rows[2], rows[3]]), "groups that are not cut are whole"
    assert verdict("SELECT a, n FROM t ORDER BY n LIMIT 5", lambda rows: [*rows[:3], ["n5", 1], ["n5", 1]]), "twice"
    assert verdict("SELECT a, n FROM t ORDER BY n LIMIT 4 OFFSET 1", lambda rows: [["n0", 0], *rows[1:]]) is None
    assert verdict("SELECT a, n FROM t ORDER BY n LIMIT 4 OFFSET 1", lambda rows: [["n9", 3], *rows[1:]])

    hidden = "SELECT a FROM t WHERE a <> '' ORDER BY n LIMIT 4"
    assert verdict(hidden, lambda rows: [*rows[:3], ["n4"]]) is None, "the sort key is not shown"
    assert verdict(hidden, lambda rows: [*rows[:3], ["n6"]])
    grouped = "SELECT n, avg(x) AS m, count(*) AS c FROM t GROUP BY n ORDER BY c DESC LIMIT 2"
    assert verdict(grouped, lambda rows: [[0, 0.14285714285714, 3], [5, 16 / 7, 3]]) is None
    assert verdict(grouped, lambda rows: [[0, 0.1428, 3], [9, 16 / 7, 3]])
    assert verdict("SELECT a, n FROM t LIMIT 3", lambda rows: [["n9", 3], [None, 6], ["n0", 0]]) is None
    assert verdict("SELECT a, n FROM t LIMIT 3", lambda rows: [["n9", 3], [None, 5], ["n0", 0]])
    assert verdict("SELECT min(d), max(d), count(*) FROM t") is None


def tables():
    ssb, queries = suites.suite("ssb")
    assert list(ssb) == ["lineorder", "customer", "dates", "part", "supplier"] and len(queries) == 13
    assert [len(table.columns) for table in ssb.values()] == [17, 8, 17, 9, 7]
    assert ssb["lineorder"].key == ["lo_orderkey"] and "BUCKETS 3" in ssb["lineorder"].ddl(3)
    hits, queries = suites.suite("clickbench")
    hits = hits["hits"]
    assert len(hits.columns) == len(hits.file_columns) == 105 and len(queries) == 43
    assert [c.name for c in hits.file_columns[:11]] == [
        "WatchID", "JavaEnable", "Title", "GoodEvent", "EventTime", "EventDate", "CounterID", "ClientIP", "RegionID",
        "UserID", "CounterClass"]  # fmt: skip
    assert {c.name for c in hits.columns} == {c.name for c in hits.file_columns}
    narrow = hits.only(["CounterID", "UserID", "JavaEnable"])
    assert [c.name for c in narrow.columns] == ["CounterID", "UserID", "JavaEnable"]
    assert suites.parse_tables(narrow.text)["hits"].columns == narrow.columns
    tpch, tpch_queries = suites.suite("tpch")
    assert [len(table.columns) for table in tpch.values()] == [3, 4, 7, 8, 9, 5, 9, 16] and len(tpch_queries) == 22
    assert tpch["lineitem"].columns[4] == suites.Column("l_quantity", "DECIMAL(15,2)", False)
    assert "`c_acctbal` Decimal(15,2)" in suites.clickhouse_ddl(tpch["customer"])
    spread = hits.spread()
    assert spread.columns[0].name == "WatchID" and spread.key == ["WatchID"] and len(spread.columns) == 105
    assert spread.file_columns == hits.file_columns and "DUPLICATE KEY (WatchID)" in spread.text
    assert "PARTITION" in ssb["lineorder"].text and "PARTITION" not in ssb["lineorder"].spread().text
    assert [c.name for c in ssb["lineorder"].spread().columns] == [c.name for c in ssb["lineorder"].columns]
    views = suites.suite("views")[0]["views"]
    assert "UNIQUE KEY (id)" in views.ddl(2, unique=True) and "TABLE other (" in views.ddl(name="other")
    for _, sql in queries:
        assert "DATE_FORMAT" not in suites.duckdb_query(sql) and "\\\\" not in suites.duckdb_query(sql)


def scans():
    made = scan.queries()
    uniform = suites.suite("scan")[0]["uniform"]
    assert len({name for name, _, _ in made}) == len(made) > 40
    names = {column.name for column in uniform.columns}
    for name, columns, sql in made:
        read = {word for word in re.findall(r"\b[a-z]\d?\b", re.sub("'[^']*'", "", sql))} & names
        assert len(read) == columns, f"{name}: {read}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--venv", type=Path, default=engines.HERE.parent / "target" / "bench" / "venv")
    engines.enter_venv(parser.parse_args().venv)
    for test in (values, rows, shapes, tables, scans, answers):
        test()
        print(f"{test.__name__}: ok")


if __name__ == "__main__":
    main()
