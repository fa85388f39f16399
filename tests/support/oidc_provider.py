"""`oidc-provider-mock` as a process, with what it lacks: PKCE, the device flow, rotating keys, faults.

    python -m tests.support.oidc_provider PORT

A test sets what the provider does by `POST /test/set`, and reads what it was asked by `GET /test/seen`.
"""

# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
# (flask and authlib leave types out)

from __future__ import annotations

import hashlib
import sys
import time
import warnings
from base64 import urlsafe_b64encode
from typing import Any
from urllib.parse import parse_qs, urlsplit

warnings.simplefilter("ignore")

import flask  # noqa: E402
from authlib import jose  # noqa: E402
from joserfc import jwt  # noqa: E402
from joserfc.jwk import OctKey, RSAKey  # noqa: E402
from oidc_provider_mock import app as provider_app  # noqa: E402

DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"


class Faults:
    """What the provider does wrong, as a test has set it."""

    def __init__(self) -> None:
        self.status = 0
        """Every answer's status; 0 = as it should be."""
        self.slow_s = 0.0
        self.clock_s = 0.0
        """How far its clock is ahead."""
        self.claims: dict[str, Any] = {}
        """Claims of ID tokens that replace the right ones; None = left out."""
        self.alg = ""
        """The algorithm of ID tokens that the provider doesn't sign as it should."""
        self.device = True
        self.interval = 1
        self.hidden: list[str] = []
        """Claims that are only in the userinfo."""


