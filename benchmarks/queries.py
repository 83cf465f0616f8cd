"""The measured queries: what dipper is asked, what each peer is asked for the same answer, and the bar.

A query names a data set, a SQL text for dipper (with {table}), and per peer either SQL (with {table}) or, for Polars, a
function of a lazy frame. `bar` is (times, who): dipper may take at most `times` of that peer's time; who may be "best".
"""

COLUMNS = [
    # name, Hive, DuckDB, Polars, ClickHouse
    ("id", "BIGINT", "BIGINT", "Int64", "Int64"),
    ("user_name", "STRING", "VARCHAR", "String", "Nullable(String)"),
    ("url", "STRING", "VARCHAR", "String", "Nullable(String)"),
    ("country", "STRING", "VARCHAR", "String", "Nullable(String)"),
    ("tags", "ARRAY<STRING>", "VARCHAR", "String", "Nullable(String)"),
    ("price", "DOUBLE", "DOUBLE", "Float64", "Nullable(Float64)"),
    ("ts", "TIMESTAMP", "TIMESTAMP", "Datetime", "Nullable(DateTime64(6, 'UTC'))"),
    ("flag", "BOOLEAN", "BOOLEAN", "Boolean", "Nullable(Bool)"),
    ("comment", "STRING", "VARCHAR", "String", "Nullable(String)"),
    ("session_id", "BIGINT", "BIGINT", "Int64", "Nullable(Int64)"),
    ("referer", "STRING", "VARCHAR", "String", "Nullable(String)"),
    ("agent", "STRING", "VARCHAR", "String", "Nullable(String)"),
    ("ip", "STRING", "VARCHAR", "String", "Nullable(String)"),
    ("duration_ms", "BIGINT", "BIGINT", "Int64", "Nullable(Int64)"),
    ("bytes_sent", "BIGINT", "BIGINT", "Int64", "Nullable(Int64)"),
    ("city", "STRING", "VARCHAR", "String", "Nullable(String)"),
]
NAMES = [column[0] for column in COLUMNS]

LINEORDER = [
    ("lo_orderkey", "i"), ("lo_linenumber", "i"), ("lo_custkey", "i"), ("lo_partkey", "i"), ("lo_suppkey", "i"),
    ("lo_orderdate", "i"), ("lo_orderpriority", "s"), ("lo_shippriority", "i"), ("lo_quantity", "i"),
    ("lo_extendedprice", "i"), ("lo_ordtotalprice", "i"), ("lo_discount", "i"), ("lo_revenue", "i"),
    ("lo_supplycost", "i"), ("lo_tax", "i"), ("lo_commitdate", "i"), ("lo_shipmode", "s"),
]  # fmt: skip


def max_of_all(array):
    """`max` of every column; of the array, the longest, so that it must be cut into its elements."""
    return ", ".join(f"max({array})" if name == "tags" else f"max({name})" for name in NAMES)


def polars_max_hive(frame, pl):
    each = [pl.col(n).list.len().max() if n == "tags" else pl.col(n).max() for n in NAMES]
    return frame.select(each)


def polars_max(frame, pl):
    return frame.select([pl.col(n).max() for n in frame.collect_schema().names()])


