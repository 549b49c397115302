/* How long requests took: distributions, and over time. */
const latency = (function () {
	const {make, table, note} = elements;
	const kinds = [
		{key: "ttft", name: "TTFT", about: "Time to first token, from a request's arrival."},
		{key: "tpot", name: "TPOT", about: "Time per output token after the first one."},
		{key: "e2el", name: "E2E latency", about: "From arrival to the last token."}
	];
	const quantiles = ["min", "p1", "p5", "p10", "p25", "median", "p75", "p90", "p95", "p99", "p99.9", "max", "mean"];

	function points(n) {
		return n === 1 ? "1 request" : format.count(n) + " requests";
	}

	/* Stairs of an empirical distribution: the share that had at most so much. */
	function stairs(run, curve) {
		const rows = [];
		for (let i = 0; i < curve.value.length; i++)
			rows.push({series: run.name, x: curve.value[i], y: (curve.rank[i] + 1) / curve.n, shape: "step-after"});
		if (rows.length)
			rows.unshift({series: run.name, x: rows[0].x, y: 0, shape: "step-after"});
		return rows;
	}

	function quantileTable(title, runs, key, show) {
		return table(title, ["", ...runs.map(r => r.name)], quantiles.map((q, i) => [q, ...runs.map(r => {
			const v = r.curves[key].quantiles[i];
			return {text: show(v), value: v, class: "number"};
		})]), "figures");
	}

	function cdf(runs, kind, axis, show) {
		const with_ = runs.filter(r => r.curves && r.curves[kind.key].n > 0);
		if (!with_.length)
			return null;
		const curves = new Map(with_.map(r => [r.name, r.curves[kind.key]]));
		let [low, high] = charts.extent(with_.flatMap(r => r.curves[kind.key].value), false);
		const log = high > 20 * Math.max(low, 1e-9) && low >= 0;
		if (log && low <= 0)
			low = Math.min(...with_.flatMap(r => r.curves[kind.key].value.filter(v => v > 0)), 1);
		const thinned = with_.some(r => r.curves[kind.key].rank.length < r.curves[kind.key].n);
		return charts.series({
			title: kind.name + ", distribution",
			about: kind.about + (log ? " Logarithmic axis." : "") + (thinned ?
				" Drawn through " + format.count(Math.max(...with_.map(r => r.curves[kind.key].rank.length))) + " of the values, all extremes among them; the table is of all." : ""),
			x: {label: axis, log, format: kind.tokens ? "number" : "ms"},
			y: {label: "share of requests", format: "percent", domain: [0, 1]},
			full: charts.roomy([low, high], log, false).map((v, i) => !log && i === 0 && low >= 0 ? Math.max(0, v) : v),
			series: with_.map(r => ({name: r.name, color: r.color})),
			data: (domain, pixels, shown) => ({
				lines: with_.filter(r => shown(r.name)).flatMap(r => {
					const rows = stairs(r, r.curves[kind.key]);
					const last = rows[rows.length - 1];
					rows.push({...last, x: Math.max(last.x, domain[1])});
					return log ? rows.filter(p => p.x > 0) : rows;
				})
			}),
			readout: (x, shown) => ({
				title: "at most " + show(x),
				rows: with_.filter(r => shown(r.name)).map(r => {
					const c = curves.get(r.name), i = charts.before(c.value, x);
					return {series: {color: r.color}, name: r.name, text: format.percent(i < 0 ? 0 : (c.rank[i] + 1) / c.n)};
				})
			}),
			table: () => quantileTable(kind.name + ", quantiles of all finished requests", with_, kind.key, show),
			tableName: "Quantiles"
		});
	}

	/* Middle of the stretch of time, in the axis' unit. */
	function times(a, unit) {
		return a.n.map((_, i) => (a.from_ns + (i + 0.5) * a.width_ns) / 1e9 / unit.seconds);
	}

	function overTime(runs, kind) {
		const with_ = runs.filter(r => r.arrivals && r.arrivals.n.length > 1 && r.curves[kind.key].n > 0);
		if (!with_.length)
			return null;
		const last = Math.max(...with_.map(r => r.arrivals.last_ns / 1e9)), unit = format.timeUnit(last);
		const first = Math.min(...with_.map(r => r.arrivals.first_ns / 1e9));
		const xs = new Map(with_.map(r => [r.name, times(r.arrivals, unit)]));
		const all = with_.flatMap(r => r.arrivals[kind.key].max.concat(r.arrivals[kind.key].median));
		const range = charts.extent(all, true), log = range && range[1] > 30 * range[0];
		const width = with_[0].arrivals.width_ns / 1e6;
		const one = with_.length === 1;
		return charts.series({
			title: kind.name + " over time",
			about: "By the time of arrival, in stretches of " + format.ms(width) + (with_.length > 1 ? " (of the first run)" : "") +
				": line, the median; band, from the least to the greatest; the table has p99 as well.",
			x: {label: "time of arrival, " + unit.name, format: "time"},
			y: {label: kind.name, log, format: "ms"},
			full: [first / unit.seconds, Math.max(last / unit.seconds, first / unit.seconds + 1e-9)],
			group: "arrival",
			limits: objective(with_, kind),
			series: with_.map(r => ({name: r.name, color: r.color})),
			data: (domain, pixels, shown) => {
				const lines = [], bands = [];
				for (const r of with_.filter(r => shown(r.name))) {
					const a = r.arrivals[kind.key], x = xs.get(r.name);
					for (let i = 0; i < x.length; i++) {
						if (log && !(a.min[i] > 0))
							continue;
						lines.push({series: r.name, x: x[i], y: a.median[i], shape: "linear"});
						bands.push({series: r.name, x: x[i], lo: a.min[i], hi: a.max[i], shape: "linear", opacity: one ? 0.18 : 0.1});
					}
				}
				return {lines, bands};
			},
			readout: (x, shown) => {
				const rows = [];
				let title = "", at = x;
				for (const r of with_.filter(r => shown(r.name))) {
					const i = stretchAt(r, x * unit.seconds), a = r.arrivals[kind.key];
					if (i < 0)
						continue;
					at = xs.get(r.name)[i];
					title = "arrived " + format.number(Number((r.arrivals.from_ns / 1e9 + i * r.arrivals.width_ns / 1e9).toFixed(6))) + " s to " +
						format.number(Number((r.arrivals.from_ns / 1e9 + (i + 1) * r.arrivals.width_ns / 1e9).toFixed(6))) + " s";
					rows.push({series: {color: r.color}, name: r.name + ", " + points(r.arrivals.n[i]),
						text: format.ms(a.median[i]) + " median, " + format.ms(a.p99[i]) + " p99, " + format.ms(a.max[i]) + " most"});
				}
				return {title, rows, x: at};
			},
			table: () => make("div", null, with_.map(r => overTimeTable(r, kind)))
		});
	}

	function stretchAt(r, seconds) {
		const i = Math.floor((seconds * 1e9 - r.arrivals.from_ns) / r.arrivals.width_ns);
		return i >= 0 && i < r.arrivals.n.length ? i : -1;
	}

	function overTimeTable(r, kind) {
		const a = r.arrivals, f = a[kind.key];
		const rows = [];
		for (let i = 0; i < a.n.length; i++)
			rows.push([format.number((a.from_ns + i * a.width_ns) / 1e9), format.count(a.n[i]), format.ms(f.min[i]), format.ms(f.median[i]),
				format.ms(f.p99[i]), format.ms(f.max[i])].map((text, k) => k ? {text, class: "number"} : text));
		return table(r.name + ": " + kind.name + " by time of arrival", ["from, s", "requests", "least", "median", "p99", "greatest"], rows, "figures");
	}

	/* The --goodput of these runs, if they have the same. */
	function objective(runs_, kind) {
		const asked = runs_.map(r => r.result && r.result.settings && r.result.settings.goodput ? r.result.settings.goodput[kind.key + "_ms"] : undefined);
		return format.defined(asked[0]) && asked.every(a => a === asked[0]) ? [{y: asked[0], text: "objective: " + format.ms(asked[0])}] : [];
	}

	/* What came and what was finished, per second. */
	function rates(runs, key, title, about, label) {
		const with_ = runs.filter(r => r.rates && r.rates[key].length > 1);
		if (!with_.length)
			return null;
		const end = r => (r.rates.from_ns + r.rates[key].length * r.rates.width_ns) / 1e9;
		const last = Math.max(...with_.map(end)), unit = format.timeUnit(last);
		const first = Math.min(...with_.map(r => r.rates.from_ns / 1e9));
		const rate = (r, i) => r.rates[key][i] / (r.rates.width_ns / 1e9);
		return charts.series({
			title, about,
			x: {label: "time, " + unit.name, format: "time"},
			y: {label, format: "number"},
			full: [first / unit.seconds, last / unit.seconds],
			group: "run",
			series: with_.map(r => ({name: r.name, color: r.color})),
			data: (domain, pixels, shown) => ({
				lines: with_.filter(r => shown(r.name)).flatMap(r => {
					const rows = r.rates[key].map((_, i) => ({series: r.name, x: (r.rates.from_ns + i * r.rates.width_ns) / 1e9 / unit.seconds,
						y: rate(r, i), shape: "step-after"}));
					rows.push({series: r.name, x: end(r) / unit.seconds, y: rate(r, r.rates[key].length - 1), shape: "step-after"});
					return rows;
				})
			}),
			readout: (x, shown) => ({
				title: format.number(x) + " " + unit.name,
				rows: with_.filter(r => shown(r.name)).map(r => {
					const i = Math.floor((x * unit.seconds * 1e9 - r.rates.from_ns) / r.rates.width_ns);
					return {series: {color: r.color}, name: r.name, text: i >= 0 && i < r.rates[key].length ? format.number(rate(r, i)) + " " + label : format.none};
				})
			})
		});
	}

	function pair(a, b) {
		return [a, b].filter(c => c).map(c => c.element);
	}

	function section(runs) {
		const out = [];
		for (const kind of kinds)
			out.push(...pair(cdf(runs, kind, kind.name, format.ms), overTime(runs, kind)));
		if (!out.length)
			return [note("No request of these runs is stored with its times: they were made with --record none, or nothing finished.")];
		return [make("div", {class: "grid"}, out)];
	}

	function workload(runs) {
		const tokens = v => format.count(v);
		const out = [
			cdf(runs, {key: "prompt", name: "Prompt tokens", about: "Of all requests.", tokens: true}, "tokens", tokens),
			cdf(runs, {key: "output", name: "Output tokens", about: "Of finished requests.", tokens: true}, "tokens", tokens),
			rates(runs, "finished", "Requests finished", "Per second, over the whole run.", "req/s"),
			rates(runs, "output_tokens", "Output of finished requests", "Tokens of the requests that finished then, per second.", "tok/s")
		].filter(c => c).map(c => c.element);
		return out.length ? [make("div", {class: "grid"}, out)] : [];
	}
	return {section, workload, kinds};
})();
