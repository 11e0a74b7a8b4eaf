"""The HTML page in a real browser: needs playwright (pip) and Chromium (apt-get install chromium)."""

import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import tiny
from commandline import Cli

from attncli.models.tokens import words_of_text
from attncli.record import Provenance, Tokens
from attncli.render import Options, html
from attncli.view import Header, Matrix, MatrixGrid

TEXT = "the animal was too tired it did cross ."


@pytest.fixture(scope="session")
def chromium():
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("Chromium is not installed")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


class Opened:
    """A page that was opened, and all that it asked for or complained of."""

    def __init__(self, browser, path: Path, fragment: str = "", **options) -> None:
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page = browser.new_page(**options)
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(f"file://{path}{fragment}")
        self.page.wait_for_selector("html[data-ready=yes]")

    def text(self, selector: str) -> str:
        return self.page.inner_text(selector)


@pytest.fixture
def opened(chromium):
    pages = []

    def open_page(path: Path, fragment: str = "", **options) -> Opened:
        pages.append(Opened(chromium, path, fragment, **options))
        return pages[-1]

    yield open_page
    for one in pages:
        one.page.close()
        assert one.complaints == []
        assert all(url.startswith(("file://", "data:")) for url in one.requests) and len(one.requests) <= 2


@pytest.fixture(scope="module")
def bert(tmp_path_factory) -> Path:
    return tiny.write_bert(tmp_path_factory.mktemp("bert"))


@pytest.fixture
def written(bert, cli: Cli, tmp_path) -> tuple[Path, np.ndarray]:
    """A page of six heads, and their weights."""
    page, data = tmp_path / "page.html", tmp_path / "page.npz"
    cli("show", TEXT, "-m", str(bert), "-o", str(page), "-o", str(data))
    with np.load(data) as saved:
        return page, np.concatenate([saved["encoder.0"], saved["encoder.1"]])


def _page(path: Path, title: str, matrix: Matrix, tokens: Tokens) -> Path:
    header = Header(command="show", title=title, provenance=Provenance("0"), notes=(title,))
    path.write_bytes(html.render(MatrixGrid(header, (matrix,), tokens, tokens), Options()))
    return path


def test_every_head_is_shown_and_a_click_opens_it(opened, written) -> None:
    one = opened(written[0])
    assert one.page.locator(".head").count() == 6
    one.page.click(".head >> nth=4")
    assert one.text(".detail h2") == "L1H1"
    assert one.page.get_attribute(".head >> nth=4", "aria-selected") == "true"


def test_the_weight_under_the_pointer_is_the_models(opened, written) -> None:
    page, weights = written
    one = opened(page, "#L1H2,row=3")
    one.page.hover(".map", position={"x": 28 * 5 + 3, "y": 28 * 3 + 3})
    assert re.search(r": (\d\.\d+)$", one.text(".readout"))[1] == f"{weights[5, 3, 5]:.3f}"
    assert "row 3 “was” → key 5 “tired”" in one.text(".readout")
    one.page.focus(".panel")
    one.page.keyboard.press("ArrowDown")
    one.page.keyboard.press("ArrowLeft")
    assert one.text(".readout").endswith(f"{weights[5, 4, 4]:.3f}")
    assert one.page.url.endswith("#L1H2,row=4")


def test_keys_move_between_heads_sort_them_and_find_a_token(opened, written) -> None:
    page, weights = written
    one = opened(page)
    one.page.focus(".head >> nth=0")
    one.page.keyboard.press("ArrowRight")
    assert one.text(".detail h2") == "L0H1"
    one.page.keyboard.press("s")
    assert one.text(".status") == "sorted by entropy"
    entropy = -(weights * np.log2(weights)).sum(axis=-1).mean(axis=-1)
    names = [f"L{head // 3}H{head % 3}" for head in np.argsort(-entropy)]
    assert [node.inner_text() for node in one.page.locator(".head span").all()] == names
    one.page.keyboard.press("/")
    one.page.keyboard.type("tired")
    assert one.text(".status") == "1 of 11 rows have “tired”" and "row 5 “tired”" in one.text(".readout")
    one.page.keyboard.press("Escape")
    one.page.keyboard.press("?")
    assert one.page.is_visible("dialog")


