"""The widget in Python: what a notebook shows and stores of it, with and without a kernel."""

from __future__ import annotations

import base64
import gzip
import io
import re
import subprocess
import sys
from functools import partial
from pathlib import Path

import ipywidgets
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from PIL import Image
from traces import job as job_in_turns

import labkit
from labkit.timeline.timeline import Timeline
from labkit.views import widget
from labkit.views.layout import TimelineLayout

job = partial(job_in_turns, steps=4, wait=3)
VIEW = "application/vnd.jupyter.widget-view+json"


def test_show_takes_one_or_two_timelines_or_traces():
    one = labkit.show(job())
    two = labkit.show(Timeline(job()), job(wait=1), labels=("slow", "quick"), title="A pair")
    assert one.block == TimelineLayout([job()]).encode()
    assert two.block == TimelineLayout([Timeline(job()), job(wait=1)], ("slow", "quick"), "A pair").encode()
    assert "slow" in two.alt
    assert isinstance(one, widget.TimelineWidget)


def test_the_first_steps_of_both_runs_are_in_view_at_first():
    """The axis is common, and as long as the steps of the slower one take."""
    slow, quick = Timeline(job()), Timeline(job(wait=1))
    for pair in ((slow, quick), (quick, slow)):
        assert labkit.show(*pair, steps=2).look["last"] == slow.step_edges_ns[2] > quick.step_edges_ns[2]
    assert labkit.show(slow, quick).look["last"] is None


def test_its_text_is_that_of_the_timelines_and_holds_no_address():
    trace = job()
    assert repr(labkit.show(trace)) == str(labkit.show(trace)) == str(Timeline(trace))
    assert repr(labkit.show(trace, trace)) == f"before:\n{Timeline(trace)}\nafter:\n{Timeline(trace)}"


def test_a_notebook_stores_a_page_of_its_own_a_picture_and_words_but_no_view_of_a_lost_model():
    made = labkit.show(job())
    data, metadata = made._repr_mimebundle_()
    assert set(data) == {"text/html", "image/png", "text/plain", widget.KEPT}
    assert metadata["image/png"]["alt"]
    png = base64.b64decode(data["image/png"])
    assert Image.open(io.BytesIO(png)).size == (metadata["image/png"]["width"], metadata["image/png"]["height"])
    block = re.search(r'mount\(el, "([A-Za-z0-9+/=]+)"', data["text/html"])[1]
    assert gzip.decompress(base64.b64decode(block)) == made.block
    assert f'alt="{made.picture.alt}"' in data["text/html"]
    assert made.picture.html(both=False) in data["text/html"], "the picture is what remains where scripts do not run"
    assert not re.search(r"https?://(?!www\.w3\.org)", data["text/html"]), "nothing is fetched"


def test_no_picture_is_drawn_that_no_page_holds(monkeypatch):
    """A PNG and the light one are one drawing: the timeline of a dark page is drawn there."""
    drawn = []
    monkeypatch.setattr(FigureCanvasAgg, "draw", lambda self, draw=FigureCanvasAgg.draw: drawn.append(draw(self)))
    labkit.show(job())._repr_mimebundle_()
    assert len(drawn) == 1


def test_a_model_goes_to_the_page_only_where_something_asks_for_it():
    """JupyterLab stores every model with the notebook: a hundred kilobytes that no view uses."""
    alone, boxed = labkit.show(job()), labkit.show(job())
    alone._repr_mimebundle_()
    alone.update(job(steps=6))
    assert alone.comm is None
    box = ipywidgets.VBox([boxed])
    (child,) = box.get_state()["children"]
    assert boxed.comm is not None
    assert child.endswith(boxed.model_id)


def test_equal_runs_are_stored_as_equal_pages():
    assert labkit.show(job())._repr_mimebundle_() == labkit.show(job())._repr_mimebundle_()


def test_words_of_a_trace_are_never_markup():
    data, _ = labkit.show(job(name='</script><img src=x onerror="alert(1)">'))._repr_mimebundle_()
    page = data["text/html"]
    assert page.count("</script>") == 1
    assert page.endswith("</script>")
    assert 'onerror="' not in page.replace("&quot;", "")


def test_what_is_too_large_to_be_stored_is_a_view_with_a_picture(monkeypatch):
    monkeypatch.setattr(widget, "STORED", 100)
    made = labkit.show(job())
    data, _ = made._repr_mimebundle_()
    assert set(data) == {VIEW, "text/html", "image/png", "text/plain"}
    assert data["text/html"] == made.picture.html(both=False)
    assert data[VIEW]["model_id"] == made.model_id


def test_update_swaps_layout_picture_and_words():
    made = labkit.show(job())
    before, picture = made.block, made.picture
    made.update(job(steps=6))
    assert made.block != before
    assert made.picture is not picture
    assert str(made) == str(Timeline(job(steps=6)))


SESSION = """
from IPython.testing.globalipapp import start_ipython
from IPython.display import display
shell = start_ipython()
shell.display_formatter.ipython_display_formatter.enabled = True  # as in the kernel of a notebook
out = []
class Pub(type(shell.display_pub)):
    def publish(self, data, *_, **more):
        out.append(set(data))
shell.display_pub = Pub()
import sys; sys.path[:0] = {places!r}
import labkit
from test_widget import job, VIEW
made = labkit.show(job())
shell.displayhook(made)
display(made)
assert out == [{{"text/html", "image/png", "text/plain", "application/vnd.labkit.timeline"}}] * 2, out
"""


def test_both_hooks_publish_the_same():
    here = Path(__file__).parent
    script = SESSION.format(places=[str(here), str(here.parents[1] / "support")])
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_bad_arguments_are_refused_in_a_sentence():
    with pytest.raises(TypeError, match="a Trace or a Timeline can be shown, got int"):
        labkit.show(3)
    with pytest.raises(TypeError, match="got list"):
        labkit.show(job()).update([])
    with pytest.raises(ValueError, match="allowed: one text for each of the 2 timelines"):
        labkit.show(job(), job(), labels="ab")
