"""Sessions of an agent between a cheap and a strong model: who serves each request.

The core (`Engine`, `Sessions`) knows no transport: the server `bayes-tacit serve` and adapters of frameworks share it.
"""

from bayes_tacit.data.costs import Price
from bayes_tacit.gateway.engine import Engine, default_router, forwarded
from bayes_tacit.gateway.protocols import read_reply, read_stream
from bayes_tacit.gateway.session_state import Assignment, Prices, Reply, SessionState, Usage, record
from bayes_tacit.gateway.sessions import Identity, Plan, Sessions, Ticket, identify
from bayes_tacit.gateway.store import FileStore, MemoryStore, RedisStore, SessionLog, Store, StoreDownError, open_store

__all__ = ["Assignment", "Engine", "FileStore", "Identity", "MemoryStore", "Plan", "Price", "Prices", "RedisStore"]
__all__ += ["Reply", "SessionLog", "SessionState", "Sessions", "Store", "StoreDownError", "Ticket", "Usage"]
__all__ += ["default_router", "forwarded", "identify", "open_store", "read_reply", "read_stream", "record"]
