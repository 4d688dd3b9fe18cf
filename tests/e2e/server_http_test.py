"""tandem serve as those see it who speak HTTP oddly, or send bodies made to hold it up."""

import contextlib
import http.client
import json
import re
import signal
import socket
import ssl
import subprocess
import time
import unittest

import harness
from server_test import STORY, Server, ServerCase, raw_request

HOST = b"Host: localhost\r\n"
NEXT = b"GET /api/version HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
LONG = {"messages": STORY, "ignore_eos": True, "stream": True}


def read_all(connection):
    data = b""
    try:
        while piece := connection.recv(1 << 16):
            data += piece
    except ConnectionResetError:
        pass
    return data


def statuses(data):
    """Those of all answers: each begins where the one before has ended."""
    return [int(part[:3]) for part in (b"\r\n" + data).replace(b"}HTTP", b"}\r\nHTTP").split(b"\r\nHTTP/1.1 ")[1:]]


class Raw(ServerCase):
    def send(self, *pieces):
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=harness.TIMEOUT_S) as connection:
            for piece in pieces:
                connection.sendall(piece)
            return read_all(connection)


class Smuggling(Raw):
    """What could be read as one request by whoever stands before the server, and as two by itself."""

    def refused(self, head, status, body=b"0\r\n\r\n"):
        answer = self.send(b"POST /tokenize HTTP/1.1\r\n" + HOST + head + b"\r\n" + body + NEXT)
        self.assertEqual(statuses(answer), [status], (head, answer))
        self.assertIn(b"\r\nConnection: close\r\n", answer, head)

    def test_codings_that_do_not_end_in_chunks(self):
        for coding in (b"identity", b"xchunked", b"chunked, identity", b"chunked, chunked", b"", b"gzip", b"chunked,",
                       b"chunked;q=1", b'"chunked"'):
            self.refused(b"Transfer-Encoding: " + coding + b"\r\n", 400)
        self.refused(b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", 400)
        self.refused(b"Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n", 501)
        self.refused(b"Transfer-Encoding: gzip, chunked\r\n", 501)

    def test_two_lengths(self):
        for lengths in (b"Content-Length: 5\r\nContent-Length: 5\r\n", b"Content-Length: 5, 5\r\n",
                        b"Content-Length: 5\r\nContent-Length: 6\r\n", b"Content-Length: +5\r\n",
                        b"Content-Length: -5\r\n", b"Content-Length: 0x5\r\n", b"Content-Length: 5 5\r\n",
                        b"Content-Length: \r\n", b"Content-Length: 18446744073709551617\r\n",
                        b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
                        b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
                        b"Transfer-Encoding: identity\r\nContent-Length: 5\r\n"):
            self.refused(lengths, 400)

    def test_lines_that_are_none(self):
        for head in (b"Content-Length : 5\r\n", b" Content-Length: 5\r\n", b"X: a\r\n b\r\nContent-Length: 5\r\n",
                     b"Transfer-Encoding:\r\n chunked\r\n", b"Transfer-Encoding:\r\n\tchunked\r\n",
                     b"X: a\nContent-Length: 5\r\n", b"X: a\rContent-Length: 5\r\n", b"X: a\x00b\r\n", b": a\r\n",
                     b"Transfer-Encoding\x0b: chunked\r\n", b"Transfer-Encoding: \x0bchunked\r\n"):
            self.refused(head, 400)

    def test_chunks_that_are_none(self):
        for body in (b"5\nhello\n0\n\n", b"0x5\r\nhello\r\n0\r\n\r\n", b"-5\r\nhello\r\n0\r\n\r\n",
                     b"+5\r\nhello\r\n0\r\n\r\n", b"5\r\nhello0\r\n\r\n", b"\r\nhello\r\n0\r\n\r\n", b" 5\r\nhello\r\n0\r\n\r\n",
                     b"5\r\nhelloXX0\r\n\r\n", b"5;a\nb\r\nhello\r\n0\r\n\r\n", b"0\r\nContent-Length: 7\r\n\r\n",
                     b"0\r\nTransfer-Encoding: chunked\r\n\r\n"):
            self.refused(b"Transfer-Encoding: chunked\r\n", 400, body)
        for size in (b"10000000000000000", b"ffffffffffffffff", b"fffffffffffffffffffff", b"7fffffff"):
            answer = self.send(b"POST /tokenize HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n" + size +
                               b"\r\nhello\r\n0\r\n\r\n" + NEXT)
            self.assertIn(statuses(answer), ([400], [413]), size)

    def test_http_1_0_has_no_chunks(self):
        answer = self.send(b"POST /tokenize HTTP/1.0\r\n" + HOST + b"Connection: keep-alive\r\n"
                           b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + NEXT)
        self.assertEqual(statuses(answer), [400])

    def test_what_is_in_order_is_two_requests(self):
        body = b'{"content": "a"}'
        chunks = b"".join(b"0%x ;name=value\r\n%s\r\n" % (1, body[i:i + 1]) for i in range(len(body)))
        for head, data in ((b"Content-Length: 0016\r\n", body),
                           (b"Transfer-Encoding: Chunked\r\n", chunks.replace(b" ;", b";") + b"00;x\r\nTrailer: x\r\n\r\n")):
            answer = self.send(b"POST /tokenize HTTP/1.1\r\n" + HOST + head + b"\r\n" + data + NEXT)
            self.assertEqual(statuses(answer), [200, 200], (head, answer))

    def test_trailers_and_extensions_have_an_end(self):
        for tail in (b"0\r\n" + b"x: y\r\n" * 40000 + b"\r\n", b"0\r\nx: " + b"y" * 200000 + b"\r\n\r\n",
                     b"0;" + b"x" * 200000 + b"\r\n\r\n", b"1;" + b"x" * 200000 + b"\r\n \r\n0\r\n\r\n"):
            answer = self.send(b"POST /v1/completions HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n" + tail)
            self.assertEqual(statuses(answer), [431], tail[:20])
        status, _, _ = self.server.request("POST", "/v1/completions", "{}")
        self.assertEqual(status, 400)


class Requests(Raw):
    def test_a_refusal_says_whether_the_connection_goes_on(self):
        answer = self.send(b"DELETE /health HTTP/1.1\r\n" + HOST + b"\r\n" + NEXT)
        self.assertEqual(statuses(answer), [405, 200])
        self.assertIn(b"Connection: keep-alive", answer.split(b"\r\n\r\n")[0])
        for head in (b"Content-Length: 2\r\n\r\n{}", b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
                     b"Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}"):
            for path in (b"/nothing", b"/tokenize") if b"gzip" in head else (b"/nothing",):
                answer = self.send(b"POST " + path + b" HTTP/1.1\r\n" + HOST + head + NEXT)
                self.assertEqual(len(statuses(answer)), 1, answer)
                self.assertIn(b"Connection: close", answer)

    def test_targets_and_methods(self):
        for line, status in ((b"GET http://localhost/health", 200), (b"HEAD /health", 200), (b"OPTIONS *", 400),
                             (b"GET http://evil.example/health", 400), (b"CONNECT localhost:80", 400),
                             (b"GET /%68ealth", 200), (b"GET /%zz", 400), (b"GET /health#x", 400),
                             (b"OPTIONS /health", 405), (b"BREW /health", 405), (b"GET //health", 400)):
            answer = self.send(line + b" HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n")
            self.assertEqual(statuses(answer), [status], line)
        self.assertEqual(statuses(self.send(b"GET /health HTTP/1.0\r\n\r\n")), [400], "without a Host")
        self.assertEqual(statuses(self.send(b"GET /health HTTP/2.0\r\n" + HOST + b"\r\n")), [400])

    def test_a_body_on_demand_is_asked_for_once(self):
        body = b'{"content": "a"}'
        head = (b"POST /tokenize HTTP/1.1\r\n" + HOST + b"Connection: close\r\nContent-Length: %d\r\n" % len(body))
        answer = self.send(head + b"Expect: 100-Continue\r\n\r\n", body)
        self.assertEqual(statuses(answer.replace(b"Continue\r\n\r\n", b"Continue\r\n")), [100, 200])
        answer = self.send((head + b"Expect: 100-continue\r\n\r\n").replace(b"HTTP/1.1", b"HTTP/1.0"), body)
        self.assertEqual(statuses(answer), [200])
        refused = self.send(head.replace(b"/tokenize", b"/nothing") + b"Expect: 100-continue\r\n\r\n")
        self.assertEqual(statuses(refused), [404])

    def test_ids_that_the_vocabulary_has_not(self):
        size = None
        for ids in ([1, 99999999], [-1], [2**31 - 1]):
            wrong = [token for token in ids if token != 1][0]
            for path, field in (("/detokenize", "tokens"), ("/v1/completions", "prompt"), ("/v1/embeddings", "input")):
                status, answer = self.server.post(path, {field: ids})
                self.assertEqual(status, 400, path)
                self.assertIn(f"token id {wrong} is not in the model's vocabulary of ", answer["error"]["message"])
                found = answer["error"]["message"].rsplit(" ", 1)[1]
                size = size or found
                self.assertEqual(found, size)
        last = int(size) - 1
        self.assertEqual(self.server.post("/detokenize", {"tokens": [last]})[0], 200)
        status, answer = self.server.post("/detokenize", {"tokens": [2**40]})
        self.assertEqual(status, 400)
        self.assertIn(str(2**40), answer["error"]["message"])

    def test_long_texts_are_tokenized_in_parts(self):
        status, answer = self.server.post("/tokenize", {"content": "fox " * (1 << 18)})
        self.assertEqual(status, 200)
        self.assertGreater(answer["count"], answer["max_model_len"], "more than a prompt may have")
        status, answer = self.server.post("/tokenize", {"content": "fox " * (1 << 18) + "!"})
        self.assertEqual((status, answer["error"]["param"]), (413, "content"))
        self.assertIn("a text of 1048577 bytes; at most 1048576", answer["error"]["message"])


def hostile_bodies():
    """(what, body, what its refusal says)"""
    keys = ",".join(f'"{i}":1' for i in range(200_000))
    fields = ('"messages":[{"role":"user","content":"x"}]', '"prompt":"x"', '"model":"tales"')
    for field in fields:
        yield "keys", "{" + field + "," + keys + "}", "more than 4096 keys in one object"
        yield "the same key", "{" + field + ',"k":1' * 300_000 + "}", "more than 4096 keys in one object"
        yield "logit_bias", "{" + field + ',"logit_bias":{' + keys + "}}", "more than 4096 keys in one object"
        yield "objects", "{" + field + ',"tools":[' + ",".join(['{"a":{"b":1}}'] * 100_000) + "]}", "more than 65536 strings"
        yield "arrays", "{" + field + ',"stop":[' + ",".join(["[]"] * 400_000) + "]}", "more than 65536 strings"
        yield "numbers", "{" + field + ',"x":[' + ",".join(["1"] * 400_000) + "]}", "more than 160000 values"
        yield "depth", "{" + field + ',"metadata":' + "[" * 1_000_000, "nested deeper than 64 levels"
        yield "a number", "{" + field + ',"n":1' + "0" * 1_000_000 + "}", "a number has more than 1000 characters"
        yield "an open string", "{" + field + ',"n":"' + "\\n" * 1_000_000, "not valid JSON"


class Hostile(Raw):
    PATHS = ("/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/responses", "/v1/messages",
             "/v1/messages/count_tokens", "/api/chat", "/api/generate", "/api/embed", "/api/embeddings", "/api/show",
             "/api/pull", "/api/copy", "/api/create", "/tokenize", "/detokenize")

    def test_bodies_that_are_made_to_hold_the_server_up(self):
        for index, (what, body, message) in enumerate(hostile_bodies()):
            for path in self.PATHS[index % 3::3]:
                status, _, data = self.server.request("POST", path, body)
                self.assertEqual(status, 400, (what, path, data[:200]))
                self.assertIn(message, data.decode(), (what, path))

    def test_many_of_them_do_not_keep_the_server_from_its_end(self):
        server = Server()
        body = "{" + ",".join(f'"{i}":1' for i in range(4000)) + ',"messages":[' + ",".join(["{}"] * 100_000) + "]}"
        clients = []
        for path in self.PATHS:
            clients.append(socket.create_connection(("127.0.0.1", server.port), timeout=harness.TIMEOUT_S))
            clients[-1].sendall(raw_request(body, path=path))
        self.assertEqual(server.request("GET", "/health")[0], 200)
        self.assertEqual(server.stop(), 0)
        for client in clients:
            client.close()


class Rate(unittest.TestCase):
    def test_a_minutes_requests_may_come_at_once(self):
        server = Server("--requests-per-minute", 3)
        body = {"prompt": "a fox", "max_tokens": 1}
        answers = [server.request("POST", "/v1/completions", body) for _ in range(4)]
        self.assertEqual([status for status, _, _ in answers], [200, 200, 200, 429])
        wait_s = int(answers[-1][1]["Retry-After"])
        self.assertLessEqual(wait_s, 20)
        self.assertIn(f"may make 3 requests a minute and has used them up: there is one more in {wait_s} s",
                      json.loads(answers[-1][2])["error"]["message"])
        self.assertEqual(server.stop(), 0)


class Tls(harness.Case):
    def setUp(self):
        super().setUp()
        key, certificate = self.path("key.pem"), self.path("cert.pem")
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate,
                        "-days", "2", "-subj", "/CN=localhost"], check=True, capture_output=True)
        self.context = ssl.create_default_context(cafile=certificate)
        self.context.check_hostname = False
        self.server = Server("--certificate", certificate, "--private-key", key, wait=False)
        self.server.connection = self.client
        self.server.wait_until_ready()

    def client(self):
        return http.client.HTTPSConnection("127.0.0.1", self.server.port, context=self.context,
                                           timeout=harness.TIMEOUT_S)

    def secured(self):
        plain = socket.create_connection(("127.0.0.1", self.server.port), timeout=harness.TIMEOUT_S)
        return self.context.wrap_socket(plain)

    def test_who_takes_leave_is_not_answered_any_more(self):
        gone = []
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            self.context.minimum_version = self.context.maximum_version = version
            for stream in (True, False):
                connection = self.secured()
                connection.sendall(raw_request(json.dumps(dict(LONG, stream=stream))))
                if stream:
                    self.assertTrue(connection.recv(100).startswith(b"HTTP/1.1 200"))
                connection.settimeout(0)
                with contextlib.suppress(ssl.SSLError):
                    connection.unwrap()  # the word of leave; that of the server is not waited for
                connection.shutdown(socket.SHUT_WR)  # the end, where close() would be a reset if there is more to read
                gone.append(connection)
        # Those that had nothing to read yet were not computed to the end.
        self.assertEqual(self.chats(4), {"200": 2, "499": 2})
        for connection in gone:
            connection.close()
        self.assertEqual(self.server.stop(), 0)

    def chats(self, count):
        """How many ended with which status, when so many have."""
        end = time.monotonic() + harness.TIMEOUT_S
        while time.monotonic() < end:
            metrics = self.server.request("GET", "/metrics")[2].decode()
            found = re.findall(r'tandem_requests_total{route="/v1/chat/completions",status="(\d+)"} (\d+)', metrics)
            if sum(int(number) for _, number in found) == count:
                return {status: int(number) for status, number in found}
            time.sleep(0.02)
        raise AssertionError("requests of clients that are gone go on")

    def test_a_connection_serves_many_requests(self):
        connection = self.client()
        for _ in range(3):
            connection.request("POST", "/v1/chat/completions",
                               json.dumps({"messages": STORY, "max_tokens": 2, "stream": True}))
            self.assertTrue(connection.getresponse().read().endswith(b"data: [DONE]\n\n"))
            connection.request("GET", "/nothing")
            answer = connection.getresponse()
            self.assertEqual((answer.status, answer.headers["Connection"]), (404, "keep-alive"))
            answer.read()
        connection.close()
        with self.secured() as ahead:
            ahead.sendall(raw_request(json.dumps({"messages": STORY, "max_tokens": 20})))
            ahead.sendall(NEXT)
            self.assertEqual(statuses(read_all(ahead)), [200, 200])
        self.assertEqual(self.server.stop(signal.SIGINT), 0)

    def test_who_sends_a_large_body_in_vain_still_reads_why(self):
        with self.secured() as connection:
            connection.sendall(raw_request("x" * (1 << 20), path="/nothing"))
            answer = connection.recv(1 << 16)
        self.assertEqual(statuses(answer), [404])
        self.assertIn(b"Connection: close", answer)
        self.assertEqual(self.server.stop(), 0)


if __name__ == "__main__":
    harness.main()
