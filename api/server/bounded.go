package server

import (
	"net"
	"sync"
)

// bounded closes connections beyond a number at once: what they take before their callers are known is bounded.
type bounded struct {
	net.Listener
	room chan struct{}
}

func newBounded(l net.Listener, most int) bounded { return bounded{l, make(chan struct{}, most)} }

// Accept implements [net.Listener].
func (l bounded) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		select {
		case l.room <- struct{}{}:
			return &boundedConn{Conn: conn, leave: sync.OnceFunc(func() { <-l.room })}, nil
		default:
			_ = conn.Close()
		}
	}
}

type boundedConn struct {
	net.Conn
	leave func()
}

// Close implements [net.Conn].
func (c *boundedConn) Close() error {
	c.leave()
	return c.Conn.Close()
}
