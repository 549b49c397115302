#!/bin/bash
# workshop.sh LOCKSTEP PAGES: from a loop around a model to a server, one idea at a time, and what paging and sharing save.
# Writes PAGES/workshop.md and its charts.
lockstep=$1 pages=$2
# shellcheck source=tools/study/common.sh
. "$(dirname "$0")/common.sh"

# --- one idea at a time, on the simulator -----------------------------------------------------------------------------
requests=$(smaller 600 40)
gpu=(--model llama-2-7b --device h100-sxm)
ideas="bare static off auto --max-num-seqs 1 --kv-cache off
loop static off auto --max-num-seqs 1
static static off auto
orca orca off auto
paged vllm_v1 off auto
prefix vllm_v1 hash auto
fp8 vllm_v1 hash fp8"
names="bare=naive loop, no KV cache|loop=naive loop|static=static batches, padded|orca=continuous, memory reserved|paged=+ paged\
|prefix=+ prefix cache|fp8=+ KV in fp8"
steps="bare>loop=a KV cache|loop>static=batches|static>orca=continuous batching|orca>paged=paged memory, prompts in pieces\
|paged>prefix=a prefix cache|prefix>fp8=KV in fp8|loop>paged=**naive loop to paged and continuous**|loop>fp8=**naive loop to all of it**"
columns="output_throughput ci=output tokens/s|output_throughput ratio=times the naive loop (95 %)|mean_ttft_ms mean=TTFT, ms\
|mean_itl_ms mean=ITL, ms|users mean=users at once|kv_per_user_mb mean=KV memory a user, MB|prefix_hit_ratio percent=prompt found"

begin "$work/ideas.tsv"
begin "$work/steady.tsv"
for seed in $(seq "$seeds"); do
	say "workshop, simulated: seed $seed of $seeds"
	for load in ideas steady; do
		rate=inf
		[ "$load" = ideas ] || rate=1.5
		t=$(made "chat-$load" "$seed" --num-prompts "$requests" --input-len "resample:$sharegpt_lengths" --turns uniform:1,5 \
			--output-len "resample:$sharegpt_lengths" --system-prompt-len 512 --max-context 4000 --request-rate $rate)
		while read -r arm policy cache kv more; do
			[ "$load" = ideas ] || [[ $arm != bare && $arm != loop ]] || continue
			# shellcheck disable=SC2086 # options
			run "$work/$load.tsv" "$arm" "$seed" "$t" "${gpu[@]}" --policy "$policy" --prefix-cache "$cache" --kv-cache-dtype "$kv" $more
		done <<<"$ideas"
	done
done

# --- what paging saves ------------------------------------------------------------------------------------------------
paging_requests=$(smaller 1000 60)
small=(--model llama-2-13b --device a100-40g --max-model-len 2048)
managers="longest orca:reserve=max_model_len max
pow2 orca pow2
oracle orca oracle
paged vllm_v0 max"
manager_names="longest=reserved: longest possible|pow2=reserved: next power of two|oracle=reserved: true length (not knowable)|paged=paged"
manager_columns="kv_used percent=holds tokens|kv_reserved_waste percent=reserved for later|kv_internal_waste percent=never used\
|kv_external_waste percent=holes|users mean=users at once|request_throughput mean=requests/s|request_throughput ratio=times (95 %)"
begin "$work/paging.tsv"
for seed in $(seq "$seeds"); do
	say "workshop, paging: seed $seed of $seeds"
	t=$(made sharegpt "$seed" --num-prompts "$paging_requests" --input-len "resample:$sharegpt_lengths" \
		--output-len "resample:$sharegpt_lengths" --request-rate inf)
	while read -r arm policy mode; do
		run "$work/paging.tsv" "$arm" "$seed" "$t" "${small[@]}" --policy "$policy" --max-tokens-mode "$mode"
	done <<<"$managers"
done

