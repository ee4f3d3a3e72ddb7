/* SPDX-License-Identifier: BSD-3-Clause */
/* The virtual network: see network.h. */
#include "sim/network.h"

#include <stdlib.h>
#include <string.h>

#define MILLION 1000000u
/* Ethernet, IP and UDP headers around a payload, and the gap between frames. */
#define FRAME_OVERHEAD_BYTES 66

static bool earlier(const struct sim_event *a, const struct sim_event *b)
{
	return a->at_ns < b->at_ns || (a->at_ns == b->at_ns && a->order < b->order);
}

static void *must(void *memory)
{
	if (memory == NULL)
		abort();
	return memory;
}

void sim_network_init(struct sim_network *network, const struct sim_world *world)
{
	*network = (struct sim_network){.world = world, .faults = true, .capacity = 1024};
	gen_from_seed(&network->gen, world->seed ^ 0x6e6574776f726bull);
	network->events = must(malloc(network->capacity * sizeof(*network->events)));
}

void sim_network_fini(struct sim_network *network)
{
	struct sim_packet *packet;

	for (size_t i = 0; i < network->n_events; i++)
		free(network->events[i].packet);
	while ((packet = network->free_packets) != NULL) {
		network->free_packets = packet->next;
		free(packet);
	}
	free(network->events);
}

static void push(struct sim_network *network, const struct sim_event *event)
{
	size_t i = network->n_events++;

	if (network->n_events > network->capacity) {
		network->capacity *= 2;
		network->events = must(
			realloc(network->events, network->capacity * sizeof(*network->events)));
	}
	while (i > 0 && earlier(event, &network->events[(i - 1) / 2])) {
		network->events[i] = network->events[(i - 1) / 2];
		i = (i - 1) / 2;
	}
	network->events[i] = *event;
	network->events[i].order = network->order++;
}

bool sim_network_next(struct sim_network *network, struct sim_event *event)
{
	struct sim_event *events = network->events, last;
	size_t i = 0, child;

	if (network->n_events == 0)
		return false;
	*event = events[0];
	last = events[--network->n_events];
	while ((child = 2 * i + 1) < network->n_events) {
		if (child + 1 < network->n_events && earlier(&events[child + 1], &events[child]))
			child++;
		if (!earlier(&events[child], &last))
			break;
		events[i] = events[child];
		i = child;
	}
	events[i] = last;
	network->now_ns = event->at_ns;
	network->arrived += event->packet != NULL;
	return true;
}

void sim_network_done(struct sim_network *network, struct sim_event *event)
{
	if (event->packet == NULL)
		return;
	event->packet->next = network->free_packets;
	network->free_packets = event->packet;
	event->packet = NULL;
}

void sim_network_postpone(struct sim_network *network, struct sim_event *event, uint64_t at_ns)
{
	event->at_ns = at_ns;
	push(network, event);
	network->arrived -= event->packet != NULL;
	event->packet = NULL;
}

void sim_network_plan(struct sim_network *network, uint64_t at_ns, enum sim_event_kind kind,
		      uint32_t rank, uint32_t detail)
{
	struct sim_event event = {.at_ns = at_ns,
				  .kind = kind,
				  .rank = (uint16_t)rank,
				  .detail = detail,
				  .order = network->order};

	push(network, &event);
}

static bool strikes(struct sim_network *network, uint32_t ppm, uint64_t *count)
{
	if (!network->faults || !gen_chance(&network->gen, ppm, MILLION))
		return false;
	++*count;
	return true;
}

static void deliver(struct sim_network *network, const struct sim_event *like, const void *bytes,
		    size_t length, uint64_t at_ns)
{
	struct sim_event event = *like;
	struct sim_packet *packet = network->free_packets;

	if (packet != NULL)
		network->free_packets = packet->next;
	else
		packet = must(malloc(sizeof(*packet)));
	memcpy(packet->bytes, bytes, length);
	event.packet = packet;
	event.length = (uint16_t)length;
	event.at_ns = at_ns;
	event.order = network->order;
	push(network, &event);
}

static uint64_t wire_ns(const struct sim_network *network, const struct sim_link *link,
			size_t length)
{
	uint64_t ns = (length + FRAME_OVERHEAD_BYTES) * 8000ull / network->world->link_mbps;

	return ns < link->least_ns ? link->least_ns : ns;
}

static uint64_t free_at_ns(const struct sim_network *network, const struct sim_link *link)
{
	return link->busy_until_ns > network->now_ns ? link->busy_until_ns : network->now_ns;
}

void sim_network_send_to_port(struct sim_network *network, struct sim_link *link,
			      const struct sim_event *like, const void *bytes, size_t length)
{
	struct sim_event event = *like;

	network->sent++;
	event.at_port = true;
	link->busy_until_ns =
		free_at_ns(network, link) + link->packet_ns + wire_ns(network, link, length);
	deliver(network, &event, bytes, length, link->busy_until_ns);
}

void sim_network_send(struct sim_network *network, struct sim_link *link,
		      const struct sim_event *like, const void *bytes, size_t length)
{
	const struct sim_world *world = network->world;
	uint64_t begin_ns = free_at_ns(network, link);
	uint64_t delay_ns = world->delay_us * 1000ull;
	uint64_t super_ns = world->super_us * 1000ull;

	network->sent++;
	if (world->queue_us && network->faults &&
	    begin_ns - network->now_ns > world->queue_us * 1000ull) {
		network->overflowed++;
		return;
	}
	link->busy_until_ns = begin_ns + link->packet_ns + wire_ns(network, link, length);
	/* As super-packets: segmentation offloads glue packets that queue together. */
	if (super_ns && begin_ns > network->now_ns)
		delay_ns += (super_ns - link->busy_until_ns % super_ns) % super_ns;
	if (strikes(network, world->loss_ppm, &network->lost))
		return;
	/* UDP's checksum detects a flipped bit, so the packet goes no further. */
	if (strikes(network, world->corrupt_ppm, &network->corrupted))
		return;
	if (network->faults && world->jitter_us)
		delay_ns += gen_below(&network->gen, world->jitter_us * 1000u);
	if (strikes(network, world->reorder_ppm, &network->delayed))
		delay_ns += gen_below(&network->gen, 20u * (world->delay_us + 50u) * 1000u);
	deliver(network, like, bytes, length, link->busy_until_ns + delay_ns);
	if (!link->never_doubles && strikes(network, world->duplicate_ppm, &network->duplicated)) {
		delay_ns += gen_below(&network->gen, 40u * (world->delay_us + 50u) * 1000u);
		deliver(network, like, bytes, length, link->busy_until_ns + delay_ns);
	}
}

void sim_network_send_on(struct sim_network *network, struct sim_link *link,
			 struct sim_event *event)
{
	/* It is the same packet, and it has not arrived. */
	network->sent--;
	network->arrived--;
	event->at_port = false;
	sim_network_send(network, link, event, event->packet->bytes, event->length);
}

void sim_network_hand_over(struct sim_network *network, const struct sim_event *like,
			   const void *bytes, size_t length, uint64_t at_ns)
{
	network->sent++;
	deliver(network, like, bytes, length, at_ns);
}
