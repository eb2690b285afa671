package forward

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"slices"
	"sync"
	"time"
)

// Identity is the key of a node's process and its certificate, signed by itself: nodes compare whole certificates,
// which they find where only nodes write.
type Identity struct {
	pair tls.Certificate
	name string
}

// NewIdentity makes the key of a process of a node.
func NewIdentity(node string) (*Identity, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: node},
		NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<33, 0)} // it ends with the process
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	return &Identity{pair: tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, name: node}, nil
}

// Certificate is the certificate that other nodes compare.
func (i *Identity) Certificate() []byte { return i.pair.Certificate[0] }

// Protocols of a gate's connections.
const (
	protocolRPC = "h2"
	protocolWeb = "http/1.1"
	// protocolPlace is of connections on which a byte asks for the place of the log, 8 bytes.
	protocolPlace = "autosched-place"
)

// dial is the configuration of connections to the node with a certificate.
func (i *Identity) dial(certificate []byte, protocol string) *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{i.pair},
		NextProtos:         []string{protocol},
		InsecureSkipVerify: true, // of authorities: the certificate is compared
		VerifyConnection: func(s tls.ConnectionState) error {
			if len(s.PeerCertificates) == 0 || !bytes.Equal(s.PeerCertificates[0].Raw, certificate) {
				return errors.New("the node at this address is not the leader")
			}
			return nil
		}}
}

// accept is the configuration of a gate, which asks known for the certificate of the node with a name.
func (i *Identity) accept(known func(node string) ([]byte, error)) *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{i.pair},
		NextProtos: []string{protocolRPC, protocolWeb, protocolPlace}, ClientAuth: tls.RequireAnyClientCert,
		SessionTicketsDisabled: true, // every connection is verified
		VerifyConnection: func(s tls.ConnectionState) error {
			name := s.PeerCertificates[0].Subject.CommonName
			certificate, err := known(name)
			if err != nil {
				return fmt.Errorf("node %q: %w", name, err)
			}
			if !bytes.Equal(s.PeerCertificates[0].Raw, certificate) {
				return fmt.Errorf("not the certificate of node %q", name)
			}
			return nil
		}}
}

// handshakeTime bounds the handshake of a connection.
const handshakeTime = 10 * time.Second

// maxShaking bounds the connections before the end of their handshake. One more ends the oldest, which a node's
// seldom is: it takes milliseconds.
const maxShaking = 64

// placeIdle is how long a node may ask nothing.
const placeIdle = time.Minute

// Gate is the entrance of a leader: it lets connections of nodes in. All end once the leader must not answer any
// more, before another byte is written.
type Gate struct {
	RPC, Web net.Listener // of connections by gRPC and HTTP

	listener net.Listener
	config   *tls.Config
	valid    func() bool
	place    func() (uint64, bool)
	done     chan struct{}
	close    func()
	wait     sync.WaitGroup

	mu      sync.Mutex
	conns   map[net.Conn]bool // nil once closed
	shaking []net.Conn        // in their handshake, the oldest first
}

// NewGate makes a gate on a listener. Valid reports whether the leader may answer. Place returns an entry of the log up
// to which all writes are whose callers had an answer before; false if the leader does not know one yet.
func NewGate(l net.Listener, i *Identity, known func(node string) ([]byte, error), valid func() bool,
	place func() (uint64, bool)) *Gate {
	g := &Gate{listener: l, config: i.accept(known), valid: valid, place: place, done: make(chan struct{}),
		conns: map[net.Conn]bool{}}
	g.RPC, g.Web = newEntrance(g), newEntrance(g)
	g.close = sync.OnceFunc(func() {
		close(g.done)
		_ = g.listener.Close()
		g.mu.Lock()
		defer g.mu.Unlock()
		for c := range g.conns {
			_ = c.Close()
		}
		g.conns = nil
	})
	return g
}

// Cut ends the gate with all its connections.
func (g *Gate) Cut() { g.close() }

