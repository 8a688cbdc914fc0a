"""Requests in, responses out: parameters with helpful errors, methods, and what may be cached."""

from __future__ import annotations

import contextlib
import json
import logging
import math
import socket
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tensorboard import errors, plugin_util
from tensorboard.backend import http_util
from werkzeug import wrappers

from tb_plugin_structure.dashboards.turns import Gone
from tb_plugin_structure.records.blobs import RecordError

logger = logging.getLogger("tb_plugin_structure")

WsgiApp = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]

DAY = 86_400
"""Seconds that an answer addressed by its hash may be kept by the browser."""

_MAXIMUM_TEXT = 4_096
_MAXIMUM_BODY = 1 << 20


class Query:
    """The parameters of one request. Every accessor raises InvalidArgumentError (400) with a sentence."""

    def __init__(self, request: wrappers.Request) -> None:
        self.request = request
        self.context = plugin_util.context(request.environ)
        self.experiment: str = plugin_util.experiment_id(request.environ)

    def is_gone(self) -> bool:
        """Whether the browser has closed the connection, as far as the server lets one see it."""
        connection = self.request.environ.get("werkzeug.socket")
        try:
            flags = socket.MSG_PEEK | socket.MSG_DONTWAIT
            return connection is not None and connection.recv(1, flags) == b""
        except BlockingIOError:
            return False  # open, and silent
        except ConnectionError:
            return True
        except (OSError, ValueError, AttributeError):  # Windows has no such flag, TLS no such call
            return False

    def text(self, name: str, default: str | None = None) -> str:
        values = self.request.args.getlist(name)
        if len(values) > 1:
            raise errors.InvalidArgumentError(f"the parameter {name!r} is given {len(values)} times, expected once")
        if not values:
            if default is None:
                raise errors.InvalidArgumentError(f"the parameter {name!r} is missing")
            return default
        if len(values[0]) > _MAXIMUM_TEXT:
            raise errors.InvalidArgumentError(
                f"the parameter {name!r} has {len(values[0]):,} characters, at most {_MAXIMUM_TEXT:,} are read"
            )
        return str(values[0])

    def integer(self, name: str) -> int:
        text = self.text(name)
        try:
            value = int(text)
        except ValueError:
            value = 1 << 63
        if abs(value) >= 1 << 63:
            raise errors.InvalidArgumentError(f"the parameter {name!r} is {text[:40]!r}, expected a whole number")
        return value

    def json(self, name: str) -> Any:
        """A JSON object given as a parameter; an empty one when it is absent."""
        values = self.request.args.getlist(name)
        if not values:
            return {}
        if len(values) > 1:
            raise errors.InvalidArgumentError(f"the parameter {name!r} is given {len(values)} times, expected once")
        if len(values[0]) > _MAXIMUM_BODY:
            raise errors.InvalidArgumentError(f"the parameter {name!r} is too long; send it as the body of a POST")
        return parse_object(values[0], f"the parameter {name!r}")

    def body(self) -> dict[str, Any]:
        """The JSON object in the body of a POST."""
        content_type = (self.request.headers.get("Content-Type") or "").split(";")[0].strip().lower()
        if content_type != "application/json":
            # Other content types can be sent by any page in the browser without asking (cross-site forms).
            raise errors.InvalidArgumentError("a POST needs Content-Type: application/json")
        length = self.request.content_length
        if length is None or length > _MAXIMUM_BODY:
            raise errors.InvalidArgumentError(f"the body of a POST needs a length of at most {_MAXIMUM_BODY:,} bytes")
        return parse_object(self.request.get_data(), "the body")


def parse_object(data: str | bytes, what: str) -> dict[str, Any]:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        raise errors.InvalidArgumentError(f"{what} is not valid JSON") from None
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except (UnicodeEncodeError, RecursionError):
        raise errors.InvalidArgumentError(f"{what} holds text that is not valid Unicode") from None
    if not isinstance(value, dict):
        raise errors.InvalidArgumentError(f"{what} is a JSON {type(value).__name__}, expected an object")
    return value


def _is_rpc_error(error: Exception) -> bool:
    """Whether the data server did not answer. By name: grpc is there only where that server is."""
    return any(base.__name__ == "RpcError" for base in type(error).__mro__)


@contextlib.contextmanager
def comparing(what: str) -> Iterator[None]:
    """Around a computation over stored records. Its faults are no reason for an error page: the tab says that these
    two records cannot be compared, the log has the details, and everything else goes on."""
    try:
        yield
    except (errors.PublicError, RecordError, Gone):
        raise
    except Exception as error:
        if _is_rpc_error(error):
            raise
        logger.exception("comparing %s failed", what)
        raise RecordError(
            f"these two records cannot be compared ({type(error).__name__}: {error}); the log has the details"
        ) from error


Handler = Callable[[Query], wrappers.Response]


def route(handler: Handler, methods: tuple[str, ...] = ("GET", "HEAD")) -> WsgiApp:
    """A WSGI application that answers every request: what a user did wrong with a 4xx and a sentence."""

    def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        request = wrappers.Request(environ)
        response: wrappers.Response
        if request.method not in methods:
            text = f"this address answers {' and '.join(methods)}, not {request.method[:20]}"
            response = _say(request, text, 405, [("Allow", ", ".join(methods))])
        else:
            try:
                response = handler(Query(request))
            except RecordError as error:
                response = _say(request, str(error), 422)
            except errors.PublicError as error:
                response = _say(request, str(error), error.http_code, error.headers)
            except Gone:
                response = _say(request, "the connection was closed while this waited for its turn", 503)
            except Exception as error:
                if _is_rpc_error(error):
                    response = _say(request, "TensorBoard's data server did not answer; try again in a moment", 503)
                else:
                    logger.exception("%s failed", request.path)
                    response = _say(request, f"{type(error).__name__} while answering; the log has the details", 500)
        return response(environ, start_response)

    return application


def respond(query: Query, content: Any, content_type: str, **options: Any) -> wrappers.Response:
    """TensorBoard's own response: compression, no sniffing, and no caching unless asked for."""
    response: wrappers.Response = http_util.Respond(query.request, content, content_type, **options)
    return response


def _say(request: wrappers.Request, text: str, code: int, headers: Iterable[tuple[str, str]] = ()) -> wrappers.Response:
    # A message can quote what was asked for, and JSON can hold half characters.
    text = text[:_MAXIMUM_TEXT].encode("utf-8", "replace").decode()
    response: wrappers.Response = http_util.Respond(request, text, "text/plain", code=code, headers=list(headers))
    return response


def respond_json(query: Query, value: Any) -> wrappers.Response:
    return respond(query, json_text(value), "application/json")


def json_text(value: Any) -> str:
    """JSON, not left to http_util: that would turn NaN into the string "NaN", and takes longer for large lists."""
    try:
        return json.dumps(value, allow_nan=False)
    except ValueError:
        return json.dumps(_without_nan(value), allow_nan=False)


def _without_nan(value: Any) -> Any:
    """NaN and infinities, which a damaged record can hold anywhere, become null."""
    if isinstance(value, dict):
        return {key: _without_nan(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_nan(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def respond_bytes(query: Query, data: bytes, *, gzipped: bool, expires: int = 0) -> wrappers.Response:
    encoding = "gzip" if gzipped else None
    return respond(query, data, "application/octet-stream", content_encoding=encoding, expires=expires)


def respond_download(query: Query, text: str, content_type: str, name: str) -> wrappers.Response:
    return respond(query, text, content_type, headers=[("Content-Disposition", f'attachment; filename="{name}"')])
