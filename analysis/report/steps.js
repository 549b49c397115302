/* What the engine did, step by step; the requests it did it for; how well the device was used. */
const steps = (function () {
	const {make, table, note} = elements;
	const why = r => r.name + " was recorded without steps: replay with --record steps to see them.";

	/* One run's steps as stretches of time with least, greatest and sum of each figure; a stretch is one step where all are there. */
	function source(r) {
		const s = r.steps;
		if (!r.source) {
			const start = s.exact ? s.start : s.cell.map(i => i * s.width_ns);
			const end = s.exact ? s.start.map((t, i) => t + s.duration[i]) : start.map(t => t + s.width_ns);
			const of = key => s.exact ? {lo: s[key], hi: s[key], sum: s[key]} : s[key];
			r.source = {start, end, of, n: s.exact ? null : s.n, exact: s.exact};
		}
		return r.source;
	}

	/* The stretches between two times in at most so many columns. */
	function columns(src, key, from, to, most) {
		const f = src.of(key), first = Math.max(0, charts.before(src.end, from)), last = charts.before(src.start, to);
		const width = last - first + 1 > most ? (to - from) / most : 0;
		const out = [];
		let c = null;
		for (let i = first; i <= last; i++) {
			const k = width ? Math.floor((src.start[i] - from) / width) : i, n = src.n ? src.n[i] : 1;
			if (!c || c.k !== k) {
				c = {k, x: src.start[i], end: src.end[i], n: 0, lo: f.lo[i], hi: f.hi[i], sum: 0, first: i};
				out.push(c);
			}
			c.n += n;
			c.lo = Math.min(c.lo, f.lo[i]);
			c.hi = Math.max(c.hi, f.hi[i]);
			c.sum += f.sum[i];
			c.end = src.end[i];
		}
		return out;
	}

	/* keys: [{key, name, color, scale, total}] over the time of one run. */
	function overTime(r, o) {
		const src = source(r), all = r.steps.rows;
		const from = src.start[0], to = src.end[src.end.length - 1], unit = format.timeUnit(to / 1e9), ns = unit.seconds * 1e9;
		const value = (k, c) => (k.total ? c.sum : c.sum / c.n) * k.scale;
		const log = o.log && o.log(src);
		let cut = new Map();
		return charts.series({
			title: o.title,
			about: o.about + (src.exact ? " Where steps lie closer than the picture can show: line, their mean; band, from the least to the greatest." : " Of " + format.count(all) + " steps, in stretches of " + format.ms(r.steps.width_ns / 1e6) +
				": line, the mean; band, from the least to the greatest step."),
			x: {label: "time, " + unit.name, format: "time"},
			y: {label: o.label, format: o.format, log},
			full: [from / ns, Math.max(to, from + 1) / ns],
			group: "steps" + r.run_id,
			series: o.keys.map(k => ({name: k.name, color: k.color})),
			alwaysLegend: true,
			data: ([a, b], pixels, shown) => {
				const lines = [], bands = [];
				cut = new Map();
				for (const k of o.keys.filter(k => shown(k.name))) {
					const cs = columns(src, k.key, a * ns, b * ns, Math.max(60, Math.floor(pixels / 2)));
					cut.set(k.name, cs);
					cs.forEach((c, i) => {
						const y = value(k, c), wide = (b - a) * ns / pixels * 3;
						lines.push({series: k.name, x: c.x / ns, y: log && y <= 0 ? null : y, shape: "step-after"});
						const next = cs[i + 1];
						if (!next || next.x - c.end > wide)
							lines.push({series: k.name, x: c.end / ns, y: log && y <= 0 ? null : y, shape: "step-after"},
								{series: k.name, x: c.end / ns, y: null, shape: "step-after"});
						if (k.total)
							return;
						const lo = c.lo * k.scale, hi = c.hi * k.scale;
						bands.push({series: k.name, x: c.x / ns, lo: log ? Math.max(lo, 1e-9) : lo, hi, shape: "step-after", opacity: 0.25});
						if (!next || next.x - c.end > wide)
							bands.push({series: k.name, x: c.end / ns, lo, hi, shape: "step-after", opacity: 0.25},
								{series: k.name, x: c.end / ns, lo: null, hi: null, shape: "step-after", opacity: 0.25});
					});
				}
				return {lines, bands};
			},
			readout: (x, shown) => {
				const rows = [];
				let title = format.number(x) + " " + unit.name;
				for (const k of o.keys.filter(k => shown(k.name))) {
					const cs = cut.get(k.name) || [], i = charts.before(cs.map(c => c.x), x * ns), c = cs[i];
					if (!c || c.end < x * ns) {
						rows.push({series: k, name: k.name, text: "no step"});
						continue;
					}
					title = format.number(c.x / 1e9) + " s, " + (c.n === 1 && src.exact ? "step " + format.count(c.first) : format.count(c.n) + " steps");
					rows.push({series: k, name: k.name, text: o.show(value(k, c)) + (c.n > 1 && !k.total ? " (" + o.show(c.lo * k.scale) + " to " + o.show(c.hi * k.scale) + ")" : "")});
				}
				return {title, rows};
			},
			table: () => sums(r, o),
			tableName: "Least, mean and greatest"
		}).element;
	}

	/* Of all steps of the run, exactly. */
	function sums(r, o) {
		const src = source(r);
		return table("All " + format.count(r.steps.rows) + " steps of " + r.name, ["", "least", "mean of steps", "greatest", "sum"], o.keys.map(k => {
			const f = src.of(k.key), total = f.sum.reduce((a, v) => a + v, 0);
			const lo = f.lo.reduce((a, v) => Math.min(a, v), Infinity), hi = f.hi.reduce((a, v) => Math.max(a, v), -Infinity);
			const cell = (v, raw) => ({text: o.show(v), value: raw, class: "number"});
			return [k.name, cell(lo * k.scale, lo), cell(total / r.steps.rows * k.scale, total / r.steps.rows), cell(hi * k.scale, hi), cell(total * k.scale, total)];
		}), "figures");
	}

	function wide(log) {
		return src => {
			const range = charts.extent(src.of("duration").hi, true), low = charts.extent(src.of("duration").lo, true);
			return log && range && low && range[1] > 30 * low[0];
		};
	}

	function of(r) {
		if (!r.steps)
			return [note(why(r))];
		const blocks = r.num_gpu_blocks > 0 ? 1 / r.num_gpu_blocks : null;
		const preempted = source(r).of("preempted").hi.some(v => v > 0);
		return [make("div", {class: "grid"},
			overTime(r, {title: "Requests", about: "Running hold memory; waiting have arrived and hold none.", label: "requests", format: "number", show: format.number,
				keys: [{key: "running", name: "running", color: 0, scale: 1}, {key: "waiting", name: "waiting", color: 1, scale: 1}]}),
			overTime(r, {title: "KV memory", about: "Blocks that requests hold, and those that only keep a known prefix" + (blocks ? ", of " + format.count(r.num_gpu_blocks) + "." : "."),
				label: blocks ? "share of blocks" : "blocks", format: blocks ? "percent" : "number", show: blocks ? format.percent : format.number,
				keys: [{key: "blocks_used", name: "used", color: 0, scale: blocks || 1}, {key: "blocks_cached", name: "cached", color: 2, scale: blocks || 1}]}),
			overTime(r, {title: "What a step computes", about: "Tokens of prompts (prefill), and one of each request that goes on (decode).", label: "tokens in a step", format: "number", show: format.number,
				keys: [{key: "prefill_tokens", name: "prefill tokens", color: 4, scale: 1}, {key: "decodes", name: "decode tokens", color: 2, scale: 1}]}),
			overTime(r, {title: "Step time", about: "How long a step took, and the host's part of it.", label: "step time", format: "ms", show: format.ms, log: wide(true),
				keys: [{key: "duration", name: "step", color: 0, scale: 1e-6}, {key: "host", name: "host", color: 7, scale: 1e-6}]}),
			preempted ? overTime(r, {title: "Preemptions", about: "Requests that lost their memory.", label: "requests", format: "number", show: format.number,
				keys: [{key: "preempted", name: "preempted", color: 5, scale: 1, total: true}]}) : null)];
	}

	/* --- roofline --- */

	const kinds = [{name: "decode", color: 2}, {name: "prefill", color: 4}, {name: "mixed", color: 0}];

	function roofline(r) {
		if (!r.steps)
			return [note(why(r))];
		const f = r.roofline;
		if (f.why)
			return [note("No roofline of " + r.name + ": " + f.why + ".")];
		const roof = x => Math.min(f.flops_per_s, x * f.bytes_per_s);
		const ridge = f.flops_per_s / f.bytes_per_s;
		const cells = f.cells.map(([kind, n, flops, bytes, ns]) => ({kind, n, x: flops / bytes, y: flops / ns * 1e9, ns, flops}));
		const xs = charts.extent(cells.map(c => c.x), true) || [1, 1000];
		const low = Math.min(xs[0] / 2, ridge / 4), high = Math.max(xs[1] * 2, ridge * 4);
		const most = Math.max(...cells.map(c => c.n), 1);
		const fmt = v => format.si(v) + "FLOP/s";
		const sums = kinds.map(k => {
			const mine = cells.filter(c => c.kind === k.name), add = key => mine.reduce((a, c) => a + c[key], 0);
			return {name: k.name, n: add("n"), ns: add("ns"), flops: add("flops"), bytes: mine.reduce((a, c) => a + c.flops / c.x, 0)};
		}).filter(k => k.n);
		const c = charts.series({
			title: "Roofline: " + f.device,
			about: "Each dot is steps that lie at the same place, larger for more of them: what they computed for each byte they moved, and how much of it per second " +
				"(the whole step, host included). Lines: what the device can do at most (" + fmt(f.flops_per_s) + " with " + f.weights + " weights, " +
				format.bytes(f.bytes_per_s) + "/s). " + (f.every > 1 ? "Of " + format.count(r.steps.rows) + " steps every " + format.count(f.every) + "th is shown. " : "") + "Of prompt pieces the attention to earlier pieces is not recorded and not counted.",
			x: {label: "FLOP per byte", log: true, format: "si"},
			y: {label: "FLOP/s", log: true, format: "si"},
			full: [low, high], height: 380,
			series: [...kinds, {name: "roof", color: 7}],
			alwaysLegend: true,
			data: (domain, pixels, shown) => ({
				lines: [low, ridge, high].map(x => ({series: "roof", x, y: roof(x), shape: "linear"})),
				dots: cells.filter(d => shown(d.kind)).map(d => ({series: d.kind, x: d.x, y: d.y, size: 10 + 190 * Math.sqrt(d.n / most), opacity: 0.55}))
			}),
			readout: (x, shown) => ({
				title: format.number(Number(x.toPrecision(3))) + " FLOP per byte: " + (x < ridge ? "bound by memory" : "bound by computing"),
				rows: [{series: {color: 7}, name: "roof", text: fmt(Number(roof(x).toPrecision(3)))},
					...kinds.filter(k => shown(k.name)).map(k => near(k, x, cells, fmt, roof)).filter(r => r)]
			}),
			table: () => table("Sums by kind of step" + (f.every > 1 ? ", of the steps that are shown" : ""), ["", "steps", "FLOP per byte", "FLOP/s", "of the roof"], sums.map(s => {
				const speed = s.flops / s.ns * 1e9, x = s.flops / s.bytes;
				return [s.name, {text: format.count(s.n), value: s.n, class: "number"}, {text: format.number(x), class: "number"}, {text: fmt(speed), class: "number"},
					{text: format.percent(speed / roof(x)), class: "number"}];
			}), "figures"),
			tableName: "Sums"
		});
		c.element.classList.add("wide");
		return [c.element];
	}

	/* The steps of a kind within a tenth of that place. */
	function near(k, x, cells, fmt, roof) {
		const mine = cells.filter(c => c.kind === k.name && c.x > x / 1.1 && c.x < x * 1.1);
		if (!mine.length)
			return null;
		const n = mine.reduce((a, c) => a + c.n, 0), flops = mine.reduce((a, c) => a + c.flops, 0), ns = mine.reduce((a, c) => a + c.ns, 0);
		const speed = flops / ns * 1e9;
		return {series: k, name: k.name + ", " + format.count(n) + " steps", text: fmt(Number(speed.toPrecision(3))) + ", " + format.percent(speed / roof(x)) + " of the roof"};
	}
	return {of, roofline, why};
})();
