#!/usr/bin/env python3
"""Stream Load over HTTP: curl, and raw sockets for what no client library would send.

    run.py BINARY [PATTERN]

Starts servers of its own on loopback with data in a temporary directory; ends them afterwards.
"""

import base64
import concurrent.futures
import contextlib
import gzip
import http.client
import inspect
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from server import AUTHORIZATION as AUTH, Server  # noqa: E402

DUPLICATE = "create table d.{} (id int, a varchar(5), b double) duplicate key(id) distributed by hash(id) buckets 2"
UNIQUE = "create table d.{} (id int not null, v string) unique key(id) distributed by hash(id) buckets 2"


class Asked(Server):
    """A server that closes silent connections soon, and the ways in which it is asked here."""

    def __init__(self, binary, directory):
        super().__init__(binary, directory, "--http-idle-timeout", "2")

    def sql(self, statement):
        body = json.dumps({"stmt": statement})
        _, _, text = self.request("POST", "/api/query/internal/default", body, {"Content-Type": "application/json"})
        answer = json.loads(text)
        assert answer["code"] == 0, answer
        return answer["data"].get("data")

    def load(self, table, body, headers=None, **more):
        headers = {**(headers or {}), **{k: str(v) for k, v in more.items()}}
        _, _, text = self.request("PUT", f"/api/d/{table}/_stream_load", body, headers)
        return json.loads(text)

    def curl(self, table, body, *arguments):
        command = ["curl", "-sS", "-u", "root:", *arguments, "-T", "-",
                   f"http://127.0.0.1:{self.http}/api/d/{table}/_stream_load"]
        done = subprocess.run(command, input=body, capture_output=True, timeout=60, check=False)
        assert done.returncode == 0, done
        return json.loads(done.stdout)

    def mariadb(self, statement, *options):
        """Runs statements in the command-line client; output lines, and errors."""
        command = ["mariadb", "--no-defaults", "-h", "127.0.0.1", "-P", str(self.mysql), "--protocol=tcp",
                   "-u", "root", "-vvv", *options]
        done = subprocess.run(command, input=statement, capture_output=True, text=True, timeout=60, check=False)
        return done.stdout, done.stderr

    def raw(self, data, wait=10):
        """Sends bytes as they are; gives all that comes back."""
        with socket.create_connection(("127.0.0.1", self.http), timeout=wait) as s:
            s.sendall(data)
            got = b""
            with contextlib.suppress(TimeoutError, ConnectionError):
                while piece := s.recv(65536):
                    got += piece
            return got

    def count(self, table):
        return self.sql(f"select count(*) from d.{table}")[0][0]


def head(path, *lines):
    return "\r\n".join([f"PUT {path} HTTP/1.1", "Host: 127.0.0.1", f"Authorization: {AUTH}", *lines, "", ""]).encode()


def fresh(server, name, definition=DUPLICATE):
    server.sql(f"drop table if exists d.{name}")
    server.sql(definition.format(name))
    return name


def until(is_so, seconds=10):
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, "it never became so"
        time.sleep(0.02)


def status(answer, expected, contains=""):
    assert answer.get("Status") == expected, answer
    assert contains in answer["Message"], answer
    return answer


def curl_loads(s):
    t = fresh(s, "t")
    answer = s.curl(t, b"1\tx\t1.5\n2\t\\N\t\n")
    status(answer, "Success", "OK")
    assert (answer["NumberTotalRows"], answer["NumberLoadedRows"]) == (2, 2)
    assert s.sql("select * from d.t order by id") == [[1, "x", 1.5], [2, None, None]]
    answer = s.curl(t, b"3|y|2\n", "-H", "column_separator: |", "-H", "Expect: 100-continue")
    status(answer, "Success")
    # Chunked, gzip, names in the first line.
    import gzip
    body = gzip.compress(b"id,a,b\n4,z,7\n")
    answer = s.curl(t, body, "-H", "format: csv_with_names", "-H", "column_separator: ,", "-H", "compress_type: gz",
                    "-H", "Transfer-Encoding: chunked")
    status(answer, "Success")
    assert s.count(t) == 4


def sketches(s):
    t = fresh(s, "t", """create table d.{} (k int, u bitmap bitmap_union, h hll hll_union) aggregate key(k)
                         distributed by hash(k) buckets 1""")
    more = {"columns": "k,x,u=to_bitmap(x),h=hll_hash(x)"}
    # More loads than a table keeps apart.
    for i in range(30):
        status(s.load(t, f"1\t{i}\n1\t{i + 1}\n2\t7\n".encode(), more), "Success")
    sets = f"select k, bitmap_count(u), bitmap_max(u), hll_cardinality(h) from d.{t} order by k"
    for _ in range(20):
        assert s.sql(sets) == [[1, 31, 30, 31], [2, 1, 7, 1]], s.sql(sets)
        time.sleep(0.1)
    status(s.load(t, b"1\t2\n", columns="k,u"), "Fail", "too many filtered rows")


def parquet_times(s):
    """Instants, those of INT96 as well, are times in the zone of the load, or the server's."""
    p = fresh(s, "pt", "create table d.{} (id int, t datetime(1), l array<datetime>) duplicate key(id) distributed by hash(id) buckets 1")
    files = pathlib.Path(__file__).resolve().parents[1] / "slt" / "files"
    body = (files / "int96.parquet").read_bytes()
    shown = f"select concat_ws('|', id, ifnull(cast(t as string), ''), ifnull(cast(l as string), '')) from d.{p} where id < 4 order by id"
    try:
        s.sql("set global time_zone = '+05:00'")
        for zone, hour in [("", 5), ("UTC", 0), ("Asia/Shanghai", 8)]:
            s.sql(f"truncate table d.{p}")
            status(s.load(p, body, format="parquet", **({"timezone": zone} if zone else {})), "Success")
            expected = [[f'1|2024-01-01 {hour + 2:02}:03:04.0|["2024-01-01 {hour:02}:00:00"]'], ["2||"],
                        [f"3|2024-07-01 {hour + 2:02}:03:04.5|[]"]]
            assert s.sql(shown) == expected, (zone, s.sql(shown))
    finally:
        s.sql("set global time_zone = DEFAULT")


def expressions_and_where(s):
    t = fresh(s, "t")
    answer = s.load(t, b"1,ab,3\n2,cd,4\n", {"column_separator": ","}, columns="id,x,y,a=upper(x),b=y*2", where="id>1")
    status(answer, "Success")
    assert (answer["NumberLoadedRows"], answer["NumberUnselectedRows"]) == (1, 1)
    assert s.sql("select * from d.t") == [[2, "CD", 8.0]]
    for headers, word in [
        ({"columns": "id,a,b=nosuch(a)"}, "nosuch"), ({"columns": "id,a,b=(select 1 from d.t)"}, ""),
        ({"columns": "id,a,b=sum(a)"}, "aggregate"), ({"columns": "id,a,c2=1"}, "c2"), ({"where": "zz=1"}, "zz"),
        ({"where": "1=1) from d.t union select (1"}, ""), ({"timezone": "Mars/Base"}, ""), ({"partitions": "p9"}, "p9"),
    ]:
        answer = status(s.load(t, b"1\ta\t1\n", headers), "Fail", word)
        assert "__dipper" not in answer["Message"], answer
    assert s.count(t) == 1


def rejected_rows_are_named(s):
    t = fresh(s, "t")
    body = b"1\ta\t1\nx\tb\t2\n3\tabcdefg\t3\n4\n5\t\xff\t1\n"
    answer = s.load(t, body, strict_mode="true")
    status(answer, "Fail", "too many filtered rows")
    assert answer["NumberLoadedRows"] == 0 and answer["NumberFilteredRows"] == 4, answer
    assert [r["line"] for r in answer["RejectedRows"]] == [2, 3, 4, 5], answer
    path = answer["ErrorURL"].split(f":{s.http}", 1)[1]
    code, headers, log = s.request("GET", path)
    assert code == 200 and log.decode().count("Reason: ") == 4, log
    assert s.request("HEAD", path)[:1] == (200,)
    assert s.request("GET", "/api/_load_error_log?file=../catalog")[0] == 404
    answer = s.load(t, body, strict_mode="true", max_filter_ratio="0.8")
    status(answer, "Success")
    assert s.sql("select * from d.t") == [[1, "a", 1.0]]
    # Without strict mode a bad value is NULL and a long one is cut.
    fresh(s, "t")
    status(s.load(t, b"x\tabcdefg\t2\n"), "Success")
    assert s.sql("select * from d.t") == [[None, "abcde", 2.0]]


def the_log_has_all_rejected_rows(s):
    n = fresh(s, "n", "create table d.{} (k int not null) duplicate key(k) distributed by hash(k) buckets 1")
    for body, headers in [(b"\\N\n" * 3000, {}), (b"x\ty\n" * 3000, {}), (b"x\n" * 3000, {"strict_mode": "true"})]:
        answer = status(s.load(n, b"1\n" + body, headers, max_filter_ratio=1), "Success")
        assert answer["NumberFilteredRows"] == 3000, answer
        log = s.request("GET", answer["ErrorURL"].split(f":{s.http}", 1)[1])[2].decode()
        assert log.count("Reason: ") == log.count("\n") == 3000, log[-200:]
    # Beyond 32 MiB of them the log says how many there were.
    many = 400_000
    answer = status(s.load(n, b"1\n" + b"x\ty\n" * many, max_filter_ratio=1), "Success")
    log = s.request("GET", answer["ErrorURL"].split(f":{s.http}", 1)[1])[2].decode()
    kept = log.count("Reason: ")
    assert 50_000 < kept < many, kept
    assert log.endswith(f"{many - kept} more rows were rejected: {kept} of {many} are shown here; \n"), log[-200:]


def json_and_delete(s):
    u = fresh(s, "u", UNIQUE)
    status(s.load(u, b'{"id":1,"v":"a"}\n{"ID":2,"v":{"x":[1]}}\n{"id":1,"v":"b"}\n', format="json"), "Success")
    assert s.sql("select * from d.u order by id") == [[1, "b"], [2, '{"x":[1]}']]
    status(s.load(u, b'{"d":[[9,"n"],[8,"m"]]}', format="json", strip_outer_array="true", json_root="$.d",
                  jsonpaths='["$[0]","$[1]"]'), "Fail", "no JSON object")
    status(s.load(u, b'{"d":[{"k":9,"w":"n"}]}', format="json", strip_outer_array="true", json_root="$.d",
                  jsonpaths='["$.k","$.w"]'), "Success")
    body = b'{"id":9,"v":"","f":1}\n{"id":3,"v":"c","f":0}\n'
    status(s.load(u, body, format="json", merge_type="MERGE", delete="f=1", columns="id,v,f"), "Success")
    status(s.load(u, b"2\n", merge_type="DELETE", columns="id"), "Success")
    assert s.sql("select * from d.u order by id") == [[1, "b"], [3, "c"]]
    status(s.load(u, b"\\N\tx\n"), "Fail", "not nullable")


    # A row of which the table has nothing is none of its rows.
    answer = s.load(u, b'{"zz":1}\n{"id":7,"v":null}\n{}\n', format="json", max_filter_ratio="0.7")
    status(answer, "Success")
    assert answer["NumberFilteredRows"] == 2 and "All fields is null" in answer["FirstErrorMsg"], answer
    status(s.load(u, b'{"id":8}|{"id":9}', format="json", line_delimiter="|"), "Success")
    assert s.sql("select id from d.u where id > 6 order by id") == [[7], [8], [9]]


def parquet(s):
    """What a file holds is stored as INSERT ... SELECT stores it."""
    p = fresh(s, "p", "create table d.{} (k int, d date, t datetime, a array<int>, i int, s string, n int default '7', x int) "
                      "duplicate key(k) distributed by hash(k) buckets 1")
    with tempfile.TemporaryDirectory() as directory:
        def file(query):
            path = pathlib.Path(directory) / "rows.parquet"
            path.unlink(missing_ok=True)
            command = [s.binary, "sql", "--data", f"{directory}/data", f"COPY ({query}) TO '{path}'"]
            done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
            assert done.returncode == 0, done
            return path.read_bytes()

        body = file("select 1 as k, 20240101 as d, 20240102030405 as t, '[1,2]' as a, cast('2024-01-03' as date) as i, "
                    "cast('2024-01-04 00:00:00' as datetime) as s")
        shown = f"select concat_ws('|', cast(d as string), cast(t as string), cast(a as string), i, s, n, ifnull(x, 'none')) from d.{p}"
        status(s.load(p, body, format="parquet"), "Success")
        expected = [["2024-01-01|2024-01-02 03:04:05|[1, 2]|20240103|2024-01-04 00:00:00|7|none"]]
        assert s.sql(shown) == expected, s.sql(shown)
        # A value that does not fit is NULL, or refuses its row.
        body = file("select * from (values (1, '5'), (2, 'bad'), (3, '1.7')) as v(k, x)")
        fresh(s, "p", "create table d.{} (k int, x int) duplicate key(k) distributed by hash(k) buckets 1")
        status(s.load(p, body, format="parquet"), "Success")
        assert s.sql("select * from d.p order by k") == [[1, 5], [2, None], [3, 1]]
        answer = s.load(p, body, format="parquet", strict_mode="true")
        status(answer, "Fail", "too many filtered rows")
        assert answer["NumberFilteredRows"] == 1 and answer["RejectedRows"][0]["line"] == 2, answer
        answer = s.load(p, body, format="parquet", strict_mode="true", max_filter_ratio="0.5", where="k<>1")
        status(answer, "Success")
        assert (answer["NumberLoadedRows"], answer["NumberUnselectedRows"]) == (1, 1), answer
        status(s.load(p, file("select 1 as other"), format="parquet"), "Fail", "none of the table's columns")


