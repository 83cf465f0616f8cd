"""Look-ups with conditions and expressions by few plans, which are used again for other keys, against the plan without them."""

import random

from wire import Refused

EXPRESSIONS = [
    "v + 1", "concat(s, 'x')", "e * 2", "cast(s as date)", "if(v > 10, e, f)", "coalesce(v, e)", "upper(s)", "f / v",
    "d + interval 1 day", "v % 3", "case when v is null then s else 'n' end", "e = f", "year(s)", "length(s)",
]  # fmt: skip
CONDITIONS = [
    "v > 3", "v is null", "s like '2024%'", "e between 10 and 200", "v in (1, 4, null, 10)", "cast(s as date) > '2024-01-03'",
    "f < v", "not (v > 20)", "v <> e or f > 2",
]  # fmt: skip


def asked(session, query):
    """The rows, in no order; the code of an error."""
    try:
        return sorted(session.query(query).rows)
    except Refused as error:
        return error.code


def check(client, seed, count=1_500):
    """How many pairs were compared, and the differences."""
    chance = random.Random(seed)
    short, planned = client.session("2 workers"), client.session("no look-ups")
    client.run("DROP DATABASE IF EXISTS look_ups FORCE", "CREATE DATABASE look_ups")
    for session in (short, planned):
        session.use("look_ups")
    short.query(
        "CREATE TABLE t (k INT, v INT, s VARCHAR(20), e DECIMAL(10, 2), f DOUBLE, d DATE) UNIQUE KEY(k) "
        "DISTRIBUTED BY HASH(k) BUCKETS 2 PROPERTIES ('store_row_column' = 'true')")
    short.query(
        "INSERT INTO t SELECT number, if(number % 7 = 0, null, number * 3 - 50), "
        "if(number % 5 = 0, '2024-02-30', concat('2024-01-0', number % 9 + 1)), number * 1.25, number / 7, '2024-01-05' "
        "FROM numbers('number' = '200')")
    # Few of them, so that plans are used again.
    queries = [(", ".join(chance.sample(EXPRESSIONS, 2)), chance.choice(CONDITIONS)) for _ in range(60)]
    different = []
    for _ in range(count):
        (items, condition), k = chance.choice(queries), chance.randrange(-3, 210)
        keys = f"k = {k}" if chance.random() < 0.7 else f"k IN ({k}, {k + 1}, {k + 7})"
        query = f"SELECT k, {items} FROM t WHERE {keys} AND {condition}"
        found, expected = asked(short, query), asked(planned, query)
        if found != expected:
            different.append("look-up")
            print(f"seed {seed}: {query}\n  look-up {found}\n  planned {expected}")
    return count, different
