/* orders.h: --scheduling-policy as text: an order's name, and after ':' its parameters ("mlfq:levels=4,promote=10s"). */
#ifndef POLICIES_ORDERS_H
#define POLICIES_ORDERS_H

#include "core/choices.h"

struct err;

/* ERR_INPUT. What an order has no parameter for keeps its value. */
int order_parse(enum queue_order *order, struct order_params *params, const char *text, struct err *e);
/* All parameters of an order with their values, "" when it has none; release with mem_free. NULL: no memory. */
char *order_format(enum queue_order order, const struct order_params *params);

#endif
