/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The address on which rank 0's control port listens: the master's address, if this host has
 * it. Needs an interface besides the loopback.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lib/context/membership.h"
#include "support/ranks.h"
#include "support/test.h"

static char own[INET6_ADDRSTRLEN], own_interface[IF_NAMESIZE];

/* An IPv4 address of this host that is not on the loopback. */
static bool find_own(void)
{
	struct ifaddrs *all;
	bool found = false;

	assert_int_equal(getifaddrs(&all), 0);
	for (struct ifaddrs *i = all; i != NULL && !found; i = i->ifa_next) {
		struct sockaddr_in address;

		if (i->ifa_addr == NULL || i->ifa_addr->sa_family != AF_INET ||
		    i->ifa_flags & IFF_LOOPBACK || !(i->ifa_flags & IFF_UP))
			continue;
		memcpy(&address, i->ifa_addr, sizeof(address));
		inet_ntop(AF_INET, &address.sin_addr, own, sizeof(own));
		snprintf(own_interface, sizeof(own_interface), "%s", i->ifa_name);
		found = true;
	}
	freeifaddrs(all);
	return found;
}

/* 0, or -errno of connect(). */
static int try_to_connect(const char *host, int port)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int rc;

	inet_pton(AF_INET, host, &to.sin_addr);
	rc = connect(fd, (struct sockaddr *)&to, sizeof(to)) < 0 ? -errno : 0;
	close(fd);
	return rc;
}

static void look(struct rank *rank)
{
	const char *master = rank->job->argument;
	int32_t value = 1;

	CHECK(rank,
	      sml_allreduce(rank->context, &value, &value, 1, SML_INT32, SML_SUM, NULL, NULL) == 0);
	CHECK(rank, value == rank->n);
	CHECK(rank, try_to_connect(master, rank->job->port) == 0);
	/* Any other address of this host. */
	CHECK(rank, try_to_connect(strcmp(master, own) == 0 ? "127.0.0.1" : own, rank->job->port) ==
			    -ECONNREFUSED);
}

TEST(port_listens_on_the_masters_address_alone)
{
	struct job job = {.n_ranks = 2, .master_address = own, .argument = own, .body = look};

	job.port = free_port();
	run_job(&job);
}

TEST(port_of_a_local_job_listens_on_the_loopback_alone)
{
	static char loopback[] = "127.0.0.1";
	struct job job = {
		.n_ranks = 2, .master_address = loopback, .argument = loopback, .body = look};

	job.port = free_port();
	run_job(&job);
}

TEST(what_is_not_this_hosts_is_no_choice)
{
	char text[INET6_ADDRSTRLEN];

	sml_listen_choose(own, NULL, text);
	assert_string_equal(text, own);
	/*
	 * For example behind address translation: all addresses, or those of the chosen
	 * interface.
	 */
	sml_listen_choose("198.51.100.77", NULL, text);
	assert_string_equal(text, "");
	sml_listen_choose("198.51.100.77", own_interface, text);
	assert_string_equal(text, own);
	sml_listen_choose("no-such-host.invalid", NULL, text);
	assert_string_equal(text, "");
	/*
	 * In many hosts files, the host's own name is 127.0.1.1, but others resolve it
	 * differently.
	 */
	sml_listen_choose("127.0.1.1", NULL, text);
	assert_string_equal(text, "");
}

int main(void)
{
	if (!find_own()) {
		printf("no interface besides the loopback has an IPv4 address\n");
		return 77;
	}
	return test_run();
}
