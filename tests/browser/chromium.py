"""Debian's Chromium without a window, spoken to by its own protocol over two pipes: no driver, no port."""

import base64
import fcntl
import json
import os
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

CHROMIUM: Final = shutil.which("chromium")
_PATIENCE_SECONDS: Final = 120.0  # machines are slow, and shared
_FLAGS: Final = (
    "--headless=new",
    "--remote-debugging-pipe",
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-sync",
    "--no-first-run",
    "--no-default-browser-check",
    "--force-device-scale-factor=1",
    "--hide-scrollbars",
)


class BrowserGone(Exception):
    """The browser did not answer in time, or ended."""


class Refused(Exception):
    """The browser would not do what it was asked."""


class Browser:
    """One page of a running Chromium. ``complaints``: what its console said since the page was opened;
    ``requests``: every address that it asked for."""

    def __init__(self, to_browser: int, from_browser: int) -> None:
        self._to, self._from = to_browser, from_browser
        self._rest = b""
        self._number = 0
        self._session: str | None = None
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self._loaded = False

    def start(self) -> None:
        """Attach to a page."""
        target = self._ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._ask(f"{domain}.enable")

    def open(self, url: str, *, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        """Show a page in a window of that size, and wait until its scripts have run."""
        self.resize(width, height)
        self.prefer(dark=dark)
        self.complaints, self.requests, self._loaded = [], [], False
        self._ask("Page.navigate", url=url)
        self._wait(lambda: self._loaded)

    def resize(self, width: int, height: int = 900) -> None:
        """Give the window another size."""
        self._ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def prefer(self, *, dark: bool) -> None:
        """What the system's colours are."""
        wanted = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._ask("Emulation.setEmulatedMedia", features=[wanted])

    def run(self, script: str) -> Any:
        """The value of a script's expression in the page. Raises AssertionError where the script fails."""
        told = self._ask(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True, userGesture=True
        )
        assert "exceptionDetails" not in told, told["exceptionDetails"]
        return told["result"].get("value")

    def until(self, condition: str) -> None:
        """Wait until a condition holds in the page, whichever that is by then."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while time.monotonic() < deadline:
            with suppress(Refused):  # one page goes, and the next is not there yet
                if self.run(condition):
                    return
        raise BrowserGone(f"it never came to be: {condition}")

    def press(self, key: str, *, shift: bool = False) -> None:
        """One key of the keyboard, down and up."""
        codes = {"Tab": 9, "Enter": 13, " ": 32, "Home": 36}
        text = {"Enter": "\r", " ": " "}.get(key, "")
        same = {"key": key, "windowsVirtualKeyCode": codes[key], "modifiers": 8 if shift else 0}
        self._ask("Input.dispatchKeyEvent", type="keyDown", text=text, **same)
        self._ask("Input.dispatchKeyEvent", type="keyUp", **same)

    def type(self, text: str) -> None:
        """Text where the focus is."""
        self._ask("Input.insertText", text=text)

    def click(self, selector: str) -> None:
        """The mouse's button in the middle of an element."""
        self.run(f"document.querySelector({json.dumps(selector)}).scrollIntoView({{block: 'center'}})")
        x, y = self.run(
            f"(() => {{ const box = document.querySelector({json.dumps(selector)}).getBoundingClientRect();"
            " return [box.x + box.width / 2, box.y + box.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self._ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def screenshot(self, path: Path, *, whole: bool = True) -> None:
        """What is to be seen, as PNG."""
        told = self._ask("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(told["data"]))

    def settle(self) -> None:
        """Wait until what was asked for is on the screen."""
        self.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")

    def _ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        number = self._number
        message: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        self._write(json.dumps(message).encode() + b"\0")
        answers: list[dict[str, Any]] = []
        self._wait(
            lambda: bool(answers), lambda told: answers.append(told) if told.get("id") == number else None
        )
        if "error" in answers[0]:
            raise Refused(f"{method}: {answers[0]['error']}")
        result: dict[str, Any] = answers[0]["result"]
        return result

    def _wait(
        self, done: Callable[[], bool], see: Callable[[dict[str, Any]], object] = lambda told: None
    ) -> None:
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not done():
            for told in self._messages(deadline):
                self._note(told)
                see(told)

    def _messages(self, deadline: float) -> Iterator[dict[str, Any]]:
        ready, _, _ = select.select([self._from], [], [], max(0.0, deadline - time.monotonic()))
        text = os.read(self._from, 1 << 20) if ready else b""
        if not text:
            raise BrowserGone("Chromium ended" if ready else "Chromium did not answer in time")
        *whole, self._rest = (self._rest + text).split(b"\0")
        yield from map(json.loads, whole)

    def _note(self, told: dict[str, Any]) -> None:
        method, facts = told.get("method"), told.get("params", {})
        if method == "Page.loadEventFired":
            self._loaded = True
        elif method == "Network.requestWillBeSent":
            self.requests.append(facts["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(facts["exceptionDetails"]))
        elif method == "Log.entryAdded" and facts["entry"]["level"] in ("error", "warning"):
            self.complaints.append(facts["entry"]["text"])
        elif method == "Runtime.consoleAPICalled" and facts["type"] in ("error", "warning", "assert"):
            self.complaints.append(json.dumps(facts["args"]))

    def _write(self, text: bytes) -> None:
        while text:
            text = text[os.write(self._to, text) :]


def _high(descriptor: int) -> int:
    """The same descriptor out of the way of those that Chromium asks for."""
    moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 10)
    os.close(descriptor)
    return moved


@contextmanager
def chromium(profile: Path) -> Iterator[Browser]:
    """A Chromium of its own, ended at the end with all that it started."""
    assert CHROMIUM is not None
    browser_reads, to_browser = map(_high, os.pipe())
    from_browser, browser_writes = map(_high, os.pipe())
    command = [
        # Chromium wants its two ends as 3 and 4; dash cannot name a descriptor of two digits.
        *("bash", "-c", f'exec "$@" 3<&{browser_reads} 4>&{browser_writes}', "bash", CHROMIUM),
        *(*_FLAGS, f"--user-data-dir={profile}"),
        *(["--no-sandbox"] if os.geteuid() == 0 else []),
    ]
    process = subprocess.Popen(
        command,
        pass_fds=(browser_reads, browser_writes),
        env={**os.environ, "HOME": str(profile)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    os.close(browser_reads)
    os.close(browser_writes)
    try:
        browser = Browser(to_browser, from_browser)
        browser.start()
        yield browser
    finally:
        os.close(to_browser)
        os.close(from_browser)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
