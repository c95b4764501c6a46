#!/usr/bin/env bash
# Makes a bare Debian in a folder, of this machine's suite and from its mirror, with Python but no compiler: what
# packages are tested on. tools/bare_system.sh FOLDER
# A folder that is whole is left as it is; two calls at once make it once. Exit code 3 and a sentence where this
# machine cannot: without root, mount namespaces or debootstrap.
set -euo pipefail
folder=${1:?the folder to make it in}

cannot() {
  printf '%s\n' "$*"
  exit 3
}
((EUID == 0)) || cannot "bare systems (chroot) need root: run this as root, or in a container"
command -v debootstrap >/dev/null || cannot "bare systems need debootstrap: apt-get install debootstrap"
unshare --mount true 2>/dev/null || cannot "bare systems need mount namespaces, which this machine lets nobody make"

mkdir -p "${folder%/*}"
exec 9>"$folder.lock"
flock 9
[[ ! -f $folder/.whole ]] || exit 0
# shellcheck source=/dev/null
suite=$(. /etc/os-release && printf '%s' "$VERSION_CODENAME")
mirror=$(apt-get indextargets --format "\$(REPO_URI)" "Codename: $suite" "Origin: Debian" | head -n 1)
rm -rf --one-file-system "$folder"
# What it mounts ends with it, however it ends.
unshare --mount debootstrap --variant=minbase --include=python3,python3-venv,ca-certificates "$suite" "$folder" "$mirror" >"$folder.log" 2>&1 ||
  { tail -n 20 "$folder.log" && exit 1; }
touch "$folder/.whole"
