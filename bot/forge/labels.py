"""The labels that the bot writes, with colours (six hex digits) and a word of what each means. Written, never read back."""

from __future__ import annotations

OTHER = "ededed"
_TABLE = {
    "autoresearch": ("5319e7", "A candidate of the autoresearch bot"),
    "autoresearch: settled": ("c5def5", "Measured and judged"),
    "autoresearch: unsandboxed": ("d93f0b", "Measured without a sandbox"),
    "autoresearch: merged": ("0e8a16", "Better, and merged"),
    "autoresearch: worse": ("cfd3d7", "Not clearly better than the code it changes"),
    "autoresearch: crash": ("b60205", "The run ended with an error"),
    "autoresearch: oom": ("b60205", "The run ran out of memory"),
    "autoresearch: nan": ("b60205", "The model's numbers were not finite"),
    "autoresearch: timeout": ("b60205", "No result in time"),
    "autoresearch: invalid": ("b60205", "The judge refused the result"),
    "autoresearch: stale": ("fef2c0", "The code it changes moved on"),
    "autoresearch: vetoed": ("fbca04", "A person does not want it"),
    "autoresearch: stopped": ("fef2c0", "The campaign ended before it was judged"),
    "autoresearch: undo": ("fbca04", "Takes back what a campaign merged"),
}
COLOURS = {name: colour for name, (colour, _) in _TABLE.items()}
DESCRIPTIONS = {name: words for name, (_, words) in _TABLE.items()}
