"""What there is to set in program.md: the literal table SETTINGS, and the frozen values that program.py makes by it. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from evaluator.gate import GateSettings

PROPOSERS = ("mutate", "llm", "optuna", "crossover", "mix")


@dataclass(frozen=True)
class Setting:
    """One row of the table. `allowed` holds the choices, or the lowest and the highest number, both included.

    Kinds: choice, flag, folder (a choice or a path), list (all of `allowed`), whole, number, text, prices (see spending.py). One
    whose default is None may be empty.
    """

    name: str
    kind: str
    default: object
    allowed: tuple[Any, ...]
    meaning: str


SETTINGS: tuple[Setting, ...] = (
    Setting("metric", "choice", "val_bpb", ("val_bpb",), "What is measured: bits per byte of held-out text."),
    Setting("direction", "choice", "lower", ("lower",), "Which way the metric is better."),
    Setting("editable", "list", ("trainer/train.py",), ("trainer/train.py",), "The files that a candidate may change."),
    Setting(
        "corpus", "folder", "climbmix", ("climbmix", "austen"), "The text: a known one, or a folder of text or parquet files."
    ),
    Setting("device", "choice", "auto", ("auto", "cpu", "cuda"), "Where a candidate trains; auto takes the GPU if there is one."),
    Setting("budget.seconds", "number", 300.0, (0.1, 86_400), "Training time of one run, in seconds of wall clock."),
    Setting("budget.startup_seconds", "number", 600.0, (1, 86_400), "How long a run may build and compile before it sees data."),
    Setting("budget.scoring_seconds", "number", 300.0, (1, 86_400), "How long one run may be scored and audited, in all."),
    Setting("gate.mode", "choice", "pairs", ("pairs", "stack"), "What must be proven before a merge: each edit, or a stack."),
    Setting("gate.alpha", "number", 0.004, (1e-6, 0.25), "Chance that a candidate which is not better passes its pairs."),
    Setting("gate.floor", "number", 1.1, (0, 10), "Smallest gain worth confirming, in standard deviations of one run."),
    Setting("gate.max_pairs", "whole", 7, (1, 100), "Pairs after which a candidate that is not proven better is closed."),
    Setting("gate.baseline_runs", "whole", 5, (1, 100), "Runs of the base before the first candidate."),
    Setting("gate.refresh_runs", "whole", 20, (1, 10_000), "The base is run again after so many runs without one of it."),
    Setting("gate.resolution", "number", 1e-6, (1e-12, 1), "Smallest difference that means anything, in bits per byte."),
    Setting("gate.prior_sd", "number", None, (1e-9, 10), "Standard deviation of one run known from earlier, in bits per byte."),
    Setting("gate.prior_df", "whole", 0, (0, 1000), "How many degrees of freedom gate.prior_sd is worth; 0 = it is not used."),
    Setting("gate.verdict_pairs", "whole", 3, (0, 100), "Fresh pairs of base and tip when a campaign ends; 0 = not measured."),
    Setting("gate.ablation", "whole", 0, (0, 10_000), "Runs to spend on taking single merged edits out of the tip at the end."),
    Setting("gate.simpler", "flag", False, ("true", "false"), "Keep what is shorter and worse by less than gate.margin, too."),
    Setting("gate.margin", "number", 0.001, (1e-6, 10), "How much worse a shorter train.py may be, in bits per byte."),
    Setting("stop.experiments", "whole", 200, (1, 100_000), "Most experiments that one command may ask for."),
    Setting("stop.target", "number", None, (0.001, 100), "Stop when the metric of the tip is this or better, in bits per byte."),
    Setting("stop.hours", "number", None, (0.001, 8760), "Stop after so many hours."),
    Setting("stop.patience", "whole", None, (1, 100_000), "Stop after so many settled candidates in a row without a merge."),
    Setting("stop.crashes", "whole", 5, (1, 100_000), "Stop after so many candidates in a row whose run failed."),
    Setting("stop.refusals", "whole", 20, (1, 100_000), "Stop after so many proposals in a row that were refused unrun."),
    Setting("parallel", "whole", 1, (1, 64), "Measurements at the same time."),
    Setting("runner", "choice", "local", ("local",), "Where measurements run."),
    Setting("sandbox", "choice", "required", ("required", "if-available", "none"), "Whether a run without a sandbox is refused."),
    Setting("proposer", "choice", "mutate", PROPOSERS, "Who proposes: docs/researcher.md says what each of them does."),
    Setting("mix.llm", "number", 2.0, (0, 100), "proposer mix: how often a model is asked first, against the others; 0 = never."),
    Setting("mix.mutate", "number", 1.0, (0, 100), "The same for the draw from known moves."),
    Setting("mix.optuna", "number", 0.0, (0, 100), "The same for optuna on the constants; it needs the extra `search`."),
    Setting("mix.crossover", "number", 1.0, (0, 100), "The same for two earlier gains put together."),
    Setting("model.proposer", "text", None, (), "The model that proposes, as its server calls it."),
    Setting("model.reviewer", "text", None, (), "A model that reads each diff before it is run; nothing = rules alone do."),
    Setting("model.api", "choice", "chat", ("chat", "responses"), "Which of the two protocols of OpenAI the server is asked in."),
    Setting("model.structured", "flag", True, ("true", "false"), "Ask for JSON by a schema, where the server knows that."),
    Setting("model.stream", "flag", True, ("true", "false"), "Have answers sent while they are written."),
    Setting("model.max_output", "whole", 16_000, (256, 200_000), "Tokens of one answer at most, thinking included."),
    Setting("model.seconds", "number", 300.0, (1, 3600), "How long to wait for the next piece of an answer."),
    Setting("model.tries", "whole", 5, (1, 20), "Calls for one question, if the server is busy or broken."),
    Setting("model.repairs", "whole", 2, (0, 5), "How often a model may mend an answer, and a candidate that crashed."),
    Setting("money.usd", "number", None, (0, 1_000_000), "US dollars that a campaign may spend on models."),
    Setting("money.prices", "prices", (), (), "What models cost, in dollars for a million tokens."),
    Setting("schedule.experiments", "whole", 0, (0, 100_000), "Experiments of a campaign that begins each night; 0 = none does."),
    Setting("schedule.issue", "whole", 0, (0, 1_000_000_000), "The issue that the nightly campaign belongs to; 0 = none."),
    Setting("slack.channel", "text", None, (), "Where the nightly report goes: the id of a Slack channel, as C0123456789."),
)


@dataclass(frozen=True, kw_only=True)
class Budget:
    """Seconds of wall clock for the three parts of one run."""

    seconds: float
    startup_seconds: float
    scoring_seconds: float


@dataclass(frozen=True, kw_only=True)
class Stop:
    """When a campaign ends by itself. None: this rule is off."""

    experiments: int
    target: float | None
    hours: float | None
    patience: int | None
    crashes: int
    refusals: int


@dataclass(frozen=True, kw_only=True)
class Mix:
    """Weights of the proposers in `proposer: mix`."""

    llm: float
    mutate: float
    optuna: float
    crossover: float


@dataclass(frozen=True, kw_only=True)
class Model:
    """Which models are asked, and how. None: none is."""

    proposer: str | None
    reviewer: str | None
    api: str
    structured: bool
    stream: bool
    max_output: int
    seconds: float
    tries: int
    repairs: int


@dataclass(frozen=True, kw_only=True)
class Money:
    """`prices` are rows as spending.prices reads them, which each was checked by."""

    usd: float | None
    prices: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """What begins by itself each night. 0: nothing does."""

    experiments: int
    issue: int


@dataclass(frozen=True, kw_only=True)
class Slack:
    """None: no report is sent by a bot's token; a webhook has its channel in its address."""

    channel: str | None


