/* SPDX-License-Identifier: BSD-3-Clause */
/* Dropping privileges: see daemon.h. */
#include "cmd/switch/daemon.h"

#include <cap-ng.h>
#include <errno.h>
#include <pwd.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "switch/shared/log.h"

#ifdef SML_HAVE_SECCOMP
#include <fcntl.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/socket.h>
#endif

/* If there is no user "nobody". */
#define NOBODY 65534

static void warn(const char *what)
{
	sml_switch_log(SML_LOG_WARN, "%s: %s", what, strerror(errno));
}

/*
 * 0: this process runs as nobody now. A user namespace with no other user has no user to change to;
 * root there is an ordinary user outside.
 */
static int become_nobody(void)
{
	const struct passwd *nobody = getpwnam("nobody");
	int uid = nobody != NULL ? (int)nobody->pw_uid : NOBODY;
	int gid = nobody != NULL ? (int)nobody->pw_gid : NOBODY;

	return capng_change_id(uid, gid, CAPNG_DROP_SUPP_GRP | CAPNG_CLEAR_BOUNDING);
}

void sml_privileges_drop(bool keeps_bpf)
{
	bool has_bpf;

	capng_get_caps_process();
	has_bpf = keeps_bpf && capng_have_capability(CAPNG_EFFECTIVE, CAP_BPF);
	capng_clear(CAPNG_SELECT_BOTH);
	if (has_bpf)
		capng_update(CAPNG_ADD, CAPNG_EFFECTIVE | CAPNG_PERMITTED, CAP_BPF);
	if (geteuid() != 0 || become_nobody() < 0) {
		/*
		 * A failed change of user leaves the capabilities that it needs in libcap-ng's
		 * state.
		 */
		capng_clear(CAPNG_SELECT_BOTH);
		if (has_bpf)
			capng_update(CAPNG_ADD, CAPNG_EFFECTIVE | CAPNG_PERMITTED, CAP_BPF);
		if (capng_apply(CAPNG_SELECT_CAPS) < 0)
			warn("its capabilities cannot be dropped");
	}
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		warn("it cannot refuse new privileges");
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	/* The sanitizers' leak check traces the process. */
	prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
#endif
}

/* ---- system calls ---- */

#if defined(SML_HAVE_SECCOMP) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

/*
 * All system calls that the control server, both dataplanes, their libraries and libc use once the
 * sockets are open. Any other fails with EPERM: the process can open no file, start no program,
 * trace nothing and make no connection. With a configuration file, it can open files to read, and a
 * leaf can make TCP connections.
 */
static const char *const allowed[] = {
	/* packets and messages */
	"read",
	"write",
	"readv",
	"writev",
	"recvfrom",
	"recvmsg",
	"recvmmsg",
	"sendto",
	"sendmsg",
	"sendmmsg",
	"accept",
	"accept4",
	"shutdown",
	"close",
	"getsockopt",
	"setsockopt",
	"getsockname",
	"getpeername",
	"ioctl",
	"fcntl",
	/* waiting */
	"epoll_wait",
	"epoll_pwait",
	"epoll_pwait2",
	"epoll_ctl",
	"poll",
	"ppoll",
	"select",
	"pselect6",
	"futex",
	"nanosleep",
	"clock_nanosleep",
	"restart_syscall",
	"timerfd_settime",
	/* the same, of 32-bit systems */
	"futex_time64",
	"ppoll_time64",
	"pselect6_time64",
	"recvmmsg_time64",
	"clock_nanosleep_time64",
	"clock_gettime64",
	"rt_sigtimedwait_time64",
	/* time, chance, itself */
	"clock_gettime",
	"clock_getres",
	"gettimeofday",
	"time",
	"getrandom",
	"getpid",
	"gettid",
	"getuid",
	"geteuid",
	"getgid",
	"getegid",
	"uname",
	"sysinfo",
	"prlimit64",
	"getrlimit",
	"getrusage",
	"sched_yield",
	"sched_getaffinity",
	"sched_setaffinity",
	"getcpu",
	"rseq",
	"membarrier",
	/* memory and threads */
	"mmap",
	"munmap",
	"mremap",
	"mprotect",
	"madvise",
	"brk",
	"set_robust_list",
	"set_tid_address",
	"exit",
	"exit_group",
	/* signals */
	"rt_sigaction",
	"rt_sigprocmask",
	"rt_sigreturn",
	"rt_sigtimedwait",
	"sigaltstack",
	"tgkill",
	/* what it prints */
	"fstat",
	"newfstatat",
	"lseek",
};

