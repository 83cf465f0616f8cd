"""What must hold of catalogs over a Hive metastore."""

import functools
import pathlib
import sys
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pymysql
from pyarrow import fs
from hmsclient import hmsclient
from hmsclient.genthrift.hive_metastore import ThriftHiveMetastore
from hmsclient.genthrift.hive_metastore.ttypes import (
    Database,
    FieldSchema,
    Partition,
    SerDeInfo,
    StorageDescriptor,
    Table,
)

import services

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from server import free_port  # noqa: E402

LAZY = "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe"
TEXT = "org.apache.hadoop.mapred.TextInputFormat"
SERDES = {
    "text": (TEXT, LAZY),
    "csv": (TEXT, "org.apache.hadoop.hive.serde2.OpenCSVSerde"),
    "multi": (TEXT, "org.apache.hadoop.hive.serde2.MultiDelimitSerDe"),
    "parquet": (
        "org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat",
        "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe",
    ),
    "orc": ("org.apache.hadoop.hive.ql.io.orc.OrcInputFormat", "org.apache.hadoop.hive.ql.io.orc.OrcSerde"),
}


class World:
    """The servers, each started when a check first wants it."""

    def __init__(self, root, binary, started):
        self.root, self.binary, self.started = root, binary, started
        # The metastore is told where HDFS will be, once that is wanted.
        self.hdfs_port = free_port()
        self.files = root / "files"
        self.files.mkdir()

    def keep(self, server):
        self.started.append(server)
        return server

    @functools.cached_property
    def metastore(self):
        hadoop, buckets = services.name_service(self.hdfs_port), self.root / "s3" / "root"
        return self.keep(services.metastore(self.root / "metastore", hadoop, buckets)).wait()

    @functools.cached_property
    def hms(self):
        client = hmsclient.HMSClient(host="127.0.0.1", port=self.metastore.port)
        client.open()
        client.create_database(Database(name="shop", locationUri=f"file://{self.root}/shop.db"))
        return client

    @functools.cached_property
    def hdfs(self):
        return self.keep(services.Hdfs(self.root / "hdfs", self.hdfs_port))

    @functools.cached_property
    def s3(self):
        return self.keep(services.gateway(self.root / "s3")).wait()

    @functools.cached_property
    def server(self):
        return self.keep(services.dipper(self.binary, self.root / "dipper", self.files))

    @functools.cached_property
    def sql(self):
        """A session with the catalog `hive`."""
        sql = Sql(self.server.mysql)
        self.hms
        sql(
            "CREATE CATALOG hive COMMENT 'test' PROPERTIES ('type'='hms',"
            f" 'hive.metastore.uris'='thrift://127.0.0.1:{self.metastore.port}')"
        )
        return sql

    def storage(self, columns, location, kind, parameters):
        input_format, serde = SERDES[kind]
        return StorageDescriptor(
            cols=[FieldSchema(name=n, type=t, comment="") for n, t in columns],
            location=location,
            inputFormat=input_format,
            outputFormat="org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat",
            serdeInfo=SerDeInfo(name="s", serializationLib=serde, parameters=parameters or {}),
            parameters={},
            numBuckets=-1,
            bucketCols=[],
            sortCols=[],
        )

    def table(self, name, columns, location, kind="text", keys=(), serde=None, properties=None, view=None):
        self.hms.create_table(
            Table(
                tableName=name,
                dbName="shop",
                owner="test",
                sd=self.storage(columns, location, kind, serde),
                partitionKeys=[FieldSchema(name=n, type=t, comment="") for n, t in keys],
                parameters={"EXTERNAL": "TRUE", **(properties or {})},
                tableType="VIRTUAL_VIEW" if view else "EXTERNAL_TABLE",
                viewOriginalText=view,
                viewExpandedText=view,
            )
        )

    def partition(self, table, columns, values, location, kind="text", serde=None):
        sd = self.storage(columns, location, kind, serde)
        ThriftHiveMetastore.Client.add_partition(
            self.hms,
            Partition(values=values, dbName="shop", tableName=table, sd=sd, parameters={}, createTime=0, lastAccessTime=0)
        )

    def write(self, path, text):
        path = self.files / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return f"file://{path.parent}"


