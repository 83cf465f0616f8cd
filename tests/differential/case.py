"""One seed: tables, stored in several ways with the same rows, and checks over them."""

import random
import re
import shutil
from collections import Counter, namedtuple

import duckdb

import files
from answers import difference, same_bytes
from checks import Checks, Unfit
from queries import Queries, order_of
from schema import NESTED, Table
from tree import DUCK, PREPARED, NoDuck, render
from wire import Answer, Refused

# What a check found: `kind` is "equal", "rows" (they differ), "error", "lost" (connection or time), or "unfit" (nothing to compare).
Outcome = namedtuple("Outcome", "kind words", defaults=[""])
EQUAL, UNFIT = Outcome("equal"), Outcome("unfit")

# Statements that dipper refuses in these words, on purpose: README.md, "What is refused".
REFUSED = re.compile(
    r"a subquery that depends on .* of the query around it, in this form; write it as a join"
    r"|a subquery that depends on the rows outside below an aggregate"
    r"|the first column, .*, cannot be a key column; put another first"
    r"|in a subquery two levels below its table|a subquery in ON of a Full join that depends on both sides"
)


class Place:
    """Where checks are asked: databases of dipper by their short names, and DuckDB's connection."""

    def __init__(self, client, duck, databases):
        self.client, self.duck, self.databases, self.known = client, duck, databases, None

    def answers(self, side, order):
        """All rows of a side: an answer of dipper's for each statement, or a list of tuples."""
        if side.session == "duck":
            return self.duck.execute(render(side.trees[0], DUCK)).fetchall()
        session = self.client.session(side.session)
        found = [self.answer(session, self.databases[side.database], tree, side.prepared) for tree in side.trees]
        if side.take:
            skip, count = side.take
            found = [Answer(a.columns, a.rows[skip : skip + count], a.binary) for a in found]
        return found

    def answer(self, session, database, tree, prepared):
        values = [] if prepared else None
        statement = render(tree, PREPARED, values) if prepared else render(tree)
        key = (id(session), database, prepared, statement)
        if self.known is not None and not prepared and key in self.known:
            return self.known[key]
        session.use(database)
        answer = session.execute(statement, values) if prepared else session.query(statement)
        if self.known is not None:
            self.known[key] = answer
        return answer

    def outcome(self, check, tree=None):
        """Whether both sides of a check are the same."""
        tree = check.tree if tree is None else tree
        try:
            one, other = check.sides(tree)
            render(tree, DUCK) if other.session == "duck" else None
        except (Unfit, NoDuck):
            return UNFIT
        ordered = len(one.trees) == len(other.trees) == 1 and one.trees[0] is tree and order_of(tree) is not None
        found = []
        for side in (other, one):
            try:
                found.append(self.answers(side, ordered))
            except Refused as e:
                found.append(e)
            except duckdb.Error:
                return UNFIT
            except OSError as e:
                self.client.lost()
                return Outcome("lost", f"{type(e).__name__}: {e}")
        errors = [e for e in found if isinstance(e, Refused)]
        if len(errors) == 2 or any(REFUSED.search(e.message) for e in errors):
            return UNFIT
        if errors:
            return Outcome("error", str(errors[0]))
        there, here = found
        if not isinstance(there, list) or other.session != "duck":
            if len(here) == len(there) == 1 and same_bytes(here[0], there[0], ordered):
                return EQUAL
            if sorted(r for a in here for r in a.rows) == sorted(r for a in there for r in a.rows) and not ordered and not (one.prepared or other.prepared):
                return EQUAL
            there = [row for a in there for row in a.values()]
        what = difference([row for a in here for row in a.values()], there, ordered)
        return Outcome("rows", what) if what else EQUAL


