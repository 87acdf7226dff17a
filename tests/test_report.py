"""What people read: true to the log, within GitHub's limits, and with no text of others coming alive in it.

Campaigns are made by folding events. Markdown is read back with markdown-it and HTML with html.parser: neither is ours.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from bot import events as e
from bot.decide import verdict_of
from bot.fold import fold
from bot.report import chart, compare, markdown, page, standing, status, tally, tsv
from bot.report.quoting import RUN, cell, fence, quiet, span, visible
from bot.state import VERDICTS, WITHDRAWN, Campaign
from evaluator.gate import Call

PROGRAM = "---\ncorpus: austen\nbudget: {seconds: 10}\ngate: {baseline_runs: 2, prior_sd: 0.005, prior_df: 8}\n---\nBe brief."
DIFF = """diff --git a/trainer/train.py b/trainer/train.py
index 1111111..2222222 100644
--- a/trainer/train.py
+++ b/trainer/train.py
@@ -3,4 +3,4 @@
 DEPTH = 2
-RATE = 0.01
--- a line that began with two dashes
+RATE = 0.02  # ```` not a fence
+NOTE = "<!-- autoresearch -->"
"""
HOSTILE = (
    "``` @octocat <img src=x onerror=alert(1)> </pre><script>alert(2)</script> <!-- autoresearch:1 --> fixes #12, GH-13 "
    "| https://evil.example/x [skip ci] \u202e\x1b[31m\x00 ```` \n~~~\n# Approved\n\nCo-authored-by: Eve <eve@evil.example>\n"
)
SECRET, NONCE = 918273645, "s3cr3t-n0nce"
HEADS = {n: f"{n:x}" * 40 for n in range(16)}


class Story:
    """A campaign as it is written down, one event a second."""

    def __init__(self, *, title: str = "Faster", body: str = "Try rates.", experiments: int = 9) -> None:
        self.events: list[e.Event] = []
        self.k = self.next = 0
        self.add(
            e.CampaignStarted, experiments=experiments, issue=7, title=title, body=body, by="ada", program=PROGRAM, settings={},
            seed=SECRET, branch="main",
        )  # fmt: skip

    def add(self, kind: type[e.Event], **values: object) -> None:
        self.events.append(kind(campaign="7.1", at=1_700_000_000.0 + len(self.events), **values))

    def campaign(self) -> Campaign:
        return fold(self.events).campaigns["7.1"]

    def base(self, *scores: float) -> int:
        n, self.next = self.next, self.next + 1
        self.add(e.BaseSeen, n=n, sha=HEADS[n], guard=f"g{n}", source=f"s{n}")
        for score in scores:
            self.run(n, n, score)
        if scores:
            self.add(e.Adopted, n=n)
        return n

    def propose(
        self, parent: int, *, title: str = "double the rate", hypothesis: str = "It is too low.", opened: bool = True
    ) -> int:
        n, self.next = self.next, self.next + 1
        edits = (e.Edit(old="RATE = 0.01", new="RATE = 0.02"),)
        self.add(
            e.Proposed, n=n, parent=parent, title=title, hypothesis=hypothesis, edits=edits, tags=(), proposer="mutate",
            source=f"s{n}",
        )  # fmt: skip
        if opened:
            self.add(e.Opened, n=n, base=HEADS[parent], head=HEADS[n], guard=f"g{n}", pull=n + 100)
        return n

    def start(self, n: int, subject: int) -> str:
        run, self.k = f"7.1-{self.k}.1", self.k + 1
        self.add(
            e.MeasureStarted, n=n, subject=subject, k=self.k, attempt=1, run=run, seed=self.k, nonce=NONCE, head=HEADS[subject],
            deadline=2e9,
        )  # fmt: skip
        return run

    def run(self, n: int, subject: int, score: float | None, outcome: str = "ok", fault: str = "", **record: object) -> None:
        result = {
            "device": "cpu", "fingerprint": "f", "sandboxed": True, "seed": self.k, "nonce": NONCE, "total_seconds": 14.2,
            "training_seconds": 10.0, "peak_memory_mb": 512.0, "log_tail": "step 1\nstep 2",
        }  # fmt: skip
        run = self.start(n, subject)
        self.add(e.Measured, n=n, run=run, outcome=outcome, val_bpb=score, reason=fault, result=result | record)

    def kept(self, parent: int, score: float = 2.13, **idea: str) -> int:
        """Screened, two pairs, merged."""
        n = self.propose(parent, **idea)
        for subject, more in ((n, 0), (n, 0.002), (parent, 0.1), (parent, 0.102), (n, -0.002)):
            self.run(n, subject, score + more)
        self.settle(n)
        return n

    def settle(self, n: int, why: str = "merged", reason: str = "") -> None:
        x = self.campaign().candidates[n]
        verdict = verdict_of(self.campaign(), x)
        reason = reason or (verdict.reason if verdict else x.fault)
        if why == "merged":
            self.add(e.Merged, n=n, sha=HEADS[n][::-1], reason=reason)
        else:
            self.add(e.Closed, n=n, why=why, reason=reason)

    def failed(self, parent: int, outcome: str = "crash", fault: str = "exit 1", title: str = "deeper", **record: object) -> int:
        n = self.propose(parent, title=title)
        self.run(n, n, None, outcome, fault, **record)
        self.settle(n, outcome)
        return n

    def worse(self, parent: int, score: float = 2.31) -> int:
        n = self.propose(parent, title="halve the rate")
        self.run(n, n, score)
        self.settle(n, "worse")
        return n


def whole() -> Story:
    """Every way to end, once."""
    story = Story(experiments=12)
    base = story.base(2.23, 2.234)
    for outcome in ("crash", "oom", "nan", "timeout", "invalid"):
        story.failed(base, outcome)
    story.worse(base)
    tip = story.kept(base)
    for why in WITHDRAWN:
        story.settle(story.propose(tip), why, f"{why} by a person")
    story.add(e.ProposalRefused, title="again", reason="a repeat")
    return story


def texts(c: Campaign, diff: str = DIFF) -> Iterator[str]:
    """Everything that is shown of a campaign."""
    yield from (status.render(c), tsv.results(c), page.render(c, dict.fromkeys(c.candidates, diff)))
    for x in c.candidates.values():
        if x.base or not x.head:
            continue
        verdict = verdict_of(c, x)
        yield from (markdown.pull_title(x), markdown.pull_body(c, x, diff), markdown.pull_body(c, x, diff, x.reason or "why"))
        yield from (markdown.commit_message(c, x), markdown.closing(c, x, x.why, x.reason), *markdown.labels(x, x.reason))
        posted = [markdown.withdrawn_check(c, x, "stopped", x.reason)]
        if x.outcome != "ok" or (verdict and verdict.call is not Call.AGAIN):
            posted.append(markdown.check(c, x, verdict))
        if verdict:
            yield markdown.merge_message(c, x, verdict)
        for check in posted:
            yield from (check.title, check.summary, check.text)


def prose(text: str) -> str:
    """What a reader of Markdown sees outside code, with HTML where GitHub would let it through."""

    def walk(tokens: list[Token]) -> Iterator[str]:
        for token in tokens:
            if token.type not in ("fence", "code_inline", "code_block"):
                yield "" if token.children else token.content
                yield from walk(token.children or [])

    return "\n".join(walk(MarkdownIt("gfm-like", {"html": True, "linkify": False}).parse(text)))


@pytest.mark.parametrize("quote", [span, cell, lambda text: fence(text, 10_000)], ids=["span", "cell", "fence"])
@given(text=st.text(alphabet="`~|<>@#a \\\n\t\r\u202e\u2028\x00-!", max_size=60))
@example(text=HOSTILE)
@example(text="a\n```\n# b\n```\n")
@example(text="`" * 200)
def test_a_quotation_cannot_be_left(quote, text: str) -> None:  # type: ignore[no-untyped-def]
    """Whatever a text contains, Markdown finds one piece of code in its quotation, and nothing beside it."""
    shown = quote(text)
    table = f"| a | b |\n|---|---|\n| {shown} | end |\n" if quote is cell else shown
    assert prose(table).split() == (["a", "b", "end"] if quote is cell else [])
    assert "<!--" not in shown


def test_a_quotation_keeps_what_is_harmless() -> None:
    """Ordinary text, also in other scripts, is shown as it is; what cannot be seen is shown as an escape."""
    assert span("lr 0.02 → 0.04, größer") == "`lr 0.02 → 0.04, größer`"
    assert span("a `b` c") == "`` a `b` c ``"
    assert span(" \n ") == ""
    assert visible("a\u202eb\x1b[31mred\x1b[0m\x07\ud800") == "a\\u202ebred\\u0007\\ud800"
    assert fence("x" * 50, 10, where="git diff").endswith("Cut after 10 of 50 characters; all of it: `git diff`.")


@pytest.mark.parametrize(
    "trigger", ["@octocat", "fixes #12", "GH-13", "o/r#14", "https://evil.example", "www.evil.example", "[skip ci]", "[CI skip]"]
)
def test_titles_and_commit_messages_pull_no_trigger(trigger: str) -> None:
    """Where no code span exists, what GitHub would act on is broken, and still reads the same."""
    said = quiet(f"do {trigger} now", 100)
    assert trigger not in said
    assert said.replace("\u200b", "") == f"do {trigger} now"


def test_hostile_text_stays_asleep_everywhere() -> None:
    """Titles, hypotheses, faults, logs, diffs, names and requests full of traps: none comes alive in any text."""
    story = Story(title=HOSTILE, body=HOSTILE)
    base = story.base(2.23, 2.234)
    story.failed(base, fault=HOSTILE, title=HOSTILE, log_tail=HOSTILE, device=HOSTILE)
    story.kept(base, title=HOSTILE, hypothesis=HOSTILE)
    story.settle(story.propose(base, title=HOSTILE, hypothesis=HOSTILE), "vetoed", HOSTILE)
    story.add(e.Paused, reason=HOSTILE)
    c = story.campaign()
    for text in texts(c, DIFF + HOSTILE):
        assert "<!--" not in text
        assert not re.search("[\u202e\x00\x1b]", text)
        if not text.startswith("<!doctype") and text != tsv.results(c):
            seen = prose(text).replace("\u200b", "\x00")
            assert not re.search(r"@\w|#12|GH-13|https://\w|<img|<script|\[skip", seen), seen
    message = markdown.commit_message(c, c.candidates[2])
    assert re.findall(r"^(?!Campaign|Candidate)[\w-]+: .*", message, re.MULTILINE) == []


def test_github_takes_every_text() -> None:
    """However long the title, the hypothesis, the diff, the fault and the log are, no text is over GitHub's limits."""
    long = "x`" * 100_000
    story = Story()
    base = story.base(2.23, 2.234)
    story.failed(base, fault=long, title=long, log_tail=long, device=long)
    n = story.kept(base, title=long, hypothesis=long)
    c = story.campaign()
    diff = DIFF + "+" + "`" * 100_000 + "\n" + "+y\n" * 100_000
    for x in (c.candidates[1], c.candidates[n]):
        check = markdown.check(c, x, verdict_of(c, x))
        assert max(len(markdown.pull_title(x)), len(check.title)) <= 256
        assert max(len(check.summary), len(check.text)) <= 65_535
        bodies = (markdown.pull_body(c, x, diff, long), markdown.closing(c, x, x.why, long), status.render(c))
        assert max(map(len, bodies)) <= 65_536
    assert f"git diff {HEADS[0][:12]} {HEADS[n][:12]}" in markdown.pull_body(c, c.candidates[n], diff)


