#!/usr/bin/env python3
"""The same rows by every way in: a table of random columns and model is loaded by CSV, JSON, Parquet, Arrow, http_stream, INSERT
(text and prepared), LOAD DATA and StarRocks' transactions, into a table of its own each. All have to hold what Python computes.

Between the loads the server is killed (kill -9) and connections are lost: a load is there whole or not at all, and repeated under
its label it is there once.

    tests/faults/loads.py --server BIN [--seed N] [--seconds 25] [--no-kills] [--way NAME]

What differs is printed with its seed; `--seed N --seconds 0` tries that one alone.

Needs PyMySQL and pyarrow (the virtual environment of tests/clients has both).
"""

import argparse
import base64
import bz2
import collections
import datetime
import gzip
import http.client
import io
import json
import os
import pathlib
import random
import socket
import struct
import sys
import tempfile
import threading
import time
import zlib
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet
import pymysql

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "differential"))
import kill  # noqa: E402
import wire  # noqa: E402

AUTH = "Basic " + base64.b64encode(b"root:").decode()
EPOCH = datetime.datetime(1970, 1, 1)


class Wrong(Exception):
    """What a load did is not what was asked for."""


# ---- types -----------------------------------------------------------------------------------------------------------


class Type:
    """A type of columns: random values, and how each way in writes them. `read` is what a client's text means."""

    key = summed = ordered = False

    def text(self, value):
        """Of a CSV cell, and of a literal before it is quoted."""
        return str(value)

    def json(self, value):
        return self.text(value)

    def literal(self, value):
        return quoted(self.text(value))

    def bound(self, value):
        return self.text(value)

    def arrow_value(self, value):
        return value

    def read(self, text):
        return text


class Whole(Type):
    key = summed = ordered = True

    def __init__(self, sql, bits, arrow):
        self.sql, self.arrow = sql, arrow
        # Sums of some hundred values fit into the type that sums them.
        self.most = 2 ** (bits - 1) // 512

    def random(self, rng):
        return rng.choice([0, 1, -1, rng.randint(-9, 9), rng.randint(-self.most, self.most)]) if self.most > 9 else rng.randint(-1, 1)

    def literal(self, value):
        return str(value)

    def bound(self, value):
        return value

    def arrow_value(self, value):
        return Decimal(value) if pa.types.is_decimal(self.arrow) else value

    def read(self, text):
        return int(text)


class Boolean(Type):
    sql, arrow, key = "BOOLEAN", pa.bool_(), True

    def random(self, rng):
        return rng.random() < 0.5

    def text(self, value):
        return "1" if value else "0"

    def json(self, value):
        return "true" if value else "false"

    def literal(self, value):
        return "TRUE" if value else "FALSE"

    def bound(self, value):
        return value

    def read(self, text):
        return text == "1"


class Float(Type):
    ordered = True

    def __init__(self, sql, arrow):
        self.sql, self.arrow = sql, arrow

    def random(self, rng):
        return rng.choice([0.0, 1.5, rng.randint(-(2**20), 2**20) / 8])

    def literal(self, value):
        return repr(value)

    def bound(self, value):
        return value

    def read(self, text):
        return float(text)


class Number(Type):
    key = summed = ordered = True

    def __init__(self, rng):
        self.scale = rng.randint(0, 12)
        self.precision = self.scale + rng.randint(4, 20)
        self.sql, self.arrow = f"DECIMAL({self.precision}, {self.scale})", pa.decimal128(self.precision, self.scale)

    def random(self, rng):
        digits = rng.randint(1, self.precision - 3)
        return Decimal(rng.randint(-(10**digits), 10**digits)).scaleb(-self.scale)

    def text(self, value):
        return f"{value:.{self.scale}f}"

    def literal(self, value):
        return self.text(value)

    def read(self, text):
        return Decimal(text)


class Date(Type):
    sql, arrow, key, ordered = "DATE", pa.date32(), True, True

    def random(self, rng):
        return (EPOCH + datetime.timedelta(days=rng.randint(-20000, 40000))).date()

    def json(self, value):
        return json.dumps(self.text(value))

    def bound(self, value):
        return value

    def read(self, text):
        return datetime.date.fromisoformat(text)


