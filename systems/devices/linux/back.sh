# What linux does, from its first program on: it serves office's devices until office says that it needs them no more. Lines that start with "linux:" are for the summary.
say() { echo "linux: $*"; }

serve_disk() {
    bulkheadctl serve office-disk /dev/vdb &
    echo $! >/tmp/server
}

serve_disk
bulkheadctl serve office-card --tap tap0 &
until [ -e /sys/class/net/tap0 ]; do sleep 0.1; done
ip address add 10.1.0.1/24 dev tap0
ip link set tap0 up
say "serves office"

# States of a connection to the web server in which the other side has not acknowledged all of the answer: established, its end is not
# acknowledged, closed by the other side, and its end is not acknowledged after that.
is_answering() { grep -qE ' [0-9A-F]+:0050 [0-9A-F]+:[0-9A-F]{4} (01|04|08|09) ' /proc/net/tcp /proc/net/tcp6 2>/dev/null; }

# What office asked for over HTTP is a file that the web server's program left. It is done when office has the answer: what is asked twice
# would be done twice.
until [ -e /tmp/end ]; do
    if is_answering; then
        sleep 0.1
        continue
    fi
    if [ -e /tmp/kill ]; then
        rm /tmp/kill
        kill -9 "$(cat /tmp/server)"
        say "killed the back end of office's disk"
        sleep 1
        serve_disk
    fi
    if [ -e /tmp/panic ]; then
        say "panics"
        echo 1 >/proc/sys/kernel/sysrq
        echo c >/proc/sysrq-trigger
    fi
    sleep 0.1
done
say "office has ended"
