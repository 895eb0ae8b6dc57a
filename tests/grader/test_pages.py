"""What students wrote, on an instructor's pages: a real browser runs, loads and sends nothing of it."""

from __future__ import annotations

import html.parser
import json
import os
import subprocess
import sys
import time
import urllib.request

import nbformat
import pytest
from browser import ROOT, host
from class_of_25 import roster

from assignments.grader import batch, pages
from assignments.grader.course import Course
from labcourse import handin

WRITE = (
    "var x=(document.cookie.match('_xsrf=([^;]*)')||[])[1];fetch('/api/contents/pwned.txt',{method:'PUT',"
    "credentials:'same-origin',headers:{'X-XSRFToken':x,'Content-Type':'application/json'},body:JSON.stringify("
    "{type:'file',format:'text',content:'a student wrote this'})}).then(r=>{document.title='PWNED'+r.status})"
)
#: Each of them sets the title, leaves the page, or asks another host.
ATTACKS = {
    "write": f'<img src=x onerror="{WRITE}">',
    "image": "<img src=x onerror=document.title='PWNED'>",
    "svg": "<svg onload=document.title='PWNED'><script>document.title='PWNED'</script></svg>",
    "script": "<script>document.title='PWNED'</script>",
    "link": "[click](javascript:document.title='PWNED')",
    "entity": "[click](java&#115;cript:document.title='PWNED') <a href='java&#10;script:document.title=1'>click</a>",
    "defined": "[click][x]\n\n[x]: JaVaScRiPt:document.title='PWNED'",
    "auto": "<javascript:document.title='PWNED'>",
    "title": '[click](#a "x\' onmouseover=\'document.title=1\' y=\\"") ![p](x "\\" onerror=document.title=1 ")',
    "frame": "<iframe srcdoc=\"<script>parent.document.title='PWNED'</script>\"></iframe>",
    "data": "<object data=\"data:text/html,<script>document.title='PWNED'</script>\"></object><embed src=//evil.test/>",
    "refresh": '<meta http-equiv="refresh" content="0;url=http://evil.test/">',
    "base": "<base href='http://evil.test/'>",
    "style": "<style>@import url(http://evil.test/x.css);body{display:none}</style>",
    "inline": "<p style=\"position:fixed;inset:0;background:url('http://evil.test/x')\">over everything</p>",
    "sheet": "<link rel=stylesheet href=http://evil.test/x.css>",
    "form": "<form action=http://evil.test/><button autofocus onfocus=document.title='PWNED'>Credit</button></form>",
    "details": "<details open ontoggle=document.title='PWNED'>x</details>",
    "picture": "![x](http://evil.test/x.png)",
    "attachment": "![x](attachment:x.svg)",
    "math": "$\\href{javascript:document.title=1}{click}$ $<img src=x onerror=document.title='PWNED'>$",
    "fence": "```html\n</code></pre><img src=x onerror=document.title='PWNED'>\n```",
    "comment": "<!--><img src=x onerror=document.title='PWNED'>-->",
    "unclosed": "<img src=x onerror=document.title='PWNED' ",
    "namespace": "<math><mtext><table><mglyph><style><!--</style><img title='--><img src=x onerror=document.title=1>'>",
}
SVG = "<svg xmlns='http://www.w3.org/2000/svg' onload=\"document.title='PWNED'\"/>"
OUTPUTS = {
    "text/html": ATTACKS["image"],
    "image/svg+xml": SVG,
    "application/javascript": "document.title='PWNED'",
    "text/markdown": ATTACKS["image"],
    "text/latex": ATTACKS["math"],
    "application/vnd.jupyter.widget-view+json": {"model_id": "a", "version_major": 2, "version_minor": 0},
}


class Tags(html.parser.HTMLParser):
    """The tags and attributes of a page."""

    def __init__(self, text):
        super().__init__()
        self.found = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))


