"""A dipper server on a new directory, and what is loaded into it."""

import base64
import contextlib
import http.client
import json
import pathlib
import signal
import socket
import subprocess
import tempfile
import time

from wire import Connection

# Settings of the sessions that a statement is tried in.
SESSIONS = {
    "1 worker": ["SET parallel_pipeline_task_num = 1"],
    "2 workers": ["SET parallel_pipeline_task_num = 2"],
    "8 workers": ["SET parallel_pipeline_task_num = 8", "SET tablet_internal_parallel_mode = 'force_split'"],
    "loose groups": ["SET parallel_pipeline_task_num = 2", "SET sql_mode = ''"],
    "no look-ups": ["SET parallel_pipeline_task_num = 2", "SET enable_short_circuit_query = false"],
}
# So little that statements over the tables of spills.py spill; with less, most cannot run at all.
LITTLE_MEMORY = 4 << 20


class Server:
    """The process. Its files lie in memory where the system has a place for that."""

    def __init__(self, binary):
        shared = pathlib.Path("/dev/shm")
        self.directory = tempfile.TemporaryDirectory(prefix="dipper-differential-", dir=shared if shared.is_dir() else None)
        self.files = pathlib.Path(self.directory.name) / "files"
        self.files.mkdir()
        self.mysql, self.http = (free_port() for _ in range(2))
        self.log = pathlib.Path(self.directory.name) / "log"
        command = [binary, "server", "--data", f"{self.directory.name}/data", "--allow-dir", self.files, "--memory", "2GiB"]
        command += ["--mysql-port", self.mysql, "--http-port", self.http]
        with open(self.log, "w") as log:
            self.process = subprocess.Popen([str(word) for word in command], stdout=log, stderr=log)
        end = time.monotonic() + 60
        while True:
            try:
                connection = Connection(self.mysql)
                break
            except OSError:
                if time.monotonic() > end or self.process.poll() is not None:
                    raise SystemExit(f"the server did not start:\n{self.log.read_text()[-2000:]}") from None
                time.sleep(0.1)
        connection.query("CREATE USER spill")
        connection.query("GRANT SELECT ON *.* TO spill")
        connection.query(f"SET PROPERTY FOR spill 'exec_mem_limit' = '{LITTLE_MEMORY}'")
        connection.close()

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(30)
        finally:
            self.process.kill()
            self.directory.cleanup()


class Client:
    """The connections of one process to the server, one for each of SESSIONS, made when they are needed."""

    def __init__(self, mysql, http_port):
        self.mysql, self.http, self.open = mysql, http_port, {}

    def session(self, name="2 workers"):
        if name not in self.open:
            self.open[name] = Connection(self.mysql)
            for setting in SESSIONS[name]:
                self.open[name].query(setting)
        return self.open[name]

    def lost(self):
        """A connection broke inside an answer: all are made anew."""
        for connection in self.open.values():
            connection.close()
        self.open = {}

    def run(self, *statements):
        for statement in statements:
            self.session().query(statement)

    def load(self, database, table, columns, rows):
        """Stream Load of JSON lines."""
        lines = (json.dumps({c: in_json(v, t) for (c, t), v in zip(columns, row)}, separators=(",", ":")) for row in rows)
        headers = {"Authorization": "Basic " + base64.b64encode(b"root:").decode(), "format": "json", "read_json_by_line": "true"}
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.http, timeout=60)) as connection:
            connection.request("PUT", f"/api/{database}/{table}/_stream_load", "\n".join(lines).encode(), headers)
            answer = json.loads(connection.getresponse().read())
        if answer["Status"] != "Success":
            raise AssertionError(f"load of {database}.{table}: {answer['Message']}")


def in_json(v, sql_type):
    if v is None or isinstance(v, (bool, float, list, dict)):
        return v
    return json.loads(v) if sql_type == "JSON" else str(v)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]
