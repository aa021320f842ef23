"""Client of Receipts: signs uses of content, batches them, and delivers them exactly once.

- ``Client`` records uses and delivers them in the background; ``AsyncClient`` does it in asyncio.
- ``Options`` are the bounds and intervals of a client.
- ``Use`` is one use of a piece of content.
- ``PemSigner`` and ``CallbackSigner`` hold the key.
- ``Webhook`` verifies receipts that a publisher gets at an address of its own.
- ``canonicalize`` writes the canonical form (RFC 8785) that signatures are over.
"""

from .acknowledgements import Acknowledgement
from .async_client import AsyncClient
from .canonical import CanonicalError, canonicalize
from .client import Client
from .errors import ClosedError, QueueFullError, ReceiptsError, RejectedError, Rejection, UseError
from .options import Options
from .outcomes import Entry
from .signers import CallbackSigner, PemSigner, Signer
from .use import Purpose, Use
from .version import __version__
from .webhook import Webhook, WebhookError

__all__ = [
    "Acknowledgement",
    "AsyncClient",
    "CallbackSigner",
    "CanonicalError",
    "Client",
    "ClosedError",
    "Entry",
    "Options",
    "PemSigner",
    "Purpose",
    "QueueFullError",
    "ReceiptsError",
    "RejectedError",
    "Rejection",
    "Signer",
    "Use",
    "UseError",
    "Webhook",
    "WebhookError",
    "__version__",
    "canonicalize",
]