class Time(Type):
    arrow, key, ordered = pa.timestamp("us"), True, True

    def __init__(self, digits):
        self.digits, self.sql = digits, f"DATETIME({digits})" if digits else "DATETIME"

    def random(self, rng):
        step = 10 ** (6 - self.digits)
        micros = rng.randrange(10**6) // step * step
        return EPOCH + datetime.timedelta(seconds=rng.randint(-(10**9), 4 * 10**9), microseconds=micros)

    def text(self, value):
        shown = value.strftime("%Y-%m-%d %H:%M:%S")
        return shown + (f".{value.microsecond:06}"[: self.digits + 1] if self.digits else "")

    def json(self, value):
        return json.dumps(self.text(value))

    def bound(self, value):
        return value

    def read(self, text):
        if len(text) != 19 + (self.digits + 1 if self.digits else 0):
            raise Wrong(f"{self.sql} is shown as {text}")
        return datetime.datetime.fromisoformat(text)


WORDS = ["", "a", "Z", "é", "日本", "🙂", " ", "0", "null", "NULL", "x" * 30]
ODD = [",", "|", "\t", "\n", "\r", '"', "'", "\\", "\\N", "\\n", "||", ";", "`", "{", "[1]", "\x01", "%", "#", "--", "/*"]


class Text(Type):
    arrow = pa.string()

    def __init__(self, sql, odd, key):
        self.sql, self.odd, self.key = sql, odd, key

    def random(self, rng):
        words = WORDS + ODD if self.odd else WORDS
        text = "".join(rng.choice(words) for _ in range(rng.choice([0, 1, 1, 2, 5])))
        # CHAR does not keep blanks at its end, and of keys these are not the matter.
        return text.strip(" ") if self.key or self.sql.startswith("CHAR") else text

    def json(self, value):
        return json.dumps(value, ensure_ascii=len(value) % 2 == 0)


class Json(Type):
    sql, arrow = "JSON", pa.string()

    def random(self, rng):
        scalar = lambda: rng.choice([rng.randint(-99, 99), "s", "é", True, None, 1.5])
        return rng.choice([{"a": scalar(), "b": [scalar(), scalar()]}, [scalar()], {}, [], rng.randint(0, 9), {"d": {"e": scalar()}}])

    def text(self, value):
        return json.dumps(value)

    def arrow_value(self, value):
        return json.dumps(value)

    def read(self, text):
        return json.loads(text)


class Nested(Type):
    """ARRAY, MAP and STRUCT of whole numbers and words."""

    def __init__(self, rng):
        self.kind = rng.choice(["ARRAY<INT>", "ARRAY<STRING>", "MAP<STRING, INT>", "STRUCT<a: INT, b: STRING>", "ARRAY<ARRAY<INT>>"])
        self.sql = self.kind
        self.arrow = {
            "ARRAY<INT>": pa.list_(pa.int32()),
            "ARRAY<STRING>": pa.list_(pa.string()),
            "ARRAY<ARRAY<INT>>": pa.list_(pa.list_(pa.int32())),
            "MAP<STRING, INT>": pa.map_(pa.string(), pa.int32()),
            "STRUCT<a: INT, b: STRING>": pa.struct([("a", pa.int32()), ("b", pa.string())]),
        }[self.kind]

    def random(self, rng):
        number = lambda: rng.choice([None, rng.randint(-99, 99)])
        word = lambda: rng.choice([None, "a", "bc", "é", "x y", "1"])
        some = range(rng.choice([0, 1, 3]))
        if self.kind == "ARRAY<INT>":
            return [number() for _ in some]
        if self.kind == "ARRAY<STRING>":
            return [word() for _ in some]
        if self.kind == "ARRAY<ARRAY<INT>>":
            return [[number() for _ in some] for _ in range(rng.choice([0, 1, 2]))]
        if self.kind == "MAP<STRING, INT>":
            return {f"k{i}": number() for i in some}
        return {"a": number(), "b": word()}

    def text(self, value):
        return json.dumps(value, ensure_ascii=False)

    def arrow_value(self, value):
        return list(value.items()) if self.kind.startswith("MAP") else value

    def read(self, text):
        return json.loads(text)


def quoted(text):
    return "'" + pymysql.converters.escape_string(text) + "'"


def random_type(rng, odd, key=False):
    makers = [
        lambda: Whole("TINYINT", 8, pa.int8()), lambda: Whole("SMALLINT", 16, pa.int16()), lambda: Whole("INT", 32, pa.int32()),
        lambda: Whole("BIGINT", 64, pa.int64()), lambda: Whole("LARGEINT", 100, pa.decimal128(38, 0)), lambda: Number(rng), Date,
        lambda: Time(rng.choice([0, 3, 6])), lambda: Text("VARCHAR(400)", odd, key),
    ]
    if not key:
        makers += [Boolean, lambda: Float("DOUBLE", pa.float64()), lambda: Float("FLOAT", pa.float32()), Json, lambda: Nested(rng),
                   lambda: Nested(rng), lambda: Text("STRING", odd, False), lambda: Text("CHAR(255)", False, False)]
    return rng.choice(makers)()


