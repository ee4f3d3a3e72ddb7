/* SPDX-License-Identifier: BSD-3-Clause */
/* What the ranks' reports mean: a line for each fault, and what to do. */
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "cmd/doctor/peers.h"
#include "core/names.h"

/* Logs, traces and certificates of several hosts need no better clocks. */
#define CLOCK_MS 100.0
#define HEADERS	 28

const SmlControl__Path *peers_path(const struct peers *peers, unsigned from, unsigned to)
{
	const SmlControl__Done *report = peers_speaker(peers, from)->report;

	return report && to < report->n_paths ? report->paths[to] : NULL;
}

static const char *name_of(const struct peers *peers, unsigned host)
{
	return peers->hosts[host].name;
}

static const char *address_of(const struct peers *peers, unsigned host)
{
	return peers_speaker(peers, host)->hello->address;
}

/* What arrives is the receiver's news. */
unsigned peers_largest(const struct peers *peers, unsigned from, unsigned to)
{
	const SmlControl__Path *path = peers_path(peers, to, from);
	bool v6 = strchr(address_of(peers, to), ':') != NULL;

	return path && path->heard ? path->heard + HEADERS + (v6 ? 20 : 0) : 0;
}

/* ---- ranks ---- */

/* What the rank and rank 0 do not have in common decides, not what their releases are called. */
static bool judge_version(struct peers *peers, unsigned rank)
{
	const SmlControl__Hello *first = peers->ranks[0].hello, *own = peers->ranks[rank].hello;

	if (!first || first->protocol == own->protocol)
		return true;
	doctor_say(peers->doctor, DOCTOR_PROBLEM, "version",
		   "rank %u on %s (%s) has control protocol %u, rank 0 (%s) has %u", rank,
		   name_of(peers, peers->ranks[rank].host), own->version, own->protocol,
		   first->version, first->protocol);
	doctor_fix(peers->doctor, "install the same release on all hosts");
	return false;
}

enum kind { TEXT, NUMBER, WIRE };

#define MEMBER(of) offsetof(struct sml_config, of)

static const struct {
	const char *name;
	enum doctor_level level; /* where it differs */
	enum kind kind;
	size_t offset;
} rules[] = {
	{"SWITCHML_JOB", DOCTOR_PROBLEM, TEXT, MEMBER(job)},
	{"SWITCHML_SWITCH", DOCTOR_PROBLEM, TEXT, MEMBER(switch_address)},
	{"SWITCHML_WORLD_SIZE", DOCTOR_PROBLEM, NUMBER, MEMBER(world_size)},
	{"SWITCHML_WIRE", DOCTOR_PROBLEM, WIRE, MEMBER(wire)},
	{"SWITCHML_THREADS", DOCTOR_WARNING, NUMBER, MEMBER(threads)},
	{"SWITCHML_SLOTS", DOCTOR_WARNING, NUMBER, MEMBER(slots)},
	{"SWITCHML_MTU", DOCTOR_WARNING, NUMBER, MEMBER(mtu)},
	{"SWITCHML_TIMEOUT", DOCTOR_WARNING, NUMBER, MEMBER(timeout_ms)},
	{"SWITCHML_HEARTBEAT", DOCTOR_WARNING, NUMBER, MEMBER(heartbeat_ms)},
	{"SWITCHML_PORTS", DOCTOR_WARNING, TEXT, MEMBER(ports)},
};
_Static_assert(sizeof(rules) / sizeof(rules[0]) == PEERS_SETTINGS, "the Hello has all");

void peers_settings(const struct sml_config *config,
		    char texts[PEERS_SETTINGS][PEERS_SETTING_BYTES])
{
	for (size_t i = 0; i < PEERS_SETTINGS; i++) {
		const void *value = (const char *)config + rules[i].offset;
		const char *text = rules[i].kind == TEXT ? *(const char *const *)value : NULL;

		if (rules[i].kind == WIRE)
			text = sml_wire_name(config->wire);
		if (rules[i].kind == NUMBER)
			snprintf(texts[i], PEERS_SETTING_BYTES, "%d", *(const int *)value);
		else
			snprintf(texts[i], PEERS_SETTING_BYTES, "\"%.250s\"", text ? text : "");
	}
}