class Sql:
    """Statements over the MySQL protocol, rows as tuples."""

    def __init__(self, port, **options):
        self.connection = pymysql.connect(host="127.0.0.1", port=port, user="root", **options)

    def __call__(self, statement):
        with self.connection.cursor() as cursor:
            cursor.execute(statement)
            return list(cursor.fetchall())

    def error(self, statement):
        try:
            rows = self(statement)
        except pymysql.MySQLError as e:
            return str(e.args[1])
        raise AssertionError(f"{statement}: no error but {rows}")


def same(found, expected):
    assert found == expected, f"found {found}, expected {expected}"


def has(text, *words):
    for word in words:
        assert word in text, f"'{word}' is not in: {text}"


def text_tables_with_every_delimiter(world):
    sql = world.sql
    rows = "1\x01ann\x01a\x02b\x01k\x03v\n2\x01\\N\x01\x01\n"
    columns = [("id", "bigint"), ("name", "string"), ("tags", "array<string>"), ("m", "map<string,string>")]
    world.table("plain", columns, world.write("plain/a", rows), serde={"serialization.format": "1"})
    same(sql("SELECT id, name, tags, m FROM hive.shop.plain ORDER BY id"),
         [(1, "ann", '["a", "b"]', '{"k":"v"}'), (2, None, "[]", "{}")])
    delimiters = {"field.delim": ",", "collection.delim": "|", "mapkey.delim": ":", "escape.delim": "\\",
                  "serialization.null.format": "nil", "serialization.format": ","}
    world.table("delims", columns, world.write("delims/a", "1,a\\,b,x|y,k:v\n2,nil,,\n"), serde=delimiters)
    same(sql("SELECT id, name, tags, m FROM hive.shop.delims ORDER BY id"),
         [(1, "a,b", '["x", "y"]', '{"k":"v"}'), (2, None, "[]", "{}")])
    columns = [("a", "int"), ("b", "string")]
    world.table("multi", columns, world.write("multi/a", "1||x\n2||y\n"), kind="multi", serde={"field.delim": "||"})
    same(sql("SELECT * FROM hive.shop.multi ORDER BY a"), [(1, "x"), (2, "y")])
    world.table("csv", columns, world.write("csv/a", 'h1,h2\n"1","x,""y"\n'), kind="csv",
                serde={"separatorChar": ",", "quoteChar": '"', "escapeChar": "\\"},
                properties={"skip.header.line.count": "1"})
    same(sql("SELECT a FROM hive.shop.csv"), [("1",)])


def partitions_are_those_of_the_metastore(world):
    sql = world.sql
    columns, keys = [("a", "bigint")], [("dt", "string"), ("n", "int")]
    root = world.write("parts/dt=x/n=0/ignored", "99\n").removesuffix("/dt=x/n=0")
    world.table("parts", columns, root, keys=keys)
    for i in range(30):
        dt, n = f"2024-01-{i + 1:02}", str(i % 3)
        where = world.write(f"elsewhere/{i}/f", f"{i}\n")
        world.partition("parts", columns, [dt, n], where)
    same(sql("SELECT count(*), sum(a), count(DISTINCT dt) FROM hive.shop.parts"), [(30, 435, 30)])
    same(sql("SELECT a, dt, n FROM hive.shop.parts WHERE dt = '2024-01-05'"), [(4, "2024-01-05", 1)])
    same(sql("SELECT sum(a) FROM hive.shop.parts WHERE n = 2 AND dt < '2024-01-10'"), [(2 + 5 + 8,)])
    same(len(sql("SHOW PARTITIONS FROM hive.shop.parts")), 30)
    same([r[0] for r in sql("SHOW PARTITIONS FROM hive.shop.parts PARTITION (dt='2024-01-05')")], ["dt=2024-01-05/n=1"])
    # New partitions count at once, NULL and odd characters are read back.
    odd = world.write("elsewhere/odd/f", "1000\n")
    world.partition("parts", columns, ["a/b=c", "7"], odd)
    world.partition("parts", columns, ["__HIVE_DEFAULT_PARTITION__", "8"], odd)
    same(sql("SELECT dt, n FROM hive.shop.parts WHERE a = 1000 ORDER BY n"), [("a/b=c", 7), (None, 8)])
    same(sql("SELECT n FROM hive.shop.parts WHERE dt IS NULL"), [(8,)])
    # A partition whose directory is gone has no rows; one that was dropped neither.
    world.partition("parts", columns, ["gone", "9"], f"file://{world.files}/nowhere")
    same(sql("SELECT count(*) FROM hive.shop.parts WHERE dt = 'gone'"), [(0,)])
    ThriftHiveMetastore.Client.drop_partition(world.hms, "shop", "parts", ["2024-01-05", "1"], False)
    same(sql("SELECT count(*) FROM hive.shop.parts WHERE dt LIKE '2024%'"), [(29,)])
    # What a partition is written with counts, not what the table says now.
    world.partition("parts", columns, ["other", "1"], odd, serde={"field.delim": ";"})
    has(sql.error("SELECT * FROM hive.shop.parts WHERE dt = 'other'"), "dt=other/n=1", "field.delim")


