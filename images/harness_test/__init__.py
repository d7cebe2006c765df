"""Tests of the harness: the real one, as a process, driven by frames.

The tests name their driver without the package, so that discovery works from
this folder as well as from the one above.
"""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
