"""HAProxy in front of several servers, with the configuration of packaging/cluster, addresses and certificate changed."""

import csv
import http.client
import io
import json
import os
import re
import shutil
import socket
import ssl
import subprocess
import time

import harness

PACKAGING = os.path.join(os.path.dirname(os.path.dirname(harness.DATA)), "packaging", "cluster")


def find(program):
    """Its path, also where only root's PATH has it; None where it is not installed."""
    return shutil.which(program, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


def listener():
    """A socket on a port that nobody else has, for a child to listen on."""
    sock = socket.socket()
    sock.bind(("127.0.0.1", 0))
    sock.listen(1024)
    sock.set_inheritable(True)
    return sock


def make_certificate(directory):
    key, certificate = os.path.join(directory, "key.pem"), os.path.join(directory, "certificate.pem")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                    "-days", "30", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", key,
                    "-out", certificate], check=True, capture_output=True)
    with open(os.path.join(directory, "tandem.pem"), "w", encoding="ascii") as both:
        for part in (certificate, key):
            with open(part, encoding="ascii") as file:
                both.write(file.read())
    return certificate, both.name


class Balancer:
    """HAProxy with `ports` as its servers a, b, c, ready when all of them are up."""

    def __init__(self, directory, ports, connections=200):
        self.socket_path = os.path.join(directory, "admin.sock")
        self.certificate, pem = make_certificate(directory)
        self.front, statistics = listener(), listener()
        self.port, self.statistics_port = self.front.getsockname()[1], statistics.getsockname()[1]
        with open(os.path.join(PACKAGING, "haproxy.cfg"), encoding="utf-8") as file:
            text = file.read()
        for name, port in zip("abc", ports):
            text = self._replace(text, rf"server {name} \S+", f"server {name} 127.0.0.1:{port}")
        text = self._replace(text, r"maxconn 20000", f"maxconn {connections}")  # limits on files are lower
        text = self._replace(text, r"/run/haproxy/admin\.sock", self.socket_path)
        text = self._replace(text, r"bind :443 ssl crt \S+", f"bind fd@{self.front.fileno()} ssl crt {pem}")
        text = self._replace(text, r"bind 127\.0\.0\.1:8405", f"bind fd@{statistics.fileno()}")
        config = os.path.join(directory, "haproxy.cfg")
        with open(config, "w", encoding="utf-8") as file:
            file.write(text)
        self.log = open(os.path.join(directory, "haproxy.log"), "wb")
        self.process = subprocess.Popen([find("haproxy"), "-db", "-f", config], stderr=self.log,
                                        pass_fds=[self.front.fileno(), statistics.fileno()])
        statistics.close()
        try:
            for name in "abc":
                self.wait_for(name, "UP")
        except AssertionError:
            self.stop()
            raise

    @staticmethod
    def _replace(text, pattern, replacement):
        text, count = re.subn(pattern, replacement, text)
        assert count == 1, (pattern, count)  # the configuration has changed, and this has not
        return text

    def command(self, line):
        with socket.socket(socket.AF_UNIX) as admin:
            admin.settimeout(harness.TIMEOUT_S)
            admin.connect(self.socket_path)
            admin.sendall(line.encode() + b"\n")
            answer = b""
            while piece := admin.recv(65536):
                answer += piece
        return answer.decode()

    def status(self, name):
        rows = csv.DictReader(io.StringIO(self.command("show stat").removeprefix("# ")))
        return next(row["status"] for row in rows if row["pxname"] == "replicas" and row["svname"] == name)

    def wait_for(self, name, status):
        end = time.monotonic() + harness.TIMEOUT_S
        while True:
            try:
                seen = self.status(name)
            except OSError as error:  # it has only begun
                seen = str(error)
            if seen.startswith(status):
                return
            if self.process.poll() is not None or time.monotonic() > end:
                with open(self.log.name, encoding="utf-8", errors="replace") as log:
                    raise AssertionError(f"server {name} is {seen!r}, not {status}: {log.read()[-4000:]}")
            time.sleep(0.05)

    def move(self, name, port):
        """The server has come back elsewhere."""
        self.command(f"set server replicas/{name} addr 127.0.0.1 port {port}")
        self.wait_for(name, "UP")

    def connection(self):
        context = ssl.create_default_context(cafile=self.certificate)
        return http.client.HTTPSConnection("localhost", self.port, timeout=harness.TIMEOUT_S, context=context)

    def post(self, path, body, headers=None):
        """The response, its body not yet read."""
        connection = self.connection()
        connection.request("POST", path, json.dumps(body), dict(headers or {}, **{"Content-Type": "application/json"}))
        return connection.getresponse()

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.log.close()
        self.front.close()
