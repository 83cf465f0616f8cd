#!/usr/bin/env python3
"""Memory of idle connections: starts a server of its own, opens connections, and reads its resident set.

    benchmarks/point/idle.py target/release/dipper [--connections 1000 10000] [--half-open 10000]

Each connection logs in, runs one statement and stays idle for a few seconds, after which it has given back its buffers.
Half-open connections never send a byte; a client that logs in beside them must be let in, and the server must end them.
Sockets' own buffers are the kernel's and not in these figures.
"""

import argparse
import contextlib
import os
import pathlib
import re
import resource
import socket
import struct
import subprocess
import tempfile
import time

CAPABILITIES = 0x00000001 | 0x00000200 | 0x00008000 | 0x00080000  # long password, 4.1, secure connection, plugin auth
IDLE_SECONDS = 3


def read_packet(s):
    def exactly(n):
        data = b""
        while len(data) < n:
            piece = s.recv(n - len(data))
            if not piece:
                raise ConnectionError("closed by the server")
            data += piece
        return data

    head = exactly(4)
    return exactly(head[0] | head[1] << 8 | head[2] << 16)


def packet(sequence, payload):
    return struct.pack("<I", len(payload))[:3] + bytes([sequence]) + payload


def login(port):
    s = socket.create_connection(("127.0.0.1", port))
    read_packet(s)
    response = struct.pack("<IIB23x", CAPABILITIES, 1 << 24, 45) + b"root\0" + b"\0" + b"caching_sha2_password\0"
    s.sendall(packet(1, response))
    answer = read_packet(s)
    if answer[0] != 0:
        raise ConnectionError(answer[3:].decode("utf-8", "replace"))
    return s


def query(s, text):
    s.sendall(packet(0, b"\x03" + text.encode()))
    ends = 0
    while ends < 2:
        answer = read_packet(s)
        if answer[0] == 0xFF:
            raise ConnectionError(answer[3:].decode("utf-8", "replace"))
        ends += answer[0] == 0xFE and len(answer) < 9


def resident_kib(pid):
    return int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text())[1])


@contextlib.contextmanager
def server(binary, connections):
    with tempfile.TemporaryDirectory(prefix="dipper-idle-") as directory:
        command = [binary, "server", "--data", f"{directory}/data", "--mysql-port", "0", "--http-port", "0"]
        command += ["--max-connections", str(connections)]
        log = pathlib.Path(directory) / "log"
        with open(log, "w", encoding="utf-8") as out:
            process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
        try:
            while not (found := re.search(r"ready: mysql -h \S+ -P (\d+)", log.read_text())):
                if process.poll() is not None:
                    raise SystemExit(log.read_text())
                time.sleep(0.05)
            yield process.pid, int(found[1])
        finally:
            process.terminate()
            process.wait(20)


def idle(binary, count):
    with server(binary, count + 10) as (pid, port):
        first = login(port)
        query(first, "select 1")
        time.sleep(IDLE_SECONDS)
        before = resident_kib(pid)
        begun = time.monotonic()
        clients = []
        for _ in range(count):
            clients.append(login(port))
            query(clients[-1], "select 1")
        took = time.monotonic() - begun
        time.sleep(IDLE_SECONDS)
        after = resident_kib(pid)
        for client in clients[:: max(1, count // 100)]:
            query(client, "select 1")
        print(f"{count:>6} idle: {(after - before) / count:6.1f} KiB each, resident {before / 1024:.0f} -> {after / 1024:.0f} MiB, "
              f"{count / took:.0f} logins with a statement a second")
        for client in clients:
            client.close()


def half_open(binary, count):
    with server(binary, 10_000) as (pid, port):
        time.sleep(1)
        before = resident_kib(pid)
        clients = [socket.create_connection(("127.0.0.1", port)) for _ in range(count)]
        begun = time.monotonic()
        query(login(port), "select 1")
        beside = time.monotonic() - begun
        peak = resident_kib(pid)
        time.sleep(12)
        ended = 0
        for client in clients:
            client.settimeout(0.5)
            with contextlib.suppress(TimeoutError):
                with contextlib.suppress(ConnectionError):
                    while client.recv(4096):
                        pass
                ended += 1
        print(f"{count:>6} half open: {(peak - before) / count:.1f} KiB each, a login beside them {beside * 1000:.0f} ms, "
              f"{ended} ended by the server after 12 s")


def main():
    parser = argparse.ArgumentParser(description="Memory of idle connections.")
    parser.add_argument("binary")
    parser.add_argument("--connections", type=int, nargs="*", default=[1000, 10_000])
    parser.add_argument("--half-open", type=int, default=10_000)
    arguments = parser.parse_args()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    for count in arguments.connections:
        idle(os.path.abspath(arguments.binary), count)
    if arguments.half_open:
        half_open(os.path.abspath(arguments.binary), arguments.half_open)


if __name__ == "__main__":
    main()
