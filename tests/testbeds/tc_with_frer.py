"""A stand-in for a tc whose kernel has the action ``frer``: ``tc_with_frer.py FRERCTL ARGUMENTS``.

What is about other actions goes to the system's tc. Rules with ``frer`` are kept in a file, and let
our eBPF data plane do to frames what such a kernel would do: only when numbering, copies, recovery
and redirections together say so. What it refuses follows the patch series of June 2026 (histories
of 1 to 32, an index that is taken, a recovery function that nobody made), and so do the counters.
"""

import fcntl
import json
import os
import subprocess
import sys

STATE = "/run/tc-frer.json"
SYSTEM = "/usr/sbin:/usr/bin:/sbin:/bin"
COUNTERS = ("passed", "discarded", "out_of_order", "rogue", "lost", "tagless", "resets")


def run(*argv):
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"stand-in: {' '.join(argv)}: {done.stderr.strip()}")
    return done.stdout


def system_tc(argv):
    os.environ["PATH"] = SYSTEM
    os.execvp("tc", ["tc", *argv])


def actions_of(words):
    """Return the actions of a rule, each its words."""
    found = []
    for word in words:
        if word == "action":
            found.append([])
        elif found:
            found[-1].append(word)
    return found


def options(words):
    """Return the options of ``frer push`` or ``frer recover``."""
    found, rest = {}, list(words)
    while rest:
        name = rest.pop(0)
        if name == "tag-pop":
            found[name] = True
        elif name in ("index", "history-length", "reset-time", "alg"):
            found[name] = rest.pop(0) if name == "alg" else int(rest.pop(0))
        else:
            sys.exit(f'What is "{name}"?')
    if not 1 <= found.get("history-length", 1) <= 32:
        sys.exit("Error: integer out of range.")
    if found.get("alg", "vector") not in ("vector", "match"):
        sys.exit(f'frer: bad alg "{found["alg"]}"')
    return found


def made(state, function, words):
    """Make an action, or take the one of its index that is there."""
    asked = options(words)
    index = str(asked["index"])
    there = state["actions"].get(index)
    if there is None:
        if function == "recover" and "tag-pop" not in asked:
            sys.exit("stand-in: a recovery function that leaves the tag is not the driver's")
        state["actions"][index] = {"function": function, **asked}
    elif there["function"] != function or set(asked) != {"index"}:
        sys.exit("RTNETLINK answers: File exists")


def add(state, device, rule, words):
    for action in actions_of(words):
        if action[0] == "frer":
            made(state, action[1], action[2:])
    key = f"{device} {rule}"
    if key in state["rules"]:
        sys.exit("RTNETLINK answers: File exists")
    state["rules"][key] = words


def delete(state, device, rule):
    if state["rules"].pop(f"{device} {rule}", None) is None:
        sys.exit("Error: Cannot find specified filter chain.")
    named = {w for words in state["rules"].values() for w in words}
    state["actions"] = {i: a for i, a in state["actions"].items() if i in named}


def wanted(state):
    """Return the eBPF switch that does what the rules say, None where they are not all there."""
    numbering, recovering = {}, {}
    for key, words in state["rules"].items():
        device, rule = key.split()
        actions = actions_of(words)
        (numbering if actions[0][1] == "push" else recovering)[device, rule] = actions
    hosts = {device for device, _ in numbering}
    if len(hosts) != 1 or {rule for _, rule in numbering} != {"10", "20"}:
        return None
    (host,) = hosts
    members = members_of(numbering)
    if not members or not recovers(recovering, members, host):
        return None
    words = state["rules"][f"{host} 10"]
    port = words[words.index("0xffff") - 1]
    protocol = {"17": "udp", "6": "tcp"}[words[words.index("0xff") - 1]]
    index = recovering[members[0], "10"][0][-1]
    recovery = state["actions"][index]
    return {"host": host, "members": members, "stream": f"{protocol}:{port}", "recovery": recovery}