static void judge_settings(struct peers *peers, unsigned rank)
{
	const SmlControl__Hello *first = peers->ranks[0].hello, *own = peers->ranks[rank].hello;

	for (size_t i = 0; first && i < PEERS_SETTINGS && i < first->n_settings; i++) {
		if (i >= own->n_settings || strcmp(first->settings[i], own->settings[i]) == 0)
			continue;
		doctor_say(peers->doctor, rules[i].level, "settings",
			   "%s of rank %u on %s is %s, that of rank 0 is %s", rules[i].name, rank,
			   name_of(peers, peers->ranks[rank].host), own->settings[i],
			   first->settings[i]);
		doctor_fix(peers->doctor, "set it to the same value on all ranks");
	}
}

static void judge_clock(struct peers *peers, unsigned rank)
{
	const struct peers_rank *self = &peers->ranks[rank];

	/* One line for each host. */
	if (peers->hosts[self->host].rank != rank ||
	    fabs(self->offset_ms) < CLOCK_MS + self->error_ms)
		return;
	doctor_say(peers->doctor, DOCTOR_WARNING, "clock", "the clock of %s is %.1f s %s rank 0's",
		   name_of(peers, peers->ranks[rank].host), fabs(self->offset_ms) / 1e3,
		   self->offset_ms > 0 ? "ahead of" : "behind");
	doctor_fix(peers->doctor, "run an NTP client there (chrony, systemd-timesyncd)");
}

void peers_judge_ranks(struct peers *peers)
{
	for (unsigned i = 0; i < peers->n_ranks; i++) {
		if (!peers->ranks[i].hello)
			continue;
		/* Another release has other settings, too: they are not the cause. */
		if (judge_version(peers, i))
			judge_settings(peers, i);
		judge_clock(peers, i);
	}
}

/* ---- pairs of hosts ---- */

static const char *ports_of(const struct peers *peers)
{
	return peers->config->ports ? peers->config->ports
				    : "(set SWITCHML_PORTS=FIRST-LAST on all ranks)";
}

static void judge_udp(struct peers *peers, unsigned from, unsigned to)
{
	enum doctor_level level = peers->embedded ? DOCTOR_PROBLEM : DOCTOR_WARNING;

	doctor_say(peers->doctor, level, "udp", "UDP from %s (%s) does not arrive at %s (%s)%s%s",
		   name_of(peers, from), address_of(peers, from), name_of(peers, to),
		   address_of(peers, to),
		   peers_largest(peers, to, from) ? "; the other direction works" : "",
		   peers->embedded ? "" : "; with a switch, ranks do not need it");
	doctor_fix(peers->doctor,
		   "let %s's firewall pass UDP from %s to ports %s (docs/deploying.md#firewalls)",
		   name_of(peers, to), address_of(peers, from), ports_of(peers));
}

/* Smaller than the sender's interface takes, though the receiver's takes as much. */
static void judge_path(struct peers *peers, unsigned from, unsigned to)
{
	const SmlControl__Path *path = peers_path(peers, to, from);

	if (path->heard >= path->wanted || peers->hosts[to].mtu < path->wanted + HEADERS)
		return;
	doctor_say(peers->doctor, DOCTOR_WARNING, "mtu",
		   "packets of more than %u bytes from %s to %s are lost, although the interfaces "
		   "take %u",
		   peers_largest(peers, from, to), name_of(peers, from), name_of(peers, to),
		   peers->hosts[from].mtu);
	doctor_fix(peers->doctor,
		   "raise the MTU of the devices between them, or lower it on the hosts");
}

static void judge_tcp(struct peers *peers, unsigned from, unsigned to)
{
	const SmlControl__Path *path = peers_path(peers, from, to);

	if (!path || strcmp(path->tcp, "ok") == 0)
		return;
	doctor_say(peers->doctor, DOCTOR_WARNING, "tcp",
		   "TCP from %s to %s (%s): %s; MPI and PyTorch need it, SwitchML only to rank 0",
		   name_of(peers, from), name_of(peers, to), address_of(peers, to), path->tcp);
	doctor_fix(peers->doctor, "let %s's firewall pass TCP from %s to ports %s",
		   name_of(peers, to), address_of(peers, from), ports_of(peers));
}

