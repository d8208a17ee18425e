package engine

import (
	"crypto/tls"
	"net/netip"
	"strings"

	"github.com/nats-io/nats.go"
)

// Protection is what keeps strangers away from an external engine, as the connection itself shows it. Flags alone do
// not say it: a server may not ask for the credentials that it gets, and let in who has none.
type Protection struct {
	Credentials bool // the server asks for credentials or a certificate, and this process has shown them
	TLS         bool // the connection is encrypted
	Loopback    bool // the connection does not leave this machine
}

// Protection looks at the connection. An engine of this machine's own needs none; nor does anything show while there is
// no connection.
func (e *Engine) Protection() Protection {
	address := e.nc.ConnectedAddr()
	if e.mode != External || address == "" {
		return Protection{Credentials: true, TLS: true, Loopback: true}
	}
	_, err := e.nc.TLSConnectionState()
	shown := e.o.Token != "" || e.o.Credentials != "" || strings.Contains(e.o.URL, "@")
	return Protection{
		Credentials: shown && e.nc.AuthRequired() || e.verified.Load(), TLS: err == nil,
		Loopback: loopback(address),
	}
}

// noteRequest is an option behind nats.ClientCert. It notes that a server asks for the certificate.
func (e *Engine) noteRequest(o *nats.Options) error {
	o.TLSConfig.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		e.verified.Store(true)
		cert, err := o.TLSCertCB()
		return &cert, err
	}
	return nil
}

func loopback(address string) bool {
	at, err := netip.ParseAddrPort(address)
	return err == nil && at.Addr().Unmap().IsLoopback()
}

// Problems says what is missing, and what to do about it.
func (p Protection) Problems() (all []string) {
	if !p.Credentials {
		all = append(all,
			"the NATS server asks for no credentials: who reaches it can read, add and delete everything; let "+
				"it verify certificates, and name yours with --nats-cert and --nats-key")
	}
	if !p.TLS && !p.Loopback {
		all = append(all, "the connection to the NATS server is not encrypted: events and credentials pass the network in "+
			"the clear; give the server a certificate, and name its authority with --nats-ca")
	}
	return all
}
