/* Two runs of the same workload, each request against itself. */
const pairs = (function () {
	const {make, table, note} = elements;

	const verdicts = {lowers: "lowers", raises: "raises", same: "leaves as it is", none: "no difference beyond noise", unknown: "too little to say"};

	function share(v) {
		return format.defined(v) ? (v > 0 ? "+" : v < 0 ? "−" : "") + (Math.abs(v) >= 2 ? format.number(Number((Math.abs(v) * 100).toPrecision(3))) : format.number(Number((Math.abs(v) * 100).toPrecision(2)))) + " %" : format.none;
	}

	function value(f, v) {
		return f.unit === "ms" ? format.ms(v) : format.value(v, f.unit);
	}

	/* What a run changes, in words and with an interval: the figures of `compare`. */
	function effects(r) {
		const x = r.pairs.effects[0];
		const number = (text, v) => ({text, value: v, class: "number"});
		const better = f => {
			const m = window.lockstepReport.data.metric_names.find(n => n.key === f.metric), good = m && m.better === "higher" ? "raises" : "lowers";
			return f.verdict === good ? " best" : "";
		};
		return [make("h3", null, charts.swatch(r), r.name + " against " + x.against + (x.paired ? ", request by request" : "")),
			...x.notes.map(n => make("p", {class: "about"}, n[0].toUpperCase() + n.slice(1) + ".")),
			table("Effects on " + format.count(x.requests) + " requests, with 95 % intervals; noise: two runs like the first, of other requests of the kind, differ by that much one time in twenty",
				["", "", "change", "95 % interval", "from", "to", "noise"], x.figures.map(f => {
					const m = window.lockstepReport.data.metric_names.find(n => n.key === f.metric);
					return [m ? m.label : f.metric, {text: verdicts[f.verdict] || f.verdict, class: better(f).trim()}, number(share(f.effect), f.effect),
						number(format.defined(f.low) ? share(f.low) + " to " + share(f.high) : format.none), number(value(f, f.against), f.against), number(value(f, f.value), f.value), number(format.defined(f.noise) ? format.number(Number((100 * f.noise).toPrecision(2))) + " %" : format.none)];
				}), "figures main")];
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
				" " + format.percent(p.less / p.n) + " are faster, " + format.percent(p.more / p.n) + " slower; mean difference " + format.signed(p.mean) + "." +
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
		const with_ = charted.filter(r => r.pairs), first = charted.find(r => r.curves);
		if (charted.length < 2)
			return [];
		if (!with_.length)
			return [note("These runs cannot be compared request by request: their requests are not stored.")];
		return [elements.choose("Which run", with_.map(r => r.name), i => [...effects(with_[i]),
			with_[i].pairs.ttft ? make("div", {class: "grid"}, latency.kinds.map(k => differences(with_[i], first, k)).filter(e => e)) :
				note("These two had other workloads: no request can be held against itself.")])];
	}
	return {section};
})();
