# stats.awk: rows of a study (arm, seed, figures by the header's names) and what they say: means, and ratios of two arms
# that were given the same seeds, with 95 % intervals. A ratio's interval is Student's, of the logarithms.
# -v mode=table: a Markdown table of the arms, `cols` saying what of each;  mode=pairs: of steps from one arm to another;
# mode=say: one ratio in words;  mode=bars: a chart, as SVG.
BEGIN {
	FS = "\t"
	split("12.706 4.303 3.182 2.776 2.571 2.447 2.365 2.306 2.262 2.228 2.201 2.179 2.160 2.145 2.131 2.120 2.110 2.101" \
		" 2.093 2.086 2.080 2.074 2.069 2.064 2.060 2.056 2.052 2.048 2.045 2.042", quantile, " ")
}
NR == 1 {
	for (i = 3; i <= NF; i++)
		name[i] = $i
	columns = NF
	next
}
{
	for (i = 3; i <= columns; i++)
		if ($i != "")
			value[$1, $2, name[i]] = $i
	if (!($2 in known)) {
		known[$2] = 1
		seed[++seeds] = $2
	}
}

function t_of(n) { return n - 1 > 30 ? 1.96 : quantile[n - 1] }

# From sums over n: the mean M, and the half of its interval H.
function settle(n, sum, squares,   variance)
{
	N = n
	M = n ? sum / n : 0
	variance = n > 1 ? (squares - n * M * M) / (n - 1) : 0
	H = variance > 0 ? t_of(n) * sqrt(variance / n) : 0
	return n
}

function mean_of(arm, what,   i, n, sum, squares, v)
{
	for (i = 1; i <= seeds; i++) {
		if (!((arm, seed[i], what) in value))
			continue
		v = value[arm, seed[i], what]
		n++
		sum += v
		squares += v * v
	}
	return settle(n, sum, squares)
}

# arm / base, or with less = 1 the other way round (of times: how many times as fast). Sets R, LOW, HIGH.
function ratio_of(arm, base, what, less,   i, n, sum, squares, a, b, v)
{
	for (i = 1; i <= seeds; i++) {
		if (!((arm, seed[i], what) in value) || !((base, seed[i], what) in value))
			continue
		a = value[arm, seed[i], what]
		b = value[base, seed[i], what]
		if (a <= 0 || b <= 0)
			continue
		v = less ? log(b / a) : log(a / b)
		n++
		sum += v
		squares += v * v
	}
	settle(n, sum, squares)
	R = exp(M)
	LOW = exp(M - H)
	HIGH = exp(M + H)
	return n
}

function grouped(text,   sign, out)
{
	sign = ""
	if (substr(text, 1, 1) == "-") {
		sign = "-"
		text = substr(text, 2)
	}
	out = ""
	while (length(text) > 3) {
		out = "," substr(text, length(text) - 2) out
		text = substr(text, 1, length(text) - 3)
	}
	return sign text out
}

# Three digits that count; whole thousands with commas.
function figure(v,   size)
{
	size = v < 0 ? -v : v
	if (size >= 100)
		return grouped(sprintf("%.0f", v))
	return sprintf(size >= 10 ? "%.1f" : size >= 1 || size == 0 ? "%.2f" : "%.3g", v)
}

function times(v) { return sprintf(v >= 100 ? "%.0f" : v >= 10 ? "%.1f" : v >= 2 ? "%.2f" : "%.3f", v) }

function interval() { return times(R) " (" times(LOW) " to " times(HIGH) ")" }

# What cannot be told from 1, and what is so near to it that nobody would notice.
function verdict()
{
	if (LOW > 0.995 && HIGH < 1.005)
		return "alike"
	return LOW <= 1 && HIGH >= 1 ? "no difference" : R > 1 ? "more" : "less"
}

# One cell: "KEY KIND"; kinds: mean, ci (with its interval), percent, speedup (base / arm), ratio (arm / base).
function cell(arm, spec,   part, less)
{
	split(spec, part, " ")
	if (part[2] == "speedup" || part[2] == "ratio") {
		if (arm == base)
			return "1"
		return ratio_of(arm, base, part[1], part[2] == "speedup") ? interval() : "-"
	}
	if (!mean_of(arm, part[1]))
		return "-"
	if (part[2] == "percent")
		return sprintf("%.1f %%", 100 * M)
	return figure(M) (part[2] == "ci" && N > 1 ? " ± " figure(H) : "")
}

