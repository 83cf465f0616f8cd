"""Look-ups with conditions and expressions: the short path, whose plans are used again, against the plan without it."""

import random

import pymysql

EXPRESSIONS = [
    "v + 1", "concat(s, 'x')", "e * 2", "cast(s as date)", "if(v > 10, e, f)", "coalesce(v, e)", "upper(s)", "f / v",
    "d + interval 1 day", "v % 3", "case when v is null then s else 'n' end", "e = f", "year(s)", "length(s)",
]  # fmt: skip
CONDITIONS = [
    "v > 3", "v is null", "s like '2024%'", "e between 10 and 200", "v in (1, 4, null, 10)", "cast(s as date) > '2024-01-03'",
    "f < v", "not (v > 20)", "v <> e or f > 2",
]  # fmt: skip


def asked(cursor, query):
    """The rows, in no order; the code of an error."""
    try:
        cursor.execute(query)
        return sorted(map(repr, cursor.fetchall()))
    except pymysql.Error as error:
        return error.args[0]


def check(server, seed, count=1_500):
    """Number of differences."""
    chance = random.Random(seed)
    short, planned = (server.connect().cursor() for _ in range(2))
    short.execute("CREATE DATABASE look_ups")
    for cursor in (short, planned):
        cursor.execute("USE look_ups")
    planned.execute("SET enable_short_circuit_query = false")
    short.execute(
        "CREATE TABLE t (k INT, v INT, s VARCHAR(20), e DECIMAL(10, 2), f DOUBLE, d DATE) UNIQUE KEY(k) "
        "DISTRIBUTED BY HASH(k) BUCKETS 2 PROPERTIES ('store_row_column' = 'true')")
    short.execute(
        "INSERT INTO t SELECT number, if(number % 7 = 0, null, number * 3 - 50), "
        "if(number % 5 = 0, '2024-02-30', concat('2024-01-0', number % 9 + 1)), number * 1.25, number / 7, '2024-01-05' "
        "FROM numbers('number' = '200')")
    # Few of them, so that plans are used again.
    queries = [(", ".join(chance.sample(EXPRESSIONS, 2)), chance.choice(CONDITIONS)) for _ in range(60)]
    differences = 0
    for _ in range(count):
        (items, condition), k = chance.choice(queries), chance.randrange(-3, 210)
        keys = f"k = {k}" if chance.random() < 0.7 else f"k IN ({k}, {k + 1}, {k + 7})"
        query = f"SELECT k, {items} FROM t WHERE {keys} AND {condition}"
        found, expected = asked(short, query), asked(planned, query)
        if found != expected:
            differences += 1
            print(f"seed {seed}: {query}\n  look-up {found}\n  planned {expected}")
    print(f"look-ups: {count} with conditions and expressions, {differences} differences")
    return differences
