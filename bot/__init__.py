"""The bot: it remembers (events, log), decides (state, decide) and acts (act, loop)."""
