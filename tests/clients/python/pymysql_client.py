"""PyMySQL: the protocol in plain Python."""

import pymysql
from checks import ACCESS_DENIED, HOST, NAMES, NO_SUCH_TABLE, PORT, TLS, TYPES_SQL, all_types, check, done, equal, lookups, refused
from pymysql.constants import CLIENT


def connect(**options):
    return pymysql.connect(host=HOST, port=PORT, **{"user": "root", **options})


connection = connect(autocommit=True)
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
    refused(NO_SUCH_TABLE, pymysql.err.ProgrammingError, lambda: cursor.execute("select * from information_schema.no_such_table"))
    cursor.execute("select 1")
    equal(cursor.fetchall(), ((1,),))


@check("wrong password")
def wrong_password():
    refused(ACCESS_DENIED, pymysql.err.OperationalError, lambda: connect(password="wrong"))
    refused(ACCESS_DENIED, pymysql.err.OperationalError, lambda: connect(user="nobody", password="wrong"))


@check("multi statements")
def multi_statements():
    with connect(client_flag=CLIENT.MULTI_STATEMENTS) as multi, multi.cursor() as several:
        several.execute("select 1; select 2")
        equal(several.fetchall(), ((1,),))
        assert several.nextset()
        equal(several.fetchall(), ((2,),))


@check("unbuffered rows")
def unbuffered():
    with connect(cursorclass=pymysql.cursors.SSCursor) as stream, stream.cursor() as rows:
        rows.execute("select 1 union all select 2 union all select 3 order by 1")
        equal(list(rows), [(1,), (2,), (3,)])


@check("long text")
def long_text():
    cursor.execute("select repeat('x', 100000)")
    equal(cursor.fetchone()[0], "x" * 100_000)


@check("bytes")
def of_bytes():
    cursor.execute("select unhex('ff00'), from_base64('/w=='), unhex('6162'), hex(unhex('ff00')), 'ab'")
    equal(cursor.fetchone(), (b"\xff\x00", b"\xff", b"ab", "FF00", "ab"))


@check("ping and database")
def ping():
    connection.ping(reconnect=False)
    connection.select_db("information_schema")
    cursor.execute("select database()")
    equal(cursor.fetchone(), ("information_schema",))


@check("transactions")
def transactions():
    connection.begin()
    connection.rollback()
    connection.begin()
    connection.commit()


@check("generated keys")
def generated_keys():
    cursor.execute("drop database if exists pymysql_keys")
    cursor.execute("create database pymysql_keys")
    cursor.execute(
        "create table pymysql_keys.t (id bigint not null auto_increment, v int) unique key (id) distributed by hash (id) buckets 1"
    )
    first = None
    for expected in range(3):
        cursor.execute("insert into pymysql_keys.t (v) values (%s)", (expected,))
        first = first or cursor.lastrowid
        equal(cursor.lastrowid, first + expected)
        cursor.execute("select id, last_insert_id(), @@last_insert_id from pymysql_keys.t where v = %s", (expected,))
        equal(cursor.fetchall(), ((first + expected,) * 3,))
    cursor.execute("insert into pymysql_keys.t (v) values (10), (11), (12)")
    several = cursor.lastrowid
    cursor.execute("select min(id), last_insert_id() from pymysql_keys.t where v >= 10")
    equal(cursor.fetchall(), ((several, several),))
    # Nothing is made here: the packet says the last row's value, the function keeps what it said.
    for values, last in [("(5000, 13)", 5000), ("(5002, 14), (5001, 15)", 5001)]:
        cursor.execute(f"insert into pymysql_keys.t (id, v) values {values}")
        equal(cursor.lastrowid, last)
        cursor.execute("select last_insert_id()")
        equal(cursor.fetchall(), ((several,),))
    cursor.execute("update pymysql_keys.t set v = 16 where id = 5000")
    equal(cursor.lastrowid, 0)
    cursor.execute("insert into pymysql_keys.t (v) select 20 union all select 21")
    found = cursor.lastrowid
    cursor.execute("select min(id) from pymysql_keys.t where v >= 20")
    equal(cursor.fetchall(), ((found,),))


