#!/usr/bin/env python3
"""Makes the runs of docs/choosing.md and writes their figures into it:

    tools/choosing.py build/lockstep docs/choosing.md [--check]

Every indented lockstep command of the page is run, in order, in one empty folder. A line

    <!-- figures: mean_ttft_ms=mean TTFT, ms; ... -->

after a command asks for a table of its runs with these figures, which goes between that line and the next <!-- end -->. A line

    <!-- holds: chunked p99_itl_ms < 0.5 vllm_v0 p99_itl_ms -->

after it is what an advice rests on: a figure of one run below a factor times that of another. With --check nothing is written:
exit status 1 when a figure is no longer what the page says, or when an advice does not hold.
"""

import json
import pathlib
import shlex
import subprocess
import sys
import tempfile

program = str(pathlib.Path(sys.argv[1]).resolve())
page = pathlib.Path(sys.argv[2])
check = "--check" in sys.argv[3:]
complaints = []


def run(command, folder):
    """The runs of a command, by their label; nothing of one that prints no figures."""
    words = shlex.split(command)[1:]
    prints = words[0] in ("compare", "replay", "slo")
    extra = ["--json"] if prints else []
    if words[0] in ("compare", "replay"):
        extra.append("--no-db")
    done = subprocess.run([program, *words, *extra], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"{command}\n{done.stderr}")
    if not prints:
        return {}
    printed = json.loads(done.stdout)
    runs = printed.get("runs") or printed.get("configurations") or [printed]
    return {run["label"]: run for run in runs}


def number(v):
    if v is None:
        return "-"
    if isinstance(v, str):
        return v
    if v == 0 or abs(v) >= 1000:
        return f"{v:,.0f}"
    return f"{v:#.3g}".rstrip(".") if not float(v).is_integer() else f"{v:.0f}"


def table(runs, columns):
    columns = [c.strip().split("=", 1) for c in columns.split(";")]
    lines = ["| | " + " | ".join(title for _, title in columns) + " |", "| --- |" + " ---: |" * len(columns)]
    for label, figures in runs.items():
        # dollars_per_good_request*1000
        values = [(key.split("*") + [1])[:2] for key, _ in columns]
        cells = [number(figures[k] if figures[k] is None or isinstance(figures[k], str) else figures[k] * float(f)) for k, f in values]
        lines.append(f"| {label} | " + " | ".join(cells) + " |")
    return lines


def judge(rule, runs):
    a, key_a, _, factor, b, key_b = shlex.split(rule)
    if a not in runs or b not in runs:
        sys.exit(f"{rule}: there are only {', '.join(runs)}")
    if not runs[a][key_a] < float(factor) * runs[b][key_b]:
        complaints.append(f"does not hold any more: {rule} ({runs[a][key_a]:.6g}, {runs[b][key_b]:.6g})")


def renew(text, folder):
    out, runs, command, skipping = [], {}, "", False
    for line in text.splitlines():
        if line == "<!-- end -->":
            skipping = False
        if skipping:
            continue
        out.append(line)
        if command or line.startswith("    lockstep "):
            command += line.strip().rstrip("\\") + " "
            if not line.endswith("\\"):
                runs, command = run(command, folder) or runs, ""
        elif line.startswith("<!-- figures: "):
            out += table(runs, line[14:-4])
            skipping = True
        elif line.startswith("<!-- holds: "):
            judge(line[12:-4], runs)
    return "\n".join(out) + "\n"


before = page.read_text()
with tempfile.TemporaryDirectory() as where:
    after = renew(before, where)
if check:
    for old, new in zip(before.splitlines(), after.splitlines()):
        if old != new:
            complaints.append(f"the page says {old}\n     the run {new}   (`make choosing` writes what runs give)")
else:
    page.write_text(after)
print("\n".join(complaints) if complaints else f"{page}: {'as the runs have it' if check else 'written'}")
sys.exit(1 if complaints else 0)
