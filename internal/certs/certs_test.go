package certs

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"testing"
	"time"
)

var (
	from  = time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)
	until = from.AddDate(0, 0, 90)
)

func authority(t *testing.T, name string) *Authority {
	t.Helper()
	a, err := NewAuthority(name, from, from.AddDate(10, 0, 0))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// leaf is the certificate of a pair, whose key must fit.
func leaf(t *testing.T, p Pair, err error) *x509.Certificate {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(p.Cert, p.Key)
	if err != nil {
		t.Fatal(err)
	}
	return pair.Leaf
}

// TestVerify: a certificate is good for its host names, addresses, use and time, under its authority alone.
func TestVerify(t *testing.T) {
	ca, other := authority(t, "ca"), authority(t, "ca")
	p, err := ca.Server([]string{"sched.example", "10.1.2.3", "::1"}, from, until)
	server := leaf(t, p, err)
	p, err = ca.Client("operator", []string{"spiffe://autosched/operator"}, from, until)
	client := leaf(t, p, err)
	const asServer, asClient = x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth
	for _, c := range []struct {
		name string
		cert *x509.Certificate
		root *Authority
		host string
		use  x509.ExtKeyUsage
		at   time.Time
		good bool
	}{
		{"server by name", server, ca, "sched.example", asServer, from, true},
		{"server by address", server, ca, "10.1.2.3", asServer, until, true},
		{"server by IPv6 address", server, ca, "[::1]", asServer, from, true},
		{"another name", server, ca, "other.example", asServer, from, false},
		{"another address", server, ca, "10.1.2.4", asServer, from, false},
		{"a subdomain", server, ca, "a.sched.example", asServer, from, false},
		{"server as client", server, ca, "", asClient, from, false},
		{"before it is valid", server, ca, "", asServer, from.Add(-time.Second), false},
		{"after it expired", server, ca, "", asServer, until.Add(time.Second), false},
		{"authority of the same name", server, other, "", asServer, from, false},
		{"client", client, ca, "", asClient, from, true},
		{"client as server", client, ca, "", asServer, from, false},
		{"client after it expired", client, ca, "", asClient, until.Add(time.Second), false},
		{"client of the other authority", client, other, "", asClient, from, false},
	} {
		roots := x509.NewCertPool()
		roots.AddCert(c.root.cert)
		_, err := c.cert.Verify(x509.VerifyOptions{Roots: roots, DNSName: c.host, CurrentTime: c.at,
			KeyUsages: []x509.ExtKeyUsage{c.use}})
		if (err == nil) != c.good {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if len(server.DNSNames) != 1 || len(server.IPAddresses) != 2 ||
		!server.IPAddresses[0].Equal(net.ParseIP("10.1.2.3")) {
		t.Errorf("server: names %q, addresses %v", server.DNSNames, server.IPAddresses)
	}
	if len(client.URIs) != 1 || client.URIs[0].String() != "spiffe://autosched/operator" ||
		client.Subject.CommonName != "operator" || len(client.DNSNames) > 0 {
		t.Errorf("client: %v, %s, names %q", client.URIs, client.Subject, client.DNSNames)
	}
	if server.SerialNumber.Cmp(client.SerialNumber) == 0 {
		t.Error("two certificates have one serial number")
	}
}

// TestAuthorityAlone: only an authority signs certificates, and certificates that it signs sign none.
func TestAuthorityAlone(t *testing.T) {
	ca := authority(t, "ca")
	if c := ca.cert; !c.IsCA || !c.BasicConstraintsValid || !c.MaxPathLenZero ||
		c.KeyUsage != x509.KeyUsageCertSign|x509.KeyUsageCRLSign || len(c.ExtKeyUsage) > 0 {
		t.Errorf("authority: %t %t %t, usage %b %v", c.IsCA, c.BasicConstraintsValid, c.MaxPathLenZero, c.KeyUsage,
			c.ExtKeyUsage)
	}
	server, err := ca.Server([]string{"localhost"}, from, until)
	if cert := leaf(t, server, err); cert.IsCA || cert.KeyUsage != x509.KeyUsageDigitalSignature {
		t.Errorf("server: authority %t, usage %b", cert.IsCA, cert.KeyUsage)
	}
	if _, err := ReadAuthority(server); err == nil {
		t.Error("a server's certificate is taken for an authority")
	}
	if _, err := ReadAuthority(Pair{Cert: ca.Cert, Key: server.Key}); err == nil {
		t.Error("the key of another certificate is taken")
	}
	if _, err := ca.Client("x", []string{"spiffe://a b/"}, from, until); err == nil {
		t.Error("a bad URI is taken")
	}
	again, err := ReadAuthority(ca.Pair)
	if err != nil {
		t.Fatal(err)
	}
	p, err := again.Server([]string{"localhost"}, from, until)
	if err := leaf(t, p, err).CheckSignatureFrom(ca.cert); err != nil {
		t.Error("signed by the authority as read:", err)
	}
}
