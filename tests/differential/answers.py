"""Whether two answers are the same rows."""

import collections
import datetime
import json
import math
from decimal import Decimal


def plain(v):
    """A value in a form in which dipper, DuckDB and both protocols agree."""
    if v is None or type(v) is int:
        return v
    if isinstance(v, str):
        # LARGEINT comes as text.
        if v and len(v) < 41 and v.removeprefix("-").isdecimal() and v.isascii():
            return int(v)
        if len(v) > 18 and v[4] == "-" and v[13:14] == ":":
            v = v.rstrip("0").removesuffix(".") if "." in v else v
            return v.removesuffix(" 00:00:00")
        return v
    if isinstance(v, bool):
        return int(v)
    if isinstance(v, float):
        return 0.0 if v == 0 else v
    if isinstance(v, Decimal):
        return int(v) if v == v.to_integral_value() else v.normalize()
    if isinstance(v, datetime.datetime):
        return plain(v.isoformat(" "))
    if isinstance(v, datetime.date):
        return v.isoformat()
    return nested(v)


def nested(v):
    """ARRAY, MAP and STRUCT as dipper shows them."""
    if isinstance(v, list):
        return "[" + ", ".join(map(inside, v)) + "]"
    if isinstance(v, dict):
        return "{" + ", ".join(f"{inside(k)}:{inside(x)}" for k, x in v.items()) + "}"
    return str(v)


def inside(v):
    return "null" if v is None else json.dumps(v, ensure_ascii=False) if isinstance(v, str) else nested(v)


def by_value(row):
    number = lambda v: float(f"{float(v):.9g}") if v == v else math.inf
    return [(0, 0, "") if v is None else (1, number(v), "") if isinstance(v, (int, float, Decimal)) else (2, 0, v) for v in row]


def close(a, b):
    if isinstance(a, float) or isinstance(b, float):
        if a is None or b is None or isinstance(a, str) or isinstance(b, str):
            return a == b
        return math.isclose(float(a), float(b), rel_tol=1e-9, abs_tol=1e-9) or a != a and b != b
    return a == b


def same_bytes(a, b, ordered):
    """Whether two answers of dipper have the same rows, without reading them."""
    return a.binary == b.binary and (a.rows == b.rows or not ordered and len(a.rows) == len(b.rows) and sorted(a.rows) == sorted(b.rows))


def difference(found, expected, ordered=False):
    """What is different between rows, in a sentence; None where nothing is."""
    found, expected = ([tuple(map(plain, row)) for row in rows] for rows in (found, expected))
    if found == expected:
        return None
    if len(found) != len(expected):
        return f"{len(found)} rows, the other {len(expected)}: {shown(found, expected)}"
    if not ordered:
        found.sort(key=by_value)
        expected.sort(key=by_value)
    for a, b in zip(found, expected):
        if len(a) != len(b) or not all(map(close, a, b)):
            return f"{a}, the other {b}" if ordered else shown(found, expected)
    return None


def shown(found, expected):
    """The rows that only one of the two has."""
    one, other = (collections.Counter(map(repr, rows)) for rows in (found, expected))
    part = lambda rows: ", ".join(list(rows.elements())[:3]) or "none"
    return f"only here {part(one - other)}; only there {part(other - one)}"