/* What is wrong with the name of `to` on host `from`; NULL: nothing. */
static const char *fault_of_name(const struct peers *peers, unsigned from, unsigned to)
{
	const SmlControl__Path *path = peers_path(peers, from, to);

	return from == to || !path || strcmp(path->name, "ok") == 0 ? NULL : path->name;
}

/* One line for all hosts where the name has the same fault, told at the first of them. */
static void judge_name(struct peers *peers, unsigned from, unsigned to)
{
	const char *fault = fault_of_name(peers, from, to);
	char others[32] = "";
	unsigned n = 0;

	for (unsigned i = 0; fault && i < peers->n_hosts; i++) {
		const char *same = fault_of_name(peers, i, to);

		if (!same || strcmp(same, fault) != 0)
			continue;
		if (i < from)
			return;
		n += i > from;
	}
	if (!fault)
		return;
	if (n > 0)
		snprintf(others, sizeof(others), " and %u other host%s", n, n == 1 ? "" : "s");
	doctor_say(peers->doctor, DOCTOR_WARNING, "name",
		   "on %s%s, the name %s: %s (its address is %s)", name_of(peers, from), others,
		   name_of(peers, to), fault, address_of(peers, to));
	doctor_fix(peers->doctor, "add \"%s %s\" to /etc/hosts there, or to the name server",
		   address_of(peers, to), name_of(peers, to));
}

static void judge_pair(struct peers *peers, unsigned from, unsigned to)
{
	/* Who is silent has not sent probes either. */
	if (peers_path(peers, to, from) && peers_path(peers, from, to) &&
	    peers_largest(peers, from, to) == 0)
		judge_udp(peers, from, to);
	else if (peers_largest(peers, from, to) > 0)
		judge_path(peers, from, to);
	judge_tcp(peers, from, to);
	judge_name(peers, from, to);
}

/* ---- hosts ---- */

static void find_mtus(struct peers *peers)
{
	for (unsigned i = 0; i < peers->n_hosts; i++)
		for (unsigned j = 0; j < peers->n_hosts; j++) {
			const SmlControl__Path *path = peers_path(peers, i, j);

			if (path && path->mtu > peers->hosts[i].mtu)
				peers->hosts[i].mtu = path->mtu;
		}
}

static void judge_mtu(struct peers *peers, unsigned host)
{
	unsigned most = 0;

	for (unsigned i = 0; i < peers->n_hosts; i++)
		most = peers->hosts[i].mtu > most ? peers->hosts[i].mtu : most;
	if (peers->hosts[host].mtu == 0 || peers->hosts[host].mtu >= most)
		return;
	doctor_say(peers->doctor, DOCTOR_WARNING, "mtu",
		   "the MTU of %s is %u, others have %u: all packets of a job have to fit the "
		   "smallest MTU",
		   name_of(peers, host), peers->hosts[host].mtu, most);
	doctor_fix(peers->doctor, "on %s: ip link set dev INTERFACE mtu %u", name_of(peers, host),
		   most);
}

/* What the host has found at the switches. */
static void pass_on(struct peers *peers, unsigned host)
{
	const struct peers_rank *rank = peers_speaker(peers, host);

	if (!rank->report) {
		doctor_say(peers->doctor, DOCTOR_PROBLEM, "ranks",
			   "rank %u on %s has ended, or does not answer", peers->hosts[host].rank,
			   name_of(peers, host));
		doctor_fix(peers->doctor, "look at what it says");
		return;
	}
	for (size_t i = 0; rank->at_switch && i < rank->at_switch->n_findings; i++) {
		const SmlControl__Finding *finding = rank->at_switch->findings[i];

		doctor_say(peers->doctor,
			   finding->level == DOCTOR_WARNING ? DOCTOR_WARNING : DOCTOR_PROBLEM,
			   "switch", "from %s: %.200s", name_of(peers, host), finding->fact);
		doctor_fix(peers->doctor, "%.250s", finding->fix);
	}
}

void peers_judge_pairs(struct peers *peers)
{
	find_mtus(peers);
	for (unsigned i = 0; i < peers->n_hosts; i++) {
		pass_on(peers, i);
		judge_mtu(peers, i);
		for (unsigned j = 0; j < peers->n_hosts; j++)
			if (i != j)
				judge_pair(peers, i, j);
	}
}
