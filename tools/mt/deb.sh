#!/bin/sh
# Makes a Debian package of what `make install` has put under STAGE/usr:
#   deb.sh STAGE VERSION OUTPUT-FOLDER
# The programs need the C library that they were linked with, and nothing else: GPUs, MPS and NVML are looked
# for when they run.
set -eu
stage=$1 version=$2 output=$3
architecture=$(dpkg --print-architecture)
libc=$(dpkg-query --show --showformat '${Version}' libc6 | sed 's/-.*//')
mkdir -p "$stage/DEBIAN" "$output"
find "$stage/usr/share/man" -type f ! -name '*.gz' -exec gzip --no-name --best --force {} +
size=$(du -sk "$stage/usr" | cut -f 1)
cat >"$stage/DEBIAN/control" <<CONTROL
Package: mt-tools
Version: $version
Architecture: $architecture
Maintainer: the authors of mt-tools <mt-tools@localhost>
Section: science
Priority: optional
Installed-Size: $size
Depends: libc6 (>= $libc)
Description: several training tasks on one GPU
 Measures how training tasks slow each other down on a GPU or on processors,
 chooses batch sizes and shares, orders transfers around compute, and launches
 the jobs under NVIDIA MPS or control groups.
CONTROL
dpkg-deb --root-owner-group --build "$stage" "$output" >&2
