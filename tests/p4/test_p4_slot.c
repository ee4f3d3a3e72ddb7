/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The slot rule in simple_switch, through the P4 dataplane: the shared vectors as packets, and
 * random packets compared with the user-space slots, verdict by verdict and byte by byte. A build
 * of the staged form that can lose packets between passes gets a test of such losses instead.
 * tests/p4/p4-slot.sh builds the namespace:
 *
 *	this test's raw socket -- workers --|port 1            port 0|-- daemon -- the dataplane's
 *	(all ranks)                         |    simple_switch       |             socket
 *
 * Vectors begin with old slots, which the test writes into registers, as it writes which packets
 * are lost.
 */
#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/error.h"
#include "p4_slot.h"

static int open_raw(const char *interface)
{
	struct sockaddr_ll place = {.sll_family = AF_PACKET,
				    .sll_protocol = htons(ETH_P_ALL),
				    .sll_ifindex = (int)if_nametoindex(interface)};
	int fd = socket(AF_PACKET, SOCK_RAW, htons(ETH_P_ALL)), one = 1;

	if (fd < 0 || bind(fd, (struct sockaddr *)&place, sizeof(place)) < 0 ||
	    setsockopt(fd, SOL_PACKET, PACKET_AUXDATA, &one, sizeof(one)) < 0) {
		perror(interface);
		exit(1);
	}
	return fd;
}

/*
 * TARGET FAMILY PROGRAM; the family is 4, 6 or tagged. The interface is called "workers". A
 * program whose name ends in -loss.json can lose packets between passes.
 */
int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_vector_gets_its_verdict_and_result_in_simple_switch),
		cmocka_unit_test(random_packets_get_the_verdicts_and_bytes_of_the_user_space_slots),
	};
	const struct CMUnitTest loss_tests[] = {
		cmocka_unit_test(
			a_use_whose_last_packet_is_lost_between_passes_is_completed_by_any_copy),
	};
	struct sml_dataplane_config config = {
		.port = FRAME_PORT,
		.n_threads = 1,
		.interfaces = "",
		.hosts = "02:00:00:00:00:ff=0,02:00:00:00:00:00=1",
		.max_jobs = 4,
		.max_slots = 1024,
		.on_mismatch = p4_slot_note_mismatch,
	};
	int rc;

	if (argc != 4)
		return 2;
	p4_slot.seed = sml_now_ns();
	print_message("seed %lu\n", (unsigned long)p4_slot.seed);
	p4_slot.wrapping.v6 = strcmp(argv[2], "6") == 0;
	p4_slot.wrapping.n_tags = strcmp(argv[2], "tagged") == 0;
	p4_slot.is_staged = strstr(argv[3], "-staged") != NULL;
	config.target = argv[1];
	config.address = p4_slot.wrapping.v6 ? "fd00::ff" : "10.0.0.255";
	p4_slot.raw_fd = open_raw("workers");
	if (p4_slot.operations->open(&p4_slot.dataplane, &config) < 0) {
		fprintf(stderr, "%s\n", sml_error_last());
		return 1;
	}
	if (strstr(argv[3], "-loss.json") != NULL)
		rc = cmocka_run_group_tests(loss_tests, NULL, NULL);
	else
		rc = cmocka_run_group_tests(tests, NULL, NULL);
	if (p4_slot.has_job)
		p4_slot.operations->remove_job(p4_slot.dataplane, VECTOR_JOB);
	p4_slot.operations->close(p4_slot.dataplane);
	return rc;
}
