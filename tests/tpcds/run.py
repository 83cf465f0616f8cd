#!/usr/bin/env python3
"""TPC-DS's 99 queries beside DuckDB's answers, over data that DuckDB's extension generates.

    tests/tpcds/run.py BIN [--scale 0.1] [--only 14,67]

Each query runs in every combination of: Parquet files as views or native tables; `sql_mode` with and without
ONLY_FULL_GROUP_BY. Without its LIMIT a query must give DuckDB's rows in any order; with its LIMIT the rows must be as many
as DuckDB's, and among those. Text is compared to the letter, numbers to the digits that DECIMAL keeps.

Needs PyMySQL and duckdb-extension-tpcds (requirements.txt).
"""

import argparse
import collections
import decimal
import math
import pathlib
import re
import sys
import tempfile

import duckdb
import duckdb_extension_tpcds
import pymysql

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from server import Server  # noqa: E402

LIMIT = re.compile(r"\blimit\s+(\d+)\s*;?\s*$", re.IGNORECASE)

# DuckDB's types in the words of a native table.
TYPES = {"BIGINT": "BIGINT", "INTEGER": "INT", "VARCHAR": "STRING", "DATE": "DATE"}

# Where Doris reads a query in another way: names of tables differ by case, and a date plus a number is a number.
SPELLINGS = {49: [(") catalog", ") CATALOG")], 72: [("d1.d_date + INTERVAL 5 DAY", "d1.d_date + 5")]}

# The sample deviation of one row is 0 in Doris and NULL in DuckDB.
ONE_ROW = re.compile(r"stddev_samp\((\w+)\)", re.IGNORECASE)

# Names in double quotes are names in this mode, and `||` joins text: standard SQL, which TPC-DS is written in.
MODES = {"full": "ONLY_FULL_GROUP_BY,ANSI_QUOTES,PIPES_AS_CONCAT", "any": "ANSI_QUOTES,PIPES_AS_CONCAT"}


def generated(scale):
    """A DuckDB connection with the tables of TPC-DS in it."""
    duck = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    [extension] = pathlib.Path(duckdb_extension_tpcds.__file__).parent.rglob("*.duckdb_extension")
    duck.execute(f"LOAD '{extension}'")
    duck.execute(f"CALL dsdgen(sf = {scale})")
    duck.execute("SET default_null_order = 'nulls_first_on_asc_last_on_desc'")
    return duck


def fill(server, duck, directory):
    """The tables of `duck` as views over Parquet files (`files`) and as native tables (`native`)."""
    for database in ("files", "native"):
        server.rows(f"CREATE DATABASE {database}")
    for (table,) in duck.execute("SELECT table_name FROM duckdb_tables() ORDER BY 1").fetchall():
        file = f"{directory}/{table}.parquet"
        duck.execute(f"COPY {table} TO '{file}'")
        columns = duck.execute(f"SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = '{table}'").fetchall()
        shapes = ", ".join(f"{name} {TYPES.get(kind, kind)}" for name, kind in columns)
        server.rows(f"CREATE VIEW files.{table} AS SELECT * FROM '{file}'")
        server.rows(f"CREATE TABLE native.{table} ({shapes}) DUPLICATE KEY({columns[0][0]}) DISTRIBUTED BY HASH({columns[0][0]}) BUCKETS 3")
        server.rows(f"INSERT INTO native.{table} SELECT * FROM '{file}'")


def parts(row):
    """The text of a row and its numbers: what must be equal, and what nearly."""
    number = lambda v: isinstance(v, (int, float, decimal.Decimal)) and not isinstance(v, bool)
    return tuple(None if number(v) else repr(v) if v is None else str(v) for v in row), [float(v) for v in row if number(v)]


def near(a, b):
    """Numbers are equal but for the digits that Doris's DECIMAL does not keep: four behind the point in AVG and division."""
    return all(math.isclose(x, y, rel_tol=1e-6, abs_tol=2e-4) for x, y in zip(a, b))


def without(rows, others):
    """Those of `rows` that have no equal of their own in `others`."""
    left = collections.defaultdict(list)
    for row in others:
        text, numbers = parts(row)
        left[text].append(numbers)
    missing = []
    for row in rows:
        text, numbers = parts(row)
        at = next((i for i, other in enumerate(left[text]) if near(numbers, other)), None)
        missing.append(row) if at is None else left[text].pop(at)
    return missing


def difference(server, text, expected):
    """What is wrong with dipper's answers to `text`, whose rows without LIMIT are `expected`; None where nothing is."""
    limit = LIMIT.search(text)
    try:
        found = server.rows(LIMIT.sub("", text))
        if len(found) != len(expected) or without(expected, found):
            missing, more = without(expected, found), without(found, expected)
            return f"{len(found)} rows, expected {len(expected)}; missing {missing[:2]}, too many {more[:2]}"
        if limit:
            first = server.rows(text)
            if len(first) != min(int(limit[1]), len(expected)) or without(first, expected):
                return f"with its LIMIT {len(first)} rows, {len(without(first, expected))} of them no rows of the answer"
    except pymysql.Error as error:
        return f"error {error.args}"
    return None


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("binary")
    arguments.add_argument("--scale", type=float, default=0.1)
    arguments.add_argument("--only", default="", help="numbers of queries, separated by commas")
    options = arguments.parse_args()
    only = {int(n) for n in options.only.split(",") if n}
    duck = generated(options.scale)
    failed = compared = 0
    with tempfile.TemporaryDirectory(prefix="dipper-tpcds-") as directory:
        server = Server(options.binary, directory, "--allow-dir", directory)
        try:
            fill(server, duck, directory)
            for number, text in duck.execute("SELECT query_nr, query FROM tpcds_queries() ORDER BY 1").fetchall():
                if only and number not in only:
                    continue
                text = ONE_ROW.sub(r"CASE WHEN count(\1) > 1 THEN stddev_samp(\1) END", text.strip().rstrip(";"))
                for ours, theirs in SPELLINGS.get(number, ()):
                    text = text.replace(theirs, ours)
                expected = duck.execute(LIMIT.sub("", text)).fetchall()
                for database in ("files", "native"):
                    server.rows(f"USE {database}")
                    for name, mode in MODES.items():
                        server.rows(f"SET sql_mode = '{mode}'")
                        compared += 1
                        if what := difference(server, text, expected):
                            failed += 1
                            print(f"query {number}, {database}, GROUP BY {name}: {what}", flush=True)
        finally:
            server.stop()
    print(f"TPC-DS: {compared} answers beside DuckDB's, {failed} differences")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