@given(st.text(alphabet="`x\n", max_size=300), st.integers(1, 200))
def test_a_fence_costs_little_more_than_its_limit(text: str, limit: int) -> None:
    """The marks and the note around a cut text are bounded, whatever is in it."""
    assert len(fence(text, limit)) <= limit + 2 * RUN + 100


def test_counts_add_up() -> None:
    """Kept and closed by reason add up to the experiments done, in the status too; withdrawn and refused stand beside."""
    c = whole().campaign()
    assert tally(c) == dict.fromkeys(("merged", *VERDICTS), 1)
    assert sum(tally(c).values()) == c.settled == 7
    said = status.render(c)
    added = next(line for line in said.splitlines() if line.startswith("7 done = "))
    assert sum(map(int, re.findall(r"(\d+) [a-z]", added.split("=")[1].split(".")[0]))) == 7
    assert "3 withdrawn without a verdict, 1 refused" in added
    assert "**Campaign 7.1: 7 of 12 experiments done.**" in said
    assert "5 experiments to go" in said


@pytest.mark.parametrize(
    ("outcome", "conclusion"),
    [("crash", "failure"), ("oom", "failure"), ("nan", "failure"), ("invalid", "failure"), ("timeout", "timed_out")],
)
def test_a_failed_run_has_a_red_check_without_a_number(outcome: str, conclusion: str) -> None:
    """No failure passes for neutral, which a required check lets through, and none shows a score, not even an earlier one."""
    story = Story()
    n = story.propose(story.base(2.23, 2.234))
    story.run(n, n, 2.1)
    story.run(n, n, None, outcome, "device-side assert")
    c = story.campaign()
    check = markdown.check(c, c.candidates[n], verdict_of(c, c.candidates[n]))
    assert check.conclusion == conclusion
    assert check.title.endswith(": device-side assert")
    assert not re.search(r"\d\.\d{3}", check.title + check.summary)
    assert "step 2" in check.text
    assert compare(c, c.candidates[n]) is None