# ---- tables ----------------------------------------------------------------------------------------------------------


class Column:
    def __init__(self, name, kind, nullable, aggregate=None, default=None):
        self.name, self.kind, self.nullable, self.aggregate, self.default = name, kind, nullable, aggregate, default


class Table:
    """A random definition and rows for it."""

    def __init__(self, rng):
        self.model = rng.choice(["DUPLICATE", "UNIQUE", "UNIQUE", "AGGREGATE", "PRIMARY"])
        odd = rng.random() < 0.6
        # Now and then many rows of few columns, which several threads work on.
        many = rng.random() < 0.06
        self.keys = 1 if many else rng.randint(1, 3)
        self.columns = []
        for i in range(self.keys):
            self.columns.append(Column(f"k{i}", random_type(rng, odd, True), self.model != "PRIMARY" and rng.random() < 0.4))
        for i in range(1 if many else rng.randint(1, 7)):
            kind, nullable, aggregate, default = random_type(rng, odd), rng.random() < 0.7, None, None
            if self.model == "AGGREGATE":
                ways = ["REPLACE", "REPLACE_IF_NOT_NULL"] + ["SUM"] * kind.summed + ["MIN", "MAX"] * kind.ordered
                aggregate = rng.choice(ways)
            elif not isinstance(kind, (Json, Nested)) and rng.random() < 0.3:
                default = kind.random(rng)
            self.columns.append(Column(rng.choice(["v", "V", "val ue", "é", "order"]) + str(i), kind, nullable, aggregate, default))
        self.sequence = None
        whole = [c for c in self.columns[self.keys:] if isinstance(c.kind, Whole) and c.kind.sql in ("INT", "BIGINT", "SMALLINT")]
        if self.model == "UNIQUE" and whole and rng.random() < 0.6:
            self.sequence = whole[0]
        # Groups of columns with a sequence of their own: the sequence's place, and those of its group.
        self.groups = []
        if self.model == "UNIQUE" and not self.sequence and rng.random() < 0.5:
            values = list(range(self.keys, len(self.columns)))
            rng.shuffle(values)
            for at, group in enumerate(g for g in (values[::2], values[1::2]) if g):
                self.columns.append(Column(f"s{at}", Whole("INT", 32, pa.int32()), True))
                self.groups.append((len(self.columns) - 1, group))
        self.partitioned = rng.random() < 0.2 and self.columns[0].kind.sql == "INT" and not self.columns[0].nullable
        self.buckets = rng.randint(1, 4)
        count = 12000 if many else rng.choice([1, 2, 7, 40, 300])
        # Keys come again, but for the model that keeps all rows it makes no difference.
        pool = [[c.kind.random(rng) for c in self.columns[: self.keys]] for _ in range(max(1, count * 2 // 3))]
        self.rows = []
        for _ in range(count):
            row = list(rng.choice(pool)) + [c.kind.random(rng) for c in self.columns[self.keys:]]
            for i, c in enumerate(self.columns):
                if i >= self.keys and c.nullable and rng.random() < 0.2:
                    row[i] = None
                elif i < self.keys and c.nullable and isinstance(row[i], (int, str)) and row[i] in (0, ""):
                    row[i] = None
            self.rows.append(tuple(row))

    def ddl(self, name):
        parts = []
        for c in self.columns:
            default = "" if c.default is None else f" DEFAULT {quoted(c.kind.text(c.default))}"
            parts.append(f"`{c.name}` {c.kind.sql} {c.aggregate or ''} {'NULL' if c.nullable else 'NOT NULL'}{default}")
        keys = ", ".join(c.name for c in self.columns[: self.keys])
        properties = {"replication_num": "1"}
        if self.sequence:
            properties["function_column.sequence_col"] = self.sequence.name
        for sequence, group in self.groups:
            names_of = ",".join(self.columns[i].name for i in group)
            properties[f"sequence_mapping.{self.columns[sequence].name}"] = names_of
        partition = ""
        if self.partitioned:
            partition = "PARTITION BY RANGE(k0) (PARTITION a VALUES LESS THAN ('0'), PARTITION b VALUES LESS THAN (MAXVALUE)) "
        return (f"CREATE TABLE `{name}` ({', '.join(parts)}) {self.model} KEY({keys}) {partition}DISTRIBUTED BY HASH({keys}) "
                f"BUCKETS {self.buckets} PROPERTIES ({', '.join(f'{quoted(k)} = {quoted(v)}' for k, v in properties.items())})")

    def expected(self, times=1):
        """The table's rows, after the rows were loaded so many times."""
        rows = self.rows * times
        if self.model == "DUPLICATE":
            return rows
        kept = {}
        at = self.columns.index(self.sequence) if self.sequence else None
        order = lambda v: (v is not None, v or 0)
        for row in rows:
            key = row[: self.keys]
            old = kept.get(key)
            if old is None:
                kept[key] = row
            elif self.model == "AGGREGATE":
                kept[key] = key + tuple(self.merged(c, a, b) for c, a, b in list(zip(self.columns, old, row))[self.keys:])
            elif self.groups:
                merged = list(old)
                for sequence, group in self.groups:
                    if order(row[sequence]) >= order(old[sequence]):
                        for i in [sequence, *group]:
                            merged[i] = row[i]
                kept[key] = tuple(merged)
            elif at is None or order(row[at]) >= order(old[at]):
                kept[key] = row
        return list(kept.values())

    @staticmethod
    def merged(column, old, new):
        if column.aggregate == "REPLACE":
            return new
        if old is None or new is None:
            return new if old is None else old
        return {"REPLACE_IF_NOT_NULL": lambda a, b: b, "SUM": lambda a, b: a + b, "MIN": min, "MAX": max}[column.aggregate](old, new)

    def stored(self, connection, name):
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT * FROM `{name}`")
            text = lambda v: v.decode() if isinstance(v, bytes) else v
            return [tuple(None if v is None else c.kind.read(text(v)) for c, v in zip(self.columns, row)) for row in cursor.fetchall()]


def canonical(rows):
    return sorted(repr([(k, json.dumps(v, sort_keys=True)) if isinstance(v, (dict, list)) else v for k, v in enumerate(row)]) for row in rows)


def check(table, connection, name, expected):
    found, wanted = canonical(table.stored(connection, name)), canonical(expected)
    if found != wanted:
        lost = collections.Counter(wanted) - collections.Counter(found)
        more = collections.Counter(found) - collections.Counter(wanted)
        raise Wrong(f"{len(found)} rows, expected {len(wanted)}\n  missing {list(lost)[:3]}\n  too many {list(more)[:3]}")


# ---- ways in ---------------------------------------------------------------------------------------------------------


class Site:
    """The server as clients see it."""

    def __init__(self, server, files):
        self.server, self.files = server, files

    def sql(self):
        return pymysql.connect(host="127.0.0.1", port=self.server.mysql, user="root", database="faults", autocommit=True, conv={},
                               local_infile=True, read_timeout=60, charset="utf8mb4")

    def ask(self, method, path, body, headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.http, timeout=60)
        try:
            encoded = {k: v.encode() if isinstance(v, str) else v for k, v in headers.items()}
            connection.request(method, path, body, {"Authorization": AUTH, **encoded},
                               encode_chunked="Transfer-Encoding" in headers)
            return json.loads(connection.getresponse().read())
        finally:
            connection.close()

    def put(self, path, body, headers, rows=None):
        answer = self.ask("PUT", path, body, headers)
        if answer["Status"] != "Success":
            raise Wrong(f"{answer['Status']}: {answer['Message']} {json.dumps(answer.get('RejectedRows', [])[:2], ensure_ascii=False)}")
        if rows is not None and answer["NumberLoadedRows"] != rows:
            raise Wrong(f"{answer['NumberLoadedRows']} rows loaded of {rows}")


def label_of(label):
    return {"label": label} if label else {}


def names(table, order=None):
    return ", ".join(f"`{table.columns[i].name}`" for i in order or range(len(table.columns)))


def framed(rng, body, headers):
    """Compressed or not, in chunks or not."""
    codec = rng.choice([None, None, "gz", "bz2", "deflate"])
    if codec:
        body = {"gz": gzip.compress, "bz2": bz2.compress, "deflate": zlib.compress}[codec](body)
        headers[rng.choice(["compress_type", "compression"])] = codec
    if rng.random() < 0.3:
        headers["Transfer-Encoding"] = "chunked"
        step = max(1, len(body) // rng.randint(1, 5))
        return (body[i : i + step] for i in range(0, len(body), step)), headers
    return body, headers


def csv_layout(rng, table):
    """Separators and quotes that can hold all of the rows, as (separator, line end, quote, escape)."""
    cells = [c.kind.text(v) for row in table.rows for c, v in zip(table.columns, row) if v is not None]
    while True:
        separator, end = rng.choice([",", "|", "\t", "||", "\x01", ";x"]), rng.choice(["\n", "\n", "\x02", "\n==\n", "\r\n"])
        quote, escape = rng.choice([None, '"', "'"]), rng.choice([None, "\\"])
        if quote is None:
            escape = None
            # Cells in one column that are empty are rows of nothing; line ends are those of files.
            if any(separator in c or end in c or "\n" in c or "\r" in c or c == "\\N" for c in cells):
                continue
            if len(separator) > 1 and any(separator[0] in c[-1:] for c in cells) or len(table.columns) == 1:
                continue
        return separator, end, quote, escape


def csv_body(rng, table, rows, layout, order):
    separator, end, quote, escape = layout

    def cell(i, value):
        if value is None:
            return "\\N"
        text = table.columns[i].kind.text(value)
        if quote is None:
            return text
        if escape:
            text = text.replace(escape, escape * 2).replace(quote, escape + quote)
        else:
            text = text.replace(quote, quote * 2)
        return quote + text + quote

    lines = [separator.join(cell(i, row[i]) for i in order) for row in rows]
    return (end.join(lines) + (end if rng.random() < 0.8 or not lines else "")).encode()


def csv_headers(layout):
    separator, end, quote, escape = layout
    spelled = lambda text: "\\x" + text.encode().hex() if min(text) < " " else text
    headers = {"column_separator": spelled(separator), "line_delimiter": spelled(end)}
    if quote:
        headers["enclose"] = quote
    if escape:
        headers["escape"] = escape
    return headers


def by_csv(rng, site, table, name, label=None, more=None):
    order = list(range(len(table.columns)))
    layout = csv_layout(rng, table)
    headers = {**csv_headers(layout), **label_of(label), **(more or {})}
    if rng.random() < 0.5:
        rng.shuffle(order)
        headers["columns"] = names(table, order)
    head = b""
    if rng.random() < 0.2:
        head, headers["format"] = b"some\nline of types".replace(b"\n", layout[1].encode()) + layout[1].encode(), "csv_with_names_and_types"
    elif rng.random() < 0.2:
        head, headers["skip_lines"] = b"a" + layout[1].encode(), "1"
    body, headers = framed(rng, head + csv_body(rng, table, table.rows, layout, order), headers)
    site.put(f"/api/faults/{name}/_stream_load", body, headers, len(table.rows))


def by_two_phases(rng, site, table, name, label=None):
    label = label or f"two-{time.time_ns()}"
    with site.sql() as connection:
        before = table.stored(connection, name)
        by_csv(rng, site, table, name, label, {"two_phase_commit": "true"})
        check(table, connection, name, before)
    answer = site.ask("PUT", "/api/faults/_stream_load_2pc", b"", {"label": label, "txn_operation": "commit"})
    if answer["status"] != "Success":
        raise Wrong(str(answer))


def json_object(rng, table, row, keys):
    members = []
    for c, value, key in zip(table.columns, row, keys):
        if value == c.default and type(value) is type(c.default) and value is not None and rng.random() < 0.5:
            continue
        if value is None and c.nullable and c.default is None and rng.random() < 0.5 and len(members):
            continue
        text = "null" if value is None else c.kind.json(value)
        members.append(f"{json.dumps(key)}: {text}")
    # A row of which nothing is there is none.
    if not members:
        members.append(f"{json.dumps(keys[0])}: {'null' if row[0] is None else table.columns[0].kind.json(row[0])}")
    rng.shuffle(members)
    return "{" + ", ".join(members) + "}"


def by_json(rng, site, table, name, label=None):
    keys = [c.name for c in table.columns]
    headers = {"format": "json", **label_of(label)}
    wrapped = rng.random() < 0.3
    if rng.random() < 0.3:
        keys = [f"m{i}" for i in range(len(keys))]
        headers["jsonpaths"] = json.dumps([f"$.{'in.' if wrapped else ''}{k}" for k in keys])
        headers["columns"] = names(table)
        if any(c.default is not None for c in table.columns):
            return by_json(rng, site, table, name, label)
    elif wrapped:
        headers["json_root"] = "$.in"
    objects = [json_object(rng, table, row, keys) for row in table.rows]
    if wrapped:
        objects = ['{"in": ' + o + ', "beside": [1]}' for o in objects]
    if rng.random() < 0.5:
        body = "\n".join(objects) + "\n"
        headers["read_json_by_line"] = "true"
    else:
        body = "[" + rng.choice([",", ",\n", " ,\n\n"]).join(objects) + "]"
        headers["strip_outer_array"] = "true"
    body, headers = framed(rng, body.encode(), headers)
    site.put(f"/api/faults/{name}/_stream_load", body, headers, len(table.rows))


def arrow_table(table, order):
    fields = [pa.field(table.columns[i].name, table.columns[i].kind.arrow) for i in order]
    one = lambda i: [None if row[i] is None else table.columns[i].kind.arrow_value(row[i]) for row in table.rows]
    return pa.table([pa.array(one(i), table.columns[i].kind.arrow) for i in order], schema=pa.schema(fields))


def by_parquet(rng, site, table, name, label=None):
    order = list(range(len(table.columns)))
    rng.shuffle(order)
    out = io.BytesIO()
    pyarrow.parquet.write_table(arrow_table(table, order), out, compression=rng.choice(["zstd", "snappy", "none"]),
                                row_group_size=rng.choice([7, 100000]), use_dictionary=rng.random() < 0.5)
    site.put(f"/api/faults/{name}/_stream_load", out.getvalue(), {"format": "parquet", **label_of(label)}, len(table.rows))


def by_arrow(rng, site, table, name, label=None):
    order = list(range(len(table.columns)))
    rng.shuffle(order)
    rows, out = arrow_table(table, order), io.BytesIO()
    with pa.ipc.new_stream(out, rows.schema) as stream:
        stream.write_table(rows, max_chunksize=rng.choice([3, 1000]))
    site.put(f"/api/faults/{name}/_stream_load", out.getvalue(), {"format": "arrow", **label_of(label)}, len(table.rows))


def by_http_stream(rng, site, table, name, label=None):
    layout = csv_layout(rng, table)
    order = list(range(len(table.columns)))
    options = {"format": "csv", **csv_headers(layout)}
    spelled = ", ".join(f'"{k}" = "{v.replace(chr(92), chr(92) * 2).replace(chr(34), chr(92) + chr(34))}"' for k, v in options.items())
    columns = ", ".join(f"c{i + 1}" for i in order)
    sql = f"INSERT INTO faults.`{name}` ({names(table)}) SELECT {columns} FROM http_stream({spelled})"
    body = csv_body(rng, table, table.rows, layout, order)
    site.put("/api/_http_stream", body, {"sql": sql, **label_of(label)}, len(table.rows))


def by_insert(rng, site, table, name, label=None):
    value = lambda c, v: "NULL" if v is None else "DEFAULT" if v == c.default and type(v) is type(c.default) and rng.random() < 0.5 else (
        quoted(c.kind.text(v)) if rng.random() < 0.2 else c.kind.literal(v))
    rows = ", ".join("(" + ", ".join(value(c, v) for c, v in zip(table.columns, row)) + ")" for row in table.rows)
    into = f"`{name}`" + (f" WITH LABEL `{label}`" if label else "") + rng.choice(["", f" ({names(table)})"])
    with site.sql() as connection, connection.cursor() as cursor:
        if cursor.execute(f"INSERT INTO {into} VALUES {rows}") != len(table.rows):
            raise Wrong("another number of rows affected")


def by_prepared(rng, site, table, name, label=None):
    """All rows at once, or in one transaction row by row."""
    connection = wire.Connection(site.server.mysql)
    try:
        connection.use("faults")
        bound = lambda row: [None if v is None else c.kind.bound(v) for c, v in zip(table.columns, row)]
        one = "(" + ", ".join("?" for _ in table.columns) + ")"
        if len(table.rows) > 10 or rng.random() < 0.5:
            step = 5000
            for at in range(0, len(table.rows), step):
                rows = table.rows[at : at + step]
                values = ", ".join([one] * len(rows))
                connection.execute(f"INSERT INTO `{name}` ({names(table)}) VALUES {values}", [v for row in rows for v in bound(row)])
        else:
            connection.query("BEGIN")
            for row in table.rows:
                connection.execute(f"INSERT INTO `{name}` VALUES {one}", bound(row))
            connection.query("COMMIT")
    except wire.Refused as e:
        raise Wrong(str(e)) from None
    finally:
        connection.close()


def infile(rng, site, table):
    """A file as SELECT ... INTO OUTFILE writes it, and the clauses that say so."""
    order = list(range(len(table.columns)))
    if rng.random() < 0.5:
        rng.shuffle(order)
    quote = rng.choice([None, '"', "'"])
    separator = rng.choice(["\t", ",", "|"])
    prefix = rng.choice(["", "", ">>"])

    def cell(i, value):
        if value is None:
            return "\\N"
        text = table.columns[i].kind.text(value).replace("\\", "\\\\")
        for byte, letter in (("\n", "n"), ("\t", "t"), ("\r", "r")):
            text = text.replace(byte, "\\" + letter)
        text = text.replace(quote, rng.choice(["\\", quote]) + quote) if quote else text.replace(separator, "\\" + separator)
        return f"{quote}{text}{quote}" if quote else text

    lines = [prefix + separator.join(cell(i, row[i]) for i in order) for row in table.rows]
    path = site.files / f"rows-{time.time_ns()}"
    path.write_bytes(("".join(line + "\n" for line in lines)).encode())
    enclosed = f" ENCLOSED BY {quoted(quote)}" if quote else ""
    starting = f" LINES STARTING BY {quoted(prefix)}" if prefix else ""
    # Some columns by a variable.
    targets, sets = [], []
    for i in order:
        c = table.columns[i]
        if rng.random() < 0.3:
            targets.append(f"@x{i}")
            sets.append(f"`{c.name}` = @x{i}")
        else:
            targets.append(f"`{c.name}`")
    chosen = f" SET {', '.join(sets)}" if sets else ""
    return path, f"FIELDS TERMINATED BY {quoted(separator)}{enclosed} ESCAPED BY '\\\\'{starting} ({', '.join(targets)}){chosen}"


def by_load_data(rng, site, table, name, label=None):
    path, clauses = infile(rng, site, table)
    with site.sql() as connection, connection.cursor() as cursor:
        cursor.execute(f"LOAD DATA LOCAL INFILE {quoted(str(path))} INTO TABLE `{name}` {clauses}")
        if cursor.rowcount != len(table.rows):
            raise Wrong(f"{cursor.rowcount} rows affected of {len(table.rows)}")
    path.unlink()


def by_transaction(rng, site, table, name, label=None):
    label = label or f"txn-{time.time_ns()}"
    headers = {"label": label, "db": "faults", "table": name}

    def step(word, body=b"", **more):
        method = "PUT" if word == "load" else "POST"
        answer = site.ask(method, f"/api/transaction/{word}", body, {**headers, **more})
        if answer["Status"] != "OK":
            raise Wrong(f"{word}: {answer}")

    step("begin")
    layout, order = csv_layout(rng, table), list(range(len(table.columns)))
    cuts = sorted(rng.randint(0, len(table.rows)) for _ in range(rng.randint(0, 2)))
    for begin, end in zip([0, *cuts], [*cuts, len(table.rows)]):
        more = csv_headers(layout)
        if "line_delimiter" in more:
            more["row_delimiter"] = more.pop("line_delimiter")
        if begin < end:
            step("load", csv_body(rng, table, table.rows[begin:end], layout, order), **more)
    if rng.random() < 0.5:
        step("prepare")
    step("commit")


WAYS = {
    "csv": by_csv, "two phases": by_two_phases, "json": by_json, "parquet": by_parquet, "arrow": by_arrow, "http_stream": by_http_stream,
    "insert": by_insert, "prepared": by_prepared, "load data": by_load_data, "transaction": by_transaction,
}
# Those that can be repeated under their label.
LABELLED = ["csv", "json", "parquet", "arrow", "http_stream", "insert"]


# ---- what comes between ----------------------------------------------------------------------------------------------


def lost_http(rng, site, table, name):
    """The body of a load breaks off."""
    layout, order = csv_layout(rng, table), list(range(len(table.columns)))
    body = csv_body(rng, table, table.rows, layout, order)
    headers = "".join(f"{k}: {v}\r\n" for k, v in csv_headers(layout).items())
    with socket.create_connection(("127.0.0.1", site.server.http), 10) as s:
        s.sendall(f"PUT /api/faults/{name}/_stream_load HTTP/1.1\r\nHost: x\r\nAuthorization: {AUTH}\r\n{headers}"
                  f"Content-Length: {len(body) + 1}\r\n\r\n".encode() + body[: rng.randint(0, len(body))])


def lost_mysql(rng, site, table, name):
    """The connection breaks off inside the file of LOAD DATA LOCAL, or inside the packet of an INSERT."""
    connection = wire.Connection(site.server.mysql)
    connection.use("faults")
    if rng.random() < 0.5:
        path, clauses = infile(rng, site, table)
        connection.send(f"\x03LOAD DATA LOCAL INFILE 'x' INTO TABLE `{name}` {clauses}".encode())
        body = path.read_bytes()
        path.unlink()
        try:
            connection.packet()
            connection.send(body[: rng.randint(0, len(body))], 2)
        except (OSError, ConnectionError):
            pass
    else:
        rows = ", ".join("(" + ", ".join("NULL" if v is None else c.kind.literal(v) for c, v in zip(table.columns, row)) + ")" for row in table.rows)
        data = f"\x03INSERT INTO `{name}` VALUES {rows}".encode()
        connection.socket.sendall(struct.pack("<I", len(data))[:3] + b"\0" + data[: rng.randint(0, len(data) - 1)])
    connection.close()


def killed(rng, site, table, name, way):
    """kill -9 while a labelled load runs; afterwards it is there or not, and repeated under its label it is there once."""
    label = f"k{time.time_ns()}"
    errors = []

    def load():
        try:
            WAYS[way](random.Random(label), site, table, name, label)
        except Exception as e:  # the connection is lost at any point
            errors.append(e)

    thread = threading.Thread(target=load)
    thread.start()
    time.sleep(rng.random() * 0.05)
    site.server.kill()
    thread.join()
    site.server.start()
    with site.sql() as connection:
        found = table.stored(connection, name)
        if found:
            check(table, connection, name, table.expected())
        try:
            WAYS[way](random.Random(label), site, table, name, label)
        except (Wrong, pymysql.err.MySQLError) as e:
            if "already" not in str(e).lower():
                raise
        check(table, connection, name, table.expected())


# ---- the test --------------------------------------------------------------------------------------------------------


def case(seed, site, ways, kills):
    rng = random.Random(seed)
    table = Table(rng)
    made = []

    def fresh(connection, way):
        name = f"t{seed}_{way.replace(' ', '_')}"
        with connection.cursor() as cursor:
            cursor.execute(f"DROP TABLE IF EXISTS `{name}` FORCE")
            cursor.execute(table.ddl(name))
        made.append(name)
        return name

    wrong = []
    with site.sql() as connection:
        for way in ways:
            try:
                name = fresh(connection, way)
                for lost in rng.sample([lost_http, lost_mysql], rng.randint(0, 1)):
                    lost(rng, site, table, name)
                WAYS[way](rng, site, table, name)
                check(table, connection, name, table.expected())
                if rng.random() < 0.2:
                    # Once more: what rows do to rows that are there.
                    WAYS[way](rng, site, table, name)
                    check(table, connection, name, table.expected(2))
            except (Wrong, pymysql.err.MySQLError) as e:
                wrong.append(f"seed {seed}, {way}: {e}\n  {table.ddl('t')}")
    if kills:
        way = rng.choice(LABELLED)
        try:
            with site.sql() as connection:
                name = fresh(connection, "killed " + way)
            killed(rng, site, table, name, way)
        except (Wrong, pymysql.err.MySQLError) as e:
            wrong.append(f"seed {seed}, killed in {way}: {e}\n  {table.ddl('t')}")
    with site.sql() as connection, connection.cursor() as cursor:
        for name in made:
            cursor.execute(f"DROP TABLE IF EXISTS `{name}` FORCE")
    return wrong


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--server", required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=25)
    parser.add_argument("--no-kills", action="store_true")
    parser.add_argument("--way", action="append", choices=list(WAYS))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="dipper-loads-") as directory:
        directory = pathlib.Path(directory)
        server = kill.Node(os.path.abspath(options.server), str(directory / "data"), directory)
        server.start()
        try:
            with server.connect() as connection, connection.cursor() as cursor:
                cursor.execute("CREATE DATABASE faults")
            server.created = True
            site = Site(server, directory)
            end, seed, wrong = time.monotonic() + options.seconds, options.seed, []
            while True:
                left = end - time.monotonic()
                wrong += case(seed, site, options.way or list(WAYS), kills=not options.no_kills and seed % 3 == 0)
                seed += 1
                if left <= 0 or len(wrong) > 20 or server.process.poll() is not None:
                    break
            if server.process.poll() is not None:
                wrong.append("the server ended:\n" + (directory / "server.log").read_text()[-2000:])
            print("\n".join(wrong))
            print(f"{seed - options.seed} tables by {len(options.way or WAYS)} ways, {len(wrong)} wrong")
            sys.exit(1 if wrong else 0)
        finally:
            if server.process.poll() is None:
                server.kill()


if __name__ == "__main__":
    main()
