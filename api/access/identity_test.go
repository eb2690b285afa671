package access_test

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/api/access"
	"github.com/autosched/autosched/internal/certs"
)

var began = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

const alice = "spiffe://example.org/alice"

// house has the files of a server, which a test replaces.
type house struct {
	t      *testing.T
	files  access.Files
	ca     *certs.Authority
	now    time.Time
	log    strings.Builder
	source *access.Source
}

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func authority(t *testing.T) *certs.Authority {
	t.Helper()
	return must[*certs.Authority](t)(certs.NewAuthority("ca", began, began.AddDate(10, 0, 0)))
}

func rolesOf(token string) string {
	return fmt.Sprintf("callers:\n  - {name: alice, role: operator, uris: [%s]}\n"+
		"  - {name: root, role: admin, token_sha256: [%x]}\n", alice, sha256.Sum256([]byte(token)))
}

// newHouse has an operator alice with a certificate, and an admin root with a token t.
func newHouse(t *testing.T) *house {
	t.Helper()
	dir := t.TempDir()
	h := &house{t: t, ca: authority(t), now: began.AddDate(0, 0, 1), files: access.Files{
		Cert: filepath.Join(dir, "server.pem"), Key: filepath.Join(dir, "server.key"),
		ClientCA: filepath.Join(dir, "ca.pem"), Roles: filepath.Join(dir, "roles.yaml")}}
	h.rotate(began.AddDate(1, 0, 0))
	h.write(h.files.ClientCA, string(h.ca.Cert))
	h.write(h.files.Roles, rolesOf("t"))
	h.source = must[*access.Source](t)(access.Open(h.files, access.Options{
		Log: slog.New(slog.NewTextHandler(&h.log, nil)), Now: func() time.Time { return h.now }}))
	return h
}

func (h *house) write(path, text string) {
	h.t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		h.t.Fatal(err)
	}
}

// rotate gives the server another certificate.
func (h *house) rotate(until time.Time) {
	h.t.Helper()
	p := must[certs.Pair](h.t)(h.ca.Server([]string{"127.0.0.1"}, began, until))
	h.write(h.files.Cert, string(p.Cert))
	h.write(h.files.Key, string(p.Key))
}

func certificate(t *testing.T, text []byte) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode(text)
	return must[*x509.Certificate](t)(x509.ParseCertificate(block.Bytes))
}

// chain is the verified chain of a client of an authority.
func chain(t *testing.T, ca *certs.Authority, until time.Time, uris ...string) []*x509.Certificate {
	t.Helper()
	p := must[certs.Pair](t)(ca.Client("alice", uris, began, until))
	return []*x509.Certificate{certificate(t, p.Cert), certificate(t, ca.Cert)}
}

func (h *house) identify(authorization string, chains ...[]*x509.Certificate) (access.Caller, error) {
	c, err := access.NewCredential(&tls.ConnectionState{VerifiedChains: chains}, authorization)
	if err != nil {
		return access.Caller{}, err
	}
	return h.source.Identify(c)
}

// A token is the call's and counts before the connection's certificate; one that is not known is refused beside
// any certificate.
func TestTokenCountsBeforeCertificate(t *testing.T) {
	h := newHouse(t)
	mine := chain(t, h.ca, began.AddDate(1, 0, 0), alice)
	if c, err := h.identify("", mine); err != nil || c.Name != "alice" || c.Role != access.Operator {
		t.Errorf("certificate: %+v, %v", c, err)
	}
	if c, err := h.identify("Bearer t", mine); err != nil || c.Name != "root" || c.Role != access.Admin {
		t.Errorf("token and certificate: %+v, %v", c, err)
	}
	if c, err := h.identify("Bearer other", mine); !errors.Is(err, access.ErrIdentity) {
		t.Errorf("unknown token and certificate: %+v, %v", c, err)
	}
}

// Of an authorization header only Bearer and the exact token count.
func TestAuthorizationHeader(t *testing.T) {
	h := newHouse(t)
	for header, good := range map[string]bool{"Bearer t": true, "bearer t": true, "BEARER t": true, "Bearer": false,
		"Bearer ": false, "Basic t": false, "t": false, "Bearer  t": false, "Bearer t ": false, "Bearer T": false,
		"Bearer t,Bearer t": false, "Bearer \x00t": false} {
		c, err := h.identify(header)
		if (err == nil) != good || err != nil && !errors.Is(err, access.ErrIdentity) {
			t.Errorf("%q: %+v, %v", header, c, err)
		}
	}
}

