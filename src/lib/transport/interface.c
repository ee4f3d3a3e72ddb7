/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/transport/interface.h"

#include <errno.h>
#include <ifaddrs.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/error.h"
#include "core/wire.h"
#include "switchml.h"

#define UDP_HEADER_BYTES  8
#define IPV4_HEADER_BYTES 20
#define IPV6_HEADER_BYTES 40
/* What every link of IPv6 takes: where nothing says more. */
#define LEAST_MTU 1280

bool sml_interface_matches(const char *filter, const char *name)
{
	bool exclude = *filter == '^';
	const char *item = filter + exclude;

	while (*item) {
		size_t length = strcspn(item, ",");

		if (length && strncmp(item, name, length) == 0)
			return !exclude;
		item += length;
		item += *item == ',';
	}
	return exclude;
}

static bool same_address(const union sml_sockaddr *a, const struct sockaddr *b)
{
	if (b == NULL || a->any.sa_family != b->sa_family)
		return false;
	if (b->sa_family == AF_INET)
		return a->v4.sin_addr.s_addr ==
		       ((const union sml_sockaddr *)(const void *)b)->v4.sin_addr.s_addr;
	return b->sa_family == AF_INET6 &&
	       memcmp(&a->v6.sin6_addr,
		      &((const union sml_sockaddr *)(const void *)b)->v6.sin6_addr,
		      sizeof(a->v6.sin6_addr)) == 0;
}

static const struct ifaddrs *find_address(const struct ifaddrs *all,
					  const union sml_sockaddr *address)
{
	for (; all; all = all->ifa_next)
		if (same_address(address, all->ifa_addr))
			return all;
	return NULL;
}

static void set_source(struct sml_interface *interface, const struct sockaddr *address)
{
	memcpy(&interface->source, address,
	       address->sa_family == AF_INET6 ? sizeof(interface->source.v6)
					      : sizeof(interface->source.v4));
	sml_sockaddr_set_port(&interface->source, 0);
}

/* The first interface that is up, has an address of the peer's family and passes. */
static int choose_by_name(struct sml_interface *interface, const char *filter,
			  const union sml_sockaddr *peer, const struct ifaddrs *all)
{
	char seen[256] = "";
	size_t length = 0;

	for (const struct ifaddrs *next = all; next; next = next->ifa_next) {
		if (!next->ifa_addr || !(next->ifa_flags & IFF_UP) ||
		    next->ifa_addr->sa_family != peer->any.sa_family)
			continue;
		if (sml_interface_matches(filter, next->ifa_name)) {
			snprintf(interface->name, sizeof(interface->name), "%s", next->ifa_name);
			set_source(interface, next->ifa_addr);
			interface->bound = true;
			/* What goes to this very host comes back by the loopback device. */
			interface->to_device =
				!sml_sockaddr_is_loopback(peer) && !find_address(all, peer);
			return 0;
		}
		if (length < sizeof(seen))
			length += (size_t)snprintf(seen + length, sizeof(seen) - length, " %s",
						   next->ifa_name);
	}
	return sml_error_set(
		SML_ERROR_CONFIG,
		"no interface with an %s address matches SWITCHML_SOCKET_IFNAME=\"%s\": "
		"there are%s",
		peer->any.sa_family == AF_INET6 ? "IPv6" : "IPv4", filter, length ? seen : " none");
}

int sml_interface_bind(const struct sml_interface *interface, const struct sml_port_range *ports,
		       int fd)
{
	const union sml_sockaddr all = {.any.sa_family = interface->source.any.sa_family};
	const char *name = interface->name;

	/* Without a range, the kernel chooses the port, and the address by the route. */
	if (!interface->bound)
		return sml_port_range_is_set(ports) ? sml_port_range_bind(ports, &all, fd) : 0;
	/* Old kernels keep it for root; the source address does most of it. */
	if (interface->to_device)
		(void)setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, name, (socklen_t)strlen(name));
	return sml_port_range_bind(ports, &interface->source, fd);
}

