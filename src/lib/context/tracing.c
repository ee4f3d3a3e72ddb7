/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/context/context.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/trace/trace.h"

void sml_tracing_init(struct sml_tracing *tracing)
{
	*tracing = (struct sml_tracing){.fd = -1};
}

int sml_tracing_open(struct sml_context *context)
{
	struct sml_tracing *tracing = &context->tracing;
	static unsigned n_jobs;

	if (context->settings.files[SML_RECORD_TRACE] == NULL)
		return 0;
	tracing->path = sml_path_of_nth(context->settings.files[SML_RECORD_TRACE],
					__atomic_add_fetch(&n_jobs, 1, __ATOMIC_RELAXED), "");
	if (tracing->path == NULL)
		return sml_error_set(-ENOMEM, "no memory for the configuration");
	tracing->fd = sml_trace_create(tracing->path);
	if (tracing->fd < 0)
		return sml_error_set(SML_ERROR_CONFIG,
				     "the trace %s (SWITCHML_RECORD) cannot be created: %s",
				     tracing->path, strerrordesc_np(-tracing->fd));
	return 0;
}

int sml_tracing_add_thread(struct sml_context *context)
{
	struct sml_tracing *tracing = &context->tracing;

	if (tracing->fd < 0)
		return 0;
	tracing->traces[tracing->n] = sml_trace_new(tracing->n);
	if (tracing->traces[tracing->n] == NULL)
		return sml_error_set(-ENOMEM, "no memory for a trace (SWITCHML_RECORD)");
	tracing->n++;
	return 0;
}

/* Calls that have not ended belong to all threads; the first one's trace has them. */
static void add_unfinished(struct sml_context *context)
{
	const struct sml_request *request = NULL;
	uint64_t now_ns = sml_now_ns();

	while ((request = sml_request_next_unfinished(&context->requests, request)) != NULL)
		sml_trace_call(context->tracing.traces[0], &request->tensor, request->begun_ns,
			       now_ns, true);
}

static void write_file(struct sml_context *context)
{
	struct sml_tracing *tracing = &context->tracing;
	char host[256] = "?";
	struct sml_trace_about about = {
		.job = context->settings.config.job,
		.host = host,
		.rank = context->settings.rank,
		.world_size = context->settings.world_size,
		.n_stripes = context->n_stripes,
		.lanes = context->shape.lanes,
	};
	int error;

	gethostname(host, sizeof(host) - 1);
	if (tracing->n > 0)
		add_unfinished(context);
	error = sml_trace_write(tracing->fd, &about, tracing->traces, tracing->n);
	if (error)
		sml_log(&context->settings.log, SML_LOG_WARN, "the trace %s cannot be written: %s",
			tracing->path, strerrordesc_np(-error));
	else
		sml_log(&context->settings.log, SML_LOG_INFO, "the trace %s is written",
			tracing->path);
}

void sml_tracing_fini(struct sml_context *context)
{
	struct sml_tracing *tracing = &context->tracing;

	if (tracing->fd >= 0)
		write_file(context);
	for (unsigned i = 0; i < tracing->n; i++)
		sml_trace_free(tracing->traces[i]);
	free(tracing->path);
}
