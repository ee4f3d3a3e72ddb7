/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/diagnose/history.h"

#include <inttypes.h>
#include <stdio.h>

#include "core/names.h"

static bool is_float(enum sml_type type)
{
	return type == SML_FLOAT32 || type == SML_FLOAT16 || type == SML_BFLOAT16 ||
	       type == SML_FLOAT64;
}

bool sml_call_has_wire(const struct sml_call *call)
{
	return (call->collective == SML_ALLREDUCE || call->collective == SML_REDUCE_SCATTER ||
		call->collective == SML_REDUCE) &&
	       is_float(call->type) && call->op != SML_MAX && call->op != SML_MIN;
}

void sml_history_add(struct sml_history *history, const struct sml_call *call, const char *name)
{
	struct sml_call *added = &history->calls[history->n++ % SML_HISTORY_CALLS];

	*added = *call;
	added->name = name ? ++history->n_names : 0;
	if (name)
		snprintf(history->names[added->name % SML_HISTORY_NAMES], SML_CALL_NAME_BYTES, "%s",
			 name);
}

/* The name of a call that has one. */
static const char *name_of(const struct sml_history *history, const struct sml_call *call)
{
	if (history->n_names - call->name >= SML_HISTORY_NAMES)
		return "a call whose name is no longer kept";
	return history->names[call->name % SML_HISTORY_NAMES];
}

static void call_text(const struct sml_history *history, const struct sml_call *call, char *text,
		      size_t bytes)
{
	const char *collective = sml_collective_name(call->collective);
	const char *type = sml_type_name(call->type), *op = sml_op_name(call->op);
	char wire[40] = "";

	if (call->name) {
		snprintf(text, bytes, "%s", name_of(history, call));
		return;
	}
	if (sml_call_has_wire(call))
		snprintf(wire, sizeof(wire), ", %s wire%s%s", sml_wire_name(call->wire),
			 call->gathers ? " as asked" : "", call->residual ? ", a residual" : "");

	switch (call->collective) {
	case SML_ALLREDUCE:
		snprintf(text, bytes, "%s %" PRIu32 ": %" PRIu64 " %s, %s%s", collective,
			 call->number, call->count, type, op, wire);
		break;
	case SML_REDUCE_SCATTER:
		snprintf(text, bytes, "%s %" PRIu32 ": %" PRIu64 " %s per rank, %s%s", collective,
			 call->number, call->count, type, op, wire);
		break;
	case SML_REDUCE:
		snprintf(text, bytes, "%s %" PRIu32 ": %" PRIu64 " %s, %s%s, to rank %u",
			 collective, call->number, call->count, type, op, wire, call->root);
		break;
	case SML_BROADCAST:
		snprintf(text, bytes, "%s %" PRIu32 ": %" PRIu64 " %s from rank %u", collective,
			 call->number, call->count, type, call->root);
		break;
	case SML_ALLGATHER:
		snprintf(text, bytes, "%s %" PRIu32 ": %" PRIu64 " %s a rank", collective,
			 call->number, call->count, type);
		break;
	case SML_BARRIER:
		snprintf(text, bytes, "%s %" PRIu32, collective, call->number);
		break;
	}
}

const struct sml_call *sml_history_find(const struct sml_history *history,
					enum sml_stream_id stream, uint32_t chunk)
{
	uint32_t kept = history->n < SML_HISTORY_CALLS ? history->n : SML_HISTORY_CALLS;

	for (uint32_t back = 1; back <= kept; back++) {
		const struct sml_call *call =
			&history->calls[(history->n - back) % SML_HISTORY_CALLS];

		if (chunk - call->window[stream].first < call->window[stream].count)
			return call;
	}
	return NULL;
}

void sml_history_text(const struct sml_history *history, enum sml_stream_id stream, uint32_t chunk,
		      char *text, size_t bytes)
{
	const struct sml_call *call = sml_history_find(history, stream, chunk);

	if (call)
		call_text(history, call, text, bytes);
	else
		snprintf(text, bytes, "nothing (it has made %" PRIu32 " calls)", history->n);
}
