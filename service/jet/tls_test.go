package jet

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/autosched/autosched/internal/certs"
)

// A certificate that is renewed under a running server is that of both ends of its new routes, and of its clients'
// connections; a wrong file is not.
func TestCertificateIsRenewed(t *testing.T) {
	dir := t.TempDir()
	began := time.Now().Add(-time.Hour)
	own, err := certs.NewAuthority("nodes", began, began.AddDate(10, 0, 0))
	if err != nil {
		t.Fatal(err)
	}
	files := TLS{Cert: filepath.Join(dir, "node.pem"), Key: filepath.Join(dir, "node.key"),
		CA: filepath.Join(dir, "node-ca.pem")}
	write := func(path string, text []byte) {
		if err := errors.Join(os.WriteFile(path+".next", text, 0o600), os.Rename(path+".next", path)); err != nil {
			t.Fatal(err)
		}
	}
	renew := func(years int) time.Time {
		p, err := own.Node([]string{"127.0.0.1"}, began, began.AddDate(years, 0, 0))
		if err != nil {
			t.Fatal(err)
		}
		pair, err := tls.X509KeyPair(p.Cert, p.Key)
		if err != nil {
			t.Fatal(err)
		}
		write(files.Key, p.Key)
		write(files.Cert, p.Cert)
		return pair.Leaf.NotAfter
	}
	write(files.CA, own.Cert)
	first := renew(1)
	other, err := net.Listen("tcp", "127.0.0.1:0") // of a server whose certificate has no other use
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	pair, err := own.Node([]string{"127.0.0.1"}, began, began.AddDate(9, 0, 0))
	if err != nil {
		t.Fatal(err)
	}
	peer, err := tls.X509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(own.Cert)
	mutual := &tls.Config{Certificates: []tls.Certificate{peer}, RootCAs: pool, ClientCAs: pool,
		ClientAuth: tls.RequireAndVerifyClientCert, ServerName: "127.0.0.1", MinVersion: tls.VersionTLS13}
	calls := make(chan time.Time, 100) // ends of the certificates by which the server calls
	go func() {
		for {
			c, err := other.Accept()
			if err != nil {
				return
			}
			s := tls.Server(c, mutual)
			if s.HandshakeContext(t.Context()) == nil {
				calls <- s.ConnectionState().PeerCertificates[0].NotAfter
			}
			_ = c.Close()
		}
	}()
	free := configs(t)
	c := &Config{Node: "a", Dir: t.TempDir(), TLS: &files, Embedded: &Embedded{Cluster: free[0].Embedded.Cluster,
		Client: free[1].Embedded.Cluster, Routes: []string{other.Addr().String()}}}
	// A server with routes waits for the others before it keeps a stream.
	e := &Engine{o: c, log: testLog(t)}
	t.Cleanup(e.Close)
	if err := e.certificates(); err != nil {
		t.Fatal(err)
	}
	if err := e.embed(); err != nil {
		t.Fatal(err)
	}
	asRoute := func() (end time.Time) {
		raw, err := net.Dial("tcp", c.Embedded.Cluster)
		if err != nil {
			t.Fatal(err)
		}
		defer raw.Close()
		s := tls.Client(raw, mutual)
		if s.HandshakeContext(t.Context()) == nil {
			end = s.ConnectionState().PeerCertificates[0].NotAfter
		}
		return end
	}
	asClient := func() (end time.Time) {
		conn, err := nats.Connect("tls://"+c.Embedded.Client, nats.Secure(mutual.Clone()))
		if err == nil {
			defer conn.Close()
			state, _ := conn.TLSConnectionState()
			end = state.PeerCertificates[0].NotAfter
		}
		return end
	}
	is := func(want time.Time) func() bool {
		return func() bool {
			select {
			case end := <-calls:
				return end.Equal(want) && asRoute().Equal(want) && asClient().Equal(want)
			default:
				return false
			}
		}
	}
	eventually(t, "the first certificate is not used", is(first))
	second := renew(2)
	eventually(t, "the renewed certificate is not used", is(second))
	write(files.Cert, []byte("none"))
	time.Sleep(3 * time.Second) // more than between looks at the files
	for len(calls) > 0 {
		<-calls
	}
	eventually(t, "a wrong file replaces the certificate", is(second))
}
