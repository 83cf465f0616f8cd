"""Users made by SQL: logins, what is taken from them while they are connected, and their limits."""

import contextlib
import time

import mysql.connector
import MySQLdb
import pymysql
from checks import ACCESS_DENIED, HOST, PORT, check, done, equal, refused

DATABASE_DENIED = 1044
TABLE_DENIED = 1142
TOO_MANY_CONNECTIONS = 1040
TOO_MANY_OF_USER = 1203
PASSWORD_EXPIRED = 1862
ACCOUNT_IS_LOCKED = 3118
BLOCKED_BY_LOCK = 3955
HAD_ENOUGH = 1226
ERRORS = (pymysql.err.MySQLError, MySQLdb.Error, mysql.connector.Error)

root_connection = pymysql.connect(host=HOST, port=PORT, user="root", autocommit=True)


def root(*statements):
    with root_connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
        return cursor.fetchall() if statements else ()


def with_pymysql(user, password, **options):
    return pymysql.connect(host=HOST, port=PORT, user=user, password=password, **options)


def with_mysqlclient(user, password):
    return MySQLdb.connect(host=HOST, port=PORT, user=user, password=password)


def with_connector(user, password, **options):
    return mysql.connector.connect(host=HOST, port=PORT, user=user, password=password, use_pure=True, **options)


def one(connection, statement):
    cursor = connection.cursor()
    cursor.execute(statement)
    row = cursor.fetchone()
    cursor.close()
    return row


def fresh(user, *grants, password="secret"):
    root(f"drop user if exists {user}", f"create user {user} identified by '{password}'")
    root(*[f"grant {grant} to {user}" for grant in grants])


root("drop database if exists accounts_test", "create database accounts_test")
root("create table accounts_test.t (k int, v int) unique key(k) distributed by hash(k) buckets 1")
root("insert into accounts_test.t values (1, 10)")


@check("logins of all libraries, with both methods")
def logins():
    fresh("alice")
    for connect in (
        with_pymysql,
        with_mysqlclient,
        with_connector,
        lambda user, password: with_connector(user, password, auth_plugin="mysql_native_password"),
        lambda user, password: with_connector(user, password, auth_plugin="caching_sha2_password", ssl_disabled=True),
    ):
        with contextlib.closing(connect("alice", "secret")) as connection:
            equal(one(connection, "select current_user()"), ("alice@%",))
        refused(ACCESS_DENIED, ERRORS, lambda connect=connect: connect("alice", "wrong"))


@check("nobody and somebody are refused alike")
def nobody():
    messages = []
    for user in ("alice", "nobody"):
        try:
            with_pymysql(user, "wrong")
        except pymysql.err.OperationalError as error:
            messages.append(error.args[1].replace(user, "USER"))
    equal(len(set(messages)), 1)
    equal(len(messages), 2)


@check("only the hash of the old method is kept")
def native_only():
    # PASSWORD('secret')
    root("drop user if exists old", "create user old identified by password '*14E65567ABDB5135D0CFD9A70B3032C179A49EE7'")
    for connect in (with_pymysql, with_mysqlclient, with_connector):
        connect("old", "secret").close()


@check("hosts")
def hosts():
    for host, password in (("%", "any"), ("localhost", "here"), ("10.%", "there")):
        fresh(f"'h'@'{host}'", password=password)
    with contextlib.closing(with_pymysql("h", "here")) as connection:
        equal(one(connection, "select current_user()"), ("h@localhost",))
    refused(ACCESS_DENIED, ERRORS, lambda: with_pymysql("h", "any"))
    root("drop user 'h'@'localhost'", "drop user 'h'@'%'")
    refused(ACCESS_DENIED, ERRORS, lambda: with_pymysql("h", "there"))


@check("a new password counts for the next login")
def new_password():
    fresh("alice")
    with contextlib.closing(with_pymysql("alice", "secret")) as connection:
        one(connection, "set password = password('other')")
        equal(one(connection, "select 1"), (1,))
    refused(ACCESS_DENIED, ERRORS, lambda: with_pymysql("alice", "secret"))
    with_pymysql("alice", "other").close()


@check("what is revoked is gone with the next statement")
def revoked():
    fresh("alice", "select on accounts_test.t")
    with contextlib.closing(with_connector("alice", "secret")) as connection:
        prepared = connection.cursor(prepared=True)
        prepared.execute("select v from accounts_test.t where k = %s", (1,))
        equal(prepared.fetchall(), [(10,)])
        root("revoke select on accounts_test.t from alice")
        refused(TABLE_DENIED, ERRORS, lambda: one(connection, "select * from accounts_test.t"))
        refused(TABLE_DENIED, ERRORS, lambda: prepared.execute("select v from accounts_test.t where k = %s", (1,)))
        root("grant select on accounts_test.t to alice")
        prepared.execute("select v from accounts_test.t where k = %s", (1,))
        equal(prepared.fetchall(), [(10,)])
        root("drop user alice")
        refused(ACCESS_DENIED, ERRORS, lambda: prepared.execute("select v from accounts_test.t where k = %s", (1,)))
        refused(ACCESS_DENIED, ERRORS, lambda: one(connection, "select 1"))


