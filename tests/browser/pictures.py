"""The README's two pictures of the card: `python -m tests.browser.pictures` takes them from the committed tour.

Each is what Chromium draws of a card at the width of a README, light, with 64 colours.
"""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import sync_playwright

from lab.report.export import PAGE
from tests.browser.conftest import FLAGS, NAMES
from tests.notebooks.kept import TOUR

DOCS = Path(__file__).parents[2] / "lab" / "docs"
WIDTH, SCALE, COLOURS = 900, 1.5, 64
LARGEST = 150_000  # bytes
PICTURES = {
    # name: (what the tour's cell holds, the tab that is pressed, pixels from the top)
    "card-finding.png": ("clipped = np.clip", "Graph", 640),
    "card-timings.png": ("range(15)", "Timings", 560),
}


def card(holds: str) -> str:
    """The card of the cell whose source holds a text."""
    for cell in json.loads(TOUR.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "code" and holds in "".join(cell["source"]):
            return next("".join(o["data"]["text/html"]) for o in cell["outputs"] if "text/html" in o.get("data", {}))
    raise LookupError(f"the tour has no cell with {holds!r}")


def picture(browser: Any, html: str, tab: str, tall: int) -> bytes:
    """What a card looks like, from its top."""
    view = {"width": WIDTH, "height": tall}
    page = browser.new_page(viewport=view, device_scale_factor=SCALE, color_scheme="light")
    bare = PAGE.format(title="", about="", card=html).replace("<h1></h1><p></p>", "")
    page.set_content(bare.replace("margin: 16px", "margin: 4px"))
    page.get_by_role("tab", name=tab).first.click()
    page.mouse.move(WIDTH - 2, tall - 2)
    page.wait_for_timeout(500)
    taken = page.screenshot(clip={"x": 0, "y": 0, "width": WIDTH, "height": tall})
    page.close()
    out = io.BytesIO()
    few = Image.open(io.BytesIO(taken)).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    few.save(out, "PNG", optimize=True)
    return out.getvalue()


def main() -> None:
    """Take the pictures."""
    with sync_playwright() as play:
        path = next(filter(None, map(shutil.which, NAMES)))
        browser = play.chromium.launch(executable_path=path, args=FLAGS)
        for name, (holds, tab, tall) in PICTURES.items():
            taken = picture(browser, card(holds), tab, tall)
            if len(taken) > LARGEST:
                raise SystemExit(f"{name}: {len(taken) / 1e3:.0f} kB are more than {LARGEST / 1e3:.0f}")
            (DOCS / name).write_bytes(taken)
            print(f"lab/docs/{name}: {len(taken) / 1e3:.0f} kB")
        browser.close()


if __name__ == "__main__":
    main()
