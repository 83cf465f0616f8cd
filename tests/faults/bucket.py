"""An S3 server on loopback with a bucket, and a proxy before it that misbehaves.

The server is versitygw (`make gateway` installs it). The proxy forwards requests as they are, so signatures stay valid, and
injects, under one seed: answers 500, 503 and 409 without doing anything; resets before and, the nasty ones, after the server
has done what was asked (a lost answer); bodies that are slow, or end early; and, counted, bodies of Parquet objects that are damaged.
"""

import hashlib
import hmac
import http.client
import http.server
import os
import pathlib
import random
import shutil
import socket
import subprocess
import sys
import threading
import time
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from server import free_port  # noqa: E402

KEY, SECRET = "dipper-test", "dipper-test-secret"
BUCKET = "faults"


def find_gateway():
    places = [pathlib.Path.home() / ".cache/dipper/bin/versitygw", shutil.which("versitygw")]
    for place in places:
        if place and pathlib.Path(place).is_file():
            return str(place)
    raise SystemExit("versitygw is not installed: make gateway")


class Gateway:
    """versitygw over a directory of its own."""

    def __init__(self, directory):
        self.directory = pathlib.Path(directory)
        (self.directory / BUCKET).mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        log = open(self.directory.parent / "gateway.log", "ab")
        self.process = subprocess.Popen(
            [find_gateway(), "--access", KEY, "--secret", SECRET, "--port", f"127.0.0.1:{self.port}", "--quiet",
             "posix", str(self.directory)],
            stdout=log, stderr=log,
        )
        end = time.time() + 30
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return
            except OSError:
                if time.time() > end or self.process.poll() is not None:
                    raise SystemExit("versitygw does not start")
                time.sleep(0.05)

    def stop(self):
        self.process.terminate()
        self.process.wait()


def environment(port):
    """What a dipper process needs to reach the bucket through that port."""
    return dict(os.environ, AWS_ACCESS_KEY_ID=KEY, AWS_SECRET_ACCESS_KEY=SECRET, AWS_REGION="us-east-1",
                DIPPER_S3_ENDPOINT=f"http://127.0.0.1:{port}")


class Faults:
    """How often what goes wrong: shares of all requests."""

    KINDS = ["error_500", "slow_down", "conflict", "reset_before", "lost_answer", "short_body", "slow_body", "hang"]

    def __init__(self, seed=0, **shares):
        unknown = set(shares) - set(self.KINDS)
        if unknown:
            raise ValueError(f"no such faults: {unknown}")
        self.shares = shares
        self.random = random.Random(seed)
        self.lock = threading.Lock()
        self.injected = dict.fromkeys(self.KINDS, 0)
        self.requests = {}
        # Of so many of the next answers that bring bytes of objects with this in their name some are wrong.
        self.damages_left, self.damages_of = 0, ".parquet"

    def damaged(self, path, content):
        with self.lock:
            if self.damages_left == 0 or self.damages_of not in path or len(content) < 1000:
                return content
            self.damages_left -= 1
        # The first header of a page, and the end of a footer: files of others need have no checksums by which values are known
        # to be wrong.
        return bytes(200) + content[200:-8] + bytes(8)

    def draw(self, method, conditional):
        with self.lock:
            self.requests[method] = self.requests.get(method, 0) + 1
            x = self.random.random()
            for kind, share in self.shares.items():
                x -= share
                if x < 0:
                    if kind == "conflict" and not conditional:
                        return None
                    if kind in ("short_body", "slow_body") and method != "GET":
                        return None
                    self.injected[kind] += 1
                    return kind
        return None


