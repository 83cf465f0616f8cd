"""A MySQL client that is quick: rows stay the bytes that came over the wire until somebody has to read them.

Two answers are mostly equal byte by byte; only those that are not are taken apart. Prepared statements go by the binary protocol.
"""

import datetime
import math
import socket
import struct
from decimal import Decimal

INTEGERS = {1: 1, 2: 2, 3: 4, 8: 8, 9: 4, 13: 2}  # type of the protocol: bytes in binary rows
FLOAT, DOUBLE, NULL, TIMESTAMP, DATE, TIME, DATETIME = 4, 5, 6, 7, 10, 11, 12
NEWDECIMAL, TEXT, DECIMAL = 246, 253, 0
UNSIGNED = 32


class Refused(Exception):
    """An error packet."""

    def __init__(self, code, message):
        super().__init__(code, message)
        self.code, self.message = code, message

    def __str__(self):
        return f"{self.code}: {self.message}"


class Answer:
    """Columns as (type, flags), and rows as packets."""

    __slots__ = ("columns", "rows", "binary")

    def __init__(self, columns, rows, binary=False):
        self.columns, self.rows, self.binary = columns, rows, binary

    def values(self):
        """Rows as tuples of None, int, float, Decimal and str: the same for both protocols."""
        one = binary_row if self.binary else text_row
        return [one(row, self.columns) for row in self.rows]


def length_encoded(data, at):
    first = data[at]
    if first < 251:
        return first, at + 1
    if first == 252:
        return int.from_bytes(data[at + 1 : at + 3], "little"), at + 3
    if first == 253:
        return int.from_bytes(data[at + 1 : at + 4], "little"), at + 4
    return int.from_bytes(data[at + 1 : at + 9], "little"), at + 9


def text_row(row, columns):
    values, at = [], 0
    for kind, _ in columns:
        if row[at] == 0xFB:
            values.append(None)
            at += 1
            continue
        size, at = length_encoded(row, at)
        values.append(of_text(row[at : at + size], kind))
        at += size
    return tuple(values)


def of_text(raw, kind):
    if kind in INTEGERS:
        return int(raw)
    if kind in (FLOAT, DOUBLE):
        return float(raw)
    if kind in (DECIMAL, NEWDECIMAL):
        return Decimal(raw.decode())
    return raw.decode("utf-8", "backslashreplace")


