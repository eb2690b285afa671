package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/autosched/autosched/api/access"
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
	files, err := access.Open(a.files, access.Options{})
	if err != nil {
		return err
	}
	files.Close()
	return nil
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

// systemRoots is a --tls-ca that names the authorities of the system.
const systemRoots = "system"

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

func (f *connectFlags) check() error {
	host, _, err := net.SplitHostPort(f.server)
	if err != nil && !strings.Contains(f.server, ":/") { // as in unix:/run/autosched
		return usageError{fmt.Errorf("--server: %q is not host:port", f.server)}
	}
	switch {
	case (f.cert == "") != (f.key == ""):
		return usageError{errors.New("--tls-cert and --tls-key: one is missing")}
	case f.cert != "" && f.ca == "":
		return usageError{errors.New("--tls-cert: needs --tls-ca, the authority of the service's certificate, or " +
			"--tls-ca system")}
	case f.token != "" && f.ca == "" && !loopback(host):
		return usageError{fmt.Errorf("--token-file: needs --tls-ca: a token is not sent unencrypted to %s", f.server)}
	}
	return nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// options are those of the connection. Certificates and tokens are read again when
// they are used, so that they rotate under a client that keeps running.
func (f *connectFlags) options() ([]grpc.DialOption, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	transport := insecure.NewCredentials()
	if f.ca != "" {
		config, err := f.tls()
		if err != nil {
			return nil, err
		}
		transport = credentials.NewTLS(config)
	}
	out := []grpc.DialOption{grpc.WithTransportCredentials(transport)}
	if f.token != "" {
		if _, err := readToken(f.token); err != nil {
			return nil, err
		}
		out = append(out, grpc.WithPerRPCCredentials(tokenFile{f.token, f.ca != ""}))
	}
	return out, nil
}

func (f *connectFlags) tls() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS13}
	if f.ca != systemRoots {
		text, err := os.ReadFile(filepath.Clean(f.ca))
		if err != nil {
			return nil, fmt.Errorf("--tls-ca: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("--tls-ca: %s has no certificate in PEM", f.ca)
		}
	}
	if f.cert != "" {
		read := func() (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(f.cert, f.key)
			if err != nil {
				return nil, fmt.Errorf("--tls-cert and --tls-key: %w", err)
			}
			return &pair, nil
		}
		if _, err := read(); err != nil {
			return nil, err
		}
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return read() }
	}
	return config, nil
}

// readToken reads a token, without the blanks around it.
func readToken(path string) (string, error) {
	text, err := os.ReadFile(filepath.Clean(path))
	if err != nil {
		return "", fmt.Errorf("--token-file: %w", err)
	}
	token := strings.TrimSpace(string(text))
	if token == "" || strings.ContainsAny(token, "\r\n") {
		return "", fmt.Errorf("--token-file: %s is not one line with a token", path)
	}
	return token, nil
}

// tokenFile sends the token of a file with every call.
type tokenFile struct {
	path      string
	encrypted bool
}

// GetRequestMetadata implements [credentials.PerRPCCredentials].
func (t tokenFile) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	token, err := readToken(t.path)
	if err != nil {
		return nil, err
	}
	return map[string]string{"authorization": "Bearer " + token}, nil
}

// RequireTransportSecurity implements [credentials.PerRPCCredentials]. Plain
// connections are those to a loopback address.
func (t tokenFile) RequireTransportSecurity() bool { return t.encrypted }
