/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A P4 switch as a target, through P4Runtime: a module of its own, because only its users need
 * gRPC. BMv2's simple_switch_grpc and Stratum speak it. The daemon gives the switch its program,
 * which also clears all entries, counters and registers; only multicast groups remain, and are
 * removed before.
 *
 * No server of P4Runtime that runs BMv2 lets registers be read, so this module does not ask.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "switch/p4/bmv2.h"
#include "switch/p4/p4runtime/internal.h"

/* A port's queue has 64 packets, which P4Runtime cannot change; other traffic needs some. */
#define WINDOW 48

int p4rt_fail(struct sml_p4_target *target, int rc, const char *what)
{
	return target->services->error_set(rc, "the P4 switch at %s: %s: %s", target->where, what,
					   sml_rpc_why(target->rpc));
}

/* ---- opening ---- */

/* Do both files describe one program, and is it ours? */
static int read_program(struct sml_p4_target *target, const struct sml_p4_program *program)
{
	const P4__Config__V1__Register *use;

	target->info = p4__config__v1__p4_info__unpack(NULL, program->info_bytes,
						       (const uint8_t *)program->info);
	if (target->info == NULL)
		return target->services->error_set(
			-EINVAL,
			"%s: the .p4info.bin beside it is not P4Info in binary form "
			"(p4c --p4runtime-files FILE.p4info.bin)",
			program->path);
	if (!sml_p4_bmv2_limits(program->code, program->code_bytes, &target->limits))
		return target->services->error_set(
			-EINVAL, "%s is not p4/v1model/switchml.p4, compiled for BMv2",
			program->path);
	use = p4rt_register(target->info, "SmlIngress.slot_step.slot_use");
	if (use == NULL) /* in the staged form, half of a pair */
		use = p4rt_register(target->info, "SmlIngress.slot_step.slot_use_lo");
	if (use == NULL || p4rt_table(target->info, "SmlIngress.job_lookup.jobs") == NULL ||
	    (uint32_t)use->size / 2 != target->limits.slots)
		return target->services->error_set(
			-EINVAL,
			"%s: the .p4info.bin beside it describes another program: "
			"compile both at once",
			program->path);
	return 0;
}

static void p4rt_close(struct sml_p4_target *target)
{
	sml_rpc_stream_close(target->stream);
	if (target->rpc != NULL)
		sml_rpc_close(target->rpc);
	if (target->info != NULL)
		p4__config__v1__p4_info__free_unpacked(target->info, NULL);
	free(target);
}

static int begin(struct sml_p4_target *target, const struct sml_p4_place *place,
		 const struct sml_p4_program *program)
{
	int rc = read_program(target, program);

	if (rc < 0)
		return rc;
	rc = sml_rpc_open(&target->rpc, place->host, place->port);
	if (rc < 0)
		return target->services->error_set(rc, "the P4 switch at %s cannot be reached: %s",
						   target->where, strerror(-rc));
	rc = p4rt_become_primary(target);
	if (rc == 0)
		rc = p4rt_remove_all_groups(target);
	return rc == 0 ? p4rt_load(target, program) : rc;
}

static int p4rt_open(struct sml_p4_target **opened, const struct sml_p4_place *place,
		     const struct sml_p4_program *program, const struct sml_p4_services *services)
{
	struct sml_p4_target *target = calloc(1, sizeof(*target));
	int rc;

	if (target == NULL)
		return services->error_set(-ENOMEM, "no memory for the P4 switch");
	target->services = services;
	target->device = place->device;
	snprintf(target->where, sizeof(target->where), "%s port %u", place->host, place->port);
	rc = begin(target, place, program);
	if (rc < 0) {
		p4rt_close(target);
		return rc;
	}
	*opened = target;
	return 0;
}

static int p4rt_limits(struct sml_p4_target *target, struct sml_p4_limits *limits)
{
	*limits = target->limits;
	return 0;
}

static int p4rt_check(struct sml_p4_target *target)
{
	int rc = p4rt_check_primary(target);

	return rc < 0 ? rc : p4rt_check_program(target);
}

/* ---- rows ---- */

static int p4rt_insert(struct sml_p4_target *target, const struct sml_p4_row *row)
{
	return p4rt_write_row(target, P4__V1__UPDATE__TYPE__INSERT, row);
}

static int p4rt_modify(struct sml_p4_target *target, const struct sml_p4_row *row)
{
	return p4rt_write_row(target, P4__V1__UPDATE__TYPE__MODIFY, row);
}

static int p4rt_remove(struct sml_p4_target *target, const struct sml_p4_row *row)
{
	return p4rt_write_row(target, P4__V1__UPDATE__TYPE__DELETE, row);
}

extern const struct sml_p4_target_operations sml_p4_target_operations;
__attribute__((visibility("default")))
const struct sml_p4_target_operations sml_p4_target_operations = {
	.version = SML_P4_TARGET_VERSION,
	.name = "p4runtime",
	.loads_program = true,
	.window = WINDOW,
	.open = p4rt_open,
	.close = p4rt_close,
	.limits = p4rt_limits,
	.check = p4rt_check,
	.insert = p4rt_insert,
	.modify = p4rt_modify,
	.remove = p4rt_remove,
	.add_group = p4rt_add_group,
	.remove_group = p4rt_remove_group,
	.read_counter = p4rt_read_counter,
};
