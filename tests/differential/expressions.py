"""Random expressions and conditions over a scope of columns, in dipper's words and in DuckDB's.

Where the two mean different things on purpose the template for DuckDB says what dipper means; `duck=None` leaves the statement to the
checks that need no second system. README.md lists these rules.
"""

from schema import NESTED, PLAIN, TYPES, WORDS, literal, value, word
from tree import List, Literal, Node, text

SAMPLES = {
    "int": ["INT"], "decimal": ["DECIMAL(5,2)"], "double": ["DOUBLE"], "bool": ["BOOLEAN"], "date": ["DATE"], "datetime": ["DATETIME(6)", "DATETIME"],
    "ints": ["ARRAY<INT>"], "texts": ["ARRAY<VARCHAR(20)>"], "map": ["MAP<STRING,INT>"], "struct": ["STRUCT<a:INT,b:STRING>"], "json": ["JSON"],
}  # fmt: skip
# Ways to write a constant that is compared with a value of a kind, beside the plain one.
SPELLED = {
    "int": [str],
    "decimal": [str],
    "date": [str, str, lambda v: f"{v.year:04}-{v.month}-{v.day}", lambda v: v.isoformat().replace("-", ""), lambda v: number_of(v)],
    "datetime": [str, str],
}


def number_of(date):
    """A date as a number of eight digits; fewer are other dates."""
    return date.year * 10_000 + date.month * 100 + date.day if date.year > 999 else date.isoformat()


# Kinds by which rows can be grouped, joined and compared.
COMPARED = ("int", "decimal", "double", "bool", "date", "datetime", "text", "ints", "texts", "struct")
SCALARS = ("int", "decimal", "double", "bool", "date", "datetime", "text")