def test_a_verdict_is_on_the_check() -> None:
    """Green and the number for what is kept, red and the number for what is not better, with before, after and interval."""
    story = Story()
    base = story.base(2.23, 2.234)
    good, bad = story.kept(base), story.worse(base, 2.45)
    c = story.campaign()
    green, red = (markdown.check(c, c.candidates[n], verdict_of(c, c.candidates[n])) for n in (good, bad))
    assert (green.conclusion, green.title, green.head) == ("success", "2.130000 (-4.5 %): kept", HEADS[good])
    assert (red.conclusion, red.title) == ("failure", "2.450000 (+9.8 %): not better")
    assert "| before: the base, 2 fresh runs, interleaved | 2.231000 |" in green.summary
    assert "| gain | +0.101000 (+4.5 %) |" in green.summary
    low, high = map(float, re.findall(r"interval of the gain \| (\S+) to (\S+) \|", green.summary)[0])
    assert low < 0.101 < high
    assert "none from a single run" in red.summary


def test_who_leaves_without_a_verdict_is_cancelled() -> None:
    """Stopped, stale and vetoed candidates are neither green nor red."""
    c = whole().campaign()
    x = next(x for x in c.candidates.values() if x.why == "vetoed")
    check = markdown.withdrawn_check(c, x, x.why, x.reason)
    assert (check.conclusion, check.title, check.head) == ("cancelled", "not wanted: vetoed by a person", x.head)