def test_of_markdown_only_words_and_safe_links_are_left():
    for attack in ATTACKS.values():
        for tag, attributes in [tag for t in (attack, pages.as_code(attack)) for tag in Tags(pages.harmless(t)).found]:
            assert tag in pages.TAGS
            assert set(attributes) <= {"href"}
            assert attributes.get("href", "#").startswith(("#", "http://", "https://", "mailto:"))


def test_what_markdown_is_for_is_still_there():
    made = pages.harmless("# Why\n\n*It*, `a < b`, [here](https://example.org/x?a=1&b=2):\n\n- one\n- two\n\n$a<b$")
    for part in ("<h1", "<em>It</em>", "<code>a &lt; b</code>", 'href="https://example.org/x?a=1&amp;b=2"', "<li>one"):
        assert part in made, part
    assert "$a&lt;b$" in made
    assert "&lt;img" in pages.harmless("<img src=x>")
    text = "````\n<b>\n```"
    assert pages.as_code(text) == f"`````text\n{text}\n`````"


def test_no_cell_keeps_the_others_from_being_shown():
    for text in ("![x](attachment:x.svg)", "[" * 20_001, "> " * 10_001, "<b>" * 7_000):
        assert pages.harmless(text)


@pytest.fixture(scope="module")
def attacked(tmp_path_factory):
    """The course of an instructor who has graded a submission with every attack in it."""
    course = Course(root=tmp_path_factory.mktemp("attacked"))
    course.release()
    notebook = json.loads((course.root / "release" / roster.PS3 / f"{roster.PS3}.ipynb").read_text())
    for text in ATTACKS.values():
        for kind in ("markdown", "raw"):
            cell = getattr(nbformat.v4, f"new_{kind}_cell")(text)
            cell["attachments"] = {"x.svg": {"image/svg+xml": SVG}}
            notebook["cells"].append(cell)
        notebook["cells"].append(roster.code(f"print({text!r})\nraise ValueError({text!r})"))
    shown = nbformat.v4.new_output("display_data", OUTPUTS)
    notebook["cells"].append(roster.code("'%%html'") | {"outputs": [shown]})
    notebook["cells"].append(roster.code(f"%%html\n{ATTACKS['image']}"))
    state = {"state": {"a": {"model_module": "http://evil.test/x.js", "model_name": "A", "state": {}}}}
    notebook["metadata"]["widgets"] = {"application/vnd.jupyter.widget-state+json": state}
    folder = tmp_path_factory.mktemp("handed-in")
    place = folder / "mallory" / roster.PS3 / f"{roster.PS3}.ipynb"
    place.parent.mkdir(parents=True)
    place.write_text(json.dumps(notebook))
    (row,) = batch.grade(folder, course)
    assert row.status in ("graded", "repaired"), row
    return course