@dataclass(frozen=True, kw_only=True)
class Settings:
    """All of SETTINGS as values; the table says what each one means."""

    metric: str
    direction: str
    editable: tuple[str, ...]
    corpus: str
    device: str
    budget: Budget
    gate: GateSettings
    stop: Stop
    parallel: int
    runner: str
    sandbox: str
    proposer: str
    mix: Mix
    model: Model
    money: Money
    schedule: Schedule
    slack: Slack

    @property
    def proposers(self) -> tuple[str, ...]:
        """Everybody who may be asked for a proposal."""
        if self.proposer != "mix":
            return (self.proposer,)
        return tuple(name for name in PROPOSERS if getattr(self.mix, name, 0))

    @property
    def models(self) -> tuple[str, ...]:
        """Every model that may be asked anything, each once."""
        named = (self.model.proposer if "llm" in self.proposers else None, self.model.reviewer)
        return tuple(dict.fromkeys(name for name in named if name))


def renewed(old: Settings, new: Settings) -> Settings:
    """Those of a campaign that goes on: who proposes, and what that may cost, is as `new` has it. What is measured stays."""
    return replace(old, proposer=new.proposer, mix=new.mix, model=new.model, money=new.money)


def offline(settings: Settings) -> Settings:
    """The same with nobody to ask: for a campaign that only ends, whatever is wrong with keys and addresses."""
    return replace(settings, proposer="mutate", model=replace(settings.model, proposer=None, reviewer=None))
