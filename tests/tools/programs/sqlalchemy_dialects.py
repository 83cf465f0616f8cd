"""SQLAlchemy's dialects of Doris and StarRocks: what they make, they read back."""

import os
import warnings

import sqlalchemy as sa

PORT = os.environ["DIPPER_PORT"]


def reflected(engine, table):
    inspector = sa.inspect(engine)
    return {column["name"]: column for column in inspector.get_columns(table)}


def doris():
    root = sa.create_engine(f"pydoris://root:@127.0.0.1:{PORT}/information_schema")
    with root.connect() as c:
        c.execute(sa.text("drop database if exists sa_doris"))
        c.execute(sa.text("create database sa_doris"))
    engine = sa.create_engine(f"pydoris://root:@127.0.0.1:{PORT}/sa_doris")
    with engine.connect() as c:
        c.execute(sa.text(
            "create table t (id bigint not null, name varchar(50) comment 'whose', ok boolean, big largeint, n decimal(10, 2), "
            "s string, d date, at datetime(3), tags array<string>, j json) unique key(id) comment 'a table' "
            "distributed by hash(id) buckets 1"))
        c.execute(sa.text("create view v as select id, name from t"))
        c.execute(sa.text("insert into t (id, name, ok, big, n) values (1, 'x', true, 170141183460469231731687303715884105727, 1.5)"))
    inspector = sa.inspect(engine)
    assert "sa_doris" in inspector.get_schema_names()
    assert inspector.get_table_names() == ["t"], inspector.get_table_names()
    assert inspector.get_view_names() == ["v"], inspector.get_view_names()
    assert inspector.has_table("t") and not inspector.has_table("nosuch")
    columns = reflected(engine, "t")
    assert list(columns) == ["id", "name", "ok", "big", "n", "s", "d", "at", "tags", "j"], columns
    assert not columns["id"]["nullable"] and columns["n"]["nullable"], columns
    kinds = {name: type(column["type"]).__name__.upper() for name, column in columns.items()}
    for name, kind in {"id": "BIGINT", "name": "VARCHAR", "n": "DECIMAL", "d": "DATE"}.items():
        assert kinds[name] == kind, kinds
    assert "NULLTYPE" not in {kinds[n] for n in ("id", "name", "ok", "big", "n", "s", "d", "at")}, kinds
    table = sa.Table("t", sa.MetaData(), autoload_with=engine)
    with engine.connect() as c:
        row = c.execute(sa.select(table.c.id, table.c.name, table.c.n)).one()
        assert (row.id, row.name, str(row.n)) == (1, "x", "1.50"), row
    made = sa.Table("made", sa.MetaData(), sa.Column("id", sa.Integer, primary_key=True), sa.Column("v", sa.String(20)),
                    pydoris_key_type="UNIQUE", pydoris_key_columns=["id"], pydoris_distributed_by="HASH(id)", pydoris_buckets=1,
                    pydoris_properties={"replication_num": "1"})
    made.metadata.create_all(engine)
    with engine.begin() as c:
        c.execute(made.insert(), [{"id": 1, "v": "a"}, {"id": 2, "v": "b"}])
        assert c.execute(sa.select(sa.func.count()).select_from(made)).scalar() == 2
    made.metadata.drop_all(engine)
    assert not sa.inspect(engine).has_table("made")


def starrocks():
    import starrocks as sr
    root = sa.create_engine(f"starrocks://root:@127.0.0.1:{PORT}/information_schema")
    with root.connect() as c:
        c.execute(sa.text("drop database if exists sa_starrocks"))
        c.execute(sa.text("create database sa_starrocks"))
    engine = sa.create_engine(f"starrocks://root:@127.0.0.1:{PORT}/sa_starrocks")
    with engine.connect() as c:
        for statement in (
            "create table p (id bigint not null, name varchar(50) comment 'whose', n decimal(10, 2)) primary key(id) comment 'keyed' "
            "distributed by hash(id) buckets 3 properties ('replication_num' = '1')",
            "create table d (dt date, k int, s string) duplicate key(dt, k) "
            "partition by range(dt) (partition p1 values less than ('2024-02-01')) distributed by hash(k) buckets 2",
            "create table a (k int, v bigint sum) aggregate key(k) distributed by hash(k) buckets 1",
            "create view v as select id from p",
        ):
            c.execute(sa.text(statement))
    inspector = sa.inspect(engine)
    assert sorted(inspector.get_table_names()) == ["a", "d", "p"], inspector.get_table_names()
    assert inspector.get_view_names() == ["v"], inspector.get_view_names()
    with warnings.catch_warnings():
        warnings.simplefilter("error", sa.exc.SAWarning)
        tables = {name: sa.Table(name, sa.MetaData(), autoload_with=engine) for name in ("p", "d", "a")}
    options = {name: {key.removeprefix("starrocks_").upper(): str(value) for key, value in inspector.get_table_options(name).items()}
               for name in tables}
    assert "id" in options["p"].get("PRIMARY_KEY", ""), options
    assert "dt" in options["d"].get("DUPLICATE_KEY", "") and "RANGE" in options["d"].get("PARTITION_BY", "").upper(), options
    assert "k" in options["a"].get("AGGREGATE_KEY", ""), options
    assert "3" in options["p"].get("DISTRIBUTED_BY", ""), options
    assert tables["p"].comment == "keyed" and tables["p"].c.name.comment == "whose"
    assert [c["name"] for c in inspector.get_columns("v")] == ["id"], inspector.get_columns("v")
    assert inspector.get_view_definition("v"), inspector.get_view_definition("v")
    made = sa.Table("made", sa.MetaData(), sa.Column("id", sr.BIGINT, primary_key=True), sa.Column("v", sr.VARCHAR(20)),
                    starrocks_PRIMARY_KEY="id", starrocks_DISTRIBUTED_BY="HASH(id) BUCKETS 1",
                    starrocks_PROPERTIES={"replication_num": "1"})
    made.metadata.create_all(engine)
    with engine.begin() as c:
        c.execute(made.insert(), [{"id": 1, "v": "a"}, {"id": 1, "v": "b"}])
        assert c.execute(sa.select(made.c.v)).scalars().all() == ["b"]
    made.metadata.drop_all(engine)


for test in (doris, starrocks):
    test()
    print("  ok", test.__name__)
