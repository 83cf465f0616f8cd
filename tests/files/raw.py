"""Writes Parquet files as other writers wrote them: what pyarrow refuses to write, or cannot be told to. One row group; uncompressed
and of one page a column where nothing else is said."""

import struct

import pyarrow as pa

BOOLEAN, INT32, INT64, INT96, FLOAT, DOUBLE, BYTES, FIXED = range(8)
UTF8, MAP, MAP_KEY_VALUE, LIST, DECIMAL, DATE, UINT_32, INTERVAL = 0, 1, 2, 3, 5, 6, 13, 21
REQUIRED, OPTIONAL, REPEATED = range(3)
FORMATS = {INT32: "<i", INT64: "<q", FLOAT: "<f", DOUBLE: "<d"}


def var(n):
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    return bytes(out) + bytes([n])


def num(n):
    return var(n * 2 if n >= 0 else -n * 2 - 1)


def struct_of(**fields):
    """Thrift's compact form of a structure: `_3=("i", 5)` is field 3. Fields that are None are left out."""
    out, last = b"", 0
    for number, value in sorted((int(k[1:]), v) for k, v in fields.items() if v is not None):
        kind, value = value
        code, data = {
            "i": lambda: (5, num(value)),
            "l": lambda: (6, num(value)),
            "b": lambda: (8, var(len(value)) + value),
            "t": lambda: (1 if value else 2, b""),
            "s": lambda: (12, value),
            "[s": lambda: (9, listed(12, value)),
            "[i": lambda: (9, listed(5, [num(v) for v in value])),
            "[l": lambda: (9, listed(6, [num(v) for v in value])),
            "[t": lambda: (9, listed(2, [bytes([1 if v else 2]) for v in value])),
            "[b": lambda: (9, listed(8, [var(len(v)) + v for v in value])),
        }[kind]()
        delta = number - last
        out += (bytes([delta << 4 | code]) if delta < 16 else bytes([code]) + num(number)) + data
        last = number
    return out + b"\0"


def listed(kind, items):
    head = bytes([len(items) << 4 | kind]) if len(items) < 15 else bytes([0xF0 | kind]) + var(len(items))
    return head + b"".join(items)


def opt(kind, value):
    return None if value is None else (kind, value)


def element(name, kind=None, repetition=None, children=None, converted=None, length=None, scale=None, precision=None):
    return struct_of(_1=opt("i", kind), _2=opt("i", length), _3=opt("i", repetition), _4=("b", name.encode()), _5=opt("i", children),
                     _6=opt("i", converted), _7=opt("i", scale), _8=opt("i", precision))


def stored(kind, value):
    """A value as it is written in statistics; in pages texts have their length in front."""
    if kind == BOOLEAN:
        return bytes([value])
    return struct.pack(FORMATS[kind], value) if kind in FORMATS else value


def plain(kind, values):
    if kind == BOOLEAN:
        return bytes(sum(bool(v) << i for i, v in enumerate(values[at:at + 8])) for at in range(0, len(values), 8))
    return b"".join((struct.pack("<I", len(v)) if kind == BYTES else b"") + stored(kind, v) for v in values)


def levels(values, most):
    """Levels as runs of one, with their length in front."""
    runs = b"".join(var(2) + bytes([v]) for v in values)
    return struct.pack("<I", len(runs)) + runs if most else b""


def statistics(low=None, high=None, nulls=None, deprecated=False, exact=None):
    low_at, high_at = ("_2", "_1") if deprecated else ("_6", "_5")
    fields = {low_at: opt("b", low), high_at: opt("b", high), "_3": opt("l", nulls), "_7": opt("t", exact), "_8": opt("t", exact)}
    return struct_of(**fields)


class Column:
    """A leaf: its path, the values that are there, and its levels."""

    def __init__(self, path, kind, values, defs=None, reps=None, most=(0, 0), stats=None, dictionary_at=None, index=None):
        self.path, self.kind, self.values, self.defs, self.reps, self.most = path, kind, values, defs, reps, most
        self.stats, self.dictionary_at, self.index = stats, dictionary_at, index

    def indexes(self):
        """Places of pages, as (offset, bytes, first row), and their bounds; `None` without."""
        return None if self.index is None else ([self.index], None)

    def chunk(self, at):
        count = len(self.defs if self.defs is not None else self.values)
        body = levels(self.reps or [], self.most[1]) + levels(self.defs or [], self.most[0]) + plain(self.kind, self.values)
        page = struct_of(_1=("i", count), _2=("i", 0), _3=("i", 3), _4=("i", 3))
        page = struct_of(_1=("i", 0), _2=("i", len(body)), _3=("i", len(body)), _5=("s", page)) + body
        meta = struct_of(_1=("i", self.kind), _2=("[i", [0, 3]), _3=("[b", [p.encode() for p in self.path]), _4=("i", 0), _5=("l", count),
                         _6=("l", len(page)), _7=("l", len(page)), _9=("l", at), _11=opt("l", self.dictionary_at), _12=opt("s", self.stats))
        return page, meta


