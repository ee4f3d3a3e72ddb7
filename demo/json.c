/* SPDX-License-Identifier: BSD-3-Clause */
/* The summary as JSON. Infinite numbers, which JSON lacks, become null. */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <string.h>

#include "demo/report.h"

static json_t *number(double value)
{
	return isfinite(value) ? json_real(value) : json_null();
}

static json_t *check(const struct demo_check *check)
{
	return json_pack("{s:b, s:I, s:o, s:o, s:o}", "holds", demo_check_holds(check), "compared",
			 (json_int_t)check->compared, "error", number(check->error), "bound",
			 number(check->bound), "ratio", number(check->ratio));
}

static json_t *settings(const struct demo_options *options, const struct demo_results *results)
{
	return json_pack("{s:i, s:b, s:i, s:I, s:s, s:s?, s:i, s:i, s:i, s:i}", "workers",
			 results->world, "gloo", results->gloo, "steps", results->steps,
			 "parameters", (json_int_t)results->n_parameters, "wire",
			 options->wire == SML_WIRE_INT16     ? "int16"
			 : options->wire == SML_WIRE_DEFAULT ? "default"
							     : "int32",
			 "switch", options->switch_address, "drop_ppm", (int)options->drop,
			 "duplicate_ppm", (int)options->duplicate, "reorder_ppm",
			 (int)options->reorder, "link_mbit", options->link_mbit);
}

static json_t *training(const struct demo_options *options, const struct demo_results *results)
{
	double share = options->link_mbit && !results->gloo ? demo_link_share(options, results)
							    : (double)INFINITY;

	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "loss", number(results->loss),
			 "accuracy", number(results->accuracy), "seconds", number(results->seconds),
			 "waiting_seconds", number(results->waiting), "reducing_seconds",
			 number(results->reducing), "solo_seconds", number(results->solo_seconds),
			 "solo_accuracy", number(results->solo_accuracy), "link_share",
			 number(share));
}

static json_t *traffic(const struct demo_results *results)
{
	double n = results->world;

	return json_pack(
		"{s:I, s:I, s:I, s:I, s:I, s:o}", "link_bytes_sent",
		(json_int_t)results->traffic.link_sent, "link_bytes_received",
		(json_int_t)results->traffic.link_received, "worker_bytes_sent",
		(json_int_t)results->traffic.bytes_sent, "packets_sent",
		(json_int_t)results->traffic.packets_sent, "retransmits",
		(json_int_t)results->traffic.retransmits, "ring_bytes",
		number(2 * (n - 1) / n * 4 * (double)results->n_parameters * results->steps));
}

static json_t *proofs(const struct demo_results *results)
{
	char hash[17];

	snprintf(hash, sizeof(hash), "%016" PRIx64, results->hash);
	return json_pack("{s:s, s:i, s:o, s:b, s:o}", "parameters_hash", hash, "samples",
			 results->samples, "sum", check(&results->sum), "parameters_same",
			 results->same, "drift", check(&results->drift));
}

int demo_json(const struct demo_options *options, const struct demo_results *results)
{
	json_t *root = json_pack("{s:b, s:o, s:o, s:o, s:o}", "good", demo_results_good(results),
				 "settings", settings(options, results), "training",
				 training(options, results), "traffic", traffic(results), "proofs",
				 proofs(results));
	size_t flags = JSON_INDENT(2) | JSON_REAL_PRECISION(9);
	int status = -ENOMEM;

	if (root && strcmp(options->json, "-") == 0)
		status = json_dumpf(root, stdout, flags) < 0 || puts("") < 0 ? -EIO : 0;
	else if (root)
		status = json_dump_file(root, options->json, flags) < 0 ? -EIO : 0;
	json_decref(root);
	if (status < 0)
		demo_error(-1, "cannot write %s: %s", options->json, strerror(-status));
	return status;
}
