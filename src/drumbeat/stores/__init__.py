"""Where things are kept: `sql` is the `Store` port, `folder` the `Artifacts` port. Nothing here decides anything."""
