#!/usr/bin/env python3
"""Writes docs/labs/7/server.json and the figures of docs/labs/*/solution.json anew, after a change that moves them:

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
    def replaced(match):
        name = match[1]
        if "." in name:
            other, key = name.split(".", 1)
            return run(spec["runs"][other], spec, folder)[key]
        if not (folder / f"{name}.jsonl").exists():
            subprocess.run([program, *spec["traces"][name].split(), f"{name}.jsonl"], cwd=folder, check=True)
        return f"{name}.jsonl"

    words = [re.sub(r"\$\{([^}]*)\}", replaced, word) for word in line.split()]
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


def server_log(folder):
    """docs/labs/7/server.json: 60 short requests, then 60 long ones, as a server with that grade.json's parameters serves them."""

    def generate(name, *words):
        subprocess.run([program, "trace", "generate", "-q", "--num-prompts", "60", *words, name], cwd=folder, check=True)
        return [json.loads(line) for line in (folder / name).read_text().splitlines()]

    short = generate("short.jsonl", *"--request-rate 2.5 --input-len lognormal:500,0.8,max=3000 --output-len lognormal:40,0.6,max=150 --seed 77".split())
    long = generate("long.jsonl", *"--request-rate 0.8 --input-len lognormal:2500,0.6,max=12000 --output-len lognormal:100,0.6,max=400 --seed 79".split())
    for request in long:
        request["arrival_s"] += 40
    (folder / "sent.jsonl").write_text("".join(json.dumps(r) + "\n" for r in short + long))
    line = json.loads(pathlib.Path("docs/labs/7/grade.json").read_text())["runs"]["server rate"].replace("${rate}", "sent.jsonl")
    save = ["--save-detailed", "--save-result", "--result-filename", "served.json", "--quiet"]
    subprocess.run([program, *line.replace(" --json", "").split(), *save], cwd=folder, check=True)
    served = json.loads((folder / "served.json").read_text())
    keys = "model_id num_prompts completed input_lens output_lens ttfts itls start_times errors".split()
    log = {"date": "20260301-120000", "backend": "server", **{key: served[key] for key in keys}}
    text = json.dumps(json.loads(json.dumps(log), parse_float=lambda x: round(float(x), 5)), separators=(",", ":"))
    return re.sub(r'"(\w+)":', r'\n"\1":', text).replace("],[", "],\n[") + "\n"


with tempfile.TemporaryDirectory() as where:
    pathlib.Path("docs/labs/7/server.json").write_text(server_log(pathlib.Path(where)))

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
