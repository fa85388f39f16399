"""A rank whose log and metrics grow until it is ended: 100 lines and 10 points a second."""

import itertools
import time

import drumbeat

LINES, POINTS = 100, 10
"""In a second."""

begun = time.monotonic()
for number in itertools.count():
    loss = 1 / (1 + number / 500)
    print(f"epoch {number // 1000} step {number} loss {loss:.5f} samples/s {900 + number % 37}", flush=True)
    if number % (LINES // POINTS) == 0:
        drumbeat.log(loss=loss, accuracy=number % 37 / 37, step=number)
    time.sleep(max(0.0, begun + (number + 1) / LINES - time.monotonic()))
