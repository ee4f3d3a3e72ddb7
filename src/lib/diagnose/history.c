/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/diagnose/diagnose.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/names.h"

static bool is_float(enum sml_type type)
{
	return type == SML_FLOAT32 || type == SML_FLOAT16 || type == SML_BFLOAT16 ||
	       type == SML_FLOAT64;
}

static bool adds(const struct sml_call *call)
{
	return call->collective == SML_ALLREDUCE || call->collective == SML_REDUCE_SCATTER ||
	       call->collective == SML_REDUCE;
}

bool sml_call_has_wire(const struct sml_call *call)
{
	return adds(call) && is_float(call->type) && call->op != SML_MAX && call->op != SML_MIN;
}

/* As the program has counted. */
static uint64_t count_of(const struct sml_tensor_spec *spec, unsigned n_ranks)
{
	bool is_of_parts =
		spec->collective == SML_ALLGATHER || spec->collective == SML_REDUCE_SCATTER;
	uint64_t count = is_of_parts ? spec->count / n_ranks : spec->count;

	return spec->type == SML_BYTE ? count / sml_element_bytes(spec->named_type) : count;
}

void sml_history_add(struct sml_history *history, const struct sml_tensor *tensor, unsigned n_ranks,
		     bool gathers, const char *name)
{
	const struct sml_tensor_spec *spec = &tensor->spec;
	struct sml_call *added = &history->calls[history->n++ % SML_HISTORY_CALLS];

	*added = (struct sml_call){
		.collective = spec->collective,
		.type = spec->type == SML_BYTE ? spec->named_type : spec->type,
		.op = spec->op,
		.wire = spec->wire,
		.residual = spec->residual != NULL,
		.gathers = gathers,
		.root = spec->root,
		.number = tensor->number,
		.name = name ? ++history->n_names : 0,
		.count = count_of(spec, n_ranks),
	};
	memcpy(added->window, tensor->window, sizeof(added->window));
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
	const char *each = call->collective == SML_REDUCE_SCATTER ? " per rank"
			   : call->collective == SML_ALLGATHER	  ? " a rank"
								  : "";
	char count[48] = "", op[80] = "", root[32] = "";

	if (call->name) {
		snprintf(text, bytes, "%s", name_of(history, call));
		return;
	}
	if (call->collective != SML_BARRIER)
		snprintf(count, sizeof(count), ": %" PRIu64 " %s", call->count,
			 sml_type_name(call->type));
	if (sml_call_has_wire(call))
		snprintf(op, sizeof(op), ", %s, %s wire%s%s", sml_op_name(call->op),
			 sml_wire_name(call->wire), call->gathers ? " as asked" : "",
			 call->residual ? ", a residual" : "");
	else if (adds(call))
		snprintf(op, sizeof(op), ", %s", sml_op_name(call->op));
	if (call->collective == SML_REDUCE || call->collective == SML_BROADCAST)
		snprintf(root, sizeof(root), "%s rank %u",
			 call->collective == SML_REDUCE ? ", to" : " from", call->root);
	snprintf(text, bytes, "%s %" PRIu32 "%s%s%s%s", sml_collective_name(call->collective),
		 call->number, count, each, op, root);
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
