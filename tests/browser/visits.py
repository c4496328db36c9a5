"""An open report in a browser."""

from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Dialog, Page

WIDTHS = {"desk": (1280, 900), "phone": (390, 844)}


class Visit:
    """An open page, and all that it printed or asked for."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.messages: list[str] = []
        self.requests: list[str] = []
        page.on("console", lambda message: self.messages.append(message.text))
        page.on("pageerror", lambda error: self.messages.append(str(error)))
        page.on("dialog", self._dismiss)
        page.on("request", lambda request: self.requests.append(request.url))

    def _dismiss(self, dialog: Dialog) -> None:
        self.messages.append(f"dialog {dialog.message}")
        dialog.dismiss()

    def open(self, file: Path) -> None:
        self.page.goto(file.as_uri())
        self.page.wait_for_selector("html[data-ready]")

    def open_all_details(self) -> None:
        self.page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        self.page.wait_for_function("!document.querySelector('.chart:not([data-state=drawn])')")

    def settle(self) -> None:
        """Wait until Vega has drawn what changed."""
        self.page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


Open = Callable[..., Visit]
