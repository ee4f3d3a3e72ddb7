/* SPDX-License-Identifier: BSD-3-Clause */
/* The forms of `switchml status`, and which switches are asked, and how often. */
#ifndef SML_CMD_STATUS_STATUS_H
#define SML_CMD_STATUS_STATUS_H

#include <argp.h>
#include <jansson.h>

#include "cmd/shared/view.h"

/* The value of an option, "--watch". Ends the program if it is no number of seconds. */
double sml_views_interval(const char *option, const char *text, struct argp_state *state);

/* Waits until the next time of a raster, or not if it has passed. Returns the one after it. */
uint64_t sml_views_wait(uint64_t next_ns, double interval_s);

/* A list's switches at most. */
#define SML_MOST_VIEWS 64

/*
 * Views of the switches of a list, "a,b|c,d", or of rank 0 of a job without a switch: NULL, "" or
 * "embedded". Returns how many; 0 if it cannot be asked, and standard error says why.
 */
size_t sml_views_open(struct sml_view views[SML_MOST_VIEWS], const char *list, const char *command);

/*
 * One switch as JSON; with_rates: and its rates, null if they are not known. NULL if there is no
 * memory.
 */
json_t *sml_status_json(const struct sml_view *view, bool with_rates);

/* The JSON schema of an array of these. NULL if there is no memory. */
json_t *sml_status_schema(void);

/* Print one switch for people: everything that its status contains, or what it does in a second. */
void sml_status_print(const struct sml_view *view);
void sml_status_print_rates(const struct sml_view *view);

#endif
