"""One peer in one process: reads requests as JSON lines on stdin, answers on stdout.

Request {"query": name} -> {"seconds": t, "answer": [[...]], "peak_kib": n} or {"error": text}."""

import datetime
import decimal
import json
import math
import os
import resource
import sys
import time

from queries import COLUMNS, LINEORDER, QUERIES


def plain(value):
    """A value as all engines agree to show it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return None if math.isnan(value) else repr(round(value, 6))
    if isinstance(value, decimal.Decimal):
        return plain(float(value))
    if isinstance(value, datetime.datetime):
        return value.strftime("%Y-%m-%d %H:%M:%S")
    return None if value is None else str(value)


class DuckDB:
    def __init__(self, data, threads):
        import duckdb

        self.connection = duckdb.connect(config={"threads": threads})
        typed = "{" + ", ".join(f"'{c[0]}': '{c[2]}'" for c in COLUMNS) + "}"
        lineorder = "{" + ", ".join(f"'{n}': '{'BIGINT' if k == 'i' else 'VARCHAR'}'" for n, k in LINEORDER) + "}"
        def view(name, text):
            if name in data:
                self.connection.execute(f"create view {name} as {text}")

        view(
            "hive",
            "select * replace (string_split(tags, chr(2)) as tags) from "
            f"read_csv('{data.get('hive')}', delim='\x01', quote='', escape='', nullstr='\\N', header=false, "
            f"auto_detect=false, columns={typed})",
        )
        for name in ("csv", "csv_quoted"):
            view(
                name,
                f"select * from read_csv('{data.get(name)}', delim=',', quote='\"', escape='\"', "
                f"header=true, auto_detect=false, columns={typed})",
            )
        view(
            "lineorder",
            f"select * from read_csv('{data.get('lineorder')}', header=false, quote='', escape='', "
            f"delim=',', auto_detect=false, columns={lineorder})",
        )
        for name in ("parquet", "hits"):
            view(name, f"select * from read_parquet('{data.get(name)}')")

    def run(self, query):
        text = query["duckdb"].format(table=query["data"])
        start = time.perf_counter()
        rows = self.connection.execute(text).fetchall()
        return time.perf_counter() - start, [[plain(v) for v in row] for row in rows]


class ClickHouse:
    def __init__(self, data, threads):
        from chdb import session

        self.session = session.Session()
        # The count of a file's rows is remembered otherwise, and nobody would read the file again.
        self.settings = (
            f" settings max_threads={threads}, use_cache_for_count_from_files=0, date_time_input_format='basic'"
        )
        typed = ", ".join(f"{c[0]} {c[4]}" for c in COLUMNS)
        lineorder = ", ".join(f"{n} {'Int64' if k == 'i' else 'String'}" for n, k in LINEORDER)
        file = lambda name, form, columns: f"file('{data.get(name)}', '{form}', $${columns}$$)"
        hive = file("hive", "CSV", typed)
        names = ", ".join("splitByChar('\\x02', assumeNotNull(tags)) as tags" if c[0] == "tags" else c[0] for c in COLUMNS)
        self.tables = {
            "hive": f"(select {names} from {hive})",
            "csv": file("csv", "CSVWithNames", typed),
            "csv_quoted": file("csv_quoted", "CSVWithNames", typed),
            "lineorder": file("lineorder", "CSV", lineorder),
            "parquet": f"file('{data.get('parquet')}', 'Parquet')",
            "hits": f"file('{data.get('hits')}', 'Parquet')",
        }
        # An unquoted empty field is NULL in the two CSV files.
        self.extra = {"hive": ", format_csv_delimiter='\x01'", "csv": ", format_csv_null_representation=''",
                      "csv_quoted": ", format_csv_null_representation=''"}  # fmt: skip

    def run(self, query):
        text = query["clickhouse"].format(table=self.tables[query["data"]])
        text += self.settings + self.extra.get(query["data"], "")
        start = time.perf_counter()
        answer = self.session.query(text, "JSONCompactEachRow").data()
        seconds = time.perf_counter() - start
        rows = [json.loads(line) for line in answer.splitlines()]
        return seconds, [[plain(v) for v in row] for row in rows]


class Polars:
    def __init__(self, data, threads):
        os.environ["POLARS_MAX_THREADS"] = str(threads)
        import polars as pl

        self.pl = pl
        # Three times as fast as leaving timestamps to the CSV reader.
        typed = {c[0]: pl.String if c[3] == "Datetime" else getattr(pl, c[3]) for c in COLUMNS}
        with_time = pl.col("ts").str.to_datetime("%Y-%m-%d %H:%M:%S", time_unit="us")
        lineorder = {name: pl.Int64 if kind == "i" else pl.String for name, kind in LINEORDER}
        text = {"separator": "\x01", "has_header": False, "quote_char": None, "null_values": ["\\N"], "schema": typed}
        plain_text = {"has_header": False, "quote_char": None, "schema": lineorder}
        scans = {
            "hive": lambda path: pl.scan_csv(path, **text).with_columns(pl.col("tags").str.split("\x02"), with_time),
            "csv": lambda path: pl.scan_csv(path, schema=typed).with_columns(with_time),
            "csv_quoted": lambda path: pl.scan_csv(path, schema=typed).with_columns(with_time),
            "lineorder": lambda path: pl.scan_csv(path, **plain_text),
            "parquet": pl.scan_parquet,
            "hits": pl.scan_parquet,
        }
        self.frames = {name: scans[name](path) for name, path in data.items()}

    def run(self, query):
        frame = self.frames[query["data"]]
        start = time.perf_counter()
        # The engine for data larger than memory is also the fastest one for these queries.
        rows = query["polars"](frame, self.pl).collect(engine="streaming").rows()
        seconds = time.perf_counter() - start
        return seconds, [[plain(v) for v in row] for row in rows]


PEERS = {"duckdb": DuckDB, "clickhouse": ClickHouse, "polars": Polars}


def main():
    name, data, threads = sys.argv[1], json.loads(sys.argv[2]), int(sys.argv[3])
    # Answers go where only they go: engines write to stdout too.
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    peer = PEERS[name](data, threads)
    queries = {query["name"]: query for query in QUERIES}
    for line in sys.stdin:
        try:
            seconds, answer = peer.run(queries[json.loads(line)["query"]])
            reply = {"seconds": seconds, "answer": answer}
        except Exception as error:  # the engines' own exceptions have no common base
            reply = {"error": f"{type(error).__name__}: {error}"[:500]}
        reply["peak_kib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        out.write(json.dumps(reply) + "\n")
        out.flush()


if __name__ == "__main__":
    main()
