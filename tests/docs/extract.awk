# extract.awk: the command lines of a page, one a line: "NUMBER<tab>command". They stand in fenced blocks (of no language, or a
# shell's) and in indented ones. A line goes on after a backslash, and while a quotation is open. Lines of the program's own
# output ("lockstep replay: ...") are none.

function is_command(s)
{
	if (s ~ /^lockstep( [a-z]+)*: /)
		return 0
	return s ~ /^(build\/)?lockstep( |$)/ || s ~ /^make( |$)/ || s ~ /^sqlite3 / || s ~ /^python3 / || s ~ /^jq / || s ~ /^cd /
}

function open_quote(s,   i, c, quote)
{
	for (i = 1; i <= length(s); i++) {
		c = substr(s, i, 1)
		if (quote == "" && c == "#" && (i == 1 || substr(s, i - 1, 1) == " "))
			return 0
		if (quote == "" && (c == "\"" || c == "'"))
			quote = c
		else if (c == quote)
			quote = ""
	}
	return quote != ""
}

function end_line()
{
	if (text ~ /\\$/) {
		text = substr(text, 1, length(text) - 1)
		joined = 1
	} else if (open_quote(text)) {
		text = text " "
		joined = 1
	} else {
		print at "\t" text
		joined = 0
	}
}

/^[ ]*```/ {
	fenced = !fenced
	language = fenced ? substr($0, index($0, "```") + 3) : ""
	joined = 0
	next
}
{
	line = $0
	shell = fenced ? language ~ /^(sh|bash|console|shell)?$/ : line ~ /^(    |\t)/
	sub(/^[ \t]+/, "", line)
	if (joined) {
		text = text line
		end_line()
	} else if (shell) {
		sub(/^\$ /, "", line)
		if (is_command(line)) {
			at = FNR
			text = line
			end_line()
		}
	}
}
