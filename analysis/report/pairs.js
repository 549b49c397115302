/* Two runs of the same workload, each request against itself. */
const pairs = (function () {
	const {make, table, note} = elements;

	function interval(p) {
		const sign = format.signed;
		return sign(p.mean) + (format.defined(p.half) ? " (" + sign(p.mean - p.half) + " to " + sign(p.mean + p.half) + ")" : "");
	}

	/* In words: does the interval tell them apart? */
	function verdict(p) {
		if (!p.n)
			return format.none;
		if (!format.defined(p.half))
			return "too few requests to say";
		if (p.mean - p.half > 0)
			return "slower";
		return p.mean + p.half < 0 ? "faster" : "no difference that can be told from chance";
	}

	function differences(r, base, kind) {
		const p = r.pairs[kind.key];
		if (!p.n)
			return null;
		const low = p.value[0], high = p.value[p.value.length - 1];
		const text = format.signed;
		return charts.series({
			title: kind.name + ": " + r.name + " minus " + base.name,
			about: "Of each of " + format.count(p.n) + " requests that finished in both. Left of 0, " + r.name + " is faster." +
				(p.rank.length < p.n ? " Drawn through some of the differences; the extremes are all there." : ""),
			x: {label: "difference", format: "ms"},
			y: {label: "share of requests", format: "percent", domain: [0, 1]},
			full: charts.roomy([Math.min(low, 0), Math.max(high, 0)], false, false),
			series: [{name: r.name, color: r.color}, {name: "0", color: 7}],
			data: domain => ({
				lines: [...p.value.map((x, i) => ({series: r.name, x, y: (p.rank[i] + 1) / p.n, shape: "step-after"})),
					{series: r.name, x: Math.max(high, domain[1]), y: 1, shape: "step-after"},
					{series: "0", x: 0, y: 0, shape: "linear"}, {series: "0", x: 0, y: 1, shape: "linear"}]
			}),
			readout: x => {
				const i = charts.before(p.value, x);
				return {title: "difference of at most " + text(x), rows: [{series: {color: r.color}, name: r.name, text: format.percent(i < 0 ? 0 : (p.rank[i] + 1) / p.n)}]};
			},
			table: () => table("Differences", ["", kind.name], ["least", "p1", "p5", "p25", "median", "p75", "p95", "p99", "greatest"].map((q, i) =>
				[q, {text: text(p.quantiles[i]), value: p.quantiles[i], class: "number"}]), "figures"),
			tableName: "Quantiles"
		}).element;
	}

	function section(charted) {
		const with_ = charted.filter(r => r.pairs), first = charted[0];
		if (charted.length < 2)
			return [];
		if (!with_.length)
			return [note("These runs cannot be compared request by request: they did not have the same workload, or their requests are not stored.")];
		const out = [];
		const skipped = charted.filter(r => r !== first && !r.pairs);
		if (skipped.length)
			out.push(note("Not compared, since their workload is another one or their requests are not stored: " + skipped.map(r => r.name).join(", ") + "."));
		out.push(table("Each request against itself in " + first.name + ": mean difference and its 95 % interval (from the means of 20 batches of neighbours, since neighbours depend on each other)",
			["", "time", "requests", "mean difference", "of the mean", "median", "faster", "slower", ""],
			with_.flatMap(r => latency.kinds.map(k => {
				const p = r.pairs[k.key];
				const number = (text, value) => ({text, value, class: "number"});
				return [{node: make("span", null, charts.swatch(r), r.name)}, k.name, number(format.count(p.n), p.n), number(p.n ? interval(p) : format.none, p.mean),
					number(format.change(p.mean_b, p.mean_a)), number(p.n ? format.signed(p.quantiles[4]) : format.none, p.n ? p.quantiles[4] : null),
					number(p.n ? format.percent(p.less / p.n) : format.none, p.less), number(p.n ? format.percent(p.more / p.n) : format.none, p.more), verdict(p)];
			})), "figures main"));
		out.push(elements.choose("Which run", with_.map(r => r.name), i => [make("div", {class: "grid"}, latency.kinds.map(k => differences(with_[i], first, k)))]));
		return out;
	}
	return {section};
})();
