/* The page: what it shows, in which order. */
const {make, table, note} = elements;
const data = JSON.parse(document.getElementById("data").textContent);
const runs = data.runs;
const charted = runs.filter(r => r.charted);

/* Names are told apart by the number of the run. */
runs.forEach(r => {
	r.name = "#" + r.run_id + " " + r.label;
});
charted.forEach((r, i) => {
	r.color = i;
});

/* --- the top --- */

const dark = window.matchMedia ? window.matchMedia("(prefers-color-scheme: dark)") : {matches: false};

function themeButton() {
	const themes = ["system", "light", "dark"];
	let now = 0;
	const b = make("button", {type: "button", class: "theme"});
	const show = () => {
		const shown = now ? themes[now] : dark.matches ? "dark" : "light";
		document.documentElement.dataset.theme = shown;
		b.textContent = now ? (now === 1 ? "☀ light" : "☾ dark") : "◐ as the system";
		b.setAttribute("aria-label", "Colours: " + (now ? themes[now] : "as the system has them"));
	};
	b.addEventListener("click", () => {
		now = (now + 1) % themes.length;
		show();
	});
	if (dark.addEventListener)
		dark.addEventListener("change", show);
	show();
	return b;
}

function top_(sections) {
	const one = runs.length === 1;
	const title = one ? runs[0].label + ", run " + runs[0].run_id : runs.length <= 4 ? runs.map(r => r.label).join(", ") : runs.length + " runs";
	document.title = title + " – Lockstep report";
	const first = charted[0] || runs[0];
	const same = key => runs.every(r => r[key] === first[key]) ? first[key] : "";
	const about = [same("model"), same("device"), same("trace") ? format.file(same("trace")) : "",
		same("requests") ? format.count(same("requests")) + " requests" : ""].filter(t => t).join(" · ");
	document.getElementById("top").append(
		make("div", null, make("p", {class: "brand"}, "Lockstep report"), make("h1", null, title), make("p", {class: "about"}, about)),
		themeButton());
	document.getElementById("contents").append(make("ul", null, sections.map(s => make("li", null, make("a", {href: "#" + s.id}, s.title)))));
	document.getElementById("end").append(
		make("p", null, "Made on " + data.made + " UTC by Lockstep " + data.program_version + " from " + data.database + "."),
		make("p", null, "Charts: drag to zoom in, double-click or 0 to see all, Ctrl + wheel or + and − to zoom; arrow keys move the cursor of a chart " +
			"that has the focus. Drawn by Vega, © University of Washington Interactive Data Lab and contributors, BSD 3-clause licence."));
}

/* --- summary --- */

function metric(run, key) {
	const m = run.metrics[key];
	return m ? m[0] : null;
}

function tile(label, run, key, show) {
	const v = metric(run, key);
	return make("div", {class: "tile"}, make("span", null, label), make("strong", {"data-metric": key, "data-value": v}, show(v)));
}

function tiles(run) {
	return make("div", {class: "tiles"},
		tile("requests finished", run, "completed", format.count),
		tile("requests a second", run, "request_throughput", format.number),
		tile("output tokens a second", run, "output_throughput", format.number),
		tile("TTFT, mean", run, "mean_ttft_ms", format.ms),
		tile("TTFT, p99", run, "p99_ttft_ms", format.ms),
		tile("TPOT, mean", run, "mean_tpot_ms", format.ms),
		tile("E2E latency, p99", run, "p99_e2el_ms", format.ms),
		metric(run, "request_goodput") !== null ? tile("goodput, requests a second", run, "request_goodput", format.number) : null);
}

/* One row for each figure that a run has, the best marked, and the change against the first run. */
function metricRows(shown, wanted) {
	const names = new Map(data.metric_names.map(m => [m.key, m]));
	const keys = data.metric_names.map(m => m.key);
	for (const r of shown)
		for (const key of Object.keys(r.metrics))
			if (!names.has(key)) {
				names.set(key, {key, label: key, unit: r.metrics[key][1], better: "", headline: false});
				keys.push(key);
			}
	const rows = [];
	for (const key of keys) {
		const m = names.get(key), values = shown.map(r => metric(r, key)), some = values.filter(format.defined);
		if (!wanted(m) || !some.length)
			continue;
		const best = m.better === "higher" ? Math.max(...some) : m.better === "lower" ? Math.min(...some) : null;
		const differ = some.some(v => v !== some[0]);
		const unit = format.unit(m.unit);
		rows.push([{text: m.label + (unit ? ", " + unit : ""), title: key}, ...values.map((v, i) => figureCell(shown[i], key, v, m, values[0], i, best !== null && differ && v === best))]);
	}
	return rows;
}

function figureCell(run, key, v, m, base, i, best) {
	const uncertain = run.metrics[key] && run.metrics[key][2];
	const change = i > 0 ? format.change(v, base) : "";
	const node = make("span", null, format.value(v, m.unit), uncertain && format.defined(v) ? make("abbr", {title: "A percentile of too few samples"}, "~") : null,
		change ? make("small", null, change) : null);
	return {node, value: v, class: "number" + (best ? " best" : ""), title: best ? "the best" : undefined};
}

function runHead(r) {
	return {node: make("span", null, r.charted ? charts.swatch(r) : null, r.name), class: "number"};
}