def parquet_by_name(world):
    sql = world.sql
    directory = world.files / "pq"
    directory.mkdir()
    pq.write_table(pa.table({"B": ["x", "y"], "A": pa.array([1, 2], pa.int32())}), directory / "1.parquet")
    pq.write_table(pa.table({"A": pa.array([3], pa.int32())}), directory / "2.parquet")
    columns = [("a", "bigint"), ("b", "string")]
    world.table("pq", columns, f"file://{directory}", kind="parquet")
    same(sql("SELECT a, b FROM hive.shop.pq ORDER BY a"), [(1, "x"), (2, "y"), (3, None)])
    world.table("pqp", columns, f"file://{directory}", kind="parquet", keys=[("dt", "date")])
    world.partition("pqp", columns, ["2024-02-29"], f"file://{directory}", kind="parquet")
    same(sql("SELECT max(a), min(b), max(CAST(dt AS CHAR)) FROM hive.shop.pqp WHERE dt > '2024-01-01'"),
         [(3, "x", "2024-02-29")])


def what_is_not_read_says_so(world):
    sql = world.sql
    world.table("orc", [("a", "int")], world.write("orc/a", ""), kind="orc")
    has(sql.error("SELECT * FROM hive.shop.orc"), "shop.orc", "ORC", "not supported")
    world.table("v", [("a", "int")], None, view="SELECT a FROM plain")
    has(sql.error("SELECT * FROM hive.shop.v"), "shop.v", "view")
    has(sql.error("SELECT * FROM hive.shop.plian"), "hive.shop.plian", "did you mean 'plain'")
    has(sql.error("SELECT * FROM hive.shp.plain"), "shp", 'did you mean')
    has(sql.error("SELECT * FROM hiv.shop.plain"), "hiv", "hive")
    has(sql.error("INSERT INTO hive.shop.plain VALUES (1)"), "hive", "only be read")
    has(sql.error("DROP TABLE hive.shop.plain"), "hive", "only be read")
    has(sql.error("CREATE CATALOG bad PROPERTIES ('type'='hms')"), "hive.metastore.uris")
    has(sql.error("CREATE CATALOG bad PROPERTIES ('type'='jdbc')"), "jdbc")
    port = free_port()
    sql(f"CREATE CATALOG dead PROPERTIES ('type'='hms', 'hive.metastore.uris'='thrift://127.0.0.1:{port}')")
    has(sql.error("SHOW DATABASES FROM dead"), f"thrift://127.0.0.1:{port}")
    # Of several addresses one is enough.
    sql(f"ALTER CATALOG dead SET PROPERTIES ('hive.metastore.uris'='thrift://127.0.0.1:{port},"
        f"thrift://127.0.0.1:{world.metastore.port}')")
    has(str(sql("SHOW DATABASES FROM dead")), "shop")
    sql("CREATE CATALOG linklocal PROPERTIES ('type'='hms', 'hive.metastore.uris'='thrift://169.254.169.254:80')")
    has(sql.error("SHOW DATABASES FROM linklocal"), "link-local")
    sql("DROP CATALOG linklocal")
    sql("DROP CATALOG dead")


