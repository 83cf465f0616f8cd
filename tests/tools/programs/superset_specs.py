"""Superset's engine specs of Doris and StarRocks over a database of its own metadata: catalogs, schemas, tables, views and columns as its
SQL Lab lists them, each time grain, a preview, a limit and a chart's query."""

import logging
import os
import tempfile
import warnings

warnings.filterwarnings("ignore")
logging.disable(logging.CRITICAL)
PORT = os.environ["DIPPER_PORT"]
HOME = tempfile.mkdtemp(prefix="dipper-superset-")
with open(os.path.join(HOME, "superset_config.py"), "w", encoding="utf-8") as config:
    config.write(f"SECRET_KEY = 'for this test'\nSQLALCHEMY_DATABASE_URI = 'sqlite:///{HOME}/own.db'\n")
    for cache in ("CACHE_CONFIG", "DATA_CACHE_CONFIG", "FILTER_STATE_CACHE_CONFIG", "EXPLORE_FORM_DATA_CACHE_CONFIG"):
        config.write(f"{cache} = {{'CACHE_TYPE': 'NullCache'}}\n")
os.environ.update(SUPERSET_CONFIG_PATH=os.path.join(HOME, "superset_config.py"), SUPERSET_HOME=HOME)

from superset.app import create_app  # noqa: E402  (its configuration is read when it is imported)

INSTANT = "2024-02-29 13:14:15"
# What each grain makes of that instant, which is a Thursday.
GRAINS = {
    None: "2024-02-29 13:14:15",
    "PT1S": "2024-02-29 13:14:15",
    "PT1M": "2024-02-29 13:14:00",
    "PT1H": "2024-02-29 13:00:00",
    "P1D": "2024-02-29 00:00:00",
    "P1W": "2024-02-25 00:00:00",
    "P1M": "2024-02-01 00:00:00",
    "P3M": "2024-01-01 00:00:00",
    "P1Y": "2024-01-01 00:00:00",
    "1969-12-29T00:00:00Z/P1W": "2024-02-26 00:00:00",
}


def make(engine):
    for statement in (
        "drop database if exists superset force",
        "create database superset",
        "create table superset.sales (id bigint not null, at datetime, day date, city varchar(20) comment 'where', "
        "amount decimal(10, 2), big largeint, price double, ok boolean, tags array<string>, doc json) "
        "duplicate key (id) distributed by hash (id) buckets 1",
        "create view superset.totals as select city, sum(amount) total from superset.sales group by city",
        f"insert into superset.sales values (1, '{INSTANT}', '2024-02-29', 'Rome', 10.5, 1, 1.5, true, ['a'], '{{\"k\": 1}}'), "
        "(2, '2024-03-01 00:00:00', '2024-03-01', 'Oslo', 20, 2, 2.5, false, null, null)",
    ):
        engine.execute(statement)


def check(database, catalog):
    from superset.sql.parse import Table

    spec = database.db_engine_spec
    with database.get_sqla_engine() as engine:
        make(engine)
    assert database.get_default_catalog(), "there is a catalog that is meant without a name"
    assert "internal" in database.get_all_catalog_names(), database.get_all_catalog_names()
    assert {"superset", "information_schema"} <= database.get_all_schema_names(catalog=catalog)
    tables = {table for table, *_ in database.get_all_table_names_in_schema(catalog, "superset")}
    views = {view for view, *_ in database.get_all_view_names_in_schema(catalog, "superset")}
    assert "sales" in tables and views == {"totals"}, (tables, views)
    sales = Table("sales", "superset", catalog)
    columns = {column["column_name"]: column for column in database.get_columns(sales)}
    assert list(columns) == ["id", "at", "day", "city", "amount", "big", "price", "ok", "tags", "doc"], columns
    kinds = {name: spec.get_column_spec(str(columns[name]["type"])).generic_type.name
             for name in ("id", "at", "day", "city", "amount", "price")}
    assert list(kinds.values()) == \
        ["NUMERIC", "TEMPORAL", "TEMPORAL", "STRING", "NUMERIC", "NUMERIC"], kinds
    database.get_indexes(sales)
    database.get_pk_constraint(sales)
    database.get_foreign_keys(sales)
    preview = database.select_star(sales, limit=1, show_cols=True, latest_partition=False)
    frame = database.get_df(preview, catalog, "superset")
    assert len(frame) == 1 and list(frame)[:4] == ["id", "at", "day", "city"], frame
    grains = spec.get_time_grain_expressions()
    assert set(GRAINS) <= set(grains), sorted(map(str, grains))
    # As they are: what Superset sends goes through sqlglot, whose Doris dialect leaves DATE() out inside of DATE_ADD.
    with database.get_sqla_engine(catalog, "superset") as engine:
        for grain, expression in grains.items():
            column = expression.replace("{col}", "at")
            found = engine.execute(f"SELECT CAST(CAST({column} AS DATETIME) AS CHAR) FROM superset.sales WHERE id = 1").scalar()
            assert found == GRAINS.get(grain, found) and found, (grain, expression, found)
            totals = engine.execute(f"SELECT {column}, sum(amount) FROM superset.sales GROUP BY 1 ORDER BY 1").fetchall()
            assert sum(total for _, total in totals) == 30.5, (grain, expression, totals)
    chart = database.get_df("SELECT city, sum(amount) AS total FROM superset.sales GROUP BY city ORDER BY city", catalog, "superset")
    assert list(chart["total"].astype(float)) == [20.0, 10.5], chart
    limited = database.apply_limit_to_sql("SELECT * FROM superset.sales ORDER BY id", 1, force=True)
    assert len(database.get_df(limited, catalog, "superset")) == 1, limited
    from datetime import datetime
    for kind in ("DATE", "DATETIME"):
        literal = spec.convert_dttm(kind, datetime(2024, 2, 29, 13, 14, 15))
        frame = database.get_df(f"SELECT count(*) AS n FROM superset.sales WHERE at >= {literal}", catalog, "superset")
        assert int(frame["n"][0]) == 2, (literal, frame)
    frame = database.get_df(f"SELECT {spec.epoch_to_dttm().replace('{col}', '0')} AS at", catalog, "superset")
    assert len(frame) == 1, frame


def main():
    from superset.models.core import Database

    for name, uri, catalog in (
        ("Doris", f"pydoris://root:@127.0.0.1:{PORT}/internal.information_schema", "internal"),
        ("StarRocks", f"starrocks://root:@127.0.0.1:{PORT}/internal.information_schema", "internal"),
        ("MySQL", f"mysql+pymysql://root:@127.0.0.1:{PORT}/information_schema", None),
    ):
        database = Database(database_name=name, sqlalchemy_uri=uri)
        try:
            if catalog is None:
                database.get_all_catalog_names = lambda: {"internal"}
                database.get_default_catalog = lambda: "internal"
            check(database, catalog)
        except AssertionError as error:
            raise AssertionError(f"{name}: {error}") from error
        print(f"  {name}: {len(database.db_engine_spec.get_time_grain_expressions())} grains")


app = create_app()
with app.app_context():
    main()
