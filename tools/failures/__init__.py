"""What each launcher's failures look like to a person, on every engine: real jobs that go wrong, and what was told."""
