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
|paged>prefix=a prefix cache|prefix>fp8=KV in fp8|loop>paged=**naive loop to paged and continuous**|loop>fp8=**naive loop to all of it**|bare>fp8=**naive loop without a KV cache to all of it**"
columns="output_throughput ci=output tokens/s|output_throughput ratio=times the naive loop (95 %)|mean_ttft_ms mean=TTFT, ms\
|mean_itl_ms mean=ITL, ms|users mean=users at once|kv_per_user_mb mean=KV memory a user, MB|prefix_hit_ratio percent=prompt found"

for w in ideas steady grouped; do begin "$work/$w.tsv"; done
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
			[[ $load = ideas && ($arm = loop || $arm = paged || $arm = fp8) ]] || continue
			# shellcheck disable=SC2086 # options
			run "$work/grouped.tsv" "$arm" "$seed" "$t" --model mistral-7b "${gpu[@]:2}" --policy "$policy" --prefix-cache "$cache" \
				--kv-cache-dtype "$kv" $more
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
cpu=(--backend cpu --model "$(smaller llama-110m stories-260k)" --weights random:1 --length-scale 0.0625 --num-gpu-blocks-override 1024)
cpu_ideas="loop static off auto --max-num-seqs 1
static static off auto
paged vllm_v1 off auto
prefix vllm_v1 hash auto
int8 vllm_v1 hash int8"
cpu_names="loop=naive loop|static=static batches, padded|paged=paged and continuous|prefix=+ prefix cache|int8=+ KV in int8"
begin "$work/ideas-cpu.tsv"
for seed in $(seq "$cpu_seeds"); do
	say "workshop, on the CPU: seed $seed of $cpu_seeds"
	t=$(made chat-cpu "$seed" --num-prompts "$cpu_requests" --input-len "resample:$sharegpt_lengths" --turns uniform:1,3 \
		--output-len "resample:$sharegpt_lengths" --system-prompt-len 512 --max-context 3500 --request-rate inf)
	while read -r arm policy cache kv more; do
		# shellcheck disable=SC2086 # options
		run "$work/ideas-cpu.tsv" "$arm" "$seed" "$t" "${cpu[@]}" --policy "$policy" --prefix-cache "$cache" --kv-cache-dtype "$kv" $more
	done < <(turned "$seed" <<<"$cpu_ideas")
done

for w in ideas steady grouped paging sharing ideas-cpu; do gather "$work/$w.tsv"; done

# --- the page ---------------------------------------------------------------------------------------------------------
bars "$work/ideas.tsv" output_throughput loop "$names" "ideas: output tokens/s, times the naive loop" more >"$pages/ideas.svg"
rows=$work
notice="mean_ttft_ms ci=TTFT, ms|p99_ttft_ms mean=its p99|mean_itl_ms ci=ITL, ms|mean_e2el_ms mean=whole answer, ms|users mean=users at\
 once|kv_per_user_mb mean=KV memory a user, MB"
saved() {
	awk -v a="$(mean "$1" kv_per_user_mb "$2")" -v b="$(mean "$1" kv_per_user_mb "$3")" 'BEGIN {gsub(",", "", a); gsub(",", "", b)
		printf "%.0f %%", 100 * (1 - b / a)}'
}
wasted() { awk -f "$here/stats.awk" -v mode=waste -v arm="$2" "$1"; }
plain() { sed 's/ times$//'; }
cat >"$pages/workshop.md" <<PAGE
# From a loop around a model to a server