@check("a prepared INSERT is checked, too")
def prepared_insert():
    fresh("alice", "insert on accounts_test.t")
    with contextlib.closing(with_connector("alice", "secret")) as connection:
        prepared = connection.cursor(prepared=True)
        prepared.execute("insert into accounts_test.t values (%s, %s)", (2, 20))
        root("revoke insert on accounts_test.t from alice")
        refused(TABLE_DENIED, ERRORS, lambda: prepared.execute("insert into accounts_test.t values (%s, %s)", (3, 30)))
    equal(root("select count(*) from accounts_test.t where k = 3"), ((0,),))


@check("databases at login, and by COM_INIT_DB")
def databases():
    fresh("alice")
    refused(DATABASE_DENIED, ERRORS, lambda: with_pymysql("alice", "secret", database="accounts_test"))
    with contextlib.closing(with_pymysql("alice", "secret")) as connection:
        refused(DATABASE_DENIED, ERRORS, lambda: connection.select_db("accounts_test"))
        root("grant select on accounts_test.t to alice")
        connection.select_db("accounts_test")


@check("COM_CHANGE_USER")
def change_user():
    fresh("alice", "select on accounts_test.*")
    fresh("bob")
    root("set property for 'alice' 'max_user_connections' = '1'")
    with contextlib.closing(with_connector("alice", "secret")) as connection:
        connection.cmd_change_user("alice", "secret", "accounts_test")
        equal(one(connection, "select current_user(), count(*) from t"), ("alice@%", root("select count(*) from accounts_test.t")[0][0]))
        connection.cmd_change_user("bob", "secret")
        equal(one(connection, "select current_user()"), ("bob@%",))
        refused(TABLE_DENIED, ERRORS, lambda: one(connection, "select * from accounts_test.t"))
        with_connector("alice", "secret").close()
        refused(ACCESS_DENIED, ERRORS, lambda: connection.cmd_change_user("alice", "wrong"))


@check("KILL of one's own, and of others")
def kill():
    fresh("alice")
    fresh("bob")
    with contextlib.closing(with_pymysql("alice", "secret")) as alice, contextlib.closing(with_pymysql("bob", "secret")) as bob:
        other = one(bob, "select connection_id()")[0]
        refused(1095, ERRORS, lambda: one(alice, f"kill {other}"))
        equal(one(bob, "select 1"), (1,))
        with alice.cursor() as cursor:
            cursor.execute("show processlist")
            equal({row[1] for row in cursor.fetchall()}, {"alice"})
        with contextlib.closing(with_pymysql("alice", "secret")) as second:
            one(alice, f"kill {one(second, 'select connection_id()')[0]}")


@check("max_user_connections")
def user_connections():
    fresh("alice")
    root("set property for 'alice' 'max_user_connections' = '3'")
    open_ones = [with_pymysql("alice", "secret") for _ in range(3)]
    refused(TOO_MANY_OF_USER, ERRORS, lambda: with_pymysql("alice", "secret"))
    with_pymysql("root", "").close()
    open_ones.pop().close()
    deadline = time.monotonic() + 5
    while True:
        try:
            open_ones.append(with_pymysql("alice", "secret"))
            break
        except pymysql.err.OperationalError:
            assert time.monotonic() < deadline
            time.sleep(0.02)
    for connection in open_ones:
        connection.close()
    root("set property for 'alice' 'max_user_connections' = '0'")


@check("so many statements, and connections, in an hour")
def hourly():
    fresh("alice", "select on accounts_test.t")
    look_up = "select v from accounts_test.t where k = "
    with contextlib.closing(with_connector("alice", "secret")) as connection:
        prepared = connection.cursor(prepared=True)

        def both():
            prepared.execute(look_up + "%s", (1,))
            equal(prepared.fetchall(), [(10,)])
            equal(one(connection, look_up + "1"), (10,))

        # Look-ups are remembered by now.
        both()
        root("alter user alice with max_queries_per_hour 4")
        both()
        both()
        refused(HAD_ENOUGH, ERRORS, lambda: prepared.execute(look_up + "%s", (1,)))
        refused(HAD_ENOUGH, ERRORS, lambda: one(connection, look_up + "1"))
    root("alter user alice with max_queries_per_hour 0 max_connections_per_hour 2")
    for _ in range(2):
        with_pymysql("alice", "secret").close()
    refused(HAD_ENOUGH, ERRORS, lambda: with_pymysql("alice", "secret"))
    root("alter user alice with max_connections_per_hour 0")
    with_pymysql("alice", "secret").close()


@check("max_connections")
def connections():
    fresh("alice")
    connected = int(root("show status like 'Threads_connected'")[0][1])
    root(f"set global max_connections = {connected + 1}")
    try:
        equal(root("show variables like 'qe_max_connection'"), (("qe_max_connection", str(connected + 1), "10000", "1"),))
        with contextlib.closing(with_pymysql("alice", "secret")):
            refused(TOO_MANY_CONNECTIONS, ERRORS, lambda: with_pymysql("alice", "secret"))
    finally:
        root("set global max_connections = 10000")
    with_pymysql("alice", "secret").close()


