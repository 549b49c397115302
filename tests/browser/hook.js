/* Put into a copy of a report by report.sh: looks at the page as a reader does (points, drags, types), holds what it shows
 * against `expected` (from the database, by sqlite3), and leaves a line for each test in #result: "ok WHAT" or "FAILED WHAT". */
(async function () {
	const lines = [];
	const expected = JSON.parse(document.getElementById("expected").textContent);
	const check = (what, fine, more) => lines.push((fine ? "ok " : "FAILED ") + what + (fine || more === undefined ? "" : ": " + more));
	const all = (selector, from) => [...(from || document).querySelectorAll(selector)];
	const idle = () => new Promise(done => setTimeout(done, 30));
	const near = (a, b, within) => Math.abs(a - b) <= within * Math.max(1e-12, Math.abs(b));

	function pointer(target, type, x, y) {
		target.dispatchEvent(new PointerEvent(type, {clientX: x, clientY: y, button: 0, pointerId: 1, bubbles: true, isPrimary: true}));
	}

	function key(target, name, more) {
		target.dispatchEvent(new KeyboardEvent("keydown", {key: name, bubbles: true, cancelable: true, ...more}));
	}

	/* Where a value lies on the page, by the chart's own scales. */
	function place(chart, x) {
		const box = chart.plot.querySelector("svg").getBoundingClientRect(), origin = chart.view.origin();
		return {x: box.left + origin[0] + chart.view.scale("x")(x), y: box.top + origin[1] + 40};
	}

	const chart = title => window.lockstepReport.charts.find(c => c.title === title);

	/* --- */

	function figures() {
		const runs = window.lockstepReport.data.runs;
		let cells = 0, wrong = [];
		all("#summary details").forEach(d => d.open = true);
		all("#summary details").forEach(d => d.dispatchEvent(new Event("toggle")));
		for (const row of all("#summary table.figures:not(.runs) tbody tr")) {
			const name = row.querySelector("th").title;
			all("td", row).forEach((td, i) => {
				const want = expected.metrics[runs[i].run_id][name], has = td.dataset.value;
				cells++;
				if (want === undefined || want === null ? has !== undefined : Number(has) !== want)
					wrong.push(name + " " + has + " not " + want);
			});
		}
		check("every figure of the summary is the database's", cells > 100 && !wrong.length, cells + " cells; " + wrong.slice(0, 3).join("; "));
		const shown = all("#summary .tile strong").filter(s => s.dataset.value !== undefined);
		check("tiles as well", shown.every(s => Number(s.dataset.value) === expected.metrics[runs[0].run_id][s.dataset.metric]));
		/* What is read is what is meant: up to the digits that are left out. */
		const read = all("#summary table.main td.number[data-value]").filter(td => {
			const text = td.firstChild.firstChild.textContent.replace(/,/g, ""), unit = td.parentNode.querySelector("th").textContent;
			return !near(Number(text) / (unit.endsWith(", %") ? 100 : 1), Number(td.dataset.value), 6e-4);
		});
		check("and reads so", !read.length, read.map(td => td.textContent + " for " + td.dataset.value).slice(0, 3).join("; "));
	}

	function drawn() {
		const empty = window.lockstepReport.charts.filter(c => {
			const marks = all(".mark-line path, .mark-area path, .mark-symbol path, .mark-rect path", c.plot);
			return !c.view || !marks.some(p => (p.getAttribute("d") || "").length > 8);
		});
		check("every chart is drawn", window.lockstepReport.charts.length >= expected.charts && !empty.length,
			window.lockstepReport.charts.length + " charts, empty: " + empty.map(c => c.title).join(", "));
		noPlaceIsNoNumber();
	}

	function noPlaceIsNoNumber() {
		const bad = window.lockstepReport.charts.filter(c => all("text, path", c.plot).some(e => /NaN|undefined/.test((e.getAttribute("d") || "") + (e.getAttribute("transform") || "") + e.textContent)));
		check("none has a place or a text that is no number", !bad.length, bad.map(c => c.title).join(", "));
	}

	function distributions() {
		for (const [title, key_] of [["TTFT, distribution", "ttft"], ["TPOT, distribution", "tpot"], ["E2E latency, distribution", "e2el"]]) {
			const c = chart(title);
			for (const r of window.lockstepReport.data.runs) {
				const xs = c.view.data("lines").filter(l => l.series === r.name && l.y > 0).map(l => l.x), want = expected.extremes[r.run_id];
				check(title + " of " + r.name + " begins with the least", xs[0] === want[key_ + "_min"], xs[0] + " not " + want[key_ + "_min"]);
				check("and reaches the greatest", xs.includes(want[key_ + "_max"]));
			}
		}
	}

	async function hover() {
		const c = chart("Requests"), r = window.lockstepReport.data.runs[0];
		check("the steps are there as they were", r.steps.exact);
		let wrong = [];
		const unit = c.options.x.label.endsWith("min") ? 60e9 : c.options.x.label.endsWith("ms") ? 1e6 : 1e9;
		for (const step of expected.steps) {
			/* Only a few steps in sight: each is told by itself. */
			c.zoom([Math.max(c.full[0], (step.start_ns - 3 * step.duration_ns) / unit), Math.min(c.full[1], (step.start_ns + 4 * step.duration_ns) / unit)]);
			await idle();
			const at = place(c, (step.start_ns + step.duration_ns / 2) / unit);
			pointer(c.plot, "pointermove", at.x, at.y);
			await idle();
			const tip = document.getElementById("tip"), values = all("i", tip).map(i => Number(i.textContent.replace(/,/g, "")));
			if (tip.hidden || !tip.textContent.includes("step " + step.step.toLocaleString("en-US")) || values[0] !== step.running || values[1] !== step.waiting)
				wrong.push("step " + step.step + ": " + tip.textContent);
		}
		check("the pointer reads each step as the database has it", expected.steps.length > 5 && !wrong.length, wrong.slice(0, 2).join("; "));
		check("a line marks the place", c.view.signal("at") !== null);
		c.plot.dispatchEvent(new PointerEvent("pointerleave"));
		await idle();
		check("it goes when the pointer does", document.getElementById("tip").hidden && c.view.signal("at") === null);
		c.zoom(c.full);
		await idle();
	}

	async function zoom() {
		const c = chart("Requests"), other = chart("KV memory"), labels = () => all(".role-axis-label text", c.plot).map(t => t.textContent).join();
		const before = c.domain.slice(), text = labels(), box = c.plot.querySelector("svg").getBoundingClientRect();
		pointer(c.plot, "pointerdown", box.left + box.width * 0.4, box.top + 60);
		pointer(c.plot, "pointermove", box.left + box.width * 0.5, box.top + 60);
		await idle();
		check("what is dragged over is marked", c.view.signal("brush") !== null);
		pointer(c.plot, "pointerup", box.left + box.width * 0.6, box.top + 60);
		await idle();
		check("dragging zooms in", c.domain[0] > before[0] && c.domain[1] < before[1], c.domain.join());
		check("the axis says so", labels() !== text);
		check("charts of the same steps follow", other.view.signal("xdomain").join() === c.domain.join());
		c.plot.dispatchEvent(new MouseEvent("dblclick", {bubbles: true}));
		await idle();
		check("a double click shows everything", c.domain.join() === before.join());
		c.plot.dispatchEvent(new WheelEvent("wheel", {deltaY: -100, ctrlKey: true, clientX: box.left + box.width / 2, clientY: box.top + 60, bubbles: true, cancelable: true}));
		await idle();
		check("Ctrl and the wheel zoom", c.domain[1] - c.domain[0] < before[1] - before[0]);
		all(".tools button", c.element).find(b => b.textContent === "All").click();
		await idle();
		check("the button shows all", c.domain.join() === before.join());
		const plain = new WheelEvent("wheel", {deltaY: -100, clientX: box.left + 50, clientY: box.top + 60, bubbles: true, cancelable: true});
		c.plot.dispatchEvent(plain);
		check("the wheel alone scrolls the page", !plain.defaultPrevented && c.domain.join() === before.join());
		const log = chart("TTFT, distribution"), full = log.domain.slice();
		log.zoom([full[0] * 1.5, full[1] / 1.5]);
		await idle();
		check("a logarithmic axis zooms as well", log.view.signal("xdomain")[0] === full[0] * 1.5);
		log.zoom(full);
	}

	async function keyboard() {
		const c = chart("TTFT, distribution");
		c.element.focus();
		check("a chart can have the focus", document.activeElement === c.element);
		key(c.element, "ArrowRight");
		const first = c.said.textContent;
		key(c.element, "ArrowRight");
		check("arrow keys read it aloud", first.startsWith("at most ") && c.said.textContent !== first && c.said.getAttribute("aria-live") === "polite", first);
		key(c.element, "+");
		const near_ = c.domain.slice();
		key(c.element, "0");
		check("+ and 0 zoom", near_[1] - near_[0] < c.domain[1] - c.domain[0] && c.domain.join() === c.full.join());
		key(c.element, "Escape");
		check("Escape takes the cursor away", c.said.textContent === "");
		const g = window.lockstepReport.charts.find(x => x.title.startsWith("Requests by phase"));
		key(g.element, "ArrowDown");
		const row = g.view.signal("row");
		key(g.element, "ArrowDown");
		check("rows are reached by keys", g.view.signal("row") === row + 1 && g.said.textContent.startsWith("request "), g.said.textContent);
		await idle();
	}

	async function legend() {
		const c = chart("Requests"), button = c.legend.querySelector("button");
		const shown = () => new Set(c.view.data("lines").map(l => l.series)).size;
		const before = shown();
		button.click();
		await idle();
		check("the legend hides", shown() === before - 1 && button.getAttribute("aria-pressed") === "false");
		button.click();
		await idle();
		check("and shows", shown() === before && button.getAttribute("aria-pressed") === "true");
	}

	function phases() {
		const g = window.lockstepReport.charts.find(c => c.title.startsWith("Requests by phase"));
		const sums = {}, unit = g.options.x.label.endsWith("min") ? 60e9 : g.options.x.label.endsWith("ms") ? 1e6 : 1e9;
		g.view.data("phases").forEach(p => {
			sums[p.kind] = (sums[p.kind] || 0) + (p.x2 - p.x) * unit;
		});
		check("phases add up to what requests were queued", near(sums.queued || 0, expected.gantt_queue_ns, 1e-6), sums.queued + " not " + expected.gantt_queue_ns);
	}

	async function map() {
		const c = window.lockstepReport.charts.find(x => x.title.startsWith("KV blocks over time")), r = window.lockstepReport.data.runs[0], b = r.blocks;
		const box = c.plot.querySelector("svg").getBoundingClientRect();
		pointer(c.plot, "pointermove", box.left + box.width * 0.5, box.top + 100);
		await idle();
		const told = all("#tip i").slice(0, 4).map(i => Number(i.textContent.replace(/,/g, "")));
		check("the pointer tells the blocks of a stripe", told.reduce((a, v) => a + v, 0) === b.per_row, told.join());
		c.plot.dispatchEvent(new PointerEvent("pointerleave"));
		const details = c.element.querySelector("details");
		details.open = true;
		details.dispatchEvent(new Event("toggle"));
		const rows = all("tbody tr", details).map(tr => all("td", tr).map(td => Number(td.dataset.value)));
		check("its table adds up to all blocks", rows.length === b.at.length && rows.every(v => v.reduce((a, x) => a + x, 0) === b.num_blocks));
		check("and to what the steps used", rows.every((v, i) => v[0] + v[1] === r.steps.blocks_used[i * b.every]));
		const list = c.element.closest("section").querySelectorAll("select");
		const by = [...list].find(s => s.getAttribute("aria-label") === "Colours by");
		by.value = "1";
		by.dispatchEvent(new Event("change"));
		await window.lockstepReport.drawAll();
		const other = window.lockstepReport.charts.find(x => x.title.startsWith("KV blocks over time, by request"));
		check("by request as well", other && all(".mark-rect path", other.plot).length > 10);
	}

	async function theme() {
		const b = document.querySelector("button.theme"), paper = () => getComputedStyle(document.body).backgroundColor, ink = () => getComputedStyle(document.querySelector(".plot .role-axis-label text")).fill;
		const seen = new Set(), inks = new Set();
		for (let i = 0; i < 3; i++) {
			b.click();
			await idle();
			seen.add(document.documentElement.dataset.theme + paper());
			inks.add(ink());
		}
		check("light and dark", seen.size === 2 && inks.size === 2, [...seen].join() + " " + [...inks].join());
	}

	function accessibility() {
		const named = e => (e.getAttribute("aria-label") || (e.getAttribute("aria-labelledby") || "").split(" ").map(id => (document.getElementById(id) || {}).textContent).join("") || e.textContent).trim();
		check("figures have titles and descriptions", all("figure").every(f => named(f) && document.getElementById(f.querySelector(".plot").getAttribute("aria-describedby")).textContent));
		check("pictures are named", all("[role=img]").every(e => e.getAttribute("aria-labelledby")));
		check("buttons and lists are named", all("button, select").every(b => named(b)));
		check("tables have captions and headings", all("table").every(t => t.caption && t.caption.textContent && t.querySelector("th[scope=col]") && t.querySelector("th[scope=row]")));
		const ids = all("[id]").map(e => e.id);
		check("ids are each there once", new Set(ids).size === ids.length);
		check("headings follow each other", all("h1").length === 1 && all("h2").length >= 5 && document.documentElement.lang === "en");
		check("links lead somewhere", all("nav a").length >= 5 && all("nav a").every(a => document.getElementById(a.getAttribute("href").slice(1))));
		const contrast = all(".plot .role-axis-label text, figcaption p, .about").slice(0, 50).every(e => ratio(getComputedStyle(e)[e.ownerSVGElement ? "fill" : "color"], getComputedStyle(document.querySelector("figure")).backgroundColor) >= 4.5);
		check("text can be told from the page (4.5 to 1)", contrast);
	}

	function ratio(a, b) {
		const light = c => {
			const [r, g, bl] = c.match(/[\d.]+/g).map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92 : Math.pow((v + 0.055) / 1.055, 2.4));
			return 0.2126 * r + 0.7152 * g + 0.0722 * bl;
		};
		const [x, y] = [light(a), light(b)].sort((p, q) => q - p);
		return (x + 0.05) / (y + 0.05);
	}

	function hostile() {
		const name = expected.hostile;
		check("no script of a name has run", window.hacked === undefined && !all("img, iframe, object, embed").length && all("script").length === 4, all("script").length);
		check("the name is there as text", document.body.textContent.includes(name) || document.getElementById("top").textContent.includes(name.slice(name.lastIndexOf("/") + 1)));
	}

	try {
		await window.lockstepReport.drawAll();
		await idle();
		if (expected.odd !== undefined) {
			noPlaceIsNoNumber();
			check("nor does a text say so", !/NaN|undefined|\[object|Infinity/.test(document.getElementById("main").innerText));
			check("every run is there", expected.odd.every(id => document.body.textContent.includes("#" + id + " ")));
		} else if (expected.hostile !== undefined) {
			hostile();
		} else {
			drawn();
			figures();
			distributions();
			await hover();
			await zoom();
			await keyboard();
			await legend();
			phases();
			await map();
			await theme();
			accessibility();
			check("nothing is wider than the window", document.documentElement.scrollWidth <= document.documentElement.clientWidth, document.documentElement.scrollWidth);
		}
	} catch (e) {
		check("no exception", false, e.stack);
	}
	const out = document.createElement("pre");
	out.id = "result";
	out.textContent = "\n" + lines.join("\n") + "\n";
	document.body.append(out);
})();
