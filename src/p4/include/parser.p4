/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The parser of all targets, from Ethernet to the lanes. A frame that is not a UDP datagram with our
 * magic and version keeps its rest as payload. So does a contribution whose lengths are wrong: then
 * sml is valid and lanes is not. No state selects on more than 32 bits, the most that hardware can.
 *
 * With HEADERS_ONLY, this file defines HeadersParser instead, for which the lanes are payload. A
 * target can define NOTE_UDP and NOTE_SML, statements after these headers, and what they need; and
 * PARSED as inout, if it has headers before the frame.
 */
#ifdef HEADERS_ONLY
#define NAME_OF_PARSER HeadersParser
#else
#define NAME_OF_PARSER FrameParser
#endif
#ifndef PARSED
#define PARSED out
#endif
#ifndef NOTE_UDP
#define NOTE_PARAMETERS
#define NOTE_DECLARATIONS
#define NOTE_UDP
#define NOTE_SML
#endif

parser NAME_OF_PARSER(packet_in packet, PARSED headers_t hdr NOTE_PARAMETERS) {
    NOTE_DECLARATIONS

    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            TYPE_VLAN: parse_vlan;
            TYPE_IPV4: parse_ipv4;
            TYPE_IPV6: parse_ipv6;
            default: accept;
        }
    }

    state parse_vlan {
        packet.extract(hdr.vlan);
        transition select(hdr.vlan.type) {
            TYPE_IPV4: parse_ipv4;
            TYPE_IPV6: parse_ipv6;
            default: accept;
        }
    }

    // Without options, and not a fragment.
    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        transition select(hdr.ipv4.version_ihl, hdr.ipv4.fragment, hdr.ipv4.protocol) {
            (0x45, 0x0000 &&& 0x3fff, PROTOCOL_UDP): parse_udp;
            default: accept;
        }
    }

    state parse_ipv6 {
        packet.extract(hdr.ipv6);
        transition select(hdr.ipv6.next_header) {
            PROTOCOL_UDP: parse_udp;
            default: accept;
        }
    }

    // Fewer payload bytes than our header cannot be ours, and must not be looked into.
    state parse_udp {
        packet.extract(hdr.udp);
        NOTE_UDP
        transition select(hdr.udp.length) {
            0 &&& 0xffe0: accept;      // below 32
            32 &&& 0xfff0: accept;     // 32 to 47: below UDP's header and ours
            UDP_BYTES + SML_HEADER_BYTES + 4 * SML_LANES: look_for_full_packet;
#ifdef SML_ROUNDS_INT8
            INT8_DATAGRAM_BYTES: look_for_rounded;
#endif
#ifdef SML_ROUNDS_INT16
            INT16_DATAGRAM_BYTES: look_for_rounded;
#endif
            default: look_for_magic;
        }
    }

    state look_for_magic {
        transition select(packet.lookahead<bit<24>>()) {
            SML_WIRE_MAGIC ++ SML_WIRE_VERSION: parse_sml;
            default: accept;
        }
    }

    state parse_sml {
        packet.extract(hdr.sml);
        NOTE_SML
        transition accept;
    }

    state look_for_full_packet {
        transition select(packet.lookahead<bit<24>>()) {
            SML_WIRE_MAGIC ++ SML_WIRE_VERSION: parse_full_packet;
            default: accept;
        }
    }

    state parse_full_packet {
        packet.extract(hdr.sml);
        NOTE_SML
#ifdef HEADERS_ONLY
        transition accept;
    }
#else
        transition select(hdr.sml.kind, hdr.sml.lanes) {
            (SML_PACKET_CONTRIBUTION, SML_LANES): parse_lanes;
            default: accept;
        }
    }

    state parse_lanes {
        packet.extract(hdr.lanes);
        transition accept;
    }
#endif

#ifdef SML_ROUNDS_INT8
    // Full packets of lanes that are rounded have lengths of their own, which differ in the low byte.
    state look_for_rounded {
        transition select(packet.lookahead<bit<24>>()) {
            SML_WIRE_MAGIC ++ SML_WIRE_VERSION: parse_rounded;
            default: accept;
        }
    }

    state parse_rounded {
        packet.extract(hdr.sml);
        transition select(hdr.sml.kind, hdr.sml.lanes, hdr.udp.length[7:0]) {
            (SML_PACKET_CONTRIBUTION, SML_INT8_LANES, (bit<8>)INT8_DATAGRAM_BYTES): parse_int8;
#ifdef SML_ROUNDS_INT16
            (SML_PACKET_CONTRIBUTION, SML_INT16_LANES, (bit<8>)INT16_DATAGRAM_BYTES): parse_int16;
#endif
            default: accept;
        }
    }

    state parse_int8 {
        packet.extract(hdr.int8);
        transition accept;
    }
#endif
#ifdef SML_ROUNDS_INT16

    state parse_int16 {
        packet.extract(hdr.int16);
        transition accept;
    }
#endif
}

#undef NAME_OF_PARSER
#undef NOTE_PARAMETERS
#undef NOTE_DECLARATIONS
#undef NOTE_UDP
#undef NOTE_SML
