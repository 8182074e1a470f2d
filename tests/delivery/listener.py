"""Something that listens where a collector is expected, and is none."""

import http.server
import threading
from collections.abc import Sequence


class Listener:
    """Answers every request with the same, or (``status`` None) never."""

    def __init__(
        self, status: int | None, body: bytes = b"", headers: Sequence[tuple[str, str]] = ()
    ) -> None:
        self.bodies: list[bytes] = []
        release = self.release = threading.Event()
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                outer.bodies.append(self.rfile.read(int(self.headers["Content-Length"] or 0)))
                if status is None:
                    release.wait(60)
                    return
                self.send_response(status)
                for name, value in headers:
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST

            def log_message(self, *_: object) -> None:
                """Nothing."""

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.release.set()
        self.server.shutdown()
        self.server.server_close()