def catalogs_are_shown_and_selected(world):
    sql = world.sql
    world.hms
    sql("CREATE EXTERNAL CATALOG IF NOT EXISTS c2 COMMENT \"second\" PROPERTIES (\"type\"=\"hive\","
        f"\"hive.metastore.uris\"=\"thrift://127.0.0.1:{world.metastore.port}\", \"aws.s3.access_key\"=\"who\", "
        "\"aws.s3.secret_key\"=\"hush\")")
    names = {row[1]: row for row in sql("SHOW CATALOGS")}
    assert {"c2", "hive", "internal"} <= set(names), names
    same((names["c2"][2], names["c2"][6], names["internal"][3]), ("hive", "second", "Yes"))
    shown = sql("SHOW CREATE CATALOG c2")[0][1]
    assert "hush" not in shown and "hush" not in str(sql("SHOW CATALOG c2")), shown
    has(shown, "CREATE CATALOG `c2` COMMENT 'second'", "'type' = 'hive'", "******")
    sql("ALTER CATALOG c2 RENAME c3")
    sql("SWITCH c3")
    same({r[1]: r[3] for r in sql("SHOW CATALOGS")}["c3"], "Yes")
    has(str(sql("SHOW DATABASES")), "shop", "default", "information_schema")
    sql("USE shop")
    has(str(sql("SHOW TABLES")), "plain")
    same(sql("SELECT count(*) FROM plain"), [(2,)])
    same(sql("SELECT p.id, plain.name FROM shop.plain p JOIN plain USING (id) WHERE p.id = 1"), [(1, "ann")])
    same(sql("WITH plain AS (SELECT 7 AS x) SELECT x FROM plain"), [(7,)])
    same(sql("DESC plain")[0][:2], ("id", "bigint"))
    same([r[0] for r in sql("SHOW COLUMNS FROM hive.shop.parts")], ["a", "dt", "n"])
    has(sql("SHOW CREATE TABLE hive.shop.delims")[0][1], "FIELDS TERMINATED BY ','", "file:/")
    same(sql("SELECT DATABASE()"), [("shop",)])
    same(sql("SELECT count(*) > 0 FROM information_schema.tables"), [(1,)])
    sql("SET CATALOG internal")
    sql("CREATE DATABASE IF NOT EXISTS own")
    sql("USE own")
    sql("CREATE TABLE n (id BIGINT) DUPLICATE KEY(id) DISTRIBUTED BY HASH(id) BUCKETS 1")
    sql("INSERT INTO n SELECT id FROM hive.shop.plain")
    same(sql("SELECT count(*) FROM internal.own.n a JOIN c3.shop.plain b ON a.id = b.id"), [(2,)])
    same(sql("SELECT count(*) FROM default_catalog.own.n"), [(2,)])
    sql("CREATE VIEW hv AS SELECT id FROM hive.shop.plain")
    sql("USE hive.shop")
    same(sql("SELECT count(*) FROM internal.own.hv"), [(2,)])
    has(sql.error("CREATE VIEW internal.own.w AS SELECT 1"), "SWITCH")
    has(sql.error("CREATE DATABASE x"), "only be read")
    sql("SWITCH internal")
    # As drivers select it: catalog and database in one name.
    other = Sql(world.server.mysql, database="hive.shop")
    same(other("SELECT count(*) FROM plain"), [(2,)])
    sql("REFRESH CATALOG hive")
    sql("REFRESH DATABASE hive.shop")
    sql("REFRESH EXTERNAL TABLE hive.shop.parts PARTITION ('dt=1')")
    sql("DROP CATALOG c3")
    has(sql.error("SELECT * FROM c3.shop.plain"), "c3")
    has(sql.error("DROP CATALOG internal"), "internal")


def thousands_of_partitions(world):
    sql = world.sql
    columns = [("a", "bigint")]
    where = world.write("many/f", "1\n")
    world.table("many", columns, where, keys=[("p", "int")])
    count = 3000
    sd = world.storage(columns, where, "text", None)
    for start in range(0, count, 500):
        ThriftHiveMetastore.Client.add_partitions(world.hms, [
            Partition(values=[str(i)], dbName="shop", tableName="many", sd=sd, parameters={}, createTime=0, lastAccessTime=0)
            for i in range(start, start + 500)
        ])
    began = time.monotonic()
    same(sql("SELECT count(*), max(p) FROM hive.shop.many"), [(count, count - 1)])
    all_of_them = time.monotonic() - began
    began = time.monotonic()
    same(sql("SELECT sum(p) FROM hive.shop.many WHERE p IN (17, 2900)"), [(2917,)])
    return f"{count} partitions in {all_of_them:.2f} s, two of them in {time.monotonic() - began:.2f} s"