@check("where columns come from")
def origins():
    cursor.execute("drop database if exists pymysql_origins")
    cursor.execute("create database pymysql_origins")
    cursor.execute("create table pymysql_origins.t (K int, v int) unique key (K) distributed by hash (K) buckets 1")
    cursor.execute("create view pymysql_origins.w as select k as a, v + 1 as b from pymysql_origins.t")
    own = ("pymysql_origins", "t", "t", "k", "K")
    questions = {
        "select k, k as a, v + 1 from t": [own, (*own[:3], "a", "K"), ("", "", "", "v + 1", "")],
        "select k, v as a from t where k = 1": [own, (*own[:3], "a", "v")],
        "select x.k from pymysql_origins.t x": [("pymysql_origins", "x", "t", "k", "K")],
        "select x.k from (select k from t limit 1) x": [("pymysql_origins", "x", "x", "k", "K")],
        "select a as c, b from w": [("pymysql_origins", "w", "w", "c", "a"), ("pymysql_origins", "w", "w", "b", "b")],
        "select k, count(*) from t group by k order by k": [own, ("", "", "", "count(*)", "")],
        "select y.v from t x left join t y on x.k = y.k": [("pymysql_origins", "y", "t", "v", "v")],
        "select k from t union all select 1": [("", "", "", "k", "")],
    }
    with connect(database="pymysql_origins") as named, named.cursor() as rows:
        for question, expected in questions.items():
            rows.execute(question)
            fields = rows._result.fields
            found = [(f.db.decode(), f.table_name, f.org_table, f.name, f.org_name) for f in fields]
            equal((question, found), (question, expected))


@check("columns of keys")
def keys():
    cursor.execute("drop database if exists pymysql_key_flags")
    cursor.execute("create database pymysql_key_flags")
    cursor.execute("create table pymysql_key_flags.u (k int, v int) unique key (k) distributed by hash (k) buckets 1")
    cursor.execute("create table pymysql_key_flags.d (k int, v int) duplicate key (k) distributed by hash (k) buckets 1")
    primary, multiple = 2, 8
    with connect(database="pymysql_key_flags") as named, named.cursor() as rows:
        for question, expected in {
            "select k, v, k + 1 from u": [primary, 0, 0],
            "select v, k from u where k = 1": [0, primary],
            "select x.k as a from d x": [multiple],
            "select k from (select k from u limit 1) x": [0],
        }.items():
            rows.execute(question)
            equal((question, [f.flags & (primary | multiple) for f in rows._result.fields]), (question, expected))


@check("version")
def version():
    try:
        cursor.execute("set global version = '8.0.33'")
        with connect() as other, other.cursor() as rows:
            equal(other.server_version, "8.0.33")
            rows.execute("select version()")
            equal(rows.fetchone(), ("8.0.33",))
    finally:
        cursor.execute("set global version = default")
    with connect() as other:
        equal(other.server_version, "5.7.99")


@check("counters")
def counters():
    def status():
        cursor.execute("show global status")
        return {name: int(value) for name, value in cursor.fetchall()}

    before = status()
    with connect() as other, other.cursor() as rows:
        rows.execute("select repeat('x', 100000)")
        rows.fetchall()
        rows.execute("select '" + "y" * 50000 + "'")
        rows.fetchall()
    after = status()
    grown = {name: after[name] - before[name] for name in before}
    equal((grown["Connections"], grown["Questions"] >= 3), (1, True))
    assert grown["Bytes_sent"] > 150_000 and grown["Bytes_received"] > 50_000, grown
    assert after["Uptime"] >= before["Uptime"] and after["Threads_connected"] >= 1, after


@check("locks by name")
def locks():
    with connect() as holder, holder.cursor() as held:
        held.execute("select get_lock('pymysql', 0)")
        equal(held.fetchone(), (1,))
        cursor.execute("select get_lock('pymysql', 0), is_used_lock('pymysql')")
        equal(cursor.fetchone(), (0, holder.thread_id()))
    # It goes with its session.
    cursor.execute("select get_lock('pymysql', 10), release_lock('pymysql')")
    equal(cursor.fetchone(), (1, 1))


if TLS:

    @check("TLS")
    def tls():
        with connect(ssl={"check_hostname": False, "verify_mode": "none"}) as secure, secure.cursor() as rows:
            rows.execute(TYPES_SQL)
            all_types(rows.fetchone())


connection.close()
done()
