/* SPDX-License-Identifier: BSD-3-Clause */
/* Interfaces, and links between them and the program: see attach.h. */
#include "switch/xdp/attach.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/ethtool.h>
#include <linux/genetlink.h>
#include <linux/if_link.h>
#include <linux/if_vlan.h>
#include <linux/sockios.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"

/* The default if a driver does not report it: a veth's ring. */
#define USUAL_RING 256
#define LEAST_RING 64

/* Of linux/netdev.h, which older systems' headers lack. */
#define NETDEV_COMMAND_DEV_GET	      1
#define NETDEV_ATTRIBUTE_IFINDEX      1
#define NETDEV_ATTRIBUTE_XDP_FEATURES 3

#define ANSWER_BYTES 8192
#define WAIT_MS	     500

/* ---- what the drivers report ---- */

/* An ioctl about an interface, on any socket. `about` holds the question, and then the answer. */
static int query(unsigned long request, void *about)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), rc;

	if (fd < 0)
		return -errno;
	rc = ioctl(fd, request, about) < 0 ? -errno : 0;
	close(fd);
	return rc;
}

/* The name has IF_NAMESIZE bytes. */
static int query_driver(const char *name, void *about)
{
	struct ifreq device = {.ifr_data = about};

	memcpy(device.ifr_name, name, IF_NAMESIZE);
	return query(SIOCETHTOOL, &device);
}

/*
 * Does it deliver packets whose checksum was left to hardware that does not exist? That is so for
 * loopback, and for drivers between virtual machines or namespaces.
 */
static bool is_virtual(const char *name)
{
	static const char *const drivers[] = {"veth", "tun", "virtio_net", "vif"};
	struct ethtool_drvinfo about = {.cmd = ETHTOOL_GDRVINFO};
	struct ifreq device = {.ifr_flags = 0};

	memcpy(device.ifr_name, name, IF_NAMESIZE);
	if (query(SIOCGIFFLAGS, &device) == 0 && (device.ifr_flags & IFF_LOOPBACK))
		return true;
	if (query_driver(name, &about) < 0)
		return false;
	for (size_t i = 0; i < sizeof(drivers) / sizeof(drivers[0]); i++)
		if (strcmp(about.driver, drivers[i]) == 0)
			return true;
	return false;
}

static uint32_t ring_of(const char *name)
{
	struct ethtool_ringparam ring = {.cmd = ETHTOOL_GRINGPARAM};

	if (query_driver(name, &ring) < 0 || ring.rx_pending == 0)
		return USUAL_RING;
	return ring.rx_pending < LEAST_RING ? LEAST_RING : ring.rx_pending;
}

bool sml_xdp_is_vlan(uint32_t ifindex)
{
	struct vlan_ioctl_args arguments = {.cmd = GET_VLAN_VID_CMD};
	char name[IF_NAMESIZE];

	if (if_indextoname(ifindex, name) == NULL)
		return false;
	snprintf(arguments.device1, sizeof(arguments.device1), "%s", name);
	return query(SIOCGIFVLAN, &arguments) == 0;
}

/* ---- the list ---- */

static int add(struct sml_xdp_ports *ports, const char *name)
{
	int ifindex = (int)if_nametoindex(name);
	uint32_t ring;

	if (ifindex == 0)
		return sml_error_set(-ENODEV, "there is no interface %s, of --iface (see: ip link)",
				     name);
	for (unsigned i = 0; i < ports->n; i++) {
		if (ports->ifindexes[i] != ifindex)
			continue;
		return sml_error_set(-EINVAL, "--iface names %s twice", name);
	}
	ring = ring_of(name);
	if (ports->n == 0 || ring < ports->ring)
		ports->ring = ring;
	ports->some_virtual |= is_virtual(name);
	ports->ifindexes[ports->n] = ifindex;
	ports->links[ports->n] = -1;
	memcpy(ports->names[ports->n++], name, IF_NAMESIZE);
	return 0;
}

int sml_xdp_ports_parse(struct sml_xdp_ports *ports, const char *list)
{
	*ports = (struct sml_xdp_ports){.n = 0};
	if (*list == '\0')
		return sml_error_set(-EINVAL, "the XDP dataplane needs --iface NAME[,NAME...]");
	while (*list != '\0') {
		size_t length = strcspn(list, ",");
		char name[IF_NAMESIZE] = "";
		int rc;

		if (ports->n == SML_XDP_MAX_INTERFACES || length == 0 || length >= sizeof(name))
			return sml_error_set(
				-EINVAL,
				"--iface is a list of at most %d interfaces: eth0,eth1; not '%s'",
				SML_XDP_MAX_INTERFACES, list);
		memcpy(name, list, length);
		rc = add(ports, name);
		if (rc < 0)
			return rc;
		list += length + (list[length] == ',');
	}
	return 0;
}

/* ---- what an interface can do: the kernel's netlink family "netdev" ---- */

struct wanted {
	uint16_t attribute;
	uint64_t value;
	bool found;
};

