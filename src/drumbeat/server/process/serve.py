"""The life of a server process, from locking its home to shutdown.

The web framework is imported after the lock is held and the socket is bound, so that a refusal is quick.
"""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib import import_module
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import TYPE_CHECKING

from drumbeat.model import home_socket
from drumbeat.model.errors import ConflictError, DrumbeatError, RefusedError, StorageError
from drumbeat.server.home import Home, machine, shared_folder
from drumbeat.server.home_copy import note_replaced, read_era, require_not_replaced
from drumbeat.server.options import MLFLOW, Options, bind, parse
from drumbeat.server.process.clock import SystemClock

if TYPE_CHECKING:
    import socket
    from types import FrameType

    from drumbeat.server.access.agent_listeners import TlsAgentListeners
    from drumbeat.server.access.era_guard import ServerEra
    from drumbeat.server.access.https_listener import HttpsListener
    from drumbeat.server.access.user_tls import UserTls
    from drumbeat.server.computes.agent_addresses import Endpoints
    from drumbeat.server.context import ServerContext
    from drumbeat.server.control import Control
    from drumbeat.server.operations.opentelemetry import OtlpSender
    from drumbeat.server.sign_in.session_check import SessionCheck
    from drumbeat.server.sign_in.settings import ProviderSettings
    from drumbeat.server.sign_in.sign_in import SignIn
import json
import resource

# The limit of open files: each page, follower, service and agent holds a connection.

MAX_FILES = 1 << 16
"""Not higher, because child processes inherit the limit, and some close every descriptor below it one by one."""


def raise_file_limit(most: int = MAX_FILES) -> None:
    """Raises the soft limit of open files to the hard one, or to `most` if that is lower."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = most if hard == resource.RLIM_INFINITY else min(hard, most)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


# The server's log as JSON, one object a line, for programs that collect logs.


class JsonFormatter(logging.Formatter):
    """Formats a record as `{"at", "level", "logger", "message", "thread"}`, with `exception` if there is one."""

    def format(self, record: logging.LogRecord) -> str:
        """Returns one line without newlines."""
        shown = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            "thread": record.threadName,
        }
        if record.exc_info:
            shown["exception"] = self.formatException(record.exc_info)
        return json.dumps(shown, ensure_ascii=False)


EXIT_TAKEN = 3
"""Exit code if another server runs in this home."""

log = logging.getLogger("drumbeat.server")


def main(make_control: Callable[[Path, Endpoints], Control], arguments: Sequence[str] | None = None) -> int:
    """Serves until it is stopped or idle. Returns the process's exit code."""
    options = parse(sys.argv[1:] if arguments is None else arguments)
    os.environ[MLFLOW] = options.mlflow
    raise_file_limit()
    try:
        home = Home.made(options.home)
        with home.lock():
            _log_to(home.path / "server.log", options.log_format)
            _audit_to(home.path / "audit.log")
            _serve(home, options, make_control)
    except ConflictError as error:
        return _refused(error, EXIT_TAKEN)
    except DrumbeatError as error:
        return _refused(error, 1)
    return 0


def _refused(error: DrumbeatError, code: int) -> int:
    print(error, file=sys.stderr)  # noqa: T201 - the process that started this one reads it
    return code


def _serve(home: Home, options: Options, make_control: Callable[[Path, Endpoints], Control]) -> None:
    from drumbeat.server.computes.agent_addresses import Endpoints

    require_not_replaced(home.path)
    signals = StopSignals()
    listeners = bind(options, home.last_port)
    port = listeners[0].getsockname()[1]
    home.keep_port(port)
    if options.name_warning:
        log.warning("%s", options.name_warning)
        print(options.name_warning, file=sys.stderr)  # noqa: T201 - the user who started it looks there
    at_home = home.listen()
    agent_listeners = _agent_listeners(home, options)
    azure = _azure_listener(home, options, agent_listeners)
    tls = _user_tls(options, agent_listeners)
    _keep_scoring(home, options)
    endpoints = Endpoints((home_socket.address_in(home.path),), agent_listeners, options.url_elsewhere(port))
    if options.provider_file:
        provider_settings(options.provider_file)  # Raises the errors of the file before anything is opened.
    control = make_control(home.path, endpoints)
    agent_listeners.reopen()
    azure.reopen()
    with ExitStack() as closes:
        closes.callback(log.info, "stopped")
        closes.callback(agent_listeners.close)
        closes.callback(azure.close)
        closes.callback(home.withdraw)
        while True:
            sign_in = _sign_in(options, control)
            with _running(control, options, sign_in):
                stand = Stand(home, options, control, agent_listeners, azure, tls, sign_in)
                options = _serve_on(stand, [*listeners, at_home], signals)
            if signals.is_told or not control.standby.is_replaced:
                return
            if control.store.is_alone:
                raise ConflictError("another server has taken over this home", where=str(home.path))
            listeners, at_home = bind(options, port), home.listen()
            control = make_control(home.path, endpoints)