class Expressions:
    """Needs a `random.Random`."""

    def __init__(self, r):
        self.r = r

    def constant(self, kind):
        r = self.r
        if kind == "text":
            return literal(r.choice(WORDS), "STRING")
        if kind == "int":
            return literal(r.choice([0, 1, 2, 3, 5, 7, -1, 10, 127]), "BIGINT")
        return literal(value(r, r.choice(SAMPLES[kind]), 0, 0.02), r.choice(SAMPLES[kind]))

    def constants(self, kind, count):
        """What a value of the kind is compared with, all written in one way of those that MySQL's users know."""
        way = self.r.choice([None, None, None, *SPELLED.get(kind, [])])
        constants = [self.constant(kind) for _ in range(count)]
        # A kind of their own: nothing else may be in their place, and they in no other.
        return [Literal("spelled", word(spelled := way(c.value)), c.duck, spelled) for c in constants] if way else constants

    def null(self, kind):
        return literal(None, {"text": "STRING", "int": "BIGINT"}.get(kind) or SAMPLES[kind][0])

    def columns(self, scope, kind):
        return [c for c in scope if c.kind == kind]

    def leaf(self, scope, kind):
        r, columns = self.r, self.columns(scope, kind)
        if columns and r.random() < 0.85:
            return text(kind, r.choice(columns).name)
        return self.null(kind) if r.random() < 0.08 else self.constant(kind)

    def small(self, scope):
        """An integer with which arithmetic does not overflow."""
        columns = self.columns(scope, "int")
        if not columns or self.r.random() < 0.2:
            return self.constant("int")
        return Node("int", "({0} % 1000)", text("int", self.r.choice(columns).name))

    def expression(self, scope, kind, depth=1):
        r = self.r
        if depth <= 0 or r.random() < 0.5:
            return self.leaf(scope, kind)
        inner = lambda k=kind: self.expression(scope, k, depth - 1)
        choice = r.randint(0, 9)
        if kind in NESTED:
            return Node(kind, "CASE WHEN {0} THEN {1} END", self.condition(scope, 0), inner()) if choice < 3 else self.leaf(scope, kind)
        if choice == 0:
            return Node(kind, "CASE WHEN {0} THEN {1} ELSE {2} END", self.condition(scope, 0), inner(), inner())
        if choice == 1:
            return Node(kind, "coalesce({0}, {1})", inner(), inner())
        if choice == 2:
            return Node(kind, "nullif({0}, {1})", inner(), inner())
        if choice == 3:
            return Node(kind, "if({0}, {1}, {2})", self.condition(scope, 0), inner(), inner(), duck="CASE WHEN {0} THEN {1} ELSE {2} END")
        if choice == 4 and kind != "bool":
            name = r.choice(["greatest", "least"])
            # DuckDB passes over NULLs.
            duck = f"CASE WHEN {{0}} IS NULL OR {{1}} IS NULL THEN NULL ELSE {name}({{0}}, {{1}}) END"
            return Node(kind, f"{name}({{0}}, {{1}})", inner(), inner(), duck=duck)
        return getattr(self, f"of_{kind}")(scope, inner)

    def of_int(self, scope, inner):
        r = self.r
        return r.choice([
            lambda: Node("int", f"({{0}} {r.choice('+-*')} {{1}})", self.small(scope), self.small(scope)),
            lambda: Node("int", "({0} % {1})", self.small(scope), self.small(scope), duck="({0} % nullif({1}, 0))"),
            lambda: Node("int", "({0} DIV {1})", self.small(scope), self.small(scope), duck="({0} // nullif({1}, 0))"),
            lambda: Node("int", "char_length({0})", inner("text"), duck="length({0})"),
            lambda: Node("int", f"{r.choice(['year', 'month', 'day'])}({{0}})", self.a_time(scope, inner)),
            lambda: Node("int", "datediff({0}, {1})", inner("date"), inner("date"), duck="date_diff('day', {1}, {0})"),
            lambda: Node("int", "CAST({0} AS BIGINT)", inner("bool")),
            lambda: Node("int", "CAST({0} AS BIGINT)", self.leaf(scope, "double"), duck="CAST(trunc({0}) AS BIGINT)"),
            lambda: Node("int", "abs({0})", self.small(scope)),
            # What does not fit is NULL.
            lambda: Node("int", "CAST({0} AS TINYINT)", self.leaf(scope, "int"), duck="TRY_CAST({0} AS TINYINT)"),
            # Text that is no number is NULL; other systems refuse it, or read other texts.
            lambda: Node("int", "CAST({0} AS BIGINT)", inner("text"), duck=None) if r.random() < 0.3 else inner(),
            lambda: Node("int", "size({0})", inner(r.choice(["ints", "texts"])), duck="len({0})"),
            lambda: Node("int", "{0}[{1}]", text("ints", c.name), Literal("int", "1", "1", 1, bind=False))
            if (c := r.choice(self.columns(scope, "ints") or [None])) else self.leaf(scope, "int"),
            lambda: Node("int", "{0}['a']", text("map", c.name)) if (c := r.choice(self.columns(scope, "map") or [None])) else self.leaf(scope, "int"),
        ])()  # fmt: skip

    def a_time(self, scope, inner):
        return inner(self.r.choice(["date", "datetime"]))

    def of_decimal(self, scope, inner):
        r = self.r
        return r.choice([
            lambda: Node("decimal", f"({{0}} {r.choice('+-')} {{1}})", inner(), self.constant("decimal")),
            lambda: Node("decimal", "CAST({0} AS DECIMAL(12,3))", self.small(scope)),
            lambda: Node("decimal", "abs({0})", inner()),
            lambda: Node("decimal", "CAST({0} AS DECIMAL(9,1))", inner(), duck="TRY_CAST({0} AS DECIMAL(9,1))"),
        ])()  # fmt: skip

    def of_double(self, scope, inner):
        r = self.r
        return r.choice([
            lambda: Node("double", "({0} / {1})", self.small(scope), self.small(scope), duck="(CAST({0} AS DOUBLE) / nullif({1}, 0))"),
            lambda: Node("double", "CAST({0} AS DOUBLE)", inner("int")),
            lambda: Node("double", "CAST({0} AS DOUBLE)", inner("decimal")),
            lambda: Node("double", f"({{0}} {r.choice('+-')} {{1}})", self.leaf(scope, "double"), self.constant("double")),
        ])()  # fmt: skip

    def of_bool(self, scope, inner):
        return self.condition(scope, 0)

    def of_date(self, scope, inner):
        # The calendar ends: NULL here, the year 10000 there.
        move = "CASE WHEN year({0}) BETWEEN 2 AND 9998 THEN {0} + INTERVAL {1} DAY END"
        days = Literal("days", str(n := self.r.choice([0, 1, -1, 30])), str(n), n, bind=False)
        return self.r.choice([
            lambda: Node("date", "CAST({0} AS DATE)", inner("datetime")),
            lambda: Node("date", move, self.leaf(scope, "date"), days, duck=f"CAST({move.replace('INTERVAL {1} DAY', 'to_days(CAST({1} AS INTEGER))')} AS DATE)"),
        ])()  # fmt: skip

    def of_datetime(self, scope, inner):
        if self.r.random() < 0.3:
            # Digits are rounded off.
            return Node("datetime", "CAST({0} AS DATETIME)", inner(), duck=None)
        return Node("datetime", "CAST({0} AS DATETIME)", inner("date"), duck="CAST({0} AS TIMESTAMP)")

    def of_text(self, scope, inner):
        r = self.r
        return r.choice([
            lambda: Node("text", "concat({0}, {1})", inner(), inner(), duck="({0} || {1})"),
            lambda: Node("text", f"{r.choice(['upper', 'lower', 'reverse', 'trim', 'md5'])}({{0}})", inner()),
            lambda: Node("text", f"substr({{0}}, {r.randint(1, 3)}, {r.randint(0, 3)})", inner()),
            lambda: Node("text", "CAST({0} AS STRING)", inner("int"), duck="CAST({0} AS VARCHAR)"),
            lambda: Node("text", "CAST({0} AS STRING)", inner("date"), duck="CAST({0} AS VARCHAR)"),
            lambda: Node("text", "replace({0}, 'a', {1})", inner(), inner()),
            lambda: Node("text", f"{r.choice(['left', 'right'])}({{0}}, {r.randint(0, 3)})", inner()),
        ])()  # fmt: skip

    # Conditions

    def condition(self, scope, depth=1, subqueries=False):
        r = self.r
        choice = r.random()
        if depth > 0 and choice < 0.4:
            parts = [self.condition(scope, depth - 1, subqueries) for _ in range(2)]
            return Node("bool", r.choice(["({0} AND {1})", "({0} OR {1})", "(NOT ({0} AND {1}))", "(NOT ({0} OR {1}))"]), *parts)
        if depth > 0 and choice < 0.44:
            return Node("bool", r.choice(["(NOT {0})", "({0} IS TRUE)", "({0} IS NOT TRUE)", "({0} IS FALSE)"]), self.condition(scope, depth - 1, subqueries))
        if subqueries and choice < 0.6:
            return self.subquery_condition(scope)
        if choice > 0.985:
            return text("bool", r.choice(["true", "false", "(1 = 0)", "(1 = 1)", "CAST(NULL AS BOOLEAN)"]))
        kinds = sorted({c.kind for c in scope})
        if not kinds:
            return text("bool", r.choice(["true", "false", "(2 > 1)"]))
        return self.comparison(scope, r.choice(kinds), depth)

    def comparison(self, scope, kind, depth):
        r = self.r
        if kind in NESTED:
            return self.nested_condition(scope, kind)
        left, choice = self.expression(scope, kind, depth), r.random()
        if kind in ("int", "decimal") and r.random() < 0.06:
            return self.compared(getattr(self, f"of_{kind}")(scope, lambda k=kind: self.leaf(scope, k)), self.constant(kind))
        if choice < 0.45 or kind == "bool":
            return self.compared(left, self.leaf(scope, kind) if r.random() < 0.4 else self.constants(kind, 1)[0])
        if choice < 0.55:
            return Node("bool", f"({{0}} IS {r.choice(['', 'NOT '])}NULL)", left)
        if choice < 0.68:
            return self.listed(left, kind)
        if choice < 0.76:
            # The same column in two lists: what NULL makes of it is easily lost.
            column = self.leaf(scope, kind)
            return Node("bool", r.choice(["({0} OR {1})", "({0} AND {1})", "(NOT ({0} AND {1}))"]), self.listed(column, kind), self.listed(column, kind))
        if choice < 0.86 or kind not in ("text", "int"):
            return Node("bool", f"({{0}} {r.choice(['', '', 'NOT '])}BETWEEN {{1}} AND {{2}})", left, *self.constants(kind, 2))
        if kind == "int":
            other = r.choice(["decimal", "double"])
            return Node("bool", f"({{0}} {r.choice(['=', '<', '>=', '<>'])} {{1}})", self.small(scope), self.leaf(scope, other))
        pattern = literal(r.choice(["a%", "%a", "%b%", "a_", "_", "%", "", "%中%", "f__%"]), "STRING")
        return Node("bool", f"({{0}} {r.choice(['', 'NOT '])}LIKE {{1}})", left, pattern)

    def compared(self, left, right):
        r = self.r
        if r.random() < 0.15:
            return Node("bool", "({0} <=> {1})", left, right, duck="({0} IS NOT DISTINCT FROM {1})")
        return Node("bool", f"({{0}} {r.choice(['=', '=', '<', '<=', '>', '>=', '<>'])} {{1}})", left, right)

    def listed(self, left, kind):
        r = self.r
        items = [c if r.random() < 0.9 else self.null(kind) for c in self.constants(kind, r.choice([1, 1, 2, 3, 12]))]
        return Node("bool", f"({{0}} {r.choice(['', 'NOT '])}IN ({{1}}))", left, List(", ", items))

    def nested_condition(self, scope, kind):
        r = self.r
        column = text(kind, r.choice(self.columns(scope, kind)).name)
        forms = [lambda: Node("bool", f"({{0}} IS {r.choice(['', 'NOT '])}NULL)", column)]
        if kind == "ints":
            forms.append(lambda: Node("bool", "array_contains({0}, {1})", column, literal(r.randint(0, 3), "INT"), duck="list_contains({0}, {1})"))
        if kind == "texts":
            forms.append(lambda: Node("bool", "array_contains({0}, {1})", column, literal(r.choice(PLAIN), "STRING"), duck="list_contains({0}, {1})"))
        if kind in ("ints", "texts"):
            forms.append(lambda: Node("bool", "(size({0}) > {1})", column, literal(r.randint(0, 2), "INT"), duck="(len({0}) > {1})"))
            forms.append(lambda: Node("bool", "({0} = {1})", column, text(kind, r.choice(self.columns(scope, kind)).name)))
        if kind == "map":
            forms.append(lambda: Node("bool", "({0}['a'] > {1})", column, literal(r.randint(0, 2), "INT")))
        if kind == "struct":
            forms.append(lambda: Node("bool", "(struct_element({0}, 'a') > {1})", column, literal(r.randint(0, 2), "INT"), duck="(struct_extract({0}, 'a') > {1})"))
        if kind == "json":
            # JSON's functions are other ones there.
            forms.append(lambda: Node("bool", "(json_extract({0}, '$.a') IS NULL)", column, duck=None))
        return r.choice(forms)()

    def subquery_condition(self, scope):
        raise NotImplementedError


assert all(kind in SAMPLES or kind == "text" for kind in {t.kind for t in TYPES.values()})
