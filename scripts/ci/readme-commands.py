#!/usr/bin/env python3
"""Prints the two set-up commands of the README, so that CI runs what a reader runs."""

import pathlib
import re
import sys

if "--help" in sys.argv[1:]:
    sys.exit(__doc__)

readme = pathlib.Path(__file__).resolve().parents[2] / "README.md"
section = readme.read_text().split("## Try it\n", 1)[1].split("\n## ", 1)[0]
blocks = re.findall(r"```sh\n(.*?)```", section, re.S)
commands = [line for block in blocks for line in block.splitlines() if line.strip()]
if len(commands) != 2:
    sys.exit(f"the README's section 'Try it' has {len(commands)} commands, not two")
print("\n".join(commands))
