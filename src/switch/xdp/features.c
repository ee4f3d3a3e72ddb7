/* SPDX-License-Identifier: BSD-3-Clause */
/* Asks the kernel's netlink family "netdev" about one interface: see attach.h. */
#include "switch/xdp/attach.h"

#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/genetlink.h>
#include <sys/socket.h>

/* Of linux/netdev.h, which older systems' headers lack. */
#define NETDEV_COMMAND_DEV_GET	      1
#define NETDEV_ATTRIBUTE_IFINDEX      1
#define NETDEV_ATTRIBUTE_XDP_FEATURES 3

#define ANSWER_BYTES 8192
#define WAIT_MS	     500

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