def overwrites_beside_loads(s):
    """An INSERT OVERWRITE that reads its table loses no row that was loaded meanwhile."""
    t = fresh(s, "t")
    stop = False

    def load():
        done = 0
        while not stop:
            done += s.load(t, b"1\ta\t1\n")["Status"] == "Success"
            time.sleep(0.03)
        return done

    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        loads = [pool.submit(load) for _ in range(3)]
        overwritten = 0
        try:
            for _ in range(60):
                body = json.dumps({"stmt": "insert overwrite table d.t select * from d.t"})
                _, _, text = s.request("POST", "/api/query/internal/default", body, {"Content-Type": "application/json"})
                overwritten += json.loads(text)["code"] == 0
        finally:
            stop = True
        expected = sum(done.result() for done in loads)
    assert s.count(t) == expected, (s.count(t), expected)
    assert overwritten > 0, "every one met with a conflict"


def labels(s):
    t = fresh(s, "t")
    label = f"l{time.time_ns()}"
    status(s.load(t, b"1\ta\t1\n", label=label), "Success")
    again = s.load(t, b"2\tb\t2\n", label=label)
    status(again, "Label Already Exists", label)
    assert again["ExistingJobStatus"] == "FINISHED"
    other = fresh(s, "t2")
    status(s.load(other, b"1\ta\t1\n", label=label), "Label Already Exists")
    failed = label + "f"
    status(s.load(t, b"bad\n", label=failed), "Fail")
    status(s.load(t, b"3\tc\t3\n", label=failed), "Success")
    assert s.count(t) == 2 and s.count(other) == 0
    s.restart(signal.SIGKILL)
    status(s.load(t, b"4\tb\t2\n", label=label), "Label Already Exists")
    _, _, state = s.request("GET", f"/api/d/get_load_state?label={label}")
    assert json.loads(state)["data"] == "VISIBLE"
    # A load that was prepared into a table that is gone was never seen: its label is free.
    gone = label + "g"
    status(s.load(t, b"1\ta\t1\n", label=gone, two_phase_commit="true"), "Success")
    t = fresh(s, "t")
    _, _, state = s.request("GET", f"/api/d/get_load_state?label={gone}")
    assert json.loads(state)["data"] == "ABORTED", state
    status(s.load(t, b"1\ta\t1\n", label=gone), "Success")


def two_phases(s):
    u = fresh(s, "u", UNIQUE)
    status(s.load(u, b"1\told\n"), "Success")
    first = s.load(u, b"1\tnew\n2\tb\n", two_phase_commit="true")
    label = f"p{time.time_ns()}"
    second = s.load(u, b"3\tc\n", two_phase_commit="true", label=label)
    third = s.load(u, b"4\td\n", two_phase_commit="true")
    status(s.load(u, b"3\tc\n", label=label), "Label Already Exists")
    assert s.sql("select * from d.u") == [[1, "old"]]
    s.restart(signal.SIGKILL)

    def end(**headers):
        _, _, text = s.request("PUT", "/api/d/_stream_load_2pc", b"", {k: str(v) for k, v in headers.items()})
        return json.loads(text)

    done = end(txn_id=first["TxnId"], txn_operation="commit")
    assert done == {"status": "Success", "msg": f"transaction [{first['TxnId']}] commit successfully."}, done
    done = end(txn_id=first["TxnId"], txn_operation="commit")
    assert done["status"] != "Success" and "is already visible, not pre-committed" in done["msg"], done
    assert end(label=label, txn_operation="commit")["status"] == "Success"
    assert end(txn_id=third["TxnId"], txn_operation="abort")["status"] == "Success"
    assert "already aborted" in end(txn_id=third["TxnId"], txn_operation="commit")["msg"]
    assert "not found" in end(txn_id=77, txn_operation="commit")["msg"]
    assert end(txn_operation="commit")["status"] == "Fail" and end(label=label)["status"] == "Fail"
    assert second["Status"] == "Success"
    assert s.sql("select * from d.u order by id") == [[1, "new"], [2, "b"], [3, "c"]]

    # SHOW says how they ended, also after a restart, and a refused repeat is no transaction.
    def shown(label):
        states = s.sql(f"show transaction from d where label = '{label}'"), s.sql(f"show load from d where label = '{label}'")
        return [[row[column] for row in rows] for rows, column in zip(states, (3, 2))]

    assert shown(label) == [["VISIBLE"], ["FINISHED"]], shown(label)
    waiting = s.load(u, b"5\te\n", two_phase_commit="true", label=label + "w")
    dropped = s.load(u, b"6\tf\n", two_phase_commit="true", label=label + "d")
    status(s.load(u, b"5\te\n", label=label + "w"), "Label Already Exists")
    assert shown(label + "w") == [["PRECOMMITTED"], ["PRECOMMITTED"]], shown(label + "w")
    assert end(txn_id=dropped["TxnId"], txn_operation="abort")["status"] == "Success"
    assert shown(label + "d") == [["ABORTED"], ["CANCELLED"]], shown(label + "d")
    assert end(txn_id=waiting["TxnId"], txn_operation="commit")["status"] == "Success"
    assert shown(label + "w") == [["VISIBLE"], ["FINISHED"]], shown(label + "w")
    assert s.sql(f"show transaction from d where id = {waiting['TxnId']}")[0][1] == label + "w"
    s.restart()
    assert shown(label + "w") == [["VISIBLE"], ["FINISHED"]], shown(label + "w")


def refused_before_the_body(s):
    t = fresh(s, "t")
    path = f"/api/d/{t}/_stream_load"
    # The server must not ask for the body of a request that it refuses.
    for lines, word in [
        (["Content-Length: 9", "Expect: 100-continue", "timeout: abc"], b"'timeout': 'abc', stoi"),
        (["Content-Length: 9", "Expect: 100-continue", "strict_mode: x"], b"Must be bool type"),
        (["Content-Length: 9", "Expect: 100-continue", "column_seperator: ,"], b"did you mean 'column_separator'?"),
        (["Content-Length: 9", "Expect: 100-continue", "two_phase_commit: yes"], b"expected true or false"),
        (["Expect: 100-continue"], b"content_length is empty"),
    ]:
        got = s.raw(head(path, *lines), wait=3)
        assert got.startswith(b"HTTP/1.1 200") and word in got, got
    got = s.raw(head("/api/d/nosuch/_stream_load", "Content-Length: 9", "Expect: 100-continue"), wait=3)
    assert got.startswith(b"HTTP/1.1 200") and b"nosuch" in got, got
    wrong = head(path, "Content-Length: 9", "Expect: 100-continue").replace(AUTH.encode(), b"Basic eDp5")
    got = s.raw(wrong, wait=3)
    assert b"Unauthorized" in got and b"100 Continue" not in got, got
    # It asks for one that is right.
    with socket.create_connection(("127.0.0.1", s.http), timeout=5) as c:
        c.sendall(head(path, "Content-Length: 6", "Expect: 100-continue", "Connection: close"))
        assert c.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        c.sendall(b"1\ta\t1\n"[:6])
        got = b""
        while piece := c.recv(65536):
            got += piece
        assert b'"Status": "Success"' in got, got
    code, headers, _ = s.request("PUT", path, b"1\ta\t1\n", {"redirect-policy": "direct"})
    assert code == 307 and headers["Location"] == f"http://127.0.0.1:{s.http}{path}?redirected=1", headers
    code, _, text = s.request("PUT", path + "?redirected=1", b"1\ta\t1\n", {"redirect-policy": "direct"})
    assert code == 200 and json.loads(text)["Status"] == "Success"
    assert s.request("GET", "/api/health", headers={"Host": "evil.example"})[0] == 403
    assert s.request("GET", "/api/health", headers={"Origin": "http://evil.example"})[0] == 403
    form = s.request("POST", "/api/query/internal/d", '{"stmt":"select 1"}', {"Content-Type": "text/plain"})
    assert form[0] == 415


def hosts(s):
    """A Host that is missing, doubled, empty or none is a bad request, whoever asks for what."""
    def asked(*lines, path="/api/health"):
        return s.raw("\r\n".join([f"GET {path} HTTP/1.1", *lines, "Connection: close", "", ""]).encode(), wait=5)

    for path in ["/api/health", "/metrics", "/api/nothing"]:
        for lines in [[], ["Host: 127.0.0.1", "Host: 127.0.0.1"], ["Host: 127.0.0.1", "Host: evil.example"], ["Host:"],
                      ["Host: 127.0.0.1:x"], ["Host: 127.0.0.1:8030:1"], ["Host: a b"], ["Host: a@127.0.0.1"],
                      ["Host: http://127.0.0.1"], ["Host: [::1"], ["Host: 127.0.0.1, 127.0.0.1"]]:
            got = asked(*lines, path=path)
            assert got.startswith(b"HTTP/1.1 400 "), (path, lines, got)
    for host in ["127.0.0.1", "localhost:8030", "[::1]:8030", "LOCALHOST:"]:
        assert asked(f"Host: {host}").startswith(b"HTTP/1.1 200 "), host


def broken_bodies(s):
    t = fresh(s, "t")
    path = f"/api/d/{t}/_stream_load"
    # Cut off: the client goes in the middle.
    with socket.create_connection(("127.0.0.1", s.http)) as c:
        c.sendall(head(path, "Content-Length: 1000") + b"1\ta\t1\n" * 10)
    # Too slow: nothing for the idle time of 2 s.
    begun = time.monotonic()
    got = s.raw(head(path, "Content-Length: 1000", "Connection: close") + b"1\ta\t1\n" * 10, wait=20)
    assert b'"Status": "Fail"' in got and b"no byte of the body came" in got, got
    assert time.monotonic() - begun < 15
    # Broken chunks.
    got = s.raw(head(path, "Transfer-Encoding: chunked", "Connection: close") + b"5\r\n1\ta\t1\r\nzz\r\n", wait=10)
    assert b'"Status": "Success"' not in got, got
    # A head that never ends.
    begun = time.monotonic()
    assert s.raw(b"PUT /api/d/t/_stream_load HTTP/1.1\r\nHost: 127", wait=15) == b""
    assert time.monotonic() - begun < 10
    for garbage in [b"\x00" * 100, b"GET\r\n\r\n", head(path, "Content-Length: 5", "Content-Length: 6") + b"hello"]:
        assert b'"Status": "Success"' not in s.raw(garbage, wait=5)
    assert s.count(t) == 0
    # Keep-alive after errors.
    connection = http.client.HTTPConnection("127.0.0.1", s.http, timeout=30)
    for body, word in [(b"bad\n", "Fail"), (b"1\ta\t1\n", "Success"), (b"x" * 5_000_000, "Fail"), (b"2\tb\t2\n", "Success")]:
        connection.request("PUT", path, body, {"Authorization": AUTH})
        answer = json.loads(connection.getresponse().read())
        assert answer["Status"] == word, answer
    connection.close()
    assert s.count(t) == 2


def a_long_line(s):
    t = fresh(s, "t")
    line = 700 << 20

    def body():
        yield b"1\ta\t1\n2\t"
        for _ in range(line >> 20):
            yield b"x" * (1 << 20)

    connection = http.client.HTTPConnection("127.0.0.1", s.http, timeout=120)
    try:
        connection.request("PUT", f"/api/d/{t}/_stream_load", body(), {"Authorization": AUTH}, encode_chunked=True)
    except ConnectionError:
        pass
    with contextlib.closing(connection):
        answer = json.loads(connection.getresponse().read())
    status(answer, "Fail")
    assert s.count(t) == 0
    peak = int(re.search(r"VmHWM:\s+(\d+)", pathlib.Path(f"/proc/{s.process.pid}/status").read_text())[1]) >> 10
    assert peak < 3000, f"{peak} MiB"


