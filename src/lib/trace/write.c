/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The file: Chrome's trace event format, as a JSON object, so that chrome://tracing and
 * ui.perfetto.dev open it. A rank is a process, and a slot is a thread of it; calls, which overlap,
 * are asynchronous events. Times are microseconds of this host's monotonic clock.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "core/names.h"
#include "lib/trace/trace.h"

/* The calls' thread, and where the slots of a stripe begin. Viewers sort by number. */
#define CALLS_THREAD  1u
#define STRIPE_THREAD 10000u

struct writer {
	FILE *out;
	const struct sml_trace_about *about;
	const char *separator;
};

static unsigned thread_of(const struct sml_trace_event *event)
{
	return STRIPE_THREAD * (event->stripe + 1u) + event->slot;
}

/* A name of the application's, as a JSON string. Bytes of UTF-8 go as they are. */
static void put_string(FILE *out, const char *text)
{
	putc('"', out);
	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;

		if (c == '"' || c == '\\')
			fprintf(out, "\\%c", c);
		else if (c < ' ' || c == 0x7f)
			fprintf(out, "\\u%04x", c);
		else
			putc(c, out);
	}
	putc('"', out);
}

/* The members that all events have. Microseconds with three decimals: whole nanoseconds. */
static void begin_event(struct writer *writer, const char *phase, unsigned thread, uint64_t ns)
{
	fprintf(writer->out, "%s{\"ph\":\"%s\",\"pid\":%u,\"tid\":%u,\"ts\":%" PRIu64 ".%03u",
		writer->separator, phase, writer->about->rank, thread, ns / 1000,
		(unsigned)(ns % 1000));
	writer->separator = ",\n";
}

/* ---- names ---- */

static void name_it(struct writer *writer, unsigned thread, const char *what, const char *name)
{
	begin_event(writer, "M", thread, 0);
	fprintf(writer->out, ",\"name\":\"%s\",\"args\":{\"name\":", what);
	put_string(writer->out, name);
	fprintf(writer->out, "}}");
}

static void name_slot(struct writer *writer, const struct sml_trace_event *event)
{
	char name[64];

	if (writer->about->n_stripes > 1)
		snprintf(name, sizeof(name), "stripe %u, %sslot %u", event->stripe,
			 event->is_head ? "head " : "", event->slot);
	else
		snprintf(name, sizeof(name), "%sslot %u", event->is_head ? "head " : "",
			 event->slot);
	name_it(writer, thread_of(event), "thread_name", name);
}

static void name_process(struct writer *writer)
{
	const struct sml_trace_about *about = writer->about;
	char name[300];

	snprintf(name, sizeof(name), "rank %u of %u (host %.200s, pid %d)", about->rank,
		 about->world_size, about->host, (int)getpid());
	name_it(writer, CALLS_THREAD, "process_name", name);
	name_it(writer, CALLS_THREAD, "thread_name", "calls");
	begin_event(writer, "M", CALLS_THREAD, 0);
	fprintf(writer->out, ",\"name\":\"process_sort_index\",\"args\":{\"sort_index\":%u}}",
		about->rank);
}

/* ---- events ---- */

static void write_slot(struct writer *writer, const struct sml_trace_event *event)
{
	uint64_t ns = event->end_ns - event->begin_ns;

	begin_event(writer, "X", thread_of(event), event->begin_ns);
	fprintf(writer->out,
		",\"dur\":%" PRIu64 ".%03u,\"name\":\"%s %" PRIu32 "\",\"cat\":\"slot\","
		"\"args\":{\"epoch\":%" PRIu32 ",\"stripe\":%u,\"slot\":%u,\"use\":%" PRIu32
		",\"chunk\":%" PRIu32 ",\"call\":%" PRIu32 ",\"sends\":%u,\"was_last\":%s}}",
		ns / 1000, (unsigned)(ns % 1000), event->is_head ? "block" : "chunk", event->chunk,
		event->epoch, event->stripe, event->slot, event->use, event->chunk, event->call,
		event->sends, event->was_last ? "true" : "false");
}

static void write_resent(struct writer *writer, const struct sml_trace_event *event)
{
	begin_event(writer, "i", thread_of(event), event->begin_ns);
	fprintf(writer->out,
		",\"s\":\"t\",\"name\":\"retransmission\",\"cat\":\"loss\",\"args\":{\"chunk\":"
		"%" PRIu32 ",\"call\":%" PRIu32 ",\"sends\":%u,\"cause\":\"%s\"}}",
		event->chunk, event->call, event->sends,
		event->timed_out ? "timeout" : "later packets were answered");
}

