"""One conversation with Slack: it waits where Slack says so, and all that goes wrong is a value, in words that say what to do.

The SDK would by itself repeat a request whose answer was lost, and so post twice: its handlers are off, and only what Slack
refused with 429 is repeated, after the time that Slack names. Not here: what is asked for (slack.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.client import HTTPException
from socket import gaierror
from typing import Any
from urllib.error import HTTPError

from slack_sdk.errors import SlackApiError, SlackClientError
from slack_sdk.web import SlackResponse
from slack_sdk.webhook import WebhookResponse

from bot.report.quoting import one_line

PATIENCE = 120.0  # seconds that one conversation waits in all because Slack says 429
UNTOLD = 30.0  # seconds to wait when a 429 does not say how long
BAD_TOKEN = "Slack does not take the bot token: put a valid one (xoxb-...) into the secret that holds it"  # noqa: S105  words
_BLOCKED = "the workspace does not let the app post there: ask its admin, or name another channel"
_ARCHIVED = "the channel is archived: name another one"
_GONE = "the webhook is not valid any more: make a new one and put its address into the secret that holds it"
_OURS = "Slack does not take the form of our message, which is a bug of ours: please report it"

# Slack's words for what does not pass by itself, and what to do: https://docs.slack.dev/reference/methods/chat.postMessage and
# https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks
ADVICE = {
    **dict.fromkeys(("invalid_auth", "not_authed", "account_inactive", "not_allowed_token_type"), BAD_TOKEN),
    **dict.fromkeys(("token_revoked", "token_expired"), f"{BAD_TOKEN}; the one there is not valid any more"),
    **dict.fromkeys(("restricted_action", "access_denied", "no_permission", "action_prohibited"), _BLOCKED),
    **dict.fromkeys(("is_archived", "channel_is_archived"), _ARCHIVED),
    **dict.fromkeys(("no_service", "no_team", "invalid_token"), _GONE),
    **dict.fromkeys(("no_text", "msg_too_long", "msg_blocks_too_long", "invalid_blocks", "invalid_blocks_format"), _OURS),
    **dict.fromkeys(("invalid_payload", "invalid_arguments", "metadata_too_large", "invalid_metadata_format"), _OURS),
    "missing_scope": "the Slack app lacks a scope: add it under OAuth & Permissions and install the app again",
    "not_in_channel": "the app is not in the channel: say `/invite` with the app's name there",
    "channel_not_found": "Slack shows the app no such channel: give its id (C...), and invite the app to a private one",
}
_SLACKS_OWN = ("internal_error", "fatal_error", "service_unavailable", "request_timeout")  # it may have been done all the same


@dataclass(frozen=True, kw_only=True)
class NotSent:
    """Why, and what to do. `code` is Slack's own word, if there is one; `perhaps`: it may have been done all the same."""

    reason: str
    code: str = ""
    perhaps: bool = False


@dataclass
class Line:
    """`left` is its patience, in seconds."""

    sleep: Callable[[float], None]
    left: float = PATIENCE

    def call(self, method: Callable[..., SlackResponse], **arguments: object) -> SlackResponse | NotSent:
        """The answer of a method of the Web API, when it is a yes."""
        while True:
            try:
                return method(**arguments)
            except SlackApiError as error:
                if not self._waited(error.response.status_code, error.response.headers):
                    return _refused(error.response)
            except (SlackClientError, HTTPException, OSError, ValueError) as error:
                return _broken(error)

    def post(self, method: Callable[..., WebhookResponse], **arguments: object) -> NotSent | None:
        """Through a webhook; None when it was taken."""
        while True:
            try:
                answer = method(**arguments)
            except (SlackClientError, HTTPException, OSError, ValueError) as error:
                return _broken(error)
            if answer.status_code == 200:
                return None
            if not self._waited(answer.status_code, answer.headers):
                return said(answer.body, answer.status_code)

    def _waited(self, status: int, headers: Mapping[str, Any]) -> bool:
        """Whether it is worth another try: Slack did nothing yet, and has been given the time that it asked for."""
        asked = {name.lower(): str(value) for name, value in headers.items()}.get("retry-after", "")
        wait = float(asked) if asked.isdecimal() else UNTOLD
        if status != 429 or wait > self.left:
            return False
        self.left -= wait
        self.sleep(wait)
        return True


def said(code: str, status: int) -> NotSent:
    """Slack's word for what is wrong, as a sentence."""
    code = one_line(code, 100)
    if code in ADVICE:
        return NotSent(reason=f"{ADVICE[code]} (Slack said {code})", code=code)
    if status == 429:
        return NotSent(reason=f"Slack asks to wait longer than {PATIENCE:.0f} s in all: try again later", code="ratelimited")
    broken = status >= 500 or code in _SLACKS_OWN
    advice = "that is Slack's own trouble: try again later" if broken else "see https://docs.slack.dev/reference/methods"
    return NotSent(reason=f"Slack answered {code or 'nothing'} (HTTP {status}): {advice}", code=code, perhaps=broken)


def _refused(answer: SlackResponse) -> NotSent:
    data = answer.data if isinstance(answer.data, dict) else {}
    refusal = said(str(data.get("error", "")), answer.status_code)
    if refusal.code == "missing_scope" and data.get("needed"):
        return NotSent(reason=f"{refusal.reason}; it needs {one_line(str(data['needed']), 100)}", code=refusal.code)
    return refusal


def _broken(error: Exception) -> NotSent:
    """No answer. The words of the error are left out where they could hold an address or a token."""
    if isinstance(error, HTTPError):  # of an upload; those of methods are read by the SDK
        return said("", error.code)
    cause = getattr(error, "reason", error)  # urllib wraps what happened before the request was out
    words = (cause.strerror if isinstance(cause, OSError) else None) or type(cause).__name__
    never = isinstance(cause, ConnectionRefusedError | gaierror)
    return NotSent(reason=f"Slack cannot be reached ({words}): check the network, then try again", perhaps=not never)
