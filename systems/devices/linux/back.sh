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

# What office asked for over HTTP is a file that the web server's program left.
until [ -e /tmp/end ]; do
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