static void write_stall(struct writer *writer, const struct sml_trace_event *event, unsigned shard)
{
	begin_event(writer, "i", CALLS_THREAD, event->begin_ns);
	fprintf(writer->out,
		",\"s\":\"p\",\"name\":\"stall\",\"cat\":\"loss\",\"args\":{\"stripe\":%u,"
		"\"shard\":%u}}",
		event->stripe, shard);
}

static void write_event(struct writer *writer, const struct sml_trace_event *event, unsigned shard)
{
	switch ((enum sml_trace_kind)event->kind) {
	case SML_TRACE_SLOT:
		write_slot(writer, event);
		break;
	case SML_TRACE_RESENT:
		write_resent(writer, event);
		break;
	case SML_TRACE_STALL:
		write_stall(writer, event, shard);
		break;
	}
}

static void write_call(struct writer *writer, const struct sml_trace_call *call)
{
	/* Viewers take equal numbers for one event, in whatever process. */
	uint64_t id = (uint64_t)writer->about->rank << 32 | call->number;
	const char *collective = sml_collective_name(call->collective);

	begin_event(writer, "b", CALLS_THREAD, call->begin_ns);
	fprintf(writer->out,
		",\"id\":\"0x%" PRIx64 "\",\"name\":\"%s %" PRIu32 "\",\"cat\":\"call\",\"args\":{"
		"\"call\":%" PRIu32 ",\"count\":%" PRIu64 ",\"type\":\"%s\",\"op\":\"%s\","
		"\"unfinished\":%s}}",
		id, collective, call->number, call->number, call->count, sml_type_name(call->type),
		sml_op_name(call->op), call->unfinished ? "true" : "false");
	begin_event(writer, "e", CALLS_THREAD, call->end_ns);
	fprintf(writer->out,
		",\"id\":\"0x%" PRIx64 "\",\"name\":\"%s %" PRIu32 "\",\"cat\":\"call\"}", id,
		collective, call->number);
}

/* The oldest that is still there, and how many are. */
static uint64_t first_of(uint64_t n, uint64_t kept)
{
	return n > kept ? n - kept : 0;
}

static void write_trace(struct writer *writer, const struct sml_trace *trace)
{
	static const uint64_t bits = 64;
	uint64_t named[SML_MAX_STRIPES][SML_MAX_SLOTS / 64 + 1];

	memset(named, 0, sizeof(named));
	for (uint64_t i = first_of(trace->n_events, SML_TRACE_EVENTS); i < trace->n_events; i++) {
		const struct sml_trace_event *event = &trace->events[i % SML_TRACE_EVENTS];
		uint64_t *word = &named[event->stripe][event->slot / bits];
		uint64_t bit = (uint64_t)1 << event->slot % bits;

		if (event->kind != SML_TRACE_STALL && !(*word & bit))
			name_slot(writer, event);
		*word |= bit;
		write_event(writer, event, trace->shard);
	}
	for (uint64_t i = first_of(trace->n_calls, SML_TRACE_CALLS); i < trace->n_calls; i++)
		write_call(writer, &trace->calls[i % SML_TRACE_CALLS]);
}

static void write_about(struct writer *writer, struct sml_trace *const *traces, unsigned n)
{
	const struct sml_trace_about *about = writer->about;
	uint64_t events_lost = 0, calls_lost = 0;

	for (unsigned i = 0; i < n; i++) {
		events_lost += first_of(traces[i]->n_events, SML_TRACE_EVENTS);
		calls_lost += first_of(traces[i]->n_calls, SML_TRACE_CALLS);
	}
	fprintf(writer->out,
		"\n],\"displayTimeUnit\":\"ms\",\"otherData\":{\"version\":\"%s\","
		"\"job\":",
		SML_VERSION_STRING);
	put_string(writer->out, about->job);
	fprintf(writer->out,
		",\"rank\":%u,\"world_size\":%u,\"stripes\":%u,\"lanes\":%u,"
		"\"older_events_left_out\":%" PRIu64 ",\"older_calls_left_out\":%" PRIu64 "}}\n",
		about->rank, about->world_size, about->n_stripes, about->lanes, events_lost,
		calls_lost);
}

int sml_trace_create(const char *path)
{
	return sml_file_open(path, O_TRUNC);
}

int sml_trace_write(int fd, const struct sml_trace_about *about, struct sml_trace *const *traces,
		    unsigned n)
{
	struct writer writer = {.out = fdopen(fd, "w"), .about = about, .separator = "\n"};
	int error;

	if (writer.out == NULL) {
		error = -errno;
		close(fd);
		return error;
	}
	fprintf(writer.out, "{\"traceEvents\":[");
	name_process(&writer);
	for (unsigned i = 0; i < n; i++)
		write_trace(&writer, traces[i]);
	write_about(&writer, traces, n);
	error = ferror(writer.out) ? -EIO : 0;
	return fclose(writer.out) < 0 && error == 0 ? -errno : error;
}
