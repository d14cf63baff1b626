# Functions of a job's script. Output, exit status, start and end (clock in nanoseconds) of each
# command are files in a folder of its own below OUT.
# shellcheck shell=sh

OUT=${OUT:-/out}

# Runs a command of the set-up, which must succeed.
run_checked() {
    "$@" >/run/output 2>&1 && return
    { echo "$*"; cat /run/output; } >"$OUT/steps/failed"
    echo "job: set-up failed: $*"
    cat /run/output
    exit 1
}

# HOST DEVICE: waits until the kernel reports a link up, which it checks once a second. Until then a
# bridge's port does not forward.
await_link() {
    tries=0
    until ip -n "$1" link show dev "$2" | grep -q 'state UP'; do
        tries=$((tries + 1))
        [ $tries -lt 100 ] || run_checked false "$1 $2 did not come up within 5 s"
        sleep 0.05
    done
}

# NAME HOST DEADLINE ARGV...: runs a command to its end.
run() {
    dir=$OUT/steps/$1 host=$2 deadline=$3
    shift 3
    mkdir "$dir"
    date +%s%N >"$dir/began"
    nsenter --net="/run/netns/$host" -- timeout --kill-after=2 "$deadline" "$@" \
        </dev/null >"$dir/stdout" 2>"$dir/stderr"
    echo $? >"$dir/status"
    date +%s%N >"$dir/ended"
}

# NAME HOST DEADLINE ARGV...: starts a command without waiting.
start() {
    name=$1 dir=$OUT/steps/$1 host=$2 deadline=$3
    shift 3
    mkdir "$dir"
    date +%s%N >"$dir/began"
    {
        nsenter --net="/run/netns/$host" -- timeout --kill-after=2 "$deadline" "$@" \
            </dev/null >"$dir/stdout" 2>"$dir/stderr" &
        echo $! >"/run/$name.pid"
        wait $!
        echo $? >"$dir/status"
        date +%s%N >"$dir/ended"
    } &
}

# NAME LINE: waits until a started command has printed a line or ended.
await_line() {
    until grep -q -x -F -e "$2" "$OUT/steps/$1/stdout" 2>/dev/null; do
        [ ! -s "$OUT/steps/$1/ended" ] || return 0
        sleep 0.01
    done
}

# NAME: terminates a started command and waits for its end.
stop() {
    until [ -s "/run/$1.pid" ]; do sleep 0.01; done
    # It may have ended already.
    kill -TERM "$(cat "/run/$1.pid")" 2>/dev/null
    until [ -s "$OUT/steps/$1/ended" ]; do sleep 0.01; done
}

# NUMBER PATH: collects a file, if it exists.
collect() {
    if [ -f "$2" ]; then cat "$2" >"$OUT/files/$1"; fi
}
