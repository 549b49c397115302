/* Elements of the page. Text goes in as text only: nothing that a run says becomes markup. */
const elements = (function () {
	/* make("td", {class: "number"}, "12", other, ...) */
	function make(tag, attributes, ...children) {
		const e = document.createElement(tag);
		for (const [name, value] of Object.entries(attributes || {})) {
			if (name.startsWith("on"))
				e.addEventListener(name.slice(2), value);
			else if (value !== undefined && value !== null && value !== false)
				e.setAttribute(name, value === true ? "" : value);
		}
		e.append(...children.flat().filter(c => c !== null && c !== undefined && c !== false));
		return e;
	}

	/* cells: a text each, or {text, class, title, value, href}; `value` is the figure behind the text, for who reads the page by program. */
	function cell(tag, c, attributes) {
		const o = c !== null && typeof c === "object" && !(c instanceof Node) ? c : {text: c};
		const e = make(tag, {class: o.class, title: o.title, "data-value": o.value, ...attributes});
		e.append(o.node || String(o.text));
		return e;
	}

	/* head: cells; rows: cells each, the first of a row is its heading. A column of numbers has its heading above them. */
	function table(caption, head, rows, className) {
		head = head.map((c, i) => typeof c === "string" && rows.length && rows[0][i] && rows[0][i].class && /^number/.test(rows[0][i].class) ? {text: c, class: "number"} : c);
		const t = make("table", {class: className});
		t.append(make("caption", null, caption));
		if (head.some(c => c !== ""))
			t.append(make("thead", null, make("tr", null, head.map(c => cell("th", c, {scope: "col"})))));
		t.append(make("tbody", null, rows.map(r => make("tr", null, r.map((c, i) =>
			i === 0 ? cell("th", c, {scope: "row"}) : cell("td", c))))));
		return make("div", {class: "scroll " + (className || ""), tabindex: "0", role: "region", "aria-label": caption}, t);
	}

	/* A table of what a chart shows, closed at first; made when it is opened. */
	function under(summary, build) {
		const d = make("details", null, make("summary", null, summary));
		d.addEventListener("toggle", () => {
			if (d.open && d.children.length === 1)
				d.append(build());
		});
		return d;
	}

	/* One of several things to look at: a list to choose from where there are several. show(i) -> elements */
	function choose(label, names, show) {
		const body = make("div", null);
		const draw = i => {
			charts.forget(body);
			body.replaceChildren(...show(i).filter(c => c));
		};
		draw(0);
		if (names.length < 2)
			return body;
		const list = make("select", {"aria-label": label}, names.map((n, i) => make("option", {value: String(i)}, n)));
		list.addEventListener("change", () => draw(Number(list.value)));
		return make("div", null, make("p", {class: "choice"}, make("label", null, label + ": ", list)), body);
	}

	function note(text) {
		return make("p", {class: "note"}, text);
	}
	return {make, table, under, choose, note};
})();
