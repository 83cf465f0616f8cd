"""Makes the files in data/ and cases.json, what must be read of them (pyarrow 18 or later).

Expected values are those that were written; where pyarrow can read a file its rows are compared with them here. Each way of
writing is one that public files have: writers before parquet-mr 1.8, pandas, Impala, Hive, DuckDB, parquet-cpp of many versions.
"""

import datetime as dt
import decimal
import io
import json
import math
import pathlib
import struct
import uuid

import pyarrow as pa
import pyarrow.parquet as pq

import raw
from raw import BYTES, DOUBLE, FIXED, FLOAT, INT32, INT64, INT96, OPTIONAL, REPEATED, REQUIRED, Column, Paged, element, flat, parquet, statistics, stored

HERE = pathlib.Path(__file__).parent
CASES = []


def text(value):
    """A value as dipper prints it."""
    if value is None:
        return None
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, dt.datetime):
        return value.isoformat(" ") if value.microsecond else value.isoformat(" ", "seconds")
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value
    return value if isinstance(value, str) else str(value)


def literal(value):
    if isinstance(value, bool) or isinstance(value, int):
        return str(int(value))
    if isinstance(value, float):
        return "CAST('NaN' AS DOUBLE)" if math.isnan(value) else repr(value)
    if isinstance(value, decimal.Decimal):
        return str(value)
    return "'" + text(value).replace("'", "''") + "'"


def order(value):
    """NaN is the greatest number."""
    return (math.isnan(value), value) if isinstance(value, float) else value


