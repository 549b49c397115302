#!/bin/bash
# branching.sh LOCKSTEP PAGES: vLLM's way against SGLang's, on conversations and on agents that branch: which mechanism
# makes how much of the difference. Writes PAGES/branching.md and its charts.
lockstep=$1 pages=$2
# shellcheck source=tools/study/common.sh
. "$(dirname "$0")/common.sh"

# --- on the simulator ------------------------------------------------------------------------------------------------
workflows=$(smaller 64 6) requests=$(smaller 1000 60)
gpu=(--model llama-3.1-8b --device h100-sxm --max-num-batched-tokens 8192)
# shellcheck disable=SC2054 # commas of distributions
lengths=(--system-prompt-len 1024 --input-len uniform:64,512 --output-len uniform:64,384 --instruction-len 64
	--review-len uniform:32,192)
# One mechanism more from line to line: arm, policy, prefix cache, tokens a page, generated tokens kept.
chain="v0 vllm_v0 off 16 on
v1 vllm_v1 off 16 on
prompts vllm_v1 hash 16 off
hash vllm_v1 hash 16 on
commit vllm_v1 hash 16 on --hit-visible commit
radix vllm_v1 radix 16 on
token vllm_v1 radix 1 on
fcfs sglang:schedule_policy=fcfs radix 1 on
sglang sglang radix 1 on"
# And SGLang without one of its own.
without="sg-off sglang off 16 on
sg-prompts sglang radix 1 off
sg-hash sglang hash 16 on --hit-visible commit
sg-page sglang radix 16 on"
names="v0=vLLM 0.2 to 0.7, no prefix cache|v1=vLLM v1, no prefix cache|prompts=+ hash cache, of prompts only|hash=+ generated tokens kept\
 (vLLM today)|commit=+ found once computed only|radix=+ radix tree instead of hashes|token=+ pages of one token|fcfs=+ SGLang's scheduler, fcfs|sglang=+ longest prefix\
 first (SGLang)"
names_without="sglang=SGLang|sg-prompts=without generated tokens|sg-page=with pages of 16|sg-hash=with vLLM's hash cache|\
fcfs=without longest prefix first|sg-off=without a cache"
steps="v0>v1=vLLM v1's scheduler (prompts in pieces beside decodes)|v1>prompts=a prefix cache, of prompts|prompts>hash=generated tokens\
 are kept|hash>commit=blocks are found once computed, not once allocated\
|commit>radix=a tree instead of hashes|radix>token=pages of one token|token>fcfs=SGLang's scheduler|fcfs>sglang=longest prefix\
 first|v0>sglang=**all together**|hash>sglang=**vLLM today to SGLang**"
columns="request_throughput mean=requests/s|duration speedup=times as fast (95 %)|prefix_hit_ratio percent=prompt tokens found|\
mean_ttft_ms mean=TTFT, ms|mean_itl_ms mean=ITL, ms|max_running mean=most running|preemptions mean=preempted"

# simulated ROWS TRACE SEED KV-TOKENS OPTIONS...
simulated() {
	local rows=$1 trace=$2 seed=$3 tokens=$4 arm policy cache page kept more
	shift 4
	while read -r arm policy cache page kept more; do
		[ "$kept" = on ] || more="$more --cache-generated off"
		# shellcheck disable=SC2086 # options
		run "$rows" "$arm" "$seed" "$trace" "${gpu[@]}" --policy "$policy" --prefix-cache "$cache" --block-size "$page" \
			--num-gpu-blocks-override $((tokens / page)) $more "$@"
	done <<<"$chain
$without"
}

whole=$("$lockstep" capacity --model llama-3.1-8b --device h100-sxm --max-num-batched-tokens 8192 --json | jq '.num_gpu_blocks * 16')
tight=65536 scarce=32768
for w in sharegpt branching-whole branching-tight branching-scarce tree; do begin "$work/$w.tsv"; done
for seed in $(seq "$seeds"); do
	say "branching, simulated: seed $seed of $seeds"
	t=$(made sharegpt "$seed" --num-prompts "$requests" --input-len "resample:$sharegpt_lengths" \
		--output-len "resample:$sharegpt_lengths" --request-rate inf)
	simulated "$work/sharegpt.tsv" "$t" "$seed" "$whole" --max-concurrency 128 --max-tokens-mode oracle
	t=$(made_agents branching "$seed" --workflows "$workflows" --branches 8 --rounds 2 "${lengths[@]}" --request-rate inf)
	simulated "$work/branching-whole.tsv" "$t" "$seed" "$whole" --max-concurrency 128 --max-tokens-mode 512
	simulated "$work/branching-tight.tsv" "$t" "$seed" $tight --max-concurrency 128 --max-tokens-mode 512
	simulated "$work/branching-scarce.tsv" "$t" "$seed" $scarce --max-concurrency 128 --max-tokens-mode 512
	t=$(made_agents tree "$seed" --workflows "$workflows" --branches 5 --rounds 2 --depth 3 "${lengths[@]}" --request-rate 4)
	simulated "$work/tree.tsv" "$t" "$seed" $tight --max-tokens-mode 512
done

