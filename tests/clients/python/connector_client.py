"""mysql-connector-python: Oracle's, in plain Python and, where its package brings it, over MySQL's C library."""

import datetime

import mysql.connector
from checks import ACCESS_DENIED, HOST, NAMES, NO_SUCH_TABLE, PORT, TYPES_SQL, all_types, check, done, equal, lookups, refused


def connect(pure, **options):
    return mysql.connector.connect(host=HOST, port=PORT, use_pure=pure, **{"user": "root", **options})


def run(pure):
    kind = "pure" if pure else "C"
    connection = connect(pure)
    cursor = connection.cursor()

    @check(f"{kind}: types")
    def types():
        cursor.execute(TYPES_SQL)
        equal(list(cursor.column_names), NAMES)
        all_types(cursor.fetchone())

    @check(f"{kind}: prepared types")
    def prepared_types():
        with connection.cursor(prepared=True) as prepared:
            for _ in range(2):
                prepared.execute(TYPES_SQL)
                all_types(prepared.fetchone())
                equal(prepared.fetchone(), None)

    @check(f"{kind}: prepared parameters")
    def parameters():
        when = datetime.datetime(2020, 1, 31, 1, 2, 3, 500_000)
        with connection.cursor(prepared=True) as prepared:
            for number in (41, -1, 2**40):
                prepared.execute("select ? + 1, ?", (number, "it's \\ \"quoted\" ä"))
                found, text = prepared.fetchone()
                equal((int(found), text), (number + 1, "it's \\ \"quoted\" ä"))
            prepared.execute("select ?, ?", (None, when))
            nothing, found = prepared.fetchone()
            equal((nothing, str(found)), (None, str(when)))

    @check(f"{kind}: bytes")
    def of_bytes():
        statement = "select unhex('ff00'), from_base64('/w=='), hex(unhex('ff00')), 'ab'"
        expected = [b"\xff\x00", b"\xff", "FF00", "ab"]
        plain = lambda row: [bytes(v) if isinstance(v, (bytes, bytearray)) else v for v in row]
        cursor.execute(statement)
        equal(plain(cursor.fetchone()), expected)
        with connection.cursor(prepared=True) as prepared:
            prepared.execute(statement)
            equal(plain(prepared.fetchone()), expected)

    @check(f"{kind}: prepared key look-ups")
    def key_lookups():
        with connection.cursor(prepared=True) as prepared:
            lookups(prepared, cursor)

    @check(f"{kind}: error")
    def error():
        wrong = "select * from information_schema.no_such_table"
        refused(NO_SUCH_TABLE, mysql.connector.Error, lambda: cursor.execute(wrong))
        with connection.cursor(prepared=True) as prepared:
            refused(NO_SUCH_TABLE, mysql.connector.Error, lambda: prepared.execute(wrong))
        cursor.execute("select 1")
        equal(cursor.fetchall(), [(1,)])

    @check(f"{kind}: wrong password")
    def wrong_password():
        refused(ACCESS_DENIED, mysql.connector.Error, lambda: connect(pure, password="wrong"))

    @check(f"{kind}: compression")
    def compression():
        with connect(pure, compress=True) as compressed, compressed.cursor() as rows:
            rows.execute("select repeat('x', 100000)")
            equal(rows.fetchone()[0], "x" * 100_000)
            rows.execute("select 1")
            equal(rows.fetchone(), (1,))

    @check(f"{kind}: reset, change of user, ping")
    def other_commands():
        connection.cmd_reset_connection()
        connection.cmd_change_user(username="root", password="", database="information_schema")
        connection.ping()
        with connection.cursor() as rows:
            rows.execute("select database()")
            equal(rows.fetchone(), ("information_schema",))

    @check(f"{kind}: generated keys")
    def generated_keys():
        with connection.cursor() as rows:
            rows.execute("drop database if exists connector_keys")
            rows.execute("create database connector_keys")
            rows.execute(
                "create table connector_keys.t (id bigint not null auto_increment, v int) "
                "unique key (id) distributed by hash (id) buckets 1"
            )
            rows.execute("insert into connector_keys.t (v) values (1)")
            made = rows.lastrowid
            rows.execute("select id, last_insert_id() from connector_keys.t")
            equal(rows.fetchall(), [(made, made)])
        with connection.cursor(prepared=True) as prepared:
            prepared.execute("insert into connector_keys.t (v) values (?)", (2,))
            equal(prepared.lastrowid, made + 1)
        connection.cmd_reset_connection()
        with connection.cursor() as rows:
            rows.execute("select last_insert_id(), found_rows()")
            equal(rows.fetchall(), [(0, 0)])

    @check(f"{kind}: prepared statements keep their database")
    def keep_database():
        with connection.cursor() as rows:
            for database in ("connector_here", "connector_there"):
                rows.execute(f"drop database if exists {database}")
                rows.execute(f"create database {database}")
                rows.execute(
                    f"create table {database}.t (k int, v varchar(20)) unique key (k) distributed by hash (k) buckets 1 "
                    "properties ('store_row_column' = 'true')"
                )
                rows.execute(f"insert into {database}.t values (1, '{database}')")
        connection.cmd_init_db("connector_here")
        with connection.cursor(prepared=True) as by_key, connection.cursor(prepared=True) as scan:
            for database in ("connector_here", "connector_there", "information_schema"):
                connection.cmd_init_db(database)
                by_key.execute("select v from t where k = ?", (1,))
                equal(by_key.fetchall(), [("connector_here",)])
                scan.execute("select v from t where v >= ?", ("a",))
                equal(scan.fetchall(), [("connector_here",)])
                with connection.cursor() as rows:
                    rows.execute("select database()")
                    equal(rows.fetchall(), [(database,)])

    connection.close()


run(pure=True)
if mysql.connector.HAVE_CEXT:
    run(pure=False)
else:
    print("this package of mysql-connector-python has no C extension: plain Python only")
done()