BENCH_COLUMNS = [("id", "bigint"), ("name", "string"), ("tags", "array<string>"), ("note", "string")]
BENCH_ROWS = 200_000


def article_000_files(world):
    """Files of a partitioned table of the article's types; the days, each with its directory below `bench`."""
    days = [f"2023-08-{day + 1:02}" for day in range(4)]
    for day, dt in enumerate(days):
        lines = (f"{i}\x01name {i}\x01a{i % 7}\x02b\x01{'x' * 80}\n" for i in range(day, BENCH_ROWS, 4))
        world.write(f"bench/dt={dt}/f", "".join(lines))
    return days


def article_000(sql, table):
    """The article's three queries: answers checked, the third time of each."""
    notes = []
    for query, expected in [
        (f"SELECT * FROM {table} ORDER BY 1 LIMIT 1", [(0, "name 0", '["a0", "b"]', "x" * 80, "2023-08-01")]),
        (f"SELECT * FROM {table} LIMIT 1", None),
        (f"SELECT COUNT(*) FROM {table}", [(BENCH_ROWS,)]),
    ]:
        for _ in range(3):
            began = time.monotonic()
            found = sql(query)
            took = time.monotonic() - began
        assert len(found) == 1, found
        if expected:
            same(found, expected)
        notes.append(f"{took:.3f} s")
    return ", ".join(notes)


def article_000_queries(world):
    """The three queries of the article, over partitioned text of its types."""
    world.table("bench", BENCH_COLUMNS, f"file://{world.files}/bench", keys=[("dt", "string")])
    for dt in article_000_files(world):
        world.partition("bench", BENCH_COLUMNS, [dt], f"file://{world.files}/bench/dt={dt}")
    return article_000(world.sql, "hive.shop.bench")


