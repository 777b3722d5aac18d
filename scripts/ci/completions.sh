#!/usr/bin/env bash
# Completes a verb, a flag and the value of a flag in bash, zsh and fish, with Tab at a terminal.
# Fails if a shell completes one of them wrongly. Skips all three shells if zsh or fish is missing.
#
# TENURE=FILE is the command that prints the completions, target/debug/tenure by default.
set -euo pipefail
. "$(dirname "$0")/../lib.sh"

tenure=$(realpath "${TENURE:-${CARGO_TARGET_DIR:-$root/target}/debug/tenure}")
need bash zsh fish

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
mkdir bin home
# This command replaces tenure. It prints its arguments, which show the line that Tab has completed.
printf '#!/bin/sh\necho "given: $*."\n' >bin/tenure
chmod +x bin/tenure
# The completions are installed for one user, as docs/start/install.md describes.
mkdir -p home/zsh home/.config/fish/completions
"$tenure" completions bash >home/tenure.bash
"$tenure" completions zsh >home/zsh/_tenure
"$tenure" completions fish >home/.config/fish/completions/tenure.fish
cat >home/.bashrc <<'EOF'
. ~/tenure.bash
PS1='ready> '
EOF
cat >home/.zshrc <<'EOF'
fpath=(~/zsh $fpath)
autoload -Uz compinit && compinit -u
PS1='ready> '
EOF
cat >home/.config/fish/config.fish <<'EOF'
set -g fish_greeting
function fish_prompt; echo -n 'ready> '; end
EOF

python3 - "$work" <<'EOF'
import os, pty, re, select, signal, sys, time

work = sys.argv[1]
DEADLINE = 120  # Time limit in seconds. Even a loaded machine needs less.
# Each element contains a description, the typed keys, and the arguments that the command then gets.
LINES = [
    ("a verb", "tenure stat\t\r", "status"),
    ("a verb of a verb", "tenure group resi\t4\r", "group resize 4"),
    ("a flag", "tenure compact --min\t1h\r", "compact --min-age 1h"),
    ("a flag's value", "tenure status --layout e\t--json\r", "status --layout epoch-files --json"),
    ("a field", "tenure status --field ca\t\r", "status --field candidate"),
    ("a group's field", "tenure group status --field mem\t\r", "group status --field members"),
]


class Terminal:
    def __init__(self, command):
        self.seen = ""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            environment = {"HOME": work + "/home", "PATH": work + "/bin:" + os.environ["PATH"]}
            environment |= {"TERM": "xterm", "LC_ALL": "C.UTF-8", "COLUMNS": "200"}
            os.execvpe(command[0], command, environment)

    def type(self, text):
        os.write(self.fd, text.encode())

    # Reads until the terminal shows this text. Drops the output up to the end of the text.
    def wait_for(self, what):
        give_up_at = time.monotonic() + DEADLINE
        while not (found := re.search(what, self.seen)):
            readable, _, _ = select.select([self.fd], [], [], max(0, give_up_at - time.monotonic()))
            try:
                more = os.read(self.fd, 65536) if readable else b""
            except OSError:  # The shell has ended.
                more = b""
            if not more:
                sys.exit(f"{what!r} is not in {self.seen!r}")
            self.seen += more.decode(errors="replace")
        self.seen = self.seen[found.end():]
        return found

    def end(self):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.fd)


for command in (["bash", "-i"], ["zsh", "-i"], ["fish", "-i"]):
    terminal = Terminal(command)
    terminal.wait_for("ready> ")
    for what, line, given in LINES:
        terminal.type(line)
        # zsh completes `--min-age=1h` in place of `--min-age 1h`.
        got = terminal.wait_for(r"given: ([^\r\n]*)\.\r?\n").group(1).replace("=", " ")
        if got != given:
            sys.exit(f"{command[0]} completes {line!r} to {got!r} and not to {given!r}")
        terminal.wait_for("ready> ")
    terminal.end()
    print(f"{command[0]}: passed, it completes " + ", ".join(what for what, _, _ in LINES))
EOF