def column_cases(name, column, values, count, of=None):
    """Counts, extremes and conditions over one column."""
    file, there = f"'$D/{name}'", [v for v in values if v is not None]
    ask, want = [], []

    def put(what, answer, where=""):
        ask.append(f"(SELECT {what} FROM {file}{' WHERE ' + where if where else ''})")
        want.append(text(answer))

    put("count(*)", count)
    put(f"count({column})", len(there))
    put("count(*)", count - len(there), f"{column} IS NULL")
    put("count(*)", len(there), f"{column} IS NOT NULL")
    if there and not isinstance(there[0], bool):
        low, high = min(there, key=order), max(there, key=order)
        put(f"min({column})", low)
        if isinstance(high, float) and math.isnan(high):
            put(f"isnan(max({column}))", True)
        else:
            put(f"max({column})", high)
        for v in dict.fromkeys([low, high, there[len(there) // 2]]):
            if isinstance(v, float) and math.isnan(v):
                continue
            e = literal(v)
            for op, test in (("=", lambda a: a == v), ("<>", lambda a: a != v), (">", lambda a: order(a) > order(v)), ("<=", lambda a: order(a) <= order(v))):
                put("count(*)", sum(test(a) for a in there), f"{column} {op} {e}")
            put("count(*)", sum(a != v for a in there), f"{column} NOT IN ({e})")
    CASES.append({"name": f"{name} {column}", "sql": "SELECT " + ", ".join(ask), "want": [want]})


def put(name, data):
    (HERE / "data" / name).write_bytes(data)
    return name


def of_pyarrow():
    """The same rows by all ways in which pyarrow writes."""
    n = 40
    pick = lambda values: [None if i % 7 == 3 else values[i * 11 % len(values)] for i in range(n)]  # noqa: E731
    columns = {
        "b": (pa.bool_(), pick([True, False])),
        "i8": (pa.int8(), pick([-128, 0, 127])),
        "i32": (pa.int32(), pick([-2**31, -1, 0, 5, 2**31 - 1])),
        "u32": (pa.uint32(), pick([0, 1, 2**31, 2**32 - 1])),
        "i64": (pa.int64(), pick([-2**63, 7, 2**63 - 1])),
        "u64": (pa.uint64(), pick([0, 2**63, 2**64 - 1])),
        "f": (pa.float32(), pick([-1.5, 0.5, 2.25])),
        "d": (pa.float64(), pick([-1.5, 0.25, 1e300])),
        "x": (pa.float64(), pick([1.0, float("nan"), -2.0])),
        "s": (pa.string(), pick(["", "a", "é", "日本", "x" * 80])),
        "dec9": (pa.decimal128(9, 2), [v if v is None else decimal.Decimal(v) for v in pick(["-12.50", "0.01", "9999999.99"])]),
        "dec18": (pa.decimal128(18, 6), [v if v is None else decimal.Decimal(v) for v in pick(["-1.000001", "3.500000"])]),
        "dec38": (pa.decimal128(38, 9), [v if v is None else decimal.Decimal(v) for v in pick(["-12345678901234567890.123456789", "1.000000000"])]),
        "day": (pa.date32(), pick([dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(9999, 12, 31)])),
        "us": (pa.timestamp("us"), pick([dt.datetime(1, 1, 1), dt.datetime(1969, 12, 31, 23, 59, 59, 999999), dt.datetime(9999, 12, 31, 23, 59, 59)])),
    }
    table = pa.table({k: pa.array(v, t) for k, (t, v) in columns.items()})
    ways = {
        "v1": dict(compression="snappy", data_page_version="1.0"),
        "v2": dict(compression="zstd", data_page_version="2.0", write_page_index=True),
        "plain": dict(compression="gzip", use_dictionary=False, data_page_size=64, write_page_index=True),
        "delta": dict(compression="brotli", use_dictionary=False, version="2.6", store_schema=False,
                      column_encoding={"i32": "DELTA_BINARY_PACKED", "s": "DELTA_BYTE_ARRAY", "d": "BYTE_STREAM_SPLIT"}),
        "int_decimals": dict(compression="lz4", store_decimal_as_integer=True, store_schema=False),
        "bare": dict(compression="none", write_statistics=False, store_schema=False),
    }
    for way, options in ways.items():
        sink = io.BytesIO()
        pq.write_table(table, sink, row_group_size=15, **options)
        name = put(f"pyarrow_{way}.parquet", sink.getvalue())
        for column, (_, values) in columns.items():
            column_cases(name, column, values, n)


def nanoseconds():
    values = [-1, 0, 1704067200000000999, None, -62135596800000000]
    wanted = [None if v is None else dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=v // 1000) for v in values]
    table = pa.table({"t": pa.array(values, pa.timestamp("ns")), "z": pa.array([{"t": v} for v in values], pa.struct([("t", pa.timestamp("ns"))]))})
    for way, options in {"ns": {}, "ns_bare": dict(store_schema=False)}.items():
        sink = io.BytesIO()
        pq.write_table(table, sink, **options)
        column_cases(put(f"{way}.parquet", sink.getvalue()), "t", wanted, 5)
        CASES.append({"name": f"{way} nested", "sql": f"SELECT z.t FROM '$D/{way}.parquet' WHERE z.t < '1970-01-01' ORDER BY 1",
                      "want": [[text(w)] for w in sorted(w for w in wanted if w and w.year < 1970)]})
    times = [dt.datetime(9999, 12, 31, 23, 59, 59, 999999), dt.datetime(1, 1, 1), None, dt.datetime(2006, 1, 2, 7, 4, 5), dt.datetime(1969, 12, 31, 23, 59, 59, 999999)]

    def int96(t):
        t = t - dt.datetime(1970, 1, 1)
        return struct.pack("<QI", (t.seconds * 10**6 + t.microseconds) * 1000 + 999, t.days + 2440588)

    written = [t and int96(t) for t in times]
    lie = statistics(written[1], written[3], 1)
    column_cases(put("int96.parquet", flat(INT96, written, "t", stats=lie)), "t", times, 5)
    column_cases(put("int96_deprecated.parquet", flat(INT96, written, "t", stats=statistics(written[3], written[1], 1, deprecated=True), orders=False)), "t", times, 5)


def told():
    """Statistics that are not what they seem."""
    old = dict(writer="parquet-mr version 1.6.0 (build 6aa2)", orders=False)
    words = ["a", "é", "b", None, "z"]
    by_bytes = [w and w.encode() for w in words]
    signed = statistics("é".encode(), b"b", 1, deprecated=True)
    column_cases(put("old_text.parquet", flat(BYTES, by_bytes, converted=raw.UTF8, stats=signed, **old)), "c", words, 5)
    wrong = statistics(b"b", b"b", 1, deprecated=True)
    column_cases(put("parquet_251.parquet", flat(BYTES, by_bytes, converted=raw.UTF8, stats=wrong, **old)), "c", words, 5)
    unsigned = [1, 2**32 - 1, 5, None]
    as_signed = [v if v is None or v < 2**31 else v - 2**32 for v in unsigned]
    low, high = stored(INT32, -1), stored(INT32, 5)
    column_cases(put("old_uint32.parquet", flat(INT32, as_signed, converted=raw.UINT_32, stats=statistics(low, high, 1, deprecated=True), **old)), "c", unsigned, 4)
    column_cases(put("turned_uint32.parquet", flat(INT32, as_signed, converted=raw.UINT_32, stats=statistics(low, high, 1))), "c", unsigned, 4)
    numbers = [5, 7, None, 6]
    bounds = stored(INT64, 0), stored(INT64, 100)
    column_cases(put("inexact.parquet", flat(INT64, numbers, stats=statistics(*bounds, 1, exact=False))), "c", numbers, 4)
    column_cases(put("nulls_unsaid.parquet", flat(INT64, numbers, stats=statistics(stored(INT64, 5), stored(INT64, 7)))), "c", numbers, 4)
    liar = dict(writer="parquet-cpp-arrow version 4.0.1")
    column_cases(put("nulls_zero.parquet", flat(BYTES, by_bytes, converted=raw.UTF8, stats=statistics(b"a", "é".encode(), 0), **liar)), "c", words, 5)
    column_cases(put("text_cut.parquet", flat(BYTES, by_bytes, converted=raw.UTF8, stats=statistics(b"a", b"\xc4", 1))), "c", words, 5)
    for kind, name in ((DOUBLE, "double"), (FLOAT, "float")):
        floats = [1.0, float("nan"), None, 1.5]
        for way, (low, high) in {"around": (1.0, 1.5), "nan": (float("nan"), float("nan")), "half": (1.0, float("nan"))}.items():
            data = flat(kind, floats, stats=statistics(stored(kind, low), stored(kind, high), 1))
            column_cases(put(f"nan_{name}_{way}.parquet", data), "c", floats, 4)
    zeros = [0.0, -0.0]
    for way, bound in {"plus": 0.0, "minus": -0.0}.items():
        name = put(f"zero_{way}.parquet", flat(DOUBLE, zeros, stats=statistics(stored(DOUBLE, bound), stored(DOUBLE, bound), 0)))
        CASES.append({"name": name, "sql": f"SELECT count(*) FROM '$D/{name}' WHERE c >= -0.0 AND c <= 0.0", "want": [["2"]]})
    money = [decimal.Decimal(v).scaleb(-2) for v in (100, 200, 2400, -300)] + [None]
    fixed = [None if v is None else int(v.scaleb(2)).to_bytes(11, "big", signed=True) for v in money]
    old_bounds = statistics(fixed[1], fixed[2], 1, deprecated=True)
    column_cases(put("old_decimal.parquet", flat(FIXED, fixed, converted=raw.DECIMAL, length=11, scale=2, precision=25, stats=old_bounds, **old)), "c", money, 5)


def odd():
    """Types and schemas as other readers take them."""
    two = [decimal.Decimal(v).scaleb(-2) for v in (-1, 255, 1, -200, 5)]
    long = [b"\xff", b"\x00\xff", b"\x01", b"\xff\x38", b"\x00" * 17 + b"\x05"]
    column_cases(put("decimal_long.parquet", flat(BYTES, long, converted=raw.DECIMAL, scale=2, precision=12)), "c", two, 5)
    whole = [decimal.Decimal(v) for v in (-7, 12)] + [None]
    column_cases(put("decimal_no_scale.parquet", flat(INT32, [-7, 12, None], converted=raw.DECIMAL, precision=9)), "c", whole, 3)
    column_cases(put("converted_24.parquet", flat(INT32, [None, None], converted=24)), "c", [None, None], 2)
    column_cases(put("dictionary_0.parquet", flat(INT64, [3, None, 4], dictionary_at=0)), "c", [3, None, 4], 3)
    column_cases(put("index_rows.parquet", flat(INT64, [3, None, 4], index=(4, 50, 7))), "c", [3, None, 4], 3)
    column_cases(put("index_outside.parquet", flat(INT64, [3, None, 4], index=(10**9, 50, 0))), "c", [3, None, 4], 3)
    months = struct.pack("<III", 14, 3, 4 * 3600 * 1000)
    name = put("interval.parquet", flat(FIXED, [months, None], converted=raw.INTERVAL, length=12))
    CASES.append({"name": name, "sql": f"SELECT CAST('2024-01-01' AS DATETIME) + c FROM '$D/{name}' WHERE c IS NOT NULL", "want": [["2025-03-04 04:00:00"]]})
    ids = [uuid.UUID(int=i * 0x1234567890abcdef1234567890abcdef % 2**128) for i in (1, 5, 9)]
    column = pa.array([i.bytes for i in ids] + [None], pa.uuid())
    table = pa.table({"id": column, "l": pa.ListArray.from_arrays(pa.array([0, 1, 2, 3, 4], pa.int32()), column)})
    sink = io.BytesIO()
    pq.write_table(table, sink)
    name = put("uuid.parquet", sink.getvalue())
    column_cases(name, "id", [str(i) for i in ids] + [None], 4)
    CASES.append({"name": "uuid nested", "sql": f"SELECT l[1] FROM '$D/{name}' WHERE l[1] = '{ids[1]}'", "want": [[str(ids[1])]]})
    same = parquet([element("schema", children=2), element("a", INT32, REQUIRED), element("a", INT32, REQUIRED)], 2,
                   [Column(["a"], INT32, [1, 2]), Column(["a"], INT32, [30, 40])])
    name = put("same_names.parquet", same)
    CASES.append({"name": name, "sql": f"SELECT * FROM '$D/{name}' ORDER BY 1", "want": [["1", "30"], ["2", "40"]]})
    maps = parquet([element("schema", children=2), element("id", INT32, REQUIRED), element("l", repetition=OPTIONAL, children=1, converted=raw.LIST),
                    element("array", repetition=REPEATED, children=1, converted=raw.MAP), element("key_value", repetition=REPEATED, children=2, converted=raw.MAP_KEY_VALUE),
                    element("key", BYTES, REQUIRED, converted=raw.UTF8), element("value", INT32, OPTIONAL)], 2,
                   [Column(["id"], INT32, [1, 2]),
                    Column(["l", "array", "key_value", "key"], BYTES, [b"a", b"b", b"c"], [3, 3, 3, 0], [0, 2, 1, 0], (3, 2)),
                    Column(["l", "array", "key_value", "value"], INT32, [1, 2, 3], [4, 4, 4, 0], [0, 2, 1, 0], (4, 2))])
    name = put("maps_in_list.parquet", maps)
    CASES.append({"name": name, "sql": f"SELECT id, cardinality(l), l[1]['b'], l[2]['c'] FROM '$D/{name}' ORDER BY id", "want": [["1", "2", "2", "3"], ["2", None, None, None]]})
    nothing = parquet([element("schema", children=0)], 2, [])
    name = put("no_columns.parquet", nothing)
    CASES.append({"name": name, "sql": f"SELECT count(*) FROM '$D/{name}'", "error": "no_columns.parquet.*no columns"})


def pages():
    """Pages that say they are not packed, and page indexes of other pages than there are."""
    numbers = [None if n % 5 == 3 else n * 7 for n in range(40)]
    words = [v if v is None else f"w{v:03}".encode() for v in numbers]
    schema = [element("schema", children=3), element("id", INT32, OPTIONAL), element("c", INT64, OPTIONAL),
              element("s", BYTES, OPTIONAL, converted=raw.UTF8)]
    sizes = [10, 10, 10, 10]

    def table(name, claimed=None, codec=None, writer="dipper-test"):
        columns = [Paged("id", INT32, list(range(40)), [40], claimed and [0], codec), Paged("c", INT64, numbers, sizes, claimed, codec),
                   Paged("s", BYTES, words, sizes, claimed, codec)]
        put(name, parquet(schema, 40, columns, writer=writer))
        for column, values in (("c", numbers), ("s", [w and w.decode() for w in words])):
            column_cases(name, column, values, 40)
        ask = f"SELECT id, c, s FROM '$D/{name}' WHERE {{}} ORDER BY id"
        row = lambda n: [str(n), text(numbers[n]), words[n] and words[n].decode()]  # noqa: E731
        for where, found in (("c >= 70 AND c < 84", [10, 11]), ("s = 'w140' OR s = 'w273'", [20, 39]), ("c IS NULL AND id > 20", [23, 28, 33, 38]),
                             ("id IN (9, 10, 19, 20)", [9, 10, 19, 20])):
            CASES.append({"name": f"{name} rows", "sql": ask.format(where), "want": [row(n) for n in found]})
        CASES.append({"name": f"{name} sums", "sql": f"SELECT sum(id), sum(c), count(s) FROM '$D/{name}'",
                      "want": [[str(sum(range(40))), str(sum(v for v in numbers if v)), str(40 - words.count(None))]]})

    # Arrow's C++ writer did so under both of its names.
    for codec, writer in (("snappy", "parquet-cpp version 1.5.1-SNAPSHOT"), ("gzip", "parquet-cpp version 1.5.1-SNAPSHOT"),
                          ("zstd", "parquet-cpp-arrow version 2.0.0")):
        table(f"v2_packed_{codec}.parquet", codec=codec, writer=writer)
    for way, claimed in {"right": [0, 10, 20, 30], "early": [0, 5, 20, 30], "late": [0, 10, 29, 31], "few": [0, 10], "last": [0, 10, 20, 39],
                         "none": [0, 0, 0, 0], "merged": [0, 10, 20]}.items():
        table(f"index_{way}.parquet", claimed=claimed)


def encrypted():
    """What is encrypted is refused, in words that say what to do; plain columns of a file with a plain footer, too."""
    import pyarrow.parquet.encryption as pe

    class Plain(pe.KmsClient):
        def wrap_key(self, key, _):
            return key.hex()

        def unwrap_key(self, key, _):
            return bytes.fromhex(key)

    table = pa.table({"a": [1, 2], "b": ["x", "y"]})
    for way, more in {"footer": {}, "columns": {"plaintext_footer": True}, "uniform": {"uniform_encryption": True}}.items():
        keys = {} if "uniform_encryption" in more else {"column_keys": {"k": ["b"]}}
        config = pe.EncryptionConfiguration(footer_key="f", **keys, **more)
        factory = pe.CryptoFactory(lambda _: Plain())
        properties = factory.file_encryption_properties(pe.KmsConnectionConfig(), config)
        sink = io.BytesIO()
        with pq.ParquetWriter(sink, table.schema, encryption_properties=properties) as writer:
            writer.write_table(table)
        name = put(f"encrypted_{way}.parquet", sink.getvalue())
        for ask in ("count(*)", "a", "*"):
            CASES.append({"name": f"{name} {ask}", "sql": f"SELECT {ask} FROM '$D/{name}'", "error": f"{name}.*encrypted.*without encryption"})


def old_maps():
    """Groups that are maps and repeat without a list around them, and maps whose entries are named or typed as old writers did."""
    def entries(converted, key="key", value="value", group="map"):
        return [element(group, repetition=REPEATED, children=2, converted=converted), element(key, BYTES, REQUIRED, converted=raw.UTF8),
                element(value, INT32, OPTIONAL)]

    ways = {
        "entries": (raw.MAP, entries(raw.MAP_KEY_VALUE), "map", "key", "value"),
        # Hive and parquet-avro before 1.8: the types of both groups the other way round.
        "turned": (raw.MAP_KEY_VALUE, entries(None, group="bag"), "bag", "key", "value"),
        "both": (raw.MAP, entries(raw.MAP, group="key_value"), "key_value", "key", "value"),
        "names": (raw.MAP, entries(None, "k", "v", "pairs"), "pairs", "k", "v"),
    }
    for way, (converted, inner, group, key, value) in ways.items():
        schema = [element("schema", children=2), element("id", INT32, REQUIRED), element("m", repetition=OPTIONAL, children=1, converted=converted), *inner]
        columns = [Column(["id"], INT32, [1, 2, 3]),
                   Column(["m", group, key], BYTES, [b"a", b"b", b"c"], [2, 2, 0, 2], [0, 1, 0, 0], (2, 1)),
                   Column(["m", group, value], INT32, [1, 2], [3, 3, 0, 2], [0, 1, 0, 0], (3, 1))]
        name = put(f"map_{way}.parquet", parquet(schema, 3, columns))
        CASES.append({"name": name, "sql": f"SELECT id, m['a'], m['b'], cardinality(m) FROM '$D/{name}' ORDER BY id",
                      "want": [["1", "1", "2", "2"], ["2", None, None, None], ["3", None, None, "1"]]})
    # A map that repeats is a list of maps.
    schema = [element("schema", children=2), element("id", INT32, REQUIRED), element("m", repetition=REPEATED, children=1, converted=raw.MAP),
              *entries(raw.MAP_KEY_VALUE)]
    columns = [Column(["id"], INT32, [1, 2]), Column(["m", "map", "key"], BYTES, [b"a", b"b", b"c"], [2, 2, 2, 0], [0, 2, 1, 0], (2, 2)),
               Column(["m", "map", "value"], INT32, [1, 2, 3], [3, 3, 3, 0], [0, 2, 1, 0], (3, 2))]
    name = put("map_repeated.parquet", parquet(schema, 2, columns))
    CASES.append({"name": name, "sql": f"SELECT id, cardinality(m), m[1]['b'], m[2]['c'] FROM '$D/{name}' ORDER BY id",
                  "want": [["1", "2", "2", "3"], ["2", "0", None, None]]})


def more_of_odd():
    """More of the kinds in `odd`."""
    column_cases(put("dictionary_0_text.parquet", flat(BYTES, [b"a", None, b"b"], converted=raw.UTF8, dictionary_at=0)), "c", ["a", None, "b"], 3)
    column_cases(put("dictionary_behind.parquet", flat(DOUBLE, [1.5, None], dictionary_at=10**6)), "c", [1.5, None], 2)
    column_cases(put("converted_24_text.parquet", flat(BYTES, [None, None, None], converted=24)), "c", [None] * 3, 3)
    for name, kind, stored_as, more in (("int64", INT64, [-7, 12, None], dict(precision=18)), ("bytes", BYTES, [b"\xf9", b"\x0c", None], dict(precision=5)),
                                        ("fixed", FIXED, [b"\xff\xf9", b"\x00\x0c", None], dict(precision=4, length=2))):
        file = put(f"decimal_no_scale_{name}.parquet", flat(kind, stored_as, converted=raw.DECIMAL, **more))
        column_cases(file, "c", [decimal.Decimal(-7), decimal.Decimal(12), None], 3)


def globs():
    """Files of one pattern that differ."""
    def several(directory, tables):
        (HERE / "data" / directory).mkdir(exist_ok=True)
        for n, table in enumerate(tables):
            pq.write_table(pa.table(table), HERE / "data" / directory / f"{n}.parquet")

    several("widths", [{"i": pa.array([1], pa.int32()), "d": pa.array([decimal.Decimal("1234567.89")], pa.decimal128(9, 2)), "f": pa.array([1], pa.int32())},
                       {"i": pa.array([3000000000], pa.int64()), "d": pa.array([decimal.Decimal("0.000001")], pa.decimal128(18, 6)), "f": pa.array([2.5])},
                       {"i": pa.array([4294967295], pa.uint32()), "d": pa.array([7], pa.int64()), "f": pa.array([None], pa.null())}])
    CASES.append({"name": "widths", "sql": "SELECT sum(i), max(i), sum(d), sum(f), (SELECT count(*) FROM '$D/widths/*.parquet' WHERE i > 2147483647) FROM '$D/widths/*.parquet'",
                  "want": [["7294967296", "4294967295", "1234574.890001", 3.5, "2"]]})
    several("structs", [{"id": [1], "s": [{"x": 1, "Y": 10}], "l": [[{"x": 1}]], "m": pa.array([[("k", {"x": 1})]], pa.map_(pa.string(), pa.struct([("x", pa.int32())])))},
                        {"id": [2], "s": [{"y": 20, "x": 2, "z": "n"}], "l": [[{"w": "q", "x": 2}]],
                         "m": pa.array([[("k", {"v": "w", "x": 2**40})]], pa.map_(pa.string(), pa.struct([("v", pa.string()), ("x", pa.int64())])))}])
    CASES.append({"name": "structs", "sql": "SELECT id, s.x, s.Y, s.z, struct_element(l[1], 'x'), struct_element(l[1], 'w'), struct_element(m['k'], 'x') FROM '$D/structs/*.parquet' ORDER BY id",
                  "want": [["1", "1", "10", None, "1", None, "1"], ["2", "2", "20", "n", "2", "q", str(2**40)]]})
    ddl = "CREATE EXTERNAL TABLE {} ({}) STORED AS PARQUET LOCATION '$D/structs'"
    for name, columns, ask, want in (
        ("other_names", "s STRUCT<a:BIGINT,b:BIGINT>", "s.a, s.b", [[None, None], [None, None]]),
        ("other_order", "id INT, s STRUCT<z:STRING,y:BIGINT,x:BIGINT>", "id, s.x, s.y, s.z", [["1", "1", "10", None], ["2", "2", "20", "n"]]),
        ("in_map", "m MAP<STRING,STRUCT<x:BIGINT,v:STRING,u:INT>>", "struct_element(m['k'], 'x') a, struct_element(m['k'], 'v'), struct_element(m['k'], 'u')", [["1", None, None], [str(2**40), "w", None]]),
    ):
        CASES.append({"name": f"structs {name}", "sql": f"{ddl.format(name, columns)}; SELECT {ask} FROM {name} ORDER BY 1", "want": want})


def main():
    for old in (HERE / "data").rglob("*.parquet"):
        old.unlink()
    for make in (of_pyarrow, nanoseconds, told, odd, more_of_odd, old_maps, pages, encrypted, globs):
        make()
    (HERE / "cases.json").write_text(json.dumps(CASES, ensure_ascii=False, separators=(",", ":")).replace('},{"name"', '},\n{"name"') + "\n")


main()