def in_a_name_service(world, day):
    """The same files by the name of a service, which properties alone say."""
    sql = world.sql
    service = ", ".join(f"'{key}' = '{value}'" for key, value in services.name_service(world.hdfs_port).items())
    there = f"hdfs://Lake/text/bench/{day}"
    rows = [(BENCH_ROWS // 4,)]
    same(sql(f"SELECT count(*) FROM hdfs('uri' = '{there}/f', 'format' = 'csv', 'column_separator' = '\\x01', 'header' = 'false', {service})"), rows)
    columns = ", ".join(f"{name} {kind}" for name, kind in BENCH_COLUMNS)
    sql(f"CREATE EXTERNAL TABLE far.served ({columns}) STORED AS TEXTFILE LOCATION '{there}' TBLPROPERTIES ({service})")
    same(sql("SELECT count(*) FROM far.served"), rows)
    world.table("served", BENCH_COLUMNS, there)
    sql("CREATE CATALOG served PROPERTIES ('type' = 'hms', 'hive.metastore.uris' = "
        f"'thrift://127.0.0.1:{world.metastore.port}', {service})")
    same(sql("SELECT count(*) FROM served.shop.served"), rows)
    sql("DROP CATALOG served")


def text_in_hdfs(world):
    """The same in HDFS, by the metastore's table and by one of dipper's own, with the data cache off and on."""
    sql = world.sql
    days = article_000_files(world)
    world.hdfs.put(world.files / "bench", "/text/bench")
    location = f"{world.hdfs.url}/text/bench"
    world.table("far_bench", BENCH_COLUMNS, location, keys=[("dt", "string")])
    for dt in days:
        world.partition("far_bench", BENCH_COLUMNS, [dt], f"{location}/dt={dt}")
    sql("CREATE DATABASE far")
    columns = ", ".join(f"{name} {kind}" for name, kind in BENCH_COLUMNS)
    sql(f"CREATE EXTERNAL TABLE far.bench ({columns}) PARTITIONED BY (dt STRING) STORED AS TEXTFILE LOCATION '{location}'")
    same(sql("SELECT dt, count(*), sum(id) FROM far.bench WHERE dt > '2023-08-02' GROUP BY dt ORDER BY dt"),
         [(dt, BENCH_ROWS // 4, sum(range(day, BENCH_ROWS, 4))) for day, dt in enumerate(days) if day > 1])
    same(sql(f"SELECT count(*) FROM files('path' = '{location}/dt={days[0]}/f', 'format' = 'csv', 'column_separator' = '\\x01', 'header' = 'false')"),
         [(BENCH_ROWS // 4,)])
    has(sql.error(f"COPY (SELECT 1) TO '{location}/x.csv'"), "are read, not written")
    in_a_name_service(world, f"dt={days[0]}")
    notes = []
    for cache in ("false", "true"):
        sql(f"SET enable_scan_datacache = {cache}")
        for table in ("hive.shop.far_bench", "far.bench"):
            notes.append(f"cache {cache}, {table}: {article_000(sql, table)}")
    return "; ".join(notes)


def tables_in_s3(world):
    """Text and Parquet in a bucket, partitions in another one and in local files, with the data cache off and on."""
    sql, port = world.sql, world.s3.port
    s3 = fs.S3FileSystem(endpoint_override=f"127.0.0.1:{port}", scheme="http", region="us-east-1",
                         access_key=services.S3_KEY, secret_key=services.S3_SECRET, allow_delayed_open=True)
    sql("CREATE CATALOG bucket PROPERTIES ('type' = 'hms', "
        f"'hive.metastore.uris' = 'thrift://127.0.0.1:{world.metastore.port}', 's3.endpoint' = 'http://127.0.0.1:{port}', "
        f"'s3.access_key' = '{services.S3_KEY}', 's3.secret_key' = '{services.S3_SECRET}', 'use_path_style' = 'true')")
    days = article_000_files(world)
    world.table("s3_text", BENCH_COLUMNS, "s3://lake/bench", keys=[("dt", "string")])
    world.table("s3_parquet", BENCH_COLUMNS, "s3://lake/parquet", kind="parquet", keys=[("dt", "string")])
    places = [f"s3://lake/%s/dt={days[0]}", f"s3://lake/%s/dt={days[1]}", "s3://other/%s", f"file://{world.files}/%s/dt={days[3]}"]
    for day, (dt, place) in enumerate(zip(days, places)):
        rows = range(day, BENCH_ROWS, 4)
        table = pa.table({"id": rows, "name": [f"name {i}" for i in rows], "tags": [[f"a{i % 7}", "b"] for i in rows],
                          "note": ["x" * 80] * len(rows)})  # fmt: skip
        (world.files / f"parquet/dt={dt}").mkdir(parents=True)
        pq.write_table(table, world.files / f"parquet/dt={dt}/f")
        for kind, directory in (("text", "bench"), ("parquet", "parquet")):
            there = place % directory
            if there.startswith("s3://"):
                here = f"{world.files}/{directory}/dt={dt}"
                fs.copy_files(here, there.removeprefix("s3://"), destination_filesystem=s3)
            world.partition(f"s3_{kind}", BENCH_COLUMNS, [dt], there, kind=kind)
    notes = []
    for table in ("s3_text", "s3_parquet"):
        same(sql(f"SELECT dt, count(*), sum(id) FROM bucket.shop.{table} GROUP BY dt ORDER BY dt"),
             [(dt, BENCH_ROWS // 4, sum(range(day, BENCH_ROWS, 4))) for day, dt in enumerate(days)])
        for cache in ("false", "true"):
            sql(f"SET enable_scan_datacache = {cache}")
            notes.append(f"cache {cache}, {table}: {article_000(sql, f'bucket.shop.{table}')}")
    # Without the keys the places are the same, and closed.
    has(sql.error("SELECT count(*) FROM hive.shop.s3_text"), "s3://lake/bench")
    sql("DROP CATALOG bucket")
    return "; ".join(notes)


def a_metastore_that_restarts(world):
    """Connections that were open before are made anew."""
    sql = world.sql
    sql("SHOW DATABASES FROM hive")
    world.metastore.stop()
    has(sql.error("SELECT count(*) FROM hive.shop.plain"), f"thrift://127.0.0.1:{world.metastore.port}")
    same(sql("SELECT 1"), [(1,)])


ALL = [
    text_tables_with_every_delimiter,
    partitions_are_those_of_the_metastore,
    parquet_by_name,
    what_is_not_read_says_so,
    catalogs_are_shown_and_selected,
    thousands_of_partitions,
    article_000_queries,
    text_in_hdfs,
    tables_in_s3,
    a_metastore_that_restarts,
]
