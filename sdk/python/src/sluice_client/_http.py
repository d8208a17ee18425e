"""One request and its answer, over connections that are kept."""

from __future__ import annotations

import http.client
import io
import socket
import ssl
import threading
import time
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Tuple
from urllib.parse import SplitResult

from . import _fork

_MAX_ANSWER = 16 * 1024 * 1024  # bytes of an answer: 1,000 warnings are under 1 MB
_MAX_IDLE = 32  # arbitrary: more than the parallel requests of most programs
_CONNECT = 10.0  # seconds for a connection


@dataclass(frozen=True)
class Answer:
    status: int
    reason: str
    header: http.client.HTTPMessage
    body: bytes


class _Timed(io.RawIOBase):
    """Reads from a socket until a deadline, however slowly the bytes come."""

    def __init__(self, sock: socket.socket, deadline: float) -> None:
        self._sock = sock
        self._raw = sock.makefile("rb", buffering=0)  # holds the socket open until the answer is read
        self._deadline = deadline

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> Optional[int]:
        self._sock.settimeout(_left(self._deadline))
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


class _TimedSocket:
    """The one method of a socket that HTTPResponse calls."""

    def __init__(self, sock: socket.socket, deadline: float) -> None:
        self._timed = _Timed(sock, deadline)

    def makefile(self, mode: str) -> io.BufferedReader:
        return io.BufferedReader(self._timed)


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise socket.timeout("no answer in time")
    return left


class Connections:
    """Connections to one address. A redirect is not followed: the key would go along."""

    def __init__(self, url: SplitResult, context: Optional[ssl.SSLContext]) -> None:
        self._url = url
        self._context = context
        if url.scheme == "https" and context is None:
            self._context = ssl.create_default_context()
        self._after_fork()
        _fork.track(self)

    def _after_fork(self) -> None:
        self._lock = threading.Lock()
        self._idle: List[http.client.HTTPConnection] = []

    def exchange(self, method: str, path: str, headers: Dict[str, str], body: Optional[bytes], timeout: float) -> Answer:
        """Makes one request. It ends after timeout seconds.

        A server may close an idle connection while we send on it. That is no failure of the service: the request is made
        again on another connection at once. This is safe, because every POST has an Idempotency-Key.
        """
        deadline = time.monotonic() + timeout
        while True:
            conn, reused = self._take(deadline)
            try:
                response = self._ask(conn, method, path, headers, body, deadline)
            except Exception as error:
                conn.close()
                if reused and isinstance(error, ConnectionError):
                    continue
                raise
            return self._read(conn, response)

    def close(self) -> None:
        """Closes idle connections."""
        with self._lock:
            idle, self._idle = self._idle, []
        for conn in idle:
            conn.close()

    def __del__(self) -> None:
        for conn in getattr(self, "_idle", ()):
            conn.close()

    def _take(self, deadline: float) -> Tuple[http.client.HTTPConnection, bool]:
        with self._lock:
            if self._idle:
                return self._idle.pop(), True
        host, timeout = self._url.hostname or "", min(_CONNECT, _left(deadline))
        if self._url.scheme == "https":
            return http.client.HTTPSConnection(host, self._url.port, timeout=timeout, context=self._context), False
        return http.client.HTTPConnection(host, self._url.port, timeout=timeout), False

    def _ask(
        self,
        conn: http.client.HTTPConnection,
        method: str,
        path: str,
        headers: Dict[str, str],
        body: Optional[bytes],
        deadline: float,
    ) -> http.client.HTTPResponse:
        if conn.sock is None:
            conn.connect()
            conn.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock = conn.sock
        sock.settimeout(_left(deadline))
        conn.response_class = lambda _, **more: http.client.HTTPResponse(  # type: ignore[assignment]
            _TimedSocket(sock, deadline), **more  # type: ignore[arg-type]
        )
        try:
            conn.request(method, self._url.path + path, body, headers)
        except ConnectionError:
            # A server that rejects a request may answer before it has read the body, and close.
            try:
                return conn.getresponse()
            except (OSError, http.client.HTTPException):
                pass
            raise
        return conn.getresponse()

    def _read(self, conn: http.client.HTTPConnection, response: http.client.HTTPResponse) -> Answer:
        whole = False
        try:
            body = response.read(_MAX_ANSWER + 1)
            if len(body) > _MAX_ANSWER:
                raise OSError("the answer is too long")
            if response.length:
                raise OSError("the answer ended early")
            whole = True
        finally:
            if not whole or response.will_close:
                conn.close()
            else:
                self._keep(conn)
        return Answer(response.status, response.reason, response.headers, body)

    def _keep(self, conn: http.client.HTTPConnection) -> None:
        with self._lock:
            if len(self._idle) < _MAX_IDLE:
                self._idle.append(conn)
                return
        conn.close()
