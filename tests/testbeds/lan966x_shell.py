"""A stand-in for the shell of a LAN966x board, run as ``lan966x_shell.py COMMAND ARGUMENTS``.

It keeps what the board's chip would keep in a file, and lets our eBPF data plane do to frames what
the chip would do: only when bridge, VLANs, rules, flows and streams together say so. What it
refuses, and with which exit status, follows the sources of Microchip's qos-utils and their BSP
documentation; of ``ip``, ``bridge`` and ``ethtool`` it is only what a kernel without VLANs lacks.
"""

import fcntl
import json
import os
import re
import subprocess
import sys

STATE = "/run/lan966x.json"
BOARD = "/run/lan966x-board.json"
SYSTEM = "/usr/sbin:/usr/bin:/sbin:/bin"
MOST_FLOWS, MOST_COMPOUND = 256, 64
KEYS = {"IF_IGR_PORT_MASK", "L3_IP_PROTO", "IP_PAYLOAD_5TUPLE", "8021CB_R_TAGGED_IS"}
KEYSETS = {
    "VCAP_KFS_NORMAL": {"IF_IGR_PORT_MASK", "8021CB_R_TAGGED_IS"},
    "VCAP_KFS_5TUPLE_IP4": KEYS,
}
ACTIONS = {"ISDX_REPLACE_ENA", "ISDX_ADD_VAL"}
FLOW = {"ms_enable": 0, "ms_id": 0, "generation": 0, "pop": 0, "dev1": "-", "dev2": "-"}
STREAM = {"enable": 0, "alg": 0, "hlen": 0, "reset_time": 0, "take_no_seq": 0}
NAMES = ("OutOfOrder", "Rogue", "Passed", "Discarded", "Lost", "Tagless")
EMPTY = {
    **{"bridges": {}, "masters": {}, "vlans": {}, "flooding": {}, "flows": {}},
    **{"cs": {}, "ms": {}, "rules": {}, "cleared": {}, "applied": None},
}


def system(*argv, check=True):
    environment = {**os.environ, "PATH": SYSTEM}
    done = subprocess.run(argv, capture_output=True, text=True, env=environment, check=False)
    if check and done.returncode:
        sys.exit(f"stand-in: {' '.join(argv)}: {done.stderr.strip()}")
    return done.stdout


def run_instead(argv):
    os.environ["PATH"] = SYSTEM
    os.execvp(argv[0], argv)


def fail(text, status=1):
    print(text, file=sys.stderr)
    sys.exit(status)


def kernel_refuses():
    """As qos-utils where a setting could not be read: the message, and exit status 0."""
    print("nl_recvmsgs_default() failed, rc: -7 (Invalid input data or parameter)")
    sys.exit(0)


def devices():
    return os.listdir("/sys/class/net")


# --- what the chip does to frames --------------------------------------------------


def rules_of(state, chip_port):
    """Return the rules of a port by the traffic they meet: of two, the one of lower priority."""
    found = {}
    for rule in sorted(state["rules"].values(), key=lambda r: -r["priority"]):
        keys = rule["keys"]
        if keys.get("IF_IGR_PORT_MASK", [0, 0])[0] != 1 << chip_port:
            continue
        if "IP_PAYLOAD_5TUPLE" in keys:
            found["stream"] = rule
        else:
            found["ipv4" if rule["keyset"] == "VCAP_KFS_5TUPLE_IP4" else "rest"] = rule
    return found


def flows_of(state, chip_port):
    """Return the flows of a port by traffic, None unless every frame has one."""
    rules = rules_of(state, chip_port)
    if set(rules) != {"stream", "ipv4", "rest"}:
        return None
    return {t: state["flows"].get(str(rule["isdx"]), dict(FLOW)) for t, rule in rules.items()}


def same(values):
    values = list(values)
    return values[0] if values and all(v == values[0] for v in values) else None


