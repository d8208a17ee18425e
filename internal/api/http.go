package api

import (
	"crypto/tls"
	"log/slog"
	"net/http"
	"time"
)

// NewHTTPServer returns a server for senders, hardened: nobody holds a connection for nothing. A request has ten
// seconds to arrive; a large body sets itself a deadline by its size. It speaks HTTP/1.1 and HTTP/2, with
// TLS when there is a certificate. Start it with Serve or ServeTLS("", ""); Shutdown lets requests in flight finish.
func NewHTTPServer(h http.Handler, cert *Certificate, log *slog.Logger) *http.Server {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true) // behind a balancer that ends TLS
	s := &http.Server{
		Handler:                      h,
		ConnContext:                  withConn,
		DisableGeneralOptionsHandler: true, // every answer is ours
		ReadHeaderTimeout:            10 * time.Second,
		ReadTimeout:                  10 * time.Second, // the same, so that net/http sets one deadline and not two
		WriteTimeout:                 2 * time.Minute,  // the slowest body plus half a minute
		IdleTimeout:                  2 * time.Minute,
		MaxHeaderBytes:               4 << 10, // net/http adds as much again; a head of ours has some 500 bytes
		Protocols:                    &protocols,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: 250,
			SendPingTimeout:      30 * time.Second,
			PingTimeout:          15 * time.Second,
			WriteByteTimeout:     30 * time.Second,
		},
		// What net/http has to say is about broken connections: of use to someone who looks for it.
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	if cert != nil {
		s.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: cert.Choose}
	}
	return s
}