# --- what sharing saves -----------------------------------------------------------------------------------------------
# Samples of one prompt, as requests that begin with the same text: they share its full blocks while they run.
prompts=$(smaller 200 10)
begin "$work/sharing.tsv"
for seed in $(seq "$seeds"); do
	say "workshop, sharing: seed $seed of $seeds"
	for n in 2 4 6; do
		t=$(made_agents "samples$n" "$seed" --workflows "$prompts" --branches $n --rounds 1 --system-prompt-len 0 \
			--input-len uniform:32,512 --output-len uniform:32,512 --request-rate inf)
		for cache in off hash; do
			run "$work/sharing.tsv" "$n-$cache" "$seed" "$t" "${small[@]}" --policy vllm_v1 --prefix-cache $cache --cache-generated off
		done
	done
done

# --- on this machine's CPU --------------------------------------------------------------------------------------------
cpu_requests=$(smaller 6 2)
cpu=(--backend cpu --model "$(smaller llama-110m stories-260k)" --weights random:1 --length-scale 0.125 --num-gpu-blocks-override 1024)
cpu_ideas="loop static off auto --max-num-seqs 1
static static off auto
paged vllm_v1 off auto
prefix vllm_v1 hash auto
int8 vllm_v1 hash int8"
cpu_names="loop=naive loop|static=static batches, padded|paged=paged and continuous|prefix=+ prefix cache|int8=+ KV in int8"
begin "$work/ideas-cpu.tsv"
for seed in $(seq "$seeds"); do
	say "workshop, on the CPU: seed $seed of $seeds"
	t=$(made chat-cpu "$seed" --num-prompts "$cpu_requests" --input-len "resample:$sharegpt_lengths" --turns uniform:1,3 \
		--output-len "resample:$sharegpt_lengths" --system-prompt-len 512 --max-context 3500 --request-rate inf)
	while read -r arm policy cache kv more; do
		# shellcheck disable=SC2086 # options
		run "$work/ideas-cpu.tsv" "$arm" "$seed" "$t" "${cpu[@]}" --policy "$policy" --prefix-cache "$cache" --kv-cache-dtype "$kv" $more
	done < <(turned "$seed" <<<"$cpu_ideas")
done

for w in ideas steady paging sharing ideas-cpu; do gather "$work/$w.tsv"; done

# --- the page ---------------------------------------------------------------------------------------------------------
bars "$work/ideas.tsv" output_throughput loop "$names" "ideas: output tokens/s, times the naive loop" more >"$pages/ideas.svg"
rows=$work
notice="mean_ttft_ms ci=TTFT, ms|p99_ttft_ms mean=its p99|mean_itl_ms ci=ITL, ms|mean_e2el_ms mean=whole answer, ms|users mean=users at\
 once|kv_per_user_mb mean=KV memory a user, MB"
wasted() { awk -f "$here/stats.awk" -v mode=waste -v arm="$2" "$1"; }
cat >"$pages/workshop.md" <<PAGE
# From a loop around a model to a server