def wanted(state, board):
    """Return the eBPF switch that does what the chip would, None where it would pass nothing."""
    flows = {
        dev: flows_of(state, chip) for chip, dev in board["ports"].items() for chip in [int(chip)]
    }
    if not all(flows.values()):
        return None
    out = {dev: same((f["dev1"], f["dev2"]) for f in of.values()) for dev, of in flows.items()}
    # On a path to another board frames have the VLAN's tag, on any other they have none.
    tagged = {dev for dev in out if not untagged(state, dev)}
    if not all(out.values()) or len(tagged) != (len(out) - 1 if board["trunk"] else 0):
        return None
    towards = [o[0] for o in out.values()]
    host = max(set(towards), key=towards.count)
    members = [dev for dev in out if dev != host]
    if any(out[m] != (host, "-") for m in members) or not in_vlan(state, [host, *members]):
        return None
    generation = same(f["generation"] for f in flows[host].values())
    if generation is None:
        return None
    streams = [recovery_of(state, host, f) for m in members for f in flows[m].values()]
    if generation and (None in streams or "-" in out[host]):
        return None  # tagged frames that nothing takes the tag off
    first = [dev for dev in out[host] if dev != "-"]
    order = first + [m for m in members if m not in first]
    rule = rules_of(state, next(int(c) for c, d in board["ports"].items() if d == host))["stream"]
    protocol = {17: "udp", 6: "tcp"}[rule["keys"]["L3_IP_PROTO"][0]]
    port = rule["keys"]["IP_PAYLOAD_5TUPLE"][0] & 0xFFFF
    return {
        **{"host": host, "members": order, "frer": bool(generation)},
        **{"stream": f"{protocol}:{port}", "recovery": streams[0] if generation else None},
    }


def in_vlan(state, ports):
    """Whether the ports are in one VLAN of one bridge that filters, and does not flood in it."""
    bridge = same(state["masters"].get(port) for port in ports)
    if not bridge or not state["bridges"].get(bridge, {}).get("filtering"):
        return False
    vlans = [{v["vlan"] for v in state["vlans"].get(port, [])} for port in ports]
    shared = set.intersection(*vlans)
    # A second VLAN on both member ports would be a loop.
    if any(len(v) != 1 for v in vlans) or not shared:
        return False
    return state["flooding"].get(str(shared.pop()), {}).get("flood_disable") == 1


def untagged(state, port):
    """Whether a port sends its VLAN's frames without tag, and takes frames without one into it."""
    return all(
        {"PVID", "Egress Untagged"} <= {*v.get("flags", [])} for v in state["vlans"].get(port, [])
    )


def recovery_of(state, host, flow):
    member = state["ms"].get(str(flow["ms_id"]))
    if not (flow["ms_enable"] and flow["pop"] and member and member["dev"] == host):
        return None
    compound = state["cs"].get(str(member["cs_id"]), dict(STREAM))
    return compound if member["enable"] and compound["enable"] else None


def apply(state, board):
    found = wanted(state, board)
    if found == state["applied"]:
        return
    for device in board["ports"].values():
        system("tc", "qdisc", "del", "dev", device, "clsact", check=False)
    if found:
        recovery = found["recovery"] or {**STREAM, "hlen": 2, "reset_time": 1}
        options = [
            *("--algorithm", "match" if recovery["alg"] else "vector"),
            *("--history", str(recovery["hlen"]), "--reset-ms", str(recovery["reset_time"])),
            *("--take-no-sequence", "on" if recovery["take_no_seq"] else "off"),
        ]
        frerctl, ports = board["frerctl"], ",".join([found["host"], *found["members"]])
        system(frerctl, "switch", ports, *options)
        on = "on" if found["frer"] else "off"
        stream = ["--stream", found["stream"], "--min-payload", "0"]
        system(frerctl, "set", found["host"], "--frer", on, *options, *stream)
    state["applied"] = found
    state["cleared"] = {}


# --- what the chip counts --------------------------------------------------


def counted(state, board):
    if not state["applied"]:
        return None
    return json.loads(system(board["frerctl"], "counters", state["applied"]["host"]))


def stream_counters(state, board, compound, member=None):
    names = dict.fromkeys([*(f"{name}Packets" for name in NAMES), "Resets"], 0)
    document = counted(state, board)
    if document is None or not state["applied"]["frer"]:
        return names

    def share(place):
        ours = place["stream_frames"]
        return ours if compound == 0 else place["frames"] - ours

    if member is not None:
        names["PassedPackets"] = share(document["ports"][member]["in"])
        return names
    names["PassedPackets"] = share(document["ports"][state["applied"]["host"]]["out"])
    places = {"Discarded": "eliminated", "Rogue": "rogue", "Tagless": "tagless"}
    names |= {f"{name}Packets": share(document[place]) for name, place in places.items()}
    recovery = document["recovery"]
    names["OutOfOrderPackets"] = recovery["out_of_order"]
    return names | {"LostPackets": recovery["lost"], "Resets": recovery["resets"]}


