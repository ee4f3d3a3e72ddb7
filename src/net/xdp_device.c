/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/xdp_device.h"

#include <errno.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

/* `about` holds the question, and then the answer. */
static int query_name(const char *name, unsigned long request, struct ifreq *about)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), rc;

	if (fd < 0)
		return -errno;
	memcpy(about->ifr_name, name, IF_NAMESIZE);
	rc = ioctl(fd, request, about) < 0 ? -errno : 0;
	close(fd);
	return rc;
}

int sml_xdp_query_device(const char *name, unsigned long request, void *argument)
{
	struct ifreq about = {.ifr_data = argument};

	return query_name(name, request, &about);
}

static bool is_loopback(const char *name)
{
	struct ifreq about = {.ifr_flags = 0};

	return query_name(name, SIOCGIFFLAGS, &about) == 0 && (about.ifr_flags & IFF_LOOPBACK);
}

bool sml_xdp_is_virtual(const char *name)
{
	static const char *const drivers[] = {"veth", "tun", "virtio_net", "vif"};
	struct ethtool_drvinfo about = {.cmd = ETHTOOL_GDRVINFO};

	if (is_loopback(name))
		return true;
	if (sml_xdp_query_device(name, SIOCETHTOOL, &about) < 0)
		return false;
	for (size_t i = 0; i < sizeof(drivers) / sizeof(drivers[0]); i++)
		if (strcmp(about.driver, drivers[i]) == 0)
			return true;
	return false;
}
