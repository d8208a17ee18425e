#!/bin/sh
# Makes the certificates of a cluster: an authority, one for each NATS server, and one for the nodes of Sluice, by which NATS
# knows them. Needs openssl.
#   sh deploy/certificates.sh DIRECTORY SERVER...
# SERVER is a name, with more names or addresses of the same server behind commas: nats-1,nats-1.example.com,10.0.0.1
# An authority that is in DIRECTORY is used again. So the same command renews the certificates, and one with another name adds
# a server. Keep ca.key away from the servers: who has it can make certificates that open NATS.
set -eu
[ $# -ge 2 ] || { echo "usage: sh deploy/certificates.sh DIRECTORY SERVER..." >&2; exit 2; }
umask 077
mkdir -p "$1"
cd "$1"
shift
days=825 # arbitrary; the authority has ten years

# quiet runs a command and shows what it said only if it fails.
quiet() { said=$("$@" 2>&1) || { echo "$said" >&2; exit 1; }; }

# certificate NAME USES NAMES makes NAME.key and NAME.crt.
certificate() {
  { echo "basicConstraints=CA:FALSE"
    echo "extendedKeyUsage=$2"
    [ -z "$3" ] || echo "subjectAltName=$3"; } >extensions
  quiet openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj "/CN=$1" -keyout "$1.key" -out request
  quiet openssl x509 -req -in request -CA ca.crt -CAkey ca.key -set_serial "0x$(openssl rand -hex 16)" -days "$days" -extfile extensions -out "$1.crt"
  chmod 0644 "$1.crt"
  rm extensions request
}

if [ ! -e ca.key ]; then
  quiet openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj "/CN=sluice-ca" -days 3650 \
    -addext "keyUsage=critical,keyCertSign,cRLSign" -keyout ca.key -out ca.crt
  chmod 0644 ca.crt
fi
for server; do
  case $server in
  ca | ca,* | sluice | sluice,*) echo "certificates.sh: ${server%%,*} is the name of another certificate" >&2; exit 2 ;;
  esac
  names=
  for name in $(echo "$server" | tr , ' '); do
    case $name in
    *[!0-9.]*) kind=DNS ;;
    *) kind=IP ;;
    esac
    names=$names${names:+,}$kind:$name
  done
  certificate "${server%%,*}" serverAuth,clientAuth "$names" # servers are clients of each other
done
certificate sluice clientAuth ""
