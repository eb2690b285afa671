package main

import (
	"errors"
	"fmt"
	"net"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	"github.com/autosched/autosched/api/access"
	apiclient "github.com/autosched/autosched/client"
)

// serveAccess are the flags of serve for encryption and roles.
type serveAccess struct {
	files          access.Files
	allowPlain     bool
	allowAnonymous bool
}

func (a *serveAccess) add(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&a.files.Cert, "tls-cert", "", "PEM file of the server's certificate and the chain above it; TLS 1.3 only")
	fl.StringVar(&a.files.Key, "tls-key", "", "PEM file of the server's private key")
	a.addCallers(cmd)
}

// addCallers adds the flags about those who call.
func (a *serveAccess) addCallers(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&a.files.ClientCA, "client-ca", "", "PEM file of the authorities of client certificates (needs --roles)")
	fl.StringVar(&a.files.Roles, "roles", "",
		"YAML file of callers, by certificate or token, and their roles (default: every caller may do anything)")
	fl.BoolVar(&a.allowPlain, "allow-plaintext", false, "serve unencrypted on addresses other than loopback")
	fl.BoolVar(&a.allowAnonymous, "allow-anonymous", false,
		"serve without --roles on addresses other than loopback: every caller may do anything")
}

func (a *serveAccess) check() error {
	if err := a.files.Check(); err != nil {
		return usageError{err}
	}
	return nil
}

// readable reads the files.
func (a *serveAccess) readable() error {
	_, err := access.Open(a.files, access.Options{})
	return err
}

// permits says what is missing to listen on an address that the flag names.
func (a *serveAccess) permits(flag string, at net.Addr) error {
	if tcp, ok := at.(*net.TCPAddr); !ok || tcp.IP.IsLoopback() {
		return nil
	}
	switch {
	case a.files.Cert == "" && !a.allowPlain:
		return usageError{fmt.Errorf("%s: %v is not a loopback address, and connections would not be encrypted: "+
			"give --tls-cert and --tls-key ('autosched certs DIR' makes some), or --allow-plaintext", flag, at)}
	case a.files.Roles == "" && !a.allowAnonymous:
		return usageError{fmt.Errorf("%s: %v is not a loopback address, and every caller could change everything: "+
			"give --roles, or --allow-anonymous", flag, at)}
	}
	return nil
}

// permitsAddress is permits before anything is written. The address is checked again once it is open.
func (a *serveAccess) permitsAddress(flag, address string) error {
	if _, _, err := net.SplitHostPort(address); err != nil {
		return usageError{fmt.Errorf("%s: %w", flag, err)}
	}
	at, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return nil // to listen says what is wrong
	}
	return a.permits(flag, at)
}

// listen opens an address that the flag names, if the access to it is permitted.
func (a *serveAccess) listen(flag, address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	if err := a.permits(flag, l.Addr()); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// connectFlags say how a client connects to the service.
type connectFlags struct {
	server string
	ca     string
	cert   string
	key    string
	token  string
}

// add adds the flags to a command and those below it.
func (f *connectFlags) add(cmd *cobra.Command) {
	fl := cmd.PersistentFlags()
	fl.StringVar(&f.server, "server", defaultAddress, "address of the service, host:port")
	fl.StringVar(&f.ca, "tls-ca", "",
		"PEM file of the authority of the service's certificate, or system for those of the system; encrypts the connection")
	fl.StringVar(&f.cert, "tls-cert", "", "PEM file of the client certificate that says who calls")
	fl.StringVar(&f.key, "tls-key", "", "PEM file of its private key")
	fl.StringVar(&f.token, "token-file", "", "file of a token that says who calls")
}

// endpoint is the service as package client takes it.
func (f *connectFlags) endpoint() apiclient.Endpoint {
	return apiclient.Endpoint{Address: f.server, CA: f.ca, Cert: f.cert, Key: f.key, TokenFile: f.token}
}

func (f *connectFlags) check() error {
	if err := f.endpoint().Check(); err != nil {
		return usageError{fmt.Errorf("--%w", err)}
	}
	return nil
}

// dial makes a connection, which the first call opens.
func (f *connectFlags) dial() (*grpc.ClientConn, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	conn, err := f.endpoint().Dial()
	if err != nil {
		return nil, fmt.Errorf("--%w", err)
	}
	return conn, nil
}