def many_clients(s):
    t = fresh(s, "t")

    def one(client):
        done = 0
        for i in range(12):
            rows = "".join(f"{client * 10_000 + i * 100 + r}\ta\t1\n" for r in range(100)).encode()
            if (client + i) % 5 == 4:
                # Half of the body, then gone.
                with socket.create_connection(("127.0.0.1", s.http)) as c:
                    c.sendall(head(f"/api/d/{t}/_stream_load", f"Content-Length: {len(rows)}") + rows[: len(rows) // 2])
                continue
            more = {"group_commit": "sync_mode"} if i % 2 else {"label": f"m{time.time_ns()}_{client}"}
            status(s.load(t, rows, more), "Success")
            done += 100
        return done

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        expected = sum(pool.map(one, range(16)))
    assert s.count(t) == expected
    assert s.sql("select count(distinct id) from d.t")[0][0] == expected


def labels_share(s):
    """Labelled loads that share a commit: of those with one label one is loaded, and each of the others is told."""
    t = fresh(s, "t")
    stamp = time.time_ns()

    def one(i):
        label = f"s{stamp}_{i // 3}"
        if i % 10 == 9:
            # A load that fails leaves its label to the next.
            return label, s.load(t, b"bad\n", label=label)
        body = f"{i // 3}\t{i % 10}\t1\n".encode()
        # In chunks, its length is not said.
        return label, s.load(t, iter([body]) if i % 2 else body, label=label)

    with concurrent.futures.ThreadPoolExecutor(24) as pool:
        answers = list(pool.map(one, range(240)))
    loaded = [(label, a["TxnId"]) for label, a in answers if a["Status"] == "Success"]
    others = [a for _, a in answers if a["Status"] != "Success"]
    assert len({label for label, _ in loaded}) == len(loaded) == 80, len(loaded)
    assert {a["Status"] for a in others} == {"Label Already Exists", "Fail"}, others
    assert all(a["ExistingJobStatus"] in ("RUNNING", "FINISHED") for a in others if a["Status"] != "Fail"), others
    assert len({txn for _, txn in loaded}) < len(loaded), "no two labelled loads shared a commit"
    assert s.sql("select count(*), count(distinct id) from d.t") == [[80, 80]]
    s.restart(signal.SIGKILL)
    for label, _ in loaded:
        status(s.load(t, b"1000\ta\t1\n", label=label), "Label Already Exists")
    assert s.count(t) == 80

    # A label that was used is told before anything else of the load, with none of its counts.
    again = status(s.load(t, b"bad\n1000\ta\t1\n", label=loaded[0][0]), "Label Already Exists")
    assert again["NumberTotalRows"] == again["NumberFilteredRows"] == again["LoadBytes"] == 0, again
    state = lambda label: json.loads(s.request("GET", f"/api/d/get_load_state?label={label}")[2])["data"]
    status(s.load(t, b"bad\n", label=f"s{stamp}_bad"), "Fail")
    assert [state(label) for label in (loaded[0][0], f"s{stamp}_bad", f"s{stamp}_none")] == ["VISIBLE", "ABORTED", "UNKNOWN"]
    with socket.create_connection(("127.0.0.1", s.http)) as c:
        c.sendall(head(f"/api/d/{t}/_stream_load", "Content-Length: 100", f"label: s{stamp}_half") + b"1000\ta")
        until(lambda: state(f"s{stamp}_half") == "PREPARE")
    until(lambda: state(f"s{stamp}_half") == "ABORTED")
    # A large one whose length nobody knew has its label before it has ended.
    with socket.create_connection(("127.0.0.1", s.http)) as c:
        c.sendall(head(f"/api/d/{t}/_stream_load", "Transfer-Encoding: chunked", f"label: s{stamp}_slow"))
        chunk = b"1000\ta\t1\n" * 100_000
        for _ in range(10):
            c.sendall(b"%x\r\n%s\r\n" % (len(chunk), chunk))
        until(lambda: s.load(t, b"bad\n", label=f"s{stamp}_slow").get("ExistingJobStatus") == "RUNNING", 30)
    until(lambda: state(f"s{stamp}_slow") == "ABORTED")
    status(s.load(t, b"1000\ta\t1\n", label=f"s{stamp}_slow"), "Success")
    assert s.count(t) == 81

    # Loads without rows keep their labels as well; large ones have commits of their own.
    u = fresh(s, "u", UNIQUE)
    loads = {
        "empty": (b"", {}, 0),
        "refused": (b"x\ty\n", {"max_filter_ratio": 1}, 0),
        "packed": (gzip.compress(b"".join(b"%d\t%s\n" % (i, b"v" * 5000) for i in range(4000))), {"compress_type": "gz"}, 4000),
        "chunked": (iter([b"5000\tc\n"]), {}, 1),
        "large": (b"".join(b"%d\t%s\n" % (i, b"w" * 5000) for i in range(4000, 6000)), {}, 2000),
        "flowing": (iter([b"%d\t%s\n" % (i, b"w" * 5000) for i in range(6000, 8000)]), {}, 2000),
        "few": (iter([b"%d\t%s\n" % (i, b"w" * 5000) for i in range(8000, 10000)]), {"where": "id = 9000"}, 1),
    }
    def kept(name):
        body, more, rows = loads[name]
        return rows, s.load(u, body, label=f"s{stamp}_{name}", **more)
    with concurrent.futures.ThreadPoolExecutor(len(loads)) as pool:
        for rows, answer in pool.map(kept, loads):
            assert status(answer, "Success")["NumberLoadedRows"] == rows, answer
    for name in loads:
        status(s.load(u, b"9999\tz\n", label=f"s{stamp}_{name}"), "Label Already Exists")
    assert s.count(u) == 8001

    # One label into two tables at once.
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        pairs = [[pool.submit(s.load, name, b"20000\ta\n" if name == u else b"20000\ta\t1\n", label=f"s{stamp}_two{i}")
                  for name in (t, u)] for i in range(20)]
        for pair in pairs:
            assert sorted(f.result()["Status"] for f in pair) == ["Label Already Exists", "Success"], pair


def group_commit(s):
    t = fresh(s, "t")
    answer = status(s.load(t, b"1\ta\t1\n", group_commit="async_mode"), "Success")
    assert answer["GroupCommit"] is True and answer["Label"].startswith("group_commit_"), answer
    assert "TwoPhaseCommit" not in answer and "BeginTxnTimeMs" not in answer, answer
    plain = status(s.load(t, b"2\ta\t1\n"), "Success")
    assert plain["TwoPhaseCommit"] == "false" and plain["TxnId"] > answer["TxnId"], plain
    status(s.load(t, b"3\ta\t1\n", group_commit="sync_mode", label="l"), "Fail", "label and group_commit can't be set")
    assert s.count(t) == 2

    # Each has its own rejected rows and its own answer, and bad ones do not fail others.
    def one(i):
        if i % 4 == 0:
            return s.load(t, f"{100 + i}\tx\t1\n{i}\n".encode())
        if i % 4 == 1:
            return s.load(t, f"{100 + i}\tx\t1\n{i}\n".encode(), max_filter_ratio="0.5")
        if i % 4 == 2:
            return s.load(t, f"{100 + i}\ttoolong\t1\n".encode(), strict_mode="true")
        return s.load(t, f"{100 + i}\ttoolong\t1\n".encode())

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(one, range(80)))
    for i, answer in enumerate(answers):
        expected = ["Fail", "Success", "Fail", "Success"][i % 4]
        status(answer, expected)
        if i % 4 == 1:
            assert answer["NumberLoadedRows"] == 1 and answer["NumberFilteredRows"] == 1, answer
            assert answer["RejectedRows"][0]["row"] == str(i), answer
        if i % 4 == 2:
            assert "too long" in answer["RejectedRows"][0]["reason"], answer
    assert len({a["TxnId"] for a in answers if a["Status"] == "Success"}) < 40, "no two loads shared a commit"
    kept = s.sql("select a, count(*) from d.t where id >= 100 group by a order by a")
    assert kept == [["toolo", 20], ["x", 20]], kept

    # Later loads win, in the order of their arrival.
    u = fresh(s, "u", UNIQUE)

    def again(client):
        for i in range(10):
            status(s.load(u, f"{client}\t{i}\n7777\t{client}.{i}\n".encode()), "Success")

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(again, range(8)))
    assert s.sql("select count(*), count(distinct v), min(v) from d.u where id < 7777") == [[8, 1, "9"]]
    assert s.sql("select count(*) from d.u where id = 7777 and v like '%.9'") == [[1]]

    # Statements, too; values that do not fit fail their own.
    def insert(i):
        body = json.dumps({"stmt": f"insert into d.t values ({1000 + i}, '{'toolong' if i % 3 == 0 else 'i'}', 1)"})
        _, _, text = s.request("POST", "/api/query/internal/default", body, {"Content-Type": "application/json"})
        return json.loads(text)["code"] == 0

    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        done = list(pool.map(insert, range(60)))
    assert done == [i % 3 != 0 for i in range(60)], done
    assert s.sql("select count(*) from d.t where id >= 1000") == [[40]]

    # A table that waits for others, where that is asked for.
    s.sql("alter table d.t set ('group_commit_interval_ms' = '700')")
    begun = time.monotonic()
    status(s.load(t, b"5\ta\t1\n", group_commit="sync_mode"), "Success")
    assert time.monotonic() - begun > 0.6
    begun = time.monotonic()
    status(s.load(t, b"5\ta\t1\n", group_commit="async_mode"), "Success")
    assert time.monotonic() - begun < 0.6


def http_stream(s):
    t = fresh(s, "t")

    def load(sql, body, **more):
        headers = {"sql": sql, **{k: str(v) for k, v in more.items()}}
        return json.loads(s.request("PUT", "/api/_http_stream", body, headers)[2])

    select = 'insert into d.t (id, a, b) select c1, upper(c2), c3 * 2 from http_stream("format"="csv","column_separator"=",")'
    answer = status(load(select + " where c1 > 1", b"1,a,1\n2,b,2\n3,c,3\n"), "Success")
    counts = [answer[f"Number{n}Rows"] for n in ("Total", "Loaded", "Filtered", "Unselected")]
    assert counts == [3, 2, 0, 1] and answer["LoadBytes"] == 18, answer
    assert s.sql("select * from d.t order by id") == [[2, "B", 4.0], [3, "C", 6.0]]
    named = 'insert into d.t select id, name, 0 from http_stream("format"="csv_with_names", "column_separator"="|", "enclose"="\'")'
    status(load(named, b"name|id|more\n'x|y'|10|1\nz|11|\n"), "Success")
    assert s.sql("select a from d.t where id >= 10 order by id") == [["x|y"], ["z"]]
    bad = status(load(select, b"20,a,1\n21,b\n"), "Fail", "unqualified data")
    assert bad["RejectedRows"][0]["line"] == 2 and bad["NumberLoadedRows"] == 0, bad
    some = status(load(select, b"20,a,1\n21,b\n", max_filter_ratio=0.5), "Success")
    assert some["NumberFilteredRows"] == 1 and some["NumberLoadedRows"] == 1, some
    labelled = select.replace("d.t (", "d.t with label hs1 (")
    assert status(load(labelled, b"30,a,1\n"), "Success")["Label"] == "hs1"
    again = status(load(labelled, b"30,a,1\n"), "Label Already Exists", "has already been used")
    assert again["ExistingJobStatus"] == "FINISHED" and "ErrorURL" not in again, again
    assert s.sql("select count(*) from d.t where id >= 20") == [[2]]
    grouped = status(load(select, b"40,a,1\n", group_commit="async_mode"), "Success")
    assert grouped["GroupCommit"] is True, grouped
    for sql, word in [("insert into d.t values (1, 'a', 1)", "expected one INSERT"), ("insert nonsense", "Nereids parse failed"),
                      ("select 1", "expected one INSERT"), (select.replace("c1", "c9"), "c9"),
                      (select.replace("d.t", "d.nosuch"), "nosuch"), (select.replace('"csv"', '"parquet"'), "reads csv"),
                      (select.replace('"csv"', '"json", "read_json_by_line"="true"'), "does not begin with a row of members"),
                      (select.replace('"csv"', '"csv", "x"="y"'), "'x' is unknown")]:
        status(load(sql, b"1,a,1\n"), "Fail", word)
    twice = f"insert into d.t (id, a, b) with x as ({select[select.index('select'):]}) select p.c1, 'a', q.c1 from x p join x q on p.c1 = q.c1"
    status(load(twice, b"1,a,1\n"), "Fail", "a body is read once")
    status(json.loads(s.request("PUT", "/api/_http_stream", b"1\n")[2]), "Fail", "header 'sql' is missing")
    # Much of it, aggregated as it comes.
    g = fresh(s, "g", "create table d.{} (k int, n bigint) duplicate key(k) distributed by hash(k) buckets 1")
    rows = b"".join(b"%d,%d,some text that makes rows long\n" % (i % 7, i) for i in range(400_000))
    many = status(load("insert into d.g select c1, count(*) from http_stream('format'='csv','column_separator'=',') group by c1", rows), "Success")
    assert many["NumberTotalRows"] == 400_000 and many["NumberLoadedRows"] == 7, many
    assert s.sql("select sum(n) from d.g") == [["400000"]] or s.sql("select sum(n) from d.g") == [[400_000]]
    assert s.request("POST", "/api/query/internal/default", json.dumps({"stmt": "select * from http_stream('format'='csv')"}),
                     {"Content-Type": "application/json"})[2].find(b"_http_stream") > 0


def the_last_of_a_stream_counts(s):
    """Of rows with equal keys, however many threads read them."""
    fresh(s, "u", "create table d.{} (k int, v int) unique key(k) distributed by hash(k) buckets 3")
    sql = 'insert into d.u select c1, c2 from http_stream("format"="csv","column_separator"=",")'
    body = b"".join(b"%d,%d\n" % (i % 1000, i) for i in range(400_000))
    status(json.loads(s.request("PUT", "/api/_http_stream", body, {"sql": sql})[2]), "Success")
    assert s.sql("select count(*), sum(v = 399000 + k) from d.u") == [[1000, 1000]]


def cells_of_arrays_and_structs(s):
    r"""Values of a struct without names, and \N inside."""
    fresh(s, "n", "create table d.{} (k int, s struct<a:int,b:string>, a array<decimal(5,2)>, m map<string,int>) duplicate key(k) "
                  "distributed by hash(k) buckets 1")
    body = b'1|{5, "x"}|[1,\\N,1.3]|{"a":\\N}\n2|{"b":"y","a":6}|[]|{}\n3|{\\N, "z"}|\\N|\\N\n'
    status(s.load("n", body, column_separator="|", strict_mode="true"), "Success")
    assert s.sql("select s, a, m from d.n order by k") == [
        ['{"a":5, "b":"x"}', "[1.00, null, 1.30]", '{"a":null}'], ['{"a":6, "b":"y"}', "[]", "{}"], ['{"a":null, "b":"z"}', None, None]]
    for cell in (b"{5}", b'{5, "x", 7}', b'{5, "b":"x"}'):
        bad = s.load("n", b"4|" + cell + b"|[]|{}\n", column_separator="|", strict_mode="true")
        assert "is not a STRUCT" in status(bad, "Fail")["Message"], bad
    assert "is not a MAP" in status(s.load("n", b"4|{}|[]|{5}\n", column_separator="|", strict_mode="true"), "Fail")["Message"]
    # A key that is NULL leaves the row out, and is no reason to forget the map.
    for strict in ("true", "false"):
        more = {"strict_mode": strict, "max_filter_ratio": "0.5"}
        answer = status(s.load("n", b"4|\\N|[]|{null:1,\"a\":2}\n5|\\N|[]|{\"a\":null}\n", column_separator="|", **more), "Success")
        assert answer["NumberFilteredRows"] == 1 and "NULL as a key" in answer["RejectedRows"][0]["reason"], answer
        answer = status(s.load("n", b'{"k":6,"m":"{null:1}"}\n{"k":7,"m":{"null":1}}\n', format="json", **more), "Success")
        assert answer["NumberFilteredRows"] == 1 and "NULL as a key" in answer["RejectedRows"][0]["reason"], answer
    assert s.sql("select k, m from d.n where k > 3 order by k, m") == [[5, '{"a":null}']] * 2 + [[7, '{"null":1}']] * 2


