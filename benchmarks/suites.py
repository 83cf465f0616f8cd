"""Tables and queries of the benchmarks: read from the .sql files, which are in dipper's (Doris's) spelling, and put into
the spelling of DuckDB and ClickHouse."""

import re
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent


@dataclass
class Column:
    name: str
    kind: str  # SMALLINT, INT, BIGINT, DECIMAL(p, s), DOUBLE, BOOLEAN, STRING, DATE, DATETIME
    nullable: bool


@dataclass
class Table:
    name: str
    columns: list
    key: list
    text: str  # dipper's statement
    file_columns: list  # as they come in the data file

    def ddl(self, buckets=None, name=None, unique=False):
        """dipper's statement, with another number of buckets, under another name, as UNIQUE KEY table."""
        text = self.text
        if buckets is not None:
            text = re.sub(r"BUCKETS \d+", f"BUCKETS {buckets}", text)
        if name is not None:
            text = re.sub(rf"`?\b{self.name}\b`? \(", f"{name} (", text, count=1)
        if unique:
            text = text.replace("DUPLICATE KEY", "UNIQUE KEY")
            text = text.replace("PROPERTIES (", 'PROPERTIES ("enable_unique_key_merge_on_write" = "true", ')
        return text

    def spread(self):
        """The same table so that conditions leave nothing out: no partitions, and `hits` sorted by a random number."""
        text = re.sub(r"PARTITION BY .*?\n\)\n", "", self.text, flags=re.S)
        key = self.key
        if self.name == "hits":
            key = ["WatchID"]
            line = re.search(r"^ *`?WatchID`? [^\n]*\n", text, flags=re.M).group()
            text = text.replace(line, "", 1)
            text = re.sub(r"\(\n", lambda _: "(\n" + line.rstrip().rstrip(",") + ",\n", text, count=1)
            text = re.sub(r"DUPLICATE KEY ?\([^)]*\)", "DUPLICATE KEY (WatchID)", text)
        table = parse_tables(text)[self.name]
        return Table(self.name, table.columns, key, table.text, self.file_columns)

    def only(self, names):
        """The same table with these columns."""
        columns = [column for column in self.columns if column.name in names]
        file_columns = [column for column in self.file_columns if column.name in names]
        lines = ",\n".join(f"    {c.name} {c.kind}{'' if c.nullable else ' NOT NULL'}" for c in columns)
        tail = self.text[self.text.index("DUPLICATE KEY"):]
        return Table(self.name, columns, self.key, f"CREATE TABLE {self.name} (\n{lines}\n)\n{tail}", file_columns)


KINDS = {"datev2": "DATE", "datetimev2": "DATETIME", "varchar": "STRING", "char": "STRING", "text": "STRING"}
DUCKDB = {"STRING": "VARCHAR", "DATETIME": "TIMESTAMP"}
CLICKHOUSE = {"SMALLINT": "Int16", "INT": "Int32", "BIGINT": "Int64", "DOUBLE": "Float64", "BOOLEAN": "Bool",
              "STRING": "String", "DATE": "Date", "DATETIME": "DateTime('UTC')"}  # fmt: skip


def parse_tables(text):
    tables = {}
    for statement in filter(None, (part.strip() for part in text.split(";"))):
        name = re.match(r"CREATE TABLE (?:IF NOT EXISTS )?`?(\w+)`?", statement).group(1)
        body = statement[statement.index("(") + 1 : re.search(r"\n\)", statement).start()]
        columns = []
        for line in filter(None, (line.strip().rstrip(",") for line in body.split("\n"))):
            column, kind = re.match(r"`?(\w+)`? (\w+(?:\(\d+, ?\d+\))?)", line).groups()
            columns.append(Column(column, KINDS.get(kind.lower(), kind.upper()), "NOT NULL" not in line))
        key = re.search(r"DUPLICATE KEY ?\(([^)]*)\)", statement).group(1)
        tables[name] = Table(name, columns, [part.strip(" `") for part in key.split(",")], statement, columns)
    return tables


def read_queries(path):
    """(name, SQL) of each statement below a `-- name` line."""
    parts = re.split(r"^-- (\S+)\n", path.read_text(), flags=re.M)[1:]
    return [(name, sql.strip().rstrip(";")) for name, sql in zip(parts[::2], parts[1::2])]


