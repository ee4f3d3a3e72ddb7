/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/transport/afxdp/route.h"

#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/if_arp.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#define ANSWER_BYTES 8192
#define WAIT_US	     200000
#define NUD_USABLE   (NUD_PERMANENT | NUD_NOARP | NUD_REACHABLE | NUD_PROBE | NUD_STALE | NUD_DELAY)

static const void *address_of(const union sml_sockaddr *address, size_t *bytes)
{
	if (address->any.sa_family == AF_INET6) {
		*bytes = sizeof(address->v6.sin6_addr);
		return &address->v6.sin6_addr;
	}
	*bytes = sizeof(address->v4.sin_addr);
	return &address->v4.sin_addr;
}

/* Send a question, and pass the one answer to `take`. */
static int ask(struct sml_route *route, struct nlmsghdr *request, mnl_cb_t take, void *context)
{
	static unsigned sequence;
	char answer[ANSWER_BYTES];
	ssize_t bytes;

	request->nlmsg_seq = __atomic_add_fetch(&sequence, 1, __ATOMIC_RELAXED);
	if (mnl_socket_sendto(route->netlink, request, request->nlmsg_len) < 0)
		return -errno;
	do {
		bytes = mnl_socket_recvfrom(route->netlink, answer, sizeof(answer));
		if (bytes < 0)
			return -errno;
		/* The answer to an earlier question came too late. */
	} while (((const struct nlmsghdr *)(const void *)answer)->nlmsg_seq != request->nlmsg_seq);
	if (mnl_cb_run(answer, (size_t)bytes, request->nlmsg_seq,
		       mnl_socket_get_portid(route->netlink), take, context) < 0)
		return -errno;
	return 0;
}

/* ---- the route ---- */

static int take_route_attribute(const struct nlattr *attribute, void *context)
{
	struct sml_route *route = context;
	size_t bytes;
	void *gateway = (void *)(uintptr_t)address_of(&route->next_hop, &bytes);

	if (mnl_attr_get_type(attribute) == RTA_OIF &&
	    mnl_attr_get_payload_len(attribute) == sizeof(uint32_t))
		route->ifindex = (int)mnl_attr_get_u32(attribute);
	if (mnl_attr_get_type(attribute) == RTA_GATEWAY &&
	    mnl_attr_get_payload_len(attribute) == bytes)
		memcpy(gateway, mnl_attr_get_payload(attribute), bytes);
	return MNL_CB_OK;
}

static int take_route(const struct nlmsghdr *message, void *context)
{
	const struct rtmsg *about = mnl_nlmsg_get_payload(message);
	struct sml_route *route = context;

	if (message->nlmsg_type != RTM_NEWROUTE)
		return MNL_CB_OK;
	route->local = about->rtm_type != RTN_UNICAST;
	return mnl_attr_parse(message, sizeof(*about), take_route_attribute, route);
}

static int find_route(struct sml_route *route, const union sml_sockaddr *peer, int ifindex)
{
	char buffer[256];
	struct nlmsghdr *request = mnl_nlmsg_put_header(buffer);
	struct rtmsg *about;
	size_t bytes;
	const void *address = address_of(peer, &bytes);

	request->nlmsg_type = RTM_GETROUTE;
	request->nlmsg_flags = NLM_F_REQUEST;
	about = mnl_nlmsg_put_extra_header(request, sizeof(*about));
	about->rtm_family = (unsigned char)peer->any.sa_family;
	about->rtm_dst_len = (unsigned char)(8 * bytes);
	mnl_attr_put(request, RTA_DST, bytes, address);
	if (ifindex > 0)
		mnl_attr_put_u32(request, RTA_OIF, (uint32_t)ifindex);
	return ask(route, request, take_route, route);
}

/* ---- the interface ---- */

static int ask_interface(struct sml_route *route)
{
	struct ifreq about = {.ifr_flags = 0};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), error = 0;

	if (fd < 0)
		return -errno;
	if (if_indextoname((unsigned)route->ifindex, route->name) == NULL) {
		close(fd);
		return -ENODEV;
	}
	memcpy(about.ifr_name, route->name, IF_NAMESIZE);
	if (ioctl(fd, SIOCGIFHWADDR, &about) < 0) {
		error = -errno;
	} else {
		route->ethernet = about.ifr_hwaddr.sa_family == ARPHRD_ETHER;
		memcpy(route->own_mac, about.ifr_hwaddr.sa_data, SML_MAC_BYTES);
	}
	if (error == 0 && ioctl(fd, SIOCGIFMTU, &about) == 0)
		route->mtu = (uint32_t)about.ifr_mtu;
	if (error == 0 && ioctl(fd, SIOCGIFFLAGS, &about) == 0)
		route->local |= (about.ifr_flags & IFF_LOOPBACK) != 0;
	close(fd);
	return error;
}

int sml_route_open(struct sml_route *route, const union sml_sockaddr *peer, int ifindex)
{
	struct timeval patience = {.tv_usec = WAIT_US};
	int error;

	*route = (struct sml_route){.next_hop = *peer};
	route->netlink = mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC);
	if (route->netlink == NULL)
		return -errno;
	setsockopt(mnl_socket_get_fd(route->netlink), SOL_SOCKET, SO_RCVTIMEO, &patience,
		   sizeof(patience));
	if (mnl_socket_bind(route->netlink, 0, MNL_SOCKET_AUTOPID) < 0)
		return -errno;
	error = find_route(route, peer, ifindex);
	return error ? error : ask_interface(route);
}

void sml_route_close(struct sml_route *route)
{
	if (route->netlink)
		mnl_socket_close(route->netlink);
	route->netlink = NULL;
}

/* ---- the neighbour ---- */

struct neighbour {
	uint8_t *mac;
	bool usable, found;
};

static int take_neighbour_attribute(const struct nlattr *attribute, void *context)
{
	struct neighbour *neighbour = context;

	if (mnl_attr_get_type(attribute) != NDA_LLADDR ||
	    mnl_attr_get_payload_len(attribute) != SML_MAC_BYTES)
		return MNL_CB_OK;
	memcpy(neighbour->mac, mnl_attr_get_payload(attribute), SML_MAC_BYTES);
	neighbour->found = true;
	return MNL_CB_OK;
}

static int take_neighbour(const struct nlmsghdr *message, void *context)
{
	const struct ndmsg *about = mnl_nlmsg_get_payload(message);
	struct neighbour *neighbour = context;

	if (message->nlmsg_type != RTM_NEWNEIGH)
		return MNL_CB_OK;
	neighbour->usable = about->ndm_state & NUD_USABLE;
	return mnl_attr_parse(message, sizeof(*about), take_neighbour_attribute, neighbour);
}

bool sml_route_next_mac(struct sml_route *route, uint8_t mac[SML_MAC_BYTES])
{
	char buffer[256];
	struct neighbour neighbour = {.mac = mac};
	struct nlmsghdr *request = mnl_nlmsg_put_header(buffer);
	struct ndmsg *about;
	size_t bytes;
	const void *address = address_of(&route->next_hop, &bytes);

	request->nlmsg_type = RTM_GETNEIGH;
	request->nlmsg_flags = NLM_F_REQUEST;
	about = mnl_nlmsg_put_extra_header(request, sizeof(*about));
	about->ndm_family = (unsigned char)route->next_hop.any.sa_family;
	about->ndm_ifindex = route->ifindex;
	mnl_attr_put(request, NDA_DST, bytes, address);
	return ask(route, request, take_neighbour, &neighbour) == 0 && neighbour.usable &&
	       neighbour.found;
}
