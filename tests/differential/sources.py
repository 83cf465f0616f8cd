"""What stands behind FROM: tables, derived tables, common table expressions and joins of them; and subqueries in conditions."""

from expressions import COMPARED, Expressions
from schema import Column
from tree import List, Node, text

EQUAL = ("int", "text", "date", "datetime", "bool", "decimal", "ints", "struct", "double")


class Sources(Expressions):
    """Needs the tables, and `query` of queries.py for derived tables."""

    def __init__(self, r, tables):
        super().__init__(r)
        self.tables, self.aliases, self.common = tables, 0, []

    def alias(self):
        self.aliases += 1
        return f"q{self.aliases}"

    def relation(self, deep):
        """A table, or something in its place: the tree and its columns."""
        r, alias, choice = self.r, self.alias(), self.r.random()
        if self.common and choice < 0.4:
            name, kinds = r.choice(self.common)
            return text("relation", f"{name} {alias}"), columns(alias, kinds)
        if deep > 0 and choice < 0.22:
            query, kinds = self.query(deep - 1)
            return Node("relation", f"({{0}}) {alias}", query), columns(alias, kinds)
        if choice > 0.96:
            return self.literals(alias)
        table = r.choice(self.tables)
        return text("relation", f"{table.name} {alias}"), table.scope(alias)

    def literals(self, alias):
        """A table of constants."""
        r = self.r
        kinds = r.choices(["int", "text", "date", "double"], k=r.randint(1, 2))
        row = lambda: List(", ", [Node("item", f"{{0}} AS x{i}", self.constant(k)) for i, k in enumerate(kinds)], least=9)
        rows = List(" UNION ALL ", [Node("query", "SELECT {0}", row()) for _ in range(r.randint(1, 3))])
        return Node("relation", f"({{0}}) {alias}", rows), columns(alias, kinds)

    def source(self, deep=1, most=3):
        """FROM with its columns: up to four relations, joined in any way; fewer inside of others, where rows multiply."""
        r = self.r
        tree, scope = self.relation(deep)
        tree = Node("source", "{0}", tree)
        for _ in range(min(r.choice([0, 0, 0, 1, 1, 1, 2, 2, 3]), most if deep else 1)):
            tree, scope = self.join(tree, scope, *self.relation(deep if r.random() < 0.5 else 0))
        return tree, scope

    def join(self, tree, scope, relation, other):
        r = self.r
        choice = r.random()
        if choice < 0.06:
            return Node("source", r.choice(["{0} CROSS JOIN {1}", "{0} JOIN {1} ON true"]), tree, relation), scope + other
        on = self.on(scope, other)
        if choice < 0.18:
            side = r.choice(["SEMI", "ANTI"])
            if r.random() < 0.7:
                return Node("source", f"{{0}} LEFT {side} JOIN {{1}} ON {{2}}", tree, relation, on, duck=f"{{0}} {side} JOIN {{1}} ON {{2}}"), scope
            # DuckDB has no joins from the right, and no parentheses around one table.
            swapped = f"{{1}} {side} JOIN {'({0})' if len(tree.kids) > 1 else '{0}'} ON {{2}}"
            return Node("source", f"{{0}} RIGHT {side} JOIN {{1}} ON {{2}}", tree, relation, on, duck=swapped), other
        kind = r.choice(["JOIN", "JOIN", "JOIN", "LEFT JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"])
        return Node("source", f"{{0}} {kind} {{1}} ON {{2}}", tree, relation, on), scope + other

    def on(self, scope, other):
        """A join's condition: mostly an equality, often with more beside it."""
        r = self.r
        pairs = [(a, b) for a in scope for b in other if a.kind == b.kind and a.kind in EQUAL]
        parts = []
        for _ in range(r.choice([0, 1, 1, 1, 1, 2]) if pairs else 0):
            a, b = r.choice(pairs)
            two = text(a.kind, a.name), text(b.kind, b.name)
            if r.random() < 0.15:
                parts.append(Node("bool", r.choice(["{0} <=> {1}", "{0} IS NOT DISTINCT FROM {1}"]), *two, duck="{0} IS NOT DISTINCT FROM {1}"))
            elif a.kind in ("int", "date", "datetime", "double") and r.random() < 0.2:
                parts.append(Node("bool", f"{{0}} {r.choice(['<', '<=', '>', '<>'])} {{1}}", *two))
            elif a.kind == "int" and len(scope) > 1 and r.random() < 0.12:
                more = text("int", r.choice([c for c in scope if c.kind == "int"]).name)
                parts.append(Node("bool", "{0} % 100 + {2} % 100 = {1}", *two, more))
            else:
                parts.append(Node("bool", "{0} = {1}", *two))
        if not parts or r.random() < 0.3:
            among = r.choice([scope, other, scope + other])
            parts.append(text("bool", r.choice(["false", "true"])) if r.random() < 0.12 else self.condition(among, 0, r.random() < 0.15))
        return List(" AND ", parts, kind="on")

    # Subqueries in conditions

    def subquery_condition(self, scope):
        r = self.r
        return r.choice([self.exists, self.exists, self.member, self.member, self.scalar, self.scalar, self.quantified])(scope)

    def inside(self, scope, deep=0):
        """FROM and WHERE of a subquery, mostly with a column from outside: the tree, and the columns inside."""
        r = self.r
        tree, inner = self.source(deep, 1) if r.random() < 0.25 else self.single()
        pairs = [(o, i) for o in scope for i in inner if o.kind == i.kind and o.kind in COMPARED]
        parts = []
        if pairs and r.random() < 0.65:
            o, i = r.choice(pairs)
            sign = r.choice(["=", "=", "=", "=", "<", ">=", "<>"]) if o.kind in ("int", "date", "text", "double") else "="
            parts.append(Node("bool", f"{{1}} {sign} {{0}}", text(o.kind, o.name), text(i.kind, i.name)))
        if r.random() < 0.45:
            parts.append(self.condition(r.choice([inner, inner + scope]), 0))
        if not parts:
            return Node("inside", "FROM {0}", tree), inner
        return Node("inside", "FROM {0} WHERE {1}", tree, List(" AND ", parts, kind="on")), inner

    def single(self):
        tree, inner = self.relation(0)
        return Node("source", "{0}", tree), inner

    def aggregated(self, inner):
        """An aggregate that has a value without rows, or none; and what HAVING, GROUP BY say of it."""
        r = self.r
        value, kind = self.aggregate(inner)
        tail, choice = text("tail", ""), r.random()
        groups = [c for c in inner if c.kind in COMPARED]
        if choice < 0.2:
            tail = Node("tail", " HAVING {0} AND count(*) >= 0", self.having(inner, []))
        elif choice < 0.35 and groups:
            group = text("group", r.choice(groups).name)
            tail = Node("tail", " GROUP BY {0}", group)
        return value, kind, tail

    def exists(self, scope):
        r = self.r
        inside, inner = self.inside(scope, 1)
        word = r.choice(["EXISTS", "NOT EXISTS"])
        if r.random() < 0.3:
            value, _, tail = self.aggregated(inner)
            return Node("bool", f"({word} (SELECT {{0}} {{1}}{{2}}))", value, inside, tail)
        limit = r.choice(["", "", "", " LIMIT 1", " LIMIT 1 OFFSET 1"])
        return Node("bool", f"({word} (SELECT 1 {{0}}{limit}))", inside)

    def member(self, scope):
        r = self.r
        inside, inner = self.inside(scope)
        word = r.choice(["IN", "NOT IN"])
        if r.random() < 0.25:
            value, kind, tail = self.aggregated(inner)
            return Node("bool", f"({{0}} {word} (SELECT {{1}} {{2}}{{3}}))", self.expression(scope, kind, 1), value, inside, tail)
        pairs = [(o, i) for o in scope for i in inner if o.kind == i.kind and o.kind in COMPARED]
        if len(pairs) > 1 and r.random() < 0.15:
            (a, b), (c, d) = r.sample(pairs, 2)
            return Node("bool", f"(({a.name}, {c.name}) {word} (SELECT {b.name}, {d.name} {{0}}))", inside)
        kinds = sorted({i.kind for i in inner if i.kind in COMPARED})
        kind = r.choice(pairs)[0].kind if pairs else r.choice(kinds) if kinds else None
        if kind is None:
            return Node("bool", "(EXISTS (SELECT 1 {0}))", inside)
        left = self.expression(scope, kind, 1) if r.random() < 0.5 else self.leaf(scope, kind)
        return Node("bool", f"({{0}} {word} (SELECT {r.choice(['', '', 'DISTINCT '])}{{1}} {{2}}))", left, self.leaf(inner, kind), inside)

    def scalar(self, scope):
        inside, inner = self.inside(scope)
        value, kind = self.aggregate(inner)
        subquery = Node(kind, "(SELECT {0} {1})", value, inside)
        if self.r.random() < 0.3:
            subquery = Node(kind, "coalesce({0}, {1})", subquery, self.constant(kind))
        return self.compared(self.leaf(scope, kind), subquery)

    def quantified(self, scope):
        r = self.r
        inside, inner = self.inside(scope)
        kinds = sorted({c.kind for c in scope} & {i.kind for i in inner} & {"int", "text", "date", "decimal"})
        if not kinds:
            return self.exists(scope)
        kind, word = r.choice(kinds), r.choice(["ANY", "ALL"])
        sign = r.choice(["<", ">=", "="] if word == "ANY" else ["<", ">=", "<>"])
        return Node("bool", f"({{0}} {sign} {word} (SELECT {{1}} {{2}}))", self.leaf(scope, kind), self.leaf(inner, kind), inside)


def columns(alias, kinds):
    """What a query of these kinds is called in a scope."""
    return [Column(f"{alias}.x{i}", kind, None) for i, kind in enumerate(kinds)]
