/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of `switchml doctor --peers`, and the same as JSON. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/doctor/peers.h"
#include "cmd/shared/columns.h"

/* "0-3,8": the ranks of a host, or those that share memory with their first one. */
static bool is_one(const struct peers_rank *rank, bool memory, unsigned which)
{
	return rank->hello && (memory ? rank->memory : rank->host) == which;
}

static void list_ranks(const struct peers *peers, char *text, size_t bytes, bool memory,
		       unsigned which)
{
	size_t length = 0;

	*text = '\0';
	for (unsigned i = 0; i < peers->n_ranks && length < bytes; i++) {
		unsigned last = i;

		if (!is_one(&peers->ranks[i], memory, which))
			continue;
		while (last + 1 < peers->n_ranks && is_one(&peers->ranks[last + 1], memory, which))
			last++;
		length += (size_t)snprintf(text + length, bytes - length, "%s%u", length ? "," : "",
					   i);
		if (last > i && length < bytes)
			length += (size_t)snprintf(text + length, bytes - length, "-%u", last);
		i = last;
	}
}

static void print_row(const struct peers *peers, unsigned host)
{
	const struct peers_rank *rank = peers_speaker(peers, host);
	char ranks[64], mtu[16], name[64];

	list_ranks(peers, ranks, sizeof(ranks), false, host);
	/* Only a path to another host has one. */
	snprintf(mtu, sizeof(mtu), peers->hosts[host].mtu ? "%u" : "-", peers->hosts[host].mtu);
	sml_columns_put(name, sizeof(name), rank->hello->name, 16);
	printf("%-4u %-10s %s %-15s %-9s %10.1f %6s%s", host, ranks, name, rank->hello->address,
	       rank->hello->version, sml_without_minus_zero(rank->offset_ms, 0.1), mtu,
	       peers->n_hosts > 1 ? "  " : "");
	for (unsigned to = 0; peers->n_hosts > 1 && to < peers->n_hosts; to++) {
		if (to == host)
			printf("%6s", "-");
		else if (peers_path(peers, to, host) == NULL)
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
		list_ranks(peers, ranks, sizeof(ranks), true, i);
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
	const struct peers_rank *rank = peers_speaker(peers, host);
	json_t *ranks = json_array(), *paths = json_array();

	for (unsigned i = 0; i < peers->n_ranks; i++)
		if (is_one(&peers->ranks[i], false, host))
			json_array_append_new(ranks,
					      json_pack("{s:i, s:i}", "rank", (int)i, "memory",
							(int)peers->ranks[i].memory));
	for (unsigned to = 0; to < peers->n_hosts; to++) {
		const SmlControl__Path *path = peers_path(peers, host, to);

		if (to != host && path)
			json_array_append_new(
				paths, json_pack("{s:i, s:i, s:s, s:s}", "to", (int)to, "largest",
						 (int)peers_largest(peers, host, to), "tcp",
						 path->tcp, "name", path->name));
	}
	return json_pack("{s:i, s:s, s:s, s:s, s:f, s:i, s:o, s:o}", "host", (int)host, "name",
			 rank->hello->name, "address", rank->hello->address, "version",
			 rank->hello->version, "clock_ms", rank->offset_ms, "mtu",
			 (int)peers->hosts[host].mtu, "ranks", ranks, "paths", paths);
}

json_t *peers_json(const struct peers *peers)
{
	json_t *hosts = json_array();

	for (unsigned i = 0; i < peers->n_hosts; i++)
		json_array_append_new(hosts, json_of_host(peers, i));
	return hosts;
}