static int allow(scmp_filter_ctx filter, const char *name)
{
	int call = seccomp_syscall_resolve_name(name);

	/* Not every architecture has all of them. */
	return call == __NR_SCMP_ERROR ? 0 : seccomp_rule_add(filter, SCMP_ACT_ALLOW, call, 0);
}

static int allow_socket(scmp_filter_ctx filter, int family, int type)
{
	return seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(socket), 2,
				SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)family, 0),
				SCMP_A1(SCMP_CMP_MASKED_EQ, 0xf, (scmp_datum_t)type));
}

/* Beyond packets and messages: calls, and sockets of a family and type. */
static int allow_more(scmp_filter_ctx filter, const struct sml_privileges *kept)
{
	const struct {
		bool is_kept;
		const char *call; /* NULL: a socket */
		int family, type;
	} more[] = {
		{kept->bpf, "bpf", 0, 0},
		/* The XDP dataplane asks about interfaces when a job begins. */
		{kept->bpf, "bind", 0, 0},
		{kept->bpf, NULL, AF_INET, SOCK_DGRAM},
		{kept->bpf, NULL, AF_UNIX, SOCK_DGRAM},
		{kept->bpf, NULL, AF_NETLINK, SOCK_RAW},
		/* libsystemd makes one for each message. */
		{kept->notifies, NULL, AF_UNIX, SOCK_DGRAM},
		{kept->connects, "connect", 0, 0},
		{kept->connects, NULL, AF_INET, SOCK_STREAM},
		{kept->connects, NULL, AF_INET6, SOCK_STREAM},
	};
	int rc = 0;

	for (size_t i = 0; i < sizeof(more) / sizeof(more[0]) && rc == 0; i++)
		if (more[i].is_kept)
			rc = more[i].call ? allow(filter, more[i].call)
					  : allow_socket(filter, more[i].family, more[i].type);
	return rc;
}

static int allow_all(scmp_filter_ctx filter, const struct sml_privileges *kept)
{
	const scmp_datum_t changes = O_ACCMODE | O_CREAT | O_TRUNC;
	int rc = 0;

	for (size_t i = 0; i < sizeof(allowed) / sizeof(allowed[0]) && rc == 0; i++)
		rc = allow(filter, allowed[i]);
	if (rc == 0)
		rc = allow_more(filter, kept);
	/* To read: no file is written, created or emptied. */
	if (rc == 0 && kept->files)
		rc = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(openat), 1,
				      SCMP_A2(SCMP_CMP_MASKED_EQ, changes, O_RDONLY));
	/* Threads, and no processes. clone3's flags cannot be seen: libc then uses clone. */
	if (rc == 0)
		rc = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(clone), 1,
				      SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, CLONE_THREAD));
	if (rc == 0)
		rc = seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
	return rc;
}

void sml_privileges_filter(const struct sml_privileges *kept)
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(EPERM));
	int rc = filter != NULL ? 0 : -ENOMEM;

	if (rc == 0)
		rc = seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1);
	if (rc == 0)
		rc = allow_all(filter, kept);
	if (rc == 0)
		rc = seccomp_load(filter);
	if (filter != NULL)
		seccomp_release(filter);
	if (rc < 0) {
		errno = -rc;
		warn("its system calls are not restricted");
	}
}

#else

void sml_privileges_filter(const struct sml_privileges *kept)
{
	(void)kept;
}

#endif
