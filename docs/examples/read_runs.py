#!/usr/bin/env python3
"""What is in a lockstep database, with pandas: read_runs.py [FILE]"""

import sqlite3
import sys

import pandas as pd

with sqlite3.connect(sys.argv[1] if len(sys.argv) > 1 else "lockstep.db") as db:
    runs = pd.read_sql("SELECT * FROM run_summary", db, index_col="run_id")
    requests = pd.read_sql("SELECT * FROM request_latency", db)

print(runs[["label", "completed", "output_throughput", "mean_ttft_ms", "p99_ttft_ms"]].to_string())

# Percentiles of the program are those of numpy and pandas: linear between neighbours.
p99 = requests.groupby("run_id")["ttft_ms"].quantile(0.99)
print("\np99 TTFT computed from the requests, in ms:")
print(p99.to_string())

# Where the time went, of the slowest hundredth of each run.
slow = requests[requests["ttft_ms"] >= requests["run_id"].map(p99)]
print("\nThe slowest hundredth by TTFT, mean ms:")
print(slow.groupby("run_id")[["prompt_tokens", "queue_ms", "prefill_ms", "preempted_ms"]].mean().round(1).to_string())

off = (p99 - runs["p99_ttft_ms"].reindex(p99.index)).abs().max()
print(f"\nlargest difference from the stored p99: {off:.6f} ms")
sys.exit(1 if off > 1e-3 else 0)
