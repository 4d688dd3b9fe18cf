"""A server that speaks the protocol of the Hugging Face Hub, with its content network at a second port, and every fault
that a line or a server can have."""

import hashlib
import http.server
import json
import re
import socket
import ssl
import subprocess
import threading
import urllib.parse

COMMIT = "c0ffee" + "0" * 34
SLICE = 1 << 16


class Repository:
    def __init__(self, files, small=(), token=None, gated=False, moved_to=None):
        """`files` {path: bytes}; those in `small` are kept by git, not as large files."""
        self.files = files
        self.small = set(small)
        self.token = token
        self.gated = gated
        self.moved_to = moved_to
        self.commit = COMMIT

    def etag(self, path):
        content = self.files[path]
        if path in self.small:
            return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
        return hashlib.sha256(content).hexdigest()

    def entry(self, path):
        entry = {"type": "file", "path": path, "size": len(self.files[path]), "oid": "a" * 40}
        if path in self.small:
            entry["oid"] = self.etag(path)
        else:
            entry["lfs"] = {"oid": self.etag(path), "size": len(self.files[path]), "pointerSize": 130}
        return entry


class Fault:
    """What happens to the next `times` requests whose address matches `pattern`."""

    def __init__(self, pattern, times=1, status=None, headers=None, cut_after=None, hang_after=None, wrong=False,
                 ignore_range=False, slow=False):
        self.pattern = re.compile(pattern)
        self.times = times
        self.status = status
        self.headers = headers or {}
        self.cut_after = cut_after
        self.hang_after = hang_after
        self.wrong = wrong
        self.ignore_range = ignore_range
        self.slow = slow


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def do_GET(self):
        hub = self.server.hub
        fault = hub.meet(self.path, dict(self.headers), self.server is hub.hub)
        try:
            if fault and fault.status:
                self.answer(fault.status, fault.headers, b"{}")
            elif fault and fault.hang_after == 0:
                hub.hang()
            elif self.server is hub.hub:
                self.hub_request(hub, fault)
            else:
                self.send_file(hub.content[self.path.split("?")[0]], fault)
        except (BrokenPipeError, ConnectionResetError, ssl.SSLError):
            self.close_connection = True

    def answer(self, status, headers, body):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def hub_request(self, hub, fault):
        path = urllib.parse.unquote(self.path.split("?")[0])
        found = re.match(r"/(api/models/)?([^/]+/[^/]+)/(revision|tree|resolve)/([^/]+)/?(.*)", path)
        repository = hub.repositories.get(found[2]) if found else None
        if repository is None:
            return self.answer(401, {"X-Error-Code": "RepoNotFound", "X-Error-Message": "Repository not found"}, b"{}")
        if repository.moved_to:
            return self.answer(307, {"Location": self.path.replace(found[2], repository.moved_to)}, b"")
        if repository.token and self.headers.get("Authorization") != "Bearer " + repository.token:
            code = "GatedRepo" if repository.gated else "RepoNotFound"
            return self.answer(403 if repository.gated else 401, {"X-Error-Code": code}, b"{}")
        if found[3] == "revision":
            if found[4] not in ("main", repository.commit):
                return self.answer(404, {"X-Error-Code": "RevisionNotFound"}, b"{}")
            return self.answer(200, {}, json.dumps({"sha": repository.commit, "gated": False}).encode())
        if found[3] == "tree":
            return self.send_tree(repository, path)
        name = found[5]
        if name not in repository.files:
            return self.answer(404, {"X-Error-Code": "EntryNotFound"}, b"{}")
        if name in repository.small:
            return self.send_file(repository.files[name], fault, etag=repository.etag(name))
        place = "/blob/" + repository.etag(name)
        hub.content[place] = repository.files[name]
        self.answer(302, {"Location": f"{hub.content_url}{place}?Signature=s{hub.signature}",
                          "X-Linked-Etag": f'"{repository.etag(name)}"', "X-Repo-Commit": repository.commit}, b"")

    def send_tree(self, repository, path):
        """In pages of two."""
        query = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)
        begin = int(query.get("cursor", ["0"])[0])
        paths = sorted(repository.files)
        headers = {}
        if begin + 2 < len(paths):
            headers["Link"] = f'<{self.server.hub.url}{path}?recursive=true&cursor={begin + 2}>; rel="next"'
        entries = [{"type": "directory", "path": "folder", "size": 0, "oid": "a" * 40}]
        entries += [repository.entry(name) for name in paths[begin:begin + 2]]
        self.answer(200, headers, json.dumps(entries).encode())

    def send_file(self, content, fault, etag=None):
        wanted = re.match(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        begin, end = 0, len(content)
        if wanted and not (fault and fault.ignore_range):
            begin = int(wanted[1])
            end = min(end, int(wanted[2]) + 1 if wanted[2] else end)
            if begin >= len(content):
                return self.answer(416, {"Content-Range": f"bytes */{len(content)}"}, b"")
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {begin}-{end - 1}/{len(content)}")
        else:
            self.send_response(200)
        if etag:
            self.send_header("ETag", f'"{etag}"')
        for name, value in self.server.hub.file_headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(end - begin))
        self.end_headers()
        self.send_bytes(content[begin:end], fault)

    def send_bytes(self, part, fault):
        hub = self.server.hub
        for offset in range(0, len(part), SLICE):
            piece = part[offset:offset + SLICE]
            if fault and fault.wrong:
                piece = bytes(len(piece))
            if fault and fault.cut_after is not None and offset + len(piece) > fault.cut_after:
                self.wfile.write(piece[:max(0, fault.cut_after - offset)])
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            if fault and fault.hang_after is not None and offset >= fault.hang_after:
                return hub.hang()
            if fault and fault.slow:
                hub.pause.wait(0.01)
            self.wfile.write(piece)
            hub.count(len(piece))


