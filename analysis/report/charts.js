/* Charts: figures with a title, a description, a legend, a picture by Vega, and a table of what it shows. Pictures with a
 * continuous x axis have a cursor (pointer or arrow keys) that reads every series, and zoom (drag, Ctrl + wheel, + and -). */
const charts = (function () {
	const {make, under} = elements;
	const {parse} = modules.get("vega-parser");
	const {View} = modules.get("vega-view");
	const {expressionFunction} = modules.get("vega-functions");
	const {expressionInterpreter} = modules.get("vega-interpreter");
	Object.assign(modules.get("vega-dataflow").transforms, modules.get("vega-transforms"), modules.get("vega-view-transforms"),
		modules.get("vega-encode"));
	expressionFunction("tick", v => format.tick(v));
	expressionFunction("plain", v => format.number(v));
	expressionFunction("percentage", v => format.percent(v));
	expressionFunction("si", v => format.si(v));

	const COLORS = 8; /* then the same again, dashed */
	const color = i => "var(--c" + i % COLORS + ")";
	const dashes = [[1, 0], [6, 3], [2, 2]];
	const dash = i => dashes[Math.floor(i / COLORS) % dashes.length];
	const font = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'DejaVu Sans', sans-serif";

	const config = {
		background: null,
		axis: {
			labelColor: "var(--muted)", titleColor: "var(--muted)", gridColor: "var(--grid)", domainColor: "var(--line)",
			tickColor: "var(--line)", labelFont: font, titleFont: font, labelFontSize: 11.5, titleFontSize: 12,
			titleFontWeight: "normal", titlePadding: 7, labelPadding: 4, tickSize: 4
		},
		text: {font, fontSize: 11.5},
		view: {stroke: null}
	};

	let made = 0;
	const all = []; /* of the page, for whoever looks at it by program */
	const groups = new Map(); /* charts that zoom together */
	const tip = document.getElementById("tip");

	/* --- data for an axis --- */

	function extent(values, log) {
		let low = Infinity, high = -Infinity;
		for (const v of values) {
			if (!format.defined(v) || (log && v <= 0))
				continue;
			if (v < low)
				low = v;
			if (v > high)
				high = v;
		}
		return low <= high ? [low, high] : null;
	}

	/* A little room around; from 0 where the axis is linear and nothing is negative. */
	function roomy(range, log, fromZero) {
		if (!range)
			return log ? [1, 10] : [0, 1];
		let [low, high] = range;
		if (log)
			return low === high ? [low / 2, high * 2] : [low / 1.08, high * 1.08];
		if (fromZero && low >= 0)
			return [0, high > 0 ? high * 1.06 : 1];
		const room = high > low ? (high - low) * 0.05 : Math.abs(high) * 0.1 || 1;
		return [low - room, high + room];
	}

	/* Ticks of a logarithmic axis: powers of ten; 2 and 5 times them where there are few. */
	function logTicks([low, high], most) {
		const decades = Math.log10(high / low);
		const steps = decades > 3 ? [1] : decades > 1 ? [1, 2, 5] : [1, 1.5, 2, 3, 4, 5, 6, 7, 8, 9];
		const every = decades > 3 ? Math.max(1, Math.ceil(decades / most)) : 1;
		const ticks = [];
		for (let p = Math.floor(Math.log10(low)); p <= Math.ceil(Math.log10(high)); p++) {
			for (const s of steps) {
				const v = Number((s * Math.pow(10, p)).toPrecision(12));
				if (v >= low && v <= high && p % every === 0)
					ticks.push(v);
			}
		}
		return ticks;
	}

	const labels = {time: null, ms: "tick(datum.value)", percent: "percentage(datum.value)", si: "si(datum.value)", number: "plain(datum.value)"};

	function setAxis(spec, name, axis) {
		const scale = spec.scales.find(s => s.name === name);
		scale.type = axis.log ? "log" : "linear";
		const a = spec.axes.find(s => s.scale === name);
		if (labels[axis.format])
			a.encode = {labels: {update: {text: {signal: labels[axis.format]}}}};
	}

	/* --- a figure --- */

	function frame(o) {
		const id = "chart" + made++;
		const c = {id, title: o.title, options: o, hidden: new Set(), view: null};
		c.plot = make("div", {class: "plot", role: "img", "aria-labelledby": id + "t", "aria-describedby": id + "d"});
		c.tools = make("div", {class: "tools"});
		c.legend = make("div", {class: "legend"});
		c.said = make("p", {class: "said", "aria-live": "polite"});
		c.element = make("figure", {class: "chart", id, tabindex: "0", role: "group", "aria-labelledby": id + "t"},
			make("figcaption", null, make("div", null, make("h4", {id: id + "t"}, o.title), make("p", {id: id + "d"}, o.about)), c.tools),
			c.legend, c.plot, c.said, o.table ? under(o.tableName || "Table", o.table) : null);
		all.push(c);
		return c;
	}

	/* Each series with its line; a click hides it. */
	function fillLegend(c, redraw) {
		const list = c.options.series;
		if (list.length < 2 && !c.options.alwaysLegend)
			return;
		for (const s of list) {
			const key = make("button", {type: "button", "aria-pressed": "true", title: "Show or hide"}, swatch(s), s.name);
			key.addEventListener("click", () => {
				const hide = !c.hidden.has(s.name);
				c.hidden[hide ? "add" : "delete"](s.name);
				key.setAttribute("aria-pressed", String(!hide));
				redraw();
			});
			c.legend.append(key);
		}
	}

	function swatch(s) {
		const ns = "http://www.w3.org/2000/svg";
		const svg = document.createElementNS(ns, "svg");
		const line = document.createElementNS(ns, "path");
		svg.setAttribute("viewBox", "0 0 20 10");
		svg.setAttribute("aria-hidden", "true");
		svg.setAttribute("class", "swatch");
		line.setAttribute("d", "M0 5H20");
		line.setAttribute("stroke", color(s.color));
		line.setAttribute("stroke-width", s.band ? "8" : "3");
		line.setAttribute("stroke-opacity", s.band ? "0.35" : "1");
		line.setAttribute("stroke-dasharray", dash(s.color).join(" "));
		svg.append(line);
		return svg;
	}

	function showTip(x, y, title, rows) {
		tip.replaceChildren(make("b", null, title), ...rows.map(r =>
			make("div", null, r.series ? swatch(r.series) : null, make("span", null, r.name), make("i", null, r.text))));
		tip.hidden = false;
		const w = tip.offsetWidth, h = tip.offsetHeight;
		const left = x + 16 + w > document.documentElement.clientWidth ? x - w - 14 : x + 14;
		const top = y + 14 + h > document.documentElement.clientHeight ? y - h - 12 : y + 12;
		tip.style.left = Math.max(4, left) + "px";
		tip.style.top = Math.max(4, top) + "px";
	}

	function hideTip() {
		tip.hidden = true;
	}

	/* Vega's own tooltips (marks with a "tip" of lines) shown as ours. */
	function tipHandler(handler, event, item, value) {
		if (!value)
			return hideTip();
		const lines = String(value).split("\n");
		showTip(event.clientX, event.clientY, lines[0], lines.slice(1).map(l => {
			const [name, ...rest] = l.split("\t");
			return {name, text: rest.join("\t")};
		}));
	}

	/* Made when it comes into sight, or when all are wanted. */
	function later(c, draw) {
		c.draw = () => {
			if (!c.drawn)
				c.drawn = draw().then(() => c.plot.setAttribute("data-drawn", ""));
			return c.drawn;
		};
		if (typeof IntersectionObserver === "undefined")
			return void c.draw();
		const seen = new IntersectionObserver(entries => {
			if (entries.some(e => e.isIntersecting)) {
				seen.disconnect();
				c.draw();
			}
		}, {rootMargin: "400px"});
		seen.observe(c.plot);
	}

	function makeView(c, spec, height) {
		if (height)
			spec.height = height;
		const view = new View(parse(spec, config, {ast: true}), {
			expr: expressionInterpreter, renderer: "svg", container: c.plot, hover: false
		});
		view.tooltip(tipHandler);
		view.width(width(c));
		c.view = view;
		if (typeof ResizeObserver !== "undefined") {
			new ResizeObserver(() => {
				if (Math.abs(view.width() - width(c)) > 1)
					view.width(width(c)).runAsync();
			}).observe(c.plot);
		}
		return view;
	}

	function width(c) {
		return Math.max(240, c.plot.clientWidth || 600);
	}

	function colorScales(spec, series) {
		const scale = spec.scales.find(s => s.name === "color"), dashed = spec.scales.find(s => s.name === "dash");
		scale.domain = series.map(s => s.name);
		scale.range = series.map(s => color(s.color));
		if (dashed) {
			dashed.domain = scale.domain;
			dashed.range = series.map(s => dash(s.color));
		}
	}

	/* --- zoom --- */

	const lift = (log, v) => log ? Math.log(v) : v;
	const ground = (log, v) => log ? Math.exp(v) : v;

	function between(x, [a, b], log) {
		return ground(log, lift(log, a) + x * (lift(log, b) - lift(log, a)));
	}

	function zoomed(domain, full, at, factor, log) {
		let [a, b] = domain.map(v => lift(log, v));
		const m = lift(log, at), [f0, f1] = full.map(v => lift(log, v));
		a = Math.max(f0, m - (m - a) * factor);
		b = Math.min(f1, m + (b - m) * factor);
		return b - a > (f1 - f0) * 1e-7 ? [ground(log, a), ground(log, b)] : domain;
	}

	function shifted(domain, full, by, log) {
		let [a, b] = domain.map(v => lift(log, v));
		const [f0, f1] = full.map(v => lift(log, v));
		let move = (b - a) * by;
		move = Math.max(f0 - a, Math.min(f1 - b, move));
		return [ground(log, a + move), ground(log, b + move)];
	}

	function zoomTools(c) {
		const button = (text, label, act) => make("button", {type: "button", "aria-label": label, title: label, onclick: act}, text);
		const middle = () => between(0.5, c.domain, c.options.x.log);
		c.tools.append(
			button("−", "Zoom out", () => c.zoom(zoomed(c.domain, c.full, middle(), 2, c.options.x.log))),
			button("+", "Zoom in", () => c.zoom(zoomed(c.domain, c.full, middle(), 0.5, c.options.x.log))),
			button("All", "Show all", () => c.zoom(c.full)));
	}

	/* x under the pointer */
	function across(c, event) {
		const box = c.plot.querySelector("svg").getBoundingClientRect();
		const x = (event.clientX - box.left) - c.view.origin()[0];
		const domain = c.view.signal("xdomain");
		return between(Math.min(1, Math.max(0, x / plotWidth(c))), domain, c.options.x.log);
	}

	/* y there */
	function up(c, event) {
		const box = c.plot.querySelector("svg").getBoundingClientRect(), height = c.view.scale("y").range()[0];
		const y = 1 - (event.clientY - box.top - c.view.origin()[1]) / height;
		return between(Math.min(1, Math.max(0, y)), c.ydomain, c.options.y.log);
	}

	function plotWidth(c) {
		const range = c.view.scale("x").range();
		return Math.abs(range[1] - range[0]) || 1;
	}

	function pointer(c) {
		let from = null;
		c.plot.addEventListener("pointermove", event => {
			if (!c.view)
				return;
			const x = across(c, event);
			if (from !== null)
				c.view.signal("brush", [from, x]);
			c.point(x, event);
		});
		c.plot.addEventListener("pointerleave", () => {
			hideTip();
			if (c.view && from === null)
				c.view.signal("at", null).runAsync();
		});
		c.plot.addEventListener("pointerdown", event => {
			if (!c.view || event.button !== 0)
				return;
			from = across(c, event);
			c.plot.setPointerCapture(event.pointerId);
		});
		c.plot.addEventListener("pointerup", event => {
			if (!c.view || from === null)
				return;
			const to = across(c, event), low = Math.min(from, to), high = Math.max(from, to), log = c.options.x.log;
			from = null;
			c.view.signal("brush", null);
			const share = (lift(log, high) - lift(log, low)) / (lift(log, c.domain[1]) - lift(log, c.domain[0]));
			if (share > 0.01)
				c.zoom([low, high]);
			else
				c.view.runAsync();
		});
		c.plot.addEventListener("dblclick", () => c.zoom(c.full));
		c.plot.addEventListener("wheel", event => {
			if (!c.view || !(event.ctrlKey || event.metaKey))
				return;
			event.preventDefault();
			c.zoom(zoomed(c.domain, c.full, across(c, event), event.deltaY > 0 ? 1.25 : 0.8, c.options.x.log));
		}, {passive: false});
	}

	function keyboard(c) {
		c.element.addEventListener("keydown", event => {
			if (event.target !== c.element || !c.view || event.ctrlKey || event.altKey || event.metaKey)
				return;
			const log = c.options.x.log, at = c.at === undefined || c.at === null ? between(0.5, c.domain, log) : c.at;
			const step = event.key === "ArrowLeft" ? -0.02 : event.key === "ArrowRight" ? 0.02 : 0;
			if (step && event.shiftKey)
				c.zoom(shifted(c.domain, c.full, step * 10, log));
			else if (step)
				c.point(moved(c, at, step));
			else if (event.key === "ArrowUp" || event.key === "ArrowDown") {
				if (!c.options.rows)
					return;
				c.point(at, null, (event.key === "ArrowUp" ? -1 : 1) / c.options.rows);
			}
			else if (event.key === "+" || event.key === "=")
				c.zoom(zoomed(c.domain, c.full, at, 0.5, log));
			else if (event.key === "-")
				c.zoom(zoomed(c.domain, c.full, at, 2, log));
			else if (event.key === "0")
				c.zoom(c.full);
			else if (event.key === "Escape")
				c.point(null);
			else
				return;
			event.preventDefault();
		});
	}

	function moved(c, at, step) {
		const log = c.options.x.log, [a, b] = c.domain.map(v => lift(log, v));
		return ground(log, Math.min(b, Math.max(a, lift(log, at) + step * (b - a))));
	}

	/* --- series over an axis --- */

	/* o: title, about, x and y {label, log, format, fromZero}, series [{name, color, band}], readout(x, shown, y) -> {title, rows, x}
	 * (y under the pointer, null without one; x where its line is to stand),
	 * data(domain, pixels, shown) -> {lines, bands, dots}: rows of {series, x, y | lo, hi, shape}; full: domain of x; limits
	 * [{y, text}]; group: charts of one group zoom together; table() */
	function series(o) {
		const c = frame(o);
		c.full = o.full || [0, 1];
		c.domain = c.full;
		const shown = name => !c.hidden.has(name);

		c.update = () => {
			const d = o.data(c.domain, width(c), shown);
			c.current = d;
			const ys = [];
			for (const r of d.lines || [])
				if (inside(r.x, c.domain))
					ys.push(r.y);
			for (const r of d.bands || [])
				if (inside(r.x, c.domain))
					ys.push(r.lo, r.hi);
			for (const r of d.dots || [])
				if (inside(r.x, c.domain))
					ys.push(r.y);
			const ydomain = o.y.domain || roomy(extent(ys, o.y.log), o.y.log, o.y.fromZero !== false);
			c.ydomain = ydomain;
			c.view.data("lines", d.lines || []).data("bands", d.bands || []).data("dots", d.dots || []).data("limits", o.limits || []);
			c.view.signal("xdomain", c.domain).signal("ydomain", ydomain);
			c.view.signal("xvalues", o.x.log ? logTicks(c.domain, 8) : null);
			c.view.signal("yvalues", o.y.log ? logTicks(ydomain, 5) : null);
			return c.view.runAsync();
		};
		c.zoom = domain => {
			for (const other of o.group ? groups.get(o.group) : [c]) {
				other.domain = domain;
				if (other.view)
					other.update();
			}
		};
		c.point = (x, event) => {
			c.at = x;
			if (x === null) {
				c.said.textContent = "";
				return void c.view.signal("at", null).runAsync();
			}
			const read = o.readout(x, shown, event ? up(c, event) : null);
			c.view.signal("at", read.x === undefined ? x : read.x).runAsync();
			if (event)
				showTip(event.clientX, event.clientY, read.title, read.rows);
			else
				c.said.textContent = read.title + ": " + read.rows.map(r => r.name + " " + r.text).join("; ");
			c.read = read;
		};
		if (o.group) {
			if (!groups.has(o.group))
				groups.set(o.group, []);
			groups.get(o.group).push(c);
		}
		zoomTools(c);
		fillLegend(c, () => c.view && c.update());
		pointer(c);
		keyboard(c);
		later(c, () => {
			const spec = structuredClone(specs.series);
			setAxis(spec, "x", o.x);
			setAxis(spec, "y", o.y);
			colorScales(spec, o.series);
			makeView(c, spec, o.height).signal("xtitle", o.x.label).signal("ytitle", o.y.label);
			return c.update();
		});
		return c;
	}

	/* A picture with an x axis and a specification of its own: o.spec, o.draw(view, shown), o.readout(x, shown, y) -> {title, rows, row}
	 * where y is how far down the pointer is, 0 to 1, or null. */
	function custom(o) {
		const c = frame(o);
		c.full = o.full;
		c.domain = c.full;
		const shown = name => !c.hidden.has(name);
		c.update = () => {
			o.draw(c.view, shown);
			return c.view.signal("xdomain", c.domain).runAsync();
		};
		c.zoom = domain => {
			c.domain = domain;
			if (c.view)
				c.view.signal("xdomain", domain).runAsync();
		};
		c.point = (x, event, down) => {
			c.at = x;
			if (x === null) {
				c.said.textContent = "";
				return void c.view.signal("at", null).signal("row", null).runAsync();
			}
			const box = c.plot.querySelector("svg").getBoundingClientRect();
			if (event)
				c.y = (event.clientY - box.top - c.view.origin()[1]) / c.view.scale("y").range()[1];
			else if (down)
				c.y = Math.min(0.999, Math.max(0, (c.y || 0) + down));
			const read = c.read = o.readout(x, shown, c.y === undefined ? null : c.y);
			c.view.signal("at", x).signal("row", read.row).runAsync();
			if (event)
				showTip(event.clientX, event.clientY, read.title, read.rows);
			else
				c.said.textContent = read.title + ": " + read.rows.map(r => r.name + " " + r.text).join("; ");
		};
		zoomTools(c);
		fillLegend(c, () => c.view && c.update());
		pointer(c);
		keyboard(c);
		later(c, () => {
			const spec = structuredClone(specs[o.spec]);
			colorScales(spec, o.scale || o.series);
			makeView(c, spec, o.height).signal("xtitle", o.x.label);
			return c.update();
		});
		return c;
	}

	/* Charts of an element that goes away. */
	function forget(element) {
		for (let i = all.length; i-- > 0;) {
			const c = all[i];
			if (!element.contains(c.element))
				continue;
			if (c.view)
				c.view.finalize();
			all.splice(i, 1);
			for (const members of groups.values())
				if (members.includes(c))
					members.splice(members.indexOf(c), 1);
		}
	}

	function inside(x, [a, b]) {
		return x >= a && x <= b;
	}

	/* The last index whose x is at most that; -1: none. */
	function before(xs, x) {
		let low = -1, high = xs.length;
		while (high - low > 1) {
			const m = (low + high) >> 1;
			if (xs[m] <= x)
				low = m;
			else
				high = m;
		}
		return low;
	}

	return {series, custom, forget, before, extent, roomy, swatch, all};
})();