def _serve_on(stand: Stand, listeners: list[socket.socket], signals: StopSignals) -> Options:
    """Serves until it is stopped or idle, or another server is the active one.

    Returns the options, with the changes since the start.
    """
    port = listeners[0].getsockname()[1]
    while True:
        options = replace(stand.options, idle_stop_s=_listen(stand, listeners, signals))
        if (
            signals.is_told
            or stand.control.standby.is_replaced
            or not (stand.control.must_stay() or stand.azure.is_promised())
        ):
            return options
        # A request came in at the very end of the idle time.
        stand = replace(stand, options=options)
        listeners = [*bind(options, port), stand.home.listen()]


@contextmanager
def _running(control: Control, options: Options, sign_in: SignIn | None) -> Generator[None]:
    """Starts a `Control`, and stops it at the end of the block."""
    sender = _otlp(options, control)
    check = _session_check(sign_in, control) if sign_in else None
    try:
        control.start()
        if sender:
            sender.start()
        if check:
            check.start()
        yield
    finally:
        if check:
            check.stop()
        if sender:
            sender.stop()
        control.stop()


def _otlp(options: Options, control: Control) -> OtlpSender | None:
    """Returns the sender to the collector; None = none is configured. Raises RefusedError."""
    if not options.otlp:
        return None
    try:
        from drumbeat.server.operations.opentelemetry import OtlpSender
    except ImportError as error:
        what = f"sending to an OpenTelemetry collector needs a package that isn't installed: {error.name}"
        raise RefusedError(what, where="--otlp", fix="Install it: pip install 'drumbeat[otel]'.") from None
    return OtlpSender(options.otlp, control)


def provider_settings(file: Path) -> ProviderSettings:
    """Reads the file of the identity provider. Raises SpecError; RefusedError where a package is missing."""
    try:
        import_module("authlib.oidc.core")
    except ImportError as error:
        what = f"signing in by an identity provider needs a package that isn't installed: {error.name}"
        raise RefusedError(what, where=str(file), fix="Install it: pip install 'drumbeat[oidc]'.") from None
    from drumbeat.server.sign_in.settings import read_settings

    return read_settings(file)


def _sign_in(options: Options, control: Control) -> SignIn | None:
    """Returns the sign-in by an identity provider; None = none is configured. Raises SpecError, RefusedError."""
    if options.provider_file is None:
        return None
    settings = provider_settings(options.provider_file)
    from drumbeat.server.access.home_token import user_of_server
    from drumbeat.server.sign_in.provider import Provider
    from drumbeat.server.sign_in.sign_in import SignIn

    provider = Provider(settings, control.setting.clock)
    return SignIn(provider, control.store, control.tokens, control.setting.key, user_of_server())


def _session_check(sign_in: SignIn, control: Control) -> SessionCheck:
    from drumbeat.server.sign_in.session_check import SessionCheck

    return SessionCheck(sign_in, control.setting.clock, lambda: control.is_active)


def _agent_listeners(home: Home, options: Options) -> TlsAgentListeners:
    """Returns the listeners for agents on other machines. Servers that share a folder share one authority."""
    from drumbeat.server.access.agent_listeners import AgentListenerRules, TlsAgentListeners

    authority = shared_folder(home.path, os.environ) / "ca.pem"
    return TlsAgentListeners(
        AgentListenerRules(authority, home.path / "doors.json", options.allow_public), SystemClock()
    )


def _user_tls(options: Options, agents: TlsAgentListeners) -> UserTls | None:
    """Returns the TLS of the server's own port; None = it is plain HTTP. Raises RefusedError, EngineError."""
    if not options.tls:
        return None
    from drumbeat.server.access.user_tls import CertificateFiles, OwnCertificate, UserTls

    if options.tls_cert and options.tls_key:
        return UserTls(CertificateFiles(options.tls_cert, options.tls_key), agents.rules)
    own = OwnCertificate(agents, options.names)
    own.context()  # Raises errors of the authority before anything is opened.
    return UserTls(own, agents.rules)


def _keep_scoring(home: Home, options: Options) -> None:
    """Keeps where clients on other machines call online endpoints. Raises RefusedError, StorageError."""
    if not options.scoring:
        return
    from drumbeat.server import scoring_address

    try:
        scoring_address.keep(home.path, options)
    except OSError as error:
        what = f"the address of online endpoints can't be kept: {error.strerror}"
        raise StorageError(what, where=str(home.path)) from error


