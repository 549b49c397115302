/* Requests by phase, a row each. */
const gantt = (function () {
	const {table, note} = elements;
	const kinds = [
		{name: "queued", color: 4}, {name: "prefill", color: 0}, {name: "decode", color: 2}, {name: "recompute", color: 1},
		{name: "preempted", color: 5}, {name: "swapped", color: 3}, {name: "loading", color: 6}, {name: "stalled", color: 7},
		{name: "held", color: 7}, {name: "failed", color: 5}
	];
	const thin = new Set(["queued", "preempted", "swapped", "loading", "stalled", "held", "failed"]);
	const keys = ["request", "name", "arrival", "finished", "queue", "prefill", "decode", "preempted", "transfer", "failed", "prompt", "output", "preemptions"];

	function row(values) {
		return Object.fromEntries(keys.map((k, i) => [k, values[i]]));
	}

	/* From the sums of the table: in the right places unless the request lost its memory in between. */
	function fromSums(q) {
		const out = [];
		let at = q.arrival;
		const add = (kind, ns) => {
			if (ns > 0)
				out.push({kind, from: at, to: at + ns});
			at += ns;
		};
		if (!q.finished) {
			if (q.failed > 0)
				add("failed", q.failed);
			return out;
		}
		add("queued", q.queue);
		add("prefill", q.prefill);
		add("preempted", q.preempted);
		add("loading", q.transfer);
		add("decode", q.decode);
		return out;
	}

	function phasesOf(r) {
		const exact = new Map();
		for (const [request, kind, from, to, tokens] of r.gantt.phases || []) {
			if (!exact.has(request))
				exact.set(request, []);
			exact.get(request).push({kind, from, to, tokens});
		}
		return q => exact.get(q.request) || (r.gantt.phases && !r.gantt.phases_left_out && q.finished ? [] : fromSums(q));
	}

	function chart(r, group) {
		const rows = group.rows.map(row), phases = phasesOf(r);
		const of = rows.map(phases), last = Math.max(...of.flat().map(p => p.to), ...rows.map(q => q.arrival)), first = Math.min(...rows.map(q => q.arrival));
		const unit = format.timeUnit((last - first) / 1e9), ns = unit.seconds * 1e9;
		const used = new Set(of.flat().map(p => p.kind));
		const moved = !r.gantt.phases && rows.some(q => q.preempted > 0 || q.transfer > 0);
		const c = charts.custom({
			title: "Requests by phase, " + group.name,
			about: (r.gantt.phases ? "Every phase as it was, told by making the run again." : "From the sums that are stored of each request" +
				(r.gantt.why ? " (" + r.gantt.why + ")" : "") + (moved ? "; of those that were preempted or copied the lengths are right, not the places." : ".")) +
				" Thin: waiting; thick: computing. " + rows.length + " neighbours in the trace of " + format.count(r.requests) + " requests.",
			spec: "gantt", height: Math.max(90, 34 + 10 * rows.length),
			x: {label: "time, " + unit.name, format: "time"},
			full: [first / ns, Math.max(last, first + 1) / ns],
			series: kinds.filter(k => used.has(k.name)),
			alwaysLegend: true,
			rows: rows.length,
			draw: (view, shown) => {
				view.signal("rows", rows.map((_, i) => i)).signal("names", Object.fromEntries(rows.map((q, i) => [i, q.name])));
				view.data("phases", of.flatMap((list, i) => list.filter(p => shown(p.kind)).map(p => ({row: i, kind: p.kind, x: p.from / ns, x2: p.to / ns, thin: thin.has(p.kind)}))));
			},
			readout: (x, shown, y) => {
				const i = y === null ? 0 : Math.max(0, Math.min(rows.length - 1, Math.floor(y * rows.length))), q = rows[i];
				const sums = new Map();
				for (const p of of[i])
					sums.set(p.kind, (sums.get(p.kind) || 0) + p.to - p.from);
				const now = of[i].find(p => p.from <= x * ns && x * ns < p.to);
				return {
					row: i,
					title: "request " + q.name + (now ? ": " + now.kind + " for " + format.ms((now.to - now.from) / 1e6) + (now.tokens ? ", " + format.count(now.tokens) + " tokens" : "") : ""),
					rows: [{name: "prompt and output", text: format.count(q.prompt) + " + " + format.count(q.output) + " tokens"},
						...[...sums].map(([kind, t]) => ({series: kinds.find(k => k.name === kind), name: kind, text: format.ms(t / 1e6)}))]
				};
			},
			table: () => table("Requests " + group.name, ["request", "arrived, s", "prompt", "output", "queued", "prefill", "decode", "preempted", "copied"],
				rows.map(q => [q.name, format.number(q.arrival / 1e9), format.count(q.prompt), format.count(q.output), ...(q.finished ?
					[q.queue, q.prefill, q.decode, q.preempted, q.transfer].map(v => format.ms(v / 1e6)) : ["did not finish", "", "", "", ""])].map((t, i) => i ? {text: t, class: "number"} : t)), "figures")
		});
		c.element.classList.add("wide");
		return c.element;
	}

	function of(r) {
		if (!r.gantt)
			return [note("No request of " + r.name + " is stored with its times.")];
		return [elements.choose("Which requests", r.gantt.groups.map(g => g.name), i => [chart(r, r.gantt.groups[i])])];
	}
	return {of};
})();
