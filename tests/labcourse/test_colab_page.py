"""An explorer in Colab is a page of its own: its sliders ask the kernel by name, and no widget is left to be stored."""

from __future__ import annotations

import json
import re
import sys
from html import unescape
from pathlib import Path

import pytest

from labcourse import explorers
from labkit.common.progress import bar

ROOT = Path(__file__).resolve().parents[2]


def spec(page):
    """Return the sliders and buttons of a page, as its script gets them."""
    return json.loads(re.search(r"inColab\(document.getElementById\(.*?\), (\{.*\})\);\n</script>", page, re.S)[1])


@pytest.mark.sample(1)
@pytest.mark.parametrize("made", [lambda: explorers.explore("02"), explorers.scale], ids=["pipeline", "plan"])
def test_an_explorer_leaves_a_page_a_picture_and_its_text_and_no_model(colab, made):
    explorer = made()
    data, metadata = explorer._repr_mimebundle_()
    assert set(data) == {"text/html", "image/png", "text/plain"}
    assert len(metadata["image/png"]["alt"]) > 20
    assert data["text/plain"] == str(explorer)
    assert "panel" not in vars(explorer), "a widget was made: Colab would store its model"
    found = spec(data["text/html"])
    assert all(len(texts) >= 2 for texts in found["sliders"]), "a text for each place of a slider"
    places = re.findall(r'max="(\d+)" step="1" value="(\d+)"', data["text/html"])
    chosen = data["text/html"].count(" selected>")
    assert len(places) + chosen == len(found["sliders"])
    assert all(0 <= int(at) <= int(last) for last, at in places)
    assert all(len(button) == len(found["sliders"]) for button in found["rows"])


def test_sliders_that_do_not_fit_together_give_a_sentence():
    explorer = explorers.scale()
    most = {c.name: max(c.values) for c in explorer.controls if c.name == "hosts"}
    reply = explorer.reply(explorer.start | {"accelerators": 1} | most).shown()
    assert reply["words"].startswith("No plan: ")
    assert reply["pictures"] == ""


def test_a_progress_bar_is_text_in_colab_and_nothing_red(colab, capsys):
    with bar(3, "three") as step:
        step()
    printed = capsys.readouterr()
    assert "three" in printed.out
    assert printed.err == "", "Colab shows in red what is written to stderr"
    del sys.modules["google.colab"]
    with bar(3, "three") as step:
        step()
    assert capsys.readouterr().out == ""


@pytest.mark.long
@pytest.mark.browser
def test_the_sliders_of_a_page_take_the_keyboard_and_show_the_kernels_answer(colab, chromium):
    """A real browser in front, the explorer behind; only Colab's way between them stands in."""
    explorer = explorers.explore("02")
    html = explorer._repr_mimebundle_()[0]["text/html"]
    page = chromium.new_page(viewport={"width": 1000, "height": 900})
    errors, asked = [], []
    page.on("pageerror", lambda error: errors.append(error))

    def call(name, arguments):
        asked.append(arguments)
        return {"data": {"application/json": colab._callbacks._registered[name](*arguments).data}}

    page.expose_function("ask", call)
    bridge = "<script>window.google={colab:{kernel:{invokeFunction:(name,given)=>ask(name,given)}}}</script>"
    page.set_content(f"<!doctype html><title>t</title>{bridge}{html}")
    status = page.get_by_role("status")
    first = status.text_content()
    assert first == explorer.first.headline
    for control in explorer.sheet.controls:
        role = "combobox" if control.in_words else "slider"
        assert page.get_by_role(role, name=control.label, exact=True).count() == 1, control.label
    slider = page.get_by_role("slider").first
    slider.focus()
    page.keyboard.press("End")
    last = next(c for c in explorer.controls if not c.in_words)
    expected = last.text(last.values[-1])
    assert slider.get_attribute("aria-valuetext") == expected
    page.wait_for_function("(was) => document.querySelector('[role=status]').textContent !== was", arg=first)
    assert f"Changed: {last.label}: {expected}." in status.text_content()
    picture = page.locator("[data-part=pictures] img:visible")
    assert picture.count() == 1
    assert unescape(picture.get_attribute("alt"))
    label = list(explorer.sheet.positions)[-1]
    page.locator("button:has(svg)", has_text=label).click()
    page.wait_for_function(
        "(start) => document.querySelector('[role=status]').textContent.startsWith(start)",
        arg=explorer.answer(label).headline,
    )
    page.evaluate("window.google = undefined")
    slider.focus()
    page.keyboard.press("Home")
    page.wait_for_function("document.querySelector('[role=status]').textContent.startsWith('No kernel answers')")
    assert picture.count() == 1, "the last picture stays"
    assert len(asked) >= 2
    assert not errors
    (ROOT / "build" / "screenshots").mkdir(parents=True, exist_ok=True)
    page.screenshot(path=ROOT / "build" / "screenshots" / "explorer-in-colab.png", full_page=True)
    page.close()
