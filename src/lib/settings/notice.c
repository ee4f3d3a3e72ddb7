/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/settings/notice.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/error.h"

#define PAUSE_MAX_NS (60 * SML_NS_PER_SEC)

void sml_notice_begin(struct sml_notice *notice, const struct sml_settings *settings,
		      uint64_t now_ns)
{
	uint64_t first_ns = (uint32_t)settings->config.wait_notice_ms * SML_NS_PER_MS;

	*notice = (struct sml_notice){
		.settings = settings,
		.since_ns = now_ns,
		.due_ns = first_ns ? now_ns + first_ns : UINT64_MAX,
		.pause_ns = first_ns,
	};
}

void sml_notice_again(struct sml_notice *notice, uint64_t since_ns)
{
	uint64_t first_ns = (uint32_t)notice->settings->config.wait_notice_ms * SML_NS_PER_MS;

	if (notice->told_ns == 0 || since_ns > notice->told_ns + notice->pause_ns + PAUSE_MAX_NS) {
		sml_notice_begin(notice, notice->settings, since_ns);
		return;
	}
	notice->since_ns = since_ns;
	notice->due_ns = notice->told_ns + notice->pause_ns;
	if (notice->due_ns < since_ns + first_ns)
		notice->due_ns = since_ns + first_ns;
}

uint64_t sml_notice_wake(const struct sml_notice *notice, uint64_t until_ns)
{
	return notice->due_ns < until_ns ? notice->due_ns : until_ns;
}

bool sml_notice_is_due(struct sml_notice *notice, uint64_t now_ns)
{
	if (now_ns < notice->due_ns)
		return false;
	/* 5 s, 15 s, 35 s, ... */
	notice->pause_ns *= 2;
	if (notice->pause_ns > PAUSE_MAX_NS)
		notice->pause_ns = PAUSE_MAX_NS;
	notice->due_ns = now_ns + notice->pause_ns;
	notice->told_ns = now_ns;
	return true;
}

void sml_notice_log(const struct sml_notice *notice, uint64_t now_ns, uint64_t deadline_ns,
		    const char *format, ...)
{
	char text[SML_TEXT_BYTES];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	sml_log(&notice->settings->log, SML_LOG_WARN, "waiting %u s (of at most %u) for %s%s",
		(unsigned)((now_ns - notice->since_ns) / SML_NS_PER_SEC),
		(unsigned)((deadline_ns - notice->since_ns + SML_NS_PER_SEC / 2) / SML_NS_PER_SEC),
		text,
		2 * (now_ns - notice->since_ns) < deadline_ns - notice->since_ns
			? ""
			: ". Half of the time is over: a longer timeout (SWITCHML_TIMEOUT, or that "
			  "of the program) lets this rank wait on");
}

bool sml_notice_is_speaker(const struct sml_settings *settings, const struct sml_ranks *missing)
{
	unsigned rank = 0;

	if (settings->speaks)
		return true;
	while (rank < settings->rank && sml_ranks_has(missing, rank))
		rank++;
	return rank == settings->rank && !sml_ranks_is_empty(missing);
}
