"""Random tables, rows and queries, each query in dipper's words and in DuckDB's.

Everything comes from one `random.Random`: a seed is a test case.
"""

import datetime
import decimal
import random
from collections import namedtuple
from decimal import Decimal

decimal.getcontext().prec = 80

Text = namedtuple("Text", "dipper duck kind")  # an expression in both dialects, and the kind of its values
Column = namedtuple("Column", "name kind type")

# SQL type: kind of values, DuckDB's type.
TYPES = {
    "TINYINT": ("int", "BIGINT"), "SMALLINT": ("int", "BIGINT"), "INT": ("int", "BIGINT"), "BIGINT": ("int", "BIGINT"),
    "LARGEINT": ("int", "HUGEINT"), "DECIMAL(5,2)": ("decimal", "DECIMAL(5,2)"), "DECIMAL(9,3)": ("decimal", "DECIMAL(9,3)"),
    "DECIMAL(27,6)": ("decimal", "DECIMAL(27,6)"), "DOUBLE": ("double", "DOUBLE"), "FLOAT": ("double", "DOUBLE"),
    "BOOLEAN": ("bool", "BOOLEAN"), "DATE": ("date", "DATE"), "DATETIME": ("datetime", "TIMESTAMP"),
    "DATETIME(3)": ("datetime", "TIMESTAMP"), "DATETIME(6)": ("datetime", "TIMESTAMP"), "CHAR(6)": ("text", "VARCHAR"),
    "VARCHAR(20)": ("text", "VARCHAR"), "STRING": ("text", "VARCHAR"),
}
NO_KEYS = ("DOUBLE", "FLOAT", "STRING")
WORDS = ["", "a", "b", "ab", "abc", "A", "aB", "é", "中文", "a b", " a", "%", "_", "a%b", "0", "10", "-1", "foo", "foob", "\\", "'", "NULL"]
BITS = {"TINYINT": 7, "SMALLINT": 15, "INT": 31, "BIGINT": 63, "LARGEINT": 127}


def value(r, sql_type, null=0.12, extreme=0.05):
    """A value of a type; many are equal, some are the largest."""
    if r.random() < null:
        return None
    kind, far = TYPES[sql_type][0], r.random() < extreme
    if kind == "int":
        most = 2 ** BITS[sql_type] - 1
        return r.choice([-most, most]) if far else r.randint(-4, 20)
    if kind == "decimal":
        digits, scale = map(int, sql_type[8:-1].split(","))
        return r.choice([-1, 1]) * Decimal(10**digits - 1).scaleb(-scale) if far else Decimal(r.randint(-300, 300)).scaleb(-2)
    if kind == "double":
        return r.choice([123456.125, 0.0, -16777216.0]) if far else r.randint(-40, 40) / 4
    if kind == "bool":
        return r.random() < 0.5
    if kind == "date":
        far_days = [datetime.date(1, 1, 1), datetime.date(9999, 12, 31), datetime.date(1969, 12, 31)]
        return r.choice(far_days) if far else datetime.date(2024, 1, 1) + datetime.timedelta(r.randint(0, 60))
    if kind == "datetime":
        far_times = [datetime.datetime(1, 1, 1), datetime.datetime(9999, 12, 31, 23, 59, 59)]
        time = r.choice(far_times) if far else datetime.datetime(2024, 1, 1) + datetime.timedelta(r.randint(0, 60), r.choice([0, 43200, 86399]))
        return time.replace(microsecond={"DATETIME": 0, "DATETIME(3)": 999000, "DATETIME(6)": 999999}[sql_type] if r.random() < 0.3 else 0)
    word = r.choice(WORDS)
    return word + "p" * r.choice([13, 300]) if far and sql_type == "STRING" else word


def quoted(text):
    return "'" + text.replace("'", "''") + "'"


def literal(v, kind):
    """A value in both dialects."""
    if v is None:
        return Text("NULL", "NULL", kind)
    if kind == "text":
        return Text(quoted(v.replace("\\", "\\\\")), quoted(v), kind)
    if kind in ("date", "datetime"):
        both = f"{'DATE' if kind == 'date' else 'TIMESTAMP'} '{v}'"
    elif kind == "bool":
        both = "true" if v else "false"
    elif kind == "double":
        both = f"CAST({v!r} AS DOUBLE)"
    else:
        both = f"({v})" if v < 0 else str(v)
    return Text(both, both, kind)