class Extended:
    """The mock's app, extended."""

    def __init__(self) -> None:
        self.app = provider_app()
        self.faults, self.seen = Faults(), list[dict[str, Any]]()
        self.challenges: dict[str, str] = {}
        self.devices: dict[str, dict[str, Any]] = {}
        self.app.before_request(self.before)
        self.app.after_request(self.after)
        self.app.add_url_rule("/test/set", view_func=self.set, methods=["POST"])
        self.app.add_url_rule("/test/rotate", view_func=self.rotate, methods=["POST"])
        self.app.add_url_rule("/test/seen", view_func=lambda: flask.jsonify(self.seen))
        self.app.add_url_rule("/test/approve", view_func=self.approve, methods=["POST"])
        self.app.add_url_rule("/test/logout-token", view_func=self.logout_token, methods=["POST"])
        self.app.add_url_rule("/device", view_func=self.device, methods=["POST"])

    @property
    def storage(self) -> Any:
        return flask.g.oidc_provider_mock_storage

    def set(self) -> Any:
        for key, value in (flask.request.json or {}).items():
            assert hasattr(self.faults, key), key
            setattr(self.faults, key, value)
        return "", 204

    def rotate(self) -> Any:
        self.storage.jwk = jose.RSAKey.generate_key(is_private=True)
        return "", 204

    # --- before and after the mock ---
    def before(self) -> Any:
        path, faults = flask.request.path, self.faults
        if path.startswith("/test/"):
            return None
        self.seen.append({"path": path, "args": flask.request.args.to_dict(), "form": flask.request.form.to_dict()})
        time.sleep(faults.slow_s)
        if faults.status:
            return "out of order", faults.status
        if path == "/oauth2/token":
            return self.before_token()
        return None

    def before_token(self) -> Any:
        form = flask.request.form
        if form.get("grant_type") == DEVICE_GRANT:
            return self.device_token(form.get("device_code", ""))
        if form.get("grant_type") == "authorization_code":
            digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
            challenge = urlsafe_b64encode(digest).decode().rstrip("=")
            if self.challenges.get(form.get("code", "")) != challenge:
                return flask.jsonify(error="invalid_grant", error_description="PKCE failed"), 400
        return None

    def after(self, answer: Any) -> Any:
        path, args = flask.request.path, flask.request.args
        if path == "/oauth2/authorize" and answer.status_code == 302:
            code = parse_qs(urlsplit(answer.headers["Location"]).query).get("code", [""])[0]
            self.challenges[code] = args.get("code_challenge", "")
        if path.endswith("openid-configuration") and answer.status_code == 200 and self.faults.device:
            found = answer.get_json()
            found["device_authorization_endpoint"] = found["issuer"] + "/device"
            answer.set_data(flask.json.dumps(found))
        if path == "/oauth2/token" and answer.status_code == 200:
            found = answer.get_json()
            if "id_token" in found:
                found["id_token"] = self.signed_anew(found["id_token"])
                answer.set_data(flask.json.dumps(found))
        return answer

    def now(self) -> int:
        return int(time.time() + self.faults.clock_s)

    def signed_anew(self, text: str) -> str:
        """Returns the ID token with the faults that the test wants; signed rightly without any."""
        claims = dict(jwt.decode(text, RSAKey.import_key(self.storage.jwk.as_dict(is_private=True))).claims)
        claims.update(iat=self.now(), exp=self.now() + 3600, sid=f"sid-{claims['sub']}")
        claims.update(self.faults.claims)
        claims = {key: one for key, one in claims.items() if one is not None and key not in self.faults.hidden}
        return self.sign(claims)

    def sign(self, claims: dict[str, Any]) -> str:
        key = RSAKey.import_key(self.storage.jwk.as_dict(is_private=True))
        if self.faults.alg == "none":
            head, body = (
                urlsafe_b64encode(flask.json.dumps(one).encode()).decode().rstrip("=")
                for one in ({"alg": "none", "typ": "JWT"}, claims)
            )
            return f"{head}.{body}."
        if self.faults.alg == "HS256":
            public = key.as_pem(private=False)
            return jwt.encode({"alg": "HS256"}, claims, OctKey.import_key(public.hex().encode()))
        if self.faults.alg == "foreign":
            return jwt.encode({"alg": "RS256", "kid": key.ensure_kid() or key.kid}, claims, RSAKey.generate_key(2048))
        return jwt.encode({"alg": "RS256", "kid": self.storage.jwk.thumbprint()}, claims, key)

    # --- the device flow (RFC 8628), which the mock doesn't have ---
    def device(self) -> Any:
        number = len(self.devices) + 1
        root = flask.request.host_url.rstrip("/")
        client = flask.request.form.get("client_id") or (flask.request.authorization or {}).get("username", "")
        self.devices[f"device-{number}"] = {"user_code": f"CODE-{number}", "client": client, "sub": ""}
        return flask.jsonify(
            device_code=f"device-{number}", user_code=f"CODE-{number}", verification_uri=f"{root}/activate",
            verification_uri_complete=f"{root}/activate?user_code=CODE-{number}", expires_in=600,
            interval=self.faults.interval,
        )  # fmt: skip

    def approve(self) -> Any:
        given = flask.request.json or {}
        for one in self.devices.values():
            if one["user_code"] == given["user_code"]:
                one["sub"] = given["sub"]
        return "", 204

    def device_token(self, code: str) -> Any:
        one = self.devices.get(code)
        if one is None:
            return flask.jsonify(error="invalid_grant"), 400
        if not one["sub"]:
            return flask.jsonify(error="authorization_pending"), 400
        if one["sub"] == "denied":
            return flask.jsonify(error="access_denied"), 400
        del self.devices[code]
        user = self.storage.get_user(one["sub"])
        from datetime import UTC, datetime, timedelta

        from oidc_provider_mock._storage import AccessToken, RefreshToken

        tokens = {"access_token": f"access-{code}", "refresh_token": f"refresh-{code}-{user.sub}"}
        ends = datetime.now(UTC) + timedelta(hours=1)
        common: dict[str, Any] = {"user_id": user.sub, "scope": "openid profile email", "expires_at": ends}
        self.storage.store_access_token(AccessToken(token=tokens["access_token"], **common))
        refresh = RefreshToken(
            token=tokens["refresh_token"], access_token=tokens["access_token"], client_id=one["client"], **common
        )
        self.storage.store_refresh_token(refresh)
        issuer = flask.request.host_url.rstrip("/")
        claims = {**user.claims, "sub": user.sub, "iss": issuer, "aud": one["client"], "iat": 0, "exp": 0}
        text = jwt.encode({"alg": "RS256"}, claims, RSAKey.import_key(self.storage.jwk.as_dict(is_private=True)))
        return flask.jsonify(token_type="Bearer", expires_in=3600, id_token=text, **tokens)

    def logout_token(self) -> Any:
        issuer = flask.request.host_url.rstrip("/")
        claims: dict[str, Any] = {
            "iss": issuer, "aud": "drumbeat", "iat": self.now(), "exp": self.now() + 120, "jti": str(time.time()),
            "events": {"http://schemas.openid.net/event/backchannel-logout": {}},
        }  # fmt: skip
        claims.update(flask.request.json or {})
        return self.sign({key: one for key, one in claims.items() if one is not None})


def main() -> None:
    """Serves at the port until it is ended."""
    Extended().app.run("127.0.0.1", int(sys.argv[1]), debug=False, threaded=True, use_reloader=False)


if __name__ == "__main__":
    main()