class Case:
    """The tables of a seed in databases a, b and files."""

    def __init__(self, client, directory, seed):
        self.client, self.seed, self.r, self.findings, self.pairs = client, seed, random.Random(seed), [], Counter()
        self.directory = directory / str(seed)
        self.names = {name: f"{name}_{seed}" for name in ("a", "b", "files")}
        self.duck = duckdb.connect(config={"threads": 1})
        self.duck.execute("SET default_null_order = 'nulls_first_on_asc_last_on_desc'")
        # By it DuckDB 2.0.1 makes a cross product of a SEMI JOIN ON true whose other side it takes for one row.
        self.duck.execute("SET disabled_optimizers = 'statistics_propagation'")
        self.place = Place(client, self.duck, self.names)
        self.tables = [Table(self.r, f"t{i}", self.r.choice([0, 0.3])) for i in range(self.r.randint(2, 3))]
        self.steps, self.forms, self.wanted = [], {}, None
        for name in self.names.values():
            client.run(f"DROP DATABASE IF EXISTS {name} FORCE", f"CREATE DATABASE {name}")
        for table in self.tables:
            self.fill(table)

    def step(self, statement):
        self.steps.append(statement)
        self.client.run(statement)

    def fill(self, table):
        """Loads and changes in both databases and in DuckDB, then the files."""
        r, name = self.r, table.name
        natives = [self.names["a"], self.names["b"]]
        for database in natives:
            self.step(table.ddl(r, f"{database}.{name}"))
        # Few rows: joins of four tables have all their combinations.
        for _ in range(r.randint(1, 4)):
            rows = table.new_rows(r, r.choice([0, 1, 3, 5, 5, 8, r.choice([8, 8, 8, 30])]))
            if not rows:
                continue
            table.add(rows)
            for database in natives:
                if r.random() < 0.35:
                    self.client.load(database, name, table.columns, rows)
                    self.steps.append(f"-- by Stream Load: INSERT INTO {database}.{name} VALUES {table.values(rows, 'dipper')}")
                else:
                    self.step(f"INSERT INTO {database}.{name} VALUES {table.values(rows, 'dipper')}")
        self.duck.execute(table.duck_ddl())
        if table.rows:
            self.duck.execute(f"INSERT INTO {name} VALUES {table.values(table.rows, 'duck')}")
        self.same_rows(table, "after loads")
        self.change(table)
        table.rows = self.duck.execute(f"SELECT * FROM {name}").fetchall()
        self.forms[name] = r.choice(files.forms(table))
        for statement in files.statements(table, self.forms[name], self.directory / name, self.duck, self.names["files"]):
            self.step(statement)
        self.same_rows(table, f"as {self.forms[name]}", ["files"])

    def change(self, table):
        """DELETE, and UPDATE where the model has it. Conditions have subqueries over the tables that are there, this one among them."""
        r = self.r
        queries = Queries(r, [t for t in self.tables if t.name <= table.name])
        # Inside of a subquery a bare name could be that of a column there.
        scope, subqueries = table.scope(table.name), r.random() < 0.5
        if table.model != "AGGREGATE" and r.random() < 0.5:
            # Few rows, so that some are left.
            condition = queries.condition(scope, 1, subqueries)
            self.both(table, "DELETE FROM {} WHERE {}", condition)
        if table.model == "UNIQUE" and r.random() < 0.5:
            values = [c for c in table.scope()[table.keys :] if c.name not in table.not_null and c.kind not in NESTED]
            if values:
                column = r.choice(values)
                value = queries.null(column.kind) if r.random() < 0.3 else queries.constant(column.kind)
                condition = queries.condition(scope, 1, subqueries)
                if column.kind == "text" or column.type in ("DECIMAL(5,2)", "DATETIME", "DATETIME(3)", "FLOAT"):
                    value = queries.null(column.kind)
                self.both(table, f"UPDATE {{}} SET {column.name} = {value.dipper} WHERE {{}}", condition, f"UPDATE {{}} SET {column.name} = {value.duck} WHERE {{}}")

    def both(self, table, template, condition, duck_template=None):
        """A change of a table in all databases, unless one of the systems refuses its condition."""
        self.duck.execute("BEGIN")
        try:
            self.duck.execute((duck_template or template).format(table.name, render(condition, DUCK)))
        except (NoDuck, duckdb.Error):
            self.duck.execute("ROLLBACK")
            return
        for name in ("a", "b"):
            statement = template.format(table.name, render(condition))
            self.client.session().use(self.names[name])
            try:
                self.client.run(statement)
            except Refused as error:
                self.duck.execute("ROLLBACK")
                if not REFUSED.search(error.message):
                    self.findings.append(Finding(self, f"a change of {self.names[name]}.{table.name}", None, Outcome("error", f"{statement}: {error}")))
                return
            self.steps += [f"USE {self.names[name]}", statement]
        self.duck.execute("COMMIT")
        self.same_rows(table, "after a change")

    def same_rows(self, table, when, places=("a", "b")):
        """The rows of a table are those that DuckDB has."""
        expected = self.duck.execute(f"SELECT * FROM {table.name}").fetchall()
        for place in places:
            found = self.client.session().query(f"SELECT * FROM {self.names[place]}.{table.name}").values()
            self.pairs["rows of a table"] += 1
            if what := difference(found, expected):
                self.findings.append(Finding(self, f"rows of {self.names[place]}.{table.name} {when}", None, Outcome("rows", what)))

    def run(self, statements, enough=lambda: False):
        """The checks of so many random statements, or of those until it is enough; what differs is in `findings`."""
        queries = Queries(self.r, self.tables)
        checks = Checks(self.r, queries)
        for _ in range(statements):
            if enough():
                break
            self.place.known = {}
            for check in checks.of_statement():
                self.check(check)
            if self.r.random() < 0.7:
                self.check(checks.of_logic())
            if self.r.random() < 0.4:
                self.check(checks.look_up())
        self.place.known = None

    def check(self, check):
        if self.wanted and not any(word in check.name for word in self.wanted):
            return
        outcome = self.place.outcome(check)
        if outcome.kind == "unfit":
            self.pairs["unfit"] += 1
            return
        self.pairs[check.name] += 1
        if outcome.kind != "equal":
            self.findings.append(Finding(self, check.name, check, outcome))

    def drop(self):
        for name in self.names.values():
            self.client.run(f"DROP DATABASE {name} FORCE")
        shutil.rmtree(self.directory, ignore_errors=True)
        self.duck.close()


class Finding:
    """A difference: of which check, and what."""

    def __init__(self, case, name, check, outcome):
        self.case, self.name, self.check, self.outcome = case, name, check, outcome

    def signature(self):
        """Findings of one signature have mostly one cause."""
        words = re.sub(r"[\d'\"`].*", "", self.outcome.words) if self.outcome.kind != "rows" else ""
        return f"{self.name}/{self.outcome.kind}/{words}"