class Table:
    """Columns and rows, and ways to store the same rows in dipper."""

    def __init__(self, r, name):
        self.name = name
        count = r.randint(3, 7)
        self.keys = r.randint(1, min(2, count - 1))
        usable = [t for t in TYPES if t not in NO_KEYS]
        types = [r.choice(usable if i < self.keys else list(TYPES)) for i in range(count)]
        self.columns = [(f"{'k' if i < self.keys else 'v'}{i}", t) for i, t in enumerate(types)]
        self.unique = r.random() < 0.6
        self.rows = []

    def scope(self, alias):
        return [Column(f"{alias}.{n}" if alias else n, TYPES[t][0], t) for n, t in self.columns]

    def ddl(self, r, name):
        """DDL of one of the ways."""
        model = "UNIQUE" if self.unique else "DUPLICATE"
        keys = [n for n, _ in self.columns[: self.keys]]
        text = f"CREATE TABLE {name} ({', '.join(f'{n} {t}' for n, t in self.columns)}) {model} KEY({', '.join(keys)})"
        column, sql_type = r.choice(self.columns[: self.keys])
        kind = TYPES[sql_type][0]
        if kind in ("int", "date", "datetime") and r.random() < 0.5:
            bounds = ["-1", "6", "15"] if kind == "int" else ["2024-01-05", "2024-01-20", "2024-02-10"]
            parts = "".join(f"PARTITION p{b} VALUES LESS THAN ('{v}'), " for b, v in enumerate(bounds))
            text += f" PARTITION BY RANGE({column}) ({parts}PARTITION last VALUES LESS THAN MAXVALUE)"
        elif kind in ("int", "text") and sql_type != "LARGEINT" and r.random() < 0.5:
            text += f" AUTO PARTITION BY LIST({column}) ()"
        text += f" DISTRIBUTED BY HASH({r.choice(keys)}) BUCKETS {r.randint(1, 4)}"
        properties = [f'"compression" = "{r.choice(["lz4", "zstd", "no_compression"])}"']
        if r.random() < 0.4:
            properties.append('"store_row_column" = "true"')
        return f"{text} PROPERTIES({', '.join(properties)})"

    def more_rows(self, r, count):
        """Rows for one load; `rows` becomes what the table then holds."""
        new = [tuple(value(r, t) for _, t in self.columns) for _ in range(count)]
        self.rows += new
        if self.unique:
            self.rows = list({row[: self.keys]: row for row in self.rows}.values())
        return new


