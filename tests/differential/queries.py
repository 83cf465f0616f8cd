"""Random queries: selections, groups, grouping sets, windows, set operations, joins by USING, with ORDER BY and LIMIT."""

from expressions import COMPARED, SCALARS
from schema import NESTED
from sources import Sources
from tree import EMPTY, List, Literal, Node, text


class Queries(Sources):
    """Queries over tables. The columns of each are x0, x1, ..."""

    def aggregate(self, scope):
        """An aggregate and its kind."""
        r = self.r
        kinds = sorted({c.kind for c in scope if c.kind in SCALARS})
        if not kinds:
            return text("int", "count(*)"), "int"
        kind, choice = r.choice(kinds), r.randint(0, 9)
        part = self.expression(scope, kind, 1)
        if choice == 0:
            return Node("int", "count({0})", part), "int"
        if choice == 1:
            return Node("int", "count(DISTINCT {0})", part), "int"
        if choice == 2:
            return Node("int", f"sum({r.choice(['', 'DISTINCT '])}{{0}})", self.small(scope)), "int"
        if choice == 3 or kind == "bool":
            return Node("int", "count(CASE WHEN {0} THEN 1 END)", self.condition(scope, 0)), "int"
        if choice == 4:
            return text("int", "count(*)"), "int"
        if choice == 5:
            return Node("double", "avg({0})", self.small(scope)), "double"
        if choice == 6 and self.columns(scope, "double"):
            return Node("double", "sum({0})", text("double", r.choice(self.columns(scope, "double")).name)), "double"
        if choice == 6 and self.columns(scope, "decimal"):
            return Node("decimal", "sum({0})", text("decimal", r.choice(self.columns(scope, "decimal")).name)), "decimal"
        return Node(kind, f"{r.choice(['min', 'max'])}({{0}})", part), kind

    def having(self, scope, groups):
        """A condition on groups: their columns, aggregates, or neither."""
        r, choice = self.r, self.r.random()
        if groups and choice < 0.4:
            return self.condition(groups, r.randint(0, 1))
        if choice < 0.5:
            return text("bool", r.choice(["false", "true", "(count(*) = 0)", "(count(*) > 1)"]))
        if choice < 0.58:
            inside, inner = self.inside([])
            value, kind = self.aggregate(inner)
            return self.compared(Node(kind, "(SELECT {0} {1})", value, inside), self.constant(kind))
        value, kind = self.aggregate(scope)
        return self.compared(value, self.constant(kind))

    # The forms of a query: each gives the parts behind SELECT.

    def query(self, deep=1, kinds=None, star=False):
        """A query, and the kinds of its columns: `kinds` where they are given."""
        r, choice = self.r, self.r.random()
        if deep > 0 and choice < 0.16:
            tree, found = self.set_operation(deep, kinds)
        elif kinds is None and choice < 0.4:
            tree, found = self.grouped(deep)
        elif kinds is None and choice < 0.5:
            tree, found = self.windowed(deep)
        elif kinds is None and choice < 0.58:
            tree, found = self.using(star)
        else:
            tree, found = self.selected(deep, kinds)
        if all(k in SCALARS for k in found) and r.random() < (0.35 if deep else 0.2):
            tree = self.ordered(tree, found)
        return tree, found

    def statement(self):
        """A query, sometimes behind WITH."""
        self.common = []
        if self.r.random() > 0.12:
            return self.query(star=True)
        name = self.alias()
        inner, kinds = self.query(0)
        self.common = [(name, kinds)]
        tree, found = self.query()
        self.common = []
        return Node("query", f"WITH {name} AS ({{0}}) {{1}}", inner, tree), found

    def items(self, parts):
        return List(", ", [Node("item", f"{{0}} AS x{i}", part) for i, part in enumerate(parts)])

    def where(self, scope, chance=0.75, deep=2):
        if self.r.random() > chance:
            return EMPTY
        return Node("where", " WHERE {0}", self.condition(scope, self.r.randint(0, deep), True), optional=True)

    def selected(self, deep, kinds):
        r = self.r
        source, scope = self.source(deep)
        have = sorted({c.kind for c in scope}) or ["int"]
        given, kinds = kinds, kinds or r.choices(have, k=r.randint(1, 3))
        if given is None and r.random() < 0.12:
            kinds = [*kinds, "bool"]
        parts = [self.item(scope, k) for k in kinds]
        distinct = "DISTINCT " if r.random() < 0.25 and all(k in COMPARED for k in kinds) else ""
        return Node("query", f"SELECT {distinct}{{0}} FROM {{1}}{{2}}", self.items(parts), source, self.where(scope)), kinds

    def item(self, scope, kind):
        """A value of a select list: also a constant, or what a subquery says of the row."""
        choice = self.r.random()
        if choice < 0.12 and kind not in NESTED:
            return self.constant(kind)
        if kind == "bool" and choice < 0.5:
            return self.subquery_condition(scope)
        if kind == "int" and choice < 0.2:
            inside, _ = self.inside(scope)
            return Node("int", "(SELECT count(*) {0})", inside)
        return self.expression(scope, kind, self.r.randint(0, 2))

    def grouped(self, deep):
        r = self.r
        source, scope = self.source(deep)
        usable = [c for c in scope if c.kind in COMPARED]
        groups = r.sample(usable, min(len(usable), r.choice([0, 0, 1, 1, 2, 3])))
        columns = [text(c.kind, c.name) for c in groups]
        tail, constant = EMPTY, None
        if groups and r.random() < 0.4:
            tail = Node("groups", " GROUP BY {0}", self.grouping_sets(columns))
        elif groups:
            tail = Node("groups", " GROUP BY {0}", List(", ", columns))
        if r.random() < 0.15:
            constant = self.constant(r.choice(["int", "text"]))
        parts = [constant] * (constant is not None) + [text(c.kind, c.name) for c in r.sample(groups, len(groups))]
        kinds = [p.kind for p in parts]
        for _ in range(r.randint(0 if parts else 1, 2)):
            value, kind = self.aggregate(scope)
            parts.append(value)
            kinds.append(kind)
        having = EMPTY
        if r.random() < 0.25:
            # Without groups and aggregates HAVING is WHERE in MySQL, and one group elsewhere.
            words = " HAVING {0}" if groups else " HAVING {0} AND count(*) >= 0"
            having = Node("having", words, self.having(scope, groups), optional=True)
        return Node("query", "SELECT {0} FROM {1}{2}{3}{4}", self.items(parts), source, self.where(scope, 0.5), tail, having), kinds

    def grouping_sets(self, columns):
        r = self.r
        form = r.choice(["ROLLUP({0})", "CUBE({0})", "GROUPING SETS({0})"])
        if not form.startswith("GROUPING"):
            return Node("sets", form, List(", ", columns, least=len(columns)))
        sets = [List(", ", r.sample(columns, r.randint(0, len(columns))), least=0) for _ in range(r.randint(1, 3))]
        # A column that is in no set could not be selected.
        sets.append(List(", ", columns, least=len(columns)))
        return Node("sets", form, List(", ", [Node("set", "({0})", s) for s in sets]))

    def windowed(self, deep):
        r = self.r
        source, scope = self.source(deep, 2)
        scope_scalars = [c for c in scope if c.kind in SCALARS]
        if not scope_scalars:
            return self.selected(deep, None)
        # One order for all that depends on it: equal rows may come in another order for another window.
        order = Node("total", "ORDER BY {0}", List(", ", [text("key", c.name + r.choice(["", " DESC"])) for c in r.sample(scope_scalars, len(scope_scalars))], least=99))
        by = r.choice(scope_scalars)
        partition = Node("partition", "PARTITION BY {0} ", text("key", by.name)) if r.random() < 0.6 else EMPTY
        windows = [self.window(scope_scalars, partition, order) for _ in range(r.randint(1, 2))]
        column = r.choice(scope_scalars)
        parts = [text(column.kind, column.name)] + [w for w, _ in windows]
        return Node("query", "SELECT {0} FROM {1}{2}", self.items(parts), source, self.where(scope, 0.4)), [column.kind] + [k for _, k in windows]

    def window(self, scope, partition, order):
        """A window function whose result is one: in a total order (all columns), or without regard to the order of peers."""
        r = self.r
        distant = [c for c in scope if c.kind in ("int", "double", "decimal", "date", "datetime")]
        if distant and r.random() < 0.35:
            return self.range_window(scope, r.choice(distant))
        column = r.choice(scope)
        value = text(column.kind, column.name)
        choice = r.random()
        if choice < 0.4:
            function, kind = r.choice([
                (text("int", "row_number()"), "int"), (text("int", "rank()"), "int"), (text("int", "dense_rank()"), "int"), (text("int", "ntile(3)"), "int"),
                (Node(column.kind, f"{r.choice(['lag', 'lead'])}({{0}}, {r.randint(0, 2)})", value), column.kind),
                (text("double", "percent_rank()"), "double"), (text("double", "cume_dist()"), "double"),
            ])  # fmt: skip
            return Node(kind, "{0} OVER ({1}{2})", function, partition, order), kind
        if choice < 0.6:
            function = Node(column.kind, r.choice(["first_value({0})", "last_value({0})", "nth_value({0}, 2)"]), value)
            kind = column.kind
        else:
            function, kind = self.frame_aggregate(scope)
        return Node(kind, "{0} OVER ({1}{2}{3})", function, partition, order, self.frame("ROWS")), kind

    def frame_aggregate(self, scope):
        r = self.r
        column = r.choice(scope)
        numbers = [c for c in scope if c.kind in ("double", "decimal")]
        if numbers and r.random() < 0.5:
            column = r.choice(numbers)
            name = r.choice(["sum", "min", "max"] + ["avg", "var_pop", "stddev_pop"] * (column.kind == "double"))
            return Node(column.kind, f"{name}({{0}})", text(column.kind, column.name)), column.kind
        if column.kind == "int":
            name = r.choice(["sum", "avg", "min", "max"])
            kind = "double" if name == "avg" else "int"
            return Node(kind, f"{name}({{0}} % 1000)", text("int", column.name)), kind
        name = r.choice(["count", "min", "max"]) if column.kind != "bool" else "count"
        kind = "int" if name == "count" else column.kind
        return Node(kind, f"{name}({{0}})", text(column.kind, column.name)), kind

    def range_window(self, scope, by):
        r = self.r
        partition = Node("partition", "PARTITION BY {0} ", text("key", r.choice(scope).name), optional=True) if r.random() < 0.6 else EMPTY
        function, kind = self.frame_aggregate(scope)
        order = Node("by", f"ORDER BY {{0}}{r.choice(['', '', ' DESC'])}", text(by.kind, by.name))
        return Node(kind, "{0} OVER ({1}{2}{3})", function, partition, order, self.frame("RANGE", "INTERVAL {} DAY" if by.kind in ("date", "datetime") else "{}")), kind

    def frame(self, unit, distance="{}"):
        """Which rows a window function sees; `distance`: how a number of rows, units or days is written."""
        r = self.r
        if r.random() < 0.2:
            return EMPTY
        two, one = distance.format(2), distance.format(1)
        ends = ["UNBOUNDED PRECEDING", f"{two} PRECEDING", f"{one} PRECEDING", "CURRENT ROW", f"{one} FOLLOWING", f"{two} FOLLOWING", "UNBOUNDED FOLLOWING"]
        first, last = sorted(r.choices(range(len(ends)), k=2))
        if first == 6 or last == 0:
            first, last = 0, 6
        return Node("frame", f" {unit} BETWEEN {ends[first]} AND {ends[last]}", optional=True)

    def set_operation(self, deep, kinds):
        r = self.r
        first, kinds = self.query(deep - 1, kinds)
        word = r.choice(["UNION", "UNION ALL", "UNION ALL", "UNION ALL", "INTERSECT", "EXCEPT"]) if all(k in COMPARED for k in kinds) else "UNION ALL"
        parts = [first] + [self.query(deep - 1, kinds)[0] for _ in range(r.choice([1, 1, 2]))]
        return List(f" {word} ", [Node("branch", "({0})", p) for p in parts], kind="query"), kinds

    def using(self, star):
        """A join by the columns of one name: `*` (its columns have names of their own), or some of what comes out."""
        r = self.r
        tables = [r.choice(self.tables) for _ in range(r.choice([2, 2, 3]))]
        aliases = [self.alias() for _ in tables]
        have = [c._replace(name=f"{aliases[0]}.{c.name}") for c in tables[0].scope()]
        words = f"{tables[0].name} {aliases[0]}"
        for table, alias in zip(tables[1:], aliases[1:]):
            plain = lambda c: c.name.split(".")[-1]
            names = {plain(h): h.kind for h in have}
            common = [c for c in table.scope() if names.get(c.name) == c.kind and c.kind not in ("map", "json")]
            # A name that is there twice cannot be joined by.
            once = [c for c in common if sum(plain(h) == c.name for h in have) == 1]
            kind = r.choice(["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"])
            if not once:
                return self.selected(0, None)
            if len(once) == len([c for c in table.scope() if c.name in names]) and r.random() < 0.3:
                words += f" NATURAL {kind} {table.name} {alias}"
            else:
                once = r.sample(once, r.randint(1, len(once)))
                words += f" {kind} {table.name} {alias} USING ({', '.join(plain(h) for h in have if plain(h) in {c.name for c in once})})"
            merged = {c.name for c in once}
            if {h.name for h in have} & {c.name for c in table.scope()} - merged:
                # A column that was merged before would be there twice.
                return self.selected(0, None)
            have = (
                [h._replace(name=plain(h)) for h in have if plain(h) in merged]
                + [h for h in have if plain(h) not in merged]
                + [c._replace(name=f"{alias}.{c.name}") for c in table.scope() if c.name not in merged]
            )
        # No subqueries: names without a table would be those of the tables inside.
        where = Node("where", " WHERE {0}", self.condition(have, 1), optional=True) if r.random() < 0.5 else EMPTY
        source = text("source", words)
        if star and r.random() < 0.4:
            columns = [text(c.kind, c.name) for c in have]
            every = Node("star", "*", List(", ", columns, least=99), duck="{0}")
            return Node("query", "SELECT {0} FROM {1}{2}", every, source, where), [c.kind for c in have]
        kinds = r.choices([c.kind for c in have], k=r.randint(1, 3))
        parts = [self.leaf(have, k) for k in kinds]
        return Node("query", "SELECT {0} FROM {1}{2}", self.items(parts), source, where), kinds

    def ordered(self, tree, kinds):
        """In an order in which only equal rows are peers, and mostly the first rows of that."""
        r = self.r
        keys = ", ".join(f"{i + 1}{r.choice(['', '', ' DESC'])}" for i in r.sample(range(len(kinds)), len(kinds)))
        tail = [Node("keys", f" ORDER BY {keys}"), EMPTY]
        if r.random() < 0.7:
            count, skip = r.choice([0, 1, 3, 10, 100]), r.choice([0, 0, 0, 1, 5])
            number = lambda n: Literal("count", str(n), str(n), n)
            tail[1] = Node("limit", " LIMIT {0}" + " OFFSET {1}" * (skip > 0), number(count), number(skip))
        return Node("query", "{0}{1}", tree, Node("order", "{0}{1}", *tail, optional=True))


def order_of(tree):
    """The ORDER BY at the end of a statement, or None."""
    while tree.kids and getattr(tree, "dipper", "").startswith("WITH"):
        tree = tree.kids[-1]
    last = tree.kids[-1] if tree.kids else None
    return last if last is not None and last.kind == "order" else None