// Run accepts connections until the gate is cut.
func (g *Gate) Run() error {
	defer g.wait.Wait()
	for {
		c, err := g.listener.Accept()
		select {
		case <-g.done:
			if err == nil {
				_ = c.Close()
			}
			return nil
		default:
		}
		if err != nil {
			g.close()
			return fmt.Errorf("accept nodes: %w", err)
		}
		if !g.keep(c) {
			return nil
		}
		g.wait.Go(func() { g.let(c) })
	}
}

// keep registers a connection, unless the gate was cut.
func (g *Gate) keep(c net.Conn) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.conns == nil {
		_ = c.Close()
		return false
	}
	g.conns[c] = true
	if g.shaking = append(g.shaking, c); len(g.shaking) > maxShaking {
		_ = g.shaking[0].Close()
		g.shaking = g.shaking[1:]
	}
	return true
}

// shaken notes that the handshake of a connection is over.
func (g *Gate) shaken(c net.Conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if i := slices.Index(g.shaking, c); i >= 0 {
		g.shaking = slices.Delete(g.shaking, i, i+1)
	}
}

func (g *Gate) forget(c net.Conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.conns, c)
}

// let gives a connection of a node to the listener of its protocol.
func (g *Gate) let(c net.Conn) {
	secure := tls.Server(c, g.config)
	ctx, cancel := context.WithTimeout(context.Background(), handshakeTime)
	err := secure.HandshakeContext(ctx)
	cancel()
	g.shaken(c)
	to := g.Web.(*entrance)
	switch secure.ConnectionState().NegotiatedProtocol {
	case protocolRPC:
		to = g.RPC.(*entrance)
	case protocolPlace:
		if err == nil {
			g.tell(&passed{Conn: secure, raw: c, gate: g})
		}
		to = nil
	}
	if err == nil && to != nil {
		select {
		case to.accepted <- &passed{Conn: secure, raw: c, gate: g}:
			return
		case <-to.closed:
		case <-g.done:
		}
	}
	g.forget(c)
	_ = c.Close()
}

// tell answers a node's questions for the place of the log until the connection ends. The place is read before the
// lease is found valid: no other leader has acknowledged anything by then.
func (g *Gate) tell(c net.Conn) {
	for {
		var question [1]byte
		_ = c.SetDeadline(time.Now().Add(placeIdle))
		if _, err := io.ReadFull(c, question[:]); err != nil {
			return
		}
		at, ok := g.place()
		if !ok {
			return
		}
		if _, err := c.Write(binary.BigEndian.AppendUint64(nil, at)); err != nil {
			return
		}
	}
}

// entrance is a listener of a gate.
type entrance struct {
	gate     *Gate
	accepted chan net.Conn
	closed   chan struct{}
	close    func()
}

func newEntrance(g *Gate) *entrance {
	e := &entrance{gate: g, accepted: make(chan net.Conn), closed: make(chan struct{})}
	e.close = sync.OnceFunc(func() { close(e.closed) })
	return e
}

// Accept, Close and Addr implement [net.Listener].
func (e *entrance) Accept() (net.Conn, error) {
	select {
	case c := <-e.accepted:
		return c, nil
	case <-e.closed:
	case <-e.gate.done:
	}
	return nil, net.ErrClosed
}

// Close has the gate let in no more connections. Those that it let in go on.
func (e *entrance) Close() error {
	e.close()
	return nil
}

func (e *entrance) Addr() net.Addr { return e.gate.listener.Addr() }

// passed is a connection that a gate let in.
type passed struct {
	net.Conn
	raw  net.Conn
	gate *Gate
}

var errInvalid = errors.New("the lease of the leader ended")

// Write implements [io.Writer]. An answer that was computed before the lease ended and is written after it could be
// older than that of the next leader.
func (p *passed) Write(b []byte) (int, error) {
	if !p.gate.valid() {
		_ = p.Close()
		return 0, errInvalid
	}
	return p.Conn.Write(b)
}

// Close implements [io.Closer]. It sends no farewell, which could wait for the peer.
func (p *passed) Close() error {
	p.gate.forget(p.raw)
	return p.raw.Close()
}
