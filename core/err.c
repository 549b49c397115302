#include "core/err.h"

#include <stdarg.h>
#include <stdio.h>

int err_set(struct err *e, enum err_code code, const char *fmt, ...)
{
	if (!e || e->code != ERR_NONE)
		return code;
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(e->text, sizeof e->text, fmt, ap);
	va_end(ap);
	e->code = code;
	return code;
}

void err_clear(struct err *e)
{
	e->code = ERR_NONE;
	e->text[0] = '\0';
}
