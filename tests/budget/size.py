#!/usr/bin/env python3
"""size.py LIBRARY COMPILER: fails if it is larger than 1.6875 MiB, stripped. By a g++ after 12 it may be 1.8125 MiB.

It was a megabyte before there were flows, keyed limits and the policies around a call, a quarter more before the
windows of strict rates and the reader of the limits that servers tell, three eighths more before work_stealing, and a
half more before the alternatives of a limiter, and five eighths more before its sublimits.
"""

import pathlib
import shutil
import subprocess
import sys
import tempfile

MOST = (27 if int(sys.argv[2]) <= 12 else 29) << 16

if not shutil.which("strip"):
    print("skipped: strip is not installed")
    sys.exit(77)
dynamic = subprocess.run(["readelf", "--dynamic", sys.argv[1]], check=True, capture_output=True, text=True).stdout
if "libfmt.so" not in dynamic:
    print("skipped: fmt's own code is in the library, as fmt is no shared library here")
    sys.exit(77)
with tempfile.TemporaryDirectory() as folder:
    stripped = pathlib.Path(folder) / "library"
    subprocess.run(["strip", "-o", stripped, sys.argv[1]], check=True)
    size = stripped.stat().st_size
print(f"{size} bytes stripped, {MOST} are allowed")
sys.exit(1 if size > MOST else 0)
