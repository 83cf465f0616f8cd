"""Types and their values, random tables, and the ways in which dipper can store them."""

import datetime
import decimal
import json
from collections import namedtuple
from decimal import Decimal

from tree import Literal

decimal.getcontext().prec = 80

Column = namedtuple("Column", "name kind type")
Type = namedtuple("Type", "kind duck parquet")  # kind of values; DuckDB's type in memory, and in the Parquet file

TYPES = {
    "TINYINT": Type("int", "BIGINT", "TINYINT"),
    "SMALLINT": Type("int", "BIGINT", "SMALLINT"),
    "INT": Type("int", "BIGINT", "INTEGER"),
    "BIGINT": Type("int", "BIGINT", "BIGINT"),
    # Parquet has no integers of 128 bits: text, and a cast in the view above.
    "LARGEINT": Type("int", "HUGEINT", "VARCHAR"),
    "DECIMAL(5,2)": Type("decimal", "DECIMAL(5,2)", "DECIMAL(5,2)"),
    "DECIMAL(12,3)": Type("decimal", "DECIMAL(12,3)", "DECIMAL(12,3)"),
    "DECIMAL(27,6)": Type("decimal", "DECIMAL(27,6)", "DECIMAL(27,6)"),
    "DOUBLE": Type("double", "DOUBLE", "DOUBLE"),
    "FLOAT": Type("double", "DOUBLE", "FLOAT"),
    "BOOLEAN": Type("bool", "BOOLEAN", "BOOLEAN"),
    "DATE": Type("date", "DATE", "DATE"),
    "DATETIME": Type("datetime", "TIMESTAMP", "TIMESTAMP"),
    "DATETIME(3)": Type("datetime", "TIMESTAMP", "TIMESTAMP"),
    "DATETIME(6)": Type("datetime", "TIMESTAMP", "TIMESTAMP"),
    "CHAR(6)": Type("text", "VARCHAR", "VARCHAR"),
    "VARCHAR(20)": Type("text", "VARCHAR", "VARCHAR"),
    "STRING": Type("text", "VARCHAR", "VARCHAR"),
    "ARRAY<INT>": Type("ints", "BIGINT[]", "INTEGER[]"),
    "ARRAY<VARCHAR(20)>": Type("texts", "VARCHAR[]", "VARCHAR[]"),
    "MAP<STRING,INT>": Type("map", "MAP(VARCHAR, BIGINT)", "MAP(VARCHAR, INTEGER)"),
    "STRUCT<a:INT,b:STRING>": Type("struct", "STRUCT(a BIGINT, b VARCHAR)", "STRUCT(a INTEGER, b VARCHAR)"),
    "JSON": Type("json", "VARCHAR", "VARCHAR"),
}
NESTED = ("ints", "texts", "map", "struct", "json")
NO_KEYS = ("double", *NESTED)
BITS = {"TINYINT": 7, "SMALLINT": 15, "INT": 31, "BIGINT": 63, "LARGEINT": 127}
WORDS = ["", "a", "b", "ab", "abc", "A", "aB", "é", "中文", "a b", " a", "%", "_", "a%b", "0", "10", "-1", "foo", "foob", "\\", "'", "NULL"]
PLAIN = ["a", "b", "ab", "é", "x y", ""]


def value(r, sql_type, null=0.12, extreme=0.05):
    """A value of a type; many are equal, some are the largest."""
    if r.random() < null:
        return None
    kind, far = TYPES[sql_type].kind, r.random() < extreme
    if kind == "int":
        most = 2 ** BITS[sql_type] - 1
        return r.choice([-most, most]) if far else r.randint(-3, 8)
    if kind == "decimal":
        digits, scale = map(int, sql_type[8:-1].split(","))
        if far:
            return r.choice([-1, 1]) * Decimal(10**digits - 1).scaleb(-scale)
        return Decimal(r.choice([0, 100, 150, 200, 300, -100, -25, r.randint(-300, 300)])).scaleb(-2).quantize(Decimal(1).scaleb(-scale))
    if kind == "double":
        # One large number, whose sign is that of all sums it is in: what is lost beside it is below the digits that are compared.
        large = [1e17] * (sql_type == "DOUBLE")
        return r.choice([123456.125, 0.0, -0.0, -16777216.0, *large]) if far else r.choice([0.0, 1.0, 2.0, r.randint(-40, 40) / 4])
    if kind == "bool":
        return r.random() < 0.5
    if kind == "date":
        far_days = [datetime.date(1, 1, 1), datetime.date(9999, 12, 31), datetime.date(1969, 12, 31)]
        return r.choice(far_days) if far else datetime.date(2024, 1, 1) + datetime.timedelta(r.choice([0, 1, 2, 30, r.randint(0, 60)]))
    if kind == "datetime":
        far_times = [datetime.datetime(1, 1, 1), datetime.datetime(9999, 12, 31, 23, 59, 59)]
        time = datetime.datetime(2024, 1, 1) + datetime.timedelta(r.choice([0, 1, r.randint(0, 60)]), r.choice([0, 0, 43200, 86399]))
        time = r.choice(far_times) if far else time
        return time.replace(microsecond={"DATETIME": 0, "DATETIME(3)": 999000, "DATETIME(6)": 999999}[sql_type] if r.random() < 0.3 else 0)
    if kind == "ints":
        return [None if r.random() < 0.15 else r.randint(0, 3) for _ in range(r.choice([0, 1, 2, 2, 3]))]
    if kind == "texts":
        return [None if r.random() < 0.15 else r.choice(PLAIN) for _ in range(r.choice([0, 1, 2, 3]))]
    if kind == "map":
        return {k: None if r.random() < 0.2 else r.randint(0, 3) for k in r.sample(["a", "b", "c"], r.choice([0, 1, 2]))}
    if kind == "struct":
        return {"a": value(r, "INT", 0.2, 0), "b": None if r.random() < 0.2 else r.choice(PLAIN)}
    if kind == "json":
        document = {k: r.choice([1, 2, "x", None, [1, 2], {"z": True}]) for k in r.sample(["a", "b", "c"], r.choice([0, 1, 2]))}
        return json.dumps(document, separators=(",", ":"))
    word = r.choice(WORDS)
    return word + "p" * r.choice([13, 300]) if far and sql_type == "STRING" else word


