"""Each tutorial is a notebook, too, which runs as it is; and a training in a notebook."""

from __future__ import annotations

import runpy
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

DOCS = Path(__file__).parents[1]
NOTEBOOKS = runpy.run_path(str(DOCS / "site" / "notebooks.py"))
notebook, write = NOTEBOOKS["notebook"], NOTEBOOKS["write"]
TUTORIALS = sorted((DOCS / "tutorials").glob("*.md"))


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_a_tutorial_is_a_valid_notebook_with_all_its_blocks(page):
    text = page.read_text(encoding="utf-8")
    made = notebook(text)
    nbformat.validate(made)
    runs = [line for line in text.splitlines() if line.startswith(("```python", "```bash"))]
    runs = [line for line in runs if "not-run" not in line]
    code = [cell for cell in made.cells if cell.cell_type == "code"]
    assert len(code) == len(runs) > 0
    assert sum(len(cell.outputs) for cell in code) == text.count("\n```text output")
    assert made == notebook(text)


def test_text_code_and_output():
    page = "# A\n\nSee [b](b.md) and [c](https://c.org).\n\n```python\nx = 1\nprint(x)\n```\n\n"
    page += "```text output within=0.1\n1\n```\n"
    page += "```bash\nls\n```\n\n```python file=a.py\nx\n```\n\n```python not-run: two hosts\nrun()\n```\n"
    text, code, bash, file, shown = notebook(page).cells
    assert text.source == "# A\n\nSee b and [c](https://c.org)."
    assert (code.source, code.outputs[0].text) == ("x = 1\nprint(x)", "1\n")
    assert (bash.source, file.source) == ("%%bash\nls", "%%writefile a.py\nx")
    assert shown.cell_type == "markdown" and shown.source == "```python\nrun()\n```"


@pytest.mark.slow
@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_a_notebook_runs(tmp_path, page):
    (tmp_path / page.name).write_text(page.read_text(encoding="utf-8"), encoding="utf-8")
    write(tmp_path)
    made = nbformat.read(tmp_path / f"{page.stem}.ipynb", 4)
    shown = [cell.outputs[0].text for cell in made.cells if cell.get("outputs")]
    NotebookClient(made, timeout=250, resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = [cell.outputs for cell in made.cells if cell.get("outputs")]
    if page.stem == "02-data-alone":  # without lines of trainings, whose numbers depend on the machine
        assert ["".join(out.text for out in printed) for printed in outputs] == shown
    assert len(outputs) >= len(shown)


@pytest.mark.slow
@pytest.mark.parametrize("widgets", [True, False])
def test_a_training_in_a_notebook(tmp_path, widgets):
    readme = (DOCS.parent / "README.md").read_text(encoding="utf-8")
    quick_start = readme.split("```python\n", 1)[1].split("```", 1)[0]
    hidden = "" if widgets else "import sys; sys.modules['ipywidgets'] = None\n"
    assert "SimpleTrainer(config).train()" in quick_start
    cells = [
        hidden + quick_start.replace("SimpleTrainer(config).train()", "trainer = SimpleTrainer(config)"),
        "trainer.explain()",
        "trainer.train()",
        "trainer",
    ]
    made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    NotebookClient(made, timeout=200, resources={"metadata": {"path": str(tmp_path)}}).execute()
    _, explained, trained, last = (cell.outputs for cell in made.cells)
    assert explained[0].data["text/html"].startswith("<pre>SimpleTrainer on one device")
    assert last[0].data["text/plain"] == "<SimpleTrainer: epoch 5 of 5, step 225, in train_log/quick_start>"
    streams = [output for output in trained if output.output_type == "stream"]
    printed, red = ("".join(s.text for s in streams if s.name == name) for name in ("stdout", "stderr"))
    # TensorFlow prints a line of information when it optimizes the first graph.
    assert [line for line in red.splitlines() if not line.startswith("I0000")] == []
    assert printed.startswith("files of this run: train_log/quick_start\n")
    shown = [output.data for output in trained if output.output_type == "display_data"]
    [table] = [data["text/html"] for data in shown if "text/html" in data and "<table>" in data["text/html"]]
    assert [f"<td>{epoch}/5, step {45 * epoch}</td>" in table for epoch in range(1, 6)] == [True] * 5
    bars = [data for data in shown if "application/vnd.jupyter.widget-view+json" in data]
    assert len(bars) == widgets
    assert ("100%" in printed) is not widgets
