// Package certs issues X.509 certificates from an authority of its own, for a
// start without a public key infrastructure, and for tests. Keys are ECDSA P-256.
package certs

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/url"
	"time"
)

// Pair is a certificate and its private key, both in PEM.
type Pair struct{ Cert, Key []byte }

// Authority signs certificates.
type Authority struct {
	Pair
	cert *x509.Certificate
	key  crypto.Signer
}

// NewAuthority makes an authority that is valid between two times.
func NewAuthority(name string, from, until time.Time) (*Authority, error) {
	t := template(name, from, until)
	t.IsCA, t.BasicConstraintsValid, t.MaxPathLenZero = true, true, true
	t.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign
	p, err := issue(t, nil, nil)
	if err != nil {
		return nil, err
	}
	return ReadAuthority(p)
}

// ReadAuthority reads one that NewAuthority made.
func ReadAuthority(p Pair) (*Authority, error) {
	pair, err := tls.X509KeyPair(p.Cert, p.Key)
	if err != nil {
		return nil, fmt.Errorf("certs: %w", err)
	}
	key, ok := pair.PrivateKey.(crypto.Signer)
	if !ok || !pair.Leaf.IsCA {
		return nil, errors.New("certs: not the certificate of an authority")
	}
	return &Authority{Pair: p, cert: pair.Leaf, key: key}, nil
}

// Server issues a certificate for host names and addresses.
func (a *Authority) Server(hosts []string, from, until time.Time) (Pair, error) {
	return a.server("autosched server", hosts, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, from, until)
}

func (a *Authority) server(name string, hosts []string, usages []x509.ExtKeyUsage, from, until time.Time) (Pair,
	error) {
	t := template(name, from, until)
	t.KeyUsage, t.ExtKeyUsage = x509.KeyUsageDigitalSignature, usages
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			t.IPAddresses = append(t.IPAddresses, ip)
		} else {
			t.DNSNames = append(t.DNSNames, h)
		}
	}
	return issue(t, a.cert, a.key)
}

// Node issues a certificate for a node, which connects to others and is connected to.
func (a *Authority) Node(hosts []string, from, until time.Time) (Pair, error) {
	return a.server("autosched node", hosts, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		from, until)
}

// Client issues a certificate for the identity of a caller.
func (a *Authority) Client(name string, uris []string, from, until time.Time) (Pair, error) {
	t := template(name, from, until)
	t.KeyUsage, t.ExtKeyUsage = x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	for _, text := range uris {
		u, err := url.Parse(text)
		if err != nil {
			return Pair{}, fmt.Errorf("certs: %w", err)
		}
		t.URIs = append(t.URIs, u)
	}
	return issue(t, a.cert, a.key)
}

func template(name string, from, until time.Time) *x509.Certificate {
	return &x509.Certificate{Subject: pkix.Name{CommonName: name}, NotBefore: from, NotAfter: until}
}

// issue makes a key and a certificate for it, self-signed without a parent. The
// serial number is random.
func issue(t, parent *x509.Certificate, signer crypto.Signer) (Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, fmt.Errorf("certs: %w", err)
	}
	if parent == nil {
		parent, signer = t, key
	}
	cert, err := x509.CreateCertificate(rand.Reader, t, parent, key.Public(), signer)
	if err != nil {
		return Pair{}, fmt.Errorf("certs: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return Pair{}, fmt.Errorf("certs: %w", err)
	}
	return Pair{Cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}),
		Key: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})}, nil
}