def members_of(numbering):
    """Return the ports that both rules send over, the first behind the redirection."""
    chains = [actions[1:] for actions in numbering.values()]
    *mirrors, redirect = chains[0]
    if chains[0] != chains[1] or redirect[:4] != ["mirred", "egress", "redirect", "dev"]:
        return []
    return [redirect[4], *(mirror[4] for mirror in mirrors if mirror[2] == "mirror")]


def recovers(recovering, members, host):
    """Tell whether all ports share a recovery function a rule, and lead to the host's."""
    rules = ("10", "20")
    if {(member, rule) for member in members for rule in rules} != set(recovering):
        return False
    back = ["mirred", "egress", "redirect", "dev", host]
    if any(actions[1:] != [back] for actions in recovering.values()):
        return False
    shared = [{a[0][-1] for (_, r), a in recovering.items() if r == rule} for rule in rules]
    return all(len(indices) == 1 for indices in shared) and shared[0] != shared[1]


def apply(state, frerctl):
    before, now = state["applied"], wanted(state)
    if now == before:
        return
    if before is not None:
        for device in (before["host"], *before["members"]):
            delete_hook = ["tc", "filter", "del", "dev", device, "ingress", "pref", "10"]
            subprocess.run(delete_hook, env={"PATH": SYSTEM}, capture_output=True, check=False)
    state["applied"] = now
    if now is None:
        return
    recovery = now["recovery"]
    variables = ["--algorithm", recovery["alg"], "--history", str(recovery["history-length"])]
    variables += ["--reset-ms", str(recovery["reset-time"]), "--take-no-sequence", "off"]
    run(frerctl, "switch", ",".join([now["host"], *now["members"]]), *variables)
    stream = ["--stream", now["stream"], "--min-payload", "0"]
    individual = ["--individual", "off"]
    run(frerctl, "set", now["host"], "--frer", "on", *variables, *individual, *stream)


def shown(state, frerctl, index):
    action = state["actions"].get(index)
    if action is None:
        sys.exit("Error: TC action with specified index not found.")
    counted = json.loads(run(frerctl, "counters", state["applied"]["host"]))
    of = {name: counted["recovery"][name] for name in COUNTERS}
    # The action of the stream's rule sees the stream alone.
    of |= {place: counted[place]["stream_frames"] for place in ("rogue", "tagless")}
    of["discarded"] = counted["eliminated"]["stream_frames"] + of["rogue"] + of["tagless"]
    print(f"total acts 1\n\n\taction order 0: frer recover rtag pop\n\t index {index} ref 3 bind 2")
    print("\t " + " ".join(f"{name.replace('_', '-')}={of[name]}" for name in COUNTERS))


def main(frerctl, *argv):
    words = list(argv)
    with open(STATE, "a+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        state = json.loads(file.read() or '{"rules": {}, "actions": {}, "applied": null}')
        device = words[words.index("dev") + 1] if "dev" in words else ""
        rule = words[words.index("pref") + 1] if "pref" in words else ""
        if words[:2] == ["filter", "add"] and "frer" in words:
            add(state, device, rule, words[8:])
        elif words[:2] == ["filter", "del"] and f"{device} {rule}" in state["rules"]:
            delete(state, device, rule)
        elif words[:3] == ["qdisc", "del", "dev"] and "clsact" in words:
            for key in [k for k in state["rules"] if k.split()[0] == device]:
                delete(state, *key.split())
        elif words[:4] == ["actions", "replace", "action", "frer"]:
            if str(options(words[5:])["index"]) not in state["actions"]:
                sys.exit("stand-in: the driver replaces what it has made")
            run(frerctl, "reset", state["applied"]["host"])
            return
        elif words[:5] == ["-s", "actions", "get", "action", "frer"]:
            shown(state, frerctl, words[6])
            return
        else:
            fcntl.flock(file, fcntl.LOCK_UN)
            system_tc(words)
        apply(state, frerctl)
        file.truncate(0)
        file.write(json.dumps(state))
    if words[:3] == ["qdisc", "del", "dev"]:
        system_tc(words)


main(*sys.argv[1:])