def quoted(words):
    return "'" + words.replace("\\", "\\\\").replace("'", "''") + "'"


def literal(v, sql_type, bare=False):
    """A value in both dialects; `bare`: times as text, as MySQL's users write them."""
    kind, duck_type = TYPES[sql_type].kind, TYPES[sql_type].duck
    if v is None:
        return Literal(kind, "NULL", f"CAST(NULL AS {duck_type})", None)
    if kind in ("text", "json"):
        return Literal(kind, quoted(v), "'" + v.replace("'", "''") + "'", v)
    if kind in ("date", "datetime"):
        named = f"{'DATE' if kind == 'date' else 'TIMESTAMP'} '{v}'"
        return Literal(kind, f"'{v}'" if bare else named, named, str(v) if bare else v)
    if kind == "bool":
        # Not bound: the protocol has no booleans, and a number is of another kind in set operations.
        return Literal(kind, "true" if v else "false", "true" if v else "false", v, bind=False)
    if kind == "double":
        return Literal(kind, f"CAST({v!r} AS DOUBLE)", f"CAST({v!r} AS DOUBLE)", v)
    if kind in ("int", "decimal"):
        both = f"({v})" if v < 0 else str(v)
        return Literal(kind, both, f"CAST({both} AS {duck_type})" if kind == "decimal" else both, v)
    parts = {
        "ints": lambda: ("array(" + ", ".join(word(x) for x in v) + ")", "[" + ", ".join(word(x) for x in v) + "]"),
        "texts": lambda: ("array(" + ", ".join(word(x) for x in v) + ")", "[" + ", ".join(word(x) for x in v) + "]"),
        "map": lambda: (
            "map(" + ", ".join(f"{word(k)}, {word(x)}" for k, x in v.items()) + ")",
            "MAP {" + ", ".join(f"{word(k)}: {word(x)}" for k, x in v.items()) + "}",
        ),
        "struct": lambda: (
            "named_struct(" + ", ".join(f"'{k}', {word(x)}" for k, x in v.items()) + ")",
            "{" + ", ".join(f"'{k}': {word(x)}" for k, x in v.items()) + "}",
        ),
    }
    dipper, duck = parts[kind]()
    return Literal(kind, dipper, f"CAST({duck} AS {duck_type})", None, bind=False)


def word(v):
    return "NULL" if v is None else str(v) if isinstance(v, int) else f"'{v}'"