def binary_row(row, columns):
    count = len(columns)
    at, values = 1 + (count + 9) // 8, []
    for i, (kind, flags) in enumerate(columns):
        if row[1 + (i + 2) // 8] >> (i + 2) % 8 & 1:
            values.append(None)
        elif kind in INTEGERS:
            size = INTEGERS[kind]
            values.append(int.from_bytes(row[at : at + size], "little", signed=not flags & UNSIGNED))
            at += size
        elif kind in (FLOAT, DOUBLE):
            size, form = (4, "<f") if kind == FLOAT else (8, "<d")
            values.append(shortest(struct.unpack_from(form, row, at)[0], kind))
            at += size
        else:
            size, at = length_encoded(row, at)
            raw = row[at : at + size]
            values.append(of_time(raw, kind) if kind in (TIMESTAMP, DATE, DATETIME, TIME) else of_text(raw, kind))
            at += size
    return tuple(values)


def shortest(value, kind):
    """A FLOAT has fewer digits than the DOUBLE that Python keeps it in: as many as tell it from its neighbours."""
    if kind == DOUBLE or not math.isfinite(value):
        return value
    return next(v for digits in range(6, 10) if struct.unpack("<f", struct.pack("<f", v := float(f"{value:.{digits}g}")))[0] == value)


def of_time(raw, kind):
    if kind == TIME:
        return raw.hex()
    year, month, day = struct.unpack_from("<HBB", raw) if raw else (0, 0, 0)
    text = f"{year:04}-{month:02}-{day:02}"
    if kind == DATE:
        return text
    hour, minute, second = struct.unpack_from("<BBB", raw, 4) if len(raw) > 4 else (0, 0, 0)
    micros = struct.unpack_from("<I", raw, 7)[0] if len(raw) > 7 else 0
    return f"{text} {hour:02}:{minute:02}:{second:02}" + (f".{micros:06}" if micros else "")


def bound(value):
    """Type and bytes of a parameter."""
    if value is None:
        return NULL, b""
    if isinstance(value, bool):
        return 1, bytes([value])
    if isinstance(value, int) and -(2**63) <= value < 2**63:
        return 8, struct.pack("<q", value)
    if isinstance(value, float):
        return DOUBLE, struct.pack("<d", value)
    if isinstance(value, datetime.datetime):
        return DATETIME, struct.pack("<BHBBBBBI", 11, *value.timetuple()[:6], value.microsecond)
    if isinstance(value, datetime.date):
        return DATE, struct.pack("<BHBB", 4, value.year, value.month, value.day)
    raw = str(value).encode()
    kind = NEWDECIMAL if isinstance(value, (int, Decimal)) else TEXT
    return kind, (bytes([len(raw)]) if len(raw) < 251 else b"\xfc" + struct.pack("<H", len(raw))) + raw


class Connection:
    """One session of a user without password."""

    def __init__(self, port, user="root", timeout=60):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer, self.at, self.database = b"", 0, None
        self.packet()
        # Long passwords, protocol 4.1, transactions, authentication by a plugin.
        flags = 1 | 0x200 | 0x2000 | 0x8000 | 0x80000
        login = struct.pack("<IIB23x", flags, 1 << 24, 45) + user.encode() + b"\0\0" + b"mysql_native_password\0"
        self.send(login, 1)
        answer = self.packet()
        while answer[0] not in (0x00, 0xFF):
            self.send(b"", self.sequence + 1)
            answer = self.packet()
        self.check(answer)

    def close(self):
        self.socket.close()

    def send(self, data, sequence=0):
        self.socket.sendall(len(data).to_bytes(3, "little") + bytes([sequence & 255]) + data)

    def more(self, least):
        parts, have = [self.buffer[self.at :]], len(self.buffer) - self.at
        while have < least:
            part = self.socket.recv(1 << 18)
            if not part:
                raise ConnectionError("the server closed the connection")
            parts.append(part)
            have += len(part)
        self.buffer, self.at = b"".join(parts), 0

    def packet(self):
        if len(self.buffer) - self.at < 4:
            self.more(4)
        size = int.from_bytes(self.buffer[self.at : self.at + 3], "little")
        self.sequence = self.buffer[self.at + 3]
        if len(self.buffer) - self.at < size + 4:
            self.more(size + 4)
        begin = self.at + 4
        self.at = begin + size
        return self.buffer[begin : self.at]

    def check(self, packet):
        if packet[0] == 0xFF:
            message = packet[3:].decode("utf-8", "replace")
            raise Refused(int.from_bytes(packet[1:3], "little"), message[6:] if message.startswith("#") else message)
        return packet

    def use(self, database):
        if database != self.database:
            self.query(f"USE {database}")
            self.database = database

    def query(self, statement):
        self.send(b"\x03" + statement.encode())
        return self.result(False)

    def result(self, binary):
        first = self.check(self.packet())
        if first[0] == 0:
            return Answer([], [])
        columns = self.definitions(length_encoded(first, 0)[0])
        rows, packet = [], self.packet
        while True:
            row = packet()
            if row[:1] == b"\xfe" and len(row) < 9:
                return Answer(columns, rows, binary)
            rows.append(self.check(row) if row[:1] == b"\xff" else row)

    def definitions(self, count):
        columns = []
        for _ in range(count):
            data, at = self.packet(), 0
            for _ in range(6):
                size, at = length_encoded(data, at)
                at += size
            columns.append((data[at + 7], int.from_bytes(data[at + 8 : at + 10], "little")))
        self.packet()
        return columns

    def execute(self, statement, values):
        """The statement, prepared, with its values bound."""
        self.send(b"\x16" + statement.encode())
        first = self.check(self.packet())
        number, columns, parameters = struct.unpack_from("<IHH", first, 1)
        if parameters:
            self.definitions(parameters)
        if columns:
            self.definitions(columns)
        try:
            nulls, types, data = bytearray((len(values) + 7) // 8), b"", b""
            for i, value in enumerate(values):
                kind, raw = bound(value)
                if kind == NULL:
                    nulls[i // 8] |= 1 << i % 8
                types += bytes([kind, 0])
                data += raw
            body = bytes(nulls) + b"\x01" + types + data if values else b""
            self.send(b"\x17" + struct.pack("<IBI", number, 0, 1) + body)
            return self.result(True)
        finally:
            self.send(b"\x19" + struct.pack("<I", number))
