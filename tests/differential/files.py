"""A table's rows as files of other programs: Parquet by DuckDB, CSV and Hive text by hand."""

from schema import NESTED, TYPES

# What Hive calls other than dipper does; what it does not have is text there, and cast by a view.
HIVE = {"DATETIME": "TIMESTAMP", "DATETIME(3)": "TIMESTAMP", "DATETIME(6)": "TIMESTAMP", "LARGEINT": "STRING", "JSON": "STRING"}


def forms(table):
    """The formats that can hold the table's values."""
    nested = any(TYPES[t].kind in NESTED for _, t in table.columns)
    return ["parquet"] if nested else ["parquet", "csv", "hive text"]


def statements(table, form, directory, duck, database):
    """Writes the rows; the statements that make a table of this name in the database."""
    directory.mkdir(parents=True)
    return {"parquet": parquet, "csv": csv, "hive text": hive_text}[form](table, directory, duck, f"{database}.{table.name}")


def hive_table(table, directory, name, stored):
    columns = ", ".join(f"{n} {HIVE.get(t, t)}" for n, t in table.columns)
    casts = ", ".join(f"CAST({n} AS {t}) AS {n}" if t in HIVE else n for n, t in table.columns)
    return [
        f"CREATE EXTERNAL TABLE {name}_file ({columns}) {stored} LOCATION '{directory}'",
        f"CREATE VIEW {name} AS SELECT {casts} FROM {name}_file",
    ]


def parquet(table, directory, duck, name):
    columns = ", ".join(f"CAST({n} AS {TYPES[t].parquet}) AS {n}" for n, t in table.columns)
    half = len(table.rows) // 2
    for part, rows in enumerate([f"LIMIT {half}", f"OFFSET {half}"]):
        query = f"SELECT {columns} FROM (SELECT * FROM {table.name} ORDER BY rowid {rows})"
        duck.execute(f"COPY ({query}) TO '{directory}/{part}.parquet' (FORMAT parquet)")
    return hive_table(table, directory, name, "STORED AS PARQUET")


def hive_text(table, directory, duck, name):
    lines = ("\x01".join("\\N" if v is None else plain(v) for v in row) + "\n" for row in table.rows)
    (directory / "0.txt").write_text("".join(lines), encoding="utf-8")
    return hive_table(table, directory, name, "STORED AS TEXTFILE")


def csv(table, directory, duck, name):
    quoted = lambda v: "\\N" if v is None else '"' + plain(v).replace('"', '""') + '"'
    head = ",".join(n for n, _ in table.columns) + "\n"
    (directory / "0.csv").write_text(head + "".join(",".join(map(quoted, row)) + "\n" for row in table.rows), encoding="utf-8")
    casts = ", ".join(f"CAST({n} AS {t}) AS {n}" for n, t in table.columns)
    options = "'format' = 'csv', 'header' = 'true', 'column_separator' = ',', 'enclose' = '\"', 'null_format' = '\\\\N', 'all_varchar' = 'true'"
    return [f"CREATE VIEW {name} AS SELECT {casts} FROM files('path' = '{directory}/0.csv', {options})"]


def plain(v):
    return ("true" if v else "false") if isinstance(v, bool) else str(v)
