"""Verifies receipts, one a line; ends with 1 at the first that isn't good."""

import sys

from receipts_client import Webhook, WebhookError

webhook = Webhook()
for line in sys.stdin.buffer:
    try:
        webhook.verify(line)
    except WebhookError as error:
        sys.exit(str(error))