def test_a_gain_is_told_later_as_it_was_judged() -> None:
    """The numbers of a settled candidate do not change when its parent or others are run again."""
    story = Story()
    base = story.base(2.23, 2.234)
    screened = story.propose(base)
    story.run(screened, screened, 2.31)
    c = story.campaign()
    verdict, then = verdict_of(c, c.candidates[screened]), compare(c, c.candidates[screened])
    assert verdict
    assert then
    assert then.gain == verdict.gain
    story.settle(screened, "worse")
    story.kept(base)
    later = compare(story.campaign(), story.campaign().candidates[screened])
    assert later
    assert later.gain == pytest.approx(then.gain, abs=1e-12)
    assert later.before == pytest.approx(then.before, abs=1e-12)


def test_the_description_tells_what_the_diff_does() -> None:
    """Files and lines are counted in the diff, whatever the proposer claims, and it is whole in the text."""
    story = Story()
    n = story.propose(story.base(2.23, 2.234), hypothesis="I changed nothing.")
    c = story.campaign()
    body = markdown.pull_body(c, c.candidates[n], DIFF)
    assert "`trainer/train.py`: 2 lines added, 2 removed." in body
    code = [token.content for token in MarkdownIt().parse(body) if token.type == "fence"]
    assert DIFF.replace("<!--", "<! --") in code
    assert "I changed nothing.\n" in code
    assert "No model proposed this" in body
    assert "Not judged yet." in body
    assert "No number yet." in body
    assert "The diff is empty" in markdown.pull_body(c, c.candidates[n], "")


