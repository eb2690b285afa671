package access

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"
)

// Files are where certificates and roles lie.
type Files struct {
	Cert, Key string // of the server, PEM; "" for no encryption
	ClientCA  string // PEM of the authorities of client certificates; "" if none count
	Roles     string // see ParseRoles; "" if callers are not identified and may do anything
}

// Check says which of the files are missing beside others.
func (f Files) Check() error {
	switch {
	case (f.Cert == "") != (f.Key == ""):
		return errors.New("--tls-cert and --tls-key: one is missing")
	case f.ClientCA != "" && f.Cert == "":
		return errors.New("--client-ca: needs --tls-cert and --tls-key")
	case f.ClientCA != "" && f.Roles == "":
		return errors.New("--client-ca: needs --roles, which says what each client may do")
	}
	return nil
}

// material is what the files hold at a time.
type material struct {
	cert        *tls.Certificate // nil without encryption
	pool        *x509.CertPool   // nil if no client certificate counts
	authorities []*x509.Certificate
	roles       *Roles // nil if callers are not identified
}

// maxFile bounds each file, in bytes.
const maxFile = 1 << 20

// read reads and checks all files. sum identifies their content, also if it is
// bad.
func (f Files) read() (m *material, sum [sha256.Size]byte, err error) {
	h := sha256.New()
	get := func(path string) []byte {
		if path == "" || err != nil {
			return nil
		}
		var text []byte
		if text, err = os.ReadFile(filepath.Clean(path)); err == nil && len(text) > maxFile {
			err = fmt.Errorf("%s: is larger than %d MiB", path, maxFile>>20)
		}
		fmt.Fprintf(h, "%s %d %v\n%s", path, len(text), err, text)
		return text
	}
	cert, key, ca, roles := get(f.Cert), get(f.Key), get(f.ClientCA), get(f.Roles)
	sum = [sha256.Size]byte(h.Sum(nil))
	if err != nil {
		return nil, sum, err
	}
	m = &material{}
	if f.Cert != "" {
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			return nil, sum, fmt.Errorf("%s and %s: %w", f.Cert, f.Key, err)
		}
		m.cert = &pair
	}
	if f.ClientCA != "" {
		if m.authorities, err = parseCertificates(ca); err != nil {
			return nil, sum, fmt.Errorf("%s: %w", f.ClientCA, err)
		}
		m.pool = x509.NewCertPool()
		for _, c := range m.authorities {
			m.pool.AddCert(c)
		}
	}
	if f.Roles != "" {
		if m.roles, err = ParseRoles(roles); err != nil {
			return nil, sum, fmt.Errorf("%s: %w", f.Roles, err)
		}
	}
	return m, sum, nil
}

// parseCertificates reads one or more certificates in PEM.
func parseCertificates(text []byte) (out []*x509.Certificate, err error) {
	for rest := text; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("has a %s, where only certificates belong", block.Type)
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	if len(out) == 0 {
		return nil, errors.New("has no certificate in PEM")
	}
	return out, nil
}

// Options of a source.
type Options struct {
	Every time.Duration    // between looks at the files; 2 s if 0
	Log   *slog.Logger     // nothing is logged if nil
	Now   func() time.Time // the clock by which certificates expire; time.Now if nil
}

// Source keeps what the files hold. It reads them again when they change, so that
// certificates rotate and callers are revoked while the service runs. Content
// that is not whole and correct is logged and leaves the former in force.
type Source struct {
	files Files
	log   *slog.Logger
	now   func() time.Time

	current atomic.Pointer[material]
	sum     [sha256.Size]byte // of the content read last
	mu      sync.Mutex
	after   []func()
	stop    chan struct{}
	done    chan struct{}
}

// Open reads the files, which must be correct, and follows them until Close.
func Open(f Files, o Options) (*Source, error) {
	if o.Every <= 0 {
		o.Every = 2 * time.Second
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	m, sum, err := f.read()
	if err != nil {
		return nil, err
	}
	s := &Source{files: f, log: o.Log, now: o.Now, sum: sum, stop: make(chan struct{}), done: make(chan struct{})}
	s.current.Store(m)
	s.warnExpiry(m)
	go s.follow(o.Every)
	return s, nil
}

// Close ends the reading. The last content stays in force.
func (s *Source) Close() {
	close(s.stop)
	<-s.done
}

// After calls f after every look at the files, changed or not: certificates
// expire, too.
func (s *Source) After(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.after = append(s.after, f)
}

func (s *Source) follow(every time.Duration) {
	defer close(s.done)
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-tick.C:
		}
		s.look()
		s.mu.Lock()
		after := s.after
		s.mu.Unlock()
		for _, f := range after {
			f()
		}
	}
}

// look reads the files, and uses them if they changed.
func (s *Source) look() {
	m, sum, err := s.files.read()
	if bytes.Equal(sum[:], s.sum[:]) {
		return
	}
	s.sum = sum
	if err != nil {
		s.log.Error("changed access files are not used, the former content stays in force", "err", err)
		return
	}
	s.current.Store(m)
	s.log.Info("access files read again")
	s.warnExpiry(m)
}

// soon is how long before its end a server's certificate is warned of.
const soon = 14 * 24 * time.Hour

func (s *Source) warnExpiry(m *material) {
	if m.cert != nil && s.now().Add(soon).After(m.cert.Leaf.NotAfter) {
		s.log.Warn("the server's certificate expires soon, or has", "file", s.files.Cert, "at", m.cert.Leaf.NotAfter)
	}
}

// Identify finds the caller by what the files hold now. Without a roles file every
// caller is an admin without a name.
func (s *Source) Identify(c Credential) (Caller, error) { return s.current.Load().identify(c, s.now()) }

// TLS is the configuration of the server for a protocol such as h2; nil without
// encryption. New connections use what the files hold then; open ones go on.
// A client without a certificate may connect: it may bring a token, or ask for
// its health.
func (s *Source) TLS(protocol string) *tls.Config {
	if s.files.Cert == "" {
		return nil
	}
	config := func() *tls.Config {
		m := s.current.Load()
		c := &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{*m.cert},
			NextProtos: []string{protocol}, Time: s.now,
			// A resumed session would be verified by the files of its first handshake.
			SessionTicketsDisabled: true}
		if m.pool != nil {
			c.ClientAuth, c.ClientCAs = tls.VerifyClientCertIfGiven, m.pool
		}
		return c
	}
	first := config()
	first.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return config(), nil }
	return first
}
