/* SPDX-License-Identifier: BSD-3-Clause */
/* `switchml doctor`: what this machine's kernel allows. */
#include <cap-ng.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "cmd/doctor/doctor.h"

/* A window of 256 packets of 1500 bytes, as the kernel counts them, several times over. */
#define WANTED_BUFFER_BYTES (4l << 20)

/* The first line of a small kernel file, without its newline. */
static int read_line(const char *path, char *line, size_t size)
{
	FILE *file = fopen(path, "re");
	int good = file && fgets(line, (int)size, file);

	if (file)
		fclose(file);
	if (!good)
		return -1;
	line[strcspn(line, "\n")] = '\0';
	return 0;
}

static void check_buffer(struct doctor *doctor, const char *check, const char *name)
{
	char path[128], line[64];
	long bytes = 0;

	snprintf(path, sizeof(path), "/proc/sys/net/core/%s", name);
	if (read_line(path, line, sizeof(line)) < 0 || sscanf(line, "%ld", &bytes) != 1) {
		/* Network namespaces of containers can hide it. */
		doctor_say(doctor, DOCTOR_OK, check, "net.core.%s cannot be read here", name);
		return;
	}
	if (bytes >= WANTED_BUFFER_BYTES) {
		doctor_say(doctor, DOCTOR_OK, check, "net.core.%s is %ld bytes", name, bytes);
		return;
	}
	doctor_say(doctor, DOCTOR_WARNING, check,
		   "net.core.%s is %ld bytes: bursts of packets may be lost on this machine", name,
		   bytes);
	doctor_fix(doctor, "sysctl -w net.core.%s=%ld (and a file in /etc/sysctl.d to keep it)",
		   name, WANTED_BUFFER_BYTES);
}

static void check_clock(struct doctor *doctor)
{
	char name[64] = "unknown";
	struct timespec step;

	read_line("/sys/devices/system/clocksource/clocksource0/current_clocksource", name,
		  sizeof(name));
	if (clock_getres(CLOCK_MONOTONIC, &step) < 0 || step.tv_sec > 0 || step.tv_nsec > 1000) {
		doctor_say(doctor, DOCTOR_WARNING, "clock",
			   "the monotonic clock (%s) is coarser than a microsecond", name);
		doctor_fix(doctor, "boot without clocksource= and nohz=off settings");
	} else if (!strcmp(name, "hpet") || !strcmp(name, "acpi_pm")) {
		doctor_say(doctor, DOCTOR_WARNING, "clock",
			   "the clock source is %s: every time query is slow", name);
		doctor_fix(doctor, "see /sys/devices/system/clocksource/clocksource0/"
				   "available_clocksource for a faster one, such as tsc");
	} else {
		doctor_say(doctor, DOCTOR_OK, "clock", "the clock source is %s", name);
	}
}

static void check_offload(struct doctor *doctor, int udp, int option, const char *name)
{
	int value = option == UDP_SEGMENT ? 1400 : 1;

	if (setsockopt(udp, IPPROTO_UDP, option, &value, sizeof(value)) == 0) {
		doctor_say(doctor, DOCTOR_OK, name, "the kernel has it");
		return;
	}
	doctor_say(doctor, DOCTOR_WARNING, name,
		   "the kernel refuses it (%s): packets cost more processor time", strerror(errno));
	doctor_fix(doctor, "use Linux 5.0 or newer");
}

static void check_offloads(struct doctor *doctor)
{
	int udp = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (udp < 0) {
		doctor_say(doctor, DOCTOR_PROBLEM, "udp", "no UDP socket can be made: %s",
			   strerror(errno));
		doctor_fix(doctor, "look at this user's limits (ulimit -n) and sandbox");
		return;
	}
	check_offload(doctor, udp, UDP_SEGMENT, "udp segment");
	check_offload(doctor, udp, UDP_GRO, "udp gro");
	close(udp);
}

static void check_bpf(struct doctor *doctor)
{
	capng_get_caps_process();
	if ((capng_have_capability(CAPNG_EFFECTIVE, CAP_SYS_ADMIN) ||
	     capng_have_capability(CAPNG_EFFECTIVE, CAP_BPF)) &&
	    capng_have_capability(CAPNG_EFFECTIVE, CAP_NET_ADMIN)) {
		doctor_say(doctor, DOCTOR_OK, "xdp", "this user may attach XDP programs");
		return;
	}
	doctor_say(doctor, DOCTOR_OK, "xdp",
		   "this user may not attach XDP programs (sockets need no such right)");
	doctor_fix(doctor, "run as root, or give the program cap_bpf and cap_net_admin");
}

void doctor_check_host(struct doctor *doctor)
{
	check_buffer(doctor, "receive buffer", "rmem_max");
	check_buffer(doctor, "send buffer", "wmem_max");
	check_clock(doctor);
	check_offloads(doctor);
	check_bpf(doctor);
}
