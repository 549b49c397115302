/* Numbers as people read them. What is not defined is null in the data and a dash on the page, never 0. */
const format = (function () {
	const none = "–";
	const whole = new Intl.NumberFormat("en-US", {maximumFractionDigits: 0});

	function defined(v) {
		return typeof v === "number" && isFinite(v);
	}

	/* About four significant digits, no exponent within reason. */
	function number(v) {
		if (!defined(v))
			return v === Infinity ? "∞" : none;
		const size = Math.abs(v);
		if (size === 0)
			return "0";
		if (size >= 999.5)
			return whole.format(v);
		if (size < 1e-4)
			return v.toExponential(2);
		return String(Number(v.toPrecision(4)));
	}

	function count(v) {
		return defined(v) ? whole.format(v) : none;
	}

	/* Milliseconds in the unit that suits them. */
	function ms(v) {
		if (!defined(v))
			return none;
		const size = Math.abs(v);
		if (size === 0)
			return "0 ms";
		if (size < 1)
			return number(v * 1000) + " µs";
		if (size < 1000)
			return number(v) + " ms";
		return size < 120000 ? number(v / 1000) + " s" : size < 7200000 ? number(v / 60000) + " min" : number(v / 3600000) + " h";
	}

	/* A difference of milliseconds. */
	function signed(v) {
		return defined(v) ? (v > 0 ? "+" : v < 0 ? "−" : "") + ms(Math.abs(v)) : none;
	}

	/* For ticks: milliseconds below a second, seconds from there on. */
	function tick(v) {
		return (v < 0 ? "−" : "") + (Math.abs(v) >= 1000 ? number(Math.abs(v) / 1000) + " s" : v === 0 ? "0" : number(Math.abs(v)) + " ms");
	}

	function bytes(v) {
		if (!defined(v))
			return none;
		const units = ["B", "kB", "MB", "GB", "TB"];
		let i = 0;
		for (; v >= 1000 && i + 1 < units.length; i++)
			v /= 1000;
		return number(v) + " " + units[i];
	}

	/* With a letter for the thousands: 3.1 T. */
	function si(v) {
		if (!defined(v) || v === 0)
			return v === 0 ? "0" : none;
		const letters = ["", " k", " M", " G", " T", " P", " E"];
		const i = Math.min(letters.length - 1, Math.max(0, Math.floor(Math.log10(Math.abs(v)) / 3 + 1e-9)));
		return number(v / Math.pow(1000, i)) + letters[i];
	}

	function percent(v) {
		return defined(v) ? number(100 * v) + " %" : none;
	}

	/* A figure by its unit in the database. */
	function value(v, unit) {
		if (!defined(v))
			return number(v);
		if (unit === "share")
			return number(100 * v);
		if (unit === "bytes")
			return bytes(v);
		return Number.isInteger(v) ? count(v) : number(v);
	}

	/* What is said beside it. */
	function unit(text) {
		return text === "share" ? "%" : text === "bytes" ? "" : text;
	}

	/* A change against the first: "−41 %", "3.2×", "÷12". */
	function change(v, base) {
		if (!defined(v) || !defined(base) || base === 0)
			return "";
		const ratio = v / base;
		if (ratio >= 2 || ratio < 0)
			return number(Number(ratio.toPrecision(3))) + "×";
		if (ratio < 0.1 && ratio > 0)
			return "÷" + number(Number((1 / ratio).toPrecision(3)));
		const by = 100 * (ratio - 1);
		if (by === 0)
			return "=";
		return (by > 0 ? "+" : "−") + number(Number(Math.abs(by).toPrecision(Math.abs(by) < 10 ? 2 : 3))) + " %";
	}

	/* The unit of a time axis that spans so many seconds. */
	function timeUnit(seconds) {
		if (seconds < 2)
			return {name: "ms", seconds: 1e-3};
		if (seconds < 300)
			return {name: "s", seconds: 1};
		return seconds < 3 * 3600 ? {name: "min", seconds: 60} : {name: "h", seconds: 3600};
	}

	/* The last part of a path. */
	function file(path) {
		return path.slice(path.lastIndexOf("/") + 1);
	}
	return {none, defined, number, count, ms, signed, tick, bytes, si, percent, value, unit, change, timeUnit, file};
})();
