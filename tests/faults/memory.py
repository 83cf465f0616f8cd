"""An S3 server in memory on loopback, with what versitygw cannot do: the words of other stores, every key, keys that end, and STS.

It checks signatures (AWS's version 4, and Google's), so a request that a client changed after signing is refused.
"""

import datetime
import hashlib
import hmac
import http.server
import random
import threading
import urllib.parse
import xml.sax.saxutils

WORDS = {"s3": ("if-none-match", "*", 412, "PreconditionFailed"),
         "oss": ("x-oss-forbid-overwrite", "true", 409, "FileAlreadyExists"),
         "cos": ("x-cos-forbid-overwrite", "true", 409, "FileAlreadyExists"),
         "gcs": ("x-goog-if-generation-match", "0", 412, "PreconditionFailed")}


class Store:
    """Buckets by name, and who may ask. `words` are those that make an object only if there is none; others are answered 501."""

    def __init__(self, words="s3", keys=None, region="us-east-1", faults=0.0, conflicts=0.0, seed=1):
        self.words, self.region, self.faults, self.conflicts = words, region, faults, conflicts
        # Key to secret and, where it is one of a session, its token.
        self.keys = dict(keys or {"key": ("secret", None)})
        self.objects, self.puts, self.requests, self.assumed = {}, 0, [], []
        # Which requests, by method and path with query, are answered 503 every time.
        self.away = lambda method, path: False
        # Roles that may be taken on: seconds that their keys last.
        self.role_seconds = 3600
        self.random, self.lock = random.Random(seed), threading.RLock()
        handler = type("Handler", (Handler,), {"store": self})
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def put(self, bucket, key, data):
        self.objects[bucket, key] = (data, hashlib.md5(data).hexdigest())

    def stop(self):
        self.server.shutdown()
        self.server.server_close()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def handle(self):
        try:
            super().handle()
        except (ConnectionError, OSError):
            pass

    def answer(self, status, body=b"", kind="application/xml", **headers):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Type", kind)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def error(self, status, code, message="told so", **headers):
        self.answer(status, f"<Error><Code>{code}</Code><Message>{message}</Message></Error>".encode(), **headers)

    def refused(self, path, query, body):
        """Why the signature is wrong; None if it is right."""
        given = self.headers.get("Authorization")
        if given is None:
            return "AccessDenied"
        algorithm, rest = given.split(" ", 1)
        parts = dict(part.strip().split("=", 1) for part in rest.split(","))
        key, *scope = parts["Credential"].split("/")
        google = algorithm.startswith("GOOG4")
        family = "x-goog-" if google else "x-amz-"
        other = "x-amz-" if google else "x-goog-"
        if any(name.lower().startswith(other) for name in self.headers):
            return "ExcessHeaderValues"
        if key not in self.store.keys:
            return "InvalidAccessKeyId"
        secret, token = self.store.keys[key]
        if token and self.headers.get("x-amz-security-token") != token:
            return "ExpiredToken"
        names = parts["SignedHeaders"].split(";")
        unsigned = [n.lower() for n in self.headers if n.lower().startswith("x-") and n.lower() not in names]
        if unsigned:
            return "AccessDenied"
        pairs = sorted(urllib.parse.parse_qsl(query, keep_blank_values=True))
        quote = lambda text: urllib.parse.quote(text, safe="-_.~")
        canonical_query = "&".join(f"{quote(k)}={quote(v)}" for k, v in pairs)
        lines = "".join(f"{n}:{self.headers[n].strip()}\n" for n in names)
        digest = self.headers.get(f"{family}content-sha256") or hashlib.sha256(body).hexdigest()
        if digest not in ("UNSIGNED-PAYLOAD", hashlib.sha256(body).hexdigest()):
            return "XAmzContentSHA256Mismatch"
        canonical = "\n".join([self.command, path, canonical_query, lines, ";".join(names), digest])
        to_sign = "\n".join([algorithm, self.headers[f"{family}date"], "/".join(scope), hashlib.sha256(canonical.encode()).hexdigest()])
        made = (("GOOG4" if google else "AWS4") + secret).encode()
        for part in scope:
            made = hmac.new(made, part.encode(), hashlib.sha256).digest()
        signature = hmac.new(made, to_sign.encode(), hashlib.sha256).hexdigest()
        return None if signature == parts["Signature"] else "SignatureDoesNotMatch"

    def serve(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        path, _, query = self.path.partition("?")
        store = self.store
        with store.lock:
            store.requests.append((self.command, self.path))
            wrong = self.refused(path, query, body)
            if wrong:
                return self.error(400 if wrong in ("ExpiredToken", "ExcessHeaderValues") else 403, wrong)
            credential = self.headers["Authorization"].split("Credential=")[1].split(",")[0].split("/")
            if credential[-2] == "sts":
                return self.assume(body, credential[0])
            if credential[2] not in (store.region, "auto"):
                return self.error(301, "PermanentRedirect", x_amz_bucket_region=store.region)
            if store.random.random() < store.faults or store.away(self.command, self.path):
                return self.error(503, "SlowDown")
            bucket, _, key = urllib.parse.unquote(path.removeprefix("/")).partition("/")
            asked = dict(urllib.parse.parse_qsl(query, keep_blank_values=True))
            if "list-type" in asked:
                return self.list(bucket, asked)
            if self.command == "POST" and "delete" in asked:
                gone = [part.split("</Key>")[0] for part in body.decode().split("<Key>")[1:]]
                for key in gone:
                    store.objects.pop((bucket, xml.sax.saxutils.unescape(key)), None)
                told = "".join(f"<Deleted><Key>{key}</Key></Deleted>" for key in gone)
                return self.answer(200, f"<DeleteResult>{told}</DeleteResult>".encode())
            if self.command == "PUT":
                return self.put(bucket, key, body)
            if self.command == "DELETE":
                store.objects.pop((bucket, key), None)
                return self.answer(204)
            return self.get(bucket, key)

    def put(self, bucket, key, body):
        store = self.store
        store.puts += 1
        asked = [words for words, (header, *_) in WORDS.items() if header in self.headers]
        if any(words != store.words for words in asked):
            return self.error(501, "NotImplemented", "A header you provided implies functionality that is not implemented.")
        if asked:
            if store.random.random() < store.conflicts:
                return self.error(409, "ConditionalRequestConflict")
            if (bucket, key) in store.objects:
                return self.error(*WORDS[store.words][2:])
        store.put(bucket, key, body)
        # What was asked is done, and nobody hears of it.
        if asked and store.random.random() < store.faults:
            return self.error(500, "InternalError")
        return self.answer(200, ETag=f'"{store.objects[bucket, key][1]}"')

    def get(self, bucket, key):
        found = self.store.objects.get((bucket, key))
        if found is None:
            return self.error(404, "NoSuchKey")
        data, tag = found
        status, more = 200, {}
        if self.headers.get("Range"):
            first, last = self.headers["Range"].removeprefix("bytes=").split("-")
            first, last = (int(first), min(int(last or len(data)), len(data) - 1)) if first else (len(data) - int(last), len(data) - 1)
            if first >= len(data):
                return self.error(416, "InvalidRange")
            status, more = 206, {"Content_Range": f"bytes {first}-{last}/{len(data)}"}
            data = data[first:last + 1]
        return self.answer(status, data, "binary/octet-stream", ETag=f'"{tag}"', Last_Modified="Mon, 01 Jan 2024 00:00:00 GMT", **more)

    def list(self, bucket, asked):
        prefix, delimiter, after = asked.get("prefix", ""), asked.get("delimiter"), asked.get("start-after", "")
        escaped = lambda text: "".join(f"&#x{ord(c):x};" if ord(c) < 32 else c for c in xml.sax.saxutils.escape(text))
        objects, prefixes = [], set()
        for (b, key), (data, tag) in sorted(self.store.objects.items()):
            if b != bucket or not key.startswith(prefix) or key <= after:
                continue
            rest = key[len(prefix):]
            if delimiter and delimiter in rest:
                prefixes.add(prefix + rest[:rest.index(delimiter) + 1])
                continue
            objects.append(f"<Contents><Key>{escaped(key)}</Key><LastModified>2024-01-01T00:00:00.000Z</LastModified>"
                           f"<ETag>&quot;{tag}&quot;</ETag><Size>{len(data)}</Size></Contents>")
        common = [f"<CommonPrefixes><Prefix>{escaped(p)}</Prefix></CommonPrefixes>" for p in sorted(prefixes)]
        body = f"<ListBucketResult><Name>{bucket}</Name><Prefix>{escaped(prefix)}</Prefix>{''.join(objects)}{''.join(common)}</ListBucketResult>"
        return self.answer(200, body.encode())

    def assume(self, body, key):
        asked = dict(urllib.parse.parse_qsl(body.decode()))
        store = self.store
        store.assumed.append((key, asked))
        if asked.get("RoleArn", "").endswith("/closed"):
            return self.error(403, "AccessDenied", "is not authorized to perform: sts:AssumeRole")
        number = len(store.assumed)
        store.keys[f"session{number}"] = (f"secret{number}", f"token{number}")
        end = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=store.role_seconds)
        return self.answer(200, (
            "<AssumeRoleResponse><AssumeRoleResult><Credentials>"
            f"<AccessKeyId>session{number}</AccessKeyId><SecretAccessKey>secret{number}</SecretAccessKey>"
            f"<SessionToken>token{number}</SessionToken><Expiration>{end.isoformat()}</Expiration>"
            "</Credentials></AssumeRoleResult></AssumeRoleResponse>").encode())

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = serve