class Proxy:
    """Forwards to a port with faults."""

    def __init__(self, upstream, faults, port=0):
        self.faults = faults
        self.handler = type("Handler", (Handler,), {"upstream": upstream, "faults": faults})
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", port), self.handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def stop(self):
        # Connections that are open are served by threads of their own.
        self.handler.is_gone = True
        self.server.shutdown()
        self.server.server_close()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 120
    is_gone = False

    def log_message(self, *_):
        pass

    def handle(self):
        try:
            super().handle()
        except (ConnectionError, OSError):
            pass

    def reset(self):
        self.close_connection = True
        try:
            # RST, not FIN.
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
            self.connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    def answer(self, status, code):
        body = (f'<?xml version="1.0" encoding="UTF-8"?><Error><Code>{code}</Code><Message>injected</Message>'
                "</Error>").encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/xml")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def body(self):
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            data = b""
            while size := int(self.rfile.readline().split(b";")[0], 16):
                data += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return data
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def serve(self):
        data = self.body()
        if self.is_gone:
            return self.reset()
        fault = self.faults.draw(self.command, "If-None-Match" in self.headers)
        if fault == "error_500":
            return self.answer(500, "InternalError")
        if fault == "slow_down":
            return self.answer(503, "SlowDown")
        if fault == "conflict":
            return self.answer(409, "ConditionalRequestConflict")
        if fault == "reset_before":
            return self.reset()
        if fault == "hang":
            time.sleep(2)
            return self.reset()
        upstream = http.client.HTTPConnection("127.0.0.1", self.upstream, timeout=120)
        try:
            upstream.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                if name.lower() not in ("connection", "transfer-encoding", "content-length"):
                    upstream.putheader(name, value)
            upstream.putheader("Content-Length", str(len(data)))
            upstream.endheaders(data)
            response = upstream.getresponse()
            content = response.read()
        finally:
            upstream.close()
        if fault == "lost_answer":
            return self.reset()
        if self.command == "GET" and response.status in (200, 206):
            content = self.faults.damaged(self.path, content)
        self.send_response(response.status)
        for name, value in response.getheaders():
            if name.lower() not in ("connection", "transfer-encoding", "content-length", "date", "server"):
                self.send_header(name, value)
        length = response.getheader("Content-Length") if self.command == "HEAD" else str(len(content))
        self.send_header("Content-Length", length or "0")
        self.end_headers()
        if self.command == "HEAD":
            return None
        if fault == "short_body" and len(content) > 1:
            self.wfile.write(content[: len(content) // 2])
            self.wfile.flush()
            return self.reset()
        if fault == "slow_body" and content:
            half = len(content) // 2
            self.wfile.write(content[:half])
            self.wfile.flush()
            time.sleep(0.5)
            self.wfile.write(content[half:])
            return None
        self.wfile.write(content)
        return None

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = serve


def request(port, method, key, data=b"", query=""):
    """One signed request (AWS Signature Version 4); returns status, headers and body."""
    now = time.gmtime()
    day, at = time.strftime("%Y%m%d", now), time.strftime("%Y%m%dT%H%M%SZ", now)
    path = urllib.parse.quote(f"/{BUCKET}/{key}")
    host, digest = f"127.0.0.1:{port}", hashlib.sha256(data).hexdigest()
    headers = {"host": host, "x-amz-content-sha256": digest, "x-amz-date": at}
    names = ";".join(sorted(headers))
    lines = "".join(f"{k}:{headers[k]}\n" for k in sorted(headers))
    canonical = f"{method}\n{path}\n{query}\n{lines}\n{names}\n{digest}"
    scope = f"{day}/us-east-1/s3/aws4_request"
    to_sign = f"AWS4-HMAC-SHA256\n{at}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
    key_ = ("AWS4" + SECRET).encode()
    for part in (day, "us-east-1", "s3", "aws4_request"):
        key_ = hmac.new(key_, part.encode(), hashlib.sha256).digest()
    signature = hmac.new(key_, to_sign.encode(), hashlib.sha256).hexdigest()
    headers["authorization"] = f"AWS4-HMAC-SHA256 Credential={KEY}/{scope}, SignedHeaders={names}, Signature={signature}"
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request(method, path + (f"?{query}" if query else ""), body=data, headers=headers)
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()
    finally:
        connection.close()


def put(port, key, data):
    """Puts an object."""
    status, _, body = request(port, "PUT", key, data)
    if status != 200:
        raise SystemExit(f"PUT {key}: {status} {body!r}")
