"""The README and the docs say what the records say, and their code runs."""

import ast
import importlib
import json
import os
import re
import runpy
import shlex
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def test_tables_are_generated_from_the_records():
    done = subprocess.run([sys.executable, ROOT / "docs" / "generate.py", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_in_the_docs_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for code in re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL):
        exec(compile(code, page.name, "exec"), {})


def test_commands_on_every_kind_of_data_run(tmp_path, monkeypatch):
    """docs/data.md makes its examples; then each of its commands ends well, in the order of the page."""
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "data.md").read_text()
    for code in re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL):
        exec(compile(code, "data.md", "exec"), {})
    commands = [line for block in re.findall(r"```sh\n(.*?)```", page, flags=re.DOTALL) for line in block.splitlines()]
    assert len(commands) >= 9
    for command in commands:
        words = shlex.split(command)
        assert words[0] == "tcsl"
        done = subprocess.run([sys.executable, "-m", "tcsl", *words[1:]], capture_output=True, text=True)
        assert done.returncode == 0, f"{command}\n{done.stderr}"
    assert len((tmp_path / "kept.txt").read_text().splitlines()) == 10
    assert len(list((tmp_path / "kept").glob("*/*.png"))) == 10


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
        assert (page.parent / target).exists(), target


def test_commands_in_the_readme_exist():
    from typer.main import get_command

    from tcsl.cli import app

    known = get_command(app).commands
    words = re.findall(r"^tcsl (\w+)", (ROOT / "README.md").read_text(), flags=re.MULTILINE)
    assert len(words) >= 7
    assert set(words) <= set(known)


PARSE = """
import argparse, runpy, shlex, sys
class Parsed(Exception): pass
parse = argparse.ArgumentParser.parse_args
def stop(self, *args, **kwargs):
    parse(self, *args, **kwargs)
    raise Parsed
argparse.ArgumentParser.parse_args = stop
for command in sys.stdin.read().splitlines():
    _, *sys.argv = shlex.split(command)
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
    except Parsed:
        continue
    except SystemExit:
        print(command, file=sys.stderr)
        raise
"""


def test_commands_of_benchmarks_can_be_given():
    """Each command that the docs name is read by its script, which is stopped before it begins."""
    text = "\n".join(page.read_text().replace("\\\n", " ") for page in PAGES)
    for name, value in re.findall(r'^(\w+)="(.*)"$', text, flags=re.MULTILINE):
        text = text.replace(f"${name}", value)
    commands = [c for c in re.findall(r'python benchmarks/\w+\.py[^`"\n]*', text) if "..." not in c]
    assert len(commands) >= 20
    done = subprocess.run(
        [sys.executable, "-c", PARSE],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT / "benchmarks")},
        input="\n".join(commands),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def test_every_method_of_the_reproduction_has_a_title(monkeypatch):
    for folder in ("benchmarks", "docs"):
        monkeypatch.syspath_prepend(str(ROOT / folder))
    made, titles = importlib.import_module("cells"), importlib.import_module("reproduced").METHODS
    assert {*made.METHODS} - {"core"} | {f"core-{name}" for name, _ in made.VARIANTS.values()} == {*titles}


@pytest.mark.parametrize("folder", ["benchmarks", "docs"])
def test_scripts_import_what_there_is(folder, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / folder))
    missing, scripts = [], list((ROOT / folder).glob("*.py"))
    ours = {"tcsl", *(script.stem for script in scripts)} - {"peers_theirs"}  # which needs what it is compared with
    for script in scripts:
        for node in ast.walk(ast.parse(script.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module.partition(".")[0] in ours:
                module = importlib.import_module(node.module)
                missing += [f"{script.name}: {name.name}" for name in node.names if not hasattr(module, name.name)]
    assert missing == []


def test_no_file_is_large():
    names = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n")
    large = [name for name in names if name and (ROOT / name).is_file() and (ROOT / name).stat().st_size > 1_000_000]
    assert large == []


def test_the_verdicts_figure_is_drawn_from_its_record(tmp_path):
    rows = [{"data": "0.1", "runs": 100, "found": 3}, {"data": "0.9", "runs": 100, "found": 98}]
    rows.append({"data": "overlap-2", "runs": 20, "found": 0})
    (tmp_path / "verdict.json").write_text(json.dumps({"rows": rows}))
    script = runpy.run_path(str(ROOT / "docs" / "verdict_figure.py"))
    for name in ("one.svg", "two.svg", "three.png"):
        script["main"](tmp_path / name, tmp_path / "verdict.json")
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()
    assert (tmp_path / "three.png").read_bytes()[:4] == b"\x89PNG"


def test_the_reproductions_figure_is_drawn_from_its_records(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    script = importlib.import_module("reproduction_figure")
    for name in ("one.svg", "two.svg", "three.png"):
        script.main(tmp_path / name)
    drawn = (tmp_path / "one.svg").read_bytes()
    assert drawn == (tmp_path / "two.svg").read_bytes()
    first = script.reproduction_figure().axes[0]
    records = (ROOT / "docs" / "results" / "reproduction").glob("waterbirds-T300-none-tcsl_cs-r0.1-s*.json")
    mean = 100 * statistics.mean(json.loads(path.read_text())["wga"] for path in records)
    row = next(label.get_position()[1] for label in first.get_yticklabels() if "default" in label.get_text())
    marks = [line for line in first.lines if line.get_marker() == "|" and line.get_ydata()[0] == row]
    assert marks[0].get_xdata()[0] == pytest.approx(mean)
    assert (tmp_path / "three.png").read_bytes()[:4] == b"\x89PNG"


def test_who_does_not_beat_plain_training_on_the_digits_is_explained():
    """The margin that docs/methods.md states holds in the record for all methods but those that it explains."""
    record = json.loads((ROOT / "docs" / "results" / "digits-methods.json").read_text())
    text = (ROOT / "docs" / "methods.md").read_text()
    section = text[text.index("### Who does not beat CB ERM") : text.index("## The scores of the coreset baselines")]
    margin = int(re.search(r"All others are ahead of it by (\d+) points or more", section)[1])
    wga = {name: 100 * values["wga"]["mean"] for name, values in record["methods"].items()}
    behind = {name for name in wga if wga[name] < wga["cb_erm"] + margin} - {"cb_erm"}
    named = " ".join(re.findall(r"- \*\*(.+?)\*\*", section.replace("\n", " ")))
    assert [name for name in behind if record["titles"][name].split(" (")[0] not in named] == []
    assert "TCSL-CS" not in named.replace("TCSL-CS, GCE", "")
    assert "tcsl_cs" not in behind
