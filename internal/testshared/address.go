package testshared

import (
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"testing"
)

// addresses counts what FreeAddress returned.
var addresses atomic.Int64

// FreeAddress returns an address of this machine that nothing listens on, for a program that needs a number. Its port
// is below those that systems hand out, and other test binaries look elsewhere.
func FreeAddress(t testing.TB) string {
	t.Helper()
	for {
		port := 10_000 + (16*int64(os.Getpid())+addresses.Add(1))%20_000
		if l, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", port)); err == nil {
			_ = l.Close()
			return l.Addr().String()
		}
	}
}
