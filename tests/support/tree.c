/* SPDX-License-Identifier: BSD-3-Clause */
/* Leaves of a switch: see tree.h. */
#include "support/tree.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "control/envelope.h"

void tree_attach(unsigned peer, uint32_t slots)
{
	SmlControl__Leaf leaf = SML_CONTROL__LEAF__INIT;

	leaf.protocol = SML_CONTROL_PROTOCOL;
	leaf.version = (char *)(uintptr_t) "1";
	leaf.name = (char *)(uintptr_t) "rack:28500";
	leaf.slots = slots;
	jobs_say(peer, sml_envelope(LEAF, leaf, &leaf));
}

void tree_relay_home(unsigned leaf, uint32_t number, const SmlControl__Envelope *message,
		     uint32_t slots, uint32_t lanes, uint64_t home)
{
	SmlControl__Relay out = SML_CONTROL__RELAY__INIT;

	out.peer = number;
	out.leaf = (char *)(uintptr_t) "rack:28500";
	out.slots = slots;
	out.lanes = lanes;
	out.home = home;
	out.message.len = sml_control__envelope__get_packed_size(message);
	out.message.data = malloc(out.message.len + 1);
	assert_non_null(out.message.data);
	sml_control__envelope__pack(message, out.message.data);
	jobs_say(leaf, sml_envelope(RELAY, relay, &out));
	free(out.message.data);
}

void tree_relay_from(unsigned leaf, uint32_t number, const SmlControl__Envelope *message,
		     uint32_t slots, uint32_t lanes)
{
	tree_relay_home(leaf, number, message, slots, lanes, 1);
}

void tree_relay(unsigned leaf, uint32_t number, const SmlControl__Envelope *message)
{
	tree_relay_from(leaf, number, message, 4096, 352);
}

void tree_relay_empty(unsigned leaf, uint32_t number, SmlControl__Envelope__BodyCase body)
{
	tree_relay(leaf, number, message_without_fields(body, 0));
}

void tree_relay_join(unsigned leaf, uint32_t number, uint32_t rank, uint32_t world_size)
{
	SmlControl__Join join = jobs_join_message("tree", rank, world_size);

	tree_relay(leaf, number, sml_envelope(JOIN, join, &join));
}

void tree_relay_ready(unsigned leaf, uint32_t number)
{
	tree_relay(leaf, number, message_ready(352, false, 0));
}

void tree_relay_end(unsigned leaf, uint32_t number, bool leaf_died)
{
	SmlControl__Relay out = SML_CONTROL__RELAY__INIT;

	out.peer = number;
	out.over = true;
	out.why = (char *)(uintptr_t) "its connection ended";
	out.leaf_died = leaf_died;
	jobs_say(leaf, sml_envelope(RELAY, relay, &out));
}

SmlControl__Envelope *tree_relayed(unsigned leaf, uint32_t number,
				   SmlControl__Envelope__BodyCase body)
{
	static SmlControl__Envelope *inner;

	for (unsigned i = world.peers[leaf].n_said; i-- > 0;) {
		const SmlControl__Envelope *said = world.peers[leaf].said[i];

		if (said->body_case != SML_CONTROL__ENVELOPE__BODY_RELAY ||
		    said->relay->peer != number || said->relay->over)
			continue;
		sml_control__envelope__free_unpacked(inner, NULL);
		inner = sml_control__envelope__unpack(NULL, said->relay->message.len,
						      said->relay->message.data);
		if (inner->body_case == body)
			return inner;
	}
	return NULL;
}

const SmlControl__Relay *tree_end(unsigned leaf, uint32_t number)
{
	const struct jobs_peer *peer = &world.peers[leaf];

	for (unsigned i = peer->n_said; i-- > 0;) {
		const SmlControl__Envelope *said = peer->said[i];

		if (said->body_case == SML_CONTROL__ENVELOPE__BODY_RELAY &&
		    said->relay->peer == number && said->relay->over)
			return said->relay;
	}
	return NULL;
}

void tree_leaf_ready(unsigned leaf, uint32_t lanes)
{
	const SmlControl__Envelope *job = jobs_received(leaf, SML_CONTROL__ENVELOPE__BODY_ADMITTED);

	assert_non_null(job);
	jobs_say(leaf, message_ready(lanes, false, job->job));
}

void tree_run_two(unsigned leaf, unsigned peer)
{
	tree_attach(leaf, 4096);
	tree_relay_join(leaf, 70, 0, 2);
	jobs_join(peer, jobs_join_message("tree", 1, 2));
	tree_relay_ready(leaf, 70);
	jobs_ready(peer);
	tree_leaf_ready(leaf, 352);
	assert_non_null(jobs_received(peer, SML_CONTROL__ENVELOPE__BODY_START));
}

const SmlControl__Admitted *tree_leaf_job(unsigned leaf)
{
	return jobs_received(leaf, SML_CONTROL__ENVELOPE__BODY_ADMITTED)->admitted;
}
