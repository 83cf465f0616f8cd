"""What the Python clients have in common."""

import datetime
import decimal
import os
import sys
import traceback

HOST = os.environ["DIPPER_HOST"]
PORT = int(os.environ["DIPPER_PORT"])
TYPES_SQL = os.environ["DIPPER_TYPES_SQL"]
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
