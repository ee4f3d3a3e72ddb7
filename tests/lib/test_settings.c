/* SPDX-License-Identifier: BSD-3-Clause */
/* What is made of single settings: faults, interfaces, and the MTU; and the texts of errors. */
#include "lib/settings/settings.h"
#include "lib/transport/interface.h"
#include "support/test.h"

TEST(faults_are_parsed_strictly)
{
	static const char *const bad[] = {"drop",   "drop=",   "drop=1000001", "drop=1,",
					  "lose=1", "drop=1 ", ",drop=1",      "drop=-1"};
	struct sml_faults faults;

	assert_int_equal(sml_faults_parse(&faults, "drop=10000,duplicate=20,reorder=3,seed=7"), 0);
	assert_int_equal(faults.drop, 10000);
	assert_int_equal(faults.duplicate, 20);
	assert_int_equal(faults.reorder, 3);
	assert_int_equal(faults.seed, 7);
	assert_false(faults.no_tickets || faults.no_fast_retransmit);
	assert_int_equal(sml_faults_parse(&faults, "tickets=0,fastretransmit=0"), 0);
	assert_true(faults.no_tickets && faults.no_fast_retransmit);
	assert_int_equal(sml_faults_parse(&faults, "tickets=1,fastretransmit=2"), SML_ERROR_CONFIG);
	assert_int_equal(sml_faults_parse(&faults, ""), 0);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(sml_faults_parse(&faults, bad[i]), SML_ERROR_CONFIG);
}

TEST(interface_filters_take_names_prefixes_and_exclusions)
{
	assert_true(sml_interface_matches("eth0", "eth0"));
	assert_true(sml_interface_matches("eth", "eth1"));
	assert_true(sml_interface_matches("ib,eth", "eth1"));
	assert_false(sml_interface_matches("ib,eth", "lo"));
	assert_false(sml_interface_matches("^lo,docker", "docker0"));
	assert_true(sml_interface_matches("^lo,docker", "eth0"));
}

TEST(lanes_follow_from_the_mtu)
{
	assert_int_equal(sml_lanes_of_mtu(1500, AF_INET), 358);
	assert_int_equal(sml_lanes_of_mtu(1499, AF_INET), 352);
	assert_int_equal(sml_lanes_of_mtu(1500, AF_INET6), 352);
	assert_int_equal(sml_lanes_of_mtu(1475, AF_INET), 256);
	assert_int_equal(sml_lanes_of_mtu(3500, AF_INET), 832);
	assert_int_equal(sml_lanes_of_mtu(3500, AF_INET6), 832);
	assert_int_equal(sml_lanes_of_mtu(9000, AF_INET6), SML_MAX_LANES);
	assert_int_equal(sml_lanes_of_mtu(65536, AF_INET), SML_MAX_LANES);
	assert_int_equal(sml_lanes_of_mtu(195, AF_INET), 0);
}

TEST(every_error_has_a_text)
{
	assert_string_equal(sml_strerror(0), "success");
	assert_string_equal(sml_strerror(SML_ERROR_MISMATCH), "ranks disagree");
	assert_string_equal(sml_strerror(-12), "Cannot allocate memory");
	assert_string_equal(sml_strerror(-4000), "unknown error");
	assert_string_equal(sml_strerror(7), "unknown error");
}
