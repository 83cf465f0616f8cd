"""What has to be the same: each check makes two sides of one tree.

A side is what is asked, where and how. The minimiser asks the same two sides of smaller trees, so sides are made of a tree alone.
"""

from collections import namedtuple

from expressions import COMPARED, SCALARS
from queries import order_of
from schema import NO_KEYS, literal
from sources import columns
from tree import EMPTY, List, Node, render, text

# database: "a", "b" or "files"; session: of server.SESSIONS, or "duck"; take: (skipped, kept) rows of what comes.
Side = namedtuple("Side", "trees database session prepared take", defaults=[False, None])
# A name, a tree, and a function that makes two sides of a tree.
Check = namedtuple("Check", "name tree sides")

# The number of a statement's rows, with the statement one, two or three subqueries further down.
BELOW = [
    "SELECT (SELECT count(*) FROM ({0}) derived)",
    "SELECT count(*) FROM ({0}) derived WHERE EXISTS (SELECT 1 FROM ({0}) beside)",
    "SELECT count(*) FROM ({0}) derived WHERE 0 < (SELECT count(*) FROM ({0}) beside WHERE EXISTS (SELECT 1 FROM ({0}) below))",
    "SELECT (SELECT count(*) FROM ({0}) derived WHERE EXISTS (SELECT 1 FROM ({0}) beside))",
    "SELECT (SELECT count(*) FROM ({0}) derived WHERE 1 IN (SELECT 1 FROM ({0}) beside))",
]

DATABASES = ("a", "b", "files")