@pytest.fixture
def formgrader(attacked, tmp_path):
    """Formgrader as `make formgrader` starts it, with the course of this test; its address."""
    words = f"import sys\nsys.path.append({str(ROOT / 'notebooks')!r})\nfrom pathlib import Path\n"
    words += "from assignments.grader.course import Course\n"
    (tmp_path / "nbgrader_config.py").write_text(
        f"{words}Course(Path({str(attacked.root)!r})).configure(get_config())\n"
    )
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--port=0", "--ServerApp.token=t"]
    command += [f"--ServerApp.root_dir={attacked.root}"]
    own = {f"JUPYTER_{k}_DIR": str(tmp_path / k) for k in ("CONFIG", "DATA", "RUNTIME")}
    server = subprocess.Popen(
        command, cwd=tmp_path, env={**os.environ, **own}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        for _ in range(600):
            assert server.poll() is None
            found = [json.loads(p.read_text())["url"] for p in (tmp_path / "RUNTIME").glob("jpserver-*.json")]
            try:
                urllib.request.urlopen(f"{found[0]}api/status?token=t", timeout=5).close()
                break
            except (OSError, IndexError, ValueError):
                time.sleep(0.2)
        yield found[0]
    finally:
        server.terminate()
        server.wait(30)


def visit(chromium, address):
    """Open a page, click on every link of a student; return the hosts that were asked and the page's last state."""
    page, asked = chromium.new_page(), set()
    # What a page of nbgrader brings from its own servers (MathJax) is not asked for; anything else would be seen here.
    page.on("request", lambda request: asked.add(host(request.url)))
    page.route("**/*", lambda route: route.continue_() if "127.0.0.1" in route.request.url or "localhost" in
               route.request.url or route.request.url.startswith("file:") else route.abort())  # fmt: skip
    page.goto(address, wait_until="load")
    title, where = page.title(), page.url
    text = page.inner_text("body")
    assert text.count("Problem set 3") == 1
    assert text.count("over everything") >= 2
    for link in page.query_selector_all(".text_cell_render a:not([href^='#'])"):
        link.evaluate("a => a.click()") if not (link.get_attribute("href") or "").startswith("http") else None
    page.mouse.move(300, 300)
    page.wait_for_timeout(500)  # nothing may happen, so there is no state to wait for
    left = page.evaluate(
        """() => [...document.querySelectorAll('.cell *, .jp-Cell *')].filter(e =>
          ['SCRIPT', 'IFRAME', 'OBJECT', 'EMBED', 'META', 'BASE', 'LINK', 'STYLE', 'FORM', 'SVG', 'IMG'].includes(
            e.tagName.toUpperCase()) || [...e.attributes].some(a => a.name.startsWith('on'))).map(e => e.outerHTML)"""
    )
    found = page.title() == title and page.url == where, left, asked
    page.close()
    return found


@pytest.mark.browser
@pytest.mark.long
def test_formgrader_runs_nothing_that_a_student_wrote(chromium, formgrader, attacked):
    with attacked.api().gradebook as book:
        (submission,) = book.assignment_submissions(roster.PS3)
        (notebook,) = submission.notebooks
        number = notebook.id
    chromium.new_page().goto(f"{formgrader}formgrader?token=t")
    unmoved, left, asked = visit(chromium, f"{formgrader}formgrader/submissions/{number}/?token=t")
    assert (unmoved, left) == (True, [])
    assert "evil.test" not in asked
    assert not (attacked.root / "pwned.txt").exists()


@pytest.mark.browser
@pytest.mark.long
def test_feedback_runs_nothing_that_a_student_wrote(chromium, attacked):
    assert attacked.api().generate_feedback(roster.PS3, "mallory")["success"]
    (page,) = (attacked.root / "feedback").glob("mallory/*/*.html")
    unmoved, left, asked = visit(chromium, page.as_uri())
    assert (unmoved, left) == (True, [])
    assert "evil.test" not in asked


@pytest.mark.browser
@pytest.mark.long
def test_the_report_of_a_class_runs_nothing_that_a_student_wrote(chromium, tmp_path):
    document = handin.collect("mallory")
    document["machine"]["memory"] = ATTACKS["image"]
    run = {"accelerator": ATTACKS["svg"], "origin": SVG, "busy": 0.5, "images_per_s": 1, "steps": 1}
    document["runs"] = [{**run, "name": text[:200]} for text in ATTACKS.values() if "\n" not in text]
    speed = {"over": "x", "verdict": "faster", "median": 2, "low": None, "high": None}
    document["speedups"] = [{**speed, "name": text[:200]} for text in ATTACKS.values() if "\n" not in text]
    document["digest"] = handin.digest(document)
    (tmp_path / "x.json").write_text(json.dumps(document))
    (tmp_path / "'><img src=x onerror=document.title=1>.json").write_text("{}")
    made = handin.gather(tmp_path)
    assert (len(made.results), len(made.left_out)) == (1, 1)
    page = chromium.new_page()
    page.goto(made.save(tmp_path / "report.html").as_uri())
    assert page.title() == "Results of a class"
    assert page.locator("img[src=x], body script, body style, svg, iframe, form, object").count() == 0
    assert "<svg onload=" in page.inner_text("body")