// A certificate is a caller only by its one URI, while it and its authority are valid.
func TestCertificates(t *testing.T) {
	h := newHouse(t)
	later, other := began.AddDate(1, 0, 0), authority(t)
	for _, c := range []struct {
		name  string
		chain []*x509.Certificate
		want  error
		says  string
	}{
		{"no URI", chain(t, h.ca, later), access.ErrIdentity, "0 URIs"},
		{"two URIs", chain(t, h.ca, later, alice, "spiffe://example.org/bob"), access.ErrIdentity, "2 URIs"},
		{"an unknown URI", chain(t, h.ca, later, "spiffe://example.org/bob"), access.ErrRole, "bob has no role"},
		{"another case", chain(t, h.ca, later, "spiffe://example.org/Alice"), access.ErrRole, "no role"},
		{"a trailing slash", chain(t, h.ca, later, alice+"/"), access.ErrRole, "no role"},
		{"a query", chain(t, h.ca, later, alice+"?x"), access.ErrRole, "no role"},
		{"an escape", chain(t, h.ca, later, "spiffe://example.org/%61lice"), access.ErrRole, "no role"},
		{"expired", chain(t, h.ca, began.Add(time.Hour), alice), access.ErrIdentity, "expired"},
		{"another authority", chain(t, other, later, alice), access.ErrIdentity, "no longer trusted"},
	} {
		got, err := h.identify("", c.chain)
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %+v, %v", c.name, got, err)
		}
	}
	if _, err := h.identify(""); !errors.Is(err, access.ErrIdentity) {
		t.Errorf("nothing: %v", err)
	}
	// One good chain of several is enough.
	good, bad := chain(t, h.ca, later, alice), chain(t, other, later, alice)
	if c, err := h.identify("", []*x509.Certificate{good[0], bad[1]}, good); err != nil || c.Name != "alice" {
		t.Errorf("two chains: %+v, %v", c, err)
	}
	h.now = later.Add(time.Second)
	if _, err := h.identify("", good); !errors.Is(err, access.ErrIdentity) {
		t.Errorf("after its end: %v", err)
	}
}

// Without a roles file every caller is an admin without a name; a caller of this process needs no file.
func TestCallersWithoutRoles(t *testing.T) {
	h := newHouse(t)
	local := access.Caller{Name: "push", Role: access.Scheduler, Scheduler: "s"}
	if c, err := h.source.Identify(access.LocalCredential(local)); err != nil || c != local {
		t.Errorf("local: %+v, %v", c, err)
	}
	open := must[*access.Source](t)(access.Open(access.Files{}, access.Options{}))
	credential := must[access.Credential](t)(access.NewCredential(nil, "Bearer any"))
	if c, err := open.Identify(credential); err != nil || c != (access.Caller{Role: access.Admin}) {
		t.Errorf("no roles: %+v, %v", c, err)
	}
	if open.TLS("h2") != nil || !open.Expires().IsZero() || open.Stale() {
		t.Error("there is encryption without a certificate")
	}
}

// Names, URIs and ids of schedulers that could pass for others, or break a line of the log, are refused.
func TestHostileNames(t *testing.T) {
	for _, name := range []string{`""`, `"-a"`, `".a"`, `"a b"`, `"a\nb"`, `"a/b"`, `"ä"`, `"a\u202eb"`,
		strings.Repeat("a", 65)} {
		text := fmt.Sprintf("callers: [{name: %s, role: viewer, uris: [x:y]}]", name)
		if _, err := access.ParseRoles([]byte(text)); err == nil || !strings.Contains(err.Error(), "callers[0].name") {
			t.Errorf("name %s: %v", name, err)
		}
	}
	for _, uri := range []string{`""`, `"alice"`, `"//example.org/a"`, `" x:y"`, `"x:y\n"`, `"spiffe://exa mple.org/a"`,
		`"SPIFFE://example.org/a"`, `"spiffe://example.org/ä"`} {
		text := fmt.Sprintf("callers: [{name: a, role: viewer, uris: [%s]}]", uri)
		if _, err := access.ParseRoles([]byte(text)); err == nil || !strings.Contains(err.Error(), "uris[0]") {
			t.Errorf("URI %s: %v", uri, err)
		}
	}
	for _, role := range []string{`""`, `"Admin"`, `"admin "`, `"root"`} {
		text := fmt.Sprintf("callers: [{name: a, role: %s, uris: [x:y]}]", role)
		if _, err := access.ParseRoles([]byte(text)); err == nil || !strings.Contains(err.Error(), "callers[0].role") {
			t.Errorf("role %s: %v", role, err)
		}
	}
}
