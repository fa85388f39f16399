"""Where things are kept: jobs in `sql`, their metrics in `metrics`, their files in `folder`. Nothing here decides."""
