#!/usr/bin/env python3
"""Writes the figures of docs/labs/*/solution.json anew from the runs they are read off, after a change that moves them:

    tools/lab_solutions.py build/lockstep

What a student finds or chooses (settings, choices, predictions) stays as it is; `lockstep lab grade` tells whether it still does.
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile

program = str(pathlib.Path(sys.argv[1]).resolve())


def run(line, spec, folder):
    def trace(match):
        name = match[1]
        if not (folder / f"{name}.jsonl").exists():
            subprocess.run([program, *spec["traces"][name].split(), f"{name}.jsonl"], cwd=folder, check=True)
        return f"{name}.jsonl"

    words = [re.sub(r"\$\{([^}]*)\}", trace, word) for word in line.split()]
    return json.loads(subprocess.run([program, *words], cwd=folder, check=True, stdout=subprocess.PIPE).stdout)


def value(v, spec, folder, done):
    if not isinstance(v, dict):
        return v
    if "run" in v:
        if v["run"] not in done:
            done[v["run"]] = run(spec["runs"][v["run"]], spec, folder)
        result = done[v["run"]]
        for key in v["metric"].split("."):
            result = result[int(key)] if isinstance(result, list) else result[key]
        return result
    (how, parts), = v.items()
    numbers = [value(part, spec, folder, done) for part in parts]
    total = numbers[0]
    for n in numbers[1:]:
        total = {"plus": total + n, "minus": total - n, "times": total * n, "ratio": total / n}[how]
    return total


for lab in sorted(pathlib.Path("docs/labs").iterdir()):
    path = lab / "solution.json"
    if not path.exists():
        continue
    spec, text = json.loads((lab / "grade.json").read_text()), path.read_text()
    with tempfile.TemporaryDirectory() as where:
        folder, done = pathlib.Path(where), {}
        for file in lab.iterdir():
            (folder / file.name).write_bytes(file.read_bytes())
        for test in spec["tests"]:
            if "figure" in test:
                figure = float(f"{value(test['is'], spec, folder, done):.6g}")
                text = re.sub(rf'("{test["figure"]}": )[^,\n]*', lambda m: m[1] + f"{figure:.6g}", text)
    path.write_text(text)
