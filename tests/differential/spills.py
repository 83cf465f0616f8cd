"""Statements with so little memory that they spill, against those with enough."""

import collections
import random
import re

from answers import difference
from sessions import LITTLE_MEMORY
from wire import Connection, Refused

# Each so many seeds are this check: its tables are large, therefore slow.
EVERY = 40
ROWS = 30_000
SHAPES = [
    "SELECT k, v, s FROM big ORDER BY {key}, k",
    "SELECT k, s FROM big ORDER BY s DESC, k LIMIT {n} OFFSET 5000",
    "SELECT DISTINCT {key}, s FROM big",
    "SELECT {key}, s, count(*), sum(v), min(s), max(d) FROM big GROUP BY {key}, s",
    "SELECT k % {n} g, {key}, count(*), sum(v), avg(v) FROM big GROUP BY ROLLUP(k % {n}, {key})",
    "SELECT k, row_number() OVER (PARTITION BY {key} ORDER BY s, k), sum(v) OVER (PARTITION BY {key} ORDER BY k ROWS BETWEEN 3 PRECEDING AND 1 FOLLOWING) FROM big",
    "SELECT a.k, b.s FROM big a {join} JOIN big b ON a.k = b.k + {n} AND a.v <> b.v",
    "SELECT a.k, a.s FROM big a LEFT {semi} JOIN big b ON a.s = b.s AND a.k <> b.k",
    "SELECT k, s FROM big WHERE k {word} (SELECT v FROM big WHERE s > '{n}')",
    "SELECT s FROM big WHERE k < 20000 {set} SELECT s FROM big WHERE k > {n}",
    "SELECT a.{key}, count(*) FROM big a JOIN big b ON a.k = b.v GROUP BY a.{key} ORDER BY 2 DESC, 1 LIMIT 50",
    "SELECT {key}, count(DISTINCT s), sum(DISTINCT v), group_concat(DISTINCT k % 7 ORDER BY k % 7) FROM big GROUP BY {key}",
    "SELECT s, max(k), min_by(v, k), array_sort(array_agg(k)) FROM big GROUP BY s",
    "SELECT k, rank() OVER (ORDER BY {key}), lag(s, {n}) OVER (ORDER BY k), max(s) OVER (PARTITION BY d) FROM big",
    "SELECT d, count(*), max(s) FROM (SELECT DISTINCT d, s, v % {n} FROM big) x GROUP BY d ORDER BY d",
    "SELECT k, s FROM big {set} SELECT v, s FROM big",
    "SELECT k, s FROM (SELECT k, s, row_number() OVER (PARTITION BY d ORDER BY s DESC, k) n FROM big) x WHERE n <= 3",
    "SELECT x.{key}, y.s FROM (SELECT {key}, max(k) m FROM big GROUP BY {key}) x {join} JOIN big y ON x.m = y.k",
    # Joins without equality, neither of whose sides fits.
    "SELECT a.k, a.s, b.k FROM (SELECT k, v, repeat(s, 40) s FROM big WHERE k % 15 = 0) a {join} JOIN (SELECT k, v, repeat(s, 40) s FROM big WHERE k % 15 = 1) b ON a.v >= b.k AND a.v < b.k + 4 AND a.s <> b.s",
    "SELECT {shown}.k, {shown}.s FROM (SELECT k, v, repeat(s, 40) s FROM big WHERE k % 15 = 0) a {side} {semi} JOIN (SELECT k, v, repeat(s, 40) s FROM big WHERE k % 15 = 1) b ON a.v >= b.k AND a.v < b.k + 4 AND a.s <> b.s",
]


def check(client, seed):
    """Pairs by check, and findings as (signature, seed, script)."""
    r = random.Random(seed)
    database = f"spill_{seed}"
    client.run(f"DROP DATABASE IF EXISTS {database} FORCE", f"CREATE DATABASE {database}")
    steps = [
        f"CREATE TABLE {database}.big (k INT, v BIGINT, s VARCHAR(200), d DATE) DUPLICATE KEY(k) DISTRIBUTED BY HASH(k) BUCKETS {r.choice([1, 2, 4])}",
        f"INSERT INTO {database}.big SELECT number, if(number % 11 = 0, NULL, number * {r.randint(3, 99)} % {r.choice([50, 5_000, 60_000])}), "
        f"concat(number * {r.randint(3, 99)} % {r.choice([20_000, 29_000])}, repeat('s', number % 90)), "
        f"date_add('2024-01-01', INTERVAL number % 900 DAY) FROM numbers('number' = '{ROWS}')",
    ]
    client.run(*steps)
    little, enough = Connection(client.mysql, "spill"), client.session("2 workers")
    pairs, findings = collections.Counter(), []
    for session in (little, enough):
        session.use(database)
    for _ in range(12):
        words = {
            "key": r.choice(["v", "d", "s", "k"]), "n": r.randint(1, 9_000), "join": r.choice(["", "LEFT", "RIGHT", "FULL"]),
            "semi": r.choice(["SEMI", "ANTI"]), "side": (side := r.choice(["LEFT", "RIGHT"])), "shown": "a" if side == "LEFT" else "b", "word": r.choice(["IN", "NOT IN"]), "set": r.choice(["UNION", "INTERSECT", "EXCEPT"]),
        }  # fmt: skip
        query = r.choice(SHAPES).format(**words)
        setting = f"SET parallel_pipeline_task_num = {r.choice([1, 1, 2, 8])}, enable_radix_aggregation = {r.choice(['true', 'false'])}"
        little.query(setting)
        try:
            found = little.query(query)
        except Refused as error:
            # An operator that cannot spill says so, and a join without `=` that keeps rows of the side that it would read again.
            if not any(words in error.message for words in ("bytes for each statement", "the smaller side of a join without '='")):
                findings.append((f"spill/error/{error.code}", seed, "\n".join([*steps, query, f"-- {LITTLE_MEMORY} bytes: {error}"])))
            pairs["unfit"] += 1
            continue
        # The statement's own order, and not one in the parentheses of an aggregate, a window or a derived table.
        expected, ordered = enough.query(query), re.search(r"ORDER BY [^)]*$", query) is not None
        pairs["little memory"] += 1
        if (found.rows != expected.rows if ordered else sorted(found.rows) != sorted(expected.rows)) and (what := difference(found.values(), expected.values(), ordered)):
            findings.append(("spill/rows", seed, "\n".join([*steps, f"-- as a user with exec_mem_limit = {LITTLE_MEMORY}", setting, query, f"-- {what}"])))
    little.close()
    client.run(f"DROP DATABASE {database} FORCE")
    return pairs, findings