def test_a_reader_can_repeat_the_measurement() -> None:
    """The description has the one command, with the measured commit, or with the branch before there is one."""
    story = Story()
    n = story.propose(story.base(2.23, 2.234), opened=False)
    c = story.campaign()
    assert f"git checkout autoresearch/7.1/{n} && autoresearch measure" in markdown.pull_body(c, c.candidates[n], DIFF)
    c = whole().campaign()
    x = c.merged[0]
    body = markdown.pull_body(c, x, DIFF, x.reason)
    assert f"git checkout {x.head} && autoresearch measure" in body
    assert "5 runs to judge it" in body
    assert "took 14.2 s, 10.0 s of it training" in body


def test_the_commit_is_the_same_before_and_after() -> None:
    """Nothing that is measured gets into the candidate's commit message, so that making it again makes the same commit."""
    story = Story()
    base = story.base(2.23, 2.234)
    n = story.propose(base)
    early = story.campaign()
    first = markdown.commit_message(early, early.candidates[n])
    story.run(n, n, 2.31)
    story.settle(n, "worse")
    c = story.campaign()
    assert markdown.commit_message(c, c.candidates[n]) == first
    assert first.startswith("double the rate\n\n    It is too low.\n\n")


def test_the_merge_says_what_it_brings() -> None:
    """The commit on the default branch carries numbers, reason and the commit that was measured."""
    c = whole().campaign()
    x = c.merged[0]
    verdict = verdict_of(c, x)
    assert verdict
    message = markdown.merge_message(c, x, verdict)
    assert "val_bpb 2.231000 -> 2.130000 (-4.5 %)" in message
    assert message.endswith(f"\n\nCampaign: 7.1\nCandidate: {x.n}\nPull-Request: {x.pull}\nMeasured-Commit: {x.head}\n")


def test_unsandboxed_is_said() -> None:
    """A number from outside a sandbox says so: on the check, in the description, as a label, on the page."""
    story = Story()
    n = story.propose(story.base(2.23, 2.234))
    story.run(n, n, 2.31, sandboxed=False)
    story.settle(n, "worse")
    c, clean = story.campaign(), whole().campaign()
    x = c.candidates[n]
    check = markdown.check(c, x, verdict_of(c, x))
    assert check.title.endswith("; unsandboxed")
    assert "unsandboxed" in check.summary
    assert "**unsandboxed**" in markdown.pull_body(c, x, DIFF, x.reason)
    assert markdown.labels(x, x.reason) == ("autoresearch", "autoresearch: settled", "autoresearch: unsandboxed")
    assert "unsandboxed" in page.render(c, {})
    assert not any("unsandboxed" in text for text in texts(clean))


