#!/bin/sh
# A base image made from Debian's packages, for machines that reach no image registry: base.sh NAME. Wants root,
# debootstrap and docker. It trusts the certificates that this machine trusts, since its package index may need them.
set -eu
certificates=/etc/ssl/certs/ca-certificates.crt
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
debootstrap --variant=minbase --include=python3,python3-venv,ca-certificates,curl bookworm "$root"
rm -rf "$root"/var/cache/apt/* "$root"/var/lib/apt/lists/*
cp "${SSL_CERT_FILE:-$certificates}" "$root$certificates"
tar -C "$root" -c . | docker import -c "ENV PIP_CERT=$certificates" -c "ENV SSL_CERT_FILE=$certificates" - "$1"
