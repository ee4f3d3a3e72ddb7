/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program that was compiled with the header of another release: older, whose structures lack
 * their last members, or newer (NEWER), with members that this library does not know.
 */
#include <assert.h>
#include <string.h>

#include "switchml.h"

#define BEYOND 256

/* What lies behind a structure on a program's stack. */
#define GUARDED(type)                                                                              \
	struct {                                                                                   \
		struct type own;                                                                   \
		unsigned char beyond[BEYOND];                                                      \
	}

static void check_beyond(const unsigned char *beyond)
{
	for (int i = 0; i < BEYOND; i++)
		assert(beyond[i] == 0xa5);
}

static void use(struct sml_context *job)
{
	GUARDED(sml_info) info = {.own = SML_INFO_INIT};
	GUARDED(sml_counters) counters;
	struct sml_options options = SML_OPTIONS_INIT;
	float one = 1, sum = 0;

	assert(sml_allreduce(job, &one, &sum, 1, SML_FLOAT32, SML_SUM, &options, NULL) == 0 &&
	       sum == 1);
	memset(&counters, 0xa5, sizeof(counters));
	counters.own.size = sizeof(counters.own);
	assert(sml_get_counters(job, -1, &counters.own, NULL) == 0);
	assert(counters.own.tensors > 0 && counters.own.stalls == 0);
	check_beyond(counters.beyond);
	memset(info.beyond, 0xa5, BEYOND);
	assert(sml_get_info(job, &info.own) == 0 && info.own.world_size == 1);
	check_beyond(info.beyond);
#ifdef NEWER
	assert(counters.own.tomorrow == 0);
	options.tomorrow = 1;
	assert(sml_allreduce(job, &one, &sum, 1, SML_FLOAT32, SML_SUM, &options, NULL) < 0);
	assert(strstr(sml_error_text(job), "newer library"));
#endif
}

static void change(struct sml_context *job)
{
	struct sml_membership next = SML_MEMBERSHIP_INIT;

	next.job = "next";
	next.world_size = 1;
#ifdef NEWER
	next.tomorrow = 1;
	assert(sml_reconfigure(job, &next) < 0 && strstr(sml_error_text(NULL), "newer library"));
	next.tomorrow = 0;
#endif
	assert(sml_reconfigure(job, &next) == 0);
}

int main(void)
{
	GUARDED(sml_config) config = {.own = SML_CONFIG_INIT};
	struct sml_context *job;

	memset(config.beyond, 0xa5, BEYOND);
	assert(sml_config_init(&config.own) == 0);
	check_beyond(config.beyond);
	assert(config.own.size == sizeof(config.own) && config.own.timeout_ms == 1800000);
#ifdef NEWER
	config.own.tomorrow = 1;
	assert(sml_open(&job, &config.own) == SML_ERROR_CONFIG);
	assert(strstr(sml_error_text(NULL), "newer library"));
	config.own.tomorrow = 0;
#endif
	assert(sml_open(&job, &config.own) == 0);
	use(job);
	change(job);
	use(job);
	assert(sml_close(job) == 0);
	config.own.size = 0;
	assert(sml_config_init(&config.own) == SML_ERROR_CONFIG);
	return 0;
}
