/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Is the UDP path open, and how wide is it? Checked for each switch and shard, before the job
 * starts.
 */
#ifndef SML_LIB_PROBE_H
#define SML_LIB_PROBE_H

#include "base/log.h"
#include "core/pool.h"
#include "lib/control/client.h"
#include "lib/transport/transport.h"

/* One shard of one switch, and this rank's identity there. */
struct sml_probe_target {
	struct sml_transport *transport;
	uint8_t peer; /* in the transport's table */
	uint8_t shard;
	uint32_t job;
	uint64_t cookie, tag;
	const char *where; /* for texts: which switch, or which rank and its address, */
	uint16_t port;	   /* and its UDP port */
	bool is_rank;
};

struct sml_probe_config {
	const struct sml_probe_target *targets;
	unsigned n_targets;
	struct sml_transport *const *transports; /* all of the targets', once each */
	unsigned n_transports;
	uint32_t epoch;
	uint8_t rank;
	uint32_t silence_ms; /* with a target that does not answer at all: the heartbeat */
	const struct sml_log *log;
	/* This rank has slots itself, and answers others' probes. NULL if it has none. */
	const struct sml_pool_rules *own;
};

struct sml_probe;

/* The config's pointers must outlive the probe. NULL if there is no memory; the text is set. */
struct sml_probe *sml_probe_new(const struct sml_probe_config *config);
void sml_probe_free(struct sml_probe *probe);

/*
 * Finds the largest lane count, at most *lanes, whose packets come back from every target, and
 * stores it in *lanes. Returns 0 or an error, and sets the error text: SML_ERROR_UNREACHABLE after
 * silence_ms (15 s at most), or at deadline_ns. The control connection is kept alive meanwhile.
 */
int sml_probe_run(struct sml_probe *probe, struct sml_control *control, uint16_t *lanes,
		  uint64_t deadline_ns);

/* Answer the other ranks' probes, until all of them are ready. */
void sml_probe_serve(struct sml_probe *probe);

#endif