def _azure_listener(home: Home, options: Options, agents: TlsAgentListeners) -> HttpsListener:
    """Returns the listener for Azure's clients: where the server itself listens, which is loopback by default."""
    from drumbeat.server.access.https_listener import HttpsAddress, HttpsListener

    host = "127.0.0.1" if options.host == "localhost" else options.host
    return HttpsListener(HttpsAddress(host, options.allow_hosts), home.path / "azure.json", agents)


@dataclass(frozen=True)
class Stand:
    """The parts of a server process."""

    home: Home
    options: Options
    control: Control
    agent_listeners: TlsAgentListeners
    azure: HttpsListener
    tls: UserTls | None
    sign_in: SignIn | None


def _listen(stand: Stand, listeners: list[socket.socket], signals: StopSignals) -> float:
    """Serves until it is stopped or idle. Returns the current idle timeout.

    listeners: of the server's port, and the one in the home folder.
    """
    from drumbeat.server.access.home_token import read_home_token
    from drumbeat.server.access.request_guard import allowed_hosts
    from drumbeat.server.app import make_app
    from drumbeat.server.context import Identity, ServerContext
    from drumbeat.server.process.uvicorn_server import StoppableServer

    home, options, port = stand.home, stand.options, listeners[0].getsockname()[1]
    hosts = allowed_hosts(port, (options.url_host, *options.allow_hosts))
    identity = Identity(*machine(), pid=os.getpid(), home=str(home.path))
    context = ServerContext(
        stand.control, identity, idle_stop_s=options.idle_stop_s, agent_listeners=stand.agent_listeners,
        azure=stand.azure, folder=str(home.path), service_host=options.host, tls=stand.tls, sign_in=stand.sign_in,
    )  # fmt: skip
    context.era = _era(home, context)
    app = make_app(context, token=read_home_token(home.path), hosts=hosts)
    url = options.url(port)
    running = StoppableServer(app, context, on_ready=lambda: _announce(home, context, url), on_end=home.withdraw)
    context.stop, signals.stop = signals.now, running.stop
    stand.control.standby.on_replaced = running.stop
    if not signals.is_told and not stand.control.standby.is_replaced:
        running.run(sockets=listeners)
    return context.idle_stop_s


def _era(home: Home, context: ServerContext) -> ServerEra:
    """Returns the era of this server, which stops when an agent has obeyed a later one."""
    from drumbeat.server.access.era_guard import ServerEra

    def replaced(era: int) -> None:
        log.error("an agent has heard from a server that was restored from a backup of this one: this one stops")
        note_replaced(home.path, era)
        context.stop()

    return ServerEra(read_era(shared_folder(home.path, os.environ)), context.control.setting.key, replaced)


def _announce(home: Home, context: ServerContext, url: str) -> None:
    identity = context.identity
    home.announce(
        {
            "url": url, "host": identity.host, "boot_id": identity.boot_id, "pid": identity.pid,
            "version": identity.version, "protocol": identity.protocol, "started_at": datetime.now(UTC).isoformat(),
            "home": identity.home,
        }
    )  # fmt: skip
    gc.freeze()  # Excludes everything that exists now from later collections.
    gc.enable()
    log.info("listening on %s, process %d", url, identity.pid)


class StopSignals:
    """Records whether a user or a signal stops the server. While uvicorn runs, it passes signals on."""

    def __init__(self) -> None:
        self.is_told = False
        self.stop: Callable[[], None] = _nothing
        for one in (signal.SIGTERM, signal.SIGINT):
            signal.signal(one, self._signalled)

    def now(self) -> None:
        """Stops the server, even if jobs are unfinished."""
        self.is_told = True
        self.stop()

    def _signalled(self, _signal: int, _frame: FrameType | None) -> None:
        self.now()


def _nothing() -> None:
    """Does nothing, while nothing runs that could be stopped."""


def _audit_to(file: Path) -> None:
    audit = logging.getLogger("drumbeat.audit")
    formatter = logging.Formatter("%(asctime)s %(message)s")
    formatter.default_time_format, formatter.default_msec_format = "%Y-%m-%dT%H:%M:%S", "%s.%03dZ"
    formatter.converter = time.gmtime
    audit.addHandler(_log_file(file, formatter))
    audit.propagate = False


def _log_file(file: Path, formatter: logging.Formatter) -> RotatingFileHandler:
    handler = RotatingFileHandler(file, maxBytes=5 << 20, backupCount=3)
    handler.setFormatter(formatter)
    file.chmod(0o600)
    return handler


def _log_to(file: Path, log_format: str) -> None:
    text = logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
    handler = _log_file(file, JsonFormatter() if log_format == "json" else text)
    # Only warnings from libraries, because those for stores log each URL including its signature.
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    logging.captureWarnings(capture=True)
    logging.getLogger("drumbeat").setLevel(logging.INFO)
