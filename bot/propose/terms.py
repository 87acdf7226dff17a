"""What a text is about, as terms that survive being said in other words: stems, values, and which way something moves. Pure.

    terms("LR 0.1 to 0.2")  ->  learn, rate, =0.1, =0.2, up

English, and the abbreviations that people write who train language models.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache

START = 4  # letters that a stem keeps at least
ENDING = re.compile(r"(i[sz]ations?|i[sz]ing|i[sz]ed|i[sz]es?|ations?|ingly|ings?|ers?|ies|ied|ed|es|ly|s|e|y)$")
ABBREVIATIONS = {
    "lr": "learning rate", "wd": "weight decay", "emb": "embedding", "embed": "embedding", "attn": "attention",
    "init": "initialise", "std": "standard deviation", "dim": "dimension", "ffn": "feed forward mlp", "rope": "rotary",
    "bs": "batch size", "opt": "optimizer", "norm": "normalisation", "ve": "value embedding", "kv": "key value",
    "ln": "layer norm", "sqrt": "square root", "ns": "newton schulz", "ema": "moving average",
}  # fmt: skip
WHOLE = {
    "zero": 0, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10,
    "eleven": 11, "twelve": 12, "sixteen": 16, "twenty": 20, "hundred": 100, "thousand": 1000,
}  # fmt: skip
FRACTIONS = {
    "half": 1 / 2, "halve": 1 / 2, "third": 1 / 3, "quarter": 1 / 4, "fifth": 1 / 5, "sixth": 1 / 6, "eighth": 1 / 8,
    "tenth": 1 / 10, "twentieth": 1 / 20, "percent": 1 / 100, "hundredth": 1 / 100, "thousandth": 1 / 1000,
}  # fmt: skip
NUMBER = r"\d[\d.,]*(?:e-?\d+)?"
MOVE = re.compile(rf"({NUMBER})\s*(?:to|->|→)\s*({NUMBER})", re.IGNORECASE)
WORD = re.compile(rf"\d+\s?\*\*\s?\d+|\d+/\d+|{NUMBER}(?:[kKmMx]\b|\s?%|\s(?:percent|thousand|million)\b)?|[^\W\d_]+")
UP = "increase raise higher larger bigger more grow double longer wider deeper up above stronger faster widen deepen lengthen"
DOWN = "decrease reduce lower smaller less shrink halve shorter narrower shallower down below weaker slower fewer cut shorten"
STOP = """a an and are as at be been but by can could do for from has have if in into is it its may of on or our should so some
than that the their then there these they this to was we were what when which while will with would not no very"""


def terms(text: str) -> Counter[str]:
    """What a text is about: stems, values as "=0.1", and the directions "up" and "down"."""
    return Counter(_terms(text))


@lru_cache(maxsize=8192)
def _terms(text: str) -> tuple[str, ...]:
    found: list[str] = []
    text = re.sub(r"([a-z]{2})([A-Z][a-z])", r"\1 \2", text)
    for old, new in MOVE.findall(text):
        found.append("up" if (_number(new) or 0) > (_number(old) or 0) else "down")
    for word in WORD.findall(text):
        found += _values(word.lower()) if word[0].isdigit() else _word(word.lower())
    words = re.findall(r"[a-z]+", text.lower())
    for many, part in zip(["", *words], words, strict=False):
        if value := FRACTIONS.get(part.removesuffix("s")):
            found.append(_value(value * (WHOLE.get(many, 1))))
    return tuple(found)


def _values(word: str) -> list[str]:
    """A number by what it is worth; a percentage and a quotient both ways."""
    plain = re.sub(r"\s?(x|%|percent)$", "", word)
    value = _number(re.sub(r"\s(thousand|million)$", lambda m: m[1][0].replace("t", "k"), plain))
    top, _, bottom = word.partition("/")
    if bottom:
        one, two = _number(top), _number(bottom)
        return [_value(one / two)] if one is not None and two else []
    if value is None:
        return []
    return [_value(value), *([_value(value / 100)] if word.endswith(("%", "percent")) else [])]


def _value(number: float) -> str:
    return f"={number:.3g}"


def _word(word: str) -> list[str]:
    if word in WHOLE:
        return [_value(WHOLE[word])]
    if word in _STOP or len(word) == 1:
        return []
    if word in ABBREVIATIONS:
        return [_stem(part) for part in ABBREVIATIONS[word].split()]
    stem = _stem(word)
    return ["up"] if stem in _UP else ["down"] if stem in _DOWN else [stem]


def _stem(word: str) -> str:
    """Without its ending; a word keeps at least four letters."""
    return word[:START] + ENDING.sub("", word[START:]) if len(word) > START else word


_STOP = frozenset(STOP.split())
_UP, _DOWN = ({_stem(word) for word in words.split()} for words in (UP, DOWN))


def _number(word: str) -> float | None:
    base, _, power = word.replace(" ", "").partition("**")
    scale = {"k": 1e3, "m": 1e6}.get(base[-1].lower(), 1.0)
    try:
        value = float(base.rstrip("kKmM").rstrip(".,").replace(",", "")) * scale
        return value ** int(power) if power else value
    except (ValueError, OverflowError):
        return None
