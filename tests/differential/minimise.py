"""Makes a difference small: leaves out parts of the statement, tables, columns and rows while it stays.

What is left is printed as a script that needs nothing else.
"""

import copy
import re
import time

import duckdb

from case import Place
from schema import Table
from tree import DUCK, EMPTY, PREPARED, List, render, text
from wire import Refused

SIMPLE = {"int": "1", "bool": "true"}


def reduced(finding, seconds):
    """A script for the smallest difference of its kind that is found within the time."""
    if finding.check is None:
        return "\n".join(f"{s};" for s in finding.case.steps) + f"\n-- {finding.name}: {finding.outcome.words}"
    end = time.monotonic() + seconds
    case, check = finding.case, finding.check
    same = lambda place, tree: alike(place.outcome(check, tree), finding.outcome)
    if not same(case.place, check.tree):
        return whole(finding, "-- Seen once; the next time both sides were equal.\n")
    tree = smaller(check.tree, lambda t: same(case.place, t), end)
    plain = Plain(case)
    try:
        if not same(plain.place, tree):
            finding.outcome, finding.check = case.place.outcome(check, tree), check._replace(tree=tree)
            return whole(finding, "-- Not with plain tables of one segment.\n")
        plain.reduce(tree, lambda t: same(plain.place, t), end)
        tree = smaller(tree, lambda t: same(plain.place, t), end)
        plain.reduce(tree, lambda t: same(plain.place, t), end)
        return plain.script(check, tree, plain.place.outcome(check, tree))
    finally:
        plain.drop()


def alike(outcome, first):
    if outcome.kind != first.kind:
        return False
    return outcome.kind != "error" or outcome.words[:24] == first.words[:24]


def smaller(tree, holds, end):
    """The tree with all parts left out or replaced that are not needed."""
    changed = True
    while changed:
        changed = False
        for path in list(paths(tree)):
            try:
                node = at(tree, path)
            except IndexError:
                continue
            again = True
            while again:
                again = False
                for candidate in candidates(node):
                    if time.monotonic() > end:
                        return tree
                    new = put(tree, path, candidate)
                    if holds(new):
                        tree, node, changed, again = new, candidate, True, True
                        break
    return tree


def paths(tree, path=()):
    yield path
    for i, kid in enumerate(tree.kids):
        yield from paths(kid, (*path, i))


def at(tree, path):
    for i in path:
        tree = tree.kids[i]
    return tree


def put(tree, path, new):
    if not path:
        return new
    kids = list(tree.kids)
    kids[path[0]] = put(kids[path[0]], path[1:], new)
    return tree.with_kids(kids)


def candidates(node):
    """What may stand in a part's place, the smallest first."""
    if node.optional:
        yield EMPTY
    if isinstance(node, List) and len(node.kids) > node.least:
        for i in range(len(node.kids)):
            yield node.with_kids(node.kids[:i] + node.kids[i + 1 :])
    if not node.kids:
        return
    if node.kind in SIMPLE:
        yield text(node.kind, SIMPLE[node.kind])
    below = [d for d in descendants(node) if d.kind == node.kind]
    yield from sorted(below, key=lambda d: len(list(paths(d))))[:40]


def descendants(node):
    for kid in node.kids:
        yield kid
        yield from descendants(kid)


class Plain:
    """The rows of a case in plain tables of one database, and in a DuckDB of their own."""

    def __init__(self, case):
        self.client, self.name = case.client, f"plain_{case.seed}"
        self.duck = duckdb.connect(config={"threads": 1})
        self.duck.execute("SET default_null_order = 'nulls_first_on_asc_last_on_desc'")
        self.place = Place(case.client, self.duck, dict.fromkeys(case.names, self.name))
        self.client.run(f"DROP DATABASE IF EXISTS {self.name} FORCE", f"CREATE DATABASE {self.name}")
        self.tables = [copy.copy(t) for t in case.tables]
        for table in self.tables:
            self.fill(table)

    def statements(self, table, name):
        yield table.plain_ddl(name)
        if table.rows:
            yield f"INSERT INTO {name} VALUES {table.values(table.rows, 'dipper')}"

    def fill(self, table):
        self.client.run(f"DROP TABLE IF EXISTS {self.name}.{table.name} FORCE", *self.statements(table, f"{self.name}.{table.name}"))
        self.duck.execute(f"DROP TABLE IF EXISTS {table.name}")
        self.duck.execute(table.duck_ddl())
        if table.rows:
            self.duck.execute(f"INSERT INTO {table.name} VALUES {table.values(table.rows, 'duck')}")

    def reduce(self, tree, holds, end):
        """Leaves out tables, rows and columns."""
        words = render(tree)
        self.tables = [t for t in self.tables if re.search(rf"\b{t.name}\b", words)]
        for table in self.tables:
            size = max(1, len(table.rows))
            while size and table.rows and time.monotonic() < end:
                kept = False
                for begin in range(0, len(table.rows), size):
                    kept |= self.attempt(table, "rows", table.rows[:begin] + table.rows[begin + size :], lambda: holds(tree))
                    if time.monotonic() > end:
                        break
                size = size if kept and size > 1 else size // 2
            for name, _ in table.columns[::-1]:
                if len(table.columns) > 1 and not re.search(rf"\b{name}\b", words) and time.monotonic() < end:
                    self.without_column(table, name, lambda: holds(tree))

    def attempt(self, table, attribute, value, holds):
        old = getattr(table, attribute)
        setattr(table, attribute, value)
        self.fill(table)
        if holds():
            return True
        setattr(table, attribute, old)
        self.fill(table)
        return False

    def without_column(self, table, name, holds):
        i = [n for n, _ in table.columns].index(name)
        cut = copy.copy(table)
        cut.columns = table.columns[:i] + table.columns[i + 1 :]
        cut.rows = [row[:i] + row[i + 1 :] for row in table.rows]
        if Table.usable_as_key(cut.columns[0][1]):
            self.fill(cut)
            if holds():
                table.columns, table.rows = cut.columns, cut.rows
                return
            self.fill(table)

    def script(self, check, tree, outcome):
        lines = [f"{s};" for table in self.tables for s in self.statements(table, table.name)]
        return "\n".join([*lines, *sides(self.place, check, tree), f"-- {check.name}: {outcome.words}"])

    def drop(self):
        self.client.run(f"DROP DATABASE IF EXISTS {self.name} FORCE")
        self.duck.close()


def whole(finding, remark):
    """A script with all that the case did."""
    lines = "\n".join(f"{s};" for s in finding.case.steps)
    # The rows of a table are compared by no check: the steps are all there is to tell.
    told = "\n".join(sides(finding.case.place, finding.check, finding.check.tree)) if finding.check else ""
    return f"{lines}\n{remark}{told}\n-- {finding.name}: {finding.outcome.words}"


def sides(place, check, tree):
    """The statements of both sides with their answers."""
    for side in check.sides(tree):
        how = "DuckDB" if side.session == "duck" else f"{place.databases[side.database]}, {side.session}{', prepared' if side.prepared else ''}"
        for one in side.trees:
            values = []
            words = render(one, DUCK) if side.session == "duck" else render(one, PREPARED, values) if side.prepared else render(one)
            yield f"-- {how}{f', rows {side.take}' if side.take else ''}:"
            yield f"{words};" + (f" -- bound: {values}" if values else "")
        try:
            found = place.answers(side, False)
            rows = found if side.session == "duck" else [row for a in found for row in a.values()]
            yield f"--   {len(rows)} rows: {', '.join(map(str, rows[:6]))}"
        except (Refused, duckdb.Error, OSError) as e:
            yield f"--   error {e}"
