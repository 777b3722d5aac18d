#!/usr/bin/env python3
"""Prints the licenses of all crates that the command may contain, with any feature. The licenses
require their texts in each distribution of the binary. If a crate contains no license file, the file
of another crate contains the same text."""

import json
import os
import subprocess
import sys
from pathlib import Path

if "--help" in sys.argv[1:]:
    sys.exit(__doc__)

os.chdir(Path(__file__).resolve().parents[2])


def cargo(*words):
    run = subprocess.run(["cargo", *words, "--locked"], stdout=subprocess.PIPE, text=True, check=True)
    return run.stdout


tree = cargo("tree", "-p", "tenure-cli", "--all-features", "--edges", "normal", "--prefix", "none",
             "--format", "{p}")
linked = {tuple(line.split()[:2]) for line in tree.splitlines() if line}
linked = {crate for crate in linked if crate[0].split("-")[0] != "tenure"}
crates, texts = [], {}
for package in json.loads(cargo("metadata", "--format-version", "1", "--all-features"))["packages"]:
    name, version = package["name"], package["version"]
    if (name, "v" + version) not in linked:
        continue
    folder = Path(package["manifest_path"]).parent
    names = ("LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE")
    files = [file for file in folder.iterdir() if file.is_file() and file.name.upper().startswith(names)]
    if package.get("license_file"):
        files.append(folder / package["license_file"])
    crates.append(f"{name} {version}: {package['license'] or 'see its file'}")
    for file in sorted(set(files)):
        text = file.read_text(errors="replace").strip().replace("\r\n", "\n")
        texts.setdefault(text, []).append(f"{name} {version}")
if len(crates) != len(linked):
    sys.exit(f"licenses: {len(linked)} crates are linked, and {len(crates)} were found")
print("The command tenure is linked with these crates:\n")
print("\n".join(sorted(crates)))
for text, of in sorted(texts.items(), key=lambda item: item[1]):
    print(f"\n{'=' * 80}\n{', '.join(of)}\n{'=' * 80}\n\n{text}")
