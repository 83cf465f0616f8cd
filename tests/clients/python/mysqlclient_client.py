"""mysqlclient: MariaDB's C library."""

import MySQLdb
from checks import ACCESS_DENIED, HOST, NAMES, NO_SUCH_TABLE, PORT, TYPES_SQL, all_types, check, done, equal, lookups, refused


def connect(**options):
    return MySQLdb.connect(host=HOST, port=PORT, **{"user": "root", "charset": "utf8mb4", **options})


connection = connect()
cursor = connection.cursor()


@check("types")
def types():
    cursor.execute(TYPES_SQL)
    equal([column[0] for column in cursor.description], NAMES)
    all_types(cursor.fetchone())


@check("parameters")
def parameters():
    cursor.execute("select %s + 1, %s", (41, "it's \\ \"quoted\""))
    number, text = cursor.fetchone()
    equal((int(number), text), (42, "it's \\ \"quoted\""))


@check("key look-ups")
def key_lookups():
    lookups(cursor)


@check("error")
def error():
    refused(NO_SUCH_TABLE, MySQLdb.ProgrammingError, lambda: cursor.execute("select * from information_schema.no_such_table"))
    cursor.execute("select 1")
    equal(cursor.fetchall(), ((1,),))


@check("wrong password")
def wrong_password():
    refused(ACCESS_DENIED, MySQLdb.OperationalError, lambda: connect(password="wrong"))


@check("multi statements")
def multi_statements():
    cursor.execute("select 1; select 2")
    equal(cursor.fetchall(), ((1,),))
    equal(cursor.nextset(), 1)
    equal(cursor.fetchall(), ((2,),))
    equal(cursor.nextset(), None)


@check("compression")
def compression():
    compressed = connect(compress=True)
    rows = compressed.cursor()
    rows.execute("select repeat('x', 100000)")
    equal(rows.fetchone()[0], "x" * 100_000)
    rows.execute("select 1")
    equal(rows.fetchone(), (1,))
    compressed.close()


@check("ping, change of database and of user")
def other_commands():
    connection.ping()
    connection.select_db("information_schema")
    cursor.execute("select database()")
    equal(cursor.fetchone(), ("information_schema",))
    connection.change_user("root", "")
    cursor.execute("select 1")
    equal(cursor.fetchone(), (1,))
    assert "Uptime" in connection.stat()


@check("transactions")
def transactions():
    connection.autocommit(False)
    connection.commit()
    connection.rollback()
    connection.autocommit(True)


connection.close()
done()
