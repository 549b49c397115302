/* Who held which KV block. */
const blocks = (function () {
	const {table, note} = elements;
	const states = [{name: "owned", color: 0}, {name: "shared", color: 3}, {name: "cached", color: 2}];
	const HUES = 8;

	function cell(b, column, row) {
		const at = 4 * (column * b.rows + row), [owned, shared, cached, owner] = b.cells.slice(at, at + 4);
		const all = Math.min(b.per_row, b.num_blocks - row * b.per_row);
		return {owned, shared, cached, owner, all, free: all - owned - shared - cached};
	}

	/* What most of a cell's blocks are, but for those that are free, and how large a share of it is not free. */
	function stateOf(c) {
		const most = Math.max(c.owned, c.shared, c.cached);
		return most === 0 ? null : {kind: c.shared === most ? "shared" : c.owned === most ? "owned" : "cached", share: (c.owned + c.shared + c.cached) / c.all};
	}

	function ownerOf(c) {
		if (c.shared > c.owned)
			return {kind: "shared", share: (c.owned + c.shared) / c.all};
		return c.owner < 0 ? null : {kind: "r" + c.owner % HUES, share: c.owned / c.all, owner: c.owner};
	}

	/* Neighbours in time that look the same are one rectangle. */
	function rectangles(b, ns, look, shown) {
		const out = [];
		for (let row = 0; row < b.rows; row++) {
			let last = null;
			for (let i = 0; i < b.at.length; i++) {
				const c = look(cell(b, i, row)), x = (i ? b.at[i - 1] : b.from) / ns, x2 = b.at[i] / ns;
				if (!c || !shown(c.kind[0] === "r" ? "requests" : c.kind)) {
					last = null;
					continue;
				}
				const share = Math.max(0.15, Math.round(c.share * 20) / 20);
				if (last && last.kind === c.kind && last.share === share && last.owner === c.owner) {
					last.x2 = x2;
					continue;
				}
				last = {kind: c.kind, owner: c.owner, share, x, x2, y: row * b.per_row, y2: Math.min(b.num_blocks, (row + 1) * b.per_row)};
				out.push(last);
			}
		}
		return out;
	}

	function chart(r, byOwner) {
		const b = r.blocks, first = r.arrivals ? r.arrivals.first_ns : 0, last = b.at[b.at.length - 1];
		b.from = Math.min(first, b.at[0]);
		const unit = format.timeUnit((last - b.from) / 1e9), ns = unit.seconds * 1e9;
		const hues = Array.from({length: HUES}, (_, i) => ({name: "r" + i, color: i}));
		const c = charts.custom({
			title: "KV blocks over time, by " + (byOwner ? "request" : "state"),
			about: "Each stripe is " + (b.per_row > 1 ? format.count(b.per_row) + " neighbouring blocks" : "a block") + " of " + format.count(b.num_blocks) + ", looked at after every " +
				(b.every > 1 ? format.count(b.every) + "th step" : "step") + (r.replicas > 1 ? ", of the first replica" : "") + "; paler, the more of them are free. " +
				(byOwner ? "Colours tell requests apart; eight of them, so that distant requests share one." : "Owned: by one request; shared: by several; cached: by none, but their content is known."),
			spec: "blocks", height: 420,
			x: {label: "time, " + unit.name, format: "time"},
			full: [b.from / ns, Math.max(last, b.from + 1) / ns],
			series: byOwner ? [{name: "requests", color: 0}, {name: "shared", color: 7}] : states,
			scale: byOwner ? [...hues, {name: "shared", color: 7}] : states,
			alwaysLegend: true, rows: b.rows,
			draw: (view, shown) => {
				view.signal("blocks", b.num_blocks).signal("rowsize", b.per_row);
				view.data("cells", rectangles(b, ns, byOwner ? ownerOf : stateOf, shown));
			},
			readout: (x, shown, y) => {
				const row = y === null ? 0 : Math.max(0, Math.min(b.rows - 1, Math.floor(y * b.num_blocks / b.per_row)));
				const column = Math.min(b.at.length - 1, charts.before(b.at, x * ns - 1) + 1), v = cell(b, column, row);
				const rows = [{series: states[0], name: "owned", text: format.count(v.owned)}, {series: states[1], name: "shared", text: format.count(v.shared)},
					{series: states[2], name: "cached", text: format.count(v.cached)}, {name: "free", text: format.count(v.free)}];
				if (v.owner >= 0)
					rows.push({name: "most of them of request", text: b.names[v.owner] === undefined ? String(v.owner) : b.names[v.owner]});
				return {row: row * b.per_row, rows, title: "blocks " + format.count(row * b.per_row) + " to " + format.count(Math.min(b.num_blocks, (row + 1) * b.per_row) - 1) +
					" at " + format.number(b.at[column] / 1e9) + " s"};
			},
			table: () => {
				const rows = [];
				for (let i = 0; i < b.at.length; i++) {
					const sum = {owned: 0, shared: 0, cached: 0, free: 0};
					for (let row = 0; row < b.rows; row++)
						for (const k of Object.keys(sum))
							sum[k] += cell(b, i, row)[k];
					rows.push([format.number(b.at[i] / 1e9), ...Object.values(sum).map(v => ({text: format.count(v), value: v, class: "number"}))]);
				}
				return table("All blocks at each look", ["at, s", "owned", "shared", "cached", "free"], rows, "figures");
			}
		});
		c.element.classList.add("wide");
		return c.element;
	}

	function of(r) {
		const b = r.blocks;
		if (!b)
			return [note("Who held which block is told by making a run again" + (r.gantt && r.gantt.why ? ", which could not be done of " + r.name + ": " + r.gantt.why : "") + ".")];
		if (!b.rows || !b.at.length || !b.cells.some(v => v > 0))
			return [note(r.name + " has no blocks to show: its requests' memory is in one piece each, or it has none.")];
		return [elements.choose("Colours by", ["state", "request"], i => [chart(r, i === 1)])];
	}
	return {of};
})();
