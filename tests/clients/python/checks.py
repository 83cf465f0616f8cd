"""What the Python clients have in common."""

import datetime
import decimal
import os
import sys
import traceback

HOST = os.environ["DIPPER_HOST"]
PORT = int(os.environ["DIPPER_PORT"])
TYPES_SQL = os.environ["DIPPER_TYPES_SQL"]
LOOKUP_SQL = os.environ["DIPPER_LOOKUP_SQL"]
LOOKUP_TABLE = os.environ["DIPPER_LOOKUP_TABLE"]
TLS = os.environ["DIPPER_TLS"] == "1"

ACCESS_DENIED = 1045
NO_SUCH_TABLE = 1146

NAMES = (
    "t_tinyint t_smallint t_int t_bigint t_largeint t_boolean t_float t_double t_decimal "
    "t_date t_datetime t_micros t_text t_array t_null"
).split()

VALUES = (
    1,
    -2,
    3,
    4,
    "170141183460469231731687303715884105727",
    1,
    1.5,
    -2.25,
    decimal.Decimal("1.25"),
    datetime.date(2020, 1, 31),
    datetime.datetime(2020, 1, 31, 1, 2, 3),
    datetime.datetime(2020, 1, 31, 1, 2, 3, 500_000),
    "ä漢😀",
    "[1, 2]",
    None,
)

# Row 1 of the table for look-ups; in row 2 all but the key is NULL, and there is no row 3.
LOOKUP = (
    1,
    1,
    -128,
    32767,
    -2147483648,
    9223372036854775807,
    "170141183460469231731687303715884105727",
    1.5,
    -2.25,
    decimal.Decimal("-1234567890123456.7891"),
    datetime.date(2020, 1, 31),
    datetime.datetime(2020, 1, 31, 1, 2, 3),
    datetime.datetime(2020, 1, 31, 1, 2, 3, 500_000),
    "abc",
    "it's ä",
    "ä漢😀",
)

failed = 0


def check(name):
    """Runs the function below it as a check of this name."""

    def decorate(function):
        global failed
        try:
            function()
            print(f"ok {name}", flush=True)
        except Exception as error:  # whatever it is, the next check runs
            failed += 1
            print(f"FAIL {name}: {type(error).__name__}: {' '.join(str(error).split())}", flush=True)
            traceback.print_exc(limit=3)
        return function

    return decorate


def equal(found, expected):
    assert found == expected, f"expected {expected!r}, found {found!r}"


def all_types(row):
    """Values and their Python types."""
    for name, found, expected in zip(NAMES, row, VALUES, strict=True):
        assert found == expected and type(found) is type(expected), f"{name}: expected {expected!r}, found {found!r}"


def lookups(cursor, setting_up=None):
    """Makes the table, then looks rows up while they change. With `cursor` statements are prepared if it does that."""
    for sql in LOOKUP_SQL.split(";\n"):
        if sql.strip():
            (setting_up or cursor).execute(sql)

    def read(columns, key):
        cursor.execute(f"select {columns} from {LOOKUP_TABLE} where id = %s", (key,))
        return [tuple(row) for row in cursor.fetchall()]

    for _ in range(3):
        equal(read("*", 1), [LOOKUP])
        assert [type(value) for value in read("*", 1)[0]] == [type(value) for value in LOOKUP]
        equal(read("*", 2), [(2, *[None] * (len(LOOKUP) - 1))])
        equal(read("*", 3), [])
    for turn in range(2):
        cursor.execute(f"insert into {LOOKUP_TABLE} (id, t_int, t_varchar) values (%s, %s, %s)", (7, turn, None))
        equal(read("t_int, t_varchar", 7), [(turn, None)])
        cursor.execute(f"update {LOOKUP_TABLE} set t_int = %s where id = %s", (10 + turn, 7))
        equal(read("t_int, t_varchar", 7), [(10 + turn, None)])
        cursor.execute(f"delete from {LOOKUP_TABLE} where id = %s", (7,))
        equal(read("t_int, t_varchar", 7), [])


def refused(expected, error_type, function):
    """`function` ends with the MySQL error of this number."""
    try:
        function()
    except error_type as error:
        equal(getattr(error, "errno", None) or error.args[0], expected)
    else:
        raise AssertionError(f"expected error {expected}, found none")


def done():
    sys.exit(1 if failed else 0)
