# shellcheck shell=bash
# Debian systems of their own for tests, made by mmdebstrap and used by chroot: sourced by tests/{deb,debian13,xrt}/run.sh. Root.

# From where this machine has its own packages.
debian_mirror() {
    local mirror
    # shellcheck disable=SC2016
    mirror=$(apt-get indextargets --format '$(REPO_URI)' | grep -E '/debian/?$' | sort -u | head -n 1)
    [ -n "$mirror" ] || { echo "$0: apt has no Debian archive to take packages from" >&2; return 1; }
    echo "$mirror"
}

# debian_root SUITE TARGET PACKAGES [OPTION...]: makes the folder or the .tar TARGET, unless it is there. PACKAGES are separated by
# commas; options are mmdebstrap's.
debian_root() {
    local suite=$1 target=$2 packages=$3 mirror part
    shift 3
    [ ! -e "$target" ] || return 0
    mirror=$(debian_mirror) || return 1
    part=${target%.tar}.part
    [ "$target" = "${target%.tar}" ] || part=$part.tar
    rm -rf "$part"
    mmdebstrap --quiet --variant=minbase --include="$packages" --aptopt='Acquire::Check-Valid-Until "false"' "$@" \
        "$suite" "$part" "deb $mirror $suite main" "deb $mirror $suite-backports main"
    mv "$part" "$target"
}

# inside ROOT COMMAND...: in that system, with none of this one's variables. What is mounted is gone with the command.
inside() {
    # shellcheck disable=SC2016
    env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 \
        DEBIAN_FRONTEND=noninteractive unshare --mount sh -euc 'mount -t proc proc "$0/proc"
        mount --rbind /dev "$0/dev"
        mount --rbind /sys "$0/sys"
        exec chroot "$0" "$@"' "$@"
}
