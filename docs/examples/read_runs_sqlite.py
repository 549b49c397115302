#!/usr/bin/env python3
"""What is in a lockstep database, with Python's own sqlite3: read_runs_sqlite.py [FILE]"""

import sqlite3
import sys


def quantile(values, q):
    """Linear between neighbours, as numpy and the program have it."""
    values = sorted(values)
    at = (len(values) - 1) * q
    low = int(at)
    high = min(low + 1, len(values) - 1)
    return values[low] + (values[high] - values[low]) * (at - low)


db = sqlite3.connect(sys.argv[1] if len(sys.argv) > 1 else "lockstep.db")
db.row_factory = sqlite3.Row
worst = 0.0
print(f"{'run':>4} {'label':<24} {'completed':>9} {'tokens/s':>10} {'mean TTFT':>10} {'p99 TTFT':>10}")
for run in db.execute("SELECT * FROM run_summary ORDER BY run_id"):
    ttft = [row["ttft_ms"] for row in db.execute("SELECT ttft_ms FROM request_latency WHERE run_id = ?", [run["run_id"]])]
    if not ttft:
        continue
    worst = max(worst, abs(quantile(ttft, 0.99) - run["p99_ttft_ms"]))
    print(
        f"{run['run_id']:>4} {run['label']:<24} {run['completed']:>9.0f} {run['output_throughput']:>10.1f}"
        f" {sum(ttft) / len(ttft):>10.1f} {quantile(ttft, 0.99):>10.1f}"
    )
print(f"\nlargest difference from the stored p99: {worst:.6f} ms")
sys.exit(1 if worst > 1e-3 else 0)
