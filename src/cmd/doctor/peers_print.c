/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of `switchml doctor --peers`, and the same as JSON. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/doctor/peers.h"
#include "cmd/shared/columns.h"
#include "cmd/shared/print.h"

/* "0-3,8": the ranks that `in` says. */
static void list_ranks(const struct peers *peers, char *text, size_t bytes,
		       bool (*in)(const struct peers *, unsigned, unsigned), unsigned which)
{
	size_t length = 0;

	*text = '\0';
	for (unsigned i = 0; i < peers->n_ranks && length < bytes; i++) {
		unsigned last = i;

		if (!in(peers, i, which))
			continue;
		while (last + 1 < peers->n_ranks && in(peers, last + 1, which))
			last++;
		length += (size_t)snprintf(text + length, bytes - length, "%s%u", length ? "," : "",
					   i);
		if (last > i && length < bytes)
			length += (size_t)snprintf(text + length, bytes - length, "-%u", last);
		i = last;
	}
}

static bool is_of_host(const struct peers *peers, unsigned rank, unsigned host)
{
	return peers->ranks[rank].hello && peers->ranks[rank].host == host;
}

/* The ranks say what the library would: "" is a rank that shares with nobody. */
static bool shares_memory(const struct peers *peers, unsigned a, unsigned b)
{
	const char *machine = peers_text(peers, a, "machine");

	return peers->ranks[a].hello && peers->ranks[b].hello &&
	       (a == b || (*machine && strcmp(machine, peers_text(peers, b, "machine")) == 0));
}

/* The first rank that shares memory with this one. */
static unsigned first_of(const struct peers *peers, unsigned rank)
{
	unsigned first = 0;

	while (!shares_memory(peers, first, rank) && first < rank)
		first++;
	return first;
}

static void print_row(const struct peers *peers, unsigned host)
{
	unsigned speaker = peers->hosts[host].rank;
	const struct peers_rank *rank = &peers->ranks[speaker];
	char ranks[64], mtu[16], name[64];

	list_ranks(peers, ranks, sizeof(ranks), is_of_host, host);
	/* Only a path to another host has one. */
	snprintf(mtu, sizeof(mtu), peers->hosts[host].mtu ? "%u" : "-", peers->hosts[host].mtu);
	sml_columns_put(name, sizeof(name), peers_text(peers, speaker, "name"), 16);
	printf("%-4u %-10s %s %-15s %-9s %10.1f %6s%s", host, ranks, name, rank->address,
	       peers_text(peers, speaker, "version"), sml_without_minus_zero(rank->offset_ms, 0.1),
	       mtu, peers->n_hosts > 1 ? "  " : "");
	for (unsigned to = 0; peers->n_hosts > 1 && to < peers->n_hosts; to++) {
		if (to == host)
			printf("%6s", "-");
		else if (peers_pair(peers, to, host) == NULL)
			printf("%6s", "?");
		else if (peers_largest(peers, host, to) == 0)
			printf("%6s", "none");
		else
			printf("%6u", peers_largest(peers, host, to));
	}
	printf("\n");
}

static void print_memory(const struct peers *peers)
{
	bool any = false;
	char ranks[256];

	for (unsigned i = 0; i < peers->n_ranks; i++) {
		if (!peers->ranks[i].hello || first_of(peers, i) != i)
			continue;
		list_ranks(peers, ranks, sizeof(ranks), shares_memory, i);
		if (!strpbrk(ranks, "-,"))
			continue;
		printf("ranks %s can share memory\n", ranks);
		any = true;
	}
	if (!any)
		printf("no ranks can share memory\n");
}

void peers_print(const struct peers *peers)
{
	const bool has_paths = peers->n_hosts > 1;

	printf("%-4s %-10s %-16s %-15s %-9s %10s %6s%s\n", "host", "ranks", "name", "address",
	       "version", "clock, ms", "mtu", has_paths ? "  largest packet (UDP) to host" : "");
	if (has_paths)
		printf("%78s", "");
	for (unsigned i = 0; has_paths && i < peers->n_hosts; i++)
		printf("%6u", i);
	if (has_paths)
		printf("\n");
	for (unsigned i = 0; i < peers->n_hosts; i++)
		print_row(peers, i);
	print_memory(peers);
}

static json_t *json_of_host(const struct peers *peers, unsigned host)
{
	unsigned speaker = peers->hosts[host].rank;
	const struct peers_rank *rank = &peers->ranks[speaker];
	json_t *ranks = json_array(), *paths = json_array();

	for (unsigned i = 0; i < peers->n_ranks; i++)
		if (is_of_host(peers, i, host))
			json_array_append_new(ranks, json_pack("{s:i, s:i}", "rank", (int)i,
							       "memory", (int)first_of(peers, i)));
	for (unsigned to = 0; to < peers->n_hosts; to++) {
		json_t *pair = peers_pair(peers, host, to);

		if (to != host && pair)
			json_array_append_new(
				paths, json_pack("{s:i, s:i, s:O, s:O}", "to", (int)to, "largest",
						 (int)peers_largest(peers, host, to), "tcp",
						 json_object_get(pair, "tcp"), "name",
						 json_object_get(pair, "name")));
	}
	return json_pack("{s:i, s:s, s:s, s:s, s:f, s:i, s:o, s:o}", "host", (int)host, "name",
			 peers_text(peers, speaker, "name"), "address", rank->address, "version",
			 peers_text(peers, speaker, "version"), "clock_ms", rank->offset_ms, "mtu",
			 (int)peers->hosts[host].mtu, "ranks", ranks, "paths", paths);
}

json_t *peers_json(const struct peers *peers)
{
	json_t *hosts = json_array();

	for (unsigned i = 0; i < peers->n_hosts; i++)
		json_array_append_new(hosts, json_of_host(peers, i));
	return hosts;
}
