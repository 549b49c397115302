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
sg-page sglang radix 16 on
sg-mixed sglang:mixed_chunk=on radix 1 on"
names="v0=vLLM 0.2 to 0.7, no prefix cache|v1=vLLM v1, no prefix cache|prompts=+ hash cache, of prompts only|hash=+ generated tokens kept\
 (vLLM today)|commit=+ found once computed only|radix=+ radix tree instead of hashes|token=+ pages of one token|fcfs=+ SGLang's scheduler, fcfs|sglang=+ longest prefix\
 first (SGLang)"
names_without="sglang=SGLang|sg-prompts=without generated tokens|sg-page=with pages of 16|sg-hash=with vLLM's hash cache|\
fcfs=without longest prefix first|sg-mixed=with decodes beside prompts (mixed_chunk)|sg-off=without a cache"
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
sglang sglang radix 1"
cpu_names="v1=vLLM v1, no prefix cache|hash=vLLM v1, hash cache (vLLM today)|sglang=SGLang"

executed() {
	local rows=$1 trace=$2 seed=$3 arm policy cache page
	shift 3
	while read -r arm policy cache page; do
		run "$rows" "$arm" "$seed" "$trace" "${cpu[@]}" --policy "$policy" --prefix-cache "$cache" --block-size "$page" \
			--num-gpu-blocks-override $((16384 / page)) "$@"
	done < <(turned "$seed" <<<"$cpu_arms")
}

for w in sharegpt-cpu branching-cpu; do begin "$work/$w.tsv"; done
for seed in $(seq "$cpu_seeds"); do
	say "branching, on the CPU: seed $seed of $cpu_seeds"
	t=$(made sharegpt-cpu "$seed" --num-prompts "$cpu_requests" --input-len "resample:$sharegpt_lengths" \
		--output-len "resample:$sharegpt_lengths" --request-rate inf)
	executed "$work/sharegpt-cpu.tsv" "$t" "$seed" --length-scale 0.0625
	t=$(made_agents branching-cpu "$seed" --workflows "$cpu_workflows" --branches 8 --rounds 2 --system-prompt-len 64 \
		--input-len uniform:8,32 --output-len uniform:8,24 --instruction-len 8 --review-len uniform:4,12 --request-rate inf)
	executed "$work/branching-cpu.tsv" "$t" "$seed"
done

for w in sharegpt branching-whole branching-tight branching-scarce tree sharegpt-cpu branching-cpu; do gather "$work/$w.tsv"; done

# --- the page ---------------------------------------------------------------------------------------------------------
for w in sharegpt branching-whole branching-scarce; do
	bars "$work/$w.tsv" duration v0 "$names" "$w: times as fast as vLLM without a prefix cache" >"$pages/$w.svg"
done
rows=$work
tight_tokens=$(commas $tight) scarce_tokens=$(commas $scarce) whole_tokens=$(commas "$whole")
cat >"$pages/branching.md" <<PAGE
# vLLM's way and SGLang's, on conversations and on agents that branch

