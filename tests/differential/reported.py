"""Wrong answers that were reported of DataFusion since version 54 (and older ones that are open), each tried here.

`run.py` runs them by 1, 2 and 8 workers before anything else; README.md lists what came of them.
"""

from answers import difference
from wire import Refused


def table(name, columns, rows):
    """The statements that make a table with rows."""
    key = columns.split()[0]
    ddl = f"CREATE TABLE {name} ({columns}) DUPLICATE KEY({key}) DISTRIBUTED BY HASH({key}) BUCKETS 1"
    return [ddl, f"INSERT INTO {name} VALUES {rows}"]


def numbers(form, count, first=0):
    return ", ".join(form.format(i, i % 5, i % 3, i // 40) for i in range(first, first + count))


# Issue, tables, statement, right rows; the issue's words are in README.md.
CASES = [
    (
        "24184",
        table("t", "k INT, v INT", "(0,100), (10,90), (30,10), (40,20)"),
        "SELECT k, sum(v) OVER w, count(v) OVER w, min(v) OVER w, max(v) OVER w FROM t WINDOW w AS (ORDER BY k RANGE BETWEEN 10 PRECEDING AND 5 PRECEDING) ORDER BY k",
        [(0, None, 0, None, None), (10, 100, 1, 100, 100), (30, None, 0, None, None), (40, 10, 1, 10, 10)],
    ),
    (
        "21299",
        table("t", "k INT, x DOUBLE", "(1,1), (2,1), (3,2), (4,5)"),
        "SELECT x, median(x) OVER (ORDER BY x RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) FROM t ORDER BY x",
        [(1.0, 1.0), (1.0, 1.0), (2.0, 1.0), (5.0, 5.0)],
    ),
    (
        "24246",
        table("t", "k INT, a DOUBLE, i INT", "(1,NULL,NULL)"),
        "SELECT power(a, 0.0), i ^ i, i IN (1) AND i IN (2), i NOT IN (1) OR i NOT IN (2), array_contains(array(i, 1), 2) FROM t",
        [(None, None, None, None, 0)],
    ),
    (
        "22441",
        table("t1", "a INT, b INT", "(1,10), (2,20), (3,30), (NULL,40)") + table("t2", "x INT, y INT", "(1,100), (2,200), (NULL,300)"),
        "SELECT t1.b FROM t1 LEFT JOIN t2 ON t1.a = t2.x WHERE NOT ((t2.y > 150) IS TRUE) ORDER BY 1",
        [(10,), (30,), (40,)],
    ),
    (
        "24002",
        table("t1", "a INT, b INT", "(1,10), (2,20), (3,30)") + table("t2", "a INT, b INT", "(1,10), (2,5)"),
        "SELECT * FROM (SELECT t1.a, t1.b FROM t1 LEFT ANTI JOIN t2 ON t1.a = t2.a) x WHERE a > 0 ORDER BY 1",
        [(3, 30)],
    ),
    (
        "24414",
        table("t1", "c1 INT, c2 INT, c3 INT", "(100,1,0)") + table("t2", "c1 INT, c2 INT", "(10,1)"),
        "SELECT t1.c2, t2.c2 FROM t1 JOIN t2 ON t1.c2 = t2.c2 AND t1.c1 > t2.c1",
        [(1, 1)],
    ),
    (
        "24927",
        table("t", "k INT, v INT", numbers("({0}, {1})", 200)),
        "SELECT DISTINCT v FROM (SELECT v FROM t ORDER BY v) x ORDER BY v LIMIT 3",
        [(0,), (1,), (2,)],
    ),
    (
        "23822",
        table("t", "k INT, v INT", numbers("({3}, {1})", 200)),
        "SELECT DISTINCT k FROM t ORDER BY k LIMIT 4",
        [(0,), (1,), (2,), (3,)],
    ),
    (
        "25071",
        table("prices", "amount INT", "(1000)"),
        "SELECT prices.amount FROM (SELECT amount + 100 AS amount FROM prices) AS prices WHERE amount > 0 UNION SELECT prices.amount FROM (SELECT amount + 200 AS amount FROM prices) AS prices WHERE amount > 1 ORDER BY 1",
        [(1100,), (1200,)],
    ),
    (
        "25519",
        table("o", "k INT", "(1), (2), (NULL), (4), (5)") + table("i", "k INT", "(1), (NULL), (5), (2)"),
        "SELECT o.k FROM o WHERE EXISTS (SELECT 1 FROM i WHERE i.k = o.k GROUP BY ROLLUP(i.k)) ORDER BY 1",
        [(None,), (1,), (2,), (4,), (5,)],
    ),
    (
        "25519",
        table("o", "k INT", "(1), (2), (NULL), (4), (5)") + table("i", "k INT", "(1), (NULL), (5), (2)"),
        "SELECT o.k FROM o WHERE o.k IN (SELECT i.k FROM i WHERE i.k = o.k GROUP BY ROLLUP(i.k)) ORDER BY 1",
        [(1,), (2,), (5,)],
    ),
    (
        "25336",
        table("t1", "id INT, z INT", "(1,10), (2,20), (NULL,30), (4,40)") + table("t2", "id INT, z INT", "(1,5), (NULL,50)"),
        "SELECT id FROM t1 WHERE id NOT IN (SELECT t2.id FROM t2 WHERE t2.z < t1.z) ORDER BY id",
        [(2,), (4,)],
    ),
    (
        "25336",
        table("t1", "id INT, z INT", "(1,10), (2,20), (NULL,30), (4,40)") + table("t2", "id INT, z INT", "(1,5), (NULL,50)"),
        "SELECT id FROM t1 WHERE NOT (id IN (SELECT t2.id FROM t2 WHERE t2.z < t1.z)) OR id = 4 ORDER BY id",
        [(2,), (4,)],
    ),
    (
        "25347",
        table("o", "id INT, g INT", "(1,1), (2,2)") + table("i", "id INT, g INT", "(1,1), (NULL,2)"),
        "SELECT id FROM o WHERE 3 NOT IN (SELECT id FROM i WHERE i.g = o.g) ORDER BY id",
        [(1,)],
    ),
    (
        "23410",
        table("t", "id INT, a INT", "(1,1), (2,2)") + table("u", "k INT", "(NULL)"),
        "SELECT id FROM t WHERE a <> 1 AND a NOT IN (SELECT k FROM u)",
        [],
    ),
    (
        "23103",
        table("o", "id INT", "(1), (2), (3)") + table("i", "e INT", "(2), (NULL)"),
        "SELECT id FROM o WHERE id NOT IN (SELECT e FROM i)",
        [],
    ),
    (
        "23126",
        table("o", "id INT", "(5), (NULL)") + table("i", "e INT", "(2), (3)"),
        "SELECT id FROM o WHERE id NOT IN (SELECT e FROM i)",
        [(5,)],
    ),
    (
        "22964",
        table("a", "k INT, v INT", "(1,1), (NULL,2)") + table("b", "k INT, w INT", "(1,7), (NULL,8), (3,9)"),
        "SELECT a.v, b.w FROM a JOIN b ON a.k <=> b.k ORDER BY 1",
        [(1, 7), (2, 8)],
    ),
    (
        "22964",
        table("a", "k INT", "(1), (NULL)") + table("b", "k INT", "(1), (NULL), (3)"),
        "SELECT k FROM a INTERSECT SELECT k FROM b ORDER BY 1",
        [(None,), (1,)],
    ),
    (
        "23626",
        table("u", "k INT, v INT", "(1,5), (2,6)") + table("x", "a INT, b INT", "(1,7), (1,8)"),
        "SELECT DISTINCT q.k FROM (SELECT k FROM u GROUP BY k) q JOIN x ON q.k = x.a",
        [(1,)],
    ),
    (
        "21361",
        table("h", "k INT, v INT", "(1,5), (1,6), (2,7)"),
        "SELECT q.k, h.v FROM (SELECT DISTINCT k FROM h) q JOIN h ON q.k = h.k GROUP BY q.k, h.v ORDER BY q.k, h.v DESC LIMIT 1",
        [(1, 6)],
    ),
    (
        "21316",
        table("t", "a INT, b INT", "(1,2)"),
        "SELECT a, count(*) FROM t GROUP BY GROUPING SETS ((a), (a))",
        [(1, 1), (1, 1)],
    ),
    (
        "19849",
        table("t", "a INT, b INT", numbers("({0}, {2})", 100)),
        "SELECT a % 2, b, count(*) FROM t GROUP BY ROLLUP(a % 2, b) HAVING count(*) > 40 ORDER BY 1, 2",
        [(None, None, 100), (0, None, 50), (1, None, 50)],
    ),
    (
        "22049",
        table("t", "k INT", "(1), (2), (3)"),
        "SELECT k, ntile(5) OVER (ORDER BY k) FROM t ORDER BY 1",
        [(1, 1), (2, 2), (3, 3)],
    ),
    (
        "22049",
        table("t", "k INT", "(1), (2), (3), (4), (5), (6), (7), (8), (9), (10), (11)"),
        "SELECT k, ntile(4) OVER (ORDER BY k) FROM t ORDER BY 1",
        [(1, 1), (2, 1), (3, 1), (4, 2), (5, 2), (6, 2), (7, 3), (8, 3), (9, 3), (10, 4), (11, 4)],
    ),
    (
        "24587",
        table("a", "k VARCHAR(10)", "('x'), (NULL)") + table("b", "k VARCHAR(10)", "('x'), (NULL), ('z')"),
        "SELECT a.k, b.k FROM a JOIN b ON a.k <=> b.k ORDER BY 1",
        [(None, None), ('x', 'x')],
    ),
    (
        "21205",
        table("o", "a INT", "(1), (2)") + table("i", "a INT, b INT", "(1,1), (1,2), (3,3)"),
        "SELECT o.a FROM o WHERE o.a IN (SELECT i.b FROM i WHERE i.b > o.a) ORDER BY 1",
        [],
    ),
    (
        "20315",
        table("o", "a INT, c INT", "(1,7), (2,8)") + table("i", "a INT", "(1)"),
        "SELECT o.a, o.c, (SELECT count(*) c FROM i WHERE i.a = o.a) FROM o ORDER BY 1",
        [(1, 7, 1), (2, 8, 0)],
    ),
    (
        "24960",
        table("a", "k INT", "(1), (2)") + table("b", "k INT, v INT", "(1,1)"),
        "SELECT k FROM a WHERE EXISTS (SELECT count(*) FROM b WHERE b.v = a.k) ORDER BY 1",
        [(1,), (2,)],
    ),
    (
        "25283",
        table("a", "k INT", "(1), (2)") + table("b", "k INT, v INT", "(1,1)"),
        "SELECT k FROM a WHERE 0 IN (SELECT count(*) FROM b WHERE b.v = a.k) ORDER BY 1",
        [(2,)],
    ),
    (
        "25507",
        table("o", "k INT", "(1), (2)") + table("a", "k INT", "(1), (2)") + table("b", "k INT, v INT", "(1,1), (2,9)"),
        "SELECT o.k, (SELECT count(*) FROM a LEFT JOIN (SELECT * FROM b WHERE b.v = o.k) q ON a.k = q.k) FROM o ORDER BY 1",
        [(1, 2), (2, 2)],
    ),
    (
        "22810",
        table("t1", "x INT", "(1)") + table("t2", "y INT", "(NULL)"),
        "SELECT x FROM t1 WHERE x NOT IN (SELECT y FROM t2)",
        [],
    ),
    (
        "17188",
        table("t1", "k INT", numbers("({0})", 299, 1)) + table("t2", "k INT, v INT", numbers("({0}, {0})", 299, 1)),
        "SELECT t1.k FROM t1 JOIN t2 ON t1.k = t2.k WHERE v = 1 OR v = 299 ORDER BY 1",
        [(1,), (299,)],
    ),
    (
        "23095",
        table("t", "k INT, d DECIMAL(20,4)", "(1,1.2345), (2,1.2399), (3,1.25)"),
        "SELECT k FROM t WHERE CAST(d AS DECIMAL(20,2)) = CAST(1.23 AS DECIMAL(20,2))",
        [(1,)],
    ),
    (
        "14303",
        table("t", "k INT", "(1000000), (5)"),
        "SELECT k, CAST(k AS SMALLINT) > 1 FROM t ORDER BY k",
        [(5, 1), (1000000, None)],
    ),
    (
        "14303",
        table("t", "k INT", "(1000000), (5)"),
        "SELECT k FROM t WHERE CAST(k AS SMALLINT) > 1",
        [(5,)],
    ),
    (
        "22142",
        table("t", "k INT, d DATETIME(6)", "(1,'2024-01-01 00:00:00.400000'), (2,'2024-01-01 00:00:00.600000')"),
        "SELECT k FROM t WHERE CAST(d AS DATETIME(0)) = '2024-01-01 00:00:00'",
        [(1,)],
    ),
    (
        "25477",
        table("t", "k INT", numbers("({0})", 500)),
        "SELECT count(*) FROM (SELECT coalesce(if(rand() < 0.5, NULL, 1), NULL) v, k FROM t) x WHERE v <> 1",
        [(0,)],
    ),
    (
        "25457",
        table("t", "k INT", numbers("({0})", 2000)),
        "SELECT count(*) BETWEEN 300 AND 700 FROM t WHERE rand() BETWEEN 0.25 AND 0.5",
        [(1,)],
    ),
    (
        "14335",
        table("t1", "a INT", "(1), (2), (3), (4), (5)") + table("t2", "b INT", "(5), (4), (3), (2), (1)"),
        "SELECT count(a), count(b) FROM (SELECT * FROM t1 FULL JOIN t2 ON a = b LIMIT 2) x",
        [(2, 2)],
    ),
    (
        "22726",
        table("t", "k INT, s VARCHAR(10)", "(1,'foo'), (2,'Bazzz'), (3,'foobar')"),
        "SELECT k FROM t WHERE s REGEXP '^Bazzz$' OR s REGEXP '^foo$' ORDER BY k",
        [(1,), (2,)],
    ),
    ("19076", table("t", "k INT, s VARCHAR(10)", "(1,'foobar'), (2,'foo_bar')"), "SELECT k FROM t WHERE starts_with(s, 'foo_')", [(2,)]),
    (
        "18334",
        table("t", "k INT, d DATETIME", "(1,'1900-06-15 07:09:00')"),
        "SELECT date_trunc(d, 'hour'), date_trunc('1900-06-15 07:09:00', 'hour') FROM t",
        [("1900-06-15 07:00:00", "1900-06-15 07:00:00")],
    ),
    (
        "22317",
        table("t1", "id INT", "(1), (2), (3)") + table("t2", "id INT, o INT, s VARCHAR(9)", "(10,1,'x'), (20,2,NULL)"),
        "SELECT id, (SELECT approx_count_distinct(t2.id) FROM t2 WHERE t2.o = t1.id), (SELECT ndv(t2.s) FROM t2 WHERE t2.o = t1.id), (SELECT count(DISTINCT t2.id) FROM t2 WHERE t2.o = t1.id) FROM t1 ORDER BY id",
        [(1, 1, 1, 1), (2, 1, 0, 1), (3, 0, 0, 0)],
    ),
    (
        "15032",
        table("t", "a INT, b INT", "(1,2), (NULL,0)"),
        "SELECT e.b, (SELECT CASE WHEN max(f.a) > 10 THEN 'a' ELSE 'b' END FROM t f WHERE f.b = e.b + 1) FROM t e ORDER BY 1",
        [(0, "b"), (2, "b")],
    ),
    (
        "16965",
        [],
        "SELECT id FROM (SELECT 'id' AS id UNION ALL SELECT 'id' AS id ORDER BY id) x GROUP BY GROUPING SETS ((id), ())",
        [("id",), (None,)],
    ),
    (
        "12570",
        table("t", "v INT", "(1), (NULL)"),
        "SELECT v, min(v), count(*) FROM t GROUP BY CUBE(v) ORDER BY 1, 2, 3",
        [(None, None, 1), (None, 1, 2), (1, 1, 1)],
    ),
    (
        "14343",
        table("t", "c INT", "(1), (0), (-1), (NULL)"),
        "SELECT c, CASE WHEN c > 0 THEN true END, CASE WHEN c > 0 THEN true ELSE false END, CASE WHEN c > 0 THEN false WHEN c IS NULL THEN true END FROM t ORDER BY c",
        [(None, None, 0, 1), (-1, None, 0, None), (0, None, 0, None), (1, 1, 1, 0)],
    ),
    ("17681", table("t", "k INT", "(1), (2), (NULL)"), "SELECT k, k IN (1, NULL), NOT (k IN (1, NULL)), k IN (NULL) FROM t ORDER BY k", [(None, None, None, None), (1, 1, 0, None), (2, None, None, None)]),
    (
        "22489",
        table("t0", "id INT", "(0), (1)") + table("t1", "id INT, j INT", "(1,1)"),
        "SELECT * FROM (SELECT t0.id, count(t1.j) c FROM t0 LEFT JOIN t1 ON t0.id = t1.id GROUP BY t0.id ORDER BY c, t0.id LIMIT 2) q ORDER BY id LIMIT 5 OFFSET 1",
        [(1, 1)],
    ),
    (
        "22190, 23440",
        table("t", "k INT, g VARCHAR(5), x DOUBLE", "(1,'a',NULL), (2,'b',1), (3,'b',NULL), (4,'c',7), (5,'d',NULL)"),
        "SELECT g, max(x) m FROM t GROUP BY g ORDER BY m, g LIMIT 3",
        [("a", None), ("d", None), ("b", 1.0)],
    ),
    (
        "22190, 23440",
        table("t", "k INT, g VARCHAR(5), x DOUBLE", "(1,'a',NULL)"),
        "SELECT m FROM (SELECT g, min(x) m FROM t GROUP BY g) q ORDER BY m DESC LIMIT 3",
        [(None,)],
    ),
    ("22554", table("t", "v VARCHAR(5)", "('a'), (NULL), ('b'), (NULL)"), "SELECT DISTINCT v FROM t ORDER BY v LIMIT 2", [(None,), ("a",)]),
    ("22490", table("t", "k INT, y DOUBLE", "(1,0.0)"), "SELECT (y * -1) >= 0, (y * -1) < y, y * -1 <=> y, NOT ((y * -1 >= 0) IS TRUE) FROM t", [(1, 0, 1, 0)]),
    (
        "22826",
        table("t", "k INT, y DOUBLE", "(1,0.0), (2,CAST('-0' AS DOUBLE)), (3,0.0)"),
        "SELECT (SELECT count(*) FROM (SELECT y FROM t UNION SELECT -y FROM t) q), count(DISTINCT y), (SELECT count(*) FROM (SELECT y FROM t GROUP BY y) q) FROM t",
        [(1, 1, 1)],
    ),
    (
        "22826",
        table("t", "k INT, y DOUBLE, v INT", "(1,0.0,3), (2,CAST('-0' AS DOUBLE),4), (3,0.0,1), (4,CAST('-0' AS DOUBLE),2)"),
        "SELECT k, rank() OVER (ORDER BY y) FROM t ORDER BY y, v",
        [(3, 1), (4, 1), (1, 1), (2, 1)],
    ),
    (
        "22791",
        table("t1", "v BIGINT", "(4), (72), (41), (98), (91)") + table("t2", "s VARCHAR(20), w BIGINT", "('aaaaaaaaaaaaaaaa',1), ('bbbbbbbbbbbbbbbb',2), ('cccccccccccccccc',3)"),
        "SELECT count(*) FROM t1 LEFT JOIN t2 ON (t1.v < t2.w AND t2.s <= 'A')",
        [(5,)],
    ),
    (
        "24335, 24348",
        table("l", "v INT", "(5), (NULL)") + table("r", "v INT", "(10), (NULL)"),
        "SELECT l.v, r.v FROM l FULL JOIN r ON l.v < r.v ORDER BY 1, 2",
        [(None, None), (None, None), (5, 10)],
    ),
    (
        "23048",
        table("l", "k INT, v INT", numbers("({1}, {0})", 200)) + table("r", "k INT, v INT", numbers("({1}, {0})", 60)),
        "SELECT count(*) FROM l LEFT SEMI JOIN r ON l.k = r.k AND l.v > r.v + 50",
        [(145,)],
    ),
    (
        "22796",
        table("t", "k INT, s VARCHAR(40)", "(1,'a'), (2,'a'), (3,'a text of more than twelve bytes'), (4,'a text of more than twelve bytes'), (5,'b')"),
        "SELECT approx_count_distinct(s) FROM t",
        [(3,)],
    ),
    (
        "23077",
        table("a", "k INT, v INT", numbers("({0}, {1})", 400)) + table("b", "w INT, j INT, k INT", "(7,8,390), (9,10,3)"),
        "SELECT a.k, a.v, b.j FROM a JOIN b ON a.k = b.k WHERE b.w > 1 ORDER BY 1",
        [(3, 3, 10), (390, 0, 8)],
    ),
    (
        "12423",
        table("t", "a INT, b INT", "(1,0), (2,1), (3,2), (4,3), (5,3)"),
        "SELECT b, sum(a) FROM t GROUP BY b ORDER BY b DESC LIMIT 2 OFFSET 1",
        [(2, 3), (1, 2)],
    ),
    (
        "20048",
        table("t", "k INT", numbers("({0})", 30)),
        "SELECT (SELECT count(*) FROM (SELECT k FROM t ORDER BY k LIMIT 10 OFFSET 25) q), (SELECT count(*) FROM (SELECT * FROM (SELECT k FROM t LIMIT 20) q LIMIT 100 OFFSET 5) r), (SELECT count(*) FROM (SELECT k FROM t LIMIT 5) x CROSS JOIN (SELECT k FROM t LIMIT 7) y)",
        [(5, 15, 35)],
    ),
    (
        "14406, 14204",
        table("t", "k INT", numbers("({0})", 30)),
        "WITH one AS (SELECT * FROM t LIMIT 1), two AS (SELECT * FROM t LIMIT 2) SELECT count(*) FROM (SELECT 1 FROM one CROSS JOIN two ORDER BY two.k LIMIT 1000) q",
        [(2,)],
    ),
    (
        "20244",
        table("t", "a INT, b INT", "(1,2), (2,1), (3,2), (4,1), (5,2)"),
        "SELECT b, group_concat(a ORDER BY a DESC), array_agg(a ORDER BY a) FROM (SELECT * FROM t ORDER BY b, a LIMIT 100) q GROUP BY b ORDER BY b",
        [(1, "4,2", "[2, 4]"), (2, "5,3,1", "[1, 3, 5]")],
    ),
    (
        "16308",
        table("t", "k INT", numbers("({0})", 30)),
        "SELECT count(*) OVER () FROM t WHERE k < 3",
        [(3,), (3,), (3,)],
    ),
    (
        "8190, 4887",
        table("a", "a INT", "(1), (2), (3), (-4)") + table("b", "b INT", "(1), (-4)") + table("c", "c INT", "(3), (-4)"),
        "SELECT a FROM a WHERE a IN (SELECT b FROM b) AND a > 0 OR a IN (SELECT c FROM c) ORDER BY 1",
        [(-4,), (1,), (3,)],
    ),
    (
        "9586",
        table("t", "g INT, h VARCHAR(5), p VARCHAR(5)", "(1,'a','x'), (1,'b','x'), (1,'c','y'), (1,'d','z'), (2,'a','x')"),
        "SELECT g, count(DISTINCT h), count(DISTINCT p) FROM t GROUP BY g ORDER BY g",
        [(1, 4, 3), (2, 1, 1)],
    ),
    (
        "24109",
        table("t", "k INT, s STRUCT<x:INT,y:STRING>", "(1, named_struct('x',100,'y','a')), (2, named_struct('x',200,'y','b')), (3, NULL)"),
        "SELECT k FROM t WHERE s.x = 200",
        [(2,)],
    ),
    (
        "25052",
        table("l", "k INT, v INT", "(1,10), (1,20), (2,30)") + table("r", "k INT, v INT", "(1,100), (1,200), (2,50)"),
        "SELECT a.k, b.v FROM (SELECT k FROM l ORDER BY k LIMIT 9) a JOIN (SELECT k, v FROM r ORDER BY v LIMIT 9) b ON a.k = b.k ORDER BY a.k, b.v",
        [(1, 100), (1, 100), (1, 200), (1, 200), (2, 50)],
    ),
    (
        "24379",
        table("t", "k INT, s VARCHAR(5)", "(1,NULL), (2,'x'), (3,'')"),
        "SELECT k, s REGEXP '.*', s NOT REGEXP '.*', NOT (s REGEXP '.*'), s LIKE '%', s NOT LIKE '%' FROM t ORDER BY k",
        [(1, None, None, None, None, None), (2, 1, 0, 0, 1, 0), (3, 1, 0, 0, 1, 0)],
    ),
]


def check(client):
    """How many pairs were compared, and findings as (signature, seed, script)."""
    findings, count = [], 0
    for issue, statements, query, right in CASES:
        client.run("DROP DATABASE IF EXISTS reported FORCE", "CREATE DATABASE reported")
        for name in ("1 worker", "2 workers", "8 workers"):
            session = client.session(name)
            session.database = None
            session.use("reported")
            if name == "1 worker":
                for statement in statements:
                    session.query(statement)
            count += 1
            try:
                what = difference(session.query(query).values(), right, "ORDER BY" in query.rsplit(")", 1)[-1])
            except Refused as error:
                what = f"error {error}"
            if what:
                findings.append((f"reported/{issue}", 0, "\n".join([*(f"{s};" for s in statements), f"{query};", f"-- {name}, datafusion#{issue}: {what}"])))
    client.run("DROP DATABASE IF EXISTS reported FORCE")
    return count, findings