@check("passwords are not in the process list")
def secrets():
    with contextlib.closing(with_pymysql("root", "")) as watched:
        one(watched, "create user if not exists hidden identified by 'do-not-show'")
        shown = str(root("show full processlist")) + str(root("show create user hidden")) + str(root("select * from mysql.user"))
        assert "do-not-show" not in shown, shown


@check("privileges on tables of other catalogs")
def external():
    root("drop catalog if exists accounts_far")
    root("create catalog accounts_far properties ('type'='hms', 'hive.metastore.uris'='thrift://127.0.0.1:1')")
    fresh("alice", "select on accounts_far.d.t")
    fresh("bob", "select on accounts_far.d.*")
    fresh("carol")

    def allowed(connection, statement):
        # Nobody is at that address: who may read the table hears of that.
        try:
            one(connection, statement)
        except ERRORS as error:
            assert "no metastore answers" in str(error), error

    with contextlib.closing(with_pymysql("alice", "secret")) as connection:
        allowed(connection, "select * from accounts_far.d.t")
        refused(TABLE_DENIED, ERRORS, lambda: one(connection, "select * from accounts_far.d.u"))
        refused(TABLE_DENIED, ERRORS, lambda: one(connection, "select * from accounts_far.e.t"))
        equal(root("show grants for alice")[-1], ("GRANT SELECT ON `accounts_far`.`d`.`t` TO 'alice'@'%'",))
        one(connection, "switch accounts_far")
        allowed(connection, "select * from d.t")
        root("revoke select on accounts_far.d.t from alice")
        refused(TABLE_DENIED, ERRORS, lambda: one(connection, "select * from d.t"))
    with contextlib.closing(with_pymysql("bob", "secret")) as connection:
        allowed(connection, "select * from accounts_far.d.t, accounts_far.d.u")
        refused(TABLE_DENIED, ERRORS, lambda: one(connection, "select * from accounts_far.e.t"))
        refused(DATABASE_DENIED, ERRORS, lambda: one(connection, "show tables from accounts_far.e"))
    with contextlib.closing(with_pymysql("carol", "secret")) as connection:
        refused(TABLE_DENIED, ERRORS, lambda: one(connection, "select * from accounts_far.d.t"))
        refused(DATABASE_DENIED, ERRORS, lambda: one(connection, "switch accounts_far"))
    root("drop catalog accounts_far")


@check("wrong passwords lock an account whose policy says so")
def locked():
    root("drop user if exists alice", "create user alice identified by 'secret' failed_login_attempts 3 password_lock_time 1")

    def login(password):
        # An address of its own: others have given wrong passwords before, and would wait.
        with_pymysql("alice", password, bind_address="127.0.0.79").close()

    for _ in range(2):
        refused(ACCESS_DENIED, ERRORS, lambda: login("wrong"))
    login("secret")
    for _ in range(3):
        refused(ACCESS_DENIED, ERRORS, lambda: login("wrong"))
    # Right and wrong passwords get one answer.
    for password in ("wrong", "secret"):
        refused(BLOCKED_BY_LOCK, ERRORS, lambda password=password: login(password))
    root("alter user alice account_unlock password_lock_time 1 second")
    login("secret")
    for _ in range(3):
        refused(ACCESS_DENIED, ERRORS, lambda: login("wrong"))
    refused(BLOCKED_BY_LOCK, ERRORS, lambda: login("secret"))
    time.sleep(1.2)
    login("secret")


@check("an account that is locked lets nobody in")
def account_lock():
    fresh("alice")
    with contextlib.closing(with_pymysql("alice", "secret")) as connection:
        root("alter user alice account lock")
        equal(one(connection, "select 1"), (1,))
        # Who does not know the password is not told.
        refused(ACCESS_DENIED, ERRORS, lambda: with_pymysql("alice", "wrong"))
        refused(ACCOUNT_IS_LOCKED, ERRORS, lambda: with_pymysql("alice", "secret"))
    root("alter user alice account unlock")
    with_pymysql("alice", "secret").close()


@check("a password that has expired lets nobody in")
def expired():
    root("drop user if exists alice", "create user alice identified by 'secret' password_expire interval 1 second")
    time.sleep(1.2)
    refused(PASSWORD_EXPIRED, ERRORS, lambda: with_pymysql("alice", "secret"))
    root("alter user alice identified by 'other' password_expire never")
    with_pymysql("alice", "other").close()


@check("wrong passwords cost time, for their own host only")
def back_off():
    fresh("alice")

    def took(**options):
        begun = time.monotonic()
        with contextlib.suppress(pymysql.err.OperationalError):
            with_pymysql("alice", options.pop("password", "secret"), **options).close()
        return time.monotonic() - begun

    bad = "127.0.0.77"
    for _ in range(13):
        took(password="wrong", bind_address=bad)
    slow, fast = took(bind_address=bad), took(bind_address="127.0.0.78")
    assert slow > 0.3 > fast, (slow, fast)
    with_pymysql("alice", "secret", bind_address=bad).close()


root("drop database accounts_test force")
done()