# --- on this machine's CPU --------------------------------------------------------------------------------------------
cpu_requests=$(smaller 8 2) cpu_workflows=1
cpu=(--backend cpu --model "$(smaller llama-110m stories-260k)" --weights random:1)
cpu_arms="v1 vllm_v1 off 16
hash vllm_v1 hash 16
fcfs sglang:schedule_policy=fcfs radix 1
sglang sglang radix 1"
cpu_names="v1=vLLM v1, no prefix cache|hash=vLLM v1, hash cache|fcfs=SGLang, radix tree, fcfs|sglang=SGLang"

executed() {
	local rows=$1 trace=$2 seed=$3 arm policy cache page
	shift 3
	while read -r arm policy cache page; do
		run "$rows" "$arm" "$seed" "$trace" "${cpu[@]}" --policy "$policy" --prefix-cache "$cache" --block-size "$page" \
			--num-gpu-blocks-override $((16384 / page)) "$@"
	done < <(turned "$seed" <<<"$cpu_arms")
}

for w in sharegpt-cpu branching-cpu; do begin "$work/$w.tsv"; done
for seed in $(seq "$seeds"); do
	say "branching, on the CPU: seed $seed of $seeds"
	t=$(made sharegpt-cpu "$seed" --num-prompts "$cpu_requests" --input-len "resample:$sharegpt_lengths" \
		--output-len "resample:$sharegpt_lengths" --request-rate inf)
	executed "$work/sharegpt-cpu.tsv" "$t" "$seed" --length-scale 0.125
	t=$(made_agents branching-cpu "$seed" --workflows "$cpu_workflows" --branches 8 --rounds 2 --system-prompt-len 128 \
		--input-len uniform:8,64 --output-len uniform:8,48 --instruction-len 8 --review-len uniform:4,24 --request-rate inf)
	executed "$work/branching-cpu.tsv" "$t" "$seed"
done

for w in sharegpt branching-whole branching-tight branching-scarce tree sharegpt-cpu branching-cpu; do gather "$work/$w.tsv"; done

# --- the page ---------------------------------------------------------------------------------------------------------
for w in sharegpt branching-whole branching-scarce; do
	bars "$work/$w.tsv" duration v0 "$names" "$w: times as fast as vLLM without a prefix cache" >"$pages/$w.svg"
done
rows=$work
cat >"$pages/branching.md" <<PAGE
# vLLM's way and SGLang's, on conversations and on agents that branch

