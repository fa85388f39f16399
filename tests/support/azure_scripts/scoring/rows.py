"""Says how long each file is, times a factor."""

import argparse
import pathlib

factor = []


def init():
    parser = argparse.ArgumentParser()
    parser.add_argument("--factor", type=int)
    factor.append(parser.parse_known_args()[0].factor)


def run(mini_batch):
    return [f"{pathlib.Path(path).name} {len(pathlib.Path(path).read_text()) * factor[0]}" for path in mini_batch]