def since_cleared(state, of, counters):
    cleared = state["cleared"].get(of, {})
    return {name: value - cleared.get(name, 0) for name, value in counters.items()}


def hits(state, board, number):
    document, rule = counted(state, board), state["rules"][number]
    device = next(
        (
            d
            for c, d in board["ports"].items()
            if rule["keys"]["IF_IGR_PORT_MASK"][0] == 1 << int(c)
        ),
        None,
    )
    if document is None or device is None:
        return {"counter": 0}
    into = document["ports"][device]["in"]
    ours = "IP_PAYLOAD_5TUPLE" in rule["keys"]
    return {"counter": into["stream_frames"] if ours else into["frames"] - into["stream_frames"]}


# --- frer --------------------------------------------------


def frer(state, board, argv):
    usage = "Usage: frer cs|msa|msf|ms|iflow|vlan [options]"
    if not argv:
        print(usage)
        sys.exit(1)
    commands = {"cs": 1, "msa": 1, "msf": 1, "ms": 2, "iflow": 1, "vlan": 1}
    if argv[0] not in commands:
        print(f"Unknown command [{argv[0]}]", file=sys.stderr)
        print(usage)
        sys.exit(1)
    command, arguments = argv[0], argv[1:]
    if len(arguments) < commands[command]:
        fail("Missing argument!")
    {"cs": frer_cs, "msa": frer_msa, "msf": frer_msf, "ms": frer_ms}.get(
        command, frer_flow if command == "iflow" else frer_vlan
    )(state, board, arguments)


def number(text):
    """As atoi: what is not a number is 0."""
    found = re.match(r"\s*[+-]?\d+", text)
    return int(found[0]) if found else 0


def options(argv, known):
    given, words = {}, list(argv)
    while words:
        word = words.pop(0)
        name = word.removeprefix("--")
        if not word.startswith("--"):
            continue  # getopt moves what is no option to the end, where nobody looks
        if name not in known:
            print(f"frer: unrecognized option '{word}'", file=sys.stderr)
            print("cs:   usage")
            sys.exit(0)
        given[name] = words.pop(0) if known[name] else True
    return given


def show_or_set(now, given):
    """Set fields, or show them where nothing would change, as the tool does."""
    asked = {**now}
    for name, value in given.items():
        if name in ("dev1", "dev2"):
            if not value.startswith("-") and value not in devices():
                fail(f"{value}: No such device!")
            asked[name] = "-" if value.startswith("-") else value
        elif name in ("hlen", "reset_time", "ms_id", "cs_id"):
            asked[name] = number(value)
        else:
            asked[name] = int(bool(number(value)))
    if asked == now:
        for name, value in now.items():
            if name != "dev":
                print(f"{name + ':':<14} {value:>8}")
        return
    now.update(asked)


def show_counters(counters):
    for name, value in counters.items():
        print(f"{name:<18}: {value:>16}")


FIELDS = dict.fromkeys(STREAM, True) | {"cnt": False, "clr": False}


def count_or_set(state, of, now, given, counters):
    if given.get("cnt"):
        show_counters(since_cleared(state, of, counters()))
    elif given.get("clr"):
        state["cleared"][of] = counters()
    else:
        show_or_set(now, given)


def frer_cs(state, board, argv):
    key = number(argv[0])
    if not 0 <= key < MOST_COMPOUND:
        kernel_refuses()
    now = state["cs"].setdefault(str(key), dict(STREAM))
    given = options(argv[1:], FIELDS)
    count_or_set(state, f"cs{key}", now, given, lambda: stream_counters(state, board, key))


def frer_msa(state, board, argv):
    for device in argv[:2]:
        if device not in devices():
            fail(f"{device}: No such device!")
    key = next(n for n in range(28, 1024, 2) if str(n) not in state["ms"])
    state["ms"][str(key)] = {**STREAM, "cs_id": 0, "dev": argv[0]}
    print(key)


def frer_msf(state, board, argv):
    if state["ms"].pop(str(number(argv[0])), None) is None:
        print("nl_recvmsgs_default() failed, rc: -7 (Invalid input data or parameter)")
        sys.exit(249)


