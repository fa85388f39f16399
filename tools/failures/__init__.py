"""What each launcher's failures look like to a user, on every engine: real jobs that go wrong, and what was told."""
