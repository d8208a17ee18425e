package listen

import (
	"crypto/tls"
	"log/slog"
	"net/http"
	"time"
)

// NewServer returns a server for senders, hardened: nobody holds a connection for nothing. A request has ten
// seconds to arrive; a large body sets itself a deadline by its size, and so does every answer. It speaks HTTP/1.1 and
// HTTP/2, with TLS when there is a certificate. Start it with Serve or ServeTLS("", ""); Shutdown lets requests in
// flight finish.
func NewServer(h http.Handler, cert *Certificate, log *slog.Logger) *http.Server {
	s := newServer(h, cert, log)
	s.DisableGeneralOptionsHandler = true // every answer is ours
	s.Protocols.SetUnencryptedHTTP2(true) // behind a balancer that ends TLS
	s.ReadTimeout = s.ReadHeaderTimeout   // the same, so that net/http sets one deadline and not two
	s.WriteTimeout = 2 * time.Minute      // the slowest body plus half a minute
	s.MaxHeaderBytes = 4 << 10            // net/http adds as much again; a head of ours has some 500 bytes
	s.HTTP2.MaxConcurrentStreams = 32     // a stranger may open as many before the first of them is reset
	s.HTTP2.MaxReceiveBufferPerConnection, s.HTTP2.MaxReceiveBufferPerStream = 256<<10, 256<<10
	return s
}

// opsWrite is how long a request of an operator may take, and its answer. A handler that takes longer moves its own
// deadline. Arbitrary: a page takes milliseconds, a look-up at most ten seconds.
const opsWrite = 30 * time.Second

// NewOpsServer returns a server for operators, hardened in the same way. Its streams count as connections of its
// listener, which is one of New.
func NewOpsServer(h http.Handler, cert *Certificate, log *slog.Logger) *http.Server {
	s := newServer(limitStreams(h), cert, log)
	s.WriteTimeout = opsWrite
	s.MaxHeaderBytes = 16 << 10
	s.HTTP2.MaxConcurrentStreams = 2 * StrangerStreams
	s.HTTP2.MaxReceiveBufferPerConnection, s.HTTP2.MaxReceiveBufferPerStream = 64<<10, 64<<10
	return s
}

// newServer is what both have in common.
func newServer(h http.Handler, cert *Certificate, log *slog.Logger) *http.Server {
	s := &http.Server{
		Handler:           h,
		ConnContext:       withConn,
		ReadHeaderTimeout: 10 * time.Second,
		// net/http keeps what belongs to a connection of HTTP/2 in memory for IdleTimeout after it has ended, if streams were
		// open. Connections of a listener with limits end by themselves.
		IdleTimeout: -1,
		ConnState:   noteIdle,
		Protocols:   new(http.Protocols),
		HTTP2: &http.HTTP2Config{
			MaxReadFrameSize: 16 << 10, // each connection has a buffer for a frame, and half a frame fills it
			SendPingTimeout:  30 * time.Second,
			PingTimeout:      15 * time.Second,
			WriteByteTimeout: 10 * time.Second,
		},
		// What net/http has to say is about broken connections: of use to someone who looks for it.
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetHTTP2(true)
	if cert != nil {
		s.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: cert.Choose}
	}
	return s
}

// limitStreams resets requests on connections of strangers that are over a limit.
func limitStreams(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn := Of(r.Context())
		if conn == nil || conn.known.Load() {
			next.ServeHTTP(w, r)
			return
		}
		if !conn.OpenStream() {
			panic(http.ErrAbortHandler) // which resets the stream
		}
		defer conn.CloseStream()
		if r.Method != http.MethodPost && r.ProtoMajor == 2 {
			_ = r.Body.Close() // else what comes is kept until the answer is read
		}
		next.ServeHTTP(w, r)
		if r.ProtoMajor == 2 {
			_ = r.Body.Close()
			_ = http.NewResponseController(w).Flush() // else the answer waits to be read where nobody counts it
		}
	})
}
