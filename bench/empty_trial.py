"""`python empty_trial.py VALUE`: a trial that does nothing but log one value, and print it for the other tools."""

import sys

import drumbeat

drumbeat.log(score=float(sys.argv[1]))
print(sys.argv[1])
