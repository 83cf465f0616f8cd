"""A dipper server on loopback: the one way in which test programs start, ask and end servers.

Programs add methods of their own in a class below `Server`. A program of another directory imports this module by

    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
    from server import Server  # noqa: E402
"""

import base64
import contextlib
import http.client
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import time

START_SECONDS = 60
# Longer than what running work gets (`--stop-grace`).
STOP_SECONDS = 90
REQUEST_SECONDS = 300
# root has no password.
AUTHORIZATION = "Basic " + base64.b64encode(b"root:").decode()


def free_port():
    """A port that nobody listens on. A server of this module chooses its ports itself; other programs have to be told one."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def clean_environment(**more):
    """The environment without settings of dipper and of S3 that the caller's shell may have."""
    return {**{k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "DIPPER_"))}, **more}


class Server:
    """A server process. Its database outlives the process: `start` brings up another process on the same database.

    `directory` has the log, and the database unless `data` says where it is. `arguments` are options of `dipper server`,
    `within` is a command that runs the server (`taskset -c 0`), `options` are those of `subprocess.Popen`. After `start`
    the ports are `mysql` and `http`.
    """

    def __init__(self, binary, directory, *arguments, data=None, log="server.log", within=(), start=True, **options):
        self.binary, self.directory = str(binary), pathlib.Path(directory)
        self.data, self.log = str(data or self.directory / "data"), self.directory / log
        self.arguments, self.within, self.options = arguments, within, options
        self.process = self.mysql = self.http = self.session = None
        if start:
            self.start()

    def start(self):
        """Starts the process and waits until it takes connections."""
        self.session = None
        command = [*self.within, self.binary, "server", "--data", self.data, "--mysql-port", "0", "--http-port", "0", *self.arguments]
        with open(self.log, "ab") as log:
            begin = log.tell()
            self.process = subprocess.Popen([str(word) for word in command], stdout=log, stderr=log, **self.options)
        end = time.monotonic() + START_SECONDS
        while True:
            with open(self.log, "rb") as log:
                log.seek(begin)
                text = log.read().decode("utf-8", "replace")
            ready = re.search(r"^dipper is ready: mysql -h \S+ -P (\d+)", text, re.MULTILINE)
            if ready:
                break
            if self.process.poll() is not None or time.monotonic() > end:
                self.kill()
                raise SystemExit(f"the server did not start:\n{text[-4000:]}")
            time.sleep(0.02)
        self.mysql = int(ready[1])
        self.http = int(re.search(r"^dipper serves HTTP on \S+:(\d+)", text, re.MULTILINE)[1])

    def is_running(self):
        return self.process is not None and self.process.poll() is None

    def stop(self, how=signal.SIGTERM):
        """Ends the process as an administrator does. A process that does not end in time is killed, and an error."""
        if not self.is_running():
            return
        self.process.send_signal(how)
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise

    def kill(self):
        """Ends the process at once."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def restart(self, how=signal.SIGTERM):
        self.stop(how)
        self.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def said(self, last=4000):
        """The end of the log."""
        return self.log.read_text(encoding="utf-8", errors="replace")[-last:]

    # What it is asked by SQL. These methods need PyMySQL.

    def connect(self, **options):
        """A new connection of root."""
        import pymysql

        return pymysql.connect(**{"host": "127.0.0.1", "port": self.mysql, "user": "root", "autocommit": True,
                                  "read_timeout": REQUEST_SECONDS, **options})

    def rows(self, statement):
        """The rows of a statement, in the session that the server has for its test."""
        self.session = self.session or self.connect()
        with self.session.cursor() as cursor:
            cursor.execute(statement)
            return list(cursor.fetchall())

    # What it is asked by HTTP.

    def request(self, method, path, body=None, headers=None, seconds=REQUEST_SECONDS):
        """Status, headers and body of the answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.http, timeout=seconds)
        with contextlib.closing(connection):
            connection.request(method, path, body, {"Authorization": AUTHORIZATION, **(headers or {})})
            response = connection.getresponse()
            return response.status, response.headers, response.read()

    def answer(self, method, path, body=None, headers=None):
        """The answer as JSON."""
        return json.loads(self.request(method, path, body, headers)[2])

    def stream_load(self, database, table, body, headers=None):
        """The answer to a Stream Load."""
        return self.answer("PUT", f"/api/{database}/{table}/_stream_load", body, headers)

    # What the system knows of it.

    def resident_mib(self):
        text = pathlib.Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        return int(re.search(r"VmRSS:\s+(\d+)", text)[1]) // 1024

    def cpu_seconds(self):
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def check(self):
        """What `dipper check` finds wrong with the database: nothing, or its output."""
        done = subprocess.run([self.binary, "check", "--quiet", self.data], capture_output=True, text=True, timeout=300,
                              env=self.options.get("env"), check=False)
        return None if done.returncode == 0 else done.stdout + done.stderr