function table(   n, i, c, k, line, rule, list, col, spec)
{
	n = split(arms, list, "|")
	k = split(cols, col, "|")
	line = "| |"
	rule = "| --- |"
	for (c = 1; c <= k; c++) {
		split(col[c], spec, "=")
		line = line " " spec[2] " |"
		rule = rule " --- |"
	}
	print line
	print rule
	for (i = 1; i <= n; i++) {
		split(list[i], spec, "=")
		line = "| " spec[2] " |"
		for (c = 1; c <= k; c++) {
			split(col[c], part_of, "=")
			line = line " " cell(spec[1], part_of[1]) " |"
		}
		print line
	}
}

# pairs: "from>to=what it is called|...". Ratios multiply, so that the share of a step in the whole is that of logarithms.
function pairs_table(   n, i, list, spec, ends, all)
{
	n = split(pairs, list, "|")
	split(whole, ends, ">")
	ratio_of(ends[2], ends[1], key, !more)
	all = LOW <= 1 && HIGH >= 1 ? 0 : log(R)
	print "| " title " | times (95 %) | | of the whole |"
	print "| --- | --- | --- | --- |"
	for (i = 1; i <= n; i++) {
		split(list[i], spec, "=")
		split(spec[1], ends, ">")
		ratio_of(ends[2], ends[1], key, !more)
		print "| " spec[2] " | " interval() " | " verdict() " | " (all == 0 ? "" : sprintf("%.0f %%", 100 * log(R) / all)) " |"
	}
}

function say(   ends)
{
	split(pair, ends, ">")
	if (!ratio_of(ends[2], ends[1], key, !more))
		print "(not measured)"
	else if (verdict() == "alike" || verdict() == "no difference")
		print interval() " times, no significant difference"
	else
		print interval() " times"
}

# Of the KV memory that is not free: the share that holds nothing.
function waste(   used, empty)
{
	mean_of(arm, "kv_used")
	used = M
	mean_of(arm, "kv_internal_waste")
	empty = M
	mean_of(arm, "kv_reserved_waste")
	empty += M
	mean_of(arm, "kv_external_waste")
	empty += M
	if (used + empty > 0)
		printf "%.0f %%", 100 * empty / (used + empty)
	else
		printf "-"
}

function escaped(text)
{
	gsub(/&/, "\\&amp;", text)
	gsub(/</, "\\&lt;", text)
	return text
}

# Bars to the right, one an arm, with whiskers; `key` of the arms against base.
function bars(   n, i, list, spec, most, y, x, step, v)
{
	n = split(arms, list, "|")
	most = 1
	for (i = 1; i <= n; i++) {
		split(list[i], spec, "=")
		label[i] = spec[2]
		ratio_of(spec[1], base, key, !more)
		ratio[i] = R
		low[i] = LOW
		high[i] = HIGH
		if (HIGH > most)
			most = HIGH
	}
	step = most > 200 ? 50 : most > 50 ? 10 : most > 20 ? 5 : most > 8 ? 2 : most > 4 ? 1 : 0.5
	printf "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"760\" height=\"%d\" viewBox=\"0 0 760 %d\" font-family=\"sans-serif\" " \
		"font-size=\"12\">\n<rect width=\"760\" height=\"%d\" fill=\"#fff\"/>\n<text x=\"10\" y=\"20\" font-weight=\"bold\">%s</text>\n",
		60 + 24 * n, 60 + 24 * n, 60 + 24 * n, escaped(title)
	for (v = 0; v <= most; v += step) {
		x = 300 + 430 * v / most
		printf "<line x1=\"%.1f\" y1=\"30\" x2=\"%.1f\" y2=\"%d\" stroke=\"#ddd\"/><text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%g" \
			"</text>\n", x, x, 36 + 24 * n, x, 52 + 24 * n, v
	}
	for (i = 1; i <= n; i++) {
		y = 34 + 24 * (i - 1)
		printf "<text x=\"292\" y=\"%d\" text-anchor=\"end\">%s</text><rect x=\"300\" y=\"%d\" width=\"%.1f\" height=\"16\" " \
			"fill=\"#0072b2\"/>", y + 13, escaped(label[i]), y, 430 * ratio[i] / most
		printf "<path d=\"M%.1f %dV%dM%.1f %dH%.1fM%.1f %dV%d\" stroke=\"#333\" fill=\"none\"/>\n", 300 + 430 * low[i] / most, y + 3,
			y + 13, 300 + 430 * low[i] / most, y + 8, 300 + 430 * high[i] / most, 300 + 430 * high[i] / most, y + 3, y + 13
	}
	print "</svg>"
}

END {
	if (mode == "table")
		table()
	else if (mode == "pairs")
		pairs_table()
	else if (mode == "say")
		say()
	else if (mode == "bars")
		bars()
	else if (mode == "waste")
		waste()
	else if (mode == "percent")
		print cell(arm, key " percent")
	else if (mode == "mean")
		print mean_of(arm, key) ? figure(M) : "-"
}