/* A connected UDP socket knows its source address and the route's MTU, and sends nothing. */
static int query_route(struct sml_interface *interface, const union sml_sockaddr *peer)
{
	const struct sml_port_range any = {0};
	bool v6 = peer->any.sa_family == AF_INET6;
	int fd = socket(peer->any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	socklen_t length = sizeof(interface->source);
	int error, mtu = 0;

	if (fd < 0)
		return -errno;
	error = sml_interface_bind(interface, &any, fd);
	if (error)
		goto err_close;
	if (connect(fd, &peer->any, sml_sockaddr_length(peer)) < 0 ||
	    getsockname(fd, &interface->source.any, &length) < 0) {
		error = -errno;
		goto err_close;
	}
	sml_sockaddr_set_port(&interface->source, 0);
	length = sizeof(mtu);
	/* Emulated kernels (gVisor, qemu-user) lack the option: then the device's MTU must do. */
	if (getsockopt(fd, v6 ? IPPROTO_IPV6 : IPPROTO_IP, v6 ? IPV6_MTU : IP_MTU, &mtu, &length) <
		    0 &&
	    errno != ENOPROTOOPT)
		error = -errno;
	interface->mtu = (uint32_t)mtu;

err_close:
	close(fd);
	return error;
}

/*
 * The route's MTU is less than the device's where ICMP has said so, and that may have been a
 * lie. Where it was none, the probes find it out.
 */
static void believe_device(struct sml_interface *interface)
{
	struct ifreq request = {0};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return;
	memcpy(request.ifr_name, interface->name, sizeof(interface->name));
	if (ioctl(fd, SIOCGIFMTU, &request) == 0 && request.ifr_mtu > (int)interface->mtu)
		interface->mtu = (uint32_t)request.ifr_mtu;
	close(fd);
}

/* In Mbit/s; 0: it has none, as the loopback, or its driver does not know. */
static uint32_t link_speed(const char *name)
{
	char path[64];
	long speed = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/sys/class/net/%s/speed", name);
	file = fopen(path, "re");
	if (file == NULL)
		return 0;
	/* NOLINTNEXTLINE(cert-err34-c): a number that is too large is none that we can use. */
	if (fscanf(file, "%ld", &speed) != 1 || speed < 0 || speed > UINT32_MAX)
		speed = 0;
	fclose(file);
	return (uint32_t)speed;
}

int sml_interface_choose(struct sml_interface *interface, const char *filter,
			 const union sml_sockaddr *peer, const char *peer_name)
{
	const struct ifaddrs *found;
	struct ifaddrs *all;
	int error = 0;

	*interface = (struct sml_interface){.name = "?"};
	if (getifaddrs(&all) < 0)
		return sml_error_set(-errno, "the interfaces cannot be listed: %s",
				     strerrordesc_np(errno));
	if (filter)
		error = choose_by_name(interface, filter, peer, all);
	if (error)
		goto err_free;
	error = query_route(interface, peer);
	if (error) {
		sml_error_set(error,
			      "there is no route to %s%s%s: %s. Check the address, the network and "
			      "SWITCHML_SOCKET_IFNAME",
			      peer_name, filter ? " from interface " : "",
			      filter ? interface->name : "", strerrordesc_np(-error));
		goto err_free;
	}
	found = find_address(all, &interface->source);
	if (found && !filter)
		snprintf(interface->name, sizeof(interface->name), "%s", found->ifa_name);
	interface->link_mbits = link_speed(interface->name);
	/* An address that no device has may be on the loopback, whose MTU is not the path's. */
	if (found && (interface->mtu == 0 || !(found->ifa_flags & IFF_LOOPBACK)))
		believe_device(interface);
	if (interface->mtu == 0)
		interface->mtu = LEAST_MTU;

err_free:
	freeifaddrs(all);
	return error;
}

uint16_t sml_lanes_of_mtu(uint32_t mtu, int family)
{
	static const uint16_t counts[] = SML_LANE_COUNTS;
	uint32_t headers = SML_HEADER_BYTES + UDP_HEADER_BYTES +
			   (family == AF_INET6 ? IPV6_HEADER_BYTES : IPV4_HEADER_BYTES);
	uint16_t best = 0;

	for (size_t i = 0; counts[i]; i++)
		if (headers + 4u * counts[i] <= mtu)
			best = counts[i];
	return best;
}
