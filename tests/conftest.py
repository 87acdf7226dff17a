"""What holds for every test: nothing of the person who runs them gets in. It is not a place for shared fixtures."""

from __future__ import annotations

import os

import hypothesis

# A test that passes only with somebody's git identity, hooks or accounts would fail, or spend money, elsewhere.
for _name in [name for name in os.environ if name.startswith("GIT_")]:
    del os.environ[_name]
for _name in ("GITHUB_TOKEN", "GH_TOKEN", "OPENAI_API_KEY", "SLACK_BOT_TOKEN"):
    os.environ.pop(_name, None)
os.environ["GIT_CONFIG_GLOBAL"] = os.devnull
os.environ["GIT_CONFIG_NOSYSTEM"] = "1"

# On a busy machine one slow example says nothing about the code; the timeout of pytest still holds for the whole test.
hypothesis.settings.register_profile("busy-machine", deadline=None)
hypothesis.settings.load_profile("busy-machine")