def hive_text(s):
    fresh(s, "h", "create table d.{} (k int, t string, a array<int>, m map<string,int>) duplicate key(k) distributed by hash(k) buckets 1")
    status(s.load("h", b"1\x01x y\x011\x022\x01a\x031\x02b\x032\n2\x01\\N\x01\x01\n", format="hive_text"), "Success")
    status(s.load("h", b"3,z\n", format="hive_text", column_separator=",", columns="k,t"), "Success")
    assert s.sql("select * from d.h order by k") == [
        [1, "x y", "[1, 2]", '{"a":1, "b":2}'], [2, None, "[]", "{}"], [3, "z", None, None]]
    # Types that Hive has not.
    fresh(s, "hl", "create table d.{} (k int, l largeint, u bigint unsigned) duplicate key(k) distributed by hash(k) buckets 1")
    rows = b"1\x01170141183460469231731687303715884105727\x0118446744073709551615\n2\x01-7\x01\\N\n3\x01x\x01-1\n"
    status(s.load("hl", rows, format="hive_text"), "Success")
    assert s.sql("select * from d.hl order by k") == [
        [1, "170141183460469231731687303715884105727", 2**64 - 1], [2, "-7", None], [3, None, None]], s.sql("select * from d.hl order by k")
    answer = status(s.load("hl", rows, format="hive_text", strict_mode="true", max_filter_ratio=1), "Success")
    assert (answer["NumberLoadedRows"], answer["NumberFilteredRows"]) == (2, 1), answer
    refused = status(s.load("h", b"", format="hive_text", enclose="'"), "Fail", "'enclose' has no meaning")
    assert "csv" in refused["Message"], refused


def names_of_starrocks(s):
    """Headers of its clients act, change no row, or are refused."""
    fresh(s, "sr", "create table d.{} (k int not null, a int, b int) primary key(k) distributed by hash(k) buckets 1")
    body = gzip.compress(b"skipped\n1, 2,3\n")
    status(s.load("sr", body, column_separator=",", compression="gzip", skip_header=1, trim_space="true", row_delimiter="\\n",
                  warehouse="w", enable_merge_commit="true", merge_commit_interval_ms=100, log_rejected_record_num=-1), "Success")
    status(s.load("sr", gzip.compress(b"1,9\n"), {"Content-Encoding": "gzip"}, column_separator=",", columns="k,b", partial_update="true",
                  partial_update_mode="column"), "Success")
    assert s.sql("select * from d.sr") == [[1, 2, 9]]
    for header, value, word in [("merge_condition", "k", "key column"), ("partial_update_mode", "fast", "auto, row or column"),
                                ("channel_id", "0", "one channel"), ("compression", "lzo", "zstd"), ("format", "orc", "parquet"),
                                ("Content-Encoding", "br", "gz")]:
        status(s.load("sr", b"1,1,1\n", {header: value}, column_separator=","), "Fail", word)
    assert s.sql("select * from d.sr") == [[1, 2, 9]]


def the_sequence_column_by_its_name(s):
    """A header may name the table's own sequence column, and no other."""
    fresh(s, "seq", "create table d.{} (k int, v int, ts int) unique key(k) distributed by hash(k) buckets 1 "
                    "properties ('function_column.sequence_col' = 'ts')")
    for body, header in [(b"1,10,5\n", "ts"), (b"1,9,4\n", "TS")]:
        status(s.load("seq", body, {"function_column.sequence_col": header}, column_separator=",", columns="k,v,ts"), "Success")
    assert s.sql("select * from d.seq") == [[1, 10, 5]]
    status(s.load("seq", b"1,9,4\n", {"function_column.sequence_col": "v"}, column_separator=","), "Fail", "sequence column is 'ts'")


def http_stream_headers(s):
    """Headers of Stream Load act on an INSERT that reads the body, or are refused."""
    t, u = fresh(s, "t"), fresh(s, "u", "create table d.{} (id int not null, a string, n int) unique key(id) "
                                        "distributed by hash(id) buckets 1")
    stamp = time.time_ns()

    def load(sql, body, **more):
        headers = {"sql": sql, **{k: str(v) for k, v in more.items()}}
        return json.loads(s.request("PUT", "/api/_http_stream", body, headers)[2])

    source = '{} from http_stream("format"="csv","column_separator"=",")'
    rows = "insert into d.t {} " + source.format("select c1, c2, c3")
    into = lambda between="": rows.format(between)
    # A label is the header's, or the statement's, or the same of both.
    label = f"h{stamp}"
    assert status(load(into(), b"1,a,1\n", label=label), "Success")["Label"] == label
    for again in (load(into(), b"2,a,1\n", label=label), load(into(f"with label {label}"), b"2,a,1\n"),
                  load(into(f"with label {label}"), b"2,a,1\n", label=label), s.load(t, b"2\ta\t1\n", label=label)):
        status(again, "Label Already Exists", label)
        assert again["ExistingJobStatus"] == "FINISHED" and again["NumberTotalRows"] == 0, again
    # Of two the header's.
    assert status(load(into("with label other"), b"2,a,1\n", label=label), "Label Already Exists")["Label"] == label
    status(load(into(f"with label {label}g"), b"2,a,1\n", group_commit="sync_mode"), "Fail", "label and group_commit")
    status(load(into(), b"bad\n", label=label + "f"), "Fail")
    status(load(into(), b"3,a,1\n", label=label + "f"), "Success")
    assert s.sql("select id from d.t order by id") == [[1], [3]]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        at_once = list(pool.map(lambda _: load(into(), b"4,a,1\n", label=label + "c"), range(8)))
    assert sorted(a["Status"] for a in at_once) == ["Label Already Exists"] * 7 + ["Success"], at_once
    assert s.count(t) == 3

    # What the statement says is no header.
    for header, value, word in [
        ("columns", "c1,c2", "SELECT"), ("where", "id > 1", "WHERE"),
        ("merge_type", "DELETE", "__DORIS_DELETE_SIGN__"), ("function_column.sequence_col", "a", "__DORIS_SEQUENCE_COL__"),
        ("hidden_columns", "__DORIS_DELETE_SIGN__", "list of columns"), ("negative", "true", "minus"),
        ("partitions", "p1", "PARTITION (p1"), ("temporary_partitions", "p1", "TEMPORARY PARTITION"),
        ("format", "json", "option of that name"), ("column_separator", "|", "option"), ("enclose", "'", "option"),
        ("compress_type", "gz", "option"), ("skip_lines", "1", "option"), ("line_delimiter", ";", "option"),
        ("num_as_string", "true", "option"), ("read_json_by_line", "false", "option"),
    ]:
        answer = status(load(into(), b"9,a,1\n", **{header: value}), "Fail", f"header '{header}' has no effect")
        assert word in answer["Message"], answer
    # In two phases, under a label or a number.
    for name in ({"label": label + "two"}, {}):
        prepared = status(load(into(), b"8,a,1\n", two_phase_commit="true", **name), "Success")
        assert prepared["TwoPhaseCommit"] == "true" and s.sql("select count(*) from d.t where id = 8") == [[0]], prepared
        ended = {**(name or {"txn_id": str(prepared["TxnId"])}), "txn_operation": "commit" if name else "abort"}
        answer = json.loads(s.request("PUT", "/api/d/_stream_load_2pc", b"", ended)[2])
        assert answer["status"] == "Success", answer
        assert s.sql("select count(*) from d.t where id = 8") == [[1 if name else 0]], answer
        s.sql("delete from d.t where id = 8")
    status(load(into().replace('"csv"', '"txt"'), b"8,a,1\n"), "Success")
    s.sql("delete from d.t where id = 8")
    status(load(into(), b"5,a,1\n", column_separator=",", format="csv", exec_mem_limit="1000000000", comment="why"), "Success")
    assert s.count(t) == 4

    # Partial updates.
    status(load("insert into d.u " + source.format("select c1, c2, c3"), b"1,x,1\n2,y,2\n"), "Success")
    some = "insert into d.u (id, n) " + source.format("select c1, c2")
    status(load(some, b"2,20\n3,30\n", partial_columns="true"), "Success")
    assert s.sql("select * from d.u order by id") == [[1, "x", 1], [2, "y", 20], [3, None, 30]]
    status(load(some, b"9,9\n", unique_key_update_mode="UPDATE_FIXED_COLUMNS", partial_update_new_key_behavior="ERROR"),
           "Fail", "new rows in partial update")
    status(load(some, b"2,21\n"), "Success")
    assert s.sql("select * from d.u where id = 2") == [[2, None, 21]]
    status(load(into(), b"6,a,1\n", partial_columns="true"), "Fail", "Only unique key")
    assert s.count(t) == 4

    # Values that do not fit are counted and shown.
    whole = "insert into d.u " + source.format("select c1, c2, c3")
    for headers, words in [({}, ("not nullable", "1 of 2 rows", "max_filter_ratio is 0")),
                           ({"strict_mode": "true"}, ("Incorrect INT value: 'x'", "send strict_mode: false"))]:
        answer = status(load(whole, b"x,a,1\n8,b,2\n", **headers), "Fail", "too many filtered rows")
        assert all(word in answer["Message"] for word in words), answer
        assert (answer["NumberFilteredRows"], answer["NumberLoadedRows"], len(answer["RejectedRows"])) == (1, 0, 1), answer
        log = s.request("GET", answer["ErrorURL"].split(f":{s.http}", 1)[1])[2].decode()
        assert log.count("Reason: ") == 1 and words[0] in log, log
    assert s.sql("select count(*) from d.u where id = 8") == [[0]]

    # No rows: where the columns are known, none are loaded.
    schema = 'insert into d.t select * from http_stream("format"="csv", "csv_schema"="id:int;a:string;b:double")'
    assert status(load(schema, b""), "Success")["NumberTotalRows"] == 0
    names = 'insert into d.t select id, a, b from http_stream("format"="csv_with_names", "column_separator"=",")'
    assert status(load(names, b"id,a,b\n"), "Success")["NumberTotalRows"] == 0
    for sql in (into(), "insert into d.t " + source.format("select *"), names):
        status(load(sql, b""), "Fail", "the body is empty")


def zones(s):
    """A time with an offset is the same moment whether it is stored as it stands or cast by an expression."""
    z = "create table d.{} (k int, t datetime, d date) duplicate key(k) distributed by hash(k) buckets 1"
    body = (b"1,2024-01-31 20:00:00+00:00,2024-01-31 20:00:00+00:00\n2,2024-01-31T10:00:00Z,2024-01-31\n"
            b"3,2024-01-31 10:00:00,2024/1/31\n4,\\N,x\n")
    objects = b"".join(json.dumps(dict(zip("ktd", line.split(",")))).encode() + b"\n"
                       for line in body.decode().replace("\\N", "").splitlines())
    shanghai = [["1|2024-02-01 04:00:00|2024-02-01"], ["2|2024-01-31 18:00:00|2024-01-31"],
                ["3|2024-01-31 10:00:00|2024-01-31"], ["4|none|none"]]
    utc = [["1|2024-01-31 20:00:00|2024-01-31"], ["2|2024-01-31 10:00:00|2024-01-31"], shanghai[2], shanghai[3]]
    shown = "select concat_ws('|', k, ifnull(cast(t as string), 'none'), ifnull(cast(d as string), 'none')) from d.z order by k"
    casts = {"columns": "k,x,y,t=cast(x as datetime),d=cast(y as date)"}
    for headers, expected in [({"timezone": "Asia/Shanghai"}, shanghai), ({"timezone": "+08:00"}, shanghai),
                              ({"timezone": "UTC"}, utc), ({"timezone": "Etc/UTC"}, utc)]:
        for data, more in [(body, {}), (body, casts), (objects, {"format": "json"})]:
            fresh(s, "z", z)
            status(s.load("z", data, {**headers, **more}, column_separator=","), "Success")
            assert s.sql(shown) == expected, (headers, more, s.sql(shown))
        fresh(s, "z", z)
        sql = 'insert into d.z select * from http_stream("format"="csv", "column_separator"=",", "csv_schema"="k:int;t:datetime;d:date")'
        status(json.loads(s.request("PUT", "/api/_http_stream", body, {**headers, "sql": sql})[2]), "Success")
        assert s.sql(shown) == expected, (headers, s.sql(shown))
    # Values that do not fit are reported with a zone as without.
    for zone in ("UTC", "Asia/Shanghai"):
        fresh(s, "z", z)
        answer = s.load("z", body, column_separator=",", timezone=zone, strict_mode="true")
        status(answer, "Fail", "too many filtered rows")
        assert answer["NumberFilteredRows"] == 1 and answer["RejectedRows"][0]["line"] == 4, answer
        reason = 'column(d) value is incorrect while strict mode is 1, src value is "x" is not a DATE'
        assert answer["RejectedRows"][0]["reason"].startswith(reason), answer
        quoted = b'1,"","2024-01-31"\n2,"2024-01-31 10:00:00",""\n'
        status(s.load("z", quoted, column_separator=",", enclose='"', timezone=zone, strict_mode="true"), "Success")
        answer = s.load("z", body, column_separator=",", timezone=zone, strict_mode="true", max_filter_ratio="0.5")
        status(answer, "Success")
        assert (answer["NumberLoadedRows"], answer["NumberFilteredRows"]) == (3, 1), answer
    # Inside of arrays, maps and structs as outside.
    za = ('create table d.{} (k int, l array<datetime> default "[]", m map<string,date>, s struct<a:int,t:datetime>) '
          'duplicate key(k) distributed by hash(k) buckets 1')
    inside = b"""1|["2024-01-31 20:00:00+00:00", "2024-01-31 10:00:00", null]|{"a":"2024-01-31 20:00:00Z"}|{"a":1,"t":"2024-01-31T20:00:00Z"}\n2|[]|{}|\\N\n"""
    as_json = (b'{"k":1,"l":["2024-01-31 20:00:00+00:00","2024-01-31 10:00:00",null],"m":{"a":"2024-01-31 20:00:00Z"},'
               b'"s":{"a":1,"t":"2024-01-31T20:00:00Z"}}\n{"k":2,"m":{}}\n')
    for zone, (hour, day) in [("Asia/Shanghai", ("2024-02-01 04:00:00", "2024-02-01")), ("UTC", ("2024-01-31 20:00:00", "2024-01-31"))]:
        for data, more in [(inside, {"column_separator": "|"}), (as_json, {"format": "json"})]:
            fresh(s, "za", za)
            status(s.load("za", data, timezone=zone, strict_mode="true", **more), "Success")
            found = s.sql("select * from d.za order by k")
            assert found == [[1, f'["{hour}", "2024-01-31 10:00:00", null]', f'{{"a":"{day}"}}', f'{{"a":1, "t":"{hour}"}}'],
                             [2, "[]", "{}", None]], (zone, more, found)
        answer = s.load("za", b"1|[x]|{}|\\N\n2|[2024-01-31]|{}|\\N\n", column_separator="|", timezone=zone, strict_mode="true",
                        max_filter_ratio="0.5")
        status(answer, "Success")
        assert answer["NumberFilteredRows"] == 1 and "not a DATETIME" in answer["RejectedRows"][0]["reason"], answer


