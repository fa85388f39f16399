"""The OpenID Connect provider: what it says of itself, its keys, and the tokens that it gives.

Foreign errors end here. `UnreachableError` = the provider doesn't answer as it should, for the moment;
`UnauthorizedError` = it answers, and refuses; `RefusedError` = what it sent isn't valid.
"""

from __future__ import annotations

import functools
import json
import logging
import ssl
import threading
from base64 import urlsafe_b64decode
from collections.abc import Callable, Mapping
from typing import Any, cast
from urllib.parse import urlencode, urlsplit

import httpx
from authlib.oauth2.auth import ClientAuth
from authlib.oidc.core import CodeIDToken
from joserfc import jwt
from joserfc.errors import (
    BadSignatureError,
    ExpiredTokenError,
    InvalidClaimError,
    InvalidKeyIdError,
    JoseError,
    MissingClaimError,
)
from joserfc.jwk import KeySet

from drumbeat.model.errors import DrumbeatError, ForbiddenError, RefusedError, UnauthorizedError, UnreachableError
from drumbeat.model.sign_in_codes import challenge_of
from drumbeat.ports.clock import Clock
from drumbeat.server.sign_in.provider_answer import (
    DeviceStart,
    LogoutToken,
    ProviderAnswer,
    SessionEndedError,
    SignInPendingError,
    claim_value,
    printable,
)
from drumbeat.server.sign_in.settings import LOOPBACK, ProviderClient, ProviderSettings

log = logging.getLogger(__name__)

TIMEOUT = httpx.Timeout(10.0, connect=5.0)
MAX_ANSWER = 1 << 20
DISCOVERY = "/.well-known/openid-configuration"
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Signatures by a key pair. With HS256 the client secret would be the key, and `none` is no signature."""
METADATA_AGE_S, KEYS_AGE_S = 3600.0, 3600.0
REFETCH_INTERVAL_S = 10.0
"""How often an unknown key may have the keys fetched again, so that forged tokens don't load the provider."""
DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
LOGOUT_EVENT = "http://schemas.openid.net/event/backchannel-logout"
_ENDPOINTS = ("authorization_endpoint", "token_endpoint", "jwks_uri")
_OTHER_ENDPOINTS = ("userinfo_endpoint", "device_authorization_endpoint")
MAX_LOGOUT_AGE_S = 300.0


@functools.cache
def _system_trust() -> ssl.SSLContext:
    """The system's certificates: to read them takes longer than a request."""
    return httpx.create_ssl_context()