def test_status_says_what_comes_next() -> None:
    """Waiting for the base, measuring, paused, ending and ended each read differently."""
    story = Story(experiments=2)
    assert "**Next:** 2 experiments to go" in status.render(story.campaign())
    base = story.base(2.23, 2.234)
    n = story.propose(base)
    story.start(n, n)
    assert f"**Next:** candidate {n} is measuring (0 runs so far); 2 experiments to go" in status.render(story.campaign())
    story.add(e.Paused, reason="the machine is too busy")
    assert "paused and waits for a person: `the machine is too busy`" in status.render(story.campaign())
    story.add(e.StopRequested, by="ada")
    assert "**Next:** it ends: `stopped by ada" in status.render(story.campaign())
    story.settle(n, "stopped", "the campaign ended")
    story.add(e.CampaignEnded, why="stopped", reason="stopped by ada")
    assert "nothing, it ended: `stopped by ada`" in status.render(story.campaign())


def test_status_shows_start_best_and_gain() -> None:
    """Start and best are means over all runs of that code, and the gain between them is their difference."""
    c = whole().campaign()
    s = standing(c)
    assert s.start == pytest.approx((2.23 + 2.234 + 2.23 + 2.232) / 4)
    assert s.best == pytest.approx(2.13)
    assert s.gain == pytest.approx(s.start - 2.13)
    said = status.render(c)
    assert "| start | 2.231500 | the base, 4 runs |" in said
    assert "| best so far | 2.130000 | candidate 7, 3 runs |" in said
    assert "| between them | +0.101500 (+4.5 %) | from runs at different times, not head to head |" in said


def test_results_are_the_five_columns() -> None:
    """One line an experiment, the base first, in the order of settling; a failed run has no number; names hold no tab."""
    story = whole()
    tip = story.campaign().tip
    story.failed(tip, title="a\tb\nc", peak_vram_mb=2048.0)
    rows = [line.split("\t") for line in tsv.results(story.campaign()).splitlines()]
    assert rows[0] == ["commit", "val_bpb", "memory_gb", "status", "description"]
    assert rows[1] == [HEADS[0][:7], "2.231500", "0.5", "keep", "baseline"]
    assert [row[3] for row in rows[2:]] == ["crash"] * 5 + ["discard", "keep", "crash"]
    assert [row[1] for row in rows[2:]] == [""] * 5 + ["2.310000", "2.130000", ""]
    assert rows[-1][2:] == ["2.0", "crash", "a b c"]
    assert {len(row) for row in rows} == {5}


