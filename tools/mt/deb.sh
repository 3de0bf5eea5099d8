#!/bin/sh
# Makes a Debian package of what `make install` has put under STAGE/usr:
#   deb.sh STAGE VERSION OUTPUT-FOLDER
# in the root of the repository, whose licence and changelog go in. The programs need the C library that they
# were linked with and the compiler's own, and nothing else: GPUs, MPS and NVML are looked for when they run.
set -eu
stage=$1 version=$2 output=$3
architecture=$(dpkg --print-architecture)
libc=$(dpkg-query --show --showformat '${Version}' libc6 | sed 's/-.*//')
# As dch(1) has it: the two variables, else who builds it. Whoever gives a package to others says who they
# are, because questions go there.
user=$(id -un)
maintainer="${DEBFULLNAME:-$user} <${DEBEMAIL:-$user@$(hostname -f 2>/dev/null || hostname)}>"
documents=$stage/usr/share/doc/mt-tools
mkdir -p "$stage/DEBIAN" "$documents" "$output"
find "$stage/usr/share/man" -type f ! -name '*.gz' -exec gzip --no-name --best --force {} +
gzip --no-name --best --stdout CHANGELOG.md >"$documents/changelog.gz"
cp README.md "$documents/"
{
    echo 'Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/'
    echo 'Upstream-Name: mt-tools'
    echo
    echo 'Files: *'
    echo 'Copyright: 2026 The mt-tools authors'
    echo 'License: Expat or Apache-2.0'
    echo
    echo 'License: Expat'
    sed 's/^$/./; s/^/ /' LICENSE-MIT
    echo
    echo 'License: Apache-2.0'
    echo ' See /usr/share/common-licenses/Apache-2.0.'
} >"$documents/copyright"
size=$(du -sk "$stage/usr" | cut -f 1)
cat >"$stage/DEBIAN/control" <<CONTROL
Package: mt-tools
Version: $version
Architecture: $architecture
Maintainer: $maintainer
Section: science
Priority: optional
Installed-Size: $size
Depends: libc6 (>= $libc), libgcc-s1
Description: share one GPU between several training tasks
 Measures how training tasks slow each other down on a GPU or on processors,
 predicts the rest, chooses batch sizes and shares, orders downloads and uploads
 around compute, and launches the jobs under NVIDIA MPS or control groups.
 .
 Begin with mt(1): "mt init" writes a workload, "mt run" does the rest, on a
 simulated GPU where there is none. A GPU is shared by the programs
 nvidia-cuda-mps-control and nvidia-cuda-mps-server of NVIDIA's driver.
CONTROL
dpkg-deb --root-owner-group --build "$stage" "$output" >&2
