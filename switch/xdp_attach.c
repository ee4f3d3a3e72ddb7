/* SPDX-License-Identifier: BSD-3-Clause */
/* Links between interfaces and the program: see xdp_attach.h. */
#include "switch/xdp_attach.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/ethtool.h>
#include <linux/if_link.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

int sml_xdp_ports_parse(struct sml_xdp_ports *ports, const char *list, char *error_text,
			size_t error_bytes)
{
	memset(ports, 0, sizeof(*ports));
	while (*list != '\0') {
		size_t length = strcspn(list, ",");
		unsigned i = ports->n;

		if (i == SML_XDP_MAX_INTERFACES || length == 0 || length >= sizeof(*ports->names)) {
			snprintf(error_text, error_bytes,
				 "'%s' is not a list of interfaces: eth0,eth1", list);
			return -EINVAL;
		}
		memcpy(ports->names[i], list, length);
		ports->links[i] = -1;
		ports->ifindexes[i] = (int)if_nametoindex(ports->names[i]);
		if (ports->ifindexes[i] == 0) {
			snprintf(error_text, error_bytes, "there is no interface %s (see: ip link)",
				 ports->names[i]);
			return -ENODEV;
		}
		ports->n++;
		list += length + (list[length] == ',');
	}
	if (ports->n > 0)
		return 0;
	snprintf(error_text, error_bytes, "the XDP dataplane needs --iface eth0[,eth1...]");
	return -EINVAL;
}

static int attach_one(struct sml_xdp_ports *ports, unsigned i, int program_fd, bool generic,
		      char *error_text, size_t error_bytes)
{
	LIBBPF_OPTS(bpf_link_create_opts, options,
		    .flags = generic ? XDP_FLAGS_SKB_MODE : XDP_FLAGS_DRV_MODE);
	__u32 other = 0;
	int fd;

	if (bpf_xdp_query_id(ports->ifindexes[i], 0, &other) == 0 && other != 0) {
		snprintf(error_text, error_bytes,
			 "%s has another XDP program (id %u; see: bpftool net) and takes only one",
			 ports->names[i], other);
		return -EBUSY;
	}
	fd = bpf_link_create(program_fd, ports->ifindexes[i], BPF_XDP, &options);
	if (fd < 0) {
		int rc = -errno;

		snprintf(error_text, error_bytes, "%s takes no XDP program: %s", ports->names[i],
			 strerror(-rc));
		return rc;
	}
	ports->links[i] = fd;
	ports->generic[i] = generic;
	return 0;
}

int sml_xdp_ports_attach(struct sml_xdp_ports *ports, int program_fd, bool generic,
			 char *error_text, size_t error_bytes)
{
	for (unsigned i = 0; i < ports->n; i++) {
		int rc = attach_one(ports, i, program_fd, generic, error_text, error_bytes);

		if (rc == 0)
			continue;
		sml_xdp_ports_detach(ports);
		return rc;
	}
	return 0;
}

void sml_xdp_ports_detach(struct sml_xdp_ports *ports)
{
	for (unsigned i = 0; i < ports->n; i++) {
		if (ports->links[i] >= 0)
			close(ports->links[i]);
		ports->links[i] = -1;
	}
}

static bool is_virtual(const char *name)
{
	struct ethtool_drvinfo about = {.cmd = ETHTOOL_GDRVINFO};
	struct ifreq request = {.ifr_data = (char *)&about};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), rc;

	if (fd < 0)
		return false;
	snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
	rc = ioctl(fd, SIOCETHTOOL, &request);
	close(fd);
	return rc == 0 && (strcmp(about.driver, "veth") == 0 || strcmp(about.driver, "tun") == 0 ||
			   strcmp(about.driver, "virtio_net") == 0);
}

bool sml_xdp_ports_virtual(const struct sml_xdp_ports *ports)
{
	for (unsigned i = 0; i < ports->n; i++)
		if (is_virtual(ports->names[i]))
			return true;
	return false;
}
