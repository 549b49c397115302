/* report_roofline.h: a run's steps under the roofline of the device it ran on, gathered in cells of a fine grid: each tells what
 * its steps computed, moved and took together, so that a cell lies where its steps lie, and nothing is left out. */
#ifndef ANALYSIS_REPORT_ROOFLINE_H
#define ANALYSIS_REPORT_ROOFLINE_H

#include <stdint.h>

struct err;
struct jout;
struct roofline_grid;
struct store_report_run;
struct store_step;

/* Where the run's row does not say what it takes, or that cannot be found any more, the grid says why instead. ERR_MEMORY. */
int roofline_grid_create(struct roofline_grid **out, const struct store_report_run *r, struct err *e);
void roofline_grid_add(struct roofline_grid *g, const struct store_step *t);
void roofline_grid_sampled(struct roofline_grid *g, int64_t every); /* only every so many steps are added */
void roofline_grid_put(struct roofline_grid *g, struct jout *j); /* "roofline" */
void roofline_grid_free(struct roofline_grid *g); /* NULL is fine */

#endif
