package listen

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// checkEvery is how old a certificate's last look at its files may be (arbitrary: renewals are days apart).
const checkEvery = 5 * time.Second

// Certificate is a TLS certificate in two files. It is read again when they change, so that a renewal needs no
// restart; while what it finds there does not load, the last good one stays.
type Certificate struct {
	certFile, keyFile string
	now               func() time.Time
	log               *slog.Logger

	mu      sync.Mutex
	current *tls.Certificate
	seen    [2]stamp
	checked time.Time
}

// stamp tells one version of a file from the next.
type stamp struct {
	modified time.Time
	size     int64
}

// OpenCertificate reads a certificate and its key from PEM files.
func OpenCertificate(certFile, keyFile string, now func() time.Time, log *slog.Logger) (*Certificate, error) {
	c := &Certificate{certFile: certFile, keyFile: keyFile, now: now, log: log}
	seen, err := c.stamps()
	if err != nil {
		return nil, fmt.Errorf("open certificate: %w", err)
	}
	if err := c.load(seen); err != nil {
		return nil, fmt.Errorf("open certificate %s: %w", certFile, err)
	}
	c.checked = now()
	return c, nil
}

// Choose is for tls.Config.GetCertificate.
func (c *Certificate) Choose(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := c.now(); now.Sub(c.checked) >= checkEvery {
		c.checked = now
		c.refresh()
	}
	return c.current, nil
}

// refresh loads the files if they changed since they were last tried.
func (c *Certificate) refresh() {
	seen, err := c.stamps()
	if err != nil || seen == c.seen {
		return // a file that is missing for a moment is being replaced
	}
	if err := c.load(seen); err != nil {
		c.log.Error("the new certificate does not load; the old one stays", "file", c.certFile, "error", err)
		return
	}
	c.log.Info("certificate renewed", "file", c.certFile)
}

func (c *Certificate) load(seen [2]stamp) error {
	c.seen = seen
	cert, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	if err != nil {
		return err
	}
	c.current = &cert
	return nil
}

func (c *Certificate) stamps() (s [2]stamp, err error) {
	for i, name := range []string{c.certFile, c.keyFile} {
		info, err := os.Stat(name)
		if err != nil {
			return s, err
		}
		s[i] = stamp{info.ModTime(), info.Size()}
	}
	return s, nil
}