/* Many runs stand below each other instead. */
const ACROSS = 6;
const columns = ["completed", "request_throughput", "output_throughput", "mean_ttft_ms", "p99_ttft_ms", "mean_tpot_ms", "p99_tpot_ms", "p99_e2el_ms"];

function runTable() {
	const names = columns.map(key => data.metric_names.find(m => m.key === key)).filter(m => m);
	return table("The runs", ["run", "policy", "model", "device", ...names.map(m => ({text: m.label + (format.unit(m.unit) ? ", " + format.unit(m.unit) : ""), class: "number"}))],
		runs.map(r => [{...runHead(r), class: ""}, r.policy, r.model, r.device, ...names.map(m => ({text: format.value(metric(r, m.key), m.unit), value: metric(r, m.key), class: "number"}))]), "figures runs");
}

function summary() {
	const out = [], across = runs.length <= ACROSS;
	for (const r of runs.filter(r => r.status !== "complete"))
		out.push(note(r.name + " is " + r.status + (r.status_text ? ": " + r.status_text : r.status === "running" ? ": still going on, or killed; what is stored of it is incomplete." : ".")));
	if (runs.length > charted.length)
		out.push(note("Charts are of the last " + charted.length + " runs; name others on the command line to see theirs."));
	const hashes = new Set(runs.map(r => r.workload_hash));
	if (hashes.size > 1)
		out.push(note("These runs did not have the same input: " + hashes.size + " different workloads (the table of settings has their hashes). Differences between them are not of policies alone."));
	if (runs.length === 1)
		out.push(tiles(runs[0]));
	if (across) {
		out.push(table("Figures" + (runs.length > 1 ? " (small: against the first run)" : ""), ["", ...runs.map(runHead)], metricRows(runs, m => m.headline), "figures main" + (runs.length === 1 ? " narrow" : "")));
		out.push(elements.under("All figures", () => table("All figures", ["", ...runs.map(runHead)], metricRows(runs, () => true), "figures" + (runs.length === 1 ? " narrow" : ""))));
	} else {
		out.push(runTable());
	}
	return out;
}

/* --- settings --- */

function flat(object, prefix, into) {
	for (const [key, v] of Object.entries(object || {})) {
		if (v !== null && typeof v === "object" && !Array.isArray(v))
			flat(v, prefix + key + ".", into);
		else
			into.set(prefix + key, Array.isArray(v) ? v.join(" ") : v);
	}
	return into;
}

function settingText(v) {
	return v === undefined || v === null ? format.none : v === true ? "on" : v === false ? "off" : typeof v === "number" ? format.number(v) : String(v);
}

function settings() {
	const shown = charted.map(r => ({run: r, values: flat(r.result && r.result.settings, "", new Map([["label", r.label], ["policy", r.policy],
		["policy_params", r.policy_params], ["workload_hash", r.workload_hash], ["started", r.started], ["recorded", r.recorded]]))}));
	const keys = [...new Set(shown.flatMap(s => [...s.values.keys()]))];
	const differs = key => new Set(shown.map(s => JSON.stringify(s.values.get(key)))).size > 1;
	const row = key => [key, ...shown.map(s => settingText(s.values.get(key)))];
	const head = ["", ...shown.map(s => s.run.name)];
	const out = [];
	const different = keys.filter(differs);
	if (shown.length > 1)
		out.push(different.length ? table("What differs", head, different.map(row), "settings") : note("These runs have the same settings."));
	out.push(elements.under(shown.length > 1 ? "All settings" : "Settings", () => table("All settings", head, keys.map(row), "settings")));
	return out;
}

/* --- all of it --- */

function eachRun(show) {
	return [elements.choose("Run", charted.map(r => r.name), i => show(charted[i]))];
}

const sections = [
	{id: "summary", title: "Summary", build: summary},
	{id: "latency", title: "Latencies", build: () => latency.section(charted)},
	{id: "pairs", title: "Against each other", build: () => pairs.section(charted)},
	{id: "steps", title: "Steps", build: () => eachRun(steps.of)},
	{id: "roofline", title: "Roofline", build: () => eachRun(steps.roofline)},
	{id: "requests", title: "Requests", build: () => eachRun(gantt.of)},
	{id: "blocks", title: "KV blocks", build: () => eachRun(blocks.of)},
	{id: "validation", title: "Validation", build: () => more.validations(data)},
	{id: "objectives", title: "Objectives", build: () => more.searches(data)},
	{id: "experiments", title: "Experiments", build: () => more.sweeps(data)},
	{id: "workload", title: "Workload", build: () => latency.workload(charted)},
	{id: "settings", title: "Settings", build: settings}
];

function build() {
	const main = document.getElementById("main");
	main.replaceChildren();
	const there = [];
	for (const s of sections) {
		const content = s.build().filter(c => c);
		if (!content.length)
			continue;
		there.push(s);
		main.append(make("section", {id: s.id, "aria-labelledby": s.id + "-title"}, make("h2", {id: s.id + "-title"}, s.title), content));
	}
	top_(there);
}

/* For whoever looks at the page by program. */
window.lockstepReport = {data, charts: charts.all, drawAll: () => Promise.all(charts.all.map(c => c.draw()))};
build();
/* The browser looked for it before it was there. */
const wanted = location.hash.length > 1 && document.getElementById(location.hash.slice(1));
if (wanted)
	wanted.scrollIntoView({behavior: "instant"});
window.addEventListener("beforeprint", () => {
	charts.all.forEach(c => c.draw());
});
