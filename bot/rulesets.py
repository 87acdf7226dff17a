"""The two rulesets that GitHub is to hold for us, and whether what it holds is them. Pure.

https://docs.github.com/en/rest/repos/rules; the numbers of roles are those of
https://registry.terraform.io/providers/integrations/github/latest/docs/resources/repository_ruleset.
"""

from __future__ import annotations

from typing import Any

from bot.forge import CHECK

Ruleset = dict[str, Any]
MAINTAIN, ADMIN = 2, 5  # repository roles
ACTIONS = 15368  # the App that GITHUB_TOKEN is of


def merges(app: int) -> Ruleset:
    """The default branch takes only what has our check from that App and stands on its tip; maintainers may do otherwise."""
    check = {"context": CHECK, "integration_id": app}
    parameters = {"strict_required_status_checks_policy": True, "required_status_checks": [check]}
    rules: list[dict[str, Any]] = [{"type": "required_status_checks", "parameters": parameters}]
    rules += [{"type": "deletion"}, {"type": "non_fast_forward"}]
    people = [_role(MAINTAIN), _role(ADMIN)]
    return _ruleset("autoresearch: merge only what was measured", "~DEFAULT_BRANCH", people, rules)


def branches(app: int) -> Ruleset:
    """Candidates and the log are written by that App alone."""
    bot: dict[str, Any] = {"actor_id": app, "actor_type": "Integration", "bypass_mode": "always"}
    rules: list[dict[str, Any]] = [{"type": kind} for kind in ("creation", "deletion", "non_fast_forward", "update")]
    return _ruleset("autoresearch: only the bot writes its branches", "refs/heads/autoresearch/**/*", [bot, _role(ADMIN)], rules)


def _role(number: int) -> dict[str, Any]:
    return {"actor_id": number, "actor_type": "RepositoryRole", "bypass_mode": "always"}


def _ruleset(name: str, ref: str, bypass: list[dict[str, Any]], rules: list[dict[str, Any]]) -> Ruleset:
    return {
        "name": name, "target": "branch", "enforcement": "active", "bypass_actors": bypass, "rules": rules,
        "conditions": {"ref_name": {"include": [ref], "exclude": []}},
    }  # fmt: skip


def app_of(ruleset: Ruleset) -> int:
    """The App whose check a ruleset asks for; 0 when it asks for none, or for one of anybody."""
    asked = [it for rule in ruleset["rules"] for it in (rule.get("parameters") or {}).get("required_status_checks", ())]
    return next((int(it["integration_id"]) for it in asked if it.get("integration_id")), 0)


def holds(there: Any, wanted: Any) -> bool:
    """Whether everything wanted is there; what is there beside, and the order of lists, does not matter."""
    if isinstance(wanted, dict):
        return isinstance(there, dict) and all(holds(there.get(name), value) for name, value in wanted.items())
    if isinstance(wanted, list):
        fits = isinstance(there, list) and len(there) == len(wanted)
        return fits and all(any(holds(it, value) for it in there) for value in wanted)
    return bool(there == wanted)
