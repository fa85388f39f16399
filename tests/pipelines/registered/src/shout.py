import os
import sys

print(sys.argv[1].upper() + os.environ["MARK"])