class Html(HTMLParser):
    """Tags and attributes as a browser would see them, and whether they nest."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data

    def count(self, tag: str, **attrs: str) -> int:
        return sum(name == tag and attrs.items() <= found.items() for name, found in self.tags)  # type: ignore[operator]


@pytest.mark.parametrize("candidates", ["none", "all", "crash first", "base only", "base crashed"])
def test_a_page_stands_alone(candidates: str) -> None:
    """At any point of a campaign the page nests well, runs no script and loads nothing from anywhere."""
    story = Story(title=HOSTILE, body=HOSTILE)
    if candidates == "all":
        story = whole()
    elif candidates == "crash first":
        story.failed(story.base(2.23, 2.234), title=HOSTILE, fault=HOSTILE)
    elif candidates == "base only":
        story.base()
    elif candidates == "base crashed":
        story.failed(0) if story.campaign().candidates else story.run(story.base(), 0, None, "crash", "no")
        story.settle(0, "crash")
    c = story.campaign()
    html = Html(page.render(c, dict.fromkeys(c.candidates, DIFF + HOSTILE)))
    assert html.open == []
    assert html.tags
    loading = {"script", "img", "iframe", "object", "embed", "link", "form", "base", "image", "use"}
    assert not {tag for tag, _ in html.tags} & loading
    for _, attrs in html.tags:
        assert not any(name.startswith("on") or name in ("src", "srcset", "data", "action") for name in attrs)
        assert str(attrs.get("href", "#")).startswith("#")
    assert not re.search(r"url\(|@import", page.STYLE)


def test_a_page_shows_every_candidate() -> None:
    """Each candidate has its row, its hypothesis and its diff; kept, discarded and failed ones their marks."""
    c = whole().campaign()
    text = page.render(c, dict.fromkeys(c.candidates, DIFF))
    html = Html(text)
    assert html.count("details") == 10 + 1
    assert html.count("tr") == 10 + 1
    assert {attrs["id"] for tag, attrs in html.tags if tag == "details" and "id" in attrs} == {f"c{n}" for n in range(1, 11)}
    assert html.count("circle", **{"class": "kept"}) == 2
    assert html.count("circle", **{"class": "discarded"}) == 1
    assert html.count("path", **{"class": "failed"}) == 5
    assert html.count("span", **{"class": "del"}) == html.count("span", **{"class": "add"}) == 2 * 10
    assert html.text.count('+NOTE = "<! -- autoresearch -->"') == 10
    assert "-4.5 %" not in html.text
    assert "not measured head to head" in html.text
    assert "+4.5 %" in html.text


def test_a_page_says_what_is_not_known() -> None:
    """The limits of the numbers are told: not head to head, the vault, the noise and its runs, what is still to come."""
    lines = "\n".join(page.unknowns(whole().campaign()))
    assert "not measured head to head" in lines
    assert "private held-out text was not scored" in lines
    assert "rests on 2 pair(s)" in lines
    assert "1 closed as not better" in lines
    assert "5 of 12 experiments are still to come" in lines
    assert "from 5 repeat(s) of a run and 8 earlier ones" in lines
    assert "changed by hand" not in lines


def test_a_crash_touches_no_scale() -> None:
    """Failed runs, also as the first rows, leave the axis and the line as they are; they are crosses and never numbers."""
    story, calm = Story(), Story()
    base, _ = story.base(2.23, 2.234), calm.base(2.23, 2.234)
    story.failed(base)
    story.failed(base)
    drawn, plain = chart.svg(story.campaign()), chart.svg(calm.campaign())
    assert drawn.count('class="failed"') == 2
    grid = re.compile(r'class="grid" [^>]*|text-anchor="end">[\d.]+')
    assert grid.findall(drawn) == grid.findall(plain)
    assert "no number, crashed" in drawn
    assert "0.000000" not in drawn


def test_one_bad_run_does_not_flatten_the_chart() -> None:
    """A number far above the rest is a mark at the edge, and the line keeps most of the height."""
    story = Story()
    base = story.base(2.23, 2.234)
    story.worse(base, 31.0)
    story.kept(base)
    drawn = chart.svg(story.campaign())
    path = re.search(r'class="best" d="M\S+ (\S+) H\S+ V(\S+) H', drawn)
    assert path
    assert float(path[2]) - float(path[1]) > (chart.BOTTOM - chart.TOP) / 3
    assert "31.000000, not better" in drawn


@given(st.floats(-1e3, 1e3), st.floats(1e-5, 1e4))
def test_ticks_are_few_and_inside(low: float, width: float) -> None:
    """Whatever the range, a handful of ticks lies inside it, in order."""
    found = chart.ticks(low, low + width)
    assert 1 <= len(found) <= 7
    assert found == sorted(set(found))
    slack = 1e-9 * (abs(low) + width)
    assert low - slack <= found[0] <= found[-1] <= low + width + slack


def test_secrets_of_a_campaign_stay_in_the_log() -> None:
    """Neither the seed from which all seeds derive nor the word that a result must carry back is in any text."""
    story = whole()
    n = story.propose(story.campaign().tip)
    story.start(n, n)
    for text in texts(story.campaign()):
        assert str(SECRET) not in text
        assert NONCE not in text
