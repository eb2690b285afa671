package access

import (
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net/url"
	"testing"
	"time"
)

// FuzzCertificates: whatever a client's certificate says, it is a caller only by a URI that has a
// role.
func FuzzCertificates(f *testing.F) {
	from := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)
	public, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		f.Fatal(err)
	}
	for _, uris := range [][]*url.URL{{{Scheme: "spiffe", Host: "example.org", Path: "/alice"}}, nil} {
		template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: from, NotAfter: from.AddDate(1, 0, 0),
			URIs: uris}
		der, err := x509.CreateCertificate(nil, template, template, public, key)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), "")
	}
	f.Add([]byte("-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n"), "Bearer x")
	roles, err := ParseRoles([]byte("callers:\n  - name: alice\n    role: viewer\n" +
		"    uris: [spiffe://example.org/alice]\n"))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text []byte, authorization string) {
		chain, err := parseCertificates(text)
		if err != nil {
			return
		}
		c, err := NewCredential(&tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{chain}}, authorization)
		if err != nil {
			return
		}
		m := material{roles: roles, authorities: chain}
		caller, err := m.identify(c, from)
		if err == nil && (caller.Name != "alice" || len(chain[0].URIs) != 1 ||
			chain[0].URIs[0].String() != "spiffe://example.org/alice") {
			t.Fatalf("URIs %v are %+v", chain[0].URIs, caller)
		}
	})
}
