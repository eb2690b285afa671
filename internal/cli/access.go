package cli

import (
	"errors"
	"fmt"
	"net"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	"github.com/autosched/autosched/api/access"
	apiclient "github.com/autosched/autosched/client"
)

// ServeAccess are the flags of serve for encryption and roles.
type ServeAccess struct {
	Files          access.Files
	AllowPlaintext bool
	allowAnonymous bool
}

// Add adds the flags of the listener's certificate and roles.
func (a *ServeAccess) Add(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&a.Files.Cert, "tls-cert", "", "")
	fl.StringVar(&a.Files.Key, "tls-key", "", "")
	a.AddCallers(cmd)
}

// AddCallers adds the flags about callers.
func (a *ServeAccess) AddCallers(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&a.Files.ClientCA, "client-ca", "", "PEM file of the authorities of client certificates (needs --roles)")
	fl.StringVar(&a.Files.Roles, "roles", "",
		"YAML file of callers, by certificate or token, and their roles (default: every caller may do anything)")
	fl.BoolVar(&a.AllowPlaintext, "allow-plaintext", false, "serve unencrypted on addresses other than loopback")
	fl.BoolVar(&a.allowAnonymous, "allow-anonymous", false, "")
}

// Check checks that the files are given together.
func (a *ServeAccess) Check() error {
	if err := a.Files.Check(); err != nil {
		return UsageError{err}
	}
	return nil
}

// Readable reads the files.
func (a *ServeAccess) Readable() error {
	_, err := access.Open(a.Files, access.Options{})
	return err
}

// permits returns an error if a requirement of listening on the flag's address is missing.
func (a *ServeAccess) permits(flag string, at net.Addr) error {
	if tcp, ok := at.(*net.TCPAddr); !ok || tcp.IP.IsLoopback() {
		return nil
	}
	switch {
	case a.Files.Cert == "" && !a.AllowPlaintext:
		return UsageError{fmt.Errorf("%s: %v is not a loopback address, and connections would not be encrypted: "+
			"give --tls-cert and --tls-key ('autosched admin certs DIR' makes some), or --allow-plaintext", flag, at)}
	case a.Files.Roles == "" && !a.allowAnonymous:
		return UsageError{fmt.Errorf("%s: %v is not a loopback address, and every caller could change everything: "+
			"give --roles, or --allow-anonymous", flag, at)}
	}
	return nil
}

// PermitsAddress is permits before anything is written. The address is checked again once it is open.
func (a *ServeAccess) PermitsAddress(flag, address string) error {
	if _, _, err := net.SplitHostPort(address); err != nil {
		return UsageError{fmt.Errorf("%s: %w", flag, err)}
	}
	at, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return nil // the error of listening names the fault
	}
	return a.permits(flag, at)
}

// Listen opens an address that the flag names, if the access to it is permitted.
func (a *ServeAccess) Listen(flag, address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	if err := a.permits(flag, l.Addr()); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// ConnectFlags say how a client connects to the service.
type ConnectFlags struct {
	Server string
	CA     string
	Cert   string
	Key    string
	Token  string
}

// Add adds the flags to a command and its subcommands.
func (f *ConnectFlags) Add(cmd *cobra.Command) {
	fl := cmd.PersistentFlags()
	fl.StringVar(&f.Server, "server", DefaultAddress, "address of the service, host:port")
	fl.StringVar(&f.CA, "tls-ca", "",
		"PEM file of the authority of the service's certificate, or system for those of the system; encrypts the connection")
	fl.StringVar(&f.Cert, "tls-cert", "", "")
	fl.StringVar(&f.Key, "tls-key", "", "")
	fl.StringVar(&f.Token, "token-file", "", "file of a token that says who calls")
}

// Endpoint is the service as package client takes it.
func (f *ConnectFlags) Endpoint() apiclient.Endpoint {
	return apiclient.Endpoint{Address: f.Server, CA: f.CA, Cert: f.Cert, Key: f.Key, TokenFile: f.Token}
}

// Check checks that the flags of a connection go together.
func (f *ConnectFlags) Check() error {
	if err := f.Endpoint().Check(); err != nil {
		return UsageError{fmt.Errorf("--%w", err)}
	}
	return nil
}

// Dial makes a connection, which the first call opens.
func (f *ConnectFlags) Dial() (*grpc.ClientConn, error) {
	if err := f.Check(); err != nil {
		return nil, err
	}
	conn, err := f.Endpoint().Dial()
	if err != nil {
		return nil, fmt.Errorf("--%w", err)
	}
	return conn, nil
}

// DefaultAddress is where the service listens and where clients look for it.
const DefaultAddress = "127.0.0.1:7443"
