#!/bin/sh
# make_samples.sh LOCKSTEP FOLDER: the bundled sample traces, made anew; the same bytes on every machine.
# What the figures are taken from: traces/samples/README.md.
set -eu
lockstep=$1 out=$2

"$lockstep" trace generate --num-prompts 2000 --seed 1 --request-rate 5.5 \
	--input-len lognormal:1060,0.75,min=10,max=4200 --output-len lognormal:130,0.95,min=5,max=1000 \
	--to azure --quiet "$out/azure_conv_sample.csv" >/dev/null

"$lockstep" trace generate --num-prompts 250 --seed 2 --request-rate inf --turns zipf:3,1,4 \
	--input-len lognormal:70,1.6,min=4,max=1024 --output-len lognormal:325,0.9,min=4,max=1000 \
	--to sharegpt --quiet "$out/sharegpt_sample.json" >/dev/null
