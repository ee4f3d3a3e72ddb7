/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank that waits says so: after SWITCHML_WAIT_NOTICE seconds, and then at ever longer intervals,
 * what it waits for, and until when. Every wait of the library that can last for seconds has one of
 * these: for a switch, for other ranks to join, for a switch that takes over, to leave, and in a
 * call.
 */
#ifndef SML_LIB_NOTICE_H
#define SML_LIB_NOTICE_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/settings/settings.h"

struct sml_notice {
	const struct sml_settings *settings;
	uint64_t since_ns, due_ns, pause_ns;
	uint64_t told_ns; /* 0 if not yet */
};

void sml_notice_begin(struct sml_notice *notice, const struct sml_settings *settings,
		      uint64_t now_ns);

/*
 * Another wait has begun. What was told before still counts: many waits, one after the other, are
 * told of no more often than one long wait. After a time without any, it is as at the beginning.
 */
void sml_notice_again(struct sml_notice *notice, uint64_t since_ns);

/* The time, or until_ns if that is earlier: a loop that waits looks then. */
uint64_t sml_notice_wake(const struct sml_notice *notice, uint64_t until_ns);

/* Whether a notice is due. If so, the time of the next one is set, even if nothing is logged. */
bool sml_notice_is_due(struct sml_notice *notice, uint64_t now_ns);

/* "waiting 5 s (of at most 300) for ...": the text follows. */
__attribute__((format(printf, 4, 5))) void sml_notice_log(const struct sml_notice *notice,
							  uint64_t now_ns, uint64_t deadline_ns,
							  const char *format, ...);

/*
 * Of the ranks that wait: those that speak say so. If they are among those that are missing, the
 * lowest of all ranks that are there does.
 */
bool sml_notice_is_speaker(const struct sml_settings *settings, const struct sml_ranks *missing);

#endif
