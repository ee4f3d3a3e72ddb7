/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections have a delay, keep messages in order, and end when an end dies: see control.h. */
#include <stdlib.h>
#include <string.h>

#include "sim/control/internal.h"

/* ---- the agenda ---- */

static bool is_before(const struct event *a, const struct event *b)
{
	return a->at_ns < b->at_ns || (a->at_ns == b->at_ns && a->order < b->order);
}

static struct event *add(struct control *control, uint64_t at_ns)
{
	struct event *events;
	size_t i;

	if (control->n_events == control->capacity) {
		control->capacity = 2 * control->capacity + 64;
		events = realloc(control->events, control->capacity * sizeof(*events));
		if (events == NULL)
			abort();
		control->events = events;
	}
	i = control->n_events++;
	for (; i > 0 && control->events[(i - 1) / 2].at_ns > at_ns; i = (i - 1) / 2)
		control->events[i] = control->events[(i - 1) / 2];
	control->events[i] = (struct event){.at_ns = at_ns, .order = control->order++};
	return &control->events[i];
}

static void plan(struct control *control, uint64_t at_ns, enum event_kind kind, struct link *link)
{
	struct event *event = add(control, at_ns);

	event->kind = kind;
	event->link = link;
}

void sim_plan_again(struct control *control, uint64_t at_ns, const struct event *event)
{
	struct event *again = add(control, at_ns);
	uint64_t order = again->order;

	*again = *event;
	again->at_ns = at_ns;
	again->order = order;
}

uint64_t sim_next_event_ns(const struct control *control)
{
	return control->n_events ? control->events[0].at_ns : NEVER;
}

bool sim_next_event(struct control *control, struct event *event)
{
	struct event last;
	size_t i = 0, child;

	if (control->n_events == 0)
		return false;
	*event = control->events[0];
	last = control->events[--control->n_events];
	for (;; i = child) {
		child = 2 * i + 1;
		if (child >= control->n_events)
			break;
		if (child + 1 < control->n_events &&
		    is_before(&control->events[child + 1], &control->events[child]))
			child++;
		if (!is_before(&control->events[child], &last))
			break;
		control->events[i] = control->events[child];
	}
	if (control->n_events)
		control->events[i] = last;
	return true;
}

/* ---- connections ---- */

static bool is_there(const struct link *link)
{
	const struct server *server = &link->control->servers[link->sw];

	return server->alive && server->life == link->life;
}

bool sim_link_works(const struct link *link)
{
	const struct rank *rank = &link->control->ranks[link->rank];

	/* What a leaf sent before it died is on its way. */
	if (link->child)
		return is_there(link);
	return is_there(link) && !(rank->state == DEAD && rank->freezes);
}

static uint64_t later(struct link *link)
{
	struct control *control = link->control;

	return control->now_ns + link->delay_ns / 2 +
	       gen_below(&control->gen, (uint32_t)(link->delay_ns / 1000) + 1) * 1000ull;
}

/* A message that is sent later arrives later. */
static uint64_t in_order(struct link *link, bool to_switch)
{
	uint64_t *due_ns = &link->due_ns[to_switch ? 0 : 1], at_ns = later(link);

	*due_ns = at_ns > *due_ns ? at_ns : *due_ns + 1;
	return *due_ns;
}

/* From a rank, or from a leaf, to the switch in its present life. NULL: there are too many. */
static struct link *new_link(struct control *control, const struct server *server,
			     uint32_t delay_us)
{
	struct link *link = &control->links[control->n_links];

	if (control->n_links == control->max_links) {
		sim_wrong(control, "too many connections");
		return NULL;
	}
	control->n_links++;
	*link = (struct link){.control = control,
			      .sw = server->index,
			      .life = server->life,
			      .at_rank = true,
			      .delay_ns = delay_us * 1000ull};
	return link;
}

struct link *sim_connect_leaf(struct server *leaf)
{
	struct server *server = leaf->parent;
	struct link *link = new_link(leaf->control, server, leaf->delay_us);

	if (link == NULL)
		return NULL;
	link->child = leaf;
	link->child_life = leaf->life;
	if (server->alive)
		plan(leaf->control, in_order(link, false), EVENT_CONNECTED, link);
	else if (!server->freezes)
		plan(leaf->control, later(link), EVENT_REFUSED, link);
	return link;
}

struct link *sim_connect(struct control *control, struct rank *rank, unsigned address)
{
	struct server *server = sim_server_at(control, rank, address);
	enum reach reach = sim_reach(server, address, rank->id);
	struct link *link = new_link(control, server, server->delay_us);

	if (link == NULL)
		return NULL;
	link->rank = rank->id;
	link->address = (uint8_t)address;
	link->heard_ns = control->now_ns;
	if (reach == SILENT || (!server->alive && server->freezes))
		return link;
	if (!server->alive || reach == REFUSES)
		plan(control, later(link), EVENT_REFUSED, link);
	else
		plan(control, in_order(link, false), EVENT_CONNECTED, link);
	return link;
}

void sim_send(struct link *link, bool to_switch, const SmlControl__Envelope *message)
{
	struct event *event;

	if (!(to_switch ? link->at_rank : link->at_switch))
		return;
	event = add(link->control, in_order(link, to_switch));
	event->kind = to_switch ? EVENT_TO_SWITCH : EVENT_TO_RANK;
	event->link = link;
	event->n = (uint32_t)sml_control__envelope__get_packed_size(message);
	event->bytes = malloc(event->n + 1);
	if (event->bytes == NULL)
		abort();
	sml_control__envelope__pack(message, event->bytes);
}

void sim_end(struct link *link, bool at_switch)
{
	bool *open = at_switch ? &link->at_switch : &link->at_rank;

	if (!*open)
		return;
	*open = false;
	plan(link->control, in_order(link, !at_switch),
	     at_switch ? EVENT_END_AT_RANK : EVENT_END_AT_SWITCH, link);
}

/* Datagrams have no order. Without a path, none arrives. */
struct event *sim_send_data(struct link *link, bool to_switch, uint32_t chunk, uint32_t epoch)
{
	struct event *event;

	if (!sim_has_udp(&link->control->servers[link->sw], link->rank))
		return NULL;
	event = add(link->control, later(link));
	event->kind = to_switch ? EVENT_CONTRIBUTION : EVENT_RESULT;
	event->link = link;
	event->chunk = chunk;
	event->epoch = epoch;
	return event;
}