static int take_attribute(const struct nlattr *attribute, void *context)
{
	struct wanted *wanted = context;

	if (mnl_attr_get_type(attribute) != wanted->attribute)
		return MNL_CB_OK;
	if (mnl_attr_get_payload_len(attribute) == sizeof(uint64_t))
		wanted->value = mnl_attr_get_u64(attribute);
	else if (mnl_attr_get_payload_len(attribute) == sizeof(uint16_t))
		wanted->value = mnl_attr_get_u16(attribute);
	else
		return MNL_CB_OK;
	wanted->found = true;
	return MNL_CB_OK;
}

static int take_message(const struct nlmsghdr *message, void *context)
{
	return mnl_attr_parse(message, sizeof(struct genlmsghdr), take_attribute, context);
}

/* Send a request and find one attribute in the answer. */
static int query_attribute(struct mnl_socket *netlink, struct nlmsghdr *request,
			   struct wanted *wanted)
{
	char answer[ANSWER_BYTES];
	struct timeval timeout = {.tv_usec = WAIT_MS * 1000};
	ssize_t bytes;

	setsockopt(mnl_socket_get_fd(netlink), SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
	if (mnl_socket_sendto(netlink, request, request->nlmsg_len) < 0)
		return -errno;
	bytes = mnl_socket_recvfrom(netlink, answer, sizeof(answer));
	if (bytes < 0 || mnl_cb_run(answer, (size_t)bytes, request->nlmsg_seq,
				    mnl_socket_get_portid(netlink), take_message, wanted) < 0)
		return -errno;
	return wanted->found ? 0 : -ENODATA;
}

static struct nlmsghdr *begin_request(void *buffer, uint16_t family, uint8_t command,
				      uint32_t sequence)
{
	struct nlmsghdr *request = mnl_nlmsg_put_header(buffer);
	struct genlmsghdr *generic;

	request->nlmsg_type = family;
	request->nlmsg_flags = NLM_F_REQUEST;
	request->nlmsg_seq = sequence;
	generic = mnl_nlmsg_put_extra_header(request, sizeof(*generic));
	generic->cmd = command;
	generic->version = 1;
	return request;
}

static int query_features(struct mnl_socket *netlink, int ifindex, uint64_t *features)
{
	char buffer[256];
	struct wanted family = {.attribute = CTRL_ATTR_FAMILY_ID};
	struct wanted wanted = {.attribute = NETDEV_ATTRIBUTE_XDP_FEATURES};
	struct nlmsghdr *request = begin_request(buffer, GENL_ID_CTRL, CTRL_CMD_GETFAMILY, 1);
	int rc;

	mnl_attr_put_strz(request, CTRL_ATTR_FAMILY_NAME, "netdev");
	rc = query_attribute(netlink, request, &family);
	if (rc < 0)
		return rc;
	request = begin_request(buffer, (uint16_t)family.value, NETDEV_COMMAND_DEV_GET, 2);
	mnl_attr_put_u32(request, NETDEV_ATTRIBUTE_IFINDEX, (uint32_t)ifindex);
	rc = query_attribute(netlink, request, &wanted);
	if (rc == 0)
		*features = wanted.value;
	return rc;
}

int sml_xdp_features(int ifindex, uint64_t *features)
{
	struct mnl_socket *netlink = mnl_socket_open2(NETLINK_GENERIC, SOCK_CLOEXEC);
	int rc;

	if (netlink == NULL)
		return -errno;
	rc = mnl_socket_bind(netlink, 0, MNL_SOCKET_AUTOPID) < 0
		     ? -errno
		     : query_features(netlink, ifindex, features);
	mnl_socket_close(netlink);
	return rc;
}

/* ---- links ---- */

static int refuse(int rc, const char *name, bool generic)
{
	if (rc == -EBUSY || rc == -EEXIST)
		return sml_error_set(-EBUSY,
				     "%s already has an XDP program that does not share the "
				     "interface: `bpftool net` and `bpftool link` show it",
				     name);
	if (rc == -EPERM)
		return sml_error_set(
			rc, "XDP on %s needs CAP_NET_ADMIN in addition to CAP_BPF and CAP_PERFMON",
			name);
	return sml_error_set(rc, "the driver of %s refuses the XDP program%s: %s%s", name,
			     generic ? "" : " in native mode", strerror(-rc),
			     rc == -ERANGE ? " (for a veth: the MTU of its other end is above 3506)"
					   : "");
}

static int attach_one(struct sml_xdp_ports *ports, unsigned i, int program_fd, bool generic)
{
	LIBBPF_OPTS(bpf_link_create_opts, options,
		    .flags = generic ? XDP_FLAGS_SKB_MODE : XDP_FLAGS_DRV_MODE);
	__u32 other = 0;

	if (bpf_xdp_query_id(ports->ifindexes[i], 0, &other) == 0 && other != 0)
		return refuse(-EBUSY, ports->names[i], generic);
	ports->links[i] = bpf_link_create(program_fd, ports->ifindexes[i], BPF_XDP, &options);
	if (ports->links[i] >= 0)
		return 0;
	ports->links[i] = -1;
	return refuse(-errno, ports->names[i], generic);
}

int sml_xdp_ports_attach(struct sml_xdp_ports *ports, int program_fd, bool generic)
{
	for (unsigned i = 0; i < ports->n; i++) {
		int rc = attach_one(ports, i, program_fd, generic);

		if (rc == 0)
			continue;
		sml_xdp_ports_detach(ports);
		return rc;
	}
	ports->generic = generic;
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
