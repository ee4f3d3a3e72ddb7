/* SPDX-License-Identifier: BSD-3-Clause */
#include "support/calls.h"

#include <math.h>
#include <stdlib.h>

#include "support/elements.h"

#define MOST 70001u

void call_check(struct rank *rank, const struct call *call, unsigned salt, const void *recv)
{
	double allowed = element_tolerance(rank->n, call->type, call->op, call->wire);

	for (size_t i = 0; i < call->count * sml_type_size(call->type); i++)
		rank->hash = rank->hash * 31 + ((const unsigned char *)recv)[i];
	for (size_t i = 0; i < call->count; i++) {
		double want = element_expected(rank->n, call->type, call->op, i, salt);
		double got = element_get(recv, call->type, i);

		if (!(fabs(got - want) <= allowed)) {
			complain(rank,
				 "count %zu type %d op %d wire %d %s: element %zu is %g, not %g",
				 call->count, (int)call->type, (int)call->op, (int)call->wire,
				 call->in_place ? "in place" : "", i, got, want);
			return;
		}
	}
}

void call_fill(struct rank *rank, const struct call *call, unsigned salt, void *send)
{
	for (size_t i = 0; i < call->count; i++)
		element_put(send, call->type, i, element_value(rank->rank, i, salt));
}

void call_allreduce(struct rank *rank, const struct call *call, unsigned salt)
{
	const struct sml_options options = {.size = sizeof(options), .wire = call->wire};
	size_t bytes = call->count * sml_type_size(call->type);
	void *send = malloc(bytes + 1), *recv = call->in_place ? send : malloc(bytes + 1);
	int error;

	call_fill(rank, call, salt, send);
	((char *)recv)[bytes] = 42;
	error = sml_allreduce(rank->context, send, recv, call->count, call->type, call->op,
			      &options, NULL);
	if (error)
		complain(rank, "all-reduce: %s", sml_error_text(rank->context));
	else
		call_check(rank, call, salt, recv);
	if (((char *)recv)[bytes] != 42)
		complain(rank, "wrote behind the end");
	free(send);
	if (recv != send)
		free(recv);
}

void calls_of_every_kind(struct rank *rank)
{
	static const size_t counts[] = {0,    1,    2,	  3,	31,   255, 736,
					1000, 2208, 2209, 4417, 9001, MOST};
	unsigned salt = 0;

	for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++)
		for (enum sml_type type = SML_FLOAT32; type <= SML_INT32; type++)
			for (enum sml_op op = SML_SUM; op <= SML_MIN; op++)
				for (enum sml_wire wire = SML_WIRE_INT32; wire <= SML_WIRE_INT16;
				     wire++) {
					struct call call = {counts[c], type, op, wire, salt & 1};

					/* The largest number once for each type is enough. */
					if (counts[c] == MOST && (op != SML_SUM || salt & 1))
						salt++;
					else
						call_allreduce(rank, &call, salt++);
				}
}

/* What is in the sums and what is left on all ranks is what was given, but for floats' own
 * rounding.
 */
static void feed_back(struct rank *rank, enum sml_wire wire, size_t count, float *residual,
		      unsigned salt)
{
	const struct sml_options options = {
		.size = sizeof(options), .wire = wire, .residual = residual};
	double *totals = malloc(2 * count * sizeof(*totals)), *given = totals,
	       *found = given + count;
	float *data = malloc(count * sizeof(*data));

	for (size_t i = 0; i < count; i++) {
		data[i] = (float)element_value(rank->rank, i, salt) / 7;
		given[i] = (double)data[i] + (double)residual[i];
	}
	CHECK(rank, sml_allreduce(rank->context, data, data, count, SML_FLOAT32, SML_SUM, &options,
				  NULL) == 0);
	for (size_t i = 0; i < count; i++)
		found[i] = (double)residual[i] + (rank->rank == 0 ? (double)data[i] : 0);
	CHECK(rank, sml_allreduce(rank->context, totals, totals, 2 * count, SML_FLOAT64, SML_SUM,
				  NULL, NULL) == 0);
	for (size_t i = 0; i < count; i++)
		if (!(fabs(found[i] - given[i]) < 1e-4))
			complain(rank, "wire %d: of element %zu, %g of %g is lost", (int)wire, i,
				 given[i] - found[i], given[i]);
	free(data);
	free(totals);
}

void calls_with_residuals(struct rank *rank)
{
	static const enum sml_wire wires[] = {SML_WIRE_DEFAULT, SML_WIRE_INT32, SML_WIRE_INT16};
	static const size_t counts[] = {100, 5000, 20001};

	for (unsigned w = 0; w < sizeof(wires) / sizeof(wires[0]); w++)
		for (unsigned c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
			float *residual = calloc(counts[c], sizeof(*residual));
			size_t left = 0;

			for (unsigned step = 0; step < 3; step++)
				feed_back(rank, wires[w], counts[c], residual, step);
			for (size_t i = 0; i < counts[c]; i++)
				left += residual[i] != 0;
			/* 14 bits below 16: of few sevenths is nothing left. */
			CHECK(rank, wires[w] != SML_WIRE_INT16 || counts[c] == 100 ||
					    left > counts[c] / 2);
			CHECK(rank, (wires[w] != SML_WIRE_DEFAULT && counts[c] > 100) || left == 0);
			free(residual);
		}
}

void calls_of_some_kinds(struct rank *rank)
{
	static const size_t counts[] = {1, 100, 5000, 30000};

	for (unsigned i = 0; i < 24; i++) {
		struct call call = {counts[i % 4], i & 4 ? SML_FLOAT32 : SML_INT32, SML_SUM,
				    i & 8 ? SML_WIRE_INT16 : SML_WIRE_INT32, i & 1};

		call_allreduce(rank, &call, i);
	}
}

void counters_after(struct rank *rank, uint64_t tensors, struct sml_counters *counters)
{
	uint64_t began = now_ms();

	*counters = (struct sml_counters){.size = sizeof(*counters)};
	do
		CHECK(rank, sml_get_counters(rank->context, -1, counters, NULL) == 0);
	while (counters->tensors < tensors && now_ms() - began < 60000);
	CHECK(rank, counters->tensors == tensors);
}
