"""SQLAlchemy over each of its drivers: what it asks of a server when it connects, and its inspector."""

import sqlalchemy
from checks import ACCESS_DENIED, HOST, NAMES, NO_SUCH_TABLE, PORT, TYPES_SQL, all_types, check, done, equal
from sqlalchemy import text


def run(driver):
    url = f"mysql+{driver}://root@{HOST}:{PORT}/?charset=utf8mb4"
    engine = sqlalchemy.create_engine(url)

    @check(f"{driver}: types")
    def types():
        with engine.connect() as connection:
            result = connection.execute(text(TYPES_SQL))
            equal(list(result.keys()), NAMES)
            all_types(result.one())

    @check(f"{driver}: parameters")
    def parameters():
        with engine.connect() as connection:
            row = connection.execute(text("select :number + 1, :text"), {"number": 41, "text": "it's"}).one()
            equal((int(row[0]), row[1]), (42, "it's"))

    @check(f"{driver}: expression")
    def expression():
        with engine.begin() as connection:
            chosen = sqlalchemy.select(sqlalchemy.literal(1).label("one"), sqlalchemy.literal("two").label("two"))
            equal(tuple(connection.execute(chosen).one()), (1, "two"))

    @check(f"{driver}: error")
    def error():
        with engine.connect() as connection:
            try:
                connection.execute(text("select * from information_schema.no_such_table"))
            except sqlalchemy.exc.DBAPIError as error:
                equal(getattr(error.orig, "errno", None) or error.orig.args[0], NO_SUCH_TABLE)
            else:
                raise AssertionError("no error")
            connection.rollback()
            equal(connection.execute(text("select 1")).scalar(), 1)

    @check(f"{driver}: wrong password")
    def wrong_password():
        try:
            sqlalchemy.create_engine(f"mysql+{driver}://root:wrong@{HOST}:{PORT}/").connect()
        except sqlalchemy.exc.DBAPIError as error:
            equal(getattr(error.orig, "errno", None) or error.orig.args[0], ACCESS_DENIED)
        else:
            raise AssertionError("no error")

    @check(f"{driver}: inspector")
    def inspector():
        assert "information_schema" in sqlalchemy.inspect(engine).get_schema_names()
        with engine.begin() as connection:
            connection.execute(text("create database if not exists reflected"))
            connection.execute(text("drop table if exists reflected.t"))
            connection.execute(text("create table reflected.t (k int, s string, v varchar(9)) distributed by hash(k) buckets 1"))
        columns = sqlalchemy.inspect(engine).get_columns("t", schema="reflected")
        equal([str(column["type"]).split(" ")[0] for column in columns], ["INTEGER", "TEXT", "VARCHAR(9)"])
        with engine.begin() as connection:
            connection.execute(text("drop database reflected"))

    engine.dispose()


for driver in ("pymysql", "mysqldb", "mysqlconnector"):
    run(driver)
done()