class Provider:
    """Talks to one provider. Thread-safe; its methods block for seconds while it is slow."""

    def __init__(self, settings: ProviderSettings, clock: Clock) -> None:
        self.settings, self.clock = settings, clock
        self._own_trust = ssl.create_default_context(cafile=settings.ca_file) if settings.ca_file else None
        self._lock = threading.Lock()
        self._metadata: dict[str, Any] | None = None
        self._keys: KeySet | None = None
        self._metadata_at = self._keys_at = float("-inf")

    # --- what it says of itself -----------------------------------------------------------------------------------
    def metadata(self) -> Mapping[str, Any]:
        """Returns its discovery document; the one before while it doesn't answer.

        Raises UnreachableError, RefusedError.
        """
        now = self._now_s()
        with self._lock:
            current, age = self._metadata, now - self._metadata_at
        if current is not None and 0 <= age < METADATA_AGE_S:
            return current
        try:
            fetched = self._discovered()
        except UnreachableError as error:
            if current is None:
                raise
            log.warning("sign-in goes on with what %s said before: %s", self.settings.title, error)
            fetched = current
        with self._lock:
            self._metadata, self._metadata_at = dict(fetched), now
        return fetched

    def _discovered(self) -> Mapping[str, Any]:
        issuer = self.settings.issuer
        fields = self._json(self._get(issuer.rstrip("/") + DISCOVERY))
        if fields.get("issuer") != issuer:
            what = f"the provider calls itself {str(fields.get('issuer'))[:200]!r}, and not {issuer!r}"
            raise RefusedError(what, where="issuer", fix="Write the issuer exactly as the provider does.")
        for key in (*_ENDPOINTS, *(one for one in _OTHER_ENDPOINTS if one in fields)):
            address = urlsplit(str(fields.get(key, "")))
            is_safe = address.scheme == "https" or address.hostname in LOOPBACK
            if not address.hostname or not is_safe or address.scheme not in ("http", "https"):
                raise RefusedError(f"the provider names no safe address of its {key}", where=issuer)
        return fields

    @property
    def has_device_flow(self) -> bool:
        """Whether the provider has the device flow, by what it said last."""
        return "device_authorization_endpoint" in self.metadata()

    def authorization_url(self, redirect_uri: str, state: str, nonce: str, verifier: str) -> str:
        """Returns where the browser goes. Raises UnreachableError, RefusedError."""
        endpoint = str(self.metadata()["authorization_endpoint"])
        fields = {
            **self.settings.authorize_parameters,
            "response_type": "code",
            "client_id": self.settings.client.id,
            "redirect_uri": redirect_uri,
            "scope": self.settings.scopes,
            "state": state,
            "nonce": nonce,
            "code_challenge": challenge_of(verifier),
            "code_challenge_method": "S256",
        }
        return f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(fields)}"

    # --- tokens -----------------------------------------------------------------------------------------------------
    def redeem(self, code: str, redirect_uri: str, verifier: str, nonce: str) -> ProviderAnswer:
        """Returns what a code stands for. Raises UnauthorizedError, UnreachableError, RefusedError."""
        given = self._grant(
            self.settings.client, "authorization_code", code=code, redirect_uri=redirect_uri, code_verifier=verifier
        )
        return self._answer(given, self.settings.client, nonce)

    def refresh(
        self, refresh_token: str, subject: str, *, by_device: bool, keep: Callable[[str], None]
    ) -> ProviderAnswer:
        """Returns what the provider says of a session now. Raises SessionEndedError, UnreachableError, RefusedError.

        keep: called with the next refresh token before anything else can fail, since many are accepted only once.
        """
        client = self._device_client if by_device else self.settings.client
        given = self._grant(client, "refresh_token", refresh_token=refresh_token)
        kept = str(given.get("refresh_token") or refresh_token)
        keep(kept)
        if "id_token" in given:
            answer = self._answer(given, client, "")
        else:
            answer = ProviderAnswer(self._userinfo(given, subject) or {"sub": subject}, kept)
        if answer.subject != subject:
            raise RefusedError("the provider answered for another user", where=self.settings.issuer)
        return ProviderAnswer(answer.claims, kept)

    def start_device(self) -> DeviceStart:
        """Begins a sign-in by the device flow. Raises RefusedError where there is none, and UnreachableError."""
        endpoint = self.metadata().get("device_authorization_endpoint")
        if not isinstance(endpoint, str):
            raise RefusedError(f"{self.settings.title} has no device flow", fix="Sign in by a browser: --by browser")
        fields = self._post(self._device_client, endpoint, {"scope": self.settings.scopes})
        try:
            return DeviceStart(
                str(fields["device_code"]), str(fields["user_code"]),
                str(fields.get("verification_uri") or fields["verification_url"]),  # Google's old name.
                str(fields.get("verification_uri_complete") or ""),
                min(float(fields["expires_in"]), 3600.0), min(max(float(fields.get("interval", 5)), 1.0), 60.0),
            )  # fmt: skip
        except (KeyError, TypeError, ValueError):
            raise UnreachableError(f"{self.settings.title} began no device flow", where=endpoint) from None

    def poll_device(self, device_code: str) -> ProviderAnswer:
        """Returns who has signed in by a device code. Raises SignInPendingError until then, UnauthorizedError."""
        given = self._grant(self._device_client, DEVICE_GRANT, device_code=device_code)
        return self._answer(given, self._device_client, "")

    @property
    def _device_client(self) -> ProviderClient:
        return self.settings.device_client or self.settings.client

    def _answer(self, given: Mapping[str, Any], client: ProviderClient, nonce: str) -> ProviderAnswer:
        access = given.get("access_token")
        claims = self._id_token(given.get("id_token"), client, nonce, access if isinstance(access, str) else "")
        settings = self.settings
        if any(claim_value(claims, one) is None for one in (settings.name_claim, settings.groups_claim)):
            claims = {**self._userinfo(given, str(claims["sub"])), **claims}
        return ProviderAnswer(claims, str(given.get("refresh_token") or ""))

    def _userinfo(self, given: Mapping[str, Any], subject: str) -> Mapping[str, Any]:
        """Returns the claims of the userinfo endpoint; {} = there is none. Raises RefusedError for another user's."""
        endpoint, access = self.metadata().get("userinfo_endpoint"), given.get("access_token")
        if not isinstance(endpoint, str) or not isinstance(access, str):
            return {}
        fields = self._json(self._get(endpoint, {"Authorization": f"Bearer {access}"}))
        if fields.get("sub") != subject:
            raise RefusedError("the provider's userinfo is that of another user", where=endpoint)
        return fields

    def _id_token(self, text: object, client: ProviderClient, nonce: str, access_token: str) -> Mapping[str, Any]:
        """Returns the claims of a valid ID token. Raises RefusedError, UnreachableError."""
        token = self._signed(text, "ID token", is_direct=True)
        expected: Any = {
            "iss": {"essential": True, "value": self.settings.issuer},
            "aud": {"essential": True, "value": client.id},
        }
        parameters = {"client_id": client.id, "nonce": nonce, "access_token": access_token}
        claims: Any = CodeIDToken(token.claims, token.header, options=expected, params=parameters)
        skew_s = int(self.settings.clock_skew.total_seconds())
        try:
            claims.validate(now=int(self._now_s()), leeway=skew_s)
            if nonce and claims.get("nonce") != nonce:
                raise InvalidClaimError("nonce")
        except (ExpiredTokenError, InvalidClaimError, MissingClaimError, JoseError) as error:
            # It was issued just now, so its time is the provider's.
            issued = claims.get("iat")
            ahead_s = issued - self._now_s() if isinstance(issued, (int, float)) else 0.0
            raise self._invalid("ID token", error, ahead_s) from None
        if not isinstance(claims["sub"], str) or not 0 < len(claims["sub"]) <= 255:
            raise RefusedError("the provider's ID token has no usable `sub`", where=self.settings.issuer)
        return dict(claims)

    def read_logout_token(self, text: str) -> LogoutToken:
        """Returns what a logout token (OpenID Connect Back-Channel Logout 1.0) ends. Raises RefusedError."""
        token = self._signed(text, "logout token", is_direct=False)
        claims: Mapping[str, Any] = token.claims
        audience = claims.get("aud")
        audiences = cast("list[Any]", audience) if isinstance(audience, list) else [audience]
        clients = {self.settings.client.id, self._device_client.id}
        issued, events = claims.get("iat"), claims.get("events")
        skew_s = self.settings.clock_skew.total_seconds()
        subject, sid = claims.get("sub"), claims.get("sid")
        is_recent = isinstance(issued, (int, float)) and -skew_s <= self._now_s() - issued <= MAX_LOGOUT_AGE_S + skew_s
        is_valid = (
            claims.get("iss") == self.settings.issuer
            and bool(clients & {one for one in audiences if isinstance(one, str)})
            and isinstance(events, dict)
            and LOGOUT_EVENT in events
            and "nonce" not in claims
            and is_recent
            and (isinstance(subject, str) or isinstance(sid, str))
        )
        if not is_valid:
            raise RefusedError("the logout token isn't valid here", where=self.settings.issuer)
        return LogoutToken(subject if isinstance(subject, str) else "", sid if isinstance(sid, str) else "")

    def _signed(self, text: object, what: str, *, is_direct: bool) -> jwt.Token:
        """Returns a token whose signature is by one of the provider's keys. Raises RefusedError, UnreachableError.

        is_direct: it came from the provider itself, and not from anyone who calls this server.
        """
        if not isinstance(text, str) or len(text) > MAX_ANSWER:
            fix = "Is `openid` among the scopes?"
            raise RefusedError(f"the provider sent no {what}", where=self.settings.issuer, fix=fix)
        named = self.metadata().get("id_token_signing_alg_values_supported")
        algorithms = [one for one in ALGORITHMS if not isinstance(named, list) or one in named]
        keys = self._key_set()
        try:
            try:
                return self._decoded(text, keys, algorithms)
            except (InvalidKeyIdError, BadSignatureError):
                # Keys rotate: one that wasn't fetched yet is looked for once.
                newer = self._key_set(than=keys, interval_s=0.0 if is_direct else REFETCH_INTERVAL_S)
                if newer is keys:
                    raise
                return self._decoded(text, newer, algorithms)
        except (JoseError, ValueError, TypeError, KeyError) as error:
            raise self._invalid(what, error) from None

    @staticmethod
    def _decoded(text: str, keys: KeySet, algorithms: list[str]) -> jwt.Token:
        """Returns a token by the key that it names, or by any that fits where it names none. Raises JoseError."""
        try:
            return jwt.decode(text, keys, algorithms=algorithms)
        except InvalidKeyIdError:
            header = json.loads(_segment(text))
            if "kid" in header:
                raise
            last: JoseError | None = None
            for key in keys:
                try:
                    return jwt.decode(text, key, algorithms=algorithms)
                except JoseError as error:
                    last = error
            raise last or InvalidKeyIdError from None

    def _key_set(self, than: KeySet | None = None, interval_s: float = REFETCH_INTERVAL_S) -> KeySet:
        """Returns the keys. than: those that don't fit, which are fetched again unless they are younger."""
        now = self._now_s()
        with self._lock:
            current, age = self._keys, now - self._keys_at
        if current is not None and 0 <= age < (interval_s if than is current else KEYS_AGE_S):
            return current
        try:
            document = self._json(self._get(self.metadata()["jwks_uri"]))
            fetched = KeySet.import_key_set(cast("Any", document))
        except UnreachableError as error:
            if current is None:
                raise
            log.warning("the keys of %s stay those from before: %s", self.settings.title, error)
            return current
        except (JoseError, KeyError, TypeError, ValueError) as error:
            if current is None:
                raise UnreachableError(
                    f"the provider's keys can't be read: {error}", where=self.settings.issuer
                ) from None
            return current
        with self._lock:
            self._keys, self._keys_at = fetched, now
        return fetched

    def _invalid(self, what: str, error: Exception, ahead_s: float = 0.0) -> DrumbeatError:
        """Returns the error for a token that isn't valid. ahead_s: of the provider's clock; named if that is far."""
        reason = str(error).partition(":")[2].strip() or str(error) or type(error).__name__
        text = f"the {what} of {self.settings.title} isn't valid: {reason}"
        if abs(ahead_s) <= self.settings.clock_skew.total_seconds():
            return RefusedError(text, where=self.settings.issuer)
        ahead = "ahead of" if ahead_s > 0 else "behind"
        text += f"; its clock is {abs(ahead_s):.0f} s {ahead} this server's"
        return RefusedError(text, where=self.settings.issuer, fix="Set both clocks by NTP.")

    # --- requests -------------------------------------------------------------------------------------------------
    def _grant(self, client: ProviderClient, grant_type: str, **fields: str) -> Mapping[str, Any]:
        return self._post(client, self.metadata()["token_endpoint"], {"grant_type": grant_type, **fields})

    def _post(self, client: ProviderClient, url: str, fields: Mapping[str, str]) -> Mapping[str, Any]:
        """Sends a form as the client, and returns the answer. Raises as `_refused` says, and UnreachableError."""
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
        auth: Any = ClientAuth(client.id, client.secret, self.settings.token_auth)
        if client.secret:
            uri, headers, body = auth.prepare("POST", url, headers, urlencode(fields))
        else:
            uri, body = url, urlencode({**fields, "client_id": client.id})
        answer = self._sent(lambda http: http.post(uri, headers=headers, content=body))
        if answer.status_code >= 500 or answer.status_code == 429:
            raise UnreachableError(f"{self.settings.title} answered {answer.status_code}", where=url)
        given = self._json(answer)
        if answer.status_code >= 400 or "error" in given:
            raise self._refused(str(given.get("error", answer.status_code)), str(given.get("error_description") or ""))
        return given

    def _refused(self, error: str, description: str) -> DrumbeatError:
        """Returns the error for an OAuth error (RFC 6749 section 5.2, RFC 8628 section 3.5)."""
        title, text = self.settings.title, printable(f"{error}: {description}" if description else error)
        if error in ("authorization_pending", "slow_down"):
            return SignInPendingError(f"{title} waits for the user", slow_down=error == "slow_down")
        if error == "invalid_grant":
            return SessionEndedError(f"{title} takes this no more: {text}", fix="Sign in again.")
        if error == "expired_token":
            return UnauthorizedError(f"the code has expired at {title}", fix="Sign in again.")
        if error == "access_denied":
            return ForbiddenError(f"{title} says that access was denied")
        # Such as invalid_client: a fault of the settings, which ends no session.
        fix = "Check client_id, client_secret_file and token_auth in the server's file of the provider."
        return UnreachableError(f"{title} refuses this server: {text}", where=self.settings.issuer, fix=fix)

    def _get(self, url: str, headers: Mapping[str, str] | None = None) -> httpx.Response:
        answer = self._sent(lambda http: http.get(url, headers=headers))
        if answer.status_code != 200:
            raise UnreachableError(f"{self.settings.title} answered {answer.status_code}", where=url)
        return answer

    def _sent(self, send: Callable[[httpx.Client], httpx.Response]) -> httpx.Response:
        title, issuer = self.settings.title, self.settings.issuer
        trust = self._own_trust or _system_trust()
        try:
            with httpx.Client(timeout=TIMEOUT, verify=trust, follow_redirects=False) as http:
                answer = send(http)
        except httpx.TimeoutException:
            what = f"{title} doesn't answer within {TIMEOUT.read:g} s"
            raise UnreachableError(what, where=issuer, fix="Try again in a moment.") from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise UnreachableError(
                f"{title} can't be reached: {error}", where=issuer, fix="Try again in a moment."
            ) from None
        return answer

    def _json(self, answer: httpx.Response) -> dict[str, Any]:
        try:
            fields = answer.json() if len(answer.content) <= MAX_ANSWER else None
        except ValueError:
            fields = None
        if not isinstance(fields, dict):
            what = f"{self.settings.title} answered {answer.status_code} with something that isn't a JSON object"
            raise UnreachableError(what, where=str(answer.url)[:200])
        return cast("dict[str, Any]", fields)

    def _now_s(self) -> float:
        return self.clock.now().timestamp()


def _segment(token: str) -> bytes:
    head = token.partition(".")[0]
    return urlsafe_b64decode(head + "=" * (-len(head) % 4))