def absent_in_json(s):
    """What an object does not have is the column's default; what it says is null is NULL."""
    definition = ("create table d.{} (id int not null, a string default 'x', n int default '7', m int not null default '3', "
                  "t datetime default current_timestamp, d date default '2024-05-06', z int) duplicate key(id) "
                  "distributed by hash(id) buckets 1")
    body = b'{"id":1}\n{"id":2,"a":null,"n":null,"m":5,"t":null,"d":null,"z":1}\n{"id":3,"m":null}\n'
    shown = "select id, a, n, m, t is null, cast(d as string), z from d.j order by id"
    expected = [[1, "x", 7, 3, 0, "2024-05-06", None], [2, None, None, 5, 1, None, 1]]
    paths = '["$.id","$.a","$.n","$.m","$.t","$.d","$.z"]'
    for headers in ({}, {"timezone": "Asia/Shanghai"}, {"jsonpaths": paths}):
        fresh(s, "j", definition)
        answer = status(s.load("j", body, headers, format="json", max_filter_ratio="0.5"), "Success")
        assert answer["NumberFilteredRows"] == 1 and "not nullable" in answer["FirstErrorMsg"], answer
        found = [[*row[:4], int(row[4]), *row[5:]] for row in s.sql(shown)]
        assert found == expected, (headers, found)
    fresh(s, "j", definition)
    status(s.load("j", b'{"id":1}\n{"id":2,"n":1}\n', format="json", columns="id,n,z=n+1"), "Success")
    assert s.sql("select id, n, z from d.j order by id") == [[1, 7, 8], [2, 1, 2]]


def profiles(s):
    t = fresh(s, "t")
    status(s.load(t, b"1\ta\t1\n2\tb\t2\n", label=f"p{time.time_ns()}"), "Success")
    s.sql("insert into d.t select id + 10, a, b from d.t")
    s.sql("select a, count(*) from d.t group by a order by a")
    get = lambda path: json.loads(s.request("GET", path)[2])
    listed = get("/rest/v1/query_profile")["data"]["rows"]
    query = next(row for row in listed if "group by a" in row["Sql Statement"])
    assert query["Task Type"] == "QUERY" and query["Task State"] == "OK", query
    assert any(row["Task Type"] == "INSERT" for row in listed), listed
    profile = get(f"/api/profile/{query['Profile ID']}")["data"]

    def names(operators):
        return [n for o in operators for n in [o["name"], *names(o["inputs"])]]

    assert "NativeScanExec" in names(profile["operators"]) and profile["rows"] == 2, profile
    assert profile["why"].startswith("It took"), profile
    text = get(f"/rest/v1/query_profile/{query['Profile ID']}")["data"]
    assert "NativeScanExec" in text and "Why" in text, text
    lines = [row[0] for row in s.sql(f"show query profile '/{query['Profile ID']}'")]
    assert any("NativeScanExec" in line for line in lines), lines
    assert any("group by a" in row[9] for row in s.sql("show query profile '/'"))
    loads = s.sql("show load profile '/'")
    assert loads[0][1] == "LOAD", loads
    steps = [row[0] for row in s.sql(f"show load profile '/{loads[0][0]}'")]
    assert any("encode" in line for line in steps) and any("sort" in line for line in steps), steps
    assert get("/api/profile/nosuch")["code"] == 1


