"""Lambdas over arrays, against the rows that the arrays are unnested to."""

import collections
import random

from answers import difference

# Each so many seeds are this check.
EVERY = 25
STATEMENTS = 30

# Bodies of the elements x of a and y of b and the columns k and n of the row; the second ones are conditions.
VALUES = [
    "x + n", "x * 2 - y", "x", "k", "coalesce(x, n, 0)", "if(x > y, x, n)", "CASE WHEN x IS NULL THEN k WHEN x > n THEN y END",
    "concat(x, '-', y)", "nullif(x, y)", "x DIV 3 + n % 4", "greatest(x, y, n)", "length(repeat('x', abs(x)))", "CAST(x AS STRING)", "x BETWEEN y AND n",
]  # fmt: skip
CONDITIONS = [
    "x > y", "x IS NULL", "x > n", "x BETWEEN y AND n", "x IN (1, 2, 3) OR y = 1", "NOT (x < k)", "x", "x <=> y", "x % 2 = 0 AND n > 0",
]  # fmt: skip
ROWS = "SELECT k, n, p, x, element_at(b, p + 1) y FROM t LATERAL VIEW posexplode(a) e AS p, x"


def pair(r):
    """A statement with a lambda and one without."""
    value, condition, where = r.choice(VALUES), r.choice(CONDITIONS), r.choice(["", " WHERE n > 0", " WHERE k % 3 <> 0"])

    def call(name, body):
        lambda_, arrays = f"(x, y) -> {body}", "a, b"
        return f"{name}({lambda_}, {arrays})" if r.random() < 0.7 else f"{name}({arrays}, {lambda_})"

    rows = f"SELECT * FROM ({ROWS}) u{where}"
    kind = r.choice(["map", "filter", "count", "first", "any", "sort", "nested"])
    if kind == "map":
        made = f"SELECT k, {call('array_map', value)} m FROM t{where}"
        return f"SELECT k, p, v FROM ({made}) z LATERAL VIEW posexplode(m) e AS p, v", f"SELECT k, p, {value} FROM ({rows}) u"
    if kind == "filter":
        made = f"SELECT k, {call('array_filter', condition)} m FROM t{where}"
        return f"SELECT k, v FROM ({made}) z LATERAL VIEW explode(m) e AS v", f"SELECT k, x FROM ({rows}) u WHERE {condition}"
    if kind == "count":
        counted = f"SELECT k, {call('array_count', condition)} c FROM t{where}"
        return f"SELECT k, c FROM ({counted}) z WHERE c > 0", f"SELECT k, count(*) FROM ({rows}) u WHERE {condition} GROUP BY k"
    if kind == "first":
        found = f"SELECT k, {call('array_first_index', condition)} f, {call('array_last_index', condition)} l FROM t{where}"
        return f"SELECT k, f, l FROM ({found}) z WHERE f > 0", f"SELECT k, min(p) + 1, max(p) + 1 FROM ({rows}) u WHERE {condition} GROUP BY k"
    if kind == "any":
        found = f"SELECT k, {call('array_match_any', condition)} o, {call('array_match_all', condition)} l FROM t{where}"
        truth = f"CASE WHEN {condition} THEN 1 WHEN NOT ({condition}) THEN 0 END"
        unknown = f"count(*) > count({truth})"
        any_, all_ = f"if(max({truth}) = 1, 1, if({unknown}, NULL, 0))", f"if(min({truth}) = 0, 0, if({unknown}, NULL, 1))"
        return f"SELECT k, o, l FROM ({found}) z WHERE k IN (SELECT k FROM t WHERE size(a) > 0)", f"SELECT k, {any_}, {all_} FROM ({rows}) u GROUP BY k"
    if kind == "sort":
        # Elements that are equal are alike.
        ordered = f"SELECT k, array_sort((x, y) -> if(x <=> y, 0, if(y IS NULL OR x < y, {r.choice(['-1, 1', '1, -1'])})), a) m FROM t{where}"
        return f"SELECT k, v FROM ({ordered}) z LATERAL VIEW explode(m) e AS v", f"SELECT k, x FROM ({rows}) u"
    inner = r.choice(["x * 100 + y + k", "x = y", "concat(x, y, n)", "if(x > y, x, n)"])
    made = f"SELECT k, array_map(x -> array_map(y -> {inner}, b), a) m FROM t{where}"
    both = f"SELECT k, n, x, y FROM t LATERAL VIEW explode(a) e AS x LATERAL VIEW explode(b) f AS y{where}"
    return (
        f"SELECT k, v FROM (SELECT k, i FROM ({made}) z LATERAL VIEW explode(m) e AS i) q LATERAL VIEW explode(i) f AS v",
        f"SELECT k, {inner} FROM ({both}) u",
    )


def check(client, seed):
    """Pairs by check, and findings as (signature, seed, script)."""
    r = random.Random(seed)
    database = f"lambda_{seed}"

    def array(length):
        return "[" + ", ".join("NULL" if r.random() < 0.15 else str(r.randint(-3, 9)) for _ in range(length)) + "]"

    def row(k):
        if r.random() < 0.1:
            return f"({k}, {r.randint(-2, 9)}, NULL, NULL)"
        length = r.choice([0, 1, 2, 3, 3, 5, 40])
        return f"({k}, {r.choice(['NULL', r.randint(-2, 9), r.randint(-2, 9)])}, {array(length)}, {array(length)})"

    rows = ", ".join(row(k) for k in range(r.choice([3, 40, 300])))
    steps = [
        f"DROP DATABASE IF EXISTS {database} FORCE",
        f"CREATE DATABASE {database}",
        f"CREATE TABLE {database}.t (k INT, n INT, a ARRAY<INT>, b ARRAY<INT>) DUPLICATE KEY(k) DISTRIBUTED BY HASH(k) BUCKETS {r.choice([1, 3])}",
        f"INSERT INTO {database}.t VALUES {rows}",
    ]
    client.run(*steps)
    session = client.session("2 workers")
    session.use(database)
    pairs, findings = collections.Counter(), []
    for _ in range(STATEMENTS):
        one, other = pair(r)
        found, expected = session.query(one), session.query(other)
        pairs["lambdas"] += 1
        if sorted(map(repr, found.rows)) != sorted(map(repr, expected.rows)) and (what := difference(found.values(), expected.values(), False)):
            findings.append(("lambda/rows", seed, "\n".join([*steps, f"USE {database}", f"{one};", f"{other};", f"-- {what}"])))
    client.run(f"DROP DATABASE {database} FORCE")
    return pairs, findings
