"""docs/github.md cannot lie about what can be checked: its generated tables, the App's permissions, the names of secrets.

As a program, `python -m tests.test_docs_github`, it writes the generated parts.
"""

from __future__ import annotations

import re
import subprocess
import sys
from urllib.parse import parse_qs, urlsplit

import yaml

from bot.answer import parse_default
from bot.command import help_text
from bot.widths import widths
from tests.test_workflows import BIN, FOLDER, PERMISSIONS, ROOT, SECRETS, repository, steps

PAGE = ROOT / "docs" / "github.md"
FORM = ROOT / ".github" / "ISSUE_TEMPLATE" / "research.yml"


def tables() -> dict[str, str]:
    """What stands between the marks of that name."""
    seconds = parse_default().settings.budget.seconds
    found = [width for primary in (1000, 5000) for width in widths(primary, seconds)]
    rows = [f"| {width.limit} | {width.runs:.0f} | {width.gpus:.1f} |" for width in found]
    limits = "\n".join(["| limit | runs an hour | GPUs |", "|---|---|---|", *dict.fromkeys(rows)])
    return {"commands": help_text(parse_default().settings.stop.experiments, False), "widths": limits + "\n"}


def filled(text: str) -> str:
    for name, table in tables().items():
        begin, end = f"<!-- begin: {name} -->\n", f"<!-- end: {name} -->"
        text = text[: text.index(begin) + len(begin)] + table + text[text.index(end) :]
    return text


def test_the_tables_are_those_of_the_code() -> None:
    """Commands and limits are as the program has them."""
    text = PAGE.read_text("utf-8")
    assert filled(text) == text, "run python -m tests.test_docs_github"


def test_the_app_gets_what_the_workflows_ask_for() -> None:
    """The link that registers the App asks for the permissions that the jobs take of its token, all of them and no more."""
    link = re.search(r"^\[app\]: (\S+)$", PAGE.read_text("utf-8"), re.MULTILINE)
    asked = {name: level for name, (level,) in parse_qs(urlsplit(link[1]).query).items()} if link else {}
    wanted = {
        f"{name.replace('-', '_')}": level for job in PERMISSIONS.values() for name, level in job.items() if level == "write"
    }
    assert {name: level for name, level in asked.items() if level == "write"} == wanted
    assert asked["metadata"] == "read" and asked["webhook_active"] == "false"
    for name, step in steps(repository()):
        if "create-github-app-token" in step.get("uses", ""):
            job = PERMISSIONS[name.split(":")[0]]
            assert {f"permission-{key}": level for key, level in job.items()}.items() <= step["with"].items(), name


def test_every_secret_and_variable_is_explained() -> None:
    """Each name that a workflow reads stands on the page."""
    text, read = PAGE.read_text("utf-8"), "".join(path.read_text("utf-8") for path in FOLDER.glob("*.yml"))
    names = set(re.findall(r"(?:vars|secrets)\.(\w+)", read))
    assert names >= {name for held in SECRETS.values() for name in held}
    assert not [name for name in names if f"`{name}`" not in text]


def test_the_form_is_one() -> None:
    """GitHub takes the issue form: its schema says so, and its fields have ids of their own."""
    argv = [str(BIN / "check-jsonschema"), "--builtin-schema", "vendor.github-issue-forms", str(FORM)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    ids = [part["id"] for part in yaml.safe_load(FORM.read_text("utf-8"))["body"] if "id" in part]
    assert ids == list(dict.fromkeys(ids)) != []


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text("utf-8")), "utf-8")
    sys.exit(0)