class Queries:
    """Random queries over tables."""

    def __init__(self, r, tables):
        self.r, self.tables, self.aliases = r, tables, 0

    def alias(self):
        self.aliases += 1
        return f"q{self.aliases}"

    def make(self, template, kind, *parts, duck=None):
        return Text(template.format(*[p.dipper for p in parts]), (duck or template).format(*[p.duck for p in parts]), kind)

    def constant(self, kind):
        r = self.r
        sql_type = {"decimal": "DECIMAL(5,2)", "double": "DOUBLE", "bool": "BOOLEAN", "date": "DATE", "datetime": "DATETIME(6)"}.get(kind)
        if sql_type:
            return literal(value(r, sql_type, 0, 0.02), kind)
        return literal(r.choice(WORDS) if kind == "text" else r.choice([0, 1, 2, 3, 5, 7, -1, 10, 127]), kind)

    def leaf(self, scope, kind):
        columns = [c for c in scope if c.kind == kind]
        if columns and self.r.random() < 0.85:
            name = self.r.choice(columns).name
            return Text(name, name, kind)
        return self.constant(kind)

    def small(self, scope):
        """An integer with which arithmetic does not overflow."""
        columns = [c for c in scope if c.kind == "int"]
        if not columns or self.r.random() < 0.2:
            return self.constant("int")
        name = f"({self.r.choice(columns).name} % 1000)"
        return Text(name, name, "int")

    def expression(self, scope, kind, depth=1):
        r = self.r
        if depth <= 0 or r.random() < 0.5:
            return self.leaf(scope, kind)
        inner = lambda k: self.expression(scope, k, depth - 1)
        choice = r.randint(0, 9)
        if choice == 0:
            return self.make("CASE WHEN {0} THEN {1} ELSE {2} END", kind, self.condition(scope, 0), inner(kind), inner(kind))
        if choice == 1:
            return self.make("coalesce({0}, {1})", kind, inner(kind), inner(kind))
        if choice == 2:
            return self.make("nullif({0}, {1})", kind, inner(kind), inner(kind))
        if choice == 3:
            then = "CASE WHEN {0} THEN {1} ELSE {2} END"
            return self.make("if({0}, {1}, {2})", kind, self.condition(scope, 0), inner(kind), inner(kind), duck=then)
        if kind == "int":
            return r.choice([
                lambda: self.make(f"({{0}} {r.choice('+-*')} {{1}})", kind, self.small(scope), self.small(scope)),
                lambda: self.make("({0} % {1})", kind, self.small(scope), self.small(scope), duck="({0} % nullif({1}, 0))"),
                lambda: self.make("({0} DIV {1})", kind, self.small(scope), self.small(scope), duck="({0} // nullif({1}, 0))"),
                lambda: self.make("char_length({0})", kind, inner("text"), duck="length({0})"),
                lambda: self.make(r.choice(["year", "month", "day"]) + "({0})", kind, inner(r.choice(["date", "datetime"]))),
                lambda: self.make("datediff({0}, {1})", kind, inner("date"), inner("date"), duck="date_diff('day', {1}, {0})"),
                lambda: self.make("CAST({0} AS BIGINT)", kind, inner("bool")),
            ])()
        if kind == "double":
            return self.make("({0} / {1})", kind, self.small(scope), self.small(scope), duck="(CAST({0} AS DOUBLE) / nullif({1}, 0))")
        if kind == "bool":
            return self.condition(scope, 0)
        if kind == "date":
            return self.make("CAST({0} AS DATE)", kind, inner("datetime"))
        if kind == "text":
            return r.choice([
                lambda: self.make("concat({0}, {1})", kind, inner(kind), inner(kind), duck="({0} || {1})"),
                lambda: self.make(r.choice(["upper", "lower", "reverse", "trim", "md5"]) + "({0})", kind, inner(kind)),
                lambda: self.make(f"substr({{0}}, {r.randint(1, 3)}, {r.randint(0, 3)})", kind, inner(kind)),
                lambda: self.make("CAST({0} AS STRING)", kind, inner("int"), duck="CAST({0} AS VARCHAR)"),
                lambda: self.make("replace({0}, 'a', {1})", kind, inner(kind), inner(kind)),
            ])()
        return self.leaf(scope, kind)

    def condition(self, scope, depth=1, subqueries=False):
        r = self.r
        choice = r.random()
        if depth > 0 and choice < 0.4:
            parts = self.condition(scope, depth - 1, subqueries), self.condition(scope, depth - 1, subqueries)
            return self.make(r.choice(["({0} AND {1})", "({0} OR {1})", "(NOT ({0} AND {1}))"]), "bool", *parts)
        if subqueries and choice < 0.6:
            return self.membership(scope)
        kind = r.choice(sorted({c.kind for c in scope}))
        left = self.expression(scope, kind, depth)
        choice = r.random()
        if choice < 0.45 or kind == "bool":
            right = self.leaf(scope, kind) if r.random() < 0.4 else self.constant(kind)
            if r.random() < 0.15:
                return self.make("({0} <=> {1})", "bool", left, right, duck="({0} IS NOT DISTINCT FROM {1})")
            return self.make(f"({{0}} {r.choice(['=', '<', '<=', '>', '>=', '<>'])} {{1}})", "bool", left, right)
        if choice < 0.55:
            return self.make(f"({{0}} IS {r.choice(['', 'NOT '])}NULL)", "bool", left)
        if choice < 0.72:
            items = [self.constant(kind) if r.random() < 0.9 else literal(None, kind) for _ in range(r.choice([1, 2, 3, 25]))]
            places = ", ".join(f"{{{i + 1}}}" for i in range(len(items)))
            return self.make(f"({{0}} {r.choice(['', 'NOT '])}IN ({places}))", "bool", left, *items)
        if choice < 0.86 or kind != "text":
            return self.make("({0} BETWEEN {1} AND {2})", "bool", left, self.constant(kind), self.constant(kind))
        pattern = quoted(r.choice(["a%", "%a", "%b%", "a_", "_", "%", "", "%中%", "f__%"]))
        return self.make(f"({{0}} {r.choice(['', 'NOT '])}LIKE {pattern})", "bool", left)

    def membership(self, scope):
        """IN or EXISTS, often with a column from outside."""
        r = self.r
        table, alias = r.choice(self.tables), self.alias()
        inner = table.scope(alias)
        pairs = [(o, i) for o in scope for i in inner if o.kind == i.kind and o.kind not in ("double", "decimal")]
        parts = []
        if pairs and r.random() < 0.5:
            outside, inside = r.choice(pairs)
            parts.append(Text(*[f"{inside.name} = {outside.name}"] * 2, "bool"))
        if r.random() < 0.6:
            parts.append(self.condition(inner, 0))
        where = self.make(" AND ".join(f"{{{i}}}" for i in range(len(parts))) or "true", "bool", *parts)
        negated = r.choice(["", "NOT "])
        if pairs and r.random() < 0.7:
            outside, inside = r.choice(pairs)
            start = f"({outside.name} {negated}IN (SELECT {inside.name} FROM {table.name} {alias} WHERE "
        else:
            start = f"({negated}EXISTS (SELECT 1 FROM {table.name} {alias} WHERE "
        return Text(f"{start}{where.dipper}))", f"{start}{where.duck}))", "bool")

    def source(self):
        """FROM with its columns: a table, or a join of two or three."""
        r = self.r
        table, alias = r.choice(self.tables), self.alias()
        text, scope = Text(*[f"{table.name} {alias}"] * 2, ""), table.scope(alias)
        for _ in range(r.choice([0, 0, 1, 1, 2])):
            table, alias = r.choice(self.tables), self.alias()
            other = table.scope(alias)
            pairs = [(a, b) for a in scope for b in other if a.kind == b.kind and a.kind not in ("double", "bool", "decimal")]
            if not pairs:
                continue
            one, two = r.choice(pairs)
            equal = "{0} <=> {1}" if r.random() < 0.15 else "{0} = {1}"
            names = [Text(c.name, c.name, c.kind) for c in (one, two)]
            on = self.make(equal, "bool", *names, duck=equal.replace("<=>", "IS NOT DISTINCT FROM"))
            join = r.choice(["JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"])
            if join != "FULL JOIN" and r.random() < 0.3:
                on = self.make("{0} AND {1}", "bool", on, self.condition(scope + other, 0))
            text = self.make(f"{{0}} {join} {table.name} {alias} ON {{1}}", "", text, on)
            scope = scope + other
        return text, scope

    def aggregate(self, scope):
        r = self.r
        kind = r.choice(sorted({c.kind for c in scope}))
        part = self.expression(scope, kind, 1)
        choice = r.randint(0, 4)
        if choice == 0:
            return self.make("count({0})", "int", part)
        if choice == 1:
            return self.make("count(DISTINCT {0})", "int", part)
        if choice == 2:
            return self.make("sum({0})", "int", self.small(scope))
        if choice == 3 or kind == "bool":
            return self.make("count(CASE WHEN {0} THEN 1 END)", "int", self.condition(scope, 0))
        return self.make(f"{r.choice(['min', 'max'])}({{0}})", kind, part)

    def window(self, scope):
        """A window function in a total order: all columns."""
        r = self.r
        order = ", ".join(f"{c.name}{r.choice(['', ' DESC'])}" for c in r.sample(scope, len(scope)))
        partition = r.choice(scope).name
        column = r.choice(scope)
        function, kind = r.choice([
            ("row_number()", "int"), (f"lag({column.name})", column.kind), (f"last_value({column.name})", column.kind),
            (f"count({column.name})", "int"), ("ntile(3)", "int"),
        ])
        return Text(*[f"{function} OVER (PARTITION BY {partition} ORDER BY {order})"] * 2, kind)

    def select(self, kinds=None):
        """SELECT, and the kinds of its columns."""
        r = self.r
        source, scope = self.source()
        where = self.condition(scope, r.randint(0, 2), True) if r.random() < 0.8 else literal(True, "bool")
        have = sorted({c.kind for c in scope})
        choice, tail, distinct = r.random(), literal(None, ""), ""
        tail = Text("", "", "")
        if kinds is None and choice < 0.4:
            groups = [Text(c.name, c.name, c.kind) for c in r.sample(scope, r.randint(0, min(2, len(scope))))]
            items = groups + [self.aggregate(scope) for _ in range(r.randint(1, 3))]
            if groups:
                tail = self.make(" GROUP BY " + ", ".join(g.dipper for g in groups), "")
        elif kinds is None and choice < 0.55:
            items = [self.expression(scope, r.choice(have)), self.window(scope)]
        else:
            items = [self.expression(scope, k, r.randint(0, 2)) for k in kinds or r.choices(have, k=r.randint(1, 3))]
            distinct = r.choice(["", "", "DISTINCT "])
        places = ", ".join(f"{{{i + 3}}} AS x{i}" for i in range(len(items)))
        text = self.make(f"SELECT {distinct}{places} FROM {{0}} WHERE {{1}}{{2}}", "", source, where, tail, *items)
        return text, [i.kind for i in items]

    def query(self):
        """A query, and whether the order of its rows is fixed."""
        r = self.r
        text, kinds = self.select()
        if r.random() < 0.15:
            other, _ = self.select(kinds)
            text = self.make(f"{{0}} {r.choice(['UNION', 'UNION ALL', 'INTERSECT', 'EXCEPT'])} {{1}}", "", text, other)
        ordered = r.random() < 0.35
        if ordered:
            order = r.sample(range(1, len(kinds) + 1), len(kinds))
            tail = " ORDER BY " + ", ".join(f"{i}{r.choice(['', ' DESC'])}" for i in order)
            if r.random() < 0.7:
                tail += f" LIMIT {r.choice([0, 1, 3, 10, 100])} OFFSET {r.choice([0, 0, 1, 5])}"
            text = Text(text.dipper + tail, text.duck + tail, "")
        return text, ordered
