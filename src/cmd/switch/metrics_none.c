/* SPDX-License-Identifier: BSD-3-Clause */
/* For a build without libmicrohttpd: --metrics is refused before any of this is called. */
#include <errno.h>
#include <stdio.h>

#include "base/error.h"
#include "cmd/switch/metrics.h"

int sml_metrics_open(struct sml_metrics **opened, const char *listen)
{
	(void)listen;
	*opened = NULL;
	return sml_error_set(-ENOTSUP, "this program was built without libmicrohttpd");
}

int sml_metrics_start(struct sml_metrics *metrics, struct sml_switch *source)
{
	(void)metrics;
	(void)source;
	return -ENOTSUP;
}

void sml_metrics_where(const struct sml_metrics *metrics, char *text, size_t bytes)
{
	(void)metrics;
	snprintf(text, bytes, "nowhere");
}

void sml_metrics_close(struct sml_metrics *metrics)
{
	(void)metrics;
}
