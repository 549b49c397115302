/* Vega is installed as one file for each of its modules, made for a module loader: this is one. */
const modules = (function () {
	const loaded = new Map();
	const alias = {"vega-selections": "vega-selection"};

	function get(name) {
		const module = loaded.get(alias[name] || name);
		if (!module)
			throw new Error("Vega's module " + name + " is not part of this page");
		return module;
	}

	function add(name, body) {
		const module = {exports: {}};
		body(module.exports, module, get);
		loaded.set(name, module.exports);
	}
	return {add, get};
})();
