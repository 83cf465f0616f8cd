#!/usr/bin/env python3
"""Labels of loads that kill -9 cut off are free as soon as the server is there again: on a local disk and in a bucket.

    tests/faults/labels.py --server BIN

Three loads are under way when their server is killed: one that said its length, one that did not, one that is an INSERT. A fourth is
prepared, which it must stay, and a fifth runs in another server on the same database, which must go on.

Needs PyMySQL (the virtual environment of tests/clients has it).
"""

import argparse
import base64
import http.client
import json
import pathlib
import socket
import sys
import tempfile
import threading
import time

import pymysql

import memory
import stores

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from server import Server  # noqa: E402

TABLE = "CREATE TABLE d.t (k INT, s VARCHAR(2000)) DUPLICATE KEY(k) DISTRIBUTED BY HASH(k) BUCKETS 1"
ROW = b"1," + b"x" * 1000 + b"\n"
# More than what comes before a load of unknown length takes its label.
ROWS = 12_000
LEASE_SECONDS = 30


def expect(condition, message):
    if not condition:
        raise SystemExit("FAILED: " + message)


class Node(Server):
    """A server process on the database `data`; others may be on the same one."""

    def __init__(self, binary, data, directory, environment, number):
        super().__init__(binary, directory, "--cache-dir", directory / "cache", "--cache-size", "64MiB", data=data,
                         log=f"server-{number}.log", env=environment)

    def load(self, label, rows, **headers):
        return self.stream_load("d", "t", ROW * rows, {"label": label, "column_separator": ",", **headers})

    def state(self, label):
        return self.answer("GET", f"/api/d/get_load_state?label={label}")["data"]

    def shown(self, label):
        """States of a label in SHOW LOAD."""
        return [row[2] for row in self.rows("SHOW LOAD FROM d") if row[1] == label]

    def begin(self, label, chunked):
        """Half of a load, on a connection that stays open."""
        link = socket.create_connection(("127.0.0.1", self.http), timeout=60)
        size = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {len(ROW) * ROWS * 2}"
        link.sendall((f"PUT /api/d/t/_stream_load HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Basic {base64.b64encode(b'root:').decode()}\r\n"
                      f"label: {label}\r\ncolumn_separator: ,\r\nExpect: 100-continue\r\n{size}\r\n\r\n").encode())
        told = link.recv(1000)
        expect(b"100 Continue" in told, f"{label}: {told}")
        body = ROW * ROWS
        link.sendall(b"%x\r\n%b\r\n" % (len(body), body) if chunked else body)
        return link

    def insert(self, label):
        """A labelled INSERT that takes longer than this test."""
        other = self.connect()

        def run():
            try:
                other.cursor().execute(f"INSERT INTO d.t WITH LABEL {label} SELECT a.number, 'x' FROM numbers('number' = '100000000') a "
                                       "JOIN numbers('number' = '100000000') b ON a.number + b.number = -3")
            except (pymysql.err.Error, OSError):
                pass

        threading.Thread(target=run, daemon=True).start()

    def wait_for(self, label, state):
        end = time.monotonic() + 30
        while (found := self.state(label)) != state:
            expect(time.monotonic() < end, f"{label} is {found}, not {state}")
            time.sleep(0.02)


def check(binary, data, directory, environment):
    start = lambda: Node(binary, data, directory, environment, len(servers))  # noqa: E731
    servers = []
    servers.append(start())
    try:
        first = servers[0]
        first.rows("CREATE DATABASE d")
        first.rows(TABLE)
        cut = ["sized", "chunked", "inserted"]
        links = [first.begin("sized", False), first.begin("chunked", True)]
        first.insert("inserted")
        for label in cut:
            first.wait_for(label, "PREPARE")
        expect(first.load("prepared", 3, two_phase_commit="true")["Status"] == "Success", "the load that is prepared")
        other = start()
        servers.append(other)
        links.append(other.begin("alive", False))
        other.wait_for("alive", "PREPARE")
        expect(first.load("cut", 1)["Status"] == "Success", "a load that ends")
        first.kill()
        killed = time.monotonic()
        again = start()
        servers.append(again)
        states = {label: (again.state(label), again.shown(label)) for label in cut}
        for label, (state, shown) in states.items():
            expect(state in ("ABORTED", "UNKNOWN") and shown in ([], ["CANCELLED"]), f"{label} is {state} after the restart, SHOW LOAD says {shown}")
        for at, label in enumerate(cut):
            answer = again.load(label, 10 + at)
            expect(answer["Status"] == "Success", f"{label} again: {answer}")
        took = time.monotonic() - killed
        expect(took < LEASE_SECONDS / 2, f"the labels were used again after {took:.1f} s only")
        expect(again.state("alive") == "PREPARE", f"a load of a server that lives is {again.state('alive')}")
        expect(again.load("alive", 1)["Status"] == "Label Already Exists", "the label of a load that runs elsewhere")
        expect(again.load("cut", 1)["Status"] == "Label Already Exists", "the label of a load that ended")
        expect(again.state("prepared") == "PRECOMMITTED", f"the prepared load is {again.state('prepared')}")
        ended = again.answer("PUT", "/api/d/t/_stream_load_2pc", headers={"label": "prepared", "txn_operation": "commit"})
        expect(ended["status"] == "Success", f"the prepared load: {ended}")
        links[2].sendall(ROW * ROWS)
        answer = json.loads(http_answer(links[2]))
        expect(answer["Status"] == "Success" and answer["NumberLoadedRows"] == 2 * ROWS, f"the load of the server that lives: {answer}")
        rows = again.rows("SELECT count(*) FROM d.t")[0][0]
        expect(rows == 1 + 3 + 10 + 11 + 12 + 2 * ROWS, f"{rows} rows")
        return took
    finally:
        for server in servers:
            server.stop()


def http_answer(link):
    """The body of the answer on a connection whose first answer was to go on."""
    response = http.client.HTTPResponse(link)
    response.begin()
    return response.read()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--server", required=True, type=pathlib.Path)
    binary = parser.parse_args().server
    with tempfile.TemporaryDirectory(prefix="dipper-labels-") as directory:
        took = check(binary, f"{directory}/data", pathlib.Path(directory), None)
        print(f"ok    on a local disk ({took:.1f} s from the kill to labels used again)", flush=True)
    store = memory.Store()
    with tempfile.TemporaryDirectory(prefix="dipper-labels-") as directory:
        took = check(binary, "s3://b/db", pathlib.Path(directory), stores.environment(store))
        print(f"ok    in a bucket ({took:.1f} s)", flush=True)
    store.stop()


if __name__ == "__main__":
    main()
