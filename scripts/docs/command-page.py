#!/usr/bin/env python3
"""Writes docs/reference/command.md from the help of `tenure`.

  scripts/docs/command-page.py [TENURE]           writes the page
  scripts/docs/command-page.py --check [TENURE]   fails if the page differs from the help

TENURE is the command, target/debug/tenure by default. Options that docs/reference/settings.md
explains are named and not explained here.
"""

import pathlib
import re
import subprocess
import sys
import textwrap

root = pathlib.Path(__file__).resolve().parents[2]
page = root / "docs/reference/command.md"
if "--help" in sys.argv[1:]:
    sys.exit(__doc__)
check = "--check" in sys.argv[1:]
tenure = ([word for word in sys.argv[1:] if word != "--check"] or [root / "target/debug/tenure"])[0]
# Options that most verbs have. The page explains them once.
common = {"--store", "--json", "--log-format", "--color"}
seen = set()
settings = set(re.findall(r"`(--[a-z-]+)`", (root / "docs/reference/settings.md").read_text()))


def help_of(verb):
    return subprocess.check_output([tenure, *verb, "--help"], text=True, env={"COLUMNS": "100"})


def section(text, name):
    """Returns the lines below a heading, up to the next heading."""
    found = re.search(rf"^{name}:\n(.*?)(?=^\S|\Z)", text, re.M | re.S)
    return found.group(1) if found else ""


def verbs(text):
    return [m for m in re.findall(r"^  ([a-z]+(?:-[a-z]+)*)  ", section(text, "Commands"), re.M) if m != "help"]


def options(text):
    """Yields the flag with its value, the summary, the default and the whole help of each option."""
    sections = re.findall(r"^([A-Z][A-Za-z ]*):\n((?: .*\n|\n)+)", text, re.M)
    below = "\n".join(lines for heading, lines in sections if heading not in ("Commands", "Exit codes"))
    for block in re.findall(r"^ {2,6}((?:-., )?(?:--|<|\[).*(?:\n(?: {10}.*)?)*)", below, re.M):
        flag, _, rest = block.partition("\n")
        if "--help" in flag or "--version" in flag:
            continue
        body = re.sub(r"\s+", " ", re.split(r"Possible values:|\n\s*\n", rest.strip())[0])
        default = re.search(r"\[default(?:, and at most)?: ([^\]]*)\]", re.sub(r"\s+", " ", rest))
        sentence = re.split(r"(?<=[a-z)`0-9])\. (?=[A-Z`])", re.sub(r"\[[^\]]*\]", "", body).strip())[0]
        yield flag, sentence.rstrip(".").strip(), default.group(1).strip() if default else "", rest


out = ["# The command", "", "<!-- Written by scripts/docs/command-page.py from `tenure VERB --help`. -->", ""]


def paragraph(text):
    out.extend([textwrap.fill(text, 100, break_long_words=False, break_on_hyphens=False), ""])


paragraph("Each verb has `-h` for a summary and `--help` for the whole text. `tenure man DIRECTORY` writes "
          "manual pages. [Settings](settings.md) has the options that are settings, with their variables and "
          "bounds. [Exit codes](errors.md#exit-codes) are on another page. Nearly all verbs take `--store`, "
          "`--log-format`, `--color` and `--json`, which prints JSON in place of lines for people. If several verbs "
          "have an option with the same words, this page shows it only at the first of them.")


def write(verb, depth):
    text = help_of(verb)
    about, usage = re.match(r"(.*?)\n\nUsage: (.*?)\n", text, re.S).groups()
    out.extend(["#" * depth + " " + " ".join(["tenure", *verb]), ""])
    paragraph(" ".join(about.split()) + ".")
    below = verbs(text)
    if below:
        for name in below:
            write([*verb, name], depth + 1)
        return
    for flag, sentence, default, rest in options(text):
        name = re.search(r"--[a-z-]+", flag)
        if name and name.group(0) in common:
            continue
        # A setting has a variable. Another option may have the name of a setting.
        if name and name.group(0) in settings and "[env: " in rest:
            continue
        if (flag, sentence) in seen:
            # Each verb shows its positional arguments, because a call without them fails.
            if not name:
                out.append(f"- `{flag}`: as above.")
            continue
        seen.add((flag, sentence))
        item = f"- `{flag}`: {sentence}." + (f" Default: {default}." if default else "")
        out.append(textwrap.fill(item, 100, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False))
    if out[-1].startswith(("- ", "  ")):
        out.append("")


for name in verbs(help_of([])):
    write([name], 2)
text = "\n".join(out).rstrip("\n") + "\n"
if not check:
    page.write_text(text)
elif page.read_text() != text:
    sys.exit(f"{page.relative_to(root)} differs from the help: run scripts/docs/command-page.py")