class Checks:
    """Draws checks, with a `random.Random` and the queries made by it."""

    def __init__(self, r, queries):
        self.r, self.queries = r, queries
        self.logic = [
            self.partitions, self.partitions, self.partitions_of_distinct, self.partitions_of_aggregates, self.partitions_of_groups,
            self.partitions_of_having, self.partitions_of_join, self.norec, self.norec, self.loose_groups,
        ]  # fmt: skip

    def somewhere(self):
        """A database and a session."""
        r = self.r
        return r.choice(["a", "a", "b", "files"]), r.choice(["1 worker", "2 workers", "2 workers", "8 workers"])

    def of_statement(self):
        """Checks of one random statement."""
        r = self.r
        tree, kinds = self.queries.statement()
        here, there = self.somewhere(), self.somewhere()
        checks = [Check("DuckDB", tree, lambda t: (Side([t], *here), Side([t], here[0], "duck")))]
        if there != here:
            checks.append(Check("another table or another number of workers", tree, lambda t: (Side([t], *here), Side([t], *there))))
        choice = r.random()
        if choice < 0.45:
            checks.append(Check("prepared", tree, lambda t: (Side([t], *here), Side([t], *here, prepared=True))))
        elif choice < 0.52 and "*" not in head(tree):
            # All rows are counted where there are some, so EXISTS of the same rows takes none away.
            form = r.choice(BELOW)
            count, below = (lambda t: Node("outer", "SELECT count(*) FROM ({0}) derived", t)), (lambda t: Node("outer", form, t))
            checks.append(Check("in a subquery", tree, lambda t: (Side([count(unordered(t))], *here), Side([below(unordered(t))], *here))))
        elif choice < 0.7 and "*" not in head(tree):
            form = r.choice(["SELECT * FROM ({0}) derived", "WITH derived AS ({0}) SELECT * FROM derived"])
            outer = lambda t: Node("outer", form, t)
            checks.append(Check("as a derived table", tree, lambda t: (Side([unordered(t)], *here), Side([outer(unordered(t))], *here))))
        elif choice < 0.73 and "*" not in head(tree) and kinds[0] not in NO_KEYS:
            # A table keeps what it is given, in the types that the statement says.
            statements = lambda t: [text("query", "DROP TABLE IF EXISTS kept"), Node("query", "CREATE TABLE kept AS {0}", t), text("query", "SELECT * FROM kept")]
            checks.append(Check("as a table", tree, lambda t: (Side([unordered(t)], "a", "2 workers"), Side(statements(t), "a", "2 workers"))))
        if (order := order_of(tree)) and order.kids[1] is not EMPTY:
            checks.append(Check("LIMIT against all rows", tree, lambda t: limited(t, here)))
        return checks

    def of_logic(self):
        return self.r.choice(self.logic)()

    def look_up(self):
        """By the whole key of a UNIQUE table, with and without the short path."""
        r, q = self.r, self.queries
        tables = [t for t in q.tables if t.model == "UNIQUE"]
        if not tables:
            return self.norec()
        table = r.choice(tables)
        scope, conditions = table.scope(), []
        for i, (name, sql_type) in enumerate(table.columns[: table.keys]):
            value = lambda: literal(r.choice(table.rows)[i] if table.rows and r.random() < 0.8 else None, sql_type, bare=r.random() < 0.5)
            values = [v for v in (value() for _ in range(r.choice([1, 1, 3]))) if v.dipper != "NULL"]
            if not values:
                conditions.append(text("bool", f"{name} IS NULL"))
            elif len(values) == 1:
                conditions.append(Node("bool", f"{name} = {{0}}", values[0]))
            else:
                conditions.append(Node("bool", f"{name} IN ({{0}})", List(", ", values)))
        if r.random() < 0.6:
            conditions.append(q.condition(scope, r.randint(0, 1)))
        kinds = r.choices(sorted({c.kind for c in scope}), k=r.randint(1, 3))
        items = q.items([q.expression(scope, k, 1) for k in kinds])
        tree = Node("query", f"SELECT {{0}} FROM {table.name} WHERE {{1}}", items, List(" AND ", conditions, kind="on"))
        database, prepared = r.choice("ab"), r.random() < 0.5
        sides = lambda t: (Side([t], database, "2 workers", prepared), Side([t], database, "no look-ups"))
        return Check("look-up", tree, sides)

    # Logic: what needs no second system.

    def norec(self):
        """WHERE, which is optimised, against the value of the condition for each row, which is not."""
        source, scope = self.queries.source()
        tree = Node("norec", "{0}{1}", source, self.queries.condition(scope, 2, True))
        here = self.somewhere()

        def sides(t):
            where = Node("query", "SELECT count(*) FROM {0} WHERE {1}", *t.kids)
            value = Node("query", "SELECT coalesce(sum(if({1}, 1, 0)), 0) FROM {0}", *t.kids)
            return Side([where], *here), Side([value], *here)

        return Check("NoREC", tree, sides)

    def some(self, scope, kinds=COMPARED, most=3):
        """Some columns, with names of their own."""
        usable = [c for c in scope if c.kind in kinds]
        return self.r.sample(usable, min(len(usable), self.r.randint(1, most)))

    def partitions(self):
        """Rows where p, where NOT p and where p is NULL are all rows."""
        source, scope = self.queries.source()
        chosen = self.some(scope, [*COMPARED, "map", "json"])
        items = self.queries.items([text(c.kind, c.name) for c in chosen] or [text("int", "1")])
        tree = Node("partitions", "{0}{1}{2}", items, source, self.queries.condition(scope, 2, True))
        here, at_once = self.somewhere(), self.r.random() < 0.4

        def sides(t):
            items, source, p = t.kids
            rows = [Node("query", "SELECT {0} FROM {1} WHERE {2}", items, source, q) for q in three(p)]
            return Side([Node("query", "SELECT {0} FROM {1}", items, source)], *here), Side([List(" UNION ALL ", rows)] if at_once else rows, *here)

        return Check("p, NOT p, p IS NULL", tree, sides)

    def partitions_of_distinct(self):
        source, scope = self.queries.source()
        items = self.queries.items([text(c.kind, c.name) for c in self.some(scope)] or [text("int", "1")])
        tree = Node("partitions", "{0}{1}{2}", items, source, self.queries.condition(scope, 2, True))
        here = self.somewhere()

        def sides(t):
            items, source, p = t.kids
            rows = [Node("query", "SELECT {0} FROM {1} WHERE {2}", items, source, q) for q in three(p)]
            return Side([Node("query", "SELECT DISTINCT {0} FROM {1}", items, source)], *here), Side([List(" UNION ", rows)], *here)

        return Check("DISTINCT of p, NOT p, p IS NULL", tree, sides)

    def aggregates(self, scope):
        """Aggregates, and by what those of parts become those of the whole."""
        r = self.r
        pairs = [(text("int", "count(*)"), "sum")]
        for column in self.some(scope, SCALARS, 2):
            name = r.choice(["count", "min", "max"]) if column.kind != "bool" else "count"
            pairs.append((text(column.kind, f"{name}({column.name})"), "sum" if name == "count" else name))
        numbers = self.queries.columns(scope, "int")
        if numbers and r.random() < 0.5:
            pairs.append((text("int", f"sum({r.choice(numbers).name} % 1000)"), "sum"))
        return pairs

    def partitions_of_aggregates(self):
        return self.of_parts([])

    def partitions_of_groups(self):
        return self.of_parts(None)

    def of_parts(self, groups):
        source, scope = self.queries.source()
        groups = self.some(scope, COMPARED, 2) if groups is None else groups
        pairs = self.aggregates(scope)
        condition = self.queries.condition(scope, 2, True)
        tree = Node("parts", "{0}{1}", source, condition)
        here = self.somewhere()
        items = self.queries.items([text(c.kind, c.name) for c in groups] + [value for value, _ in pairs])
        group = f" GROUP BY {', '.join(c.name for c in groups)}" if groups else ""
        outer = [f"x{i}" for i in range(len(groups))]
        outer_group = f" GROUP BY {', '.join(outer)}" if groups else ""
        outer += [f"{how}(x{i + len(groups)})" for i, (_, how) in enumerate(pairs)]

        def sides(t):
            source, p = t.kids
            rows = [Node("query", f"SELECT {{0}} FROM {{1}} WHERE {{2}}{group}", items, source, q) for q in three(p)]
            whole = Node("query", f"SELECT {{0}} FROM {{1}}{group}", items, source)
            return Side([whole], *here), Side([Node("query", f"SELECT {', '.join(outer)} FROM ({{0}}) parts{outer_group}", List(" UNION ALL ", rows))], *here)

        return Check("aggregates of p, NOT p, p IS NULL", tree, sides)

    def partitions_of_having(self):
        source, scope = self.queries.source()
        groups = self.some(scope, COMPARED, 2)
        pairs = self.aggregates(scope)
        tree = Node("having", "{0}{1}", source, self.queries.having(scope, groups))
        here = self.somewhere()
        items = self.queries.items([text(c.kind, c.name) for c in groups] + [value for value, _ in pairs])
        group = f" GROUP BY {', '.join(c.name for c in groups)}" if groups else ""

        def sides(t):
            source, p = t.kids
            rows = [Node("query", f"SELECT {{0}} FROM {{1}}{group} HAVING {{2}}", items, source, q) for q in three(p)]
            return Side([Node("query", f"SELECT {{0}} FROM {{1}}{group}", items, source)], *here), Side(rows, *here)

        return Check("HAVING p, NOT p, p IS NULL", tree, sides)

    def loose_groups(self):
        """Columns that are no keys, in groups in whose rows they have one value, against a value that is asked for."""
        q, r = self.queries, self.r
        source, scope = q.source()
        # The two zeros are one key, and what is computed of them is not the same.
        groups = self.some(scope, [k for k in COMPARED if k != "double"], 2) if r.random() < 0.8 else []
        kinds = r.choices([k for k in SCALARS if k != "bool"], k=r.randint(1, 2))
        loose = [q.expression(groups, kind, r.randint(1, 2)) if groups else q.constant(kind) for kind in kinds]
        others = self.some(scope, SCALARS, 2)
        parts = [text(c.kind, c.name) for c in groups] + loose + [text(c.kind, c.name) for c in others]
        tree = Node("loose", "{0}{1}{2}", q.items(parts), source, q.where(scope, 0.5))
        here, alias = self.somewhere()[0], q.alias()
        names = columns(alias, [part.kind for part in parts])
        keys, values, rest = names[: len(groups)], names[len(groups) : len(groups) + len(loose)], names[len(groups) + len(loose) :]
        aggregate, _ = q.aggregate(rest)
        shown = [render(q.expression(values, kind, 1)) for kind in kinds] + [r.choice(values).name]
        # A name alone is that of an item, and here the name of the column, too.
        condition = render(q.compared(q.expression(values, kinds[0], 1), q.constant(kinds[0])))
        bare = lambda c: c.name.split(".")[1]
        group = f" GROUP BY {', '.join(c.name for c in keys)}" if keys else ""
        some = [f"{c.name} AS {bare(c)}" for c in keys] + [f"max({c.name}) AS {bare(c)}" for c in values]
        words, having = render(aggregate), r.random() < 0.4

        def sides(t):
            rows = Node("query", "SELECT {0} FROM {1}{2}", *t.kids)
            items = ", ".join([c.name for c in keys] + shown)
            short = f"SELECT {items}, {words} FROM ({{0}}) {alias}{group}" + f" HAVING {condition} AND count(*) >= 0" * having
            full = f"SELECT {items}, {alias}.n FROM (SELECT {', '.join(some)}, {words} AS n FROM ({{0}}) {alias}{group}) {alias}" + f" WHERE {condition}" * having
            return Side([Node("query", short, rows)], here, "loose groups"), Side([Node("query", full, rows)], here, "2 workers")

        return Check("columns that are no keys", tree, sides)

    def partitions_of_join(self):
        """A join on p, on NOT p and on p IS NULL is all pairs; a LEFT JOIN is the join and what has no partner."""
        q, r = self.queries, self.r
        (left, scope), (right, other) = q.relation(1), q.relation(1)
        items = q.items([text(c.kind, c.name) for c in self.some(scope)] + [text(c.kind, c.name) for c in self.some(other)])
        if not items.kids:
            return self.norec()
        tree = Node("join", "{0}{1}{2}{3}", items, left, right, q.on(scope, other))
        here, outer = self.somewhere(), r.random() < 0.5

        def sides(t):
            items, left, right, p = t.kids
            if outer:
                first = Node("query", "SELECT count(*) FROM {0} LEFT JOIN {1} ON {2}", left, right, p)
                pairs = Node("query", "SELECT count(*) FROM {0} JOIN {1} ON {2}", left, right, p)
                alone = Node("query", "SELECT count(*) FROM {0} WHERE NOT EXISTS (SELECT 1 FROM {1} WHERE {2})", left, right, p)
                return Side([first], *here), Side([Node("query", "SELECT ({0}) + ({1})", pairs, alone)], *here)
            rows = [Node("query", "SELECT {0} FROM {1} JOIN {2} ON {3}", items, left, right, one) for one in three(p)]
            return Side([Node("query", "SELECT {0} FROM {1} CROSS JOIN {2}", items, left, right)], *here), Side(rows, *here)

        return Check("a join in parts", tree, sides)


def head(tree):
    """The first select list."""
    return render(tree).split(" FROM ")[0].replace("count(*)", "")


def three(p):
    return p, Node("bool", "NOT ({0})", p), Node("bool", "({0}) IS NULL", p)


def unordered(tree):
    """A derived table has no order: a check of it compares rows in any."""
    return Node("query", "{0}", tree)


def limited(tree, here):
    """The first rows, asked for and taken from all rows."""
    order = order_of(tree)
    if order is None or order.kids[1] is EMPTY:
        raise Unfit
    numbers = [n.value for n in order.kids[1].kids[: 2 if "OFFSET" in order.kids[1].dipper else 1]]
    count, skip = numbers[0], numbers[1] if len(numbers) > 1 else 0
    return Side([tree], *here), Side([replaced(tree, order.kids[1], EMPTY)], *here, take=(skip, count))


class Unfit(Exception):
    """A smaller tree that the check has no use for."""


def replaced(tree, old, new):
    if tree is old:
        return new
    if not tree.kids:
        return tree
    return tree.with_kids([replaced(kid, old, new) for kid in tree.kids])
