"""The labelled set of hangs and of silences that are none: `make hangs` runs it and writes its table."""