def test_lines_text_and_table_show_the_chosen_row(opened, written) -> None:
    page, weights = written
    one = opened(page, "#L0H0,row=2")
    one.page.click("#tab-lines")
    assert one.page.locator("line.chosen").count() == (weights[0, 2] >= 0.02).sum()
    one.page.click("#tab-text")
    assert one.page.get_attribute(".word >> nth=4", "title") == f"{weights[0, 2, 4]:.3f}"
    one.page.click("#tab-table")
    strongest = int(weights[0, 2].argmax())
    assert f"({strongest}) {weights[0, 2, strongest]:.3f}" in one.text("tr.chosen td").split(" · ")[0]


def test_quantised_weights_are_within_what_the_page_says(opened, written) -> None:
    one = opened(written[0])
    values = np.linspace(-1, 1, 401).tolist()
    again = "values => values.map(v => [0, -1].map(low => valueOf(stepOf(v, low, 1), low, 1)))"
    found = one.page.evaluate(again, values)
    weights, signed = np.array(found).T
    assert np.abs(weights - np.clip(values, 0, 1)).max() <= 0.004 and np.abs(signed - values).max() <= 0.008
    assert one.page.evaluate("Number.isNaN(valueOf(255, 0, 1))")


def test_a_long_text_is_pooled_and_its_strongest_cells_are_exact(opened, tmp_path) -> None:
    tokens = words_of_text(" ".join(f"w{number}" for number in range(1200)))
    values = np.random.default_rng(0).random((1200, 1200)).astype(np.float32) / 1000
    values[777, 333] = 0.8125
    path = _page(tmp_path / "long.html", "long", Matrix(values, kind="encoder", layer=0, head=0), tokens)
    one = opened(path)
    one.page.click("#tab-table")
    assert one.text("tbody tr >> nth=0").split("\t") == ["777 w777", "333 w333", "0.8125"]
    one.page.click("#tab-text")
    assert one.page.locator(".word").count() == 1200
    assert one.page.get_attribute(".word >> nth=333", "title").startswith("≈ 0.81")


def test_text_from_a_model_stays_text(opened, tmp_path) -> None:
    hostile = "</script><script>window.hurt=1</script> <img/src=x/onerror=window.hurt=1> \" ' &amp; <!--"
    tokens = words_of_text(hostile)
    weights = np.eye(len(tokens), dtype=np.float32)
    path = _page(tmp_path / "hostile.html", hostile, Matrix(weights, label=hostile), tokens)
    one = opened(path)
    for tab in ("lines", "text", "table"):
        one.page.click(f"#tab-{tab}")
    assert one.page.evaluate("window.hurt") is None
    assert one.text("h1") == hostile and one.text(".notes li") == hostile


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_stands_in_the_way_of_those_who_cannot_see_or_point(opened, written, scheme: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed")
    one = opened(written[0], color_scheme=scheme)
    for tab in ("matrix", "lines", "text", "table"):
        one.page.click(f"#tab-{tab}")
        found = axe.Axe().run(one.page)
        assert found.response["passes"] and found.violations_count == 0, found.generate_report()


def test_rankings_steps_and_differences_have_pages_too(opened, cli: Cli, bert, tmp_path) -> None:
    cli("heads", TEXT, "-m", str(bert), "-o", str(tmp_path / "heads.html"))
    ranking = opened(tmp_path / "heads.html")
    assert ranking.page.locator(".map-table td.cell").count() == 6
    ranking.page.click("thead button >> text=entropy")
    cli("explain", TEXT, "-m", str(bert), "--query", "it", "-o", str(tmp_path / "steps.html"))
    assert opened(tmp_path / "steps.html").page.locator(".step").count() > 5
    cli(
        "diff",
        TEXT,
        TEXT.replace("tired", "was"),
        "-m",
        str(bert),
        "--maps",
        "1",
        "-o",
        str(tmp_path / "diff.html"),
    )
    assert "difference" in opened(tmp_path / "diff.html").text(".heads")
