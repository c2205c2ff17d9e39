"""Headless Chromium, driven by the DevTools protocol over a pipe (chromium --help: --remote-debugging-pipe)."""
import base64
import fcntl
import json
import os
import select
import subprocess
import time


class Browser:
    """A running Chromium. Descriptor 3 of it reads commands and 4 writes answers and events, each JSON with a zero byte."""

    def __init__(self, profile, *flags):
        commands, self._commands = os.pipe()
        self._answers, answers = os.pipe()
        # Out of the way of 3 and 4.
        given = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in (commands, answers)]
        os.close(commands)
        os.close(answers)

        def place():
            os.dup2(given[0], 3)
            os.dup2(given[1], 4)

        words = [
            "chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-proxy-server",
            "--no-first-run", "--disable-extensions", "--disable-background-networking", "--hide-scrollbars",
            f"--user-data-dir={profile}", "--remote-debugging-pipe", *flags, "about:blank",
        ]
        with open(f"{profile}.log", "w", encoding="utf-8") as log:
            self.process = subprocess.Popen(words, close_fds=False, preexec_fn=place, stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=log)
        for end in given:
            os.close(end)
        self._unread = b""
        self._number = 0
        self.events = []

    def call(self, method, session=None, **parameters):
        """Sends a command and returns its answer; events that come before are kept."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._commands, data):]
        end = time.monotonic() + 60
        while True:
            answer = self._receive(end - time.monotonic())
            if answer is None:
                raise RuntimeError(f"no answer to {method} within 60 s")
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def drain(self, seconds=0.0):
        """Keeps the events that have come."""
        end = time.monotonic() + seconds
        while (event := self._receive(max(0, end - time.monotonic()))) is not None:
            self.events.append(event)

    def _receive(self, seconds):
        end = time.monotonic() + seconds
        while b"\0" not in self._unread:
            if not select.select([self._answers], [], [], max(0, end - time.monotonic()))[0]:
                return None
            data = os.read(self._answers, 1 << 20)
            if not data:
                raise RuntimeError("Chromium has ended")
            self._unread += data
        message, self._unread = self._unread.split(b"\0", 1)
        return json.loads(message)

    def close(self):
        self.call("Browser.close")
        self.process.wait()


class Page:
    """A tab of the browser."""

    def __init__(self, browser):
        self.browser = browser
        target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network", "Accessibility"):
            self.call(f"{domain}.enable")

    def call(self, method, **parameters):
        return self.browser.call(method, self.session, **parameters)

    def events(self, method):
        """The parameters of the events of a name so far."""
        self.browser.drain()
        return [event["params"] for event in self.browser.events
                if event.get("sessionId") == self.session and event.get("method") == method]

    def open(self, url):
        return self.call("Page.navigate", url=url)

    def run(self, script):
        """Evaluates JavaScript, and returns its value as JSON has it."""
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            details = result["exceptionDetails"]
            raise RuntimeError(details.get("exception", {}).get("description") or details["text"])
        return result["result"].get("value")

    def wait(self, script, seconds=30):
        """Waits until JavaScript is true; returns its value."""
        end = time.monotonic() + seconds
        while True:
            try:
                if value := self.run(script):
                    return value
                told = self.run("document.body.innerText")
            except RuntimeError as error:
                # Before the page is there, it lacks elements.
                told = error
            if time.monotonic() > end:
                raise RuntimeError(f"not within {seconds} s: {script}\n{told}")
            time.sleep(0.02)

    def size(self, width, height, scale=1, isPhone=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=isPhone)

    def media(self, **features):
        """Emulates media features: `media(prefers_color_scheme="dark")`."""
        self.call("Emulation.setEmulatedMedia", features=[
            {"name": name.replace("_", "-"), "value": value} for name, value in features.items()])

    def press(self, key, code=0, text="", modifiers=0):
        for kind in ("rawKeyDown", "char", "keyUp") if text else ("rawKeyDown", "keyUp"):
            self.call(
                "Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code, text=text, modifiers=modifiers)

    def picture(self, file, height=None, of=None):
        """Writes the whole page, its upper part, or the element of a selector, as a PNG."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], height or 1e6), "scale": 1}
        if of:
            script = """(() => {{
                const box = document.querySelector({of}).getBoundingClientRect();
                return {{ x: box.x + scrollX, y: box.y + scrollY, width: box.width, height: box.height }}; }})()"""
            clip |= self.run(script.format(of=json.dumps(of)))
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)["data"]
        file.write_bytes(base64.b64decode(data))

    def accessible(self):
        """The accessibility tree as a list of (role, name), without ignored nodes."""
        nodes = self.call("Accessibility.getFullAXTree")["nodes"]
        return [(node["role"]["value"], node.get("name", {}).get("value", "")) for node in nodes
                if not node.get("ignored") and "role" in node]
