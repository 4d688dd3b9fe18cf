#!/bin/bash
# net.sh BINARY MODEL [RATE...] [-- OPTION...]: serves MODEL over three "machines", network namespaces joined by links of each
# RATE (1gbit 10mbit), and prints what clients saw: speeds, what ranks take while idle, and what became of streams when a rank was
# killed or stopped. The OPTIONs are those of clients.py.
# As root. Not part of `make test`.
set -euo pipefail

binary=$(realpath "$1")
model=$2
shift 2
rates=()
while [[ $# -gt 0 && $1 != -- ]]; do
    rates+=("$1")
    shift
done
[[ ${#rates[@]} -gt 0 ]] || rates=(1gbit 10mbit)
shift $(($# > 0))
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
machines=3

clean_network() {
    for ((i = 0; i < machines; ++i)); do ip netns del "tandem$i" 2> /dev/null || true; done
    ip link del tandembr 2> /dev/null || true
}
clean_up() {
    clean_network
    rm -rf "$folder"
}
trap clean_up EXIT

# In place of ssh: the first argument that is no option is an address, and the rest a command.
cat > "$folder/agent" << 'AGENT'
#!/bin/bash
while [[ $1 == -* ]]; do shift; done
address=$1
shift
machine=$((${address##*.} - 1))
exec ip netns exec "tandem$machine" unshare --uts bash -c "hostname machine$machine; $*"
AGENT
chmod +x "$folder/agent"

build_network() {
    clean_network
    ip link add tandembr type bridge
    ip link set tandembr up
    for ((i = 0; i < machines; ++i)); do
        ip netns add "tandem$i"
        ip link add "tandemv$i" type veth peer name eth0 netns "tandem$i"
        ip link set "tandemv$i" master tandembr up
        ip netns exec "tandem$i" ip address add "10.77.0.$((i + 1))/24" dev eth0
        ip netns exec "tandem$i" ip link set eth0 up
        ip netns exec "tandem$i" ip link set lo up
        ip netns exec "tandem$i" tc qdisc add dev eth0 root tbf rate "$1" burst 32kb latency 50ms
    done
}

export OMPI_MCA_plm_rsh_agent=$folder/agent OMPI_MCA_btl_tcp_if_include=10.77.0.0/24
export OMPI_MCA_oob_tcp_if_include=10.77.0.0/24
for rate in "${rates[@]}"; do
    build_network "$rate"
    ip netns exec tandem0 unshare --uts bash -c "hostname machine0; TANDEM_BINARY='$binary' exec python3 -B \
        '$here/clients.py' --name '$rate' $* '$model' --hosts 10.77.0.1,10.77.0.2,10.77.0.3 --device cpu --threads 1"
done