Two servers whose published comparisons say: on ShareGPT no significant difference; on agents that branch, three to four
times. Both schedulers and both prefix caches are in Lockstep, so that each mechanism can be put in by itself. This page and
its figures are written by \`make studies\` (tools/study/branching.sh); nothing on it is typed by hand but the sentences.

In short, of $seeds seeds (in brackets: 95 % intervals):

- ShareGPT, SGLang against vLLM as it is today: $(ratio "$rows/sharegpt.tsv" duration "hash>sglang").
- Branching, SGLang against vLLM 0.2 to 0.7, which had no prefix cache: $(ratio "$rows/branching-whole.tsv" duration "v0>sglang");
  with memory for $(commas "$tight") tokens $(ratio "$rows/branching-tight.tsv" duration "v0>sglang"), for $(commas "$scarce")
  $(ratio "$rows/branching-scarce.tsv" duration "v0>sglang").
- Branching, a prefix cache put into vLLM: $(ratio "$rows/branching-whole.tsv" duration "v1>hash"); for $(commas "$scarce") tokens
  $(ratio "$rows/branching-scarce.tsv" duration "v1>hash").
- Branching, SGLang against vLLM as it is today: $(ratio "$rows/branching-whole.tsv" duration "hash>sglang"); for $(commas "$scarce")
  tokens $(ratio "$rows/branching-scarce.tsv" duration "hash>sglang").
- The same on real kernels, a small model on a CPU: a prefix cache put into vLLM
  $(ratio "$rows/branching-cpu.tsv" duration "v1>hash"), SGLang against that $(ratio "$rows/branching-cpu.tsv" duration "hash>sglang").

So the three to four times are the prefix cache's, of whichever kind, and more of them the scarcer memory is; they are
not the tree's, not the page size's and not the order's.

## What was run

Llama-3.1-8B on one H100 (roofline cost model, 8,192 tokens a step, KV memory for $(commas "$whole") tokens unless said otherwise), a
client that has 128 requests in flight. Every seed draws another trace; all arms of a seed serve the same one, and ratios are
taken pair by pair, so that an interval tells of the difference and not of the traces. Time is from the first arrival to the
last finish; "times as fast" is how much shorter it is.

- *sharegpt*: $(commas "$requests") requests with lengths of ShareGPT, one turn each, nothing in common, as the published benchmark takes
  them.
- *branching*: $workflows workflows. Each makes 8 proposals from one prompt (1,024 tokens of system prompt that all
  share, 64 to 512 of task), then every proposal is reviewed and scored in a prompt that repeats it. 64 to 384 tokens a proposal, 32
  to 192 a review.
- *tree*: the same with 5 branches and three levels, each level going on from one of the branches, memory for $(commas "$tight") tokens; 4
  workflows a second arrive, so that workflows mix.

$(inputs "$sharegpt" "$work/traces/sharegpt-1.jsonl" "$work/traces/branching-1.jsonl" "$work/traces/tree-1.jsonl")

## ShareGPT

$(table "$rows/sharegpt.tsv" v0 "$names" "$columns")

![times as fast](sharegpt.svg)

$(pairs "$rows/sharegpt.tsv" duration "v0>sglang" "$steps")

Where nothing is shared a prefix cache finds nothing and costs nothing here (the simulator charges no time for looking up). What
differs is the scheduler: SGLang computes prompts apart from decodes and lets in only what is likely to stay; vLLM v1 mixes
them and lets in whatever fits now.

## Branching

With all of the H100's memory:

$(table "$rows/branching-whole.tsv" v0 "$names" "$columns")

![times as fast](branching-whole.svg)

### Which mechanism makes how much

One more from line to line; each line is a ratio of two arms, so the lines multiply.

$(pairs "$rows/branching-whole.tsv" duration "v0>sglang" "$steps" "memory for $(commas "$whole") tokens")

$(pairs "$rows/branching-tight.tsv" duration "v0>sglang" "$steps" "memory for $(commas "$tight") tokens")

$(pairs "$rows/branching-scarce.tsv" duration "v0>sglang" "$steps" "memory for $(commas "$scarce") tokens")

And SGLang with one of its mechanisms taken away, memory for $(commas "$tight") tokens:

$(table "$rows/branching-tight.tsv" sglang "$names_without" "$columns")

### When memory is scarce

$(table "$rows/branching-scarce.tsv" v0 "$names" "$columns")

![times as fast](branching-scarce.svg)

- **The cache is memory as well.** Without it each of 128 requests holds its own copy of the 1,024 tokens all have in
  common: memory lets $(mean "$rows/branching-scarce.tsv" max_running v1) run at once, with it
  $(mean "$rows/branching-scarce.tsv" max_running hash). That is why the ratio grows as memory shrinks.
- **Letting in by guess.** SGLang expects running requests to need a share of their largest output (the trace names none, so
  2,048 tokens are assumed), and lets in fewer: $(mean "$rows/branching-scarce.tsv" max_running sglang) ran at once, and none was ever
  preempted. vLLM let in more, preempted $(mean "$rows/branching-scarce.tsv" preemptions hash) times, and found most of what it had lost in its
  cache again.
- **Order.** Eight proposals of one workflow arrive together, and so in the queue's own order they are already together:
  longest prefix first has little left to put right. It has more to do where workflows mix (below).
- **Generated tokens.** They are found again only where a later prompt repeats them: in reviews. A proposal is short beside the
  1,024 tokens of its prompt.

## A search of three levels, workflows mixed

$(table "$rows/tree.tsv" v0 "$names" "$columns")

$(pairs "$rows/tree.tsv" duration "v0>sglang" "$steps")

## On real kernels

llama-110m with random weights on this machine's CPU ($(machine), $(nproc) cores; load average while it ran
$(mean "$rows/branching-cpu.tsv" load v1), so other work went on beside it), KV memory for 16,384 tokens. Arms of a seed ran one after
another. *sharegpt*: $cpu_requests requests of an eighth of the lengths, all at once; *branching*: one workflow of 8
proposals, prompts of 128 shared and 8 to 64 own tokens.

$(table "$rows/sharegpt-cpu.tsv" v1 "$cpu_names" "$columns")

$(table "$rows/branching-cpu.tsv" v1 "$cpu_names" "$columns")

A CPU computes a prompt's tokens hardly faster than it generates as many at once, so what a cache saves is close to the share of
all tokens that it finds.

## Against what is published

- SGLang's paper (NeurIPS 2024, arXiv 2312.07104) reports up to 6.4 times the throughput of other systems over eleven
  workloads. What it compares with is vLLM 0.2.5, which had no prefix cache: by the time of the paper vLLM had taken
  the idea up as an experiment, and the earlier version was used for that reason. That is the first arm here, and against it
  the result comes out: $(ratio "$rows/branching-whole.tsv" duration "v0>sglang") with plenty of memory,
  $(ratio "$rows/branching-scarce.tsv" duration "v0>sglang") with little. An A10G, which the paper's Llama-7B ran on, has little: 24 GB,
  of which the weights take 13.
- It is not the tree: vLLM's hash cache, which came later, gives $(ratio "$rows/branching-whole.tsv" duration "v1>hash") and
  $(ratio "$rows/branching-scarce.tsv" duration "v1>hash"). The paper's own ablation leaves the cache out, or the tree's order, and finds
  the cache the larger part as well.
- The paper's programs tell the server beforehand which calls go together (frontend hints), and its systems differ in
  their kernels and host overhead. None of this is here: all arms have the same step times for the same batch.
- The paper measures that a cache which finds nothing costs less than 0.3 % of the time; here it costs none.
- With one prompt's siblings arriving together, order cannot gain what it gains in the paper, where requests of many programs
  are shuffled.
PAGE
say "wrote $pages/branching.md"
