package access

import (
	"context"
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

// material is the content of the files at a time.
type material struct {
	cert        *tls.Certificate // nil without encryption
	pool        *x509.CertPool   // nil if no client certificate counts
	authorities []*x509.Certificate
	roles       *Roles // nil if callers are not identified
}

// maxFile bounds each file, in bytes.
const maxFile = 1 << 20

// read reads and checks all files. A file that is bad, by itself or beside its key, is an error and keeps its former
// content. sum identifies the bytes read.
func (f Files) read(former material) (m material, sum [sha256.Size]byte, err error) {
	h := sha256.New()
	m = former
	get := func(path string) ([]byte, error) {
		text, err := os.ReadFile(filepath.Clean(path))
		if err == nil && len(text) > maxFile {
			err = fmt.Errorf("%s: is larger than %d MiB", path, maxFile>>20)
		}
		fmt.Fprintf(h, "%s %d %v\n%s", path, len(text), err, text)
		return text, err
	}
	if f.Cert != "" {
		cert, noCert := get(f.Cert)
		key, noKey := get(f.Key)
		pair, bad := tls.X509KeyPair(cert, key)
		switch {
		case noCert != nil || noKey != nil:
			err = errors.Join(err, noCert, noKey)
		case bad != nil:
			err = errors.Join(err, fmt.Errorf("%s and %s: %w", f.Cert, f.Key, bad))
		default:
			m.cert = &pair
		}
	}
	if f.ClientCA != "" {
		text, bad := get(f.ClientCA)
		if bad == nil {
			var authorities []*x509.Certificate
			if authorities, bad = parseCertificates(text); bad != nil {
				bad = fmt.Errorf("%s: %w", f.ClientCA, bad)
			} else {
				m.authorities, m.pool = authorities, x509.NewCertPool()
				for _, c := range authorities {
					m.pool.AddCert(c)
				}
			}
		}
		err = errors.Join(err, bad)
	}
	if f.Roles != "" {
		text, bad := get(f.Roles)
		if bad == nil {
			var roles *Roles
			if roles, bad = ParseRoles(text); bad != nil {
				bad = fmt.Errorf("%s: %w", f.Roles, bad)
			} else {
				m.roles = roles
			}
		}
		err = errors.Join(err, bad)
	}
	return m, [sha256.Size]byte(h.Sum(nil)), err
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

// Source keeps the content of the files. Run reads them again when they change, so that certificates rotate and
// callers are revoked while the service runs. A file that is not whole and correct is logged, and its former content
// stays in force.
type Source struct {
	files Files
	log   *slog.Logger
	now   func() time.Time

	current atomic.Pointer[material]
	stale   atomic.Bool
	sum     [sha256.Size]byte // of the content read last
	mu      sync.Mutex
	after   []func()
	every   time.Duration
}

// Open reads the files, which must be correct. Run follows them.
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
	m, sum, err := f.read(material{})
	if err != nil {
		return nil, err
	}
	s := &Source{files: f, log: o.Log, now: o.Now, sum: sum, every: o.Every}
	s.current.Store(&m)
	s.warnExpiry()
	return s, nil
}

// After calls f after every look at the files, changed or not: certificates
// expire, too.
func (s *Source) After(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.after = append(s.after, f)
}

// Run reads the files again when they change, until the context ends. The last content stays in force.
func (s *Source) Run(ctx context.Context) error {
	tick := time.NewTicker(s.every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
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

// look reads the files and uses the valid ones that changed.
func (s *Source) look() {
	m, sum, err := s.files.read(*s.current.Load())
	if sum == s.sum {
		return
	}
	s.sum = sum
	s.current.Store(&m)
	s.stale.Store(err != nil)
	if err != nil {
		s.log.Error("access files are wrong; their former content stays in force", "err", err)
		return
	}
	s.log.Info("access files read again")
	s.warnExpiry()
}

// Stale reports whether a file is wrong, so that its former content is in force.
func (s *Source) Stale() bool { return s.stale.Load() }

// ExpiresSoon is how long before its end a server's certificate is warned of.
const ExpiresSoon = 14 * 24 * time.Hour

// Expires is the end of the server's certificate, zero without one.
func (s *Source) Expires() time.Time {
	if m := s.current.Load(); m.cert != nil {
		return m.cert.Leaf.NotAfter
	}
	return time.Time{}
}

func (s *Source) warnExpiry() {
	if m := s.current.Load(); m.cert != nil && s.now().Add(ExpiresSoon).After(m.cert.Leaf.NotAfter) {
		s.log.Warn("the server's certificate expires soon, or has", "file", s.files.Cert, "at", m.cert.Leaf.NotAfter)
	}
}

// Identify finds the caller by the present content of the files. Without a roles file every caller is an admin without
// a name.
func (s *Source) Identify(c Credential) (Caller, error) { return s.current.Load().identify(c, s.now()) }

// Identifies reports whether there is a roles file.
func (s *Source) Identifies() bool { return s.files.Roles != "" }

// TLS is the configuration of the server for protocols such as h2; nil without encryption. New connections use the
// content of the files at that time; open ones go on. A client without a certificate may connect: it may bring a
// token, or ask for its health.
func (s *Source) TLS(protocols ...string) *tls.Config {
	if s.files.Cert == "" {
		return nil
	}
	return s.config(tls.VerifyClientCertIfGiven, protocols)
}

// Peers is the configuration of both ends of connections between servers of one authority. New connections use the
// content of the files at that time, but for the authority of the servers that they are made to: that stays.
func (s *Source) Peers() *tls.Config {
	c := s.config(tls.RequireAndVerifyClientCert, nil)
	c.RootCAs = s.current.Load().pool
	c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		return s.current.Load().cert, nil
	}
	return c
}

func (s *Source) config(clients tls.ClientAuthType, protocols []string) *tls.Config {
	config := func() *tls.Config {
		m := s.current.Load()
		c := &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{*m.cert},
			NextProtos: protocols, Time: s.now,
			// A resumed session would be verified by the files of its first handshake.
			SessionTicketsDisabled: true}
		if m.pool != nil {
			c.ClientAuth, c.ClientCAs = clients, m.pool
		}
		return c
	}
	first := config()
	first.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return config(), nil }
	return first
}