Of these two servers it is published that on ShareGPT there is no significant difference, and on agents that branch one of
three to four times. Both schedulers and both prefix caches are in Lockstep, so that each mechanism can be put in by itself.
This page is written by \`make studies\` (tools/study/branching.sh): every figure on it comes out of its runs.

In short, of $seeds seeds; in brackets 95 % intervals; above 1 the second is faster:

| | times as fast |
| --- | --- |
| ShareGPT: vLLM 0.2 to 0.7, SGLang | $(ratio "$rows/sharegpt.tsv" duration "v0>sglang") |
| ShareGPT: vLLM as it is today, SGLang | $(ratio "$rows/sharegpt.tsv" duration "hash>sglang") |
| branching: vLLM 0.2 to 0.7 (no prefix cache), SGLang | $(ratio "$rows/branching-whole.tsv" duration "v0>sglang") |
| the same, memory for $tight_tokens tokens | $(ratio "$rows/branching-tight.tsv" duration "v0>sglang") |
| the same, memory for $scarce_tokens tokens | $(ratio "$rows/branching-scarce.tsv" duration "v0>sglang") |
| branching: vLLM v1 without a prefix cache, with its own | $(ratio "$rows/branching-whole.tsv" duration "v1>hash") |
| the same, memory for $scarce_tokens tokens | $(ratio "$rows/branching-scarce.tsv" duration "v1>hash") |
| branching: vLLM as it is today, SGLang | $(ratio "$rows/branching-whole.tsv" duration "hash>sglang") |
| the same, memory for $scarce_tokens tokens | $(ratio "$rows/branching-scarce.tsv" duration "hash>sglang") |
| branching on real kernels (seeds: $cpu_seeds): vLLM v1 without a prefix cache, with its own | $(ratio "$rows/branching-cpu.tsv" duration "v1>hash") |
| the same: vLLM as it is today, SGLang | $(ratio "$rows/branching-cpu.tsv" duration "hash>sglang") |

What is published as SGLang against vLLM is a prefix cache against none: either server's cache makes that difference, and the
scarcer memory is, the larger it gets. Between the two caches the tree, the page and the order make next to nothing; what does
make something is from when on a block is found, and that decodes run beside prompts.

## What was run

Llama-3.1-8B on one H100 (roofline cost model, 8,192 tokens a step, KV memory for $whole_tokens tokens unless said otherwise)
and a client that keeps 128 requests in flight. Every seed draws another trace; all arms of a seed serve the same one, and
ratios are taken pair by pair, so that an interval tells of the difference and not of the traces. Time is from the first
arrival to the last finish.

- *sharegpt*: $(commas "$requests") requests with lengths of ShareGPT, one turn each, nothing in common; the server is told how long
  outputs will be, as the benchmarks of both do.
- *branching*: $workflows workflows, all at once. Each makes 8 proposals from one prompt (1,024 tokens of system prompt that all
  workflows share, 64 to 512 of task); then every proposal is reviewed and scored in a prompt that repeats it. A proposal is 64
  to 384 tokens, a review 32 to 192; the server is told 512 at most.
- *tree*: 5 branches and three levels, each level going on from one of the branches before; 4 workflows a second arrive, so that
  workflows mix. Memory for $tight_tokens tokens.

$(inputs "$sharegpt" "$work/traces/sharegpt-1.jsonl" "$work/traces/branching-1.jsonl" "$work/traces/tree-1.jsonl")

One such run by hand:

    lockstep trace generate agentic --workflows $workflows --branches 8 --rounds 2 ${lengths[*]:0:4} \\
      ${lengths[*]:4} --request-rate inf --seed 1 -o branching-1.jsonl
    lockstep compare branching-1.jsonl ${gpu[*]} --max-concurrency 128 \\
      --max-tokens-mode 512 --policies vllm_v1,sglang --prefix-cache off,hash,radix

## ShareGPT

$(table "$rows/sharegpt.tsv" v0 "$names" "$columns")

![times as fast](sharegpt.svg)

$(pairs "$rows/sharegpt.tsv" duration "v0>sglang" "$steps")

Where nothing is shared a cache finds nothing, and costs nothing here (no time is charged for looking up). What differs is the
scheduler: SGLang 0.4 and vLLM before v1 compute prompts in steps of their own, during which nobody else gets a token; vLLM v1 lets
decodes run beside them. With SGLang's option for that (\`mixed_chunk\`) it is $(ratio "$rows/sharegpt.tsv" duration "hash>sg-mixed")
against vLLM of today.

## Branching

With all of the H100's memory:

$(table "$rows/branching-whole.tsv" v0 "$names" "$columns")

![times as fast](branching-whole.svg)

### Which mechanism makes how much

One more from line to line, from vLLM 0.2 to SGLang. Each line is the ratio of two arms, so the lines multiply; the last column is a
line's share of the whole in logarithms.

$(pairs "$rows/branching-whole.tsv" duration "v0>sglang" "$steps" "memory for $whole_tokens tokens")

$(pairs "$rows/branching-tight.tsv" duration "v0>sglang" "$steps" "memory for $tight_tokens tokens")

$(pairs "$rows/branching-scarce.tsv" duration "v0>sglang" "$steps" "memory for $scarce_tokens tokens")

And SGLang with one of its mechanisms changed, memory for $tight_tokens tokens:

$(table "$rows/branching-tight.tsv" sglang "$names_without" "$columns")

### When memory is scarce

$(table "$rows/branching-scarce.tsv" v0 "$names" "$columns")

![times as fast](branching-scarce.svg)

- **A prefix cache is memory as well.** Without one each request holds a copy of its own of the 1,024 tokens that all have in
  common, and memory lets $(mean "$rows/branching-scarce.tsv" max_running v1) run at once; with one they are there once, and $(mean "$rows/branching-scarce.tsv" max_running hash) run. That
  is why the ratio grows while memory shrinks.
- **Hashes or a tree** find the same, once both are made to find blocks when they are computed. vLLM's finds them when they are
  allocated: proposals of one workflow that are let in together share their prompt in that very step, which the tree's compute
  twice and give back.
- **Pages of one token** find the up to 15 tokens that a full block leaves over: of prompts this long, next to nothing.
- **Generated tokens** are found again by reviews only, which repeat one proposal behind a prompt several times as long. Where memory
  is scarce they have been evicted when the review comes: all proposals of all workflows were before it.
- **Letting in.** SGLang expects of each running request a share of its largest output and lets in fewer
  ($(mean "$rows/branching-scarce.tsv" users sglang) at once on average, vLLM $(mean "$rows/branching-scarce.tsv" users hash)); none of them was ever preempted. vLLM let in what fitted, preempted
  $(mean "$rows/branching-scarce.tsv" preemptions hash) times, and found most of what it had lost in its cache again.
- **Longest prefix first**: all eight proposals of a workflow arrive together, so that the queue's own order has them together as well.
  It has more to put right where workflows mix:

## A search of three levels, workflows mixed

$(table "$rows/tree.tsv" v0 "$names" "$columns")

$(pairs "$rows/tree.tsv" duration "v0>sglang" "$steps")

## On real kernels

llama-110m with random weights on this machine's CPU ($(machine), $(nproc) cores), KV memory for 16,384 tokens. *sharegpt*:
$cpu_requests requests of a sixteenth of the lengths, all at once; *branching*: one workflow of 8 proposals and 8 reviews, prompts of 64
shared and 8 to 32 own tokens; seeds: $cpu_seeds. Arms of a seed run one after another, each seed beginning with another one. Load
average when a run began: $(mean "$rows/branching-cpu.tsv" load v1) on average; of a machine that does other things as well, times have wide intervals.

$(table "$rows/sharegpt-cpu.tsv" v1 "$cpu_names" "$columns")

$(table "$rows/branching-cpu.tsv" v1 "$cpu_names" "$columns")

The eight proposals come to an idle server and are let in in one step. vLLM finds the first one's blocks as soon as they are allocated, so
that one computes the prompt for all; SGLang's tree has them once they are computed, so that all eight compute it:
$(percent "$rows/branching-cpu.tsv" prefix_hit_ratio sglang) of the prompts' tokens are found instead of $(percent "$rows/branching-cpu.tsv" prefix_hit_ratio hash). (Its longest prefix first
puts such siblings at the end of the queue; where there is room for all, that keeps nobody out.) On a busy server, as simulated above,
it happens to a workflow's first few only. A CPU takes almost as long for a prompt's token as for a generated one, so that what is not
computed shows at once.

## Against what is published

- SGLang's paper (NeurIPS 2024, arXiv 2312.07104) has up to 6.4 times the throughput of other systems; three to four is what
  comparisons on agents that branch report. What it calls vLLM is version 0.2.5, which had no prefix cache; the paper says why: later ones had taken
  the idea up. That is the first arm here, and against it we find $(ratio "$rows/branching-whole.tsv" duration "v0>sglang") with the
  memory of an H100 and $(ratio "$rows/branching-scarce.tsv" duration "v0>sglang") where memory is scarce, as it is beside a 7B on the
  paper's A10G of 24 GB.
- A later vLLM gets the same from its own cache, here $(ratio "$rows/branching-scarce.tsv" duration "v0>hash") against its predecessor. Whoever compares
  both servers today should expect the last line of the tables above, not three to four times.
- The paper's programs tell the server which calls belong together (frontend hints), its systems differ in kernels and in what the
  host does between steps, and its answers are constrained by grammars in some tasks. None of that is here: the same batch takes
  the same time in every arm, and time is simulated from shapes and data sheets.
- A cache that finds nothing costs SGLang less than 0.3 % by its paper; here nothing.
- Siblings arrive together here. In the paper many programs' calls are mixed, and the order of the queue weighs more; *tree* goes some
  way there.
PAGE
say "wrote $pages/branching.md"
