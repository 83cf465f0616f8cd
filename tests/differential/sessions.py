"""A dipper server on a new directory, and what is loaded into it."""

import contextlib
import http.client
import json
import pathlib
import sys
import tempfile

from wire import Connection

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from server import AUTHORIZATION, Server  # noqa: E402

# Settings of the sessions that a statement is tried in.
SESSIONS = {
    "1 worker": ["SET parallel_pipeline_task_num = 1", "SET enable_radix_aggregation = false", "SET runtime_filter_mode = 'OFF'"],
    "2 workers": ["SET parallel_pipeline_task_num = 2"],
    # GROUP BY by dipper's own operator, whose tables hold so few groups that all its parts run.
    "8 workers": [
        "SET parallel_pipeline_task_num = 8", "SET tablet_internal_parallel_mode = 'force_split'", "SET enable_radix_aggregation = true",
        "SET radix_aggregation_table_groups = 3",
    ],
    "loose groups": ["SET parallel_pipeline_task_num = 2", "SET sql_mode = ''"],
    "no look-ups": ["SET parallel_pipeline_task_num = 2", "SET enable_short_circuit_query = false"],
}
# So little that statements over the tables of spills.py spill; with less, most cannot run at all.
LITTLE_MEMORY = 4 << 20


class Compared(Server):
    """A server whose files lie in memory where the system has a place for that."""

    def __init__(self, binary):
        shared = pathlib.Path("/dev/shm")
        self.removed = tempfile.TemporaryDirectory(prefix="dipper-differential-", dir=shared if shared.is_dir() else None)
        self.files = pathlib.Path(self.removed.name) / "files"
        self.files.mkdir()
        super().__init__(binary, self.removed.name, "--allow-dir", self.files, "--memory", "2GiB")
        connection = Connection(self.mysql)
        connection.query("CREATE USER spill")
        connection.query("GRANT SELECT ON *.* TO spill")
        connection.query(f"SET PROPERTY FOR spill 'exec_mem_limit' = '{LITTLE_MEMORY}'")
        connection.close()

    def stop(self):
        try:
            super().stop()
        finally:
            self.removed.cleanup()


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
        headers = {"Authorization": AUTHORIZATION, "format": "json", "read_json_by_line": "true"}
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.http, timeout=60)) as connection:
            connection.request("PUT", f"/api/{database}/{table}/_stream_load", "\n".join(lines).encode(), headers)
            answer = json.loads(connection.getresponse().read())
        if answer["Status"] != "Success":
            raise AssertionError(f"load of {database}.{table}: {answer['Message']}")


def in_json(v, sql_type):
    if v is None or isinstance(v, (bool, float, list, dict)):
        return v
    return json.loads(v) if sql_type == "JSON" else str(v)
