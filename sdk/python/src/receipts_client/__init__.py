"""Client of Receipts: signs uses of content, batches them, and delivers them exactly once.

- ``Client`` records uses and delivers them in the background.
- ``Use`` is one use of a piece of content.
- ``PemSigner`` and ``CallbackSigner`` hold the key.
- ``Webhook`` verifies receipts that a publisher gets at an address of its own.
- ``canonicalize`` writes the canonical form (RFC 8785) that signatures are over.
"""

from .canonical import CanonicalError, canonicalize
from .client import Client
from .errors import ClosedError, QueueFullError, ReceiptsError, RejectedError, Rejection, UseError
from .signers import CallbackSigner, PemSigner, Signer
from .use import Use
from .webhook import Webhook, WebhookError

__all__ = [
    "CallbackSigner",
    "CanonicalError",
    "Client",
    "ClosedError",
    "PemSigner",
    "QueueFullError",
    "ReceiptsError",
    "RejectedError",
    "Rejection",
    "Signer",
    "Use",
    "UseError",
    "Webhook",
    "WebhookError",
    "canonicalize",
]
