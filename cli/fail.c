#include "cli/command.h"

#include <stdio.h>

#include "analysis/text.h"
#include "core/err.h"

static int status_of(enum err_code code)
{
	switch (code) {
	case ERR_NONE:
		return 0;
	case ERR_INPUT:
		return 2;
	case ERR_INTERRUPTED:
		return 130;
	default:
		return 1;
	}
}

int command_fail(const struct command *c, const struct err *e)
{
	char text[sizeof e->text + 8];
	fflush(stdout); /* so that the error comes last where both go to one place */
	/* It may quote what stood in a trace or a file's name. */
	text_clean(e->text[0] ? e->text : "failed without saying why", text, sizeof text);
	fprintf(stderr, "lockstep %s: %s\n", c->name, text);
	return status_of(e->code);
}
