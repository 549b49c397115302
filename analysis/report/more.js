/* What was found with several runs: validations, searches for what meets objectives, experiments. */
const more = (function () {
	const {make, table, note} = elements;
	const number = (text, value) => ({text, value, class: "number"});
	const yes = v => v === null ? format.none : v ? "yes" : "no";
	const off = v => format.defined(v) ? (v > 0 ? "+" : v < 0 ? "−" : "") + format.number(Math.abs(v)) + " %" : format.none;

	/* Dots to look at: points [{x, y, series, name, rows}]; the one nearest to the pointer is told. */
	function scatter(o) {
		const range = (key, log) => charts.extent(o.points.map(p => p[key]).concat(o.also ? o.also[key] : []), log);
		const xs = range("x", o.x.log), ys = range("y", o.y.log);
		const place = (v, [a, b], log) => log ? Math.log(v / a) / Math.log(b / a || 2) : (v - a) / (b - a || 1);
		return charts.series({
			...o,
			full: charts.roomy(xs, o.x.log, o.x.zero),
			data: (domain, pixels, shown) => ({
				lines: o.lines ? o.lines(domain, shown) : [],
				dots: o.points.filter(p => shown(p.series)).map(p => ({series: p.series, x: p.x, y: p.y, size: p.size || 40, opacity: o.opacity || 0.8}))
			}),
			readout: (x, shown, y) => {
				let best = null, least = Infinity;
				for (const p of o.points) {
					if (!shown(p.series) || !format.defined(p.x) || !format.defined(p.y))
						continue;
					const dx = place(p.x, xs, o.x.log) - place(x, xs, o.x.log), dy = y === null ? 0 : (place(p.y, ys, o.y.log) - place(y, ys, o.y.log)) / 2;
					if (dx * dx + dy * dy < least) {
						least = dx * dx + dy * dy;
						best = p;
					}
				}
				return best ? {x: best.x, title: best.name, rows: best.rows(best)} : {title: "nothing", rows: []};
			}
		}).element;
	}

	/* --- validations --- */

	const kinds = [{name: "decode", color: 2}, {name: "prefill", color: 4}, {name: "mixed", color: 0}];

	function predicted(v) {
		const points = v.steps.map(s => ({x: s.measured_ns / 1e6, y: s.predicted_ns / 1e6, series: s.kind, name: "step " + format.count(s.step) + ", " + s.kind, s,
			rows: p => [{name: "measured", text: format.ms(p.x)}, {name: "predicted", text: format.ms(p.y)}, {name: "off by", text: off(100 * (p.y / p.x - 1))},
				...(format.defined(s.again_ns) ? [{name: "executed again", text: format.ms(s.again_ns / 1e6)}] : [])], size: 22}));
		const used = kinds.filter(k => points.some(p => p.series === k.name));
		const some = v.steps.length < v.row[0].steps ? " Drawn are " + format.count(v.steps.length) + " of " + format.count(v.row[0].steps) + " steps, those furthest off among them." : "";
		const range = charts.extent(points.flatMap(p => [p.x, p.y]), true);
		return [
			scatter({title: "Step times, predicted against measured", about: "Each dot is a step that was executed; on the line the prediction is right." + some,
				x: {label: "measured", log: true, format: "ms"}, y: {label: "predicted", log: true, format: "ms"},
				series: [...used, {name: "equal", color: 7}], alwaysLegend: true, opacity: 0.5, points,
				lines: () => [{series: "equal", x: range[0], y: range[0], shape: "linear"}, {series: "equal", x: range[1], y: range[1], shape: "linear"}]}),
			scatter({title: "Residuals", about: "How far the prediction is off, step after step, in percent of the measured time." + some,
				x: {label: "step", format: "number"}, y: {label: "predicted / measured − 1, %", format: "number", fromZero: false},
				series: [...used, {name: "right", color: 7}], alwaysLegend: true, opacity: 0.5,
				points: points.map(p => ({...p, x: p.s.step, y: 100 * (p.y / p.x - 1), rows: () => p.rows(p)})),
				lines: domain => [{series: "right", x: domain[0], y: 0, shape: "linear"}, {series: "right", x: domain[1], y: 0, shape: "linear"}]})];
	}

	const words = {e2e: "E2E latency", ttft: "TTFT", tpot: "TPOT", queue: "queue time", prefill: "prefill time", step: "steps", part: "part of steps",
		request_throughput: "requests/s", output_throughput: "output tokens/s"};
	const statistics = ["mean", "p50", "p90", "p99", "request", "value", "mape", "bias", "total"];

	function errorTable(v) {
		const rows = new Map();
		for (const e of v.errors) {
			const key = (words[e.what] || e.what) + (e.part ? ", " + e.part : "");
			if (!rows.has(key))
				rows.set(key, new Map());
			rows.get(key).set(e.statistic, e);
		}
		const shown = statistics.filter(s => v.errors.some(e => e.statistic === s));
		const cell = e => e ? {node: make("span", null, off(e.error), e.uncertain ? make("abbr", {title: "too few samples"}, "~") : null,
			format.defined(e.spread) ? make("small", null, "± " + format.number(e.spread)) : null), value: e.error, class: "number"} : "";
		return table("Errors in percent (small: how far two executions differ from each other)", ["", ...shown.map(s => ({text: s, class: "number"}))],
			[...rows].filter(([, m]) => shown.some(s => m.has(s))).map(([key, m]) => [key, ...shown.map(s => cell(m.get(s)))]), "figures");
	}

	function validation(v) {
		const r = v.row[0], out = [];
		if (r.status !== "complete")
			out.push(note("This validation is " + r.status + (r.status_text ? ": " + r.status_text : "") + "; some figures are missing."));
		if (r.parted)
			out.push(note("The two part: " + r.parted));
		out.push(table("Executed on real kernels, and simulated", ["", ""], [
			["verdict", (r.passed ? "passed" : "did not pass") + (r.max_error !== null ? " (limit " + format.number(r.max_error) + " %, " + r.beyond + " beyond)" : "")],
			["policy", r.policy], ["predicted by", r.cost || format.none], ["load", r.load === null ? "as the trace has it" : format.percent(r.load) + " of " + format.number(r.capacity) + " requests/s"],
			["runs", [r.executed_run_id, r.simulated_run_id].filter(i => i !== null).map(i => "#" + i).join(" executed, ") + (r.simulated_run_id !== null ? " simulated" : "")],
			["same decisions, same memory", yes(r.decisions_identical) + ", " + yes(r.memory_identical)],
			["steps", number(format.count(r.steps), r.steps)],
			["step times off by (mean absolute)", number(format.defined(r.step_mape) ? format.number(r.step_mape) + " %" : format.none, r.step_mape)],
			["the executor differs from itself by", number(format.defined(r.executor_spread) ? format.number(r.executor_spread) + " %" : format.none, r.executor_spread)],
			["machine", (r.machine || format.none) + (format.defined(r.others) ? "; others took " + format.number(r.others) + " % of its time" : "")]
		].map(([a, b]) => [a, b && b.text !== undefined ? {...b, class: ""} : b]), "settings"));
		if (v.steps.length)
			out.push(make("div", {class: "grid"}, predicted(v)));
		if (v.errors.length)
			out.push(errorTable(v));
		return out;
	}

	function validations(data) {
		if (!data.validations.length)
			return [];
		return [elements.choose("Validation", data.validations.map(v => "#" + v.row[0].validation_id + " " + v.row[0].label), i => validation(data.validations[i]))];
	}

	/* --- objectives --- */

	const money = v => format.defined(v) ? "$" + format.number(v) : format.none;

	function attainment(s, names) {
		const r = s.row[0], rate = r.find === "rate", key = rate ? "request_rate" : "replicas";
		const of = s.configurations.map((c, i) => ({name: names[i], color: i, points: s.points.filter(p => p.position === c.position).sort((a, b) => a[key] - b[key])})).filter(c => c.points.length);
		if (!of.length)
			return null;
		const xs = charts.extent(of.flatMap(c => c.points.map(p => p[key])), true);
		const log = xs && xs[1] > 20 * xs[0];
		return charts.series({
			title: "Share of requests that meet the objectives",
			about: "At each " + (rate ? "rate" : "number of replicas") + " that was tried; dots where it passes. Of those cut short, at most that.",
			x: {label: rate ? "requests/s offered" : "replicas", log, format: "number"}, y: {label: "attainment", format: "percent", domain: [0, 1.02]},
			full: charts.roomy(xs, log, false), height: 300,
			series: of.map(c => ({name: c.name, color: c.color})), limits: [{y: r.attainment, text: "asked for: " + format.percent(r.attainment)}],
			data: (domain, pixels, shown) => ({
				lines: of.filter(c => shown(c.name)).flatMap(c => c.points.map(p => ({series: c.name, x: p[key], y: p.attainment, shape: "linear"}))),
				dots: of.filter(c => shown(c.name)).flatMap(c => c.points.filter(p => p.passes).map(p => ({series: c.name, x: p[key], y: p.attainment, size: 26})))
			}),
			readout: (x, shown) => ({
				title: "near " + format.number(x) + (rate ? " requests/s" : " replicas"),
				rows: of.filter(c => shown(c.name)).map(c => {
					const p = c.points.reduce((a, b) => Math.abs(b[key] - x) < Math.abs(a[key] - x) ? b : a);
					return {series: {color: c.color}, name: c.name + " at " + format.number(p[key]), text: (p.cut_short ? "at most " : "") + format.percent(p.attainment) + ", " +
						p.state.toLowerCase() + (p.limited_by !== "none" ? ", short of " + p.limited_by : "")};
				})
			})
		}).element;
	}

	/* No other configuration is better in both: price or latency against what is served. */
	function front(s, names, o) {
		const points = s.configurations.map((c, i) => ({x: c[o.xkey] === null ? null : c[o.xkey] * (o.scale || 1), y: c[o.ykey], series: names[i], on: c[o.on], name: names[i], size: c[o.on] ? 110 : 45,
			rows: () => [{name: o.x.label, text: format.number(c[o.xkey] * (o.scale || 1))}, {name: o.y.label, text: o.y.format === "ms" ? format.ms(c[o.ykey]) : format.number(c[o.ykey])},
				{name: "on the front", text: c[o.on] ? "yes" : "no"}]})).filter(p => format.defined(p.x) && format.defined(p.y));
		if (points.length < 2)
			return null;
		const line = points.filter(p => p.on).sort((a, b) => a.x - b.x);
		return scatter({...o, points, series: [...s.configurations.map((c, i) => ({name: names[i], color: i})).filter(k => points.some(p => p.series === k.name)), {name: "front", color: 7}],
			lines: (domain, shown) => shown("front") ? line.map(p => ({series: "front", x: p.x, y: p.y, shape: "linear"})) : []});
	}

	function search(s) {
		const r = s.row[0], names = s.configurations.map(c => c.label), seen = new Map();
		names.forEach((n, i) => {
			seen.set(n, (seen.get(n) || 0) + 1);
			if (seen.get(n) > 1)
				names[i] = n + " (" + seen.get(n) + ")";
		});
		const found = r.find === "rate";
		const out = [make("p", {class: "about"}, (found ? "The highest rate" : "The fewest replicas") + " at which " + format.percent(r.attainment) + " of " + format.count(r.requests) +
			" requests meet " + r.goodput + (r.request_rate !== null ? ", at " + format.number(r.request_rate) + " requests/s" : "") + (r.interrupted ? ". Interrupted: some configurations are missing." : "."))];
		out.push(table("What was found", ["configuration", found ? "passes, req/s" : "replicas", "fails at", "attainment", "p99 TTFT", "p99 TPOT", "state", "short of, beyond", "$/hour", "$ per 1,000 good", "fronts"],
			s.configurations.map((c, i) => [{node: make("span", null, charts.swatch({color: i}), names[i])},
				c.outcome === "bracketed" || c.outcome === "always" ? number(format.number(found ? c.request_rate : c.replicas), found ? c.request_rate : c.replicas) : c.outcome + (c.why ? ": " + c.why : ""),
				number(format.number(c.fails_at), c.fails_at), number(format.percent(c.attainment), c.attainment), number(format.ms(c.p99_ttft_ms), c.p99_ttft_ms), number(format.ms(c.p99_tpot_ms), c.p99_tpot_ms),
				c.state ? c.state.toLowerCase() : format.none, c.limited_by || format.none, number(money(c.price_per_hour), c.price_per_hour),
				number(money(c.dollars_per_good_request === null ? null : 1000 * c.dollars_per_good_request), c.dollars_per_good_request),
				[c.on_cost_front ? "cost" : "", c.on_latency_front ? "latency" : "", c.on_price_front ? "price" : ""].filter(t => t).join(", ")]), "figures main"));
		out.push(make("div", {class: "grid"}, [attainment(s, names),
			found ? front(s, names, {title: "Cost against what is served", about: "Large: nothing listed serves as much for less.", xkey: "request_rate", ykey: "price_per_hour", on: "on_cost_front",
				x: {label: "requests/s that meet the objectives", format: "number", zero: true}, y: {label: "$/hour", format: "number"}}) : null,
			found ? front(s, names, {title: "Latency against what is served", about: "Large: nothing listed serves as much with a lower p99 TTFT.", xkey: "request_rate", ykey: "p99_ttft_ms", on: "on_latency_front",
				x: {label: "requests/s that meet the objectives", format: "number", zero: true}, y: {label: "p99 TTFT", format: "ms"}}) : null,
			front(s, names, {title: "Latency against price", about: "Large: nothing listed costs as little per good request with a lower p99 TTFT.", xkey: "dollars_per_good_request", scale: 1000, ykey: "p99_ttft_ms", on: "on_price_front",
				x: {label: "$ per 1,000 good requests", format: "number", zero: true}, y: {label: "p99 TTFT", format: "ms"}})].filter(e => e)));
		return out;
	}

	function searches(data) {
		if (!data.searches.length)
			return [];
		return [elements.choose("Search", data.searches.map(s => "#" + s.row[0].search_id + " " + s.row[0].goodput + ", " + s.row[0].searched), i => search(data.searches[i]))];
	}

	/* --- experiments --- */

	/* The flags of each point as words, and which of them differ. */
	function flags(p) {
		const words = JSON.parse(p.flags), out = new Map();
		let name = "";
		for (const w of words) {
			if (w.startsWith("--")) {
				name = w.slice(2);
				out.set(name, "");
			} else {
				out.set(name, (out.get(name) + " " + w).trim());
			}
		}
		return out;
	}

	const measures = ["output_throughput", "request_throughput", "request_goodput", "mean_ttft_ms", "p99_ttft_ms", "mean_tpot_ms", "p99_tpot_ms", "mean_e2el_ms", "p99_e2el_ms"];
	const higher = new Set(["output_throughput", "request_throughput", "request_goodput"]);

	function measure(data, key) {
		const m = data.metric_names.find(n => n.key === key);
		return m ? m.label + (m.unit ? ", " + m.unit : "") : key;
	}

	function sweepChart(data, points, xkey, ykey) {
		const dots = points.map(p => ({x: p[xkey], y: p[ykey], series: "points", name: "point " + p.position + (p.run_id === null ? "" : ", run " + p.run_id), p,
			rows: () => [...[...p.varied].map(([k, v]) => ({name: k, text: v})), {name: measure(data, xkey), text: format.number(p[xkey])}, {name: measure(data, ykey), text: format.number(p[ykey])}]}))
			.filter(d => format.defined(d.x) && format.defined(d.y));
		if (!dots.length)
			return note("No point has both figures.");
		const better = (a, b, key) => higher.has(key) ? a >= b : a <= b;
		for (const d of dots)
			d.on = !dots.some(o => o !== d && better(o.x, d.x, xkey) && better(o.y, d.y, ykey) && (o.x !== d.x || o.y !== d.y));
		const line = dots.filter(d => d.on).sort((a, b) => a.x - b.x);
		dots.forEach(d => {
			d.size = d.on ? 90 : 40;
		});
		const log = key => {
			const range = charts.extent(dots.map(d => d[key]), true);
			return range && range[1] > 30 * range[0] && dots.every(d => d[key] > 0);
		};
		return scatter({title: measure(data, ykey) + " against " + measure(data, xkey), about: "Large: no other point is as good in one and better in the other. Each dot is a run.",
			x: {label: measure(data, xkey), format: "number", log: log("x")}, y: {label: measure(data, ykey), format: "number", log: log("y")}, height: 340,
			points: dots, series: [{name: "points", color: 0}, {name: "front", color: 7}], alwaysLegend: true,
			lines: (domain, shown) => shown("front") ? line.map(d => ({series: "front", x: d.x, y: d.y, shape: "linear"})) : []});
	}

	function sweep(data, s) {
		const all = s.points.map(flags), keys = [...new Set(all.flatMap(f => [...f.keys()]))].filter(k => new Set(all.map(f => f.get(k))).size > 1);
		const points = s.points.map((p, i) => ({...p, varied: new Map(keys.map(k => [k, all[i].has(k) ? all[i].get(k) || "on" : format.none]))}));
		const there = measures.filter(k => points.some(p => format.defined(p[k])));
		const out = [];
		if (s.row[0].about)
			out.push(make("p", {class: "about"}, s.row[0].about));
		const failed = points.filter(p => p.status !== "complete");
		if (failed.length)
			out.push(note(failed.length + " of " + points.length + " points failed: " + failed.slice(0, 3).map(p => "point " + p.position + ": " + (p.status_text || p.status)).join("; ")));
		if (there.length > 1) {
			const body = make("div", {class: "grid"}), pick = (label, chosen) => {
				const list = make("select", {"aria-label": label}, there.map(k => make("option", {value: k, selected: k === chosen}, measure(data, k))));
				list.addEventListener("change", draw);
				return list;
			};
			const x = pick("across", "output_throughput"), y = pick("up", "p99_ttft_ms");
			function draw() {
				charts.forget(body);
				const e = sweepChart(data, points, x.value, y.value);
				e.classList.add("wide");
				body.replaceChildren(e);
			}
			draw();
			out.push(make("p", {class: "choice"}, make("label", null, "Across: ", x), " ", make("label", null, "up: ", y)), body);
		}
		out.push(table("Points", ["point", "run", ...keys, ...there.map(k => ({text: measure(data, k), class: "number"}))],
			points.map(p => [String(p.position), p.run_id === null ? p.status : "#" + p.run_id, ...keys.map(k => p.varied.get(k)), ...there.map(k => number(format.number(p[k]), p[k]))]), "figures"));
		return out;
	}

	function sweeps(data) {
		if (!data.sweeps.length)
			return [];
		return [elements.choose("Experiment", data.sweeps.map(s => "#" + s.row[0].sweep_id + " " + s.row[0].name), i => sweep(data, data.sweeps[i]))];
	}
	return {validations, searches, sweeps};
})();
