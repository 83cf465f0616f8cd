"""The mariadb command-line client."""

import subprocess

from checks import HOST, NAMES, PORT, TLS, TYPES_SQL, check, done, equal

TEXTS = (
    "1 -2 3 4 170141183460469231731687303715884105727 1 1.5 -2.25 1.25 2020-01-31 "
    "2020-01-31_01:02:03 2020-01-31_01:02:03.500000 ä漢😀 [1,_2] NULL"
)
TEXTS = [text.replace("_", " ") for text in TEXTS.split(" ")]


def mariadb(*options, sql=None):
    command = ["mariadb", "--no-defaults", "-h", HOST, "-P", str(PORT), "--protocol=tcp", "-u", "root"]
    command += ["--default-character-set=utf8mb4", *options]
    return subprocess.run(command, input=sql, capture_output=True, encoding="utf-8", timeout=60, check=False)


def rows(*options, sql):
    result = mariadb("-N", "-B", *options, sql=sql)
    equal((result.returncode, result.stderr), (0, ""))
    return [line.split("\t") for line in result.stdout.splitlines()]


@check("types")
def types():
    result = mariadb("-B", sql=TYPES_SQL)
    equal(result.stderr, "")
    equal([line.split("\t") for line in result.stdout.splitlines()], [NAMES, TEXTS])


@check("table output")
def table():
    result = mariadb("-t", sql="select 1")
    lines = result.stdout.splitlines()
    equal([line.strip("+-") == "" for line in lines], [True, False, True, False, True])
    equal([lines[1].split(), lines[3].split()], [["|", "1", "|"]] * 2)


@check("dump and restore")
def dump():
    rows(sql="drop database if exists dumped; drop database if exists restored; create database dumped; create database restored;"
             "create table dumped.t (k int, s string) unique key (k) distributed by hash (k) buckets 2;"
             "create view dumped.v as select k from dumped.t; insert into dumped.t values (1, 'a\\'b'), (2, null);")
    # With savepoints, and with the query for tablespaces whose GROUP BY lacks a column.
    command = ["mariadb-dump", "--no-defaults", "-h", HOST, "-P", str(PORT), "--protocol=tcp", "-u", "root"]
    for options in (["--single-transaction"], ["--no-data"]):
        done = subprocess.run([*command, *options, "dumped"], capture_output=True, encoding="utf-8", timeout=60, check=False)
        equal((done.returncode, done.stderr), (0, ""))
        rows("restored", sql=done.stdout)
        count = rows(sql="select count(*) from restored.t")
        equal(count, [["2"]] if "--no-data" not in options else [["0"]])
        if "--no-data" not in options:
            equal(rows(sql="select * from restored.t order by k"), [["1", "a'b"], ["2", "NULL"]])
    rows(sql="drop database dumped; drop database restored")


@check("several statements")
def several():
    equal(rows(sql="select 1; select 2;\nselect 3;"), [["1"], ["2"], ["3"]])
    equal(rows(sql="delimiter //\nselect 1; select 2//\n"), [["1"], ["2"]])


@check("comments")
def comments():
    # The client sends a comment on a line of its own, and one with a delimiter, as statements.
    script = "--  the article's comment\nselect 1;\n# another\n/* a third */;\nselect 2;\n"
    equal(rows("--comments", sql=script), [["1"], ["2"]])


@check("error")
def error():
    result = mariadb("-f", "-N", sql="select * from information_schema.no_such_table;\nselect 7;")
    assert "ERROR 1146 (42S02) at line 1" in result.stderr, result.stderr
    equal(result.stdout, "7\n")


@check("wrong password")
def wrong_password():
    result = mariadb("-pwrong", sql="select 1")
    equal(result.returncode, 1)
    assert "ERROR 1045 (28000): Access denied for user 'root'@" in result.stderr, result.stderr


@check("compression")
def compression():
    equal(rows("--compress", sql="select repeat('x', 100000); select 1"), [["x" * 100_000], ["1"]])


@check("database")
def database():
    equal(rows("information_schema", sql="select database();"), [["information_schema"]])
    equal(rows(sql="use information_schema\nselect database();"), [["information_schema"]])


@check("unbuffered rows")
def unbuffered():
    equal(rows("--quick", sql="select 1 union all select 2 union all select 3 order by 1"), [["1"], ["2"], ["3"]])


if TLS:

    @check("TLS")
    def tls():
        equal(rows("--ssl", sql="select 1"), [["1"]])


done()
