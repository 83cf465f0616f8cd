#!/usr/bin/env python3
"""Reads Parquet files that other writers wrote, and asks what is in them: `tests/files/run.py BIN`. Then loads columns
of types that dipper does not write.

make.py says where files and answers come from.
"""

import concurrent.futures
import io
import json
import math
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from server import Server  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
TIME = re.compile(r"\d{4}-\d\d-\d\dT")


def equal(have, want):
    if isinstance(want, float):
        return have is not None and math.isclose(float(have), want, rel_tol=1e-6)
    if isinstance(want, str) and isinstance(have, (int, float)) and not isinstance(have, bool):
        return str(have) == want
    if isinstance(have, bool):
        have = str(int(have))
    if isinstance(have, str) and TIME.match(have):
        # However many digits the type has.
        have, want = ((v.replace("T", " ") + ".").rstrip("0.") for v in (have, str(want)))
    return have == want


def fault(binary, case):
    """What is wrong with the answer to a case; nothing if it is right."""
    sql = case["sql"].replace("$D", str(HERE / "data"))
    done = subprocess.run([binary, "sql", "-q", "--format", "jsonl", sql], capture_output=True, text=True, timeout=120)
    if "error" in case:
        return None if done.returncode and re.search(case["error"], done.stderr) else f"no error as wanted: {done.stdout}{done.stderr}"
    if done.returncode or "panicked" in done.stderr:
        return done.stderr.strip()
    rows = [list(json.loads(line, parse_float=str, parse_int=str).values()) for line in done.stdout.splitlines() if line.strip()]
    if len(rows) != len(case["want"]):
        return f"{len(rows)} rows, not {len(case['want'])}: {rows}"
    for have, want in zip(rows, case["want"]):
        wrong = [n for n, (a, b) in enumerate(zip(have, want)) if not equal(a, b)]
        if wrong or len(have) != len(want):
            return f"columns {wrong} of {have}, not {want}\n     {sql}"
    return None


def columns():
    """Columns of a body: type of the table's column, array, texts of what is stored."""
    import pyarrow as pa

    whole, at = pa.int64(), pa.timestamp("us", "UTC")
    id = bytes.fromhex("00112233445566778899aabbccddeeff")
    yield "ARRAY<INT>", pa.array([[1, 2], None], pa.large_list(whole)), ["[1, 2]", None]
    yield "ARRAY<INT>", pa.array([[1, 2], [3, None]], pa.list_(whole, 2)), ["[1, 2]", "[3, null]"]
    yield "ARRAY<ARRAY<INT>>", pa.array([[[1]], []], pa.large_list(pa.large_list(whole))), ["[[1]]", "[]"]
    yield "STRUCT<a:ARRAY<INT>>", pa.array([{"a": [1]}, None], pa.struct([("a", pa.large_list(whole))])), ['{"a":[1]}', None]
    yield "VARCHAR(20)", pa.array([b"abcd", None], pa.binary(4)), ["abcd", None]
    yield "VARCHAR(40)", pa.array([id, None], pa.uuid()), ["00112233-4455-6677-8899-aabbccddeeff", None]
    yield "VARCHAR(20)", pa.array([0, 86_400_000], pa.date64()), ["1970-01-01", "1970-01-02"]
    yield "VARCHAR(20)", pa.array(["a", None]).dictionary_encode(), ["a", None]
    yield "DATETIME", pa.array([0, None], at), ["1970-01-01 09:00:00", None]
    yield "ARRAY<DATETIME>", pa.array([[0, None], []], pa.list_(at)), ['["1970-01-01 09:00:00", null]', "[]"]
    yield "STRUCT<t:DATETIME>", pa.array([{"t": 0}, None], pa.struct([("t", at)])), ['{"t":"1970-01-01 09:00:00"}', None]
    yield "MAP<STRING,DATETIME>", pa.array([[("k", 0)], None], pa.map_(pa.string(), at)), ['{"k":"1970-01-01 09:00:00"}', None]


def refused():
    """Columns that have no conversion to the type of the table's column."""
    import pyarrow as pa

    yield "MAP<STRING,INT>", pa.array([[1]], pa.large_list(pa.int64()))
    yield "MAP<STRING,INT>", pa.array([{"k": 1}], pa.struct([("k", pa.int64())]))
    yield "STRUCT<k:INT>", pa.array([[1]], pa.list_(pa.int64()))
    yield "ARRAY<INT>", pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64()))
    yield "STRUCT<m:MAP<STRING,INT>,b:INT>", pa.array([{"m": {"k": 1}}], pa.struct([("m", pa.struct([("k", pa.int64())]))]))


def loads(binary):
    """What is wrong with loads of such columns, as Parquet and as a stream of Arrow, and with queries over the file."""
    import pyarrow as pa
    import pyarrow.parquet

    def body(array, form):
        table, out = pa.table({"v": array, "k": pa.array(range(len(array)))}), io.BytesIO()
        if form == "parquet":
            pyarrow.parquet.write_table(table, out)
        else:
            with pa.ipc.new_stream(out, table.schema) as writer:
                writer.write_table(table)
        return out.getvalue()

    wrong = []
    with tempfile.TemporaryDirectory() as directory, Server(binary, directory, "--allow-dir", directory) as server:
        def load(sql_type, array, form):
            server.rows("DROP TABLE IF EXISTS d.t")
            server.rows(f"CREATE TABLE d.t (k INT, v {sql_type}) DUPLICATE KEY(k) DISTRIBUTED BY HASH(k) BUCKETS 1")
            return server.stream_load("d", "t", body(array, form), {"format": form, "timezone": "Asia/Tokyo"})

        server.rows("CREATE DATABASE d")
        server.rows("SET time_zone = 'Asia/Tokyo'")
        for sql_type, array, want in columns():
            for form in ("parquet", "arrow"):
                answer = load(sql_type, array, form)
                have = [row[0] for row in server.rows("SELECT CAST(v AS STRING) FROM d.t ORDER BY k")]
                if have != want:
                    wrong.append(f"{form} {array.type} as {sql_type}: {have}, not {want}: {answer.get('Message')}")
            path = pathlib.Path(directory) / "v.parquet"
            path.write_bytes(body(array, "parquet"))
            have = [row[0] for row in server.rows(f"SELECT CAST(CAST(v AS {sql_type}) AS STRING) FROM '{path}' ORDER BY k")]
            if have != want:
                wrong.append(f"query of {array.type} as {sql_type}: {have}, not {want}")
        for sql_type, array in refused():
            for form in ("parquet", "arrow"):
                answer = load(sql_type, array, form)
                if answer["Status"] != "Fail" or not server.is_running():
                    wrong.append(f"{form} {array.type} as {sql_type}: {answer}")
    return wrong


def main():
    binary, cases = sys.argv[1], json.loads((HERE / "cases.json").read_text())
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        faults = list(pool.map(lambda case: fault(binary, case), cases))
    for case, wrong in zip(cases, faults):
        if wrong:
            print(f"FAIL {case['name']}: {wrong}")
    bad = sum(wrong is not None for wrong in faults)
    print(f"files: {len(cases) - bad} of {len(cases)} answers are right")
    wrong = loads(binary)
    for fault_of_load in wrong:
        print(f"FAIL {fault_of_load}")
    print(f"files: {len(wrong)} loads and queries of rare types are wrong")
    sys.exit(bad > 0 or bool(wrong))


if __name__ == "__main__":
    main()