What each idea of the last years brings, put in one after the other: a KV cache, batches, continuous batching, paged memory,
prefix caching, a KV cache in fewer bits. This page and its figures are written by \`make studies\` (tools/study/workshop.sh).

In short, of $seeds seeds (in brackets: 95 % intervals):

- A naive loop around a 7B on an H100 makes $(mean "$rows/ideas.tsv" output_throughput loop) tokens a second; with no KV cache
  $(mean "$rows/ideas.tsv" output_throughput bare). Published: 51.
- Paged memory and continuous batching make it $(ratio "$rows/ideas.tsv" output_throughput "loop>paged" more). Published: about 15 times.
- A prefix cache on top: $(ratio "$rows/ideas.tsv" output_throughput "paged>prefix" more); KV in fp8 on top of that:
  $(ratio "$rows/ideas.tsv" output_throughput "prefix>fp8" more).
- Without paging $(wasted "$rows/paging.tsv" longest) of the KV memory that is given out or in holes holds nothing; with it
  $(wasted "$rows/paging.tsv" paged). Published: 60 to 80 %, and under 4 %.
- Six samples of one prompt that share it need $(ratio "$rows/sharing.tsv" kv_per_user_mb "6-off>6-hash" | sed 's/ times$//') times less memory a user, and
  are served at $(ratio "$rows/sharing.tsv" request_throughput "6-off>6-hash" more) the rate.

## One idea at a time

Llama-2-7B on one H100 (roofline cost model), $requests requests of ShareGPT's lengths in conversations of one to five turns behind one
system prompt of 512 tokens. Each turn waits for the one before it and repeats it. All conversations start at once, so that
throughput is what the server can do. (Then TTFT is mostly waiting; the next table has the other case.)

$(inputs "$sharegpt" "$work/traces/chat-ideas-1.jsonl" "$work/traces/chat-steady-1.jsonl" "$work/traces/sharegpt-1.jsonl")

$(table "$rows/ideas.tsv" loop "$names" "$columns")

![output tokens a second](ideas.svg)

$(pairs "$rows/ideas.tsv" output_throughput "loop>fp8" "$steps" "output tokens a second" more)

Users at once: the time requests spent being served, over the time the run took. KV memory a user: what is given out, holes
apart, over those; blocks that several share count once.

At 1.5 conversations a second, what a user notices:

$(table "$rows/steady.tsv" static "${names#*loop=*|}" "$notice")

### Against what is published

51 tokens a second of a 7B on an H100 are 20 ms a token. Reading 13.5 GB of weights takes 4 ms of the GPU's memory bandwidth, so 80 % of
that is the host's: a Python loop that starts every kernel by itself. The naive loop here runs on a server's step (host time is $(mean "$rows/ideas.tsv" mean_step_ms loop) ms
minus the GPU's, per step), so it is faster than a loop in Python, and what batching brings over it is of the scheduler and the memory alone.
Against 51 tokens a second the paged server here would be $(awk -v v="$(mean "$rows/ideas.tsv" output_throughput paged)" 'BEGIN {gsub(",", "", v); printf "%.0f", v / 51}') times as fast: more than published, as no
Python, sampling or network stands beside the GPU here.

## What paging saves

Llama-2-13B on an A100 of 40 GB, as near as can be to the vLLM paper's OPT-13B; $paging_requests requests of ShareGPT's lengths at once, at most 2,048 tokens each.
Shares are of all KV memory; what is missing to 100 % was free.

$(table "$rows/paging.tsv" longest "$manager_names" "$manager_columns")

The vLLM paper (SOSP'23, figure 2) has 20.4 % of the KV memory holding tokens where the longest possible output is reserved, 26.8 % with powers of two,
38.2 % with the true lengths and 96.3 % with paging; its blog rounds that to 60 to 80 % wasted. What a reservation wastes depends on how long outputs are beside
the longest allowed, so on the trace.

## What sharing saves

The same, $prompts prompts of 32 to 512 tokens with n samples each of 32 to 512. Samples share the full blocks of their prompt.

| samples | memory a user, MB | sharing | times less (95 %) | requests/s | sharing | times (95 %) |
| --- | --- | --- | --- | --- | --- | --- |
$(for n in 2 4 6; do
	echo "| $n | $(mean "$rows/sharing.tsv" kv_per_user_mb $n-off) | $(mean "$rows/sharing.tsv" kv_per_user_mb $n-hash) | $(ratio "$rows/sharing.tsv" kv_per_user_mb "$n-off>$n-hash" | sed 's/ times$//') |" \
		"$(mean "$rows/sharing.tsv" request_throughput $n-off) | $(mean "$rows/sharing.tsv" request_throughput $n-hash) | $(ratio "$rows/sharing.tsv" request_throughput "$n-off>$n-hash" more | sed 's/ times$//') |"
done)

Published (vLLM): parallel samples save 6 to 30 % of the memory, beam search 37 to 66 % (up to 55 % in its blog, with up to 2.2 times the throughput). Parallel samples
share their prompt and nothing else, so the most they can save is the prompt's share of the memory; beams share what they have generated as well.

## On real kernels

llama-110m with random weights on this machine's CPU ($(machine), $(nproc) cores; load average while it ran $(mean "$rows/ideas-cpu.tsv" load paged), so other work went on beside it); $cpu_requests requests of
an eighth of the lengths.

$(table "$rows/ideas-cpu.tsv" loop "$cpu_names" "$columns")

Two cores are busy with a single user's token for longer than a GPU is, so batches bring less here. The KV cache is small beside the weights: int8
saves memory, not time.
PAGE
say "wrote $pages/workshop.md"
