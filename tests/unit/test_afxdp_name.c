/* SPDX-License-Identifier: BSD-3-Clause */
/* Names that AF_XDP workers hold: names of the same user count, and names of other users do not. */
#include "lib/transport/afxdp/name.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define NOBODY 65534

static void a_name_is_held_once_and_until_it_is_closed(void **state)
{
	uint32_t number = (uint32_t)getpid();
	int fd = sml_name_hold("test-", number);

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(sml_name_hold("test-", number), -1);
	assert_int_equal(errno, EADDRINUSE);
	close(fd);
	fd = sml_name_hold("test-", number);
	assert_true(fd >= 0);
	close(fd);
}

/* A process of another user holds the name until its end of the pipe is closed. */
static void a_name_that_another_user_holds_is_no_claim(void **state)
{
	uint32_t number = (uint32_t)getpid();
	int held[2], release[2];
	char byte;
	pid_t child;

	(void)state;
	if (geteuid() != 0) {
		print_message("skipped: only root can be another user\n");
		skip();
	}
	assert_int_equal(pipe(held), 0);
	assert_int_equal(pipe(release), 0);
	child = fork();
	if (child == 0) {
		close(release[1]);
		if (setuid(NOBODY) < 0 || sml_name_hold("test-", number) < 0 ||
		    write(held[1], "", 1) != 1)
			_exit(1);
		_exit(read(release[0], &byte, 1) != 0);
	}
	close(held[1]);
	assert_int_equal(read(held[0], &byte, 1), 1);
	assert_int_equal(sml_name_hold("test-", number), -1);
	assert_int_equal(errno, EPERM);
	close(release[0]);
	close(release[1]);
	assert_int_equal(waitpid(child, NULL, 0), child);
	close(held[0]);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_name_is_held_once_and_until_it_is_closed),
		cmocka_unit_test(a_name_that_another_user_holds_is_no_claim),
	};

	return cmocka_run_group_tests_name("afxdp_name", tests, NULL, NULL);
}
