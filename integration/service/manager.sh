#!/usr/bin/env bash
# Runs a systemd user manager and a journal beside whatever the machine has,
# until SIGTERM.
#
#   manager.sh FOLDER
#
# FOLDER gets the journal, in FOLDER/journal. XDG_RUNTIME_DIR and HOME are the
# user's. It needs root, and a mount namespace of its own: unshare --mount.
set -euo pipefail

mount -t tmpfs tmpfs /run/systemd
mkdir -p /run/systemd/system /run/log "$1/journal"
mount --bind "$1" /run/log
[[ -s /etc/machine-id ]] || systemd-machine-id-setup

# A service needs a control group that systemd can find.
root=/sys/fs/cgroup
if [[ $(stat -fc %T $root) != cgroup2fs ]]; then
	root=$root/systemd
	mkdir -p $root
	mountpoint -q $root || mount -t cgroup -o none,name=systemd cgroup $root
fi
group=$root/bridged-service-$$
mkdir "$group"
echo $$ >"$group/cgroup.procs"

/lib/systemd/systemd-journald &
journal=$!
while [[ ! -S /run/systemd/journal/stdout ]]; do
	kill -0 $journal
	sleep 0.1
done
/lib/systemd/systemd --user &
user=$!
trap 'kill $user' TERM
wait $user || true # ends early when the trap runs
wait $user || true
kill $journal
wait $journal || true
echo $$ >$root/cgroup.procs
# The last processes leave their groups a moment after they have ended, and
# groups that the user manager removes by itself are gone while find looks.
for _ in {1..300}; do
	find "$group" -depth -type d -exec rmdir {} + 2>/dev/null || true
	[[ -e $group ]] || exit 0
	sleep 0.1
done
echo "manager.sh: $group can't be removed; in it are: $(find "$group" -name cgroup.procs -exec cat {} + | xargs)" >&2
exit 1
