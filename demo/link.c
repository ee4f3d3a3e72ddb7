/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs the command of bench/on-links: two reports of tc, the link's outward direction first. */
#include "demo/train.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "demo/report.h"

int demo_link_read(int rank, uint64_t *sent, uint64_t *received)
{
	const char *command = getenv("ON_LINKS_COUNTERS");
	uint64_t *const found[] = {sent, received};
	unsigned n = 0;
	char line[256];
	FILE *out;

	*sent = *received = 0;
	if (!command)
		return 0;
	/* NOLINTNEXTLINE(cert-env33-c): bench/on-links, who started this program, says what to run
	 */
	out = popen(command, "re");
	while (out && fgets(line, sizeof(line), out)) {
		if (n < 2 && sscanf(line, " Sent %" SCNu64 " bytes", found[n]) == 1)
			n++;
	}
	if (out && pclose(out) == 0 && n == 2)
		return 0;
	demo_error(rank, "the counters of the link cannot be read with: %s", command);
	return -EIO;
}