def backup_and_restore(s):
    t, u = fresh(s, "t"), fresh(s, "u", UNIQUE)
    s.sql("drop view if exists d.w")
    s.sql("create view d.w as select id from d.t")
    status(s.load(t, b"".join(b"%d\ta\t%d\n" % (i, i) for i in range(5000))), "Success")
    for i in range(4):
        status(s.load(u, b"".join(b"%d\tv%d\n" % (k, i) for k in range(1000))), "Success")
    s.sql("delete from d.u where id < 100")
    status(s.load(t, b"1\tp\t1\n", two_phase_commit="true"), "Success")

    def run(*arguments):
        return subprocess.run([s.binary, *map(str, arguments)], capture_output=True, text=True, timeout=120, check=False)

    data = s.directory / "data"
    with tempfile.TemporaryDirectory() as directory:
        copy = pathlib.Path(directory) / "copy"
        done = run("backup", "d.t", "d.u", "d.w", "--data", data, "--to", copy)
        assert done.returncode == 0 and "3 tables, 5900 rows" in done.stdout, done
        again = run("backup", "--data", data, "--to", copy)
        assert again.returncode == 1 and f"'{copy}' holds a backup already" in again.stderr, again
        checked = run("check", copy)
        assert checked.returncode == 0 and checked.stdout.startswith("2 tables, ") and "5900 rows" in checked.stdout, checked
        assert "no table 'd.x'" in run("backup", "d.x", "--data", data, "--to", pathlib.Path(directory) / "x").stderr
        # What happens afterwards is not in it.
        s.sql("insert into d.t values (99999, 'x', 1)")
        taken = run("restore", "d.t", "--from", copy, "--data", data)
        assert taken.returncode == 1 and "exists" in taken.stderr and "restored d.t" not in taken.stderr, taken
        done = run("restore", "d.t=d.restored", "d.u=other.u", "--from", copy, "--data", data)
        assert done.returncode == 0 and "2 tables, 5900 rows" in done.stdout, done
        assert s.sql("select count(*), count(distinct id), sum(b) from d.restored")[0][:2] == [5000, 5000]
        assert s.sql("select count(*), min(id), min(v) from other.u") == [[900, 100, "v3"]]
        s.sql("insert into other.u values (100, 'new'), (5, 'five')")
        assert s.sql("select count(*) from other.u where v in ('new', 'five')") == [[2]]
        assert s.sql("select count(*) from d.u where id = 5") == [[0]], "the copy is a table of its own"
        # A directory of its own, where everything is as it was.
        new = pathlib.Path(directory) / "new"
        done = run("restore", "--from", copy, "--data", new)
        assert done.returncode == 0 and "3 tables" in done.stdout, done
        assert run("check", new).returncode == 0
        shown = run("sql", "--data", new, "--format", "csv", "select count(*), max(id) from d.w")
        assert "5000,4999" in shown.stdout, shown
        # A damaged copy is refused, whatever is damaged, and leaves nothing.
        files = sorted(p for p in copy.rglob("*") if p.is_file() and p.stat().st_size > 200)
        for number, path in enumerate(files[:: max(1, len(files) // 12)]):
            kept = path.read_bytes()
            changed = bytearray(kept)
            changed[len(kept) // 2] ^= 4
            path.chmod(0o644)
            path.write_bytes(changed)
            empty = pathlib.Path(directory) / f"empty{number}"
            refused = run("restore", "--from", copy, "--data", empty)
            assert refused.returncode == 1 and "damaged" in refused.stderr, (path, refused)
            checked = run("check", copy)
            assert checked.returncode == 1 and "damaged" in checked.stdout + checked.stderr, (path, checked)
            assert not [p for p in empty.rglob("*.parquet")], path
            path.write_bytes(kept[:-1])
            assert run("restore", "--from", copy, "--data", empty).returncode == 1, path
            path.write_bytes(kept)
        assert run("restore", "--from", copy, "--data", pathlib.Path(directory) / "last").returncode == 0
    for name in ("d.restored", "other.u"):
        s.sql(f"drop table {name}")


def some_columns(s):
    u = fresh(s, "u", "create table d.{} (id int not null, a string, b int not null default '7', c int not null) "
                      "unique key(id) distributed by hash(id) buckets 2")
    status(s.load(u, b"1\tx\t1\t1\n2\ty\t2\t2\n"), "Success")
    partial = {"partial_columns": "true", "columns": "id,a"}
    status(s.load(u, b"1\tnew\n2\t\\N\n", partial), "Success")
    assert s.sql("select * from d.u order by id") == [[1, "new", 1, 1], [2, None, 2, 2]]
    status(s.load(u, b"3\tz\n", partial), "Fail", "too many filtered rows")
    status(s.load(u, b"3\tz\t5\n", partial, columns="id,a,c"), "Success")
    assert s.sql("select * from d.u where id = 3") == [[3, "z", 7, 5]]
    status(s.load(u, b"9\tz\n", partial, partial_update_new_key_behavior="ERROR"), "Fail", "Row with key=[9] is not in table")
    status(s.load(u, b"z\n", partial, columns="a"), "Fail", "missing: id")
    status(s.load(fresh(s, "t"), b"1\n", partial, columns="id"), "Fail", "Only unique key")


def some_columns_delete(s):
    u = fresh(s, "u", "create table d.{} (id int not null, a string, n int not null) unique key(id) "
                      "distributed by hash(id) buckets 2")
    status(s.load(u, b"1\tx\t1\n2\tb\t2\n3\tc\t3\n4\td\t4\n"), "Success")
    delete = {"partial_columns": "true", "merge_type": "DELETE"}
    # The column that is not named has no default: a row that deletes needs only its key.
    status(s.load(u, b"2\t1\n", delete, columns="id,n"), "Success")
    status(s.load(u, b"3\n9\n", delete, columns="id"), "Success")
    assert s.sql("select * from d.u order by id") == [[1, "x", 1], [4, "d", 4]]
    merge = {"partial_columns": "true", "merge_type": "MERGE", "delete": "n=0", "columns": "id,n"}
    status(s.load(u, b"1\t0\n4\t5\n", merge), "Success")
    assert s.sql("select * from d.u") == [[4, "d", 5]]


def op_deletes(s):
    """StarRocks' column __op says which rows delete, in every format; a column of the table of that name does not."""
    u = fresh(s, "u", UNIQUE)
    rows = b"1\ta\n2\tb\n3\tc\n4\td\n5\te\n6\tf\n7\tg\n"
    status(s.load(u, rows), "Success")
    status(s.load(u, b"1\tx\t1\n8\th\t0\n9\ti\tupsert\n2\tx\tDELETE\n", columns="id,v,__op"), "Success")
    status(s.load(u, b'{"id":3,"v":"x","__op":1}\n{"id":10,"v":"j","__op":0}\n{"id":11,"v":"k"}\n', format="json"), "Success")
    status(s.load(u, b'{"a":4,"o":"delete"}', format="json", jsonpaths='["$.a","$.o"]', columns="id,__op"), "Success")
    status(s.load(u, b"5\n", columns="id,__op='delete'"), "Success")
    status(s.load(u, b"12\tl\n", columns="id,v,__op='upsert'"), "Success")
    status(s.load(u, b"6\t5\n13\t0\n", columns="id,n,__op=if(n > 1, 1, 0)"), "Success")
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory) / "rows.parquet"
        query = "select 7 id, 'x' v, 1 __op union all select 14, 'n', 0"
        command = [s.binary, "sql", "--data", f"{directory}/data", f"COPY ({query}) TO '{path}'"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done
        status(s.load(u, path.read_bytes(), format="parquet"), "Success")
    left = [[8, "h"], [9, "i"], [10, "j"], [11, "k"], [12, "l"], [13, None], [14, "n"]]
    assert s.sql("select * from d.u order by id") == left
    status(s.load(u, b"8\tz\t7\n", columns="id,v,__op"), "Fail", "not nullable")
    status(s.load(u, b"8\tz\t1\n", columns="id,v,__op", merge_type="DELETE"), "Fail", "'merge_type' says what rows do, too")
    assert s.sql("select * from d.u order by id") == left
    w = fresh(s, "named_op", "create table d.{} (id int not null, __op int) unique key(id) distributed by hash(id) buckets 1")
    status(s.load(w, b"1\t1\n2\t0\n", columns="id,__op"), "Success")
    assert s.sql("select * from d.named_op order by id") == [[1, 1], [2, 0]]


def on_update(s):
    """ON UPDATE CURRENT_TIMESTAMP is set by what changes some columns and leaves that one out."""
    t = fresh(s, "u", "create table d.{} (id int not null, a int, b int, at datetime(3) default '2000-01-01' on update "
                      "current_timestamp(3)) unique key(id) distributed by hash(id) buckets 1")
    status(s.load(t, b"1\t1\t1\t2001-01-01\n2\t2\t2\t2001-01-01\n3\t3\t3\t2001-01-01\n"), "Success")
    status(s.load(t, b"1\t10\n", partial_columns="true", columns="id,a"), "Success")
    status(s.load(t, b'{"id":2,"a":20}', format="json", partial_columns="true", columns="id,a"), "Success")
    status(s.load(t, b"3\t30\t2002-02-02\n", partial_columns="true", columns="id,a,at"), "Success")
    rows = s.sql("select id, a, b, if(at > '2020-01-01', 1, 0), year(at) from d.u order by id")
    assert [row[:4] for row in rows] == [[1, 10, 1, 1], [2, 20, 2, 1], [3, 30, 3, 0]], rows
    assert rows[2][4] == 2002


def generated_columns(s):
    """Generated columns are computed by every kind of load, and no load gives them a value."""
    g = fresh(s, "g", "create table d.{} (k int not null, a int, g int not null as (coalesce(a, 0) * 10 + b), b int default '5', "
                      "t varchar(4) as (concat('v', g))) unique key(k) distributed by hash(k) buckets 2")
    status(s.load(g, b"1\t1\t1\n2\t2\t2\n"), "Success")
    status(s.load(g, b"3\t3\n", columns="k,a"), "Success")
    status(s.load(g, b'{"k":4,"b":4,"g":77,"a":4}\n{"k":5}\n', format="json"), "Success")
    status(s.load(g, b"1\t7\n6\t8\n", partial_columns="true", columns="k,b"), "Success")
    status(s.load(g, b'{"k":2,"a":9}\n{"k":3,"b":1}\n', format="json", unique_key_update_mode="UPDATE_FLEXIBLE_COLUMNS"), "Success")
    status(s.load(g, b"5\n", columns="k", merge_type="DELETE"), "Success")
    expected = [[1, 1, 17, 7, "v17"], [2, 9, 92, 2, "v92"], [3, 3, 31, 1, "v31"], [4, 4, 44, 4, "v44"], [6, None, 8, 8, "v8"]]
    assert s.sql("select * from d.g order by k") == expected, s.sql("select * from d.g order by k")
    # Small loads share a commit.
    status(s.load(g, b"7\t0\t3\n", group_commit="sync_mode"), "Success")
    assert s.sql("select g, t from d.g where k = 7") == [[3, "v3"]]
    status(s.load(g, b"1\t2\n", columns="k,g"), "Fail", "The value specified for generated column 'g' is not allowed")
    status(s.load(g, b"1\t2\n", columns="k,x,t=x"), "Fail", "The value specified for generated column 't' is not allowed")
    # A value that does not fit: the row is refused if the load is strict, otherwise the text is cut.
    status(s.load(g, b"8\t9000\t1\n9\t1\t1\n", strict_mode="true", max_filter_ratio="0.5"), "Success")
    status(s.load(g, b"10\t9000\t1\n"), "Success")
    assert s.sql("select k, t from d.g where k > 7 order by k") == [[9, "v11"], [10, "v900"]]
    # Functions that users have defined, in expressions and conditions.
    s.sql("create alias function d.thrice(int) with parameter(x) as x * 3")
    status(s.load(g, b"20\t4\n21\t1\n", columns="k,x,a=thrice(x)", where="thrice(k) < 62"), "Success")
    assert s.sql("select a, g from d.g where k > 19") == [[12, 125]]


def digits_of_datetimes(s):
    """DATETIME(p) has p digits in answers of the query API, also inside of other values and in expressions."""
    day = "2024-01-02 03:04:05"
    s.sql("create table d.digits (k int, a datetime, b datetime(3), c datetime(6), l array<datetime(2)>, m map<varchar(9), datetime(1)>, "
          "s struct<x:datetime,y:datetime(4)>, n array<struct<z:datetime(5),w:int>>) duplicate key (k) distributed by hash(k) buckets 1")
    s.sql(f"insert into d.digits values (1, '{day}', '{day}.1', '{day}', ['{day}.25', null], map('a', '{day}'), named_struct('x', '{day}', 'y', '{day}.5'), "
          f"[named_struct('z', '{day}', 'w', 7), null]), (2, null, null, null, null, null, null, null)")
    first, second = s.sql("select * from d.digits order by k")
    assert first == [1, day, day + ".100", day + ".000000", f'["{day}.25", null]', f'{{"a":"{day}.0"}}', f'{{"x":"{day}", "y":"{day}.5000"}}',
                     f'[{{"z":"{day}.00000", "w":7}}, null]'], first
    assert second == [2] + [None] * 7, second
    rows = s.sql("select max(b), min(a), c + interval 1 day, date_trunc(b, 'second'), [b], coalesce(a, b), s.y, l[1], array_agg(a) "
                 "from d.digits where k = 1 group by a, b, c, s, l")
    assert rows == [[day + ".100", day, "2024-01-03 03:04:05.000000", day + ".000", f'["{day}.100"]', day + ".000", day + ".5000", day + ".25",
                     f'["{day}"]']], rows


def times(s):
    """TIME columns are loaded from CSV and JSON, negative and beyond a day, and rounded to their digits."""
    s.sql("create table d.times (k int, t time, m time(3), l array<time>) duplicate key (k) distributed by hash(k) buckets 1")
    answer = s.load("times", b"1,10:00:00.9,10:00:00.9996,\n2,-01:00:00,25:00,\n3,101530,838:59:59,\n4,2024-01-02 03:04:05,\\N,\n",
                    column_separator=",")
    assert answer["Status"] == "Success", answer
    answer = s.load("times", b'[{"k":5,"t":"-100:00:00.5","m":"1:2:3.25","l":["-1:0:0","30:0:0"]},{"k":6,"t":101530,"m":null}]', format="json",
                    strip_outer_array="true")
    assert answer["Status"] == "Success", answer
    rows = s.sql("select k, t, m, l from d.times order by k")
    assert rows == [[1, "10:00:01", "10:00:01.000", None], [2, "-01:00:00", "25:00:00.000", None], [3, "10:15:30", "838:59:59.000", None],
                    [4, "03:04:05", None, None], [5, "-100:00:01", "01:02:03.250", '["-01:00:00", "30:00:00"]'], [6, "10:15:30", None, None]], rows
    answer = s.load("times", b"7,839:00:00,1,\n", column_separator=",", strict_mode="true", max_filter_ratio="1")
    assert answer["NumberFilteredRows"] == 1 and "not a TIME" in answer["RejectedRows"][0]["reason"], answer


def records(s):
    t = fresh(s, "t")
    label = f"r{time.time_ns()}"
    answer = s.load(t, b"1\ta\t1\nbad\n", label=label, max_filter_ratio="0.5", comment="why")
    rows = s.sql(f"select state, loaded_rows, filtered_rows, txn_id, type from information_schema.loads where label = '{label}'")
    assert rows == [["FINISHED", 1, 1, answer["TxnId"], "STREAM_LOAD"]], rows
    shown = s.sql(f"show load from d where label = '{label}'")
    assert len(shown) == 1 and shown[0][2] == "FINISHED" and shown[0][-1] == "why", shown
    assert s.sql(f"show stream load from d where label = '{label}'") == shown
    warnings = s.sql(f"show load warnings on '{answer['ErrorURL']}'")
    assert len(warnings) == 1 and "Column count mismatch" in warnings[0][2], warnings


def command_line(s):
    t = fresh(s, "t")
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory) / "rows.csv"
        path.write_text('1,"a,b",1.5\n2,c,2\n')

        def run(*arguments, stdin=None):
            command = [s.binary, "load", *map(str, arguments)]
            return subprocess.run(command, input=stdin, capture_output=True, timeout=60, check=False)

        server = ["--server", f"http://127.0.0.1:{s.http}"]
        done = run(path, "--table", f"d.{t}", *server)
        assert done.returncode == 0 and b"loaded 2 rows" in done.stdout, done
        done = run("-", "--table", f"d.{t}", *server, "--format", "json", stdin=b"3\tx\t1\n")
        assert done.returncode == 0 and json.loads(done.stdout)["NumberLoadedRows"] == 1, done
        done = run(path, "--table", f"d.{t}", "--data", s.directory / "data", "--where", "id > 1", "--columns", "id,a,b")
        assert done.returncode == 0 and b"1 not selected" in done.stdout, done
        assert s.sql("select * from d.t where id < 3 order by id, b") == [[1, "a,b", 1.5], [2, "c", 2], [2, "c", 2]]
        for wrong, word in [(["--table", "t"], b"database.table"), (["--table", "d.nosuch"], b"nosuch"),
                            (["--table", f"d.{t}", "--password", "x"], b"Unauthorized"),
                            (["--table", f"d.{t}", "--columns", "id"], b"too many filtered rows")]:
            done = run(path, *wrong, *server)
            assert done.returncode == 1 and word in done.stderr, done
        done = run(path, "--table", f"d.{t}", "--server", "http://127.0.0.1:1")
        assert done.returncode == 1 and b"cannot reach" in done.stderr, done


def neighbours(s):
    t = fresh(s, "t")
    status(s.load(t, b"1\ta\t1\n"), "Success")
    get = lambda path: json.loads(s.request("GET", path)[2])
    assert get("/api/health")["data"]["online_backend_num"] == 1
    assert get("/api/bootstrap")["code"] == 0
    assert get("/api/backends")["data"]["backends"][0]["http_port"] == s.http
    assert get(f"/api/d/{t}/_count")["data"]["size"] == 1
    names = [p["name"] for p in get(f"/api/d/{t}/_schema")["data"]["properties"]]
    assert names == ["id", "a", "b"], names
    assert get("/api/d/nosuch/_count")["code"] == 1
    metrics = s.request("GET", "/metrics")[2].decode()
    assert re.search(r'^dipper_loads_total\{status="success"\} [1-9]', metrics, re.M), metrics
    assert get("/api/profile/1")["data"]["task"] == "LOAD"


def connectors(s):
    """What connectors and consoles ask beside their loads."""
    fresh(s, "u", UNIQUE)
    fresh(s, "t")
    s.sql("drop table if exists d.a")
    s.sql("create table d.a (k int, n decimal(10, 2) sum) aggregate key(k) distributed by hash(k) buckets 1")
    status(s.load("t", b"1\ta\t1\n2\tb\t2\n"), "Success")

    def get(path, method="GET", body=None, headers=None):
        code, _, text = s.request(method, path, body, headers)
        assert code == 200, (path, code, text)
        return json.loads(text)

    for path in ("/api/d/u/_schema", "/api/internal/d/u/_schema", "/api/default_catalog/d/u/_schema"):
        data = get(path)["data"]
        assert data["keysType"] == "UNIQUE_KEYS" and data["status"] == 200, data
        assert [(p["name"], p["type"], p["is_nullable"]) for p in data["properties"]] == [("id", "INT", "No"), ("v", "STRING", "Yes")], data
    data = get("/api/d/a/_schema")["data"]
    assert data["keysType"] == "AGG_KEYS" and data["properties"][0]["aggregation_type"] == "", data
    n = data["properties"][1]
    assert (n["type"], n["precision"], n["scale"], n["aggregation_type"]) == ("DECIMAL", 10, 2, "SUM"), n
    assert get("/api/d/t/_schema")["data"]["keysType"] == "DUP_KEYS"
    assert "nosuch" in get("/api/d/nosuch/_schema")["data"]
    assert get("/api/nosuch/d/t/_schema")["code"] == 1
    # Sources of connectors are told what to do instead, in whatever of these their messages quote.
    plan = get("/api/d/u/_query_plan", "POST", b'{"sql":"select id from d.u"}', {"Content-Type": "application/json"})
    assert plan["code"] != 0 and all("JDBC" in plan[k] for k in ("msg", "data", "partitions", "exception")), plan
    for path in ("/rest/v1/system?path=//backends", "/rest/v1/system?path=/frontends"):
        data = get(path)["data"]
        assert data["rows"][0]["HttpPort"] == str(s.http) and "Alive" in data["column_names"], data
    for node in ("backends", "frontends"):
        data = get(f"/rest/v2/manager/node/{node}")["data"]
        assert data["rows"][0][data["column_names"].index("HttpPort")] == str(s.http), data
    change = b'{"isDropColumn":false,"columnName":"x"}'
    assert get("/api/enable_light_schema_change/d/u", body=change)["code"] == 0
    assert get("/api/enable_light_schema_change/d/nosuch", body=change)["code"] != 0
    statement = get("/api/_get_ddl?db=d&tbl=u")["data"]["create_table"][0]
    assert statement.startswith("CREATE TABLE `u`"), statement
    assert get("/api/_get_ddl?db=d")["code"] != 0
    sizes = get("/api/show_table_data?db=d")["data"]["d"]
    assert sizes["t"] > 0 and "d" in get("/api/show_table_data")["data"], sizes
    assert list(get("/api/show_table_data?db=d&table=t")["data"]["d"]) == ["t"]
    assert get("/api/show_data?db=d")["data"] == {"d": sum(sizes.values())}
    assert get("/api/show_data")["data"]["__total_size"] >= sum(sizes.values())
    # Lists of the console and of the manager.
    assert ["dbs"] in get("/api/show_proc?path=/")["data"] and "nosuch" in get("/api/show_proc?path=/nosuch")["data"]
    own = get("/rest/v1/session")["data"]
    assert own == get("/rest/v1/session/all")["data"] or "Command" in own["column_names"], own
    settings = get("/rest/v1/config/fe")["data"]
    assert {"Name": "disable_storage_row_cache", "Value": "false"} in settings["rows"], settings
    assert "row_cache_mem_limit" in get("/rest/v2/manager/node/configuration_name")["data"]["frontend"]
    assert get("/rest/v1/config/fe/")["data"] == settings and get("/api/basepath")["data"] == {"enable": False, "path": ""}
    # The node itself.
    assert get("/rest/v1/login", "POST")["code"] == 200 and s.request("GET", "/rest/v1/login")[0] == 405
    role = get("/rest/v1/ha")["data"]
    assert role["FrontendRole"][0]["Value"] == "MASTER" and int(role["CurrentJournalId"][0]["Value"]) > 0, role
    ha = get("/api/show_meta_info?action=SHOW_HA")["data"]
    assert (ha["role"], ha["can_read"], ha["observer_nodes"]) == ("MASTER", "true", ""), ha
    by_database = get("/api/show_meta_info?action=show_db_size")["data"]
    assert by_database["d"] == sum(get("/api/show_table_data?db=d")["data"]["d"].values()) and get("/api/show_meta_info")["code"] == 1, by_database
    machine = get("/rest/v1/hardware_info/fe")["data"]
    assert "Linux" in machine["HardwareInfo"]["OS"] and machine["VersionInfo"]["Version"], machine
    version = get("/api/fe_version_info")["data"]["feVersionInfo"]
    assert version["dorisBuildVersion"].startswith(f"{version['dorisBuildVersionMajor']}.{version['dorisBuildVersionMinor']}."), version
    memory = get("/api/show_runtime_info")["data"]
    assert int(memory["thread_cnt"]) > 1 and 0 < int(memory["free_mem"]) <= int(memory["max_mem"]), memory
    here = f"127.0.0.1:{s.http}"
    assert get("/rest/v2/manager/node/node_list")["data"] == {"frontend": [here], "backend": [here]}
    assert get("/rest/v2/manager/cluster/cluster_info/conn_info")["data"] == {"http": [here], "mysql": [f"127.0.0.1:{s.mysql}"]}
    assert get("/rest/v2/manager/node/brokers")["data"]["rows"] == []
    assert s.request("GET", "/rest/v2/manager/node/nosuch")[0] == 404
    names = "/api/meta/namespaces/default_cluster/databases"
    assert "d" in get(names)["data"] and get(f"{names}?limit=1&offset=0")["data"] == sorted(get(names)["data"])[:1]
    assert "limit" in get(f"{names}?offset=1")["data"] and get(f"{names}?limit=x")["code"] == 1
    assert {"a", "t", "u"} <= set(get(f"{names}/d/tables")["data"]) and get(f"{names}/nosuch/tables")["code"] == 1
    s.sql("alter table d.a add rollup by_n (k, n)")
    schema = get(f"{names}/d/tables/a/schema")["data"]
    assert list(schema) == ["a"] and schema["a"]["is_base"] is True, schema
    assert schema["a"]["schema"][1] == {"Field": "n", "Type": "decimal(10,2)", "Null": "Yes", "Extra": "SUM", "Default": None, "Key": "false"}
    both = get(f"{names}/d/tables/a/schema?with_mv=1")["data"]
    assert both["by_n"]["is_base"] is False and [c["Field"] for c in both["by_n"]["schema"]] == ["k", "n"], both
    query = get("/rest/v1/query_profile")["data"]["rows"][0]
    assert get(f"/rest/v2/manager/query/sql/{query['Profile ID']}")["data"] == {"sql": query["Sql Statement"]}
    for profile in (f"/rest/v2/manager/query/profile/text/{query['Profile ID']}", f"/api/profile?query_id={query['Profile ID']}"):
        assert query["Sql Statement"] in get(profile)["data"]["profile"], profile
    assert "query_id" in get("/api/profile")["data"]
    assert get("/api/rowcount?db=d&table=t")["data"] == {"t": 2}
    assert get("/api/rowcount?db=d&table=nosuch")["code"] != 0
    # Who may do nothing with a table learns nothing of it.
    s.sql("create user if not exists looker identified by 'pw'")
    mine = {"Authorization": "Basic " + base64.b64encode(b"looker:pw").decode()}
    assert "denied" in get("/api/d/u/_schema", headers=mine)["data"]
    assert get("/api/_get_ddl?db=d&tbl=u", headers=mine)["code"] != 0
    assert get("/api/rowcount?db=d&table=t", headers=mine)["code"] != 0
    assert get("/api/show_data", headers=mine)["data"] == {"__total_size": 0}
    assert get("/api/show_table_data", headers=mine)["data"] == {}
    assert "d" not in get(names, headers=mine)["data"] and get(f"{names}/d/tables/a/schema", headers=mine)["code"] == 1
    wrong = {"Authorization": "Basic " + base64.b64encode(b"looker:x").decode()}
    for path in ("/api/d/u/_query_plan", "/api/show_data", "/rest/v1/system?path=/backends", "/rest/v2/manager/node/backends", "/rest/v1/session",
                 "/rest/v2/manager/node/node_list", "/rest/v2/manager/cluster/cluster_info/conn_info", names, "/api/show_proc?path=/",
                 "/rest/v1/ha", "/rest/v1/hardware_info/fe", "/api/fe_version_info", "/api/show_meta_info?action=show_ha", "/api/show_runtime_info"):
        assert get(path, headers=wrong)["code"] == 401, path
    assert get("/rest/v1/login", "POST", headers=wrong)["code"] == 401


def proc_paths(s):
    """SHOW PROC from its top down to a tablet."""
    t = fresh(s, "t")
    s.sql("drop table if exists d.parted")
    s.sql("create table d.parted (k int, d date, s varchar(9), index i (s) using bloom_filter) duplicate key(k, d) partition by range(d) "
          "(partition p1 values less than ('2024-01-01')) distributed by hash(k) buckets 2")
    s.sql("insert into d.parted values (1, '2023-05-01', 'a')")
    status(s.load(t, b"1\ta\t1\n", label=f"p{time.time_ns()}"), "Success")

    def listed(path):
        code, _, text = s.request("GET", f"/rest/v1/system?path={path}")
        data = json.loads(text)["data"]
        assert code == 200 and "rows" in data, (path, data)
        return data["rows"]

    def one(path, **wanted):
        found = [row for row in listed(path) if all(row[name] == value for name, value in wanted.items())]
        assert len(found) == 1, (path, wanted, found)
        return found[0]

    def refused(path):
        data = json.loads(s.request("GET", f"/rest/v1/system?path={path}")[2])["data"]
        assert isinstance(data, str) and "is not supported" in data or "there is no" in data or "no native table" in data, (path, data)

    database = f"/dbs/{one('/dbs', DbName='d')['DbId']}"
    table = one(database, TableName="parted")
    assert (table["PartitionColumnName"], table["ReplicaCount"], table["Type"]) == ("d", "2", "OLAP"), table
    assert int(table["VisibleVersion"]) > 0 and table["VisibleVersionTime"], table
    place = f"{database}/{table['TableId']}"
    assert [row["Nodes"] for row in listed(place)] == ["partitions", "temp_partitions", "index_schema", "indexes"]
    assert listed(f"{place}/temp_partitions") == []
    partition = one(f"{place}/partitions", PartitionName="p1")
    index = one(f"{place}/partitions/{partition['PartitionId']}", IndexName="parted")
    tablets = listed(f"{place}/partitions/{partition['PartitionId']}/{index['IndexId']}")
    assert sum(int(tablet["RowCount"]) for tablet in tablets) == 1 and len(tablets) == 2, tablets
    assert set(tablets[0]) >= {"TabletId", "Version", "LocalDataSize", "CooldownMetaId"} and "Path" not in tablets[0]
    below = f"{place}/partitions/{partition['PartitionId']}/{index['IndexId']}/{tablets[0]['TabletId']}"
    replica = one(below)
    assert replica["ReplicaId"] == tablets[0]["ReplicaId"] and replica["IsBad"] == "false", replica
    # Lists of tablets and lists of nodes name the node by the same number.
    assert replica["BackendId"] == one("/backends")["BackendId"] == "0"
    keys = one(f"{place}/index_schema", IndexName="parted")
    assert keys["Keys"] == "DUP_KEYS(k, d)" and keys["StorageType"] == "COLUMN", keys
    columns = listed(f"{place}/index_schema/{keys['IndexId']}")
    assert [(c["Field"], c["Key"], c["Extra"]) for c in columns] == [("k", "true", ""), ("d", "true", ""), ("s", "false", "NONE,BLOOM_FILTER")], columns
    assert one(f"{place}/indexes")["ColumnName"] == "s"
    assert one(f"/catalogs/0{database[4:]}", TableName="parted")["TableId"] == table["TableId"]
    number = database.rsplit("/", 1)[1]
    states = {row["State"]: int(row["Number"]) for row in listed(f"/transactions/{number}")}
    assert all(states[state] == len(listed(f"/transactions/{number}/{state}")) for state in ("running", "finished")), states
    assert states["finished"] > 0 and one("/transactions", DbName="d")["RunningTransactionNum"] == str(states["running"]), states
    jobs = one(f"/jobs/{number}", JobType="load")
    finished = [row for row in listed(f"/jobs/{number}/load") if row["State"] == "FINISHED"]
    assert int(jobs["Finished"]) == len(finished) > 0, jobs
    assert listed(f"/jobs/{number}/export") == [] and one("/jobs", DbName="d")["DbId"] == number
    assert one("/backends/0", State="ONLINE", RootPath=listed("/backends/0")[0]["RootPath"])["TotalCapacity"]
    for path in (f"{place}/nothing", f"{place}/partitions/1", f"{below}/1", f"{place}/index_schema/1", "/dbs/7", f"{database}/7", "/backends/7",
                 f"/jobs/{number}/nothing", f"/transactions/{number}/finished/1", "/frontends/0", "/catalogs/7", "/statistic/7"):
        refused(path)
    s.sql("drop view if exists d.pv")
    s.sql("create view d.pv as select 1 one")
    refused(f"{database}/{one(database, TableName='pv')['TableId']}")


def figures_of_status(s):
    """SHOW STATUS counts what clients of the MySQL port do, and how they leave."""
    t = fresh(s, "t")
    names = ["Com_insert", "Com_stmt_prepare", "Aborted_connects", "Aborted_clients", "Connections", "Max_used_connections"]

    def figures():
        return {name: int(value) for name, value in s.sql("show global status") if name in names}

    def until(changed):
        for _ in range(100):
            if (now := figures()) != before and changed(now):
                return now
            time.sleep(0.05)
        raise AssertionError((before, figures()))

    before = figures()
    assert sorted(before) == sorted(names), before
    # The client says that it goes.
    s.mariadb(f"insert into d.{t} values (1, 'a', 1)")
    left = until(lambda now: now["Com_insert"] == before["Com_insert"] + 1)
    assert left["Aborted_clients"] == before["Aborted_clients"] and left["Connections"] > before["Connections"], (before, left)
    assert left["Max_used_connections"] >= 1, left
    # A connection that ends before its login, and one that is cut off.
    with socket.create_connection(("127.0.0.1", s.mysql)) as connection:
        connection.recv(100)
    refused = until(lambda now: now["Aborted_connects"] == before["Aborted_connects"] + 1)
    assert refused["Aborted_clients"] == before["Aborted_clients"], refused
    client = subprocess.Popen(["mariadb", "--no-defaults", "-h", "127.0.0.1", "-P", str(s.mysql), "--protocol=tcp", "-u", "root",
                               "-N", "-B", "--unbuffered"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    client.stdin.write("show session status like 'Questions';\nselect 1;\nshow session status like 'Com_select';\n")
    client.stdin.flush()
    own = [client.stdout.readline().split() for _ in range(3)]
    assert own[0][0] == "Questions" and int(own[0][1]) < 10 and own[1] == ["1"], own
    # The client asks something by itself when it starts.
    assert own[2][0] == "Com_select" and 1 <= int(own[2][1]) <= 3, own
    client.kill()
    client.wait()
    client.stdin.close()
    client.stdout.close()
    until(lambda now: now["Aborted_clients"] == before["Aborted_clients"] + 1)


def temporary_tables_end(s):
    """A temporary table goes with its session, also where the server is killed."""
    def hidden():
        checked = subprocess.run([s.binary, "check", s.directory / "data"], capture_output=True, timeout=60, check=False)
        return checked.stderr.count(b"__dipper_temp_")

    def holder():
        command = ["mariadb", "--no-defaults", "-h", "127.0.0.1", "-P", str(s.mysql), "--protocol=tcp", "-u", "root",
                   "-N", "-B", "--unbuffered"]
        client = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        client.stdin.write("create temporary table d.tt as select 1 as a;\nselect a + 6 from d.tt;\n")
        client.stdin.flush()
        assert client.stdout.readline() == "7\n"
        return client

    assert hidden() == 0
    client = holder()
    assert hidden() == 1
    assert ["tt"] not in s.sql("show tables from d")
    client.stdin.close()
    client.wait(30)
    until(lambda: hidden() == 0)
    client = holder()
    s.restart(signal.SIGKILL)
    client.kill()
    client.wait(30)
    until(lambda: hidden() == 0)


def local_infile(s):
    t = fresh(s, "t")
    path = s.directory / "rows"
    load = f"load data local infile '{path}' {{}} into table d.{t} {{}};"

    def run(text, clauses="", how="", more=""):
        path.write_text(text)
        return s.mariadb(load.format(how, clauses) + more, "--local-infile=1")

    out, err = run("1\tx\t1.5\n2\t\\N\t\\N\n3\ta\\tb\t2\n")
    assert not err and "Query OK, 3 rows affected" in out, (out, err)
    assert "Records: 3  Deleted: 0  Skipped: 0  Warnings: 0" in out, out
    assert s.sql("select * from d.t order by id") == [[1, "x", 1.5], [2, None, None], [3, "a\tb", 2]]
    out, err = run('id,n\r\n7,"a,b",3\r\n8,NULL,4\r\n',
                   "fields terminated by ',' optionally enclosed by '\"' lines terminated by '\\r\\n' ignore 1 lines "
                   "(id, @n, b) set a = upper(@n), b = b * 2")
    assert not err, err
    assert s.sql("select * from d.t where id > 6 order by id") == [[7, "A,B", 6], [8, None, 8]]
    # A file larger than what is under way at once.
    out, err = run("".join(f"{i}\tabc\t{i}\n" for i in range(100, 300_100)))
    assert not err and "Query OK, 300000 rows affected" in out, (out, err)
    # What stands before a prefix goes with it; other character sets; texts with quotes and backslashes.
    s.sql("truncate table d.t")
    out, err = run("h\nxx1,a,1\nno row\nyyxx2,b,2\n", "fields terminated by X'2c' lines starting by 'xx' ignore 1 lines")
    assert not err, err
    out, err = run("3,a,3\n", r"""fields terminated by ',' (id, @a, b) set a = concat(@a, '''', '\\', "d")""")
    assert not err, err
    for body, charset in [("4,é,4\n".encode("latin1"), "latin1"), ("5,你,5\n".encode("gbk"), "gbk")]:
        path.write_bytes(body)
        _, err = s.mariadb(load.format("", f"character set {charset} fields terminated by ','"), "--local-infile=1")
        assert not err, err
    assert s.sql("select * from d.t order by id") == [[1, "a", 1], [2, "b", 2], [3, "a'\\d", 3], [4, "é", 4], [5, "你", 5]]
    # IGNORE keeps rows whose keys are there, and of several the first.
    fresh(s, "tu", "create table d.{} (id int, a varchar(5), b double) unique key(id) distributed by hash(id) buckets 2")
    s.sql("insert into d.tu values (1, 'old', 1)")
    path.write_text("1,new,2\n2,x,3\nbad\n2,y,4\n")
    ignoring = load.format("ignore", "fields terminated by ','").replace("d.t ", "d.tu ") + " show warnings;"
    out, err = s.mariadb(ignoring, "--local-infile=1")
    assert not err and "Records: 4  Deleted: 0  Skipped: 3  Warnings: 2" in out and "2 rows were left out" in out, (out, err)
    assert s.sql("select * from d.tu order by id") == [[1, "old", 1], [2, "x", 3]]
    # Rows that do not fit: none is loaded, or the others with a warning each.
    before = s.count(t)
    out, err = run("1\tx\n2\ty\t1\n", more=" select 1;")
    assert "too many filtered rows: 1 of 2" in err and s.count(t) == before, (out, err)
    out, err = run("1\tx\n2\ty\t1\n", how="ignore", more=" show warnings;")
    assert not err and "Records: 2  Deleted: 0  Skipped: 1  Warnings: 1" in out, (out, err)
    assert "1262" in out and "Column count mismatch: expected 3, but found 2" in out, out
    assert s.count(t) == before + 1
    # Errors before the file, an error while it is sent, clients that do not send files, clauses without meaning here.
    for clauses, message in [("character set utf16", "utf16"),
                             ("(id, nosuch)", "no column 'nosuch'"), ("(id) set a = @x", "uses @x"),
                             ("properties('frob'='1')", "property 'frob'"), ("fields enclosed by 'ab'", "one byte")]:
        out, err = run("1\n", clauses)
        assert message in err, (clauses, out, err)
    out, err = run('"1",a\\tb,3\n' * 100_000, "fields terminated by ',' enclosed by '\"'")
    assert "an escape in a field that is not enclosed" in err, (out, err)
    _, err = s.mariadb(load.format("", ""), "--local-infile=0")
    assert err, "the client has not offered files"
    _, err = s.mariadb(load.format("", "").replace(" local", ""))
    assert "--allow-dir" in err, err
    assert s.count(t) == before + 1


def accounts(s):
    t, other = fresh(s, "acc", UNIQUE), fresh(s, "acc_other", UNIQUE)
    basic = lambda user, password: "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()
    mine = {"Authorization": basic("loader", "pw")}
    s.sql("create user loader identified by 'pw'")
    status(s.load(t, b"1\ta\n", mine), "Fail", "INSERT command denied")
    s.sql(f"grant insert on d.{t} to loader")
    status(s.load(t, b"1\ta\n", mine), "Success")
    status(s.load(t, b"1\ta\n", {**mine, "merge_type": "delete"}), "Fail", "DELETE command denied")
    status(s.load(other, b"1\ta\n", mine), "Fail", "INSERT command denied")
    s.sql(f"grant load_priv on d.{t} to loader")
    status(s.load(t, b"1\ta\n", {**mine, "merge_type": "delete"}), "Success")
    query = {**mine, "Content-Type": "application/json"}
    ask = lambda statement: json.loads(s.request("POST", "/api/query/internal/d", json.dumps({"stmt": statement}), query)[2])
    assert "SELECT command denied" in ask(f"select * from {t}")["data"], ask(f"select * from {t}")
    assert "SELECT command denied" in json.loads(s.request("GET", f"/api/d/{t}/_count", headers=mine)[2])["data"]
    s.sql(f"grant select on d.{t} to loader")
    assert ask(f"select count(*) from {t}")["code"] == 0
    # Rows that a load into somebody else's table refused are not shown, nor that there was one.
    status(s.load(other, b"1\ta\n7\tsecret\tmore\n", max_filter_ratio="1"), "Success")
    shown = lambda statement: json.dumps(ask(statement)["data"])
    for statement in ("show load from d", "show load warnings from d", "select * from information_schema.loads"):
        assert other not in shown(statement) and "secret" not in shown(statement), shown(statement)
    assert "secret" in json.dumps(s.sql("show load warnings from d")) and t in shown("select * from information_schema.loads")
    # The second phase of somebody else's load.
    prepared = s.load(other, b"9\tz\n", two_phase_commit="true")
    end = {"txn_id": str(prepared["TxnId"]), "txn_operation": "commit"}
    answer = json.loads(s.request("PUT", "/api/d/_stream_load_2pc", b"", {**mine, **end})[2])
    assert answer["status"] == "Fail" and "denied" in answer["msg"], answer
    assert json.loads(s.request("PUT", "/api/d/_stream_load_2pc", b"", end)[2])["status"] == "Success"
    for wrong in (basic("loader", "PW"), basic("nobody", "pw"), basic("admin", "x")):
        assert json.loads(s.request("GET", "/api/backends", headers={"Authorization": wrong})[2])["code"] == 401
    s.restart(signal.SIGKILL)
    status(s.load(t, b"2\tb\n", mine), "Success")
    # A body goes where its user may insert, and what others ran is not shown.
    stream = lambda table: json.loads(s.request("PUT", "/api/_http_stream", b"5,e\n", {
        **mine, "sql": f'insert into d.{table} select c1, c2 from http_stream("format"="csv","column_separator"=",")'})[2])
    status(stream(other), "Fail", "INSERT command denied")
    status(stream(t), "Success")
    # Loads are updates.
    s.sql("set property for loader 'max_updates_per_hour' = '2'")
    status(s.load(other, b"3\tc\n", mine), "Fail", "INSERT command denied")
    status(s.load(t, b"3\tc\n", mine), "Success")
    status(stream(t), "Success")
    status(s.load(t, b"4\td\n", mine), "Fail", "max_updates_per_hour")
    status(stream(t), "Fail", "max_updates_per_hour")
    status(s.load(t, b"4\td\n"), "Success")
    s.sql("set property for loader 'max_updates_per_hour' = '0'")
    s.sql("select 12345")
    listed = lambda headers: json.loads(s.request("GET", "/rest/v1/query_profile", headers=headers)[2])["data"]["rows"]
    foreign = next(row for row in listed({}) if "12345" in row["Sql Statement"])
    assert not any("12345" in row["Sql Statement"] for row in listed(mine))
    assert json.loads(s.request("GET", f"/api/profile/{foreign['Profile ID']}", headers=mine)[2])["code"] == 1
    assert "denied" in ask("clean all profile")["data"].lower(), ask("clean all profile")
    # Who may make users takes over nobody with more privileges on everything.
    for statement in ("create user clerk identified by 'pw'", "grant create user on *.* to clerk", "create user boss",
                      "grant select on *.* to boss"):
        s.sql(statement)
    clerk = {"Authorization": basic("clerk", "pw"), "Content-Type": "application/json"}
    alter = lambda user: json.loads(s.request("POST", "/api/query/internal/default", json.dumps(
        {"stmt": f"alter user {user} identified by 'x'"}), clerk)[2])
    assert "SELECT" in alter("boss")["data"], alter("boss")
    assert alter("loader")["code"] == 0, alter("loader")
    [s.sql(f"drop user {user}") for user in ("clerk", "boss")]
    s.sql("drop user loader")
    assert json.loads(s.request("GET", "/api/backends", headers=mine)[2])["code"] == 401


def stops(s):
    """Work under way ends while new work is refused; a second signal, or the end of the time, cuts it."""
    t = fresh(s, "stopped")
    path = f"/api/d/{t}/_stream_load"

    def asked(server, statement):
        body = json.dumps({"stmt": statement})
        _, _, text = server.request("POST", "/api/query/internal/default", body, {"Content-Type": "application/json"})
        return json.loads(text)

    def is_stopping(server):
        status, _, body = server.request("GET", "/api/health")
        assert status in (200, 503) and (status == 200 or json.loads(body)["code"] == 1053), (status, body)
        return status == 503

    def first_packet(server):
        with socket.create_connection(("127.0.0.1", server.mysql), timeout=5) as c:
            return c.recv(100)[4:7]

    with concurrent.futures.ThreadPoolExecutor() as pool, socket.create_connection(("127.0.0.1", s.http), timeout=30) as c:
        c.sendall(head(path, "Content-Length: 12", "Connection: close") + b"1\ta\t1\n")
        statement = pool.submit(asked, s, "select sleep(3)")
        until(lambda: b"dipper_loads_running 1" in s.request("GET", "/metrics")[2])
        until(lambda: any("sleep(3)" in str(row) for row in s.sql("show processlist")))
        s.process.send_signal(signal.SIGTERM)
        until(lambda: is_stopping(s))
        # ER_SERVER_SHUTDOWN in place of the greeting.
        assert first_packet(s) == b"\xff\x1d\x04"
        status_of_load, headers, _ = s.request("PUT", path, b"2\tb\t2\n")
        assert status_of_load == 503 and headers["Connection"] == "close", headers
        assert s.request("GET", "/metrics")[0] == 200
        assert asked(s, "select 1")["code"] == 1053
        c.sendall(b"3\tc\t3\n")
        got = b""
        while piece := c.recv(65536):
            got += piece
        assert b'"Status": "Success"' in got, got
        assert s.process.poll() is None
        assert statement.result(30)["data"]["data"] is not None, statement.result()
        assert s.process.wait(10) == 0
    s.start()
    assert s.sql("select id from d.stopped order by id") == [[1], [3]]

    def cut(server, *signals):
        """Seconds until a server has ended that has long work."""
        with concurrent.futures.ThreadPoolExecutor() as pool:
            statement = pool.submit(asked, server, "select sleep(50)")
            until(lambda: any("sleep(50)" in str(row) for row in asked(server, "show processlist")["data"]["data"]))
            begun = time.monotonic()
            server.process.send_signal(signal.SIGTERM)
            until(lambda: is_stopping(server))
            for one in signals:
                server.process.send_signal(one)
            server.process.wait(20)
            assert statement.exception(20) is not None
            return time.monotonic() - begun

    assert cut(s, signal.SIGINT) < 8
    s.start()
    with tempfile.TemporaryDirectory(prefix="dipper-grace-") as directory:
        server = Server(s.binary, directory, "--stop-grace", "2")
        try:
            seconds = cut(server)
            assert 1.9 < seconds < 12, seconds
        finally:
            server.kill()


CASES = [curl_loads, sketches, expressions_and_where, rejected_rows_are_named, json_and_delete, parquet, parquet_times,
         overwrites_beside_loads, labels, two_phases,
         refused_before_the_body, hosts, broken_bodies, some_columns, some_columns_delete, op_deletes, on_update, generated_columns, records,
         digits_of_datetimes, times, command_line, many_clients,
         labels_share, group_commit, http_stream, http_stream_headers, zones, absent_in_json,
         the_log_has_all_rejected_rows, the_last_of_a_stream_counts, cells_of_arrays_and_structs, hive_text, names_of_starrocks,
         the_sequence_column_by_its_name, profiles, backup_and_restore, neighbours, connectors, proc_paths, figures_of_status, temporary_tables_end, stops, a_long_line, local_infile, accounts]


def forgotten(*modules):
    """Case functions, those of a server `s` alone, that do not stand in CASES of their module: they would never run."""
    for module in modules:
        for name, case in vars(module).items():
            if inspect.isfunction(case) and case.__module__ == module.__name__ and list(inspect.signature(case).parameters) == ["s"]:
                if case not in module.CASES:
                    yield f"{name} ({os.path.basename(module.__file__)})"


def main():
    import transaction_cases
    if missing := list(forgotten(sys.modules[__name__], transaction_cases)):
        sys.exit(f"not in CASES: {', '.join(missing)}")
    binary = os.path.abspath(sys.argv[1])
    pattern = sys.argv[2] if len(sys.argv) > 2 else ""
    failed = []
    with tempfile.TemporaryDirectory(prefix="dipper-http-") as directory:
        server = Asked(binary, directory)
        try:
            server.sql("create database d")
            for case in CASES + transaction_cases.CASES:
                if pattern not in case.__name__:
                    continue
                begun = time.monotonic()
                try:
                    case(server)
                    print(f"ok    {case.__name__} ({time.monotonic() - begun:.1f} s)", flush=True)
                except Exception as e:  # every case is tried, whatever became of the others
                    failed.append(case.__name__)
                    print(f"FAIL  {case.__name__}: {type(e).__name__}: {str(e)[:1500]}", flush=True)
                    if server.process.poll() is not None:
                        print(server.said())
                        server.start()
        finally:
            if server.process.poll() is None:
                server.stop()
    sys.exit(f"{len(failed)} failed: {', '.join(failed)}" if failed else 0)


if __name__ == "__main__":
    main()
