/* SPDX-License-Identifier: BSD-3-Clause */
#include "support/switch_process.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/error.h"
#include "control/key.h"
#include "control/tls.h"
#include "support/ranks.h"
#include "switch/switch.h"

extern char **environ;

void switch_process_main(int argc, char **argv)
{
	struct sml_switch_config config;
	struct sml_switch *opened;
	char listen[32];

	if (argc < 3 || argc > 4 || strcmp(argv[1], "--be-switch") != 0)
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	snprintf(listen, sizeof(listen), "127.0.0.1:%s", argv[2]);
	sml_switch_config_init(&config);
	config.listen = listen;
	config.debug = 0;
	config.parent = argv[3]; /* or NULL */
	config.job_key.file = getenv(sml_key_variables.file);
	config.job_key_names = sml_key_variables;
	config.tls = (struct sml_tls_files){.certificate = getenv(sml_tls_variables.certificate),
					    .key = getenv(sml_tls_variables.key),
					    .authority = getenv(sml_tls_variables.authority)};
	if (sml_switch_open(&opened, &config) < 0) {
		printf("%s\n", sml_error_last());
		exit(1);
	}
	printf("%u\n", sml_switch_port(opened));
	fflush(stdout);
	for (;;)
		pause();
}

void switch_process_set_key(const char *secret)
{
	static char path[] = "/tmp/switch-key-XXXXXX";
	int fd;

	if (secret == NULL) {
		unsetenv("SWITCHML_JOB_KEY_FILE");
		unlink(path);
		memcpy(strchr(path, '\0') - 6, "XXXXXX", 6);
		return;
	}
	fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, secret, strlen(secret)), strlen(secret));
	close(fd);
	setenv("SWITCHML_JOB_KEY_FILE", path, 1);
}

/* Another process must not get its port, for TCP or UDP, while the switch is dead. */
void switch_process_start(struct switch_process *process)
{
	posix_spawn_file_actions_t actions;
	char port[16], line[512] = "";
	char *arguments[] = {"test", "--be-switch", port, (char *)(uintptr_t)process->parent, NULL};
	int fds[2];

	if (process->port == 0)
		process->port = (uint16_t)free_port();
	snprintf(port, sizeof(port), "%u", process->port);
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, fds[1], STDOUT_FILENO);
	if (process->is_silent)
		posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
	assert_int_equal(
		posix_spawn(&process->pid, "/proc/self/exe", &actions, NULL, arguments, environ),
		0);
	posix_spawn_file_actions_destroy(&actions);
	close(fds[1]);
	if (read(fds[0], line, sizeof(line) - 1) < 0 || atoi(line) != process->port)
		fail_msg("the switch cannot be started: %s", line);
	close(fds[0]);
}

void switch_process_kill(struct switch_process *process)
{
	if (process->pid == 0)
		return;
	kill(process->pid, SIGKILL);
	waitpid(process->pid, NULL, 0);
	process->pid = 0;
}