class Paged(Column):
    """A leaf that may be NULL and is not repeated, in pages of `sizes` rows. `claimed` are the first rows of pages as the index has
    them; with `codec` pages are of the second version and compressed, and say that they are not."""

    def __init__(self, name, kind, values, sizes, claimed=None, codec=None, **more):
        super().__init__([name], kind, values, most=(1, 0), **more)
        self.sizes, self.claimed, self.codec = sizes, claimed, codec

    def parts(self):
        starts = [sum(self.sizes[:n]) for n in range(len(self.sizes))]
        return [self.values[start:start + size] for start, size in zip(starts, self.sizes)]

    def page(self, values):
        there = plain(self.kind, [v for v in values if v is not None])
        defs = levels([int(v is not None) for v in values], 1)
        if self.codec is None:
            head = {"_5": ("s", struct_of(_1=("i", len(values)), _2=("i", 0), _3=("i", 3), _4=("i", 3)))}
            return 0, defs + there, len(defs + there), head
        # The second version says the length of levels in its header.
        defs = defs[4:]
        packed = pa.compress(there, codec=self.codec, asbytes=True)
        head = struct_of(_1=("i", len(values)), _2=("i", values.count(None)), _3=("i", len(values)), _4=("i", 0), _5=("i", len(defs)),
                         _6=("i", 0), _7=("t", False))
        return 3, defs + packed, len(defs + there), {"_8": ("s", head)}

    def chunk(self, at):
        out, unpacked, self.places = b"", 0, []
        for values in self.parts():
            kind, body, size, head = self.page(values)
            header = struct_of(_1=("i", kind), _2=("i", size), _3=("i", len(body)), **head)
            self.places.append((at + len(out), len(header + body)))
            out, unpacked = out + header + body, unpacked + len(header) + size
        codec = {None: 0, "snappy": 1, "gzip": 2, "zstd": 6}[self.codec]
        meta = struct_of(_1=("i", self.kind), _2=("[i", [0, 3]), _3=("[b", [p.encode() for p in self.path]), _4=("i", codec),
                         _5=("l", len(self.values)), _6=("l", unpacked), _7=("l", len(out)), _9=("l", at))
        return out, meta

    def indexes(self):
        if self.claimed is None:
            return None
        there = [[v for v in part if v is not None] for part in self.parts()]
        bounds = struct_of(_1=("[t", [not part for part in there]), _2=("[b", [stored(self.kind, min(part)) if part else b"" for part in there]),
                           _3=("[b", [stored(self.kind, max(part)) if part else b"" for part in there]), _4=("i", 0),
                           _5=("[l", [part.count(None) for part in self.parts()]))
        return [(*place, row) for place, row in zip(self.places, self.claimed)], bounds


def parquet(schema, rows, columns, writer="dipper-test", orders=True):
    out, chunks = b"PAR1", []
    for column in columns:
        at = len(out)
        page, meta = column.chunk(at)
        out += page
        chunks.append({"_2": ("l", at), "_3": ("s", meta)})
    for column, chunk in zip(columns, chunks):
        if (indexes := column.indexes()) is not None:
            places, bounds = indexes
            index = struct_of(_1=("[s", [struct_of(_1=("l", first), _2=("i", size), _3=("l", row)) for first, size, row in places]))
            chunk.update(_4=("l", len(out)), _5=("i", len(index)))
            out += index
            if bounds is not None:
                chunk.update(_6=("l", len(out)), _7=("i", len(bounds)))
                out += bounds
    chunks = [struct_of(**c) for c in chunks]
    group = struct_of(_1=("[s", chunks), _2=("l", len(out)), _3=("l", rows))
    footer = struct_of(_1=("i", 1), _2=("[s", schema), _3=("l", rows), _4=("[s", [group]), _6=("b", writer.encode()),
                       _7=("[s", [struct_of(_1=("s", struct_of()))] * len(columns)) if orders else None)
    return out + footer + struct.pack("<I", len(footer)) + b"PAR1"


def flat(kind, values, name="c", stats=None, writer="dipper-test", orders=True, dictionary_at=None, index=None, **type_of):
    """A file of one column that may be NULL."""
    there = [v for v in values if v is not None]
    column = Column([name], kind, there, defs=[int(v is not None) for v in values], most=(1, 0), stats=stats, dictionary_at=dictionary_at,
                    index=index)
    schema = [element("schema", children=1), element(name, kind, OPTIONAL, **type_of)]
    return parquet(schema, len(values), [column], writer=writer, orders=orders)