QUERIES = [
    {
        "name": "count(*)",
        "data": "hive",
        "dipper": "select count(*) from {table}",
        "duckdb": "select count(*) from {table}",
        "clickhouse": "select count(*) from {table}",
        "polars": lambda frame, pl: frame.select(pl.len()),
        "bar": (0.6, "polars"),
        "short": True,
    },
    {
        "name": "select * limit 1",
        "data": "hive",
        "dipper": "select * from {table} limit 1",
        "duckdb": "select * from {table} limit 1",
        "clickhouse": "select * from {table} limit 1",
        "polars": lambda frame, pl: frame.head(1),
        "bar_seconds": 0.005,
        "bar_bytes": 1 << 20,
        "short": True,
        # Which row comes first is open, and so is how an array is written.
        "compare": False,
    },
    {
        "name": "select * order by 1 limit 1",
        "data": "hive",
        "dipper": "select * from {table} order by 1 limit 1",
        "duckdb": "select * from {table} order by 1 limit 1",
        "clickhouse": "select * from {table} order by 1 limit 1",
        "polars": lambda frame, pl: frame.sort("id").head(1),
        "bar": (0.5, "polars"),
        "compare_first": True,
        "memory": True,
    },
    {
        "name": "max of every column",
        "data": "hive",
        "dipper": f"select {max_of_all('array_size(tags)')} from {{table}}",
        "duckdb": f"select {max_of_all('len(tags)')} from {{table}}",
        "clickhouse": f"select {max_of_all('length(tags)')} from {{table}}",
        "polars": polars_max_hive,
        "bar": (0.7, "best"),
        "memory": True,
    },
    {
        "name": "country, count(*), sum(price) group by 1",
        "data": "hive",
        "dipper": "select country, count(*), round(sum(price), 2) from {table} group by 1 order by 1",
        "duckdb": "select country, count(*), round(sum(price), 2) from {table} group by 1 order by 1 nulls first",
        "clickhouse": "select country, count(*), round(sum(price), 2) from {table} group by 1 order by 1 nulls first",
        "polars": lambda frame, pl: frame.group_by("country").agg(pl.len(), pl.col("price").sum().round(2)).sort("country"),
        "bar": (0.4, "polars"),
    },
    {
        "name": "count(*) where url like '%google%' or comment like '%abcd%'",
        "data": "hive",
        "dipper": "select count(*) from {table} where url like '%google%' or comment like '%abcd%'",
        "duckdb": "select count(*) from {table} where url like '%google%' or comment like '%abcd%'",
        "clickhouse": "select count(*) from {table} where url like '%google%' or comment like '%abcd%'",
        "polars": lambda frame, pl: frame.filter(
            pl.col("url").str.contains("google", literal=True) | pl.col("comment").str.contains("abcd", literal=True)
        ).select(pl.len()),
        "bar": (0.5, "polars"),
    },
    {
        "name": "CSV: max of every column",
        "data": "csv",
        "dipper": f"select {max_of_all('tags')} from {{table}}",
        "duckdb": f"select {max_of_all('tags')} from {{table}}",
        "clickhouse": f"select {max_of_all('tags')} from {{table}}",
        "polars": polars_max,
    },
    {
        "name": "quoted CSV: max of every column",
        "data": "csv_quoted",
        "dipper": f"select {max_of_all('tags')} from {{table}}",
        "duckdb": f"select {max_of_all('tags')} from {{table}}",
        "clickhouse": f"select {max_of_all('tags')} from {{table}}",
        "polars": polars_max,
        "bar_query": (1.3, "CSV: max of every column"),
    },
    {
        "name": "lineorder CSV: max of every column",
        "data": "lineorder",
        "dipper": "select " + ", ".join(f"max(c{i + 1})" for i in range(len(LINEORDER))) + " from {table}",
        "duckdb": "select " + ", ".join(f"max({name})" for name, _ in LINEORDER) + " from {table}",
        "clickhouse": "select " + ", ".join(f"max({name})" for name, _ in LINEORDER) + " from {table}",
        "polars": polars_max,
    },
    {
        "name": "Parquet: country, count(*), sum(price) group by 1",
        "data": "parquet",
        "dipper": "select country, count(*), round(sum(price), 2) from {table} group by 1 order by 1",
        "duckdb": "select country, count(*), round(sum(price), 2) from {table} group by 1 order by 1 nulls first",
        "clickhouse": "select country, count(*), round(sum(price), 2) from {table} group by 1 order by 1 nulls first",
        "polars": lambda frame, pl: frame.group_by("country").agg(pl.len(), pl.col("price").sum().round(2)).sort("country"),
    },
    {
        "name": "Parquet Q20: count(*) where URL like '%google%'",
        "data": "hits",
        "dipper": "select count(*) from {table} where URL like '%google%'",
        "duckdb": "select count(*) from {table} where URL like '%google%'",
        "clickhouse": "select count(*) from {table} where URL like '%google%'",
        "polars": lambda frame, pl: frame.filter(pl.col("URL").str.contains("google", literal=True)).select(pl.len()),
        "bar": (1.0, "duckdb"),
    },
    {
        "name": "Parquet Q20, schema_force_string_view=false",
        "data": "hits",
        "dipper": "set schema_force_string_view = false; select count(*) from {table} where URL like '%google%'",
        "at_least": (1.2, "Parquet Q20: count(*) where URL like '%google%'"),
    },
]