def frer_ms(state, board, argv):
    if argv[0] not in devices():
        fail(f"{argv[0]}: No such device!")
    now = state["ms"].get(str(number(argv[1])))
    if now is None or now["dev"] != argv[0]:
        kernel_refuses()
    given = options(argv[2:], FIELDS | {"cs_id": True})

    def counters():
        of = number(argv[1])
        isdx = next((i for i, f in state["flows"].items() if f["ms_id"] == of), None)
        rule = next((r for r in state["rules"].values() if str(r["isdx"]) == isdx), None)
        ports = board["ports"].items()
        member = rule and next(
            d for c, d in ports if rule["keys"]["IF_IGR_PORT_MASK"][0] == 1 << int(c)
        )
        return stream_counters(state, board, now["cs_id"], member or argv[0])

    count_or_set(state, f"ms{argv[1]}", now, given, counters)


def frer_flow(state, board, argv):
    key = number(argv[0])
    if not 0 <= key < MOST_FLOWS:
        kernel_refuses()
    known = dict.fromkeys(FLOW, True)
    show_or_set(state["flows"].setdefault(str(key), dict(FLOW)), options(argv[1:], known))


def frer_vlan(state, board, argv):
    key = number(argv[0])
    if not 0 <= key < 4096:
        kernel_refuses()
    now = state["flooding"].setdefault(str(key), {"flood_disable": 0, "learn_disable": 0})
    show_or_set(now, options(argv[1:], dict.fromkeys(now, True)))


# --- vcap --------------------------------------------------


VCAP_HELP = """\
Usage:
        vcap [options] [command] [arguments]
Command:
        add     RULE_ID                         Add a new rule with id, keys and actions
        del     RULE_ID                         Delete an existing
        get     RULE_ID                         Get and display an existing rule
        reset   RULE_ID                         Reset the counter of an existing rule
"""


def vcap(state, board, argv):
    if argv == ["-h"]:
        print(VCAP_HELP)
        return
    if len(argv) < 2 or argv[0] not in ("add", "del", "get", "reset") or not argv[1].isdigit():
        fail("Usage: vcap [options] [command] [arguments]", 2)
    command, key = argv[0], argv[1]
    if command == "add":
        vcap_add(state, key, argv[2:])
        return
    if key not in state["rules"]:
        fail(f"Could not find rule {key}: No such file or directory")
    if command == "del":
        del state["rules"][key]
    elif command == "reset":
        state["cleared"][f"rule{key}"] = hits(state, board, key)
    else:
        rule = state["rules"][key]
        found = since_cleared(state, f"rule{key}", hits(state, board, key))
        print(f"rule: {key}\nvcap: is1\npriority: {rule['priority']}\nkeyset: {rule['keyset']}")
        print(f"counter: {found['counter']}\nhit: {int(found['counter'] > 0)}")


def vcap_add(state, key, words):
    if key in state["rules"]:
        fail(f"Could not add rule {key}: File exists")
    if len(words) < 4 or words[0] != "is1" or not (words[1] + words[2]).isdigit():
        fail(f"Invalid arguments: {' '.join(words)}", 2)
    keyset = words[3]
    if keyset not in KEYSETS:
        fail(f"Unknown keyset: {keyset}", 2)
    rest, keys = words[4:], {}
    while rest and not rest[0].startswith("VCAP_AFS_"):
        name, value, mask, *rest = rest
        if name not in KEYSETS[keyset]:
            fail(f"Unknown key: {name}", 2)
        keys[name] = [int(value, 0), int(mask, 0)]
    if not rest or rest[0] != "VCAP_AFS_S1":
        fail("Missing or unknown actionset", 2)
    actions = dict(zip(rest[1::2], rest[2::2], strict=True))
    if not set(actions) <= ACTIONS:
        fail(f"Unknown action: {sorted(set(actions) - ACTIONS)}", 2)
    isdx = int(actions["ISDX_ADD_VAL"]) if actions.get("ISDX_REPLACE_ENA") == "1" else 0
    rule = {"priority": int(words[1]), "keyset": keyset, "keys": keys, "isdx": isdx}
    state["rules"][key] = rule


# --- ip, bridge, ethtool: what a kernel without VLANs lacks ---