class Hub:
    """Both servers, on ports of their own; `with Hub({...}) as hub`."""

    def __init__(self, repositories, tls=None):
        self.repositories = repositories
        self.content = {}
        self.file_headers = {}
        self.signature = 0
        self.requests = []  # (path, headers, whether it went to the Hub itself)
        self.sent_bytes = 0
        self.faults = []
        self.lock = threading.Lock()
        self.hanging = threading.Event()
        self.release = threading.Event()
        self.pause = threading.Event()
        self.hub = self.serve(tls)
        self.cdn = self.serve(tls)
        scheme = "https" if tls else "http"
        self.url = f"{scheme}://localhost:{self.hub.server_address[1]}"
        self.content_url = f"{scheme}://localhost:{self.cdn.server_address[1]}"

    def serve(self, tls):
        server = http.server.ThreadingHTTPServer(("localhost", 0), Handler)
        server.daemon_threads = True
        server.handle_error = lambda *args: None
        server.hub = self
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*tls)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server

    def __enter__(self):
        return self

    def __exit__(self, *args):
        self.release.set()
        for server in (self.hub, self.cdn):
            server.shutdown()
            server.server_close()

    def meet(self, path, headers, is_hub):
        with self.lock:
            self.requests.append((path, headers, is_hub))
            for fault in self.faults:
                if fault.times > 0 and fault.pattern.search(path):
                    fault.times -= 1
                    return fault
        return None

    def count(self, size):
        with self.lock:
            self.sent_bytes += size

    def hang(self):
        self.hanging.set()
        self.release.wait()

    def asked(self, pattern):
        return [path for path, _, _ in self.requests if re.search(pattern, path)]


def make_certificate(folder):
    """(certificate, key) of localhost, signed by itself."""
    certificate, key = f"{folder}/certificate.pem", f"{folder}/key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
                    "-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out", certificate],
                   check=True, capture_output=True)
    return certificate, key