def suite(name):
    directory = HERE / name
    queries = directory / "queries.sql"
    tables = parse_tables((directory / "create.sql").read_text())
    if "hits" in tables:
        tables["hits"].file_columns = hits_file_order(tables["hits"].columns)
    return tables, read_queries(queries) if queries.exists() else []


def hits_file_order(columns):
    """Columns as hits.tsv has them: Doris's table begins with the key, the file does not."""
    by_name = {c.name: c for c in columns}
    names = [c.name for c in columns[5:]]
    for name, before in (("WatchID", "JavaEnable"), ("EventTime", "ClientIP"), ("EventDate", "ClientIP"),
                         ("CounterID", "ClientIP"), ("UserID", "CounterClass")):  # fmt: skip
        names.insert(names.index(before), name)
    return [by_name[name] for name in names]


def clickhouse_kind(column):
    kind = CLICKHOUSE.get(column.kind, column.kind.replace("DECIMAL", "Decimal"))
    return f"Nullable({kind})" if column.nullable else kind


HIVE, TSV, TBL = "hive", "tsv", "tbl"  # ^A and \N; tab; | also behind the last field


def duckdb_ddl(table):
    columns = ", ".join(
        f"{c.name} {DUCKDB.get(c.kind, c.kind)}{'' if c.nullable else ' NOT NULL'}" for c in table.columns
    )
    return f"CREATE TABLE {table.name} ({columns})"


def duckdb_source(table, path, form):
    columns = {c.name: DUCKDB.get(c.kind, c.kind) for c in table.file_columns}
    if form == TBL:
        columns["_"] = "VARCHAR"
    delimiter = {HIVE: "\x01", TSV: "\t", TBL: "|"}[form]
    typed = ", ".join(f"'{name}': '{kind}'" for name, kind in columns.items())
    return (
        f"SELECT {', '.join(c.name for c in table.columns)} FROM read_csv('{path}', delim='{delimiter}', quote='', "
        f"escape='', nullstr='\\N', header=false, auto_detect=false, columns={{{typed}}})"
    )


def clickhouse_ddl(table, settings="", codec=""):
    """`codec` is for strings and numbers alike, as `CODEC(ZSTD(1))`."""
    columns = ", ".join(f"`{c.name}` {clickhouse_kind(c)} {codec}" for c in table.columns)
    settings = f"SETTINGS {settings}" if settings else ""
    return f"CREATE TABLE {table.name} ({columns}) ENGINE = MergeTree ORDER BY ({', '.join(table.key)}) {settings}"


def clickhouse_source(table, path, form):
    """The SELECT and the settings that reading takes."""
    typed = [f"`{c.name}` {clickhouse_kind(c)}" for c in table.file_columns]
    if form == TBL:
        typed.append("`_` String")
    names = ", ".join(f"`{c.name}`" for c in table.columns)
    kind, delimiter = {HIVE: ("CSV", "\x01"), TSV: ("TSV", None), TBL: ("CSV", "|")}[form]
    settings = f", format_csv_delimiter='{delimiter}'" if delimiter else ""
    return f"SELECT {names} FROM file('{path}', '{kind}', $${', '.join(typed)}$$)", settings


def duckdb_query(sql):
    """MySQL's spelling of a query of these suites in DuckDB's."""
    sql = sql.replace("\\\\", "\\").replace("length(", "strlen(")
    return re.sub(r"DATE_FORMAT\((\w+), '%Y-%m-%d %H:%i:00'\)", r"strftime(\1, '%Y-%m-%d %H:%M:00')", sql)


def clickhouse_query(sql):
    """MySQL's spelling is ClickHouse's, but for one letter."""
    return sql.replace("AVG(length(", "avg(length(")


def stream_load_headers(table, form):
    """Of Doris's Stream Load, for a file with the columns of `table.file_columns`."""
    names = [c.name for c in table.file_columns] + (["dummy"] if form == TBL else [])
    separator = {HIVE: "\\x01", TSV: "\\x09", TBL: "|"}[form]
    return {"format": "csv", "column_separator": separator, "columns": ",".join(names)}