def ip(state, board, argv):
    if argv[:4] == ["-j", "-d", "link", "show"]:
        show_links(state, argv[-1])
        return
    plain = [word for word in argv if word not in ("dev", "name")]
    if plain[:2] == ["link", "add"] and plain[-2:] == ["type", "bridge"]:
        if plain[2] in state["bridges"]:
            fail("RTNETLINK answers: File exists", 2)
        state["bridges"][plain[2]] = {"filtering": 0, "up": 0}
    elif plain[:2] == ["link", "set"] and plain[2] in state["bridges"]:
        bridge = state["bridges"][plain[2]]
        if plain[3:5] == ["type", "bridge"]:
            bridge["filtering"] = int(plain[plain.index("vlan_filtering") + 1])
        else:
            bridge["up"] = int(plain[3] == "up")
    elif plain[:2] == ["link", "del"] and plain[2] in state["bridges"]:
        del state["bridges"][plain[2]]
        for port in [p for p, master in state["masters"].items() if master == plain[2]]:
            leave_bridge(state, port)
    elif plain[:2] == ["link", "set"] and plain[3:4] == ["master"]:
        if plain[4] not in state["bridges"] or plain[2] not in devices():
            fail("Error: argument is wrong: Device does not exist", 1)
        state["masters"][plain[2]] = plain[4]
        state["vlans"][plain[2]] = [{"vlan": 1, "flags": ["PVID", "Egress Untagged"]}]
    elif plain[:2] == ["link", "set"] and plain[3:4] == ["nomaster"]:
        leave_bridge(state, plain[2])
    else:
        run_instead(["ip", *argv])


def leave_bridge(state, port):
    state["masters"].pop(port, None)
    state["vlans"].pop(port, None)


def show_links(state, device):
    links = json.loads(system("ip", "-j", "-d", "link", "show"))
    for link in links:
        if master := state["masters"].get(link["ifname"]):
            link["master"] = master
    for index, (name, bridge) in enumerate(state["bridges"].items()):
        data = {"info_kind": "bridge", "info_data": {"vlan_filtering": bridge["filtering"]}}
        flags = ["BROADCAST", "MULTICAST", *(["UP"] if bridge["up"] else [])]
        links.append({"ifindex": 900 + index, "ifname": name, "flags": flags, "mtu": 1500})
        links[-1]["linkinfo"] = data
    links = [link for link in links if link["ifname"] == device]
    if not links:
        fail(f'Device "{device}" does not exist.', 1)
    print(json.dumps(links))


def bridge(state, board, argv):
    if argv == ["-j", "vlan", "show"]:
        print(json.dumps([{"ifname": n, "vlans": v} for n, v in state["vlans"].items()]))
        return
    if (
        argv[:1] != ["vlan"]
        or argv[1] not in ("add", "del")
        or argv[2] != "dev"
        or argv[4] != "vid"
    ):
        fail(f'Command "{" ".join(argv)}" is unknown, try "bridge help".', 255)
    port, vid, flags = argv[3], int(argv[5]), argv[6:]
    if port not in state["masters"]:
        fail("RTNETLINK answers: Operation not supported", 255)
    entries = state["vlans"].setdefault(port, [])
    if argv[1] == "del":
        if vid not in [entry["vlan"] for entry in entries]:
            fail("RTNETLINK answers: No such file or directory", 255)
        entries[:] = [entry for entry in entries if entry["vlan"] != vid]
        return
    names = {"pvid": "PVID", "untagged": "Egress Untagged"}
    entries[:] = [entry for entry in entries if entry["vlan"] != vid]
    entries.append({"vlan": vid, **({"flags": [names[f] for f in flags]} if flags else {})})


def ethtool(state, board, argv):
    if argv[:1] != ["-S"]:
        run_instead(["ethtool", *argv])
    if argv[1] not in board["ports"].values():
        run_instead(["ethtool", *argv])
    queues = json.loads(system("tc", "-s", "-j", "qdisc", "show", "dev", argv[1], "root") or "[]")
    dropped = sum(queue["drops"] for queue in queues if queue["kind"] != "clsact")
    print("NIC statistics:")
    for name in ("rx_packets", "tx_packets"):
        with open(f"/sys/class/net/{argv[1]}/statistics/{name}", encoding="ascii") as file:
            print(f"     {name.replace('packets', 'unicast')}: {file.read().strip()}")
    print(f"     dr_local: 0\n     dr_tail: {dropped}")


def main():
    command, argv = sys.argv[1], sys.argv[2:]
    with open(STATE, "a+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        state = json.loads(file.read() or json.dumps(EMPTY))
        with open(BOARD, encoding="utf-8") as described:
            board = json.load(described)
        status = 0
        try:
            globals()[command](state, board, argv)
        except SystemExit as ended:
            status = ended.code
        apply(state, board)
        file.seek(0)
        file.truncate()
        file.write(json.dumps(state))
    sys.exit(status)


if __name__ == "__main__":
    main()