class Table:
    """Columns of a table, its model, and how its rows come about: `steps` are loads and changes."""

    @staticmethod
    def ways_to_merge(sql_type):
        """SUM where the sum of all rows fits into the type."""
        kind = TYPES[sql_type].kind
        if kind in NESTED or kind == "bool":
            return ["REPLACE", "REPLACE_IF_NOT_NULL"]
        fits = kind in ("int", "decimal") and sql_type not in ("TINYINT", "SMALLINT", "DECIMAL(5,2)")
        return ["MIN", "MAX", "REPLACE", "REPLACE_IF_NOT_NULL"] + ["SUM"] * 3 * fits

    def __init__(self, r, name, nested=0.25):
        self.name = name
        self.model = r.choice(["DUPLICATE", "DUPLICATE", "UNIQUE", "UNIQUE", "AGGREGATE"])
        count = r.randint(2, 6)
        self.keys = r.randint(1, min(2, count - 1))
        keys = [t for t in TYPES if self.usable_as_key(t)]
        scalars = [t for t in TYPES if TYPES[t].kind not in NESTED]
        deep = [t for t in TYPES if TYPES[t].kind in NESTED]
        self.columns = []
        for i in range(count):
            if i < self.keys:
                sql_type = r.choice(["INT", "BIGINT", "VARCHAR(20)"]) if r.random() < 0.4 else r.choice(keys)
            else:
                sql_type = r.choice(deep if r.random() < nested else scalars)
            self.columns.append((f"{'k' if i < self.keys else 'v'}{i}", sql_type))
        self.not_null = {n for n, _ in self.columns if r.random() < 0.2}
        self.merges = {n: r.choice(self.ways_to_merge(t)) for n, t in self.columns[self.keys :]}
        self.rows = []

    @staticmethod
    def usable_as_key(sql_type):
        return TYPES[sql_type].kind not in NO_KEYS and sql_type != "STRING"

    def scope(self, alias=""):
        return [Column(f"{alias}.{n}" if alias else n, TYPES[t].kind, t) for n, t in self.columns]

    def plain_ddl(self, name):
        """The simplest table for the rows."""
        columns = ", ".join(f"{n} {t}{' NOT NULL' if n in self.not_null else ''}" for n, t in self.columns)
        return f"CREATE TABLE {name} ({columns}) DUPLICATE KEY({self.columns[0][0]}) DISTRIBUTED BY HASH({self.columns[0][0]}) BUCKETS 1"

    def ddl(self, r, name):
        """One of the ways to store the rows in a native table."""
        aggregate = self.model == "AGGREGATE"
        columns = ", ".join(
            f"{n} {t}{f' {self.merges[n]}' if aggregate and n in self.merges else ''}{' NOT NULL' if n in self.not_null else ''}"
            for n, t in self.columns
        )
        keys = [n for n, _ in self.columns[: self.keys]]
        text = f"CREATE TABLE {name} ({columns}) {self.model} KEY({', '.join(keys)})"
        column, sql_type = r.choice(self.columns[: self.keys])
        kind = TYPES[sql_type].kind
        if kind in ("int", "date", "datetime") and r.random() < 0.4:
            bounds = ["-1", "3", "6"] if kind == "int" else ["2024-01-02", "2024-01-20", "2024-02-10"]
            parts = "".join(f"PARTITION p{b} VALUES LESS THAN ('{v}'), " for b, v in enumerate(bounds))
            text += f" PARTITION BY RANGE({column}) ({parts}PARTITION last VALUES LESS THAN MAXVALUE)"
        elif kind in ("int", "text") and sql_type != "LARGEINT" and r.random() < 0.3:
            text += f" AUTO PARTITION BY LIST({column}) ()"
        text += f" DISTRIBUTED BY HASH({r.choice(keys)}) BUCKETS {r.choice([1, 1, 2, 3])}"
        properties = [f'"compression" = "{r.choice(["lz4", "zstd", "no_compression"])}"']
        if self.model == "UNIQUE" and r.random() < 0.5:
            properties.append('"store_row_column" = "true"')
        return f"{text} PROPERTIES({', '.join(properties)})"

    def duck_ddl(self):
        return f"CREATE TABLE {self.name} ({', '.join(f'{n} {TYPES[t].duck}' for n, t in self.columns)})"

    def new_rows(self, r, count):
        summed = {n for n, how in self.merges.items() if how == "SUM" and self.model == "AGGREGATE"}
        one = lambda n, t: value(r, t, 0 if n in self.not_null else 0.12, 0 if n in summed else 0.05)
        return [tuple(one(n, t) for n, t in self.columns) for _ in range(count)]

    def add(self, new):
        """`rows` becomes what the table holds after a load."""
        if self.model == "DUPLICATE":
            self.rows = self.rows + new
            return
        merged = {row[: self.keys]: row for row in self.rows}
        for row in new:
            old = merged.get(row[: self.keys])
            if old is None or self.model == "UNIQUE":
                merged[row[: self.keys]] = row
                continue
            values = [merge(self.merges[n], o, v) for (n, _), o, v in zip(self.columns[self.keys :], old[self.keys :], row[self.keys :])]
            merged[row[: self.keys]] = (*row[: self.keys], *values)
        self.rows = list(merged.values())

    def values(self, rows, mode):
        """Rows behind VALUES."""
        one = lambda v, t: getattr(literal(v, t), mode)
        return ", ".join("(" + ", ".join(one(v, t) for v, (_, t) in zip(row, self.columns)) + ")" for row in rows)


def merge(how, old, new):
    if how == "REPLACE":
        return new
    if old is None or new is None:
        return old if new is None else new
    if how == "SUM":
        return old + new
    return {"MIN": min, "MAX": max}.get(how, lambda _, n: n)(old, new)