What each idea of the last years brings, put in one after the other: a KV cache, batches, continuous batching, paged memory,
prefix caching, a KV cache in fewer bits. This page is written by \`make studies\` (tools/study/workshop.sh): every figure on it
comes out of its runs.

In short, of $seeds seeds; in brackets 95 % intervals:

| | here | published |
| --- | --- | --- |
| a naive loop around a 7B on an H100, tokens/s | $(mean "$rows/ideas.tsv" output_throughput loop); without a KV cache $(mean "$rows/ideas.tsv" output_throughput bare) | 51 |
| with paged memory and continuous batching | $(ratio "$rows/ideas.tsv" output_throughput "loop>paged" more); where heads share keys (Mistral-7B) $(ratio "$rows/grouped.tsv" output_throughput "loop>paged" more) | about 15 times |
| a prefix cache on top | $(ratio "$rows/ideas.tsv" output_throughput "paged>prefix" more) | |
| KV in fp8 on top of that | $(ratio "$rows/ideas.tsv" output_throughput "prefix>fp8" more) | |
| memory in use that holds nothing, without paging | $(wasted "$rows/paging.tsv" longest) | 60 to 80 % |
| the same, with paging | $(wasted "$rows/paging.tsv" paged) | under 4 % |
| memory a user that sharing saves, six samples of a prompt | $(saved "$rows/sharing.tsv" 6-off 6-hash) | up to 55 % |
| throughput that sharing brings, six samples of a prompt | $(ratio "$rows/sharing.tsv" request_throughput "6-off>6-hash" more) | up to 2.2 times |

## One idea at a time

Llama-2-7B on one H100 (roofline cost model). $requests requests with ShareGPT's lengths, in conversations of one to five turns behind one
system prompt of 512 tokens; each turn waits for the one before it and repeats it. All conversations start at once, so that
throughput is what the server can do, and TTFT is mostly waiting.

$(inputs "$sharegpt" "$work/traces/chat-ideas-1.jsonl" "$work/traces/chat-steady-1.jsonl" "$work/traces/sharegpt-1.jsonl")

$(table "$rows/ideas.tsv" loop "$names" "$columns")

![output tokens a second](ideas.svg)

$(pairs "$rows/ideas.tsv" output_throughput "bare>fp8" "$steps" "output tokens/s" more)

Users at once: the time that requests were being served for, over the time the run took. KV memory a user: what is given out,
holes apart, over those; blocks that several share count once, and so do blocks that only the cache holds.

At 1.5 conversations a second, which all of these but static batches can follow, what a user notices:

$(table "$rows/steady.tsv" static "${names#*loop=*|}" "$notice")

### Against what is published

- **The loop.** 51 tokens a second are 20 ms a token. Reading 13.5 GB of weights takes an H100 4 ms, so most of the 20 is the
  host's: a loop in Python that starts every kernel by itself. Here the loop is a server's that serves one user: $(mean "$rows/ideas.tsv" mean_itl_ms loop) ms a token.
  Without a KV cache it computes every token again in each step, $(mean "$rows/ideas.tsv" mean_itl_ms bare) ms.
- **Paged and continuous.** Against the published 51 the paged server here would be $(awk -v v="$(mean "$rows/ideas.tsv" output_throughput paged)" 'BEGIN {gsub(",", "", v); printf "%.0f", v / 51}') times as fast; against its own, faster loop it is
  $(ratio "$rows/ideas.tsv" output_throughput "loop>paged" more). What limits it is memory: $(mean "$rows/ideas.tsv" users paged) users of
  $(mean "$rows/ideas.tsv" kv_per_user_mb paged) MB each fill it. Llama-2-7B keeps keys and values for each of its 32 heads. Mistral-7B, whose heads
  share them by four, has $(mean "$rows/grouped.tsv" users paged) users of $(mean "$rows/grouped.tsv" kv_per_user_mb paged) MB and $(mean "$rows/grouped.tsv" output_throughput paged) tokens a second.
- **Continuous batching** brings as much as batching did: static batches are padded, wait for their longest answer and reserve for the
  longest possible one. Without the waiting and the padding, but still reserving, it is $(ratio "$rows/ideas.tsv" output_throughput "static>orca" more) as much.
- **The prefix cache** lives in the memory that is scarce: only $(percent "$rows/ideas.tsv" prefix_hit_ratio prefix) of the prompts' tokens were still there.
  With KV in half the bits $(percent "$rows/ideas.tsv" prefix_hit_ratio fp8) were, which is why that line brings so much. And an H100 computes a prompt fast:
  where load is low, what a user notices is TTFT.

## What paging saves

Llama-2-13B on an A100 of 40 GB, as near as can be to the OPT-13B of vLLM's paper; $(commas "$paging_requests") requests with ShareGPT's lengths
at once, 2,048 tokens each at most. Shares are of all KV memory; what is missing to 100 % was free.

$(table "$rows/paging.tsv" longest "$manager_names" "$manager_columns")

The paper (SOSP 2023) has 20.4 % of the memory hold tokens where the longest possible answer is reserved, 26.8 % with the next power of
two, 38.2 % with the true lengths, 96.3 % with paging; "60 to 80 % wasted" is that, rounded. What a reservation wastes depends on
how long answers are beside the longest allowed, and so on the trace.

## What sharing saves

The same model; $prompts prompts of 32 to 512 tokens with n samples of 32 to 512 tokens each. Samples share the full blocks of
their prompt, found by its hashes.

| samples | MB a user | shared | saved | times less (95 %) | requests/s | shared | times (95 %) |
| --- | --- | --- | --- | --- | --- | --- | --- |
$(for n in 2 4 6; do
	echo "| $n | $(mean "$rows/sharing.tsv" kv_per_user_mb $n-off) | $(mean "$rows/sharing.tsv" kv_per_user_mb $n-hash) | $(saved "$rows/sharing.tsv" $n-off $n-hash) |" \
		"$(ratio "$rows/sharing.tsv" kv_per_user_mb "$n-off>$n-hash" | plain) | $(mean "$rows/sharing.tsv" request_throughput $n-off) |" \
		"$(mean "$rows/sharing.tsv" request_throughput $n-hash) | $(ratio "$rows/sharing.tsv" request_throughput "$n-off>$n-hash" more | plain) |"
done)

vLLM publishes 6 to 10 % saved by parallel samples of short prompts and 16 to 30 % of ShareGPT's, 37 to 66 % by beam search; its "up to 55 %"
and "2.2 times" are beam search's. Samples share their prompt and nothing more, so they can save at most its part of the memory;
here prompts are as long as answers, so it is much. Beams share what they have generated as well.

## On real kernels

llama-110m with random weights on this machine's CPU ($(machine), $(nproc) cores); $cpu_requests requests of a sixteenth of the lengths;
seeds: $cpu_seeds.
Load average when a run began: $(mean "$rows/ideas-cpu.tsv" load paged) on average; of a machine that does other things as well, times have wide intervals.

$(table "$rows/ideas-cpu.tsv" loop "$cpu_names" "$columns")

A step's weights are read once for all in it here as well, but with this few users there is little to share.
PAGE
say "wrote $pages/workshop.md"
