"""Sign-in at an OpenID Connect provider: settings, flows, the users it admits, the ends of their sessions."""
